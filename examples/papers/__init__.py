"""The papers behind dp_sql, reproduced: `make papers`, or `python -m examples.papers --help`.

One script per paper (joint_topk, distinct_count, selection, bandit), each on the package's public
API. The rest of this folder finds data, keeps trials, and writes tables, figures and verdicts.
"""
