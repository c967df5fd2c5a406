"""The terms of a budget, as a policy states them, and the names of analysts. Pure."""

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
    """The most that may be spent: epsilon, and delta (0: pure epsilon-DP only)."""

    epsilon: Fraction
    delta: Fraction = Fraction(0)


@dataclass(frozen=True)
class Terms:
    """The budget of one private dataset.

    dataset: the owner's name for the data; the ledger stores it, so that renaming or copying a
        table makes no new budget.
    total: the cap of all analysts together. analysts: caps of single analysts, within the total.
    accountant: how losses add up.
    release_epsilon: what every release is charged as; for the accountant "pld" only.
    monthly: whether the budget starts again each calendar month (UTC).
    keep_releases: whether an analyst who repeats a question gets the stored answer, free.
    ledger, checkpoint: the ledger's file, and a second file that shows whether it is the newest.
    """

    dataset: str
    total: Cap
    ledger: Path
    checkpoint: Path
    analysts: Mapping[str, Cap] = field(default_factory=dict)
    accountant: AccountantName = "basic"
    release_epsilon: Fraction | None = None
    monthly: bool = False
    keep_releases: bool = False
