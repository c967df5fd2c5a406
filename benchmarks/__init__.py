"""Measurements against the same questions without privacy. Run by `make bench`; never by tests."""
