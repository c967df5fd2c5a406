"""Which items or groups may be answered? The public values, as SQL that lists each once.

Which sets may be named is decided in owner.py and in analyst.py. Reads public data only, and says
that k is too large before any budget is spent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from sqlglot import exp

from dp_sql.errors import QueryError, SourceError
from dp_sql.privacy.catalog import Parts, Schema
from dp_sql.privacy.expressions.value import Value
from dp_sql.privacy.plans.example_values import EXAMPLE_OF
from dp_sql.privacy.relations.constants import literal_sql
from dp_sql.sql.arguments import DpCall
from dp_sql.sql.dp_select import DpSelect
from dp_sql.sql.formatting import full_name, quote, shown_name
from dp_sql.sql.given import PublicSet
from dp_sql.sql.sqlglot_tree import projection
from dp_sql.sql.tokens import folded, tokenize
from dp_sql.sql.types import (
    INTEGER_RANGES,
    INTEGERS,
    can_be,
    can_be_written,
    exact,
    family,
    in_type,
    lost,
    writable,
)

_STRING, _INTEGER = re.compile(r"'(?:[^'\0]|'')*'"), re.compile(r"-?[0-9]{1,39}", re.ASCII)
_NO_TYPE = '"NULL"'  # DuckDB's name for the type of a list that is empty or holds only NULL


class Domain(NamedTuple):
    """Public values.

    select: SQL that lists each once, of the item's type, as `item`; None: see OBSERVED.
    size: how many there are, where it had to be counted.
    column: the full name of their column, if a constraint there could take DISTINCT's place.
    select_unique: the SELECT without DISTINCT, for a column that a constraint keeps unique.
    """

    select: str | None
    described: str
    size: int | None = None
    column: Parts = ()
    select_unique: str | None = None


_NAMES = 4  # database, schema, table and column
# The values that are found in the source; the owner declares that they are public.
OBSERVED = Domain(None, "the values observed in the source")


class Values(NamedTuple):
    """Public values as SQL that lists them in a column `value`, and what messages call them.

    untyped: whether they are strings in a statement, which have no type of their own yet.
    column: the full name of the column that they are. literals: those of a list, as SQL.
    """

    select: str
    described: str
    untyped: bool = False
    column: Parts = ()
    literals: tuple[str, ...] = ()


def list_values(literals: Sequence[str], described: str) -> Values:
    """The values of literals, with their own types; if all are strings, they have none."""
    select = f"SELECT unnest([{', '.join(literals)}]) AS value"
    untyped = all(one.startswith("'") for one in literals)
    return Values(select, described, untyped, literals=tuple(literals))


def column_values(table: Sequence[str], column: str, described: str) -> Values:
    """The values of a column of a public table, by the table's full name."""
    select = f"SELECT {quote(column)} AS value FROM {full_name(table)}"
    return Values(select, described, column=(*table, column))


def label_values(type_name: str, name: str) -> Values:
    """The labels of an ENUM type."""
    select = f"SELECT unnest(system.main.enum_range(NULL::{type_name})) AS value"
    return Values(select, f"the declared values of the ENUM {name}")


def items_sql(values: Values, item_type: str, *, are_unique: bool = False) -> str:
    """SQL that lists values once each as `item`, of the item's type, without NULL.

    are_unique: whether no two of the values are equal in the item's type.
    """
    value = f"CAST(value AS {item_type})"
    cast = exact(value, item_type)
    if plain := _plain(values.literals, item_type):
        values_sql = f"SELECT unnest(system.main.list_value({', '.join(plain)})) AS value"
        return f"SELECT {cast} AS item FROM ({values_sql}) AS listed"
    source, value = f"(\n{values.select}\n) AS listed", "value" if values.column else value
    there = writable(in_type(value, item_type), item_type)
    distinct = "" if are_unique else "DISTINCT "
    return f"SELECT {distinct}{cast} AS item FROM {source} WHERE {there} IS NOT NULL"


def _plain(literals: Sequence[str], item_type: str) -> list[str]:
    """The distinct literals, where each is certainly a value of the item's type: none is asked for.

    So are strings without a type, and integers in the type's range; else nothing is returned.

    >>> _plain(["'a'", "'b'", "'a'"], "VARCHAR"), _plain(["1", "-0", "0"], "TINYINT")
    (["'a'", "'b'"], ['1', '0'])
    >>> _plain(["1", "300"], "TINYINT"), _plain(["1.0"], "INTEGER"), _plain(["NULL"], "VARCHAR")
    ([], [], [])
    >>> _plain([str(2**127)], "UHUGEINT")
    []
    """
    if item_type == "VARCHAR":
        is_plain = all(map(_STRING.fullmatch, literals))
        return [*dict.fromkeys(literals)] if is_plain else []
    if item_type not in INTEGER_RANGES or not all(map(_INTEGER.fullmatch, literals)):
        return []
    least, most = INTEGER_RANGES[item_type]
    most = min(most, INTEGER_RANGES["HUGEINT"][1])  # DuckDB reads a larger literal as a DOUBLE
    numbers = dict.fromkeys(map(int, literals))
    return [*map(str, numbers)] if all(least <= n <= most for n in numbers) else []


def _value(plain: str) -> str | int:
    """The value of one of these literals.

    >>> _value("'it''s'"), _value("-7")
    ("it's", -7)
    """
    return plain[1:-1].replace("''", "'") if plain.startswith("'") else int(plain)


class Wanted(NamedTuple):
    """A public set that is wanted: for the item of a call, or for a key in its place.

    given: the set as the statement names it, or else the item itself. what: "domain" or "groups".
    """

    select: DpSelect
    call: DpCall
    given: PublicSet
    item: Value
    schema: Schema
    what: str

    @property
    def holds(self) -> str:
        """The verb after `what` in messages."""
        return "holds" if self.what == "domain" else "hold"

    def refused(self, message: str, hint: str = "", others: Sequence[str] = ()) -> QueryError:
        """An error under the domain; `others` are domains that may work."""
        start, text = self.given.position, self.select.text
        end = start + len(self.given.text)
        instead = [text[:start] + other + text[end:] for other in others]
        return self.select.refused(message, start, hint, instead=instead)

    @property
    def k(self) -> int | None:
        """The fewest items that a domain may have; None: these are groups."""
        return self.call.k if self.what == "domain" else None

    def domain(self, values: Values, way_out: Callable[[str], str] = lambda _: "") -> Domain:
        """The domain that some values are.

        `way_out` says, for the type of unsuitable values, what works instead. Raises ArgumentError
        where they are of another type, a cast would change one of them, or there are fewer than k.
        """
        kind, k = self.item.type, self.k or 1
        listed = items_sql(values, kind)
        if len(plain := _plain(values.literals, kind)) >= k:
            self.schema.keep_list(listed, kind, [*map(_value, plain)])
            return Domain(listed, values.described, len(plain))
        try:
            self._check_type(values, way_out)
            # At most k items, as a large domain need not be counted here; all groups.
            size = self.schema.public_size(listed, kind, self.k)
        except SourceError as error:
            why = f"cannot be read as {shown_type(kind)}: {error.message}"
            *table, column = getattr(self.given, "parts", ("", ""))
            others = [f"{'.'.join(table)}.{name}" for name in error.names]
            others += [f"{name}.{shown_name(column)}" for name in error.names]
            message = f"The {self.what} {self.given.text} {why}"
            raise self.refused(message, error.hint or "", others) from None
        if k > size:
            if self.k is None:
                raise self.refused(f"The {self.what} {self.given.text} have no value.")
            message = f"k = {k} is more than the {size} item{'s' * (size != 1)} of the domain."
            hint = f"Ask for at most {size}, or name a larger domain."
            given = self.call.given["k"]
            raise given.refuse(message, hint, [given.put(str(size))] if size else [])
        # For these types, a constraint and DISTINCT compare alike; a cast could make values equal.
        is_exact = kind in {"VARCHAR", *INTEGERS} and len(values.column) == _NAMES
        column = values.column if is_exact and self._type_of(values) == kind else ()
        unique = items_sql(values, kind, are_unique=True) if column else None
        return Domain(listed, values.described, None if self.k else size, column, unique)

    def _check_type(self, values: Values, way_out: Callable[[str], str]) -> None:
        """Refuse values of another type than the item's, or that a cast to it would change."""
        kind = None if values.untyped else self._type_of(values)
        if kind == _NO_TYPE:
            return
        item_type, name = self.item.type, self.call.item.text
        shown = shown_type(item_type)
        if not (can_be_written(item_type) if kind is None else can_be(kind, item_type)):
            spoken = "strings" if kind is None else f"values of type {shown_type(kind)}"
            example = EXAMPLE_OF.get(family(item_type), "[1, 2]" if kind is None else "")
            example = example and f"Write a list of such values, as in {example}."
            its = f"its {self.what}, {values.described}, {self.holds}"
            message = f"{name} has type {shown}, and {its} {spoken}."
            hint = " ".join(filter(None, [example, way_out(kind or "VARCHAR")]))
            never = "A value of one type never equals a value of the other."
            raise self.refused(f"{message} {never}", hint)
        if (changed := lost(kind, item_type)) is None:
            return
        (value,) = self.schema.public_values(
            "SELECT system.main.min(CAST(value AS VARCHAR)) "
            f"FROM (\n{values.select}\n) AS listed WHERE value IS NOT NULL AND {changed}"
        )
        if value is not None:
            which = f"The {self.what} of {name}, {values.described}, {self.holds} {value}, which"
            why = f"is not a value of type {shown}: a cast would refuse or change it."
            raise self.refused(f"{which} {why}", "Remove such values from the domain.")

    def _type_of(self, values: Values) -> str:
        """The type of values: that of their column, if they are one."""
        if values.column:
            *table, column = values.column
            for name, kind in self.schema.columns(f"SELECT * FROM {full_name(table)}"):
                if folded(name) == folded(column):
                    return kind
        ((_, kind),) = self.schema.columns(f"SELECT value FROM (\n{values.select}\n) AS listed")
        return kind

    def listed(self) -> Values:
        """The values of a list of literals."""
        tree = projection(self.given.text)
        nodes = tree.expressions if isinstance(tree, exp.Array) else []
        if any(isinstance(node, exp.Null) for node in nodes):
            why = "The list holds NULL, and rows without a value are never counted."
            raise self.refused(why, "Remove NULL from the list.")
        plain = not any(token.text[0] == "$" for token in tokenize(self.given.text))
        literals = [one for node in nodes if (one := literal_sql(node)) is not None]
        if plain and isinstance(tree, exp.Array) and len(literals) == len(nodes):
            return list_values(literals, "a list in the statement")
        hint = "A long list is read faster as a table's column."
        example = f"For example: {self.what} := ['north', 'south'] or [DATE '2026-01-31']."
        listed = "A domain list" if self.what == "domain" else "A list of groups"
        quoted = re.sub(r'"?\b([^\W\d]\w*)\b"?', r"'\1'", self.given.text)
        others = [] if "'" in self.given.text else [quoted]
        kinds = "strings, plain numbers, TRUE and FALSE, dates and timestamps"
        raise self.refused(f"{listed} holds literals only: {kinds}.", f"{example} {hint}", others)


def shown_type(type_name: str) -> str:
    """A type as messages show it: an ENUM without its labels."""
    return "ENUM" if family(type_name) == "ENUM" else type_name


class OwnValues(NamedTuple):
    """Literals of all values of an expression."""

    literals: tuple[str, ...]

    def values(self) -> Values:
        """The values as a public set."""
        return list_values(self.literals, "all values of the expression")

    @property
    def written(self) -> str:
        """The set as a statement names it."""
        first, n = self.literals[0], len(self.literals)
        if first.isdecimal() and [*self.literals] == [*map(str, range(int(first), int(first) + n))]:
            return f"range({first}, {int(first) + n})"
        return f"[{', '.join(self.literals)}]"
