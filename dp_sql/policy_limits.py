"""What may one query ask at most? The limits of a policy, their ranges, and how they are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dp_sql import functions
from dp_sql.person_sql import WorkLimits
from dp_sql.policy_text import Document


@dataclass(frozen=True)
class Limits:
    """What one query may ask; None where the policy sets no limit of its own.

    Without max_delta_per_query, as with 0, no delta is allowed: pure epsilon-DP only.

    max_rows_per_person, max_joined_rows_per_person: how much work the rows of one person may cause;
        see WorkLimits. They have defaults.
    """

    max_epsilon_per_query: Fraction | None = None
    max_delta_per_query: Fraction | None = None
    max_k: int | None = None
    max_contributions: int | None = None
    deadline_seconds: Fraction | None = None
    max_rows_per_person: int = 1_000
    max_joined_rows_per_person: int = 1_000_000

    @property
    def work(self) -> WorkLimits:
        """How much work the rows of one person may cause."""
        return WorkLimits(self.max_rows_per_person, self.max_joined_rows_per_person)


LIMITS: Mapping[str, tuple[bool, Fraction, Fraction]] = {
    "max_epsilon_per_query": (False, functions.MIN_EPSILON, functions.MAX_EPSILON),
    "max_delta_per_query": (False, Fraction(0), functions.MAX_DELTA),
    "max_k": (True, Fraction(1), Fraction(functions.MAX_K)),
    "max_contributions": (True, Fraction(1), Fraction(functions.MAX_CONTRIBUTIONS)),
    "deadline_seconds": (False, Fraction(1, 100), Fraction(86400)),
    "max_rows_per_person": (True, Fraction(1), Fraction(10**6)),
    "max_joined_rows_per_person": (True, Fraction(1), Fraction(10**8)),
}
"""The limits: whether they are whole numbers, and from where to where."""


def read_limits(document: Document) -> Limits:
    """The limits of a policy's text."""
    section = document.section("limits")
    document.only(section, ("limits",), (*LIMITS, "unique_per_person"))
    values: dict[str, Any] = {
        key: _limit(document, key, section[key]) for key in LIMITS if key in section
    }
    return Limits(**values)


def _limit(document: Document, key: str, value: Any) -> int | Fraction:
    whole, low, high = LIMITS[key]
    number = isinstance(value, int | Fraction) and not isinstance(value, bool)
    if number and low <= value <= high and (value.denominator == 1 or not whole):
        return int(value) if whole else Fraction(value)
    kind = "a whole number" if whole else "a number"
    raise document.refuse(
        ("limits", key), f"{key} must be {kind} from {float(low):g} to {float(high):g}."
    )
