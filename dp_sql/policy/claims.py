"""What a policy says about rows: each claim as SQL that finds a counterexample. Runs nothing.

The SQL calls no function but count and isfinite, by their full names. People and values are
compared byte by byte; links as the columns' collations compare them, which finds more shared
values.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from dp_sql.policy.model import Link, Name, Policy, ScoreTable
from dp_sql.policy.owners_catalog import CatalogEntry
from dp_sql.policy.parser import dotted
from dp_sql.sql.formatting import literal, quote
from dp_sql.sql.types import exact, family, lost

Known = Mapping[Name, CatalogEntry]  # the table or view that each name of a policy means


@dataclass(frozen=True)
class Check:
    """A claim of a policy: its key, what is read, a SELECT that finds a counterexample, and why."""

    key: str
    subject: str
    select: str
    why: str


def checks(policy: Policy, known: Known) -> Iterator[Check]:
    """The checks of a policy whose names and types fit the database."""
    for view in sorted(policy.views):  # one whose tables have changed is listed and unreadable
        select = f"SELECT 1 FROM {known[view].sql} WHERE FALSE"
        yield Check("views.tables", f"The view {dotted(view)}", select, "")
    tables = policy.tables.values()
    for table in tables:
        if isinstance(table.privacy_unit, Link):
            yield _true_link(policy, known, table.name, table.privacy_unit)
    for table in tables:
        for column in sorted(table.unique_per_person):
            yield _unique(policy, known, table.name, column)
    for scores in policy.scores.values():
        yield from _true_scores(known, scores)
    yield from _true_domains(policy, known)


def _true_scores(known: Known, table: ScoreTable) -> Iterator[Check]:
    """Each candidate has one row; scores and sensitivities are numbers that mechanisms take."""
    source, candidate = known[table.name].sql, quote(table.candidate)
    key, named = f"scores.{dotted(table.name)}", dotted(table.name)
    each = exact(candidate, known[table.name].type_of(table.candidate) or "")
    twice = f"SELECT 1 FROM {source} GROUP BY {each} HAVING system.main.count(*) > 1"
    missing = f"SELECT 1 FROM {source} WHERE {candidate} IS NULL"
    why = "A candidate is NULL or has several rows."
    yield from (Check(f"{key}.candidate", named, select, why) for select in (twice, missing))
    for what, column in (("score", table.score), ("sensitivity", table.sensitivity)):
        if isinstance(column, str):
            number = f"CAST({quote(column)} AS DOUBLE)"
            wrong = f"{number} IS NULL OR NOT system.main.isfinite({number})"
            wrong += f" OR {number} < 0" if what == "sensitivity" else ""
            why = f"A {what} is NULL, infinite or NaN{', or negative' * (what == 'sensitivity')}."
            yield Check(f"{key}.{what}", named, f"SELECT 1 FROM {source} WHERE {wrong}", why)


def _true_link(policy: Policy, known: Known, name: Name, link: Link) -> Check:
    """Each value of a column that others link to belongs to one person."""
    source, person = _people(policy, known, link.table)
    value, target = f"t0.{quote(link.key)}", dotted(link.table)
    select = (
        f"SELECT 1 FROM {source} WHERE {value} IS NOT NULL GROUP BY {value} "
        f"HAVING system.main.count(DISTINCT {person}) > 1"
    )
    shared = f"{target}.{link.key} holds values that several people share"
    why = f"{shared}, so it does not identify one person."
    return Check(f"tables.{dotted(name)}.privacy_unit", target, select, why)


def _unique(policy: Policy, known: Known, name: Name, column: str) -> Check:
    """All rows of a person agree in a column; NULL is a value like others."""
    source, person = _people(policy, known, name)
    value = _value(known, name, column, 0)
    distinct, filled = (f"system.main.count({word}{value})" for word in ("DISTINCT ", ""))
    select = (
        f"SELECT 1 FROM {source} WHERE {person} IS NOT NULL GROUP BY {person} "
        f"HAVING {distinct} > 1 OR ({distinct} = 1 AND {filled} < system.main.count(*))"
    )
    why = f"This is not true of {column}: it differs between rows of one person."
    return Check(f"tables.{dotted(name)}.unique_per_person", dotted(name), select, why)


def _people(policy: Policy, known: Known, name: Name) -> tuple[str, str]:
    """A private table joined along its links, and the column there that identifies the person."""
    source, number, unit = f"{known[name].sql} AS t0", 0, policy.tables[name].privacy_unit
    while isinstance(unit, Link):
        here = f"t{number}.{quote(unit.column)}"
        name, number = unit.table, number + 1
        source += f" JOIN {known[name].sql} AS t{number} ON {here} = t{number}.{quote(unit.key)}"
        unit = policy.tables[name].privacy_unit
    return source, _value(known, name, unit, number)


def _value(known: Known, name: Name, column: str, number: int) -> str:
    return exact(f"t{number}.{quote(column)}", known[name].type_of(column) or "")


def _true_domains(policy: Policy, known: Known) -> Iterator[Check]:
    """Each value of a domain is one that the column can hold, unchanged."""
    for (name, column), domain in policy.domains.items():
        if not isinstance(domain, tuple):
            continue
        kind, first = known[name].type_of(column) or "", domain[0]
        if isinstance(first, tuple):
            values = f"SELECT {quote(str(domain[1]))} FROM {known[first].sql}"
            changed = lost(known[first].type_of(str(domain[1])), kind)
        else:
            items = (item for item in domain if isinstance(item, str | bool | int | Fraction))
            values = f"VALUES {', '.join(f'({literal(item)})' for item in items)}"
            changed = f"TRY_CAST(value AS {kind}) IS DISTINCT FROM value"
            if isinstance(first, str):
                changed = lost(None, kind)
        if changed is not None:
            here, found = f"domains.{dotted((*name, column))}", f"({values}) AS domain(value)"
            select = f"SELECT 1 FROM {found} WHERE value IS NOT NULL AND {changed}"
            why = f"It has values that {dotted(name)}.{column}, {family(kind)}, cannot hold."
            yield Check(here, "The domain", select, why)
