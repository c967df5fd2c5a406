"""How much work may one person's rows cause under a policy? What its owner sees of that.

Reads public rows only.
"""

from __future__ import annotations

from collections.abc import Iterator

from dp_sql.policy.catalog import Catalogue, Listed
from dp_sql.policy.model import Name, Policy
from dp_sql.policy.parser import shown
from dp_sql.sql.formatting import quote
from dp_sql.sql.tokens import folded
from dp_sql.sql.types import EXACT_TYPES, exact, family


def work_lines(policy: Policy, catalog: Catalogue) -> Iterator[str]:
    """The limits in force, and how far a join with each public table multiplies rows.

    Args:
        policy: one that fits the database.
        catalog: the database.
    """
    limits = policy.limits
    yield (
        f"Where a join multiplies rows, each side keeps {limits.max_rows_per_person:,} rows of "
        f"each person (max_rows_per_person), and a query whose joins could make more than "
        f"{limits.max_joined_rows_per_person:,} of them is refused (max_joined_rows_per_person)."
    )
    private = [_meant(name, catalog) for name in policy.tables]
    names = {folded(name) for table in private for name, _ in table.columns}
    for public in sorted(policy.public):
        table = _meant(public, catalog)
        for name, kind in table.columns:
            if folded(name) in names and family(kind) in EXACT_TYPES:
                most = catalog.number(_largest(table, name, kind))
                if most > 1:
                    yield (
                        f"{shown(public)}.{folded(name)}: up to {most:,} rows have the same value. "
                        "A join on it multiplies a row by the number of them that differ in the "
                        "columns that the query reads."
                    )


def _meant(name: Name, catalog: Catalogue) -> Listed:
    return next(table for table in catalog.listed() if table.is_called(name))


def _largest(table: Listed, name: str, kind: str) -> str:
    """SQL of the most rows that have the same value in a column."""
    value = exact(quote(name), kind)
    counts = (
        f"SELECT system.main.count(*) AS n FROM {table.sql} WHERE {quote(name)} IS NOT NULL "
        f"GROUP BY {value}"
    )
    return f"SELECT coalesce(system.main.max(n), 0) FROM ({counts}) AS counted"
