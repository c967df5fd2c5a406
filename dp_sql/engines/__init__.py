"""Engines: one file each; an engine runs SQL, knows its catalog, and registers our UDFs."""
