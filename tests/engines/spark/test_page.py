"""The blocks of docs/spark.md run."""

from pathlib import Path
from typing import Any

import pytest

import dp_sql
from tests.engines.spark.tables import store
from tests.test_docs import TEXT, blocks


def test_the_examples_run(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    ten_lines, under_a_policy = blocks("python", TEXT["spark.md"])
    exec(ten_lines.replace("SparkSession.builder.getOrCreate()", "spark"), {"spark": spark})
    spark.catalog.dropTempView("ratings")  # which would hide tables of other tests
    printed = capsys.readouterr().out
    assert printed.startswith("[(['Ulysses', 'Walden'],)]") and "mechanism  joint" in printed
    made = "CREATE TABLE ratings AS SELECT i AS user_id, 'Dune' AS title FROM range(9) AS r(i);"
    store(spark, tmp_path, made + "CREATE TABLE catalog AS SELECT 'Dune' AS title", "sales")
    (policy,) = blocks("toml", TEXT["spark.md"])
    Path("policy.toml").write_text(policy.replace("lake", "spark_catalog"))
    names: dict[str, Any] = {"dp_sql": dp_sql, "spark": spark}
    exec(under_a_policy, names)
    with names["session"] as session:
        query = "SELECT DP_TOPK(title, 1, epsilon := 1) FROM sales.ratings"
        assert session.sql(query).fetchall() == [(["Dune"],)]
