"""The SQL functions that dp_sql offers: one declaration each, and nothing that runs.

Adding a function on an existing input shape means adding a declaration here. Ranges and defaults of
the arguments live here; what an argument's value may look like is read in literals.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

MIN_EPSILON = Fraction(1, 10**9)
MAX_EPSILON = Fraction(10**4)
MIN_DELTA = Fraction(1, 10**18)
MAX_DELTA = Fraction(1, 10**3)
MAX_K = 100_000
MAX_CONTRIBUTIONS = 10_000
DEFAULT_MAX_CONTRIBUTIONS = 100
MAX_GROUPS_CONTRIBUTED = 1000
MAX_GROUPS = 10_000
DEFAULT_BETA = Fraction(1, 20)


@dataclass(frozen=True)
class Function:
    """One SQL function: its name, what it answers, and the arguments it knows.

    Args:
        name: as written in SQL, upper case.
        kind: the input shape: "topk" counts people per item, "count_distinct" takes the pairs,
            "select" takes scores of candidates.
        positional: names of the arguments without a name, in order; all are required.
        named: names of the arguments written `name := value`.
        default_mechanism: used where the call names none.
        example: a call that works, and the table it works on, for messages.
    """

    name: str
    kind: str
    positional: tuple[str, ...]
    named: tuple[str, ...]
    default_mechanism: str
    example: str
    table: str


DP_TOPK = Function(
    name="DP_TOPK",
    kind="topk",
    positional=("item", "k"),
    named=(
        "epsilon",
        "delta",
        "privacy_unit",
        "domain",
        "mechanism",
        "beta",
        "groups",
        "max_groups_contributed",
    ),
    default_mechanism="joint",
    example="DP_TOPK(title, 10, epsilon := 1.0, privacy_unit := user_id, domain := catalog.title)",
    table="ratings",
)

DP_COUNT_DISTINCT = Function(
    name="DP_COUNT_DISTINCT",
    kind="count_distinct",
    positional=("item",),
    named=(
        "epsilon",
        "privacy_unit",
        "beta",
        "max_contributions",
        "mechanism",
        "bound_selection",
        "contribution_bound",
        "report",
        "groups",
        "max_groups_contributed",
    ),
    default_mechanism="matching",
    example="DP_COUNT_DISTINCT(word, epsilon := 1.0, privacy_unit := user_id)",
    table="reviews",
)

DP_SELECT = Function(
    name="DP_SELECT",
    kind="select",
    positional=("candidate", "score", "sensitivity"),
    named=("epsilon", "mechanism", "beta"),
    default_mechanism="pnf",
    example="DP_SELECT(model, accuracy, sensitivity, epsilon := 1.0)",
    table="scores",
)

FUNCTIONS: Mapping[str, Function] = {f.name: f for f in (DP_TOPK, DP_COUNT_DISTINCT, DP_SELECT)}
