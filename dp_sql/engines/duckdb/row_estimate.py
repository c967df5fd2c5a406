"""How many rows a release will read, as DuckDB estimates it. It decides how, and nothing else."""

import contextlib
import re
import time
from math import inf

import duckdb

from dp_sql.engines.duckdb.sql_runner import SqlRunner, forget_oldest
from dp_sql.privacy.plans.plan import Plan
from dp_sql.privacy.private_sql.bundles import read_together

LARGE = 1 << 18  # rows; a source of at least so many is read in pieces
_MINUTE = 60  # seconds
_CARDINALITY = re.compile(r'"Estimated Cardinality": *"~?(\d+)"')


def n_rows(plan: Plan, engine: SqlRunner) -> int:
    """DuckDB's estimate of the rows of the largest step of a plan.

    The estimate of a source that is below half of LARGE is reused for a minute.
    """
    known, now = engine.state.n_rows, time.monotonic()
    read = read_together(plan)
    columns = ", ".join(read.columns[name].sql for name in ("privacy_unit", "item"))
    select = f"SELECT {columns} FROM {read.source}"
    asked, found = known.get(select, (-inf, 0))
    if now - asked < _MINUTE:
        return found
    explained = "0"
    with contextlib.suppress(duckdb.Error):  # the release will raise it
        ((_, explained),) = engine.run(f"EXPLAIN (FORMAT json) {select}").fetchall()
    found = max(map(int, _CARDINALITY.findall(explained)), default=0)
    if found < LARGE >> 1:
        known[select] = (now, found)
        forget_oldest(known)
    return found
