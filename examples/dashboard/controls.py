"""The lists from which a visitor makes a question."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import menu
import streamlit as st
from menu import Menu, as_sql
from questions import POSITIONAL, WORDS, Question
from shared import Shared, is_answerable

from dp_sql.sql.formatting import shown_name
from dp_sql.sql.functions import FUNCTIONS

EVERY, ALL = "– all rows", "– one answer for all"
LABELS = {"k": "How many", "q": "Which quantiles"}


def chosen(shared: Shared, lists: Callable[[str], Menu]) -> tuple[Question, int]:
    """The controls. The page's address holds their values, so that a reload keeps them."""
    table = pick("Table", menu.tables(shared), "table")
    offer = lists(table)
    function = pick("Question", [*offer.items], "ask", lambda name: WORDS.get(name, (name,))[0])
    items = offer.items[function]

    def named(item: str) -> str:
        return {menu.ALL_ROWS: "all rows", offer.person: f"{item} (people)"}.get(item, item)

    item = next(iter(items))
    if len(items) > 1:
        item = pick("Column", [*items], f"column_{function}", named)
    question = replace(menu.first(table, function, item), counts_people=item == offer.person)
    for name in FUNCTIONS[function].positional[1:]:
        question = question.given(**{name: pick(LABELS[name], POSITIONAL[name], name)})
    if items[item]:
        question = bounded(question, *menu.bounds(offer.columns[item], offer.values.get(item, ())))
    question = grouped(shared, filtered(question, offer), offer)
    epsilon = st.slider(
        "Privacy loss ε", 0.01, 1.5, 0.25, 0.01, key="epsilon", bind="query-params",
        help="An answer changes the odds that one person is in the data by at most a factor of "
        "e^ε. A larger ε gives a better answer and uses more of the budget.",
    )  # fmt: skip
    return question, round(100 * epsilon)


def pick(label: str, options: Any, key: str, words: Any = str) -> Any:
    return st.selectbox(label, options, key=key, format_func=words, bind="query-params")


def bounded(question: Question, lower: Any, upper: Any) -> Question:
    """The range of values that are looked at: it must not come from the data."""
    if isinstance(lower, datetime.date):
        ends = st.date_input("Dates between", (lower, upper), key="between")
        lower, upper = ends if len(ends) == 2 else (lower, upper)
    else:
        left, right = st.columns(2)
        lower = left.number_input("Values from", value=lower, step=1, key="lower")
        upper = right.number_input("to", value=upper, step=1, key="upper")
    return question.given(lower=as_sql(lower), upper=as_sql(upper))


def filtered(question: Question, offer: Menu) -> Question:
    """A condition on one column."""
    column = pick("Only where", [EVERY, *offer.columns], f"where_{offer.table}")
    if column == EVERY:
        return question
    name, kind = shown_name(column), offer.columns[column]
    if kind.startswith(menu.DATES):
        days = menu.bounds(kind, offer.values.get(column, ()))
        ends = st.date_input(f"{column} between", days, *days, key=f"is_{column}")
        if len(ends) < 2:  # the visitor has chosen the first day only
            return question
        first, last = ends
        sql = f"{name} >= '{first}' AND {name} < '{last + datetime.timedelta(days=1)}'"
        return replace(question, where=(sql, f"{first} to {last}"))
    if column in offer.values:
        value = pick(f"{column} is", offer.values[column], f"is_{column}")
    elif kind.startswith(menu.STRINGS):
        value = st.text_input(f"{column} is", key=f"is_{column}", bind="query-params")
    else:
        value = st.number_input(f"{column} at least", value=0, step=1, key=f"is_{column}")
        return replace(question, where=(f"{name} >= {value}", f"{column} at least {value}"))
    where = f"{name} = {as_sql(value)}", f"{column} = {value}"
    return replace(question, where=where) if value != "" else question


def grouped(shared: Shared, question: Question, offer: Menu) -> Question:
    """One answer, or one for each value of a column."""
    keys = {time or key: (key, time) for key, time in offer.keys if time or key != question.item}
    name = pick("For each", [ALL, *keys], f"each_{offer.table}")
    if name == ALL:
        return question
    key, time = keys[name]
    question = replace(question, key=key, each=time)
    if is_answerable(shared, question):
        return question
    most = st.number_input(
        "Groups that one person counts in, at most", 1, 100, 3, key="groups", bind="query-params",
        help="A person in more groups counts in this many of them, drawn at random. With fewer "
        "groups there is less noise.",
    )  # fmt: skip
    return question.given(max_groups_contributed=str(most))
