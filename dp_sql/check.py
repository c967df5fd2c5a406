"""Is the source of a DP call person-level: a union over people of each person's own rows?

Decides by a positive grammar; what the grammar does not name is refused. Never runs the source.
Without a policy the owner says whose row each row is (`privacy_unit :=`), so a base table, a file
and a dataframe are taken at the owner's word, and the word is written on the receipt. What is built
upon them, WHERE clauses, subqueries and views, must look at one row at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from dp_sql.errors import NotPrivate, NotSupported, ParseError, QueryError
from dp_sql.parse import Token, matching, tokenize
from dp_sql.recognise import DpSelect

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node  # the root class of sqlglot 30; 28 calls it other
else:
    Node = Any

READERS = frozenset(
    {"read_parquet", "parquet_scan", "read_csv", "read_csv_auto", "read_json", "read_json_auto",
     "read_ndjson", "read_ndjson_auto"}
)  # fmt: skip
_WAY_OUT = (
    "If each row of the result still is one person's, make it a table (CREATE TABLE … AS …) "
    "and name that table: its rows are then taken at your word."
)


@dataclass(frozen=True)
class Relation:
    """What the catalog says of a name: the text of its view, or None for a table or a file."""

    view_sql: str | None


class Catalog(Protocol):
    """What check.py and plan.py may ask of an engine. No method reads a private row."""

    def relation(self, parts: tuple[str, ...]) -> Relation | None:
        """The relation of that name; None where it is no table or view (a file, a dataframe)."""

    def function_kinds(self, names: frozenset[str]) -> Mapping[str, frozenset[str]]:
        """What each name may be as a function; names that are no functions are left out.

        Kinds: "scalar" (a pure function of its arguments), "volatile", "aggregate", "macro", …
        """

    def builtin_kinds(self, names: frozenset[str]) -> Mapping[str, frozenset[str]]:
        """The same of the engine's own functions, from memory; macros are not looked at."""

    def columns(self, select: str) -> list[tuple[str, str]]:
        """Names and types of a SELECT's columns, without running it."""

    def public_values(self, select: str) -> list[object]:
        """The first column of a SELECT over public data."""


@dataclass(frozen=True)
class Approved:
    """A source that is person-level, why, and what of that is the owner's word.

    `base` is False where the source is a view, subquery, file or dataframe: reading it twice
    costs more than keeping it once. `private` names the relations whose rows it reads.
    """

    reason: str
    assumptions: tuple[str, ...]
    base: bool
    private: frozenset[str]


@dataclass
class _Findings:
    assumptions: list[str] = field(default_factory=list)
    base: bool = True
    private: set[str] = field(default_factory=set)
    joined: set[str] = field(default_factory=set)


def approve(select: DpSelect, unit: str, catalog: Catalog) -> Approved:
    """Approve the source of a SELECT with DP calls, or refuse it.

    Args:
        select: where the source and its condition stand in the text.
        unit: unquoted name of the column that says whose row each row is.
        catalog: answers what names mean.

    Raises:
        NotPrivate: the source is not provably person-level.
        ParseError: the source or its condition is beyond our grammar.
    """
    findings = _Findings()
    try:
        for start, stop in filter(None, (select.source, select.condition)):
            _named_functions(select.text[start:stop], catalog, select, start)
        tree = _parsed(select)
        if tree.args.get("where") is not None:
            _row_wise(tree.args["where"].this, "WHERE", select)
        _only(tree, {"expressions", "where"} | _FROM, select)
        _source(_from(tree), unit, select.ctes, catalog, findings)
        _disjoint(findings)
    except NotPrivate as refusal:
        raise refusal.at(select.text, select.source[0]) from None
    name = select.source_text
    findings.assumptions.insert(0, f"each row of {name} belongs to the person in {unit}")
    return Approved(
        reason=f"{name} is read row by row",
        assumptions=tuple(dict.fromkeys(findings.assumptions)),
        base=findings.base,
        private=frozenset(findings.private),
    )


def _disjoint(findings: _Findings) -> None:
    """A private table joined to itself shows one person's rows beside another's."""
    for name in sorted(findings.private & findings.joined):
        raise NotPrivate(f"{name} is joined to itself.", hint=_WAY_OUT)


_BEFORE_SOURCE, _BEFORE_CONDITION = "SELECT 1 FROM ", "\nWHERE "


def _offset(select: DpSelect, node: Node) -> int | None:
    """Where a node of the tree of `_parsed` stands in the statement, as far as sqlglot kept it."""
    starts = [n.meta["start"] for n in node.walk() if "start" in n.meta]
    if not starts:
        return None
    begin, end = select.source
    offset = int(min(starts)) - len(_BEFORE_SOURCE)
    if offset <= end - begin or select.condition is None:
        return begin + offset
    return select.condition[0] + offset - (end - begin) - len(_BEFORE_CONDITION)


_FROM = {"from", "from_"}  # sqlglot renamed the key in the course of version 28


def _from(tree: Node) -> Node:
    clause = tree.args.get("from_") or tree.args.get("from")
    if clause is None:
        raise NotPrivate("A source without FROM holds nobody's rows.")
    found: Node = clause.this
    return found


def _parsed(select: DpSelect) -> Node:
    text = _BEFORE_SOURCE + select.source_text
    if select.condition_text is not None:
        text += _BEFORE_CONDITION + select.condition_text
    try:
        tree = sqlglot.parse_one(text, read="duckdb")
    except SqlglotError:
        at = select.source[0]
        if select.condition is not None and _parses(_BEFORE_SOURCE + select.source_text):
            at = select.condition[0]
        raise ParseError(
            "dp_sql cannot read this part, so it cannot prove that it is private.",
            text=select.text,
            position=at,
            hint="Put it into a column of a table, and select from that table.",
        ) from None
    if not isinstance(tree, exp.Select):
        raise NotPrivate("The source of a DP call must be one table, view, file or dataframe.")
    return tree


def _parses(text: str) -> bool:
    try:
        sqlglot.parse_one(text, read="duckdb")
    except SqlglotError:
        return False
    return True


def _only(node: Node, allowed: set[str], select: DpSelect | None = None) -> None:
    """Refuse a node that carries anything beyond the allowed parts."""
    for key, value in node.args.items():
        if value and key not in allowed:
            part = value[0] if isinstance(value, list) else value
            known = select is not None and hasattr(part, "walk")
            raise _refusal(
                f"The source of a DP call cannot have {_SPOKEN.get(key, key.upper())}: its rows "
                "would then depend on more than one person, or we cannot prove that they do not.",
                select,
                _offset(select, part) if select is not None and known else None,
            )


def _refusal(message: str, select: DpSelect | None, position: int | None) -> NotPrivate:
    text = select.text if select is not None and position is not None else None
    return NotPrivate(message, text=text, position=position, hint=_WAY_OUT)


_SPOKEN = {
    "joins": "a join", "group": "GROUP BY", "laterals": "LATERAL", "pivots": "PIVOT",
    "sample": "a sample", "with": "WITH", "with_": "WITH", "qualify": "QUALIFY",
    "distinct": "DISTINCT", "limit": "LIMIT", "offset": "OFFSET", "windows": "WINDOW",
    "when": "a time travel clause", "ordinality": "WITH ORDINALITY",
}  # fmt: skip


def _source(
    node: Node,
    unit: str,
    ctes: frozenset[str],
    catalog: Catalog,
    findings: _Findings,
) -> None:
    if isinstance(node, exp.Table):
        _table(node, unit, ctes, catalog, findings)
    elif isinstance(node, exp.Subquery):
        _only(node, {"this", "alias"})
        _alias(node)
        findings.base = False
        _simple_select(node.this, unit, ctes, catalog, findings)
    else:
        raise NotPrivate(
            "The source of a DP call must be one table, view, file or dataframe.", hint=_WAY_OUT
        )


def _alias(node: Node) -> None:
    alias = node.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        raise NotPrivate(
            "Renaming columns in FROM … AS name(column, …) hides whose row a row is.",
            hint="Write the alias without the column list.",
        )


def _table(
    node: exp.Table, unit: str, ctes: frozenset[str], catalog: Catalog, findings: _Findings
) -> None:
    _only(node, {"this", "db", "catalog", "alias"})
    _alias(node)
    if isinstance(node.this, exp.Func):
        _reader(node.this)
        findings.base = False
        return
    parts = tuple(part.name for part in node.parts)
    if len(parts) == 1 and parts[0].lower() in ctes:
        raise NotPrivate(
            f"{parts[0]} is a CTE, and a DP call reads tables.",
            hint=f"Write the DP call over the table itself, or over FROM (SELECT …) AS {parts[0]}.",
        )
    findings.private.add(parts[-1].lower())
    relation = catalog.relation(parts)
    if relation is None:
        findings.base = False  # a file or a dataframe, or nothing: DuckDB will say
    elif relation.view_sql is not None:
        findings.base = False
        _view(parts, relation.view_sql, unit, catalog, findings)


def _reader(function: Node) -> None:
    name = function.name if isinstance(function, exp.Anonymous) else function.sql_name()  # type: ignore[attr-defined]
    if name.lower() not in READERS and type(function).__name__ not in {"ReadCSV", "ReadParquet"}:
        raise NotPrivate(
            f"The table function {name.lower()} is not one that we know to read one row at a time.",
            hint=f"Known: {', '.join(sorted(READERS))}. {_WAY_OUT}",
        )
    if function.find(exp.Query) is not None:
        raise NotPrivate("The file to read must be written in the statement.")


def _view(
    parts: tuple[str, ...], sql: str, unit: str, catalog: Catalog, findings: _Findings
) -> None:
    name = ".".join(parts)
    body = _view_body(sql)
    try:
        if body is None:
            raise NotPrivate("its definition is beyond our grammar")
        tree = sqlglot.parse_one(body, read="duckdb")
        _named_functions(body, catalog)
        _simple_select(tree, unit, frozenset(), catalog, findings)
    except (SqlglotError, QueryError) as refusal:
        why = refusal.message if isinstance(refusal, QueryError) else "it cannot be read"
        raise NotPrivate(
            f"The view {name} is not provably person-level: {why}", hint=_WAY_OUT
        ) from None


def _view_body(sql: str) -> str | None:
    """The query of CREATE VIEW name [(columns)] AS query; None where columns are renamed."""
    tokens = tokenize(sql)
    for index, token in enumerate(tokens):
        if token.upper == "AS":
            return sql[token.end :].rstrip().rstrip(";")
        if token.is_symbol("(") and index:
            return None
    return None


def _simple_select(
    tree: Node, unit: str, ctes: frozenset[str], catalog: Catalog, findings: _Findings
) -> None:
    """A SELECT that keeps, drops and renames columns and rows, one row at a time."""
    if not isinstance(tree, exp.Select):
        raise NotPrivate("The source of a DP call must be one simple SELECT.", hint=_WAY_OUT)
    _only(tree, {"expressions", "where", "joins", "order", "distinct"} | _FROM)
    if tree.args.get("distinct") is not None:
        _only(tree.args["distinct"], set())  # DISTINCT ON picks between people; DISTINCT does not
    for projection in tree.expressions:
        _row_wise(projection, "the list")
    if tree.args.get("where") is not None:
        _row_wise(tree.args["where"].this, "WHERE")
    source, joins = _flattened(tree)
    _joins(joins, catalog, findings)
    inner = _traced(tree, source, unit, bool(joins), catalog)
    _source(source, inner, ctes, catalog, findings)


def _flattened(tree: Node) -> tuple[Node, list[Node]]:
    """The first relation of FROM and all that is joined to it; DuckDB stores joins in brackets."""
    source = _from(tree)
    joins = [*(source.args.get("joins") or []), *(tree.args.get("joins") or [])]
    while (
        isinstance(source, exp.Subquery)
        and isinstance(source.this, exp.Table | exp.Subquery)
        and not source.args.get("alias")
    ):
        source = source.this
        joins = [*(source.args.get("joins") or []), *joins]
    source = source.copy()
    source.set("joins", None)
    return source, joins


def _joins(joins: list[Node], catalog: Catalog, findings: _Findings) -> None:
    for join in joins:
        other = join.this
        side = (join.args.get("side") or "").upper()
        kind = (join.args.get("kind") or "").upper()
        keyed = join.args.get("on") is not None or join.args.get("using")
        if not keyed or side not in {"", "LEFT"} or kind not in {"", "INNER", "OUTER"}:
            raise NotPrivate("Only inner and left joins on a key can be read.", hint=_WAY_OUT)
        if join.args.get("method"):
            raise NotPrivate("Only plain joins can be read.", hint=_WAY_OUT)
        if join.args.get("on") is not None:
            _row_wise(join.args["on"], "ON")
        if not isinstance(other, exp.Table) or isinstance(other.this, exp.Func):
            raise NotPrivate("A join must be to a table.", hint=_WAY_OUT)
        relation = catalog.relation(tuple(part.name for part in other.parts))
        if relation is None or relation.view_sql is not None:
            raise NotPrivate("A join must be to a table, not to a view.", hint=_WAY_OUT)
        findings.joined.add(other.name.lower())
        _alias(other)
        _only(other, {"this", "db", "catalog", "alias"})
        findings.assumptions.append(f"{other.name} is public (it is joined to people's rows)")


def _traced(tree: exp.Select, source: Node, unit: str, joined: bool, catalog: Catalog) -> str:
    """The name under which the source knows the column that the SELECT calls `unit`."""
    own = source.alias_or_name.lower()
    for projection in tree.expressions:
        column = projection.unalias()
        star = isinstance(column, exp.Star) or isinstance(getattr(column, "this", None), exp.Star)
        if star:
            table = column.table.lower() if isinstance(column, exp.Column) else ""
            _only(column.this if isinstance(column, exp.Column) else column, {"except", "except_"})
            if (table in {"", own}) and (not joined or _has(source, unit, catalog)):
                return unit
        elif projection.alias_or_name.lower() == unit.lower():
            if not isinstance(column, exp.Column):
                raise NotPrivate(f"{unit} is not a column there, but an expression.", hint=_WAY_OUT)
            mine = column.table.lower() == own if column.table else not joined
            if mine or (not column.table and _has(source, column.name, catalog)):
                return column.name
            raise NotPrivate(f"{unit} must come from {own}.", hint=_WAY_OUT)
    raise NotPrivate(f"It has no column {unit}.")


def _has(source: Node, column: str, catalog: Catalog) -> bool:
    found = catalog.columns(f"SELECT * FROM {source.sql(dialect='duckdb')}")
    return column.lower() in {name.lower() for name, _ in found}


_ROW_WISE = (
    exp.Condition, exp.Identifier, exp.DataType, exp.DataTypeParam, exp.Var, exp.Interval,
    exp.Tuple, exp.Alias, exp.Star, exp.IntervalSpan, exp.Ordered,
)  # fmt: skip
_ACROSS_ROWS = (
    exp.AggFunc, exp.Window, exp.Query, exp.SubqueryPredicate, exp.Parameter, exp.Placeholder,
    exp.Explode, exp.Unnest, exp.Filter, exp.WithinGroup, exp.Lambda,
)  # fmt: skip


def _row_wise(tree: Node, place: str, select: DpSelect | None = None) -> None:
    """Refuse every node that we do not know to look at one row only."""
    for node in tree.walk():
        if isinstance(node, exp.Query | exp.SubqueryPredicate):
            why = "a subquery: it looks at other rows"
        elif isinstance(node, exp.Window):
            why = "a window function: it looks at other rows"
        elif isinstance(node, exp.AggFunc):
            why = "an aggregate: it looks at other rows"
        elif isinstance(node, exp.Parameter | exp.Placeholder):
            why = "a parameter: write the value into the statement"
        elif isinstance(node, _ACROSS_ROWS) or not isinstance(node, _ROW_WISE):
            why = f"{type(node).__name__}, which we do not know to look at one row only"
        else:
            continue
        position = None if select is None else _offset(select, node)
        message = f"{place} of the source of a DP call has {why}."
        raise _refusal(message, select, position)


def _called(tokens: Sequence[Token]) -> dict[str, int]:
    """Names written like a call, with the place of the first one."""
    found: dict[str, int] = {}
    for token, after in pairwise(tokens):
        if after.is_symbol("(") and token.name is not None:
            found.setdefault(token.name.lower(), token.start)
    return found


def _named_functions(
    text: str, catalog: Catalog, select: DpSelect | None = None, start: int = 0
) -> None:
    """Refuse every function that DuckDB does not call a pure function of its arguments."""
    called = {n: at for n, at in _called(tokenize(text)).items() if n not in READERS}
    for name, kinds in sorted(catalog.function_kinds(frozenset(called)).items()):
        if kinds != {"scalar"}:
            message = f"The function {name} is not a pure function of one row."
            raise _refusal(message, select, start + called[name])


# --- the list around the calls --------------------------------------------------------------------


def check_list(select: DpSelect, catalog: Catalog) -> None:
    """Refuse what stands beside the DP calls in the list and would need the source's rows.

    After rewriting, the SELECT reads the releases and no longer the source; a column of the source
    would not be found, and an aggregate such as count(*) would silently count releases.

    Raises:
        NotSupported: a column, a star, an aggregate or a window beside the calls.
    """
    aliases = {a for a in (_alias_of(select, item) for item in select.items) if a is not None}
    for start, stop in select.items:
        blanked = _blanked(select, start, stop)
        _no_aggregates(select, start, blanked, catalog)
        try:
            tree = sqlglot.parse_one(f"SELECT {blanked}", read="duckdb").expressions[0]
        except SqlglotError:
            continue  # DuckDB reads it; without the source's rows in scope it can take none
        for node in tree.walk(prune=lambda n: isinstance(n, exp.Query | exp.Lambda)):
            if isinstance(node, exp.Star) or (
                isinstance(node, exp.Column) and node.name.lower() not in aliases
            ):
                shown = "*" if isinstance(node, exp.Star) else node.sql(dialect="duckdb")
                raise NotSupported(
                    f"{shown} would show rows of the source beside the private answer.",
                    text=select.text,
                    position=start,
                    hint="A SELECT with a DP call answers with DP calls, constants and "
                    "expressions of them. Ask for other things in a query of their own.",
                )


def _blanked(select: DpSelect, start: int, stop: int) -> str:
    """The text of one item with NULL, padded, in place of each call: offsets stay."""
    written = select.text[start:stop]
    for call in select.calls:
        if start <= call.start and call.end <= stop:
            blank = "NULL".ljust(call.end - call.start)
            written = written[: call.start - start] + blank + written[call.end - start :]
    return written


def _alias_of(select: DpSelect, item: tuple[int, int]) -> str | None:
    try:
        tree = sqlglot.parse_one(f"SELECT {_blanked(select, *item)}", read="duckdb").expressions[0]
    except SqlglotError:
        return None
    return tree.alias.lower() if isinstance(tree, exp.Alias) else None


def _no_aggregates(select: DpSelect, start: int, blanked: str, catalog: Catalog) -> None:
    tokens = tokenize(blanked)
    outside: list[Token] = []
    index = 0
    while index < len(tokens):
        opens = tokens[index].is_symbol("(")
        if opens and index + 1 < len(tokens) and tokens[index + 1].upper in _QUERY_STARTS:
            index = matching(tokens, index, blanked)
        else:
            outside.append(tokens[index])
        index += 1
    called = _called(outside)
    kinds = dict(catalog.builtin_kinds(frozenset(called)))
    kinds.update(catalog.function_kinds(frozenset(called) - kinds.keys()))
    found = [(t.upper, t.start) for t in outside if t.upper == "OVER"]
    found += [(name, at) for name, at in called.items() if "aggregate" in kinds.get(name, ())]
    if not found:
        return
    shown, at = found[0]
    raise NotSupported(
        f"{shown} beside a DP call would be computed over the answer, not over the source.",
        text=select.text,
        position=start + at,
        hint="Ask for it in a query of its own, or compute it over the answer in an outer query: "
        "SELECT … FROM (SELECT DP_…(…) AS answer FROM …)",
    )


_QUERY_STARTS = {"SELECT", "FROM", "WITH"}
