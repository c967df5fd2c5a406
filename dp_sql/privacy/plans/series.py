"""Public values that a statement counts out: (FROM range(24)), (SELECT unnest(generate_series(…))).

The bounds are literals, or computed from literals and the time. DuckDB lists the values once, up to
a limit, and what reads private rows is given literals.
"""

from sqlglot import exp

from dp_sql.privacy.catalog import Schema
from dp_sql.privacy.expressions.literals import target
from dp_sql.privacy.plans.domains import Values
from dp_sql.privacy.relations.constants import Now, series_of
from dp_sql.sql.sqlglot_tree import Node, parts_of


def series_values(tree: Node, schema: Schema, now: Now) -> Values | None:
    """The values of a query that lists a series of constants; None for another query.

    Raises as series_of.
    """
    found = _series(tree)
    counted = None if found is None else series_of(found[0], schema, now, found[1])
    if counted is None:
        return None
    select = f"SELECT unnest([{', '.join(counted.values)}]::{counted.type}[]) AS value"
    return Values(select, "a series in the statement")


def _series(tree: Node) -> tuple[Node, str] | None:
    """The series that a query lists and the type that it is cast to ("": none)."""
    if not isinstance(tree, exp.Select) or len(tree.expressions) != 1:
        return None
    item, kind = tree.expressions[0].unalias(), ""
    if isinstance(item, exp.Cast) and (kind := target(item)):
        item = item.this
    source = tree.args.get("from_")
    if source is None:
        is_plain = parts_of(tree) == {"expressions"} and isinstance(item, exp.Explode)
        return (item.this, kind) if is_plain and parts_of(item) == {"this"} else None
    table, names = source.this, source.this.alias_column_names
    is_all = isinstance(item, exp.Star) and not parts_of(item)
    is_column = isinstance(item, exp.Column) and [item.name] == names and not item.table
    is_table = isinstance(table, exp.Table) and parts_of(table) <= {"this", "alias"}
    is_plain = parts_of(tree) == {"expressions", "from_"} and (is_all or is_column)
    return (table.this, kind) if is_plain and is_table else None
