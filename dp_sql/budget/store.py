"""The SQLite file of a ledger: how it is made, opened, locked and written. Adds nothing up.

One connection for many threads, one transaction at a time. Never open this file by hand in a
process that has it open: closing any descriptor of it drops SQLite's locks.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import stat
import threading
import uuid
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from dp_sql.budget import schema
from dp_sql.errors import LedgerError
from dp_sql.files import open_private

_PATIENCE = 30.0  # seconds to wait for another process


def is_there(path: Path) -> bool:
    """Whether anything has this name, be it a link that leads nowhere."""
    return os.path.lexists(path)


def real(path: Path) -> Path:
    """The file itself, whatever links lead to it: SQLite keeps its log beside that.

    Raises:
        LedgerError: a link leads nowhere.
    """
    found = Path(os.path.realpath(path))
    if path.is_symlink() and not is_there(found):
        raise LedgerError(f"The ledger {path} is missing: it is a link that leads nowhere.")
    return found


def make(path: Path, dataset: str, time: str) -> None:
    """Make a ledger with its first event, whole or not at all; one that is there stays."""
    with schema.in_our_words(path), _folder_locked(path.parent) as folder:
        if is_there(path):
            return
        if any(is_there(side) for side in beside(path)):
            raise LedgerError(
                f"The ledger {path} is missing, and what SQLite kept beside it is there. "
                "Restore the ledger."
            )
        draft = Path(f"{path}.{uuid.uuid4().hex}.new")
        try:
            _write_new(draft, uuid.uuid4().hex, dataset, time)
            os.rename(draft, path)
        except BaseException:
            for file in (draft, *beside(draft)):
                file.unlink(missing_ok=True)
            raise
        os.fsync(folder)


def beside(path: Path) -> list[Path]:
    """What SQLite keeps beside a file."""
    return [Path(f"{path}{end}") for end in ("-wal", "-shm", "-journal")]


def _write_new(draft: Path, ledger_id: str, dataset: str, time: str) -> None:
    # SQLite gives its journal files the mode of the database file.
    os.close(open_private(draft, os.O_CREAT | os.O_EXCL))
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
        self._lock = _LOCKS.setdefault(self.path, threading.RLock())
        self._con: sqlite3.Connection | None = None
        self._place: tuple[int, int] | None = None
        self._still: object = None  # how the file was found, where it is read without locks
        self._closed = False
        with _FORKING:
            _OPEN.add(self)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other threads, and forks, out of the file."""
        with self._lock:
            yield

    @contextmanager
    def transaction(self, how: Literal["IMMEDIATE", "DEFERRED"]) -> Iterator[sqlite3.Connection]:
        """One transaction: committed durably at the end, undone by any error.

        Raises:
            LedgerError: the file cannot be read or written, or is no longer the one opened.
        """
        with self._lock, schema.in_our_words(self.path):
            con = self._connection()
            try:
                con.execute(f"BEGIN {how}")
                yield con
                if self._con is not con:
                    raise LedgerError(f"The ledger {self.path} was left behind in a fork.")
                con.execute("COMMIT")
                self._check_still()
            except (sqlite3.Error, OSError):
                self._disconnect()  # it rolls back; the next transaction begins with a fresh eye
                raise
            except BaseException:
                if self._con is con and con.in_transaction:
                    con.execute("ROLLBACK")
                    self._check_still()
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
            self._con, self._still = _connect(self.path, self._read_only)
            self._place = place
        # SQLite would go on writing into a file that nobody can find any more.
        if _place(self.path) != self._place:
            raise _replaced(self.path)
        if self._still not in {None, _state(self.path)}:
            self._disconnect()
            return self._connection()
        return self._con

    def _check_still(self) -> None:
        """Without locks, a writer may come in the middle; then what was read means nothing."""
        if self._still not in {None, _state(self.path)}:
            self._disconnect()
            raise LedgerError(f"The ledger {self.path} was written while it was read. Try again.")

    def _disconnect(self) -> None:
        con, self._con = self._con, None
        if con is not None:
            with suppress(sqlite3.Error):
                con.close()

    def __del__(self) -> None:
        # A forgotten ledger closes its file as a closed one does.
        con = getattr(self, "_con", None)
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
        self._lock = _LOCKS.setdefault(self.path, threading.RLock())
        if self._con is not None:  # forked inside of a transaction, which is the parent's
            _LEFT_BEHIND.append(self._con)
            self._con, self._closed = None, True


def _connect(path: Path, read_only: bool) -> tuple[sqlite3.Connection, object]:
    """A connection, and the state of the file where SQLite may keep no locks beside it."""
    if not read_only:
        return _checked(path, "mode=rw"), None
    try:
        return _checked(path, "mode=ro"), None
    except sqlite3.OperationalError as error:
        state = _state(path)
        # The second number is the size of the log: where there is one, it must be read as well.
        if error.sqlite_errorcode & 0xFF not in _NO_ROOM_FOR_LOCKS or state[1] > 0:
            raise
        return _checked(path, "mode=ro&immutable=1"), state


def _checked(path: Path, how: str) -> sqlite3.Connection:
    whole = _has_whole_pages(path)
    con = sqlite3.connect(
        f"{path.as_uri()}?{how}",
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
        # SQLite does not tell the mode of what it believes to be immutable.
        if not whole or (mode != "wal" and "immutable" not in how):
            raise LedgerError(f"The ledger {path} {schema.DAMAGED}")
    except BaseException:
        con.close()
        raise
    return con


_NO_ROOM_FOR_LOCKS = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY}


def _state(path: Path) -> tuple[int, int, int]:
    """When a ledger was changed, the size of its log, and its own."""
    with suppress(FileNotFoundError):
        log = beside(path)[0]
        found, logged = path.stat(), log.stat().st_size if log.exists() else 0
        return found.st_mtime_ns, logged, found.st_size
    return 0, 0, 0


def _has_whole_pages(path: Path) -> bool:
    # SQLite reads a page that was cut off as zeros. While there is a log, the size may be odd.
    size = path.stat().st_size
    return (size > 0 and size % schema.PAGE == 0) or _state(path)[1] > 0


def _place(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except FileNotFoundError:
        raise LedgerError(f"The ledger {path} is missing. Restore it.") from None
    if found.st_nlink > 1 and stat.S_ISREG(found.st_mode):
        # SQLite calls the log after the name, so each name would have a history of its own.
        raise LedgerError(
            f"The ledger {path} has a second name (a hard link), and with it would have a second "
            "history. Remove the other name, or copy the file instead."
        )
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


# All books of one file in a process have one lock: waiting in it is fair, and asking SQLite is not.
_LOCKS: dict[Path, threading.RLock] = {}
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
    _LOCKS.clear()  # their holders are not there
    for book in _PAUSED:
        book._after_fork_in_child()
    _PAUSED.clear()
    _FORKING.release()


os.register_at_fork(
    before=_before_fork,
    after_in_parent=_after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)
