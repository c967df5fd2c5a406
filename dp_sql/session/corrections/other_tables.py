"""If another table of the policy has a column that the source lacks: the join to that table.

This reads the names and types that the policy shows, but no rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from dp_sql.policy.model import Name
from dp_sql.privacy.relations.policy_tables import PolicyTables
from dp_sql.sql.clauses import alias_at, enclosing_select
from dp_sql.sql.formatting import shown_name
from dp_sql.sql.restated import OtherQuestion
from dp_sql.sql.tokens import Tokens, folded
from dp_sql.sql.types import UP_TO_64_BITS


class _Listed(NamedTuple):
    """A table of the policy: its columns with their types, folded, and its privacy unit if any.

    All integers of up to 64 bits have one type, as they are equal in a join.
    """

    name: str
    columns: Mapping[str, str]
    unit: str | None

    def joined(self, to: _Listed, called: str) -> str:
        """How this table is joined to one in FROM; "": no column says so."""
        if self.unit is not None and to.unit is not None:
            if folded(self.unit) == folded(to.unit):
                return f"USING ({shown_name(to.unit)})"
            if folded(self.unit) in to.columns or folded(to.unit) in self.columns:
                return ""  # riders and drivers
            own, other = shown_name(self.unit), shown_name(to.unit)
            return f"ON {called}.{other} = {self.name}.{own}"
        same = [n for n, kind in self.columns.items() if to.columns.get(n) == kind]
        is_clear = len(same) == 1 and (self.unit is None) != (to.unit is None)
        return f"USING ({shown_name(same[0])})" if is_clear else ""


def with_table_of(
    tokens: Tokens, position: int, column: str, tables: PolicyTables
) -> tuple[str, list[str]]:
    """The hint for a column that the source lacks, and statements that join a table with it."""
    listed = {folded(name[-1]): found for name in [*tables.policy.tables, *tables.policy.public]
              if (found := _table(name, tables)) is not None}  # fmt: skip
    having = [one for one in listed.values() if folded(column) in one.columns]
    source = enclosing_select(tokens, tokens.place_at(position)).clause("FROM")
    if source is None or not having:
        return "", []
    end, text = tokens[source.stop - 1].end, tokens[0].source
    joins = [
        f" JOIN {other.name} {condition}"
        for other in having
        for name, called in _read(tokens, source.start, source.stop)
        if name in listed and other != listed[name]
        if (condition := other.joined(listed[name], called))
    ]
    names, one = " and ".join(other.name for other in having), len(having) == 1
    said = f"The table {names} has this column." if one else f"The tables {names} have this column."
    return said, [OtherQuestion(f"{text[:end]}{join}{text[end:]}") for join in joins]


def _table(name: Name, tables: PolicyTables) -> _Listed | None:
    full = tables.schema.table(name)
    if full is None:
        return None
    private = tables.policy.tables.get(name)
    unit = private.privacy_unit if private is not None else None
    if private is not None and not isinstance(unit, str):
        return None  # it is joined by its link
    columns = {
        folded(column): "BIGINT" if kind in UP_TO_64_BITS else kind
        for column, kind in tables.columns_of(full)
    }
    return _Listed(shown_name(name[-1]), columns, unit if isinstance(unit, str) else None)


def _read(tokens: Tokens, start: int, stop: int) -> Iterator[tuple[str, str]]:
    """The tables that a FROM clause names, folded, and what they are called there."""
    for i in tokens.at_depth_zero(start, stop):
        is_before = tokens[i].upper in {"FROM", "JOIN"} or tokens[i].is_symbol(",")
        if is_before and (name := tokens.dotted(i + 1)):
            alias = alias_at(tokens, i + 1 + len(name))
            yield name[-1].folded, name[-1].text if alias is None else tokens[alias].text
