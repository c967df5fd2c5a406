"""The number of people with discrete Laplace noise. The proof is in laplace.md."""

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

from dp_sql.udfs.checks import check_epsilon, check_int, check_probability
from dp_sql.udfs.contributions.release import Releases
from dp_sql.udfs.discrete_laplace import discrete_laplaces, laplace_quantile
from dp_sql.udfs.exact_sampling import secret_draws
from dp_sql.udfs.mechanism import Mechanism, PrivacyLoss, in_words, on_one, with_probability


def run_each(data: Sequence[tuple[int]], epsilon: Fraction, beta: Fraction) -> Releases:
    """Count the people of each data set, independently.

    Privacy: for each, epsilon-DP under adding or removing one person.
    Source: Ghosh, Roughgarden and Sundararajan 2012, the geometric mechanism.
    """
    _check(epsilon, beta)
    for (people,) in data:
        check_int("people", people)
        if people < 0:
            raise ValueError("people must be at least 0")
    noise = discrete_laplaces([epsilon] * len(data), secret_draws())
    both = laplace_quantile(epsilon, beta) - 1, within(epsilon, beta)
    estimates = [people + x for (people,), x in zip(data, noise, strict=True)]
    return Releases(estimates, [1] * len(estimates), {1: both})


run = on_one(run_each, "people")


def loss(epsilon: Fraction, beta: Fraction) -> PrivacyLoss:
    """Return a run's loss."""
    return PrivacyLoss(epsilon)


@lru_cache(maxsize=64, typed=True)
def accuracy(epsilon: Fraction, beta: Fraction) -> str:
    """State how far the estimate is from the number of people, from public numbers only."""
    _check(epsilon, beta)
    says = f"{with_probability(1 - beta)} the estimate is within {within(epsilon, beta)}"
    return f"{says} of the number of people (epsilon = {in_words(epsilon)})"


def within(epsilon: Fraction, beta: Fraction) -> int:
    """Bound how far an estimate is from the number of people, except with probability beta."""
    return laplace_quantile(epsilon, beta * Fraction(1, 2)) - 1


def _check(epsilon: Fraction, beta: Fraction) -> None:
    check_epsilon(epsilon)
    check_probability("beta", beta, Fraction(1, 2))


LAPLACE = Mechanism(
    "laplace", "people", "integer noise on the number of people", loss, run, accuracy,
    run_each=run_each,
)  # fmt: skip
