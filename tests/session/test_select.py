"""DP_SELECT through SQL: exact numbers, groups, what the owner declares and what is checked."""

from collections.abc import Iterator
from fractions import Fraction

import duckdb
import pytest

import dp_sql
from dp_sql import errors
from dp_sql.sql.functions import select
from dp_sql.udfs import REGISTRY


@pytest.fixture
def session() -> Iterator[dp_sql.Session]:
    with dp_sql.connect() as session:
        session.execute(
            "CREATE TABLE scores AS SELECT * FROM (VALUES "
            "('north', 'oak', 10000, 1.0), ('north', 'elm', 10, 1.0), ('south', 'elm', 1, 1.0), "
            "('south', 'ash', 90000, 2.5), (NULL, 'yew', 7, 0)) t(region, tree, votes, weight)"
        )
        yield session


def asked(session: dp_sql.Session, text: str) -> list[tuple[object, ...]]:
    relation = session.sql(text)
    assert relation is not None
    found: list[tuple[object, ...]] = relation.fetchall()
    return found


@pytest.mark.one_in(4)
@pytest.mark.parametrize("mechanism", sorted(REGISTRY["select"]))
def test_every_mechanism_answers(session: dp_sql.Session, mechanism: str) -> None:
    call = f"DP_SELECT(tree, votes, weight, epsilon := 100, mechanism := '{mechanism}')"
    ((tree,),) = asked(session, f"SELECT {call} FROM scores WHERE region = 'north'")
    assert tree in ("oak", "elm")
    (receipt,) = session.receipts
    assert receipt.mechanism == mechanism
    assert receipt.loss == REGISTRY["select"][mechanism].loss(
        **{
            name: {"epsilon": Fraction(100), "beta": Fraction(1, 20)}[name]
            for name in REGISTRY["select"][mechanism].parameters
        }
    )
    assert receipt.accuracy.startswith("with probability 9")


def test_one_candidate_for_each_group(session: dp_sql.Session) -> None:
    call = "DP_SELECT(tree, votes, weight, epsilon := 1)"
    found = asked(
        session, f"SELECT region, {call} AS best FROM scores GROUP BY region ORDER BY region"
    )
    assert found == [("north", "oak"), ("south", "ash"), (None, "yew")]


def test_a_group_costs_what_an_answer_costs(session: dp_sql.Session) -> None:
    asked(
        session,
        "SELECT region, DP_SELECT(tree, votes, weight, epsilon := 1, mechanism := 'exponential') "
        "FROM scores GROUP BY region",
    )
    (receipt,) = session.receipts
    assert receipt.loss.epsilon == 3
    assert receipt.loss.rho == Fraction(3, 8)
    assert "3 groups" in receipt.accuracy


def test_no_group_is_no_answer_and_no_cost(session: dp_sql.Session) -> None:
    call = "DP_SELECT(tree, votes, weight, epsilon := 1)"
    grouped = f"SELECT region, {call} FROM scores WHERE region = 'east' GROUP BY region"
    assert asked(session, grouped) == []
    assert session.receipts == ()


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("listed", "group", "columns"),
    [
        ("region, {call}", "region", ["region", "dp_select(tree, votes, weight)"]),
        ("scores.region, {call} AS best", "scores.region", ["region", "best"]),
        ("scores.region AS r, {call} AS best", "region", ["r", "best"]),
        ("region AS r, {call} AS best", "1", ["r", "best"]),
        ("region AS r, {call} AS best", "ALL", ["r", "best"]),
        ("upper(scores.region) AS r, {call} AS best", "region", ["r", "best"]),
        ("region, {call} AS best, {call} AS other", "region", ["region", "best", "other"]),
        ("{call} AS best", "region", ["best"]),
        ("region, weight, {call} AS best", "region, weight", ["region", "weight", "best"]),
    ],
)
def test_groups_are_written_as_in_plain_sql(
    session: dp_sql.Session, listed: str, group: str, columns: list[str]
) -> None:
    call = "DP_SELECT(tree, votes, weight, epsilon := 1)"
    text = f"SELECT {listed.format(call=call)} FROM scores WHERE region = 'north' GROUP BY {group}"
    relation = session.sql(text)
    assert relation is not None and relation.columns == columns
    (row,) = relation.fetchall()
    assert row[columns.index("best") if "best" in columns else 1] == "oak"


@pytest.mark.one_in(3)
@pytest.mark.parametrize("order", ["ASC", "DESC"])
@pytest.mark.parametrize("nulls", ["NULLS FIRST", "NULLS LAST"])
def test_each_group_gets_its_own_choice_whatever_the_default_order(
    session: dp_sql.Session, order: str, nulls: str
) -> None:
    session.execute(f"SET default_order = '{order}'")
    session.execute(f"SET default_null_order = '{nulls}'")
    session.execute(
        "CREATE TABLE trees AS SELECT * FROM (VALUES ('n', 'a', 0), ('n', 'b', 10000), "
        "('s', 'a', 10000), ('s', 'b', 0), ('s', 'c', 1), (NULL, 'd', 1)) t(region, tree, votes)"
    )
    for mechanism in ("pnf", "gem"):
        call = f"DP_SELECT(tree, votes, 1, epsilon := 10, mechanism := '{mechanism}')"
        found = asked(session, f"SELECT region, {call}, {call} FROM trees GROUP BY region")
        assert set(found) == {("n", "b", "b"), ("s", "a", "a"), (None, "d", "d")}


def test_names_of_subqueries_next_to_a_grouped_call_do_not_clash(session: dp_sql.Session) -> None:
    call = "DP_SELECT(tree, votes, weight, epsilon := 1)"
    found = asked(
        session,
        f"SELECT scores.region, {call} AS best, (SELECT count(*) FROM scores z WHERE z.votes > 0) "
        "FROM scores GROUP BY scores.region HAVING scores.region IS NOT NULL "
        "ORDER BY scores.region DESC",
    )
    assert found == [("south", "ash", 5), ("north", "oak", 5)]


def test_a_key_may_be_called_by_its_alias_and_stand_twice(session: dp_sql.Session) -> None:
    call = "DP_SELECT(tree, votes, weight, epsilon := 1)"
    where = "WHERE region IS NOT NULL"
    found = asked(session, f"SELECT region AS r, {call} FROM scores {where} GROUP BY r ORDER BY r")
    assert found == [("north", "oak"), ("south", "ash")]
    twice = f"SELECT region, {call} FROM scores {where} GROUP BY region, region ORDER BY 1"
    assert asked(session, twice) == found


def test_groups_work_in_the_dp_macro_and_in_create_table(session: dp_sql.Session) -> None:
    text = (
        "SELECT region, DP_SELECT(tree, votes, weight, epsilon := 1) AS best FROM scores "
        "GROUP BY region"
    )
    best = [("north", "oak"), ("south", "ash"), (None, "yew")]
    session.execute(f"CREATE TABLE kept AS {text}")
    assert asked(session, "FROM kept ORDER BY region") == best
    assert asked(session, f"FROM dp($$ {text} $$) ORDER BY region") == best


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("DOUBLE", Fraction(0.1)),
        ("FLOAT", Fraction(13421773, 134217728)),
        ("DECIMAL(18, 3)", Fraction(1, 10)),
        ("DECIMAL(38, 30)", Fraction(1, 10)),
    ],
)
def test_scores_are_read_as_the_exact_numbers_that_the_column_holds(
    session: dp_sql.Session, monkeypatch: pytest.MonkeyPatch, kind: str, value: Fraction
) -> None:
    seen: list[Fraction] = []
    right = select._fractions

    def spy(*arguments: object) -> list[Fraction]:
        seen.extend(right(*arguments))  # type: ignore[arg-type]
        return seen[-1:]

    monkeypatch.setattr(select, "_fractions", spy)
    asked(
        session,
        "SELECT DP_SELECT(c, s, 1e-3, epsilon := 0.5) FROM "
        f"(SELECT 'only' AS c, CAST(0.1 AS {kind}) AS s)",
    )
    assert seen == [value, Fraction(1, 1000)]


def test_huge_integers_are_exact(session: dp_sql.Session) -> None:
    session.execute(
        "CREATE TABLE huge AS SELECT 'a' AS c, 170141183460469231731687303715884105727::HUGEINT AS s "
        "UNION ALL SELECT 'b', 170141183460469231731687303715884105627"
    )
    answers = {
        asked(session, "SELECT DP_SELECT(c, s, 1, epsilon := 10) FROM huge")[0] for _ in range(5)
    }
    assert answers == {("a",)}


CALL = "DP_SELECT(tree, votes, weight, epsilon := 1)"


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"SELECT {CALL} FROM scores", "more than once"),
        (
            f"SELECT {CALL} FROM (SELECT NULL AS tree, 1 AS votes, 1 AS weight)",
            "A candidate is NULL",
        ),
        (f"SELECT {CALL} FROM scores WHERE region = 'x'", "no candidate"),
        (
            f"SELECT {CALL} FROM (SELECT tree, votes, -weight AS weight FROM scores LIMIT 1)",
            "A sensitivity is negative",
        ),
        *(
            (
                f"SELECT DP_SELECT(tree, s, 1, epsilon := 1) FROM (SELECT 'a' AS tree, {score} AS s)",
                "A score is NULL, infinite or NaN",
            )
            for score in ("NULL::INT", "'nan'::DOUBLE", "'-inf'::FLOAT")
        ),
        (
            "SELECT DP_SELECT(tree, votes, s, epsilon := 1) FROM "
            "(SELECT 'a' AS tree, 1 AS votes, NULL::INT AS s)",
            "A sensitivity is NULL",
        ),
    ],
)
def test_what_is_no_table_of_candidates_is_refused_without_a_number(
    session: dp_sql.Session, text: str, words: str
) -> None:
    with pytest.raises(errors.ArgumentError, match=words) as caught:
        session.sql(text)
    assert text[caught.value.position :].startswith("DP_SELECT")
    assert session.receipts == ()


def test_scores_hold_in_plain_duckdb() -> None:
    with duckdb.connect() as con:
        dp_sql.install(con)
        text = "SELECT DP_SELECT(c, s, 1, epsilon := 5) AS best FROM (VALUES ('a', 900), ('b', 1)) t(c, s)"
        assert con.sql(f"FROM dp($$ {text} $$)").fetchall() == [("a",)]
        assert con.sql(text).fetchall() == [("a",)]
        with pytest.raises(duckdb.Error, match="needs a table to read"):
            con.sql("SELECT DP_SELECT(1, 2, 3)").fetchall()


def test_the_receipt_says_what_the_owner_asserts(session: dp_sql.Session) -> None:
    asked(session, f"SELECT region, {CALL} FROM scores GROUP BY region")
    (receipt,) = session.receipts
    assert receipt.assumptions == (
        "one person moves each score of scores by at most its sensitivity, and never to or from "
        "NULL or infinity",
        "the groups, the candidates and their sensitivities are public",
    )
