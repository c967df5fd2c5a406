"""The second place: how far a ledger had come, and what its last hash was. Knows no losses.

A ledger that is lost or put back to an older copy looks whole; only something outside of it can
tell. The witness is that: one mark, kept in another file, best on another disk.

The file has two slots, each a line with its own checksum, in blocks of their own. A mark is written
over the older slot and made durable, so a torn write leaves the other slot as it was. Such a
write has not returned, so nothing hangs on it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dp_sql.errors import LedgerError

_SLOT = 4096
# Without the file's time of change, where the system has that: it costs a write of its own.
_SYNC = getattr(os, "fdatasync", os.fsync)


@dataclass(frozen=True)
class Mark:
    """How far a ledger had come: its id, and the number and hash of an event that it must hold."""

    ledger_id: str
    number: int
    hash: str


class Witness:
    """The file with the newest mark; safe between threads and processes."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    def read(self) -> Mark | None:
        """The newest mark; None where there is no file, or its first write was not finished.

        Raises:
            LedgerError: the file is damaged or cannot be read.
        """
        try:
            with self._locked(os.O_RDONLY, fcntl.LOCK_SH) as file:
                return self._newest(file)[0]
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LedgerError(
                f"The witness {self.path} cannot be read: {os.strerror(error.errno or 0)}."
            ) from error

    def advance(self, mark: Mark) -> None:
        """Write a mark durably, unless a newer one of the same ledger stands there already.

        Raises:
            LedgerError: the file is damaged, of another ledger, or cannot be written.
        """
        try:
            with self._locked(os.O_RDWR | os.O_CREAT, fcntl.LOCK_EX) as file:
                newest, slot = self._newest(file)
                if newest is not None and self._is_past(newest, mark):
                    return
                line = _line(mark)
                if os.pwrite(file, line, slot * _SLOT) != len(line):
                    raise LedgerError(f"The witness {self.path} was not written in full.")
                _SYNC(file)
            if newest is None:
                _sync_folder(self.path.parent)
        except OSError as error:
            raise LedgerError(
                f"The witness {self.path} cannot be written: {os.strerror(error.errno or 0)}."
            ) from error

    def _is_past(self, newest: Mark, mark: Mark) -> bool:
        if newest.ledger_id != mark.ledger_id:
            raise LedgerError(f"The witness {self.path} belongs to another ledger.")
        if newest.number == mark.number and newest.hash != mark.hash:
            raise LedgerError(f"The witness {self.path} saw another history of this ledger.")
        return newest.number >= mark.number

    def _newest(self, file: int) -> tuple[Mark | None, int]:
        """The newest mark, and the slot that may be written over."""
        raw = os.pread(file, 2 * _SLOT + 1, 0)
        if len(raw) < 2 * _SLOT or not raw.strip(b"\0"):
            return None, 1  # written from the end, so that a first write is whole or too short
        first, second = _mark(raw[:_SLOT]), _mark(raw[_SLOT:])
        if len(raw) > 2 * _SLOT or (first is None and second is None):
            raise LedgerError(
                f"The witness {self.path} is damaged. Restore it; or, where you are sure that the "
                "ledger is the newest, move it away and run `dp-sql ledger witness LEDGER`."
            )
        if second is None or (first is not None and first.number > second.number):
            return first, 1
        return second, 0

    @contextmanager
    def _locked(self, flags: int, how: int) -> Iterator[int]:
        file = os.open(self.path, flags | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(file, how)
            yield file
        finally:
            os.close(file)


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
