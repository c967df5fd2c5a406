"""Where is the data, and how does it become counts, or who holds what? Downloads nothing."""

import hashlib
import importlib.util
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import duckdb
import numpy as np
from numpy.typing import NDArray

import dp_sql
from benchmarks.measure import DATA

_KINDS = (".parquet", ".csv", ".csv.gz", ".tsv", ".json", ".jsonl")


Graph = tuple[NDArray[np.int32], NDArray[np.int32]]
"""(offsets, people): item i is held by people[offsets[i]:offsets[i + 1]]."""


class SourceError(Exception):
    """A file that is not a data set; says why."""


@dataclass(frozen=True)
class Source:
    """A file that DuckDB reads: with columns user_id and item, or item and count.

    The second kind is a histogram: it has no people, and is of use for top-k alone.
    """

    name: str
    file: Path

    @cached_property
    def digest(self) -> str:
        """The beginning of the file's SHA-256: trials on another file are other trials."""
        with self.file.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:12]

    @cached_property
    def has_people(self) -> bool:
        """Whether the rows are people's.

        Raises:
            SourceError: the file cannot be read, or has other columns.
        """
        with dp_sql.connect() as session:
            try:
                columns = session.sql(f"SELECT * FROM {self._quoted} LIMIT 0").columns
            except duckdb.Error as error:
                raise SourceError(f"{self.file} cannot be read: {_first_line(error)}") from None
        for wanted in ({"user_id", "item"}, {"item", "count"}):
            if wanted <= {column.lower() for column in columns}:
                return "user_id" in wanted
        raise SourceError(
            f"{self.file} has the columns {', '.join(columns)}; wanted are user_id and item, "
            "or item and count."
        )

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Distinct people per item, largest first, shape (items,).

        Raises:
            SourceError: a histogram's counts are not whole numbers from 0 on.
        """
        count = "count(DISTINCT user_id)" if self.has_people else "max(count)"
        given = "user_id" if self.has_people else "count"
        with dp_sql.connect() as session:
            try:
                found = session.sql(
                    f"SELECT CAST({count} AS BIGINT) AS n FROM {self._quoted} "
                    f"WHERE item IS NOT NULL AND {given} IS NOT NULL GROUP BY item ORDER BY n DESC"
                ).fetchnumpy()["n"]
            except duckdb.Error as error:
                raise SourceError(f"{self.file} cannot be read: {_first_line(error)}") from None
        if len(found) and found[-1] < 0:
            raise SourceError(f"{self.file} has a count below 0.")
        return np.asarray(found, dtype=np.int64)

    @cached_property
    def graph(self) -> Graph:
        """Who holds which item, as the mechanisms of `count_distinct` take it."""
        with dp_sql.connect() as session:
            return graph_of(session.sql(numbered(f"FROM {self._quoted}")).fetchnumpy())

    @property
    def _quoted(self) -> str:
        return "'" + str(self.file).replace("'", "''") + "'"


def numbered(rows: str) -> str:
    """SQL of the pairs of a query with user_id and item, numbered in the order of their values.

    That is an order which no other rows can move.
    """
    return (
        "SELECT dense_rank() OVER (ORDER BY item) - 1 AS item, "
        "dense_rank() OVER (ORDER BY user_id) - 1 AS person "
        f"FROM (SELECT DISTINCT user_id, item FROM ({rows})) "
        "WHERE item IS NOT NULL AND user_id IS NOT NULL ORDER BY item, person"
    )


def graph_of(pairs: Mapping[str, NDArray[np.int64]]) -> Graph:
    """Make a graph of the columns of `numbered`."""
    offsets = np.concatenate([[0], np.cumsum(np.bincount(pairs["item"]))])
    return offsets.astype(np.int32), pairs["person"].astype(np.int32)


@dataclass(frozen=True)
class Sources:
    """The files at hand, by name."""

    files: dict[str, Source]

    def get(self, name: str) -> Source | None:
        """Return the source of this name, or None where there is none."""
        return self.files.get(name)


def find(folder: Path | None, named: Iterable[str], note: Callable[[str], None]) -> Sources:
    """Collect the files of a folder, and those named as NAME=FILE, which come before them.

    Args:
        folder: None for the default, which need not be there.
        named: as on the command line.
        note: called for each file of the folder that is left out, with the reason.
    """
    files = {}
    for path in _files_of(folder):
        kind = next((kind for kind in _KINDS if path.name.endswith(kind)), None)
        if kind:
            source = Source(path.name.removesuffix(kind), path)
            try:
                _ = source.has_people
            except SourceError as error:
                note(f"{error} It is left out.")
            else:
                files[source.name] = source
    for text in named:
        name, equals, path_text = text.partition("=")
        path = Path(path_text)
        if not equals or not name:
            raise SourceError(f"{text!r} is not NAME=FILE, such as gowalla=checkins.parquet")
        if not path.is_file():
            raise SourceError(f"There is no file {path}.")
        files[name] = Source(name, path)
        _ = files[name].has_people
    return Sources(files)


def _files_of(folder: Path | None) -> list[Path]:
    given = DATA if folder is None else folder
    if not given.is_dir():
        if folder is None:
            return []
        raise SourceError(f"There is no folder {folder}.")
    return sorted(path for path in given.iterdir() if path.is_file())


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def tpch(scale: float) -> duckdb.DuckDBPyConnection | None:
    """Make TPC-H tables in memory, or return None where DuckDB's generator is not at hand.

    It is at hand with the package duckdb-extension-tpch of DuckDB's own version.
    """
    package = importlib.util.find_spec("duckdb_extension_tpch")
    if package is None or package.origin is None:
        return None
    folder = Path(package.origin).parent / "extensions" / f"v{duckdb.__version__}"
    extension = folder / "tpch.duckdb_extension"
    if not extension.exists():
        return None
    con = duckdb.connect()
    con.execute(f"LOAD '{extension}'")
    con.execute(f"CALL dbgen(sf = {scale})")
    return con
