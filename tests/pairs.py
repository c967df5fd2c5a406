"""Cases of three values in which any two values meet: far fewer than all cases."""

from collections.abc import Sequence
from typing import Any


def in_pairs(
    first: Sequence[Any], second: Sequence[Any], third: Sequence[Any]
) -> list[tuple[Any, Any, Any]]:
    """Any two of the first and second values, with the third ones in turn.

    >>> in_pairs("ab", "xy", "12")
    [('a', 'x', '1'), ('a', 'y', '2'), ('b', 'x', '2'), ('b', 'y', '1')]
    """
    assert len(third) <= min(len(first), len(second))
    return [
        (one, other, third[(i + j) % len(third)])
        for i, one in enumerate(first)
        for j, other in enumerate(second)
    ]
