"""`dp-sql shell`: an interactive prompt, and batch mode."""
