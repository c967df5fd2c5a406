import math
import time
from collections import Counter, defaultdict
from fractions import Fraction
from functools import cache
from itertools import chain, combinations, product

import numpy as np
import pytest

from tests.udfs.laws import NotPrivateError, check_neighbours, fits, law_of
from udfs.count_distinct import r2t
from udfs.exact import secret_draws
from udfs.laplace import laplace_quantile

BETA = Fraction(1, 20)
UNIT = Fraction(7, 10)
Q = Fraction(1, 2)
"""Stands for exp(-UNIT) in exact laws, and EPSILON for 12 such units: 3 per item at the first of
the two bounds 2 and 3, and 2 per item at the other."""
EPSILON = 12 * UNIT
LOSS = Q**-12
FAR = "more than anybody asks for"


def covered(people, bound):
    """F(bound) by trying everything: the most items covered by at most bound from each."""
    choices = [
        [chosen for n in range(bound + 1) for chosen in combinations(sorted(items), n)]
        for items in people
    ]
    return max(len(set(chain.from_iterable(chosen))) for chosen in product(*choices))


ITEMS = [frozenset(c) for n in range(4) for c in combinations("abc", n)]
DATA_SETS = [(a, b) for a, b in product(ITEMS, repeat=2) if sorted(a) <= sorted(b)]


@cache
def cover_of(people):
    return tuple(covered(people, bound) for bound in (1, 2, 3))


def neighbours():
    """Two and three people over three items; and up to ten who have three items each, all their own."""
    yield from {(cover_of(data), cover_of((*data, one))) for data in DATA_SETS for one in ITEMS}
    for n in range(10):
        yield (n, 2 * n, 3 * n), (n + 1, 2 * n + 2, 3 * n + 3)


def at_least(q, x):
    """P(X >= x) of the noise."""
    return q**x / (1 + q) if x >= 0 else 1 - q ** (1 - x) / (1 + q)


def exactly(q, x):
    return (1 - q) / (1 + q) * q ** abs(x)


class Preset:
    """Noise that was decided before, at the rates that were asked for."""

    def __init__(self, noise):
        self.noise, self.rates = list(noise), []

    def draw(self, rate):
        self.rates.append(rate)
        return self.noise[len(self.rates) - 1]


@pytest.fixture
def preset(monkeypatch):
    monkeypatch.setattr(r2t, "discrete_laplace", lambda rate, draws: draws.draw(rate))


def rates_and_penalties(cover):
    """What the shipped code asks for on these data."""
    draws = Preset([0] * len(cover))
    r2t._release(cover, EPSILON, BETA, draws)
    n = len(draws.rates)
    return draws.rates, [r2t._penalty(rate, BETA, n) for rate in draws.rates]


def shipped_law(cover, most=6):
    """The exact law of (estimate, bound), all that exceeds `most` being one outcome.

    Noise so low that 0 wins, and so high that `most` is exceeded, is put in one point each.
    """
    rates, penalties = rates_and_penalties(cover)
    noises = []
    for bound, rate, penalty in zip(r2t.bounds(len(cover)), rates, penalties, strict=True):
        units = rate / UNIT
        assert units.denominator == 1
        low = penalty - cover[bound - 1]
        high, q = low + most + 1, Q ** int(units)
        points = {x: exactly(q, x) for x in range(low + 1, high)}
        noises.append({low: 1 - at_least(q, low + 1), **points, high: at_least(q, high)})
    law = defaultdict(Fraction)
    for drawn in product(*(noise.items() for noise in noises)):
        release = r2t._release(cover, EPSILON, BETA, Preset([x for x, _ in drawn]))
        outcome = (release.estimate, release.contribution_bound)
        law[outcome if release.estimate <= most else FAR] += math.prod(p for _, p in drawn)
    assert sum(law.values()) == 1
    return dict(law)


def defined_law(cover, most=6):
    """The definition for the bounds 2 and 3, from the distribution of one noisy number each."""

    def worth(i, at):
        q = (Q**3, Q**2)[i]
        return q, at - cover[i + 1] + laplace_quantile(UNIT * (3, 2)[i], BETA / 2) - 1

    def is_worth(i, at):
        return exactly(*worth(i, at))

    def is_below(i, at):
        return 1 - at_least(*worth(i, at))

    law = {(0, None): is_below(0, 1) * is_below(1, 1)}
    for value in range(1, most + 1):
        law[value, 2] = is_worth(0, value) * is_below(1, value + 1)
        law[value, 3] = is_worth(1, value) * is_below(0, value)
    return {**law, FAR: 1 - sum(law.values())}


def test_the_law_is_the_definition_for_every_small_data_set(preset):
    for cover in {cover_of(data) for data in DATA_SETS} | {(0, 9, 9), (3, 6, 9), (5, 5, 5)}:
        assert shipped_law(cover) == defined_law(cover)


@pytest.mark.parametrize("cover", [(1, 2), (3, 3), (5, 7)])
def test_the_law_with_real_noise_is_the_definition(cover):
    """One bound, at three units per item. Outcomes above 0 need few draws, so none is left out."""
    law, unfinished = law_of(
        lambda draws: r2t._release(cover, 6 * UNIT, BETA, draws), {3 * UNIT: Q**3}, limit=30
    )
    assert unfinished < Q**50
    penalty = laplace_quantile(3 * UNIT, BETA) - 1
    got = {release.estimate: p for release, p in law.items() if 0 < release.estimate <= 10}
    assert got == {v: exactly(Q**3, v - cover[1] + penalty) for v in range(1, 11)}
    assert {release.contribution_bound for release in law} == {2, None}


def check_privacy(law=shipped_law):
    check_neighbours(law, neighbours(), LOSS)


def test_no_neighbours_can_be_told_apart(preset):
    check_privacy()


def test_neighbours_that_use_nearly_all_of_epsilon_are_among_them(preset):
    with pytest.raises(NotPrivateError):
        check_neighbours(shipped_law, neighbours(), LOSS * Q**2)


def test_noise_for_the_whole_of_epsilon_is_not_private(preset, monkeypatch):
    monkeypatch.setattr(r2t, "_noise_rate", lambda epsilon, bound, n: epsilon / bound)
    with pytest.raises(NotPrivateError):
        check_privacy()


def test_noise_that_forgets_the_bound_is_not_private(preset, monkeypatch):
    monkeypatch.setattr(r2t, "_noise_rate", lambda epsilon, bound, n: epsilon / n)
    with pytest.raises(NotPrivateError):
        check_privacy()


def test_a_penalty_that_depends_on_data_is_not_private(preset, monkeypatch):
    def law(cover):
        monkeypatch.setattr(r2t, "_penalty", lambda rate, beta, n: 3 * cover[-1])
        return shipped_law(cover)

    with pytest.raises(NotPrivateError):
        check_privacy(law)


def test_bounds_that_depend_on_data_are_not_private(preset, monkeypatch):
    def law(cover):
        monkeypatch.setattr(r2t, "bounds", lambda m: [2, 3] if cover[2] > cover[1] else [2])
        return shipped_law(cover)

    with pytest.raises(NotPrivateError):
        check_privacy(law)


def test_an_estimate_cut_to_the_truth_is_not_private(preset):
    def law(cover):
        cut = defaultdict(Fraction)
        for outcome, p in shipped_law(cover).items():
            cut[cover[-1] if outcome is FAR else min(outcome[0], cover[-1])] += p
        return dict(cut)

    with pytest.raises(NotPrivateError):
        check_privacy(law)


@pytest.mark.parametrize("m", [*range(1, 40), 100, 1023, 1024, 1025])
def test_every_allowed_number_of_items_has_a_bound_at_most_twice_as_large(m):
    tried = r2t.bounds(m)
    assert tried == sorted(set(tried))
    assert tried[-1] == m
    assert len(tried) == max(1, math.ceil(math.log2(m)))
    assert all(any(items <= bound <= 2 * items for bound in tried) for items in range(1, m + 1))


def test_the_bounds_of_a_power_of_two_are_those_of_the_paper():
    assert r2t.bounds(64) == [2, 4, 8, 16, 32, 64]


def test_each_bound_gets_its_part_of_epsilon_and_of_beta(preset):
    draws = Preset([0] * 7)
    r2t._release([50] * 100, Fraction(1), BETA, draws)
    assert draws.rates == [Fraction(1, 7 * bound) for bound in (2, 4, 8, 16, 32, 64, 100)]
    for rate in draws.rates:
        q, fails_above = math.exp(-rate), r2t._penalty(rate, BETA, 7)
        assert at_least(q, fails_above + 1) <= BETA / 7 < at_least(q, fails_above)


@pytest.mark.parametrize("beta", [Fraction(1, 3), BETA, Fraction(1, 10**6)])
@pytest.mark.parametrize("m", [1, 2, 3, 16, 100])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(8)])
def test_the_penalty_is_below_that_of_the_paper(epsilon, m, beta):
    n = len(r2t.bounds(m))
    for bound in r2t.bounds(m):
        penalty = r2t._penalty(epsilon / (n * bound), beta, n)
        assert 0 <= penalty < n * bound / epsilon * Fraction(math.log(n / beta))


@pytest.mark.parametrize("beta", [Fraction(2, 5), BETA])
@pytest.mark.parametrize("epsilon", [Fraction(1, 3), Fraction(1), Fraction(5)])
@pytest.mark.parametrize("cover", [[9], [0, 0], [30, 40, 41], [100] * 100, list(range(1, 101))])
def test_the_estimate_exceeds_the_truth_as_rarely_as_beta_says(cover, epsilon, beta):
    tried, truth = r2t.bounds(len(cover)), cover[-1]
    safe = 1.0
    for bound in tried:
        rate = epsilon / (len(tried) * bound)
        excess = truth + r2t._penalty(rate, beta, len(tried)) - cover[bound - 1]
        safe *= 1 - at_least(math.exp(-rate), excess + 1)
    assert 1 - safe <= beta
    if cover[0] == truth:  # then nothing is given away but the integers
        least = math.exp(-epsilon / len(tried)) * beta
        assert 1 - safe >= 1 - (1 - least / len(tried)) ** len(tried)


@pytest.mark.parametrize("noise", [0, 1])
def test_the_estimate_falls_no_further_than_the_shortfall_says(preset, noise):
    cover = [1000 + at for at in range(1, 101)]
    tried = r2t.bounds(100)
    lowest = [r2t._penalty(Fraction(1, 7 * bound), BETA, 7) + noise for bound in tried]
    release = r2t._release(cover, Fraction(1), BETA, Preset([-x for x in lowest]))
    short = [r2t.shortfall(bound, Fraction(1), BETA, 100) for bound in tried]
    promised = max(cover[bound - 1] - x for bound, x in zip(tried, short, strict=True))
    assert release.estimate == promised - noise
    assert release.lower_bound == release.estimate
    assert release.contribution_bound == 2


def test_the_accuracy_sentence_is_made_of_public_numbers():
    assert r2t.accuracy(Fraction(1), BETA, 100) == (
        "with probability at least 0.95 the estimate is at most the true number of distinct items; "
        "with at least the same probability it is at most 118 below it if nobody has more than 2, "
        "rising to 5948 if nobody has more than 100 (epsilon = 1)"
    )
    assert r2t.accuracy(Fraction(1), BETA, 1).endswith("if nobody has more than 1 (epsilon = 1)")


def test_the_loss_is_that_of_all_bounds_together():
    loss = r2t.loss(Fraction(1, 3), BETA, 100)
    assert (loss.epsilon, loss.delta, loss.rho) == (Fraction(1, 3), 0, Fraction(1, 126))
    assert r2t.loss(Fraction(1), BETA, 1).rho == Fraction(1, 2)


@pytest.mark.parametrize(("tenths", "passes"), [(7, False), (10, True), (13, False)])
def test_only_noise_of_the_right_rate_fits(tenths, passes):
    count, epsilon, q = 10**6, Fraction(tenths, 20), math.exp(-Fraction(1, 4))
    penalty, draws = r2t._penalty(epsilon / 2, BETA, 1), secret_draws()
    releases = (r2t._release([0, count], epsilon, BETA, draws) for _ in range(6000))
    noise = Counter(release.estimate - count + penalty for release in releases)
    assert fits(noise, {x: exactly(q, x) for x in range(-200, 201)}) is passes


# With the flow.

GRAPH = np.array([0, 2, 3, 5, 6]), np.array([0, 1, 0, 1, 2, 2])


@pytest.mark.parametrize(("m", "bound"), [(1, 1), (2, 2), (3, 2), (5, 2)])
def test_a_very_large_epsilon_gives_the_count_under_the_best_bound(m, bound):
    release = r2t.count_distinct(*GRAPH, Fraction(10**4), BETA, m)
    assert (release.estimate, release.lower_bound) == ((3, 3) if m == 1 else (4, 4))
    assert release.contribution_bound == bound


def test_nobody_at_all_is_counted_as_nobody_under_no_bound():
    offsets, people = np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64)
    release = r2t.count_distinct(offsets, people, Fraction(10**4), BETA, 3)
    assert (release.estimate, release.lower_bound, release.contribution_bound) == (0, 0, None)


def test_large_inputs_are_quick():
    rng = np.random.default_rng(0)
    items = np.sort(rng.zipf(1.3, 10**6) % 50_000)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(items, minlength=50_000))])
    people = rng.integers(0, 20_000, 10**6)
    r2t.count_distinct(*GRAPH, Fraction(1), BETA, 3)  # compile
    start = time.perf_counter()
    release = r2t.count_distinct(offsets, people, Fraction(1, 10), Fraction(1, 10**9), 1000)
    assert time.perf_counter() - start < 2
    assert 0 <= release.estimate == release.lower_bound
    assert release.contribution_bound in {None, *r2t.bounds(1000)}


@pytest.mark.parametrize("bad", [1.0, 1, True, "1", None])
def test_an_epsilon_of_another_type_is_refused(bad):
    with pytest.raises(TypeError, match="epsilon"):
        r2t.count_distinct(*GRAPH, bad, BETA, 5)


@pytest.mark.parametrize("bad", [0.05, 1, True, "1", None])
def test_a_beta_of_another_type_is_refused(bad):
    with pytest.raises(TypeError, match="beta"):
        r2t.count_distinct(*GRAPH, EPSILON, bad, 5)


@pytest.mark.parametrize("bad", [5.0, True, "5", None, Fraction(5)])
def test_a_largest_bound_of_another_type_is_refused(bad):
    with pytest.raises(TypeError, match="max_contributions"):
        r2t.count_distinct(*GRAPH, EPSILON, BETA, bad)


@pytest.mark.parametrize("bad", [Fraction(0), Fraction(-1)])
def test_an_epsilon_out_of_range_is_refused(bad):
    with pytest.raises(ValueError, match="epsilon"):
        r2t.count_distinct(*GRAPH, bad, BETA, 5)


@pytest.mark.parametrize("bad", [Fraction(0), Fraction(1, 2), Fraction(-1)])
def test_a_beta_out_of_range_is_refused(bad):
    with pytest.raises(ValueError, match="beta"):
        r2t.count_distinct(*GRAPH, EPSILON, bad, 5)


@pytest.mark.parametrize("bad", [0, -1])
def test_a_largest_bound_out_of_range_is_refused(bad):
    with pytest.raises(ValueError, match="max_contributions"):
        r2t.count_distinct(*GRAPH, EPSILON, BETA, bad)


@pytest.mark.parametrize("bad", [0, 1, 3, 101])
def test_a_shortfall_under_a_bound_that_does_not_run_is_refused(bad):
    with pytest.raises(ValueError, match="bound must be one of"):
        r2t.shortfall(bad, EPSILON, BETA, 100)
