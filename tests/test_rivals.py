"""The comparison with other libraries: its page says what its results say, good or bad."""

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

from benchmarks.rivals import distinct
from benchmarks.rivals.page import PAGE, compared, errors, guesses, luckier, page, percent
from benchmarks.rivals.questions import QUESTIONS, Asked, Question, ask
from benchmarks.rivals.runner import at_95, error
from benchmarks.rivals.with_dp_sql import prepare

pytestmark = pytest.mark.thorough

RESULTS = Path(PAGE).parents[1] / "benchmarks" / "rivals" / "results.json"


def answered(error: float, **more: Any) -> dict[str, Any]:
    return {
        "status": "answered", "runs": 20, "error": error, "error_95": 2 * error, "seconds": 0.01,
        "ratio": 5.0, "needs": "9 rows a person", "note": "SELECT 1", **more,
    }  # fmt: skip


def canned() -> dict[str, Any]:
    tried = {"guesses": {"0.2": answered(0.5), "5.0": answered(0.07)}}
    return {
        "date": "2026-01-01",
        "machine": "a machine",
        "questions": {"a": "first", "b": "second", "c": "third"},
        "libraries": {
            "dp_sql": {
                "versions": {"dp-sql": "1"},
                "questions": {"a": answered(0.01), "b": answered(0.2), "c": {"status": "failed"}},
            },
            "opendp": {
                "versions": {"opendp": "2"},
                "questions": {
                    "a": answered(0.1, **tried),
                    "b": answered(0.1),
                    "c": answered(0.3),
                },
                "checks": {"what was checked": "TypeError: no"},
            },
            "pipelinedp": {
                "versions": {"pipeline-dp": "3"},
                "questions": {key: {"status": "refused", "note": "no"} for key in "abc"},
            },
            "tumult": {"missing": "no environment"},
        },
    }


def test_the_table_marks_the_smallest_error_and_says_what_is_not_answered() -> None:
    assert errors(canned())[2:] == [
        "| first | **1.0 %** (2.0 %) | 10 % (20 %) | no such question |",
        "| second | 20 % (40 %) | **10 %** (20 %) | no such question |",
        "| third | fails | **30 %** (60 %) | no such question |",
    ]


def test_the_page_says_where_another_library_is_better_and_by_how_much() -> None:
    said = "\n".join(compared(canned()))
    assert "smallest median error in 1, ties (within 5 %) in 0, and is behind in 2:" in said
    assert "- second: OpenDP has 10 % where dp_sql has 20 % (2.0 ×)." in said
    assert "- third: dp_sql gives no answer; OpenDP has 30 %." in said


def test_worse_guesses_are_shown_beside_dp_sql_which_needs_none() -> None:
    assert guesses(canned())[2:] == [
        "| first | OpenDP | 9 rows a person | 50 % | 10 % | 7.0 % |",
        "| first | dp_sql | none | 1.0 % | 1.0 % | 1.0 % |",
    ]


def test_a_guess_that_is_ahead_of_dp_sql_is_named() -> None:
    results = canned()
    assert luckier(results) == []
    results["libraries"]["opendp"]["questions"]["a"]["guesses"]["5.0"]["error"] = 0.001
    assert luckier(results)[-1] == (
        "- first, five times the bound: OpenDP has 0.1 % where dp_sql has 1.0 %."
    )


def test_an_answer_to_another_question_is_wrong_and_never_ahead() -> None:
    results = canned()
    results["libraries"]["opendp"]["questions"]["b"]["wrong"] = "counts rows"
    assert "| second | **20 %** (40 %) | wrong: 10 % | no such question |" in errors(results)
    assert "- second:" not in "\n".join(compared(results))


def test_a_library_that_could_not_run_and_a_check_are_on_the_page() -> None:
    said = page(canned())
    assert "- Tumult Analytics: no environment." in said
    assert "*checked*: what was checked: `TypeError: no`" in said


def test_the_page_in_the_docs_is_what_its_stored_results_say() -> None:
    assert PAGE.read_text("utf-8") == page(json.loads(RESULTS.read_text("utf-8")))


def test_the_page_on_distinct_counts_is_what_its_stored_results_say() -> None:
    stored = json.loads(distinct.RESULTS.read_text("utf-8"))
    assert distinct.PAGE.read_text("utf-8") == distinct.page(stored)


def test_the_page_on_distinct_counts_names_who_is_closer_and_no_wrong_answer() -> None:
    def one(bias: float, **more: Any) -> dict[str, Any]:
        return answered(abs(bias), bias=bias, spread=[bias, bias + 0.1], **more)

    results = {
        "libraries": {
            "dp_sql": {"questions": {"shop 1": one(-0.1)}},
            "opendp": {"questions": {"shop 1": one(-0.8), "shop 300": one(-0.05)}},
            "qrlew": {"questions": {"shop 1": one(0.01, wrong="counts rows")}},
        }
    }
    assert distinct.answers(results, "shop")[2:] == [
        "| OpenDP | 20 % (20 % to 30 %) | – | – | – | 95 % (95 % to 105 %) | – |",
        "| qrlew | wrong: 101 % (101 % to 111 %) | – | – | – | – | – |",
    ]
    assert distinct.ahead(results, "shop") == (
        "dp_sql's median error is 10 %. Smaller: OpenDP with a limit of 300 (5.0 %)."
    )


@pytest.mark.parametrize(
    ("share", "shown"),
    [(0, "0 %"), (0.000123, "0.012 %"), (0.0123, "1.2 %"), (0.2, "20 %"), (11.0, "over 1000 %")],
)
def test_a_share_has_two_digits_that_count(share: float, shown: str) -> None:
    assert percent(share) == shown


def test_the_95_percent_error_is_the_largest_of_few_runs() -> None:
    assert at_95([3.0, 1.0, 2.0]) == 3.0
    assert at_95([float(i) for i in range(1, 41)]) == 38.0


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rivals")
    with duckdb.connect() as con:
        for name in {one.table for one in QUESTIONS}:
            con.execute(
                f"CREATE TABLE {name} AS SELECT r.range % 50 AS person, r.range % 12 AS item, "
                "r.range % 4 AS grp, CAST(r.range % 9 AS DECIMAL(9, 2)) AS value "
                f"FROM range(600) AS r; COPY {name} TO '{folder / name}.parquet'"
            )
    return folder


def asked(question: Question, folder: Path) -> Asked:
    with duckdb.connect() as con:
        con.execute(f"CREATE VIEW {question.table} AS FROM '{folder / question.table}.parquet'")
        return ask(con, question)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda one: str(one.key))
def test_dp_sql_answers_each_question_in_the_form_that_is_compared(
    question: Question, tables: Path
) -> None:
    one = asked(question, tables)
    assert error(one, prepare(one, tables / f"{question.table}.parquet").run()) >= 0
    in_groups = "group" in question.kind or question.kind == "unknown_people"
    assert error(one, dict(one.truth) if in_groups else one.truth) == 0


@pytest.mark.parametrize(("key", "answer"), [("mean", None), ("q1_mean", {0: None, 1: 5.0})])
def test_null_counts_as_zero(key: str, answer: Any, tables: Path) -> None:
    (question,) = (question for question in QUESTIONS if question.key == key)
    one = asked(question, tables)
    assert error(one, answer) == error(one, 0 if answer is None else {0: 0, 1: 5.0}) > 0
