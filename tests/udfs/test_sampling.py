"""Sampling: the distribution of the counts, and that nobody moves it further than the noise covers."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_sql.udfs.count_distinct import bounded, flow, sampling, template
from dp_sql.udfs.count_distinct.graph import build_graph
from dp_sql.udfs.exact_sampling import secret_draws
from tests.udfs.cases_bounded import BETA, EPSILON, GRAPH, HALF, given_distribution, graph_of
from tests.udfs.cases_sampling import distribution_of_counts, mixed
from tests.udfs.distributions import distribution_of, fits


def test_repetitions_do_not_change_the_distribution():
    offsets, people = np.array([0, 3, 5, 6]), np.array([1, 0, 1, 1, 1, 0])

    def run(draws):
        return tuple(sampling.sampled_counts(offsets, people, 3, draws))

    once = (frozenset("ac"), frozenset("ab"))
    assert distribution_of(run, {})[0] == distribution_of_counts(once, 3)


# Privacy. With a given bound the release is the shipped one and exp(-epsilon / bound) is 1/2.


@pytest.mark.one_in(2)
@pytest.mark.parametrize("bound", [1, 2])
def test_the_whole_run_has_the_distribution_of_samples_and_noise(bound, monkeypatch):
    for data in (("abc", "b", "bc"), ("ab", "abc"), ()):

        def run(draws, data=data):
            for module in (sampling, template):
                monkeypatch.setattr(module, "secret_draws", lambda: draws)
            return sampling.SAMPLING.run(*graph_of(data), EPSILON, BETA, 9, bound)

        distribution, _ = distribution_of(run, {EPSILON / bound: HALF}, limit=15)
        expected = mixed(
            distribution_of_counts(data, bound), lambda counts: given_distribution(counts, bound)
        )
        assert {
            release: p for release, p in distribution.items() if release in expected
        } == expected


def test_everybodys_first_items_are_not_the_distribution():
    class InOrder:
        def orders(self, sizes):
            return np.concatenate([np.arange(n) for n in sizes])

    data = ("abc", "abc")
    counts = tuple(sampling.sampled_counts(*graph_of(data), 2, InOrder()))
    assert distribution_of_counts(data, 2) != {counts: 1}
    assert counts == (1, 2)


# Larger data.

runs = st.lists(st.lists(st.sampled_from((*range(9), 14, 30)), max_size=6), max_size=25)


@given(runs=runs)
@settings(max_examples=60, deadline=None)
def test_larger_samples_never_shrink_and_never_exceed_the_largest_cover(runs):
    offsets = np.cumsum([0, *map(len, runs)])
    people = np.array([p for run in runs for p in run], dtype=np.int32)
    counts = sampling.sampled_counts(offsets, people, 25, secret_draws())
    largest = flow.max_cover_counts(build_graph(offsets, people), range(1, 26)).tolist()
    assert counts == sorted(counts)
    assert all(n <= most for n, most in zip(counts, largest, strict=True))
    assert counts[-1] == sum(1 for run in runs if run)


def test_each_bound_has_the_count_of_its_own_samples():
    """Of 5 and 2 items that no one shares, a bound leaves as many of each person."""
    offsets, people = np.arange(8), np.array([0, 0, 0, 0, 0, 1, 1])
    for bounds in ([1, 2, 4, 8], [3], [1, 5]):
        kept = [min(5, bound) + min(2, bound) for bound in bounds]
        assert sampling.cover_counts(offsets, people, bounds) == kept


def test_pairs_who_share_four_items_show_the_same_one_a_quarter_of_the_time():
    pairs = np.arange(12_000).reshape(-1, 2)
    people = np.repeat(pairs, 4, axis=0).ravel()  # four items of their own for each pair
    offsets = np.arange(0, people.size + 1, 2)
    (count,) = sampling.sampled_counts(offsets, people, 1, secret_draws())
    seen = {"same": 2 * len(pairs) - count, "other": count - len(pairs)}
    assert fits(seen, {"same": 1 / 4, "other": 3 / 4})
    assert not fits(seen, {"same": 1 / 3, "other": 2 / 3})


# The public call.


@pytest.mark.parametrize(("bound", "tried"), [("gem", range(1, 8)), (3, [3])])
def test_the_release_is_made_of_the_samples_and_the_public_numbers(monkeypatch, bound, tried):
    seen = []
    monkeypatch.setattr(bounded, "release_each", lambda *given: seen.append(given) or ["released"])
    assert sampling.SAMPLING.run(*GRAPH, EPSILON, BETA, 7, bound) == "released"
    (((counts,), *public, draws, bounds),) = seen
    assert bounds == tried
    assert counts[1:] == [4] * (len(tried) - 1), "no one holds more than two"
    assert all(type(n) is int for n in counts)
    assert public == [EPSILON, BETA, bound]
    assert callable(draws.orders)


def test_a_very_large_epsilon_leaves_the_samples_without_noise():
    release = sampling.SAMPLING.run(*GRAPH, Fraction(10**4), BETA, 5, "gem")
    assert release.estimate == release.lower_bound
    assert 2 <= release.estimate <= 4


def test_a_bound_that_no_one_exceeds_counts_everything():
    release = sampling.SAMPLING.run(*GRAPH, Fraction(10**4), BETA, 5, 2)
    assert (release.estimate, release.lower_bound, release.contribution_bound) == (4, 4, 2)
