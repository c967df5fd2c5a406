"""DP calls in plain DuckDB under a session's ledger."""

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dp_sql
from dp_sql.engines.duckdb.connection import Engine
from tests.conftest import READING_LOG
from tests.engines.test_plain import CALL, COUNT, TOP


def spent(folder: Path) -> list[str]:
    """The kinds of a ledger's events, read from its file."""
    with contextlib.closing(sqlite3.connect(folder / "shop.ledger.sqlite")) as file:
        return [kind for (kind,) in file.execute("SELECT kind FROM events ORDER BY rowid")][1:]


def test_a_ledger_records_one_event_per_execution_and_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with dp_sql.connect(ledger=tmp_path / "shop.ledger.sqlite") as session:
        session.execute(READING_LOG)
        con = dp_sql.install(session.connection)
        con.sql(TOP).fetchall()
        con.execute(f"SELECT {CALL}, {COUNT}) FROM ratings").fetchall()
        for refused in (f"SELECT {CALL}, {CALL} FROM ratings", f"{TOP} GROUP BY region"):
            with pytest.raises(duckdb.Error):
                con.execute(refused).fetchall()
        con.execute(f"EXPLAIN {TOP}").fetchall()
        before = ["reserved", "answered"] * 3
        assert spent(tmp_path) == before
        assert len(session.receipts) == 3

        seen: list[Any] = []

        def late(*_: object) -> str:
            seen.append(spent(tmp_path))
            raise dp_sql.QueryError("It failed.")

        monkeypatch.setattr(Engine, "release_as_json", late)
        with pytest.raises(duckdb.Error, match="QueryError: It failed"):
            con.execute(TOP).fetchall()
        assert seen == [[*before, "reserved"]]  # durably, before a row is read
        assert spent(tmp_path) == [*before, "reserved", "failed"]
