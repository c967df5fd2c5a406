"""What a release asks of an engine that holds people's rows: three questions, each in plain SQL.

A question is asked of parts: sets of people, each with all of its people's rows. Its SQL is
DuckDB's, runs over each part alone, and what comes out is merged by `merge_sql`. So the answer is
the same however people are split, in which order parts and rows come, and how often a part is
computed. All randomness stays with who asks: nothing that an engine runs may draw. The SQL means
what it means to a DuckDB with SETTINGS and all other settings as they are by default.

An engine object serves one release. All its answers are about the same rows and the same parts: if
rows have changed, or people are split in another way, since its first job, it raises.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from dp_sql.privacy.relations.person_of import PersonOf
from dp_sql.sql.formatting import quote
from dp_sql.sql.types import BINARY_TYPES, TIMES, UP_TO_64_BITS, family

# These would let one person's row decide how long a query takes, or whether it fails:
# - statistics_propagation computes date_trunc of a column's smallest and largest value outside of
#   TRY, and skips what no value between them can match;
# - common_subexpressions computes what two TRY have in common before both, outside of either, in
#   DuckDB before 2.0.1;
# - join_order and build_side_probe_side choose by statistics of private rows, and may join public
#   tables with each other; joins run as they are written, public sides built first;
# - empty_result_pullup and join_filter_pushdown leave out work where the other side is empty.
DISABLED = (
    "statistics_propagation,common_subexpressions,join_order,build_side_probe_side,"
    "empty_result_pullup,join_filter_pushdown"
)
# - filter_pushdown lets a scan of parquet files skip row groups by the smallest and largest value
#   that they state. NaN, which is larger than all numbers, is in neither, and old writers order
#   strings differently: whether the rows of others count would depend on one person's.
DISABLED_FOR_FILES = f"{DISABLED},filter_pushdown"


def disable(optimizers: str) -> str:
    """The setting, in which names stand with commas between them."""
    return f"SET disabled_optimizers = '{optimizers}'"


SETTINGS = ("SET TimeZone = 'UTC'", disable(DISABLED))  # of all that reads people's rows
PARTS = "__dp_parts"  # the relation that `merge_sql` reads: rows of `part_sql`, of all parts
PART = "__dp_part"  # the scalar macro that tells a part's number, from 0, in both of them
_EXACT = UP_TO_64_BITS | BINARY_TYPES | TIMES | {"BOOLEAN", "DECIMAL", "VARCHAR", "BLOB", "TIME"}


def exact_in_arrow(column: str, name: str, kind: str) -> str:
    """A column in the form in which it is sent, under a name.

    Arrow holds some types exactly. Others are sent as strings, which DuckDB reads back as the same
    values.
    """
    inner = kind
    while inner.endswith("[]"):
        inner = inner.removesuffix("[]")
    is_exact = not inner.endswith("]") and family(inner) in _EXACT
    return f"{column if is_exact else f'CAST({column} AS VARCHAR)'} AS {quote(name)}"


@dataclass(frozen=True)
class PublicRows:
    """A relation that a question reads besides people's rows.

    columns: names and DuckDB types. rows: an arrow table; types that arrow lacks are strings there.
    """

    columns: Sequence[tuple[str, str]]
    rows: Any


@dataclass(frozen=True)
class PartedQuestion:
    """SQL over the people of one part, and how the answers of all parts become one.

    part_sql: a SELECT over the private tables and `public`, run once for each part.
    keys: the columns of `part_sql` by which its rows are told apart when they are merged.
    merge_sql: a SELECT over `__dp_parts`, run once for each set of rows that holds all rows of its
        keys; the answer is all of its rows. Without keys it is run once, also if there are no rows.
    columns: names and DuckDB types of the answer.
    shown: for pairs, which of the keys the answer has besides codes.
    tables: the private tables, and how each tells whose its rows are. A row that belongs to people
        of several parts is in each of these, once.
    public: the other relations that the SQL reads, by their full names as SQL.
    """

    part_sql: str
    keys: Sequence[str]
    merge_sql: str
    columns: Sequence[tuple[str, str]]
    tables: Sequence[PersonOf]
    public: Mapping[str, PublicRows] = field(default_factory=dict)
    shown: Sequence[str] = ()


@dataclass(frozen=True)
class Pairs:
    """Distinct pairs of an item and a person who has it, as codes.

    items, people: int64 arrays of one length. A person and an item have the same codes in all
        answers to one question, and no two people, nor two items, share a code.
    complete: the codes of the items all of whose pairs are there, sorted.
    shown: an arrow table with a row for each item here: its code as `item`, and Question.shown.
    n_people: how many people there are in all, where `thin` has a pair of each of them; None: no
        people are asked for then.
    """

    items: Any
    people: Any
    complete: Any
    shown: Any
    n_people: int | None = None


class PartedEngine(Protocol):
    """Where people's rows are. Every answer is small, as arrow; any failure is an exception.

    In arrow tables a BIGINT is an int64; other types may be strings, as DuckDB writes them.
    """

    def rows(self, question: PartedQuestion) -> Any:
        """All rows of the answer: how many people have each item, a histogram, and the like."""

    def thin(self, question: PartedQuestion, people_per_item: int) -> Pairs:
        """About so many people of each item, at least one; with `n_people`, of each person."""

    def complete(self, question: PartedQuestion, items: Any, people: Any) -> Pairs:
        """All pairs of these items and all pairs of these people, as sorted int64 arrays of codes.

        None in place of the items: all pairs there are.
        """
