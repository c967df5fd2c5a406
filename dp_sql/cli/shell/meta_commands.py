"""The dot commands of the shell. For an analyst none of them opens a file."""

import fnmatch
import os
import shlex
import shutil
from collections.abc import Callable, Sequence
from typing import NamedTuple

from dp_sql.cli.bars import bar_lines
from dp_sql.cli.errors import CommandError
from dp_sql.cli.shell.names import Table, analyst_schema, owner_schema
from dp_sql.cli.shell.output import MODES
from dp_sql.cli.shell.state import Shell
from dp_sql.errors import guess

_ALIASES = {"duckbox": "table", "box": "table", "lines": "line"}
_NO_FILES = "Under a policy the shell opens no files."
_KEYS = """
SQL ends with a semicolon and may have many lines. Tab completes, Up and Ctrl-R search the history,
Ctrl-C clears the line or stops a running statement, Ctrl-D leaves.
EXPLAIN SELECT … shows what a statement would cost; FROM dp_releases() lists answers that you can
read again at no cost, and FROM dp_release('id') reads one.
"""


class MetaCommand(NamedTuple):
    """A dot command. `run` gets the shell and the argument, and may return SQL to run."""

    name: str
    argument: str
    help: str
    run: Callable[[Shell, str], str | None]


def run_meta_command(shell: Shell, line: str) -> str | None:
    """Run a line like `.mode csv`; returns SQL that is to run now, if any."""
    name, _, argument = line.strip().partition(" ")
    wanted = name.lower()
    found = [c for c in META_COMMANDS if c.name == wanted]
    found = found or [c for c in META_COMMANDS if len(wanted) > 1 and c.name.startswith(wanted)]
    if len(found) != 1:
        near = guess(wanted, [c.name for c in META_COMMANDS], 0.75)  # .open is not .mode
        raise CommandError(f"There is no command {name}.{near} .help lists them.")
    return found[0].run(shell, argument.strip().removesuffix(";").strip())


def _tables(shell: Shell, argument: str) -> None:
    tables = _matching(shell, argument)
    longest = max((len(table.kind) for table in tables), default=0)
    shell.out.write("".join(f"{table.kind:{longest}}  {table.name}\n" for table in tables))


def _schema(shell: Shell, argument: str) -> None:
    tables = _matching(shell, argument)
    is_owner = shell.session.analyst is None
    if tables:
        shell.out.write(owner_schema(shell.session, tables) if is_owner else analyst_schema(tables))


def _matching(shell: Shell, pattern: str) -> Sequence[Table]:
    """The tables whose name contains the pattern; as in LIKE if it has a %."""
    tables = shell.names.tables
    if not pattern:
        return tables
    wanted = pattern.strip("'\"").lower()
    if "%" in wanted:
        wanted = wanted.replace("%", "*").replace("_", "?")
        found = [t for t in tables if fnmatch.fnmatchcase(t.folded_path[-1], wanted)]
    else:
        found = [t for t in tables if wanted in t.name.lower()]
    if not found:
        raise CommandError(f"There is no table like {pattern}. .tables lists the tables.")
    return found


def _mode(shell: Shell, argument: str) -> None:
    mode = _ALIASES.get(argument.lower(), argument.lower())
    if not mode:
        shell.out.write(f"{shell.mode}\n")
    elif mode in MODES:
        shell.mode = mode
    else:
        raise CommandError(f"There is no mode {argument}. The modes are {', '.join(MODES)}.")


def _timer(shell: Shell, argument: str) -> None:
    shell.shows_times = _switch(".timer", argument, shell.shows_times)


def _receipts(shell: Shell, argument: str) -> None:
    if argument:
        shell.shows_receipts = _switch(".receipts", argument, shell.shows_receipts)
    elif shell.session.receipts:
        shell.out.write("".join(f"{receipt}\n" for receipt in shell.session.receipts))
    else:
        shell.note("This session has no releases yet.")


def _switch(name: str, argument: str, now: bool) -> bool:
    if argument.lower() not in {"on", "off", ""}:
        raise CommandError(f"{name} takes on or off.")
    return not now if not argument else argument.lower() == "on"


def _read(shell: Shell, argument: str) -> str:
    if shell.session.analyst is not None:
        raise CommandError(f"{_NO_FILES} Use a pipe: dp-sql shell … < queries.sql")
    path = _path(argument)
    if path is None:
        raise CommandError(".read takes a file: .read queries.sql")
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise CommandError(f"{path} is not UTF-8 text.") from None


def _output(shell: Shell, argument: str) -> None:
    if shell.session.analyst is not None:
        raise CommandError(f"{_NO_FILES} Redirect the output: dp-sql shell … > results.csv")
    path = _path(argument)
    try:
        shell.write_to(path)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}.") from None


def _path(argument: str) -> str | None:
    """The file that is named, without quotes; None for no name and for `stdout`."""
    try:
        words = shlex.split(argument)
    except ValueError:
        raise CommandError("The file name has an opening quote and no closing one.") from None
    if len(words) > 1:
        raise CommandError("Give one file; quote a name with spaces.")
    return os.path.expanduser(words[0]) if words and words[0] != "stdout" else None


def _budget(shell: Shell, _: str) -> None:
    rows = shell.session.budget()
    if not rows:
        why = "There is no ledger: start with --ledger FILE"
        why = why if shell.session.analyst is None else "The policy has no [budget]"
        raise CommandError(f"{why}. .receipts shows what this session released.")
    width = shell.width or shutil.get_terminal_size().columns
    shell.out.write("\n".join(bar_lines(rows, width)) + "\n")


def _explain(shell: Shell, argument: str) -> None:
    statement = argument or shell.last_statement
    if not statement:
        raise CommandError(".explain takes a statement, or explains the last one; there is none.")
    cost = shell.session.explain(statement)
    if not cost.calls:
        raise CommandError(".explain shows the cost of DP calls, and this statement has none.")
    shell.out.write(f"{cost}\n")


def _help(shell: Shell, _: str) -> None:
    usages = [f"{c.name} {c.argument}" for c in META_COMMANDS]
    longest = max(map(len, usages))
    for usage, meta_command in zip(usages, META_COMMANDS, strict=True):
        shell.out.write(f"{usage:{longest}}  {meta_command.help}\n")
    shell.out.write(_KEYS)


def _quit(shell: Shell, _: str) -> None:
    shell.is_closing = True


_C = MetaCommand
META_COMMANDS = (
    _C(".budget", "", "show what is spent and left", _budget),
    _C(".exit", "", "leave", _quit),
    _C(".explain", "[SQL]", "show what a statement, or the last one, costs; spends nothing",
       _explain),
    _C(".help", "", "show this list", _help),
    _C(".mode", "[MODE]", f"show or set the format of results: {', '.join(MODES)}", _mode),
    _C(".output", "[FILE]", "write results to a file; without one, to the screen again", _output),
    _C(".quit", "", "leave", _quit),
    _C(".read", "FILE", "run the statements of a file", _read),
    _C(".receipts", "[on|off]", "show this session's receipts; on: print each as it comes",
       _receipts),
    _C(".schema", "[TABLE]", "show the columns of tables", _schema),
    _C(".tables", "[PATTERN]", "list the tables, or those whose name contains PATTERN", _tables),
    _C(".timer", "[on|off]", "print how long each statement took", _timer),
)  # fmt: skip
