"""Ranges and defaults of the numbers in a DP call."""

from fractions import Fraction

MIN_EPSILON = Fraction(1, 10**9)
MAX_EPSILON = Fraction(10**4)
MIN_DELTA = Fraction(1, 10**18)
MAX_DELTA = Fraction(1, 10**3)
MAX_K = 100_000
MAX_CONTRIBUTIONS = 10_000
DEFAULT_MAX_CONTRIBUTIONS = 100
OPEN_CONTRIBUTIONS = 100_000  # where the candidates are 1, 2, 4, … and a larger one costs little
MAX_ROWS_CONTRIBUTED = 10**9  # also the default of DP_COUNT
# From here on weighted_gaussian is the default without a domain; see docs/mechanisms.md.
WEIGHTED_FROM_K = 10
WEIGHTED_FROM_EPSILON = Fraction(1, 100)
MAX_QUANTILES = 20
MAX_GROUPS_CONTRIBUTED = 1000
MAX_GROUPS = 10_000
MAX_GROUPS_FOUND_BY = 30  # unknown groups to which one person gives weight, by default
MIN_SAMPLE = Fraction(1, 10**9)
MIN_BETA = Fraction(1, 10**12)
DEFAULT_BETA = Fraction(1, 20)
