"""Counts of groups with one vector of noise: the exact distribution, neighbours and mutants."""

import math
from collections import Counter
from fractions import Fraction
from functools import cache, partial
from itertools import chain, product

import pytest

from dp_sql.udfs.contributions import bound, histogram
from dp_sql.udfs.histogram import chosen_norm, k_norm
from dp_sql.udfs.mechanism import PrivacyLoss
from dp_sql.udfs.odds import Odds
from tests.udfs.cases_bound import HALF, added, columns, summed_above
from tests.udfs.choices import PowersOf
from tests.udfs.conformance import (
    Case,
    Domain,
    Mutant,
    changed,
    check_distribution,
    times_two,
    within,
    within_range,
)
from tests.udfs.distributions import distribution_of, draws_fit, normalized

EPSILON = Fraction(1)
Q = Fraction(1, 3)
"""Stands for exp(-EPSILON / 6): the odds of all rates here are whole powers of it."""


def norm(z):
    return max(0, *z) - min(0, *z)


def weight(noise, rate, power=norm):
    unit = rate * 6 / EPSILON
    assert unit.denominator == 1
    return Q ** (unit.numerator * power(noise))


def released(bound, counts):
    """The weight of each answer in a window, by the vectors and the rate that the code asks for."""
    asked = set()
    window = {}
    for noise in product(range(-6, 5), repeat=len(counts)):

        def drawn(k, rate, draws, noise=noise):
            asked.add((k, rate))
            return list(noise)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(k_norm, "range_norm_noise", drawn)
            answer = tuple(k_norm.K_NORM.run([*counts], EPSILON, bound))
        if all(-1 <= y <= 3 for y in answer):
            window[answer] = noise
    ((k, rate),) = asked
    assert k == len(counts)
    return {answer: weight(noise, rate) for answer, noise in sorted(window.items())}


def defined(bound, counts):
    every = product(range(-1, 4), repeat=len(counts))
    noise = ((y, tuple(a - b for a, b in zip(y, counts, strict=True))) for y in every)
    return {y: weight(z, EPSILON / bound) for y, z in noise}


def neighbours(k, bound):
    """A person adds 0, ..., bound to each count, to as many as there are."""
    for counts in product(range(2), repeat=k):
        for more in product(range(bound + 1), repeat=k):
            yield counts, tuple(map(sum, zip(counts, more, strict=True)))


def domain(k, bound, pairs=None):
    return Domain(
        partial(released, bound),
        pairs=lambda: pairs or neighbours(k, bound),
        check=within(Q**-6),
        inputs=lambda: product(range(3), repeat=k),
        defined=partial(defined, bound),
    )


def each_group_by_itself(counts):
    every = product(range(-1, 4), repeat=len(counts))
    apart = partial(weight, rate=EPSILON, power=lambda z: sum(map(abs, z)))
    return {y: apart([a - b for a, b in zip(y, counts, strict=True)]) for y in every}


right_rate = k_norm._rate


def fit(tenths, patch, run=lambda: k_norm.K_NORM.run([7, 5], EPSILON, 1)):
    patch.setattr(k_norm, "_rate", lambda *given: right_rate(*given) * Fraction(tenths, 10))
    near = {z: norm(z) for z in product(range(-40, 41), repeat=2)}
    expected: Counter = Counter()
    for size in near.values():
        expected[min(size, 12)] += Fraction(math.exp(-size))

    def draw():
        a, b = run()
        return min(norm((a - 7, b - 5)), 12)

    return draws_fit(draw, 6_000, normalized(expected))


K_NORM = Case(
    mechanism=k_norm.K_NORM,
    domains={f"{k} groups, bound {b}": domain(k, b) for k, b in [(1, 1), (2, 1), (3, 1), (2, 2), (2, 3)]},
    mutants={
        "noise of each group by itself": Mutant(domain(2, 1), distribution=each_group_by_itself),
        "the rate of a bound of one": Mutant(
            domain(2, 2), changed(k_norm, "_rate", lambda epsilon, bound: epsilon)
        ),
        "another rate that is private": Mutant(
            domain(2, 1), changed(k_norm, "_rate", lambda epsilon, bound: epsilon / 2),
            check=check_distribution,
        ),
        "a group without noise": Mutant(
            domain(2, 1), distribution=lambda counts: {
                y: p for y, p in defined(1, counts).items() if y[0] == counts[0]
            },
        ),
    },
    loss=PrivacyLoss(EPSILON),
    says="with probability 95 %, all 1000 counts are within ± 980 of those without noise (epsilon = 1)",
    fits=fit,
    tight={
        "a person who enters a group twice": domain(2, 1, [((0, 0), (2, 0))]),
        "a person who moves groups both ways": domain(2, 1, [((1, 0), (0, 1))]),
        "less than epsilon": Domain(
            partial(released, 1), pairs=lambda: neighbours(2, 1), check=within(Q**-5)
        ),
    },
)  # fmt: skip

# Rows of two groups under a limit that is chosen: exp(-EPSILON / 64) is 1/2.

PEOPLE = [person for person in product(range(3), repeat=2) if any(person)]
ANSWERS = [*product(range(-1, 4), repeat=2)]
LIMITS = [(3, True, 0), (4, False, 0), (6, True, 1), (8, False, 1)]
"""Weights of the limits 1 in all, 1 in each, 2 in all, 2 in each of two groups."""
CHOICE = Fraction(3, 8)


@cache
def of_norm(q, size):
    """Of one noise of that norm for two groups: 6 r points have the norm r >= 1, and one has 0."""
    return q**size / (1 + 6 * q / (1 - q) ** 2)


def probability(q, z):
    return of_norm(q, norm(z))


@cache
def in_half(q, own, n):
    return (1 - q) / (1 + q) * sum(q ** abs(fine - own) for fine in (2 * n - 1, 2 * n))


def in_halves(q, kept, y):
    """Of counts that are kept in halves, with noise in halves, and rounded up to whole numbers."""
    return math.prod(in_half(q, own, n) for own, n in zip(kept, y, strict=True))


def largest_number(person):
    return [max(person)]


def whole_number(person):
    return [sum(person)]


def handed_over(data, largest=largest_number, whole=whole_number, part=sum):
    """What SQL hands over."""
    of_each = [columns([person[g] for person in data], 3) for g in range(2)]
    of_totals = []
    for g in range(2):
        rows = [((part(p) - 1).bit_length(), 1, p[g]) for p in data if p[g]]
        of_totals.append([[row[i] for row in rows] for i in range(3)])
    most, totals = (columns([n for p in data for n in of(p)], 3) for of in (largest, whole))
    return of_each, most, of_totals, totals


def chosen(data, few_groups=0, choice=CHOICE, stated=0, **wrong):
    """The distribution of (answers, limit); the noise is put on at the rate that the code asks for."""
    given = handed_over(data, **wrong)
    rates = {}

    def no_noise(rate, draws):
        rates["last"] = rate
        return 0

    def none_each(of, draws):
        return [no_noise(rate, draws) for rate in of]

    def run(draws):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(chosen_norm, "secret_draws", lambda: draws)
            public = EPSILON, stated or 2, few_groups, choice, stated > 0
            found = chosen_norm.CHOSEN_NORM.run(*given, *public)
        return tuple(found.counts), (found.limit.is_of_all, found.limit.place), rates["last"]

    q_of = PowersOf(HALF, EPSILON / 64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bound, "_SUPPORT", HALF)
        patch.setattr(chosen_norm, "_FINE_BITS", 1)
        patch.setattr(chosen_norm, "_rounded", lambda fine: fine)
        patch.setattr(chosen_norm, "discrete_laplaces", none_each)
        patch.setattr(
            k_norm, "range_norm_noise", lambda k, rate, draws: [no_noise(rate, draws)] * k
        )
        exact, unfinished = distribution_of(run, q_of)
    assert unfinished == 0
    found = {}
    for (kept, limit, rate), p in exact.items():
        for y in ANSWERS:
            if limit[0]:
                found[y, limit] = p * in_halves(q_of[rate], kept, y)
            else:
                z = [a - b for a, b in zip(y, kept, strict=True)]
                found[y, limit] = p * probability(q_of[rate], z)
    return found


def noise_alone(data, q, i):
    """Of answers with 2**i rows in each group and noise for two groups, and no choice."""
    for y in ANSWERS:
        z = [n - sum(min(2**i, p[g]) for p in data) for g, n in enumerate(y)]
        yield y, probability(q, z)


def defined_choosing(data, few_groups=0, choice=CHOICE):
    """The same, written down from the proof notes."""
    if few_groups >= 2:
        return {(y, (False, 1)): p for y, p in noise_alone(data, HALF**32, 1)}
    support = max(math.ceil(HALF / choice), math.ceil(2 / (1 - choice)))
    beyond = [sum((sum if of_all else max)(p) > 2**i for p in data) for _, of_all, i in LIMITS]
    weights = {}
    for i, (weight, *limit) in enumerate(LIMITS):
        behind = [0]
        if i < len(LIMITS) - 1:
            behind.append(beyond[i] - support)
        for j in range(i):
            halves = math.floor(2 * math.log2(weight / LIMITS[j][0]))
            behind.append(support * halves // 2 - beyond[j])
        weights[tuple(limit)] = HALF ** (choice * 32 * max(behind))
    distribution = {}
    for (of_all, i), p in normalized(weights).items():
        q = HALF ** ((1 - choice) * 64 / 2 ** (i + of_all))
        for y in ANSWERS if of_all else ():
            drop = [max(0, (sum(person) - 1).bit_length() - i) for person in data]
            kept = [
                sum(Fraction(2 * p[g], 2**d) for p, d in zip(data, drop, strict=True) if d < 2)
                for g in range(2)
            ]
            distribution[y, (of_all, i)] = p * in_halves(q, map(int, kept), y)
        if not of_all:
            alone = noise_alone(data, q, i)
            distribution.update({(y, (of_all, i)): p * each for y, each in alone})
    return distribution


def defined_by_error(data, choice, stated):
    """The same, where this bound in each group is stated, written down from the proof notes."""
    share, weights, kept_under = 1 - choice, {}, {}
    for i in range(stated.bit_length()):
        drop = [max(0, (sum(person) - 1).bit_length() - i) for person in data]
        kept_under[i] = kept = [
            sum(Fraction(p[g], 2**d) for p, d in zip(data, drop, strict=True) if d < 2)
            for g in range(2)
        ]
        squares = sum((sum(p[g] for p in data) - kept[g]) ** 2 for g in range(2))
        error = max(n for n in range(9) if 2 * (n * stated) ** 2 <= squares)
        error += math.floor(Fraction(6 * 2**i, 5 * stated) / share) + math.floor(i / choice / 2)
        weights[True, i] = HALF ** (64 * choice * error)
    each = False, (stated - 1).bit_length()
    weights[each] = HALF ** (64 * choice * math.floor(Fraction(8, 5) / share))
    distribution = {}
    for (of_all, i), p in normalized(weights).items():
        q = HALF ** (share * 64 / (2 ** (i + 1) if of_all else stated))
        if of_all:
            halves = [int(2 * n) for n in kept_under[i]]
            found = ((y, in_halves(q, halves, y)) for y in ANSWERS)
        else:
            found = noise_alone(data, q, i)
        distribution.update({(y, (of_all, i)): p * of_one for y, of_one in found})
    return distribution


EPSILON_DP = within(HALF**-64)


chosen_once, defined_once = cache(chosen), cache(defined_choosing)


def choosing(check=EPSILON_DP, most=3, **public):
    def pairs():
        return [*added(PEOPLE, most), *added(PEOPLE, 2, several=5 if most > 2 else 1)]

    return Domain(
        partial(chosen_once, **public), pairs, check, defined=partial(defined_once, **public),
        inputs=lambda: dict.fromkeys(chain.from_iterable(pairs())),
    )  # fmt: skip


@cache
def by_error(stated, choice=CHOICE, check=EPSILON_DP, most=3):
    people = [person for person in product(range(stated + 1), repeat=2) if any(person)]

    def pairs():
        return [*added(people, most), *added(people[-1:], 4)]

    return Domain(
        cache(partial(chosen, choice=choice, stated=stated)), pairs, check,
        defined=partial(defined_by_error, choice=choice, stated=stated),
        inputs=lambda: dict.fromkeys(chain.from_iterable(pairs())),
    )  # fmt: skip


def fit_chosen(tenths, patch):
    def run():
        table = [([0], [7], [7]), ([0], [5], [5])]
        alone = [0], [9], [9]
        return chosen_norm.CHOSEN_NORM.run(
            table, alone, table, alone, EPSILON * 8 / 5, 1, 0, CHOICE, False
        ).counts

    patch.setattr(chosen_norm, "choose_among", lambda above, *public: 1)  # one row in each group
    return fit(tenths, patch, run)


AT_MOST = within(HALF**-53)
"""The choice and the noise are never both at their worst here: 52 of the 64 are used."""

TWO_GROUPS = choosing(AT_MOST)
STATED, by_two, right_error = by_error(2), partial(chosen, stated=2), chosen_norm._left_out
FEW, ONE_TOO_MANY = choosing(few_groups=2), choosing(few_groups=1, most=2)

CHOSEN_NORM = Case(
    mechanism=chosen_norm.CHOSEN_NORM,
    domains={
        "rows of 2 groups, four limits": choosing(),
        "a quarter of epsilon for the choice": choosing(most=2, choice=Fraction(1, 4)),
        "the range of their losses": choosing(within_range(HALF**-104)),
        "one group more than few": ONE_TOO_MANY,
        "few groups without a choice": FEW,
        "a stated bound of one": by_error(1),
        "a stated bound of two": by_error(2),
        "the range of losses with a stated bound": by_error(2, check=within_range(HALF**-104)),
        "a stated bound that is no power of 2": by_error(3, Fraction(1, 4), most=2),
    },
    mutants={
        "people counted in each of their groups": Mutant(
            TWO_GROUPS, distribution=partial(chosen, largest=list)
        ),
        "people counted twice by all their rows": Mutant(
            TWO_GROUPS, distribution=partial(chosen, whole=lambda person: [sum(person)] * 2)
        ),
        "rows limited by those in one group": Mutant(
            TWO_GROUPS, distribution=partial(chosen, part=max)
        ),
        "the rate of a bound of one": Mutant(
            TWO_GROUPS, changed(k_norm, "_rate", lambda epsilon, bound: epsilon), chosen
        ),
        "noise for half of the rows in all groups": Mutant(
            TWO_GROUPS, times_two(chosen_norm, "noise_rate"), chosen
        ),
        "a limit at twice its rate": Mutant(TWO_GROUPS, times_two(bound, "_rate"), chosen),
        "a limit by rows instead of people": Mutant(
            TWO_GROUPS, changed(chosen_norm, "above_each", summed_above), chosen
        ),
        "rows beyond the limit": Mutant(
            TWO_GROUPS,
            changed(histogram.Histograms, "clipped", lambda these, i: these.totals()), chosen,
        ),
        "noise at another share": Mutant(
            TWO_GROUPS, changed(chosen_norm, "noise_share", lambda epsilon, *_: epsilon * 5 / 16),
            chosen, check=check_distribution,
        ),
        "nearly all of epsilon for the noise, and a choice": Mutant(
            ONE_TOO_MANY, changed(chosen_norm, "noise_share", lambda epsilon, *_: epsilon * 15 / 16),
            partial(chosen, few_groups=1), check=check_distribution,
        ),
        "a smaller limit for few groups": Mutant(
            FEW, changed(
                chosen_norm, "limits", lambda n, most, stated: [chosen_norm.Limit(1, False, n + 2)]
            ), partial(chosen, few_groups=2), check=check_distribution,
        ),
        "few groups at twice the rate": Mutant(
            FEW, times_two(k_norm, "_rate"), partial(chosen, few_groups=2)
        ),
        "an error in rows": Mutant(
            STATED, changed(chosen_norm, "_left_out", lambda *of: right_error(*of[:2], 1)), by_two
        ),
        "an error of all groups together": Mutant(
            STATED, changed(chosen_norm, "_left_out", lambda *of: 2 * right_error(*of)), by_two
        ),
        "an error without its root": Mutant(
            STATED, changed(chosen_norm, "_left_out", lambda *of: right_error(*of) ** 2), by_two
        ),
        "an error at twice its rate": Mutant(
            STATED, changed(chosen_norm, "Odds", lambda odds, rate: Odds(odds, 2 * rate)), by_two
        ),
        "no price of a doubling": Mutant(
            STATED, changed(chosen_norm, "_DOUBLING", Fraction(0)), by_two, check=check_distribution
        ),
        "a limit with less support": Mutant(
            TWO_GROUPS, changed(chosen_norm, "support_of", lambda epsilon: 5), chosen,
            check=check_distribution,
        ),
    },
    loss=PrivacyLoss(EPSILON, rho=EPSILON**2 * Fraction(109, 512), bounded_range=EPSILON * 13 / 8),
    says="with probability 95 %, all 1000 counts are within ± 1568 of those without noise if a person adds at most "
    "1 to each count, or within ± 64 if a person adds at most 4 to all counts together; one such limit, with a bound "
    "from 1, 2, 4, …, is chosen for all people, and a person beyond it counts in part or not at all (epsilon = 1)",
    fits=fit_chosen,
    tight={
        "less than is used here": choosing(within(HALF**-51)),
        "less than is used with a stated bound": by_error(2, check=within(HALF**-63)),
    },
)  # fmt: skip

CASES = [K_NORM, CHOSEN_NORM]
