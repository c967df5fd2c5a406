"""What to write instead of a statement that is refused: a correction that was tried, or a hint."""
