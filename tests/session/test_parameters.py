"""Parameters of statements with DP calls: each becomes a literal before anything is planned."""

import datetime
import math
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dp_sql
from dp_sql.errors import ArgumentError, NotSupported, QueryError
from dp_sql.sql import parameters
from dp_sql.sql.parameters import bind
from dp_sql.sql.statement import parse
from tests.conftest import SURE, free
from tests.integrations.test_dbapi import write_shop

OWNERS = f"DP_COUNT_DISTINCT(title, {SURE}, privacy_unit := user_id)"
COUNT = f"SELECT DP_COUNT_DISTINCT(title, {SURE}) FROM ratings WHERE "
SMALL = datetime.timedelta(days=99_999)
SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**127), 2**128 - 1) | st.uuids()
    | st.floats(allow_nan=False) | st.decimals(-1000, 1000, places=5) | st.binary(max_size=9)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
    | st.dates(datetime.date(2, 1, 1), datetime.date(9998, 1, 1)) | st.times()
    | st.datetimes(datetime.datetime(2, 1, 1), datetime.datetime(9998, 1, 1))
    | st.timedeltas(-SMALL, SMALL)
)  # fmt: skip


@pytest.fixture(scope="module")
def con() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


@pytest.fixture(scope="module")
def owner() -> Iterator[dp_sql.Session]:
    with dp_sql.connect() as session:
        session.sql(
            "CREATE TABLE ratings AS SELECT i AS user_id, 'b' || i AS title, i % 5 AS score, "
            "DATE '2024-01-01' + i::INTEGER AS day, i % 2 = 0 AS even FROM range(50) AS r(i)"
        )
        yield session


@pytest.fixture
def analyst(tmp_path: Path) -> Iterator[dp_sql.Session]:
    shop = write_shop(tmp_path, keep=True)
    policy = shop / "policy.toml"
    with dp_sql.connect(str(shop / "shop.duckdb"), policy=policy, analyst="ann") as session:
        yield session


def bound(value: object, place: str = "x = ?") -> str:
    """What is written in the place of a parameter."""
    before, after = place.split("?")
    text = f"SELECT DP_COUNT_DISTINCT(a, epsilon := 1, privacy_unit := u) FROM t WHERE {place}"
    written = bind(parse(text)[0], [value], frozenset("1"))
    return written[len(text) - len(place) + len(before) : len(written) - len(after)]


def disagrees(value: object, con: duckdb.DuckDBPyConnection) -> bool:
    """Whether a literal is not the value that DuckDB binds, of the same type."""
    look = "SELECT v, split_part(typeof(v), '(', 1) FROM (SELECT {} AS v)"
    ours = con.execute(look.format(bound(value))).fetchall()
    theirs = con.execute(look.format("?"), [value]).fetchall()
    return ours != theirs


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(value=SCALARS | st.lists(st.text("a'\\\"\n;-$?", max_size=5), min_size=1, max_size=3))
def test_a_literal_is_the_value_that_duckdb_would_bind(
    value: object, con: duckdb.DuckDBPyConnection
) -> None:
    assert not disagrees(value, con)


def test_a_binder_that_pastes_strings_disagrees(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parameters, "literal", lambda value: f"'{value}'")
    with pytest.raises((AssertionError, QueryError, duckdb.Error)):
        assert not disagrees("a' || 'b", con)


@pytest.mark.parametrize(
    ("value", "same"),
    [(np.int64(5), 5), (np.float64(0.1), 0.1), (np.bool_(True), True), (np.str_("x"), "x"),
     (np.array([1, 2]), [1, 2]), ((1, 2), [1, 2]), (Decimal("1.50"), Decimal("1.50"))],
)  # fmt: skip
def test_values_of_other_libraries_are_pythons(value: object, same: object) -> None:
    assert bound(value) == bound(same)


class _Text(str):
    def replace(self, *_: object) -> str:  # type: ignore[override]
        return "' OR TRUE --"


class _Number(Decimal):
    def __format__(self, _: str, /) -> str:  # type: ignore[override]
        return "1 OR TRUE"


class _Span(datetime.timedelta):
    days = property(lambda _: "1' OR TRUE --")  # type: ignore[assignment]


class _Id(uuid.UUID):
    def __str__(self) -> str:
        return _Text(uuid.UUID.__str__(self))


@pytest.mark.parametrize(
    ("value", "same"),
    [(_Text("x"), "x"), (_Number("1.5"), Decimal("1.5")), (_Id(int=1), uuid.UUID(int=1)),
     (_Span(1), datetime.timedelta(1)), (_Span(1, 2), datetime.timedelta(1, 2))],
)  # fmt: skip
def test_values_of_subclasses_write_no_sql(value: object, same: object) -> None:
    assert bound(value) == bound(same)


def test_values_that_python_alone_cannot_compare() -> None:
    noon = datetime.datetime(2024, 1, 1, 12, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    assert bound(noon) == "CAST('2024-01-01 10:00:00+00:00' AS TIMESTAMP WITH TIME ZONE)"
    assert bound(math.nan) == "CAST('nan' AS DOUBLE)"
    assert bound([1, 2], "x IN ?") == "(1, 2)"
    assert bound([None, 2], "x IN ?") == "[NULL, 2]"  # x NOT IN (NULL, 2) would be NULL
    assert bound(-1, "x-?-1") == " (-1) "


@pytest.mark.parametrize(
    ("value", "told"),
    [("a\0b", "NUL"), ("\ud800", "surrogate"), (2**128, "largest integer"), ({1}, "type set"),
     (-(2**127) - 1, "largest integer"), (Decimal("NaN"), "DECIMAL"), (Decimal("1e50"), "DECIMAL"),
     (Decimal("1e999999"), "DECIMAL"), ({"a": 1}, "type dict"), ([object()], "type object"),
     (np.datetime64("2024-01-01"), "NumPy"), (1j, "type complex"),
     (datetime.datetime.max.replace(tzinfo=datetime.timezone(-datetime.timedelta(hours=1))), "UTC")],
)  # fmt: skip
def test_a_value_without_a_literal_is_refused(value: object, told: str) -> None:
    with pytest.raises(ArgumentError, match=f"Parameter 1 .*{told}"):
        bound(value)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("where", "params", "answer"),
    [
        ("score = ?", [3], 10),
        ("score = $1 AND (even = $2 OR score < $1)", (3, True), 5),
        ("score = $Score AND day >= $day", {"score": 3, "DAY": datetime.date(2024, 1, 20)}, 6),
        ("score IN (?, ?)", [1, -2], 10),
        ("score IN $some", {"some": [1, 2]}, 20),
        ("score-?=4", [-1], 10),
        ("title = ?", ["' OR true --"], 0),
        ("title = ?", ["b1"], 1),
        ("title LIKE $$b1%$$ AND title <> '?' -- ?\n AND score = ?", [1], 3),
        ("score = ?", [None], 0),
    ],
)
def test_an_owner_asks_with_parameters(
    owner: dp_sql.Session, where: str, params: Any, answer: int
) -> None:
    text = f"SELECT {OWNERS} FROM ratings WHERE {where}"
    assert owner.sql(text, params=params).fetchall() == [(answer,)]
    assert owner.execute(text, params).fetchall() == [(answer,)]
    assert owner.explain(text, params=params).epsilon == 10_000


@pytest.mark.parametrize("end", ["LIMIT 'x'", "LIMIT 1e30", "LIMIT [1]", "LIMIT '1' OFFSET 'y'"])
def test_a_limit_that_is_no_number_costs_nothing(
    end: str, session: dp_sql.Session, top3: str
) -> None:
    with free(session), pytest.raises(QueryError):
        session.sql(f"{top3} {end}")
    assert session.sql(f"{top3} LIMIT ?", params=["1"]).fetchall() == [
        (["Dune", "Emma", "Ulysses"],)
    ]


def test_values_are_allowed_where_data_stands(owner: dp_sql.Session) -> None:
    grouped = OWNERS[:-1] + ", groups := [$a, $b], max_groups_contributed := 1)"
    text = f"SELECT score, {grouped} AS n FROM ratings GROUP BY score ORDER BY score LIMIT $n"
    assert owner.sql(text, params={"a": 7, "b": 1, "n": 2}).fetchall() == [(1, 10), (7, 0)]
    text = text.replace("[$a, $b]", "$g")
    assert owner.sql(text, params={"g": [7, 1], "n": 2}).fetchall() == [(1, 10), (7, 0)]
    for wrong in (7, "x", None, [], [None]):
        with free(owner), pytest.raises(ArgumentError):
            owner.sql(text, params={"g": wrong, "n": 2})
    call = f"DP_COUNT(*, {SURE}, privacy_unit := user_id, groups := (?, [?, false]))"
    text = f"SELECT score, even, {call} FROM ratings GROUP BY ALL"
    assert owner.sql(text, params=[[0], True]).fetchall() == [(0, False, 5), (0, True, 5)]
    key = "CASE WHEN score < ? THEN ? ELSE ? END"
    text = f"SELECT {key} AS k, {OWNERS} FROM ratings GROUP BY {key} ORDER BY {key}, left(k, ?)"
    text = text.replace(SURE, f"{SURE}, max_groups_contributed := 1")
    found = owner.sql(text, params=[*[3, "low", "high"] * 3, 2]).fetchall()
    assert [k for k, _ in found] == ["high", "low"]
    item = OWNERS.replace("title", "coalesce(nullif(title, ?), ?)")
    assert owner.sql(f"SELECT {item} FROM ratings", params=["b1", "b2"]).fetchall() == [(49,)]
    made = f"CREATE TEMP TABLE made AS SELECT {OWNERS} AS n FROM ratings WHERE score = ?"
    owner.sql(f"SELECT 1; {made}", params=[1])
    assert owner.sql("SELECT n FROM made").fetchall() == [(10,)]


@pytest.mark.parametrize(
    ("text", "params", "error", "told"),
    [
        (f"SELECT {OWNERS} FROM ratings WHERE score = ?", [], ArgumentError, "not provided.*: 1"),
        (f"SELECT {OWNERS} FROM ratings WHERE score = ?", None, ArgumentError, "not provided"),
        (f"SELECT {OWNERS} FROM ratings WHERE score = ?", [1, 2], ArgumentError, "excess.*: 2"),
        (f"SELECT {OWNERS} FROM ratings WHERE score = $a", {"b": 1}, ArgumentError, "provided.*: a"),
        (f"SELECT {OWNERS} FROM ratings", [1], ArgumentError, "excess parameters: 1"),
        (f"SELECT {OWNERS} FROM ratings WHERE score = ? OR score = $1", [1], NotSupported, "as .1"),
        (f"SELECT {OWNERS} FROM ratings WHERE score IN (?2, ?, ?3)", [1, 2, 3], NotSupported, "all"),
        (f"SELECT {OWNERS} FROM ratings WHERE score = ?", {1}, NotSupported, "a list, a tuple or"),
        (f"SELECT {OWNERS} FROM ?", ["ratings"], duckdb.ParserException, r"syntax error.*\?"),
        (f"SELECT {OWNERS} AS ? FROM ratings", ["n"], duckdb.ParserException, "syntax error"),
        (f"SELECT {OWNERS} FROM ratings ORDER BY ?", [1], NotSupported, "ORDER BY"),
        (f"SELECT 1 UNION SELECT {OWNERS} FROM ratings ORDER BY ?", [1], NotSupported, "ORDER BY"),
        (f"SELECT {OWNERS} FROM ratings ORDER BY upper('a'), (?) DESC", [1], NotSupported, "ORDER BY"),
        (f"SELECT score, {OWNERS} FROM ratings GROUP BY score, ((?))", [1], NotSupported, "GROUP BY"),
        (f"SELECT max(n) FROM (SELECT {OWNERS} AS n FROM ratings) GROUP BY ROLLUP (?)", [1], NotSupported, "GROUP BY"),
        (f"SELECT ?; SELECT {OWNERS} FROM ratings", [1], NotSupported, "the last statement"),
        (f"PREPARE p AS SELECT {OWNERS} FROM ratings WHERE score = ?", None, NotSupported, "params="),
        (f"SELECT {OWNERS.replace('user_id', '?')} FROM ratings", ["a"], ArgumentError, "privacy_unit"),
        (f"SELECT {OWNERS.replace(SURE, 'epsilon := ?')} FROM ratings", [1], ArgumentError, "epsilon"),
    ],
)  # fmt: skip
def test_what_cannot_be_bound_is_refused_before_anything_is_released(
    owner: dp_sql.Session, text: str, params: Any, error: type[Exception], told: str
) -> None:
    n_before = len(owner.receipts)
    with pytest.raises(error, match=told):
        owner.sql(text, params=params)
    assert len(owner.receipts) == n_before


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "call",
    ["DP_TOPK(title, ?, epsilon := 1)", "DP_TOPK(title, 1, epsilon := 1, delta := ?)",
     "DP_TOPK(title, 1, epsilon := 1, domain := ['a', ?])", "DP_TOPK(title, 1, epsilon := ?)",
     "DP_TOPK(title, 1, epsilon := 1, beta := ?)", "DP_TOPK(title, 1, epsilon := 1, domain := ?)",
     "DP_TOPK(title, 1, epsilon := 1, mechanism := ?)", "DP_TOPK(title, 1, epsilon := 1, counts := ?)",
     "DP_COUNT_DISTINCT(title, epsilon := 1, contribution_bound := ?)"],
)  # fmt: skip
def test_what_an_answer_costs_is_written_in_the_statement(
    analyst: dp_sql.Session, call: str
) -> None:
    for value in (1, "a", "1, epsilon := 9", 1e-9, True, ["a"]):
        with pytest.raises(QueryError):
            analyst.sql(f"SELECT {call} FROM ratings", params=[value])
    assert analyst.receipts == ()


@pytest.mark.parametrize(
    ("span", "n"),
    [(datetime.timedelta(days=7), 43), (datetime.timedelta(hours=12), 50),
     (datetime.timedelta(0), 50)],
)  # fmt: skip
def test_a_span_of_time_is_added_to_a_date_under_a_policy(
    tmp_path: Path, span: datetime.timedelta, n: int
) -> None:
    with duckdb.connect(str(tmp_path / "log.duckdb")) as con:
        con.execute(
            "CREATE TABLE log AS SELECT i AS u, TIMESTAMP '2024-01-01' + INTERVAL (i) DAY AS seen "
            "FROM range(50) AS r(i)"
        )
    (tmp_path / "log.toml").write_text('tables.log.privacy_unit = "u"\n', "utf-8")
    with dp_sql.connect(str(tmp_path / "log.duckdb"), policy=tmp_path / "log.toml") as session:
        asked = f"SELECT DP_COUNT_DISTINCT(u, {SURE}) FROM log WHERE seen + ? < ?"
        end = datetime.datetime(2024, 2, 20)
        assert session.sql(asked, params=[span, end]).fetchall() == [(n,)]


def test_an_analysts_release_is_stored_by_its_values(analyst: dp_sql.Session) -> None:
    first = analyst.sql(f"{COUNT}title = ?", params=["Dune"]).fetchall()
    assert "title = 'Dune'" in analyst.receipts[0].source
    for text, params in (
        ("title = ?", ["Dune"]),
        ("title = $1", ("Dune",)),
        ("title = $t", {"t": "Dune"}),
        ("title = 'Dune'", None),
    ):
        assert analyst.sql(COUNT + text, params=params).fetchall() == first
    assert len(analyst.receipts) == 1
    analyst.sql(f"{COUNT}title = ?", params=["Emma"])
    assert [one.source[-6:] for one in analyst.receipts] == ["'Dune'", "'Emma'"]
    spent = analyst.budget()[-1].epsilon_spent
    for wrong in ([], ["Emma", 1], {"t": "Emma"}, ["x" * 300_000], [["a"] * 20_000], "Emma"):
        with pytest.raises(QueryError):
            analyst.sql(f"{COUNT}title = ?", params=wrong)
    assert analyst.budget()[-1].epsilon_spent == spent
    kept = analyst.execute(f"EXPLAIN {COUNT}title = ?", ["Emma"]).fetchall()
    assert analyst.releases[1].id in str(kept)


def test_a_plain_connection_takes_the_query_and_not_its_values_as_a_parameter() -> None:
    con = dp_sql.install(duckdb.connect())
    con.execute(
        "CREATE TABLE ratings AS SELECT i AS user_id, i % 5 AS title FROM range(50) AS r(i)"
    )
    text = f"SELECT {OWNERS} AS n FROM ratings WHERE title = "
    assert con.execute("FROM dp($1)", [text + "3"]).fetchall() == [(1,)]
    with pytest.raises(duckdb.Error, match="parameter"):
        con.execute(f"FROM dp($$ {text} ? $$)").fetchall()
    assert len(dp_sql.receipts(con)) == 1


def test_a_uuid_is_a_uuid(con: duckdb.DuckDBPyConnection) -> None:
    assert con.execute(f"SELECT {bound(uuid.UUID(int=7))}").fetchall() == [(uuid.UUID(int=7),)]
