"""Spark holds people's rows; DuckDB on the driver compiles statements, draws and answers."""
