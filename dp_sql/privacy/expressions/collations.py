"""Which collation does a string column have, and may its strings be compared?

DuckDB folds both sides of a comparison by their collation, and DESCRIBE does not show which one a
column has. It is found by binding: DuckDB refuses to compare two different collations. A collation
is usable here only if folding takes time linear in the length of the string: not NFC (800,000
combining marks take minutes), and not those of ICU, for which it is not known.
"""

from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp

from dp_sql.privacy.expressions.value import MAX_STRING, MAX_TEXT_BYTES, Value, bounded
from dp_sql.privacy.refusals import Refused, refuse
from dp_sql.sql.formatting import literal, quote
from dp_sql.sql.sqlglot_tree import Node
from dp_sql.sql.tokens import edited, tokenize

PLAIN, BINARY, OTHER = "", "binary", "other"
NOCASE = frozenset({"nocase", "NOCASE"})
"""Spellings. To DuckDB these are two collations, and it does not compare one with the other."""
_LINEAR = (BINARY, *sorted(NOCASE), "NOACCENT", "noaccent")


def collations(
    compares: Callable[[str, str], bool], relation: str, columns: Sequence[str]
) -> Mapping[str, str]:
    """The collation of each string column of a relation.

    compares: whether DuckDB can bind a condition over the columns of a relation.
    """

    def passes(names: Sequence[str], tried: Sequence[str]) -> bool:
        terms = (f"{quote(name)} = ('' COLLATE \"{one}\")" for name in names for one in tried)
        return compares(relation, " AND ".join(terms))

    if not columns or passes(columns, _LINEAR[:2]):
        return dict.fromkeys(columns, PLAIN)
    found = {}
    for name in columns:
        passed = [one for one in _LINEAR if passes([name], [one])]
        found[name] = PLAIN if len(passed) > 1 else (passed or [OTHER])[0]
    return found


def agree(node: Node, *values: Value) -> str:
    """The collation under which values are compared; else raises Refused."""
    named = sorted({value.collation for value in values} - {PLAIN})
    if OTHER in named:
        raise unknown(node)
    if len(named) > 1:
        raise refuse(node, f"These strings have different collations ({', '.join(named)})")
    return named[0] if named else PLAIN


def under(collation: str, value: Value) -> Value:
    """A value as a collation compares it, also where its column was made distinct byte by byte."""
    if collation in {PLAIN, BINARY}:
        return value
    return value._replace(sql=f'({value.sql}) COLLATE "{collation}"')


def collated(node: Node, value: Value) -> Value:
    """`title COLLATE NOCASE`, as a side of a comparison."""
    name, place = node.expression.name, node.parent
    while isinstance(place, exp.Paren):
        place = place.parent
    several = isinstance(node.expression, exp.Column)  # NOCASE.NOACCENT
    if value.type != "VARCHAR" or several or name not in {*NOCASE, "NOACCENT", "noaccent"}:
        raise refuse(node, "COLLATE takes a string, and NOCASE or NOACCENT here", "")
    if not isinstance(place, exp.Predicate) or value.collation not in {PLAIN, BINARY, name}:
        why = "COLLATE is supported here only beside a comparison"
        raise refuse(node, why, "Write lower(…) or strip_accents(…), and compare the results.")
    return value.computed(value.sql).without_facts()._replace(collation=name)


def either(node: Node, one: Value, other: Value) -> Value:
    """A column of UNION ALL, from those of its two sides, which have the same type."""
    bounds = (one.bound, other.bound)
    is_known = one.has_facts and other.has_facts and one.own_values and other.own_values
    own = tuple(dict.fromkeys(one.own_values + other.own_values)) if is_known else ()
    return one.without_facts()._replace(
        origin=one.origin if one.origin == other.origin else None,
        is_person=one.is_person and other.is_person,
        is_own=one.is_of_person and other.is_of_person,
        collation=agree(node, one, other),
        bound=None if None in bounds else max(bound or 0 for bound in bounds),
        own_values=own,
        facts_of=one.sql if own else "",
    )


def unknown(node: Node) -> Refused:
    """The refusal of a comparison under a collation that is not known to be linear."""
    return refuse(
        node,
        "Strings with this collation cannot be compared here: it may be slow on some strings",
        "Its owner can offer the column without a collation, or with NOCASE or NOACCENT.",
    )


def without_collations(sql: str) -> str:
    """SQL without `COLLATE name`, which says nothing of the tables that it reads."""
    sql = sql.replace(' COLLATE "binary"', "")
    if "COLLATE" not in sql.upper():
        return sql
    edits, tokens = [], tokenize(sql)
    for i, token in enumerate(tokens[:-1]):
        if token.kind == "word" and token.upper == "COLLATE":
            name = tokens.dotted(i + 1) or tokens[i + 1 : i + 2]
            edits.append((token.start, name[-1].end, ""))
    return edited(sql, edits)


LONGEST_PATTERN = 1000
LONGEST_EXPRESSION = 100  # of a regular expression's pattern: RE2's time grows with both lengths


def like(node: Node, value: Value, pattern: Sequence[str], fold: bool) -> str:
    """The condition that a string matches a pattern of LIKE, in which no character escapes % and _.

    pattern: its characters, with NUL before each that is escaped.
    fold: whether case is ignored, as in ILIKE.

    Raises Refused where the pattern is too long, or the string has another collation.
    """
    if value.collation not in {PLAIN, BINARY, *NOCASE}:
        raise unknown(node)
    word, written = _function(pattern)
    longest = LONGEST_EXPRESSION if word == "regexp_full_match" else LONGEST_PATTERN
    if len(pattern) > longest:
        why = f"This pattern has over {longest} characters"
        raise refuse(node, why, f"Shorten it to {longest}.")
    most = MAX_TEXT_BYTES if word == "regexp_full_match" else MAX_STRING
    string, wanted = value.sql if word == "=" else bounded(value, most).sql, literal(written)
    if fold or value.collation in NOCASE:
        string, wanted = f"system.main.lower({string})", f"system.main.lower({wanted})"
    if word == "=":
        return f"{string} = {wanted}"
    options = ", 's'" if word == "regexp_full_match" else ""
    return f"system.main.{word}({string}, {wanted}{options})"


def escaped(node: Node, pattern: str, escape: str) -> list[str]:
    r"""The characters of a pattern, with NUL before each that is escaped.

    >>> from sqlglot import exp
    >>> escaped(exp.null(), "5!%%", "!")
    ['5', '\x00%', '%']
    """
    found, characters = [], iter(pattern)
    for character in characters:
        behind = next(characters, None) if character == escape else ""
        if behind is None:
            raise refuse(node, "This pattern ends with its escape character", "")
        found.append(f"\0{behind}" if behind else character)
    return found


def _function(pattern: Sequence[str]) -> tuple[str, str]:
    r"""The function that matches a pattern, and its second argument.

    >>> [_function(p) for p in ("a", "a%", "%a", "%a%")]
    [('=', 'a'), ('starts_with', 'a'), ('ends_with', 'a'), ('contains', 'a')]
    >>> print(*_function("%a_c%d.%"))
    regexp_full_match .*a.c.*d\..*
    """
    first = next((i for i, c in enumerate(pattern) if c != "%"), len(pattern))
    last = next((i for i in range(len(pattern), first, -1) if pattern[i - 1] != "%"), first)
    inner = pattern[first:last]
    if "%" in inner or "_" in inner:
        return "regexp_full_match", expression(pattern)
    found = "".join(c[-1] for c in inner)
    before, after = first > 0, last < len(pattern) or first == len(pattern) > 0
    if before and after:
        return ("contains" if inner else "starts_with"), found
    return ("ends_with" if before else "starts_with" if after else "="), found


def expression(pattern: Sequence[str]) -> str:
    r"""The regular expression of a pattern. Lower-casing it lower-cases the pattern's letters only.

    >>> print(expression("50%\\_é"))
    50.*\\.é
    """
    wild = {"%": ".*", "_": "."}
    return "".join(
        wild.get(c) or (f"\\{c[-1]}" if c[-1].isascii() and not c[-1].isalnum() else c[-1])
        for c in pattern
    )
