"""What Apache Superset needs to know of `dpsql` connections; it finds this by its entry point.

Superset adds a LIMIT to each query of SQL Lab. Beside a DP call a LIMIT has no effect and is
refused, and EXPLAIN has none. So queries stay as they were written, and fewer rows are fetched.
"""

from datetime import datetime
from typing import Any

try:
    from superset.db_engine_specs.base import BaseEngineSpec, LimitMethod
    from superset.db_engine_specs.duckdb import DuckDBEngineSpec
except ImportError:  # without Superset nothing uses this class
    BaseEngineSpec, DuckDBEngineSpec, LimitMethod = object, None, None


class DpSqlEngineSpec(BaseEngineSpec):  # type: ignore[misc]  # Any, without Superset
    """A session, with DuckDB's literals of time."""

    engine = "dpsql"
    engine_name = "dp_sql"
    default_driver = "dp_sql"
    sqlalchemy_uri_placeholder = "dpsql:////path/shop.duckdb?policy=/path/policy.toml&analyst=name"
    limit_method = getattr(LimitMethod, "FETCH_MANY", None)
    supports_file_upload = False
    column_type_mappings = getattr(DuckDBEngineSpec, "column_type_mappings", ())
    _time_grain_expressions = getattr(DuckDBEngineSpec, "_time_grain_expressions", {})

    @classmethod
    def get_datatype(cls, type_code: Any) -> str | None:
        """The name of a type; not all type codes are strings."""
        return str(type_code).upper() or None

    @classmethod
    def convert_dttm(
        cls, target_type: str, dttm: datetime, db_extra: dict[str, Any] | None = None
    ) -> str | None:
        """A time as a DuckDB literal."""
        literal: str | None = DuckDBEngineSpec.convert_dttm(target_type, dttm, db_extra)
        return literal
