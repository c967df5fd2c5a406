"""The Quack server's own parts: addresses, answers as statements, and the types of columns."""

import socket
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

from dp_sql.engines.duckdb import quack_extension
from dp_sql.engines.duckdb import quack_server as duckdb_quack
from dp_sql.engines.duckdb.quack_extension import load_quack
from dp_sql.engines.duckdb.quack_server import QuackServer, address, check_free
from dp_sql.engines.duckdb.results import fetched
from dp_sql.errors import NotSupported


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("quack:localhost:9494", "quack:localhost:9494"), ("quack:localhost", "quack:localhost:9494"),
        ("127.0.0.1:80", "quack:127.0.0.1:80"), ("quack:[::1]:9495", "quack:[::1]:9495"),
        ("Quack.example:1", "quack:quack.example:1"),
    ],
)  # fmt: skip
def test_an_address_is_read(text: str, want: str) -> None:
    assert str(address(text)) == want
    assert address(text).is_local == ("example" not in want)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "quack:",
        "quack:localhost:0",
        "localhost:99999",
        "a b",
        "x'y",
        "quack:a:b",
        "http://a",
        "9494",
    ],
)
def test_an_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(NotSupported, match="not an address to listen on"):
        address(text)


def test_a_port_that_another_server_would_share_is_refused() -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # as Quack's own
        other.bind(("127.0.0.1", 0))
        where = address(f"localhost:{other.getsockname()[1]}")
        other.listen()
        with pytest.raises(NotSupported, match="another server does"):
            check_free(where)
        client = socket.create_connection(other.getsockname())
        other.accept()[0].close()
    with client:  # it has not closed its end
        check_free(where)


def test_a_bug_is_one_constant_sentence_for_the_client() -> None:
    def answer(connection: str, text: str) -> str:
        raise RuntimeError("canary")

    told = duckdb_quack._instead(answer, "one", "SELECT 1")
    assert told is not None and "canary" not in told
    with duckdb.connect() as con, pytest.raises(duckdb.Error, match="The server failed"):
        con.execute(told).fetchall()


def test_an_error_arrives_with_its_quotes() -> None:
    def answer(connection: str, text: str) -> str:
        raise NotSupported("It's not 'there'\0.")

    told = duckdb_quack._instead(answer, "one", "SELECT 1")
    with duckdb.connect() as con, pytest.raises(duckdb.Error, match=r"It's not 'there'\."):
        con.execute(str(told)).fetchall()


@pytest.mark.parametrize("text", ["INSERT INTO a.b VALUES (NULL)", "  insert into x", None])
def test_an_insert_gets_no_answer(text: Any) -> None:
    assert duckdb_quack._instead(lambda *_: "SELECT 1", "one", text) is None


def test_columns_of_the_same_name_stay_apart() -> None:
    with duckdb.connect() as con:
        rows = fetched(con.sql("SELECT 1 AS a, 'x' AS a"))
        assert rows.columns == (("a", "INTEGER"), ("a", "VARCHAR"))
        assert rows.table.column_names == ["c0", "c1"]
        odd = fetched(con.sql("SELECT '101'::BIT AS a, 'x' AS A, '1'::BIT AS b"))
        assert [column.to_pylist() for column in odd.table.columns] == [["101"], ["x"], ["1"]]
        assert [kind for _, kind in odd.columns] == ["BIT", "VARCHAR", "BIT"]


def test_a_union_keeps_its_member() -> None:
    with duckdb.connect() as con:
        rows = fetched(con.sql("SELECT [union_value(UUID := '101'::BIT)] AS a"))
        ((_, kind),) = rows.columns
        con.register("sent", rows.table)
        con.execute(f"CREATE TABLE held AS SELECT CAST(c0 AS {kind}) AS a FROM sent")
        text = "SELECT union_tag(a[1])::VARCHAR, a::VARCHAR FROM held"
        assert con.execute(text).fetchall() == [("UUID", "[101]")]


def test_a_type_that_sql_cannot_write_is_fetched_as_a_string() -> None:
    with duckdb.connect() as con:
        sql = "SELECT row(1, 'x') AS a, {'b': [row(2)]} AS c, {'d': 1} AS e"
        rows = fetched(con.sql(sql))
        for _, kind in rows.columns:
            con.execute(f"SELECT NULL::{kind}").fetchall()
        assert rows.columns[2] == ("e", "STRUCT(d INTEGER)")
        if rows.columns[0][1] == "VARCHAR":  # 2.0 has a name for it
            assert rows.table.slice(0, 1).to_pylist()[0]["c0"] == "(1, x)"


def test_without_the_extension_serving_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quack_extension, "_EXTENSIONS", ("no_such_extension",))
    off: dict[str, Any] = {"autoinstall_known_extensions": "false"}
    with (
        duckdb.connect(config=off) as con,
        pytest.raises(NotSupported, match=r"pip install .*\[serve\]"),
    ):
        load_quack(con)


KINDS = [
    "i % 2 = 0", "CASE WHEN i % 3 = 0 THEN TRUE END", "NULL", "i", "i % 100::UTINYINT", "'a' || i",
    "i::HUGEINT", "i / 7::DECIMAL(4, 1)", "INTERVAL 1 DAY", "'a'::BLOB", "[]", "[[], [], [[]]]",
    "[TRUE, FALSE, NULL, TRUE]", "{'a': NULL, 'b': [TRUE]}", "MAP {i: TRUE}", "'a'::ENUM ('a', 'b')",
    "union_value(k := TRUE)", "array_value(TRUE, FALSE)", "[[[[1]]]]", "uuid()",
]  # fmt: skip
LONG_ONES = {
    "repeat('x', 4090)": 3000, "repeat('x', 5000)": 1000, "repeat('x', 140000)": 100,
    "[j % 2 = 0 FOR j IN range(400000)]": 3, "[j % 2 = 0 FOR j IN range(3000)]": 1, "range(50000)": 5,
    "['x', repeat('x', 140000)]": 50,
}  # fmt: skip
SIZES = [(kind, rows) for kind in KINDS for rows in (1, 500, 2048, 5000, 130_000)]


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        yield con


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("kind", "n_rows"), [*SIZES, *LONG_ONES.items()])
def test_an_answer_takes_no_more_memory_than_is_counted(
    kind: str, n_rows: int, plain: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duckdb_quack, "load_quack", lambda _: None)
    used, shelf = "SELECT sum(memory_usage_bytes) FROM duckdb_memory()", QuackServer()
    columns = [kind] * (1 if n_rows == 130_000 else 5)
    sql = f"SELECT {', '.join(columns)} FROM range({n_rows}) AS t(i)"
    rows, ((before,),) = fetched(plain.sql(sql)), shelf._run(used)
    shelf.hold(rows)
    ((after,),) = shelf._run(used)
    assert after - before <= rows.stored_bytes
    shelf.close()


def test_an_answer_that_takes_too_much_memory_is_refused() -> None:
    sql = f"SELECT {', '.join(['TRUE'] * 500)} FROM range(130000)"
    with duckdb.connect() as con, pytest.raises(NotSupported, match="at most 512 MB"):
        fetched(con.sql(sql))
