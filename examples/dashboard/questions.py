"""The questions of the page, as SQL and in words."""

from __future__ import annotations

from dataclasses import dataclass

EVERYWHERE = "everywhere"
REGIONS = (EVERYWHERE, "north", "south", "east", "west")


@dataclass(frozen=True)
class Question:
    """One question.

    Args:
        sql: a SELECT with one DP call; `{epsilon}` is replaced by the privacy loss.
        words: the same for people.
        ranked: whether the answer is a ranking; otherwise it is a count with its lower bound.
    """

    sql: str
    words: str
    ranked: bool

    def at(self, hundredths: int) -> str:
        """The statement at a privacy loss: whole hundredths, so that no digit is lost."""
        return self.sql.format(epsilon=in_decimals(hundredths))


def most_read(k: int, region: str) -> Question:
    """The k books that the most people rated, and how many these are."""
    return Question(
        f"SELECT DP_TOPK(title, {k}, epsilon := {{epsilon}}, counts := true) AS best "
        f"FROM ratings{_where(region)}",
        f"The {k} most read books {_place(region)}",
        ranked=True,
    )


def n_searches(region: str) -> Question:
    """How many different words were searched for."""
    return Question(
        "SELECT DP_COUNT_DISTINCT(words, epsilon := {epsilon}, report := true) AS n "
        f"FROM searches{_where(region)}",
        f"How many different searches were typed {_place(region)}",
        ranked=False,
    )


def in_decimals(hundredths: int) -> str:
    """Hundredths as a number, without zeros at its end.

    >>> in_decimals(25), in_decimals(100), in_decimals(5)
    ('0.25', '1', '0.05')
    """
    return f"{hundredths // 100}.{hundredths % 100:02}".rstrip("0").rstrip(".")


def _where(region: str) -> str:
    if region not in REGIONS:
        raise ValueError("There is no region of this name.")
    return "" if region == EVERYWHERE else f" WHERE region = '{region}'"


def _place(region: str) -> str:
    return region if region == EVERYWHERE else f"in the {region}"
