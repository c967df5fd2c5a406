"""Frozen releases of one analyst, to be read again for nothing: in memory, or in a file.

A release is found by its id, and by its question: what was read, and what the mechanism was told.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import threading
import uuid
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from dp_sql.budget.model import normal_name
from dp_sql.errors import LedgerError
from dp_sql.files import make_private
from dp_sql.privacy.plan import Plan
from dp_sql.releases import Receipt, Release
from dp_sql.udfs.mechanism import PrivacyLoss

Rows = Sequence[tuple[object, ...]]
_TABLE = (
    "CREATE TABLE IF NOT EXISTS releases (number INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, "
    "analyst TEXT NOT NULL, question TEXT NOT NULL, release TEXT NOT NULL)"
)
_INDEX = "CREATE INDEX IF NOT EXISTS by_question ON releases (analyst, question)"


@dataclass(frozen=True)
class Kept:
    """A release and its rows, as they were delivered; each value as text, number or list."""

    release: Release
    rows: tuple[tuple[object, ...], ...]


class KeptReleases:
    """The releases that an analyst may read again.

    Args:
        path: a file, for releases that outlive the session; None: in memory.
        analyst: whose releases these are; another analyst's are not found.
        database: what is asked: where the file is.
    """

    def __init__(self, path: Path | None, analyst: str, database: str) -> None:
        self._analyst = analyst
        self._database = database
        self._path = path
        self._lock = threading.Lock()
        name = ":memory:" if path is None else str(path)
        with self._said():
            if path is not None:
                make_private(path)
            self._file = sqlite3.connect(
                name, timeout=30, isolation_level=None, check_same_thread=False
            )
            # A forgotten session closes its files as a closed one does.
            self._closing = weakref.finalize(self, self._file.close)
            self._file.execute("PRAGMA journal_mode = WAL")
            self._file.execute(_TABLE)
            self._file.execute(_INDEX)
            self._names = self._spellings()

    def close(self) -> None:
        """Close the file."""
        self._closing()

    def keep(
        self, plan: Plan, receipt: Receipt, columns: Sequence[tuple[str, str]], rows: Rows
    ) -> Release:
        """Keep one release; returns it with its new id."""
        release = named_release(receipt, columns)
        text = json.dumps(_plain(release, rows))
        with self._said():
            self._file.execute(
                "INSERT INTO releases (id, analyst, question, release) VALUES (?, ?, ?, ?)",
                (release.id, self._analyst, question(plan, self._database), text),
            )
        return release

    def answer(self, plan: Plan) -> Kept | None:
        """The newest release that answers the same question."""
        found = self._read(
            "question = ? ORDER BY number DESC LIMIT 1", question(plan, self._database)
        )
        return found[0] if found else None

    def find(self, name: str) -> Kept | None:
        """The release of this id."""
        found = self._read("id = ?", name)
        return found[0] if found else None

    def all(self) -> tuple[Release, ...]:
        """All releases, oldest first."""
        return tuple(kept.release for kept in self._read("true ORDER BY number"))

    def _read(self, condition: str, *values: str) -> list[Kept]:
        names = ", ".join("?" * len(self._names))
        sql = f"SELECT release FROM releases WHERE analyst IN ({names}) AND {condition}"
        with self._said():
            found = self._file.execute(sql, (*self._names, *values)).fetchall()
        try:
            return [_kept(json.loads(text)) for (text,) in found]
        except (ValueError, KeyError, TypeError):
            raise LedgerError(_UNREADABLE.format(self._path or "memory")) from None

    def _spellings(self) -> list[str]:
        """The spellings of this analyst's name in the file: names were not always normalised."""
        found = self._file.execute("SELECT DISTINCT analyst FROM releases").fetchall()
        same = {name for (name,) in found if normal_name(name) == normal_name(self._analyst)}
        return sorted({self._analyst, *same})

    @contextlib.contextmanager
    def _said(self) -> Any:
        """SQLite's errors in words of ours."""
        with self._lock:
            try:
                yield
            except (sqlite3.Error, OSError):
                raise LedgerError(_UNREADABLE.format(self._path or "memory")) from None


_UNREADABLE = (
    "The kept releases in {} cannot be read or written. Mend the file's place and rights, or move "
    "the file away: then every question is asked anew, and spends."
)


def named_release(receipt: Receipt, columns: Sequence[tuple[str, str]]) -> Release:
    """A release of this moment, with an id that nobody had before."""
    time = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Release(uuid.uuid4().hex[:12], receipt, time, tuple(columns))


def question(plan: Plan, database: str) -> str:
    """What tells two questions apart: all that decides the law of the answer.

    The rows are not in it: a kept answer stays what it was when they come or go.
    """
    domain, groups = plan.domain, plan.groups
    parts = (
        database, plan.function.name, plan.mechanism.name, plan.source, None,
        sorted((name, str(value)) for name, value in plan.parameters.items()),
        sorted((name, column.sql, column.type) for name, column in plan.columns.items()),
        [(key.sql, key.type) for key in plan.keys],
        None if domain is None else [domain.select, domain.described],
        None if groups is None else [groups.domains, groups.cap],
        str(plan.beta), plan.report,
    )  # fmt: skip
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _plain(release: Release, rows: Rows) -> dict[str, Any]:
    receipt, loss = release.receipt, release.receipt.loss
    return {
        "id": release.id,
        "time": release.time,
        "columns": release.columns,
        "rows": [list(row) for row in rows],
        "call": receipt.call,
        "source": receipt.source,
        "mechanism": receipt.mechanism,
        "loss": [
            None if x is None else str(x)
            for x in (loss.epsilon, loss.delta, loss.rho, loss.bounded_range)
        ],
        "accuracy": receipt.accuracy,
        "assumptions": receipt.assumptions,
    }


def _kept(plain: dict[str, Any]) -> Kept:
    epsilon, delta, rho, bounded = (None if x is None else Fraction(x) for x in plain["loss"])
    if epsilon is None or delta is None:
        raise ValueError("a loss without its numbers")
    receipt = Receipt(
        call=plain["call"],
        source=plain["source"],
        mechanism=plain["mechanism"],
        loss=PrivacyLoss(epsilon, delta, rho, bounded),
        accuracy=plain["accuracy"],
        assumptions=tuple(plain["assumptions"]),
    )
    columns = tuple((name, kind) for name, kind in plain["columns"])
    release = Release(plain["id"], receipt, plain["time"], columns)
    return Kept(release, tuple(tuple(row) for row in plain["rows"]))
