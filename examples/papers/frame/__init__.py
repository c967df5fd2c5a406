"""What all scripts share: data, trials, tables, figures, verdicts, the command line."""
