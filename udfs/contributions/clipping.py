"""The sum of people's contributions, each clipped at a bound. The proofs are in clipping.md.

A histogram says all that is needed of the contributions, positive integers: in bucket 0 those of 1,
in bucket j >= 1 those c with 2^(j-1) < c <= 2^j.
"""

from collections.abc import Sequence
from fractions import Fraction

from dp_sql.udfs.count_distinct import bounded
from dp_sql.udfs.count_distinct.bounded import DIFFERENCE, CountRelease
from dp_sql.udfs.exact_sampling import secret_draws
from dp_sql.udfs.mechanism import Mechanism


def clipped_sums(people: Sequence[int], sums: Sequence[int], bounds: Sequence[int]) -> list[int]:
    """Sum min(bound, contribution) over people, for each bound. Not private without noise.

    Each bound is a power of 2, or at least the largest contribution.
    """
    return [
        sum(
            n * at if 2 * at <= 1 << j else total
            for j, (n, total) in enumerate(zip(people, sums, strict=True))
        )
        for at in bounds
    ]


def run(
    people: Sequence[int],
    sums: Sequence[int],
    epsilon: Fraction,
    beta: Fraction,
    max_contributions: int,
    bound: str | int,
) -> CountRelease:
    """Sum contributions, nearly: people[j] in bucket j contribute sums[j] together.

    No contribution may exceed max_contributions, or the bound where it is given.

    Privacy: epsilon-DP under adding or removing one person: epsilon/2 for the bound and epsilon/2
        for the noise, or all for the noise where the bound is given.
    Source: Amin, Kulesza, Munoz Medina and Vassilvitskii 2019 for clipping at a private bound; the
        choice of the bound, see difference.md.
    """
    bounded.check_public(epsilon, beta, max_contributions, bound, (DIFFERENCE,))
    if any(n < 0 for n in people) or any(total < 0 for total in sums):
        raise ValueError("people and sums must be at least 0")
    bounds = bounded.candidates(max_contributions, bound)
    cover = clipped_sums(people, sums, bounds)
    return bounded.release(cover, epsilon, beta, bound, secret_draws(), bounds)


def accuracy(epsilon: Fraction, beta: Fraction, max_contributions: int, bound: str | int) -> str:
    """State how far the number of rows may be exceeded, from public numbers only."""
    return bounded.accuracy_of("rows", epsilon, beta, max_contributions, bound)


CLIPPING = Mechanism(
    "clipping", "count", "a contribution bound, then integer noise on the rows kept under it",
    ("epsilon", "beta", "max_contributions", "bound"), bounded.loss, run, accuracy,
    bound_selections=(DIFFERENCE,),
)  # fmt: skip
