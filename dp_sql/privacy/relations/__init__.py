"""Is a source person-level: whose row is each row, and how many rows can one person have?"""
