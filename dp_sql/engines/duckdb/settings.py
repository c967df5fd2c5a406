"""Settings of DuckDB, and the sizes in them."""

from typing import Any

from dp_sql.engines.duckdb.sql_runner import SqlRunner


def settings(engine: SqlRunner, *names: str) -> tuple[Any, ...]:
    """The values of settings of DuckDB."""
    listed = ", ".join(f"system.main.current_setting('{name}')" for name in names)
    (values,) = engine.run(f"SELECT {listed}").fetchall()
    return tuple(values)


def in_bytes(size: str) -> int | None:
    """A size as DuckDB prints it, in bytes; None if it is a percentage."""
    from dp_sql.policy.limits import size_in_bytes  # for large sources only

    number, _, unit = size.partition(" ")
    try:
        return int(number) if unit == "bytes" else size_in_bytes(size)
    except ValueError:
        return None
