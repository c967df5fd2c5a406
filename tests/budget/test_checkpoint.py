"""The checkpoint: it never goes back, whole at any moment."""

import os
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

import pytest

import dp_sql.budget.checkpoint
from dp_sql.budget.checkpoint import _SLOT, Checkpoint, CheckpointFile, _line
from dp_sql.errors import LedgerError

_HASHES = [f"{i:064x}" for i in range(100)]


def _at(number: int, ledger_id: str = "a" * 32) -> Checkpoint:
    return Checkpoint(ledger_id, number, _HASHES[number])


@pytest.fixture
def checkpoint(tmp_path: Path) -> CheckpointFile:
    return CheckpointFile(tmp_path / "checkpoint")


def test_without_a_file_there_is_no_at(checkpoint: CheckpointFile) -> None:
    assert checkpoint.read() is None
    assert not checkpoint.path.exists()


def test_it_returns_the_newest_at(checkpoint: CheckpointFile) -> None:
    for number in (1, 2, 3, 7, 8):
        checkpoint.advance(_at(number))
        assert CheckpointFile(checkpoint.path).read() == _at(number)


def test_it_never_goes_back(checkpoint: CheckpointFile) -> None:
    checkpoint.advance(_at(5))
    for number in (4, 1, 5):
        with pytest.raises(LedgerError, match="already has event 5"):
            checkpoint.advance(_at(number))
        assert checkpoint.read() == _at(5)


def test_it_never_goes_back_between_threads(checkpoint: CheckpointFile) -> None:

    def advance(numbers: Iterable[int]) -> None:
        for number in numbers:
            with suppress(LedgerError):
                checkpoint.advance(_at(number))

    threads = [threading.Thread(target=advance, args=[range(i, 80, 4)]) for i in range(1, 5)]
    for thread in threads:
        thread.start()
    seen = []
    while any(thread.is_alive() for thread in threads):
        found = checkpoint.read()
        seen.append(0 if found is None else found.number)
    assert seen == sorted(seen)
    assert checkpoint.read() == _at(79)


def test_it_takes_no_checkpoint_of_another_ledger(checkpoint: CheckpointFile) -> None:
    checkpoint.advance(_at(1))
    with pytest.raises(LedgerError, match="belongs to another ledger"):
        checkpoint.advance(_at(2, ledger_id="b" * 32))


def test_it_takes_no_other_hash_for_the_same_event(checkpoint: CheckpointFile) -> None:
    checkpoint.advance(_at(3))
    with pytest.raises(LedgerError, match="another history"):
        checkpoint.advance(Checkpoint("a" * 32, 3, _HASHES[4]))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("n_before", [0, 1, 2, 3])
def test_a_write_that_stops_at_any_byte_leaves_the_old_or_the_new(
    n_before: int, checkpoint: CheckpointFile
) -> None:
    for number in range(1, n_before + 1):
        checkpoint.advance(_at(number))
    before = checkpoint.path.read_bytes() if n_before else b""
    write, old, new = os.pwrite, _at(n_before) if n_before else None, _at(n_before + 1)
    for length in [*range(200), 4095, 4096]:
        checkpoint.path.write_bytes(before)
        with (
            patch.object(os, "pwrite", lambda f, data, at, n=length: write(f, data[:n], at)),
            patch("dp_sql.budget.checkpoint._SYNC", _killed),
            pytest.raises((LedgerError, _Killed)),
        ):
            checkpoint.advance(new)
        # Blanks follow the checkpoint as they did before, so a write may be whole before its end.
        whole = length == 4096 or _line(new) in checkpoint.path.read_bytes()
        assert length or not whole
        assert checkpoint.read() == (new if whole else old)
    checkpoint.path.write_bytes(before)
    checkpoint.advance(new)
    assert checkpoint.read() == new


def test_a_disk_that_fills_up_later_has_room_for_both_slots(checkpoint: CheckpointFile) -> None:
    """Else every query would be counted, and refused, once the disk is full."""
    checkpoint.advance(_at(1))
    assert checkpoint.path.stat().st_blocks * 512 >= 2 * _SLOT


class _Killed(BaseException):
    pass


def _killed(file: int) -> None:
    raise _Killed


def test_a_changed_byte_never_makes_another_at(checkpoint: CheckpointFile) -> None:
    for number in (1, 2, 3):
        checkpoint.advance(_at(number))
    raw = checkpoint.path.read_bytes()
    for i in [*range(200), 4095, *range(4096, 4296), 8191]:
        checkpoint.path.write_bytes(raw[:i] + bytes([raw[i] ^ (1 << i % 8)]) + raw[i + 1 :])
        # The slot with the newest checkpoint is the second; a torn write looks like damage to one slot.
        assert checkpoint.read() == (_at(2) if i >= 4096 else _at(3))


@pytest.mark.parametrize("raw", [b"x" * 8192, b"\0" * 8191 + b"x", b"x" * 20_000])
def test_a_file_without_a_whole_checkpoint_is_damaged(
    raw: bytes, checkpoint: CheckpointFile
) -> None:
    checkpoint.path.write_bytes(raw)
    with pytest.raises(LedgerError, match="is damaged"):
        checkpoint.read()
    with pytest.raises(LedgerError, match="is damaged"):
        checkpoint.advance(_at(1))
    assert checkpoint.path.read_bytes() == raw


@pytest.mark.parametrize("length", [0, 1, 4096, 8191])
def test_a_file_cut_off_has_no_at(length: int, checkpoint: CheckpointFile) -> None:
    checkpoint.advance(_at(1))
    checkpoint.advance(_at(2))
    checkpoint.path.write_bytes(checkpoint.path.read_bytes()[:length])
    assert checkpoint.read() is None


def test_a_file_that_cannot_be_read_is_an_error_and_not_missing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(LedgerError, match="cannot be read"):
        CheckpointFile(tmp_path / "folder").read()
    with pytest.raises(LedgerError, match="cannot be written"):
        CheckpointFile(tmp_path / "nowhere" / "checkpoint").advance(_at(1))


def test_a_lock_keeps_everyone_else_waiting(
    checkpoint: CheckpointFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dp_sql.budget.checkpoint._PATIENCE", 0.02)
    checkpoint.advance(_at(1))
    other = CheckpointFile(checkpoint.path)
    with checkpoint.locked() as locked:
        assert locked.newest == _at(1)
        for act in (other.read, lambda: other.advance(_at(2))):
            with pytest.raises(LedgerError, match="was locked by another process"):
                act()
        locked.advance(_at(2))
        with pytest.raises(LedgerError, match="already has event 2"):
            locked.advance(_at(2))
    assert other.read() == _at(2)
    other.advance(_at(3))


def test_it_is_not_made_where_one_must_be(checkpoint: CheckpointFile) -> None:
    with pytest.raises(LedgerError, match="is missing"), checkpoint.locked():
        pass
    assert not checkpoint.path.exists()
    with checkpoint.locked(make=True) as locked:
        assert locked.newest is None
        locked.advance(_at(1))
    assert checkpoint.read() == _at(1)


def test_a_file_put_in_its_place_while_it_is_held_takes_no_at(
    checkpoint: CheckpointFile, tmp_path: Path
) -> None:
    checkpoint.advance(_at(1))
    for replace in (lambda: (tmp_path / "copy").rename(checkpoint.path), checkpoint.path.unlink):
        (tmp_path / "copy").write_bytes(checkpoint.path.read_bytes())
        with checkpoint.locked() as locked, pytest.raises(LedgerError, match="was replaced"):
            replace()
            locked.advance(_at(2))
    (tmp_path / "copy").rename(checkpoint.path)
    assert checkpoint.read() == _at(1)


def test_waiting_for_a_file_that_is_gone_gets_the_file_in_its_place(
    checkpoint: CheckpointFile, tmp_path: Path
) -> None:
    """Else two could hold it at once, each in a file of its own."""
    checkpoint.advance(_at(1))
    CheckpointFile(tmp_path / "copy").advance(_at(2))
    found: list[Checkpoint | None] = []
    thread = threading.Thread(target=lambda: found.append(CheckpointFile(checkpoint.path).read()))
    with checkpoint.locked():
        thread.start()
        (tmp_path / "copy").rename(checkpoint.path)
    thread.join()
    assert found == [_at(2)]


def _interrupted(moment: int, checkpoint: CheckpointFile) -> bool:
    """Whether the lock was broken off, at the n-th moment at which Python may handle a signal."""
    left = moment

    def handle(_: object, event: str, __: object) -> None:
        nonlocal left
        left -= event in {"call", "c_return"}
        if not left:
            raise KeyboardInterrupt

    try:
        sys.setprofile(handle)
        with checkpoint.locked():
            pass
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
    return False


def test_a_signal_that_raises_at_any_moment_leaves_no_lock(
    checkpoint: CheckpointFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint.advance(_at(1))
    monkeypatch.setattr(dp_sql.budget.checkpoint, "_PATIENCE", 0.0)
    moment = 1
    while _interrupted(moment, checkpoint):
        assert checkpoint.read() == _at(1)
        with checkpoint.locked():
            pass
        moment += 1
    assert moment > 50
