"""Policies of the two-armed bandit: which arm next, and what is learnt. Never draws a reward.

The losses, for every private policy:

- All estimates of an arm's mean together: MEANS about one reward, which lies in one arm's sum.
- An arm's pair of quantiles: QUANTILES about one reward, which is in one window only.
- Each action: ACTION about the scores of that step, if one person moves an arm's score by at most
  the arm's sensitivity. kRR needs no sensitivities and gets KRR_ACTION, that is ACTION +
  QUANTILES, if no other epsilon is given.

Sensitivities are clipped ranges of most rewards, estimated; that a score moves no further is the
paper's assumption. This compares policies in a simulation and protects no one: the simulation
shows true rewards, and the generator of rewards is numpy's.
"""

import math
from abc import ABC, abstractmethod
from fractions import Fraction

import numpy as np

from dp_sql.udfs import REGISTRY
from dp_sql.udfs.exact_sampling import Draws, secret_draws
from examples.papers.selecting.choices import CHOICES
from examples.papers.selecting.tree_sum import HybridSum

UNIT = 1000
SPAN = 100 * UNIT
"""Rewards are clipped to 0 ... SPAN, in thousandths."""
MEANS, QUANTILES, ACTION = Fraction(4), Fraction(2), Fraction(1)
KRR_ACTION = ACTION + QUANTILES
WINDOW = 20
"""Rewards of an arm between two estimates of its quantiles."""
_GRID = range(0, SPAN + 1, SPAN // 50)
N_ARMS = 2


class Policy(ABC):
    """What chooses arms, and learns from rewards."""

    @abstractmethod
    def choose(self, step: int) -> int:
        """Choose an arm at this step, counted from 1."""

    @abstractmethod
    def learn(self, arm: int, reward: int) -> None:
        """See a reward, in thousandths."""

    @abstractmethod
    def means(self) -> list[float]:
        """Tell the estimated mean of each arm, in units."""


class Open(Policy):
    """A policy that knows the true means of what it saw."""

    def __init__(self) -> None:
        self._totals = [0] * N_ARMS
        self._counts = [0] * N_ARMS

    def learn(self, arm: int, reward: int) -> None:
        """Add the reward to its arm."""
        self._totals[arm] += reward
        self._counts[arm] += 1

    def means(self) -> list[float]:
        """Tell the mean of each arm's rewards; 0 of none."""
        pairs = zip(self._totals, self._counts, strict=True)
        return [total / UNIT / max(1, count) for total, count in pairs]

    def choose(self, step: int) -> int:
        """Try every arm once, then the one with the largest index."""
        if 0 in self._counts:
            return self._counts.index(0)
        return int(np.argmax([self._index(arm, step) for arm in range(N_ARMS)]))

    @abstractmethod
    def _index(self, arm: int, step: int) -> float: ...


class Ucb(Open):
    """Upper confidence bounds.

    Args:
        optimism: times sqrt(ln step / count), in units of reward.
    """

    def __init__(self, optimism: float) -> None:
        super().__init__()
        self._optimism = optimism

    def _index(self, arm: int, step: int) -> float:
        bonus = math.sqrt(math.log(step) / self._counts[arm])
        return self.means()[arm] + self._optimism * bonus


class Thompson(Open):
    """Thompson sampling for normal rewards with a flat prior.

    Args:
        spread: the standard deviation of one reward that it reckons with.
    """

    def __init__(self, spread: float) -> None:
        super().__init__()
        self._spread = spread
        self._rng = np.random.default_rng()

    def _index(self, arm: int, step: int) -> float:
        spread = self._spread / math.sqrt(self._counts[arm])
        return float(self._rng.normal(self.means()[arm], spread))


class Private(Policy):
    """A mechanism of private selection on privately estimated means.

    Args:
        name: in choices.CHOICES.
        epsilon: an action's; by default ACTION, for kRR KRR_ACTION.
    """

    def __init__(self, name: str, epsilon: Fraction | None = None) -> None:
        self._choice = CHOICES[name]
        draws = secret_draws()
        self._arms = [_Arm(draws) for _ in range(N_ARMS)]
        by_default = KRR_ACTION if name == "k_randomised_response" else ACTION
        self._epsilon = epsilon or by_default

    def choose(self, step: int) -> int:
        """Run the mechanism on the estimates."""
        scores = [arm.mean for arm in self._arms]
        sensitivities = [arm.sensitivity for arm in self._arms]
        return self._choice.of(scores, sensitivities, self._epsilon)

    def learn(self, arm: int, reward: int) -> None:
        """Hand the reward to its arm."""
        self._arms[arm].learn(reward)

    def means(self) -> list[float]:
        """Tell the private means."""
        return [arm.mean / UNIT for arm in self._arms]


class _Arm:
    """Private estimates about one arm. The number of its rewards is public: actions are private.

    Before there are estimates the mean is in the middle and the sensitivity is the span.
    """

    def __init__(self, draws: Draws) -> None:
        self.mean = SPAN // 2
        self.sensitivity = SPAN
        self._sum = HybridSum(SPAN, MEANS, draws)
        self._count = 0
        self._window: list[int] = []

    def learn(self, reward: int) -> None:
        """Update the mean, and the sensitivity once a window is full of new rewards."""
        self._count += 1
        self.mean = min(max(self._sum.add(reward) // self._count, 0), SPAN)
        self._window.append(reward)
        if len(self._window) == WINDOW:
            half = QUANTILES * Fraction(1, 2)
            low = quantile(self._window, 10, half)
            high = quantile(self._window, 90, half)
            self.sensitivity = max(high - low, _GRID.step)
            self._window = []


def quantile(rewards: list[int], percent: int, epsilon: Fraction) -> int:
    """Choose a value of the grid that nearly so many per cent of the rewards do not exceed.

    Args:
        rewards: their number is public.
        percent: of it.
        epsilon: loss about one reward, if it is replaced: that moves each rank by at most 1.
    """
    target = Fraction(len(rewards) * percent, 100)
    scores = [-abs(sum(reward <= value for reward in rewards) - target) for value in _GRID]
    run = REGISTRY["select"]["exponential"].run
    return _GRID[int(run(scores, [1] * len(_GRID), epsilon=epsilon))]
