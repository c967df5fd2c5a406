"""The line where a person types: history, colours, completion, and when Enter asks.

The only file that knows prompt_toolkit and pygments, which come with the extra `shell`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from prompt_toolkit.output import create_output
from prompt_toolkit.shortcuts import CompleteStyle
from prompt_toolkit.styles import Style
from prompt_toolkit.utils import is_dumb_terminal
from pygments.lexers.sql import PostgresLexer  # type: ignore[import-untyped]
from pygments.token import Name  # type: ignore[import-untyped]

from dp_sql.cli.shell.dots import DOTS
from dp_sql.cli.shell.forms import MODES
from dp_sql.cli.shell.pieces import is_complete
from dp_sql.cli.shell.state import Shell
from dp_sql.cli.shell.words import BOOKS, Word, offers
from dp_sql.files import open_private
from dp_sql.sql.functions import FUNCTIONS

_OURS = {*FUNCTIONS, "DP", *(book.partition("(")[0].upper() for book in BOOKS)}
_ARGUMENTS = {name for function in FUNCTIONS.values() for name in function.named}
_STYLE = Style.from_dict(
    {
        "prompt": "bold",
        "pygments.keyword": "ansiblue",
        "pygments.name.builtin": "ansiblue",
        "pygments.name.function.magic": "ansimagenta bold",
        "pygments.literal.string": "ansigreen",
        "pygments.literal.number": "ansicyan",
        "pygments.comment": "ansibrightblack",
    }
)


class _Sql(PostgresLexer):  # type: ignore[misc]
    """PostgreSQL's colours, which fit DuckDB's text, and one for our functions."""

    def get_tokens_unprocessed(self, text: str, *more: Any) -> Iterator[tuple[int, Any, str]]:
        for place, kind, value in super().get_tokens_unprocessed(text, *more):
            plain = value == "." or value.lower() in _ARGUMENTS
            ours = Name.Function.Magic if value.upper() in _OURS else Name if plain else None
            yield place, ours or kind, value


class _Words(Completer):
    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        for word in completions(self._shell, document.text, document.cursor_position):
            yield Completion(word.text, -word.length, display_meta=word.about)


def completions(shell: Shell, text: str, cursor: int) -> list[Word]:
    """What Tab offers at the cursor: words of SQL, or a dot command's name or argument."""
    if text.lstrip().startswith("."):
        return _dot_words(shell, text[:cursor].lstrip())
    return offers(text, cursor, shell.catalogue, shell.is_guarded)


def _common(words: Sequence[Word]) -> str:
    """What all offers have in common beyond what is typed."""
    least, most = min(word.text for word in words), max(word.text for word in words)
    n_common = next((i for i, (a, b) in enumerate(zip(least, most, strict=False)) if a != b), None)
    return least[words[0].length : n_common]


def _dot_words(shell: Shell, typed: str) -> list[Word]:
    name, space, argument = typed.partition(" ")
    if not space:
        return [Word(d.name, len(name), d.about) for d in DOTS if d.name.startswith(name.lower())]
    if name == ".explain":
        return offers(argument, len(argument), shell.catalogue, shell.is_guarded)
    known = {".mode": MODES, ".timer": ("off", "on"), ".receipts": ("off", "on")}
    words: Iterable[str] = known.get(name, ())
    if name in {".schema", ".tables"}:
        words = [table.name for table in shell.catalogue.tables]
    return [Word(w, len(argument), "") for w in words if w.lower().startswith(argument.lower())]


def reader(shell: Shell, name: str, history: Path | None) -> Callable[[], str]:
    """A function that lets a person type one text.

    It raises KeyboardInterrupt at Ctrl-C and EOFError at Ctrl-D.

    Args:
        shell: whose tables and columns are offered.
        name: stands before the prompt's sign.
        history: where what was typed is kept; None keeps it for this shell alone.
    """
    prompt = f"{name}> "
    session: PromptSession[str] = PromptSession(
        [("class:prompt", prompt)],
        multiline=True,
        prompt_continuation=" " * (len(prompt) - 2) + "· ",
        lexer=PygmentsLexer(_Sql),
        style=_STYLE,
        include_default_pygments_style=False,
        completer=_Words(shell),
        complete_while_typing=False,
        complete_style=CompleteStyle.MULTI_COLUMN,
        key_bindings=_keys(shell),
        history=_history(history),
        enable_suspend=not shell.is_guarded,  # what stands behind the shell may be the owner's
        # Where answers go to a file, the prompt stays on the screen.
        output=None if is_dumb_terminal() else create_output(always_prefer_tty=True),
    )
    return session.prompt


def _keys(shell: Shell) -> KeyBindings:
    """Enter asks where the text is complete and else begins a new line; Tab completes at once."""
    keys = KeyBindings()

    @keys.add("tab")
    def _tab(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None:
            buffer.complete_next()
            return
        found = completions(shell, buffer.text, buffer.cursor_position)
        if len(found) == 1:
            buffer.delete_before_cursor(found[0].length)
            buffer.insert_text(found[0].text)
        elif found:
            buffer.insert_text(_common(found))
            buffer.start_completion()

    @keys.add("enter")
    def _enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion:
            buffer.complete_state = None  # takes the offer that is marked
        elif is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.newline(copy_margin=False)

    return keys


def _history(path: Path | None) -> History:
    """What was typed before; in a file that nobody else may read, where one can be made."""
    if path is not None:
        with contextlib.suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.fchmod(descriptor, 0o600)
            os.close(descriptor)
            return FileHistory(str(path))
    return InMemoryHistory()


def history_file(policy: str | None, analyst: str | None) -> Path | None:
    """Where a person's history is kept: each analyst's of each policy, and the owner's, apart.

    An owner's questions may name people. None must turn up where an analyst presses Up.
    """
    try:
        state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    except RuntimeError:
        return None
    whose = "owner"
    if policy is not None:
        who = f"{os.path.realpath(policy)}\0{analyst}"
        whose = hashlib.blake2b(who.encode(errors="surrogateescape"), digest_size=8).hexdigest()
    return Path(state) / "dp-sql" / f"history-{whose}"
