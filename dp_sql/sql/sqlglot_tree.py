"""sqlglot's trees of the parts that dp_sql must understand. The only caller of its parser."""

import re
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import sqlglot
from sqlglot import ErrorLevel, exp
from sqlglot.dialects.duckdb import DuckDB

from dp_sql.sql.tokens import SYNTAX, tokenize

if TYPE_CHECKING:
    from sqlglot.expressions import Expr  # the root class of sqlglot 30; 28 calls it otherwise

    Node = Expr
else:
    Node = Any
Made = TypeVar("Made", bound=Node)

# Parts of dates and times that have a node of their own.
PART_NODES: Mapping[type, str] = {
    exp.Year: "year", exp.Quarter: "quarter", exp.Month: "month", exp.Week: "week",
    exp.WeekOfYear: "week", exp.Day: "day", exp.DayOfMonth: "day", exp.DayOfYear: "dayofyear",
    exp.DayOfWeek: "dayofweek", exp.DayOfWeekIso: "isodow", exp.Hour: "hour",
    exp.Minute: "minute", exp.Second: "second",
}  # fmt: skip
_MISREAD = (exp.RawString, exp.Bracket, exp.Lambda, exp.Dot)  # unlike DuckDB
_INTERVALS = re.compile(r"\binterval\b|\bto_[a-z]+s\s*\(", re.I)
_PRINTED = re.compile(  # INTERVAL 7 DAY, as DuckDB prints it in the SQL of a view
    r"to_(?:(year|quarter|month|week|day|hour|minute)s\(cast\(trunc\(|(second)s\()"
    r"cast\('?(-?\d{1,9})'? as double\)(?(1)\) as (?:int|bigint)\))\)",
    re.I,
)
_TYPES = {
    word for word, kind in DuckDB.Tokenizer.KEYWORDS.items()
    if kind in DuckDB.Parser.TYPE_TOKENS and word.isidentifier()
} - {"ARRAY", "BINARY", "INTERVAL", "NULL", "UNION"}  # fmt: skip
_TYPED = re.compile(rf"\b(?:{'|'.join(sorted(_TYPES))})\s*\[", re.I)
_BEFORE = {*SYNTAX, "ALL", "BETWEEN", "BY", "DISTINCT", "ILIKE", "LIKE", "WHERE"} - {"AS"}
_LETTERS = "ĀāĂăĄąĆćĈĉĊċČč"
LONGEST = 200_000  # characters; beyond, sqlglot takes seconds


class Unreadable(Exception):
    """sqlglot has no tree for the text, whatever went wrong in there."""


@lru_cache(maxsize=256)
def tree_of(sql: str) -> Node:
    """The tree of one statement, or Unreadable. It is shared: never change it, copy no part."""
    if len(sql) > LONGEST:
        raise Unreadable
    try:
        tree: Node = sqlglot.parse_one(named := _with_names(sql), read=DuckDB)
        if named != sql:
            _put_names(tree, named, sql)
        # A tree that is too deep to walk is of no use.
        misread = [node for node in tree.walk() if isinstance(node, _MISREAD)]
        if _INTERVALS.search(sql):
            for written in list(tree.find_all(exp.Cast, exp.Anonymous, exp.ToDays)):
                _put_interval(written)
        for node in misread:
            if isinstance(node, exp.RawString):  # $$text$$
                node.replace(exp.Literal.string(node.this))
            if isinstance(node, exp.Bracket):
                _as_written(node)
            if isinstance(node, exp.Lambda):
                _put_arrow(node)
        for dot in reversed(list(tree.find_all(exp.Dot) if misread else ())):  # the innermost first
            _put_call(dot)
    except Exception as error:
        raise Unreadable from error
    tree.meta["sql"] = sql
    return tree


def _with_names(sql: str) -> str:
    """SQL in which other letters, as many, name a column called like a type: text[1:2]."""
    if "[" not in sql or not _TYPED.search(sql):
        return sql
    other = next(letter for letter in _LETTERS if letter not in sql)
    tokens = tokenize(sql)
    for i, token in enumerate(tokens[:-2]):
        if not _TYPED.fullmatch(f"{token.text}[") or not tokens[i + 1].is_symbol("["):
            continue
        before = tokens[i - 1] if i else token
        names_type = before.is_symbol("::", ".") or (before.name and before.upper not in _BEFORE)
        if not names_type and not tokens[i + 2].is_symbol("]"):
            name = other * len(token.text)
            sql = sql[: token.start] + name + sql[token.end :]
    return sql


def _put_names(tree: Node, named: str, sql: str) -> None:
    for one in tree.find_all(exp.Identifier):
        start, stop = one.meta.get("start", 0), one.meta.get("end", -1) + 1
        if named[start:stop] == one.this:
            one.set("this", sql[start:stop])


def _as_written(node: exp.Bracket) -> None:
    """Put the literal that was written back into list[1].

    The parser makes it list[0], but only where it takes the value for a list: not in upper(s)[1].
    """
    written = DuckDB().generator().bracket_offset_expressions(node)
    node.set("expressions", written)
    node.set("offset", 1)  # so that it is written like this, too


def _put_interval(node: Node) -> None:
    """Write '7 days'::INTERVAL, and what DuckDB prints of INTERVAL 7 DAY, as an interval."""
    if type(node) is exp.Cast:
        is_string = isinstance(node.this, exp.Literal) and node.this.is_string
        if is_string and node.args["to"].sql("duckdb") == "INTERVAL":
            node.replace(exp.Interval(this=node.this.copy()))
    elif found := _PRINTED.fullmatch(node.sql("duckdb")):
        unit = exp.Var(this=(found[1] or found[2]).upper())
        node.replace(exp.Interval(this=exp.Literal.string(found[3]), unit=unit))


def _put_arrow(node: exp.Lambda) -> None:
    """Write f(json -> 'key'), which the parser reads as a lambda, as a part of a JSON.

    No function takes a lambda first.
    """
    key = node.this
    while isinstance(key, exp.JSONExtract | exp.JSONExtractScalar):  # 'key' ->> 'other'
        key = key.this
    is_first = node.arg_key == "this" or node.index == 0
    if is_first and len(node.expressions) == 1 and isinstance(key, exp.Literal):
        column = exp.Column(this=node.expressions[0].copy())
        path = DuckDB().to_json_path(key.copy())
        key.replace(exp.JSONExtract(this=column, expression=path))
        node.replace(node.this)


# What x.f(…) does not mean f(x, …) for: schemas of functions, and syntax that looks like a call.
_SCHEMAS = {"main", "system", "temp", "pg_catalog", "information_schema"}
_CALLS = {"CEIL", "FLOOR", "MAX", "MIN", "SUBSTRING", "TRIM"}
_SYNTAX = {*DuckDB.Parser.FUNCTION_PARSERS, "COALESCE", "COUNT", "IF", "IFNULL"} - _CALLS
_AROUND = (exp.Paren, exp.Func, exp.Binary, exp.Bracket)  # the parents of bare names


def _put_call(dot: exp.Dot) -> None:
    """Write x.f(…) as f(x, …); before a call, sqlglot keeps the names of columns bare."""
    call, of = dot.expression, dot.this
    name = call.name.upper()
    if not isinstance(call, exp.Anonymous) or name in _SYNTAX or name.startswith("DATE"):
        return  # date_trunc and the like take a unit first
    of = exp.Paren(this=of.copy())  # so that it has a parent
    for one in list(of.find_all(exp.Dot)):
        if isinstance(one.this, exp.Identifier) and isinstance(one.expression, exp.Identifier):
            one.replace(exp.Column(this=one.expression.copy(), table=one.this.copy()))
    if of.find(exp.Lambda, exp.PropertyEQ, exp.Kwarg, exp.Query, exp.Window) is not None:
        return
    for bare in list(of.find_all(exp.Identifier)):
        if isinstance(bare.parent, exp.Column):
            continue
        if not isinstance(bare.parent, _AROUND):
            return
        bare.replace(exp.Column(this=bare.copy()))
    first = of.this.parts[0].name.lower() if isinstance(of.this, exp.Column) else ""
    if first not in _SCHEMAS:
        given = [one.copy() for one in call.expressions]
        with suppress(Exception):  # it takes no such arguments
            dot.replace(exp.func(call.name, of.this, *given, dialect=DuckDB))


def parsed_text(node: Node) -> str:
    """The SQL from which a node was parsed; `start` and `end` in its meta are offsets into it."""
    return str(node.root().meta["sql"])


def made_of(node: Node, made: Made) -> Made:
    """A node made of copies of parts of a tree, with the text into which their offsets point."""
    made.meta["sql"] = parsed_text(node)
    return made


def called_as(node: Node) -> str:
    """The name by which the statement calls a function; "": it has none."""
    with suppress(Exception):  # else sqlglot's name: the text may no longer be the node's
        tokens = tokenize(parsed_text(node))
        for i, token in tokens.calls():
            if projection(tokens[i : tokens.matching(i + 1) + 1].text) == node:
                return token.text.lower()
    name = str(node.sql("duckdb", unsupported_level=ErrorLevel.IGNORE)).partition("(")[0].lower()
    return name if name.isidentifier() else ""


def projection(text: str) -> Node | None:
    """The tree of one expression of a SELECT list; None if there is not exactly one."""
    try:
        tree = tree_of(f"SELECT {text}")
    except Unreadable:
        return None
    found = tree.args.get("expressions") or []
    return found[0] if len(found) == 1 and parts_of(tree) == {"expressions"} else None


def parts_of(node: Node) -> set[str]:
    """The names of the parts that a node has."""
    return {key for key, value in node.args.items() if value}


def to_sql(node: Node) -> str:
    """DuckDB's SQL of a tree, or Unreadable."""
    try:
        return str(node.sql(dialect=DuckDB))
    except Exception as error:
        raise Unreadable from error
