"""Sessions on Spark under a policy: tables, budgets, and what ends a session."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dp_sql
from dp_sql.engines.spark import spark_catalog
from dp_sql.errors import BudgetExceeded, NotPrivate, NotSupported, PolicyError, QueryError
from dp_sql.session.analyst import AnalystSession
from tests.conftest import SURE
from tests.engines.spark.fake import FakeSpark
from tests.session.spark_jobs import BEST, BUDGET, COUNT, POLICY, FakeJobs, asked, opened


@pytest.fixture
def analyst(spark: FakeSpark, tmp_path: Path) -> Iterator[AnalystSession]:
    with opened(spark, tmp_path) as session:
        yield session


def test_the_owner_alone_sees_how_far_a_job_is(spark: FakeSpark, analyst: AnalystSession) -> None:
    with dp_sql.connect(spark) as owner:
        asked(owner, f"SELECT {COUNT} FROM ratings")
    assert FakeJobs.newest.progress is not None
    asked(analyst, f"SELECT DP_COUNT_DISTINCT(title, {SURE}) FROM ratings")
    assert FakeJobs.newest.progress is None


@pytest.mark.one_in(12)
@pytest.mark.parametrize(
    ("query", "answer"),
    [
        (f"SELECT DP_TOPK(title, 3, {SURE}) FROM ratings", BEST),
        (f"SELECT DP_TOPK(title, 3, {SURE}) FROM spark_catalog.default.ratings", BEST),
        (f"SELECT DP_COUNT_DISTINCT(thing, {SURE}) FROM sales.bought", [(4,)]),
        (f"SELECT DP_COUNT_DISTINCT(copy, {SURE}) FROM loan_items", [(60,)]),
        (
            f"SELECT DP_COUNT_DISTINCT(title, {SURE}) FROM ratings JOIN regions ON region = name",
            [(4,)],
        ),
        ("SELECT DP_SELECT(model, accuracy, 1, epsilon := 10000) FROM models", [("m3",)]),
        ("SELECT count(*) FROM regions", [(3,)]),
        ("SELECT count(*) FROM spark_catalog.default.regions", [(3,)]),
        ("DESCRIBE bought", [("user_id", "BIGINT"), ("thing", "VARCHAR")]),
    ],
)
def test_an_analyst_asks(analyst: AnalystSession, query: str, answer: list[Any]) -> None:
    assert asked(analyst, query) == answer


def test_an_analyst_sees_the_policy_s_tables_alone(analyst: AnalystSession) -> None:
    assert [name for name, _ in asked(analyst, "SHOW TABLES")] == [
        "lake.sales.bought", "loan_items", "loans", "spark_catalog.default.ratings",
        "catalog", '"default".regions', "models",
    ]  # fmt: skip
    with pytest.raises(NotPrivate, match="ratings is private"):
        asked(analyst, "SELECT * FROM ratings")
    with pytest.raises(NotPrivate, match="models holds scores, which only DP_SELECT may read"):
        asked(analyst, "SELECT * FROM models")


@pytest.mark.thorough
def test_the_budget_is_one_and_a_stored_release_is_free(spark: FakeSpark, tmp_path: Path) -> None:
    query = "SELECT DP_COUNT_DISTINCT(title, epsilon := 9000) FROM ratings"
    for _ in range(2):
        with opened(spark, tmp_path, POLICY + BUDGET) as session:
            assert asked(session, query) == [(4,)]
            (row,) = [row for row in session.budget() if row.analyst == "reporting"]
            assert row.epsilon_spent == 9000
    spark.settings["spark.sql.warehouse.dir"] = "file:/other"
    with opened(spark, tmp_path, POLICY + BUDGET) as session:
        asked(session, query)
        asked(session, query.replace("title", "region"))
        with pytest.raises(BudgetExceeded):
            asked(session, query.replace("title", "year"))


def test_a_lost_job_under_a_policy_is_one_sentence(spark: FakeSpark, tmp_path: Path) -> None:
    with opened(spark, tmp_path, POLICY + BUDGET) as session:
        FakeJobs.lost = 1
        with pytest.raises(QueryError) as error:
            asked(session, "SELECT DP_COUNT_DISTINCT(title, epsilon := 9000) FROM ratings")
        assert str(error.value) == "The answer could not be computed. Its cost is spent."
        assert error.value.__context__ is None
        (receipt,) = session.receipts
        assert receipt.accuracy == "it failed, and nothing was released"
        assert session.budget()[0].epsilon_spent == 9000


def test_public_tables_stay_as_they_were_when_the_session_opened(
    spark: FakeSpark, analyst: AnalystSession
) -> None:
    spark.sql("DELETE FROM regions")
    assert asked(analyst, "SELECT count(*) FROM regions") == [(3,)]


def test_a_session_ends_when_a_private_table_has_other_columns(
    spark: FakeSpark, analyst: AnalystSession
) -> None:
    assert analyst.is_current
    spark.sql("ALTER TABLE ratings ADD COLUMN more INTEGER")
    assert not analyst.is_current
    with pytest.raises(NotSupported, match="columns of a private table have changed in Spark"):
        asked(analyst, "SELECT count(*) FROM regions")


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('"lake.sales.bought"', '"lake.sales.buys"', "There is no table or view lake.sales.buys"),
        ('privacy_unit = "reader"', 'privacy_unit = "person"', "loans has no column person"),
        ("[public]", '[views]\ntables = ["recent"]\n[public]', "views. is not supported with Spark"),
        ('["catalog", "default.regions"]', '["catalog", "waits"]', "waits.waited has Spark's type"),
        ("[domains]", '[domains]\n"loan_items.copy" = "observed"', "cannot be observed with Spark.*: loan_items.copy"),
    ],
)  # fmt: skip
def test_a_policy_that_does_not_fit_spark(
    spark: FakeSpark, tmp_path: Path, old: str, new: str, why: str
) -> None:
    spark.sql("CREATE TABLE waits AS SELECT INTERVAL 1 DAY AS waited")
    with pytest.raises(PolicyError, match=why):
        opened(spark, tmp_path, POLICY.replace(old, new))


def test_a_large_public_table_is_refused_when_the_session_opens(
    spark: FakeSpark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_catalog, "MAX_PUBLIC_ROWS", 6)
    with pytest.raises(PolicyError, match="catalog has more than 6 rows"):
        opened(spark, tmp_path)


def test_a_struct_whose_fields_differ_in_case_alone_does_not_fit(
    spark: FakeSpark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_catalog, "duckdb_type", lambda _: 'STRUCT(a INTEGER, "A" INTEGER)')
    with pytest.raises(
        PolicyError, match=r"fit Spark: DuckDB cannot have a table with the columns"
    ):
        opened(spark, tmp_path)
