"""A program that forks children which use one ledger, kills them, and checks what they leave.

Run as `python -m tests.budget.ledger_children ACT FOLDER LEDGER NUMBER`; a process of its own,
since a test run has threads and may not fork.
"""

import fcntl
import os
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

from dp_sql.budget.checkpoint import CheckpointFile, LockedCheckpoint
from dp_sql.budget.integrity import verify
from dp_sql.budget.ledger import Ledger
from dp_sql.budget.store import is_whole, side_files
from dp_sql.errors import BudgetExceeded, LedgerError
from tests.budget.ledger_checks import (
    KINDS,
    TENTH,
    admit_all,
    at_most,
    check_after_a_crash,
    check_what_was_raced_for,
    paths,
    tickets_in,
)

_PROCESSES, _THREADS = 8, 4


def kill(folder: Path, kind: type[Ledger], kills: int) -> None:
    """Kill a child at work so many times, each ten times at one ledger, and check after each."""
    answered = 0
    for i in range(kills):
        home = folder / str(i // 10)
        home.mkdir(exist_ok=True)
        child = _child(lambda home=home: _work(kind, home))  # type: ignore[misc]
        while i % 10 == 0 and len(tickets_in(home / "answered")) < 2:
            time.sleep(0.001)  # however slow the machine is, something is answered
        time.sleep(i * 7 % 40 / 1000)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        answered += check_after_a_crash(home, tickets_in(home / "answered"))
    assert answered > kills  # else the children were killed before they did anything


def race(folder: Path, kind: type[Ledger], fit: int) -> None:
    """Let processes and threads reserve until nothing is left; `fit` reservations fit."""
    Ledger(*paths(folder)).close()
    start, go = os.pipe()
    children = [_child(lambda i=i: _race(folder, kind, fit, i, start)) for i in range(_PROCESSES)]  # type: ignore[misc]
    os.write(go, b"x" * _PROCESSES)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * _PROCESSES
    logs = [tickets_in(folder / f"tickets{i}") for i in range(_PROCESSES)]
    check_what_was_raced_for(folder, [ticket for log in logs for ticket in log], fit)


def begin(folder: Path, kind: type[Ledger], rounds: int) -> None:
    """Let processes make the same new ledger at the same moment; each reserves once."""
    for i in range(rounds):
        home = folder / str(i)
        home.mkdir()
        start, go = os.pipe()

        def open_and_reserve(home: Path = home, start: int = start) -> None:
            os.read(start, 1)
            with kind(*paths(home)) as ledger:
                ledger.reserve("ann", [TENTH], admit_all)

        children = [_child(open_and_reserve) for _ in range(_PROCESSES)]
        os.write(go, b"x" * _PROCESSES)
        assert [os.waitpid(child, 0)[1] for child in children] == [0] * _PROCESSES
        assert verify(*paths(home)) == 1 + _PROCESSES


def come_and_go(folder: Path, kind: type[Ledger], rounds: int) -> None:
    """SQLite deletes the log whenever the last one closes; the ledger looks whole throughout."""
    kind(*paths(folder)).close()

    def open_and_close() -> None:
        for _ in range(rounds):
            kind(*paths(folder)).close()

    child = _child(open_and_close)
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        assert is_whole(paths(folder)[0])


def fork(folder: Path, kind: type[Ledger], _: int) -> None:
    """A child goes on with its parent's ledger, also once the parent has closed it."""
    ledger = kind(*paths(folder))
    ledger.reserve("ann", [TENTH], admit_all)
    closed, tell = os.pipe()

    def go_on() -> None:
        ledger.reserve("ann", [TENTH], admit_all)
        os.read(closed, 1)
        (ticket,) = ledger.reserve("ann", [TENTH], admit_all)
        ledger.settle({ticket: "answered"})
        assert ledger.spent().n == 4
        ledger.close()

    child = _child(go_on)
    ledger.reserve("ann", [TENTH], admit_all)
    while ledger.spent().n < 3:
        time.sleep(0.001)
    ledger.close()
    os.write(tell, b"x")
    assert os.waitpid(child, 0)[1] == 0
    assert verify(*paths(folder)) == 6


def fork_while_busy(folder: Path, kind: type[Ledger], _: int) -> None:
    """A child is born while another thread of its parent decides, and is not held up."""
    ledger = kind(*paths(folder))
    deciding = threading.Event()

    def admit_slowly(*_: object) -> None:
        deciding.set()
        time.sleep(0.05)

    thread = threading.Thread(target=lambda: ledger.reserve("ann", [TENTH], admit_slowly))
    thread.start()
    deciding.wait()
    child = _child(lambda: (signal.alarm(60), ledger.reserve("bob", [TENTH], admit_all)))
    assert os.waitpid(child, 0)[1] == 0
    thread.join()
    assert ledger.spent().n == 2
    ledger.close()


def fork_inside(folder: Path, kind: type[Ledger], _: int) -> None:
    """A child born inside of its parent's debit writes nothing, and lets go of nothing."""
    ledger = kind(*paths(folder))
    told, tell = os.pipe()

    def fork_and_go_on(*_: object) -> None:
        if os.fork():
            assert os.read(told, 1) == b"x"
            with open(paths(folder)[1]) as checkpoint, suppress(BlockingIOError):
                fcntl.flock(checkpoint, fcntl.LOCK_SH | fcntl.LOCK_NB)
                raise AssertionError("the child let go of the checkpoint")

    parent = os.getpid()
    try:
        ledger.reserve("ann", [TENTH], fork_and_go_on)
    except LedgerError as error:
        left = os.getpid() != parent and "left behind in a fork" in str(error)
        os.write(tell, b"x" if left else b"-")
        os._exit(0)
    ledger.reserve("ann", [TENTH], admit_all)
    ledger.close()
    assert os.wait()[1] == 0
    assert verify(*paths(folder)) == 3


def kill_inside(folder: Path, kind: type[Ledger], _: int) -> None:
    """A process that is killed while it holds the checkpoint blocks no other."""
    Ledger(*paths(folder)).close()
    deciding, tell = os.pipe()

    def decide_for_ever(*_: object) -> None:
        os.write(tell, b"x")
        signal.pause()

    child = _child(lambda: kind(*paths(folder)).reserve("ann", [TENTH], decide_for_ever))
    os.read(deciding, 1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    signal.alarm(60)
    with kind(*paths(folder)) as ledger:
        ledger.reserve("bob", [TENTH], admit_all)
    assert verify(*paths(folder)) == 2


def two_histories(folder: Path, kind: type[Ledger], _: int) -> None:
    """The log is taken away from under one who reserves; another one begins a second log.

    The first is at its slowest once it has committed and before its checkpoint knows.
    """
    Ledger(*paths(folder)).close()
    committed, tell = os.pipe()
    done, go = os.pipe()

    def slowly(act: Callable[..., None]) -> Callable[..., None]:
        def advance(*given: Any) -> None:
            os.write(tell, b"x")
            select.select(
                [done], [], [], 0.5 if kind is Ledger else 60
            )  # the right one waits in vain
            act(*given)

        return advance

    def first() -> None:
        with kind(*paths(folder)) as ledger:
            for file in side_files(ledger.path):
                file.unlink(missing_ok=True)
            with (
                patch.object(LockedCheckpoint, "advance", slowly(LockedCheckpoint.advance)),
                patch.object(CheckpointFile, "advance", slowly(CheckpointFile.advance)),
            ):
                _try_to_reserve(ledger, folder / "first")
            select.select([done], [], [], 60)  # closing would write the log into the file

    def second() -> None:
        os.read(committed, 1)
        with suppress(LedgerError, BudgetExceeded), kind(*paths(folder)) as ledger:
            _try_to_reserve(ledger, folder / "second")
        os.write(go, b"x")

    children = [_child(first), _child(second)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    tickets = [ticket for log in ("first", "second") for ticket in tickets_in(folder / log)]
    assert len(tickets) <= 1, "a budget of one loss was spent in two histories"
    assert tickets  # else there was no race


def _try_to_reserve(ledger: Ledger, log: Path) -> None:
    (ticket,) = ledger.reserve("ann", [TENTH], at_most(TENTH.epsilon))
    log.write_text(f"{ticket}\n")


def without_rights(folder: Path, kind: type[Ledger], _: int) -> None:
    """A process that may not write gets an error that says so, and nothing changes."""
    ledger, checkpoint = paths(folder)
    with kind(ledger, checkpoint) as opened:
        opened.reserve("ann", [TENTH], admit_all)
    before = {file: file.read_bytes() for file in folder.iterdir()}
    ledger.chmod(0o444)
    checkpoint.chmod(0o444)
    folder.chmod(0o555)

    def try_it() -> None:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        for read_only in (False, True):
            try:
                with kind(ledger, checkpoint, read_only=read_only) as opened:
                    opened.reserve("ann", [TENTH], admit_all)
                raise AssertionError("a loss was reserved in a file that is read-only")
            except LedgerError as error:
                assert "cannot be" in str(error) or "read-only" in str(error), error
        with kind(ledger, checkpoint, read_only=True) as opened:
            assert opened.spent().n == 1
        verify(ledger, checkpoint)

    assert os.waitpid(_child(try_it), 0)[1] == 0
    folder.chmod(0o755)
    assert {file: file.read_bytes() for file in folder.iterdir()} == before


def _child(act: Callable[[], object]) -> int:
    child = os.fork()
    if child:
        return child
    try:
        act()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def _work(kind: type[Ledger], home: Path) -> None:
    log = os.open(home / "answered", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    ledger = kind(*paths(home))

    def loop(name: str) -> None:
        for i in range(10**6):
            (ticket,) = ledger.reserve(name, [TENTH], admit_all)
            if i % 5 == 4:
                ledger.cancel(ticket)
                continue
            os.write(log, f"{ticket}\n".encode())
            ledger.settle({ticket: "failed" if i % 3 == 2 else "answered"})

    for name in ("ann", "bob", "cid"):
        threading.Thread(target=loop, args=[name]).start()
    signal.pause()


def _race(folder: Path, kind: type[Ledger], fit: int, i: int, start: int) -> None:
    budget = fit * TENTH.epsilon + TENTH.epsilon // 2
    log = os.open(folder / f"tickets{i}", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    ledger = kind(*paths(folder))
    os.read(start, 1)
    failures: list[BaseException] = []

    def loop() -> None:
        try:
            while True:
                (ticket,) = ledger.reserve(f"analyst {i % 3}", [TENTH], at_most(budget))
                os.write(log, f"{ticket}\n".encode())
                ledger.settle({ticket: "answered"})
        except BudgetExceeded:
            pass
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=loop) for _ in range(_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ledger.close()
    if failures:
        raise failures[0]


ACTS = {
    act.__name__: act
    for act in (
        kill, race, begin, come_and_go, fork, fork_while_busy, fork_inside, kill_inside, two_histories,
        without_rights,
    )
}  # fmt: skip

if __name__ == "__main__":
    ACTS[sys.argv[1]](Path(sys.argv[2]), KINDS[sys.argv[3]], int(sys.argv[4]))
