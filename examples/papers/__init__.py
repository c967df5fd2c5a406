"""The papers behind dp_sql, reproduced: `make papers`, or `python -m examples.papers --help`.

    joint_topk  distinct_count  selection  bandit     one script for each paper, and one for its bandit
    topk/       distinct/       selecting/            what they are made of
    frame/                                            data, trials, tables, figures, verdicts, options

Each script stands on the package's public interface. docs/papers.md shows the figures and says what
they teach; docs/data.md says where the data is had.
"""
