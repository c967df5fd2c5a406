"""No analyst who chooses each question by the answers before exceeds the cap; rules that are wrong are found."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from dp_sql.budget import accountants
from dp_sql.budget.accountants import Accountant, accountant, largest_rho
from dp_sql.budget.amounts import ATTO, NANO, PICO, Spent, amount_of, amounts_of
from dp_sql.budget.model import AccountantName, Cap
from dp_sql.udfs.mechanism import PrivacyLoss
from tests.budget.adversary import SCALE, Flip, Reveal, coin, delta_of, log_between, worst
from tests.budget.losses import MILLIONTH, NOTES, TENTH, how_many, price

pytestmark = pytest.mark.pure


def allows_too_many(judge: Accountant, odds: Fraction, limit: Fraction, delta: Fraction) -> bool:
    """Whether as many coins of these odds as fit have, exactly, more than delta."""
    flip = coin(odds)
    return delta_of([flip] * how_many(judge, price(flip)), limit) > delta


@pytest.mark.parametrize("name", ["zcdp", "pld"])
@pytest.mark.parametrize("odds", [Fraction(21, 20), Fraction(11, 10), Fraction(3, 2)])
def test_coins_that_fit_stay_within_delta(name: AccountantName, odds: Fraction) -> None:
    limit, delta = Fraction(3), MILLIONTH
    u = 2 * log_between(odds)[1]
    judge = accountant(name, Cap(log_between(limit)[0], delta), u)
    assert not allows_too_many(judge, odds, limit, delta)


def test_a_rho_with_a_factor_missing_is_found_out() -> None:
    limit, delta = Fraction(3), MILLIONTH
    judge = accountant("zcdp", Cap(log_between(limit)[0], delta), None)
    assert isinstance(judge, accountants._Zcdp)
    assert allows_too_many(replace(judge, most=2 * judge.most), Fraction(21, 20), limit, delta)


BASE = Fraction(1010050, 10**6)  # about e^0.01


STEP = log_between(BASE)


AT = 100


def delta_on_grid(losses: Sequence[tuple[int, int]]) -> Fraction:
    """A delta, never too high, at epsilon = AT steps, of releases with losses up and -down."""
    masses = {0: SCALE}
    for up, down in losses:
        p = int(Flip(BASE**up, BASE**-down).p * SCALE)
        after: Counter[int] = Counter()
        for loss, mass in masses.items():
            after[loss + up] += mass * p // SCALE
            after[loss - down] += mass * (SCALE - p - 1) // SCALE
        masses = dict(after)
    tail = (int(m * (1 - BASE ** (AT - x))) for x, m in masses.items() if x > AT)
    return Fraction(sum(tail), SCALE)


@st.composite
def releases(draw: st.DrawFn) -> list[tuple[int, int, bool]]:
    """Some kinds of releases, each many times: its two losses, and whether it is only pure."""
    found = []
    for _ in range(draw(st.integers(1, 3))):
        times, up, down = (
            draw(st.integers(1, 60)),
            draw(st.integers(2, 12)),
            draw(st.integers(2, 12)),
        )
        pure = draw(st.booleans())
        found += [(up, up if pure else down, pure)] * times
    return found


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ["basic", "zcdp", "pld"])
@given(chosen=releases())
@hypothesis_settings(max_examples=25, deadline=None)
def test_whatever_fits_stays_within_delta(
    name: AccountantName, chosen: list[tuple[int, int, bool]]
) -> None:
    judge = accountant(name, Cap(AT * STEP[0], MILLIONTH), 12 * STEP[1])
    assert delta_reached(judge.fits, chosen) <= MILLIONTH


def delta_reached(fits: Callable[[Spent], bool], chosen: list[tuple[int, int, bool]]) -> Fraction:
    """The delta of those releases, in turn, that a filter lets through."""
    spent, ran = Spent(), []
    for up, down, pure in chosen:
        u = (up + down) * STEP[1]
        loss = PrivacyLoss(up * STEP[1]) if pure else PrivacyLoss(u, rho=u**2 / 8, bounded_range=u)
        if fits(after := spent.plus(amount_of(loss))):
            spent = after
            ran.append((up, down))
    return delta_on_grid(ran)


def test_a_budget_for_each_alternative_side_by_side_is_found_out() -> None:
    judge = accountant("zcdp", Cap(AT * STEP[0], MILLIONTH), None)
    assert isinstance(judge, accountants._Zcdp)
    basic, most = accountant("basic", Cap(judge.cap.epsilon), None), judge.most

    def apart(spent: Spent) -> bool:
        """As if what is pure and what has a smaller rho were each within their own budget."""
        choices = spent.n - pure_ones(spent)
        alone = spent._replace(epsilon=spent.epsilon - choices * one.epsilon)
        return basic.fits(alone) and choices * (one.rho or 0) <= most

    def pure_ones(spent: Spent) -> int:
        return min(spent.n, 9)

    u = 10 * STEP[1]
    one = amount_of(PrivacyLoss(u, rho=u**2 / 8, bounded_range=u))
    chosen = [(10, 10, True)] * 9 + [(5, 5, False)] * 30
    assert delta_reached(judge.fits, chosen) <= MILLIONTH < delta_reached(apart, chosen)


MENU = (
    coin(Fraction(6, 5)),
    coin(Fraction(3, 2)),
    coin(Fraction(2)),
    coin(Fraction(3)),
    Flip(Fraction(3, 2), Fraction(5, 6)),
    Flip(Fraction(6, 5), Fraction(2, 3)),
)


PRICES = tuple(amount_of(price(flip)) for flip in MENU)


LIMIT = Fraction(2)


QUARTER = Fraction(1, 4)


def total(counts: tuple[int, ...]) -> Spent:
    spent = Spent()
    for n, amount in zip(counts, PRICES, strict=True):
        for _ in range(n):
            spent = spent.plus(amount)
    return spent


def flips(counts: tuple[int, ...]) -> list[Flip]:
    return [flip for n, flip in zip(counts, MENU, strict=True) for _ in range(n)]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", ["basic", "zcdp", "pld"])
@pytest.mark.parametrize("delta", [Fraction(1, 1000), Fraction(1, 50), Fraction(1, 10)])
def test_no_adaptive_choice_exceeds_the_cap(name: AccountantName, delta: Fraction) -> None:
    u = log_between(Fraction(9, 5))[1]
    judge = accountant(name, Cap(log_between(LIMIT)[0], delta), u)
    assert worst(MENU, lambda counts: judge.fits(total(counts)), LIMIT) <= delta


def test_naive_composition_of_loss_distributions_is_no_filter() -> None:
    first, one, two = coin(Fraction(3, 2)), coin(Fraction(3)), [coin(Fraction(2))] * 2
    assert delta_of([first, one], LIMIT) == Fraction(1, 4)
    assert delta_of([first, *two], LIMIT) == Fraction(2, 9)
    # One bold release after the answer of the higher loss, two timid ones after the other.
    whole = first.p * delta_of([one], LIMIT / first.up)
    whole += (1 - first.p) * delta_of(two, LIMIT / first.down)
    assert whole == Fraction(53, 180) > Fraction(1, 4)


@pytest.mark.thorough
def test_an_accountant_that_composes_each_path_s_distributions_is_found_out() -> None:
    menu = MENU[1:4]

    def naive(counts: tuple[int, ...]) -> bool:
        return delta_of(flips((0, *counts, 0, 0)), LIMIT) <= QUARTER

    assert worst(menu, naive, LIMIT) >= Fraction(53, 180)


TEN_PERCENT = Cap(log_between(Fraction(3))[0], TENTH)


SHARE = Fraction(9, 10)


def worst_with_reveals(fits: Callable[[Spent], bool], share: Fraction, *coins: Flip) -> Fraction:
    """The worst delta at e^epsilon = 3 of coins, and of reveals that spend a share of TENTH."""
    reveal = Reveal(share * TENTH)
    loss = PrivacyLoss(Fraction(1, NANO), reveal.p, approximate=(Fraction(1, PICO), reveal.p))
    prices = [amounts_of(one) for one in (*map(price, coins), loss)]

    def admits(counts: tuple[int, ...]) -> bool:
        pairs = zip(counts, prices, strict=True)
        spent = Spent().plus(*(one for n, amounts in pairs for _ in range(n) for one in amounts))
        return counts[-1] <= 2 and fits(spent)

    return worst((*coins, reveal), admits, Fraction(3))


COINS = (coin(Fraction(6, 5)), coin(Fraction(216, 125)))


def with_share(share: Fraction) -> accountants._Zcdp:
    judge = accountant("zcdp", TEN_PERCENT, None, share)
    assert isinstance(judge, accountants._Zcdp)
    return judge


@pytest.mark.parametrize("kept", [TENTH, Fraction(1, 2), SHARE])
@pytest.mark.parametrize("spends", [TENTH, Fraction(1, 2), SHARE])
def test_no_adaptive_choice_with_approximate_rhos_exceeds_the_cap(
    kept: Fraction, spends: Fraction
) -> None:
    found = worst_with_reveals(with_share(kept).fits, spends, *COINS)
    assert found <= TENTH
    assert (found > spends * TENTH) == (spends <= kept), "a reveal is let through where it fits"


def forgotten(spent: Spent) -> bool:
    """As if an approximate rho were a rho."""
    return spent.rho <= with_share(SHARE).most


def at_all_of_delta(spent: Spent) -> bool:
    """As if the slack came on top of delta."""
    return replace(with_share(SHARE), most=largest_rho(TEN_PERCENT)).fits(spent)


def at_what_is_left(spent: Spent) -> bool:
    """As if rhos could be converted at what each history leaves of delta."""
    left = TENTH - Fraction(spent.slack, ATTO)
    return left > 0 and spent.rho <= largest_rho(replace(TEN_PERCENT, delta=left))


def at_all_before_the_first_slack(spent: Spent) -> bool:
    """As if delta had to be divided only by those who need it."""
    return with_share(SHARE).fits(spent) or (
        not spent.slack and spent.rho <= largest_rho(TEN_PERCENT)
    )


@pytest.mark.thorough
@pytest.mark.parametrize(
    "wrong", [forgotten, at_all_of_delta, at_what_is_left, at_all_before_the_first_slack]
)
def test_a_wrong_rule_for_approximate_rhos_is_found_out(wrong: Callable[[Spent], bool]) -> None:
    found = worst_with_reveals(wrong, SHARE, *COINS)
    assert found > TENTH
    if wrong in {at_what_is_left, at_all_before_the_first_slack}:
        assert f"**{float(found):.3f}** > D" in NOTES


# The same for "pld", whose releases all have one range.


def of_range(share: Fraction) -> accountants._Pld:
    judge = accountant("pld", TEN_PERCENT, 2 * log_between(COINS[0].up)[1], share)
    assert isinstance(judge, accountants._Pld)
    return judge


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kept", [TENTH, SHARE])
@pytest.mark.parametrize("spends", [TENTH, SHARE])
def test_no_adaptive_choice_with_deltas_and_ranges_exceeds_the_cap(
    kept: Fraction, spends: Fraction
) -> None:
    found = worst_with_reveals(of_range(kept).fits, spends, COINS[0])
    assert found <= TENTH
    assert (found > spends * TENTH) == (spends <= kept), "a reveal is let through where it fits"


@pytest.mark.thorough
def test_ranges_at_all_of_delta_beside_kept_deltas_are_found_out() -> None:
    wrong = replace(of_range(SHARE), most=of_range(Fraction(0)).most)
    assert worst_with_reveals(wrong.fits, SHARE, COINS[0]) > TENTH
