"""What the SQL side needs to know of a mechanism. Never runs one."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal


@dataclass(frozen=True)
class PrivacyLoss:
    """A privacy loss: (epsilon, delta)-DP and, where rho is known, rho-zCDP. Losses add.

    Args:
        epsilon: positive.
        delta: in [0, 1); 0 is pure epsilon-DP.
        rho: of zero-concentrated DP, positive. By default epsilon**2 / 2 where delta is 0, which
            pure DP implies (Bun and Steinke 2016, proposition 1.4), and unknown elsewhere.
        bounded_range: the length of an interval in which, for each pair of neighbours, the privacy
            losses of all outputs lie (Durfee and Rogers 2019). By default 2 epsilon where delta is
            0, and unknown elsewhere. Where something is first drawn for each person (groups,
            samples of items), this is the length given the draws of all other people
            (dp_sql/budget/accountants.md, "Releases that draw first").
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    rho: Fraction | None = None
    bounded_range: Fraction | None = None

    def __post_init__(self) -> None:
        for value in (self.epsilon, self.delta):
            if not isinstance(value, Fraction):
                raise TypeError("epsilon and delta must be Fractions")
        if self.rho is not None and not isinstance(self.rho, Fraction):
            raise TypeError("rho must be a Fraction or None")
        if self.epsilon <= 0:
            raise ValueError("epsilon must be positive")
        if not 0 <= self.delta < 1:
            raise ValueError("delta must lie between 0 and 1")
        if self.rho is None and not self.delta:
            object.__setattr__(self, "rho", self.epsilon**2 * Fraction(1, 2))
        if self.bounded_range is None and not self.delta:
            object.__setattr__(self, "bounded_range", 2 * self.epsilon)
        if self.rho is not None and self.rho <= 0:
            raise ValueError("rho must be positive")

    def __add__(self, other: "PrivacyLoss") -> "PrivacyLoss":
        """Return the loss of two runs; an answer may choose the next run, so ranges do not add."""
        rho = None if self.rho is None or other.rho is None else self.rho + other.rho
        return PrivacyLoss(self.epsilon + other.epsilon, self.delta + other.delta, rho)

    def times(self, n: int) -> "PrivacyLoss":
        """Return the loss of n >= 1 runs that do not see each other's answers, so ranges add."""
        rho = None if self.rho is None else n * self.rho
        bounded = None if self.bounded_range is None else n * self.bounded_range
        return PrivacyLoss(n * self.epsilon, n * self.delta, rho, bounded)


def exponential_loss(epsilon: Fraction) -> PrivacyLoss:
    """Price an exponential mechanism of range epsilon (Cesar and Rogers 2021; blocks.md)."""
    return PrivacyLoss(epsilon, rho=epsilon**2 * Fraction(1, 8), bounded_range=epsilon)


@dataclass(frozen=True)
class Mechanism:
    """One mechanism.

    What `run` takes first depends on the function: the counts of items (topk); the offsets and
    the people of items (count_distinct); scores and sensitivities (select). Then come, by name,
    the public numbers listed in `parameters`.

    Args:
        name: what `mechanism :=` calls it.
        function: the SQL function that it answers.
        samples: what one run draws, in words.
        parameters: names of the public numbers that `run` and `loss` take.
        loss: loss(**parameters) of one run.
        run: the mechanism; arguments and privacy are stated on the function itself.
        accuracy: accuracy(size, **parameters, beta) says in one sentence what holds for every
            data set; size is the number of items (topk) or the sensitivities (select), and is
            left out for count_distinct.
        n_largest: for a mechanism of topk that needs no domain, n_largest(k) is how many of
            the largest counts it takes; None: it takes all counts of a public domain.
        ordered: whether a mechanism of count_distinct needs people and items in an order that
            other people's rows cannot move.
    """

    name: str
    function: Literal["topk", "count_distinct", "select"]
    samples: str
    parameters: tuple[str, ...]
    loss: Callable[..., PrivacyLoss]
    run: Callable[..., Any]
    accuracy: Callable[..., str]
    n_largest: Callable[[int], int] | None = None
    ordered: bool = False


def in_words(x: Fraction) -> str:
    """Write a fraction as a decimal where it has a short one.

    >>> in_words(Fraction(19, 20)), in_words(Fraction(3)), in_words(Fraction(1, 3))
    ('0.95', '3', '1/3')
    """
    for places in range(13):
        shifted = x * 10**places
        if shifted.denominator == 1:
            digits = str(abs(shifted.numerator)).zfill(places + 1)
            sign = "-" if x < 0 else ""
            whole = sign + digits[: len(digits) - places]
            return whole + "." + digits[len(digits) - places :] if places else whole
    return str(x)
