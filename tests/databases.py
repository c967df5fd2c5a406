"""Database files for tests: each is made once in a process, and copied from then on."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pytest

import dp_sql


@cache
def _content(sql: str) -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "made.duckdb"
        with duckdb.connect(str(path)) as connection:
            connection.execute(sql)
        return path.read_bytes()


def write_database(path: Path | str, sql: str) -> str:
    """Write the database that some SQL makes; returns its path."""
    Path(path).write_bytes(_content(sql))
    return str(path)


def write_with_policy(folder: Path, name: str, sql: str, policy: str) -> Path:
    """Write a database and policy.toml into a folder; returns the folder."""
    write_database(folder / f"{name}.duckdb", sql)
    (folder / "policy.toml").write_text(policy, encoding="utf-8")
    return folder


@contextmanager
def asking_under(policy: str, sql: str, folder: Path) -> Iterator[dp_sql.Session]:
    """The session of an analyst of the database that some SQL makes in a folder."""
    write_with_policy(folder, "shop", sql, policy)
    database = str(folder / "shop.duckdb")
    with dp_sql.connect(database, policy=folder / "policy.toml", analyst="ann") as session:
        yield session


def owner_of(sql: str) -> Any:
    """A fixture: the session of the owner of the database that some SQL makes, for a module."""

    @pytest.fixture(scope="module")
    def owner() -> Iterator[dp_sql.Session]:
        with dp_sql.connect() as session:
            session.execute(sql)
            yield session

    return owner


def installed_in(sql: str) -> Any:
    """A fixture: a DuckDB connection with dp_sql and the database that some SQL makes."""

    @pytest.fixture(scope="module")
    def installed() -> Iterator[duckdb.DuckDBPyConnection]:
        with duckdb.connect() as connection:
            connection.execute(sql)
            yield dp_sql.install(connection)

    return installed


def fixtures_of(sql: str, policy: str) -> tuple[Any, Any]:
    """The fixtures `shop` and `owner`: a folder with a database and a policy, and a session."""

    @pytest.fixture(scope="module")
    def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
        return write_with_policy(tmp_path_factory.mktemp("shop"), "shop", sql, policy)

    return shop, owner_of(sql)
