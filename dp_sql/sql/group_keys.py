"""What a SELECT with DP calls is grouped by: columns, or expressions of columns. Pure."""

from collections.abc import Sequence
from itertools import accumulate

from sqlglot import exp

from dp_sql.errors import ArgumentError, NotSupported
from dp_sql.sql.clauses import Clause
from dp_sql.sql.given import PublicSet, Reference, SetPerKey
from dp_sql.sql.restated import OtherQuestion, Restated
from dp_sql.sql.sqlglot_tree import projection
from dp_sql.sql.tokens import Token, Tokens, folded, tokenize

TokenSpan = tuple[int, int]  # indices of tokens: [start, stop)

_SETS = {"ROLLUP", "CUBE", "GROUPING"}
_BEHIND = {"ASC", "DESC", "NULLS"}  # words behind an expression of ORDER BY


def group_keys(
    tokens: Tokens, group: Clause, items: tuple[TokenSpan, ...], places: Sequence[int]
) -> tuple[Reference, ...]:
    """The keys of a GROUP BY clause, also numbers or names of items, or ALL; () has none.

    `items` are those of the list, `places` those of the DP calls. An expression is called as in
    the list, or else as it is written. Raises NotSupported.
    """
    parts = tokens.split(group.start + 2, group.stop)
    if not parts or any(a >= b for a, b in parts):
        raise tokens[group.start].error(NotSupported, "GROUP BY names no column here.")
    if [tokens[a:b].text.replace(" ", "") for a, b in parts] == ["()"]:
        return ()
    _refuse_sets(tokens, parts)
    beside = tuple((a, b) for a, b in items if not any(a <= place < b for place in places))
    if [tokens[a].upper for a, b in parts if b - a == 1] == ["ALL"]:
        listed = [without_alias(tokens, item)[0] for item in beside]
        # A window function is computed over the groups.
        listed = [(a, b) for a, b in listed if all(t.upper != "OVER" for t in tokens[a:b])]
        parts = [part for part in listed if _has_column(tokens, part)]
    found: dict[tuple[str, ...], tuple[int, Reference]] = {}
    for part in parts:
        start, key = _key(tokens, part, items, beside)
        found.setdefault(tuple(map(_same, tokenize(key.text))), (start, key))
    return _called_apart(tokens, [*found.values()])


def _called_apart(tokens: Tokens, found: Sequence[tuple[int, Reference]]) -> tuple[Reference, ...]:
    """Keys, each found at a token; of two columns with one name each is called as it is written."""
    short = [folded(key.parts[-1]) for _, key in found]
    keys: dict[str, Reference] = {}
    for start, own in found:
        is_clear = short.count(folded(own.parts[-1])) == 1 or len(own.parts) == 1
        key = own if is_clear else own._replace(parts=(own.text,), is_expression=True)
        name = folded(key.parts[-1])
        if name.startswith("__dp_") or name in keys:
            wrong = f"more than one column {key.parts[-1]}"
            if name.startswith("__dp_"):
                wrong = "a column whose name begins with __dp_, which dp_sql uses itself"
            raise tokens[start].error(NotSupported, f"GROUP BY has {wrong}.")
        keys[name] = key
    return tuple(keys.values())


def refuse_two_meanings(
    tokens: Tokens,
    items: Sequence[TokenSpan],
    keys: Sequence[Reference],
    groups: PublicSet | SetPerKey,
) -> None:
    """Refuse stated groups of a column of which an item of the same name is computed.

    GROUP BY means the column, and the groups may be meant for the item: coalesce(x, 'none') AS x.
    """
    sets = groups.sets if isinstance(groups, SetPerKey) else [groups] * len(keys)
    for key, given in zip(keys, sets, strict=False):
        shown = key.parts[-1]
        is_own = isinstance(given, Reference) and folded(given.parts[-1]) in {
            folded(shown), "observed"
        }  # fmt: skip
        if is_own or key.is_expression or len(key.parts) > 1:
            continue
        for number, item in enumerate(items, start=1):
            expression, name = without_alias(tokens, item)
            start, stop = _without_brackets(tokens, expression)
            if name is None or folded(name) != folded(shown) or tokens[start:stop].names:
                continue
            of_item = tokens[slice(*expression)].text
            place = next(t for t in tokens if t.start == key.position)
            message = f"GROUP BY {key.text} means the column {shown}, and not {of_item}."
            hint = f"Write GROUP BY {number} for the expression, whose groups these may be."
            hint += " For the column, give the expression another alias."
            by_number = OtherQuestion(place.put(str(number)))
            raise place.error(ArgumentError, message, hint, [by_number])


def equal_places(tokens: Tokens, key: Reference, is_whole: bool) -> list[TokenSpan]:
    """Where some tokens are the expression of a key, alone or as a whole part of an expression."""
    own = tokenize(key.text)
    wanted, n = [_same(token) for token in own], len(own)
    is_closed = _is_closed(own)
    item, _ = without_alias(tokens, (0, len(tokens))) if is_whole else ((0, 0), None)
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
        if item == (start, stop) or is_argument or is_part:
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


def _refuse_sets(tokens: Tokens, parts: Sequence[TokenSpan]) -> None:
    """Refuse ROLLUP, CUBE and GROUPING SETS, whose groups contain each other."""
    for start, stop in parts:
        if tokens[start].upper in _SETS and stop - start > 1:
            word = tokens[start].upper + (" SETS" if tokens[start].upper == "GROUPING" else "")
            inner = tokens[start:stop].text.partition("(")[2].replace("(", "").replace(")", "")
            keys = ", ".join(dict.fromkeys(key.strip() for key in inner.split(",") if key.strip()))
            message = (
                f"{word} is not supported with a DP call: one person is in a group and in each of "
                "its totals, so each level of groups is a release of its own."
            )
            hint = "Write another statement for each level of totals."
            raise tokens[start].error(NotSupported, message, hint, [tokens[start:stop].put(keys)])


def _key(
    tokens: Tokens, part: TokenSpan, items: Sequence[TokenSpan], beside: Sequence[TokenSpan]
) -> tuple[int, Reference]:
    """One key and its first token."""
    start, stop = _without_brackets(tokens, part)
    name: str | None = None
    if stop - start == 1 and (item := _meant(tokens, tokens[start], items, beside)) is not None:
        (start, stop), name = without_alias(tokens, item)
    names = tokens[start:stop].names
    if names:
        return start, Reference(names, tokens[start:stop].text, tokens[start].start)
    if not _has_column(tokens, (start, stop)):
        message = "GROUP BY of a SELECT with a DP call takes columns."
        hint = "Group by a column of the source, or an expression of one: GROUP BY region."
        instead = _without_constant(tokens, part, (start, stop))
        raise tokens[start].error(NotSupported, message, hint, instead)
    text = tokens[start:stop].text
    if name is None:  # as the same expression is called in the list
        same = [*map(_same, tokens[start:stop])]
        listed = (without_alias(tokens, item) for item in beside)
        aliases = (called for (a, b), called in listed if [*map(_same, tokens[a:b])] == same)
        name = next(filter(None, aliases), None)
    return start, Reference((name or text,), text, tokens[start].start, is_expression=True)


def _meant(
    tokens: Tokens, word: Token, items: Sequence[TokenSpan], beside: Sequence[TokenSpan]
) -> TokenSpan | None:
    """The item beside the calls that a key of one word means: by its number, or by its alias."""
    number = int(word.text) if word.text.isdecimal() and len(word.text) < 7 else 0
    if 0 < number <= len(items) and items[number - 1] in beside:
        return items[number - 1]
    return next((item for item in beside if _is_called(tokens, item, word)), None)


def _without_constant(tokens: Tokens, part: TokenSpan, item: TokenSpan) -> list[Restated]:
    """The statement without the number of a literal of the list, if there are other keys.

    An alias may be a column of the source, too, and then means that.
    """
    start, stop = part
    is_literal = item[1] - item[0] == 1 and tokens[item[0]].kind in {"number", "string"}
    if not is_literal or tokens[start].kind != "number" or start <= item[0] < stop:
        return []
    has_others = tokens[start - 1].is_symbol(",") or tokens.at(stop).is_symbol(",")
    return [Restated(tokens.left_out(start, stop))] if has_others else []


def _without_brackets(tokens: Tokens, part: TokenSpan) -> TokenSpan:
    """A name or a number without its brackets; an expression keeps them."""
    start, stop = part
    while tokens[start].is_symbol("(") and tokens.matching(start) == stop - 1 and stop - start > 2:
        start, stop = start + 1, stop - 1
    return (start, stop) if stop - start == 1 or tokens[start:stop].names else part


def _is_called(tokens: Tokens, item: TokenSpan, word: Token) -> bool:
    """Whether a word is the alias of an item, and not a column in the item itself."""
    (start, stop), name = without_alias(tokens, item)
    if name is None or word.name is None or folded(name) != folded(word.name):
        return False
    tree = projection(tokens[start:stop].text)
    if tokens[start:stop].names or tree is None:
        return True
    return all(folded(one.name) != folded(name) for one in tree.find_all(exp.Column))


# The last word of an expression or a type, and what an alias without AS may follow.
_NO_ALIASES = {"END", "ISNULL", "NOTNULL", "PRECISION", "VARYING"}
_BEFORE_ALIAS = {"END", "ISNULL", "NOTNULL", "NULL", "TRUE", "FALSE"}


def without_alias(tokens: Tokens, item: TokenSpan) -> tuple[TokenSpan, str | None]:
    """The expression of an item, and its alias."""
    start, stop = item
    if stop - start > 2 and tokens[start + 1].is_symbol(":") and tokens[start].name is not None:
        return (start + 2, stop), tokens[start].name  # k: region
    name = tokens[stop - 1].name if stop > start else None
    if name is None or stop - start < 2 or tokens[stop - 1].upper in _NO_ALIASES:
        return item, None
    before = tokens[stop - 2]
    if before.upper == "AS" and stop - start > 2:
        return (start, stop - 2), name
    for place in range(start, stop - 2):
        if tokens[place].upper == "INTERVAL" and tokens.matching(place + 1) == stop - 2:
            return item, None  # the unit, as in INTERVAL (7) DAY
    is_literal = before.kind in {"number", "string"} or before.upper in _BEFORE_ALIAS
    is_type = stop - start > 3 and tokens[stop - 3].is_symbol("::")
    is_name = before.name is not None and (
        before.kind != "word"
        or (before.upper != "NOT" and tokens[start : stop - 1].names)
        or _is_aliased(tokens[start:stop])
    )
    if before.is_symbol(")", "]") or is_literal or is_type or is_name:
        return (start, stop - 1), name
    return item, None


def _is_aliased(tokens: Tokens) -> bool:
    """Whether the last of some tokens is an alias, and not a part of the expression."""
    tree = projection(tokens.text)
    return isinstance(tree, exp.Alias) and folded(tree.alias) == tokens[-1].folded


def _has_column(tokens: Tokens, span: TokenSpan) -> bool:
    tree = projection(tokens[slice(*span)].text)
    return tree is not None and tree.find(exp.Column) is not None
