from fractions import Fraction

import pytest

from dp_sql.udfs.select.selection import in_units, rounded_up

EPSILON, BETA = Fraction(1), Fraction(1, 20)


def test_units_keep_all_ratios():
    scores, sizes = in_units([Fraction(1, 2), -3], [Fraction(2, 3), 0])
    assert (scores, sizes) == ([3, -18], [4, 0])


def test_whole_numbers_are_their_own_units():
    assert in_units([5, -3], [2, 0]) == ([5, -3], [2, 0])


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (Fraction(0), "0"),
        (Fraction(1), "1"),
        (Fraction(10**9 + 1, 10**4), "100001"),
        (Fraction(2, 3), "0.6667"),
        (Fraction(1, 10**6), "0.000001"),
        (Fraction(12341, 10**7), "0.001235"),
    ],
)
def test_errors_are_rounded_up(x, words):
    assert rounded_up(x) == words
