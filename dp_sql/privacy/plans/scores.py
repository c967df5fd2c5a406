"""DP_SELECT: the scores are the owner's, and the plan of a call takes them as declared.

Scores are computed over many people. How far one person moves them is what the sensitivity says;
only the owner can know it: in the statement, or in the policy for analysts. The receipt says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from dp_sql.errors import NotPrivate, NotSupported, SourceError
from dp_sql.privacy.catalog import OwnersEngine, Parts, PublicData, Schema
from dp_sql.privacy.plans.plan import Column, Plan, plan_of
from dp_sql.sql.arguments import DpCall
from dp_sql.sql.dp_select import DpSelect
from dp_sql.sql.formatting import full_name, quote
from dp_sql.sql.given import Reference
from dp_sql.sql.tokens import folded
from dp_sql.sql.types import NUMBERS, family
from dp_sql.udfs.mechanism import in_words

if TYPE_CHECKING:
    from dp_sql.policy.model import Policy, ScoreTable


def scores_plan(select: DpSelect, call: DpCall, engine: OwnersEngine) -> Plan:
    """The plan of a call of DP_SELECT.

    Raises NotPrivate where the source is a CTE, or a score is used as something public;
    ArgumentError where a score or a sensitivity is not a number; SourceError.
    """
    for token in select.between(select.source):
        if token.folded in select.ctes:
            message = f"{token.name} is a CTE, and DP_SELECT reads tables, views and subqueries."
            hint = "Put its SELECT into brackets after FROM, or into a view or table."
            raise select.refused(message, token.start, hint, NotPrivate)
    _check_scores_apart(select)
    references = [*call.columns.values(), *select.keys]
    source = select.source_text
    if select.condition_text is not None:
        source += f"\nWHERE ({select.condition_text}\n)"
    try:
        found = _typed(engine, source, [*map(_sql, references)])
    except SourceError as error:
        named = (one for one in references for part in one.parts if f'"{part}"' in error.message)
        place = next((one.position for one in named), select.source[0])
        raise select.refused(error.message, place, error.hint or "", SourceError) from None
    columns = dict(zip(call.columns, found, strict=False))
    for name in ("score", "sensitivity"):
        reference, kind = call.columns[name], columns[name].type
        if reference.parts and family(kind) not in NUMBERS:
            message = f"The {name} {reference.text} has type {kind}, which is not a number."
            hint = "Scores and sensitivities are columns of integers, DECIMAL or DOUBLE."
            raise select.refused(message, reference.position, hint)
    public = "the groups, the candidates" if select.keys else "the candidates"
    moves = f"one person moves each score of {select.source_text} by at most its sensitivity"
    assumptions = (
        f"{moves}, and never to or from NULL or infinity",
        f"{public} and their sensitivities are public",
    )
    return plan_of(
        select, call, source=source, columns=columns, keys=tuple(found[len(call.columns) :]),
        keep_source=True, assumptions=assumptions,
    )  # fmt: skip


def policy_scores_plan(select: DpSelect, call: DpCall, policy: Policy, schema: Schema) -> Plan:
    """The plan of an analyst's call: exactly a table of the policy, and what it declares of it.

    Nothing in the plan is the analyst's but epsilon and the mechanism. A condition, a join or a
    group could make people's data choose the candidates, and another sensitivity would change how
    much is spent. Raises NotSupported for another table, and ArgumentError for other arguments.
    """
    parts, full = only_name(select), None
    if call.function.table == "scores" and parts:
        full = schema.table(parts)
    table = next((t for t in policy.scores.values() if full and schema.table(t.name) == full), None)
    if table is None or full is None:
        message = f"{call.function.name} is not available under a policy"
        why = "for this source: it reads a table of scores that the policy lists."
        usable = [f"SELECT {call_of(one)} FROM {_name(one)}" for one in policy.scores.values()]
        hint = f"For example: {usable[0]}" if usable else "This policy lists none."
        raise select.refused(f"{message} {why}", call.start, hint, NotSupported)
    if select.condition is not None or select.keys:
        what = "no WHERE" if select.condition is not None else "no GROUP BY"
        at = select.condition[0] if select.condition is not None else select.keys[0].position
        message = (
            f"Under a policy {call.function.name} takes {what}: it chooses from all candidates."
        )
        raise select.refused(message, at, f"Write SELECT {call_of(table)} FROM {_name(table)}")
    declared = [_declared(select, call, what, table, full) for what in call.columns]
    found = _typed(schema, full_name(full), declared)
    found = [  # the other labels of an ENUM may be secret
        Column(f"CAST({one.sql} AS VARCHAR)", "VARCHAR") if family(one.type) == "ENUM" else one
        for one in found
    ]
    return plan_of(
        select, call, source=full_name(full), columns=dict(zip(call.columns, found, strict=True)),
        keys=(), keep_source=True, assumptions=("what the policy declares",),
    )  # fmt: skip


def _typed(data: PublicData, source: str, columns: Sequence[str]) -> list[Column]:
    """Columns of a source, as SQL, with their types."""
    types = data.columns(f"SELECT {', '.join(columns)} FROM {source}")
    return [Column(sql, kind) for sql, (_, kind) in zip(columns, types, strict=True)]


def only_name(select: DpSelect) -> tuple[str, ...]:
    """The name that is all of FROM; empty where there is more."""
    parts = select.between(select.source).names
    return () if len(parts) == 1 and folded(parts[0]) in select.ctes else parts


def _declared(select: DpSelect, call: DpCall, what: str, table: ScoreTable, full: Parts) -> str:
    """What the policy declares of an argument, as SQL; refuses another one."""
    given, declared = call.columns[what], getattr(table, what)
    if isinstance(declared, str):
        *before, own = _folded(given) or ("",)
        ends = tuple(folded(part) for part in full)
        fits = own == declared and tuple(before) == ends[len(ends) - len(before) :]
    else:
        fits = not given.parts and Fraction(given.text.replace("_", "")) == declared
    if not fits:
        message = f"The policy declares the {what} of {_name(table)}, and {given.text} is not"
        hint = f"Write {call_of(table)}"
        raise select.refused(f"{message} it.", given.position, hint)
    return quote(declared) if isinstance(declared, str) else f"'{declared}'"


def _name(table: ScoreTable) -> str:
    """The table as the policy names it."""
    from dp_sql.policy.parser import dotted  # most sessions are an owner's, without a policy

    return dotted(table.name)


def call_of(table: ScoreTable) -> str:
    """A call that reads a table of scores."""
    sensitivity = table.sensitivity
    last = sensitivity if isinstance(sensitivity, str) else in_words(sensitivity)
    return f"DP_SELECT({table.candidate}, {table.score}, {last}, epsilon := 1)"


def _check_scores_apart(select: DpSelect) -> None:
    """Refuse a score that is also a candidate, a sensitivity, a group or part of the condition."""
    calls = [call for call in select.calls if not call.parameters.reads_people]
    scores = [_folded(call.columns["score"]) for call in calls]
    public = [call.columns[name] for call in calls for name in ("candidate", "sensitivity")]
    for reference in (*public, *select.keys):
        # Two names may mean one column where one is the end of the other.
        ends = ((score, min(len(score), len(_folded(reference)))) for score in scores)
        if any(n and score[-n:] == _folded(reference)[-n:] for score, n in ends):
            why = "which is made of people's data; candidates, sensitivities and groups"
            message = f"{reference.text} is a score, {why} must be public."
            hint = "Name another column: DP_SELECT(candidate, score, sensitivity, …)."
            raise select.refused(message, reference.position, hint, NotPrivate)
    for token in select.between(select.condition) if select.condition else ():
        if token.folded in {score[-1] for score in scores}:
            message = f"A condition on {token.name} lets people's data choose the candidates."
            hint = "Choose the candidates by columns that are public."
            raise select.refused(message, token.start, hint, NotPrivate)


def _folded(reference: Reference) -> tuple[str, ...]:
    return tuple(folded(part) for part in reference.parts)


def _sql(reference: Reference) -> str:
    if not reference.parts:  # a number: its own digits, which keep it exact
        return "'" + reference.text.replace("_", "").replace(" ", "") + "'"
    return full_name(reference.parts)
