"""What is asked: a statement, its parts and its DP calls. Knows no policy, budget or engine."""
