"""An engine that splits people at random, shuffles, and computes parts twice or anew.

It runs each part in a DuckDB of its own, so that no part sees a row of another.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from dp_sql.engines.protocol import PARTS, Pairs, PublicRows, Question
from dp_sql.privacy.relation_tree import PersonOf
from dp_sql.sql.formatting import full_name, quote

Rows = list[tuple[Any, ...]]


class Lost(Exception):
    """A job that did not come back."""


class FakeEngine:
    """Answers over the tables of a DuckDB connection.

    n_parts: into how many parts people are split. repeats: how often each part is computed; one of
    the results, at random, is taken. fails: called before each job; it may raise.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        rng: random.Random,
        n_parts: int = 3,
        repeats: int = 1,
        fails: Callable[[], None] = lambda: None,
    ) -> None:
        self.connection, self.rng = connection, rng
        self.n_parts, self.repeats, self.fails = n_parts, repeats, fails
        self.n_jobs = 0
        self.n_pairs = 0

    def counts(self, question: Question) -> pa.Table:
        return self._merged(question)

    def contributions(self, question: Question) -> pa.Table:
        return self._merged(question)

    def thin(self, question: Question, people_per_item: int) -> Pairs:
        return self._pairs(question, lambda people: people[:people_per_item], None)

    def complete(self, question: Question, items: Any) -> Pairs:
        return self._pairs(question, lambda people: people, None if items is None else {*items})

    def _pairs(
        self, question: Question, cut: Callable[[list[int]], list[int]], items: Any
    ) -> Pairs:
        """Items are numbered by the order of what they are written as; people by part."""
        own: defaultdict[tuple[Any, ...], set[int]] = defaultdict(set)
        names = [*question.keys, "__dp_person"]
        for part, (columns, rows) in enumerate(self._parts(question)):
            places = [columns.index(name) for name in names]
            for row in rows:
                *key, code = (row[i] for i in places)
                own[tuple(key)].add((part << 32) + code)
        codes = {key: code for code, key in enumerate(sorted(own, key=repr))}
        found: dict[int, list[int]] = {}
        complete, shown = [], []
        for key, code in codes.items():
            if items is None or code in items:
                people = sorted(own[key], key=lambda person: hash((person, "salt")))
                found[code] = cut(people)
                if len(found[code]) == len(people):
                    complete.append(code)
                listed = dict(zip(question.keys, key, strict=True))
                shown.append({"item": code, **{n: listed[n] for n in question.shown}})
        pairs = [(item, person) for item, people in found.items() for person in people]
        self.rng.shuffle(pairs)
        self.n_pairs += len(pairs)
        both = np.array(pairs, np.int64).reshape(-1, 2)
        return Pairs(
            both[:, 0],
            both[:, 1],
            np.array(sorted(complete), np.int64),
            as_table(
                [("item", "BIGINT"), *((n, "") for n in question.shown)],
                [tuple(one.values()) for one in shown],
            ),
        )

    def _merged(self, question: Question) -> pa.Table:
        names, rows = [], []
        for columns, some in self._parts(question):
            names, rows = columns, rows + some
        self.rng.shuffle(rows)
        # Rows with the same keys meet; which of the others they meet is of no matter.
        places = [names.index(key) for key in question.keys]
        sets: defaultdict[int, Rows] = defaultdict(list)
        where: dict[Any, int] = {}
        for row in rows:
            key = tuple(repr(row[i]) for i in places)
            sets[where.setdefault(key, self.rng.randrange(2) if places else 0)].append(row)
        found: Rows = []
        with duckdb.connect() as merging:
            _public(merging, question.public)
            for some in sets.values() or [[]]:
                _fill(merging, PARTS, self._types, some)
                found += merging.execute(question.merge_sql).fetchall()
        return as_table(question.columns, found)

    def _parts(self, question: Question) -> list[tuple[list[str], Rows]]:
        """Columns and rows of the SQL over each part, in any order."""
        self.fails()
        self.n_jobs += 1
        owners = {of: self._people(of) for of in question.tables}
        people = {person for rows in owners.values() for person, _ in rows}
        part_of = {person: self.rng.randrange(self.n_parts) for person in sorted(people, key=repr)}
        answers = []
        for number in range(self.n_parts):
            results = []
            for _ in range(self.repeats):
                tables = {}
                for of, rows in owners.items():
                    mine = {row for person, row in rows if part_of[person] == number}
                    own = [row for row in self._numbered(of) if row in mine]
                    self.rng.shuffle(own)
                    tables[of.table] = [row[1:] for row in own]
                results.append(self._run(question, number, tables))
            answers.append(self.rng.choice(results))
        return answers

    def _run(self, question: Question, number: int, tables: Any) -> tuple[list[str], Rows]:
        with duckdb.connect() as part:
            part.execute("SET TimeZone = 'UTC'")
            for table, rows in tables.items():
                listed = self.connection.execute(f"DESCRIBE {full_name(table)}").fetchall()
                _create(part, table)
                _fill(part, full_name(table), [(n, k) for n, k, *_ in listed], rows)
            _public(part, question.public)
            part.execute(f"CREATE TEMP MACRO __dp_part() AS {number}")
            described = part.execute(f"DESCRIBE {question.part_sql}").fetchall()
            self._types = [(name, kind) for name, kind, *_ in described]
            found = part.execute(question.part_sql).fetchall()
            self.rng.shuffle(found)
            return [name for name, _ in self._types], found

    def _numbered(self, of: PersonOf) -> Rows:
        select = f"SELECT row_number() OVER (), * FROM {full_name(of.table)}"
        return self.connection.execute(select).fetchall()

    def _people(self, of: PersonOf) -> list[tuple[Any, Any]]:
        """The person of each row, and the row with its number; a row may belong to several."""
        listed = self.connection.execute(f"DESCRIBE {full_name(of.table)}").fetchall()
        names = [name for name, *_ in listed]
        own = names.index(of.column) + 1
        rows = [row for row in self._numbered(of) if row[own] is not None]
        if of.owner is None:
            return [(row[own], row) for row in rows]
        owners: defaultdict[Any, set[Any]] = defaultdict(set)
        theirs = self.connection.execute(f"DESCRIBE {full_name(of.owner.table)}").fetchall()
        key = [name for name, *_ in theirs].index(of.key or "") + 1
        for person, row in self._people(of.owner):
            owners[row[key]].add(person)
        return [(person, row) for row in rows for person in owners[row[own]]]


def _create(connection: duckdb.DuckDBPyConnection, table: Sequence[str]) -> None:
    if table[0] in {"temp", "memory"}:
        return
    connection.execute(f"ATTACH IF NOT EXISTS ':memory:' AS {quote(table[0])}")
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {full_name(table[:2])}")


def _public(connection: duckdb.DuckDBPyConnection, public: Any) -> None:
    for name, rows in public.items():
        assert isinstance(rows, PublicRows)
        parts = [part.strip('"') for part in name.split('"."')]
        if len(parts) == 3:
            _create(connection, parts)
        listed = ", ".join(f"CAST({quote(n)} AS {kind}) AS {quote(n)}" for n, kind in rows.columns)
        shipped = rows.rows
        assert shipped is not None
        connection.execute(
            f"CREATE OR REPLACE {'TEMP' * (parts[0] == 'temp')} TABLE {name} AS SELECT {listed} FROM shipped"
        )


def _fill(connection: duckdb.DuckDBPyConnection, table: str, columns: Any, rows: Rows) -> None:
    listed = ", ".join(f"{quote(name)} {kind}" for name, kind in columns)
    temporary = "TEMP " if table.startswith('"temp"') else ""
    connection.execute(f"CREATE OR REPLACE {temporary}TABLE {table} ({listed})")
    if rows:
        marks = ", ".join("?" for _ in columns)
        connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)


def as_table(columns: Sequence[tuple[str, str]], rows: Rows) -> pa.Table:
    """Rows as an arrow table; numbers beyond 64 bits are strings."""
    wide = {"HUGEINT", "UHUGEINT"}
    data = {
        name: [None if row[i] is None else str(row[i]) if kind in wide else row[i] for row in rows]
        for i, (name, kind) in enumerate(columns)
    }
    types = {"BIGINT": pa.int64(), "HUGEINT": pa.string(), "VARCHAR": pa.string()}
    return pa.table({n: pa.array(data[n], types.get(kind)) for n, kind in columns})
