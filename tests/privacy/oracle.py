"""The oracle: is an accepted source person-level, total, and what the analyst asked?

It runs what was compiled on a database and on each neighbour of it, and compares. It knows nothing
of how sources are compiled.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import pytest

from dp_sql.errors import NotPrivate
from dp_sql.policy.limits import WorkLimits
from dp_sql.policy.model import Policy
from dp_sql.privacy.expressions.collations import without_collations
from dp_sql.privacy.relations.base_tables import as_noted
from dp_sql.privacy.relations.policy_tables import PolicyTables
from dp_sql.privacy.relations.source_compiler import Compiler, Rows
from dp_sql.privacy.relations.tree import Select, Windows, relations_below
from dp_sql.privacy.relations.tree_sql import written
from dp_sql.sql.sqlglot_tree import Unreadable, tree_of
from dp_sql.sql.types import INTEGERS, without_labels
from tests.people import NAMED, NUMBERED, OWNERS, POLICY, POOLS, Data, Database

COLLATED = ("accounts", "logins")


@dataclass(frozen=True)
class Source:
    """A compiled source, written as SQL in one of the ways that sessions use."""

    rows: Rows
    sql: str
    tables: frozenset[tuple[str, ...]]

    @property
    def is_private(self) -> bool:
        return self.rows.is_private


EVERY_ROW, DISTINCT, CAPPED = "every row", "distinct rows", "two distinct rows a person"
CAPPED_ROWS = "two rows a person"
WAYS = (EVERY_ROW, DISTINCT, CAPPED, CAPPED_ROWS)
_CAP = WorkLimits(2, 10**6)
_SHOWN = "CAST('0001-01-01' AS TIMESTAMP_S) AND CAST('9999-12-31' AS TIMESTAMP_S)"


def compiled(text: str, database: Database, policy: Policy = POLICY) -> Rows:
    """The source of a statement.

    Raises:
        NotPrivate: it is refused.
        Unreadable: sqlglot has no tree of it.
    """
    compiler = Compiler(PolicyTables(database, policy))
    return as_noted(lambda: compiler.query(tree_of(text)), compiler.tables)


def as_sql(rows: Rows, database: Database, way: str = EVERY_ROW) -> Source:
    """A compiled source as SQL over the data that the database holds now."""
    limits = _CAP if way in {CAPPED, CAPPED_ROWS} else None
    every_row = way in {EVERY_ROW, CAPPED_ROWS}
    found = written(rows.relation, database, limits, every_row=every_row)
    return Source(rows, found.sql, found.tables)


def of_others(rows: Sequence[tuple[str | None, ...]], person: str | None) -> Counter[object]:
    """How often each row of the other people is there; the first column is the person."""
    return Counter(row for row in rows if row[0] is not None and row[0] != person)


Found = list[tuple[str | None, ...]]


def answered(sources: Sequence[Source], database: Database) -> list[Found]:
    """The rows of each source.

    Raises:
        AssertionError: a source is not total.
    """
    try:
        return [database.rows(source.sql) for source in sources]
    except duckdb.Error as error:
        raise AssertionError(f"not total: {error}\n{sources[0].sql}") from error


def check_removals(
    sources: Sequence[Source], before: Sequence[Found], database: Database, with_items: bool
) -> None:
    """Removing a person takes that person's rows and changes no one else's, however it is written.

    Rows are removed from the tables that the source reads, which check_tables has compared.

    Raises:
        AssertionError: it does more.
    """
    tables = {parts[-1] for parts in sources[0].tables}
    for person in NAMED if sources[0].rows.person_type == "VARCHAR" else NUMBERED:
        database.connection.execute("BEGIN")
        try:
            database.remove(person, tables, with_items)
            after = answered(sources, database)
        finally:
            database.connection.execute("ROLLBACK")
        for rows, others in zip(before, after, strict=True):
            assert of_others(others, None) == of_others(rows, person), (
                f"removing {person} changes the rows of others"
            )


def check_tables(source: Source, database: Database) -> None:
    """DuckDB's own reading of a source names the tables that were meant, and no others.

    Without collations: over these DuckDB stumbles when it only extracts names.
    """
    plain = without_collations(source.sql)
    names = database.connection.get_table_names(f"SELECT * FROM ({plain})", qualified=True)
    meant = {".".join(parts) for parts in source.tables}
    assert {name.replace('"', "") for name in names} == meant


def accepted(text: str, database: Database) -> Rows | None:
    try:
        return compiled(text, database)
    except (NotPrivate, Unreadable):
        return None


def check(text: str, data: Data, with_items: bool, database: Database) -> bool:
    """The whole oracle for one text; whether it was accepted."""
    database.hold(data)
    rows = accepted(text, database)
    assert rows == accepted(text, database.empty), "the data decide what is accepted"
    if rows is None:
        return False
    sources = [as_sql(rows, database, way) for way in WAYS]
    for source in sources:
        check_tables(source, database)
    found = answered(sources, database)
    if rows.is_private:
        check_removals(sources, found, database, with_items)
    check_ways(rows, found)
    if not any(
        name in text for name in COLLATED
    ):  # persons compare byte by byte, whatever NOCASE says
        check_meaning(text, rows, data, database)
    return True


def check_ways(source: Rows, found: Sequence[Found]) -> None:
    """Without repeated rows a source has the same distinct rows; with a cap, some of them."""
    every, distinct, *capped = (set(map(_one_zero, rows)) for rows in found)
    assert distinct == every
    if source.is_private and not _counts(source) and not _looks_around(source):
        assert all(some <= every for some in capped)


def _counts(source: Rows) -> bool:
    """Whether a source counts rows: then a cap changes the values, too."""
    return "system.main.count(" in repr(source.relation) or "main.sum(" in repr(source.relation)


def _looks_around(source: Rows) -> bool:
    """Whether a row that a cap takes away changes another: windows over joins, EXISTS that compares."""
    below = [*relations_below(source.relation)]
    windows = any(isinstance(one, Windows) and isinstance(one.relation, Select) for one in below)
    selects = (one for one in below if isinstance(one, Select))
    return windows or any(one.is_compared(number) for one in selects for number in one.left)


def check_meaning(text: str, source: Rows, data: Data, database: Database) -> None:
    """Where all rows have an owner, the relation is what DuckDB answers to the text itself."""
    described = database.columns(text)
    for (name, kind), ours, value in zip(described, source.names, source.values, strict=True):
        assert ours in {name.lower(), ""}
        types = {value.type.split("(")[0], without_labels(kind).split("(")[0]}
        # People of several types are read as one, and seconds as microseconds.
        assert len(types) == 1 or types <= INTEGERS or types == {"TIMESTAMP", "TIMESTAMP_S"}
    tables = {parts[-1] for parts in as_sql(source, database).tables} & POOLS.keys()
    database.connection.execute("BEGIN")
    try:
        database.fill(data, tables, tidy=True)
        if "odd" in tables:  # seconds so far away that DuckDB may not show them are NULL in sources
            database.connection.execute(f"UPDATE odd SET s = NULL WHERE NOT s BETWEEN {_SHOWN}")
        ours = database.rows(as_sql(source, database).sql)
        database.rewrite(False)
        try:
            plain = database.rows(text)
        except duckdb.Error:
            return  # the text is not total, our relation is
    finally:
        database.connection.execute("ROLLBACK")
        database.rewrite(True)  # not before: an error ends the transaction
    assert Counter(map(_one_zero, (row[source.is_private :] for row in ours))) == Counter(
        map(_one_zero, plain)
    )


def _one_zero(row: tuple[str | None, ...]) -> tuple[str | None, ...]:
    """DISTINCT and GROUP BY keep 0.0 of 0.0 and -0.0, where DuckDB keeps the first."""
    return tuple("0.0" if value == "-0.0" else value for value in row)


def some_data() -> list[Data]:
    """Few rows and many, values that people share and values that one person has.

    These two reject each mutant of these tests.
    """
    return [
        {
            table: [(owner, step * n + shift * i) for n, owner in enumerate(owners * times)]
            for i, (table, owners) in enumerate(OWNERS.items())
        }
        for step, times, shift in ((1, 3, 1), (3, 6, 0))
    ]


# Below other parameters: then the tables are filled once for all tests with the same data.
WITH_SOME_DATA = pytest.mark.parametrize("data", some_data(), ids=["few rows", "many rows"])
