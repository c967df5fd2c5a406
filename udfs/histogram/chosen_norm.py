"""Rows of many groups, under a limit on each person that is chosen first. See chosen_norm.md.

A limit is a norm and a bound: on a person's rows in each group, or in all groups together.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from operator import attrgetter

import numpy as np

from dp_sql.udfs.checks import check_epsilon, check_int, check_positive_int, check_probability
from dp_sql.udfs.contributions.bound import choose_among, support_of
from dp_sql.udfs.contributions.histogram import Histograms, above_each, fits, read_histograms
from dp_sql.udfs.discrete_laplace import discrete_laplaces, laplace_quantile, noise_rate
from dp_sql.udfs.exact_sampling import Draws, secret_draws
from dp_sql.udfs.histogram import k_norm
from dp_sql.udfs.mechanism import (
    Mechanism,
    PrivacyLoss,
    exponential_loss,
    in_words,
    with_probability,
)
from dp_sql.udfs.odds import Odds

Columns = tuple[Sequence[int], Sequence[int], Sequence[int]]
"""Buckets, people and sums, as contributions/histogram.py reads them."""

# Privacy holds for any values of these.
_FINE_BITS = 10  # a person with over 2**10 times the rows that may count is left out
_HALF = 1 << _FINE_BITS - 1  # of a row
_NOISE = Fraction(2, 5)  # the size of noise of weight 1 and epsilon 1, or about so
_DOUBLING = Fraction(1, 2)  # by epsilon: a bound in all of twice the size is worth so many people

_EXAMPLE = 4  # a bound in all, for the sentence on accuracy


@dataclass(frozen=True)
class Limit:
    """On a person's rows: in each group, or in all groups together."""

    bound: int  # the most rows that count
    is_of_all: bool
    weight: int  # in proportion to the noise that it takes

    @property
    def place(self) -> int:
        """Of the bound among 1, 2, 4, ..., or of the next larger one."""
        return (self.bound - 1).bit_length()

    def within(self, n_groups: int, share: Fraction, beta: Fraction) -> int:
        """Bound how far all counts are from what is counted, except with probability beta.

        share: of epsilon, that the noise has.
        """
        if not self.is_of_all:
            return k_norm.within(n_groups, share, self.bound, beta)
        of_each = beta * Fraction(1, 2 * max(1, n_groups))
        noise = laplace_quantile(_rate(share, self.place), of_each) - 1
        return noise + (1 << _FINE_BITS) + _HALF - 1 >> _FINE_BITS  # rounding moves a count by half


def limits(n_groups: int, max_contributions: int, by_error: bool) -> list[Limit]:
    """List the limits that may be chosen, those with less noise first."""
    bounds = [1 << i for i in range(max_contributions.bit_length())]
    of_each = [
        Limit(bound, is_of_all=False, weight=(n_groups + 2) * bound)
        for bound in ([max_contributions] if by_error else bounds)
    ]
    n_of_all = (of_each[-1].weight - 1) // 3  # a larger bound has no less noise than the last
    of_all = (Limit(1 << i, is_of_all=True, weight=3 << i) for i in range(n_of_all.bit_length()))
    return sorted(chain(of_each, of_all), key=attrgetter("weight"))


@dataclass(frozen=True)
class GroupRows:
    """What is released of a number of groups; share: of epsilon, that the noise has."""

    counts: list[int]
    limit: Limit
    share: Fraction

    def within(self, beta: Fraction) -> int:
        """Bound how far all counts are from what is counted, except with probability beta."""
        return self.limit.within(len(self.counts), self.share, beta)


def chosen_norm(
    groups: Sequence[Columns],
    most: Columns,
    groups_by_total: Sequence[Columns],
    totals: Columns,
    epsilon: Fraction,
    max_contributions: int,
    few_groups: int,
    choice: Fraction,
    by_error: bool,
) -> GroupRows:
    """Choose a limit on each person's rows, and count the rows of all groups under it.

    Args:
        groups: for each group, the people in it by their rows there.
        most: all people by their largest number of rows in a group.
        groups_by_total: for each group, the people in it by their rows in all groups, and their
            rows there: buckets are those of `totals`.
        totals: all people by their rows in all groups.
        epsilon: privacy loss of all counts together, positive.
        max_contributions: the largest bound on a person's rows in a group, >= 1.
        few_groups: >= 0. For so many groups or fewer the limit is the largest one in each group,
            and all of epsilon is for the noise.
        choice: the part of epsilon that goes to the choice of a limit, between 0 and 1.
        by_error: whether the limit is chosen by the error that it makes. Then max_contributions is
            the only bound in a group, and no person has more rows in one.

    Returns:
        The noisy counts and the limit.

    Raises TypeError for a number of another type, floats among them, and ValueError for one out of
    range or columns that no set of people could have.

    Privacy: epsilon-DP under adding or removing one person with any rows, in any groups.
    Source: k_norm.py, and the Laplace mechanism (Dwork et al. 2006); the choice, see bound.md.
    """
    share = noise_share(epsilon, max_contributions, few_groups, choice, by_error)
    draws = secret_draws()
    each, parts = read_histograms(groups), read_histograms(groups_by_total, in_part=True)
    candidates = limits(each.n, max_contributions, by_error)
    if by_error and (-(-each.sums // each.people) > max_contributions).any():
        raise ValueError("groups must be within a stated bound")
    if each.n <= few_groups:
        return _in_each(each, candidates[-1], epsilon)
    if by_error:
        limit = _choose_by_error(parts, candidates, share, epsilon - share, draws)
    else:
        people = read_histograms([most, totals])
        limit = _choose_by_people(people, each.n, candidates, share, epsilon - share, draws)
    if limit.is_of_all:
        return GroupRows([*_laplace(parts, limit.place, share, draws)], limit, share)
    return _in_each(each, limit, share)


def _in_each(each: Histograms, limit: Limit, share: Fraction) -> GroupRows:
    """Count the rows under a limit in each group, with a share of epsilon for the noise."""
    counts = each.clipped(np.full(each.n, limit.place)).tolist()
    return GroupRows(k_norm.k_norm(counts, share, limit.bound), limit, share)


def _choose_by_people(
    people: Histograms, n_groups: int, candidates: Sequence[Limit], share: Fraction,
    epsilon: Fraction, draws: Draws,
) -> Limit:  # fmt: skip
    """Choose a limit by how many people are beyond it: by their most rows, and by all of them."""
    above = above_each(people, max(one.place for one in candidates) + 1).tolist()
    place = choose_among(
        [above[one.is_of_all][one.place] for one in candidates],
        tuple(one.weight for one in candidates),
        max(support_of(epsilon), -(-n_groups // share)),
        epsilon,
        draws,
    )
    return candidates[place]


def _choose_by_error(
    parts: Histograms, candidates: Sequence[Limit], share: Fraction, epsilon: Fraction, draws: Draws
) -> Limit:
    """Choose a limit by what it leaves out and by its noise, which has a share of epsilon.

    The last is the one in each group, which leaves nothing out.

    Privacy: epsilon-DP with losses in a range of epsilon, if no person has more rows in a group
        than the last limit's bound.
    Source: the exponential mechanism of McSherry and Talwar 2007. One person moves all errors in
        one direction, by at most 1: see chosen_norm.md.
    """
    unit, errors = candidates[-1].bound, list[int]()
    for one in candidates:
        of_noise = one.weight * _NOISE // (share * unit)
        of_all = _left_out(parts, one.place, unit) + one.place * _DOUBLING // epsilon
        errors.append(of_noise + (of_all if one.is_of_all else 0))
    least = min(errors)
    place = draws.choose(Odds([((1, error - least),) for error in errors], epsilon))
    return candidates[place]


def _left_out(parts: Histograms, place: int, bound: int) -> int:
    """Return the root mean square of what a limit in all leaves out of each group, by bound."""
    n, one = max(1, parts.n), bound << _FINE_BITS
    beyond = parts.where(parts.buckets > place)  # all rows of the others count
    counts = zip(beyond.totals().tolist(), _kept(beyond, place), strict=True)
    return math.isqrt(
        sum(((rows << _FINE_BITS) - kept) ** 2 for rows, kept in counts) // (n * one**2)
    )


def _laplace(parts: Histograms, place: int, share: Fraction, draws: Draws) -> Iterator[int]:
    """Count rows in parts of 2**_FINE_BITS, with noise of its own for each group; round."""
    noise = discrete_laplaces([_rate(share, place)] * parts.n, draws)
    for kept, added in zip(_kept(parts, place), noise, strict=True):
        yield _rounded(kept + added)


def _kept(parts: Histograms, place: int) -> list[int]:
    """Count the rows of each group, in parts, of which a person has 2**place in all groups."""
    own, one = parts.where(parts.buckets <= place + _FINE_BITS), 1 << _FINE_BITS
    rows = own.sums if fits(own.sums, one) else own.sums.astype(object)
    fine = replace(own, sums=rows * one >> np.maximum(own.buckets - place, 0))
    kept: list[int] = fine.totals().tolist()
    return kept


def _rounded(fine: int) -> int:
    """A whole number from one in parts."""
    return fine + _HALF >> _FINE_BITS


def _rate(share: Fraction, place: int) -> Fraction:
    """Return the rate of one part of a row, where a person has 2**place rows in all groups."""
    return noise_rate(share, 1 << place + _FINE_BITS)


def noise_share(
    epsilon: Fraction, max_contributions: int, few_groups: int, choice: Fraction, by_error: bool
) -> Fraction:
    """Return the part of epsilon that goes to the noise where a limit is chosen."""
    check_epsilon(epsilon)
    check_positive_int("max_contributions", max_contributions)
    check_int("few_groups", few_groups)
    if few_groups < 0:
        raise ValueError("few_groups must not be negative")
    check_probability("choice", choice)
    if not isinstance(by_error, bool):
        raise TypeError("by_error must be True or False")
    return epsilon * (1 - choice)


def loss(
    epsilon: Fraction, max_contributions: int, few_groups: int, choice: Fraction, by_error: bool
) -> PrivacyLoss:
    """Return a run's loss, for any number of groups: a choice, then noise that does not see it."""
    noise = PrivacyLoss(noise_share(epsilon, max_contributions, few_groups, choice, by_error))
    if few_groups:  # noise alone, of all of epsilon, has the larger loss
        return k_norm.loss(epsilon, max_contributions)
    chosen = exponential_loss(epsilon - noise.epsilon)
    rho, both = chosen.rho, chosen.bounded_range + noise.bounded_range
    assert rho is not None
    assert noise.rho is not None
    return PrivacyLoss(epsilon, rho=rho + noise.rho, bounded_range=both)


def accuracy(
    size: int,
    epsilon: Fraction,
    max_contributions: int,
    few_groups: int,
    choice: Fraction,
    by_error: bool,
    beta: Fraction,
) -> str:
    """State how far the counts are off under some of the limits; `size` counts the groups."""
    check_probability("beta", beta)
    share = noise_share(epsilon, max_contributions, few_groups, choice, by_error)
    candidates = limits(size, max_contributions, by_error)
    if size <= few_groups:
        return k_norm.accuracy(size, epsilon, candidates[-1].bound, beta)
    first = next(one for one in candidates if not one.is_of_all)
    others = [one for one in candidates if one.is_of_all and one.bound == _EXAMPLE]
    such = "the first limit, or one on all counts together" if by_error else "one such limit"
    counts = k_norm.counts_within(size, first.within(size, share, beta))
    or_others = "".join(
        f", or within ± {one.within(size, share, beta)} if {_in_words(one)}" for one in others
    )
    return (
        f"{with_probability(1 - beta)} {counts} without noise if {_in_words(first)}{or_others}; "
        f"{such}, with a bound from 1, 2, 4, …, is chosen for all people, and a person "
        f"beyond it counts in part or not at all (epsilon = {in_words(epsilon)})"
    )


def accuracy_of(found: GroupRows, epsilon: Fraction, beta: Fraction) -> str:
    """State the same for what was released."""
    chosen = ": this limit was chosen for all people" if found.share < epsilon else ""
    counts = k_norm.counts_within(len(found.counts), found.within(beta))
    return (
        f"{with_probability(1 - beta)} {counts} without noise; {_in_words(found.limit)}{chosen} "
        f"(epsilon = {in_words(epsilon)})"
    )


def _in_words(limit: Limit) -> str:
    counts = "all counts together" if limit.is_of_all else "each count"
    return f"a person adds at most {limit.bound} to {counts}"


CHOSEN_NORM = Mechanism(
    "chosen_norm", "group_rows",
    "a limit on a person's rows, in each group or in all, then noise for all groups",
    loss, chosen_norm, accuracy,
)  # fmt: skip
