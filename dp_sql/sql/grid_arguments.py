"""The arguments lower, upper and step of a call, read as a grid once the column's type is known."""

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction

from dp_sql.errors import ArgumentError
from dp_sql.sql.formatting import places_of
from dp_sql.sql.given import Argument
from dp_sql.sql.grid import PER_SECOND, Grid
from dp_sql.sql.readers import read_number
from dp_sql.sql.restated import OtherQuestion
from dp_sql.sql.tokens import Token, Tokens, edited
from dp_sql.sql.types import BINARY_TYPES, INTEGER_RANGES, ZONED, digits_of, family
from dp_sql.udfs.mechanism import MAX_STEPS, in_words

_RANGES = {**INTEGER_RANGES, "HUGEINT": (-(1 << 126), (1 << 126) - 1)}
del _RANGES["UHUGEINT"]  # an answer is computed as a HUGEINT
_INTERVALS = {"MICROSECOND": Fraction(1, 10**6), "MILLISECOND": Fraction(1, 1000),
              "SECOND": Fraction(1), "MINUTE": Fraction(60), "HOUR": Fraction(3600),
              "DAY": Fraction(86400), "WEEK": Fraction(7 * 86400)}  # fmt: skip
_MOST_DIGITS = 36

GridArguments = Mapping[str, Argument]
"""The arguments lower, upper and step, as written; step may be left out."""


def in_seconds(written: str) -> str:
    """An interval as its number of seconds.

    >>> in_seconds("ended - began"), in_seconds("spent")
    ("date_diff('second', began, ended)", 'TRY_CAST(epoch(spent) AS BIGINT)')
    """
    left, minus, right = written.partition(" - ")
    if minus and all(re.fullmatch(r"[\w.]+", side.strip()) for side in (left, right)):
        return f"date_diff('second', {right.strip()}, {left.strip()})"
    return f"TRY_CAST(epoch({written}) AS BIGINT)"


def check_written(given: GridArguments) -> None:
    """Refuse a bound or a step that is not a literal; what it must be depends on the column."""
    for name, argument in given.items():
        literal_of_time = name != "step" and _literal_of_time(argument) is not None
        interval = argument[0].upper == "INTERVAL"
        if argument[0].upper in _NOW and name != "step":
            today = f"DATE '{date.today()}'"
            instead = [argument.put(today)] if argument.text.rstrip("() ").isidentifier() else []
            message = f"{name} must be a literal: it is the same whenever the query is asked."
            raise argument.refuse(message, f"Write the date, as in {name} := {today}.", instead)
        if not (literal_of_time or interval):
            read_number(argument, name)


def grid_of(call: str, item: Argument, kind: str, given: GridArguments) -> Grid:
    """The grid of a call for a column of a type.

    Raises ArgumentError where a bound is not of the type, or the grid is empty or too large.
    """
    name = family(kind)
    if name not in {*_RANGES, "DECIMAL", "DATE", *PER_SECOND, *BINARY_TYPES}:
        message = f"{call} takes numbers, dates and timestamps; {item.text} is {kind}."
        if name == "VARCHAR":
            # No statement: of other strings, its answer would mean nothing, and be paid.
            raise item.refuse(
                message, f"If it holds numbers, write TRY_CAST({item.text} AS BIGINT)."
            )
        if name == "UHUGEINT":
            cast = f"TRY_CAST({item.text} AS HUGEINT)"
            raise item.refuse(message, f"Write {cast}.", [item.put(cast)])
        if name == "TIME":
            minutes = f"hour({item.text}) * 60 + minute({item.text})"
            raise item.refuse(message, f"Write its minutes: {minutes}.")
        if name == "INTERVAL":
            number = in_seconds(item.text)
            instead: list[str] = []
            with suppress(ArgumentError):  # of months
                intervals = [one for one in given.values() if one[0].upper == "INTERVAL"]
                edits = [(*one.span, in_words(_interval(one))) for one in intervals]
                edits.append((*item.span, number))
                instead = [OtherQuestion(edited(item[0].source, edits))]
            raise item.refuse(message, f"Write its seconds: {number}.", instead)
        raise item.refuse(message)
    if name in BINARY_TYPES and "step" not in given:
        upper = given["upper"]
        message = f"For a {name}, {call} needs step, the distance between possible answers."
        hint = "For example, step := 0.01: lower, lower + 0.01, lower + 0.02, …"
        raise upper.refuse(message, hint, [upper.put(f"{upper.text}, step := 0.01")])
    places = _places(kind, given)
    low, high = (_bound(given[end], end, name, kind, places) for end in ("lower", "upper"))
    if low >= high:
        raise given["lower"].refuse("lower must be below upper.", instead=_swapped(given))
    step = _step(given.get("step"), name, places)
    if step > high - low:
        message = "step is larger than upper - lower."
        raise given["step"].refuse(message, instead=[given["step"].omitted()])
    n_steps = (high - low) // step
    if n_steps > MAX_STEPS:
        message = "There are more than 2^62 steps between lower and upper."
        raise given["upper"].refuse(message, "Write closer bounds, or fewer decimals.")
    return Grid(kind, low, step, n_steps, places)


def _places(kind: str, given: GridArguments) -> int:
    """The decimals of a unit: those of a DECIMAL, and for a float those that are written."""
    if family(kind) == "DECIMAL":
        return digits_of(kind)[1]
    if family(kind) not in BINARY_TYPES:
        return 0
    numbers = (read_number(one, name) for name, one in given.items())
    return max(places_of(number, _MOST_DIGITS - 1) for number in numbers)


def _bound(given: Argument, end: str, name: str, kind: str, places: int) -> int:
    """A bound in units of the type."""
    if name == "DATE" or name in PER_SECOND:
        units = _units_of_time(given, end, name, kind)
        low, high = -(1 << 63), (1 << 63) - 1
    else:
        exact = read_number(given, end) * 10**places
        if exact.denominator != 1:
            message = f"{end} has more decimals than {kind}, the type of the column."
            rounded = in_words(Fraction(int(exact), 10**places))
            raise given.refuse(message, instead=[given.put(rounded)])
        units = int(exact)
        most = 10 ** min(digits_of(kind)[0] or _MOST_DIGITS, _MOST_DIGITS) - 1
        low, high = _RANGES.get(name, (-most, most))
    if not low <= units <= high:
        nearest = in_words(Fraction(min(max(units, low), high), 10**places))
        raise given.refuse(
            f"{end} does not fit {kind}, the type of the column.", None, [given.put(nearest)]
        )
    return units


_NOW = {"CURRENT_DATE", "TODAY", "NOW", "CURRENT_TIMESTAMP", "GET_CURRENT_TIMESTAMP"}
_STRING = re.compile(r"'([0-9-]{10}(?:[ T][0-9:.]+(?:Z|[+-][0-9:]+)?)?)'")


def _literal_of_time(tokens: Tokens) -> tuple[str, Token] | None:
    """The type and the string of DATE '…', '…'::DATE or CAST('…' AS DATE), or of a string alone."""
    is_call = tokens[0].upper == "CAST" and tokens[-1].is_symbol(")")
    inner = tokens[2:-1] if is_call else tokens
    words = [one.upper or one.text for one in inner]
    if len(inner) == 3 and words[1] == ("AS" if is_call else "::"):
        kind, string = words[2], inner[0]
    elif len(inner) in {1, 2} and not is_call:
        kind, string = "".join(words[:-1]), inner[-1]
    else:
        return None
    return (kind, string) if string.kind == "string" else None


def _units_of_time(given: Argument, end: str, name: str, kind: str) -> int:
    """A date or a timestamp, written as a string or as DATE '…', in units since 1970."""
    kind_written, string = _literal_of_time(given) or ("", given[-1])
    zoned = kind == ZONED
    found = _STRING.fullmatch(string.text)
    text = found[1] if found is not None else ""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise _no_time(given, end, kind, text) from None
    if not re.match("$|DATE$|TIMESTAMP", kind_written) or (moment.tzinfo is not None) != zoned:
        raise _no_time(given, end, kind, text)
    if name == "DATE":
        if moment.date().isoformat() != text:
            raise _no_time(given, end, kind, text)
        return moment.toordinal() - date(1970, 1, 1).toordinal()
    since = moment.astimezone(UTC) if zoned else moment.replace(tzinfo=UTC)
    micros = (since - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    units, rest = divmod(micros * PER_SECOND[name], 10**6)
    if rest or abs(units) >= 1 << 63:
        raise given.refuse(f"{end} does not fit {kind}, the type of the column.")
    return units


def _no_time(given: Argument, end: str, kind: str, text: str) -> ArgumentError:
    """The refusal of an argument, or of the text in its quotes, that is no literal of a type."""
    message, instead = f"{end} must be a {kind} literal: that is the type of the column.", []
    zone = "+00:00" if kind == ZONED else ""
    if zone and text and "+" not in text and "Z" not in text:
        local = f"{text} 00:00:00" if len(text) == 10 else text
        instead = [given.put(f"TIMESTAMPTZ '{local}{zone}'")]
    if re.fullmatch("[1-9][0-9]{3}", given.text):  # a year
        midnight = f" 00:00:00{zone}" if zone else ""
        instead = [given.put(f"'{given.text}-01-01{midnight}'")]
    word = "TIMESTAMPTZ" if zone else "TIMESTAMP"
    wanted = "DATE '2026-01-31'" if kind == "DATE" else f"{word} '2026-01-31 12:00:00{zone}'"
    return given.refuse(message, f"For example: {end} := {wanted}", instead)


def _step(given: Argument | None, name: str, places: int) -> int:
    """The step in units of the type."""
    is_time = name == "DATE" or name in PER_SECOND
    per_second = PER_SECOND.get(name, Fraction(1, 86400))
    if given is None:
        return PER_SECOND.get(name, 1)
    if is_time and given[0].upper == "INTERVAL":
        exact = _interval(given) * per_second
    elif is_time:  # a number of days, or of seconds
        exact = read_number(given, "step") * PER_SECOND.get(name, 1)
    else:
        exact = read_number(given, "step") * 10**places
    if exact <= 0:
        raise given.refuse("step must be positive.", instead=[given.omitted()])
    if exact.denominator != 1:
        message = (
            "step must be a multiple of the smallest difference between two values of the type."
        )
        raise given.refuse(message, instead=[given.omitted()])
    return int(exact)


def _interval(given: Argument) -> Fraction:
    """INTERVAL 15 MINUTES, in seconds; also in quotes."""
    words = " ".join(token.text.strip("'") for token in given[1:]).upper().split()
    if len(words) == 2 and words[0].isdecimal() and len(words[0]) < 20:
        unit = _INTERVALS.get(words[1].removesuffix("S"))
        if unit is not None:
            return int(words[0]) * unit
    hint = "For example: step := INTERVAL 15 MINUTES. Months have no fixed length."
    units = ", ".join(f"{unit.lower()}s" for unit in _INTERVALS)
    message = f"step must be a whole number of {units}."
    raise given.refuse(message, hint, [given.put("INTERVAL 1 DAY")])


def _swapped(given: GridArguments) -> list[str]:
    """The statement with lower and upper exchanged."""
    ends = given["lower"], given["upper"]
    edits = [(*one.span, other.text) for one, other in (ends, ends[::-1])]
    return [edited(ends[0][0].source, edits)]
