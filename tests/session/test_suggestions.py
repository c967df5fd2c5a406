"""Every statement that an error proposes is pasted and works; none shows a name of dp_sql's own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dp_sql
from dp_sql.errors import QueryError, SourceError
from dp_sql.privacy.refusals import ALLOWED, WAY_OUT
from dp_sql.session.corrections.duckdb_errors import THE_FUNCTIONS
from tests.conftest import free
from tests.databases import write_with_policy

TABLES = """
CREATE TABLE catalog AS
    SELECT unnest(['Dune', 'Walden', 'Ulysses', 'Emma']) AS title, 1900 AS year;
CREATE TABLE regions AS SELECT unnest(['north', 'south']) AS region;
CREATE TABLE ratings AS
    SELECT user_id, title, ['north', 'south'][1 + user_id % 2] AS region, user_id % 5 AS score,
           (user_id % 5)::DOUBLE AS stars, (user_id % 5)::DECIMAL(9, 2) AS price, '{"a": 1}'::JSON AS extra, DATE '2024-01-01' AS day
    FROM range(100) AS r(user_id), catalog;
CREATE TABLE plays AS SELECT user_id, title FROM ratings;
CREATE TABLE notes AS SELECT user_id AS note, user_id AS author, user_id - 1 AS answers, user_id::INTEGER AS words FROM ratings;
CREATE TABLE salaries AS SELECT 1 AS salary, 'titel' AS titel;
"""
POLICY = """
tables.ratings.privacy_unit = "user_id"
tables.plays.privacy_unit = "user_id"
tables.notes.privacy_unit = "author"
public.tables = ["catalog", "regions"]
domains."ratings.title" = "catalog.title"
limits.max_epsilon_per_query = 2
budget = { dataset = "shop", epsilon = 1000 }
"""
SAME, OTHER = "Write instead:\n", "A different question that works:\n"
TOP = "DP_TOPK(title, 2, epsilon := 0.1{})"
COUNT = "DP_COUNT_DISTINCT(title, epsilon := 0.1{})"
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
SELECT region, DP_COUNT(*, epsilon := 0.1{{}}, groups := ['north']) FROM ratings GROUP BY region HAVING DP_COUNT(title, epsilon := 0.1{{}}, groups := ['north']) > 1
SELECT region FROM ratings GROUP BY region ORDER BY DP_COUNT(*, epsilon := 0.1{{}}, groups := ['north', 'south']) DESC
SELECT {COUNT} FROM (SELECT * FROM ratings ORDER BY day LIMIT 10)
SELECT {COUNT} WHERE region = 'north' FROM ratings
SELECT region, title, DP_COUNT(*, epsilon := 0.1{{}}, groups := ['north']) FROM ratings GROUP BY ALL
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
SELECT {COUNT} FILTER (NOT score = 1) FROM ratings
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
    "SELECT DP_TOPK(title, 2, epsilon := 5) FROM ratings",
    "SELECT DP_COUNT_DISTINCT(title, epsilon := 1.5), DP_TOPK(title, 1, epsilon := 2) FROM ratings",
    "SELECT DP_TOPK(title, 2, epsilon := 0.1, domain := title) FROM ratings",
    "SELECT DP_TOPK(title, 2, epsilon := 0.1) FROM plays",
    "SELECT DP_TOPK(title, 2, epsilon := 0.1, domain := observed) FROM ratings",
    "SELECT title, DP_COUNT(*, epsilon := 0.1, groups := title_kind) FROM ratings GROUP BY title",
    f"SELECT {TOP.format('')} FROM ratings; WHERE region = 'north'",
    f"SELECT {TOP.format('')} FROM ratings LIMIT 3",
    f"SELECT {COUNT.format('')} FILTER (WHERE region = 'north') AS n FROM ratings",
    f"SELECT {COUNT.format('')} FILTER (WHERE region = 'n' OR title = 'a') FROM ratings WHERE title > 'a' OR region > 'a'",
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
    f"SELECT {COUNT.format('')} AS n, {COUNT.format('')} FILTER (WHERE region = 'n') FROM ratings",
    "SELECT DP_COUNT(*, epsilon := 0.1), DP_COUNT(*, epsilon := 0.1) FILTER (WHERE region = 'n') FROM ratings",
    f"SELECT dayname(day) AS d, {COUNT.format('')} FROM ratings GROUP BY d",
    f"SELECT extract(month FROM day) AS m, {COUNT.format('')} FROM ratings GROUP BY m",
    f"SELECT day, {COUNT.format('')} FROM ratings GROUP BY day",
    f"SELECT price // 2 * 2 AS bin, {COUNT.format('')} FROM ratings GROUP BY bin",
    f"SELECT floor(price / 2) AS bin, {COUNT.format('')} FROM ratings GROUP BY bin",
    f"SELECT floor(stars) AS bin, {COUNT.format('')} FROM ratings GROUP BY bin",
    f"SELECT {COUNT.format('')} FROM catalog c LEFT JOIN ratings r USING (title)",
    f"SELECT {COUNT.format('')} FROM catalog c RIGHT OUTER JOIN ratings r ON c.title = r.title",
    f"SELECT {COUNT.format('')} FROM catalog c FULL JOIN ratings r USING (title)",
    *(
        f"SELECT {COUNT.format('')} FROM (SELECT user_id FROM ratings {word} SELECT user_id FROM plays) "
        "JOIN ratings USING (user_id)"
        for word in ("INTERSECT", "EXCEPT")
    ),
    f"EXPLAIN ANALYZE SELECT {TOP.format('')} FROM ratings",
    f"EXPLAIN (FORMAT json) SELECT {TOP.format('')} FROM ratings",
    f"SELECT {TOP.format(', domain := catalog.titles')} FROM ratings",
    *(
        f"SELECT {COUNT.format('')} FROM ratings AS r WHERE {condition}"
        for condition in (
            "(extra->>'a')::INT = 1",
            "CAST(title AS DATE) IS NULL",
            "lenght(title) > 3",
            "title = 3 AND score > '3'",
            "day > make_date(2023, 5, 31)",
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
    "SUMMARIZE ratings", "max(score)", "mode(title)", "SELECT *, DP", "c LEFT JOIN", "FULL JOIN", "// 10",
    "price // 2",
]  # fmt: skip


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_with_policy(tmp_path_factory.mktemp("shop"), "shop", TABLES, POLICY)


@pytest.fixture(scope="module")
def owner() -> Iterator[dp_sql.Session]:
    with dp_sql.connect() as session:
        session.execute(TABLES)
        yield session


@pytest.fixture
def pivoting(tmp_path: Path, shop: Path) -> Iterator[dp_sql.Session]:
    """An analyst's session whose policy lists the regions."""
    listed = "\ndomains.\"ratings.region\" = ['north', 'south']"
    (tmp_path / "policy.toml").write_text(POLICY + listed)
    with dp_sql.connect(str(shop / "shop.duckdb"), policy=tmp_path / "policy.toml") as session:
        yield session


def told(session: dp_sql.Session, statement: str) -> QueryError:
    """The refusal of a statement, which costs nothing and shows nothing of dp_sql's own."""
    with free(session), pytest.raises(QueryError) as caught:
        session.sql(statement)
    message = str(caught.value)
    rest = message.replace(statement, "")
    assert not any(word in rest for word in ("__dp", "pg_", "sqlite_", "salar")), message
    return caught.value


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


@pytest.mark.parametrize(("refused", "proposed"), [
    ("PRAGMA table_info('ratings')", "DESCRIBE ratings"),
    ("PRAGMA show_tables", "SHOW TABLES"),
    ("SELECT name FROM (SHOW TABLES)", "SHOW TABLES"),
    ("TABLE catalog", "FROM catalog"),
    (f"SUMMARIZE SELECT {COUNT.format('')} AS n FROM ratings",
     f"FROM (SUMMARIZE FROM (SELECT {COUNT.format('')} AS n FROM ratings))"),
    (f"SELECT {COUNT.format('')} FROM ratings WHERE day + to_days(3) > '2023-01-01'",
     f"SELECT {COUNT.format('')} FROM ratings WHERE day + INTERVAL '3 days' > '2023-01-01'"),
    (f"SELECT {COUNT.format('')} FROM ratings WHERE list_contains(['a', 'b'], title)",
     f"SELECT {COUNT.format('')} FROM ratings WHERE title IN ('a', 'b')"),
    ("SELECT DP_COUNT(*, epsilon := 0.5) FROM ratings r, plays AS p WHERE r.title > 'a'",
     "SELECT DP_COUNT(*, epsilon := 0.5) FROM ratings r JOIN plays AS p USING (user_id) WHERE r.title > 'a'"),
    ("SELECT DP_COUNT(*, epsilon := 0.5) FROM ratings r JOIN plays ON true",
     "SELECT DP_COUNT(*, epsilon := 0.5) FROM ratings r JOIN plays USING (user_id)"),
    ("SELECT r.user_id, DP_SUM(score, epsilon := 0.5) AS s FROM ratings r WHERE title > 'a' GROUP BY 1 ORDER BY s",
     "SELECT DP_AVG(n, epsilon := 0.5) AS n FROM (SELECT r.user_id, sum(score) AS n FROM ratings r WHERE title > 'a' GROUP BY r.user_id)"),
    *((f"SELECT DP_COUNT_DISTINCT(words % 9, epsilon := 0.5) FROM {joined}",
       f"SELECT DP_COUNT_DISTINCT(words % 9, epsilon := 0.5) FROM {proposed}")
      for joined, proposed in (
          ("ratings r, notes, plays", "ratings r JOIN notes ON r.user_id = notes.author JOIN plays USING (user_id)"),
          ("notes n NATURAL JOIN ratings", "notes n JOIN ratings ON n.author = ratings.user_id"),
          ("notes n CROSS JOIN ratings r WHERE n.words > 3 OR r.score > 2",
           "notes n JOIN ratings r ON n.author = r.user_id WHERE n.words > 3 OR r.score > 2"),
          ("notes a JOIN (SELECT author, note, words AS w FROM notes) b ON a.answers = b.note OR w > words WHERE words > 3",
           "notes a JOIN (SELECT author, note, words AS w FROM notes) b ON a.author = b.author AND (a.answers = b.note OR w > words) WHERE words > 3"),
          ("notes LEFT JOIN ratings ON score = words WHERE words > 3",
           "notes LEFT JOIN ratings ON notes.author = ratings.user_id AND score = words WHERE words > 3"),
      )),
    ("SELECT region, DP_COUNT(*, epsilon := 0.5, groups := ['north']) FROM plays GROUP BY region",
     "SELECT region, DP_COUNT(*, epsilon := 0.5, groups := ['north']) FROM plays JOIN ratings USING (user_id) GROUP BY region"),
    ("SELECT DP_COUNT_DISTINCT(words % 9, epsilon := 0.5) FROM plays AS p WHERE title > 'A'",
     "SELECT DP_COUNT_DISTINCT(words % 9, epsilon := 0.5) FROM plays AS p JOIN notes ON p.user_id = notes.author WHERE title > 'A'"),
    ("SELECT DP_COUNT(*, epsilon := 0.5) FROM (SELECT user_id FROM plays p WHERE year > 1800)",
     "SELECT DP_COUNT(*, epsilon := 0.5) FROM (SELECT user_id FROM plays p JOIN catalog USING (title) WHERE year > 1800)"),
    ("SELECT DP_COUNT(*, epsilon := 0.25), count(*) FILTER (region = 'a') FROM ratings",
     "SELECT DP_COUNT(*, epsilon := 0.25), DP_COUNT(CASE WHEN region = 'a' THEN 1 END, epsilon := 0.25) FROM ratings"),
    ("SELECT avg(n), DP_SUM(n, epsilon := 0.25) FROM (SELECT user_id, count(*) AS n FROM ratings GROUP BY ALL)",
     "SELECT DP_AVG(n, epsilon := 0.25), DP_SUM(n, epsilon := 0.25) FROM (SELECT user_id, count(*) AS n FROM ratings GROUP BY ALL)"),
    ("SELECT title, sum(score) / count(DISTINCT user_id) AS s, DP_COUNT(*, epsilon := 0.25) FROM ratings GROUP BY 1",
     "SELECT title, DP_SUM(score, epsilon := 0.25, max_groups_contributed := 4) / DP_COUNT_DISTINCT(user_id, epsilon := 0.25) AS s, "
     "DP_COUNT(*, epsilon := 0.25) FROM ratings GROUP BY 1"),
    ("SELECT DP_MAX(score, epsilon := 0.5, lower := 0, upper := 5) FROM ratings",
     "SELECT DP_QUANTILE(score, 0.99, epsilon := 0.5, lower := 0, upper := 5) FROM ratings"),
    ("SELECT to_char(day, 'YYYY') AS y, DP_COUNT(*, epsilon := 0.5, groups := ['2024']) FROM ratings GROUP BY y",
     "SELECT strftime(day, '%Y') AS y, DP_COUNT(*, epsilon := 0.5, groups := ['2024']) FROM ratings GROUP BY y"),
    ("SELECT DP_COUNT(*, epsilon := 0.5) FROM ratings WHERE to_char(day, 'YYYY-MM-DD') > '2024-01-01'",
     "SELECT DP_COUNT(*, epsilon := 0.5) FROM ratings WHERE strftime(day, '%Y-%m-%d') > '2024-01-01'"),
    ("SELECT DP_COUNT(*, epsilon := 0.5) FROM ratings WHERE date_diff('mth', day, DATE '2024-05-01') > 3",
     "SELECT DP_COUNT(*, epsilon := 0.5) FROM ratings WHERE date_diff('month', day, DATE '2024-05-01') > 3"),
    ("SELECT DP_COUNT(*, epsilon := 0.5) FROM ratings WHERE date_trunc('MNTH', day) > '2024-01-01'",
     "SELECT DP_COUNT(*, epsilon := 0.5) FROM ratings WHERE date_trunc('month', day) > '2024-01-01'"),
    ("SELECT user_id, DP_COUNT(*, epsilon := 0.5) FROM ratings GROUP BY ALL",
     "SELECT DP_AVG(n, epsilon := 0.5) AS n FROM (SELECT user_id, count(*) AS n FROM ratings GROUP BY user_id)"),
])  # fmt: skip
def test_what_people_write_in_duckdb_is_proposed_in_a_form_that_works(
    analyst: dp_sql.Session, refused: str, proposed: str
) -> None:
    error = told(analyst, refused)
    assert error.suggestion == proposed
    assert error.asks_other is any(
        one in refused
        for one in (
            "r, plays",
            "ON true",
            "SELECT r.user_id,",
            "SELECT user_id, DP",
            "MAX",
            "notes",
            "FROM plays",
        )
    )
    assert analyst.sql(proposed).fetchall()


@pytest.mark.parametrize(("refused", "proposed", "is_other"), [
    ("PIVOT ({}) ON title IN ('Dune') USING sum(n) GROUP BY region ORDER BY region",
     "FROM ({}) PIVOT (sum(n) FOR title IN ('Dune') GROUP BY region) ORDER BY region", False),
    ("PIVOT ({}) ON title USING sum(n), max(n) AS m",
     "FROM ({}) PIVOT (sum(n), max(n) AS m FOR title IN ('value 1', 'value 2'))", False),
    ("PIVOT ({}) ON region USING sum(n) GROUP BY title LIMIT 3",
     "FROM ({}) PIVOT (sum(n) FOR region IN ('north', 'south') GROUP BY title) LIMIT 3", False),
    ("PIVOT catalog ON title", "FROM catalog PIVOT (count(*) FOR title IN ('value 1', 'value 2'))", False),
    ("PIVOT ratings ON region USING DP_COUNT(*, epsilon := 0.1)",
     "FROM (SELECT region, DP_COUNT(*, epsilon := 0.1) AS answer FROM ratings GROUP BY ALL) "
     "PIVOT (first(answer) FOR region IN ('north', 'south'))", True),
    ("PIVOT ratings ON region USING count(*) GROUP BY title",
     "FROM (SELECT title, region, DP_COUNT(*, epsilon := 1) AS answer FROM ratings GROUP BY ALL) "
     "PIVOT (first(answer) FOR region IN ('north', 'south') GROUP BY title)", False),
    ("PIVOT ratings ON region USING avg(score), count(*)", "", False),
    ("UNPIVOT (SELECT DP_COUNT(*, epsilon := 0.1) AS a, 1 AS b FROM ratings) ON a, b INTO NAME x VALUE y",
     "FROM (SELECT DP_COUNT(*, epsilon := 0.1) AS a, 1 AS b FROM ratings) UNPIVOT (y FOR x IN (a, b))", False),
])  # fmt: skip
def test_a_pivot_is_proposed_as_a_part_of_from(
    pivoting: dp_sql.Session, refused: str, proposed: str, is_other: bool
) -> None:
    query = (
        "SELECT region, title, DP_COUNT(*, epsilon := 0.1) AS n FROM ratings GROUP BY region, title"
    )
    error = told(pivoting, refused.replace("{}", query))
    assert (error.suggestion, error.asks_other) == (proposed.replace("{}", query), is_other)
    if proposed:
        assert pivoting.sql(error.suggestion).fetchall()


@pytest.mark.parametrize("name", ["DP_MAX", "DP_COUNT_IF", "DP_STDDEV", "DP_TOP", "DP_X"])
def test_an_unknown_function_is_refused_without_an_argument_too(
    analyst: dp_sql.Session, name: str
) -> None:
    assert told(analyst, f"SELECT {name}() FROM ratings").message.startswith("There is no function")


@pytest.mark.parametrize("function", ["to_char", "months_between", "levenshtein", "list_sum"])
def test_a_function_has_the_name_that_the_statement_gives_it(
    analyst: dp_sql.Session, function: str
) -> None:
    condition = f"length(upper(region)) > 1 AND {function.title()}(day, 'x') = 'a'"
    error = told(analyst, f"SELECT DP_COUNT(*, epsilon := 0.1) FROM ratings WHERE {condition}")
    assert error.message.startswith(f"The function {function} is not supported here")


@pytest.mark.parametrize(("refused", "proposed"), [
    ("ratings NATURAL FULL JOIN catalog", "ratings NATURAL LEFT JOIN catalog"),
    ("catalog NATURAL RIGHT JOIN ratings", "catalog NATURAL JOIN ratings"),
    ("ratings FULL JOIN catalog", "ratings LEFT JOIN catalog USING (title)"),
])  # fmt: skip
def test_an_outer_join_without_on_or_using_is_refused(
    analyst: dp_sql.Session, refused: str, proposed: str
) -> None:
    error = told(analyst, f"SELECT DP_COUNT(*, epsilon := 0.5) FROM {refused}")
    assert "may only use inner, left, cross, semi and anti joins" in error.message
    assert error.suggestion.rpartition(" FROM ")[2] == proposed


def test_duckdb_offers_no_table_that_keeps_an_answer(owner: dp_sql.Session) -> None:
    call = "DP_COUNT(*, epsilon := 1, privacy_unit := user_id, groups := observed)"
    owner.sql(f"SELECT title, {call} FROM ratings GROUP BY title").fetchall()
    with pytest.raises(duckdb.CatalogException, match="Table with name __dp_release does") as said:
        owner.sql("FROM __dp_release")
    assert "__dp" not in str(said.value).replace("__dp_release does", "")
    with pytest.raises(duckdb.CatalogException, match='Did you mean "salaries"'):
        owner.sql("FROM salarie")


@pytest.mark.parametrize("item", ["title", "user_id"])
def test_distinct_is_answered_by_the_function_that_counts_different_values(
    owner: dp_sql.Session, item: str
) -> None:
    rest = f"{item}, epsilon := 0.1, privacy_unit := user_id) FROM ratings"
    error = told(owner, f"SELECT DP_COUNT(DISTINCT {rest}")
    assert error.suggestion == f"SELECT DP_COUNT_DISTINCT({rest}"


@pytest.mark.parametrize(
    "call", ["DP_SUM(score, title", "DP_SUM(DISTINCT score", "DP_AVG(DISTINCT score", "DP_SUM(day", "DP_AVG(day",
             "DP_HISTOGRAM(score"]
)  # fmt: skip
def test_no_statement_is_proposed_that_answers_another_question(
    owner: dp_sql.Session, call: str
) -> None:
    statement = f"SELECT {call}, epsilon := 0.1, privacy_unit := user_id) FROM ratings"
    assert told(owner, statement).suggestion == ""


@pytest.mark.parametrize(("refused", "proposed"), [
    ("SELECT count(*) FROM ratings WHERE score > ?", "SELECT DP_COUNT(*, epsilon := {}) FROM ratings WHERE score > ?"),
    ("SELECT DP_COUNT(*, epsilon := 0) FROM ratings WHERE score > $low", "SELECT DP_COUNT(*, epsilon := 0.1) FROM ratings WHERE score > $low"),
    ("SELECT DP_COUNT(*, epsilon := 0.5) FROM ratings WHERE score > :low", "SELECT DP_COUNT(*, epsilon := 0.5) FROM ratings WHERE score > $low"),
    ("SELECT title FROM catalog WHERE title > :low", "SELECT title FROM catalog WHERE title > $low"),
])  # fmt: skip
def test_a_statement_with_parameters_is_proposed_with_them(
    analyst: dp_sql.Session, refused: str, proposed: str
) -> None:
    value = "a" if "title" in refused else 1
    params: Any = [value] if "?" in refused else {"low": value}
    with pytest.raises(QueryError) as caught:
        analyst.sql(refused, params=params)
    epsilon = caught.value.suggestion.partition("epsilon := ")[2].partition(")")[0]
    assert caught.value.suggestion == proposed.format(epsilon)
    assert analyst.sql(caught.value.suggestion, params=params).fetchall() is not None


def test_exists_without_select_is_read_or_proposed_with_it(analyst: dp_sql.Session) -> None:
    asked = "SELECT DP_COUNT(*, epsilon := 0.5) FROM ratings r WHERE EXISTS (FROM plays p WHERE p.user_id = r.user_id)"
    try:
        analyst.sql(asked)
    except QueryError as refusal:  # sqlglot 28 cannot read it
        assert refusal.suggestion == asked.replace("(FROM", "(SELECT 1 FROM")
        analyst.sql(refusal.suggestion)


@pytest.mark.parametrize("name", ["DP_STDDEV", "DP_VAR_POP", "variance"])
def test_a_spread_is_said_to_be_two_averages(analyst: dp_sql.Session, name: str) -> None:
    error = told(analyst, f"SELECT {name}(price) FROM ratings")
    assert "A variance is DP_AVG(x * x, …) - DP_AVG(x, …) ** 2: two releases" in str(error)
    assert not error.suggestion
    squares = "SELECT DP_AVG(price * price, epsilon := 0.1) - DP_AVG(price, epsilon := 0.1) ** 2"
    assert len(analyst.sql(f"{squares} FROM ratings").fetchall()) == 1


def test_qualify_is_a_condition_of_answers_or_of_rows(owner: dp_sql.Session) -> None:
    more = "groups := ['north', 'south'], max_groups_contributed := 1"
    call = COUNT.format(f", privacy_unit := user_id, {more}")
    select = f"SELECT region, {call} AS n FROM ratings GROUP BY region"
    assert (
        told(owner, f"{select} QUALIFY n > 5").suggestion == f"SELECT * FROM ({select}) WHERE n > 5"
    )
    of_people = "QUALIFY row_number() OVER (PARTITION BY user_id ORDER BY day) = 1"
    alone = COUNT.format(", privacy_unit := user_id")
    for source in ("ratings", "ratings WHERE region = 'north'"):
        error = told(owner, f"SELECT {alone} FROM {source} {of_people}")
        assert error.suggestion == f"SELECT {alone} FROM (FROM {source} {of_people})"
        assert len(owner.sql(error.suggestion).fetchall()) == 1
    of_all = of_people.replace("PARTITION BY user_id ", "")
    assert told(owner, f"SELECT {alone} FROM ratings {of_all}").suggestion == ""


GROUPED = "FROM ratings GROUP BY title"


@pytest.mark.parametrize(("refused", "proposed"), [
    (f"SELECT title, # AS n, 100.0 * # / sum(#) OVER () AS share {GROUPED} ORDER BY title",
     f"SELECT *, 100.0 * n / sum(n) OVER () AS share FROM (SELECT title, # AS n {GROUPED}) ORDER BY title"),
    (f"SELECT upper(title) AS t, # - lag(#) OVER (ORDER BY upper(title)), lag(@) OVER (ORDER BY 1) AS l {GROUPED.replace('title', 'upper(title)')}",
     f"SELECT * EXCLUDE (answer, answer_1), answer - lag(answer) OVER (ORDER BY t), lag(answer_1) OVER (ORDER BY 1) AS l FROM (SELECT upper(title) AS t, # AS answer, @ AS answer_1 {GROUPED.replace('title', 'upper(title)')})"),
    (f"SELECT title, # AS n {GROUPED} QUALIFY rank() OVER (ORDER BY # DESC) = 1 ORDER BY n",
     f"SELECT * FROM (SELECT title, # AS n {GROUPED}) QUALIFY rank() OVER (ORDER BY n DESC) = 1 ORDER BY n"),
    (f"SELECT title {GROUPED} QUALIFY rank() OVER (ORDER BY # DESC) = 1", ""),
    (f"SELECT title, @ AS n {GROUPED} QUALIFY rank() OVER (ORDER BY # DESC) = 1",
     f"SELECT * EXCLUDE (answer) FROM (SELECT title, @ AS n, # AS answer {GROUPED}) QUALIFY rank() OVER (ORDER BY answer DESC) = 1"),
    ("SELECT # AS n FROM ratings HAVING # > 0", "SELECT * FROM (SELECT # AS n FROM ratings) WHERE n > 0"),
    ("SELECT DP_SUM( 1, epsilon := 0.1) AS n FROM ratings HAVING (# > 0)",
     "SELECT * EXCLUDE (answer) FROM (SELECT # AS n, # AS answer FROM ratings) WHERE (answer > 0)"),
    ("SELECT # AS answer FROM ratings HAVING @ > 0", ""),
    ("SELECT catalog.title, # AS n FROM catalog LEFT JOIN ratings ON ratings.title = catalog.title GROUP BY 1",
     """SELECT catalog.title, DP_COUNT(*, epsilon := 0.1, groups := catalog.title) AS n FROM catalog JOIN ratings ON ratings.title = catalog.title GROUP BY 1"""),
])  # fmt: skip
def test_what_is_computed_over_answers_names_them_in_an_outer_query(
    analyst: dp_sql.Session, refused: str, proposed: str
) -> None:
    calls = {"#": "DP_COUNT(*, epsilon := 0.1)", "@": "DP_COUNT(score, epsilon := 0.1)"}
    for mark, call in calls.items():
        refused, proposed = refused.replace(mark, call), proposed.replace(mark, call)
    assert told(analyst, refused).suggestion == proposed
    if proposed:
        analyst.sql(proposed).fetchall()


def test_a_read_only_owner_keeps_an_answer_in_a_temporary_table(shop: Path) -> None:
    call = COUNT.format(", privacy_unit := user_id")
    with dp_sql.connect(str(shop / "shop.duckdb"), read_only=True) as session:
        paste(session, f"CREATE TABLE kept AS SELECT {call} AS n FROM ratings")
        assert len(session.execute("FROM kept").fetchall()) == 1
        insert = f"INSERT INTO regions SELECT {call} FROM ratings"
        assert "open read-only: INSERT cannot write" in str(told(session, insert))


def test_a_suggestion_that_does_not_work_is_not_shown(analyst: dp_sql.Session) -> None:
    for statement in ("SELECT DP_TOPK(titel, 2, epsilon := 0.1) FROM nowhere",
                      "SELECT DP_TOPK(titel, 2, epsilon := 0.1) FROM ratings, plays"):  # fmt: skip
        assert told(analyst, statement).suggestion == ""


@pytest.mark.parametrize(
    ("text", "columns"), [("Dune", 4), ("砂丘", 4), ("e\u0301", 1), ("👩\u200d🚀", 2)]
)
def test_a_caret_is_under_its_character_in_a_terminal(
    analyst: dp_sql.Session, text: str, columns: int
) -> None:
    error = told(analyst, f"SELECT '{text}', DP_TOPK(titel, 2, epsilon := 0.1) FROM ratings")
    caret = next(line for line in str(error).splitlines() if line.strip() == "^")
    assert len(caret) == len("LINE 1: SELECT '', DP_TOPK(") + columns + 1


def test_the_parameters_of_functions_are_not_proposed(shared: dp_sql.Session) -> None:
    query = "SELECT DP_TOPK(title, 3, {}, domain := catalog.title) FROM ratings WHERE {} = 'x'"
    with pytest.raises(SourceError, match="No function matches") as raised:
        shared.sql(query.format("epsilon := 1.0, privacy_unit := user_id", "substr(user_id)"))
    assert "Did you mean" not in str(raised.value)
