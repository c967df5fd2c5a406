"""May DuckDB itself run this statement around its DP calls?

On a plain connection DuckDB runs the owner's statement as it is written, with the rows of a source
in scope beside each call. So the statement is refused unless its tree shows that it reads the
sources only through the calls. The SELECT of a call has one row, whatever its source holds, and
shows nothing but answers and constants. All else reads these SELECTs and public tables. A session
or dp(…) puts releases in the place of the sources, and allows more.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import pairwise
from typing import Any

from sqlglot import exp

from dp_sql.errors import NotPrivate, NotSupported
from dp_sql.privacy.catalog import OwnersEngine
from dp_sql.privacy.refusals import Refused
from dp_sql.privacy.relations.as_written import check_replaced, check_strings
from dp_sql.sql.formatting import full_name
from dp_sql.sql.functions import FUNCTIONS
from dp_sql.sql.sqlglot_tree import Node, Unreadable, to_sql, tree_of
from dp_sql.sql.statement import Statement
from dp_sql.sql.tokens import Edit, Tokens, edited, folded, tokenize

IN_DP = "Write the query into dp, FROM dp($$ SELECT … $$), or ask with dp_sql.connect(…)."
NO_PARAMETERS = "DuckDB does not show dp_sql the values of a plain statement's parameters."
_SOURCE = ("from_", "joins", "where")
_PARTS = {"expressions", *_SOURCE, "limit", "offset", "order", "distinct", "with_"}
_NAMES = {"group": "GROUP BY", "sample": "USING SAMPLE", "pivots": "PIVOT"}
# What an item beside a call may not be: a row of the source, or a number of its rows.
_READS_ROWS = (exp.Query, exp.SubqueryPredicate, exp.AggFunc, exp.Star, exp.Columns)
_CHANGES = (exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.Create, exp.Copy, exp.Drop,
            exp.Command, exp.Into, exp.Pivot, exp.TableSample)  # fmt: skip
_FROM_NOTHING = {"unnest", "range", "generate_series", "generateseries", "repeat"}
_MACROS = {"table_macro", "macro"}
_KEPT_OUT = _MACROS | {"table", "pragma"}


def check_around(statement: Statement, engine: OwnersEngine) -> None:
    """Refuse (NotSupported) a statement that may read a source otherwise than through its calls."""
    try:
        check_strings(statement.tokens)
        beside = _beside_calls(statement)
        check_replaced(beside, engine)
    except Refused as refusal:
        raise NotSupported(refusal.message, hint=IN_DP) from None
    if any(token.is_symbol("?", "$") for token in statement.tokens):
        hint = "Write the value into it, or pass it to dp_sql.connect(…).sql(…, params=…)."
        raise NotSupported(NO_PARAMETERS, hint=hint)
    tokens = statement.tokens
    if any(tokens.at(i - 1).is_symbol("(") and t.upper == "TABLE"
           for i, t in enumerate(tokens)):  # fmt: skip
        raise NotSupported("TABLE next to a DP call is not supported here.", hint="Write FROM.")
    if not _is_only_calls(statement):
        _check_tree(statement, engine)
    _check_macros(beside, engine)


def _is_only_calls(statement: Statement) -> bool:
    """Whether it is SELECT, DP calls and their aliases, FROM and WHERE, with nothing beside them.

    No call has a bracket in it: neither a query nor a function. Then no tree shows anything else.
    """
    selects, calls, beside = statement.selects, statement.calls, statement.around_sources
    n_conditions = sum(one.condition is not None for one in selects)
    names = {b.start for a, b in pairwise(beside) if a.upper == "AS" and b.name is not None}
    words = [one.text.upper() for one in beside if one.start not in names and one.upper != "AS"]
    opened = [t for call in calls for t in selects[0].between(call.span) if t.is_symbol("(")]
    wanted = ["SELECT", *[","] * (len(calls) - 1), "FROM", *["WHERE"] * n_conditions]
    return words == wanted and len(opened) == len(calls)


def _check_tree(statement: Statement, engine: OwnersEngine) -> None:
    """Refuse what the tree of a statement shows beside its calls."""
    try:
        tree = tree_of(_without_comments(statement.tokens))
    except Unreadable:
        raise NotSupported("dp_sql cannot read this statement.", hint=IN_DP) from None
    calls = statement.calls
    around = _Around(tree, engine, {folded(c.privacy_unit.parts[-1]) for c in calls
                                    if c.parameters.reads_people})  # fmt: skip
    if around.n_found != len(calls) or len(calls) != sum(around.n_calls.values()):
        raise NotSupported("dp_sql cannot read this statement.", hint=IN_DP)
    around.check()


def _check_macros(beside: str, engine: OwnersEngine) -> None:
    """Refuse macros around the calls, also with a name that sqlglot takes for a function."""
    names = frozenset(tokenize(beside).called())
    found = engine.functions_in(beside) if names else frozenset[str]()
    if found is not None and engine.are_no_macros(found):  # faster than listing all functions
        return
    kinds = engine.function_kinds(names)
    for name in sorted(names):
        if _MACROS & kinds.get(name, frozenset()):
            raise _unsupported(f"The macro {name}")


def _beside_calls(statement: Statement) -> str:
    """The query without its DP calls and what they read: their plans check those."""
    edits: set[Edit] = set()
    for select in statement.selects:
        edits |= {(*span, "NULL") for span in select.call_spans}
        edits |= {(*span, to) for span, to in ((select.source, "t"), (select.condition, "true"))
                  if span is not None}  # fmt: skip
    outer = [
        one for one in edits
        if not any(a <= one[0] and one[1] <= b for a, b, _ in edits if (a, b) != one[:2])
    ]  # fmt: skip
    return edited(statement.text, outer, statement.query_start)


def _without_comments(tokens: Tokens) -> str:
    """A statement in one line: parsers differ in where a comment ends."""
    pairs = zip(tokens, [None, *tokens], strict=False)
    return "".join(
        " " * (before is not None and before.end < token.start) + token.text
        for token, before in pairs
    )


def _is_call(node: Node) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.upper() in FUNCTIONS


class _Around:
    """The tree of a statement, its SELECTs with DP calls, and its CTEs.

    n_found: how many DP calls there are. n_calls: how many are in each SELECT itself, by id().
    """

    def __init__(self, tree: Node, engine: OwnersEngine, units: Set[str]) -> None:
        self._tree, self._engine, self._units = tree, engine, units
        nodes = [*tree.walk()]
        calls = [*filter(_is_call, nodes)]
        selects = [call.find_ancestor(exp.Select) for call in calls]
        self.n_found, self.n_calls = len(calls), Counter(id(s) for s in selects if s is not None)
        self._selects = [s for s in nodes if isinstance(s, exp.Select) and id(s) in self.n_calls]
        self._ctes: dict[str, list[Any]] = {}
        for cte in nodes:
            if isinstance(cte, exp.CTE):
                self._ctes.setdefault(folded(cte.alias), []).append(cte)
        self._reached: set[int] = set()

    def check(self) -> None:
        query = _query(self._tree)
        for select in self._selects:
            _check_select(select)
        outside = list(self._outside(query))
        sources = self._sources()
        if isinstance(self._tree, exp.Insert):  # a key of the table may reject or skip the answer
            for target in self._tree.this.find_all(exp.Table):
                self._check_table(target, sources)
        for node in outside:
            if isinstance(node, exp.Table):
                self._check_table(node, sources)
            elif isinstance(node, _CHANGES) and node is not query:
                raise _refused(f"{node.key.upper()} around a DP call is not supported here.")
        self._check_functions(outside)

    def _outside(self, node: Node) -> Iterator[Node]:
        """The nodes of a query that are in no source, with the CTEs that they read."""
        waiting = [node]
        while waiting:
            one = waiting.pop()
            yield one
            if isinstance(one, exp.Table):
                for cte in self._ctes.get(folded(one.name), ()):
                    if id(cte) not in self._reached:
                        self._reached.add(id(cte))
                        waiting.append(cte.this)
            skipped = _SOURCE if id(one) in self.n_calls else ()
            for key, value in one.args.items():
                inside = value if isinstance(value, list) else [value]
                nodes = [x for x in inside if isinstance(x, exp.Expression)]
                waiting += [x for x in nodes if key not in skipped and not isinstance(x, exp.CTE)]

    def _sources(self) -> dict[str, list[exp.Table]]:
        """All relations that sources may read, with their CTEs, by folded name."""
        parts = [value for s in self._selects for key, value in s.args.items() if key in _SOURCE]
        roots = [x for value in parts for x in (value if isinstance(value, list) else [value]) if x]
        roots += [c for ctes in self._ctes.values() for c in ctes if id(c) not in self._reached]
        found: dict[str, list[exp.Table]] = {}
        while roots:
            for table in roots.pop().find_all(exp.Table):
                known = found.setdefault(folded(table.name), [])
                if not known:
                    roots += self._ctes.get(folded(table.name), ())
                known.append(table)
        return found

    def _check_table(self, node: exp.Table, sources: Mapping[str, Sequence[exp.Table]]) -> None:
        """A relation outside the sources: a CTE, or a table that holds no rows of a source."""
        if isinstance(node.this, exp.Func):
            name = folded(node.this.name or node.this.key)
            if name not in _FROM_NOTHING:
                raise _unsupported(f"The table function {name}")
            return
        parts = tuple(part.name for part in node.parts)
        shown = ".".join(parts)
        try:
            found = self._engine.relation(parts)
        except NotPrivate as refusal:
            raise _refused(refusal.message) from None
        if found is None and len(parts) == 1 and self._is_cte(node):
            return
        if found is None or not found.is_table:
            raise _refused(f"{shown} is not a table. Only tables can be read next to a DP call.")
        columns = {folded(name) for name, _ in self._engine.columns(
            f"SELECT * FROM {full_name(found.parts)}")}  # fmt: skip
        if columns & self._units or folded(parts[-1]) in sources or self._reads_view(sources):
            raise _refused(f"{shown} is read next to a DP call, which may show rows of its source.")

    def _is_cte(self, node: exp.Table) -> bool:
        """Whether a CTE of this name is defined around a table, and before it."""
        around, parent = [], node.parent
        while parent is not None:
            around.append(parent)
            parent = parent.parent
        for cte in self._ctes.get(folded(node.name), ()):
            if cte.parent.parent in around:
                ctes = [id(one) for one in cte.parent.expressions]
                inside = next((ctes.index(id(one)) for one in around if id(one) in ctes), len(ctes))
                if ctes.index(id(cte)) < inside + bool(cte.parent.args.get("recursive")):
                    return True
        return False

    def _reads_view(self, sources: Mapping[str, Sequence[exp.Table]]) -> bool:
        names = (tuple(p.name for p in node.parts) for some in sources.values() for node in some)
        found = map(self._engine.relation, names)
        return any(one is not None and not one.is_table for one in found)

    def _check_functions(self, outside: Sequence[Node]) -> None:
        """Refuse macros and unknown functions: a call may hide in them."""
        names = {
            folded(n.name) for n in outside if isinstance(n, exp.Anonymous) and not _is_call(n)
        }
        kinds = self._engine.function_kinds(frozenset(names)) if names else {}
        for name in sorted(names):
            if not kinds.get(name) or _KEPT_OUT & kinds[name]:
                raise _unsupported(f"The function {name}")


def _query(tree: Any) -> Any:
    """The query of a statement that DuckDB may run as it is written."""
    match tree:
        case exp.Query():
            return tree
        case exp.Create() if tree.args.get("kind") == "TABLE" and tree.expression:
            return tree.expression
        case exp.Insert() if not any(tree.args.get(key) for key in ("conflict", "returning")):
            return tree.expression
        case exp.Copy() if isinstance(tree.this, exp.Query):
            return tree.this
    message = f"A DP call in {tree.key.upper()} is not supported here."
    hint = "Write it in a SELECT, CREATE TABLE … AS, INSERT or COPY. "
    raise NotSupported(message, hint=hint + "CREATE VIEW and PREPARE take FROM dp($$ SELECT … $$).")


def _check_select(select: Node) -> None:
    """A SELECT with DP calls has one row, and shows answers and constants only."""
    for key, value in select.args.items():
        if value and key not in _PARTS:
            raise _unsupported(_NAMES.get(key, key.upper()))
    for key in ("limit", "offset"):
        clause = select.args.get(key)
        if clause is not None and not _is_number(clause.expression):
            raise _refused(f"{key.upper()} next to a DP call takes a number here.")
    aliases = {folded(item.alias) for item in select.expressions if item.alias}
    order = select.args.get("order")
    for ordered in order.expressions if order is not None else ():
        key = ordered.this
        named = isinstance(key, exp.Column) and len(key.parts) == 1 and folded(key.name) in aliases
        if not (named or _is_number(key)):
            raise _refused("ORDER BY next to a DP call takes a number or the name of an answer.")
    for item in select.expressions:
        _check_item(item)


def _is_number(node: Node) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string and node.this.isdecimal()


def _check_item(item: Node) -> None:
    if item.find(exp.Window):
        raise _unsupported("A window function")
    for node in item.walk(prune=_is_call):
        is_column = isinstance(node, exp.Column) and not _is_parameter(node, item)
        if isinstance(node, _READS_ROWS) or is_column:
            shown = f"{to_sql(node)} next to a DP call may show rows of its source."
            raise NotSupported(shown, hint="Ask for it in a query of its own.")


def _is_parameter(column: exp.Column, item: Node) -> bool:
    """Whether a name is a parameter of a lambda or a comprehension that is around it in an item.

    To DuckDB 1.5 one in other letters, YEAR for year, is none.
    """
    node: Any = column
    while node is not item and len(column.parts) == 1:
        node, place = node.parent, node.arg_key
        parameters = node.expressions if isinstance(node, exp.Lambda) else []
        if isinstance(node, exp.Comprehension) and place != "iterator":
            parameters = [node.args["expression"], node.args.get("position")]
        if column.name in {one.name for one in parameters if one is not None}:
            return True
    return False


def _unsupported(what: str) -> NotSupported:
    return _refused(f"{what} next to a DP call is not supported here.")


def _refused(message: str) -> NotSupported:
    return NotSupported(message, hint=IN_DP)
