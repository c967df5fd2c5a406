"""What the SQL side needs to know of a mechanism. Never runs one."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal


@dataclass(frozen=True)
class Loss:
    """A privacy loss: (epsilon, delta)-DP. Losses on the same people add.

    Args:
        epsilon: positive.
        delta: in [0, 1); 0 is pure epsilon-DP.
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        for value in (self.epsilon, self.delta):
            if not isinstance(value, Fraction):
                raise TypeError("epsilon and delta must be Fractions")
        if self.epsilon <= 0:
            raise ValueError("epsilon must be positive")
        if not 0 <= self.delta < 1:
            raise ValueError("delta must lie between 0 and 1")

    def __add__(self, other: "Loss") -> "Loss":
        return Loss(self.epsilon + other.epsilon, self.delta + other.delta)


@dataclass(frozen=True)
class Udf:
    """One mechanism.

    Args:
        name: what `mechanism :=` calls it.
        function: the SQL function that it answers.
        samples: what one run draws, in words.
        loss: epsilon to the loss of one run.
        run: the mechanism; arguments and privacy are stated on the function itself.
        accuracy: public numbers to one sentence that holds for every data set.
    """

    name: str
    function: Literal["topk", "count_distinct"]
    samples: str
    loss: Callable[[Fraction], Loss]
    run: Callable[..., Any]
    accuracy: Callable[..., str]


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
