"""Rows as exact CSV or JSON on standard output, for scripts: no float rounds a number."""

import csv
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any, TypeVar

import click

from dp_sql.sql.formatting import literal

Cell = str | int | Fraction | None
_F = TypeVar("_F", bound=Callable[..., Any])


def format_options(command: _F) -> _F:
    """Add --csv and --json to a command, as its parameter `form`."""
    as_json = click.option("--json", "form", flag_value="json", help="Print a JSON array.")
    as_csv = click.option("--csv", "form", flag_value="csv", help="Print CSV with a header.")
    return as_csv(as_json(command))


def print_rows(names: Sequence[str], rows: Iterable[Sequence[Cell]], form: str) -> None:
    """Print rows as they come; `form` is "csv" or "json"."""
    if form == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(map(cell_text, row) for row in rows)
        return
    start = "["
    for row in rows:
        shown = (
            literal(v) if isinstance(v, Fraction) else json.dumps(v, ensure_ascii=False)
            for v in row
        )
        pairs = (f"{json.dumps(name)}: {v}" for name, v in zip(names, shown, strict=True))
        print(start + "{" + ", ".join(pairs) + "}", end="")
        start = ",\n"
    print("]" if start != "[" else "[]")


def cell_text(value: Cell) -> str:
    """A value as text; nothing for None."""
    if value is None:
        return ""
    return literal(value) if isinstance(value, Fraction) else str(value)
