"""What fills the memory of the server, when DuckDB cannot free what was dropped."""

from __future__ import annotations

from contextlib import closing

import pytest

import dp_sql.server.gateway
from dp_sql.engines.duckdb import quack_server as duckdb_quack
from dp_sql.engines.duckdb.quack_server import QuackServer
from dp_sql.errors import NotSupported
from dp_sql.server.gateway import Gateway
from tests.server.serving import Served


def test_an_analyst_who_stops_reading_fills_no_more_than_their_share(
    gateway: tuple[Gateway, Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As DuckDB frees no table that was dropped since the read began, however small it is."""
    it, served = gateway
    monkeypatch.setattr(duckdb_quack, "load_quack", lambda _: None)
    monkeypatch.setattr(duckdb_quack, "_MEMORY", 300 * 10**6)
    monkeypatch.setattr(dp_sql.server.gateway, "_MAX_HELD", 75 * 10**6)
    shelf = QuackServer()
    monkeypatch.setattr(it, "_server", shelf)
    monkeypatch.setattr(shelf, "connections", lambda: frozenset[str]())
    for name, analyst in (("one", "reporting"), ("two", "reporting"), ("poor", "poor")):
        assert it.admit(name, served.token(analyst))
    large = "SELECT {} AS n, repeat('a', 1000) AS x FROM range(30000)"
    with closing(shelf._connection.cursor()) as slow:
        rows = slow.sql(it.answer("one", "FROM range(9000)"))
        reader = getattr(rows, "to_arrow_reader", rows.fetch_record_batch)(2048)
        reader.read_next_batch()
        with pytest.raises(NotSupported, match="it has cost nothing"):
            for n in range(20):
                it.answer("two", large.format(n))
        it.answer("poor", "SELECT DP_COUNT_DISTINCT(title, epsilon := 1) AS n FROM ratings")
        del reader, rows
    for n in range(20):  # nothing reads
        it.answer("two", large.format(n))
    shelf.close()
