from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal, getcontext, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from dp_sql.budget import accountants
from dp_sql.budget.accountants import Accountant, accountant, epsilon_of_rho, largest_rho
from dp_sql.budget.amounts import ATTO, NANO, PICO, Amount, Spent, amount_of, amounts_of
from dp_sql.budget.model import AccountantName, Cap
from dp_sql.errors import PolicyError
from dp_sql.udfs.mechanism import PrivacyLoss
from tests.budget.adversary import SCALE, Flip, Reveal, coin, delta_of, log_between, worst

pytestmark = pytest.mark.pure

TENTH = Fraction(1, 10)
MILLIONTH = Fraction(1, 10**6)
CAP = Cap(Fraction(1), MILLIONTH)
NOTES = Path(accountants.__file__).with_suffix(".md").read_text(encoding="utf-8")
TOPK = PrivacyLoss(TENTH, rho=TENTH**2 / 8, bounded_range=TENTH)
COUNT = PrivacyLoss(TENTH)


def sum_of(*losses: PrivacyLoss) -> Spent:
    spent = Spent()
    for loss in losses:
        spent = spent.plus(amount_of(loss))
    return spent


def how_many(judge: Accountant, loss: PrivacyLoss) -> int:
    spent, n = sum_of(loss), 0
    while judge.fits(spent):
        spent, n = spent.plus(amount_of(loss)), n + 1
    return n


def price(flip: Flip) -> PrivacyLoss:
    """What a mechanism with these two outcomes states of itself."""
    up, down = log_between(flip.up)[1], log_between(1 / flip.down)[1]
    if up == down:
        return PrivacyLoss(up)
    return PrivacyLoss(up + down, rho=(up + down) ** 2 / 8, bounded_range=up + down)


# --- basic ---------------------------------------------------------------------------------------


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


# --- the conversion of rho ------------------------------------------------------------------------

GRID = [
    (Fraction(epsilon), Fraction(1, 10**places))
    for epsilon in ("0.01", "0.3", "1", "8", "100")
    for places in (3, 6, 12, 18)
]
Conversion = Callable[[Cap], int]


def log_delta_at(a: Decimal, rho: Decimal, epsilon: Decimal) -> Decimal:
    """Logarithm of exp((a-1)(a rho - epsilon)) (1 - 1/a)^a / (a-1), with the context's digits."""
    return (a - 1) * (a * rho - epsilon) + a * (1 - 1 / a).ln() - (a - 1).ln()


def best_log_delta(rho: Decimal, epsilon: Decimal) -> Decimal:
    """Its least over a, by ever finer grids."""
    low, high = Decimal("1e-7"), Decimal("1e12")
    best = Decimal("Infinity")
    for _ in range(14):
        ratio = (high / low) ** (Decimal(1) / 16)
        places = [low * ratio**i for i in range(17)]
        values = [log_delta_at(1 + x, rho, epsilon) for x in places]
        best = min(best, *values)
        at = values.index(min(values))
        low, high = places[max(0, at - 1)], places[min(16, at + 1)]
    return best


def too_much(conversion: Conversion, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether the rho that a conversion allows is beyond what any order proves."""
    with localcontext(prec=40):
        rho = Decimal(conversion(Cap(epsilon, delta))) / PICO
        exact = Decimal(epsilon.numerator) / Decimal(epsilon.denominator)
        allowed = Decimal(delta.numerator).ln() - Decimal(delta.denominator).ln()
        return rho > 0 and best_log_delta(rho, exact) > allowed


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_the_largest_rho_is_proved_by_some_order_and_one_unit_more_by_none(
    epsilon: Fraction, delta: Fraction
) -> None:
    assert not too_much(largest_rho, epsilon, delta)
    assert too_much(lambda cap: largest_rho(cap) + 2, epsilon, delta)


def test_a_conversion_rounded_the_wrong_way_is_found_out() -> None:
    def rounded_up(cap: Cap) -> int:
        return largest_rho(cap) + 1

    assert all(too_much(rounded_up, epsilon, delta) for epsilon, delta in GRID)


def test_the_largest_rho_does_not_hang_on_anyone_s_decimal_context() -> None:
    cap = Cap(Fraction(77, 100), Fraction(1, 12345))
    expected = largest_rho(cap)
    largest_rho.cache_clear()
    with localcontext() as context:
        context.prec = 5
        assert getcontext().prec == 5
        assert largest_rho(cap) == expected


def test_the_conversion_is_better_than_the_simple_one() -> None:
    with localcontext(prec=40):
        for epsilon, delta in GRID:
            log = -Decimal(delta.numerator).ln() + Decimal(delta.denominator).ln()
            exact = Decimal(epsilon.numerator) / Decimal(epsilon.denominator)
            simple = ((log + exact).sqrt() - log.sqrt()) ** 2
            assert largest_rho(Cap(epsilon, delta)) > simple * PICO - 1


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_the_epsilon_shown_for_the_largest_rho_is_the_cap_s(
    epsilon: Fraction, delta: Fraction
) -> None:
    rho = largest_rho(Cap(epsilon, delta))
    assert epsilon_of_rho(rho, delta) <= epsilon * NANO + 1
    assert epsilon_of_rho(rho + 10**6, delta) > epsilon * NANO


@pytest.mark.parametrize("t", range(1, 8))
def test_a_bounded_range_has_the_rho_that_is_charged_for_it(t: int) -> None:
    base, steps = Fraction(11, 10), 8
    flip = Flip(base**t, base ** (t - steps))
    with localcontext(prec=40):
        u = steps * (Decimal(11) / Decimal(10)).ln()
        for a in range(2, 60):
            moment = flip.p * flip.up ** (a - 1) + (1 - flip.p) * flip.down ** (a - 1)
            renyi = (Decimal(moment.numerator) / Decimal(moment.denominator)).ln() / (a - 1)
            assert renyi <= a * u * u / 8


# --- fixed releases, exactly -----------------------------------------------------------------------


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


# --- releases chosen from earlier answers, exactly ---------------------------------------------------

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


def test_an_accountant_that_composes_each_path_s_distributions_is_found_out() -> None:
    menu = MENU[1:4]

    def naive(counts: tuple[int, ...]) -> bool:
        return delta_of(flips((0, *counts, 0, 0)), LIMIT) <= QUARTER

    assert worst(menu, naive, LIMIT) >= Fraction(53, 180)


# --- approximate rhos, exactly ---------------------------------------------------------------------

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


@pytest.mark.parametrize("kept", [TENTH, SHARE])
@pytest.mark.parametrize("spends", [TENTH, SHARE])
def test_no_adaptive_choice_with_deltas_and_ranges_exceeds_the_cap(
    kept: Fraction, spends: Fraction
) -> None:
    found = worst_with_reveals(of_range(kept).fits, spends, COINS[0])
    assert found <= TENTH
    assert (found > spends * TENTH) == (spends <= kept), "a reveal is let through where it fits"


def test_ranges_at_all_of_delta_beside_kept_deltas_are_found_out() -> None:
    wrong = replace(of_range(SHARE), most=of_range(Fraction(0)).most)
    assert worst_with_reveals(wrong.fits, SHARE, COINS[0]) > TENTH


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


# --- the alternatives ------------------------------------------------------------------------------

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


# --- how many -------------------------------------------------------------------------------------

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


# --- what is shown --------------------------------------------------------------------------------


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
