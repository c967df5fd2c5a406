"""Numbers 0, 1, 2, … for 64-bit codes that come piece by piece."""

from __future__ import annotations

from ctypes import byref, c_int64
from typing import Any

import numpy as np

from dp_sql.udfs.count_distinct.graph import LIMIT, Int32s, Int64s
from dp_sql.udfs.count_distinct.kernels import library

_FIRST = 1 << 10


class Numbers:
    """All codes that have come; their numbers are in the order in which they came first."""

    def __init__(self) -> None:
        self._codes = np.empty(_FIRST, np.int64)
        self._places = np.full(2 * _FIRST, -1, np.int32)  # a hash table of the numbers
        self._size = c_int64(0)

    @property
    def codes(self) -> Int64s:
        """The code of each number."""
        return self._codes[: self._size.value]

    @property
    def size(self) -> int:
        """How many codes have come."""
        return self._size.value

    def of(self, codes: Any) -> Int32s:
        """Number these codes, those that are new as well.

        Raises ValueError if they are not a one-dimensional array of integers.
        """
        codes = np.asarray(codes)
        if codes.ndim != 1 or (codes.size and codes.dtype.kind not in "iu"):
            raise ValueError("codes must be a one-dimensional array of integers")
        left = np.ascontiguousarray(codes, np.int64)
        numbers, done = np.empty(codes.size, np.int32), 0
        while done < codes.size:
            if self.size == self._codes.size:
                self._grow()
            done += library().number_codes(
                left[done:], codes.size - done, self._codes, byref(self._size), self._codes.size,
                self._places, self._places.size - 1, numbers[done:],
            )  # fmt: skip
        return numbers

    def _grow(self) -> None:
        if self.size >= LIMIT >> 1:
            raise ValueError("there must be fewer than 2^30 codes")
        self._codes = np.concatenate([self._codes, np.empty(self.size, np.int64)])
        self._places = np.full(2 * self._codes.size, -1, np.int32)
        library().place_codes(self._codes, self.size, self._places, self._places.size - 1)
