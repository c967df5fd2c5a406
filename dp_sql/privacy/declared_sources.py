"""Is the source of a DP call person-level: a union over people of each person's own rows?

Decides by a positive grammar; what the grammar does not name is refused. Never runs the source.
Without a policy the owner says whose row each row is (`privacy_unit :=`), so a base table, a file
and a dataframe are taken at the owner's word, and the word is written on the receipt. What is built
upon them, WHERE clauses, subqueries and views, must look at one row at a time.

What was checked is what is read: every relation is resolved here, and the source is handed on with
its full name (database.schema.name), so that no other relation of the same name can step in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from sqlglot import exp

from dp_sql.errors import NotPrivate, ParseError, QueryError, SourceError
from dp_sql.sql.dp_select import DpSelect
from dp_sql.sql.formatting import full_name
from dp_sql.sql.sqlglot_tree import Node, Unreadable, to_sql, tree_of
from dp_sql.sql.tokens import called, folded, tokenize

READERS = frozenset(
    {"read_parquet", "parquet_scan", "read_csv", "read_csv_auto", "read_json", "read_json_auto",
     "read_ndjson", "read_ndjson_auto"}
)  # fmt: skip
# Options that keep or drop rows by their place in a file, and columns that tell a row's place.
_BY_PLACE = {"file_row_number", "skip", "ignore_errors", "store_rejects", "rejects_limit"}
PLACES = {"rowid", "file_row_number", "file_index"}
_WAY_OUT = (
    "If each row of the result still is one person's, make it a table (CREATE TABLE … AS …) "
    "and name that table: its rows are then taken at your word."
)
Scope = tuple[str, str]
"""A database and a schema of it."""


@dataclass(frozen=True)
class Relation:
    """What the catalog says of a name.

    parts: its full name (database, schema, name); empty where it has none.
    view_sql: the text that created it, for a view; "" for a view whose text nobody kept; None
        for a table, and for a view that only shows a dataframe.
    is_table: whether it is a base table of the database.
    """

    parts: tuple[str, ...]
    view_sql: str | None
    is_table: bool = False


class Catalog(Protocol):
    """What check.py and plan.py may ask of an engine. No method reads a private row."""

    def relation(self, parts: tuple[str, ...], within: Scope | None = None) -> Relation | None:
        """The relation that a name means, here or in a view of the schema `within`.

        None where it is no table or view (a file, a dataframe, or nothing).

        Raises:
            NotPrivate: it could mean more than one.
        """

    def function_kinds(self, names: frozenset[str]) -> Mapping[str, frozenset[str]]:
        """What each name may be as a function; names that are no functions are left out.

        Kinds: "scalar" (a pure function of its arguments), "volatile", "aggregate", "macro", …
        Functions of the user that are named like one of the engine's are told unasked.
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

    source: the FROM clause as written, relations by their full names.
    base: False where the source is a view, subquery, file or dataframe: reading it twice costs
        more than keeping it once.
    private: names of the relations whose rows it reads.
    columns: names of its columns.
    scopes: what a column of it may be qualified with.
    joins: whether it joins people's rows with others, in a subquery or view.
    """

    reason: str
    assumptions: tuple[str, ...]
    source: str
    base: bool
    private: frozenset[str]
    columns: frozenset[str]
    scopes: frozenset[tuple[str, ...]]
    joins: bool = False


@dataclass
class _Findings:
    """What is gathered on the way. `within` is the schema of the view that is being read."""

    select: DpSelect
    catalog: Catalog
    within: Scope | None = None
    known: dict[tuple[tuple[str, ...], Scope | None], Relation | None] = field(default_factory=dict)
    assumptions: list[str] = field(default_factory=list)
    edits: list[tuple[int, int, str]] = field(default_factory=list)
    base: bool = True
    private: set[str] = field(default_factory=set)
    read: set[tuple[str, ...]] = field(default_factory=set)
    joined: set[tuple[str, ...]] = field(default_factory=set)


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
    findings = _Findings(select, catalog)
    try:
        for start, stop in filter(None, (select.source, select.condition)):
            _named_functions(select.text[start:stop], catalog, select, start)
        tree = parsed_source(select)
        condition = tree.args.get("where")
        if condition is not None:
            _row_wise(condition.this, "WHERE", select)
        _only(tree, {"expressions", "where"} | _FROM, select)
        _source(_from(tree), unit, findings)
        _disjoint(findings)
        source = _edited(select, findings)
        columns = _columns(f"SELECT * FROM {source}", catalog)
        if condition is not None and columns:
            _known(condition, columns, select)
    except NotPrivate as refusal:
        raise refusal.at(select.text, select.source[0]) from None
    except Unreadable:
        raise unreadable(select) from None
    name = select.source_text
    findings.assumptions.insert(0, f"each row of {name} belongs to the person in {unit}")
    return Approved(
        reason=f"{name} is read row by row",
        assumptions=tuple(dict.fromkeys(findings.assumptions)),
        source=source,
        base=findings.base,
        private=frozenset(findings.private),
        columns=columns,
        scopes=_scopes(_from(tree), findings),
        joins=bool(findings.joined),
    )


def approve_scores(select: DpSelect) -> Approved:
    """Take a source of scores at the owner's word, which goes on the receipt.

    Scores are computed over many people; how far one person moves them is what the sensitivity
    says, and nobody but the owner can know it.

    Raises:
        NotPrivate: the source is a CTE, which the private query cannot see, or the condition
            speaks of the score.
    """
    tokens = tokenize(select.source_text)
    for token in tokens:
        if token.name is not None and folded(token.name) in select.ctes:
            raise NotPrivate(
                f"{token.name} is a CTE, and a DP call reads tables, views and subqueries.",
                text=select.text,
                position=select.source[0] + token.start,
                hint="Put its SELECT into brackets after FROM, or into a view or table.",
            )
    _scores_apart(select)
    name = select.source_text
    public = "the candidates and their sensitivities"
    if select.keys:
        public = "the groups, the candidates and their sensitivities"
    return Approved(
        reason=f"the scores of {name} are the owner's",
        assumptions=(
            f"one person moves each score of {name} by at most its sensitivity, and never to or "
            "from NULL or infinity",
            f"{public} are public",
        ),
        source=name,
        base=False,
        private=frozenset(),
        columns=frozenset(),
        scopes=frozenset(),
    )


def _same_column(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether two names may mean one column: one is the end of the other."""
    n = min(len(one), len(other))
    return n > 0 and one[-n:] == other[-n:]


def _scores_apart(select: DpSelect) -> None:
    """Refuse a score that is also a candidate, a sensitivity, a group or part of the condition."""
    columns = [tuple(folded(part) for part in c.columns["score"].parts) for c in select.calls]
    scores = {parts[-1] for parts in columns}
    public = [call.columns[name] for call in select.calls for name in ("candidate", "sensitivity")]
    for reference in (*public, *select.keys):
        parts = tuple(folded(part) for part in reference.parts)
        if any(_same_column(parts, score) for score in columns):
            raise NotPrivate(
                f"{reference.text} is a score, which is made of people's data; candidates, "
                "sensitivities and groups must be public.",
                text=select.text,
                position=reference.position,
                hint="Name another column: DP_SELECT(candidate, score, sensitivity, …).",
            )
    for token in tokenize(select.condition_text or ""):
        if token.name is not None and folded(token.name) in scores and select.condition:
            raise NotPrivate(
                f"A condition on {token.name} lets people's data choose the candidates.",
                text=select.text,
                position=select.condition[0] + token.start,
                hint="Choose the candidates by what is public of them.",
            )


def _columns(select: str, catalog: Catalog) -> frozenset[str]:
    """Names of the columns that a SELECT lists; none where DuckDB cannot bind it (it will say)."""
    try:
        return frozenset(folded(name) for name, _ in catalog.columns(select))
    except SourceError:
        return frozenset()


def _scopes(node: Node, findings: _Findings) -> frozenset[tuple[str, ...]]:
    """What a column of a relation may be qualified with: its alias, or its name without one."""
    if node.alias:
        return frozenset({(folded(node.alias),)})
    if not isinstance(node, exp.Table) or isinstance(node.this, exp.Func):
        return frozenset()
    written = tuple(folded(part.name) for part in node.parts)
    relation = _relation(tuple(part.name for part in node.parts), findings)
    full = tuple(folded(part) for part in relation.parts) if relation is not None else ()
    found = {names[start:] for names in (written, full) for start in range(len(names))}
    if not full and len(written) == 1:  # a file goes by its name without folder and ending
        found.add((written[0].replace("\\", "/").rsplit("/", 1)[-1].split(".", 1)[0],))
    return frozenset(found)


def _disjoint(findings: _Findings) -> None:
    """A private table joined to itself shows one person's rows beside another's."""
    for parts in sorted(findings.read & findings.joined):
        raise NotPrivate(f"{parts[-1]} is joined to itself.", hint=_WAY_OUT)


_BEFORE_SOURCE, _BEFORE_CONDITION = "SELECT 1 FROM ", "\nWHERE "


def place_of(select: DpSelect, node: Node) -> int | None:
    """Where a node of `parsed_source` stands in the statement, as far as sqlglot kept it."""
    starts = [n.meta["start"] for n in node.walk() if "start" in n.meta]
    if not starts:
        return None
    begin, end = select.source
    offset = int(min(starts)) - len(_BEFORE_SOURCE)
    if offset <= end - begin or select.condition is None:
        return begin + offset
    return select.condition[0] + offset - (end - begin) - len(_BEFORE_CONDITION)


def _edited(select: DpSelect, findings: _Findings) -> str:
    """The source as written, with relations by their full names."""
    pieces, position = [], select.source[0]
    for start, stop, name in sorted(findings.edits):
        pieces += [select.text[position:start], name]
        position = stop
    return "".join([*pieces, select.text[position : select.source[1]]])


_FROM = {"from", "from_"}  # sqlglot renamed the key in the course of version 28


def _from(tree: Node) -> Node:
    clause = tree.args.get("from_") or tree.args.get("from")
    if clause is None:
        raise NotPrivate("A source without FROM holds nobody's rows.")
    found: Node = clause.this
    return found


def parsed_source(select: DpSelect) -> Node:
    """The tree of a source and its condition, as one SELECT.

    Raises:
        Unreadable: sqlglot cannot read it; `unreadable` says so to users.
        NotPrivate: it is more than one SELECT.
    """
    text = _BEFORE_SOURCE + select.source_text
    if select.condition_text is not None:
        text += _BEFORE_CONDITION + select.condition_text
    tree = tree_of(text)
    if not isinstance(tree, exp.Select):
        raise NotPrivate("The source of a DP call must be one table, view, file or dataframe.")
    return tree


def unreadable(select: DpSelect) -> ParseError:
    """The refusal of a source, or else of its condition, that sqlglot cannot read."""
    at = select.source[0]
    if select.condition is not None:
        try:
            tree_of(_BEFORE_SOURCE + select.source_text)
            at = select.condition[0]
        except Unreadable:
            pass
    return ParseError(
        "dp_sql cannot read this part, so it cannot prove that it is private.",
        text=select.text,
        position=at,
        hint="Put it into a column of a table, and select from that table.",
    )


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
                place_of(select, part) if select is not None and known else None,
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


# --- relations ------------------------------------------------------------------------------------


def _source(node: Node, unit: str, findings: _Findings) -> None:
    if isinstance(node, exp.Table):
        _table(node, unit, findings)
    elif isinstance(node, exp.Subquery):
        _only(node, {"this", "alias"})
        _alias(node)
        findings.base = False
        _simple_select(node.this, unit, findings)
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


def _table(node: exp.Table, unit: str, findings: _Findings) -> None:
    _only(node, {"this", "db", "catalog", "alias"})
    _alias(node)
    if isinstance(node.this, exp.Func):
        _reader(node.this, findings.catalog)
        findings.base = False
        return
    relation = _resolved(node, findings)
    findings.private.add(folded(node.name))
    if relation is not None:
        findings.read.add(relation.parts)
    if relation is None:
        findings.base = False  # a file or a dataframe, or nothing: DuckDB will say
    elif relation.view_sql is not None:
        findings.base = False
        _view(relation, unit, findings)


def _relation(parts: tuple[str, ...], findings: _Findings) -> Relation | None:
    """What a name means where we are; asked of the catalog once, which takes it milliseconds."""
    key = (parts, findings.within)
    if key not in findings.known:
        findings.known[key] = findings.catalog.relation(*key)
    return findings.known[key]


def _resolved(node: exp.Table, findings: _Findings) -> Relation | None:
    """What a table's name means; in the statement itself it is replaced by its full name."""
    parts = tuple(part.name for part in node.parts)
    name = parts[-1]
    if findings.within is None and len(parts) == 1 and folded(name) in findings.select.ctes:
        raise NotPrivate(
            f"{name} is a CTE, and a DP call reads tables.",
            hint=f"Write the DP call over the table itself, or over FROM (SELECT …) AS {name}.",
        )
    relation = _relation(parts, findings)
    if relation is not None and relation.parts and findings.within is None:
        first, last = node.parts[0].meta, node.parts[-1].meta
        shift = findings.select.source[0] - len(_BEFORE_SOURCE)
        if "start" not in first or "end" not in last:
            raise NotPrivate(f"The place of {name} in the statement is unclear.", hint=_WAY_OUT)
        span = (first["start"] + shift, last["end"] + 1 + shift)
        findings.edits.append((*span, full_name(relation.parts)))
    return relation


def _reader(function: Node, catalog: Catalog) -> None:
    name = function.name if isinstance(function, exp.Anonymous) else function.sql_name()  # type: ignore[attr-defined]
    name = folded(name)
    kinds = catalog.function_kinds(frozenset({name})).get(name, frozenset())
    if name not in READERS or kinds != frozenset({"table"}):
        raise NotPrivate(
            f"The table function {name} is not one that we know to read one row at a time.",
            hint=f"Known: {', '.join(sorted(READERS))}. {_WAY_OUT}",
        )
    if function.find(exp.Query) is not None:
        raise NotPrivate("The file to read must be written in the statement.")
    for named in function.find_all(exp.Identifier, exp.Var):
        if folded(named.name) in _BY_PLACE:
            raise NotPrivate(f"{named.name} goes by the place of a row, not by a person's data.")


def _view(relation: Relation, unit: str, findings: _Findings) -> None:
    name = relation.parts[-1] if relation.parts else "in a variable"
    outer, findings.within = (
        findings.within,
        (relation.parts[0], relation.parts[1]) if (relation.parts) else None,
    )
    try:
        body = view_body(relation.view_sql or "")
        if body is None:
            raise NotPrivate("its definition is not known, or beyond our grammar")
        _named_functions(body, findings.catalog)
        _simple_select(tree_of(body), unit, findings)
    except (Unreadable, QueryError) as refusal:
        why = refusal.message if isinstance(refusal, QueryError) else "it cannot be read"
        raise NotPrivate(
            f"The view {name} is not provably person-level: {why}", hint=_WAY_OUT
        ) from None
    findings.within = outer


def view_body(sql: str) -> str | None:
    """The query of CREATE VIEW name [(columns)] AS query; None where columns are renamed."""
    tokens = tokenize(sql)
    for index, token in enumerate(tokens):
        if token.upper == "AS":
            return sql[token.end :].rstrip().rstrip(";")
        if token.is_symbol("(") and index:
            return None
    return None


def _simple_select(tree: Node, unit: str, findings: _Findings) -> None:
    """A SELECT that keeps, drops and renames columns and rows, one row at a time."""
    if not isinstance(tree, exp.Select):
        raise NotPrivate("The source of a DP call must be one simple SELECT.", hint=_WAY_OUT)
    _only(tree, {"expressions", "where", "joins", "order", "distinct"} | _FROM)
    if tree.args.get("distinct") is not None:
        _only(tree.args["distinct"], set())  # DISTINCT ON picks between people; DISTINCT does not
    source, joins = _flattened(tree)
    own = _listed(source, findings)
    others = [_joined(join, findings) for join in joins]
    for place, parts in {
        "the list": tree.expressions,
        "WHERE": [tree.args["where"].this] if tree.args.get("where") is not None else [],
        "ON": [join.args["on"] for join in joins if join.args.get("on") is not None],
    }.items():
        for part in parts:
            _row_wise(part, place)
            _known(part, own.union(*others), None)
    _distinct_names(tree, joins, own, others)
    inner = _traced(tree, source, unit, own, frozenset().union(*others))
    for join, columns in zip(joins, others, strict=True):
        if {folded(unit), folded(inner)} & columns:
            raise NotPrivate(
                f"{join.this.name} has the privacy unit as a column, so its rows are people's.",
                hint=_WAY_OUT,
            )
    _source(source, inner, findings)


def _distinct_names(
    tree: Node, joins: list[Node], own: frozenset[str], others: list[frozenset[str]]
) -> None:
    """Refuse two columns of one name: DuckDB renames one of them, and perhaps to the unit."""
    shared = {folded(key.name) for join in joins for key in join.args.get("using") or []}
    names: list[str] = []
    for projection in tree.expressions:
        column = projection.unalias()
        star = column.this if isinstance(column, exp.Column) else column
        if not isinstance(star, exp.Star):
            names.append(folded(projection.alias_or_name or to_sql(projection)))
            continue
        of = folded(column.table) if isinstance(column, exp.Column) else ""
        aliases = [folded(join.this.alias_or_name) for join in joins]
        if of and of not in {folded(_flattened(tree)[0].alias_or_name), *aliases}:
            raise NotPrivate(f"{of}.* is not a star of a relation there.", hint=_WAY_OUT)
        dropped = star.args.get("except_") or star.args.get("except") or []
        gone = {folded(part.name) for part in dropped}
        mine = [own] if not of or of not in aliases else []
        mine += [c for a, c in zip(aliases, others, strict=True) if of in {"", a}]
        listed = [name for columns in mine for name in columns if name not in gone]
        names += [n for i, n in enumerate(listed) if of or n not in shared or n not in listed[:i]]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise NotPrivate(f"It has more than one column {twice[0]}.", hint=_WAY_OUT)


def _listed(node: Node, findings: _Findings) -> frozenset[str]:
    """Names of the columns that a relation lists."""
    text = to_sql(node)
    if isinstance(node, exp.Table) and not isinstance(node.this, exp.Func):
        parts = tuple(part.name for part in node.parts)
        relation = _relation(parts, findings)
        if relation is not None and relation.parts:
            text = full_name(relation.parts)
    found = _columns(f"SELECT * FROM {text}", findings.catalog)
    if not found:
        raise NotPrivate("DuckDB does not find what it reads.")
    return found


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


def _joined(join: Node, findings: _Findings) -> frozenset[str]:
    """Names of the columns of a table that is joined to the source on a key."""
    other = join.this
    side = (join.args.get("side") or "").upper()
    kind = (join.args.get("kind") or "").upper()
    keyed = join.args.get("on") is not None or join.args.get("using")
    if not keyed or side not in {"", "LEFT"} or kind not in {"", "INNER", "OUTER"}:
        raise NotPrivate("Only inner and left joins on a key can be read.", hint=_WAY_OUT)
    if join.args.get("method"):
        raise NotPrivate("Only plain joins can be read.", hint=_WAY_OUT)
    if not isinstance(other, exp.Table) or isinstance(other.this, exp.Func):
        raise NotPrivate("A join must be to a table.", hint=_WAY_OUT)
    _alias(other)
    _only(other, {"this", "db", "catalog", "alias"})
    relation = _resolved(other, findings)
    if relation is None or relation.view_sql is not None:
        raise NotPrivate("A join must be to a table, not to a view.", hint=_WAY_OUT)
    findings.joined.add(relation.parts)
    findings.assumptions.append(f"{other.name} is public (it is joined to people's rows)")
    return _listed(other, findings)


def _traced(
    tree: exp.Select, source: Node, unit: str, own: frozenset[str], others: frozenset[str]
) -> str:
    """The name under which the source knows the column that the SELECT calls `unit`.

    Every projection is looked at: exactly one may give the unit, and it must be a column of the
    source as it is, not an expression, not a column of a joined table, not another's alias.
    """
    name = folded(source.alias_or_name)
    wanted = folded(unit)
    found: list[str] = []
    for projection in tree.expressions:
        column = projection.unalias()
        if isinstance(column, exp.Star) or isinstance(getattr(column, "this", None), exp.Star):
            star = column.this if isinstance(column, exp.Column) else column
            of = folded(column.table) if isinstance(column, exp.Column) else ""
            _only(star, {"except", "except_"})
            dropped = star.args.get("except_") or star.args.get("except") or []
            if wanted in {folded(part.name) for part in dropped}:
                continue
            if of in {"", name} and wanted in own:
                found.append(unit)
            if of != name and wanted in others:
                raise NotPrivate(f"{unit} is a column of a joined table, too.", hint=_WAY_OUT)
        elif folded(projection.alias_or_name) == wanted:
            plain = isinstance(column, exp.Column) and len(column.parts) <= 2
            if not plain or folded(column.name) not in own:
                raise NotPrivate(f"{unit} is not a column there, but an expression.", hint=_WAY_OUT)
            if folded(column.table) != name and (column.table or folded(column.name) in others):
                raise NotPrivate(f"{unit} must come from {name}.", hint=_WAY_OUT)
            found.append(column.name)
    if len(found) != 1:
        raise NotPrivate(f"It has {'no' if not found else 'more than one'} column {unit}.")
    return found[0]


# --- expressions ----------------------------------------------------------------------------------

_ROW_WISE = (
    exp.Condition, exp.Identifier, exp.DataType, exp.DataTypeParam, exp.Var, exp.Interval,
    exp.Tuple, exp.Alias, exp.Star, exp.IntervalSpan, exp.Ordered, exp.AtTimeZone, exp.Slice,
    exp.JSONPath, exp.JSONPathPart,
)  # fmt: skip
_ACROSS_ROWS = (
    exp.AggFunc, exp.Window, exp.Query, exp.SubqueryPredicate, exp.Parameter, exp.Placeholder,
    exp.Explode, exp.Unnest, exp.Filter, exp.WithinGroup, exp.Lambda,
    exp.Columns,
)  # fmt: skip


def _row_wise(tree: Node, place: str, select: DpSelect | None = None) -> None:
    """Refuse every node that we do not know to look at one row only."""
    for node in tree.walk():
        if isinstance(node, exp.Any) and node.find(exp.Query) is None:
            continue  # = ANY(a list)
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
        position = None if select is None else place_of(select, node)
        message = f"{place} of the source of a DP call has {why}."
        raise _refusal(message, select, position)


def _known(tree: Node, columns: frozenset[str], select: DpSelect | None) -> None:
    """Refuse columns that the source does not list: rowid and its like tell a row's place."""
    for column in tree.find_all(exp.Column):
        names = {folded(part.name) for part in column.parts}
        by_place = (names & PLACES) - columns
        if not isinstance(column.this, exp.Star) and (by_place or not names & columns):
            position = None if select is None else place_of(select, column)
            message = f"{to_sql(column)} is not a listed column of the source."
            raise _refusal(message, select, position)


_PLAIN_SIGNS = {"=", "==", "<>", "!=", "<", ">", "<=", ">=", "(", ")", ",", ".", "::"}
# Words behind which DuckDB calls a function that is not written like a call.
_CALLING_WORDS = {
    "LIKE", "ILIKE", "GLOB", "SIMILAR", "ESCAPE", "INTERVAL", "EXTRACT", "AT", "COLLATE",
    "OVERLAPS", "POSITION", "SUBSTRING", "TRIM", "OVERLAY", "DATE", "TIME", "TIMESTAMP",
}  # fmt: skip


def _named_functions(
    text: str, catalog: Catalog, select: DpSelect | None = None, start: int = 0
) -> None:
    """Refuse every function that DuckDB does not call a pure function of its arguments.

    Operators other than comparisons, and words such as EXTRACT, are functions to DuckDB, and a
    macro may bear their names: the catalog tells of each that stands in for a function of DuckDB's.
    """
    tokens = tokenize(text)
    for token in tokens:
        if token.kind == "string" and token.text[0] in "eE":
            # sqlglot 28 ends such a string elsewhere than DuckDB does.
            raise _refusal(
                "A string with escapes is read in more than one way.", select, start + token.start
            )
    places = called(tokens)
    operators = [
        token
        for token in tokens
        if (token.kind == "symbol" and token.text not in _PLAIN_SIGNS)
        or token.upper in _CALLING_WORDS
    ]
    if not places and not operators:
        return
    for name, kinds in sorted(catalog.function_kinds(frozenset(places)).items()):
        if kinds != ({"table"} if name in READERS else {"scalar"}):
            message = f"The function {name} is not a pure function of one row."
            at = places.get(name, operators[0].start if operators else 0)
            raise _refusal(message, select, start + at)
