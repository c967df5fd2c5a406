"""The mechanisms as functions of arrow arrays, which is how DuckDB hands over columns of integers.

Redeems tickets and calls udfs/. Errors of ours are kept aside for the session, because
DuckDB turns every exception of a function into text; others become one constant sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_sql.engines.duckdb.tickets import Drawn, Tickets
from dp_sql.errors import ArgumentError, DpSqlError, InternalError
from dp_sql.privacy.plan import Plan
from dp_sql.sql.types import BINARY_TYPES, family
from dp_sql.udfs.exact_sampling import secret_draws


def mechanism_udfs(issued: Tickets) -> tuple[Callable[..., Any], ...]:
    """Functions (tickets, connections, queries, values, …) → answers, one row per release."""
    import pyarrow as pa

    def each(
        run: Callable[..., Drawn[Any]], tickets: Any, connections: Any, queries: Any, *columns: Any
    ) -> list[Any]:
        answers = []
        for row in range(len(tickets)):
            ticket = tickets[row].as_py()
            execution = (connections[row].as_py(), queries[row].as_py())
            try:
                values = [column[row].values for column in columns]
                answers.append(issued.redeem(ticket, execution, lambda plan: run(plan, *values)))  # noqa: B023
            except DpSqlError as error:
                issued.record_error(ticket, error)
                raise
            except Exception as error:
                failure = InternalError("A mechanism failed; nothing was released.")
                failure.__cause__ = error
                issued.record_error(ticket, failure)
                raise InternalError("A mechanism failed; nothing was released.") from None
        return answers

    def topk(tickets: Any, connections: Any, queries: Any, counts: Any) -> Any:
        found = each(_run_topk, tickets, connections, queries, counts)
        return _arrow_lists(found)

    def select(
        tickets: Any, connections: Any, queries: Any, scores: Any, sensitivities: Any, n: Any
    ) -> Any:
        found = each(_run_select, tickets, connections, queries, scores, sensitivities, n)
        return _arrow_lists(found)

    def count_distinct(tickets: Any, connections: Any, queries: Any, pairs: Any) -> Any:
        found = each(_run_count_distinct, tickets, connections, queries, pairs)
        return _arrow_ints([release.estimate for release, _ in found])

    def report(tickets: Any, connections: Any, queries: Any, pairs: Any) -> Any:
        found = each(_run_count_distinct, tickets, connections, queries, pairs)
        return pa.array([_reported(release, plan) for release, plan in found], _report_type())

    def topk_groups(tickets: Any, connections: Any, queries: Any, counts: Any) -> Any:
        found = each(_run_groups(_run_topk), tickets, connections, queries, counts)
        lists = _arrow_lists([one for groups in found for one in groups])
        return _arrow_cut(lists, [len(groups) for groups in found])

    def count_groups(tickets: Any, connections: Any, queries: Any, pairs: Any) -> Any:
        found = each(_run_groups(_run_count_distinct), tickets, connections, queries, pairs)
        return _arrow_lists([[release.estimate for release, _ in groups] for groups in found])

    def report_groups(tickets: Any, connections: Any, queries: Any, pairs: Any) -> Any:
        found = each(_run_groups(_run_count_distinct), tickets, connections, queries, pairs)
        rows = [[_reported(release, plan) for release, plan in groups] for groups in found]
        return pa.array(rows, pa.list_(_report_type()))

    return topk, count_distinct, report, select, topk_groups, count_groups, report_groups


# pyarrow's own way from Python lists would import pandas first, which takes a third of a second.


def _arrow_ints(values: Sequence[int], kind: str = "int64") -> Any:
    """An arrow array of integers, without NULLs."""
    import pyarrow as pa

    data = pa.py_buffer(np.array(values, dtype=kind).tobytes())
    return pa.Array.from_buffers(getattr(pa, kind)(), len(values), [None, data])


def _arrow_cut(inside: Any, lengths: Sequence[int]) -> Any:
    """An arrow array cut into lists of these lengths."""
    import pyarrow as pa

    ends = list(accumulate(lengths, initial=0))
    return pa.ListArray.from_arrays(_arrow_ints(ends, "int32"), inside)


def _arrow_lists(lists: Sequence[Sequence[int]]) -> Any:
    """An arrow array of lists of integers."""
    flat = _arrow_ints([value for one in lists for value in one])
    return _arrow_cut(flat, [len(one) for one in lists])


def _report_type() -> Any:
    import pyarrow as pa

    return pa.struct(
        [
            ("estimate", pa.int64()),
            ("lower_bound", pa.int64()),
            ("confidence", pa.float64()),
            ("contribution_bound", pa.int32()),
            ("epsilon", pa.float64()),
        ]
    )


def _reported(release: Any, plan: Plan) -> dict[str, object]:
    """The struct of `report := true`."""
    return {
        "estimate": release.estimate,
        "lower_bound": release.lower_bound,
        "confidence": float(1 - plan.beta),
        "contribution_bound": release.contribution_bound,
        "epsilon": float(plan.loss.epsilon),
    }


def keep_udf(issued: Tickets) -> Callable[..., Any]:
    """Of each person's groups some at random: sizes → the places kept, from 1.

    Draws no release: which of their own groups people are kept in depends on nothing but chance.
    """
    import pyarrow as pa

    def keep(tickets: Any, connections: Any, queries: Any, sizes: Any, caps: Any) -> Any:
        answers = []
        for row in range(len(sizes)):
            execution = (connections[row].as_py(), queries[row].as_py())
            each, cap = _integers(sizes[row].values, np.int64), caps[row].as_py()
            ticket = tickets[row].as_py()
            answers.append(issued.groups_once(ticket, execution, lambda: _lots(each, cap)))  # noqa: B023
        return pa.array(answers, pa.list_(pa.list_(pa.int64())))

    return keep


def _lots(sizes: NDArray[Any], cap: int) -> list[NDArray[Any]]:
    ranks, ends = secret_draws().orders(sizes), np.cumsum(sizes)
    return [
        np.flatnonzero(ranks[end - size : end] < cap) + 1
        for size, end in zip(sizes.tolist(), ends.tolist(), strict=True)
    ]


def _run_groups(run: Callable[..., Drawn[Any]]) -> Callable[..., Drawn[list[Any]]]:
    """The same for each group of a list, as one release."""

    def run_all(plan: Plan, groups: Any) -> Drawn[list[Any]]:
        drawn = [run(plan, group.values) for group in groups]
        cap = plan.groups.cap if plan.groups is not None and plan.groups.cap else 1
        accuracy = (
            f"for each of {len(drawn)} groups, of which a person counts in at most {cap}: "
            + (drawn[0].accuracy if drawn else "")
        )
        return Drawn([one.value for one in drawn], accuracy)

    return run_all


def _run_topk(plan: Plan, counts: Any) -> Drawn[list[int]]:
    """Places of the chosen items, from 1 as DuckDB counts; `counts` are int64."""
    k, n_items = plan.parameters["k"], len(counts)
    mechanism = plan.mechanism
    if mechanism.n_largest is None and k > n_items:
        # Only where the domain is the observed one: the owner calls its size public.
        raise ArgumentError(
            f"k = {k} is more than the {n_items} items observed in the source.",
            hint=f"Ask for at most {n_items}, or name a public domain, "
            "whose absent items count zero people.",
        )
    positions = mechanism.run(_integers(counts, np.int64), **plan.parameters)
    accuracy = mechanism.accuracy(n_items, **{**plan.parameters, "beta": plan.beta})
    return Drawn([position + 1 for position in positions], accuracy)


def _run_count_distinct(plan: Plan, people_of_items: Any) -> Drawn[tuple[Any, Plan]]:
    """The release, with its plan; the people of each item are lists of int32."""
    offsets = _integers(people_of_items.offsets, np.int32)
    people = _integers(people_of_items.flatten(), np.int32)
    release = plan.mechanism.run(offsets - offsets[0], people, **plan.parameters)
    return Drawn((release, plan), plan.mechanism.accuracy(**plan.parameters))


def _run_select(plan: Plan, scores: Any, sensitivities: Any, n_different: Any) -> Drawn[list[int]]:
    """The place of the chosen candidate of each group, from 1; numbers come as their texts."""
    places, accuracies = [], []
    groups = zip(scores, sensitivities, n_different, strict=True)
    for texts, sizes, n in groups:
        exact_scores = _fractions(plan, "score", texts)
        exact_sizes = _fractions(plan, "sensitivity", sizes)
        _check_candidates(exact_sizes, n.as_py())
        places.append(plan.mechanism.run(exact_scores, exact_sizes, **plan.parameters) + 1)
        public = {**plan.parameters, "beta": plan.beta}
        accuracies.append(plan.mechanism.accuracy(exact_sizes, **public))
    accuracy = accuracies[0] if accuracies else ""
    if len(places) > 1:
        accuracy = f"{len(places)} groups; of the first of them, {accuracy}"
    return Drawn(places, accuracy, n_runs=len(places))


def _check_candidates(sensitivities: list[Fraction], n_different: int) -> None:
    """Refuse a set of candidates, which is public, where it is none."""
    if not sensitivities:
        raise ArgumentError("There is no candidate to choose.")
    if n_different != len(sensitivities):
        raise ArgumentError(
            "A candidate is NULL or stands more than once; each has one score.",
            hint="SELECT candidate FROM … GROUP BY candidate HAVING count(*) > 1 finds it.",
        )
    if min(sensitivities) < 0:
        raise ArgumentError("A sensitivity is negative; it says how far one person moves a score.")


def _fractions(plan: Plan, name: str, texts: Any) -> list[Fraction]:
    """Exact numbers from their texts; a binary column's are those that it holds."""
    binary = family(plan.columns[name].type) in BINARY_TYPES
    try:
        return [Fraction(float(t) if binary else t) for t in texts.as_py() or ()]
    except (TypeError, ValueError, OverflowError):
        raise ArgumentError(
            f"A {name} is NULL, infinite or NaN; nothing was released.",
            hint="Give such a candidate a public number in its place, in a subquery.",
        ) from None


def _integers(array: Any, dtype: type[np.signedinteger[Any]]) -> NDArray[Any]:
    """An arrow array without nulls as numpy, without a copy.

    arrow's own to_numpy does the same, but imports pandas first where that is installed.
    """
    if array.null_count:
        raise InternalError("A NULL where only numbers are expected.")
    values = np.frombuffer(array.buffers()[1] or b"", dtype=dtype)
    return values[array.offset : array.offset + len(array)]
