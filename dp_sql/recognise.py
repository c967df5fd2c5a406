"""Find the DP calls of a statement, and the SELECT each one stands in. Pure: no catalog, no data.

Whether the source is person-level is check.py's question.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dp_sql.arguments import DpCall, read_call
from dp_sql.errors import NotSupported
from dp_sql.functions import FUNCTIONS
from dp_sql.parse import Select, Token, enclosing_select, matching, split, text_of

_MENTION = re.compile("|".join(FUNCTIONS), re.IGNORECASE)


def mentions_dp(text: str) -> bool:
    """Whether a text may hold a DP call at all; where it does not, nobody reads the text.

    >>> mentions_dp("SELECT count(*) FROM t"), mentions_dp("SELECT dp_topk(a, 3) FROM t")
    (False, True)
    """
    return _MENTION.search(text) is not None


@dataclass(frozen=True)
class DpSelect:
    """One SELECT with DP calls in its list. All spans are offsets into `text`, None if absent.

    `items` are the spans of the expressions of the list; `from_clause` and `where_clause` include
    their keywords, `source` and `condition` do not.
    """

    text: str
    calls: tuple[DpCall, ...]
    items: tuple[tuple[int, int], ...]
    from_clause: tuple[int, int]
    where_clause: tuple[int, int] | None
    source: tuple[int, int]
    condition: tuple[int, int] | None
    ctes: frozenset[str]

    @property
    def source_text(self) -> str:
        """The FROM clause as written, without its keyword."""
        return self.text[slice(*self.source)]

    @property
    def condition_text(self) -> str | None:
        """The WHERE clause as written, without its keyword."""
        return None if self.condition is None else self.text[slice(*self.condition)]


def recognise(text: str, tokens: Sequence[Token]) -> tuple[DpSelect, ...]:
    """The SELECTs of one statement that hold DP calls, outermost text order.

    Args:
        text: the whole text, for places in messages.
        tokens: the tokens of one statement of it.

    Raises:
        ArgumentError: an argument is missing, unknown, not a literal or out of range.
        NotSupported: a call stands outside the list of a SELECT, or carries DISTINCT, FILTER, OVER.
    """
    places = [i for i in range(len(tokens)) if _is_call(tokens, i)]
    _refuse_nested(text, tokens, places)
    grouped: dict[int, tuple[Select, list[int]]] = {}
    for index in places:
        select = enclosing_select(tokens, index, text)
        _refuse_misplaced(text, tokens, index, select)
        start = select.clauses[0].start
        grouped.setdefault(start, (select, []))[1].append(index)
    return tuple(_read_select(text, tokens, select, calls) for select, calls in grouped.values())


def _is_call(tokens: Sequence[Token], index: int) -> bool:
    name = tokens[index].name
    return (
        name is not None
        and name.upper() in FUNCTIONS
        and index + 1 < len(tokens)
        and tokens[index + 1].is_symbol("(")
    )


def _refuse_nested(text: str, tokens: Sequence[Token], places: list[int]) -> None:
    for outer in places:
        end = matching(tokens, outer + 1, text)
        for inner in places:
            if outer < inner < end:
                raise NotSupported(
                    "A DP call cannot stand inside the arguments of another DP call.",
                    text=text,
                    position=tokens[inner].start,
                    hint="Answer the inner call first, in a query of its own.",
                )


_AFTER_CALL = {
    "OVER": "OVER: a DP call is an aggregate of the whole source, not a window function",
    "FILTER": "FILTER; write the condition in the WHERE clause of the same SELECT",
    "WITHIN": "WITHIN GROUP; the order of the answer is its rank",
}


def _refuse_misplaced(text: str, tokens: Sequence[Token], index: int, select: Select) -> None:
    name = (tokens[index].name or "").upper()
    example = FUNCTIONS[name].example

    def refuse(message: str, hint: str | None = None, at: int = index) -> NotSupported:
        return NotSupported(message, text=text, position=tokens[at].start, hint=hint)

    if index and tokens[index - 1].is_symbol("."):
        raise refuse(f"{name} belongs to no schema; write it without one.")
    clause = select.clause_of(index)
    place = clause.keyword if clause else None
    if place != "SELECT":
        words = {"GROUP": "GROUP BY", "ORDER": "ORDER BY", "USING": "USING SAMPLE"}
        where = f"in {words.get(place, place)}" if place else "outside a SELECT"
        hint = f"Write it in the list of a SELECT of its own: SELECT {example} FROM …"
        if place in {"WHERE", "HAVING", "QUALIFY", "ORDER"}:
            hint = (
                "Give it a name in a subquery and use the name outside: "
                f"SELECT … FROM (SELECT {example} AS answer FROM …) WHERE …"
            )
        raise refuse(f"{name} cannot stand {where}; it is an answer, not a condition.", hint)
    after = matching(tokens, index + 1, text) + 1
    word = tokens[after].upper if after < len(tokens) else ""
    if word in _AFTER_CALL:
        raise refuse(f"{name} does not take {_AFTER_CALL[word]}.", at=after)
    for keyword, advice in {
        "GROUP": "DP_TOPK and DP_COUNT_DISTINCT answer for the whole source so far. "
        "Ask one SELECT per group, with the group in its WHERE clause.",
        "HAVING": "Filter the answer in an outer query.",
        "QUALIFY": "Filter the answer in an outer query.",
        "WINDOW": "Compute over the answer in an outer query.",
        "USING": "A sample of rows is not a function of each person's own rows.",
    }.items():
        found = select.clause(keyword)
        if found is not None:
            both = text_of(text, tokens, found.start, min(found.start + 2, found.stop)).upper()
            shown = both if keyword in {"GROUP", "USING"} else keyword
            raise refuse(f"A SELECT with {name} cannot have {shown}.", advice, found.start)
    if select.clause("FROM") is None:
        raise refuse(f"{name} needs a table to read.", f"SELECT {example} FROM ratings")


def _read_select(text: str, tokens: Sequence[Token], select: Select, places: list[int]) -> DpSelect:
    def span(start: int, stop: int) -> tuple[int, int]:
        if start >= stop:
            raise NotSupported("This clause is empty.", text=text, position=tokens[start - 1].start)
        return tokens[start].start, tokens[stop - 1].end

    listed, source, where = (select.clause(word) for word in ("SELECT", "FROM", "WHERE"))
    assert listed is not None and source is not None  # _refuse_misplaced has seen to both
    return DpSelect(
        text=text,
        calls=tuple(read_call(text, tokens, index) for index in places),
        items=_items(text, tokens, listed.start + 1, listed.stop),
        from_clause=span(source.start, source.stop),
        where_clause=span(where.start, where.stop) if where else None,
        source=span(source.start + 1, source.stop),
        condition=span(where.start + 1, where.stop) if where else None,
        ctes=select.ctes,
    )


def _items(
    text: str, tokens: Sequence[Token], start: int, stop: int
) -> tuple[tuple[int, int], ...]:
    if tokens[start].upper == "DISTINCT":
        start += 1
        if tokens[start].upper == "ON":
            raise NotSupported(
                "A SELECT with a DP call cannot have DISTINCT ON.",
                text=text,
                position=tokens[start].start,
                hint="Thin out the answer in an outer query.",
            )
    elif tokens[start].upper == "ALL":
        start += 1
    return tuple(
        (tokens[a].start, tokens[b - 1].end) for a, b in split(tokens, start, stop) if a < b
    )
