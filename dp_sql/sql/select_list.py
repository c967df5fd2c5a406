"""What may a SELECT list contain besides DP calls?

After rewriting, the SELECT reads the releases and no longer the source. A column of the source
would not be found there, and an aggregate such as count(*) would silently count releases.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Protocol, TypeVar

from sqlglot import exp

from dp_sql.errors import NotSupported, QueryError
from dp_sql.sql.clauses import OF_ANSWERS, Span
from dp_sql.sql.dp_select import DpSelect
from dp_sql.sql.formatting import shown_name
from dp_sql.sql.list_items import ListItem
from dp_sql.sql.restated import Narrowed, Restated
from dp_sql.sql.sqlglot_tree import Node, Unreadable, projection, to_sql, tree_of
from dp_sql.sql.tokens import Token, Tokens, edited, folded

Plans = TypeVar("Plans")
_INNER = {"SELECT", "FROM", "WHERE", "GROUP", "HAVING"}
_NAMED = "Name an answer in the list and use its name: SELECT DP_…(…) AS n … "
_BY_NAMES = {
    "ORDER": "Order by a number, ORDER BY 1, or by the name of an answer: "
    "SELECT DP_…(…) AS n … ORDER BY n",
    "HAVING": f"{_NAMED}HAVING n > 100",
    "QUALIFY": f"{_NAMED}QUALIFY rank() OVER (ORDER BY n) = 1",
    "WINDOW": f"{_NAMED}WINDOW w AS (ORDER BY n)",
}
_OTHER_SCOPES = (exp.Query, exp.Lambda, exp.Comprehension)


class Functions(Protocol):
    """What an engine says of functions."""

    def function_kinds(self, names: frozenset[str]) -> Mapping[str, frozenset[str]]:
        """What each name may be as a function; names that are not functions are left out.

        Kinds: "scalar" (a pure function of its arguments), "volatile", "aggregate", "macro", …
        The user's functions that replace one of the engine's are always in the answer.
        """

    def builtin_kinds(self, names: frozenset[str]) -> Mapping[str, frozenset[str]]:
        """What each name may be among the engine's own functions, from memory; no macros."""


def planned(select: DpSelect, functions: Functions, plan: Callable[[], Plans]) -> Plans:
    """What `plan` makes of a SELECT whose list is checked first; a mistyped key is said before."""
    try:
        check_list(select, functions)
    except NotSupported:
        start, stop = select.clauses.get("GROUP", (0, 0))
        try:
            if start < stop:
                plan()
        except QueryError as wrong:
            if wrong.unknown and start <= (wrong.position or 0) < stop:
                raise wrong from None
        raise
    return plan()


def check_list(select: DpSelect, functions: Functions) -> None:
    """Refuse (NotSupported) a column, star or aggregate beside the calls."""
    trees = [projection(_blanked(select, item.span)) for item in select.items]
    aliases = {tree.alias.lower() for tree in trees if isinstance(tree, exp.Alias)}
    aliases |= {key.parts[-1].lower() for key in select.keys}
    for item, tree in zip(select.items, trees, strict=True):
        _no_aggregates(select, item, functions)
        # Where there is no tree, DuckDB reads the item, without the source's rows in scope.
        node = None if tree is None else _of_source(tree, aliases)
        if node is not None:
            shown = "*" if isinstance(node, exp.Star) else to_sql(node)
            raise item.tokens[0].error(
                NotSupported,
                f"{shown} would show rows of the source next to the private answer.",
                "A SELECT with a DP call may list DP calls, constants and expressions of these. "
                "For an answer per group add GROUP BY.",
                [*(_grouped(select, shown) if shown != "*" and not select.keys else ()),
                 Narrowed(select.without_item(item))],
            )  # fmt: skip
    if "HAVING" in select.clauses and [*_computed(select, select.clauses["HAVING"], functions)]:
        raise _having(select)
    for word in OF_ANSWERS & select.clauses.keys():
        _only_answers(select, word, aliases)
    if "HAVING" in select.clauses:
        _no_windows(select, select.beside_calls(select.clauses["HAVING"]).outside_queries())


def _of_source(tree: Node, aliases: Set[str]) -> Node | None:
    """A star, or a column that no alias means, outside of subqueries and lambdas."""
    for node in tree.walk(prune=lambda n: isinstance(n, _OTHER_SCOPES)):
        of_groups = isinstance(node.parent, exp.Count)  # count(*) OVER (…)
        is_star = isinstance(node, exp.Columns) or (isinstance(node, exp.Star) and not of_groups)
        if is_star or (isinstance(node, exp.Column) and node.name.lower() not in aliases):
            return node
    return None


def _grouped(select: DpSelect, column: str) -> list[str]:
    """The statement in which the SELECT has GROUP BY what it lists, or else that column."""
    listed = [one.expression for one in select.items if not one.has_call]
    key = listed[0].text if len(listed) == 1 else "ALL" if listed else column
    spans = [select.clauses[word] for word in {"SELECT", "FROM", "WHERE"} & select.clauses.keys()]
    place = max(stop for _, stop in spans)
    return [f"{select.text[:place]} GROUP BY {key}{select.text[place:]}"]


def _only_answers(select: DpSelect, word: str, aliases: Set[str]) -> None:
    """Refuse a column behind GROUP BY that is neither a key nor an alias of the list.

    word: the keyword of the clause.
    """
    span = select.clauses[word]
    with contextlib.suppress(Unreadable):  # DuckDB reads it, over the releases
        tree = tree_of(f"SELECT NULL {_blanked(select, span)}")
        for node in tree.walk(prune=lambda n: isinstance(n, _OTHER_SCOPES) and n is not tree):
            if isinstance(node, exp.Column) and node.name.lower() not in aliases:
                tokens = select.between(span)
                raise next((t for t in tokens if t.name == node.name), tokens[0]).error(
                    NotSupported,
                    f"{node.name} is neither a group nor a name in the SELECT list; ORDER BY, "
                    "HAVING and QUALIFY apply to the released answers.",
                    _BY_NAMES[word],
                    [select.text[: span[0]].rstrip() + select.text[span[1] :]],
                )


def _has_window(tokens: Tokens) -> bool:
    """Whether a window function is among them; OVER may also be a name."""
    behind = (tokens.at(i - 1) for i, token in enumerate(tokens) if token.upper == "OVER")
    return any(token.is_symbol(")") for token in behind)


def _having(select: DpSelect) -> QueryError:
    """The refusal of an aggregate in HAVING, which is a condition on answers."""
    message = "HAVING beside a DP call is a condition on its answers, and cannot have an aggregate."
    hint = "Name the answer in the SELECT list, DP_COUNT(…) AS n, and write HAVING n > 100."
    tokens, instead = select.between(select.clauses["HAVING"]), list[str]()
    asked = {_every_row(call.display.removeprefix("dp_")): call for call in select.calls}
    for i, token in tokens.calls():
        close = tokens.matching(i + 1)
        written = _every_row(f"{token.text.lower()}({tokens[i + 2 : close].text})")
        if instead or (call := asked.get(written)) is None:
            continue
        # Under its name, or else again: a call in the same words is the same release.
        named = (one for one in select.items if one.alias and one.expression.span == call.span)
        alias = next((one.alias for one in named), None)
        text = shown_name(alias) if alias else select.text[slice(*call.span)]
        instead = [Restated(tokens[i : close + 1].put(text))]
    return tokens[0].error(NotSupported, message, hint, instead)


def _every_row(call: str) -> str:
    """count(*) for count(1) and count(), which are the same."""
    return "count(*)" if call in {"count(1)", "count()"} else call


def _columns(tokens: Tokens) -> set[str]:
    """The names among them, folded, of columns: not of functions and fields."""
    return {
        token.folded
        for i, token in enumerate(tokens)
        if not (tokens.at(i + 1).is_symbol("(") or tokens.at(i - 1).is_symbol("."))
    }


def _no_windows(select: DpSelect, having: Tokens) -> None:
    """Refuse HAVING with a window function, or the alias of one, as DuckDB does."""
    windows = set[str]()
    for item in select.items:
        own = item.expression.outside_queries()
        # An item may name one before it.
        if item.alias and (_has_window(own) or windows & _columns(own)):
            windows.add(folded(item.alias))
    windows -= {folded(key.parts[-1]) for key in select.keys}  # which are meant before aliases
    if _has_window(having) or _columns(having) & windows:
        message = "HAVING filters by answers; QUALIFY filters by window functions."
        raise having[0].error(NotSupported, message, None, [Restated(having[0].put("QUALIFY"))])


def _blanked(select: DpSelect, span: Span) -> str:
    """The text of one item with NULL, padded, in place of calls and keys: offsets stay."""
    places = select.call_spans
    places += [place for place, _ in select.key_places(span)]
    edits = [(a, b, "NULL".ljust(b - a)) for a, b in places if span[0] <= a and b <= span[1]]
    return edited(select.text, edits, *span)


def _no_aggregates(select: DpSelect, item: ListItem, functions: Functions) -> None:
    for shown, token in _computed(select, item.span, functions):
        raise token.error(
            NotSupported,
            f"{shown} next to a DP call would be computed over the answer, not over the source.",
            "Write a separate query for it, or compute it over the answer in an outer query: "
            "SELECT … FROM (SELECT DP_…(…) AS answer FROM …).",
            [*_computed_outside(select), Narrowed(select.without_item(item))],
        )


def _computed(select: DpSelect, span: Span, functions: Functions) -> Iterator[tuple[str, Token]]:
    """The aggregates in a span beside its calls; windows are over the released rows, as in SQL."""
    names = _without_windows(select.beside_calls(span).outside_queries()).called()
    kinds = dict(functions.builtin_kinds(frozenset(names)))
    unknown = frozenset(names.keys() - kinds.keys())
    if unknown:  # asking for all functions costs DuckDB milliseconds
        kinds.update(functions.function_kinds(unknown))
    yield from ((name, at) for name, at in names.items() if "aggregate" in kinds.get(name, ()))


def _without_windows(tokens: Tokens) -> Tokens:
    """These tokens without the names of window functions, also with FILTER before OVER."""
    over = set()
    for i, _ in tokens.calls():
        behind = tokens.matching(i + 1) + 1
        if tokens.at(behind).upper == "FILTER" and tokens.at(behind + 1).is_symbol("("):
            behind = tokens.matching(behind + 1) + 1
        if tokens.at(behind).upper == "OVER":
            over.add(i)
    return Tokens(token for i, token in enumerate(tokens) if i not in over)


def _computed_outside(select: DpSelect) -> list[str]:
    """The statement whose calls are in a subquery, and its whole list is computed over them."""
    text, items = select.text, select.items
    begin, end = items[0].span[0], items[-1].span[1]
    is_listed = (begin <= at < end for at, _ in select.call_spans)
    if "DISTINCT" in text[select.clauses["SELECT"][0] : begin].upper() or not all(is_listed):
        return []
    wanted = dict.fromkeys(text[slice(*span)] for span in select.call_spans)
    answers = {call: f"answer_{n}" if n else "answer" for n, call in enumerate(wanted)}
    if {*answers.values()} & select.tokens.folded:
        return []
    edits = [(a, b, answers[text[a:b]]) for a, b in select.call_spans]
    inner = ", ".join(f"{call} AS {name}" for call, name in answers.items())
    spans = [select.clauses[word] for word in _INNER & select.clauses.keys()]
    start, stop = min(a for a, _ in spans), max(b for _, b in spans)
    within = f"{text[start:begin]}{inner}{text[end:stop]}"
    outer = edited(text, edits, begin, end)
    return [f"{text[:start]}SELECT {outer} FROM ({within}){text[stop:]}"]
