"""What may a SELECT list contain besides DP calls?

After rewriting, the SELECT reads the releases and no longer the source. A column of the source
would not be found there, and an aggregate such as count(*) would silently count releases.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Protocol, TypeVar

from sqlglot import exp

from dp_sql.errors import NotSupported, QueryError
from dp_sql.sql.clauses import OF_ANSWERS, Span
from dp_sql.sql.dp_select import DpSelect
from dp_sql.sql.formatting import shown_name
from dp_sql.sql.restated import Narrowed
from dp_sql.sql.sqlglot_tree import Node, Unreadable, projection, to_sql, tree_of
from dp_sql.sql.tokens import Token, Tokens, edited, folded

Plans = TypeVar("Plans")
_INNER = {"SELECT", "FROM", "WHERE", "GROUP", "HAVING"}
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
    """Refuse (NotSupported) a column, star, aggregate or window beside the calls."""
    trees = [projection(_blanked(select, *item)) for item in select.items]
    aliases = {tree.alias.lower() for tree in trees if isinstance(tree, exp.Alias)}
    aliases |= {key.parts[-1].lower() for key in select.keys}
    for (start, stop), tree in zip(select.items, trees, strict=True):
        _no_aggregates(select, (start, stop), functions)
        # Where there is no tree, DuckDB reads the item, without the source's rows in scope.
        node = None if tree is None else _of_source(tree, aliases)
        if node is not None:
            shown = "*" if isinstance(node, exp.Star) else to_sql(node)
            raise select.between((start, stop))[0].error(
                NotSupported,
                f"{shown} would show rows of the source next to the private answer.",
                "A SELECT with a DP call may list DP calls, constants and expressions of these. "
                "For an answer per group add GROUP BY.",
                [*(_grouped(select, shown) if shown != "*" and not select.keys else ()),
                 Narrowed(select.without_item(start, stop))],
            )  # fmt: skip
    for word in OF_ANSWERS & select.clauses.keys():
        _only_answers(select, select.clauses[word], aliases)


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
    listed = [one for one in select.items if not select.calls_in(one)]
    key = select.named(listed[0])[0].text if len(listed) == 1 else "ALL" if listed else column
    spans = [select.clauses[word] for word in {"SELECT", "FROM", "WHERE"} & select.clauses.keys()]
    place = max(stop for _, stop in spans)
    return [f"{select.text[:place]} GROUP BY {key}{select.text[place:]}"]


def _only_answers(select: DpSelect, span: Span, aliases: Set[str]) -> None:
    """Refuse a column behind GROUP BY that is neither a key nor an alias of the list."""
    with contextlib.suppress(Unreadable):  # DuckDB reads it, over the releases
        tree = tree_of(f"SELECT NULL {_blanked(select, *span)}")
        for node in tree.walk(prune=lambda n: isinstance(n, _OTHER_SCOPES) and n is not tree):
            if isinstance(node, exp.Column) and node.name.lower() not in aliases:
                tokens = select.between(span)
                raise next((t for t in tokens if t.name == node.name), tokens[0]).error(
                    NotSupported,
                    f"{node.name} is neither a group nor a name in the SELECT list; ORDER BY, "
                    "HAVING and QUALIFY apply to the released answers.",
                    "Order by a number, ORDER BY 1, or by the name of an answer: "
                    "SELECT DP_…(…) AS n … ORDER BY n",
                    [select.text[: span[0]].rstrip() + select.text[span[1] :]],
                )


def _blanked(select: DpSelect, start: int, stop: int) -> str:
    """The text of one item with NULL, padded, in place of calls and keys: offsets stay."""
    places = select.call_spans
    places += [place for place, _ in select.key_places((start, stop))]
    edits = [(a, b, "NULL".ljust(b - a)) for a, b in places if start <= a and b <= stop]
    return edited(select.text, edits, start, stop)


def _no_aggregates(select: DpSelect, item: Span, functions: Functions) -> None:
    for shown, token in _computed(select, item, functions):
        moved = [one for one in select.items if any(_computed(select, one, functions))]
        raise token.error(
            NotSupported,
            f"{shown} next to a DP call would be computed over the answer, not over the source.",
            "Write a separate query for it, or compute it over the answer in an outer query: "
            "SELECT … FROM (SELECT DP_…(…) AS answer FROM …).",
            [*_computed_outside(select, moved), Narrowed(select.without_item(*item))],
        )


def _computed(select: DpSelect, item: Span, functions: Functions) -> Iterator[tuple[str, Token]]:
    """Window functions, as OVER, and aggregates of an item beside its calls.

    Beside groups, windows are over these, as in SQL; those with calls would draw them once more.
    """
    outside = select.beside_calls(item).outside_queries()
    if select.keys and not select.calls_in(item):
        outside = _without_windows(outside)
    names = outside.called()
    kinds = dict(functions.builtin_kinds(frozenset(names)))
    unknown = frozenset(names.keys() - kinds.keys())
    if unknown:  # asking for all functions costs DuckDB milliseconds
        kinds.update(functions.function_kinds(unknown))
    yield from (("OVER", token) for token in outside if token.upper == "OVER")
    yield from ((name, at) for name, at in names.items() if "aggregate" in kinds.get(name, ()))


def _without_windows(tokens: Tokens) -> Tokens:
    """These tokens without the names of window functions and OVER."""
    over = {i for i, token in enumerate(tokens) if token.upper == "OVER"}
    for i, token in tokens.calls():
        if token.name is not None and tokens.matching(i + 1) + 1 in over:
            over.add(i)
    return Tokens(token for i, token in enumerate(tokens) if i not in over)


def _computed_outside(select: DpSelect, computed: Sequence[Span]) -> list[str]:
    """The statement whose SELECT reads its answers from a subquery, and computes items over them.

    So are items that name one of these. ORDER BY and LIMIT stay behind the outer SELECT.
    """
    text, items = select.text, select.items
    listed = text[select.clauses["SELECT"][0] : items[0][0]].upper()
    if "DISTINCT" in listed or select.repeats:
        return []
    parts = {item: select.named(item) for item in items}
    # What an item is called: by its alias, or as a column; nothing if DuckDB would name it.
    names = {i: name or (own.names or ("",))[-1] for i, (own, name) in parts.items()}
    moved = _with_those_that_name(select, computed, names)
    kept = [item for item in items if item not in moved]
    is_first = kept == [*items[: len(kept)]]
    if not (is_first or all(names[item] for item in kept)) or not (kept or len(moved) == 1):
        return []
    # What the subquery calls each expression: those that stay in it, and the calls of the others.
    named = {item: shown_name(names[item]) for item in kept if names[item]}
    known = {parts[item][0].text: name for item, name in named.items()}
    calls = [call for item in select.items if item in moved for call in select.calls_in(item)]
    wanted = dict.fromkeys(text[slice(*call.span)] for call in calls)
    new = [call for call in wanted if call not in known]
    answers = {call: f"answer_{n}" if n else "answer" for n, call in enumerate(new)}
    if {*answers.values()} & {token.folded for token in select.tokens}:
        return []
    known |= answers
    outer = [
        named.get(item, "") if item in kept else _by_names(select, item, known) for item in items
    ]
    if kept and is_first:
        excluded = ", ".join(answers.values())
        outer[: len(kept)] = [f"* EXCLUDE ({excluded})" if excluded else "*"]
    inner = [text[a:b] for a, b in kept] + [f"{call} AS {name}" for call, name in answers.items()]
    return [_nested(select, ", ".join(outer), ", ".join(inner))]


def _by_names(select: DpSelect, item: Span, known: Mapping[str, str]) -> str:
    """An item, with the names of a subquery's columns in place of the calls and keys in it."""
    spans = [call.span for call in select.calls_in(item)]
    edits = [(*span, known[select.text[slice(*span)]]) for span in spans]
    keys = select.key_places(item)
    edits += [(*span, known[key.text]) for span, key in keys if key.text in known]
    return edited(select.text, edits, *item)


def _nested(select: DpSelect, outer: str, inner: str) -> str:
    """The statement whose SELECT lists `outer` from a subquery that lists `inner`."""
    text, items = select.text, select.items
    spans = [select.clauses[word] for word in _INNER & select.clauses.keys()]
    start, stop = min(a for a, _ in spans), max(b for _, b in spans)
    within = f"{text[start : items[0][0]]}{inner}{text[items[-1][1] : stop]}"
    return f"{text[:start]}SELECT {outer} FROM ({within}){text[stop:]}"


def _with_those_that_name(
    select: DpSelect, computed: Sequence[Span], names: Mapping[Span, str]
) -> list[Span]:
    """Items, and those that name one of them; an item may name those before it."""
    moved = [*computed]
    for item in select.items:
        words = {token.folded for token in select.beside_calls(item)}
        if item not in moved and words & {folded(names[one]) for one in moved} - {""}:
            moved.append(item)
    return moved
