"""Releases whose rows an engine reads in parts. The engine answers questions; the driver draws.

For each plan the engine is asked for what the mechanism needs: a summary, or pairs. The answer
becomes a temporary table of the driver's own DuckDB connection, and the private SQL continues as if
it had computed that table itself: the same lists, the same UDF, one draw.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dp_sql.engines.protocol import Pairs, PartedEngine, PartedQuestion, PublicRows, exact_in_arrow
from dp_sql.errors import InternalError
from dp_sql.privacy.plans.plan import Plan, bounds_of
from dp_sql.privacy.plans.related_keys import crossed
from dp_sql.privacy.private_sql import parted_sql
from dp_sql.privacy.private_sql.group_ctes import groups_sql
from dp_sql.privacy.private_sql.release_select import merged_sql
from dp_sql.sql.formatting import full_name, quote
from dp_sql.sql.types import exact
from dp_sql.udfs.count_distinct import partial
from dp_sql.udfs.randomness import fair_bits

_KEY_BITS = 256
_ITEMS, _MERGED = "__dp_items_{}", "__dp_merged_{}"


class ByParts:
    """The driver's side of an engine: `connection` is its DuckDB, with all public tables.

    One release at a time. Every failure is an exception.
    """

    def __init__(self, engine: PartedEngine, connection: Any) -> None:
        self._engine, self._connection = engine, connection
        self._tables: list[str] = []  # made by the current release

    @contextlib.contextmanager
    def released(self, plans: Sequence[Plan], tickets: Sequence[str]) -> Iterator[list[str]]:
        """Yield the SELECT of each plan's release, to be run once.

        The plans come from `drawn_from`; the SELECTs have the columns of
        private_sql.release_columns.
        """
        if not plans[0].parameters.reads_people:
            raise InternalError("Only people's rows are read in parts.")
        key = f"{fair_bits(_KEY_BITS):0{_KEY_BITS // 4}x}"
        try:
            if plans[0].keys:
                self._make_groups(plans, tickets[0], key)
            yield [self._select(plans, place, tickets[place], key) for place in range(len(plans))]
        finally:
            while self._tables:
                # An aborted transaction drops nothing; ROLLBACK removes its tables.
                with contextlib.suppress(Exception):
                    self._run(f"DROP TABLE IF EXISTS temp.main.{self._tables.pop()}")

    def _select(self, plans: Sequence[Plan], place: int, ticket: str, key: str) -> str:
        """Ask for what one plan needs; return the SELECT that draws from it."""
        plan, merged = plans[place], _MERGED.format(place)
        shape = plan.parameters
        if "__dp_cover" in shape.takes:
            self._make_cover(merged, plans, place, key)
        elif not shape.keys and not shape.sums:
            self._make_pairs(merged, plan, parted_sql.pairs_sql(plans, place, key))
            if plan.mechanism.ordered:
                self._remake(merged, parted_sql.ordered_sql(plan, merged))
        else:
            asked = parted_sql.summary_sql(plans, place, key)
            self._make_rows(merged, plan, asked)
            if not shape.sums:  # each row as often as it was counted
                listed = ", ".join(asked.keys)
                self._remake(merged, f"SELECT {listed} FROM {merged}, system.main.range(n)")
        domain: str | None = None
        if plan.keys and plan.domain is not None and plan.domain.select is None:
            items = _ITEMS.format(place)
            self._make_rows(items, plan, parted_sql.all_items_sql(plans, place, key))
            domain = f"SELECT __dp_item AS item FROM {items}"
        return merged_sql(plan, ticket, merged, domain)

    # --- groups ---

    def _make_groups(self, plans: Sequence[Plan], ticket: str, key: str) -> None:
        """Make the table of groups: public ones, or those that a mechanism finds."""
        plan, groups = plans[0], plans[0].groups
        assert groups is not None  # a plan of people's rows with keys
        if groups.finding is None:
            select = groups.select
            if _reads_people(plan, select):
                select = crossed([self._observed(plan, i, f) for i, f in enumerate(groups.factors)])
            self._remake(parted_sql.GROUPS, groups_sql(plan, f"({select}) AS __dp_crossed"))
            return
        self._make_pairs(parted_sql.MEMBERS, plan, parted_sql.members_sql(plans, key))
        self._remake(parted_sql.GROUPS, parted_sql.found_groups_sql(plan, ticket))

    def _observed(self, plan: Plan, place: int, factor: str) -> str:
        """The values of a key, `factor`, without people's rows: the engine is asked for these."""
        if not _reads_people(plan, factor):
            return factor
        table = f"__dp_observed_{place}"
        asked = parted_sql.PartSql(factor, "SELECT DISTINCT item FROM __dp_parts", ("item",))
        self._make_rows(table, plan, asked)
        return f"SELECT item FROM {table}"

    # --- what an engine answers, as tables ---

    def _make_rows(self, table: str, plan: Plan, asked: parted_sql.PartSql) -> None:
        """Make a table of all rows of the answer."""
        question = self._question(plan, asked)
        self._make(table, question.columns, self._engine.rows(question))

    def _make_pairs(self, table: str, plan: Plan, asked: parted_sql.PartSql) -> None:
        """Make a table of all pairs, in which people are codes."""
        shown, types = asked.keys, self._typed(asked.part_sql)
        pairs = self._engine.complete(self._question(plan, asked, shown=shown), None, None)
        codes = pa.table({"item": pairs.items, "person": pairs.people})
        self._make(f"{table}_codes", [("item", "BIGINT"), ("person", "BIGINT")], codes)
        named = [("item", "BIGINT"), *((name, types[name]) for name in shown)]
        self._make(f"{table}_shown", named, pairs.shown)
        listed = ", ".join(f"s.{name} AS {name}" for name in shown)
        self._remake(
            table,
            f"SELECT {listed}, c.person AS __dp_privacy_unit FROM {table}_codes AS c "
            f"JOIN {table}_shown AS s ON c.item = s.item",
        )

    def _make_cover(self, table: str, plans: Sequence[Plan], place: int, key: str) -> None:
        """Count the covered items of each group under each bound, from part of the pairs."""
        plan, bounds = plans[place], bounds_of(plans[place])
        grouped = ("__dp_group",) if plan.keys else ()
        question = self._question(plan, parted_sql.pairs_sql(plans, place, key), shown=grouped)
        first = self._engine.thin(question, partial.PEOPLE_PER_ITEM)
        shown = first.shown.sort_by("item") if grouped else first.shown

        def complete(items: Any, people: Any) -> list[Pairs]:
            return [self._engine.complete(question, items, people)]

        def of_items(items: Any) -> Any:
            places = np.searchsorted(shown.column("item").to_numpy(), items)
            return shown.column("__dp_group").to_numpy()[places] - 1

        groups = None
        if grouped:
            counted = self._run(f"SELECT system.main.count(*) FROM {parted_sql.GROUPS}").fetchall()
            groups = partial.Groups(counted[0][0], of_items)
        of_bounds = partial.partial_cover_counts(
            lambda _: [first], complete, bounds, first.n_people, groups=groups
        )
        counts = of_bounds.counts.reshape(-1, len(bounds))
        numbers = np.indices(counts.shape).reshape(2, -1)
        names = ("__dp_group", "place", "n")
        columns = (numbers[0] + 1, numbers[1], counts.ravel())
        rows = pa.table(dict(zip(names, columns, strict=True)))
        self._make(table, [(name, "BIGINT") for name in names], rows)

    def _question(
        self, plan: Plan, asked: parted_sql.PartSql, shown: Sequence[str] = ()
    ) -> PartedQuestion:
        types = self._typed(asked.part_sql)
        columns = [*((name, types[name]) for name in asked.keys), *asked.sums]
        names = map(full_name, plan.public_tables)
        public = {name: self._public(f"SELECT * FROM {name}") for name in names}
        if parted_sql.GROUPS in asked.part_sql:
            public[_temporary(parted_sql.GROUPS)] = self._public(
                f"SELECT * FROM {parted_sql.GROUPS}"
            )
        if parted_sql.DOMAIN in asked.merge_sql and plan.domain is not None:
            public[_temporary(parted_sql.DOMAIN)] = self._public(str(plan.domain.select))
        return PartedQuestion(
            part_sql=asked.part_sql, keys=asked.keys, merge_sql=asked.merge_sql, columns=columns,
            tables=plan.people, public=public, shown=tuple(shown),
        )  # fmt: skip

    # --- the driver's connection ---

    def _typed(self, select: str) -> dict[str, str]:
        """Types of a SELECT's columns; private tables are empty here."""
        described = self._run(f"DESCRIBE {select}").fetchall()
        return {name: kind for name, kind, *_ in described}

    def _public(self, select: str) -> PublicRows:
        columns = [*self._typed(select).items()]
        listed = ", ".join(exact_in_arrow(quote(name), name, kind) for name, kind in columns)
        rows = self._connection.sql(f"SELECT {listed} FROM ({select}) AS t").to_arrow_table()
        return PublicRows(columns, rows)

    def _make(self, table: str, columns: Sequence[tuple[str, str]], rows: Any) -> None:
        """Make a temporary table of an engine's answer, with exact types and binary collation."""
        listed = ", ".join(
            f"{exact(f'CAST({quote(n)} AS {kind})', kind)} AS {quote(n)}" for n, kind in columns
        )
        self._connection.register("__dp_answer", rows)
        try:
            self._remake(table, f"SELECT {listed} FROM __dp_answer")
        finally:
            with contextlib.suppress(Exception):  # as above
                self._connection.unregister("__dp_answer")

    def _remake(self, table: str, select: str) -> None:
        if table not in self._tables:
            self._tables.append(table)
        self._run(f"CREATE OR REPLACE TEMP TABLE {table} AS {select}")

    def _run(self, sql: str) -> Any:
        return self._connection.execute(sql)


def _reads_people(plan: Plan, select: str) -> bool:
    """Whether some SQL of a plan names a table of people's rows."""
    return any(full_name(one.table) in select for one in plan.people)


def _temporary(name: str) -> str:
    """The full name of a temporary table; a bare name finds it before all others."""
    return full_name(("temp", "main", name))
