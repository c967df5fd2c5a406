"""Sessions that spend: what fits, and what is refused with what would."""

import contextlib
import threading
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dp_sql.budget.accountants import epsilon_of_rho
from dp_sql.budget.amounts import ATTO, NANO, PICO, rounded_up
from dp_sql.engines.duckdb.introspection import DatabaseCatalog
from dp_sql.errors import ArgumentError, BudgetExceeded, NotPrivate, PolicyError
from dp_sql.udfs.concentrated import largest_rho
from tests.budget.shop import COUNT, DISCOVER, TOP, Opened, events, kinds, left


def test_an_answer_is_reserved_and_settled(opened: Opened, folder: Path) -> None:
    session = opened()
    session.sql(COUNT.format("0.25")).fetchall()
    assert kinds(folder) == ["reserved", "answered"]
    assert left(session) == Fraction(3, 4)
    assert [row.analyst for row in session.budget()] == [None, "ann"]


def test_three_tenths_are_three_tenths(opened: Opened) -> None:
    session = opened(more="[budget.analysts.ann]\nepsilon = 0.3\n")
    for _ in range(3):
        session.sql(COUNT.format("0.1")).fetchall()
    assert session.budget()[1].epsilon_left == 0
    with pytest.raises(BudgetExceeded):
        session.sql(COUNT.format("1e-9"))


def test_what_does_not_fit_is_refused_with_what_would(opened: Opened, folder: Path) -> None:
    session = opened()
    session.sql(COUNT.format("0.625")).fetchall()
    with pytest.raises(BudgetExceeded) as refused:
        session.sql(COUNT.format("0.5"))
    words = str(refused.value)
    assert "costs epsilon = 0.5" in words and "has 0.375 of 1 left" in words
    assert "largest epsilon that still fits is 0.375" in words
    assert kinds(folder) == ["reserved", "answered"]
    with pytest.raises(ArgumentError, match=r"(?s)from 1e-9 to 10000.*epsilon := 0\.375\)"):
        session.sql(COUNT.format("20000"))
    session.sql(COUNT.format("0.375")).fetchall()
    with pytest.raises(BudgetExceeded, match="No epsilon fits"):
        session.sql(COUNT.format("1e-9"))
    with pytest.raises(NotPrivate, match="refused, too: This costs more than is left"):
        session.sql("SELECT count(*) FROM ratings")


def test_calls_of_one_query_are_reserved_together_or_not_at_all(
    opened: Opened, folder: Path
) -> None:
    session = opened()
    two = (
        "SELECT DP_COUNT_DISTINCT(title, epsilon := 0.6) AS a, "
        "DP_TOPK(title, 2, epsilon := 0.6) AS b FROM ratings"
    )
    with pytest.raises(BudgetExceeded, match="for all calls together is 1"):
        session.sql(two)
    assert kinds(folder) == []
    session.sql(two.replace("0.6", "0.5")).fetchall()
    assert kinds(folder) == ["reserved", "reserved", "answered", "answered"]


def test_analysts_share_the_total_and_have_caps_of_their_own(opened: Opened) -> None:
    more = "[budget.analysts.ann]\nepsilon = 0.5\n"
    ann, bob = opened("ann", more), opened("bob", more)
    ann.sql(COUNT.format("0.5")).fetchall()
    with pytest.raises(BudgetExceeded, match="the budget of ann in reading"):
        ann.sql(COUNT.format("0.1"))
    bob.sql(COUNT.format("0.4")).fetchall()
    with pytest.raises(BudgetExceeded, match=r"the budget of reading has 0\.1 of 1 left"):
        bob.sql(COUNT.format("0.2"))
    cat = opened("cat", more + "[budget.analysts.cat]\nepsilon = 0.05\n")
    with pytest.raises(BudgetExceeded, match=r"of cat .* has 0\.05 of 0\.05 left"):
        cat.sql(COUNT.format("0.2"))  # which is more than is left of the total, too


def test_another_table_of_the_same_people_has_no_budget_of_its_own(opened: Opened) -> None:
    session = opened()
    session.sql(COUNT.format("0.75")).fetchall()
    with pytest.raises(BudgetExceeded):
        session.sql(COUNT.format("0.75").replace("ratings", "visits"))


def test_groups_cost_what_is_written(opened: Opened) -> None:
    session = opened()
    session.sql(
        "SELECT odd, DP_TOPK(title, 2, epsilon := 0.5, groups := [true, false], "
        "max_groups_contributed := 2) AS best FROM ratings GROUP BY odd"
    ).fetchall()
    assert left(session) == Fraction(1, 2)


def test_delta_has_a_budget_too(opened: Opened) -> None:
    asked = (
        "SELECT DP_TOPK(title, 2, epsilon := 0.1, delta := 1e-9, mechanism := 'cdp_peel') AS b "
        "FROM ratings"
    )
    with pytest.raises(BudgetExceeded, match="delta"):
        opened().sql(asked)
    session = opened(more="delta = 1e-8\n")
    session.sql(asked).fetchall()
    assert session.budget()[0].delta_left == Fraction(9, 10**9)


@pytest.mark.parametrize("asked", ["1e-6", "3e-9"])
def test_a_delta_that_is_too_large_is_proposed_smaller(opened: Opened, asked: str) -> None:
    session = opened(more="delta = 1e-9\n")
    call = f"DP_TOPK(title, 2, epsilon := 0.1, delta := {asked}, mechanism := 'cdp_peel')"
    with pytest.raises(BudgetExceeded, match="The largest delta that still fits is") as refused:
        session.sql(f"SELECT {call} FROM ratings")
    proposed = refused.value.suggestion
    assert proposed == f"SELECT {call} FROM ratings".replace(asked, "1e-9")
    session.sql(proposed).fetchall()
    assert session.budget()[0].delta_left == 0


def test_deltas_over_the_limit_of_a_query_are_proposed_smaller(opened: Opened) -> None:
    session = opened(more="delta = 1e-6\n")
    call = "DP_TOPK(title, 2, epsilon := 0.1, delta := 1e-6, mechanism := 'cdp_peel')"
    text = f"SELECT {call}, {call}[:1], {call.replace('2', '3')}, {call.replace('2', '4')} FROM ratings"
    with pytest.raises(ArgumentError, match=r"cost delta = 0\.000003 together") as refused:
        session.sql(text)
    proposed = refused.value.suggestion
    assert proposed == text.replace("1e-6", "3.33e-7")
    session.sql(proposed).fetchall()
    assert len(session.receipts) == 3


def test_under_zcdp_more_small_questions_fit(opened: Opened) -> None:
    session = opened(more="delta = 1e-6\naccountant = 'zcdp'\n")
    for _ in range(12):
        session.sql(TOP.format("0.1")).fetchall()
    spent = session.budget()[0].epsilon_spent
    assert Fraction(1, 2) < spent < 1


def test_the_largest_epsilon_that_is_told_fits_to_the_last_digit(opened: Opened) -> None:
    session = opened(more="delta = 1e-6\naccountant = 'zcdp'\n")
    for spent, asked in (("0.1", "1.377427169026"), ("0.07", "2.1234567890123"), ("0.01", "3")):
        session.sql(TOP.format(spent)).fetchall()
        with pytest.raises(BudgetExceeded) as refused:
            session.sql(TOP.format(asked))
        largest = str(refused.value.hint).split()[-1].rstrip(".")
        assert refused.value.suggestion == TOP.format(largest)
        assert session.cost([TOP.format(largest)]).fits
        assert not session.cost([TOP.format(Decimal(largest) + Decimal("1e-9"))]).fits


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", ["", 5, True, b"ann", None.__class__, ["ann"], "\ud800", "a\0b"])
def test_a_name_that_no_ledger_can_write_is_refused(name: Any, opened: Opened) -> None:
    with pytest.raises(PolicyError, match="name"):
        opened(name)
    assert opened("ann").budget()[0].epsilon_left == 1


@pytest.mark.thorough
def test_many_threads_open_sessions_and_one_reads_the_catalog(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong: list[BaseException] = []
    met: list[int] = []
    two = threading.Barrier(2)

    def read(catalog: DatabaseCatalog) -> list[str]:
        with contextlib.suppress(threading.BrokenBarrierError):
            met.append(two.wait(1))  # broken once one thread has waited alone
        return []

    def use_some() -> None:
        try:
            for _ in range(2):
                with opened() as session:
                    session.sql(COUNT.format("1e-6")).fetchall()
                    for shown in ("SHOW TABLES", "DESCRIBE ratings"):
                        session.sql(shown).fetchall()
        except BaseException as error:
            wrong.append(error)

    monkeypatch.setattr(DatabaseCatalog, "replaced_functions", read)
    threads = [threading.Thread(target=use_some) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == met == []


@pytest.mark.thorough
def test_a_fitting_pld_query_is_told_from_one_that_would_spoil_the_rule(opened: Opened) -> None:
    pytest.importorskip("dp_accounting")
    session = opened(more="delta = 1e-6\naccountant = 'pld'\nrelease_epsilon = 0.1\n")
    with pytest.raises(BudgetExceeded, match="charges every release as epsilon"):
        session.sql(COUNT.format("0.1"))
    session.sql(COUNT.format("0.06")).fetchall()
    session.sql(TOP.format("0.1")).fetchall()
    grouped = (
        "SELECT odd, DP_TOPK(title, 2, epsilon := 0.1, groups := [true, false], "
        "max_groups_contributed := 2) AS best FROM ratings GROUP BY odd"
    )
    assert session.cost([grouped]).fits


ZCDP = "delta = 1e-6\naccountant = 'zcdp'\n"


def test_zcdp_counts_the_discovery_of_items_where_the_policy_keeps_delta_for_it(
    opened: Opened, folder: Path
) -> None:
    session = opened(more=f"{ZCDP}discovery_share = 0.1\n")
    for _ in range(5):  # five times 0.3 is more than 1
        session.sql(DISCOVER).fetchall()
    assert kinds(folder) == ["reserved", "reserved", "answered", "answered"] * 5
    half = Fraction(1, 2 * 10**9)
    first, second = [event.amount for event in events(folder)[1:3]]
    assert first is not None and first.rho is not None
    assert (first.epsilon, first.delta) == (3 * 10**8, half * ATTO)
    assert first.rho == rounded_up(largest_rho(Fraction(3, 10), half) * PICO)
    assert second == (0, half * ATTO, None, 0)
    row = session.budget()[0]
    shown = epsilon_of_rho(5 * first.rho, Fraction(9, 10**7))
    assert (row.epsilon_spent, row.delta_spent) == (Fraction(shown, NANO), Fraction(1, 10**6))
    assert row.epsilon_spent < Fraction(6, 10)
    with pytest.raises(BudgetExceeded, match=r"the budget of \S+ has epsilon = \S+ of 1 left"):
        session.sql(DISCOVER.replace("0.3", "3"))


def test_zcdp_refuses_the_discovery_of_items_where_the_policy_keeps_no_delta_for_it(
    opened: Opened, folder: Path
) -> None:
    session = opened(more=ZCDP)
    with pytest.raises(BudgetExceeded, match=r"as in discovery_share = 0\.1"):
        session.sql(DISCOVER)
    assert kinds(folder) == []


def test_the_discovery_of_items_costs_epsilon_and_delta_in_a_plain_sum(opened: Opened) -> None:
    session = opened(more="delta = 1e-6\n")
    session.sql(DISCOVER).fetchall()
    row = session.budget()[0]
    assert (row.epsilon_spent, row.delta_spent) == (Fraction(3, 10), Fraction(1, 10**9))
