"""Under a policy: is a source person-level, and what does it read?

A relation is compiled from sqlglot's tree into a tree of ours (person_tree.py), which person_sql.py
writes as SQL with the person of each row in a column `__dp_person`. That column comes from the
policy's tables and from nowhere else. So nothing of an analyst's text reaches the private tables, a
misread text is at worst a wrong question, and the person of a row does not depend on any name. What
the grammar below does not name is refused.

Every relation built here is a union over people of a function of that person's rows and of public
rows: base tables are; filtering, projecting and DISTINCT look at one row, or at one person's; a
join of two private relations keeps pairs of the same person; a join with a public one multiplies
each row by public rows; groups are formed within one person; UNION ALL adds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Protocol

from sqlglot import exp

from dp_sql.errors import NotPrivate
from dp_sql.policy.limits import WorkLimits
from dp_sql.policy.model import Link, Policy, PrivateTable
from dp_sql.privacy.collations import agree, collations
from dp_sql.privacy.comparisons import SMALL
from dp_sql.privacy.expressions import (
    Refused,
    Scope,
    Value,
    compiled,
    condition,
    is_aggregate,
    refuse,
    settled,
)
from dp_sql.privacy.relation_sql import PublicFacts, Written, written
from dp_sql.privacy.relation_tree import (
    Group,
    LeftJoin,
    LinkedTable,
    Parts,
    Relation,
    Select,
    Table,
    UnionAll,
    is_plain,
)
from dp_sql.sql.formatting import full_name, quote
from dp_sql.sql.sqlglot_tree import Node, Unreadable, tree_of
from dp_sql.sql.tokens import folded
from dp_sql.sql.types import EXACT_TYPES, as_key, family, without_labels

_HINT = (
    "Allowed: private tables, joins of them on the privacy unit, joins with public tables on equal "
    "columns, WHERE of total functions, CTEs and subqueries of those, GROUP BY the privacy unit, "
    "UNION ALL."
)


class Schema(PublicFacts, Protocol):
    """What this file may ask of an engine. No method reads a private row."""

    def table(self, parts: Sequence[str]) -> Parts | None:
        """The base table that a name means, by its full name; None where there is none."""

    def view(self, parts: Sequence[str]) -> str | None:
        """The query of a view; None where there is no such view."""

    def inside(self, view: Sequence[str]) -> Schema:
        """The schema as the query of a view reads names."""

    def columns(self, select: str) -> list[tuple[str, str]]:
        """Names and types of a SELECT's columns, without running it."""

    def readable(self, text: str, type_name: str) -> bool:
        """Whether a text can be cast to a type."""

    def binds(self, select: str) -> bool:
        """Whether DuckDB can bind a SELECT; it is not run."""


_NUMBER = re.compile(r"\d{1,6}", re.ASCII)


@dataclass(frozen=True)
class Rows:
    """A relation, and what its columns are called.

    names: in the order of `values`, folded.
    person_type: the type of the privacy unit; None: a public relation.
    """

    relation: Relation
    names: tuple[str, ...]
    values: tuple[Value, ...]
    person_type: str | None

    @property
    def private(self) -> bool:
        """Whether its rows belong to people."""
        return self.person_type is not None

    def read_from(self) -> Rows:
        """The same as a relation of FROM: of several columns with one name only the first has it.

        DuckDB calls the others x_1, x_2 and so on; here these names lead nowhere.
        """
        twice = {name for name in self.names if name and self.names.count(name) > 1}
        if not twice:
            return self
        numbered = re.compile(f"({'|'.join(map(re.escape, sorted(twice)))})_[0-9]+")
        names = (
            "" if name in self.names[:i] or numbered.fullmatch(name) else name
            for i, name in enumerate(self.names)
        )
        return replace(self, names=tuple(names))

    def without_unit(self) -> Rows:
        """The same where the privacy unit may be NULL beside a person, as after a left join."""
        return replace(self, values=tuple(replace(v, is_person=False) for v in self.values))


@dataclass(frozen=True)
class _Part:
    """One relation of a FROM clause: what it is called there, and its number in our SQL."""

    alias: str | None
    number: int
    rows: Rows

    def value(self, index: int) -> Value:
        return replace(self.rows.values[index], sql=f"r{self.number}c{index}")


@dataclass
class From:
    """A FROM clause under construction, with the conditions of its joins."""

    parts: list[_Part] = field(default_factory=list)
    hidden: set[tuple[int, int]] = field(default_factory=set)
    """Columns of USING on the right side: they are found by their table's name only."""
    looked_in: list[tuple[str, frozenset[Parts]]] = field(default_factory=list)
    """The public relations that an IN (…) reads, as SQL, and their tables."""
    equal: list[tuple[str, str]] = field(default_factory=list)
    left_joins: list[LeftJoin] = field(default_factory=list)
    where: list[str] = field(default_factory=list)

    @property
    def person_type(self) -> str | None:
        """The type of the privacy unit; None where all relations are public."""
        return None if self.private is None else self.private.rows.person_type

    def select(
        self, values: Sequence[Value], *, distinct: bool = False, group: Group | None = None
    ) -> Relation:
        """The SELECT of some expressions from it."""
        if len(self.parts) == 1 and not (self.where or distinct or group):
            only = self.parts[0].rows
            if [value.sql for value in values] == [f"r0c{i}" for i in range(len(only.values))]:
                return only.relation
        return Select(
            relations=tuple(part.rows.relation for part in self.parts),
            equal=tuple(self.equal),
            left_joins=tuple(self.left_joins),
            where=tuple(self.where),
            values=tuple(value.sql for value in values),
            types=tuple(value.type for value in values),
            distinct=distinct,
            group=group,
            looked_in=tuple(self.looked_in),
        )

    @property
    def private(self) -> _Part | None:
        """The first private relation, whose `__dp_person` is that of the row."""
        return next((part for part in self.parts if part.rows.private), None)

    def column(self, node: exp.Column) -> Value:
        """Find a column, or refuse it."""
        if isinstance(node.this, exp.Star) or len(node.parts) > 2:
            raise refuse(node, f"{node.sql(dialect='duckdb')} is not a column of the source", _HINT)
        name, alias = folded(node.name), folded(node.table) if node.table else None
        found = [
            part.value(i)
            for part in self.parts
            if alias is None or part.alias == alias
            for i, own in enumerate(part.rows.names)
            if own == name and (alias is not None or (part.number, i) not in self.hidden)
        ]
        if len(found) != 1:
            why = "more than one column of the source" if found else "not a column of the source"
            raise refuse(node, f"{node.sql(dialect='duckdb')} is {why}", _HINT)
        return found[0]


@dataclass(frozen=True)
class Compiler:
    """Compiles relations under one policy.

    limits: how much work one person's rows may cause; None: not limited.
    ctes: bodies of the CTEs in scope, by folded name; compiled where they are read.
    shows_views: whether a refusal may say what is wrong inside a view.
    """

    policy: Policy
    schema: Schema
    limits: WorkLimits | None = None
    ctes: Mapping[str, Callable[[], Rows]] = field(default_factory=dict)
    shows_views: bool = False

    def with_ctes(self, bodies: Mapping[str, Node]) -> Compiler:
        """The compiler with CTEs in scope, each seeing those before it."""
        compiler = self
        for name, body in bodies.items():
            known = dict(compiler.ctes)
            known[name] = _compile_later(compiler, body)
            compiler = replace(compiler, ctes=known)
        return compiler

    def without_ctes(self, names: Collection[str]) -> Compiler:
        """The compiler with names that mean CTEs whose bodies it was not given."""

        def refused() -> Rows:
            raise NotPrivate("This CTE is recursive, renames its columns, or stands in brackets.")

        return replace(self, ctes={**self.ctes, **dict.fromkeys(names, refused)})

    # --- queries ---

    def query(self, tree: Node) -> Rows:
        """A SELECT, or a UNION ALL of SELECTs."""
        try:
            return self._query(tree)
        except RecursionError:
            raise refuse(tree, "This is nested too deeply", _HINT) from None

    def _query(self, tree: Node) -> Rows:
        if isinstance(tree, exp.Subquery) and not tree.args.get("alias"):
            _only(tree, {"this"})
            return self.query(tree.this)
        if isinstance(tree, exp.Union):
            return self._union(tree)
        if not isinstance(tree, exp.Select):
            raise refuse(tree, "A source is made of SELECTs", _HINT)
        return self._select(tree)

    def _union(self, tree: exp.Union) -> Rows:
        _only(tree, {"this", "expression", "distinct", "with", "with_"})
        if tree.args.get("distinct"):
            raise refuse(tree, "UNION drops rows by comparing people; UNION ALL keeps them", _HINT)
        compiler = self._with(tree)
        left, right = compiler.query(tree.this), compiler.query(tree.expression)
        types = [[v.type for v in rows.values] for rows in (left, right)]
        if types[0] != types[1] or left.person_type != right.person_type:
            raise refuse(
                tree, "Both sides of UNION ALL must have the same columns and types", _HINT
            )
        values = tuple(
            replace(a, origin=a.origin if a.origin == b.origin else None,
                    is_person=a.is_person and b.is_person, collation=agree(tree, a, b))
            for a, b in zip(left.values, right.values, strict=True)
        )  # fmt: skip
        relation = UnionAll(left.relation, right.relation)
        return Rows(relation, left.names, values, left.person_type)

    def _select(self, tree: exp.Select) -> Rows:
        known = {"expressions", "from", "from_", "joins", "where", "group", "having", "distinct"}
        _only(tree, known | {"with", "with_", "order"})  # without LIMIT an order says nothing
        compiler = self._with(tree)
        source = compiler.from_clause(tree)
        scope = compiler.scope(source)
        source.where += conditions(tree.args.get("where"), scope)
        if tree.args.get("group") is not None or tree.args.get("having") is not None:
            return compiler._grouped(tree, source, scope)
        names, values = compiler._projections(tree, source, scope)
        distinct = tree.args.get("distinct")
        if distinct is not None:
            _only(distinct, set())
            if source.private is not None and not any(value.is_person for value in values):
                raise refuse(distinct, "DISTINCT without the privacy unit mixes people", _HINT)
            values = [settled(value, distinct) for value in values]
        relation = source.select(values, distinct=distinct is not None)
        return Rows(relation, tuple(names), tuple(values), source.person_type)

    def _with(self, tree: Node) -> Compiler:
        clause = tree.args.get("with_") or tree.args.get("with")
        if clause is None:
            return self
        _only(clause, {"expressions"})
        bodies = {}
        for cte in clause.expressions:
            _only(cte, {"this", "alias", "materialized"})
            alias = cte.args["alias"]
            if alias.args.get("columns"):
                raise refuse(cte, "Give columns their names inside the CTE", _HINT)
            if folded(alias.name) in bodies:
                raise refuse(cte, "Two CTEs have one name", _HINT)
            bodies[folded(alias.name)] = cte.this
        return self.with_ctes(bodies)

    # --- FROM ---

    def from_clause(self, tree: Node) -> From:
        """The FROM clause of a SELECT with its joins."""
        clause = tree.args.get("from_") or tree.args.get("from")
        if clause is None:
            raise refuse(tree, "A source without FROM holds nobody's rows", _HINT)
        first, joins = _flattened(clause.this)
        source = From()
        source.parts.append(self._part(first, source))
        for join in [*joins, *(tree.args.get("joins") or [])]:
            self._join(join, source)
        return source

    def _part(self, node: Node, source: From) -> _Part:
        if node.args.get("joins"):
            raise refuse(node, "Joins in brackets are not known here", _HINT)
        alias = node.args.get("alias")
        if alias is not None and alias.args.get("columns"):
            raise refuse(
                node, "FROM … AS name(column, …) hides whose row a row is",
                "Write the alias without the column list.",
            )  # fmt: skip
        name = folded(alias.name) if alias is not None else None
        if isinstance(node, exp.Subquery):
            _only(node, {"this", "alias"})
            rows = self.query(node.this)
        elif isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            _only(node, {"this", "db", "catalog", "alias"})
            rows, name = self._named(node), name or folded(node.name)
        else:
            raise refuse(node, "A source reads tables by their names", _HINT)
        if name is not None and any(part.alias == name for part in source.parts):
            raise refuse(node, f"Two relations are called {name} here", "Give each an alias.")
        return _Part(name, len(source.parts), rows.read_from())

    def _named(self, node: exp.Table) -> Rows:
        parts = [part.name for part in node.parts]
        if len(parts) == 1 and folded(parts[0]) in self.ctes:
            try:
                return self.ctes[folded(parts[0])]()
            except NotPrivate as inner:
                raise refuse(node, f"In {node.name}: {inner.message.rstrip('.')}", _HINT) from None
        full = self.schema.table(parts)
        if full is not None:
            for table in self.policy.tables.values():
                if self.schema.table(table.name) == full:
                    return self._people(table, node)
            if full in {self.schema.table(name) for name in self.policy.public}:
                return self._whole(full)[0]
        view = self._listed_view(parts)
        if view is not None:
            return self._view(view, parts, node)
        raise refuse(
            node, f"There is no table {'.'.join(parts)}", "SHOW TABLES lists what there is."
        )

    def listed_view(self, parts: Sequence[str]) -> Rows | None:
        """The rows of a view that the policy lists; None where it lists none of this name.

        Raises:
            NotPrivate: the view is not provably person-level.
        """
        sql = self._listed_view(parts)
        if sql is None:
            return None
        return self._view(sql, parts, exp.Table(this=exp.Identifier(this=parts[-1])))

    def _view(self, sql: str, parts: Sequence[str], node: Node) -> Rows:
        inside = self.schema.inside(parts)
        try:
            compiler = Compiler(self.policy, inside, shows_views=self.shows_views)
            return compiler.query(tree_of(sql))
        except (Unreadable, NotPrivate) as inner:
            why, hint = "", "Its owner can write it in the grammar that analysts have."
            if self.shows_views and isinstance(inner, NotPrivate):
                why, hint = f": {inner.message.rstrip('.')}", inner.hint or _HINT
            raise refuse(
                node, f"The view {node.name} is not provably person-level{why}", hint
            ) from None

    def _listed_view(self, parts: Sequence[str]) -> str | None:
        """The query of a view that the policy lists."""
        wanted = tuple(folded(part) for part in parts)
        listed = any(name[-len(wanted) :] == wanted for name in self.policy.views)
        return self.schema.view(parts) if listed else None

    def _whole(self, full: Parts) -> tuple[Rows, Table]:
        listed = self.schema.columns(f"SELECT * FROM {full_name(full)}")
        names = tuple(folded(name) for name, _ in listed)
        types = [kind for _, kind in self.columns_of(full)]
        strings = [name for name, kind in listed if family(kind) == "VARCHAR"]
        compared = collations(self.schema.binds, full_name(full), strings)
        values = tuple(
            Value(f"c{i}", kind, (full, folded(name)), collation=compared.get(name, ""))
            for i, ((name, _), kind) in enumerate(zip(listed, types, strict=True))
        )
        columns = tuple(
            quote(name) if kind == own else f"CAST({quote(name)} AS {kind})"
            for (name, own), kind in zip(listed, types, strict=True)
        )
        table = Table(full, columns, tuple(types))
        return Rows(table, names, values, None), table

    def columns_of(self, full: Parts) -> list[tuple[str, str]]:
        """Names and types of a base table's columns, as analysts see them.

        The labels of an ENUM may be people's values (CREATE TYPE … AS ENUM (SELECT …)), so an ENUM
        column of a private table is one of strings, unless the policy says "enum".
        """
        listed = self.schema.columns(f"SELECT * FROM {full_name(full)}")
        if full in {self.schema.table(name) for name in self.policy.public}:
            return listed
        shown = {
            column
            for (table, column), domain in self.policy.domains.items()
            if domain == "enum" and self.schema.table(table) == full
        }
        return [
            (name, kind if folded(name) in shown else without_labels(kind)) for name, kind in listed
        ]

    def _people(self, table: PrivateTable, node: Node) -> Rows:
        """A private table, each row with its person, by its own column or by way of a link."""
        full = self.schema.table(table.name)
        if full is None:
            raise refuse(node, f"There is no table {node.name}", "SHOW TABLES lists what there is.")
        whole, stored = self._whole(full)
        unit = table.unit
        column = unit.column if isinstance(unit, Link) else unit
        if column not in whole.names:
            raise refuse(
                node, f"The policy's privacy unit of {node.name} is not a column of it", ""
            )
        index = whole.names.index(column)
        if not isinstance(unit, Link):
            values = list(whole.values)
            values[index] = replace(values[index], is_person=True)
            kind = values[index].type
            if family(kind) not in EXACT_TYPES:
                raise refuse(node, f"The privacy unit of {node.name} has no exact equality", "")
            private = replace(stored, person=index)
            return Rows(private, whole.names, tuple(values), as_key("", kind)[1])
        owner = self._people(self.policy.tables[unit.table], node)
        if unit.key not in owner.names:
            raise refuse(node, f"The policy's link of {node.name} is not a column", "")
        key = owner.names.index(unit.key)
        kind, other = (as_key("", v.type)[1] for v in (whole.values[index], owner.values[key]))
        if other != kind or family(kind) not in EXACT_TYPES:
            raise refuse(node, f"The policy's link of {node.name} joins different types", "")
        linked = LinkedTable(stored, index, owner.relation, key)
        return Rows(linked, whole.names, whole.values, owner.person_type)

    def _join(self, join: Node, source: From) -> None:
        _only(join, {"this", "side", "kind", "on", "using"})
        side, kind = (str(join.args.get(key) or "").upper() for key in ("side", "kind"))
        on, using = join.args.get("on"), join.args.get("using") or []
        if side not in {"", "LEFT"} or kind not in {"", "INNER", "OUTER"} or not (on or using):
            raise refuse(join, "Only inner and left joins on equal columns are known here", _HINT)
        part = self._part(join.this, source)
        left = From(list(source.parts), set(source.hidden))
        if side == "LEFT" and left.private is None and part.rows.private:
            raise refuse(join, "A left join keeps public rows that nobody has", _HINT)
        owner = left.private
        source.parts.append(part)
        equal, terms = [], []
        for name in using:
            a = left.column(exp.column(name.name))
            b = From([part]).column(exp.column(name.name))
            source.hidden.add((part.number, part.rows.names.index(folded(name.name))))
            equal.append((a, b))
        for term in _conjuncts(on):
            pair = _equal_columns(term, source, left, part)
            if pair is not None:
                equal.append(pair)
            else:
                terms.append(condition(term, self.scope(source)))
        self._check_keys(join, owner, part, equal)
        # Where the people are the same, so are their privacy units.
        pairs = [(a.sql, b.sql) for a, b in equal if not (a.is_person and b.is_person)]
        if side == "LEFT":
            source.left_joins.append(LeftJoin(part.number, tuple(pairs), tuple(terms)))
            source.parts[-1] = replace(part, rows=part.rows.without_unit())
        else:
            source.equal += pairs
            source.where += terms

    def _check_keys(
        self, join: Node, owner: _Part | None, part: _Part, equal: Sequence[tuple[Value, Value]]
    ) -> None:
        for a, b in equal:
            if as_key("", a.type)[1] != as_key("", b.type)[1]:
                raise refuse(join, f"A join compares {a.type} with {b.type}", "Join equal types.")
            agree(join, a, b)
        if not equal:
            raise refuse(join, "A join needs an equal column on both sides", _HINT)
        if owner is not None and part.rows.private:
            same_person = any(
                (a.is_person and b.is_person) or self._linked(a, b) or self._linked(b, a)
                for a, b in equal
            )
            if not same_person or owner.rows.person_type != part.rows.person_type:
                raise refuse(
                    join, "Two private tables are joined on their privacy units, or one person's "
                    "rows would stand beside another's", _HINT,
                )  # fmt: skip

    def _linked(self, a: Value, b: Value) -> bool:
        """Whether two columns are the two ends of a link that the policy declares."""
        return any(
            isinstance(table.unit, Link)
            and a.origin == (self.schema.table(table.name), table.unit.column)
            and b.origin == (self.schema.table(table.unit.table), table.unit.key)
            for table in self.policy.tables.values()
        )

    # --- the list ---

    def scope(self, source: From, aggregate: Callable[[Node], Value] | None = None) -> Scope:
        """What an expression over this FROM clause may use."""

        def listed(query: Node) -> Value:
            rows = self._public_column(query)
            found = self._computed(rows)
            source.looked_in.append((found.sql, found.tables))
            return replace(rows.values[0], sql=f"({found.sql})")

        return Scope(source.column, self.schema.readable, listed, aggregate)

    def written(self, rows: Rows, *, every_row: bool = False) -> Written:
        """A relation as SQL; see person_sql.written."""
        return written(rows.relation, self.schema, self.limits, every_row=every_row)

    def sql_of(self, relation: Relation) -> Written:
        """The rows that a release reads, as SQL; see person_sql.written."""
        return written(relation, self.schema, self.limits)

    def _computed(self, rows: Rows) -> Written:
        """A public relation as SQL; what is more than a table is computed here, once."""
        found = self.written(rows)
        if is_plain(rows.relation):
            return found
        held, tables = self.schema.public_rows(found.sql, found.tables)
        return replace(found, sql=f"SELECT c0 FROM {held}", tables=tables)

    def _public_column(self, query: Node) -> Rows:
        """A public query of one column, as the right side of IN."""
        rows = self.query(query)
        if rows.private or len(rows.values) != 1:
            raise refuse(query, "IN takes one column of public tables", _HINT)
        return rows

    def _projections(
        self, tree: exp.Select, source: From, scope: Scope
    ) -> tuple[list[str], list[Value]]:
        names: list[str] = []
        values: list[Value] = []
        for node in tree.expressions:
            inner = node.unalias()
            star = inner.this if isinstance(inner, exp.Column) else inner
            if isinstance(star, exp.Star) and inner is node:
                table = folded(inner.table) if isinstance(inner, exp.Column) else None
                for name, value in self._star(star, table, source, scope):
                    names.append(name)
                    values.append(value)
            else:
                names.append(_name(node))
                values.append(compiled(inner, scope))
        return names, values

    def _star(
        self, star: exp.Star, table: str | None, source: From, scope: Scope
    ) -> list[tuple[str, Value]]:
        _only(star, {"except", "except_", "replace", "rename"})
        dropped = star.args.get("except_") or star.args.get("except") or []
        if any(node.args.get("table") for node in dropped):
            raise refuse(star, "EXCLUDE takes names without a table", _HINT)
        gone = {folded(node.name) for node in dropped}
        put = {folded(n.alias): compiled(n.this, scope) for n in star.args.get("replace") or []}
        called = {folded(n.this.name): folded(n.alias) for n in star.args.get("rename") or []}
        listed = [
            (name, part.value(i))
            for part in source.parts
            if table in {None, part.alias}
            for i, name in enumerate(part.rows.names)
            if table is not None or (part.number, i) not in source.hidden
        ]
        changed = [*gone, *put, *called]
        if len(changed) != len(set(changed)) or not set(changed) <= {name for name, _ in listed}:
            raise refuse(
                star, "EXCLUDE, REPLACE and RENAME take each column of the star once", _HINT
            )
        found = [
            (called.get(name, name), put.get(name, value))
            for name, value in listed
            if name not in gone
        ]
        if not found:
            raise refuse(star, "This star lists no column", _HINT)
        return found

    # --- groups of one person's rows ---

    def _grouped(self, tree: exp.Select, source: From, scope: Scope) -> Rows:
        group = tree.args.get("group")
        if group is None or source.private is None or tree.args.get("distinct") is not None:
            raise refuse(
                tree, "Groups are formed of one person's rows: GROUP BY the privacy unit", _HINT
            )
        _only(group, {"expressions", "all"})
        listed = [node.unalias() for node in tree.expressions]
        keys = group.expressions
        if group.args.get("all"):
            keys = [node for node in listed if not _aggregates(node)]
        keys = [self._key(node, listed) for node in keys]
        by = {key.sql: settled(key, node) for node in keys for key in [compiled(node, scope)]}
        if not any(key.is_person for key in by.values()):
            raise refuse(
                group, "GROUP BY must hold the privacy unit: then each group is one person's", _HINT
            )
        groups = _Groups(scope, by)
        grouped = groups.scope
        names = [_name(node) for node in tree.expressions]
        values = [groups.listed(node) for node in listed]
        having, kept = tree.args.get("having"), []
        if having is not None:
            named = {n: v for n, v in zip(names, values, strict=True) if names.count(n) == 1}
            kept = [self._having(having.this, grouped, named)]
        relation = groups.source(source, kept).select(values)
        return Rows(relation, tuple(names), tuple(values), source.person_type)

    def _key(self, node: Node, listed: Sequence[Node]) -> Node:
        if isinstance(node, exp.Literal) and not node.is_string and _NUMBER.fullmatch(node.this):
            index = int(node.this) - 1
            if 0 <= index < len(listed):
                return listed[index]
        return node

    def _having(self, node: Node, grouped: Scope, named: Mapping[str, Value]) -> str:
        def column(found: exp.Column) -> Value:
            if not found.table and folded(found.name) in named:
                return named[folded(found.name)]
            return grouped.column(found)

        return condition(node, replace(grouped, column=column))


class _Groups:
    """Groups of one person's rows: an inner SELECT of keys and aggregates, to compute with outside.

    DuckDB binds no aggregate inside TRY(…), and year(min(day)) needs one.
    """

    def __init__(self, scope: Scope, by: Mapping[str, Value]) -> None:
        """Take the scope of the rows, and the settled keys by the SQL of what they were."""
        self._rows = scope
        self._keys = list(by.values())
        self._by = {sql: replace(key, sql=f"r0c{i}") for i, (sql, key) in enumerate(by.items())}
        self._computed: list[Value] = []
        self._counts_rows = False
        self.scope = replace(scope, column=self._column, aggregate=self._aggregate)

    def _column(self, node: exp.Column) -> Value:
        found = self._by.get(self._rows.column(node).sql)
        if found is None:
            raise refuse(node, f"{node.sql(dialect='duckdb')} is no key of GROUP BY", _HINT)
        return found

    def _aggregate(self, node: Node) -> Value:
        value = _aggregate(node, self._rows)
        self._counts_rows |= _counts_rows(node)
        written = [known.sql for known in self._computed]
        if value.sql not in written:
            self._computed.append(value)
            written.append(value.sql)
        return replace(value, sql=f"r0c{len(self._keys) + written.index(value.sql)}")

    def listed(self, node: Node) -> Value:
        """An expression that is a key as it stands, or made of keys and aggregates."""
        if not _aggregates(node):
            key = self._by.get(compiled(node, self._rows).sql)
            if key is not None:
                return key
        return compiled(node, self.scope)

    def source(self, rows: From, having: list[str]) -> From:
        """The inner SELECT as a FROM clause, once all that it must compute is known."""
        group = Group(
            keys=tuple(sorted(key.sql for key in self._keys)),
            is_whole=all(key.is_person for key in self._keys),
            counts_rows=self._counts_rows,
        )
        values = (*self._keys, *self._computed)
        relation = rows.select(values, group=group)
        inner = Rows(relation, ("",) * len(values), values, rows.person_type)
        return From([_Part(None, 0, inner)], where=having)


def _name(node: Node) -> str:
    """What DuckDB calls a column of a list, as far as we follow it: others have no name here."""
    if isinstance(node, exp.Alias | exp.Column):
        return folded(node.alias_or_name)
    return ""


def _compile_later(compiler: Compiler, body: Node) -> Callable[[], Rows]:
    return cache(lambda: compiler.query(body))


def _aggregates(node: Node) -> bool:
    return any(is_aggregate(inner) for inner in node.walk())


def _counts_rows(node: Node) -> bool:
    """Whether a node is an aggregate that uses how often a row occurs."""
    if isinstance(node, exp.Count):
        return not isinstance(node.this, exp.Distinct)
    return is_aggregate(node) and not isinstance(node, exp.Min | exp.Max)


def conditions(where: Node | None, scope: Scope) -> list[str]:
    """The conditions of a WHERE clause; all must hold."""
    return [] if where is None else [condition(term, scope) for term in _conjuncts(where.this)]


def _aggregate(node: Node, scope: Scope) -> Value:
    """An aggregate over one person's rows that cannot overflow or fail."""
    inner = node.this
    if isinstance(node, exp.Anonymous):
        _only(node, {"this"})
        return Value("system.main.count(*)", "BIGINT")
    if isinstance(node, exp.Count):
        _only(node, {"this", "big_int"})
        if isinstance(inner, exp.Star) or inner is None:
            if inner is not None:
                _only(inner, set())
            return Value("system.main.count(*)", "BIGINT")
        if isinstance(inner, exp.Distinct):
            _only(inner, {"expressions"})
            if len(inner.expressions) != 1:
                raise refuse(node, "count(DISTINCT …) takes one column", _HINT)
            value = settled(compiled(inner.expressions[0], scope), node)
            return Value(f"system.main.count(DISTINCT {value.sql})", "BIGINT")
        return Value(f"system.main.count({compiled(inner, scope).sql})", "BIGINT")
    if isinstance(node, exp.Min | exp.Max):
        _only(node, {"this"})
        value = settled(compiled(inner, scope), node)
        word = "min" if isinstance(node, exp.Min) else "max"
        return Value(f"system.main.{word}({value.sql})", value.type)
    if isinstance(node, exp.Sum):
        _only(node, {"this"})
        value = compiled(inner, scope)
        if family(value.type) in SMALL:  # 2^63 rows of them fit HUGEINT
            return Value(f"system.main.sum({value.sql})", "HUGEINT")
    raise refuse(
        node, "Known aggregates: count, min, max, and sum of integers up to 64 bits", _HINT
    )


def _conjuncts(node: Node | None) -> list[Node]:
    """The terms of a chain of AND, in their order."""
    found: list[Node] = []
    waiting = [] if node is None else [node]
    while waiting:
        term = waiting.pop()
        if isinstance(term, exp.Paren):
            waiting.append(term.this)
        elif isinstance(term, exp.And):
            waiting += [term.expression, term.this]
        else:
            found.append(term)
    return found


def _equal_columns(term: Node, both: From, left: From, part: _Part) -> tuple[Value, Value] | None:
    """The two sides of `a.x = b.y`, first that of the relations so far; None for other terms."""
    if not isinstance(term, exp.EQ):
        return None
    _only(term, {"this", "expression"})
    sides = (term.this, term.expression)
    if not all(isinstance(side, exp.Column) for side in sides):
        return None
    values = [both.column(side) for side in sides]
    new = [value.sql.startswith(f"r{part.number}c") for value in values]
    if new == [True, False]:
        return values[1], values[0]
    return (values[0], values[1]) if new == [False, True] else None


def _flattened(node: Node) -> tuple[Node, list[Node]]:
    """The first relation of FROM, and the joins that sqlglot keeps inside it or its brackets."""
    joins: list[Node] = []
    while True:
        joins = [*(node.args.get("joins") or []), *joins]
        inner = node.this
        bracket = isinstance(node, exp.Subquery) and isinstance(inner, exp.Table | exp.Subquery)
        if not bracket or node.args.get("alias"):
            break
        _only(node, {"this", "joins"})
        node = inner
    if node.args.get("joins"):
        node = node.copy()
        node.set("joins", None)
    return node, joins


_SPOKEN = {
    "limit": "LIMIT", "offset": "OFFSET", "qualify": "QUALIFY", "windows": "WINDOW",
    "sample": "a sample", "laterals": "LATERAL", "pivots": "PIVOT", "distinct": "DISTINCT",
    "recursive": "RECURSIVE", "joins": "a join", "method": "this kind of join",
    "on": "DISTINCT ON", "when": "a time travel clause", "ordinality": "WITH ORDINALITY",
}  # fmt: skip


def _only(node: Node, allowed: set[str]) -> None:
    """Refuse a node that carries anything beyond the allowed parts."""
    for key, value in node.args.items():
        if value and key not in allowed:
            at = value[0] if isinstance(value, list) else value
            where = at if hasattr(at, "walk") else node
            spoken = _SPOKEN.get(key, key.upper())
            raise refuse(
                where, f"{spoken} in a source would let one person's rows depend on another's, or "
                "we cannot prove that it does not", _HINT,
            )  # fmt: skip


__all__ = ["Compiler", "From", "Parts", "Refused", "Rows", "Schema", "conditions"]
