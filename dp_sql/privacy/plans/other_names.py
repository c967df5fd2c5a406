"""Names in a source that are not its columns: aliases, answers, those of the query around it."""

import re
from collections.abc import Mapping
from itertools import pairwise

from sqlglot import exp

from dp_sql.errors import NotSupported
from dp_sql.privacy.refusals import Refused, Unbound
from dp_sql.privacy.relations.from_clause import From
from dp_sql.sql.clauses import Span
from dp_sql.sql.dp_select import DpSelect
from dp_sql.sql.functions import FUNCTIONS
from dp_sql.sql.restated import Restated
from dp_sql.sql.tokens import edited, folded, tokenize

_ALONE = re.compile(r"[\w.]+(?:\([^()]*\))?")  # binds as a name does
BEFORE_SOURCE, BEFORE_CONDITION = "SELECT 1 FROM ", "\nWHERE "  # where a source is compiled


def refuse_answers(select: DpSelect, bodies: Mapping[str, str]) -> None:
    """Refuse a source that reads a CTE with DP calls: an answer is no person's row."""
    for name, body in bodies.items():
        if any(one.upper() in FUNCTIONS for one in tokenize(body).called()):
            read = select.between((select.source[0], (select.condition or select.source)[1]))
            before = ""
            for token in read:
                in_source = token.start < select.source[1] or before in {"FROM", "JOIN"}
                before = token.upper
                if in_source and token.folded == name:
                    message = f"The source reads {token.text}, which holds an answer."
                    hint = "Ask for that answer first, and write its value into this statement."
                    raise token.error(NotSupported, message, hint)


def without_aliases(select: DpSelect, tree: exp.Select, rows: From) -> str:
    """The WHERE clause with an expression of the list for each alias that is no column; or "".

    So DuckDB reads it: a column of the source comes before an alias.
    """
    clause, aliases = tree.args.get("where"), select.aliases
    if clause is None or select.condition is None or not aliases:
        return ""
    places = [
        int(node.this.meta["start"]) - len(BEFORE_SOURCE) - len(BEFORE_CONDITION)
        for node in clause.find_all(exp.Column)
        if len(node.parts) == 1 and aliases.get(folded(node.name)) and not rows.has(node)
        and node.find_ancestor(exp.Query) is tree and "start" in node.this.meta
    ]  # fmt: skip
    starts = {place - len(select.source_text) + select.condition[0] for place in places}
    used = [token for token in select.between(select.condition) if token.start in starts]
    edits = [(token.start, token.end, f"({aliases[token.folded]})") for token in used]
    return edited(select.text, edits, *select.condition) if edits else ""


def not_a_column(
    refusal: Refused | Unbound, select: DpSelect, position: int
) -> tuple[str, str, list[str]] | None:
    """What to say and write of a name that is an answer's, an alias's, or the outer query's."""
    node = refusal.node
    if not isinstance(node, exp.Column) or not refusal.unknown:
        return None
    name, table = folded(node.name), folded(node.table)
    if not table and name in select.aliases:
        return _of_list(node.name, name, select, position)
    outside = select.outside_names
    own = select.between(select.source).folded
    if outside is None or (table and (table not in outside or table in own)):
        return None
    is_mistyped = any(not one.startswith("'") for one in getattr(refusal, "names", ()))
    if table or name in outside or not is_mistyped:  # perhaps a column of the query around it
        shown = f"{node.table}.{node.name}" if table else node.name
        hint = (
            "Ask for all groups at once, and join the answer: SELECT k, DP_COUNT(*, …) AS n FROM … "
            "GROUP BY k."
        )
        return f"A source cannot use {shown}: it cannot refer to the query around it.", hint, []
    return None


def _of_list(
    written: str, name: str, select: DpSelect, position: int
) -> tuple[str, str, list[str]]:
    """What to say and write of an alias of the list."""
    if (expression := select.aliases[name]) is not None:
        if not _ALONE.fullmatch(expression):
            expression = f"({expression})"
        before, behind = select.text[:position], select.text[position + len(written) :]
        instead: list[str] = [Restated(f"{before}{expression}{behind}")]
        return f"{written} is an alias of the list.", "Write its expression here.", instead
    first, last = select.condition or (0, 0)
    if any(a <= position < b for a, b in select.call_spans):
        return f"{written} is an answer, so no DP call can read it.", "", []
    if not first <= position < last:
        return f"{written} is an answer.", "Name the columns to group by.", _keys(select)
    hint = "Filter the answer in HAVING, or in an outer query: SELECT … FROM (SELECT …) WHERE …"
    message = f"{written} is an answer, so WHERE cannot use it."
    return message, hint, _filtered_later(select, (first, last))


def _filtered_later(select: DpSelect, where: Span) -> list[str]:
    """The statement with its conditions on answers moved to HAVING or an outer query."""
    tokens, text = select.between(where), select.text
    words = {token.upper for token in tokens}
    if {"OR", "BETWEEN", "CASE"} & words or "HAVING" in select.clauses:
        return []
    ands = [i for i in tokens.at_depth_zero(0, len(tokens)) if tokens[i].upper == "AND"]
    terms = [tokens[a + 1 : b] for a, b in pairwise([-1, *ands, len(tokens)])]
    answers = {name for name, expression in select.aliases.items() if expression is None}
    later = [one.text for one in terms if answers & one.folded]
    now = [one.text for one in terms if one.text not in later]
    start, stop = select.clauses["WHERE"]
    begin = text[:start].rstrip() + (f" WHERE {' AND '.join(now)}" if now else "")
    if "GROUP" in select.clauses:
        end = select.clauses["GROUP"][1]
        having = f"{text[stop:end]} HAVING {' AND '.join(later)}"
        return [Restated(f"{begin}{having}{text[end:]}")]
    is_inner = min(a for a, _ in select.clauses.values()) > select.tokens[0].start
    if is_inner or {"ORDER", "LIMIT"} & select.clauses.keys():
        return []
    inner = f"{begin}{text[stop:]}".strip().removesuffix(";").strip()
    return [Restated(f"SELECT * FROM ({inner}) WHERE {' AND '.join(later)}")]


def _keys(select: DpSelect) -> list[str]:
    """The statement with GROUP BY the keys that use no answer, where it has GROUP BY ALL."""
    answers = {name for name, expression in select.aliases.items() if expression is None}
    keys = [key.text for key in select.keys if not answers & tokenize(key.text).folded]
    start, stop = select.clauses["GROUP"]
    if not keys or [token.upper for token in select.between((start, stop))][2:] != ["ALL"]:
        return []
    return [f"{select.text[:start]}GROUP BY {', '.join(keys)}{select.text[stop:]}"]
