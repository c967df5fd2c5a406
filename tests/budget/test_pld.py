import importlib.machinery
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from dp_sql.budget import pld
from dp_sql.errors import PolicyError
from tests.budget.adversary import RangeGame

# Steps of the grid in one range, about the range, where epsilon is on the grid, delta.
CASES = [
    (6, Fraction(1, 10), 60, Fraction(1, 10**6)),
    (6, Fraction(1, 5), 30, Fraction(1, 10**6)),
    (6, Fraction(1, 10), 60, Fraction(1, 10**9)),
    (6, Fraction(1, 20), 60, Fraction(1, 10**5)),
    (6, Fraction(1, 4), 24, Fraction(1, 1000)),
    (12, Fraction(1, 10), 120, Fraction(1, 10**18)),
    (8, Fraction(1), 24, Fraction(1, 10**6)),
]
Case = tuple[int, Fraction, int, Fraction]
Count = Callable[[Fraction, Fraction, Fraction], int]


def forbidden(count: Count, case: Case) -> bool:
    """Whether some analyst surely exceeds delta with as many releases as `count` allows."""
    steps, about, at, delta = case
    game = RangeGame(about, steps)
    return game.delta(count(game.epsilon(at), delta, game.u), at) > delta


def by_a_fixed_half(epsilon: Fraction, delta: Fraction, u: Fraction) -> int:
    """Mutant: as if the worst t were always the same u / 2."""
    n, limit, half = 0, math.exp(epsilon), float(u) / 2
    p = math.exp(half) / (1 + math.exp(half))
    while True:
        losses = [(2 * j - n - 1) * half for j in range(n + 2)]
        masses = [math.comb(n + 1, j) * p**j * (1 - p) ** (n + 1 - j) for j in range(n + 2)]
        if (
            sum(max(0, m * (1 - limit / math.exp(x))) for x, m in zip(losses, masses, strict=True))
            > delta
        ):
            return n
        n += 1


@pytest.mark.one_in(4)
@pytest.mark.parametrize("case", CASES)
def test_no_analyst_exceeds_delta_with_the_releases_that_fit(case: Case) -> None:
    assert not forbidden(pld.releases_that_fit, case)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("epsilon", "u", "least", "most"), [(1000, 2, 1500, 1800), (1000, 150, 6, 6), (50, 90, 0, 0)]
)
def test_wide_ranges_and_large_budgets_overflow_nothing(
    epsilon: int, u: int, least: int, most: int
) -> None:
    found = pld.releases_that_fit(Fraction(epsilon), Fraction(1, 10**6), Fraction(u))
    assert least <= found <= most


@pytest.mark.one_in(4)
@pytest.mark.parametrize("case", CASES)
def test_hardly_a_release_is_wasted(case: Case) -> None:
    def a_little_more(epsilon: Fraction, delta: Fraction, u: Fraction) -> int:
        n = pld.releases_that_fit(epsilon, delta, u)
        return n + 1 + n // 12

    assert forbidden(a_little_more, case)


@pytest.mark.thorough
@pytest.mark.pure
@pytest.mark.parametrize(
    "mutant",
    [
        lambda e, d, u: pld.releases_that_fit(e, d, u / 2),
        lambda e, d, u: pld.releases_that_fit(e, 100 * d, u),
    ],
)
def test_an_accountant_that_allows_too_much_is_found_out(mutant: Count) -> None:
    assert forbidden(mutant, CASES[0])


@pytest.mark.thorough
def test_a_fixed_choice_of_t_is_not_the_worst() -> None:
    assert forbidden(by_a_fixed_half, (6, Fraction(1, 10), 60, Fraction(1, 100)))


@pytest.mark.thorough
def test_many_releases_are_bounded_through_blocks_as_safely_as_few() -> None:
    game = RangeGame(Fraction(1, 20), 12)
    for at in (120, 200, 300):
        exact = game.delta(80, at)
        epsilon = float(game.epsilon(at)) * (1 - 1e-12)
        assert exact <= pld._delta_of(80, epsilon, game.u) < float(exact) * 1.3 + 1e-9


@pytest.mark.one_in(3)
@pytest.mark.parametrize("u", [Fraction(1, 100), Fraction(1, 2), Fraction(4)])
def test_the_curve_of_one_release_is_the_closed_form(u: Fraction) -> None:
    blocks, range_ = pld._blocks(u), float(u)
    for j in range(-pld._STEPS, pld._STEPS + 1):
        exact = (1 - math.exp((j * blocks.step - range_) / 2)) ** 2 / -math.expm1(-range_)
        assert blocks.delta(1, (j - 1e-9) * blocks.step) == pytest.approx(exact, rel=1e-2, abs=1e-9)
        here = float(blocks.curves[1][pld._BLOCK * pld._STEPS + j])
        assert exact * (1 - 1e-12) <= here + 1e-15
        assert here <= exact + range_ / 8 / pld._STEPS**2


@pytest.mark.thorough
def test_a_composition_by_fourier_transform_is_off_by_less_than_is_added_for_it() -> None:
    u, blocks, bits = Fraction(1, 20), 5, 100
    one = pld._distribution(pld._BLOCK, u)
    digits = [int(Fraction(float(p)) * (1 << bits)) for p in one._probs]
    width = bits * (blocks + 1) // 8 + 2
    packed = int.from_bytes(b"".join(d.to_bytes(width, "little") for d in digits), "little")
    power = (packed**blocks).to_bytes(width * (blocks * len(digits) + 1), "little")
    for epsilon in (0.5, 1.0, 1.5):
        exact = 0.0
        for i in range(blocks * (len(digits) - 1) + 1):
            loss = (i + blocks * one._lower_loss) * one._discretization
            if loss > epsilon:
                mass = int.from_bytes(power[i * width : (i + 1) * width], "little")
                exact += mass / (1 << bits * blocks) * -math.expm1(epsilon - loss)
        off = pld._composed(blocks * pld._BLOCK, u).get_delta_for_epsilon(epsilon) - exact
        assert -pld._COMPOSED / 100 < off < pld._COMPOSED / 10


def test_the_epsilon_that_is_shown_is_one_that_no_analyst_exceeds() -> None:
    game, delta, before = RangeGame(Fraction(1, 10), 6), Fraction(1, 10**6), Fraction(0)
    for n in (1, 2, 5, 10, 20, 40):
        epsilon = pld.epsilon_of(n, delta, game.u)
        assert before < epsilon <= n * game.u * (1 + Fraction(1, 10**9))
        at = math.ceil(epsilon / game.epsilon(1))
        assert game.delta(n, at) <= delta
        before = epsilon


def test_an_epsilon_of_nothing_is_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def delta_of(n: int, epsilon: float, u: Fraction) -> float:
        asked.append(epsilon)
        return 1e-9

    monkeypatch.setattr(pld, "_delta_of", delta_of)
    assert pld.epsilon_of(41, Fraction(1, 10**6), Fraction(1, 10**8)) == 0
    assert asked == [0]


def test_a_curve_read_between_two_points_is_never_below_the_curve() -> None:
    blocks = pld._blocks(Fraction(1, 2))
    for epsilon in np.linspace(-0.49, 0.49, 50):
        exact = (1 - math.exp((epsilon - 0.5) / 2)) ** 2 / -math.expm1(-0.5)
        assert exact * (1 - 1e-12) <= blocks.delta(1, float(epsilon)) <= exact * 1.05 + 1e-4


def test_without_the_package_the_owner_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def absent(name: str) -> importlib.machinery.ModuleSpec | None:
        return None

    monkeypatch.setattr(pld, "find_spec", absent)
    with pytest.raises(PolicyError, match=r"pip install .*\[pld\]"):
        pld.require_package()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("u", [Fraction(7, 5), Fraction(21, 20)])
def test_a_curve_that_rounding_lifts_above_one_is_a_curve(u: Fraction) -> None:
    pytest.importorskip("dp_accounting")
    assert pld.releases_that_fit(Fraction(50), Fraction(1, 10**6), u) > 32
