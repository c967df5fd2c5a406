"""`python -m benchmarks.grouped_counts`: counts of rows and of people per group, with and without a cap.

Over public groups. Without a cap, what a person adds to each count or to all of them is limited
(k_norm, chosen_norm). With a cap of c groups per person, each group is counted by itself, at ε/c.
"""

import statistics
from collections.abc import Iterator

import numpy as np

import dp_sql
from benchmarks.measure import file_of, missing, present

SETS = ("amazon_fashion_words", "retail_baskets", "gowalla", "amazon_book_kgat")
ASKED = {
    "rows": ("DP_COUNT(*", "count(*)", (("item", 4), ("item", 12), ("item", 48), ("user_id", 12))),
    "rows, bound 3": ("DP_COUNT(*, contribution_bound := 3", "count(*)", (("item", 365),)),
    "people": (
        "DP_COUNT_DISTINCT(user_id", "count(DISTINCT user_id)",
        (("item", 12), ("item", 48), ("item", 365)),
    ),
}  # fmt: skip
"""The call, what it counts, and the groups: a hash of what, and how many."""
CAPS = (1, 3, 10)
EPSILONS = ("0.1", "1")
RUNS = 5


def grouped_counts() -> list[str]:
    """The errors of all counts, as a part of the mean count."""
    heads = [f"cap {cap}" for cap in CAPS]
    lines = [
        "## Counts in groups",
        "",
        "`SELECT g, DP_COUNT(*) … GROUP BY g`, also with `contribution_bound := 3`, and `DP_COUNT_DISTINCT(user_id)`, over public groups, g = the item hashed to so many "
        "numbers, or the person (12 groups, one for each person). The error is the root mean square over all groups in percent of "
        f"the mean count, the median of {RUNS} answers; what a cap or a bound leaves out counts as an error. A cap is "
        "max_groups_contributed.",
        "",
        f"| table | counted | groups | groups per person | ε | no cap | {' | '.join(heads)} |",
        f"|---|---|---|---|---|---|{'---|' * len(CAPS)}",
    ]
    with dp_sql.connect() as session:
        for name in filter(present, SETS):
            for what, (call, counted, groups) in ASKED.items():
                for column, n in groups:
                    session.execute(
                        "CREATE OR REPLACE TABLE seen AS "
                        f"SELECT user_id, CAST(hash({column}) % {n} AS INTEGER) AS g FROM '{file_of(name)}'"
                    )
                    lines += [
                        f"| {name} | {what} | {row}" for row in _rows(session, call, counted, n)
                    ]
    return lines + missing(SETS)


def _rows(session: dp_sql.Session, call: str, counted: str, n: int) -> Iterator[str]:
    true = np.zeros(n)
    for g, number in session.execute(f"SELECT g, {counted} FROM seen GROUP BY g").fetchall():
        true[g] = number
    ((each,),) = session.execute(
        "SELECT avg(n) FROM (SELECT count(DISTINCT g) AS n FROM seen GROUP BY user_id)"
    ).fetchall()
    for epsilon in EPSILONS:
        caps = ["", *(f", max_groups_contributed := {cap}" for cap in CAPS if cap < n)]
        asked = f"{call}, epsilon := {epsilon}, privacy_unit := user_id, groups := range({n})"
        shown = [f"{_error(session, true, f'{asked}{cap})'):.1%}" for cap in caps]
        shown += ["–"] * (1 + len(CAPS) - len(shown))
        yield f"{n} | {each:.1f} | {epsilon} | {' | '.join(shown)} |"


def _error(session: dp_sql.Session, true: np.ndarray, call: str) -> float:
    sql = f"SELECT g, {call} AS n FROM seen GROUP BY g ORDER BY g"
    errors = []
    for _ in range(RUNS):
        counts = np.asarray(session.execute(sql).fetchnumpy()["n"], dtype=float)
        errors.append(float(np.sqrt(((counts - true) ** 2).mean())))
    return statistics.median(errors) / float(true.mean())


if __name__ == "__main__":
    print("\n".join(grouped_counts()))
