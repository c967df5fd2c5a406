"""Macros of the owner's database that are called like operators are not called in their place."""

from typing import Any

import pytest

import dp_sql
from dp_sql.engines.duckdb import few_rows, many_rows
from dp_sql.engines.duckdb.called_functions import operators_in
from dp_sql.errors import NotPrivate
from dp_sql.session import dp_macro

_TABLE = "CREATE TABLE t AS SELECT i % 9 AS user_id, i AS x, i % 2 AS y FROM range(90) r(i)"
_GIVEN = "epsilon := 1, privacy_unit := user_id"
_MEDIAN = f"DP_MEDIAN(x, {_GIVEN}, lower := 0, upper := 100)"
_OPERATORS = ("-", "+", "*", "//", "/", "%", "<<", ">>", "&", "|", "||", "list_value", "contains",
              "struct_extract")  # fmt: skip
# Functions that dp_sql calls by their full names, with parameters as it calls them.
_NAMED = {
    "count": "a", "sum": "a", "list": "a", "least": "a, b", "greatest": "a, b", "length": "a",
    "bin": "a", "abs": "a", "range": "a, b", "arg_min": "a, b", "bit_or": "a", "len": "a",
    "list_extract": "a, b", "nullif": "a, b", "sha256": "a", "unnest": "a", "coalesce": "a, b",
    "date_diff": "a, b, c", "replace": "a, b, c", "count_star": "",
    "struct_pack": "a",
}  # fmt: skip


def test_a_macro_that_would_replace_an_operator_is_named_before_anything_is_drawn() -> None:
    """A call is answered only where its SQL does not call the macro, which fails."""
    topk, refused = f"DP_TOPK(x, 1, {_GIVEN}, domain := [1, 2])", set()
    plain = [topk, *(f"DP_{name}(x, {_GIVEN})" for name in ("COUNT", "SUM", "AVG"))]
    calls = [_MEDIAN, f"{topk[:-1]}, counts := true)", *plain]
    with dp_sql.connect() as session:
        session.execute(_TABLE)
        for name in _OPERATORS:
            kind = "TEMP" if name in {"-", "<<"} else ""
            session.execute(f"CREATE {kind} MACRO \"{name}\"(a, b) AS system.main.error('called')")
            for call in calls:
                try:
                    assert session.sql(f"SELECT {call} FROM t").fetchall()
                except NotPrivate as error:
                    assert f'macro "{name}", which' in error.message
                    refused.add((call, name))
            session.execute(f'DROP MACRO "{name}"')
        assert session.n_receipts == len(_OPERATORS) * len(calls) - len(refused)
    assert {call for call, _ in refused} == {*calls[:2]}, (
        "the others call none, and nothing is asked for them"
    )
    assert {"-", "+", "*", "struct_extract"} <= {name for _, name in refused}


def test_all_other_functions_are_called_by_their_full_names() -> None:
    """A bare name would call a macro that fails."""
    with dp_sql.connect() as session:
        session.execute(_TABLE)
        for name, parameters in _NAMED.items():
            session.execute(f"CREATE MACRO {name}({parameters}) AS system.main.error('a macro')")
        calls = [f"DP_{name}(x, {_GIVEN})" for name in ("COUNT", "SUM", "AVG", "COUNT_DISTINCT")]
        calls.append(_MEDIAN)
        session.sql(f"SELECT {', '.join(calls)} FROM t").fetchall()
        capped = [call.replace("user_id", "user_id, groups := [0, 1], max_groups_contributed := 1")
                  for call in calls]  # fmt: skip
        for call in (f"DP_COUNT(*, {_GIVEN}, report := true)",
                     f"DP_TOPK(x, 1, {_GIVEN}, domain := [1, 2], counts := true)"):  # fmt: skip
            session.sql(f"SELECT {call} FROM t").fetchall()
        session.sql(f"SELECT y, {', '.join(capped)} FROM t GROUP BY y").fetchall()
        assert session.n_receipts == 12


@pytest.mark.parametrize("setting", ["integer_division = true", "explain_output = 'all'"])
def test_a_setting_is_no_macro(setting: str) -> None:
    call = f"DP_SUM(CAST(x / 2 AS INTEGER), {_GIVEN})"
    with dp_sql.connect() as session:
        session.execute(_TABLE)
        session.execute(f"SET {setting}")
        assert len(session.sql(f"SELECT {call} FROM t").fetchall()) == 1


def test_a_plain_call_is_refused_as_well() -> None:
    connection = dp_sql.connect().connection
    assert connection is not None
    dp_sql.install(connection)
    connection.execute(_TABLE)
    connection.execute('CREATE MACRO "-"(a, b) AS system.main."+"(a, b)')
    with pytest.raises(Exception, match='macro "-", which'):
        connection.sql(f"SELECT {_MEDIAN} FROM t").fetchall()


def test_sql_of_few_rows_calls_no_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    sent, real = list[str](), few_rows._fetched
    monkeypatch.setattr(few_rows, "FEW", 1 << 16)
    monkeypatch.setattr(
        few_rows, "_fetched", lambda *of, **by: (sent.append(of[0]), real(*of, **by))[1]
    )
    grouped = f"{_GIVEN}, groups := [0, 1], max_groups_contributed := 1"
    with dp_sql.connect() as session:
        session.execute(_TABLE)
        for call in (f"DP_SUM(x, {grouped})", f"DP_COUNT_DISTINCT(x::VARCHAR, {grouped})"):
            session.sql(f"SELECT y, {call} FROM t GROUP BY y").fetchall()
        session.sql(f"SELECT DP_TOPK(x, 1, {_GIVEN}, domain := [1, 2]) FROM t").fetchall()
        session.execute(
            "CREATE TABLE listed AS SELECT unnest([-1, 0]) AS y, unnest(['a', 'b']) AS z"
        )
        call = f"DP_COUNT(*, {_GIVEN}, groups := (listed.y, listed.z), max_groups_contributed := 1)"
        by = "FROM (SELECT *, y::VARCHAR AS z FROM t) AS u GROUP BY y, z"
        session.sql(f"SELECT y, z, {call} {by}").fetchall()
    assert len(sent) == 4 and "list_position" in sent[3]
    assert not any(map(operators_in, sent))


def test_sql_of_rows_in_lists_calls_no_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    sent, real = list[str](), dp_macro.rows_in_lists

    def note(*given: Any) -> str | None:
        sent.append(real(*given[:3], "1, 2") or "-")
        return real(*given)

    monkeypatch.setattr(few_rows, "FEW", 1 << 16)
    monkeypatch.setattr(dp_macro, "rows_in_lists", note)
    call = f"DP_SUM(x, {_GIVEN}, groups := ([-1, 2], ['a']), max_groups_contributed := 1)"
    with dp_sql.connect() as session:
        session.execute(_TABLE)
        assert session.connection is not None
        query = f"SELECT y, z, {call} FROM (SELECT *, y::VARCHAR AS z FROM t) AS u GROUP BY y, z"
        assert len(session.connection.sql(f"FROM dp($$ {query} $$)").fetchall()) == 2
    assert sent and not operators_in(sent[0].replace("[]", ""))  # of types


def test_sql_of_rows_in_memory_calls_no_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not checked: a number of a macro would be a place outside of all groups."""
    sent, real = list[str](), many_rows._read
    monkeypatch.setattr(many_rows, "LEAST", 0)
    monkeypatch.setattr(many_rows, "_read", lambda *of: (sent.append(of[0].sql), real(*of))[1])
    call = f"DP_AVG(x, {_GIVEN}, groups := [0, 1], max_groups_contributed := 1)"
    with dp_sql.connect() as session:
        session.execute(_TABLE)
        session.sql(f"SELECT y, {call} FROM t GROUP BY y").fetchall()
    assert len(sent) == 1
    assert operators_in(sent[0]) == ()
