"""Questions over tables of a DuckDB connection, asked of Spark and of DuckDB itself."""

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from dp_sql.engines.protocol import Pairs, PartedQuestion, PublicRows
from dp_sql.engines.spark.jobs import SparkJobs
from dp_sql.privacy.catalog import Parts
from dp_sql.sql.formatting import full_name, literal, quote


class Asking:
    """The tables of `connection`, which Spark reads from files of it."""

    def __init__(self, spark: Any, connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
        self.spark, self.connection, self.folder = spark, connection, folder
        self.frames: dict[Parts, Any] = {}
        connection.execute("SET TimeZone = 'UTC'")

    def make(self, table: Parts, columns: str, rows: str = "") -> None:
        """Make a table, here and for Spark; `rows` are SQL."""
        if table[0] not in ("temp", "memory"):
            self.connection.execute(f"ATTACH IF NOT EXISTS ':memory:' AS {full_name(table[:1])}")
            self.connection.execute(f"CREATE SCHEMA IF NOT EXISTS {full_name(table[:2])}")
        temporary = "TEMP " if table[0] == "temp" else ""
        self.connection.execute(f"CREATE {temporary}TABLE {full_name(table)} ({columns})")
        if rows:
            self.connection.execute(f"INSERT INTO {full_name(table)} {rows}")

    def read(self, table: Parts) -> tuple[Any, list[tuple[str, str]]]:
        columns = self.columns(f"SELECT * FROM {full_name(table)}")
        if table not in self.frames:
            file = self.folder / f"{len(self.frames)}.parquet"
            self.connection.execute(
                f"COPY (FROM {full_name(table)}) TO {literal(str(file))} (FORMAT parquet)"
            )
            self.frames[table] = self.spark.read.parquet(str(file))
        return self.frames[table], columns

    def columns(self, select: str) -> list[tuple[str, str]]:
        found = self.connection.execute(f"DESCRIBE {select}").fetchall()
        return [(name, kind) for name, kind, *_ in found]

    def public(self, name: str, **columns: Any) -> dict[str, PublicRows]:
        """A public relation, here and for a question."""
        rows = pa.table(columns)
        self.connection.register("__given", rows)
        self.connection.execute(f"CREATE TEMP TABLE {name} AS FROM __given")
        return {name: PublicRows(self.columns(f"FROM {name}"), rows)}

    def jobs(self, n_parts: int | None = None) -> SparkJobs:
        return SparkJobs(self.spark, self.read, n_parts)

    def shuffle(self, table: Parts, rng: random.Random) -> None:
        """Give Spark the rows in another order and other partitions."""
        from pyspark.sql import functions

        frame, _ = self.read(table)
        self.frames[table] = frame.repartition(rng.randrange(1, 6)).orderBy(
            functions.hash(*frame.columns, functions.lit(rng.random()))
        )

    # --- what DuckDB says ---

    def expected(self, question: PartedQuestion) -> Counter[tuple[Any, ...]]:
        """The answer over all rows at once."""
        self.connection.execute("CREATE OR REPLACE TEMP MACRO __dp_part() AS 0")
        self.connection.execute(f"CREATE TEMP TABLE __dp_parts AS {question.part_sql}")
        try:
            return self.rows(question.merge_sql)
        finally:
            self.connection.execute("DROP TABLE __dp_parts")

    def answered(self, question: PartedQuestion, answer: pa.Table) -> Counter[tuple[Any, ...]]:
        """An answer of Spark in the same types."""
        self.connection.register("__answer", answer)
        casts = ", ".join(f"CAST({quote(name)} AS {kind})" for name, kind in question.columns)
        return self.rows(f"SELECT {casts} FROM __answer")

    def rows(self, select: str) -> Counter[tuple[Any, ...]]:
        """Rows as DuckDB writes their values, how often each."""
        written = f"SELECT CAST(COLUMNS(*) AS VARCHAR) FROM ({select}\n)"
        return Counter(self.connection.execute(written).fetchall())


def pairs_of(pairs: Pairs, shown: Sequence[str]) -> set[tuple[Any, ...]]:
    """Pairs with what their items show."""
    listed = pairs.shown.to_pydict()
    names = {
        code: tuple(listed[name][i] for name in shown) for i, code in enumerate(listed["item"])
    }
    return {
        (*names[item], person)
        for item, person in zip(pairs.items.tolist(), pairs.people.tolist(), strict=True)
    }
