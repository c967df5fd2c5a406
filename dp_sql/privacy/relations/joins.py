"""Joins of a FROM clause: which columns they compare, and lists as rows.

A join of two private relations may only join rows of one person.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from sqlglot import exp

from dp_sql.privacy.expressions.collations import BINARY, agree
from dp_sql.privacy.expressions.scope import Scope
from dp_sql.privacy.expressions.value import Value
from dp_sql.privacy.refusals import Refused, refuse
from dp_sql.privacy.relations.base_tables import Tables
from dp_sql.privacy.relations.from_clause import JOINED, From, FromPart, NamedColumn
from dp_sql.privacy.relations.rows import Rows
from dp_sql.privacy.relations.select_clauses import UNNEST, column_name, conjuncts, list_value, only
from dp_sql.privacy.relations.tree import Table, Unnest, place_of, relations_below, relations_in
from dp_sql.sql.formatting import shown_name
from dp_sql.sql.sqlglot_tree import Node
from dp_sql.sql.tokens import folded
from dp_sql.sql.types import FIT_HUGEINT, as_key, of_both

Pair = tuple[Value, Value]
ScopeOf = Callable[[From], Scope]


def equal_pair(term: Node, source: From, number: int, scope_of: ScopeOf) -> Pair | None:
    """The two sides of `a = b`, of an earlier relation and of this one; None for other terms.

    Rows whose privacy unit is NULL count nowhere, so IS NOT DISTINCT FROM of two units is `=`.
    """
    if not isinstance(term, exp.EQ) and not _is_of_units(term, source):
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


def _is_of_units(term: Node, source: From) -> bool:
    sides = [term.this, term.expression] if isinstance(term, exp.NullSafeEQ) else []
    return bool(sides) and all(
        isinstance(side, exp.Column) and source.found(side)[0].is_person for side in sides
    )


def on_terms(
    on: Node | None, source: From, part: FromPart, scope_of: ScopeOf
) -> tuple[list[Pair], list[str]]:
    """The equal columns of an ON clause, and its other conditions."""
    equal, terms, scope = [], [], scope_of(source)
    for term in conjuncts(on):
        pair = equal_pair(term, source, part.number, scope_of)
        if pair is not None:
            equal.append(pair)
            continue
        try:
            terms.append(scope.condition(term))
        except Refused:
            if scope.as_written is None or on is None:
                raise
            return equal, [scope.as_written(on).sql]
    return equal, terms


def listed_pairs(
    where: Sequence[Node], source: From, number: int, scope_of: ScopeOf
) -> Iterator[Pair]:
    """The equal columns by which WHERE joins a relation that FROM only lists."""
    for term in where:
        with suppress(Refused):  # of relations that are joined later
            if (pair := equal_pair(term, source, number, scope_of)) is not None:
                yield pair


def using_pairs(names: Sequence[Node], left: From, part: FromPart, source: From) -> Iterator[Pair]:
    """The columns of USING, in `left` and in `part`; those of `part` are then hidden."""
    for name in names:
        column = exp.column(name.name)
        yield alike(left.column(column), From([part]).column(column), source, source)
        source.hidden.add((part.number, part.rows.names.index(folded(name.name))))


def key(node: Node, source: From, scope_of: ScopeOf) -> Value | None:
    """A side of an equality as a column; an expression of one relation becomes a column of it.

    None where it is another expression. NULLs that a LEFT JOIN adds are not values of its relation.
    """
    if isinstance(node, exp.Column):
        column, n_parts = source.found(node)
        if n_parts == len(node.parts):
            return column  # and not a field of one
    number = _part_of(node, source)
    if number is None or any(join.number == number for join in source.left_joins):
        return None
    scope = scope_of(From([source.parts[number]._replace(number=0)]))
    try:
        return source.add(number, scope.compiled(node))
    except Refused:
        if scope.as_written is None:
            raise
    return None  # an owner's ON is then taken as written


def _part_of(node: Node, source: From) -> int | None:
    """The relation whose columns an expression names; None where there is not exactly one."""
    columns = () if node.find(exp.Query) is not None else node.find_all(exp.Column)
    numbers = relations_in(*(source.found(column)[0].sql for column in columns))
    return numbers.pop() if len(numbers) == 1 else None


def _common(a: str, b: str) -> str | None:
    """The type in which two types are compared without loss; None where they need no cast."""
    if a != b and {a, b} <= FIT_HUGEINT:
        return "HUGEINT"
    return "TIMESTAMP" if {a, b} == {"DATE", "TIMESTAMP"} else of_both(a, b)


def alike(a: Value, b: Value, first: From, second: From | None = None) -> Pair:
    """Two sides in one type: a column of `first`, and a column of `second` or an expression.

    A column that is cast becomes another column; a date beyond the type is NULL, which equals
    nothing. Privacy units stay as they are.
    """
    kind = None if a.is_person and b.is_person else _common(a.type, b.type)

    def cast(value: Value, source: From | None) -> Value:
        if kind is None or value.type == kind:
            return value
        origin = value.origin if kind == "HUGEINT" else None  # the same integer: still a link's end
        if source is None:
            return Value(f"TRY_CAST({value.sql} AS {kind})", kind, origin)
        number, index = place_of(value.sql)
        return source.add(number, Value(f"TRY_CAST(r0c{index} AS {kind})", kind, origin))

    return cast(a, first), cast(b, second)


def check_keys(
    node: Node,
    owner: FromPart | None,
    part: FromPart,
    equal: Sequence[Pair],
    tables: Tables,
    hint: str = JOINED,
) -> None:
    """Refuse a join of `part` that compares different types, or joins rows of two people."""
    for a, b in equal:
        if as_key("", a.type)[1] != as_key("", b.type)[1]:
            if a.is_person and b.is_person:
                tables.note_people(a.type, b.type)
            raise refuse(
                node, f"A join compares {a.type} with {b.type}", "Join columns of one type."
            )
        agree(node, a, b)
    if owner is not None and part.rows.is_private:
        same = any(are_of_one_person(*pair, tables) for pair in equal)
        if not same or owner.rows.person_type != part.rows.person_type:
            why = "Two private tables must be joined on their privacy units, so that no row "
            raise refuse(node, f"{why}depends on two people", hint)


def are_of_one_person(a: Value, b: Value, tables: Tables) -> bool:
    """Whether rows of private tables with these two columns equal are one person's."""
    return (a.is_person and b.is_person) or tables.is_link(a, b) or tables.is_link(b, a)


def of_one_person(source: From, part: FromPart, tables: Tables) -> Iterator[str]:
    """Conditions that join a relation to rows of the same person, as SQL."""
    for one in source.parts:
        if not (one.rows.is_private and part.rows.is_private and one.name and part.name):
            continue
        for own, a in zip(one.rows.names, one.rows.values, strict=True):
            for other, b in zip(part.rows.names, part.rows.values, strict=True):
                if own and other and are_of_one_person(a, b, tables):
                    both = other in one.rows.names or own in part.rows.names
                    if a.is_person and b.is_person and own != other and both:
                        continue  # trips with a rider_id and a driver_id: they are not one person
                    left, right = (one.name, own), (part.name, other)
                    yield " = ".join(".".join(map(shown_name, both)) for both in (left, right))


def note_own(source: From, equal: Sequence[Pair], *, is_left: bool) -> None:
    """Take note of columns that are the privacy unit of their row, as they are joined to it.

    is_left: whether the join keeps rows whose columns are not equal.
    """
    for pair in equal:
        if pair[0].type != pair[1].type or pair[0].collation != pair[1].collation:
            continue
        for one, other in (pair, pair[::-1])[: 1 if is_left else 2]:
            if one.is_of_person and not other.is_of_person:
                number, index = place_of(other.sql)
                part = source.parts[number]
                own = part.rows.values[index]._replace(is_own=True)
                source.parts[number] = part._replace(rows=part.rows.with_value(index, own))


def check_cross(node: Node, part: FromPart, where: Sequence[Node]) -> None:
    """Refuse an owner's join with all rows of a table, which is hardly meant."""
    read = [one for one in relations_below(part.rows.relation) if isinstance(one, Table)]
    if any(isinstance(term, exp.EQ | exp.NullSafeEQ) for term in where) or all(
        one.is_written for one in read
    ):
        return
    why = "Each row would be joined with all rows of this table"
    raise refuse(node, why, f"Join them on equal columns. {JOINED}")


def compared(equal: Sequence[Pair]) -> tuple[tuple[str, str], ...]:
    """The columns that are still to be compared: where people are the same, so are their units."""
    return tuple((a.sql, b.sql) for a, b in equal if not (a.is_person and b.is_person))


def shared(node: Node, source: From, part: FromPart) -> Sequence[Node]:
    """The columns that NATURAL JOIN compares: those of the same name on both sides."""
    before = {one.name for one in source.columns() if one.place not in source.hidden} - {""}
    found = [exp.to_identifier(name, quoted=True) for name in part.rows.names if name in before]
    if not found or source.elements:
        raise refuse(node, "This NATURAL JOIN is not supported here", "Write USING (user_id).")
    return found


def unnested(tree: Node, source: From, values: Sequence[Value]) -> tuple[From, list[Value]]:
    """A SELECT whose list has an unnest: its rows, once for each element, and their columns."""
    places = [i for i, value in enumerate(values) if value.is_unnested]
    if len(places) > 1:
        raise refuse(tree, "A SELECT of a source may unnest one list only", UNNEST)
    part = FromPart((), 0, Rows(source.select(values), (), tuple(values), source.person_type))
    one = From([_with_elements(part, places[0])])
    return one, [one.parts[0].value(i) for i in range(len(values))]


def join_list(join: Node, source: From, scope_of: ScopeOf) -> bool:
    """Join `unnest(list) AS t(x)` to the table of the list; False where a join is no such thing."""
    lists, names = _unnested(join.this)
    if not any(one.find(exp.Column) for one in lists):
        return False  # no list, or one of the statement
    kind, on = str(join.args.get("kind") or "").upper(), join.args.get("on")
    plain = kind in {"", "CROSS", "INNER"} and (on is None or on == exp.true())
    if not plain or join.args.get("side") or len(lists) != 1 or len(names) > 1:
        raise refuse(join, "This form of unnest is not supported in a source", UNNEST)
    only(join, {"this", "kind", "on"})
    numbers = relations_in(*(source.found(c)[0].sql for c in lists[0].find_all(exp.Column)))
    if len(numbers) != 1 or any(left.number in numbers for left in source.left_joins):
        raise refuse(join, "unnest in FROM takes a list of one table before it", UNNEST)
    (number,) = numbers
    alone = From([source.parts[number]._replace(number=0)])
    column = source.add(number, list_value(lists[0], scope_of(alone)))
    _, index = place_of(column.sql)
    source.parts[number] = _with_elements(source.parts[number], index)
    alias = join.this.args.get("alias")
    path = (folded(alias.name),) if alias is not None and alias.name else ()
    name = (names or ["unnest"])[0]
    source.elements.append(NamedColumn(len(source.parts), path, name, (number, index)))
    return True


def _unnested(relation: Node) -> tuple[Sequence[Node], Sequence[str]]:
    """The lists that a joined relation unnests, if it does no more, and how its columns are called.

    It is unnest(list), or LATERAL (SELECT unnest(list)).
    """
    names = [*map(folded, relation.alias_column_names)]
    node = relation.this if isinstance(relation, exp.Lateral) else relation
    if isinstance(node, exp.Unnest):
        only(node, {"expressions", "alias"})
        return node.expressions, names
    if not isinstance(node, exp.Subquery) or not isinstance(relation, exp.Lateral):
        return [], names
    query = node.this
    items = query.expressions if isinstance(query, exp.Select) else []
    if len(items) != 1 or not isinstance(items[0].unalias(), exp.Explode):
        return [], names
    only(node, {"this"})
    only(query, {"expressions"})
    unnest = items[0].unalias()
    only(unnest, {"this"})
    return [unnest.this], names or [column_name(items[0])]


def _with_elements(part: FromPart, index: int) -> FromPart:
    """A relation, once for each element of the list in one of its columns."""
    listed = part.rows.values[index]
    rows = part.rows.with_value(index, Value(listed.sql, listed.type[:-2], collation=BINARY))
    return part._replace(rows=rows._replace(relation=Unnest(rows.relation, index)))
