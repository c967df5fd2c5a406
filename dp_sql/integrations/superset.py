"""What Apache Superset must know of `dpsql` connections; found by its entry point.

Superset puts a LIMIT into each query of SQL Lab. Beside a DP call it would limit nothing, and is
refused, and EXPLAIN has none; so here the text goes as it was written, and fewer rows are fetched.
Knows Superset's words and nothing of sessions.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

try:
    from superset.db_engine_specs.base import BaseEngineSpec, LimitMethod
    from superset.db_engine_specs.duckdb import DuckDBEngineSpec
except ImportError:  # no Superset here; then nothing asks for this class either
    BaseEngineSpec, DuckDBEngineSpec, LimitMethod = object, None, None


class DpSqlEngineSpec(BaseEngineSpec):  # type: ignore[misc]  # Any, where there is no Superset
    """A session, with DuckDB's spelling of times."""

    engine = "dpsql"
    engine_name = "dp_sql"
    default_driver = "dp_sql"
    sqlalchemy_uri_placeholder = "dpsql:////path/shop.duckdb?policy=/path/policy.toml&analyst=name"
    limit_method = getattr(LimitMethod, "FETCH_MANY", None)
    supports_file_upload = False
    column_type_mappings = getattr(DuckDBEngineSpec, "column_type_mappings", ())
    _time_grain_expressions = getattr(DuckDBEngineSpec, "_time_grain_expressions", {})

    @classmethod
    def convert_dttm(
        cls, target_type: str, dttm: datetime, db_extra: dict[str, Any] | None = None
    ) -> str | None:
        """A time as a literal of DuckDB's."""
        literal: str | None = DuckDBEngineSpec.convert_dttm(target_type, dttm, db_extra)
        return literal
