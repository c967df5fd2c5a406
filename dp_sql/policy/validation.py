"""Does a policy fit its database? Names and types first, then what it says about rows.

Rows are read only if names and types are right and no built-in function is replaced.
"""

from collections.abc import Iterable, Iterator, Sequence

from dp_sql.errors import SourceError, guess
from dp_sql.policy.claims import Check, Known, checks
from dp_sql.policy.model import DeclaredDomain, Link, Name, Policy
from dp_sql.policy.owners_catalog import CatalogEntry, OwnersCatalog
from dp_sql.policy.parser import dotted
from dp_sql.sql.formatting import quote
from dp_sql.sql.tokens import folded
from dp_sql.sql.types import (
    EXACT_TYPES,
    NUMBERS,
    can_be,
    can_be_written,
    exact,
    family,
    wider,
    without_labels,
)

Problem = tuple[str, str]  # the key that is wrong, and why


def problems(policy: Policy, catalog: OwnersCatalog) -> list[str]:
    """What is wrong with a policy for a database, each with its line and key; empty if nothing.

    Reads private rows where the policy says something about them; shows only that it is not true.
    """
    known: dict[Name, CatalogEntry] = {}
    found = _misfits(policy, catalog, known) or _untrue(catalog, checks(policy, known))
    return [_with_line(policy, key, why) for key, why in found]


def misfits(policy: Policy, catalog: OwnersCatalog) -> list[str]:
    """The problems with names and types; no row is read."""
    return [_with_line(policy, key, why) for key, why in _misfits(policy, catalog, {})]


def missing_folders(policy: Policy) -> list[str]:
    """The folders of the ledger and the checkpoint that are not there: no session can open."""
    if policy.budget is None:
        return []
    files = {"ledger": policy.budget.ledger, "checkpoint": policy.budget.checkpoint}
    return [
        _with_line(policy, f"budget.{key}", f"There is no folder {path.parent}.")
        for key, path in files.items()
        if not path.parent.is_dir()
    ]


def hidden(policy: Policy, catalog: OwnersCatalog) -> list[str]:
    """Tables and views that the policy does not name: they do not exist for analysts."""
    named = [*policy.tables, *policy.public, *policy.views, *policy.scores]
    return [
        dotted(relation.parts[1:])
        for relation in catalog.listed()
        if not any(relation.is_called(name) for name in named)
    ]


def hidden_labels(policy: Policy, catalog: OwnersCatalog) -> list[str]:
    """ENUM columns of private tables that the policy gives no domain."""
    return [
        f"{dotted(name)}.{folded(column)}"
        for name in policy.tables
        for relation in catalog.listed()
        if relation.is_called(name)
        for column, kind in relation.columns
        if family(kind) == "ENUM" and (name, folded(column)) not in policy.domains
    ]


def other_links(policy: Policy, catalog: OwnersCatalog) -> Iterator[str]:
    """The links of a policy that differ from the foreign keys of their columns."""
    relations = catalog.listed()
    for table in policy.tables.values():
        link, own = table.privacy_unit, [r for r in relations if r.is_called(table.name)]
        if not isinstance(link, Link) or len(own) != 1:
            continue
        (target,) = [r.parts for r in relations if r.is_called(link.table)]
        ends = {
            (key.table, folded(end))
            for key in own[0].references
            for column, end in zip(key.columns, key.keys, strict=True)
            if folded(column) == link.column
        }
        if ends and (target, link.key) not in ends:
            led = " or ".join(sorted(dotted((*name[1:], end)) for name, end in ends))
            yield (
                f"tables.{dotted(table.name)}.privacy_unit leads to "
                f"{dotted((*link.table, link.key))}, and the foreign key of {link.column} "
                f"to {led}. Check which of them is meant."
            )


def _with_line(policy: Policy, key: str, why: str) -> str:
    last = key.rsplit(".", 1)[-1]
    places = [key, last, f"limits.{last}"] if last == "unique_per_person" else [key]
    line = next((policy.lines[place] for place in places if place in policy.lines), None)
    return f"{f'line {line}, ' if line else ''}{key}: {why}"


def _misfits(
    policy: Policy, catalog: OwnersCatalog, known: dict[Name, CatalogEntry]
) -> list[Problem]:
    """The problems with names and types; fills `known` with what each name means."""
    replaced = ", ".join(catalog.replaced_functions())
    why = f"It has macros that replace built-in functions: {replaced}. Drop or rename them."
    found = [("the database", why)] if replaced else []
    found += _names(policy, catalog.listed(), known)
    return [*found, *_units(policy, known), *_scores(policy, known), *_domains(policy, known)]


def _names(
    policy: Policy, listed: Sequence[CatalogEntry], known: dict[Name, CatalogEntry]
) -> Iterator[Problem]:
    keys = [(f"tables.{dotted(name)}", name) for name in policy.tables]
    keys += [(f"scores.{dotted(name)}", name) for name in policy.scores]
    keys += [("public.tables", name) for name in sorted(policy.public)]
    keys += [("views.tables", name) for name in sorted(policy.views)]
    for key, name in keys:
        written = dotted(name)
        found = [relation for relation in listed if relation.is_called(name)]
        if not found:
            near = guess(written, [folded(relation.parts[-1]) for relation in listed])
            yield key, f"There is no table or view {written}.{near}"
        elif len(found) > 1:
            full = " or ".join(dotted([folded(p) for p in relation.parts]) for relation in found)
            yield key, f"{written} may mean {full}; write one of these."
        else:
            known[name] = found[0]
            if name in policy.views and not found[0].is_view:
                yield key, f"{written} is a table, and [views] lists views."
            elif found[0].is_view and name not in policy.views:
                read = (
                    "[views], and the tables that it reads in [tables.…] or [public]. Only a view "
                    "that is SELECT * FROM read_parquet('…') counts as a table."
                )
                yield key, f"{written} is a view. List it in {read}"


def _units(policy: Policy, known: Known) -> Iterator[Problem]:
    for name, table in policy.tables.items():
        key, unit = f"tables.{dotted(name)}", table.privacy_unit
        faults = _link(known, name, unit) if isinstance(unit, Link) else _column(known, name, unit)
        yield from ((f"{key}.privacy_unit", why) for why in faults)
        for column in sorted(table.unique_per_person):
            faults = _column(known, name, column, exactly=False)
            yield from ((f"{key}.unique_per_person", why) for why in faults)


def _scores(policy: Policy, known: Known) -> Iterator[Problem]:
    for name, table in policy.scores.items():
        for key, column in (("score", table.score), ("sensitivity", table.sensitivity)):
            if not isinstance(column, str):
                continue
            faults = _column(known, name, column, exactly=False)
            kind = known[name].type_of(column) if name in known else None
            if not faults and kind is not None and family(kind) not in NUMBERS:
                faults = [f"{dotted(name)}.{column} is {family(kind)}, which is not a number."]
            yield from ((f"scores.{dotted(name)}.{key}", why) for why in faults)
        candidates = _column(known, name, table.candidate)
        yield from ((f"scores.{dotted(name)}.candidate", why) for why in candidates)


def _link(known: Known, name: Name, link: Link) -> list[str]:
    faults = _column(known, name, link.column) + _column(known, link.table, link.key)
    if faults or name not in known or link.table not in known:
        return faults
    here, there = known[name].type_of(link.column), known[link.table].type_of(link.key)
    if wider(here or "", there or "") == wider(there or "", here or ""):
        return []
    types = [without_labels(kind or "") for kind in (here, there)]
    if types[0] == types[1]:  # two ENUMs, whose labels not every reader may see
        types = ["one ENUM", "another"]
    there_is = f"{dotted(link.table)}.{link.key} is {types[1]}"
    here_is = f"{dotted(name)}.{link.column} is {types[0]}"
    return [f"{here_is}, and {there_is}; give them the same type."]


def _domains(policy: Policy, known: Known) -> Iterator[Problem]:
    for (table, column), domain in policy.domains.items():
        faults = _column(known, table, column)
        if isinstance(domain, tuple) and isinstance(domain[0], tuple):
            faults += _column(known, domain[0], str(domain[1]))
        kind = family((known[table].type_of(column) if table in known else None) or "")
        where = f"{dotted(table)}.{column}"
        if not faults and not _may_hold(known, table, column, domain):
            faults = [f"Its values cannot be items of {where}, which is {kind}."]
        if not faults and domain == "enum" and table in known and kind != "ENUM":
            faults = [
                f"{where} is {kind}, and only an ENUM has labels. Name a public column, list the "
                'values, or write "observed" if they are public.'
            ]
        yield from ((f"domains.{dotted((*table, column))}", why) for why in faults)


def _may_hold(known: Known, table: Name, column: str, domain: DeclaredDomain) -> bool:
    """Whether the values of a domain are of the column's kind; true if either is unknown."""
    if table not in known or not isinstance(domain, tuple):
        return True
    item, first = known[table].type_of(column) or "", domain[0]
    if isinstance(first, tuple):
        found = known[first].type_of(str(domain[1])) if first in known else None
        return found is None or can_be(found, item)
    if isinstance(first, str):
        return can_be_written(item)
    return can_be("BOOLEAN" if isinstance(first, bool) else "DECIMAL", item)


def _column(known: Known, table: Name, column: str, exactly: bool = True) -> list[str]:
    """Why a column cannot be used; empty if it can, or if its table is unknown."""
    if table not in known:
        return []
    kind = known[table].type_of(column)
    if kind is None:
        near = guess(column, [folded(name) for name, _ in known[table].columns])
        return [f"{dotted(table)} has no column {column}.{near}"]
    if exactly and family(kind) not in EXACT_TYPES:
        return [
            f"{dotted(table)}.{column} is {family(kind)}, whose values have no exact equality. "
            "Integers, decimals, strings, dates, times, UUIDs, booleans, blobs and ENUMs have."
        ]
    return []


def _untrue(catalog: OwnersCatalog, asked: Iterable[Check]) -> Iterator[Problem]:
    for check in asked:
        try:
            if catalog.finds(check.select):
                yield check.key, check.why
        except SourceError as error:
            yield check.key, f"{check.subject} cannot be read: {error.message}"


def work_lines(policy: Policy, catalog: OwnersCatalog) -> Iterator[str]:
    """The limits in force, and how far joins with public tables multiply rows; reads only those."""
    yield (
        f"Where a join multiplies rows, at most {policy.limits.max_rows_per_person:,} rows of each "
        "person enter on each side (max_rows_per_person), and a query whose joins could make more "
        f"than {policy.limits.max_joined_rows_per_person:,} of them is refused "
        "(max_joined_rows_per_person)."
    )
    listed, named = catalog.listed(), (*policy.tables, *policy.public)
    means = {name: next(table for table in listed if table.is_called(name)) for name in named}
    names = {folded(column) for name in policy.tables for column, _ in means[name].columns}
    for public in sorted(policy.public):
        for column, kind in means[public].columns:
            if folded(column) not in names or family(kind) not in EXACT_TYPES:
                continue
            counts = f"SELECT system.main.count(*) AS n FROM {means[public].sql}"
            by = f"WHERE {quote(column)} IS NOT NULL GROUP BY {exact(quote(column), kind)}"
            most = f"SELECT coalesce(system.main.max(n), 0) FROM ({counts} {by}) AS counted"
            if (shared := catalog.public_number(most)) > 1:
                yield (
                    f"{dotted(public)}.{folded(column)}: up to {shared:,} rows share a value. "
                    "A join on it multiplies a row by the number of these rows that differ in the "
                    "columns that the query reads."
                )
