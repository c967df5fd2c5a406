"""Functions of strings and dates that are the same for an owner and an analyst.

They have nodes of their own (forms.py); all other functions are in calls.py.
"""

from sqlglot import exp

from dp_sql.privacy.expressions.literal_arguments import quoted
from dp_sql.privacy.expressions.literals import UNITS, near_number
from dp_sql.privacy.expressions.unsupported import no_part
from dp_sql.privacy.expressions.value import MAX_STRING, Value, bounded
from dp_sql.privacy.refusals import refuse
from dp_sql.sql.formatting import literal
from dp_sql.sql.sqlglot_tree import Node
from dp_sql.sql.types import EXACT_TYPES, INTEGER_RANGES, TIMES, UNSHOWN, ZONED, family, writable

DATE_PARTS = frozenset(
    {"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "DOW", "ISODOW", "DOY",
     "DAYOFWEEK", "DAYOFYEAR", "WEEKDAY", "WEEKOFYEAR", "YEARWEEK", "ISOYEAR", "DECADE", "CENTURY",
     "MILLENNIUM", "MILLISECOND", "MICROSECOND"}
)  # fmt: skip
_TRUNCATED = (*UNITS, "decade", "century", "millennium", "millisecond", "microsecond")
_OF_YEARS = {"YEAR", "ISOYEAR", "YEARWEEK", "DECADE", "CENTURY", "MILLENNIUM"}
# The last year is 5881580, so that of its last week is 588158052.
_YEAR_ENDS, _DAYS_OF_YEAR = (-600_000_000, 600_000_000), (0, 366)
_PART_ENDS = (0, 60)  # of all others
_PARTS_OF_MINUTE = {"MILLISECOND": (0, 60_000), "MICROSECOND": (0, 60_000_000)}
_OF_INTERVALS = {"YEAR", "QUARTER", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"}
LONG_TEXT = 100  # no number, date, time, interval, UUID or boolean is longer as a string


def text(node: Node, value: Value) -> Value:
    """A value as a string; no such cast fails."""
    kind = family(value.type)
    if kind in {"VARCHAR", "NULL"}:
        return value
    if kind not in EXACT_TYPES - UNSHOWN | {"FLOAT", "DOUBLE", "JSON", "INTERVAL", "BIT"}:
        raise refuse(node, f"A cast of {value.type} to VARCHAR is not supported here")
    bound = None if kind in {"BLOB", "ENUM", "JSON", "BIT"} else LONG_TEXT
    sql = writable(value.sql, kind) if value.bound is None else value.sql
    return Value(f"CAST({sql} AS VARCHAR)", "VARCHAR", bound=bound)


def as_string(node: Node, value: Value) -> Value:
    """A string, which DuckDB also reads an ENUM as; other values as they are."""
    return text(node, value) if family(value.type) == "ENUM" else value


def of_string(word: str, node: Node, value: Value, *more: str) -> Value:
    """A function of a string; what it returns keeps the collation."""
    value = as_string(node, value)
    if family(value.type) != "VARCHAR":
        raise refuse(node, f"This function takes a string, not {value.type}")
    read = bounded(value)
    sql = f"system.main.{word}({', '.join([read.sql, *more])})"
    bound = min(3 * (read.bound or 0), MAX_STRING)  # a code point has at most 3 times its bytes
    return Value(sql, "VARCHAR", collation=value.collation, bound=bound)


def trimmed(node: Node, value: Value) -> Value:
    """trim, ltrim or rtrim of spaces, or of the characters of a literal."""
    words = {"": "trim", "LEADING": "ltrim", "TRAILING": "rtrim", "BOTH": "trim"}
    word = words.get(str(node.args.get("position") or "").upper())
    if word is None:
        raise refuse(node, "This form of trim is not supported here")
    given = node.args.get("expression")
    more = [] if given is None else [quoted(word, "characters", given).sql]
    return of_string(word, node, value, *more)


def substring(node: Node, value: Value) -> Value:
    """A part of a string, from and to literal places."""
    start, length = node.args.get("start"), node.args.get("length")
    bounds = []
    for bound in (start,) if length is None else (start, length):
        number = near_number(bound)
        if number is None:
            raise refuse(node, "substr is supported only with literal bounds of up to a million")
        bounds.append(str(number))
    return of_string("substr", node, value, *bounds)


def without_query(value: Value, node: Node) -> Value:
    """A value in a place where DuckDB takes no subquery: in TRY(…), or a string in min or max."""
    if node.find(exp.Query) is not None and "(SELECT " in value.sql:
        why = "IN (SELECT …) and other subqueries are not supported in this place"
        raise refuse(node, why, "Compute it in a subquery: FROM (SELECT …, … AS name FROM …).")
    return value


def date_part(word: str, node: Node, value: Value) -> Value:
    """A number of a date or a time: its year, hour and the like."""
    value = without_query(value, node)
    of_time = value.type == "TIME" and word in {"hour", "minute", "second"}
    of_interval = value.type == "INTERVAL" and word.upper() in _OF_INTERVALS
    if family(value.type) not in TIMES and not of_time and not of_interval:
        raise refuse(node, f"{word} takes a date, not {value.type}")
    sql = f"TRY(system.main.date_part({literal(word)}, {value.sql}))"
    ends = _PARTS_OF_MINUTE.get(word.upper(), _PART_ENDS)
    if word.upper() in _OF_YEARS:
        ends = _YEAR_ENDS
    elif word.upper() in {"DOY", "DAYOFYEAR"}:
        ends = _DAYS_OF_YEAR
    elif of_interval:  # its days are an INTEGER, and its hours may be more
        ends = INTEGER_RANGES["BIGINT" if word.upper() == "HOUR" else "INTEGER"]
    return Value(sql, "BIGINT", ends=ends, facts_of=sql)


def truncated(node: Node, value: Value) -> Value:
    """The beginning of the month, the hour and the like, as a timestamp."""
    unit, value = str(node.args["unit"].name).lower(), without_query(value, node)
    if unit not in _TRUNCATED:
        raise no_part(node.args["unit"], "date_trunc", _TRUNCATED)
    if family(value.type) not in TIMES:
        raise refuse(node, "date_trunc needs a part such as 'month', and a date")
    kind = ZONED if value.type.endswith("ZONE") else "TIMESTAMP"
    # TRY: at the ends of the calendar there is no beginning of the week.
    begin = f"TRY(system.main.date_trunc({literal(unit)}, {value.sql}))"
    return Value(f"TRY(CAST({begin} AS {kind}))", kind)
