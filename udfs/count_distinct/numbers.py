"""Numbers 0, 1, 2, … for 64-bit codes that come piece by piece."""

from __future__ import annotations

from typing import Any

import numpy as np

from dp_sql.udfs.count_distinct.graph import Int32s, Int64s, zeros

_SLICE = 1 << 20  # so many codes are sorted at a time


class Numbers:
    """The numbers of all codes that were met, in no special order. At most 2^31 - 1 codes."""

    def __init__(self) -> None:
        self._codes = np.zeros(0, np.int64)  # sorted
        self._numbers = zeros(0)  # of each of them

    @property
    def size(self) -> int:
        """How many there are."""
        return self._codes.size

    def of(self, codes: Any) -> Int32s:
        """Number these codes, those that are new as well.

        Raises ValueError if they are no one-dimensional array of integers.
        """
        codes = np.asarray(codes)
        if codes.ndim != 1 or (codes.size and codes.dtype.kind not in "iu"):
            raise ValueError("codes must be a one-dimensional array of integers")
        numbers = np.empty(codes.size, np.int32)
        for start in range(0, codes.size, _SLICE):
            part = slice(start, start + _SLICE)
            numbers[part] = self._of(codes[part].astype(np.int64, copy=False))
        return numbers

    def _of(self, codes: Int64s) -> Int32s:
        values, inverse = np.unique(codes, return_inverse=True)
        places = np.searchsorted(self._codes, values)
        new = np.append(self._codes, 0)[places] != values
        new |= places == self.size
        numbers = np.append(self._numbers, np.int32(-1))[places]
        numbers[new] = np.arange(self.size, self.size + np.count_nonzero(new), dtype=np.int32)
        self._codes = np.insert(self._codes, places[new], values[new])
        self._numbers = np.insert(self._numbers, places[new], numbers[new])
        return numbers[inverse]

    def in_order(self) -> Int64s:
        """Return all codes, that of the number 0 first."""
        found = np.empty(self.size, np.int64)
        found[self._numbers] = self._codes
        return found

    def codes(self, numbers: Int32s) -> Int64s:
        """Return the codes of these numbers, sorted."""
        wanted = np.zeros(self.size, np.bool_)
        wanted[numbers] = True
        found: Int64s = self._codes[wanted[self._numbers]]
        return found
