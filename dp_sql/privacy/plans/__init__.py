"""From a DP call to a frozen Plan: its source, its public items and groups, and its price."""
