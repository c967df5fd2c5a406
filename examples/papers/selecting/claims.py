"""What the selection paper claims, next to our trials. Knows errors; never mechanisms.

Next to no printed number of the paper survives in the text that we have, so its sentences are
judged. That one mechanism errs less than another holds where the difference of their mean squared
errors has that sign and exceeds its 99 % sampling error. Fewer than _ENOUGH trials, those of a
quick run, may not decide: then a claim is judged only where they do, either way.
"""

import math
from collections.abc import Sequence
from fractions import Fraction

from examples.papers.frame.report import shown
from examples.papers.frame.verdicts import LEVEL
from examples.papers.selecting.comparing import Z_99, Claim, in_words, sign_of
from examples.papers.selecting.errors import Errors, Floats, compared, mean_of, ratio_of
from examples.papers.selecting.scenarios import ROBUST, SWEEPS, scenario_3, sweep_at
from examples.papers.selecting.sweep import EPSILONS as SWEEP_AT
from examples.papers.selecting.sweep import Measured, best

RATIOS = (0.1, 0.25, ROBUST, 0.75)
"""Small sensitivities that scenario 3 is tried with, the large one being 1; its own is ROBUST."""
RATIO_AT = Fraction(4)
_ENOUGH = 100
"""Trials from which on two errors ought to be told apart."""
_ONE, _FOUR = Fraction(1), Fraction(4)


def claims_of(errors: Errors, swept: Errors, measured: Measured) -> list[Claim]:
    """Compare what all claims speak of."""
    return [
        *_orders(errors),
        *_worse_than_random(errors),
        *_scenario_3(errors),
        *_polarised(errors),
        *(_sweep(swept, measured, width, e) for width in SWEEPS for e in SWEEP_AT),
        _mgem_and_stopping(errors),
        _order(
            errors,
            ("6", Fraction(16)),
            "kRR does well when epsilon is large",
            [("k_randomised_response", name) for name in ("rnm", "gem", "mgem")],
        ),
    ]


def _order(
    errors: Errors, at: tuple[str, Fraction], text: str, pairs: Sequence[tuple[str, str]]
) -> Claim:
    """Compare the first mechanism of each pair, which is said to err less, with the second.

    Args:
        errors: of all trials.
        at: the scenario and the epsilon.
        text: the claim, in the paper's sense.
        pairs: names of mechanisms.
    """
    scenario, epsilon = at
    names = list(dict.fromkeys(name for pair in pairs for name in pair))
    found = {name: errors[scenario, name, epsilon] for name in names}
    signs = {
        f"{first} and {second}": compared(found[first], found[second]) for first, second in pairs
    }
    where = f"scenario {scenario}, epsilon {epsilon}"
    return Claim(where, text, _told(found), signs, *_sizes(*found.values()))


def _sizes(*found: Floats) -> tuple[bool, str]:
    """Tell whether there are enough trials, and how many there are."""
    sizes = sorted({len(squares) for squares in found}, reverse=True)
    return sizes[-1] >= _ENOUGH, " and ".join(map(str, sizes)) + " / not printed"


def _told(found: dict[str, Floats]) -> str:
    """List mean squared errors with their standard errors."""
    means = {name: mean_of(squares) for name, squares in found.items()}
    return ", ".join(
        f"{name} {shown(mean)} ± {shown(round(error, 4))}" for name, (mean, error) in means.items()
    )


def _orders(errors: Errors) -> list[Claim]:
    """Compare who errs less than whom in scenarios 1, 2, 4, 5 and 6."""
    positive = [("mgem", "rnm"), ("random_stopping", "rnm"), ("rnm", "gem")]
    negative = [("gem", "rnm"), ("rnm", "mgem"), ("rnm", "random_stopping")]
    none = [("gem", "rnm"), ("gem", "mgem"), ("gem", "random_stopping")]
    best_positive = "positive correlation: mGEM and RS do best, then RNM, then GEM"
    best_negative = "negative correlation: GEM does best, then RNM, then mGEM and RS"
    return [
        _order(errors, (scenario, epsilon), text, pairs)
        for scenario, text, pairs in (
            ("1", best_positive, positive),
            ("2", best_negative, negative),
            ("4", best_positive, positive),
            ("5", best_negative, negative),
            ("6", "no correlation: GEM does well, mGEM and RS do not", none),
        )
        for epsilon in (_ONE, _FOUR)
    ]


def _worse_than_random(errors: Errors) -> list[Claim]:
    text = "at small epsilon the wrong mechanism is worse than a random choice"
    return [
        _order(errors, (scenario, _ONE), text, [("random", name) for name in wrong])
        for scenario, wrong in (("1", ["gem"]), ("2", ["mgem", "random_stopping"]))
    ]


def _scenario_3(errors: Errors) -> list[Claim]:
    """Compare where there is no correlation."""
    claims = [
        _order(
            errors,
            ("3", _FOUR),
            f"no correlation: {name.upper()} outperforms mGEM and RS",
            [(name, "mgem"), (name, "random_stopping")],
        )
        for name in ("gem", "rnm")
    ]
    return [*claims, _rnm_and_gem(errors)]


def _rnm_and_gem(errors: Errors) -> Claim:
    """Compare RNM and GEM at the scenario's own ratio of sensitivities, and report the others."""
    found = {
        robust: {name: errors[scenario_3(robust).name, name, RATIO_AT] for name in ("rnm", "gem")}
        for robust in RATIOS
    }
    signs = {robust: compared(of["rnm"], of["gem"]) for robust, of in found.items()}
    others = "; ".join(
        f"{robust:g}: {_told(found[robust])}" + f" ({in_words(sign)})" * (sign <= 0)
        for robust, sign in signs.items()
        if robust != ROBUST
    )
    return Claim(
        f"scenario 3, epsilon {RATIO_AT}",
        "no correlation: RNM outperforms GEM slightly (how slightly is not judged)",
        f"{_told(found[ROBUST])}. Not judged, with other small sensitivities, {others}",
        {"rnm and gem": signs[ROBUST]},
        *_sizes(*found[ROBUST].values()),
        "the ratio of the two sensitivities, which is lost, decides",
    )


def _polarised(errors: Errors) -> list[Claim]:
    """Compare combined GEM with the others where data sets are of two kinds."""
    others = ("gem", "mgem", "rnm", "random")
    pairs = [("combined_gem", name) for name in others]
    text = "two groups: combined GEM beats GEM, mGEM, RNM and random"
    claims = [_order(errors, ("7", epsilon), text, pairs) for epsilon in (_FOUR, Fraction(16))]
    (strong, strong_error), (weak, weak_error) = (
        _gain(errors, scenario, others) for scenario in ("7", "8")
    )
    gains = Claim(
        "scenarios 7 and 8, epsilon 4",
        "weaker correlations: a private choice between GEM and mGEM gains less",
        f"the least error of the others over combined GEM's: {strong:.2f} ± {strong_error:.2f} in "
        f"scenario 7, {weak:.2f} ± {weak_error:.2f} in 8",
        {"the gains in 7 and 8": sign_of(strong - weak, math.hypot(strong_error, weak_error))},
        *_sizes(errors["7", "gem", _FOUR], errors["8", "gem", _FOUR]),
    )
    return [*claims, gains]


def _gain(errors: Errors, scenario: str, others: Sequence[str]) -> tuple[float, float]:
    """Return the least error of the others over combined GEM's, and its standard error."""
    combined = errors[scenario, "combined_gem", _FOUR]
    return min(ratio_of(errors[scenario, name, _FOUR], combined) for name in others)


def _sweep(errors: Errors, measured: Measured, width: str, epsilon: Fraction) -> Claim:
    """Compare the best heterogeneous mechanism's gain at both ends with that in the middle."""
    found = {
        strength: best(errors, width, strength, epsilon)
        for of_width, strength in measured
        if of_width == width
    }
    told = ", ".join(
        f"{measured[width, strength]:.2f}: {name} {ratio:.2f} ± {error:.2f}"
        for strength, (ratio, error, name) in found.items()
    )
    middle, middle_error, at_middle = found[0.0]
    signs = {
        f"the gains at {measured[width, strength]:.2f} and 0": sign_of(
            middle - found[strength][0], math.hypot(found[strength][1], middle_error)
        )
        for strength in (min(found), max(found))
    }
    least = max(found, key=lambda strength: found[strength][0])
    low, high = SWEEPS[width]
    names = {"rnm"} | {name for *_, name in found.values()}
    tried = [errors[sweep_at(s, width).name, name, epsilon] for s in found for name in names]
    return Claim(
        f"sweep, spreads {low:g} to {high:g}, epsilon {epsilon}",
        "the best heterogeneous mechanism's gain over RNM grows with the correlation's strength: "
        "it is greater at both ends than at 0",
        f"error over RNM's, by Spearman's correlation: {told}",
        signs,
        *_sizes(*tried),
        f"the least gain is at {measured[width, least]:.2f}, where {found[least][2]} has "
        f"{found[least][0]:.2f} of RNM's error; {at_middle} has {middle:.2f} of it at 0",
    )


def _mgem_and_stopping(errors: Errors) -> Claim:
    """Count the points at which one of the two errs less, beyond sampling error.

    Were the two alike, each point would favour one of them by chance as often as LEVEL allows.
    """
    keys = [(s, epsilon) for s, name, epsilon in errors if name == "random_stopping"]
    pairs = [(errors[s, "mgem", e], errors[s, "random_stopping", e]) for s, e in keys]
    signs = [compared(mgem, stopping) for mgem, stopping in pairs]
    chance = math.sqrt((1 - LEVEL) * len(signs))
    return Claim(
        f"all {len(pairs)} points of scenarios 1 to 8",
        "mGEM behaves as RS does but typically outperforms it: it errs less at more points",
        f"mGEM errs less at {signs.count(1)}, RS at {signs.count(-1)}; the others are not decided "
        f"apart. Were the two alike, these numbers would differ by at most {Z_99 * chance:.1f}, "
        f"{100 * LEVEL:g} times in 100",
        {"mgem and random_stopping": sign_of(sum(signs), chance)},
        *_sizes(*pairs[0]),
        "the paper's gamma is lost; here it makes 10 tries per candidate",
    )
