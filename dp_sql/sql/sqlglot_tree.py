"""sqlglot's trees of the parts that dp_sql must understand. The only caller of its parser."""

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import sqlglot
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

if TYPE_CHECKING:
    from sqlglot.expressions import Expr  # the root class of sqlglot 30; 28 calls it otherwise

    Node = Expr
else:
    Node = Any

LONGEST = 200_000  # characters; beyond, sqlglot takes seconds


class Unreadable(Exception):
    """sqlglot has no tree for the text, whatever went wrong in there."""


@lru_cache(maxsize=256)
def tree_of(sql: str) -> Node:
    """The tree of one statement, or Unreadable. It is shared: never change it, copy no part."""
    if len(sql) > LONGEST:
        raise Unreadable
    try:
        tree: Node = sqlglot.parse_one(sql, read=DuckDB)
        for node in list(tree.walk()):  # a tree that is too deep to walk is of no use
            if isinstance(node, exp.RawString):  # $$text$$
                node.replace(exp.Literal.string(node.this))
            if isinstance(node, exp.Bracket):
                _as_written(node)
    except Exception as error:
        raise Unreadable from error
    tree.meta["sql"] = sql
    return tree


def _as_written(node: exp.Bracket) -> None:
    """Put the literal that was written back into list[1].

    The parser makes it list[0], but only where it takes the value for a list: not in upper(s)[1].
    """
    written = DuckDB().generator().bracket_offset_expressions(node)
    node.set("expressions", written)
    node.set("offset", 1)  # so that it is written like this, too


def parsed_text(node: Node) -> str:
    """The SQL from which a node was parsed; `start` and `end` in its meta are offsets into it."""
    return str(node.root().meta["sql"])


def projection(text: str) -> Node | None:
    """The tree of one expression of a SELECT list; None if there is not exactly one."""
    try:
        tree = tree_of(f"SELECT {text}")
    except Unreadable:
        return None
    parts = {key for key, value in tree.args.items() if value}
    found = tree.args.get("expressions") or []
    return found[0] if len(found) == 1 and parts == {"expressions"} else None


def to_sql(node: Node) -> str:
    """DuckDB's SQL of a tree, or Unreadable."""
    try:
        return str(node.sql(dialect=DuckDB))
    except Exception as error:
        raise Unreadable from error
