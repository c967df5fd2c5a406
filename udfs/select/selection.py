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

from collections.abc import Callable
from fractions import Fraction
from inspect import getdoc

from dp_sql.udfs.checks import check_epsilon, check_probability
from dp_sql.udfs.exact_sampling import Draws, secret_draws
from dp_sql.udfs.mechanism import Mechanism, PrivacyLoss
from dp_sql.udfs.select.candidates import Numbers, check_candidates, check_sensitivities

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
    name = choose.__name__
    return Mechanism(name, "select", samples, ("epsilon",), loss, run, _checked(accuracy))


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
    name = choose.__name__
    return Mechanism(name, "select", samples, ("epsilon", "beta"), loss, run, _checked(accuracy))


def _checked(accuracy: Accuracy) -> Accuracy:
    """Check the public numbers first."""

    def checked(sensitivities: Numbers, epsilon: Fraction, beta: Fraction) -> str:
        check_sensitivities(sensitivities)
        check_epsilon(epsilon)
        check_probability("beta", beta)
        return accuracy(sensitivities, epsilon, beta)

    return checked
