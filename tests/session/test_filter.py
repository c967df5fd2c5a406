"""FILTER (WHERE …) after a DP call keeps the rows that it keeps with DuckDB's aggregates."""

from collections.abc import Iterator

import duckdb
import pytest

import dp_sql
from dp_sql.errors import ParseError, QueryError
from dp_sql.sql.statement import parse
from tests.conftest import free
from tests.databases import asking_under, owner_of

SHOP = """
CREATE TYPE mood AS ENUM ('calm', 'merry', 'sad');
CREATE TABLE regions AS SELECT unnest(['north', 'south', 'west']) AS name;
CREATE TABLE orders AS
    SELECT i AS id, i % 60 AS user_id, CASE WHEN i % 4 > 0 THEN ['north', 'south', 'east'][i % 3 + 1] END AS region,
           (['calm', 'merry', 'sad'][i % 3 + 1])::mood AS mood, 'k' || i % 5 AS kind,
           CASE WHEN i % 7 > 0 THEN i % 11 END AS n, (i % 13 / 4)::DECIMAL(9, 2) AS price,
           DATE '2026-01-01' + (i % 90)::INTEGER AS day, [i % 2, 3] AS tags
    FROM range(1800) AS r(i);
CREATE TABLE vips AS SELECT DISTINCT user_id FROM orders WHERE user_id % 5 = 0;
"""
POLICY = """
tables.orders.privacy_unit = "user_id"
tables.vips.privacy_unit = "user_id"
public.tables = ["regions"]
domains."orders.region" = "regions.name"
domains."orders.mood" = "enum"
domains."orders.kind" = "observed"
[budget]
dataset = "shop"
epsilon = 1e6
"""
ASKED = {  # and what DuckDB answers
    "DP_COUNT(*, {})": "count(*)",
    "DP_COUNT(n, {})": "count(n)",
    "DP_COUNT(1, {})": "count(1)",
    "DP_SUM(n, {})": "sum(n)",
    "DP_SUM(price, {})": "sum(price)",
    "DP_AVG(n, {}, lower := 0, upper := 10)": "avg(n)",
    "DP_QUANTILE(month(day), 0.47, {}, lower := 0, upper := 12)": "quantile_disc(month(day), 0.47)",
    "DP_COUNT_DISTINCT(kind, {})": "count(DISTINCT kind)",
    "DP_COUNT_DISTINCT(user_id, {})": "count(DISTINCT user_id)",
    "DP_TOPK(region, 1, {}, domain := ['north', 'west', 'south'])": "mode(nullif(region, 'east'))",
    "DP_TOPK(mood, 1, {}, domain := mood)": "mode(mood)",
}
CONDITIONS = [
    "n > 3",
    "n IS NULL OR price < 1",
    "region = 'north'",
    "region <> 'south' AND kind IN ('k1', 'k2')",
    "region IN (SELECT name FROM regions)",
    "user_id IN (SELECT user_id FROM vips)",
    "EXISTS (SELECT 1 FROM vips WHERE vips.user_id = orders.user_id) AND n > 3",
    "CASE WHEN kind = 'k1' THEN n END > 2",
    "day >= DATE '2026-02-01' -- n > 3\n",
    "false",
]
UNIT = ", privacy_unit := user_id"
SURE = "epsilon := 2000"  # the budget suffices for all of these tests
owner = owner_of(SHOP)


@pytest.fixture(scope="module")
def analyst(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dp_sql.Session]:
    with asking_under(POLICY, SHOP, tmp_path_factory.mktemp("shop")) as session:
        yield session


def _exact(owner: dp_sql.Session, sql: str) -> list[tuple[object, ...]]:
    assert owner.connection is not None
    return owner.connection.execute(sql).fetchall()


@pytest.mark.one_in(5)
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("call", ASKED)
def test_a_filter_keeps_what_it_keeps_in_duckdb(
    call: str, condition: str, owner: dp_sql.Session, analyst: dp_sql.Session
) -> None:
    one_each = (
        "(FROM orders QUALIFY row_number() OVER (PARTITION BY user_id ORDER BY id) = 1) AS orders"
    )
    source = one_each if "QUANTILE" in call or "TOPK" in call else "orders"  # votes of people
    kept = f"FILTER (WHERE {condition})"
    exact = f"SELECT {ASKED[call]} {kept}, count(*) {kept} FROM {source}"
    ((wanted, n),) = _exact(owner, exact)
    for asked, unit in ((owner, UNIT), (analyst, "")):
        found = asked.sql(
            f"SELECT {call.format(SURE + unit)} {kept} AS x FROM {source}"
        ).fetchall()[0]
        if n and "TOPK" in call:  # several items may be the most frequent
            item, (best,) = call[8:].partition(",")[0], found[0]
            count = f"SELECT count(*) {kept} FROM {source} WHERE {item} = '{{}}'"
            assert _exact(owner, count.format(best)) == _exact(owner, count.format(wanted))
        elif n or "COUNT" in call:
            assert float(found[0]) == pytest.approx(float(wanted), abs=0.01, rel=0.001)
        elif "SUM" in call:
            assert found[0] == 0  # a noisy sum of nothing is no NULL


def test_groups_stay_and_equal_filters_are_one_release(
    owner: dp_sql.Session, analyst: dp_sql.Session
) -> None:
    for asked, unit in ((owner, UNIT + ", groups := regions.name"), (analyst, "")):
        high = f"DP_COUNT(*, {SURE}{unit}) FILTER (WHERE n > 5)"
        low = f"DP_COUNT(*, {SURE}{unit}) FILTER (WHERE n <= 5)"
        rows = asked.sql(
            f"SELECT region, {high} AS high, {high.lower()} + 1 AS more, {low} FROM orders GROUP BY 1 "
            f"HAVING {low} > -100 ORDER BY {high} DESC, 1"
        )
        assert rows.columns[-1] == "dp_count(*) FILTER (WHERE n <= 5)"
        exact = (
            "SELECT name, count(*) FILTER (n > 5), count(*) FILTER (n <= 5) FROM regions LEFT JOIN"
        )
        exact += " orders ON region = name GROUP BY 1 ORDER BY 2 DESC, 1"
        wanted = [(name, n, n + 1, m) for name, n, m in _exact(owner, exact)]
        assert rows.fetchall() == wanted
        assert [one.call for one in asked.receipts[-2:]] == [
            "dp_count(*) FILTER (WHERE n > 5)", "dp_count(*) FILTER (WHERE n <= 5)",
        ]  # fmt: skip


def test_quotes_and_brackets_make_no_other_release(analyst: dp_sql.Session) -> None:
    calls = [f"DP_SUM({n}, {SURE}) FILTER (WHERE {kept})" for n, kept in (
        ("n", "n > 3"), ('"n"', "(n > 3)"), ("(n)", "(n > 3) AND n > 3"), ('"N"', "(n > 3) and N > 3"), ("n", 'n > ("n")'))]  # fmt: skip
    before = len(analyst.receipts)
    ((first, second, *_),) = analyst.sql(f"SELECT {', '.join(calls)} FROM orders").fetchall()
    assert first == second and len(analyst.receipts) == before + 3


def test_it_is_shown_and_priced_as_one_call(owner: dp_sql.Session) -> None:
    query = f"SELECT DP_COUNT(*, {SURE}{UNIT}) FILTER (n > 5) FROM orders"
    with free(owner):
        shown = dict(owner.sql(f"EXPLAIN {query}").fetchall())
    assert shown["call"] == "dp_count(*) FILTER (WHERE n > 5)"
    assert owner.connection is not None
    in_dp = owner.connection.sql(f"FROM dp($$ {query} $$)")
    assert in_dp.fetchall() == _exact(owner, "SELECT count(*) FILTER (n > 5) FROM orders")


def test_duckdb_takes_no_filter_behind_a_macro(con: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(duckdb.Error, match="FILTER"):
        con.sql(f"SELECT DP_COUNT(1, {SURE}{UNIT}) FILTER (WHERE user_id > 3) FROM ratings")


def test_what_it_keeps_may_be_a_parameter(owner: dp_sql.Session, analyst: dp_sql.Session) -> None:
    for asked, unit in ((owner, UNIT), (analyst, "")):
        query = f"SELECT DP_COUNT(*, {SURE}{unit}) FILTER (WHERE n > ? AND kind IN ?) FROM orders"
        found = asked.sql(query, params=[3, ["k1", "k2"]]).fetchall()
        exact = "SELECT count(*) FILTER (WHERE n > 3 AND kind IN ('k1', 'k2')) FROM orders"
        assert found == _exact(owner, exact)


def test_people_s_own_sets_are_those_of_the_item(analyst: dp_sql.Session) -> None:
    for item in ("region", "mood", "kind", "upper(kind)"):  # which have declared values
        query = f"SELECT DP_TOPK({item}, 2, {SURE}) FILTER (WHERE n > 3) FROM orders"
        assert len(analyst.sql(query).fetchall()[0][0]) == 2


@pytest.mark.parametrize(
    ("written", "message", "caret"),
    [
        ("DP_COUNT(*, {}) FILTER (WHERE nn > 3)", "nn", "nn"),
        ("DP_COUNT(*, {}) FILTER (WHERE n > 3 AND nn > 3)", "nn", "nn"),
        ("DP_COUNT(*, {}) FILTER (WHERE a > 3) AS a", "no DP call can read it", "a > 3"),
        ("DP_SUM(a, {}) AS a", "no DP call can read it", "a,"),
        ("DP_COUNT(*, {}) FILTER (WHERE kind)", "must be true or false", "kind)"),
        ("DP_COUNT(*, {}) FILTER (WHERE)", "FILTER needs a condition", "FILTER"),
        ("DP_SUM(n, {}) FILTER (WHERE random() > 0.5)", "random", "random"),
        ("DP_SUM(n, {}) FILTER (WHERE count(*) > 3)", "reads other rows", "count"),
        ("DP_SUM(n, {}) FILTER (WHERE n > (SELECT avg(n) FROM orders))", "subquery", "n >"),
        ("DP_SUM(n, {}) FILTER (WHERE region IN (SELECT region FROM orders))", "public", "region"),
        ("DP_SUM(nn, {}) FILTER (WHERE n > 3)", "nn", "nn"),
        ("DP_SUM(n, {}) FILTER (WHERE DP_COUNT(*, {}) > 3)", "inside the arguments", "DP_COUNT"),
        ("DP_SUM(n, {}) FILTER (WHERE n > 3) OVER ()", "OVER", "OVER"),
        ("DP_SUM(n, {}) FILTER (WHERE n > 3 THEN 1 WHEN n > 4)", "Syntax error", "THEN"),
        ("DP_COUNT(*, {}) FILTER (WHERE n > 3, n > 4)", "Syntax error", ", n > 4"),
        ("DP_COUNT(*, {}) FILTER (WHERE n > 3 AS a)", "Syntax error", "AS a"),
    ],
)
def test_what_a_row_does_not_tell_is_refused_under_the_condition(
    written: str, message: str, caret: str, analyst: dp_sql.Session
) -> None:
    with free(analyst), pytest.raises(QueryError, match=message) as refused:
        analyst.sql(f"SELECT {written.format(*[SURE] * 2)} FROM orders")
    error = refused.value
    assert error.text is not None and error.position is not None
    assert error.text[error.position :].startswith(caret)


def test_what_a_filtered_call_lacks_is_written_into_its_arguments(owner: dp_sql.Session) -> None:
    call = "DP_COUNT(*, epsilon := 1{}) FILTER (WHERE n > 3)"
    query = f"SELECT {call}, {call} / 2 FROM orders"
    with free(owner), pytest.raises(QueryError, match="privacy_unit") as refused:
        owner.sql(query.format("", ""))
    assert refused.value.instead == (query.format(UNIT, ""),)
    query = f"SELECT region, {call}, {call} FROM orders GROUP BY region"  # the second is repeated
    with free(owner), pytest.raises(QueryError, match="needs groups") as refused:
        owner.sql(query.format("", UNIT))
    groups = ", groups := observed"
    assert refused.value.suggestion == query.format(groups, UNIT + groups)


@pytest.mark.parametrize(
    ("written", "proposed"),
    [
        ("n > 3 AND big = 'K1'", "n > 3 AND upper(kind) = 'K1'"),
        ("n > 3 AND kind = k1", "n > 3 AND kind = 'k1'"),
    ],
)
def test_a_name_within_a_condition_is_mended_in_its_place(
    written: str, proposed: str, analyst: dp_sql.Session
) -> None:
    query = (
        f"SELECT upper(kind) AS big, DP_COUNT(*, {SURE}) FILTER (WHERE {{}}) FROM orders GROUP BY 1"
    )
    with free(analyst), pytest.raises(QueryError) as refused:
        analyst.sql(query.format(written))
    assert refused.value.instead == (query.format(proposed),)


def test_scores_take_no_filter(owner: dp_sql.Session) -> None:
    call = "DP_SELECT(kind, n, 1, epsilon := 1)"
    with free(owner), pytest.raises(QueryError, match="does not take FILTER; write the condition"):
        owner.sql(f"SELECT {call} FILTER (WHERE user_id = 1) FROM orders")


def test_a_filter_has_a_condition() -> None:
    (statement,) = parse("SELECT DP_COUNT(*, epsilon := 1) FILTER (WHERE) FROM orders")
    with pytest.raises(ParseError, match="FILTER needs a condition"):
        statement.selects  # noqa: B018
