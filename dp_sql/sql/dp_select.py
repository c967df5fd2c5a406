"""A SELECT that holds DP calls, and its parts. Pure: no catalog."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dp_sql.errors import ArgumentError, QueryError
from dp_sql.sql.arguments import DpCall
from dp_sql.sql.clauses import OF_ANSWERS, Span
from dp_sql.sql.formatting import literal
from dp_sql.sql.given import PublicSet, Reference, SetPerKey
from dp_sql.sql.group_keys import equal_places
from dp_sql.sql.list_items import ListItem
from dp_sql.sql.tokens import Tokens, edited, folded

_OF_KEYS = {"SELECT", "GROUP", *OF_ANSWERS}


@dataclass(frozen=True, eq=False)  # two are never the same
class DpSelect:
    """One SELECT with DP calls. All spans are offsets in `text`, None if absent.

    text, tokens: the whole text, and the tokens of the statement.
    calls: each once. repeats: where one is written again, with its number.
    clauses: by keyword. source, condition: FROM and WHERE without it.
    keys: the columns and expressions of GROUP BY.
    ctes: those that it may name, folded, with the spans of their bodies; None: of a body that it
        cannot read.
    """

    text: str
    tokens: Tokens
    calls: tuple[DpCall, ...]
    items: tuple[ListItem, ...]
    clauses: Mapping[str, Span]
    keys: tuple[Reference, ...]
    source: Span
    condition: Span | None
    ctes: Mapping[str, Span | None]
    repeats: tuple[tuple[Span, int], ...] = ()

    @property
    def call_places(self) -> list[tuple[Span, DpCall]]:
        """Where its calls are, each as often as it is written."""
        again = [(span, self.calls[number]) for span, number in self.repeats]
        return [*((call.span, call) for call in self.calls), *again]

    @property
    def call_spans(self) -> list[Span]:
        """The spans of its calls, each as often as it is written."""
        return [span for span, _ in self.call_places]

    def without_filter(self, span: Span) -> Span:
        """Where a call in a span of the text is, up to the bracket that closes its arguments."""
        tokens = self.between(span)
        return tokens[: tokens.matching(1) + 1].span

    def repeats_of(self, call: DpCall) -> list[Span]:
        """Where a call is written again, without FILTER."""
        again = (span for span, number in self.repeats if self.calls[number].start == call.start)
        return [*map(self.without_filter, again)]

    @property
    def groups(self) -> PublicSet | SetPerKey | None:
        """The public set of groups, as one of the calls states it."""
        return next((call.groups for call in self.calls if call.groups is not None), None)

    @property
    def cap(self) -> int | None:
        """The number of groups per person that one of the calls states; None: several, or none."""
        caps = {call.max_groups_contributed for call in self.calls} - {None}
        return caps.pop() if len(caps) == 1 else None

    @property
    def delta(self) -> Fraction | None:
        """What finds the groups, as one of the calls states it; None: they are public."""
        return next((call.parameters.delta for call in self.calls if call.finds_groups), None)

    @property
    def source_text(self) -> str:
        """The FROM clause as written, without its keyword."""
        return self.text[slice(*self.source)]

    @property
    def condition_text(self) -> str | None:
        """The WHERE clause as written, without its keyword."""
        return None if self.condition is None else self.text[slice(*self.condition)]

    @property
    def aliases(self) -> Mapping[str, str | None]:
        """The expressions of the list by their aliases, folded; None: it has a DP call."""
        found: dict[str, str | None] = {}
        for item in self.items:
            if item.alias is not None:
                expression = None if item.has_call else item.expression.text
                found.setdefault(folded(item.alias), expression)
        return found

    @property
    def outside_names(self) -> frozenset[str] | None:
        """The names in the query around this one, if its columns could be meant here; folded."""
        (start, stop), *around = self.tokens.queries_around(
            self.tokens.place_at(self.calls[0].start)
        )
        if not around:
            return None
        before = self.tokens.at(start - 2)
        outer = [*self.tokens[: start - 1], *self.tokens[stop + 1 :]]
        is_relation = before.upper in {"FROM", "JOIN", "AS", "MATERIALIZED", "UNION", "ALL"}
        if is_relation or not any(token.upper == "FROM" for token in outer):
            return None
        return Tokens(outer).folded

    def calls_in(self, span: Span) -> list[tuple[Span, DpCall]]:
        """The DP calls within a span of the text, and where they are."""
        return [one for one in self.call_places if span[0] <= one[0][0] < span[1]]

    def between(self, span: Span) -> Tokens:
        """The tokens in a span of the text."""
        return self.tokens.between(span)

    def beside_calls(self, span: Span) -> Tokens:
        """The tokens in a span of the text, outside the DP calls."""
        return self.between(span).outside(self.call_spans)

    def key_places(self, span: Span) -> list[tuple[Span, Reference]]:
        """Where a span of the text has expressions that are keys, outside the DP calls and others.

        A key may have a query, and is in none. It may hold another: trim(lower(x)) beside lower(x).
        """
        tokens, whole = self.beside_calls(span), self.between(span)
        outside = {token.start for token in tokens.outside_queries()}
        found = [
            (a, b, key)
            for key in self.keys
            if key.is_expression
            for a, b in equal_places(tokens, key, len(whole) == len(tokens))
            if tokens[a].start in outside
        ]
        return [
            (tokens[a:b].span, key)
            for a, b, key in found
            if not any(
                first <= a and b <= last and (first, last) != (a, b) for first, last, _ in found
            )
        ]

    def refused(
        self,
        message: str,
        at: int,
        hint: str = "",
        kind: type[QueryError] = ArgumentError,
        instead: Sequence[str] = (),
    ) -> QueryError:
        """An error with a caret under one place of the text."""
        return kind(message, text=self.text, position=at, hint=hint or None, instead=instead)

    def renamed(self, name: str, at: int, others: Sequence[str]) -> list[str]:
        """The text with each of some other names in place of the first `name` from a place on.

        In place of a key's, everywhere outside FROM and WHERE.
        """
        same = [  # a symbol has none; FROM takes a string, too
            t
            for t in self.tokens
            if name and (t.folded == folded(name) or folded(t.text) == folded(literal(name)))
        ]
        found = [t for t in same if t.end > at][:1]
        if found and any(folded(key.parts[-1]) == folded(name) for key in self.keys):
            spans = [self.clauses[word] for word in _OF_KEYS & self.clauses.keys()]
            found = [t for t in same if any(a <= t.start < b for a, b in spans)] or found
        return [
            edited(self.text, [(t.start, t.end, other) for t in found]) for other in others if found
        ]

    def without_item(self, item: ListItem) -> str:
        """The text without one item of the list, and the comma beside it."""
        number, (start, stop) = self.items.index(item), item.span
        if number + 1 < len(self.items):
            stop = self.items[number + 1].span[0]
        elif number:
            start = self.items[number - 1].span[1]
        return self.text[:start] + self.text[stop:]
