"""The clauses of a SELECT: what the columns of FROM are called, and expressions over them.

In the SQL of expressions r0c1 is column 1 of relation 0.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlglot import exp

from dp_sql.privacy.catalog import Parts
from dp_sql.privacy.expressions.row_values import row_wise, with_facts
from dp_sql.privacy.expressions.scope import Scope
from dp_sql.privacy.expressions.value import Value
from dp_sql.privacy.refusals import ALLOWED, ALONE, FIRST_ROW, Refused, other_form, refuse
from dp_sql.privacy.relations.rows import Rows, unknown_column
from dp_sql.privacy.relations.tree import Group, LeftJoin, Relation, Select
from dp_sql.sql.formatting import shown_name
from dp_sql.sql.sqlglot_tree import Node, to_sql
from dp_sql.sql.tokens import folded
from dp_sql.sql.types import united

JOINED = (
    "For example: FROM ratings JOIN people USING (user_id), on the privacy unit, or FROM ratings "
    "JOIN catalog USING (title), with a public table."
)
UNNEST = (
    "Write FROM (SELECT user_id, unnest(tags) AS tag FROM posts), or FROM posts, unnest(tags) AS "
    "t(tag), with a column of lists."
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


_Named = tuple[int, Parts, str, tuple[int, int]]  # a column and its names, as in From.elements


@dataclass
class From:
    """A FROM clause under construction, with the conditions of its joins.

    hidden: columns of USING on the right side: they are found by their table's name only.
    added: columns that joins compute of one relation's others; they have no name.
    elements: columns that are not called as in their relation, such as those of unnest in FROM, as
        four parts: how many relations are before unnest, what it is called, what its column is
        called, and the column: the number of its relation, and its place there.
    looked_in: what an IN (…) reads, as in a Select.
    aliases: what names that are no columns mean: aliases of the list.
    """

    parts: list[FromPart] = field(default_factory=list)
    hidden: set[tuple[int, int]] = field(default_factory=set)
    added: set[tuple[int, int]] = field(default_factory=set)
    elements: list[_Named] = field(default_factory=list)
    looked_in: list[tuple[str, frozenset[Parts], Relation]] = field(default_factory=list)
    equal: list[tuple[str, str]] = field(default_factory=list)
    left_joins: list[LeftJoin] = field(default_factory=list)
    where: list[str] = field(default_factory=list)
    aliases: dict[str, Value] = field(default_factory=dict)

    @property
    def person_type(self) -> str | None:
        """The type of the privacy unit; None where all relations are public."""
        return None if self.private is None else self.private.rows.person_type

    @property
    def private(self) -> FromPart | None:
        """The first private relation, whose `__dp_person` is that of the row."""
        return next((part for part in self.parts if part.rows.private), None)

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
                paths = [path for _, path, own, _ in self.elements if path and [own] == names]
                scopes = [path[-1] for path in paths]
                scopes += [part.name for part in self.parts if part.name]
                refusal.names = [f"{shown_name(one)}.{shown_name(node.name)}" for one in scopes]
                raise refusal
            if found:
                return found[0], n_parts
        if len(names) == 1 and names[0] in self.aliases:
            return self.aliases[names[0]], 1
        raise self.unknown(node)

    def columns(self) -> Iterator[_Named]:
        """All columns, as in `elements`; those without a name are called ""."""
        yield from self.elements
        for part in self.parts:
            for i, name in enumerate(part.rows.names):
                if (part.number, i) not in self.added:
                    yield part.number, part.path, name, (part.number, i)

    def _called(self, scope: Parts, name: str) -> Iterator[Value]:
        for _, path, own, place in self.columns():
            if own == name and _is_called(path, scope) and (scope or place not in self.hidden):
                yield self.value(place)

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


def with_wider(rows: Rows, other: Rows) -> Rows:
    """A relation whose numbers have the type of UNION with those of another, where it differs.

    Privacy units stay as they are.
    """

    def cast(own: Value, theirs: Value) -> Value:
        kind = united(own.type, theirs.type)
        if own.is_person or theirs.is_person or kind == own.type:
            return own
        return Value(f"TRY_CAST({own.sql} AS {kind})", kind)

    part = FromPart((), 0, rows)
    pairs = zip(range(len(rows.values)), other.values, strict=False)
    values = tuple(cast(part.value(i), theirs) for i, theirs in pairs)
    if len(values) < len(rows.values) or values == tuple(map(part.value, range(len(values)))):
        return rows
    return Rows(From([part]).select(values), rows.names, values, rows.person_type)


_CLAUSES = {
    "limit": "LIMIT", "offset": "OFFSET", "qualify": "QUALIFY", "windows": "WINDOW",
    "sample": "a sample", "laterals": "LATERAL", "pivots": "PIVOT", "distinct": "DISTINCT",
    "recursive": "RECURSIVE", "joins": "a join", "method": "this kind of join",
    "on": "DISTINCT ON", "when": "a time travel clause", "ordinality": "WITH ORDINALITY",
}  # fmt: skip


def only(node: Node, allowed: Collection[str]) -> None:
    """Refuse a node that carries anything beyond the allowed parts."""
    for key, value in node.args.items():
        if value and key not in allowed:
            at = value[0] if isinstance(value, list) else value
            clause = _CLAUSES.get(key, key.upper().replace("_", " "))
            at = at if hasattr(at, "walk") else node
            raise other_form(at) or refuse(
                at,
                f"{clause[0].upper()}{clause[1:]} is not supported in the source of a DP call, "
                "because one person's rows could then depend on another's",
                {"on": FIRST_ROW, "recursive": ALONE}.get(key, ALLOWED),
            )


def ctes_of(tree: Node) -> dict[str, Node]:
    """The queries of the CTEs of a SELECT or UNION, by folded name, in their order."""
    clause, bodies = tree.args.get("with_"), dict[str, Node]()
    if clause is not None:
        only(clause, {"expressions"})
    for cte in clause.expressions if clause is not None else ():
        only(cte, {"this", "alias", "materialized"})
        alias, body = cte.args["alias"], cte.this
        if alias.args.get("columns"):
            body = exp.select("*").from_(exp.Subquery(this=body, alias=alias))
        if folded(alias.name) in bodies:
            raise refuse(cte, "Two CTEs have the same name", ALLOWED)
        bodies[folded(alias.name)] = body
    return bodies


def ordering(node: Node) -> str:
    """The way of a part of ORDER BY, written out: DESC NULLS LAST."""
    only(node, {"this", "desc", "nulls_first"})
    nulls = "FIRST" if node.args.get("nulls_first") else "LAST"
    return f"{'DESC' if node.args.get('desc') else 'ASC'} NULLS {nulls}"


def list_value(node: Node, scope: Scope) -> Value:
    """Compile a list that unnest makes rows of, or take it as the owner wrote it."""
    value = row_wise(node, scope)
    if not value.type.endswith("[]"):
        hint = "Name its fields, as in address.city." if value.type[:7] == "STRUCT(" else UNNEST
        raise refuse(node, f"unnest takes a list, not {value.type}", hint)
    return value


def conditions(node: Node, scope: Scope) -> list[str]:
    """Compile a WHERE clause or another chain of AND, or take it as the owner wrote it.

    What an owner writes beside a subquery is computed as under a policy.
    """
    has_query = scope.as_written is not None and node.find(exp.Query) is not None
    found = []
    for term in conjuncts(node):
        try:
            found.append(scope.condition(term))
        except Refused:
            if scope.as_written is None:
                raise
            if not has_query:
                return [scope.as_written(node).sql]
            found.append(scope._replace(as_written=None).condition(term))
    return found


def conjuncts(node: Node | None) -> list[Node]:
    """The terms of a chain of AND, in their order."""
    around = exp.Paren | exp.And
    walked = [] if node is None else node.dfs(prune=lambda one: not isinstance(one, around))
    return [term for term in walked if not isinstance(term, around)]


def where_terms(tree: Node) -> list[Node]:
    """The terms of the WHERE clause of a SELECT."""
    clause = tree.args.get("where")
    return conjuncts(None if clause is None else clause.this)


def projections(tree: exp.Select, source: From, scope: Scope) -> tuple[list[str], list[Value]]:
    """The names and the values of a SELECT's list."""
    found: list[tuple[str, Value]] = []
    for node in tree.expressions:
        inner = node.unalias()
        star = inner.this if isinstance(inner, exp.Column) else inner
        if isinstance(star, exp.Star) and inner is node:
            table = folded(inner.table) if isinstance(inner, exp.Column) else None
            found += _star(star, table, source, scope)
        elif isinstance(inner, exp.Explode):
            if inner.expressions:
                raise refuse(inner, "unnest takes one list here", UNNEST)
            only(inner, {"this"})
            value = list_value(inner.this, scope)._replace(is_unnested=True)
            found.append((column_name(node), value))
        else:
            found.append((column_name(node), with_facts(inner, scope)))
    return [name for name, _ in found], [value for _, value in found]


def _star(star: exp.Star, table: str | None, source: From, scope: Scope) -> list[tuple[str, Value]]:
    only(star, {"except_", "replace", "rename"})
    dropped = star.args.get("except_") or []
    if any(node.args.get("table") for node in dropped):
        raise refuse(star, "EXCLUDE takes names without a table", ALLOWED)
    gone = {folded(node.name) for node in dropped}
    put = {folded(n.alias): row_wise(n.this, scope) for n in star.args.get("replace") or []}
    called = {folded(n.this.name): folded(n.alias) for n in star.args.get("rename") or []}
    columns = sorted(source.columns(), key=lambda column: column[0])  # in the order of FROM
    listed = [
        (name, source.value(place))
        for _, path, name, place in columns
        if (place not in source.hidden if table is None else (table,) == path[-1:])
    ]
    changed = [*gone, *put, *called]
    if len(changed) != len(set(changed)) or not set(changed) <= {name for name, _ in listed}:
        raise refuse(star, "EXCLUDE, REPLACE and RENAME take each column of the star once", ALLOWED)
    found = [(called.get(n, n), put.get(n, value)) for n, value in listed if n not in gone]
    if not found:
        raise refuse(star, "This star lists no column", ALLOWED)
    return found


def column_name(node: Node) -> str:
    """What DuckDB calls a column of a list; an expression without an alias has no name here."""
    if isinstance(node, exp.Alias | exp.Column):
        return folded(node.alias_or_name)
    return ""


def flattened(node: Node) -> tuple[Node, list[Node]]:
    """The first relation of FROM, and the joins that sqlglot keeps inside it or its brackets."""
    joins: list[Node] = []
    while True:
        joins = [*(node.args.get("joins") or []), *joins]
        inner = node.this
        bracket = isinstance(node, exp.Subquery) and isinstance(inner, exp.Table | exp.Subquery)
        if not bracket or node.args.get("alias"):
            return node, joins
        only(node, {"this", "joins"})
        node = inner
