"""Which SQLAlchemy type a column of DuckDB's has; knows names of types and no database."""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy import types

_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")
_LIST = re.compile(r"(.+)\[\d*\]", re.DOTALL)
_NAMED: dict[str, Any] = {
    "BOOLEAN": types.BOOLEAN,
    "TINYINT": types.SMALLINT,
    "SMALLINT": types.SMALLINT,
    "UTINYINT": types.SMALLINT,
    "INTEGER": types.INTEGER,
    "USMALLINT": types.INTEGER,
    "BIGINT": types.BIGINT,
    "UINTEGER": types.BIGINT,
    "FLOAT": types.FLOAT,
    "DOUBLE": types.FLOAT,
    "VARCHAR": types.VARCHAR,
    "ENUM": types.VARCHAR,
    "BLOB": types.LargeBinary,
    "DATE": types.DATE,
    "TIME": types.TIME,
    "TIMESTAMP": types.TIMESTAMP,
    "TIMESTAMP_S": types.TIMESTAMP,
    "TIMESTAMP_MS": types.TIMESTAMP,
    "TIMESTAMP_NS": types.TIMESTAMP,
}
# These hold whole numbers that no integer type of SQLAlchemy's is wide enough for.
_WIDE = {"UBIGINT", "HUGEINT", "UHUGEINT", "BIGNUM"}


class DuckDBType(types.UserDefinedType):  # type: ignore[misc]  # Any, where SQLAlchemy is not read
    """A type that only DuckDB has; its values come as DuckDB gives them to Python."""

    cache_ok = True

    def __init__(self, name: str) -> None:
        self.name = name

    def get_col_spec(self, **_: object) -> str:
        """The type as DuckDB writes it."""
        return self.name


def sqlalchemy_type(name: str) -> Any:
    """The SQLAlchemy type of a type as DuckDB writes it.

    >>> sqlalchemy_type("BIGINT"), sqlalchemy_type("DECIMAL(9,2)"), sqlalchemy_type("VARCHAR[]")
    (BIGINT(), NUMERIC(precision=9, scale=2), ARRAY(VARCHAR()))
    """
    if of_list := _LIST.fullmatch(name):
        item = sqlalchemy_type(of_list[1])
        return DuckDBType(name) if isinstance(item, types.ARRAY) else types.ARRAY(item)
    if decimal := _DECIMAL.fullmatch(name):
        return types.NUMERIC(int(decimal[1]), int(decimal[2]))
    if name.endswith(" WITH TIME ZONE"):
        of_day = types.TIME if name.startswith("TIME ") else types.TIMESTAMP
        return of_day(timezone=True)
    if name in _WIDE:
        return types.NUMERIC(40, 0)
    known = _NAMED.get(name.split("(")[0])
    return DuckDBType(name) if known is None else known()
