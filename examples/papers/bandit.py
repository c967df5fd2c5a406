"""The bandit of the selection paper (section IX): private choices where rewards shift.

Two arms; halfway their rewards change places. The better arm is the one whose rewards vary more,
before and after. Which policy earns most? Needs no data. `python -m examples.papers.bandit`.

The losses of a private policy: epsilon = 1 about each action, and about each reward 4 by the
released means and 2 by the released quantiles, which make the sensitivities. kRR needs no
quantiles and has their epsilon for its actions, 3 each; it is also tried with 2 and 1. policies.py
explains why these are the losses. A simulation: it protects no one.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from examples.papers.frame.command import Setting, command
from examples.papers.frame.figures import COLOURS, band, panels, save
from examples.papers.frame.report import write_table, write_verdicts
from examples.papers.frame.trials import Point
from examples.papers.selecting.choices import CHOICES
from examples.papers.selecting.comparing import Claim, judged, note_on, sign_of
from examples.papers.selecting.policies import (
    ACTION,
    KRR_ACTION,
    MEANS,
    N_ARMS,
    QUANTILES,
    SPAN,
    UNIT,
    WINDOW,
    Policy,
    Private,
    Thompson,
    Ucb,
)

WORSE, BETTER = (20.0, 5.0), (50.0, 20.0)
"""Mean and standard deviation of the arms' rewards, before clipping; the second arm is the better
one in the first half."""
N_STEPS, QUICK_STEPS = 2000, 400
N_RUNS, QUICK_RUNS = 80, 6
N_KEPT = 100
"""Steps of a run that are stored for the figures."""
_ENOUGH = 20
"""Runs from which on two policies ought to be told apart."""
_SETTING = (
    f"Rewards normal ({WORSE[0]:g}, sd {WORSE[1]:g} and {BETTER[0]:g}, sd {BETTER[1]:g}), clipped "
    f"to 0 to {SPAN // UNIT}; epsilon {ACTION} an action, {MEANS} for means, {QUANTILES} for "
    f"quantiles, windows of {WINDOW}"
)
"""Part of the keys."""
_LOSSES = (
    f"Private policies spend epsilon = {ACTION} an action (kRR {KRR_ACTION}, if not another number "
    f"is said), and about each reward {MEANS} for the means and {QUANTILES} for the quantiles"
)
_Dashes = str | tuple[int, tuple[float, ...]]


@dataclass(frozen=True)
class Contestant:
    """A policy for the figures. `make` starts it afresh; `parameters` are for the keys."""

    label: str
    colour: str
    style: _Dashes
    make: Callable[[], Policy]
    parameters: tuple[str, ...] = ()


CONTESTANTS = {
    "ucb": Contestant("UCB, c = 1", "grey", (0, (6, 2)), partial(Ucb, 1.0)),
    "ucb_scaled": Contestant(
        f"UCB, c = {SPAN // UNIT} (span)", "grey", (0, (1, 1.2)), partial(Ucb, SPAN / UNIT)
    ),
    "thompson": Contestant("Thompson", "ochre", (0, (5, 1, 1, 1)), partial(Thompson, BETTER[1])),
}
CONTESTANTS |= {
    name: Contestant(
        CHOICES[name].label,
        CHOICES[name].colour,
        "-",
        partial(Private, name),
        CHOICES[name].parameters,
    )
    for name in ("rnm", "gem", "mgem", "random_stopping", "k_randomised_response")
}
PRIVATE = tuple(name for name in CONTESTANTS if name in CHOICES)
"""Whom the paper speaks of."""
LESS_KRR = {"krr_2": Fraction(2), "krr_1": Fraction(1)}
"""kRR with less epsilon an action."""
CONTESTANTS |= {
    name: Contestant(
        f"kRR, epsilon {epsilon}",
        "teal",
        dashes,
        partial(Private, "k_randomised_response", epsilon),
    )
    for (name, epsilon), dashes in zip(LESS_KRR.items(), ((0, (6, 2)), (0, (1, 1.2))), strict=True)
}

Traces = dict[str, NDArray[np.float64]]
"""By policy: shape (runs, stored steps, 3): the cumulative reward and the two estimated means."""


def run(setting: Setting) -> None:
    """Play all policies, draw what they earn and what two of them believe."""
    n_steps = QUICK_STEPS if setting.quick else N_STEPS
    n_runs = QUICK_RUNS if setting.quick else N_RUNS
    points = [
        Point(
            ("bandit", _SETTING, contestant.label, n_steps, *contestant.parameters),
            n_runs,
            partial(play, contestant.make, n_steps),
        )
        for contestant in CONTESTANTS.values()
    ]
    found = setting.trials("bandit").run("runs of the bandit", points)
    traces = {name: np.array(of_name) for name, of_name in zip(CONTESTANTS, found, strict=True)}
    steps = kept_steps(n_steps)
    told = f"{n_runs} runs a policy, no seed"
    below = f"{told}: medians and quartiles.\n" + _LOSSES.replace(", and", ",\nand") + "."
    _draw_rewards(setting, traces, steps, below)
    _draw_means(setting, traces, steps, below)
    _write(setting, traces, steps, f"{told}. {_SETTING}. {_LOSSES}.")
    verdicts, left_out = judged(claims_of(traces, steps))
    write_verdicts(setting.out, "bandit", verdicts, note=f"{note_on(left_out)} {_LOSSES}.")
    if left_out:
        setting.note(f"bandit: {left_out}")


def kept_steps(n_steps: int) -> list[int]:
    """Return the steps, from 1, that are stored: the last one and those evenly before it."""
    return list(range(n_steps // N_KEPT, n_steps + 1, n_steps // N_KEPT))


def play(make: Callable[[], Policy], n_steps: int) -> list[tuple[float, ...]]:
    """Play one run: at each stored step the cumulative reward and the estimated means."""
    policy, rewards = make(), _rewards(n_steps)
    kept, total, trace = set(kept_steps(n_steps)), 0, []
    for step in range(1, n_steps + 1):
        arm = policy.choose(step)
        reward = rewards[step - 1][arm]
        policy.learn(arm, reward)
        total += reward
        if step in kept:
            trace.append((total / UNIT, *policy.means()))
    return trace


def _rewards(n_steps: int) -> list[list[int]]:
    """Draw what each arm would give at each step, in thousandths, shape (steps, arms)."""
    rng, half = np.random.default_rng(), n_steps // 2
    drawn = np.empty((n_steps, N_ARMS))
    for arm, (before, after) in enumerate(((WORSE, BETTER), (BETTER, WORSE))):
        drawn[:half, arm] = rng.normal(*before, half)
        drawn[half:, arm] = rng.normal(*after, n_steps - half)
    clipped: list[list[int]] = np.clip(np.rint(UNIT * drawn), 0, SPAN).astype(int).tolist()
    return clipped


def _draw_rewards(setting: Setting, traces: Traces, steps: Sequence[int], note: str) -> None:
    """Draw cumulative rewards, less what a random choice would have earned on average."""
    figure, axes = panels(1, 2, height=4.2)
    fair = (WORSE[0] + BETTER[0]) / 2 * np.array(steps)
    for at, less in zip(axes[0], (0 * fair, fair), strict=True):
        for name, contestant in CONTESTANTS.items():
            earned = (traces[name][:, :, 0] - less).T.tolist()
            band(at, steps, earned, contestant.label, contestant.colour)
            at.lines[-1].set_linestyle(contestant.style)
        at.axvline(steps[-1] / 2, color=COLOURS["grey"], linewidth=0.8)
        at.set_xlabel("step (grey line: the shift)")
    axes[0, 0].set_ylabel("cumulative reward")
    axes[0, 1].set_ylabel("the same, less a random choice's")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4)
    save(figure, setting.out, "bandit_rewards", note)


def _draw_means(setting: Setting, traces: Traces, steps: Sequence[int], note: str) -> None:
    """Draw what policies believe of the arms."""
    shown = ("ucb", "rnm", "gem", "mgem")
    figure, axes = panels(2, 2, height=2.5)
    half = steps[-1] / 2
    for at, name in zip(axes.flat, shown, strict=True):
        for arm, colour in enumerate(("violet", "ochre")):
            band(at, steps, traces[name][:, :, 1 + arm].T.tolist(), f"arm {arm}, estimated", colour)
            before, after = (WORSE, BETTER) if arm == 0 else (BETTER, WORSE)
            truth = [before[0], before[0], after[0], after[0]]
            at.plot(
                [0, half, half, steps[-1]],
                truth,
                ":",
                color=COLOURS[colour],
                linewidth=1,
                label=f"arm {arm}, true",
            )
        at.set(title=CONTESTANTS[name].label, xlabel="step", ylim=(0, 70))
    for at in axes[:, 0]:
        at.set_ylabel("mean reward of an arm")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4)
    save(figure, setting.out, "bandit_means", note)


def _halves(traces: Traces, name: str, steps: Sequence[int]) -> NDArray[np.float64]:
    """Return the mean reward a step of each run in both halves, shape (runs, 2)."""
    half = len(steps) // 2
    first, last = traces[name][:, half - 1, 0], traces[name][:, -1, 0]
    return np.stack([first, last - first], axis=1) / (steps[-1] / 2)


def _write(setting: Setting, traces: Traces, steps: Sequence[int], note: str) -> None:
    rows = []
    for name, contestant in CONTESTANTS.items():
        halves = _halves(traces, name, steps)
        errors = halves.std(axis=0) / np.sqrt(len(halves))
        rows.append((contestant.label, *halves.mean(axis=0), halves.mean(), *errors))
    columns = ("policy", "first half", "second half", "all", "error, first", "error, second")
    what = "Mean reward a step and its standard error."
    write_table(setting.out, "bandit_rewards", columns, rows, f"{what} {note}")


def claims_of(traces: Traces, steps: Sequence[int]) -> list[Claim]:
    """Compare mean rewards a step, as the paper's claims do."""
    after = {name: _halves(traces, name, steps)[:, 1] for name in CONTESTANTS}
    whole = {name: _halves(traces, name, steps).mean(axis=1) for name in CONTESTANTS}
    others = [name for name in PRIVATE if name != "mgem"]
    all_private = "after the shift all private policies earn more than UCB"
    mgem_first = "mGEM earns most of the private ones"
    why = "with c the span of rewards UCB goes on trying both arms and soon finds the better one"
    return [
        _above(all_private, after, PRIVATE, ["ucb"], _of_krr(after)),
        _above(f"{all_private} whose c is the span", after, PRIVATE, ["ucb_scaled"], why),
        _above(f"after the shift {mgem_first}", after, ["mgem"], others),
        _above(f"in all {mgem_first}", whole, ["mgem"], others),
        _above("in all mGEM earns more than UCB", whole, ["mgem"], ["ucb"]),
    ]


def _of_krr(after: dict[str, NDArray[np.float64]]) -> str:
    """Say what kRR's epsilon makes of it."""
    share = 1 / (1 + (N_ARMS - 1) * math.exp(-KRR_ACTION))
    less = ", ".join(
        f"with epsilon {epsilon} it earns {_told(after[name])}"
        for name, epsilon in LESS_KRR.items()
    )
    return (
        f"kRR is given the quantiles' epsilon as well, {KRR_ACTION} in all, and takes the arm that "
        f"it believes in {100 * share:.0f} times in 100; {less}"
    )


def _told(rewards: NDArray[np.float64]) -> str:
    """Write a mean and its standard error."""
    return "{:.1f} ± {:.1f}".format(*_mean_of(rewards))


def _mean_of(rewards: NDArray[np.float64]) -> tuple[float, float]:
    return float(rewards.mean()), float(rewards.std() / math.sqrt(len(rewards)))


def _above(
    text: str,
    rewards: dict[str, NDArray[np.float64]],
    high: Sequence[str],
    low: Sequence[str],
    why: str = "",
) -> Claim:
    """Compare each of some policies, which are said to earn more, with each of others."""
    signs = {}
    for first, second in ((first, second) for first in high for second in low):
        (mean, error), (other, other_error) = _mean_of(rewards[first]), _mean_of(rewards[second])
        signs[f"{first} and {second}"] = sign_of(mean - other, math.hypot(error, other_error))
    n_runs = len(rewards[high[0]])
    return Claim(
        "bandit, mean reward a step",
        text,
        ", ".join(f"{name} {_told(rewards[name])}" for name in (*high, *low)),
        signs,
        n_runs >= _ENOUGH,
        f"{n_runs} runs / not printed",
        why,
    )


if __name__ == "__main__":
    command({"bandit": run})
