"""Does a row have a match in another relation? EXISTS, IN over private tables, SEMI and ANTI joins.

The distinct keys of the other relation are joined by LEFT JOIN, with a 1 beside them, and the
condition is whether there is a 1. Where the other relation is private, the person is compared, too:
so what the condition says of a row depends on the rows of its person and on public rows alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from dp_sql.privacy.comparisons import Value, refuse
from dp_sql.privacy.expressions import compiled
from dp_sql.privacy.from_clause import From, FromPart, Rows, conditions
from dp_sql.privacy.join_keys import Pair, ScopeOf, alike, check_keys, compared, key
from dp_sql.privacy.join_sql import is_found
from dp_sql.privacy.relation_tree import LeftJoin
from dp_sql.privacy.tables import Tables
from dp_sql.sql.sqlglot_tree import Node

HINT = (
    "Compare the privacy units of both tables: WHERE user_id IN (SELECT user_id FROM other), or "
    "WHERE EXISTS (SELECT 1 FROM other AS o WHERE o.user_id = r.user_id)."
)
_ONE = Value("1", "INTEGER")


def has_match(node: Node, outer: From, inner: From, equal: Sequence[Pair], tables: Tables) -> Value:
    """Whether a row of `outer` has a row of `inner` with equal columns, as a condition of `outer`.

    The first side of each pair is a column of `outer`, the second is an expression over `inner`.
    Raises Refused where rows of different people would be compared.
    """
    owner, number = outer.private, len(outer.parts)
    if owner is None and inner.person_type is not None:
        why = "Rows of a private table would decide here which rows of a public table are kept"
        raise refuse(node, why, "Select from the private table, and join the public table to it.")
    if not equal and (not tables.trusted or inner.person_type is not None):
        raise refuse(node, "This subquery compares no column with the outer query", HINT)
    relation = inner.select([_ONE, *(b for _, b in equal)])
    part = FromPart((), number, Rows(relation, (), (), inner.person_type))
    check_keys(node, owner, part, equal, tables, HINT)
    columns = [(a, replace(b, sql=f"r{number}c{i}")) for i, (a, b) in enumerate(equal, 1)]
    outer.parts.append(part)
    outer.left_joins.append(LeftJoin(number, compared(columns), is_match=True))
    one = f"r{number}c0"
    if owner is None or inner.person_type is None:
        return Value(f"(coalesce({one}, 0) = 1)", "BOOLEAN")
    return Value(f"({is_found(one, f'r{owner.number}p')})", "BOOLEAN")


def correlated(
    terms: Sequence[Node], outer: From, inner: From, scope_of: ScopeOf, where_of: ScopeOf
) -> list[Pair]:
    """The pairs that a chain of AND compares; what it says of `inner` alone is kept in `inner`.

    Names are looked for in `inner` first. `scope_of` and `where_of` say what an expression, and
    what a condition of WHERE, may use.
    """

    def is_inner(node: Node) -> set[bool]:
        return {inner.has(column) for column in node.find_all(exp.Column)}

    pairs = []
    for term in terms:
        if term.find(exp.Query) is not None or is_inner(term) <= {True}:
            inner.where += conditions(term, where_of(inner))
            continue
        sides = [term.this, term.expression] if isinstance(term, exp.EQ) else []
        sides.sort(key=lambda side: True in is_inner(side))
        if [is_inner(side) for side in sides] != [{False}, {True}]:
            why = "A condition over both queries may only compare a column of each for equality"
            raise refuse(term, why, HINT)
        a, b = key(sides[0], outer, scope_of), compiled(sides[1], scope_of(inner))
        if a is None:
            raise refuse(term, "This side must be an expression of one table's columns", HINT)
        pairs.append(alike(a, b, outer))
    return pairs
