"""`python -m examples.papers`: every paper, one after the other."""

from examples.papers import bandit, distinct_count, joint_topk, selection
from examples.papers.frame.command import command

if __name__ == "__main__":
    command(
        {
            "joint_topk": joint_topk.run,
            "distinct_count": distinct_count.run,
            "selection": selection.run,
            "bandit": bandit.run,
        }
    )
