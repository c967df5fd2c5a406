"""Under a policy: from a DP call to a Plan, or a refusal.

Sources are compiled as for an owner, and what one query may ask is limited. Items and groups are
the public values that the statement names, by a public column or a list, or else those that the
policy declares; another private column is never one. Reads no private row, except the values of
columns that the policy calls `"observed"`: these are public, as the owner declared.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction

from dp_sql.errors import ArgumentError, InternalError, NotPrivate, QueryError, SourceError, guessed
from dp_sql.policy.model import Policy
from dp_sql.privacy.catalog import Parts, Schema
from dp_sql.privacy.expressions.value import Value
from dp_sql.privacy.plans.domains import (
    Domain,
    OwnValues,
    Values,
    Wanted,
    column_values,
    items_sql,
    label_values,
    list_values,
)
from dp_sql.privacy.plans.groups import PublicSets
from dp_sql.privacy.plans.missing import refuse_missing, refuse_no_epsilon
from dp_sql.privacy.plans.plan import Groups, Plan
from dp_sql.privacy.plans.related_keys import Related, alike
from dp_sql.privacy.plans.scores import policy_scores_plan
from dp_sql.privacy.plans.sources import CallRows, compiled_source
from dp_sql.privacy.relations.base_tables import as_noted
from dp_sql.privacy.relations.policy_tables import PolicyTables
from dp_sql.privacy.relations.source_compiler import Compiler
from dp_sql.privacy.relations.tree import Table
from dp_sql.sql.arguments import DpCall
from dp_sql.sql.dp_select import DpSelect
from dp_sql.sql.formatting import full_name, literal, shown_name
from dp_sql.sql.given import Reference
from dp_sql.sql.ranges import MAX_GROUPS
from dp_sql.sql.tokens import folded
from dp_sql.sql.types import ZONED, can_be, family
from dp_sql.udfs.mechanism import in_words

_UNREADABLE = "The policy's domain of this item cannot be read."


def analyst_plans(
    select: DpSelect, policy: Policy, schema: Schema, now: Callable[[], datetime]
) -> list[Plan]:
    """The plans of the calls of one SELECT.

    now: what now() and current_date mean in the statement.

    Raises NotPrivate where the source is not provably person-level, ParseError, or ArgumentError
    where a domain is missing or unreadable, or a limit of the policy is exceeded.
    """
    if not all(call.parameters.reads_people for call in select.calls):
        for call in select.calls:
            refuse_no_epsilon(select, call, policy)
            _limited(call, policy)
        return [policy_scores_plan(select, call, policy, schema) for call in select.calls]
    compiler = Compiler(PolicyTables(schema, policy, now=now), policy.limits.work)
    source = as_noted(lambda: compiled_source(select, compiler), compiler.tables)
    if source.person_type is None:
        message = "This source is public: it contains no private rows."
        hint = "Ask it without DP functions, at no cost."
        raise select.refused(message, select.source[0], hint, NotPrivate)
    reads = [source.read_by(call) for call in [_limited(call, policy) for call in select.calls]]
    sources, shares = source.shared(reads)
    if not all(schema.agrees(one.sql, one.tables) for one in sources):
        raise InternalError("The compiled SQL reads other tables than it should.")
    single = {
        (schema.table(table.name), column)
        for table in policy.tables.values()
        for column in table.unique_per_person
    }
    sets = _PolicySets(
        source=source, schema=schema, policy=policy,
        is_single=all(
            key.origin in single or (key.has_facts and key.is_of_one) for key in source.values
        ),
        accountant=None if policy.budget is None else policy.budget.accountant,
        max_groups=MAX_GROUPS,
    )  # fmt: skip
    return sets.plans(reads, shares, len(sources))


def _limited(call: DpCall, policy: Policy) -> DpCall:
    """A call whose numbers keep to the policy's limits, or a refusal."""
    limits, asked = policy.limits, call.parameters.limited_by_policy
    if asked["delta"] is not None and limits.max_delta_per_query is None:
        message = "The policy allows no delta: choose a mechanism that needs none."
        given = call.given["delta"]
        raise given.refuse(message, instead=[given.omitted()])
    for name, limit in (
        ("epsilon", limits.max_epsilon_per_query),
        ("delta", limits.max_delta_per_query),
        ("k", limits.max_k),
        ("max_contributions", limits.max_contributions),
    ):
        value = None if name in call.missing else asked.get(name)
        if value is not None and limit is not None and value > limit:
            most = in_words(Fraction(limit))
            written = name if name in call.given else "contribution_bound"
            message = f"{written} is more than the policy allows: at most {most}."
            raise call.given[written].refuse(message, instead=[call.given[written].put(most)])
    return replace(call, parameters=call.parameters.with_policy_limit(limits.max_contributions))


@dataclass(frozen=True, kw_only=True)
class _PolicySets(PublicSets):
    """The public values of the columns of a source, as the statement or the policy says."""

    policy: Policy

    def refuse_missing(self, call: DpCall, item: Value, needs_cap: bool) -> None:
        refuse_missing(self.source, call, item, self.policy, self.declared, needs_cap)

    def assumed(self, rows: CallRows, groups: Groups | None, domain: Domain | None) -> list[str]:
        return ["what the policy declares"]

    def declared(self, item: Value) -> object:
        """What the policy declares as the domain of a column; None where it declares none.

        Of what is computed from one column, the domain is computed from that column's values. Where
        none is, it may be known what an expression can be at all.
        """
        domains = self.policy.domains.items()
        of = (d for (table, own), d in domains if item.origin == (self.schema.table(table), own))
        if (found := next(of, None)) is not None:
            return found
        own = OwnValues(item.own_values) if item.own_values else None
        if item.image is None or item.type == "BOOLEAN":
            return own
        declared = self.declared(item.image[0])
        known = declared == "observed" or isinstance(declared, tuple)
        known = known and self._suits_days(item.image)
        return declared if known or declared == "enum" else own

    def related(self, keys: Sequence[Value]) -> list[Related]:
        """Also keys of one column whose values the policy declares, and of one VALUES."""
        declared = [self.declared(key) for key in keys]
        if "observed" in declared:  # an engine may hold these rows elsewhere
            return []
        known = {
            key.sql
            for key, of in zip(keys, declared, strict=True)
            if isinstance(of, tuple | str) and not isinstance(of, OwnValues)
        }
        found = [
            one
            for places in alike(keys, lambda key: key.sql in known and _read(key)[0].sql)
            if (one := self._of_one_column(keys, places)) is not None
        ]
        found += self._written_together(keys)
        own = [key._replace(day_part=()) if key.sql in known else key for key in keys]
        return found + super().related(own)

    def _written_together(self, keys: Sequence[Value]) -> list[Related]:
        """The combinations in the rows of each VALUES of FROM that has several of the keys."""
        columns = {
            part.value(i).sql: (part.number, part.rows.relation.function, value.sql)
            for part in self.source.rows.parts
            if isinstance(part.rows.relation, Table) and part.rows.relation.is_written
            for i, value in enumerate(part.rows.values)
        }
        found = []
        for places in alike(keys, lambda key: columns.get(key.sql, ())[:2]):
            own = [columns[keys[place].sql] for place in places]
            listed = ", ".join(f"{column} AS c{i}" for i, (_, _, column) in enumerate(own))
            found.append(Related(places, f"SELECT {listed} FROM {own[0][1]}"))
        return found

    def _of_one_column(self, keys: Sequence[Value], places: Sequence[int]) -> Related | None:
        """The combinations that the declared values of a column have."""
        read, computed = _read(keys[places[0]])[0], [_read(keys[place])[1] for place in places]
        both = f"system.main.row({', '.join(computed)})"
        if "item" not in computed and not self._suits_days((read, both)):
            return None
        columns = ", ".join(f"{sql} AS c{i}" for i, sql in enumerate(computed))
        return Related(places, f"SELECT {columns} FROM ({self._with_null(read)}) AS listed")

    def unwritten(self, wanted: Wanted, *, observed: bool) -> Domain:
        item, what = wanted.item, wanted.what
        if observed and (self.declared(item) != "observed" or _read(item)[0].origin is None):
            why = f"Under a policy {what} := observed is allowed only if the policy declares it."
            hint = f"Write {what} := catalog.title (a public table's column) or {what} := "
            raise _or_declared(wanted.refused(why, f"{hint}['a', 'b']."), wanted)
        return wanted.domain(self._declared_values(item))

    def checked(self, wanted: Wanted, values: Values) -> Domain:
        """Values of the statement, if they suit the column and what the policy declares."""
        item = wanted.item

        def as_strings(kind: str) -> str:
            if can_be(kind, "VARCHAR") and not can_be(item.type, "VARCHAR"):
                return f"Or ask for CAST({wanted.call.item.text} AS VARCHAR)."
            return ""

        is_declared = self.declared(item) is not None
        try:
            stated = wanted.domain(values, as_strings)
            # Of an expression of a column, other values are answered too: coalesce(region, 'none').
            if is_declared and item.image is None:
                _check_overlap(wanted, stated, self._declared_values(item))
        except QueryError as refusal:
            raise (_or_declared(refusal, wanted) if is_declared else refusal) from None
        return stated

    def named(self, wanted: Wanted, given: Reference) -> Values:
        """The values of a domain written by name: a public column, or the item's own ENUM."""
        (*table, column), item = given.parts, wanted.item
        schema, policy = self.schema, self.policy
        # Where its labels are not public, the item was compiled as a string.
        if not table and family(item.type) == "ENUM" and folded(given.text) == item.origin_name:
            return label_values(item.type, str(item.origin_name))
        full = schema.table(table) if table else None
        if full is None or full not in {schema.table(name) for name in policy.public}:
            hint = f"SHOW TABLES lists what is public. Or list values: {wanted.what} := ['a', 'b']."
            others = _same_columns(Reference((column,), column, 0), policy, schema)
            others += _same_columns(wanted.call.item, policy, schema)
            why = f"{given.text} is not a column of a public table."
            raise _or_declared(wanted.refused(why, hint, others), wanted)
        try:
            return _column(full, column, schema)
        except ArgumentError as error:
            names = [shown_name(n) for n, _ in schema.columns(f"SELECT * FROM {full_name(full)}")]
            others = [f"{given.text.rpartition('.')[0]}.{name}" for name in names]
            hint = f"Its columns are {', '.join(names)}."
            raise wanted.refused(error.message, hint, others) from None

    def _declared_values(self, item: Value) -> Values:
        """The values that the policy declares, or those that are computed from them."""
        declared, schema = self.declared(item), self.schema
        if isinstance(declared, OwnValues) and declared.literals == item.own_values:
            return declared.values()
        if item.image is not None:
            read, sql = item.image
            listed = f"SELECT {sql} AS value FROM ({self._with_null(read)}) AS listed"
            return Values(listed, f"computed from {self._declared_values(read).described}")
        match declared:
            case "observed" if item.origin is not None:
                # The owner calls the values of the whole column public, not those that WHERE keeps.
                return _column(*item.origin, schema)
            case "enum":
                return label_values(item.type, str(item.origin_name))
            case (tuple() as name, column):
                return _column(schema.table(name), str(column), schema)
            case tuple() if all(isinstance(value, str | int | Fraction) for value in declared):
                return list_values([literal(value) for value in declared], "the policy's list")
        raise ArgumentError(_UNREADABLE)

    def _with_null(self, read: Value) -> str:
        """SQL of the declared values of a column, and of NULL: coalesce(region, 'none')."""
        items = items_sql(self._declared_values(read), read.type)
        return f"{items} UNION ALL SELECT CAST(NULL AS {read.type})"

    def _suits_days(self, image: tuple[Value, str]) -> bool:
        """Whether an expression has no other values at noon than it has at midnight.

        Asked where the policy declares days for a column of times: hour(seen) is 0 on all of them.
        """
        read, sql = image
        if read.type not in {"TIMESTAMP", ZONED}:
            return True
        listed = items_sql(self._declared_values(read), read.type)
        at_noon = f"SELECT item + CAST('12:34:56.789' AS INTERVAL) AS item FROM ({listed}) AS days"
        others = (
            f"SELECT {sql} AS value FROM ({at_noon}) AS noons "
            f"EXCEPT SELECT {sql} AS value FROM ({listed}) AS days"
        )
        times = (
            f"SELECT 1 FROM ({listed}) AS days WHERE item <> system.main.date_trunc('day', item)"
        )
        try:
            return not self.schema.public_number(
                f"SELECT CASE WHEN EXISTS ({times}) THEN 0 ELSE system.main.count(*) END "
                f"FROM ({others}) AS others"
            )
        except SourceError:
            raise ArgumentError(_UNREADABLE) from None


def _or_declared(refusal: QueryError, wanted: Wanted) -> QueryError:
    """The refusal of a stated domain or groups; without it, the policy's declared values hold."""
    if given := wanted.call.given.get(wanted.what):
        refusal.instead = (*refusal.instead, given.omitted())
    return refusal


def _check_overlap(wanted: Wanted, stated: Domain, declared: Values) -> None:
    """Refuse a domain that shares no value with the declared one: the answer would be noise."""
    try:
        common = wanted.schema.public_number(
            f"SELECT system.main.count(*) FROM (SELECT 1 FROM ({stated.select}) AS stated "
            f"JOIN ({items_sql(declared, wanted.item.type)}) AS declared "
            "ON stated.item = declared.item LIMIT 1) AS common"
        )
    except SourceError:
        raise ArgumentError(_UNREADABLE) from None
    if not common:
        why = f"is in the domain that the policy declares for {wanted.call.item.text}"
        message = f"No value of {wanted.given.text} {why}: the answer would be only noise."
        raise wanted.refused(message, f"Omit it to use the policy's domain, {declared.described}.")


def _read(key: Value) -> tuple[Value, str]:
    """The column that a key is or is computed from, and the key as SQL over `item`."""
    return key.image or (key, "item")


def _column(full: Parts | None, column: str, schema: Schema) -> Values:
    if full is None:
        raise ArgumentError("The table that the policy names as this item's domain does not exist.")
    columns = schema.columns(f"SELECT * FROM {full_name(full)}")
    name = next((name for name, _ in columns if folded(name) == folded(column)), None)
    if name is None:
        raise ArgumentError(f"{full[-1]} has no column {column}.")
    return column_values(full, name, f"the column {full[-1]}.{column}")


def _same_columns(item: Reference, policy: Policy, schema: Schema) -> list[str]:
    """The columns of public tables that are called as an item is, or nearly."""
    found = []
    for name in policy.public:
        if item.parts and (full := schema.table(name)) is not None:
            columns = [folded(n) for n, _ in schema.columns(f"SELECT * FROM {full_name(full)}")]
            if near := guessed(folded(item.parts[-1]), columns):
                found.append(f"{'.'.join(map(shown_name, name))}.{shown_name(near)}")
    return found
