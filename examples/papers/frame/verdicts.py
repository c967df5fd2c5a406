"""Does a printed value agree with ours?

A paper prints a statistic of its own few trials. Ours come from many more, or from the exact
distribution. Had the paper's trials been ours, where would its statistic lie 99 times in 100? A
value inside that range agrees; one outside needs a reason, which docs/papers.md gives.

Where our trials are not many more, their error counts as well: n trials compared with our N
err like nN / (n + N) trials compared with the distribution itself, because the variances of the two
add up.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

LEVEL = 0.99
_RESAMPLES = 2000

Range = tuple[float, float]


@dataclass(frozen=True)
class Verdict:
    """One printed value next to ours.

    what: which value of the paper.
    printed: the value as the paper prints it, or its claim in words.
    ours: the same statistic of all our trials, or of the exact distribution, or what we see.
    range: where the paper's statistic lies 99 times in 100 if its trials are like ours; None for
        a claim in words.
    inside: whether the printed value lies there, or the claim holds.
    trials: ours, and the paper's own.
    why: where it is outside: the reason, in a few words.
    """

    what: str
    printed: float | str
    ours: float | str
    range: Range | None
    inside: bool
    trials: str
    why: str = ""


def judge(
    what: str, printed: float, ours: float, within: Range, trials: str, why: str = ""
) -> Verdict:
    """Say whether a printed number lies in the range; `why` is stored if it does not."""
    inside = within[0] <= printed <= within[1]
    return Verdict(what, printed, ours, within, inside, trials, "" if inside else why)


def range_of_quantile(ours: Sequence[float], p: float, n: int) -> Range:
    """Where the p-quantile of n trials (numpy's, which interpolates) lies, by order statistics.

    Args:
        ours: our trials, shape (N,).
        p: in (0, 1).
        n: the paper's number of trials.
    """
    both = _effective(n, len(ours))
    place = (both - 1) * p
    below, above = math.floor(place) + 1, math.ceil(place) + 1
    low = scipy.stats.beta.ppf((1 - LEVEL) / 2, below, both + 1 - below)
    high = scipy.stats.beta.ppf((1 + LEVEL) / 2, above, both + 1 - above)
    sorted_ours = np.sort(np.asarray(ours, dtype=float))
    last = len(sorted_ours) - 1
    at_low, at_high = math.floor(low * last), math.ceil(high * last)
    return float(sorted_ours[at_low]), float(sorted_ours[at_high])


def range_of(ours: Sequence[float], statistic: Callable[[np.ndarray], float], n: int) -> Range:
    """Where any statistic of n trials lies, by drawing that many of our trials repeatedly."""
    rng = np.random.default_rng()
    size = (_RESAMPLES, _effective(n, len(ours)))
    drawn = rng.choice(np.asarray(ours, dtype=float), size=size)
    found = [statistic(row) for row in drawn]
    low, high = np.quantile(found, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _effective(n: int, ours: int) -> int:
    """Return how many trials err against the distribution as n do against ours; at least 2."""
    return max(2, n * ours // (n + ours))
