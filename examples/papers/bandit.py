"""The bandit of the selection paper (section IX): private choices where rewards shift.

Two arms; halfway their rewards change places. The better arm is the one whose rewards vary more,
before and after. Which policy earns most? Needs no data. `python -m examples.papers.bandit`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from examples.papers.frame.command import Setting, command
from examples.papers.frame.figures import COLOURS, band, panels, save
from examples.papers.frame.report import write_table, write_verdicts
from examples.papers.frame.trials import Point
from examples.papers.frame.verdicts import Verdict
from examples.papers.selecting.choices import CHOICES
from examples.papers.selecting.errors import Z_99
from examples.papers.selecting.policies import (
    ACTION,
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
"""Steps of a run that are kept for the figures."""
_ENOUGH = 20
"""Runs from which on two policies ought to be told apart."""
_SETTING = (
    f"Rewards normal ({WORSE[0]:g}, sd {WORSE[1]:g} and {BETTER[0]:g}, sd {BETTER[1]:g}), clipped "
    f"to 0 to {SPAN // UNIT}; epsilon {ACTION} an action, {MEANS} for means, {QUANTILES} for "
    f"quantiles, windows of {WINDOW}"
)


@dataclass(frozen=True)
class Contestant:
    """A policy for the figures. `make` starts it afresh."""

    label: str
    colour: str
    style: str
    make: Callable[[], Policy]


CONTESTANTS = {
    "ucb": Contestant("UCB, c = 1", "grey", "--", partial(Ucb, 1.0)),
    "ucb_scaled": Contestant(
        f"UCB, c = {SPAN // UNIT} (span)", "grey", "-.", partial(Ucb, SPAN / UNIT)
    ),
    "thompson": Contestant("Thompson", "grey", ":", partial(Thompson, BETTER[1])),
} | {
    name: Contestant(CHOICES[name].label, CHOICES[name].colour, "-", partial(Private, name))
    for name in ("rnm", "gem", "mgem", "random_stopping", "k_randomised_response")
}
PRIVATE = tuple(name for name in CONTESTANTS if name in CHOICES)

Traces = dict[str, NDArray[np.float64]]
"""By policy: shape (runs, kept steps, 3): the cumulative reward and the two estimated means."""


def run(setting: Setting) -> None:
    """Play all policies, draw what they earn and what two of them believe."""
    n_steps = QUICK_STEPS if setting.quick else N_STEPS
    n_runs = QUICK_RUNS if setting.quick else N_RUNS
    points = [
        Point(
            ("bandit", _SETTING, contestant.label, n_steps),
            n_runs,
            partial(play, contestant.make, n_steps),
        )
        for name, contestant in CONTESTANTS.items()
    ]
    found = setting.trials("bandit").run("runs of the bandit", points)
    traces = {name: np.array(of_name) for name, of_name in zip(CONTESTANTS, found, strict=True)}
    steps = kept_steps(n_steps)
    note = f"{n_runs} runs a policy, no seed. {_SETTING}."
    _draw_rewards(
        setting, traces, steps, f"{n_runs} runs a policy, no seed: medians and quartiles."
    )
    _draw_means(setting, traces, steps, f"{n_runs} runs a policy, no seed: medians and quartiles.")
    _write(setting, traces, steps, note)
    write_verdicts(setting.out, "bandit", _verdicts(traces, steps))


def kept_steps(n_steps: int) -> list[int]:
    """Return the steps, from 1, that are kept: the last one and those evenly before it."""
    return list(range(n_steps // N_KEPT, n_steps + 1, n_steps // N_KEPT))


def play(make: Callable[[], Policy], n_steps: int) -> list[tuple[float, ...]]:
    """Play one run: at each kept step the cumulative reward and the estimated means."""
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


def _verdicts(traces: Traces, steps: Sequence[int]) -> list[Verdict]:
    """Judge the paper's claims on mean rewards a step."""
    after = {name: _halves(traces, name, steps)[:, 1] for name in CONTESTANTS}
    whole = {name: _halves(traces, name, steps).mean(axis=1) for name in CONTESTANTS}
    others = [name for name in PRIVATE if name != "mgem"]
    for_krr = (
        "kRR is given the quantiles' epsilon as well and takes the arm that it believes in 95 "
        "times in 100; at epsilon 2 it earns 24 a step, at 1 it earns 29"
    )
    why = "with c the span of rewards UCB goes on trying both arms and soon finds the better one"
    return [
        _above(
            "after the shift all private policies earn more than UCB",
            after,
            PRIVATE,
            ["ucb"],
            for_krr,
        ),
        _above("the same, of UCB with c the span", after, PRIVATE, ["ucb_scaled"], why),
        _above("after the shift mGEM earns most of the private ones", after, ["mgem"], others),
        _above("in all mGEM earns most of the private ones", whole, ["mgem"], others),
        _above("in all mGEM earns more than UCB", whole, ["mgem"], ["ucb"]),
    ]


def _above(
    claim: str,
    rewards: dict[str, NDArray[np.float64]],
    high: Sequence[str],
    low: Sequence[str],
    why: str = "",
) -> Verdict:
    """Judge that each of some policies earns more than each of others, beyond sampling error.

    Few runs cannot show that: then it fails only where the opposite is shown.
    """
    told = {
        name: (float(rewards[name].mean()), float(rewards[name].std() / len(rewards[name]) ** 0.5))
        for name in (*high, *low)
    }
    n_runs = len(rewards[high[0]])
    fails = []
    for first, second in ((first, second) for first in high for second in low):
        gap = told[first][0] - told[second][0]
        error = Z_99 * math.hypot(told[first][1], told[second][1])
        if gap < -error:
            fails.append(f"{first} earns less than {second}")
        elif gap <= error and n_runs >= _ENOUGH:
            fails.append(f"{first} and {second} are not told apart")
    return Verdict(
        "bandit, mean reward a step",
        claim,
        ", ".join(f"{name} {mean:.1f} ± {error:.1f}" for name, (mean, error) in told.items()),
        None,
        not fails,
        f"{n_runs} runs / not printed",
        ". ".join(filter(None, ("; ".join(fails), why))) if fails else "",
    )


if __name__ == "__main__":
    command({"bandit": run})
