"""Distinct-count mechanisms: who holds which item in, one number out."""
