"""Public values that a statement counts out: (FROM range(24)), (SELECT unnest(generate_series(…))).

The bounds and the step are literals. DuckDB lists the values once, up to a limit, and what reads
private rows is given literals.
"""

from sqlglot import exp

from dp_sql.errors import ArgumentError
from dp_sql.privacy.catalog import Schema
from dp_sql.privacy.expressions.arithmetic import interval_units
from dp_sql.privacy.expressions.comparisons import is_double, is_literal, target, whole_number
from dp_sql.privacy.plans.domains import Values
from dp_sql.sql.formatting import literal
from dp_sql.sql.ranges import MAX_GROUPS
from dp_sql.sql.sqlglot_tree import Node

_LONGEST_LITERAL = 40
_MIDNIGHT = " 00:00:00"


def series_values(tree: Node, schema: Schema) -> Values | None:
    """The values of a query that lists a series of literals; None for another query.

    Raises ArgumentError where there are too many, Refused where an interval has more than one unit,
    and SourceError where DuckDB cannot list them.
    """
    if (found := _series(tree)) is None:
        return None
    node, kind = found
    arguments = _arguments(node)
    if arguments is None:
        return None
    name, listed = arguments
    value = f"TRY_CAST(s AS {kind})" if kind else "s"
    select = (
        f"SELECT {value} AS value FROM (SELECT s FROM system.main.{name}({', '.join(listed)}) "
        f"AS t(s) LIMIT {MAX_GROUPS + 1})"
    )
    ((_, kind),) = schema.columns(select)
    values = schema.public_values(f"SELECT CAST(value AS VARCHAR) FROM ({select})")
    if len(values) > MAX_GROUPS:
        message = f"A series may have up to {MAX_GROUPS} values."
        raise ArgumentError(message, hint="Use a larger step.")
    if kind == "TIMESTAMP" and all(str(one).endswith(_MIDNIGHT) for one in values):
        # Whole days: DATEs, which also equal timestamps.
        kind, values = "DATE", [str(one).removesuffix(_MIDNIGHT) for one in values]
    casts = ", ".join(f"CAST({literal(str(one))} AS {kind})" for one in values if one is not None)
    return Values(f"SELECT unnest([{casts}]::{kind}[]) AS value", "a series in the statement")


def _series(tree: Node) -> tuple[Node, str] | None:
    """The series that a query lists and the type that it is cast to ("": none)."""
    if not isinstance(tree, exp.Select) or len(tree.expressions) != 1:
        return None
    parts = {key for key, value in tree.args.items() if value}
    item, kind = tree.expressions[0].unalias(), ""
    if isinstance(item, exp.Cast) and (kind := target(item)):
        item = item.this
    source = tree.args.get("from_")
    if source is None:
        is_plain = parts == {"expressions"} and isinstance(item, exp.Explode)
        return (item.this, kind) if is_plain and _is_alone(item) else None
    table = source.this
    alias = table.args.get("alias")
    names = [column.name for column in (alias.args.get("columns") if alias else None) or []]
    is_all = isinstance(item, exp.Star) and _is_alone(item, "")
    is_column = isinstance(item, exp.Column) and [item.name] == names and not item.table
    is_table = isinstance(table, exp.Table) and _is_alone(table, "this alias")
    is_plain = parts <= {"expressions", "from_"} and is_table and (is_all or is_column)
    return (table.this, kind) if is_plain else None


def _is_alone(node: Node, parts: str = "this") -> bool:
    return all(key in parts.split() for key, value in node.args.items() if value)


def _arguments(node: Node) -> tuple[str, list[str]] | None:
    """The function and its arguments, written anew; None for anything else."""
    if isinstance(node, exp.GenerateSeries):
        name = "range" if node.args.get("is_end_exclusive") else "generate_series"
        given = [node.args.get(key) for key in ("start", "end", "step")]
    elif isinstance(node, exp.Anonymous) and node.name.lower() in {"range", "generate_series"}:
        name, given = node.name.lower(), list(node.expressions)
    else:
        return None
    written = [_written(one) for one in given if one is not None]
    return (name, [w for w in written if w]) if all(written) else None


def _written(node: Node) -> str:
    """A whole number, a date, a timestamp or an interval of one unit as SQL; "" for the rest."""
    if isinstance(node, exp.Interval):
        return "INTERVAL '{} {}'".format(*interval_units(node, node))
    if not is_literal(node) or is_double(node):
        return ""
    if (number := whole_number(node)) is not None:
        return f"({number})" if abs(number) < 1 << 62 else ""
    if isinstance(node, exp.Cast) and (kind := target(node)) in {"DATE", "TIMESTAMP"}:
        day = node.this.this
        return f"CAST({literal(day)} AS {kind})" if len(day) <= _LONGEST_LITERAL else ""
    return ""
