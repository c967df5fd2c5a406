"""One join of a FROM clause: its kind, its relation, and what ON and USING say.

joins.py says which columns may be compared; here is what a join adds to the source, or its refusal.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from dp_sql.errors import QueryError
from dp_sql.privacy.refusals import ALLOWED, Refused, refuse
from dp_sql.privacy.relations import joins
from dp_sql.privacy.relations.from_clause import JOINED, From
from dp_sql.privacy.relations.select_clauses import conjuncts, only
from dp_sql.privacy.relations.tree import LeftJoin
from dp_sql.sql.formatting import shown_name
from dp_sql.sql.sqlglot_tree import Node

if TYPE_CHECKING:
    from dp_sql.privacy.relations.source_compiler import Compiler


def add_join(compiler: Compiler, join: Node, source: From, where: Sequence[Node]) -> None:
    """Add a join to what FROM has so far; `where`: the terms of WHERE, which may join a list."""
    before = From(list(source.parts))
    try:
        _added(compiler, join, source, where)
    except Refused as refusal:
        if refusal.node is join:
            with contextlib.suppress(QueryError):
                part, method = compiler.part(join.this, before), join.args.get("method")
                if method != "ASOF" and join.args.get("side") not in {"RIGHT", "FULL"}:
                    refusal.equal = [*joins.of_one_person(before, part, compiler.tables)]
                known = {name for one in before.parts for name in one.rows.names}
                if method != "NATURAL":  # which compares these already
                    refusal.names = [shown_name(n) for n in part.rows.names if n in known]
        raise


def _added(compiler: Compiler, join: Node, source: From, where: Sequence[Node]) -> None:
    natural = join.args.get("method") == "NATURAL"
    only(join, {"this", "side", "kind", *(["method"] if natural else ["on", "using"])})
    if joins.join_list(join, source, compiler.scope):
        return
    side, kind = (str(join.args.get(key) or "").upper() for key in ("side", "kind"))
    on, using = join.args.get("on"), join.args.get("using") or []
    if kind in {"SEMI", "ANTI"} and side in {"", "LEFT"}:
        return _keep_matches(compiler, join, source, anti=kind == "ANTI")
    listed = (side, on, using, natural) == ("", None, [], False) and kind in {"", "CROSS"}
    known = side in {"", "LEFT"} and kind in {"", "INNER", "OUTER"} and (on or using or natural)
    if not (known or listed):
        why = "A source may only use inner, left, cross, semi and anti joins"
        raise refuse(join, why, JOINED)
    part = compiler.part(join.this, source)
    of_people = source.first_private is not None or part.rows.is_private
    if listed and compiler.tables.trusted and of_people:
        joins.check_cross(join, part, where)
    left = From(list(source.parts), set(source.hidden))
    if side == "LEFT" and left.first_private is None and part.rows.is_private:
        why = "Put the private table first: this LEFT JOIN keeps rows that belong to no one"
        raise refuse(join, why, ALLOWED)
    using = joins.shared(join, source, part) if natural else using
    source.parts.append(part)
    equal, terms = joins.on_terms(on, source, part, compiler.scope)
    if listed:
        equal += joins.listed_pairs(where, source, part.number, compiler.scope)
    equal += joins.using_pairs(using, left, part, source)
    joins.check_keys(join, left.first_private, part, equal, compiler.tables)
    joins.note_own(source, equal, is_left=side == "LEFT")
    if side == "LEFT":
        source.left_joins.append(LeftJoin(part.number, joins.compared(equal), tuple(terms)))
        # The privacy unit may be NULL there, beside a person.
        part = source.parts[-1]
        source.parts[-1] = part._replace(rows=part.rows.without_unit(part.rows.names))
    else:
        source.equal += joins.compared(equal)
        source.where += terms


def _keep_matches(compiler: Compiler, join: Node, source: From, *, anti: bool) -> None:
    """A SEMI or ANTI join: only the rows that have a match, or have none."""
    from dp_sql.privacy.relations import matches

    inner = From([compiler.part(join.this, source)._replace(number=0)])
    terms = conjuncts(join.args.get("on"))
    match = matches.correlated(terms, source, inner, compiler.scope, compiler.scope, beside=True)
    for name in join.args.get("using") or []:
        column = exp.column(name.name)
        match.equal.append(joins.alike(source.column(column), inner.column(column), source))
    found = matches.has_match(join, source, inner, match, compiler.tables).sql
    source.where.append(f"(NOT {found})" if anti else found)
