"""The tables, columns and functions that the shell offers, read through the session alone.

An analyst gets what SHOW TABLES and DESCRIBE show; an owner gets DuckDB's own lists.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dp_sql.session.base import Session
from dp_sql.sql.formatting import RESERVED, shown_name
from dp_sql.sql.tokens import folded, name_parts

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
_MORE = """
    ALTER ANTI ASOF ATTACH BEGIN BETWEEN BY CALL CHECKPOINT COMMIT COPY CROSS CURRENT_DATE DELETE
    DETACH DROP EXCLUDE EXECUTE EXISTS EXPLAIN EXPORT FILTER FULL GLOB IF ILIKE IMPORT INNER INSERT
    INSTALL INTERVAL IS JOIN LEFT LIKE LOAD MACRO MATERIALIZED NATURAL NULLS OVER PARTITION
    POSITIONAL PRAGMA PREPARE RECURSIVE REPLACE RIGHT ROLLBACK ROWS SAMPLE SCHEMA SEMI SET TABLES
    TEMP TRANSACTION TRY_CAST TYPE UPDATE USE VALUES VIEW
"""
_ANALYST = """
    ALL AND ANY AS ASC BETWEEN BY CASE CAST DESC DESCRIBE DISTINCT ELSE END EXCEPT EXPLAIN FALSE
    FILTER FROM GROUP HAVING ILIKE IN INNER INTERSECT IS JOIN LEFT LIKE LIMIT NOT NULL NULLS OFFSET
    ON OR ORDER OVER PARTITION QUALIFY SELECT SHOW TABLES THEN TRUE UNION USING VALUES WHEN WHERE
    WINDOW WITH
"""
OWNER_KEYWORDS = tuple(sorted({*RESERVED, *_MORE.split()}))
ANALYST_KEYWORDS = tuple(sorted(_ANALYST.split()))  # under a policy one SELECT runs at a time


@dataclass(frozen=True)
class Table:
    """A table or view."""

    path: tuple[str, ...]  # database and schema where they are needed, then the name
    kind: str  # table or view; under a policy private, public or private view
    columns: tuple[tuple[str, str], ...]  # names and types

    @property
    def name(self) -> str:
        """The name as SQL reads it."""
        return ".".join(map(shown_name, self.path))

    @property
    def folded_path(self) -> tuple[str, ...]:
        """The path in the case in which names are compared."""
        return tuple(map(folded, self.path))


@dataclass(frozen=True)
class Names:
    """Everything that a statement may name."""

    tables: tuple[Table, ...] = ()
    functions: tuple[str, ...] = ()


def analyst_names(session: Session) -> Names:
    """The tables of the policy, and the columns of those that analysts may read."""
    found = []
    for name, kind in session.sql("SHOW TABLES").fetchall():
        table = Table(name_parts(name) or (name,), kind, ())
        with contextlib.suppress(Exception):  # a view that analysts cannot read shows its name
            columns = tuple(session.sql(f"DESCRIBE {table.name}").fetchall())
            table = replace(table, columns=columns)
        found.append(table)
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
        lines += [f"  {shown_name(name)} {kind}\n" for name, kind in table.columns]
    return "".join(lines)


def owner_schema(session: Session, tables: Sequence[Table]) -> str:
    """The CREATE statements of some tables."""
    wanted = sorted({table.folded_path[-1] for table in tables})
    rows = session.sql(_SCHEMAS, params=[wanted]).fetchall()
    return "".join(f"{text.strip()}\n" for (text,) in rows)
