"""Who is asking over a connection, and the session that answers: the door of a served database.

Knows sessions and tokens. Every text of a client goes to its analyst's session and nowhere else.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dp_sql.engines.duckdb.quack_server import EngineError, QuackServer, refusal, taken
from dp_sql.errors import DpSqlError, LedgerError, NotSupported, PolicyError, QueryError
from dp_sql.policy.model import read_policy
from dp_sql.server.tokens import digest_of, owner_of, read_tokens
from dp_sql.session.base import Session
from dp_sql.session.connect import connect
from dp_sql.sql.formatting import literal, quote

# What ATTACH of DuckDB 1.5 asks: the schemas, then the tables as the statements that make them.
SCHEMATA = (
    "SELECT catalog_name, schema_name FROM information_schema.schemata "
    "WHERE catalog_name NOT IN ('system', 'temp') ORDER BY ALL"
)
TABLES = (
    "SELECT schema_name, sql, 'table' FROM duckdb_tables() "
    "UNION ALL SELECT schema_name, view_name, 'view' FROM duckdb_views()"
)
_KEPT_PER_CONNECTION = 16
_WAITING_PER_ANALYST = 4  # each holds a thread of the server
_ASKED_AT_ONCE = 96  # by all analysts; Quack has some 130 threads, and needs some for new clients
_WAITING_AT_ONCE = 72  # beyond this an analyst may ask only one at a time
_GRACE_SECONDS = 60.0


@dataclass
class _Analyst:
    """One analyst's session, who may use it now, and how many questions are asked or wait."""

    name: str
    lock: threading.Lock = field(default_factory=threading.Lock)
    asking: int = 0
    session: Session | None = None


@dataclass
class _Caller:
    """One connection: whose token opened it, when, and the answers that it can read again.

    answers: by text: the table that is held, none for a failure, and the SQL that tells it.
    """

    digest: str
    since: float
    answers: dict[str, tuple[str | None, str]] = field(default_factory=dict)
    passing: str | None = None


class Door:
    """Lets analysts in by their tokens, and asks their sessions what they ask.

    Args:
        database: the owner's file.
        policy: path of the policy.
        tokens: the file of the tokens; read again at each question.
        server: holds the answers.
    """

    def __init__(self, database: str, policy: str, tokens: Path, server: QuackServer) -> None:
        self._database = database
        self._policy = policy
        self._tokens = tokens
        self._server = server
        self._lock = threading.Lock()
        self._analysts: dict[str, _Analyst] = {}
        self._callers: dict[str, _Caller] = {}
        self._is_open = True

    def check(self) -> None:
        """See that the policy fits the database, and that somebody may come in."""
        read_policy(self._policy)
        known = read_tokens(self._tokens)
        if not known:
            raise PolicyError(
                f"There is no token in {self._tokens}, so nobody could ask. "
                f"dp-sql token add NAME --file {self._tokens} makes one."
            )
        analyst = self._analyst(known[0].analyst)
        with analyst.lock:
            self._session(analyst)

    def admit(self, connection: str, token: str) -> bool:
        """Whether a token is in the file; the connection asks as its analyst from then on."""
        digest = digest_of(token)
        if not self._is_open or owner_of(digest, read_tokens(self._tokens)) is None:
            return False
        self._forget_gone()
        with self._lock:
            self._callers[connection] = _Caller(digest, time.monotonic())
        return True

    def answer(self, connection: str, text: str) -> str:
        """SQL that reads the answer to a text.

        An answer that has cost something is kept for its connection, and so is a failure: the
        same text again is the same answer, for nothing. A client that binds a query twice, asks
        EXPLAIN or DESCRIBE first, or asks twice at once, spends once.
        """
        caller, name = self._caller(connection)
        known = caller.answers.get(text)
        if known is not None:
            return known[1]
        analyst = self._analyst(name)
        with self._turn(analyst) as has_waited:
            if has_waited:
                self._caller(connection)  # its token may have been removed meanwhile
                if connection not in self._server.connections():
                    raise NotSupported("This connection was closed before its turn came.")
                known = caller.answers.get(text)
            return self._asked(caller, analyst, text) if known is None else known[1]

    def close(self) -> None:
        """Let nobody in any more, stop what is running, and close every session."""
        self.interrupt()
        for analyst in self._analysts.values():
            with analyst.lock:
                if analyst.session is not None:
                    analyst.session.close()
                analyst.session = None

    def interrupt(self) -> None:
        """Let nobody in any more, and stop what is running; what it costs is spent."""
        self._is_open = False
        for analyst in list(self._analysts.values()):
            session = analyst.session
            if session is not None:
                session.interrupt()

    def _caller(self, connection: str) -> tuple[_Caller, str]:
        """A connection, and the analyst whose it is."""
        caller = self._callers.get(connection)
        with _owners_business():
            name = None if caller is None else owner_of(caller.digest, read_tokens(self._tokens))
        if caller is None or name is None or not self._is_open:
            raise NotSupported("This token is not known here. ATTACH again with one that is.")
        return caller, name

    @contextmanager
    def _turn(self, analyst: _Analyst) -> Iterator[bool]:
        """Ask alone as an analyst; yields whether that had to be waited for."""
        with self._lock:
            if analyst.asking > _WAITING_PER_ANALYST:
                raise NotSupported(
                    f"Busy: {_WAITING_PER_ANALYST} questions of yours are waiting already. "
                    "Ask again when one is answered; this one has cost nothing."
                )
            asked = sum(other.asking for other in self._analysts.values())
            if asked >= (_WAITING_AT_ONCE if analyst.asking else _ASKED_AT_ONCE):
                raise NotSupported(
                    f"Busy: {asked} open questions of all analysts together. "
                    "Ask again later; this one has cost nothing."
                )
            analyst.asking += 1
        try:
            has_waited = not analyst.lock.acquire(blocking=False)
            if has_waited:
                analyst.lock.acquire()
            try:
                yield has_waited
            finally:
                analyst.lock.release()
        finally:
            with self._lock:
                analyst.asking -= 1

    def _asked(self, caller: _Caller, analyst: _Analyst, text: str) -> str:
        with _owners_business():
            session = self._session(analyst)
        before = len(session.receipts)
        try:
            with _owners_business():
                told = _catalogue(session, text)
                name, sql = self._server.hold(taken(session.sql(text) if told is None else told))
        except Exception as error:
            if len(session.receipts) == before and not _may_have_cost(error):
                raise
            return self._keep(caller, text, None, refusal(error), spent=True)
        return self._keep(caller, text, name, sql, spent=len(session.receipts) > before)

    def _keep(self, caller: _Caller, text: str, name: str | None, sql: str, *, spent: bool) -> str:
        with self._lock:
            done, caller.passing = [caller.passing], None if spent else name
            if spent:
                caller.answers[text] = name, sql
                if len(caller.answers) > _KEPT_PER_CONNECTION:
                    done.append(caller.answers.pop(next(iter(caller.answers)))[0])
        for old in done:
            if old is not None:
                self._server.drop(old)
        return sql

    def _analyst(self, name: str) -> _Analyst:
        with self._lock:
            return self._analysts.setdefault(name, _Analyst(name))

    def _session(self, analyst: _Analyst) -> Session:
        if not self._is_open:
            raise NotSupported("The server is stopping.")
        if analyst.session is None:
            try:
                name = analyst.name
                analyst.session = connect(self._database, policy=self._policy, analyst=name)
            except DpSqlError:
                raise
            except Exception as error:  # of DuckDB: it would say where the file is
                raise OSError(str(error)) from error
        return analyst.session

    def _forget_gone(self) -> None:
        """Let go what connections kept that are closed."""
        live = self._server.connections()
        old = time.monotonic() - _GRACE_SECONDS  # one that was just admitted is not listed yet
        with self._lock:
            gone = [
                c for c, caller in self._callers.items() if c not in live and caller.since < old
            ]
            callers = [self._callers.pop(connection) for connection in gone]
        for caller in callers:
            for name in [caller.passing, *(kept[0] for kept in caller.answers.values())]:
                if name is not None:
                    self._server.drop(name)


def _may_have_cost(error: Exception) -> bool:
    """Whether an error may come from a release: all others have a class of their own."""
    return type(error) is QueryError or not isinstance(error, (DpSqlError, EngineError))


@contextmanager
def _owners_business() -> Iterator[None]:
    """What is wrong with the owner's files is told to the owner: an analyst reads no paths."""
    try:
        yield
    except (PolicyError, LedgerError, OSError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        raise NotSupported("The server cannot answer now. Its owner can read why.") from error


def _catalogue(session: Session, text: str) -> Any:
    """What ATTACH asks, answered from SHOW TABLES and DESCRIBE; None for another text."""
    words = " ".join(text.split())
    if words not in (SCHEMATA, TABLES):
        return None
    tables = [
        _made(session, name) for (name,) in session.sql("SHOW TABLES").project("name").fetchall()
    ]
    made = [table for table in tables if table is not None]
    if words == SCHEMATA:
        rows = sorted({("dp_sql", schema) for schema, _ in [("main", ""), *made]})
        return session.sql(_values(("catalog_name", "schema_name"), rows))
    return session.sql(
        _values(("schema_name", "sql", "kind"), [(*table, "table") for table in made])
    )


def _made(session: Session, name: str) -> tuple[str, str] | None:
    """The schema of a table, and the statement that would make one of its shape."""
    parts = name.split(".")
    quoted = [quote(part) for part in parts]
    try:
        columns = session.sql(f"DESCRIBE {'.'.join(quoted)}").fetchall()
    except DpSqlError:  # a view, whose columns are not told
        return None
    schema = parts[-2] if len(parts) > 1 else "main"
    listed = ", ".join(f"{quote(column)} {kind}" for column, kind in columns)
    return schema, f"CREATE TABLE {quote(schema)}.{quoted[-1]}({listed});"


def _values(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    listed = [f"({', '.join(literal(value) for value in row)})" for row in rows]
    nothing = f"SELECT {', '.join(f'NULL::VARCHAR AS {name}' for name in names)} WHERE false"
    return (
        f"SELECT * FROM (VALUES {', '.join(listed)}) AS t({', '.join(names)})" if rows else nothing
    )
