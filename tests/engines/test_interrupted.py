"""What Ctrl-C leaves behind: a database that can be opened again, and calls that end."""

import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

import dp_sql
from dp_sql.engines.duckdb import arrow_rows, connection, few_rows, install
from dp_sql.errors import QueryError
from dp_sql.sql.functions.topk import TopK
from tests.conftest import READING_LOG, SURE

PROGRAM = """
import os, signal, sys, threading
import dp_sql
signal.signal(signal.SIGINT, signal.default_int_handler)
for n in range(2):
    with dp_sql.connect(sys.argv[1]) as session:
        threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGINT]).start()
        try:
            session.sql("SELECT i % 7, count(DISTINCT i + j) FROM numbers, range(9) AS t(j) GROUP BY 1").fetchall()
        except (KeyboardInterrupt, RuntimeError):
            print("interrupted")
"""


@pytest.mark.slow  # on a busy machine, DuckDB 1.5 may wait for ever even so
def test_a_database_is_opened_again_after_ctrl_c(tmp_path: Path) -> None:
    path = str(tmp_path / "shop.duckdb")
    with duckdb.connect(path) as con:
        con.execute("CREATE TABLE numbers AS SELECT i FROM range(3000000) AS r(i)")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, path],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.stdout.splitlines(), done.returncode) == (["interrupted"] * 2, 0), done.stderr


def test_what_ctrl_c_interrupts_is_called_so(
    session: dp_sql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise RuntimeError("Query interrupted")  # as DuckDB does

    monkeypatch.setattr(connection, "answered", interrupted)
    with pytest.raises(QueryError, match=r"^The query was interrupted\."):
        session.sql(f"SELECT DP_COUNT(*, {SURE}, privacy_unit := user_id) FROM ratings")


def test_ctrl_c_in_a_function_is_called_so(
    session: dp_sql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(few_rows, "FEW", 0)
    monkeypatch.setattr(TopK, "draw", interrupted)
    call = f"DP_TOPK(title, 1, {SURE}, privacy_unit := user_id, domain := ['a', 'b'])"
    with pytest.raises(QueryError, match=r"^The query was interrupted\."):
        session.sql(f"SELECT {call} FROM ratings")


def test_a_reader_of_batches_is_closed_also_when_an_error_keeps_its_frame() -> None:
    with duckdb.connect() as con:
        relation, readers = con.sql("FROM range(10000000)"), []

        class Opened:
            def to_arrow_reader(self, rows: int) -> object:
                asked = getattr(relation, "to_arrow_reader", relation.fetch_record_batch)
                readers.append(asked(rows))
                return readers[0]

        pieces = arrow_rows.batches(Opened())
        next(pieces)
        with pytest.raises(KeyboardInterrupt):
            pieces.throw(KeyboardInterrupt())  # type: ignore[attr-defined]
        with pytest.raises(Exception, match=r"(?i)released|closed"):
            readers[0].read_next_batch()


def test_a_connection_that_closes_ends_no_call_that_reads_on_another() -> None:
    con = duckdb.connect()
    con.execute(READING_LOG)
    dp_sql.install(con)
    instance = install.instance_of(con)
    assert instance is not None
    with install._open_cursor(instance.connections) as cursor:
        con.close()
        assert cursor.execute("SELECT count(*) FROM catalog").fetchall() == [(7,)]
