"""dp_sql: differentially private top-k, distinct counts and selection, inside DuckDB.

>>> import dp_sql
>>> with dp_sql.connect() as session:
...     _ = session.sql("CREATE TABLE seen AS SELECT 1 AS user_id, 'Dune' AS title")
...     session.sql(
...         "SELECT DP_TOPK(title, 1, epsilon := 1, privacy_unit := user_id, domain := ['Dune']) "
...         "AS best FROM seen"
...     ).fetchall()
[(['Dune'],)]
"""

from importlib.metadata import version

from dp_sql.errors import DpSqlError, InternalError, QueryError
from dp_sql.releases import Receipt
from dp_sql.session.base import Session
from dp_sql.session.connect import connect, install, receipts

__version__ = version("dp-sql")
__all__ = [
    "DpSqlError",
    "InternalError",
    "QueryError",
    "Receipt",
    "Session",
    "connect",
    "install",
    "receipts",
]
