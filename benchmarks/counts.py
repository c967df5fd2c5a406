"""DP_TOPK with counts: how epsilon is split between the list and its counts, and the time in SQL."""

from __future__ import annotations

import statistics
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

import dp_sql
from benchmarks.measure import DATA, paired
from dp_sql.udfs import REGISTRY
from dp_sql.udfs.exact_sampling import secret_draws
from dp_sql.udfs.range_norm import range_norm_noise

SETS = ("gowalla", "amazon_book_kgat", "retail_baskets", "imdb_words", "amazon_fashion_words")
KS = (10, 50, 100)
SHARES = [Fraction(n, 10) for n in (3, 4, 5, 6, 7, 8, 9)] + [Fraction(3, 4)]
DRAWS = 40
MECHANISM = "joint"


def counts_of(session: dp_sql.Session, name: str) -> NDArray[np.int64]:
    """How many people have each item."""
    found = session.execute(
        f"SELECT count(DISTINCT user_id) AS n FROM '{DATA / name}.parquet' GROUP BY item"
    ).fetchnumpy()
    return np.asarray(found["n"], dtype=np.int64)


def error(counts: NDArray[np.int64], k: int, epsilon: Fraction, share: Fraction) -> int:
    """How far a released count is from the true count of its rank, at most: of one draw."""
    places = REGISTRY["topk"][MECHANISM].run(counts, k=k, epsilon=share * epsilon)
    noise = range_norm_noise(k, (1 - share) * epsilon, secret_draws())
    noisy = np.sort(counts[places] + np.array(noise))[::-1]
    return int(abs(noisy - np.sort(counts)[::-1][:k]).max())


def split() -> list[str]:
    """The median error for each part of epsilon that the list may have."""
    shares = sorted(SHARES)
    lines = [
        "## The split of epsilon between a list and its counts",
        "",
        f"DP_TOPK with `counts := true`, {MECHANISM}: how far a released count is from the true count of its "
        f"rank, at most; the median over {DRAWS} draws, for each part of epsilon that the list has.",
        "",
        f"| table | k | epsilon | {' | '.join(f'{float(share):g}' for share in shares)} |",
        f"|---|---|---|{'---|' * len(shares)}",
    ]
    relative: dict[Fraction, list[float]] = {share: [] for share in shares}
    with dp_sql.connect() as session:
        for name in (name for name in SETS if (DATA / f"{name}.parquet").exists()):
            counts = counts_of(session, name)
            for k in KS:
                for epsilon in (Fraction(1, 10), Fraction(1, 2), Fraction(1), Fraction(2)):
                    found = [
                        statistics.median(error(counts, k, epsilon, share) for _ in range(DRAWS))
                        for share in shares
                    ]
                    for share, one in zip(shares, found, strict=True):
                        relative[share].append(max(one, 1) / max(min(found), 1))
                    shown = " | ".join(f"{one:g}" for one in found)
                    lines.append(f"| {name} | {k} | {float(epsilon):g} | {shown} |")
    means = " | ".join(f"{statistics.geometric_mean(found):.2f}" for found in relative.values())
    return [*lines, f"| all, times the best | | | {means} |"]


if __name__ == "__main__":
    print("\n".join(split()))
