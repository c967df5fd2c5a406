"""The command line's `dp-sql shell …`: questions typed at a prompt, given with -c, or piped in.

Owns the order of things: open, read, ask or obey, leave. Knows the session and nothing below it.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import resource
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from dp_sql.cli.bars import visible
from dp_sql.cli.shell.ask import ask, prepare
from dp_sql.cli.shell.dots import DotError, obey
from dp_sql.cli.shell.errors import in_full
from dp_sql.cli.shell.pieces import is_leaving, pieces
from dp_sql.cli.shell.state import Shell
from dp_sql.errors import DpSqlError
from dp_sql.session.base import Session
from dp_sql.session.connect import connect

_EPILOG = """\
examples:
  dp-sql shell shop.duckdb
  dp-sql shell shop.duckdb --policy policy.toml --as reporting
  dp-sql shell shop.duckdb --markdown -c "FROM catalog"
  dp-sql shell shop.duckdb --policy policy.toml --as reporting --csv < questions.sql

At the prompt SQL ends with a semicolon, Tab completes, .help lists the dot commands, Ctrl-C stops
a question and Ctrl-D leaves. With -c, or where standard input is no terminal, statements and dot
commands are worked through up to the first that fails; the exit code is then 0 or 1.

Without --policy this is the owner's connection: it may read and change everything in DATABASE.
With --policy it is an analyst's: one SELECT at a time, no private row can be reached, and no
file is opened for what is typed.
"""
_NO_PROMPT = (
    "dp-sql shell needs prompt_toolkit and pygments at a terminal: pip install 'dp-sql[shell]'. "
    'Without them ask with -c "SQL".'
)
_DEEPEST = 10  # files that read files


def main_shell(arguments: Sequence[str]) -> int:
    """Run `dp-sql shell` with what follows these words; returns the exit code."""
    options = _parser().parse_args(list(arguments))
    if sys.stderr is None:  # closed; what is said there is for nobody
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    try:
        _check_streams(is_asked=options.command is not None)
        is_typed = options.command is None and sys.stdin.isatty()
        text = options.command if is_typed or options.command is not None else _standard_input()
        converse = _conversation() if is_typed else None
        if options.policy is not None:  # a core file would hold what the policy keeps back
            resource.setrlimit(
                resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1])
            )
        session = opened(options)
    except (Exception, KeyboardInterrupt) as error:
        print(in_full(error), file=sys.stderr)
        return 1
    shell = _shell(session, options, is_typed)
    with session:
        prepare(session)
        try:
            if converse is not None:
                return converse(shell, options)
            return 0 if work_through(shell, text or "") else 1
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        except KeyboardInterrupt as error:
            print(in_full(error), file=sys.stderr)
            return 1
        finally:
            shell.close()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dp-sql shell",
        description="A shell for a DuckDB database, with DP_TOPK, DP_COUNT_DISTINCT and DP_SELECT.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "-c", "--command", metavar="SQL", help="statements and dot commands to run, then leave"
    )
    add_options(parser)
    return parser


def add_options(parser: argparse.ArgumentParser) -> None:
    """Let a command line say which database is asked, as whom, and how answers look."""
    parser.add_argument(
        "database", nargs="?", default=":memory:", metavar="DATABASE",
        help="a DuckDB file, or :memory: (the default)",
    )  # fmt: skip
    parser.add_argument("--read-only", action="store_true", help="open DATABASE without writing")
    parser.add_argument(
        "--policy", metavar="FILE", help="the owner's policy: ask as an analyst (docs/policy.md)"
    )
    parser.add_argument(
        "--as", dest="analyst", metavar="NAME", help="who asks, under a policy; for the books"
    )
    parser.add_argument(
        "--ledger", metavar="FILE",
        help="without a policy: write every release of the owner's into this book",
    )  # fmt: skip
    _add_forms(parser.add_mutually_exclusive_group())
    parser.add_argument(
        "--receipts", action="store_true",
        help="print the receipt of each release to standard error",
    )  # fmt: skip


def opened(options: argparse.Namespace) -> Session:
    """The session that the options of `add_options` ask for."""
    session: Session = connect(
        options.database,
        read_only=options.read_only,
        policy=options.policy,
        analyst=options.analyst,
        ledger=options.ledger,
    )
    return session


def _add_forms(parser: argparse._ActionsContainer) -> None:
    """Let a command line choose how answers look; `mode` then is one of forms.MODES."""
    for mode, what in (
        ("csv", "CSV with a header"),
        ("json", "a JSON array of rows"),
        ("markdown", "a Markdown table"),
    ):
        parser.add_argument(
            f"--{mode}", dest="mode", action="store_const", const=mode, default="table",
            help=f"print answers as {what}",
        )  # fmt: skip


def _check_streams(*, is_asked: bool) -> None:
    """Refuse to ask what nobody could read: an answer that is lost is spent all the same."""
    if not is_asked and sys.stdin is None:
        raise DotError('Standard input is closed; ask with -c "SQL".')
    try:
        if sys.stdout is None:
            raise OSError
        with contextlib.suppress(io.UnsupportedOperation):  # a program reads it, without a file
            os.write(sys.stdout.fileno(), b"")
    except OSError:
        raise DotError("Standard output is closed, so no answer could be read; open it.") from None


def _standard_input() -> str:
    try:
        return sys.stdin.read()
    except UnicodeDecodeError:
        raise DotError("Standard input is not a text in UTF-8.") from None


def _shell(session: Session, options: argparse.Namespace, is_typed: bool) -> Shell:
    return Shell(
        session,
        options.mode,
        tells_receipts=options.receipts,
        tells_costs=is_typed or (sys.stderr.isatty() and not options.receipts),
    )


def work_through(shell: Shell, text: str, depth: int = 0) -> bool:
    """Ask and obey all that stands in a text, up to the first piece that fails."""
    for piece in pieces(text):
        done = _obeyed(shell, piece, depth) if piece.startswith(".") else ask(shell, piece)
        if not done or shell.is_leaving:
            return done
    return True


def _obeyed(shell: Shell, line: str, depth: int) -> bool:
    try:
        more = obey(shell, line)
        shell.out.flush()
        if depth >= _DEEPEST:
            raise DotError(f"Files that read files do so at most {_DEEPEST} deep.")
    except BrokenPipeError:
        raise
    except (DpSqlError, DotError, OSError) as error:
        print(in_full(error), file=sys.stderr, flush=True)
        return False
    except Exception as error:  # DuckDB's own, as of .explain
        print(in_full(error, shell.session, line), file=sys.stderr, flush=True)
        return False
    return more is None or work_through(shell, more, depth + 1)


# --- at a terminal ---


def _conversation() -> Callable[[Shell, argparse.Namespace], int]:
    """The loop at the prompt, where the libraries that it needs are there."""
    try:
        from dp_sql.cli.shell.prompt import history_file, reader
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"prompt_toolkit", "pygments"}:
            raise
        raise DotError(_NO_PROMPT) from None

    def converse(shell: Shell, options: argparse.Namespace) -> int:
        name, greeting = _names(shell, options)
        history = history_file(options.policy, getattr(shell.session, "analyst", None))
        read = reader(shell, name, history)
        shell.remark(greeting)
        while not shell.is_leaving:
            try:
                text = read()
                if is_leaving(text):
                    break
                work_through(shell, text)
            except KeyboardInterrupt:  # the line is cleared
                continue
            except EOFError:
                break
        return 0

    return converse


def _names(shell: Shell, options: argparse.Namespace) -> tuple[str, str]:
    """What stands before the prompt's sign, and the first line."""
    path = Path(options.database)
    database = visible("memory" if options.database == ":memory:" else path.stem)
    shown = visible(options.database)
    how = "End SQL with a semicolon; .help lists the commands."
    if shell.session.analyst is not None:
        analyst = visible(shell.session.analyst)
        return f"{analyst}@{database}", f"{shown}, as {analyst} under a policy. {how}"
    only = ", read-only" if options.read_only else ""
    return database, f"{shown}, as its owner{only}. {how}"


if __name__ == "__main__":
    sys.exit(main_shell(sys.argv[1:]))
