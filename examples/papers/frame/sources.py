"""Where is the data, and how does it become counts, or who holds what? Downloads nothing."""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import duckdb
import numpy as np
from numpy.typing import NDArray

import dp_sql

FOLDER = Path(os.environ.get("DP_SQL_DATA", Path(__file__).parents[4] / "shared" / "data"))
_KINDS = (".parquet", ".csv", ".csv.gz", ".tsv", ".json", ".jsonl")


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
        """Whether the rows are people's."""
        with dp_sql.connect() as session:
            columns = session.sql(f"SELECT * FROM {self._quoted} LIMIT 0").columns
        for wanted in ({"user_id", "item"}, {"item", "count"}):
            if wanted <= set(columns):
                return "user_id" in wanted
        raise SystemExit(
            f"{self.file} has the columns {', '.join(columns)}; wanted are user_id and item, "
            "or item and count."
        )

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Distinct people per item, largest first, shape (items,)."""
        count = "count(DISTINCT user_id)" if self.has_people else "max(count)"
        with dp_sql.connect() as session:
            found = session.sql(
                f"SELECT CAST({count} AS BIGINT) AS n FROM {self._quoted} "
                "WHERE item IS NOT NULL GROUP BY item ORDER BY n DESC"
            )
            return found.fetchnumpy()["n"].astype(np.int64)

    @cached_property
    def graph(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Who holds which item: (offsets, people), as `udfs.REGISTRY["count_distinct"]` takes it.

        Items and people are numbered in the order of their values, which no other rows can move.
        """
        with dp_sql.connect() as session:
            found = session.sql(
                "SELECT dense_rank() OVER (ORDER BY item) - 1 AS item, "
                "dense_rank() OVER (ORDER BY user_id) - 1 AS person "
                f"FROM (SELECT DISTINCT user_id, item FROM {self._quoted}) "
                "WHERE item IS NOT NULL AND user_id IS NOT NULL ORDER BY item, person"
            ).fetchnumpy()
        offsets = np.concatenate([[0], np.cumsum(np.bincount(found["item"]))])
        return offsets.astype(np.int32), found["person"].astype(np.int32)

    @property
    def _quoted(self) -> str:
        return "'" + str(self.file).replace("'", "''") + "'"


@dataclass(frozen=True)
class Sources:
    """The files at hand, by name."""

    files: dict[str, Source]

    def get(self, name: str) -> Source | None:
        """Return the source of this name, or None where there is none."""
        return self.files.get(name)

    def with_people(self) -> list[Source]:
        """Return those whose rows are people's."""
        return [source for source in self.files.values() if source.has_people]


def find(folder: Path, named: Iterable[str]) -> Sources:
    """Collect the files of a folder, and those named as NAME=FILE, which come before them."""
    files = {}
    if folder.is_dir():
        for path in sorted(folder.iterdir()):
            kind = next((kind for kind in _KINDS if path.name.endswith(kind)), None)
            if kind:
                name = path.name.removesuffix(kind)
                files[name] = Source(name, path)
    for text in named:
        name, equals, path_text = text.partition("=")
        path = Path(path_text)
        if not equals or not name:
            raise SystemExit(f"{text!r} is not NAME=FILE, such as gowalla=checkins.parquet")
        if not path.is_file():
            raise SystemExit(f"There is no file {path}.")
        files[name] = Source(name, path)
    return Sources(files)


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
