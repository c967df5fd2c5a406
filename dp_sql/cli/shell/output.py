"""Results as text: DuckDB's own table, CSV, JSON, Markdown, or one line for each value.

Each relation is read exactly once, because reading it again may run it again.
"""

import contextlib
import io
import re
from collections.abc import Iterator, Sequence
from typing import Any

_BATCH = 1024
_NUMBER = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?\b|FLOAT|DOUBLE|DECIMAL")
# DuckDB writes these, which JSON does not have; within a string they are just words.
_NO_JSON = re.compile(r'("(?:[^"\\]|\\.)*")|-?(?:NaN|Infinity)')
Row = Sequence[str | None]


def is_status(statement: str, relation: Any) -> bool:
    """Whether a relation only says that a command is done (2.0 returns one, 1.5 none)."""
    is_query = statement.lstrip("( \n\t").upper().startswith(("SELECT", "FROM", "WITH", "VALUES"))
    return not is_query and relation.columns in (["Count"], ["Success"])


def render(relation: Any, mode: str, width: int | None) -> Iterator[str]:
    """A result in one of the MODES, part by part; `width` is the terminal's, if there is one."""
    return _table(relation, width) if mode == "table" else MODES[mode](relation)


def _table(relation: Any, width: int | None = None) -> Iterator[str]:
    if relation.columns == ["explain_key", "explain_value"]:
        yield "".join(f"{value}\n" for _, value in relation.fetchall())
    else:
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            # As many rows as in DuckDB's shell.
            relation.show(**({} if width is None else {"max_width": width, "max_rows": 40}))
        yield shown.getvalue().rstrip("\n") + "\n"


def _csv(relation: Any) -> Iterator[str]:
    yield _csv_line(relation.columns)
    yield from map(_csv_line, _strings(relation))


def _csv_line(row: Row) -> str:
    """A line as DuckDB writes it: an empty string is quoted, NULL is nothing."""
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
    for (row,) in _rows(relation.set_alias(whole).project(f"to_json({whole})::VARCHAR")):
        yield between + _NO_JSON.sub(lambda m: m[1] or "null", row)
        between = ",\n"
    yield "]\n"


def _markdown(relation: Any) -> Iterator[str]:
    yield _markdown_line(relation.columns)
    yield _markdown_line(["---:" if _NUMBER.match(str(t)) else "---" for t in relation.types])
    yield from map(_markdown_line, _strings(relation))


def _markdown_line(row: Row) -> str:
    """The values as cells: a backslash before a pipe is doubled, else it would free the pipe."""
    cells = (re.sub(r"(\\*)\|", r"\1\1\\|", "NULL" if v is None else v) for v in row)
    line = " | ".join(re.sub(r"\r\n?|\n", "<br>", cell) for cell in cells)
    return f"| {line} |\n"


def _lines(relation: Any) -> Iterator[str]:
    names = relation.columns
    longest = max(map(len, names))
    between = ""
    for row in _strings(relation):
        values = ("NULL" if v is None else v.replace("\n", "\\n") for v in row)
        pairs = zip(names, values, strict=True)
        yield between + "".join(f"{name:>{longest}} = {value}\n" for name, value in pairs)
        between = "\n"


MODES = {"table": _table, "csv": _csv, "json": _json, "markdown": _markdown, "line": _lines}


def _strings(relation: Any) -> Iterator[Row]:
    """The rows, each value as the string that DuckDB writes."""
    return _rows(relation.project("CAST(COLUMNS(*) AS VARCHAR)"))


def _rows(relation: Any) -> Iterator[Any]:
    """The rows, read once, in batches; 2.0 has no fetchmany and 1.5 no iter_rows."""
    if hasattr(relation, "iter_rows"):
        yield from relation.iter_rows(_BATCH)
    else:
        while batch := relation.fetchmany(_BATCH):
            yield from batch
