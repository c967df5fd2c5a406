"""Peeling: distributions of k rounds, their neighbours and mutants."""

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from itertools import combinations_with_replacement, permutations, product
from unittest.mock import patch

import numpy as np
import pytest

from dp_sql.udfs import permute_and_flip as flip
from dp_sql.udfs.mechanism import PrivacyLoss
from dp_sql.udfs.topk import peeling, ranking, rounds
from tests.udfs.conformance import (
    Case,
    Domain,
    Mutant,
    changed,
    check_distribution,
    slow_if,
    within,
    within_range,
)
from tests.udfs.distributions import accepted, added_people, distribution_of, draws_fit, normalized
from tests.udfs.test_permute_and_flip import drawn_from, permute_and_flip

EPSILON = Fraction(1)
LOSS = Fraction(64)
"""In exact distributions exp(epsilon) is the rational 64, so q is 1/64, 1/8, 1/4 for k = 1, 2, 3."""

Q_OF_RATE = {
    EPSILON: Fraction(1, 64),
    EPSILON / 2: Fraction(1, 8),
    EPSILON / 3: Fraction(1, 4),
    EPSILON / 6: Fraction(1, 2),
}


class OncePerRound:
    """`take`, its loop replaced by a distribution of the whole round, which is worked out once per round."""

    def __init__(self, distribution_of_round):
        self.distribution_of_round, self.known = distribution_of_round, {}

    def __call__(self, this, path):
        rate = this.odds.rate
        key = (*this.gaps.tolist(), this.first, this.cut, *this.taken, rate, Q_OF_RATE[rate])
        key = (key, tuple(this.blocks), rounds.Round.shortfall)
        if key not in self.known:
            self.known[key] = self.distribution_of_round(this)
        ranks, probabilities = zip(*self.known[key].items(), strict=True)
        return ranks[path._step(list(probabilities))]


def weight_distribution(this):
    """The distribution of the shipped attempt given that it is accepted."""
    distribution, unfinished = distribution_of(this.attempt, Q_OF_RATE)
    assert unfinished == 0
    return accepted(distribution)


take_by_weight = OncePerRound(weight_distribution)


def permute_and_flip_distribution(this):
    """The distribution of the shipped race, its loop replaced by the distribution of the attempt that counts."""

    @cache
    def race_distribution(gone, rejections):
        distribution, unfinished = distribution_of(
            partial(this.attempt, rejections=rejections), Q_OF_RATE
        )
        assert unfinished == 0
        return {hit: p for hit, p in distribution.items() if hit is not None and hit not in gone}

    def first_accepted(inner):
        def race(gone, rejections):
            return drawn_from(race_distribution(gone, tuple(rejections)), rejections, inner)

        return flip.first_accepted(race, this.shortfall)

    distribution, unfinished = distribution_of(first_accepted, {})
    assert unfinished == 0
    return distribution


take_by_permute_and_flip = OncePerRound(permute_and_flip_distribution)


def shipped_distribution(counts, k, cut, take=take_by_weight):
    """The exact distribution of the shipped sampler."""
    counts = np.array(counts, dtype=np.int64)
    return peeled(counts, k, peeling.pure_rate(k, EPSILON), cut, take)


def peeled(counts, k, rate, cut, take):
    """The exact distribution of the shipped rounds; the items are sorted once for all paths."""

    def run(path):
        return tuple(peeling.peel(counts, k, rate, cut, take, path))

    sort = cache(partial(ranking.rank, counts))
    with patch.object(peeling, "rank", lambda counts, *given: sort(*given)):
        distribution, unfinished = distribution_of(run, {})
    assert unfinished == 0
    return distribution


def defined_distribution(counts, k, cut, one_round=normalized):
    """Peeling by its definition, with a distribution for one round out of the q**e of the free items."""
    q = Q_OF_RATE[EPSILON / k]

    @cache
    def after(taken):
        free = [x for x in range(len(counts)) if x not in taken]
        most = max(counts[x] for x in free)
        return one_round({x: q ** min(most - counts[x], cut) for x in free})

    distribution = {}
    for picks in permutations(range(len(counts)), k):
        drawn = (after(frozenset(picks[:i]))[pick] for i, pick in enumerate(picks))
        distribution[picks] = math.prod(drawn, start=Fraction(1))
    return distribution


def small_cases():
    for d in (1, 2, 3):
        for counts in combinations_with_replacement(range(5), d):
            yield from ((counts, k) for k in range(1, d + 1))
    for counts in combinations_with_replacement((0, 1, 2, 4), 4):
        yield from ((counts, k) for k in (1, 2))


def every_case(take, one_round, cut, width=None):
    """The distribution of every small list of every small histogram."""

    def distribution(data):
        with pytest.MonkeyPatch.context() as patch:
            if width:
                patch.setattr(rounds, "block_width", lambda rate: width)
            return shipped_distribution(*data, cut, take)

    def definition(data):
        return {picks: p for picks, p in defined_distribution(*data, cut, one_round).items() if p}

    return Domain(distribution, inputs=small_cases, defined=definition)


def one_case(take, one_round, counts, k, cut):
    return Domain(
        lambda data: shipped_distribution(*data, cut, take),
        inputs=lambda: [(counts, k)],
        defined=lambda data: defined_distribution(*data, cut, one_round),
    )


def small_people(take, d, k, cut):
    """All small histograms with and without one person, whatever that person has."""
    return Domain(
        distribution=lambda counts: shipped_distribution(counts, k, cut, take),
        pairs=lambda: added_people(product(range(3), repeat=d)),
        check=within(LOSS),
    )


def range_of(d, k, cut, rounds):
    """The losses of all lists lie in an interval of so many rounds' length."""
    domain = small_people(take_by_weight, d, k, cut)
    return replace(domain, check=within_range(Q_OF_RATE[EPSILON / k] ** -rounds))


def all_of_epsilon(k, epsilon):
    return epsilon


def half_of_epsilon(k, epsilon):
    return epsilon / (2 * k)


def cut_from_the_data(take, counts):
    return shipped_distribution(counts, 2, 6 if sum(c > 0 for c in counts) > 1 else 1, take)


def one_by_one(take):
    """One person beside an item that five have: a cut that depends on the data shows here."""
    return Domain(
        lambda counts: shipped_distribution(counts, 2, 6, take),
        lambda: added_people([(5, 0, 0)]),
        within(LOSS),
    )


def lists_fit(run, distribution, n=12_000):
    return draws_fit(lambda: tuple(run(np.array(SAMPLED))), n, distribution)


SAMPLED = (6, 4, 1, 0)


def distribution_at(rate, one_round=normalized):
    """The distribution of two of the SAMPLED when each round is drawn at this rate."""
    q = Fraction(math.exp(-rate)).limit_denominator(10**6)
    with patch.dict(Q_OF_RATE, {EPSILON / 2: q}):
        return defined_distribution(SAMPLED, 2, 10**6, one_round)


def case_of_peeling(mechanism, take, one_round, loss):
    other = {normalized: permute_and_flip, permute_and_flip: normalized}[one_round]
    on, at = partial(every_case, take, one_round), partial(one_case, take, one_round)
    domains = {slow_if(cut == 1, f"cut {cut}"): on(cut) for cut in (1, 2, 9)}
    if one_round is normalized:
        for cut, width in product((1, 2, 9), (1, 2, 5)):
            slow = cut != 2 and width > 1
            domains[slow_if(slow, f"cut {cut}, blocks of {width}")] = on(cut, width)
        for (d, k), cut in product([(2, 1), (3, 1), (2, 2), (3, 2), (3, 3)], (1, 6)):
            stated = peeling.em_loss(k, EPSILON).bounded_range / EPSILON * k
            domains[f"the range of {k} of {d}, cut {cut}"] = range_of(d, k, cut, int(stated))
    for (d, k), cut in product([(1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (3, 3)], (1, 2, 6)):
        domains[f"{k} of {d}, cut {cut}"] = small_people(take, d, k, cut)

    def fit(tenths, _):
        epsilon = Fraction(tenths, 5)
        distribution = distribution_at(1, one_round)
        return lists_fit(lambda counts: mechanism.run(counts, 2, epsilon), distribution)

    return Case(
        mechanism=mechanism,
        domains=domains,
        mutants={
            "all of epsilon in each round": Mutant(
                small_people(take, 3, 2, 6), changed(peeling, "pure_rate", all_of_epsilon)
            ),
            "a cut taken from the data": Mutant(
                one_by_one(take), distribution=partial(cut_from_the_data, take)
            ),
            "a factor two that monotone counts do not need": Mutant(
                at((3, 2, 0), 3, 6),
                changed(peeling, "pure_rate", half_of_epsilon),
                check=check_distribution,
            ),
            "items that are not removed": Mutant(
                at((3, 2, 0), 2, 6),
                changed(peeling, "insort", lambda taken, rank: None),
                check=check_distribution,
            ),
            "shortfalls against a taken count": Mutant(
                at((3, 2, 0), 2, 2),
                changed(
                    rounds.Round, "shortfall", lambda this, rank: min((0, 1, 3)[rank], this.cut)
                ),
                check=check_distribution,
            ),
            "the other mechanism": Mutant(
                at((3, 2, 0), 1, 6),
                distribution=lambda data: defined_distribution(*data, 6, other),
                check=check_distribution,
            ),
        },
        loss=loss,
        says="with probability 95 %, each listed item has at most 122 people fewer than the item that "
        "belongs at its rank (domain of 1000 items, k = 10, epsilon = 1)",
        fits=fit,
        tight={"one round less": range_of(3, 2, 6, 1)} if one_round is normalized else {},
    )


EM_PEEL = case_of_peeling(
    peeling.EM_PEEL,
    take_by_weight,
    normalized,
    PrivacyLoss(EPSILON, rho=Fraction(1, 80), bounded_range=Fraction(19, 10)),
)
PNF_PEEL = case_of_peeling(
    peeling.PNF_PEEL,
    take_by_permute_and_flip,
    permute_and_flip,
    PrivacyLoss(EPSILON, rho=Fraction(1, 20)),
)

CASES = [EM_PEEL, PNF_PEEL]
