"""The functions that an analyst may use on private rows: the closed table that SQL is written from.

Each function returns a value, in time linear in the length of its strings, for every value of its
arguments as they are written: `string` is at most MAX_TEXT_BYTES long, `list` has at most as many
elements, `json` is valid, and `date` lies within the years of NEAR. docs/sql.md prints this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp


@dataclass(frozen=True)
class Function:
    """One function.

    takes: the kinds of its arguments: a value (string, text, list, json, date), or a literal.
        The last kind of a function that takes `many` arguments is repeated.
    gives: the type of its result.
    total: why it returns a value for all of these arguments.
    sql: how it is written, if not as a call of the function of its name.
    """

    takes: tuple[str, ...]
    gives: str
    total: str
    sql: str = ""
    many: bool = False


_PASS, _FIND = "one pass over the string", "one search for a fixed string"
_RE2 = "RE2 is linear; the pattern is limited, and compiled before the query"
_JSON, _SECONDS = "the JSON is valid", "the difference fits, even in seconds"
_CALENDAR = "the dates it reads are far from the ends of the calendar"

_LOG_OF = "0 gives -infinity and numbers below 0 give NaN"
# As in DuckDB 2.0; 1.5 raises an error.
_ROOT = "system.main.sqrt(CASE WHEN {0} < 0 THEN '-nan'::DOUBLE ELSE {0} END)"
_LOG = (
    "(CASE WHEN {0} = 0 THEN '-infinity'::DOUBLE ELSE "
    "system.main.log(CASE WHEN {0} <= 0 THEN 'nan'::DOUBLE ELSE {0} END) END)"
)

FUNCTIONS: Mapping[str, Function] = {
    "length": Function(("string",), "BIGINT", _PASS),
    "strlen": Function(("string",), "BIGINT", "the number of bytes"),
    "left": Function(("string", "count"), "VARCHAR", _PASS),
    "right": Function(("string", "count"), "VARCHAR", _PASS),
    "starts_with": Function(("string", "characters"), "BOOLEAN", _FIND),
    "ends_with": Function(("string", "characters"), "BOOLEAN", _FIND),
    "contains": Function(("string", "characters"), "BOOLEAN", _FIND),
    "strpos": Function(("string", "characters"), "BIGINT", _FIND),
    "replace": Function(("string", "characters", "characters"), "VARCHAR", _PASS),
    "split_part": Function(("string", "characters", "count"), "VARCHAR", _PASS),
    "concat": Function(("text",), "VARCHAR", "the sum of the lengths is limited", many=True),
    "concat_ws": Function(
        ("characters", "text"), "VARCHAR", "the sum of the lengths is limited", many=True
    ),
    "||": Function(
        ("text", "text"), "VARCHAR", "the sum of the lengths is limited", "({0} || {1})"
    ),
    "regexp_matches": Function(("string", "pattern"), "BOOLEAN", _RE2),
    "regexp_full_match": Function(("string", "pattern"), "BOOLEAN", _RE2),
    "regexp_extract": Function(("string", "pattern", "group"), "VARCHAR", _RE2),
    "list_contains": Function(
        ("list", "element"), "BOOLEAN", "one pass over the list, of strings or of integers"
    ),
    "= ANY": Function(
        ("list", "element"), "BOOLEAN", "one pass over the list, of strings or of integers",
        "(CASE WHEN {0} IS NULL THEN FALSE WHEN system.main.list_contains({0}, {1}) THEN TRUE "
        "WHEN system.main.list_aggregate({0}, 'count') = system.main.len({0}) THEN FALSE END)",
    ),
    "reverse": Function(("string",), "VARCHAR", _PASS),
    "sqrt": Function(("double",), "DOUBLE", "numbers below 0 give NaN", _ROOT),
    "cbrt": Function(("double",), "DOUBLE", "every number has a cube root"),
    "ln": Function(("double",), "DOUBLE", _LOG_OF, _LOG.replace("log", "ln")),
    "log10": Function(("double",), "DOUBLE", _LOG_OF, _LOG.replace("log", "log10")),
    "exp": Function(("double",), "DOUBLE", "large results are infinite"),
    "pow": Function(("double", "double"), "DOUBLE", "large results are infinite"),
    "isnan": Function(("double",), "BOOLEAN", "one comparison"),
    "isinf": Function(("double",), "BOOLEAN", "one comparison"),
    "isfinite": Function(("double",), "BOOLEAN", "one comparison"),
    "->>": Function(
        ("json", "path"), "VARCHAR", _JSON, "system.main.json_extract_string({0}, {1})"
    ),
    "->": Function(
        ("json", "path"), "JSON", _JSON, "system.main.json_extract({0}, {1})"
    ),
    "dayname": Function(("date",), "VARCHAR", _CALENDAR),
    "monthname": Function(("date",), "VARCHAR", _CALENDAR),
    "last_day": Function(("date",), "DATE", _CALENDAR),
    "epoch": Function(("date",), "DOUBLE", _SECONDS),
    "epoch_ms": Function(("date",), "BIGINT", _SECONDS),
    "epoch_us": Function(("date",), "BIGINT", "microseconds fit for the dates that it reads"),
    "strftime": Function(("date", "format"), "VARCHAR", "the format is checked before the query"),
    "date_diff": Function(("part", "date", "same"), "BIGINT", _SECONDS),
    "date_sub": Function(("part", "date", "same"), "BIGINT", _SECONDS),
}  # fmt: skip
ALIASES: Mapping[str, str] = {
    "len": "length", "char_length": "length", "character_length": "length", "prefix": "starts_with",
    "suffix": "ends_with", "position": "strpos", "instr": "strpos", "datediff": "date_diff",
    "datesub": "date_sub", "json_extract_string": "->>", "json_extract_path_text": "->>",
    "json_extract": "->", "json_extract_path": "->", "list_has": "list_contains",
    "array_contains": "list_contains", "array_has": "list_contains", "log": "log10",
    "power": "pow", "array_length": "length",
}  # fmt: skip
# The nodes that sqlglot makes of these calls: the function, and where its arguments are.
NODES: Mapping[type, tuple[str, str]] = {
    exp.Length: ("length", "this"),
    exp.Left: ("left", "this expression"),
    exp.Right: ("right", "this expression"),
    exp.StartsWith: ("starts_with", "this expression"),
    exp.EndsWith: ("ends_with", "this expression"),
    exp.Contains: ("contains", "this expression"),
    exp.StrPosition: ("strpos", "this substr"),
    exp.Replace: ("replace", "this expression replacement"),
    exp.SplitPart: ("split_part", "this delimiter part_index"),
    exp.Concat: ("concat", "expressions"),
    exp.ConcatWs: ("concat_ws", "expressions"),
    exp.DPipe: ("||", "this expression"),
    exp.RegexpLike: ("regexp_matches", "this expression"),
    exp.RegexpFullMatch: ("regexp_full_match", "this expression"),
    exp.SimilarTo: ("regexp_full_match", "this expression"),
    exp.RegexpExtract: ("regexp_extract", "this expression group"),
    exp.ArrayContains: ("list_contains", "this expression"),
    exp.JSONExtractScalar: ("->>", "this expression"),
    exp.JSONExtract: ("->", "this expression"),
    exp.Reverse: ("reverse", "this"),
    exp.Sqrt: ("sqrt", "this"),
    exp.Cbrt: ("cbrt", "this"),
    exp.Ln: ("ln", "this"),
    exp.Log: ("log10", "this expression"),
    exp.Exp: ("exp", "this"),
    exp.Pow: ("pow", "this expression"),
    exp.IsNan: ("isnan", "this"),
    exp.IsInf: ("isinf", "this"),
    exp.TimeToUnix: ("epoch", "this"),
    exp.UnixToTime: ("epoch_ms", "this scale"),
    exp.ArraySize: ("length", "this"),
    exp.LastDay: ("last_day", "this"),
    exp.TimeToStr: ("strftime", "this format"),
    exp.DateDiff: ("date_diff", "unit expression this"),
    **{
        getattr(exp, node): (node.lower(), "this")
        for node in ("Dayname", "Monthname")
        if hasattr(exp, node)
    },
}
# Flags by which sqlglot remembers how a call was written; they change nothing in DuckDB.
FLAGS = frozenset(
    {"safe", "coalesce", "ignore_nulls", "scalar_only", "only_json_types", "typed",
     "null_if_pos_overflow", "date_part_boundary"}
)  # fmt: skip
