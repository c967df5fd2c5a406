"""The items of a SELECT list: the expression of each, and its alias. Pure."""

from collections.abc import Set
from typing import NamedTuple

from sqlglot import exp

from dp_sql.sql.sqlglot_tree import projection
from dp_sql.sql.tokens import Token, Tokens, folded


class ListItem(NamedTuple):
    """An item of a SELECT list as written: its expression, its alias, and whether it has a call."""

    tokens: Tokens
    expression: Tokens
    alias: str | None
    has_call: bool

    @property
    def span(self) -> tuple[int, int]:
        """Where it is in the text."""
        return self.tokens.span

    def is_named(self, word: Token, source: Set[str]) -> bool:
        """Whether a word is its alias, and not a column in the item itself.

        A name behind one that `source`, the names in FROM, lacks is a field: city in
        lower(place.city).
        """
        name = self.alias
        if name is None or word.name is None or folded(name) != folded(word.name):
            return False
        tree = projection(self.expression.text)
        if self.expression.names or tree is None:
            return True
        own = (one for one in tree.find_all(exp.Column) if folded(one.name) == folded(name))
        return all(one.table and folded(one.table) not in source for one in own)


def list_item(tokens: Tokens, calls: Set[int]) -> ListItem:
    """An item of a list; `calls` are the offsets at which DP calls begin."""
    has_call = not calls.isdisjoint(token.start for token in tokens)
    return ListItem(tokens, *without_alias(tokens), has_call)


# The last word of an expression or a type, and what an alias without AS may follow.
_NO_ALIASES = {"END", "ISNULL", "NOTNULL", "PRECISION", "VARYING"}
_BEFORE_ALIAS = {"END", "ISNULL", "NOTNULL", "NULL", "TRUE", "FALSE"}


def without_alias(item: Tokens) -> tuple[Tokens, str | None]:
    """The expression of an item, and its alias."""
    if len(item) > 2 and item[1].is_symbol(":") and item[0].name is not None:
        return item[2:], item[0].name  # k: region
    name = item.at(len(item) - 1).name
    if name is None or len(item) < 2 or item[-1].upper in _NO_ALIASES:
        return item, None
    before = item[-2]
    if before.upper == "AS" and len(item) > 2:
        return item[:-2], name
    for place, token in enumerate(item[:-2]):
        if token.upper == "INTERVAL" and item.matching(place + 1) == len(item) - 2:
            return item, None  # the unit, as in INTERVAL (7) DAY
    is_literal = before.kind in {"number", "string"} or before.upper in _BEFORE_ALIAS
    is_type = len(item) > 3 and item[-3].is_symbol("::")
    is_name = before.name is not None and (
        before.kind != "word" or (before.upper != "NOT" and item[:-1].names) or _is_aliased(item)
    )
    if before.is_symbol(")", "]") or is_literal or is_type or is_name:
        return item[:-1], name
    return item, None


def _is_aliased(tokens: Tokens) -> bool:
    """Whether the last of some tokens is an alias, and not a part of the expression."""
    tree = projection(tokens.text)
    return isinstance(tree, exp.Alias) and folded(tree.alias) == tokens[-1].folded
