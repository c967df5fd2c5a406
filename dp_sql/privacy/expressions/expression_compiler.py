"""Which expressions may an analyst compute on private rows? Those that never fail, row by row.

Compiles sqlglot's tree of an expression into new SQL, or refuses it. Nothing that is compiled here
can raise an error on any row, look at another row, the clock or the session: an error that only
some rows raise would reveal them. Each form names the parts of its node that it reads, and a
node with any other part is refused: a part that is not read would change the query silently.
"""

from collections.abc import Callable, Mapping
from functools import partial

from sqlglot import exp

from dp_sql.privacy.expressions import arithmetic, calls, choices, elements, predicates
from dp_sql.privacy.expressions.collations import BINARY
from dp_sql.privacy.expressions.literals import is_literal
from dp_sql.privacy.expressions.scope import Scope
from dp_sql.privacy.expressions.unsupported import is_aggregate, shown, unsupported
from dp_sql.privacy.expressions.value import Value, bounded
from dp_sql.privacy.refusals import Refused, refuse
from dp_sql.sql.sqlglot_tree import Node, parts_of
from dp_sql.sql.types import BINARY_TYPES, EXACT_TYPES, UNSHOWN, family, same_bits

_Compile = Callable[[Node, Scope], Value]
PART_NODES: Mapping[type, str] = {
    exp.Year: "year", exp.Quarter: "quarter", exp.Month: "month", exp.Week: "week",
    exp.WeekOfYear: "week", exp.Day: "day", exp.DayOfMonth: "day", exp.DayOfYear: "dayofyear",
    exp.DayOfWeek: "dayofweek", exp.DayOfWeekIso: "isodow", exp.Hour: "hour",
    exp.Minute: "minute", exp.Second: "second",
}  # fmt: skip
_MAX_SQL = 200_000  # characters of one expression: a value that is read twice is written twice


def compiled(node: Node, scope: Scope) -> Value:
    """Compile an expression, or raise Refused where it may fail on some row."""
    is_operator = isinstance(node, exp.Binary) and not isinstance(node, exp.Connector)
    if is_operator and isinstance(node.this, exp.Not):
        # sqlglot reads NOT a IS NULL || 'x' IS NULL as ((NOT a IS NULL) || 'x') IS NULL.
        raise refuse(node.this, "Put brackets around this NOT, or around what follows it")
    try:
        known = _COMPILERS if scope.as_written is not None else (*_COMPILERS, *_ANALYSTS)
        for kinds, compile_one, parts in known:
            if isinstance(node, kinds):
                if parts is not None:
                    _only(node, parts)
                return _short_enough(node, compile_one(node, scope))
        if scope.aggregate is not None and is_aggregate(node):
            return scope.aggregate(node)
        if scope.as_written is None and calls.is_call(node):
            return _short_enough(node, calls.call(node, scope))
        if isinstance(node, exp.Anonymous):
            return _named(node, scope)
    except RecursionError:
        raise refuse(node, "This is nested too deeply") from None
    raise unsupported(node)


def _short_enough(node: Node, value: Value) -> Value:
    if len(value.sql) > _MAX_SQL:
        raise refuse(node, "This expression is too long", "Compute parts of it in a subquery.")
    return value


def _only(node: Node, parts: str) -> None:
    if parts_of(node) - {*parts.split()}:
        raise refuse(node, f"{shown(node)} is supported here only in its basic form")


def settled(value: Value, node: Node) -> Value:
    """A value of which equal ones are the same to the last bit, for GROUP BY, min and the like.

    Where equal values differ ('Dune' and 'dune' under a collation, 0.0 and -0.0), DuckDB keeps the
    one it meets first, and which one that is may depend on other people's rows.
    """
    kind = family(value.type)
    if kind == "VARCHAR":
        sql = f"({same_bits(value.sql, value.type)})"
        return value._replace(sql=sql, collation=BINARY)
    if kind in BINARY_TYPES:
        return value._replace(sql=same_bits(value.sql, value.type))
    if kind not in EXACT_TYPES:
        raise refuse(node, f"{value.type} has no exact equality")
    return value


def _and_or(node: Node, scope: Scope) -> Value:
    word = " AND " if isinstance(node, exp.And) else " OR "
    terms: list[str] = []
    rest = node
    while type(rest) is type(node):  # a long chain is deep on its left side
        _only(rest, "this expression")
        terms.append(scope.condition(rest.expression))
        rest = rest.this
    terms.append(scope.condition(rest))
    return predicates.boolean(word.join(reversed(terms)))


def _exists(node: Node, scope: Scope) -> Value:
    found = None if scope.matched is None else scope.matched(node.this, None)
    if found is None:
        raise refuse(node, "EXISTS is supported in WHERE, and in the list of a subquery")
    return found


def _named(node: Node, scope: Scope) -> Value:
    """Calls without a node of their own: date_part, and quoted names as stored views have them."""
    _only(node, "this expressions")
    word, given = node.name.lower(), node.expressions
    if word in {"date_part", "datepart"} and len(given) == 2 and given[0].is_string:
        return _part(node, given[0], given[1], scope)
    if word in {"lower", "upper", "trim", "ltrim", "rtrim"} and len(given) == 1:
        return calls.of_string(word, node, scope.compiled(given[0]))
    if word.upper() in calls.DATE_PARTS and len(given) == 1:
        return calls.date_part(word, node, scope.compiled(given[0]))
    if scope.as_written is None and word in elements.ELEMENTS:
        return elements.ELEMENTS[word](node, scope)
    if scope.as_written is None and word == "timezone" and len(given) == 2:
        return arithmetic.in_zone(node, given[0], given[1], scope)
    if scope.as_written is None and word in {"now", "today", "get_current_timestamp"} and not given:
        return choices.now(node, scope)
    raise unsupported(node)


def _of_main(node: Node, scope: Scope) -> Value:
    """main.lower(…) in stored views is DuckDB's own: macros of that name are refused at opening."""
    if not isinstance(node.expression, exp.Func) or node.this.name.lower() != "main":
        hint = "Write a function before its arguments, as in lower(email)."
        raise refuse(node, "This is not a column", hint)
    return scope.compiled(node.expression)


def _part(node: Node, part: Node, of: Node, scope: Scope) -> Value:
    if part.name.lower() == "epoch" and scope.as_written is None:
        return calls.applied("epoch", [of], node, scope)
    return calls.date_part(part.name.lower(), node, scope.compiled(of))


def _coalesce(node: Node, scope: Scope) -> Value:
    others = node.expressions
    if scope.as_written is not None and (len(others) != 1 or not is_literal(others[0])):
        raise unsupported(node)
    return choices.first(node, scope)


def _cast(node: Node, scope: Scope) -> Value:
    if node.args["to"].sql(dialect="duckdb").upper() not in {"TEXT", "VARCHAR"}:
        scope.only_analysts(node, "Only a cast to VARCHAR is supported here")
    return choices.converted(node, scope.compiled(node.this), scope)


def _column(node: Node, scope: Scope) -> Value:
    try:
        value = scope.column(node)  # type: ignore[arg-type]
    except Refused as unknown:
        value = elements.field_of(node, scope, unknown)
    if value.type in UNSHOWN and not value.is_person:
        scope.only_analysts(node, f"{value.type} is not read here")
        near = bounded(value)
        return Value(f"CAST({near.sql} AS TIMESTAMP)", "TIMESTAMP", bound=near.bound)
    return value


def _trim(node: Node, scope: Scope) -> Value:
    if node.args.get("expression") is not None:
        scope.only_analysts(node, "trim is supported here only in its basic form")
    return calls.trimmed(node, scope.compiled(node.this))


def _of_this(compile_one: Callable[[Node, Value], Value]) -> _Compile:
    return lambda node, scope: compile_one(node, scope.compiled(node.this))


def _truncated(node: Node, scope: Scope) -> Value:
    return calls.truncated(node, scope.argument(node.this))


_SIDES, _NEGATED = "this expression", "this expression negate"
# The forms that are known, and the parts that their nodes may have (None: not checked here).
_COMPILERS: tuple[tuple[type | tuple[type, ...], _Compile, str | None], ...] = (
    (exp.Column, _column, None),
    (exp.Paren, lambda node, scope: scope.compiled(node.this), "this"),
    ((exp.And, exp.Or), _and_or, None),
    (exp.Not, lambda node, scope: predicates.boolean(f"NOT {scope.condition(node.this)}"), "this"),
    (exp.Is, predicates.is_constant, _NEGATED),
    (tuple(predicates.COMPARISONS), predicates.compare, _SIDES),
    (exp.Between, predicates.between, "this low high"),
    (exp.In, predicates.in_list, "this expressions query field"),
    (exp.Exists, _exists, "this"),
    ((exp.Like, exp.ILike, exp.Glob), predicates.like_pattern, _NEGATED),
    (exp.Boolean, lambda node, _: Value("TRUE" if node.this else "FALSE", "BOOLEAN"), None),
    (exp.Lower, _of_this(partial(calls.of_string, "lower")), "this"),
    (exp.Upper, _of_this(partial(calls.of_string, "upper")), "this"),
    (exp.Trim, _trim, "this position expression"),
    (exp.Substring, _of_this(calls.substring), "this start length"),
    *(
        (kind, _of_this(partial(calls.date_part, part)), "this")
        for kind, part in PART_NODES.items()
    ),
    (exp.Extract, lambda n, s: _part(n, n.this, n.expression, s), _SIDES),
    ((exp.TimestampTrunc, exp.DateTrunc), _truncated, "this unit"),
    (exp.Coalesce, _coalesce, "this expressions"),
    (exp.Cast, _cast, "this to safe"),
    (exp.Dot, _of_main, _SIDES),
)
# Those that are compiled for analysts only; an owner's are taken as written.
_ANALYSTS: tuple[tuple[type | tuple[type, ...], _Compile, str | None], ...] = (
    (tuple(arithmetic.OPERATORS), arithmetic.operation, "this expression typed safe"),
    (exp.Escape, predicates.like_escaped, _SIDES),
    (exp.Bracket, elements.bracket, "this expressions offset"),
    (exp.StructExtract, elements.extracted, _SIDES),
    ((exp.ArrayOverlaps, exp.ArrayContainsAll), elements.has_elements, _SIDES),
    (exp.AtTimeZone, lambda n, s: arithmetic.in_zone(n, n.args["zone"], n.this, s), "this zone"),
    (exp.DateBin, arithmetic.bucketed, _SIDES),
    (exp.Date, _of_this(choices.as_date), "this"),
    (tuple(arithmetic.NEGATIONS), _of_this(arithmetic.negated), "this"),
    (exp.Round, lambda n, s: arithmetic.rounded(n, s.compiled(n.this), s), "this decimals"),
    ((exp.Floor, exp.Ceil), lambda n, s: arithmetic.rounded(n, s.compiled(n.this), s), "this"),
    ((exp.Case, exp.If), predicates.chosen, "this ifs default true false"),
    (exp.Nullif, choices.first, _SIDES),
    ((exp.Greatest, exp.Least), choices.first, "this expressions ignore_nulls"),
    ((exp.CurrentDate, exp.CurrentTimestamp), choices.now, ""),
)
