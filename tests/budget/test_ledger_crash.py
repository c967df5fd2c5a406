"""Killed, raced and forked: in processes of their own, which check themselves."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

_ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that other users may look into, unlike those of pytest."""
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def _run(act: str, folder: Path, ledger: str = "Ledger", number: int = 0) -> str:
    """What the program of that name has to complain about: nothing, where all is well."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.budget.ledger_children", act, str(folder), ledger, str(number)],
        cwd=_ROOT, env={**os.environ, "PYTHONWARNINGS": "error"}, timeout=300, check=False,
        capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode != 0) == bool(done.stderr), done.stderr
    return done.stderr


def test_a_killed_process_leaves_every_answer_counted(folder: Path) -> None:
    assert not _run("kill", folder, number=20)


@pytest.mark.slow
def test_killed_four_hundred_times_every_answer_is_counted(folder: Path) -> None:
    assert not _run("kill", folder, number=400)


def test_a_ledger_that_answers_first_does_not_survive_its_kills(folder: Path) -> None:
    assert "assert set(answered) <= counted" in _run("kill", folder, "AnswersFirst", 30)


def test_eight_processes_with_four_threads_get_what_fits_and_no_more(folder: Path) -> None:
    assert not _run("race", folder, number=40)


@pytest.mark.thorough
def test_eight_processes_that_begin_together_make_one_ledger(folder: Path) -> None:
    assert not _run("begin", folder, number=6)


def test_a_ledger_that_another_process_opens_and_closes_looks_whole(folder: Path) -> None:
    assert not _run("come_and_go", folder, number=300)


@pytest.mark.thorough
def test_a_ledger_that_reads_before_it_locks_loses_the_race(folder: Path) -> None:
    assert "assert len(tickets) == fit" in _run("race", folder, "ReadsThenWrites", 40)


@pytest.mark.thorough
def test_a_ticket_given_twice_is_found_after_the_race(folder: Path) -> None:
    assert "assert len(set(tickets)) == fit" in _run("race", folder, "GivesATicketTwice", 20)


def test_a_forked_child_goes_on_with_its_own_connection(folder: Path) -> None:
    assert not _run("fork", folder)


def test_a_connection_left_open_at_a_fork_loses_events_and_is_found_out(folder: Path) -> None:
    assert "LedgerError" in _run("fork", folder, "KeepsItsFileOpen")


def test_a_child_forked_in_the_middle_of_a_debit_is_not_held_up(folder: Path) -> None:
    assert not _run("fork_while_busy", folder)


def test_a_child_forked_inside_of_a_debit_has_no_part_in_it(folder: Path) -> None:
    assert not _run("fork_inside", folder)


def test_a_process_killed_during_a_debit_blocks_no_one(folder: Path) -> None:
    assert not _run("kill_inside", folder)


def test_a_budget_is_not_spent_again_in_a_second_history(folder: Path) -> None:
    assert not _run("two_histories", folder)


def test_a_ledger_that_lets_go_of_its_checkpoint_spends_a_budget_twice(folder: Path) -> None:
    assert "in two histories" in _run("two_histories", folder, "WritesItsCheckpointLater")


def test_who_may_not_write_may_read_and_is_told_so(folder: Path) -> None:
    assert not _run("without_rights", folder)
