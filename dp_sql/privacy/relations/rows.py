"""What is compiled: a relation, and what its columns are called."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from dp_sql.privacy.expressions.value import Value
from dp_sql.privacy.relations.tree import Relation


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
    def private(self) -> bool:
        """Whether its rows belong to people."""
        return self.person_type is not None

    def read_from(self) -> Rows:
        """The same as FROM reads it, where each name means one column.

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
        """The same where a column that shares its name with another is not the privacy unit."""
        columns = list(zip(self.names, self.values, strict=True))
        return self.without_unit({name for name, value in columns if not value.is_person})

    def without_unit(self, names: Collection[str]) -> Rows:
        """The same where columns of these names are not the privacy unit."""
        values = (
            value._replace(is_person=value.is_person and name not in names)
            for name, value in zip(self.names, self.values, strict=True)
        )
        return self._replace(values=tuple(values))
