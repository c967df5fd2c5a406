"""What accompanies an answer, from the statement and public numbers alone: no row decides it."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_DOWN, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeVar

from dp_sql.udfs.mechanism import PrivacyLoss, in_words

T = TypeVar("T")


def in_short(x: Fraction) -> str:
    """Write a fraction with at most six digits that count, rounded towards zero.

    >>> in_short(Fraction(19, 20)), in_short(Fraction(1, 3)), in_short(Fraction(1, 10**9))
    ('0.95', 'about 0.333333', '1e-9')
    """
    exact = Decimal(x.numerator) / Decimal(x.denominator)
    short = Context(prec=6, rounding=ROUND_DOWN).create_decimal(exact)
    shown = f"{short.normalize():f}" if not x or abs(x) >= Fraction(1, 10**4) else f"{short:e}"
    mantissa, e, power = shown.partition("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return "about " * (Fraction(short) != x) + mantissa + e + power


@lru_cache(maxsize=256)
def shared(value: T) -> T:
    """The first of equal values: a session that repeats a question holds one receipt for all."""
    return value


def in_epsilon(epsilon: Fraction, delta: Fraction) -> str:
    """A loss in words: epsilon, and delta if there is one."""
    says = f"epsilon = {in_short(epsilon)}"
    return f"{says}, delta = {in_short(delta)}" if delta else says


def priced(loss: PrivacyLoss) -> str:
    """A loss in words, with what the accountants `zcdp` and `pld` add up."""
    says = in_epsilon(loss.epsilon, loss.delta)
    if loss.rho is None:
        return says
    return f"{says} (zcdp: rho = {in_short(loss.rho)}, pld: range = {in_short(loss.bounded_range)})"


@dataclass(frozen=True)
class Receipt:
    """One release: what was asked, which mechanism answered, what it cost, how good it is."""

    call: str  # the DP call as DuckDB names its column
    source: str  # what it read, as written, with its condition
    mechanism: str  # its name in the registry
    loss: PrivacyLoss  # what was spent
    accuracy: str  # a sentence
    assumptions: tuple[str, ...]  # what the owner declared; the privacy of the release rests on it

    def to_dict(self) -> dict[str, Any]:
        """The receipt in JSON's types; exact numbers are strings."""
        rho = self.loss.rho
        return {
            "call": self.call, "source": self.source, "mechanism": self.mechanism,
            "epsilon": in_words(self.loss.epsilon), "delta": in_words(self.loss.delta),
            "rho": None if rho is None else in_words(rho),
            "accuracy": self.accuracy, "assumptions": list(self.assumptions),
        }  # fmt: skip

    def __str__(self) -> str:
        lines = [f"{self.call} FROM {self.source}", f"  mechanism  {self.mechanism}"]
        lines += [f"  spent      {priced(self.loss)}", f"  accuracy   {self.accuracy}"]
        lines += [f"  assumes    {assumption}" for assumption in self.assumptions]
        return "\n".join(lines)


@dataclass(frozen=True)
class Release:
    """One frozen answer: `FROM dp_release('<id>')` reads it again, and spends nothing."""

    id: str  # its name in this session, and in later ones if the policy keeps releases
    receipt: Receipt
    time: str  # when it was released, UTC, ISO 8601
    columns: tuple[tuple[str, str], ...]  # names and types: the keys of GROUP BY, then answer

    def to_dict(self) -> dict[str, Any]:
        """The release without its rows, in JSON's types, with the keys of its receipt."""
        columns = [{"name": name, "type": kind} for name, kind in self.columns]
        return {"id": self.id, "time": self.time, "columns": columns, **self.receipt.to_dict()}

    def __str__(self) -> str:
        return f"{self.id}  {self.time}  {self.receipt.call} FROM {self.receipt.source}"


def new_release(receipt: Receipt, columns: Sequence[tuple[str, str]]) -> Release:
    """A release made now, with a new id."""
    time = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Release(uuid.uuid4().hex[:12], receipt, shared(time), shared(tuple(columns)))
