"""From an approved source and a DP call to a frozen Plan: the only thing that may be rewritten.

A Plan holds checked names, typed numbers and the mechanism with its price. It is made here, from
an `Approved` source, and nowhere else; making one reads no private row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dp_sql.errors import ArgumentError, InternalError, NotPrivate, SourceError
from dp_sql.privacy.declared_sources import PLACES, Approved, Catalog
from dp_sql.privacy.domains import Domain, own_names, read_domain
from dp_sql.sql.arguments import DpCall
from dp_sql.sql.dp_select import DpSelect
from dp_sql.sql.formatting import full_name
from dp_sql.sql.literals import ListLiteral, Reference
from dp_sql.sql.shape import Function, Shape
from dp_sql.sql.tokens import folded
from dp_sql.sql.types import EXACT_TYPES, NUMBERS, exact, family
from dp_sql.udfs.mechanism import Mechanism, PrivacyLoss


@dataclass(frozen=True)
class Column:
    """A column of the source: how SQL names it, and its type."""

    sql: str
    type: str


@dataclass(frozen=True)
class Groups:
    """The public groups of a plan, and in how many of them one person counts.

    domains: for each key SQL that lists its values once, as `item`.
    cap: each person is kept in at most so many groups, drawn at random among that person's own;
        None where the policy says that all rows of a person are in one group.
    """

    domains: tuple[str, ...]
    cap: int | None


@dataclass(frozen=True)
class Work:
    """How much work one person's rows can cause, from public numbers alone.

    rows_per_person: how many rows of each person a join that multiplies rows keeps; None: all.
    joined_rows_per_person: how many rows the joins make of them at most; None: no join multiplies
        rows.
    """

    rows_per_person: int | None = None
    joined_rows_per_person: int | None = None


@dataclass(frozen=True)
class Plan:
    """What one release reads, which mechanism runs on it, and what it costs.

    `source` is the FROM clause with its relations by their full names, `written` the same as the
    owner wrote it, `condition` the WHERE clause. `columns` are its columns by what they are to the
    function: item and privacy_unit, or candidate, score and sensitivity; `keys` those of GROUP BY.
    `parameters` are the public numbers of one run of the mechanism, which is one group;
    `loss` is what is spent: for all groups together where `groups` says how many one person is in,
    for each group where a person may be in all (DP_SELECT). `call` is the DP call as DuckDB would
    name it. `work` is how much work one person's rows can cause; None: not limited.
    """

    function: Function
    mechanism: Mechanism
    parameters: Shape
    loss: PrivacyLoss
    source: str
    written: str
    condition: str | None
    columns: Mapping[str, Column]
    keys: tuple[Column, ...]
    groups: Groups | None
    keep_source: bool
    domain: Domain | None
    call: str
    assumptions: tuple[str, ...]
    work: Work | None = None


def loss_at(plan: Plan, factor: Fraction) -> PrivacyLoss:
    """What a plan would cost with its epsilon times a factor from (0, 1]."""
    epsilon = plan.parameters.epsilon * factor
    loss = replace(plan.parameters, epsilon=epsilon).loss(plan.mechanism)
    return loss.times(plan.groups.cap or 1) if plan.groups is not None else loss


def plan(select: DpSelect, call: DpCall, approved: Approved, catalog: Catalog) -> Plan:
    """The plan of one call over its approved source.

    Raises:
        ArgumentError: a column has a type without exact equality, or is no number where one is
            wanted; the domain cannot be read, or k exceeds the public number of items.
        SourceError: DuckDB does not find the source or a column.
    """
    columns, keys = _bound(select, call, approved, catalog)
    if call.parameters.reads_people:
        _own_columns(select, call, approved)
        _check_equality(select, call, columns, keys)
    else:
        _check_numbers(select, call, columns)
    groups = None
    parameters, loss = call.parameters, call.parameters.loss(call.mechanism)
    if select.keys and call.parameters.reads_people:
        groups = owners_groups(
            select, call, keys, lambda key: _observed(key, approved), own_names(approved), catalog
        )
        parameters, loss = shared(call, groups)
    domain = None
    if call.domain is not None:
        item_type, own = columns["item"].type, own_names(approved)
        domain = read_domain(select, call, call.domain, item_type, own, catalog)
    return Plan(
        function=call.function,
        mechanism=call.mechanism,
        parameters=parameters,
        loss=loss,
        source=approved.source,
        written=select.source_text,
        condition=select.condition_text,
        columns=columns,
        keys=keys,
        groups=groups,
        keep_source=not approved.base,
        domain=domain,
        call=call.display,
        assumptions=approved.assumptions + assumed(select, call, groups, domain),
    )


def assumed(
    select: DpSelect, call: DpCall, groups: Groups | None, domain: Domain | None
) -> tuple[str, ...]:
    """What the owner says by naming groups and a domain; a list is public by being written."""
    said: tuple[str, ...] = ()
    if groups is not None and not isinstance(select.groups, ListLiteral):
        said = (f"the set of groups, {select.groups and select.groups.text}, is public",)
    if domain is None:
        return said
    if domain.select is None:
        also = "" if select.condition_text is None else ", also of the rows that WHERE keeps"
        return (*said, f"the set of values in {call.item.text} is public{also}")
    if isinstance(call.domain, ListLiteral):
        return said
    return (*said, f"the domain, {domain.described}, is public")


# --- groups ---------------------------------------------------------------------------------------


def shared(call: DpCall, groups: Groups) -> tuple[Shape, PrivacyLoss]:
    """What one group gets of what the call says, and what all groups cost one person.

    Each person counts in at most c groups, each group is a release at epsilon/c (and delta/c) on
    its own people, and groups that a person is not in do not see that person. People who are in
    more groups are kept in some of them by a draw; what the loss says then is in
    budget/accountants.md, "Releases that draw first".
    """
    c = groups.cap or 1
    parameters = call.parameters.times(Fraction(1, c))
    return parameters, parameters.loss(call.mechanism).times(c)


def needs_cap(select: DpSelect, call: DpCall) -> ArgumentError:
    """The refusal of GROUP BY without a word on how many groups a person is in."""
    return ArgumentError(
        f"{call.function.name} with GROUP BY needs max_groups_contributed: in how many groups one "
        "person counts. Each group is answered with epsilon divided by it.",
        text=select.text,
        position=call.start,
        hint="Add max_groups_contributed := 1, or more where people are in several groups.",
    )


def owners_groups(
    select: DpSelect,
    call: DpCall,
    keys: Sequence[Column],
    observed: Callable[[Column], str],
    own: Collection[str],
    catalog: Catalog,
) -> Groups:
    """The groups of a call on the owner's connection, as the statement says them.

    Args:
        select: where the call stands.
        call: the call.
        keys: the columns of GROUP BY.
        observed: SQL that lists the values of a key in the source without WHERE, as `item`.
        own: as in read_domain.
        catalog: answers what names mean, and reads public values.
    """
    if call.max_groups_contributed is None:
        raise needs_cap(select, call)
    given = select.groups
    if given is None:
        raise ArgumentError(
            f"{call.function.name} with GROUP BY needs groups: the public set of groups. A group "
            "that only one person is in would tell of that person.",
            text=select.text,
            position=call.start,
            hint="Write groups := regions.region (a public table's column), groups := ['north', "
            "'south'], or, if the set of values is itself public, groups := observed.",
        )
    if isinstance(given, Reference) and folded(given.text) == "observed":
        return Groups(tuple(observed(key) for key in keys), call.max_groups_contributed)
    if len(keys) > 1:
        raise ArgumentError(
            "For several keys groups can only be observed here; a policy declares them key by key.",
            text=select.text,
            position=given.position,
        )
    wanted = replace(call, k=None, columns={**call.columns, "item": select.keys[0]})
    domain = read_domain(select, wanted, given, keys[0].type, own, catalog)
    if domain.select is None:
        raise InternalError("Groups without their values.")
    return Groups((domain.select,), call.max_groups_contributed)


def _observed(key: Column, approved: Approved) -> str:
    """All values of a column of the source, whatever WHERE keeps and whatever else is NULL."""
    return values_of(key, approved.source)


def values_of(key: Column, source: str) -> str:
    """SQL that lists the values of a column of a relation of FROM once, as `item`."""
    value = exact(key.sql, key.type)
    return f"SELECT DISTINCT {value} AS item FROM {source}\n WHERE {key.sql} IS NOT NULL"


# --- columns --------------------------------------------------------------------------------------


def _sql(reference: Reference) -> str:
    if not reference.parts:  # a number: its own text, which keeps it exact
        return "'" + reference.text.replace("_", "").replace(" ", "") + "'"
    return full_name(reference.parts)


def _bound(
    select: DpSelect, call: DpCall, approved: Approved, catalog: Catalog
) -> tuple[Mapping[str, Column], tuple[Column, ...]]:
    """The columns that a call names, and the keys, as DuckDB binds them; no row is read."""
    references = [*call.columns.values(), *select.keys]
    listed = ", ".join(f"{_sql(r)} AS __dp_{i}" for i, r in enumerate(references))
    bound = f"SELECT {listed} FROM {approved.source}\n"
    if select.condition_text is not None:
        bound += f"WHERE ({select.condition_text}\n)"
    try:
        types = [type_name for _, type_name in catalog.columns(bound)]
    except SourceError as error:
        raise _blame(error, select, call, approved) from None
    found = [Column(_sql(r), type_name) for r, type_name in zip(references, types, strict=True)]
    n_columns = len(call.columns)
    return dict(zip(call.columns, found, strict=False)), tuple(found[n_columns:])


def _check_equality(
    select: DpSelect, call: DpCall, columns: Mapping[str, Column], keys: Sequence[Column]
) -> None:
    compared = [
        (call.columns[name], columns[name].type, what)
        for name, what in (("item", "item"), ("privacy_unit", "privacy unit"))
    ]
    compared += [(r, key.type, "group") for r, key in zip(select.keys, keys, strict=True)]
    for reference, found, what in compared:
        if family(found) not in EXACT_TYPES:
            raise ArgumentError(
                f"The {what} {reference.text} has type {found}, whose equality is not exact: "
                "rounding or NaN would decide what counts as the same.",
                text=select.text,
                position=reference.position,
                hint=f"Cast it in a view or column first, for example "
                f"CAST({reference.text} AS DECIMAL(18, 2)) or AS VARCHAR.",
            )


def _check_numbers(select: DpSelect, call: DpCall, columns: Mapping[str, Column]) -> None:
    for name in ("score", "sensitivity"):
        reference, found = call.columns[name], columns[name].type
        if reference.parts and family(found) not in NUMBERS:
            raise ArgumentError(
                f"The {name} {reference.text} has type {found}, which is no number.",
                text=select.text,
                position=reference.position,
                hint="Scores and sensitivities are columns of integers, DECIMAL or DOUBLE.",
            )


def _own_columns(select: DpSelect, call: DpCall, approved: Approved) -> None:
    """Refuse what DuckDB binds and the source does not list, such as rowid: the place of a row."""
    *scope, person = (folded(part) for part in call.privacy_unit.parts)
    # A scope may only be the source's name: else it is a struct, and the unit a part of a value.
    wrong = None
    if person not in approved.columns or (scope and tuple(scope) not in approved.scopes):
        wrong = call.privacy_unit
    for reference in (call.item, *select.keys):
        names = {folded(part) for part in reference.parts}
        if not names & approved.columns or (names & PLACES) - approved.columns:
            wrong = wrong or reference
    if wrong is not None:
        raise NotPrivate(
            f"{wrong.text} is not a column that the source lists.",
            text=select.text,
            position=wrong.position,
            hint="Name one of its columns; give expressions a name in a view or table first.",
        )


def _blame(error: SourceError, select: DpSelect, call: DpCall, approved: Approved) -> SourceError:
    """The same error under the part that causes it: the source, the condition or a column."""
    position = select.source[0]
    if approved.columns and select.condition:
        position = select.condition[0]
    for reference in reversed([*call.columns.values(), *select.keys]):
        names = {folded(part) for part in reference.parts}
        if approved.columns:
            scope = reference.parts[0] if len(reference.parts) > 1 else None
            guilty = not names & approved.columns or (scope and f'"{scope}"' in error.message)
        else:
            guilty = any(f'"{part}"' in error.message for part in reference.parts)
        if guilty:
            position = reference.position
    return SourceError(error.message, text=select.text, position=position, hint=error.hint)
