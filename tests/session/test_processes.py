"""Locks, new data and several processes: docs/locks.md, with real processes."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dp_sql
from tests.conftest import SURE

POLICY = """
tables.ratings.privacy_unit = "user_id"
budget = { dataset = "shop", epsilon = 50000, keep_releases = true }
"""
COUNT = f"SELECT DP_COUNT_DISTINCT(title, {SURE}) AS n FROM ratings"
OTHER = COUNT + " WHERE user_id >= 0"
# Answers expressions, one a line, each with its result or the first line of its error.
PROGRAM = """
import json, os, sys
import dp_sql, duckdb
def ask(analyst, text):
    with dp_sql.connect('shop.duckdb', policy='policy.toml', analyst=analyst) as session:
        (row,) = session.sql(text).fetchall()
        return [row[0], float(session.budget()[0].epsilon_spent)]
held = []
for line in sys.stdin:
    try:
        said = eval(line)
    except Exception as error:
        said = str(error).splitlines()[0]
    print(json.dumps(said if isinstance(said, (list, str)) else ''), flush=True)
"""


class Process:
    """Another process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        )  # fmt: skip

    def says(self, expression: str) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        print(expression, file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def asks(self, analyst: str, text: str) -> Any:
        return self.says(f"ask({analyst!r}, {text!r})")

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="module")
def other() -> Iterator[Process]:
    process = Process()
    yield process
    process.kill()


@pytest.fixture
def folder(tmp_path: Path, other: Process) -> Path:
    write(tmp_path / "shop.duckdb", 5)
    (tmp_path / "policy.toml").write_text(POLICY, "utf-8")
    other.says(f"os.chdir({str(tmp_path)!r})")
    return tmp_path


def write(file: Path, n: int) -> None:
    with duckdb.connect(str(file)) as connection:
        connection.execute(
            f"CREATE TABLE ratings AS SELECT i AS user_id, 't' || i % {n} AS title FROM range(500) AS r(i)"
        )


def session_of(folder: Path, analyst: str) -> dp_sql.Session:
    return dp_sql.connect(
        str(folder / "shop.duckdb"), policy=folder / "policy.toml", analyst=analyst
    )


def test_processes_share_the_budget_and_what_is_kept_but_not_the_right_to_write(
    folder: Path, other: Process
) -> None:
    with session_of(folder, "ann") as session:
        assert session.sql(COUNT).fetchall() == [(5,)]
        assert other.asks("ben", COUNT) == [5, 20_000]
        assert session.budget()[0].epsilon_spent == 20_000
        assert other.asks("ann", COUNT) == [5, 20_000]  # her stored release
        assert "Could not set lock" in other.says("duckdb.connect('shop.duckdb')")
        assert other.says("duckdb.connect('shop.duckdb', read_only=True)") == ""
        with pytest.raises(duckdb.Error, match="different configuration"):
            duckdb.connect(str(folder / "shop.duckdb"))


@pytest.mark.thorough
def test_no_session_opens_while_the_owner_writes(folder: Path, other: Process) -> None:
    assert other.says("held.append(duckdb.connect('shop.duckdb'))") == ""
    with pytest.raises(duckdb.Error, match="Could not set lock"):
        session_of(folder, "ann")
    said = other.asks("ann", COUNT)
    assert "different configuration" in said and "read_only=True" in said
    assert other.says("held.pop().close()") == ""
    with session_of(folder, "ann") as session:
        assert session.sql(COUNT).fetchall() == [(5,)]


@pytest.mark.thorough
def test_a_file_that_was_renamed_over_another_is_read_by_new_processes(
    folder: Path, other: Process
) -> None:
    with session_of(folder, "ann") as session:
        session.sql(COUNT)
        write(folder / "new.duckdb", 9)
        os.replace(folder / "new.duckdb", folder / "shop.duckdb")
        assert session.sql(OTHER).fetchall() == [(5,)]
        with session_of(folder, "ben") as late:
            assert late.sql(COUNT).fetchall() == [(5,)]
        assert other.asks("ben", OTHER) == [9, 40_000]
        assert other.asks("ann", COUNT) == [5, 40_000]  # stored before
    with session_of(folder, "ben") as session:
        assert session.sql(OTHER + " AND true").fetchall() == [(9,)]
