"""Which temporary tables, views and macros does a statement mean that dp_sql does not see?

A plain call and dp() are planned on a cursor of their own, without those of the caller's
connection. A statement that means one is refused.
"""

from collections.abc import Collection, Iterator
from itertools import pairwise
from string import ascii_lowercase, ascii_uppercase

from dp_sql.engines.duckdb.function_kinds import temporary_macro_sql
from dp_sql.engines.duckdb.macros import TEMPORARY
from dp_sql.errors import NotSupported, with_type
from dp_sql.privacy.private_sql.release_select import EXECUTION
from dp_sql.session.owner_plans import Planned
from dp_sql.sql.formatting import literal, shown_name
from dp_sql.sql.statement import Statement
from dp_sql.sql.tokens import Token, Tokens, edited, folded

_RELATION = "{} is a temporary table or view, which only its connection sees."
_AS_TABLE = "Make it a table (CREATE TABLE … AS …), or ask with dp_sql.connect(…)."
_MACRO = "{} is a temporary macro, which only its connection sees."


def check_named(statement: Statement, temporary: Collection[str]) -> None:
    """Refuse (NotSupported) a plain statement that names one of these relations."""
    hidden = _hidden(statement.tokens, temporary)
    made, _ = _created(statement.tokens)
    for name, token in _may_be_relations(statement.tokens):
        if name in hidden and token is not made:
            message = _RELATION.format(token.name or token.text.strip("'$"))
            raise token.error(NotSupported, message, _stored(statement, token) or _AS_TABLE)


def check_read(planned: Planned, temporary: Collection[str]) -> None:
    """Refuse (NotSupported) a plain statement whose views read one of these relations."""
    if hidden := _hidden(planned.statement.tokens, temporary) & planned.relations:
        raise NotSupported(_RELATION.format(min(hidden)), hint=_AS_TABLE)


def execution_sql(planned: Planned) -> str:
    """EXECUTION, or an error as of checked_connection_sql."""
    return f"{checked_connection_sql(planned)}, {EXECUTION.partition(', ')[2]}"


def checked_connection_sql(planned: Planned) -> str:
    """The connection, or an error if a temporary relation or macro hides what was planned for dp().

    The plans have read another relation of that name, or taken the macro for DuckDB's own function.
    """
    read = {name for name, _ in _may_be_relations(planned.statement.tokens)} | planned.relations
    names = "\n".join(["", *sorted(read), ""])
    folding = f"system.main.translate(name, '{ascii_uppercase}', '{ascii_lowercase}')"
    # DuckDB plans this faster than IN with many constants.
    written = f"system.main.concat('\n', {folding}, '\n')"
    named = f"system.main.contains({literal(names)}, {written})"
    relation = f"(SELECT system.main.min(name) FROM {TEMPORARY} WHERE {named})"
    macro = temporary_macro_sql(planned.scalars, planned.others)
    checked = f"""CASE
        WHEN relation IS NOT NULL THEN {_error("relation", _RELATION, _AS_TABLE)}
        WHEN macro IS NOT NULL THEN {_error("macro", _MACRO, "Drop or rename it.")}
        ELSE {EXECUTION.partition(", ")[0]} END"""
    return f"(SELECT {checked} FROM (SELECT {relation} AS relation, {macro} AS macro))"


def _error(name: str, message: str, hint: str) -> str:
    """SQL that raises NotSupported with a message about what the column `name` says."""
    why = with_type(NotSupported(message.format("{}"), hint=hint)).partition("{}")
    before, _, after = map(literal, why)
    return f"system.main.error(system.main.concat({before}, {name}, {after}))"


def _may_be_relations(tokens: Tokens) -> Iterator[tuple[str, Token]]:
    """The names, folded, that may be those of relations; FROM 'name' names a table, too."""
    for before, token in pairwise(tokens):
        if before.upper != "AS":  # an alias reads nothing
            name = token.name or (token.text.strip("'$") if token.kind == "string" else "")
            yield folded(name), token


def _hidden(tokens: Tokens, temporary: Collection[str]) -> set[str]:
    """The names, folded, of temporary relations, except one that is being made."""
    made, is_new = _created(tokens)
    hidden = {folded(name) for name in temporary if not name.startswith("__dp_")}
    return hidden - ({made.folded} if made is not None and is_new else set())


def _stored(statement: Statement, relation: Token) -> str:
    """What to write for a statement that reads a temporary relation: it is stored first."""
    tokens, name = statement.tokens, relation.folded
    places = [
        b
        for a, b, c in zip(tokens, tokens[1:], [*tokens[2:], tokens[-1]], strict=False)
        if b.folded == name and (a.upper in {"FROM", "JOIN"} or c.is_symbol("."))
    ]
    if relation not in places or not statement.is_query:
        return ""
    new = shown_name(f"{relation.name}_kept")
    store = f"CREATE TABLE {new} AS FROM {relation.text};"
    edits = [(place.start, place.end, new) for place in places]
    body = edited(statement.text, edits, statement.span[0])
    return f"If each of its rows belongs to one person, write: {store} {body}"


def _created(tokens: Tokens) -> tuple[Token | None, bool]:
    """The name of a table that CREATE … AS makes, and whether no source could mean it before."""
    end = next((i for i, token in enumerate(tokens) if token.upper == "AS"), 0)
    words = [token.upper for token in tokens[:end]]
    made = tokens[end - 1] if words[:1] == ["CREATE"] else None
    return made, not {"REPLACE", "EXISTS"} & {*words[:-1]}
