"""Parameters and variables of Python around plain DP calls: what an error shows is pasted."""

from pathlib import Path
from typing import Any

import duckdb
import pytest

import dp_sql
from dp_sql.engines.duckdb import connection
from tests.conftest import READING_LOG, SURE
from tests.databases import installed_in

Con = duckdb.DuckDBPyConnection
CALL = f"DP_TOPK(title, 2, {SURE}, privacy_unit := user_id, domain := catalog.title)"
TOP = f"SELECT {CALL} AS best FROM ratings"
BEST = [(["Dune", "Emma"],)]


plain = installed_in(READING_LOG)


def releases(con: Con) -> int:
    return len(dp_sql.receipts(con))


def ask(con: Con, way: str, text: str, values: Any = None) -> Any:
    if way == "sql":
        return con.sql(text, params=values).fetchall()
    return con.execute(text, values).fetchall()


# Conditions that keep all rows.
PARAMETERS: list[tuple[str, Any]] = [
    ("year > ? AND title <> ?", [1, "it's"]),
    ("year > $1 AND title <> $2 AND year > $1", [1, "x"]),
    ("year > $since AND title <> $Not", {"since": 1.5, "Not": "x"}),
    ("year NOT IN ?", [[1, 2]]),
    ("title IS DISTINCT FROM ?", [None]),
]


# con.sql with parameters waits for ever, now and then, for a Python function in DuckDB 1.5.
WAYS = ["execute"] if duckdb.__version__ < "2" else ["sql", "execute"]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("condition", "values"), PARAMETERS)
def test_a_statement_with_parameters_is_refused_with_one_that_takes_them(
    plain: Con, condition: str, values: Any, way: str
) -> None:
    before = releases(plain)
    with pytest.raises(duckdb.Error, match="values of a plain statement's parameters") as raised:
        ask(plain, way, f"{TOP} WHERE {condition}", values)
    assert releases(plain) == before
    shown = str(raised.value).split("Write: ")[1].split("\n")[0]
    assert ask(plain, way, shown, values) == BEST
    assert releases(plain) == before + 1


def test_a_table_is_created_with_parameters(plain: Con) -> None:
    with pytest.raises(duckdb.Error) as raised:
        plain.execute(f"CREATE OR REPLACE TABLE kept AS {TOP} WHERE year > ?", [1])
    plain.execute(str(raised.value).split("Write: ")[1], [1])
    assert plain.execute("FROM kept").fetchall() == BEST


def test_dp_takes_parameters_of_prepared_statements(plain: Con) -> None:
    count = f"DP_COUNT_DISTINCT(title, {SURE}, privacy_unit := user_id) AS n"
    asked = f"FROM dp($$ SELECT {count} FROM ratings WHERE year > $1 $$, params := row($1))"
    plain.execute(f"PREPARE since AS {asked}")
    assert plain.execute("EXECUTE since(0)").fetchall() == [(4,)]
    assert plain.execute("EXECUTE since(9999)").fetchall() == [(0,)]
    private = asked.replace(SURE, "epsilon := $1")
    wrong = [(asked.replace(", params := row($1)", given), words) for given, words in (
        ("", "needs the values"), (", params := row(1, 2)", "excess parameters: 2"),
        (", params := row({'year': 1})", "of type dict, which has no literal"),
        (", params := {other: 1}", "not provided"))]  # fmt: skip
    for text, words in [*wrong, (private.replace("row($1)", "row(1)"), "number written in")]:
        with pytest.raises(duckdb.Error, match=words):
            plain.execute(text)


@pytest.mark.parametrize("way", ["sql", "execute"])
def test_a_dataframe_is_a_table_and_a_relation_may_mix_people(plain: Con, way: str) -> None:
    mixed = plain.sql("SELECT title, max(user_id) AS user_id FROM ratings GROUP BY title")
    frame = plain.sql("FROM ratings").to_arrow_table()
    run = getattr(plain, way)  # in this frame, where DuckDB looks for variables
    before = releases(plain)
    for text in (f"SELECT {CALL} FROM mixed", f"FROM dp($$ SELECT {CALL} FROM mixed $$)"):
        with pytest.raises(duckdb.Error, match=r"sql_query\(\)|committed tables"):
            run(text).fetchall()
    with pytest.raises(duckdb.Error, match="before") as raised:  # an integer is no table
        run(f"FROM dp($$ SELECT {CALL} FROM before $$)").fetchall()
    assert "Did you mean" not in str(raised.value)
    assert releases(plain) == before
    text = f"SELECT {CALL} FROM frame"
    if way == "execute" or duckdb.__version__ < "2":  # in which DuckDB does not show the variable
        with pytest.raises(duckdb.Error, match="For a dataframe, write: ") as raised:
            run(text).fetchall()
        text = str(raised.value).split("write: ")[1].split("\n")[0]
    assert run(text).fetchall() == BEST
    assert (releases(plain), mixed.columns, len(frame) > 1) == (
        before + 1, ["title", "user_id"], True)  # fmt: skip
    assert dp_sql.receipts(plain)[-1].assumptions[0] in {
        f"each row of {name} belongs to the person in user_id"
        for name in ("the dataframe", "frame")
    }


def _with_or_without_umlaut(path: Path, is_there: bool) -> list[list[tuple[int, ...]]]:
    """What DuckDB, a plain connection and a session say of the rows where substr finds an a."""
    with duckdb.connect(path) as con:
        con.execute(
            "CREATE TABLE q AS SELECT i AS uid, ['a', 'ab', 'x_y'][1 + i % 3] AS v FROM range(120) r(i)"
        )
        if is_there:
            con.execute("INSERT INTO q VALUES (666, 'ü')")
    where = "FROM q WHERE substr(v, -2, 1) = 'a'"
    call = "DP_COUNT(1, epsilon := 10000, contribution_bound := 1, privacy_unit := uid)"
    with dp_sql.install(duckdb.connect(path)) as con:
        by_duckdb = con.execute(f"SELECT count(*) {where}").fetchall()
        plain = con.sql(f"SELECT {call} {where}").fetchall()
    with dp_sql.connect(path) as session:
        return [by_duckdb, plain, session.execute(f"SELECT {call} {where}").fetchall()]


def test_one_persons_string_changes_no_other_row(tmp_path: Path) -> None:
    without = _with_or_without_umlaut(tmp_path / "without", False)
    beside = _with_or_without_umlaut(tmp_path / "beside", True)
    if duckdb.__version__.startswith("1."):  # else there is nothing to guard against
        assert without[0] != beside[0]
    assert without[1:] == beside[1:] and without[1] == without[2]


def test_locked_settings_are_refused_where_they_would_let_it(tmp_path: Path) -> None:
    with dp_sql.install(duckdb.connect(tmp_path / "locked")) as con:
        con.execute("CREATE TABLE q AS SELECT 1 AS uid")
        con.execute("SET lock_configuration = true")
        call = "SELECT DP_COUNT(1, epsilon := 10000, contribution_bound := 1, privacy_unit := uid) FROM q"
        if not duckdb.__version__.startswith("1."):
            assert con.sql(call).fetchall() == [(1,)]
            return
        with pytest.raises(Exception, match="SET disabled_optimizers = 'statistics_propagation'"):
            con.sql(call).fetchall()


@pytest.mark.parametrize("way", ["FROM dp($$ {} $$)", "{}"])
def test_functions_of_duckdb_are_told_without_the_list_of_all(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = (
        "lower(name) LIKE 'a%' AND i <> {} AND i + 1 <> -{} AND coalesce(nullif(i, 50), 3) >= 0 "
        "AND CAST(i AS VARCHAR) IN ('0', substring(i::VARCHAR, 1)) AND if(i > 50, false, true) "
        "AND (extract(year FROM DATE '2024-05-01' - INTERVAL 1 DAY), i) = (2024, i)"
    )
    call = f"DP_COUNT(1, {SURE}, privacy_unit := i)"
    text = way.format(f"SELECT CAST(coalesce({call}, 0) AS INTEGER) AS n FROM seen WHERE {where}")
    with dp_sql.install(duckdb.connect()) as con:
        con.execute("CREATE TABLE kept AS SELECT i, 'a' AS name FROM range(40) r(i)")
        con.execute("CREATE VIEW seen AS SELECT i, trim(name) AS name FROM kept WHERE i * 2 >= 0")
        con.execute("CREATE SCHEMA other; CREATE MACRO other.lower(x) AS x")
        with monkeypatch.context() as patch:
            patch.setattr(connection, "function_kinds", None)  # it takes DuckDB 10 ms and more
            assert con.execute(text.format(50, 50)).fetchall() == [(40,)]
        con.execute("SET search_path = 'other,main'")
        with pytest.raises(duckdb.Error, match=r"lower is a macro|a function lower of its own"):
            con.execute(text.format(60, 60))


def test_count_over_a_window_is_read_as_duckdb_prints_it() -> None:
    """DuckDB 1.5 prints it as count() OVER (…)."""
    rows = "SELECT u, count(*) OVER (PARTITION BY u) AS n FROM t"
    with dp_sql.install(duckdb.connect()) as con:
        con.execute("CREATE TABLE t AS SELECT i % 30 AS u FROM range(75) r(i)")
        call = f"DP_COUNT(1, {SURE}, privacy_unit := u)"
        assert con.execute(f"SELECT {call} FROM ({rows}) WHERE n > 2").fetchall() == [(45,)]
