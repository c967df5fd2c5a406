"""The private side of a session under a policy: read-only, and it runs only SQL that dp_sql builds.

No part of an analyst's text is ever part of what it runs.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from operator import is_
from typing import Any

import duckdb

from dp_sql.engines.duckdb.connection import SHORT, Engine, columns_of
from dp_sql.engines.duckdb.few_rows import answered, public_of, read_shortly, rows_sql
from dp_sql.engines.duckdb.frozen import Records, exactly
from dp_sql.engines.duckdb.install import number_of, register
from dp_sql.engines.duckdb.introspection import CATALOG_LOCK, DatabaseCatalog, TableNames
from dp_sql.engines.duckdb.opening import close, open_database, restrict
from dp_sql.engines.duckdb.release_sql import release_sql
from dp_sql.engines.duckdb.session_state import Recent
from dp_sql.engines.duckdb.source_errors import source_error
from dp_sql.engines.duckdb.spill import check_spill, limit_private
from dp_sql.engines.duckdb.sql_runner import Connection, parsed_once
from dp_sql.engines.protocol import DISABLED, DISABLED_FOR_FILES, disable
from dp_sql.errors import InternalError, QueryError
from dp_sql.policy.limits import Limits
from dp_sql.policy.owners_catalog import CatalogEntry, OwnersCatalog
from dp_sql.privacy.catalog import Columns, Parts, Schema, SchemaName, size_sql, view_body
from dp_sql.privacy.plans.plan import Plan
from dp_sql.privacy.private_sql.bundles import bundled
from dp_sql.privacy.private_sql.few_rows import PLAIN_ITEMS, FewRows
from dp_sql.privacy.private_sql.release_select import private_sql, release_columns
from dp_sql.sql.formatting import full_name, quote
from dp_sql.sql.tokens import folded, tokenize
from dp_sql.sql.types import for_arrow

# The only message for an error after the debit.
FAILED = "The answer could not be computed. Its cost is spent."

_MAX_PUBLIC_TABLES = 200  # more than one statement may need


class PrivateConnection(Schema):
    """The owner's database file as the compiler of analysts' statements sees it.

    described: what messages call it. identity: tells it from other databases, in stored releases.
    changed: what has changed if it is not `is_current`. planned: plans by the text of their
        statement, as long as the temporary tables that they read.
    """

    changed = "The owner's files have changed"

    def __init__(self, database: str, limits: Limits | None = None) -> None:
        self.described, self.identity = database, os.path.realpath(database)
        # A folder is an instance of its own in each session.
        one = f"{database}#{id(self)}" if os.path.isdir(database) else database
        self._begin(open_database(database, read_only=True), one, limits or Limits())
        with self._closed_on_failure():
            catalog = DatabaseCatalog(self._connection)
            self.catalog: OwnersCatalog = catalog
            self._listed = catalog.listed()
            self._pinned, self._files = catalog.pinned, catalog.pinned()

    def _begin(self, connection: Connection, one: str, limits: Limits) -> None:
        """Prepare a connection that has just been opened; `one` names its database instance."""
        self._connection, self._instance = connection, os.path.realpath(one)
        self._remove_spill: Callable[[], None] = lambda: None
        # Answers that do not change. Entries are by name, and is_view.
        self._known: Recent[str, list[tuple[str, str]]] = Recent()
        self._numbers: Recent[str, int] = Recent()
        self._entries: Recent[tuple[object, ...], CatalogEntry | None] = Recent()
        self._public_rows: OrderedDict[Parts, None] = OrderedDict()
        # Plans whose rows one short SELECT reads, and that SELECT, by the first of their tickets.
        self._few: dict[str, tuple[Sequence[Plan], FewRows]] = {}
        self.planned: Recent[str, list[Plan]] = Recent()
        with self._closed_on_failure():
            self._remove_spill = limit_private(one, limits, connection.execute)
            # Known before it is set: another session may use the same instance.
            has_files = any(one.files for one in DatabaseCatalog(self._connection).listed())
            self._disabled = DISABLED_FOR_FILES if has_files else DISABLED
            restrict(self._connection, disable(self._disabled))
            self.tickets = register(self._connection)
            self._engine = Engine(self._connection, self.tickets)
            self.number = self._engine.state.number = number_of(self._connection)
            self._engine.state.public_sets = Recent(20)  # no one can write to the database

    @contextlib.contextmanager
    def _closed_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise

    def here(self) -> SchemaName:
        """The database and schema of names that have neither."""
        sql = "SELECT system.main.current_database(), system.main.current_schema()"
        ((database, schema),) = self._run(sql).fetchall()
        return database, schema

    def pin(self, private: TableNames, public: TableNames) -> None:
        """Note the files of these tables; PolicyError as for PinnedFiles."""
        self._files = self._pinned(private, public)

    def is_current(self) -> bool:
        """Whether no file of a table was added, removed or replaced since the session opened."""
        return not self._files.have_changed()

    def interrupt(self) -> None:
        """Stop what is running."""
        self._engine.state.interrupts.add()
        self._connection.interrupt()

    def close(self) -> None:
        """Close the connection; what it has spilled is removed."""
        try:
            with CATALOG_LOCK:
                close(self._connection)
        finally:
            self._remove_spill()

    # --- what the compiler asks ---

    def table(self, parts: Sequence[str]) -> Parts | None:
        """The base table that a name means, by its full name."""
        found = self._named(parts, is_view=False)
        return None if found is None else found.parts

    def primary_key(self, parts: Parts) -> Sequence[str]:
        """The columns of a base table's primary key, which DuckDB enforces."""
        found = self._named(parts, is_view=False)
        return () if found is None else found.primary_key

    def view(self, parts: Sequence[str]) -> str | None:
        """The query of a view, from the SQL that created it."""
        found = self._named(parts, is_view=True)
        return None if found is None else view_body(found.definition)

    def _named(self, parts: Sequence[str], *, is_view: bool) -> CatalogEntry | None:
        asked = *parts, is_view
        if asked not in self._entries:
            self._entries[asked] = self._find(parts, is_view)
        return self._entries[asked]

    def _find(self, parts: Sequence[str], is_view: bool) -> CatalogEntry | None:
        wanted = [folded(part) for part in parts]
        known = [one for one in self._listed if one.is_view == is_view]
        found = [one for one in known if one.is_called(wanted)]
        if not found and len(wanted) == 2:  # database.table, as DuckDB reads it
            in_main = [wanted[0], "main", wanted[1]]
            found = [one for one in known if one.is_called(in_main)]
        return found[0] if len(found) == 1 else None

    def inside(self, view: Sequence[str]) -> PrivateConnection:
        """This connection: a name means the only relation that is called so, or nothing."""
        return self

    def columns(self, select: str) -> list[tuple[str, str]]:
        """Names and types of a SELECT's columns, bound and not run; they do not change."""
        if select not in self._known:
            try:
                self._known[select] = columns_of(self._bound(select))
            except duckdb.Error as error:
                raise source_error(error, offers=False) from None
        return self._known[select]

    def public_values(self, select: str) -> list[object]:
        """The first column of a SELECT over public data."""
        return [row[0] for row in self._over_public(select)]

    def _over_public(self, sql: str) -> list[tuple[Any, ...]]:
        try:
            return self._run(sql).fetchall()
        except duckdb.Error as error:
            raise source_error(error, offers=False) from None

    def public_number(self, select: str) -> int:
        """The number that a SELECT over public tables returns; they do not change."""
        if select not in self._numbers:
            (number,) = self.public_values(select)
            self._numbers[select] = int(str(number))
        return self._numbers[select]

    def public_size(self, items: str, kind: str, most: int | None = None) -> int:
        """How many items a SELECT over public tables lists; a short list is kept for releases."""
        is_new = kind in PLAIN_ITEMS and items not in self._engine.short_lists
        if is_new and self.public_number(size_sql(items, SHORT + 1)) <= SHORT:
            self.keep_list(items, kind, self.public_values(items))
        return self.public_number(size_sql(items, most))

    def keep_list(self, items: str, kind: str, values: Sequence[Any]) -> None:
        """Keep a short list of public items for releases."""
        self._engine.keep_list(items, kind, values)

    def public_rows(self, select: str, tables: frozenset[Parts]) -> tuple[str, frozenset[Parts]]:
        """A temporary table that holds the rows of a SELECT over just these public tables.

        Returns its name as SQL, and the table itself as all that reading it reads.
        """
        digest = hashlib.sha256(select.encode()).hexdigest()[:32]
        parts = ("temp", "main", f"__dp_public_{digest}")
        if parts not in self._public_rows:
            if not self.agrees(f"({select}) AS t", tables):
                raise InternalError("The generated SQL reads other tables than it should.")
            self._over_public(f"CREATE TEMP TABLE {full_name(parts)} AS {select}")
            self._public_rows[parts] = None
        self._public_rows.move_to_end(parts)
        if len(self._public_rows) > _MAX_PUBLIC_TABLES:
            self.planned.clear()
            self._run(f"DROP TABLE {full_name(self._public_rows.popitem(last=False)[0])}")
        return full_name(parts), frozenset({parts})

    def public_table(self, parts: Sequence[str]) -> Any:
        """A public table as arrow, with strings for values that arrow would change."""
        columns = self.columns(f"SELECT * FROM {full_name(parts)}")
        if any("VARIANT" in kind for _, kind in columns):
            with contextlib.suppress(duckdb.NotImplementedException, duckdb.InvalidInputException):
                return self._as_arrow(parts, columns, keeps_variants=True)
        return self._as_arrow(parts, columns)

    def _as_arrow(
        self, parts: Sequence[str], columns: Columns, *, keeps_variants: bool = False
    ) -> Any:
        listed = []
        for name, kind in columns:
            column, sent = quote(name), for_arrow(kind, keeps_variants=keeps_variants)
            listed.append(column if sent == kind else f"CAST({column} AS {sent}) AS {column}")
        select = f"SELECT {', '.join(listed)} FROM {full_name(parts)}"
        return self._bound(select).to_arrow_table()

    def agrees(self, source: str, tables: frozenset[Parts]) -> bool:
        """Whether DuckDB reads a source as reading exactly these base tables; `issue` binds it.

        DuckDB names no table that is made of files, so the names in the SQL are compared. A yes
        stays true, also with other numbers, which name no table; a no may come from an interrupt.
        """
        files = {one.parts for one in self._listed if one.files}
        scans = [full_name(parts) for parts in files & tables]

        def reads_only() -> bool:
            if files and not files & set(_full_names(source)) <= tables:
                return False
            return self._engine.reads_only(source, tables - files, scans)

        return self._engine.agrees_once(source, tables, reads_only)

    # --- releases ---

    def check(self, plans: Sequence[Plan]) -> None:
        """Refuse plans that cannot be released, before anything is spent."""
        check_spill(self._instance)
        # Another connection may have changed them for all.
        self._run_parsed(disable(self._disabled))

    def issue(self, plans: Sequence[Plan], reservations: Sequence[str | None]) -> list[str]:
        """A ticket for each release, once DuckDB has bound their SQL; no row is read."""
        drawn = [*map(self._as_drawn, plans)]
        tickets = [*map(self.tickets.issue_once, drawn, reservations)]
        self._few.clear()
        try:
            for _, some, theirs in bundled(plans, tickets):  # the tickets change no type
                few = read_shortly(some, self._engine)
                if few is not None:
                    parsed_once(rows_sql(few), self._connection, self._engine.state)
                    self.columns(rows_sql(few))
                    public_of(few, self._engine)
                    self._few[theirs[0]] = some, few
                    continue
                self.columns(exactly(release_columns(*some), private_sql(some, [""] * len(some))))
        except Exception:
            self._withdraw(tickets)
            raise InternalError("DuckDB cannot bind the SQL generated for this query.") from None
        return tickets

    def release(self, plans: Sequence[Plan], tickets: Sequence[str]) -> list[Records]:
        """Release all once: rows for each plan.

        Every failure of any of them is one constant sentence, and the cost of all is spent.
        """
        answers: list[Records] | None = None
        with contextlib.suppress(Exception):  # of any type: a rarer one would show as much
            answers = self._answers(plans, tickets)
        self._withdraw(tickets)
        if answers is None or not self.is_current():
            raise QueryError(FAILED)
        return answers

    def _answers(self, plans: Sequence[Plan], tickets: Sequence[str]) -> list[Records]:
        answers: list[Records] = [()] * len(plans)
        drawn = [*map(self.tickets.plan, tickets)]
        for places, some, theirs in bundled(drawn, tickets):
            bound, few = self._few.get(theirs[0], ([], None))
            is_bound = len(bound) == len(some) and all(map(is_, bound, some))
            rows = answered(some, theirs, self._engine, few=few if is_bound else None)
            if rows is None:
                with release_sql(some, theirs, self._engine) as (sql, values):
                    rows = self._run(exactly(release_columns(*some), sql), values).fetchall()
            n = len(places)
            for number, place in enumerate(places):
                answers[place] = [(*row[:-n], row[number - n]) for row in rows]
        self._check_optimizers()
        return answers

    def _check_optimizers(self) -> None:
        """Raise if the optimizers are no longer those that `check` has set.

        If another connection turned one on, a query may fail by its rows. So it always fails.
        """
        asked = "SELECT system.main.current_setting('disabled_optimizers')"
        ((now,),) = self._run_parsed(asked).fetchall()
        if {*now.split(",")} != {*self._disabled.split(",")}:
            raise InternalError("Other optimizers than those that were set.")

    def _as_drawn(self, plan: Plan) -> Plan:
        """The plan that a ticket stands for, which may depend on the sizes of private tables."""
        return self._engine.as_drawn(plan)

    def _withdraw(self, tickets: Sequence[str]) -> None:
        for ticket in tickets:
            self.tickets.withdraw(ticket)

    def _bound(self, select: str) -> duckdb.DuckDBPyRelation:
        """The relation of a SELECT: DuckDB has bound it, and runs it when it is read."""
        return self._connection.sql(self._engine.state.statements.get(select, select))

    def _run_parsed(self, sql: str) -> Connection:
        return self._connection.execute(parsed_once(sql, self._connection, self._engine.state))

    def _run(self, sql: str, parameters: Sequence[object] = ()) -> Connection:
        return self._engine.run_again(sql, parameters)


def _full_names(sql: str) -> Iterator[Parts]:
    """The names of three parts in SQL that dp_sql has built."""
    tokens = tokenize(sql)
    for start in range(len(tokens) - 4):
        if names := tokens[start : start + 5].names:
            yield names
