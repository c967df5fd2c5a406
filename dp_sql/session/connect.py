"""How a program gets differential privacy: `connect` opens a session, `install` extends DuckDB."""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, overload

from dp_sql.engines.duckdb.install import instance_of, register
from dp_sql.engines.duckdb.macros import create_macros
from dp_sql.engines.duckdb.opening import open_database
from dp_sql.engines.duckdb.sql_runner import Connection
from dp_sql.errors import PolicyError
from dp_sql.releases import Receipt
from dp_sql.session.base import Session
from dp_sql.session.owner import OWNER, OwnerSession

if TYPE_CHECKING:  # imported where they are needed: an owner's first answer waits for all imports
    from dp_sql.engines.spark.spark_catalog import Spark
    from dp_sql.session.analyst import AnalystSession
    from dp_sql.session.spark_owner import SparkOwnerSession

StrPath = str | PathLike[str]


@overload
def connect(
    database: str = ..., *, read_only: bool = ..., policy: None = ..., ledger: StrPath | None = ...
) -> OwnerSession: ...
@overload
def connect(
    database: str = ..., *, read_only: bool = ..., policy: StrPath, analyst: str | None = ...
) -> AnalystSession: ...
@overload
def connect(
    database: Spark, *, policy: None = ..., ledger: StrPath | None = ...
) -> SparkOwnerSession: ...
@overload
def connect(database: Spark, *, policy: StrPath, analyst: str | None = ...) -> AnalystSession: ...
def connect(
    database: str | Spark = ":memory:",
    *,
    read_only: bool = False,
    policy: StrPath | None = None,
    analyst: str | None = None,
    ledger: StrPath | None = None,
) -> Session:
    """Open a database, as its owner or, with a policy, as an analyst.

    Args:
        database: path of a DuckDB file, ":memory:", or a folder, whose parquet files are tables; or
            a SparkSession, classic or Connect (docs/spark.md).
        read_only: open the file read-only; under a policy it always is.
        policy: path of the owner's policy (docs/policy.md). The session then answers one SELECT
            at a time, and no private row can be reached from it.
        analyst: who asks, under a policy; the ledger records this name. By default "analyst".
        ledger: without a policy, path of a ledger that records every release of this session
            before it is drawn, and refuses none. A policy names its own, with its budget.

    Returns a session, for one thread at a time. It is closed at the end of a `with`, or by close().

    Raises:
        PolicyError: the policy cannot be read, or does not fit the database.
        LedgerError: the ledger cannot be trusted or written.
        TypeError: the database is neither a path nor a SparkSession.
    """
    if policy is None:
        if analyst is not None:
            raise PolicyError("An analyst needs a policy: connect(…, policy=…, analyst=…).")
        opened = None
        if ledger is not None:
            from dp_sql.budget.checkpoint import default_checkpoint
            from dp_sql.budget.ledger import Ledger

            path = Path(fspath(ledger))
            opened = Ledger(path, default_checkpoint(path))
        if isinstance(place := _place(database), str):
            connection = open_database(place, read_only)
            return OwnerSession(connection, opened, is_new=place == ":memory:")
        from dp_sql.session.spark_owner import SparkOwnerSession

        return SparkOwnerSession(place, opened)
    if ledger is not None:
        raise PolicyError("A policy names its ledger itself: [budget] ledger = …")
    from dp_sql.budget.model import name_of

    name = name_of("analyst" if analyst is None else analyst)
    if name is None:
        raise PolicyError(
            "An analyst needs a name without control characters, for example 'reporting'."
        )
    from dp_sql.policy.model import read_policy
    from dp_sql.session.analyst import AnalystSession

    return AnalystSession(_place(database), read_policy(fspath(policy)), name)


def _place(database: object) -> str | Spark:
    """What to open: Spark as it is, or the path of a database."""
    if isinstance(database, str | PathLike):
        return fspath(database)
    if isinstance(database, Connection):
        raise TypeError(
            "connect() takes a path; for a connection write dp_sql.install(connection)."
        )
    from dp_sql.engines.spark.spark_catalog import Spark

    if isinstance(database, Spark):
        return database
    raise TypeError(f"connect() takes a path or a SparkSession, not {type(database).__name__}.")


def install(con: Connection) -> Connection:
    """Make DP calls work in a DuckDB connection and its cursors: `con.sql("SELECT DP_TOPK(…) …")`.

    Registers functions in the database instance, and creates the table macro `dp` and a macro for
    each SQL function in its default schema (temporary ones if the database is read-only). Each
    execution of a query or relation is a release of its own; within one execution each call is
    released once. `FROM dp($$ SELECT DP_… $$, params := row(…))` takes parameters, and statements
    that a plain DP call cannot be part of, such as GROUP BY (docs/sessions.md).

    Returns the connection; keep it open while its cursors use the macros. Raises DpSqlError if the
    database has another macro `dp`.
    """
    register(con, OWNER)
    create_macros(con, everywhere=True)
    return con


def receipts(con: Connection) -> tuple[Receipt, ...]:
    """The receipts of all releases in the database instance of an installed connection."""
    instance = instance_of(con)
    return () if instance is None else instance.tickets.receipts()
