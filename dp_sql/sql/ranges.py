"""Ranges and defaults of the numbers in a DP call."""

from fractions import Fraction

MIN_EPSILON = Fraction(1, 10**9)
MAX_EPSILON = Fraction(10**4)
MIN_DELTA = Fraction(1, 10**18)
MAX_DELTA = Fraction(1, 10**3)
MAX_K = 100_000
MAX_CONTRIBUTIONS = 100_000
DEFAULT_MAX_CONTRIBUTIONS = 100  # where all bounds are looked at
MAX_GROUPS_CONTRIBUTED = 1000
MAX_GROUPS = 10_000
DEFAULT_BETA = Fraction(1, 20)
