"""The terms of a budget, as a policy states them, and the names of analysts. Pure."""

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Literal

AccountantName = Literal["basic", "zcdp", "pld"]

# Unicode categories of control and invisible characters, surrogates, line and paragraph ends.
_CONTROL = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def normal_name(name: str) -> str:
    r"""An analyst's name as it is compared: in Unicode's composed form, without outer spaces.

    >>> normal_name(" Zoe\u0308 ") == "Zo\u00eb"
    True
    """
    return unicodedata.normalize("NFC", name).strip()


def name_of(written: object) -> str | None:
    """An analyst's `normal_name`; None if this is empty, no string, or has control characters."""
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
    """

    dataset: str
    total: Cap  # of all analysts together
    ledger: Path
    checkpoint: Path  # a second file that shows whether the ledger is the newest
    analysts: Mapping[str, Cap] = field(default_factory=dict)  # within the total
    accountant: AccountantName = "basic"
    release_epsilon: Fraction | None = None  # what "pld" charges for every release
    discovery_share: Fraction = Fraction(0)  # of each delta, what is kept for losses with a delta
    monthly: bool = False  # whether the budget starts anew each calendar month (UTC)
    keep_releases: bool = False  # whether a repeated question gets the stored answer, free
