"""Where a key depends on the person alone, each person is in one group, and sums need no cap."""

from collections.abc import Iterator
from decimal import Decimal

import pytest

import dp_sql
from dp_sql.errors import ArgumentError
from tests.conftest import SURE
from tests.databases import asking_under, owner_of

SHOP = """
CREATE TABLE users AS SELECT i AS user_id, i % 2 AS sex FROM range(400) AS r(i);
CREATE TABLE sales AS
    SELECT i % 400 AS user_id, i % 3 AS shop, (i % 7)::DECIMAL(9, 2) AS paid FROM range(4000) AS r(i);
CREATE TABLE visits AS SELECT i AS user_id, i % 5 AS page FROM range(0, 400, 3) AS r(i);
CREATE TABLE shops AS SELECT i AS shop FROM range(2) AS r(i);
"""
POLICY = """
tables.users = { privacy_unit = "user_id", unique_per_person = ["sex"] }
tables.sales.privacy_unit = "user_id"
tables.visits.privacy_unit = "user_id"
public.tables = ["shops"]
domains."users.sex" = [0, 1]
"""
VISITED = "user_id IN (SELECT user_id FROM visits WHERE page < 3)"
ALONE = [
    f"SELECT {VISITED} AS k, {{}} FROM sales GROUP BY k",
    "SELECT EXISTS (SELECT 1 FROM visits v WHERE v.user_id = s.user_id AND page > 1) AS k, {} FROM sales s GROUP BY 1",
    f"SELECT k, {{}} FROM (SELECT user_id, paid, {VISITED} AS k FROM sales) GROUP BY k",
    f"SELECT k, {{}} FROM (SELECT s.*, {VISITED.replace('user_id IN', 's.user_id IN')} AS k FROM sales s) GROUP BY k",
]
OPEN = [
    f"SELECT NOT {VISITED} AS k, {{}} FROM sales GROUP BY k",
    f"SELECT {VISITED} OR paid > 3 AS k, {{}} FROM sales GROUP BY k",
    "SELECT shop IN (SELECT shop FROM shops) AS k, {} FROM sales GROUP BY k",
    "SELECT EXISTS (SELECT 1 FROM visits v WHERE v.user_id = s.user_id AND page = s.shop) AS k, {} FROM sales s GROUP BY 1",
    "SELECT EXISTS (SELECT 1 FROM visits v WHERE v.user_id = s.user_id AND page > s.shop) AS k, {} FROM sales s GROUP BY 1",
    f"SELECT k, {{}} FROM (SELECT user_id, paid, {VISITED} AS k FROM sales UNION ALL "
    "SELECT user_id, paid, user_id IN (SELECT user_id FROM users WHERE sex = 1) AS k FROM sales) GROUP BY k",
    f"SELECT k, {{}} FROM (SELECT user_id, paid, {VISITED} AS k FROM sales UNION ALL SELECT user_id, paid, true FROM sales) GROUP BY k",
    f"SELECT {VISITED} AS k, shop > 1 AS j, {{}} FROM sales GROUP BY ALL",
]  # fmt: skip


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dp_sql.Session]:
    with asking_under(POLICY, SHOP, tmp_path_factory.mktemp("shop")) as session:
        yield session


owner = owner_of(SHOP)


@pytest.mark.parametrize("asked", ALONE)
def test_a_match_of_the_person_is_one_group_and_needs_no_cap(
    asking: dp_sql.Session, owner: dp_sql.Session, asked: str
) -> None:
    unit = "s.user_id" if " s GROUP" in asked else "user_id"
    sure = f"privacy_unit := {unit}, groups := [false, true], {SURE}"
    exact = owner.sql(asked.format("sum(paid)") + " ORDER BY 1").fetchall()
    for session, arguments in ((asking, SURE), (owner, sure)):
        called = asked.format(f"DP_SUM(paid, {arguments}) AS total")
        found = session.sql(f"{called} ORDER BY 1").fetchall()
        for (key, total), (same, true_total) in zip(found, exact, strict=True):
            assert key == same and abs(total - true_total) <= Decimal(1)
        costs = str(session.explain(called))
        assert "counts in at most" not in costs  # all of epsilon for each group
    # What the plan rests on: no person has two keys.
    keys = owner.sql(
        f"SELECT max(n) FROM (SELECT count(DISTINCT k) AS n FROM ({_rows(asked)}) GROUP BY u)"
    )
    assert keys.fetchall() == [(1,)]


def _rows(asked: str) -> str:
    """The person and the key of each row."""
    unit = "s.user_id" if " s GROUP" in asked else "user_id"
    return asked.partition(" GROUP BY")[0].format(f"{unit} AS u")


@pytest.mark.parametrize("asked", OPEN)
def test_any_other_condition_needs_one(asking: dp_sql.Session, asked: str) -> None:
    with pytest.raises(ArgumentError, match="max_groups_contributed"):
        asking.sql(asked.format(f"DP_SUM(paid, {SURE})"))


def test_with_a_column_that_is_unique_it_still_needs_none(asking: dp_sql.Session) -> None:
    asked = f"SELECT sex, {VISITED} AS k, {{}} FROM sales JOIN users USING (user_id) GROUP BY ALL"
    assert len(asking.sql(asked.format(f"DP_AVG(paid, {SURE})")).fetchall()) == 4


@pytest.mark.parametrize("condition", [
    VISITED, "EXISTS (SELECT 1 FROM visits v WHERE v.user_id = sales.user_id)",
    "EXISTS (SELECT 1 FROM shops h WHERE h.shop = sales.shop)",
])  # fmt: skip
def test_what_is_computed_of_a_match_needs_its_groups(
    asking: dp_sql.Session, condition: str
) -> None:
    call = "DP_SUM(paid, epsilon := 1, max_groups_contributed := 1)"
    with pytest.raises(ArgumentError, match="needs groups"):
        asking.sql(f"SELECT ({condition})::INTEGER AS k, {call} FROM sales GROUP BY k")
