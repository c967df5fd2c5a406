"""What may stand beside DP calls in the list of a SELECT?

After rewriting, the SELECT reads the releases and no longer the source. A column of the source
would not be found there, and an aggregate such as count(*) would silently count releases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from sqlglot import exp

from dp_sql.errors import NotSupported
from dp_sql.parse import Token, called, matching, tokenize
from dp_sql.recognise import DpSelect
from dp_sql.trees import Unreadable, projection, to_sql

_QUERY_STARTS = {"SELECT", "FROM", "WITH"}


class Functions(Protocol):
    """What this file may ask of an engine."""

    def function_kinds(self, names: frozenset[str]) -> Mapping[str, frozenset[str]]:
        """What each name may be as a function, as in check.Catalog."""

    def builtin_kinds(self, names: frozenset[str]) -> Mapping[str, frozenset[str]]:
        """The same of the engine's own functions, from memory; macros are not looked at."""


def check_list(select: DpSelect, functions: Functions) -> None:
    """Refuse what stands beside the DP calls and would need the source's rows.

    Raises:
        NotSupported: a column, a star, an aggregate or a window beside the calls.
    """
    trees = [projection(_blanked(select, *item)) for item in select.items]
    aliases = {tree.alias.lower() for tree in trees if isinstance(tree, exp.Alias)}
    for (start, stop), tree in zip(select.items, trees, strict=True):
        _no_aggregates(select, start, _blanked(select, start, stop), functions)
        if tree is None:
            continue  # DuckDB reads it; without the source's rows in scope it can take none
        for node in tree.walk(prune=lambda n: isinstance(n, _OTHER_SCOPES)):
            if isinstance(node, exp.Star) or (
                isinstance(node, exp.Column) and node.name.lower() not in aliases
            ):
                raise NotSupported(
                    f"{_shown(node)} would show rows of the source beside the private answer.",
                    text=select.text,
                    position=start,
                    hint="A SELECT with a DP call answers with DP calls, constants and "
                    "expressions of them. Ask for other things in a query of their own.",
                )


_OTHER_SCOPES = (exp.Query, exp.Lambda, exp.Comprehension)


def _shown(node: exp.Expression) -> str:
    try:
        return "*" if isinstance(node, exp.Star) else to_sql(node)
    except Unreadable:  # pragma: no cover - sqlglot writes columns that it has read
        return "A column"


def _blanked(select: DpSelect, start: int, stop: int) -> str:
    """The text of one item with NULL, padded, in place of each call: offsets stay."""
    written = select.text[start:stop]
    for call in select.calls:
        if start <= call.start and call.end <= stop:
            blank = "NULL".ljust(call.end - call.start)
            written = written[: call.start - start] + blank + written[call.end - start :]
    return written


def _no_aggregates(select: DpSelect, start: int, blanked: str, functions: Functions) -> None:
    tokens = tokenize(blanked)
    outside = _outside_queries(tokens, blanked)
    names = called(outside)
    kinds = dict(functions.builtin_kinds(frozenset(names)))
    unknown = frozenset(names) - kinds.keys()
    if unknown:  # asking for all functions costs DuckDB milliseconds
        kinds.update(functions.function_kinds(unknown))
    found = [(t.upper, t.start) for t in outside if t.upper == "OVER"]
    found += [(name, at) for name, at in names.items() if "aggregate" in kinds.get(name, ())]
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


def _outside_queries(tokens: Sequence[Token], text: str) -> list[Token]:
    outside: list[Token] = []
    index = 0
    while index < len(tokens):
        opens = tokens[index].is_symbol("(")
        if opens and index + 1 < len(tokens) and tokens[index + 1].upper in _QUERY_STARTS:
            index = matching(tokens, index, text)
        else:
            outside.append(tokens[index])
        index += 1
    return outside
