"""Releases over rows in Spark: the jobs run there, and the driver draws once."""

from collections.abc import Callable, Sequence
from typing import Any

import duckdb

from dp_sql.engines.by_parts import ByParts
from dp_sql.engines.duckdb.frozen import Records, exactly
from dp_sql.engines.duckdb.introspection import CATALOG_LOCK
from dp_sql.engines.duckdb.sql_runner import Connection
from dp_sql.engines.spark.jobs import SparkJobs
from dp_sql.engines.spark.people import check_people
from dp_sql.engines.spark.progress import Progress
from dp_sql.engines.spark.spark_catalog import SparkCatalog, SparkTable, condition_of
from dp_sql.errors import DpSqlError, SourceError
from dp_sql.privacy.catalog import Parts
from dp_sql.privacy.plans.plan import Plan
from dp_sql.privacy.private_sql.bundles import bundled
from dp_sql.privacy.private_sql.release_select import private_sql, release_columns


def open_memory() -> Connection:
    """The driver's own DuckDB, with tables called as Spark's: those of people stay empty there."""
    with CATALOG_LOCK:
        return duckdb.connect(":memory:")


class Releases:
    """The releases of one session, one at a time.

    table: what a name in a plan means. is_owner: whether how far a job is may be seen.
    """

    def __init__(
        self, catalog: SparkCatalog, table: Callable[[Parts], SparkTable], *, is_owner: bool
    ) -> None:
        self._catalog, self._table, self._is_owner = catalog, table, is_owner
        self._jobs: SparkJobs | None = None

    def check(self, plans: Sequence[Plan]) -> None:
        """Refuse, before anything is spent, what cannot be asked of Spark."""
        for people in {plan.people for plan in plans if plan.people}:
            check_people(people, self._read)

    def made(
        self, connection: Connection, plans: Sequence[Plan], tickets: Sequence[str]
    ) -> list[Records]:
        """Release each plan once: its rows. The connection has all public rows that they read."""
        jobs = self._jobs = SparkJobs(self._catalog.spark, self._read)
        jobs.progress = Progress(self._catalog.spark) if self._is_owner else None
        try:
            return _made(jobs, connection, plans, tickets)
        except BaseException as error:
            jobs.cancel()
            if not _is_interrupt(error):
                raise
        finally:
            self._jobs = None
            jobs.close()
        raise KeyboardInterrupt  # outside the handler, so that Spark's error is not its context

    def interrupt(self) -> None:
        """Stop what is running, from another thread."""
        if (jobs := self._jobs) is not None:
            jobs.cancel()

    def _read(self, parts: Parts) -> tuple[Any, Sequence[tuple[str, str]]]:
        table = self._table(parts)
        return self._catalog.read(table), table.columns


def _made(
    jobs: SparkJobs, connection: Connection, plans: Sequence[Plan], tickets: Sequence[str]
) -> list[Records]:
    answers: list[Records] = [()] * len(plans)
    for places, some, theirs in bundled(plans, tickets):
        if not some[0].parameters.reads_people:
            sql = exactly(release_columns(*some), private_sql(some, theirs))
            answers[places[0]] = connection.execute(sql).fetchall()
            continue
        with ByParts(jobs, connection).released(some, theirs) as selects:
            for i, sql in zip(places, selects, strict=True):
                exact = exactly(release_columns(plans[i]), sql)
                answers[i] = connection.execute(exact).fetchall()
    return answers


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether Ctrl-C was pressed; pyspark's error of the job that it cancelled may replace it."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def told(error: Exception) -> Exception:
    """Spark's error as dp_sql's: its message may hold a value, and its name does not."""
    if isinstance(error, DpSqlError | duckdb.Error):
        return error
    condition, hint = condition_of(error), "Spark's log shows why."
    if condition in {"PYTHON_EXCEPTION", "PythonException"}:  # the latter with Spark Connect
        hint += " Its workers' Python (PYSPARK_PYTHON) needs duckdb, numpy and pyarrow."
    return SourceError(f"Spark could not compute the source ({condition}).", hint=hint)
