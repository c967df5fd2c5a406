"""SQL as people write it, from the query of a relation that DuckDB 1.5 has printed anew. Pure."""

import re

from dp_sql.sql.tokens import Edit, Tokens, edited, tokenize

_BOOLEANS = {"'T'": "true", "'F'": "false"}
_TIMES = {"DATE": "DATE", "TIMESTAMP": "TIMESTAMP", "TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ",
          "INTERVAL": "INTERVAL"}  # fmt: skip
_WHOLE = r"CAST \( trunc \( CAST \( ([0-9]+) AS DOUBLE \) \) AS (?:INTEGER|BIGINT) \)"
_INTERVAL = re.compile(rf"to_([a-z]+)s \( (?:{_WHOLE}|CAST \( ([0-9]+) AS DOUBLE \)) \)")
_LONGEST = 17  # the tokens of the longest INTERVAL


def as_people_write(text: str) -> str:
    """The same statement, with literals, series and names that dp_sql reads as they are.

    >>> as_people_write('SELECT f("domain" := "range"(3))')
    'SELECT f(domain := range(3))'
    >>> as_people_write("SELECT f(lower := CAST('2026-01-31' AS DATE))")
    "SELECT f(lower := DATE '2026-01-31')"
    >>> as_people_write("SELECT day - to_days(CAST(trunc(CAST(7 AS DOUBLE)) AS INTEGER))")
    'SELECT day - INTERVAL 7 DAY'
    >>> as_people_write("SELECT main.list_value(CAST('t' AS BOOLEAN)), count_star()")
    'SELECT [true], count(*)'
    >>> as_people_write("SELECT 'a' = ANY(SELECT unnest(tags))")
    "SELECT 'a' = ANY(tags)"
    """
    tokens, edits = tokenize(text), []
    end = 0
    for i, token in enumerate(tokens):
        if i < end:
            continue
        words = tuple(one.text.upper() for one in tokens[i : i + 4])
        literal, length = _literal(tokens[i : i + _LONGEST])
        if length:
            end = i + length
            edits.append((token.start, tokens[end - 1].end, literal))
        elif words == ("MAIN", ".", "LIST_VALUE", "("):
            close = tokens[tokens.matching(i + 3)]
            edits += [(token.start, tokens[i + 3].end, "["), (close.start, close.end, "]")]
        elif words == ("ANY", "(", "SELECT", "UNNEST") and tokens.at(i + 4).is_symbol("("):
            last = tokens.matching(i + 4)
            if tokens.matching(i + 1) == last + 1:
                edits.append((tokens[i + 2].start, tokens[i + 4].end, ""))
                edits.append((tokens[last].start, tokens[last].end, ""))
        else:
            edits += _name(tokens, i, words)
    return edited(text, edits)


def _literal(tokens: Tokens) -> tuple[str, int]:
    """What people write for the first of some tokens, and how many they are; 0 if nothing else."""
    words = [one.text for one in tokens]
    if words[:2] == ["CAST", "("] and [*words[3:4], *words[5:6]] == ["AS", ")"]:
        kind = (tokens[4].name or "").upper()
        if kind == "BOOLEAN" and words[2].upper() in _BOOLEANS:
            return _BOOLEANS[words[2].upper()], 6
        if kind in _TIMES and tokens[2].kind == "string":
            return f"{_TIMES[kind]} {words[2]}", 6
    if words[:3] == ["count_star", "(", ")"]:
        return "count(*)", 3
    found = _INTERVAL.match(" ".join(words)) if words[0][:3] == "to_" else None
    if found is None:
        return "", 0
    return f"INTERVAL {found[2] or found[3]} {found[1].upper()}", len(found[0].split())


def _name(tokens: Tokens, i: int, words: tuple[str, ...]) -> list[Edit]:
    """A function without DuckDB's own schema; a named argument or range without quotes."""
    token, after = tokens[i], tokens.at(i + 1)
    if (words[:2], words[3:]) == (("MAIN", "."), ("(",)):  # as of extract(epoch FROM day)
        is_own = words[2][:3] != "DP_" and not (i and tokens[i - 1].is_symbol("."))
        return [(token.start, tokens[i + 2].start, "")] if is_own else []
    is_argument = after.is_symbol(":=") or (words[:1] == ('"RANGE"',) and after.is_symbol("("))
    is_plain = re.fullmatch('"[a-z_]+"', token.text) is not None
    return [(token.start, token.end, token.text[1:-1])] if is_argument and is_plain else []
