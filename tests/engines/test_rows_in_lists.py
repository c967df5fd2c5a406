"""Rows that `dp(…)` hands over as a list make what DuckDB would make of them."""

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

import dp_sql
from dp_sql.engines.duckdb import few_rows, rows_in_lists
from tests.conftest import SURE
from tests.engines.test_arrow_settings import on, other
from tests.engines.test_few_rows import from_duckdb, same
from tests.engines.test_many_rows import Taken, owner, taken
from tests.pairs import in_pairs
from tests.session.several_calls import priced

__all__ = ["other", "owner", "taken"]  # fixtures

CALLS = [
    "DP_COUNT(*, {0})", "DP_COUNT(nothing, {0})", "DP_COUNT_DISTINCT(user_id, {0})", "DP_SUM(large, {0})",
    "DP_SUM(price, {0}, lower := 0)", "DP_AVG(rent, {0}, lower := 0, upper := 100)", "DP_AVG(x, {0}, report := true)",
]  # fmt: skip
KEYS = {
    "region": "groups := ['r3', 'none', 'r0']",
    "n": "groups := [2, 7, 0]",
    "n, region": "groups := ([0, 2], ['r3', 'r0', 'none'])",
}


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each release has that is made from a list; all sources are tried there."""
    found: list[int] = []
    real = rows_in_lists._lists
    monkeypatch.setattr(few_rows, "FEW", 1 << 60)
    monkeypatch.setattr(
        rows_in_lists,
        "_lists",
        lambda plan, **of: (found.append(len(of["sent"])), real(plan, **of))[1],
    )
    return found


def through_dp(owner: dp_sql.Session, statement: str, taken: Taken) -> tuple[list[Any], Any]:
    taken.clear()
    assert owner.connection is not None
    answer = owner.connection.execute(f"FROM dp($$ {statement} $$)").fetchall()
    return answer, same([*taken])


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("call", "unit", "keys"), in_pairs(CALLS, ["u", "name", "id", "huge", "half"], [*KEYS])
)
def test_mechanisms_take_what_duckdb_makes(
    call: str, keys: str, unit: str, owner: dp_sql.Session, taken: Taken, handed: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    asked = priced(call, 1, f"{KEYS[keys]}, max_groups_contributed := 2").replace("user_id", unit)
    statement = f"SELECT {keys}, {asked} FROM seen WHERE i % 3 <> 1 GROUP BY ALL"
    answer, found = through_dp(owner, statement, taken)
    assert found == same(from_duckdb(owner, statement, taken, monkeypatch)) and found[0]
    assert len(handed) == 1
    other, n = owner.execute(statement).fetchall(), len(keys.split(", "))
    assert [row[:n] for row in answer] == [row[:n] for row in other]
    assert [[*map(type, row)] for row in answer] == [[*map(type, row)] for row in other]


@pytest.mark.parametrize("unit", ["name", "huge"])
@pytest.mark.parametrize("call", ["DP_SUM(price, {0}, lower := 0)", "DP_COUNT(x, {0})"])
def test_rows_come_however_duckdb_is_set_to_write_arrow(
    call: str, unit: str, other: dict[str, str], owner: dp_sql.Session, taken: Taken,
    handed: list[int],
) -> None:  # fmt: skip
    asked = priced(call, 1, f"{KEYS['region']}, max_groups_contributed := 2")
    statement = f"SELECT region, {asked.replace('user_id', unit)} FROM seen GROUP BY ALL"
    _, found = through_dp(owner, statement, taken)
    on(owner, other)
    assert through_dp(owner, statement, taken)[1] == found and found[0]
    assert len(handed) == 2


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with dp_sql.install(duckdb.connect()) as con:
        con.execute("CREATE TABLE visits AS SELECT i % 9 AS u, 'a' AS g FROM range(90) AS r(i)")
        yield con


ASKED = (
    f"FROM dp($$ SELECT g, DP_COUNT(*, {SURE}, privacy_unit := u, groups := ['b', 'a'], "
    "contribution_bound := 10) AS n FROM visits GROUP BY g $$)"
)


def test_one_execution_releases_once_however_often_it_reads_the_answer(
    con: duckdb.DuckDBPyConnection, handed: list[int]
) -> None:
    twice = con.execute(f"WITH c AS ({ASKED}) FROM c UNION ALL FROM c ORDER BY g").fetchall()
    assert [key for key, _ in twice] == ["a", "a", "b", "b"] and len({*twice}) == 2
    assert handed and len(dp_sql.receipts(con)) == 1
    con.execute(f"PREPARE asked AS {ASKED}")
    for n in (2, 3):
        assert con.execute("EXECUTE asked").fetchall() == [("a", 90), ("b", 0)]
        assert len(dp_sql.receipts(con)) == n


def test_groups_of_an_empty_source_are_answered(
    con: duckdb.DuckDBPyConnection, handed: list[int]
) -> None:
    con.execute("DELETE FROM visits")
    assert con.execute(ASKED).fetchall() == [("a", 0), ("b", 0)]
    assert handed == [0]


def test_more_strings_than_are_sent_as_places_are_groups_in_dp(
    con: duckdb.DuckDBPyConnection,
) -> None:
    con.execute("CREATE TABLE names AS SELECT 'n' || i AS name FROM range(65) AS r(i)")
    asked = ASKED.replace("['b', 'a']", "names.name").replace("SELECT g", "SELECT 'n' || u AS k")
    asked = asked.replace("GROUP BY g", "GROUP BY k")
    answer = con.execute(asked).fetchall()
    assert len(answer) == 65 and ("n8", 10) in answer and ("n64", 0) in answer


def test_a_name_hidden_by_a_temporary_table_is_refused_and_not_counted(
    con: duckdb.DuckDBPyConnection, handed: list[int]
) -> None:
    con.execute("CREATE TEMP VIEW Visits AS SELECT 1 AS u, 'a' AS g")
    with pytest.raises(duckdb.Error, match="Visits is a temporary table or view"):
        con.execute(ASKED).fetchall()
    assert not handed and not dp_sql.receipts(con)


def test_a_name_is_hidden_by_one_that_duckdb_takes_for_the_same(
    con: duckdb.DuckDBPyConnection, handed: list[int]
) -> None:
    asked = ASKED.replace("visits", '"ÄRZTE"')
    con.execute('CREATE TABLE "Ärzte" AS FROM visits; CREATE TEMP TABLE "ärzte" AS FROM visits')
    con.execute("CREATE TEMP TABLE isits AS FROM visits")
    assert con.execute(asked).fetchall() == con.execute(ASKED).fetchall()  # not the same letter
    assert len(handed) == 2
    con.execute('CREATE TEMP TABLE "ÄrztE" AS FROM visits')
    with pytest.raises(duckdb.Error, match="ÄrztE is a temporary table or view"):
        con.execute(asked).fetchall()


def test_no_error_shows_what_is_in_the_rows(
    con: duckdb.DuckDBPyConnection, handed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise ValueError("visits of person 8")

    monkeypatch.setattr(rows_in_lists, "_lists", fail)
    with pytest.raises(duckdb.Error, match="nothing was released") as caught:
        con.execute(ASKED).fetchall()
    assert "person 8" not in str(caught.value) and not dp_sql.receipts(con)
