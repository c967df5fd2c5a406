"""The private side of a session under a policy whose tables are Spark's."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from dp_sql.engines.duckdb.connection import columns_of
from dp_sql.engines.duckdb.frozen import Records
from dp_sql.engines.duckdb.introspection import TableNames
from dp_sql.engines.duckdb.opening import NO_FILES
from dp_sql.engines.duckdb.private_connection import PrivateConnection
from dp_sql.engines.duckdb.tables import fill, make_table, use_schema
from dp_sql.engines.spark.release import Releases, open_memory
from dp_sql.engines.spark.spark_catalog import Spark, SparkCatalog, SparkTable
from dp_sql.errors import PolicyError, SourceError
from dp_sql.policy.model import Policy
from dp_sql.policy.owners_catalog import CatalogEntry
from dp_sql.policy.parser import dotted
from dp_sql.privacy.catalog import Parts
from dp_sql.privacy.plans.plan import Plan, drawn_from
from dp_sql.sql.formatting import full_name


@contextmanager
def _fitting() -> Iterator[None]:
    try:
        yield
    except SourceError as error:
        raise PolicyError(f"The policy does not fit Spark: {error}") from None


@dataclass(frozen=True)
class SparkEntry(CatalogEntry):
    """A table by its name in Spark, which DuckDB may have for itself."""

    called: Parts = ()

    def is_called(self, name: Sequence[str]) -> bool:
        """Whether a folded name may mean this table."""
        return self.called[-len(name) :] == tuple(name)


class SparkPrivateConnection(PrivateConnection):
    """The tables of a policy, on the driver: those of people empty, and public ones with rows.

    Names mean what they mean in Spark when the session opens.
    """

    changed = "The columns of a private table have changed in Spark"

    def __init__(self, spark: Spark, policy: Policy) -> None:
        self._spark = SparkCatalog(spark)
        self._check(policy)
        self._policy, self._tables = policy, self._found(policy)
        tables = [*self._tables.values()]
        self.described, self.identity = "Spark", self._spark.identity(tables)
        self._by_parts = {table.parts: table for table in tables}
        self._releases = Releases(self._spark, self._by_parts.__getitem__, is_owner=False)
        connection = open_memory()
        self._begin(connection, f"spark#{id(connection)}", policy.limits)
        with self._closed_on_failure(), _fitting():
            connection.execute(NO_FILES)
            use_schema(connection, self._spark.here())
            for table in tables:
                make_table(connection, table.parts, table.columns)
            self._listed = [*map(self._listed_in_spark, tables)]
            self.catalog = self

    def _check(self, policy: Policy) -> None:
        if policy.views:
            views = ", ".join(map(dotted, sorted(policy.views)))
            raise PolicyError(
                "[views] is not supported with Spark: dp_sql reads Spark's views as tables. "
                f"Move {views} to [tables] or [public]."
            )
        observed = [
            dotted((*name, n)) for (name, n), of in policy.domains.items() if of == "observed"
        ]
        if observed:
            raise PolicyError(
                "Domains cannot be observed with Spark, because people's rows stay there. Name a "
                f"public column, or list the values: {', '.join(observed)}"
            )

    def _found(self, policy: Policy) -> dict[Parts, SparkTable]:
        """The tables of a policy that there are, by their names in it."""
        names = [*policy.tables, *policy.scores, *sorted(policy.public)]
        with _fitting():
            found = {name: self._spark.find(name) for name in names}
        return {name: table for name, table in found.items() if table is not None}

    def _listed_in_spark(self, table: SparkTable) -> SparkEntry:
        columns = columns_of(self._bound(f"SELECT * FROM {full_name(table.parts)}"))
        database, schema, name = table.parts
        return SparkEntry(
            (database, schema, name), is_view=False, columns=tuple(columns), called=table.called
        )

    def pin(self, private: TableNames, public: TableNames) -> None:
        """Read the rows of the public tables, which stay as they are now for this session."""
        for name in [*self._policy.scores, *sorted(self._policy.public)]:
            table = self._tables[name]
            with _fitting():
                rows = self._spark.rows(table)
            fill(self._connection, table.parts, table.columns, rows)

    def is_current(self) -> bool:
        """Whether all private tables, and their columns, are those of the beginning."""
        return all(map(self._spark.is_still, self.private_tables()))

    def private_tables(self) -> list[SparkTable]:
        """The tables that hold people's rows."""
        return [self._tables[name] for name in self._policy.tables]

    # --- as the owner's tools see it (dp_sql.policy.owners_catalog) ---

    def listed(self) -> Sequence[CatalogEntry]:
        """The tables of the policy."""
        return self._listed

    def replaced_functions(self) -> Sequence[str]:
        """None: user-defined functions of Spark replace no function here."""
        return []

    def finds(self, select: str) -> bool:
        """Whether a SELECT returns a row; SourceError where it reads people's rows."""
        if any(full_name(table.parts) in select for table in self.private_tables()):
            raise SourceError("on Spark this is not checked.")
        return bool(self.public_values(select))

    # --- questions ---

    def interrupt(self) -> None:
        """Stop what is running, in Spark and here."""
        self._releases.interrupt()
        super().interrupt()

    def check(self, plans: Sequence[Plan]) -> None:
        """Refuse, before anything is spent, what cannot be asked of Spark."""
        self._releases.check(plans)

    def _answers(self, plans: Sequence[Plan], tickets: Sequence[str]) -> list[Records]:
        return self._releases.made(self._connection, [*map(drawn_from, plans)], tickets)

    def _as_drawn(self, plan: Plan) -> Plan:
        return drawn_from(plan)
