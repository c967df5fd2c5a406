"""Tumult Analytics on a local Spark, with the person as its protected change (AddRowsWithID)."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from tmlt.analytics import (
    AddRowsWithID,
    ApproxDPBudget,
    KeySet,
    MaxGroupsPerID,
    MaxRowsPerGroupPerID,
    MaxRowsPerID,
    PureDPBudget,
    QueryBuilder,
    Session,
)

from benchmarks.rivals.questions import DELTA, EPSILON, Asked, K
from benchmarks.rivals.runner import Answerer, main

os.environ["PYSPARK_PYTHON"] = sys.executable
SPARK = (
    SparkSession.builder.master(f"local[{os.cpu_count()}]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "4")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.memory", "3g")
    .config("spark.sql.warehouse.dir", str(Path(sys.argv[1], "warehouse").absolute()))
    .config("spark.log.level", "ERROR")
    .getOrCreate()
)


def _aggregate(builder: Any, asked: Asked) -> Any:
    """The aggregate of a question, on a query builder or on its groups."""
    kind, high = asked.question.kind.removeprefix("group_"), asked.high
    if kind in {"people", "top", "unknown_people"}:
        return builder.count_distinct(columns=["person"], name="answer")
    if kind == "distinct":
        return builder.count_distinct(columns=["item"], name="answer")
    if kind == "rows":
        return builder.count(name="answer")
    if kind == "median":
        return builder.median("value", asked.question.low, asked.question.high, name="answer")
    if kind == "mean":
        return builder.average("value", 0.0, high, name="answer")
    return builder.sum("value", 0.0, high, name="answer")


def _query(asked: Asked, key: str) -> tuple[Any, str]:
    kind = asked.question.kind
    builder = QueryBuilder("t")
    valued = kind.removeprefix("group_") in {"sum", "mean"}
    values = f", values up to {asked.high:g}" if valued else ""
    if kind == "people":
        return _aggregate(builder, asked), ""
    if "group" not in kind and kind not in {"top", "unknown_people"}:
        rows = 1 if kind == "median" else asked.rows
        builder = builder.enforce(MaxRowsPerID(rows))
        return _aggregate(builder, asked), f"{rows} row{'s' * (rows > 1)} a person{values}"
    each = asked.rows_per_group if kind in {"group_rows", "group_sum", "group_mean"} else 1
    builder = builder.enforce(MaxGroupsPerID(key, asked.groups))
    builder = builder.enforce(MaxRowsPerGroupPerID(key, each))
    needs = f"{asked.groups} groups a person"
    needs += f", {each} rows in each{values}" if each > 1 else ""
    if kind == "unknown_people":
        return builder, f"{needs}; half of epsilon finds the groups"
    return _aggregate(builder.groupby(KeySet.from_dict({key: asked.public})), asked), needs


def prepare(asked: Asked, table: Path) -> Answerer:
    kind = asked.question.kind
    key = {"top": "item", "unknown_people": "item"}.get(kind, "grp")
    frame = SPARK.read.parquet(str(table))
    if "value" in frame.columns:
        frame = frame.withColumn("value", sf.col("value").cast("double"))
    frame = frame.cache()
    frame.count()
    unknown = kind == "unknown_people"
    everything = float("inf")
    session = Session.from_dataframe(
        ApproxDPBudget(everything, 1) if unknown else PureDPBudget(everything),
        "t",
        frame,
        protected_change=AddRowsWithID("person"),
    )
    query, needs = _query(asked, key)

    def run() -> Any:
        counts, budget = query, PureDPBudget(EPSILON)
        if unknown:
            half = EPSILON / 2
            groups = session.evaluate(query.get_groups([key]), ApproxDPBudget(half, DELTA))
            keys = KeySet.from_dict({key: [row[key] for row in groups.collect()]})
            counts, budget = _aggregate(query.groupby(keys), asked), ApproxDPBudget(half, 0)
        found = session.evaluate(counts, budget).collect()
        if "group" not in kind and key == "grp":
            return found[0]["answer"]
        groups = {row[key]: row["answer"] for row in found}
        if kind == "top":
            return sorted(groups, key=lambda item: -groups[item])[:K]
        return groups

    return Answerer(run, needs)


def _unlimited() -> object:
    frame = SPARK.createDataFrame([(1, 1), (1, 2)], ["person", "item"])
    session = Session.from_dataframe(
        PureDPBudget(1), "t", frame, protected_change=AddRowsWithID("person")
    )
    return session.evaluate(QueryBuilder("t").count(), PureDPBudget(1)).collect()


def _noise() -> object:
    frame = SPARK.createDataFrame([(1, 1), (1, 2)], ["person", "item"])
    session = Session.from_dataframe(
        PureDPBudget(1), "t", frame, protected_change=AddRowsWithID("person")
    )
    query = QueryBuilder("t").enforce(MaxRowsPerID(50)).count_distinct(columns=["item"])
    return session._noise_info(query, PureDPBudget(1))[0]["noise_parameter"]


CHECKS = {
    "rows without a limit": _unlimited,
    "scale of the noise of `count_distinct` with 50 rows a person, ε = 1": _noise,
}

if __name__ == "__main__":
    main(
        ["tmlt-analytics", "tmlt-core", "pyspark"], prepare, guesses=False, fewest=2, checks=CHECKS
    )
