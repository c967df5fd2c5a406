"""What a policy says: which tables hold people's rows, what is public, the limits, the budget.

Reading a policy opens no database; validation.py checks it against one.
"""

import pathlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from dp_sql.budget.model import Terms
from dp_sql.errors import PolicyError, guess
from dp_sql.policy.budget_section import read_budget
from dp_sql.policy.limits import Limits, read_limits
from dp_sql.policy.parser import NAMES, Document, Path, ValueKind, dotted, key, number, read, valid
from dp_sql.sql.tokens import folded, name_parts

# A table's name, folded: (table,), (schema, table) or (database, schema, table).
Name = tuple[str, ...]
# A public column, a list of literals, "observed" (the column itself, whose values the owner
# declares public), or "enum" (the labels of its ENUM type).
DeclaredDomain = tuple[Name, str] | tuple[object, ...] | str


@dataclass(frozen=True)
class Link:
    """The way to a row's person through another table: `column` equals `table.key`."""

    column: str
    table: Name
    key: str


def _unit(value: Any) -> str | Link | None:
    match value:
        case str():
            return folded(value) or None
        case {"link": str(link), "to": str(to), **rest} if link and not rest:
            parts = name_parts(to) or ()
            return Link(folded(link), parts[:-1], parts[-1]) if 2 <= len(parts) <= 4 else None
    return None


_UNIT = ValueKind('a column, or { link = "column", to = "table.column" }', _unit)
_COLUMN = ValueKind("a column", lambda v: folded(v) or None if isinstance(v, str) else None)
_SENSITIVITY = ValueKind(
    "a column, or a number from 0 to 1e100",
    lambda v: _COLUMN.read(v) if isinstance(v, str) else number(0, 10**100).read(v),
)


@dataclass(frozen=True)
class PrivateTable:
    """A table of people's rows, and the keys of [tables.NAME]: whose each row is."""

    name: Name
    privacy_unit: str | Link = key(
        _UNIT, "the column that identifies the person each row belongs to", '"user_id"',
        required=True)  # fmt: skip
    unique_per_person: frozenset[str] = key(
        NAMES, "columns with one value per person", default=frozenset())  # fmt: skip


@dataclass(frozen=True)
class ScoreTable:
    """A table of candidates for DP_SELECT, and the keys of [scores.NAME].

    Its scores are computed from many people; one person moves each by at most its sensitivity.
    """

    name: Name
    candidate: str = key(_COLUMN, "the column of what is chosen", '"model"', required=True)
    score: str = key(_COLUMN, "the column of scores", '"accuracy"', required=True)
    sensitivity: str | Fraction = key(
        _SENSITIVITY, "how far one person moves it", '"sensitivity"', required=True)  # fmt: skip

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that analysts may name."""
        own = (self.sensitivity,) if isinstance(self.sensitivity, str) else ()
        return (self.candidate, self.score, *own)


@dataclass(frozen=True)
class Policy:
    """A whole policy.

    domains: where the values of a column (table name and column) come from.
    lines: the line of each key, for messages: {"tables.ratings.privacy_unit": 2}.
    """

    tables: Mapping[Name, PrivateTable]
    public: frozenset[Name]
    views: frozenset[Name]
    domains: Mapping[tuple[Name, str], DeclaredDomain]
    limits: Limits = field(default_factory=Limits)
    budget: Terms | None = None  # None for no bound
    lines: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)
    scores: Mapping[Name, ScoreTable] = field(default_factory=dict)


TOP_KEYS = ("tables", "public", "views", "scores", "domains", "limits", "budget",
            "unique_per_person")  # fmt: skip
UNNAMED = "?"  # what a draft writes for a privacy unit that its owner has yet to name


@dataclass(frozen=True)
class ListKeys:
    """The keys of [public] and [views]."""

    tables: Collection[str] = key(NAMES, "names of tables or views", default=())


def read_policy(path: str | pathlib.Path, content: bytes | None = None) -> Policy:
    """Read a policy file; PolicyError, with the line, if it cannot be read or is not a policy.

    content: of the file, if it was read already.
    """
    try:
        read = pathlib.Path(path).read_bytes() if content is None else content
        text = read.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise PolicyError(f"The policy {path} cannot be read: {why}.") from None
    except UnicodeDecodeError as error:
        raise PolicyError(
            f"{path} is not a policy: it is not UTF-8 text (at byte {error.start})."
        ) from None
    return parse_policy(text, str(path), pathlib.Path(path).resolve())


def parse_policy(
    text: str, name: str = "policy", file: pathlib.Path = pathlib.Path("policy.toml")
) -> Policy:
    """Read the TOML of a policy, which errors call `name`.

    Relative paths begin at the folder of `file`, and the ledger is named after it.
    """
    document = Document(text, name)
    unknown = next((key for key in document.tree if key not in TOP_KEYS), None)
    if unknown is not None:
        raise document.unknown((unknown,), TOP_KEYS)
    tables = _tables(document)
    public, views = _names(document, "public"), _names(document, "views")
    scores = _scores(document)
    named = {"tables": tables, "public": public, "views": views, "scores": scores}
    _check_distinct(document, named)
    return Policy(
        tables=tables, public=public, views=views, scores=scores,
        domains=_domains(document, tables, public), limits=read_limits(document, file),
        budget=read_budget(document, file), lines=_lines(document),
    )  # fmt: skip


def _lines(document: Document) -> dict[str, int]:
    lines: dict[str, int] = {}
    for (section, *rest), line in document.lines.items():
        if section in {"tables", "scores", "domains"} and rest:
            rest[0] = dotted(name_parts(rest[0]) or rest)
        lines[".".join((section, *rest))] = line
    return lines


def _tables(document: Document) -> dict[Name, PrivateTable]:
    paths: dict[Name, Path] = {}
    tables: dict[Name, PrivateTable] = {}
    for written, value in document.section("tables").items():
        path = ("tables", written)
        name = document.table(written, path)
        if name in tables:
            raise document.error(path, f"{written} appears twice; case does not matter.")
        table, unique = read(document, path, PrivateTable, value, name), set()
        for column in table.unique_per_person:  # with or without the table's name
            *of, own = name_parts(column) or ("",)
            if not own or tuple(of) != name[len(name) - len(of) :]:
                why = f"{column} is not a column of {dotted(name)}."
                raise document.error((*path, "unique_per_person"), why)
            unique.add(own)
        paths[name] = (*path, "privacy_unit")
        tables[name] = replace(table, unique_per_person=frozenset(unique))
    _check_units(document, tables, paths)
    for around in ((), ("limits",)):
        path = (*around, "unique_per_person")
        section = document.section("limits") if around else document.tree
        for column in valid(document, path, NAMES, section.get("unique_per_person", [])):
            name, own = document.column(column, path)
            _need_private(document, name, tables, path)
            both = tables[name].unique_per_person | {own}
            tables[name] = replace(tables[name], unique_per_person=both)
    return tables


def _scores(document: Document) -> dict[Name, ScoreTable]:
    scores: dict[Name, ScoreTable] = {}
    for written, value in document.section("scores").items():
        path = ("scores", written)
        name = document.table(written, path)
        table = read(document, path, ScoreTable, value, name)
        if name in scores:
            raise document.error(path, f"{written} appears twice; case does not matter.")
        if len({table.candidate, table.score, table.sensitivity}) < 3:
            raise document.error(
                path, "Candidate, score and sensitivity must be different columns."
            )
        scores[name] = table
    return scores


def _check_units(
    document: Document, tables: Mapping[Name, PrivateTable], paths: Mapping[Name, Path]
) -> None:
    unnamed = [path for name, path in paths.items() if tables[name].privacy_unit == UNNAMED]
    if unnamed:
        more = ", ".join(str(document.line(path)) for path in unnamed[1:])
        raise document.error(
            unnamed[0], f'privacy_unit is still "{UNNAMED}": name the column that identifies the '
            f"person each row belongs to, or a link.{f' The same on line {more}.' if more else ''}"
        )  # fmt: skip
    for name, path in paths.items():
        unit, seen = tables[name].privacy_unit, {name}
        while isinstance(unit, Link):
            _need_private(document, unit.table, tables, path)
            if unit.table in seen:
                raise document.error(path, "These links form a circle.")
            seen.add(unit.table)
            unit = tables[unit.table].privacy_unit


def _need_private(document: Document, table: Name, tables: Collection[Name], path: Path) -> None:
    if table not in tables:
        near = guess(dotted(table), [dotted(name) for name in tables])
        why = f"There is no [tables.{dotted(table)}]; this must name a private table.{near}"
        raise document.error(path, why)


def _names(document: Document, section: str) -> frozenset[Name]:
    names = read(document, (section,), ListKeys, document.section(section)).tables
    return frozenset(document.table(name, (section, "tables")) for name in names)


def _check_distinct(document: Document, sections: Mapping[str, Collection[Name]]) -> None:
    """Refuse a name in two sections, and one that ends in another: both may mean one table."""
    where: dict[Name, str] = {}
    for section, names in sections.items():
        for name in sorted(names):
            if name in where:
                why = f"{dotted(name)} is also in [{where[name]}]; list it in one section only."
                raise document.error((section, "tables"), why)
            where[name] = section
    for name, section in where.items():
        short = next((name[n:] for n in range(1, len(name)) if name[n:] in where), None)
        if short is not None:
            both = f"{dotted(name)} and {dotted(short)}"
            why = f"{both} may be the same; write schema.table for both."
            raise document.error((section, "tables"), why)


def _domains(
    document: Document, tables: Collection[Name], public: Collection[Name]
) -> dict[tuple[Name, str], DeclaredDomain]:
    domains: dict[tuple[Name, str], DeclaredDomain] = {}
    for written, value in document.section("domains").items():
        path = ("domains", written)
        if isinstance(value, dict):
            inner = next(iter(value), "column")
            raise document.error(path, f'Write the column in quotes: "{written}.{inner}" = …')
        table, column = document.column(written, path)
        _need_private(document, table, tables, path)
        if (table, column) in domains:
            raise document.error(path, f"{written} appears twice; case does not matter.")
        domains[table, column] = _domain(document, value, path, tables, public)
    return domains


def _domain(
    document: Document, value: object, path: Path, tables: Collection[Name],
    public: Collection[Name],
) -> DeclaredDomain:  # fmt: skip
    if value in ("observed", "enum"):
        return str(value)
    if isinstance(value, str):
        table, column = document.column(value, path)
        if table in tables:
            message = (
                f"{dotted(table)} holds people's rows. Name a column of a public table, list the "
                'values, or write "observed" if the set of values is no secret.'
            )
            raise document.error(path, message)
        if table not in public:
            listed = f'[public] tables = ["{dotted(table)}"]'
            message = "is not public; if it holds nothing about people, list it:"
            raise document.error(path, f"{dotted(table)} {message} {listed}")
        return table, column
    kinds = {bool: bool, str: str, int: Fraction, Fraction: Fraction}
    found = {kinds.get(type(item)) for item in value} if isinstance(value, list) else set()
    if len(found) != 1 or None in found or not isinstance(value, list):
        raise document.error(
            path, 'A domain must be the column of a public table, "catalog.title"; a list of '
            'strings, numbers or booleans (write dates as strings, "2024-01-31"); "observed"; '
            'or "enum".'
        )  # fmt: skip
    return tuple(value)
