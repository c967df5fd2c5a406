"""People who are kept in some of their groups by a draw: what the answers cost, exactly.

The theorem and its example are in dp_sql/budget/accountants.md, "Releases that draw first".
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import chain, combinations, combinations_with_replacement, product

import pytest

from dp_sql.budget.accountants import accountant
from dp_sql.budget.model import AccountantName, Cap
from dp_sql.udfs.mechanism import PrivacyLoss
from dp_sql.udfs.topk import joint, template
from tests.budget import draws
from tests.budget.adversary import log_between
from tests.budget.draws import Between, Case, Grouped, Pair, Person, exactly
from tests.budget.losses import how_many
from tests.udfs.distributions import NotPrivateError

pytestmark = pytest.mark.pure

ROOT_OF_E = draws.exp_of(Fraction(1, 2))
E = ROOT_OF_E**2
TINY = Fraction(1, 10**20)


def declared(factor_root: Between, cap: int) -> PrivacyLoss:
    """The price of a DP_TOPK with GROUP BY whose epsilon is u, or a little less."""
    return joint.loss(1, log_between((factor_root**2).low)[0] / cap).times(cap)


def check_all(cases: Sequence[Case], factor_root: Between, cap: int = 1) -> None:
    """Check all that the theorem claims for releases of range u, where e^(u/2) = factor_root."""
    draws.check_ranges(cases, factor_root**2)
    for pair in (draws.answers(cases), draws.draws_and_answers(cases)):
        draws.check_delta(pair, factor_root)
        draws.check_rho(pair, declared(factor_root, cap).rho or Fraction(0))


# --- the example of accountants.md ----------------------------------------------------------------

A, B, C = range(3)
TWO = exactly(2)
TIGHT = Grouped(3, exactly(4), cap=1, alone=((0, 0, 0), (0, 0, 0)))


def twelve_others(power: Between = E) -> list[Case]:
    """Twelve people in both groups, eight more in each who hold b, and one who holds a."""
    release = Grouped(3, power, cap=1, alone=((0, 8, 0), (0, 8, 0)))
    other: Person = frozenset({(0, A), (0, C), (1, A)})
    return release.release([other] * 12, frozenset({(0, A)}))


def test_the_cut_of_joint_lies_beyond_all_counts_of_the_example() -> None:
    assert template.cut_of(3, joint.rate_of(1, Fraction(1))) > 13


def test_given_the_draws_of_the_others_the_range_is_exactly_1() -> None:
    cases = twelve_others()
    assert len(cases) == 13
    for case in cases:
        found = draws.spread(case.pair)
        assert found.low <= E.high
        assert E.low <= found.high
        assert found.high - found.low < TINY


def test_the_answer_alone_has_a_range_above_1() -> None:
    pair = draws.answers(twelve_others())
    ratios = {answer: pair[0][answer] / pair[1][answer] for answer in pair[1]}
    largest, smallest = ratios[A, A], ratios[C, B]
    assert largest.high - largest.low < TINY
    assert round(largest.low, 5) == Fraction("2.28479")
    assert round(smallest.low, 5) == Fraction("0.69674")
    spread = draws.spread(pair)
    assert log_between(spread.low)[0] > Fraction("1.18761")
    assert log_between(spread.high)[1] < Fraction("1.18762")
    with pytest.raises(NotPrivateError, match="range"):
        draws.check_ranges([Case(Fraction(1), pair)], E)


def test_its_delta_and_its_divergences_are_those_of_range_1() -> None:
    check_all(twelve_others(), ROOT_OF_E)


def test_the_example_at_twice_the_rate_is_rejected() -> None:
    with pytest.raises(NotPrivateError, match="range"):
        check_all(twelve_others(E**2), ROOT_OF_E)


def test_one_other_person_is_enough_for_a_wider_range() -> None:
    """With weights 4^count, given either draw the range is ln 4; without it, ln(484/115)."""
    other: Person = frozenset({(0, A), (0, C), (1, A)})
    cases = TIGHT.release([other], frozenset({(0, A)}))
    assert [draws.spread(case.pair) for case in cases] == [exactly(4)] * 2
    pair = draws.answers(cases)
    assert pair[0][A, A] / pair[1][A, A] == exactly(Fraction(66, 35))
    assert pair[0][C, B] / pair[1][C, B] == exactly(Fraction(69, 154))
    assert draws.spread(pair) == exactly(Fraction(484, 115))
    check_all(cases, TWO)


# --- all small instances, with e^u = 4 ------------------------------------------------------------

ONE_GROUP_OF_TWO = Grouped(2, exactly(4), cap=1, alone=((0, 0), (0, 0)))
TWO_GROUPS_OF_THREE = Grouped(2, TWO, cap=2, alone=((0, 0), (0, 0), (0, 0)))


def people(n_groups: int) -> list[Person]:
    """Some people: in one group, in all, with the same items and with others."""
    every = range(n_groups)
    return [
        frozenset({(0, 0)}),
        frozenset({(1, 0), (1, 1)}),
        frozenset((g, 0) for g in every),
        frozenset((g, g % 2) for g in every),
        frozenset((g, i) for g in every for i in range(2)),
        frozenset({*((g, 0) for g in every), (0, 1)}),
    ]


def instances(release: Grouped, n_others: int) -> Iterator[list[Case]]:
    those = people(len(release.alone))
    for n in range(n_others + 1):
        for others in combinations_with_replacement(those, n):
            for person in those:
                yield release.release(others, person)


@pytest.mark.parametrize("cap", [1, 2])
def test_the_declared_range_is_the_one_of_these_tests(cap: int) -> None:
    loss, (low, high) = declared(TWO, cap), log_between(Fraction(4))
    assert loss.bounded_range is not None
    assert low <= loss.bounded_range <= high
    assert loss.rho == loss.bounded_range**2 / (8 * cap)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("release", "n_others"),
    [
        (ONE_GROUP_OF_TWO, 1),
        (TWO_GROUPS_OF_THREE, 1),
        pytest.param(ONE_GROUP_OF_TWO, 2, marks=pytest.mark.slow),
        pytest.param(TWO_GROUPS_OF_THREE, 2, marks=pytest.mark.slow),
    ],
)
def test_every_small_instance_costs_what_is_charged(release: Grouped, n_others: int) -> None:
    for cases in instances(release, n_others):
        assert sum(case.weight for case in cases) == 1
        check_all(cases, TWO, release.cap)


# Without others, one person who holds one of three items needs all of the delta of range u.


def tight(power: Between = TIGHT.power) -> list[Case]:
    return replace(TIGHT, power=power).release([], frozenset({(0, A)}))


def test_the_bound_on_delta_is_reached() -> None:
    assert draws.delta(draws.answers(tight()), Fraction(1)) == Fraction(1, 3)
    assert draws.most_delta(Fraction(1), TWO) == Fraction(1, 3)
    check_all(tight(), TWO)


def check_answer_delta(cases: Sequence[Case]) -> None:
    draws.check_delta(draws.answers(cases), TWO)


def check_answer_rho(cases: Sequence[Case]) -> None:
    draws.check_rho(draws.answers(cases), declared(TWO, 1).rho or Fraction(0))


def check_given_draws(cases: Sequence[Case]) -> None:
    draws.check_ranges(cases, exactly(4))


@pytest.mark.parametrize("check", [check_given_draws, check_answer_delta, check_answer_rho])
def test_each_check_rejects_twice_the_rate(check: Callable[[Sequence[Case]], None]) -> None:
    check(tight())
    with pytest.raises(NotPrivateError):
        check(tight(exactly(16)))


@pytest.mark.parametrize("check", [check_given_draws, check_answer_delta, check_answer_rho])
def test_each_check_rejects_a_person_in_two_groups_at_the_rate_for_one(
    check: Callable[[Sequence[Case]], None],
) -> None:
    both: Person = frozenset({(0, A), (1, A)})
    check(TIGHT.release([], both))
    with pytest.raises(NotPrivateError):
        check(replace(TIGHT, cap=2).release([], both))


def kept_where_fewest_are(others: Sequence[Person], person: Person) -> list[Case]:
    """A wrong release: people are kept in the emptier of two groups, this person before others."""

    def law(everyone: Sequence[Person]) -> draws.Law:
        kept, sizes = [], [0, 0]
        for one in everyone:
            group = min({group for group, _ in one}, key=lambda g: (sizes[g], g))
            sizes[group] += 1
            kept.append((one, frozenset({group})))
        return TIGHT.law(TIGHT.counts(kept))

    return [Case(Fraction(1), (law([person, *others]), law(others)))]


def test_groups_that_depend_on_other_people_are_rejected() -> None:
    other: Person = frozenset({(0, B), (1, B)})
    check_all(TIGHT.release([other], frozenset({(0, A)})), TWO)
    with pytest.raises(NotPrivateError, match="range"):
        check_all(kept_where_fewest_are([other], frozenset({(0, A)})), TWO)


# --- releases chosen from the answers before, under a budget --------------------------------------

U = log_between(Fraction(4))[1]
LIMIT = Fraction(2)


def menu(power: Between = TIGHT.power) -> list[list[Case]]:
    """Releases about one person, among which the analyst chooses."""
    release = replace(TIGHT, power=power)
    return [
        release.release([], frozenset({(0, A)})),
        release.release([frozenset({(0, A), (0, C), (1, A)})], frozenset({(0, A)})),
        release.release([frozenset({(0, B), (1, A), (1, C)})], frozenset({(0, A), (1, B)})),
    ]


def worst(pairs: Sequence[Pair], n: int) -> Fraction:
    """The exact delta of the best choice of n releases, each from the outcomes of those before."""
    odds = [
        [(right[y].low / left[y].low, left[y].low) for y in right] for left, right in pairs
    ]  # of numbers that are exact

    @cache
    def value(left: int, limit: Fraction) -> Fraction:
        if not left:
            return max(1 - limit, Fraction(0))
        return max(
            sum((p * value(left - 1, limit * w) for w, p in one), Fraction(0)) for one in odds
        )

    return value(n, LIMIT)


def worst_of_answers(cases: Sequence[Sequence[Case]], n: int) -> Fraction:
    return worst([draws.answers(one) for one in cases], n)


def worst_with_draws(cases: Sequence[Sequence[Case]], n: int) -> Fraction:
    """The same for an analyst who sees, beside each answer, the draws of all other people."""
    return worst([draws.draws_and_answers(one) for one in cases], n)


def n_that_fit(name: AccountantName, cap_delta: Fraction) -> int:
    """The number of releases that a budget admits, each priced as DP_TOPK with GROUP BY is."""
    judge = accountant(name, Cap(log_between(LIMIT)[0], cap_delta), U)
    return how_many(judge, joint.loss(1, U).times(1))


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("name", "cap_delta"),
    [("zcdp", Fraction(1, 3)), ("pld", Fraction(1, 4)), ("pld", Fraction(1, 3))],
)
def test_no_choice_of_releases_that_fit_exceeds_the_cap(
    name: AccountantName, cap_delta: Fraction
) -> None:
    n = n_that_fit(name, cap_delta)
    assert n >= 2
    assert worst_of_answers(menu(), n) <= worst_with_draws(menu(), n) <= cap_delta


def test_draws_that_are_seen_tell_more_than_answers_alone() -> None:
    """The proof's analyst, who sees them, reaches a larger delta than the real one."""
    assert worst_of_answers(menu()[1:], 3) < worst_with_draws(menu()[1:], 3)


def test_releases_at_twice_the_rate_exceed_the_cap() -> None:
    n = n_that_fit("pld", Fraction(1, 4))
    assert worst_of_answers(menu(exactly(16)), n) > Fraction(1, 4)


# --- two releases that share their draws ----------------------------------------------------------

Held = Sequence[int]  # the item that a person has in each group
_Answers = tuple[int, ...]  # one item for each group


def answered(kept: Sequence[tuple[int, int]], answer: _Answers, weight: int) -> Fraction:
    """The probability of an answer: in each group an item of two, in weight^(its people)."""
    found = Fraction(1)
    for group, item in enumerate(answer):
        weights = [weight ** sum(one == (group, i) for one in kept) for i in range(2)]
        found *= Fraction(weights[item], sum(weights))
    return found


def choices(person: Held, cap: int) -> list[list[tuple[int, int]]]:
    """In which groups a person may be kept, each with the same probability."""
    return [[(g, person[g]) for g in kept] for kept in combinations(range(len(person)), cap)]


def shares_draws(
    others: Sequence[Held], person: Held, cap: int, paid_for: int, weight: int
) -> bool:
    """Whether the second answer, given the others' draws and the first, has the range it declares.

    Also whether no pair of answers is likelier than both losses allow.
    """
    answers = list(product(range(2), repeat=len(person)))
    mine = choices(person, cap)
    bound = weight**paid_for
    with_a: dict[object, Fraction] = {}
    without: dict[object, Fraction] = {}
    for draw in product(*(choices(other, cap) for other in others)):
        kept = [*chain.from_iterable(draw)]
        for first in answers:
            ratios = []
            for second in answers:
                both = [answered([*kept, *r], y, weight) for r in mine for y in (first, second)]
                joint = sum(a * b for a, b in zip(both[::2], both[1::2], strict=True)) / len(mine)
                alone = answered(kept, first, weight) * answered(kept, second, weight)
                ratios.append(joint / alone)
                with_a[first, second] = with_a.get((first, second), Fraction(0)) + joint
                without[first, second] = without.get((first, second), Fraction(0)) + alone
            if max(ratios) > bound * min(ratios):
                return False
    both_losses = bound**2
    return all(
        with_a[y] <= both_losses * without[y] and without[y] <= both_losses * with_a[y]
        for y in with_a
    )


HELD = list(product(range(2), repeat=2))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("person", HELD)
def test_two_releases_may_share_their_draws(person: Held) -> None:
    for others in ([], *([one] for one in HELD), *([a, b] for a in HELD for b in HELD)):
        assert shares_draws(others, person, cap=1, paid_for=1, weight=3)
        assert shares_draws(others, person, cap=2, paid_for=2, weight=3)


def test_a_person_in_more_groups_than_are_paid_for_is_noticed() -> None:
    assert not shares_draws([HELD[1]], HELD[0], cap=2, paid_for=1, weight=3)
