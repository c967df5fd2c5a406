"""What each accountant admits, refuses and shows."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from dp_sql.budget import accountants
from dp_sql.budget.accountants import accountant, epsilon_of_rho, largest_rho
from dp_sql.budget.amounts import ATTO, NANO, PICO, Amount, Spent, amount_of, amounts_of
from dp_sql.budget.model import AccountantName, Cap
from dp_sql.errors import PolicyError
from dp_sql.udfs.mechanism import PrivacyLoss
from tests.budget.losses import CAP, COUNT, MILLIONTH, NOTES, TENTH, TOPK, how_many, sum_of

pytestmark = pytest.mark.pure


def test_basic_adds_exactly_to_the_cap_and_not_beyond() -> None:
    judge = accountant("basic", Cap(Fraction(1)), None)
    assert how_many(judge, COUNT) == 10
    assert judge.fits(sum_of(*[PrivacyLoss(Fraction(1, 4))] * 4))
    assert not judge.fits(sum_of(PrivacyLoss(Fraction(1)), PrivacyLoss(Fraction(1, NANO))))
    assert not judge.fits(sum_of(*[PrivacyLoss(Fraction(1, 3))] * 3)), "each third is rounded up"


def test_basic_adds_deltas_exactly() -> None:
    judge = accountant("basic", CAP, None)
    half = PrivacyLoss(TENTH, Fraction(1, 2 * 10**6))
    assert judge.fits(sum_of(half, half))
    assert not judge.fits(sum_of(half, half, PrivacyLoss(TENTH, Fraction(1, ATTO))))
    assert (judge.epsilon_spent(sum_of(half)), judge.delta_spent(sum_of(half))) == (
        NANO // 10,
        ATTO // (2 * 10**6),
    )


@pytest.mark.parametrize("name", ["zcdp", "pld"])
def test_without_delta_there_is_only_basic(name: AccountantName) -> None:
    judge = accountant(name, Cap(Fraction(1)), TENTH)
    assert judge.name == name
    assert [how_many(judge, loss) for loss in (TOPK, COUNT)] == [10, 10]
    assert judge.epsilon_spent(sum_of(TOPK, COUNT)) == 2 * NANO // 10
    assert judge.delta_spent(sum_of(TOPK)) == 0


DISCOVERY = PrivacyLoss(TENTH, MILLIONTH / 50, approximate=(TENTH**2 / 200, MILLIONTH / 100))


def test_an_approximate_rho_costs_its_rho_until_the_kept_delta_is_spent() -> None:
    judge, spent = accountant("zcdp", CAP, None, TENTH), Spent()
    assert not any(map(judge.refuses, amounts_of(DISCOVERY)))
    for _ in range(10):
        spent = spent.plus(*amounts_of(DISCOVERY))
        assert judge.fits(spent)
        rest = epsilon_of_rho(spent.rho, MILLIONTH * 9 / 10)
        assert (judge.epsilon_spent(spent), judge.delta_spent(spent)) == (rest, ATTO // 10**6)
    assert (spent.rho, spent.slack) == (PICO // 2000, ATTO // 10**7)
    assert not judge.fits(spent.plus(*amounts_of(DISCOVERY)))
    assert judge.fits(spent.plus(amount_of(TOPK)))


def test_without_a_kept_delta_nothing_changes_and_an_approximate_rho_is_refused() -> None:
    judge = accountant("zcdp", CAP, None)
    assert isinstance(judge, accountants._Zcdp) and judge.most == largest_rho(CAP)
    sentences = [judge.refuses(amount) for amount in amounts_of(DISCOVERY)]
    assert sentences[0] is None and "discovery_share = 0.1" in str(sentences[1])
    assert not judge.fits(Spent().plus(*amounts_of(DISCOVERY)))


@given(rho=st.fractions(0, 10), delta=st.fractions(0, 1), share=st.fractions(0, 1))
def test_the_amounts_of_an_approximate_rho_add_up_to_epsilon_and_delta(
    rho: Fraction, delta: Fraction, share: Fraction
) -> None:
    if not rho or not 0 < delta < 1 or not share:
        return
    loss = PrivacyLoss(TENTH, delta, approximate=(rho, share * delta))
    whole, slack = amounts_of(loss)
    assert (whole.epsilon + slack.epsilon, whole.delta + slack.delta) == amount_of(loss)[:2]
    assert slack == (0, -(-share * delta * ATTO // 1), None, 0) and whole.delta >= 0
    assert whole.rho == -(-rho * PICO // 1)


FIFTH = Fraction(1, 5)


UNKNOWN = PrivacyLoss(TENTH, MILLIONTH / 2)


KNOWN = PrivacyLoss(TENTH, MILLIONTH / 2, rho=TENTH**2 / 8)


def counts_the_unknown(judge: Any) -> bool:
    """Whether a loss is let through of which neither rho nor a range is known."""
    return bool(judge.fits(sum_of(UNKNOWN)) or judge.fits(sum_of(UNKNOWN, COUNT)))


@pytest.mark.parametrize("name", ["zcdp", "pld"])
def test_a_loss_with_delta_and_nothing_else_known_is_refused_in_a_sentence(
    name: AccountantName,
) -> None:
    judge = accountant(name, CAP, FIFTH)
    sentence = judge.refuses(amount_of(UNKNOWN))
    assert sentence is not None
    assert name in sentence and "discovery_share = 0.1" in sentence
    assert not counts_the_unknown(judge)
    assert judge.refuses(amount_of(TOPK)) is None
    assert (judge.refuses(amount_of(KNOWN)) is None) == (name == "zcdp"), "rho alone bounds it"


def test_pld_refuses_what_would_spoil_its_rule_for_all_who_ask_later() -> None:
    sentence = accountant("pld", CAP, TENTH).refuses(amount_of(COUNT))
    assert sentence is not None and "charges every release as epsilon = 0.1" in sentence
    assert accountant("zcdp", CAP, None).refuses(amount_of(COUNT)) is None
    assert accountant("pld", CAP, 2 * TENTH).refuses(amount_of(COUNT)) is None


def test_an_accountant_that_takes_an_unknown_rho_for_none_is_found_out() -> None:
    class Careless(accountants._Zcdp):
        def _used(self, spent: Spent) -> int:
            return spent.rho

    assert counts_the_unknown(Careless(CAP, largest_rho(CAP)))


def test_a_loss_with_delta_and_a_rho_counts_by_its_rho_alone() -> None:
    judge = accountant("zcdp", CAP, None)
    assert how_many(judge, KNOWN) == how_many(judge, TOPK)
    assert judge.delta_spent(sum_of(KNOWN)) == ATTO // 10**6


@pytest.mark.parametrize("name", ["zcdp", "pld"])
def test_a_loss_with_delta_counts_until_the_kept_delta_is_spent(name: AccountantName) -> None:
    judge, spent = accountant(name, CAP, TENTH, TENTH), Spent()
    loss = PrivacyLoss(Fraction(1, 100), MILLIONTH / 40)
    assert not any(map(judge.refuses, amounts_of(loss)))
    for _ in range(4):
        spent = spent.plus(*amounts_of(loss))
        assert judge.fits(spent)
    assert not judge.fits(spent.plus(*amounts_of(loss)))
    assert judge.fits(spent.plus(amount_of(TOPK)))


def test_basic_refuses_nothing() -> None:
    judge = accountant("basic", CAP, None)
    assert [judge.refuses(amount_of(loss)) for loss in (UNKNOWN, COUNT)] == [None, None]


def test_a_history_with_a_release_wider_than_the_unit_has_basic_alone() -> None:
    judge = accountant("pld", CAP, TENTH)
    assert judge.fits(sum_of(COUNT, *[TOPK] * 9))
    assert not judge.fits(sum_of(COUNT, *[TOPK] * 10))


def test_a_unit_that_is_no_whole_number_of_units_still_takes_its_own_releases() -> None:
    third = Fraction(1, 3)
    judge = accountant("pld", CAP, third)
    assert isinstance(judge, accountants._Pld)
    n = judge.most
    assert n >= 3
    assert judge.fits(sum_of(*[PrivacyLoss(third, rho=third**2 / 8, bounded_range=third)] * n))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["zcdp", "pld"])
@given(sizes=st.lists(st.integers(1, 400), max_size=40), delta_places=st.integers(2, 18))
@hypothesis_settings(max_examples=40, deadline=None)
def test_what_fits_by_basic_composition_of_pure_losses_always_fits(
    name: AccountantName, sizes: list[int], delta_places: int
) -> None:
    cap = Cap(Fraction(1), Fraction(1, 10**delta_places))
    spent = sum_of(*[PrivacyLoss(Fraction(size, 1000)) for size in sizes])
    judge = accountant(name, cap, TENTH)
    assert judge.fits(spent) or not accountant("basic", cap, None).fits(spent)
    assert judge.epsilon_spent(spent) <= spent.epsilon


TABLE = {  # name, release_epsilon, epsilon of each: top-k lists, distinct counts
    ("basic", None, "0.1"): (10, 10),
    ("zcdp", None, "0.1"): (19, 10),
    ("pld", "0.1", "0.1"): (22, 10),
    ("pld", "0.2", "0.1"): (10, 10),
    ("basic", None, "0.05"): (20, 20),
    ("zcdp", None, "0.05"): (77, 20),
    ("pld", "0.05", "0.05"): (88, 20),
    ("pld", "0.1", "0.05"): (22, 22),
    ("basic", None, "0.02"): (50, 50),
    ("zcdp", None, "0.02"): (487, 121),
    ("pld", "0.02", "0.02"): (548, 50),
    ("pld", "0.04", "0.02"): (137, 137),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("row", TABLE)
def test_so_many_queries_fit_into_epsilon_1_and_delta_1e_6(
    row: tuple[AccountantName, str | None, str],
) -> None:
    name, unit, size = row
    epsilon = Fraction(size)
    judge = accountant(name, CAP, None if unit is None else Fraction(unit))
    topk = PrivacyLoss(epsilon, rho=epsilon**2 / 8, bounded_range=epsilon)
    assert (how_many(judge, topk), how_many(judge, PrivacyLoss(epsilon))) == TABLE[row]


def test_the_table_of_the_notes_is_the_tested_one() -> None:
    rows = [
        f"| {size} | {name} | {unit + ' ' if unit else ''}| {lists} | {counts} |"
        for (name, unit, size), (lists, counts) in TABLE.items()
    ]
    assert "\n".join(rows) in NOTES


@pytest.mark.parametrize("name", ["basic", "zcdp", "pld"])
def test_what_is_shown_starts_at_nothing_and_never_passes_the_cap(name: AccountantName) -> None:
    judge = accountant(name, CAP, TENTH)
    assert (judge.epsilon_spent(Spent()), judge.delta_spent(Spent())) == (0, 0)
    spent, before = sum_of(TOPK), 0
    while judge.fits(spent):
        assert before <= judge.epsilon_spent(spent) <= NANO
        assert judge.delta_spent(spent) in {0, ATTO // 10**6}
        before = judge.epsilon_spent(spent)
        spent = spent.plus(amount_of(TOPK))
    assert before > NANO * 9 // 10
    assert judge.epsilon_spent(spent) > NANO


def test_one_pure_release_is_shown_as_its_epsilon_without_delta() -> None:
    judge = accountant("zcdp", CAP, None)
    assert judge.epsilon_spent(sum_of(TOPK)) == NANO // 10
    assert judge.delta_spent(sum_of(TOPK)) == 0


@pytest.mark.parametrize("name", ["zcdp", "pld"])
def test_a_history_that_cannot_be_counted_is_shown_as_its_plain_sum(name: AccountantName) -> None:
    judge, spent = accountant(name, CAP, TENTH), sum_of(UNKNOWN, COUNT)
    assert judge.epsilon_spent(spent) == 2 * NANO // 10
    assert judge.delta_spent(spent) == ATTO // (2 * 10**6)


def test_an_amount_too_large_for_its_rho_is_still_counted_as_pure() -> None:
    judge = accountant("zcdp", Cap(Fraction(10**6), MILLIONTH), None)
    large = Amount(NANO * 10**5, rho=None, bounded_range=2 * NANO * 10**5)
    assert judge.refuses(large) is None
    assert judge.fits(Spent().plus(large))


def test_pld_needs_a_release_epsilon() -> None:
    with pytest.raises(PolicyError, match="release_epsilon"):
        accountant("pld", CAP, None)
