"""How losses add up against a cap: basic, zcdp, pld. Integers decide.

Each accountant is a privacy filter: releases that `fits` admitted one by one are together within
the cap, even if each was chosen after reading all earlier answers. Proofs: accountants.md.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

from dp_sql.budget import pld
from dp_sql.budget.amounts import ATTO, NANO, PICO, Amount, Spent, rounded_up
from dp_sql.budget.model import AccountantName, Cap
from dp_sql.errors import PolicyError
from dp_sql.udfs import concentrated
from dp_sql.udfs.mechanism import in_words


def accountant(
    name: AccountantName, cap: Cap, release_epsilon: Fraction | None,
    discovery_share: Fraction = Fraction(0),
) -> "Accountant":  # fmt: skip
    """Make the accountant of a cap. With delta 0 there is only basic composition.

    release_epsilon: for "pld", which refuses to be without: the range of each release.
    discovery_share: for "zcdp" and "pld", in [0, 1): the part of delta that is kept for releases
        with a delta of their own.
    """
    if name == "pld":
        pld.require_package()
        if release_epsilon is None or release_epsilon <= 0:
            raise PolicyError(
                'accountant = "pld" needs release_epsilon, a positive number: what every release '
                "is charged as."
            )
    if name == "basic" or not cap.delta:
        return Accountant(cap, name=name)
    kept = cap.delta * discovery_share
    rest = Cap(cap.epsilon, cap.delta - kept)
    if name == "zcdp":
        return _Zcdp(cap, largest_rho(rest), kept, name=name)
    unit = rounded_up(Fraction(release_epsilon or 0) * NANO)
    u = Fraction(unit, NANO)  # the better of two proofs
    by_rho = largest_rho(rest) // _rho_of_range(u)
    most = max(by_rho, pld.releases_that_fit(rest.epsilon, rest.delta, u))
    return _Pld(cap, most, kept, unit=unit, name=name)


@dataclass(frozen=True)
class Accountant:
    """Basic composition: epsilons add, and deltas add (Rogers, Roth, Ullman and Vadhan 2016)."""

    cap: Cap  # what is not to be exceeded
    name: AccountantName = field(default="basic", kw_only=True)

    def refuses(self, amount: Amount) -> str | None:
        """Why such a loss can never be counted, in a sentence; None: it can."""
        return None

    def fits(self, spent: Spent) -> bool:
        """Whether all this may be spent; `spent` includes the loss asked for."""
        epsilon, delta = Fraction(spent.epsilon, NANO), Fraction(spent.delta, ATTO)
        return epsilon <= self.cap.epsilon and delta <= self.cap.delta

    def epsilon_spent(self, spent: Spent) -> int:
        """What the losses amount to at the cap's delta, in 1e-9, rounded up; for display."""
        return spent.epsilon

    def delta_spent(self, spent: Spent) -> int:
        """The delta that belongs to `epsilon_spent`, in 1e-18, rounded up."""
        return spent.delta


@dataclass(frozen=True)
class _TwoRules(Accountant):
    """Rule A: all losses are pure and add up to at most epsilon. Or rule B, of a subclass."""

    most: int  # the limit of rule B
    kept: Fraction = Fraction(0)  # of delta, for losses with one of their own; fixed beforehand

    def _refuses_delta(self) -> str:
        return (
            f'The budget\'s accountant "{self.name}" counts a release with a delta of its own only '
            "if the policy keeps a part of delta for it, as in discovery_share = 0.1 ([budget])."
        )

    def fits(self, spent: Spent) -> bool:
        pure = not spent.delta and Fraction(spent.epsilon, NANO) <= self.cap.epsilon
        used = self._used(spent)
        return pure or (used is not None and used <= self.most)

    def epsilon_spent(self, spent: Spent) -> int:
        """The least of the epsilons that are proved for what is spent."""
        used = self._used(spent)
        if used is None:
            return spent.epsilon
        proved = self._at_delta(spent)
        if not spent.delta:
            proved.append(spent.epsilon)
        if used <= self.most:
            proved.append(rounded_up(self.cap.epsilon * NANO))
        return min(proved)

    def delta_spent(self, spent: Spent) -> int:
        """The delta of the proof that gave `epsilon_spent`: none if the loss is pure."""
        pure = not spent.delta and self.epsilon_spent(spent) == spent.epsilon
        counts = self._used(spent) is not None
        return rounded_up(self.cap.delta * ATTO) if counts and not pure else spent.delta

    def _used(self, spent: Spent) -> int | None:
        """How much of `most` rule B counts; None where it cannot count all these losses."""
        raise NotImplementedError

    def _at_delta(self, spent: Spent) -> list[int]:
        """Epsilons that rule B proves at the cap's delta."""
        raise NotImplementedError


@dataclass(frozen=True)
class _Zcdp(_TwoRules):
    """Rule B: all losses have a rho, up to a slack that is in all at most `kept`.

    The rhos add up to at most `most`, which is converted at the rest of delta.
    """

    def refuses(self, amount: Amount) -> str | None:
        counts = not amount.delta or amount.rho is not None or (amount.is_slack and self.kept)
        return None if counts else self._refuses_delta()

    def _used(self, spent: Spent) -> int | None:
        counts = spent.with_rho == spent.n and Fraction(spent.slack, ATTO) <= self.kept
        return spent.rho if counts else None

    def _at_delta(self, spent: Spent) -> list[int]:
        return [epsilon_of_rho(spent.rho, self.cap.delta - self.kept)]


@dataclass(frozen=True)
class _Pld(_TwoRules):
    """Rule B: there are at most `most` losses, each has a range of at most `unit`.

    Their deltas, in all at most `kept`, are outside of these ranges.
    """

    unit: int = field(kw_only=True)

    def refuses(self, amount: Amount) -> str | None:
        if amount.delta and not self.kept:
            return self._refuses_delta()
        if amount.bounded_range is not None and amount.bounded_range <= self.unit:
            return None
        unit = in_words(Fraction(self.unit, NANO))
        return (
            f'The budget\'s accountant "pld" charges every release as epsilon = {unit}, and this '
            "one may cost more. An exponential mechanism (joint) may use an epsilon of up to "
            f"{unit}, any other at least half of it (with GROUP BY, all groups together)."
        )

    def _used(self, spent: Spent) -> int | None:
        counts = spent.with_range == spent.n and Fraction(spent.delta, ATTO) <= self.kept
        return spent.n if counts and spent.widest <= self.unit else None

    def _at_delta(self, spent: Spent) -> list[int]:
        if not spent.n:
            return [0]
        u, delta = Fraction(self.unit, NANO), self.cap.delta - self.kept
        by_range = rounded_up(pld.epsilon_of(spent.n, delta, u) * NANO)
        return [by_range, epsilon_of_rho(spent.n * _rho_of_range(u), delta)]


@lru_cache(maxsize=256)
def largest_rho(cap: Cap) -> int:
    """The rho, in 1e-12 and rounded down, up to which zCDP is within the cap."""
    return int(concentrated.largest_rho(cap.epsilon, cap.delta) * PICO)


@lru_cache(maxsize=4096)
def epsilon_of_rho(rho: int, delta: Fraction) -> int:
    """The epsilon, in 1e-9 and rounded up, that rho (in 1e-12) implies at a delta."""
    if not rho:
        return 0
    return rounded_up(concentrated.least_epsilon(Fraction(rho, PICO), delta) * NANO)


def _rho_of_range(u: Fraction) -> int:
    return rounded_up(u**2 / 8 * PICO)
