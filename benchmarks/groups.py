"""DP calls with GROUP BY over public groups against the same SELECT without privacy, in CPU time."""

import statistics
import time

import dp_sql
from benchmarks.measure import file_of, present

ROUNDS = 5


def _made(person: str = "hash(i) % 200000", n_groups: int = 12, n_items: int = 50_000) -> str:
    """A million rows of a person in a group with an item."""
    return (
        f"SELECT {person} AS user_id, 'group ' || hash(i * 7) % {n_groups} AS g, "
        f"CAST(hash(i * 31) % {n_items} AS INTEGER) AS item FROM range(1000000) r(i)"
    )


_TABLES = {
    "gowalla": "SELECT user_id, 'group ' || hash(item) % 12 AS g, item FROM '{}'",
    "200,000 people": _made(),
    "200,000 people as text": _made("'person ' || hash(i) % 200000"),
    "200 people": _made("hash(i) % 200"),
    "120 groups": _made(n_groups=120),
    "10,000 groups": _made(n_groups=10_000, n_items=20),
}
_N_GROUPS = {"120 groups": 120, "10,000 groups": 10_000}  # else 12
_GIVEN = "epsilon := 1, privacy_unit := user_id{}"
_TOP_PLAIN = (
    "SELECT g, item FROM (FROM seen SELECT g, item, count(DISTINCT user_id) AS n GROUP BY ALL) "
    "QUALIFY row_number() OVER (PARTITION BY g ORDER BY n DESC) <= 10"
)
_QUESTIONS = {  # what is asked: with privacy, and without
    "count(DISTINCT user_id)": (f"DP_COUNT_DISTINCT(user_id, {_GIVEN})", "count(DISTINCT user_id)"),
    "count(*)": (f"DP_COUNT(*, {_GIVEN})", "count(*)"),
    "sum(item)": (f"DP_SUM(item, {_GIVEN})", "sum(item)"),
    "top 10 items": (f"DP_TOPK(item, 10, {_GIVEN}, domain := observed)", _TOP_PLAIN),
    "top 10 items, no domain": (f"DP_TOPK(item, 10, {_GIVEN}, delta := 1e-6)", _TOP_PLAIN),
}
_DATES = (
    "CREATE OR REPLACE TABLE seen AS SELECT hash(i) % 200000 AS user_id, "
    "DATE '2016-01-01' + CAST(hash(i * 7) % 3652 AS INTEGER) AS day FROM range(10000000) r(i)"
)
_MONTHS = (
    "CREATE OR REPLACE TABLE months AS SELECT CAST(unnest(generate_series("
    "DATE '2016-01-01', DATE '2025-12-01', INTERVAL 1 MONTH)) AS DATE) AS month"
)


def groups() -> list[str]:
    """CPU milliseconds, because both sides use all cores: each question with and without a cap."""
    lines = [
        "## Groups",
        "",
        "gowalla in 12 groups by item, and 10⁶ rows in 12, 120 or 10,000 groups, which are public strings; CPU ms, "
        f"the median of {ROUNDS} rounds. Goal: at most 1.5 ×. A private count or sum of rows must group rows "
        "by person, which the plain one need not: the ratio in brackets is to `GROUP BY user_id, g` and the "
        "same over its rows. A cap is max_groups_contributed.",
        "",
        "| table | question | cap | private | without | ratio |",
        "|---|---|---|---|---|---|",
    ]
    for name, source in _TABLES.items():
        if name == "gowalla" and not present(name):
            continue
        n = _N_GROUPS.get(name, 12)
        with dp_sql.connect() as session:  # one for each, as estimates of rows are remembered
            session.execute(f"CREATE TABLE seen AS {source.format(file_of(name))}")
            session.execute(
                f"CREATE TABLE listed AS SELECT 'group ' || i AS g FROM range({n}) r(i)"
            )
            for question in _QUESTIONS:
                caps = (None, 3) if "count(" in question else (3,)
                lines += [_row(session, name, question, cap) for cap in caps]
    return lines


def histograms() -> list[str]:
    """A count of people by month: public months, and months that are found."""
    lines = [
        "## Histograms",
        "",
        "10⁷ rows of 200,000 people on 3,652 days, by `date_trunc('month', day)`; CPU ms, the median of "
        f"{ROUNDS} rounds. Goal: at most 2 ×.",
        "",
        "| question | private | without | ratio |",
        "|---|---|---|---|",
    ]
    by = "SELECT date_trunc('month', day) AS month, {} FROM seen GROUP BY month"
    with dp_sql.connect() as session:
        session.execute(_DATES)
        session.execute(_MONTHS)
        for name, groups_of in (("", ", groups := months.month"), (", unknown", ", delta := 1e-6")):
            for question in ("count(DISTINCT user_id)", "count(*)"):
                ours, theirs = _QUESTIONS[question]
                call = ours.format(groups_of)
                found = _cpu(session, by.format(call), by.format(theirs))
                private, plain = map(statistics.median, zip(*found, strict=True))
                lines.append(
                    f"| {question}{name} | {private:,.0f} | {plain:,.0f} | {private / plain:.2f} |"
                )
    return lines


def _row(session: dp_sql.Session, table: str, question: str, cap: int | None) -> str:
    ours, theirs = _QUESTIONS[question]
    capped = "" if cap is None else f", max_groups_contributed := {cap}"
    private = f"SELECT g, {ours.format(f', groups := listed.g{capped}')} FROM seen GROUP BY g"
    plain = theirs if theirs.startswith("SELECT") else f"SELECT g, {theirs} FROM seen GROUP BY g"
    asked = [private, plain]
    if question in ("count(*)", "sum(item)"):
        inner = f"SELECT user_id, g, {theirs} AS n FROM seen GROUP BY ALL"
        asked.append(f"SELECT g, sum(n) FROM ({inner}) GROUP BY g")
    mine, *others = map(statistics.median, zip(*_cpu(session, *asked), strict=True))
    ratio = f"{mine / others[0]:.2f}" + "".join(f" ({mine / each:.2f})" for each in others[1:])
    return f"| {table} | {question} | {cap or 'none'} | {mine:.0f} | {others[0]:.0f} | {ratio} |"


def _cpu(session: dp_sql.Session, *queries: str) -> list[list[float]]:
    """CPU milliseconds of each query in each round, after a round that is not counted."""
    return [[_time(session, query) for query in queries] for _ in range(ROUNDS + 1)][1:]


def _time(session: dp_sql.Session, query: str) -> float:
    start = time.process_time()
    session.sql(query).fetchall()
    return 1000 * (time.process_time() - start)


if __name__ == "__main__":
    print("\n".join([*groups(), "", *histograms()]))
