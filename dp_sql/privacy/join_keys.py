"""Which columns does a join compare, and does it join rows of one person only?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from dp_sql.privacy.collations import agree
from dp_sql.privacy.comparisons import SMALL, Refused, Scope, Value, refuse
from dp_sql.privacy.expressions import compiled
from dp_sql.privacy.from_clause import ALLOWED, From, FromPart, only
from dp_sql.privacy.relation_tree import relations_in
from dp_sql.privacy.tables import Tables
from dp_sql.sql.sqlglot_tree import Node
from dp_sql.sql.types import as_key

Pair = tuple[Value, Value]
ScopeOf = Callable[[From], Scope]


def equal_pair(term: Node, source: From, number: int, scope_of: ScopeOf) -> Pair | None:
    """The two sides of `a = b`, of an earlier relation and of this one; None for other terms."""
    if not isinstance(term, exp.EQ):
        return None
    only(term, {"this", "expression"})
    sides = [(_part_of(side, source), side) for side in (term.this, term.expression)]
    if sides[0][0] == number:
        sides.reverse()
    (before, first), (after, second) = sides
    if after != number or before in {None, number}:
        return None
    a, b = key(first, source, scope_of), key(second, source, scope_of)
    return None if a is None or b is None else alike(a, b, source, source)


def key(node: Node, source: From, scope_of: ScopeOf) -> Value | None:
    """A side of an equality as a column; an expression of one relation becomes a column of it.

    None where it is another expression. NULLs that a LEFT JOIN adds are not values of its relation.
    """
    if isinstance(node, exp.Column):
        return source.column(node)
    number = _part_of(node, source)
    if number is None or any(join.number == number for join in source.left_joins):
        return None
    scope = scope_of(From([replace(source.parts[number], number=0)]))
    try:
        return source.add(number, compiled(node, scope))
    except Refused:
        if scope.as_written is None:
            raise
    return None  # an owner's ON is then taken as written


def _part_of(node: Node, source: From) -> int | None:
    """The relation whose columns an expression names; None where there is not exactly one."""
    if isinstance(node, exp.Column):
        source.column(node)
    columns = () if node.find(exp.Query) is not None else node.find_all(exp.Column)
    numbers = relations_in(*(source.found(column)[0].sql for column in columns))
    return numbers.pop() if len(numbers) == 1 else None


def _common(a: str, b: str) -> str | None:
    """The type in which two types are compared without loss; None where they need no cast."""
    if a != b and {a, b} <= SMALL:
        return "HUGEINT"
    return "TIMESTAMP" if {a, b} == {"DATE", "TIMESTAMP"} else None


def alike(a: Value, b: Value, first: From, second: From | None = None) -> Pair:
    """Two sides in one type: a column of `first`, and a column of `second` or an expression.

    A column that is cast becomes another column; a date beyond the type is NULL, which equals
    nothing. Privacy units stay as they are.
    """
    kind = None if a.is_person and b.is_person else _common(a.type, b.type)

    def cast(value: Value, source: From | None) -> Value:
        if kind is None or value.type == kind:
            return value
        if source is None:
            return Value(f"TRY_CAST({value.sql} AS {kind})", kind)
        number, index = map(int, value.sql[1:].split("c"))
        return source.add(number, Value(f"TRY_CAST(r0c{index} AS {kind})", kind))

    return cast(a, first), cast(b, second)


def check_keys(
    node: Node,
    owner: FromPart | None,
    part: FromPart,
    equal: Sequence[Pair],
    tables: Tables,
    hint: str = ALLOWED,
) -> None:
    """Refuse a join of `part` that compares different types, or joins rows of two people."""
    for a, b in equal:
        if as_key("", a.type)[1] != as_key("", b.type)[1]:
            raise refuse(node, f"A join compares {a.type} with {b.type}", "Join equal types.")
        agree(node, a, b)
    both_private = owner is not None and part.rows.private
    if not equal and (both_private or not tables.trusted):
        raise refuse(node, "A join must compare a column of each side for equality", hint)
    if owner is not None and part.rows.private:
        link = tables.is_link
        same = any((a.is_person and b.is_person) or link(a, b) or link(b, a) for a, b in equal)
        if not same or owner.rows.person_type != part.rows.person_type:
            why = "Two private tables must be joined on their privacy units, so that no row "
            raise refuse(node, f"{why}depends on two people", hint)


def compared(equal: Sequence[Pair]) -> tuple[tuple[str, str], ...]:
    """The columns that are still to be compared: where people are the same, so are their units."""
    return tuple((a.sql, b.sql) for a, b in equal if not (a.is_person and b.is_person))
