"""The oracle: is an accepted source person-level, total, and what the analyst asked?

It runs what was compiled on a database and on each neighbour of it, and compares. It knows nothing
of how sources are compiled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from dp_sql.errors import NotPrivate
from dp_sql.policy.limits import WorkLimits
from dp_sql.policy.model import Policy
from dp_sql.privacy.relation_sql import written
from dp_sql.privacy.relations import Compiler, Rows
from dp_sql.privacy.tables import PolicyTables
from dp_sql.sql.sqlglot_tree import Unreadable, tree_of
from dp_sql.sql.types import without_labels
from tests.people import NAMED, NUMBERED, OWNERS, POLICY, Data, Database

COLLATED = ("accounts", "logins")


@dataclass(frozen=True)
class Source:
    """A compiled source, written as SQL in one of the ways that sessions use."""

    rows: Rows
    sql: str
    tables: frozenset[tuple[str, ...]]

    @property
    def private(self) -> bool:
        return self.rows.private


EVERY_ROW, DISTINCT, CAPPED = "every row", "distinct rows", "two rows a person"
WAYS = (EVERY_ROW, DISTINCT, CAPPED)
_CAP = WorkLimits(2, 10**6)


def compiled(text: str, database: Database, policy: Policy = POLICY) -> Rows:
    """The source that a text is.

    Raises:
        NotPrivate: it is refused.
        Unreadable: sqlglot has no tree of it.
    """
    return Compiler(PolicyTables(database, policy)).query(tree_of(text))


def as_sql(rows: Rows, database: Database, way: str = EVERY_ROW) -> Source:
    """A compiled source as SQL over the data that the database holds now."""
    limits = _CAP if way == CAPPED else None
    found = written(rows.relation, database, limits, every_row=way == EVERY_ROW)
    return Source(rows, found.sql, found.tables)


def of_others(rows: Sequence[tuple[str | None, ...]], person: str | None) -> Counter[object]:
    """How often each row of somebody else stands there; the first column is the person."""
    return Counter(row for row in rows if row[0] is not None and row[0] != person)


def check_removals(source: Source, database: Database, with_items: bool = True) -> None:
    """Removing a person takes that person's rows and changes nobody else's.

    Raises:
        AssertionError: it does more.
    """
    assert source.private
    try:
        before = database.rows(source.sql)
        for person in NAMED if source.rows.person_type == "VARCHAR" else NUMBERED:
            database.connection.execute("BEGIN")
            try:
                database.remove(person, with_items)
                after = database.rows(source.sql)
            finally:
                database.connection.execute("ROLLBACK")
            assert of_others(after, None) == of_others(before, person), (
                f"removing {person} changes the rows of others"
            )
    except duckdb.Error as error:
        raise AssertionError(f"not total: {error}\n{source.sql}") from error


def check_tables(source: Source, database: Database) -> None:
    """DuckDB's own reading of a source names the tables that were meant, and no others.

    Without collations: over these DuckDB stumbles when it only extracts names.
    """
    plain = source.sql.replace(' COLLATE "binary"', "")
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
    database.fill({})
    on_nothing = accepted(text, database)
    database.fill(data)
    source = accepted(text, database)
    assert source == on_nothing, "the data decide what is accepted"
    if source is None:
        return False
    for way in WAYS:
        written = as_sql(source, database, way)
        check_tables(written, database)
        if source.private:
            check_removals(written, database, with_items)
    check_ways(source, database)
    if not any(
        name in text for name in COLLATED
    ):  # persons compare byte by byte, whatever NOCASE says
        check_meaning(text, data, database)
    return True


def check_ways(source: Rows, database: Database) -> None:
    """Without repeated rows a source has the same distinct rows; with a cap, some of them."""
    every, distinct, capped = (
        set(map(_one_zero, database.rows(as_sql(source, database, way).sql))) for way in WAYS
    )
    assert distinct == every
    if source.private and not _counts(source):
        assert capped <= every


def _counts(source: Rows) -> bool:
    """Whether a source counts rows: then a cap changes the values, too."""
    return "system.main.count(" in repr(source.relation) or "main.sum(" in repr(source.relation)


def check_meaning(text: str, data: Data, database: Database) -> None:
    """Where all rows have an owner, the relation is what DuckDB answers to the text itself."""
    if duckdb.__version__ < "2" and "date_trunc" in text and "<>" in text:
        return  # DuckDB 1.5 keeps rows in which date_trunc('year', NULL) <> '2020-01-31'
    database.fill(data, tidy=True)
    source = compiled(text, database)
    described = database.columns(text)
    for (name, kind), ours, value in zip(described, source.names, source.values, strict=True):
        assert ours in {name.lower(), ""}
        assert value.type.split("(")[0] == without_labels(kind).split("(")[0]
    try:
        plain = database.rows(text)
    except duckdb.Error:
        return  # the text is not total, our relation is
    ours = database.rows(as_sql(source, database).sql)
    assert Counter(map(_one_zero, (row[source.private :] for row in ours))) == Counter(
        map(_one_zero, plain)
    )


def _one_zero(row: tuple[str | None, ...]) -> tuple[str | None, ...]:
    """DISTINCT and GROUP BY keep 0.0 of 0.0 and -0.0, where DuckDB keeps the first."""
    return tuple("0.0" if value == "-0.0" else value for value in row)


def some_data() -> list[Data]:
    """Few rows and many, values that people share and values that one person has."""
    return [
        {
            table: [(owner, step * n + shift * i) for n, owner in enumerate(owners * times)]
            for i, (table, owners) in enumerate(OWNERS.items())
        }
        for step, times, shift in (
            (0, 2, 0),
            (1, 1, 0),
            (1, 1, 1),
            (1, 3, 1),
            (5, 2, 3),
            (7, 1, 11),
            (3, 6, 0),
        )
    ]
