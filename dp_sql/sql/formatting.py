"""How identifiers, literals and decimals are written in SQL."""

import re
from collections.abc import Sequence
from fractions import Fraction

_RESERVED = """
    ALL ANALYSE ANALYZE AND ANY ARRAY AS ASC ASYMMETRIC BOTH CASE CAST CHECK COLLATE COLUMN
    CONSTRAINT CREATE DEFAULT DEFERRABLE DESC DESCRIBE DISTINCT DO ELSE END EXCEPT FALSE FETCH FOR
    FOREIGN FROM GROUP HAVING IN INITIALLY INTERSECT INTO LAMBDA LATERAL LEADING LIMIT NOT NULL
    OFFSET ON ONLY OR ORDER PIVOT PIVOT_LONGER PIVOT_WIDER PLACING PRIMARY QUALIFY REFERENCES
    RETURNING SELECT SHOW SOME SUMMARIZE SYMMETRIC TABLE THEN TO TRAILING TRUE UNION UNIQUE UNPIVOT
    USING VARIADIC WHEN WHERE WINDOW WITH
"""
RESERVED = frozenset(_RESERVED.split())  # keywords that DuckDB reads as names only in quotes


def quote(name: str) -> str:
    """An identifier that SQL reads back as exactly this name.

    >>> print(quote('a"b'))
    "a""b"
    """
    return '"' + name.replace('"', '""') + '"'


def unquoted(identifier: str) -> str:
    """The name that `quote` has written.

    >>> unquoted(quote('a"b'))
    'a"b'
    """
    return identifier[1:-1].replace('""', '"')


def shown_name(name: str) -> str:
    """An identifier as people write it: quoted only if it must be.

    >>> shown_name("title"), shown_name("my title"), shown_name("Order")
    ('title', '"my title"', '"Order"')
    """
    is_plain = re.fullmatch(r"[A-Za-z_]\w*", name) and name.upper() not in RESERVED
    return name if is_plain else quote(name)


def full_name(parts: Sequence[str]) -> str:
    """A relation's or column's name of several parts, as SQL.

    >>> print(full_name(("shop", "main", "my table")))
    "shop"."main"."my table"
    """
    return ".".join(quote(part) for part in parts)


def literal(value: str | bool | int | Fraction) -> str:
    """A value as SQL reads it back exactly; ValueError for a fraction that is not a finite decimal.

    >>> print(literal("it's"), literal(True), literal(-3), literal(Fraction(-5, 4)))
    'it''s' TRUE -3 -1.25
    """
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    most = value.denominator.bit_length()
    if (places := places_of(value, most)) > most:
        raise ValueError("This fraction is not a finite decimal.")
    return decimal(value, places)


def in_macro(query: str, more: str = "") -> str:
    """FROM dp(…) with a query in dollar quotes, which have a tag if the query has dollars itself.

    >>> in_macro("SELECT 1"), in_macro("SELECT '$'")
    ('FROM dp($$ SELECT 1 $$)', "FROM dp($q$ SELECT '$' $q$)")
    """
    tag = "q" * ("$" in query)
    while f"${tag}$" in query:
        tag += "q"
    return f"FROM dp(${tag}$ {query} ${tag}${more})"


def combination(items: Sequence[str]) -> str:
    """A string for the values of several expressions, a different one for each combination.

    It has the length and the text of each value, or - for NULL, so that it can be read in one way.

    >>> combination(["a"])
    "concat(coalesce(strlen(CAST(a AS VARCHAR)) || ':' || CAST(a AS VARCHAR), '-'))"
    """
    texts = [f"CAST({item} AS VARCHAR)" for item in items]
    parts = [f"coalesce(strlen({text}) || ':' || {text}, '-')" for text in texts]
    return f"concat({', '.join(parts)})"


def places_of(x: int | Fraction, most: int) -> int:
    """How many decimal places a number needs; `most` + 1 if it needs more than `most`.

    >>> places_of(Fraction(5, 4), 38), places_of(7, 38), places_of(Fraction(1, 3), 38)
    (2, 0, 39)
    """
    return next((n for n in range(most + 1) if (x * 10**n).denominator == 1), most + 1)


def decimal(x: int | Fraction, places: int) -> str:
    """A number with a fixed number of decimal places, rounded towards zero.

    >>> decimal(Fraction(-1, 3), 2), decimal(7, 0)
    ('-0.33', '7')
    """
    digits = str(abs(x.numerator) * 10**places // x.denominator).zfill(places + 1)
    point = len(digits) - places
    return f"{'-' if x < 0 else ''}{digits[:point]}{'.' if places else ''}{digits[point:]}"
