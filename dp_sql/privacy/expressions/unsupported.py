"""What is said of an expression that is not compiled, and what to write instead."""

import re
from collections.abc import Collection

from sqlglot import exp

from dp_sql.errors import guessed
from dp_sql.privacy.expressions.scalar_functions import FUNCTION_ALIASES, FUNCTIONS, call_of
from dp_sql.privacy.refusals import (
    AS_ELEMENTS,
    BY_PARAMETER,
    FIRST_ROW,
    OF_EACH_PERSON,
    PER_PERSON,
    WAY_OUT,
    Refused,
    refuse,
)
from dp_sql.sql.sqlglot_tree import Node, called_as, parts_of

_ARITHMETIC = (
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg, exp.BitwiseXor,
    exp.BitwiseNot, exp.BitwiseLeftShift, exp.BitwiseRightShift,
)  # fmt: skip
# What messages call an expression; functions go by their names.
_WORDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (_ARITHMETIC, "Arithmetic on columns"),
    ((exp.Subquery, exp.SubqueryPredicate, exp.Query), "A subquery"),
    ((exp.Literal, exp.Null, exp.Boolean), "A constant without a column"),
    (exp.DPipe, "The operator ||"),
    (exp.RegexpILike, "The operator ~*"),
    (exp.Interval, "An interval in this place"),
    (exp.Window, "A window function"),
    (exp.Rollup, "ROLLUP"),
    (exp.Cube, "CUBE"),
    (exp.GroupingSets, "GROUPING SETS"),
    ((exp.NullSafeEQ, exp.NullSafeNEQ), "IS DISTINCT FROM"),
    (exp.Between, "BETWEEN"),
    (exp.In, "IN"),
    (exp.Case, "CASE"),
    (exp.Cast, "A cast"),
)


def shown(node: Node) -> str:
    """What messages call an expression."""
    found = next((word for kinds, word in _WORDS if isinstance(node, kinds)), None)
    if found is None and isinstance(node, exp.Func) and (name := called_as(node)):
        return f"The function {name}"
    return found or "This expression"


def only(node: Node, parts: str) -> None:
    """Refuse a node with any other part."""
    if parts_of(node) - {*parts.split()}:
        raise refuse(node, f"{shown(node)} is supported here only in its basic form")


def not_so(name: str, node: Node) -> Refused:
    """The refusal of a function of the table that is written in another form."""
    return refuse(node, f"{name} is supported here only in the form {call_of(name)}")


def no_part(node: Node, function: str, parts: Collection[str]) -> Refused:
    """The refusal of a word that the function does not take here as a part of a date."""
    refusal = refuse(node, f"{function} takes one of these parts: {', '.join(parts)}")
    # Sqlglot gives no position for what it reads as a word.
    word, text = re.escape(node.name), str(node.root().meta.get("sql", ""))
    if found := re.search(rf"'{word}'|\b{word}(?=\s+FROM\b)", text, re.IGNORECASE):
        refusal.offset = found.start()
    if near := guessed(node.name.lower(), parts):
        refusal.names, refusal.hint = [f"'{near}'"], f"Did you mean {near}?"
    return refusal


def unsupported(node: Node) -> Refused:
    """The refusal of an expression that is not compiled."""
    if isinstance(node, exp.Explode) and isinstance(node.this, exp.Column):
        listed = node.this.sql(dialect="duckdb")
        return refuse(node, "unnest is not supported here", AS_ELEMENTS.format(listed))
    why = "dp_sql cannot prove that it depends on one row alone and never fails"
    if isinstance(node, _ARITHMETIC):
        if (query := node.find(exp.Subquery)) is not None:
            return unsupported(query)
        why = "it fails on some values, and the error would reveal a row"
    if is_aggregate(node) or isinstance(node, exp.Window):
        hint = FIRST_ROW if isinstance(node, exp.Window) else PER_PERSON
        return refuse(node, f"{shown(node)} is not supported here: it reads other rows", hint)
    refusal = refuse(node, f"{shown(node)} is not supported here: {why}")
    if isinstance(node, exp.Subquery):
        refusal.hint = (
            "Ask for its value first, with a DP function if it reads people's rows, "
            "and write it here."
        )
        own = {table.alias_or_name.lower() for table in node.find_all(exp.Table)}
        if any(column.table.lower() not in {"", *own} for column in node.find_all(exp.Column)):
            refusal.hint = OF_EACH_PERSON
    if isinstance(node, exp.Anonymous) and node.name.lower() == "getvariable":
        refusal.hint = BY_PARAMETER
    if isinstance(node, exp.Anonymous) and (near := _mistyped(node.name.lower())):
        refusal.names, refusal.hint = [near], f"Did you mean {near}? {WAY_OUT}"
    return refusal


# What has a form of its own beside the functions of FUNCTIONS.
_FORMS = {
    "abs", "ceil", "coalesce", "floor", "greatest", "ifnull", "least",
    "lower", "ltrim", "nullif", "round", "rtrim", "sign", "substr", "substring", "trim", "trunc",
    "upper",
}  # fmt: skip
# DuckDB's own functions whose names are nearly those of others.
_OTHERS = {
    "array_distance", "bit_count", "bit_position", "epoch_ns", "json_value", "array_aggr",
    "list_aggr", "list_mad",
    "list_concat", "list_median", "list_sem", "regexp_split_to_table",
    "make_timestamp_ns", "make_timestamptz", "map_contains_entry",
    "map_contains_value", "union_extract", "variant_contains",
}  # fmt: skip


def _mistyped(name: str) -> str:
    """The function whose name is nearly this one, which is none of DuckDB's; or ""."""
    near = guessed(name, [*FUNCTIONS, *FUNCTION_ALIASES, *_FORMS], 0.8)
    return near if name not in _OTHERS else ""


def is_aggregate(node: Node) -> bool:
    """Whether a node is a call of an aggregate.

    Count(*) has another name in stored views, sqlglot 28 no node for mode, and any_value one more.
    """
    match node:
        case exp.Anonymous():
            return node.name.lower() in {"count_star", "mode"}
        case exp.IgnoreNulls():
            return isinstance(node.this, exp.AnyValue)
        case exp.Filter():
            return is_aggregate(node.this)
    return isinstance(node, exp.AggFunc)
