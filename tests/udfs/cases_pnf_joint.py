"""Permute-and-flip over whole lists: laws, neighbours and mutants."""

import math
from collections import Counter
from fractions import Fraction
from functools import cache, partial
from itertools import combinations_with_replacement, permutations, product

import numpy as np

from dp_sql.udfs import permute_and_flip as flip
from dp_sql.udfs.exact_sampling import Odds
from dp_sql.udfs.mechanism import PrivacyLoss
from dp_sql.udfs.permute_and_flip import Clock
from dp_sql.udfs.topk import joint, pnf_joint
from tests.udfs.cases_lists import (
    EPSILON,
    JOINT,
    Q_OF_RATE,
    err,
    lists_fit,
    people_of,
    small_histograms,
)
from tests.udfs.conformance import Case, Domain, Mutant, changed, check_law, times_two
from tests.udfs.laws import PathTooLongError, accepted, law_of, normalized

# Permute-and-flip over whole lists.

HALF = Fraction(1, 2)


def shipped_lists(counts, k, cut):
    rate = joint._rate(k, EPSILON)
    return pnf_joint._lists(np.array(counts, dtype=np.int64), k, rate, cut), Q_OF_RATE[rate]


def attempt_law(lists, q, clocks=()):
    """The exact law of one shipped attempt that was not rejected."""
    law, unfinished = law_of(partial(lists.attempt, clocks=clocks), {lists.stairs.odds.rate: q})
    assert unfinished == 0
    return accepted(law)


def defined_weights(counts, k, cut, q):
    """The probability with which each list is accepted when it is visited."""
    every = permutations(range(len(counts)), k)
    return {picks: q ** min(err(counts, picks), cut) for picks in every}


def flips(weights):
    """Permute-and-flip: x arrives at a uniform time u, and nothing accepted arrived before u."""
    classes, law = Counter(weights.values()), {}
    for own in classes:
        product_of_others = [Fraction(1)]
        for p in (classes - Counter([own])).elements():
            shifted = zip([*product_of_others, 0], [0, *product_of_others], strict=True)
            product_of_others = [a - p * b for a, b in shifted]
        law[own] = own * sum(a / (i + 1) for i, a in enumerate(product_of_others))
    return {x: law[p] for x, p in weights.items()}


def flips_of_lists(counts, k, cut, q):
    return flips(defined_weights(counts, k, cut, q))


def pnf_law(counts, k, cut, q=None, most_failures=99):
    """The exact law of the shipped sampler, and the probability of more failures than that.

    Its races are settled by the exact law of the shipped attempt. Lists of one level are
    equally likely at every step, so one of them is followed for all.
    """
    lists, usual_q = shipped_lists(counts, k, cut)
    q = q or usual_q
    weights = attempt_law(lists, q)
    most = max(weights.values())
    weights = {picks: p / most for picks, p in weights.items()}
    level = {picks: lists.level(picks) for picks in weights}
    n_of_level = Counter(level.values())

    @cache
    def rings(gone, clocks):
        others = sum(p for picks, p in weights.items() if picks not in gone)
        ring = 1 - q ** clocks[-1]
        others += sum(1 - q**c for c in clocks[:-1])
        return [others / (others + ring), ring / (others + ring)]

    @cache
    def hits(gone):
        left = [picks for picks in weights if picks not in gone]
        total = sum(weights[picks] for picks in left)
        firsts = {level[picks]: picks for picks in reversed(left)}
        n_left = Counter(level[picks] for picks in left)
        shares = [n_left[e] * weights[picks] / total for e, picks in firsts.items()]
        return list(firsts.values()), shares

    def run(path):
        def race(gone, clocks):
            if len(gone) > most_failures:
                raise PathTooLongError
            if clocks:
                last = Clock(len(clocks) - 1)
                return ("something else", last)[path._step(rings(gone, tuple(clocks)))]
            firsts, shares = hits(gone)
            return firsts[path._step(shares)]

        return level[flip.first_accepted(race, level.__getitem__)]

    law, unfinished = law_of(run, {})
    return {x: law.get(e, 0) / n_of_level[e] for x, e in level.items()}, unfinished


def histograms(largest_count, *sizes):
    for d in sizes:
        yield from combinations_with_replacement(range(largest_count + 1), d)


def law_by_attempts(counts, k, cut):
    """Permute-and-flip on the weights that the shipped attempt gives to the lists."""
    lists, q = shipped_lists(counts, k, cut)
    weights = attempt_law(lists, q)
    most = max(weights.values())
    return flips({picks: p / most for picks, p in weights.items()})


def race_of_all(cut, counts_of):
    """One attempt is a race of all lists and of clocks."""
    clocks = (1, 3)

    def law(data):
        lists, q = shipped_lists(*data, cut)
        return attempt_law(lists, q, clocks)

    def definition(data):
        q = Q_OF_RATE[joint._rate(data[1], EPSILON)]
        ringing = {Clock(i): 1 - q**e for i, e in enumerate(clocks)}
        return normalized(defined_weights(*data, cut, q) | ringing)

    return Domain(law, inputs=counts_of, defined=definition)


def small_lists():
    for counts in (*histograms(3, 1, 2, 3), *histograms(2, 4)):
        yield from ((counts, k) for k in range(1, min(len(counts), 3) + 1))


def astray(counts, k, cut, most_failures):
    """Outcomes whose probability the law up to some failures does not enclose; few are left over."""
    law, unfinished = pnf_law(counts, k, cut, HALF, most_failures)
    expected = flips_of_lists(counts, k, cut, HALF)
    assert law.keys() == expected.keys()
    wrong = [x for x in law if not law[x] <= expected[x] <= law[x] + unfinished]
    return wrong if unfinished < Fraction(1, 60) else list(law)


def up_to_some_failures(cut, most_failures, inputs):
    return Domain(
        lambda data: astray(*data, cut, most_failures), inputs=lambda: inputs, defined=lambda _: []
    )


def small_data(d):
    return [
        ((0, *others), k)
        for others in histograms(3 if d < 4 else 2, d - 1)
        for k in range(1, min(d, 3) + 1)
    ]


def to_the_last_failure(data):
    law, unfinished = pnf_law(*data, 4, HALF)
    assert unfinished == 0
    return law


def told_by_attempts(k, cut):
    return people_of(lambda counts: law_by_attempts(counts, k, cut), lambda: small_histograms(3))


def pnf_domains():
    for cut in (1, 2, 4):
        yield f"an attempt is a race, cut {cut}", race_of_all(cut, small_lists)
        for d, most_failures in [(2, 1), (3, 2), (4, 2)]:
            name = f"up to {most_failures} failures, {d} items, cut {cut}"
            yield name, up_to_some_failures(cut, most_failures, small_data(d))
    yield (
        "to the last failure",
        Domain(
            to_the_last_failure,
            inputs=lambda: [((1, 1, 0), 2), ((2, 2, 0), 2), ((2, 0, 0), 2)],
            defined=lambda data: flips_of_lists(*data, 4, HALF),
        ),
    )
    for (d, k), cut in product([(1, 1), (2, 1), (2, 2), (3, 1)], (1, 2, 6)):
        yield (
            f"{k} of {d}, cut {cut}",
            people_of(
                lambda counts, k=k, cut=cut: pnf_law(counts, k, cut)[0],
                lambda d=d: small_histograms(d),
            ),
        )
    for k, cut in product((2, 3), (1, 4)):
        yield f"by attempts, {k} of 3, cut {cut}", told_by_attempts(k, cut)
    for k in (1, 2, 3):
        law = partial(flips_of_lists, k=k, cut=2, q=Fraction(1, 4) if k == 1 else HALF)
        yield f"the definition, {k} of 4", people_of(law, lambda: product(range(2), repeat=4))


def twice_the_rate(patch):
    times_two(joint, "_rate")(patch)
    patch.setitem(Q_OF_RATE, 2 * EPSILON, HALF**4)


def pnf_with_a_cut_from_the_data(counts):
    return law_by_attempts(counts, 2, 6 if sum(c > 0 for c in counts) > 1 else 1)


def pieces_that_forget(patch):
    right = flip._came_first

    def forgets(race, pieces, level):
        return right(race, [(gone, []) for gone, _ in pieces], level)

    patch.setattr(flip, "_came_first", forgets)


def clocks_of_weight_q_to_the_level(odds, clocks):
    return Odds([*odds.weights, *(((1, e),) for e in clocks)], odds.rate)


FOLLOWED = up_to_some_failures(4, 3, [((2, 1, 0), 2)])
PNF_SAMPLED = (6, 4, 1, 0)


def pnf_fits(tenths, _):
    law = flips_of_lists(PNF_SAMPLED, 2, 10**6, Fraction(math.exp(-0.5)))
    run = partial(pnf_joint.topk, epsilon=Fraction(tenths, 10))
    return lists_fit(run, law, PNF_SAMPLED, 3_000)


PNF_JOINT = Case(
    mechanism=pnf_joint.PNF_JOINT,
    domains=dict(pnf_domains()),
    mutants={
        "the exponential mechanism": Mutant(
            FOLLOWED,
            changed(flip, "_came_first", lambda race, pieces, level: True),
            check=check_law,
        ),
        "pieces that forget their clocks": Mutant(FOLLOWED, pieces_that_forget, check=check_law),
        "clocks of the wrong weight": Mutant(
            race_of_all(4, lambda: [((2, 1, 0), 2)]),
            changed(pnf_joint, "with_clocks", clocks_of_weight_q_to_the_level),
            check=check_law,
        ),
        "levels that ignore the cut": Mutant(
            up_to_some_failures(1, 3, [((0, 1, 3), 2)]),
            changed(
                pnf_joint._Lists, "level", lambda lists, picks: err(lists.counts.tolist(), picks)
            ),
            check=check_law,
        ),
        "a factor two that one item does not need": Mutant(
            Domain(
                lambda data: law_by_attempts(*data, 6),
                inputs=lambda: [((2, 1, 0), 1)],
                defined=lambda data: flips_of_lists(*data, 6, Fraction(1, 4)),
            ),
            changed(joint, "_rate", lambda k, epsilon: epsilon / 2),
            check=check_law,
        ),
        "a cut taken from the data": Mutant(
            people_of(lambda counts: law_by_attempts(counts, 2, 6), lambda: [(5, 0, 0)]),
            law=pnf_with_a_cut_from_the_data,
        ),
        **{
            f"twice the rate, {k} items": Mutant(told_by_attempts(k, 6), twice_the_rate)
            for k in (1, 2, 3)
        },
    },
    loss=PrivacyLoss(EPSILON),
    says=JOINT.says,
    fits=pnf_fits,
)

CASES = [PNF_JOINT]
