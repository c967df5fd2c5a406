"""What the top-k mechanisms share: checks, union bounds, and one template for a public domain.

Every mechanism that `public_domain` registers takes:

    counts: distinct people per item of the public domain, shape (d,), int64, >= 0; items without
        people are in it, as zeros.
    k: length of the list, 1 <= k <= d.
    epsilon: privacy loss, positive.

It returns the positions of k different items, best first. It raises TypeError for an argument of
another type, floats among them, and ValueError for an argument out of its range.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from inspect import getdoc

import numpy as np

from dp_sql.udfs.checks import check_epsilon, check_int, check_vector
from dp_sql.udfs.exact_sampling import Draws, secret_draws
from dp_sql.udfs.intervals import ln_enclosure
from dp_sql.udfs.mechanism import Mechanism, PrivacyLoss, in_words, with_probability
from dp_sql.udfs.topk.ranking import Ints

_TAIL_BITS = 40
TAIL = Fraction(1, 1 << _TAIL_BITS)


def public_domain(
    samples: str,
    sample: Callable[[Ints, int, Fraction, int, Draws], list[int]],
    loss: Callable[[int, Fraction], PrivacyLoss],
    rate_of: Callable[[int, Fraction], Fraction],
    n_outcomes: Callable[[int, int], int],
    *,
    is_set: bool = False,
    sample_each: Callable[[Ints, int, Fraction, int, Draws], Ints] | None = None,
) -> Mechanism:
    """Register an epsilon-DP mechanism of a public domain, under the name of `sample`.

    Args:
        samples: as in Mechanism.
        sample: sample(counts, k, rate, cut, draws) draws a list at q = exp(-rate); errors from
            the cut on count as equal.
        loss: loss(k, epsilon) of one run.
        rate_of: rate_of(k, epsilon) is the rate to sample at.
        n_outcomes: n_outcomes(d, k) outcomes share the union bound.
        is_set: as in Mechanism; then the error is against what is left out.
        sample_each: sample_each(counts, k, rate, cut, draws) draws a list for each row of counts.
    """

    def run(counts: Ints, k: int, epsilon: Fraction) -> list[int]:
        counts = checked_counts(counts)
        check_public(len(counts), k, epsilon)
        rate = rate_of(k, epsilon)
        cut = cut_of(n_outcomes(len(counts), k), rate)
        return sample(counts, k, rate, cut, secret_draws())

    def accuracy(d: int, k: int, epsilon: Fraction, beta: Fraction) -> str:
        check_public(d, k, epsilon)
        price = f"epsilon = {in_words(epsilon)}"
        rate = rate_of(k, epsilon)
        return sentence(d, k, n_outcomes(d, k), rate, beta, price, is_set=is_set)

    def run_each(data: Sequence[tuple[Ints]], k: int, epsilon: Fraction) -> list[list[int]]:
        if sample_each is None or len({len(counts) for (counts,) in data}) != 1:
            return [run(counts, k, epsilon) for (counts,) in data]
        counts = checked_counts(np.concatenate([counts for (counts,) in data]))
        counts = counts.reshape(len(data), counts.size // len(data))
        check_public(counts.shape[1], k, epsilon)
        rate = rate_of(k, epsilon)
        cut = cut_of(n_outcomes(counts.shape[1], k), rate)
        listed: list[list[int]] = sample_each(counts, k, rate, cut, secret_draws()).tolist()
        return listed

    run.__doc__ = getdoc(sample)
    return Mechanism(
        sample.__name__, "topk", samples, loss, run, accuracy, is_set=is_set,
        run_each=sample_each and run_each,
    )  # fmt: skip


def checked_counts(counts: Ints) -> Ints:
    """Refuse what is not a vector of counts."""
    check_vector("counts", counts, (1 << 62) - 1, "2**62 - 1")
    return counts.astype(np.int64, copy=False)


def check_public(d: int, k: int, epsilon: Fraction) -> None:
    """Refuse numbers of another type or out of their range."""
    check_int("d", d)
    check_int("k", k)
    check_epsilon(epsilon)
    if not 1 <= k <= d:
        raise ValueError("k must lie between 1 and the number of items in the domain")


def cut_of(n_outcomes: int, rate: Fraction) -> int:
    """Choose a public cut with q**cut * n_outcomes <= 2**-40, by bit lengths (ln 2 < 7/10)."""
    return -(-7 * (n_outcomes.bit_length() + _TAIL_BITS) // (10 * rate))


def union_bound(n_outcomes: int, rate: Fraction, mass: Fraction) -> int:
    """Find the least integer t with n_outcomes * exp(-rate * t) <= mass, up to rounding up."""
    _, log = ln_enclosure(Fraction(n_outcomes, mass), 64)
    return -(-log // rate)


def error_bound(n_outcomes: int, rate: Fraction, beta: Fraction) -> int:
    """Bound the error of a list on every data set, except with probability beta in [2**-40, 1)."""
    if not isinstance(beta, Fraction):
        raise TypeError("beta must be a Fraction")
    if not TAIL <= beta < 1:
        raise ValueError("beta must lie between 2**-40 and 1")
    return max(0, union_bound(n_outcomes, rate, beta) - 1)


def sentence(
    d: int, k: int, n_outcomes: int, rate: Fraction, beta: Fraction, price: str, *,
    is_set: bool = False,
) -> str:  # fmt: skip
    """State the error bound; a beta below 2**-40 is read as 2**-40, for the cut's sake."""
    beta = max(beta, TAIL)
    bound = error_bound(n_outcomes, rate, beta)
    given = f"(domain of {d} item{'s' * (d > 1)}, k = {k}, {price})"
    return f"{with_probability(1 - beta)} {no_item_short_by(bound, is_set=is_set)} {given}"


def no_item_short_by(bound: int, *, is_set: bool = False) -> str:
    """Say by how many people each listed item may fall short."""
    other = "any item left out" if is_set else "the item that belongs at its rank"
    people = "person" if bound == 1 else "people"
    return f"each listed item has at most {bound} {people} fewer than {other}"
