"""Writes a question as the SQL that Spark's workers run: its tables, casts and slices."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import duckdb

from dp_sql.engines.protocol import (
    PART,
    PARTS,
    SETTINGS,
    PartedQuestion,
    PublicRows,
    exact_in_arrow,
)
from dp_sql.engines.spark import parts
from dp_sql.privacy.catalog import Columns, Parts
from dp_sql.sql.formatting import full_name, quote
from dp_sql.sql.tokens import tokenize

PERSON = "__dp_person"


@dataclass(frozen=True)
class BoundQuestion:
    """A question that DuckDB has bound.

    tables: the private tables and their columns, in order. read: for each, the names of the columns
    whose values matter. types: of the columns of part_sql. merged: of those of merge_sql.
    """

    question: PartedQuestion
    tables: Mapping[Parts, Columns]
    read: Mapping[Parts, Sequence[str]]
    types: Columns
    merged: Columns

    def work(self, n_slices: int) -> parts.Task:
        """What is run over each part.

        Codes of people are unique over all parts; the last bit is set in one pair of each person.
        """
        listed = []
        keys = ", ".join(f"__dp_p.{quote(key)}" for key in self.question.keys)
        for name, kind in self.types:
            column = f"__dp_p.{quote(name)}"
            if name == PERSON:
                place = f"row_number() OVER (PARTITION BY {column} ORDER BY hash({keys}), {keys})"
                first = f"CAST({place} = 1 AS BIGINT)"
                column = f"(({PART}() * {parts.PER_CODE} + {column}) * 2 + {first})"
            listed.append(exact_in_arrow(column, name, kind))
        number = f"CAST(hash({keys}) % {n_slices} AS INTEGER)" if keys else "0"
        answer = (
            f"SELECT {', '.join(listed)}, {number} AS __dp_slice "
            f"FROM ({self.question.part_sql}\n) AS __dp_p ORDER BY __dp_slice"
        )
        seen = [_seen(table, self.read[table]) for table in self.tables]
        private = _private(self.tables, self.read)
        return task(self.question.public, private, answer, n_slices, seen)

    def merge(self, n_slices: int) -> parts.Task:
        """The answer of a slice."""
        listed = ", ".join(
            exact_in_arrow(f"__dp_m.{quote(name)}", name, k) for name, k in self.merged
        )
        return self._merge(f"SELECT {listed} FROM {self._merged}", n_slices)

    def pairs(self, n_slices: int) -> parts.Task:
        """The items of a slice, numbered in the order of their keys, each with its people.

        The people come in the order of a hash, so the first ones are as good as any.
        """
        types, keys = dict(self.merged), [f"__dp_m.{quote(key)}" for key in self.question.keys]
        shown = [exact_in_arrow(f"__dp_m.{quote(n)}", n, types[n]) for n in self.question.shown]
        order = ", ".join(f"{key} ASC NULLS LAST" for key in keys)
        person = f"__dp_m.{quote(PERSON)}"
        answer = (
            f"SELECT {', '.join([*shown, ''])}"
            f"row_number() OVER (ORDER BY {order}) - 1 AS {parts.ITEM}, "
            f"list({person} ORDER BY hash({person}), {person}) AS {parts.PEOPLE} "
            f"FROM {self._merged} GROUP BY {', '.join(keys)} ORDER BY {parts.ITEM}"
        )
        return self._merge(answer, n_slices)

    @property
    def _merged(self) -> str:
        return f"({self.question.merge_sql}\n) AS __dp_m"

    def _merge(self, answer: str, n_slices: int) -> parts.Task:
        return task(self.question.public, [_parts(self.types)], answer, n_slices)


def asked(question: PartedQuestion, tables: Mapping[Parts, Columns]) -> BoundQuestion:
    """Bind a question; no row is read."""
    every = {table: [name for name, _ in columns] for table, columns in tables.items()}
    public = {name: PublicRows(rows.columns, None) for name, rows in question.public.items()}
    with parts.task_database(task(public, _private(tables, every), "", 0), 0) as database:
        types = _described(database, question.part_sql)
        parts.make(database, _parts(types))
        merged = _described(database, question.merge_sql)
        with _only_unused_columns(database):
            explained = database.execute(f"EXPLAIN (FORMAT json) {question.part_sql}").fetchall()
    read = {table: _read(json.loads(explained[0][1]), table, every[table]) for table in tables}
    return BoundQuestion(question, tables, read, types, merged)


# --- which columns a question reads ---


@contextmanager
def _only_unused_columns(database: Any) -> Iterator[None]:
    """Let DuckDB only drop unused columns: it would do more with tables that are empty."""
    names = database.execute("SELECT name FROM duckdb_optimizers()").fetchall()
    others = ",".join(name for (name,) in names if name != "unused_columns")
    database.execute(f"SET disabled_optimizers = '{others}'")
    yield
    database.execute("RESET disabled_optimizers")


def _read(plan: Sequence[Any], table: Parts, columns: Sequence[str]) -> Sequence[str]:
    """The columns of a table that a plan reads; all of them where the plan does not tell."""
    found: set[str] = set()
    scans = [one for one in _scans(plan) if one["Table"].replace('"', "") == ".".join(table)]
    for scan in scans:
        named = scan.get("Projections", [])
        for name in [named] if isinstance(named, str) else named:
            mine = {one for one in columns if name == one or name.startswith(f"{one}.")}
            if name and not mine:
                return columns
            found |= mine
    return [name for name in columns if name in found] if scans else columns


def _scans(nodes: Sequence[Any]) -> Iterator[Any]:
    for node in nodes:
        told = node.get("extra_info", {})
        if "Table" in told:
            yield told
        yield from _scans(node.get("children", []))


# --- tables ---


def incoming(table: int, column: int) -> str:
    """What a column of a private table is called on its way from Spark."""
    return f"s{table}c{column}"


def task(
    public: Mapping[str, PublicRows], incoming: Sequence[parts.TaskTable], answer: str,
    n_slices: int, seen: Sequence[str] = (),
) -> parts.Task:  # fmt: skip
    """A task for workers with the driver's DuckDB."""
    given = _public(public), incoming, answer, n_slices, seen
    return parts.Task(duckdb.__version__, SETTINGS, *given)


def _private(
    tables: Mapping[Parts, Columns], read: Mapping[Parts, Sequence[str]]
) -> list[parts.TaskTable]:
    """Private tables; columns that are not read are NULL."""
    made = []
    for number, (table, columns) in enumerate(tables.items()):
        values = [
            incoming(number, i) if name in read[table] else "NULL"
            for i, (name, _) in enumerate(columns)
        ]
        made.append(_relation(table, columns, values))
    return made


def _public(public: Mapping[str, PublicRows]) -> list[parts.TaskTable]:
    """Public relations; their names are SQL."""
    made = []
    for name, relation in public.items():
        named = tokenize(name).names
        values = [quote(column) for column, _ in relation.columns]
        rows = None if relation.rows is None else parts.arrow_bytes(relation.rows)
        made.append(_relation(named, relation.columns, values, rows))
    return made


def _parts(types: Columns) -> parts.TaskTable:
    return _relation((PARTS,), types, [quote(name) for name, _ in types])


def _relation(
    name: Parts, columns: Columns, values: Sequence[str], rows: bytes | None = None
) -> parts.TaskTable:
    listed = ", ".join(f"{quote(column)} {kind}" for column, kind in columns)
    casts = ", ".join(f"CAST({v} AS {k})" for v, (_, k) in zip(values, columns, strict=True))
    before, is_temporary = [], len(name) == 1 or name[0] == "temp"
    if not is_temporary:
        if name[0] != "memory":  # as the task's own database is called
            before.append(f"ATTACH IF NOT EXISTS ':memory:' AS {quote(name[0])}")
        before.append(f"CREATE SCHEMA IF NOT EXISTS {full_name(name[:2])}")
    create = f"CREATE {'TEMP ' if is_temporary else ''}TABLE {full_name(name)} ({listed})"
    insert = f"INSERT INTO {full_name(name)} SELECT {casts} FROM {parts.INCOMING}"
    return parts.TaskTable([*before, create], insert, rows)


def _seen(table: Parts, columns: Sequence[str]) -> str:
    """How many rows a table has, and sums of hashes: of each column, and of whole rows."""
    hashed = [*([quote(name)] for name in columns), [quote(name) for name in columns]]
    sums = [
        f"CAST(coalesce(sum(CAST(hash({', '.join(some)}) AS HUGEINT)), 0) AS VARCHAR)"
        for some in hashed
        if some
    ]
    return f"SELECT {', '.join(['CAST(count(*) AS VARCHAR)', *sums])} FROM {full_name(table)}"


# --- columns ---


def _described(database: Any, select: str) -> Columns:
    described = database.execute(f"DESCRIBE {select}").fetchall()
    return [(name, kind) for name, kind, *_ in described]
