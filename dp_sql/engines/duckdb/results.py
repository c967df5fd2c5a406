"""Results of SQL, copied out of the instance that ran it; too large ones are refused."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import duckdb

from dp_sql.errors import NotSupported
from dp_sql.sql.types import for_arrow

_MAX_ANSWER = 256 * 10**6  # bytes of one answer as it is read
_MAX_STORED = 512 * 10**6  # and as it is stored
# DuckDB stores a column of so many rows, its NULLs and its long strings in blocks of their own; a
# short column takes less.
_BLOCK, _ROWS_OF_BLOCKS, _SHORT_ROWS, _SHORT_BYTES = 1 << 18, 122_880, 2048, 40_000
_LONG_STRING = 4096


@dataclass(frozen=True)
class Result:
    """A result, copied out of the instance that computed it."""

    columns: tuple[tuple[str, str], ...]  # names, which may repeat, and types that SQL can write
    table: Any  # an arrow table with the columns c0, c1, …

    @property
    def stored_bytes(self) -> int:
        """How many bytes DuckDB takes at most to store it: up to 300 times what arrow takes."""
        return _BLOCK + sum(map(_stored_bytes, self.table.columns))


def fetched(relation: Any) -> Result:
    """Run a relation and copy its rows, if they do not take more memory than one answer may.

    A column whose type SQL cannot write comes as a string: 1.5 cannot write that of `row(1, 2)`.
    """
    places, columns, listed = [], [], []
    for n, (name, kind) in enumerate(zip(relation.columns, map(str, relation.types), strict=True)):
        place, has_name = f"c{n}", _has_name(relation, kind)
        sent = for_arrow(kind) if has_name else "VARCHAR"
        places.append(place)
        columns.append((name, kind if has_name else "VARCHAR"))
        listed.append(place if sent == kind else f"CAST({place} AS {sent}) AS {place}")
    if listed != places:
        sql = f"SELECT {', '.join(listed)} FROM __dp_answer AS t({', '.join(places)})"
        relation = relation.query("__dp_answer", sql)
    result = Result(tuple(columns), _table(relation).rename_columns(places))
    if result.stored_bytes > _MAX_STORED:
        raise _too_large(_MAX_STORED)
    return result


def _table(relation: Any) -> Any:
    """The rows as an arrow table, in pieces: a question may ask for 10^12 public rows."""
    import pyarrow as pa

    n_bytes, pieces = 0, []
    reader = relation.to_arrow_reader()
    for piece in reader:
        n_bytes += piece.nbytes
        pieces.append(piece)
        if n_bytes > _MAX_ANSWER:
            reader.close()
            raise _too_large(_MAX_ANSWER)
    return pa.Table.from_batches(pieces, reader.schema)


def _too_large(most: int) -> NotSupported:
    message = f"An answer of a served database holds at most {most // 10**6} MB."
    return NotSupported(message, hint="Add LIMIT, or aggregate.")


def _stored_bytes(column: Any) -> int:
    """How many bytes DuckDB takes at most for an arrow column."""
    import pyarrow as pa

    kind, n_rows, n_bytes = column.type, len(column), int(column.nbytes)
    is_plain = pa.types.is_primitive(kind) and not pa.types.is_boolean(kind)
    # Arrow packs booleans, and the places of lists; two long strings may not fit a block.
    packed = 1 if is_plain else 8 if "bool" in str(kind) else 2
    is_short = n_rows <= _SHORT_ROWS and not kind.num_fields
    if is_short and (is_plain or n_bytes < _LONG_STRING):
        return packed * n_bytes + _SHORT_BYTES
    n_blocks = 3 * _n_columns(kind) * (1 + n_rows // _ROWS_OF_BLOCKS)
    return packed * n_bytes + n_blocks * _BLOCK


def _n_columns(kind: Any) -> int:
    """How many columns a type has in it, itself among them, as a list of structs has."""
    return 1 + sum(_n_columns(kind.field(i).type) for i in range(kind.num_fields))


def _has_name(relation: Any, kind: str) -> bool:
    """Whether DuckDB can read back the name of a type; so far only structs may have none."""
    with suppress(duckdb.Error):
        if "STRUCT(" in kind:
            relation.query("__dp_answer", f"SELECT NULL::{kind} AS it")
        return True
    return False
