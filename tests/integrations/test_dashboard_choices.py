"""The dashboard: what may be chosen, and what is drawn of the answers."""

from __future__ import annotations

import importlib
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

import dp_sql
from dp_sql.sql.functions import FUNCTIONS

pytest.importorskip("streamlit", reason="the dashboard's extra is not installed")


from tests.integrations.dashboard import Opened, ask, choose, kinds, pictures, spoken

# --- what may be chosen ---------------------------------------------------------------------------


def test_the_questions_are_dp_sqls_own_functions(opened: Opened, folder: Path) -> None:
    page, questions = opened(), importlib.import_module("questions")
    listed = {questions.WORDS.get(name, (name,))[0] for name in questions.OFFERED}
    assert set(page.selectbox(key="ask").options) <= listed
    reading_people = {name for name, f in FUNCTIONS.items() if f.shape.reads_people}
    assert set(questions.OFFERED) == reading_people, "a function that the page cannot ask"
    assert kinds(folder) == []


def test_every_choice_is_a_statement_that_dp_sql_plans(folder: Path) -> None:
    menu, questions = importlib.import_module("menu"), importlib.import_module("questions")
    shared = importlib.import_module("shared").connected(folder, "reporting")
    asked = 0
    for table in menu.tables(shared):
        offer = menu.menu(shared, folder / "policy.toml", table)
        assert offer.person == "user_id" and offer.person not in offer.columns
        for function, items in offer.items.items():
            for item, needs_bounds in items.items():
                question = menu.first(table, function, item)
                if needs_bounds:
                    question = menu.bounded(question, offer.columns[item])
                for key, time in [(None, None), *offer.keys]:
                    by = replace(question, key=key, each=time)
                    capped = by.given(max_groups_contributed="3")
                    assert any(menu.is_answerable(shared, one) for one in (by, capped)), by.at(1)
                    asked += 1
    assert asked > 30 and kinds(folder) == []
    assert offer.values["region"] == ["north", "south", "east", "west"]
    shared.session.close()
    assert (
        questions.Question("my table", "DP_TOPK", "x", {"k": "5"}).at(5).endswith('FROM "my table"')
    )


def test_the_statement_on_the_page_is_the_one_that_is_asked(opened: Opened, folder: Path) -> None:
    page = choose(opened(), where_ratings="title", is_title="A Doll's House", each_ratings="region")
    page = choose(page, ask="DP_COUNT_DISTINCT", column_DP_COUNT_DISTINCT="user_id")
    ask(page)
    (sql,) = [one.value for one in page.code]
    assert "WHERE title = 'A Doll''s House'" in sql and "GROUP BY region" in sql
    with dp_sql.connect(
        str(folder / "reading.duckdb"), policy=folder / "policy.toml", analyst="reporting"
    ) as session:
        assert session.explain(sql).calls[0].kept is not None
    assert "Number of people in ratings by region, title = A Doll's House" in spoken(page)


# --- what is drawn --------------------------------------------------------------------------------


def test_the_books_are_drawn_with_their_counts_and_the_interval_around_them(
    opened: Opened, folder: Path
) -> None:
    page = ask(opened())
    ranking = pictures(page)[0]
    with dp_sql.connect(
        str(folder / "reading.duckdb"), policy=folder / "policy.toml", analyst="reporting"
    ) as session:
        (release,) = session.releases
        ((best,),) = session.sql(f"FROM dp_release('{release.id}')").fetchall()
    assert [(row["name"], row["value"]) for row in ranking] == [
        (one["item"], one["count"]) for one in best
    ]
    within = int(ranking[0]["high"] - ranking[0]["low"]) // 2
    assert f"all counts are within ± {within} people" in release.receipt.accuracy


def test_a_report_is_drawn_from_its_lower_bound_on(opened: Opened) -> None:
    page = choose(opened(), ask="DP_COUNT_DISTINCT", column_DP_COUNT_DISTINCT="title")
    for by, n in (("– one answer for all", 1), ("region", 4), ("month", 12)):
        rows = pictures(ask(choose(page, each_ratings=by)))[0]
        assert len(rows) == n
        for row in rows:
            assert 0 <= row["low"] <= row["solid"] == row["value"] <= row["high"]
        assert "at least where its line begins, with 95 % confidence" in spoken(page)


def test_each_function_is_asked_and_its_answer_is_drawn_or_listed(opened: Opened) -> None:
    page = opened()
    offered = list(page.selectbox(key="ask").options)
    questions = importlib.import_module("questions")
    for name in questions.OFFERED:
        page = ask(choose(page, ask=name))
        if name in {"DP_QUANTILE", "DP_MEDIAN"}:  # no interval is known: tables and a number
            assert len(pictures(page)) == 1 and len(page.table) + len(page.metric) >= 2
        else:
            assert all(row["low"] < row["high"] for row in pictures(page)[0]), name
        offered.remove(questions.WORDS[name][0])
    assert offered == []


def test_people_are_drawn_within_what_explain_says(opened: Opened, folder: Path) -> None:
    page = choose(opened(), ask="DP_COUNT_DISTINCT", column_DP_COUNT_DISTINCT="user_id")
    for groups in ("month", "region", "– one answer for all"):
        page = ask(choose(page, each_ratings=groups))
        sql = page.code[0].value
        assert "max_groups_contributed" not in sql
        with dp_sql.connect(
            str(folder / "reading.duckdb"), policy=folder / "policy.toml", analyst="reporting"
        ) as session:
            within = session.explain(sql).calls[0].all_within
        rows = pictures(page)[0]
        assert {row["high"] - row["value"] for row in rows} == {within} and within > 0
        assert "The lines show where the true numbers are" in spoken(page)


def test_an_average_is_drawn_with_its_noise(opened: Opened) -> None:
    page = ask(choose(opened(), ask="DP_AVG", each_ratings="region"))
    rows = pictures(page)[0]
    assert len(rows) == 4 and all(row["low"] < row["value"] < row["high"] for row in rows)
    assert all(" ± " in row["words"] for row in rows)
    assert "how far the noise may reach, with 95 % confidence" in spoken(page)


def test_noise_below_zero_and_missing_numbers_are_drawn_as_such(made: Path) -> None:
    answers, drawing = importlib.import_module("answers"), importlib.import_module("pictures")
    report = {"estimate": -3, "lower_bound": -40, "confidence": 0.95}
    named = answers.named([("a" * 200, report), ("b", None), ("c", {**report, "estimate": 7})])
    chart = drawing.bars(named, "rows", "black").to_dict()
    (rows,) = chart["datasets"].values()
    assert [(row["number"], row.get("value")) for row in rows] == [
        ("-3", 0),
        ("no answer", None),
        ("7", 7),
    ]
    assert rows[0]["low"] == 0 and rows[0]["words"] == "-3, at least 0"
    signed = answers.number(
        {"estimate": Decimal("-5.50"), "lower_bound": None, "noise": Decimal("1.25")}
    )
    assert (signed.low, signed.high, signed.is_open) == (Decimal("-6.75"), Decimal("-4.25"), False)
    ((row,),) = drawing.on_a_line(signed, "minutes").to_dict()["datasets"].values()
    assert row["low"] == -6.75 and row["words"] == "-5.50 ± 1.25"
