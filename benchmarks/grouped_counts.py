"""`python -m benchmarks.grouped_counts`: counts of rows per group, with and without a cap.

What is measured: DP_COUNT(*) … GROUP BY over public groups. Without a cap, one limit on a person's
rows, in each group or in all, is chosen (chosen_norm). With a cap of c groups per person, each group
has a bound of its own, at ε/c.
"""

import statistics
from collections.abc import Iterator

import numpy as np

import dp_sql
from benchmarks.measure import file_of, missing, present

SETS = ("amazon_fashion_words", "retail_baskets", "gowalla", "amazon_book_kgat")
GROUPS = (("item", 4), ("item", 12), ("item", 48), ("user_id", 12))  # a hash of what, how many
CAPS = (1, 3, 10)
EPSILONS = ("0.1", "1")
RUNS = 5


def grouped_counts() -> list[str]:
    """The error of all counts, as a part of the mean count."""
    heads = [f"cap {cap}" for cap in CAPS]
    lines = [
        "## Counts of rows in groups",
        "",
        "`SELECT g, DP_COUNT(*) … GROUP BY g` over public groups, g = the item hashed to 4, 12 or 48 numbers, or the person (12 "
        "groups, one for each person). The error is the root mean square over all groups in percent of the mean count, the median "
        f"of {RUNS} answers; rows that a cap or a bound leaves out count as an error. A cap is max_groups_contributed.",
        "",
        f"| table | groups | groups per person | ε | no cap | {' | '.join(heads)} |",
        f"|---|---|---|---|---|{'---|' * len(CAPS)}",
    ]
    with dp_sql.connect() as session:
        for name in filter(present, SETS):
            for column, n in GROUPS:
                lines += _rows(session, name, column, n)
    return lines + missing(SETS)


def _rows(session: dp_sql.Session, name: str, column: str, n: int) -> Iterator[str]:
    session.execute(
        f"CREATE OR REPLACE TABLE seen AS SELECT user_id, CAST(hash({column}) % {n} AS INTEGER) AS g "
        f"FROM '{file_of(name)}'"
    )
    true = _counts(session, "count(*)")
    ((each,),) = session.execute(
        "SELECT avg(n) FROM (SELECT count(DISTINCT g) AS n FROM seen GROUP BY user_id)"
    ).fetchall()
    for epsilon in EPSILONS:
        caps = ["", *(f", max_groups_contributed := {cap}" for cap in CAPS if cap < n)]
        shown = [f"{_error(session, true, n, epsilon, cap):.1%}" for cap in caps]
        shown += ["–"] * (1 + len(CAPS) - len(shown))
        yield f"| {name} | {n} | {each:.1f} | {epsilon} | {' | '.join(shown)} |"


def _error(session: dp_sql.Session, true: np.ndarray, n: int, epsilon: str, cap: str) -> float:
    call = f"DP_COUNT(*, epsilon := {epsilon}, privacy_unit := user_id, groups := range({n}){cap})"
    errors = [float(np.sqrt(((_counts(session, call) - true) ** 2).mean())) for _ in range(RUNS)]
    return statistics.median(errors) / float(true.mean())


def _counts(session: dp_sql.Session, count: str) -> np.ndarray:
    sql = f"SELECT g, {count} AS n FROM seen GROUP BY g ORDER BY g"
    return np.asarray(session.execute(sql).fetchnumpy()["n"], dtype=float)


if __name__ == "__main__":
    print("\n".join(grouped_counts()))
