import math
import time
from collections import Counter
from fractions import Fraction
from itertools import product

import pytest

from tests.udfs import test_rnm_laplace as noisy
from tests.udfs.choices import neighbours
from tests.udfs.laws import NotPrivateError, fits, law_of
from tests.udfs.test_rnm_laplace import noise_is_at_most, small_blocks  # noqa: F401
from udfs.select import random_stopping
from udfs.spec import Loss

EPSILON = Fraction(1)
BETA = Fraction(1, 20)
PRICE = 3

# The number of tries, by its definition.


def geometric_range(gamma, x, x_before):
    """E[x**K - x_before**K] for a geometric K, enclosed; here exactly."""
    exact = sum(sign * gamma * y / (1 - (1 - gamma) * y) for sign, y in ((1, x), (-1, x_before)))
    return exact, exact


@pytest.mark.parametrize("gamma", [Fraction(1, 10), Fraction(2, 3), Fraction(1)])
def test_the_number_of_tries_is_geometric(gamma):
    def run(draws):
        return random_stopping.number_of_tries(gamma, draws)

    law, unfinished = law_of(run, {}, limit=4)
    assert unfinished == (1 - gamma) ** 4
    for k in range(1, 5):
        assert law.get(k, 0) == gamma * (1 - gamma) ** (k - 1)


# One try, as what the shipped mechanism compares, and the law of the best of K tries.


@pytest.fixture(params=[1, 2])
def grid(request, monkeypatch):
    monkeypatch.setattr(random_stopping, "grid_of", lambda share: request.param)
    return request.param


def one_try(select, scores, sizes):
    """The starts and steps of what the shipped mechanism compares, per unit, and its rate."""

    def compare(tries, starts, steps, rate, draws):
        raise noisy.Compared(starts, steps, rate)

    class Stop:
        """Draws with which the search is over at once."""

        def below(self, n):
            return 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(random_stopping, "noisy_best", compare)
        with pytest.raises(noisy.Compared) as caught:
            select(scores, sizes, EPSILON, Stop())
    starts, steps, rate = caught.value.args
    unit = Fraction(1, math.lcm(*(Fraction(x).denominator for x in (*scores, *sizes))))
    return [start * unit for start in starts], [step * unit for step in steps], rate


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

    law = {}
    for i in range(m):
        values = [step * steps[i] for step in range(-reach, reach + 1)] if steps[i] else [starts[i]]
        for value in values:
            before = [comes_by(j, value, j <= i) for j in range(m)]
            here = comes_by(i, value, False) - before[i]
            low = sum(before) / m
            law[value, i] = range_of(low + here / m, low)
    return law


def of_candidates(values, m):
    """The same for the candidate alone; what is beyond reach may belong to each of them."""
    low = [sum(p for (_, j), (p, _) in values.items() if j == i) for i in range(m)]
    return {i: (low[i], low[i] + 1 - sum(low)) for i in range(m)}


def check_enclosed(law, pairs, factor):
    """Raise if an outcome is more than `factor` times likelier on one side of a pair."""
    cache = {}
    for pair in pairs:
        for data in pair:
            if data not in cache:
                cache[data] = law(data)
        left, right = (cache[data] for data in pair)
        for outcome in left.keys() | right.keys():
            low, high = left.get(outcome, (0, 0))
            other_low, other_high = right.get(outcome, (0, 0))
            if low > factor * other_high or other_low > factor * high:
                raise NotPrivateError(f"{pair}: {outcome}")


Q = Fraction(1, 2)
"""exp(-rate) of one try in exact laws, where the rate is as it should be."""


def law_of_values(scores, sizes, grid, gamma, reach=8):
    starts, steps, rate = one_try(random_stopping._select, scores, sizes)
    power = rate / (EPSILON / (PRICE * grid))
    assert power.denominator == 1
    q = Q**power.numerator
    return best_values(starts, steps, q, lambda x, y: geometric_range(gamma, x, y), reach)


def law_of_choice(scores, sizes, grid, gamma):
    return of_candidates(law_of_values(scores, sizes, grid, gamma, reach=40), len(sizes))


SIZES = [(1, 1), (1, 3), (0, 2), (Fraction(1, 2), Fraction(7, 3))]


def fixed_range(n):
    return lambda x, y: (x**n - y**n, x**n - y**n)


def on_grids(scores, sizes, grid):
    """The scores, times the grid, rounded down to multiples of their own sensitivities."""
    return [
        math.floor(grid * Fraction(score) / size) * size if size else grid * score
        for score, size in zip(scores, sizes, strict=True)
    ]


@pytest.mark.parametrize(("n", "scores"), [(1, (2, 0)), (2, (0, 1))])
@pytest.mark.parametrize("sizes", SIZES)
def test_the_best_of_n_tries_has_its_law(small_blocks, grid, n, scores, sizes):  # noqa: F811
    starts = on_grids(scores, sizes, grid)
    defined = of_candidates(best_values(starts, sizes, Q, fixed_range(n), 40), len(sizes))
    shipped, unfinished = law_of(
        lambda draws: random_stopping.best_of_tries(n, scores, sizes, EPSILON, draws),
        {EPSILON / grid: Q},
    )
    assert unfinished < Fraction(1, 50)
    for i, (low, high) in defined.items():
        assert low - unfinished <= shipped.get(i, 0) <= high


@pytest.mark.parametrize("sizes", SIZES)
def test_what_is_compared_is_the_score_on_its_own_grid(grid, sizes):
    for scores in product((0, Fraction(5, 7), -3), repeat=2):
        starts, steps, rate = one_try(random_stopping._select, scores, sizes)
        assert (starts, steps) == (on_grids(scores, sizes, grid), list(sizes))
        assert rate == EPSILON / (PRICE * grid)


def check_values(sizes, grid, gamma, moves):
    """Privacy of the best try with its noisy score, which is more than is released."""
    check_enclosed(
        lambda scores: law_of_values(scores, sizes, grid, gamma),
        neighbours(product(range(2), repeat=len(sizes)), sizes, moves),
        Q ** (-PRICE * grid),
    )


@pytest.mark.parametrize("gamma", [Fraction(1, 2), Fraction(1, 50)])
@pytest.mark.parametrize("sizes", SIZES)
def test_no_neighbours_can_be_told_apart_by_candidate_and_noisy_score(grid, sizes, gamma):
    check_values(sizes, grid, gamma, (-1, Fraction(-1, 3), 0, 1))


def test_no_neighbours_of_three_candidates_can_be_told_apart(grid):
    check_values((2, 1, 0), grid, Fraction(1, 30), (-1, 1))


CROWD = ((0, *[2] * 8), (1, *[1] * 8))
"""Neighbours that use more than half of epsilon: one candidate rises while eight fall."""


def check_choices(pair, sizes, grid, gamma):
    """Privacy of the candidate alone."""
    check_enclosed(
        lambda scores: law_of_choice(scores, sizes, grid, gamma(len(sizes))),
        [pair],
        Q ** (-PRICE * grid),
    )


def test_a_crowd_that_falls_cannot_be_told_apart(grid):
    check_choices(CROWD, (1,) * 9, grid, random_stopping._gamma)


def test_all_of_epsilon_in_each_try_is_not_private(monkeypatch, grid):
    monkeypatch.setattr(random_stopping, "_share", lambda epsilon: epsilon)
    with pytest.raises(NotPrivateError):
        check_choices(CROWD, (1,) * 9, grid, random_stopping._gamma)


RARELY = Fraction(1, 10**4)


@pytest.mark.parametrize(
    ("scale", "largest"), [(min, 8), (lambda sizes: sum(sizes) // len(sizes), 64)]
)
def test_noise_for_the_least_or_the_mean_sensitivity_is_not_private(
    monkeypatch, grid, scale, largest
):
    right = random_stopping.in_units

    def in_units(scores, sizes):
        whole, sizes = right(scores, sizes)
        return whole, [scale(sizes)] * len(sizes)

    monkeypatch.setattr(random_stopping, "in_units", in_units)
    pair, sizes = ((0,) * 9, (*[0] * 8, largest)), (*[1] * 8, largest)
    with pytest.raises(NotPrivateError):
        check_choices(pair, sizes, grid, lambda m: RARELY)


def test_a_number_of_tries_that_depends_on_scores_is_not_private(grid):
    def law(scores):
        gamma = RARELY if scores[0] == 0 else Fraction(1)
        return law_of_choice(scores, (1, 1), grid, gamma)

    with pytest.raises(NotPrivateError):
        check_enclosed(law, [((0, 9), (1, 9))], Q ** (-PRICE * grid))


def test_the_number_of_tries_is_drawn_from_the_number_of_candidates_alone(monkeypatch):
    seen = []
    monkeypatch.setattr(
        random_stopping, "number_of_tries", lambda *arguments: seen.append(arguments) or 7
    )
    monkeypatch.setattr(random_stopping, "best_of_tries", lambda *arguments: arguments)
    for scores in ([0, 0, 0], [1, 5, 10**9]):
        handed_on = random_stopping._select(scores, [1, 2, 0], EPSILON, None)
        assert handed_on == (7, scores, [1, 2, 0], EPSILON / 3, None)
    assert seen == [(Fraction(1, 30), None)] * 2


def three_outcomes(rare, above):
    """A try with a best outcome, a rare one just below it, and one for the rest."""
    return {"best": above, "rare": rare, "rest": 1 - above - rare}


def best_law(one, range_of):
    """The law of the best of K tries, outcomes listed best first."""
    law, x = {}, Fraction(1)
    for outcome, p in one.items():
        law[outcome] = range_of(x, x - p)
        x -= p
    return law


E1 = Fraction(2)
"""exp of what one try costs, in the pair below."""

TRIES = (
    three_outcomes(Fraction(2, 10**7), Fraction(1, 10**5)),
    three_outcomes(Fraction(1, 10**7), Fraction(2, 10**5)),
)


def check_three_outcomes(range_of, factor):
    check_enclosed(lambda i: best_law(TRIES[i], range_of), [(0, 1)], factor)


def test_the_price_of_three_tries_is_right_and_nothing_much_below_it():
    ratios = [TRIES[0][o] / TRIES[1][o] for o in TRIES[0]]
    assert all(1 / E1 <= ratio <= E1 for ratio in ratios)

    def range_of(x, y):
        return geometric_range(Fraction(1, 10**9), x, y)

    check_three_outcomes(range_of, E1**3)
    with pytest.raises(NotPrivateError):
        check_three_outcomes(range_of, E1**3 * Fraction(9, 10))


@pytest.mark.parametrize("m", [1, 2, 7])
def test_the_probability_of_missing_candidates_is_that_of_the_number_of_tries(m):
    for rank in range(1, m + 1):
        x = 1 - Fraction(rank, m)
        low, high = geometric_range(random_stopping._gamma(m), x, Fraction(0))
        assert low == random_stopping._missed(m, rank) == high


def check_accuracy(sizes, beta, shrink=1):
    """The bound against the law: the first ranks far ahead, the others just out of bounds."""
    rank, shortfall = random_stopping.error_bound(sizes, EPSILON, beta)
    ahead = math.floor(shortfall / shrink) + 1
    scores = [ahead] * rank + [0] * (len(sizes) - rank)
    starts, steps, rate = one_try(random_stopping._select, scores, sizes)
    q = Fraction(math.exp(-rate)).limit_denominator(1000)
    gamma = random_stopping._gamma(len(sizes))
    values = best_values(starts, steps, q, lambda x, y: geometric_range(gamma, x, y), 2 * ahead)
    chosen = of_candidates(values, len(sizes))
    return sum(chosen[i][1] for i in range(rank, len(sizes)))


@pytest.mark.parametrize("beta", [Fraction(1, 2), Fraction(1, 5)])
def test_the_accuracy_bound_holds_and_a_quarter_of_it_would_not(monkeypatch, beta):
    monkeypatch.setattr(random_stopping, "grid_of", lambda share: 1)
    sizes = (1, 1, 1)
    assert check_accuracy(sizes, beta) <= beta
    assert check_accuracy(sizes, beta, 4) > beta


def test_the_accuracy_sentence_names_public_numbers_only():
    assert random_stopping.accuracy([1, 3, 2] * 10, Fraction(1, 2), BETA) == (
        "with probability at least 0.95 the score of the chosen candidate is at most 225.2 below "
        "the score of rank 5 (30 candidates, epsilon = 0.5)"
    )


def test_the_loss_is_pure():
    assert random_stopping.loss(EPSILON) == Loss(EPSILON)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**6), Fraction(1), Fraction(10**5)])
@pytest.mark.parametrize("sizes", [[1] * 50, [0, 3] * 25, [Fraction(1, 7), 10**30] * 25, [0] * 50])
def test_any_scores_give_a_position(sizes, epsilon):
    for scores in ([0] * 50, list(range(50)), [Fraction(-(10**20), 3), 10**25] * 25):
        assert random_stopping.select(scores, sizes, epsilon) in range(50)


def test_one_candidate_is_chosen():
    assert random_stopping.select([-5], [3], EPSILON) == 0


def test_a_thousand_candidates_are_quick():
    start = time.perf_counter()
    for _ in range(5):
        random_stopping.select([x % 97 for x in range(1000)], [1, 2] * 500, EPSILON)
    assert (time.perf_counter() - start) / 5 < 1, "twenty times the goal, for slow machines"


@pytest.mark.parametrize(("tenths", "passes"), [(7, False), (10, True), (13, False)])
def test_only_choices_with_the_right_epsilon_fit(tenths, passes, monkeypatch):
    monkeypatch.setattr(random_stopping, "grid_of", lambda share: 1)
    monkeypatch.setattr(random_stopping, "_gamma", lambda m: Fraction(1, 50))
    right = random_stopping._share
    monkeypatch.setattr(
        random_stopping, "_share", lambda epsilon: right(epsilon) * Fraction(tenths, 10)
    )
    scores, sizes, epsilon = (5, 0, 0, 0), (0, 1, 1, 1), Fraction(3, 2)
    observed = Counter(random_stopping.select(scores, sizes, epsilon) for _ in range(3_000))
    values = best_values(
        scores,
        sizes,
        Fraction(math.exp(-1 / 2)).limit_denominator(1000),
        lambda x, y: geometric_range(Fraction(1, 50), x, y),
        40,
    )
    law = {i: float(high) for i, (_, high) in of_candidates(values, 4).items()}
    assert fits(observed, law) is passes


@pytest.mark.parametrize("bad", [1.0, True, "1", None])
def test_numbers_of_another_type_are_refused(bad):
    with pytest.raises(TypeError, match="scores"):
        random_stopping.select([1, bad], [1, 1], EPSILON)


def test_a_negative_sensitivity_is_refused():
    with pytest.raises(ValueError, match="sensitivities"):
        random_stopping.select([1, 1], [1, -1], EPSILON)


@pytest.mark.parametrize("bad", [1.0, 1, True, "1", None])
def test_an_epsilon_of_another_type_is_refused(bad):
    with pytest.raises(TypeError, match="epsilon"):
        random_stopping.select([1], [1], bad)


@pytest.mark.parametrize("bad", [Fraction(0), Fraction(-1)])
def test_an_epsilon_out_of_range_is_refused(bad):
    with pytest.raises(ValueError, match="epsilon"):
        random_stopping.select([1], [1], bad)


@pytest.mark.parametrize("bad", [Fraction(0), Fraction(1)])
def test_a_beta_out_of_range_is_refused(bad):
    with pytest.raises(ValueError, match="beta"):
        random_stopping.accuracy([1], EPSILON, bad)
