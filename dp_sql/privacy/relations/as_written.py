"""An owner's expression that the compiler does not read: does it look at one row only?

It is decided by a positive grammar, from sqlglot's tree and from what the engine says of each
function that the SQL names. Then the expression is used as the owner wrote it, with the names of
its columns replaced. Nothing of an analyst's text comes here.
"""

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from sqlglot import exp

from dp_sql.errors import SourceError
from dp_sql.privacy.catalog import OwnersEngine, SchemaName
from dp_sql.privacy.expressions.value import Value
from dp_sql.privacy.refusals import BY_PARAMETER, Refused, Unbound, refuse
from dp_sql.privacy.relations.from_clause import From
from dp_sql.privacy.relations.tree import columns_in
from dp_sql.sql.clauses import Clause, enclosing_select
from dp_sql.sql.sqlglot_tree import Node, Unreadable, parsed_text, to_sql
from dp_sql.sql.tokens import Edit, Token, Tokens, edited, tokenize
from dp_sql.sql.types import has_fields

STORE_IT = (
    "If each row of the result still belongs to one person, store it (CREATE TABLE … AS …) and "
    "name that table: you then declare the person of each of its rows."
)
_ROW_WISE = (
    exp.Condition, exp.Identifier, exp.DataType, exp.DataTypeParam, exp.Var, exp.Interval,
    exp.Tuple, exp.Alias, exp.IntervalSpan, exp.Ordered, exp.AtTimeZone, exp.Slice,
    exp.JSONPath, exp.JSONPathPart,
)  # fmt: skip
_NOT_ROW_WISE: tuple[tuple[type | tuple[type, ...], str], ...] = (
    ((exp.Query, exp.SubqueryPredicate), "a subquery: it looks at other rows"),
    (exp.Window, "a window function: it looks at other rows"),
    (exp.AggFunc, "an aggregate: it looks at other rows"),
    ((exp.Parameter, exp.Placeholder), "a parameter: write the value into the statement"),
    (exp.Lambda, "a lambda, which is not supported here"),
    (exp.Columns, "COLUMNS(…), which is not supported here: name the columns"),
    ((exp.Explode, exp.Unnest, exp.Filter, exp.WithinGroup, exp.Star),
     "a part that may look at other rows"),
)  # fmt: skip
_NO_CALL = {"=", "==", "<>", "!=", "<", ">", "<=", ">=", ",", ".", "::"}
# Words for which DuckDB may call a function that is not written like a call.
_CALLING_WORDS = {
    "IN", "LIKE", "ILIKE", "GLOB", "SIMILAR", "ESCAPE", "INTERVAL", "AT", "COLLATE", "OVERLAPS",
    "CURRENT_CATALOG", "CURRENT_DATE", "CURRENT_ROLE", "CURRENT_SCHEMA", "CURRENT_TIME",
    "CURRENT_TIMESTAMP", "CURRENT_USER", "LOCALTIME", "LOCALTIMESTAMP", "SESSION_USER", "USER",
}  # fmt: skip
_JOIN_WORDS = {"JOIN", "LEFT", "RIGHT", "INNER", "CROSS", "FULL", "NATURAL", "ASOF", "POSITIONAL",
               "SEMI", "ANTI"}  # fmt: skip


def as_written(node: Node, source: From, engine: OwnersEngine) -> Value:
    """An expression of one row as SQL and with its type; else raises Refused or Unbound."""
    _name_columns(node)
    _check_row_wise(node)
    edits, used = [], {}
    every = [part.value(i) for part in source.parts for i in range(len(part.rows.values))]
    for column in node.find_all(exp.Column):
        value, n_parts = source.found(column)
        if n_parts < len(column.parts) and not has_fields(value.type):
            raise source.unknown(column)
        if column is node and n_parts == len(column.parts):
            return value
        first, last = column.parts[0].meta, column.parts[n_parts - 1].meta
        if "start" not in first or "end" not in last:
            why = f"dp_sql cannot find {to_sql(column)} in the text of the statement"
            raise refuse(column, why, STORE_IT)
        edits.append((first["start"], last["end"] + 1, value.sql))
        named = columns_in([value.sql])  # an alias may stand for several
        for one in (one for one in every if one.sql in named):
            used[column.name if one.sql == value.sql else one.sql, one.sql] = one.type
    sql = f"({_edited(node, edits)}\n)"
    _check_functions(node, engine)
    rows = ", ".join(f"CAST(NULL AS {kind}) AS {name}" for (_, name), kind in used.items())
    try:
        ((_, kind),) = engine.columns(f"SELECT {sql} AS v FROM (SELECT {rows or '1'}) AS t")
    except SourceError as error:
        message = error.message
        for own, name in used:
            message = message.replace(name, own)
        raise Unbound(node, error, message) from None
    return Value(sql, kind)


def _name_columns(tree: Node) -> None:
    """Before a method call, as in `title.upper()`, sqlglot keeps bare names; make them columns."""
    for dot in list(tree.find_all(exp.Dot)):
        if isinstance(dot.this, exp.Identifier) and isinstance(dot.expression, exp.Identifier):
            dot.replace(exp.Column(this=dot.expression, table=dot.this))
    for dot in tree.find_all(exp.Dot):
        for name in list(dot.this.find_all(exp.Identifier)):
            if not isinstance(name.parent, exp.Column) and name is not name.parent.expression:
                name.replace(exp.Column(this=name.copy()))


def _check_row_wise(tree: Node) -> None:
    for node in tree.walk():
        if isinstance(node, exp.Any) and node.find(exp.Query) is None:
            continue  # = ANY(a list)
        why = next((why for kinds, why in _NOT_ROW_WISE if isinstance(node, kinds)), "")
        if not why and isinstance(node, _ROW_WISE):
            continue
        why = why or "a part that dp_sql cannot prove to depend on one row alone"
        where = "WHERE of the source of a DP call"
        place = where if isinstance(tree.parent, exp.Where) else "This expression"
        refusal = refuse(node, f"{place} has {why}", STORE_IT)
        if not any("start" in inner.meta for inner in node.walk()):
            refusal.offset = (span(tree) or (None,))[0]
        raise refusal


def _check_functions(node: Node, engine: OwnersEngine) -> None:
    """Refuse a function that the engine does not call a pure function of its arguments."""
    start, stop = span(node) or (0, 0)
    text = parsed_text(node)[start:stop] or to_sql(node)
    places = tokenize(text).called()
    names = frozenset(places)
    if not names or engine.are_own_scalars(names):
        return
    found = engine.functions_in(f"SELECT {text}")
    if found is not None and engine.are_own_scalars(found):
        return
    for name, kinds in sorted(engine.function_kinds(names).items()):
        if name in names and kinds != {"scalar"}:
            why = f"The function {name} depends on more than the values of one row"
            if kinds == {"macro"}:
                why = f"{name} is a macro, which dp_sql does not read: write its expression instead"
            refusal = refuse(node, why, BY_PARAMETER if name == "getvariable" else STORE_IT)
            refusal.offset = start + places[name].start if stop else None
            raise refusal


def check_sql(sql: str, engine: OwnersEngine, within: SchemaName | None = None) -> None:
    """Refuse a query that sqlglot, this database and another may read differently."""
    check_strings(tokenize(sql))
    check_replaced(sql, engine, within)


def check_strings(tokens: Tokens) -> None:
    """Refuse strings with escapes: sqlglot 28 ends one elsewhere than DuckDB does."""
    if any(token.kind == "string" and token.text[0] in "eE" for token in tokens):
        raise Refused("A string with escapes is read in more than one way.", hint=STORE_IT)


def check_replaced(sql: str, engine: OwnersEngine, within: SchemaName | None = None) -> None:
    """Refuse a query where a function of the database's own may replace DuckDB's.

    within: the schema of the view whose query it is, where DuckDB looks for functions, too.
    """
    if not may_call(tokenize(sql)):
        return
    names = engine.functions_in(sql)
    if names is not None and engine.are_no_macros(names, within):
        return
    replaced = sorted(engine.function_kinds(frozenset()))
    if replaced:
        first = next((name for name in replaced if name in (names or ())), replaced[0])
        why = f"This database has a function {first} of its own, which could replace DuckDB's."
        raise Refused(why, hint=f"Drop or rename it. {STORE_IT}")


def may_call(tokens: Tokens) -> bool:
    """Whether DuckDB may look up a function for this SQL; if not, it need not be asked."""
    return any(
        token.upper in _CALLING_WORDS
        or (token.kind == "symbol" and (token.text not in _NO_CALL or _joined(token, after)))
        for token, after in zip_longest(tokens, tokens[1:])
    )


def _joined(token: Token, after: Token | None) -> bool:
    """Whether two symbols are one operator to DuckDB, as << and <=> are."""
    return after is not None and after.kind == "symbol" and after.start == token.end


def _edited(node: Node, edits: list[Edit]) -> str:
    """The SQL of an expression, with the names of columns replaced."""
    place = span(node)
    if place is None:
        if edits:
            why = "dp_sql cannot find this expression in the text of the statement"
            raise refuse(node, why, STORE_IT)
        return to_sql(node)
    return edited(parsed_text(node), edits, *place)


def span(node: Node) -> tuple[int, int] | None:
    """Where an expression of a list, WHERE or ON is in the SQL; None where that is not known."""
    alias = node.parent.args.get("alias") if isinstance(node.parent, exp.Alias) else None
    parts = [*node.walk(), *(alias.walk() if alias is not None else ())]
    starts = [part.meta["start"] for part in parts if "start" in part.meta]
    if not starts:
        return None
    text = parsed_text(node)
    tokens = tokenize(text)
    index = max(i for i, token in enumerate(tokens) if token.start <= min(starts))
    if isinstance(node.parent, exp.Explode | exp.Unnest):
        return _in_unnest(tokens, index)
    clause = enclosing_select(tokens, index).clause_of(index)
    if clause is None:
        raise Unreadable
    if clause.keyword == "SELECT":
        return _in_list(tokens, clause, index, alias)
    first, last = clause.start + 1, clause.stop
    if clause.keyword == "FROM":
        first = _on(tokens, index) + 1
        last = next(_ends_of_on(tokens, first, last), last)
    elif clause.keyword != "WHERE":
        raise Unreadable
    return tokens[first:last].span


def _in_list(tokens: Tokens, clause: Clause, index: int, alias: Any) -> tuple[int, int] | None:
    """The item of a list that has a token, without its alias; None in * REPLACE a AS b."""
    first, last = clause.start + 1, clause.stop
    first += tokens[first].upper in {"DISTINCT", "ALL"}
    if alias is not None and isinstance(alias.parent.parent, exp.Star):
        words = (i for i in range(first, index) if tokens[i].upper == "REPLACE")
        lists = (i + 1 for i in words if tokens[i + 1].is_symbol("("))
        begin = next((i for i in lists if tokens.matching(i) > index), None)
        if begin is None:
            return None
        first, last = begin + 1, tokens.matching(begin)
    first, last = next((a, b) for a, b in tokens.split(first, last) if a <= index < b)
    if alias is not None and tokens[first].start == alias.meta.get("start"):
        first += 2  # alias: expression
    elif alias is not None:
        at = alias.meta.get("start", -1)
        last = next(i for i in range(first, last) if tokens[i].start == at)
        last -= tokens[last - 1].upper == "AS"
    return tokens[first:last].span


def _in_unnest(tokens: Tokens, index: int) -> tuple[int, int]:
    """What is in the brackets of the innermost unnest(…) around a token."""
    for i in range(index, 0, -1):
        if tokens[i].is_symbol("(") and tokens[i - 1].upper == "UNNEST":
            last = tokens.matching(i)
            if last > index:
                return tokens[i + 1 : last].span
    raise Unreadable


def _on(tokens: Tokens, index: int) -> int:
    """The keyword ON before a token, outside of the brackets that close in between."""
    depth = 0
    for i in range(index, -1, -1):
        depth += tokens[i].is_symbol(")") - tokens[i].is_symbol("(")
        if tokens[i].upper == "ON" and depth <= 0:
            return i
    raise Unreadable


def _ends_of_on(tokens: Tokens, start: int, stop: int) -> Iterator[int]:
    """Where an ON clause may end: at another join, or at the bracket around the joins."""
    depth = 0
    for i in range(start, stop):
        depth += tokens[i].is_symbol("(") - tokens[i].is_symbol(")")
        is_call = i + 1 < len(tokens) and tokens[i + 1].is_symbol("(")
        if depth < 0 or (depth == 0 and tokens[i].upper in _JOIN_WORDS and not is_call):
            yield i
