"""Which column may be the privacy unit that an owner's statement does not name.

Keys are evidence, names are a guess (dp_sql/policy/proposals.py), and the owner decides. A column
that leads to rows with a person of their own, such as order_items.order_id, is no person.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import duckdb

from dp_sql.engines.duckdb.connection import columns_of
from dp_sql.engines.duckdb.introspection import CATALOG_LOCK, DatabaseCatalog
from dp_sql.engines.duckdb.sql_runner import Connection
from dp_sql.policy.owners_catalog import CatalogEntry
from dp_sql.policy.people_words import speaks_of_people
from dp_sql.policy.proposals import Proposal, proposals
from dp_sql.privacy.relations.declared_tables import READERS
from dp_sql.sql.clauses import alias_at
from dp_sql.sql.formatting import shown_name
from dp_sql.sql.tokens import Token, Tokens, edited, folded, tokenize

_EXAMPLE = "user_id"  # what the refusal of a call without a privacy unit fills in


def with_guessed_units(text: str, connection: Connection) -> Callable[[str], Sequence[str]]:
    """A function from a correction of the text to corrections whose privacy unit is a person's.

    Where the text names a privacy unit, they stay as they are; but the text itself becomes one that
    joins the table with this column, if keys lead to it.
    """
    tokens = tokenize(text)
    with CATALOG_LOCK:
        tables = [*DatabaseCatalog(connection).listed(), *_files(tokens, connection)]
    known = proposals(tables)
    if units := _names(tokens):
        every = _all_joined(tokens, tables, known)
        joined = [one for one in every if units <= _names(tokenize(one))]
        return lambda candidate: joined if candidate == text else [candidate]
    return lambda candidate: _guessed(candidate, tables, known)


def _all_joined(
    tokens: Tokens, tables: Sequence[CatalogEntry], known: dict[CatalogEntry, Proposal]
) -> Iterator[str]:
    """The statement with each join to a table whose rows have the person."""
    names = {folded(token.name or token.text) for token in tokens}
    for table in (one for one in tables if folded(one.parts[-1]) in names and one in known):
        for way in known[table].ways:
            if way.to is not None:
                yield from _joined(tokens, table, way.column, way.to, known)


def _files(tokens: Tokens, connection: Connection) -> Iterator[CatalogEntry]:
    """The files that FROM and JOIN name, with the string as their name."""
    for i, (before, first) in enumerate(pairwise(tokens), 1):
        is_call = first.folded in READERS and tokens.at(i + 1).is_symbol("(")
        read = tokens[i : tokens.matching(i + 1) + 1] if is_call else tokens[i : i + 1]
        named = [token.text for token in read if token.kind == "string"]
        if named and before.upper in {"FROM", "JOIN"}:
            with contextlib.suppress(duckdb.Error):
                columns = columns_of(connection.sql(f"SELECT * FROM {read.text}"))
                yield CatalogEntry(("", "", named[0]), is_view=False, columns=tuple(columns))


def _guessed(
    candidate: str, tables: Sequence[CatalogEntry], known: dict[CatalogEntry, Proposal]
) -> Sequence[str]:
    tokens = tokenize(candidate)
    units = _units(tokens)
    if not units:
        return [candidate]
    names = {folded(token.name or token.text) for token in tokens}
    read = [one for one in tables if folded(one.parts[-1]) in names]
    ways = [(one, way) for one in read if one in known for way in known[one].ways]
    found = [_with_unit(units, way.column) for _, way in ways if way.to is None]
    for table, way in ways:
        if way.to is not None and not found:
            found += _joined(tokens, table, way.column, way.to, known)
    leads = {folded(way.column) for _, way in ways if way.to is not None}
    if _names(tokens) == {_EXAMPLE}:
        # Where the guess is the candidate, return the candidate itself, which may be Restated.
        return [candidate if one == candidate else one for one in found] or [candidate]
    is_named = all(speaks_of_people(u.folded) and u.folded not in leads for u in units)
    return [candidate] if is_named or candidate in found else []


def _units(tokens: Tokens) -> list[Token]:
    """The values of privacy_unit := … that are one name."""
    return [
        tokens.at(i + 2)
        for i, (name, sign) in enumerate(pairwise(tokens))
        if name.folded == "privacy_unit" and sign.is_symbol(":=", "=>")
        if not tokens.at(i + 3).is_symbol(".")
    ]


def _names(tokens: Tokens) -> set[str]:
    """The names of these columns, folded."""
    return {unit.folded for unit in _units(tokens)}


def _with_unit(units: Sequence[Token], column: str) -> str:
    return edited(units[0].source, [(one.start, one.end, shown_name(column)) for one in units])


def _joined(
    tokens: Tokens,
    table: CatalogEntry,
    column: str,
    to: tuple[CatalogEntry, str],
    known: dict[CatalogEntry, Proposal],
) -> list[str]:
    """The statement with a join to the table whose rows have the person."""
    other, key = to
    ways = known[other].ways if other in known else ()
    if not ways or ways[0].to is not None:
        return []
    name = folded(table.parts[-1])
    behind_from = (i for i in range(1, len(tokens)) if tokens[i - 1].upper == "FROM")
    if (i := next((i for i in behind_from if tokens[i].folded == name), None)) is None:
        return []
    here, there = (shown_name(one.parts[-1]) for one in (table, other))
    end = i
    if (alias := alias_at(tokens, i + 1)) is not None:
        here, end = tokens[alias].text, alias
    if tokens.at(end + 1).is_symbol(".", ",", "("):
        return []
    same = folded(column) == folded(key)
    condition = f"ON {here}.{shown_name(column)} = {there}.{shown_name(key)}"
    condition = f"USING ({shown_name(column)})" if same else condition
    place = tokens[end].end
    joined = edited(tokens[0].source, [(place, place, f" JOIN {there} {condition}")])
    return [_with_unit(_units(tokenize(joined)), ways[0].column)]
