"""Programs that analysts use, for real: each asks once and is charged once.

No release is kept here, so a client that ran a query twice would be charged twice.
"""

import os
import re
import runpy
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dp_sql
from dp_sql.integrations import dbapi
from tests.integrations.test_dbapi import OWNERS_TOP, TOP, write_shop
from tests.integrations.test_sqlalchemy import analysts, debits, engine_for

BEST = ["Dune", "Emma"]
INTEGRATIONS = (Path(__file__).parents[2] / "docs" / "integrations.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.+?)```", INTEGRATIONS.partition("\n## dbt\n")[0], re.DOTALL)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return write_shop(tmp_path)


@pytest.fixture
def engine(shop: Path) -> Iterator[Any]:
    engine = analysts(shop)
    yield engine
    engine.dispose()


@pytest.fixture
def connection(shop: Path) -> Iterator[dbapi.Connection]:
    database, policy = str(shop / "shop.duckdb"), shop / "policy.toml"
    with dbapi.connect(database, policy=policy, analyst="ann") as con:
        yield con


def test_a_session_gives_dataframes_arrow_and_plain_values_of_one_release(shop: Path) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    pyarrow = pytest.importorskip("pyarrow")
    with dp_sql.connect(str(shop / "shop.duckdb"), policy=shop / "policy.toml") as session:
        answer = session.sql(TOP)
        assert answer.fetchall() == [(title,) for title in BEST]
        assert pandas.DataFrame({"title": BEST}).equals(answer.df().astype({"title": "str"}))
        assert polars.DataFrame({"title": BEST}).equals(answer.pl())
        read = answer.arrow()
        table = read if isinstance(read, pyarrow.Table) else read.read_all()
        assert table.to_pydict() == {"title": BEST}
        assert len(session.receipts) == 1
        assert session.receipts[0].to_dict()["epsilon"] == "10000"


def test_pandas_reads_an_answer_and_a_public_table(engine: Any, shop: Path) -> None:
    pandas = pytest.importorskip("pandas")
    assert list(pandas.read_sql(TOP, engine)["title"]) == BEST
    assert debits(shop) == 1
    assert len(pandas.read_sql_table("catalog", engine)) == 4


def test_pandas_gets_no_private_table(engine: Any, shop: Path) -> None:
    pandas = pytest.importorskip("pandas")
    with pytest.raises(Exception, match=r"does not exist|is private"):
        pandas.read_sql_table("ratings", engine)
    with pytest.raises(ValueError, match="secret"):
        pandas.read_sql_table("secret", engine)
    assert debits(shop) == 0


def test_pandas_writes_an_owners_table(shop: Path) -> None:
    pandas = pytest.importorskip("pandas")
    engine = engine_for(shop, "?owner=true")
    pandas.DataFrame({"i": [1, 2], "s": ["x", None]}).to_sql("made", engine, index=False)
    assert pandas.read_sql("SELECT * FROM made ORDER BY i", engine)["i"].tolist() == [1, 2]
    engine.dispose()


@pytest.mark.parametrize("through", ["engine", "connection"])
def test_polars_reads_an_answer(through: str, shop: Path, request: Any) -> None:
    polars = pytest.importorskip("polars")
    read = polars.read_database(TOP, request.getfixturevalue(through))
    assert read["title"].to_list() == BEST
    assert debits(shop) == 1


@pytest.mark.parametrize("through", ["engine", "connection"])
def test_polars_reads_structs_lists_and_labels(through: str, shop: Path, request: Any) -> None:
    """Reports and counts are structs; polars reads their types from the rows."""
    polars = pytest.importorskip("polars")
    client = request.getfixturevalue(through)
    counted = TOP.replace("10000)", "10000, counts := true)")
    assert polars.read_database(counted, client)["title"].to_list() == [
        {"item": "Dune", "count": 60}, {"item": "Emma", "count": 20},
    ]  # fmt: skip
    assert debits(shop) == 1
    text = (
        "SELECT [{'item': 1.5}] AS s, [2.5::DECIMAL(3, 1)] AS m, [1, 2]::INTEGER[2] AS a, "
        "'double'::ENUM('single', 'double') AS e"
    )
    ((first, second, third, fourth),) = polars.read_database(text, client).rows()
    assert (first, list(map(float, second)), third, fourth) == (
        [{"item": 1.5}], [2.5], [1, 2], "double",
    )  # fmt: skip


def test_polars_knows_duckdbs_types_from_the_type_codes(connection: dbapi.Connection) -> None:
    polars = pytest.importorskip("polars")
    text = "SELECT DATE '2026-11-21' AS d, 1.5::DECIMAL(3, 1) AS m, NULL::BIGINT AS n, [1] AS l"
    assert dict(polars.read_database(text, connection).schema) == {
        "d": polars.Date,
        "m": polars.Decimal(3, 1),
        "n": polars.Int64,
        "l": polars.List(polars.Int64),
    }


NOTEBOOK = """
import marimo

app = marimo.App()

@app.cell
def _():
    import marimo as mo
    import sqlalchemy
    from dp_sql.integrations import dbapi
    return (dbapi, mo, sqlalchemy)

@app.cell
def _(dbapi, mo, sqlalchemy):
    engine = {opened}
    best = mo.sql("{query}", engine=engine)
    return (best, engine)

@app.cell
def _(best):
    titles = best["title"].to_list()
    again = best["title"].to_list()
    return (again, titles)
"""
OPENED = {
    "engine": 'sqlalchemy.create_engine("dpsql:///{0}/shop.duckdb?policy={0}/policy.toml&analyst=ann")',
    "connection": 'dbapi.connect("{0}/shop.duckdb", policy="{0}/policy.toml", analyst="ann")',
}


@pytest.mark.parametrize("through", ["engine", "connection"])
def test_marimo_asks_by_sql_cells(through: str, shop: Path) -> None:
    pytest.importorskip("marimo")
    pytest.importorskip("polars")
    opened = OPENED[through].format(shop)
    (shop / "book.py").write_text(NOTEBOOK.format(opened=opened, query=TOP), "utf-8")
    _, names = runpy.run_path(str(shop / "book.py"))["app"].run()
    assert names["titles"] == names["again"] == BEST
    assert debits(shop) == 1
    names["engine"].dispose() if through == "engine" else names["engine"].close()


@pytest.fixture
def notebook() -> Iterator[Any]:
    # JupySQL would tell its makers that it was imported.
    os.environ["PLOOMBER_STATS_ENABLED"] = "false"
    pytest.importorskip("sql", reason="JupySQL is not installed")
    from IPython.core.interactiveshell import InteractiveShell

    shell: Any = InteractiveShell.instance()  # type: ignore[no-untyped-call]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # IPython's and JupySQL's own
        shell.run_line_magic("load_ext", "sql")
        yield shell
        shell.run_line_magic("sql", "--close ann")
    InteractiveShell.clear_instance()


def test_jupysql_asks_in_a_notebook(notebook: Any, shop: Path) -> None:
    pytest.importorskip("pandas")
    url = f"dpsql:///{shop}/shop.duckdb?policy={shop}/policy.toml&analyst=ann"
    notebook.run_line_magic("sql", f"{url} --alias ann")
    best = notebook.run_cell_magic("sql", "", TOP)
    assert [row[0] for row in best] == BEST
    assert list(best.DataFrame()["title"]) == BEST
    assert debits(shop) == 1
    shown = notebook.run_line_magic("sqlcmd", "tables")
    assert "ratings" in str(shown)
    assert "secret" not in str(shown)
    shown = notebook.run_line_magic("sqlcmd", "columns -t ratings")
    assert "user_id" in str(shown)
    told = notebook.run_cell_magic("sql", "", "DESCRIBE ratings")
    assert ("user_id", "BIGINT") in [tuple(row) for row in told]
    assert debits(shop) == 1


def test_ibis_reads_an_owners_answer_through_the_macro(shop: Path) -> None:
    ibis = pytest.importorskip("ibis")
    if not hasattr(duckdb.DuckDBPyConnection, "fetch_arrow_table"):
        pytest.skip("ibis 12 calls fetch_arrow_table, which duckdb 2.0 no longer has")
    with dp_sql.connect(str(shop / "shop.duckdb")) as session, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of what ibis calls in DuckDB 1.5
        backend = ibis.duckdb.from_connection(session.connection)
        lazy = backend.sql(f"FROM dp($${OWNERS_TOP}$$)")
        assert lazy.columns == ("title",)
        assert session.receipts == ()
        assert lazy.execute()["title"].tolist() == BEST
        assert len(session.receipts) == 1


@pytest.mark.one_in(3)
@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_of_the_integrations_page_runs(
    block: str, shop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in re.findall(r"^import (pandas|polars)$", block, re.MULTILINE):
        pytest.importorskip(name)
    monkeypatch.chdir(shop)
    exec(compile(block, "integrations.md", "exec"), {})
    assert re.search("Dune|Emma|Walden|Beloved", capsys.readouterr().out)
