"""DuckDB's errors over public data, as users of dp_sql read them."""

import re

import duckdb

from dp_sql.errors import SourceError

_KIND = re.compile(r"^(Binder|Catalog|Parser|Conversion) Error: ")
_OFFERED = re.compile(r'"([^"\s]+)"')


def source_error(error: duckdb.Error, *, offers: bool = True) -> SourceError:
    """DuckDB's error over public data as a SourceError: its first line.

    `offers`: also the names that DuckDB proposes, among all in the database.
    """
    first, _, rest = str(error).strip().partition("\n")
    listed = rest.partition("\n\n")[0] if offers else ""
    names = [
        name
        for name in ([] if "Candidate functions" in listed else _OFFERED.findall(listed))
        if not name.startswith(("pg_", "sqlite_", "duckdb_"))
        and not any(written in first for written in (f" {name} ", f'"{name}"'))
    ]
    hint = f"Did you mean {' or '.join(names)}?" if names else None
    found = SourceError(_KIND.sub("", first) or type(error).__name__, hint=hint)
    found.names = names
    return found
