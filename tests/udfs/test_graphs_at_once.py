"""Distinct counts of several graphs at once: the counts of each alone, and independent draws."""

from fractions import Fraction
from functools import cache
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_sql.udfs import REGISTRY
from dp_sql.udfs.count_distinct import bounded, difference, flow, pairs, template
from dp_sql.udfs.count_distinct.graph import LIMIT, Graphs, build_graph, build_graphs
from dp_sql.udfs.exact_sampling import secret_draws
from dp_sql.udfs.mixed import Mixed
from dp_sql.udfs.slices import slices
from tests.udfs.cases_difference import BOUNDS, defined_distribution
from tests.udfs.choices import PowersOf
from tests.udfs.distributions import distribution_of

HALF, BETA = Fraction(1, 2), Fraction(1, 20)
MECHANISMS = REGISTRY["count_distinct"]

PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(-3, 3)), max_size=12)
GROUPS = st.lists(PAIRS, min_size=1, max_size=5)


def arrays(group):
    items, people = zip(*group, strict=True) if group else ((), ())
    return np.array(items, np.int32), np.array(people, np.int64)


# --- the counts ---


@given(GROUPS)
def test_the_counts_of_each_graph_are_those_of_it_alone(groups):
    runs = [pairs.runs_of_items(*arrays(group)) for group in groups]
    alone = [flow.max_cover_counts(build_graph(*one), BOUNDS).tolist() for one in runs]
    assert flow.max_cover_counts_each(*build_graphs(runs), BOUNDS).tolist() == alone
    at_once = pairs.runs_of_groups([arrays(group) for group in groups])
    assert flow.max_cover_counts_each(*build_graphs(at_once), BOUNDS).tolist() == alone


@given(GROUPS)
def test_the_runs_of_each_group_are_those_of_its_items(groups):
    found = pairs.runs_of_groups([arrays(group) for group in groups])
    for (offsets, people), group in zip(found, groups, strict=True):
        runs = [people[i:j].tolist() for i, j in pairwise(offsets)]
        items = [*dict.fromkeys(item for item, _ in group)]
        persons = [*dict.fromkeys(person for _, person in group)]
        named = [sorted(persons[p] for p in run) for run in runs if len(items) == len(runs)]
        if len(groups) > 1:
            assert named == [sorted(p for item, p in group if item == own) for own in items]
        assert sorted({*people.tolist()}) == [*range(len(persons))]


def mixed_pairs(groups, *, apart):
    """The pairs of all groups as people are numbered in memory: apart, or as they are."""
    codes = [
        {item: i for i, item in enumerate(dict.fromkeys(item for item, _ in g))} for g in groups
    ]
    rows = [
        (i, codes[i][item], person + 9 * i * apart)
        for i, group in enumerate(groups)
        for item, person in group
    ]
    owners, *columns = np.array(rows, np.int64).reshape(-1, 3).T
    return Mixed(len(groups), owners, tuple(columns))


@given(GROUPS, st.booleans(), st.sampled_from([1, 9]))
def test_pairs_that_are_mixed_lead_to_the_same_counts(groups, apart, times):
    of = mixed_pairs(groups, apart=apart)
    of = Mixed(of.n, of.owners, (of.columns[0] * times, of.columns[1]))
    alone = [flow.max_cover_counts(build_graph(*pairs.runs_of_items(*one)), BOUNDS) for one in of]
    found = pairs.runs_of_groups(of)
    assert isinstance(found, Graphs) or times > 1 or not apart
    assert len(found) == of.n
    assert (
        flow.max_cover_counts_each(*build_graphs(found), BOUNDS).tolist()
        == np.array(alone).tolist()
    )
    each = [flow.max_cover_counts(build_graph(*one), BOUNDS).tolist() for one in found]
    assert each == np.array(alone).tolist()


def test_codes_that_are_far_apart_take_no_more_memory():
    of = Mixed(2, np.array([0, 1]), (np.array([0, 10**7]), np.array([3, 4])))
    offsets, people = pairs.runs_of_groups(of)[1]
    assert (offsets.tolist(), people.tolist()) == ([0, 1], [0])


@given(GROUPS, st.integers(0, 5), st.integers(0, 5))
def test_some_of_several_graphs_are_those_graphs(groups, start, stop):
    found = pairs.runs_of_groups(mixed_pairs(groups, apart=True))
    each = [[part.tolist() for part in one] for one in found]
    assert [[part.tolist() for part in one] for one in found[start:stop]] == each[start:stop]
    assert found.sizes == [len(offsets) + len(people) for offsets, people in found]
    assert all(sorted({*people}) == [*range(len({*people}))] for _, people in each)


@given(GROUPS)
def test_people_and_items_that_are_numbered_keep_their_numbers(groups):
    listed = [arrays([(item, abs(person)) for item, person in group]) for group in groups]
    found = pairs.runs_of_groups(listed, numbered=True)
    for (offsets, people), one in zip(found, listed, strict=True):
        wanted = pairs.runs_of_items(*one, numbered=True)
        assert (offsets.tolist(), people.tolist()) == tuple(x.tolist() for x in wanted)


@pytest.mark.parametrize("code", [-1, LIMIT, 1 << 40])
def test_a_code_out_of_range_in_some_group_is_refused(code):
    right = np.array([0]), np.array([0])
    with pytest.raises(ValueError, match="item codes"):
        pairs.runs_of_groups([right, (np.array([code]), np.array([0]))])
    with pytest.raises(ValueError, match="as many integers"):
        pairs.runs_of_groups([right, (np.array([0, 1]), np.array([0]))])
    with pytest.raises(ValueError, match="as many integers"):
        pairs.runs_of_groups([right, (np.array([0.5]), np.array([0]))])


WRONG = {
    "offsets must start": ([[1, 2], [0]], [[0, 1, 3], [0, 0]], [[], []]),
    "offsets must never fall": ([[0, 2, 1, 3], [0, 0, 0]], [[0, 2**40, 1], [0]]),
    "person codes": ([[0, 1], [-1]], [[0, 1], [LIMIT]], [[0, 1], [LIMIT - 1]]),
    "array of integers": ([[0, 1], [0.5]], [[0.5, 1], [0]], [[[0, 1]], [0]]),
}


@pytest.mark.parametrize(("says", "wrong"), [(says, w) for says in WRONG for w in WRONG[says]])
def test_a_graph_that_is_none_is_refused_among_others(says, wrong):
    right = np.array([0, 2]), np.array([0, 1])
    one = tuple(np.array(x) if x else np.zeros(0, np.int64) for x in wrong)
    for some in ([right, one], [one, right]):
        with pytest.raises(ValueError, match=says):
            build_graphs(some)


@pytest.mark.pure
def test_people_that_two_graphs_share_would_be_noticed():
    """Two graphs of one person with two items each: as one graph, the person covers one of four."""
    one = np.array([0, 1, 2]), np.array([0, 0])
    assert flow.max_cover_counts_each(*build_graphs([one, one]), [1, 2]).tolist() == [[1, 2]] * 2
    shared = build_graph(np.array([0, 1, 2, 3, 4]), np.zeros(4, np.int64))
    found = flow.max_cover_counts_each(shared, np.array([2, 4]), [1, 2])
    assert found.sum(axis=0).tolist() == [1, 2]


# --- the draws ---

EPSILON, COST = Fraction(1), 1
COVERS = [(3, 4, 4, 4), (1, 1, 1, 1), (5, 9, 12, 14), (0, 0, 0, 0)]


def law_of_places(covers):
    """The exact distribution of the bounds chosen for these covers, on a grid of 1."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounded, "discrete_laplaces", lambda rates, draws: [0] * len(rates))
        patch.setattr(difference, "grid_of", lambda epsilon: 1)
        patch.setattr(difference, "_COST", COST)

        def run(draws):
            given = (2 * EPSILON, BETA, "difference", draws, BOUNDS)
            found = bounded.release_each(covers, *given)
            both = zip(covers, found, strict=True)
            estimates = [c[BOUNDS.index(r.contribution_bound)] for c, r in both]
            assert [one.estimate for one in found] == estimates
            return tuple(one.contribution_bound for one in found)

        found, unfinished = distribution_of(run, PowersOf(HALF, EPSILON / 2))
    assert unfinished == 0
    return found


@cache
def alone(cover):
    return defined_distribution(cover, COST)


def is_product(covers):
    wanted = {}
    for places in product(BOUNDS, repeat=len(covers)):
        wanted[places] = Fraction(1)
        for cover, at in zip(covers, places, strict=True):
            wanted[places] *= alone(cover)[at]
    return all(law_of_places(form(covers)) == wanted for form in (list, np.array))


@pytest.mark.parametrize("covers", [COVERS[:2], COVERS[1:3], COVERS[:1] * 2, COVERS[1:]])
def test_bounds_of_several_graphs_have_the_product_of_their_distributions(covers):
    assert is_product(covers)


@pytest.mark.parametrize("fits", [-1])
def test_they_have_it_where_numbers_are_objects(fits, monkeypatch):
    monkeypatch.setattr(difference, "_FITS", fits)
    assert is_product(COVERS[:2])


@pytest.mark.pure
def test_scores_of_another_graph_would_be_noticed(monkeypatch):
    right = difference.normalized_by_difference
    monkeypatch.setattr(
        difference, "normalized_by_difference", lambda covers, *given: right(covers[::-1], *given)
    )
    assert not is_product(COVERS[:2])


@pytest.mark.pure
def test_one_choice_for_all_graphs_would_be_noticed(monkeypatch):
    right = difference.choose_by_differences
    monkeypatch.setattr(
        bounded,
        "choose_by_differences",
        lambda covers, *given: right(covers[:1], *given) * len(covers),
    )
    assert not is_product([COVERS[0]] * 2)


LARGE = st.lists(st.integers(0, 2**31), min_size=4, max_size=4).map(sorted)


@given(st.lists(LARGE, min_size=1, max_size=3), st.fractions(Fraction(1, 10**12), 10**12))
def test_scores_of_64_bits_and_of_objects_are_the_same(covers, cost):
    cost = max(cost, Fraction(1, 10**12))
    with pytest.MonkeyPatch.context() as patch:
        found = difference.normalized_by_difference(covers, BOUNDS, cost, 1024)
        patch.setattr(difference, "_FITS", -1)
        exact = difference.normalized_by_difference(covers, BOUNDS, cost, 1024)
    assert exact.dtype == object
    assert found.tolist() == exact.tolist()
    for cover, scores in zip(covers, exact.tolist(), strict=True):
        for i, (at, n) in enumerate(zip(BOUNDS, cover, strict=True)):
            each = [
                (cost * (at - its) - (n - other)) / max(min(at, its), abs(at - its))
                for its, other in zip(BOUNDS, cover, strict=True)
            ]
            assert scores[i] == 1024 * max(each) // 1


def test_noise_is_at_the_rate_of_its_own_bound(monkeypatch):
    monkeypatch.setattr(bounded, "discrete_laplaces", lambda rates, draws: rates)
    monkeypatch.setattr(bounded, "choose_by_differences", lambda *_: [2, 0, 1])
    found = bounded.release_each(
        [[1, 2, 3], [4, 5, 6], [7, 8, 9]],
        Fraction(2),
        BETA,
        "difference",
        secret_draws(),
        [1, 2, 4],
    )
    assert [(r.estimate, r.contribution_bound) for r in found] == [
        (3 + Fraction(1, 4), 4), (4 + Fraction(1), 1), (8 + HALF, 2),
    ]  # fmt: skip
    for one in found:
        at = one.contribution_bound
        distance = bounded.noise_bound(at, Fraction(2), BETA, "difference")
        assert one.estimate - one.lower_bound == distance


# --- the mechanisms ---

RUNS = [
    (np.array([0, 2, 3]), np.array([0, 1, 1])),
    (np.array([0]), np.zeros(0, np.int64)),
    (np.array([0, 1, 2, 4]), np.array([0, 0, 0, 1])),
]


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize(("counts", "edges"), [(1 << 20, 1 << 18), (1, 1 << 18), (1 << 20, 1)])
def test_a_mechanism_runs_on_each_graph(name, counts, edges, monkeypatch):
    monkeypatch.setattr(template, "_COUNTS", counts)
    monkeypatch.setattr(template, "_EDGES", edges)
    mechanism = MECHANISMS[name]
    public = {"epsilon": Fraction(10**4), "beta": BETA, "max_contributions": 3, "bound": 3}
    given = {key: public[key] for key in mechanism.parameters}
    found = mechanism.run_each(RUNS, **given)
    assert len(found) == len(RUNS)
    if name != "shifted_inverse":  # the others are sure of an answer here
        assert [*found] == [mechanism.run(*one, **given) for one in RUNS]
        assert [one.estimate for one in found] == [2, 0, 3]
    assert mechanism.run_each([], **given) == []


@pytest.mark.parametrize("sizes", [[], [0], [5], [1] * 7, [9, 0, 0, 1, 9]])
def test_slices_hold_every_group_once(sizes):
    for most, together in product((1, 2, 100), (1, 3, 100)):
        found = [*slices(sizes, most, together)]
        assert [i for part in found for i in range(len(sizes))[part]] == [*range(len(sizes))]
        for part in found:
            assert 1 <= part.stop - part.start <= most
            assert sum(sizes[part][:-1]) < together
