"""Frozen answers: short ones are constants in SQL, long ones are rows of a table."""

from datetime import datetime
from decimal import Decimal
from typing import Any

import duckdb
import pytest

from dp_sql.engines.duckdb.frozen import FrozenAnswers, exactly

COUNTED = "STRUCT(item VARCHAR, count BIGINT)[]"
REPORT = "STRUCT(estimate DOUBLE, noise HUGEINT)"
ODD = ["it's", "", "NULL", '"a", [b]', "{c}", "\\x00", "é\U0001f600", None]

VALUES = [
    ("BIGINT", -(2**63), -(2**63)),
    ("BIGINT", None, None),
    ("BIGINT[]", [], []),
    ("BIGINT[]", [3, None], [3, None]),
    ("VARCHAR[]", ODD, ODD),
    ("DECIMAL(38,2)", "-0.01", Decimal("-0.01")),
    ("HUGEINT[]", [str(2**127 - 1)], [2**127 - 1]),
    ("VARCHAR", "it's \0 \\x00 é", "it's \0 \\x00 é"),
    ("HUGEINT", str(2**127 - 1), 2**127 - 1),
    ("BLOB", "\\x00a'", b"\x00a'"),
    ("BOOLEAN", "true", True),
    ("TIMESTAMP", "2024-01-31 00:00:00.000001", datetime(2024, 1, 31, microsecond=1)),
    ("ENUM('it''s', '')", "it's", "it's"),
    ("BLOB[]", ["\\x00a"], [b"\x00a"]),
    (COUNTED, [{"item": "it's", "count": 2}], [{"item": "it's", "count": 2}]),
    (REPORT, {"estimate": 0.1, "noise": str(2**70)}, {"estimate": 0.1, "noise": 2**70}),
    (REPORT, {"estimate": 5e-324, "noise": None}, {"estimate": 5e-324, "noise": None}),
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("kind", "given", "read"), VALUES)
@pytest.mark.parametrize("n_rows", [1, 2, 300])
def test_what_is_read_is_what_was_given(kind: str, given: Any, read: Any, n_rows: int) -> None:
    with duckdb.connect() as connection:
        columns, rows = [("a", "BIGINT"), ("b", kind)], [(n, given) for n in range(n_rows)]
        relation = FrozenAnswers(connection.execute).add(columns, rows)
        found = connection.execute(f"SELECT a, b, typeof(b) FROM {relation} ORDER BY a").fetchall()
        typed = connection.execute(f"SELECT typeof(CAST(NULL AS {kind}))").fetchall()[0][0]
        assert found == [(n, read, typed) for n in range(n_rows)]


@pytest.mark.one_in(5)
@pytest.mark.parametrize(
    ("rows", "n_tables"),
    [([("a",)], 0), ([], 1), ([("a\0b",)], 1), ([("a" * 2000,)], 1), ([("a",)] * 300, 1)],
)
def test_only_short_answers_are_constants(rows: list[tuple[str]], n_tables: int) -> None:
    with duckdb.connect() as connection:
        relation = FrozenAnswers(connection.execute).add([("a", "VARCHAR")], rows)
        assert connection.execute(f"FROM {relation}").fetchall() == rows
        assert connection.execute("SELECT count(*) FROM duckdb_tables()").fetchall() == [
            (n_tables,)
        ]


_MICROS = ("294247-01-10 04:00:54.775806", "290309-12-22 (BC) 00:00:00")
_MICROS += ("290308-12-22 (BC) 00:00:00.123457", "infinity", "-infinity")
ENDS = [
    ("TIMESTAMP WITH TIME ZONE", [one + "+00" * one[0].isdigit() for one in _MICROS]),
    ("TIMESTAMP", _MICROS),
    ("TIMESTAMP_S", ["294247-01-10 04:00:54", "290309-12-22 (BC) 00:00:00", "infinity"]),
    ("TIMESTAMP_MS", ["294247-01-10 04:00:54.775", "290309-12-22 (BC) 00:00:00", "-infinity"]),
    ("TIMESTAMP_NS", ["2262-04-11 23:47:16.854775806", "1677-09-22 00:00:00", "infinity"]),
    ("DATE", ["5881580-07-10", "5877642-06-25 (BC)", "infinity", "-infinity"]),
    ("TIME", ["00:00:00", "23:59:59.999999", "24:00:00"]),
    ("HUGEINT", [str(2**127 - 1), str(-(2**127))]),
    ("UHUGEINT", [str(2**128 - 1), "0"]),
    ("DECIMAL(38,38)", ["0." + "9" * 38, "-0." + "9" * 38]),
]


@pytest.mark.parametrize(("kind", "values"), ENDS)
def test_the_ends_of_a_type_are_read_back_as_they_were(kind: str, values: list[str]) -> None:
    columns = [("a", kind), ("b", f"{kind}[]"), ("c", COUNTED.replace("VARCHAR", kind))]
    ends = f"SELECT CAST(unnest({[*values, None]}) AS {kind}) AS x".replace("None", "NULL")
    select = f"SELECT x AS a, [x, NULL] AS b, [{{item: x, count: 1}}] AS c FROM ({ends})"
    with duckdb.connect() as connection:
        rows = connection.execute(exactly(columns, select)).fetchall()
        relation = FrozenAnswers(connection.execute).add(columns, rows)
        changed = connection.execute(f"FROM ({select}) EXCEPT ALL FROM {relation}").fetchall()
        assert not changed and len(rows) == len(values) + 1
