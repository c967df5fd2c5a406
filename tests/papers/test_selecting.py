"""The scripts of the selection paper: claims on planted data."""

import runpy
from fractions import Fraction

import numpy as np
import pytest
import scipy
from numpy.typing import NDArray

from examples.papers.frame.verdicts import LEVEL
from examples.papers.selecting import choices, scenarios
from examples.papers.selecting.claims import RATIO_AT, RATIOS, claims_of
from examples.papers.selecting.comparing import Z_99, Claim, judged, note_on, sign_of
from examples.papers.selecting.errors import Errors, Wanted, compared
from examples.papers.selecting.sweep import STRENGTHS, Measured

pytestmark = pytest.mark.thorough

MANY, FEW = 1000, 40


EPSILONS = tuple(map(Fraction, (1, 4, 16)))


POSITIVE = {"mgem": 0.1, "random_stopping": 0.2, "rnm": 0.5, "gem": 0.9, "random": 0.6}


NEGATIVE = {"gem": 0.1, "rnm": 0.5, "mgem": 0.8, "random_stopping": 0.9, "random": 0.6}


NONE = {"rnm": 0.2, "gem": 0.3, "mgem": 0.5, "random_stopping": 0.6}


NONE_SPREAD = NONE | {"rnm": 0.3, "gem": 0.2, "k_randomised_response": 0.05}


POLES = dict.fromkeys(("gem", "mgem", "rnm", "random"), 0.5) | {"random_stopping": 0.9}


AS_CLAIMED = {
    "1": POSITIVE, "2": NEGATIVE, "3": NONE, "4": POSITIVE, "5": NEGATIVE, "6": NONE_SPREAD,
    "7": POLES | {"combined_gem": 0.1}, "8": POLES | {"combined_gem": 0.3},
}  # fmt: skip
"""Mean squared errors with which every claim holds, at every epsilon."""

N_CLAIMS = 24


Point = tuple[str, str, Fraction]


def errors_of(mean: float, n: int) -> NDArray[np.float64]:
    """Trials with just this mean, and a standard deviation of a twentieth of it."""
    signs = np.resize([1, -1], n)
    return np.stack([mean * (1 + signs / 20), np.full(n, 0.5)], axis=1)


def planted(n: int, other: dict[Point, float] | None = None) -> tuple[Errors, Errors, Measured]:
    """All claims hold, except at the points whose mean is another one."""
    means = {
        (scenario, name, epsilon): mean
        for scenario, of_name in AS_CLAIMED.items()
        for name, mean in of_name.items()
        for epsilon in EPSILONS
    }
    means |= {
        (f"3, {robust:g}", name, RATIO_AT): NONE[name]
        for robust in RATIOS
        for name in ("rnm", "gem")
    }
    swept = {
        (f"{width} sweep, {strength:g}", name, epsilon): mean
        for width in scenarios.SWEEPS
        for strength in STRENGTHS
        for name, mean in {
            "rnm": 1.0,
            "gem": 0.9 + 0.6 * strength,
            "mgem": 0.91 - 0.6 * strength,
            "random_stopping": 1.6,
        }.items()
        for epsilon in EPSILONS[:2]
    }
    for point, mean in (other or {}).items():
        (swept if point in swept else means)[point] = mean
    return (
        {point: errors_of(mean, n) for point, mean in means.items()},
        {point: errors_of(mean, n) for point, mean in swept.items()},
        {(width, strength): strength for width in scenarios.SWEEPS for strength in STRENGTHS},
    )


ONE, FOUR, SIXTEEN = EPSILONS


WIDE = "wide sweep, 1"


CASES: dict[tuple[str, str], dict[Point, tuple[float, float]]] = {
    ("scenario 1, epsilon 4", "positive"): {("1", "mgem", FOUR): (0.7, 0.5)},
    ("scenario 2, epsilon 4", "negative"): {("2", "random_stopping", FOUR): (0.3, 0.5)},
    ("scenario 4, epsilon 1", "positive"): {("4", "gem", ONE): (0.3, 0.5)},
    ("scenario 5, epsilon 1", "negative"): {("5", "gem", ONE): (0.6, 0.5)},
    ("scenario 6, epsilon 4", "no correlation"): {("6", "gem", FOUR): (0.4, 0.3)},
    ("scenario 1, epsilon 1", "at small"): {("1", "random", ONE): (0.95, 0.9)},
    ("scenario 3, epsilon 4", "no correlation: GEM"): {("3", "gem", FOUR): (0.55, 0.5)},
    ("scenario 3, epsilon 4", "no correlation: RNM outperforms mGEM"): {
        ("3", "rnm", FOUR): (0.55, 0.5)
    },
    ("scenario 3, epsilon 4", "no correlation: RNM outperforms GEM"): {
        ("3, 0.5", "rnm", FOUR): (0.4, 0.3)
    },
    ("scenario 7, epsilon 16", "two groups"): {("7", "gem", SIXTEEN): (0.05, 0.1)},
    ("scenarios 7 and 8, epsilon 4", "weaker"): {("8", "combined_gem", FOUR): (0.02, 0.1)},
    ("sweep, spreads 0.1 to 1, epsilon 4", "the best"): {(WIDE, "mgem", FOUR): (1.4, 0.9)},
    ("all 24 points", "mGEM behaves"): {
        (scenario, "random_stopping", epsilon): (0.9 * of["mgem"], of["mgem"])
        for scenario, of in AS_CLAIMED.items()
        for epsilon in EPSILONS
    },
    ("scenario 6, epsilon 16", "kRR"): {("6", "k_randomised_response", SIXTEEN): (2.0, 0.2)},
}  # fmt: skip
"""By a claim: points with means that show its opposite, and that leave it open."""


def judge(n: int, other: dict[Point, float] | None = None) -> tuple[list[tuple[str, str]], int]:
    """Return what is outside, and how many claims are judged."""
    verdicts, _ = judged(claims_of(*planted(n, other)))
    return [(v.what, str(v.printed)) for v in verdicts if not v.inside], len(verdicts)


@pytest.mark.parametrize("n", [MANY, FEW])
def test_claims_that_hold_are_inside_in_a_full_run_and_in_a_quick_one(n: int) -> None:
    assert judge(n) == ([], N_CLAIMS)


@pytest.mark.parametrize("n", [MANY, FEW])
@pytest.mark.parametrize("claim", CASES)
def test_a_claim_whose_opposite_is_shown_is_outside_and_no_other(
    claim: tuple[str, str], n: int
) -> None:
    outside, n_judged = judge(n, {point: means[0] for point, means in CASES[claim].items()})
    assert n_judged == N_CLAIMS and len(outside) == 1, outside
    assert all(told.startswith(start) for told, start in zip(outside[0], claim, strict=True))


@pytest.mark.parametrize("claim", CASES)
def test_a_claim_that_is_open_is_outside_in_a_full_run_and_not_judged_in_a_quick_one(
    claim: tuple[str, str],
) -> None:
    same = {point: means[1] for point, means in CASES[claim].items()}
    outside, n_judged = judge(MANY, same)
    assert n_judged == N_CLAIMS and len(outside) == 1, outside
    assert all(told.startswith(start) for told, start in zip(outside[0], claim, strict=True))
    assert judge(FEW, same) == ([], N_CLAIMS - 1)


def test_scenario_3_is_judged_at_its_own_ratio_alone() -> None:
    others = {(f"3, {robust:g}", "rnm", FOUR): 0.9 for robust in RATIOS if robust != 0.5}
    assert judge(MANY, others) == ([], N_CLAIMS)
    own = {("3, 0.5", "rnm", FOUR): 0.9}
    assert [where for where, _ in judge(MANY, own)[0]] == ["scenario 3, epsilon 4"]


def test_one_point_of_all_does_not_tell_mgem_and_random_stopping_apart() -> None:
    """By chance alone one of the 24 points differs in a quarter of such tables."""
    alike = {point: means[1] for point, means in CASES["all 24 points", "mGEM behaves"].items()}
    one = alike | {("7", "random_stopping", ONE): 0.9}
    assert judge(FEW, one) == ([], N_CLAIMS - 1)
    assert len(judge(MANY, one)[0]) == 1


def test_no_claim_holds_whatever_the_errors_are() -> None:
    """Each is outside where all mechanisms err alike."""
    alike = dict.fromkeys((*planted(2)[0], *planted(2)[1]), 0.5)
    outside, n_judged = judge(MANY, alike)
    assert len(outside) == n_judged == N_CLAIMS
    assert judge(FEW, alike) == ([], 0)


def test_what_is_not_judged_is_counted_in_words() -> None:
    def claim(*signs: int, enough: bool = False) -> Claim:
        of = {f"pair {i}": sign for i, sign in enumerate(signs)}
        return Claim("where", "text", "seen", of, enough, "9", "Because")

    claims = [claim(1, 1), claim(1, 0), claim(0, -1), claim(1, 0, enough=True)]
    verdicts, told = judged(claims)
    assert [verdict.inside for verdict in verdicts] == [True, False, False]
    assert verdicts[0].why == "" and verdicts[2].why == "pair 1: not told apart. Because"
    assert verdicts[1].why == "pair 0: not told apart; pair 1: the other way round. Because"
    assert told.startswith("1 of 4 claims are not judged") and told in note_on(told)
    assert judged(claims[:1])[1] == "" and "not judged" not in note_on("")


def test_what_is_told_is_told_at_the_level_of_all_verdicts() -> None:
    assert scipy.stats.norm.cdf(Z_99) - scipy.stats.norm.cdf(-Z_99) == pytest.approx(LEVEL)
    rng = np.random.default_rng(1)
    signs = [sign_of(gap, 1) for gap in rng.standard_normal(20_000)]
    assert 0.005 < np.mean(np.abs(signs)) < 0.016
    few, many = errors_of(1, 50), errors_of(1.1, 50)
    assert (compared(few, many), compared(many, few), compared(few, few)) == (1, -1, 0)


def test_the_keys_hold_beta_where_a_mechanism_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def key(name: str) -> tuple[str, ...]:
        return Wanted(scenarios.BIMODAL[0], name, ONE, 1).key

    assert key("gem")[-1] == "beta 1/20" and "beta 1/20" not in key("rnm")
    before = {name: key(name) for name in choices.CHOICES}
    monkeypatch.setattr(choices, "BETA", Fraction(1, 7))
    changed = {name for name in choices.CHOICES if key(name) != before[name]}
    assert changed == {"gem", "mgem", "combined_gem"}


def test_quantiles_are_searched_for_on_use_and_not_on_import(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forbidden(*_: object, **__: object) -> float:
        raise AssertionError("searched")

    monkeypatch.setattr(scipy.optimize, "brentq", forbidden)
    found = runpy.run_path(str(scenarios.__file__), run_name="scenarios_again")
    with pytest.raises(AssertionError, match="searched"):
        found["POLARISED"][0].draw()


def test_nine_people_in_ten_score_below_the_larger_end_of_a_range() -> None:
    bases = np.linspace(0, 1, scenarios.N_CANDIDATES)
    ends = scenarios.half_widths_of(0.4)
    below = (scipy.stats.norm.cdf(ends, bases, 0.4) + scipy.stats.norm.cdf(ends, -bases, 0.4)) / 2
    assert below == pytest.approx(0.9)
    scores, sensitivities = scenarios.polarised(0.4, 1)
    assert all(2 * abs(score) <= width for score, width in zip(scores, sensitivities, strict=True))
