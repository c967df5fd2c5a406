"""The tables, columns and functions that the shell offers, read through the session alone.

An analyst gets what SHOW TABLES and DESCRIBE show; an owner gets DuckDB's own lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dp_sql.cli.shell.keywords import RESERVED
from dp_sql.session.base import Session
from dp_sql.sql.formatting import quote
from dp_sql.sql.tokens import folded

_INTERNAL = "__dp_"
_TABLES = f"""
    SELECT CASE WHEN database_name = 'temp' THEN ''
                WHEN database_name <> current_database() THEN database_name END AS d,
           CASE WHEN database_name <> 'temp' AND (database_name <> current_database()
                OR schema_name <> current_schema()) THEN schema_name END AS s,
           table_name,
           CASE WHEN EXISTS (FROM duckdb_views() v WHERE v.database_oid = c.database_oid
                AND v.schema_oid = c.schema_oid AND v.view_name = c.table_name)
                THEN 'view' ELSE 'table' END AS kind,
           list(row(column_name, data_type) ORDER BY column_index)
    FROM duckdb_columns() c
    WHERE NOT internal AND NOT starts_with(table_name, '{_INTERNAL}')
    GROUP BY ALL ORDER BY d NULLS FIRST, s NULLS FIRST, table_name
"""
_FUNCTIONS = f"""
    SELECT DISTINCT function_name FROM duckdb_functions()
    WHERE regexp_full_match(function_name, '[a-z]\\w+')
        AND NOT starts_with(function_name, '{_INTERNAL}')
    ORDER BY 1
"""
_SCHEMAS = f"""
    SELECT sql FROM duckdb_tables()
    WHERE NOT internal AND lower(table_name) IN (SELECT unnest($1)) AND sql IS NOT NULL
        AND NOT starts_with(table_name, '{_INTERNAL}')
    UNION ALL SELECT sql FROM duckdb_views()
    WHERE NOT internal AND lower(view_name) IN (SELECT unnest($1)) AND sql IS NOT NULL
"""


@dataclass(frozen=True)
class Table:
    """A table or view.

    Args:
        path: database and schema where they are needed, then the name.
        kind: table or view; under a policy private, public or private view.
        columns: names and types.
    """

    path: tuple[str, ...]
    kind: str
    columns: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        """The name as SQL reads it."""
        return ".".join(map(written, self.path))

    @property
    def folded_path(self) -> tuple[str, ...]:
        """The path in the case in which names are compared."""
        return tuple(map(folded, self.path))


@dataclass(frozen=True)
class Names:
    """Everything that a statement may name."""

    tables: tuple[Table, ...] = ()
    functions: tuple[str, ...] = ()


def written(name: str) -> str:
    """A name as SQL reads it: in quotes only if it needs them.

    >>> written("title"), written("my table"), written("Order")
    ('title', '"my table"', '"Order"')
    """
    plain = name.isascii() and name.replace("_", "a").isalnum() and not name[:1].isdigit()
    return name if plain and name.upper() not in RESERVED else quote(name)


def analyst_names(session: Session) -> Names:
    """The tables of the policy, and the columns of those that analysts may read."""
    found = []
    for name, kind in session.sql("SHOW TABLES").fetchall():
        table = Table(tuple(name.split(".")), kind, ())
        try:
            columns = tuple(session.sql(f"DESCRIBE {table.name}").fetchall())
        except Exception:  # a view that analysts cannot read shows its name alone
            columns = ()
        found.append(Table(table.path, kind, columns))
    return Names(tuple(found))


def owner_names(session: Session) -> Names:
    """The tables, views and functions of the database."""
    tables = tuple(
        Table(tuple(filter(None, path)), kind, tuple(columns))
        for *path, kind, columns in session.sql(_TABLES).fetchall()
    )
    functions = tuple(name for (name,) in session.sql(_FUNCTIONS).fetchall())
    return Names(tables, functions)


def analyst_schema(tables: Sequence[Table]) -> str:
    """The names and types of the columns of some tables."""
    lines = []
    for table in tables:
        lines += [f"{table.name} ({table.kind})\n"]
        lines += [f"  {written(name)} {column_type}\n" for name, column_type in table.columns]
    return "".join(lines)


def owner_schema(session: Session, tables: Sequence[Table]) -> str:
    """The CREATE statements of some tables."""
    wanted = sorted({table.folded_path[-1] for table in tables})
    rows = session.sql(_SCHEMAS, params=[wanted]).fetchall()
    return "".join(f"{text.strip()}\n" for (text,) in rows)
