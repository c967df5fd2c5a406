"""Measurements against the same queries without privacy. Run by `make bench`; never by tests."""
