"""One session: the order of the steps, for the owner and for an analyst."""
