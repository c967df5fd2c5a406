"""Both kinds of session over the database and the policy in the folder that a module calls `shop`; a Spark."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import dp_sql
from tests.engines.spark.fake import FakeSpark
from tests.session.spark_jobs import stand_in


@pytest.fixture(scope="module")
def owner(shop: Path) -> Iterator[dp_sql.Session]:
    with dp_sql.connect(str(shop / "shop.duckdb"), read_only=True) as session:
        yield session


@pytest.fixture(scope="module")
def analyst(shop: Path) -> Iterator[dp_sql.Session]:
    policy = shop / "policy.toml"
    with dp_sql.connect(str(shop / "shop.duckdb"), policy=policy, analyst="ann") as session:
        yield session


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> FakeSpark:
    return stand_in(monkeypatch)
