"""An analyst's releases, to be read again for free: in memory, or in a SQLite file."""

import contextlib
import hashlib
import json
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from dp_sql.budget.model import normal_name
from dp_sql.engines.duckdb.frozen import Records
from dp_sql.errors import LedgerError
from dp_sql.files import make_private
from dp_sql.privacy.plans.plan import Plan
from dp_sql.releases import Receipt, Release, new_release
from dp_sql.udfs.mechanism import PrivacyLoss

_PATIENCE = 30  # seconds to wait for other connections
_LOSS = ("epsilon", "delta", "rho", "bounded_range")


@dataclass(frozen=True)
class Stored:
    """A release and its rows, as delivered; each value is a string, a number or a list."""

    release: Release
    rows: tuple[tuple[object, ...], ...]


class ReleaseStore:
    """The releases of one analyst on one database, in a file or (None) in memory."""

    def __init__(self, path: Path | None, analyst: str, database: str) -> None:
        self._analyst, self._database, self._path = analyst, database, path
        self._lock = threading.Lock()
        with self._access():
            if path is not None:
                make_private(path)
            self._file = sqlite3.connect(
                path or ":memory:", timeout=_PATIENCE, isolation_level=None, check_same_thread=False
            )
            # A forgotten session closes its files as a closed one does.
            self._closing = weakref.finalize(self, self._file.close)
            _use_wal(self._file)
            self._file.execute(
                "CREATE TABLE IF NOT EXISTS releases (number INTEGER PRIMARY KEY, id TEXT UNIQUE "
                "NOT NULL, analyst TEXT NOT NULL, question TEXT NOT NULL, release TEXT NOT NULL)"
            )
            self._file.execute(
                "CREATE INDEX IF NOT EXISTS by_question ON releases (analyst, question)"
            )
            # In older files names are not normalised: find every spelling of this one.
            found = self._file.execute("SELECT DISTINCT analyst FROM releases").fetchall()
            same = {name for (name,) in found if normal_name(name) == normal_name(analyst)}
            self._names = sorted({analyst, *same})

    def close(self) -> None:
        """Close the file."""
        self._closing()

    def check_writable(self) -> None:
        """Raise LedgerError if no release can be stored now; asked before anything is spent."""
        with self._access():
            self._file.execute("DELETE FROM releases WHERE false")  # it needs the right to write

    def add(
        self, plan: Plan, receipt: Receipt, columns: Sequence[tuple[str, str]], rows: Records
    ) -> None:
        """Store one release, with a new id."""
        release = new_release(receipt, columns)
        key = question_key(plan, self._database) if self._path else ""  # no one asks for it
        with self._access("The answer could not be stored. Its cost is spent. "):
            self._file.execute(
                "INSERT INTO releases (id, analyst, question, release) VALUES (?, ?, ?, ?)",
                (release.id, self._analyst, key, _to_json(release, rows)),
            )

    def answers(self, plans: Sequence[Plan]) -> list[Stored | None]:
        """The stored release of each plan of a statement; equal calls have one each, in order.

        Where there are fewer, the others have the last one. Calls that share their groups have all
        or none.
        """
        if self._path is None:
            return [None] * len(plans)
        keys = [question_key(plan, self._database) for plan in plans]
        stored = [self._answer(key, keys[:place].count(key)) for place, key in enumerate(keys)]
        shared = [plan.finding and id(plan.finding) for plan in plans]
        new = {one for one, known in zip(shared, stored, strict=True) if one and known is None}
        return [None if one in new else known for one, known in zip(shared, stored, strict=True)]

    def kept(self, queries: Sequence[Sequence[Plan]]) -> list[str | None]:
        """The id of the release that answers each plan of some queries, asked in this order.

        "": that of an earlier query will; None: none does.
        """
        found, before = list[str | None](), set[str]()
        for plans in queries:
            keys = [question_key(plan, self._database) for plan in plans] if self._path else []
            coming = [key in before for key in keys] or [False] * len(plans)
            for stored, is_coming in zip(self.answers(plans), coming, strict=True):
                found.append(stored.release.id if stored else "" if is_coming else None)
            before |= {*keys}
        return found

    def find(self, release_id: str) -> Stored | None:
        """The release with this id."""
        return next(self._read("id = ?", release_id), None)

    def all(self) -> tuple[Release, ...]:
        """All releases, oldest first."""
        return tuple(stored.release for stored in self._read("true ORDER BY number"))

    def _answer(self, key: str, number: int) -> Stored | None:
        """The release of this number that answers a question, or the last one before it."""
        found = [*self._read("question = ? ORDER BY number LIMIT ?", key, number + 1)]
        return found[-1] if found else None

    def _read(self, condition: str, *values: str | int) -> Iterator[Stored]:
        names = ", ".join("?" * len(self._names))
        sql = f"SELECT release FROM releases WHERE analyst IN ({names}) AND {condition}"
        with self._access():
            found = self._file.execute(sql, (*self._names, *values)).fetchall()
        for (written,) in found:
            try:
                yield _from_json(written)
            except (ValueError, KeyError, TypeError):
                raise self._unreadable() from None

    @contextlib.contextmanager
    def _access(self, before: str = "") -> Iterator[None]:
        """One thread at a time; SQLite's errors become LedgerError, with `before` as its start."""
        with self._lock:
            try:
                yield
            except (sqlite3.Error, OSError):
                raise self._unreadable(before) from None

    def _unreadable(self, before: str = "") -> LedgerError:
        return LedgerError(
            f"{before}The stored releases in {self._path or 'memory'} cannot be read or written. "
            "Check the file, its permissions and its disk, or move it away: then every query is "
            "answered again, and spends."
        )


def _use_wal(file: sqlite3.Connection) -> None:
    """Switch to write-ahead logging. Here SQLite does not wait for other connections."""
    for left in reversed(range(100 * _PATIENCE)):
        try:
            file.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            if not left:
                raise
            time.sleep(0.01)


def question_key(plan: Plan, database: str) -> str:
    """A digest of all that decides the distribution of an answer, except the rows."""
    domain, groups, finding = plan.domain, plan.groups, plan.finding
    found_by = [] if finding is None else [[*map(str, finding.parameters.values())]]
    if finding is not None and finding.mechanism.name != "partition_selection":
        found_by.append([finding.mechanism.name])
    if groups is not None and len(groups.found_by) > 1:
        found_by.append([str(groups.pays), *groups.found_by])
    numbers = plan.parameters.release_key(plan.mechanism)
    # The None was once the condition. It stays, or no release that is already stored is found.
    parts = (
        database, plan.function.name, plan.mechanism.name, plan.source, None,
        sorted((name, str(value)) for name, value in numbers.items()),
        sorted((name, column.sql, column.type) for name, column in plan.columns.items()),
        [(key.sql, key.type) for key in plan.keys],
        None if domain is None else [domain.select, domain.described],
        None if groups is None else [groups.select, groups.cap, *found_by],
        str(plan.parameters.beta), plan.parameters.detailed,
    )  # fmt: skip
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _to_json(release: Release, rows: Records) -> str:
    plain = {**vars(release), **vars(release.receipt), "rows": rows}
    loss = [getattr(release.receipt.loss, name) for name in _LOSS]
    plain["loss"] = [None if x is None else str(x) for x in loss]
    plain["approximate"] = [str(x) for x in release.receipt.loss.approximate or ()]
    del plain["receipt"]
    return json.dumps(plain)


def _from_json(written: str) -> Stored:
    plain = json.loads(written)
    numbers: list[Any] = [None if x is None else Fraction(x) for x in plain["loss"]]
    rest: Any = tuple(map(Fraction, plain.get("approximate", ()))) or None  # older files have none
    loss = PrivacyLoss(**dict(zip(_LOSS, numbers, strict=True)), approximate=rest)
    words = {name: plain[name] for name in ("call", "source", "mechanism", "accuracy")}
    receipt = Receipt(**words, loss=loss, assumptions=tuple(plain["assumptions"]))
    columns = tuple((name, kind) for name, kind in plain["columns"])
    release = Release(plain["id"], receipt, plain["time"], columns)
    return Stored(release, tuple(tuple(row) for row in plain["rows"]))
