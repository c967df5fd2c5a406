"""How DuckDB connections are opened, restricted and closed."""

import contextlib
import os

import duckdb

from dp_sql.engines.duckdb.sql_runner import Connection
from dp_sql.errors import NotSupported

# What other connections of the process to the same file could change: DuckDB's own defaults. With
# others for parquet files, values could not be read that could when the session opened; older
# pyarrows read no decimals of arrow 1.5; a limit on time, which DuckDB 1 has not, fails a query by
# its rows; with casts or depth refused, it fails after its cost is spent.
_DEFAULTS = (
    "default_collation = ''", "default_null_order = 'nulls_last'", "default_order = 'asc'",
    "integer_division = false", "old_implicit_casting = false", "ieee_floating_point_ops = true",
    "Calendar = 'gregorian'", "binary_as_string = false", "enable_geoparquet_conversion = true",
    "arrow_output_version = '1.0'", "disable_timestamptz_casts = false",
    "max_expression_depth = 1000",
    *([] if duckdb.__version__.startswith("1.") else ["max_execution_time = 0"]),
)  # fmt: skip

NO_FILES = "SET enable_external_access = false"  # except what DuckDB spills; limits are set before


def open_database(database: str, read_only: bool) -> Connection:
    """Connect to a database file, or to a folder, whose parquet files are its tables."""
    if not os.path.isdir(database):
        try:
            return duckdb.connect(database, read_only=read_only)
        except duckdb.ConnectionException as error:
            if "different configuration" not in str(error):
                raise
            way_out = "Close that connection, or open both with read_only=True."
            raise duckdb.ConnectionException(f"{error}. {way_out}") from None
        except duckdb.CatalogException:  # DuckDB opens such a file as a view in memory
            if not os.path.isfile(database):
                raise
            hint = "Name its folder: the parquet files in it are tables."
            raise NotSupported(f"{database} is not a database.", hint=hint) from None
    from dp_sql.engines.duckdb.parquet_files import folder_views

    views = folder_views(database)
    connection = duckdb.connect(":memory:")
    for view in views:
        connection.execute(view)
    return connection


def close(connection: Connection) -> None:
    """Close a connection, and with it what Ctrl-C has interrupted.

    DuckDB 1.5 ends a relation's query that Ctrl-C interrupts when the connection runs the next one.
    Until then the database stays open, and whoever opens it again waits forever.
    """
    if duckdb.__version__.startswith("1."):
        with contextlib.suppress(duckdb.Error):
            connection.execute("SELECT 1")
    connection.close()


def restrict(connection: Connection, *more: str) -> None:
    """Settings of every connection that serves analysts: no Python variables, no extensions.

    The progress bar would show how much data there is.
    """
    with contextlib.suppress(duckdb.InvalidInputException):  # a notebook without widgets for it
        connection.execute("SET enable_progress_bar = false")
    off = (
        "python_enable_replacements", "autoinstall_known_extensions", "autoload_known_extensions",
        "allow_community_extensions",
    )  # fmt: skip
    own = [f"SET SESSION {setting}" for setting in _DEFAULTS]
    for setting in (*(f"SET {name} = false" for name in off), "SET TimeZone = 'UTC'", *own, *more):
        connection.execute(setting)
