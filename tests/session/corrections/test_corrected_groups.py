"""Which groups a correction proposes, and in how many of them a person counts."""

from pathlib import Path

import duckdb
import pytest

import dp_sql
from dp_sql.errors import ArgumentError
from tests.session.corrections.orders_shop import TABLES, UNIT, told


def test_groups_of_one_person_are_refused_as_such(
    owner: dp_sql.Session, analyst: dp_sql.Session
) -> None:
    for asked in ("count(*)", "sum(total)"):
        query = f"SELECT customer_id, {asked} FROM orders GROUP BY 1"
        error = told(analyst, query)
        assert error.suggestion == ""
        assert str(error.hint).startswith("Each customer_id is one person, and an answer about")
    query = (
        "SELECT DP_TOPK(customer_id, 2, epsilon := 1, {}privacy_unit := customer_id) FROM orders"
    )
    error = told(owner, query.format(""))
    assert error.message == "Each customer_id is one person, and DP_TOPK lists its items."
    assert error.suggestion == "" and "delta" not in str(error.hint)
    owner.sql(query.format("domain := observed, "))
    said = "each customer_id is one person, and the answer may list them"
    assert said in owner.receipts[-1].assumptions


def test_groups_are_proposed_for_a_histogram(analyst: dp_sql.Session) -> None:
    error = told(analyst, "SELECT histogram(status) FROM orders WHERE total > 3")
    assert error.suggestion == (
        "SELECT status, DP_COUNT(*, epsilon := 1) AS n FROM orders WHERE total > 3 GROUP BY status"
    )
    assert str(error.hint).startswith("Count by groups: ")


@pytest.mark.parametrize("beside", ["", ", DP_SUM(x, epsilon := 1, privacy_unit := u)"])
def test_an_owners_count_of_people_names_the_groups_it_needs(beside: str) -> None:
    with dp_sql.connect() as owner:
        owner.execute(
            "CREATE TABLE t AS SELECT i AS u, i % 3 AS k, i % 7 AS x FROM range(99) AS r(i)"
        )
        with pytest.raises(ArgumentError, match="DP_COUNT_DISTINCT needs groups"):
            owner.sql(
                f"SELECT k, DP_COUNT_DISTINCT(u, epsilon := 1, privacy_unit := u){beside} FROM t GROUP BY k"
            )


@pytest.mark.parametrize(
    ("groups", "call", "cap", "asks_other"),
    [
        ("status", "sum(total)", 3, False),  # the policy declares three values
        ("status", "count(DISTINCT day)", 3, False),
        ("status", "avg(total)", 1, False),  # which does not grow with the number of people
        ("status, month(day)", "sum(total)", 1, True),  # of 36 groups, noise would hide the sums
        ("note", "sum(total)", 1, True),
    ],
)
def test_a_sum_beside_a_count_is_of_as_many_groups_of_a_person(
    analyst: dp_sql.Session, groups: str, call: str, cap: int, asks_other: bool
) -> None:
    query = f"SELECT {groups}, {call} / count(DISTINCT customer_id) AS r FROM orders GROUP BY ALL"
    error = told(analyst, query)
    assert f"max_groups_contributed := {cap})" in error.suggestion
    assert error.suggestion.count("max_groups_contributed") == 1
    assert error.asks_other is asks_other
    assert ("If you divide the answers: DP_SUM counts" in str(error.hint)) is asks_other
    alone = told(analyst, query.replace(" / count(DISTINCT customer_id)", ""))
    assert f"max_groups_contributed := {cap})" in alone.suggestion and not alone.asks_other
    assert f"each person counts in {'one group only' if cap == 1 else 'at most 3'}" in str(
        alone.hint
    )


def test_keys_of_one_public_table_have_its_combinations(analyst: dp_sql.Session) -> None:
    query = "SELECT r.region, r.region_id, sum(total) AS s FROM orders o JOIN customers c USING (customer_id) JOIN regions r {} GROUP BY ALL"
    for on in ("ON r.region_id = c.region_id", "USING (region_id)"):
        error = told(analyst, query.format(on))
        assert "groups := (SELECT DISTINCT region, region_id FROM regions), max" in error.suggestion
        assert "max_groups_contributed := 3" in error.suggestion and not error.asks_other
        assert len(analyst.sql(error.suggestion).fetchall()) == 3
    two = query.replace("r.region_id,", "t.region_id,").replace(
        "{}", "USING (region_id) JOIN regions t USING (region_id)"
    )
    assert "groups := (regions.region, regions.region_id)" in told(analyst, two).suggestion


def test_keys_equal_to_those_of_a_public_table_have_its_combinations(
    analyst: dp_sql.Session,
) -> None:
    query = "SELECT {}, r.region, count(*) AS n FROM customers c {} JOIN regions r {} GROUP BY ALL"
    for key, kind, on in (
        ("c.region_id", "", "ON r.region_id = c.region_id"),
        ("region_id", "INNER", "USING (region_id)"),
    ):
        error = told(analyst, query.format(key, kind, on))
        assert "groups := (SELECT DISTINCT region_id, region FROM regions))" in error.suggestion
        assert len(analyst.sql(error.suggestion).fetchall()) == 3
    for kind, on in (("LEFT", "USING (region_id)"), ("", "ON r.region_id <= c.region_id")):
        error = told(analyst, query.format("c.region_id", kind, on))
        assert "regions.region)" in error.suggestion


def test_keys_of_several_public_tables_have_the_combinations_of_each(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "lent.duckdb")) as con:
        con.execute("""CREATE TABLE loans AS SELECT i AS u, i % 9 AS book, i % 2 AS branch
                       FROM range(99) AS r(i);
                       CREATE TABLE books AS SELECT i AS book, 'b' || i AS title FROM range(9) AS r(i);
                       CREATE TABLE branches AS SELECT i AS branch, 'n' || i AS name FROM range(2) AS r(i)""")
    (tmp_path / "p.toml").write_text(
        'tables.loans.privacy_unit = "u"\npublic.tables = ["books", "branches"]\n'
    )
    with dp_sql.connect(str(tmp_path / "lent.duckdb"), policy=tmp_path / "p.toml") as session:
        query = "SELECT {} count(*) FROM loans JOIN books USING (book) JOIN branches USING (branch) GROUP BY ALL"
        error = told(session, query.format("name, book, title,"))
        listed = "SELECT DISTINCT branches.name, books.book, books.title FROM branches, books"
        assert f"groups := ({listed})) FROM" in error.suggestion
        assert len(session.sql(error.suggestion).fetchall()) == 18
        error = told(session, query.format("name, title,"))
        assert "groups := (branches.name, books.title)" in error.suggestion


def test_what_is_computed_of_a_public_table_is_read_there(analyst: dp_sql.Session) -> None:
    query = "SELECT {0} AS k, count(*) AS n FROM customers c JOIN {1} USING (region_id) GROUP BY k"
    for key, table, shown in (
        ("upper(region)", "regions", "SELECT DISTINCT upper(region) FROM regions"),
        ("r.region_id // 2", "regions AS r", "SELECT DISTINCT r.region_id // 2 FROM regions AS r"),
    ):
        error = told(analyst, query.format(key, table))
        assert f"groups := ({shown})) AS n" in error.suggestion and not error.asks_other
        assert analyst.sql(error.suggestion).fetchall()
    renamed = "(SELECT region_id, region AS name FROM regions)"
    assert "FROM regions))" not in told(analyst, query.format("upper(name)", renamed)).suggestion


def test_a_sum_behind_a_mean_is_of_all_groups_too(analyst: dp_sql.Session) -> None:
    error = told(
        analyst, "SELECT status, count(*), avg(total), sum(total) FROM orders GROUP BY status"
    )
    assert error.suggestion.count("max_groups_contributed := 3") == 1 and not error.asks_other


def test_counts_of_groups_that_are_found_are_not_those_of_all_groups(tmp_path: Path) -> None:
    path, policy = str(tmp_path / "shop.duckdb"), tmp_path / "policy.toml"
    policy.write_text(
        'tables.orders.privacy_unit = "customer_id"\nlimits.max_delta_per_query = 1e-6\n'
    )
    with duckdb.connect(path) as con:
        con.execute(TABLES)
    query = (
        "SELECT n, count(*) FROM (SELECT note, count(*) AS n FROM orders GROUP BY note) GROUP BY n"
    )
    with dp_sql.connect(path, policy=policy) as session:
        error = told(session, query)
        beside = told(session, "SELECT note, count(*), sum(total) FROM orders GROUP BY note")
    assert error.asks_other and "DP_COUNT(*, epsilon := 1, delta := 1e-9) AS n" in error.suggestion
    assert beside.asks_other and "DP_SUM counts a person in one group" in str(beside.hint)


def test_an_owners_sum_is_of_all_groups_if_they_are_known(owner: dp_sql.Session) -> None:
    for groups, cap in (("['paid', 'open']", 2), ("(FROM range(13))", 1), ("observed", 1)):
        key = "order_id % 13" if "range" in groups else "status"
        asked = f"SELECT {key} AS k, DP_SUM(customer_id, epsilon := 1, groups := {groups}) AS s"
        error = told(owner, f"{asked} FROM orders GROUP BY k")
        assert f"max_groups_contributed := {cap})" in error.suggestion and not error.asks_other
    asked = f"SELECT r.region, DP_SUM(customer_id, epsilon := 1{UNIT}, groups := r.region) AS s"
    error = told(
        owner, f"{asked} FROM orders JOIN regions r ON r.region = status GROUP BY r.region"
    )
    assert "groups := regions.region, max_groups_contributed := 3" in error.suggestion
    error = told(
        owner,
        "SELECT status, DP_COUNT_DISTINCT(if(total > 9, customer_id, NULL)) FROM orders GROUP BY status",
    )
    assert "max_groups_contributed" not in error.suggestion.removeprefix("SELECT")


@pytest.mark.parametrize(
    ("refused", "proposed"),
    [
        ("SELECT status, {} FROM orders ORDER BY status",
         "SELECT status, {} FROM orders GROUP BY status ORDER BY status"),
        ("SELECT * FROM (SELECT status, {} FROM orders WHERE total > 3)",
         "SELECT * FROM (SELECT status, {} FROM orders WHERE total > 3 GROUP BY status)"),
        ("FROM orders SELECT status, {} LIMIT 2", "FROM orders SELECT status, {} GROUP BY status LIMIT 2"),
        ("SELECT total > 3 AS t, {} FROM orders", "SELECT total > 3 AS t, {} FROM orders GROUP BY total > 3"),
        ("SELECT status, total > 3, {} FROM orders", "SELECT status, total > 3, {} FROM orders GROUP BY ALL"),
        ("SELECT status, {} FROM orders GROUP BY status WHERE total > 3",
         "SELECT status, {} FROM orders WHERE total > 3 GROUP BY status"),
        ("SELECT status, {} LIMIT 2 FROM orders ORDER BY 1 GROUP BY status",
         "SELECT status, {} FROM orders GROUP BY status ORDER BY 1 LIMIT 2"),
    ],
)  # fmt: skip
def test_clauses_are_proposed_in_the_order_that_duckdb_reads(
    analyst: dp_sql.Session, refused: str, proposed: str
) -> None:
    call = "DP_COUNT(*, epsilon := 1) AS n"
    error = told(analyst, refused.format(call))
    assert error.suggestion == proposed.format(call)
    assert analyst.explain(error.suggestion)
