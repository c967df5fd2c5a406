"""The selection paper's scenarios: draws of candidates, with scores and sensitivities.

Knows distributions; never mechanisms. All numbers are integers, in thousandths. The paper's own
parameters did not survive in the text that we have: all constants here are ours. Where the paper
draws the candidates' means and spreads once, each trial here draws new ones, so that no result
hangs on one draw; and its 10 % and 90 % quantiles over all trials are the distributions' own.
"""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from statistics import NormalDist

import numpy as np
import scipy
from numpy.typing import NDArray

N_CANDIDATES = 100
UNIT = 1000
HIGH, LOW = 1.0, 0.0
"""Scores of scenarios 1 to 3."""
SENSITIVE, ROBUST = 1.0, 0.5
"""Sensitivities of scenarios 1 to 3."""
LEAST_SPREAD, MOST_SPREAD = 0.1, 1.0
"""Standard deviations of a candidate's scores in scenarios 4 to 6."""
SWEEPS = {"narrow": (0.2, 0.5), "wide": (LEAST_SPREAD, MOST_SPREAD)}
"""Standard deviations in the two sweeps."""
STRONG_NOISE, WEAK_NOISE = 0.1, 0.4
"""Standard deviations of the scores of scenarios 7 and 8; their groups lie up to 1 from 0."""
PARAMETERS = (
    f"{N_CANDIDATES} candidates. 1 to 3: scores {HIGH:g} and {LOW:g}, sensitivities "
    f"{SENSITIVE:g} and {ROBUST:g}. 4 to 6 and the sweeps: standard normal means, standard "
    f"deviations {LEAST_SPREAD:g} to {MOST_SPREAD:g}, in the narrow sweep "
    f"{SWEEPS['narrow'][0]:g} to {SWEEPS['narrow'][1]:g}. 7 and 8: two groups whose mean scores "
    f"run from 0 to 1 and from 0 to -1, standard deviations {STRONG_NOISE:g} and {WEAK_NOISE:g}."
)
_QUANTILE = NormalDist().inv_cdf(0.9)

Floats = NDArray[np.float64]
Candidates = tuple[list[int], list[int]]
"""Scores and sensitivities."""


@dataclass(frozen=True)
class Scenario:
    """Where candidates come from.

    name: for keys and tables.
    title: for figures.
    groups: the kinds of data sets in it, all equally likely.
    """

    name: str
    title: str
    groups: tuple[Callable[[], Candidates], ...]

    def draw(self) -> Candidates:
        """Draw one data set."""
        return secrets.choice(self.groups)()


def spearman(scores: Sequence[float], sensitivities: Sequence[float]) -> float:
    """Return Spearman's correlation; 0 if either column is constant."""
    if min(len(set(scores)), len(set(sensitivities))) == 1:
        return 0.0
    return float(scipy.stats.spearmanr(scores, sensitivities).statistic)


def bimodal(sensitivities: Sequence[float]) -> Candidates:
    """Give the first half of the candidates high scores; nothing is random.

    Args:
        sensitivities: as many as fit into the number of candidates; repeated until there are
            enough.
    """
    half = N_CANDIDATES // 2
    scores = [HIGH] * half + [LOW] * (N_CANDIDATES - half)
    sizes = list(sensitivities) * (N_CANDIDATES // len(sensitivities))
    return [round(UNIT * q) for q in scores], [round(UNIT * s) for s in sizes]


def normal_scores(means: Floats, spreads: Floats) -> Candidates:
    """Draw a normal score for each candidate, clipped to its 10 % and 90 % quantiles."""
    half = _QUANTILE * spreads
    return _clipped(np.random.default_rng().normal(means, spreads), means - half, means + half)


def growing() -> Candidates:
    """Scenario 4: the larger a candidate's mean, the larger its spread."""
    return normal_scores(_sorted_means(), _ladder())


def falling() -> Candidates:
    """Scenario 5: the larger a candidate's mean, the smaller its spread."""
    return normal_scores(_sorted_means(), _ladder()[::-1])


def unrelated() -> Candidates:
    """Scenario 6: spreads at random."""
    spreads = np.random.default_rng().uniform(LEAST_SPREAD, MOST_SPREAD, N_CANDIDATES)
    return normal_scores(_sorted_means(), spreads)


def related(strength: float, least: float, most: float) -> Candidates:
    """Draw candidates for a sweep.

    Args:
        strength: correlation of the mean and the normal number that makes the spread, in [-1, 1].
        least: of the standard deviations.
        most: of the standard deviations.
    """
    means, other = np.random.default_rng().standard_normal((2, N_CANDIDATES))
    place = scipy.stats.norm.cdf(strength * means + np.sqrt(1 - strength**2) * other)
    return normal_scores(means, least + (most - least) * place)


def polarised(noise: float, sign: int) -> Candidates:
    """Draw one person of one of two groups, whose scores run in opposite directions.

    Args:
        noise: standard deviation of each score.
        sign: 1 where scores rise from candidate to candidate, -1 where they fall.
    """
    half_widths = half_widths_of(noise)
    scores = np.random.default_rng().normal(sign * _bases(), noise)
    return _clipped(scores, -half_widths, half_widths)


@cache
def half_widths_of(noise: float) -> Floats:
    """Find each candidate's 90 % quantile over people, half of them in each group, once.

    The 10 % quantile is its negative. It lies the further out the further apart the groups are,
    so one group's scores go with the sensitivities, the other's against them.
    """

    def excess(x: float, base: float) -> float:
        both = scipy.stats.norm.cdf(x, base, noise) + scipy.stats.norm.cdf(x, -base, noise)
        return float(both / 2 - 0.9)

    return np.array(
        [scipy.optimize.brentq(excess, 0, 1 + 5 * noise, args=(base,)) for base in _bases()]
    )


def _polarised(name: str, title: str, noise: float) -> Scenario:
    groups = tuple(partial(polarised, noise, sign) for sign in (1, -1))
    return Scenario(name, title, groups)


def _clipped(scores: Floats, low: Floats, high: Floats) -> Candidates:
    """Round the ends outwards and the scores to thousandths; a sensitivity is high - low."""
    floor, ceiling = np.floor(UNIT * low), np.ceil(UNIT * high)
    whole = np.clip(np.rint(UNIT * scores), floor, ceiling)
    return whole.astype(int).tolist(), (ceiling - floor).astype(int).tolist()


def _sorted_means() -> Floats:
    return np.sort(np.random.default_rng().standard_normal(N_CANDIDATES))


def _ladder() -> Floats:
    return np.linspace(LEAST_SPREAD, MOST_SPREAD, N_CANDIDATES)


def _bases() -> Floats:
    return np.linspace(0, 1, N_CANDIDATES)


def scenario_3(robust: float) -> Scenario:
    """Make scenario 3, in which every other candidate has the smaller sensitivity `robust`."""
    title = "3: no correlation"
    return Scenario(f"3, {robust:g}", title, (partial(bimodal, [robust, SENSITIVE]),))


def sweep_at(strength: float, width: str) -> Scenario:
    """Make one step of a sweep; the width is one of SWEEPS."""
    name = f"{width} sweep, {strength:g}"
    return Scenario(name, name, (partial(related, strength, *SWEEPS[width]),))


_HALF = N_CANDIDATES // 2
BIMODAL = (
    Scenario(
        "1",
        "1: bimodal, positive",
        (partial(bimodal, [SENSITIVE] * _HALF + [ROBUST] * _HALF),),
    ),
    Scenario(
        "2",
        "2: bimodal, negative",
        (partial(bimodal, [ROBUST] * _HALF + [SENSITIVE] * _HALF),),
    ),
    Scenario("3", "3: bimodal, none", (partial(bimodal, [ROBUST, SENSITIVE]),)),
)
SPREAD = (
    Scenario("4", "4: spread grows with the mean", (growing,)),
    Scenario("5", "5: spread falls with the mean", (falling,)),
    Scenario("6", "6: spread at random", (unrelated,)),
)
POLARISED = (
    _polarised("7", "7: polarised", STRONG_NOISE),
    _polarised("8", "8: weakly polarised", WEAK_NOISE),
)
