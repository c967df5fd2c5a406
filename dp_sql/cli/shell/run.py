"""One question at work: in a thread of its own, with a line of progress, until Ctrl-C stops it.

Knows threads, signals and a terminal. Does not know what the question is: it gets an act that
writes its answer, and a way to stop it.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import TextIO

from dp_sql.cli.bars import bar

Write = Callable[[str], object]
_FIRST = 0.5  # seconds before the first line of progress
_PAUSE = 0.1
_WIDTH = 20
_WIPE = "\r\x1b[K"


class Line:
    """The line of progress: drawn while a question runs, gone before its answer is written."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._is_drawn = self._is_over = False

    def draw(self, text: str) -> None:
        """Show a text in place of the last one; nothing where there is no terminal."""
        with self._lock:
            if self._stream is not None and not self._is_over:
                self._stream.write(_WIPE + text)
                self._stream.flush()
                self._is_drawn = True

    def end(self) -> None:
        """Wipe the line, for good."""
        with self._lock:
            if self._stream is not None and self._is_drawn and not self._is_over:
                self._stream.write(_WIPE)
                self._stream.flush()
            self._is_over = True


def run(
    act: Callable[[Write], None],
    write: Write,
    interrupt: Callable[[], None],
    share: Callable[[], float | None],
    terminal: TextIO | None,
) -> None:
    """Run an act to its end.

    Args:
        act: does the work and hands each part of its answer to the function it gets.
        write: where these parts go.
        interrupt: makes the act fail soon; called until it has.
        share: how much is done, in percent; None where that is not known, or is not to be shown.
        terminal: where the line of progress is drawn.

    Raises:
        KeyboardInterrupt: the act was stopped by Ctrl-C.
        Exception: what the act raised.
    """
    line = Line(terminal)
    done, stop = threading.Event(), threading.Event()
    raised: list[BaseException] = []

    def say(text: str) -> None:
        line.end()
        if stop.is_set():
            raise InterruptedError
        write(text)

    def work() -> None:
        try:
            act(say)
        except BaseException as error:
            raised.append(error)
        finally:
            done.set()

    with _control_c(stop):
        threading.Thread(target=work, name="dp-sql question", daemon=True).start()
        started = time.monotonic()
        while not done.wait(_PAUSE):
            if stop.is_set():  # again and again: it may not have begun, or go on to a next step
                interrupt()
            passed = time.monotonic() - started
            if passed >= _FIRST:
                line.draw(_progress(passed, None if stop.is_set() else share(), stop.is_set()))
    line.end()
    if raised and stop.is_set():
        raise KeyboardInterrupt
    if raised:
        raise raised[0]


@contextlib.contextmanager
def _control_c(stop: threading.Event) -> Iterator[None]:
    """Ctrl-C sets an event, and interrupts no Python code of ours half-way.

    The quit key does nothing: what it leaves behind may hold rows of the database.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda *_: stop.set())
    before_quit = signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        signal.signal(signal.SIGQUIT, before_quit)


def _progress(passed: float, percent: float | None, is_stopping: bool) -> str:
    """The line's text.

    >>> _progress(1.25, 50.0, False)
    '██████████░░░░░░░░░░   50 %  1.2 s  Ctrl-C stops it'
    """
    if is_stopping:
        return f"{passed:.1f} s  stopping …"
    drawn = ""
    if percent is not None and 0 <= percent <= 100:
        drawn = f"{bar(Fraction(int(percent), 100), _WIDTH)}  {int(percent):3} %  "
    return f"{drawn}{passed:.1f} s  Ctrl-C stops it"
