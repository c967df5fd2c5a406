"""A FROM clause: its relations, what their columns are called, and SELECTs of expressions over it.

In the SQL of expressions r0c1 is column 1 of relation 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlglot import exp

from dp_sql.privacy.catalog import Parts
from dp_sql.privacy.expressions.value import Value
from dp_sql.privacy.refusals import ALLOWED, Refused, refuse
from dp_sql.privacy.relations.rows import Rows, unknown_column
from dp_sql.privacy.relations.tree import Group, LeftJoin, Relation, Select
from dp_sql.sql.formatting import shown_name
from dp_sql.sql.sqlglot_tree import Node, to_sql
from dp_sql.sql.tokens import folded
from dp_sql.sql.types import family, united

JOINED = (
    "For example: FROM ratings JOIN people USING (user_id), on the privacy unit, or FROM ratings "
    "JOIN catalog USING (title), with a public table."
)


class FromPart(NamedTuple):
    """One relation of a FROM clause.

    path: what its columns may be qualified with, folded: its alias, or the parts of its name.
    number: of the relation in the SQL that is written.
    """

    path: Parts
    number: int
    rows: Rows

    @property
    def name(self) -> str:
        """What it is called here; "" for a subquery without an alias."""
        return self.path[-1] if self.path else ""

    def value(self, index: int) -> Value:
        """One of its columns."""
        return self.rows.values[index].column(self.number, index)


class NamedColumn(NamedTuple):
    """A column and what it is called here.

    before: how many relations of FROM are before the one that names it. path: what that one is
    called, as of a FromPart. name: "" for none. place: the number of its relation, and its own.
    """

    before: int
    path: Parts
    name: str
    place: tuple[int, int]


@dataclass
class From:
    """A FROM clause under construction, with the conditions of its joins.

    hidden: columns of USING on the right side: they are found by their table's name only.
    added: columns that joins compute of one relation's others; they have no name.
    elements: columns that are not called as in their relation, such as those of unnest in FROM.
    looked_in: what an IN (…) reads, as in a Select.
    aliases: what names that are no columns mean: aliases of the list.
    """

    parts: list[FromPart] = field(default_factory=list)
    hidden: set[tuple[int, int]] = field(default_factory=set)
    added: set[tuple[int, int]] = field(default_factory=set)
    elements: list[NamedColumn] = field(default_factory=list)
    looked_in: list[tuple[str, frozenset[Parts], Relation]] = field(default_factory=list)
    equal: list[tuple[str, str]] = field(default_factory=list)
    left_joins: list[LeftJoin] = field(default_factory=list)
    where: list[str] = field(default_factory=list)
    aliases: dict[str, Value] = field(default_factory=dict)

    @property
    def person_type(self) -> str | None:
        """The type of the privacy unit; None where all relations are public."""
        return None if self.first_private is None else self.first_private.rows.person_type

    @property
    def first_private(self) -> FromPart | None:
        """The first private relation, whose `__dp_person` is that of the row."""
        return next((part for part in self.parts if part.rows.is_private), None)

    def select(
        self, values: Sequence[Value], *, distinct: bool = False, group: Group | None = None
    ) -> Relation:
        """The SELECT of some expressions from it."""
        if len(self.parts) == 1 and not (self.where or distinct or group):
            rows = self.parts[0].rows
            if [value.sql for value in values] == [f"r0c{i}" for i in range(len(rows.values))]:
                return rows.relation
        relations = tuple(part.rows.relation for part in self.parts)
        sql, types = tuple(value.sql for value in values), tuple(value.type for value in values)
        joins = (tuple(self.equal), tuple(self.left_joins), tuple(self.where))
        return Select(relations, *joins, sql, types, distinct, group, tuple(self.looked_in))

    def copy(self) -> From:
        """A copy to which more can be added."""
        return From(
            [*self.parts], {*self.hidden}, {*self.added}, [*self.elements], [*self.looked_in],
            [*self.equal], [*self.left_joins], [*self.where],
        )  # fmt: skip

    def add(self, number: int, value: Value) -> Value:
        """A new column of one relation: an expression of its columns, which are called r0c1."""
        part = self.parts[number]
        rows, index = part.rows, len(part.rows.values)
        columns = [own._replace(sql=f"r0c{i}") for i, own in enumerate(rows.values)]
        relation = From([part._replace(number=0)]).select([*columns, value])
        values = (*rows.values, value)
        rows = Rows(relation, (*rows.names, ""), values, rows.person_type)
        self.parts[number] = part._replace(rows=rows)
        self.added.add((number, index))
        return self.parts[number].value(index)

    def has(self, node: exp.Column) -> bool:
        """Whether a name means a column here."""
        names = [folded(part.name) for part in node.parts]
        return any(next(self._called(tuple(names[:i]), names[i]), None) for i in range(len(names)))

    def column(self, node: exp.Column) -> Value:
        """The column that a name means."""
        value, n_parts = self.found(node)
        if n_parts < len(node.parts):
            raise self.unknown(node)
        return value

    def found(self, node: exp.Column) -> tuple[Value, int]:
        """The column that a.b.c begins with, and how many of these names it takes."""
        if isinstance(node.this, exp.Star):
            raise self.unknown(node)
        names = [folded(part.name) for part in node.parts]
        for n_parts in range(len(names), 0, -1):
            found = list(self._called(tuple(names[: n_parts - 1]), names[n_parts - 1]))
            if len(found) > 1:
                why = f"{to_sql(node)} is more than one column of the source"
                refusal = refuse(node, why, "Write the table before the column, as in r.title.")
                # The elements of a list come first: they are named to be read.
                same = [one for one in self.elements if one.path and [one.name] == names]
                scopes = [one.path[-1] for one in same]
                scopes += [part.name for part in self.parts if part.name]
                refusal.names = [f"{shown_name(one)}.{shown_name(node.name)}" for one in scopes]
                raise refusal
            if found:
                return found[0], n_parts
        if len(names) == 1 and names[0] in self.aliases:
            return self.aliases[names[0]], 1
        raise self.unknown(node)

    def columns(self) -> Iterator[NamedColumn]:
        """All columns that may be named, or that a star lists."""
        yield from self.elements
        for part in self.parts:
            for i, name in enumerate(part.rows.names):
                if (part.number, i) not in self.added:
                    yield NamedColumn(part.number, part.path, name, (part.number, i))

    def _called(self, scope: Parts, name: str) -> Iterator[Value]:
        for one in self.columns():
            is_shown = bool(scope) or one.place not in self.hidden
            if one.name == name and _is_called(one.path, scope) and is_shown:
                yield self.value(one.place)

    def value(self, place: tuple[int, int]) -> Value:
        """A column by the number of its relation and its own."""
        part = next(part for part in self.parts if part.number == place[0])
        return part.value(place[1])

    def unknown(self, node: exp.Column) -> Refused:
        """The refusal of a name that is not a column."""
        return unknown_column(node, [part.rows for part in self.parts])


def _is_called(path: Parts, scope: Parts) -> bool:
    """Whether a relation may be called so; its columns need no name before them."""
    return not scope or scope == path[max(0, len(path) - len(scope)) :]


def in_order(rows: Rows, names: Sequence[str], node: Node) -> Rows:
    """A relation with its columns in the order of these names, as in UNION ALL BY NAME."""
    if sorted(names) != sorted(rows.names) or len({*names, ""}) != len(names) + 1:
        raise refuse(node, "Both sides of UNION ALL BY NAME must have the same columns", ALLOWED)
    part = FromPart((), 0, rows)
    values = tuple(part.value(rows.names.index(name)) for name in names)
    return Rows(From([part]).select(values), tuple(names), values, rows.person_type)


def unlike(tree: Node, left: Rows, right: Rows) -> Refused | None:
    """The refusal of a UNION or the like whose sides have other columns, types or people."""
    (a_types, b_types) = ([value.type for value in rows.values] for rows in (left, right))
    if a_types == b_types and left.person_type == right.person_type:
        return None

    def shown(kind: str) -> str:  # the labels of an ENUM may be private
        return family(kind) if "ENUM(" in kind else kind

    how = ": only one of them lists the privacy unit" * (left.is_private != right.is_private)
    if len(a_types) != len(b_types):
        how = f": one lists {len(a_types)} and the other {len(b_types)} columns"
    for name, a, b in zip(left.names, a_types, b_types, strict=False):
        if not how and a != b:
            column = shown_name(name) or "a column"
            how = f": {column} is {shown(a)} on one side and {shown(b)} on the other"
    why = f"Both sides of {tree.key.upper()} must have the same columns and types{how}"
    return refuse(tree, why, "Cast the columns of one side, as in CAST(price AS BIGINT).")


def with_wider(rows: Rows, other: Rows) -> Rows:
    """A relation whose numbers and NULLs have the type of UNION with another's, where it differs.

    Privacy units stay as they are.
    """

    def cast(own: Value, theirs: Value) -> Value:
        is_null = own.is_null and "ENUM(" not in theirs.type  # whose labels may be private
        kind = theirs.type if is_null else united(own.type, theirs.type)
        if own.is_person or theirs.is_person or kind == own.type or theirs.is_null:
            return own
        if is_null:
            sql, bound = f"CAST(NULL AS {kind})", theirs.bound
            return Value(sql, kind, collation=theirs.collation, bound=bound)
        return Value(f"TRY_CAST({own.sql} AS {kind})", kind)

    part = FromPart((), 0, rows)
    pairs = zip(range(len(rows.values)), other.values, strict=False)
    values = tuple(cast(part.value(i), theirs) for i, theirs in pairs)
    if len(values) < len(rows.values) or values == tuple(map(part.value, range(len(values)))):
        return rows
    return Rows(From([part]).select(values), rows.names, values, rows.person_type)
