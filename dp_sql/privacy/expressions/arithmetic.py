"""Arithmetic on numbers and dates that cannot fail: computed wider, and NULL where the type ends.

Where DuckDB raises an error because a result does not fit its type, the result here is NULL, by
TRY_CAST: TRY(…) would compute 2,048 rows one by one for the sake of one that overflows.
"""

import re
from collections.abc import Mapping

from sqlglot import exp

from dp_sql.privacy.expressions.calls import in_one_type
from dp_sql.privacy.expressions.literals import (
    A_YEAR,
    UNITS,
    interval,
    interval_units,
    is_double,
    is_literal,
    whole_number,
)
from dp_sql.privacy.expressions.scope import Scope
from dp_sql.privacy.expressions.value import Value, bounded
from dp_sql.privacy.refusals import refuse
from dp_sql.sql.formatting import literal, quote
from dp_sql.sql.sqlglot_tree import Node, made_of
from dp_sql.sql.types import (
    BINARY_TYPES,
    DATED,
    FIT_BIGINT,
    INTEGER_RANGES,
    MOST_DIGITS,
    UP_TO_64_BITS,
    ZONED,
    digits_of,
    family,
)

OPERATORS: Mapping[type, str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.IntDiv: "//", exp.Mod: "%",
    exp.BitwiseAnd: "&", exp.BitwiseOr: "|", exp.DateAdd: "+",
    exp.BitwiseXor: "xor", exp.BitwiseRightShift: ">>", exp.BitwiseLeftShift: "<<",
}  # fmt: skip
NEGATIONS: Mapping[type, str] = {
    exp.Neg: "-", exp.Abs: "abs", exp.Sign: "sign", exp.BitwiseNot: "~",
}  # fmt: skip
_OF_SIGNS = (*OPERATORS, exp.Neg, exp.BitwiseNot)
# sqlglot 28.0 reads x - y % 10 as (x - y) % 10, and x % 10 * 2 as x % (10 * 2).
_SUMS, _PRODUCTS = (exp.Add, exp.Sub), (exp.Mul, exp.Div, exp.IntDiv)
_KNOWN = UP_TO_64_BITS | BINARY_TYPES | {"DECIMAL"}
MOST_YEARS = 280_000  # timestamps end in 290309 BC and in 294247
_MOST_DAYS = 10**7
_MOST_SPAN = 27_000  # years of an interval that is added to a date
_MOST_BUCKET_YEARS = 1000
_TO_INTEGER = {"TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT"}
_YEAR_FIRST = re.compile(r"\d{4}-", re.ASCII)
_ZONE = re.compile(r"[A-Za-z0-9_+/-]{1,50}")
_SPINE = "For a series of dates write generate_series(first, last, INTERVAL 7 DAY)."
_SECONDS = "Compute with its seconds: epoch(…) / 2, or epoch(…) + 3600."
_NARROW = "Cast wide numbers first, with TRY_CAST(… AS BIGINT) or TRY_CAST(… AS DECIMAL(18, 2))."
_BINS = "For bins of 10, write TRY_CAST(floor(x / 10) AS BIGINT) * 10, or x - (x % 10)."


def operation(node: Node, scope: Scope) -> Value:
    """One of + - * / // % between two numbers, or + and - on a date."""
    sign = OPERATORS[type(node)]
    sides = node.this, node.expression
    if sign == "%" and (isinstance(sides[0], _SUMS) or isinstance(sides[1], _PRODUCTS)):
        raise refuse(node, "Put brackets around the two sides of %, as in x - (x % 10)")
    for span, other in (sides[::-1], sides) if sign in "+*" else (sides[::-1],):
        if not isinstance(span, exp.Interval) or not is_literal(span):
            continue
        if sign in "+-":
            return _later(node, scope.argument(other), sign, span)
        return spanned(node, other, scope, *interval_units(node, span))
    a, b = map(scope.argument, sides)
    if sign == "+" and a.type == "INTERVAL":
        a, b = b, a
    kinds = {family(a.type), family(b.type)}
    if a.type in DATED:
        return _dates(node, a, sign, b)
    known = kinds <= _KNOWN | {"HUGEINT"}
    asked = f"{a.stand_in} {sign} {b.stand_in}"
    if sign == "xor":
        asked = f"xor({a.stand_in}, {b.stand_in})"
    whole = kinds <= UP_TO_64_BITS or sign not in {"xor", ">>", "<<"}
    kind = scope.schema.type_of(asked) if known and whole else ""
    if kind in BINARY_TYPES and sign in {"+", "-", "*", "/"}:
        return Value(f"(CAST({a.sql} AS {kind}) {sign} CAST({b.sql} AS {kind}))", kind)
    if kinds <= UP_TO_64_BITS | {"HUGEINT"} and (sign, kind) != ("<<", "HUGEINT"):
        made = _huge(sign, a, b) if "HUGEINT" in kinds else _integers(kind, sign, a, b)
        if made:
            return made
    if kinds <= _KNOWN - BINARY_TYPES and sign in {"+", "-", "*", "%"}:
        return _decimals(node, kind, sign, a, b)
    if kinds <= _KNOWN and sign == "//":  # TRY_CAST(x AS DECIMAL(18, 2)) // 10 is refused, too
        raise refuse(node, f"DuckDB does not round {a.type} // {b.type}: 17.5 // 10 is 1.75", _BINS)
    hint = _SECONDS if a.type == "INTERVAL" else _SPINE if "INTERVAL" in kinds else _NARROW
    raise refuse(node, f"{a.type} {sign} {b.type} is not supported here", hint)


def negated(node: Node, value: Value) -> Value:
    """-x, abs(x), sign(x) or ~x of a number."""
    kind, word = family(value.type), NEGATIONS[type(node)]
    if word == "~":
        return _inverted(node, value)
    if word == "sign" and kind in UP_TO_64_BITS | BINARY_TYPES | {"HUGEINT", "DECIMAL"}:
        return Value(f"system.main.sign({value.sql})", "TINYINT")
    called = f"system.main.{quote(word)}"
    if kind in BINARY_TYPES or kind == "DECIMAL":
        return Value(f"({called}({value.sql}))", value.type)
    if kind == "HUGEINT":  # all but the smallest have an opposite
        least = literal(str(INTEGER_RANGES[kind][0]))
        other = f"system.main.nullif({value.sql}, CAST({least} AS HUGEINT))"
        return Value(f"({called}({other}))", kind)
    wraps = word == "-" and kind.startswith("U")  # on DuckDB 1.5
    if kind in UP_TO_64_BITS and not wraps:
        wide = f"CAST({value.sql} AS HUGEINT)"
        return Value(f"TRY_CAST({called}({wide}) AS {value.type})", value.type)
    raise refuse(node, f"This is not supported for {value.type}", _NARROW)


def _inverted(node: Node, value: Value) -> Value:
    """~x of an integer, where DuckDB and sqlglot read it alike."""
    if isinstance(node.parent, _OF_SIGNS) or isinstance(node.this, _OF_SIGNS[-2:]):
        raise refuse(node, "Put brackets around ~, as in (~x) + 1: DuckDB reads ~x + 1 as ~(x + 1)")
    if value.type not in UP_TO_64_BITS:
        raise refuse(node, f"This is not supported for {value.type}", _NARROW)
    return Value(f"(~({value.sql}))", value.type)


def rounded(node: Node, value: Value, scope: Scope) -> Value:
    """round, trunc, floor or ceil: no number leaves its type."""
    word = "trunc" if isinstance(node, exp.Anonymous) else type(node).__name__.lower()
    given = node.args.get("decimals")
    places = 0 if given is None else whole_number(given)
    if places is None or is_double(given or node) or abs(places) > MOST_DIGITS:
        hint = "Write a number of up to 38, as in round(x, 1), or round(x, -1) for tens."
        raise refuse(node, f"{word} takes a whole number of places here", hint)
    if family(value.type) not in _KNOWN:
        raise refuse(node, f"This is not supported for {value.type}", _NARROW)
    more = "" if given is None else f", {places}"
    kind = scope.schema.type_of(f"{word}({value.stand_in}{more})")
    if places < 0 and family(value.type) not in BINARY_TYPES:
        return _in_tens(node, kind, value, -places)
    if value.type in UP_TO_64_BITS:
        return Value(f"CAST({value.sql} AS {kind})", kind)
    return Value(f"system.main.{word}({value.sql}{more})", kind)


def _in_tens(node: Node, kind: str, value: Value, places: int) -> Value:
    """round(x, -1) and the like, with one more digit, which the largest number may need."""
    before, behind = _digits(value)
    if family(value.type) == "DECIMAL" and places >= before:  # DuckDB 1.5 gives 0, 2.0 rounds
        why = f"{value.type} has only {before} digits before the point"
        raise refuse(node, why, "Round away fewer digits.")
    if (before, behind) == (MOST_DIGITS, 0) or places > 18:
        raise refuse(node, f"This is not supported for {value.type}", _NARROW)
    wide = f"DECIMAL({min(before + behind + 1, MOST_DIGITS)},{behind})"
    sql = f"TRY_CAST(system.main.round(CAST({value.sql} AS {wide}), -{places}) AS {kind})"
    return Value(sql, kind)


def _dates(node: Node, a: Value, sign: str, b: Value) -> Value:
    """The time between two dates, or a date some days before or after another."""
    day = bounded(a)
    if sign == "-" and b.type in DATED:
        from_to = in_one_type([day, bounded(b)])
        kind = "BIGINT" if from_to[0].type == "DATE" else "INTERVAL"
        sql = f"({from_to[0].sql} - {from_to[1].sql})"
        return Value(sql, kind, bound=None if kind == "BIGINT" else day.bound)
    if sign in {"+", "-"} and b.type == "INTERVAL":
        kind, years = "TIMESTAMP" if a.type == "DATE" else a.type, (day.bound or 0) + 3 * _MOST_SPAN
        return _far(node, Value(f"({day.sql} {sign} {_near(b)})", kind, bound=years + 1))
    if sign not in {"+", "-"} or a.type != "DATE" or b.type not in _TO_INTEGER:
        hint = "Cast the number of days, with TRY_CAST(… AS INTEGER)."
        if a.type != "DATE":
            hint = "Add an interval: seen + INTERVAL 30 DAY, or seen + to_days(n)."
        raise refuse(node, f"{a.type} {sign} {b.type} is not supported here", hint)
    few = f"CAST({b.sql} AS INTEGER) BETWEEN -{_MOST_DAYS} AND {_MOST_DAYS}"
    days, near = _MOST_DAYS, f"CASE WHEN {few} THEN CAST({b.sql} AS INTEGER) END"
    if b.literal:
        days, near = abs(int(b.literal.strip("()"))), b.sql
    sql = f"({day.sql} {sign} ({near}))"
    return _far(node, Value(sql, "DATE", bound=(day.bound or 0) + days // 365 + 1))


def _near(span: Value) -> str:
    """An interval; NULL where its months, its days or its time are more than _MOST_SPAN years."""
    parts = {"year": _MOST_SPAN, "day": _MOST_SPAN * 365, "hour": _MOST_SPAN * 8760}
    ends = (
        f"system.main.date_part('{part}', {span.sql}) BETWEEN -{most} AND {most}"
        for part, most in parts.items()
    )
    return f"(CASE WHEN {' AND '.join(ends)} THEN {span.sql} END)"


def spanned(node: Node, of: Node, scope: Scope, times: int, unit: str) -> Value:
    """Compile n * INTERVAL 2 DAY, INTERVAL (n) DAY or to_days(n): NULL where it is too long."""
    value, most = scope.argument(of), _MOST_SPAN * A_YEAR[unit] // max(abs(times), 1)
    if value.type not in FIT_BIGINT:
        hint = f"Cast the number, with TRY_CAST(… AS {'INTEGER' if most < 2**31 else 'BIGINT'})."
        raise refuse(node, f"An interval of {value.type} is not supported here", hint)
    few = f"(CASE WHEN {value.sql} BETWEEN -{most} AND {most} THEN CAST({value.sql} AS BIGINT) END)"
    kind = {"hour": "BIGINT", "minute": "BIGINT", "second": "DOUBLE"}.get(unit, "INTEGER")
    sql = f"system.main.to_{unit}s(CAST(({few} * {times}) AS {kind}))"
    return Value(sql, "INTERVAL", bound=_MOST_SPAN)


def of_units(node: Node, scope: Scope) -> Value:
    """INTERVAL (n) DAY, or to_days(n)."""
    given = node.expressions if isinstance(node, exp.Anonymous) else [node.this]
    if isinstance(node, exp.Interval):
        unit = node.text("unit")
    else:
        unit = "days" if isinstance(node, exp.ToDays) else node.name.removeprefix("to_")
    unit = unit.lower().removesuffix("s")
    if len(given) != 1 or unit not in UNITS:
        raise refuse(node, f"Write a number of one of these: {', '.join(UNITS)}")
    return spanned(node, given[0], scope, 1, unit)


def _integers(kind: str, sign: str, a: Value, b: Value) -> Value:
    """Integers of up to 64 bits: no result exceeds 128 bits, and nothing is divided by 0."""
    if sign in {"&", "|", ">>", "xor"}:
        left, right = (f"CAST({value.sql} AS {kind})" for value in (a, b))
        if sign == "xor":
            return Value(f"system.main.xor({left}, {right})", kind)
        return Value(f"({left} {sign} {right})", kind)
    if sign == "<<":
        return _shifted(kind, a, b)
    wide = "UHUGEINT" if kind == "UBIGINT" and sign == "*" else "HUGEINT"
    left, right = (f"CAST({value.sql} AS {wide})" for value in (a, b))
    if sign in {"//", "%"}:
        right = f"system.main.nullif({right}, 0)"
    return Value(f"TRY_CAST(({left} {sign} {right}) AS {kind})", kind)


def _shifted(kind: str, a: Value, b: Value) -> Value:
    """Compile x << n, which is NULL where one is negative or the result does not fit."""
    few = f"CASE WHEN {a.sql} >= 0 AND {b.sql} BETWEEN 0 AND 63 THEN CAST({b.sql} AS INTEGER) END"
    times, zero = f"(CAST(1 AS HUGEINT) << ({few}))", f"CAST(0 AS {kind})"
    sql = f"TRY_CAST(CAST({a.sql} AS HUGEINT) * {times} AS {kind})"
    return Value(f"(CASE WHEN {a.sql} = 0 AND {b.sql} >= 0 THEN {zero} ELSE {sql} END)", kind)


def _huge(sign: str, a: Value, b: Value) -> Value | None:
    """HUGEINTs, such as sums: the left side is NULL where the result would not fit."""
    left, right = (f"CAST({value.sql} AS HUGEINT)" for value in (a, b))
    if sign == "*" and a.literal:
        a, b, left, right = b, a, right, left
    least, most = (f"CAST('{end}' AS HUGEINT)" for end in INTEGER_RANGES["HUGEINT"])
    more, less = f"system.main.greatest({right}, 0)", f"system.main.least({right}, 0)"
    match sign:
        case "+":
            fits = f"{left} BETWEEN {least} - {less} AND {most} - {more}"
        case "-":
            fits = f"{left} BETWEEN {least} + {more} AND {most} + {less}"
        case "//":
            fits, right = f"{left} > {least} OR {right} <> -1", f"system.main.nullif({right}, 0)"
        case "%":  # x % -1 is x % 1, which does not fail
            fits = "TRUE"
            right = f"(CASE WHEN {right} = -1 THEN 1 WHEN {right} <> 0 THEN {right} END)"
        case "*" if number := int(b.literal.strip("()") or 0):
            low, high = INTEGER_RANGES["HUGEINT"]
            ends = [-low // abs(number), high // abs(number)]
            down, up = ends if number > 0 else (ends[1], min(ends[0], high))
            fits = f"{left} BETWEEN CAST('-{down}' AS HUGEINT) AND CAST('{up}' AS HUGEINT)"
        case _:
            return None
    return Value(f"((CASE WHEN {fits} THEN {left} END) {sign} {right})", "HUGEINT")


def _digits(value: Value) -> tuple[int, int]:
    """How many digits a number has before and behind the point."""
    kind = value.type
    if family(kind) != "DECIMAL":
        return (20 if family(kind) == "UBIGINT" else 19), 0
    width, scale = digits_of(kind)
    return width - scale, scale


def _decimals(node: Node, kind: str, sign: str, a: Value, b: Value) -> Value:
    """Decimals, computed with 38 digits, which hold every result."""
    (n, s), (m, t) = (_digits(value) for value in (a, b))
    places = s + t if sign == "*" else max(s, t)
    before = {"*": n + m, "%": max(n, m)}.get(sign, max(n, m) + 1)
    if before + places > MOST_DIGITS:
        raise refuse(node, f"{a.type} {sign} {b.type} may have over 38 digits", _NARROW)
    scales = (s, t) if sign == "*" else (places, places)
    left, right = (
        f"CAST({value.sql} AS DECIMAL({MOST_DIGITS},{scale}))"
        for value, scale in zip((a, b), scales, strict=True)
    )
    if sign == "%":
        right = f"system.main.nullif({right}, 0)"
    return Value(f"TRY_CAST(({left} {sign} {right}) AS {kind})", kind)


def _later(node: Node, value: Value, sign: str, written: Node) -> Value:
    """A date or timestamp and an interval that is written in the statement."""
    sql, years = interval(written)
    if value.type not in DATED:
        why = f"{value.type} {sign} INTERVAL is not supported here"
        raise refuse(node, why, "For example: day - INTERVAL 30 DAY.")
    near = bounded(value)
    kind = "TIMESTAMP" if value.type == "DATE" else value.type
    return _far(node, Value(f"({near.sql} {sign} {sql})", kind, bound=(near.bound or 0) + years))


def bucketed(node: Node, scope: Scope) -> Value:
    """time_bucket(INTERVAL 1 WEEK, x): the beginning of the bucket of a date or timestamp."""
    width = node.this
    if isinstance(width, exp.Literal) and width.is_string:  # DuckDB reads it as an interval, too
        width = exp.Interval(this=width)
    number, word = interval_units(node, width)
    value = bounded(scope.argument(node.expression))
    years = number // A_YEAR[word] + 1
    if value.type not in DATED or not number > 0 or years > _MOST_BUCKET_YEARS + 1:
        why = "time_bucket takes an interval of one unit and a date or timestamp here"
        raise refuse(node, why, "For example: time_bucket(INTERVAL 1 WEEK, day).")
    sql = f"system.main.time_bucket({interval(width)[0]}, {value.sql}{_origin(node, value, scope)})"
    return Value(sql, value.type, bound=(value.bound or 0) + years)


def _origin(node: Node, value: Value, scope: Scope) -> str:
    """The third argument of time_bucket: a date of the type of the second, with a year as usual."""
    given = node.args.get("unit")  # as sqlglot calls it
    if given is None:
        return ""
    text = given.this.this if isinstance(given, exp.Cast) and is_literal(given) else ""
    origin = scope.argument(given)
    if origin.type != value.type or not _YEAR_FIRST.match(text):
        why = f"The third argument of time_bucket is a {value.type} in quotes here"
        raise refuse(node, why, f"For example: {value.type} '2024-01-01'.")
    return f", {origin.sql}"


def in_zone(node: Node, zone: Node, of: Node, scope: Scope) -> Value:
    """`x AT TIME ZONE 'Europe/Berlin'`: the local time there, or the moment at which it is."""
    if isinstance(zone, exp.AtTimeZone):  # sqlglot 28 reads several zones from the right
        first = made_of(node, exp.AtTimeZone(this=of.copy(), zone=zone.this.copy()))
        return in_zone(node, zone.args["zone"], first, scope)
    name = zone.this if isinstance(zone, exp.Literal) and zone.is_string else ""
    moment = "CAST('2000-01-01' AS TIMESTAMP WITH TIME ZONE)"
    known = _ZONE.fullmatch(name) and scope.schema.runs(
        f"system.main.timezone({literal(name)}, {moment})"
    )
    if not known:
        raise refuse(node, "This takes a time zone's name in quotes", "Such as 'Europe/Berlin'.")
    value = bounded(scope.argument(of))
    kind = {"TIMESTAMP": ZONED, ZONED: "TIMESTAMP"}.get(value.type)
    if kind is None:
        why = f"AT TIME ZONE takes a TIMESTAMP or TIMESTAMPTZ here, not {value.type}"
        raise refuse(node, why, "Cast it first: day::TIMESTAMP AT TIME ZONE 'Europe/Berlin'.")
    sql = f"system.main.timezone({literal(name)}, {value.sql})"
    return _far(node, Value(sql, kind, bound=(value.bound or 0) + 1))


def _far(node: Node, value: Value) -> Value:
    if (value.bound or 0) > MOST_YEARS:
        why = "This may lead beyond the ends of the calendar"
        raise refuse(node, why, "Add or subtract less time.")
    return value
