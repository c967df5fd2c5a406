"""Several DP calls in one SELECT read one source, once, and take what they take alone."""

import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import dp_sql
from dp_sql.engines.duckdb import install, release_sql
from dp_sql.engines.duckdb.mechanism_udfs import keep_bits
from dp_sql.engines.duckdb.private_connection import PrivateConnection
from dp_sql.privacy.private_sql.people_rows import PeopleRows
from tests.conftest import SURE
from tests.session.several_calls import ROWS, UNIT, priced, wrap_draws

CALLS = [
    "DP_TOPK(title, 2, {0}, domain := ['t0', 't1', 't2', 't3', 't9'])",
    "DP_TOPK(minutes, 3, {0}, domain := observed)",
    "DP_TOPK(title || '!', 2, {0}, delta := 1e-9, max_contributions := 3)",
    "DP_COUNT_DISTINCT(title, {0})",
    "DP_COUNT_DISTINCT(minutes % 4, {0}, report := true)",
    "DP_COUNT_DISTINCT(CASE WHEN minutes > 3 THEN title END, {0})",
    "DP_COUNT_DISTINCT(user_id, {0})",
    "DP_COUNT(*, {0})",
    "DP_COUNT(minutes, {0}, contribution_bound := 3)",
    "DP_SUM(minutes, {0})",
    "DP_AVG(minutes, {0})",
    "DP_MEDIAN(minutes, {0}, lower := 0, upper := 10)",
]


SOURCES = [
    "views",
    "views WHERE minutes > 2 OR title IS NULL",
    "(SELECT user_id, region, title, minutes FROM views WHERE region <> 'r2') AS v",
    "views JOIN genres USING (title)",
    "views JOIN tags USING (title)",
    "(FROM views UNION ALL FROM views) AS twice",
    "(SELECT user_id, region, min(title) AS title, max(minutes) AS minutes FROM views "
    "GROUP BY user_id, region) AS firsts",
]


SCANS = {"SEQ_SCAN", "TABLE_SCAN", "PARQUET_SCAN", "READ_PARQUET"}


GROUPED = "groups := ['r0', 'r1', 'r2', 'none'], max_groups_contributed := {}"


@pytest.fixture(scope="module")
def owner() -> Iterator[dp_sql.Session]:
    """Of each person's rows, the smallest is drawn."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(install, "words_of_rows", lambda rows: rows.combine_chunks())
        with dp_sql.connect() as session:
            session.execute(ROWS)
            yield session


def without_codes(value: Any) -> Any:
    """What a mechanism takes, whatever numbers people and items have."""
    if isinstance(value, tuple):
        # A pair may be repeated, which changes nothing.
        pairs = {*zip(*(one.tolist() for one in value), strict=True)}
        return tuple(sorted(Counter(pair[i] for pair in pairs).values()) for i in (0, 1))
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, list):
        return value
    # Totals are numbers, or strings of them.
    return sorted(int(one) if str(one).isdecimal() else one for one in value)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What the mechanisms take; their epsilons differ."""
    found: list[tuple[Any, ...]] = []
    wrap_draws(
        monkeypatch,
        lambda shape, lists: found.append((shape.epsilon, type(shape), *map(without_codes, lists))),
    )
    return found


def statement(calls: list[str], source: str, grouped: str) -> str:
    if not grouped:
        return f"SELECT {', '.join(calls)} FROM {source}"
    before, _, where = source.partition(" WHERE ")
    condition = f" WHERE {where}" if where else ""
    return f"SELECT region, {', '.join(calls)} FROM {before}{condition} GROUP BY region"


@pytest.mark.one_in(6)
@pytest.mark.parametrize("seed", range(14))
def test_mechanisms_take_what_they_take_in_separate_statements(
    owner: dp_sql.Session, taken: list[tuple[Any, ...]], seed: int
) -> None:
    draws = random.Random(seed)
    source = SOURCES[seed % len(SOURCES)]
    grouped = GROUPED.format(4) if seed >= len(SOURCES) else ""
    chosen = [priced(call, n, grouped) for n, call in enumerate(draws.sample(CALLS, 4))]
    together = owner.sql(statement(chosen, source, grouped)).fetchall()
    as_one = sorted(taken, key=itemgetter(0))
    taken.clear()
    apart = [owner.sql(statement([call], source, grouped)).fetchall() for call in chosen]
    assert as_one == sorted(taken, key=itemgetter(0))
    assert len(together) == len(apart[0])
    if grouped:
        assert [row[0] for row in together] == [row[0] for row in apart[0]]


def test_a_source_that_mixes_up_the_items_is_noticed(
    owner: dp_sql.Session, taken: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = PeopleRows.__post_init__

    def swapped(self: PeopleRows) -> None:
        real(self)
        self._columns = dict(zip(self._columns, reversed(self._columns.values()), strict=True))

    monkeypatch.setattr(PeopleRows, "__post_init__", swapped)
    with pytest.raises((AssertionError, KeyError, dp_sql.QueryError)):
        test_mechanisms_take_what_they_take_in_separate_statements(owner, taken, 0)


@pytest.fixture(scope="module")
def everywhere(owner: dp_sql.Session) -> str:
    """A table of 30 people in 4 groups, where no two rows have the same title."""
    owner.execute(
        "CREATE TABLE everywhere AS SELECT user_id, 'g' || g AS region, "
        "'only ' || user_id || ' ' || g AS title FROM range(30) u(user_id), range(4) g(g)"
    )
    return "FROM everywhere GROUP BY region"


def in_groups(item: str, cap: int) -> str:
    groups = f"groups := ['g0', 'g1', 'g2', 'g3'], max_groups_contributed := {cap}"
    return f"DP_COUNT_DISTINCT({item}, {UNIT}, {groups})"


def test_other_caps_have_draws_of_their_own(owner: dp_sql.Session, everywhere: str) -> None:
    calls = f"{in_groups('title', 1)}, {in_groups('title', 3)}"
    rows = owner.sql(f"SELECT region, {calls} {everywhere}").fetchall()
    assert [sum(one) for one in [*zip(*rows, strict=True)][1:]] == [30, 90]


def test_the_answers_of_one_statement_are_read_from_one_relation(
    owner: dp_sql.Session, tmp_path: Path
) -> None:
    calls = "DP_COUNT(*, {0}) AS n, DP_SUM(minutes, {0}) AS total"
    grouped = f"SELECT region, {calls} FROM views GROUP BY region"
    groups = ", groups := regions.name, max_groups_contributed := 1"
    with duckdb.connect(str(tmp_path / "views.duckdb")) as con:
        con.execute(ROWS)
    policy = tmp_path / "policy.toml"
    tables = "[tables.views]\nprivacy_unit = 'user_id'\n[public]\ntables = ['regions']\n"
    policy.write_text(tables, "utf-8")
    with dp_sql.connect(str(tmp_path / "views.duckdb"), policy=policy) as analyst:
        for session, given in [(owner, UNIT), (analyst, SURE)]:
            for asked in (
                f"SELECT {calls} FROM views".format(given),
                grouped.format(given + groups),
            ):
                relation = session.sql(asked)
                assert "__dp_release_2.__dp_value" not in relation.sql_query()
                assert len(relation.fetchall()) == (1 if asked.startswith("SELECT DP") else 4)


def test_answers_that_were_read_apart_are_joined_by_their_keys(
    owner: dp_sql.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = PrivateConnection.release

    def in_other_orders(self: Any, plans: Any, tickets: Any) -> Any:
        return [rows[:: (-1) ** n] for n, rows in enumerate(release(self, plans, tickets))]

    monkeypatch.setattr(PrivateConnection, "release", in_other_orders)
    with duckdb.connect(str(tmp_path / "views.duckdb")) as con:
        con.execute(ROWS)
    policy = tmp_path / "policy.toml"
    tables = "[tables.views]\nprivacy_unit = 'user_id'\n[public]\ntables = ['regions']\n"
    policy.write_text(tables, "utf-8")
    groups = "groups := regions.name, max_groups_contributed := 9, contribution_bound := 100"
    calls = f"DP_COUNT(*, {SURE}, {groups}) AS n, DP_SUM(minutes, {SURE}, {groups}) AS total"
    plain = (
        "SELECT region, count(*), sum(minutes) FROM views JOIN regions ON region = name GROUP BY 1"
    )
    with dp_sql.connect(str(tmp_path / "views.duckdb"), policy=policy) as analyst:
        answers = {
            region: values
            for region, *values in analyst.sql(
                f"SELECT region, {calls} FROM views GROUP BY region"
            ).fetchall()
        }
    with duckdb.connect(str(tmp_path / "views.duckdb"), read_only=True) as con:
        for region, *values in con.sql(plain).fetchall():
            assert answers[region] == pytest.approx(values, abs=4)


@pytest.fixture
def released(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The private SQL that an owner's session runs."""
    found: list[str] = []
    real = release_sql.private_sql

    def private_sql(*args: Any, **named: Any) -> str:
        sql = real(*args, **named)
        found.extend([sql] * any(args[1]))  # without tickets it is not run
        return sql

    monkeypatch.setattr(release_sql, "private_sql", private_sql)
    return found


def scans(session: dp_sql.Session, sql: str) -> int:
    """How many operators of DuckDB's plan read the source."""
    assert session.connection is not None
    tickets = ["" for _ in set(re.findall(r"\$\d+", sql))]
    explained = session.connection.execute(f"EXPLAIN (FORMAT json) {sql}", tickets)
    ((_, plan),) = explained.fetchall()
    operators: list[dict[str, Any]] = json.loads(plan)
    n = 0
    while operators:
        one = operators.pop()
        operators += one["children"]
        n += one["name"].strip() in SCANS and "regions" not in str(one["extra_info"])
    return n


def test_with_groups_a_table_is_scanned_once(owner: dp_sql.Session, released: list[str]) -> None:
    given = f"{UNIT}, {GROUPED.format(2)}".replace("['r0', 'r1', 'r2', 'none']", "regions.name")
    calls = [call.format(given) for call in CALLS if "observed" not in call]
    owner.sql(f"SELECT region, {', '.join(calls)} FROM views GROUP BY region").fetchall()
    (sql,) = released
    assert len(calls) > 5
    assert scans(owner, sql) == 1


def test_a_file_is_read_once(owner: dp_sql.Session, released: list[str], tmp_path: Path) -> None:
    owner.execute(f"COPY views TO '{tmp_path}/views.parquet'")
    calls = ", ".join(call.format(UNIT) for call in CALLS)
    owner.sql(f"SELECT {calls} FROM '{tmp_path}/views.parquet'").fetchall()
    (sql,) = released
    assert scans(owner, sql) == 1


def test_values_of_people_are_computed_by_one_scan(
    owner: dp_sql.Session, released: list[str]
) -> None:
    calls = [call.format(UNIT) for call in CALLS if "TOPK" not in call and "DISTINCT" not in call]
    owner.sql(f"SELECT {', '.join(calls)} FROM views").fetchall()
    (sql,) = released
    assert scans(owner, sql) == 1
    assert sql.count("GROUP BY __dp_privacy_unit") == 1


FEW = "groups := ['r0', 'r1', 'r2', 'r3', 'a', 'b', 'c', 'd'], max_groups_contributed := {}"


ONE_VOTE = [call for call in CALLS[6:] if "contribution_bound" not in call]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("source", SOURCES[:2])
def test_what_is_drawn_first_is_what_is_drawn_last(
    owner: dp_sql.Session,
    taken: list[tuple[Any, ...]],
    released: list[str],
    source: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = [priced(call, n, FEW.format(4)) for n, call in enumerate(ONE_VOTE)]
    text = statement(calls, source, "grouped")
    owner.sql(text).fetchall()
    first = sorted(taken, key=itemgetter(0))
    taken.clear()
    monkeypatch.setattr(PeopleRows, "_draws_pay", lambda _: False)
    owner.sql(text).fetchall()
    assert ["__dp_own AS" in sql for sql in released] == [True, False]
    assert first == sorted(taken, key=itemgetter(0))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("cap", [1, 3])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_cap_holds_whenever_groups_are_drawn(
    owner: dp_sql.Session,
    taken: list[tuple[Any, ...]],
    cap: int,
    is_first: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not is_first:
        monkeypatch.setattr(PeopleRows, "_draws_pay", lambda _: False)
    calls = [priced(call, n, FEW.format(cap)) for n, call in enumerate(ONE_VOTE)]
    owner.sql(statement(calls, "views", "grouped")).fetchall()
    counted = sum(sum(people) for _, kind, _, people, _ in only(taken, "Count"))
    votes = sum(len(votes) for _, kind, votes in only(taken, "Median"))
    connection = owner.connection
    assert connection is not None
    inside = "FROM views WHERE user_id IS NOT NULL AND region IS NOT NULL"
    ((people,),) = connection.execute(
        f"SELECT sum(least(n, {cap})) FROM (SELECT count(DISTINCT region) AS n {inside} "
        "GROUP BY user_id)"
    ).fetchall()
    assert votes <= counted == people


def only(taken: list[tuple[Any, ...]], kind: str) -> list[tuple[Any, ...]]:
    """What the mechanisms of one shape take."""
    return [one for one in taken if one[1].__name__ == kind]


def test_each_persons_groups_are_kept_by_chance_alone() -> None:
    own = [0b1, 0b1011, (1 << 62) - 1] * 600
    kept = keep_bits(pa.chunked_array([own]), pa.chunked_array([[2] * len(own)])).to_pylist()
    assert all(some & ~whole == 0 for some, whole in zip(kept, own, strict=True))
    assert [some.bit_count() for some in kept] == [min(2, whole.bit_count()) for whole in own]
    pairs = Counter(kept[1::3])
    assert {*pairs} == {0b11, 0b1001, 0b1010}
    assert all(abs(n - 200) < 115 for n in pairs.values())  # ten standard deviations


@pytest.mark.usefixtures("by_sql")
def test_sources_of_other_selects_are_released_apart(
    owner: dp_sql.Session, released: list[str]
) -> None:
    call = f"DP_COUNT_DISTINCT(title, {UNIT})"
    text = f"SELECT (SELECT {call} FROM views) - (SELECT {call} FROM views WHERE minutes > 3)"
    owner.sql(text).fetchall()
    assert len(released) == 2
