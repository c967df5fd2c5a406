"""Runs SQL on a DuckDB connection as if its caller had written it there. Decides nothing."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

import duckdb

from dp_sql.engines.duckdb.session_state import Recent, SessionState
from dp_sql.engines.duckdb.tickets import Tickets
from dp_sql.sql.sizes import size_in_bytes

Connection = duckdb.DuckDBPyConnection
_WORD = re.compile(r"\w+")
LONGEST_ATTEMPT = 1.0  # seconds; no interrupt of the caller's connection ends it
# What a connection may have set for itself, except where it looks for names, and what it shows. The
# size of the temporary directory changes with what is free on the disk.
_SETTINGS = """SELECT name, value FROM system.main.duckdb_settings()
    WHERE name NOT IN ('schema', 'search_path', 'max_temp_directory_size')
        AND name NOT LIKE '%progress%' ORDER BY name"""
# What is evaluated in a frame with the caller's variables; compiled once.
_CALL, _WITH_PARAMS, _WITH_PARAMETERS = (
    compile(f"__dp_call(__dp_sql{given})", "<string>", "eval")
    for given in ("", ", params=__dp_values", ", __dp_values")
)


class SqlRunner:
    """A connection, its tickets, and the caller's variables, which SQL may name as tables.

    short_lists: public items that were read while a statement was planned, by the SQL that lists
        them. The release of the statement has them from here.
    attempts_here: whether `attempt` sees the tables as they are here, whatever a transaction of the
        caller has changed, and where the caller looks for names.
    """

    attempts_here = False

    def __init__(
        self,
        connection: Connection,
        tickets: Tickets,
        frame: FrameType | None = None,
        state: SessionState | None = None,
    ) -> None:
        self.connection, self.tickets, self._frame = connection, tickets, frame
        self.state = state or SessionState()
        self.short_lists: Recent[str, list[Any]] = Recent(50)

    def run(self, sql: str | duckdb.Statement, parameters: object = None) -> Connection:
        """Execute SQL as if the caller had written `connection.execute(sql)`."""
        return self._in_frame("execute", sql, parameters)  # type: ignore[no-any-return]

    def settings(self, *names: str) -> tuple[Any, ...]:
        """The values of settings of DuckDB."""
        listed = ", ".join(f"system.main.current_setting('{name}')" for name in names)
        (values,) = self.run(f"SELECT {listed}").fetchall()
        return tuple(values)

    @property
    def memory_limit(self) -> int:
        """How many bytes DuckDB may use."""
        (limit,) = self.settings("memory_limit")
        return in_bytes(limit) or 0

    def run_again(self, sql: str, parameters: Sequence[object] = ()) -> Connection:
        """Execute SQL as `run` does; with parameters it is parsed once, and planned each time."""
        if not parameters:
            return self.run(sql)
        return self.run(parsed_once(sql, self.connection, self.state), parameters)

    def finish(self, sql: str, parameters: object = None) -> None:
        """Execute SQL to its end and drop the result."""
        result = self.run(sql, parameters)
        if hasattr(result, "complete"):  # 2.0 streams, and refuses other work until the end
            result.complete()

    @contextlib.contextmanager
    def undoing(self, sql: str) -> Iterator[None]:
        """Execute SQL at the end; its errors are ignored: a failed transaction undoes itself."""
        try:
            yield
        finally:
            with contextlib.suppress(duckdb.Error):
                self.run(sql)

    def bind(self, sql: str, parameters: object = None, keyword: str = "SELECT") -> None:
        """Let DuckDB bind a statement of this first word and not run it; it raises its errors.

        But not where PIVOT takes its columns from answers: so far there are none.
        """
        pivots = "PIVOT" in sql.upper()
        if pivots and len(self.connection.extract_statements(sql)) > 1:  # as DuckDB 1 reads it
            return
        try:
            if keyword in {"SELECT", "FROM", "VALUES", ""}:
                self.relate(sql, parameters)  # it is bound when it is made, and run when read
            elif keyword in {"WITH", "CREATE", "INSERT", "UPDATE", "DELETE", "COPY"}:
                self.finish(f"EXPLAIN {sql}", parameters)
        except duckdb.BinderException as error:
            if not pivots or "SELECT list is empty" not in str(error):
                raise

    def attempt(self, sql: str) -> duckdb.Error | None:
        """What DuckDB says of SQL on another connection with the same settings.

        On this one, an error would end the caller's transaction. None also if it takes long.
        """
        before = self.state.interrupts.n
        with contextlib.closing(self.connection.cursor()) as cursor:
            is_late = threading.Event()
            timer = threading.Timer(LONGEST_ATTEMPT, _interrupt, [cursor, is_late])
            timer.start()
            try:
                found = error_of(SqlRunner(cursor, self.tickets), sql)
            except duckdb.InterruptException:
                if not is_late.is_set():
                    raise
                found = None
            finally:
                timer.cancel()
            self.state.interrupts.check(before)
            if found is None:
                return None
            both = cursor.execute(_SETTINGS).fetchall(), self.run(_SETTINGS).fetchall()
            return found if both[0] == both[1] else None

    def relate(self, sql: str, parameters: object = None) -> duckdb.DuckDBPyRelation | None:
        """The relation of some SQL, as if the caller had written `connection.sql(sql)`."""
        return self._in_frame("sql", sql, parameters)  # type: ignore[no-any-return]

    def _in_frame(self, method: str, sql: str | duckdb.Statement, parameters: object) -> Any:
        """Call a method of the connection in a frame with the caller's variables.

        There DuckDB looks for dataframes. In a frame of this module, it would take a table called
        `sql` for the variable of that name.
        """
        # Reading a frame's f_locals makes the frame keep a copy of them (up to Python 3.12), and
        # with it every session and relation in it. So they are read only if a name fits.
        text = sql if isinstance(sql, str) else sql.query
        wanted = local_names(self._frame) & set(_WORD.findall(text))
        values = self._frame.f_locals if self._frame is not None and wanted else {}
        names = {name: values[name] for name in wanted if name in values}
        names |= {"__dp_call": getattr(self.connection, method), "__dp_sql": sql}
        call = _CALL
        if parameters is not None:
            names["__dp_values"] = parameters
            call = _WITH_PARAMS if method == "sql" else _WITH_PARAMETERS
        outer = self._frame.f_globals if self._frame is not None else {}
        return eval(call, outer, names)


def _interrupt(connection: Connection, is_late: threading.Event) -> None:
    is_late.set()
    with contextlib.suppress(duckdb.Error):  # it may just have been closed
        connection.interrupt()


def error_of(runner: SqlRunner, sql: str) -> duckdb.Error | None:
    """What DuckDB says of SQL, which is run to its end; None: nothing."""
    try:
        runner.finish(sql)
    except duckdb.InterruptException:
        raise
    except duckdb.Error as error:
        return error
    return None


def parsed_once(sql: str, connection: Connection, state: SessionState) -> duckdb.Statement:
    """One statement of dp_sql's own that comes again: DuckDB parses it once.

    SET integer_division changes what a division is parsed to, so this is parsed each time.
    """
    statement = state.statements.get(sql)
    if statement is None:
        (statement,) = connection.extract_statements(sql)
        if "/" not in sql:
            state.statements[sql] = statement
    return statement


def local_names(frame: FrameType | None) -> set[str]:
    """The names of the variables of a frame."""
    code = frame.f_code if frame is not None else None
    return {*code.co_varnames, *code.co_cellvars, *code.co_freevars} if code else set()


def in_bytes(size: str) -> int | None:
    """A size as DuckDB prints it, in bytes; None if it is a percentage."""
    number, _, unit = size.partition(" ")
    try:
        return int(number) if unit == "bytes" else size_in_bytes(size)
    except ValueError:
        return None
