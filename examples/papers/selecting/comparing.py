"""Is one mean larger than another, and does a claim hold? Knows means and errors, not of what.

A difference is significant if it exceeds its 99 % sampling error. A claim is inside where every
difference that it speaks of is significant and has the claimed sign. Where one has the other, or
enough trials do not show it, it is outside; too few trials that show nothing judge nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from examples.papers.frame.verdicts import LEVEL, Verdict

Z_99 = NormalDist().inv_cdf((1 + LEVEL) / 2)
"""A standard normal variable is closer to 0 with probability LEVEL."""
_IN_WORDS = {-1: "the other way round", 0: "not told apart"}


@dataclass(frozen=True)
class Claim:
    """A claim in words, and what is seen.

    where: of the paper.
    text: the claim, in the paper's sense.
    seen: the numbers.
    signs: by what is compared: 1 as claimed, -1 the other way round, 0 cannot be decided.
    enough: whether there are so many trials that what cannot be told speaks against the claim.
    trials: how many, ours and the paper's own.
    why: where it is outside: the reason, if one is known.
    """

    where: str
    text: str
    seen: str
    signs: Mapping[str, int]
    enough: bool
    trials: str
    why: str = ""

    def verdict(self) -> Verdict | None:
        """Judge it; None if too few trials show nothing."""
        holds = all(sign > 0 for sign in self.signs.values())
        if not (holds or self.enough or min(self.signs.values()) < 0):
            return None
        fails = [f"{what}: {_IN_WORDS[sign]}" for what, sign in self.signs.items() if sign <= 0]
        why = ". ".join(filter(None, ("; ".join(fails), self.why))) if fails else ""
        return Verdict(self.where, self.text, self.seen, None, holds, self.trials, why)


def sign_of(gap: float, error: float) -> int:
    """Return the sign of a gap, 0 where it is within 99 % of its sampling error.

    >>> sign_of(3, 1), sign_of(-3, 1), sign_of(2, 1), sign_of(0, 0)
    (1, -1, 0, 0)
    """
    return 0 if abs(gap) <= Z_99 * error else 1 if gap > 0 else -1


def in_words(sign: int) -> str:
    """Say what is wrong with a sign; nothing where it is the claimed one."""
    return _IN_WORDS.get(sign, "")


def judged(claims: Sequence[Claim]) -> tuple[list[Verdict], str]:
    """Judge claims.

    Returns:
        The verdicts on those that the trials can decide, and how many others there are, in words;
        nothing where there are none.
    """
    verdicts = [verdict for claim in claims if (verdict := claim.verdict()) is not None]
    left = len(claims) - len(verdicts)
    told = (
        f"{left} of {len(claims)} claims are not judged: so few trials cannot decide."
        if left
        else ""
    )
    return verdicts, told


def note_on(left_out: str) -> str:
    """Explain a table of verdicts: what ± is, and when a claim is inside."""
    note = (
        "What follows ± is a standard error. The paper's numbers are lost or not printed, so these "
        "are claims in words: one holds where each difference it speaks of has its sign and "
        f"exceeds {Z_99:.2f} of its standard errors, within which chance stays {100 * LEVEL:g} "
        "times in 100. There is no seed."
    )
    return f"{note} {left_out}".strip()
