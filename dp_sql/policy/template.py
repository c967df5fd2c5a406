"""A first policy for a database, for its owner to finish: what keys and names suggest, as TOML.

A foreign key is evidence of whose a row is; a name is a guess. Where they leave a choice, the draft
asks with a "?", and is not a valid policy. A table from which nothing leads to people gets no
proposal and stays hidden, and nothing is public, until the owner says so.
"""

import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dp_sql.policy.budget_section import BudgetKeys, CapKeys
from dp_sql.policy.limits import Limits
from dp_sql.policy.model import UNNAMED
from dp_sql.policy.owners_catalog import CatalogEntry, OwnersCatalog
from dp_sql.policy.parser import dotted, drafted
from dp_sql.policy.people_words import (
    IDS,
    PEOPLE,
    is_of_people,
    is_role,
    speaks_of_people,
    stem_of,
    word_rank,
)
from dp_sql.sql.tokens import folded
from dp_sql.sql.types import EXACT_TYPES, family

_IDENTIFYING = ("name", "mail", "phone", "address", "street", "handle", "login")
_GUESSED = "check this: does it identify the person?"


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
    asked: dict[CatalogEntry, Proposal] = {}
    for table in (table for table in tables if table not in found):
        same = (*_same_ids(table, found), *_same_keys(table, found | asked))
        ways = same[:1] or (*_by_role(table), *_by_bare_name(table))
        if ways or any(word_rank(name) is not None for name, _ in table.columns):
            asked[table] = Proposal(ways, asks=True)
    return found | asked


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
        return Proposal((Way(key_of(table) or "", None, _GUESSED),))
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
    ways = [Way(name, None, _GUESSED) for _, name in sorted(ranked, key=lambda pair: pair[0])]
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
    """Strings that are called customer and the like: names, perhaps, which may not identify."""
    words = {*PEOPLE} - {"author", "account", "profile", "device"}  # which things have
    for name, kind in table.columns:
        if folded(name) in words and family(kind) == "VARCHAR":
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
        kinds = [kind for name, kind in table.columns if folded(name) == key]
        if key not in {"", "code", "name", *IDS} and other.type_of(key) in kinds:
            is_person = proposal.ways[:1] == (Way(key_of(other) or "", None, _GUESSED),)
            to = None if is_person and not proposal.asks else (other, key)
            yield Way(key, to, _GUESSED if to is None else f"is the key of {_called(other)}")


def _called(table: CatalogEntry) -> str:
    return folded(table.parts[-1])


_Names = Mapping[CatalogEntry, tuple[str, ...]]
_HEAD = """\
# What analysts may ask of this database. A line that begins with # is a comment.
# A table that this file does not name does not exist for analysts.
#
# 1. Does each privacy_unit identify the person a row belongs to? Replace every "?", check every
#    "check this".
# 2. List the tables that hold nothing about people under [public].
# 3. Choose what all answers together may cost: [budget].
# 4. dp-sql policy check THIS_FILE DATABASE

# ---- people's rows: one section for each table --------------------------------------------------
"""
_NO_PEOPLE = """
# No key or name says whose a row is. Write a section for each table that holds rows of people:
# [tables.visits]
# privacy_unit = "user_id"  # the column that identifies the person
"""
_TAIL = """
# ---- what is public -----------------------------------------------------------------------------

[public]
# Tables that hold nothing about people: analysts read them as they are.
tables = []
{hidden}
[views]
# Your views over the tables above that analysts may use as sources.
tables = []{views}

[domains]
# The values that a column's answers may show: the column of a public table, a list, or "observed"
# if the set of values in the private column is itself public.
# The labels of an ENUM column may have been made from people's values. Analysts see strings, and
# the labels only where you write "enum".
{domains}# {column} = ["value 1", "value 2"]
# {column} = "observed"
{enums}
# ---- what all queries may spend together --------------------------------------------------------

# Without a budget analysts may spend without limit, and nothing bounds what all answers reveal.
# docs/budget.md explains how to choose. For a budget, remove one "# " from each line below.
# [budget]
{budget}# [budget.analysts.reporting]   # one analyst
{cap}
[limits]
# What one query may ask at most. Limits are off unless you set them. The exception is delta: unless
# you allow one, none may be used.
{limits}"""


def draft(catalog: OwnersCatalog) -> str:
    """A policy to be finished: what keys and names suggest, guesses marked, the rest explained.

    It makes nothing public, and names no table that nothing connects with people.
    """
    listed = catalog.listed()
    names = {relation: _name(relation, listed) for relation in listed}
    tables = [relation for relation in listed if not relation.is_view]
    found = proposals(tables)
    people, hidden = ([t for t in tables if (t in found) == known] for known in (True, False))
    views = [_toml(dotted(names[view])) for view in listed if view.is_view]
    items = [dotted((*names[t], i)) for t in people for i in _items(t, found[t])]
    column = _toml(items[0] if items else "ratings.title")
    enums = [
        f'# {_column(names[table], name)} = "enum"\n'
        for table in people
        for name, kind in table.columns
        if family(kind) == "ENUM"
    ]
    domains = _domains({table: found[table] for table in people}, hidden, names)
    tail = _TAIL.format(
        enums="".join(enums), column=column,
        hidden=_hidden([_toml(dotted(names[table])) for table in hidden]),
        domains="".join(domains) or f'# {column} = "catalog.title"\n',
        views=f"  # for example [{', '.join(views)}]" if views else "",
        budget=drafted(BudgetKeys, "  "), cap=drafted(CapKeys, "  "), limits=drafted(Limits),
    )  # fmt: skip
    sections = "".join(_section(table, found[table], names) for table in people)
    return _HEAD + (sections or _NO_PEOPLE) + tail


def _section(table: CatalogEntry, proposal: Proposal, names: _Names) -> str:
    key = dotted(names[table])
    key = key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _toml(key)
    lines = ["", _columns(table), f"[tables.{key}]"]
    ways = [f"{_unit(way, names)}  # {_words(way.why)}" for way in proposal.ways]
    if proposal.asks:
        ways.insert(0, f'"{UNNAMED}"  # the column that identifies the person, or a link:')
        ways += ['{ link = "order_id", to = "orders.order_id" }'] * (not proposal.ways)
    lines.append("\n# ".join(f"privacy_unit = {way}" for way in ways))
    items = _items(table, proposal)
    first = None if proposal.asks else proposal.ways[0]
    if first is not None and first.to is None and first.column == key_of(table):
        own = [name for name, kind in table.columns if family(kind) in EXACT_TYPES]
        same = ", ".join(_toml(dotted([n])) for n in own if n not in table.primary_key)
        lines.append("# A person has one row here, by the primary key.")
        lines += _wrapped(f"unique_per_person = [{same}]")
    elif items:
        example = f"# unique_per_person = [{_toml(dotted(items[-1:]))}]"
        lines.append(f"{example}  # columns with one value per person, tested by check")
    return "\n".join([*lines, ""])


def _columns(table: CatalogEntry) -> str:
    shown = ", ".join(_words(f"{name} {family(kind)}") for name, kind in table.columns)
    return textwrap.fill(shown, 96, initial_indent="# columns: ", subsequent_indent="#   ")


def _words(text: str) -> str:
    """A string in a comment, which ends with its line."""
    return text if text.isprintable() else _toml(text)


def _unit(way: Way, names: _Names) -> str:
    column = _toml(dotted([way.column]))
    to = way.to and _column(names[way.to[0]], way.to[1])
    return f"{{ link = {column}, to = {to} }}" if to else column


def _hidden(names: Sequence[str]) -> str:
    """The tables that nothing connects with people, for their owner to judge."""
    if not names:
        return ""
    why = "No key or name connects these with people. List those that hold nothing about people:"
    return "".join(f"# {line}\n" for line in (why, *_wrapped(f"tables = [{', '.join(names)}]")))


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 96, subsequent_indent="  ", break_long_words=False,
                         break_on_hyphens=False)  # fmt: skip


def _domains(
    people: Mapping[CatalogEntry, Proposal], hidden: Sequence[CatalogEntry], names: _Names
) -> Iterator[str]:
    """Domains from tables that the owner may list as public: by a foreign key or the same name."""
    by_parts = {table.parts: table for table in hidden}
    for table, proposal in people.items():
        pairs = {
            reference.columns[0]: (by_parts[reference.table], reference.keys[0])
            for reference in table.references
            if reference.table in by_parts and len(reference.columns) == 1
        }
        for other in hidden:
            keys = other.primary_key or tuple(name for name, _ in other.columns)
            theirs = {(folded(name), other.type_of(name)) for name in keys}
            for name, kind in table.columns:
                if (folded(name), kind) in theirs and family(kind) in EXACT_TYPES:
                    pairs.setdefault(name, (other, name))
        ids = {way.column for way in proposal.ways}
        for name, (other, column) in ((n, to) for n, to in pairs.items() if n not in ids):
            yield f"# {_column(names[table], name)} = {_column(names[other], column)}\n"


def _items(table: CatalogEntry, proposal: Proposal) -> list[str]:
    """String columns of a table with people's ids that do not identify them: for examples."""
    ids = {*table.primary_key, *(way.column for way in proposal.ways)}
    strings = [n for n, kind in table.columns if kind == "VARCHAR" and n not in ids]
    return [s for s in strings if not (proposal.asks or any(w in folded(s) for w in _IDENTIFYING))]


def _name(relation: CatalogEntry, listed: Sequence[CatalogEntry]) -> tuple[str, ...]:
    """The shortest name that means this relation only."""
    parts = tuple(folded(part) for part in relation.parts)
    alone = (n for n in (parts[2:], parts[1:]) if sum(t.is_called(n) for t in listed) == 1)
    return next(alone, parts)


def _column(table: tuple[str, ...], name: str) -> str:
    """A column by its full name, as a TOML string."""
    return _toml(dotted((*table, folded(name))))


def _toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
