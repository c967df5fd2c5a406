"""What an analyst may know of a database: names and types, never sizes or rows."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dp_sql.errors import NotSupported
from dp_sql.parse import folded
from dp_sql.person_level import Schema
from dp_sql.plan import Plan
from dp_sql.policy import Policy
from dp_sql.total import text
from dp_sql.types import full_name
from udfs.spec import in_words


def tables_sql(policy: Policy, schema: Schema) -> str:
    """SQL of the tables that there are: name, and whether a table is private or public."""
    rows = []
    for names, kind in ((policy.tables, "private"), (policy.public, "public")):
        for name in sorted(names):
            if schema.table(name) is not None:
                rows.append((".".join(name), kind))
    rows += [(".".join(name), "private view") for name in sorted(policy.views)]
    return _values(("name", "kind"), rows)


def describe_sql(parts: Sequence[str], policy: Policy, schema: Schema) -> str:
    """SQL of the columns of a table: names and types."""
    full = schema.table(parts)
    known = {schema.table(name) for name in [*policy.tables, *policy.public]}
    if full is None or full not in known:
        raise NotSupported(
            f"There is no table {'.'.join(folded(part) for part in parts)}.",
            hint="SHOW TABLES lists what there is.",
        )
    name = full_name(full)
    return _values(("column_name", "column_type"), schema.columns(f"SELECT * FROM {name}"))


def explain_sql(plans: Sequence[Plan]) -> str:
    """SQL of what the DP calls of a query would cost: from public numbers, nothing is spent."""
    if not plans:
        raise NotSupported("EXPLAIN shows what DP calls would cost, and there is none here.")
    rows = []
    for plan in plans:
        delta = in_words(plan.loss.delta)
        each = in_words(Fraction(plan.parameters["epsilon"]))
        rows.append((plan.call, plan.mechanism.name, in_words(plan.loss.epsilon), delta, each))
    return _values(("call", "mechanism", "epsilon", "delta", "epsilon_per_group"), rows)


def _values(names: Sequence[str], rows: Sequence[tuple[str, ...]]) -> str:
    listed = ", ".join(f"({', '.join(text(value) for value in row)})" for row in rows)
    if not rows:
        return f"SELECT {', '.join(f'NULL::VARCHAR AS {name}' for name in names)} WHERE false"
    return f"SELECT * FROM (VALUES {listed}) AS shown({', '.join(names)})"
