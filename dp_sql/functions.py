"""The SQL functions that dp_sql offers: one declaration each, and nothing that runs.

Adding a function on an existing input shape means adding a declaration here. Ranges and defaults of
the arguments live here; what an argument's value may look like is read in recognise.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

MIN_EPSILON = Fraction(1, 10**9)
MAX_EPSILON = Fraction(10**4)
MAX_K = 100_000
MAX_CONTRIBUTIONS = 10_000
DEFAULT_MAX_CONTRIBUTIONS = 100
DEFAULT_BETA = Fraction(1, 20)


@dataclass(frozen=True)
class Function:
    """One SQL function: its name, what it answers, and the arguments it knows.

    Args:
        name: as written in SQL, upper case.
        kind: the input shape: "topk" counts people per item, "count_distinct" takes the pairs.
        positional: names of the arguments without a name, in order; all are required.
        named: names of the arguments written `name := value`.
        default_mechanism: used where the call names none.
        example: a call that works, for messages.
    """

    name: str
    kind: str
    positional: tuple[str, ...]
    named: tuple[str, ...]
    default_mechanism: str
    example: str


DP_TOPK = Function(
    name="DP_TOPK",
    kind="topk",
    positional=("item", "k"),
    named=("epsilon", "privacy_unit", "domain", "mechanism", "beta"),
    default_mechanism="joint",
    example="DP_TOPK(title, 10, epsilon := 1.0, privacy_unit := user_id, domain := catalog.title)",
)

DP_COUNT_DISTINCT = Function(
    name="DP_COUNT_DISTINCT",
    kind="count_distinct",
    positional=("item",),
    named=("epsilon", "privacy_unit", "beta", "max_contributions", "mechanism", "report"),
    default_mechanism="matching",
    example="DP_COUNT_DISTINCT(word, epsilon := 1.0, privacy_unit := user_id)",
)

FUNCTIONS: Mapping[str, Function] = {f.name: f for f in (DP_TOPK, DP_COUNT_DISTINCT)}
