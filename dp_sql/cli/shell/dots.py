"""The dot commands of the shell: what each one does, and what `.help` says of it.

Knows the shell's state. Under a policy no command opens a file: the process may be the owner's.
"""

from __future__ import annotations

import difflib
import fnmatch
import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dp_sql.cli.shell.catalogue import Table, schema_text
from dp_sql.cli.shell.forms import MODES
from dp_sql.cli.shell.spent import budget_text
from dp_sql.cli.shell.state import Shell
from dp_sql.errors import NotSupported

_ALIASES = {"duckbox": "table", "box": "table", "lines": "line"}
_NO_FILES = "Under a policy the shell opens no files."


class DotError(Exception):
    """A dot command that cannot be done; a sentence that says what would work."""


@dataclass(frozen=True)
class Dot:
    """One command. `act` gets the shell and what stands behind the name; may return SQL to ask."""

    name: str
    argument: str
    about: str
    act: Callable[[Shell, str], str | None]


def obey(shell: Shell, line: str) -> str | None:
    """Do what a line like `.mode csv` says; returns a text that is to be asked now, if any.

    Raises:
        DotError: there is no such command, or it cannot be done.
    """
    name, _, argument = line.strip().partition(" ")
    wanted = name.lower()
    found = [dot for dot in DOTS if dot.name == wanted]
    found = found or [dot for dot in DOTS if len(wanted) > 1 and dot.name.startswith(wanted)]
    if len(found) != 1:
        near = difflib.get_close_matches(wanted, [dot.name for dot in DOTS], 1)
        meant = f" Did you mean {near[0]}?" if near else ""
        raise DotError(f"There is no command {name}.{meant} .help lists them.")
    return found[0].act(shell, argument.strip().removesuffix(";").strip())


def _tables(shell: Shell, argument: str) -> None:
    tables = _matching(shell, argument)
    longest = max((len(table.kind) for table in tables), default=0)
    shell.out.write("".join(f"{table.kind:{longest}}  {table.name}\n" for table in tables))


def _schema(shell: Shell, argument: str) -> None:
    tables = _matching(shell, argument)
    if tables:
        shell.out.write(schema_text(shell.session, tables))


def _matching(shell: Shell, pattern: str) -> Sequence[Table]:
    """The tables whose name has the pattern in it; % stands for anything, _ for one sign."""
    tables = shell.catalogue.tables
    if not pattern:
        return tables
    wanted = pattern.strip("'\"").lower()
    if "%" in wanted:
        wanted = wanted.replace("%", "*").replace("_", "?")
        found = [table for table in tables if fnmatch.fnmatchcase(table.last_name, wanted)]
    else:
        found = [table for table in tables if wanted in table.name.lower()]
    if not found:
        raise DotError(f"There is no table like {pattern}. .tables lists what there is.")
    return found


def _mode(shell: Shell, argument: str) -> None:
    mode = _ALIASES.get(argument.lower(), argument.lower())
    if not mode:
        shell.out.write(f"{shell.mode}\n")
    elif mode in MODES:
        shell.mode = mode
    else:
        raise DotError(f"There is no mode {argument}. There are: {', '.join(MODES)}.")


def _timer(shell: Shell, argument: str) -> None:
    shell.times = _switch(".timer", argument, shell.times)


def _receipts(shell: Shell, argument: str) -> None:
    if argument:
        shell.tells_receipts = _switch(".receipts", argument, shell.tells_receipts)
    else:
        shell.out.write("".join(f"{receipt}\n" for receipt in shell.session.receipts))


def _switch(name: str, argument: str, now: bool) -> bool:
    if argument.lower() not in {"on", "off", ""}:
        raise DotError(f"{name} takes on or off.")
    return not now if not argument else argument.lower() == "on"


def _read(shell: Shell, argument: str) -> str:
    if shell.is_guarded:
        raise DotError(f"{_NO_FILES} Start it with the file: dp-sql shell … < questions.sql")
    path = _path(argument)
    if path is None:
        raise DotError(".read takes a file: .read questions.sql")
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise DotError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise DotError(f"{path} is not a text in UTF-8.") from None


def _output(shell: Shell, argument: str) -> None:
    if shell.is_guarded:
        raise DotError(f"{_NO_FILES} Let them go to one: dp-sql shell … > answers.csv")
    path = _path(argument)
    try:
        shell.answer_into(path)
    except OSError as error:
        raise DotError(f"{path} cannot be written: {error.strerror}.") from None


def _path(argument: str) -> str | None:
    """The one file that is named, quotes taken off; None for none and for `stdout`."""
    try:
        words = shlex.split(argument)
    except ValueError:
        raise DotError("A quote around the file's name is never closed.") from None
    if len(words) > 1:
        raise DotError("One file is taken; a name with spaces stands in quotes.")
    return os.path.expanduser(words[0]) if words and words[0] != "stdout" else None


def _budget(shell: Shell, _: str) -> None:
    rows = shell.session.budget()
    if not rows:
        which = "The policy has no [budget]" if shell.is_guarded else "No ledger is kept"
        more = "" if shell.is_guarded else ": start with --ledger FILE"
        raise DotError(f"{which}{more}. .receipts shows what this session released.")
    shell.out.write(budget_text(rows))


def _explain(shell: Shell, argument: str) -> None:
    question = argument or shell.last_question
    if not question:
        raise DotError(".explain takes a question, or speaks of the last one; there is none yet.")
    cost = shell.session.explain(question)
    if not cost.calls:
        raise NotSupported("EXPLAIN shows what DP calls would cost, and there is none here.")
    shell.out.write(f"{cost}\n")


def _help(shell: Shell, _: str) -> None:
    longest = max(len(f"{dot.name} {dot.argument}") for dot in DOTS)
    for dot in DOTS:
        command = f"{dot.name} {dot.argument}"
        shell.out.write(f"{command:{longest}}  {dot.about}\n")
    shell.out.write(_KEYS)


def _quit(shell: Shell, _: str) -> None:
    shell.is_leaving = True


_KEYS = """
SQL ends with a semicolon and may have many lines. Tab completes, Up and Ctrl-R look back,
Ctrl-C clears the line or stops the question, Ctrl-D leaves.
EXPLAIN SELECT … says what a question would cost; FROM dp_releases() lists answers that
can be read again for nothing, FROM dp_release('id') reads one.
"""
DOTS = (
    Dot(".budget", "", "what is spent and left", _budget),
    Dot(".exit", "", "leave", _quit),
    Dot(".explain", "[SQL]", "what a question would cost, or the last one again; spends nothing",
        _explain),
    Dot(".help", "", "this list", _help),
    Dot(".mode", "[MODE]", f"how answers look: {', '.join(MODES)}", _mode),
    Dot(".output", "[FILE]", "write answers into a file; without one: here again", _output),
    Dot(".quit", "", "leave", _quit),
    Dot(".read", "FILE", "ask what stands in a file", _read),
    Dot(".receipts", "[on|off]", "what this session released; on: print each as it comes",
        _receipts),
    Dot(".schema", "[TABLE]", "what tables are made of", _schema),
    Dot(".tables", "[PATTERN]", "the tables, or those with PATTERN in their names", _tables),
    Dot(".timer", "[on|off]", "print how long each question took", _timer),
)  # fmt: skip
