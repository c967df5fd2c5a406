"""From a Plan to the SQL that reads people's rows. Writes; never runs."""
