"""The SQL of a release, and what must be there while it runs: every release is made by it."""

import contextlib
from collections.abc import Callable, Iterator, Sequence

import duckdb

from dp_sql.engines.duckdb.in_pieces import cover_counts
from dp_sql.engines.duckdb.people_in_arrays import people_in_arrays
from dp_sql.engines.duckdb.persons import computed_from
from dp_sql.engines.duckdb.sql_runner import SqlRunner
from dp_sql.privacy.plans.plan import Plan
from dp_sql.privacy.private_sql.release_select import EXECUTION, call_of, merged_sql
from dp_sql.sql.formatting import full_name


@contextlib.contextmanager
def release_sql(
    plans: Sequence[Plan],
    tickets: Sequence[str],
    engine: SqlRunner,
    in_one: Callable[..., str],
    execution: str = EXECUTION,
) -> Iterator[tuple[str, list[str]]]:
    """Yield the SELECT of the release of a bundle of plans, to be run once, and its parameters.

    `in_one` writes the SELECT as private_sql does. Raises DuckDB's errors, or what reading rows
    raises.
    """
    calls = [call_of(ticket, execution) for ticket in tickets]
    if "__dp_cover" not in plans[0].parameters.takes:
        computed_there = computed_from(plans, calls, engine)
        with computed_there as computed, people_in_arrays(plans, engine):
            if computed is None:  # the same text each time
                yield in_one(plans, [f"${n}" for n, _ in enumerate(tickets, 1)]), [*tickets]
            else:
                yield in_one(plans, tickets, computed=computed), []
        return
    (plan,), (ticket,), (call,) = plans, tickets, calls
    counts = cover_counts(plan, call, engine)
    table = full_name(("temp", "main", f"__dp_cover_{ticket}"))
    unnested = "system.main.unnest($1) AS place, system.main.unnest($2) AS n"
    numbered = [[*range(len(counts))], counts]
    engine.run(f"CREATE TEMP TABLE {table} AS SELECT {unnested}", numbered)
    try:
        yield merged_sql(plan, ticket, table, execution=execution), []
    finally:
        with contextlib.suppress(duckdb.Error):  # in a transaction that has failed it is gone
            engine.run(f"DROP TABLE IF EXISTS {table}")
