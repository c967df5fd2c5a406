"""The scripts of the selection paper: claims on planted data, the private sums and quantiles."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import scipy
from numpy.typing import NDArray

from dp_sql.udfs.exact_sampling import secret_draws
from examples.papers import bandit
from examples.papers.frame.verdicts import LEVEL
from examples.papers.selecting import choices, policies, scenarios, tree_sum
from examples.papers.selecting.claims import RATIO_AT, RATIOS, claims_of
from examples.papers.selecting.comparing import Z_99, Claim, judged, note_on, sign_of
from examples.papers.selecting.errors import Errors, Wanted, compared
from examples.papers.selecting.sweep import STRENGTHS, Measured
from examples.papers.selecting.tree_sum import HybridSum

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


REWARDS = {
    "ucb": (40, 20), "ucb_scaled": (40, 21), "thompson": (40, 30), "rnm": (30, 30),
    "gem": (30, 31), "mgem": (40, 40), "random_stopping": (35, 35),
    "k_randomised_response": (35, 25), "krr_2": (35, 26), "krr_1": (35, 27),
}  # fmt: skip
"""Mean rewards of both halves with which every claim holds."""
BANDIT_CASES = {
    "after the shift all private policies earn more than UCB": {
        "rnm": (60, 10),
        "ucb_scaled": (9, 5),
    },
    "after the shift all private policies earn more than UCB whose": {"ucb_scaled": (9, 50)},
    "after the shift mGEM": {"random_stopping": (20, 45)},
    "in all mGEM earns most": {"gem": (60, 35)},
    "in all mGEM earns more": {"ucb": (70, 20)},
}


def judge_bandit(n: int, other: dict[str, tuple[float, float]]) -> tuple[list[str], int, list[str]]:
    """Return the claims that are outside, how many are judged, and the reasons."""
    spread = np.resize([0.5, -0.5], n)
    traces = {
        name: np.stack([first + spread, first + second + 2 * spread], axis=1)[:, :, None]
        for name, (first, second) in (REWARDS | other).items()
    }
    verdicts, _ = judged(bandit.claims_of(traces, [1, 2]))
    outside = [verdict for verdict in verdicts if not verdict.inside]
    return [str(v.printed) for v in outside], len(verdicts), [v.why for v in outside]


@pytest.mark.parametrize("n", [80, 6])
def test_claims_on_the_bandit_that_hold_are_inside(n: int) -> None:
    assert judge_bandit(n, {}) == ([], 5, [])


@pytest.mark.parametrize("n", [80, 6])
@pytest.mark.parametrize("claim", BANDIT_CASES)
def test_a_claim_on_the_bandit_whose_opposite_is_shown_is_outside(claim: str, n: int) -> None:
    outside, n_judged, _ = judge_bandit(n, BANDIT_CASES[claim])
    assert n_judged == 5 and len(outside) == 1 and outside[0].startswith(claim), outside


def test_few_runs_of_alike_policies_judge_nothing_and_many_are_outside() -> None:
    alike = dict.fromkeys(REWARDS, (30, 30))
    assert judge_bandit(6, alike) == ([], 0, []) and len(judge_bandit(80, alike)[0]) == 5


def test_what_krr_earns_with_less_epsilon_is_computed() -> None:
    *_, (why, _) = judge_bandit(80, {"k_randomised_response": (35, 10), "krr_1": (35, 17.25)})
    assert "95 times in 100" in why
    assert "epsilon 2 it earns 26.0 ± 0.1, with epsilon 1 it earns 17.2 ± 0.1" in why
    assert policies.KRR_ACTION == policies.ACTION + policies.QUANTILES == 3


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


def test_running_sums_are_exact_where_epsilon_is_huge() -> None:
    rewards = np.random.default_rng().integers(0, 101, 200).tolist()
    private = HybridSum(100, Fraction(10**6), secret_draws())
    assert [private.add(reward) for reward in rewards] == np.cumsum(rewards).tolist()


N_VALUES = 127
_DIGIT, _NOISE = 16, 16**200
"""A value stands for itself in one hexadecimal digit, and a draw of noise far above all values."""


def nodes_of(
    epsilon: Fraction, span: int, patch: pytest.MonkeyPatch
) -> list[tuple[dict[int, int], Fraction]]:
    """Find what each noisy sum is of, from what is released alone.

    Value j is 16**j and the i-th noise is _NOISE**i, so a released number shows whose noise is in
    it, and how often. Without those of other noisy sums, what is left is the newest one's.

    Returns:
        For each noisy sum how often it holds which value, and the rate of its noise.
    """
    rates: list[Fraction] = []

    def noise(rate: Fraction, _: object) -> int:
        rates.append(rate)
        return _NOISE ** len(rates)

    patch.setattr(tree_sum, "discrete_laplace", noise)
    private, sums = HybridSum(span, epsilon, secret_draws()), []
    for j in range(N_VALUES):
        left = private.add(_DIGIT**j)
        assert len(rates) == j + 1
        held, left = digits(left // _NOISE, _NOISE), left % _NOISE
        assert set(held.values()) == {1} and max(held) == j
        sums.append(left - sum(sums[i] for i in held if i < j))
        assert sums[-1] > 0
    return [(digits(one, _DIGIT), rate) for one, rate in zip(sums, rates, strict=True)]


def digits(number: int, base: int) -> dict[int, int]:
    """Return the digits that are not 0, by their places."""
    found, place = {}, 0
    while number:
        number, digit = divmod(number, base)
        if digit:
            found[place] = digit
        place += 1
    return found


@pytest.mark.parametrize(("epsilon", "span"), [(Fraction(4), 100_000), (Fraction(1, 3), 7)])
def test_the_noisy_sums_that_hold_one_value_spend_at_most_epsilon(
    epsilon: Fraction, span: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value that moves by the span moves a sum that holds it once by that, at its own rate.

    In a block of 2**k values at most k noisy sums within it hold a value, and the block's own.
    """
    nodes = nodes_of(epsilon, span, monkeypatch)
    losses = []
    for value in range(N_VALUES):
        holding = [(held[value], rate) for held, rate in nodes if value in held]
        level = (value + 1).bit_length() - 1
        assert 1 <= len(holding) <= level + 1
        assert all(times == 1 for times, _ in holding)
        losses.append(sum(times * rate * span for times, rate in holding))
    assert max(losses) == epsilon
    assert min(losses) >= epsilon / 2


def exact_quantile(rewards: list[int], percent: int) -> set[int]:
    """The values of the grid whose rank is nearest."""
    grid = range(0, policies.SPAN + 1, policies.SPAN // 50)
    off = {v: abs(100 * sum(r <= v for r in rewards) - percent * len(rewards)) for v in grid}
    return {value for value, distance in off.items() if distance == min(off.values())}


@pytest.mark.parametrize("percent", [10, 90])
def test_a_quantile_is_the_nearest_where_epsilon_is_huge(percent: int) -> None:
    rewards = np.random.default_rng().integers(0, policies.SPAN + 1, policies.WINDOW).tolist()
    found = policies.quantile(rewards, percent, Fraction(10**4))
    assert found in exact_quantile(rewards, percent)


def test_one_reward_moves_a_quantiles_scores_by_one_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[list[Fraction], list[int], Fraction]] = []

    class Spy:
        @staticmethod
        def run(scores: list[Fraction], sensitivities: list[int], epsilon: Fraction) -> int:
            seen.append((scores, sensitivities, epsilon))
            return 0

    monkeypatch.setattr(policies, "REGISTRY", {"select": {"exponential": Spy}})
    rng = np.random.default_rng()
    for _ in range(20):
        rewards = rng.integers(0, policies.SPAN + 1, policies.WINDOW).tolist()
        other = [*rewards[:-1], int(rng.integers(0, policies.SPAN + 1))]
        for these in (rewards, other):
            policies.quantile(these, 10, Fraction(1))
        (scores, sizes, epsilon), (moved, *_) = seen[-2:]
        assert set(sizes) == {1} and epsilon == 1
        assert max(abs(a - b) for a, b in zip(scores, moved, strict=True)) <= 1


def policy_epsilons(
    policy: Callable[[], policies.Private], patch: pytest.MonkeyPatch
) -> set[Fraction]:
    """Record the epsilon of a policy's choices."""
    seen = set()

    def of(_: object, scores: list[int], sensitivities: list[int], epsilon: Fraction) -> int:
        seen.add(epsilon)
        return 0

    patch.setattr(choices.Choice, "of", of)
    player = policy()
    for step in range(1, 30):
        player.learn(player.choose(step), 50 * policies.UNIT)
    return seen


def test_each_policy_spends_the_epsilon_of_an_action_that_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "k_randomised_response"
    for policy, epsilon in (
        (lambda: policies.Private("mgem"), 1),
        (lambda: policies.Private(name), 3),
        (lambda: policies.Private(name, Fraction(2)), 2),
    ):
        assert policy_epsilons(policy, monkeypatch) == {epsilon}


def test_all_losses_are_told() -> None:
    """The docstring's numbers are those that the policies spend."""
    assert (policies.ACTION, policies.MEANS, policies.QUANTILES) == (1, 4, 2)
    told = " ".join(str(bandit.__doc__).split())
    assert "epsilon = 1 about each action, and about each reward 4 by the released means" in told
    assert "2 by the released quantiles" in told
