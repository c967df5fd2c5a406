"""Queries that ask only for their columns: behind DESCRIBE, or with LIMIT 0 or WHERE FALSE.

Programs send these before a query, to learn its columns. DuckDB binds them over tables without
rows, which have the columns that the policy exposes; so they read no row and cost nothing.
"""

from __future__ import annotations

from contextlib import closing

import duckdb

from dp_sql.engines.duckdb.connection import columns_of
from dp_sql.engines.duckdb.introspection import CATALOG_LOCK
from dp_sql.engines.duckdb.public_connection import PublicConnection
from dp_sql.engines.duckdb.tables import make_table
from dp_sql.errors import QueryError
from dp_sql.policy.model import Policy
from dp_sql.privacy.catalog import Columns, Schema
from dp_sql.session.describe import described
from dp_sql.sql.formatting import quote
from dp_sql.sql.only_reads import only_reads
from dp_sql.sql.statement import Statement
from dp_sql.sql.tokens import folded

_MEMORY = "100MB"


def no_rows_sql(columns: Columns) -> str:
    """A SELECT with these columns, and without rows."""
    listed = ", ".join(f"CAST(NULL AS {kind}) AS {quote(name)}" for name, kind in columns)
    return f"SELECT {listed} WHERE false"


def columns_without_rows(
    statement: Statement, params: object, policy: Policy, side: Schema, public: PublicConnection
) -> Columns | None:
    """The columns of such a query of people's rows; None for others, or with DP calls."""
    if not (statement.is_described or statement.has_no_rows) or statement.selects:
        return None
    words = statement.tokens.folded
    private = [name for name in (*policy.tables, *policy.views) if folded(name[-1]) in words]
    if not private:
        return None
    with CATALOG_LOCK:
        connection = PublicConnection(_MEMORY, 1, public.here)
    with closing(connection):
        try:
            for name in (*private, *(one for one in policy.public if folded(one[-1]) in words)):
                full = side.table(name) or (*public.here[: 3 - len(name)], *name)
                make_table(connection.connection, full, described(name, policy, side))
            text = statement.text[slice(*statement.span)]
            connection.only_select(text)
            only_reads(statement, connection, connection.read_by(text))
            return columns_of(connection.relate(text, params))
        except (QueryError, duckdb.Error):
            return None
