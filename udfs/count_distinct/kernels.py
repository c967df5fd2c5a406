"""The compiled kernels of kernels.c, typed. Every call releases the interpreter's lock."""

from ctypes import CDLL, POINTER, Structure, byref, c_int32, c_int64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.ctypeslib import ndpointer
from numpy.typing import NDArray

Int32s = NDArray[np.int32]
Bools = NDArray[np.bool_]

LIBRARY = Path(__file__).with_name("libkernels.so")  # built by setup.py

_NUMBERS = (
    "bound", "coverable", "n_covered", "room", "n_alive", "n_reads", "phase", "n_dead", "n_exposed",
    "n_people",
)  # fmt: skip
_ARRAYS = (
    "offsets", "people", "order", "cover", "asked", "full", "slot_item", "next_slot", "first_slot",
    "load", "mark", "log", "path_item", "path_slot", "path_edge", "start", "stop", "items", "takers",
    "choice", "fresh", "next", "level", "alive", "queue", "path",
)  # fmt: skip
_INT32S = ndpointer(np.int32, ndim=1, flags="C_CONTIGUOUS")
_BOOLS = ndpointer(np.bool_, ndim=1, flags="C_CONTIGUOUS")


class Flow(Structure):
    """The struct of this name in kernels.c, with the arrays that it points to."""

    _fields_ = (*((n, c_int64) for n in _NUMBERS), *((n, c_void_p) for n in _ARRAYS))

    def point(self, **arrays: Int32s) -> None:
        """Point to arrays, which have to be one-dimensional, contiguous and int32."""
        for name, array in arrays.items():
            _INT32S.from_param(array)
            setattr(self, name, array.ctypes.data)
        self.__dict__.setdefault("arrays", {}).update(arrays)


@cache
def library() -> CDLL:
    """Load the kernels, not before they are needed."""
    if not LIBRARY.exists():
        raise ImportError(f"{LIBRARY} is not built: run `pip install .` or `pip install -e .`")
    found = CDLL(str(LIBRARY))
    found.lists_by_person.argtypes = [
        _INT32S, _INT32S, c_int64, _INT32S, c_int64, c_int64, _INT32S, _INT32S, _INT32S
    ]  # fmt: skip
    found.lists_by_person.restype = None
    found.greedy_round.argtypes = [
        _INT32S, _INT32S, _INT32S, _INT32S, c_int64, _BOOLS, POINTER(c_int64)
    ]  # fmt: skip
    found.greedy_round.restype = c_int64
    found.raise_from_items.argtypes = [POINTER(Flow), c_int64, c_int64]
    found.raise_from_items.restype = None
    found.start_from_people.argtypes = [POINTER(Flow)]
    found.start_from_people.restype = None
    found.phase_from_people.argtypes = [POINTER(Flow), c_int32]
    return found


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
