"""The functions that an analyst may use on private rows: the closed table that SQL is written from.

Each function returns a value, in time linear in the length of its strings, for every value of its
arguments as they are written: `string` is at most MAX_TEXT_BYTES long, `list` has at most as many
elements, `json` is valid, and `date` lies within the years of NEAR. docs/sql.md prints this table.
"""

from collections.abc import Mapping
from typing import NamedTuple

from sqlglot import exp


class Scalar(NamedTuple):
    """One function.

    takes: the kinds of its arguments: a value (string, text, list, map, json, double, date; same: a
        second date; span: a date, or an interval; seconds, milliseconds, microseconds:
        a number of them since 1970; integer: one of up to 64 bits; values: a list of values with
        an order; numbers: a list of numbers; any: what has an exact equality), or a literal.
        The last kind of a function that takes `many` arguments is repeated.
    gives: the type of its result; in small letters, that which DuckDB says.
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
_LONG = "the length of the result is limited"
_LIST = "one pass over the list, of strings or of integers"
_SORT = "elements are sorted, at most 10,000"
_EACH = "one pass over the list"
_KEYS = "one pass over the keys, strings or integers"
_JSON, _SECONDS = "the JSON is valid", "the difference fits, even in seconds"
_CALENDAR = "its dates are far from the ends of the calendar"

_LOG_OF = "0 gives -infinity and numbers below 0 give NaN"
# As in DuckDB 2.0; 1.5 raises an error.
_ROOT = "system.main.sqrt(CASE WHEN {0} < 0 THEN '-nan'::DOUBLE ELSE {0} END)"
_LOG = (
    "(CASE WHEN {0} = 0 THEN '-infinity'::DOUBLE ELSE "
    "system.main.log(CASE WHEN {0} <= 0 THEN 'nan'::DOUBLE ELSE {0} END) END)"
)

_OF_FINITE = "infinity gives NaN"
_ANGLE = "system.main.sin(CASE WHEN system.main.isinf({0}) THEN '-nan'::DOUBLE ELSE {0} END)"
_OF_ANGLE = "numbers below -1 or above 1 give NaN"
_ARC = "system.main.asin(CASE WHEN {0} < -1 OR {0} > 1 THEN 'nan'::DOUBLE ELSE {0} END)"

# DuckDB 1.5 reads these words as 1900-01-01 in try_strptime.
_HAS_WORD = "system.main.contains(system.main.lower({0}), '%s')"
_PARSED = (
    f"system.main.try_strptime((CASE WHEN {_HAS_WORD % 'infinity'} OR {_HAS_WORD % 'epoch'} "
    "THEN NULL ELSE {0} END), {1})"
)

FUNCTIONS: Mapping[str, Scalar] = {
    "length": Scalar(("string",), "BIGINT", _PASS),
    "strlen": Scalar(("string",), "BIGINT", "the number of bytes"),
    "left": Scalar(("string", "count"), "VARCHAR", _PASS),
    "right": Scalar(("string", "count"), "VARCHAR", _PASS),
    "starts_with": Scalar(("string", "characters"), "BOOLEAN", _FIND),
    "ends_with": Scalar(("string", "characters"), "BOOLEAN", _FIND),
    "contains": Scalar(("string", "characters"), "BOOLEAN", _FIND),
    "strpos": Scalar(("string", "characters"), "BIGINT", _FIND),
    "replace": Scalar(("string", "characters", "characters"), "VARCHAR", _PASS),
    "split_part": Scalar(("string", "characters", "count"), "VARCHAR", _PASS),
    "string_split": Scalar(("string", "characters"), "VARCHAR[]", _PASS),
    "concat": Scalar(("text",), "VARCHAR", _LONG, many=True),
    "concat_ws": Scalar(("characters", "text"), "VARCHAR", _LONG, many=True),
    "||": Scalar(("text", "text"), "VARCHAR", _LONG, "({0} || {1})"),
    "regexp_matches": Scalar(("string", "pattern"), "BOOLEAN", _RE2),
    "regexp_full_match": Scalar(("string", "pattern"), "BOOLEAN", _RE2),
    "regexp_extract": Scalar(("string", "pattern", "group"), "VARCHAR", _RE2),
    "list_contains": Scalar(("list", "element"), "BOOLEAN", _LIST),
    "= ANY": Scalar(
        ("list", "element"), "BOOLEAN", _LIST,
        "(CASE WHEN {0} IS NULL OR system.main.len({0}) = 0 THEN FALSE "
        "WHEN {1} IS NULL THEN NULL WHEN system.main.list_contains({0}, {1}) THEN TRUE "
        "WHEN system.main.list_aggregate({0}, 'count') = system.main.len({0}) THEN FALSE END)",
    ),
    "list_count": Scalar(("list",), "BIGINT", _LIST, "system.main.list_aggregate({0}, 'count')"),
    "list_unique": Scalar(("list",), "UBIGINT", _LIST),
    "list_distinct": Scalar(
        ("values",), "list", _SORT, "system.main.list_sort(system.main.list_distinct({0}))"
    ),
    "list_position": Scalar(("list", "element"), "INTEGER", _LIST),
    "list_min": Scalar(("values",), "element", _EACH),
    "list_max": Scalar(("values",), "element", _EACH),
    "list_sum": Scalar(("numbers",), "number", "the sum of so few numbers fits"),
    "list_avg": Scalar(("numbers",), "DOUBLE", "the sum of so few numbers fits"),
    "list_sort": Scalar(("values",), "list", _SORT),
    "list_reverse_sort": Scalar(("values",), "list", _SORT),
    "list_reverse": Scalar(("values",), "list", _EACH),
    "array_to_string": Scalar(
        ("list", "characters"), "VARCHAR", _EACH,
        "(CASE WHEN system.main.len({0}) = 0 THEN '' ELSE "
        "system.main.list_aggregate(CAST({0} AS VARCHAR[]), 'string_agg', {1}) END)",
    ),
    "cardinality": Scalar(("map",), "UBIGINT", "the number of keys"),
    "map_contains": Scalar(("map", "element"), "BOOLEAN", _KEYS),
    "regexp_replace": Scalar(
        ("string", "pattern", "characters"), "VARCHAR", "RE2 is linear, and one match is replaced"
    ),
    "regexp_replace all": Scalar(
        ("string", "pattern", "characters"), "VARCHAR",
        "as before; a match is a few characters, of which the last may be repeated",
        "system.main.regexp_replace({0}, {1}, {2}, 'g')",
    ),
    "regexp_extract_all": Scalar(
        ("string", "pattern"), "VARCHAR[]",
        "a match is a few characters, of which the last may be repeated",
    ),
    "string_split_regex": Scalar(
        ("string", "pattern"), "VARCHAR[]",
        "a match is a few characters, of which the last may be repeated",
    ),
    "translate": Scalar(("string", "characters", "characters"), "VARCHAR", _PASS),
    "lpad": Scalar(("string", "size", "padding"), "VARCHAR", _LONG),
    "rpad": Scalar(("string", "size", "padding"), "VARCHAR", _LONG),
    "repeat": Scalar(("string", "size"), "VARCHAR", _LONG),
    "md5": Scalar(("string",), "VARCHAR", _PASS),
    "sha1": Scalar(("string",), "VARCHAR", _PASS),
    "sha256": Scalar(("string",), "VARCHAR", _PASS),
    "hash": Scalar(("any",), "UBIGINT", "one pass over the value"),
    "strip_accents": Scalar(("string",), "VARCHAR", _PASS),
    "bit_length": Scalar(("string",), "BIGINT", "the number of bytes"),
    "ascii": Scalar(("string",), "INTEGER", "it reads the first character"),
    "unicode": Scalar(("string",), "INTEGER", "it reads the first character"),
    "reverse": Scalar(("string",), "VARCHAR", _PASS),
    "sqrt": Scalar(("double",), "DOUBLE", "numbers below 0 give NaN", _ROOT),
    "cbrt": Scalar(("double",), "DOUBLE", "every number has a cube root"),
    "ln": Scalar(("double",), "DOUBLE", _LOG_OF, _LOG.replace("log", "ln")),
    "log10": Scalar(("double",), "DOUBLE", _LOG_OF, _LOG.replace("log", "log10")),
    "log2": Scalar(("double",), "DOUBLE", _LOG_OF, _LOG.replace("log", "log2")),
    "exp": Scalar(("double",), "DOUBLE", "large results are infinite"),
    "pow": Scalar(("double", "double"), "DOUBLE", "large results are infinite"),
    **{
        name: Scalar(("double",), "DOUBLE", _OF_FINITE, _ANGLE.replace("sin", name, 1))
        for name in ("sin", "cos", "tan")
    },
    **{
        name: Scalar(("double",), "DOUBLE", _OF_ANGLE, _ARC.replace("asin", name))
        for name in ("asin", "acos")
    },
    "atan": Scalar(("double",), "DOUBLE", "every number has an arc tangent"),
    "atan2": Scalar(("double", "double"), "DOUBLE", "every point has an angle"),
    "degrees": Scalar(("double",), "DOUBLE", "large results are infinite"),
    "radians": Scalar(("double",), "DOUBLE", "one multiplication"),
    "bit_count": Scalar(("integer",), "number", "the number of bits that are 1"),
    "isnan": Scalar(("double",), "BOOLEAN", "one comparison"),
    "isinf": Scalar(("double",), "BOOLEAN", "one comparison"),
    "isfinite": Scalar(("double",), "BOOLEAN", "one comparison"),
    "->>": Scalar(("json", "path"), "VARCHAR", _JSON, "system.main.json_extract_string({0}, {1})"),
    "->": Scalar(("json", "path"), "JSON", _JSON, "system.main.json_extract({0}, {1})"),
    "json_keys": Scalar(("json",), "VARCHAR[]", _JSON),
    "json_array_length": Scalar(("json",), "UBIGINT", _JSON),
    "json_type": Scalar(("json",), "VARCHAR", _JSON),
    "json_exists": Scalar(("json", "path"), "BOOLEAN", _JSON),
    "json_valid": Scalar(("string",), "BOOLEAN", _PASS),
    "strptime": Scalar(
        ("string", "format"), "TIMESTAMP",
        "other strings, infinity and epoch give NULL; the format is checked before the query",
        _PARSED,
    ),
    "dayname": Scalar(("date",), "VARCHAR", _CALENDAR),
    "monthname": Scalar(("date",), "VARCHAR", _CALENDAR),
    "last_day": Scalar(("date",), "DATE", _CALENDAR),
    "epoch": Scalar(("span",), "DOUBLE", "seconds fit for the dates that it reads"),
    "epoch_ms": Scalar(("span",), "BIGINT", "milliseconds fit for the dates that it reads"),
    "epoch_us": Scalar(("span",), "BIGINT", "microseconds fit for the dates that it reads"),
    "to_timestamp": Scalar(("seconds",), "TIMESTAMP WITH TIME ZONE", _CALENDAR),
    "make_timestamp_ms": Scalar(
        ("milliseconds",), "TIMESTAMP", _CALENDAR, "system.main.epoch_ms({0})"
    ),
    "make_timestamp": Scalar(("microseconds",), "TIMESTAMP", _CALENDAR),
    "age": Scalar(("date", "same"), "INTERVAL", _CALENDAR),
    "strftime": Scalar(("date", "format"), "VARCHAR", "the format is checked before the query"),
    "date_diff": Scalar(("part", "date", "same"), "BIGINT", _SECONDS),
    "date_sub": Scalar(("part", "date", "same"), "BIGINT", _SECONDS),
}  # fmt: skip
FUNCTION_ALIASES: Mapping[str, str] = {
    "len": "length", "char_length": "length", "character_length": "length", "prefix": "starts_with",
    "suffix": "ends_with", "position": "strpos", "instr": "strpos", "datediff": "date_diff",
    "datesub": "date_sub", "json_extract_string": "->>", "json_extract_path_text": "->>",
    "json_extract": "->", "json_extract_path": "->", "list_has": "list_contains",
    "array_contains": "list_contains", "array_has": "list_contains", "log": "log10",
    "str_split": "string_split", "string_to_array": "string_split", "split": "string_split",
    "try_strptime": "strptime", "power": "pow", "array_length": "length",
    "list_indexof": "list_position", "array_sort": "list_sort",
    "array_reverse_sort": "list_reverse_sort", "array_reverse": "list_reverse",
    "regexp_split_to_array": "string_split_regex", "str_split_regex": "string_split_regex",
    "ord": "unicode", "array_unique": "list_unique", "array_distinct": "list_distinct",
    "array_position": "list_position", "array_indexof": "list_position",
}  # fmt: skip


_WRITTEN = {
    "= ANY": "element = ANY (list)",
    "regexp_replace all": "regexp_replace(string, pattern, characters, 'g')",
}


def call_of(name: str) -> str:
    """How a function is called, with the kinds of its arguments.

    >>> call_of("lpad"), call_of("->>"), call_of("concat")
    ('lpad(string, size, padding)', 'json ->> path', 'concat(text, …)')
    """
    kinds = [kind.replace("same", "date") for kind in FUNCTIONS[name].takes]
    if name in _WRITTEN:
        return _WRITTEN[name]
    if not name.isidentifier():
        return f" {name} ".join(kinds)
    return f"{name}({', '.join(kinds)}{', …' * FUNCTIONS[name].many})"


# The nodes that sqlglot makes of these calls: the function, and where its arguments are.
_OF_ONE: Mapping[type, str] = {
    exp.Length: "length", exp.ArraySize: "length", exp.MD5: "md5", exp.Ascii: "ascii",
    exp.Unicode: "unicode", exp.Reverse: "reverse", exp.Sqrt: "sqrt", exp.Cbrt: "cbrt",
    exp.Ln: "ln", exp.Exp: "exp", exp.IsNan: "isnan", exp.IsInf: "isinf", exp.TimeToUnix: "epoch",
    exp.LastDay: "last_day", exp.SHA: "sha1", exp.Degrees: "degrees", exp.Radians: "radians",
    exp.Sin: "sin", exp.Cos: "cos", exp.Tan: "tan", exp.Asin: "asin", exp.Acos: "acos",
    exp.Atan: "atan", exp.BitLength: "bit_length", exp.ArrayReverse: "list_reverse",
}  # fmt: skip
_OF_TWO: Mapping[type, str] = {
    exp.Left: "left", exp.Right: "right", exp.StartsWith: "starts_with", exp.EndsWith: "ends_with",
    exp.Contains: "contains", exp.Split: "string_split", exp.DPipe: "||", exp.Pow: "pow",
    exp.RegexpLike: "regexp_matches", exp.RegexpFullMatch: "regexp_full_match",
    exp.SimilarTo: "regexp_full_match", exp.ArrayContains: "list_contains",
    exp.JSONExtractScalar: "->>", exp.JSONExtract: "->", exp.Log: "log10",
    exp.JSONType: "json_type", exp.Atan2: "atan2", exp.ArrayToString: "array_to_string",
    exp.RegexpSplit: "string_split_regex",
}  # fmt: skip
_OF_SOME_VERSIONS = {
    "ArrayMin": ("list_min", "this"), "ArrayMax": ("list_max", "this"),
    "ArraySort": ("list_sort", "this"), "SortArray": ("list_sort", "this"),
    "ArrayDistinct": ("list_distinct", "this"),
    "Dayname": ("dayname", "this"), "Monthname": ("monthname", "this"),
    "JSONKeys": ("json_keys", "this"), "ArrayPosition": ("list_position", "this expression"),
}  # fmt: skip
NODES: Mapping[type, tuple[str, str]] = {
    **{node: (name, "this") for node, name in _OF_ONE.items()},
    **{node: (name, "this expression") for node, name in _OF_TWO.items()},
    **{getattr(exp, n): found for n, found in _OF_SOME_VERSIONS.items() if hasattr(exp, n)},
    exp.StrPosition: ("strpos", "this substr"),
    exp.Replace: ("replace", "this expression replacement"),
    exp.SplitPart: ("split_part", "this delimiter part_index"),
    exp.Concat: ("concat", "expressions"),
    exp.ConcatWs: ("concat_ws", "expressions"),
    exp.RegexpExtract: ("regexp_extract", "this expression group"),
    exp.RegexpExtractAll: ("regexp_extract_all", "this expression group"),
    exp.RegexpReplace: ("regexp_replace", "this expression replacement"),
    exp.Translate: ("translate", "this from_ to"),
    exp.Pad: ("rpad", "this expression fill_pattern"),  # or lpad
    exp.Repeat: ("repeat", "this times"),
    exp.SHA2: ("sha256", "this length"),
    exp.UnixToTime: ("epoch_ms", "this scale"),
    exp.StrToTime: ("strptime", "this format"),
    exp.TimeToStr: ("strftime", "this format"),
    exp.DateDiff: ("date_diff", "unit expression this"),
}
# Flags by which sqlglot remembers how a call was written; they change nothing in DuckDB.
FLAGS = frozenset(
    {"safe", "coalesce", "asc", "nulls_first", "ignore_nulls", "scalar_only", "only_json_types",
     "check_null", "typed", "null_if_pos_overflow", "date_part_boundary", "single_replace",
     "is_left"}
)  # fmt: skip
