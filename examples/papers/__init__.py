"""The papers behind dp_sql, reproduced: `make papers`, or `python -m examples.papers --help`.

    joint_topk  distinct_count  selection  bandit    a script for each paper, one for a bandit
    topk/       distinct/       selecting/           what they are made of
    frame/                                           data, trials, tables, figures, verdicts

Each script uses the package's public interface. docs/papers.md shows the figures and says
what they teach; docs/data.md says where to get the data.
"""
