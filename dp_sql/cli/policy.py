"""The command line's `dp-sql policy …`: draft a policy for a database, and check one against it.

What is asked for goes to standard output, what is wrong to standard error; the exit code is 0 or 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from dp_sql.engines.duckdb.introspection import opened
from dp_sql.engines.duckdb.spill import spill_advice
from dp_sql.errors import DpSqlError
from dp_sql.policy.budget_section import advice
from dp_sql.policy.model import UNNAMED, read_policy
from dp_sql.policy.template import draft
from dp_sql.policy.validation import hidden, hidden_labels, problems
from dp_sql.policy.work import work_lines

_EPILOG = """\
examples:
  dp-sql policy init shop.duckdb -o policy.toml
  dp-sql policy check policy.toml shop.duckdb

A policy says what analysts may ask: which tables hold people's rows and whose each row is,
which are public, which values may be answered, and how much one query may ask.
A database file that is called policy is opened as ./policy.
"""
_INIT = """\
Writes a policy for DATABASE to be finished in an editor. Every table is private. A column
that is called like a person's id (user_id, customer_id, …) is proposed, to be checked;
elsewhere stands "?", and no policy is valid before each is answered.
Reads the names of tables and columns, and no row.
"""
_CHECK = """\
Tells whether POLICY can be read and fits DATABASE: tables, columns and types; links that
lead to one person each; columns that are unique_per_person; domains that can be items.
For the owner: it reads rows to find out, and tells what is not true, not of whom.
"""


def main(arguments: Sequence[str]) -> int:
    """Run `dp-sql policy` with what follows these words; returns the exit code."""
    parser = _parser()
    if arguments[:1] not in (["init"], ["check"], ["-h"], ["--help"]):
        parser.error("say init or check; a database file called policy is opened as ./policy")
    options = parser.parse_args(arguments)
    try:
        if options.action == "init":
            return _init(options.database, options.output)
        return _check(options.policy, options.database)
    except DpSqlError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    except Exception as error:
        print(error, file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="dp-sql policy",
        description="Draft and check the policy of a database.",
        epilog=_EPILOG,
        formatter_class=form,
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="{init,check}")
    init = actions.add_parser(
        "init", help="draft a policy for a database", description=_INIT, formatter_class=form
    )
    init.add_argument("database", metavar="DATABASE", help="a DuckDB file; it is only read")
    init.add_argument(
        "-o", "--output", metavar="FILE",
        help="where to write it; a file that is there is left alone (default: standard output)",
    )  # fmt: skip
    check = actions.add_parser(
        "check", help="check a policy and its database", description=_CHECK, formatter_class=form
    )
    check.add_argument("policy", metavar="POLICY", help="a policy file")
    check.add_argument("database", metavar="DATABASE", help="a DuckDB file; it is only read")
    return parser


def _init(database: str, output: str | None) -> int:
    with opened(database) as catalog:
        text = draft(catalog)
    if output is None:
        sys.stdout.write(text)
        return 0
    try:
        with open(output, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        print(f"{output} is there already; it is left as it is.", file=sys.stderr)
        return 1
    unanswered = text.count(f'privacy_unit = "{UNNAMED}"')
    print(f'{output} is written; {unanswered} tables wait for an answer ("{UNNAMED}").')
    print(f"When it is finished: dp-sql policy check {output} {database}")
    return 0


def _check(path: str, database: str) -> int:
    policy = read_policy(path)
    with opened(database) as catalog:
        wrong, unnamed = problems(policy, catalog), hidden(policy, catalog)
        work = [] if wrong else list(work_lines(policy, catalog))
        enums = hidden_labels(policy, catalog)
    for problem in wrong:
        print(f"{path}, {problem}", file=sys.stderr)
    if wrong:
        return 1
    counts = (len(policy.tables), len(policy.public), len(policy.views))
    print("{} fits {}: private {}, public {}, views {}.".format(path, database, *counts))
    if unnamed:
        print(f"Hidden from analysts, as it does not name them: {', '.join(unnamed)}")
    for column in enums:
        print(
            f"{column} is an ENUM whose labels analysts do not see. If the labels are public, "
            f'write [domains] "{column}" = "enum".'
        )
    ledger = None if policy.budget is None else policy.budget.ledger
    for sentence in [*work, *spill_advice(policy.limits, ledger), *advice(policy.budget)]:
        print(sentence)
    return 0
