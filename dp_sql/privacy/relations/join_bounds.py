"""How many rows can a join make of one person's rows? An answer from public facts alone.

A relation adds no rows to a join if the rows of the others fix its row, as each item of an order
fixes the order by its primary key. So a join of customers, orders and items has at most as many
rows as items, whatever the order in FROM. Public relations multiply rows by their own numbers.
"""

from collections.abc import Collection, Mapping, Sequence
from math import prod
from typing import NamedTuple

from dp_sql.privacy.relations.join_sql import FromPartSql
from dp_sql.privacy.relations.tree import LinkedTable, Relation, Select, Table, relations_in

Keys = Mapping[int, Collection[str]]  # by relation, columns that tell one person's rows apart


def key_columns(relation: Relation) -> frozenset[int] | None:
    """Columns that tell apart the rows of one person in a private relation; None: not known."""
    match relation:
        case Table() if relation.primary_key:
            return relation.primary_key - {relation.person}
        case LinkedTable():
            return key_columns(relation.table)
        case Select() if relation.is_bare:
            key = key_columns(relation.relations[0])
            places = {value: place for place, value in enumerate(relation.values)}
            if key is not None and all(f"r0c{i}" in places for i in key):
                return frozenset(places[f"r0c{i}"] for i in key)
    return None


def compared_columns(select: Select, number: int, others: Collection[int]) -> set[str]:
    """The columns of a relation that a join compares with others, as they were before a cast."""
    found = {own for _, own in select.equal_pairs(number, others)}
    relation = select.relations[number]
    values = relation.values if isinstance(relation, Select) else ()
    casts = {f"TRY_CAST({value} AS HUGEINT)": i for i, value in enumerate(values)}
    same = {f"r{number}c{j}": casts[value] for j, value in enumerate(values) if value in casts}
    return found | {f"r{number}c{same[own]}" for own in found if own in same}


class JoinBound(NamedTuple):
    """How many rows a join of the first relations of FROM has at most.

    apart: the private relations whose rows tell its rows apart for one person. fan: by how much
    public relations multiply them.
    """

    apart: Sequence[int]
    fan: int

    @property
    def multiplies(self) -> bool:
        """Whether a row may occur more than once in it."""
        return len(self.apart) > 1 or self.fan > 1

    def rows(self, most: Mapping[int, int | None], least: int = 1) -> int | None:
        """The most rows of one person; `most` are those of each relation. None: not known.

        least: rows that public relations multiply, also where a person has fewer.
        """
        if any(most[n] is None for n in self.apart):
            return None
        rows = prod(most[n] or 0 for n in self.apart)
        return max(rows, least) * self.fan if self.fan > 1 else rows


def join_bounds(select: Select, parts: Sequence[FromPartSql]) -> list[JoinBound]:
    """The bounds of the joins of the first relation, the first two, and so on."""
    keys = {part.number: part.key for part in parts if part.key is not None}
    numbers = [part.number for part in parts]
    fan, found = 1, []
    for place, part in enumerate(parts, 1):
        joined = [n for n in numbers[:place] if n == part.number or not select.is_compared(n)]
        found.append(JoinBound(_told_apart_by(select, joined, keys), fan * (part.fan or 1)))
        fan *= 1 if select.is_compared(part.number) else part.fan or 1
    return found


def _told_apart_by(select: Select, numbers: Sequence[int], keys: Keys) -> list[int]:
    """Few private relations whose rows tell one person's rows apart in a join of `numbers`."""
    found = [n for n in numbers if select.relations[n].is_private]
    for n in tuple(found):
        rest = [m for m in found if m != n]
        if rest and _fix_all(select, rest, numbers, keys):
            found = rest
    return found


def _fix_all(select: Select, some: Sequence[int], numbers: Sequence[int], keys: Keys) -> bool:
    """Whether a row of each of `some` fixes the rows of all private relations of a join."""
    fixed, waiting = {*some}, [n for n in numbers if n not in some]
    while found := [n for n in waiting if _is_fixed(select, n, fixed, numbers, keys)]:
        fixed.update(found)
        waiting = [n for n in waiting if n not in fixed]
    return not waiting


def _is_fixed(
    select: Select, number: int, fixed: Collection[int], numbers: Sequence[int], keys: Keys
) -> bool:
    """Whether rows of the relations `fixed` fix that of another, beside the fan of public ones."""
    if select.relations[number].is_private:
        return number in keys and {*keys[number]} <= compared_columns(select, number, fixed)
    pairs = select.equal_pairs(number, numbers[: numbers.index(number)])
    return relations_in(*(other for other, _ in pairs)) <= {*fixed}
