"""Normalized scores: how far behind a candidate is, on a scale where a person moves 1 at most."""

from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

from dp_sql.udfs.select.blocks import Blocks, into_blocks
from dp_sql.udfs.select.selection import Numbers, in_units, shift_of

LOW, HIGH = 1, -1  # the sensitivities that a mechanism favours: the sign of its shift

_Line = tuple[int, int]
"""(a, l): the line a + l x; l >= 0."""


def grid_of(epsilon: Fraction) -> int:
    """Choose a grid so fine that flooring a score to it changes no weight by 1/1000."""
    return 1024 << (epsilon.numerator // epsilon.denominator).bit_length()


def round_up(x: Fraction, grid: int) -> Fraction:
    """Round up to a multiple of 1/grid."""
    return Fraction(-(-x * grid // 1), grid)


def shift_on_grid(n_candidates: int, epsilon: Fraction, beta: Fraction) -> Fraction:
    """Return the shift t of Raskhodnikova and Smith, rounded up to the grid of epsilon."""
    return round_up(shift_of(n_candidates, epsilon, beta), grid_of(epsilon))


def blocks_of(
    scores: Numbers, sensitivities: Numbers, epsilon: Fraction, beta: Fraction, favoured: int
) -> Blocks:
    """Sort candidates by their normalized scores, LOW or HIGH favoured, at the rate for epsilon."""
    grid = grid_of(epsilon)
    shift = favoured * shift_on_grid(len(scores), epsilon, beta)
    return into_blocks(normalized_scores(scores, sensitivities, shift, grid), _rate(epsilon, grid))


def _rate(epsilon: Fraction, grid: int) -> Fraction:
    """Return the rate of one step of the grid: scores move up and down, by `grid` steps each."""
    return epsilon * Fraction(1, 2 * grid)


def normalized_scores(
    scores: Numbers, sensitivities: Numbers, shift: Fraction, grid: int
) -> list[int | None]:
    """Compute floor(grid * s) for the normalized scores s; small is good.

    s[i] is the largest over j of (a[i] - a[j]) / (l[i] + l[j]), where l is the sensitivity and
    a[i] = l[i] * shift - score i. Where both sensitivities are 0 the quotient is 0, or infinite
    if a[i] > a[j]; an infinite s is given as None.
    """
    q, size = in_units(scores, sensitivities)
    # In units of 1/shift.denominator, so that all numbers are integers.
    starts = [shift.numerator * at - shift.denominator * x for x, at in zip(q, size, strict=True)]
    lines = list(zip(starts, (shift.denominator * at for at in size), strict=True))
    lowest = _envelope(sorted(set(lines)))
    ends = [_crossing(*pair) for pair in pairwise(lowest)]
    return [_floor_score(line, lowest, ends, grid) for line in lines]


def _envelope(lines: Sequence[_Line]) -> list[_Line]:
    """Keep of ascending lines those that are lowest somewhere on x >= 0, in that order."""
    kept: list[_Line] = []
    for line in lines:
        if kept and line[1] >= kept[-1][1]:
            continue
        while len(kept) > 1:
            (x, unit), (later, its_unit) = _crossing(kept[-2], kept[-1]), _crossing(kept[-1], line)
            if x * its_unit < later * unit:
                break
            kept.pop()
        kept.append(line)
    return kept


def _crossing(line: _Line, later: _Line) -> tuple[int, int]:
    """Find the x where a later line, less steep, gets below: its numerator and denominator > 0."""
    return later[0] - line[0], line[1] - later[1]


def _floor_score(
    line: _Line, lowest: Sequence[_Line], ends: Sequence[tuple[int, int]], grid: int
) -> int | None:
    """Find the least x with a - l x <= all a[j] + l[j] x, for the line (a, l): floor(grid * x).

    `lowest` is the envelope of the a[j] + l[j] x, `ends` where each of its lines ends but the last.
    """

    def has_fallen(j: int) -> bool:
        x, unit = ends[j]
        return (line[0] - lowest[j][0]) * unit <= (line[1] + lowest[j][1]) * x

    j = bisect_left(range(len(ends)), True, key=has_fallen)
    behind, sizes = line[0] - lowest[j][0], line[1] + lowest[j][1]
    if sizes:
        return grid * behind // sizes
    return None if behind else 0
