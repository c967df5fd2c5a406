"""What a SELECT with DP calls is grouped by: columns, or expressions of columns. Pure."""

from collections.abc import Sequence, Set
from itertools import accumulate

from sqlglot import exp

from dp_sql.errors import ArgumentError, NotSupported
from dp_sql.sql.clauses import Clause
from dp_sql.sql.given import PublicSet, Reference, SetPerKey
from dp_sql.sql.list_items import ListItem, without_alias
from dp_sql.sql.restated import OtherQuestion, Restated
from dp_sql.sql.sqlglot_tree import projection
from dp_sql.sql.tokens import Token, Tokens, folded, tokenize

_SETS = {"ROLLUP", "CUBE", "GROUPING"}
_BEHIND = {"ASC", "DESC", "NULLS", "ORDER", "ROWS", "RANGE", "GROUPS"}  # an expression of … BY


def group_keys(
    tokens: Tokens,
    group: Clause,
    items: Sequence[ListItem],
    source: Set[str],
) -> tuple[Reference, ...]:
    """The keys of a GROUP BY clause, also numbers or names of items, or ALL; () has none.

    `items` are those of the list, `source` the names in FROM, folded. An expression is called as in
    the list, or else as it is written. Raises NotSupported.
    """
    parts = [tokens[a:b] for a, b in tokens.split(group.start + 2, group.stop)]
    if not parts or not all(parts):
        raise tokens[group.start].error(NotSupported, "GROUP BY names no column here.")
    if [part.text.replace(" ", "") for part in parts] == ["()"]:
        return ()
    _refuse_sets(parts)
    if [part[0].upper for part in parts if len(part) == 1] == ["ALL"]:
        listed = [item.expression for item in items if not item.has_call]
        # A window function is computed over the groups.
        listed = [one for one in listed if all(token.upper != "OVER" for token in one)]
        parts = [one for one in listed if _has_column(one)]
    found: dict[tuple[str, ...], tuple[Token, Reference]] = {}
    for part in parts:
        first, key = _key(tokens, part, items, source)
        found.setdefault(tuple(map(_same, tokenize(key.text))), (first, key))
    return _called_apart([*found.values()])


def _called_apart(found: Sequence[tuple[Token, Reference]]) -> tuple[Reference, ...]:
    """Keys, each found at a token; of two columns with one name each is called as it is written."""
    short = [folded(key.parts[-1]) for _, key in found]
    keys: dict[str, Reference] = {}
    for first, own in found:
        is_clear = short.count(folded(own.parts[-1])) == 1 or len(own.parts) == 1
        key = own if is_clear else own._replace(parts=(own.text,), is_expression=True)
        name = folded(key.parts[-1])
        if name.startswith("__dp_") or name in keys:
            wrong = f"more than one column {key.parts[-1]}"
            if name.startswith("__dp_"):
                wrong = "a column whose name begins with __dp_, which dp_sql uses itself"
            raise first.error(NotSupported, f"GROUP BY has {wrong}.")
        keys[name] = key
    return tuple(keys.values())


def refuse_two_meanings(
    tokens: Tokens,
    items: Sequence[ListItem],
    keys: Sequence[Reference],
    groups: PublicSet | SetPerKey,
) -> None:
    """Refuse stated groups of a column of which an item of the same name is computed.

    GROUP BY means the column, and the groups may be meant for the item: coalesce(x, 'none') AS x.
    """
    sets = groups.sets if isinstance(groups, SetPerKey) else [groups] * len(keys)
    listed = {token.start for item in items for token in item.tokens}
    for key, given in zip(keys, sets, strict=False):
        shown = key.parts[-1]
        is_own = isinstance(given, Reference) and folded(given.parts[-1]) in {
            folded(shown), "observed"
        }  # fmt: skip
        is_meant = key.position in listed  # a number or an alias led to it
        if is_own or is_meant or key.is_expression or len(key.parts) > 1:
            continue
        for number, item in enumerate(items, start=1):
            expression, name = item.expression, item.alias
            if name is None or folded(name) != folded(shown):
                continue
            if item.has_call or _without_brackets(expression).names:
                continue
            place = tokens[tokens.place_at(key.position)]
            message = f"GROUP BY {key.text} means the column {shown}, and not {expression.text}."
            hint = f"Write GROUP BY {number} for the expression, whose groups these may be."
            hint += " For the column, give the expression another alias."
            by_number = OtherQuestion(place.put(str(number)))
            raise place.error(ArgumentError, message, hint, [by_number])


def equal_places(tokens: Tokens, key: Reference, is_whole: bool) -> list[tuple[int, int]]:
    """Where some tokens are the expression of a key, alone or as a whole part of an expression."""
    own = tokenize(key.text)
    wanted, n = [_same(token) for token in own], len(own)
    is_closed = _is_closed(own)
    item = without_alias(tokens)[0] if is_whole else None
    found = []
    for start in range(len(tokens) - n + 1):
        stop = start + n
        if [_same(token) for token in tokens[start:stop]] != wanted:
            continue
        before = tokens[start - 1] if start else None
        after = tokens.at(stop)
        is_argument = before is not None and (before.is_symbol("(", ",") or before.upper == "BY")
        is_argument &= stop == len(tokens) or after.is_symbol(")", ",") or after.upper in _BEHIND
        is_part = is_closed and (before is None or not before.is_symbol("."))
        is_part &= not (after.is_symbol(".", "(") and own[-1].name is not None)
        if tokens[start:stop] == item or is_argument or is_part:
            found.append((start, stop))
    return found


def _is_closed(tokens: Tokens) -> bool:
    """Whether an expression is a name, a call or CASE: nothing beside it can change it."""
    if tokens.names:
        return True
    if len(tokens) > 2 and tokens[1].is_symbol("("):
        return tokens.matching(1) == len(tokens) - 1
    depths = [*accumulate((t.upper == "CASE") - (t.upper == "END") for t in tokens)]
    return len(depths) > 1 and depths[-1] == 0 and all(depths[:-1])


def _same(token: Token) -> str:
    """What two tokens have in common that DuckDB reads alike."""
    return folded(token.name) if token.name is not None else token.text


def _refuse_sets(parts: Sequence[Tokens]) -> None:
    """Refuse ROLLUP, CUBE and GROUPING SETS, whose groups contain each other."""
    for part in parts:
        if part[0].upper in _SETS and len(part) > 1:
            word = part[0].upper + (" SETS" if part[0].upper == "GROUPING" else "")
            inner = part.text.partition("(")[2].replace("(", "").replace(")", "")
            keys = ", ".join(dict.fromkeys(key.strip() for key in inner.split(",") if key.strip()))
            message = (
                f"{word} is not supported with a DP call: one person is in a group and in each of "
                "its totals, so each level of groups is a release of its own."
            )
            hint = "Write another statement for each level of totals."
            raise part[0].error(NotSupported, message, hint, [part.put(keys)])


def _key(
    tokens: Tokens,
    part: Tokens,
    items: Sequence[ListItem],
    source: Set[str],
) -> tuple[Token, Reference]:
    """One key and its first token."""
    own, name = _without_brackets(part), None
    if len(own) == 1 and (item := _meant(own[0], items, source)) is not None:
        own, name = item.expression, item.alias
    if own.names:
        return own[0], Reference(own.names, own.text, own[0].start)
    if not _has_column(own):
        message = "GROUP BY of a SELECT with a DP call takes columns."
        hint = "Group by a column of the source, or an expression of one: GROUP BY region."
        raise own[0].error(NotSupported, message, hint, _without_constant(tokens, part, own))
    if name is None:  # as the same expression is called in the list
        same = [*map(_same, own)]
        beside = (item for item in items if not item.has_call)
        aliases = (item.alias for item in beside if [*map(_same, item.expression)] == same)
        name = next(filter(None, aliases), None)
    return own[0], Reference((name or own.text,), own.text, own[0].start, is_expression=True)


def _meant(word: Token, items: Sequence[ListItem], source: Set[str]) -> ListItem | None:
    """The item beside the calls that a key of one word means: by its number, or by its alias."""
    number = int(word.text) if word.text.isdecimal() and len(word.text) < 7 else 0
    beside = [item for item in items if not item.has_call]
    if 0 < number <= len(items) and not items[number - 1].has_call:
        return items[number - 1]
    return next((item for item in beside if item.is_named(word, source)), None)


def _without_constant(tokens: Tokens, part: Tokens, item: Tokens) -> list[Restated]:
    """The statement without the number of a literal of the list, if there are other keys.

    An alias may be a column of the source, too, and then means that.
    """
    is_literal = len(item) == 1 and item[0].kind in {"number", "string"}
    if not is_literal or part[0].kind != "number" or item[0] in part:
        return []
    start = tokens.index(part[0])
    stop = start + len(part)
    has_others = tokens[start - 1].is_symbol(",") or tokens.at(stop).is_symbol(",")
    return [Restated(tokens.left_out(start, stop))] if has_others else []


def _without_brackets(part: Tokens) -> Tokens:
    """A name or a number without its brackets; an expression keeps them."""
    inner = part
    while inner[0].is_symbol("(") and inner.matching(0) == len(inner) - 1 and len(inner) > 2:
        inner = inner[1:-1]
    return inner if len(inner) == 1 or inner.names else part


def _has_column(tokens: Tokens) -> bool:
    tree = projection(tokens.text)
    return tree is not None and tree.find(exp.Column) is not None
