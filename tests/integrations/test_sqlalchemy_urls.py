"""URLs of the dialect `dpsql`: who is named, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

from tests.integrations.sqlalchemy_engines import analysts, engine_for, sqlalchemy
from tests.integrations.test_dbapi import write_shop


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return write_shop(tmp_path, keep=True)


def test_the_url_names_the_analyst(shop: Path) -> None:
    engine = analysts(shop, "bob")
    with engine.connect() as con:
        pooled = con.connection
        session = getattr(pooled, "dbapi_connection", pooled).session
        assert session.analyst == "bob"
    engine.dispose()


@pytest.mark.parametrize("query", ["?polizy=policy.toml", "?policy=a&threads=4"])
def test_a_url_that_says_something_unknown_is_refused(shop: Path, query: str) -> None:
    with pytest.raises(sqlalchemy.exc.ArgumentError, match="known here: policy, analyst"):
        engine_for(shop, query).connect()


@pytest.mark.parametrize(
    "query",
    ["", "?policy=&analyst=ann", "?policy=&analyst=", "?policy", "?owner=", "?owner=false",
     "?read_only=true", "?ledger=ledger.sqlite", "?owner=true&policy=policy.toml&analyst=ann"],
)  # fmt: skip
def test_only_owner_true_opens_a_database_without_a_policy(shop: Path, query: str) -> None:
    with pytest.raises(sqlalchemy.exc.ArgumentError, match=r"policy and an analyst .*owner=true"):
        engine_for(shop, query)


@pytest.mark.parametrize("query", ["?policy=policy.toml&analyst=", "?owner=true&analyst=ann"])
def test_a_url_names_an_analyst_with_a_policy_and_only_then(shop: Path, query: str) -> None:
    with pytest.raises(
        sqlalchemy.exc.ArgumentError, match="with a policy, and no other, names the analyst"
    ):
        engine_for(shop, query)


@pytest.mark.parametrize(
    "query",
    [
        {"policy": "", "owner": "true"},
        {"owner": "true", "read_only": " "},
        {"policy": ("one.toml", "two.toml"), "analyst": "ann"},
    ],
)
def test_a_key_that_is_blank_or_given_twice_is_refused(shop: Path, query: Any) -> None:
    url = sqlalchemy.engine.URL.create("dpsql", database=f"{shop}/shop.duckdb", query=query)
    with pytest.raises(sqlalchemy.exc.ArgumentError, match="once, with a value"):
        sqlalchemy.create_engine(url)


def test_a_switch_is_on_or_off(shop: Path) -> None:
    with pytest.raises(sqlalchemy.exc.ArgumentError, match="read_only is true or false"):
        engine_for(shop, "?owner=true&read_only=ture")


def test_a_host_is_refused(shop: Path) -> None:
    with pytest.raises(sqlalchemy.exc.ArgumentError, match="takes no host or user"):
        sqlalchemy.create_engine("dpsql://somewhere/shop.duckdb").connect()


def test_an_owner_may_be_held_to_reading(shop: Path) -> None:
    engine = engine_for(shop, "?owner=true&read_only=true")
    with engine.connect() as con, pytest.raises(sqlalchemy.exc.DBAPIError, match="read-only"):
        con.execute(sqlalchemy.text("CREATE TABLE t (i INTEGER)"))
    engine.dispose()
