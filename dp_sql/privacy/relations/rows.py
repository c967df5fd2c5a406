"""What is compiled: a relation and what its columns are called, or the refusal of another name."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from sqlglot import exp

from dp_sql.privacy.expressions.value import Value
from dp_sql.privacy.refusals import ALLOWED, Refused, refuse
from dp_sql.privacy.relations.person_of import PersonOf, person_of
from dp_sql.privacy.relations.tree import Relation
from dp_sql.sql.formatting import literal, shown_name
from dp_sql.sql.sqlglot_tree import to_sql
from dp_sql.sql.tokens import folded


class Rows(NamedTuple):
    """A relation, and what its columns are called.

    names: in the order of `values`, folded.
    person_type: the type of the privacy unit; None: a public relation.
    """

    relation: Relation
    names: tuple[str, ...]
    values: tuple[Value, ...]
    person_type: str | None

    @property
    def is_private(self) -> bool:
        """Whether its rows belong to people."""
        return self.person_type is not None

    def with_value(self, index: int, value: Value) -> Rows:
        """These rows with another value as one of their columns."""
        return self._replace(values=(*self.values[:index], value, *self.values[index + 1 :]))

    def read_from(self) -> Rows:
        """These rows as FROM reads them, where each name means one column.

        Of several columns called x only the first has a name, and so has no column called x_1,
        which DuckDB may call the second.
        """
        twice = {name for name in self.names if name and self.names.count(name) > 1}
        if not twice:
            return self
        numbered = re.compile(f"({'|'.join(map(re.escape, sorted(twice)))})_[0-9]+")
        gone = (n in self.names[:i] or numbered.fullmatch(n) for i, n in enumerate(self.names))
        names = ("" if g else name for g, name in zip(gone, self.names, strict=True))
        return self._replace(names=tuple(names))

    def with_clear_unit(self) -> Rows:
        """These rows, where a column that shares its name with another is not the privacy unit."""
        columns = list(zip(self.names, self.values, strict=True))
        return self.without_unit({name for name, value in columns if not value.is_person})

    def without_unit(self, names: Collection[str]) -> Rows:
        """These rows, where columns of these names are not the privacy unit, but may be NULL."""
        values = (
            one._replace(is_person=one.is_person and name not in names, is_own=one.is_of_person)
            for name, one in zip(self.names, self.values, strict=True)
        )
        return self._replace(values=tuple(values))


def unknown_column(node: exp.Column, parts: Sequence[Rows]) -> Refused:
    """The refusal of a name that is not a column of these relations."""
    shown = to_sql(node)
    refusal = refuse(node, f"{shown} is not a column of the source", ALLOWED)
    refusal.unknown = shown
    for part in parts:
        if join := _join_of(person_of(part.relation), folded(node.name)):
            refusal.hint, refusal.join = f"It is in another table: write FROM … {join}.", join
            return refusal
    import difflib  # for errors alone

    names = sorted({name for part in parts for name in part.names if name})
    near = difflib.get_close_matches(folded(node.name), names, n=3)
    if near:
        refusal.hint = f"Did you mean {' or '.join(near)}?"
    is_condition = isinstance(node.parent, exp.Where | exp.Connector | exp.Not)
    may_be_string = len(node.parts) == 1 and not is_condition  # without its quotes
    refusal.names = [*map(shown_name, near), *([literal(node.name)] if may_be_string else [])]
    return refusal


def _join_of(of: PersonOf | None, name: str) -> str:
    """The join by which a table that is linked to people has their column of that name, or ""."""
    if of is None or of.owner is None or folded(of.column) != folded(of.key or ""):
        return ""
    join = f"JOIN {shown_name(of.owner.table[-1])} USING ({shown_name(of.column)})"
    if of.owner.owner is None and folded(of.owner.column) == name:
        return join
    more = _join_of(of.owner, name)
    return more and f"{join} {more}"
