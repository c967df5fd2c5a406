"""Is true what a policy says about rows? The questions, as SQL that finds a row where it is not.

For the owner: these questions read private rows. Their answers are yes or no and name nobody. They
call no function but count, and that by its full name. People and values are compared byte by byte;
links as the columns' collations do, which finds more that is shared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from dp_sql.policy.catalog import Listed
from dp_sql.policy.model import Link, Name, Policy
from dp_sql.policy.parser import shown
from dp_sql.sql.formatting import literal, quote
from dp_sql.sql.types import exact, family, lost

Known = Mapping[Name, Listed]
"""What each name of a policy means."""


@dataclass(frozen=True)
class Question:
    """Something that a policy says: the key that says it, how to look for the contrary, and why.

    subject: what is read to answer it.
    select: finds a row where the policy is wrong.
    why: the sentence for the owner where it does.
    """

    key: str
    subject: str
    select: str
    why: str


def questions(policy: Policy, known: Known) -> Iterator[Question]:
    """What to ask of a database whose names and types fit the policy."""
    yield from _views(policy, known)
    yield from _links(policy, known)
    yield from _unique(policy, known)
    yield from _domains(policy, known)


def _views(policy: Policy, known: Known) -> Iterator[Question]:
    """A view whose tables have changed is listed in a catalogue and cannot be read."""
    for view in sorted(policy.views):
        select = f"SELECT 1 FROM {known[view].sql} WHERE FALSE"
        yield Question("views.tables", f"The view {shown(view)}", select, "")


def _links(policy: Policy, known: Known) -> Iterator[Question]:
    """Each value of a column that others link to is of one person's rows."""
    for name, table in policy.tables.items():
        if isinstance(table.unit, Link):
            target, key = table.unit.table, table.unit.key
            source, person = _people(policy, known, target)
            value = f"t0.{quote(key)}"
            yield Question(
                f"tables.{shown(name)}.privacy_unit",
                shown(target),
                f"SELECT 1 FROM {source} WHERE {value} IS NOT NULL GROUP BY {value} "
                f"HAVING system.main.count(DISTINCT {person}) > 1",
                f"{shown(target)}.{key} holds values that several people share, so it does not say "
                "whose a row is.",
            )


def _unique(policy: Policy, known: Known) -> Iterator[Question]:
    """All rows of a person agree in a column; NULL is a value like others."""
    for name, table in policy.tables.items():
        source, person = _people(policy, known, name)
        for column in sorted(table.unique_per_person):
            value = _column(known, name, column, 0)
            kinds, filled = (f"system.main.count({word}{value})" for word in ("DISTINCT ", ""))
            yield Question(
                f"tables.{shown(name)}.unique_per_person",
                shown(name),
                f"SELECT 1 FROM {source} WHERE {person} IS NOT NULL GROUP BY {person} "
                f"HAVING {kinds} > 1 OR ({kinds} = 1 AND {filled} < system.main.count(*))",
                f"This is not true of {column}: it differs between rows of one person.",
            )


def _people(policy: Policy, known: Known, name: Name) -> tuple[str, str]:
    """A private table joined to what it links to, and in it the person whose row a row is."""
    source, number, unit = f"{known[name].sql} AS t0", 0, policy.tables[name].unit
    while isinstance(unit, Link):
        here = f"t{number}.{quote(unit.column)}"
        name, number = unit.table, number + 1
        source += f" JOIN {known[name].sql} AS t{number} ON {here} = t{number}.{quote(unit.key)}"
        unit = policy.tables[name].unit
    return source, _column(known, name, unit, number)


def _column(known: Known, name: Name, column: str, number: int) -> str:
    return exact(f"t{number}.{quote(column)}", known[name].type_of(column) or "")


def _domains(policy: Policy, known: Known) -> Iterator[Question]:
    """Each value of a domain is one of the column's type, and the same one."""
    for (name, column), domain in policy.domains.items():
        kind = known[name].type_of(column) or ""
        values = _values(domain, known)
        changed = _lost(domain, known, kind) if values else None
        if changed is not None:
            yield Question(
                f"domains.{shown((*name, column))}",
                "The domain",
                f"SELECT 1 FROM ({values}) AS domain(value) WHERE value IS NOT NULL AND {changed}",
                f"It has values that {shown(name)}.{column}, {family(kind)}, cannot hold.",
            )


def _lost(domain: object, known: Known, kind: str) -> str | None:
    """The condition that finds a value which a column of this type cannot hold."""
    first = domain[0] if isinstance(domain, tuple) else None
    if isinstance(first, tuple) and isinstance(domain, tuple):
        return lost("value", known[first].type_of(str(domain[1])), kind)
    if isinstance(first, str):
        return lost("value", None, kind)
    return f"TRY_CAST(value AS {kind}) IS DISTINCT FROM value"


def _values(domain: object, known: Known) -> str:
    """SQL that lists the values of a domain; nothing where they are the observed ones."""
    if not isinstance(domain, tuple):
        return ""
    if isinstance(domain[0], tuple):
        return f"SELECT {quote(domain[1])} FROM {known[domain[0]].sql}"
    items = (item for item in domain if isinstance(item, str | bool | int | Fraction))
    return f"VALUES {', '.join(f'({literal(item)})' for item in items)}"
