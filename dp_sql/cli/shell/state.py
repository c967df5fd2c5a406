"""What a shell remembers between two questions: its session, its settings, where answers go."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from typing import TextIO

from dp_sql.cli.shell.catalogue import Catalogue, read_catalogue
from dp_sql.files import open_private
from dp_sql.session.base import Session


class Shell:
    """A session and how a person wants its answers.

    Args:
        session: the owner's or an analyst's.
        mode: one of repl_forms.MODES.
        tells_receipts: whether each release's receipt is printed.
        tells_costs: whether a line says what an answer spent.
    """

    def __init__(
        self,
        session: Session,
        mode: str,
        *,
        tells_receipts: bool,
        tells_costs: bool,
    ) -> None:
        self.session = session
        self.mode = mode
        self.tells_receipts = tells_receipts
        self.tells_costs = tells_costs
        self.times = False
        self.last_question = ""
        self.is_leaving = False
        self._file: TextIO | None = None
        self._catalogue: Catalogue | None = None

    @property
    def is_guarded(self) -> bool:
        """Whether an analyst types here: then no file is opened and nothing hidden is named."""
        return self.session.analyst is not None

    @property
    def catalogue(self) -> Catalogue:
        """What may be named now."""
        if self._catalogue is None:
            self._catalogue = read_catalogue(self.session)
        return self._catalogue

    def forget_names(self) -> None:
        """Another statement has run: read the owner's catalogue anew (a policy's stays)."""
        if not self.is_guarded:
            self._catalogue = None

    @property
    def out(self) -> TextIO:
        """Where answers go."""
        return self._file or sys.stdout

    @property
    def width(self) -> int | None:
        """The terminal's width, where answers go to one."""
        return shutil.get_terminal_size().columns if self.out.isatty() else None

    def answer_into(self, path: str | None) -> None:
        """Write answers into a new file, or back to standard output.

        Raises:
            OSError: the file cannot be written.
        """
        file = None
        if path is not None:
            file = open(path, "w", encoding="utf-8", opener=open_private)  # noqa: SIM115
        self.close()
        self._file = file

    def close(self) -> None:
        """Close the file that answers go to, if there is one."""
        if self._file is not None:
            self._file.close()
        self._file = None

    def remark(self, text: str) -> None:
        """Say something beside the answers, dim where the terminal can."""
        with contextlib.suppress(BrokenPipeError):
            self.out.flush()
        plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
        dim = sys.stderr.isatty() and not plain
        print(f"\x1b[2m{text}\x1b[0m" if dim else text, file=sys.stderr, flush=True)
