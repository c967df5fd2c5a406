"""The owner's database as the person-level compiler sees it, without a policy.

The words of a statement are the policy: each base table that has the privacy unit as a column holds
people's rows, every other table that the source reads is joined to them, and views are read
through. Names mean what DuckDB takes them for. Reads no row of its own accord.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sqlglot import exp

from dp_sql.errors import NotPrivate, SourceError
from dp_sql.policy.model import Policy, PrivateTable
from dp_sql.privacy.declared_sources import Catalog, Relation, Scope, view_body
from dp_sql.privacy.expressions import text
from dp_sql.privacy.relation_tree import LinkedTable, Parts, Select, Table, UnionAll
from dp_sql.privacy.relation_tree import Relation as Tree
from dp_sql.sql.formatting import full_name
from dp_sql.sql.sqlglot_tree import Node, Unreadable, tree_of
from dp_sql.sql.tokens import folded, tokenize
from dp_sql.sql.types import without_labels


class OwnersEngine(Catalog, Protocol):
    """What this file may ask of the owner's engine."""

    def agrees(self, source: str, tables: Collection[Parts]) -> bool:
        """Whether the engine too reads a source as reading exactly these base tables."""


@dataclass(frozen=True)
class OwnerSide:
    """What names mean on the owner's connection: a `person_level.Schema`.

    within: the schema of the view whose query is being read; None in the statement itself.
    """

    engine: OwnersEngine
    within: Scope | None = None
    _relations: dict[tuple[Parts, Scope | None], Relation | None] = field(default_factory=dict)
    _columns: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

    def relation(self, parts: Sequence[str]) -> Relation | None:
        """What a name means here; asked of the engine once."""
        key = (tuple(parts), self.within)
        if key not in self._relations:
            self._relations[key] = self.engine.relation(*key)
        return self._relations[key]

    def table(self, parts: Sequence[str]) -> Parts | None:
        """The base table that a name means, by its full name."""
        found = self.relation(parts)
        return found.parts if found is not None and found.is_table else None

    def view(self, parts: Sequence[str]) -> str | None:
        """The query of a view; None where it is not known."""
        found = self.relation(parts)
        if found is None or not found.parts or not found.view_sql:
            return None
        return view_body(found.view_sql)

    def inside(self, view: Sequence[str]) -> OwnerSide:
        """The same as the query of a view reads names."""
        found = self.relation(view)
        if found is None or len(found.parts) < 2:
            return self
        scope = (found.parts[0], found.parts[1])
        return OwnerSide(self.engine, scope, self._relations, self._columns)

    def columns(self, select: str) -> list[tuple[str, str]]:
        """Names and types of a SELECT's columns, bound and not run."""
        if select not in self._columns:
            self._columns[select] = self.engine.columns(select)
        return self._columns[select]

    def readable(self, value: str, type_name: str) -> bool:
        """Whether a string can be cast to a type; no row is read."""
        try:
            self.engine.public_values(f"SELECT CAST({text(value)} AS {type_name})")
        except SourceError:
            return False
        return True

    def binds(self, select: str) -> bool:
        """Whether DuckDB can bind a SELECT; no row is read."""
        try:
            self.columns(select)
        except SourceError:
            return False
        return True

    def public_number(self, select: str) -> int:
        """The number that a SELECT over joined tables answers."""
        (number,) = self.engine.public_values(select)
        return int(str(number))

    def public_rows(self, select: str, tables: frozenset[Parts]) -> tuple[str, frozenset[Parts]]:
        """The SELECT itself: nothing is made on the owner's connection."""
        return f"({select})", tables


# --- the words of a statement as a policy ---------------------------------------------------------


@dataclass
class Found:
    """The base tables and views that a source may read.

    views: by full name, with the tables behind each.
    """

    tables: set[Parts] = field(default_factory=set)
    views: dict[Parts, set[Parts]] = field(default_factory=dict)


def relations(trees: Sequence[Node], side: OwnerSide) -> Found:
    """What the names in some trees mean, through views; a CTE's name may be found as a table's."""
    found = Found()
    for name, place in ((name, side) for tree in trees for name in _names(tree)):
        _follow(name, place, found)
    return found


def _names(tree: Node) -> Iterator[Parts]:
    for node in tree.find_all(exp.Table):
        if isinstance(node.this, exp.Identifier):
            yield tuple(part.name for part in node.parts)


def _follow(name: Parts, side: OwnerSide, found: Found) -> set[Parts]:
    """The base tables behind a name."""
    try:
        relation = side.relation(name)
    except NotPrivate:  # the compiler will say so, if it comes to read it
        return set()
    if relation is None or not relation.parts:
        return set()
    if relation.is_table:
        found.tables.add(relation.parts)
        return {relation.parts}
    if relation.parts not in found.views:
        found.views[relation.parts] = behind = set[Parts]()
        body = side.view(name)
        try:
            names = [] if body is None or has_escapes(body) else _names(tree_of(body))
            for inner in names:
                behind |= _follow(inner, side.inside(name), found)
        except Unreadable:
            pass  # the compiler cannot read it either
    return found.views[relation.parts]


def has_escapes(sql: str) -> bool:
    """Whether some SQL has a string with escapes, which sqlglot 28 ends elsewhere than DuckDB."""
    return any(t.kind == "string" and t.text[0] in "eE" for t in tokenize(sql))


def policy_of(found: Found, unit: str, side: OwnerSide) -> Policy:
    """The policy that a statement's words amount to.

    Args:
        found: what the source may read.
        unit: the unquoted name of the privacy unit.
        side: answers what names mean.
    """
    tables: dict[Parts, PrivateTable] = {}
    domains: dict[tuple[Parts, str], str] = {}
    for full in sorted(found.tables):
        columns = side.columns(f"SELECT * FROM {full_name(full)}")
        name = _folded(full)
        if folded(unit) in {folded(column) for column, _ in columns}:
            tables[name] = PrivateTable(name, folded(unit))
            domains |= {  # the owner sees every label anyway
                (name, folded(column)): "enum"
                for column, kind in columns
                if without_labels(kind) != kind
            }
    joined = {_folded(full) for full in found.tables} - tables.keys()
    views = {_folded(full) for full in found.views}
    views |= {(database, name) for database, _, name in views}  # DuckDB leaves out the schema, too
    return Policy(tables, frozenset(joined), frozenset(views), domains)


def _folded(parts: Parts) -> Parts:
    return tuple(folded(part) for part in parts)


def private_names(found: Found, tables: Mapping[Parts, PrivateTable]) -> frozenset[str]:
    """What the tables of people's rows, and the views over them, are called."""
    private = {full for full in found.tables if _folded(full) in tables}
    views = {full for full, behind in found.views.items() if behind & private}
    return frozenset(folded(full[-1]) for full in private | views)


# --- what the receipt says of it ------------------------------------------------------------------


def assumptions(relation: Tree, unit: str) -> tuple[str, ...]:
    """What the promise rests on: whose rows the tables hold."""
    tables, listed = _read(relation)
    names = _shown({table.name for table in tables} | listed)
    said = [
        f"each row of {names[table.name]} belongs to the person in {unit}"
        for table in tables
        if table.is_private
    ]
    said += [
        f"each row of {names[table.name]} is public, or belongs to the person it is joined to"
        for table in tables
        if not table.is_private
    ]
    said += [f"{names[name]} is public" for name in sorted(listed)]
    return tuple(dict.fromkeys(said))


def _read(relation: Tree) -> tuple[list[Table], set[Parts]]:
    """The tables that a relation reads in FROM, in order, and those of IN (SELECT …).

    What is there many times, as a CTE of a CTE may be, is looked at once.
    """
    tables: list[Table] = []
    listed: set[Parts] = set()
    seen: set[int] = set()
    waiting: list[Tree] = [relation]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        match one:
            case Table():
                tables.append(one)
            case LinkedTable():
                waiting += [one.table, one.owner]
            case UnionAll():
                waiting += [one.right, one.left]
            case Select():
                waiting += reversed(one.relations)
                listed = listed.union(*(names for _, names in one.looked_in))
    return tables, listed


def _shown(tables: Collection[Parts]) -> dict[Parts, str]:
    """What messages call tables: by their names, and with schema and database where two agree."""
    often = Counter(name[-1] for name in tables)
    return {name: name[-1] if often[name[-1]] == 1 else ".".join(name) for name in tables}
