"""The SQLite file of a ledger: how it is made, opened, locked and written. Adds nothing up.

One connection for many threads, one transaction at a time. Never open this file by hand in a
process that has it open: closing any descriptor of it drops SQLite's locks.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import uuid
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from dp_sql.budget import schema
from dp_sql.errors import LedgerError

_PATIENCE = 30.0  # seconds to wait for another process


def is_there(path: Path) -> bool:
    """Whether anything has this name, be it a link that leads nowhere."""
    return os.path.lexists(path)


def make(path: Path, dataset: str, time: str) -> None:
    """Make a ledger with its first event, whole or not at all; one that is there stays."""
    with in_our_words(path), _folder_locked(path.parent) as folder:
        if is_there(path):
            return
        if any(is_there(Path(f"{path}{end}")) for end in ("-wal", "-shm", "-journal")):
            raise LedgerError(
                f"The ledger {path} is missing, and what SQLite kept beside it is there. "
                "Restore the ledger."
            )
        draft = Path(f"{path}.new")
        for end in ("", "-journal", "-wal", "-shm"):
            Path(f"{draft}{end}").unlink(missing_ok=True)
        _write_new(draft, uuid.uuid4().hex, dataset, time)
        os.rename(draft, path)
        os.fsync(folder)


def _write_new(draft: Path, ledger_id: str, dataset: str, time: str) -> None:
    con = sqlite3.connect(draft, isolation_level=None)
    try:
        schema.write(con, ledger_id, dataset, time)
    finally:
        con.close()
    file = os.open(draft, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


class Book:
    """An open file of a ledger, for many threads, and for a child after a fork."""

    def __init__(self, path: Path, *, read_only: bool) -> None:
        self.path = path
        self._read_only = read_only
        self._lock = threading.RLock()
        self._con: sqlite3.Connection | None = None
        self._place: tuple[int, int] | None = None
        self._closed = False
        with _FORKING:
            _OPEN.add(self)

    @contextmanager
    def transaction(self, how: Literal["IMMEDIATE", "DEFERRED"]) -> Iterator[sqlite3.Connection]:
        """One transaction: committed durably at the end, undone by any error.

        Raises:
            LedgerError: the file cannot be read or written, or is no longer the one opened.
        """
        with self._lock, in_our_words(self.path):
            con = self._connection()
            try:
                con.execute(f"BEGIN {how}")
                yield con
                con.execute("COMMIT")
            except (sqlite3.Error, OSError):
                self._disconnect()  # it rolls back; the next transaction begins with a fresh eye
                raise
            except BaseException:
                if con.in_transaction:
                    con.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Close the file; nothing is asked of it any more."""
        with self._lock:
            self._closed = True
            self._disconnect()

    def _connection(self) -> sqlite3.Connection:
        if self._closed:
            raise LedgerError(f"The ledger {self.path} was closed.")
        if self._con is None:
            place = _place(self.path)
            if self._place not in {None, place}:
                raise _replaced(self.path)
            self._con, self._place = _connect(self.path, self._read_only), place
        # SQLite would go on writing into a file that nobody can find any more.
        if _place(self.path) != self._place:
            raise _replaced(self.path)
        return self._con

    def _disconnect(self) -> None:
        con, self._con = self._con, None
        if con is not None:
            with suppress(sqlite3.Error):
                con.close()

    def _before_fork(self) -> None:
        # SQLite believes that a child holds the locks of its parent. So none is open at a fork.
        self._lock.acquire()
        if self._con is not None and not self._con.in_transaction:
            self._disconnect()

    def _after_fork_in_parent(self) -> None:
        self._lock.release()

    def _after_fork_in_child(self) -> None:
        self._lock = threading.RLock()
        if self._con is not None:  # forked inside of a transaction, which is the parent's
            _LEFT_BEHIND.append(self._con)
            self._con, self._closed = None, True


@contextmanager
def in_our_words(path: Path) -> Iterator[None]:
    """Turn errors of SQLite and of the system into one sentence."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        raise LedgerError(f"The ledger {path} {_SENTENCES.get(code, _UNKNOWN)}") from error
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise LedgerError(f"The ledger {path} cannot be read or written: {why}.") from error
    except UnicodeError as error:
        raise LedgerError(
            f"A name in the ledger {path} is no text that UTF-8 can write."
        ) from error


_DAMAGED = (
    "is damaged, or is no ledger. Restore it; `dp-sql ledger verify` tells whether it is whole."
)
_SHUT = "cannot be opened. Does its folder exist, and may you write there?"
_UNKNOWN = "cannot be read or written. Nothing is answered until it can."
_SENTENCES = {
    sqlite3.SQLITE_BUSY: f"was held by another process for {_PATIENCE:.0f} seconds. Try again.",
    sqlite3.SQLITE_LOCKED: "is in use in this process. Try again.",
    sqlite3.SQLITE_READONLY: "cannot be written: the file or its disk is read-only.",
    sqlite3.SQLITE_FULL: "cannot be written: the disk is full.",
    sqlite3.SQLITE_CANTOPEN: _SHUT,
    sqlite3.SQLITE_PERM: _SHUT,
    sqlite3.SQLITE_AUTH: _SHUT,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_CONSTRAINT: "refuses an event that does not follow from those before.",
}


def _connect(path: Path, read_only: bool) -> sqlite3.Connection:
    whole = _has_whole_pages(path)
    con = sqlite3.connect(
        f"{path.as_uri()}?mode={'ro' if read_only else 'rw'}",
        uri=True, timeout=_PATIENCE, isolation_level=None, check_same_thread=False,
    )  # fmt: skip
    try:
        con.execute("PRAGMA synchronous = FULL")
        con.execute("PRAGMA trusted_schema = OFF")
        con.execute("PRAGMA cell_size_check = ON")
        (version,) = con.execute("PRAGMA user_version").fetchone()
        (mode,) = con.execute("PRAGMA journal_mode").fetchone()
        if not schema.is_of_ledger(con):
            raise LedgerError(f"The file {path} is no ledger of dp_sql, or is damaged.")
        if version != schema.VERSION:
            raise LedgerError(f"The ledger {path} was made by another version of dp_sql.")
        if mode != "wal" or not whole:
            raise LedgerError(f"The ledger {path} {_DAMAGED}")
    except BaseException:
        con.close()
        raise
    return con


def _has_whole_pages(path: Path) -> bool:
    # SQLite reads a page that was cut off as zeros. While there is a log, the size may be odd.
    size = path.stat().st_size
    log = Path(f"{path}-wal")
    return (size > 0 and size % schema.PAGE == 0) or (log.exists() and log.stat().st_size > 0)


def _place(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except FileNotFoundError:
        raise LedgerError(f"The ledger {path} is missing. Restore it.") from None
    return found.st_dev, found.st_ino


def _replaced(path: Path) -> LedgerError:
    return LedgerError(f"The ledger {path} was replaced by another file while it was open.")


@contextmanager
def _folder_locked(folder: Path) -> Iterator[int]:
    file = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file
    finally:
        os.close(file)


_FORKING = threading.Lock()
_OPEN: weakref.WeakSet[Book] = weakref.WeakSet()
_PAUSED: list[Book] = []
_LEFT_BEHIND: list[sqlite3.Connection] = []  # a child may not even close these


def _before_fork() -> None:
    _FORKING.acquire()
    _PAUSED.extend(_OPEN)
    for book in _PAUSED:
        book._before_fork()


def _after_fork_in_parent() -> None:
    for book in _PAUSED:
        book._after_fork_in_parent()
    _PAUSED.clear()
    _FORKING.release()


def _after_fork_in_child() -> None:
    for book in _PAUSED:
        book._after_fork_in_child()
    _PAUSED.clear()
    _FORKING.release()


os.register_at_fork(
    before=_before_fork,
    after_in_parent=_after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)
