"""The pages of the reference that the declarations in the code make."""

import re
from collections.abc import Iterator
from inspect import cleandoc
from textwrap import dedent

import click

from dp_sql.cli.main import command
from dp_sql.policy.budget_section import BudgetKeys, CapKeys
from dp_sql.policy.limits import Limits
from dp_sql.policy.model import ListKeys, PrivateTable, ScoreTable
from dp_sql.policy.parser import keys_of
from dp_sql.sql.functions import FUNCTIONS

SECTIONS = {
    "[tables.NAME]": PrivateTable, "[public]": ListKeys, "[views]": ListKeys,
    "[scores.NAME]": ScoreTable, "[limits]": Limits, "[budget]": BudgetKeys,
    "[budget.analysts.NAME]": CapKeys,
}  # fmt: skip
PYTHON = {  # the parts of the page about Python, and what each describes
    "Sessions": (
        "dp_sql.connect", "dp_sql.install", "dp_sql.receipts", "dp_sql.Session",
    ),
    "What a session returns": (
        "dp_sql.session.explain.Cost", "dp_sql.Receipt", "dp_sql.releases.Release",
    ),
    "DB-API": ("dp_sql.integrations.dbapi.connect",),
    "Errors": ("dp_sql.DpSqlError", "dp_sql.QueryError", "dp_sql.InternalError"),
    "Mechanisms": ("dp_sql.udfs.mechanism.Mechanism", "dp_sql.udfs.mechanism.PrivacyLoss"),
}  # fmt: skip


def pages() -> dict[str, str]:
    """The Markdown of each page, by its file name in docs/reference."""
    return {
        "functions.md": "".join(functions_page()),
        "policy_keys.md": "".join(policy_page()),
        "command_line.md": "".join(command_page()),
        "python.md": "".join(python_page()),
    }


def functions_page() -> Iterator[str]:
    """Every SQL function: its arguments, an example, its mechanisms."""
    yield "# All functions\n\n[The SQL functions](../sql.md) says what they return, and what "
    yield "[each argument](../sql.md#arguments) means.\n"
    for function in FUNCTIONS.values():
        yield f"\n## {function.name}\n\nReturns {function.purpose}.\n\n"
        yield f"```sql\nSELECT {function.example} FROM {function.table};\n```\n\n"
        yield f"- Required: {_code(function.required)}\n"
        yield f"- Optional: {_code(n for n in function.named if n not in function.required)}\n\n"
        yield "| `mechanism :=` | one run draws |\n|---|---|\n"
        for name, mechanism in function.mechanisms.items():
            default = " (default)" if name == function.default_mechanism else ""
            yield f"| `{name}`{default} | {mechanism.samples} |\n"


def policy_page() -> Iterator[str]:
    """Every key of a policy: what it takes and means."""
    yield "# All keys of a policy\n\n[The policy](../policy.md) explains them, with examples.\n"
    for section, keys in SECTIONS.items():
        yield f"\n## `{section}`\n\n| key | value | example | meaning |\n|---|---|---|---|\n"
        for name, key in keys_of(keys).items():
            needed = "; required" if key.required else ""
            example = f"`{key.example}`" if key.example else ""
            yield f"| `{name}` | {key.kind.words}{needed} | {example} | {key.doc} |\n"

    yield '\n## `[domains]`\n\nEach key is a column of a private table, `"ratings.title"`. '
    yield "Its value says where [values that answers may contain]"
    yield "(../policy.md#domains-values-that-answers-may-contain) come from.\n"


def command_page() -> Iterator[str]:
    """The help of dp-sql and of its subcommands, as text that a narrow screen can wrap."""
    yield "# The command line\n\nThis is what `--help` prints. "
    yield "[Sessions](../sessions.md#the-command-line) has examples.\n"
    for context in contexts(command, None, "dp-sql"):
        usage = " ".join([context.command_path, *context.command.collect_usage_pieces(context)])
        yield f"\n## `{context.command_path}`\n\nUsage: `{usage}`\n\n"
        yield from map(described, cleandoc(context.command.help or "").split("\n\n"))
        yield "| option | meaning |\n|---|---|\n"
        for option in context.command.get_params(context):
            names, meaning = option.get_help_record(context) or ("", "")
            if meaning:  # an argument has none
                yield f"| `{names}` | {_linked(meaning)} |\n"


def contexts(
    one: click.Command, parent: click.Context | None, name: str
) -> Iterator[click.Context]:
    """A command and its subcommands that `--help` lists."""
    context = click.Context(one, parent=parent, info_name=name, **one.context_settings)
    yield context
    if isinstance(one, click.Group):
        for inner in one.list_commands(context):
            found = one.get_command(context, inner)
            if found is not None and not found.hidden:
                yield from contexts(found, context, inner)


def described(paragraph: str) -> str:
    """A paragraph of a help; where click keeps the lines, a heading and commands."""
    if not paragraph.startswith("\b\n"):
        return f"{_linked(paragraph)}\n\n"
    lines = paragraph.splitlines()[1:]
    heading = "" if lines[0].startswith(" ") else f"{lines.pop(0)}\n\n"
    commands = dedent("\n".join(lines))
    return f"{heading}```sh\n{commands}\n```\n\n"


def _linked(text: str) -> str:
    return re.sub(r"docs/(\w+\.md)", r"[\g<0>](../\1)", text)


def python_page() -> Iterator[str]:
    """The public names, as mkdocstrings shows their docstrings."""
    yield "# Python\n\n[Sessions](../sessions.md) has examples. "
    yield "[Errors](../errors.md) says what to do about each error.\n"
    for part, names in PYTHON.items():
        yield f"\n## {part}\n\n" + "".join(f"::: {name}\n\n" for name in names)


def _code(names: Iterator[str] | tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)
