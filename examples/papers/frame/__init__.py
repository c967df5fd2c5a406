"""What all scripts stand on: data, trials, tables, figures, verdicts, the command line."""
