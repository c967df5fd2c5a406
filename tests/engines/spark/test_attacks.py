"""Hostile statements get the same refusals on Spark as on DuckDB, and start no job."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dp_sql
from dp_sql.engines.spark import release
from dp_sql.sql.formatting import full_name
from tests.attacks.attack_bench import (
    _LABELS,
    _PERSON,
    _POLICY,
    _SHOP,
    CANARIES,
    RIGHT,
    Outcome,
    asked_of,
    attacks,
    families,
)
from tests.engines.spark.conftest import KIND
from tests.engines.spark.tables import store

POLICY = _POLICY.replace('views.tables = ["recent"]', 'tables.recent.privacy_unit = "user_id"')
REFUSED = [family for family in families() if family != "released"]


def tables(folder: Path, with_person: bool) -> str:
    """SQL of the corpus's tables in types of Spark; its views are tables."""
    shop = _SHOP.replace("'merry'", _LABELS) + _PERSON if with_person else _SHOP
    path = folder / f"{with_person}.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(shop)
        relations = connection.execute(
            "SELECT schema_name, table_name FROM duckdb_tables() WHERE schema_name = 'main' UNION ALL "
            "SELECT schema_name, view_name FROM duckdb_views() WHERE NOT internal"
        ).fetchall()
    made = [f"ATTACH '{path}' AS made (READ_ONLY)"]
    types = "SELECT COLUMNS(* EXCLUDE mood), CAST(mood AS VARCHAR) AS mood FROM "
    for name in relations:
        select = types if name[1] in {"ratings", "recent"} else "FROM "
        made.append(f"CREATE TABLE {full_name(name)} AS {select}made.{full_name(name)}")
    return ";".join([*made, "DETACH made"])


def outcomes(session: Any, step: int) -> dict[str, Outcome]:
    """What comes of each statement without a release; the corpus's database is called shop."""
    found = {}
    for one in [one for family in REFUSED for one in attacks(family)][::step]:
        n_receipts = session.n_receipts
        outcome = asked_of(session, one.statement.replace("shop.", "spark_catalog."))
        if session.n_receipts == n_receipts:
            found[one.statement] = outcome
    return found


@pytest.fixture(scope="module")
def on_duckdb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("attacks")
    with duckdb.connect(str(folder / "spark_catalog.duckdb")) as connection:
        connection.execute(tables(folder, True))
    (folder / "policy.toml").write_text(POLICY)
    with dp_sql.connect(
        str(folder / "spark_catalog.duckdb"), policy=folder / "policy.toml", analyst="reporting"
    ) as session:
        yield session


def on_spark(spark: Any, folder: Path, with_person: bool) -> Any:
    store(spark, folder, tables(folder, with_person), "main")
    spark.catalog.setCurrentDatabase("main")
    (folder / "policy.toml").write_text(POLICY)
    return dp_sql.connect(spark, policy=folder / "policy.toml", analyst="reporting")


@pytest.mark.parametrize(
    "step", [4, pytest.param(1, marks=pytest.mark.slow)] if KIND == "connect" else [1]
)
def test_attacks_are_refused_as_on_duckdb(
    step: int, spark: Any, on_duckdb: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for with_person in (False, True):
        with on_spark(spark, tmp_path, with_person) as session:
            with monkeypatch.context() as patch:
                patch.setattr(release, "SparkJobs", None)  # no job is started
                found.append(outcomes(session, step))
            assert asked_of(session, RIGHT).kind == "answered"
    right = outcomes(on_duckdb, step)
    assert right.keys() == found[0].keys() == found[1].keys() and len(right) >= 1000 // step
    wrong = [
        f"{statement[:200]}\n    {one.text[:200]}\n    {right[statement].text[:200]}"
        for some in found
        for statement, one in some.items()
        if (one.kind, one.text) != (right[statement].kind, right[statement].text)
    ]
    shown = [s for s, one in found[1].items() if any(canary in one.said for canary in CANARIES)]
    assert (wrong, shown) == ([], [])
    spark.catalog.setCurrentDatabase("default")
