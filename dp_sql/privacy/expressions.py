"""Which expressions may an analyst compute on private rows? Those that never fail, row by row.

Compiles sqlglot's tree of an expression into new SQL, or refuses it. Nothing that is compiled here
can raise an error on any row, look at another row, the clock or the session: an error that only
some rows raise would reveal them. Each form names the parts of its node that it reads, and a
node with any other part is refused: a part that is not read would change the query silently.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from dp_sql.privacy.collations import BINARY, agree
from dp_sql.privacy.comparisons import (
    FLOATS,
    SMALL,
    TIMES,
    Scope,
    Value,
    beside,
    is_double,
    is_literal,
    refuse,
    short,
    whole_number,
)
from dp_sql.privacy.like import like
from dp_sql.sql.formatting import literal
from dp_sql.sql.sqlglot_tree import Node
from dp_sql.sql.types import EXACT_TYPES, family, same_bits

# Types with an order and an equality that fail on no value, and a string for every value.
COMPARABLE = EXACT_TYPES | FLOATS
_COMPARISONS: Mapping[type, str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip
_PARTS = {"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"}
_FARTHEST = 10**6


def compiled(node: Node, scope: Scope) -> Value:
    """Compile an expression, or raise Refused where it may fail on some row."""
    try:
        for kinds, compile_one, parts in _COMPILERS:
            if isinstance(node, kinds):
                if parts is not None:
                    _only(node, parts)
                return compile_one(node, scope)
        if scope.aggregate is not None and is_aggregate(node):
            return scope.aggregate(node)
        if isinstance(node, exp.Anonymous):
            return _named(node, scope)
    except RecursionError:
        raise refuse(node, "This is nested too deeply") from None
    raise _unsupported(node)


def is_aggregate(node: Node) -> bool:
    """Whether a node is a call of an aggregate; count(*) has another name in stored views."""
    named = isinstance(node, exp.Anonymous) and node.name.lower() == "count_star"
    return named or isinstance(node, exp.AggFunc)


_ARITHMETIC = (
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Pow, exp.Neg, exp.BitwiseAnd,
    exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot, exp.BitwiseLeftShift, exp.BitwiseRightShift,
)  # fmt: skip
# What messages call an expression; functions go by their names.
_WORDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (_ARITHMETIC, "Arithmetic on columns"),
    ((exp.Subquery, exp.SubqueryPredicate, exp.Query), "A subquery in this place"),
    (exp.Window, "A window function"),
    ((exp.Literal, exp.Null, exp.Boolean), "A constant without a column"),
    (exp.DPipe, "The operator ||"),
    (exp.Rollup, "ROLLUP"),
    (exp.Cube, "CUBE"),
    (exp.GroupingSets, "GROUPING SETS"),
    ((exp.NullSafeEQ, exp.NullSafeNEQ), "IS DISTINCT FROM"),
    (exp.Between, "BETWEEN"),
    (exp.In, "IN"),
    (exp.Case, "CASE"),
    (exp.Cast, "A cast"),
)


def _shown(node: Node) -> str:
    found = next((word for kinds, word in _WORDS if isinstance(node, kinds)), None)
    name = node.sql(dialect="duckdb").partition("(")[0].lower()
    if found is None and isinstance(node, exp.Func) and name.isidentifier():
        return f"The function {name}"
    return found or "This expression"


def _unsupported(node: Node) -> Exception:
    why = "dp_sql cannot prove that it depends on one row alone and never fails"
    if isinstance(node, _ARITHMETIC):
        why = "it fails on some values, and the error would reveal a row"
    return refuse(node, f"{_shown(node)} is not supported here: {why}")


def _only(node: Node, parts: str) -> None:
    if any(value and key not in parts.split() for key, value in node.args.items()):
        raise refuse(node, f"{_shown(node)} is supported here only in its basic form")


def settled(value: Value, node: Node) -> Value:
    """A value of which equal ones are the same to the last bit, for GROUP BY, min and the like.

    Where equal values differ ('Dune' and 'dune' under a collation, 0.0 and -0.0), DuckDB keeps the
    one it meets first, and which one that is may depend on other people's rows.
    """
    kind = family(value.type)
    if kind == "VARCHAR":
        sql = f"({same_bits(value.sql, value.type)})"
        return replace(value, sql=sql, collation=BINARY)
    if kind in FLOATS:
        return replace(value, sql=same_bits(value.sql, value.type))
    if kind not in EXACT_TYPES:
        raise refuse(node, f"{value.type} has no exact equality")
    return value


def condition(node: Node, scope: Scope) -> str:
    """Compile an expression that must be true or false."""
    if (found := compiled(node, scope)).type == "BOOLEAN":
        return found.sql
    raise refuse(node, "A condition must be true or false")


def _boolean(sql: str) -> Value:
    return Value(f"({sql})", "BOOLEAN")


def _and_or(node: Node, scope: Scope) -> Value:
    word = " AND " if isinstance(node, exp.And) else " OR "
    terms: list[str] = []
    rest = node
    while type(rest) is type(node):  # a long chain is deep on its left side
        _only(rest, "this expression")
        terms.append(condition(rest.expression, scope))
        rest = rest.this
    terms.append(condition(rest, scope))
    return _boolean(word.join(reversed(terms)))


def _maybe_not(node: Node, sql: str) -> Value:
    """Sqlglot keeps the NOT of NOT LIKE inside the node or around it, depending on its version."""
    return _boolean(f"NOT ({sql})" if node.args.get("negate") else sql)


def _operand(node: Node, scope: Scope) -> Value:
    """A side of a comparison: of a = b = c, parsers may differ about what is compared first."""
    several = isinstance(node, exp.Predicate | exp.And | exp.Or | exp.Not | exp.In | exp.Between)
    if several and not isinstance(node, exp.SubqueryPredicate):
        raise refuse(node, "Put brackets around one of these two comparisons")
    return compiled(node, scope)


def _is(node: Node, scope: Scope) -> Value:
    left, right = _operand(node.this, scope), node.expression
    if isinstance(right, exp.Null):
        return _maybe_not(node, f"{left.sql} IS NULL")
    if isinstance(right, exp.Boolean) and left.type == "BOOLEAN":
        return _maybe_not(node, f"{left.sql} IS {'TRUE' if right.this else 'FALSE'}")
    raise refuse(node, "IS must be followed by NULL, TRUE or FALSE")


def _compare(node: Node, scope: Scope) -> Value:
    sign, left, right = _COMPARISONS[type(node)], node.this, node.expression
    turned = is_literal(left) and not is_literal(right)
    value = _operand(right if turned else left, scope)
    agree(node, value)
    if turned or is_literal(right):
        a, b = beside(value, left if turned else right, scope)
        return _boolean(f"{b} {sign} {a}" if turned else f"{a} {sign} {b}")
    if isinstance(right, exp.Any) and sign == "=":
        return _among(node, value, right.this, scope)  # IN (SELECT …), as stored views have it
    other = _operand(right, scope)
    if value.type == other.type and family(value.type) in COMPARABLE:
        agree(node, value, other)
        return _boolean(f"{value.sql} {sign} {other.sql}")
    if {family(value.type), family(other.type)} <= SMALL:
        return _boolean(f"CAST({value.sql} AS HUGEINT) {sign} CAST({other.sql} AS HUGEINT)")
    why = f"{value.type} and {other.type} cannot be compared without a cast that may fail"
    raise refuse(node, why)


def _between(node: Node, scope: Scope) -> Value:
    value = _operand(node.this, scope)
    limits = [node.args["low"], node.args["high"]]
    if not all(map(is_literal, limits)):
        raise refuse(node, "BETWEEN is supported only with literals")
    _same_kind(node, limits)
    agree(node, value)
    (low, a), (high, b) = (beside(value, limit, scope) for limit in limits)
    return _boolean(f"{low} >= {a} AND {high} <= {b}")


def _same_kind(node: Node, literals: Sequence[Node]) -> None:
    """DuckDB compares a list in one type for all, which one 1e0 makes DOUBLE."""
    if len(set(map(is_double, literals))) == 2:
        raise refuse(node, "Write these numbers either all with an exponent or all without one")


def _in(node: Node, scope: Scope) -> Value:
    value, query, choices = _operand(node.this, scope), node.args.get("query"), node.expressions
    if query is not None:
        return _among(node, value, query, scope)
    if not choices or not all(map(is_literal, choices)):
        raise refuse(
            node, "IN is supported only with a list of literals or a column of a public table"
        )
    _same_kind(node, choices)
    agree(node, value)
    pairs = [beside(value, choice, scope) for choice in choices]
    if len({a for a, _ in pairs}) == 1:
        return _boolean(f"{pairs[0][0]} IN ({', '.join(b for _, b in pairs)})")
    return _boolean(" OR ".join(f"{a} = {b}" for a, b in pairs))


def _among(node: Node, value: Value, query: Node, scope: Scope) -> Value:
    if scope.matched is not None and (found := scope.matched(query, value)) is not None:
        return found
    listed = scope.listed(query)
    if listed.type != value.type or family(value.type) not in COMPARABLE:
        raise refuse(
            node, f"IN compares {value.type} with {listed.type}; both must have the same type"
        )
    agree(node, value, listed)
    return _boolean(f"{value.sql} IN {listed.sql}")


def _exists(node: Node, scope: Scope) -> Value:
    found = None if scope.matched is None else scope.matched(node.this, None)
    if found is None:
        raise refuse(node, "EXISTS is supported in WHERE only")
    return found


def _like(node: Node, scope: Scope) -> Value:
    value, pattern = _operand(node.this, scope), node.expression
    plain = isinstance(pattern, exp.Literal) and pattern.is_string and "\0" not in pattern.this
    if family(value.type) != "VARCHAR" or not plain:
        raise refuse(node, "LIKE is supported only for a string column and a pattern in quotes")
    return _maybe_not(node, like(node, value, pattern.this, isinstance(node, exp.ILike)))


def _of_string(word: str, node: Node, scope: Scope, *more: str) -> Value:
    """A function of a string; what it returns keeps the collation."""
    value = compiled(node, scope)
    if family(value.type) != "VARCHAR":
        raise refuse(node, f"This function takes a string, not {value.type}")
    listed = ", ".join([short(value.sql), *more])
    return Value(f"system.main.{word}({listed})", "VARCHAR", collation=value.collation)


def _trim(node: Node, scope: Scope) -> Value:
    words = {"": "trim", "LEADING": "ltrim", "TRAILING": "rtrim", "BOTH": "trim"}
    word = words.get(str(node.args.get("position") or "").upper())
    if word is None:
        raise refuse(node, "This form of trim is not supported here")
    return _of_string(word, node.this, scope)


def _substring(node: Node, scope: Scope) -> Value:
    start, length = node.args.get("start"), node.args.get("length")
    bounds = []
    for bound in (start,) if length is None else (start, length):
        number = whole_number(bound)
        if bound is None or number is None or is_double(bound) or abs(number) > _FARTHEST:
            raise refuse(node, "substr is supported only with literal bounds of up to a million")
        bounds.append(str(number))
    return _of_string("substr", node.this, scope, *bounds)


def _named(node: Node, scope: Scope) -> Value:
    """Calls without a node of their own: date_part, and quoted names as stored views have them."""
    _only(node, "this expressions")
    word, given = node.name.lower(), node.expressions
    if word == "date_part" and len(given) == 2 and given[0].is_string:
        return _date_part(_part_name(given[0]), given[1], scope)
    if word in {"lower", "upper", "trim", "ltrim", "rtrim"} and len(given) == 1:
        return _of_string(word, given[0], scope)
    if word.upper() in _PARTS and len(given) == 1:
        return _date_part(word, given[0], scope)
    raise _unsupported(node)


def _of_main(node: Node, scope: Scope) -> Value:
    """main.lower(…) in stored views is DuckDB's own: macros of that name are refused at opening."""
    if not isinstance(node.expression, exp.Func) or node.this.name.lower() != "main":
        raise refuse(node, "This is not a column")
    return compiled(node.expression, scope)


def _part_name(node: Node) -> str:
    word = str(node.name).upper()
    if word not in _PARTS:
        raise refuse(node, f"The date part {word.lower()} is not supported here")
    return word.lower()


def _date_part(word: str, node: Node, scope: Scope) -> Value:
    value = compiled(node, scope)
    if family(value.type) not in TIMES:
        raise refuse(node, f"{word} takes a date, not {value.type}")
    return Value(f"TRY(system.main.date_part({literal(word)}, {value.sql}))", "BIGINT")


def _truncate(node: Node, scope: Scope) -> Value:
    unit = str(node.args["unit"].name).upper()
    value = compiled(node.this, scope)
    if unit not in _PARTS or family(value.type) not in TIMES:
        raise refuse(node, "date_trunc needs a part such as 'month', and a date")
    kind = "TIMESTAMP WITH TIME ZONE" if value.type.endswith("ZONE") else "TIMESTAMP"
    # TRY: at the ends of the calendar there is no beginning of the week.
    call = f"TRY(system.main.date_trunc({literal(unit.lower())}, {value.sql}))"
    return Value(f"TRY(CAST({call} AS {kind}))", kind)


def _coalesce(node: Node, scope: Scope) -> Value:
    value, others = compiled(node.this, scope), node.expressions
    if len(others) != 1 or not is_literal(others[0]):
        raise refuse(node, "coalesce is supported only with a column and one literal")
    sql, other = beside(value, others[0], scope)
    if sql != value.sql:
        raise refuse(node, f"The literal in coalesce must be of type {value.type}")
    return Value(f"coalesce({sql}, {other})", value.type, collation=value.collation)


def _to_text(node: Node, scope: Scope) -> Value:
    """Every value can be cast to a string; other casts may fail."""
    if node.args["to"].sql(dialect="duckdb").upper() not in {"TEXT", "VARCHAR"}:
        raise refuse(
            node,
            "Only a cast to VARCHAR is supported here, because other casts fail on some values",
        )
    value = compiled(node.this, scope)
    if family(value.type) not in COMPARABLE | {"JSON"}:
        raise refuse(node, f"A cast of {value.type} to VARCHAR is not supported here")
    return Value(f"CAST({value.sql} AS VARCHAR)", "VARCHAR", collation=value.collation)


def _column(node: Node, scope: Scope) -> Value:
    value = scope.column(node)  # type: ignore[arg-type]
    if value.type in {"TIMESTAMP_S", "TIMESTAMP_MS"}:
        why = f"{value.type} holds times that DuckDB cannot show"
        raise refuse(node, why, "The owner can store it as a TIMESTAMP.")
    return value


_Compile = Callable[[Node, Scope], Value]


def _of_this(compile_one: Callable[[str, Node, Scope], Value], word: str) -> _Compile:
    return lambda node, scope: compile_one(word, node.this, scope)


# The forms that are known, and the parts that their nodes may have (None: not checked here).
_COMPILERS: tuple[tuple[type | tuple[type, ...], _Compile, str | None], ...] = (
    (exp.Column, _column, None),
    (exp.Paren, lambda node, scope: compiled(node.this, scope), "this"),
    ((exp.And, exp.Or), _and_or, None),
    (exp.Not, lambda node, scope: _boolean(f"NOT {condition(node.this, scope)}"), "this"),
    (exp.Is, _is, "this expression negate"),
    (tuple(_COMPARISONS), _compare, "this expression"),
    (exp.Between, _between, "this low high"),
    (exp.In, _in, "this expressions query"),
    (exp.Exists, _exists, "this"),
    ((exp.Like, exp.ILike), _like, "this expression negate"),
    (exp.Boolean, lambda node, _: Value("TRUE" if node.this else "FALSE", "BOOLEAN"), None),
    (exp.Lower, _of_this(_of_string, "lower"), "this"),
    (exp.Upper, _of_this(_of_string, "upper"), "this"),
    (exp.Trim, _trim, "this position"),
    (exp.Substring, _substring, "this start length"),
    (exp.Year, _of_this(_date_part, "year"), "this"),
    (exp.Month, _of_this(_date_part, "month"), "this"),
    ((exp.Day, exp.DayOfMonth), _of_this(_date_part, "day"), "this"),
    (exp.Extract, lambda n, s: _date_part(_part_name(n.this), n.expression, s), "this expression"),
    ((exp.TimestampTrunc, exp.DateTrunc), _truncate, "this unit"),
    (exp.Coalesce, _coalesce, "this expressions"),
    (exp.Cast, _to_text, "this to"),
    (exp.Dot, _of_main, "this expression"),
)
