"""What a question over a small table costs above the same question without privacy."""

import statistics
import tempfile
import time
from pathlib import Path

import duckdb

import dp_sql

N_ROWS, N_PEOPLE = 9_000, 900
_ROUNDS, _AT_ONCE = 12, 5
_TABLES = f"""
CREATE TABLE seen AS SELECT i % {N_PEOPLE} AS user_id, 'item ' || (i * 7 % 77 + i % 13) AS item,
    'group ' || (i * i % 6) AS g, CAST(i % 100 AS INTEGER) AS v FROM range({N_ROWS}) r(i);
CREATE TABLE groups AS SELECT DISTINCT g FROM seen;
CREATE TABLE items AS SELECT DISTINCT item FROM seen;
CREATE VIEW visits AS SELECT user_id, trim(g) AS g, v FROM seen WHERE v >= 0;
"""
_POLICY = """
tables.seen.privacy_unit = "user_id"
public.tables = ["groups", "items"]
views.tables = ["visits"]
domains."seen.item" = "items.item"
limits.max_delta_per_query = 1e-9
budget = { dataset = "small", epsilon = 1000000, delta = 9e-4 }
"""
_LIST = (
    "SELECT item, count(DISTINCT user_id) AS n FROM seen{0} GROUP BY item ORDER BY n DESC LIMIT 10"
)
_TOP = "SELECT DP_TOPK(item, 10, epsilon := 1{1}%s) FROM seen{0}"
_OF_ITEMS = ", domain := items.item"
_TESTED = (
    "FROM visits{0} AND lower(coalesce(g, '')) LIKE 'group%' AND CAST(v + 1 AS VARCHAR) <> '7'"
)
_CASES = {  # the private question, the plain one, the goal in milliseconds
    "DP_COUNT": ("SELECT DP_COUNT(*, epsilon := 1{1}) FROM seen{0}", "SELECT count(*) FROM seen{0}", 5),
    "DP_COUNT, functions, a view": (
        f"SELECT DP_COUNT(*, epsilon := 1{{1}}) {_TESTED}", f"SELECT count(*) {_TESTED}", 5,
    ),
    "DP_COUNT_DISTINCT": (
        "SELECT DP_COUNT_DISTINCT(item, epsilon := 1{1}) FROM seen{0}",
        "SELECT count(DISTINCT item) FROM seen{0}", 5,
    ),
    "DP_TOPK": (_TOP % _OF_ITEMS, _LIST, 5),
    "DP_TOPK, no domain": (
        "SELECT DP_TOPK(v, 10, epsilon := 1{1}, delta := 1e-9) FROM seen{0}",
        "SELECT v, count(DISTINCT user_id) AS n FROM seen{0} GROUP BY v ORDER BY n DESC LIMIT 10", 8,
    ),
    "DP_TOPK with counts": (_TOP % f"{_OF_ITEMS}, counts := true", _LIST, 8),
    "DP_COUNT, GROUP BY": (
        "SELECT g, DP_COUNT(*, epsilon := 1{1}, groups := groups.g) FROM seen{0} GROUP BY g",
        "SELECT g, count(*) FROM seen{0} GROUP BY g", 8,
    ),
    "DP_SUM, GROUP BY": (
        "SELECT g, DP_SUM(v, epsilon := 1{1}, groups := groups.g, max_groups_contributed := 3) "
        "FROM seen{0} GROUP BY g",
        "SELECT g, sum(v) FROM seen{0} GROUP BY g", 8,
    ),
}  # fmt: skip


def small_tables() -> list[str]:
    """CPU milliseconds above DuckDB, for three kinds of session, a known text and a new one."""
    lines = [
        "## A small table",
        "",
        f"{N_ROWS:,} rows of {N_PEOPLE} people: CPU milliseconds above DuckDB's own answer, the 10th percentile "
        f"of {_ROUNDS * _AT_ONCE} answers, asked in turns. The analyst has a policy and a budget; a plain call is "
        "one on a DuckDB connection with dp_sql.install, and with GROUP BY it is inside dp($$ … $$). A known "
        "statement was asked before; a new one has another number in WHERE.",
        "",
        "| question | owner, known | owner, new | analyst, known | analyst, new | plain, known | plain, new "
        "| DuckDB | goal |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        database, policy = Path(folder, "small.duckdb"), Path(folder, "policy.toml")
        policy.write_text(_POLICY, "utf-8")
        with duckdb.connect(str(database)) as plain:
            plain.execute(_TABLES)
        with (
            dp_sql.connect(str(database), policy=policy, analyst="ann") as analyst,
            dp_sql.connect() as owner,
            dp_sql.install(duckdb.connect()) as plain,
        ):
            for table in filter(str.strip, _TABLES.split(";")):
                owner.execute(table)
                plain.execute(table)
            lines += [_row(name, owner, analyst, plain) for name in _CASES]
    return lines


def _row(
    name: str, owner: dp_sql.Session, analyst: dp_sql.Session, plain: duckdb.DuckDBPyConnection
) -> str:
    private, without, goal = _CASES[name]
    where, unit = " WHERE user_id <> {0}", ", privacy_unit := user_id"
    of_owner = private.format(where, unit)
    of_plain = of_owner.replace("(*", "(1")
    asked = {  # the session, the statement with a place for a number, whether it is a new one
        "without": (owner, without.format(where), True),
        **{
            f"{who} {is_new}": (session, statement, is_new)
            for who, session, statement in (
                ("owner", owner, of_owner),
                ("analyst", analyst, private.format(where, "")),
                ("plain", plain, f"FROM dp($$ {of_owner} $$)" if "GROUP BY" in name else of_plain),
            )
            for is_new in (False, True)
        },
    }
    times: dict[str, list[float]] = {which: [] for which in asked}
    number = N_PEOPLE
    for turn in range(_ROUNDS + 1):
        for which, (session, statement, is_new) in asked.items():
            for _ in range(_AT_ONCE):
                number += 1
                spent = _cpu(session, statement.format(number if is_new else 5))
                times[which] += [spent] if turn else []
    least = {which: statistics.quantiles(spent, n=10)[0] for which, spent in times.items()}
    plainly = least.pop("without")
    cells = " | ".join(f"{spent - plainly:.1f}" for spent in least.values())
    return f"| {name} | {cells} | {plainly:.1f} | {goal} |"


def _cpu(session: dp_sql.Session | duckdb.DuckDBPyConnection, statement: str) -> float:
    start = time.process_time()
    session.execute(statement).fetchall()
    return 1000 * (time.process_time() - start)
