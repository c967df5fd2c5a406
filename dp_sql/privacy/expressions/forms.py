"""The known forms of expressions, and what compiles each of them.

expression_compiler.py reads these tables, and compiles columns without them.
"""

from collections.abc import Callable, Mapping
from functools import partial

from sqlglot import exp

from dp_sql.privacy.expressions import (
    arithmetic,
    calls,
    choices,
    collations,
    elements,
    predicates,
    public_values,
    strings_and_dates,
)
from dp_sql.privacy.expressions.literals import UNITS, is_literal, number_of, target
from dp_sql.privacy.expressions.scope import Scope
from dp_sql.privacy.expressions.unsupported import no_part, only, unsupported
from dp_sql.privacy.expressions.value import Value
from dp_sql.privacy.refusals import refuse
from dp_sql.sql.sqlglot_tree import PART_NODES, Node, made_of

_Compile = Callable[[Node, Scope], Value]


def _and_or(node: Node, scope: Scope) -> Value:
    word = " AND " if isinstance(node, exp.And) else " OR "
    terms: list[str] = []
    rest = node
    while type(rest) is type(node):  # a long chain is deep on its left side
        only(rest, "this expression")
        terms.append(scope.condition(rest.expression))
        rest = rest.this
    terms.append(scope.condition(rest))
    return predicates.boolean(word.join(reversed(terms)))


def _exists(node: Node, scope: Scope) -> Value:
    found = None if scope.matched is None else scope.matched(node.this, None)
    if found is None:
        raise refuse(
            node, "EXISTS is supported in WHERE, items and keys, and in the list of a subquery"
        )
    return found


def named(node: Node, scope: Scope) -> Value:
    """Calls without a node of their own: date_part, and quoted names as stored views have them."""
    only(node, "this expressions")
    word, given = node.name.lower(), node.expressions
    if word in {"date_part", "datepart"} and len(given) == 2 and given[0].is_string:
        return _part(node, given[0], given[1], scope)
    if word in {"lower", "upper", "trim", "ltrim", "rtrim"} and len(given) == 1:
        return strings_and_dates.of_string(word, node, scope.compiled(given[0]))
    if word.upper() in strings_and_dates.DATE_PARTS and len(given) == 1:
        return strings_and_dates.date_part(word, node, scope.compiled(given[0]))
    if scope.as_written is None and word in _CALLS:
        return _CALLS[word](node, scope)
    if scope.as_written is None and word == "timezone" and len(given) == 2:
        return arithmetic.in_zone(node, given[0], given[1], scope)
    if scope.as_written is None and word in {"now", "today", "get_current_timestamp"} and not given:
        return choices.now(node, scope)
    raise unsupported(node)


def _dotted(node: Node, scope: Scope) -> Value:
    """main.lower(…) in stored views is DuckDB's own: macros of that name are refused at opening.

    For analysts also list[1].field.
    """
    if isinstance(node.expression, exp.Identifier) and scope.as_written is None:
        return elements.field(node, scope.argument(node.this), node.expression.name, scope)
    if not isinstance(node.expression, exp.Func) or node.this.name.lower() != "main":
        hint = "Write a function before its arguments, as in lower(email)."
        raise refuse(node, "This is not a column", hint)
    return scope.compiled(node.expression)


def _part(node: Node, part: Node, of: Node, scope: Scope) -> Value:
    if part.name.lower() == "epoch" and scope.as_written is None:
        return calls.applied("epoch", [of], node, scope)
    if part.name.upper() not in strings_and_dates.DATE_PARTS:
        raise no_part(part, "date_part", sorted(map(str.lower, strings_and_dates.DATE_PARTS)))
    return strings_and_dates.date_part(part.name.lower(), node, scope.compiled(of))


def _coalesce(node: Node, scope: Scope) -> Value:
    others = node.expressions
    if scope.as_written is not None and (len(others) != 1 or not is_literal(others[0])):
        raise unsupported(node)
    return choices.first(node, scope)


def _cast(node: Node, scope: Scope) -> Value:
    if node.args["to"].sql(dialect="duckdb").upper() not in {"TEXT", "VARCHAR"}:
        scope.only_analysts(node, "Only a cast to VARCHAR is supported here")
    if isinstance(node.this, exp.Null) and (kind := target(node)):
        return Value(f"CAST(NULL AS {kind})", kind)
    if is_literal(node.this) and number_of(node.this) is not None and scope.as_written is None:
        return choices.converted_number(node, scope)
    return choices.converted(node, scope.compiled(node.this), scope)


def _trim(node: Node, scope: Scope) -> Value:
    if node.args.get("expression") is not None:
        scope.only_analysts(node, "trim is supported here only in its basic form")
    return strings_and_dates.trimmed(node, scope.compiled(node.this))


def _of_this(compile_one: Callable[[Node, Value], Value]) -> _Compile:
    return lambda node, scope: compile_one(node, scope.compiled(node.this))


def _truncated(node: Node, scope: Scope) -> Value:
    return strings_and_dates.truncated(node, scope.argument(node.this))


def _rounded(node: Node, scope: Scope) -> Value:
    given = node.expressions if isinstance(node, exp.Anonymous) else [node.this]
    if len(given) != 1:
        raise unsupported(node)
    return arithmetic.rounded(node, scope.compiled(given[0]), scope)


# What is NULL if one of its parts is.
_STRICT = (
    exp.Column, exp.Identifier, exp.Literal, exp.Paren, exp.Cast, exp.DataType, exp.DataTypeParam,
    exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod,
)  # fmt: skip


def _tried(node: Node, scope: Scope) -> Value:
    """TRY(…) of arithmetic or a cast, which is NULL here wherever DuckDB fails."""
    inner = node.this.unnest()
    if not all(isinstance(one, _STRICT) for one in inner.walk()):
        hint = "Leave TRY out: what DuckDB fails on is NULL here, or NaN in a function of floats."
        raise refuse(node, "TRY is supported here for arithmetic and casts only", hint)
    return scope.compiled(made_of(node, inner.copy().transform(_as_tried)))


def _as_tried(node: Node) -> Node:
    if type(node) is not exp.Cast or isinstance(node.this, exp.Literal):
        return node
    return exp.TryCast(this=node.this, to=node.args["to"])


# sqlglot 28 has no node for trunc.
_CALLS: Mapping[str, _Compile] = {
    **elements.ELEMENTS,
    **dict.fromkeys((f"to_{unit}s" for unit in UNITS), arithmetic.of_units),
    "trunc": _rounded,
}


_SIDES, _NEGATED = "this expression", "this expression negate"
# The forms that are known, and the parts that their nodes may have (None: not checked here).
OF_OWNERS: tuple[tuple[type | tuple[type, ...], _Compile, str | None], ...] = (
    (exp.Paren, lambda node, scope: scope.compiled(node.this), "this"),
    ((exp.And, exp.Or), _and_or, None),
    (exp.Not, predicates.negated, "this"),
    (exp.Is, predicates.is_constant, _NEGATED),
    (tuple(predicates.COMPARISONS), predicates.compare, _SIDES),
    (exp.Between, predicates.between, "this low high"),
    (exp.In, predicates.in_list, "this expressions query field"),
    (exp.Exists, _exists, "this"),
    (exp.Subquery, public_values.public_value, "this"),
    ((exp.Like, exp.ILike, exp.Glob), predicates.like_pattern, _NEGATED),
    (exp.Boolean, lambda node, _: Value("TRUE" if node.this else "FALSE", "BOOLEAN"), None),
    (exp.Lower, _of_this(partial(strings_and_dates.of_string, "lower")), "this"),
    (exp.Upper, _of_this(partial(strings_and_dates.of_string, "upper")), "this"),
    (exp.Trim, _trim, "this position expression"),
    (exp.Substring, _of_this(strings_and_dates.substring), "this start length"),
    *(
        (kind, _of_this(partial(strings_and_dates.date_part, part)), "this")
        for kind, part in PART_NODES.items()
    ),
    (exp.Extract, lambda n, s: _part(n, n.this, n.expression, s), _SIDES),
    ((exp.TimestampTrunc, exp.DateTrunc), _truncated, "this unit"),
    (exp.Coalesce, _coalesce, "this expressions"),
    (exp.Cast, _cast, "this to safe"),
    (exp.Dot, _dotted, _SIDES),
)
# Those that are compiled for analysts only; an owner's are taken as written.
_OF_ANALYSTS: tuple[tuple[type | tuple[type, ...], _Compile, str | None], ...] = (
    (tuple(arithmetic.OPERATORS), arithmetic.operation, "this expression typed safe"),
    (exp.Escape, predicates.like_escaped, _SIDES),
    (exp.Collate, lambda n, s: collations.collated(n, s.argument(n.this)), _SIDES),
    (exp.Bracket, elements.bracket, "this expressions offset"),
    (exp.Array, choices.listed, "expressions"),
    (exp.ArraySlice, elements.sliced, "this start end is_length"),
    (exp.StructExtract, elements.extracted, _SIDES),
    ((exp.ArrayOverlaps, exp.ArrayContainsAll), elements.has_elements, _SIDES),
    (exp.AtTimeZone, lambda n, s: arithmetic.in_zone(n, n.args["zone"], n.this, s), "this zone"),
    (exp.DateBin, arithmetic.bucketed, "this expression unit"),
    ((exp.Interval, exp.ToDays), arithmetic.of_units, "this unit"),
    (exp.DateFromParts, choices.made_date, "year month day"),
    *((kind, elements.keys_or_values, "this") for kind in elements.MAP_KEYS),
    (exp.Try, _tried, "this"),
    (exp.Date, _of_this(choices.as_date), "this"),
    (tuple(arithmetic.NEGATIONS), _of_this(arithmetic.negated), "this"),
    (exp.Round, _rounded, "this decimals"),
    ((exp.Floor, exp.Ceil, getattr(exp, "Trunc", exp.Floor)), _rounded, "this"),
    ((exp.Case, exp.If), predicates.chosen, "this ifs default true false"),
    (exp.Nullif, choices.first, _SIDES),
    ((exp.Greatest, exp.Least), choices.first, "this expressions ignore_nulls"),
    ((exp.CurrentDate, exp.CurrentTimestamp), choices.now, ""),
)
ALL = (*OF_OWNERS, *_OF_ANALYSTS)
