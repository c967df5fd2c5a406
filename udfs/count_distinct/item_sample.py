"""A count of a sample of the items, scaled to all of them. The proofs are in item_sample.md.

An item is in the sample if 64 bits of a keyed hash of it are below a threshold. The rate is public;
the key is drawn for each release, and is drawn by the caller, who hashes the items.
"""

import math
from fractions import Fraction

from dp_sql.udfs.binomial import least_trials
from dp_sql.udfs.count_distinct.bounded import CountRelease
from dp_sql.udfs.mechanism import in_words

KEY_BYTES = 32
_WORDS = 1 << 64
_SHOWN_AT = (10**6, 10**8)  # numbers of items for which the error of the sample is shown


def threshold(rate: Fraction) -> int:
    """Return the threshold: an item is in the sample if 64 bits of its hash are below it."""
    if not isinstance(rate, Fraction):
        raise TypeError("rate must be a Fraction")
    if not Fraction(1, _WORDS) <= rate < 1:
        raise ValueError("rate must be at least 2**-64 and less than 1")
    return rate.numerator * _WORDS // rate.denominator


def for_each(beta: Fraction) -> Fraction:
    """Return the half of beta that is for the noise; the sample has the other."""
    return beta * Fraction(1, 2)


def of_all_items(found: CountRelease, rate: Fraction, beta: Fraction) -> CountRelease:
    """Scale the release of a sample; its lower bound fails with probability for_each(beta).

    Privacy: post-processing.
    """
    part = Fraction(threshold(rate), _WORDS)
    if found.lower_bound > 0:
        lower_bound = least_trials(found.lower_bound, part, for_each(beta))
    else:
        lower_bound = round(_times(found.lower_bound, part))  # at most 0
    estimate = round(_times(found.estimate, part))
    return CountRelease(estimate, lower_bound, found.contribution_bound)


def _times(x: int, part: Fraction) -> Fraction:
    """Return x divided by the part of the items that is in a sample."""
    return Fraction(x * part.denominator, part.numerator)


def accuracy(says: str, rate: Fraction) -> str:
    """State how accurate the scaled estimate is; `says` is what holds for the sample's own."""
    errors = [f"{_percent(rate, n)} at {n:,}" for n in _SHOWN_AT]
    part = in_words(rate)
    return (
        f"in a sample of {part} of the items, {says}; the answer is that estimate divided by "
        f"{part}, and sampling adds a standard error of {' items, '.join(errors)}"
    )


def _percent(rate: Fraction, n_items: int) -> str:
    """Return the standard error that a sample adds, relative to n_items, with two digits."""
    square = 10**4 * (1 - rate) * Fraction(1, n_items) * Fraction(rate.denominator, rate.numerator)
    places = 0
    while square * 100**places < 100 and places < 12:
        places += 1
    whole = math.isqrt(int(square * 100**places * 4))
    return f"{in_words(Fraction((whole + 1) // 2, 10**places))} %"
