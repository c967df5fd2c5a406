"""Engines, a folder each: they run SQL and draw releases. What they share lies beside them."""
