"""DP_QUANTILE: its error on real data beside naive noise, and its time beside DuckDB's median."""

import statistics
from fractions import Fraction
from functools import partial

import dp_sql
from benchmarks.measure import fetch, file_of, median, present
from dp_sql.udfs.discrete_laplace import discrete_laplace
from dp_sql.udfs.exact_sampling import secret_draws

SETS = ("amazon_fashion_words", "gowalla", "amazon_book_kgat", "retail_baskets", "imdb_words")
UPPER, RUNS = 10_000, 25
_ROWS = "(SELECT user_id, count(*) AS n FROM {} GROUP BY user_id)"


def quantiles() -> list[str]:
    """Quartiles of the rows per person, and the time of a median of 10^7 rows."""
    lines = [
        "## DP_QUANTILE",
        "",
        f"Quartiles of the number of rows per person, between 0 and {UPPER:,}: the exact ones, and the mean distance "
        f"of the three answers to them over {RUNS} runs. Naive: each quartile with noise for its global "
        "sensitivity, which is the range, at ε/3.",
        "",
        "| table | people | exact | ε | DP_QUANTILE | naive |",
        "|---|---|---|---|---|---|",
    ]
    with dp_sql.connect() as session:
        for name in filter(present, SETS):
            rows = _ROWS.format(f"'{file_of(name)}'")
            session.execute(f"CREATE TABLE {name} AS FROM {rows}")
            lines += [_error(session, name, epsilon) for epsilon in ("0.1", "1")]
        return [*lines, "", *_time(session)]


def _error(session: dp_sql.Session, name: str, epsilon: str) -> str:
    (row,) = session.execute(
        f"SELECT count(*), quantile_disc(n, [0.25, 0.5, 0.75]) FROM {name}"
    ).fetchall()
    people, exact = row
    call = (
        f"SELECT DP_QUANTILE(n, [0.25, 0.5, 0.75], epsilon := {epsilon}, "
        f"privacy_unit := user_id, lower := 0, upper := {UPPER}) FROM {name}"
    )
    ours = [session.sql(call).fetchall()[0][0] for _ in range(RUNS)]
    draws = secret_draws()
    rate = Fraction(epsilon) / (3 * UPPER)
    naive = [[x + discrete_laplace(rate, draws) for x in exact] for _ in range(RUNS)]
    far = [
        statistics.mean(abs(a - b) for answer in found for a, b in zip(answer, exact, strict=True))
        for found in (ours, naive)
    ]
    return f"| {name} | {people:,} | {exact} | {epsilon} | {far[0]:.2f} | {far[1]:,.0f} |"


def _time(session: dp_sql.Session) -> list[str]:
    session.execute(
        "CREATE TABLE seen AS SELECT (hash(i) % 1000000)::INTEGER AS user_id, "
        "(hash(i * 7) % 1000)::INTEGER AS x FROM range(10000000) AS r(i)"
    )
    call = "DP_MEDIAN(x, epsilon := 1, privacy_unit := user_id, lower := 0, upper := 1000)"
    times = [
        median(partial(fetch, session, query), 3)
        for query in (
            f"SELECT {call} FROM seen",
            "SELECT median(x) FROM seen",
            "SELECT count(m) FROM (SELECT max(x) AS m FROM seen GROUP BY user_id) WHERE m >= 0",
        )
    ]
    ours, plain, people = times
    return [
        f"10⁷ rows of 10⁶ people: {ours:,.0f} ms; `median(x)` {plain:,.0f} ms ({ours / plain:.1f} ×); "
        f"`max(x) … GROUP BY user_id` {people:,.0f} ms ({ours / people:.1f} ×)."
    ]
