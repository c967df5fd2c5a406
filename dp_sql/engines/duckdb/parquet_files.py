"""Tables that are parquet files: which views are, a folder as a database, and files that change.

A view that is nothing but a scan of parquet files is a table for the policy. Each of its rows is a
row of a file, so a privacy unit says as much of it as of a table. Other views are not: a query may
mix the rows of several people.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb

from dp_sql.errors import NotSupported, PolicyError
from dp_sql.privacy.catalog import view_body
from dp_sql.sql.formatting import literal, quote

_STRING = r"'(?:[^']|'')*'"
_SETTING = r"(?:true|false|[01]|CAST\('[tf]' AS BOOLEAN\))"
_OPTION = rf"\(?(?:hive_partitioning|hive_types_autocast|can_have_nan) = {_SETTING}\)?"
_LIST = rf"(?:main\.)?list_value\({_STRING}(?:, {_STRING})*\)"
# As DuckDB 1.5 and 2.0 write the SQL of a view.
_SCAN = re.compile(
    rf"SELECT \* FROM (?:(?:read_parquet|parquet_scan)\((?P<files>{_STRING}|{_LIST})"
    rf'(?:, {_OPTION}){{0,3}}\)|"(?P<file>[^"]+\.parquet)")',
    re.DOTALL,
)
# The columns of each file, as a tree in the file's order. Files of one table must agree: DuckDB
# takes the order and the names of the first one, and would fail, or change values, only when it
# comes to the file that differs. Either may be one person's.
_DIFFERENT = """
    SELECT system.main.count(DISTINCT columns) FROM (
        SELECT system.main.list(row(name, duckdb_type, num_children, repetition_type = 'REPEATED',
            CASE WHEN num_children > 0 THEN row(converted_type, logical_type) END)
            ORDER BY column_id) AS columns
        FROM parquet_schema($1) WHERE column_id > 0 GROUP BY file_name)
"""
# With this key in its metadata, a file has GEOMETRY where others have BLOB.
_GEO = """
    SELECT coalesce(system.main.bool_or(key = 'geo'::BLOB), false) FROM parquet_kv_metadata($1)
"""


# Its name, its SQL, and the paths or patterns of its files.
ParquetTable = tuple[str, str, tuple[str, ...]]
_File = tuple[str, int, int, int, int]  # name, device, inode, size and time of change
_READABLE: set[tuple[_File, ...]] = set()  # files that this process has read to their end


def files_of(view_sql: str) -> tuple[str, ...]:
    """The paths or patterns that a view reads, if it is a scan of parquet files; else none."""
    body = " ".join((view_body(view_sql) or "").split())
    found = _SCAN.fullmatch(body)
    if found is None:
        return ()
    if found["file"] is not None:
        return (found["file"],)
    return tuple(s[1:-1].replace("''", "'") for s in re.findall(_STRING, found["files"]))


def folder_views(folder: str) -> list[str]:
    """SQL that makes a view of each parquet file of a folder, and of each subfolder with some."""
    root = Path(folder).resolve()
    if re.search(r"[*?\[]", str(root)):
        raise NotSupported(f"DuckDB would read {root} as a pattern: rename the folder.")
    found: dict[str, str] = {}
    for entry in sorted(root.iterdir()):
        is_folder = entry.is_dir() and next(entry.rglob("*.parquet"), None) is not None
        if entry.name.startswith((".", "_")) or not (is_folder or entry.suffix == ".parquet"):
            continue
        name = entry.name if is_folder else entry.stem
        if name.lower() in found:
            raise NotSupported(f"Two tables of {folder} would be called {name}: rename one.")
        path = entry / "**" / "*.parquet" if is_folder else entry
        scan = f"read_parquet({literal(str(path))}, hive_types_autocast = false)"
        sql = f"CREATE VIEW {quote(name)} AS SELECT * FROM {scan}"
        found[name.lower()] = sql
    if not found:
        raise NotSupported(f"There is no parquet file in the folder {folder}.")
    return list(found.values())


class PinnedFiles:
    """The files of tables as they were when a session opened.

    What is known of the tables (types, public values, limits on work) is read once, so a session
    ends where a file has changed. A file may hold what DuckDB cannot read, such as a string that
    is not UTF-8, and a query would fail by the rows that it keeps; so all are read to their end
    here, once in a process. PolicyError if that fails, if files are missing or elsewhere, if those
    of one table differ in their columns, if one file's folders decide the columns or types of a
    private table, or if a public table reads a private one's file.
    """

    def __init__(
        self,
        connection: Any,
        private: Sequence[ParquetTable] = (),
        public: Sequence[ParquetTable] = (),
    ) -> None:
        self._connection = connection
        self._patterns = [pattern for *_, listed in (*private, *public) for pattern in listed]
        for table in (*private, *public):
            self._check_columns(table)
        for table in private:
            self._check_types(table)
        self._found = self._now(self._patterns)
        people = {file[1:3] for *_, listed in private for file in self._now(listed) or ()}
        for name, _, listed in public:
            if people & {file[1:3] for file in self._now(listed) or ()}:
                raise PolicyError(f"{name} is public, and reads a file of a private table.")
        for table in (*private, *public):
            self._check_rows(table)

    def have_changed(self) -> bool:
        """Whether a file was added, removed or replaced since."""
        return bool(self._patterns) and self._now(self._patterns) != self._found

    def _check_columns(self, table: ParquetTable) -> None:
        name, _, patterns = table
        try:
            ((n,),) = self._connection.execute(_DIFFERENT, [list(patterns)]).fetchall()
            ((has_geo,),) = self._connection.execute(_GEO, [list(patterns)]).fetchall()
            files = [file for file, *_ in self._now(patterns) or ()] if has_geo else []
            scans = [f"read_parquet({literal(one)}, hive_partitioning = false)" for one in files]
            kinds = {str(self._columns(scan)) for scan in scans}
        except duckdb.Error as error:
            why = str(error).split("\n", 1)[0]
            raise PolicyError(f"The files of {name} cannot be read: {why}") from None
        if n != 1 or len(kinds) > 1:
            raise PolicyError(
                f"The files of {name} do not have the same columns and types in the same order."
            )

    def _check_types(self, table: ParquetTable) -> None:
        """Refuse what DuckDB guesses from all folders: one person's folder could change it."""
        name, sql, patterns = table
        if len({_partition_keys(file) for file, *_ in self._now(patterns) or ()}) > 1:
            raise PolicyError(
                f"The files of {name} are not all in folders with the same keys (key=value), so "
                "the folder of one person's file could decide whether the keys are columns. Move "
                "the files that are elsewhere."
            )
        files = f"[{', '.join(map(literal, patterns))}]"
        options = ("hive_types_autocast = false", "hive_partitioning = false")
        fixed = [self._columns(f"read_parquet({files}, {option})") for option in options]
        if self._columns(sql) not in fixed:
            raise PolicyError(
                f"The folders of {name} decide the types of its partition columns, so one person's "
                "rows could change them. Write read_parquet(…, hive_types_autocast = false) in "
                "the view; the columns are then VARCHAR."
            )

    def _columns(self, relation: str) -> list[tuple[str, str]]:
        described = self._connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
        return [(name, kind) for name, kind, *_ in described]

    def _check_rows(self, table: ParquetTable) -> None:
        name, sql, patterns = table
        files = self._now(patterns)
        if files is None:
            raise PolicyError(f"The files of {name} must be on this machine.")
        if tuple(files) in _READABLE:
            return
        try:
            every_value = f"SELECT system.main.bit_xor(system.main.hash(t)) FROM {sql} AS t"
            self._connection.execute(every_value).fetchall()
        except duckdb.Error as error:  # its message may hold a value
            raise PolicyError(
                f"The files of {name} hold a value that DuckDB cannot read "
                f"({type(error).__name__}). SELECT hash(t) FROM {sql} AS t shows the owner which."
            ) from None
        _READABLE.add(tuple(files))

    def _now(self, patterns: Sequence[str]) -> list[_File] | None:
        """The files of some patterns; None where one is gone, or is no file of this machine."""
        found = []
        try:
            for pattern in patterns:
                sql = "SELECT file FROM glob($1) ORDER BY ALL"
                for (file,) in self._connection.execute(sql, [pattern]).fetchall():
                    stat = os.stat(file)
                    found.append((file, stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns))
        except (OSError, duckdb.Error):
            return None
        return found


def _partition_keys(file: str) -> tuple[tuple[str, bool], ...]:
    """The keys of the folders key=value that a file is in, and which have a value."""
    pairs = (folder.partition("=") for folder in Path(file).parts[:-1])
    return tuple((key, bool(value)) for key, equals, value in pairs if equals)
