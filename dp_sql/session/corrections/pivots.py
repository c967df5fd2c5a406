"""PIVOT … ON and UNPIVOT … ON rewritten as a part of FROM, which analysts may use. Pure.

DuckDB splits the statement forms into several statements, each of which reads the source.
"""

from __future__ import annotations

from fractions import Fraction

from dp_sql.policy.model import Policy
from dp_sql.sql.formatting import literal
from dp_sql.sql.restated import OtherQuestion, Restated
from dp_sql.sql.tokens import Tokens, folded

_BEHIND = ("USING", "GROUP", "ORDER", "LIMIT", "OFFSET", "INTO")
_EXAMPLES = "'value 1', 'value 2'"


def in_from(tokens: Tokens, policy: Policy) -> tuple[str, list[str]]:
    """A hint for PIVOT … ON, and statements to write instead; none if it has several columns."""
    places = {tokens[i].upper: i for i in tokens.at_depth_zero(0, len(tokens))}
    starts = sorted(places[word] for word in ("ON", *_BEHIND) if word in places)
    if "ON" not in places or starts[0] != places["ON"]:
        return "", []
    parts = {
        tokens[a].upper: tokens[a + 1 : b]
        for a, b in zip(starts, [*starts[1:], len(tokens)], strict=True)
    }
    behind = " ".join(
        f"{word} {parts[word].text}" for word in ("ORDER", "LIMIT", "OFFSET") if word in parts
    )
    source, on = tokens[1 : starts[0]].text, parts["ON"]
    if tokens[0].upper == "UNPIVOT":
        names, given = _unpivoted(parts.get("INTO", Tokens([])))
        text = f"FROM {source} UNPIVOT ({given} FOR {names} IN ({on.text})) {behind}"
        return "", [Restated(text.strip())]
    values = on[3:-1].text if on.at(1).upper == "IN" else ""
    if not values and len(on) != 1:
        return "", []
    column, said = on[0], ""
    if not values:
        values = _declared(column.folded, policy)
    if not values:
        values, said = _EXAMPLES, f"Replace {_EXAMPLES} by the values of {column.text}."
    computed = parts["USING"].text if "USING" in parts else "count(*)"
    grouped = f" GROUP {parts['GROUP'].text}" if "GROUP" in parts else ""
    text = f"FROM {{}} PIVOT ({{}} FOR {column.text} IN ({values}){grouped}) {behind}".strip()
    instead: list[str] = [Restated(text.format(source, computed))]
    keys = [*([parts["GROUP"][1:].text] if grouped else []), column.text]
    listed = f"{', '.join(keys)}, {computed} AS answer"
    using = parts.get("USING", Tokens([]))
    is_one = using.at(1).is_symbol("(") and using.matching(1) == len(using) - 1
    if tokens[1 : starts[0]].names and is_one:  # of a table, which may be private
        counted = text.format(f"(SELECT {listed} FROM {source} GROUP BY ALL)", "first(answer)")
        instead.append(Restated(counted) if grouped else OtherQuestion(counted))
    return said, instead


def _declared(column: str, policy: Policy) -> str:
    """The values that a policy lists for a column of this name, as SQL; "" where it lists none."""
    for (_, name), values in policy.domains.items():
        if folded(name) == column and not isinstance(values, str):
            listed = [literal(one) for one in values if isinstance(one, str | int | Fraction)]
            if len(listed) == len(values):  # else they are a table's column
                return ", ".join(listed)
    return ""


def _unpivoted(into: Tokens) -> tuple[str, str]:
    """The names of the columns in INTO NAME a VALUE b, or DuckDB's own."""
    words = [token.upper for token in into]
    if words[::2] == ["NAME", "VALUE"] and len(into) == 4:
        return into[1].text, into[3].text
    return "name", "value"
