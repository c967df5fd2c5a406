"""What the SQL side needs to know of a mechanism. Never runs one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from inspect import Parameter, Signature, signature
from typing import Any, Literal

BOUND_SELECTIONS = ("gem", "mgem", "combined_gem", "rnm")
"""The ways of choosing the bound of a distinct count; each spends half of epsilon. They are the
exponential mechanism on the scores of the mechanisms of these names, as in Knop and Steinke 2023:
it costs less rho than their permute-and-flip. rnm, with Gumbel noise, is the exponential mechanism
on the counts."""

DIFFERENCE = "difference"
"""A way for maximum flows alone: few bounds, compared by differences of counts (difference.md)."""

FRACTION_BITS = 16  # of a mean's sums, which are weighed down: in 2**-16 of a unit of values
MAX_STEPS = 1 << 62  # of the grid of a quantile


@dataclass(frozen=True)
class PrivacyLoss:
    """A privacy loss: (epsilon, delta)-DP and, where rho is known, rho-zCDP. Losses add.

    Args:
        rho: of zero-concentrated DP, positive; None: unknown. By default epsilon**2 / 2 where
            delta is 0, which pure DP implies (Bun and Steinke 2016, proposition 1.4).
        bounded_range: the length of an interval that holds the privacy losses of all outputs, for
            each pair of neighbours (Durfee and Rogers 2019), except with probability delta. By
            default 2 epsilon. Where something is first drawn for each person (groups, samples), it
            is the length given all other people's draws (dp_sql/budget/accountants.md).
        approximate: (rho, delta') of delta'-approximate rho-zCDP (Bun and Steinke 2016), where
            delta' > 0 is part of delta; None: rho holds without a delta'. By default
            (epsilon**2 / 2, delta) where rho is not given.
    """

    epsilon: Fraction  # positive
    delta: Fraction = Fraction(0)  # in [0, 1); 0 is pure epsilon-DP
    rho: Fraction | None = None
    bounded_range: Fraction = Fraction(0)
    approximate: tuple[Fraction, Fraction] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.epsilon, Fraction) or not isinstance(self.delta, Fraction):
            raise TypeError("epsilon and delta must be Fractions")
        if not isinstance(self.rho, Fraction | None):
            raise TypeError("rho must be a Fraction or None")
        if self.epsilon <= 0:
            raise ValueError("epsilon must be positive")
        if not 0 <= self.delta < 1:
            raise ValueError("delta must lie between 0 and 1")
        if self.rho is None and (not self.delta or self.approximate is None):
            pure = self.epsilon**2 * Fraction(1, 2)
            name, value = ("approximate", (pure, self.delta)) if self.delta else ("rho", pure)
            object.__setattr__(self, name, value)
        if not self.bounded_range:
            object.__setattr__(self, "bounded_range", 2 * self.epsilon)
        if self.rho is not None and self.rho <= 0:
            raise ValueError("rho must be positive")
        if self.approximate is not None:
            rho, slack = self.approximate
            if self.rho is not None or rho <= 0 or not 0 < slack <= self.delta:
                raise ValueError("an approximate rho replaces rho, and its delta is part of delta")

    def __add__(self, other: "PrivacyLoss") -> "PrivacyLoss":
        """Return the loss of two runs; an answer may choose the next run, so ranges do not add."""
        rho = None if self.rho is None or other.rho is None else self.rho + other.rho
        both = [one.approximate or (one.rho and (one.rho, Fraction(0))) for one in (self, other)]
        approximate = None
        if rho is None and both[0] and both[1]:
            approximate = (both[0][0] + both[1][0], both[0][1] + both[1][1])
        epsilon, delta = self.epsilon + other.epsilon, self.delta + other.delta
        return PrivacyLoss(epsilon, delta, rho, approximate=approximate)

    def times(self, n: int) -> "PrivacyLoss":
        """Return the loss of n >= 1 runs that do not see each other's answers, so ranges add."""
        rho = None if self.rho is None else n * self.rho
        approximate = self.approximate and (n * self.approximate[0], n * self.approximate[1])
        return PrivacyLoss(
            n * self.epsilon, n * self.delta, rho, n * self.bounded_range, approximate
        )


def exponential_loss(epsilon: Fraction) -> PrivacyLoss:
    """Return the loss of an exponential mechanism of this range (Cesar, Rogers 2021; blocks.md)."""
    return PrivacyLoss(epsilon, rho=epsilon**2 * Fraction(1, 8), bounded_range=epsilon)


@dataclass(frozen=True)
class Mechanism:
    """One mechanism.

    Args:
        run: run(data, **parameters). The data are the counts of items (topk), the offsets and the
            people of items (count_distinct, and topk that finds items without n_largest), scores
            and sensitivities (select), histograms of people by what they contribute (count, sum,
            avg) or by groups (group_rows), the counts of groups (histogram), or votes (quantile).
        accuracy: accuracy(size, **parameters, beta) says in one sentence what holds for every
            data set; size is the number of items (topk) or groups (histogram) or the sensitivities
            (select), and is left out for the others.
        n_largest: n_largest(k) is how many of the largest counts a mechanism of topk takes; None:
            it takes all.
        ordered: whether a mechanism of count_distinct needs people and items in an order that
            other people's rows cannot move.
        is_set: whether a mechanism of topk returns a set, whose order says nothing.
        bounds: bounds(**parameters) lists the contribution bounds of a mechanism of count_distinct
            that needs no more than the largest flow under each of them; None: it needs the edges.
        run_on_counts: run_on_counts(counts, **parameters) is `run_each` from these flows.
        bound_selections: how a mechanism of count_distinct may choose its contribution bound, the
            default first.
        run_each: run_each(data_sets, **parameters) is `run` for each of several data sets, all
            independent, in less time: each as the tuple of what `run` takes of data, or all in the
            columns of mixed.py. None: there is none.
    """

    name: str  # what `mechanism :=` calls it
    function: Literal[  # its key in the registry
        "topk", "count_distinct", "select", "count", "sum", "avg", "people", "histogram", "groups",
        "group_rows", "quantile",
    ]  # fmt: skip
    samples: str  # what one run draws, in words
    loss: Callable[..., PrivacyLoss]  # loss(**parameters) of one run
    run: Callable[..., Any]
    accuracy: Callable[..., str]
    n_largest: Callable[[int], int] | None = None
    ordered: bool = False
    is_set: bool = False
    finds_items: bool = False  # whether a mechanism of topk needs no domain
    bound_selections: tuple[str, ...] = ()
    bounds: Callable[..., Sequence[int]] | None = None
    run_on_counts: Callable[..., Any] | None = None
    run_each: Callable[..., Sequence[Any]] | None = None

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The names of the public numbers that `loss` and, after the data, `run` take."""
        return tuple(signature(self.loss).parameters)


def on_one(run_each: Callable[..., Sequence[Any]], *columns: str) -> Callable[..., Any]:
    """Return `run` of a mechanism that has `run_each`: on one data set of these columns."""
    _, *parameters = signature(run_each).parameters.values()

    def run(*given: Any, **named: Any) -> Any:
        n = len(columns)
        return run_each([given[:n]], *given[n:], **named)[0]

    own = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in columns]
    run.__signature__ = Signature([*own, *parameters])  # type: ignore[attr-defined]
    run.__doc__ = run_each.__doc__
    return run


def in_words(x: Fraction) -> str:
    """Write a fraction as a decimal where it has a short one.

    >>> in_words(Fraction(19, 20)), in_words(Fraction(3)), in_words(Fraction(1, 3))
    ('0.95', '3', '1/3')
    """
    for places in range(13):
        if 10**places % x.denominator == 0:
            whole, decimals = divmod(int(abs(x) * 10**places), 10**places)
            return f"{'-' * (x < 0)}{whole}" + (f".{decimals:0{places}}" if places else "")
    return str(x)


def with_probability(at_least: Fraction) -> str:
    """Begin the sentence that states an accuracy.

    >>> with_probability(Fraction(19, 20))
    'with probability 95 %,'
    """
    return f"with probability {in_words(100 * at_least)} %,"
