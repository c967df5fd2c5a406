"""Rows that a statement itself writes out: VALUES, a list, and series such as range(1, 13).

They are public. Only literals are taken and written anew, so that nothing of an analyst's text
reaches private rows, and DuckDB computes them before any private row is read. The bounds of a
series may be computed from literals and the time of the statement.
"""

from collections.abc import Sequence
from datetime import datetime
from itertools import chain
from typing import NamedTuple

from sqlglot import exp

from dp_sql.errors import SourceError
from dp_sql.privacy.expressions.expression_compiler import compiled
from dp_sql.privacy.expressions.literals import (
    constant,
    interval_units,
    is_double,
    is_literal,
    target,
    whole_number,
)
from dp_sql.privacy.expressions.scope import Scope
from dp_sql.privacy.expressions.value import Value
from dp_sql.privacy.refusals import Refused, Unbound, refuse
from dp_sql.privacy.relations.base_tables import Tables
from dp_sql.privacy.relations.rows import Rows
from dp_sql.privacy.relations.select_clauses import column_name, only
from dp_sql.privacy.relations.tree import Table
from dp_sql.sql.formatting import literal
from dp_sql.sql.ranges import MAX_GROUPS
from dp_sql.sql.sqlglot_tree import Node, parts_of
from dp_sql.sql.tokens import folded
from dp_sql.sql.types import DATED, EXACT_TYPES, TYPE_ALIASES, family

_LONGEST_LITERAL = 40
_MIDNIGHT = " 00:00:00"
_LITERALS = (
    "Literals are strings, plain numbers, TRUE, FALSE and NULL, and casts such as "
    "DATE '2026-01-31'."
)


def literal_sql(node: Node) -> str | None:
    """A literal, or a cast of one to a type of items, written anew; None: it is neither."""
    match node := node.unnest():
        case exp.Literal() if node.is_string:
            return literal(node.this)
        case exp.Literal() if node.this.replace(".", "", 1).isdecimal():
            return str(node.this)
        case exp.Boolean():
            return "TRUE" if node.this else "FALSE"
        case exp.Neg() if (number := literal_sql(node.this)) and number[0].isdecimal():
            return f"-{number}"
        case exp.Cast() if parts_of(node) == {"this", "to"}:
            kind, inner = node.args["to"].sql(dialect="duckdb"), literal_sql(node.this)
            kind = TYPE_ALIASES.get(kind, kind)
            if inner and family(kind) in EXACT_TYPES:
                return f"CAST({inner} AS {kind})"
    return None


def constant_rows(node: Node, tables: Tables) -> Rows | None:
    """The rows that a part of FROM, or a SELECT without FROM, writes out; None: it is no such part.

    Raises Refused where not all are literals, and as _series.
    """
    match node:
        case exp.Values():
            only(node, {"expressions", "alias", "joins"})
            rows = [row.expressions for row in node.expressions]
            names = [f"col{i}" for i in range(len(rows[0]))]
        case exp.Unnest(expressions=[exp.Array() as listed]):
            only(node, {"expressions", "alias", "joins"})
            rows, names = [[one] for one in listed.expressions], ["unnest"]
        case exp.Table() if (series := _series(node.this, tables)) is not None:
            only(node, {"this", "alias", "joins"})
            return _rows(node, series.rows, [series.name], tables, series.sql)
        case exp.Select() if (found := _cast_series(node)) is not None and (
            series := _series(found[0], tables, found[1])
        ) is not None:
            names = [column_name(node.expressions[0])]
            return _rows(node, series.rows, names, tables, series.sql)
        case exp.Select() if parts_of(node) == {"expressions"}:
            items = [one.unalias() for one in node.expressions]
            names = [column_name(one) for one in node.expressions]
            rows = [items]
            if isinstance(items[0], exp.Explode):
                only(items[0], {"this"})
                inner = items[0].this
                if len(items) == 1 and (series := _series(inner, tables)) is not None:
                    return _rows(node, series.rows, names, tables, series.sql)
                is_list = len(items) == 1 and isinstance(inner, exp.Array)
                rows = [[one] for one in inner.expressions] if is_list else []
            if not rows or None in map(_constant, chain(*rows)):
                return None
        case _:
            return None
    if not all(map(_constant, chain(*rows))):
        why = "Rows that the statement writes out hold literals only"
        raise refuse(node, why, _LITERALS)
    return _rows(node, [[str(_constant(one)) for one in row] for row in rows], names, tables)


def _constant(node: Node) -> str | None:
    return "NULL" if isinstance(node.unnest(), exp.Null) else literal_sql(node)


def _rows(
    node: Node, rows: Sequence[Sequence[str]], names: Sequence[str], tables: Tables, short: str = ""
) -> Rows:
    """Rows of literals. short: a SELECT of the same rows that is shorter than VALUES."""
    if any(len(row) != len(names) for row in rows) or not (rows and names):
        raise refuse(node, "All rows of VALUES must have the same number of values", "")
    columns = [f"c{i}" for i in range(len(names))]
    listed = short or "VALUES " + ", ".join(f"({', '.join(row)})" for row in rows)
    sql = f"({listed}) AS __dp_constants({', '.join(columns)})"
    every = ", ".join(f"CAST({column} AS VARCHAR)" for column in columns)
    try:
        types = [kind for _, kind in tables.schema.columns(f"SELECT * FROM {sql}")]
        # No cast in them fails.
        tables.schema.public_values(f"SELECT system.main.concat({every}) FROM {sql}")
    except SourceError as error:
        raise Unbound(node, error) from None
    of_columns = (
        [one for one in dict.fromkeys(own) if one != "NULL"] for own in zip(*rows, strict=True)
    )
    values = tuple(
        Value(column, kind, (("VALUES", *own), ""))
        for column, kind, own in zip(columns, types, of_columns, strict=True)
    )
    table = Table(("VALUES",), tuple(columns), tuple(types), function=sql)
    return Rows(table, tuple(map(folded, names)), values, None)


def _cast_series(tree: exp.Select) -> tuple[Node, str] | None:
    """The series whose values, cast to a type, are all that a SELECT lists, and the type."""
    items, source = [one.unalias() for one in tree.expressions], tree.args.get("from_")
    kind = target(items[0]) if len(items) == 1 and isinstance(items[0], exp.Cast) else ""
    if not kind:
        return None
    cast = items[0].this
    if source is None:
        is_plain = parts_of(tree) == {"expressions"} and isinstance(cast, exp.Explode)
        return (cast.this, kind) if is_plain and parts_of(cast) == {"this"} else None
    table = source.this
    is_column = isinstance(cast, exp.Column) and not cast.table
    is_column = is_column and [cast.name] == table.alias_column_names
    is_table = isinstance(table, exp.Table) and parts_of(table) <= {"this", "alias"}
    is_plain = parts_of(tree) == {"expressions", "from_"} and is_column and is_table
    return (table.this, kind) if is_plain else None


class _Series(NamedTuple):
    """A call of range or generate_series: its name, its rows as literals, and a SELECT of them."""

    name: str
    rows: list[tuple[str]]
    sql: str


def _series(node: Node, tables: Tables, kind: str = "") -> _Series | None:
    """A call of range or generate_series of constants, cast to a kind; None for anything else.

    Raises Refused where an interval has more than one unit, and Unbound where there is no value,
    where there are too many, or where DuckDB cannot list them.
    """
    if (called := _arguments(node, tables)) is None:
        return None
    name, listed = called
    value = f"CAST(s AS {kind})" if kind else "s"
    rows = f"SELECT s FROM system.main.{name}({', '.join(listed)}) AS t(s) LIMIT {MAX_GROUPS + 1}"
    series = f"SELECT {value} AS value FROM ({rows})"
    try:
        ((_, of),) = tables.schema.columns(series)
        values = tables.schema.public_values(f"SELECT CAST(value AS VARCHAR) FROM ({series})")
    except SourceError as error:
        raise Unbound(node, error) from None
    if not 0 < len(values) <= MAX_GROUPS:
        message = f"A series may have up to {MAX_GROUPS} values, and at least one."
        raise Unbound(node, SourceError(message, hint="Use another step or bound."))
    if of == "TIMESTAMP" and all(str(one).endswith(_MIDNIGHT) for one in values):
        # Whole days: DATEs, which also equal timestamps.
        of, values = "DATE", [str(one).removesuffix(_MIDNIGHT) for one in values]
    strings = [literal(str(one)) for one in values if one is not None]
    casts = [(f"CAST({one} AS {of})",) for one in strings]
    return _Series(name, casts, f"SELECT CAST(unnest([{','.join(strings)}]) AS {of})")


def _arguments(node: Node, tables: Tables) -> tuple[str, list[str]] | None:
    """The function and its arguments, written anew; None for anything else."""
    if isinstance(node, exp.GenerateSeries):
        name = "range" if node.args.get("is_end_exclusive") else "generate_series"
        given = [node.args.get(key) for key in ("start", "end", "step")]
    elif isinstance(node, exp.Anonymous) and node.name.lower() in {"range", "generate_series"}:
        name, given = node.name.lower(), list(node.expressions)
    else:
        return None
    written = [_written(one) or _computed(one, tables) for one in given if one is not None]
    return (name, [w for w in written if w]) if all(written) else None


def _written(node: Node) -> str:
    """A whole number, a date, a timestamp or an interval of one unit as SQL; "" for the rest."""
    if isinstance(node, exp.Interval):
        return "CAST('{} {}' AS INTERVAL)".format(*interval_units(node, node))
    if isinstance(node, exp.Cast) and node.args["to"].sql() == "INTERVAL":
        return _written(exp.Interval(this=node.this))
    if not is_literal(node) or is_double(node):
        return ""
    if (number := whole_number(node)) is not None:
        return f"({number})" if abs(number) < 1 << 62 else ""
    if isinstance(node, exp.Cast) and (kind := target(node)) in DATED:
        day = node.this.this
        return f"CAST({literal(day)} AS {kind})" if len(day) <= _LONGEST_LITERAL else ""
    return ""


def _computed(node: Node, tables: Tables) -> str:
    """A date or number that is computed from constants: current_date - 3; "" for the rest."""

    def compile_constant(part: Node, scope: Scope) -> Value:
        return constant(part, tables.schema) if is_literal(part) else compiled(part, scope)

    def refused(part: Node, _: bool = False) -> Value:
        raise refuse(part, "A series takes constants")

    def engines_own() -> datetime:
        (moment,) = tables.schema.public_values("SELECT system.main.now()")
        assert isinstance(moment, datetime)
        return moment

    try:
        scope = Scope(compile_constant, refused, tables.schema, refused, tables.now or engines_own)
        value = scope.compiled(node)
    except Refused:
        return ""
    if value.type not in DATED | {"INTEGER", "BIGINT"}:
        return ""
    (found,) = tables.schema.public_values(f"SELECT CAST({value.sql} AS VARCHAR)")
    return "" if found is None else f"CAST({literal(str(found))} AS {value.type})"
