"""A DuckDB connection: says what names mean, and makes releases. Decides nothing."""

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import repeat
from typing import Any, TypeVar

import duckdb

from dp_sql.engines.duckdb import row_estimate
from dp_sql.engines.duckdb.arrow_rows import LONG
from dp_sql.engines.duckdb.asked_together import Together
from dp_sql.engines.duckdb.called_functions import functions_in, operators_in, without_numbers
from dp_sql.engines.duckdb.few_rows import answered, as_json
from dp_sql.engines.duckdb.frozen import FrozenAnswers
from dp_sql.engines.duckdb.function_kinds import builtin_kinds, called_kinds, function_kinds
from dp_sql.engines.duckdb.relation_names import Names
from dp_sql.engines.duckdb.release_sql import release_sql
from dp_sql.engines.duckdb.source_errors import source_error
from dp_sql.engines.duckdb.sql_runner import SqlRunner, local_names, parsed_once
from dp_sql.errors import DpSqlError, InternalError, NotPrivate, NotSupported, SourceError
from dp_sql.privacy.catalog import NamedRelation, Parts, SchemaName, size_sql
from dp_sql.privacy.expressions.collations import without_collations
from dp_sql.privacy.plans.plan import Plan, Released, drawn_from
from dp_sql.privacy.private_sql.bundles import bundled
from dp_sql.privacy.private_sql.few_rows import PLAIN_ITEMS
from dp_sql.privacy.private_sql.release_select import each_of, private_sql, release_columns
from dp_sql.sql.formatting import full_name, quote
from dp_sql.sql.tokens import edited, tokenize

T = TypeVar("T")
# What functions may be: the names that were asked for, their kinds, and those that users replace.
_Kinds = tuple[frozenset[str] | None, Mapping[str, frozenset[str]], frozenset[str]]
_NOT_ASKED: _Kinds = (None, {}, frozenset())
_BY_STATISTICS = "statistics_propagation"  # the optimizer that chooses by a column's values
SHORT = 1 << 10  # items of a list that is kept
_INTERRUPTED = "The query was interrupted."
_CTRL_C, _IN_UDF = "Query interrupted", "executing the UDF: KeyboardInterrupt"  # as DuckDB says it


class Engine(SqlRunner):
    """Also says what names mean, and makes releases."""

    _called: frozenset[str] = frozenset()  # functions of the statement that is being planned
    _kinds = _NOT_ASKED

    @cached_property
    def _names(self) -> Names:
        return Names(self.connection, self.state)

    @cached_property
    def _meanings(self) -> Together[Parts, str]:
        return Together(partial(called_kinds, connection=self.connection), self.state.called)

    # --- what the compiler asks (dp_sql.privacy.catalog.OwnersEngine) ---

    @contextlib.contextmanager
    def looked_up(self, names: Collection[str], called: Collection[str]) -> Iterator[None]:
        """Remember, while one statement is planned, what its names mean.

        names: of relations, which DuckDB is asked for at once. called: of functions, which it is
        asked for together when the first of them is needed. Within itself this does nothing.
        """
        if self._called:
            yield
            return
        self._called = frozenset(called)
        kind = frozenset(names), self._called
        try:
            with self._names.looked_up(kind, names), self._meanings.during(kind):
                yield
        finally:
            self._called, self._kinds = frozenset(), _NOT_ASKED

    def relation(self, parts: Parts, within: SchemaName | None = None) -> NamedRelation | None:
        """The relation that a name means on the search path, or in a view of a schema."""
        found = self._names.relation(parts, within)
        return self._variable(parts[0]) if found is None and len(parts) == 1 else found

    def _variable(self, name: str) -> NamedRelation | None:
        """A DuckDB relation in a variable of the caller: a query that was not checked."""
        frame = self._frame
        while frame is not None:  # a setting makes DuckDB look further out than one frame
            value = frame.f_globals.get(name)
            if name in local_names(frame):
                value = frame.f_locals.get(name, value)
            if isinstance(value, duckdb.DuckDBPyRelation):
                return NamedRelation((), "")
            frame = frame.f_back
        return None

    def function_kinds(self, names: frozenset[str]) -> Mapping[str, frozenset[str]]:
        """What each name may be as a function; also all users' functions that replace DuckDB's."""
        asked, kinds, replaced = self._kinds
        if asked is None or not names <= asked:
            asked = names | self._called
            kinds, replaced = function_kinds(asked, self._fetch)
            if self._called:
                self._kinds = asked, kinds, replaced
        wanted = names | replaced
        return {name: kind for name, kind in kinds.items() if name in wanted}

    def builtin_kinds(self, names: frozenset[str]) -> Mapping[str, frozenset[str]]:
        """What each name is among DuckDB's own functions."""
        return builtin_kinds(names, self._fetch)

    def functions_in(self, query: str) -> frozenset[str] | None:
        """The functions that DuckDB looks up for a SELECT; None where that is not known."""
        numbers = [one for one in tokenize(query) if one.kind == "number" and one.text.isdigit()]
        asked = edited(query, [(one.start, one.end, "0") for one in numbers])  # which are no calls
        known = self.state.functions
        found = known.get(asked)
        if found is None and (found := functions_in(query, self.connection)) is not None:
            known[asked] = found
        return found

    def are_own_scalars(self, names: frozenset[str]) -> bool:
        """Whether each name means a pure function of DuckDB's own, which no macro replaces."""
        kinds = self.builtin_kinds(names)
        own = all(kinds.get(name) == frozenset({"scalar"}) for name in names)
        return own and self.are_no_macros(names)

    def are_no_macros(self, names: frozenset[str], within: SchemaName | None = None) -> bool:
        """Whether each name is a scalar function or an aggregate, also in views of `within`."""
        here = {*self._meanings.answers([(name,) for name in names])}
        there = {*self._meanings.answers([(*within, name) for name in names])} if within else here
        return here <= {"scalar", "aggregate"} and "macro" not in there

    def columns(self, select: str) -> list[tuple[str, str]]:
        """Names and types of the columns of a SELECT, bound and not run."""
        if self._called and select in self._names.columns:  # while one statement is planned
            return self._names.columns[select]
        try:
            return columns_of(self.relate(select))
        except duckdb.Error as error:
            raise source_error(error) from None

    def compares(self, relation: str, condition: str) -> bool:
        """Whether DuckDB can bind a condition over the columns of a relation."""
        return self._names.compares(relation, condition, self.relate)

    def public_values(self, select: str) -> list[object]:
        """The first column of a SELECT over public data."""
        try:
            statement = parsed_once(select, self.connection, self.state)
            return [row[0] for row in self.run(statement).fetchall()]
        except duckdb.Error as error:
            raise source_error(error) from None

    def public_size(self, items: str, kind: str, most: int | None = None) -> int:
        """How many items a SELECT lists; a short list is kept for the release."""
        self.short_lists.pop(items, None)  # of an earlier statement
        values = self._few_values(items) if kind in PLAIN_ITEMS else []
        if values and len(values) <= SHORT:
            self.keep_list(items, kind, values)
            return len(values)
        (number,) = self.public_values(size_sql(items, most))
        return int(str(number))

    def _few_values(self, items: str) -> list[object]:
        """The values that a SELECT lists, once each; if they are many, only some."""
        listed = items.removeprefix("SELECT DISTINCT ")
        if listed != items:  # of few rows, Python finds them sooner
            values = self.public_values(f"SELECT {listed} LIMIT {SHORT + 1}")
            if len(values) <= SHORT:
                return [*dict.fromkeys(values)]
        return self.public_values(f"{items} LIMIT {SHORT + 1}")

    def keep_list(self, items: str, kind: str, values: Sequence[Any]) -> None:
        """Keep a short list of plain items for releases, unless rows have a hash of one."""
        strings = (x for x in values if isinstance(x, str)) if kind == "VARCHAR" else ()
        long = any(len(x.encode()) >= LONG or "\0" in x for x in strings)
        if kind in PLAIN_ITEMS and len(values) <= SHORT and not long:
            self.short_lists[items] = [*values]

    def parameter_names(self, sql: str) -> frozenset[str]:
        """The parameters that DuckDB's parser finds in one statement; raises its errors."""
        return frozenset(self.connection.extract_statements(sql)[0].named_parameters)

    def agrees(
        self, source: str, tables: Collection[Parts], functions: Collection[str] = ()
    ) -> bool:
        """Whether DuckDB can bind a source, and reads it as reading exactly these base tables.

        A yes stays true while the tables have the same columns.
        """

        def reads_only() -> bool:
            try:
                self.relate(f"SELECT * FROM {source}")  # binds it
            except duckdb.Error:
                return False
            return self.reads_only(source, tables, functions)

        columns = [self._names.columns.get(f"SELECT * FROM {full_name(t)}") for t in sorted(tables)]
        if functions or None in columns:
            return reads_only()
        return self.agrees_once(source, repr(columns), reads_only)

    def agrees_once(self, source: str, facts: object, ask: Callable[[], bool]) -> bool:
        """What `ask` says of a source; a yes stays true with other numbers while `facts` hold."""
        asked, known = (without_numbers(source), facts), self.state.agreed
        agrees = asked in known or ask()
        if agrees:
            known[asked] = None
        return agrees

    def reads_only(
        self, source: str, tables: Collection[Parts], functions: Collection[str]
    ) -> bool:
        """Whether DuckDB reads a source that it can bind as reading exactly these base tables."""
        # Extracting names binds no types, without which DuckDB refuses a collation.
        bare = without_collations(f"SELECT * FROM {source}")
        for function in functions:  # nor does it read a list that is an argument
            bare = bare.replace(function, "(SELECT 1)")
        named = partial(self.connection.get_table_names, qualified=True)
        meant = (named(f"SELECT * FROM {full_name(parts)}") for parts in tables)
        return named(bare) == set().union(*meant)

    def check_operators(self, names: tuple[str, ...]) -> None:
        """Raise NotPrivate if one of these operators, of `operators_in`, is a macro.

        DuckDB looks up operators as functions, so a macro may be named "-".
        """
        kinds = self._meanings.answers([(name,) for name in names])
        for name, kind in zip(names, kinds, strict=True):
            if kind != "scalar":
                raise NotPrivate(
                    f"This database has a macro {quote(name)}, which dp_sql's own SQL would call.",
                    hint=f"Rename or drop it: DROP MACRO {quote(name)}.",
                )

    def _fetch(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql, parameters).fetchall()

    # --- releases ---

    def release(
        self, plans: Sequence[Plan], tickets: Sequence[str], frozen: FrozenAnswers
    ) -> list[Released]:
        """Run the private SQL of a bundle of plans once and freeze its answers.

        Raises what a mechanism refused, or a SourceError.
        """
        releases, drawn = [Released("")] * len(plans), [*map(self.tickets.plan, tickets)]

        def run() -> None:
            for places, some, theirs in bundled(drawn, tickets):
                columns = release_columns(*some)
                rows = answered(some, theirs, self)
                if rows is not None:
                    relation = frozen.add(columns, rows)
                else:
                    with release_sql(some, theirs, self) as (sql, values):
                        groups = some[0].groups
                        n_rows = groups.size if groups is not None else None if some[0].keys else 1
                        relation = frozen.insert(columns, sql, self.run_again, n_rows, values)
                for place, released in zip(places, each_of(some, relation), strict=True):
                    releases[place] = released

        self._redeem(plans[0], tickets, run)
        return releases

    def issue(
        self,
        plans: Sequence[Plan],
        reservations: Sequence[str | None],
        runs: Sequence[int] | None = None,
    ) -> list[str]:
        """A ticket for each release; `runs`: how many runs of each mechanism are paid for."""
        drawn = map(self.as_drawn, plans)
        return [*map(self.tickets.issue_once, drawn, reservations, runs or repeat(None))]

    def as_drawn(self, plan: Plan) -> Plan:
        """The plan that a ticket stands for: from counts of covered items if it reads much."""
        of_cover = drawn_from(plan)
        if of_cover is plan or plan.keys or not row_estimate.is_large(plan, self):
            return plan
        return of_cover

    def release_as_json(self, plan: Plan, ticket: str, execution: tuple[int, int]) -> str:
        """Run the private SQL of a plan without groups once; its value in a JSON list.

        Items are strings in it. The release belongs to an execution of another connection. Raises
        what the mechanism refused, or a SourceError.
        """
        shape, drawn = plan.parameters, self.tickets.plan(ticket)
        kind = shape.in_macro()[shape.detailed]
        written = f"system.main.list_value(CAST(__dp_value AS {kind}))"
        select = f"SELECT CAST(system.main.to_json({written}) AS VARCHAR) FROM"

        def run() -> str:
            rows = answered([drawn], [ticket], self, execution)
            if rows is not None:
                ((value,),) = rows
                return as_json(value, kind)
            with release_sql([drawn], [ticket], self, execution) as (sql, values):
                return str(self.run(f"{select} ({sql})", values or None).fetchall()[0][0])

        return self._redeem(plan, [ticket], run)

    def _redeem(self, plan: Plan, tickets: Sequence[str], run: Callable[[], T]) -> T:
        """Run what redeems the tickets of a plan and others on its source, and forget them."""
        refusal: DpSqlError
        try:
            self._read_alike()
            return run()
        except duckdb.Error as error:
            # DuckDB's message may contain a value (a failed cast shows it); its type does not.
            errors = filter(None, map(self.tickets.error_of, tickets))
            refusal = next(errors, None) or SourceError(
                f"DuckDB could not compute the source ({type(error).__name__}).",
                hint="To see why, run its expressions in a plain SELECT … FROM " + plan.written,
            )
            in_udf = isinstance(error, duckdb.InvalidInputException) and _IN_UDF in str(error)
            if in_udf or isinstance(error, duckdb.InterruptException):
                refusal = SourceError(_INTERRUPTED)
        except DpSqlError:
            raise
        except Exception as error:  # of any type: it may contain a value, too
            refusal = SourceError(f"The source cannot be counted ({type(error).__name__}).")
            if isinstance(error, RuntimeError) and str(error) == _CTRL_C:
                refusal = SourceError(_INTERRUPTED)
        finally:
            for ticket in tickets:
                self.tickets.withdraw(ticket)
        raise refusal  # outside the handler, so that DuckDB's error is not its context

    def _read_alike(self) -> None:
        """Let DuckDB 1 compute a row's value in one way, whatever the other rows are.

        Where all strings of a column are ASCII it has another substr, which differs: one person's
        'ü' changed substr('a', -2, 1) of others. An analyst's connection has this setting from its
        beginning. It holds for the whole instance, so it stays: another release may be running.
        """
        if not duckdb.__version__.startswith("1."):
            return
        ((off,),) = self._fetch("SELECT system.main.current_setting('disabled_optimizers')")
        if _BY_STATISTICS not in off.split(","):
            listed = ",".join(filter(None, (off, _BY_STATISTICS)))
            try:
                self.connection.execute(f"SET disabled_optimizers = '{listed}'")
            except duckdb.InvalidInputException:
                message = f"The database's settings are locked, with {_BY_STATISTICS} on."
                hint = f"Before you lock them, run SET disabled_optimizers = '{listed}'."
                raise NotSupported(message, hint=hint) from None


def operators_of(plans: Sequence[Plan]) -> tuple[str, ...]:
    """The operators in the SQL of these plans, for check_operators."""
    every = bundled(plans, [""] * len(plans))
    return operators_in(" ".join(private_sql(some, none, again=True) for _, some, none in every))


def columns_of(relation: duckdb.DuckDBPyRelation | None) -> list[tuple[str, str]]:
    """Names and types of the columns of a SELECT's relation, as DESCRIBE shows them."""
    if relation is None:
        raise InternalError("A SELECT without columns.")
    return [(name, str(kind)) for name, kind in zip(relation.columns, relation.types, strict=True)]
