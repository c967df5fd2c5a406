"""GROUP BY within one person's rows: keys that hold the privacy unit, and aggregates.

Under a policy also GROUP BY over public tables, with any keys.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp

from dp_sql.privacy.expressions.expression_compiler import settled
from dp_sql.privacy.expressions.literals import is_literal, number_of
from dp_sql.privacy.expressions.predicates import boolean
from dp_sql.privacy.expressions.row_values import row_wise, with_known_values
from dp_sql.privacy.expressions.scope import Scope
from dp_sql.privacy.expressions.strings_and_dates import without_query
from dp_sql.privacy.expressions.unsupported import is_aggregate
from dp_sql.privacy.expressions.value import Value
from dp_sql.privacy.refusals import ALLOWED, FIRST_ROW, Refused, refuse
from dp_sql.privacy.relations.aliases import over_rows, usable, used
from dp_sql.privacy.relations.base_tables import Tables
from dp_sql.privacy.relations.from_clause import From, FromPart
from dp_sql.privacy.relations.rows import Rows
from dp_sql.privacy.relations.select_clauses import column_name, only
from dp_sql.privacy.relations.tree import Group, LinkedTable, Table, relations_in
from dp_sql.sql.formatting import shown_name
from dp_sql.sql.sqlglot_tree import Node, to_sql
from dp_sql.sql.tokens import folded
from dp_sql.sql.types import (
    BINARY_TYPES,
    UP_TO_64_BITS,
    can_have_same_bits,
    digits_of,
    family,
    is_wide_decimal,
)

EVERY_ROW = (exp.Star, exp.Literal, exp.Boolean)  # what count reads that no row lacks
_OF_ONE_ROW = (exp.First, exp.Last)
_WORDS: Mapping[type, str] = {
    exp.Min: "min", exp.Max: "max", exp.ArgMin: "arg_min", exp.ArgMax: "arg_max", exp.Sum: "sum",
    exp.Avg: "avg", exp.CountIf: "count_if", exp.LogicalOr: "bool_or", exp.LogicalAnd: "bool_and",
    exp.Count: "count", exp.Median: "median",
    exp.PercentileDisc: "quantile_disc", exp.PercentileCont: "quantile_cont",
    exp.AnyValue: "any_value",
    **({exp.Mode: "mode"} if hasattr(exp, "Mode") else {}),  # not in sqlglot 28
}  # fmt: skip


def grouped(
    tree: exp.Select, source: From, scope: Scope, is_of_one_person: Callable[[Value], bool]
) -> Rows:
    """A SELECT with GROUP BY, in which each group is made of one person's rows, or of public ones.

    Raises Refused where it could be made of the rows of several people.
    """
    group, having = tree.args.get("group"), tree.args.get("having")
    others = [tree.args.get(key) for key in ("distinct", "qualify", "windows")]
    # Rows that an owner calls public may belong to the person whom they are joined to.
    is_public = source.first_private is None and scope.as_written is None
    if group is None or any(others) or (source.first_private is None and not is_public):
        why = "A source with groups must GROUP BY the privacy unit, without DISTINCT or QUALIFY"
        raise refuse(tree, why, ALLOWED)
    only(group, {"expressions", "all"})
    windows = (node for item in tree.expressions for node in item.find_all(exp.Window))
    if window := next((node for node in windows if node.find_ancestor(exp.Select) is tree), None):
        why = "A window function beside GROUP BY is not supported in a source"
        hint = "Group in a subquery: SELECT *, rank() OVER (…) AS r FROM (SELECT … GROUP BY …)."
        raise refuse(window, why, hint)
    scope = scope.over_groups()
    keys = [(node, scope.compiled(node)) for node in _keys(tree, source)]
    by = {key.sql: settled(key, node) for node, key in keys}
    own = [*by.values(), *(key for _, key in keys)]
    if not keys or not (is_public or are_of_one_person(own, source, is_of_one_person)):
        why = "GROUP BY in a source must list the privacy unit"
        raise refuse(group, why, _listed(tree, source))
    groups = _Groups(scope, by, source)
    names = [column_name(node) for node in tree.expressions]
    clear, values = usable(tree, source), []
    for name, item in zip(names, tree.expressions, strict=True):
        values.append(groups.listed(item))
        if isinstance(item, exp.Alias) and name in clear:
            groups.named[name] = values[-1]
    named = {n: v for n, v in zip(names, values, strict=True) if names.count(n) == 1}
    source.aliases.clear()  # in aggregates, HAVING knows none

    def column(node: exp.Column) -> Value:
        """A key, a column of the list, or the refusal."""
        own = groups.key(node) if source.has(node) else None
        if own is None and not node.table:
            own = named.get(folded(node.name))
        return own or groups.scope.column(node)

    kept = []
    if having is not None:
        kept.append(groups.scope._replace(column=column).condition(having.this))
    relation = groups.source(source, kept).select(values)
    return Rows(relation, tuple(names), tuple(values), source.person_type)


def are_of_one_person(
    keys: Sequence[Value], source: From, is_of_one_person: Callable[[Value], bool]
) -> bool:
    """Whether all rows with the same values of the keys are one person's.

    Privacy does not rest on this, as the rows of different people are kept apart anyway. It is
    asked so that the answer is the one that DuckDB would give.
    """
    if any(key.is_person for key in keys):
        return True
    if source.left_joins:  # where rows of several people may have NULL, as in a subquery
        return False
    tables = {p.number for p in source.parts if isinstance(p.rows.relation, Table | LinkedTable)}
    return any(is_of_one_person(key) for key in keys if relations_in(key.sql) <= tables)


def _listed(tree: exp.Select, source: From) -> str:
    """How to list the privacy unit, in the names of the statement."""
    for part in source.parts:
        for name, value in zip(part.rows.names, part.rows.values, strict=True):
            if value.is_person and name:
                keys = [to_sql(key) for key in tree.args["group"].expressions]
                shown = ", ".join([shown_name(name), *keys])
                return f"For example: GROUP BY {shown}." if keys else f"Add {shown} to the list."
    return "JOIN the table that holds the privacy unit, and list that column, too."


def _keys(tree: exp.Select, source: From) -> list[Node]:
    """What a SELECT groups by. GROUP BY 1 is the first column of the list, ALL those of one row."""
    group, listed = tree.args["group"], [node.unalias() for node in tree.expressions]
    places = {str(i): node for i, node in enumerate(listed, 1)}
    keys = list(group.expressions)
    if group.args.get("all"):
        pairs = zip(listed, over_rows(tree, source), strict=True)
        keys = [node for node, is_over in pairs if not is_over and not is_literal(node)]
    for i, node in enumerate(keys):
        if isinstance(node, exp.Literal) and not node.is_string:
            keys[i] = places.get(node.this.lstrip("0"), node)
        alone = isinstance(node.unnest(), exp.Column) and not group.args.get("all")
        if not alone and used(keys[i], tree, source) & source.aliases.keys():
            why = "GROUP BY takes an alias alone here, and not in an expression"
            raise refuse(keys[i], why, "Name it in a subquery, and group outside.")
    return keys


def distinct_values(
    node: Node, source: From, values: Sequence[Value], tables: Tables
) -> list[Value]:
    """The values of SELECT DISTINCT, UNION and the like, of which equal ones are the same."""
    is_own = are_of_one_person(values, source, tables.is_of_one_person)
    if source.first_private is not None and not is_own:
        word = "SELECT DISTINCT" if isinstance(node, exp.Distinct) else node.key.upper()
        hint = "For example: SELECT DISTINCT user_id, title."
        raise refuse(node, f"{word} must list the privacy unit", hint)
    found = []
    for value in values:
        try:
            found.append(settled(value, node))
        except Refused:  # of public rows, either of equal values may stay
            clear = source.first_private is None or can_have_same_bits(value.type)
            if not (tables.trusted and clear):
                raise
            found.append(value)
    return found


class _Groups:
    """Groups of one person's rows: an inner SELECT of keys and aggregates, to compute with outside.

    DuckDB binds no aggregate inside TRY(…), and year(min(day)) needs one. `by` are the settled
    keys, by the SQL that they settle. `named` are the aliases so far.
    """

    def __init__(self, scope: Scope, by: Mapping[str, Value], source: From) -> None:
        self._rows, self._source = scope, source
        self.named: dict[str, Value] = {}
        self._keys = list(by.values())
        self._by = {
            sql: key._replace(sql=f"r0c{i}", facts_of=f"r0c{i}" if key.facts_of == sql else "")
            for i, (sql, key) in enumerate(by.items())
        }
        self._computed: list[Value] = []
        self._counts_rows = False
        self.scope = scope._replace(column=self._column, aggregate=self._aggregate, as_written=None)

    def key(self, node: exp.Column) -> Value | None:
        """The key that a column is."""
        return self._by.get(self._rows.column(node).sql)

    def _column(self, node: exp.Column) -> Value:
        if len(node.parts) == 1 and folded(node.name) in self.named and not self._source.has(node):
            return self.named[folded(node.name)]
        found = self.key(node)
        if found is None:
            raise refuse(node, f"{to_sql(node)} must be in GROUP BY or in an aggregate", ALLOWED)
        return found

    def _aggregate(self, node: Node) -> Value:
        value = _aggregate(node, self._rows)
        self._counts_rows |= _counts_rows(node)
        written = [known.sql for known in self._computed]
        if value.sql not in written:
            self._computed.append(value)
            written.append(value.sql)
        return value._replace(sql=f"r0c{len(self._keys) + written.index(value.sql)}")

    def listed(self, item: Node) -> Value:
        """An item of the list: a key, or made of keys and aggregates."""
        node, known = item.unalias(), self._source.aliases.get(folded(item.alias))
        is_over = any(map(is_aggregate, node.walk()))
        if (known is None or known.sql not in self._by) and not is_over:
            with contextlib.suppress(Refused):  # of an alias of an aggregate
                known = self._rows.compiled(node)
        key = None if known is None else self._by.get(known.sql)
        value = row_wise(node, self.scope) if key is None else key
        return with_known_values(value, node, self.scope, self._rows)

    def source(self, rows: From, having: list[str]) -> From:
        """The inner SELECT as a FROM clause, once all that it must compute is known."""
        group = Group(
            keys=tuple(sorted(key.sql for key in self._keys)),
            is_whole=all(key.is_person for key in self._keys),
            counts_rows=self._counts_rows,
        )
        values = (*self._keys, *self._computed)
        relation = rows.select(values, group=group)
        inner = Rows(relation, ("",) * len(values), values, rows.person_type)
        return From([FromPart((), 0, inner)], where=having)


def _counts_rows(node: Node) -> bool:
    """Whether a node is an aggregate that uses how often a row occurs."""
    node = node.this if isinstance(node, exp.Filter) else node
    node = node.this if isinstance(node, exp.IgnoreNulls) else node
    if isinstance(node, exp.Count):
        return not isinstance(node.this, exp.Distinct)
    return is_aggregate(node) and not isinstance(
        node, exp.Min | exp.Max | exp.ArgMin | exp.ArgMax | exp.AnyValue
    )


def _aggregate(node: Node, scope: Scope) -> Value:
    """An aggregate over one person's rows that cannot overflow or fail."""
    filtered = ""
    if isinstance(node, exp.Filter):
        only(node, {"this", "expression"})
        only(node.expression, {"this"})
        kept = boolean(scope.condition(node.expression.this))
        filtered = f" FILTER (WHERE {without_query(kept, node).sql})"
        node = node.this
    value = _whole(node, scope)
    return value._replace(sql=value.sql + filtered)


def _number(node: Node) -> Value | None:
    """The 1 of sum(1), which counts rows; None for anything else."""
    is_one = isinstance(node, exp.Literal) and not node.is_string and node.this == "1"
    return Value("1", "INTEGER") if is_one else None


def total_type(kind: str) -> str:
    """The type of a sum of a type that cannot overflow; "" where it could."""
    if family(kind) == "DECIMAL" and not is_wide_decimal(kind):
        return f"DECIMAL(38,{digits_of(kind)[1]})"  # 10^20 rows of them fit, which no table has
    return "HUGEINT" if family(kind) in UP_TO_64_BITS else ""  # 2^63 rows of them fit


def _whole(node: Node, scope: Scope) -> Value:
    if isinstance(node, exp.IgnoreNulls):  # sqlglot reads any_value(x) so
        node = node.this
    inner, word = node.this, _WORDS.get(type(node), "")
    if isinstance(node, exp.Anonymous):  # count_star() of a stored view; mode(x) to sqlglot 28
        word = "mode" if node.name.lower() == "mode" else "count"
        inner = node.expressions[0] if word == "mode" and len(node.expressions) == 1 else None
    match word:
        case "min" | "max" | "any_value" | "mode" if inner is not None:
            only(node, {"this", "expressions"} if word == "mode" else {"this"})
            value = settled(scope.compiled(inner), node)
            value = without_query(value, node) if family(value.type) == "VARCHAR" else value
            # Any value is the least. Of values that occur as often, the least is the mode.
            if word != "mode" or family(value.type) not in BINARY_TYPES:
                word = "min" if word == "any_value" else word
                # With one key DuckDB reads mode as WITHIN GROUP, and cannot list its tables.
                by = f" ORDER BY {value.sql} IS NULL, {value.sql}" if word == "mode" else ""
                return Value(f"system.main.{word}({value.sql}{by})", value.type)
        case "arg_min" | "arg_max" if inner is not None:
            only(node, {"this", "expression"})
            value, key = (settled(scope.compiled(one), node) for one in (inner, node.expression))
            # Of rows with equal keys, the least or the largest value: not what is stored first.
            both = f"system.main.row({key.sql}, {value.sql})"
            found = f"CASE WHEN {key.sql} IS NULL THEN NULL ELSE {both} END"
            return Value(f"system.main.{word}({value.sql}, {found})", value.type)
        case "sum" | "avg" if inner is not None:
            only(node, {"this"})
            value = _number(inner) or scope.compiled(inner)
            if kind := total_type(value.type):
                kind = "DOUBLE" if word == "avg" else kind
                return Value(f"system.main.{word}({value.sql})", kind)
        case "median" | "quantile_disc" | "quantile_cont" if inner is not None:
            only(node, {"this"} if word == "median" else {"this", "expression"})
            value = scope.compiled(inner)
            if total_type(value.type):
                is_mean = word != "quantile_disc" and family(value.type) != "DECIMAL"
                more = "" if word == "median" else f", {_part(node, word)}"
                kind = "DOUBLE" if is_mean else value.type
                return Value(f"system.main.{word}({value.sql}{more})", kind)
        case "count_if" | "bool_or" | "bool_and":
            only(node, {"this"})
            kind = "HUGEINT" if word == "count_if" else "BOOLEAN"
            return Value(f"system.main.{word}({scope.condition(inner)})", kind)
        case "count":
            return _count(node, scope)
    why = (
        "A source may only use count, min, max, arg_min, arg_max, any_value, mode, bool_or, "
        "bool_and, and sum, avg, median, quantile_cont and quantile_disc of integers up to 64 bits "
        "and of decimals up to 18 digits"
    )
    hint = FIRST_ROW if isinstance(node, _OF_ONE_ROW) else ""
    if hint and isinstance(inner, exp.Order):
        hint = "For first(x ORDER BY t) write arg_min(x, t), and for last arg_max(x, t)."
    raise refuse(node, why, hint)


def _part(node: Node, word: str) -> str:
    """The second argument of quantile_disc or quantile_cont, a literal from 0 to 1."""
    part = node.args.get("expression")
    number = number_of(part) if part is not None and is_literal(part) else None
    if number is None or not 0 <= number <= 1:
        raise refuse(node, f"{word} takes a literal from 0 to 1 here")
    return f"CAST({float(number)!r} AS DOUBLE)"


def _count(node: Node, scope: Scope) -> Value:
    """count(*), count(x) or count(DISTINCT x)."""
    inner, counted = node.this, "*"
    only(node, {"this", "big_int"})
    if isinstance(inner, EVERY_ROW):
        only(inner, set() if isinstance(inner, exp.Star) else {"this", "is_string"})
    elif isinstance(inner, exp.Distinct):
        only(inner, {"expressions"})
        if len(inner.expressions) != 1:
            raise refuse(node, "count(DISTINCT …) is supported only for one column", ALLOWED)
        counted = f"DISTINCT {settled(scope.compiled(inner.expressions[0]), node).sql}"
    elif inner is not None and isinstance(node, exp.Count):
        counted = scope.compiled(inner).sql
    return Value(f"system.main.count({counted})", "BIGINT")
