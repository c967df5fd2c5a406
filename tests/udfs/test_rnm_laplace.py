import math
import time
from collections import Counter, defaultdict
from fractions import Fraction
from itertools import product

import pytest

from tests.udfs.laws import NotPrivateError, PathTooLongError, check_neighbours, fits, law_of
from udfs.exact import Odds
from udfs.select import rnm_laplace
from udfs.spec import Loss

EPSILON = Fraction(1)
BETA = Fraction(1, 20)
Q = Fraction(1, 3)
"""exp(-rate) in exact laws: whatever the rate is, a law that is private for it is a theorem."""


# The noise, by its definition.


def noise_is(x, q):
    return (1 - q) / (1 + q) * q ** abs(x)


def noise_is_at_most(x, q):
    return q**-x / (1 + q) if x <= 0 else 1 - q ** (x + 1) / (1 + q)


def capped_geometric(cap):
    """The geometric number, exact below the cap; longer ones are given up as unfinished."""

    def geometric(draws, rate):
        weights = [((1, g), (-1, g + 1)) for g in range(cap)]
        drawn = draws.choose(Odds([*weights, ((1, cap),)], rate))
        if drawn == cap:
            raise PathTooLongError
        return drawn

    return geometric


CAP = 8


@pytest.fixture
def small_blocks(monkeypatch):
    """Two blocks of two, so that every kind of block matters in small laws."""
    monkeypatch.setattr(rnm_laplace, "_N_BLOCKS", 2)
    monkeypatch.setattr(rnm_laplace, "_width", lambda rate: 2)
    monkeypatch.setattr(rnm_laplace, "_blocks", rnm_laplace._blocks.__wrapped__)
    monkeypatch.setattr(rnm_laplace, "geometric", capped_geometric(CAP))


def shipped_best(tries, starts, steps):
    """The law of the shipped comparison, and what is left beyond the cap."""
    return law_of(
        lambda draws: rnm_laplace.noisy_best(tries, starts, steps, EPSILON, draws), {EPSILON: Q}
    )


def defined_best(tries, starts, steps):
    """The definition, for noise that is not beyond the cap, and what is left."""
    law = defaultdict(Fraction)
    for noise in product(range(-CAP, CAP + 1), repeat=len(tries)):
        values = [(starts[i] + steps[i] * x, -i) for i, x in zip(tries, noise, strict=True)]
        law[-max(values)[1]] += math.prod(noise_is(x, Q) for x in noise)
    return law, 1 - sum(law.values())


def check_comparison(tries, starts, steps):
    shipped, unfinished = shipped_best(tries, starts, steps)
    defined, left = defined_best(tries, starts, steps)
    assert max(unfinished, left) < Fraction(1, 1000)
    for i in set(tries):
        difference = shipped.get(i, Fraction(0)) - defined[i]
        assert -unfinished <= difference <= left


COMPARISONS = [
    ((0,), (5,), (1,)),
    *(((0, 1), (0, gap), (1, 1)) for gap in range(-6, 7)),
    *(((0, 1), (0, gap), (1, 3)) for gap in (-4, -1, 0, 2, 5)),
    *(((1, 0, 1), (0, gap), (2, 0)) for gap in (-3, 0, 1, 6)),
    ((0, 1), (3, 3), (0, 0)),
    ((1, 1), (9, 0), (1, 1)),
]


@pytest.mark.parametrize(("tries", "starts", "steps"), COMPARISONS)
def test_the_comparison_has_the_law_of_noise_drawn_in_full(small_blocks, tries, starts, steps):
    check_comparison(tries, starts, steps)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("_may_reach", lambda gap, step, block, width: block < 3 and step * block * width >= gap),
        ("_may_reach", lambda gap, step, block, width: block == 2 or step * (2 * block) >= gap),
        ("_times_noise", lambda step, block, width, rate, draws: step * block * width),
        ("_times_noise", lambda step, block, *rest: step * 3 - 9 * (block == 3)),
    ],
)
def test_a_comparison_that_drops_or_rounds_noise_is_not_that_law(
    small_blocks, monkeypatch, name, wrong
):
    monkeypatch.setattr(rnm_laplace, name, wrong)
    with pytest.raises(AssertionError):
        for case in COMPARISONS:
            check_comparison(*case)


def test_equal_values_go_to_the_first_candidate():
    assert rnm_laplace.noisy_best([2, 1, 3], [9, 4, 4, 4], [0] * 4, EPSILON, Always()) == 1


class Always:
    """Draws that always take the first outcome."""

    def choose(self, odds):
        return 0

    def below(self, n):
        return 0


def test_blocks_are_shorter_than_the_noise_and_reach_beyond_it():
    for rate in (Fraction(1, 10**6), Fraction(3, 10**4), Fraction(1), Fraction(5)):
        width = rnm_laplace._width(rate)
        assert width == 1 or Fraction(1, 16) < width * rate <= Fraction(1, 8)
        assert rnm_laplace._N_BLOCKS * width * rate >= 8


# The choice: what `_select` compares, and the law of that in closed form.


class Compared(Exception):
    """What `_select` handed on, in its arguments."""


@pytest.fixture
def recorded(monkeypatch):
    def compare(tries, starts, steps, rate, draws):
        raise Compared(list(tries), starts, steps, rate)

    monkeypatch.setattr(rnm_laplace, "noisy_best", compare)


@pytest.fixture(params=[1, 2])
def grid(request, monkeypatch):
    monkeypatch.setattr(rnm_laplace, "grid_of", lambda epsilon: request.param)
    return request.param


def law_of_starts(starts, q):
    """P(i has the largest start plus noise, first among equals), summed exactly.

    From the largest start on, every factor is linear in q**value; up to the least, each is a
    power; in between there are finitely many values.
    """
    low, high, m = min(starts), max(starts), len(starts)
    law = {}
    for i, start in enumerate(starts):
        # The others have to stay at or below value - late[j].
        late = [int(j < i) for j in range(m)]

        def wins(value, i=i, start=start, late=late):
            others = (noise_is_at_most(value - late[j] - starts[j], q) for j in range(m) if j != i)
            return noise_is(value - start, q) * math.prod(others)

        total = wins(low) / (1 - q**m)
        total += sum(wins(value) for value in range(low + 1, high + 1))
        coefficients = [Fraction(0), (1 - q) / (1 + q) * q**-start]
        for j in range(m):
            if j != i:
                slope = -(q ** (1 - late[j] - starts[j])) / (1 + q)
                shifted = [Fraction(0), *(slope * c for c in coefficients)]
                coefficients = [
                    c + s for c, s in zip([*coefficients, Fraction(0)], shifted, strict=True)
                ]
        total += sum(
            c * q ** ((high + 1) * k) / (1 - q**k) for k, c in enumerate(coefficients) if k
        )
        law[i] = total
    assert sum(law.values()) == 1
    return law


def choice_law(scores, sizes, grid):
    """The law of what the shipped mechanism compares; Q is exp(-EPSILON / (2 * grid))."""
    with pytest.raises(Compared) as caught:
        rnm_laplace._select(scores, sizes, EPSILON, None)
    tries, starts, steps, rate = caught.value.args
    assert tries == list(range(len(scores)))
    assert steps == [1] * len(scores)
    power = rate / (EPSILON / (2 * grid))
    assert power.denominator == 1
    return law_of_starts(starts, Q**power.numerator)


def test_the_closed_form_is_the_law_of_noise_drawn_in_full():
    for starts in [(0, 0), (2, 0, 1), (0, 1), (1, 5)]:
        closed = law_of_starts(starts, Q)
        defined, left = defined_best(range(len(starts)), starts, [1] * len(starts))
        assert left < Fraction(1, 1000)
        assert all(0 <= closed[i] - defined[i] <= left for i in closed)


SIZES = [(1, 1), (1, 3), (0, 2), (2, 1, 0), (Fraction(1, 2), 2, Fraction(7, 3))]


def tables(sizes):
    return product(range(3), repeat=len(sizes))


def moved_tables(sizes):
    """Each table with each one where every score has moved by at most its sensitivity."""
    for scores in tables(sizes):
        for signs in product((-1, Fraction(-1, 3), 0, 1), repeat=len(sizes)):
            moves = zip(scores, signs, sizes, strict=True)
            yield scores, tuple(s + sign * size for s, sign, size in moves)


@pytest.mark.parametrize("sizes", SIZES)
def test_what_is_compared_is_the_definition_for_every_small_table(recorded, grid, sizes):
    for scores in tables(sizes):
        starts = [math.floor(grid * Fraction(score) / max(sizes)) for score in scores]
        assert choice_law(scores, sizes, grid) == law_of_starts(starts, Q)


def check_privacy(sizes, grid):
    check_neighbours(
        lambda scores: choice_law(scores, sizes, grid), moved_tables(sizes), Q ** (-2 * grid)
    )


@pytest.mark.parametrize("sizes", SIZES)
def test_no_neighbours_can_be_told_apart(recorded, grid, sizes):
    check_privacy(sizes, grid)


@pytest.mark.parametrize("scale", [min, lambda sizes: -(-sum(sizes) // len(sizes))])
def test_noise_for_the_least_or_the_mean_sensitivity_is_not_private(
    recorded, monkeypatch, grid, scale
):
    monkeypatch.setattr(rnm_laplace, "_scale", scale)
    with pytest.raises(NotPrivateError):
        check_privacy((1, 9), grid)


CROWD = ((0, *[2] * 30), (1, *[1] * 30))
"""Neighbours that use nearly all of epsilon: one candidate rises while thirty fall."""


def check_the_crowd(grid):
    sizes = (1,) * len(CROWD[0])
    check_neighbours(lambda scores: choice_law(scores, sizes, grid), [CROWD], Q ** (-2 * grid))


def test_neighbours_that_need_nearly_all_of_epsilon_have_it(recorded, grid):
    check_the_crowd(grid)


def test_a_lost_factor_two_is_not_private(recorded, monkeypatch, grid):
    monkeypatch.setattr(rnm_laplace, "_rate", lambda epsilon, grid: epsilon / grid)
    with pytest.raises(NotPrivateError):
        check_the_crowd(grid)


def test_scores_that_depend_on_nobody_need_no_noise():
    assert rnm_laplace._select([1, 5, 5, 2], [0, 0, 0, 0], EPSILON, None) == 1


def test_the_public_call_uses_the_public_constants(recorded):
    with pytest.raises(Compared) as caught:
        rnm_laplace.select([7, Fraction(1, 3), -1], [1, 2, Fraction(3, 2)], Fraction(5, 2))
    assert caught.value.args == (
        [0, 1, 2],
        [math.floor(4096 * Fraction(s, 2)) for s in (7, Fraction(1, 3), -1)],
        [1, 1, 1],
        Fraction(5, 2) / (2 * 4096),
    )


def failing(sizes, gap):
    """P(another is chosen than the first, which is ahead by a gap), exp(-EPSILON / 4) rounded."""
    starts = [2 * gap // max(sizes), *[0] * (len(sizes) - 1)]
    return 1 - law_of_starts(starts, Fraction(7788, 10_000))[0]


@pytest.mark.parametrize("beta", [Fraction(1, 5), Fraction(1, 20)])
@pytest.mark.parametrize("sizes", [(1, 1), (3, 1, 2), (1,) * 8])
def test_the_accuracy_bound_holds_and_a_quarter_of_it_would_not(monkeypatch, sizes, beta):
    monkeypatch.setattr(rnm_laplace, "grid_of", lambda epsilon: 2)
    bound = rnm_laplace.error_bound(sizes, EPSILON, beta)
    assert failing(sizes, math.floor(bound) + 1) <= beta
    assert failing(sizes, math.floor(bound / 4)) > beta


def test_the_accuracy_bound_is_that_of_continuous_noise_within_a_percent():
    bound = rnm_laplace.error_bound([1, 3, 2], Fraction(1, 2), BETA)
    continuous = 3 * 4 * (math.log(3 / BETA) + math.log(1 / BETA))
    assert abs(bound / continuous - 1) < 0.01


def test_the_accuracy_sentence_names_public_numbers_only():
    assert rnm_laplace.accuracy([1, 3, 2], Fraction(1, 2), BETA) == (
        "with probability at least 0.95 the score of the chosen candidate is at most 85.09 below "
        "the largest (3 candidates, epsilon = 0.5)"
    )


def test_the_loss_is_pure():
    assert rnm_laplace.loss(EPSILON) == Loss(EPSILON)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**6), Fraction(1), Fraction(10**5)])
@pytest.mark.parametrize("sizes", [[1] * 50, [0, 3] * 25, [Fraction(1, 7), 10**30] * 25])
def test_any_scores_give_a_position(sizes, epsilon):
    for scores in ([0] * 50, list(range(50)), [Fraction(-(10**20), 3), 10**25] * 25):
        assert rnm_laplace.select(scores, sizes, epsilon) in range(50)


def test_far_ahead_is_chosen():
    assert rnm_laplace.select([5, 10**9, 7], [1, 2, 3], EPSILON) == 1


def test_a_hundred_thousand_candidates_are_quick():
    scores = [x % 1000 for x in range(10**5)]
    start = time.perf_counter()
    rnm_laplace.select(scores, [1] * 10**5, EPSILON)
    assert time.perf_counter() - start < 3, "ten times the goal, for slow machines"


@pytest.mark.parametrize(("tenths", "passes"), [(7, False), (10, True), (13, False)])
def test_only_choices_with_the_right_epsilon_fit(tenths, passes, monkeypatch):
    monkeypatch.setattr(rnm_laplace, "grid_of", lambda epsilon: 8)
    right = rnm_laplace._rate
    rate = lambda epsilon, grid: right(epsilon, grid) * Fraction(tenths, 10)  # noqa: E731
    monkeypatch.setattr(rnm_laplace, "_rate", rate)
    scores = (4, 3, 0)
    n = 10_000
    observed = Counter(rnm_laplace.select(scores, (1, 1, 1), EPSILON) for _ in range(n))
    law = law_of_starts([8 * s for s in scores], Fraction(math.exp(-1 / 16)))
    assert fits(observed, {i: float(p) for i, p in law.items()}) is passes


@pytest.mark.parametrize("bad", [1.0, True, "1", None])
def test_numbers_of_another_type_are_refused(bad):
    with pytest.raises(TypeError, match="scores"):
        rnm_laplace.select([1, bad], [1, 1], EPSILON)


@pytest.mark.parametrize("bad", [1.0, True, "1", None])
def test_sensitivities_of_another_type_are_refused(bad):
    with pytest.raises(TypeError, match="sensitivities"):
        rnm_laplace.select([1, 1], [1, bad], EPSILON)


def test_a_negative_sensitivity_is_refused():
    with pytest.raises(ValueError, match="sensitivities"):
        rnm_laplace.select([1, 1], [1, -1], EPSILON)


@pytest.mark.parametrize(("scores", "sizes"), [([], []), ([1], []), ([1], [1, 2])])
def test_lists_that_do_not_match_are_refused(scores, sizes):
    with pytest.raises(ValueError, match="one sensitivity"):
        rnm_laplace.select(scores, sizes, EPSILON)


@pytest.mark.parametrize("bad", [1.0, 1, True, "1", None])
def test_an_epsilon_of_another_type_is_refused(bad):
    with pytest.raises(TypeError, match="epsilon"):
        rnm_laplace.select([1], [1], bad)


@pytest.mark.parametrize("bad", [Fraction(0), Fraction(-1)])
def test_an_epsilon_out_of_range_is_refused(bad):
    with pytest.raises(ValueError, match="epsilon"):
        rnm_laplace.select([1], [1], bad)


@pytest.mark.parametrize("bad", [Fraction(0), Fraction(1)])
def test_a_beta_out_of_range_is_refused(bad):
    with pytest.raises(ValueError, match="beta"):
        rnm_laplace.accuracy([1], EPSILON, bad)
