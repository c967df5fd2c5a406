"""What the owner allows: which tables are private, whose rows they hold, what is public. Pure.

A policy is a TOML file. Reading one touches no database; whether its names exist is asked in
policy_check.py. A table that it does not name does not exist for analysts.
"""

from __future__ import annotations

import pathlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from dp_sql.budget.model import Terms
from dp_sql.errors import PolicyError
from dp_sql.policy.budget_section import read_budget
from dp_sql.policy.limits import Limits, read_limits
from dp_sql.policy.parser import Document, Path, guess, parts_of, shown
from dp_sql.sql.tokens import folded

__all__ = [
    "Domain", "Limits", "Link", "Name", "Policy", "PrivateTable", "parse_policy", "read_policy",
]  # fmt: skip

Name = tuple[str, ...]
"""A table's name, folded: (table,), (schema, table) or (database, schema, table)."""

Domain = tuple[Name, str] | tuple[object, ...] | str
"""A public column, a list of literals, or one of the words "observed" and "enum"."""


@dataclass(frozen=True)
class Link:
    """Whose row a row is, by way of another table: `column` holds a value of `table.key`."""

    column: str
    table: Name
    key: str


@dataclass(frozen=True)
class PrivateTable:
    """A table of people's rows.

    unit: the column that says whose row each row is, or the link to a table that says it.
    unique_per_person: columns in which all rows of a person agree.
    """

    name: Name
    unit: str | Link
    unique_per_person: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Policy:
    """A whole policy.

    domains: for a column (table name and column) the public column or the list of literals that
        its values are taken from; "observed" where the owner says that they are public, "enum"
        where the labels of the column's ENUM type are.
    budget: what the owner promises in all; None where nothing is promised.
    lines: where each key stands in the file, for messages: {"tables.ratings.privacy_unit": 2}.
    """

    tables: Mapping[Name, PrivateTable]
    public: frozenset[Name]
    views: frozenset[Name]
    domains: Mapping[tuple[Name, str], Domain]
    limits: Limits = field(default_factory=Limits)
    budget: Terms | None = None
    lines: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)


TOP_KEYS = ("tables", "public", "views", "domains", "limits", "budget", "unique_per_person")
TABLE_KEYS = ("privacy_unit", "unique_per_person")
LINK_KEYS = ("link", "to")
LIST_KEYS = ("tables",)
UNNAMED = "?"
"""What a draft writes for a privacy unit that nobody has named yet; no policy has it."""

_UNIT_FORMS = 'privacy_unit must be a column, or { link = "column", to = "table.column" }.'


def read_policy(path: str | pathlib.Path) -> Policy:
    """Read a policy file.

    Raises:
        PolicyError: it cannot be read, or says something that no policy says; with the line.
    """
    try:
        text = pathlib.Path(path).read_text("utf-8-sig")
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise PolicyError(f"The policy {path} cannot be read: {why}.") from None
    except UnicodeDecodeError as error:
        raise PolicyError(f"The policy {path} is not UTF-8 (at byte {error.start}).") from None
    return parse_policy(text, str(path), pathlib.Path(path).resolve())


def parse_policy(
    text: str, name: str = "policy", file: pathlib.Path = pathlib.Path("policy.toml")
) -> Policy:
    """Read a policy's text.

    Args:
        text: TOML.
        name: what errors call it.
        file: where it stands: relative paths begin at its folder, and the ledger has its name.
    """
    document = Document(text, name)
    document.only(document.tree, (), TOP_KEYS)
    tables = _tables(document)
    public = _listed(document, "public")
    views = _listed(document, "views")
    _check_apart(document, {"tables": tables, "public": public, "views": views})
    return Policy(
        tables=tables,
        public=public,
        views=views,
        domains=_domains(document, tables, public),
        limits=read_limits(document, file),
        budget=read_budget(document, file),
        lines=_lines(document),
    )


def _lines(document: Document) -> dict[str, int]:
    """The lines of the keys, under the names that messages give them."""
    lines: dict[str, int] = {}
    for (section, *rest), line in document.lines.items():
        if section in {"tables", "domains"} and rest:
            rest[0] = shown(parts_of(rest[0]) or rest)
        lines[".".join((section, *rest))] = line
    return lines


def _tables(document: Document) -> dict[Name, PrivateTable]:
    keys: dict[Name, str] = {}
    units: dict[Name, str | Link] = {}
    unique: dict[Name, set[str]] = {}
    for key, value in document.section("tables").items():
        path = ("tables", key)
        name = document.table(key, path)
        if name in units:
            raise document.refuse(path, f"{key} is there twice: case does not count.")
        known = _table_keys(document, value, path)
        keys[name] = key
        units[name] = _unit(document, known["privacy_unit"], (*path, "privacy_unit"))
        unique[name] = _unique_inside(document, known, name, (*path, "unique_per_person"))
    _check_units(document, units, keys)
    for table, column in _unique_outside(document, units):
        unique[table].add(column)
    return {name: PrivateTable(name, unit, frozenset(unique[name])) for name, unit in units.items()}


def _table_keys(document: Document, value: object, path: Path) -> Mapping[str, Any]:
    """The keys of one [tables.…], privacy_unit among them."""
    name = path[-1]
    if not isinstance(value, dict):
        raise document.refuse(path, f"{name} must be a section: [tables.{name}]")
    for key, inner in value.items():
        if isinstance(inner, dict) and key not in TABLE_KEYS:
            full = f'[tables."{name}.{key}"]'
            raise document.refuse((*path, key), f"Write a name with dots in quotes: {full}")
    document.only(value, path, TABLE_KEYS)
    if "privacy_unit" not in value:
        raise document.refuse(
            path, f"{name} needs privacy_unit: the column that says whose row each row is."
        )
    return value


def _unit(document: Document, value: object, path: Path) -> str | Link:
    if isinstance(value, str) and value:
        return folded(value)
    if not isinstance(value, dict):
        raise document.refuse(path, _UNIT_FORMS)
    document.only(value, path, LINK_KEYS)
    link, to = (value.get(key) for key in LINK_KEYS)
    if not (isinstance(link, str) and link and isinstance(to, str)):
        raise document.refuse(path, _UNIT_FORMS)
    table, key = document.column(to, path)
    return Link(folded(link), table, key)


def _check_units(
    document: Document, units: Mapping[Name, str | Link], keys: Mapping[Name, str]
) -> None:
    """Every unit is named, and every chain of links ends at a table with a column of its own."""
    paths: dict[Name, Path] = {n: ("tables", key, "privacy_unit") for n, key in keys.items()}
    unnamed = [path for name, path in paths.items() if units[name] == UNNAMED]
    if unnamed:
        more = ", ".join(str(document.line(path)) for path in unnamed[1:])
        raise document.refuse(
            unnamed[0],
            f'privacy_unit is still "{UNNAMED}": name the column that says whose row each row is, '
            f"or a link.{f' The same on line {more}.' if more else ''}",
        )
    for name, path in paths.items():
        unit, seen = units[name], {name}
        while isinstance(unit, Link):
            _need_private(document, unit.table, units, path)
            if unit.table in seen:
                raise document.refuse(path, "These links lead back to where they began.")
            seen.add(unit.table)
            unit = units[unit.table]


def _unique_inside(document: Document, keys: Mapping[str, Any], name: Name, path: Path) -> set[str]:
    """The columns of unique_per_person in [tables.…]: with or without the table's name."""
    found: set[str] = set()
    for text in document.texts(keys.get(path[-1], []), path):
        *table, column = parts_of(text) or ("",)
        if not column or tuple(table) != name[len(name) - len(table) :]:
            raise document.refuse(path, f"{text} is no column of {shown(name)}.")
        found.add(column)
    return found


def _unique_outside(document: Document, tables: Collection[Name]) -> list[tuple[Name, str]]:
    """The columns of unique_per_person at the top or in [limits]: with the table's name."""
    found: list[tuple[Name, str]] = []
    for *around, key in (("unique_per_person",), ("limits", "unique_per_person")):
        section = document.section(around[0]) if around else document.tree
        for text in document.texts(section.get(key, []), (*around, key)):
            found.append(document.column(text, (*around, key)))
            _need_private(document, found[-1][0], tables, (*around, key))
    return found


def _need_private(document: Document, table: Name, tables: Collection[Name], path: Path) -> None:
    if table not in tables:
        near = guess(shown(table), [shown(name) for name in tables])
        raise document.refuse(
            path, f"There is no [tables.{shown(table)}] here; only private tables can stand there."
            f"{near}"
        )  # fmt: skip


def _listed(document: Document, section: str) -> frozenset[Name]:
    """The tables of [public] or of [views]."""
    path = (section, "tables")
    document.only(document.section(section), (section,), LIST_KEYS)
    texts = document.texts(document.section(section).get("tables", []), path)
    return frozenset(document.table(text, path) for text in texts)


def _check_apart(document: Document, sections: Mapping[str, Collection[Name]]) -> None:
    """No name stands in two sections, and none is the end of another: who knows which is meant?"""
    where: dict[Name, str] = {}
    for section, names in sections.items():
        for name in sorted(names):
            if name in where:
                raise document.refuse(
                    (section, "tables"),
                    f"{shown(name)} stands in [{where[name]}], too; it can be one thing only.",
                )
            where[name] = section
    for name, section in where.items():
        short = next((name[n:] for n in range(1, len(name)) if name[n:] in where), None)
        if short is not None:
            raise document.refuse(
                (section, "tables"),
                f"{shown(name)} and {shown(short)} may be the same; write schema.table for both.",
            )


def _domains(
    document: Document, tables: Collection[Name], public: Collection[Name]
) -> dict[tuple[Name, str], Domain]:
    domains: dict[tuple[Name, str], Domain] = {}
    for key, value in document.section("domains").items():
        path = ("domains", key)
        if isinstance(value, dict):
            inner = next(iter(value), "column")
            raise document.refuse(path, f'Write the column in quotes: "{key}.{inner}" = …')
        table, column = document.column(key, path)
        _need_private(document, table, tables, path)
        if (table, column) in domains:
            raise document.refuse(path, f"{key} is there twice: case does not count.")
        domains[table, column] = _domain(document, value, path, public)
    return domains


def _domain(document: Document, value: object, path: Path, public: Collection[Name]) -> Domain:
    if isinstance(value, list) and len({_kind(item) for item in value} | {None}) == 2:
        if all(_kind(item) for item in value):
            return tuple(value)
    elif value in ("observed", "enum"):
        return str(value)
    elif isinstance(value, str):
        table, column = document.column(value, path)
        if table not in public:
            name = shown(table)
            raise document.refuse(
                path, f'{name} is not public here; list it: [public] tables = ["{name}"]'
            )
        return table, column
    raise document.refuse(
        path, 'A domain is the column of a public table, "catalog.title"; a list of texts, of '
        'numbers or of booleans (dates as texts, "2024-01-31"); "observed"; or "enum".'
    )  # fmt: skip


def _kind(item: object) -> str | None:
    """What an item of a list domain is; None for what it may not be."""
    kinds: Mapping[type, str] = {bool: "boolean", str: "text", int: "number", Fraction: "number"}
    return kinds.get(type(item))
