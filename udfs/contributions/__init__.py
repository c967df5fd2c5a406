"""Numbers to which each person adds a contribution, such as rows: bounds on it, noise, proofs."""
