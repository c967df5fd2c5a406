"""Conditions: what is compared with what, and in which type."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from sqlglot import exp

from dp_sql.privacy.expressions.calls import applied
from dp_sql.privacy.expressions.choices import one_type
from dp_sql.privacy.expressions.collations import BINARY, PLAIN, agree, escaped, like, under
from dp_sql.privacy.expressions.comparisons import beside
from dp_sql.privacy.expressions.literals import constant, is_double, is_literal, of_literals
from dp_sql.privacy.expressions.scope import Scope
from dp_sql.privacy.expressions.strings_and_dates import as_string
from dp_sql.privacy.expressions.value import Value
from dp_sql.privacy.refusals import refuse
from dp_sql.sql.sqlglot_tree import Node, made_of, parsed_text, parts_of
from dp_sql.sql.tokens import tokenize
from dp_sql.sql.types import BINARY_TYPES, EXACT_TYPES, UP_TO_64_BITS, family, of_both

# Types with an order and an equality that fail on no value, and a string for every value.
COMPARABLE = EXACT_TYPES | BINARY_TYPES
_NOT_IN_GLOBS = "?[]\\%_"
_ORDER = (exp.LT, exp.NullSafeEQ)
_QUANTIFIERS = {"SOME": "=", "ALL": "<>"}  # sqlglot has a node for ANY alone
COMPARISONS: Mapping[type, str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM", exp.NullSafeNEQ: "IS DISTINCT FROM",
}  # fmt: skip


def boolean(sql: str) -> Value:
    """A condition as a value."""
    return Value(f"({sql})", "BOOLEAN")


def _maybe_not(node: Node, sql: str) -> Value:
    """Sqlglot keeps the NOT of NOT LIKE inside the node or around it, depending on its version."""
    if not node.args.get("negate"):
        return boolean(sql)
    _check_not(node)
    return boolean(f"NOT ({sql})")


def negated(node: Node, scope: Scope) -> Value:
    """NOT a condition."""
    _check_not(node)
    return boolean(f"NOT {scope.condition(node.this)}")


def _check_not(node: Node) -> None:
    """Refuse ! for NOT, as sqlglot reads DuckDB's factorial."""
    if _has_factorial(str(node.root().meta.get("sql", ""))):
        raise refuse(node, "The operator ! is not supported here", "Write NOT before a condition.")


@lru_cache(4)  # asked for each NOT of a statement
def _has_factorial(text: str) -> bool:
    """Whether a statement has a factorial, as in n!."""
    tokens = tokenize(text)
    signs = [i + 1 for i, token in enumerate(tokens) if token.is_symbol("!")]
    return not all(tokens.at(behind).is_symbol("~") for behind in signs)  # !~ and !~~ are others


def is_constant(node: Node, scope: Scope) -> Value:
    """IS [NOT] NULL, TRUE or FALSE."""
    of, right = node.this, node.expression
    if is_literal(of):
        scope.only_analysts(node, "IS takes a column here")
    left = constant(of, scope.schema) if is_literal(of) else scope.operand(of)
    if isinstance(right, exp.Null):
        return _maybe_not(node, f"{left.sql} IS NULL")
    if isinstance(right, exp.Boolean) and left.type == "BOOLEAN":
        return _maybe_not(node, f"{left.sql} IS {'TRUE' if right.this else 'FALSE'}")
    raise refuse(node, "IS must be followed by NULL, TRUE or FALSE")


def _own(node: Node, value: Value) -> Value:
    """A value under its own collation, as it is compared with literals."""
    return under(agree(node, value), value)


def compare(node: Node, scope: Scope) -> Value:
    """One of = <> < <= > >= and IS [NOT] DISTINCT FROM."""
    sign, left, right = COMPARISONS[type(node)], node.this, node.expression
    if (word := right.name.upper()) in _QUANTIFIERS and isinstance(right, exp.Anonymous):
        return _quantified(node, word, sign, right, scope)
    if isinstance(left, exp.Tuple) and not sign.startswith("IS "):
        return _rows(node, sign, scope)
    if is_literal(left) and not isinstance(right, exp.Any):
        return _of_literal(node, sign, scope)
    if sign in {"=", "<>"} and any(map(_is_empty, (left, right))):
        scope.only_analysts(node, "An empty list is not compared here")
        return _with_none(node, right if _is_empty(left) else left, sign, scope)
    if isinstance(right, exp.Any) and sign == "=":
        return _any(node, right.this, scope)
    return compared(node, scope.operand(left), sign, right, scope)


def _of_literal(node: Node, sign: str, scope: Scope) -> Value:
    """A literal compared with an expression, or with another literal, as in 1 = 1."""
    left, right = node.this, node.expression
    if not is_literal(right):
        a, b = beside(_own(node, scope.operand(right)), left, scope.schema)
        return boolean(f"{b} {sign} {a}")
    scope.only_analysts(node, "Constants are not compared here")
    if known := of_literals(left, sign, right):
        return boolean(known)
    hint = "Write TRUE or FALSE in its place."
    raise refuse(node, "These two constants are not compared here", hint)


def _is_empty(node: Node) -> bool:
    return isinstance(node, exp.Array) and not any(node.args.values())


def _with_none(node: Node, of: Node, sign: str, scope: Scope) -> Value:
    """Compare a list with [], by its length."""
    value = scope.operand(of)
    if not value.type.endswith("[]"):
        raise refuse(node, f"{value.type} is not compared with an empty list")
    return boolean(f"system.main.len({value.sql}) {sign} 0")


def _quantified(node: Node, word: str, sign: str, right: Node, scope: Scope) -> Value:
    """Compare `x = SOME(list)`, which is `x = ANY(list)`, or `x <> ALL(list)`, its opposite."""
    if _QUANTIFIERS[word] != sign or len(right.expressions) != 1 or right.find(exp.Query):
        hint = f"Write x {'NOT ' * (sign == '<>')}IN (1, 2)."
        raise refuse(node, f"{sign} {word} is not supported here", hint)
    found = _any(node, right.expressions[0], scope)
    return found if sign == "=" else boolean(f"NOT {found.sql}")


def _any(node: Node, among: Node, scope: Scope) -> Value:
    """Compare `x = ANY(list)`, with a list in the statement or a literal x; or IN (SELECT …)."""
    if among.find(exp.Query) is not None:  # as stored views have it
        return _among(node, scope.operand(node.this), among, scope)
    scope.only_analysts(node, "= ANY(list) is not supported here")
    among = among.unnest()
    if isinstance(among, exp.Array) and among.expressions:
        return _one_of(node, scope.operand(node.this), among.expressions, scope)
    return applied("= ANY", [among, node.this], node, scope)


def compared(node: Node, value: Value, sign: str, right: Node, scope: Scope) -> Value:
    """A value compared with an expression or a literal."""
    if is_literal(right):
        a, b = beside(_own(node, value), right, scope.schema)
        return boolean(f"{a} {sign} {b}")
    agree(node, value)
    other = scope.operand(right)
    if value.type == other.type and family(value.type) in {*COMPARABLE, "INTERVAL"}:
        collation = agree(node, value, other)
        value, other = under(collation, value), under(collation, other)
        return boolean(f"{value.sql} {sign} {other.sql}")
    if {family(value.type), family(other.type)} <= UP_TO_64_BITS:
        return boolean(f"CAST({value.sql} AS HUGEINT) {sign} CAST({other.sql} AS HUGEINT)")
    scope.only_analysts(node, f"{value.type} and {other.type} are not compared here")
    _, (value, other) = one_type(node, [value, other], scope)
    return boolean(f"{value.sql} {sign} {other.sql}")


def between(node: Node, scope: Scope) -> Value:
    """BETWEEN two literals or expressions."""
    limits = [node.args["low"], node.args["high"]]
    if is_literal(node.this):
        return _literal_between(node, limits, scope)
    value = scope.operand(node.this)
    if not all(map(is_literal, limits)):
        scope.only_analysts(node, "BETWEEN is supported only with literals")
        value = value._replace(collation=agree(node, value, *_operands(limits, scope)))
        pairs = zip((">=", "<="), limits, strict=True)
        terms = (compared(node, value, sign, limit, scope).sql for sign, limit in pairs)
        return boolean(" AND ".join(terms))
    _same_kind(node, limits)
    value = _own(node, value)
    (low, a), (high, b) = (beside(value, limit, scope.schema) for limit in limits)
    return boolean(f"{low} >= {a} AND {high} <= {b}")


def _literal_between(node: Node, limits: Sequence[Node], scope: Scope) -> Value:
    """A literal BETWEEN two expressions of one type, as in DATE '…' BETWEEN valid_from AND …."""
    scope.only_analysts(node, "BETWEEN takes a column first here")
    values = _operands(limits, scope)
    types = {value.type for value in values}
    if len(types) > 1:  # DuckDB compares all three in one type, and under one collation
        raise refuse(node, f"A literal BETWEEN {' and '.join(sorted(types))} is not supported here")
    collation = agree(node, *values)
    if collation not in {PLAIN, BINARY} and [v.collation for v in values] != [collation] * 2:
        raise refuse(node, "A literal BETWEEN values under two collations is not supported here")
    pairs = zip((exp.GTE, exp.LTE), limits, strict=True)
    terms = [_comparison(kind, node.this, limit) for kind, limit in pairs]
    return boolean(" AND ".join(compare(term, scope).sql for term in terms))


def _comparison(kind: type[exp.Binary], left: Node, right: Node) -> Node:
    """A comparison of two expressions of a statement that does not compare them itself."""
    return made_of(left, kind(this=left.copy(), expression=right.copy()))


def _operands(nodes: Sequence[Node], scope: Scope) -> list[Value]:
    """The values of those that are no literals."""
    return [scope.operand(node) for node in nodes if not is_literal(node)]


def _same_kind(node: Node, literals: Sequence[Node]) -> None:
    """DuckDB compares a list in one type for all, which one 1e0 makes DOUBLE."""
    if len(set(map(is_double, literals))) == 2:
        raise refuse(node, "Write these numbers either all with an exponent or all without one")


def in_list(node: Node, scope: Scope) -> Value:
    """IN a list, or in a public column."""
    query, choices, field = node.args.get("query"), node.expressions, node.args.get("field")
    if field is not None:
        scope.only_analysts(node, "IN is supported here only in its basic form")
        return applied("list_contains", [field, node.this], node, scope)
    if isinstance(node.this, exp.Tuple) and choices:
        return _same_row(node, node.this, choices, scope)
    if is_literal(node.this) and choices:
        terms = [_comparison(exp.EQ, node.this, one) for one in choices]
        return boolean(" OR ".join(compare(term, scope).sql for term in terms))
    value = scope.operand(node.this)
    if query is not None:
        return _among(node, value, query, scope)
    if not choices:
        raise refuse(node, "IN is supported only with a list or a column of a public table")
    return _one_of(node, value, choices, scope)


def _same_row(node: Node, row: Node, others: Sequence[Node], scope: Scope) -> Value:
    """Compile `(a, b) = (1, 2)` and `(a, b) IN ((1, 2), …)`, where NULLs are equal."""
    found = []
    for other in others:
        pairs = _pairs(node, row, other, scope)
        terms = [_comparison(exp.NullSafeEQ, a, b) for a, b in pairs]
        found.append(" AND ".join(compare(term, scope).sql for term in terms))
    return boolean(" OR ".join(found))


def _rows(node: Node, sign: str, scope: Scope) -> Value:
    """Compare two rows, where NULL is the greatest value, and equal to NULL."""
    if sign in {"=", "<>"}:
        same_row = _same_row(node, node.this, [node.expression], scope)
        return same_row if sign == "=" else boolean(f"NOT {same_row.sql}")
    sql = "TRUE" if "=" in sign else "FALSE"
    sides = (node.this, node.expression) if "<" in sign else (node.expression, node.this)
    for a, b in reversed(_pairs(node, *sides, scope)):
        less, same = (compare(_comparison(kind, a, b), scope).sql for kind in _ORDER)
        first, second = (scope.argument(one).sql for one in (a, b))
        less = f"{less} IS TRUE OR ({first} IS NOT NULL AND {second} IS NULL)"
        sql = f"({less} OR ({same} AND {sql}))"
    return boolean(sql)


def _pairs(node: Node, row: Node, other: Node, scope: Scope) -> list[tuple[Node, Node]]:
    """The values of two rows of one length."""
    scope.only_analysts(node, "Rows are not compared here")
    are_rows = all(
        isinstance(r, exp.Tuple) and parts_of(r) == {"expressions"} for r in (row, other)
    )
    if not are_rows or len(row.expressions) != len(other.expressions):
        raise refuse(node, "Write as many values in brackets on both sides, as in (a, b) = (1, 2)")
    return [*zip(row.expressions, other.expressions, strict=True)]


def _one_of(node: Node, value: Value, choices: Sequence[Node], scope: Scope) -> Value:
    if len(choices) == 1 and isinstance(choices[0], exp.Values):  # IN (VALUES ('a'), ('b'))
        rows = choices[0].expressions
        if all(isinstance(row, exp.Tuple) and len(row.expressions) == 1 for row in rows):
            choices = [row.expressions[0] for row in rows]
    if not all(map(is_literal, choices)):
        scope.only_analysts(node, "IN is supported only with literals")
        terms = (compared(node, value, "=", choice, scope).sql for choice in choices)
        return boolean(" OR ".join(terms))
    _same_kind(node, choices)
    value = _own(node, value)
    pairs = [beside(value, choice, scope.schema) for choice in choices]
    if len({a for a, _ in pairs}) == 1:
        return boolean(f"{pairs[0][0]} IN ({', '.join(b for _, b in pairs)})")
    return boolean(" OR ".join(f"{a} = {b}" for a, b in pairs))


def _among(node: Node, value: Value, query: Node, scope: Scope) -> Value:
    if scope.matched is not None and (found := scope.matched(query, value)) is not None:
        return found
    column = scope.public_column(query, False)
    types = {column.type, value.type}
    kind = "HUGEINT" if types <= UP_TO_64_BITS else of_both(column.type, value.type)
    if len(types) > 1 and kind is not None:
        numbers = f"SELECT CAST(c AS {kind}) FROM {column.sql} AS __dp_numbers(c)"
        return boolean(f"CAST({value.sql} AS {kind}) IN ({numbers})")
    if column.type != value.type or family(value.type) not in COMPARABLE:
        why = f"IN compares {value.type} with {column.type}; both must have the same type"
        raise refuse(node, why)
    value = under(agree(node, value, column), value)
    return boolean(f"{value.sql} IN {column.sql}")


def like_escaped(node: Node, scope: Scope) -> Value:
    """LIKE or ILIKE with ESCAPE and a literal character."""
    inner, escape = node.this, node.expression
    plain = isinstance(escape, exp.Literal) and escape.is_string
    if (
        not plain
        or len(escape.this) > 1
        or not (escape.this < "\x80" and not escape.this.isalnum())
    ):
        why = "ESCAPE takes an escape character in quotes here, no letter"
        raise refuse(node, why, "For example: LIKE '50!%' ESCAPE '!'.")
    known = {"this", "expression", "negate"}
    if not isinstance(inner, exp.Like | exp.ILike) or parts_of(inner) - known:
        raise refuse(node, "ESCAPE is supported only after LIKE and ILIKE")
    return like_pattern(inner, scope, escape.this)


def like_pattern(node: Node, scope: Scope, escape: str = "") -> Value:
    """LIKE or ILIKE with a literal pattern."""
    value, pattern = as_string(node, scope.operand(node.this)), _string(node.expression)
    if family(value.type) != "VARCHAR" or pattern is None or "\0" in pattern:
        raise refuse(node, "LIKE is supported only for a string column and a pattern in quotes")
    written = tokenize(parsed_text(node)) if isinstance(node.expression, exp.DPipe) else ()
    if any(token.is_symbol("~") for token in written):  # DuckDB 1.5 reads (x ~~ 'a') || '%'
        raise refuse(node, "Put brackets around the pattern behind ~~, or write LIKE")
    if isinstance(node, exp.Glob):
        if any(c in _NOT_IN_GLOBS for c in pattern) or value.collation not in {PLAIN, BINARY}:
            why = "GLOB is supported here with * as its only wildcard"
            raise refuse(node, why, "Write LIKE, in which _ is any one character.")
        return boolean(like(node, value, pattern.replace("*", "%"), fold=False))
    characters = escaped(node, pattern, escape)
    return _maybe_not(node, like(node, value, characters, isinstance(node, exp.ILike)))


def _string(node: Node) -> str | None:
    """A string in quotes, or several with || between them, as SQLAlchemy writes patterns."""
    if isinstance(node, exp.Paren) and parts_of(node) == {"this"}:
        return _string(node.this)
    if isinstance(node, exp.DPipe):
        left, right = _string(node.this), _string(node.expression)
        return None if left is None or right is None else left + right
    return node.this if isinstance(node, exp.Literal) and node.is_string else None


def chosen(node: Node, scope: Scope) -> Value:
    """CASE in both forms, or IF."""
    is_if = isinstance(node, exp.If)
    value = None if is_if or node.this is None else scope.operand(node.this)
    branches, default = [node] if is_if else node.args["ifs"], "false" if is_if else "default"
    for branch in branches:
        if parts_of(branch) - {"this", "true", "false"}:
            raise refuse(branch, "This form of CASE is not supported here")
    results = [scope.argument(branch.args["true"]) for branch in branches]
    otherwise = node.args.get(default)
    if is_if and otherwise is None:
        raise refuse(node, "if takes a condition and two values", "Write if(…, …, NULL).")
    results.append(scope.argument(exp.null() if otherwise is None else otherwise))
    made, values = one_type(node, results, scope)
    pairs = ""
    for branch, result in zip(branches, values, strict=False):
        when = branch.this
        is_equal = None if value is None else compared(node, value, "=", when, scope).sql
        pairs += f" WHEN {is_equal or scope.condition(when)} THEN {result.sql}"
    return made._replace(sql=f"(CASE{pairs} ELSE {values[-1].sql} END)")
