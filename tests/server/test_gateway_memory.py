"""What fills the memory of the server, when DuckDB cannot free what was dropped."""

from contextlib import closing

import pytest

import dp_sql.server.gateway
from dp_sql.errors import NotSupported
from dp_sql.server.gateway import Gateway
from tests.server.serving import COUNT, Served, stored_by


def test_an_analyst_who_stops_reading_fills_no_more_than_their_share(
    gateway: tuple[Gateway, Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As DuckDB frees no table that was dropped since the read began, however small it is."""
    it, served = gateway
    monkeypatch.setattr(dp_sql.server.gateway, "_MAX_HELD", 75 * 10**6)
    shelf = stored_by(it, 300 * 10**6, monkeypatch)
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


def test_a_question_costs_nothing_while_dropped_answers_that_are_read_fill_the_server(
    gateway: tuple[Gateway, Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    it, served = gateway
    shelf = stored_by(it, 100 * 10**6, monkeypatch)
    assert it.admit("one", served.token("reporting")) and it.admit("poor", served.token("poor"))
    large = "SELECT repeat('{}', 1000) AS x FROM range(45000)"
    with closing(shelf._connection.cursor()) as slow:
        rows = slow.sql(it.answer("one", large.format("a")))
        reader = getattr(rows, "to_arrow_reader", rows.fetch_record_batch)(2048)
        reader.read_next_batch()
        with pytest.raises(NotSupported, match="it has cost nothing"):
            it.answer("one", COUNT)
        with pytest.raises(NotSupported, match="it has cost nothing"):
            it.answer("poor", "SELECT DP_COUNT_DISTINCT(title, epsilon := 1) AS n FROM ratings")
        assert served.spent("reporting") == served.spent("poor") == 0
        del reader, rows
    it.answer("poor", "SELECT DP_COUNT_DISTINCT(title, epsilon := 1) AS n FROM ratings")
    it.answer("one", large.format("b"))  # nothing reads it, so it makes room
    it.answer("one", COUNT)
    shelf.close()


def test_an_answer_that_has_cost_something_takes_the_room_of_those_that_have_not(
    gateway: tuple[Gateway, Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which came while it was computed, so that there was room when it was asked."""
    it, served = gateway
    shelf = stored_by(it, 140 * 10**6, monkeypatch)
    for name, analyst in (("one", "reporting"), ("two", "poor"), ("three", "poor")):
        assert it.admit(name, served.token(analyst))
    right = dp_sql.server.gateway.fetched

    def fetched(relation: object) -> object:
        result = right(relation)
        monkeypatch.setattr(dp_sql.server.gateway, "fetched", right)
        for name in ("two", "three"):
            it.answer(name, "SELECT repeat('a', 1000) AS x FROM range(60000)")
        return result

    monkeypatch.setattr(dp_sql.server.gateway, "fetched", fetched)
    paid = f"SELECT n, repeat('b', 1000) AS x FROM ({COUNT}), range(60000)"
    sql = it.answer("one", paid)
    assert shelf._run(f"SELECT count(*) FROM ({sql})") == [(60000,)]
    assert it.answer("one", paid) == sql
    shelf.close()
