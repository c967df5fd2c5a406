"""The dashboard: what it shows before it spends, what spends, and what never does."""

from __future__ import annotations

import doctest
import importlib
import threading
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("streamlit", reason="the dashboard's extra is not installed")

import streamlit as st
from streamlit.testing.v1 import AppTest

from tests.integrations.dashboard import (
    DASHBOARD,
    FREE,
    Opened,
    ask,
    bars,
    buttons,
    change_policy,
    choose,
    kinds,
    pictures,
    price,
    spoken,
)

# --- before anything is spent ---------------------------------------------------------------------


def test_the_page_shows_cost_and_accuracy_before_anything_is_spent(
    opened: Opened, folder: Path
) -> None:
    page = opened()
    assert price(page) == "Costs ε 0.25 · ε 3.75 left afterwards"
    assert "all counts are within ± 136 people" in spoken(page)
    assert bars(page) == [
        "Yours (reporting): **ε 4** of 4 left",
        "All analysts together: **ε 5** of 5 left",
    ]
    assert kinds(folder) == []


def test_moving_the_slider_changes_the_price_and_spends_nothing(
    opened: Opened, folder: Path
) -> None:
    page = opened()
    before = spoken(page)
    page.slider(key="epsilon").set_value(0.5).run()
    assert price(page).startswith("Costs ε 0.5 ") and spoken(page) != before
    assert kinds(folder) == []


def test_every_position_of_the_slider_is_a_number_without_an_error_of_rounding(
    made: Path,
) -> None:
    in_decimals = importlib.import_module("questions").in_decimals
    for n in range(1, 151):
        assert Fraction(in_decimals(round(100 * (n * 0.01)))) == Fraction(n, 100)


# --- spending, and looking ------------------------------------------------------------------------


def test_a_click_spends_once_and_looking_again_does_not(opened: Opened, folder: Path) -> None:
    page = ask(opened())
    assert bars(page)[0] == "Yours (reporting): **ε 3.75** of 4 left"
    for _ in range(3):
        page.run()
    choose(page, each_ratings="region")
    choose(page, each_ratings="– one answer for all")
    assert price(page) == f"{FREE} · ε 3.75 left" and buttons(page) == []
    assert kinds(folder) == ["reserved", "answered"]


def test_another_browser_sees_the_answer_for_nothing(opened: Opened, folder: Path) -> None:
    first = ask(opened())
    second = opened()
    assert pictures(second) == pictures(first) and buttons(second) == []
    assert kinds(folder) == ["reserved", "answered"]


def test_another_analyst_has_a_session_a_price_and_answers_of_their_own(
    opened: Opened, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(opened())
    monkeypatch.setenv("DP_DASHBOARD_ANALYST", "bob")
    page = opened()
    assert buttons(page) == ["Ask, for ε = 0.25"] and "Nothing yet." in spoken(page)
    assert bars(page) == ["All analysts together: **ε 4.75** of 5 left"]
    assert "Yours (bob): ε 0 spent, no cap of its own" in spoken(page)
    assert kinds(folder) == ["reserved", "answered"]


def test_an_address_full_of_nonsense_opens_the_page_and_asks_nothing(
    folder: Path,
) -> None:
    page = AppTest.from_file(str(DASHBOARD / "app.py"), default_timeout=60)
    for name, value in (("epsilon", "99"), ("table", "' OR 1=1"), ("k", "x"), ("ask", "1")):
        page.query_params[name] = value
    page.run()
    assert not page.exception and buttons(page) == ["Ask, for ε = 0.25"]
    assert kinds(folder) == []


def test_after_a_restart_of_the_server_the_answer_is_still_there(
    opened: Opened, folder: Path
) -> None:
    first = ask(opened())
    st.cache_resource.clear()
    st.cache_data.clear()
    assert pictures(opened()) == pictures(first)
    assert kinds(folder) == ["reserved", "answered"]


def test_without_stored_releases_a_browser_keeps_its_own_answers(
    opened: Opened, folder: Path
) -> None:
    change_policy(folder, "keep_releases = true", "keep_releases = false")
    page = ask(opened())
    page.run()
    assert FREE in price(page) and buttons(page) == []
    assert kinds(folder) == ["reserved", "answered"]
    assert buttons(opened()) == ["Ask, for ε = 0.25"]


def test_a_click_on_a_button_that_was_for_another_question_asks_nothing(
    opened: Opened, folder: Path
) -> None:
    page = opened()
    (button,) = page.button
    page.selectbox(key="each_ratings").set_value("region")
    button.click().run()
    assert price(page).startswith("Costs ε 0.25") and kinds(folder) == []


def test_many_threads_share_a_session_and_get_their_own_answers_for_one_price(
    folder: Path,
) -> None:
    module = importlib.import_module("shared")
    shared = module.connected(folder, "reporting")
    wrong: list[object] = []

    def browse(n: int) -> None:
        try:
            name = shared.ask("SELECT DP_TOPK(title, 3, epsilon := 0.1) AS best FROM ratings")
            for i in range(10):
                told = shared.rows(f"SELECT {n} AS n, i FROM range({i + 1}) AS t(i)")
                if told != [(n, j) for j in range(i + 1)]:
                    wrong.append(told)
                if len(shared.rows(f"FROM dp_release('{name}')")[0][0]) != 3:
                    wrong.append(name)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=browse, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shared.session.close()
    assert wrong == []
    assert kinds(folder) == ["reserved", "answered"]


# --- the budget, and what was asked ---------------------------------------------------------------


def test_the_burn_down_has_a_step_for_each_question(opened: Opened) -> None:
    page = ask(opened())
    page.slider(key="epsilon").set_value(0.5).run()
    ask(page)
    left = [row["left"] for row in pictures(page)[-1]]
    assert left == [4, 3.75, 3.25, 3.25]


def test_an_old_answer_is_read_again_with_its_receipt(opened: Opened, folder: Path) -> None:
    page = ask(opened())
    choose(page, k="5")
    assert len(pictures(page)) == 1  # the budget's
    page.selectbox(key="again").select_index(0).run()
    assert "mechanism  subset" in page.code[1].value and page.table[1].value.shape[0] == 1
    assert kinds(folder) == ["reserved", "answered"]


def test_a_policy_without_a_budget_is_shown_as_such(opened: Opened, folder: Path) -> None:
    policy = folder / "policy.toml"
    policy.write_text(policy.read_text("utf-8").split("[budget]")[0], "utf-8")
    page = opened()
    assert "This policy has no budget" in spoken(page)
    assert price(page) == "Costs ε 0.25 · no limit"


# --- refusals as help -----------------------------------------------------------------------------


def test_what_is_more_than_is_left_is_not_asked_and_the_largest_that_fits_is_one_click_away(
    opened: Opened, folder: Path
) -> None:
    change_policy(folder, "epsilon = 4", "epsilon = 0.43")
    page = ask(opened())
    assert FREE in price(page)
    choose(page, k="15")
    assert buttons(page) == ["Take ε = 0.18"]
    assert "more than is left of the budget. The largest ε that fits is 0.18." in spoken(page)
    page.button[0].click().run()
    assert buttons(page) == ["Ask, for ε = 0.18"]
    assert kinds(folder) == ["reserved", "answered"]
    ask(page)
    choose(page, k="5")
    assert buttons(page) == [] and "Nothing fits any more" in spoken(page)


def test_a_limit_of_the_policy_is_shown_with_what_it_allows(opened: Opened, folder: Path) -> None:
    page = opened()
    page.slider(key="epsilon").set_value(1.5).run()
    assert "more than the policy allows: at most 1. The largest ε that fits is 1." in spoken(page)
    assert buttons(page) == ["Take ε = 1"] and kinds(folder) == []


def test_the_slower_of_two_analysts_is_refused_and_spends_nothing(
    opened: Opened, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = opened()
    module = importlib.import_module("shared")
    price = module.cost

    def priced_and_then_overtaken(*asked: Any) -> Any:
        fitted = price(*asked)
        with module.connected(folder, "quick").session as session:
            for k in range(1, 6):
                session.sql(f"SELECT DP_TOPK(title, {k}, epsilon := 0.97) AS best FROM ratings")
        return fitted

    monkeypatch.setattr(module, "cost", priced_and_then_overtaken)
    ask(page)
    assert "has 0.15 of 5 left" in spoken(page)
    assert "largest epsilon that still fits is 0.15" in spoken(page)
    assert not page.exception and kinds(folder) == ["reserved", "answered"] * 5


def test_a_ledger_that_cannot_be_trusted_closes_the_page_and_says_nothing_of_files(
    opened: Opened, folder: Path
) -> None:
    ask(opened())
    st.cache_resource.clear()
    (folder / "policy.ledger.sqlite").unlink()
    page = AppTest.from_file(str(DASHBOARD / "app.py"), default_timeout=60).run()
    assert "Nothing can be answered now" in spoken(page)
    assert not page.exception and "ledger" not in spoken(page) and str(folder) not in spoken(page)


# --- the rest -------------------------------------------------------------------------------------


def test_a_mistyped_folder_is_not_filled_with_invented_data(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DP_DASHBOARD_FOLDER", f"{folder}s")
    page = AppTest.from_file(str(DASHBOARD / "app.py"), default_timeout=60).run()
    assert "Nothing can be answered now" in spoken(page)
    assert not Path(f"{folder}s").exists()


@pytest.mark.parametrize("name", ["answers", "questions", "shared"])
def test_the_examples_in_the_modules_are_true(made: Path, name: str) -> None:
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted and not found.failed


def test_the_example_is_never_made_over_what_is_there(made: Path, folder: Path) -> None:
    (folder / "policy.toml").write_text("mine")
    importlib.import_module("make_example").make(folder)
    assert (folder / "policy.toml").read_text() == "mine"


def test_the_server_listens_locally_and_reports_to_no_one() -> None:
    config = (DASHBOARD / ".streamlit" / "config.toml").read_text("utf-8")
    assert 'address = "localhost"' in config and "gatherUsageStats = false" in config
    assert 'showErrorDetails = "none"' in config
