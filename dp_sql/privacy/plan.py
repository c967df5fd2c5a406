"""The frozen Plan of a release: checked names, typed numbers, and the mechanism with its price.

It is made by `plan_of` alone, for both kinds of session; making one reads no private row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from dp_sql.errors import InternalError
from dp_sql.privacy.domains import Domain
from dp_sql.privacy.relation_sql import Work
from dp_sql.sql.arguments import DpCall
from dp_sql.sql.dp_select import DpSelect
from dp_sql.sql.shape import Function, Shape
from dp_sql.udfs.mechanism import Mechanism, PrivacyLoss


@dataclass(frozen=True)
class Column:
    """A column of the source: how SQL names it, and its type."""

    sql: str
    type: str


@dataclass(frozen=True)
class Groups:
    """The public groups of a plan, and in how many of them one person counts.

    select: SQL that lists each group once, its keys as `__dp_key_0`, `__dp_key_1`, …
    cap: each person is kept in at most so many, drawn at random; None: all rows are in one group.
    """

    select: str
    cap: int | None


@dataclass(frozen=True)
class Shared:
    """A source that all calls of a SELECT read, as Plan.source, and a call's item in it."""

    source: str
    item: str


@dataclass(frozen=True)
class Plan:
    """What one release reads, which mechanism runs on it, and what it costs.

    source: what follows FROM in the private SQL, with its WHERE clause.
    written: FROM and WHERE as they are in the statement, for messages and the receipt.
    columns: columns of the source by what they are to the function: item and privacy_unit, or
        candidate, score and sensitivity.
    groups: None without GROUP BY, and for DP_SELECT.
    keep_source: whether reading the source twice costs more than keeping its rows.
    domain: the public items; None where the mechanism finds them.
    parameters: the public numbers of one run of the mechanism, which is one group.
    loss: what is spent: for all groups together where `groups` says how many one person is in, for
        each group where a person may be in all (DP_SELECT).
    call: the DP call as DuckDB would name it.
    assumptions: what the receipt says the promise rests on.
    work: None: not limited.
    shared: what the release reads in place of `source`, with the other calls of its SELECT.
    """

    function: Function
    mechanism: Mechanism
    parameters: Shape
    loss: PrivacyLoss
    source: str
    written: str
    columns: Mapping[str, Column]
    keys: tuple[Column, ...]
    groups: Groups | None
    keep_source: bool
    domain: Domain | None
    call: str
    assumptions: tuple[str, ...]
    work: Work | None = None
    shared: Shared | None = None


def loss_at(plan: Plan, factor: Fraction) -> PrivacyLoss:
    """What a plan would cost with its epsilon times a factor from (0, 1]."""
    epsilon = plan.parameters.epsilon * factor
    loss = replace(plan.parameters, epsilon=epsilon).loss(plan.mechanism)
    return loss.times(plan.groups.cap or 1) if plan.groups is not None else loss


def plan_of(
    select: DpSelect,
    call: DpCall,
    *,
    source: str,
    columns: Mapping[str, Column],
    keys: tuple[Column, ...],
    assumptions: tuple[str, ...],
    groups: Groups | None = None,
    keep_source: bool = False,
    domain: Domain | None = None,
    work: Work | None = None,
    shared: Shared | None = None,
) -> Plan:
    """The plan of a call, once its source is read and it is known what is public about it.

    With public groups each person counts in at most c groups, each group is a release at epsilon/c
    (and delta/c) on its own people, and groups that a person is not in do not see that person.
    People who are in more groups are kept in some of them by a draw; what the loss says then is in
    budget/accountants.md, "Releases that draw first".
    """
    if call.missing:
        raise InternalError("A call without epsilon cannot be planned.")
    parameters, loss = call.parameters, call.parameters.loss(call.mechanism)
    if groups is not None:
        c = groups.cap or 1
        parameters = parameters.times(Fraction(1, c))
        loss = parameters.loss(call.mechanism).times(c)
    where = "" if select.condition_text is None else f" WHERE {select.condition_text}"
    return Plan(
        function=call.function, mechanism=call.mechanism, parameters=parameters, loss=loss,
        source=source, written=select.source_text + where, columns=columns, keys=keys,
        groups=groups, keep_source=keep_source, domain=domain, call=call.display,
        assumptions=assumptions, work=work, shared=shared,
    )  # fmt: skip
