"""Quantiles of votes on a public grid: one vote a person, one answer per quantile."""
