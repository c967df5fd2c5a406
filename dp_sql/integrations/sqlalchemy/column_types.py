"""The SQLAlchemy type of each of DuckDB's types."""

import re
from decimal import Decimal
from typing import Any

from sqlalchemy import types

from dp_sql.sql.types import digits_of

_LIST = re.compile(r"(.+)\[\d*\]", re.DOTALL)
_NAMES: dict[Any, str] = {
    types.BOOLEAN: "BOOLEAN",
    types.SMALLINT: "TINYINT SMALLINT UTINYINT",
    types.INTEGER: "INTEGER USMALLINT",
    types.BIGINT: "BIGINT UINTEGER",
    types.FLOAT: "FLOAT DOUBLE",
    types.VARCHAR: "VARCHAR ENUM",
    types.LargeBinary: "BLOB",
    types.DATE: "DATE",
    types.TIME: "TIME",
    types.TIMESTAMP: "TIMESTAMP TIMESTAMP_S TIMESTAMP_MS TIMESTAMP_NS",
}
_BY_NAME = {name: found for found, names in _NAMES.items() for name in names.split()}


class Numeric(types.Numeric):  # type: ignore[misc]  # Any, as SQLAlchemy is skipped
    """A DECIMAL, whose digits are kept; DuckDB divides DECIMALs as DOUBLE."""

    def result_processor(self, dialect: Any, coltype: Any) -> Any:
        """What turns DuckDB's value into the Decimal or float that was declared."""
        places = self._default_decimal_return_scale if self.scale is None else self.scale

        def read(value: Any) -> Any:
            if value is None or not self.asdecimal:
                return value if value is None else float(value)
            return Decimal(f"{value:.{places}f}") if isinstance(value, float) else value

        return read


class DuckDBType(types.UserDefinedType):  # type: ignore[misc]  # Any, as SQLAlchemy is skipped
    """A type that only DuckDB has; its values are those of DuckDB's Python module."""

    cache_ok = True

    def __init__(self, name: str) -> None:
        self.name = name

    def get_col_spec(self, **_: object) -> str:
        """DuckDB's name of the type."""
        return self.name


def sqlalchemy_type(name: str) -> Any:
    """The SQLAlchemy type of a type as DuckDB writes it.

    >>> sqlalchemy_type("BIGINT"), sqlalchemy_type("DECIMAL(9,2)"), sqlalchemy_type("VARCHAR[]")
    (BIGINT(), NUMERIC(precision=9, scale=2), ARRAY(VARCHAR()))
    """
    if is_list := _LIST.fullmatch(name):
        item = sqlalchemy_type(is_list[1])
        return DuckDBType(name) if isinstance(item, types.ARRAY) else types.ARRAY(item)
    if digits_of(name)[0]:
        return types.NUMERIC(*digits_of(name))
    if name.endswith(" WITH TIME ZONE"):
        of_day = types.TIME if name.startswith("TIME ") else types.TIMESTAMP
        return of_day(timezone=True)
    if name in {"UBIGINT", "HUGEINT", "UHUGEINT", "BIGNUM"}:  # too wide for SQLAlchemy's integers
        return types.NUMERIC(40, 0)
    found = _BY_NAME.get(name.split("(")[0])
    return DuckDBType(name) if found is None else found()
