"""The command line: `dp-sql DATABASE -c "SQL"`. Knows people and their terminals, and the session.

Prints what DuckDB would print. Errors go to stderr with a caret; the exit code is 0 or 1.
`dp-sql shell …` is in repl.py, `dp-sql policy …` in shell_policy.py, `dp-sql budget …` and
`dp-sql ledger …` in shell_budget.py.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from dp_sql.cli import budget as shell_budget
from dp_sql.cli import policy as shell_policy
from dp_sql.cli.serve import main_serve
from dp_sql.cli.shell.ask import prepare
from dp_sql.cli.shell.errors import in_full
from dp_sql.cli.shell.forms import is_silent, rendered
from dp_sql.cli.shell.main import add_options, main_shell, opened
from dp_sql.cli.shell.pieces import statement_texts
from dp_sql.server.tokens import main_token
from dp_sql.session.base import Session

_EPILOG = """\
examples:
  dp-sql shop.duckdb -c "SELECT count(*) FROM ratings"
  dp-sql shop.duckdb -c "SELECT unnest(DP_TOPK(title, 10, epsilon := 1.0,
      privacy_unit := user_id, domain := catalog.title)) AS title FROM ratings"
  dp-sql shop.duckdb --json -c "SELECT DP_COUNT_DISTINCT(title, epsilon := 1.0,
      privacy_unit := user_id, report := true) AS titles FROM ratings"
  dp-sql shop.duckdb --receipts < questions.sql
  dp-sql shell shop.duckdb          (a prompt; see dp-sql shell --help)
  dp-sql policy init shop.duckdb    (a policy for analysts; see dp-sql policy --help)
  dp-sql shop.duckdb --policy policy.toml --as reporting -c "SHOW TABLES"
  dp-sql budget policy.toml         (what is spent, and what is left)
  dp-sql ledger verify policy.toml  (is the book of it whole?)

Without --policy this is the owner's connection: it may read and change everything in DATABASE.
With --policy it is an analyst's: one SELECT at a time, and no private row can be reached.
Each DP call is one release and costs the epsilon written in it.
"""


_COMMANDS = {
    "shell": main_shell,
    "serve": main_serve,
    "token": main_token,
    "policy": shell_policy.main,
    "budget": shell_budget.main_budget,
    "ledger": shell_budget.main_ledger,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given[:1] and given[0] in _COMMANDS:
        return _COMMANDS[given[0]](given[1:])
    options = _parser().parse_args(given)
    text = options.command if options.command is not None else _standard_input()
    if text is None:
        _parser().print_usage(sys.stderr)
        print("dp-sql: no SQL given; use -c or standard input, or dp-sql shell", file=sys.stderr)
        return 1
    try:
        session = _connected(options)
    except Exception as error:
        return _fail(error)
    with session:
        return _answer(session, text, options)


def _connected(options: argparse.Namespace) -> Session:
    session = opened(options)
    prepare(session)
    return session


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dp-sql",
        description="Ask a DuckDB database in SQL, with DP_TOPK, DP_COUNT_DISTINCT and DP_SELECT.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "-c", "--command", metavar="SQL",
        help="the statements to run; without it they are read from standard input",
    )  # fmt: skip
    add_options(parser)
    return parser


def _standard_input() -> str | None:
    return None if sys.stdin.isatty() else sys.stdin.read()


def _answer(session: Session, text: str, options: argparse.Namespace) -> int:
    told = 0
    for statement in statement_texts(text):
        try:
            relation = session.sql(statement)
            if relation is not None and not is_silent(statement, relation):
                for part in rendered(relation, options.mode, None):
                    sys.stdout.write(part)
                sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        except (Exception, KeyboardInterrupt) as error:
            sys.stdout.flush()
            return _fail(error, session, statement)
        if options.receipts:
            for receipt in session.receipts[told:]:
                print(receipt, file=sys.stderr)
            told = len(session.receipts)
    return 0


def _fail(error: BaseException, session: Session | None = None, statement: str = "") -> int:
    print(in_full(error, session, statement), file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
