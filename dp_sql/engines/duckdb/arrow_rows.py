"""Columns as arrow arrays: what DuckDB sends as numbers, and numbers for DuckDB."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from dp_sql.errors import InternalError
from dp_sql.sql.types import DIGITS_OF_64_BITS, MAY_BE_LONG, TIMES, UP_TO_64_BITS, family

if TYPE_CHECKING:
    from dp_sql.udfs.count_distinct.dense_numbers import Strings
    from dp_sql.udfs.count_distinct.graph import Int32s

ROWS = 1 << 17  # of a piece
# Types whose values arrow has as numbers; others are sent as strings.
_AS_NUMBERS = UP_TO_64_BITS | TIMES | {"DECIMAL", "TIME"}
_DIGEST = 64  # characters of a sha256
LONG = 256  # bytes; longer values are sent as hashes, so that no row makes a piece too large
SHORTER = 65  # in place of LONG where values take too much memory; a hash has 64
SHARE = 4  # values that are strings take at most this part of DuckDB's memory limit


class TooLong(Exception):
    """The strings that were sent take too much memory."""


def comparable_in_arrow(name: str, kind: str, long: int = LONG) -> str:
    """A column of a name as it is sent: two values are sent as equal if and only if they are equal.

    For strings and blobs of at least `long` bytes this relies on sha256.
    """
    column, of = name, family(kind)
    if of in _AS_NUMBERS:
        return column
    if of == "UUID":
        return f"CAST({column} AS BLOB) AS {name}"
    if of != "BLOB" and kind != "VARCHAR":
        column = f"CAST({column} AS VARCHAR)"
    if of in MAY_BE_LONG:
        size = f"system.main.{'octet_length' if of == 'BLOB' else 'strlen'}({column})"
        # Longer than any value that is sent as it is.
        hashed = f"system.main.\"||\"('{' ' * (long - _DIGEST)}', system.main.sha256({column}))"
        hashed = f"system.main.encode({hashed})" if of == "BLOB" else hashed
        column = f"CASE WHEN {size} < {long} THEN {column} ELSE {hashed} END"
    return f"{column} AS {name}"


def batches(relation: Any) -> Iterator[Any]:
    """The rows in arrow's batches; arrow wraps DuckDB's errors, and this unwraps them.

    The reader is closed at once: while one is open, DuckDB 1.5 waits forever when someone closes
    the database and opens it again.
    """
    is_new = hasattr(relation, "to_arrow_reader")
    reader = relation.to_arrow_reader(ROWS) if is_new else relation.fetch_record_batch(ROWS)
    try:
        yield from reader
    except (OSError, ValueError) as error:
        raise duckdb.Error(str(error)) from None
    finally:
        reader.close()


class ValueNumbers:
    """Numbers for the values of a column, which arrow has as numbers or as strings."""

    def __init__(self) -> None:
        from dp_sql.udfs.count_distinct.dense_numbers import Numbers

        self._codes, self._type = Numbers(), None
        self._strings: Strings | None = None  # which take a megabyte at once

    @property
    def size(self) -> int:
        """How many different values there are."""
        return self._codes.size if self._strings is None else self._strings.size

    def numbers(self, values: Any) -> Int32s:
        """Number the values of an arrow array; all arrays are of one type."""
        import pyarrow as pa

        if values.null_count:
            raise InternalError("A NULL among people or items.")
        values = without_views(values)
        self._type = values.type
        if pa.types.is_decimal(values.type):
            if values.type.precision <= DIGITS_OF_64_BITS:
                return self._codes.of(whole_numbers(values))
            written, stop = values.buffers()[1], values.offset + len(values)
            return self._numbers_of(written, 16 * np.arange(values.offset, stop + 1))
        if pa.types.is_primitive(values.type):
            return self._codes.of(_integers(values, f"i{values.type.bit_width // 8}", 0))
        written = values.cast(pa.large_binary())
        return self._numbers_of(written.buffers()[2] or b"", _integers(written, "i8", 1))

    def _numbers_of(self, strings: Any, offsets: Any) -> Int32s:
        from dp_sql.udfs.count_distinct.dense_numbers import Strings

        if self._strings is None:
            self._strings = Strings()
        return self._strings.of(np.frombuffer(strings, np.uint8), offsets)

    @property
    def n_bytes(self) -> int:
        """How many bytes of memory the values take that are strings."""
        return 0 if self._strings is None else self._strings.n_bytes

    def values(self, numbers: NDArray[np.integer[Any]]) -> Any:
        """The values of some numbers, as an arrow array; strings may be of more than 2^31 bytes."""
        import pyarrow as pa

        if self._type is None:
            return pa.nulls(0, pa.string())  # DuckDB 1.5 fails to read lists of no type
        kind = self._type
        if self._strings is not None:
            written, offsets = self._strings.values
            buffers = [pa.py_buffer(written)]
            if not pa.types.is_decimal(kind):
                are_blobs = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
                kind = pa.large_binary() if are_blobs else pa.large_string()
                buffers = [pa.py_buffer(offsets), *buffers]
        elif pa.types.is_decimal128(kind):  # DuckDB can be set to send shorter ones
            low_halves = self._codes.codes
            buffers = [pa.py_buffer(np.column_stack([low_halves, low_halves >> 63]))]
        else:
            buffers = [pa.py_buffer(self._codes.codes.astype(f"i{kind.bit_width // 8}"))]
        every = pa.Array.from_buffers(kind, self.size, [None, *buffers])
        return every.take(arrow_numbers(numbers, "int64"))


class RowNumbers:
    """Numbers for rows of several columns: two rows have the same if and only if they are equal."""

    def __init__(self) -> None:
        from dp_sql.udfs.count_distinct.dense_numbers import Numbers

        self._columns = defaultdict[int, ValueNumbers](ValueNumbers)
        self._pairs = defaultdict[int, Numbers](Numbers)

    @property
    def size(self) -> int:
        """How many different values there are, in the column that has most."""
        columns = [one.size for one in self._columns.values()]
        return max([*columns, *(one.size for one in self._pairs.values())], default=0)

    @property
    def n_bytes(self) -> int:
        """How many bytes of memory the values take that are strings."""
        return sum(one.n_bytes for one in self._columns.values())

    def numbers(self, columns: Sequence[Any]) -> Int32s:
        """Number rows, given as arrow arrays, in the order in which they came first."""
        found = self._columns[0].numbers(columns[0])
        for i, column in enumerate(columns[1:], 1):
            numbers = self._columns[i].numbers(column)
            found = self._pairs[i].of(found.astype(np.int64) << 32 | numbers)
        return found

    def values(self, numbers: NDArray[np.integer[Any]]) -> list[Any]:
        """The values of some numbers, as an arrow array of each column."""
        found = []
        for i in range(len(self._columns) - 1, 0, -1):
            pairs = self._pairs[i].codes[numbers]
            found.append(self._columns[i].values(pairs & 0xFFFFFFFF))
            numbers = pairs >> 32
        return [self._columns[0].values(numbers), *reversed(found)]


def _integers(values: Any, kind: str, more: int) -> Any:
    """The integers of an arrow array, or where its strings begin, and some more, as numpy."""
    found = np.frombuffer(values.buffers()[1] or b"", kind)
    return found[values.offset : values.offset + len(values) + more]


def not_null(column: Any) -> Any:
    """Which values of an arrow array are not NULL; None: all."""
    if not column.null_count:
        return None
    bits = np.frombuffer(column.buffers()[0], np.uint8)
    there = np.unpackbits(bits, bitorder="little")[column.offset : column.offset + len(column)]
    return there.view(bool)


def whole_numbers(column: Any) -> Any:
    """The values of an arrow array of numbers, in units; they fit 64 bits, the lowest first."""
    import pyarrow as pa

    width = column.type.bit_width // 8
    sign = "u" if pa.types.is_unsigned_integer(column.type) else "i"
    found = np.frombuffer(column.buffers()[1] or b"", f"{sign}{min(width, 8)}")
    return found.reshape(-1, max(width // 8, 1))[column.offset : column.offset + len(column), 0]


def halves(column: Any) -> Any:
    """The low and the high 64 bits of the values of an arrow array of decimals; none is NULL."""
    found = np.frombuffer(column.buffers()[1] or b"", "i8").reshape(-1, 2)
    return found[column.offset : column.offset + len(column)]


def without_views(values: Any) -> Any:
    """Strings or blobs in a form that pyarrow 17 can cast; DuckDB can be set to send views."""
    import pyarrow as pa

    if pa.types.is_string_view(values.type):
        return pa.array(values.to_pylist(), pa.string())
    if pa.types.is_binary_view(values.type):
        return pa.array(values.to_pylist(), pa.binary())
    return values


def lengths(lists: Any) -> Any:
    """The length of each list of an arrow array, however DuckDB is set to write lists."""
    views = hasattr(lists, "sizes")
    return whole_numbers(lists.sizes) if views else np.diff(whole_numbers(lists.offsets))


def bits(valid: Sequence[bool]) -> Any:
    """What is valid, as arrow's bitmap."""
    import pyarrow as pa

    return pa.py_buffer(np.packbits(np.array(valid, bool), bitorder="little").tobytes())


def arrow_numbers(
    values: Sequence[Any] | NDArray[Any], kind: str, valid: Sequence[bool] | None = None
) -> Any:
    """Numbers as an arrow array of a type that numpy calls the same; NULL where not `valid`.

    An array of that type is not copied: nothing writes to it later.
    """
    import pyarrow as pa

    buffers = [None if valid is None else bits(valid)]
    buffers.append(pa.py_buffer(np.ascontiguousarray(values, dtype=kind)))
    return pa.Array.from_buffers(pa.type_for_alias(kind), len(values), buffers)


def arrow_strings(values: Sequence[str | None]) -> Any:
    """Strings as an arrow array; NULL where there is none."""
    import pyarrow as pa

    written = [(value or "").encode() for value in values]
    ends = np.array([*accumulate(map(len, written), initial=0)], dtype=np.int32)
    buffers = [bits([value is not None for value in values]), pa.py_buffer(ends.tobytes())]
    return pa.Array.from_buffers(
        pa.string(), len(values), [*buffers, pa.py_buffer(b"".join(written))]
    )
