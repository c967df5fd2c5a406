"""Lists for many rows of counts at once: each has the distribution of a run alone, and no other row's."""

from collections import Counter
from fractions import Fraction
from functools import partial
from itertools import product

import numpy as np
import pytest

from dp_sql.udfs.exact_sampling import secret_draws
from dp_sql.udfs.topk import (
    joint,
    limited_domain,
    lists_at_once,
    rounds_at_once,
    sets_at_once,
    subset,
    weighted_gaussian,
)
from tests.udfs import cases_joint, cases_subset, cases_weighted_gaussian
from tests.udfs import cases_limited_domain as limited
from tests.udfs.conformance import Domain, Mutant, changed, check_distribution
from tests.udfs.distributions import accepted, distribution_of, fits

HALF = Fraction(1, 2)
CUTS = (1, 2, 9)
BESIDE = (7, 0, 3)
"""A row with more layers than the others have."""


def as_matrix(*rows):
    return np.array(rows, dtype=np.int64)


def given_accepted(attempt, known, columns, path):
    """For each row a value from the distribution of `attempt`, given that it accepts one.

    known: the distributions of rows that have come on other paths.
    """
    found = []
    for i in range(len(columns[0])):
        row = tuple(column[i : i + 1] for column in columns)
        key = tuple(one.tobytes() for one in row)
        if key not in known:
            distribution, unfinished = distribution_of(
                partial(attempt, *row), cases_joint.Q_OF_RATE
            )
            assert unfinished == 0
            known[key] = [*zip(*accepted(distribution).items(), strict=True)]
        values, probabilities = known[key]
        found.append(values[path._step(probabilities)])
    return np.array(found), np.ones(len(found), bool)


def exact_layers(known, choices, last, rate, path):
    """`propose_layers`, drawn from its distribution given that the layer is accepted."""

    def attempt(choices, last, draws):
        drawn, fair = propose(choices, last, rate, draws)
        return int(drawn[0]) if fair[0] else None

    return given_accepted(attempt, known, (choices, last), path)


propose = lists_at_once.propose_layers


def drawn(each, kind, rows, k, cut):
    """The exact distribution of what `each` draws for all rows together, tuples or sets."""
    rate = joint.rate_of(k, cases_joint.EPSILON)
    distribution, unfinished = distribution_of(
        lambda path: tuple(map(kind, each(as_matrix(*rows), k, rate, cut, path).tolist())),
        cases_joint.Q_OF_RATE,
    )
    assert unfinished == 0
    return {answer: p for answer, p in distribution.items() if p}


def lists_drawn(rows, k, cut):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lists_at_once, "propose_layers", partial(exact_layers, {}))
        patch.setattr(joint, "joint", None)
        return drawn(joint.joint_each, tuple, rows, k, cut)


def lists_defined(rows, k, cut):
    q = cases_joint.Q_OF_RATE[joint.rate_of(k, cases_joint.EPSILON)]
    each = [cases_joint.joint_definition(counts, k, cut, q).items() for counts in rows]
    together = {}
    for choice in product(*each):
        lists, chances = zip(*choice, strict=True)
        together[lists] = np.prod(np.array(chances, object))
    return together


def histograms(cut, *sizes):
    return Domain(
        lambda data: lists_drawn([data[0]], data[1], cut),
        inputs=lambda: (data for size in sizes for data in cases_joint.sizes_and_counts(*size)),
        defined=lambda data: lists_defined([data[0]], data[1], cut),
    )


def beside_another(k, cut):
    return Domain(
        lambda counts: lists_drawn([counts, BESIDE], k, cut),
        inputs=lambda: [(3, 2, 0), (0, 0, 0), (5, 5, 4)],
        defined=lambda counts: lists_defined([counts, BESIDE], k, cut),
    )


@pytest.mark.parametrize("cut", CUTS)
def test_lists_drawn_at_once_are_distributed_as_the_definition_says(cut):
    check_distribution(histograms(cut, (3, 3), (4, 1)))


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("k", [1, 2, 3])
def test_lists_of_several_rows_are_independent(k, cut):
    check_distribution(beside_another(k, cut))


def test_lists_of_many_items_take_more_factors_than_one_number(monkeypatch):
    monkeypatch.setattr(lists_at_once, "_FACTOR_BITS", 4)
    check_distribution(histograms(2, (4, 2)))


def further(gaps, k, last, right=lists_at_once.n_choices):
    return right(gaps, k, np.maximum(last - 1, 0))


def fewer(patch):
    """Lists in which the last item of a layer is never taken."""
    right = lists_at_once.shuffled
    patch.setattr(
        lists_at_once,
        "shuffled",
        lambda places, spots: right(places, np.minimum(spots, places.shape[1] - 2)),
    )


def every_proposal_counts(patch):
    right = propose

    def wrong(*given):
        drawn, fair = right(*given)
        return drawn, fair | True

    patch.setitem(globals(), "propose", wrong)


@pytest.mark.pure
@pytest.mark.parametrize(
    "tamper",
    [every_proposal_counts, changed(lists_at_once, "n_choices", further), fewer],
    ids=["the last layer is too heavy", "a layer too few", "an item left out"],
)
def test_tampered_lists_are_found_out(tamper):
    Mutant(histograms(9, (3, 3)), tamper, check=check_distribution).is_rejected()


def test_many_lists_drawn_with_real_bits_fit():
    counts, epsilon = cases_joint.JOINT_SAMPLED, Fraction(1)
    q = Fraction(np.exp(-0.5))
    expected = {
        picks: float(p) for picks, p in cases_joint.joint_definition(counts, 2, 10**6, q).items()
    }
    other = (9, 0, 0, 0), (1, 1, 1, 1)
    data = [(np.array(one),) for _ in range(4200) for one in (counts, counts, *other)]
    for tenths, fit in ((10, True), (7, False), (13, False)):
        lists = joint.JOINT.run_each(data, 2, epsilon * tenths / 10)
        assert fits(Counter(map(tuple, lists[::4] + lists[1::4])), expected) == fit


def test_rows_that_are_drawn_alone_have_lists_as_well():
    rows = [(10**9, 0, 5), (1, 2, 3), (2**61, 2**61, 0)]
    data = [(np.array(one),) for one in rows]
    lists = joint.JOINT.run_each(data, 2, Fraction(1, 10**15))
    assert [len({*one}) for one in lists] == [2, 2, 2]
    assert joint.JOINT.run_each(data, 2, Fraction(10**6))[:2] == [[0, 2], [2, 1]]
    assert joint.JOINT.run_each([], 2, Fraction(1)) == []
    with pytest.raises(ValueError, match="counts"):
        joint.JOINT.run_each([*data, (np.array([1, -1, 0]),)], 2, Fraction(1))


# Sets.


propose_sets = sets_at_once.propose_sets


def exact_sets(known, d, free, last, lead, rate, path):
    """`propose_sets`, drawn from its distribution given that the set is accepted."""

    def attempt(free, last, lead, draws):
        ranks, fair = propose_sets(d, free, last, lead, rate, draws)
        return tuple(ranks[0].tolist()) if fair[0] else None

    return given_accepted(attempt, known, (free, last, lead), path)


def sets_drawn(rows, k, cut):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sets_at_once, "propose_sets", partial(exact_sets, {}))
        return drawn(subset.subset_each, frozenset, rows, k, cut)


def sets_defined(rows, k, cut):
    one, *others = [cases_subset.subset_definition(counts, k, cut).items() for counts in rows]
    together = {(own,): p for own, p in one}
    for other in others:
        together = {(*a, b): p * q for a, p in together.items() for b, q in other}
    return together


def every_set(cut, *size):
    return Domain(
        lambda data: sets_drawn([data[0]], data[1], cut),
        inputs=lambda: cases_subset.shapes(*size),
        defined=lambda data: sets_defined([data[0]], data[1], cut),
    )


@pytest.mark.parametrize("cut", CUTS)
def test_sets_drawn_at_once_are_distributed_as_the_definition_says(cut):
    check_distribution(every_set(cut, 4, 2))


@pytest.mark.slow
@pytest.mark.parametrize("cut", CUTS)
def test_larger_sets_drawn_at_once_are_distributed_as_the_definition_says(cut):
    check_distribution(every_set(cut, 5, 2))


@pytest.mark.parametrize("k", [2, 3])
def test_sets_of_several_rows_are_independent(k):
    rows = [(3, 2, 0, 2), (7, 0, 3, 5)]
    assert sets_drawn(rows, k, 9) == sets_defined(rows, k, 9)


def without_the_lead(known, d, free, last, lead, *more, right=exact_sets):
    return right(known, d, free, last, 0 * lead, *more)


def families_too_large(d, free, right=sets_at_once._n_sets):
    return right(d, free + 1)


def ends_too_heavy(patch):
    """Every proposal of all sets or of the k best is accepted."""
    right = sets_at_once.are_kept
    patch.setattr(sets_at_once, "are_kept", lambda ends, *more: right(ends & False, *more))


@pytest.mark.pure
@pytest.mark.parametrize(
    "tamper",
    [
        changed(sets_at_once, "_n_sets", families_too_large),
        ends_too_heavy,
        lambda patch: patch.setitem(globals(), "exact_sets", without_the_lead),
    ],
    ids=["families too large", "ends too heavy", "no lead"],
)
def test_tampered_sets_are_found_out(tamper):
    Mutant(every_set(9, 4, 2), tamper, check=check_distribution).is_rejected()


def test_many_sets_drawn_with_real_bits_fit():
    definition = cases_subset.subset_definition(
        cases_subset.SAMPLED, 2, 10**6, Fraction(np.exp(-0.5))
    )
    expected = {picks: float(p) for picks, p in definition.items()}
    data = [(np.array(cases_subset.SAMPLED),)] * 4000
    for tenths, fit in ((10, True), (7, False), (13, False)):
        sets = subset.SUBSET.run_each(data, 2, Fraction(tenths, 10))
        assert fits(Counter(map(frozenset, sets)), expected) == fit
    assert (
        subset.SUBSET.run_each(data[:2], len(cases_subset.SAMPLED), Fraction(1))
        == [[*range(len(cases_subset.SAMPLED))]] * 2
    )


# Rounds.


def limited_drawn(data, k, constants):
    distribution, unfinished = distribution_of(
        lambda path: tuple(
            map(tuple, limited_domain._topk_at_once([*map(np.array, data)], k, constants, path))
        ),
        {constants.rate: limited.q_of(constants.rate)},
    )
    assert unfinished == 0
    return {lists: p for lists, p in distribution.items() if p}


STOPPING = limited_domain.Constants(kbar=2, rate=limited.HALVING, threshold=1)


def limited_domain_of(k):
    return Domain(
        lambda largest: limited_drawn([largest], k, STOPPING),
        inputs=lambda: limited.small_largest(2, 4),
        defined=lambda largest: {
            (picks,): p for picks, p in limited.defined_distribution(largest, k, STOPPING).items()
        },
    )


@pytest.mark.parametrize("k", [1, 2, 3])
def test_lists_that_stop_are_distributed_as_the_definition_says(k):
    check_distribution(limited_domain_of(k))


def test_lists_that_stop_are_independent():
    one, other = (3, 1), (4, 2, 2)
    apart = [limited.defined_distribution(largest, 2, STOPPING) for largest in (one, other)]
    together = {(a, b): apart[0][a] * apart[1][b] for a in apart[0] for b in apart[1]}
    assert limited_drawn([one, other], 2, STOPPING) == together


def stopped_late(scores, n_picks, *more):
    picks = rounds_at_once.peel_each(scores, n_picks, *more)
    return np.where(picks == 0, 1, picks)


@pytest.mark.pure
@pytest.mark.parametrize(
    "wrong",
    [
        stopped_late,
        lambda scores, n, rate, cuts, draws: rounds_at_once.peel_each(
            scores, n, rate, cuts // cuts, draws
        ),
    ],
    ids=["does not stop", "a cut"],
)
def test_tampered_rounds_are_found_out(wrong):
    tamper = changed(limited_domain, "peel_each", wrong)
    Mutant(limited_domain_of(2), tamper, check=check_distribution).is_rejected()


def peeled(scores, n_picks, cuts):
    """The exact distribution of what is taken at q = 1/2."""
    distribution, unfinished = distribution_of(
        lambda path: tuple(
            map(
                tuple,
                rounds_at_once.peel_each(
                    as_matrix(*scores), np.array(n_picks), HALF, np.array(cuts), path
                ).tolist(),
            )
        ),
        {HALF: HALF},
    )
    assert unfinished == 0
    return distribution


def peeled_by_definition(scores, n, cut, picks=()):
    free = [x for x, score in enumerate(scores) if score >= 0 and x not in picks]
    if len(picks) == n:
        return {picks: Fraction(1)}
    top = max(scores[x] for x in free)
    weights = {x: HALF ** min(top - scores[x], cut) for x in free}
    found = Counter()
    for x, weight in weights.items():
        for own, p in peeled_by_definition(scores, n, cut, (*picks, x)).items():
            found[own] += p * weight / sum(weights.values())
    return found


def test_rounds_of_several_rows_are_those_of_each_alone():
    scores, n_picks, cuts = [(5, 3, 0), (2, 2, -1)], (3, 1), (2, 9)
    one, other = map(peeled_by_definition, scores, n_picks, cuts)
    expected = {(a, (*b, -1, -1)): one[a] * other[b] for a in one for b in other}
    assert {lists: p for lists, p in peeled(scores, n_picks, cuts).items() if p} == expected


def test_items_found_in_several_groups_are_those_of_each_alone():
    """The groups have neither people nor items in common, though these have equal numbers."""
    groups = [((0, 1), (0,)), (), ((1, 2),)]
    constants = cases_weighted_gaussian.SMALL
    apart = [
        cases_weighted_gaussian.defined_distribution(people, 2, constants) for people in groups
    ]

    def run(path):
        pairs = [cases_weighted_gaussian.as_pairs(people) for people in groups]
        sizes, items, group, codes = weighted_gaussian.items_of_people_in_groups(pairs)
        found = weighted_gaussian.find(sizes, items, constants, path)
        counts, starts = np.bincount(items)[found], np.searchsorted(group[found], range(4))
        picks = weighted_gaussian._lists_each(counts, starts, 2, constants, path)
        own = zip(starts.tolist(), picks, strict=False)
        return tuple(tuple(codes[found[places + start]].tolist()) for start, places in own)

    distribution, unfinished = distribution_of(run, {constants.rate: limited.q_of(constants.rate)})
    assert unfinished == 0
    expected = {
        (a, b, c): apart[0][a] * apart[1][b] * apart[2][c]
        for a in apart[0] for b in apart[1] for c in apart[2]
    }  # fmt: skip
    assert {lists: p for lists, p in distribution.items() if p} == expected


@pytest.mark.parametrize("most", [1, 1 << 10])
def test_sure_items_are_listed_in_each_group(most, monkeypatch):
    monkeypatch.setattr(rounds_at_once, "_MOST_SCORES", most)
    given = {"k": 2, "epsilon": Fraction(100), "delta": Fraction(1, 10**6)}
    sure = np.repeat([7, 3], [9000, 5000]), np.concatenate([range(9000), range(5000)])
    nothing = np.empty(0, np.int64), np.empty(0, np.int64)
    data = [sure, nothing, (np.array([5]), np.array([1]))]
    assert weighted_gaussian.topk_each(data, max_contributions=3, **given) == [[7, 3], [], []]
    assert weighted_gaussian.topk_each([], max_contributions=3, **given) == []
    counts = [(np.array([9000, 5000]),), (np.empty(0, np.int64),)]
    assert limited_domain.topk_each(counts, **given) == [[0, 1], []]


def test_memory_is_limited_however_uneven_the_groups_are(monkeypatch):
    """One wide group among many narrow ones must not make all of them wide."""
    cells = []

    def counted(module, name, of):
        right = getattr(module, name)

        def wrapper(*given):
            cells.append(of(*given))
            return right(*given)

        monkeypatch.setattr(module, name, wrapper)

    counted(lists_at_once, "propose_layers", lambda choices, *_: choices.size)
    counted(sets_at_once, "_n_sets", lambda d, free: free.size * free.shape[2])
    counted(limited_domain, "peel_each", lambda scores, *_: scores.size)
    counted(weighted_gaussian, "peel_each", lambda scores, *_: scores.size)
    even, steep = (np.ones(4, np.int64),), (np.array([500, 500, 0, 0]),)
    for mechanism in (joint.JOINT, subset.SUBSET):
        lists = mechanism.run_each(
            [even] * 3000 + [steep], 2, Fraction(1, 10)
        )  # 1e-10 that another
        assert sorted(lists[-1]) == [0, 1]
    few, many = (np.array([5]),), (np.arange(500, 0, -1),)
    limited_domain.topk_each([few] * 3000 + [many], 1, Fraction(1), Fraction(1, 10))
    found, starts = np.ones(3500, np.int64), np.array([*range(3001), 3500])
    constants = cases_weighted_gaussian.SMALL
    weighted_gaussian._lists_each(found, starts, 1, constants, secret_draws())
    assert len(cells) > 8
    assert max(cells) <= 1 << 18
