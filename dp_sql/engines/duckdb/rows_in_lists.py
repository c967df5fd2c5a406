"""The UDFs that take the rows of a release in public groups as one list, and count in memory."""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from dp_sql.engines.duckdb.arrow_rows import (
    ValueNumbers,
    comparable_in_arrow,
    not_null,
    whole_numbers,
)
from dp_sql.engines.duckdb.frozen import exact_value
from dp_sql.engines.duckdb.mechanism_udfs import answers_from, arrow_values
from dp_sql.engines.duckdb.tickets import Tickets
from dp_sql.errors import InternalError
from dp_sql.privacy.plans.plan import Plan
from dp_sql.privacy.private_sql.few_rows import IN_LISTS, few_rows
from dp_sql.sql.functions import FUNCTIONS


def udfs_of_lists(tickets: Tickets) -> list[tuple[str, Callable[..., Any], str]]:
    """One for each kind of answer that is computed from people's values: name, callable, answer."""
    shapes = [shape for function in FUNCTIONS.values() for shape in function.shapes]
    answers = {
        name: f"{answer}[]"
        for shape in shapes
        if shape.in_memory == "values"
        for name, answer in shape.udfs.items()
    }
    return [
        (f"{name}{IN_LISTS}", _udf(tickets, answer), answer) for name, answer in answers.items()
    ]


def _udf(tickets: Tickets, answer: str) -> Callable[..., Any]:
    def udf(*columns: Any) -> Any:
        answers = []
        for ticket, connection, query, keys, rows in zip(*columns, strict=True):
            make = partial(_lists, keys=keys.as_py(), sent=rows.values)
            asked = ticket.as_py(), (connection.as_py(), query.as_py())
            answers.append(answers_from(tickets, *asked, make))
        return arrow_values(answers, answer)

    return udf


def _lists(plan: Plan, keys: Sequence[Sequence[int]], sent: Any) -> list[Any]:
    """What the plan's own UDF takes. `keys`: the ordered values of each key, as rows have them."""
    from dp_sql.engines.duckdb.rows_in_memory import Piece, Rows

    few = few_rows([plan], comparable_in_arrow, exact_value, {})
    if few is None:
        raise InternalError("Such rows are not counted in memory.")
    (people, *others), persons, rows = sent.flatten(), ValueNumbers(), Rows()
    number, there = np.zeros(len(sent), np.int64), np.ones(len(sent), bool)
    for values, column in zip(map(np.array, keys), others, strict=False):
        own = whole_numbers(column)
        places = np.minimum(np.searchsorted(values, own), len(values) - 1)
        number, there = number * len(values) + places, there & (values[places] == own)
    rows.has_groups, rows.n_groups = True, prod(map(len, keys))
    owners, items = persons.numbers(people), others[len(keys) :]
    rows.n_people = persons.size
    groups = np.where(there, number, rows.n_groups).astype(np.int32)
    read = [*map(whole_numbers, items)] or [None], [*map(not_null, items)] or [None]
    rows.pieces.append(Piece(owners, groups, *read))
    return rows.summed([plan], few.kept)[0]
