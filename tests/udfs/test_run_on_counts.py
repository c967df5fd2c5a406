"""A distinct count whose release depends on F alone is the same from F and from the graph."""

import inspect
import random
from fractions import Fraction

import numpy as np
import pytest

from dp_sql.udfs import REGISTRY
from dp_sql.udfs.count_distinct import matching, r2t, template
from dp_sql.udfs.count_distinct.partial import partial_cover_counts
from dp_sql.udfs.exact_sampling import Draws
from tests.udfs.test_flow_shapes import power_law
from tests.udfs.test_partial import Source, and_everyone, any_person

MECHANISMS = REGISTRY["count_distinct"]
FROM_COUNTS = ["matching", "r2t", "shifted_inverse"]
WAYS = [
    (name, bound)
    for name in FROM_COUNTS
    for bound in (*MECHANISMS[name].bound_selections, *((3,) if name == "matching" else (None,)))
]

each = pytest.mark.parametrize("name", FROM_COUNTS)


def numbers(name, bound, most=7):
    public = {"epsilon": Fraction(2), "beta": Fraction(1, 20), "max_contributions": most}
    public["bound"] = bound
    return {key: public[key] for key in MECHANISMS[name].parameters}


@pytest.fixture
def same_draws(monkeypatch):
    def start(seed):
        draws = Draws(random.Random(seed).getrandbits)
        monkeypatch.setattr(template, "secret_draws", lambda: draws)

    return start


def test_only_counts_by_a_largest_cover_can_be_run_on_counts():
    for name, mechanism in MECHANISMS.items():
        assert (mechanism.bounds is not None) == (name in FROM_COUNTS)
        assert (mechanism.run_on_counts is not None) == (name in FROM_COUNTS)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("name", "bound"), WAYS)
def test_a_release_from_counts_is_the_release_from_all_edges(name, bound, same_draws):
    mechanism, public = MECHANISMS[name], numbers(name, bound)
    rng = np.random.default_rng(1)
    runs = power_law(300, 60, 30, rng)
    graph = np.cumsum([0, *map(len, runs)]), np.array([p for run in runs for p in run])
    bounds = mechanism.bounds(**public)
    source = Source(runs, and_everyone(any_person)(runs, rng), rng)
    counts = partial_cover_counts(source.thin, source.complete, bounds, source.n_people).counts
    assert counts.tolist() == matching.cover_counts(*graph, bounds)
    releases = set()
    for seed in range(40):
        same_draws(seed)
        release = mechanism.run(*graph, **public)
        same_draws(seed)
        assert [*mechanism.run_on_counts([counts], **public)] == [release]
        releases.add(release)
    assert len(releases) > 1


def test_the_bounds_that_are_looked_at_are_few_where_few_are_enough():
    assert list(MECHANISMS["matching"].bounds(**numbers("matching", "difference"))) == [1, 2, 4, 7]
    assert list(MECHANISMS["matching"].bounds(**numbers("matching", 5))) == [5]
    assert list(MECHANISMS["matching"].bounds(**numbers("matching", "gem"))) == [*range(1, 8)]
    assert list(MECHANISMS["r2t"].bounds(**numbers("r2t", None))) == r2t.bounds(7)
    wide = MECHANISMS["shifted_inverse"].bounds(**numbers("shifted_inverse", None))
    assert list(wide) == [*range(1, 8)]


@each
def test_it_takes_the_declared_numbers_and_states_its_privacy(name):
    mechanism = MECHANISMS[name]
    takes = inspect.signature(mechanism.run_on_counts).parameters
    assert list(takes) == ["counts", *mechanism.parameters]
    assert list(inspect.signature(mechanism.bounds).parameters) == list(mechanism.parameters)
    assert "Privacy: " in inspect.getdoc(mechanism.run_on_counts)


@each
def test_counts_of_other_bounds_are_refused(name):
    mechanism, public = MECHANISMS[name], numbers(name, "difference")
    counts = [5] * len(mechanism.bounds(**public))
    for wrong in (counts[1:], [*counts, 5]):
        with pytest.raises(ValueError, match="one count for each"):
            mechanism.run_on_counts([counts, wrong], **public)
    with pytest.raises(TypeError):
        mechanism.run_on_counts([[5.0, *counts[1:]]], **public)
    assert mechanism.run_on_counts([], **public) == []


@each
def test_numbers_out_of_range_are_refused_before_anything_is_counted(name):
    public = numbers(name, "difference")
    for wrong in ({"epsilon": Fraction(0)}, {"beta": Fraction(1)}, {"max_contributions": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            MECHANISMS[name].bounds(**public | wrong)
