"""Where may a DP call be? In the list of a SELECT that reads a table, and behind its GROUP BY."""

from itertools import pairwise

from dp_sql.errors import NotSupported, ParseError, QueryError, guessed
from dp_sql.sql.clauses import OF_ANSWERS, Clause, SelectText
from dp_sql.sql.filters import end_of_call, kept_by_filter
from dp_sql.sql.formatting import shown_name
from dp_sql.sql.functions import function_of, names_function
from dp_sql.sql.list_items import without_alias
from dp_sql.sql.restated import Restated
from dp_sql.sql.shape import Function
from dp_sql.sql.tokens import Edit, Tokens, edited

_AFTER_CALL = {
    "OVER": "OVER: a DP call is an aggregate of the whole source, not a window function",
    "FILTER": "FILTER; write the condition in the WHERE clause of the same SELECT",
    "WITHIN": "WITHIN GROUP; the order of the answer is its rank",
}
_PLACES = {"GROUP": "GROUP BY", "ORDER": "ORDER BY", "USING": "USING SAMPLE"}
# What comes before what; SELECT and FROM in either order.
_ORDER = {"SELECT": 0, "FROM": 0, "WHERE": 1, "GROUP": 2, "HAVING": 3,
          "WINDOW": 4, "QUALIFY": 5, "ORDER": 6, "LIMIT": 7}  # fmt: skip
_ONCE = {1, 2, 3}  # DuckDB sees the others; as it shows a relation, there may be a second LIMIT
_NOT_BESIDE = {
    "HAVING": "Filter the answer in an outer query.",
    "QUALIFY": "Filter the answer in an outer query, or rows in FROM (FROM … QUALIFY …).",
    "WINDOW": "Compute over the answer in an outer query.",
    "USING": "A sample of rows is not a function of each person's own rows.",
}


def check_place(tokens: Tokens, index: int, select: SelectText) -> None:
    """Refuse the call whose name is at `index` where its SELECT cannot have it.

    Raises NotSupported, or ParseError without a FROM clause, with statements that work if any do.
    """
    function = function_of(tokens[index])
    clause = select.clause_of(index)
    if clause is None or clause.keyword != "SELECT":
        of_groups = clause in select.clauses and select.clause("GROUP") is not None
        of_groups &= select.clause("SELECT") is not None  # FROM … GROUP BY alone has all columns
        if clause is None or not (clause.keyword in OF_ANSWERS and of_groups):
            raise _outside_list(tokens, index, select, function.name)
    check_beside(tokens, index, select)
    _check_clauses(tokens, select, function.name)
    if select.clause("FROM") is None:
        raise _without_from(tokens, index, function)
    _check_order(tokens, select)
    _check_qualify(tokens, select)


def _check_clauses(tokens: Tokens, select: SelectText, name: str) -> None:
    """Refuse a sample, and a clause over answers without GROUP BY."""
    for keyword, advice in _NOT_BESIDE.items():
        found = select.clause(keyword)
        needs_groups = keyword in OF_ANSWERS
        if found is not None and not (needs_groups and select.clause("GROUP")):
            shown = _PLACES.get(keyword, keyword) + " without GROUP BY" * needs_groups
            message = f"A SELECT with {name} cannot have {shown}."
            instead = _without(tokens, found, select)
            raise tokens[found.start].error(NotSupported, message, advice, instead)


def _without_from(tokens: Tokens, index: int, function: Function) -> QueryError:
    """The refusal of a call without FROM, which may be left out, or mistyped."""
    hint = f"For example: SELECT {function.example} FROM {function.table}"
    last, before = tokens[-1], tokens.at(len(tokens) - 2)
    is_typo = bool(guessed(before.upper, ["FROM"]))
    instead = [Restated(before.put("FROM") if is_typo else last.put(f"FROM {last.text}"))]
    message = f"{function.name} needs a table to read."
    return tokens[index].error(ParseError, message, hint, instead)


def check_beside(tokens: Tokens, index: int, select: SelectText) -> None:
    """Refuse (NotSupported) a schema before a call, and OVER or WITHIN GROUP behind it."""
    function = function_of(tokens[index])
    if tokens.at(index - 1).is_symbol("."):
        message = f"{function.name} belongs to no schema; write it without one."
        raise tokens[index].error(
            NotSupported, message, instead=[tokens[max(0, index - 2) : index].put("")]
        )
    takes_filter = function.shape.reads_people
    after = (end_of_call(tokens, index) if takes_filter else tokens.matching(index + 1)) + 1
    if tokens.at(after).upper == "FILTER" and takes_filter:
        raise _other_filter(tokens, index, after, function.name)
    if tokens.at(after).upper in _AFTER_CALL:
        raise _behind_call(tokens, after, select, function.name)


def _outside_list(tokens: Tokens, index: int, select: SelectText, name: str) -> QueryError:
    """The refusal of a call in another clause than the list, or in none."""
    clause, example = select.clause_of(index), f"{name}(…)"  # its arguments depend on the policy
    place = clause.keyword if clause else None
    where = f"in {_PLACES.get(place, place)}" if place else "outside a SELECT"
    hint = f"Write it in the list of a SELECT of its own: SELECT {example} FROM …"
    if place in {"WHERE", *OF_ANSWERS}:
        hint = (
            "Give it a name in a subquery and use the name outside: "
            f"SELECT … FROM (SELECT {example} AS answer FROM …) WHERE …"
        )
    message = f"{name} is not allowed {where}; it is an answer, not a condition."
    instead = _listed(tokens, index, select) if place in OF_ANSWERS else []
    return tokens[index].error(NotSupported, message, hint, instead)


def _other_filter(tokens: Tokens, index: int, at: int, name: str) -> QueryError:
    """The refusal of a second FILTER behind the call at `index`, or of one without brackets."""
    if tokens.at(at + 1).is_symbol("("):
        message = f"{name} takes one FILTER; write AND between the conditions."
        first = tokens.matching(index + 1)
        one, other = (kept_by_filter(tokens, close).text for close in (first, at - 1))
        both = tokens[first + 1 : tokens.matching(at + 1) + 1]
        instead = [Restated(both.put(f"FILTER (WHERE ({one}) AND ({other}))"))]
        return tokens[at].error(NotSupported, message, None, instead)
    begin = at + 1 + (tokens.at(at + 1).upper == "WHERE")
    here = tokens.at_depth_zero(begin, len(tokens))
    ends = (i for i in here if tokens[i].upper in {"AS", "FROM"} or tokens[i].is_symbol(","))
    written = tokens[at : next(ends, len(tokens))]
    kept = f"FILTER (WHERE {written[begin - at :].text})"
    message = "The condition of FILTER must be in brackets."
    return tokens[at].error(ParseError, message, None, [Restated(written.put(kept))])


def _behind_call(tokens: Tokens, after: int, select: SelectText, name: str) -> QueryError:
    """The refusal of OVER, FILTER or WITHIN GROUP at `after`, behind a call."""
    word, instead = tokens.at(after).upper, list[str]()
    if word == "OVER" and tokens.at(after + 1).is_symbol("("):
        instead = [tokens[after : tokens.matching(after + 1) + 1].put("")]
    elif word == "FILTER" and sum(map(names_function, tokens)) == 1:
        instead = _with_where(tokens, after, select)
    message = f"{name} does not take {_AFTER_CALL[word]}."
    return tokens[after].error(NotSupported, message, None, instead)


def _check_order(tokens: Tokens, select: SelectText) -> None:
    """Refuse clauses in an order that DuckDB refuses; it does not get to see all of them."""
    found = [clause for clause in select.clauses if clause.keyword in _ORDER]
    for first, second in pairwise(found):
        a, b = _ORDER[first.keyword], _ORDER[second.keyword]
        if a > b or a == b in _ONCE:
            before, behind = (_PLACES.get(one.keyword, one.keyword) for one in (second, first))
            message = f"{before} comes before {behind}."
            if before == behind:
                message = f"A SELECT has one {before}."
            right = sorted(found, key=lambda one: _ORDER[one.keyword])
            edits = [
                (*tokens[one.start : one.stop].span, tokens[other.start : other.stop].text)
                for one, other in zip(found, right, strict=True)
            ]
            moved = Restated(edited(tokens[0].source, edits))
            instead = [moved] if before != behind else []
            raise tokens[second.start].error(ParseError, message, None, instead)


def _check_qualify(tokens: Tokens, select: SelectText) -> None:
    """Refuse QUALIFY where DuckDB does: neither it nor the list has a window function."""
    found = select.clause("QUALIFY")
    read = [clause for clause in (found, select.clause("SELECT")) if clause is not None]
    words = (token.upper for clause in read for token in tokens[clause.start : clause.stop])
    if found is not None and "OVER" not in words:
        word = tokens[found.start]
        message = "QUALIFY filters by window functions; HAVING filters by answers."
        raise word.error(NotSupported, message, None, [Restated(word.put("HAVING"))])


def _with_where(tokens: Tokens, at: int, select: SelectText) -> list[str]:
    """The statement whose FILTER (WHERE …) at a place is in its WHERE clause instead."""
    condition, close = kept_by_filter(tokens, at - 1).text, tokens.matching(at + 1)
    where = select.clause("WHERE")
    last = where or select.clause("FROM")
    if last is None or not condition or last.start < at:
        return []
    text, end = tokens[0].source, tokens[last.stop - 1].end
    begin, moved = end, f" WHERE ({condition})"
    if where is not None:
        begin = tokens[where.start + 1].start
        moved = f"({text[begin:end]}) AND ({condition})"
    return [edited(text, [(tokens[at - 1].end, tokens[close].end, ""), (begin, end, moved)])]


def _listed(tokens: Tokens, index: int, select: SelectText) -> list[str]:
    """The statement whose list has the call of HAVING, QUALIFY or ORDER BY, which names it."""
    call, listed = tokens[index : end_of_call(tokens, index) + 1], select.clause("SELECT")
    if listed is None or listed.start > index:
        return []
    names, used = ("answer", "answer_1", "answer_2"), tokens.folded
    if (name := next((one for one in names if one not in used), None)) is None:
        return []
    text, end = call.put(name), tokens[listed.stop - 1].end
    return [Restated(f"{text[:end]}, {call.text} AS {name}{text[end:]}")]


def _without(tokens: Tokens, clause: Clause, select: SelectText) -> list[str]:
    """The statement without a sample, or with HAVING in an outer query or QUALIFY in the source."""
    if clause.keyword == "USING":
        return [tokens[clause.start : clause.stop].put("")]
    if tokens[0].upper in {"SELECT", "FROM"} and clause.keyword == "HAVING":
        return _outside(tokens, clause, select)
    source = select.clause("FROM")
    if clause.keyword == "QUALIFY" and source is not None and source.start < clause.start:
        read = tokens[source.start : clause.stop]
        return [read.put(f"FROM ({read.text})")]
    return []


def _outside(tokens: Tokens, clause: Clause, select: SelectText) -> list[str]:
    """The statement with a condition on its answers behind an outer query, by their names."""
    listed, text = select.clause("SELECT"), tokens[0].source
    if listed is None or listed.start > clause.start:
        return []
    items = tokens.split(listed.start + 1, listed.stop)
    listed_as = (without_alias(tokens[a:b]) for a, b in items)
    names = {one.text: shown_name(name) for one, name in listed_as if name}
    edits: list[Edit] = []
    new: dict[str, str] = {}
    for i in range(clause.start, clause.stop):
        if names_function(tokens[i]) and tokens.at(i + 1).is_symbol("("):
            stop = end_of_call(tokens, i)
            call = tokens[i : stop + 1].text
            if call not in names:
                names[call] = new[call] = f"answer_{len(new)}" if new else "answer"
            edits.append((*tokens[i : stop + 1].span, names[call]))
    if {*new.values()} & tokens.folded:
        return []
    word, end = tokens[clause.start], tokens[listed.stop - 1].end
    more = "".join(f", {call} AS {name}" for call, name in new.items())
    inner = f"{text[:end]}{more}{text[end : word.start]}".rstrip()
    star = f"* EXCLUDE ({', '.join(new.values())})" if new else "*"
    behind = edited(text, edits, word.end, len(text))
    return [Restated(f"SELECT {star} FROM ({inner}) WHERE{behind}")]
