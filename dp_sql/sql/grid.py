"""The public grid of an answer: lower, lower + step, … up to upper, in the type of a column. Pure.

Values count whole units of their type: 1 of an integer, the last decimal of a DECIMAL, a day of a
DATE, a microsecond of a TIMESTAMP.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import NamedTuple

from dp_sql.errors import ArgumentError
from dp_sql.sql.formatting import literal, places_of
from dp_sql.sql.given import Argument
from dp_sql.sql.readers import read_number
from dp_sql.sql.restated import OtherQuestion
from dp_sql.sql.tokens import Token, Tokens, edited
from dp_sql.sql.types import BINARY_TYPES, INTEGER_RANGES, ZONED, digits_of, family
from dp_sql.udfs.mechanism import MAX_STEPS, in_words

_RANGES = {**INTEGER_RANGES, "HUGEINT": (-(1 << 126), (1 << 126) - 1)}
del _RANGES["UHUGEINT"]  # an answer is computed as a HUGEINT
_PER_SECOND = {"TIMESTAMP_S": 1, "TIMESTAMP_MS": 10**3, "TIMESTAMP": 10**6, "TIMESTAMP_NS": 10**9,
               ZONED: 10**6}  # fmt: skip
_INTERVALS = {"MICROSECOND": Fraction(1, 10**6), "MILLISECOND": Fraction(1, 1000),
              "SECOND": Fraction(1), "MINUTE": Fraction(60), "HOUR": Fraction(3600),
              "DAY": Fraction(86400), "WEEK": Fraction(7 * 86400)}  # fmt: skip
_MOST_DIGITS = 36

GridArguments = Mapping[str, Argument]
"""The arguments lower, upper and step, as written; step may be left out."""


class Grid(NamedTuple):
    """The values lower + i * step, for i from 0 to n_steps, in whole units of a type.

    places: the decimals of a unit, for numbers.
    """

    type: str
    lower: int
    step: int
    n_steps: int
    places: int

    def position(self, x: str) -> str:
        """SQL for the i at or below a value; values beyond the ends are at the ends.

        It fails on no value. NULL and NaN have no position.
        """
        units = f"CAST({self._units_above(x)} AS {self._integer})"
        if self.step > 1:
            units = f"{units} // CAST({self.step} AS {self._integer})"
        position = f"CAST({units} AS BIGINT)"
        if family(self.type) in BINARY_TYPES:
            return (
                f"(CASE WHEN {x} IS NULL OR system.main.isnan({x}) THEN NULL ELSE {position} END)"
            )
        return position

    def value(self, i: str) -> str:
        """SQL for the value of a position."""
        kind, i = family(self.type), f"CAST({i} AS HUGEINT)"
        units = f"(CAST({literal(str(self.lower))} AS HUGEINT) + {i} * {self._huge(self.step)})"
        if kind == "DATE":
            return f"CAST(DATE '1970-01-01' + CAST({units} AS INTEGER) AS DATE)"
        if kind == "TIMESTAMP_NS":
            return f"system.main.make_timestamp_ns(CAST({units} AS BIGINT))"
        if kind in _PER_SECOND:
            micros = f"CAST({units} * {10**6 // _PER_SECOND[kind]} AS BIGINT)"
            time = f"system.main.make_timestamp({micros})"
            if kind == ZONED:
                time = f"(system.main.strftime({time}, '%Y-%m-%d %H:%M:%S.%f') || '+00')"
            return f"CAST({time} AS {self.type})"
        if not self.places:
            return f"CAST({units} AS {self.type})"
        scale, sign = self._huge(10**self.places), f"CASE WHEN {units} < 0 THEN '-' ELSE '' END"
        whole = f"CAST(system.main.abs({units}) // {scale} AS VARCHAR)"
        decimals = f"CAST(system.main.abs({units}) % {scale} AS VARCHAR)"
        padded = f"system.main.lpad({decimals}, {self.places}, '0')"
        return f"CAST(({sign}) || {whole} || '.' || {padded} AS {self.type})"

    @property
    def upper(self) -> int:
        """The last value."""
        return self.lower + self.n_steps * self.step

    @property
    def _integer(self) -> str:
        """A type for the units above `lower`, of which there may be some beyond the last step."""
        return "BIGINT" if (self.n_steps + 1) * self.step <= MAX_STEPS else "HUGEINT"

    def _units_above(self, x: str) -> str:
        """SQL for the whole units from `lower` to a value, which is first moved to the ends."""
        kind, ends = family(self.type), (self._literal(self.lower), self._literal(self.upper))
        if kind in BINARY_TYPES:
            low, high = (f"CAST({end} AS DOUBLE)" for end in ends)
            x = f"CAST({_nearest(f'CAST({x} AS DOUBLE)', low, high)} AS {self._decimal})"
            x = _nearest(x, *ends)
        else:
            x = _nearest_or_null(x, *ends)
        if kind == "DATE":
            return f"system.main.date_diff('day', {ends[0]}, {x})"
        if kind in _PER_SECOND:
            unit = "ns" if kind == "TIMESTAMP_NS" else "us"
            epochs = (f"system.main.epoch_{unit}({one})" for one in (x, ends[0]))
            between = " - ".join(f"CAST({epoch} AS {self._integer})" for epoch in epochs)
            scale = max(10**6 // _PER_SECOND[kind], 1)
            return f"({between})" if scale == 1 else f"(({between}) // {scale})"
        if not self.places:
            ends_fit = max(abs(self.lower), abs(self.upper)) <= MAX_STEPS
            wide = self._integer if ends_fit else "HUGEINT"
            return f"(CAST({x} AS {wide}) - CAST({ends[0]} AS {wide}))"
        wide = self._wide
        above = f"(CAST({x} AS {wide}) - CAST({ends[0]} AS {wide}))"
        if (self.upper - self.lower) * 10**self.places < 10**37:
            return f"({above} * CAST({10**self.places} AS DECIMAL({self.places + 1}, 0)))"
        return f"system.main.replace(CAST({above} AS VARCHAR), '.', '')"

    @property
    def _wide(self) -> str:
        """The type of `_units_above`: with 18 digits after the product, DuckDB computes BIGINTs."""
        largest = max(abs(self.lower), abs(self.upper), self.upper - self.lower)
        width = max(len(str(largest)), self.places) + 1  # a DOUBLE may round up to one digit more
        return f"DECIMAL({width if width + self.places < 17 else 38}, {self.places})"

    @property
    def _decimal(self) -> str:
        """The type in which the ends are exact."""
        return self._wide if family(self.type) in BINARY_TYPES else self.type

    def _literal(self, units: int) -> str:
        kind = family(self.type)
        if kind in {"DATE", *_PER_SECOND}:
            return f"CAST({literal(_time(units, kind))} AS {self.type})"
        return f"CAST({literal(literal(Fraction(units, 10**self.places)))} AS {self._decimal})"

    @staticmethod
    def _huge(x: int) -> str:
        return f"CAST({literal(str(x))} AS HUGEINT)"


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
    if name not in {*_RANGES, "DECIMAL", "DATE", *_PER_SECOND, *BINARY_TYPES}:
        message = f"{call} takes numbers, dates and timestamps; {item.text} is {kind}."
        if name == "VARCHAR":
            cast = f"TRY_CAST({item.text} AS BIGINT)"
            raise item.refuse(message, f"If it holds numbers, write {cast}.", [item.put(cast)])
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


def _nearest(x: str, low: str, high: str) -> str:
    return f"system.main.greatest(system.main.least({x}, {high}), {low})"


def _nearest_or_null(x: str, low: str, high: str) -> str:
    """A column moved to the nearer end, in half of the time of `_nearest`; NULL for NULL."""
    beyond = f"WHEN {x} > {high} THEN {high} WHEN {x} < {low} THEN {low}"
    return f"(CASE WHEN {x} BETWEEN {low} AND {high} THEN {x} {beyond} END)"


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
    if name == "DATE" or name in _PER_SECOND:
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
    units, rest = divmod(micros * _PER_SECOND[name], 10**6)
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


def _time(units: int, name: str) -> str:
    """A date or a timestamp as SQL reads it back."""
    if name == "DATE":
        return date.fromordinal(units + date(1970, 1, 1).toordinal()).isoformat()
    seconds, rest = divmod(units, _PER_SECOND[name])
    moment = datetime(1970, 1, 1) + timedelta(seconds=seconds)
    digits = f"{rest * 10**9 // _PER_SECOND[name]:09}"[: 9 if name == "TIMESTAMP_NS" else 6]
    zone = "+00" if name == ZONED else ""
    return f"{moment.isoformat(' ')}.{digits}{zone}"


def _step(given: Argument | None, name: str, places: int) -> int:
    """The step in units of the type."""
    is_time = name == "DATE" or name in _PER_SECOND
    per_second = _PER_SECOND.get(name, Fraction(1, 86400))
    if given is None:
        return _PER_SECOND.get(name, 1)
    if is_time and given[0].upper == "INTERVAL":
        exact = _interval(given) * per_second
    elif is_time:  # a number of days, or of seconds
        exact = read_number(given, "step") * _PER_SECOND.get(name, 1)
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
