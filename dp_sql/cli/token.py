"""`dp-sql token`: the tokens by which `dp-sql serve` knows its analysts."""

import contextlib
import sys
from pathlib import Path

import click

from dp_sql.budget.model import name_of
from dp_sql.errors import PolicyError
from dp_sql.server.access_tokens import add_token, read_tokens, remove_token, tokens_beside

_HELP = """\
Make, list and remove the tokens that identify analysts to `dp-sql serve`.

A token lets its holder query as one analyst. It is shown once, when it is made; the file keeps
only a hash of it. With --policy policy.toml the file is policy.tokens, in the policy's folder. A
running server sees every change at the next query.

\b
Examples:
  dp-sql token add reporting --policy policy.toml
  dp-sql token list --policy policy.toml
  dp-sql token remove reporting --policy policy.toml
"""


@click.group("token", help=_HELP, no_args_is_help=False)
def command() -> None:
    """Run one of the commands below."""


_name = click.argument("name", metavar="NAME")
_policy = click.option("--policy", metavar="FILE", help="The policy that the tokens belong to.")
_file = click.option("--file", metavar="FILE", help="The file of the tokens itself.")


@command.command("add")
@_name
@_policy
@_file
def _add(name: str, policy: str | None, file: str | None) -> None:
    """Make a token for the analyst NAME, and print it once."""
    print(add_token(_path(policy, file), name))
    print(f"This is the token of {name_of(name)}; it is not shown again.", file=sys.stderr)
    if policy is not None:
        tell_unlisted(policy, name)


@command.command("list")
@_policy
@_file
def _list(policy: str | None, file: str | None) -> None:
    """List who has a token, and since when."""
    for token in read_tokens(_path(policy, file)):
        print(f"{token.analyst}\t{token.added}")


@command.command("remove")
@_name
@_policy
@_file
def _remove(name: str, policy: str | None, file: str | None) -> None:
    """Remove the token of the analyst NAME. Queries with it are refused from then on."""
    remove_token(_path(policy, file), name)


def tell_unlisted(policy: str, name: str) -> None:
    """Say so where a policy has caps of single analysts, and none of this one."""
    from dp_sql.policy.model import read_policy

    with contextlib.suppress(PolicyError):  # which serving reports
        budget = read_policy(policy).budget
        if budget is not None and budget.analysts and name_of(name) not in budget.analysts:
            print(
                f"[budget.analysts] of {policy} does not list {name_of(name)}, who may spend all "
                f"that is left of the budget. It lists {', '.join(sorted(budget.analysts))}.",
                file=sys.stderr,
            )


def _path(policy: str | None, file: str | None) -> Path:
    if (policy is None) == (file is None):
        raise click.UsageError("Give either --policy FILE or --file FILE.")
    path = tokens_beside(policy or "") if file is None else Path(file)
    if not path.name:
        raise PolicyError("The tokens are in a file: --file policy.tokens")
    if policy is not None and not Path(policy).is_file():  # the server would read other tokens
        raise PolicyError(f"There is no policy {policy}.")
    return path
