"""The checkpoint of a ledger: how far it had come, and the hash of its last event. Knows no losses.

A ledger that is lost or replaced by an older copy looks whole; only something outside it can show
that. So the newest event's number and hash are kept in a second file, best on another disk.

The file has two slots, each a line with its own checksum, in blocks of their own. A checkpoint is
written over the older slot and synced, so a torn write leaves the other slot as it was; and such a
write has not returned, so no answer depends on it.

A reservation locks the file from before the ledger is read until the new checkpoint is written. A
ledger that is reached by two names has two logs, and so two histories; they share this lock, and
the history that the checkpoint is not in is refused.
"""

import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from dp_sql.errors import LedgerError
from dp_sql.files import open_private

ADOPT = ("Restore it; or, if you are sure that this ledger is the newest, run "
         "`dp-sql ledger checkpoint LEDGER`.")  # fmt: skip
_SLOT, _PATIENCE = 4096, 30.0  # bytes; seconds to wait for another process
# Without the file's time of change, where the system can: it costs a write of its own.
_SYNC = getattr(os, "fdatasync", os.fsync)


def default_checkpoint(ledger: Path) -> Path:
    """The checkpoint's file where none is named: in the ledger's folder, under its older name."""
    return Path(f"{ledger}.witness")


class Checkpoint(NamedTuple):
    """How far a ledger had come: its id, and the number and hash of an event it must contain."""

    ledger_id: str
    number: int
    hash: str


class CheckpointFile:
    """The file with the newest checkpoint; safe between threads and processes.

    Every method raises LedgerError if the file is damaged, or cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    def read(self) -> Checkpoint | None:
        """The newest checkpoint; None if there is no file, or its first write was not finished."""
        with _plain_errors(self.path, "read"):
            try:
                file = _open_locked(self.path, os.O_RDONLY, fcntl.LOCK_SH)
            except FileNotFoundError:
                return None
            try:
                return _newest(self.path, file)[0]
            finally:
                os.close(file)

    @contextmanager
    def locked(self, *, make: bool = False) -> Iterator["LockedCheckpoint"]:
        """Keep others from reading and writing it; the lock ends with the process.

        With `make`, create the file if it does not exist.
        """
        owner, flags = os.getpid(), os.O_RDWR | (os.O_CREAT if make else 0)
        file: int | None = None
        try:  # around every step: a signal's handler may raise at any
            with _plain_errors(self.path, "written"):
                if not make and not self.path.exists():
                    raise LedgerError(f"The checkpoint {self.path} is missing. {ADOPT}")
                file = _open_locked(self.path, flags, fcntl.LOCK_EX)
            with _plain_errors(self.path, "read"):
                locked = LockedCheckpoint(self.path, file)
            yield locked
        finally:
            try:
                # A child that was forked meanwhile shares the lock, and must not undo it.
                if file is not None and os.getpid() == owner:
                    fcntl.flock(file, fcntl.LOCK_UN)
            finally:
                if file is not None:
                    os.close(file)

    def advance(self, checkpoint: Checkpoint) -> None:
        """Lock the file, created if need be, and write a newer checkpoint."""
        with self.locked(make=True) as locked:
            locked.advance(checkpoint)


class LockedCheckpoint:
    """A checkpoint file that no one else may read or write; `newest` is what it had at first."""

    def __init__(self, path: Path, file: int) -> None:
        self._path, self._file = path, file
        self.newest, _ = _newest(path, file)

    def advance(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint durably; LedgerError if it is not newer, or of another ledger."""
        path = self._path
        with _plain_errors(path, "written"):
            if not _is_at(self._file, path):
                raise LedgerError(f"The checkpoint {path} was replaced while it was written.")
            newest, slot = _newest(path, self._file)
            if newest is not None and newest.ledger_id != checkpoint.ledger_id:
                raise LedgerError(f"The checkpoint {path} belongs to another ledger.")
            if newest is not None and newest.number >= checkpoint.number:
                raise LedgerError(
                    f"The checkpoint {path} already has event {newest.number}, of another history "
                    f"of this ledger. Nothing is answered for event {checkpoint.number}."
                )
            line = _line(checkpoint)
            if newest is None:  # take the room of both slots: a full disk must fail here, for free
                os.pwrite(self._file, bytes(_SLOT), 0)
            if os.pwrite(self._file, line, slot * _SLOT) != len(line):
                raise LedgerError(f"The checkpoint {path} was not written in full.")
            _SYNC(self._file)
            if newest is None:
                with descriptor(path.parent) as folder:
                    os.fsync(folder)


@contextmanager
def descriptor(path: Path) -> Iterator[int]:
    """A descriptor of a file or folder: to lock it, or to wait until it is on the disk."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield file
    finally:
        os.close(file)


@contextmanager
def _plain_errors(path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise LedgerError(f"The checkpoint {path} cannot be {what}: {why}.") from error


def _open_locked(path: Path, flags: int, how: int) -> int:
    """The file of that name, open and locked; never one that had the name before."""
    end = time.monotonic() + _PATIENCE
    while True:
        file = open_private(path, flags)
        try:
            _wait_for_lock(path, file, how, end)
            if _is_at(file, path):
                return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def _wait_for_lock(path: Path, file: int, how: int, end: float) -> None:
    pause = 0.0002
    while True:
        try:
            return fcntl.flock(file, how | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                locked = f"was locked by another process for {_PATIENCE:.0f} seconds"
                raise LedgerError(f"The checkpoint {path} {locked}. Try again.") from None
        time.sleep(pause)
        pause = min(2 * pause, 0.01)


def _is_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False


def _newest(path: Path, file: int) -> tuple[Checkpoint | None, int]:
    """The newest checkpoint in an open file, and the slot that may be written over."""
    raw = os.pread(file, 2 * _SLOT + 1, 0)
    if len(raw) < 2 * _SLOT or not raw.strip(b"\0"):
        return None, 1  # written from the end, so that a first write is complete or too short
    first, second = _parsed(raw[:_SLOT]), _parsed(raw[_SLOT:])
    if len(raw) > 2 * _SLOT or (first is None and second is None):
        raise LedgerError(
            f"The checkpoint {path} is damaged. Restore it; or, if you are sure that the ledger is "
            "the newest, move it away and run `dp-sql ledger checkpoint LEDGER`."
        )
    if second is None or (first is not None and first.number > second.number):
        return first, 1
    return second, 0


def _line(checkpoint: Checkpoint) -> bytes:
    # "witness" is what the first version called a checkpoint; the format has not changed.
    text = f"dp_sql witness 1 {checkpoint.ledger_id} {checkpoint.number} {checkpoint.hash}"
    line = f"{text} {hashlib.sha256(text.encode()).hexdigest()}"
    return line.encode().ljust(_SLOT - 1) + b"\n"


@lru_cache(maxsize=8)  # of two slots, at most one is new each time
def _parsed(slot: bytes) -> Checkpoint | None:
    """The checkpoint in a slot; None where not every byte is as it would be written."""
    try:
        _, _, _, ledger_id, number, digest, _ = slot.decode("ascii").split()
        found = Checkpoint(ledger_id, int(number), digest)
    except ValueError:
        return None
    return found if _line(found) == slot else None
