"""Random stopping: distributions, neighbours and mutants."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from itertools import product
from typing import Any

from dp_sql.udfs.exact_sampling import secret_draws
from dp_sql.udfs.intervals import ln_enclosure
from dp_sql.udfs.mechanism import PrivacyLoss
from dp_sql.udfs.select import random_stopping
from tests.udfs.cases_rnm_laplace import EPSILON, GRIDS, compared, crowd_of, noise_is_at_most
from tests.udfs.choices import neighbours
from tests.udfs.conformance import Case, Domain, Mutant, changed, slow_if
from tests.udfs.distributions import NotPrivateError, draws_fit

# Random stopping: the distribution of the best of K tries, from that of one try and E[x**K].


def geometric_range(gamma, x, x_before):
    """E[x**K - x_before**K] for a geometric K, enclosed; here exactly."""
    exact = sum(sign * gamma * y / (1 - (1 - gamma) * y) for sign, y in ((1, x), (-1, x_before)))
    return exact, exact


def root(x):
    """Enclose the square root."""
    scaled = math.isqrt((x.numerator << 300) // x.denominator)
    return Fraction(scaled, 1 << 150), Fraction(scaled + 1, 1 << 150)


@cache
def less_one(u, eta):
    """Enclose u**-eta - 1; for eta = 0, its limit after a division by eta: ln(1/u)."""
    if u == 1:
        return Fraction(0), Fraction(0)
    if eta == 0:
        return ln_enclosure(1 / u, 150)
    low, high = {1: (1 / u, 1 / u), Fraction(1, 2): root(1 / u), Fraction(-1, 2): root(u)}[eta]
    return low - 1, high - 1


def power_range(eta, gamma, x, y):
    """Enclose E[x**K - y**K] by the generating function, see random_stopping_tnb.md."""
    (a, b), (c, d), (e, f) = (
        sorted(abs(part) for part in less_one(1 - (1 - gamma) * z, eta)) for z in (x, y, 1)
    )
    return max(Fraction(0), (a - d) / f), (b - c) / e


def best_values(starts, steps, q, range_of, reach):
    """P(the best of K tries is (value, i)), enclosed, for values of up to `reach` steps.

    range_of(x, y) encloses E[x**K - y**K].
    """
    m = len(starts)

    def comes_by(j, value, before):
        """P(a try of candidate j has at most this value; below it, where it has to be before)."""
        if steps[j] == 0:
            return Fraction(int(starts[j] < value or (starts[j] == value and not before)))
        whole, rest = divmod(value - starts[j], steps[j])
        return noise_is_at_most(whole - int(before and rest == 0), q)

    distribution = {}
    for i in range(m):
        values = [step * steps[i] for step in range(-reach, reach + 1)] if steps[i] else [starts[i]]
        for value in values:
            before = [comes_by(j, value, j <= i) for j in range(m)]
            here = comes_by(i, value, False) - before[i]
            low = sum(before) / m
            distribution[value, i] = range_of(low + here / m, low)
    return distribution


def of_candidates(values, m):
    """The same for the candidate alone; what is beyond reach may belong to each of them."""
    low = [sum(p for (_, j), (p, _) in values.items() if j == i) for i in range(m)]
    return {i: (low[i], low[i] + 1 - sum(low)) for i in range(m)}


def check_enclosed(distribution, pairs, factor):
    """Raise if an outcome is more than `factor` times likelier on one side of a pair."""
    cache = {}
    for pair in pairs:
        for data in pair:
            if data not in cache:
                cache[data] = distribution(data)
        left, right = (cache[data] for data in pair)
        for outcome in left.keys() | right.keys():
            low, high = left.get(outcome, (0, 0))
            other_low, other_high = right.get(outcome, (0, 0))
            if low > factor * other_high or other_low > factor * high:
                raise NotPrivateError(f"{pair}: {outcome}")


def on_grids(scores, sizes, grid):
    """The scores, times the grid, rounded down to multiples of their own sensitivities."""
    return [
        math.floor(grid * Fraction(score) / size) * size if size else grid * score
        for score, size in zip(scores, sizes, strict=True)
    ]


@dataclass(frozen=True)
class Stopping:
    """One of the two mechanisms, where exp(-the rate of one try / parts) is q on a grid of 1."""

    choose: Any
    tries: random_stopping.Tries
    parts: int
    q: Fraction
    range_of: Any
    """range_of(gamma, x, y) encloses E[x**K - y**K]."""

    @property
    def price(self):
        return 2 + self.tries.eta

    def factor(self, grid):
        """exp(EPSILON)."""
        power = self.price * self.parts * grid
        return self.q**-power.numerator if power.denominator == 1 else None

    def one_try(self, scores, sizes, grid):
        """The starts and steps of what the shipped mechanism compares, per unit, and its rate."""

        class Stop:
            """Draws with which the search is over at once."""

            def below(self, n):
                return 0

        _, starts, steps, rate = compared(random_stopping, self.choose, scores, sizes, grid, Stop())
        unit = Fraction(1, math.lcm(*(Fraction(x).denominator for x in (*scores, *sizes))))
        return [start * unit for start in starts], [step * unit for step in steps], rate

    def values(self, sizes, grid, gamma, scores, reach=8):
        """The distribution of the best try with its noisy score, which is more than is released."""
        starts, steps, rate = self.one_try(scores, sizes, grid)
        power = rate / (EPSILON / (self.price * grid)) * self.parts
        assert power.denominator == 1
        range_of = partial(self.range_of, gamma)
        return best_values(starts, steps, self.q**power.numerator, range_of, reach)

    def choices(self, sizes, grid, gamma, scores):
        """The distribution of the candidate alone."""
        return of_candidates(self.values(sizes, grid, gamma, scores, reach=40), len(sizes))


GEOMETRIC = Stopping(
    random_stopping.random_stopping, random_stopping.GEOMETRIC, 1, Fraction(1, 2), geometric_range
)
BINOMIAL = Stopping(
    random_stopping.random_stopping_tnb,
    random_stopping.NEGATIVE_BINOMIAL,
    2,
    Fraction(2, 3),
    partial(power_range, Fraction(1, 2)),
)
PAIRS = [(1, 1), (1, 3), (0, 2), (Fraction(1, 2), Fraction(7, 3))]
RARELY = {GEOMETRIC: Fraction(1, 10**4), BINOMIAL: Fraction(1, 10**5)}
MORE_RARELY = Fraction(1, 10**8)


def on_its_own_grid(this, sizes, grid):
    """What is compared: each score on a grid of its own sensitivity."""
    return Domain(
        distribution=lambda scores: this.one_try(scores, sizes, grid),
        inputs=lambda: product((0, Fraction(5, 7), -3), repeat=2),
        defined=lambda scores: (
            on_grids(scores, sizes, grid),
            list(sizes),
            EPSILON / (this.price * grid),
        ),
    )


def privacy_of_values(this, sizes, grid, gamma, moves=(-1, Fraction(-1, 3), 0, 1)):
    return Domain(
        distribution=partial(this.values, sizes, grid, gamma),
        pairs=lambda: neighbours(product(range(2), repeat=len(sizes)), sizes, moves),
        check=partial(check_enclosed, factor=this.factor(grid)),
    )


@cache
def privacy_of_choices(this, pair, sizes, grid, gamma):
    return Domain(
        distribution=partial(this.choices, sizes, grid, gamma),
        pairs=lambda: [pair],
        check=partial(check_enclosed, factor=this.factor(grid)),
    )


def crowd_before(this, grid):
    gamma = this.tries.gamma(9) if this is GEOMETRIC else MORE_RARELY
    return privacy_of_choices(this, crowd_of(8), (1,) * 9, grid, gamma)


def noise_for(scale):
    """Give all candidates noise for one sensitivity."""

    def tamper(patch):
        right = random_stopping.in_units

        def in_units(scores, sizes):
            whole, sizes = right(scores, sizes)
            return whole, [scale(sizes)] * len(sizes)

        patch.setattr(random_stopping, "in_units", in_units)

    return tamper


def one_large(this, largest, grid):
    pair, sizes = ((0,) * 9, (*[0] * 8, largest)), (*[1] * 8, largest)
    return privacy_of_choices(this, pair, sizes, grid, RARELY[this])


def mutants_of_stopping(this, grid):
    yield (
        "all of epsilon in each try",
        Mutant(
            crowd_before(this, grid),
            changed(random_stopping.Tries, "share", lambda tries, epsilon: epsilon),
        ),
    )
    yield "the least sensitivity", Mutant(one_large(this, 8, grid), noise_for(min))
    if this is GEOMETRIC:
        yield (
            "the mean sensitivity",
            Mutant(one_large(this, 64, grid), noise_for(lambda sizes: sum(sizes) // len(sizes))),
        )

        def distribution(scores):
            gamma = RARELY[this] if scores[0] == 0 else Fraction(1)
            return this.choices((1, 1), grid, gamma, scores)

        yield (
            "a number of tries that depends on scores",
            Mutant(
                privacy_of_choices(this, ((0, 9), (1, 9)), (1, 1), grid, RARELY[this]),
                distribution=distribution,
            ),
        )


def fit_stopping(this, scores, epsilon, tenths, patch):
    right = this.tries.share(epsilon) * Fraction(tenths, 10)
    patch.setattr(random_stopping, "grid_of", lambda share: 1)
    patch.setattr(random_stopping.Tries, "gamma", lambda tries, m: Fraction(1, 50))
    patch.setattr(random_stopping.Tries, "share", lambda tries, epsilon: right)
    sizes, draws = (0, 1, 1, 1), secret_draws()
    q = Fraction(math.exp(-1 / 2)).limit_denominator(1000)
    values = best_values(scores, sizes, q, partial(this.range_of, Fraction(1, 50)), 40)
    distribution = {i: high for i, (_, high) in of_candidates(values, 4).items()}
    return draws_fit(partial(this.choose, scores, sizes, epsilon, draws), 3_000, distribution)


def three_outcomes(rare, above):
    """A try with a best outcome, a rare one just below it, and one for the rest."""
    return {"best": above, "rare": rare, "rest": 1 - above - rare}


def best_distribution(one, range_of):
    """The distribution of the best of K tries, outcomes listed best first."""
    distribution, x = {}, Fraction(1)
    for outcome, p in one.items():
        distribution[outcome] = range_of(x, x - p)
        x -= p
    return distribution


TRIES = (
    three_outcomes(Fraction(4, 10**7), Fraction(1, 10**5)),
    three_outcomes(Fraction(1, 10**7), Fraction(4, 10**5)),
)
"""Distributions of one try that costs ln 4, as far apart as they may be: the best of K costs
ln 4**(2 + eta), a rational."""


def price_of_tries(eta, less=1, paid=None):
    """The best of many tries; exp of its price, 4**(2 + paid), is multiplied by `less`."""
    range_of = partial(power_range, eta, Fraction(1, 10**10))
    paid = eta if paid is None else paid
    return Domain(
        lambda i: best_distribution(TRIES[i], range_of),
        lambda: [(0, 1)],
        partial(check_enclosed, factor=less * Fraction(2 ** (2 * (2 + paid)).numerator)),
    )


ETAS = [Fraction(-1, 2), Fraction(0), Fraction(1, 2), Fraction(1)]


def case_of_stopping(mechanism, this, epsilon, says):
    gammas = [Fraction(1, 2), Fraction(1, 50)]
    crowds = [this.tries.gamma(9), MORE_RARELY]
    etas = [Fraction(1)] if this is GEOMETRIC else ETAS
    domains = {f"the price of the best at eta {eta}": price_of_tries(eta) for eta in etas}
    for grid in GRIDS:
        for sizes in PAIRS:
            domains[f"{sizes} as compared, grid {grid}"] = on_its_own_grid(this, sizes, grid)
            for gamma in gammas:
                slow = grid > 1 and (this is BINOMIAL or gamma != gammas[0])
                name = slow_if(slow, f"{sizes}, gamma {gamma}, grid {grid}")
                domains[name] = privacy_of_values(this, sizes, grid, gamma)
        for gamma in crowds:
            slow = grid > 1 and this is BINOMIAL
            domains[slow_if(slow, f"a crowd, gamma {gamma}, grid {grid}")] = privacy_of_choices(
                this, crowd_of(8), (1,) * 9, grid, gamma
            )
        if this is GEOMETRIC:
            domains[f"three candidates, grid {grid}"] = privacy_of_values(
                this, (2, 1, 0), grid, Fraction(1, 30), (-1, 1)
            )
    return Case(
        mechanism=mechanism,
        domains=domains,
        mutants={
            slow_if(grid > 1, f"{name}, grid {grid}"): mutant
            for grid in GRIDS
            for name, mutant in mutants_of_stopping(this, grid)
        },
        loss=PrivacyLoss(EPSILON),
        says=f"with probability 95 %, the chosen score is at most {says} "
        "(3 candidates, epsilon = 1)",
        fits=partial(fit_stopping, this, (5, 0, 0, 0), epsilon),
        tight={f"nine tenths at eta {eta}": price_of_tries(eta, Fraction(9, 10)) for eta in etas}
        | {"a geometric number at this price": price_of_tries(Fraction(1), paid=Fraction(1, 2))},
    )


CASES = [
    case_of_stopping(
        random_stopping.RANDOM_STOPPING,
        GEOMETRIC,
        Fraction(3, 2),
        "61.23 below the score of rank 2",
    ),
    case_of_stopping(
        random_stopping.RANDOM_STOPPING_TNB,
        BINOMIAL,
        Fraction(5, 4),
        "54.49 below the score of rank 3",
    ),
]
