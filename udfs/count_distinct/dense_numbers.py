"""Numbers 0, 1, 2, … for 64-bit codes or strings that come piece by piece.

Two values have the same number if and only if they are equal.
"""

from __future__ import annotations

from ctypes import Structure, byref, c_int64, c_void_p
from typing import Any

import numpy as np

from dp_sql.udfs.count_distinct.graph import LIMIT, Int32s, Int64s
from dp_sql.udfs.count_distinct.kernels import library
from dp_sql.udfs.randomness import fair_bits

_FIRST = 1 << 10
_LEAST, _MOST = 1 << 21, 1 << 24  # places of a table that is not hashed
_SLICE = 1 << 16  # strings that are numbered at a time


class Numbers:
    """All codes that have come; their numbers are in the order in which they came first.

    A table of their numbers has a place for each code between the least and the largest, as long as
    these are few; then it is a hash table.
    """

    def __init__(self) -> None:
        self._codes, self._size, self._key = np.empty(_FIRST, np.int64), c_int64(0), fair_bits(63)
        self._places, self._low = np.empty(0, np.int32), 0  # from code `_low` on, if not hashed
        self._hashed, self._n_given = False, 0

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
        if codes.size and self._are_in_range(left):
            self._make_room(self.size + codes.size)
            library().number_in_range(
                left, codes.size, self._low, self._codes, byref(self._size), self._places, numbers
            )
            return numbers
        while done < codes.size:
            self._make_room(self.size + 1)
            done += library().number_by_key(
                left[done:], codes.size - done, self._key, self._codes, byref(self._size),
                self._codes.size, self._places, self._places.size - 1, numbers[done:],
            )  # fmt: skip
        return numbers

    def _are_in_range(self, codes: Int64s) -> bool:
        """Whether there is a place for each of the codes, once there are as many as needed."""
        self._n_given += codes.size
        if self._hashed:
            return False
        low, high = int(codes.min()), int(codes.max()) + 1
        width = self._places.size
        if width:
            low, high = min(low, self._low), max(high, self._low + width)
        self._hashed = high - low > min(max(4 * self._n_given, _LEAST), _MOST)
        if self._hashed:
            self._hash()
        elif high - low > width:
            width = max(high - low, 2 * width)
            self._low = max(high - width, -(1 << 63)) if low < self._low else low
            self._places = np.full(width, -1, np.int32)
            self._places[self.codes - self._low] = np.arange(self.size)
        return not self._hashed

    def _make_room(self, n_codes: int) -> None:
        if self._codes.size >= n_codes:
            return
        if self.size >= LIMIT >> 1:
            raise ValueError("there must be fewer than 2^30 codes")
        known = self.codes
        self._codes = np.empty(1 << (n_codes - 1).bit_length(), np.int64)
        self._codes[: known.size] = known
        if self._hashed:
            self._hash()

    def _hash(self) -> None:
        self._places = np.full(2 * self._codes.size, -1, np.int32)
        places = self._places
        library().place_by_key(self._codes, self.size, self._key, places, places.size - 1)


class Numbered:
    """Codes that are numbers already, all below `size`."""

    def __init__(self, size: int) -> None:
        self.size = size

    @property
    def codes(self) -> Int64s:
        """All numbers."""
        return np.arange(self.size)

    def of(self, codes: Any) -> Int32s:
        """Return the same numbers."""
        return np.asarray(codes, np.int32)


class Table(Structure):
    """The struct of this name in strings.c."""

    _fields_ = (
        *((name, c_int64) for name in ("size", "mask", "key")),
        *((name, c_void_p) for name in ("hash", "place", "start", "bytes")),
    )


class Strings:
    """The numbers of strings of bytes, in the order in which they came first."""

    def __init__(self) -> None:
        self._table = Table(key=fair_bits(63))
        self._arrays: dict[str, Any] = {}
        self._point("hash", np.empty(_SLICE, np.int64))
        self._point("start", np.zeros(_SLICE + 1, np.int64))
        self._point("bytes", np.empty(_SLICE, np.uint8))
        self._place(2 * _SLICE)

    @property
    def size(self) -> int:
        """How many strings have come."""
        return int(self._table.size)

    @property
    def n_bytes(self) -> int:
        """How many bytes of memory the strings take."""
        return int(self._arrays["bytes"].size)

    def of(self, data: Any, offsets: Any) -> Int32s:
        """Number the strings data[offsets[0]:offsets[1]], data[offsets[1]:offsets[2]] and so on.

        Raises ValueError if offsets fall or leave the data.
        """
        data = np.ascontiguousarray(data, np.uint8)
        offsets = np.ascontiguousarray(offsets, np.int64)
        if offsets.size == 0 or offsets[0] < 0 or np.any(offsets[1:] < offsets[:-1]):
            raise ValueError("offsets must begin at 0 or later and never fall")
        if offsets[-1] > data.size:
            raise ValueError("offsets must not leave the data")
        numbers = np.empty(offsets.size - 1, np.int32)
        for first in range(0, numbers.size, _SLICE):
            found = numbers[first : first + _SLICE]
            ends = offsets[first : first + found.size + 1]
            self._make_room(int(ends[-1] - ends[0]))
            library().number_strings(byref(self._table), data, ends, found.size, found)
        return numbers

    @property
    def values(self) -> tuple[Any, Int64s]:
        """The string of each number: their bytes, and `size` + 1 offsets."""
        offsets = self._arrays["start"][: self.size + 1]
        return self._arrays["bytes"][: offsets[-1]], offsets

    def _make_room(self, n_bytes: int) -> None:
        """Make room for one slice of new strings."""
        needed = self.size + _SLICE
        if needed > LIMIT:
            raise ValueError("there must be fewer than 2^31 - 1 strings")
        self._grow("hash", needed)
        self._grow("start", needed + 1)
        self._grow("bytes", int(self._arrays["start"][self.size]) + n_bytes)
        if 4 * needed > 3 * (self._table.mask + 1):
            self._place(2 * (self._table.mask + 1))

    def _grow(self, name: str, needed: int) -> None:
        old = self._arrays[name]
        if old.size < needed:
            new = np.empty(needed + needed // 2, old.dtype)
            new[: old.size] = old
            self._point(name, new)

    def _place(self, n_places: int) -> None:
        self._point("place", np.full(n_places, -1, np.int32))
        self._table.mask = n_places - 1
        library().place_strings(byref(self._table))

    def _point(self, name: str, array: Any) -> None:
        self._arrays[name] = array
        setattr(self._table, name, array.ctypes.data)
