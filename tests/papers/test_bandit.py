"""The bandit of the selection paper: claims, running sums, quantiles, and what each policy spends."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from dp_sql.udfs.exact_sampling import secret_draws
from examples.papers import bandit
from examples.papers.selecting import choices, policies, tree_sum
from examples.papers.selecting.comparing import judged
from examples.papers.selecting.tree_sum import HybridSum

pytestmark = pytest.mark.thorough

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
