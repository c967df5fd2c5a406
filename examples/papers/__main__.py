"""`python -m examples.papers`: every paper, one after the other."""

import sys


def main() -> None:
    """Run what the command line names; the scripts' libraries take a while to load."""
    try:
        from examples.papers import bandit, distinct_count, joint_topk, selection
        from examples.papers.frame.command import command
    except KeyboardInterrupt:
        sys.exit(130)
    command(
        {
            "joint_topk": joint_topk.run,
            "distinct_count": distinct_count.run,
            "selection": selection.run,
            "bandit": bandit.run,
        }
    )


if __name__ == "__main__":
    main()
