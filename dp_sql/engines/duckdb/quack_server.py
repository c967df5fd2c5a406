"""A DuckDB instance that answers Quack clients with tables that were put into it, and nothing else.

Quack asks two registered functions: whether a token is admitted, and, for every text that a client
sends, whether it may run. The second may return another text, which Quack then runs instead of the
client's (duckdb-quack, pull request 142). This one always does: no client's text is ever parsed
here. The instance holds answers, no private row, and is locked.
"""

import errno
import itertools
import os
import re
import socket
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any

import duckdb

from dp_sql.engines.duckdb.opening import NO_FILES, restrict
from dp_sql.engines.duckdb.quack_extension import NEWEST, load_quack
from dp_sql.engines.duckdb.results import Result
from dp_sql.engines.duckdb.sql_runner import Connection
from dp_sql.errors import DpSqlError, NotSupported, QueryError, with_type
from dp_sql.sql.formatting import in_macro, literal, quote

EngineError = duckdb.Error  # for modules that do not import DuckDB

Admit = Callable[[str, str], bool]  # (connection, token): whether this new connection may ask
Answer = Callable[[str, str], str]  # (connection, text): SQL over held tables, or an error to show

_LISTEN = re.compile(r"(?:quack:)?(?P<host>[^\s:/\[\]']+|\[[0-9A-Fa-f:]+\])(?::(?P<port>\d{1,5}))?")
_MEMORY = 2 * 10**9  # bytes of all stored answers together; they are not written to disk
_ROOM = 64 * 10**6  # bytes that must be free before a question is asked: answers cost something


@dataclass(frozen=True)
class Address:
    """Where to listen."""

    host: str
    port: int

    @property
    def is_local(self) -> bool:
        """Whether only programs of this machine reach it."""
        return self.host in {"localhost", "127.0.0.1", "[::1]"}

    def __str__(self) -> str:
        return f"quack:{self.host}:{self.port}"


def address(text: str) -> Address:
    """Read `quack:HOST:PORT`; the default port is 9494."""
    found = _LISTEN.fullmatch(text)
    port = int(found["port"] or 9494) if found else 0
    if found is None or found["host"].isdecimal() or not 0 < port < 65536:
        hint = "Write one like quack:localhost:9494."
        raise NotSupported(f"{text} is not an address to listen on.", hint=hint)
    return Address(found["host"].lower(), port)


def check_free(where: Address) -> None:
    """Refuse a port on which a server listens: Quack would share it, and clients reach either."""
    with suppress(socket.gaierror):  # Quack says what is wrong with a name
        for family, kind, _, _, place in socket.getaddrinfo(
            where.host.strip("[]"), where.port, type=socket.SOCK_STREAM
        ):
            with socket.socket(family, kind) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # after a restart
                try:
                    probe.bind(place)
                except OSError as error:
                    # Connections of a server that has ended keep the port for a minute.
                    if error.errno == errno.EADDRINUSE and _is_answered(family, place):
                        raise NotSupported(
                            f"Cannot listen on {where}: another server does.",
                            hint=f"Stop it, or write --listen quack:{where.host}:PORT.",
                        ) from None


def _is_answered(family: int, place: Any) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        return probe.connect_ex(place) != errno.ECONNREFUSED


def refusal(error: Exception) -> str:
    """SQL that shows an error to a client; for an unexpected one, a constant sentence.

    What the error proposes is put into dp(), as the client's shell needs it.
    """
    if isinstance(error, QueryError) and error.suggestion:
        error.suggestion = in_macro(error.suggestion.strip())
    match error:
        case DpSqlError():
            sentence = with_type(error)
        case duckdb.Error():
            sentence = str(error)
        case _:
            sentence = "The server failed, not your query. Its cost may be spent."
    return f"SELECT error({literal(sentence.replace(chr(0), ''))}) AS refused"


class QuackServer:
    """The served instance: `hold` answers in it, `start` it, `close` it."""

    def __init__(self) -> None:
        config: dict[str, Any] = {"threads": 1, "memory_limit": f"{_MEMORY}B", "temp_directory": ""}
        self._connection: Connection = duckdb.connect(":memory:", config=config)
        self._numbers = itertools.count(1)
        self._address: Address | None = None
        self._functions: tuple[object, ...] = ()
        # The server tests itself with a token of its own, and the connection that it opens.
        self._proof: tuple[str, str] | None = (os.urandom(16).hex(), os.urandom(16).hex())
        self._proving: set[str] = set()
        try:
            load_quack(self._connection)
            restrict(self._connection, NO_FILES)
        except BaseException:
            self._connection.close()
            raise

    def start(self, where: Address, admit: Admit, answer: Answer) -> None:
        """Listen, and test that clients' statements do not run, before any client can connect."""
        check_free(where)
        self._register(admit, answer)
        others = "false" if where.is_local else "true"
        unused = os.urandom(16).hex()  # Quack needs a token of its own, which `admitted` ignores
        try:
            self._connection.execute(
                f"CALL quack_serve('{where}', token := '{unused}', "
                f"allow_other_hostname := {others}, disable_ssl := true)"
            ).fetchall()
        except duckdb.Error as error:
            first = str(error).split("\n", 1)[0]
            raise NotSupported(f"Cannot listen on {where}: {first}") from error
        self._address = where
        self._connection.execute("SET lock_configuration = true")
        self._prove(where, unused)

    def is_full(self) -> bool:
        """Whether too little memory is left, also for dropped tables that are not yet freed."""
        return self.holds_more_than(_MEMORY - 2 * _ROOM)

    def holds_more_than(self, n_bytes: int) -> bool:
        """Whether the memory in use is over 64 MB more than tables of so many bytes take.

        Dropped tables may take the rest: DuckDB frees one once no read is open that began before.
        """
        ((used,),) = self._run("SELECT sum(memory_usage_bytes) FROM duckdb_memory()")
        return int(used) > n_bytes + _ROOM

    def hold(self, rows: Result) -> tuple[str, str]:
        """Hold rows in a table; returns its name, and SQL that reads it."""
        name = f"answer_{next(self._numbers)}_{os.urandom(8).hex()}"
        columns = list(enumerate(rows.columns))
        typed = ", ".join(f"CAST(c{n} AS {kind}) AS c{n}" for n, (_, kind) in columns)
        with closing(self._connection.cursor()) as cursor:
            try:
                cursor.register("fetched", rows.table)
                cursor.execute(f"CREATE TABLE {name} AS SELECT {typed} FROM fetched")
                cursor.unregister("fetched")
            except duckdb.Error as error:  # it names the table, which no one may read
                raise RuntimeError("An answer could not be held.") from error
        listed = ", ".join(f"c{n} AS {quote(column)}" for n, (column, _) in columns)
        return name, f"SELECT {listed} FROM memory.main.{name}"

    def drop(self, name: str) -> None:
        """Drop a held table; a client that is reading it reads on."""
        self._run(f"DROP TABLE IF EXISTS memory.main.{name}")

    def connections(self) -> frozenset[str]:
        """The connections that are open now."""
        rows = self._run("SELECT connection_id FROM quack_active_connections()")
        return frozenset(connection for (connection,) in rows)

    def close(self) -> None:
        """Stop listening, wait for what is being answered, and drop everything."""
        if self._address is not None:
            with suppress(duckdb.Error):
                self._run(f"CALL quack_stop('{self._address}')")
        self._connection.close()

    def _run(self, sql: str) -> list[Any]:
        with closing(self._connection.cursor()) as cursor:
            return cursor.execute(sql).fetchall()

    def _register(self, admit: Admit, answer: Answer) -> None:
        def admitted(connection: str, token: str, _: str) -> bool:
            if self._proof is not None and token == self._proof[0]:
                self._proving.add(connection)
                return True
            return admit(connection, token)

        def instead(connection: str, text: str) -> str | None:
            if connection in self._proving:
                return f"SELECT {literal(self._proof[1])} AS proof" if self._proof else None
            return _instead(answer, connection, text)

        self._functions = (admitted, instead)  # DuckDB does not keep callables alive
        given: Mapping[str, Any] = {"side_effects": True, "null_handling": "special"}
        make = self._connection.create_function
        make("dp_sql_admitted", admitted, ["VARCHAR"] * 3, "BOOLEAN", **given)
        make("dp_sql_instead", instead, ["VARCHAR"] * 2, "VARCHAR", **given)
        for setting, name in (("authentication", "admitted"), ("authorization", "instead")):
            self._connection.execute(f"SET GLOBAL quack_{setting}_function = 'dp_sql_{name}'")

    def _prove(self, where: Address, unused: str) -> None:
        """Ask as a client would: the text that is sent must not run, nor any other token enter."""
        assert self._proof is not None
        token, proof = self._proof
        host = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(where.host, where.host)
        url = f"quack:{host}:{where.port}"
        try:
            with duckdb.connect(":memory:", config={"threads": 1}) as client:
                load_quack(client)
                shown = _asked(client, url, token)
                refused = [_asked(client, url, wrong) for wrong in (unused, os.urandom(16).hex())]
        finally:
            self._proof = None
        if shown != [(proof,)] or refused != [None, None]:
            raise NotSupported(
                f"The Quack of DuckDB {duckdb.__version__} does not run the text that its "
                "authorization function returns, so it cannot be served safely.",
                hint=f"{NEWEST} does.",
            )


def _asked(client: Connection, url: str, token: str) -> list[Any] | None:
    sql = f"FROM quack_query('{url}', 'SELECT 1', token := '{token}', disable_ssl := true)"
    with suppress(duckdb.Error):
        return client.execute(sql).fetchall()
    return None


def _instead(answer: Answer, connection: str, text: str) -> str | None:
    """The text that runs instead of a client's; None refuses without a message.

    Quack also asks before appending rows, with an INSERT that it made, and takes any text as a yes.
    """
    if text is None or text.lstrip()[:6].upper() == "INSERT":
        return None
    try:
        return answer(connection, text)
    except Exception as error:
        return refusal(error)
