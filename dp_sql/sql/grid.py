"""The public grid of an answer: lower, lower + step, … up to upper, in the type of a column. Pure.

Values count whole units of their type: 1 of an integer, the last decimal of a DECIMAL, a day of a
DATE, a microsecond of a TIMESTAMP.
"""

from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import NamedTuple

from dp_sql.sql.formatting import literal
from dp_sql.sql.types import BINARY_TYPES, ZONED, family
from dp_sql.udfs.mechanism import MAX_STEPS

# Units in a second.
PER_SECOND = {"TIMESTAMP_S": 1, "TIMESTAMP_MS": 10**3, "TIMESTAMP": 10**6, "TIMESTAMP_NS": 10**9,
               ZONED: 10**6}  # fmt: skip


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
        if kind in PER_SECOND:
            micros = f"CAST({units} * {10**6 // PER_SECOND[kind]} AS BIGINT)"
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
        if kind in PER_SECOND:
            unit = "ns" if kind == "TIMESTAMP_NS" else "us"
            epochs = (f"system.main.epoch_{unit}({one})" for one in (x, ends[0]))
            between = " - ".join(f"CAST({epoch} AS {self._integer})" for epoch in epochs)
            scale = max(10**6 // PER_SECOND[kind], 1)
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
        if kind in {"DATE", *PER_SECOND}:
            return f"CAST({literal(_time(units, kind))} AS {self.type})"
        return f"CAST({literal(literal(Fraction(units, 10**self.places)))} AS {self._decimal})"

    @staticmethod
    def _huge(x: int) -> str:
        return f"CAST({literal(str(x))} AS HUGEINT)"


def _nearest(x: str, low: str, high: str) -> str:
    return f"system.main.greatest(system.main.least({x}, {high}), {low})"


def _nearest_or_null(x: str, low: str, high: str) -> str:
    """A column moved to the nearer end, in half of the time of `_nearest`; NULL for NULL."""
    beyond = f"WHEN {x} > {high} THEN {high} WHEN {x} < {low} THEN {low}"
    return f"(CASE WHEN {x} BETWEEN {low} AND {high} THEN {x} {beyond} END)"


def _time(units: int, name: str) -> str:
    """A date or a timestamp as SQL reads it back."""
    if name == "DATE":
        return date.fromordinal(units + date(1970, 1, 1).toordinal()).isoformat()
    seconds, rest = divmod(units, PER_SECOND[name])
    moment = datetime(1970, 1, 1) + timedelta(seconds=seconds)
    digits = f"{rest * 10**9 // PER_SECOND[name]:09}"[: 9 if name == "TIMESTAMP_NS" else 6]
    zone = "+00" if name == ZONED else ""
    return f"{moment.isoformat(' ')}.{digits}{zone}"
