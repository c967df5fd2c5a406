"""A first policy for a database, for its owner to finish. Guesses little, and marks each guess.

Every table is private until its owner says otherwise. A draft with a "?" is not a valid policy.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Sequence

from dp_sql.policy.budget_section import BudgetKeys, CapKeys
from dp_sql.policy.catalog import Catalogue, Listed
from dp_sql.policy.keys import drafted
from dp_sql.policy.limits import Limits
from dp_sql.policy.model import UNNAMED
from dp_sql.policy.parser import dotted
from dp_sql.sql.tokens import folded
from dp_sql.sql.types import EXACT_TYPES, family

# The likeliest first: a table may have a customer_id and an employee_id.
_PEOPLE = ("user", "customer", "person", "patient", "member", "client", "subscriber", "student",
           "participant", "respondent", "passenger", "visitor", "reviewer", "rater", "author",
           "employee")  # fmt: skip
_UNITS = tuple(f"{person}{between}id" for person in _PEOPLE for between in ("_", ""))
_HEAD = """\
# What analysts may ask of this database. A line that begins with # is a comment.
# A table that this file does not name does not exist for analysts.
#
# 1. Name the column that identifies the person each row of a table belongs to: replace every "?",
#    check every "check this".
# 2. Move the tables that hold nothing about people to [public].
# 3. dp-sql policy check THIS_FILE DATABASE

# ---- people's rows: one section for each table --------------------------------------------------
"""
_TAIL = """
# ---- what is public -----------------------------------------------------------------------------

[public]
# Tables that hold nothing about people: analysts read them as they are.
tables = []  # for example [{tables}]

[views]
# Your views over the tables above that analysts may use as sources.
tables = []{views}

[domains]
# The values that a column's answers may show: the column of a public table, a list, or "observed"
# if the set of values in the private column is itself public.
# The labels of an ENUM column may have been made from people's values. Analysts see strings, and
# the labels only where you write "enum".
# {column} = "catalog.title"
# {column} = ["north", "south"]
# {column} = "observed"
{enums}
# ---- what all queries may spend together --------------------------------------------------------

# Without a budget analysts may spend without limit, and nothing bounds what all answers reveal.
# docs/budget.md explains how to choose. For a budget, remove one "# " from each line below.
# [budget]
{budget}# [budget.analysts.reporting]   # one analyst
{cap}
[limits]
# What one query may ask at most. Limits are off unless you set them. The exception is delta: unless
# you allow one, none may be used.
{limits}"""


def draft(catalog: Catalogue) -> str:
    """A policy to be finished: all tables private, guesses marked, the other keys explained."""
    listed = catalog.listed()
    tables = [relation for relation in listed if not relation.is_view]
    names = [_toml(dotted(_name(table, listed))) for table in tables]
    views = [_toml(dotted(_name(view, listed))) for view in listed if view.is_view]
    items = [(*_name(table, listed), item) for table in tables for item in _items(table)]
    enums = [
        f'# {_toml(dotted((*_name(table, listed), folded(name))))} = "enum"\n'
        for table in tables
        for name, kind in table.columns
        if family(kind) == "ENUM"
    ]
    tail = _TAIL.format(
        enums="".join(enums), tables=", ".join(names[:2]) or _toml("catalog"),
        views=f"  # for example [{', '.join(views)}]" if views else "",
        column=_toml(dotted(items[0] if items else ("ratings", "title"))),
        budget=drafted(BudgetKeys, "  "), cap=drafted(CapKeys, "  "), limits=drafted(Limits),
    )  # fmt: skip
    return _HEAD + "".join(_section(table, tables, listed) for table in tables) + tail


def _section(table: Listed, tables: Sequence[Listed], listed: Sequence[Listed]) -> str:
    columns = (f"{name} {family(kind)}" for name, kind in table.columns)
    shown = ", ".join(text if text.isprintable() else _toml(text) for text in columns)
    comment = textwrap.fill(shown, 96, initial_indent="# columns: ", subsequent_indent="#   ")
    key, unit = dotted(_name(table, listed)), _unit_column(table)
    key = key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _toml(key)
    lines = ["", comment, f"[tables.{key}]"]
    if unit is not None:
        lines += [f"privacy_unit = {_toml(unit)}  # check this: does it identify the person?"]
    else:
        lines += [
            f'privacy_unit = "{UNNAMED}"  # the column that identifies the person, or a link:',
            f"# privacy_unit = {_link(table, tables, listed)}",
        ]
    for item in _items(table)[-1:]:
        example = f"# unique_per_person = [{_toml(dotted([item]))}]"
        lines += [f"{example}  # columns with one value per person; checked"]
    return "\n".join([*lines, ""])


def _items(table: Listed) -> list[str]:
    """String columns of a table with people's ids: for examples."""
    unit = _unit_column(table)
    strings = [name for name, kind in table.columns if kind == "VARCHAR" and name != unit]
    return [] if unit is None else strings


def _unit_column(table: Listed) -> str | None:
    """The column that is named like a person's id and whose values compare exactly."""
    names = {folded(name): name for name, kind in table.columns if family(kind) in EXACT_TYPES}
    return next((names[name] for name in _UNITS if name in names), None)


def _link(table: Listed, tables: Sequence[Listed], listed: Sequence[Listed]) -> str:
    """A link to a table with people's ids that has a column of the same name and type."""
    own = {(folded(name), kind): name for name, kind in table.columns}
    for other in tables:
        shared = [own[folded(n), k] for n, k in other.columns if (folded(n), k) in own]
        ids = [name for name in shared if folded(name).endswith("id")]
        if ids and other != table and _unit_column(other) is not None:
            to = dotted((*_name(other, listed), folded(ids[0])))
            return f"{{ link = {_toml(ids[0])}, to = {_toml(to)} }}"
    return '{ link = "order_id", to = "orders.order_id" }'


def _name(relation: Listed, listed: Sequence[Listed]) -> tuple[str, ...]:
    """The shortest name that means this relation only."""
    parts = tuple(folded(part) for part in relation.parts)
    shorter = (parts[2:], parts[1:])
    alone = (name for name in shorter if sum(other.is_called(name) for other in listed) == 1)
    return next(alone, parts)


def _toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
