"""The mechanisms as functions of arrow arrays, which is how DuckDB hands over columns of integers.

Redeems tickets at the desk and calls udfs/. Errors of ours are kept aside for the session, because
DuckDB turns every exception of a function into text; others become one constant sentence.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_sql.desk import Desk
from dp_sql.errors import ArgumentError, DpSqlError, InternalError
from dp_sql.plan import Plan


def mechanism_udfs(desk: Desk) -> tuple[Callable[..., Any], ...]:
    """Functions (tickets, connections, queries, values) → answers, one row per release."""
    import pyarrow as pa

    def each(
        column: Any, tickets: Any, connections: Any, queries: Any, run: Callable[..., Any]
    ) -> list[Any]:
        answers = []
        for row in range(len(tickets)):
            ticket = tickets[row].as_py()
            execution = (connections[row].as_py(), queries[row].as_py())
            try:
                answer = partial(run, values=column[row].values)
                answers.append(desk.redeem(ticket, execution, answer))
            except DpSqlError as error:
                desk.keep_failure(ticket, error)
                raise
            except Exception as error:
                failure = InternalError("A mechanism failed; nothing was released.")
                failure.__cause__ = error
                desk.keep_failure(ticket, failure)
                raise InternalError("A mechanism failed; nothing was released.") from None
        return answers

    def topk(tickets: Any, connections: Any, queries: Any, counts: Any) -> Any:
        found = each(counts, tickets, connections, queries, _run_topk)
        return pa.array(found, pa.list_(pa.int64()))

    def count_distinct(tickets: Any, connections: Any, queries: Any, pairs: Any) -> Any:
        found = each(pairs, tickets, connections, queries, _run_count_distinct)
        return pa.array([release.estimate for release, _ in found], pa.int64())

    def report(tickets: Any, connections: Any, queries: Any, pairs: Any) -> Any:
        found = each(pairs, tickets, connections, queries, _run_count_distinct)
        kind = pa.struct(
            [
                ("estimate", pa.int64()),
                ("lower_bound", pa.int64()),
                ("confidence", pa.float64()),
                ("contribution_bound", pa.int32()),
                ("epsilon", pa.float64()),
            ]
        )
        rows = [
            {
                "estimate": release.estimate,
                "lower_bound": release.lower_bound,
                "confidence": float(1 - plan.beta),
                "contribution_bound": release.contribution_bound,
                "epsilon": float(plan.epsilon),
            }
            for release, plan in found
        ]
        return pa.array(rows, kind)

    return topk, count_distinct, report


def _run_topk(plan: Plan, values: Any) -> tuple[list[int], str]:
    """Places of the chosen items, from 1 as DuckDB counts; `values` are int64 counts."""
    k, n_items = plan.k, len(values)
    if k is None:
        raise InternalError("A top-k plan without k.")
    if k > n_items:  # only where the domain is the observed one: the owner calls its size public
        raise ArgumentError(
            f"k = {k} is more than the {n_items} items observed in the source.",
            hint=f"Ask for at most {n_items}, or name a public domain, "
            "whose absent items count zero people.",
        )
    positions = plan.mechanism.run(_integers(values, np.int64), k, plan.epsilon)
    accuracy = plan.mechanism.accuracy(n_items, k, plan.epsilon, plan.beta)
    return [position + 1 for position in positions], accuracy


def _run_count_distinct(plan: Plan, values: Any) -> tuple[tuple[Any, Plan], str]:
    """The release, with its plan; `values` are the people of each item, lists of int32."""
    offsets = _integers(values.offsets, np.int32)
    people = _integers(values.flatten(), np.int32)
    release = plan.mechanism.run(
        offsets - offsets[0], people, plan.epsilon, plan.beta, plan.max_contributions
    )
    accuracy = plan.mechanism.accuracy(plan.max_contributions, plan.epsilon, plan.beta)
    return (release, plan), accuracy


def _integers(array: Any, dtype: type[np.signedinteger[Any]]) -> NDArray[Any]:
    """An arrow array without nulls as numpy, without a copy.

    arrow's own to_numpy does the same, but imports pandas first where that is installed.
    """
    if array.null_count:
        raise InternalError("A NULL where only numbers are expected.")
    values = np.frombuffer(array.buffers()[1] or b"", dtype=dtype)
    return values[array.offset : array.offset + len(array)]
