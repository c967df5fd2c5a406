"""What the shell may name: tables, columns and functions, read through the session alone.

Under a policy that is what SHOW TABLES and DESCRIBE tell; for the owner it is DuckDB's own list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dp_sql.cli.shell.keywords import RESERVED
from dp_sql.session.base import Session
from dp_sql.sql.formatting import quote
from dp_sql.sql.tokens import folded, tokenize

_OURS = "__dp_"
_COLUMNS = f"""
    SELECT CASE WHEN database_name = 'temp' THEN ''
                WHEN database_name <> current_database() THEN database_name END,
           CASE WHEN database_name <> 'temp' AND (database_name <> current_database()
                OR schema_name <> current_schema()) THEN schema_name END,
           table_name, column_name, data_type,
           EXISTS (FROM duckdb_views() v WHERE v.database_oid = c.database_oid
                   AND v.schema_oid = c.schema_oid AND v.view_name = c.table_name)
    FROM duckdb_columns() c
    WHERE NOT internal AND NOT starts_with(table_name, '{_OURS}')
    ORDER BY 1 NULLS FIRST, 2 NULLS FIRST, 3, column_index
"""
_FUNCTIONS = (
    "SELECT DISTINCT function_name FROM duckdb_functions() "
    f"WHERE regexp_full_match(function_name, '[a-z]\\w+') AND function_name NOT LIKE '{_OURS}%' "
    "ORDER BY 1"
)
_SCHEMAS = f"""
    SELECT sql FROM duckdb_tables() WHERE NOT internal AND {{named}} AND sql IS NOT NULL
        AND NOT starts_with(table_name, '{_OURS}')
    UNION ALL SELECT sql FROM duckdb_views() WHERE NOT internal AND {{viewed}} AND sql IS NOT NULL
"""


@dataclass(frozen=True)
class Table:
    """A table or view: its name as SQL takes it, what kind it is, its columns and their types."""

    name: str
    kind: str
    columns: tuple[tuple[str, str], ...]

    @property
    def last_name(self) -> str:
        """The name without schema and database, unquoted and folded."""
        return folded(tokenize(self.name)[-1].name or "")


@dataclass(frozen=True)
class Catalogue:
    """All that may be named."""

    tables: tuple[Table, ...] = ()
    functions: tuple[str, ...] = ()


def written(name: str) -> str:
    """A name as SQL takes it: bare where that reads back, else in quotes.

    >>> written("title"), written("my table"), written("Order")
    ('title', '"my table"', '"Order"')
    """
    plain = name.isascii() and name.replace("_", "a").isalnum() and not name[:1].isdigit()
    return name if plain and name.upper() not in RESERVED else quote(name)


def read_catalogue(session: Session) -> Catalogue:
    """What there is now; nothing where it cannot be asked (as after an error in a transaction)."""
    try:
        if session.analyst is not None:
            return Catalogue(_told(session))
        return _owners(session)
    except Exception:
        return Catalogue()


def _told(session: Session) -> tuple[Table, ...]:
    """What an analyst is told: the tables of the policy, and the columns of those with some."""
    found = []
    for name, kind in session.sql("SHOW TABLES").fetchall():
        sql_name = ".".join(map(written, name.split(".")))
        try:
            columns = tuple(session.sql(f"DESCRIBE {sql_name}").fetchall())
        except Exception:  # a view that analysts cannot read is told by name alone
            columns = ()
        found.append(Table(sql_name, kind, columns))
    return tuple(found)


def _owners(session: Session) -> Catalogue:
    tables: dict[str, Table] = {}
    for *scope, name, column, kind, is_view in session.sql(_COLUMNS).fetchall():
        full = ".".join(written(part) for part in (*scope, name) if part)
        known = tables.get(full, Table(full, "view" if is_view else "table", ()))
        tables[full] = Table(full, known.kind, (*known.columns, (column, kind)))
    functions = tuple(name for (name,) in session.sql(_FUNCTIONS).fetchall())
    return Catalogue(tuple(tables.values()), functions)


def schema_text(session: Session, tables: Sequence[Table]) -> str:
    """What the tables are made of: the owner's own statements; under a policy names and types."""
    if session.analyst is not None:
        return "".join(map(_columns_text, tables))
    wanted = {table.last_name for table in tables}
    named = "lower(table_name) IN (SELECT unnest($1))"
    viewed = "lower(view_name) IN (SELECT unnest($1))"
    sql = _SCHEMAS.format(named=named, viewed=viewed)
    rows = session.sql(sql, params=[sorted(wanted)]).fetchall()
    return "".join(f"{text.strip()}\n" for (text,) in rows)


def _columns_text(table: Table) -> str:
    columns = "".join(f"  {written(name)} {kind}\n" for name, kind in table.columns)
    return f"{table.name} ({table.kind})\n{columns}"
