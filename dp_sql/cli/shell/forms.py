"""An answer as text: DuckDB's own table, CSV, JSON, Markdown, or one line for each value.

Knows relations and what they have in common; each is read exactly once, because reading one again
may run it again. Writes nothing itself.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from dp_sql.session.explain import COST_COLUMNS

MODES = ("table", "csv", "json", "markdown", "line")
_QUERY = ("SELECT", "FROM", "WITH", "VALUES")
_AT_ONCE = 1024
_MOST_ROWS = 40  # as DuckDB's shell shows
_NUMBER = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?\b|FLOAT|DOUBLE|DECIMAL")
# DuckDB writes these, which JSON does not have; within a text they are just words.
_NO_JSON = re.compile(r'("(?:[^"\\]|\\.)*")|-?(?:NaN|Infinity)')
Row = Sequence[str | None]


def is_silent(statement: str, relation: Any) -> bool:
    """Whether this is only DuckDB's note that a command was done (2.0 returns one, 1.5 none)."""
    asks = statement.lstrip("( \n\t")[:6].upper().startswith(_QUERY)
    return not asks and relation.columns in (["Count"], ["Success"])


def rendered(relation: Any, mode: str, width: int | None) -> Iterator[str]:
    """An answer in one of the MODES, part by part.

    Args:
        relation: what `session.sql` returned; read once.
        mode: one of MODES.
        width: of the terminal, for tables; None where there is none.
    """
    if mode == "csv":
        return _csv(relation)
    if mode == "json":
        return _json(relation)
    if mode == "markdown":
        return _markdown(relation)
    if mode == "line":
        return _lines(relation)
    return _table(relation, width)


def _table(relation: Any, width: int | None) -> Iterator[str]:
    if relation.columns == ["explain_key", "explain_value"]:
        yield "".join(f"{value}\n" for _, value in relation.fetchall())
    elif relation.columns == list(COST_COLUMNS):
        for row in relation.fetchall():
            told = [f"{name:<18}{value}" for name, value in zip(COST_COLUMNS, row, strict=True)]
            yield "".join(f"{line}\n" for line in told if line.split(None, 1)[1:])
    else:
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            if width is None:
                relation.show()
            else:
                relation.show(max_width=width, max_rows=_MOST_ROWS)
        yield shown.getvalue().rstrip("\n") + "\n"


def _csv(relation: Any) -> Iterator[str]:
    yield _csv_line(relation.columns)
    for some in _texts(relation):
        yield "".join(map(_csv_line, some))


def _csv_line(row: Row) -> str:
    """One line as DuckDB writes it: an empty text is quoted, NULL is nothing."""
    return ",".join("" if value is None else _csv_value(value) for value in row) + "\n"


def _csv_value(value: str) -> str:
    if value and not re.search(r'[,"\r\n]', value) and value.strip(" ") == value:
        return value
    return '"' + value.replace('"', '""') + '"'


def _json(relation: Any) -> Iterator[str]:
    yield "["
    between = ""
    whole = "__dp_row"  # a column of this name would be read in place of the row
    while whole in {name.lower() for name in relation.columns}:
        whole += "_"
    rows = relation.set_alias(whole).project(f"to_json({whole})::VARCHAR")
    for some in _batches(rows):
        for (row,) in some:
            yield between + _NO_JSON.sub(lambda m: m[1] or "null", row)
            between = ",\n"
    yield "]\n"


def _markdown(relation: Any) -> Iterator[str]:
    yield _markdown_line(relation.columns)
    numbers = [_NUMBER.match(str(kind)) is not None for kind in relation.types]
    yield _markdown_line(["---:" if number else "---" for number in numbers])
    for some in _texts(relation):
        yield "".join(map(_markdown_line, some))


def _markdown_line(row: Row) -> str:
    cells = ("NULL" if value is None else _markdown_value(value) for value in row)
    return f"| {' | '.join(cells)} |\n"


def _markdown_value(value: str) -> str:
    """A value as a cell: a backslash before a pipe is doubled, else it would free the pipe."""
    escaped = re.sub(r"(\\*)\|", r"\1\1\\|", value)
    return re.sub(r"\r\n?|\n", "<br>", escaped)


def _lines(relation: Any) -> Iterator[str]:
    names = relation.columns
    longest = max(map(len, names))
    between = ""
    for some in _texts(relation):
        for row in some:
            values = zip(names, row, strict=True)
            lines = [f"{name:>{longest}} = {_line_value(value)}\n" for name, value in values]
            yield between + "".join(lines)
            between = "\n"


def _line_value(value: str | None) -> str:
    return "NULL" if value is None else value.replace("\n", "\\n")


def _texts(relation: Any) -> Iterator[Sequence[Row]]:
    """The rows, each value as DuckDB writes it."""
    return _batches(relation.project("CAST(COLUMNS(*) AS VARCHAR)"))


def _batches(relation: Any) -> Iterator[Sequence[Any]]:
    """The rows of one reading, some at a time; 2.0 has no fetchmany and 1.5 no iter_rows."""
    if hasattr(relation, "iter_rows"):
        rows = iter(relation.iter_rows(_AT_ONCE))
        while some := list(islice(rows, _AT_ONCE)):
            yield some
        return
    while some := relation.fetchmany(_AT_ONCE):
        yield some
