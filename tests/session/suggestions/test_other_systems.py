"""What people write in the SQL of other systems with differential privacy is proposed as DP calls."""

import pytest

import dp_sql
from dp_sql.errors import ParseError
from tests.session.suggestions.ratings_shop import told

_PRIVATE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-5, max_groups_contributed = 2, privacy_unit_column = user_id)"


@pytest.mark.parametrize(("refused", "proposed"), [
    (f"{_PRIVATE} title, COUNT(*) AS n FROM ratings GROUP BY title",
     "SELECT title, DP_COUNT(*, epsilon := 1) AS n FROM ratings GROUP BY title"),
    (f"{_PRIVATE} title, AVG(score, contribution_bounds_per_group => (0, 5)) FROM ratings GROUP BY 1 ORDER BY 2",
     "SELECT title, DP_AVG(score, epsilon := 1, max_groups_contributed := 2, lower := 0, upper := 5) FROM ratings GROUP BY 1 ORDER BY 2"),
    (f"{_PRIVATE} COUNT(DISTINCT title), SUM(score, contribution_bounds_per_group => (0, 9)), "
     "SUM(score, contribution_bounds_per_group => (-12, 9)), COUNT(*, contribution_bounds_per_group => (0, 3)) FROM ratings",
     "SELECT DP_COUNT_DISTINCT(title, epsilon := 0.25), DP_SUM(score, epsilon := 0.25, lower := 0, contribution_bound := 9), "
     "DP_SUM(score, epsilon := 0.25, contribution_bound := 12), DP_COUNT(*, epsilon := 0.25, contribution_bound := 3) FROM ratings"),
    (f"SELECT max(n) FROM ({_PRIVATE} APPROX_QUANTILES(score, 4, contribution_bounds_per_row => (0, 5)) AS n FROM ratings)",
     "SELECT max(n) FROM (SELECT DP_QUANTILE(score, [0.25, 0.5, 0.75], epsilon := 1, lower := 0, upper := 5) AS n FROM ratings)"),
    ("SELECT WITH AGGREGATION_THRESHOLD OPTIONS(threshold = 50) title, COUNT(DISTINCT user_id) AS n FROM ratings GROUP BY title",
     "SELECT title, DP_COUNT_DISTINCT(user_id, epsilon := 1) AS n FROM ratings GROUP BY title"),
    ("SELECT ANON_SUM(price CLAMPED BETWEEN 0 AND 5.5) AS s FROM ratings",
     "SELECT DP_SUM(price, lower := 0, contribution_bound := 5.5, epsilon := 1) AS s FROM ratings"),
    ("SELECT ANON_PERCENTILE_CONT(score, 0.5 CLAMPED BETWEEN 0 AND 5) FROM ratings",
     "SELECT DP_QUANTILE(score, 0.5, lower := 0, upper := 5, epsilon := 1) FROM ratings"),
    ("SELECT ANON_COUNT(*), ANON_COUNT(DISTINCT title), ANON_AVG(score) FROM ratings",
     "SELECT DP_COUNT(*, epsilon := 0.666666666), DP_COUNT_DISTINCT(title, epsilon := 0.666666666), DP_AVG(score, epsilon := 0.666666666) FROM ratings"),
    ("SELECT APPROX_DISTINCT(title), APPROX_PERCENTILE(score, 0.9) FROM ratings",
     "SELECT DP_COUNT_DISTINCT(title, epsilon := 1), DP_QUANTILE(score, 0.9, epsilon := 1, lower := 0, upper := 100) FROM ratings"),
    ("SELECT SUM(CLAMP(score, 0, 3)) FROM ratings",
     "SELECT DP_SUM(CASE WHEN score < 0 THEN 0 WHEN score > 3 THEN 3 ELSE score END, epsilon := 1) FROM ratings"),
    *((f"SELECT DP_COUNT(*, epsilon := 1) FROM ratings WHERE {theirs} > {value}",
       f"SELECT DP_COUNT(*, epsilon := 1) FROM ratings WHERE {ours} > {value}")
      for theirs, ours, value in (
          ("DATE_TRUNC(day, MONTH)", "date_trunc('MONTH', day)", "DATE '2023-01-01'"),
          ("FORMAT_DATE('%Y', day)", "strftime(day, '%Y')", "'2023'"),
          ("DATE_PART(YEAR, day)", "date_part('YEAR', day)", "2023"),
          ("DATE_DIFF(DATE '2024-03-01', day, DAY)", "date_diff('DAY', day, DATE '2024-03-01')", "3"),
          ("DATEADD(day, 7, day)", "(day + INTERVAL '7 day')", "DATE '2023-01-01'"),
          ("ZEROIFNULL(score)", "coalesce(score, 0)", "1"),
          ("1 / SAFE_DIVIDE(score, price)", "1 / ((score) / nullif(price, 0))", "1"),
      )),
    ("SELECT IFF(score > 2, 'high', 'low') AS s, COUNT(*) FROM ratings WHERE REGEXP_CONTAINS(title, 'u') GROUP BY s",
     "SELECT if(score > 2, 'high', 'low') AS s, DP_COUNT(*, epsilon := 1) FROM ratings WHERE regexp_matches(title, 'u') GROUP BY s"),
    ("SELECT TOP 2 title, COUNT(*) AS n FROM ratings GROUP BY title ORDER BY n DESC;",
     "SELECT title, DP_COUNT(*, epsilon := 1) AS n FROM ratings GROUP BY title ORDER BY n DESC LIMIT 2;"),
    ("SELECT DP_SUM(score, epsilon := 1, lower := 0, upper := 3) FROM ratings",
     "SELECT DP_SUM(CASE WHEN score < 0 THEN 0 WHEN score > 3 THEN 3 ELSE score END, epsilon := 1) FROM ratings"),
    ("SELECT DP_SUM(score, upper := 3, epsilon := 1) FROM ratings",
     "SELECT DP_SUM(CASE WHEN score > 3 THEN 3 ELSE score END, epsilon := 1) FROM ratings"),
])  # fmt: skip
def test_the_sql_of_other_systems_is_proposed_as_dp_calls(
    analyst: dp_sql.Session, refused: str, proposed: str
) -> None:
    error = told(analyst, refused)
    assert error.suggestion == proposed
    assert error.asks_other == ("AGGREGATION_THRESHOLD" in refused)  # which draws no noise
    assert analyst.sql(proposed).fetchall()


@pytest.mark.parametrize(("asked", "is_example"), [(_PRIVATE, False), ("SELECT WITH ANONYMIZATION", True)])  # fmt: skip
def test_only_an_epsilon_that_was_not_written_is_an_example(
    analyst: dp_sql.Session, asked: str, is_example: bool
) -> None:
    error = told(analyst, f"{asked} COUNT(*) FROM ratings")
    assert ("Example values" in (error.hint or "")) is is_example


def test_an_interval_is_asked_with_the_answer(analyst: dp_sql.Session) -> None:
    query = "SELECT DP_INTERVAL_LOW(n) FROM (SELECT DP_COUNT(*, epsilon := 1) AS n FROM ratings)"
    assert "report := true" in (told(analyst, query).hint or "")


def test_an_owners_statement_keeps_its_privacy_unit(owner: dp_sql.Session) -> None:
    with pytest.raises(ParseError) as caught:
        owner.sql(f"{_PRIVATE} COUNT(*) FROM ratings")
    assert caught.value.suggestion == (
        "SELECT DP_COUNT(*, epsilon := 1, privacy_unit := user_id) FROM ratings"
    )
    assert owner.sql(caught.value.suggestion).fetchall()


@pytest.mark.parametrize("refused", [
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS",
    "SELECT WITH DIFFERENTIAL_PRIVACY ANON_SUM(SUM(score)) FROM ratings",
    "SELECT WITH DIFFERENTIAL_PRIVACY APPROX_QUANTILES(score, 100) FROM ratings",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.1) COUNT(*) FROM ratings UNION ALL "
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 2) COUNT(*) FROM ratings",
    "SELECT TOP 5",
    "SELECT TOP 5 ;",
    "SELECT TOP 1 title, COUNT(*) FROM ratings GROUP BY title UNION ALL SELECT 'x', 1",
])  # fmt: skip
def test_what_asks_something_else_is_refused_without_a_proposal(
    analyst: dp_sql.Session, refused: str
) -> None:
    assert not told(analyst, refused).suggestion


def test_a_private_select_without_aggregates_is_not_proposed_as_a_plain_one(
    owner: dp_sql.Session,
) -> None:
    with pytest.raises(ParseError) as caught:
        owner.sql("SELECT WITH DIFFERENTIAL_PRIVACY title FROM ratings")
    assert not caught.value.suggestion
