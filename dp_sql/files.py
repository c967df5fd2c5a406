"""Files that hold answers, losses or names: only their owner can read them, whatever the umask.

An existing file keeps its mode: it may be shared on purpose. `policy check` lists such files.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

OWNER_ONLY = 0o600


def open_private(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file; if this creates it, only its owner can read and write it.

    Works as the `opener` of `open`.

    Args:
        path: of the file.
        flags: of `os.open`.
    """
    return os.open(path, flags | os.O_CLOEXEC, OWNER_ONLY)


def make_private(path: Path) -> None:
    """Create an empty file that only its owner can read; an existing file stays as it is.

    The file is created under another name: closing any descriptor of a SQLite file drops the locks
    that this process holds on it.
    """
    path = Path(os.path.realpath(path))
    if os.path.lexists(path):
        return
    draft = path.with_name(f"{path.name}.{uuid.uuid4().hex}.new")
    os.close(open_private(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    try:
        with suppress(FileExistsError):  # another process has created it meanwhile
            _name(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _name(draft: Path, path: Path) -> None:
    """Give a file a second, unused name, even where the file system allows only one."""
    try:
        os.link(draft, path)
    except FileExistsError:
        raise
    except OSError:
        os.close(open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))


def readable_by_others(paths: Iterable[Path]) -> list[Path]:
    """The files among these that users other than their owner may read or write."""
    found = []
    for path in paths:
        with suppress(OSError):
            if path.stat().st_mode & 0o077:
                found.append(path)
    return found
