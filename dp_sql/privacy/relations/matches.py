"""Whether a row has a match in another relation: EXISTS, IN over private tables, SEMI, ANTI joins.

Such a condition is a LEFT JOIN with the distinct keys of the other relation and a 1 beside them:
there is a match where there is a 1. Where the other relation is private, the person is compared,
too, so the condition depends on the rows of the row's person and on public rows alone.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from sqlglot import exp

from dp_sql.privacy.expressions.scope import Scope
from dp_sql.privacy.expressions.value import Value
from dp_sql.privacy.refusals import refuse
from dp_sql.privacy.relations.base_tables import Tables
from dp_sql.privacy.relations.from_clause import From, FromPart
from dp_sql.privacy.relations.join_sql import is_found
from dp_sql.privacy.relations.joins import (
    Pair,
    ScopeOf,
    alike,
    are_of_one_person,
    check_keys,
    compared,
    key,
)
from dp_sql.privacy.relations.rows import Rows
from dp_sql.privacy.relations.select_clauses import conditions, only
from dp_sql.privacy.relations.tree import LeftJoin
from dp_sql.sql.sqlglot_tree import Node
from dp_sql.sql.types import has_fields

SUBQUERY = (
    "Compare the privacy units of both tables: WHERE user_id IN (SELECT user_id FROM other), or "
    "WHERE EXISTS (SELECT 1 FROM other AS o WHERE o.user_id = r.user_id)."
)
_ONE = Value("1", "INTEGER")


class Match(NamedTuple):
    """What compares rows of two FROM clauses.

    equal: pairs of a column of the outer one and an expression over the inner one. terms: other
    conditions over both. scope: of the outer one. is_of_inner: which clause has a column.
    """

    equal: list[Pair]
    terms: Sequence[Node]
    scope: Scope
    is_of_inner: Callable[[exp.Column], bool]


def has_match(node: Node, outer: From, inner: From, match: Match, tables: Tables) -> Value:
    """Whether a row of `outer` has a row of `inner` that matches it, as a condition of `outer`.

    Raises Refused where rows of different people would be compared.
    """
    equal = match.equal
    owner, number = outer.first_private, len(outer.parts)
    if owner is None and inner.person_type is not None:
        why = "Rows of a private table would decide here which rows of a public table are kept"
        raise refuse(node, why, "Select from the private table, and join the public table to it.")
    if not equal and inner.person_type is not None:
        raise refuse(node, "This subquery compares no column with the outer query", SUBQUERY)
    read = [_ONE, *(b for _, b in equal)]
    terms = _terms(match, number, inner, read)
    part = FromPart((), number, Rows(inner.select(read), (), (), inner.person_type))
    check_keys(node, owner, part, equal, tables, SUBQUERY)
    columns = [(a, b._replace(sql=f"r{number}c{i}")) for i, (a, b) in enumerate(equal, 1)]
    outer.parts.append(part)
    outer.left_joins.append(LeftJoin(number, compared(columns), terms, is_semi=True))
    one = f"r{number}c0"
    if owner is None or inner.person_type is None:
        return Value(f"(coalesce({one}, 0) = 1)", "BOOLEAN")
    sql = f"({is_found(one, f'r{owner.number}p')})"
    # Where nothing but the person is compared, it depends on the row's person alone.
    is_of_one = not terms and all(a.is_person and b.is_person for a, b in equal)
    return Value(sql, "BOOLEAN", is_of_one=is_of_one, facts_of=sql)


def _terms(match: Match, number: int, inner: From, read: list[Value]) -> tuple[str, ...]:
    """The conditions over both; what they read of `inner` becomes columns of relation `number`."""

    def column(node: exp.Column) -> Value:
        if not match.is_of_inner(node):
            return match.scope.column(node)
        value = inner.column(node)
        read.append(value)
        return value._replace(sql=f"r{number}c{len(read) - 1}", is_person=False)

    scope = match.scope._replace(column=column, as_written=None)
    return tuple(scope.condition(term) for term in match.terms)


def among(node: Node, value: Value, rows: Rows, outer: From, scope: Scope, tables: Tables) -> Value:
    """Whether a column of `outer` is in a private query of one column: one person's own values."""
    inner = From([FromPart((), 0, rows)])
    if len(rows.values) == 1:
        pair = value, inner.parts[0].value(0)
        if value.origin is not None:  # it is a column
            pair = alike(*pair, outer)
        if are_of_one_person(*pair, tables):
            match = Match([pair], (), scope, lambda _: False)
            return has_match(node, outer, inner, match, tables)
    why = "IN (SELECT …) must read public tables only, or compare privacy units"
    raise refuse(node, why, SUBQUERY)


def correlated(
    terms: Sequence[Node],
    outer: From,
    inner: From,
    scope_of: ScopeOf,
    where_of: ScopeOf,
    *,
    beside: bool = False,
) -> Match:
    """What a chain of AND compares; what it says of `inner` alone is kept in `inner`.

    Names are looked for in `inner` first, or in both where they are `beside` each other: then a
    table's column comes before a column's field. `scope_of` and `where_of` say what an expression,
    and what a condition of WHERE, may use.
    """

    def is_of_inner(column: exp.Column) -> bool:
        if not inner.has(column):
            return False
        value, n_parts = inner.found(column)
        if n_parts == len(column.parts):
            return True
        is_column = beside and outer.has(column) and outer.found(column)[1] == len(column.parts)
        return has_fields(value.type) and not is_column

    def is_inner(node: Node) -> set[bool]:
        return set(map(is_of_inner, node.find_all(exp.Column)))

    pairs: list[Pair] = []
    others = []
    for term in terms:
        if term.find(exp.Query) is not None or is_inner(term) <= {True}:
            inner.where += conditions(term, where_of(inner))
            continue
        sides = [term.this, term.expression] if isinstance(term, exp.EQ) else []
        sides.sort(key=lambda side: True in is_inner(side))
        if [is_inner(side) for side in sides] != [{False}, {True}]:
            others.append(term)
            continue
        a = key(sides[0], outer, scope_of)
        if a is None:  # an expression of several tables, or one that is compiled for analysts only
            others.append(term)
        else:
            pairs.append(alike(a, scope_of(inner).compiled(sides[1]), outer))
    return Match(pairs, others, scope_of(outer), is_of_inner)


def check_exists(query: Node) -> None:
    """Refuse a query of EXISTS that is more than SELECT 1 FROM … WHERE …."""
    only(query, {"expressions", "from_", "joins", "where", "with_"})
    listed = (exp.Star, exp.Literal, exp.Null, exp.Column)
    if not isinstance(query, exp.Select) or not all(
        isinstance(node, listed) for node in query.expressions
    ):
        raise refuse(query, "EXISTS takes SELECT 1 FROM … WHERE …", SUBQUERY)
