"""Errors in the user's words: what DuckDB says of a statement, and a statement that works instead.

A correction is offered only after a session has planned and bound it, which reads no private row
and spends nothing.
"""

import re
from collections.abc import Callable, Iterator, Sequence

import duckdb

from dp_sql.errors import NotSupported, ParseError, QueryError, SourceError, guessed
from dp_sql.privacy.refusals import ALLOWED, WAY_OUT
from dp_sql.session.corrections.aggregate_calls import ENDS, OF_SPREADS, SPREADS
from dp_sql.session.corrections.examples import values_given
from dp_sql.session.corrections.other_systems import of_other_systems
from dp_sql.sql.arguments import DpCall
from dp_sql.sql.dp_select import DpSelect
from dp_sql.sql.formatting import shown_name
from dp_sql.sql.functions import FUNCTIONS
from dp_sql.sql.restated import Narrowed, OtherQuestion, Restated
from dp_sql.sql.statement import SYSTEM_TABLES, Statement
from dp_sql.sql.tokens import Token, Tokens, edited, folded, name_parts, tokenize

_KEYWORDS = ("SELECT", "FROM", "WHERE", "GROUP", "BY", "ORDER", "HAVING", "LIMIT", "JOIN", "WITH",
             "AND", "OR", "NOT", "BETWEEN", "LIKE", "USING", "DISTINCT", "EXPLAIN", "UNION",
             "DESCRIBE", "SHOW", "TABLES")  # fmt: skip
_TEMPLATE = re.compile(r"\{\{[^{}]*\}\}|\{%[^{}]*%\}|\[\[[^][]*\]\]|\$__\w+(\([^()]*\))?")
_NEAR = re.compile(r'at or near "(.+?)"\n', re.DOTALL)
_MISSING = re.compile(r'(Table|Function) with name "?(.+?)"? does not exist')
_NO_DATABASE = re.compile(r'Catalog "([^"]+)" does not exist')  # of DuckDB 1
_OFFERED = re.compile(r"(?:Did you mean|Candidate bindings:)(.*)", re.DOTALL)
_COLUMN = re.compile(r'Referenced (?:column|table) "([^"]+)" not found')
_STAR = re.compile(r'Function "+(\w+)"+ cannot be applied to a star')
_FIELD = re.compile(r"Cannot extract field '(\w+)'")
_OURS = re.compile(r'"?(?:__dp_groups\.)?(?:__dp_release_(\d+)\.?)?(?:__dp_value)?"?')
_ABOUT_ANSWERS = (duckdb.BinderException, duckdb.ConversionException, duckdb.InvalidInputException,
                  duckdb.OutOfRangeException, duckdb.NotImplementedException)  # fmt: skip
_CONSTANT = re.compile(r"Could not convert string ('.*?') to ")
_REPORTED = {"estimate", "lower_bound", "confidence", "contribution_bound", "epsilon", "noise"}
# What other systems call these, and names that are near none.
_ALSO_CALLED = {
    "dp_percentile": "dp_quantile", "dp_mean": "dp_avg", "dp_mode": "dp_topk",
    **dict.fromkeys(("dp_min", "dp_max", *(f"dp_{one.lower()}" for one in SPREADS)), "-"),
}  # fmt: skip
_COUNTED_IF = {"dp_count_if", "dp_countif"}
_OF_REPORTS = (
    "With report := true, a count, sum or mean n is a struct that says how accurate it is, with "
    "n.estimate, n.lower_bound and, of rows, sums and means, n.noise."
)
_NOT_RELEASED = "Such a value belongs to one person, so it is not released."
_each = [f"{function.name} ({function.purpose})" for function in FUNCTIONS.values()]
THE_FUNCTIONS = f"The functions are {', '.join(_each[:-1])} and {_each[-1]}."


def without_lists(hint: str | None) -> str:
    """A hint without the general lists and the example, for an error that proposes a statement."""
    for general in (WAY_OUT, ALLOWED, THE_FUNCTIONS):
        hint = (hint or "").replace(f"{general} ", "").replace(general, "")
    return (hint or "").partition("For example: ")[0].strip()


def syntax_error(
    text: str, parse: Callable[[str], object], *, under_policy: bool
) -> ParseError | None:
    """What DuckDB's parser says of a statement, with a caret; None if it can read it."""
    try:
        parse(text)
    except duckdb.Error as error:
        message = str(error).strip()
        if "exhausted" in message:  # DuckDB 1.5 reads fewer levels of brackets than 2.0
            return None
    else:
        return None
    tokens = tokenize(text)
    near = _NEAR.search(message)
    position = _place(message, text, near[1]) if near else len(text.rstrip())
    at = next((i for i, token in enumerate(tokens) if token.end > position), len(tokens))
    first = (message.split("\n", 1)[0].partition(": ")[2] or message).rstrip(".!")
    try:
        instead: list[str] = [*of_other_systems(tokens, under_policy)] if tokens else []
    except ParseError as unclosed:
        return unclosed
    theirs = [value for one in instead for value in values_given(one)]  # no examples
    instead += [
        Restated(token.put(word))
        for token in reversed(tokens[max(0, at - 2) : at + 1])
        if token.kind == "word"
        and (word := guessed(token.upper, _KEYWORDS)) != token.upper
        and word
    ]
    instead += _in_quotes(tokens, tokens[max(0, at - 2) : at + 1], parse)
    if near and near[1] in {")", ":"}:  # a parameter is written $name
        instead.append(Restated(tokens[at].put("$" if near[1] == ":" else "")))
    found = ParseError(
        f"{first[:1].upper()}{first[1:]}.", text=text, position=position, instead=instead
    )
    for template in _TEMPLATE.finditer(text):
        if template.start() <= position <= template.end():
            hint = f"Write a value in place of {template[0]}"
            found.hint = f"{hint}: a dashboard fills in such a template before it asks."
    found.public = theirs
    return found


def _in_quotes(
    tokens: Tokens, near: Sequence[Token], parse: Callable[[str], object]
) -> Iterator[str]:
    """The statement with a keyword that names a column, such as at or left, in quotes."""
    for word in near if near else ():
        all_of_it = [t for t in tokens if t.kind == "word" and t.upper == word.upper]
        after = {t: tokens.at(tokens.index(t) + 1) for t in all_of_it}
        names = [t for t, n in after.items() if not (n.is_symbol("(") or n.upper == "BY")]
        edits = [(t.start, t.end, f'"{t.text}"') for t in names]
        for written in dict.fromkeys((edited(word.source, edits), word.put(f'"{word.text}"'))):
            if word in names and is_readable(written, parse):
                yield Restated(written)
                break


def is_readable(text: str, parse: Callable[[str], object]) -> bool:
    """Whether DuckDB's parser can read a statement."""
    try:
        parse(text)
    except duckdb.Error:
        return False
    return True


def _place(message: str, text: str, near: str) -> int:
    """The place of a word nearest to DuckDB's caret, which counts columns of a shortened line."""
    lines = message.split("\n")
    shown = next(
        (re.match(r"LINE (\d+): (.*)", line) for line in lines if line[:5] == "LINE "), None
    )
    meant = 0
    if shown and "^" in lines[-1]:
        start = sum(len(one) + 1 for one in text.split("\n")[: int(shown[1]) - 1])
        found = text.find(shown[2].strip("."), start)
        meant = max(found, start) + lines[-1].index("^") - shown.start(2)
        meant -= len(shown[2]) - len(shown[2].lstrip("."))
    places = [match.start() for match in re.finditer(re.escape(near), text)]
    return min(places, key=lambda place: abs(place - meant), default=0)


def is_balanced(text: str) -> bool:
    """Whether its quotes are closed, and its brackets are as many."""
    try:
        tokens = tokenize(text)
    except ParseError:
        return False
    return sum(t.opens - t.closes for t in tokens) <= 0


def unknown_function(tokens: Tokens, name: str) -> QueryError | None:
    """The refusal of a function that begins with dp_ and is none, wherever it is called."""
    found = next((t for t in tokens if t.name and folded(t.name) == folded(name)), None)
    if found is None or not folded(name).startswith("dp_"):
        return None
    if folded(name) in _COUNTED_IF:
        return _count_if(tokens, found)
    meant = _ALSO_CALLED.get(folded(name)) or folded(name)
    near = guessed(meant, [*map(str.lower, FUNCTIONS), *SYSTEM_TABLES])
    near = near if near in SYSTEM_TABLES else near.upper()
    also = f" Did you mean {near}?" if near else ""
    message, hint = f"There is no function {found.text}.{also}", THE_FUNCTIONS
    instead = [found.put(near)] if near else []
    if q := ENDS.get(found.upper.removeprefix("DP_")):
        hint = f"{_NOT_RELEASED} DP_QUANTILE(…, {q}, …) is close to it. {hint}"
        start = tokens.index(found)
        for first, stop in tokens.split(start + 2, tokens.matching(start + 1))[:1]:
            quantile = f"DP_QUANTILE({tokens[first:stop].text}, {q}"
            instead = [OtherQuestion(tokens[start:stop].put(quantile))]
    if found.upper in {"DP_INTERVAL_LOW", "DP_INTERVAL_HIGH"}:  # of Snowflake
        hint = _OF_REPORTS
    if found.upper.removeprefix("DP_") in SPREADS:
        hint = OF_SPREADS
    return found.error(NotSupported, message, hint, instead)


def _count_if(tokens: Tokens, name: Token) -> QueryError:
    """The refusal of DP_COUNT_IF(condition), with DP_COUNT of a CASE."""
    i, instead = tokens.index(name), []
    for first, stop in tokens.split(i + 2, tokens.matching(i + 1))[:1]:
        case = f"DP_COUNT(CASE WHEN {tokens[first:stop].text} THEN 1 END"
        instead = [Restated(tokens[i:stop].put(case))]
    message = (
        f"There is no function {name.text}: DP_COUNT counts the rows where an item is not NULL."
    )
    return name.error(NotSupported, message, THE_FUNCTIONS, instead)


def explained(error: duckdb.Error, statement: Statement, names: Sequence[str]) -> QueryError | None:
    """DuckDB's error about a statement in the user's words; None: its own words are good.

    `names` are the tables that an analyst may see, as SQL: no others are proposed. An owner's are
    DuckDB's.
    """
    message, tokens = str(error).strip(), statement.tokens
    missing, column = _MISSING.search(message), _COLUMN.search(message)
    if star := _STAR.search(message):
        return unknown_function(tokens, star[1])
    found = _no_name(missing[1], missing[2], tokens, names) if missing else None
    if names and (database := _NO_DATABASE.search(message)):
        found = _no_table_there(database[1], tokens)
    if found is not None:
        return found
    if column and names and "__dp" not in column[1]:
        offered = _OFFERED.search(message)
        near_names = re.findall(r'"((?:[^"]|"")+)"', offered[1]) if offered else []
        near_names = [name for name in near_names if "__dp" not in name]
        hint = f"Did you mean {' or '.join(near_names)}?" if near_names else ""
        said = f"There is no column {column[1]} here."
        return _renamed(tokens, column[1].rpartition(".")[2], said, near_names, hint)
    if "read-only mode" in message and statement.selects:
        return tokens[0].error(
            NotSupported, f"The database is open read-only: {statement.keyword} cannot write.",
            "CREATE TEMP TABLE … AS keeps an answer in this session.",
            [tokens[:1].put("CREATE TEMP")] if statement.keyword == "CREATE" else [],
        )  # fmt: skip
    if statement.selects and isinstance(error, _ABOUT_ANSWERS):
        return _of_answer(error, message, statement)
    return None


def _no_name(kind: str, name: str, tokens: Tokens, names: Sequence[str]) -> QueryError | None:
    """The refusal of a table or function that DuckDB does not find."""
    wanted = name.rpartition(".")[2]
    if kind == "Function" and folded(wanted) == "dp":
        return _in_dp(tokens)
    if kind == "Function" and folded(wanted).upper() not in FUNCTIONS:
        return unknown_function(tokens, wanted)
    if near := guessed(folded(wanted), SYSTEM_TABLES) if wanted[:3].lower() == "dp_" else "":
        hint = f"{near} is a table function: write brackets."
        return _renamed(tokens, wanted, f"There is no table {wanted}.", [f"{near}()"], hint)
    if names and kind == "Table":
        near = guessed(folded(wanted), names)
        hint = f"Did you mean {near}? " * bool(near) + "SHOW TABLES lists the tables."
        message = f"There is no table {name}."
        parts = name_parts(near) or ()
        return _renamed(tokens, wanted, message, parts if len(parts) == 1 else [], hint)
    return None


def _no_table_there(database: str, tokens: Tokens) -> QueryError | None:
    """The refusal of a table in a database that there is not."""
    for start in range(len(tokens)):
        parts = tokens.dotted(start)[:5].names
        if len(parts) > 1 and folded(parts[0]) == folded(database):
            said = f"There is no table {'.'.join(parts)}."
            return tokens[start].error(SourceError, said, "SHOW TABLES lists the tables.")
    return None


def _in_dp(tokens: Tokens) -> QueryError | None:
    """The refusal of FROM dp($$ … $$) in a session, which takes the query itself."""
    i = next((i for i, t in enumerate(tokens) if t.folded == "dp"), None)
    if i is None:
        return None
    body = tokens.at(i + 2)
    inner = re.sub(r"^\$\w*\$|\$\w*\$$", "", body.text).strip()
    if body.text.startswith("'"):
        inner = body.text[1:-1].replace("''", "'").strip()
    close = tokens.matching(i + 1)
    is_whole = i == 1 and tokens[0].upper == "FROM" and close == len(tokens) - 1
    instead = [Restated(inner if is_whole else tokens[i : close + 1].put(f"({inner})"))]
    message = "This session answers DP functions itself: it needs no dp(…), and has none."
    return tokens[i].error(NotSupported, message, None, instead if body.kind == "string" else [])


def _renamed(
    tokens: Tokens, name: str, message: str, near: Sequence[str], hint: str
) -> QueryError | None:
    """The refusal of a name that there is not, with names that are near it."""
    found = next((t for t in tokens if t.name and folded(t.name) == folded(name)), None)
    if found is None:
        return None
    instead = [found.put(one if one.endswith("()") else shown_name(one)) for one in near]
    return found.error(SourceError, message, hint or None, instead)


def _of_answer(error: duckdb.Error, message: str, statement: Statement) -> QueryError:
    """DuckDB's error about what is done with an answer, which names columns that dp_sql wrote."""
    pairs = [(select, call) for select in statement.selects for call in select.calls]
    numbers = [int(number) for number in re.findall(r"__dp_release_(\d+)", message)]
    select, call = pairs[min(numbers[0], len(pairs)) - 1 if numbers else 0]
    first = message.split("\n", 1)[0].partition(": ")[2] or message
    first = re.sub(r" when casting from source column \S+", "", first)
    said = _OURS.sub(lambda m: call.display if "__dp" in m[0] else m[0], first).rstrip(".!")
    field = _FIELD.search(message)
    detail = None
    if field and not call.parameters.detailed:
        detail = "report" if field[1] in _REPORTED else "counts"
    casts = isinstance(error, duckdb.ConversionException)
    value = _CONSTANT.search(message)
    places = (t.start for t in statement.around_calls if value and t.text == value[1])
    return SourceError(
        f"{said}.", text=select.text, position=next(places, call.start),
        instead=[*_uses_of(select, call, detail, casts)],
    )  # fmt: skip


def _uses_of(select: DpSelect, call: DpCall, detail: str | None, casts: bool) -> Iterator[str]:
    """Statements that do something else with an answer: with its details, its items, or alone."""
    text = select.text
    written = text[call.start : call.end]
    condition = select.condition_text
    source = select.source_text + (f" WHERE {condition}" if condition is not None else "")
    if detail is not None and detail in call.function.named:
        _, close = select.without_filter(call.span)
        with_detail = (
            f"{text[call.start : close - 1]}, {detail} := true{text[close - 1 : call.end]}"
        )
        yield text[: call.start] + with_detail + text[call.end :]
        if detail == "counts":
            yield f"SELECT unnest({with_detail}, recursive := true) FROM {source}"
    if call.parameters.n_listed is not None and not select.keys and not casts:
        yield f"{text[: call.start]}unnest({written}){text[call.end :]}"
    group = text[slice(*select.clauses["GROUP"])] if "GROUP" in select.clauses else ""
    keys = "".join(f"{key.text}, " for key in select.keys)
    yield Narrowed(f"SELECT {keys}{written} AS answer FROM {source} {group}".rstrip())
