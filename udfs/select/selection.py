"""One template for every selection mechanism: checks, fresh randomness, one signature.

Every registered `run` takes:

    scores: how good each candidate is on the data, exact numbers, at least one, in an order of
        the candidates that is public.
    sensitivities: public; the most that one person moves each score, as many, >= 0.
    epsilon: privacy loss, positive.
    beta: where the mechanism has it: probability with which its accuracy may fail, in (0, 1).

It returns the position of one candidate. It raises TypeError for an argument of another type,
floats among them, and ValueError for an argument out of its range.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from inspect import getdoc

from dp_sql.udfs.checks import check_epsilon, check_probability
from dp_sql.udfs.exact_sampling import Draws, secret_draws
from dp_sql.udfs.intervals import ln_enclosure
from dp_sql.udfs.mechanism import Mechanism, PrivacyLoss, in_words, with_probability

Number = int | Fraction
Numbers = Sequence[Number]
"""Exact numbers, one for each candidate."""

Accuracy = Callable[[Numbers, Fraction, Fraction], str]
"""accuracy(sensitivities, epsilon, beta): one sentence that holds for all scores."""

Price = Callable[[Fraction], PrivacyLoss]
"""price(epsilon) of one run. PrivacyLoss itself is that of epsilon-DP with no better rho."""


def selection(
    samples: str,
    choose: Callable[[Numbers, Numbers, Fraction, Draws], int],
    accuracy: Accuracy,
    price: Price = PrivacyLoss,
) -> Mechanism:
    """Register a mechanism under the name of `choose(scores, sensitivities, epsilon, draws)`."""

    def run(scores: Numbers, sensitivities: Numbers, epsilon: Fraction) -> int:
        check_candidates(scores, sensitivities)
        check_epsilon(epsilon)
        return choose(scores, sensitivities, epsilon, secret_draws())

    def loss(epsilon: Fraction) -> PrivacyLoss:
        return price(epsilon)

    run.__doc__ = getdoc(choose)
    return Mechanism(choose.__name__, "select", samples, loss, run, _checked(accuracy))


def selection_with_beta(
    samples: str,
    choose: Callable[[Numbers, Numbers, Fraction, Fraction, Draws], int],
    accuracy: Accuracy,
    price: Price = PrivacyLoss,
) -> Mechanism:
    """Register one whose distribution, but not its privacy, depends on beta (after epsilon)."""

    def run(scores: Numbers, sensitivities: Numbers, epsilon: Fraction, beta: Fraction) -> int:
        check_candidates(scores, sensitivities)
        check_epsilon(epsilon)
        check_probability("beta", beta)
        return choose(scores, sensitivities, epsilon, beta, secret_draws())

    def loss(epsilon: Fraction, beta: Fraction) -> PrivacyLoss:
        return price(epsilon)

    run.__doc__ = getdoc(choose)
    return Mechanism(choose.__name__, "select", samples, loss, run, _checked(accuracy))


def _checked(accuracy: Accuracy) -> Accuracy:
    """Check the public numbers first."""

    def checked(sensitivities: Numbers, epsilon: Fraction, beta: Fraction) -> str:
        check_sensitivities(sensitivities)
        check_epsilon(epsilon)
        check_probability("beta", beta)
        return accuracy(sensitivities, epsilon, beta)

    return checked


def shift_of(n_candidates: int, epsilon: Fraction, beta: Fraction) -> Fraction:
    """Return t = (2/epsilon) ln(n_candidates/beta), rounded up.

    Candidates whose weight, or probability of being accepted, is at most exp(-epsilon t / 2)
    are together chosen with probability at most beta, as long as another has weight 1.
    """
    _, high = ln_enclosure(Fraction(n_candidates, beta), 64)
    return high * Fraction(2, epsilon)


def rounded_up(x: Fraction) -> str:
    """Write a number >= 0, rounded up to four digits or to an integer.

    >>> rounded_up(Fraction(19, 7)), rounded_up(Fraction(12345678, 10)), rounded_up(Fraction(0))
    ('2.715', '1234568', '0')
    """
    places = 0
    while 0 < x * 10**places < 1000:
        places += 1
    return in_words(Fraction(-(-x * 10**places // 1), 10**places))


def sentence(sensitivities: Numbers, epsilon: Fraction, beta: Fraction, holds: str) -> str:
    """Say that something holds with probability at least 1 - beta, and for which numbers."""
    n = len(sensitivities)
    numbers = f"({n} candidate{'s' * (n > 1)}, epsilon = {in_words(epsilon)})"
    return f"{with_probability(1 - beta)} {holds} {numbers}"


def check_candidates(scores: Numbers, sensitivities: Numbers) -> None:
    """Refuse what is not one exact number per candidate, and as many sensitivities >= 0.

    Raises:
        TypeError: a value that is neither an int nor a Fraction; floats and bools among them.
        ValueError: no candidates, lists of different length, or a negative sensitivity.
    """
    if not len(scores) == len(sensitivities) > 0:
        raise ValueError("there must be one sensitivity for each of one or more scores")
    _check_exact("scores", scores)
    check_sensitivities(sensitivities)


def check_sensitivities(sensitivities: Numbers) -> None:
    """Refuse sensitivities of another type or range."""
    if not len(sensitivities):
        raise ValueError("there must be one sensitivity for each of one or more scores")
    _check_exact("sensitivities", sensitivities)
    if min(sensitivities) < 0:
        raise ValueError("sensitivities must be at least 0")


def in_units(scores: Numbers, sensitivities: Numbers) -> tuple[list[int], list[int]]:
    """Write all scores and sensitivities as integers, in one common unit.

    The unit is one over their least common denominator, so it depends on the data. Only a mechanism
    whose distribution is a function of ratios alone may use it, as each proof note says of its own.
    Any other use of the unit (a rate, a grid or a cut counted in units) would be a leak.

    The time grows with the common denominator. Round scores such as means over groups of many
    different sizes to a public grid first, and their sensitivities up to that grid.
    """
    values = [*scores, *sensitivities]
    unit = math.lcm(*{value.denominator for value in values})
    whole = [value.numerator * (unit // value.denominator) for value in values]
    return whole[: len(scores)], whole[len(scores) :]


def _check_exact(name: str, values: Numbers) -> None:
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, Fraction)):
            raise TypeError(f"{name} must be ints or Fractions")
