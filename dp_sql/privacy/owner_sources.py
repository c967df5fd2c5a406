"""On the owner's connection: from a DP call to a Plan, or a refusal.

A single table, file, dataframe, view or subquery that looks at one row at a time is read as written
(check.py, plan.py). Joins, CTEs, UNION ALL, groups of one person's rows and expressions as items go
through the same person-level compiler as under a policy, without its limits on work.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from dp_sql.errors import NotPrivate, ParseError, QueryError
from dp_sql.privacy.compiled_source import (
    Rows,
    Source,
    compiled_plan,
    compiled_source,
    key_columns,
    rows_of,
    value_of,
    written_out,
)
from dp_sql.privacy.declared_sources import (
    Approved,
    approve,
    approve_scores,
    parsed_source,
    unreadable,
)
from dp_sql.privacy.domains import read_domain
from dp_sql.privacy.owner_side import (
    OwnersEngine,
    OwnerSide,
    assumptions,
    has_escapes,
    policy_of,
    private_names,
    relations,
)
from dp_sql.privacy.plan import Column, Plan, assumed, owners_groups, plan, values_of
from dp_sql.privacy.relations import Compiler
from dp_sql.sql.arguments import DpCall
from dp_sql.sql.clauses import cte_bodies
from dp_sql.sql.dp_select import DpSelect
from dp_sql.sql.literals import no_column
from dp_sql.sql.sqlglot_tree import Unreadable, tree_of
from dp_sql.sql.tokens import Token, folded


def owners_plan(
    select: DpSelect, call: DpCall, tokens: Sequence[Token], engine: OwnersEngine
) -> Plan:
    """The plan of one call on the owner's connection.

    Args:
        select: the SELECT that the call stands in.
        call: the call.
        tokens: of the whole statement, for its CTEs.
        engine: answers what names mean.

    Raises:
        QueryError: the source is not provably person-level, or the call cannot be planned.
    """
    if not call.parameters.reads_people:
        return plan(select, call, approve_scores(select), engine)
    approved: Approved | None = None
    refusal: QueryError | None = None
    try:
        approved = approve(select, call.privacy_unit.parts[-1], engine)
    except (NotPrivate, ParseError) as error:
        refusal = error
    is_column = bool(call.item.parts)
    if approved is not None and is_column and not approved.joins:
        return plan(select, call, approved, engine)
    side = OwnerSide(engine)
    beyond = _is_beyond_rows(select)
    if refusal is not None and is_column and not beyond and not _may_be_compiled(select, side):
        raise refusal
    try:
        asked = _asked(select, call, tokens, side)
    except QueryError as error:
        if not is_column and (approved is not None or error.position == call.item.position):
            item = call.item
            raise no_column(select.text, item.position, "the item", item.text) from None
        if approved is not None:
            return plan(select, call, approved, engine)
        if refusal is not None and not beyond:
            raise refusal from None
        raise
    return _plan(asked, engine)


# --- which of the two ways ------------------------------------------------------------------------


def _is_beyond_rows(select: DpSelect) -> bool:
    """Whether the statement itself asks for what only the compiler knows: a join and the like."""
    try:
        tree = parsed_source(select)
    except (Unreadable, NotPrivate):
        return False
    names = {folded(node.name) for node in tree.find_all(exp.Table)}
    known = (exp.Join, exp.SetOperation, exp.Group, exp.CTE)
    return bool(names & select.ctes) or tree.find(*known) is not None


def _may_be_compiled(select: DpSelect, side: OwnerSide) -> bool:
    """Whether the source has what the compiler may know all the same: a view, or IN (SELECT …)."""
    try:
        tree = parsed_source(select)
    except (Unreadable, NotPrivate):
        return False
    listed = any(node.args.get("query") for node in tree.find_all(exp.In))
    return listed or bool(relations([tree], side).views)


# --- compiling ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Asked:
    """A call over a compiled source. own: what the relations with people's rows are called."""

    call: DpCall
    source: Source
    rows: Rows
    own: frozenset[str]


def _asked(select: DpSelect, call: DpCall, tokens: Sequence[Token], side: OwnerSide) -> _Asked:
    """Compile the source and the item of a call, or refuse them."""
    bodies = _bodies(select, tokens)
    _check_texts(select, call, bodies.values(), side)
    try:
        trees = [parsed_source(select), *(tree_of(body) for body in bodies.values())]
    except Unreadable:
        raise unreadable(select) from None
    found = relations(trees, side)
    unit = call.privacy_unit
    policy = policy_of(found, unit.parts[-1], side)
    nobodys = NotPrivate(
        f"No table of this source has a column {unit.parts[-1]}.",
        text=select.text,
        position=unit.position,
        hint="Joins, CTEs, UNION ALL and groups are read down to the tables: the privacy unit is "
        "a column of theirs.",
    )
    compiler = Compiler(policy, side, shows_views=True)
    source = compiled_source(select, bodies, compiler, nobodys)
    if not value_of(select, unit, source.scope).is_person:
        raise NotPrivate(
            f"{unit.text} is not the privacy unit of a table as it stands: it is an expression, "
            "or a column of a table that is joined and may be missing.",
            text=select.text,
            position=unit.position,
            hint="Name the column of the table whose rows are people's.",
        )
    rows = rows_of(source, call)
    if not side.engine.agrees(rows.sql, rows.tables):
        raise NotPrivate(
            "DuckDB does not read this source as dp_sql does.",
            text=select.text,
            position=select.source[0],
            hint="Make it a table (CREATE TABLE … AS …) and name that table.",
        )
    aliases = {part.alias for part in source.rows.parts if part.rows.private and part.alias}
    own = private_names(found, policy.tables) | aliases
    return _Asked(call, source, rows, own)


def _bodies(select: DpSelect, tokens: Sequence[Token]) -> dict[str, str]:
    """The texts of the CTEs that a SELECT may name, in their order.

    Left out are names that the statement defines twice, and CTEs that end behind the source.
    """
    text = select.text
    spans: dict[str, tuple[int, int]] = {}
    for index, token in enumerate(tokens):
        if token.upper == "WITH":
            spans |= cte_bodies(tokens[index:], text)
    defined = Counter(
        folded(name.name or "")
        for before, name, after in zip(tokens, tokens[1:], tokens[2:], strict=False)
        if before.upper in {"WITH", "RECURSIVE"} or before.is_symbol(",")
        if after.upper == "AS" or after.is_symbol("(")
    )
    return {
        name: text[slice(*span)]
        for name, span in sorted(spans.items(), key=lambda item: item[1])
        if name in select.ctes and defined[name] == 1 and span[1] <= select.source[0]
    }


def _check_texts(select: DpSelect, call: DpCall, bodies: Iterable[str], side: OwnerSide) -> None:
    """Refuse what sqlglot and DuckDB, or this database and another, may read differently."""
    wrong = None
    texts = [select.source_text, select.condition_text or "", call.item.text, *bodies]
    if any(map(has_escapes, texts)):
        wrong = "A string with escapes is read in more than one way."
    for name in sorted(side.engine.function_kinds(frozenset())):
        wrong = f"This database has a function {name} of its own, which could replace DuckDB's."
    if wrong is not None:
        raise NotPrivate(wrong, text=select.text, position=select.source[0])


# --- the plan -------------------------------------------------------------------------------------


def _plan(asked: _Asked, engine: OwnersEngine) -> Plan:
    """The plan of a call over its compiled source: domain and groups are the owner's words."""
    call, source, select = asked.call, asked.source, asked.source.select
    domain = groups = None
    if select.keys:
        keys = key_columns(source)

        def observed(key: Column) -> str:
            value = source.keys[keys.index(key)]
            sql = written_out(source, source.unfiltered.select([value])).sql
            return values_of(Column("c0", key.type), f"({sql}) AS t")

        groups = owners_groups(select, call, keys, observed, asked.own, engine)
    if call.domain is not None:
        kind = asked.rows.item.type
        domain = read_domain(select, call, call.domain, kind, asked.own, engine)
    unit = call.privacy_unit.parts[-1]
    words = assumptions(asked.rows.relation, unit) + assumed(select, call, groups, domain)
    return compiled_plan(
        source,
        call,
        asked.rows,
        domain=domain,
        groups=groups,
        assumptions=words,
        work=None,
    )
