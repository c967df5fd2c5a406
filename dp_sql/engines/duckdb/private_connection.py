"""The private side under a policy: a connection that runs our own statements and no others.

It is opened for reading only. Nothing of an analyst's text is ever part of what it runs.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import duckdb

from dp_sql.engines.duckdb.connection import (
    Connection,
    Engine,
    hide_progress,
    open_database,
    reads_just,
)
from dp_sql.engines.duckdb.install import number_of, register
from dp_sql.engines.duckdb.introspection import DatabaseCatalogue
from dp_sql.engines.duckdb.spill import let_go, limit_private
from dp_sql.engines.duckdb.tickets import Desk
from dp_sql.errors import InternalError, QueryError, SourceError
from dp_sql.policy.limits import Limits
from dp_sql.privacy.catalog import view_body
from dp_sql.privacy.plan import Plan
from dp_sql.privacy.private_sql import private_sql, release_columns
from dp_sql.releases import Receipt
from dp_sql.sql.tokens import folded
from dp_sql.sql.types import full_name, literal, quote

FAILED = "The answer could not be computed. What it costs is spent."
"""The only message for an error after the debit."""

_SETTINGS = (
    "SET python_enable_replacements = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET TimeZone = 'UTC'",
    # These would let one person's row decide how long a query takes, or whether it fails:
    # - statistics_propagation computes date_trunc of a column's smallest and largest value outside
    #   of TRY, and skips what no value between them can match;
    # - join_order and build_side_probe_side choose by statistics of private rows, and may join
    #   public tables with each other; joins run as they are written, public sides built first;
    # - empty_result_pullup and join_filter_pushdown leave out work where the other side is empty.
    "SET disabled_optimizers = 'statistics_propagation,join_order,build_side_probe_side,"
    "empty_result_pullup,join_filter_pushdown'",
)
_KEPT_PUBLIC_ROWS = 200  # more than one statement may need
_AS_TEXT = frozenset({"BIT", "TIME WITH TIME ZONE", "HUGEINT", "UHUGEINT", "UUID"})
"""Types that do not keep their values in arrow on every version."""


class PrivateSide:
    """The owner's database as the plans of analysts see it.

    Args:
        database: path of a DuckDB file.
        limits: the policy's: memory, threads, and where rows may spill to.
    """

    def __init__(self, database: str, limits: Limits | None = None) -> None:
        self._connection: Connection = open_database(database, read_only=True)
        self._spill: contextlib.ExitStack = contextlib.ExitStack()
        try:
            limit_private(database, limits or Limits(), self._run)
            self._spill.callback(let_go, database)
            hide_progress(self._connection)
            for setting in _SETTINGS:
                self._run(setting)
            self._desk: Desk = register(self._connection, _nothing_to_rewrite)
            self._number = number_of(self._connection)
            self.catalogue = DatabaseCatalogue(self._connection)
            self._listed = self.catalogue.listed()
        except BaseException:
            self.close()
            raise
        self._known: dict[str, list[tuple[str, str]]] = {}
        self._numbers: dict[str, int] = {}
        self._public_rows: OrderedDict[tuple[str, ...], None] = OrderedDict()

    def interrupt(self) -> None:
        """Stop what is running."""
        self._connection.interrupt()

    def close(self) -> None:
        """Close the connection; what it has spilled is removed."""
        with self._spill:
            self._connection.close()

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """One receipt per release of this connection, oldest first."""
        return self._desk.receipts(self._number)

    # --- what guard and person_level ask ---

    def table(self, parts: Sequence[str]) -> tuple[str, ...] | None:
        """The base table that a name means, by its full name."""
        wanted = [folded(part) for part in parts]
        found = [entry for entry in self._listed if entry.is_called(wanted) and not entry.is_view]
        return found[0].parts if len(found) == 1 else None

    def view(self, parts: Sequence[str]) -> str | None:
        """The query of a view, from the text that created it."""
        wanted = [folded(part) for part in parts]
        found = [entry for entry in self._listed if entry.is_called(wanted) and entry.is_view]
        if len(found) != 1:
            return None
        rows = self._run(
            "SELECT sql FROM system.main.duckdb_views() WHERE database_name = $1 "
            "AND schema_name = $2 AND view_name = $3",
            list(found[0].parts),
        ).fetchall()
        return view_body(rows[0][0]) if len(rows) == 1 else None

    def inside(self, view: Sequence[str]) -> PrivateSide:
        """The same: here a name means the one relation that is called so, or nothing."""
        return self

    def columns(self, select: str) -> list[tuple[str, str]]:
        """Names and types of a SELECT's columns, bound and not run.

        They are kept: a database that is open here for reading does not change.
        """
        if select not in self._known:
            rows = self._run(f"DESCRIBE {select}").fetchall()
            self._known[select] = [(row[0], row[1]) for row in rows]
        return self._known[select]

    def readable(self, value: str, type_name: str) -> bool:
        """Whether a text can be cast to a type; no row is read."""
        try:
            self._run(f"SELECT CAST({literal(value)} AS {type_name})").fetchall()
        except duckdb.Error:
            return False
        return True

    def binds(self, select: str) -> bool:
        """Whether DuckDB can bind a SELECT; no row is read."""
        try:
            self.columns(select)
        except duckdb.Error:
            return False
        return True

    def public_values(self, select: str) -> list[object]:
        """The first column of a SELECT over public data."""
        try:
            return [row[0] for row in self._run(select).fetchall()]
        except duckdb.Error as error:
            raise SourceError(str(error).split("\n", 1)[0]) from None

    def public_number(self, select: str) -> int:
        """The number that a SELECT over public tables answers; they do not change."""
        if select not in self._numbers:
            (number,) = self.public_values(select)
            self._numbers[select] = int(str(number))
        return self._numbers[select]

    def public_rows(
        self, select: str, tables: frozenset[tuple[str, ...]]
    ) -> tuple[str, frozenset[tuple[str, ...]]]:
        """A temporary table that holds the rows of a SELECT over just these public tables.

        Returns:
            Its name as SQL, and the table itself as all that reading it reads.

        Raises:
            InternalError: DuckDB reads the SELECT as reading other tables.
            SourceError: it cannot be run.
        """
        digest = hashlib.sha256(select.encode()).hexdigest()[:32]
        parts = ("temp", "main", f"__dp_public_{digest}")
        if parts in self._public_rows:
            self._public_rows.move_to_end(parts)
            return full_name(parts), frozenset({parts})
        if not self.agrees(f"({select}) AS t", tables):
            raise InternalError("What was built reads other tables than it should.")
        try:
            self._run(f"CREATE TEMP TABLE {full_name(parts)} AS {select}")
        except duckdb.Error as error:
            raise SourceError(str(error).split("\n", 1)[0]) from None
        self._public_rows[parts] = None
        if len(self._public_rows) > _KEPT_PUBLIC_ROWS:
            self._run(f"DROP TABLE {full_name(self._public_rows.popitem(last=False)[0])}")
        return full_name(parts), frozenset({parts})

    def public_table(self, parts: Sequence[str]) -> Any:
        """A public table as arrow."""
        listed = ", ".join(
            f"CAST({quote(name)} AS VARCHAR) AS {quote(name)}" if kind in _AS_TEXT else quote(name)
            for name, kind in self.columns(f"SELECT * FROM {full_name(parts)}")
        )
        return self._connection.sql(f"SELECT {listed} FROM {full_name(parts)}").to_arrow_table()

    def agrees(self, source: str, tables: frozenset[tuple[str, ...]]) -> bool:
        """Whether DuckDB can bind a source, and reads it as reading exactly these base tables."""
        return reads_just(self._connection, source, tables)

    # --- releases ---

    def offer(self, plan: Plan, reserved: str | None) -> str:
        """A ticket for one release, and DuckDB's word that its SQL will bind; no row is read.

        Args:
            plan: what is to be released.
            reserved: the ledger's ticket, where there is a ledger.

        Raises:
            InternalError: it does not bind; the ticket is taken back.
        """
        ticket = self._desk.offer_once(plan, reserved)
        try:
            self._run(f"DESCRIBE {_released_sql(plan, ticket)}").fetchall()
        except Exception:
            self._desk.withdraw(ticket)
            raise InternalError("What was built for this query does not bind.") from None
        return ticket

    def release(self, plan: Plan, ticket: str) -> list[tuple[object, ...]]:
        """Release once; each value of a type that has no exact twin in Python comes as its text.

        Raises:
            QueryError: one sentence, whatever went wrong; what the release costs is spent.
        """
        rows = None
        with contextlib.suppress(Exception):  # of any kind: a rarer one would tell as much
            rows = self._run(_released_sql(plan, ticket)).fetchall()
        self._desk.withdraw(ticket)
        if rows is None:
            raise QueryError(FAILED)
        return rows

    def write_failed(self, plans: Sequence[Plan], told: int) -> None:
        """Replace the receipts after the first `told` by one for each plan, which says it failed.

        A question has one outcome: which of its releases were ready is not kept.
        """
        self._desk.write_failed(plans, self._number, told)

    def _run(self, sql: str, parameters: object = None) -> Connection:
        return self._connection.execute(sql, parameters)


def _released_sql(plan: Plan, ticket: str) -> str:
    """The release of a plan, with values that have an exact twin in Python or are texts."""
    listed = ", ".join(
        name if kind.startswith(("BIGINT", "STRUCT")) else f"CAST({name} AS {_text_of(kind)})"
        for name, kind in release_columns(plan)
    )
    return f"SELECT {listed} FROM ({private_sql(plan, ticket)})"


def _text_of(kind: str) -> str:
    return "VARCHAR[]" if kind.endswith("[]") else "VARCHAR"


def _nothing_to_rewrite(sql: str, engine: Engine) -> str:
    raise InternalError("The private side rewrites nothing.")
