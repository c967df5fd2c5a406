"""What people write in DuckDB's SQL is proposed in a form that works."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dp_sql
from dp_sql.errors import QueryError
from tests.session.suggestions.ratings_shop import COUNT, POLICY, told


@pytest.fixture
def pivoting(tmp_path: Path, shop: Path) -> Iterator[dp_sql.Session]:
    """An analyst's session whose policy lists the regions."""
    listed = "\ndomains.\"ratings.region\" = ['north', 'south']"
    (tmp_path / "policy.toml").write_text(POLICY + listed)
    with dp_sql.connect(str(shop / "shop.duckdb"), policy=tmp_path / "policy.toml") as session:
        yield session


@pytest.mark.parametrize(("refused", "proposed"), [
    ("PRAGMA table_info('ratings')", "DESCRIBE ratings"),
    ("PRAGMA show_tables", "SHOW TABLES"),
    ("SELECT name FROM (SHOW TABLES)", "SHOW TABLES"),
    ("TABLE catalog", "FROM catalog"),
    (f"SUMMARIZE SELECT {COUNT.format('')} AS n FROM ratings",
     f"FROM (SUMMARIZE FROM (SELECT {COUNT.format('')} AS n FROM ratings))"),
    (f"SELECT {COUNT.format('')} FROM ratings WHERE day + to_decades(1) > '2023-01-01'",
     f"SELECT {COUNT.format('')} FROM ratings WHERE day + INTERVAL '10 years' > '2023-01-01'"),
    (f"SELECT {COUNT.format('')} FROM ratings WHERE list_contains([1, 2], user_id)",
     f"SELECT {COUNT.format('')} FROM ratings WHERE user_id IN (1, 2)"),
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
     "SELECT DP_COUNT(*, epsilon := 0.25), DP_COUNT(*, epsilon := 0.25) FILTER (WHERE region = 'a') FROM ratings"),
    ("SELECT 100 * count(*) FILTER (WHERE score > 3) / count(*) AS share FROM ratings",
     "SELECT 100 * DP_COUNT(*, epsilon := 1) FILTER (WHERE score > 3) / DP_COUNT(*, epsilon := 1) AS share FROM ratings"),
    ("SELECT title, DP_COUNT(*, epsilon := 4) AS n, DP_COUNT(score, epsilon := 4) FROM ratings GROUP BY title ORDER BY DP_COUNT(*, epsilon := 4)",
     "SELECT title, DP_COUNT(*, epsilon := 1) AS n, DP_COUNT(score, epsilon := 1) FROM ratings GROUP BY title ORDER BY DP_COUNT(*, epsilon := 1)"),
    ("SELECT title, 100 * DP_SUM(score, epsilon := 0.5) / sum(DP_SUM(score, epsilon := 0.5)) OVER () AS share FROM ratings GROUP BY title",
     "SELECT title, 100 * DP_SUM(score, epsilon := 0.5, max_groups_contributed := 4) / sum(DP_SUM(score, epsilon := 0.5, max_groups_contributed := 4)) OVER () AS share FROM ratings GROUP BY title"),
    ("SELECT title FROM ratings GROUP BY title HAVING DP_COUNT(*, epsilon := 0.5) > -99 AND count(*) < 999",
     "SELECT title FROM ratings GROUP BY title HAVING DP_COUNT(*, epsilon := 0.5) > -99 AND DP_COUNT(*, epsilon := 0.5) < 999"),
    ("SELECT avg(n), DP_SUM(n, epsilon := 0.25) FROM (SELECT user_id, count(*) AS n FROM ratings GROUP BY ALL)",
     "SELECT DP_AVG(n, epsilon := 0.25), DP_SUM(n, epsilon := 0.25) FROM (SELECT user_id, count(*) AS n FROM ratings GROUP BY ALL)"),
    ("SELECT title, sum(score) / count(DISTINCT user_id) AS s, DP_COUNT(*, epsilon := 0.25) FROM ratings GROUP BY 1",
     "SELECT title, DP_SUM(score, epsilon := 0.25, max_groups_contributed := 4) / DP_COUNT_DISTINCT(user_id, epsilon := 0.25) AS s, "
     "DP_COUNT(*, epsilon := 0.25) FROM ratings GROUP BY 1"),
    ("SELECT stars, DP_COUNT(*, epsilon := 0.5, groups := [1.5, 2]) FROM ratings GROUP BY 1",
     "SELECT TRY_CAST(stars AS DECIMAL(18, 4)) AS stars, DP_COUNT(*, epsilon := 0.5, groups := [1.5, 2]) FROM ratings GROUP BY 1"),
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
    ("SELECT DP_COUNT(*, epsilon := 0.5) FROM ratings WHERE date_trunc('month', day, 'UTC') > DATE '2023-01-01'",
     "SELECT DP_COUNT(*, epsilon := 0.5) FROM ratings WHERE date_trunc('month', day) > DATE '2023-01-01'"),
    ("SELECT DP_COUNT(*, epsilon := 0.5) FROM ratings WHERE (SELECT arg_max(title, title) FROM catalog) = title",
     "SELECT DP_COUNT(*, epsilon := 0.5) FROM ratings WHERE 'Walden' = title"),
    ("SELECT DP_COUNT(*, epsilon := 0.5) FILTER (WHERE score > 3) FILTER (title = 'Dune' OR day IS NULL) FROM ratings",
     "SELECT DP_COUNT(*, epsilon := 0.5) FILTER (WHERE (score > 3) AND (title = 'Dune' OR day IS NULL)) FROM ratings"),
    ("SELECT title, avg(score) FILTER (WHERE day IS NULL) OVER (PARTITION BY title) AS a FROM ratings WHERE score > 1 ORDER BY title",
     "SELECT title, DP_AVG(score, epsilon := 1, max_groups_contributed := 1) FILTER (WHERE day IS NULL) AS a FROM ratings WHERE score > 1 GROUP BY title ORDER BY title"),
    ("FROM ratings SELECT count(*) OVER () AS n", "FROM ratings SELECT DP_COUNT(*, epsilon := 1) AS n"),
    ("SELECT title, region, DP_COUNT(*, epsilon := 0.5, groups := ['north']) FROM ratings GROUP BY ALL",
     "SELECT title, region, DP_COUNT(*, epsilon := 0.5, groups := (catalog.title, regions.region)) FROM ratings GROUP BY ALL"),
    ("SELECT DP_COUNT(*, epsilon := 0.5) FILTER (WHERE) FROM ratings", "SELECT DP_COUNT(*, epsilon := 0.5) FROM ratings"),
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
            "'UTC'",
            "notes",
            "FROM plays",
            "(WHERE)",
            "['north']",
            "PARTITION",
            "count(*) OVER ()",
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


@pytest.mark.parametrize("item", ["title", "user_id"])
def test_distinct_is_answered_by_the_function_that_counts_different_values(
    owner: dp_sql.Session, item: str
) -> None:
    rest = f"{item}, epsilon := 0.1, privacy_unit := user_id) FROM ratings"
    error = told(owner, f"SELECT DP_COUNT(DISTINCT {rest}")
    assert error.suggestion == f"SELECT DP_COUNT_DISTINCT({rest}"


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
    assert told(owner, f"{select} QUALIFY n > 5").suggestion == f"{select} HAVING n > 5"
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
    (f"SELECT max(#), 100.0 * max(#) / sum(@) {GROUPED} ORDER BY 1",
     f"SELECT max(answer), 100.0 * max(answer) / sum(answer_1) FROM (SELECT # AS answer, @ AS answer_1 {GROUPED}) ORDER BY 1"),
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
