"""What an analyst sees of a database: names and types, never sizes or rows."""

from collections.abc import Sequence

from dp_sql.errors import NotPrivate, NotSupported, guess
from dp_sql.policy.model import Policy
from dp_sql.policy.parser import dotted
from dp_sql.privacy.catalog import Columns, Schema
from dp_sql.privacy.refusals import Refused
from dp_sql.privacy.relations.base_tables import as_noted
from dp_sql.privacy.relations.policy_tables import PolicyTables
from dp_sql.privacy.relations.source_compiler import Compiler
from dp_sql.sql.formatting import literal, shown_name
from dp_sql.sql.tokens import Tokens, folded


def listed_sql(tokens: Tokens, policy: Policy, schema: Schema) -> str | None:
    """SQL of what SHOW TABLES and DESCRIBE list; None for other statements."""
    name = described_name(tokens)
    if name is None:
        return None
    return describe_sql(described(name, policy, schema)) if name else tables_sql(policy, schema)


def tables_sql(policy: Policy, schema: Schema) -> str:
    """SQL of the list of tables: their names, and whether they are private or public.

    Names have quotes where SQL needs them; behind a dot, keywords need none.
    """

    def shown(name: Sequence[str]) -> str:
        behind = (one if one.isidentifier() else shown_name(one) for one in name[1:])
        return ".".join([shown_name(name[0]), *behind])

    rows = [
        (shown(name), kind)
        for names, kind in (
            (policy.tables, "private"),
            (policy.public, "public"),
            (policy.scores, "scores"),
        )
        for name in sorted(names)
        if schema.table(name) is not None
    ]
    rows += [(shown(name), "private view") for name in sorted(policy.views)]
    return values_sql(("name", "kind"), rows)


def describe_sql(columns: Columns) -> str:
    """SQL of the names and types of columns, as DESCRIBE shows them."""
    return values_sql(("column_name", "column_type"), columns)


def described(parts: Sequence[str], policy: Policy, schema: Schema) -> Columns:
    """The columns' names and types, for a table or view that the policy lists."""
    full = schema.table(parts)
    tables = PolicyTables(schema, policy)
    if full and full in {schema.table(name) for name in [*policy.tables, *policy.public]}:
        return tables.columns_of(full)
    for scores in policy.scores.values():
        if full and full == schema.table(scores.name):
            listed = [(folded(name), kind) for name, kind in tables.columns_of(full)]
            return [one for one in listed if one[0] in scores.columns]
    try:
        view = as_noted(lambda: Compiler(tables).listed_view(parts), tables)
    except Refused as why:
        raise NotPrivate(why.message, hint=why.hint) from None
    if view is None:
        name = ".".join(folded(part) for part in parts)
        near = guess(name, [dotted(one) for one in (*policy.tables, *policy.public, *policy.views)])
        hint = f"{near} SHOW TABLES lists the tables.".strip()
        raise NotSupported(f"There is no table {name}.", hint=hint)
    return list(zip(view.names, [value.type for value in view.values], strict=True))


def values_sql(names: Sequence[str], rows: Sequence[tuple[str, ...]]) -> str:
    """SQL of a table of strings."""
    listed = ", ".join(f"({', '.join(literal(value) for value in row)})" for row in rows)
    if not rows:
        return f"SELECT {', '.join(f'NULL::VARCHAR AS {name}' for name in names)} WHERE false"
    return f"SELECT * FROM (VALUES {listed}) AS shown({', '.join(names)})"


def described_name(tokens: Tokens) -> list[str] | None:
    """The name that DESCRIBE (DESC, SHOW) takes, in parts; [] for SHOW TABLES; None: neither."""
    if tokens[0].upper not in {"DESCRIBE", "DESC", "SHOW"}:
        return None
    words = [token.upper for token in tokens]
    if words in (["SHOW", "TABLES"], ["SHOW", "ALL", "TABLES"]):
        return []
    if words[:3] == ["SHOW", "TABLES", "FROM"]:
        raise tokens[2].error(
            NotSupported, "SHOW TABLES FROM is not supported here.",
            "SHOW TABLES lists the tables of all schemas.", ["SHOW TABLES"],
        )  # fmt: skip
    parts = [token.name for token in tokens[1::2]]
    is_name = parts and None not in parts and all(one.is_symbol(".") for one in tokens[2::2])
    return [part or "" for part in parts] if is_name else None
