"""Who asks over a connection, and which session answers: the gateway of a served database."""

import math
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from dp_sql.budget.model import name_of
from dp_sql.engines.duckdb.quack_server import EngineError, QuackServer, refusal
from dp_sql.engines.duckdb.results import Result, fetched
from dp_sql.errors import DpSqlError, LedgerError, NotSupported, PolicyError, QueryError, with_type
from dp_sql.policy.model import read_policy
from dp_sql.server.access_tokens import digest_of, owner_of, read_tokens
from dp_sql.server.sent_by_drivers import NO_ROWS, attached_catalog, is_of_transaction
from dp_sql.session.analyst import AnalystSession
from dp_sql.sql.statement_limits import check_bytes

_MAX_ANSWERS = 16  # of one analyst, to be read again
_MAX_HELD = 512 * 10**6  # bytes of one analyst's answers as stored: the memory is for all
_WAITING_PER_ANALYST = 4  # each holds a thread of the server
_ASKED_AT_ONCE = 96  # by all analysts; Quack has some 130 threads, and needs some for new clients
_WAITING_AT_ONCE = 72  # beyond this an analyst may ask only one at a time
_GRACE_SECONDS = 60.0
_STOPPING = "The server is stopping."
# Quack 1.5.5 writes past a buffer when it lists more than 2,048 connections.
_MAX_CONNECTIONS = 1500


@dataclass
class _Analyst:
    """One analyst's session, who may use it now, and how many questions run or wait.

    The answers that have cost something can be read again: of each the held table (None for a
    failure) and its SQL are known by the text, the one that was read last at the end. Of all held
    tables the bytes are known, the newest at the end; of those that were dropped, and may not be
    freed because a client still reads, their sum.
    """

    name: str
    lock: threading.Lock = field(default_factory=threading.Lock)
    asking: int = 0
    session: AnalystSession | None = None
    answers: OrderedDict[str, tuple[str | None, str]] = field(default_factory=OrderedDict)
    held: dict[str, int] = field(default_factory=dict)
    dropped: int = 0

    def let_go(self, tables: Iterable[str | None]) -> None:
        """Hold these tables no more."""
        self.dropped += sum(self.held.pop(table or "", 0) for table in tables)

    def let_go_free(self) -> list[str]:
        """Hold no more what has cost nothing; returns its tables."""
        paid = {table for table, _ in self.answers.values()}
        free = [table for table in self.held if table not in paid]
        self.let_go(free)
        return free

    def crowded_out(self) -> list[str]:
        """The held tables that are too much beside the newest; those that cost nothing first."""
        paid = {table: text for text, (table, _) in self.answers.items() if table is not None}
        dropped, total = list[str](), sum(self.held.values())
        for table in sorted([*self.held][:-1], key=paid.__contains__):
            if total <= _MAX_HELD:
                break
            dropped.append(table)
            total -= self.held[table]
            if table in paid:
                del self.answers[paid[table]]
        return dropped


@dataclass
class _Client:
    """One connection: whose token opened it, and since when it may be listed as open."""

    digest: str
    since: float
    last_free: str | None = None  # the held table of the last answer that cost nothing


class Gateway:
    """Admits analysts by their tokens, and passes each question to its analyst's own session.

    The file of the tokens is read again at each question. Once the file of the policy has
    changed, nothing new is answered. The server holds the answers.
    """

    def __init__(self, database: str, policy: str, tokens: Path, server: QuackServer) -> None:
        self._database, self._policy, self._tokens = database, policy, tokens
        self._server, self._text_at_start = server, self._policy_text()
        # Of what is compared later: a file that is being written may lack its budget.
        self._parsed = read_policy(policy, self._text_at_start or None)
        self._lock = threading.Lock()
        self._analysts: dict[str, _Analyst] = {}
        self._clients: dict[str, _Client] = {}
        self._refused: set[str] = set()  # names of those who had too many connections
        self._is_open = True

    def open_session(self, name: str) -> None:
        """Open an analyst's session, which checks that the policy fits the database."""
        analyst = self._analyst(name_of(name) or name)
        with analyst.lock:
            self._session(analyst)

    def check(self) -> None:
        """Check that the policy fits the database, and that someone has a token.

        If it caps single analysts, print who has a token and no cap.
        """
        terms = self._parsed.budget
        path, known = self._tokens, read_tokens(self._tokens)
        if not known:
            raise PolicyError(
                f"There is no token in {path}, so no one could query. "
                f"dp-sql token add NAME --file {path} makes one."
            )
        self.open_session(known[0].analyst)
        capped = {} if terms is None else terms.analysts
        if free := ", ".join(one.analyst for one in known if capped and one.analyst not in capped):
            message = f"Without a cap in [budget.analysts], and may spend all that is left: {free}"
            print(message, file=sys.stderr)

    def admit(self, connection: str, token: str) -> bool:
        """Whether a token is in the file; the connection asks as its analyst from then on.

        A token that has its share of all connections open admits no other one.
        """
        try:
            with _report_to_owner():
                known = read_tokens(self._tokens)
        except NotSupported:  # Quack would show no one why
            return False
        digest = digest_of(token)
        if not self._is_open or (name := owner_of(digest, known)) is None:
            return False
        self._forget_closed()
        with self._lock:
            own = sum(client.digest == digest for client in self._clients.values())
            if max(own * len(known), len(self._clients)) < _MAX_CONNECTIONS:
                self._clients[connection] = _Client(digest, time.monotonic())
                return True
            is_new = name not in self._refused
            self._refused.add(name)
        if is_new:
            print(f"{name} has {own} open connections, and gets no more.", file=sys.stderr)
        return False

    def answer(self, connection: str, text: str) -> str:
        """SQL that reads the answer to a client's statement.

        An answer that has cost something is held for its analyst, and so is a failure: the same
        text again is the same answer, for free. A client that binds a query twice, asks EXPLAIN
        or DESCRIBE first, or asks twice at once, spends once.
        """
        client, name = self._client(connection)
        check_bytes(text)
        if is_of_transaction(text):
            return NO_ROWS
        analyst = self._analyst(name)
        if (known := self._held(analyst, text)) is not None:
            return known
        with self._turn(analyst) as has_waited:
            if has_waited:
                self._client(connection)  # its token may have been removed meanwhile
                if connection not in self._server.connections():
                    raise NotSupported("This connection was closed before its turn came.")
            known = self._held(analyst, text)  # it may have been answered meanwhile
            return self._ask(client, analyst, text) if known is None else known

    def close(self) -> None:
        """Admit no one any more, stop what is running, and close every session."""
        self.interrupt()
        for analyst in self._analysts.values():
            with analyst.lock:
                if analyst.session is not None:
                    analyst.session.close()
                analyst.session = None

    def interrupt(self) -> None:
        """Admit no one any more, and stop what is running; its cost is spent."""
        self._is_open = False
        for analyst in list(self._analysts.values()):
            if (session := analyst.session) is not None:
                session.interrupt()

    def _client(self, connection: str) -> tuple[_Client, str]:
        """A connection, and its analyst's name."""
        client = self._clients.get(connection)
        with _report_to_owner():
            name = None if client is None else owner_of(client.digest, read_tokens(self._tokens))
        if not self._is_open:
            raise NotSupported(_STOPPING)
        if client is None or name is None:
            raise NotSupported("This token is not valid here. ATTACH again with a valid one.")
        client.since = -math.inf
        return client, name

    @contextmanager
    def _turn(self, analyst: _Analyst) -> Iterator[bool]:
        """Ask alone as an analyst; yields whether the question had to wait."""
        with self._lock:
            asked = sum(other.asking for other in self._analysts.values())
            if analyst.asking > _WAITING_PER_ANALYST:
                raise NotSupported(
                    f"Busy: {_WAITING_PER_ANALYST} of your queries are already waiting. Send this "
                    "one again when one is answered; it has cost nothing."
                )
            if asked >= (_WAITING_AT_ONCE if analyst.asking else _ASKED_AT_ONCE):
                raise NotSupported(
                    f"Busy: {asked} queries of all analysts are open. Send this one again later; "
                    "it has cost nothing."
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

    def _ask(self, client: _Client, analyst: _Analyst, text: str) -> str:
        with _report_to_owner():
            session = self._session(analyst)
        self._make_room(analyst)
        n_before = session.n_receipts
        try:
            with _report_to_owner():
                catalog = attached_catalog(session, text)
                relation = session.sql(text) if catalog is None else catalog
                result = fetched(relation)
                is_paid = session.n_receipts > n_before
                table, sql = self._stored(result, is_paid=is_paid)
        except Exception as error:
            # All errors that cannot come from a release have a class of their own.
            is_free = isinstance(error, (DpSqlError, EngineError)) and type(error) is not QueryError
            if session.n_receipts == n_before and is_free:
                raise
            self._hold(client, analyst, text, None, sql := refusal(error))
            return sql
        n_bytes = result.stored_bytes
        self._hold(client, analyst, text, table, sql, n_bytes=n_bytes, is_paid=is_paid)
        return sql

    def _stored(self, result: Result, *, is_paid: bool) -> tuple[str, str]:
        """Hold a result; for one that has cost something, all that has cost nothing makes room.

        Answers that came meanwhile may have taken the room that there was before it was asked.
        """
        try:
            return self._server.hold(result)
        except RuntimeError:
            if not is_paid:
                raise
        with self._lock:
            free = [table for one in self._analysts.values() for table in one.let_go_free()]
        self._drop(free)
        return self._server.hold(result)

    def _make_room(self, analyst: _Analyst) -> None:
        """Refuse a question at no cost if its answer might not be held.

        What one analyst's questions have dropped while a client stopped reading takes no more than
        their share, too.
        """
        with self._lock:
            every = list(self._analysts.values())
            held = sum(sum(other.held.values()) for other in every)
        if not self._server.holds_more_than(held):
            with self._lock:
                for other in every:
                    other.dropped = 0
        elif analyst.dropped > _MAX_HELD:
            raise NotSupported(
                "Your earlier answers still take memory, because a client has not read one to its "
                "end. Send this one again later; it has cost nothing."
            )
        if not self._server.is_full():
            return
        with self._lock:
            free = analyst.let_go_free()
        self._drop(free)
        if self._server.is_full():
            raise NotSupported(
                "The server's memory is full of answers that are held or being read. Send this one "
                "again later; it has cost nothing."
            )

    def _held(self, analyst: _Analyst, text: str) -> str | None:
        """The SQL of an answer that an analyst has paid for."""
        with self._lock:
            if text not in analyst.answers:
                return None
            analyst.answers.move_to_end(text)
            return analyst.answers[text][1]

    def _hold(
        self, client: _Client, analyst: _Analyst, text: str, table: str | None, sql: str,
        *, n_bytes: int = 0, is_paid: bool = True,
    ) -> None:  # fmt: skip
        """Hold an answer, for its analyst or for its connection, and drop what it replaces."""
        with self._lock:
            if table is not None:
                analyst.held[table] = n_bytes
            replaced, client.last_free = [client.last_free], None if is_paid else table
            if is_paid:
                analyst.answers[text] = table, sql
                if len(analyst.answers) > _MAX_ANSWERS:
                    replaced.append(analyst.answers.popitem(last=False)[1][0])
            analyst.let_go(replaced)
            analyst.let_go(crowded := analyst.crowded_out())
        self._drop([*replaced, *crowded])

    def _drop(self, tables: Iterable[str | None]) -> None:
        for table in filter(None, tables):
            self._server.drop(table)

    def _analyst(self, name: str) -> _Analyst:
        with self._lock:
            return self._analysts.setdefault(name, _Analyst(name))

    def _session(self, analyst: _Analyst) -> AnalystSession:
        if not self._is_open:
            raise NotSupported(_STOPPING)
        if self._policy_text() != self._text_at_start:
            raise PolicyError(
                "The policy has changed since the server started. Restart the server."
            )
        if analyst.session is not None and not analyst.session.is_current:
            analyst.session.close()
            analyst.session = None
        if analyst.session is None:
            try:
                analyst.session = AnalystSession(self._database, self._parsed, analyst.name)
            except DpSqlError:
                raise
            except Exception as error:  # of DuckDB: it would show the path of the file
                raise OSError(str(error)) from error
        return analyst.session

    def _policy_text(self) -> bytes:
        with suppress(OSError):  # connect says what is wrong
            return Path(self._policy).read_bytes()
        return b""

    def _forget_closed(self) -> None:
        """Drop what connections held that are closed."""
        old = time.monotonic() - _GRACE_SECONDS  # one that was just admitted is not listed yet
        with self._lock:  # before the list is made: it lacks those that first ask after it
            known = [c for c, one in self._clients.items() if one.since < old]
        live = self._server.connections()
        with self._lock:
            gone = [self._clients.pop(c, None) for c in known if c not in live]
            free = [client.last_free for client in gone if client is not None]
            for analyst in self._analysts.values():
                analyst.let_go(free)
        self._drop(free)


@contextmanager
def _report_to_owner() -> Iterator[None]:
    """Print what is wrong with the owner's files to the owner; an analyst reads no paths."""
    try:
        yield
    except (PolicyError, LedgerError, OSError) as error:
        print(with_type(error), file=sys.stderr, flush=True)
        raise NotSupported("The server cannot answer now. Its owner can read why.") from error
