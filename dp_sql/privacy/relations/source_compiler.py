"""Is a source person-level, and what does it read?

A relation is compiled from sqlglot's tree into a tree of its own (tree.py), which tree_sql.py
writes as SQL with the person of each row in a column `__dp_person`. That column comes from the
private tables alone, whatever they are called. All other grammar is refused.

Every relation built here is a union over people of a function of that person's rows and of public
rows: base tables are; filtering, projecting and DISTINCT look at one row, or at one person's; a
join of two private relations keeps pairs of the same person; a join with a public one multiplies
each row by public rows; groups are formed within one person; UNION ALL adds, and INTERSECT and
EXCEPT are groups of what it adds.

There are two degrees of trust. Under a policy, nothing of an analyst's text reaches the private
tables. An owner declares tables, files and dataframes in the statement itself, and an expression
of one row that is not compiled is taken as written (declared_tables.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING

from sqlglot import exp

from dp_sql.errors import NotPrivate, QueryError
from dp_sql.privacy.catalog import Parts
from dp_sql.privacy.expressions.expression_compiler import compiled
from dp_sql.privacy.expressions.scope import Scope
from dp_sql.privacy.expressions.value import Value
from dp_sql.privacy.refusals import ALLOWED, Unbound, other_form, refuse
from dp_sql.privacy.relations.base_tables import Tables
from dp_sql.privacy.relations.constants import constant_rows
from dp_sql.privacy.relations.from_clause import From, FromPart
from dp_sql.privacy.relations.rows import Rows
from dp_sql.privacy.relations.select_clauses import (
    check_order,
    conditions,
    ctes_of,
    flattened,
    only,
    projections,
    where_terms,
)
from dp_sql.privacy.relations.tree import LinkedTable, Relation, Table, is_plain
from dp_sql.privacy.relations.tree_sql import Written, written
from dp_sql.sql.sqlglot_tree import Node, Unreadable, tree_of
from dp_sql.sql.tokens import folded

if TYPE_CHECKING:
    from dp_sql.policy.limits import WorkLimits


@dataclass(frozen=True)
class Compiler:
    """Compiles relations.

    tables: what names mean, whose rows tables hold, and how far the person who asks is trusted.
    limits: how much work one person's rows may cause; None: not limited.
    ctes: the CTEs in scope, by folded name; each is compiled where it is first read.
    """

    tables: Tables
    limits: WorkLimits | None = None
    ctes: Mapping[str, Callable[[], Rows]] = field(default_factory=dict)

    def with_ctes(self, bodies: Mapping[str, Node]) -> Compiler:
        """The compiler with CTEs in scope; each sees those before it."""
        compiler = self
        for name, body in bodies.items():
            later = cache(partial(compiler.query, body))
            compiler = replace(compiler, ctes={**compiler.ctes, name: later})
        return compiler

    def without_ctes(self, names: Collection[str], why: str) -> Compiler:
        """The compiler with names that mean CTEs whose bodies it was not given."""

        def refused() -> Rows:
            raise NotPrivate(why)

        return replace(self, ctes={**self.ctes, **dict.fromkeys(names, refused)})

    def query(self, tree: Node) -> Rows:
        """A SELECT, VALUES, or a UNION, INTERSECT or EXCEPT of these."""
        if (constants := constant_rows(tree, self.tables)) is not None:
            return self.tables.declared(constants)
        try:
            match tree:
                case exp.Subquery() if not tree.args.get("alias"):
                    only(tree, {"this"})
                    return self.query(tree.this)
                case exp.Union() | exp.Intersect() | exp.Except():
                    from dp_sql.privacy.relations import set_operations

                    compiler = self.with_ctes(ctes_of(tree))
                    return set_operations.combined(tree, compiler.query, self.tables)
                case exp.Select() if tree.args.get("limit") or tree.args.get("offset"):
                    from dp_sql.privacy.relations.first_rows import first_rows

                    return first_rows(
                        tree, self.tables, self.query, partial(self.computed, every_row=True)
                    )
                case exp.Select():
                    return self._select(tree)
        except RecursionError:
            raise refuse(tree, "This is nested too deeply", ALLOWED) from None
        why = "A source must be a SELECT, or a UNION of SELECTs"
        raise other_form(tree) or refuse(tree, why, ALLOWED)

    def _select(self, tree: exp.Select) -> Rows:
        # These and joins are imported where they are needed: FROM one table needs none of them.
        from dp_sql.privacy.relations import aliases, joins, person_groups, person_windows

        known = {"expressions", "from_", "joins", "where", "group", "having", "distinct", "with_"}
        only(tree, {*known, "order", "qualify", "windows"})  # without LIMIT an order says nothing
        compiler = self.with_ctes(ctes_of(tree))
        source = compiler.from_clause(tree)
        scope = compiler.scope(source)
        check_order(tree, scope)
        aliases.put_aliases(tree, source, scope)
        compiler.where(tree, source)
        if tree.args.get("group") is not None or tree.args.get("having") is not None:
            return person_groups.grouped(tree, source, scope, self.tables.is_of_one_person)
        if person_windows.has_windows(tree, source):
            of_one = self.tables.is_of_one_person
            tree, source, scope = person_windows.windowed(tree, source, compiler.scope, of_one)
            aliases.put_aliases(tree, source, scope)
        else:
            scope = compiler.scope_of_rows(source)
        names, values = projections(tree, source, scope)
        if any(value.is_unnested for value in values):
            source, values = joins.unnested(tree, source, values)
        distinct = tree.args.get("distinct")
        if distinct is not None:
            only(distinct, set())
            values = person_groups.distinct_values(distinct, source, values, self.tables)
        relation = source.select(values, distinct=distinct is not None)
        return Rows(relation, tuple(names), tuple(values), source.person_type)

    def from_clause(self, tree: Node) -> From:
        """The FROM clause of a SELECT with its joins."""
        clause = tree.args.get("from_")
        if clause is None:
            raise refuse(tree, "A source needs a FROM clause", ALLOWED)
        first, inner = flattened(clause.this)
        source = From()
        source.parts.append(self.part(first, source))
        for join in [*inner, *(tree.args.get("joins") or [])]:
            if join.this.args.get("joins"):
                raise refuse(join.this, "Joins in brackets are not supported in a source", ALLOWED)
            from dp_sql.privacy.relations.join_clauses import add_join

            add_join(self, join, source, where_terms(tree))
        return source

    def part(self, node: Node, source: From) -> FromPart:
        """One relation of FROM; what is joined to it is read by from_clause."""
        alias = node.args.get("alias")
        path: Parts = ()
        constants = constant_rows(node, self.tables)
        if constants is not None:
            rows = constants
        elif isinstance(node, exp.Subquery):
            only(node, {"this", "alias", "joins"})
            rows = self.query(node.this)
        elif isinstance(node, exp.Table) and (
            self.tables.trusted or isinstance(node.this, exp.Identifier)
        ):
            only(node, {"this", "db", "catalog", "alias", "joins"})
            rows, path = self._named(node)
        else:
            why = "FROM of a source takes tables, views, CTEs and subqueries"
            raise other_form(node) or refuse(node, why, ALLOWED)
        if alias is not None:
            path = (folded(alias.name),)
            renamed = tuple(map(folded, node.alias_column_names))
            if len(renamed) > len(rows.names):
                raise refuse(node, f"{alias.name} has only {len(rows.names)} columns", ALLOWED)
            rows = rows._replace(names=renamed + rows.names[len(renamed) :])
        rows = self.tables.declared(rows)
        if self.tables.trusted:
            rows = rows.with_clear_unit()
        part = FromPart(path, len(source.parts), rows.read_from())
        if part.name and any(other.name == part.name for other in source.parts):
            raise refuse(node, f"Two tables in FROM are called {part.name}", "Give each an alias.")
        return part

    def _named(self, node: exp.Table) -> tuple[Rows, Parts]:
        """The rows of a table, view or CTE, and what its columns may be qualified with."""
        parts = tuple(part.name for part in node.parts)
        path = tuple(folded(part) for part in parts)
        if path[0] in self.ctes and len(parts) == 1:
            try:
                return self.ctes[path[0]](), path
            except (NotPrivate, Unbound) as inner:
                if hasattr(inner, "node") and "sql" in inner.node.root().meta:
                    raise  # it has a place of its own
                why = f"In {node.name}: {inner.message.rstrip('.')}"
                raise refuse(node, why, ALLOWED) from None
        rows = self.tables.rows(node, parts)
        if rows is None:
            body = self.tables.view(parts)
            if body is None:
                raise self.tables.unknown(node, parts)
            return self._view(body, parts, node), path
        table = rows.relation.table if isinstance(rows.relation, LinkedTable) else rows.relation
        if isinstance(table, Table) and table.is_stored:
            path = tuple(folded(part) for part in table.name)
        elif self.tables.trusted:  # DuckDB calls a file by its name without folder and ending
            path = (path[-1].replace("\\", "/").rsplit("/", 1)[-1].split(".", 1)[0],)
        return rows, path

    def listed_view(self, parts: Sequence[str]) -> Rows | None:
        """The rows of a view that the policy lists; NotPrivate where it is not person-level."""
        body, node = self.tables.view(parts), exp.Table(this=exp.Identifier(this=parts[-1]))
        return None if body is None else self._view(body, parts, node)

    def _view(self, body: str, parts: Sequence[str], node: Node) -> Rows:
        try:
            tables = self.tables.inside(parts)
            tables.check(body)
            rows = Compiler(tables).query(tree_of(body))
        except (Unreadable, NotPrivate, Unbound) as inner:
            why = f"The view {node.name} is not provably person-level"
            hint = "The owner can rewrite it with the SQL that analysts may use."
            if self.tables.trusted:
                why += f": {inner.message.rstrip('.')}" if isinstance(inner, QueryError) else ""
                hint = "Make it a table (CREATE TABLE … AS …), and name that table."
            raise refuse(node, why, hint) from None
        self.tables.note_view(parts, rows)
        # Its expressions are the owner's: an analyst is not told of their literals.
        return rows._replace(values=tuple(value._replace(facts_of="") for value in rows.values))

    def where(self, tree: Node, source: From) -> None:
        """Add the WHERE clause of a SELECT, in which EXISTS and IN may read private tables."""
        clause = tree.args.get("where")
        if clause is not None:
            source.where += conditions(clause.this, self.scope_of_rows(source))

    def scope_of_rows(self, source: From) -> Scope:
        """What a condition of WHERE, an item or a key may use, too: EXISTS and IN (SELECT …)."""
        # Some are compiled more than once. For sqlglot 28 ->> 'a' is the same as ->> 'A'.
        known = cache(lambda _, *asked: self._matched(source, *asked))
        return self.scope(source)._replace(matched=lambda *asked: known(repr(asked[0]), *asked))

    def _matched(self, source: From, query: Node, value: Value | None) -> Value | None:
        """Whether a row has a match in a query; None for a value IN public rows."""
        from dp_sql.privacy.relations import matches

        while isinstance(query, exp.Subquery) and not query.args.get("alias"):
            only(query, {"this"})
            query = query.this
        if value is not None:
            rows = self.query(query)
            if not rows.is_private:
                return None
            return matches.among(query, value, rows, source, self.scope(source), self.tables)
        matches.check_exists(query)
        compiler = self.with_ctes(ctes_of(query))
        inner = compiler.from_clause(query)
        scopes = (compiler.scope, compiler.scope_of_rows)
        columns = replace(source, aliases={})  # without the aliases
        match = matches.correlated(where_terms(query), columns, inner, *scopes)
        return matches.has_match(query, source, inner, match, self.tables)

    def _public_column(self, query: Node) -> Rows:
        rows = self.query(query)
        if rows.is_private or len(rows.values) != 1:
            why = "IN (SELECT …) must select one column, from public tables only"
            hint = "Over people's rows it is supported in WHERE, items, keys and a subquery's list."
            raise refuse(query, why, hint if rows.is_private else ALLOWED)
        return rows

    def scope(self, source: From) -> Scope:
        """What an expression over this FROM clause may use."""

        def public_column(query: Node, every_row: bool) -> Value:
            """A public query of one column, as the right side of IN."""
            rows = self._public_column(query)
            found = self.computed(rows, every_row)
            source.looked_in.append((found.sql, found.tables, rows.relation))
            return rows.values[0]._replace(sql=f"({found.sql})")

        trusted = partial(self.tables.as_written, source) if self.tables.trusted else None
        schema, now = self.tables.schema, self.tables.now
        return Scope(compiled, source.column, schema, public_column, now, as_written=trusted)

    def written(self, relation: Relation, *, every_row: bool = False) -> Written:
        """A relation as SQL; see tree_sql.written."""
        return written(relation, self.tables.schema, self.limits, every_row=every_row)

    def computed(self, rows: Rows, every_row: bool = False) -> Written:
        """A public relation as SQL; what is more than a table is computed here, once."""
        found = self.written(rows.relation, every_row=every_row)
        if is_plain(rows.relation):
            return found
        held, tables = self.tables.schema.public_rows(found.sql, found.tables)
        listed = ", ".join(f"c{i}" for i in range(len(rows.values)))
        return found._replace(sql=f"SELECT {listed} FROM {held}", tables=tables)
