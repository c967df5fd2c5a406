"""Parts of one value: list[1], string[1:2], struct.field, struct['field'], and tests of lists."""

from collections.abc import Callable, Mapping

from sqlglot import exp

from dp_sql.errors import guessed
from dp_sql.privacy.expressions.calls import applied
from dp_sql.privacy.expressions.collations import BINARY
from dp_sql.privacy.expressions.lists_and_maps import bounded_list, bounded_map, key_type
from dp_sql.privacy.expressions.literals import is_literal, near_number
from dp_sql.privacy.expressions.scope import Scope
from dp_sql.privacy.expressions.value import Value, bounded
from dp_sql.privacy.refusals import Refused, refuse
from dp_sql.sql.formatting import literal, shown_name
from dp_sql.sql.sqlglot_tree import Node
from dp_sql.sql.tokens import folded, tokenize
from dp_sql.sql.types import same_bits

_OF_LITERALS = "list_has_any and list_has_all take a list and a list of literals here"


def bracket(node: Node, scope: Scope) -> Value:
    """value[place], value[from:to] or value['field'], with literals in the brackets."""
    value, inside = scope.argument(node.this), node.expressions
    if len(inside) != 1:
        hint = "For example: list[1], string[1:2] or struct['field']."
        raise refuse(node, "Brackets take one literal here", hint)
    (place,) = inside
    if key_type(value.type):
        return _of_map(node, value, place, scope)
    if isinstance(place, exp.Literal) and place.is_string:
        return field(node, value, place.this, scope)
    if isinstance(place, exp.Slice):
        if place.args.get("step") is not None:
            raise refuse(place, "A slice with a step is not supported here")
        return _slice(node, value, place.this, place.expression)
    return _element(node, value, _place(place, 0))


def _of_map(node: Node, value: Value, key: Node, scope: Scope) -> Value:
    """map['key'], of a map that is not too large."""
    written = key.this if isinstance(key, exp.Literal) and key.is_string else "\0"
    if "\0" in written or key_type(value.type) != "VARCHAR":
        raise refuse(node, "The key of a map is a string in quotes here")
    return _part_of_map("map_extract_value", node, value, scope, literal(written))


def _part_of_map(name: str, node: Node, value: Value, scope: Scope, *more: str) -> Value:
    """What a function makes of a map that is not too large."""
    read, rest = bounded_map(name, value, node), "".join(f", {one}" for one in more)
    kind = scope.schema.type_of(f"system.main.{name}({value.stand_in}{rest})")
    return _own(f"system.main.{name}({read.sql}{rest})", kind)


def keys_or_values(node: Node, scope: Scope) -> Value:
    """map_keys or map_values of a map."""
    name, given = "map_keys", [node.this]
    if isinstance(node, exp.Anonymous):
        name, given = node.name.lower(), node.expressions
    if len(given) != 1:
        raise refuse(node, f"{name} takes one map here")
    return _part_of_map(name, node, scope.argument(given[0]), scope)


def of_key(node: Node, scope: Scope) -> Value:
    """map_extract(map, 'key'), which makes a list, or map_extract_value."""
    if len(node.expressions) != 2:
        raise refuse(node, f"{node.name} takes a map and a key here")
    value, key = scope.argument(node.expressions[0]), node.expressions[1]
    found = _of_map(node, value, key, scope)
    if node.name.lower() == "map_extract_value":
        return found
    return _part_of_map("map_extract", node, value, scope, literal(key.this))


def extracted(node: Node, scope: Scope) -> Value:
    """list_extract(list, place), or struct_extract(struct, 'field')."""
    if isinstance(node, exp.StructExtract):
        value, places = node.this, [node.expression]
    else:
        value, *places = node.expressions or [node]
    if len(places) == 1 and places[0].is_string:
        return field(node, scope.argument(value), places[0].name, scope)
    if len(places) != 1:
        raise refuse(node, "This takes one position or field name here, written as a literal")
    return _element(node, scope.argument(value), _place(places[0], 0))


def end_of_list(node: Node, scope: Scope) -> Value:
    """list_first or list_last of a list."""
    if len(node.expressions) != 1:
        raise refuse(node, f"{node.name} takes one list here")
    place = 1 if node.name.lower() == "list_first" else -1
    return _element(node, scope.argument(node.expressions[0]), place)


def sliced(node: Node, scope: Scope) -> Value:
    """list_slice(list, from, to), with literals."""
    given = node.expressions or [node.this, node.args.get("start"), node.args.get("end")]
    if len(given) != 3 or node.args.get("step") is not None:
        raise refuse(node, "list_slice takes a list and two positions here")
    return _slice(node, scope.argument(given[0]), *given[1:])


def _slice(node: Node, value: Value, start: Node | None, end: Node | None) -> Value:
    low, high = _place(start, 1), _place(end, -1)
    value = bounded(value) if value.type == "VARCHAR" else bounded_list("A slice", value, node)
    return value.computed(f"system.main.array_slice({value.sql}, {low}, {high})")


def _place(node: Node | None, missing: int) -> int:
    if node is None:
        return missing
    number = near_number(node)
    if number is None:
        raise refuse(node, "A position is a literal whole number of up to a million here")
    return number


def _element(node: Node, value: Value, place: int) -> Value:
    word = "system.main.array_extract"
    if value.type == "VARCHAR":
        read = bounded(value)
        return read.computed(f"{word}({read.sql}, {place})")
    read = bounded_list("An element", value, node, "elements")
    return _own(f"{word}({read.sql}, {place})", read.type.removesuffix("[]"))


def field(node: Node, value: Value, name: str, scope: Scope) -> Value:
    """A field of a struct."""
    if value.type == "JSON":
        column = node.find(exp.Column)
        raise _of_json(node, 0 if column is None else len(column.parts))
    if not value.type.startswith("STRUCT(") or value.type.endswith("]") or "\0" in name:
        raise refuse(node, f"{value.type} has no field {name}")
    read = f"system.main.struct_extract({value.stand_in}, {literal(name)})"
    if not scope.schema.runs(read):
        fields = tokenize(value.type)
        names = [fields[a].name or "" for a, _ in fields.split(2, len(fields) - 1)]
        near = guessed(folded(name), [*map(folded, names)])
        at = next((one for one in node.find_all(exp.Identifier) if one.name == name), node)
        hint = f"Did you mean {near}?" if near else f"Its fields are {', '.join(names)}."
        refusal = refuse(at, f"{value.type} has no field {name}", hint)
        refusal.names = [shown_name(near)] if near else []
        raise refusal
    return _own(
        f"system.main.struct_extract({value.sql}, {literal(name)})", scope.schema.type_of(read)
    )


def _of_json(node: Node, n_parts: int) -> Refused:
    refusal = refuse(node, "A part of a JSON is read with ->> here", "Write json ->> 'key'.")
    refusal.n_parts = n_parts
    return refusal


def field_of(node: Node, scope: Scope, unknown: Refused) -> Value:
    """A field written as struct.field, which is parsed as a column; else raises `unknown`."""
    names = [part.name for part in node.parts]  # type: ignore[attr-defined]
    for n in range(len(names) - 1, 0, -1) if scope.as_written is None else ():
        try:
            value = scope.column(exp.column(*reversed(names[:n]), quoted=True))
        except Refused:
            continue
        if value.type == "JSON":
            raise _of_json(node, n)
        if not value.type.startswith(("STRUCT(", "MAP(VARCHAR, ")):
            break
        for name in names[n:]:
            if value.type.startswith("MAP("):
                value = _of_map(node, value, exp.Literal.string(name), scope)
            else:
                value = field(node, value, name, scope)
        return value
    raise unknown


def _own(sql: str, kind: str) -> Value:
    """Strings in lists and structs are compared byte by byte: a collation could be slow.

    DuckDB's storage may change the sign of 0.0 and NaN beside another's row.
    """
    is_text = kind == "VARCHAR"
    return Value(same_bits(sql, kind), kind, collation=BINARY if is_text else "")


def has_elements(node: Node, scope: Scope) -> Value:
    """list_has_any or list_has_all of a list and a list of literals."""
    given = node.expressions if isinstance(node, exp.Anonymous) else [node.this, node.expression]
    value, wanted = given if len(given) == 2 else (node, None)
    if not isinstance(wanted, exp.Array) or not wanted.expressions:
        raise refuse(node, _OF_LITERALS)
    if not all(is_literal(one) for one in wanted.expressions):
        raise refuse(wanted, _OF_LITERALS)
    terms = [applied("list_contains", [value, one], node, scope).sql for one in wanted.expressions]
    is_any = isinstance(node, exp.ArrayOverlaps) or node.name.lower() == "array_has_any"
    word = " OR " if is_any else " AND "
    return Value(f"({word.join(terms)})", "BOOLEAN")


MAP_KEYS = [exp.MapKeys] if hasattr(exp, "MapKeys") else []  # not in sqlglot 28
# Calls for which sqlglot has no node of their own.
ELEMENTS: Mapping[str, Callable[[Node, Scope], Value]] = {
    **dict.fromkeys(("list_extract", "array_extract", "list_element"), extracted),
    **dict.fromkeys(("list_has_all", "array_has_any"), has_elements),
    **dict.fromkeys(("list_first", "list_last"), end_of_list),
    **dict.fromkeys(("list_slice", "array_slice"), sliced),
    **dict.fromkeys(("map_keys", "map_values"), keys_or_values),
    **dict.fromkeys(("map_extract", "element_at", "map_extract_value"), of_key),
}
