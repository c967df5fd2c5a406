"""dp_sql: differentially private SQL functions in DuckDB, also over tables in Spark.

>>> import dp_sql
>>> with dp_sql.connect() as session:
...     _ = session.sql("CREATE TABLE seen AS SELECT 1 AS user_id, 'Dune' AS title")
...     session.sql(
...         "SELECT DP_TOPK(title, 1, epsilon := 1, privacy_unit := user_id, domain := ['Dune']) "
...         "AS best FROM seen"
...     ).fetchall()
[(['Dune'],)]
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dp_sql.errors import DpSqlError, InternalError, QueryError
from dp_sql.imports import imported

if TYPE_CHECKING:
    from dp_sql.releases import Receipt
    from dp_sql.session.base import Session
    from dp_sql.session.connect import connect, install, receipts

    __version__: str

__all__ = [
    "DpSqlError", "InternalError", "QueryError", "Receipt", "Session", "connect", "install",
    "receipts",
]  # fmt: skip
_MODULES = {"Receipt": "dp_sql.releases", "Session": "dp_sql.session.base"}


def __getattr__(name: str) -> Any:
    """Import DuckDB and the rest at first use: `dp-sql --help` needs none of it."""
    value: Any
    if name == "__version__":
        value = import_module("importlib.metadata").version("dp-sql")
    elif name in __all__:
        value = getattr(imported(_MODULES.get(name, "dp_sql.session.connect")), name)
    else:
        raise AttributeError(f"module 'dp_sql' has no attribute {name!r}")
    globals()[name] = value
    return value
