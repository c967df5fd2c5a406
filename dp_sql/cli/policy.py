"""`dp-sql policy`: draft a policy for a database, and check a policy against one."""

import contextlib
import re
import sys
from collections.abc import Iterator, Sequence
from functools import partial

import click

from dp_sql.cli.errors import CommandError
from dp_sql.engines.duckdb.introspection import opened
from dp_sql.engines.duckdb.private_connection import PrivateConnection
from dp_sql.engines.duckdb.spill import spill_advice
from dp_sql.errors import NotPrivate
from dp_sql.policy.budget_section import advice
from dp_sql.policy.model import UNNAMED, Policy, read_policy
from dp_sql.policy.owners_catalog import CatalogEntry
from dp_sql.policy.parser import dotted
from dp_sql.policy.template import draft
from dp_sql.policy.validation import (
    hidden,
    hidden_labels,
    missing_folders,
    other_links,
    problems,
    work_lines,
)
from dp_sql.privacy.refusals import Unbound
from dp_sql.privacy.relations.base_tables import as_noted
from dp_sql.privacy.relations.policy_tables import PolicyTables
from dp_sql.privacy.relations.source_compiler import Compiler
from dp_sql.sql.sqlglot_tree import Unreadable, tree_of
from dp_sql.sql.tokens import name_parts

_HELP = """\
Draft and check the policy of a database.

A policy says what analysts may query: which tables hold people's rows, which column identifies
the person, which tables are public, which values an answer may contain, and how much one query
may cost.

\b
Examples:
  dp-sql policy init shop.duckdb -o policy.toml
  dp-sql policy check policy.toml shop.duckdb

A database file named policy is opened as ./policy.
"""


_NO_TABLE = re.compile(r"There is no table (.*)\.")


@click.group("policy", help=_HELP, no_args_is_help=False)
def command() -> None:
    """Run one of the commands below."""


@command.command("init", short_help="Draft a policy for a database.")
@click.argument("database", metavar="DATABASE")
@click.option(
    "-o", "--output", metavar="FILE",
    help="Write it to FILE, which must not exist yet (default: standard output).",
)  # fmt: skip
def _init(database: str, output: str | None) -> None:
    """Write a policy for DATABASE, to be finished in an editor.

    Foreign keys, primary keys and names that look like a person's id (user_id, customer_id, …)
    suggest which person each row belongs to; check it. Where there is a choice the draft has "?",
    and the policy is not valid before you replace each of them. Tables that nothing connects with
    people stay hidden until you name them. Nothing is made public, and no row is read.
    """
    with opened(database) as catalog:
        text = draft(catalog)
    if output is None:
        sys.stdout.write(text)
        return
    try:
        with open(output, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise CommandError(f"{output} exists already; it was not changed.") from None
    unanswered = text.count(f'privacy_unit = "{UNNAMED}"')
    tables = "1 table still needs" if unanswered == 1 else f"{unanswered} tables still need"
    open_ones = f'. {tables} an answer ("{UNNAMED}")' if unanswered else ""
    print(f"{output} is written{open_ones}.")
    print(f"When it is finished: dp-sql policy check {output} {database}")


@command.command("check")
@click.argument("policy", metavar="POLICY")
@click.argument("database", metavar="DATABASE")
def _check(policy: str, database: str) -> int:
    """Check a policy against its database.

    This checks that POLICY can be read and fits DATABASE: its tables, columns and types; the links
    that lead to one person each; the columns that are unique_per_person; the domains.

    For the owner: it reads rows to check, and says what is wrong without naming anyone.
    """
    if database.endswith(".toml") and not policy.endswith(".toml"):
        message = f"The policy comes first: dp-sql policy check {database} {policy}"
        raise CommandError(message)
    read = read_policy(policy)
    with opened(database) as catalog:
        # It refuses files that cannot be read as one.
        catalog.pinned([*read.tables, *read.scores], read.public)
        wrong, unnamed = problems(read, catalog), hidden(read, catalog)
        wrong += missing_folders(read)
        work = [] if wrong else list(work_lines(read, catalog))
        enums, listed = hidden_labels(read, catalog), catalog.listed()
        links = [] if wrong else [*other_links(read, catalog)]
    for problem in wrong:
        print(f"{policy}, {problem}", file=sys.stderr)
    if wrong:
        return 1
    private, public, views = len(read.tables), len(read.public), len(read.views)
    scores = f", {len(read.scores)} of scores" if read.scores else ""
    print(f"{policy} fits {database}: {private} private, {public} public, {views} views{scores}.")
    if unnamed:
        print(f"Hidden from analysts, because the policy does not name them: {', '.join(unnamed)}")
    for column in enums:
        print(
            f"{column} is an ENUM whose labels analysts do not see. If the labels are public, "
            f'write [domains] "{column}" = "enum".'
        )
    for sentence in links:
        print(sentence)
    for view, why in _unusable(read, database, listed):
        print(f"Analysts cannot use the view {view}: {why}")
    ledger = None if read.budget is None else read.budget.ledger
    for sentence in [*work, *spill_advice(read.limits, ledger), *advice(read.budget)]:
        print(sentence)
    return 0


def _unusable(
    policy: Policy, database: str, listed: Sequence[CatalogEntry]
) -> Iterator[tuple[str, str]]:
    """The listed views that are not provably person-level, and why."""
    if not policy.views:
        return
    with contextlib.closing(PrivateConnection(database)) as schema:
        tables = PolicyTables(schema, policy)
        for name in sorted(policy.views):
            try:
                inside, body = Compiler(tables.inside(name)), tree_of(tables.view(name) or "")
                as_noted(partial(inside.query, body), inside.tables)
            except (NotPrivate, Unbound) as refusal:
                found = _NO_TABLE.fullmatch(refusal.message)
                parts = found and name_parts(found[1])
                several = [dotted(r.parts[1:]) for r in listed if parts and r.is_called(parts)]
                named = f"{found and found[1]} may mean {' or '.join(several)}; name its schema."
                yield dotted(name), named if len(several) > 1 else refusal.message
            except Unreadable:
                yield dotted(name), "dp_sql cannot read it."
