"""People's values, computed in memory from rows that DuckDB sends, in place of its GROUP BY.

This is for sources of a middle size: fewer rows take DuckDB no longer, and for more rows it needs
less memory. The size of a source affects how long an answer takes, and nothing else.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dp_sql.engines.duckdb.arrow_rows import Column, arrow_numbers, batches, buffer, sent
from dp_sql.errors import SourceError
from dp_sql.privacy.plans.plan import Plan
from dp_sql.privacy.private_sql.rows_read import ItemRead, Kept, RowsRead, rows_read
from dp_sql.sql.formatting import full_name
from dp_sql.udfs.exact_sampling import secret_draws

if TYPE_CHECKING:
    from dp_sql.engines.duckdb.connection import Engine

LEAST, MOST = 1 << 16, 1 << 24  # rows; and so many people times groups
BYTES = 1 << 8  # of DuckDB's memory limit, for each row; less is used


class _TooMany(Exception):
    """There are more rows, or people times groups, than are kept in memory."""


@contextlib.contextmanager
def computed_from(
    plans: Sequence[Plan], calls: Sequence[str], engine: Engine, fits: Callable[[], bool]
) -> Iterator[dict[int | None, str] | None]:
    """Yield relations of people's values, by the cap on groups; None: DuckDB is to compute them.

    calls: the first arguments of the plans' UDFs. fits: whether there are, by DuckDB's estimate,
        neither too few rows nor too many.

    Raises DuckDB's errors, or a SourceError.
    """
    tables = read = None
    if plans[0].parameters.reads_people:
        person = sent("privacy_unit", plans[0].columns["privacy_unit"].type)
        read = rows_read(plans, calls, person)
    if read is not None and fits():
        try:
            tables = _read(read, engine)
        except _TooMany:
            pass
        except (OSError, MemoryError, RuntimeError, ValueError) as error:
            message = f"The source cannot be counted ({type(error).__name__})."
            raise SourceError(message) from None
    if read is None or tables is None:
        yield None
        return
    with contextlib.ExitStack() as registered:
        computed = {}
        for kept, table in zip(read.kept, tables, strict=True):
            columns = ", ".join(["__dp_group", "__dp_privacy_unit", *kept.values])
            name = _registered(table, engine, registered)
            computed[kept.cap] = f"(SELECT {columns} FROM {name}) AS __dp_computed"
        yield computed


def _registered(table: Any, engine: Engine, until: contextlib.ExitStack) -> str:
    """The full name of an arrow table in DuckDB."""
    name = f"__dp_computed_{id(table)}"
    engine.connection.register(name, table)
    until.callback(_forget, name, engine)
    return full_name(("temp", "main", name))


def _forget(name: str, engine: Engine) -> None:
    with contextlib.suppress(Exception):  # in a transaction that has failed it is gone
        engine.connection.unregister(name)


def _read(read: RowsRead, engine: Engine) -> list[Any]:
    """Read all rows, and compute: for each cap an arrow table of persons."""
    from concurrent.futures import Future, ThreadPoolExecutor

    before, rows = engine.interrupts.n, _Rows(read)
    pieces = engine.interrupts.ending(batches(engine.relate(read.sql)), before)
    with contextlib.closing(pieces), ThreadPoolExecutor(1) as other:
        last: Future[None] = other.submit(lambda: None)
        for piece in pieces:
            last.result()
            last = other.submit(rows.add, piece)
        last.result()
    return [rows.table(kept) for kept in read.kept]


class _Rows:
    """Rows in memory: numbers of people and groups, values of items, and whether they have them."""

    def __init__(self, read: RowsRead) -> None:
        self._read, self._numbers, self._n = read, Column(), 0
        self._people: list[Any] = []
        self._groups: list[Any] = []
        self._items: list[list[Any]] = [[] for _ in read.sends]
        self._there: list[list[Any]] = [[] for _ in read.sends]

    def add(self, piece: Any) -> None:
        """Add the rows of an arrow batch."""
        self._n += len(piece)
        if self._n > MOST:
            raise _TooMany
        person, *columns = piece.columns
        self._people.append(self._numbers.numbers(person))
        if self._read.grouped:
            self._groups.append(buffer(columns.pop(0), 1, "i4", 0))
        for i, column in enumerate(columns):
            self._there[i].append(_there(column))
            if self._read.sends[i]:
                self._items[i].append(_values(column))

    def table(self, kept: Kept) -> Any:
        """What is computed as an arrow table: a row for each person in each group."""
        import pyarrow as pa

        n_groups = self._read.n_groups
        n_slots = self._numbers.size * n_groups
        if n_slots > MOST:
            raise _TooMany
        slots, computed = self._slots(kept.cap), {}
        for i, item in kept.items.items():
            there, values = _joined(self._there[i], bool), _joined(self._items[i], np.int64)
            own = slots if there.all() else np.where(there, slots, np.int32(n_slots))
            computed[i] = _computed(item, own, values, n_slots)
        present = np.flatnonzero(
            np.logical_or.reduce([made["count"] for made in computed.values()])
        )
        columns = {
            "__dp_group": arrow_numbers(present % n_groups + 1, "int64"),
            "__dp_privacy_unit": arrow_numbers(present // n_groups, "int64"),
        }
        for i, item in kept.items.items():
            for name, values in computed[i].items():
                columns[f"__dp_{name}_{i}"] = _sent_back(values[present], item.scale)
        return pa.table(columns)

    def _slots(self, cap: int | None) -> Any:
        """The slot of each row; in groups that are not kept, that after all others."""
        from dp_sql.udfs.contributions.slots import draw_groups, groups_of_people, kept_slots

        people, n_groups = _joined(self._people, np.int32), self._read.n_groups
        if not self._read.grouped:
            return people
        groups = _joined(self._groups, np.int32)
        if cap is None:
            return people * np.int32(n_groups) + groups
        own = groups_of_people(people, groups, self._numbers.size)
        return kept_slots(people, groups, n_groups, draw_groups(own, cap, secret_draws()))


def _computed(item: ItemRead, slots: Any, values: Any, n_slots: int) -> dict[str, Any]:
    """What is computed of an item, for each slot, by name."""
    from dp_sql.udfs.contributions.slots import add_items, count_rows, draw_items

    made: dict[str, Any] = {"count": count_rows(slots, n_slots)}
    if item.votes:
        made["vote"] = draw_items(slots, values, made["count"], secret_draws())
    if item.scale is not None:
        made["sum"] = add_items(slots, values, n_slots)
    return made


def _joined(arrays: Sequence[Any], kind: Any) -> Any:
    return np.concatenate([np.empty(0, kind), *arrays])


def _there(column: Any) -> Any:
    """Which values of an arrow array are not NULL."""
    if not column.null_count:
        return np.ones(len(column), bool)
    bits = np.frombuffer(column.buffers()[0], np.uint8)
    there = np.unpackbits(bits, bitorder="little")[column.offset : column.offset + len(column)]
    return there.view(bool)


def _values(column: Any) -> Any:
    """The values of an arrow array of numbers, in units; they fit 64 bits, the lowest first."""
    width = column.type.bit_width // 8
    found = np.frombuffer(column.buffers()[1] or b"", f"i{min(width, 8)}")
    words = found.reshape(-1, max(width // 8, 1))[column.offset : column.offset + len(column), 0]
    return words.astype(np.int64, copy=False)


def _sent_back(values: Any, scale: int | None) -> Any:
    """Numbers as an arrow array; a sum has two words."""
    import pyarrow as pa

    if values.ndim == 1:
        return arrow_numbers(values, "int64")
    kind = pa.decimal128(38, scale)
    return pa.Array.from_buffers(
        kind, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))]
    )
