"""Names in a source that are aliases, answers, or those of the query around it."""

from pathlib import Path

import duckdb
import pytest

import dp_sql
from tests.session.corrections.orders_shop import UNIT, told


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT r.region, (SELECT DP_COUNT(*, epsilon := 1{}) FROM customers AS c "
        "WHERE c.region_id = r.region_id) AS n FROM regions AS r",
        "SELECT region, (SELECT DP_COUNT(*, epsilon := 1{}) FROM customers "
        "WHERE region_id = regions.region_id) AS n FROM regions",
        "SELECT r.region, n FROM regions AS r, LATERAL (SELECT DP_COUNT(*, epsilon := 1{}) AS n "
        "FROM customers AS c WHERE c.region_id = r.region_id)",
        "SELECT region, (SELECT DP_COUNT(*, epsilon := 1{}) FROM customers "
        "WHERE region_id = region) AS n FROM regions",
    ],
)
def test_a_source_that_names_the_query_around_it_is_not_corrected_into_another_one(
    owner: dp_sql.Session, analyst: dp_sql.Session, statement: str
) -> None:
    for session, more in ((owner, UNIT), (analyst, "")):
        error = told(session, statement.format(more))
        assert error.suggestion == ""
        assert "it cannot refer to the query around it" in error.message


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("item", "condition"),
    [
        ("status AS st", "st = 'paid'"),
        ("upper(status) AS st", "'PAID' = st AND total >= 0"),
        ("status AS note", "note = 'note'"),  # DuckDB takes the column
        ('status AS "S t"', "\"s T\" <> 'paid'"),
    ],
)
def test_where_takes_an_alias_of_the_list_that_is_no_column(
    owner: dp_sql.Session,
    analyst: dp_sql.Session,
    plain: duckdb.DuckDBPyConnection,
    item: str,
    condition: str,
) -> None:
    rest = f"AS n FROM orders WHERE {condition} GROUP BY 1 ORDER BY 1"
    wanted = plain.execute(f"SELECT {item}, count(*) {rest}").fetchall()
    groups = "['paid', 'sent', 'back', 'PAID']"
    for session, more in ((owner, UNIT), (analyst, "")):
        call = f"DP_COUNT(*, epsilon := 9000, groups := {groups}{more})"
        found = session.execute(f"SELECT {item}, {call} {rest}").fetchall()
        assert [row for row in found if row[1] > 0] == wanted


def test_the_expression_of_an_alias_is_one_operand(owner: dp_sql.Session) -> None:
    owner.execute("CREATE TABLE sums AS SELECT i AS user_id, i % 9 AS x FROM range(40) t(i)")
    call = "DP_SUM(m * 2, epsilon := 1.0, privacy_unit := user_id, groups := [1, 2], max_groups_contributed := 1)"
    with pytest.raises(dp_sql.QueryError) as caught:
        owner.sql(f"SELECT x + 1 AS m, {call} AS n FROM sums GROUP BY m")
    assert "DP_SUM((x + 1) * 2, " in str(caught.value.suggestion)


def test_an_alias_is_never_taken_for_a_mistyped_column(owner: dp_sql.Session) -> None:
    statement = (
        f"SELECT status, DP_COUNT(*, epsilon := 1{UNIT}, groups := ['paid']) AS notes FROM orders "
        "WHERE notes > 3 GROUP BY status"
    )
    error = told(owner, statement)
    assert error.suggestion.endswith(" FROM orders GROUP BY status HAVING notes > 3")
    assert "notes is an answer, so WHERE cannot use it" in error.message


def test_group_by_all_of_answers_names_the_keys(owner: dp_sql.Session) -> None:
    calls = f"DP_SUM(total, epsilon := 9{UNIT}, max_groups_contributed := 1) AS s, DP_COUNT(*, epsilon := 9, groups := ['paid']) AS n"
    statement = f"SELECT status, {calls}, s / n mean FROM orders GROUP BY ALL"
    proposed = told(owner, statement).suggestion
    assert proposed == statement.replace("BY ALL", "BY status")
    assert owner.sql(proposed).columns == ["status", "s", "n", "mean"]


def test_an_alias_in_where_is_checked_as_if_its_expression_were_written_there(
    owner: dp_sql.Session, analyst: dp_sql.Session
) -> None:
    owner.execute("CREATE MACRO of_all() AS (SELECT count(*) FROM orders)")
    for session, more in ((owner, UNIT), (analyst, "")):
        for item in ("of_all()", "(SELECT count(*) FROM orders)", "sum(total) OVER ()"):
            error = told(
                session,
                f"SELECT {item} AS x, DP_COUNT(*, epsilon := 1{more}) AS n FROM orders WHERE x > 3",
            )
            assert error.suggestion == ""


def test_people_of_two_kinds_are_not_proposed_as_one(tmp_path: Path) -> None:
    path, policy = str(tmp_path / "rides.duckdb"), tmp_path / "policy.toml"
    with duckdb.connect(path) as con:
        con.execute("CREATE TABLE drivers (driver_id INTEGER, vehicle VARCHAR)")
        con.execute("CREATE TABLE trips (rider_id INTEGER, driver_id INTEGER)")
        con.execute("CREATE TABLE users (person INTEGER, plan VARCHAR)")
    units = {"drivers": "driver_id", "trips": "rider_id", "users": "person"}
    policy.write_text("".join(f'tables.{t}.privacy_unit = "{u}"\n' for t, u in units.items()))
    count = "SELECT DP_COUNT(*, epsilon := 1) FROM trips"
    with dp_sql.connect(path, policy=policy) as session:
        assert told(session, f"{count} JOIN drivers USING (driver_id)").suggestion == ""
        assert told(session, f"{count} AS t, drivers AS d").suggestion == ""
        assert told(session, f"{count} WHERE vehicle = 'van'").suggestion == ""
        plan = told(session, f"{count} WHERE plan = 'pro'").suggestion
        assert plan == f"{count} JOIN users ON trips.rider_id = users.person WHERE plan = 'pro'"
        both = told(session, f"{count}, users").suggestion
        assert both == f"{count} JOIN users ON trips.rider_id = users.person"
