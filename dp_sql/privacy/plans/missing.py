"""Which arguments does a call under a policy still need? All of them in one error.

The error shows the statement with each of them filled in: sets that are public by the policy, the
largest epsilon up to 1 that it allows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from dp_sql.errors import ArgumentError
from dp_sql.privacy.catalog import Parts
from dp_sql.privacy.expressions.value import Value
from dp_sql.privacy.plans.domains import OwnValues
from dp_sql.privacy.plans.example_values import example_bins, example_list
from dp_sql.privacy.relations.tree import Select, Table, place_of, relations_in
from dp_sql.sql.argument_errors import CAP, EPSILON, FINDS_ITEMS, missing, positional_needed
from dp_sql.sql.arguments import DpCall
from dp_sql.sql.clauses import enclosing_select
from dp_sql.sql.dp_select import DpSelect
from dp_sql.sql.formatting import full_name, literal, shown_name
from dp_sql.sql.given import Reference
from dp_sql.sql.tokens import Tokens, folded, tokenize
from dp_sql.sql.types import can_be
from dp_sql.udfs.mechanism import in_words

if TYPE_CHECKING:
    from dp_sql.policy.model import Policy
    from dp_sql.privacy.plans.sources import Source

_DELTA = "1e-9"
Declared = Callable[[Value], object]


def refuse_missing(
    source: Source, call: DpCall, item: Value, policy: Policy, declared: Declared, needs_cap: bool
) -> None:
    """Raise ArgumentError for the arguments that a call needs and the policy does not declare.

    declared: what the policy declares as the domain of a column; None where it declares none.
    needs_cap: whether one person may be in several groups.
    """
    select, lacking, sets = source.select, call.missing, list[_Proposed]()
    needed = positional_needed(call.function, lacking, policy.limits.max_k)
    if "epsilon" in lacking:
        needed[EPSILON] = _epsilon(policy)
    if call.takes_domain and call.domain is None and declared(item) is None:
        named = [call.item.text] * ("item" not in lacking)
        said = _set("a domain", "items that the answer may contain", named)
        sets.append(_proposed(source, policy, call.item, item, None, call.k or 1))
        needed[said] = f"domain := {sets[0].written}"
    for name, (said, values) in call.parameters.needs.items():
        if name in lacking:
            needed[said] = f"{name} := {values[0]}"
    keys = list(zip(select.keys, source.values, strict=True))
    without = [key.text for key, value in keys if declared(value) is None]
    if without and select.groups is None and select.delta is None:
        finds = f"; {FINDS_ITEMS}" if "delta" in call.given else ""
        own = [_proposed(source, policy, k, v, _as_stated(declared(v), v)) for k, v in keys]
        sets += own
        written = own[0].written if len(own) == 1 else f"({', '.join(one.written for one in own)})"
        if not any(one.is_guess for one in sets):
            rows = _rows_of_tables(source, policy, declared)
            sets += [_Proposed(rows, is_public=True)] if rows else []
            written = rows or written
        needed[_set("groups", "groups", without, finds)] = f"groups := {written}"
    if needs_cap and call.max_groups_contributed is None:
        needed[CAP] = "max_groups_contributed := 1"
    if needed:
        has_guesses = any(one.is_guess for one in sets)
        refusal = _missing(select, call, needed, policy if has_guesses else None)
        refusal.public = [one.written for one in sets if one.is_public]
        raise refusal


def _missing(
    select: DpSelect, call: DpCall, needed: Mapping[str, str | None], policy: Policy | None
) -> ArgumentError:
    """The refusal of a call; policy: whose delta may find what public sets are guesses of."""
    function, lacking = call.function, call.missing
    added = [one for one in needed.values() if one is not None]
    found = _with_delta(call, added, policy) if policy is not None else []
    ways = [*found, added] if len(added) == len(needed) else []
    columns = [call.given[name] for name in function.positional if name not in lacking]
    own, bracket = select.without_filter(call.span), select.text.index("(", call.start) + 1
    behind = max((one[-1].end for one in columns), default=bracket)
    refusal = missing(select.text, function, own, needed, ways, behind, select.repeats_of(call))
    if found and not function.shape.finds_items:
        refusal.hint = "delta finds the groups that enough people are in."
    return refusal


def _with_delta(call: DpCall, added: Sequence[str], policy: Policy) -> list[list[str]]:
    """The added arguments with a delta that finds items, or groups, if the policy allows one."""
    limit, finds_items = policy.limits.max_delta_per_query, call.function.shape.finds_items
    replaced = "domain := " if finds_items else "groups := "
    if not limit or "delta" in call.given or not any(one.startswith(replaced) for one in added):
        return []
    delta = f"delta := {_DELTA if limit >= Fraction(_DELTA) else in_words(limit)}"
    return [[delta if one.startswith(replaced) else one for one in added]]


def refuse_no_epsilon(select: DpSelect, call: DpCall, policy: Policy) -> None:
    """Raise ArgumentError for a call that needs nothing else."""
    if call.missing:
        needed: dict[str, str | None] = {EPSILON: _epsilon(policy)}
        own, again = select.without_filter(call.span), select.repeats_of(call)
        raise missing(select.text, call.function, own, needed, again=again)


def _epsilon(policy: Policy) -> str:
    most = min(Fraction(1), policy.limits.max_epsilon_per_query or Fraction(1))
    return f"epsilon := {in_words(most)}"


def _set(what: str, values: str, names: Sequence[str], more: str = "") -> str:
    declares = f"; the policy declares none for {', '.join(names)}{more}" if names else ""
    return f"{what} (the public set of {values}{declares})"


class _Proposed(NamedTuple):
    """A set of values as a statement may write it.

    is_public: whether they are known to be public. is_guess: whether nothing is known about them.
    """

    written: str
    is_public: bool = False
    is_guess: bool = False


def _proposed(
    source: Source, policy: Policy, key: Reference, value: Value, declared: object, size: int = 1
) -> _Proposed:
    """A public set of an item or key; if none is known, an example of so many values."""
    if found := _public_set(source, key, value, policy, declared):
        return _Proposed(found, is_public=True)
    if size > 1:
        return _Proposed(example_list(value.type, size), is_guess=True)
    from dp_sql.privacy.plans.example_dates import date_groups

    column = (value.image[0] if value.image else value).type
    written = _as_computed(source.select.tokens, key)
    dates = date_groups(written, value.type, column, source.select.condition_text)
    if dates is None:
        guess = example_bins(written, value.type) or example_list(value.type, size)
        return _Proposed(guess, is_guess=True)
    return _Proposed(dates.written, dates.asked, is_guess=not (dates.asked or dates.bounded))


def _as_stated(declared: object, value: Value) -> object:
    """What the policy declares of a key itself, and not of the column that it is computed from."""
    is_own = not value.image or declared == "observed" or isinstance(declared, OwnValues)
    return declared if is_own else None


def _public_set(
    source: Source, key: Reference, value: Value, policy: Policy, declared: object
) -> str | None:
    """A public set of a column's values as a statement names it; None where none is known."""
    schema = source.compiler.tables.schema
    match declared:
        case "observed":
            return "observed"
        case OwnValues():
            return declared.written
        case (tuple() as table, str() as column):
            return _shown([*table, column])
        case tuple():
            return f"[{', '.join(literal(one) for one in declared)}]"
    found: list[str] = []
    for name in policy.public:
        full = schema.table(name)
        columns = [] if full is None else schema.columns(f"SELECT * FROM {full_name(full)}")
        for column, kind in columns:
            if folded(column) == value.origin_name and can_be(kind, value.type):
                found.append(_shown([*name, column]))
                if value.origin is not None and value.origin[0] == full:
                    return found[-1]
    # Of several, none is known to be meant.
    return found[0] if len(found) == 1 else _computed_set(source, policy, key, value)


def _as_computed(tokens: Tokens, key: Reference) -> str:
    """A key's expression, also where a subquery or a CTE computes it and the key is its name."""
    found: set[str] = set()
    if not key.is_expression and key.parts:
        name = folded(key.parts[-1])
        for i in range(2, len(tokens)):
            if tokens[i].folded == name and tokens[i - 1].upper == "AS":
                listed = enclosing_select(tokens, i).clause("SELECT")
                items = tokens.split(listed.start + 1, listed.stop) if listed else []
                found |= {tokens[a : b - 2].text for a, b in items if b == i + 1}
    return found.pop() if len(found) == 1 else key.text


def _rows_of_tables(source: Source, policy: Policy, declared: Declared) -> str | None:
    """The query of groups where several keys are columns of one public table; None: of no one.

    A column that a join compares with one of the table's has the same values there.
    """
    found: list[tuple[Parts, dict[int, str]]] = []  # tables, and their columns by places of keys
    for number in sorted(relations_in(*(value.sql for value in source.values))):
        if (name := _public_table(source, policy, number)) is not None:
            columns = {
                i: column
                for i, value in enumerate(source.values)
                if (column := _column_of(source, number, value)) is not None
                and declared(value) in (None, (name, column))
            }
            if columns:
                found.append((name, columns))
    of_key: dict[int, tuple[Parts, str]] = {}  # the table with most of the keys comes first
    for name, columns in sorted(found, key=lambda one: len(one[1]), reverse=True):
        for i, column in columns.items():
            of_key.setdefault(i, (name, column))
    listed = [of_key[i] for i in sorted(of_key)]
    tables = [*dict.fromkeys(name for name, _ in listed)]
    is_each_once = len({name[-1] for name in tables}) == len(tables) == len(found)
    if len(listed) < len(source.values) or len(tables) == len(listed) or not is_each_once:
        return None
    shown = [_shown([name[-1], column] if len(found) > 1 else [column]) for name, column in listed]
    return f"(SELECT DISTINCT {', '.join(shown)} FROM {', '.join(map(_shown, tables))})"


def _column_of(source: Source, number: int, value: Value) -> str | None:
    """The column of a relation that a value is or, in an inner join, is equal to."""

    def column(sql: str) -> tuple[int, tuple[Parts, str] | None]:
        place = place_of(sql)
        return place[0], source.rows.value(place).origin

    if value.origin is None:
        return None
    (own,) = relations_in(value.sql)
    pairs = [tuple(map(column, pair)) for pair in source.rows.equal]
    equal = [b for a, b in [*pairs, *(pair[::-1] for pair in pairs)] if a == (own, value.origin)]
    found = [origin for n, origin in [(own, value.origin), *equal] if n == number and origin]
    return found[0][1] if found else None


def _computed_set(source: Source, policy: Policy, key: Reference, value: Value) -> str | None:
    """What a key or an item is that is computed from columns of one public table, as a query."""
    numbers = relations_in(value.sql)
    if value.origin is not None or len(numbers) != 1:
        return None
    (number,) = numbers
    part, name = source.rows.parts[number], _public_table(source, policy, number)
    if name is None or not part.rows.values:  # what IN or EXISTS looks in has no columns here
        return None
    words = tokenize(key.text).folded
    read = {part.rows.values[int(i)].origin_name for i in re.findall(r"\br\d+c(\d+)", value.sql)}
    if not read <= words:  # it has other names here
        return None
    alias = f" AS {shown_name(part.name)}" if part.name in words - {name[-1]} else ""
    return f"(SELECT DISTINCT {key.text} FROM {_shown(name)}{alias})"


def _public_table(source: Source, policy: Policy, number: int) -> Parts | None:
    """The policy's name of the public table that a relation is."""
    table, schema = source.rows.parts[number].rows.relation, source.compiler.tables.schema
    while isinstance(table, Select) and table.is_bare:  # with a column that a join computes
        table = table.relations[0]
    if not isinstance(table, Table):
        return None
    return next((one for one in policy.public if schema.table(one) == table.name), None)


def _shown(parts: Sequence[str]) -> str:
    return ".".join(map(shown_name, parts))
