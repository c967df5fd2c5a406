"""The budget: what was promised, what is spent, and the book in which it stands. Never SQL."""
