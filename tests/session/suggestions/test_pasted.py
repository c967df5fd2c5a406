"""Every statement that an error proposes is pasted and works; none shows a name of dp_sql's own."""

from pathlib import Path

import pytest

import dp_sql
from dp_sql.privacy.refusals import ALLOWED, WAY_OUT
from dp_sql.session.corrections.duckdb_errors import THE_FUNCTIONS
from tests.session.suggestions.ratings_shop import COUNT, TOP, told

SAME, OTHER = "Write instead:\n", "A different question that works:\n"
# What both kinds of session are asked; the owner adds what a policy would say.
BOTH = f"""
SELECT DP_TOP(title, 2, epsilon := 0.1{{}}) FROM ratings
SELECT DP_MEAN(score, epsilon := 0.1{{}}) FROM ratings
SELECT DP_COUNTS(*, epsilon := 0.1{{}}) FROM ratings
SELECT DP_COUNT(DISTINCT title, epsilon := 0.1{{}}) FROM ratings
SELECT DP_COUNT(score, 2, epsilon := 0.1{{}}) FROM ratings
SELECT {TOP}, DP_COUNT_DIS(title, epsilon := 0.1{{}}) FROM ratings
SELECT DP_TOPK(titel, 2, epsilon := 0.1{{}}) FROM ratings
SELECT DP_TOPK(titel, 2, epsilom := 0.1{{}}) FROM rating
SELECT {TOP} FROM rating
SELECT {TOP} FROM ratings WHERE reigon = 'north'
SELECT {TOP} FROM ratings WHERE region = north
SELECT {TOP} FROM ratings WHERE region = "north"
SELECT {TOP} FROM ratings JOIN catalog ON ratings.title = catalog.title
SELECT DP_COUNT_DISTINCT(c.title, epsilon := 0.1{{}}) FROM ratings r JOIN catalog c ON r.title = c.titel
SELECT DP_COUNT_DISTINCT(c.title, epsilon := 0.1{{}}) FROM catalog c JOIN ratings r ON r.title = c.titel
SELECT region, DP_COUNT(*, epsilon := 0.1{{}}, groups := ['north']) AS n FROM ratings GROUP BY region HAVING rank() OVER (ORDER BY n) = 1
SELECT 1 FROM ratings ORDER BY DP_COUNT(*, epsilon := 0.1{{}}) DESC
SELECT {COUNT} FROM (SELECT * FROM ratings ORDER BY day LIMIT 10)
SELECT {COUNT} WHERE region = 'north' FROM ratings
SELECT region, DP_COUNT(*, epsilon := 0.1{{}}, groups := ['north']), DP_COUNT(title, epsilon := 0.1{{}}, groups := ['south']) FROM ratings GROUP BY ALL
SELECT DP_SUM(score, epsilon := 0.1{{}}, groups := ['north'], max_groups_contributed := 1) FROM ratings
WITH RECURSIVE r AS (FROM ratings) SELECT {COUNT} FROM r
SELEC {TOP} FROM ratings
SELECT {TOP} FORM ratings
SELECT {TOP} ratings
SELECT {TOP} FROM ratings WERE region = 'north'
SELECT {TOP}) FROM ratings
SELECT DP_COUNT(*, epsilon := 0.1{{}} FROM ratings WHERE score IN (1, 2)
SELECT DP_AVG(score, epsilon := 0.1, min := 0, max := 5{{}}) FROM ratings
SELECT DP_TOPK(title, 2, epsilon = 0.1{{}}) FROM ratings
SELECT DP_TOPK(title, 2, epsilon: 0.1{{}}) FROM ratings
SELECT DP_TOPK(title, 2, epsilon 0.1{{}}) FROM ratings
SELECT DP_TOPK(title, 2, 0.1{{}}) FROM ratings
SELECT DP_TOPK(title, 2, eps := 0.1{{}}) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := '0.1'{{}}) FROM ratings
SELECT DP_TOPK(title, '2', epsilon := 0.1{{}}) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 1/2{{}}) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 0,5{{}}) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 0{{}}) FROM ratings
SELECT DP_TOPK(title, 0, epsilon := 0.1{{}}) FROM ratings
SELECT DP_TOPK(title, 9, epsilon := 0.1{{}}) FROM ratings
SELECT DP_TOPK(title, epsilon := 0.1{{}}) FROM ratings
SELECT DP_TOPK(item := title, k := 2, epsilon := 0.1{{}}) FROM ratings
SELECT DP_TOPK('title', 2, epsilon := 0.1{{}}) FROM ratings
SELECT DP_TOPK(DISTINCT title, 2, epsilon := 0.1{{}}) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 0.1 beta := 0.1{{}}) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 0.1, epsilon := 0.2{{}}) FROM ratings
SELECT DP_COUNT(* epsilon := 0.1{{}}) FROM ratings
SELECT DP_COUNT(CASE WHEN score > 1 THEN 1 END epsilon := 0.1{{}}) FROM ratings
SELECT DP_COUNT(*, epsilon := 0.1{{}}) AS n FROM ratings WHERE n > 5 AND score > 1
SELECT region, DP_COUNT(*, epsilon := 0.1, groups := ['north']{{}}) AS n FROM ratings WHERE n > 5 AND score > 1 GROUP BY region ORDER BY n
SELECT DP_TOPK(title, 2, epsilon := 0.1, mechanism := 'jiont'{{}}) FROM ratings
SELECT DP_TOPK(title, 2, epsilon := 0.1, counts := 1{{}}) FROM ratings
SELECT DP_COUNT_DISTINCT(title, 2, epsilon := 0.1{{}}) FROM ratings
SELECT DP_AVG(score, 0, 5, epsilon := 0.1{{}}) FROM ratings
SELECT DP_MEDIAN(day, epsilon := 0.1, lower := DATE '2020-01-01', upper := current_date{{}}) FROM ratings
SELECT DP_MEDIAN(day::TIMESTAMPTZ, epsilon := 0.1, lower := '2020-01-01', upper := '2030-01-01'{{}}) FROM ratings
SELECT DP_MEDIAN(day, epsilon := 0.1, lower := 1990, upper := 2030{{}}) FROM ratings
SELECT DP_MEDIAN(day::TIMESTAMPTZ, epsilon := 0.1, lower := 1990, upper := 2030{{}}) FROM ratings
SELECT DP_COUNT_DISTINCT(title, epsilon := 0.1, report{{}}) FROM ratings
SELECT DP_COUNT_DISTINCT(title, epsilon := 0.1, delta := 1e-9{{}}) FROM ratings
SELECT DP_COUNT_DISTINCT(*, epsilon := 0.1{{}}) FROM ratings
SELECT DP_COUNT_DISTINCT(extra, epsilon := 0.1{{}}) FROM ratings
SELECT DP_COUNT_DISTINCT(stars, epsilon := 0.1{{}}) FROM ratings
SELECT {TOP} OVER () FROM ratings
SELECT dp_sql.{TOP} FROM ratings
SELECT title, {TOP} FROM ratings
SELECT *, {TOP} FROM ratings
SELECT {TOP} FROM ratings ORDER BY title
SELECT {TOP}::INT FROM ratings
SELECT a::DATE FROM (SELECT {COUNT} AS a FROM ratings)
SELECT CAST({COUNT} AS DATE) FROM ratings
SELECT ({COUNT}).estimate FROM ratings
SELECT ({TOP}).item FROM ratings
SELECT x.item FROM (SELECT unnest({TOP}) AS x FROM ratings)
SELECT {TOP} + 1 FROM ratings
SELECT upper({TOP}) FROM ratings
SELECT '日本 👩\u200d🚀 e\u0301', DP_TOPK(titel, 2, epsilon := 0.1{{}}) FROM ratings
FROM dp_releases
""".strip().splitlines()
OWNERS = [
    "SELECT DP_TOPK(title, 2) FROM ratings",
    "SELECT DP_TOPK(title, 2, epsilon := 0.1, privacy_unit := 'user_id', domain := catalog.title) "
    "FROM ratings",
    "SELECT DP_TOPK(title, 2, epsilon := 0.1, privacy_unit := usr_id, domain := catalog.titel) "
    "FROM ratings",
    *(
        f"SELECT DP_TOPK(title, 2, epsilon := 0.1, privacy_unit := user_id, domain := {domain}) "
        "FROM ratings"
        for domain in ("catalg.title", "catalog", "'Dune'", "('Dune', 'Emma')", "[Dune, Emma]",
                       "observd")
    ),
    "SELECT DP_COUNT(*, 0.1, user_id) FROM ratings",
    "SELECT region, DP_COUNT(*, epsilon := 0.1, privacy_unit := user_id, groups := ratings.region) "
    "FROM ratings GROUP BY region",
    "SELECT DP_SUM(score, epsilon := 0.1, ratings.user_id) FROM ratings",
    f"CREATE VIEW v AS SELECT {COUNT.format(', privacy_unit := user_id')} AS n FROM ratings",
    "SELECT DP_COUNT_DISTINCT(user_id, epsilon := 0.1, privacy_unit := user_id, "
    "max_contributions := 5, bound_selection := 'gem') FROM ratings",
]  # fmt: skip
ANALYSTS = [
    "SELECT mode(title) FROM ratings",
    "SELECT title FROM ratings GROUP BY title HAVING title = (SELECT mode(title) FROM ratings)",
    "SELECT title FROM ratings GROUP BY title HAVING max(score) > 3 ORDER BY title",
    "SELECT day FROM ratings GROUP BY day HAVING day = (SELECT max(day) FROM ratings)",
    "SELECT title, agv(score) FROM ratings GROUP BY title ORDER BY average(score)",
    "WITH counts(t, n) AS (SELECT title, coutn(*) FROM ratings GROUP BY 1) SELECT n FROM counts",
    "SELECT DP_COUNT(*, epsilon := 0.1) FROM ratings WHERE score > (SELECT min(year) - 1899 FROM catalog)",
    "SELECT DP_COUNT(*, epsilon := 0.1) FROM ratings WHERE title = upper('dune') OR day > make_date(2024, 1, 1)",
    "SELECT DP_COUNT(*, epsilon := 0.1) FROM ratings WHERE extract(yaer FROM day) = 2024",
    "SELECT DP_COUNT(*, epsilon := 0.1) FROM ratings WHERE substrng(title, 1, 1) = 'D'",
    "SELECT title, DP_COUNT(*, epsilon := 0.1, groups := ['mars']) FROM ratings GROUP BY ALL",
    "SELECT title, DP_COUNT(*, epsilon := 0.1, groups := [1]) FROM ratings GROUP BY ALL",
    "SELECT * FROM plays",
    "SELECT * FROM catalog, plays",
    "SELECT * FROM plays, catalog",
    "SELECT count(DISTINCT region) FROM ratings",
    "SELECT count(*) FROM ratings",
    "SELECT titel FROM catalog",
    "SELECT title FROM catalg",
    "SELEC title FROM catalog",
    "FROM dp_budget",
    "FROM dp_buget()",
    f"SELECT {TOP.format(', privacy_unit := user_id')} FROM ratings",
    "SELECT title, DP_SUM(score, epsilon := 0.1, max_groups_contributed := 1), DP_SUM(score, epsilon := 0.1, privacy_unit := score) FROM ratings GROUP BY title",
    "SELECT DP_TOPK(title, 2, epsilon := 5) FROM ratings",
    "SELECT DP_COUNT_DISTINCT(title, epsilon := 1.5), DP_TOPK(title, 1, epsilon := 2) FROM ratings",
    "SELECT DP_TOPK(title, 2, epsilon := 0.1, domain := title) FROM ratings",
    "SELECT DP_TOPK(title, 2, epsilon := 0.1) FROM plays",
    "SELECT DP_TOPK(title, 2, epsilon := 0.1, domain := observed) FROM ratings",
    "SELECT title, DP_COUNT(*, epsilon := 0.1, groups := title_kind) FROM ratings GROUP BY title",
    f"SELECT {TOP.format('')} FROM ratings; WHERE region = 'north'",
    f"SELECT {TOP.format('')} FROM ratings LIMIT 3",
    f"SELECT {COUNT.format('')} FROM ratings USING SAMPLE 10%",
    f"CREATE TEMP TABLE kept AS SELECT {COUNT.format('')} AS n FROM ratings",
    f"COPY (SELECT {COUNT.format('')} AS n FROM ratings) TO 'n.csv'",
    f"PREPARE asked AS SELECT {COUNT.format('')} FROM ratings",
    "SUMMARIZE catalog",
    "SUMMARIZE ratings",
    f"SELECT region, {COUNT.format(', max_groups_contributed := 1')} AS n FROM ratings GROUP BY region "
    "QUALIFY row_number() OVER (ORDER BY n DESC) = 1",
    "SELECT region, count(*) AS n, avg(score) FROM ratings r WHERE title > 'a' GROUP BY 1 ORDER BY n",
    "SELECT quantile_cont(score, 0.9) FROM ratings",
    "SELECT DP_MEDIAN(score) FROM ratings",
    "SELECT max(score) FROM ratings",
    "FROM ratings SELECT approx_count_distinct(title), count() GROUP BY region",
    "SELECT DP_COUNT_DISTINCT(title, region, epsilon := 0.1) FROM ratings",
    "SELECT DP_COUNT(epsilon := 0.1) FROM ratings",
    "SELECT DP_COUNT() FROM ratings",
    "SELECT region, DP_COUNT(*, epsilon := 0.1, groups := ['north']) AS n FROM ratings WHERE title <> '' ORDER BY n",
    f"SELECT dayname(day) AS d, {COUNT.format('')} FROM ratings GROUP BY d",
    f"SELECT extract(month FROM day) AS m, {COUNT.format('')} FROM ratings GROUP BY m",
    f"SELECT day, {COUNT.format('')} FROM ratings GROUP BY day",
    f"SELECT price // 2 * 2 AS bin, {COUNT.format('')} FROM ratings GROUP BY bin",
    f"SELECT floor(price / 2) AS bin, {COUNT.format('')} FROM ratings GROUP BY bin",
    f"SELECT floor(stars) AS bin, {COUNT.format('')} FROM ratings GROUP BY bin",
    f"SELECT {COUNT.format('')} FROM catalog c LEFT JOIN ratings r USING (title)",
    f"SELECT {COUNT.format('')} FROM catalog c RIGHT OUTER JOIN ratings r ON c.title = r.title",
    f"SELECT {COUNT.format('')} FROM catalog c FULL JOIN ratings r USING (title)",
    f"EXPLAIN ANALYZE SELECT {TOP.format('')} FROM ratings",
    f"EXPLAIN (FORMAT json) SELECT {TOP.format('')} FROM ratings",
    f"SELECT {TOP.format(', domain := catalog.titles')} FROM ratings",
    *(
        f"SELECT {COUNT.format('')} FROM ratings AS r WHERE {condition}"
        for condition in (
            "(extra->>'a')::INT = 1",
            "extra.a > 0 AND r.extra.b BETWEEN 1.5 AND 2 AND extra.c = TRUE",
            "title >= 5 AND 3 < r.user_id",
            "CAST(title AS DATE) IS NULL",
            "lenght(title) > 3",
            "title = 3 AND score > '3'",
            "strptime('2023-05-31', '%Y-%m-%d') < day::TIMESTAMP",
            "ratings.region = 'north' AND upper(ratings.title) > 'A'",
            "region ~ 'n.*'",
            "user_id IN (SELECT user_id FROM (SELECT user_id, last(region ORDER BY day) AS r FROM ratings GROUP BY user_id) WHERE r = 'a')",
            "user_id IN (SELECT user_id FROM (SELECT user_id, first(region ORDER BY day DESC) AS r FROM ratings GROUP BY ALL) WHERE r = 'a')",
            "price // 10 * 10 = 20",
            "(price + 1) // 10 = 2 AND 1 + stars // 2 > 1",
            "upper(r.region) !~ 'n.*'",
            "upper(left(r.title, 9))::DECIMAL(9, 2) = 1 AND r.region::DATE IS NULL",
        )
    ),
    "SELECT DP_COUNT_DISTINCT(title::DATE, epsilon := 0.1) FROM ratings",
    f"SELECT region, {COUNT.format('')} FROM ratings",
    f"SELECT region, {COUNT.format('')} FROM ratings GROUP BY region",
    f"SELECT region, {COUNT.format(', max_groups_contributed := 1')} FROM ratings GROUP BY region",
    f"SELECT region, {COUNT.format(', groups := regions.region')} FROM ratings GROUP BY region",
]

# Parts of the statements above in whose place only another question can be asked.
ASK_OTHERS = [
    "ORDER BY day LIMIT 10", "DP_COUNT_DISTINCT(*", "OVER () FROM", "FROM ratings ORDER BY title",
    "::INT FROM", "a::DATE", "AS DATE) FROM", "+ 1 FROM ratings", "SELECT * FROM", "LIMIT 3", "USING SAMPLE",
    "SUMMARIZE ratings", "max(score)", "max(day)", "mode(title)", "SELECT *, DP", "c LEFT JOIN", "FULL JOIN", "// 10",
    "price // 2",
]  # fmt: skip


def paste(session: dp_sql.Session, statement: str) -> None:
    error = told(session, statement)
    message = str(error)
    mark = OTHER if any(one in statement for one in ASK_OTHERS) else SAME
    assert mark in message, message
    assert not any(general in message for general in (WAY_OUT, ALLOWED, THE_FUNCTIONS))
    proposed = message.split(mark)[1]
    assert proposed != statement
    session.execute(proposed).fetchall()


@pytest.mark.one_in(16)
@pytest.mark.parametrize("statement", [*BOTH, *OWNERS])
def test_an_owner_pastes_what_an_error_proposes(owner: dp_sql.Session, statement: str) -> None:
    more = ", privacy_unit := user_id"
    for call in statement.split("DP_TOP")[1:]:
        if "DP_MEAN" not in call and "domain" not in statement:
            more = ", privacy_unit := user_id, domain := catalog.title"
    paste(owner, statement.replace("{}", more) if "{}" in statement else statement)


@pytest.mark.one_in(16)
@pytest.mark.parametrize("statement", [*BOTH, *ANALYSTS])
def test_an_analyst_pastes_what_an_error_proposes(analyst: dp_sql.Session, statement: str) -> None:
    paste(analyst, statement.replace("{}", ""))


def test_a_read_only_owner_keeps_an_answer_in_a_temporary_table(shop: Path) -> None:
    call = COUNT.format(", privacy_unit := user_id")
    with dp_sql.connect(str(shop / "shop.duckdb"), read_only=True) as session:
        paste(session, f"CREATE TABLE kept AS SELECT {call} AS n FROM ratings")
        assert len(session.execute("FROM kept").fetchall()) == 1
        insert = f"INSERT INTO regions SELECT {call} FROM ratings"
        assert "open read-only: INSERT cannot write" in str(told(session, insert))
