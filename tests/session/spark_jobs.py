"""Jobs of Spark that a DuckDB answers, and sessions on them."""

from pathlib import Path
from typing import Any

import pytest

import dp_sql
from dp_sql.engines.spark import release
from dp_sql.session.analyst import AnalystSession
from dp_sql.session.base import Session
from tests.conftest import READING_LOG, SURE
from tests.engines.fake import FakeEngine, Lost
from tests.engines.spark.fake import FakeSpark

UNIT = f"{SURE}, privacy_unit := user_id"


TOP = f"DP_TOPK(title, 3, {UNIT}, domain := catalog.title)"


COUNT = f"DP_COUNT_DISTINCT(title, {UNIT})"


BEST = [(["Dune", "Emma", "Ulysses"],)]


MORE = """
ALTER TABLE ratings ALTER kind TYPE VARCHAR;
CREATE TABLE loans AS SELECT i AS id, i % 7 AS reader FROM range(20) t(i);
CREATE TABLE loan_items AS SELECT i % 20 AS loan, 'copy ' || i AS copy FROM range(60) t(i);
CREATE TABLE regions AS SELECT unnest(['north', 'south', 'east']) AS name;
CREATE TABLE models AS SELECT 'm' || i AS model, i * 10.0 AS accuracy FROM range(4) t(i);
CREATE SCHEMA lake.sales;
CREATE TABLE lake.sales.bought AS SELECT i % 5 AS user_id, 'thing ' || (i % 4) AS thing FROM range(40) t(i);
"""


POLICY = """
[tables."spark_catalog.default.ratings"]
privacy_unit = "user_id"
[tables."lake.sales.bought"]
privacy_unit = "user_id"
[tables.loans]
privacy_unit = "reader"
[tables.loan_items]
privacy_unit = { link = "loan", to = "loans.id" }
[public]
tables = ["catalog", "default.regions"]
[scores.models]
candidate = "model"
score = "accuracy"
sensitivity = 1
[domains]
"spark_catalog.default.ratings.title" = "catalog.title"
[limits]
max_epsilon_per_query = 10000
max_contributions = 200
"""


BUDGET = """
[budget]
dataset = "readers"
epsilon = 30000
ledger = "ledger.sqlite"
checkpoint = "checkpoint.sqlite"
keep_releases = true
"""


class FakeJobs(FakeEngine):
    """Jobs over the tables of a FakeSpark; `lost` is how many of them do not come back."""

    lost = 0
    n_interrupts = 0
    newest: Any = None
    progress: Any = None

    def __init__(self, spark: FakeSpark) -> None:
        FakeJobs.newest = self
        super().__init__(spark.con, 1, n_parts=3, repeats=2, job=self.fail)

    def fail(self) -> None:
        if FakeJobs.lost:
            FakeJobs.lost -= 1
            raise Lost("a row: 17")

    def cancel(self) -> None:
        FakeJobs.n_interrupts += 1

    def close(self) -> None:
        pass


def stand_in(monkeypatch: pytest.MonkeyPatch) -> FakeSpark:
    """Spark with the reading log, whose jobs DuckDB runs."""
    made = FakeSpark("lake")
    made.sql(READING_LOG + MORE)
    monkeypatch.setattr(release, "SparkJobs", lambda spark, read: FakeJobs(made))
    monkeypatch.setattr(FakeJobs, "lost", 0)
    return made


def opened(spark: FakeSpark, folder: Path, policy: str = POLICY) -> AnalystSession:
    (folder / "policy.toml").write_text(policy, "utf-8")
    return dp_sql.connect(spark, policy=folder / "policy.toml", analyst="reporting")


def asked(session: Session, text: str, params: Any = None) -> list[Any]:
    found: list[Any] = session.sql(text, params=params).fetchall()
    return found
