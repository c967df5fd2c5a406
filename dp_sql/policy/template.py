"""A first policy for a database, for its owner to finish: what keys and names suggest, as TOML.

Where they leave a choice, the draft asks with a "?", and is not a valid policy. A table without a
proposal stays hidden, and nothing is public, until the owner says so.
"""

import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from dp_sql.policy.budget_section import BudgetKeys, CapKeys
from dp_sql.policy.limits import Limits
from dp_sql.policy.model import UNNAMED
from dp_sql.policy.owners_catalog import CatalogEntry, OwnersCatalog
from dp_sql.policy.parser import dotted, drafted
from dp_sql.policy.proposals import Proposal, Way, key_of, proposals
from dp_sql.sql.tokens import folded
from dp_sql.sql.types import EXACT_TYPES, family

_IDENTIFYING = ("name", "mail", "phone", "address", "street", "handle", "login")
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
    elif len(ways) > 1:
        ways[0] += "\n# Another column may identify the person. If so, write it instead:"
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
