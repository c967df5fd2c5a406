"""Releases from many rows: DuckDB sends them, and answers are drawn from them in memory.

This takes the place of DuckDB's GROUP BY for sources of a middle size: over fewer rows DuckDB is as
fast, and over more rows it needs less memory. The size of a source affects how long an answer
takes, and nothing else.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dp_sql.engines.duckdb import row_estimate
from dp_sql.engines.duckdb.arrow_rows import (
    HASHED,
    LONG,
    arrow_numbers,
    batches,
    comparable_in_arrow,
)
from dp_sql.engines.duckdb.sql_runner import SqlRunner, in_bytes
from dp_sql.privacy.plans.plan import Plan
from dp_sql.privacy.private_sql.lists_read import lists_read
from dp_sql.privacy.private_sql.release_select import Answers, answer_name
from dp_sql.privacy.private_sql.rows_read import GroupsFound, ListsRead, RowsRead, rows_read
from dp_sql.sql.formatting import full_name
from dp_sql.sql.types import family

if TYPE_CHECKING:
    from dp_sql.engines.duckdb.arrow_people import ArrowPeople

Answered = Callable[[int, Sequence[Any]], Any]
"""From a plan's place and what its UDF takes: an arrow array with an answer for each group."""

LEAST, MOST = 1 << 16, 1 << 24  # rows
ROWS_EACH = 1 << 4  # of a person in a group
BYTES = 1 << 8  # of DuckDB's memory limit, for each row; only rows of long strings use more
BYTES_OF_COUNT = 1 << 5  # the same for each item of a list in each group


class _TooMany(Exception):
    """There are more rows, or longer items, than are kept in memory."""


def answers_from_rows(
    plans: Sequence[Plan],
    calls: Sequence[str],
    engine: SqlRunner,
    answered: Answered,
    registered: contextlib.ExitStack,
) -> Answers | None:
    """The answers that were drawn from people's rows; None: DuckDB is to read these.

    `calls` are the first arguments of the plans' UDFs. `answered` makes answers from what the UDF
    of a plan takes, by its place. The answers last until `registered` ends.

    Raises what a mechanism refused, DuckDB's errors, or what reading its rows raises.
    """
    if not plans[0].parameters.reads_people:
        return None
    asked = (plans, calls, comparable_in_arrow)
    read = lists_read(*asked) or rows_read(*asked)
    if read is not None and _is_for_memory(plans[0], read, engine):
        with contextlib.suppress(_TooMany):
            return _read(read, plans, engine, answered, registered)
    return None


def drawn(
    lists: Sequence[Any],
    n_answers: int,
    answered: Answered,
    engine: SqlRunner,
    registered: contextlib.ExitStack,
    beside: Mapping[str, Any] = MappingProxyType({}),
) -> str:
    """A relation of the answers that are drawn from what the UDF of each plan takes.

    `beside`: other columns, as arrow arrays.
    """
    import pyarrow as pa

    found = {answer_name(i): answered(i, own) for i, own in enumerate(lists)}
    numbers = arrow_numbers(range(1, n_answers + 1), "int64")
    return _registered(pa.table({"__dp_group": numbers, **found, **beside}), engine, registered)


def _is_for_memory(plan: Plan, read: RowsRead, engine: SqlRunner) -> bool:
    """Whether a source has, by DuckDB's estimates, neither too few rows nor too many.

    Where people have many rows in each group, DuckDB adds them up faster if it draws no row.
    """
    if not LEAST <= (n_rows := row_estimate.n_rows(plan, engine)) <= _most_rows(engine):
        return False
    return not read.adds_up or ROWS_EACH * row_estimate.n_members(plan, engine) >= n_rows


def _most_rows(engine: SqlRunner) -> int:
    """How many rows fit into memory."""
    (limit,) = engine.settings("memory_limit")
    return min(MOST, (in_bytes(limit) or 0) // BYTES)


def _registered(table: Any, engine: SqlRunner, until: contextlib.ExitStack) -> str:
    """The full name of an arrow table in DuckDB."""
    name = f"__dp_computed_{id(table)}"
    engine.connection.register(name, table)
    until.callback(_forget, name, engine)
    return full_name(("temp", "main", name))


def _forget(name: str, engine: SqlRunner) -> None:
    with contextlib.suppress(Exception):  # in a transaction that has failed it is gone
        engine.connection.unregister(name)


def _read(
    read: RowsRead,
    plans: Sequence[Plan],
    engine: SqlRunner,
    answered: Answered,
    registered: contextlib.ExitStack,
) -> Answers:
    """Read all rows, and have the answers made from them."""
    from concurrent.futures import Future, ThreadPoolExecutor

    from dp_sql.engines.duckdb.arrow_people import ArrowPeople

    before, rows, most = engine.state.interrupts.n, ArrowPeople(read), _most_rows(engine)
    for name, select in read.tables.items():
        registered.enter_context(engine.undoing(f"DROP TABLE IF EXISTS {name}"))
        engine.run(f"CREATE TEMP TABLE {name} AS {select}")
    n_items = _n_items(read.lists, rows, engine) if read.lists and read.lists.items else None
    pieces = engine.state.interrupts.ending(batches(engine.relate(read.sql)), before)
    with contextlib.closing(pieces), ThreadPoolExecutor(1) as other:
        last: Future[None] = other.submit(lambda: None)
        for piece in pieces:
            last.result()
            if rows.n_rows + len(piece) > most:
                raise _TooMany
            last = other.submit(rows.add, piece)
        last.result()
        found = ""
        if isinstance(read.groups, GroupsFound):
            found = _found(read.groups, rows, engine, registered)
        lists = rows.lists(plans, n_items, other)
    engine.state.interrupts.check(before)
    beside = dict[str, Any]()
    if read.lists and read.lists.kind:
        if (items_of_lists := rows.items()) is None:
            raise _TooMany
        beside["__dp_items"] = items_of_lists
    relation = drawn(lists, rows.n_answers, answered, engine, registered, beside)
    if read.lists and beside:
        typed = f"CAST(__dp_items AS {read.lists.kind}[]) AS __dp_items"
        relation = f"(SELECT * REPLACE ({typed}) FROM {relation}) AS __dp_drawn"
    items = f"({read.lists.shown}) AS __dp_lists" if read.lists and read.lists.shown else ""
    return Answers(relation, found, items)


def _n_items(lists: ListsRead, rows: ArrowPeople, engine: SqlRunner) -> int:
    """How many items people are counted by; those that rows have as values are added to `rows`."""
    ((n_items,),) = engine.run(f"SELECT system.main.count(*) FROM {lists.items}").fetchall()
    (limit,) = engine.settings("memory_limit")
    if n_items * rows.n_groups > min(MOST, (in_bytes(limit) or 0) // BYTES_OF_COUNT):
        raise _TooMany
    if lists.codes:
        for piece in batches(engine.relate(lists.codes)):
            rows.add_items(piece.column(0))
    return int(n_items)


def _found(
    groups: GroupsFound, rows: ArrowPeople, engine: SqlRunner, registered: contextlib.ExitStack
) -> str:
    """Find groups by who is in them; returns a relation of their keys."""
    pairs = _registered(rows.pairs(), engine, registered)
    ((places,),) = engine.run(groups.places + pairs).fetchall()
    table = rows.groups(places)
    texts = [table[name] for name, kind in groups.kinds.items() if family(kind) in HASHED]
    is_hashed = any(len(key) >= LONG for text in texts for key in text.to_pylist())
    sent = f"__dp_sent AS (SELECT * FROM {_registered(table, engine, registered)})"
    found = f"(WITH {sent}{groups.again if is_hashed else groups.keys}) AS __dp_found"
    order = engine.run(f"SELECT place FROM {found} ORDER BY {groups.by}").fetchall()
    rows.number([place for (place,) in order])
    return found
