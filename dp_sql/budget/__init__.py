"""The budget: its terms, what is spent of it, and the ledger that records that. Never SQL."""
