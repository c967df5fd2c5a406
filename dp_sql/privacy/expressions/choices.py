"""Values of several expressions in one type, and casts: CASE, coalesce, greatest, CAST, constants.

A cast that could fail is a TRY_CAST, here as in arithmetic.py.
"""

from collections.abc import Sequence

from sqlglot import exp

from dp_sql.privacy.expressions.collations import agree, under
from dp_sql.privacy.expressions.comparisons import beside
from dp_sql.privacy.expressions.literals import constant, is_literal, target
from dp_sql.privacy.expressions.scope import Scope
from dp_sql.privacy.expressions.strings_and_dates import text, without_query
from dp_sql.privacy.expressions.value import Value, bounded
from dp_sql.privacy.refusals import Refused, refuse
from dp_sql.sql.sqlglot_tree import Node
from dp_sql.sql.types import (
    BINARY_TYPES,
    DATED,
    EXACT_TYPES,
    INTEGER_RANGES,
    INTEGERS,
    NUMBERS,
    TIMES,
    UP_TO_64_BITS,
    ZONED,
    digits_of,
    family,
)

_ALSO_DATED = {("TIMESTAMP", "TIME"), ("TIMESTAMP_NS", "DATE"), ("TIMESTAMP_NS", "TIMESTAMP")}


def now(node: Node, scope: Scope) -> Value:
    """The time of the statement, as a literal."""
    if scope.now is None:
        raise refuse(node, "The time is not available here")
    moment = scope.now()
    name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
    if isinstance(node, exp.CurrentDate) or name == "today":
        return Value(f"CAST('{moment.date()}' AS DATE)", "DATE", bound=moment.year)
    return Value(f"CAST('{moment.isoformat(' ')}' AS {ZONED})", ZONED, bound=moment.year)


def one_type(node: Node, values: Sequence[Value], scope: Scope) -> tuple[Value, list[Value]]:
    """Values in the type that DuckDB gives to all of them, and that type as a value without SQL."""
    values = [text(node, v) if family(v.type) == "ENUM" else v for v in values]
    typed = [value for value in values if value.type != "NULL"]
    kinds = {_mixed_kind(value.type) for value in typed}
    if len(kinds) != 1 or "" in kinds:
        shown = " and ".join(sorted({value.type for value in typed})) or "NULL"
        hint = "Write a date as DATE '2020-01-31', and cast numbers beside strings to VARCHAR."
        if len({value.type for value in typed}) < 2:
            raise refuse(node, f"Values of type {shown} are not compared or combined here")
        raise refuse(node, f"{shown} have no common type here", hint)
    kind, collation = typed[0].type, agree(node, *typed)
    if len({value.type for value in typed}) > 1:
        kind = scope.schema.type_of(f"coalesce({', '.join(value.stand_in for value in typed)})")
        if _mixed_kind(kind) not in kinds:
            raise refuse(node, f"{typed[0].type} and {typed[1].type} have no common type here")
        values = [cast(value, kind) if value.type not in {kind, "NULL"} else value
                  for value in values]  # fmt: skip
    if kind == "VARCHAR":
        values = [v if v.type == "NULL" else under(collation, v) for v in values]
    bounds = [value.bound for value in values if value.type != "NULL"]
    known = [bound for bound in bounds if bound is not None]
    bound = max(known) if len(known) == len(bounds) else None
    return Value("", kind, collation=collation, bound=bound), list(values)


def _mixed_kind(kind: str) -> str:
    """Types of one kind are compared and mixed without going through strings; "": none are."""
    name = family(kind)
    if name in NUMBERS:
        return "number"
    if name in DATED:
        return "date"
    return name if name in EXACT_TYPES | {"INTERVAL"} else ""


def cast(value: Value, kind: str) -> Value:
    """A value in another type; NULL where it does not fit."""
    dates = family(value.type) in TIMES and family(kind) in TIMES
    # TRY_CAST of infinity to TIME, and of the last moments of the calendar to or from a time zone,
    # fails on DuckDB 1.5.
    fails = kind == "TIME" or ZONED in {value.type, kind}
    limited = value.type == "VARCHAR" or (fails and kind != value.type)
    source = bounded(value) if limited else value
    return Value(f"TRY_CAST({source.sql} AS {kind})", kind, bound=source.bound if dates else None)


def first(node: Node, scope: Scope) -> Value:
    """coalesce, ifnull, nullif, greatest or least."""
    word = type(node).__name__.lower()
    given = [node.this, *(node.expressions or [])]
    if isinstance(node, exp.Nullif):
        given.append(node.expression)
    if len(given) == 2 and is_literal(given[1]) and not is_literal(given[0]):
        value = scope.argument(given[0])
        try:
            sql, other = beside(value, given[1], scope.schema)
        except Refused:  # they may still have another type in common
            sql, other = "", ""
        if sql == value.sql and family(value.type) != "ENUM":
            bound = value.bound if word == "nullif" else None  # the literal may be far away
            if word != "coalesce":  # which compares nothing
                sql = under(agree(node, value), value).sql
            chosen_sql = f"{word}({sql}, {other})"
            return value.computed(chosen_sql)._replace(bound=bound)
    own = [scope.argument(one) for one in given]
    made, values = one_type(node, own, scope)
    if word == "nullif" and made.type != own[0].type:
        raise refuse(node, f"The arguments of nullif must both be of type {own[0].type}")
    return made._replace(sql=f"{word}({', '.join(value.sql for value in values)})")


def converted(node: Node, value: Value, scope: Scope) -> Value:
    """TRY_CAST, or a CAST that no value makes fail."""
    kind = target(node)
    if not kind:
        raise refuse(node, "A cast to this type is not supported here")
    if kind == "VARCHAR":
        return (found := text(node, value)).computed(found.sql)
    if value.type == "JSON":
        why = f"A JSON is cast to {kind} as a string here"
        raise refuse(node, why, f"Write TRY_CAST(json ->> 'key' AS {kind}).")
    if kind == "TIME" and value.type == ZONED:  # DuckDB has no such cast
        hint = "Name the zone, as in (seen AT TIME ZONE 'Europe/Berlin')::TIME."
        raise refuse(node, f"{ZONED} cannot be cast to TIME", hint)
    tried = isinstance(node, exp.TryCast)
    if not tried and not _holds_every(value, kind):
        why = f"This cast fails on some values of type {value.type}"
        raise refuse(node, why, f"Write TRY_CAST(… AS {kind}), which makes them NULL.")
    numeric = NUMBERS | {"BOOLEAN"}
    from_number = _mixed_kind(value.type) in {"number", "BOOLEAN"} and family(kind) in numeric
    from_date = {value.type, kind} <= DATED or (value.type, kind) in _ALSO_DATED
    zoned = kind == ZONED and value.type == "VARCHAR"
    if zoned or (value.type not in {"VARCHAR", "NULL", kind} and not (from_number or from_date)):
        raise refuse(node, f"A cast of {value.type} to {kind} is not supported here")
    return cast(value, kind)


def converted_number(node: Node, scope: Scope) -> Value:
    """A number in the statement that says its type: 17::SMALLINT."""
    kind = target(node)
    sql = f"CAST({constant(node.this, scope.schema).sql} AS {kind})"
    if family(kind) not in NUMBERS or not scope.schema.runs(sql):
        raise refuse(node, "This cast of a number is not supported here")
    return Value(sql, kind)


def listed(node: Node, scope: Scope) -> Value:
    """[a, b]: a list of values in one type. Its strings are compared byte by byte."""
    given = [scope.argument(one) for one in node.expressions]
    if not given:
        raise refuse(node, "An empty list is not supported here")
    made, values = one_type(node, given, scope)
    if made.type == "INTERVAL":
        raise refuse(node, "A list of intervals is not supported here")
    return Value(
        f"system.main.list_value({', '.join(one.sql for one in values)})", f"{made.type}[]"
    )


def _whole_ends(kind: str) -> tuple[int, int]:
    """The least and the largest whole number of an integer type or a DECIMAL; of others (0, -1)."""
    if family(kind) != "DECIMAL":
        return INTEGER_RANGES.get(kind, (0, -1))
    digits, places = digits_of(kind)
    end = int("9" * (digits - places) or "0")
    return -end, end


def _holds_every(value: Value, kind: str) -> bool:
    """Whether a type holds all that a value can be; dates beyond its calendar become NULL."""
    source, (least, most) = value.type, _whole_ends(kind)
    if source in INTEGER_RANGES:
        low, high = (value.has_facts and value.ends) or INTEGER_RANGES[source]
        if least <= low and high <= most:
            return True
    if family(source) == "DECIMAL" and family(kind) in INTEGERS | {"DECIMAL"}:
        may_round_up = digits_of(kind)[1] < digits_of(source)[1]
        end = _whole_ends(source)[1] + may_round_up
        return least <= -end and end <= most
    if source == "BOOLEAN":
        return kind in {*NUMBERS, source}
    if kind in BINARY_TYPES and _mixed_kind(source) == "number":
        return kind == "DOUBLE" or source == "FLOAT"
    return (source, kind) in {(kind, kind), *_ALSO_DATED} or (source in DATED and kind in DATED)


def made_date(node: Node, scope: Scope) -> Value:
    """make_date(year, month, day); NULL where there is no such date."""
    given = [node.args.get(part) for part in ("year", "month", "day")]
    parts = [scope.argument(part) for part in given if part is not None]
    if len(parts) != len(given):
        raise refuse(node, "make_date takes a year, a month and a day here")
    for part in parts:
        if part.type not in UP_TO_64_BITS:
            raise refuse(node, f"make_date takes integers here, not {part.type}")
        without_query(part, node)
    listed = ", ".join(f"TRY_CAST({part.sql} AS BIGINT)" for part in parts)
    return Value(f"TRY(system.main.make_date({listed}))", "DATE")


def as_date(node: Node, value: Value) -> Value:
    """date(…) of a timestamp."""
    if value.type not in DATED:
        raise refuse(node, f"date takes a timestamp here, not {value.type}", "Use TRY_CAST.")
    return cast(value, "DATE")
