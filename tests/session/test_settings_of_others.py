"""Settings that another connection of the process to the file changes: answers stay what they are."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow
import pyarrow.parquet
import pytest

import dp_sql
from dp_sql.engines.duckdb import row_estimate
from dp_sql.engines.duckdb.private_connection import PrivateConnection
from dp_sql.errors import PolicyError, QueryError
from tests.conftest import SURE

IS_1 = duckdb.__version__.startswith("1.")
GEO = (
    '{"version": "1.0.0", "primary_column": "x", "columns": {"x": {"encoding": "WKB", '
    '"geometry_types": ["Point"]}}}'
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Path]:
    """A database file, beside the policy of its table t."""
    (tmp_path / "policy.toml").write_text('tables.t.privacy_unit = "u"\n', "utf-8")
    yield tmp_path / "store.duckdb"


def _made(store: Path, sql: str) -> None:
    with duckdb.connect(str(store)) as con:
        con.execute(sql)


def _owner(store: Path, *settings: str) -> duckdb.DuckDBPyConnection:
    owner = duckdb.connect(str(store), read_only=True)
    for setting in settings:
        owner.execute(f"SET GLOBAL {setting}")
    return owner


def _session(store: Path) -> dp_sql.Session:
    return dp_sql.connect(store, policy=store.with_name("policy.toml"))


def test_settings_of_expressions_and_optimizers_change_no_answer(store: Path) -> None:
    _made(store, "CREATE TABLE t AS SELECT i AS u, 'a' AS x, i::DOUBLE AS d FROM range(40) r(i)")
    counted = "SELECT DP_COUNT_DISTINCT(u, epsilon := 10000) FROM t WHERE"
    settings = (
        "default_collation = 'NOCASE'",
        "ieee_floating_point_ops = false",
        "disabled_optimizers = ''",
    )
    with _owner(store) as owner, _session(store) as session:
        for setting in settings:
            owner.execute(f"SET GLOBAL {setting}")
        assert session.sql(f"{counted} x = 'A'").fetchall() == [(0,)]
        assert session.sql(f"{counted} 1.5 / d IS NOT NULL").fetchall() == [(40,)]
        ((off,),) = owner.execute("SELECT current_setting('disabled_optimizers')").fetchall()
        assert "statistics_propagation" in off


@pytest.mark.parametrize(
    "setting", ["disable_timestamptz_casts = true", "max_expression_depth = 9"]
)
def test_settings_that_refuse_sql_fail_no_query(
    store: Path, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _made(
        store,
        "CREATE TABLE t AS SELECT i AS u, '2020-01-01 00:00:00+00'::TIMESTAMPTZ AS x FROM range(40) r(i)",
    )
    release = PrivateConnection.release

    def later(self: PrivateConnection, *more: Any) -> Any:
        owner.execute(f"SET GLOBAL {setting}")  # once the cost is spent
        return release(self, *more)

    monkeypatch.setattr(PrivateConnection, "release", later)
    with _owner(store) as owner, _session(store) as session:
        text = f"SELECT DP_COUNT_DISTINCT(u, {SURE}) FROM t WHERE x::DATE = '2020-01-01'"
        for _ in range(2):
            assert session.sql(text).fetchall() == [(40,)]


@pytest.mark.parametrize("day", ["'2020-01-01'", "'5877642-06-25 (BC)'"])
def test_whether_other_optimizers_fail_a_query_does_not_depend_on_rows(
    store: Path, day: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _made(store, f"CREATE TABLE t AS SELECT i AS u, {day}::DATE AS d FROM range(40) r(i)")
    answers = PrivateConnection._answers

    def later(self: PrivateConnection, *more: Any) -> Any:
        owner.execute("SET GLOBAL disabled_optimizers = ''")  # once the cost is spent
        return answers(self, *more)

    text = f"SELECT date_trunc('week', d) AS w, DP_COUNT(1, {SURE}, groups := ['2019-12-30']) FROM t GROUP BY w"
    with _owner(store) as owner, _session(store) as session:
        assert len(session.sql(text).fetchall()) == 1
        monkeypatch.setattr(PrivateConnection, "_answers", later)
        with pytest.raises(QueryError, match="Its cost is spent"):
            session.sql(text)
        monkeypatch.undo()
        assert len(session.sql(text).fetchall()) == 1


def _of_bytes(store: Path, *, is_geo: bool = False) -> None:
    """Make the table of a parquet file, in which one person's bytes are neither text nor a point."""
    point = bytes([1, 1, 0, 0, 0]) + bytes(16)
    rows = pyarrow.table({"u": [*range(40), 40], "x": [*[point] * 40, b"\xff\xfe"]})
    file = store.with_name("t.parquet")
    written = rows.replace_schema_metadata({"geo": GEO} if is_geo else None)
    pyarrow.parquet.write_table(written, file)
    _made(store, f"CREATE VIEW t AS FROM read_parquet('{file}')")


@pytest.mark.parametrize("is_before", [True, False])
def test_bytes_of_a_file_that_are_no_text_fail_no_query(store: Path, is_before: bool) -> None:
    _of_bytes(store)
    setting = "binary_as_string = true"
    _session(store).close()  # from now on the file is known to be readable
    with _owner(store, *([setting] if is_before else [])) as owner, _session(store) as session:
        owner.execute(f"SET GLOBAL {setting}")
        for who, n in (("u < 40", 1), ("true", 2)):
            text = f"SELECT DP_COUNT_DISTINCT(x, {SURE}) FROM t WHERE {who}"
            assert session.sql(text).fetchall() == [(n,)]


def test_a_file_is_read_to_its_end_as_the_types_that_queries_read(store: Path) -> None:
    _of_bytes(store, is_geo=True)
    for setting in ("enable_geoparquet_conversion = false", "enable_geoparquet_conversion = true"):
        refused = pytest.raises(PolicyError, match="hold a value that DuckDB cannot read")
        with _owner(store, setting), refused:
            _session(store)


@pytest.mark.parametrize("large", [0, 1 << 18])
def test_decimals_are_read_in_pieces_however_others_set_arrow(
    store: Path, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_estimate, "LARGE", large)
    _made(
        store, "CREATE TABLE t AS SELECT i AS u, (i % 5)::DECIMAL(4, 2) AS x FROM range(900) r(i)"
    )
    with _owner(store, "arrow_output_version = '1.5'"), _session(store) as session:
        assert session.sql(f"SELECT DP_COUNT_DISTINCT(x, {SURE}) FROM t").fetchall() == [(5,)]


@pytest.mark.skipif(IS_1, reason="DuckDB 1 has no limit on time")
def test_a_limit_on_time_fails_no_query(store: Path) -> None:
    _made(store, "CREATE TABLE t AS SELECT i % 5000 AS u, i % 99 AS x FROM range(1000000) AS r(i)")
    count = "SELECT count(DISTINCT (u, x)) FROM t"
    with _owner(store, "max_execution_time = 10") as owner, _session(store) as session:
        with pytest.raises(duckdb.InterruptException):  # what the limit does
            owner.execute(count).fetchall()
        assert session.sql(f"SELECT DP_COUNT_DISTINCT(x, {SURE}) FROM t").fetchall() == [(99,)]
