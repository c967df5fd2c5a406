"""One question of an analyst while private rows are read: its deadline and its interrupts.

Once its cost is in the ledger, a question has one outcome except for its answer:

- An interrupt (Ctrl-C, `session.interrupt()`) would show whether the answer was ready. Here it only
  marks the question as abandoned: its answer is thrown away, ready or not.
- A signal could skip a step. Here the work runs in a thread that no signal reaches, and the thread
  that asked waits for it and for the deadline, even if a handler of the program's raises meanwhile.
"""

import _thread
import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import TypeVar

from dp_sql.errors import QueryError

T = TypeVar("T")
INTERRUPTED = "The query was interrupted. Its cost is spent."
INTERRUPTED_UNSPENT = "The query was interrupted before anything was spent."
_PAUSE = 0.05  # seconds between two attempts to stop abandoned work
_TRIES = 10  # to start the work


class OneOutcome:
    """One question from its start to its answer.

    Its work ends at a multiple of the deadline (seconds) from now; None: when it is done. `stop`
    stops the engine, and is called until the work has ended.
    """

    def __init__(self, deadline: Fraction | None, stop: Callable[[], None]) -> None:
        self._started = time.monotonic()
        self._deadline = deadline
        self._stop = stop
        self.is_abandoned = False  # set from any thread: its answer is thrown away, ready or not
        self._is_pressed = False
        self._raised: BaseException | None = None  # by a signal's handler, during the work
        self._is_lost: bool | None = None  # decided once, when the work has ended
        self._is_spent = False

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """Raise one constant error for whatever an interrupt breaks, before and after the work."""
        try:
            yield
        except Exception as error:
            if not self.is_abandoned or self._is_lost is False or error is self._raised:
                raise
        else:
            return
        raise QueryError(INTERRUPTED if self._is_spent else INTERRUPTED_UNSPENT)

    @contextlib.contextmanager
    def shielded(self) -> Iterator[None]:
        """Let Ctrl-C abandon the question and do nothing else; `check` raises it afterwards."""
        in_main = threading.current_thread() is threading.main_thread()
        before = signal.getsignal(signal.SIGINT) if in_main else None
        if before in {None, signal.SIG_IGN}:  # another thread's signal, or ignored by the process
            yield
            return

        is_over = False

        def press(*_: object) -> None:
            if is_over:  # another signal's handler raised, and kept `before` from coming back
                signal.signal(signal.SIGINT, before)
                signal.raise_signal(signal.SIGINT)
            self._is_pressed = self.is_abandoned = True

        try:
            signal.signal(signal.SIGINT, press)
            yield
        finally:
            is_over = True
            signal.signal(signal.SIGINT, before)
            if self._is_pressed and self._is_lost is False:  # too late: raise it again now
                signal.raise_signal(signal.SIGINT)

    def run(self, work: Callable[[], T]) -> T | None:
        """Do the work, and return at the deadline or its next multiple; None: it failed.

        Whether the question was abandoned is decided when this returns; after that it is too late.
        """
        answers, ended = list[T](), list[bool]()
        # No Event, and no Thread, which has one: one that is left by an exception can stay locked.
        begun, ending = threading.Lock(), threading.Lock()
        ending.acquire()
        self._is_spent = True

        def act() -> None:
            if not begun.acquire(blocking=False):
                return  # another thread does it
            try:
                with contextlib.suppress(Exception):  # of any kind: a rare kind would show as much
                    answers.append(work())
            finally:
                ended.append(True)
                ending.release()

        n_raised, is_over = 0, False
        while not is_over:
            try:  # around every step: a signal's handler may raise at any
                if not begun.locked():
                    _thread.start_new_thread(act, ())
                while not ended:
                    ending.acquire(timeout=_PAUSE)
                    if self.is_abandoned and not ended:
                        self._stop()
                self._wait_for_deadline()
                is_over = True
            except BaseException as error:  # it is abandoned like any other, and `check` raises it
                self.is_abandoned, self._raised, n_raised = True, error, n_raised + 1
                if n_raised >= _TRIES and begun.acquire(blocking=False):
                    raise  # there can be no more threads; nothing was read
        self._is_lost = self.is_abandoned
        return answers[0] if answers and not self._is_lost else None

    def _wait_for_deadline(self) -> None:
        if self._deadline is not None:
            passed = Fraction(time.monotonic() - self._started)
            time.sleep(float(-passed % self._deadline))  # a signal does not end it

    def check(self, *, is_spent: bool) -> None:
        """Raise if the question was abandoned: the same error, however the work ended."""
        is_lost = self.is_abandoned if self._is_lost is None else self._is_lost
        if is_lost and self._raised is not None:
            raise self._raised
        if is_lost and self._is_pressed:
            raise KeyboardInterrupt
        if is_lost:
            raise QueryError(INTERRUPTED if is_spent else INTERRUPTED_UNSPENT)
