"""What is measured in SQL: each job returns a section of RESULTS.md."""

import re
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

import duckdb

import dp_sql
from benchmarks.measure import (
    TOP_ITEMS,
    compared,
    file_of,
    in_fresh_process,
    load,
    missing,
    present,
    timed,
)
from benchmarks.spending import budget
from dp_sql.session.analyst import AnalystSession

SETS = ("gowalla", "amazon_book_kgat", "retail_baskets", "imdb_words")
UNIT = "epsilon := 1, privacy_unit := user_id"


def top_k() -> list[str]:
    lines = [
        "## DP_TOPK",
        "",
        "Baseline: `SELECT item, count(DISTINCT user_id) n … GROUP BY item ORDER BY n DESC LIMIT k`"
        " on the same table. Goal: at most 1.5 ×.",
        "",
        "| table | domain | k | private ms | without ms | ratio |",
        "|---|---|---|---|---|---|",
    ]
    with dp_sql.connect() as session:
        for name in filter(present, SETS):
            load(session, name)
            for k in (10, 50, 100):
                lines.append(_top_k(session, name, "domain := observed", k, "observed"))
            lines.append(_top_k(session, name, "delta := 1e-6", 50, "unknown"))
        session.execute(
            "CREATE TABLE seen AS SELECT CAST(floor(30000 * random()) AS INTEGER) AS user_id, "
            "'item ' || CAST(floor(60000 * pow(random(), 3)) AS INTEGER) AS item "
            "FROM range(2000000)"
        )
        for size, key in ((100_000, ""), (1_000_000, ""), (1_000_000, "PRIMARY KEY")):
            session.execute(f"CREATE OR REPLACE TABLE public (item VARCHAR {key})")
            session.execute(f"INSERT INTO public SELECT 'item ' || i FROM range({size}) r(i)")
            shown = f"{size:,} strings{', a primary key' if key else ''}"
            lines.append(_top_k(session, "seen", "domain := public.item", 100, shown))
    return lines + missing(SETS)


def _top_k(session: dp_sql.Session, name: str, argument: str, k: int, domain: str) -> str:
    call = f"DP_TOPK(item, {k}, {UNIT}, {argument})"
    found = compared(session, f"SELECT {call} FROM {name}", TOP_ITEMS.format(name, k))
    return f"| {name} | {domain} | {k} | {found} |"


def count_distinct() -> list[str]:
    lines = [
        "## DP_COUNT_DISTINCT",
        "",
        "Matching, the bounds 1, 2, 4, ... 100000. Baseline: `SELECT count(*) FROM (SELECT DISTINCT user_id, "
        "item …)`. Goal: at most 3 ×. Memory is the peak of a separate process. Bytes a pair is that peak minus "
        "the baseline's and minus what the libraries need by themselves ("
        "pyarrow, measured on a source without rows), per (person, item) pair; goal: 120 bytes.",
        "",
        "| table | pairs | private ms | without ms | ratio | private MB | without MB | libraries MB "
        "| bytes a pair |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in filter(present, SETS):
        with dp_sql.connect() as session:
            load(session, name)
            plain = f"SELECT count(*) FROM (SELECT DISTINCT user_id, item FROM {name})"
            private = f"SELECT DP_COUNT_DISTINCT(item, {UNIT}) FROM {name}"
            pairs = session.sql(plain).fetchall()[0][0]
            found = compared(session, private, plain)
        with_privacy = _peak(name, f"session.sql({private!r}).fetchall()")
        without = _peak(name, f"session.sql({plain!r}).fetchall()")
        libraries = _peak(name, f"session.sql({private + ' WHERE user_id = -1'!r}).fetchall()")
        libraries -= _peak(name, "session.sql('SELECT 1').fetchall()")
        per_pair = 1024**2 * (with_privacy - libraries - without) / pairs
        lines.append(
            f"| {name} | {pairs:,} | {found} | {with_privacy:.0f} | {without:.0f} | {libraries:.0f} | {per_pair:.0f} |"
        )
    return lines + missing(SETS)


def _peak(name: str, question: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bench.duckdb"
        with dp_sql.connect(str(file)) as session:
            load(session, name)
        program = (
            f"import dp_sql\nwith dp_sql.connect({str(file)!r}, read_only=True) as session:\n"
            f"    {question}\n"
        )
        return statistics.median(in_fresh_process(program)["peak"] for _ in range(5))


def first_answer() -> list[str]:
    lines = [
        "## First answer of a new process",
        "",
        "Import, connect, first answer, exit, with compiled modules, as pip installs them. Goals: at "
        "most 0.3 s more than plain DuckDB for DP_TOPK, 0.6 s for DP_COUNT_DISTINCT.",
        "",
        "| question | seconds | more than plain DuckDB |",
        "|---|---|---|",
    ]
    table = (
        "con.execute('CREATE TABLE t AS SELECT i % 999 AS u, i % 77 AS x FROM range(99999) r(i)')"
    )
    plain = f"import duckdb\ncon = duckdb.connect()\n{table}\n"
    ours = f"import dp_sql\ncon = dp_sql.connect()\n{table}\n"
    programs = {
        "plain DuckDB": plain + "con.sql('SELECT count(DISTINCT x) FROM t').fetchall()",
        "DP_TOPK": ours + "con.sql('SELECT DP_TOPK(x, 5, epsilon := 1, privacy_unit := u, "
        "domain := observed) FROM t').fetchall()",
        "DP_COUNT_DISTINCT": ours + "con.sql('SELECT DP_COUNT_DISTINCT(x, epsilon := 1, "
        "privacy_unit := u) FROM t').fetchall()",
    }
    base = 0.0
    for name, program in programs.items():
        in_fresh_process(program)
        seconds = statistics.median(in_fresh_process(program)["seconds"] for _ in range(5))
        base = base or seconds
        lines.append(f"| {name} | {seconds:.2f} | {seconds - base:+.2f} |")
    for name in ("DP_TOPK", "DP_COUNT_DISTINCT"):
        table_and_call = "; ".join(re.findall(r"'((?:CREATE|SELECT).+?)'\)", programs[name]))
        words = "-m", "dp_sql", "shell", ":memory:", "-c", table_and_call
        timed(*words)
        seconds = statistics.median(timed(*words)[0] for _ in range(5))
        lines.append(f"| {name}, `dp-sql shell -c` | {seconds:.2f} | {seconds - base:+.2f} |")
    return lines


def under_policy() -> list[str]:
    """The same queries under a policy, where the answer crosses to a second DuckDB instance."""
    lines = [
        "## Under a policy",
        "",
        "An analyst's session: the source is compiled, and the answer is copied to the public side. "
        "Baselines as above.",
        "",
        "| table | question | private ms | without ms | ratio |",
        "|---|---|---|---|---|",
    ]
    names = tuple(filter(present, ("gowalla", "imdb_words")))
    with tempfile.TemporaryDirectory() as folder:
        database, policy = Path(folder) / "all.duckdb", Path(folder) / "policy.toml"
        with duckdb.connect(str(database)) as con:
            for name in names:
                con.execute(f"CREATE TABLE {name} AS FROM '{file_of(name)}'")
                con.execute(f"CREATE TABLE items_{name} AS SELECT DISTINCT item FROM {name}")
        sections = [f'[tables.{name}]\nprivacy_unit = "user_id"' for name in names]
        public = ", ".join(f'"items_{name}"' for name in names)
        domains = [f'"{name}.item" = "items_{name}.item"' for name in names]
        policy.write_text(
            "\n".join([*sections, f"[public]\ntables = [{public}]", "[domains]", *domains]), "utf-8"
        )
        with (
            dp_sql.connect(str(database), policy=str(policy)) as session,
            duckdb.connect(str(database), read_only=True) as con,
        ):
            for name in names:
                lines += _under_policy(session, con, name)
    return lines + missing(("gowalla", "imdb_words"))


def _under_policy(session: AnalystSession, con: duckdb.DuckDBPyConnection, name: str) -> list[str]:
    grouped = (
        f"SELECT m, DP_TOPK(item, 10, epsilon := 1, max_groups_contributed := 1, "
        f"groups := ['0', '1', '2']) FROM (SELECT user_id, item, "
        f"substr(CAST(user_id AS VARCHAR), 1, 1) AS m FROM {name}) GROUP BY m"
    )
    top = "count(DISTINCT user_id) n FROM"
    questions = {
        "DP_TOPK, k = 50": (
            f"SELECT DP_TOPK(item, 50, epsilon := 1) FROM {name}",
            TOP_ITEMS.format(name, 50),
        ),
        "DP_COUNT_DISTINCT": (
            f"SELECT DP_COUNT_DISTINCT(item, epsilon := 1) FROM {name}",
            f"SELECT count(*) FROM (SELECT DISTINCT user_id, item FROM {name})",
        ),
        "DP_TOPK, k = 10, 3 groups": (
            grouped,
            f"SELECT m, item, {top} (SELECT *, substr(CAST(user_id AS VARCHAR), 1, 1) AS m "
            f"FROM {name}) WHERE m IN ('0', '1', '2') GROUP BY m, item "
            "QUALIFY row_number() OVER (PARTITION BY m ORDER BY n DESC) <= 10",
        ),
    }
    lines = []
    for question, (ours, theirs) in questions.items():
        lines.append(f"| {name} | {question} | {compared(session, ours, theirs, con)} |")
    return lines


ALL: tuple[Callable[[], list[str]], ...] = (
    top_k,
    count_distinct,
    under_policy,
    budget,
    first_answer,
)
