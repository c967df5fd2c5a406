"""Dates, and what is computed from them, as groups: between bounds of WHERE, or of 2024. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import NamedTuple

from sqlglot import exp

from dp_sql.sql.sqlglot_tree import Node, projection

# Of date_trunc: the last value of an example, and the step to it from the first day of 2024.
_UNITS = {
    "year": ("2028-01-01", "1 YEAR"), "quarter": ("2024-10-01", "3 MONTH"),
    "month": ("2024-12-01", "1 MONTH"), "week": ("2024-12-30", "7 DAY"),
    "day": ("2024-01-31", "1 DAY"), "hour": ("2024-01-01 23:00:00", "1 HOUR"),
}  # fmt: skip
_FIRST = "2024-01-01"
_TRUNCATED = re.compile(
    r"(?:cast\s*\(\s*)?(?:date_?trunc\s*\(\s*'(\w+?)s?'|time_bucket\s*\(\s*interval\s*"
    r"'?1'?\s*(year|month|week|day|hour)s?\b)",
    re.I,
)
_YEAR = re.compile(r"(?:date_?part\s*\(\s*'|extract\s*\(\s*)?year\b", re.I)
_WHOLE = re.compile(r"(?:cast\s*\()?\w+\s*\([^()]*\)(?:\s+as\s+\w+\s*\))?(?:\s*::\s*\w+)?", re.I)
_MOVED = re.compile(r"\)\s*at\s+time\s+zone\b[^()]*$", re.I)  # midnight elsewhere
_PARTS_OF = {  # the words of parts of a time, the finest first
    "hour": r"hour|minute|second|epoch|(?-i:%[HIMSp])",
    "day": r"(?<!to)day|dow|doy|week|(?-i:%[aAdejuwUVWGx])",
    "month": r"month|quarter|(?-i:%[mbB])",
    "year": r"year|(?-i:%[Yy])",
}
_FINER = re.compile(  # parts of an hour, of which a series of hours has few
    r"minute|second|epoch|\btime\b(?!\s+zone)|(?-i:%-?[MSfgnsXcT])", re.I
)
_INSTANT = timedelta(microseconds=1)  # between two moments
_MONTH = timedelta(32)  # a series of hours is not longer
_SINCE = re.compile(r"\b(?:current_(?:date|timestamp)|now\s*\(|today\s*\(|age\s*\([^,()]*\))", re.I)
_AGO = {"year": "100 YEAR", "month": "24 MONTH", "day": "30 DAY"}  # of the time until now
_NOW = (exp.CurrentDate, exp.CurrentTimestamp)
_TRUNCATIONS = (exp.TimestampTrunc, exp.DateTrunc, exp.DateBin, exp.Year, exp.Extract, exp.Date)
_PARTS = (exp.Column, exp.Identifier, exp.Cast, exp.DataType, exp.Paren, exp.Literal, exp.Var)
_SIMPLE = (*_TRUNCATIONS, *_PARTS, exp.Interval)  # what a key may have whose bounds are known
_SIGNS: Mapping[type, str] = {exp.GT: ">", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<="}
_Bound = datetime | str | None  # a literal, or SQL that is computed from the current date


class Dates(NamedTuple):
    """Groups as a statement writes them.

    asked: whether they are all that its WHERE keeps. bounded: whether they begin where it does.
    """

    written: str
    asked: bool
    bounded: bool = True


def date_groups(key: str, kind: str, column: str, condition: str | None) -> Dates | None:
    """Groups for a key of this type that is a date or computed from one; None for others.

    column: the type of the column that the key is or reads. condition: WHERE without the word.
    """
    of_days, is_call = column == "DATE", _WHOLE.fullmatch(key)
    found, is_year = _TRUNCATED.match(key), bool(_YEAR.match(key)) and bool(is_call)
    unit = (found[1] or found[2]).lower() if found else "year" if is_year else "day"
    is_day = kind == "DATE" and not key.lower().startswith("time_bucket")
    if unit not in _UNITS or not (found or is_year or is_day) or _MOVED.search(key):
        return _computed(key, column, condition) if column.startswith(("DATE", "TIMES")) else None
    low, high = _bounds(key, of_days, condition)
    asked = low is not None and high is not None
    if is_year:
        if isinstance(low, datetime) and isinstance(high, datetime):
            return Dates(f"range({low.year}, {high.year + 1})", asked)
        return Dates("range(2020, 2027)", asked=False, bounded=False)
    return Dates(f"(FROM {_series(low, high, unit)})", asked, low is not None)


def _computed(key: str, column: str, condition: str | None) -> Dates | None:
    """What a key makes of each moment of a series, in place of the column that it reads."""
    tree, edits = projection(key), set()
    nodes = [] if tree is None else [*tree.find_all(exp.Column)]
    is_moved = any(isinstance(node.parent, exp.Binary | exp.AtTimeZone) for node in nodes)
    for node in nodes:
        first, last = node.parts[0].meta, node.parts[-1].meta
        if "start" not in first or "end" not in last:
            return None
        edits.add((first["start"] - len("SELECT "), last["end"] + 1 - len("SELECT ")))
    names = {key[start:stop] for start, stop in edits}
    if len(names) != 1:
        return None
    cast = {"DATE": "::DATE", "TIMESTAMP WITH TIME ZONE": "::TIMESTAMPTZ"}.get(column, "")
    expression = key
    for start, stop in sorted(edits, reverse=True):
        expression = f"{expression[:start]}d{cast}{expression[stop:]}"
    parts = ("hour", "day") if is_moved else _PARTS_OF
    unit = next((unit for unit in parts if re.search(_PARTS_OF[unit], expression, re.I)), "day")
    step = None
    if found := re.search(r"interval\s+'?(\d+)'?\s*(second|minute|hour)s?", key, re.I):
        # An hour has whole steps, and those of more than an hour may begin at any.
        n = int(found[1]) if found[2].lower() != "hour" and 60 % max(int(found[1]), 1) == 0 else 1
        step = f"{n} {found[2].upper()}"
    elif column != "DATE" and _FINER.search(key):
        return None
    low, high = _bounds(names.pop(), column == "DATE", condition)
    is_short = isinstance(low, datetime) and isinstance(high, datetime) and high - low < _MONTH
    if unit == "hour" and not is_short:
        low = None
    ago = _AGO.get(unit) if _SINCE.search(key) else None
    series = _series(low, high, unit, step, ago)
    written = f"(SELECT DISTINCT {expression} FROM {series} AS t(d))"
    is_asked = low is not None and high is not None and not is_moved
    return Dates(written, is_asked, low is not None)


def _series(
    low: _Bound, high: _Bound, unit: str, step: str | None = None, ago: str | None = None
) -> str:
    """Moments between bounds, or of an example, at each unit or by a step within it.

    ago: how long before today an example begins.
    """
    last, whole = _UNITS[unit]
    first, end = _literal(_FIRST, unit), _literal(last, unit)
    if ago:
        first, end = f"current_date - INTERVAL {ago}", "current_date"
    if low is not None:
        first, end = _written(low, unit), "current_date" if high is None else _written(high, unit)
        if step and unit == "hour" and isinstance(high, datetime):
            end = f"TIMESTAMP '{high:%Y-%m-%d %H:%M:%S}'"
    return f"generate_series({first}, {end}, INTERVAL {step or whole})"


def _written(bound: datetime | str, unit: str) -> str:
    if isinstance(bound, str):
        return f"date_trunc('{unit}', {bound})"
    day = bound.date()
    if unit == "week":
        day -= timedelta(day.weekday())
    month = {"year": 1, "quarter": day.month - (day.month - 1) % 3}.get(unit, day.month)
    if unit in {"year", "quarter", "month"}:
        day = date(day.year, month, 1)
    return _literal(f"{day} {bound:%H}:00:00" if unit == "hour" else str(day), unit)


def _literal(moment: str, unit: str) -> str:
    if unit == "hour":
        return f"TIMESTAMP '{moment if ' ' in moment else moment + ' 00:00:00'}'"
    return f"DATE '{moment}'"


def _bounds(key: str, of_days: bool, condition: str | None) -> tuple[_Bound, _Bound]:
    """The least and greatest value that WHERE keeps of the column of a key, where it says so."""
    tree, of = projection(condition or "TRUE"), projection(key)
    if tree is None or of is None or not all(isinstance(node, _SIMPLE) for node in of.walk()):
        return None, None
    names = {column.name.lower() for column in of.find_all(exp.Column)}
    low: _Bound = None
    high: _Bound = None
    terms = [*tree.flatten()] if isinstance(tree, exp.And) else [tree]
    for side, sign, bound in (one for term in terms for one in _comparisons(term)):
        is_day = isinstance(side, exp.Cast) and side.args["to"].sql() == "DATE"
        column, value = side.this if is_day else side, _value(bound)
        if not isinstance(column, exp.Column) or {column.name.lower()} != names or not value:
            continue
        if sign in {">", ">="}:
            low = _least(value, sign, is_day or of_days)
        else:
            high = _greatest(value, sign, is_day) or high
    return low, high


def _least(bound: datetime | str, sign: str, of_days: bool) -> _Bound:
    """The least value that is > or >= a bound; of_days: of days, else of moments."""
    if isinstance(bound, str) or sign == ">=":
        return bound
    return bound + (timedelta(1) if of_days else _INSTANT)


def _greatest(bound: datetime | str, sign: str, is_day: bool) -> _Bound:
    """The greatest moment that is < or <= a bound, or whose day is; None: it cannot be written."""
    if isinstance(bound, str):
        return bound if sign == "<=" else None
    if sign == "<":
        return bound - _INSTANT
    return bound + timedelta(1) - _INSTANT if is_day else bound


def _comparisons(term: Node) -> list[tuple[Node, str, Node]]:
    """A comparison as its column, sign and bound, whichever is on the left; of BETWEEN two."""
    if isinstance(term, exp.Between):
        return [(term.this, ">=", term.args["low"]), (term.this, "<=", term.args["high"])]
    if isinstance(term, exp.EQ):
        return [(term.this, sign, term.expression) for sign in (">=", "<=")]
    sign = _SIGNS.get(type(term))
    if sign is None:
        return []
    turned = sign.translate(str.maketrans("<>", "><"))
    return [(term.this, sign, term.expression), (term.expression, turned, term.this)]


def _value(bound: Node) -> _Bound:
    """A bound that is a date in quotes, or the current date with or without an interval."""
    literal = bound.this if isinstance(bound, exp.Cast) else bound
    if isinstance(literal, exp.Literal) and literal.is_string:
        try:
            moment = datetime.fromisoformat(literal.this)
        except ValueError:
            return None
        return None if moment.tzinfo else moment
    if isinstance(bound, exp.Sub) and isinstance(bound.expression, exp.Interval | exp.Literal):
        start = _value(bound.this)
        return f"{start} - {bound.expression.sql('duckdb')}" if isinstance(start, str) else None
    is_named = isinstance(bound, exp.Anonymous) and bound.name.lower() in {"now", "today"}
    return "current_date" if isinstance(bound, _NOW) or is_named else None
