"""The number of people with discrete Laplace noise. The proof is in laplace.md."""

from fractions import Fraction

from dp_sql.udfs.checks import check_epsilon, check_int, check_probability
from dp_sql.udfs.contributions.release import BoundedRelease
from dp_sql.udfs.discrete_laplace import discrete_laplace, laplace_quantile
from dp_sql.udfs.exact_sampling import Draws, secret_draws
from dp_sql.udfs.mechanism import Mechanism, PrivacyLoss, in_words, with_probability


def run(people: int, epsilon: Fraction, beta: Fraction) -> BoundedRelease:
    """Count people.

    Privacy: epsilon-DP under adding or removing one person.
    Source: Ghosh, Roughgarden and Sundararajan 2012, the geometric mechanism.
    """
    _check(epsilon, beta)
    check_int("people", people)
    if people < 0:
        raise ValueError("people must be at least 0")
    return release(people, epsilon, beta, secret_draws())


def release(people: int, epsilon: Fraction, beta: Fraction, draws: Draws) -> BoundedRelease:
    """Add noise, release."""
    estimate = people + discrete_laplace(epsilon, draws)
    lower_bound = estimate - (laplace_quantile(epsilon, beta) - 1)
    return BoundedRelease(estimate, lower_bound, within(epsilon, beta), 1)


def loss(epsilon: Fraction, beta: Fraction) -> PrivacyLoss:
    """Price one run."""
    return PrivacyLoss(epsilon)


def accuracy(epsilon: Fraction, beta: Fraction) -> str:
    """State how far the estimate is from the number of people, from public numbers only."""
    _check(epsilon, beta)
    says = f"{with_probability(1 - beta)} the estimate is within {within(epsilon, beta)}"
    return f"{says} of the number of people (epsilon = {in_words(epsilon)})"


def within(epsilon: Fraction, beta: Fraction) -> int:
    """How far an estimate is from the number of people, with probability 1 - beta."""
    return laplace_quantile(epsilon, beta * Fraction(1, 2)) - 1


def _check(epsilon: Fraction, beta: Fraction) -> None:
    check_epsilon(epsilon)
    check_probability("beta", beta, Fraction(1, 2))


LAPLACE = Mechanism(
    "laplace", "people", "integer noise on the number of people", ("epsilon", "beta"), loss, run,
    accuracy,
)  # fmt: skip
