"""The groups of a person as bits, in SQL: so a draw among them takes one value of each person."""

from typing import NamedTuple

KEEP_BITS_UDF, KEEP_BYTES_UDF = "__dp_sql_keep_bits", "__dp_sql_keep_bytes"
N_BITS = 62  # so many groups fit a BIGINT, as one bit each
MOST_BITS = 1 << 10  # so many are the bits of a BLOB; more are a list
# Operators by their full names: what DuckDB calls for a bare one would have to be checked first.
_PLACE = 'CAST(system.main."-"(__dp_group, 1) AS INTEGER)'


class GroupBits(NamedTuple):
    """Groups as bits: the first is bit 0 of a number, or the first bit of a BLOB."""

    n_groups: int

    @property
    def are_few(self) -> bool:
        """Whether they are bits of a number."""
        return self.n_groups <= N_BITS

    def of_rows(self, some: str = "") -> str:
        """The groups of some rows, an aggregate; some: a FILTER clause."""
        if self.are_few:
            return f'system.main.bit_or(system.main."<<"(CAST(1 AS BIGINT), {_PLACE})){some}'
        size = self.n_groups + -self.n_groups % 8  # whole bytes
        return f"CAST(system.main.bitstring_agg({_PLACE}, 0, {size - 1}){some} AS BLOB)"

    def kept(self, own: str, cap: int) -> str:
        """At most `cap` of a person's groups, drawn, as `kept`."""
        if self.are_few:
            return f"{KEEP_BITS_UDF}({own}, {cap}) AS kept"
        return f"CAST({KEEP_BYTES_UDF}({own}, {cap}) AS BIT) AS kept"

    def has(self, groups: str) -> str:
        """Whether a row's group is among those that are kept, or, where they are few, of rows."""
        if self.are_few:
            return f'system.main."&"(system.main.">>"({groups}, {_PLACE}), 1) = 1'
        return f"system.main.get_bit({groups}, {_PLACE}) = 1"
