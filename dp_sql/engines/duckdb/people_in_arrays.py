"""Lets DuckDB group people in arrays while a release runs, by a setting of DuckDB."""

import contextlib
from collections.abc import Iterator, Sequence

import duckdb

from dp_sql.engines.duckdb import persons, row_estimate
from dp_sql.engines.duckdb.sql_runner import SqlRunner, in_bytes
from dp_sql.privacy.plans.plan import Plan
from dp_sql.sql.types import INTEGERS

_BITS, _MOST_BITS = "perfect_ht_threshold", 32  # DuckDB takes no more


@contextlib.contextmanager
def people_in_arrays(plans: Sequence[Plan], engine: SqlRunner) -> Iterator[None]:
    """Let DuckDB group people by their numbers as places in an array, if it has fewer than rows.

    DuckDB knows between which numbers a column's values are; by itself, it does this for 12 bits.
    Each thread has an array, which DuckDB does not count as memory. With 64 bytes of a place for
    each call, all take at most a 16th of the memory limit.
    """
    plan, n_rows = plans[0], 0
    if plan.parameters.reads_people and plan.columns["privacy_unit"].type in INTEGERS:
        n_rows = row_estimate.n_rows(plan, engine)
    if n_rows < persons.LEAST:
        yield
        return
    threads, limit, before, is_locked = engine.settings(
        "threads", "memory_limit", _BITS, "lock_configuration"
    )
    places = min(n_rows, (in_bytes(limit) or 0) // (16 * 64 * len(plans) * threads))
    bits = min(places.bit_length() - 1, _MOST_BITS)
    if is_locked or bits <= before:
        yield
        return
    engine.run(f"SET SESSION {_BITS} = {bits}")
    try:
        yield
    finally:
        with contextlib.suppress(duckdb.Error):  # in a transaction that has failed
            engine.run(f"SET SESSION {_BITS} = {before}")
