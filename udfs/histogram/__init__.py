"""Mechanisms that answer all groups at once, by one vector of noise."""
