"""Where in a statement is the part of a source that is refused, and what does the user read?"""

import re
from bisect import bisect_left

from sqlglot import exp

from dp_sql.errors import NotPrivate, ParseError, QueryError, SourceError
from dp_sql.privacy.plans.ctes import body_of_cte, spans_of_ctes
from dp_sql.privacy.plans.other_names import BEFORE_CONDITION, BEFORE_SOURCE, not_a_column
from dp_sql.privacy.refusals import Refused, Unbound
from dp_sql.sql.dp_select import DpSelect
from dp_sql.sql.restated import Restated
from dp_sql.sql.sqlglot_tree import called_as
from dp_sql.sql.tokens import folded

_CLAUSES = (exp.Join, exp.TableSample, exp.Limit, exp.Offset)
_WORDS = {
    "ASOF", "CROSS", "FULL", "INNER", "JOIN", "LEFT", "LIMIT", "NATURAL", "OFFSET", "OUTER",
    "POSITIONAL", "RESERVOIR", "RIGHT", "SAMPLE", "TABLESAMPLE", "USING",
}  # fmt: skip


def unreadable(select: DpSelect, position: int | None = None) -> QueryError:
    """The refusal of a source, or of an expression at a place, that sqlglot cannot read."""
    message = "dp_sql cannot read this part, so it cannot prove that it is private."
    hint = "Put it into a column of a table, and select from that table."
    text = re.sub(r"\bEXISTS\s*\(\s*FROM\b", "EXISTS (SELECT 1 FROM", select.text, flags=re.I)
    instead = [Restated(text)] if text != select.text else []  # which sqlglot 28 cannot read
    place = select.source[0] if position is None else position
    return select.refused(message, place, hint, ParseError, instead)


def place_of(select: DpSelect, refusal: Refused | Unbound, condition: str | None) -> int:
    """Where the refused node is; the beginning of the source where that is not known."""
    begin, end = select.source
    starts = [node.meta["start"] for node in refusal.node.walk() if "start" in node.meta]
    if isinstance(refusal, Refused) and refusal.offset is not None:
        starts = [refusal.offset]
    if starts and (cte := _cte_of(select, refusal)) is not None:
        return cte + int(min(starts))
    if not starts:  # a column in USING has no place, and neither has current_user
        is_column = isinstance(refusal.node, exp.Column)
        name = folded(refusal.node.name if is_column else called_as(refusal.node)) or None
        same = (t.start for t in select.tokens if t.folded == name)
        return next((start for start in same if start > begin), begin)
    place = begin + int(min(starts)) - len(BEFORE_SOURCE)
    if place > end and select.condition is not None:
        if condition is not None:  # other places than in the text
            return select.condition[0]
        place += select.condition[0] - end - len(BEFORE_CONDITION)
    if not begin <= place <= len(select.text):
        return begin
    if isinstance(refusal.node, _CLAUSES):  # its words have no place
        at = bisect_left(select.tokens, place, key=lambda token: token.start)
        while at and select.tokens[at - 1].upper in _WORDS:
            at -= 1
        place = select.tokens[at].start
    return place


def _cte_of(select: DpSelect, refusal: Refused | Unbound) -> int | None:
    """If the refused node is in a CTE of the statement: where what was parsed would begin."""
    parsed = refusal.node.root().meta.get("sql", "")
    for (a, b), _ in spans_of_ctes(select):
        if (text := select.text[a:b]) == parsed or body_of_cte(text) == parsed:
            inner = parsed.rpartition("\n) AS cte")[0].removeprefix("SELECT * FROM (")
            return a + (0 if text == parsed else text.index(inner) - len("SELECT * FROM ("))
    return None


def placed(refusal: Refused | Unbound, select: DpSelect, position: int) -> QueryError:
    """A refusal in the class that users see, with its place."""
    from dp_sql.sql import other_forms, spellings

    kind = SourceError if isinstance(refusal, Unbound) else NotPrivate
    message, hint, text = refusal.message, refusal.hint or "", select.text
    is_here = _cte_of(select, refusal) is None
    if is_here and (beside := not_a_column(refusal, select, position)) is not None:
        message, hint, instead = beside
    elif isinstance(refusal, Refused) and refusal.n_parts:
        instead = [*filter(None, [other_forms.field_of_json(text, position, refusal.n_parts)])]
    elif isinstance(refusal, Refused) and refusal.join:
        end = select.source[1]
        instead = [f"{text[:end]} {refusal.join}{text[end:]}"]
    else:
        instead = select.renamed(refusal.node.name, position, refusal.names)
        shared = refusal.names if isinstance(refusal.node, exp.Join) else ()
        forms = [*other_forms.other_forms(text, position, shared)]
        if isinstance(refusal, Refused) and refusal.equal:
            instead += [*forms, *spellings.joined_on(select.tokens, position, refusal.equal)]
        instead += spellings.respelled(refusal.node, select.tokens, position)
        instead += forms
    error = select.refused(message, position, hint, kind, instead)
    error.unknown = refusal.unknown if not is_here or beside is None else ""
    return error
