"""What a bound leaves of people's numbers, and which of several limits a large epsilon chooses."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from dp_sql.udfs.contributions.bound import choose_among
from dp_sql.udfs.contributions.histogram import above_each, read_histograms
from dp_sql.udfs.exact_sampling import secret_draws

SUPPORT = 100


@pytest.mark.parametrize(
    ("above", "weights", "chosen"),
    [
        (
            [200, 9_000],
            (1, 2),
            1,
        ),  # the last limit is the largest: people above it cannot have more
        ([600, 0], (1, 1 << 12), 1),  # more than ten doublings need no more people than ten
        ([540, 0], (1, 1 << 12), 0),
        ([140, 0], (1, 2), 1),  # a doubling needs one support, and a limit leaves out another
        ([90, 0], (1, 2), 0),
    ],
)
def test_the_limit_of_the_least_shortfall_is_chosen(
    above: Sequence[int], weights: tuple[int, ...], chosen: int
) -> None:
    found = choose_among(above, weights, SUPPORT, Fraction(100), secret_draws())
    assert found == chosen


@pytest.mark.parametrize("place", range(6))
def test_a_bound_clips_each_number(place: int) -> None:
    numbers = [*range(1, 21), 3, 16, 17]
    by_bucket: dict[int, list[int]] = {}
    for n in numbers:
        by_bucket.setdefault((n - 1).bit_length(), []).append(n)
    sums = [*map(sum, by_bucket.values())]
    these = read_histograms([([*by_bucket], [*map(len, by_bucket.values())], sums)])
    assert these.clipped(np.array([place])).tolist() == [sum(min(n, 1 << place) for n in numbers)]
    assert these.totals().tolist() == [sum(numbers)]
    (above,) = above_each(these, place + 1).tolist()
    assert above == [sum(n > 1 << i for n in numbers) for i in range(place + 1)]
