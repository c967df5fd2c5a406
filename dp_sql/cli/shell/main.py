"""`dp-sql shell`: opens a database and runs statements from a prompt, from -c or from a pipe."""

import contextlib
import io
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from shlex import quote

import click

from dp_sql.cli.bars import visible
from dp_sql.cli.errors import CommandError, error_text, wrapped
from dp_sql.cli.shell.meta_commands import run_meta_command
from dp_sql.cli.shell.run import prepare, run_statement
from dp_sql.cli.shell.splitting import EXIT, HELP, split_input
from dp_sql.cli.shell.state import Shell
from dp_sql.installation import install_command
from dp_sql.session.base import Session
from dp_sql.session.connect import connect

_HELP = """\
Query the DuckDB file DATABASE (default: a database in memory) in SQL, with DP_COUNT,
DP_COUNT_DISTINCT, DP_TOPK and more.

\b
Examples:
  dp-sql shell shop.duckdb
  dp-sql shell shop.duckdb --policy policy.toml --as reporting
  dp-sql shell shop.duckdb --markdown -c "FROM catalog"
  dp-sql shell shop.duckdb --policy policy.toml --as reporting --csv < queries.sql

At the prompt, SQL ends with a semicolon, Tab completes, .help lists the dot commands, Ctrl-C stops
a statement and Ctrl-D leaves. With -c, or if standard input is not a terminal, statements and
dot commands run up to the first that fails; the exit code is then 1.

Without --policy you are the owner: you may read and change everything in DATABASE. With --policy
you are an analyst: you may run one SELECT at a time, you get no private row, and no dot command
opens a file.
"""
_MAX_DEPTH = 10  # of files that read files


@click.command("shell", help=_HELP, context_settings={"allow_extra_args": True})
@click.argument("database", metavar="[DATABASE]", default=":memory:")
@click.option(
    "-c", "--command", "texts", metavar="SQL", multiple=True,
    help="Run SQL and dot commands, then exit; may be repeated.",
)  # fmt: skip
@click.option("--read-only", is_flag=True, help="Open DATABASE read-only.")
@click.option("--policy", metavar="FILE", help="The owner's policy: query as an analyst.")
@click.option(
    "--as", "--analyst", "analyst", metavar="NAME", help="With --policy: the analyst's name."
)
@click.option("--ledger", metavar="FILE", help="Without --policy: record every release in it.")
@click.option("--csv", "mode", flag_value="csv", help="Print results as CSV with a header.")
@click.option("--json", "mode", flag_value="json", help="Print results as a JSON array of rows.")
@click.option("--markdown", "mode", flag_value="markdown", help="Print results as Markdown tables.")
@click.option("--receipts", is_flag=True, help="Print each release's receipt to standard error.")
def command(
    database: str, texts: tuple[str, ...], read_only: bool, policy: str | None, analyst: str | None,
    ledger: str | None, mode: str | None, receipts: bool,
) -> int:  # fmt: skip
    """Run a shell."""
    _check_options(database, policy, analyst, ledger)
    if sys.stderr is None:  # closed, so no one reads it
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    _check_streams(reads_input=not texts)
    at_prompt = not texts and sys.stdin.isatty()
    if at_prompt:
        _check_prompt()
    elif not texts:
        try:
            texts = (sys.stdin.read(),)
        except UnicodeDecodeError:
            raise CommandError("Standard input is not UTF-8 text.") from None
    if policy is not None:  # a core file would hold private rows
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    opened: Callable[..., Session] = connect  # it checks which of these go together
    options = {"read_only": read_only, "policy": policy, "analyst": analyst, "ledger": ledger}
    with opened(database, **options) as session:
        shows_costs = at_prompt or (sys.stderr.isatty() and not receipts)
        shell = Shell(session, mode or "table", receipts, shows_costs)
        prepare(shell)
        with contextlib.closing(shell):
            if texts:
                ran = all(shell.is_closing or _run_input(shell, text) for text in texts)
                return 0 if ran else 1
            _run_prompt(shell, database, policy, read_only)
            return 0


def _check_options(
    database: str, policy: str | None, analyst: str | None, ledger: str | None
) -> None:
    """Refuse arguments that no option takes, and options that do not go together."""
    for stray in click.get_current_context().args:
        option = f"--policy {quote(stray)} --as NAME" if stray.endswith(".toml") else ""
        option = option or (f"-c {quote(stray)}" if " " in stray else "")
        instead = f" Write: dp-sql {quote(database)} {option}" if option else ""
        raise click.UsageError(f"Unexpected argument {quote(stray)}.{instead}")
    if analyst is not None and policy is None:
        raise click.UsageError(
            f"--as needs a policy. Draft one with dp-sql policy init {quote(database)} -o "
            "policy.toml, and then write: "
            f"dp-sql {quote(database)} --policy policy.toml --as {quote(analyst)}"
        )
    if ledger is not None and policy is not None:
        raise click.UsageError("--ledger is for the owner; a policy names its own ledger.")


def _check_streams(*, reads_input: bool) -> None:
    """Refuse to run what no one could read: a lost answer costs as much as any other."""
    if reads_input and sys.stdin is None:
        raise CommandError('Standard input is closed; use -c "SQL".')
    try:
        if sys.stdout is None:
            raise OSError
        with contextlib.suppress(io.UnsupportedOperation):  # a program reads it, without a file
            os.write(sys.stdout.fileno(), b"")
    except OSError:
        raise CommandError(
            "Standard output is closed, so no answer could be read; open it."
        ) from None


def _run_input(shell: Shell, text: str, depth: int = 0) -> bool:
    """Run the statements and dot commands of a string, up to the first that fails."""
    for part in split_input(text):
        if HELP.fullmatch(part):
            shell.note("Write .help, with a dot: it lists the commands.")
            continue
        is_dot = part.startswith(".")
        succeeded = _run_dot(shell, part, depth) if is_dot else run_statement(shell, part)
        if not succeeded or shell.is_closing:
            return succeeded
    return True


def _run_dot(shell: Shell, line: str, depth: int) -> bool:
    try:
        more = run_meta_command(shell, line)
        shell.out.flush()
        if depth >= _MAX_DEPTH:
            raise CommandError(f"Files may read files at most {_MAX_DEPTH} deep.")
    except BrokenPipeError:
        raise
    except Exception as error:
        text = error_text(error, shell.session.connection, line)
        print(wrapped(text), file=sys.stderr, flush=True)
        return False
    return more is None or _run_input(shell, more, depth + 1)


def _check_prompt() -> None:
    """Say what to install before anything is opened."""
    try:
        import dp_sql.cli.shell.prompt  # noqa: F401
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"prompt_toolkit", "pygments"}:
            raise
        raise CommandError(
            f"A prompt needs prompt_toolkit and pygments: {install_command('shell')}. Without "
            'them, use -c "SQL".'
        ) from None


def _run_prompt(shell: Shell, database: str, policy: str | None, read_only: bool) -> None:
    """Read and run input until the user leaves."""
    from dp_sql.cli.shell.prompt import history_file, prompt_function

    name = visible("memory" if database == ":memory:" else Path(database).stem)
    role = "as its owner" + (", read-only" if read_only else "")
    if shell.session.analyst is not None:
        analyst = visible(shell.session.analyst)
        name, role = f"{analyst}@{name}", f"as {analyst} under a policy"
    read = prompt_function(shell, name, history_file(policy, shell.session.analyst))
    shell.note(f"{visible(database)}, {role}. End SQL with a semicolon; .help lists the commands.")
    while not shell.is_closing:
        try:
            text = read()
            if EXIT.fullmatch(text):
                break
            _run_input(shell, text)
        except KeyboardInterrupt:  # the line is cleared
            continue
        except EOFError:
            break
