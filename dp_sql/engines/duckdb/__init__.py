"""DuckDB: connections, functions registered in it, and what is asked of its catalog."""
