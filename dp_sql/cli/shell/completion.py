"""What Tab offers at the cursor.

It looks at tokens, not at a grammar: tables after FROM, columns after a table's dot, and inside a
DP call the arguments that are still missing.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from dp_sql.cli.shell.meta_commands import META_COMMANDS
from dp_sql.cli.shell.names import ANALYST_KEYWORDS, OWNER_KEYWORDS, Names, Table
from dp_sql.cli.shell.output import MODES
from dp_sql.cli.shell.state import Shell
from dp_sql.errors import ParseError
from dp_sql.sql.formatting import shown_name
from dp_sql.sql.functions import FUNCTIONS
from dp_sql.sql.shape import Function
from dp_sql.sql.tokens import Token, Tokens, folded, statements, tokenize

SYSTEM_TABLE_CALLS = (
    "dp_budget()", "dp_functions()", "dp_ledger()", "dp_release('", "dp_releases()",
)  # fmt: skip
_BEFORE_TABLES = {"FROM", "JOIN", "INTO", "UPDATE", "TABLE", "DESCRIBE", "DESC", "SUMMARIZE"}
_AFTER_TABLES = {"WHERE", "SELECT", "ON", "USING", "GROUP", "ORDER", "HAVING", "LIMIT", "SET"}
Offer = tuple[str, str]  # what to insert, and what it is


class ShellCompleter(Completer):
    """Completes SQL, and the dot commands and their arguments."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """What fits at the cursor, likeliest first."""
        before = document.text_before_cursor.lstrip()
        text, cursor = document.text, document.cursor_position
        if text.lstrip().startswith("."):
            name, space, argument = before.partition(" ")
            if not space:
                return _matching(name, ((c.name, c.help) for c in META_COMMANDS))
            if name != ".explain":
                tables = [table.name for table in self._shell.names.tables]
                words: dict[str, Iterable[str]] = {
                    ".mode": MODES, ".schema": tables, ".tables": tables,
                    ".receipts": ("off", "on"), ".timer": ("off", "on"),
                }  # fmt: skip
                return _matching(argument, ((word, "") for word in words.get(name, ())))
            text, cursor = argument, len(argument)
        is_analyst = self._shell.session.analyst is not None
        return sql_completions(text, cursor, self._shell.names, is_analyst)


def sql_completions(text: str, cursor: int, names: Names, is_analyst: bool) -> list[Completion]:
    """What can come at the cursor, an offset into the whole input; likeliest first."""
    try:
        found = statements(text[:cursor] + "x")  # x marks the cursor
    except ParseError:
        return []  # inside a string
    if not found:
        return []  # inside a comment, with nothing before it
    before, word = found[-1][:-1], found[-1][-1]
    after_number = before and before[-1].kind == "number" and before[-1].end == word.start
    if word.end != cursor + 1 or word.kind != "word" or after_number:
        return []  # inside a comment or a number
    try:
        tokens = tokenize(text)
    except ParseError:
        tokens = before
    typed = word.text[:-1]
    return _matching(typed, _Cursor(before, tokens, names, is_analyst).offers(typed))


def _matching(typed: str, offers: Iterable[Offer]) -> list[Completion]:
    """The offers that begin with what is typed, without repetition."""
    found: dict[str, Completion] = {}
    for text, about in offers:
        if folded(text.lstrip('"')).startswith(folded(typed)):
            found.setdefault(text, Completion(text, -len(typed), display_meta=about))
    return list(found.values())


@dataclass(frozen=True)
class _Cursor:
    """A place in a statement."""

    before: Tokens  # of the statement, before the word at the cursor
    tokens: Tokens  # of the whole input if it can be tokenized, else `before`
    names: Names
    is_analyst: bool

    def offers(self, typed: str) -> Iterator[Offer]:
        before = self.before
        if before and before[-1].is_symbol("."):
            yield from self._after_dot()
            return
        opening, level = _innermost(before)
        is_call = opening > 0 and before[opening].is_symbol("(")
        function = FUNCTIONS.get(before[opening - 1].upper) if is_call else None
        if function is not None:
            yield from self._in_call(function, before[opening:])
        elif _expects_table(before, level):
            yield from _tables(self.names.tables)
            yield from ((name, "system table") for name in SYSTEM_TABLE_CALLS)
        else:
            yield from self._in_expression(typed)

    def _in_expression(self, typed: str) -> Iterator[Offer]:
        named = self._named_tables()
        yield from _columns(named)
        yield from ((f"{_cased(name, typed)}(", "DP function") for name in FUNCTIONS)
        if len(typed) < 2:  # everything else would be too much
            return
        keywords = ANALYST_KEYWORDS if self.is_analyst else OWNER_KEYWORDS
        yield from ((_cased(word, typed), "keyword") for word in keywords)
        yield from ((f"{name}(", "function") for name in self.names.functions)
        yield from _tables(self.names.tables)
        if not named:
            yield from _columns(self.names.tables)

    def _after_dot(self) -> Iterator[Offer]:
        """Columns of the table or alias before the dot; tables of a schema or database."""
        path: tuple[str, ...] = ()
        rest = list(self.before)
        while len(rest) > 1 and rest[-1].is_symbol(".") and rest[-2].name is not None:
            path = (rest[-2].folded, *path)
            rest = rest[:-2]
        tables = [t for t in self.names.tables if t.folded_path[-len(path) :] == path]
        if len(path) == 1:
            tables += self._aliased(path[0])
        yield from _columns(tables)
        for table in self.names.tables:
            if len(table.path) > len(path) and table.folded_path[: len(path)] == path:
                yield ".".join(map(shown_name, table.path[len(path) :])), table.kind

    def _aliased(self, alias: str) -> Iterator[Table]:
        """The tables that an alias names: `ratings AS r` or `ratings r`."""
        for index, token in enumerate(self.tokens[1:], 1):
            if token.folded == alias:
                has_as = self.tokens[index - 1].upper == "AS"
                name = self.tokens[index - 2 if has_as else index - 1].name
                for table in self.names.tables:
                    if name is not None and table.folded_path[-1] == folded(name):
                        yield table

    def _named_tables(self) -> list[Table]:
        words = self.tokens.folded
        return [table for table in self.names.tables if table.folded_path[-1] in words]

    def _in_call(self, function: Function, inside: Tokens) -> Iterator[Offer]:
        tables = self._named_tables() or self.names.tables
        if inside[-1].is_symbol(":=", "=>"):
            yield from self._values(inside[-2].upper.lower(), function, tables)
        elif inside[-1].is_symbol("(", ","):
            if sum(token.is_symbol(",") for token in inside) < len(function.positional):
                yield from _columns(tables)
            used = {token.upper.lower() for token in inside}
            for name in function.named:
                if name not in used and not (self.is_analyst and name == "privacy_unit"):
                    yield f"{name} := ", "argument"

    def _values(self, name: str, function: Function, tables: Sequence[Table]) -> Iterator[Offer]:
        """The values of an argument of a DP call."""
        match name:
            case "mechanism":
                about = {function.default_mechanism: "mechanism, the default"}
                yield from ((m, about.get(m, "mechanism")) for m in function.mechanisms)
            case "bound_selection":
                default = function.mechanisms[function.default_mechanism]
                yield from ((selection, "selection") for selection in default.bound_selections)
            case "report":
                yield from (("true", "a struct"), ("false", "a number"))
            case "counts":
                yield from (("true", "items and counts"), ("false", "items"))
            case "privacy_unit":
                yield from _columns(tables)
            case "domain" | "groups":
                if not self.is_analyst:
                    yield "observed", "you declare that the values in the data are public"
                for table in self.names.tables:
                    if table.kind not in {"private", "private view"}:
                        yield from ((f"{table.name}.{name}", k) for name, k in _columns([table]))


def _cased(word: str, typed: str) -> str:
    return word.lower() if typed.islower() else word


def _innermost(tokens: Tokens) -> tuple[int, list[Token]]:
    """Where the last open bracket is (0: none is), and what follows it, without closed brackets."""
    levels: list[tuple[int, list[Token]]] = [(0, [])]
    for index, token in enumerate(tokens):
        if token.opens:
            levels.append((index, []))
        elif not token.closes:
            levels[-1][1].append(token)
        elif len(levels) > 1:
            levels.pop()
    return levels[-1]


def _expects_table(before: Tokens, level: Sequence[Token]) -> bool:
    """Whether a table comes next: after FROM and the like, or after a comma of its list."""
    if not (before and before[-1].is_symbol(",")):
        return bool(before) and before[-1].upper in _BEFORE_TABLES
    words = [t.upper for t in level if t.upper in {"FROM", "JOIN", *_AFTER_TABLES}]
    return words[-1:] in (["FROM"], ["JOIN"])


def _tables(tables: Iterable[Table]) -> Iterator[Offer]:
    return ((table.name, table.kind) for table in tables)


def _columns(tables: Iterable[Table]) -> Iterator[Offer]:
    return ((shown_name(name), kind) for table in tables for name, kind in table.columns)
