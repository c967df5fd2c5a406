"""Columns that are called like a type are columns before a bracket, too: text[1:2], map['a']."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import dp_sql
from dp_sql.sql.sqlglot_tree import projection
from tests.conftest import SURE

TABLE = """CREATE TABLE notes AS SELECT i % 90 AS user_id, 'abc' || i % 3 AS text,
    MAP {'a': i % 2} AS "map", [i % 2] AS list, 'x' || i % 2 AS "Json" FROM range(360) r(i)"""


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[dp_sql.Session]]:
    folder = tmp_path_factory.mktemp("types")
    policy = folder / "policy.toml"
    policy.write_text('tables.notes.privacy_unit = "user_id"\n')
    for name in ("own", "analyst"):
        with duckdb.connect(str(folder / name)) as con:
            con.execute(TABLE)
    with (
        dp_sql.connect(folder / "own") as own,
        dp_sql.connect(folder / "analyst", policy=policy, analyst="ann") as analyst,
    ):
        yield [own, analyst]


@pytest.mark.parametrize(
    "written",
    [
        "text[:4] = 'abc1'", "text[1] = 'a'", "TEXT[-1] = '2'", "notes.text[2:3] || text[4] = 'bc0'",
        "map['a'] = 1", "list[1] = 0", "json[2:] = '1'", "NOT text[4] = '2' AND list [1] = 1",
    ],
)  # fmt: skip
def test_a_name_before_a_bracket_is_a_column(written: str, sessions: list[dp_sql.Session]) -> None:
    own, analyst = sessions
    (wanted,) = own.execute(f"SELECT count(*) FROM notes WHERE {written}").fetchall()
    for session, unit in ((own, ", privacy_unit := user_id"), (analyst, "")):
        call = f"DP_COUNT(*, {SURE}, contribution_bound := 4{unit})"
        assert session.sql(f"SELECT {call} FROM notes WHERE {written}").fetchall() == [wanted]
        groups = session.sql(f"SELECT {written} AS k, {call} FROM notes GROUP BY k ORDER BY k")
        assert groups.fetchall()[1:] == [(True, *wanted)]


@pytest.mark.parametrize("kind", ["text[]", "int[3]", "STRUCT(text text[2], n int[])"])
def test_a_type_is_still_a_type(kind: str) -> None:
    node = projection(f"CAST(x AS {kind})")
    assert node is not None
    assert [column.name for column in node.find_all(type(projection("x")))] == ["x"]
