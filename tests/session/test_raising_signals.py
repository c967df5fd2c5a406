"""A program's own signal handler may raise in the middle of a question: a timeout, or an exit."""

import _thread
import gc
import signal
import sys
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import dp_sql
from dp_sql.session.one_outcome import OneOutcome
from tests.budget.shop import POLICY, SHOP, SLOW, TOP, events
from tests.databases import write_database

QUESTION = TOP.format("0.1")


class TooLongError(Exception):
    """What a program raises after a while."""


@pytest.fixture
def alarm() -> Iterator[Callable[[float], None]]:
    """Raise TooLongError in the main thread after some seconds."""

    def ring(*_: object) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGALRM, ring)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds) and None
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def timed_out(
    folder: Path, is_slow: bool, deadline: float | None, alarm: Callable[[float], None]
) -> tuple[Any, float]:
    """All that is to be seen of a question that a handler broke off, and how long it took."""
    policy = folder / f"{is_slow}.toml"
    limits = "" if deadline is None else f"deadline_seconds = {deadline}\n"
    policy.write_text(POLICY.replace("[budget]", f"{limits}[budget]"), "utf-8")
    with dp_sql.connect(str(folder / "shop.duckdb"), policy=policy, analyst="ann") as session:
        private: Any = session._private
        right, running = private._run, list[str]()

        def run(sql: str, parameters: object = None) -> Any:
            if "__dp_sql_" not in sql:
                return right(sql, parameters)
            alarm(0.2)
            running.append(sql)
            try:
                return right(SLOW if is_slow else sql, parameters if not is_slow else ())
            finally:
                running.pop()

        private._run = run
        started = time.monotonic()
        with pytest.raises(TooLongError):
            session.sql(QUESTION)
            time.sleep(1)  # an answer that is delivered before the alarm
        passed = time.monotonic() - started
        del private._run
        assert not running
        shown = repr(session.receipts), session.releases
        assert len(session.sql(QUESTION).fetchall()) == 1  # the session goes on
    kinds = [event.kind for event in events(folder, f"{is_slow}.ledger.sqlite")][1:]
    return (*shown, kinds), passed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_database(tmp_path / "shop.duckdb", SHOP)
    return tmp_path


@pytest.mark.usefixtures("by_sql")
def test_a_handler_that_raises_does_not_show_whether_the_answer_was_ready(
    folder: Path, alarm: Callable[[float], None]
) -> None:
    ready, passed = timed_out(folder, False, 1.5, alarm)
    slow, passed_slow = timed_out(folder, True, 1.5, alarm)
    assert ready == slow and "it failed" in ready[0]
    assert ready[-1] == ["reserved", "failed", "reserved", "answered"]
    assert min(passed, passed_slow) >= 1.5


@pytest.mark.usefixtures("by_sql")
def test_without_a_deadline_a_handler_that_raises_stops_what_runs(
    folder: Path, alarm: Callable[[float], None]
) -> None:
    slow, passed = timed_out(folder, True, None, alarm)
    assert slow[-1] == ["reserved", "failed", "reserved", "answered"] and passed < 20


def test_an_exit_during_the_deadline_waits_for_it(alarm: Callable[[float], None]) -> None:
    started = time.monotonic()
    question = OneOutcome(Fraction(1, 2), lambda: None)

    def leave(*_: object) -> None:
        raise SystemExit(3)

    signal.signal(signal.SIGALRM, leave)
    with question.shielded(), pytest.raises(SystemExit), question.interruptible():
        alarm(0.1)
        assert question.run(lambda: 1) is None
        question.check(is_spent=True)
    assert time.monotonic() - started >= 0.5


def _raised_at(moment: int, run: Callable[[], object]) -> bool:
    """Run something, and raise in this thread at some call or return; whether it came to that."""
    left = moment

    def handle(_: object, event: str, __: object) -> None:
        nonlocal left
        left -= event in {"call", "c_return"}
        if not left:
            raise TooLongError

    gc.disable()  # what Python calls to collect other tests' sessions may not raise
    try:
        sys.setprofile(handle)
        run()
    except TooLongError:
        pass
    finally:
        sys.setprofile(None)
        gc.enable()
    return left <= 0


def test_control_c_works_after_a_handler_has_raised_at_any_moment() -> None:
    def shield() -> None:
        with OneOutcome(None, lambda: None).shielded():
            pass

    moment = 1
    while _raised_at(moment, shield):
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        moment += 1
    assert moment > 5


def test_no_question_outlives_its_call_when_a_handler_raises_at_any_moment() -> None:
    """One raises while the thread is started: it works on, and the call returned at once."""
    counts = [0, 0]  # of begun and of ended work

    def work() -> None:
        counts[0] += 1
        time.sleep(0.003)
        counts[1] += 1

    moment, is_raised = 1, True
    while is_raised:
        before, question = counts[0], OneOutcome(Fraction(1, 100), lambda: None)
        started = time.monotonic()
        is_raised = _raised_at(moment, partial(question.run, work))
        assert counts[0] == counts[1] <= before + 1
        assert counts[0] == before or time.monotonic() - started >= 0.01
        moment += 1
    time.sleep(0.01)
    assert counts[0] == counts[1] > 10


def test_a_question_for_which_there_is_no_thread_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_thread, "start_new_thread", start)
    with pytest.raises(RuntimeError, match="new thread"):
        OneOutcome(None, lambda: None).run(lambda: 1)
