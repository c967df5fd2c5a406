"""A first policy for a database, for its owner to finish. Guesses little, and marks each guess.

Every table is private until its owner says otherwise; where no column looks like a person's, the
draft holds a "?" with which no policy can be read.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Sequence

from dp_sql.policy.catalog import Catalogue, Listed
from dp_sql.policy.model import UNNAMED
from dp_sql.policy.parser import shown
from dp_sql.sql.tokens import folded
from dp_sql.sql.types import EXACT_TYPES, family

# The likeliest first: a table may have a customer_id and an employee_id.
_PEOPLE = ("user", "customer", "person", "patient", "member", "client", "subscriber", "student",
           "participant", "respondent", "passenger", "visitor", "reviewer", "rater", "author",
           "employee")  # fmt: skip
_UNITS = tuple(f"{person}{sign}id" for person in _PEOPLE for sign in ("_", ""))
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_HEAD = """\
# What analysts may ask of this database. A line that begins with # is a comment.
# A table that stands nowhere in this file does not exist for analysts.
#
# 1. Say for each table whose row each row is: answer every "?", look at every "check this".
# 2. Move the tables that hold nothing about people to [public].
# 3. dp-sql policy check THIS_FILE DATABASE

# ---- people's rows: one section for each table --------------------------------------------------
"""
_TABLE = """
{columns}
[tables.{key}]
privacy_unit = {unit}
"""
_UNIQUE = (
    "# unique_per_person = [{column}]  # columns in which all rows of a person agree; checked\n"
)
_TAIL = """
# ---- what is no secret --------------------------------------------------------------------------

[public]
# Tables that hold nothing about people: analysts read them as they are.
tables = []  # for example [{tables}]

[views]
# Your views over the tables above that analysts may use as sources.
tables = []{views}

[domains]
# The values that may be answered for a column, whoever has them: the column of a public table, a
# list, or "observed" where the very set of values in the private column is no secret.
# The labels of an ENUM column may have been made from people's values. Analysts see strings, and
# the labels only where you write "enum".
# {column} = "catalog.title"
# {column} = ["north", "south"]
# {column} = "observed"
{enums}
# ---- how much in all ----------------------------------------------------------------------------

# Without a budget analysts may ask without end, and nothing is promised about all answers together.
# docs/budget.md says how to choose. To promise, take one "# " from the head of each line below.
# [budget]
#   dataset = "shop"            # your name for these people's data: same people, same name
#   epsilon = 1                 # the privacy loss of all queries of all analysts together
#   delta = 0                   # the probability that the promise fails; "zcdp" and "pld" need one
#   accountant = "basic"        # how losses add up: "basic", "zcdp" or "pld"
#   keep_releases = true        # the same question of the same analyst: its kept answer, free
#   ledger = "shop.ledger.sqlite"               # the book of what was spent
#   witness = "/mnt/other-disk/shop.witness"    # tells whether the book was lost or put back
# #   refresh = "monthly"       # a new budget with each month: twelve epsilons a year
# #   release_epsilon = 0.1     # for "pld" alone: what every release is charged as
# [budget.analysts.reporting]   # one analyst, and the most that this one may spend of it
#   epsilon = 0.5

[limits]
# The most that one query may ask.
# max_epsilon_per_query = 1     # the privacy loss
# max_delta_per_query = 1e-9    # the probability that the promise fails; without it none is allowed
# max_k = 1000                  # the length of a list
# max_contributions = 1000      # the largest contribution bound of a distinct count
# deadline_seconds = 5          # answers come after this time, so that the clock tells nothing
# max_rows_per_person = 1000    # rows of one person in a join that multiplies rows
# max_joined_rows_per_person = 1000000  # rows that such joins may make of them
# memory_limit = "4GB"          # memory of the queries that read private rows
# public_memory_limit = "1GB"   # memory of the rest of a statement; it writes nothing to disk
# temp_directory = "spill"      # where private queries write what does not fit into memory
# max_temp_directory_size = "10GB"
# threads = 4
"""


def draft(catalog: Catalogue) -> str:
    """A policy to be finished: all tables private, guesses marked, the other keys explained."""
    listed = catalog.listed()
    tables = [relation for relation in listed if not relation.is_view]
    names = [_toml(shown(_name(table, listed))) for table in tables]
    views = [_toml(shown(_name(view, listed))) for view in listed if view.is_view]
    items = [(*_name(table, listed), item) for table in tables for item in _items(table)]
    enums = [
        f'# {_toml(shown((*_name(table, listed), folded(name))))} = "enum"\n'
        for table in tables
        for name, kind in table.columns
        if family(kind) == "ENUM"
    ]
    tail = _TAIL.format(
        enums="".join(enums),
        tables=", ".join(names[:2]) or _toml("catalog"),
        views=f"  # for example [{', '.join(views)}]" if views else "",
        column=_toml(shown(items[0] if items else ("ratings", "title"))),
    )
    return _HEAD + "".join(_section(table, tables, listed) for table in tables) + tail


def _section(table: Listed, tables: Sequence[Listed], listed: Sequence[Listed]) -> str:
    key = shown(_name(table, listed))
    column = _unit_column(table)
    if column is not None:
        unit = f"{_toml(column)}  # check this: the column that says whose row each row is"
    else:
        unit = f"{_toml(UNNAMED)}  # say whose row each row is: a column, or a link:"
        unit += f"\n# privacy_unit = {_link(table, tables, listed)}"
    key = key if _BARE_KEY.fullmatch(key) else _toml(key)
    unique = [_UNIQUE.format(column=_toml(shown([item]))) for item in _items(table)[-1:]]
    return _TABLE.format(columns=_columns(table), key=key, unit=unit) + "".join(unique)


def _items(table: Listed) -> list[str]:
    """Columns of text in a table that has people's ids: for examples."""
    unit = _unit_column(table)
    texts = [name for name, kind in table.columns if kind == "VARCHAR" and name != unit]
    return [] if unit is None else texts


def _unit_column(table: Listed) -> str | None:
    """The column that bears a name as people's ids do, where its values compare exactly."""
    names = {folded(name): name for name, kind in table.columns if family(kind) in EXACT_TYPES}
    return next((names[name] for name in _UNITS if name in names), None)


def _link(table: Listed, tables: Sequence[Listed], listed: Sequence[Listed]) -> str:
    """A link to a table with people's ids that has a column of the same name and type."""
    own = {(folded(name), kind): name for name, kind in table.columns}
    for other in tables:
        shared = [own[folded(n), k] for n, k in other.columns if (folded(n), k) in own]
        ids = [name for name in shared if folded(name).endswith("id")]
        if ids and other != table and _unit_column(other) is not None:
            to = shown((*_name(other, listed), folded(ids[0])))
            return f"{{ link = {_toml(ids[0])}, to = {_toml(to)} }}"
    return '{ link = "order_id", to = "orders.order_id" }'


def _columns(table: Listed) -> str:
    """The columns and their types, as a comment."""
    words = (_visible(f"{name} {family(kind)}") for name, kind in table.columns)
    return textwrap.fill(
        ", ".join(words), 96, initial_indent="# columns: ", subsequent_indent="#   "
    )


def _name(relation: Listed, listed: Sequence[Listed]) -> tuple[str, ...]:
    """The shortest name that means this relation only."""
    parts = tuple(folded(part) for part in relation.parts)
    return next(
        parts[-n:]
        for n in (1, 2, 3)
        if n == 3 or sum(other.is_called(parts[-n:]) for other in listed) == 1
    )


def _toml(text: str) -> str:
    r"""A text as TOML reads it back.

    >>> print(_toml('a "b"'))
    "a \"b\""
    """
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _visible(text: str) -> str:
    return text if text.isprintable() else _toml(text)
