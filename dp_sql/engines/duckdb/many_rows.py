"""Releases from many rows: DuckDB sends them, and answers are drawn from them in memory.

This takes the place of DuckDB's GROUP BY for sources of a middle size: over fewer rows DuckDB is as
fast, and over more rows it needs less memory. The size of a source affects how long an answer
takes, and nothing else.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from dp_sql.engines.duckdb import row_estimate
from dp_sql.engines.duckdb.arrow_rows import (
    LONG,
    SHARE,
    SHORTER,
    TooLong,
    arrow_numbers,
    batches,
    comparable_in_arrow,
)
from dp_sql.engines.duckdb.sql_runner import SqlRunner
from dp_sql.privacy.plans.plan import Plan
from dp_sql.privacy.private_sql.group_ctes import UNIT
from dp_sql.privacy.private_sql.lists_read import lists_read
from dp_sql.privacy.private_sql.release_select import Answers, answer_name
from dp_sql.privacy.private_sql.rows_read import GroupsFound, ListsRead, RowsRead, rows_read
from dp_sql.sql.formatting import full_name
from dp_sql.sql.types import MAY_BE_LONG, family

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

    from dp_sql.engines.duckdb.arrow_people import ArrowPeople

Answered = Callable[[int, Sequence[Any]], Any]
"""From a plan's place and what its UDF takes: an arrow array with an answer for each group."""

LEAST, MOST = 1 << 16, 1 << 25  # rows
ROWS_EACH = 1 << 4  # of a person in a group
# Bytes that the memory limit must allow for a row whose values are added up, and for a row of a
# list. Up to 110 and 140 are used; DuckDB would need about as many, and fail without them. Strings
# may take SHARE besides.
BYTES, BYTES_OF_LISTS = 1 << 6, 1 << 7
BYTES_OF_COUNT = 1 << 5  # the same for each item of a list in each group
MOST_COUNTS, MOST_PARTS = 1 << 24, 1 << 7
MOST_PARTS_OF_PAIRS = 1 << 3  # of which all are kept
MEMBERS = 2  # for each row that fits: how many members of unknown groups are kept for all parts


class _TooMany(Exception):
    """There are more rows than are kept in memory."""


class ComputedTables(NamedTuple):
    """Tables that are computed here, and can be read in DuckDB until `registered` closes.

    answered: makes the answers of a plan, given its place and what its UDF takes. finds: finds
        groups, given who is in which: groups and people, as numbers.
    """

    engine: SqlRunner
    answered: Answered
    finds: Callable[[Any, Any], list[int]]
    registered: contextlib.ExitStack

    def add(self, table: Any) -> str:
        """Let DuckDB read an arrow table; returns its full name."""
        name = f"__dp_computed_{id(table)}"
        self.engine.connection.register(name, table)
        self.registered.callback(_forget, name, self.engine)
        return full_name(("temp", "main", name))

    def numbered(self, columns: Mapping[str, Any], n: int) -> str:
        """A relation of arrow arrays with an element for each group."""
        import pyarrow as pa

        numbers = arrow_numbers(range(1, n + 1), "int64")
        return self.add(pa.table({"__dp_group": numbers, **columns}))

    def drawn(self, lists: Sequence[Any], n_answers: int) -> str:
        """A relation of the answers that are drawn from what the UDF of each plan takes."""
        found = {answer_name(i): self.answered(i, own) for i, own in enumerate(lists)}
        return self.numbered(found, n_answers)


class _Reading(NamedTuple):
    """One reading of rows into memory: what is read, and into what.

    long: values of so many bytes or more are sent as hashes. other: another thread, for what can be
        done while DuckDB reads. before: the count of interrupts; the reading ends when it grows.
    """

    rows: ArrowPeople
    read: RowsRead
    long: int
    tables: ComputedTables
    other: Executor
    before: int

    @property
    def engine(self) -> SqlRunner:
        """The connection that reads."""
        return self.tables.engine


def _forget(name: str, engine: SqlRunner) -> None:
    with contextlib.suppress(Exception):  # a transaction that failed has removed it
        engine.connection.unregister(name)


def answers_from_rows(
    plans: Sequence[Plan], releases: Sequence[str], tables: ComputedTables
) -> Answers | None:
    """The answers that were drawn from people's rows; None: DuckDB is to read these.

    `releases` are the first arguments of the plans' UDFs. Raises what a mechanism refused, DuckDB's
    errors, or what reading its rows raises.
    """
    if not plans[0].parameters.reads_people:
        return None
    for long in (LONG, SHORTER):
        asked = (plans, releases, partial(comparable_in_arrow, long=long))
        read = lists_read(*asked) or rows_read(*asked)
        if read is None or not _is_for_memory(plans[0], read, tables.engine):
            return None
        with contextlib.suppress(TooLong), contextlib.ExitStack() as own:
            try:
                answers = _read(read, long, plans, tables._replace(registered=own))
            except _TooMany:
                return None
            tables.registered.push(own.pop_all())
            return answers
    return None


def _is_for_memory(plan: Plan, read: RowsRead, engine: SqlRunner) -> bool:
    """Whether to read the rows, by DuckDB's estimates.

    DuckDB groups few rows faster by itself; and, where no row is drawn, also people's many rows in
    a group, if their sums fit into memory.
    """
    n_rows = row_estimate.n_rows(plan, engine)
    if n_rows < LEAST:
        return False
    if read.adds_up:
        n_members = row_estimate.n_members(plan, engine)
        return ROWS_EACH * n_members >= n_rows or n_members > engine.memory_limit // BYTES
    return True


def _n_parts(read: RowsRead, engine: SqlRunner) -> int:
    """In how many parts to read the people, so that the rows of each part fit into memory.

    A part may have more rows than fit if enough of them can be combined.
    """
    counted = f"SELECT system.main.count(*) FROM ({read.sql}) AS __dp_rows"
    ((n_rows,),) = engine.run(counted).fetchall()
    most = _most_rows(read, engine)
    if n_rows <= most:
        return 1
    names = [f"__dp_{i}" for i in range(1 + read.n_keys + bool(read.lists))]
    rows = f"({read.sql}) AS __dp_rows({', '.join(names)})"
    different = f"system.main.approx_count_distinct(system.main.hash({', '.join(names)}))"
    ((n_different,),) = engine.run(f"SELECT {different} FROM {rows}").fetchall()
    n_parts = -(-2 * min(n_rows, n_different) // most)  # twice: parts are not of one size
    if n_parts > (MOST_PARTS_OF_PAIRS if read.lists and not read.lists.items else MOST_PARTS):
        raise _TooMany
    return max(1, int(n_parts))


def _most_rows(read: RowsRead, engine: SqlRunner) -> int:
    """How many rows fit into memory."""
    return max(1, min(MOST, engine.memory_limit // (BYTES_OF_LISTS if read.lists else BYTES)))


def _read(read: RowsRead, long: int, plans: Sequence[Plan], tables: ComputedTables) -> Answers:
    """Read all rows, in parts of the people, and have the answers made from them."""
    from concurrent.futures import ThreadPoolExecutor

    from dp_sql.engines.duckdb.arrow_people import ArrowPeople

    engine, rows = tables.engine, ArrowPeople(read)
    before = engine.state.interrupts.n
    for name, select in read.tables.items():
        tables.registered.enter_context(engine.undoing(f"DROP TABLE IF EXISTS {name}"))
        engine.run(f"CREATE TEMP TABLE {name} AS {select}")
    n_items = _n_items(read.lists, rows, engine) if read.lists and read.lists.items else None
    with ThreadPoolExecutor(1) as other:
        reading = _Reading(rows, read, long, tables, other, before)
        # There are often fewer rows than by the estimate, which for an analyst is of whole tables.
        fits = row_estimate.n_rows(plans[0], engine) <= _most_rows(read, engine)
        n_parts = 1 if fits else _n_parts(read, engine)
        try:
            made, found = _made(reading, n_items, n_parts)
        except _TooMany:
            if n_parts > 1:
                raise
            made, found = _made(reading, n_items, max(2, _n_parts(read, engine)))
        lists = rows.lists(plans, made)
    engine.state.interrupts.check(before)
    if read.lists and read.lists.kind:
        relation = _with_items(read.lists, tables.answered(0, *lists), reading)
    else:
        relation = tables.drawn(lists, rows.n_answers)
    items = f"({read.lists.shown}) AS __dp_lists" if read.lists and read.lists.shown else ""
    return Answers(relation, found or read.listed, items)


def _made(reading: _Reading, n_items: int | None, n_parts: int) -> tuple[Any, str]:
    """What is made of all people, part by part; and the relation of the groups found, or ""."""
    rows, read, engine = reading.rows, reading.read, reading.engine
    made, found = None, ""
    selects = [_part_of(read.sql, part, n_parts) for part in range(n_parts)]
    if isinstance(read.groups, GroupsFound):
        for select in selects:
            rows.next_part()
            _add(reading, select)
            rows.note_members()
            if rows.n_members > MEMBERS * _most_rows(read, engine):
                raise _TooMany
        found = _found(read.groups, reading)
    for select in selects:
        if n_parts > 1 or not found:
            rows.next_part()
            _add(reading, select, is_limited=not found)
        own = rows.made(n_items, reading.other)
        made = own if made is None else rows.joined(made, own)
    return made, found


def _add(reading: _Reading, select: str, *, is_limited: bool = True) -> None:
    """Add the rows of a SELECT, each piece while DuckDB reads the next one.

    is_limited: raise _TooMany or TooLong where they take too much memory; but not once groups are
        found, which are places among the keys that were read.
    """
    rows, engine = reading.rows, reading.engine
    most = _most_rows(reading.read, engine)
    most_bytes = engine.memory_limit // SHARE if reading.long > SHORTER else inf
    pieces = engine.state.interrupts.ending(batches(engine.relate(select)), reading.before)
    with contextlib.closing(pieces):
        last: Future[None] = reading.other.submit(lambda: None)
        for piece in pieces:
            last.result()
            if rows.n_rows + len(piece) > most and rows.n_loose > most // 4:
                rows.make_room()
            if (is_limited and rows.n_rows + len(piece) > most) or rows.n_read + len(piece) >> 31:
                raise _TooMany  # counts have 32 bits
            if is_limited and rows.n_bytes > most_bytes:
                raise TooLong
            last = reading.other.submit(rows.add, piece)
        last.result()


def _part_of(sql: str, part: int, n_parts: int) -> str:
    """A SELECT of the rows of some of the people.

    A person is in one part: people are the same if they are sent as equal, and so are their hashes.
    Each part is read by a statement of its own, in which a person's rows are those of one moment.
    """
    if n_parts == 1:
        return sql
    first, end = (((1 << 64) * n // n_parts) for n in (part, part + 1))
    within = f"CAST('{first}' AS UBIGINT) AND CAST('{end - 1}' AS UBIGINT)"
    return f"SELECT * FROM ({sql}) AS __dp_part WHERE system.main.hash({UNIT}) BETWEEN {within}"


def _with_items(lists: ListsRead, answers: Any, reading: _Reading) -> str:
    """A relation of answers and, for each of them, a list of its items.

    Items that were sent as hashes are looked up by these. One that another connection has removed
    from the rows meanwhile is NULL.
    """
    import pyarrow as pa

    tables, long = reading.tables, reading.long
    items, answers = reading.rows.items_of(answers)
    if lists.again:
        values = items.to_pylist()
        if hashes := [*{value for value in values if len(value) >= long}]:
            sent = tables.add(pa.table({"sent": pa.array(hashes, items.type)}))
            found = tables.engine.run(f"{lists.again}{sent} USING (sent)").fetchall()
            same = {sent: item for item, sent in found}
            items = pa.array(
                [same.get(value) if len(value) >= long else value for value in values], items.type
            )
    own = {answer_name(0): answers, "__dp_items": pa.ListArray.from_arrays(answers.offsets, items)}
    typed = f"CAST(__dp_items AS {lists.kind}[]) AS __dp_items"
    relation = tables.numbered(own, len(answers))
    return f"(SELECT * REPLACE ({typed}) FROM {relation}) AS __dp_drawn"


def _n_items(lists: ListsRead, rows: ArrowPeople, engine: SqlRunner) -> int:
    """How many items people are counted by; those that rows have as values are added to `rows`."""
    ((n_items,),) = engine.run(f"SELECT system.main.count(*) FROM {lists.items}").fetchall()
    if n_items * rows.n_groups > min(MOST_COUNTS, engine.memory_limit // BYTES_OF_COUNT):
        raise _TooMany
    if lists.codes:
        for piece in batches(engine.relate(lists.codes)):
            rows.add_items(piece.column(0))
    return int(n_items)


def _found(groups: GroupsFound, reading: _Reading) -> str:
    """Find groups by who is in them; returns a relation of their keys."""
    rows, tables = reading.rows, reading.tables
    table = rows.groups(tables.finds(*rows.members()))
    texts = [table[name] for name, kind in groups.kinds.items() if family(kind) in MAY_BE_LONG]
    is_hashed = any(len(key) >= reading.long for text in texts for key in text.to_pylist())
    sent = f"__dp_sent AS (SELECT * FROM {tables.add(table)})"
    found = f"(WITH {sent}{groups.again if is_hashed else groups.keys}) AS __dp_found"
    order = tables.engine.run(f"SELECT place FROM {found} ORDER BY {groups.by}").fetchall()
    rows.number([place for (place,) in order])
    return found
