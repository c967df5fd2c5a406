"""One SELECT of a person-level source: in which order it joins, and on what.

In its expressions r0c1 is column 1 of relation 0 of FROM. Reads the tree and the SQL of its
expressions; asks nothing of an engine.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from dp_sql.errors import NotSupported
from dp_sql.privacy.relation_tree import LeftJoin, Relation, Select
from dp_sql.sql.types import as_key

_COLUMN = re.compile(r"\br(\d+)c(\d+)\b")


def split_conditions(select: Select) -> tuple[dict[int, list[str]], list[str]]:
    """The conditions that concern one relation alone, by its number; and all others."""
    own: dict[int, list[str]] = {}
    rest = []
    left = left_joins_of(select)
    known = set(range(len(select.relations)))
    for condition in select.where:
        numbers = relations_in(condition) & known
        if len(numbers) == 1 and not numbers & left.keys():
            own.setdefault(min(numbers), []).append(condition)
        else:
            rest.append(condition)
    for join in select.left_joins:
        own[join.number] = [term for term in join.terms if relations_in(term) == {join.number}]
    return own, rest


def join_order(select: Select) -> list[int]:
    """The relations in the order in which they are joined: the first private one first.

    An inner join may come as soon as one of its equal columns is there, a LEFT JOIN as soon as all
    that its ON names is.
    """
    waiting = list(range(len(select.relations)))
    found = [owner_of(select) or 0]
    waiting.remove(found[0])
    while waiting:
        ready = next((n for n in waiting if _is_ready(select, n, found)), None)
        if ready is None:
            raise NotSupported(
                "These joins cannot begin with the private table.",
                hint="Write the private table first in FROM, and join the others to it.",
            )
        found.append(ready)
        waiting.remove(ready)
    return found


def _is_ready(select: Select, number: int, found: Collection[int]) -> bool:
    left = left_joins_of(select)
    if number in left:
        join = left[number]
        named = set().union(*map(relations_in, [*join.terms, *(a for a, _ in join.equal)]))
        return named - {number} <= set(found)
    pairs = [named for pair in select.equal if number in (named := relations_in(" ".join(pair)))]
    others = set().union(*pairs) - {number}
    if others & left.keys() - set(found):
        return False
    # An owner's join may compare no columns.
    is_free = not pairs and not any(number in _named(join) for join in left.values())
    return bool(others & set(found)) or select.relations[number].is_private or is_free


def _named(join: LeftJoin) -> set[int]:
    """The relations that the ON of a LEFT JOIN names."""
    return relations_in(" ".join([*join.terms, *(side for pair in join.equal for side in pair)]))


def equal_pairs(select: Select, number: int, before: Collection[int]) -> list[tuple[str, str]]:
    """The equal columns that join a relation to those before it: theirs, and its own."""
    left = left_joins_of(select)
    pairs = left[number].equal if number in left else select.equal
    turned = [(a, b) if relations_in(b) == {number} else (b, a) for a, b in pairs]
    return [
        (a, b) for a, b in turned if relations_in(b) == {number} and relations_in(a) <= set(before)
    ]


def on_terms(select: Select, number: int, before: Sequence[int]) -> list[str]:
    """What ON says of a relation, once those before it are there."""
    return [*on_equal(select, number, before), *on_beside(select, number)] if before else []


def on_equal(select: Select, number: int, before: Sequence[int]) -> list[str]:
    """The comparisons that join a relation to those before it."""
    equal = [
        f"{as_key(a, type_of(select, a))[0]} = {as_key(b, type_of(select, b))[0]}"
        for a, b in equal_pairs(select, number, before)
    ]
    if select.relations[number].is_private:
        equal.insert(0, f"r{before[0]}p = r{number}p")
    return equal


def on_beside(select: Select, number: int) -> list[str]:
    """What the ON of a LEFT JOIN says, besides its equal columns, of more than the new relation."""
    join = left_joins_of(select).get(number)
    return [term for term in (join.terms if join else ()) if relations_in(term) != {number}]


def left_joins_of(select: Select) -> dict[int, LeftJoin]:
    """The LEFT JOINs of a SELECT, by the numbers of their relations."""
    return {join.number: join for join in select.left_joins}


def owner_of(select: Select) -> int | None:
    """The first private relation of FROM; None where all are public."""
    return next((n for n, one in enumerate(select.relations) if one.is_private), None)


def all_columns(relation: Relation) -> range:
    """The numbers of all columns of a relation."""
    return range(len(relation.types))


def type_of(select: Select, column: str) -> str:
    """The type of a column such as r0c1."""
    number, index = map(int, _COLUMN.fullmatch(column).groups())  # type: ignore[union-attr]
    return select.relations[number].types[index]


def columns_in(texts: Iterable[str]) -> set[str]:
    """The columns that some SQL names; a string that looks like one is named as well.

    >>> sorted(columns_in(["r0c1 = r1c0", "lower(r0c12)"]))
    ['r0c1', 'r0c12', 'r1c0']
    """
    return {found.group() for text in texts for found in _COLUMN.finditer(text)}


def relations_in(text: str) -> set[int]:
    """The relations whose columns some SQL names."""
    return {int(found.group(1)) for found in _COLUMN.finditer(text)}


def columns_of(select: Select, number: int, columns: Collection[str]) -> list[int]:
    """Those of the columns that are of one relation, as numbers, in order."""
    n_columns = len(select.relations[number].types)
    return [i for i in range(n_columns) if f"r{number}c{i}" in columns]
