"""What all queries may spend together: the [budget] of a policy. Opens no file of it."""

import os
import pathlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, get_args

from dp_sql.budget.checkpoint import default_checkpoint
from dp_sql.budget.model import AccountantName, Cap, Terms, name_of
from dp_sql.budget.store import side_files
from dp_sql.files import readable_by_others
from dp_sql.policy.parser import (
    BOOLEAN,
    Document,
    Path,
    ValueKind,
    choice,
    key,
    number,
    read,
    string,
    valid,
)
from dp_sql.releases import in_short
from dp_sql.sql import ranges

ACCOUNTANTS: tuple[AccountantName, ...] = get_args(AccountantName)
_HERE: Path = ("budget",)
_EPSILON = number(ranges.MIN_EPSILON, 10**6)  # odds that change by e^1000000 promise nothing
_DELTA = number(ranges.MIN_DELTA, ranges.MAX_DELTA, or_zero=True)
_DATASET = string(
    "a name of at most 64 letters (a to z), digits, '-', '_' and '.', as in dataset = \"shop\"",
    re.compile(r"[A-Za-z0-9._-]{1,64}").fullmatch,
)
_FILE = string(
    'the path of a file, such as "/srv/ledgers/shop.sqlite"; a relative path begins at the '
    "policy's folder, and ~ is not expanded",
    lambda path: path.isprintable() and path and path[0] != "~",
)
_SECTIONS = ValueKind("sections: [budget.analysts.reporting]",
                 lambda value: value if isinstance(value, dict) else None)  # fmt: skip
_ACCOUNTANT, _ZERO = choice(*ACCOUNTANTS), Fraction(0)


@dataclass(frozen=True)
class BudgetKeys:
    """The keys of [budget]."""

    # fmt: off
    dataset: str = key(_DATASET, "your name for these people's data; same people, same name",
                       '"shop"', required=True)
    epsilon: Fraction = key(
        _EPSILON, "the most that all analysts together may spend", "1", required=True)
    delta: Fraction = key(
        _DELTA, 'the probability that the guarantee fails; "zcdp" and "pld" need one', "0",
        default=_ZERO)
    accountant: AccountantName = key(
        _ACCOUNTANT, 'how losses add up: "basic", "zcdp" or "pld"', '"basic"', default="basic")
    keep_releases: bool = key(
        BOOLEAN, "asking again returns the stored answer, free", "true", default=False)
    ledger: str | None = key(_FILE, "the record of what was spent", '"shop.ledger.sqlite"')
    checkpoint: str | None = key(_FILE, "shows a lost or outdated ledger",
                                 '"/mnt/other-disk/shop.checkpoint"', formerly="witness")
    refresh: str | None = key(choice("monthly"), "a new budget each month: 12 times epsilon a year",
                              '"monthly"', draft="# # ")
    release_epsilon: Fraction | None = key(
        _EPSILON, 'what "pld" charges for every release', "0.1", draft="# # ")
    discovery_share: Fraction = key(
        number(Fraction(1, 1000), Fraction(9, 10)),
        'the part of delta that "zcdp" and "pld" keep for calls with a delta', "0.1",
        draft="# # ", default=_ZERO)
    # fmt: on
    analysts: Mapping[str, Any] | None = key(_SECTIONS, "caps of single analysts")


@dataclass(frozen=True)
class CapKeys:
    """The keys of [budget.analysts.NAME]."""

    epsilon: Fraction = key(_EPSILON, "the most that this analyst may spend", "0.5", required=True)
    delta: Fraction = key(_DELTA, "the same for delta", default=_ZERO)


def read_budget(document: Document, file: pathlib.Path) -> Terms | None:
    """The budget of a policy, if it has one; relative paths begin at the folder of `file`."""
    if "budget" not in document.tree:
        return None
    keys = read(document, _HERE, BudgetKeys, document.tree["budget"])
    _check_accountant(document, keys)
    # Not named after the dataset: renaming that must find the old ledger, not make a new one.
    ledger = (file.parent / (keys.ledger or f"{file.stem}.ledger.sqlite")).absolute()
    checkpoint = (file.parent / (keys.checkpoint or default_checkpoint(ledger))).absolute()
    if os.path.normpath(checkpoint) in map(os.path.normpath, (ledger, *side_files(ledger))):
        raise document.error((*_HERE, "checkpoint"), "The checkpoint must be a file of its own.")
    total = Cap(keys.epsilon, keys.delta)
    return Terms(
        keys.dataset, total, ledger, checkpoint,
        analysts=_analysts(document, keys.analysts or {}, total), accountant=keys.accountant,
        release_epsilon=keys.release_epsilon, discovery_share=keys.discovery_share,
        monthly=keys.refresh is not None, keep_releases=keys.keep_releases,
    )  # fmt: skip


def advice(terms: Terms | None) -> list[str]:
    """What the owner may want to change, a sentence each; none where all is well."""
    if terms is None:
        return ["There is no [budget]: analysts may spend without limit."]
    releases = terms.ledger.with_name(f"{terms.ledger.name}.releases")
    shared = readable_by_others((terms.ledger, terms.checkpoint, releases))
    found = [f"Other users of this computer may open {path}: chmod 600 {path}" for path in shared]
    if os.path.realpath(terms.ledger.parent) == os.path.realpath(terms.checkpoint.parent):
        found.append(
            "The ledger and its checkpoint are in the same folder: restoring an old backup of that "
            "folder gives back spent budget, and nothing can detect it. Put one on another disk: "
            'checkpoint = "/…".'
        )
    return found


def _check_accountant(document: Document, keys: BudgetKeys) -> None:
    name, path = keys.accountant, (*_HERE, "accountant")
    if name != "basic" and not keys.delta:
        raise document.error(
            path, f'accountant "{name}" needs a delta above 0, as in delta = 1e-9: without one it '
            'counts no better than "basic".'
        )  # fmt: skip
    given = keys.release_epsilon
    if given is None and name == "pld":
        raise document.error(
            path, 'accountant "pld" needs release_epsilon: what every release is charged as, and '
            "the most that one may cost, as in release_epsilon = 0.1."
        )  # fmt: skip
    if given is not None:
        path = (*_HERE, "release_epsilon")
        if name != "pld":
            raise document.error(path, 'release_epsilon is for accountant = "pld" only.')
        valid(document, path, number(ranges.MIN_EPSILON, keys.epsilon), given)


def _analysts(document: Document, named: Mapping[str, Any], total: Cap) -> dict[str, Cap]:
    found: dict[str, Cap] = {}
    for written, value in named.items():
        here = (*_HERE, "analysts", written)
        name = name_of(written)
        if name is None:
            why = "An analyst's name cannot be empty or contain control characters."
            raise document.error(here, why)
        if name in found:
            raise document.error(
                here, f"{name} appears twice: names that differ only in leading or trailing "
                "spaces, or in how Unicode composes a letter, are the same."
            )  # fmt: skip
        own = read(document, here, CapKeys, value)
        for part in ("epsilon", "delta"):
            whole = getattr(total, part)
            if getattr(own, part) > whole:
                raise document.error(
                    (*here, part), f"This {part} could never be reached: all analysts together may "
                    f"spend {in_short(whole)} ([budget], {part})."
                )  # fmt: skip
        found[name] = Cap(own.epsilon, own.delta)
    return found
