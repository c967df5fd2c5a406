"""Replace the parameters of a statement with DP calls by literals, before it is planned. Pure.

Plans, stored releases, receipts and the ledger then read one statement in which nothing is open. A
value becomes exactly one literal, of the type that DuckDB gives to the Python value. What decides
cost, size or privacy of an answer is never a parameter.
"""

import datetime
import uuid
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from dp_sql.errors import ArgumentError, InternalError, NotSupported
from dp_sql.sql.clauses import enclosing_select
from dp_sql.sql.formatting import literal
from dp_sql.sql.given import PublicSet, SetPerKey
from dp_sql.sql.statement import Statement
from dp_sql.sql.tokens import Token, Tokens, edited, folded, tokenize
from dp_sql.sql.types import MOST_DIGITS

_NO_CALLS = {"BY", "ROLLUP", "CUBE", "SETS"}  # a number in brackets behind these is a column
_TYPES = "Pass None, a bool, a number, a string, bytes, a date, a time, a UUID, or a list of these."


class Parameter(NamedTuple):
    """One parameter of a statement: its name, and its tokens [start, stop)."""

    name: str
    start: int
    stop: int


def parameters(tokens: Tokens) -> list[Parameter]:
    """The parameters `?`, `?1`, `$1` and `$name`, in the order of the text.

    >>> [one.name for one in parameters(tokenize("SELECT '?', $1, $Name, $1 -- ?"))]
    ['1', 'name', '1']
    """
    found: list[Parameter] = []
    for index, token in enumerate(tokens):
        after = tokens.at(index + 1)
        if token.is_symbol("?") and (after.kind != "number" or after.start > token.end):
            found.append(Parameter(str(len(found) + 1), index, index + 1))
        elif token.is_symbol("?", "$"):
            found.append(Parameter(folded(after.name or after.text), index, index + 2))
    return found


def bind(statement: Statement, values: object, names: frozenset[str]) -> str:
    """The whole text of a statement with DP calls, with literals for its parameters.

    `names` are the parameters that DuckDB's parser finds in it, so each is an expression there.

    Raises:
        ArgumentError: values are missing, too many or of a type without a literal; or a parameter
            is an argument that must be written in the statement.
        NotSupported: a parameter that DuckDB and dp_sql read differently, or that may be a column.
    """
    tokens, found = statement.tokens, parameters(statement.tokens)
    mixed = len({(tokens[one.start].text, one.stop - one.start) for one in found}) > 1
    if {one.name for one in found} != {folded(name) for name in names} or mixed:
        message = "The parameters of this statement cannot be read."
        raise tokens[0].error(NotSupported, message, "Write all as ?, as $1, or as $name.")
    given = _given(values)
    for one in found:
        _check_place(statement, one)
        if one.name not in given:
            message = f"Values were not provided for the following parameters: {one.name}"
            raise tokens[one.start].error(ArgumentError, message)
    if excess := given.keys() - {one.name for one in found}:
        listed = ", ".join(sorted(excess))
        message = f"Parameter count mismatch, identifiers of the excess parameters: {listed}"
        raise ArgumentError(message)
    return _spliced(statement, found, given)


def _given(values: object) -> dict[str, object]:
    if values is None:
        return {}
    if isinstance(values, Mapping):
        return {folded(str(name)): value for name, value in values.items()}
    if isinstance(values, list | tuple):
        return {str(number): value for number, value in enumerate(values, 1)}
    raise NotSupported("Parameters are a list, a tuple or a dictionary.")


def _check_place(statement: Statement, one: Parameter) -> None:
    """Refuse a parameter where a literal would mean something else, or must be seen."""
    token = statement.tokens[one.start]
    clause = enclosing_select(statement.tokens, one.start).clause_of(one.start)
    if (
        clause is not None
        and clause.keyword in {"GROUP", "ORDER"}
        and not _is_inside(statement.tokens[clause.start : one.start])
    ):  # 1 would be the first column
        message = f"A parameter is not supported in the {clause.keyword} BY clause."
        raise token.error(NotSupported, message, "Write the value into the statement.")
    for call in statement.calls:
        if call.start <= token.start < call.end and not any(
            _holds(part, token) for part in (call.columns.get("item"), call.condition, call.groups)
        ):
            raise token.error(
                ArgumentError,
                f"This argument of {call.function.name} must be written in the statement: it "
                "decides what the answer costs or which values it may have.",
                "Parameters can be values in WHERE, LIMIT, the item, or a list of groups.",
            )


def _is_inside(before: Tokens) -> bool:
    """Whether what follows the beginning of a clause is inside a call or CASE of it."""
    depth, cases = 0, 0
    for i in range(len(before) - 1, -1, -1):
        depth += before[i].is_symbol("(") - before[i].is_symbol(")")
        cases += (before[i].upper == "CASE") - (before[i].upper == "END")
        is_opening, called = depth > 0 and before[i].is_symbol("("), before.at(i - 1)
        if cases > 0 or (is_opening and called.name and called.upper not in _NO_CALLS):
            return True
        depth = min(depth, 0)
    return False


def _holds(part: PublicSet | SetPerKey | None, token: Token) -> bool:
    return part is not None and part.position <= token.start < part.position + len(part.text)


def _spliced(statement: Statement, found: Sequence[Parameter], given: Mapping[str, object]) -> str:
    """The text with a literal in place of each parameter, and every other token as it was."""
    tokens, text, (start, stop) = statement.tokens, statement.text, statement.span
    edits, expected, index = [], [], 0
    for one in found:
        first, last = tokens[one.start], tokens[one.stop - 1]
        try:
            written = as_literal(given[one.name], tokens.at(one.start - 1).upper == "IN")
        except _NoLiteral as error:
            raise first.error(ArgumentError, f"Parameter {one.name} {error}.", _TYPES) from None
        left = "" if text[first.start - 1] in " \n(,[" else " "  # it never joins its neighbours
        right = "" if text[last.end : last.end + 1] in " \n),]" else " "
        edits.append((first.start, last.end, f"{left}{written}{right}"))
        expected += [*tokens[index : one.start], *tokenize(written)]
        index = one.stop
    bound = edited(text, edits)
    expected += tokens[index:]
    read = tokenize(bound[start : len(bound) - len(text) + stop])
    if [token.text for token in read] != [token.text for token in expected]:
        raise InternalError("The values of this statement could not be bound.")
    return bound


class _NoLiteral(ValueError):
    """Why a value has no literal, as the end of a sentence that begins with its name."""


def as_literal(value: Any, after_in: bool = False) -> str:
    r"""A value as one literal of its type; after IN, a list as the list of IN.

    >>> for value in (-1, 1.5, Decimal("1.50"), "it's", datetime.date(2024, 1, 31), b"a"):
    ...     print(as_literal(value), as_literal([value, None]))
    (-1) [(-1), NULL]
    1.5e0 [1.5e0, NULL]
    1.50 [1.50, NULL]
    'it''s' ['it''s', NULL]
    CAST('2024-01-31' AS DATE) [CAST('2024-01-31' AS DATE), NULL]
    CAST('\x61' AS BLOB) [CAST('\x61' AS BLOB), NULL]
    """
    if hasattr(value, "dtype") and hasattr(value, "tolist"):  # numpy's
        if value.dtype.kind in "mM":
            raise _NoLiteral("is a NumPy datetime; pass a datetime")
        value = value.tolist()
    if value is None or type(value).__name__ == "NaTType":  # a datetime of pandas' that is NULL
        return "NULL"
    if isinstance(value, list | tuple):
        listed = ", ".join(map(as_literal, value))
        return f"({listed})" if after_in and value and None not in value else f"[{listed}]"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float | Decimal):
        return _number(value)
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, datetime.timedelta):
        value = datetime.timedelta.__pos__(value)  # no subclass writes SQL
    for kind, known, written in _OTHERS:
        if isinstance(value, known):
            unit = _in_one_unit(value) if kind(value) == "INTERVAL" else ""
            plain = f"CAST({_string(written(value))} AS {kind(value)})"
            return f"INTERVAL '{unit}'" if unit else plain
    raise _NoLiteral(f"is of type {type(value).__name__}, which has no literal")


def _in_one_unit(value: datetime.timedelta) -> str:
    """A span in one unit, as expressions under a policy read it; "" for days and a time."""
    seconds, rest = value.seconds, value.microseconds
    if value.days and (seconds or rest):
        return ""
    if rest:
        return f"{seconds * 10**6 + rest} microseconds"
    return f"{seconds} seconds" if seconds else f"{value.days} days"


def _number(value: int | float | Decimal) -> str:
    if isinstance(value, int):
        written = int.__repr__(value)
        if not -(2**127) <= value < 2**128:
            raise _NoLiteral("does not fit DuckDB's largest integer")
    elif isinstance(value, float):
        written = float.__repr__(value)
        if written in {"nan", "inf", "-inf"}:
            return f"CAST('{written}' AS DOUBLE)"
        written += "" if "e" in written else "e0"  # without an exponent it would be a DECIMAL
    else:
        value = Decimal(value)  # no subclass writes SQL
        written = f"{value:f}" if value.is_finite() and abs(value.adjusted()) < 100 else ""
        # DuckDB reads a longer number as DOUBLE.
        if not 0 < sum(map(str.isdigit, written)) <= MOST_DIGITS:
            raise _NoLiteral(f"does not fit a DECIMAL of {MOST_DIGITS} digits")
    return f"({written})" if written.startswith("-") else written


def _string(value: str) -> str:
    written = str.__str__(value)
    if "\0" in written:
        raise _NoLiteral("contains a NUL character")
    try:
        written.encode()
    except UnicodeEncodeError:
        raise _NoLiteral("contains half of a surrogate pair") from None
    return literal(written)


def _moment(value: datetime.datetime) -> str:
    if getattr(value, "nanosecond", 0):  # of a pandas.Timestamp
        raise _NoLiteral("has nanoseconds; a TIMESTAMP has microseconds")
    try:
        value = value if value.tzinfo is None else value.astimezone(datetime.UTC)
    except OverflowError:
        raise _NoLiteral("is outside the calendar in UTC") from None
    return datetime.datetime.isoformat(value, " ")


def _zoned(kind: str) -> Callable[[Any], str]:
    return lambda value: kind if value.tzinfo is None else f"{kind} WITH TIME ZONE"


# For each other type: DuckDB's, Python's, and how it is written; a datetime is a date, too.
_OTHERS: tuple[tuple[Callable[[Any], str], Any, Callable[[Any], str]], ...] = (
    (_zoned("TIMESTAMP"), datetime.datetime, _moment),
    (lambda _: "DATE", datetime.date, datetime.date.isoformat),
    (_zoned("TIME"), datetime.time, datetime.time.isoformat),
    (lambda _: "INTERVAL", datetime.timedelta,
     lambda d: f"{d.days} days {d.seconds} seconds {d.microseconds} microseconds"),
    (lambda _: "UUID", uuid.UUID, str),
    (lambda _: "BLOB", bytes | bytearray | memoryview,
     lambda b: "".join(f"\\x{byte:02X}" for byte in bytes(b))),
)  # fmt: skip
