"""The command line, `dp-sql`."""
