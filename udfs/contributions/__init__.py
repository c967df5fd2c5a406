"""Mechanisms of DP_COUNT, DP_SUM and DP_AVG: histograms of what people contribute -> one number."""
