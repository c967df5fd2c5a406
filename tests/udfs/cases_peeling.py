"""Peeling: laws of k rounds, their neighbours and mutants."""

import math
from collections import Counter
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
from tests.udfs.conformance import Case, Domain, Mutant, changed, check_law, within
from tests.udfs.laws import NotPrivateError, accepted, added_people, fits, law_of, normalized
from tests.udfs.test_flip import drawn_from, permute_and_flip

EPSILON = Fraction(1)
LOSS = Fraction(64)
"""In exact laws exp(epsilon) is the rational 64, so q is 1/64, 1/8, 1/4 for k = 1, 2, 3."""

Q_OF_RATE = {
    EPSILON: Fraction(1, 64),
    EPSILON / 2: Fraction(1, 8),
    EPSILON / 3: Fraction(1, 4),
    EPSILON / 6: Fraction(1, 2),
}


class OncePerRound:
    """`take`, its loop replaced by a law of the whole round, which is worked out once per round."""

    def __init__(self, law_of_round):
        self.law_of_round, self.known = law_of_round, {}

    def __call__(self, this, path):
        rate = this.odds.rate
        key = (*this.gaps.tolist(), this.first, this.cut, *this.taken, rate, Q_OF_RATE[rate])
        key = (key, tuple(this.blocks), rounds.Round.level)
        if key not in self.known:
            self.known[key] = self.law_of_round(this)
        ranks, probabilities = zip(*self.known[key].items(), strict=True)
        return ranks[path._step(list(probabilities))]


def weight_law(this):
    """The law of the shipped attempt given that it is accepted."""
    law, unfinished = law_of(this.attempt, Q_OF_RATE)
    assert unfinished == 0
    return accepted(law)


take_by_weight = OncePerRound(weight_law)


def flip_law(this):
    """The law of the shipped race, its loop replaced by the law of the attempt that counts."""

    @cache
    def race_law(gone, clocks):
        law, unfinished = law_of(partial(this.attempt, clocks=clocks), Q_OF_RATE)
        assert unfinished == 0
        return {hit: p for hit, p in law.items() if hit is not None and hit not in gone}

    def first_accepted(inner):
        def race(gone, clocks):
            return drawn_from(race_law(gone, tuple(clocks)), clocks, inner)

        return flip.first_accepted(race, this.level)

    law, unfinished = law_of(first_accepted, {})
    assert unfinished == 0
    return law


take_by_flips = OncePerRound(flip_law)


def shipped_law(counts, k, cut, take=take_by_weight):
    """The exact law of the shipped sampler."""
    counts = np.array(counts, dtype=np.int64)
    few, places = ranking.rank(counts, k, cut), ranking.rank(counts, k, 2**62).places
    rate = peeling.pure_rate(k, EPSILON)

    def run(path):
        ranks = peeling._ranks(few.gaps, len(counts), k, rate, cut, take, path)
        return tuple(places[ranks].tolist())

    law, unfinished = law_of(run, Q_OF_RATE)
    assert unfinished == 0
    return law


def defined_law(counts, k, cut, one_round=normalized):
    """Peeling by its definition, with a law for one round out of the q**e of the free items."""
    q = Q_OF_RATE[EPSILON / k]
    law = {}
    for picks in permutations(range(len(counts)), k):
        probability = Fraction(1)
        for i, pick in enumerate(picks):
            free = [x for x in range(len(counts)) if x not in picks[:i]]
            most = max(counts[x] for x in free)
            weights = {x: q ** min(most - counts[x], cut) for x in free}
            probability *= one_round(weights)[pick]
        law[picks] = probability
    return law


def small_cases():
    for d in (1, 2, 3):
        for counts in combinations_with_replacement(range(5), d):
            yield from ((counts, k) for k in range(1, d + 1))
    for counts in combinations_with_replacement((0, 1, 2, 4), 4):
        yield from ((counts, k) for k in (1, 2))


def every_case(take, one_round, cut, width=None):
    """The law of every small list of every small histogram."""

    def law(data):
        with pytest.MonkeyPatch.context() as patch:
            if width:
                patch.setattr(rounds, "_width", lambda rate: width)
            return shipped_law(*data, cut, take)

    def definition(data):
        return {picks: p for picks, p in defined_law(*data, cut, one_round).items() if p}

    return Domain(law, inputs=small_cases, defined=definition)


def one_case(take, one_round, counts, k, cut):
    return Domain(
        lambda data: shipped_law(*data, cut, take),
        inputs=lambda: [(counts, k)],
        defined=lambda data: defined_law(*data, cut, one_round),
    )


def small_people(take, d, k, cut):
    """All small histograms with and without one person, whatever that person has."""
    return Domain(
        law=lambda counts: shipped_law(counts, k, cut, take),
        pairs=lambda: added_people(product(range(3), repeat=d)),
        check=within(LOSS),
    )


def check_range(law, pairs, rounds, k):
    """Raise unless the losses of all lists lie in an interval of so many rounds' length."""
    widest = (1 / Q_OF_RATE[EPSILON / k]) ** rounds
    for counts, other in pairs:
        before, after = law(counts), law(other)
        ratios = [after[picks] / before[picks] for picks in before]
        if max(ratios) > widest * min(ratios):
            raise NotPrivateError(f"{counts} and {other}")


def range_of(d, k, cut, rounds):
    domain = small_people(take_by_weight, d, k, cut)
    return replace(domain, check=partial(check_range, rounds=rounds, k=k))


def all_of_epsilon(k, epsilon):
    return epsilon


def half_of_epsilon(k, epsilon):
    return epsilon / (2 * k)


def cut_from_the_data(take, counts):
    return shipped_law(counts, 2, 6 if sum(c > 0 for c in counts) > 1 else 1, take)


def one_by_one(take):
    """One person beside an item that five have: here a cut that depends on data tells."""
    return Domain(
        lambda counts: shipped_law(counts, 2, 6, take),
        lambda: added_people([(5, 0, 0)]),
        within(LOSS),
    )


def lists_fit(run, law, n=4_000):
    observed = Counter(tuple(run(np.array(SAMPLED))) for _ in range(n))
    return fits(observed, {picks: float(p) for picks, p in law.items()})


SAMPLED = (6, 4, 1, 0)


def law_at(rate, one_round=normalized):
    """The law of two of the SAMPLED when each round is drawn at this rate."""
    q = Fraction(math.exp(-rate)).limit_denominator(10**6)
    with patch.dict(Q_OF_RATE, {EPSILON / 2: q}):
        return defined_law(SAMPLED, 2, 10**6, one_round)


def case_of_peeling(mechanism, take, one_round, loss):
    other = {normalized: permute_and_flip, permute_and_flip: normalized}[one_round]
    on, at = partial(every_case, take, one_round), partial(one_case, take, one_round)
    domains = {f"cut {cut}": on(cut) for cut in (1, 2, 9)}
    if one_round is normalized:
        for cut, width in product((1, 2, 9), (1, 2, 5)):
            domains[f"cut {cut}, blocks of {width}"] = on(cut, width)
        for (d, k), cut in product([(2, 1), (3, 1), (2, 2), (3, 2), (3, 3)], (1, 6)):
            stated = peeling.em_loss(k, EPSILON).bounded_range / EPSILON * k
            domains[f"the range of {k} of {d}, cut {cut}"] = range_of(d, k, cut, int(stated))
    for (d, k), cut in product([(1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (3, 3)], (1, 2, 6)):
        domains[f"{k} of {d}, cut {cut}"] = small_people(take, d, k, cut)

    def fit(tenths, _):
        epsilon = Fraction(tenths, 5)
        law = law_at(1, one_round)
        return lists_fit(lambda counts: mechanism.run(counts, 2, epsilon), law)

    return Case(
        mechanism=mechanism,
        domains=domains,
        mutants={
            "all of epsilon in each round": Mutant(
                small_people(take, 3, 2, 6), changed(peeling, "pure_rate", all_of_epsilon)
            ),
            "a cut taken from the data": Mutant(
                one_by_one(take), law=partial(cut_from_the_data, take)
            ),
            "a factor two that monotone counts do not need": Mutant(
                at((3, 2, 0), 3, 6), changed(peeling, "pure_rate", half_of_epsilon), check=check_law
            ),
            "items that are not removed": Mutant(
                at((3, 2, 0), 2, 6),
                changed(peeling, "insort", lambda taken, rank: None),
                check=check_law,
            ),
            "shortfalls against a taken count": Mutant(
                at((3, 2, 0), 2, 2),
                changed(rounds.Round, "level", lambda this, rank: min((0, 1, 3)[rank], this.cut)),
                check=check_law,
            ),
            "the other mechanism": Mutant(
                at((3, 2, 0), 1, 6),
                law=lambda data: defined_law(*data, 6, other),
                check=check_law,
            ),
        },
        loss=loss,
        says="with probability at least 0.95 no item is listed whose count is more than 122 below "
        "the count that belongs at its rank (d = 1000, k = 10, epsilon = 1)",
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
    peeling.PNF_PEEL, take_by_flips, permute_and_flip, PrivacyLoss(EPSILON, rho=Fraction(1, 20))
)

CASES = [EM_PEEL, PNF_PEEL]
