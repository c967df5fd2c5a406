"""ORDER BY … LIMIT over public tables: the rows are found before any private row is read.

Under a policy alone: what an owner does not declare as people's may still be one person's.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from dp_sql.privacy.expressions.literals import whole_number
from dp_sql.privacy.expressions.unsupported import is_aggregate
from dp_sql.privacy.expressions.value import Value
from dp_sql.privacy.refusals import refuse
from dp_sql.privacy.relations.base_tables import Tables
from dp_sql.privacy.relations.rows import Rows
from dp_sql.privacy.relations.select_clauses import only, ordering
from dp_sql.privacy.relations.tree import Table
from dp_sql.privacy.relations.tree_sql import Written
from dp_sql.sql.sqlglot_tree import Node, made_of, parts_of
from dp_sql.sql.tokens import folded


def first_rows(
    tree: exp.Select,
    tables: Tables,
    compiled: Callable[[Node], Rows],
    computed: Callable[[Rows], Written],
) -> Rows:
    """The first rows of a SELECT over public tables, as a table of their own.

    `compiled` and `computed` are those of the compiler: a SELECT, and public rows as SQL.
    """
    plain = made_of(tree, tree.copy())
    for part in ("order", "limit", "offset"):
        plain.set(part, None)
    rows = compiled(plain)
    at = tree.args.get("limit") or tree.args["offset"]
    if rows.is_private:
        only(tree, tree.args.keys() - {"limit", "offset"})
    if tables.trusted:
        why = "LIMIT is not supported in a source, as rows that are not declared may be people's"
        hint = "If they are public, store them first, CREATE TABLE … AS …, and read that table."
        raise refuse(at, why, hint)
    if tree.args.get("order") is None:
        why = "LIMIT without ORDER BY may keep other rows each time"
        raise refuse(at, why, "For example: ORDER BY price DESC LIMIT 3.")
    numbers = " ".join(_number(tree, part) for part in ("limit", "offset") if tree.args.get(part))
    ways, n_columns = [], len(rows.values)
    for one in tree.args["order"].expressions:
        way = ordering(one)
        place = _place(one.this, plain, rows)
        if place is None:
            plain.append("expressions", one.this.copy())
            place = n_columns + len(plain.expressions) - len(tree.expressions) - 1
        ways.append(f"c{place} {way}")
    found = computed(compiled(plain))
    columns = tuple(f"c{i}" for i in range(n_columns))
    ordered = f"({found.sql}) AS __dp_ordered ORDER BY {', '.join(ways)} {numbers}"
    sql = f"SELECT {', '.join(columns)} FROM {ordered}"
    _, (name,) = tables.schema.public_rows(sql, found.tables)
    types = tuple(value.type for value in rows.values)
    values = tuple(
        Value(column, value.type, collation=value.collation)
        for column, value in zip(columns, rows.values, strict=True)
    )
    return Rows(Table(name, columns, types), rows.names, values, None)


def _number(tree: exp.Select, part: str) -> str:
    clause = tree.args[part]
    number = None
    if isinstance(clause, exp.Limit | exp.Offset):
        is_plain = parts_of(clause) == {"expression"}
        number = whole_number(clause.expression) if is_plain else None
    if number is None or not 0 <= number < 1 << 62:
        why = "LIMIT and OFFSET take a whole number here"
        raise refuse(clause, why, "For example: ORDER BY price DESC LIMIT 3.")
    return f"{part.upper()} {number}"


def _place(key: Node, plain: exp.Select, rows: Rows) -> int | None:
    """The column of the list that ORDER BY means; None where the key is not in the list."""
    number = whole_number(key)
    if number is not None and 1 <= number <= len(rows.values):
        return number - 1
    bare = folded(key.name) if isinstance(key, exp.Column) and not key.table else ""
    if bare and rows.names.count(bare) == 1:  # an alias comes before a column of FROM
        return rows.names.index(bare)
    used = {folded(column.name) for column in key.find_all(exp.Column)}
    group = plain.args.get("group")
    by_all = group is not None and group.args.get("all")
    is_clear = not used & {folded(one.alias) for one in plain.find_all(exp.Alias)}
    has_query = key.find(exp.Query) is not None or isinstance(key, exp.Literal | exp.Var)
    if (
        has_query
        or not is_clear
        or plain.args.get("distinct")
        or (by_all and not is_aggregate(key))
    ):
        why = "This ORDER BY is not supported in a source"
        raise refuse(key, why, "Name a column of the list.")
    return None
