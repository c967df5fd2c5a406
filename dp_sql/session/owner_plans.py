"""The plans of an owner's statements, and of those that come again.

Planning is a function of the statement and of what the engine answers meanwhile: what names mean,
the columns and their types, whether a function is a macro, how the source reads its tables. So the
plans are those of the last time if the engine, asked all of it again, gives the same answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, cast

import duckdb

from dp_sql.engines.duckdb.connection import Engine, operators_of
from dp_sql.engines.duckdb.sql_runner import Connection
from dp_sql.errors import DpSqlError
from dp_sql.privacy.plans.owner import owners_plans
from dp_sql.privacy.plans.plan import Plan
from dp_sql.privacy.private_sql.release_select import count_groups_sql
from dp_sql.session.corrections.corrector import refuse_unknown
from dp_sql.session.syntax import check_syntax
from dp_sql.sql.select_list import planned
from dp_sql.sql.statement import Statement
from dp_sql.sql.tokens import folded

_LONG = 1000  # elements of an answer
_FULL = 3  # the parts of database.schema.name, which means no other relation

_ARE_SCALARS = {"are_own_scalars", "are_no_macros", "check_operators"}

# The method of an engine, what it was given, and its answer.
_EngineCall = tuple[str, Sequence[Any], Mapping[str, Any], Any]


def plans_of_all(statement: Statement, engine: Engine) -> list[Plan]:
    """The plans of all DP calls of an owner's statement, before any is released."""
    plans: list[Plan] = []
    if not statement.selects:
        return plans
    with looked_up(statement, engine):
        for select in statement.selects:
            plans += planned(select, engine, partial(owners_plans, select, engine))
        engine.check_operators(operators_of(plans))
    return plans


def plans_of_text(statement: Statement, engine: Engine) -> list[Plan]:
    """The same of a statement that DuckDB has not read yet; ParseError if it cannot read it."""
    plans = plans_of_all(statement, engine)
    check_syntax(statement.tokens, engine.connection.extract_statements)
    return plans


def n_runs(plan: Plan, engine: Engine) -> int:
    """How often a loss counts: DP_SELECT answers each (public) group with all of epsilon."""
    if plan.parameters.reads_people or not plan.keys:
        return 1
    (n_groups,) = engine.public_values(count_groups_sql(plan))
    return max(1, int(str(n_groups)))


def looked_up(statement: Statement, engine: Engine) -> AbstractContextManager[None]:
    """While one statement is planned: what its names mean is asked once."""
    tokens = statement.tokens
    pairs = [*pairwise([*tokens, tokens[-1]])]
    named = {b for a, b in pairs if a.upper in {"FROM", "JOIN"} or a.is_symbol(".")}
    named |= {a for a, b in pairs if b.is_symbol(".")}  # others are looked up by themselves
    names = {token.name for token in named if token.name is not None}
    return engine.looked_up(names, tokens.called())


class _RecordingEngine:
    """An engine that notes its answers; `asked` is None if one is an error, or is long.

    scalars: the functions that are scalar as it says; others: those of which it told the kind.
    relations: the names, folded, of the relations that it was asked for, also in views.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.asked: list[_EngineCall] | None = []
        self.scalars, self.others = frozenset[str](), frozenset[str]()
        self.relations = frozenset[str]()

    @property
    def connection(self) -> Connection:
        return self._engine.connection

    def looked_up(self, *given: Any) -> AbstractContextManager[None]:
        return self._engine.looked_up(*given)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._engine, name)

        def ask(*given: Any, **named: Any) -> Any:
            for *same, known in self.asked or ():  # while one statement is planned
                if same == [name, given, named]:
                    return known
            noted, self.asked = self.asked, None
            answer = method(*given, **named)
            if name in _ARE_SCALARS and answer is not False:
                self.scalars |= {*given[0]}
            elif name == "function_kinds":
                self.others |= {*given[0]} & answer.keys()
            elif name == "relation" and len(given[0]) < _FULL:
                self.relations |= {folded(given[0][-1])}
            if noted is not None and not (isinstance(answer, list) and len(answer) > _LONG):
                self.asked = [*noted, (name, given, named, answer)]
            return answer

        return ask


class Planned(NamedTuple):
    """A statement, and a plan for each of its DP calls.

    scalars, others: the functions of _RecordingEngine, without those in both. relations: as there.
    """

    statement: Statement
    plans: list[Plan]
    scalars: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()
    relations: frozenset[str] = frozenset()


def planned_again(key: object, engine: Engine, make: Callable[[Engine], Planned]) -> Planned:
    """What `make` returns, or what it last returned if the engine still answers it the same.

    key: the statement and whatever else `make` depends on, besides the engine.
    """
    known: dict[object, tuple[list[_EngineCall], Planned]] = engine.state.planned
    entry = known.pop(key, None)
    if entry is None or not _same_answers(entry[1].statement, engine, entry[0]):
        recording = _RecordingEngine(engine)
        made = make(cast("Engine", recording))
        scalars = recording.scalars
        made = made._replace(
            scalars=scalars, others=recording.others - scalars, relations=recording.relations
        )
        if recording.asked is None:
            return made
        entry = recording.asked, made
    known[key] = entry
    return entry[1]


def planned_text(statement: Statement, engine: Engine) -> Planned:
    """A statement that DuckDB has not read yet, with its plans, or a refusal."""

    def make(recording: Engine) -> Planned:
        refuse_unknown(statement, recording)
        return Planned(statement, plans_of_text(statement, recording))

    return planned_again((statement.text, statement.span), engine, make)


def _same_answers(statement: Statement, engine: Engine, asked: Sequence[_EngineCall]) -> bool:
    try:
        with looked_up(statement, engine):
            return all(
                getattr(engine, name)(*given, **named) == answer
                for name, given, named, answer in asked
            )
    except (DpSqlError, duckdb.Error):  # it is planned anew, which raises it
        return False
