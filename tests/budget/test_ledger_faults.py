"""What fails while a ledger is written: nothing is answered that does not count."""

import resource
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dp_sql.budget.integrity import verify
from dp_sql.budget.ledger import Ledger
from dp_sql.errors import LedgerError
from tests.budget.ledger_checks import (
    TENTH,
    AnswersFirst,
    admit_all,
    check_after_a_crash,
    folder_in_memory,
    paths,
)
from tests.budget.ledger_faults import Fault, When, failing


@pytest.fixture
def folder() -> Iterator[Path]:
    yield from folder_in_memory()


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
            ledger.settle({ticket: outcome})  # type: ignore[arg-type]

    def open_and_ask(n: int) -> None:
        with kind(*paths(folder)) as ledger:
            try_it(lambda: ask(ledger, n))
            # A ledger goes on once a fault is gone.
            try_it(lambda: ledger.cancel(ledger.reserve("ann", [TENTH], admit_all)[0]))

    try_it(lambda: open_and_ask(2))
    try_it(lambda: open_and_ask(1))
    return answered, failures


def _fail_at_each_step(kind: type[Ledger], when: When, folder: Path) -> int:
    """Let step 1, 2, 3, … fail until none does; how many steps there are."""
    step, failed = 0, 1
    while failed:
        step += 1
        home = folder / str(step)
        home.mkdir()
        with failing(Fault(step, when)):
            answered, failed = _work(kind, home)
        check_after_a_crash(home, answered)
        assert failed <= 1 or when == "ever since"  # one fault costs one act
        shutil.rmtree(home)
    assert len(answered) == 3
    return step - 1


@pytest.mark.thorough
@pytest.mark.parametrize(
    "when",
    [
        "half",
        "ever since",
        pytest.param("before", marks=pytest.mark.slow),
        pytest.param("after", marks=pytest.mark.slow),
    ],
)
def test_whichever_step_fails_what_was_answered_is_counted(when: When, folder: Path) -> None:
    assert _fail_at_each_step(Ledger, when, folder) > 100


def test_a_ledger_that_answers_first_does_not_survive_its_faults(folder: Path) -> None:
    with pytest.raises(AssertionError):
        _fail_at_each_step(AnswersFirst, "half", folder)


def test_a_checkpoint_that_cannot_be_written_costs_and_gives_no_answer(folder: Path) -> None:
    ledger, checkpoint = paths(folder)
    with Ledger(ledger, checkpoint) as opened:
        opened.reserve("ann", [TENTH], admit_all)
        with failing(_FirstWriteOfAWitness()), pytest.raises(LedgerError, match="is spent"):
            opened.reserve("ann", [TENTH], admit_all)
        assert opened.spent().n == 2
    with Ledger(ledger, checkpoint) as opened:
        assert opened.spent().n == 2
    assert verify(ledger, checkpoint) == 3


def test_no_error_of_sqlite_or_the_system_escapes(folder: Path) -> None:
    acts: list[Callable[[Ledger], object]] = [
        lambda ledger: ledger.spent("ann"),
        lambda ledger: ledger.analysts(),
        lambda ledger: list(ledger.events()),
        lambda ledger: ledger.settle({ledger.reserve("ann", [TENTH], admit_all)[0]: "failed"}),
    ]
    for act in acts:
        refusals = 0
        while not _succeeds(act, refusals + 1, folder):
            refusals += 1
        assert refusals > 10


def _succeeds(act: Callable[[Ledger], object], step: int, folder: Path) -> bool:
    """Whether it is done although a step fails; no other error than ours passes."""
    try:
        with failing(Fault(step, "before")), Ledger(*paths(folder)) as ledger:
            act(ledger)
    except LedgerError:
        return False
    return True


class _FirstWriteOfAWitness(Fault):
    def __init__(self) -> None:
        super().__init__(at=1, when="before")

    def step(
        self, do: Callable[[], object], half: Callable[[], object], error: Exception
    ) -> object:
        if isinstance(error, OSError):
            raise error
        return do()


def _room(size: int | None) -> None:
    """The largest size that a file may grow to; None: as large as ever."""
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most if size is None else size, most))


@pytest.mark.thorough
def test_files_that_cannot_grow_at_any_size_lose_no_answer(folder: Path) -> None:
    sizes = range(0, 150_000, 2_777)
    refused = 0
    for size in sizes:
        home = folder / str(size)
        home.mkdir()
        _room(size)
        try:
            answered, failed = _work(Ledger, home)
        finally:
            _room(None)
        check_after_a_crash(home, answered)
        refused += failed > 0
    assert 10 < refused < len(sizes)
