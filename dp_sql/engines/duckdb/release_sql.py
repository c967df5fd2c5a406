"""The SQL of a release, and what must be there while it runs: every release is made by it."""

import contextlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from dp_sql.engines.duckdb import many_rows, row_estimate
from dp_sql.engines.duckdb.mechanism_udfs import answers_of, arrow_values, found_groups
from dp_sql.engines.duckdb.sql_runner import SqlRunner, in_bytes
from dp_sql.privacy.plans.plan import Plan
from dp_sql.privacy.private_sql.release_select import (
    EXECUTION,
    Answers,
    drawn_sql,
    private_sql,
    release_of,
)
from dp_sql.sql.formatting import full_name
from dp_sql.sql.types import INTEGERS

# Whether a constraint makes the values of a column unique.
_IS_UNIQUE = """SELECT 1 FROM system.main.duckdb_constraints()
    WHERE database_name = $1 AND schema_name = $2 AND table_name = $3
        AND constraint_column_names = system.main.list_value($4)
        AND constraint_type IN ('PRIMARY KEY', 'UNIQUE')"""
_BITS, _MOST_BITS = "perfect_ht_threshold", 32  # DuckDB takes no more


@contextlib.contextmanager
def release_sql(
    plans: Sequence[Plan],
    tickets: Sequence[str],
    engine: SqlRunner,
    execution: tuple[int, int] | None = None,
) -> Iterator[tuple[str, list[str]]]:
    """Yield the SELECT of the release of a bundle of plans, to be run once, and its parameters.

    `execution`: for which connection and query the release is made, if not for this one. Raises
    what a mechanism refused, DuckDB's errors, or what reading rows raises.
    """
    asking = EXECUTION if execution is None else "{}, {}".format(*execution)
    releases = [release_of(ticket, asking) for ticket in tickets]
    plans = [_constrained(plan, engine) for plan in plans]

    made_for = execution or (engine.state.number, 0)

    def answered(place: int, lists: Sequence[Any]) -> Any:
        shape = plans[place].parameters
        answers = answers_of(engine.tickets, tickets[place], made_for, lists)
        return arrow_values(answers, shape.udfs[shape.udf])

    with contextlib.ExitStack() as registered:
        finds = partial(found_groups, engine.tickets, tickets[0], made_for)
        tables = many_rows.ComputedTables(engine, answered, finds, registered)
        if "__dp_cover" in plans[0].parameters.takes:
            from dp_sql.engines.duckdb.in_pieces import cover_counts

            counts = cover_counts(plans[0], releases[0], engine)
            answers: Answers | None = Answers(tables.drawn([[[counts]]], 1), "", "")
        else:
            answers = many_rows.answers_from_rows(plans, releases, tables)
        if answers is not None:
            yield drawn_sql(plans, answers), []
            return
    places = [f"${n}" for n, _ in enumerate(tickets, 1)]  # the same text each time
    with people_in_arrays(plans, engine):
        yield private_sql(plans, places, execution=asking), [*tickets]


def _constrained(plan: Plan, engine: SqlRunner) -> Plan:
    """The plan without DISTINCT over a large public column, if a constraint does the same.

    If the owner replaces the table right now by one without the constraint, an item may be listed
    twice. That is still private: a person still adds at most 1 to each count.
    """
    domain = plan.domain
    if domain is None or not domain.column:
        return plan
    *table, _ = domain.column
    n_rows = row_estimate.n_rows_of(f"SELECT 1 FROM {full_name(table)}", engine)
    if n_rows < many_rows.LEAST or not engine.run_again(_IS_UNIQUE, domain.column).fetchall():
        return plan
    return plan._replace(domain=domain._replace(select=domain.select_unique))


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
    if n_rows < many_rows.LEAST:
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
    with engine.undoing(f"SET SESSION {_BITS} = {before}"):
        engine.run(f"SET SESSION {_BITS} = {bits}")
        yield
