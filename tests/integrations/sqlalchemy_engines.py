"""Engines of the dialect `dpsql`; a file that imports this is skipped where SQLAlchemy is not installed."""

from pathlib import Path
from typing import Any

import pytest

sqlalchemy = pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed")


pytest.importorskip("duckdb_engine", reason="duckdb-engine is not installed")


def engine_for(shop: Path, query: str = "") -> Any:
    return sqlalchemy.create_engine(f"dpsql:///{shop}/shop.duckdb{query}", future=True)


def analysts(shop: Path, analyst: str = "ann") -> Any:
    return engine_for(shop, f"?policy={shop}/policy.toml&analyst={analyst}")
