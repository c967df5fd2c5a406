"""The command line: `dp-sql DATABASE -c "SQL"`. Knows people and their terminals, and the session.

Prints what DuckDB would print. Errors go to stderr with a caret; the exit code is 0 or 1.
`dp-sql policy …` is in shell_policy.py, `dp-sql budget …` and `dp-sql ledger …` in shell_budget.py.
"""

from __future__ import annotations

import argparse
import csv
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dp_sql import shell_budget, shell_policy
from dp_sql.errors import DpSqlError, ParseError
from dp_sql.explained import COST_COLUMNS
from dp_sql.guarded import GuardedSession
from dp_sql.parse import statements
from dp_sql.session import Session, connect

_EPILOG = """\
examples:
  dp-sql shop.duckdb -c "SELECT count(*) FROM ratings"
  dp-sql shop.duckdb -c "SELECT unnest(DP_TOPK(title, 10, epsilon := 1.0,
      privacy_unit := user_id, domain := catalog.title)) AS title FROM ratings"
  dp-sql shop.duckdb --json -c "SELECT DP_COUNT_DISTINCT(title, epsilon := 1.0,
      privacy_unit := user_id, report := true) AS titles FROM ratings"
  dp-sql shop.duckdb --receipts < questions.sql
  dp-sql policy init shop.duckdb    (a policy for analysts; see dp-sql policy --help)
  dp-sql shop.duckdb --policy policy.toml --as reporting -c "SHOW TABLES"
  dp-sql budget policy.toml         (what is spent, and what is left)
  dp-sql ledger verify policy.toml  (is the book of it whole?)

Without --policy this is the owner's connection: it may read and change everything in DATABASE.
With --policy it is an analyst's: one SELECT at a time, and no private row can be reached.
Each DP call is one release and costs the epsilon written in it.
"""


_COMMANDS = {
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
        print("dp-sql: no SQL given; use -c or standard input", file=sys.stderr)
        return 1
    try:
        session = _connected(options)
    except Exception as error:
        return _fail(error)
    with session:
        return _answer(session, text, options)


def _connected(options: argparse.Namespace) -> Session | GuardedSession:
    session: Session | GuardedSession = connect(
        options.database,
        read_only=options.read_only,
        policy=options.policy,
        analyst=options.analyst,
        ledger=options.ledger,
    )
    return session


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dp-sql",
        description="Ask a DuckDB database in SQL, with DP_TOPK, DP_COUNT_DISTINCT and DP_SELECT.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "database", nargs="?", default=":memory:", metavar="DATABASE",
        help="a DuckDB file, or :memory: (the default)",
    )  # fmt: skip
    parser.add_argument(
        "-c", "--command", metavar="SQL",
        help="the statements to run; without it they are read from standard input",
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
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="print results as CSV with a header")
    form.add_argument("--json", action="store_true", help="print results as a JSON array of rows")
    parser.add_argument(
        "--receipts", action="store_true",
        help="print the receipt of each release to standard error",
    )  # fmt: skip
    return parser


def _standard_input() -> str | None:
    return None if sys.stdin.isatty() else sys.stdin.read()


def _answer(session: Session | GuardedSession, text: str, options: argparse.Namespace) -> int:
    told = 0
    for statement in _statements(text):
        try:
            relation = session.sql(statement)
            if relation is not None and not _silent(statement, relation):
                _print(relation, options)
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


def _statements(text: str) -> list[str]:
    try:
        return [text[part[0].start : part[-1].end] for part in statements(text)]
    except ParseError:
        return [text]  # the session says what is wrong with it


def _silent(statement: str, relation: Any) -> bool:
    """Whether this is only DuckDB's note that a command was done (2.0 returns one, 1.5 none)."""
    asks = statement.lstrip("( \n\t")[:6].upper().startswith(("SELECT", "FROM", "WITH", "VALUES"))
    return not asks and relation.columns in (["Count"], ["Success"])


def _print(relation: Any, options: argparse.Namespace) -> None:
    if options.csv and options.policy is not None:  # the public side writes no files
        rows = csv.writer(sys.stdout, lineterminator="\n")
        rows.writerow(relation.columns)
        rows.writerows(relation.project("CAST(COLUMNS(*) AS VARCHAR)").fetchall())
    elif options.csv:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.csv"
            relation.write_csv(str(path), header=True)
            sys.stdout.write(path.read_text(encoding="utf-8"))
    elif options.json:
        rows = relation.set_alias("__dp_row").project("to_json(__dp_row)::VARCHAR").fetchall()
        print("[" + ",\n".join(row[0] for row in rows) + "]")
    elif relation.columns == ["explain_key", "explain_value"]:
        print("\n".join(value for _, value in relation.fetchall()))
    elif relation.columns == list(COST_COLUMNS):
        for row in relation.fetchall():
            told = [f"{name:<18}{value}" for name, value in zip(COST_COLUMNS, row, strict=True)]
            print("\n".join(line for line in told if line.split(None, 1)[1:]))
    else:
        relation.show()
    sys.stdout.flush()


def _fail(
    error: BaseException, session: Session | GuardedSession | None = None, statement: str = ""
) -> int:
    if isinstance(error, KeyboardInterrupt):
        print("Interrupted.", file=sys.stderr)
        return 1
    if isinstance(error, DpSqlError):
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    else:
        located = _located(error, session, statement) if isinstance(session, Session) else None
        print(located or str(error), file=sys.stderr)
    return 1


def _located(error: BaseException, session: Session, statement: str) -> str | None:
    """DuckDB's message with its caret, where a relation's error came without one.

    DuckDB 2.0 leaves it out there; EXPLAIN, which only binds, says it, one line further down.
    """
    if "^" in str(error):
        return None
    try:
        session.connection.execute(f"EXPLAIN\n{statement}")
    except Exception as again:
        text = str(again)
        if "^" not in text or text.split("\n", 1)[0] != str(error).split("\n", 1)[0]:
            return None
        return re.sub(
            r"LINE (\d+):", lambda m: f"LINE {int(m[1]) - 1}:".ljust(len(m[0])), text, count=1
        )
    return None


if __name__ == "__main__":
    sys.exit(main())
