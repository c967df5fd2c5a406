"""What an owner promises: the terms of a budget, as a policy states them. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Literal

AccountantName = Literal["basic", "zcdp", "pld"]


_CONTROL = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Unicode categories of control and invisible characters, surrogates, line and paragraph ends."""


def normal_name(name: str) -> str:
    r"""An analyst's name as it is compared: in Unicode's composed form, without outer spaces.

    >>> normal_name(" Zoe\u0308 ") == "Zo\u00eb"
    True
    """
    return unicodedata.normalize("NFC", name).strip()


def name_of(written: object) -> str | None:
    """The normalised name of an analyst; None where this is not a valid name.

    A name is a non-empty string without control characters. It is compared, charged and stored
    in the form of `normal_name`.
    """
    if type(written) is not str or any(unicodedata.category(c) in _CONTROL for c in written):
        return None
    return normal_name(written) or None


@dataclass(frozen=True)
class Cap:
    """At most so much: epsilon, and delta (0: pure epsilon-DP only)."""

    epsilon: Fraction
    delta: Fraction = Fraction(0)


@dataclass(frozen=True)
class Terms:
    """The budget of one private dataset.

    dataset: the owner's name for the data; the ledger holds it, so that renaming or copying a
        table makes no new budget.
    total: what all analysts together may spend. analysts: what one may, on top of that.
    accountant: how losses add up.
    release_epsilon: for the accountant "pld" alone: what every release is charged as.
    monthly: whether the budget begins anew with each calendar month (UTC).
    keep_releases: whether the same question of the same analyst gets its kept answer, free.
    ledger, witness: the book, and the second place that tells whether it is the newest one.
    """

    dataset: str
    total: Cap
    ledger: Path
    witness: Path
    analysts: Mapping[str, Cap] = field(default_factory=dict)
    accountant: AccountantName = "basic"
    release_epsilon: Fraction | None = None
    monthly: bool = False
    keep_releases: bool = False
