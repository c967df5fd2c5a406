"""The command `dp-sql`: finds the subcommand, runs it, and turns errors into exit codes.

Exit codes: 0 all was done; 1 an error, a refusal or a failed check; 2 the command line is wrong.
Answers go to standard output, everything else to standard error.
"""

import os
import sys
from collections.abc import Sequence

import click

from dp_sql.cli.errors import error_text
from dp_sql.errors import guessed
from dp_sql.imports import imported

COMMANDS = {  # of each, the module whose `command` it is, and what it does
    "shell": ("dp_sql.cli.shell.main", "Query a database: at a prompt, with -c, or from a pipe."),
    "demo": ("dp_sql.cli.demo", "Show what dp_sql does, in a minute, on invented data."),
    "policy": ("dp_sql.cli.policy", "Draft a policy for a database, and check it."),
    "budget": ("dp_sql.cli.budget", "Show how much of a policy's budget is spent and left."),
    "ledger": ("dp_sql.cli.ledger", "List the events of a ledger, and verify it."),
    "serve": ("dp_sql.cli.serve", "Let analysts query a database from their own duckdb shell."),
    "token": ("dp_sql.cli.token", "Make, list and remove the tokens of `dp-sql serve`."),
}
_HELP = """\
Query a DuckDB database with differential privacy: SQL with DP_COUNT, DP_COUNT_DISTINCT,
DP_TOPK and more. Without COMMAND this is `dp-sql shell`.

\b
Examples:
  dp-sql demo
  dp-sql shop.duckdb
  dp-sql shop.duckdb -c "SELECT unnest(DP_TOPK(title, 10, epsilon := 1.0,
      privacy_unit := user_id, domain := catalog.title)) AS title FROM ratings"
  dp-sql shop.duckdb --json --receipts < questions.sql
  dp-sql policy init shop.duckdb -o policy.toml
  dp-sql shop.duckdb --policy policy.toml --as reporting
  dp-sql budget policy.toml
  dp-sql ledger verify policy.toml
  dp-sql serve shop.duckdb --policy policy.toml

Without --policy you are the owner: you may read and change everything in the database. With
--policy you are an analyst: you may run one SELECT at a time, and you get no private row. Each
DP call is one release and costs the epsilon written in it.
"""


class DefaultGroup(click.Group):
    """A group whose first command runs where the arguments do not begin with a command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the name of the default command before arguments that name none."""
        names = self.list_commands(ctx)
        is_named = args and args[0] in {*names, *ctx.help_option_names, "--version"}
        if not (is_named or ctx.resilient_parsing):  # the user's shell asks what can come here
            near = guessed(args[0], ["--help", *names]) if args and args[0].isalpha() else ""
            if near and not os.path.exists(args[0]):
                file = f"For a file of that name, write ./{args[0]}."
                raise click.UsageError(f"No such command {args[0]}. Did you mean {near}? {file}")
            args = [names[0], *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands as they were declared."""
        return list(self.commands)


class _Commands(DefaultGroup):
    """Each subcommand is imported when it runs; the list of them imports none."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found: click.Command | None = None
        if cmd_name in COMMANDS:
            found = imported(COMMANDS[cmd_name][0]).command
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> int:
        try:
            return int(super().invoke(ctx) or 0)
        except (click.ClickException, click.exceptions.Exit):
            raise
        except BrokenPipeError:
            # The reader of standard output has gone, as in `dp-sql … | head`.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except (Exception, KeyboardInterrupt) as error:
            print(error_text(error), file=sys.stderr, flush=True)
        return 1


@click.command(
    "dp-sql",
    cls=_Commands,
    help=_HELP,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
    subcommand_metavar="[COMMAND] …",
)
@click.version_option(package_name="dp-sql", message="dp-sql %(version)s")
def command() -> None:
    """Run a subcommand."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (by default that of this process); returns the exit code."""
    try:
        code = command.main(arguments and [*arguments], "dp-sql", standalone_mode=False)
        return int(code or 0)
    except click.ClickException as error:
        error.show()
        return 2
    except OSError as error:  # standard output cannot take the help
        print(error_text(error), file=sys.stderr)
        return 1
