"""How is a call of a function in scalar_functions.py written? Its arguments are checked here.

Values are bounded before they are read: a longer string, invalid JSON and a date beyond NEAR are
NULL. So the function itself never fails, wherever DuckDB's optimizer moves it: before 2.0.1, it
moves what two TRY(…) have in common out of both.
"""

from collections.abc import Sequence

from sqlglot import exp

from dp_sql.privacy.expressions.collations import BINARY, agree
from dp_sql.privacy.expressions.lists_and_maps import bounded_list, bounded_map, key_type
from dp_sql.privacy.expressions.literal_arguments import (
    check_replaced_pattern,
    element,
    json_path,
    quoted,
)
from dp_sql.privacy.expressions.literals import (
    FARTHEST,
    UNITS,
    is_literal,
    near_number,
    whole_number,
)
from dp_sql.privacy.expressions.scalar_functions import (
    FLAGS,
    FUNCTION_ALIASES,
    FUNCTIONS,
    NODES,
    Scalar,
)
from dp_sql.privacy.expressions.scope import Scope
from dp_sql.privacy.expressions.strings_and_dates import LONG_TEXT, as_string, text
from dp_sql.privacy.expressions.unsupported import no_part, not_so
from dp_sql.privacy.expressions.value import MAX_STRING, MAX_TEXT_BYTES, Value, bounded
from dp_sql.privacy.refusals import refuse
from dp_sql.sql.formatting import literal
from dp_sql.sql.sqlglot_tree import Node, parsed_text, parts_of
from dp_sql.sql.tokens import tokenize
from dp_sql.sql.types import (
    DATED,
    EXACT_TYPES,
    FIT_BIGINT,
    NUMBERS,
    UNSHOWN,
    UP_TO_64_BITS,
    ZONED,
    family,
    same_bits,
)

_LENGTHS, _LENGTH_ENDS = {"length", "strlen", "strpos"}, (0, MAX_STRING)
_ARROWS = (exp.JSONExtract, exp.JSONExtractScalar)
# DuckDB 1 reads ('1' = json) ->> 'a', and sqlglot '1' = (json ->> 'a').
_ARROW_FIRST = (
    """CASE WHEN '1' = '{"a": "1"}'::JSON ->> 'a' THEN 1 ELSE system.main.error('') END"""
)
_OF_UNIX = {None: "to_timestamp", 3: "epoch_ms", 6: "make_timestamp"}  # the name by the scale
_PER_SECOND = {"seconds": 1, "milliseconds": 1000, "microseconds": 1_000_000}
_OPTIONS: dict[type, str] = {
    exp.RegexpLike: "flag", exp.RegexpFullMatch: "options", exp.RegexpExtract: "parameters",
    exp.RegexpReplace: "modifiers",
}  # fmt: skip
_LISTS = {"list", "values", "numbers"}
_COMPUTED = {*_LISTS, "string", "text", "json", "map", "date", "same", "span", "double", "any",
             "integer"}  # fmt: skip
_REPEATED = {"regexp_extract_all", "string_split_regex"}  # a pattern that is sought everywhere
_NEAR_SECONDS = 3 * 10**12  # from 1970, 95,000 years


def is_call(node: Node) -> bool:
    """Whether a node is a call of a function of the table."""
    name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
    return type(node) in NODES or FUNCTION_ALIASES.get(name, name) in FUNCTIONS


def call(node: Node, scope: Scope) -> Value:
    """A call of a function of the table; Refused where an argument is not what it takes."""
    is_right = isinstance(node.parent, exp.Binary) and node.arg_key == "expression"
    if is_right and isinstance(node, _ARROWS) and not scope.schema.runs(_ARROW_FIRST):
        raise refuse(node, "Put brackets around this: DuckDB 1 reads the sign before it first")
    return applied(*_read(node), node, scope)


def applied(name: str, given: Sequence[Node], node: Node, scope: Scope) -> Value:
    """A function of the table, applied to arguments; `node` is refused."""
    if name == "epoch_ms" and len(given) == 1 and scope.argument(given[0]).type in UP_TO_64_BITS:
        name = "make_timestamp_ms"
    if name == "contains" and len(given) == 2 and scope.argument(given[0]).type.endswith("]"):
        name = "list_contains"
    function = FUNCTIONS[name]
    if all(map(is_literal, given)):  # sqlglot 28 reads 'a' 'b' as concat('a', 'b')
        raise refuse(node, "A constant without a column is not supported here")
    takes = function.takes
    if function.many:
        takes = takes[:-1] + takes[-1:] * (len(given) - len(takes) + 1)
    if len(given) != len(takes):
        raise not_so(name, node)
    values: list[Value] = []
    for kind, one in zip(takes, given, strict=True):
        values.append(_argument(name.removesuffix(" all"), kind, one, values, scope))
    if "pattern" in takes or name == "string_split":
        values[0] = bounded(values[0], MAX_TEXT_BYTES)  # RE2's time grows with both lengths
    if "same" in takes:
        values[-2:] = in_one_type(values[-2:])
    of_nothing = [Value("''", "VARCHAR"), *values[1:]]
    if "pattern" in takes and not scope.schema.runs(_written(name, function, of_nothing)):
        raise refuse(given[1], "DuckDB cannot read this regular expression")
    strings = [value for value in values if value.type in {"VARCHAR", "JSON"}]
    collation = agree(node, *strings) if strings else ""
    bound = _bound(name, function, values)
    if bound is not None and bound > MAX_STRING:
        why = f"The result could have over {MAX_STRING} bytes"
        raise refuse(node, why, "Shorten its parts first, with left(…, 100) for example.")
    if name == "array_to_string" and (values[1].bound or 0) * MAX_TEXT_BYTES > MAX_STRING:
        raise refuse(node, "Such a long separator is not supported here", "Write 20 bytes or less.")
    sql, ends = _written(name, function, values), _LENGTH_ENDS if name in _LENGTHS else None
    if function.gives.islower():
        return _of_list(sql, scope.schema.type_of(f"system.main.{name}({values[0].stand_in})"))
    made = Value(sql, function.gives, bound=bound, ends=ends, facts_of=sql if ends else "")
    return made._replace(collation=collation) if function.gives == "VARCHAR" else made


def _of_list(sql: str, kind: str) -> Value:
    """What a function makes of a list; strings in lists are compared byte by byte."""
    return Value(same_bits(sql, kind), kind, collation=BINARY if kind == "VARCHAR" else "")


def _written(name: str, function: Scalar, values: Sequence[Value]) -> str:
    listed = [value.sql for value in values]
    # DuckDB gives NULL || x no type, and 1.5 also CAST(NULL AS VARCHAR) || x; one cast too many is
    # harmless.
    if name == "||" and any("NULL" in one for one in listed):
        return f"CAST({function.sql.format(*listed)} AS VARCHAR)"
    if function.sql:
        return function.sql.format(*listed)
    return f"system.main.{name}({', '.join(listed)})"


def _read(node: Node) -> tuple[str, list[Node]]:
    """The function's name in the table, and its arguments; Refused with any other part."""
    if isinstance(node, exp.Anonymous):
        name, keys = node.name.lower(), "this expressions"
        name, given = FUNCTION_ALIASES.get(name, name), list(node.expressions)
    else:
        name, keys = NODES[type(node)]
        parts = [node.args.get(key) for key in keys.split()]
        given = [one for part in parts for one in (part if isinstance(part, list) else [part])]
    option = node.args.get(_OPTIONS.get(type(node), ""))
    options = {*option.name} if option is not None and given[1].is_string else set()
    if options and options <= ({"i", "g"} if name == "regexp_replace" else {"i"}):
        keys += f" {_OPTIONS[type(node)]}"
        if "g" in options:
            check_replaced_pattern(given[1], given[1].this)
            name = "regexp_replace all"
        if "i" in options:
            given[1] = given[1].copy()  # RE2 reads (?i) as the option
            given[1].set("this", f"(?i){given[1].this}")
    if parts_of(node) - {*keys.split(), *FLAGS}:
        raise not_so(name, node)
    name, given = _as_in_table(name, given, node)
    if name.startswith("regexp_") and any(
        t.is_symbol("~", "!~") for t in tokenize(parsed_text(node))
    ):
        hint = "DuckDB 2.0 reads it as regexp_matches, DuckDB 1.5 as regexp_full_match."
        raise refuse(node, "The operator ~ is not supported here", hint)
    if any(one is None for one in given):
        raise not_so(name, node)
    return name, given


def _as_in_table(name: str, given: list[Node], node: Node) -> tuple[str, list[Node]]:
    """The name that the table has for these arguments; and all of them, in its order."""
    match node:
        case exp.Pad() if node.args.get("is_left"):
            return "lpad", given
        case exp.Log():
            return _by_number(node, given)
        case exp.UnixToTime():
            scale = None if given[1] is None else whole_number(given[1])
            return _OF_UNIX.get(scale, name), given[:1]
    if name == "list_sort":
        return _order(node), given
    if name in _REPEATED and len(given) > 1 and given[1].is_string:
        check_replaced_pattern(given[1], given[1].this)
    match name, given:
        case "regexp_extract_all", [_, _, group] if whole_number(group) == 0:
            given = given[:2]
        case "sha256", [_, length] if whole_number(length) == 256:
            given = given[:1]
        case "age", [_]:
            given = [exp.CurrentDate(), *given]
        case "regexp_extract", [_, _]:
            given = [*given, exp.Literal.number(0)]
        case "strftime", [exp.Literal(is_string=True), _]:
            given = given[::-1]
        case "json_type", [json, None]:
            given = [json]
        case "json_type" | "json_array_length", [json, path]:
            given = [exp.JSONExtract(this=json, expression=path)]
            given[0].parent = node  # whose statement a refusal shows
    return name, given


def _order(node: Node) -> str:
    """list_sort or list_reverse_sort, which sqlglot reads as one; with NULLs last only."""
    descending, nulls_first = node.args.get("asc"), node.args.get("nulls_first")
    is_plain = all(one in {None, exp.false()} for one in (descending, nulls_first))
    if not is_plain or "'NULLS" in parsed_text(node).upper():  # sqlglot 28 drops 'NULLS FIRST'
        raise not_so("list_sort", node)
    return "list_sort" if descending is None else "list_reverse_sort"


def _by_number(node: Node, given: Sequence[Node]) -> tuple[str, list[Node]]:
    """log10(x) or log2(x), which sqlglot reads as log(10, x) and log(2, x); and log(x)."""
    value, number = given
    value, number = (value, exp.Literal.number(10)) if number is None else (number, value)
    name = {2: "log2", 10: "log10"}.get(whole_number(number) or 0)
    words = tokenize(parsed_text(node))
    is_quotient = name == "log2" and any(
        token.folded == "log" and words.at(i + 2).text == "2" for i, token in enumerate(words)
    )  # log(2, x) is ln(x) / ln(2), which differs in the last digit
    if name is None or is_quotient:
        raise refuse(node, "This function is supported here only in its basic form")
    return name, [value]


def _argument(name: str, kind: str, node: Node, before: Sequence[Value], scope: Scope) -> Value:
    match kind:
        case _ if kind in _COMPUTED or kind in _PER_SECOND:
            return _column(name, kind, node, scope.argument(node))
        case "element":
            return _one_of(name, before[-1].type, node, scope)
        case "count" | "group" | "size":
            number = near_number(node)
            low, high = (0, 9) if kind == "group" else (-FARTHEST, FARTHEST)
            if number is None or not low <= number <= high:
                raise refuse(node, f"{name} takes a whole number from {low} to {high} here")
            return Value(str(number), "INTEGER")
        case "path":
            return Value(literal(json_path(node)), "path")
        case "part":
            if node.name.lower() not in UNITS:
                raise no_part(node, name, UNITS)
            return Value(literal(node.name.lower()), "part")
    return quoted(name, kind, node)


def _one_of(name: str, of: str, node: Node, scope: Scope) -> Value:
    """What an element of a list or a key of a map may equal: a literal, or a value of its type."""
    kind = key_type(of) or of.removesuffix("[]")
    if name in {"list_contains", "list_position", "= ANY"} and not is_literal(node):
        own = as_string(node, scope.compiled(node))
        if own.type == kind and own.collation in {"", BINARY}:
            return bounded(own)
    return element(name, kind, node)


def _column(name: str, kind: str, node: Node, value: Value) -> Value:
    """A value that a function reads, without what is too long or too far away."""
    if kind in _PER_SECOND:
        return _since_1970(name, kind, node, value)
    if kind == "map":
        return bounded_map(name, value, node)
    if kind in _LISTS or (name == "length" and value.type.endswith("]")):
        return bounded_list(name, value, node, "elements" if name == "length" else kind)
    if kind in {"double", "any", "integer"}:
        return _number(name, kind, node, value)
    if kind in {"date", "same", "span"}:
        return _date(name, kind, node, value)
    return _string(name, kind, value, node)


def _number(name: str, kind: str, node: Node, value: Value) -> Value:
    """A number as a DOUBLE, or an integer or any value as it is."""
    if kind == "integer" and value.type not in UP_TO_64_BITS:
        raise refuse(node, f"{name} takes an integer of up to 64 bits here, not {value.type}")
    if kind == "any" and family(value.type) not in EXACT_TYPES - UNSHOWN:
        raise refuse(node, f"{name} takes no {value.type} here")
    if kind in {"any", "integer"} or (name in {"isfinite", "isinf"} and value.type in DATED):
        return value
    if family(value.type) not in NUMBERS:
        raise refuse(node, f"{name} takes a number, not {value.type}")
    return value._replace(sql=f"CAST({value.sql} AS DOUBLE)", type="DOUBLE")


def _date(name: str, kind: str, node: Node, value: Value) -> Value:
    """A date that is not too far away, or an interval."""
    fits = name != "epoch_us" or value.bound is not None  # an interval's microseconds may not
    if kind == "span" and value.type == "INTERVAL" and fits:
        return value
    if value.type not in DATED:
        raise refuse(node, f"{name} takes a date here, not {value.type}")
    return bounded(value)


def in_one_type(dates: Sequence[Value]) -> list[Value]:
    """Dates that are bounded, in the type in which DuckDB subtracts them."""
    kinds = {date.type for date in dates}
    kind = ZONED if ZONED in kinds else "TIMESTAMP"
    return [
        one if {one.type} == kinds else Value(f"CAST({one.sql} AS {kind})", kind, bound=one.bound)
        for one in dates
    ]


def _since_1970(name: str, unit: str, node: Node, value: Value) -> Value:
    """A number of seconds and the like; NULL where they lead to a date beyond NEAR."""
    kinds, kind = (NUMBERS, "DOUBLE") if unit == "seconds" else (FIT_BIGINT, "BIGINT")
    if family(value.type) not in kinds:
        wanted = "a number" if unit == "seconds" else "an integer"
        raise refuse(node, f"{name} takes {wanted} here, not {value.type}")
    number, most = f"TRY_CAST({value.sql} AS {kind})", _NEAR_SECONDS * _PER_SECOND[unit]
    return Value(f"(CASE WHEN {number} BETWEEN -{most} AND {most} THEN {number} END)", kind)


def _string(name: str, kind: str, value: Value, node: Node) -> Value:
    if kind == "json" and value.type in {"VARCHAR", "JSON"}:
        value = bounded(value._replace(type="VARCHAR"))
        valid = f"system.main.json_valid({value.sql})"
        return value._replace(sql=f"(CASE WHEN {valid} THEN {value.sql} END)", type="JSON")
    if kind == "text":
        value = text(node, value)
    value = as_string(node, value)
    if value.type == "NULL":
        return value
    if value.type != "VARCHAR":
        raise refuse(node, f"{name} takes a string, not {value.type}")
    return bounded(value)


def _bound(name: str, function: Scalar, values: Sequence[Value]) -> int | None:
    """The most bytes of a string, or the years from 0 to the farthest date, that it returns."""
    bounds = [value.bound or 0 for value in values]
    of_list = function.takes[0] in _LISTS
    if function.gives not in {"VARCHAR", "JSON", "DATE", "INTERVAL"} or of_list:
        return None
    count = int(values[1].sql) if name in {"left", "right", "lpad", "rpad", "repeat"} else 0
    most = bounds[0]
    match name:
        case "strftime" | "dayname" | "monthname":
            most = 20 * sum(bounds[1:]) + LONG_TEXT
        case "md5" | "sha1" | "sha256":
            most = LONG_TEXT
        case "left" | "right" if count >= 0:
            most = min(most, 4 * count)
        case "lpad" | "rpad":
            most = 4 * max(0, count)
        case "repeat":
            most *= max(0, count)
        case "replace":  # each old character may become all new ones
            most *= max(1, bounds[2])
        case "translate" | "strip_accents":  # each character may become a longer one
            most *= 4
        case "regexp_replace":  # each \1 may be the whole match
            most = most * (1 + values[2].sql.count("\\")) + bounds[2]
        case "regexp_replace all":  # and there may be a match for each byte
            most *= 1 + values[2].sql.count("\\") + bounds[2]
        case "concat" | "||" | "concat_ws":
            most = sum(bounds) + (bounds[0] * len(values) if name == "concat_ws" else 0)
    return most
