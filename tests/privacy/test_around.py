"""A statement is parsed to see what is around its DP calls, unless there is nothing."""

import contextlib
from typing import Any

import pytest

import dp_sql
from dp_sql.engines.duckdb.connection import Engine
from dp_sql.engines.duckdb.tickets import Tickets
from dp_sql.errors import NotSupported
from dp_sql.privacy import around
from dp_sql.sql.statement import parse

GIVEN = "epsilon := 1, privacy_unit := user_id"
COUNT, LISTED = f"DP_COUNT(x, {GIVEN})", f"DP_TOPK(x, 1, {GIVEN}, domain := ['a', 'b'])"
ALONE = [
    f"SELECT {COUNT} FROM t", f"select {COUNT} AS n, {LISTED} AS \"from\" FROM t AS s WHERE x <> 1",
    f"SELECT {COUNT} FROM t JOIN u USING (x) WHERE x IN (SELECT y FROM u)",
    f"SELECT {COUNT} /* , x */ FROM (SELECT * FROM t LIMIT 1) -- , t",
]  # fmt: skip
PARSED = [
    f"SELECT {COUNT}, 1 FROM t", f"SELECT {COUNT} + 1 FROM t", f"SELECT {COUNT} FROM t LIMIT 1",
    f"SELECT {COUNT} n FROM t", f"SELECT n: {COUNT} FROM t", f"SELECT DISTINCT {COUNT} FROM t",
    f"FROM t SELECT {COUNT}", f"SELECT ({COUNT}) FROM t", f"SELECT {COUNT} AS 'n' FROM t",
    f"WITH s AS (FROM t) SELECT {COUNT} FROM s", f"SELECT * FROM (SELECT {COUNT} FROM t)",
    f"CREATE TABLE n AS SELECT {COUNT} FROM t", f"(SELECT {COUNT} FROM t)",
    f"SELECT {COUNT} FROM t UNION SELECT {LISTED} FROM t", f"SELECT {COUNT} FROM t UNION SELECT x FROM t",
    f"SELECT {COUNT.replace('x,', 'lower(x),')} FROM t",
    f"SELECT {LISTED.replace('[', '(SELECT x FROM u WHERE x IN [').replace(']', '])')} FROM t",
    f"SELECT {COUNT}, {COUNT} FROM t ORDER BY x", f"SELECT {COUNT} FROM t GROUP BY x",
    f"SELECT {COUNT} INTO n FROM t",
]  # fmt: skip


@pytest.mark.parametrize("statement", [*ALONE, *PARSED])
def test_only_what_has_nothing_around_its_calls_is_not_parsed(
    statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with dp_sql.connect() as session:
        assert session.connection is not None
        session.execute("CREATE TABLE t AS SELECT 1 AS x, 2 AS user_id; CREATE TABLE u AS FROM t")
        engine, trees = Engine(session.connection, Tickets()), list[Any]()
        real = around.tree_of
        monkeypatch.setattr(around, "tree_of", lambda sql: (trees.append(sql), real(sql))[1])
        (found,) = parse(statement)
        if statement in PARSED:
            with contextlib.suppress(NotSupported):
                around.check_around(found, engine)
            assert len(trees) == 1
            return
        around.check_around(found, engine)
        assert not trees
        around._check_tree(found, engine)  # it would refuse nothing
