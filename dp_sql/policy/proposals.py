"""Whose is each row? What a database's keys and names suggest, for a draft that its owner checks.

A foreign key is evidence; a name is a guess. Where they leave a choice, the draft asks. A table
from which nothing leads to people gets no proposal, and stays hidden until the owner names it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dp_sql.policy.catalog import Listed
from dp_sql.sql.tokens import folded
from dp_sql.sql.types import EXACT_TYPES, family

# The likeliest first: a table may have a customer_id and an employee_id.
_PEOPLE = ("user", "customer", "cust", "person", "patient", "member", "client", "subscriber",
           "student", "participant", "respondent", "passenger", "visitor", "guest", "reviewer",
           "rater", "author", "household", "account", "profile", "employee")  # fmt: skip
_IDS = ("id", "key", "no", "nr", "number", "uuid", "guid")


@dataclass(frozen=True)
class Way:
    """A way to a row's person: a column, or the column that leads to one of another table."""

    column: str
    to: tuple[Listed, str] | None  # the other table and its column; None: the column identifies
    why: str


@dataclass(frozen=True)
class Proposal:
    """The ways to the person of a table's rows. The first is taken if the owner need not choose."""

    ways: tuple[Way, ...]
    asks: bool = False


def proposals(tables: Sequence[Listed]) -> dict[Listed, Proposal]:
    """A proposal for each table that may hold people's rows."""
    ranks = {table: rank for table in tables if (rank := _person_rank(table)) is not None}
    found = {t: by_key for t in tables if (by_key := _by_person_key(t, ranks)) is not None}
    _follow_links(tables, found)
    named = {t: Proposal(ways) for t in tables if t not in found and (ways := _by_name(t))}
    found |= named
    _follow_links(tables, found)
    named = dict(found)
    for table in tables:
        if table not in found and (ways := tuple(_same_ids(table, named))):
            found[table] = Proposal(ways[:1], asks=True)
        elif table not in found and _names_people(table):
            found[table] = Proposal((), asks=True)
    return found


def _follow_links(tables: Sequence[Listed], found: dict[Listed, Proposal]) -> None:
    """Add the tables with a foreign key to a table that has a proposal, until there is no more."""
    while new := {
        table: Proposal(ways, asks=len(ways) > 1)
        for table in tables
        if table not in found and (ways := tuple(_links(table, found)))
    }:
        found |= new


def key_of(table: Listed) -> str | None:
    """The column that alone is the primary key, if its values compare exactly."""
    if len(table.primary_key) != 1:
        return None
    (column,) = table.primary_key
    return column if family(table.type_of(column) or "") in EXACT_TYPES else None


def _word_rank(name: str) -> int | None:
    """Which kind of people a column's name speaks of: user_id, c_custkey; None: of none."""
    plain = folded(name).replace("_", "")
    whole = [n for n, word in enumerate(_PEOPLE) for id_ in _IDS if plain == word + id_]
    prefix, underscore, rest = folded(name).partition("_")
    if not whole and underscore and len(prefix) <= 2:
        return _word_rank(rest)
    return whole[0] if whole else None


def _table_rank(table: Listed) -> int | None:
    """Which kind of people a table's name speaks of: users, dim_customer; None: of none."""
    words = folded(table.parts[-1]).split("_")
    plural = {"people": "person", "persons": "person"}
    last = plural.get(words[-1], words[-1].removesuffix("s"))
    return _PEOPLE.index(last) if last in _PEOPLE else None


def _person_rank(table: Listed) -> int | None:
    """The kind of people of a table with one row for each of them, by its primary key."""
    key = key_of(table)
    if key is None:
        return None
    rank = _word_rank(key)
    return _table_rank(table) if rank is None else rank


def _by_person_key(table: Listed, ranks: Mapping[Listed, int]) -> Proposal | None:
    """The person by the table's own key, or by a foreign key to a table of people."""
    own, ways = ranks.get(table), []
    for reference in table.references:
        other = next((t for t in ranks if t.parts == reference.table and t != table), None)
        if other is not None and reference.keys == (key_of(other),):
            to = (other, reference.keys[0]) if _belongs_elsewhere(other, ranks) else None
            why = f"references {_called(other)}"
            ways.append((ranks[other], Way(reference.columns[0], to, why)))
    if own is not None and not any(rank < own for rank, _ in ways):
        key = key_of(table) or ""
        return Proposal((Way(key, None, "check this: does it identify the person?"),))
    if not ways:
        return None
    ways.sort(key=lambda way: way[0])
    least = [way for rank, way in ways if rank == ways[0][0]]
    return Proposal(tuple(way for _, way in ways), asks=len(least) > 1)


def _belongs_elsewhere(table: Listed, ranks: Mapping[Listed, int]) -> bool:
    """Whether a table of people has a key to likelier people: profiles to accounts."""
    targets = {reference.table for reference in table.references}
    return any(t.parts in targets and ranks[t] < ranks[table] for t in ranks if t != table)


def _links(table: Listed, found: Mapping[Listed, Proposal]) -> Iterator[Way]:
    """The foreign keys to tables whose person is known, each by the column that has the person.

    Where a key of several columns has the other table's own way to the person, that way is taken.
    """
    for reference in table.references:
        other = next((t for t in found if t.parts == reference.table and t != table), None)
        if other is None or found[other].asks:
            continue
        why = f"references {_called(other)}"
        pairs = dict(zip(reference.keys, reference.columns, strict=True))
        way = found[other].ways[0]
        if way.column in pairs:
            yield Way(pairs[way.column], way.to, why)
        elif len(pairs) == 1:
            yield Way(reference.columns[0], (other, reference.keys[0]), why)


def _by_name(table: Listed) -> tuple[Way, ...]:
    """The columns that are named like a person's id and compare exactly, the likeliest first."""
    ranked = [
        (rank, name)
        for name, kind in table.columns
        if family(kind) in EXACT_TYPES and (rank := _word_rank(name)) is not None
    ]
    if _table_rank(table) is not None:
        ranked += [(len(_PEOPLE), name) for name, kind in table.columns if folded(name) == "id"
                   and family(kind) in EXACT_TYPES]  # fmt: skip
    why = "check this: does it identify the person?"
    return tuple(Way(name, None, why) for _, name in sorted(ranked, key=lambda pair: pair[0]))


def _same_ids(table: Listed, found: Mapping[Listed, Proposal]) -> Iterator[Way]:
    """Columns that are named after a table of people's rows that has them: order_id and orders."""
    for other, proposal in found.items():
        theirs = {(folded(name), kind) for name, kind in other.columns}
        for name, kind in table.columns:
            is_id = folded(name).endswith("id") and (folded(name), kind) in theirs
            stem = folded(name)[:-2].rstrip("_")
            if is_id and stem and _called(other).startswith(stem) and not proposal.asks:
                yield Way(name, (other, folded(name)), f"is in {_called(other)} as well")


def _names_people(table: Listed) -> bool:
    return any(_word_rank(name) is not None for name, _ in table.columns)


def _called(table: Listed) -> str:
    return folded(table.parts[-1])
