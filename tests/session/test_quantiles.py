"""DP_QUANTILE and DP_MEDIAN: which rows vote, what is answered, and what is refused."""

from __future__ import annotations

import datetime
import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import dp_sql
from dp_sql.engines.duckdb import install
from dp_sql.errors import QueryError
from dp_sql.udfs.mechanism import PrivacyLoss
from dp_sql.udfs.quantile import recursive

POLICY = """
tables.visits.privacy_unit = "user_id"
public.tables = ["regions"]
budget = {dataset = "shop", epsilon = 1000, keep_releases = true}
"""
REGIONS = ["north", "south", "west"]
BOUNDS = "lower := 0, upper := 600"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, ballot: Ballot) -> Path:
    folder, draws = tmp_path_factory.mktemp("shop"), random.Random(17)
    with duckdb.connect(str(folder / "shop.duckdb")) as con:
        con.execute("CREATE TABLE regions AS SELECT unnest(['north', 'south', 'west']) AS name")
        con.execute(
            "CREATE TABLE visits (user_id INTEGER, region VARCHAR, minutes INTEGER, "
            "price DECIMAL(9,2), score DOUBLE, day DATE, seen TIMESTAMP, big BIGINT)"
        )
        for person in [*range(40), None]:
            for _ in range(draws.choice([0, 1, 2, 5])):
                minutes = draws.choice([None, -5, 0, 3, 3, 300, 599, 600, 10**9])
                con.execute(
                    "INSERT INTO visits VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    [
                        person,
                        draws.choice([*REGIONS[:2], "east", None]),
                        minutes,
                        draws.choice([None, Decimal("-0.01"), Decimal("1.25"), Decimal("99999")]),
                        draws.choice([None, float("nan"), float("inf"), -1e300, 0.3, 12.345]),
                        draws.choice([None, datetime.date(2025, 1, 9), datetime.date(1900, 1, 1)]),
                        draws.choice([None, datetime.datetime(2025, 1, 9, 12, 0, 1)]),
                        draws.choice([None, -(2**63), 2**63 - 1, 5]),
                    ],
                )
    (folder / "policy.toml").write_text(POLICY)
    return folder


# Which rows vote.


class Ballot:
    """The votes of each draw, and how they are drawn of each person's rows."""

    def __init__(self) -> None:
        self.votes: list[list[int]] = []
        self.wanted = "fair"

    def of(self, wanted: str, run: Callable[[], Any]) -> list[list[int]]:
        """The votes while the smallest or the largest of each person's rows is drawn, or none."""
        self.votes, self.wanted = [], wanted
        run()
        self.wanted = "fair"
        return self.votes


@pytest.fixture(scope="module")
def ballot() -> Iterator[Ballot]:
    ballot, right, words = Ballot(), recursive.recursive, install.words_of_rows

    def recorded(votes: Any, *given: Any) -> Any:
        ballot.votes += [sorted(one.tolist()) for one in votes]
        return right(votes, *given)

    def drawn(rows: Any) -> Any:
        if ballot.wanted == "fair":
            return words(rows)
        sign = {"least": 1, "most": -1, "equal words": 0}[ballot.wanted]
        return pa.array([None if x is None else sign * x for x in rows.to_pylist()], pa.int64())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recursive, "recursive", recorded)
        patch.setattr(install, "words_of_rows", drawn)
        yield ballot


def clamped(value: Any, lower: Any, upper: Any, step: Any) -> int | None:
    """The position of a value, in exact arithmetic."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    value = min(max(value, lower), upper)
    if isinstance(value, float):
        value = Fraction(round(Fraction(value) * 100), 100)  # the decimals of the step
    if isinstance(value, datetime.date):
        return int((value - lower) // step)
    return int((Fraction(value) - Fraction(lower)) // Fraction(step))


DAY, SECOND = datetime.timedelta(1), datetime.timedelta(seconds=1)
COLUMNS: dict[str, tuple[str, Any, Any, Any]] = {
    "minutes": (BOUNDS, 0, 600, 1),
    "price": ("lower := -1, upper := 50.5, step := 0.5", -1, Decimal("50.5"), Fraction(1, 2)),
    "score": ("lower := 0, upper := 100, step := 0.05", 0, 100, Fraction(1, 20)),
    "day": (
        "lower := DATE '2025-01-01', upper := '2025-12-31'",
        datetime.date(2025, 1, 1), datetime.date(2025, 12, 31), DAY,
    ),
    "seen": (
        "lower := TIMESTAMP '2025-01-01', upper := TIMESTAMP '2025-12-31', step := INTERVAL 1 HOUR",
        datetime.datetime(2025, 1, 1), datetime.datetime(2025, 12, 31), 3600 * SECOND,
    ),
    "big": (
        "lower := -9223372036854775808, upper := 9223372036854775807, step := 1000",
        -(2**63), 2**63 - 1, 1000,
    ),
}  # fmt: skip


def expected(owner: dp_sql.Session, column: str, where: str) -> list[list[int]]:
    _, *grid = COLUMNS[column]
    people = defaultdict(list)
    rows = owner.execute(f"SELECT user_id, {column} FROM visits WHERE {where}").fetchall()
    for person, value in rows:
        position = clamped(value, *grid)
        if person is not None and position is not None:
            people[person].append(position)
    return [*people.values()]


def least_and_most(people: list[list[int]]) -> list[list[int]]:
    return [sorted(map(min, people)), sorted(map(max, people))]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("column", COLUMNS)
def test_each_person_votes_with_one_of_their_own_rows(
    column: str, owner: dp_sql.Session, analyst: dp_sql.Session, ballot: Ballot
) -> None:
    for at, where in enumerate(["TRUE", "user_id % 2 = 0", "user_id > 90"]):
        want = least_and_most(expected(owner, column, where))
        for session, unit in [(owner, ", privacy_unit := user_id"), (analyst, "")]:
            found = []
            for wanted, beta in [("least", "0.1"), ("most", "0.2")]:  # so that none is kept
                call = f"DP_MEDIAN({column}, epsilon := 1, beta := {beta}, {COLUMNS[column][0]}"
                query = f"SELECT {call}{unit}) FROM visits WHERE {where}"
                found += ballot.of(wanted, partial(session.sql, query))
            assert found == want, at


def test_each_group_has_the_votes_of_those_who_count_in_it(
    owner: dp_sql.Session, ballot: Ballot
) -> None:
    query = (
        f"SELECT region, DP_QUANTILE(minutes, [0.25, 0.75], epsilon := 3, {BOUNDS}, "
        "privacy_unit := user_id, groups := regions.name, max_groups_contributed := 3) AS q "
        "FROM visits GROUP BY region ORDER BY region"
    )
    rows = owner.sql(query).fetchall()
    assert [row[0] for row in rows] == REGIONS
    assert all(row[1] == sorted(row[1]) for row in rows)
    votes = [ballot.of(one, partial(owner.sql, query)) for one in ("least", "most")]
    for region, *found in zip(REGIONS, *votes, strict=True):
        assert found == least_and_most(expected(owner, "minutes", f"region = '{region}'"))
    assert votes[0][2] == [], "no one is in west, which is answered all the same"


def test_a_person_counts_in_one_group_of_several(owner: dp_sql.Session, ballot: Ballot) -> None:
    query = (
        f"SELECT region, DP_MEDIAN(minutes, epsilon := 3, {BOUNDS}, privacy_unit := user_id, "
        "groups := regions.name, max_groups_contributed := 1) FROM visits GROUP BY region"
    )
    people = owner.execute(
        "SELECT count(DISTINCT user_id) FROM visits WHERE region IN ('north', 'south') "
        "AND minutes IS NOT NULL"
    ).fetchall()
    assert sum(map(len, ballot.of("fair", partial(owner.sql, query)))) == people[0][0]


def test_each_row_of_a_person_is_as_likely_as_another(ballot: Ballot) -> None:
    """3000 people with rows 5, 5 and 9: six standard deviations around a third."""
    with dp_sql.connect() as session:
        session.execute(
            "CREATE TABLE t AS SELECT i AS user_id, unnest([5, 5, 9, NULL]) AS x FROM range(3000) t(i)"
        )
        session.execute("CREATE TABLE same AS SELECT 5 AS x UNION ALL SELECT 9")
        call = "DP_MEDIAN(t.x, epsilon := 1, privacy_unit := user_id, lower := 0, upper := 9)"
        for source in ("t", "t JOIN same ON t.x = same.x", "(SELECT * FROM t) AS t"):
            query = f"SELECT {call} FROM {source}"
            (votes,) = ballot.of("fair", partial(session.sql, query))
            assert len(votes) == 3000
            assert abs(votes.count(9) - 1000) < 6 * (3000 * 2 / 9) ** 0.5


@pytest.mark.parametrize("order", ["ASC", "DESC"])
def test_the_order_of_rows_does_not_decide_between_equal_words(
    order: str, ballot: Ballot, by_sql: None
) -> None:
    with dp_sql.connect() as session:
        session.execute(
            "CREATE TABLE t AS SELECT i AS user_id, x FROM range(9) r(i), (VALUES (3), (5)) v(x) "
            f"ORDER BY x {order}"
        )
        call = "DP_MEDIAN(x, epsilon := 1, privacy_unit := user_id, lower := 0, upper := 9)"
        query = partial(session.sql, f"SELECT {call} FROM t")
        assert ballot.of("equal words", query) == [[3] * 9]


# What is answered.

SURE = "epsilon := 10000, privacy_unit := user_id"


def test_answers_have_the_type_of_the_column_and_the_order_of_the_list() -> None:
    with dp_sql.connect() as session:
        session.execute(
            "CREATE TABLE t AS SELECT i AS user_id, i::SMALLINT AS s, (i / 4)::DECIMAL(8,2) AS d, "
            "i / 4 AS f, DATE '2026-01-01' + i::INTEGER AS day, "
            "TIMESTAMP '2026-01-01' + INTERVAL (i) HOUR AS hour FROM range(101) t(i)"
        )
        day, hour = datetime.date(2026, 1, 1), datetime.datetime(2026, 1, 1)
        for column, bounds, kind, at in [
            ("s", "lower := -5, upper := 200", "SMALLINT", lambda i: i),
            ("d", "lower := 0, upper := 50", "DECIMAL(8,2)", lambda i: Decimal(i) / 4),
            ("f", "lower := 0, upper := 50, step := 0.01", "DOUBLE", lambda i: i / 4),
            ("day", "lower := '2020-01-01', upper := '2030-01-01'", "DATE", lambda i: day + i * DAY),
            ("hour", "lower := '2020-01-01', upper := '2030-01-01'", "TIMESTAMP",
             lambda i: hour + 3600 * i * SECOND),
        ]:  # fmt: skip
            answer = session.sql(
                f"SELECT DP_MEDIAN({column}, {SURE}, {bounds}) AS a, "
                f"DP_QUANTILE({column}, [0.75, 0.1, 0.75], {SURE}, {bounds}) AS b FROM t"
            )
            assert [str(one) for one in answer.types] == [kind, f"{kind}[]"]
            assert answer.fetchall() == [(at(50), [at(75), at(10), at(75)])]


def test_a_list_costs_what_one_quantile_costs(analyst: dp_sql.Session) -> None:
    call = f"SELECT DP_QUANTILE(minutes, {{}}, epsilon := 0.25, {BOUNDS}) AS q FROM visits"
    epsilon = Fraction(1, 4)
    one = analyst.explain(call.format("0.5")).calls[0]
    several = analyst.explain(call.format("[0.25, 0.5, 0.75]")).calls[0]
    assert one.loss == PrivacyLoss(epsilon, rho=epsilon**2 / 8, bounded_range=epsilon)
    assert several.loss == PrivacyLoss(epsilon, rho=epsilon**2 / 16)
    assert "at most 38 people lie between the answer and the exact quantile" in one.accuracy


def test_other_bounds_are_another_question(analyst: dp_sql.Session) -> None:
    call = "SELECT DP_MEDIAN(minutes, epsilon := 0.5, lower := {}, upper := {}) AS m FROM visits"
    first = analyst.sql(call.format(0, 600)).fetchall()
    assert analyst.sql(call.format(0, 600)).fetchall() == first, "the kept release"
    (other,) = analyst.sql(call.format(1000, 1600)).fetchall()
    assert 1000 <= other[0] <= 1600


def test_plain_calls_and_dp_agree_with_a_session() -> None:
    con = duckdb.connect()
    dp_sql.install(con)
    con.execute("CREATE TABLE t AS SELECT i AS user_id, i::INTEGER AS x FROM range(101) t(i)")
    bounds = f"{SURE}, lower := 0, upper := 100"
    calls = (
        f"DP_MEDIAN(x, {bounds}) AS m, DP_QUANTILE(x, 0.1, {bounds}) AS a, "
        f"DP_QUANTILE(x, [0.9, 0.1], {bounds}) AS b"
    )
    for query in (f"SELECT {calls} FROM t", f"FROM dp($$ SELECT {calls} FROM t $$)"):
        answer = con.sql(query)
        assert [str(one) for one in answer.types] == ["INTEGER", "INTEGER", "INTEGER[]"]
        assert answer.fetchall() == [(50, 10, [90, 10])]


# What is refused, before anything is spent, and what is written instead.

REFUSED = [
    ("DP_MEDIAN(minutes{unit})", "needs lower := <value>", "lower := 0, upper := 100"),
    ("DP_MEDIAN(day{unit})", "needs lower", "lower := DATE '2026-01-01', upper := DATE '2026-12-31'"),
    ("DP_MEDIAN(minutes, lower := 0{unit})", "needs upper", "upper := 100"),
    ("DP_QUANTILE(minutes, 1, lower := 0, upper := 9{unit})", "between 0 and 1", "minutes, 0.99,"),
    ("DP_QUANTILE(minutes, 95, lower := 0, upper := 9{unit})", "between 0 and 1", "minutes, 0.95,"),
    ("DP_QUANTILE(minutes, [], lower := 0, upper := 9{unit})", "a list of 1 to 20", None),
    ("DP_QUANTILE(minutes, x, lower := 0, upper := 9{unit})", "must be a number", None),
    ("DP_QUANTILE(minutes, lower := 0, upper := 9{unit})", "positional argument q", "minutes, 0.5,"),
    ("DP_MEDIAN(minutes, lower := 9, upper := 0{unit})", "must be below", "lower := 0, upper := 9"),
    ("DP_MEDIAN(minutes, lower := 0, upper := 1e10{unit})", "does not fit INTEGER", "2147483647"),
    ("DP_MEDIAN(minutes, lower := 0.5, upper := 9{unit})", "more decimals", "lower := 0,"),
    ("DP_MEDIAN(minutes, lower := 0, upper := 9, step := 0{unit})", "positive", "upper := 9,"),
    ("DP_MEDIAN(minutes, lower := 0, upper := 9, step := 10{unit})", "larger than", "upper := 9,"),
    ("DP_MEDIAN(minutes, lower := minutes, upper := 9{unit})", "must be a number", None),
    ("DP_MEDIAN(score, lower := 0, upper := 9{unit})", "needs step", "step := 0.01"),
    ("DP_MEDIAN(big, lower := -9e18, upper := 9e18{unit})", "2^62 steps", None),
    ("DP_MEDIAN(day, lower := 0, upper := 9{unit})", "must be a DATE", None),
    ("DP_MEDIAN(day, lower := '2026-02-30', upper := '2027-01-01'{unit})", "must be a DATE", None),
    ("DP_MEDIAN(region, lower := 0, upper := 9{unit})", "region is VARCHAR", None),
    ("DP_MEDIAN(*, lower := 0, upper := 9{unit})", "not *", None),
    ("DP_MEDIAN(minutes, lower := 0, upper := 9, report := true{unit})", "no argument report", None),
]  # fmt: skip


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("call", "says", "instead"), REFUSED)
def test_a_wrong_call_is_refused_with_one_that_works(
    call: str, says: str, instead: str | None, owner: dp_sql.Session, analyst: dp_sql.Session
) -> None:
    for session, unit in [(owner, ", privacy_unit := user_id"), (analyst, "")]:
        query = f"SELECT {call.format(unit=', epsilon := 1' + unit)} AS m FROM visits"
        with pytest.raises(QueryError) as raised:
            session.sql(query)
        assert says in raised.value.message
        corrected = str(raised.value).partition("Write instead:\n")[2]
        if instead is not None:
            assert instead in corrected
            session.explain(corrected)


def test_bounds_of_intervals_become_seconds(owner: dp_sql.Session) -> None:
    call = (
        "DP_MEDIAN({}, epsilon := 1, privacy_unit := user_id, lower := {}, upper := {}, step := {})"
    )
    asked = call.format("t - t", "INTERVAL 0 DAY", "INTERVAL 2 HOURS", "INTERVAL 1 MINUTE")
    source = "FROM (SELECT user_id, TIMESTAMP '2026-01-01' AS t FROM visits)"
    with pytest.raises(QueryError, match="is INTERVAL") as raised:
        owner.sql(f"SELECT {asked} {source}")
    seconds = call.format("date_diff('second', t, t)", 0, 7200, 60)
    assert raised.value.suggestion == f"SELECT {seconds} {source}"
    with pytest.raises(QueryError, match="is INTERVAL") as raised:
        owner.sql(f"SELECT {asked.replace('2 HOURS', '2 MONTHS')} {source}")
    assert raised.value.suggestion == ""


def test_columns_of_other_types_are_named_with_what_to_write(owner: dp_sql.Session) -> None:
    source = "FROM (SELECT user_id, 5::UHUGEINT AS large, TIME '08:30:00' AS t FROM visits)"
    asked = "SELECT DP_MEDIAN({}, epsilon := 1, privacy_unit := user_id, lower := 0, upper := 900) "
    with pytest.raises(QueryError, match="large is UHUGEINT") as raised:
        owner.sql(asked.format("large") + source)
    assert owner.sql(raised.value.suggestion) is not None
    with pytest.raises(QueryError, match="t is TIME") as raised:
        owner.sql(asked.format("t") + source)
    minutes = str(raised.value.hint).partition("its minutes: ")[2].rstrip(".")
    assert owner.sql(asked.format(minutes) + source) is not None


def test_all_that_is_missing_is_said_at_once(owner: dp_sql.Session) -> None:
    with pytest.raises(QueryError) as raised:
        owner.sql("SELECT DP_MEDIAN(minutes) FROM visits")
    for name in ("epsilon", "privacy_unit", "lower", "upper"):
        assert f"{name} := <" in raised.value.message
