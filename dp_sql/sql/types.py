"""SQL types: which compare exactly, and which values can be cast without loss."""

import re
from collections.abc import Mapping

from dp_sql.sql.tokens import tokenize

_ENDS = {"TIME": ("00:00:00", "24:00:00")}  # beyond which files may hold values
_BITS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64, "HUGEINT": 128}
INTEGER_RANGES: Mapping[str, tuple[int, int]] = {
    **{name: (-(1 << bits - 1), (1 << bits - 1) - 1) for name, bits in _BITS.items()},
    **{f"U{name}": (0, (1 << bits) - 1) for name, bits in _BITS.items()},
}
INTEGERS = frozenset(INTEGER_RANGES)
ZONED = "TIMESTAMP WITH TIME ZONE"
TIMES = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", ZONED})
DATED = frozenset({"DATE", "TIMESTAMP", ZONED})
# Types whose equality is exact. Floats are out: 0.1 + 0.2 and 0.3 are two items, NaN is one.
EXACT_TYPES = INTEGERS | TIMES | {"VARCHAR", "TIME", "UUID", "BOOLEAN", "ENUM", "BLOB", "DECIMAL"}
BINARY_TYPES = frozenset({"FLOAT", "DOUBLE"})
NUMBERS = INTEGERS | BINARY_TYPES | {"DECIMAL"}

# Integers that fit HUGEINT and, with 18 places behind the point, DECIMAL(38, 18).
UP_TO_64_BITS = INTEGERS - {"HUGEINT", "UHUGEINT"}
FIT_BIGINT = UP_TO_64_BITS - {"UBIGINT"}
MAY_BE_LONG = frozenset({"BLOB", "VARCHAR"})  # long values are sent as hashes
FIT_HUGEINT = UP_TO_64_BITS | {"HUGEINT"}
MOST_DIGITS = 38  # of a DECIMAL
DIGITS_OF_64_BITS = 18  # of a DECIMAL that DuckDB keeps as an integer of 64 bits

_FIRST = {  # of their calendars
    "DATE": "5877642-06-25 (BC)", "TIMESTAMP": "290309-12-22 (BC)", "TIMESTAMP_NS": "1677-09-22",
    ZONED: "290309-12-22 (BC) 00:00:00+00",
}  # fmt: skip
UNSHOWN = frozenset({"TIMESTAMP_S", "TIMESTAMP_MS"})  # they hold times that DuckDB cannot show
TYPE_ALIASES = {
    "TEXT": "VARCHAR", "TIMESTAMPTZ": ZONED, "INT": "INTEGER", "REAL": "FLOAT",
    "UINT": "UINTEGER", "INT128": "HUGEINT", "UINT128": "UHUGEINT",
}  # fmt: skip
# For a type of dates: those that can hold each of its values exactly, within their range. A time
# without a zone is one in the session's zone, as in DuckDB.
_SIGNED = ["TINYINT", "SMALLINT", "INTEGER", "BIGINT"]
_UNSIGNED = [f"U{kind}" for kind in _SIGNED]
_WIDER = {
    "DATE": TIMES - {"DATE"},
    "TIMESTAMP_S": {"TIMESTAMP", "TIMESTAMP_MS", "TIMESTAMP_NS", ZONED},
    "TIMESTAMP_MS": {"TIMESTAMP", "TIMESTAMP_NS", ZONED}, "TIMESTAMP": {"TIMESTAMP_NS", ZONED},
}  # fmt: skip
_NAME_OR_ENUM = r""" "(?:[^"]|"")*" | \bENUM\((?:'(?:[^']|'')*'(?:,[ ]?)?)*\) """
_LABELS = re.compile(_NAME_OR_ENUM, re.VERBOSE)
# What arrow changes or refuses on some versions; a word before a space is the name of a field.
_NOT_IN_ARROW = re.compile(
    rf"""{_NAME_OR_ENUM} | \b(?:BIT|TIME[ ]WITH[ ]TIME[ ]ZONE|U?HUGEINT|BIGNUM|UUID|VARIANT
       |GEOMETRY(?:\('[^']*'\))?)(?![\w ])""",
    re.VERBOSE,
)


def family(type_name: str) -> str:
    """The type without its parameters: DECIMAL(18,2) → DECIMAL; lists and structs stay."""
    return type_name if type_name.endswith("]") else type_name.split("(", 1)[0].strip()


def has_fields(type_name: str) -> bool:
    """Whether a value of a type may have parts with names, as in address.city."""
    return family(type_name) in {"STRUCT", "UNION", "MAP", "JSON", "VARIANT"}


_DECIMAL = re.compile(r"DECIMAL\((\d+), ?(\d+)\)")


def digits_of(type_name: str) -> tuple[int, int]:
    """The digits of a decimal type, and those behind its point; 0 for integers.

    >>> digits_of("BIGINT"), digits_of("DECIMAL(18,2)")
    ((0, 0), (18, 2))
    """
    found = _DECIMAL.fullmatch(type_name)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def is_wide_decimal(type_name: str) -> bool:
    """Whether it is a decimal type of more than 64 bits."""
    return digits_of(type_name)[0] > DIGITS_OF_64_BITS


def by_value(expression: str, type_name: str) -> str:
    """The order by values: an ENUM may have been declared in the order of the data."""
    return f"{as_key(expression, type_name)[0]} ASC NULLS LAST"


def exact(expression: str, type_name: str) -> str:
    """The expression compared byte by byte: text without regard to any collation."""
    return f'({expression}) COLLATE "binary"' if family(type_name) == "VARCHAR" else expression


def as_text(expression: str, type_name: str) -> str:
    """A string that tells the values of a type apart; no value makes it fail.

    A date or time that a file holds may be none that DuckDB can write, so it is hashed.
    """
    name = family(type_name)
    if name in TIMES or name == "TIME":
        expression = f"system.main.hash({expression})"
    return expression if name == "VARCHAR" else f"CAST({expression} AS VARCHAR)"


def as_bytes(expression: str, type_name: str) -> str:
    """A BLOB that tells the values of a type apart; no value makes it fail.

    >>> print(as_bytes("title", "VARCHAR"))
    system.main.encode(title)
    """
    if family(type_name) == "BLOB":
        return expression
    return f"system.main.encode({as_text(expression, type_name)})"


def can_have_same_bits(type_name: str) -> bool:
    """Whether `same_bits` knows a type: not 1 month and 30 days, nor [0.0] and [-0.0].

    Strings in lists and structs may have a collation that their type does not show.

    >>> can_have_same_bits("STRUCT(a INTEGER, b STRUCT(c DATE))"), can_have_same_bits("DOUBLE[]")
    (True, False)
    """
    if type_name.endswith("[]"):
        return family(type_name[:-2]) in EXACT_TYPES - {"VARCHAR"}
    if type_name.startswith("STRUCT("):
        parts = tokenize(type_name)
        fields = [parts[a + 1 : b].text for a, b in parts.split(2, len(parts) - 1)]
        odd = BINARY_TYPES | {"VARCHAR", "JSON"}
        return all(family(one) not in odd and can_have_same_bits(one) for one in fields)
    return family(type_name) in EXACT_TYPES | BINARY_TYPES | {"JSON"}


def same_bits(expression: str, type_name: str) -> str:
    """A column of which equal values are the same to the last bit; see can_have_same_bits.

    Of equal values that differ in bits ('Dune' and 'dune' under a collation, 0.0 and -0.0),
    DISTINCT and GROUP BY would keep the one that DuckDB reads first.

    >>> print(same_bits("title", "VARCHAR"))
    (title) COLLATE "binary"
    """
    return in_type(exact(expression, type_name), type_name)


def in_type(expression: str, type_name: str) -> str:
    """A column as its type has it, without the sign of 0.0 and NaN; NULL for a value of no type.

    DuckDB stores equal values that follow each other as the first of them, and takes a column whose
    values are all equal for a constant: the sign of one row's value depends on the rows beside it.

    Files and arrow tables may hold numbers with more digits than their type, and times beyond a
    day. DuckDB fails, or ends the process, where it negates one or writes it as a string.

    >>> print(in_type("x", "DECIMAL(3,2)"))
    (CASE WHEN x BETWEEN CAST('-9.99' AS DECIMAL(3,2)) AND CAST('9.99' AS DECIMAL(3,2)) THEN x END)
    """
    kind = family(type_name)
    if kind in BINARY_TYPES:
        zero, nan = (f"CAST('{word}' AS {kind})" for word in ("0", "nan"))
        cases = f"WHEN {expression} = {zero} THEN {zero} WHEN {expression} = {nan} THEN {nan}"
        return f"(CASE {cases} ELSE {expression} END)"
    least, most = _ENDS.get(kind, ("", ""))
    if kind == "DECIMAL":
        width, scale = digits_of(type_name)
        most = f"{'9' * (width - scale) or 0}.{'9' * scale or 0}"
        least = f"-{most}"
    low, high = (f"CAST('{end}' AS {type_name})" for end in (least, most))
    fits = f"{expression} BETWEEN {low} AND {high}"
    return f"(CASE WHEN {fits} THEN {expression} END)" if most else expression


def writable(expression: str, type_name: str) -> str:
    """A column of dates or times as DuckDB can write them; NULL for one before its calendar.

    Files may hold such values. DuckDB 1.5 does not write them as strings, and none is read back.

    >>> print(writable("title", "VARCHAR"), writable("day", "DATE")[:46])
    title (CASE WHEN day >= CAST('5877642-06-25 (BC)' AS
    """
    kind = family(type_name)
    if kind not in _FIRST:
        return expression
    first, before_all = (f"CAST('{time}' AS {kind})" for time in (_FIRST[kind], "-infinity"))
    there = f"{expression} >= {first} OR {expression} = {before_all}"
    return f"(CASE WHEN {there} THEN {expression} END)"


def wider(a: str, b: str) -> str:
    """The type that holds the integers of two types; else, as for UHUGEINT, the first type.

    >>> wider("INTEGER", "BIGINT"), wider("INTEGER", "UINTEGER"), wider("DATE", "INTEGER")
    ('BIGINT', 'BIGINT', 'DATE')
    """
    for kinds in (_SIGNED, _UNSIGNED):
        if {a, b} <= {*kinds}:
            return max(a, b, key=kinds.index)
    if not {a, b} <= FIT_HUGEINT:
        return a
    return "HUGEINT" if {"UBIGINT", "HUGEINT"} & {a, b} else "BIGINT"


def _digits(kind: str) -> tuple[int, int]:
    """The digits of a DECIMAL, or of the integers of a type of up to 64 bits; else none."""
    if kind in UP_TO_64_BITS:
        return len(str(INTEGER_RANGES[kind][1])), 0
    return digits_of(kind)


def united(a: str, b: str) -> str:
    """The type of a column of UNION: of decimals one with the digits of both, else wider().

    >>> united("DECIMAL(10,2)", "DECIMAL(8,4)"), united("DECIMAL(38,0)", "DECIMAL(8,4)")
    ('DECIMAL(12,4)', 'DECIMAL(38,0)')
    >>> united("DECIMAL(9,3)", "INTEGER"), united("DOUBLE", "BIGINT")
    ('DECIMAL(13,3)', 'DOUBLE')
    """
    kinds = {family(a), family(b)}
    if kinds <= NUMBERS and kinds & BINARY_TYPES:
        return "DOUBLE" if "DOUBLE" in kinds else "FLOAT"
    return of_both(a, b) or wider(a, b)


def of_both(a: str, b: str) -> str | None:
    """The DECIMAL with the digits of two types, one of which is a DECIMAL; None: there is none.

    >>> of_both("DECIMAL(4,2)", "DECIMAL(2,1)"), of_both("DECIMAL(38,0)", "DECIMAL(8,4)")
    ('DECIMAL(4,2)', None)
    """
    (width, scale), (other, places) = map(_digits, (a, b))
    digits = max(width - scale, other - places) + max(scale, places)
    fits = "DECIMAL" in {family(a), family(b)} and width and other and digits <= MOST_DIGITS
    return f"DECIMAL({digits},{max(scale, places)})" if fits else None


def as_key(expression: str, type_name: str) -> tuple[str, str]:
    """A column that is compared with another: byte by byte, and an ENUM as text; and its type.

    >>> print(*as_key("mood", "ENUM('calm', 'merry')"))
    (CAST(mood AS VARCHAR)) COLLATE "binary" VARCHAR
    """
    if family(type_name) == "ENUM":
        expression, type_name = f"CAST({expression} AS VARCHAR)", "VARCHAR"
    return exact(expression, type_name), type_name


def can_be(values_type: str, item_type: str) -> bool:
    """Whether values of one type can equal items of another: whether they are of one kind.

    A date can be a timestamp at midnight; a timestamp is not a date. Floating-point values are
    never items: rounding would decide which item they are.

    >>> can_be("BIGINT", "DECIMAL(9,2)"), can_be("BIGINT", "VARCHAR"), can_be("DATE", "TIMESTAMP")
    (True, False, True)
    """
    values, item = family(values_type), family(item_type)
    comparable = _equal_kind(values) == _equal_kind(item) or item in _WIDER.get(values, ())
    return values in EXACT_TYPES and comparable


def can_be_written(item_type: str) -> bool:
    """Whether items of a type can be written as strings: not numbers and booleans, as in SQL."""
    return _equal_kind(family(item_type)) not in {"number", "boolean"}


def lost(values_type: str | None, item_type: str) -> str | None:
    """A condition on `value` for those that a cast to the item's type would refuse or change.

    None where no value can be lost. `values_type` is None for strings in a statement, which have no
    type yet.
    """
    value, item = "value", family(item_type)
    if values_type == item_type or item == "VARCHAR":
        return None
    if values_type in INTEGERS and item in INTEGERS:
        (least, most), (low, high) = INTEGER_RANGES[values_type], INTEGER_RANGES[item]
        if low <= least and most <= high:
            return None
    cast = f"TRY_CAST({value} AS {item_type})"
    if values_type is None and item not in _WIDER:
        return f"{cast} IS NULL"
    if values_type is None:  # a type of dates that still shows what the cast would cut off
        values_type = "TIMESTAMP" if item == "DATE" else "TIMESTAMP_NS"
        value = f"TRY_CAST({value} AS {values_type})"
    back = f"TRY_CAST({cast} AS {values_type}) IS DISTINCT FROM {value}"
    return f"({cast} IS NULL OR {back})"


def _equal_kind(name: str) -> str:
    """The kind of each type family: values of two kinds never equal each other."""
    if name in NUMBERS:
        return "number"
    return {"VARCHAR": "text", "ENUM": "text", "BOOLEAN": "boolean"}.get(name, name)


def without_labels(type_name: str) -> str:
    r"""The type with VARCHAR for each ENUM in it, also inside of lists, structs and maps.

    >>> print(without_labels("STRUCT(mood ENUM('calm', 'it''s'), \"ENUM('x')\" INTEGER)[]"))
    STRUCT(mood VARCHAR, "ENUM('x')" INTEGER)[]
    """
    return _LABELS.sub(lambda f: f[0] if f[0].startswith('"') else "VARCHAR", type_name)


def for_arrow(type_name: str, *, keeps_variants: bool = False) -> str:
    r"""The type as which values go through arrow: VARCHAR in place of what arrow may change.

    `keeps_variants`: arrow holds a VARIANT from DuckDB 2.0 on, if it holds what is in it.

    >>> print(for_arrow("STRUCT(UUID INTEGER, a UNION(b BIT[], c ENUM('BIT')))"), for_arrow("BIT"))
    STRUCT(UUID INTEGER, a UNION(b VARCHAR[], c VARCHAR)) VARCHAR
    """
    if family(type_name) == "ENUM":  # within an array DuckDB 1.5 crashes, and 2.0 refuses it
        return type_name
    stays = ('"', "VARIANT") if keeps_variants else ('"',)
    return _NOT_IN_ARROW.sub(lambda f: f[0] if f[0].startswith(stays) else "VARCHAR", type_name)


_SAMPLES = {  # of each type: made up, and unlike each other
    "number": ("37", "1000000", "-1000000"), "VARCHAR": ("'a'", "'1'", "''"),
    "BLOB": ("'a'", "'1'", "''"), "BOOLEAN": ("TRUE", "FALSE", "TRUE"),
    "TIME": ("'12:00:00'", "'00:00:00'", "'23:59:59'"),
    "UUID": tuple(f"'{c * 8}-{c * 4}-{c * 4}-{c * 4}-{c * 12}'" for c in "0af"),
}  # fmt: skip
_TIMES = ("'2000-01-01'", "'2030-12-31'", "'1900-01-01'")
N_SAMPLES = 4
_FIELDS = re.compile(r"(\w+) ((?:[^,(]|\([^)]*\))+)(?:, |$)")


def sample(type_name: str, number: int) -> str:
    r"""SQL of a value that can be cast to the type of an answer or a key; the last is NULL.

    >>> print(sample("DATE[]", 1), sample("STRUCT(item VARCHAR, count BIGINT)[]", 0), sep="\n")
    ['2030-12-31', '2030-12-31']
    [{'item': 'a', 'count': 37}]
    """
    if type_name.endswith("[]"):  # of different lengths
        return f"[{', '.join([sample(type_name[:-2], number)] * (1 + number % 3))}]"
    if type_name.startswith("STRUCT("):
        fields = _FIELDS.findall(type_name[len("STRUCT(") : -1])
        return "{" + ", ".join(f"'{name}': {sample(kind, number)}" for name, kind in fields) + "}"
    name = family(type_name)
    if number == N_SAMPLES - 1:
        return "NULL"
    if name == "ENUM":
        return f"system.main.enum_{('first', 'last')[number % 2]}(NULL::{type_name})"
    return _SAMPLES.get("number" if name in NUMBERS else name, _TIMES)[number]
