"""The state of a shell: its session, its settings, and the place where results go."""

import contextlib
import os
import shutil
import sys
from dataclasses import dataclass
from typing import TextIO

from dp_sql.cli.errors import fill
from dp_sql.cli.shell.names import Names, analyst_names, owner_names
from dp_sql.files import open_private
from dp_sql.session.base import Session


@dataclass
class Shell:
    """A session and how its user wants results."""

    session: Session
    mode: str  # one of `output.MODES`
    shows_receipts: bool = False
    shows_costs: bool = False  # a line on what each statement spent
    shows_times: bool = False
    last_statement: str = ""
    is_closing: bool = False
    _file: TextIO | None = None
    _names: Names | None = None

    @property
    def names(self) -> Names:
        """What a statement may name now; nothing where it cannot be read (a failed transaction)."""
        if self._names is None:
            read = owner_names if self.session.analyst is None else analyst_names
            with contextlib.suppress(Exception):
                self._names = read(self.session)
        return self._names or Names()

    def forget_names(self) -> None:
        """Read the owner's names again after a statement; a policy's do not change."""
        if self.session.analyst is None:
            self._names = None

    @property
    def out(self) -> TextIO:
        """Where results go."""
        return self._file or sys.stdout

    @property
    def width(self) -> int | None:
        """The terminal's width; None if results do not go to a terminal."""
        return shutil.get_terminal_size().columns if self.out.isatty() else None

    def write_to(self, path: str | None) -> None:
        """Write results to a new file, or to standard output again."""
        file = None
        if path is not None:
            file = open(path, "w", encoding="utf-8", opener=open_private)  # noqa: SIM115
        self.close()
        self._file = file

    def close(self) -> None:
        """Close the file that results go to, if there is one."""
        if self._file is not None:
            self._file.close()
        self._file = None

    def note(self, text: str) -> None:
        """Print a line in addition to the results; a terminal shows it dim, and breaks no word."""
        with contextlib.suppress(BrokenPipeError):
            self.out.flush()
        plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
        dim = sys.stderr.isatty() and not plain
        if sys.stderr.isatty():
            text = fill(text)
        print(f"\x1b[2m{text}\x1b[0m" if dim else text, file=sys.stderr, flush=True)
