"""What does the owner promise in all? The [budget] of a policy, its ranges, and how it is read.

Knows the terms and where their files are to be; opens none, and knows nothing of what is spent.
"""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, get_args

from dp_sql.budget.model import AccountantName, Cap, Terms, name_of
from dp_sql.files import readable_by_others
from dp_sql.policy.parser import Document, Path, guess
from dp_sql.sql import ranges

CAP_KEYS = ("epsilon", "delta")
BUDGET_KEYS = (
    "dataset", *CAP_KEYS, "accountant", "release_epsilon", "refresh", "keep_releases",
    "ledger", "witness", "analysts",
)  # fmt: skip
ACCOUNTANTS: tuple[AccountantName, ...] = get_args(AccountantName)
MAX_TOTAL = 10**6
"""The largest epsilon of a budget; more than e^1000000 to one is no promise."""

_DATASET = re.compile(r"[A-Za-z0-9._-]{1,64}")
_HERE: Path = ("budget",)
_SQLITE = ("", "-wal", "-shm", "-journal")
"""What SQLite appends to a book's name for files of its own."""


def read_budget(document: Document, file: pathlib.Path) -> Terms | None:
    """The budget of a policy's text; None where it has none.

    Args:
        document: the policy.
        file: where the policy stands; relative paths begin at its folder.
    """
    if "budget" not in document.tree:
        return None
    section = document.section("budget")
    document.only(section, _HERE, BUDGET_KEYS)
    dataset = _dataset(document, section)
    total = _cap(document, section, _HERE)
    name = _accountant(document, section, total)
    # Not called after the dataset: who renames that must meet the old ledger, not a new one.
    ledger = _file(document, section, "ledger", file.parent, f"{file.stem}.ledger.sqlite")
    witness = _file(document, section, "witness", file.parent, f"{ledger}.witness")
    if os.path.normpath(witness) in {os.path.normpath(f"{ledger}{end}") for end in _SQLITE}:
        raise document.refuse((*_HERE, "witness"), "The witness must be a file of its own.")
    return Terms(
        dataset=dataset,
        total=total,
        ledger=ledger,
        witness=witness,
        analysts=_analysts(document, section, total),
        accountant=name,
        release_epsilon=_release_epsilon(document, section, name, total),
        monthly=_monthly(document, section),
        keep_releases=_switch(document, section, "keep_releases"),
    )


def advice(terms: Terms | None) -> list[str]:
    """What the owner may want to change, a sentence each; none where all is well."""
    if terms is None:
        return ["There is no [budget]: analysts may ask without end."]
    kept = terms.ledger.with_name(f"{terms.ledger.name}.releases")
    open_to_all = readable_by_others((terms.ledger, terms.witness, kept))
    found = [
        f"Other users of this computer may open {path}: chmod 600 {path}" for path in open_to_all
    ]
    folders = {os.path.realpath(path.parent) for path in (terms.ledger, terms.witness)}
    if len(folders) > 1:
        return found
    return [
        *found,
        "The ledger and its witness are in the same folder: a backup of the folder that is put "
        'back brings spent budget back unseen. Put one on another disk: witness = "/…".',
    ]


def _dataset(document: Document, section: Mapping[str, Any]) -> str:
    if "dataset" not in section:
        raise document.refuse(
            _HERE, "budget needs dataset: your own name for these people's data, as in "
            'dataset = "shop". It stays when a file or a table is renamed, copied or grows: the '
            "same people, the same name, one budget."
        )  # fmt: skip
    name = section["dataset"]
    if isinstance(name, str) and _DATASET.fullmatch(name):
        return name
    raise document.refuse(
        (*_HERE, "dataset"), "dataset must be a name of at most 64 letters (a to z), digits, "
        "'-', '_' and '.', as in dataset = \"shop\"."
    )  # fmt: skip


def _cap(document: Document, section: Mapping[str, Any], path: Path) -> Cap:
    """The epsilon and the delta of a section."""
    if "epsilon" not in section:
        whose = "all analysts together" if path == _HERE else path[-1]
        raise document.refuse(
            path, f"{'.'.join(path)} needs epsilon: the most that {whose} may spend, as in "
            "epsilon = 1."
        )  # fmt: skip
    epsilon = _epsilon(document, section, (*path, "epsilon"), Fraction(MAX_TOTAL))
    return Cap(epsilon, _delta(document, section, (*path, "delta")))


def _epsilon(
    document: Document, section: Mapping[str, Any], path: Path, most: Fraction
) -> Fraction:
    value = section[path[-1]]
    if _is_number(value) and ranges.MIN_EPSILON <= value <= most:
        return Fraction(value)
    raise document.refuse(
        path, f"{path[-1]} must be a number from {float(ranges.MIN_EPSILON):g} "
        f"to {_plain(most)}."
    )  # fmt: skip


def _delta(document: Document, section: Mapping[str, Any], path: Path) -> Fraction:
    value = section.get("delta", 0)
    low, end = ranges.MIN_DELTA, ranges.MAX_DELTA
    if _is_number(value) and (value == 0 or low <= value < end):
        return Fraction(value)
    raise document.refuse(
        path, f"delta must be 0, or a number from {float(low):g} to below {float(end):g}."
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | Fraction) and not isinstance(value, bool)


def _plain(x: Fraction) -> str:
    return str(x.numerator) if x.denominator == 1 else f"{float(x):g}"


def _accountant(document: Document, section: Mapping[str, Any], total: Cap) -> AccountantName:
    path = (*_HERE, "accountant")
    value = section.get("accountant", "basic")
    name = next((known for known in ACCOUNTANTS if known == value), None)
    if name is None:
        near = guess(value, ACCOUNTANTS) if isinstance(value, str) else ""
        words = ", ".join(f'"{known}"' for known in ACCOUNTANTS)
        raise document.refuse(path, f"accountant must be one of {words}.{near}")
    if name != "basic" and not total.delta:
        raise document.refuse(
            path, f'accountant "{name}" needs a delta above 0, as in delta = 1e-6: without one it '
            'counts no better than "basic".'
        )  # fmt: skip
    return name


def _release_epsilon(
    document: Document, section: Mapping[str, Any], name: AccountantName, total: Cap
) -> Fraction | None:
    path = (*_HERE, "release_epsilon")
    if "release_epsilon" in section and name != "pld":
        raise document.refuse(path, 'release_epsilon is for accountant = "pld" only.')
    if name != "pld":
        return None
    if "release_epsilon" not in section:
        raise document.refuse(
            (*_HERE, "accountant"), 'accountant "pld" needs release_epsilon: what every release '
            "is charged as, and the most that one may cost, as in release_epsilon = 0.1."
        )  # fmt: skip
    return _epsilon(document, section, path, total.epsilon)


def _monthly(document: Document, section: Mapping[str, Any]) -> bool:
    if section.get("refresh", "monthly") != "monthly":
        raise document.refuse(
            (*_HERE, "refresh"), 'refresh can only be "monthly"; leave it out for a budget that '
            "holds for good."
        )  # fmt: skip
    return "refresh" in section


def _switch(document: Document, section: Mapping[str, Any], key: str) -> bool:
    value = section.get(key, False)
    if isinstance(value, bool):
        return value
    raise document.refuse((*_HERE, key), f"{key} must be true or false.")


def _file(
    document: Document, section: Mapping[str, Any], key: str, folder: pathlib.Path, usual: str
) -> pathlib.Path:
    """Where a file is to be; absolute, so that it stays there when the process moves."""
    text = section.get(key, usual)
    if isinstance(text, str) and text.isprintable() and text and text[0] != "~":
        return (folder / text).absolute()
    raise document.refuse(
        (*_HERE, key), f'{key} must be the path of a file, "/srv/books/shop.{key}"; a relative '
        "one begins at the policy's folder, and ~ is not known."
    )  # fmt: skip


def _analysts(document: Document, section: Mapping[str, Any], total: Cap) -> dict[str, Cap]:
    path = (*_HERE, "analysts")
    named = section.get("analysts", {})
    if not isinstance(named, dict):
        raise document.refuse(path, "analysts must be sections: [budget.analysts.reporting]")
    found: dict[str, Cap] = {}
    for written, value in named.items():
        here = (*path, written)
        name = name_of(written)
        if name is None:
            raise document.refuse(
                here, "An analyst's name cannot be empty or contain control characters."
            )
        if name in found:
            raise document.refuse(
                here, f"{name} appears twice: names that differ only in leading or trailing "
                "spaces, or in how Unicode composes a letter, are the same."
            )  # fmt: skip
        found[name] = _own_cap(document, value, here, total)
    return found


def _own_cap(document: Document, value: object, path: Path, total: Cap) -> Cap:
    name = path[-1]
    if not isinstance(value, dict):
        raise document.refuse(path, f"{name} must be a section: [budget.analysts.{name}]")
    for key, inner in value.items():
        if isinstance(inner, dict):
            full = f'[budget.analysts."{name}.{key}"]'
            raise document.refuse((*path, key), f"Write a name with dots in quotes: {full}")
    document.only(value, path, CAP_KEYS)
    cap = _cap(document, value, path)
    for key, own, whole in (
        ("epsilon", cap.epsilon, total.epsilon),
        ("delta", cap.delta, total.delta),
    ):
        if own > whole:
            raise document.refuse(
                (*path, key), f"This {key} could never be reached: all analysts together may "
                f"spend {_plain(whole)} ([budget], {key})."
            )  # fmt: skip
    return cap
