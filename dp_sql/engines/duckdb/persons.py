"""People's values, computed in memory from rows that DuckDB sends, in place of its GROUP BY.

This is for sources of a middle size: fewer rows take DuckDB no longer, and for more rows it needs
less memory. The size of a source affects how long an answer takes, and nothing else.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from dp_sql.engines.duckdb import row_estimate
from dp_sql.engines.duckdb.arrow_rows import batches, comparable_in_arrow
from dp_sql.engines.duckdb.settings import in_bytes, settings
from dp_sql.engines.duckdb.sql_runner import SqlRunner
from dp_sql.errors import SourceError
from dp_sql.privacy.plans.plan import Plan
from dp_sql.privacy.private_sql.rows_read import RowsRead, rows_read
from dp_sql.sql.formatting import full_name

LEAST, MOST = 1 << 16, 1 << 24  # rows
BYTES = 1 << 8  # of DuckDB's memory limit, for each row; less is used


class _TooMany(Exception):
    """There are more rows than are kept in memory."""


@contextlib.contextmanager
def computed_from(
    plans: Sequence[Plan], calls: Sequence[str], engine: SqlRunner
) -> Iterator[dict[int | None, str] | None]:
    """Yield relations of people's values, by the cap on groups; None: DuckDB is to compute them.

    `calls` are the first arguments of the plans' UDFs.

    Raises DuckDB's errors, or a SourceError.
    """
    tables = read = None
    if plans[0].parameters.reads_people:
        read = rows_read(plans, calls, comparable_in_arrow)
    if read is not None and _fits_memory(plans[0], engine):
        try:
            tables = _read(read, engine)
        except _TooMany:
            pass
        except (OSError, MemoryError, RuntimeError, ValueError) as error:
            message = f"The source cannot be counted ({type(error).__name__})."
            raise SourceError(message) from None
    if read is None or tables is None:
        yield None
        return
    with contextlib.ExitStack() as registered:
        computed = {}
        for kept, table in zip(read.kept, tables, strict=True):
            columns = ", ".join(["__dp_group", "__dp_privacy_unit", *kept.values])
            name = _registered(table, engine, registered)
            computed[kept.cap] = f"(SELECT {columns} FROM {name}) AS __dp_computed"
        yield computed


def _fits_memory(plan: Plan, engine: SqlRunner) -> bool:
    """Whether a source has, by DuckDB's estimate, neither too few rows nor too many."""
    if not LEAST <= (n_rows := row_estimate.n_rows(plan, engine)) <= MOST:
        return False
    (limit,) = settings(engine, "memory_limit")
    return n_rows * BYTES <= (in_bytes(limit) or 0)


def _registered(table: Any, engine: SqlRunner, until: contextlib.ExitStack) -> str:
    """The full name of an arrow table in DuckDB."""
    name = f"__dp_computed_{id(table)}"
    engine.connection.register(name, table)
    until.callback(_forget, name, engine)
    return full_name(("temp", "main", name))


def _forget(name: str, engine: SqlRunner) -> None:
    with contextlib.suppress(Exception):  # in a transaction that has failed it is gone
        engine.connection.unregister(name)


def _read(read: RowsRead, engine: SqlRunner) -> list[Any]:
    """Read all rows, and compute: for each cap an arrow table of persons."""
    from concurrent.futures import Future, ThreadPoolExecutor

    from dp_sql.engines.duckdb.rows_in_memory import Rows

    before, rows = engine.state.interrupts.n, Rows(read)
    if read.groups:
        for piece in batches(engine.relate(read.groups)):
            rows.add_groups(piece.columns)
    pieces = engine.state.interrupts.ending(batches(engine.relate(read.sql)), before)
    with contextlib.closing(pieces), ThreadPoolExecutor(1) as other:
        last: Future[None] = other.submit(lambda: None)
        for piece in pieces:
            if rows.n_rows + len(piece) > MOST:
                raise _TooMany
            last.result()
            last = other.submit(rows.add, piece)
        last.result()
        return [rows.table(kept, other) for kept in read.kept]
