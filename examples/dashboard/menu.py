"""What a visitor may choose from: the policy's tables, and what dp_sql can answer about them."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from questions import OFFERED, POSITIONAL, TIMES, Question
from shared import Shared, is_answerable

from dp_sql.policy.model import Policy, read_policy
from dp_sql.sql.formatting import full_name, literal, shown_name
from dp_sql.sql.functions import FUNCTIONS

ALL_ROWS = "*"
DATES, STRINGS = ("DATE", "TIMESTAMP"), ("VARCHAR", "ENUM")
PEOPLE = "DP_COUNT_DISTINCT"  # the function that takes the column of people, too
BOUNDS = {"lower", "upper"}


@dataclass(frozen=True)
class Menu:
    """The lists of one table.

    Args:
        columns: their types by name, without the one that identifies the person.
        values: the public values of columns that have them declared.
        days: those of them that are dates.
        items: for each function the columns that it takes, and whether it needs bounds of values.
    """

    table: str
    person: str | None
    columns: Mapping[str, str]
    values: Mapping[str, Sequence[Any]]
    days: Collection[str]
    items: dict[str, dict[str, bool]] = field(default_factory=dict)

    @property
    def keys(self) -> list[tuple[str, str | None]]:
        """What there may be an answer for each of: a column, or the months of a column of days."""
        found: list[tuple[str, str | None]] = [(c, None) for c in self.values if c not in self.days]
        return found + [(column, time) for column in self.days for time in TIMES]


def tables(shared: Shared) -> list[str]:
    """The tables of people's rows, by name."""
    return [name for name, kind in shared.rows("SHOW TABLES") if kind == "private"]


def menu(shared: Shared, file: Path, table: str) -> Menu:
    """The lists of a table; EXPLAIN decides what can be asked, and spends nothing."""
    policy = read_policy(file)
    types = dict(shared.rows(f"DESCRIBE {shown_name(table)}"))
    unit = next(t.privacy_unit for name, t in policy.tables.items() if ".".join(name) == table)
    person = unit if isinstance(unit, str) else unit.column
    values = _declared(shared, policy, table)
    days = {c for c, listed in values.items() if listed and isinstance(listed[0], datetime.date)}
    found = Menu(table, person, {c: t for c, t in types.items() if c != person}, values, days)
    for function in OFFERED:
        listed = {ALL_ROWS: "", **types} if function == PEOPLE else {ALL_ROWS: "", **found.columns}
        items = {item: _needs(shared, table, function, item, kind)
                 for item, kind in listed.items()}  # fmt: skip
        taken = {item: needs for item, needs in items.items() if needs is not None}
        if taken:
            found.items[function] = taken
    return found


def first(table: str, function: str, item: str) -> Question:
    """A question with the first choice of each positional argument."""
    positional = {n: POSITIONAL[n][0] for n in FUNCTIONS[function].positional if n in POSITIONAL}
    return Question(
        table, function, item if item == ALL_ROWS else shown_name(item), positional
    )  # fmt: skip


def bounded(question: Question, kind: str) -> Question:
    """The same with bounds of values to begin with."""
    lower, upper = map(as_sql, bounds(kind))
    return question.given(lower=lower, upper=upper)


def _needs(shared: Shared, table: str, function: str, item: str, kind: str) -> bool | None:
    """Whether a function needs bounds of a column's values; None: it does not take the column."""
    question = first(table, function, item)
    if is_answerable(shared, question):
        return False
    takes_bounds = {*FUNCTIONS[function].named} >= BOUNDS
    return True if takes_bounds and is_answerable(shared, bounded(question, kind)) else None


def bounds(kind: str, values: Sequence[Any] = ()) -> tuple[Any, Any]:
    """Bounds of values to begin with, for a column of a type, and perhaps of public days."""
    if kind.startswith(DATES) and values:
        return values[0], values[-1]
    year = datetime.date.today().year
    if kind.startswith(DATES):
        return datetime.date(year - 1, 1, 1), datetime.date(year, 12, 31)
    return 0, 1000


def as_sql(value: Any) -> str:
    """A value that was chosen, as a literal."""
    return f"DATE '{value}'" if isinstance(value, datetime.date) else literal(value)


def _declared(shared: Shared, policy: Policy, table: str) -> dict[str, list[Any]]:
    """The public values of columns."""
    values: dict[str, list[Any]] = {}
    for (name, column), domain in policy.domains.items():
        if ".".join(name) != table or isinstance(domain, str):
            continue
        if isinstance(domain[0], tuple) and len(domain) == 2:
            public, of = full_name(domain[0]), shown_name(str(domain[1]))
            listed = f"SELECT DISTINCT {of} FROM {public} WHERE {of} IS NOT NULL ORDER BY 1"
            values[column] = [value for (value,) in shared.rows(listed)]
        else:
            values[column] = [*domain]
    return values
