"""Window functions over one person's rows: PARTITION BY holds the privacy unit, or a link to it.

Which of two rows with equal keys comes first must not depend on where they are stored, as other
people's rows move them. So rows with equal keys are ordered by their values: only equal rows tie.
"""

from collections.abc import Callable, Sequence
from functools import partial

from sqlglot import exp

from dp_sql.privacy.expressions.comparisons import beside
from dp_sql.privacy.expressions.expression_compiler import settled
from dp_sql.privacy.expressions.literals import is_literal, whole_number
from dp_sql.privacy.expressions.predicates import COMPARABLE
from dp_sql.privacy.expressions.scope import Scope
from dp_sql.privacy.expressions.value import Value
from dp_sql.privacy.refusals import ALONE, Refused, refuse
from dp_sql.privacy.relations.as_written import span
from dp_sql.privacy.relations.from_clause import From, FromPart
from dp_sql.privacy.relations.person_groups import EVERY_ROW, are_of_one_person, total_type
from dp_sql.privacy.relations.rows import Rows
from dp_sql.privacy.relations.select_clauses import conditions, only, ordering
from dp_sql.privacy.relations.tree import WindowFunction, Windows
from dp_sql.sql.sqlglot_tree import Node, made_of
from dp_sql.sql.tokens import folded
from dp_sql.sql.types import family

_EXAMPLE = "For example: lag(ts) OVER (PARTITION BY user_id ORDER BY ts)."
_NULLS = "IGNORE NULLS", "Write SELECT user_id, arg_max(title, ts) AS t FROM … GROUP BY user_id."
_COUNTERS = ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile")
_OF_TIES = {"rank", "dense_rank", "percent_rank", "cume_dist"}  # rows with equal keys have one
_OF_A_ROW = ("lag", "lead", "first_value", "last_value", "nth_value")
_AGGREGATES = ("count", "min", "max", "sum", "avg")
_FRAME = "For example: ORDER BY ts ROWS BETWEEN 6 PRECEDING AND CURRENT ROW."
_WHOLE = "Add ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING."
_SIDES = ("UNBOUNDED PRECEDING", "PRECEDING", "CURRENT ROW", "FOLLOWING", "UNBOUNDED FOLLOWING")
_CURRENT = _SIDES.index("CURRENT ROW")
_MARK = "__dp_window_"
_Keys = Callable[[Sequence[Value]], bool]  # whether rows with equal keys are one person's
_FARTHEST = 1_000  # rows that lag and lead look away; the place of nth_value, the parts of ntile


def has_windows(tree: exp.Select, source: From) -> bool:
    """Whether a SELECT has QUALIFY or DISTINCT ON, or window functions in its list, not inside."""
    of_rows = any(map(tree.args.get, ("qualify", "windows"))) or bool(_windows(tree))
    return of_rows or _first_rows(tree, source) is not None


def _first_rows(tree: exp.Select, source: From) -> exp.Qualify | None:
    """DISTINCT ON (…) as QUALIFY row_number() OVER (…) = 1; None where it is not surely the same.

    Which row is the first of several that ORDER BY does not tell apart is free.
    """
    on = (tree.args.get("distinct") or tree).args.get("on")
    if not isinstance(on, exp.Tuple) or tree.args.get("qualify") or source.first_private is None:
        return None
    order = tree.args["order"].expressions if tree.args.get("order") else []
    keys = [*on.expressions, *(one.this for one in order)]
    named = {folded(one.alias): one.this for one in tree.expressions if isinstance(one, exp.Alias)}
    for key in keys:
        columns = [*key.find_all(exp.Column)]
        for column in columns:  # in these clauses an alias comes before a column
            meant = column if column.table else named.get(folded(column.name), column)
            if meant != column and source.has(column):
                return None
        if not columns:  # a number of the list
            return None
    order = [one for one in order if one.this not in on.expressions]
    window = exp.Window(
        this=exp.RowNumber(),
        partition_by=[key.copy() for key in on.expressions],
        order=exp.Order(
            expressions=[one.copy() for one in order] or [exp.Ordered(this=keys[0].copy())]
        ),
    )
    window.meta["distinct_on"] = True
    return exp.Qualify(this=exp.EQ(this=window, expression=exp.Literal.number(1)))


def _windows(tree: exp.Select) -> list[exp.Window]:
    parts = [*tree.expressions, *filter(None, [tree.args.get("qualify")])]
    found = [node for part in parts for node in part.find_all(exp.Window)]
    return [node for node in found if node.find_ancestor(exp.Select) is tree]


def windowed(
    tree: exp.Select,
    source: From,
    scope_of: Callable[[From], Scope],
    is_of_one_person: Callable[[Value], bool],
) -> tuple[exp.Select, From, Scope]:
    """A SELECT whose window functions are columns of its FROM, and whose QUALIFY is its WHERE.

    Raises Refused where a function could look at another person's rows.
    """
    if source.first_private is None:
        raise _not_here(tree, scope_of(source))
    tree = made_of(tree, tree.copy())
    if (first_rows := _first_rows(tree, source)) is not None:
        tree.set("qualify", first_rows)
        tree.set("distinct", None)
    _put_named_windows(tree)
    qualify = tree.args.get("qualify")
    if qualify is not None:
        _put_aliases(tree, qualify, source)
    _put_filters(tree)
    # The relation of each column, and its place there; IN and EXISTS read no column with a name.
    own = [(part, i) for part in source.parts for i in range(len(part.rows.names))]
    scope, columns = scope_of(source), [part.value(i) for part, i in own]
    is_own = partial(are_of_one_person, source=source, is_of_one_person=is_of_one_person)
    found, functions = _marked(tree, scope.over_groups(), columns, is_own)
    marks = [f"{_MARK}{i}" for i in range(len(found))]
    types = (*(one.type for one in columns), *(one.type for one in found))
    relation = Windows(source.select(columns), functions, types)
    outer = _outside(source, own, Rows(relation, (), (*columns, *found), source.person_type))
    plain = scope_of(outer)

    def is_mark(node: exp.Column) -> bool:
        return node.name in marks and not node.table

    def column(node: exp.Column) -> Value:
        if is_mark(node):
            return outer.parts[0].value(len(columns) + marks.index(node.name))
        try:
            return plain.column(node)
        except Refused:
            source.copy().column(node)  # in the names of FROM
            raise

    def as_written(node: Node) -> Value:
        """An owner's expression; of a window function, what an analyst may ask."""
        if plain.as_written is not None and not any(map(is_mark, node.find_all(exp.Column))):
            return plain.as_written(node)
        try:
            return scope._replace(as_written=None).compiled(node)
        except Refused:
            why = "This expression of a window function is not supported here"
            hint = "Name the window function in a subquery, and compute outside."
            raise refuse(node, why, hint) from None

    scope = plain._replace(column=column, as_written=plain.as_written and as_written)
    if qualify is not None:
        outer.where += conditions(qualify.this, scope)
        tree.set("qualify", None)
    return tree, outer, scope


def _outside(source: From, own: Sequence[tuple[FromPart, int]], rows: Rows) -> From:
    """A FROM clause with the names of another one, whose columns are the first of one relation."""
    rows = rows._replace(names=("",) * len(rows.values))
    outer = From([FromPart((), 0, rows)], added={(0, i) for i in range(len(rows.values))})
    places = {(part.number, i): (0, n) for n, (part, i) in enumerate(own)}
    outer.hidden = {places[column] for column in source.hidden}
    outer.elements = [one._replace(place=places[one.place]) for one in source.columns()]
    return outer


def _marked(
    tree: exp.Select, scope: Scope, columns: list[Value], is_own: _Keys
) -> tuple[tuple[Value, ...], tuple[WindowFunction, ...]]:
    """The window functions of a SELECT, which now has marks in their places.

    What they read is added to `columns`.
    """
    for column in tree.find_all(exp.Column):
        if column.name.startswith(_MARK) and not column.table:
            why = "Here dp_sql itself uses names that begin with __dp_window_"
            raise refuse(column, why, "Give this column another name in a subquery.")
    pairs = []
    for i, node in enumerate(_windows(tree)):
        try:
            pairs.append(_function(node, scope, columns, is_own))
        except Refused as refusal:
            if not any("start" in inner.meta for inner in refusal.node.walk()):
                refusal.offset = (span(node) or (None,))[0]
            raise
        node.replace(exp.Paren(this=exp.column(f"{_MARK}{i}", quoted=True)))  # it has no name
    return tuple(value for value, _ in pairs), tuple(function for _, function in pairs)


def _not_here(tree: exp.Select, scope: Scope) -> Refused:
    if scope.as_written is None:
        why = "Window functions are not supported over public tables here"
        return refuse(tree, why, ALONE)
    why = "Window functions are supported over a table with the privacy unit only"
    return refuse(tree, why, _EXAMPLE)


def _put_named_windows(tree: exp.Select) -> None:
    """Write the windows of the WINDOW clause out where they are used."""
    named = {folded(one.this.name): one for one in tree.args.get("windows") or []}
    used = set()
    for node in _windows(tree):
        alias = node.args.get("alias")
        if alias is not None and (one := named.get(folded(alias.name))) is not None:
            node.set("alias", None)
            for key in ("partition_by", "order", "spec", "alias"):  # (w ORDER BY …) has its own
                node.set(key, node.args.get(key) or one.copy().args.get(key))
            used.add(folded(alias.name))
    for name in named.keys() - used:
        raise refuse(tree, f"No function uses the window {name}", _EXAMPLE)
    tree.set("windows", None)


def _put_aliases(tree: exp.Select, qualify: Node, source: From) -> None:
    """Replace the names of the list that QUALIFY uses by what they mean; a column comes first."""
    named = {folded(one.alias): one.this for one in tree.expressions if isinstance(one, exp.Alias)}
    for node in [*qualify.find_all(exp.Column)]:
        name = folded(node.name)
        if not node.table and name in named and not source.has(node):
            node.replace(exp.Paren(this=named[name].copy()))


def _put_filters(tree: exp.Select) -> None:
    """Write count(*) FILTER (c) OVER … as count(CASE WHEN c THEN 1 END) OVER …, which is equal."""
    for node in _windows(tree):
        given, called = node.this, node.this.this
        if not isinstance(given, exp.Filter) or not isinstance(called, exp.Func):
            continue  # WITHIN GROUP is none
        if folded(called.sql_name()) not in _AGGREGATES:
            continue
        is_row = isinstance(called, exp.Count) and isinstance(called.this, (exp.Star, type(None)))
        if not isinstance(called.this, exp.Distinct):
            read = exp.Literal.number(1) if is_row else called.this.copy()
            case = exp.Case(ifs=[exp.If(this=given.expression.this.copy(), true=read)])
            called.set("this", case)
            node.set("this", called)


def _function(
    node: exp.Window, scope: Scope, columns: list[Value], is_own: _Keys
) -> tuple[Value, WindowFunction]:
    """A window function and its value; what it reads is added to the columns."""
    if node.args.get("alias") is not None:
        raise refuse(node, "There is no such window", _EXAMPLE)
    only(node, {"this", "partition_by", "order", "over", "spec"})
    partition = _partition(node, scope, columns, is_own)
    order = []
    for one in node.args["order"].expressions if node.args.get("order") is not None else []:
        way = ordering(one)
        order.append((_place(columns, scope.compiled(one.this), one), way))
    called = node.this
    if not isinstance(called, exp.Func):  # first_value(x IGNORE NULLS) OVER …
        what, hint = ("FILTER", _EXAMPLE) if isinstance(called, exp.Filter) else _NULLS
        raise refuse(node, f"{what} is not supported with this window function", hint)
    name = folded(called.name if isinstance(called, exp.Anonymous) else called.sql_name())
    value, arguments = _read(node, name, bool(order), scope, columns)
    frame = _frame(node, name)
    # RANGE is the default.
    has_ties = name in {*_OF_TIES, *_AGGREGATES} and not frame.startswith(" ROWS")
    return value, WindowFunction(name, arguments, partition, tuple(order), has_ties, frame)


def _place(columns: list[Value], value: Value, at: Node) -> int:
    """The place of a value among the columns; a new one is added behind them."""
    if family(value.type) not in COMPARABLE:
        raise refuse(at, f"Window functions take no {value.type} here", _EXAMPLE)
    known = [one.sql for one in columns]
    if value.sql not in known:
        columns.append(value)
    return known.index(value.sql) if value.sql in known else len(known)


def _partition(
    node: exp.Window, scope: Scope, columns: list[Value], is_own: _Keys
) -> tuple[int, ...]:
    """The places of the keys of PARTITION BY, whose rows are one person's."""
    keys = node.args.get("partition_by") or []
    places = tuple(_place(columns, scope.compiled(key), key) for key in keys)
    if is_own([columns[i] for i in places]):
        return places
    if node.meta.get("distinct_on"):
        hint = "DISTINCT ON (user_id) keeps the first row of each person."
        raise refuse(node, "DISTINCT ON in a source must list the privacy unit", hint)
    why = "A window function in a source must have the privacy unit in PARTITION BY"
    raise refuse(node, why, _EXAMPLE)


def _read(
    node: exp.Window, name: str, is_ordered: bool, scope: Scope, columns: list[Value]
) -> tuple[Value, str]:
    """The value of a window function, and its arguments as SQL."""
    called, count = node.this, Value("", "BIGINT")
    of_rows = (exp.Distinct, *EVERY_ROW, type(None))
    if isinstance(called, exp.Count) and isinstance(called.this, of_rows):
        only(called, {"this", "big_int"})
        if isinstance(called.this, exp.Distinct):
            only(called.this, {"expressions"})
            return count, _distinct(node, is_ordered, scope, columns)
        if called.this is not None:  # DuckDB 1.5 prints count(*) OVER as count() OVER
            only(called.this, set() if isinstance(called.this, exp.Star) else {"this", "is_string"})
        return count, "*"
    if name == "ntile" and is_ordered:
        only(called, {"this"})
        return count, _literal(called, name, called.this, 1)
    if name in _COUNTERS and is_ordered and not called.args.get("expressions"):
        only(called, {"this", "expressions"} if isinstance(called, exp.Anonymous) else set())
        return Value("", "DOUBLE") if name in {"percent_rank", "cume_dist"} else count, ""
    if name not in _AGGREGATES and not (name in _OF_A_ROW and is_ordered):
        known = f"{', '.join((*_COUNTERS, *_OF_A_ROW))} with ORDER BY, and {', '.join(_AGGREGATES)}"
        raise refuse(node, f"The supported window functions are {known}", _EXAMPLE)
    value, more = _argument(called, name, scope, columns)
    arguments = f"c{_place(columns, value, called)}{more}"
    if name in {"count", "sum", "avg"}:
        kinds = {"count": "BIGINT", "sum": total_type(value.type), "avg": "DOUBLE"}
        return Value("", kinds[name]), arguments
    # Beside a row it is not the value of that row's columns.
    return value._replace(origin=None, is_person=False, is_own=False, facts_of=""), arguments


def _distinct(node: exp.Window, is_ordered: bool, scope: Scope, columns: list[Value]) -> str:
    """The argument of count(DISTINCT x) OVER, of all rows of the partition."""
    given, is_framed = node.this.this.expressions, node.args.get("spec") is not None
    if len(given) != 1 or is_ordered or is_framed:
        why = "count(DISTINCT x) OVER takes one value, and neither ORDER BY nor ROWS"
        raise refuse(node, why, _EXAMPLE)
    return f"DISTINCT c{_place(columns, settled(scope.compiled(given[0]), node), node)}"


def _frame(node: exp.Window, name: str) -> str:
    """The rows that a window function reads, as SQL: ROWS BETWEEN …; "" for the default."""
    spec = node.args.get("spec")
    if spec is None and name in {"last_value", "nth_value"}:
        why = f"Without ROWS BETWEEN … AND UNBOUNDED FOLLOWING, {name} reads up to its row only"
        hint = "Write first_value with ORDER BY … DESC for the last value."
        raise refuse(node, why, hint if name == "last_value" else _WHOLE)
    if spec is None:
        return ""
    only(spec, {"kind", "start", "start_side", "end", "end_side"})
    for word in ("kind", "start_side", "end_side"):  # sqlglot keeps them as they are written
        spec.set(word, spec.text(word).upper())
    if name in {*_COUNTERS, "lag", "lead"} and _is_whole(spec):
        return ""  # these read the partition
    ends, sides = [], []
    for end in ("start", "end"):
        bound, side = spec.args.get(end) or "CURRENT ROW", spec.args.get(f"{end}_side") or ""
        number = whole_number(bound) if isinstance(bound, exp.Expression) else None
        is_number = number is not None and 0 <= number <= _FARTHEST and spec.text("kind") == "ROWS"
        if name not in {*_AGGREGATES, *_OF_A_ROW} - {"lag", "lead"} or not (
            is_number or bound in {"UNBOUNDED", "CURRENT ROW"}
        ):
            why = f"Frames are ROWS BETWEEN rows, up to {_FARTHEST} away, of aggregates, "
            raise refuse(node, f"{why}first_value, last_value and nth_value", _FRAME)
        ends.append(f"{bound if number is None else number} {side}".strip())
        sides.append(_SIDES.index(side if number is not None else ends[-1]))
    if sides[0] > sides[1] or sides[0] == len(_SIDES) - 1 or sides[1] == 0:
        raise refuse(node, "This frame ends before it starts", _FRAME)
    decide = {"first_value": sides[:1], "last_value": sides[1:]}.get(name, sides)
    if spec.text("kind") != "ROWS" and name in _OF_A_ROW and _CURRENT in decide:
        why = f"{name} reads any of the rows with equal keys here"
        raise refuse(node, why, "Write ROWS, which orders these by their values.")
    return f" {spec.text('kind')} BETWEEN {ends[0]} AND {ends[1]}"


def _is_whole(spec: Node) -> bool:
    """Whether a frame is UNBOUNDED PRECEDING to UNBOUNDED FOLLOWING, which ibis always writes."""
    parts = [spec.args.get(part) for part in ("start", "start_side", "end", "end_side")]
    return parts == ["UNBOUNDED", "PRECEDING", "UNBOUNDED", "FOLLOWING"]


def _argument(called: Node, name: str, scope: Scope, columns: list[Value]) -> tuple[Value, str]:
    """What a window function reads, and its further arguments as SQL."""
    may_look_away = name in {"lag", "lead", "nth_value"}
    only(called, {"this", "offset", "default"} if may_look_away else {"this", "big_int"})
    value, more = scope.compiled(called.this), ""
    if name in {"min", "max"}:
        value = settled(value, called)  # one value for all that are equal
    if name in {"sum", "avg"} and not total_type(value.type):
        why = f"{name} takes integers up to 64 bits and decimals up to 18 digits here"
        raise refuse(called, why, _EXAMPLE)
    if (offset := called.args.get("offset")) is not None or name == "nth_value":
        more = f", {_literal(called, name, offset, int(name == 'nth_value'))}"
    if (default := called.args.get("default")) is not None:
        other = _default(default, name, value, scope, columns)
        value, more = value._replace(bound=None, literal=""), f"{more}, {other}"
    return value, more


def _literal(called: Node, name: str, given: Node | None, least: int) -> str:
    """A number in the statement: how far away a row is, or how many parts ntile makes."""
    number = None if given is None else whole_number(given)
    if number is None or not least <= number <= _FARTHEST:
        argument = "argument" if name == "ntile" else "second argument"
        why = f"{name} takes a literal from {least} to {_FARTHEST} as its {argument}"
        raise refuse(called, why, _EXAMPLE)
    return str(number)


def _default(node: Node, name: str, value: Value, scope: Scope, columns: list[Value]) -> str:
    """What lag and lead return where there is no such row: a literal, or a column of this row."""
    if is_literal(node):
        sql, other = beside(value, node, scope.schema)
        if sql == value.sql:
            return other
    else:
        own = scope.compiled(node)
        if (own.type, own.collation) == (value.type, value.collation):
            return f"c{_place(columns, own, node)}"
    raise refuse(node, f"{name} takes a default of the type {value.type} here", _EXAMPLE)
