"""Files that hold answers, losses or names: only their owner can read them, whatever the umask.

An existing file keeps its mode: it may be shared on purpose. `policy check` lists such files.
"""

import os
import uuid
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

OWNER_ONLY = 0o600


def open_private(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file, as an `opener`; if this creates it, only its owner can read and write it."""
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
    new = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    os.close(open_private(draft, new))
    with suppress(FileExistsError):  # another process has created it meanwhile
        try:
            os.link(draft, path)
        except FileExistsError:
            raise
        except OSError:  # the file system allows a file only one name
            os.close(open_private(path, new))
        finally:
            draft.unlink(missing_ok=True)


def readable_by_others(paths: Iterable[Path]) -> list[Path]:
    """The files among these that users other than their owner may read or write."""
    found = []
    for path in paths:
        with suppress(OSError):
            if path.stat().st_mode & 0o077:
                found.append(path)
    return found
