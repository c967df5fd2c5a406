"""Who has which item, as codes: checked once, then read by every count. Whole numbers only."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.integer[Any]]
Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]

LIMIT = 2**31 - 1  # sizes, codes and bounds stay below it, so that all arrays are int32


@dataclass(frozen=True, eq=False)
class Graph:
    """Who has which item: one run of person codes per item. Made by build_graph alone."""

    offsets: Int32s  # where each item's run starts, then where the last ends, shape (n_items + 1,)
    people: Int32s  # the runs, in a row; a person may appear in one run more than once
    n_items: int  # number of runs, empty ones included
    n_people: int  # the largest person code plus one


def build_graph(offsets: Integers, people: Integers) -> Graph:
    """Check the input and take it over, without a copy if it is int32 already.

    Args:
        offsets: integers, shape (n_items + 1,), from 0 up to len(people), never falling.
        people: person codes in any order, integers >= 0 below 2^31 - 1, dense or nearly so: an
            unused code costs some bytes and a little time. A person counts once in each run.

    Raises ValueError if the input is anything else, or has 2^31 - 1 edges or more.
    """
    offsets, people = np.asarray(offsets), np.asarray(people)
    for name, values in (("offsets", offsets), ("people", people)):
        if values.ndim != 1 or (values.size > 0 and values.dtype.kind not in "iu"):
            raise ValueError(f"{name} must be a one-dimensional array of integers")
        if values.size >= LIMIT:
            raise ValueError(f"{name} must have fewer than 2^31 - 1 entries")
    if offsets.size == 0 or offsets[0] != 0 or offsets[-1] != people.size:
        raise ValueError("offsets must start at 0 and end at the number of people entries")
    if np.any(offsets[1:] < offsets[:-1]):
        raise ValueError("offsets must never fall")
    n_people = int(people.max()) + 1 if people.size else 0
    if people.size and (people.min() < 0 or n_people > LIMIT):
        raise ValueError("person codes must be at least 0 and below 2^31 - 1")
    runs = [read_only(np.ascontiguousarray(values, np.int32)) for values in (offsets, people)]
    return Graph(runs[0], runs[1], offsets.size - 1, n_people)


def read_only(values: Int32s) -> Int32s:
    """View that cannot be written through."""
    view = values.view()
    view.flags.writeable = False
    return view


def zeros(size: int) -> Int32s:
    """Return so many zeros."""
    return np.zeros(size, dtype=np.int32)
