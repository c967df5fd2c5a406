"""What fails while a ledger is written: nothing is answered that does not count."""

from __future__ import annotations

import resource
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from dp_sql.budget.ledger import Ledger
from dp_sql.budget.verify import verify
from dp_sql.errors import LedgerError
from tests.budget.ledger_checks import TENTH, SkipsItsWitness, admit_all, check_after_a_crash, paths
from tests.budget.ledger_faults import Fault, When, failing


def _work(kind: type[Ledger], folder: Path) -> tuple[list[str], int]:
    """Reserve, answer and settle, over every failure; what was answered, and how often it failed."""
    answered: list[str] = []
    failures = 0

    def try_it(act: Callable[[], object]) -> None:
        nonlocal failures
        try:
            act()
        except LedgerError:
            failures += 1

    def ask(ledger: Ledger, n: int) -> None:
        tickets = ledger.reserve("ann", [TENTH] * n, admit_all)
        answered.extend(tickets)
        for ticket, outcome in zip(tickets, ("answered", "failed"), strict=False):
            ledger.settle(ticket, outcome)  # type: ignore[arg-type]

    def open_and_ask(n: int) -> None:
        with kind(*paths(folder)) as ledger:
            try_it(lambda: ask(ledger, n))
            # A ledger goes on once a fault is gone.
            try_it(lambda: ledger.cancel(ledger.reserve("ann", [TENTH], admit_all)[0]))

    try_it(lambda: open_and_ask(2))
    try_it(lambda: open_and_ask(1))
    return answered, failures


@pytest.mark.parametrize("when", ["before", "after", "half", "ever since"])
def test_whichever_step_fails_what_was_answered_is_counted(when: When, tmp_path: Path) -> None:
    step, failed, answered = 0, 1, [""]
    while failed:
        step += 1
        folder = tmp_path / str(step)
        folder.mkdir()
        with failing(Fault(step, when)) as _:
            answered, failed = _work(Ledger, folder)
        check_after_a_crash(folder, answered)
        if when == "before" and step > 1:
            assert failed <= 1  # one fault costs one act
        shutil.rmtree(folder)
    assert step > 100
    assert len(answered) == 3


def test_a_fault_after_the_commit_costs_and_is_no_answer(tmp_path: Path) -> None:
    with Ledger(*paths(tmp_path)) as ledger:
        ledger.reserve("ann", [TENTH], admit_all)
        (tmp_path / "witness").rename(tmp_path / "elsewhere")
        (tmp_path / "elsewhere").rename(tmp_path / "witness")
        ledger._witness.advance = _fail  # type: ignore[method-assign]
        with pytest.raises(LedgerError, match="no room"):
            ledger.reserve("ann", [TENTH], admit_all)
        assert ledger.spent().n == 2
    with Ledger(*paths(tmp_path)) as ledger:
        assert ledger.spent().n == 2
    assert verify(*paths(tmp_path)) == 3


def _fail(mark: object) -> None:
    raise LedgerError("no room")


def _room(size: int) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most if size < 0 else size, most))


def test_a_disk_that_is_full_at_any_size_loses_no_answer(tmp_path: Path) -> None:
    refused = 0
    for size in range(0, 150_000, 2_777):
        folder = tmp_path / str(size)
        folder.mkdir()
        answered: list[str] = []
        failed = 0
        _room(size)
        try:
            answered, failed = _work(Ledger, folder)
        finally:
            _room(-1)
        check_after_a_crash(folder, answered)
        refused += failed > 0
    assert 10 < refused < 54


def test_a_ledger_that_skips_its_witness_makes_no_step_of_it(tmp_path: Path) -> None:
    """The faults reach the witness: a mutant without one has fewer steps to fail."""
    steps = {}
    for kind in (Ledger, SkipsItsWitness):
        fault = Fault(10**9, "before")
        folder = tmp_path / kind.__name__
        folder.mkdir()
        with failing(fault), suppress(LedgerError):
            _work(kind, folder)
        steps[kind] = fault.steps
    assert steps[SkipsItsWitness] < steps[Ledger]
