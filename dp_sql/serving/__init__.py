"""The server for DuckDB's own shell: tokens, and a door to the sessions of their analysts."""
