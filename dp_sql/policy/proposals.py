"""Whose is each row of a table? What keys and names suggest, for the owner to judge.

A foreign key is evidence of whose a row is; a name is a guess. Where they leave a choice, the
proposal asks. A table from which nothing leads to people gets none.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dp_sql.policy.owners_catalog import CatalogEntry
from dp_sql.policy.people_words import (
    IDS,
    PEOPLE,
    is_of_one,
    is_of_people,
    is_role,
    speaks_of_people,
    stem_of,
    word_rank,
)
from dp_sql.sql.tokens import folded
from dp_sql.sql.types import EXACT_TYPES, INTEGERS, family

_GUESSED = "check this: does it identify the person?"
_PART_OF_KEY = "check this: is this part of the primary key one person's alone?"


@dataclass(frozen=True)
class Way:
    """A way to a row's person: a column, or the column that leads to one of another table.

    to: the other table and its column; None: the column identifies the person.
    """

    column: str
    to: tuple[CatalogEntry, str] | None
    why: str


@dataclass(frozen=True)
class Proposal:
    """The ways to the person of a table's rows. The first is taken if the owner need not choose."""

    ways: tuple[Way, ...]
    asks: bool = False


def proposals(tables: Sequence[CatalogEntry]) -> dict[CatalogEntry, Proposal]:
    """A proposal for each table that may hold people's rows."""
    ranks = {table: rank for table in tables if (rank := _person_rank(table)) is not None}
    found = {t: by_key for t in tables if (by_key := _by_person_key(t, ranks)) is not None}
    _follow_links(tables, found)
    found |= {t: named for t in tables if t not in found and (named := _by_name(t, found))}
    _follow_links(tables, found)
    while new := {t: one for t in tables if t not in found and (one := _asked(t, found))}:
        found |= new
    return found


def _asked(table: CatalogEntry, found: Mapping[CatalogEntry, Proposal]) -> Proposal | None:
    """A proposal for the owner to judge; None: nothing in the table speaks of people."""
    same = (*_same_ids(table, found), *_same_keys(table, found))
    ways = same[:1] or (*_by_role(table), *_by_bare_name(table))
    named = any(word_rank(name) is not None for name, _ in table.columns)
    return Proposal(ways, asks=True) if ways or named else None


def _follow_links(tables: Sequence[CatalogEntry], found: dict[CatalogEntry, Proposal]) -> None:
    """Add the tables with a foreign key to a table that has a proposal, until there is no more."""
    while new := {
        table: Proposal(ways, asks=len(ways) > 1)
        for table in tables
        if table not in found and (ways := tuple(_links(table, found)))
    }:
        found |= new


def key_of(table: CatalogEntry) -> str | None:
    """The column that alone is the primary key, if its values compare exactly."""
    if len(table.primary_key) != 1:
        return None
    (column,) = table.primary_key
    return column if family(table.type_of(column) or "") in EXACT_TYPES else None


def _table_rank(table: CatalogEntry) -> int | None:
    """Which kind of people a table's name speaks of: users, dim_customer; None: of none."""
    last = folded(table.parts[-1]).split("_")[-1]
    last = "person" if last == "people" else last.removesuffix("s")
    return PEOPLE.index(last) if last in PEOPLE else None


def _person_rank(table: CatalogEntry) -> int | None:
    """The kind of people of a table with one row for each of them, by its primary key."""
    key = key_of(table)
    if key is None:
        return None
    of_people = any(is_of_people(name) for name, _ in table.columns)
    ranks = [word_rank(key), _table_rank(table), len(PEOPLE) if of_people else None]
    return next((rank for rank in ranks if rank is not None), None)


def _by_person_key(table: CatalogEntry, ranks: Mapping[CatalogEntry, int]) -> Proposal | None:
    """The person by the table's own key, or by a foreign key to a table of people."""
    own, ways = ranks.get(table), []
    for reference in table.references:
        other = next((t for t in ranks if t.parts == reference.table and t != table), None)
        if other is not None and reference.keys == (key_of(other),):
            # Whether that table has a key to likelier people: profiles to accounts.
            next_ = {one.table for one in other.references}
            elsewhere = any(t.parts in next_ and ranks[t] < ranks[other] for t in ranks)
            to = (other, reference.keys[0]) if elsewhere else None
            why = f"references {_called(other)}"
            ways.append((ranks[other], Way(reference.columns[0], to, why)))
    for other, rank in ranks.items() if not ways else ():
        key = key_of(other) or ""  # devices.user_id is a better guess than the own key
        if rank < (own or 0) and speaks_of_people(key) and table.type_of(key) == other.type_of(key):
            ways.append((rank, Way(key, None, _GUESSED)))
    if own is not None and not any(rank < own for rank, _ in ways):
        likelier = (
            Way(name, None, _GUESSED)
            for name, kind in table.columns
            if family(kind) in EXACT_TYPES and word_rank(name, kind) in range(own)
        )  # the customer of an account
        return Proposal((Way(key_of(table) or "", None, _GUESSED), *likelier))
    if not ways:
        return None
    ways.sort(key=lambda way: way[0])
    least = [way for rank, way in ways if rank == ways[0][0]]
    return Proposal(tuple(way for _, way in ways), asks=len(least) > 1)


def _links(table: CatalogEntry, found: Mapping[CatalogEntry, Proposal]) -> Iterator[Way]:
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


def _by_name(table: CatalogEntry, found: Mapping[CatalogEntry, Proposal]) -> Proposal | None:
    """Columns named like a person's id; a device_id may also lead to the user_id of devices."""
    exact = [(name, kind) for name, kind in table.columns if family(kind) in EXACT_TYPES]
    ranked = [(rank, name) for name, kind in exact if (rank := word_rank(name, kind)) is not None]
    if _table_rank(table) is not None:
        ranked += [(len(PEOPLE), name) for name, _ in exact if folded(name) == "id"]
    parts = table.primary_key if _table_rank(table) is not None else ()  # a row for each person
    ways = [
        Way(name, None, _PART_OF_KEY if folded(name) in map(folded, parts) else _GUESSED)
        for _, name in sorted(ranked, key=lambda pair: pair[0])
    ]
    theirs = {other: folded(one.ways[0].column) for other, one in found.items()}
    same = (way for way in _same_ids(table, found) if ways and way.column == ways[0].column)
    links = [way for way in same if way.to and theirs[way.to[0]] != way.to[1]]
    return Proposal((*links, *ways), asks=bool(links)) if ways else None


def _by_role(table: CatalogEntry) -> Iterator[Way]:
    """Columns whose last words are the id of a person or a role: sold_to_customer_no, caller_id.

    A whole number or a UUID may be called caller alone.
    """
    for name, kind in table.columns:
        if family(kind) in EXACT_TYPES and is_role(name, kind):
            yield Way(name, None, _GUESSED)


def _by_bare_name(table: CatalogEntry) -> Iterator[Way]:
    """Strings that are called customer and the like: names, perhaps, which may not identify.

    Columns called iban and the like identify what a person has.
    """
    words = {*PEOPLE, "caller", "callee", "sender", "receiver", "recipient"}
    words -= {"author", "account", "profile", "device"}  # of things
    for name, kind in table.columns:
        is_name = folded(name) in words and family(kind) == "VARCHAR"
        if is_name or (is_of_one(name) and family(kind) in EXACT_TYPES):
            yield Way(name, None, _GUESSED)


def _same_ids(table: CatalogEntry, found: Mapping[CatalogEntry, Proposal]) -> Iterator[Way]:
    """Columns that are named after a table of people's rows that has them: order_id and orders."""
    for other, proposal in found.items():
        theirs = {(stem_of(name), kind): name for name, kind in other.columns}
        for name, kind in table.columns:
            stem, same = stem_of(name), theirs.get((stem_of(name), kind))
            if stem and same and _called(other).startswith(stem) and not proposal.asks:
                yield Way(name, (other, folded(same)), f"is in {_called(other)} as well")


def _same_keys(table: CatalogEntry, known: Mapping[CatalogEntry, Proposal]) -> Iterator[Way]:
    """Columns that are called like the primary key of a table of people's rows: imsi and imsi."""
    for other, proposal in known.items():
        key = folded(key_of(other) or "")
        kinds = {kind for name, kind in table.columns if folded(name) == key}
        is_person = proposal.ways[:1] == (Way(key_of(other) or "", None, _GUESSED),)
        to = None if is_person and not proposal.asks else (other, key)
        same = {other.type_of(key)} | (
            INTEGERS if to is None and other.type_of(key) in INTEGERS else set()
        )
        if key not in {"", "code", "name", *IDS} and kinds & same:
            yield Way(key, to, _GUESSED if to is None else f"is the key of {_called(other)}")


def _called(table: CatalogEntry) -> str:
    return folded(table.parts[-1])
