"""What an error shows beside a statement that works: names, carets, and no statement that does not."""

import duckdb
import pytest

import dp_sql
from dp_sql.errors import SourceError
from tests.session.suggestions.ratings_shop import told


@pytest.mark.parametrize("name", ["DP_MAX", "DP_COUNT_IF", "DP_STDDEV", "DP_TOP", "DP_X"])
def test_an_unknown_function_is_refused_without_an_argument_too(
    analyst: dp_sql.Session, name: str
) -> None:
    assert told(analyst, f"SELECT {name}() FROM ratings").message.startswith("There is no function")


@pytest.mark.parametrize("function", ["to_char", "months_between", "levenshtein", "list_product"])
def test_a_function_has_the_name_that_the_statement_gives_it(
    analyst: dp_sql.Session, function: str
) -> None:
    condition = f"length(upper(region)) > 1 AND {function.title()}(day, 'x') = 'a'"
    error = told(analyst, f"SELECT DP_COUNT(*, epsilon := 0.1) FROM ratings WHERE {condition}")
    is_known = function in {"levenshtein", "list_product"}
    said = f"The function {function} is not supported" if is_known else "There is no function"
    assert error.message.startswith(said)


def test_a_function_without_brackets_has_a_caret(analyst: dp_sql.Session) -> None:
    query = "SELECT DP_COUNT(*, epsilon := 0.1) FROM ratings WHERE title = current_user"
    assert told(analyst, query).position == query.index("current_user")


@pytest.mark.parametrize("condition", ["walden", "score > 1 AND NOT walden"])
def test_a_string_is_not_proposed_as_a_condition(owner: dp_sql.Session, condition: str) -> None:
    call = "DP_COUNT(*, epsilon := 0.1, privacy_unit := user_id)"
    assert told(owner, f"SELECT {call} FROM ratings WHERE {condition}").suggestion == ""
    title = told(owner, f"SELECT {call} FROM ratings WHERE title = walden")
    assert title.suggestion.endswith("title = 'walden'")


def test_duckdb_offers_no_table_that_keeps_an_answer(owner: dp_sql.Session) -> None:
    call = "DP_COUNT(*, epsilon := 1, privacy_unit := user_id, groups := observed)"
    owner.sql(f"SELECT title, {call} FROM ratings GROUP BY title").fetchall()
    with pytest.raises(duckdb.CatalogException, match="Table with name __dp_release does") as said:
        owner.sql("FROM __dp_release")
    assert "__dp" not in str(said.value).replace("__dp_release does", "")
    with pytest.raises(duckdb.CatalogException, match='Did you mean "salaries"'):
        owner.sql("FROM salarie")


@pytest.mark.parametrize(
    "call", ["DP_SUM(score, title", "DP_SUM(DISTINCT score", "DP_AVG(DISTINCT score", "DP_SUM(day", "DP_AVG(day",
             "DP_HISTOGRAM(score"]
)  # fmt: skip
def test_no_statement_is_proposed_that_answers_another_question(
    owner: dp_sql.Session, call: str
) -> None:
    statement = f"SELECT {call}, epsilon := 0.1, privacy_unit := user_id) FROM ratings"
    assert told(owner, statement).suggestion == ""


def test_a_suggestion_that_does_not_work_is_not_shown(analyst: dp_sql.Session) -> None:
    later = "(SELECT max(year) FROM catalog)"  # not the public table
    for statement in (f"WITH catalog AS (SELECT score AS year FROM ratings) SELECT DP_COUNT(*, epsilon := 1) FROM ratings WHERE score > {later}",
                      "SELECT DP_TOPK(titel, 2, epsilon := 0.1) FROM nowhere",
                      "SELECT DP_TOPK(titel, 2, epsilon := 0.1) FROM ratings, plays"):  # fmt: skip
        assert told(analyst, statement).suggestion == ""


def test_a_cap_of_the_statement_is_in_what_is_proposed(analyst: dp_sql.Session) -> None:
    call = "DP_SUM(score, max_groups_contributed := 10, epsilon := 0.1)"
    error = told(analyst, f"SELECT region, {call} FROM ratings GROUP BY region")
    assert "max_groups_contributed := 10, epsilon := 0.1, groups := " in error.suggestion


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
