"""Where private queries spill what does not fit into memory, and how much memory and disk they use.

DuckDB would write next to the database, up to 90 % of that disk, in files that others can read.
Here each database file of a process has a folder of its own (0700), removed by this process when
the last session on the file closes. It is locked while it is in use: a folder that can be locked is
what a killed process has left, and is removed. If the folder is gone, DuckDB makes one that others
can read, so it is looked for before each release. Sessions on one file share a DuckDB instance: a
later one can only narrow its limits.
"""

import atexit
import fcntl
import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import duckdb

from dp_sql.errors import NotSupported, PolicyError
from dp_sql.policy.limits import Limits
from dp_sql.sql.formatting import literal
from dp_sql.sql.sizes import size_in_bytes

_PREFIX = "dp_sql-spill-"
DEFAULT_SPILL = "10GB"  # what private queries may write to disk if the policy sets no limit


@dataclass
class _Spill:
    """The folder of one database file, how many sessions use it, and its instance's limits."""

    folder: Path
    lock: int | None  # a file descriptor; None where the file system has no locks
    n_sessions: int = 0
    memory: int | None = None
    disk: int | None = None
    threads: int | None = None
    process: int = field(default_factory=os.getpid)

    def remove(self) -> None:
        """Remove the folder, unless it is another process's: this one is its fork."""
        if self.process == os.getpid():
            shutil.rmtree(self.folder, ignore_errors=True)
            self.change_lock(None)

    def change_lock(self, lock: int | None) -> None:
        """Keep another lock, or none."""
        if self.lock is not None:
            os.close(self.lock)
        self.lock = lock


_lock = threading.Lock()
_open: dict[str, _Spill] = {}


def limit_private(database: str, limits: Limits, run: Callable[[str], Any]) -> Callable[[], None]:
    """Give a private connection its folder and limits.

    Returns what to call when the connection is closed: it removes the folder after the last
    session. PolicyError if the policy's temp_directory cannot be written, or if the DuckDB instance
    spills elsewhere already.
    """
    path = os.path.realpath(database)
    with _lock:
        spill = _open.get(path) or _Spill(*_folder(limits.temp_directory))
        try:
            _limit(spill, database, limits, run)
        except BaseException:
            if path not in _open:
                spill.remove()
            raise
        _open[path] = spill
        spill.n_sessions += 1
    return partial(_let_go, path)


def _limit(spill: _Spill, database: str, limits: Limits, run: Callable[[str], Any]) -> None:
    ((now,),) = run("SELECT system.main.current_setting('temp_directory')").fetchall()
    if now != str(spill.folder):
        try:
            run(f"SET temp_directory = {literal(str(spill.folder))}")
        except duckdb.NotImplementedException:
            raise PolicyError(
                f"Another connection of this process to {database} has temporary files in {now}, "
                "and DuckDB cannot change the folder. Close that connection."
            ) from None
    disk = size_in_bytes(limits.max_temp_directory_size or DEFAULT_SPILL)
    memory = None if limits.memory_limit is None else size_in_bytes(limits.memory_limit)
    spill.disk = _narrower(spill.disk, disk)
    spill.memory = _narrower(spill.memory, memory)
    spill.threads = _narrower(spill.threads, limits.threads)
    run(f"SET max_temp_directory_size = '{spill.disk}B'")
    if spill.memory is not None:
        run(f"SET memory_limit = '{spill.memory}B'")
    if spill.threads is not None:
        run(f"SET threads = {spill.threads}")


def check_spill(path: str) -> None:
    """Make the folder of a file, by its real path, again if it is gone.

    NotSupported if it cannot be this user's alone.
    """
    with _lock:  # of two threads, one would close the other's lock
        spill = _open[path]
        folder = spill.folder
        try:
            folder.mkdir(0o700, exist_ok=True)
            if (there := folder.lstat()).st_uid != os.getuid():
                raise PermissionError
            if stat.S_IMODE(there.st_mode) != 0o700:
                folder.chmod(0o700)
            if spill.lock is None or not os.path.samestat(there, os.fstat(spill.lock)):
                spill.change_lock(_locked(folder))
        except OSError:
            message = "There is no folder for temporary files; nothing was spent."
            raise NotSupported(message) from None


def _let_go(path: str) -> None:
    with _lock:
        if (spill := _open.get(path)) is not None:
            spill.n_sessions -= 1
            if spill.n_sessions <= 0:
                _open.pop(path).remove()


def spill_advice(limits: Limits, ledger: Path | None) -> list[str]:
    """Sentences for the owner: where private rows may be written, how many bytes, and a warning."""
    parent = limits.temp_directory or Path(tempfile.gettempdir())
    size = limits.max_temp_directory_size
    advice = [f"Private queries may write up to {size or DEFAULT_SPILL} in {parent}."]
    if limits.temp_directory is not None and not parent.is_dir():
        advice.append(f"[limits] temp_directory is not a folder: {parent}. No session can open.")
    elif limits.temp_directory is not None and size is None and _same_disk(parent, ledger):
        advice.append(
            "The ledger is on that disk as well: a full disk stops every release. Set [limits] "
            "max_temp_directory_size below the free space, or choose another disk."
        )
    return advice


def _same_disk(folder: Path, ledger: Path | None) -> bool:
    with suppress(OSError):
        return ledger is not None and folder.stat().st_dev == ledger.parent.stat().st_dev
    return False


def remove_spill_folders() -> None:
    """Remove all folders of this process, which is about to end."""
    for spill in list(_open.values()):  # without the lock: its holder may never release it
        spill.remove()


atexit.register(remove_spill_folders)  # for sessions that were not closed


def _folder(parent: Path | None) -> tuple[Path, int | None]:
    """Make a folder and lock it; remove those of processes that were killed."""
    try:
        for left in Path(parent or tempfile.gettempdir()).glob(f"{_PREFIX}*"):
            if (lock := _locked(left)) is not None:
                shutil.rmtree(left, ignore_errors=True)
                os.close(lock)
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent)).resolve()  # 0700
        return folder, _locked(folder)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise PolicyError(
            f"[limits] temp_directory {parent or tempfile.gettempdir()} cannot be written: {why}."
        ) from None


def _locked(folder: Path) -> int | None:
    """Lock a folder of this user; None if another process has, or it is gone."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            opened = os.fstat(handle)
            if opened.st_uid == os.getuid() and os.path.samestat(opened, folder.lstat()):
                return handle
        except OSError:
            pass
        os.close(handle)
    return None


def _narrower(one: int | None, other: int | None) -> int | None:
    return min((n for n in (one, other) if n is not None), default=None)
