"""Sampling: the law of the counts, and that nobody moves it further than the noise covers."""

import time
from collections import defaultdict
from fractions import Fraction
from functools import cache
from itertools import chain, combinations, combinations_with_replacement, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.udfs.laws import NotPrivateError, check_neighbours, fits, law_of
from udfs.count_distinct import bounded, flow, sampling
from udfs.exact import secret_draws

EPSILON = Fraction(1)
BETA = Fraction(1, 20)
HALF = Fraction(1, 2)

SUBSETS = [frozenset(chosen) for n in range(4) for chosen in combinations("abc", n)]


def graph_of(data):
    """What a caller makes of a data set: runs of people, of the items that are there."""
    values = sorted(set(chain.from_iterable(data)))
    runs = [[person for person, held in enumerate(data) if v in held] for v in values]
    people = np.array(list(chain.from_iterable(runs)), dtype=np.int64)
    return np.cumsum([0, *map(len, runs)]), people


def data_sets(n_people):
    """All data sets of so many people over three items, as they count: unordered."""
    return combinations_with_replacement(SUBSETS, n_people)


@cache
def law_of_counts(data, n_bounds):
    """The shipped law of (F(1), F(2), ...)."""
    law, unfinished = law_of(
        lambda draws: tuple(sampling._sampled_counts(*graph_of(data), n_bounds, draws)), {}
    )
    assert unfinished == 0
    return law


def uniform(outcomes):
    """The law of an outcome when each in a list is equally likely."""
    outcomes = list(outcomes)
    law = defaultdict(Fraction)
    for outcome in outcomes:
        law[outcome] += Fraction(1, len(outcomes))
    return law


def size_of_union(samples):
    return len(set().union(*samples))


@pytest.mark.parametrize("bound", [1, 2, 3, 4])
def test_each_count_is_that_of_uniform_samples_without_replacement(bound):
    for data in data_sets(3):
        samples = product(*(combinations(held, min(bound, len(held))) for held in data))
        marginal = defaultdict(Fraction)
        for counts, p in law_of_counts(data, 4).items():
            marginal[counts[bound - 1]] += p
        assert marginal == uniform(map(size_of_union, samples))


def test_all_counts_come_from_one_order_of_each_persons_items():
    for data in data_sets(3):
        orders = product(*(permutations(held) for held in data))
        defined = uniform(
            tuple(size_of_union(order[:bound] for order in each) for bound in (1, 2, 3))
            for each in orders
        )
        assert law_of_counts(data, 3) == defined


def test_fewer_bounds_give_the_first_of_the_counts():
    for data in data_sets(2):
        cut = defaultdict(Fraction)
        for counts, p in law_of_counts(data, 4).items():
            cut[counts[:2]] += p
        assert law_of_counts(data, 2) == cut


def test_repetitions_do_not_change_the_law():
    offsets, people = np.array([0, 3, 5, 6]), np.array([1, 0, 1, 1, 1, 0])

    def run(draws):
        return tuple(sampling._sampled_counts(offsets, people, 3, draws))

    once = (frozenset("ac"), frozenset("ab"))
    assert law_of(run, {})[0] == law_of_counts(once, 3)


# Privacy. With a given bound the release is the shipped one and exp(-epsilon / bound) is 1/2.


def neighbours(n_people):
    for data in chain.from_iterable(map(data_sets, range(n_people))):
        for person in SUBSETS:
            yield data, (*data, person)


@cache
def release_law(counts, bound, reach=6):
    """The law of releases with small estimates: all their paths are short."""
    law, unfinished = law_of(
        lambda draws: bounded.release(counts, EPSILON, BETA, bound, draws),
        {EPSILON / bound: HALF},
        limit=14,
    )
    assert unfinished < Fraction(1, 100)
    return {release: p for release, p in law.items() if abs(release.estimate) <= reach}


def mixed(counts_law, release_law):
    law = defaultdict(Fraction)
    for counts, p in counts_law.items():
        for release, p_release in release_law(counts).items():
            law[release] += p * p_release
    return law


@pytest.mark.parametrize("bound", [1, 2])
def test_the_whole_run_has_the_law_of_samples_and_noise(bound):
    for data in (("abc", "b", "bc"), ("ab", "abc"), ()):
        law, _ = law_of(
            lambda draws, data=data: sampling._count_distinct(
                *graph_of(data), EPSILON, BETA, 9, bound, draws
            ),
            {EPSILON / bound: HALF},
            limit=15,
        )
        expected = mixed(law_of_counts(data, bound), lambda counts: release_law(counts, bound))
        assert {release: p for release, p in law.items() if release in expected} == expected


def check_release(counts_law, bound):
    check_neighbours(
        cache(lambda data: mixed(counts_law(data), lambda counts: release_law(counts, bound))),
        neighbours(3),
        HALF**-bound,
    )


@pytest.mark.parametrize("bound", [1, 2])
def test_no_neighbours_can_be_told_apart(bound):
    check_release(lambda data: law_of_counts(data, bound), bound)


def test_two_items_of_each_with_noise_for_one_are_not_private():
    def of_two(data):
        return {counts[1:]: p for counts, p in law_of_counts(data, 2).items()}

    with pytest.raises(NotPrivateError):
        check_release(of_two, 1)


def given_to_one(data):
    """Wrong: each item is given to the first who holds it, before anything is sampled."""
    given = []
    for held in data:
        given.append(frozenset(held).difference(*given))
    return tuple(given)


def test_samples_of_what_others_left_over_are_not_private():
    singles = tuple(map(frozenset, "abc"))
    pairs = [(singles, (frozenset("abc"), *singles))]

    def check(rearranged):
        check_neighbours(
            lambda data: mixed(
                law_of_counts(rearranged(data), 1), lambda counts: release_law(counts, 1)
            ),
            pairs,
            HALF**-1,
        )

    check(lambda data: data)
    with pytest.raises(NotPrivateError):
        check(given_to_one)


def test_everybodys_first_items_are_not_the_law():
    class InOrder:
        def orders(self, sizes):
            return np.concatenate([np.arange(n) for n in sizes])

    data = ("abc", "abc")
    counts = tuple(sampling._sampled_counts(*graph_of(data), 2, InOrder()))
    assert law_of_counts(data, 2) != {counts: 1}
    assert counts == (1, 2)


# With a chosen bound all counts enter at once. The noisy counts under both bounds, at epsilon/2
# each, show more than any choice could see; exp(-epsilon / 4) is 1/2.


def noise(x, q):
    return (1 - q) / (1 + q) * q ** abs(x)


@cache
def both_noisy(counts):
    near = range(-2, 6)
    return {
        shown: noise(shown[0] - counts[0], HALF**2) * noise(shown[1] - counts[1], HALF)
        for shown in product(near, repeat=2)
    }


def check_both(counts_law):
    law = cache(lambda data: mixed(counts_law(data), both_noisy))
    check_neighbours(law, neighbours(3), HALF**-4)


def test_no_neighbours_can_be_told_apart_by_all_counts_at_once():
    check_both(lambda data: law_of_counts(data, 2))


def test_counts_of_one_item_more_are_not_private_at_once():
    def shifted(data):
        return {counts[1:]: p for counts, p in law_of_counts(data, 3).items()}

    with pytest.raises(NotPrivateError):
        check_both(shifted)


# Larger data.

runs = st.lists(st.lists(st.sampled_from((*range(9), 14, 30)), max_size=6), max_size=25)


@given(runs=runs)
@settings(max_examples=150, deadline=None)
def test_larger_samples_never_shrink_and_never_exceed_the_largest_cover(runs):
    offsets = np.cumsum([0, *map(len, runs)])
    people = np.array([p for run in runs for p in run], dtype=np.int32)
    counts = sampling._sampled_counts(offsets, people, 25, secret_draws())
    largest = flow.max_cover_counts(flow.build_graph(offsets, people), 25).tolist()
    assert counts == sorted(counts)
    assert all(n <= most for n, most in zip(counts, largest, strict=True))
    assert counts[-1] == sum(1 for run in runs if run)


def test_pairs_who_share_four_items_show_the_same_one_a_quarter_of_the_time():
    pairs = np.arange(12_000).reshape(-1, 2)
    people = np.repeat(pairs, 4, axis=0).ravel()  # four items of their own for each pair
    offsets = np.arange(0, people.size + 1, 2)
    (count,) = sampling._sampled_counts(offsets, people, 1, secret_draws())
    seen = {"same": 2 * len(pairs) - count, "other": count - len(pairs)}
    assert fits(seen, {"same": 1 / 4, "other": 3 / 4})
    assert not fits(seen, {"same": 1 / 3, "other": 2 / 3})


def test_half_a_million_edges_are_quick():
    rng = np.random.default_rng()
    sizes = rng.multinomial(500_000, np.full(10_000, 1e-4))
    offsets, people = np.cumsum([0, *sizes]), rng.integers(0, 5_000, 500_000)
    sampling._sampled_counts(offsets[:2], people[: sizes[0]], 1, secret_draws())  # compiles
    start = time.perf_counter()
    counts = sampling._sampled_counts(offsets, people, 100, secret_draws())
    assert time.perf_counter() - start < 1, "thirty times what it takes, for slow machines"
    assert counts[0] <= 5_000
    assert len(counts) == 100


# The public call.

GRAPH = np.array([0, 2, 3, 5, 6]), np.array([0, 1, 0, 1, 2, 2])


@pytest.mark.parametrize(("bound", "n_bounds"), [("gem", 7), (3, 3), (9, 9)])
def test_the_release_is_made_of_the_samples_and_the_public_numbers(monkeypatch, bound, n_bounds):
    seen = []
    monkeypatch.setattr(bounded, "release", lambda *given: seen.append(given) or "released")
    assert sampling.count_distinct(*GRAPH, EPSILON, BETA, 7, bound) == "released"
    ((counts, *public, draws),) = seen
    assert len(counts) == n_bounds
    assert counts[1:] == [4] * (n_bounds - 1), "nobody holds more than two"
    assert all(type(n) is int for n in counts)
    assert public == [EPSILON, BETA, bound]
    assert callable(draws.orders)


def test_a_very_large_epsilon_leaves_the_samples_without_noise():
    release = sampling.count_distinct(*GRAPH, Fraction(10**4), BETA, 5, "gem")
    assert release.estimate == release.lower_bound
    assert 2 <= release.estimate <= 4


def test_a_bound_that_nobody_exceeds_counts_everything():
    release = sampling.count_distinct(*GRAPH, Fraction(10**4), BETA, 5, 2)
    assert (release.estimate, release.lower_bound, release.contribution_bound) == (4, 4, 2)


def test_nobody_at_all_is_counted_as_nobody():
    offsets, people = np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64)
    release = sampling.count_distinct(offsets, people, Fraction(10**4), BETA, 3, "gem")
    assert (release.estimate, release.lower_bound) == (0, 0)


def test_the_udf_needs_no_order():
    assert not sampling.UDF.ordered
    assert sampling.UDF.name == "sampling"
    assert sampling.UDF.loss is bounded.loss
    assert sampling.UDF.accuracy is bounded.accuracy


@pytest.mark.parametrize("bad", [1.0, 1, True, "1", None])
def test_an_epsilon_of_another_type_is_refused(bad):
    with pytest.raises(TypeError, match="epsilon"):
        sampling.count_distinct(*GRAPH, bad, BETA, 5, "gem")


@pytest.mark.parametrize("bad", [0.05, 1, True, "1", None])
def test_a_beta_of_another_type_is_refused(bad):
    with pytest.raises(TypeError, match="beta"):
        sampling.count_distinct(*GRAPH, EPSILON, bad, 5, "gem")


@pytest.mark.parametrize("bad", [5.0, True, "5", None, Fraction(5)])
def test_a_largest_bound_of_another_type_is_refused(bad):
    with pytest.raises(TypeError, match="max_contributions"):
        sampling.count_distinct(*GRAPH, EPSILON, BETA, bad, "gem")


@pytest.mark.parametrize("bad", [0, -3, "most"])
def test_a_bound_out_of_range_is_refused(bad):
    with pytest.raises(ValueError, match="bound"):
        sampling.count_distinct(*GRAPH, EPSILON, BETA, 5, bad)


@pytest.mark.parametrize(
    ("offsets", "people", "words"),
    [([0, 1], [-1], "at least 0"), ([0, 2], [1], "end at the number"), ([0, 1], [0.0], "integers")],
)
def test_input_that_is_no_graph_is_refused(offsets, people, words):
    with pytest.raises(ValueError, match=words):
        sampling.count_distinct(np.array(offsets), np.array(people), EPSILON, BETA, 5, "gem")
