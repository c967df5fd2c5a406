"""The mechanisms that the selection paper compares: names, colours, and one choice by each."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dp_sql.udfs import REGISTRY

BETA = Fraction(1, 20)
"""Probability with which a bound of gem, mgem and combined_gem may fail; the paper's is lost."""


@dataclass(frozen=True)
class Choice:
    """A way to choose one of several candidates.

    label: the paper's name.
    colour: one of figures.COLOURS.
    name: in REGISTRY["select"]; None chooses at random, whatever the scores.
    has_beta: whether it takes beta.
    """

    label: str
    colour: str
    name: str | None
    has_beta: bool = False

    @property
    def parameters(self) -> tuple[str, ...]:
        """What else its choices depend on, for the keys of trials."""
        return (f"beta {BETA}",) if self.has_beta else ()

    def of(self, scores: Sequence[int], sensitivities: Sequence[int], epsilon: Fraction) -> int:
        """Choose: the position of one candidate."""
        if self.name is None:
            return random.SystemRandom().randrange(len(scores))
        options = {"beta": BETA} if self.has_beta else {}
        run = REGISTRY["select"][self.name].run
        return int(run(scores, sensitivities, epsilon=epsilon, **options))


CHOICES = {
    "rnm": Choice("RNM", "blue", "pnf"),
    "gem": Choice("GEM", "orange", "gem", has_beta=True),
    "mgem": Choice("mGEM", "green", "mgem", has_beta=True),
    "combined_gem": Choice("combined GEM", "violet", "combined_gem", has_beta=True),
    "random_stopping": Choice("RS", "pink", "random_stopping"),
    "random_stopping_tnb": Choice("RS improved", "ochre", "random_stopping_tnb"),
    "k_randomised_response": Choice("kRR", "teal", "k_randomised_response"),
    "random": Choice("random", "grey", None),
}
"""By the names that keys and tables use. RNM draws exponential noise, which is permute-and-flip."""
