"""The SQLite file of a ledger: how it is created, opened, locked and written. Adds nothing up.

One connection for many threads, one transaction at a time. Never open this file by hand in a
process that has it open: closing any descriptor of it drops SQLite's locks.
"""

import fcntl
import os
import sqlite3
import stat
import threading
import uuid
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Literal

from dp_sql.budget import schema
from dp_sql.budget.checkpoint import descriptor
from dp_sql.errors import LedgerError
from dp_sql.files import open_private

_PATIENCE = 30.0  # seconds to wait for another process


def resolved(path: Path) -> Path:
    """The file itself, whatever links lead to it: SQLite keeps its log beside that."""
    found = Path(os.path.realpath(path))
    if path.is_symlink() and not os.path.lexists(found):
        raise LedgerError(f"The ledger {path} is missing: the path is a broken link.")
    return found


def create(path: Path, dataset: str, time: str) -> None:
    """Create a ledger with its first event, whole or not at all; an existing one stays."""
    with schema.plain_errors(path), descriptor(path.parent) as folder:
        fcntl.flock(folder, fcntl.LOCK_EX)
        if os.path.lexists(path):
            return
        if any(os.path.lexists(side) for side in side_files(path)):
            missing = f"The ledger {path} is missing, but SQLite's files next to it exist."
            raise LedgerError(f"{missing} Restore the ledger.")
        draft = Path(f"{path}.{uuid.uuid4().hex}.new")
        try:
            _write_new(draft, dataset, time)
            os.rename(draft, path)
        except BaseException:
            for file in (draft, *side_files(draft)):
                file.unlink(missing_ok=True)
            raise
        os.fsync(folder)


def side_files(path: Path) -> list[Path]:
    """What SQLite keeps next to a file."""
    return [Path(f"{path}{end}") for end in ("-wal", "-shm", "-journal")]


def _write_new(draft: Path, dataset: str, time: str) -> None:
    # SQLite gives its journal files the mode of the database file.
    os.close(open_private(draft, os.O_CREAT | os.O_EXCL))
    with closing(sqlite3.connect(draft, isolation_level=None)) as con:
        schema.write(con, uuid.uuid4().hex, dataset, time)
    with descriptor(draft) as file:
        os.fsync(file)


class LedgerFile:
    """An open ledger file, for many threads and for children after a fork; `lock` guards it."""

    def __init__(self, path: Path, *, read_only: bool) -> None:
        self.path, self._read_only, self._closed = path, read_only, False
        self.lock = _LOCKS.setdefault(path, threading.RLock())
        self._con: sqlite3.Connection | None = None
        self._place: tuple[int, int] | None = None
        self._still: object = None  # the state in which it was found, if it is read without locks
        with _FORKING:
            _OPEN.add(self)

    @contextmanager
    def transaction(self, how: Literal["IMMEDIATE", "DEFERRED"]) -> Iterator[sqlite3.Connection]:
        """One transaction: committed durably at the end, undone by any error."""
        with self.lock, schema.plain_errors(self.path):
            con = self._connection()
            try:
                con.execute(f"BEGIN {how}")
                yield con
                if self._con is not con:
                    raise LedgerError(f"The ledger {self.path} was left behind in a fork.")
                con.execute("COMMIT")
                self._check_still()
            except (sqlite3.Error, OSError):
                self._disconnect()  # this rolls back; the next transaction starts afresh
                raise
            except BaseException:
                if self._con is con and con.in_transaction:
                    con.execute("ROLLBACK")
                    self._check_still()
                raise

    def close(self) -> None:
        """Close the file for good."""
        with self.lock:
            self._closed = True
            self._disconnect()

    def _connection(self) -> sqlite3.Connection:
        if self._closed:
            raise LedgerError(f"The ledger {self.path} was closed.")
        # SQLite would go on writing into a file that has lost its name.
        place = _place(self.path)
        if self._place not in {None, place}:
            raise LedgerError(f"The ledger {self.path} was replaced while it was open.")
        if self._has_changed():
            self._disconnect()
        if self._con is None:
            self._con, self._still = _connect(self.path, self._read_only)
            self._place = place
            if _place(self.path) != place:
                raise LedgerError(f"The ledger {self.path} was replaced while it was opened.")
        return self._con

    def _check_still(self) -> None:
        """Without locks, someone may write in the middle; then what was read means nothing."""
        if self._has_changed():
            self._disconnect()
            raise LedgerError(f"The ledger {self.path} was written while it was read. Try again.")

    def _has_changed(self) -> bool:
        return self._still is not None and self._still != _state(self.path)

    def _disconnect(self) -> None:
        con, self._con = self._con, None
        if con is not None:
            with suppress(sqlite3.Error):
                con.close()

    def __del__(self) -> None:
        with suppress(AttributeError):  # it was never opened
            self._disconnect()

    def _before_fork(self) -> None:
        # SQLite believes that a child holds the locks of its parent. So none is open at a fork.
        self.lock.acquire()
        if self._con is not None and not self._con.in_transaction:
            self._disconnect()

    def _after_fork_in_child(self) -> None:
        self.lock = _LOCKS.setdefault(self.path, threading.RLock())
        if self._con is not None:  # forked inside a transaction, which is the parent's
            _LEFT_BEHIND.append(self._con)
            self._con, self._closed = None, True


def _connect(path: Path, read_only: bool) -> tuple[sqlite3.Connection, object]:
    """A connection, and the state of the file if SQLite cannot keep locks next to it."""
    if not read_only:
        return _checked(path, "mode=rw"), None
    try:
        return _checked(path, "mode=ro"), None
    except sqlite3.OperationalError as error:
        state = _state(path)
        no_room_for_locks = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY}
        # The second number is the size of the log: if there is one, it must be read as well.
        if error.sqlite_errorcode & 0xFF not in no_room_for_locks or state[1] > 0:
            raise
        return _checked(path, "mode=ro&immutable=1"), state


def _checked(path: Path, how: str) -> sqlite3.Connection:
    whole = is_whole(path)
    con = sqlite3.connect(f"{path.as_uri()}?{how}", uri=True, timeout=_PATIENCE,
                          isolation_level=None, check_same_thread=False)  # fmt: skip
    try:
        for setting in ("synchronous = FULL", "trusted_schema = OFF", "cell_size_check = ON"):
            con.execute(f"PRAGMA {setting}")
        (version,) = con.execute("PRAGMA user_version").fetchone()
        (mode,) = con.execute("PRAGMA journal_mode").fetchone()
        if not schema.is_ledger(con):
            raise LedgerError(f"The file {path} is not a ledger of dp_sql, or is damaged.")
        if version != schema.VERSION:
            raise LedgerError(f"The ledger {path} was made by another version of dp_sql.")
        # SQLite does not report the mode of a file that it takes for immutable.
        if not whole or (mode != "wal" and "immutable" not in how):
            raise LedgerError(f"The ledger {path} {schema.DAMAGED}")
    except BaseException:
        con.close()
        raise
    return con


def is_whole(path: Path) -> bool:
    """Whether no page of the file is cut off, which SQLite would read as zeros."""
    _, log, size = _state(path)
    return (size > 0 and size % schema.PAGE == 0) or log > 0  # beside a log the size may be odd


def _state(path: Path) -> tuple[int, int, int]:
    """When a ledger was changed, the size of its log, and its own; 0 for what is not there."""
    changed = log = size = 0
    with suppress(FileNotFoundError):  # the last process to close the ledger deletes its log
        log = side_files(path)[0].stat().st_size
    with suppress(FileNotFoundError):
        found = path.stat()
        changed, size = found.st_mtime_ns, found.st_size
    return changed, log, size


def _place(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except FileNotFoundError:
        raise LedgerError(f"The ledger {path} is missing. Restore it.") from None
    if found.st_nlink > 1 and stat.S_ISREG(found.st_mode):
        # SQLite names the log after the file, so each name would have a history of its own.
        raise LedgerError(
            f"The ledger {path} has a second name (a hard link), and with it could get a second "
            "history. Remove the other name, or copy the file instead."
        )
    return found.st_dev, found.st_ino


# All open files of one ledger in a process share a lock: waiting in it is fair, SQLite's is not.
_LOCKS: dict[Path, threading.RLock] = {}
_FORKING = threading.Lock()
_OPEN: weakref.WeakSet[LedgerFile] = weakref.WeakSet()
_PAUSED: list[LedgerFile] = []
_LEFT_BEHIND: list[sqlite3.Connection] = []  # a child may not even close these


def _before_fork() -> None:
    _FORKING.acquire()
    _PAUSED.extend(_OPEN)
    for file in _PAUSED:
        file._before_fork()


def _after_fork_in_parent() -> None:
    for file in _PAUSED:
        file.lock.release()
    _PAUSED.clear()
    _FORKING.release()


def _after_fork_in_child() -> None:
    _LOCKS.clear()  # the threads that held them do not exist here
    for file in _PAUSED:
        file._after_fork_in_child()
    _PAUSED.clear()
    _FORKING.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent,
                    after_in_child=_after_fork_in_child)  # fmt: skip
