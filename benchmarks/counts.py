"""DP_TOPK with counts: how epsilon is split between the list and its counts, and the time in SQL."""

import statistics
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

import dp_sql
from benchmarks.measure import TOP_ITEMS, compared, file_of, load, median, present
from dp_sql.udfs import REGISTRY
from dp_sql.udfs.exact_sampling import secret_draws
from dp_sql.udfs.range_norm import range_norm_noise, range_norm_quantile

SETS = ("gowalla", "amazon_book_kgat", "retail_baskets", "imdb_words", "amazon_fashion_words")
KS = (10, 50, 100)
EPSILONS = (Fraction(1, 10), Fraction(1, 2), Fraction(1), Fraction(2))
SHARES = [Fraction(n, 20) for n in (6, 8, 10, 12, 14, 15, 16, 18)]
MECHANISMS = ("joint", "subset")
DRAWS = 20


def counts_of(session: dp_sql.Session, name: str) -> NDArray[np.int64]:
    """How many people have each item."""
    found = session.execute(
        f"SELECT count(DISTINCT user_id) AS n FROM '{file_of(name)}' GROUP BY item"
    ).fetchnumpy()
    return np.asarray(found["n"], dtype=np.int64)


def split() -> list[str]:
    """Errors for each part of epsilon that the list may have."""
    heads = " | ".join(f"{float(share):g}" for share in SHARES)
    lines = [
        "## Lists with counts: the split of epsilon",
        "",
        "For each part of epsilon that the list has, the rest being the counts': how far a released count is from the",
        "true count of its rank, at most (the median of 20 draws, divided by the least median in the row; geometric",
        f"means over {len([*filter(present, SETS)])} tables and k = 10, 50, 100), and in brackets the part of the right items that is listed.",
        "",
        f"| mechanism | epsilon | {heads} |",
        f"|---|---|{'---|' * len(SHARES)}",
    ]
    with dp_sql.connect() as session:
        known = {name: counts_of(session, name) for name in filter(present, SETS)}
    for mechanism in MECHANISMS:
        for epsilon in EPSILONS:
            cells = [
                _relative(mechanism, counts, k, epsilon) for counts in known.values() for k in KS
            ]
            shown = [
                f"{statistics.geometric_mean(error for error, _ in column):.2f} "
                f"({statistics.mean(right for _, right in column):.2f})"
                for column in zip(*cells, strict=True)
            ]
            lines.append(f"| {mechanism} | {float(epsilon):g} | {' | '.join(shown)} |")
    return lines


def _relative(
    mechanism: str, counts: NDArray[np.int64], k: int, epsilon: Fraction
) -> list[tuple[float, float]]:
    """For each share the median error over the least of all shares, and the mean recall."""
    found = []
    for share in SHARES:
        drawn = [_drawn(mechanism, counts, k, epsilon, share) for _ in range(DRAWS)]
        error = statistics.median(error for error, _ in drawn)
        found.append((max(error, 1.0), statistics.mean(right for _, right in drawn)))
    least = min(error for error, _ in found)
    return [(error / least, right) for error, right in found]


def _drawn(
    mechanism: str, counts: NDArray[np.int64], k: int, epsilon: Fraction, share: Fraction
) -> tuple[int, float]:
    best = np.sort(counts)[::-1][:k]
    places = REGISTRY["topk"][mechanism].run(counts, k=k, epsilon=share * epsilon)
    noise = range_norm_noise(k, (1 - share) * epsilon, secret_draws())
    noisy = np.sort(counts[places] + np.array(noise))[::-1]
    return int(abs(noisy - best).max()), float((counts[places] >= best[-1]).mean())


def noise() -> list[str]:
    """The time of the noise and of its quantile, and its size."""
    lines = [
        "## Lists with counts: the noise",
        "",
        "epsilon = 0.4 for the counts. ± is the bound that all of them keep with probability 95 %; Laplace noise of",
        "scale k / epsilon on each count has the other one.",
        "",
        "| k | noise ms | ± ms, the first time | ± | ± with Laplace noise |",
        "|---|---|---|---|---|",
    ]
    rate = Fraction(2, 5)
    for k in (10, 50, 100, 1000, 10_000, 100_000):
        drawn = median(partial(range_norm_noise, k, rate, secret_draws()))
        bounded = median(partial(range_norm_quantile.__wrapped__, k, rate, Fraction(1, 20)))
        laplace = float(k / rate) * -np.log(1 - 0.95 ** (1 / k))
        bound = range_norm_quantile(k, rate, Fraction(1, 20))
        lines.append(f"| {k:,} | {drawn:.1f} | {bounded:.1f} | {bound:,} | {laplace:,.0f} |")
    return lines


def in_sql() -> list[str]:
    """The time in SQL, against the same question without privacy."""
    lines = [
        "## Lists with counts: in SQL",
        "",
        "Baseline: the items and counts, `SELECT item, count(DISTINCT user_id) … ORDER BY n DESC LIMIT k`. Goal: at most",
        "1.5 ×; for tables of at most 100,000 rows, 8 ms more.",
        "",
        "| table | k | with counts ms | without privacy ms | ratio |",
        "|---|---|---|---|---|",
    ]
    with dp_sql.connect() as session:
        for name in filter(present, SETS):
            load(session, name)
            for k in KS:
                call = f"DP_TOPK(item, {k}, epsilon := 1, privacy_unit := user_id, domain := observed, counts := true)"
                found = compared(session, f"SELECT {call} FROM {name}", TOP_ITEMS.format(name, k))
                lines.append(f"| {name} | {k} | {found} |")
    return lines


ALL = (split, noise, in_sql)

if __name__ == "__main__":
    for job in ALL:
        print("\n".join(job()), end="\n\n", flush=True)
