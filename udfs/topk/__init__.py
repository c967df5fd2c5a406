"""Top-k mechanisms: counts of people per item in, positions of items out."""
