"""Partition selection: who is in which group in, the groups that may be shown out."""
