"""Owners' statements over Spark: looks up names and reads rows when a statement needs them."""

from collections.abc import Collection, Sequence
from itertools import chain
from typing import Any

from dp_sql.engines.duckdb.connection import Engine
from dp_sql.engines.duckdb.frozen import FrozenAnswers, Records
from dp_sql.engines.duckdb.install import number_of, register
from dp_sql.engines.duckdb.introspection import CATALOG_LOCK
from dp_sql.engines.duckdb.opening import NO_FILES, restrict
from dp_sql.engines.duckdb.spill import limit_private
from dp_sql.engines.duckdb.tables import fill, make_table, use_schema
from dp_sql.engines.spark.release import Releases, open_memory, told
from dp_sql.engines.spark.spark_catalog import Spark, SparkCatalog, SparkTable
from dp_sql.errors import SourceError
from dp_sql.policy.limits import Limits
from dp_sql.privacy.catalog import NamedRelation, Parts, SchemaName
from dp_sql.privacy.plans.plan import Plan, Released, drawn_from
from dp_sql.privacy.private_sql.release_select import release_columns
from dp_sql.sql.tokens import folded, tokenize

_BEFORE_NAMES = {"FROM", "JOIN", "TABLE"}


class SparkEngine(Engine):
    """The driver's DuckDB as the compiler of owners' statements sees it, and Spark behind it.

    What names mean, and the rows of public tables, are asked of Spark once for each statement.
    """

    def __init__(self, spark: Spark) -> None:
        self._catalog = SparkCatalog(spark)
        self.releases = Releases(self._catalog, self._table, is_owner=True)
        connection = open_memory()
        run = connection.execute
        self._remove_spill = limit_private(f"spark#{id(connection)}", Limits(), run)
        restrict(connection, NO_FILES)
        super().__init__(connection, register(connection, is_new=True))
        self.number = number_of(connection)
        self._found: dict[Parts, SparkTable | None] = {}
        self._rows: dict[Parts, Any] = {}

    def begin(self) -> SchemaName:
        """Forget what an earlier statement has asked; returns where bare names are looked for."""
        self._found, self._rows = {}, {}
        here = self._catalog.here()
        use_schema(self.connection, here)
        return here

    def close(self) -> None:
        """Close the connection; what it has spilled is removed."""
        with CATALOG_LOCK:
            self.connection.close()
        self._remove_spill()

    def interrupt(self) -> None:
        """Stop what is running, in Spark and here."""
        self.releases.interrupt()
        self.connection.interrupt()

    # --- what the compiler asks ---

    def relation(self, parts: Parts, within: SchemaName | None = None) -> NamedRelation | None:
        """The table or view of Spark that a name means: a base table here."""
        found = self.table(parts)
        return None if found is None else NamedRelation(found.parts, None, is_table=True)

    def table(self, parts: Sequence[str]) -> SparkTable | None:
        """The table or view of Spark that a name means; DuckDB then has it, without rows."""
        key = tuple(map(folded, parts))
        if key not in self._found:
            found = self._catalog.find(parts)
            if found is not None:
                make_table(self.connection, found.parts, found.columns)
                self._found[found.parts] = found
            self._found[key] = found
        return self._found[key]

    def columns(self, select: str) -> list[tuple[str, str]]:
        """Names and types of the columns of a SELECT, bound and not run."""
        try:
            return super().columns(select)
        except SourceError as error:
            if "file system operations" in error.message:
                view = "spark.read.parquet('…').createOrReplaceTempView('ratings')"
                hint = f"Make it a view in Spark, {view}, and write FROM ratings."
                raise SourceError("On Spark, dp_sql reads no files.", hint=hint) from None
            found = [self.table(name) for name in names_in(select)]
            if any(found):
                return super().columns(select)
            raise self._with_names(error, select) from None

    def _with_names(self, error: SourceError, select: str) -> SourceError:
        """The error with Spark's names for one that it does not know, and not DuckDB's."""
        unknown = [name for name in names_in(select) if self.table(name) is None]
        if not unknown or "does not exist" not in error.message:
            return error
        near = self._catalog.near(unknown[0][-1])
        hint = f"Did you mean {near}?" if near else None
        told = SourceError(f"Spark has no table or view {'.'.join(unknown[0])}.", hint=hint)
        told.names = [near] if near else []
        return told

    def public_values(self, select: str) -> list[object]:
        """The first column of a SELECT over public data, whose rows are read from Spark."""
        self.read(self._named(select))
        return super().public_values(select)

    def _named(self, select: str) -> set[Parts]:
        """The tables of this statement that some SQL names."""
        known = (self._found.get(tuple(map(folded, name))) for name in names_in(select))
        return {found.parts for found in known if found is not None}

    def read(self, tables: Collection[Parts]) -> None:
        """Read the rows of public tables, once for each statement."""
        for parts in sorted(tables):
            found = self._found.get(parts)
            if found is not None and found.parts not in self._rows:
                fill(self.connection, found.parts, found.columns, self.rows(found))

    def _table(self, parts: Parts) -> SparkTable:
        """A table that this statement has named, by its name here."""
        found = self._found[parts]
        assert found is not None  # as it is compiled
        return found

    def rows(self, table: SparkTable) -> Any:
        """All rows of a public table as arrow, read once for each statement."""
        if table.parts not in self._rows:
            self._rows[table.parts] = self._catalog.rows(table)
        return self._rows[table.parts]

    # --- releases ---

    def release(
        self, plans: Sequence[Plan], tickets: Sequence[str], frozen: FrozenAnswers
    ) -> list[Released]:
        """Release a bundle of plans and freeze the answers, on another connection.

        Raises what a mechanism refused, or a SourceError.
        """
        scores = (plan.source for plan in plans if not plan.parameters.reads_people)
        named = map(self._named, (f"FROM {source}" for source in scores))
        self.read({*chain(*(plan.public_tables for plan in plans), *named)})
        plans = [*map(drawn_from, plans)]

        def run() -> list[Records]:
            try:
                return self.releases.made(self.connection, plans, tickets)
            except Exception as error:
                refusal = told(error)
            raise refusal  # outside the handler, so that Spark's error is not its context

        made = zip(plans, self._redeem(plans[0], tickets, run), strict=True)
        return [Released(frozen.add(release_columns(plan), rows)) for plan, rows in made]

    def as_drawn(self, plan: Plan) -> Plan:
        """The plan that a ticket stands for."""
        return drawn_from(plan)


def names_in(sql: str) -> list[Parts]:
    """The names in some SQL that may be tables', each once: behind FROM, JOIN, TABLE or a comma.

    >>> names_in('SELECT a, b.c FROM x.y AS t, "Z" JOIN f(u) ON x = 1')
    [('b', 'c'), ('x', 'y'), ('Z',)]
    """
    tokens, found = tokenize(sql), []
    for i, token in enumerate(tokens[:-1]):
        if not (token.upper in _BEFORE_NAMES or token.is_symbol(",")):
            continue
        name = tokens.dotted(i + 1)
        if name and not tokens.at(i + 1 + len(name)).is_symbol("("):
            found.append(name.names)
    return list(dict.fromkeys(found))
