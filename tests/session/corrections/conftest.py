"""The shop with orders: as a database with a policy, in an owner's session, and in plain DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import dp_sql
from tests.session.corrections.orders_shop import POLICY, TABLES


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    with duckdb.connect(str(folder / "shop.duckdb")) as con:
        con.execute(TABLES)
    (folder / "policy.toml").write_text(POLICY)
    return folder


@pytest.fixture(scope="module")
def owner() -> Iterator[dp_sql.Session]:
    with dp_sql.connect() as session:
        session.execute(TABLES)
        yield session


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        con.execute(TABLES)
        yield con
