"""Spark: it holds people's rows, and DuckDB on the driver compiles, draws and answers."""
