"""How many rows a release will read, as DuckDB estimates it. It decides how, and nothing else."""

import contextlib
import re
import time
from math import inf

import duckdb

from dp_sql.engines.duckdb.sql_runner import SqlRunner, forget_oldest
from dp_sql.privacy.catalog import Parts
from dp_sql.privacy.plans.plan import Plan
from dp_sql.privacy.private_sql.bundles import read_together
from dp_sql.sql.formatting import full_name, literal

LARGE = 1 << 18  # rows; a source of at least so many is read in pieces
_MINUTE = 60  # seconds
_UNKNOWN = 1 << 63
_MORE_ROWS = re.compile(r"\b(?:JOIN|UNION|unnest)\b")
_CARDINALITY = re.compile(r'"Estimated Cardinality": *"~?(\d+)"')


def n_rows(plan: Plan, engine: SqlRunner) -> int:
    """DuckDB's estimate of the rows of the largest step of a plan.

    The estimate of a source that is below half of LARGE is reused for a minute.
    """
    read = read_together(plan)
    # A small table is asked for once, whatever is read of it, unless that may be more rows.
    if len(read.tables) == 1 and not _MORE_ROWS.search(read.source):
        found = n_rows_of(f"SELECT 1 FROM {full_name(read.tables[0])}", engine, is_table=True)
        if found < LARGE >> 2:
            return found
    columns = ", ".join(read.columns[name].sql for name in ("privacy_unit", "item"))
    return n_rows_of(f"SELECT {columns} FROM {read.source}", engine)


def n_rows_of(select: str, engine: SqlRunner, *, is_table: bool = False) -> int:
    """The same of a SELECT; of a whole table, any number is reused."""
    known, now = engine.state.n_rows, time.monotonic()
    asked, found = known.get(select, (-inf, 0))
    if now - asked < _MINUTE:
        return found
    found = max(_estimates(select, engine))
    if is_table or found < LARGE >> 1:
        known[select] = (now, found)
        forget_oldest(known)
    return found


def are_small(plan: Plan, most: int, engine: SqlRunner) -> bool:
    """Whether a plan reads tables alone, each of fewer rows.

    Without its optimizers, as on an analyst's connection, DuckDB estimates no rows.
    """
    tables = read_together(plan).tables
    return bool(tables) and all(_size(table, engine) < most for table in tables)


def _size(table: Parts, engine: SqlRunner) -> int:
    names = "database_name", "schema_name", "table_name"
    if len(table) != len(names):  # it is a file or a dataframe
        return _UNKNOWN
    is_it = " AND ".join(f"{a} = {literal(b)}" for a, b in zip(names, table, strict=True))
    select = "SELECT estimated_size FROM system.main.duckdb_tables() WHERE"
    return _counted(f"{select} {is_it}", engine)


def has_more(select: str, most: int, engine: SqlRunner) -> bool:
    """Whether a SELECT over public data has more rows."""
    some = f"SELECT 1 FROM ({select}) AS listed LIMIT {most + 1}"
    return _counted(f"SELECT system.main.count(*) FROM ({some}) AS counted", engine) > most


def _counted(select: str, engine: SqlRunner) -> int:
    """The number that a SELECT finds, which is asked once a minute; a large one without any."""
    known, now = engine.state.n_rows, time.monotonic()
    asked, found = known.get(select, (-inf, 0))
    if now - asked < _MINUTE:
        return found
    rows = []
    with contextlib.suppress(duckdb.Error):  # the release will raise it
        rows = engine.run(select).fetchall()
    known[select] = (now, int(rows[0][0]) if rows else _UNKNOWN)
    forget_oldest(known)
    return known[select][1]


def n_members(plan: Plan, engine: SqlRunner) -> int:
    """DuckDB's estimate of how many people are in groups, counting them in each."""
    read = read_together(plan)
    columns = ", ".join(column.sql for column in (read.columns["privacy_unit"], *read.keys))
    return _estimates(f"SELECT {columns} FROM {read.source} GROUP BY ALL", engine)[-1]


def _estimates(select: str, engine: SqlRunner) -> list[int]:
    """DuckDB's estimates of the rows of each step of a SELECT, the last step last."""
    explained = ""
    with contextlib.suppress(duckdb.Error):  # the release will raise it
        # A setting adds the plans before the last one.
        *_, (_, explained) = engine.run(f"EXPLAIN (FORMAT json) {select}").fetchall()
    return [*map(int, _CARDINALITY.findall(explained))] or [0]
