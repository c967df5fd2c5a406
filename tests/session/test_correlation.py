"""The public helper takes numbers as users have them; its mathematics is tested in tests/udfs."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import dp_sql


@pytest.mark.parametrize(
    "scores",
    [
        [1, 5, 3],
        [0.1, 0.5, 0.3],
        [Decimal("0.1"), Decimal("0.5"), Decimal("0.3")],
        [Fraction(1, 10), Fraction(1, 2), Fraction(3, 10)],
        np.array([0.1, 0.5, 0.3]),
        np.array([0.1, 0.5, 0.3], dtype=np.float32),
        np.array([1, 5, 3]),
        np.array([1, 5, 3]) * 10**18,
    ],
)
def test_any_numbers_will_do(scores: list[float]) -> None:
    assert dp_sql.correlation(scores, [1, 3, 2]) == 1.0
    assert dp_sql.correlation(scores, [3, 1, 2]) == -1.0
    assert dp_sql.correlation(scores, [2, 3, 1], kind="spearman") == 0.5


def test_numpy_integers_do_not_overflow() -> None:
    scores, sizes = [10**10 * i for i in (1, 5, 2, 9)], [10**9 * i for i in (2, 7, 1, 9)]
    exact = dp_sql.correlation(scores, sizes, kind="weighted")
    assert dp_sql.correlation(np.array(scores), np.array(sizes), kind="weighted") == exact > 0.9


def test_the_weighted_kind_is_another_number() -> None:
    scores, sensitivities = [0, 1, 2, 10], [1, 4, 1, 9]
    spearman = dp_sql.correlation(scores, sensitivities)
    weighted = dp_sql.correlation(scores, sensitivities, kind="weighted")
    assert 0 < spearman < weighted <= 1


@pytest.mark.parametrize(
    ("scores", "sensitivities", "kind"),
    [([1, 2], [1], "spearman"), ([1, 2], [1, -1], "spearman"), ([1, 2], [1, 2], "pearson"),
     ([float("nan"), 2], [1, 2], "spearman"), ([float("inf"), 2], [1, 2], "spearman"),
     ([], [], "spearman")],
)  # fmt: skip
def test_what_is_no_pair_of_columns_is_refused(
    scores: list[float], sensitivities: list[float], kind: str
) -> None:
    with pytest.raises(ValueError):
        dp_sql.correlation(scores, sensitivities, kind)
