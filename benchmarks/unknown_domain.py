"""`python -m benchmarks.unknown_domain`: both mechanisms without a domain; writes unknown_domain.md.

The defaults (max_contributions = 100, the share of rho, weighted_gaussian from k = 10 on) were chosen on
gowalla, retail_baskets and imdb_words; amazon_book_kgat and amazon_fashion_words were held out.
"""

import statistics
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np

import dp_sql
from benchmarks.measure import TOP_ITEMS, compared, load, missing, present
from dp_sql.udfs.count_distinct.pairs import items_of_people
from dp_sql.udfs.exact_sampling import secret_draws
from dp_sql.udfs.topk import limited_domain, weighted_gaussian

CHOSEN_ON = ("gowalla", "retail_baskets", "imdb_words")
HELD_OUT = ("amazon_book_kgat", "amazon_fashion_words")
CAP, ROUNDS = 100, 3
LENGTHS = (5, 10, 50, 100, 200)
EPSILONS = (Fraction(1, 10), Fraction(1), Fraction(3))
DELTAS = (Fraction(1, 10**6), Fraction(1, 10**9))


def recalls(session: dp_sql.Session, name: str) -> Iterator[str]:
    """Of the k items with the most people, the share that is listed: the mean of the rounds."""
    found = session.sql(
        "SELECT dense_rank() OVER (ORDER BY item) - 1 AS item, dense_rank() OVER (ORDER BY user_id) "
        f"- 1 AS person FROM (SELECT DISTINCT item, user_id FROM {name}) ORDER BY item"
    ).fetchnumpy()
    counts = np.bincount(found["item"])
    order = np.argsort(-counts, kind="stable")
    pairs = items_of_people(found["item"], found["person"])  # once for all draws
    for epsilon, delta in product(EPSILONS, DELTAS):
        cells = []
        for k in LENGTHS:
            least = counts[order[k - 1]]
            limited, weighted = [], []
            for _ in range(ROUNDS):
                largest = counts[order[: limited_domain.n_largest(k)]]
                limited.append(order[limited_domain.topk(largest, k, epsilon, delta)])
                constants = weighted_gaussian._public_constants(k, epsilon, delta, CAP)
                assert constants is not None
                found_items = weighted_gaussian._topk(*pairs, k, constants, secret_draws())
                weighted.append(found_items)
            both = (
                statistics.mean(
                    float((counts[np.array(x, dtype=int)] >= least).sum()) / k for x in lists
                )
                for lists in (limited, weighted)
            )
            cells.append(" / ".join(f"{share:.2f}" for share in both))
        yield f"| {name} | {float(epsilon):g} | {float(delta):g} | {' | '.join(cells)} |"


def times(session: dp_sql.Session, name: str) -> Iterator[str]:
    for k, mechanism in ((100, "limited_domain"), (100, "weighted_gaussian")):
        call = (
            f"DP_TOPK(item, {k}, epsilon := 1, delta := 1e-6, privacy_unit := user_id, "
            f"mechanism := '{mechanism}')"
        )
        found = compared(session, f"SELECT {call} FROM {name}", TOP_ITEMS.format(name, k))
        yield f"| {name} | {mechanism} | {found} |"


def main() -> None:
    lines = [
        "# DP_TOPK without a domain",
        "",
        "Made by `python -m benchmarks.unknown_domain`. Each cell has the recall of `limited_domain` / "
        "`weighted_gaussian`: the share of the k items with the most people that is listed, the mean of "
        f"{ROUNDS} draws, with max_contributions = {CAP}. The defaults were chosen on "
        f"{', '.join(CHOSEN_ON)} and on synthetic tables; {' and '.join(HELD_OUT)} were held out.",
        "",
        f"| table | epsilon | delta | {' | '.join(f'k = {k}' for k in LENGTHS)} |",
        "|---" * (len(LENGTHS) + 3) + "|",
    ]
    timed = ["", "Time at k = 100, compared with the same query without privacy:", ""]
    timed += ["| table | mechanism | private ms | without ms | ratio |", "|---|---|---|---|---|"]
    for name in filter(present, (*CHOSEN_ON, *HELD_OUT)):
        with dp_sql.connect() as session:
            load(session, name)
            lines += recalls(session, name)
            timed += times(session, name)
    lines += [*timed, *missing((*CHOSEN_ON, *HELD_OUT))]
    print("\n".join(lines))
    Path(__file__).with_name("unknown_domain.md").write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
