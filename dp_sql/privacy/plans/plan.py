"""The frozen Plan of a release: checked names, typed numbers, and the mechanism with its price.

It is made by `plan_of` alone, for both kinds of session; making one reads no private row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

from dp_sql.errors import InternalError
from dp_sql.privacy.catalog import Parts
from dp_sql.privacy.plans.domains import Domain
from dp_sql.privacy.relations.person_of import PersonOf
from dp_sql.privacy.relations.tree_sql import Work
from dp_sql.sql.arguments import DpCall
from dp_sql.sql.dp_select import DpSelect
from dp_sql.sql.shape import Function, Shape
from dp_sql.udfs.mechanism import Mechanism, PrivacyLoss


class Column(NamedTuple):
    """A column of the source: how SQL names it, and its type."""

    sql: str
    type: str


class Finding(NamedTuple):
    """How unknown groups are found, before they are answered: its mechanism and its numbers."""

    mechanism: Mechanism
    epsilon: Fraction
    delta: Fraction
    max_contributions: int  # to how many groups one person gives weight

    @property
    def parameters(self) -> dict[str, Any]:
        """The numbers that the mechanism takes, by name."""
        return {name: getattr(self, name) for name in self.mechanism.parameters}

    @property
    def loss(self) -> PrivacyLoss:
        """The loss of finding them."""
        return self.mechanism.loss(**self.parameters)

    def accuracy(self, beta: Fraction) -> str:
        """Which groups are found, except with probability beta."""
        return self.mechanism.accuracy(**self.parameters, beta=beta)


class Groups(NamedTuple):
    """The groups of a plan, and in how many of them one person counts.

    select: SQL that lists each public group once, its keys as `__dp_key_0`, `__dp_key_1`, …
    finding: how groups are found that are not public; then `select` is "". The calls of a SELECT
        share it: one object, which the first of them pays for.
    pays: whether the call pays for finding them. found_by: the items of all calls that share them.
    cap: each person is kept in at most so many, drawn at random; None: all rows of a person are in
        one group, or the shape is a vector, which needs no cap.
    size: how many groups there are; None: unknown before the release.
    why: why people count in all of their groups, or only in some; "" where there is no choice.
    unused: that and why a cap in the statement has no effect; "" where it has, or there is none.
    factors: the SQL of each key's values as `item`, which `select` combines; () for a query.
    """

    select: str
    cap: int | None
    size: int | None = None
    why: str = ""
    unused: str = ""
    finding: Finding | None = None
    pays: bool = True
    found_by: Sequence[str] = ()
    factors: Sequence[str] = ()


class Shared(NamedTuple):
    """A source that all calls of a SELECT read, as Plan.source, and a call's item in it."""

    source: str
    item: str


class Plan(NamedTuple):
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
    tables: all base tables that the source reads. people: the private ones among them.
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
    tables: tuple[Parts, ...] = ()
    people: tuple[PersonOf, ...] = ()

    @property
    def finding(self) -> Finding | None:
        """How its groups are found; None: they are public, or there are none."""
        return None if self.groups is None else self.groups.finding

    @property
    def public_tables(self) -> tuple[Parts, ...]:
        """The base tables that the source reads besides people's."""
        private = {one.table for one in self.people}
        return tuple(table for table in self.tables if table not in private)


class Released(NamedTuple):
    """Where a release is: a relation with its keys, as SQL, and the column of its value."""

    relation: str
    value: str = "__dp_value"


def loss_at(plan: Plan, factor: Fraction) -> PrivacyLoss:
    """What a plan would cost with its epsilon times a factor from (0, 1]."""
    if factor == 1:
        return plan.loss
    parameters = replace(plan.parameters, epsilon=plan.parameters.epsilon * factor)
    groups, finding = plan.groups, plan.finding
    if groups is not None and finding is not None:
        groups = groups._replace(finding=finding._replace(epsilon=finding.epsilon * factor))
    return _loss(parameters, plan.mechanism, groups)


def _loss(parameters: Shape, mechanism: Mechanism, groups: Groups | None) -> PrivacyLoss:
    """The loss of all groups together, from the parameters of one of them."""
    loss = parameters.loss(mechanism)
    if groups is None:
        return loss
    loss = loss.times(groups.cap or 1)
    return groups.finding.loss + loss if groups.finding is not None and groups.pays else loss


def plan_of(
    select: DpSelect,
    call: DpCall,
    *,
    source: str,
    columns: Mapping[str, Column],
    keys: tuple[Column, ...],
    assumptions: tuple[str, ...],
    keep_source: bool,
    groups: Groups | None = None,
    domain: Domain | None = None,
    work: Work | None = None,
    shared: Shared | None = None,
    tables: tuple[Parts, ...] = (),
    people: tuple[PersonOf, ...] = (),
) -> Plan:
    """The plan of a call, once its source is read and it is known what is public about it.

    With public groups each person counts in at most c groups, each group is a release at epsilon/c
    (and delta/c) on its own people, and groups that a person is not in do not see that person.
    People who are in more groups are kept in some of them by a draw; what the loss says then is in
    budget/accountants.md, "Releases that draw first". A vector answers all groups in one release.
    Finding unknown groups takes its part of the first call's epsilon; other calls of the SELECT
    answer the same groups (udfs/groups/partition_selection.md).
    """
    if call.missing:
        raise InternalError("A call without epsilon cannot be planned.")
    parameters = call.parameters
    if groups is not None:
        left = Fraction(1)
        if groups.finding is not None and groups.pays:
            left -= groups.finding.epsilon / parameters.epsilon
        parameters = parameters.scaled(left * Fraction(1, groups.cap or 1))
    where = "" if select.condition_text is None else f" WHERE {select.condition_text}"
    return Plan(
        function=call.function, mechanism=call.mechanism, parameters=parameters,
        loss=_loss(parameters, call.mechanism, groups),
        source=source, written=select.source_text + where, columns=columns, keys=keys,
        groups=groups, keep_source=keep_source, domain=domain, call=call.display,
        assumptions=assumptions, work=work, shared=shared, tables=tables, people=people,
    )  # fmt: skip


def drawn_from(plan: Plan) -> Plan:
    """The plan that the ticket must match: some mechanisms draw from counts of covered items."""
    of_cover = plan.parameters.of_cover(plan.mechanism)
    return plan if of_cover is None else plan._replace(parameters=of_cover)


def bounds_of(plan: Plan) -> Sequence[int]:
    """The contribution bounds of a mechanism that takes a count of covered items for each."""
    if plan.mechanism.bounds is None:
        raise InternalError("This mechanism needs pairs.")
    return plan.mechanism.bounds(**plan.parameters.mechanism_arguments(plan.mechanism))
