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

import gc
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from dp_sql.errors import DpSqlError, InternalError, QueryError

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
        value = getattr(_imported(_MODULES.get(name, "dp_sql.session.connect")), name)
    else:
        raise AttributeError(f"module 'dp_sql' has no attribute {name!r}")
    globals()[name] = value
    return value


def _imported(module: str) -> ModuleType:
    """Import a module without the garbage collector, which takes a tenth of a first answer's time.

    It would look again and again at what is imported, nearly all of which stays.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return import_module(module)
    finally:
        if collects:
            if not gc.get_freeze_count():  # else it would unfreeze what the program froze
                gc.freeze()
                gc.unfreeze()  # into the oldest generation, which is seldom looked at
            gc.enable()
