"""Which groups may be shown, where none are public. The proof is in partition_selection.md."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_sql.udfs.checks import check_probability
from dp_sql.udfs.count_distinct.pairs import items_of_people
from dp_sql.udfs.exact_sampling import secret_draws
from dp_sql.udfs.mechanism import Mechanism, PrivacyLoss, in_words, with_probability
from dp_sql.udfs.topk.weighted_gaussian import (
    Constants,
    check_finding,
    find,
    finding_constants,
    loss_of_finding,
    people_needed,
)


def partition_selection(
    items: NDArray[np.integer[Any]], people: NDArray[np.integer[Any]], epsilon: Fraction,
    delta: Fraction, max_contributions: int,
) -> list[int]:  # fmt: skip
    """Find groups that enough people are in.

    Args:
        items: codes of groups, integers >= 0 below 2^31 - 1, dense or nearly so, shape (pairs,).
        people: who is in each of them, any integers, shape (pairs,); a person counts once in a
            group.
        epsilon: privacy loss, positive.
        delta: privacy slack, in (0, 1).
        max_contributions: to how many groups one person gives weight at most, >= 1.

    Returns:
        Codes of groups, in ascending order, possibly none.

    Raises TypeError for a public number of another type, floats among them, and ValueError for one
    out of range or arrays that are not such pairs.

    Privacy: (epsilon, delta)-DP under adding or removing one person, in any number of groups.
    Source: Gopi, Gulhane, Kulkarni, Shen, Shokouhi and Yekhanin 2020 (the weighted Gaussian);
        Canonne, Kamath and Steinke 2020 (its discrete noise).
    """
    constants = _public_constants(epsilon, delta, max_contributions)
    pairs = items_of_people(items, people)
    if constants is None:
        return []
    found: list[int] = find(*pairs, constants, secret_draws()).tolist()
    return found


def loss(epsilon: Fraction, delta: Fraction, max_contributions: int) -> PrivacyLoss:
    """Return a run's loss, however many groups it finds."""
    _public_constants(epsilon, delta, max_contributions)
    return loss_of_finding(epsilon, delta)


def accuracy(epsilon: Fraction, delta: Fraction, max_contributions: int, beta: Fraction) -> str:
    """State how many people a group needs to be found."""
    constants = _public_constants(epsilon, delta, max_contributions)
    check_probability("beta", beta)
    if constants is None:
        given = f"(epsilon = {in_words(epsilon)}, delta = {in_words(delta)})"
        return f"no group is found, because epsilon is too small {given}"
    weights = constants.weights

    def needed(n: int) -> int:
        return people_needed(replace(constants, weights=weights[:n]), beta)

    return sentence(needed, len(weights), epsilon, delta, beta)


def sentence(
    needed: Callable[[int], int], n_groups: int, epsilon: Fraction, delta: Fraction, beta: Fraction
) -> str:
    """State how many people a group needs: in no other, or in up to `n_groups` groups each."""
    says = f"{needed(1)} people who are in no other"
    if n_groups > 1:
        says += f", or {needed(n_groups)} who are in up to {n_groups} groups each"
    given = f"(epsilon = {in_words(epsilon)}, delta = {in_words(delta)})"
    return f"{with_probability(1 - beta)} a group is found if it has {says} {given}"


def _public_constants(
    epsilon: Fraction, delta: Fraction, max_contributions: int
) -> Constants | None:
    check_finding(epsilon, delta, max_contributions)
    return finding_constants(epsilon, delta, max_contributions)


PARTITION_SELECTION = Mechanism(
    "partition_selection", "groups", "whether each group is found",
    loss, partition_selection, accuracy,
)  # fmt: skip
