"""How many rows a release will read, as DuckDB estimates it. It decides how, and nothing else."""

import contextlib
import re
import time
from collections.abc import Sequence
from math import inf

import duckdb

from dp_sql.engines.duckdb.sql_runner import SqlRunner
from dp_sql.privacy.plans.plan import Plan
from dp_sql.privacy.private_sql.bundles import read_together
from dp_sql.sql.formatting import full_name

LARGE = 1 << 18  # rows; a source of at least so many is read in pieces
_MINUTE = 60  # seconds
_MORE_ROWS = re.compile(r"\b(?:JOIN|UNION|unnest)\b")
_CARDINALITY = re.compile(r'"Estimated Cardinality": *"~?(\d+)"')


def n_rows(plan: Plan, engine: SqlRunner) -> int:
    """DuckDB's estimate of the rows of the largest step of a plan."""
    read = read_together(plan)
    # A small table is asked for once, whatever is read of it, unless that may be more rows.
    own = [one.table for one in read.people]  # and no list that IN reads
    if [*read.tables] == own and len(own) == 1 and not _MORE_ROWS.search(read.source):
        found = n_rows_of(f"SELECT 1 FROM {full_name(read.tables[0])}", engine)
        if found < LARGE >> 2:
            return found
    columns = ", ".join(read.columns[name].sql for name in ("privacy_unit", "item"))
    return n_rows_of(f"SELECT {columns} FROM {read.source}", engine)


def is_large(plan: Plan, engine: SqlRunner) -> bool:
    """Whether a plan may read as many rows as LARGE: any number may come of a list or a join."""
    read = read_together(plan)
    multiplies = read.work is not None and read.work.joined_rows_per_person is not None
    return multiplies or "unnest(" in read.source or n_rows(plan, engine) >= LARGE


def n_rows_of(select: str, engine: SqlRunner) -> int:
    """DuckDB's estimate of the rows of the largest step of a SELECT."""
    return max(_estimates(select, engine))


def n_members(plan: Plan, engine: SqlRunner) -> int:
    """DuckDB's estimate of how many people are in groups, counting them in each."""
    read = read_together(plan)
    columns = ", ".join(column.sql for column in (read.columns["privacy_unit"], *read.keys))
    return _estimates(f"SELECT {columns} FROM {read.source} GROUP BY ALL", engine)[-1]


def _estimates(select: str, engine: SqlRunner) -> Sequence[int]:
    """DuckDB's estimates of the rows of each step of a SELECT, the last step last; once a minute.

    Without its optimizers, as on an analyst's connection, DuckDB has them only below a step like a
    window, and takes all rows of tables and files to be in each step.
    """
    known, now = engine.state.n_rows, time.monotonic()
    asked, found = known.get(select, (-inf, ()))
    if now - asked < _MINUTE:
        return found
    explained = ""
    numbered = f"SELECT system.main.row_number() OVER () FROM ({select}) AS counted"
    with contextlib.suppress(duckdb.Error):  # the release will raise it
        # A setting adds the plans before the last one.
        *_, (_, explained) = engine.run(f"EXPLAIN (FORMAT json) {numbered}").fetchall()
    found = [*filter(None, map(int, _CARDINALITY.findall(explained)))] or [0]
    known[select] = (now, found)
    return found
