"""The kernels of the C files, compiled and typed. Every call releases the interpreter's lock."""

from ctypes import CDLL, POINTER, Structure, c_int, c_int64, c_void_p, sizeof
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.ctypeslib import ndpointer
from numpy.typing import NDArray

Int32s = NDArray[np.int32]

LIBRARY = Path(__file__).with_name("libkernels.so")  # built by kernels_build.py

_NUMBERS = (
    "n_edges", "n_items", "bound", "coverable", "n_covered", "room", "n_alive", "n_reads", "phase",
    "n_dead", "n_exposed",
)  # fmt: skip
_ARRAYS = (
    "offsets", "people", "order", "cover", "asked", "full", "slot_item", "next_slot", "first_slot",
    "load", "mark", "log", "path_item", "path_slot", "path_edge", "start", "stop", "items",
    "fresh", "next", "level", "alive", "queue", "path",
)  # fmt: skip
_INT32S = ndpointer(np.int32, ndim=1, flags="C_CONTIGUOUS")
_INT64S = ndpointer(np.int64, ndim=1, flags="C_CONTIGUOUS")
_BYTES = ndpointer(np.uint8, ndim=1, flags="C_CONTIGUOUS")
_BOOLS = ndpointer(np.bool_, ndim=1, flags="C_CONTIGUOUS")


class Flow(Structure):
    """The struct of this name in flow.h, with the arrays that it points to."""

    _fields_ = (*((n, c_int64) for n in _NUMBERS), *((n, c_void_p) for n in _ARRAYS))

    def point(self, **arrays: Int32s) -> None:
        """Point to arrays and keep them. Raises TypeError unless they are contiguous and int32."""
        for name, array in arrays.items():
            _INT32S.from_param(array)
            setattr(self, name, array.ctypes.data)
        self.__dict__.setdefault("arrays", {}).update(arrays)

    def forget(self, *names: str) -> None:
        """Let go of arrays that are not needed any more."""
        for name in names:
            setattr(self, name, None)
            del self.arrays[name]


@cache
def library() -> CDLL:
    """Load the kernels, not before they are needed."""
    if not LIBRARY.exists():
        raise ImportError(f"{LIBRARY.name} is not built: run pip install again.")
    found = CDLL(str(LIBRARY))
    flow, ints, longs = POINTER(Flow), _INT32S, _INT64S
    size, count = c_int64, POINTER(c_int64)
    kernels: dict[str, tuple[Any, ...]] = {
        "size_of_flow": (size,),
        "order_by_size": (size, ints, size, size, ints, ints),
        "lists_by_person": (None, ints, ints, size, ints, size, size, ints, ints, ints),
        "keep_different": (size, ints, size, ints, ints, longs),
        "greedy_round": (size, ints, ints, ints, ints, size, _BOOLS, count),
        "little_room": (c_int, flow),
        "raise_from_items": (c_int, flow, size, size, size),
        "hold_cover": (None, flow, ints, size),
        "phase_from_people": (c_int, flow, c_int),
        "number_by_key": (size, longs, size, size, longs, count, size, ints, size, ints),
        "number_in_range": (None, longs, size, size, longs, count, ints, ints),
        "place_by_key": (None, longs, size, size, ints, size),
        "move_runs": (None, ints, ints, size, ints, ints),
        "place_strings": (None, c_void_p),
        "number_strings": (None, c_void_p, _BYTES, longs, size, ints),
        "sort_pairs": (size, ints, ints, size, ints, size, size, size, ints, ints, longs, count),
        "choose_pairs": (size, ints, ints, size, ints, size, size, _BYTES, _BYTES, ints, ints),
        "choose_missing": (size, ints, ints, size, _BYTES, _BYTES, ints, ints),
        "choose_listed": (size, ints, ints, size, _BYTES, _BYTES, ints, ints),
        "count_pairs": (None, ints, size, ints),
        "fill_runs": (None, ints, ints, size, ints, ints),
        "place_rows": (size, ints, ints, size, ints, ints, ints, ints),
        "mark_groups": (None, ints, ints, size, size, _BOOLS),
        "place_by_table": (size, ints, ints, size, size, _BOOLS, ints, ints, ints),
        "add_items": (None, ints, longs, size, longs),
        "summarize_means": (size, longs, longs, longs, *[size] * 5, count, ints, longs, size),
        "summarize_rows": (None, ints, ints, ints, *[size] * 4, longs),
        "summarize_counts": (size, ints, ints, longs, size, size, count, ints, longs, size),
        "summarize_sums": (size, ints, longs, longs, *[size] * 3, count, ints, longs, size),
        "count_people": (None, ints, ints, size, longs, size, size, ints, ints, ints, longs),
        "take_items": (None, ints, longs, size, ints, longs),
        "reach_from_uncovered": (size, ints, ints, size, ints, size, ints, ints, ints),
        "reach_from_room": (size, ints, ints, ints, size, ints, size, size, ints, ints),
    }
    if not all(hasattr(found, name) for name in kernels) or found.size_of_flow() != sizeof(Flow):
        raise ImportError(f"{LIBRARY.name} is older than the code: run pip install again.")
    for name, (result, *arguments) in kernels.items():
        kernel = getattr(found, name)
        kernel.restype, kernel.argtypes = result, arguments
    return found


def by_size(offsets: Int32s) -> Int32s:
    """Items that have people, those with few first. All above 2^16 - 1 count as equal."""
    order, places = np.empty(offsets.size - 1, np.int32), np.zeros(2**16, np.int32)
    n = library().order_by_size(offsets, order.size, places.size - 1, places, order)
    return order[:n]


def lists_by_person(
    offsets: Int32s, people: Int32s, order: Int32s, n_people: int
) -> tuple[Int32s, Int32s, Int32s]:
    """Turn the runs of a checked graph into lists of items in the given order.

    Returns start, stop and lists: person p has lists[start[p]:stop[p]], without repetitions.
    """
    start, stop = np.zeros(n_people, np.int32), np.zeros(n_people, np.int32)
    items = np.empty(people.size, np.int32)
    library().lists_by_person(
        offsets, people, people.size, order, order.size, n_people, start, stop, items
    )
    return start, stop, items
