"""What clients send by themselves: the queries of ATTACH, and where transactions begin and end.

An analyst changes nothing, so transactions have no effect here; ROLLBACK refunds nothing.
"""

from typing import Any

from dp_sql.errors import DpSqlError
from dp_sql.session.base import Session
from dp_sql.session.describe import values_sql
from dp_sql.sql.formatting import quote
from dp_sql.sql.tokens import name_parts

# What ATTACH of DuckDB 1.5 asks: the schemas, then the tables as the statements that make them.
SCHEMATA = (
    "SELECT catalog_name, schema_name FROM information_schema.schemata "
    "WHERE catalog_name NOT IN ('system', 'temp') ORDER BY ALL"
)
TABLES = (
    "SELECT schema_name, sql, 'table' FROM duckdb_tables() "
    "UNION ALL SELECT schema_name, view_name, 'view' FROM duckdb_views()"
)
NO_ROWS = 'SELECT true AS "Success" WHERE false'  # as DuckDB answers BEGIN
_BOUNDS = frozenset({"ABORT", "BEGIN", "COMMIT", "END", "ROLLBACK", "START"})
_LONGEST = 100  # characters


def is_of_transaction(text: str) -> bool:
    """Whether a statement begins or ends a transaction and does nothing else."""
    first, *rest = text[:_LONGEST].upper().strip().removesuffix(";").split() or [""]
    known = first in _BOUNDS and rest in ([], ["TRANSACTION"], ["WORK"])
    return known and len(text) <= _LONGEST


def attached_catalog(session: Session, text: str) -> Any:
    """What ATTACH asks, answered from SHOW TABLES and DESCRIBE; None for another text."""
    words = " ".join(text.split())
    if words not in (SCHEMATA, TABLES):
        return None
    names = session.sql("SHOW TABLES").project("name").fetchall()
    tables = [made for (name,) in names if (made := _table(session, name)) is not None]
    if words == SCHEMATA:
        rows = sorted({("dp_sql", schema) for schema, *_ in [("main",), *tables]})
        return session.sql(values_sql(("catalog_name", "schema_name"), rows))
    return session.sql(values_sql(("schema_name", "sql", "kind"), tables))


def _table(session: Session, name: str) -> tuple[str, str, str] | None:
    """The schema of a table, and the statement that would make one of its shape."""
    parts = name_parts(name) or (name,)
    quoted = [quote(part) for part in parts]
    try:
        columns = session.sql(f"DESCRIBE {'.'.join(quoted)}").fetchall()
    except DpSqlError:  # a view whose columns are not shown
        return None
    schema = parts[-2] if len(parts) > 1 else "main"
    listed = ", ".join(f"{quote(column)} {kind}" for column, kind in columns)
    return schema, f"CREATE TABLE {quote(schema)}.{quoted[-1]}({listed});", "table"
