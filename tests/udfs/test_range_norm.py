"""Noise in the range norm: its exact distribution, privacy and quantile; and lists with counts."""

import math
from collections import Counter, defaultdict
from fractions import Fraction
from functools import cache, partial
from itertools import permutations, product

import numpy as np
import pytest

from dp_sql.udfs import REGISTRY, range_norm
from dp_sql.udfs.contributions.pair_noise import pair_reach, scales_of
from dp_sql.udfs.discrete_laplace import laplace_quantile
from dp_sql.udfs.exact_sampling import secret_draws
from dp_sql.udfs.intervals import exp_enclosure
from dp_sql.udfs.mechanism import PrivacyLoss
from dp_sql.udfs.topk import counts, joint
from tests.udfs.conformance import (
    Domain,
    Mutant,
    changed,
    check_distribution,
    check_privacy,
    within,
)
from tests.udfs.distributions import (
    NotPrivateError,
    added_people,
    distribution_of,
    draws_fit,
    normalized,
)

RATE = Fraction(1386, 1000)
ROOTS = {RATE: Fraction(1, 2), 2 * RATE: Fraction(1, 4), Fraction(211, 1000): Fraction(9, 10)}
"""For each rate a fraction near the root of q = exp(-rate): the hats over the weights fit its size."""
Q = ROOTS[RATE] ** 2
WIDEST = 6


def norm(z):
    return max(0, *z) - min(0, *z)


@cache
def widths(n, rate, limit=12):
    """The relative weights of the widths in one shipped attempt; that of the first is q."""
    q_of = {rate / 2: ROOTS[rate]}
    found, _ = distribution_of(lambda path: range_norm._attempts(n, rate, 1, path)[0], q_of, limit)
    return {m: p * ROOTS[rate] ** 2 / found[1] for m, p in found.items() if m is not None}


@pytest.mark.parametrize("n", [2, 3, 4, 11])
@pytest.mark.parametrize(("rate", "least"), [(RATE, 6), (2 * RATE, 4), (Fraction(211, 1000), 60)])
def test_an_attempt_draws_each_width_in_proportion_to_its_weight(rate, least, n):
    found = widths(n, rate)
    assert set(range(1, least)) <= set(found)
    assert all(found[m] == m**n * ROOTS[rate] ** (2 * m) for m in range(1, least))


def noise_weights(k):
    """The weight of each vector: by exact draws up to a width, and by the definition beyond it."""
    weights = defaultdict(lambda: Fraction(0))
    for m in range(1, WIDEST + 1):
        asked = set()

        def width(n, rate, how_many, draws, m=m, asked=asked):
            asked.add((n, rate))
            return [m] * how_many

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(range_norm, "_widths", width)
            drawn, _ = distribution_of(
                lambda path: tuple(range_norm.range_norm_noise(k, RATE, path)), {}
            )
        ((n, rate),) = asked
        for z, p in drawn.items():
            weights[z] += p * widths(n, rate)[m]
    for z in product(range(-3, 4), repeat=k):
        if norm(z) <= WIDEST:
            weights[z] += Q ** (WIDEST + 1) * ((WIDEST + 1 - norm(z)) / (1 - Q) + Q / (1 - Q) ** 2)
    return weights


def answers(weights, true_counts):
    """The weights of all noisy counts in a window."""
    window = product(range(-1, 3), repeat=len(true_counts))
    return {y: weights[tuple(a - b for a, b in zip(y, true_counts, strict=True))] for y in window}


def noise(k):
    known = {}

    def distribution(true_counts):
        shipped = range_norm.range_norm_noise  # or a mutant's
        if shipped not in known:
            known[shipped] = noise_weights(k)
        return answers(known[shipped], true_counts)

    def defined(true_counts):
        every = product(range(-3, 4), repeat=k)
        return answers({z: Q ** norm(z) * Q / (1 - Q) ** 2 for z in every}, true_counts)

    return Domain(
        distribution,
        pairs=lambda: added_people(product(range(2), repeat=k)),
        check=within(1 / Q),
        inputs=lambda: product(range(3), repeat=k),
        defined=defined,
    )


def each_by_itself(k):
    one = noise_weights(1)
    every = product(range(-3, 4), repeat=k)
    weights = {z: math.prod(one[(x,)] for x in z) for z in every}
    return lambda true_counts: answers(weights, true_counts)


right_noise = range_norm.range_norm_noise


def with_another_power(more):
    """The width drawn with the power k + more; k + 1 is right."""

    def wrong(k, rate, draws):
        (width,) = range_norm._widths(k + more, rate, 1, draws)
        zero = draws.below(width)
        return [draws.below(width) - zero for _ in range(k)]

    return changed(range_norm, "range_norm_noise", wrong)


MUTANTS = {
    "boxes without inclusion and exclusion": Mutant(
        noise(2), with_another_power(0), check=check_distribution
    ),
    "one dimension too many": Mutant(noise(2), with_another_power(2), check=check_distribution),
    "two dimensions too few": Mutant(noise(3), with_another_power(-1)),
    "the rate for each count by itself": Mutant(noise(2), distribution=each_by_itself(2)),
    "twice the rate": Mutant(
        noise(1),
        changed(range_norm, "range_norm_noise", lambda k, rate, d: right_noise(k, 2 * rate, d)),
    ),
    "noise of one sign": Mutant(
        noise(2),
        changed(
            range_norm,
            "range_norm_noise",
            lambda k, rate, d: [abs(z) for z in right_noise(k, rate, d)],
        ),
    ),
}


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_distribution_is_the_definition(k):
    check_distribution(noise(k))


@pytest.mark.parametrize("k", [1, 2, 3])
def test_neighbours_differ_by_at_most_the_stated_factor(k):
    check_privacy(noise(k))


@pytest.mark.pure
@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutants_of_the_noise_are_rejected(mutant):
    MUTANTS[mutant].is_rejected()


@pytest.mark.parametrize(("factor", "passes"), [(1 / Q, False), (1 / Q**2, True)])
def test_a_person_who_moves_counts_both_ways_costs_twice(factor, passes):
    both_ways = [((1, 0), (0, 1)), ((0, 2), (1, 1))]
    try:
        within(factor)(noise(2).distribution, both_ways)
    except NotPrivateError:
        assert not passes
    else:
        assert passes


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_points_of_a_norm_are_counted_by_inclusion_and_exclusion(k):
    found = Counter(norm(z) for z in product(range(-3, 4), repeat=k))
    for r in range(1, 4):
        assert found[r] == (r + 1) ** (k + 1) - 2 * r ** (k + 1) + (r - 1) ** (k + 1)


def attempts_are_independent():
    """Whether two attempts at once have the product of their distributions, in this order."""
    rate, found = Fraction(211, 1000), []
    q_of = {rate / 2: ROOTS[rate]}
    with pytest.MonkeyPatch.context() as patch:  # three hats, and of the tail one number
        patch.setattr(range_norm, "_STEPS", 0)
        patch.setattr(range_norm, "_hats", range_norm._hats.__wrapped__)
        patch.setattr(range_norm, "_acceptance", range_norm._acceptance.__wrapped__)
        patch.setattr(range_norm, "geometrics", lambda draws, rate, n: [0] * n)
        for n in (1, 2):
            run = partial(range_norm._attempts, 2, rate, n)
            drawn, _ = distribution_of(lambda path, run=run: tuple(run(path)), q_of)
            found.append(drawn)
    of_one, of_two = found
    return len(of_one) > 3 and of_two == {
        a + b: p * q for (a, p), (b, q) in product(of_one.items(), repeat=2)
    }


def several_vectors_are_independent():
    """Whether vectors of several sizes have the product of their distributions, given their widths."""
    widths = {2: [3, 1], 3: [2]}

    def run(path):
        return tuple(map(tuple, range_norm.range_norm_noises([1, 0, 2, 1], RATE, path)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(range_norm, "_widths", lambda n, rate, how_many, draws: widths[n])
        drawn, _ = distribution_of(run, {})

    def one(k, width):
        each = Counter(
            tuple(u - zero for u in others) for zero, *others in product(range(width), repeat=k + 1)
        )
        return {z: Fraction(n, width ** (k + 1)) for z, n in each.items()}

    parts = one(1, 3), {(): Fraction(1)}, one(2, 2), one(1, 1)
    vectors = product(*parts)
    wanted = {z: math.prod(p[x] for p, x in zip(parts, z, strict=True)) for z in vectors}
    return drawn == wanted


def test_noise_for_several_vectors_is_independent(monkeypatch):
    assert attempts_are_independent()
    assert several_vectors_are_independent()

    def in_order_of_keys(keys, draw):
        return [x for key in sorted({*keys}) for x in draw(key, keys.count(key))]

    monkeypatch.setattr(range_norm, "by_key", in_order_of_keys)
    assert not attempts_are_independent()
    assert not several_vectors_are_independent()


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("tenths", "passes"), [(7, False), (10, True), (14, False)])
def test_only_draws_at_the_right_rate_fit(tenths, passes):
    def near(z):
        return z if norm(z) < 6 else norm(z)

    draws, rate = secret_draws(), Fraction(tenths, 20)
    weights: Counter = Counter()
    for z in product(range(-60, 61), repeat=2):
        weights[near(z)] += Fraction(math.exp(-norm(z) / 2))
    found = draws_fit(
        lambda: near(tuple(range_norm.range_norm_noise(2, rate, draws))),
        40_000,
        normalized(weights),
    )
    assert found is passes


@pytest.mark.parametrize("rate", [Fraction(1, 10**9), Fraction(1, 4), Fraction(10**4)])
@pytest.mark.parametrize("k", [0, 1, 10, 1000, 20_000])
def test_noise_is_drawn_for_any_number_of_counts(k, rate):
    drawn = range_norm.range_norm_noise(k, rate, secret_draws())
    assert len(drawn) == k
    assert norm([0, *drawn]) <= 10 * (k + 40) / rate


# The quantile.


def exceeded(k, rate, last):
    """P(max |z| > t) for t = -1, 0, ..., by counting points; those beyond `last` are left out."""
    powers = [int(2**300 * exp_enclosure(s * rate, 300)[0]) for s in range(2 * last + 1)]

    def box(a, b):
        return (a + b + 1) ** k if a >= 0 and b >= 0 else 0

    rings = [0] * (last + 1)
    for a, b in product(range(last + 1), repeat=2):
        points = box(a, b) - box(a - 1, b) - box(a, b - 1) + box(a - 1, b - 1)
        rings[max(a, b)] += points * powers[a + b]
    return [1 - Fraction(sum(rings[:t]), sum(rings)) for t in range(last + 2)]


@pytest.mark.parametrize(
    ("k", "rate", "last"),
    [(1, 1, 80), (2, Fraction(1, 2), 150), (3, 2, 50), (10, 1, 100), (40, 3, 90), (5, 50, 6)],
)
def test_the_quantile_is_the_least_integer_with_a_small_tail(k, rate, last):
    tails = exceeded(k, Fraction(rate), last)
    for beta in (Fraction(1, 20), Fraction(49, 100), Fraction(1, 10**9)):
        t = range_norm.range_norm_quantile(k, Fraction(rate), beta)
        assert tails[t + 1] <= beta < tails[t]


@pytest.mark.parametrize("rate", [Fraction(1, 30), Fraction(1, 10**6), Fraction(7)])
def test_the_quantile_of_one_count_is_that_of_laplace_noise(rate):
    exact = laplace_quantile(rate, Fraction(1, 40)) - 1
    found = range_norm.range_norm_quantile(1, rate, Fraction(1, 20))
    assert exact <= found <= exact + (exact * Fraction(1, 30) if exact > 1000 else 0)


def test_in_cells_the_quantile_is_a_little_too_large(monkeypatch):
    for k in (5, 300):
        beta, rate = Fraction(1, 20), Fraction(1, 3)
        exact = range_norm.range_norm_quantile.__wrapped__(k, rate, beta)
        monkeypatch.setattr(range_norm, "_MAX_TERMS", 50)
        in_cells = range_norm.range_norm_quantile.__wrapped__(k, rate, beta)
        monkeypatch.undo()
        assert exact < in_cells < 3 * exact
    quantiles = [range_norm.range_norm_quantile(k, Fraction(1), beta) for k in range(1, 30)]
    assert quantiles == sorted(quantiles), "a shorter list is not less exact"


@pytest.mark.parametrize("wrong", [(0, Fraction(1), Fraction(1, 2)), (1, Fraction(0), Fraction(1, 2)),
                                   (1, Fraction(1), Fraction(1))])  # fmt: skip
def test_the_quantile_refuses_numbers_out_of_range(wrong):
    with pytest.raises(ValueError, match="must"):
        range_norm.range_norm_quantile(*wrong)


# A list and then its counts.

EPSILON, BASE = Fraction(1), Fraction(9, 10)
"""BASE is exp(-EPSILON / 40), so that all rates are whole numbers of units."""


def with_counts(histogram, list_rate=None, counts_rate=None):
    """P(list of two, its noisy counts), up to a factor: both by their definitions, at the shipped rates."""
    list_rate = list_rate or joint.rate_of(2, counts.LIST_SHARE * EPSILON)
    counts_rate = counts_rate or counts.counts_epsilon(EPSILON)
    list_q, noise_q = (BASE ** (40 * rate / EPSILON).numerator for rate in (list_rate, counts_rate))
    best = sorted(histogram, reverse=True)
    lists = normalized(
        {
            picks: list_q ** max(h - histogram[i] for h, i in zip(best, picks, strict=False))
            for picks in permutations(range(len(histogram)), 2)
        }
    )
    return {
        (picks, y): p * noise_q ** norm([a - histogram[i] for a, i in zip(y, picks, strict=True)])
        for picks, p in lists.items()
        for y in product(range(-1, 3), repeat=2)
    }


COMPOSED = Domain(
    with_counts,
    pairs=lambda: added_people(product(range(3), repeat=3)),
    check=within(BASE**-40),
)


def test_a_list_and_its_counts_cost_epsilon():
    check_privacy(COMPOSED)
    for wrong in ({"list_rate": EPSILON}, {"counts_rate": EPSILON}):
        Mutant(COMPOSED, distribution=partial(with_counts, **wrong)).is_rejected()


@pytest.mark.parametrize("name", REGISTRY["topk"])
def test_the_price_of_a_list_with_counts(name):
    """Both epsilons, the list's delta; rhos add, and so do the ranges."""
    public = {"k": 5, "delta": Fraction(1, 10**6), "max_contributions": 100}
    public["epsilon"] = counts.LIST_SHARE * EPSILON
    mechanism = REGISTRY["topk"][name]
    of_list = mechanism.loss(**{name: public[name] for name in mechanism.parameters})
    rest = EPSILON - public["epsilon"]
    rho = None if of_list.rho is None else of_list.rho + rest**2 / 2
    bounded = of_list.bounded_range + 2 * rest
    approximate = of_list.approximate
    if approximate is not None:
        approximate = approximate[0] + rest**2 / 2, approximate[1]
    found = counts.with_counts(of_list, EPSILON)
    assert found == PrivacyLoss(EPSILON, of_list.delta, rho, bounded, approximate)


def test_noisy_counts_fit_64_bits(monkeypatch):
    monkeypatch.setattr(counts, "range_norm_noises", lambda *given: [[2**70, -(2**70), -7], [3]])
    largest = 2**63 - 1
    found = counts.noisy_counts([[0, 0, 5], [4]], EPSILON, secret_draws())
    assert found == [[largest, -largest, -2], [7]]


def test_a_quantile_out_of_the_sums_reach_is_refused():
    with pytest.raises(ValueError, match="beta must be at least"):
        range_norm.range_norm_quantile(1, Fraction(1), Fraction(1, 1 << 41))


@pytest.mark.parametrize("rate", [Fraction(1, 8), Fraction(1, 2), Fraction(1), Fraction(3)])
@pytest.mark.parametrize("beta", [Fraction(1, 2), Fraction(1, 20), Fraction(1, 1000)])
def test_the_square_around_a_quotient_is_hardly_larger_than_it_must_be(rate, beta):
    reach, most = pair_reach(rate, beta), int(40 / rate)
    z = np.arange(-most, most + 1)
    masses = np.exp(-float(rate) * np.maximum(abs(z)[:, None], abs(z)))
    masses /= masses.sum()

    def beyond(times, side):
        return masses[abs(z[:, None] - times * z) > side * (1 + abs(times)) + 1e-9].sum()

    assert masses[np.maximum(abs(z)[:, None], abs(z)) > scales_of(beta, rate) / rate].sum() <= beta
    assert all(beyond(times, reach) <= beta for times in (0, 0.01, -0.3, 0.5, 1, -1, 1.5, 20))
    assert reach < 3 or beyond(0, reach - 3) > beta
