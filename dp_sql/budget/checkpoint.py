"""The second place: how far a ledger had come, and what its last hash was. Knows no losses.

A ledger that is lost or put back to an older copy looks whole; only something outside of it can
tell. The witness is that: one mark, kept in another file, best on another disk.

The file has two slots, each a line with its own checksum, in blocks of their own. A mark is written
over the older slot and made durable, so a torn write leaves the other slot as it was. Such a
write has not returned, so nothing hangs on it.

Whoever reserves holds the witness from before the ledger is read until the mark is written. A
ledger that is reached by two names has two logs, and so two histories; they share this lock, and
the one that the mark is not in is refused.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dp_sql.errors import LedgerError
from dp_sql.files import open_private

ADOPT = (
    "Restore it; or, where you are sure that this ledger is the newest, run "
    "`dp-sql ledger witness LEDGER`."
)
_SLOT = 4096
_PATIENCE = 30.0  # seconds to wait for another process
# Without the file's time of change, where the system has that: it costs a write of its own.
_SYNC = getattr(os, "fdatasync", os.fsync)


@dataclass(frozen=True)
class Mark:
    """How far a ledger had come: its id, and the number and hash of an event that it must hold."""

    ledger_id: str
    number: int
    hash: str


class Held:
    """A witness that nobody else may read or write meanwhile.

    mark: the newest mark, as it was found.
    """

    def __init__(self, path: Path, file: int) -> None:
        self._path, self._file = path, file
        self.mark, _ = _newest(path, file)

    def advance(self, mark: Mark) -> None:
        """Write a newer mark durably.

        Raises:
            LedgerError: the mark is not newer, or is of another ledger; the file is damaged,
                was replaced, or cannot be written.
        """
        with _in_words(self._path, "written"):
            if not _is_at(self._file, self._path):
                raise LedgerError(f"The witness {self._path} was replaced while it was written.")
            newest, slot = _newest(self._path, self._file)
            if newest is not None:
                self._check_newer(newest, mark)
            line = _line(mark)
            if os.pwrite(self._file, line, slot * _SLOT) != len(line):
                raise LedgerError(f"The witness {self._path} was not written in full.")
            _SYNC(self._file)
            if newest is None:
                _sync_folder(self._path.parent)

    def _check_newer(self, newest: Mark, mark: Mark) -> None:
        if newest.ledger_id != mark.ledger_id:
            raise LedgerError(f"The witness {self._path} belongs to another ledger.")
        if newest.number >= mark.number:
            raise LedgerError(
                f"The witness {self._path} has seen event {newest.number} already, in another "
                f"history of this ledger. Nothing is answered for event {mark.number}."
            )


class Witness:
    """The file with the newest mark; safe between threads and processes."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    def read(self) -> Mark | None:
        """The newest mark; None where there is no file, or its first write was not finished.

        Raises:
            LedgerError: the file is damaged or cannot be read.
        """
        with _in_words(self.path, "read"):
            try:
                file = _locked(self.path, os.O_RDONLY, fcntl.LOCK_SH)
            except FileNotFoundError:
                return None
            try:
                return _newest(self.path, file)[0]
            finally:
                os.close(file)

    @contextmanager
    def held(self, *, make: bool = False) -> Iterator[Held]:
        """Keep others from reading and writing it; a process that is killed lets go.

        Args:
            make: make the file where there is none.

        Raises:
            LedgerError: there is none, or it is damaged or cannot be written.
        """
        owner, flags = os.getpid(), os.O_RDWR | (os.O_CREAT if make else 0)
        with _in_words(self.path, "written"):
            if not make and not self.path.exists():
                raise LedgerError(f"The witness {self.path} is missing. {ADOPT}")
            file = _locked(self.path, flags, fcntl.LOCK_EX)
        try:
            with _in_words(self.path, "read"):
                held = Held(self.path, file)
            yield held
        finally:
            # A child that was forked meanwhile shares the lock, and must not undo it.
            if os.getpid() == owner:
                fcntl.flock(file, fcntl.LOCK_UN)
            os.close(file)

    def advance(self, mark: Mark) -> None:
        """Hold the witness, and write a newer mark.

        Raises:
            LedgerError: as `held` and `Held.advance`.
        """
        with self.held(make=True) as held:
            held.advance(mark)


@contextmanager
def _in_words(path: Path, what: str) -> Iterator[None]:
    """Turn an error of the system into a sentence."""
    try:
        yield
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise LedgerError(f"The witness {path} cannot be {what}: {why}.") from error


def _locked(path: Path, flags: int, how: int) -> int:
    """The file of that name, open and locked; never one that had the name before."""
    end = time.monotonic() + _PATIENCE
    while True:
        file = open_private(path, flags)
        try:
            _wait_for(path, file, how, end)
            if _is_at(file, path):
                return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def _wait_for(path: Path, file: int, how: int, end: float) -> None:
    pause = 0.0002
    while True:
        try:
            return fcntl.flock(file, how | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise LedgerError(
                    f"The witness {path} was held by another process for {_PATIENCE:.0f} seconds. "
                    "Try again."
                ) from None
        time.sleep(pause)
        pause = min(2 * pause, 0.01)


def _is_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False


def _newest(path: Path, file: int) -> tuple[Mark | None, int]:
    """The newest mark in an open witness, and the slot that may be written over."""
    raw = os.pread(file, 2 * _SLOT + 1, 0)
    if len(raw) < 2 * _SLOT or not raw.strip(b"\0"):
        return None, 1  # written from the end, so that a first write is whole or too short
    first, second = _mark(raw[:_SLOT]), _mark(raw[_SLOT:])
    if len(raw) > 2 * _SLOT or (first is None and second is None):
        raise LedgerError(
            f"The witness {path} is damaged. Restore it; or, where you are sure that the "
            "ledger is the newest, move it away and run `dp-sql ledger witness LEDGER`."
        )
    if second is None or (first is not None and first.number > second.number):
        return first, 1
    return second, 0


def _line(mark: Mark) -> bytes:
    text = f"dp_sql witness 1 {mark.ledger_id} {mark.number} {mark.hash}"
    line = f"{text} {hashlib.sha256(text.encode()).hexdigest()}"
    return line.encode().ljust(_SLOT - 1) + b"\n"


def _mark(slot: bytes) -> Mark | None:
    """The mark in a slot; None where not every byte is as it would be written."""
    try:
        _, _, _, ledger_id, number, digest, _ = slot.decode("ascii").split()
        mark = Mark(ledger_id, int(number), digest)
    except ValueError:
        return None
    return mark if _line(mark) == slot else None


def _sync_folder(folder: Path) -> None:
    """A new file is durable once its folder is."""
    file = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
