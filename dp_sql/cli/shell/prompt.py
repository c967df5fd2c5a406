"""The prompt: history, highlighting, completion, and the keys Enter and Tab."""

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, get_common_complete_suffix
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from prompt_toolkit.output import create_output
from prompt_toolkit.shortcuts import CompleteStyle
from prompt_toolkit.styles import Style
from prompt_toolkit.utils import is_dumb_terminal
from pygments.lexers.sql import PostgresLexer  # type: ignore[import-untyped]
from pygments.token import Name  # type: ignore[import-untyped]

from dp_sql.cli.shell.completion import SYSTEM_TABLE_CALLS, ShellCompleter
from dp_sql.cli.shell.splitting import is_complete
from dp_sql.cli.shell.state import Shell
from dp_sql.files import open_private
from dp_sql.sql.functions import FUNCTIONS

_DP_NAMES = {*FUNCTIONS, "DP", *(name.partition("(")[0].upper() for name in SYSTEM_TABLE_CALLS)}
_ARGUMENTS = {name for function in FUNCTIONS.values() for name in function.named}
_STYLE = Style.from_dict({
    "prompt": "bold", "pygments.keyword": "ansiblue", "pygments.name.builtin": "ansiblue",
    "pygments.name.function.magic": "ansimagenta bold", "pygments.literal.string": "ansigreen",
    "pygments.literal.number": "ansicyan", "pygments.comment": "ansibrightblack",
})  # fmt: skip


class _SqlLexer(PostgresLexer):  # type: ignore[misc]
    """PostgreSQL's lexer, which fits DuckDB's SQL, with a colour for DP functions."""

    def get_tokens_unprocessed(self, text: str, *more: Any) -> Iterator[tuple[int, Any, str]]:
        for place, kind, value in super().get_tokens_unprocessed(text, *more):
            plain = value == "." or value.lower() in _ARGUMENTS
            own = Name.Function.Magic if value.upper() in _DP_NAMES else Name if plain else None
            yield place, own or kind, value


def prompt_function(shell: Shell, name: str, history: Path | None) -> Callable[[], str]:
    """A function that reads one input: KeyboardInterrupt at Ctrl-C, EOFError at Ctrl-D.

    `name` is shown before the >; without a file the history stays in memory.
    """
    prompt = f"{name}> "
    completer = ShellCompleter(shell)
    suspends = shell.session.analyst is None  # the process behind an analyst's may be the owner's
    session: PromptSession[str] = PromptSession(
        [("class:prompt", prompt)],
        multiline=True,
        prompt_continuation=" " * (len(prompt) - 2) + "· ",
        lexer=PygmentsLexer(_SqlLexer),
        style=_STYLE,
        include_default_pygments_style=False,
        completer=completer,
        complete_while_typing=False,
        complete_style=CompleteStyle.MULTI_COLUMN,
        key_bindings=_keys(completer, suspends),
        history=_history(history),
        enable_suspend=suspends,
        # If results go to a file, the prompt stays on the screen.
        output=None if is_dumb_terminal() else create_output(always_prefer_tty=True),
    )
    return session.prompt


def _keys(completer: Completer, suspends: bool) -> KeyBindings:
    """Enter runs complete input and otherwise starts a new line; Tab completes at once."""
    keys = KeyBindings()
    if not suspends:  # otherwise Ctrl-Z would be typed
        keys.add("c-z")(lambda event: None)

    @keys.add("tab")
    def _tab(event: KeyPressEvent) -> None:
        # prompt_toolkit's own Tab completes in the background: keys typed next would overtake it.
        buffer = event.current_buffer
        if buffer.complete_state is not None:
            buffer.complete_next()
            return
        asked = CompleteEvent(completion_requested=True)
        found = list(completer.get_completions(buffer.document, asked))
        if len(found) == 1:
            buffer.apply_completion(found[0])
        elif found:
            buffer.insert_text(get_common_complete_suffix(buffer.document, found))
            buffer.start_completion()

    @keys.add("enter")
    def _enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion:
            buffer.complete_state = None  # accepts the completion that is selected
        elif is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.newline(copy_margin=False)

    return keys


def _history(path: Path | None) -> History:
    """The history, in a file that only its owner may read if one can be made."""
    if path is not None:
        with contextlib.suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.fchmod(descriptor, 0o600)
            os.close(descriptor)
            return FileHistory(str(path))
    return InMemoryHistory()


def history_file(policy: str | None, analyst: str | None) -> Path | None:
    """The file of a history: the owner and each analyst of each policy have their own.

    The owner's statements may name people. None may appear where an analyst presses Up.
    """
    try:
        state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    except RuntimeError:
        return None
    user = "owner"
    if policy is not None:
        key = f"{os.path.realpath(policy)}\0{analyst}"
        user = hashlib.blake2b(key.encode(errors="surrogateescape"), digest_size=8).hexdigest()
    return Path(state) / "dp-sql" / f"history-{user}"
