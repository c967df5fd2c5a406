"""The questions of the page, as SQL and in words: whatever dp_sql's functions can answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dp_sql.sql.formatting import shown_name
from dp_sql.sql.functions import FUNCTIONS

# What the page says of each function: its name, a question about a column, the answer's unit.
# A function that is not listed here is offered under its own name.
WORDS: Mapping[str, tuple[str, str, str]] = {
    "DP_TOPK": ("Most frequent values", "the {k} most frequent values of {item}", "people"),
    "DP_COUNT_DISTINCT": ("Different values", "different values of {item}", "different values"),
    "DP_COUNT": ("Number of rows", "number of rows in {table}", "rows"),
    "DP_SUM": ("Total", "total {item}", "{item}"),
    "DP_AVG": ("Average", "average {item}", "{item}"),
    "DP_MEDIAN": ("Median", "median {item}", "{item}"),
    "DP_QUANTILE": ("Quantiles", "quantiles of {item}", "{item}"),
}
# What positional arguments may be, the default first. A function that takes others is left out.
POSITIONAL = {"k": ("10", "5", "15"), "q": ("[0.25, 0.5, 0.75]", "0.5", "0.9", "[0.1, 0.9]")}
DETAILS = ("report", "counts")  # arguments that ask for more than a bare number
OFFERED = tuple(
    name
    for name, function in FUNCTIONS.items()
    if function.shape.reads_people and {*function.positional} <= {"item", *POSITIONAL}
)
TIMES = ("month", "week", "quarter")


@dataclass(frozen=True)
class Question:
    """One DP call over one table.

    Args:
        item: the column that the call reads, or *.
        arguments: the values of its other arguments as SQL, by name.
        key: the column of GROUP BY; with `each`, one of TIMES, the days are grouped by that.
        where: a condition as SQL, and in words.
        counts_people: whether the item identifies the person.
    """

    table: str
    function: str
    item: str
    arguments: Mapping[str, str] = field(default_factory=dict)
    key: str | None = None
    each: str | None = None
    where: tuple[str, str] | None = None
    counts_people: bool = False

    def at(self, hundredths: int) -> str:
        """The statement at a privacy loss: whole hundredths, so that no digit is lost."""
        declared, given = FUNCTIONS[self.function], dict(self.arguments)
        listed = [self.item, *(given.pop(name) for name in declared.positional[1:])]
        named = {"epsilon": in_decimals(hundredths), **given}
        named |= {name: "true" for name in DETAILS if name in declared.named}
        key, source = self.key and shown_name(self.key), shown_name(self.table)
        if self.each:
            key = f"date_trunc('{self.each}', {key})"
        call = ", ".join([*listed, *(f"{name} := {value}" for name, value in named.items())])
        lines = [f"SELECT {self.function}({call}) AS answer", f"FROM {source}"]
        if self.where:
            lines.append(f"WHERE {self.where[0]}")
        if key:
            name = self.each or key
            lines[0] = f"SELECT {key if name == key else f'{key} AS {name}'}, {lines[0][7:]}"
            lines += [f"GROUP BY {name}", f"ORDER BY {name}"]
        return "\n".join(lines)

    def given(self, **arguments: str) -> Question:
        """The same with more arguments."""
        return replace(self, arguments={**self.arguments, **arguments})

    @property
    def words(self) -> str:
        """What is asked, for people."""
        _, said, _ = WORDS.get(self.function, ("", f"{self.function} of {{item}}", ""))
        said = said.format(item=self.item, table=self.table, **self.arguments)
        said = f"number of people in {self.table}" if self.counts_people else said
        said += f" by {self.each or self.key}" * bool(self.key)
        said += f", {self.where[1]}" if self.where else ""
        return said[:1].upper() + said[1:]

    @property
    def unit(self) -> str:
        """What a number of the answer counts."""
        unit = WORDS.get(self.function, ("", "", self.function))[2].format(item=self.item)
        return "people" if self.counts_people else unit


def in_decimals(hundredths: int) -> str:
    """Hundredths as a number, without zeros at its end.

    >>> in_decimals(25), in_decimals(100), in_decimals(5)
    ('0.25', '1', '0.05')
    """
    return f"{hundredths // 100}.{hundredths % 100:02}".rstrip("0").rstrip(".")
