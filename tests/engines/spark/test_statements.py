"""Two hundred statements under a policy: on Spark mechanisms are given what they are given on DuckDB.

One call each: on Spark the calls of a SELECT draw in another order.
"""

from collections.abc import Iterator
from fractions import Fraction
from itertools import cycle
from typing import Any

import duckdb
import pytest

import dp_sql
from dp_sql.engines.spark import release
from dp_sql.engines.spark.jobs import SparkJobs
from tests.conftest import SURE
from tests.engines.spark.tables import store
from tests.engines.test_sessions import asked_of_draws
from tests.privacy.source_texts import CONDITIONS, ITEMS

TABLES = """
CREATE TABLE ratings AS SELECT
    nullif((hash(i, 0) % 40)::BIGINT, 7) AS user_id,
    ['Dune', 'dune', 'Emma', '', NULL, ' Dune ', '%_', 'ÄÖ ß'][(1 + hash(i, 1) % 8)::INTEGER] AS title,
    [1, 2, 3, NULL, -2147483648, 2147483647][(1 + hash(i, 2) % 6)::INTEGER]::INTEGER AS score,
    ['2020-01-31', '2020-02-29', '1970-01-01', NULL, '9999-12-31'][(1 + hash(i, 3) % 5)::INTEGER]::DATE AS day,
    [1.5, 0, NULL, 9999999.99, -0.01, 2.5][(1 + hash(i, 4) % 6)::INTEGER]::DECIMAL(9, 2) AS price,
    [0.0, '-0.0'::DOUBLE, 'nan'::DOUBLE, 'inf'::DOUBLE, 1.5, 0.1, NULL][(1 + hash(i, 5) % 7)::INTEGER] AS x,
    ['2020-01-31 12:00:00', NULL, '1999-12-31 23:59:59.999999'][(1 + hash(i, 6) % 3)::INTEGER]::TIMESTAMP AS seen,
    [true, false, NULL][(1 + hash(i, 7) % 3)::INTEGER] AS flag,
    ['north', 'south', NULL][(1 + hash(i, 8) % 3)::INTEGER] AS region,
    [hash(i, 1) % 8, hash(i, 9) % 3]::INTEGER[] AS tags, {'city': 'city ' || hash(i, 9) % 3} AS home
FROM range(400) AS r(i);
CREATE TABLE visits AS SELECT (hash(i, 0) % 50)::BIGINT AS visitor, 'page ' || i % 9 AS page FROM (SELECT i // 2 AS i FROM range(200) AS r(i));
CREATE TABLE orders AS SELECT i % 60 AS order_id, i % 35 AS buyer FROM range(90) AS r(i);
CREATE TABLE items AS SELECT i % 70 AS order_id, 'thing ' || i % 11 AS product, i % 4 AS n FROM range(150) AS r(i);
CREATE TABLE catalog (title VARCHAR, year INTEGER);
INSERT INTO catalog VALUES ('Dune', 1965), ('Emma', 1815), ('x', NULL), (NULL, 1), ('Dune', 2);
CREATE TABLE pages AS SELECT 'page ' || i AS page, 'Emma' AS section FROM range(7) AS r(i);
"""
POLICY = """
tables.ratings.privacy_unit = "user_id"
tables.visits.privacy_unit = "visitor"
tables.orders.privacy_unit = "buyer"
tables.items.privacy_unit = { link = "order_id", to = "orders.order_id" }
public.tables = ["catalog", "pages"]
domains."ratings.region" = ["north", "south", "east"]
[limits]
max_delta_per_query = 1e-3
max_contributions = 1000
"""
COUNT, TITLES = "DP_COUNT(*, epsilon := 1)", "DP_COUNT_DISTINCT(title, epsilon := 1)"
TOP = "DP_TOPK(title, 2, epsilon := 1, domain := ['Dune', 'Emma', '', 'no one''s'])"
FOUND = "DP_TOPK(title, 2, epsilon := 1, delta := 1e-6)"
CALLS = [
    COUNT, TITLES, TOP, "DP_SUM(price, epsilon := 1, contribution_bound := 3)", "DP_COUNT(score, epsilon := 1)",
    "DP_COUNT_DISTINCT(user_id, epsilon := 1)", "DP_SUM(score, epsilon := 1)", "DP_AVG(price, epsilon := 1)",
    "DP_MEDIAN(user_id, epsilon := 1, lower := -5, upper := 30)", FOUND,
    "DP_COUNT_DISTINCT(day, epsilon := 1)", "DP_QUANTILE(user_id, 0.9, epsilon := 1, lower := 0, upper := 40)",
    "DP_AVG(price, epsilon := 1, lower := 0, upper := 9)",
]  # fmt: skip
COLUMNS = {
    "user_id": "big", "title": "text", "score": "int", "day": "date", "price": "dec", "x": "double",
    "seen": "time", "flag": "bool",
}  # fmt: skip
SOURCES = [
    "ratings JOIN catalog USING (title)", "ratings LEFT JOIN catalog USING (title) WHERE year > 1900",
    "ratings WHERE user_id IN (SELECT visitor FROM visits WHERE page <> 'page 1')",
    "ratings JOIN visits ON user_id = visitor", "ratings AS r JOIN orders AS o ON r.user_id = o.buyer",
    "(SELECT user_id, lower(title) AS title FROM ratings UNION ALL SELECT visitor, page FROM visits)",
    "(SELECT user_id, title, count(*) AS n FROM ratings GROUP BY ALL HAVING count(*) > 1)",
    "(SELECT user_id, max(title) AS title FROM ratings GROUP BY user_id)",
    "(SELECT DISTINCT user_id, title FROM ratings)", "ratings NATURAL JOIN catalog",
    "(SELECT buyer, product AS title FROM items JOIN orders USING (order_id))",
    "(SELECT product AS title FROM items WHERE n > 1)",
    "(SELECT * FROM ratings LIMIT 3)", "(SELECT title FROM ratings EXCEPT SELECT title FROM catalog)",
]  # fmt: skip
OF_ONE_ROW = [
    "tags[2] = 1", "1 = ANY(tags)", "list_has_any(tags, [1, 7])", "home.city = 'city 1'", "title[1:2] = 'Du'",
    "title GLOB 'D*'", "title SIMILAR TO '[dD]une'", "epoch(seen) > 1e9", "score & 1 = 1", "ln(x) > 0",
    "time_bucket(INTERVAL 1 MONTH, day) = DATE '2020-01-01'",
]  # fmt: skip
# No groups are left out, and all rows of a person vote for the same: these draws differ on Spark.
CAP = "max_groups_contributed := 9) AS n FROM ratings"
GROUPED = [
    f"SELECT region, {call[:-1]}, {CAP} GROUP BY region"
    for call in (*CALLS[:3], CALLS[3], CALLS[5], CALLS[9])
] + [
    "SELECT region, DP_COUNT_DISTINCT(user_id, epsilon := 1) AS n FROM ratings GROUP BY region",
    "SELECT region, DP_COUNT(*, epsilon := 1, contribution_bound := 2) AS n FROM ratings GROUP BY region",
    "SELECT region, DP_COUNT(*, epsilon := 1) AS n FROM ratings GROUP BY region",
    f"SELECT title, DP_COUNT(*, epsilon := 1, delta := 1e-6, {CAP} GROUP BY title",
    "SELECT title, DP_COUNT_DISTINCT(user_id, epsilon := 1, delta := 1e-6) AS n FROM ratings GROUP BY title",
]


def statements() -> list[str]:
    calls = cycle(CALLS)
    conditions = [
        condition.replace("{}", column)
        for column, kind in COLUMNS.items()
        for condition in CONDITIONS[kind]
    ]
    items = [
        item.replace("{}", name) for name, kind in COLUMNS.items() for item in ITEMS.get(kind, [])
    ]
    conditions += OF_ONE_ROW
    found = [f"SELECT {next(calls)} FROM ratings WHERE {one}" for one in conditions]
    found += [f"SELECT DP_COUNT_DISTINCT({one}, epsilon := 1) FROM ratings" for one in items]
    found += [
        f"SELECT {call} FROM {one}" for one in SOURCES for call in (TITLES, COUNT, TOP, FOUND)
    ]
    return [*found, *GROUPED]


def asked(session: Any, statement: str, patch: pytest.MonkeyPatch) -> Any:
    """What its mechanisms are given, and its answer with the same draws; or its refusal."""
    try:
        return asked_of_draws(session, statement, patch, 1)
    except dp_sql.QueryError as error:
        return type(error), str(error)


@pytest.fixture(scope="module")
def sessions(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    folder = tmp_path_factory.mktemp("statements")
    (folder / "policy.toml").write_text(POLICY)
    with duckdb.connect(str(folder / "many.duckdb")) as connection:
        connection.execute(TABLES)
    store(spark, folder, TABLES, "many")
    spark.catalog.setCurrentDatabase("many")
    spark.conf.set("spark.sql.adaptive.enabled", "false")  # for rows so few
    given: dict[str, Any] = {"policy": folder / "policy.toml", "analyst": "ann"}
    with (
        dp_sql.connect(str(folder / "many.duckdb"), **given) as here,
        dp_sql.connect(spark, **given) as there,
    ):
        yield here, there
    spark.conf.unset("spark.sql.adaptive.enabled")
    spark.catalog.setCurrentDatabase("default")


def test_there_are_two_hundred() -> None:
    assert len({*statements()}) == len(statements()) >= 200


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in range(1, 10))]
)
def test_mechanisms_are_given_the_same(
    part: int, sessions: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        release, "SparkJobs", lambda *given: SparkJobs(*given, n_parts=2 + part % 3)
    )
    wrong, n_answers = [], 0
    for statement in statements()[part::10]:
        right, found = (asked(session, statement, monkeypatch) for session in sessions)
        n_answers += isinstance(right, list)
        for _ in range(5 if "DP_TOPK" in statement else 0):  # equal counts come in any order
            if right == found:
                break
            right, found = (asked(session, statement, monkeypatch) for session in sessions)
        if right != found:
            wrong.append(f"{statement}\n    {right!r:.300}\n    {found!r:.300}")
    assert not wrong, "\n".join(wrong)
    assert n_answers >= 12


@pytest.mark.parametrize("cap", ["", ", max_groups_contributed := 9"])
def test_calls_share_the_groups_that_delta_finds(sessions: tuple[Any, Any], cap: str) -> None:
    """They are found once, the first call pays, and a group of one person is not found."""
    calls = ["DP_COUNT(*", "DP_COUNT_DISTINCT(buyer", "DP_QUANTILE(buyer, 0.9"]
    more = [f", delta := 1e-6{cap})", f"{cap})", f", lower := 0, upper := 40{cap})"]
    listed = ", ".join(f"{call}, {SURE}{end}" for call, end in zip(calls, more, strict=True))
    source = "(SELECT buyer, if(buyer = 34, 9, buyer % 3) AS kind FROM orders)"
    text = f"SELECT kind, {listed} FROM {source} GROUP BY kind ORDER BY kind"
    (right, paid), (found, spent) = (
        (one.sql(text).fetchall(), [receipt.loss for receipt in one.receipts[-3:]])
        for one in sessions
    )
    assert found == right and [kind for kind, *_ in right] == [0, 1, 2]
    assert spent == paid and [loss.delta for loss in paid] == [Fraction(1, 10**6), 0, 0]
