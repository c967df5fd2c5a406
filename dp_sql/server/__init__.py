"""The server for DuckDB's own shell: tokens, and a gateway to the sessions of their analysts."""
