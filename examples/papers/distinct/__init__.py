"""The parts of distinct_count."""
