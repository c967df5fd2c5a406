"""From few rows, mechanisms take what DuckDB would make for them."""

from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dp_sql
from dp_sql.engines.duckdb import few_rows, many_rows, private_connection, row_estimate
from dp_sql.errors import QueryError
from tests.engines.test_many_rows import GROUPS, Taken, _anonymous, _run, owner, taken
from tests.pairs import in_pairs
from tests.session.several_calls import priced

__all__ = ["owner", "taken"]  # fixtures

CALLS = [
    ["DP_COUNT(*, {0})"], ["DP_COUNT(x, {0}, contribution_bound := 3)", "DP_SUM(x, {0})"],
    ["DP_COUNT(nothing, {0})", "DP_COUNT(*, {0})"], ["DP_SUM(large, {0})"],
    ["DP_SUM(price, {0}, lower := 0)", "DP_SUM(small, {0}, contribution_bound := 9)"],
    ["DP_COUNT_DISTINCT(user_id, {0})", "DP_COUNT(half, {0})"],
    ["DP_AVG(x, {0})", "DP_AVG(rent, {0}, lower := 0, upper := 100)", "DP_AVG(nothing, {0})"],
    ["DP_COUNT_DISTINCT(x, {0})"], ["DP_COUNT_DISTINCT(rent, {0})"], ["DP_COUNT_DISTINCT(long, {0})"],
    ["DP_TOPK(x, 2, {0}, domain := observed)"], ["DP_TOPK(region, 2, {0}, domain := observed)"],
    ["DP_TOPK(long, 2, {0}, domain := observed)"],
    ["DP_TOPK(region, 2, {0}, domain := ['r9', 'r1', 'r0'], counts := true)"],
    ["DP_TOPK(x, 1, {0}, domain := [-5, 77, 9])"],
]  # fmt: skip
VECTORS = "DP_COUNT(", "DP_COUNT_DISTINCT(user_id"
LIMITED = "RowsUnderChosenLimit", "PeopleUnderChosenLimit"
SUMMED_UP = "Avg", "Count", *LIMITED
NO_CAP = "groups := ['r3', 'none', 'r0']"
MANY = "groups := (SELECT 'r' || i FROM range(50) AS t(i))"  # so that a limit is chosen for people
FEW_OR_MANY = [*GROUPS[:3], NO_CAP, MANY]
UNITS = ["u", "name", "id", "huge", "half"]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Notes each bundle whose lists are made in memory; all sources are tried there."""
    found: list[int] = []
    real = few_rows._lists

    def lists(*given: Any) -> Any:
        made = real(*given)
        found.append(1)
        return made

    monkeypatch.setattr(few_rows, "FEW", 1 << 60)
    monkeypatch.setattr(few_rows, "_lists", lists)
    return found


def from_duckdb(
    session: dp_sql.Session, statement: str, taken: Taken, patch: pytest.MonkeyPatch
) -> Taken:
    with patch.context() as other:
        other.setattr(few_rows, "FEW", 0)
        return _run(session, statement, taken)


def same(taken: Taken) -> tuple[list[Any], Counter[Any]]:
    """What is taken, without codes; people with numbers for all groups may stand in any of theirs."""
    anywhere = Counter[Any]()
    for epsilon, shape, *lists in taken:
        if shape in SUMMED_UP:  # totals are numbers, or strings of them
            lists[0][:] = [(*row[:-1], int(row[-1])) for row in lists[0]]
        if shape in LIMITED:
            for side, bucket, people, total in lists[0]:
                if side in {1, 3}:
                    anywhere[epsilon, side, bucket, "people"] += people
                    anywhere[epsilon, side, bucket, "total"] += total
            lists[0][:] = [row for row in lists[0] if row[0] in {0, 2}]
    return [*map(_anonymous, taken)], anywhere


def test_a_mean_is_as_of_duckdb(owner: dp_sql.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    call = "DP_AVG({0}, epsilon := 9999, privacy_unit := u, contribution_bound := 90{1})"
    grouped = ", groups := ['r0', 'none'], max_groups_contributed := 1"
    statements = [
        f"SELECT {call.format('x', '')}, {call.format('nothing', '')} FROM seen",
        f"SELECT region, {call.format('x', f', report := true{grouped}')} AS r, "
        f"{call.format('price', grouped)} FROM (SELECT * FROM seen WHERE i % 5 = 0) GROUP BY region",
    ]
    for statement in statements:
        answers = []
        for few in (0, 1 << 60):
            monkeypatch.setattr(few_rows, "FEW", few)
            answers.append(owner.execute(statement).fetchall())
        types = [[type(value) for value in row] for row in answers[0]]
        assert types == [[type(value) for value in row] for row in answers[1]]
        means = [[x for row in rows for x in row if isinstance(x, float)] for rows in answers]
        assert means[0] == pytest.approx(means[1], abs=0.1)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("calls", "unit", "groups"), in_pairs(CALLS, UNITS, FEW_OR_MANY))
def test_mechanisms_take_what_duckdb_makes(
    calls: list[str], groups: str, unit: str, owner: dp_sql.Session, taken: Taken,
    short: list[int], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    if groups in {NO_CAP, MANY} and not all(one.startswith(VECTORS) for one in calls):
        groups += ", max_groups_contributed := 1"
    asked = [priced(one, n, groups).replace("user_id", unit) for n, one in enumerate(calls)]
    by = "WHERE n <> 1 GROUP BY region" if groups else "WHERE n <> 1"
    statement = f"SELECT {'region, ' if groups else ''}{', '.join(asked)} FROM seen {by}"
    found = same(_run(owner, statement, taken))
    assert found == same(from_duckdb(owner, statement, taken, monkeypatch)) and found[0]
    assert len(short) == (calls != CALLS[12])  # long items


@pytest.fixture
def added_up(short: list[int], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Notes each bundle of which DuckDB adds up the rows; all are tried."""
    found: list[int] = []
    real = few_rows._added_up
    monkeypatch.setattr(few_rows, "FEW", 1)
    monkeypatch.setattr(row_estimate, "n_members", lambda *_: 0)
    monkeypatch.setattr(few_rows, "_added_up", lambda *given: (found.append(1), real(*given))[1])
    return found


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("calls", "unit", "groups"), in_pairs(CALLS[:7], UNITS, FEW_OR_MANY))
def test_mechanisms_take_the_same_of_rows_that_are_added_up(
    calls: list[str], groups: str, unit: str, owner: dp_sql.Session, taken: Taken,
    short: list[int], added_up: list[int], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    test_mechanisms_take_what_duckdb_makes(calls, groups, unit, owner, taken, short, monkeypatch)
    assert added_up


def test_keys_that_are_sent_are_those_of_rows_that_are_added_up(
    owner: dp_sql.Session, taken: Taken, added_up: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = "groups := (SELECT day, price FROM items), max_groups_contributed := 1000"
    asked = [priced(one, n, groups).replace("user_id", "u") for n, one in enumerate(CALLS[1])]
    statement = f"SELECT day, price, {', '.join(asked)} FROM seen GROUP BY day, price"
    found = same(_run(owner, statement, taken))
    assert found == same(from_duckdb(owner, statement, taken, monkeypatch)) and found[0]
    assert added_up


def test_duckdb_adds_up_the_rest_where_a_person_has_too_many_rows(
    owner: dp_sql.Session, taken: Taken, short: list[int], added_up: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(few_rows, "_MOST_COUNTED", 9)
    statement = f"SELECT {priced('DP_COUNT(*, {0})', 0, '').replace('user_id', 'u')} FROM seen"
    found = same(_run(owner, statement, taken))
    assert found == same(from_duckdb(owner, statement, taken, monkeypatch)) and found[0]
    assert added_up and not short


@pytest.mark.parametrize(("each", "most", "is_read"), [(2, 300, 1), (9, 300, 0), (2, 50, 0)])
def test_rows_are_added_up_where_people_have_many(
    each: int, most: int, is_read: int, short: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(few_rows, "FEW", 300)
    monkeypatch.setattr(few_rows, "FEW_MEMBERS", most)
    monkeypatch.setattr(many_rows, "ROWS_EACH", each)
    with dp_sql.connect() as session:
        session.execute("CREATE TABLE seen AS SELECT i % 100 AS u FROM range(500) AS r(i)")
        call = "DP_COUNT(*, epsilon := 9999, privacy_unit := u, contribution_bound := 5)"
        assert session.execute(f"SELECT {call} FROM seen").fetchall() == [(500,)]
    assert len(short) == is_read


@pytest.mark.parametrize("call", [CALLS[0][0], CALLS[12][0]])  # in memory, and not
def test_an_interrupt_while_lists_are_made_is_not_lost(
    call: str, owner: dp_sql.Session, short: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = few_rows._lists

    def interrupted(*given: Any) -> Any:
        owner.interrupt()
        return real(*given)

    monkeypatch.setattr(few_rows, "_lists", interrupted)
    with pytest.raises(QueryError, match="was interrupted"):
        asked = priced(call, 0, "").replace("user_id", "u")
        owner.sql(f"SELECT {asked} FROM seen").fetchall()


@pytest.mark.parametrize(("few", "most", "is_short"), [(200, 9, 1), (100, 9, 0), (200, 2, 0)])
def test_an_analyst_s_tables_and_domains_are_few_by_their_own_size(
    short: list[int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    few: int,
    most: int,
    is_short: int,
) -> None:
    """Without optimizers DuckDB estimates no rows for any source but a table."""
    database, policy = tmp_path / "shop.duckdb", tmp_path / "policy.toml"
    with duckdb.connect(str(database)) as con:
        con.execute("CREATE TABLE seen AS SELECT i AS u, 'x' || i % 3 AS x FROM range(150) r(i)")
        con.execute("CREATE TABLE items AS SELECT DISTINCT x FROM seen")
    policy.write_text(
        'tables.seen.privacy_unit = "u"\npublic.tables = ["items"]\ndomains."seen.x" = "items.x"',
        "utf-8",
    )
    monkeypatch.setattr(few_rows, "FEW", few)
    monkeypatch.setattr(few_rows, "_MOST_ITEMS", most)
    monkeypatch.setattr(private_connection, "SHORT", most)
    with dp_sql.connect(str(database), policy=policy) as analyst:
        analyst.sql("SELECT DP_TOPK(x, 2, epsilon := 1) FROM (SELECT * FROM seen)").fetchall()
    assert len(short) == is_short


KEYS = [["it's", "A", "a", "\u00e4", ""], [-5, 0, 77], ["x" * 300, "y"], ["\0", "b"], [*range(99)]]


@pytest.mark.parametrize("collation", ["", "NOCASE.NOACCENT"])
@pytest.mark.parametrize("keys", KEYS)
def test_groups_of_tables_are_counted_as_these_are_now(
    keys: list[Any], collation: str, short: list[int]
) -> None:
    asked = (
        "SELECT k, h, DP_COUNT(*, epsilon := 9999, privacy_unit := u, groups := (listed.k, halves.h)) "
        "FROM seen GROUP BY k, h"
    )
    with dp_sql.connect() as session:
        session.execute("CREATE TABLE halves(h TINYINT); INSERT INTO halves VALUES (1), (0)")
        session.execute("CREATE TABLE listed AS SELECT unnest(?) AS k LIMIT 1", [keys])
        session.execute(
            "CREATE TABLE seen AS SELECT u, k, CAST(u % 3 AS TINYINT) AS h "
            "FROM (SELECT unnest(?) AS k), range(9) AS r(u)", [keys],
        )  # fmt: skip
        session.execute(f"SET default_collation = '{collation}'")
        for n in (1, len(keys)):
            answer = session.execute(asked).fetchall()
            assert answer == [(key, half, 3) for key in sorted(keys[:n]) for half in (0, 1)]
            session.execute("INSERT INTO listed SELECT unnest(?) AS k OFFSET 1", [keys])
    assert len(short) == 2
