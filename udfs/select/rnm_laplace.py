"""Report noisy max: every score gets Laplace noise in proportion to the largest sensitivity.

`noisy_best` draws no noise for scores that cannot win. Proofs are in rnm_laplace.md.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache

from dp_sql.udfs.discrete_laplace import laplace_quantile
from dp_sql.udfs.exact_sampling import Draws
from dp_sql.udfs.geometric import geometric
from dp_sql.udfs.odds import Odds
from dp_sql.udfs.select.normalized import grid_of
from dp_sql.udfs.select.selection import Numbers, in_units, rounded_up, selection, sentence

_N_BLOCKS = 128


def rnm_laplace(scores: Numbers, sensitivities: Numbers, epsilon: Fraction, draws: Draws) -> int:
    """Choose a candidate whose score is nearly the largest.

    Privacy: epsilon-DP if one person moves each score by at most its sensitivity, up or down.
    Source: Dwork and Roth 2014, section 3.3; on a grid, with discrete noise, see rnm_laplace.md.
    """
    whole, sizes = in_units(scores, sensitivities)
    largest = _scale(sizes)
    if largest == 0:
        return whole.index(max(whole))
    grid = grid_of(epsilon)
    starts = [grid * score // largest for score in whole]
    return noisy_best(range(len(whole)), starts, [1] * len(whole), _rate(epsilon, grid), draws)


def _scale(sensitivities: Sequence[int]) -> int:
    """Return the sensitivity that the noise has to hide."""
    return max(sensitivities)


def _rate(epsilon: Fraction, grid: int) -> Fraction:
    """Return the rate of a step: a score may fall by `grid` steps while another rises as much."""
    return epsilon * Fraction(1, 2 * grid)


def noisy_best(
    tries: Iterable[int], starts: Sequence[int], steps: Sequence[int], rate: Fraction, draws: Draws
) -> int:
    """Find the candidate of the try with the largest value; between equals the first candidate.

    A try of candidate i has the value starts[i] + steps[i] * X, steps[i] >= 0, where X is discrete
    Laplace noise, fresh for each of one or more tries. Of each X first a coarse block is drawn, and
    the rest only where the block does not rule out that the try wins.
    """
    width, odds = _blocks(rate)
    sure: int | None = None
    seen = []
    for i in tries:
        block = draws.choose(odds)
        if sure is not None and not _may_reach(sure - starts[i], steps[i], block, width):
            continue  # it is behind one that was seen
        seen.append((i, block))
        if block <= _N_BLOCKS:
            floor = starts[i] + steps[i] * block * width
            sure = floor if sure is None else max(sure, floor)
    best = max(
        (starts[i] + _times_noise(steps[i], block, width, rate, draws), -i)
        for i, block in seen
        if sure is None or _may_reach(sure - starts[i], steps[i], block, width)
    )
    return -best[1]


@lru_cache(maxsize=64)
def _blocks(rate: Fraction) -> tuple[int, Odds]:
    """Cut the integers into blocks of width w, a power of two; return w and the odds of each block.

    They are b w, ..., (b + 1) w - 1 for b < _N_BLOCKS; _N_BLOCKS w and all above; all below 0.
    """
    width = _width(rate)
    marks = [b * width for b in range(_N_BLOCKS + 1)]
    weights = [((1, low), (-1, low + width)) for low in marks[:-1]]
    return width, Odds([*weights, ((1, marks[-1]),), ((1, 1),)], rate)


def _width(rate: Fraction) -> int:
    """Choose the width of a block, about 1/10 of the noise. Decides only the speed."""
    return 1 << max(0, (rate.denominator // (8 * rate.numerator)).bit_length() - 1)


def _may_reach(gap: int, step: int, block: int, width: int) -> bool:
    """Return whether step * X >= gap is possible for an X of this block."""
    if block == _N_BLOCKS:
        return step > 0 or gap <= 0
    highest = -1 if block > _N_BLOCKS else (block + 1) * width - 1
    return step * highest >= gap


def _times_noise(step: int, block: int, width: int, rate: Fraction, draws: Draws) -> int:
    """Draw step * X for an X of this block."""
    if step == 0:
        return 0
    if block > _N_BLOCKS:
        return step * (-1 - geometric(draws, rate))
    if block == _N_BLOCKS:
        return step * (block * width + geometric(draws, rate))
    noise, place = block * width, 1
    while place < width:
        noise += place * draws.choose(Odds((((1, 0),), ((1, place),)), rate))
        place *= 2
    return step * noise


def error_bound(sensitivities: Numbers, epsilon: Fraction, beta: Fraction) -> Fraction:
    """Bound the shortfall of the chosen score on every data set, except with probability beta."""
    grid = grid_of(epsilon)
    rate = _rate(epsilon, grid)
    share = beta * Fraction(1, 2)
    steps = laplace_quantile(rate, share * Fraction(1, len(sensitivities)))
    steps += laplace_quantile(rate, share) - 1
    return steps * max(sensitivities) * Fraction(1, grid)


def _accuracy(sensitivities: Numbers, epsilon: Fraction, beta: Fraction) -> str:
    bound = rounded_up(error_bound(sensitivities, epsilon, beta))
    holds = f"the chosen score is at most {bound} below the largest"
    return sentence(sensitivities, epsilon, beta, holds)


RNM_LAPLACE = selection(
    "Laplace noise of one scale for each candidate; the largest noisy score wins",
    rnm_laplace,
    _accuracy,
)
