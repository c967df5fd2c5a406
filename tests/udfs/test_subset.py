"""Sets of k items: the parts of the proof, and what the enumeration of small sets cannot show."""

import math
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, permutations, product

import numpy as np
import pytest

from dp_sql.udfs.intervals import ln_enclosure
from dp_sql.udfs.topk import joint, lists, subset, template
from tests.udfs.cases_subset import gap, sets_of, subset_definition, subset_distribution


def by_lowest_rank(counts, k, g, *, feasible=True):
    """The sets with gap <= g, counted by the lowest rank t that is listed, as in the remark in the proof."""
    ranked = sorted(counts, reverse=True)
    total = 0
    for t in range(k, len(ranked) + 1):
        lowest = ranked[t - 1]
        forced = sum(count > lowest + g for count in ranked[: t - 1])
        if forced < k and not (feasible and any(count > lowest + g for count in ranked[t:])):
            total += math.comb(t - 1 - forced, k - 1 - forced)
    return total


def by_best_left_out(counts, k, g):
    """The same by the first rank that is left out, from the shipped numbers; for g >= 0."""
    sets = subset.propose_sets(np.array(counts), k, Fraction(1, 2), 1000).sets
    free = sets.n_free([g])[0].tolist()
    return 1 + sum(math.comb(n, k - i) for i, n in enumerate(free))


def histograms(largest_domain, most):
    for d in range(2, largest_domain + 1):
        for counts in combinations_with_replacement(range(most + 1), d):
            yield from ((counts, k) for k in range(1, d))


def test_sets_are_counted_by_their_best_item_left_out():
    for counts, k in histograms(4, 3):
        lead = -min(gap(counts, picks) for picks in sets_of(counts, k))
        for g in range(-4, 5):
            expected = sum(gap(counts, picks) <= g for picks in sets_of(counts, k))
            assert by_lowest_rank(counts, k, g) == expected, (counts, k, g)
            if g >= 0:
                assert by_best_left_out(counts, k, g) == expected
            elif g >= -lead:
                assert expected == 1, "only the k best have a negative gap"


def test_without_the_condition_on_what_follows_sets_are_counted_that_do_not_exist():
    assert by_lowest_rank((4, 2, 1), 2, -2) == 0
    assert by_lowest_rank((4, 2, 1), 2, -2, feasible=False) == 1


@pytest.mark.one_in(2)
@pytest.mark.parametrize("k", [2, 3])
def test_the_distribution_follows_the_items_when_they_change_places(k):
    for counts in ((4, 4, 1, 0), (0, 3, 3, 3)):
        first = subset_distribution(counts, k, 3)
        for order in permutations(range(4)):
            moved = subset_distribution([counts[x] for x in order], k, 3)
            assert {frozenset(order[x] for x in picks): p for picks, p in moved.items()} == first


@pytest.mark.one_in(3)
@pytest.mark.parametrize("settings", [(0, 0, 2), (60, 0, 3), (0, 60, 2)])
def test_no_staircase_changes_the_distribution(monkeypatch, settings):
    names = ("_STEP_BITS", "_FORGET_BITS", "_FAN")
    for name, value in zip(names, settings, strict=True):
        monkeypatch.setattr(lists, name, value)
    for counts in ((9, 6, 2, 0), (3, 3, 3, 3), (12, 12, 0, 0), (5, 4, 3, 2)):
        assert subset_distribution(counts, 2, 11) == subset_definition(counts, 2, 11)


def test_looser_bounds_do_not_change_the_distribution(monkeypatch):
    right = subset.log_comb_above
    looser = lambda n, r, bits: right(n, r, bits) + (1 << bits)  # noqa: E731
    monkeypatch.setattr(subset, "log_comb_above", looser)
    for counts in ((6, 4, 2, 0), (2, 2, 2, 2), (5, 4, 3, 2)):
        assert subset_distribution(counts, 2, 6) == subset_definition(counts, 2, 6)


def test_one_item_and_all_items_need_no_set():
    counts = np.array([3, 9, 5])
    assert subset.SUBSET.run(counts, 3, Fraction(1, 10**6)) == [0, 1, 2]
    assert subset.SUBSET.run(counts, 1, Fraction(50)) == [1]


# The bounds.


def test_logarithms_are_rounded_down_by_less_than_five():
    numbers = [
        *range(1, 400),
        2**32 - 1,
        *(2**i + x for i in range(9, 32) for x in (-1, 0, 1, 2 ** (i - 3))),
    ]
    two = ln_enclosure(Fraction(2), 60)
    for n, found in zip(numbers, subset.log_below(np.array(numbers), 28).tolist(), strict=True):
        low, high = ln_enclosure(Fraction(n), 60)
        assert found <= high / two[0] * 2**28
        assert found + 5 > low / two[1] * 2**28, n


@pytest.mark.parametrize("bits", [20, 28])
def test_binomial_coefficients_are_bounded_from_above_and_closely(bits):
    pairs = [*combinations(range(1, 60), 2), (10**5, 10**3), (10**5, 1), (10**5, 10**5 - 1)]
    r, n = np.array(pairs).min(axis=1), np.array(pairs).max(axis=1)
    for (a, b), log in zip(pairs, subset.log_comb_above(n, r, bits).tolist(), strict=True):
        exact = math.comb(max(a, b), min(a, b))
        assert log / 2**bits >= math.log2(exact)
        assert log / 2**bits < math.log2(exact) + 0.2 + 2.0 ** (20 - bits)
    assert subset.log_comb_above(np.array([5]), np.array([5]), 28).tolist() == [0]


HOSTILE = {
    "falling": lambda d: np.arange(d),
    "tied": lambda d: np.arange(d) // 7,
    "equal": lambda d: np.full(d, 4),
    "random": lambda d: np.random.default_rng(1).integers(0, 300, d),
}


@pytest.mark.parametrize("shape", HOSTILE)
@pytest.mark.parametrize(("d", "k"), [(40, 39), (600, 2), (600, 70), (600, 599)])
def test_every_bound_is_at_least_the_number_of_sets_and_less_than_twice_it(shape, d, k):
    counts = HOSTILE[shape](d).astype(np.int64)
    sets = subset.propose_sets(counts, k, Fraction(1, 2), 400).sets
    layers = [0, 1, 5, 50, 399]
    free, (units, shifts) = sets.n_free(layers), sets.bounds(layers)
    for row, unit, shift, whole in zip(
        free.tolist(), units.tolist(), shifts, sets.n_lists(layers), strict=True
    ):
        exact = [math.comb(n, k - i) for i, n in enumerate(row)]
        assert all(u << shift >= n for u, n in zip(unit, exact, strict=True))
        assert sum(exact) <= whole == sum(unit) << shift
        assert whole <= 2 * sum(exact)


# The public numbers.


@pytest.mark.parametrize(("d", "k"), [(3, 2), (4, 2), (4, 3)])
def test_the_error_bound_holds_for_every_small_histogram(d, k):
    epsilon, beta = Fraction(3), Fraction(1, 10)
    q = Fraction(math.exp(-joint.rate_of(k, epsilon)))
    bound = template.error_bound(math.comb(d, k), joint.rate_of(k, epsilon), beta)
    for counts in combinations_with_replacement(range(bound + 3), d):
        distribution = subset_definition(counts, k, 10**6, q)
        assert sum(p for picks, p in distribution.items() if gap(counts, picks) > bound) <= beta


def test_a_margin_of_half_the_error_bound_gives_the_k_best():
    """What subset.md says of a margin: comb(d, k) q**(2 margin) <= beta is enough."""
    for q, beta in product((Fraction(1, 2), Fraction(2, 3)), (Fraction(1, 10), Fraction(1, 3))):
        margin = next(m for m in range(99) if math.comb(4, 2) * q ** (2 * m) <= beta)
        for low, high in product(combinations_with_replacement(range(3), 2), repeat=2):
            counts = (*(2 + margin + count for count in high), *low)
            right = subset_definition(counts, 2, 99, q)[frozenset((0, 1))]
            assert right >= 1 - beta


def test_no_bound_from_public_numbers_is_much_better():
    """The example of subset.md: a share of (C - d) / C of the union bound, over 2 and a little."""
    d, k, half, q = 9, 4, 20, Fraction(1, 2)
    counts = (*[2 * half] * (k - 1), half, half, *[0] * (d - k - 1))
    distribution = subset_definition(counts, k, 10**3, q)
    far = sum(p for picks, p in distribution.items() if gap(counts, picks) >= 2 * half)
    union = math.comb(d, k) * q ** (2 * half)
    assert Fraction(2, 5) * union < far <= union
