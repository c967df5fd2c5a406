"""What every registered mechanism has to pass; test_conformance.py runs it over the registry.

A mechanism brings a `Case`: small domains with their exact distributions and neighbours, and mutants of the
shipped code that the checks must reject.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import pytest

from dp_sql.udfs.mechanism import Mechanism, PrivacyLoss
from tests.udfs.distributions import NotPrivateError, check_neighbours, check_range


@dataclass(frozen=True)
class Domain:
    """Small inputs and what is known of them.

    Args:
        distribution: the exact distribution of the shipped code on one input.
        defined: the same by the definition in the proof note, computed in another way.
        inputs: inputs on which both are compared.
        pairs: all neighbours among small inputs.
        check: check(distribution, pairs) raises NotPrivateError where two neighbours are too far apart.
    """

    distribution: Callable[[Any], Any]
    pairs: Callable[[], Iterable[tuple[Any, Any]]] = tuple
    check: Callable[[Callable[[Any], Any], Iterable[Any]], None] | None = None
    inputs: Callable[[], Iterable[Any]] = tuple
    defined: Callable[[Any], Any] | None = None


def check_distribution(domain: Domain) -> None:
    for data in domain.inputs():
        assert domain.distribution(data) == domain.defined(data), data


def check_privacy(domain: Domain) -> None:
    domain.check(domain.distribution, domain.pairs())


@cache
def passes(check: Callable[[Domain], None], domain: Domain) -> None:
    """Check once what has a test of its own and is what several mutants are made of."""
    check(domain)


def within(factor: Any) -> Any:
    """Every outcome at most `factor` times likelier on one side of each pair."""
    return partial(check_neighbours, factor=factor)


def within_range(factor: Any) -> Any:
    """The same, and for any two outcomes the odds change by at most `factor`."""
    return partial(check_range, factor=factor)


@dataclass(frozen=True)
class Mutant:
    """A wrong version of the shipped code, and the domain on which it has to be found out.

    Args:
        domain: passes the check as it is.
        tamper: changes the shipped code; left out where `distribution` is given.
        distribution: the distribution of something that is wrong.
        check: check_privacy, or check_distribution for a mutant that is private but another mechanism.
    """

    domain: Domain
    tamper: Callable[[pytest.MonkeyPatch], None] | None = None
    distribution: Callable[[Any], Any] | None = None
    check: Callable[[Domain], None] = check_privacy

    def is_rejected(self) -> None:
        passes(self.check, self.domain)
        expected = NotPrivateError if self.check is check_privacy else AssertionError
        with pytest.MonkeyPatch.context() as patch:
            if self.tamper:
                self.tamper(patch)
            wrong = replace(self.domain, distribution=self.distribution or self.domain.distribution)
            with pytest.raises(expected):
                self.check(wrong)


def slow_if(slow: bool, name: str) -> str:
    """The name of a domain or mutant; a slow one runs with `make slow`, a smaller one always."""
    return f"slow: {name}" if slow else name


def changed(module: Any, name: str, wrong: Any) -> Callable[[pytest.MonkeyPatch], None]:
    """Replace a part of the shipped code; `wrong` is made of the right one where it takes it."""
    return lambda patch: patch.setattr(module, name, wrong)


def times_two(module: Any, name: str) -> Callable[[pytest.MonkeyPatch], None]:
    """Double what a function of the shipped code returns."""
    right = getattr(module, name)
    return changed(module, name, lambda *given: 2 * right(*given))


@dataclass(frozen=True)
class Case:
    """One mechanism.

    Args:
        mechanism: as registered.
        domains: by name.
        mutants: by what is wrong with them.
        loss: of one run with the numbers of test_conformance.PUBLIC.
        says: its accuracy for the same numbers.
        fits: fits(tenths, patch) draws at so many tenths of the right epsilon or rate, and says
            whether the outcomes pass for the right distribution.
        tight: checks that ask for a little more than is true, and so must fail: they show that the
            neighbours use most of what is paid for, or that a better price would be wrong.
    """

    mechanism: Mechanism
    domains: Mapping[str, Domain]
    mutants: Mapping[str, Mutant]
    loss: PrivacyLoss
    says: str
    fits: Callable[[int, pytest.MonkeyPatch], bool]
    tight: Mapping[str, Domain] = field(default_factory=dict)
