"""Tables of Spark, which DuckDB makes."""

from pathlib import Path
from typing import Any

import duckdb

from dp_sql.sql.formatting import full_name, literal


def store(spark: Any, folder: Path, sql: str, database: str) -> None:
    """Make the tables that some SQL of DuckDB makes, in a new database of Spark."""
    spark.sql(f"DROP DATABASE IF EXISTS {database} CASCADE")
    spark.sql(f"CREATE DATABASE {database}")
    with duckdb.connect() as connection:
        connection.execute(f"SET TimeZone = 'UTC'; {sql}")
        tables = "SELECT schema_name, table_name FROM duckdb_tables() WHERE NOT temporary"
        for schema, name in connection.execute(tables).fetchall():
            file = folder / f"{database}.{schema}.{name}.parquet"
            rows = f"FROM {full_name((schema, name))}"
            connection.execute(f"COPY ({rows}) TO {literal(str(file))} (FORMAT parquet)")
            spark.sql(f"CREATE TABLE {database}.{name} USING parquet LOCATION '{file}'")
