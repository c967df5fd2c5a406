"""What can be said of a choice from public numbers alone. Never sees a score."""

from fractions import Fraction

from dp_sql.udfs.intervals import ln_enclosure
from dp_sql.udfs.mechanism import in_words, with_probability
from dp_sql.udfs.select.candidates import Numbers


def shift_of(n_candidates: int, epsilon: Fraction, beta: Fraction) -> Fraction:
    """Return t = (2/epsilon) ln(n_candidates/beta), rounded up.

    Candidates whose weight, or probability of being accepted, is at most exp(-epsilon t / 2)
    are together chosen with probability at most beta, as long as another has weight 1.
    """
    _, high = ln_enclosure(Fraction(n_candidates, beta), 64)
    return high * Fraction(2, epsilon)


def rounded_up(x: Fraction) -> str:
    """Write a number >= 0, rounded up to four digits or to an integer.

    >>> rounded_up(Fraction(19, 7)), rounded_up(Fraction(12345678, 10)), rounded_up(Fraction(0))
    ('2.715', '1234568', '0')
    """
    places = 0
    while 0 < x * 10**places < 1000:
        places += 1
    return in_words(Fraction(-(-x * 10**places // 1), 10**places))


def sentence(sensitivities: Numbers, epsilon: Fraction, beta: Fraction, holds: str) -> str:
    """Say that something holds with probability at least 1 - beta, and for which numbers."""
    numbers = f"({len(sensitivities)} candidates, epsilon = {in_words(epsilon)})"
    return f"{with_probability(1 - beta)} {holds} {numbers}"
