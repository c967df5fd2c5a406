"""An engine that shuffles, computes parts more than once, and loses jobs.

Rows are those of a DuckDB connection. Another DuckDB has the rows of one part after the other, so
that no part sees a row of another; rows travel as strings.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from dp_sql.engines.protocol import PART, PARTS, SETTINGS, Pairs, PartedQuestion
from dp_sql.privacy.relations.person_of import PersonOf
from dp_sql.sql.formatting import full_name, quote

Columns = Sequence[tuple[str, str]]  # names and types
Row = tuple[str | None, ...]
Part = tuple[int, Columns, list[Row]]


class Lost(Exception):
    """A job that did not come back, or one that found other rows than the first."""


class FakeEngine:
    """Answers for one release over the tables of a connection.

    n_parts: into how many parts people are split. repeats: how often each part is computed; one of
    the results is taken. retries: how often a lost job is run again. job: called before each run of
    a job; it may raise Lost.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        seed: int = 0,
        n_parts: int = 3,
        repeats: int = 1,
        retries: int = 0,
        job: Callable[[], None] = lambda: None,
    ) -> None:
        self.connection, self.seed, self.rng = connection, seed, np.random.default_rng(seed)
        self.n_parts, self.repeats, self.retries, self.job = n_parts, repeats, retries, job
        self.n_jobs = self.n_pairs = 0
        self._seen: dict[PersonOf, int] = {}  # hashes of what tables held

    # --- the protocol ---

    def rows(self, question: PartedQuestion) -> pa.Table:
        return self._merged(question)

    def thin(self, question: PartedQuestion, people_per_item: int) -> Pairs:
        keys, items, people = self._edges(question)
        kept = np.zeros(items.size, np.bool_)
        for codes, most in ((items, people_per_item), (people, 1)):
            order = np.argsort(codes)
            first = np.searchsorted(codes[order], codes[order])
            kept[order] |= np.arange(order.size) - first < most
        found = self._pairs(question, keys, items, people, kept)
        return replace(found, n_people=np.unique(people).size)

    def complete(self, question: PartedQuestion, items: Any, people: Any) -> Pairs:
        keys, *both = self._edges(question)
        kept = np.full(both[0].size, items is None)
        for codes, wanted in zip(both, (items, people), strict=True):
            if wanted is not None:
                kept |= np.isin(codes, wanted)
        return self._pairs(question, keys, *both, kept)

    # --- pairs ---

    def item_code(self, place: int) -> int:
        return -7 * place - 3

    def person_code(self, part: int, code: int) -> int:
        return code * self.n_parts + part - (1 << 40)

    def _edges(self, question: PartedQuestion) -> tuple[dict[int, Row], Any, Any]:
        """The keys of all items by their codes; the codes of the items and people of all pairs."""
        pairs = []
        for part, columns, rows in self.delivered(question):
            keys = _keys(columns, rows, question.keys)
            people = _keys(columns, rows, ["__dp_person"])
            codes = (self.person_code(part, int(code or 0)) for (code,) in people)
            pairs += zip(keys, codes, strict=True)
        ordered = sorted({key for key, _ in pairs}, key=repr)
        items = {key: self.item_code(place) for place, key in enumerate(ordered)}
        both = np.array([(items[key], person) for key, person in pairs], np.int64).reshape(-1, 2)
        return {code: key for key, code in items.items()}, *self.rng.permutation(both).T

    def _pairs(
        self, question: PartedQuestion, keys: dict[int, Row], items: Any, people: Any, kept: Any
    ) -> Pairs:
        self.n_pairs += int(kept.sum())
        here = np.unique(items[kept])
        types = dict(question.columns)
        columns = [("item", "BIGINT"), *((name, types[name]) for name in question.shown)]
        places = [[*question.keys].index(name) for name in question.shown]
        shown = [(str(item), *(keys[item][i] for i in places)) for item in here.tolist()]
        complete = np.setdiff1d(here, items[~kept])
        return Pairs(items[kept], people[kept], complete, as_arrow(columns, shown))

    # --- summaries ---

    def _merged(self, question: PartedQuestion) -> pa.Table:
        """Rows with the same keys meet; whether others meet is left to chance."""
        sets, where = defaultdict[int, list[Row]](list), dict[Row, int]()
        columns: Columns = ()
        for _, columns, rows in self.delivered(question):
            for key, row in zip(_keys(columns, rows, question.keys), rows, strict=True):
                sets[where.setdefault(key, int(self.rng.integers(3)))].append(row)
        found = []
        for number, rows in enumerate([*sets.values()] or [[]]):
            with _worker(number, question) as worker:
                worker.fill(PARTS, columns, rows)
                found += worker.answer(question.merge_sql)[1]
        return as_arrow(question.columns, found)

    # --- jobs ---

    def delivered(self, question: PartedQuestion) -> list[Part]:
        """What all parts have made of their rows, in any order."""
        for _ in range(self.retries):
            try:
                return self._run(question)
            except Lost:
                continue
        return self._run(question)

    def _run(self, question: PartedQuestion) -> list[Part]:
        self.n_jobs += 1
        self.job()
        tables = {of: self.read(of) for of in question.tables}
        answers = []
        for part in self.rng.permutation(self.n_parts).tolist():
            runs = [self._computed(question, part, tables) for _ in range(self.repeats)]
            answers.append(runs[self.rng.integers(self.repeats)])
        return answers

    def _computed(
        self, question: PartedQuestion, part: int, tables: dict[PersonOf, tuple[Columns, list[Row]]]
    ) -> Part:
        with _worker(part, question) as worker:
            for of, (columns, rows) in tables.items():
                own = {row[0]: row[2:] for row in rows if self.part_of(str(row[1])) == part}
                worker.fill(full_name(of.table), columns[2:], self._shuffled(own.values()))
            columns, rows = worker.answer(question.part_sql)
            return part, columns, self._shuffled(rows)

    def part_of(self, person: str) -> int:
        digest = hashlib.sha256(f"{self.seed}/{person}".encode()).digest()
        return int.from_bytes(digest[:8]) % self.n_parts

    def read(self, of: PersonOf) -> tuple[Columns, list[Row]]:
        """The rows of a table, each with its number and a person: once for each of its people."""
        columns, rows = _Worker(self.connection).answer(_with_people(of))
        held = hash(tuple(sorted(rows, key=repr)))
        if self._seen.setdefault(of, held) != held:
            raise Lost("rows have changed")
        return columns, rows

    def _shuffled(self, rows: Iterable[Row]) -> list[Row]:
        listed = [*rows]
        return [listed[place] for place in self.rng.permutation(len(listed))]


def _keys(columns: Columns, rows: Sequence[Row], names: Sequence[str]) -> list[Row]:
    places = [[name for name, _ in columns].index(name) for name in names]
    return [tuple(row[place] for place in places) for row in rows]


def _with_people(of: PersonOf) -> str:
    rows = f"(SELECT row_number() OVER () AS __row, * FROM {full_name(of.table)}) AS t"
    column = f"t.{quote(of.column)}"
    if of.owner is None:
        return (
            f"SELECT __row, CAST({column} AS VARCHAR) AS __person, t.* EXCLUDE __row FROM {rows} "
            f"WHERE {column} IS NOT NULL"
        )
    key = quote(of.key or "")
    owners = f"(SELECT DISTINCT {key} AS k, __person FROM ({_with_people(of.owner)})) AS o"
    return f"SELECT __row, __person, t.* EXCLUDE __row FROM {rows} JOIN {owners} ON {column} = k"


@cache
def _workers() -> duckdb.DuckDBPyConnection:
    """Where all parts run: to open a DuckDB takes longer than most of them."""
    return duckdb.connect(config={"threads": 1})


@contextmanager
def _worker(number: int, question: PartedQuestion) -> Iterator[_Worker]:
    """A DuckDB that has only the tables that all parts read."""
    worker = _Worker(_workers())
    try:
        for setting in SETTINGS:
            worker.connection.execute(setting)
        worker.connection.execute(f"CREATE OR REPLACE TEMP MACRO {PART}() AS {number}")
        for name, one in question.public.items():
            worker.fill(name, one.columns, one.rows)
        yield worker
    finally:
        for name in worker.tables:
            worker.connection.execute(f"DROP TABLE {name}")


class _Worker:
    """A connection, and the tables made there."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection, self.tables = connection, list[str]()

    def fill(self, name: str, columns: Columns, rows: Any) -> None:
        """Make a table; its rows are an arrow table or tuples of strings."""
        database, *rest = (part.strip('"').replace('""', '"') for part in name.split('"."'))
        if rest and database not in {"temp", "memory"}:
            self.connection.execute(f"ATTACH IF NOT EXISTS ':memory:' AS {quote(database)}")
            self.connection.execute(f"CREATE SCHEMA IF NOT EXISTS {full_name([database, rest[0]])}")
        listed = ", ".join(f"CAST({quote(n)} AS {kind}) AS {quote(n)}" for n, kind in columns)
        if not isinstance(rows, pa.Table):
            rows = as_arrow([(name, "VARCHAR") for name, _ in columns], rows)
        kind = "TEMP TABLE" if database == "temp" else "TABLE"
        self.connection.register("__rows", rows)
        self.connection.execute(f"CREATE {kind} {name} AS SELECT {listed} FROM __rows")
        self.connection.unregister("__rows")
        self.tables.append(name)

    def answer(self, select: str) -> tuple[Columns, list[Row]]:
        """The columns of a SELECT, and its rows as strings."""
        described = self.connection.execute(f"DESCRIBE {select}").fetchall()
        columns = [(name, kind) for name, kind, *_ in described]
        listed = ", ".join(f"CAST({quote(name)} AS VARCHAR)" for name, _ in columns)
        return columns, self.connection.execute(f"SELECT {listed} FROM ({select})").fetchall()


def as_arrow(columns: Columns, rows: Sequence[Row]) -> pa.Table:
    """Rows of strings as an arrow table: BIGINT as int64, and all else as strings."""
    data = [*zip(*rows, strict=True)] or [() for _ in columns]
    arrays = [pa.array(one, pa.string()) for one in data]
    kinds = [pa.int64() if kind == "BIGINT" else pa.string() for _, kind in columns]
    listed = zip(columns, arrays, kinds, strict=True)
    return pa.table({name: array.cast(kind) for (name, _), array, kind in listed})
