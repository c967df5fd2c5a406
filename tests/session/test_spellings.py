"""How tables, columns and arguments may be written."""

import duckdb
import pytest

import dp_sql
from tests.conftest import SURE

UNIT = f"{SURE}, privacy_unit := user_id"


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "name",
    ["rows", "source", "people", "counts", "counted", "domain", "histogram", "value", "item",
     "person", "items", "n", "code", "listed", "persons"],
)  # fmt: skip
def test_tables_and_columns_may_have_any_name(shared: dp_sql.Session, name: str) -> None:
    shared.execute(
        f'CREATE OR REPLACE TABLE "{name}" AS SELECT user_id, title AS "{name}", year AS other FROM ratings'
    )
    shared.execute(f'CREATE OR REPLACE TABLE public AS SELECT title AS "{name}" FROM catalog')
    where = f"WHERE \"{name}\" <> 'Emma' AND {name}.user_id >= 0 AND other > 1"
    call = f'DP_TOPK("{name}", 2, {UNIT}, domain := public."{name}")'
    assert shared.sql(f'SELECT {call} FROM "{name}" {where}').fetchall() == [(["Dune", "Ulysses"],)]
    call = f"DP_COUNT_DISTINCT({name}.{name}, {SURE}, privacy_unit := {name}.user_id)"
    assert shared.sql(f'SELECT {call} FROM "{name}" {where}').fetchall() == [(3,)]


def test_both_spellings_of_named_arguments_work(shared: dp_sql.Session) -> None:
    call = "dp_topk(title, 1, epsilon => 10000, privacy_unit => ratings.user_id, domain=>['Dune'])"
    assert shared.sql(f"SELECT {call} FROM ratings").fetchall() == [(["Dune"],)]
    call = (
        '"DP_TOPK" (title, 1, epsilon:=1e4, privacy_unit:=user_id, domain := OBSERVED, beta := .1)'
    )
    assert shared.sql(f"SELECT {call} FROM ratings").fetchall() == [(["Dune"],)]
    call = f"DP_TOPK(title, 1, {UNIT}, domain := catalog.title, mechanism := 'joint')"
    assert shared.sql(f"SELECT {call} FROM ratings").fetchall() == [(["Dune"],)]


def test_a_set_for_each_key_may_be_written_as_duckdb_writes_it(
    con: duckdb.DuckDBPyConnection,
) -> None:
    """DuckDB 1.5 hands a plain call's `(a, b)` on as "row"(a, b)."""
    con.execute("CREATE TABLE years AS SELECT unnest([1960, 1961]) AS year")
    call = f"DP_COUNT(1, {UNIT}, groups := {{}}(['Dune', 'Emma'], years.year))"
    for row in ("", "row", '"row"'):
        query = f"SELECT title, year, {call.format(row)} FROM ratings GROUP BY ALL"
        with pytest.raises(duckdb.Error, match="Write: FROM dp") as caught:
            con.sql(query).fetchall()
        assert len(con.sql(str(caught.value).split("Write: ")[1].strip()).fetchall()) == 4


def test_an_alias_may_be_called_as_a_function_of_its_expression(
    con: duckdb.DuckDBPyConnection,
) -> None:
    con.execute(
        "CREATE TABLE seen AS SELECT user_id, DATE '2020-01-01' + user_id::INT AS day FROM ratings WHERE user_id < 300"
    )
    text = "SELECT year(day) AS year, {} AS n FROM seen GROUP BY year ORDER BY year"
    call = f"DP_COUNT(*, {UNIT}, contribution_bound := 100, groups := [2020])"
    found = con.sql(f"FROM dp($$ {text.format(call)} $$)").fetchall()
    assert found == con.sql(text.format("count(*)")).fetchall()
