"""Which expressions may be computed on private rows? Those that return a value for every row."""
