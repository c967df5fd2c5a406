"""The base tables that a policy names, and whose rows they hold."""

from collections.abc import Sequence
from dataclasses import dataclass

from dp_sql.policy.model import Link, Policy, PrivateTable, ScoreTable
from dp_sql.privacy.catalog import Parts
from dp_sql.privacy.expressions.value import Value
from dp_sql.privacy.refusals import refuse
from dp_sql.privacy.relations.base_tables import Tables, no_table, public_rows
from dp_sql.privacy.relations.rows import Rows
from dp_sql.privacy.relations.tree import LinkedTable, Table
from dp_sql.sql.formatting import full_name, shown_name
from dp_sql.sql.sqlglot_tree import Node
from dp_sql.sql.tokens import folded
from dp_sql.sql.types import EXACT_TYPES, as_key, family, wider, without_labels

ONLY_SELECTED = "holds scores, which only DP_SELECT may read"


@dataclass(frozen=True)
class PolicyTables(Tables):
    """The tables that a policy names."""

    policy: Policy

    def rows(self, node: Node, parts: Sequence[str]) -> Rows | None:
        """The rows of a table; None where the policy names no table of this name."""
        full = self.schema.table(parts)
        if full is None:
            return None
        for table in self.policy.tables.values():
            if self.schema.table(table.name) == full:
                return self._people(table, node)
        return public_rows(self.schema, full, self.columns_of(full)) if self._public(full) else None

    def _public(self, full: Parts) -> bool:
        return full in {self.schema.table(name) for name in self.policy.public}

    def view(self, parts: Sequence[str]) -> str | None:
        """The query of a view that the policy lists."""
        wanted = tuple(folded(part) for part in parts)
        listed = any(
            name[-len(wanted) :] == wanted
            or (wanted[-len(name) :] == name and self.schema.view(name) is not None)
            for name in self.policy.views
        )
        return self.schema.view(parts) if listed else None

    def parts_of(self, name: str) -> Sequence[str]:
        """The parts of a name that an error joins by dots, as the policy knows them."""
        policy = self.policy
        for one in (*policy.tables, *policy.scores, *policy.views):
            full = self.schema.table(one) or one
            for n in range(len(full)):
                if ".".join(map(folded, full[n:])) == folded(name):
                    return full[n:]
        return name.split(".")

    def names(self) -> list[str]:
        """The names of what the policy lists, with their schemas if the last part means nothing."""
        listed = [*self.policy.tables, *self.policy.public, *self.policy.views]
        return sorted({".".join(map(shown_name, self._short(name))) for name in listed})

    def _short(self, name: Sequence[str]) -> Sequence[str]:
        last, schema = name[-1:], self.schema
        return last if schema.table(last) or schema.view(last) is not None else name

    def scores(self, parts: Sequence[str]) -> ScoreTable | None:
        """The table of scores of this name."""
        full = self.schema.table(parts)
        listed = [one for one in self.policy.scores.values() if self.schema.table(one.name) == full]
        return listed[0] if full and listed else None

    def unknown(self, node: Node, parts: Sequence[str]) -> Exception:
        """The refusal of a name that is no table of people's or public rows."""
        if self.scores(parts) is not None:
            return refuse(node, f"{node.name} {ONLY_SELECTED}", "DESCRIBE shows its columns.")
        return no_table(node, parts, self.names())

    def columns_of(self, full: Parts) -> list[tuple[str, str]]:
        """Names and types of a base table's columns, as analysts see them.

        The labels of an ENUM may be people's values (CREATE TYPE … AS ENUM (SELECT …)), so an ENUM
        column of a private table is one of strings, unless the policy says "enum".
        """
        listed = self.schema.columns(f"SELECT * FROM {full_name(full)}")
        if self._public(full):
            return listed
        shown = {
            column
            for (table, column), domain in self.policy.domains.items()
            if domain == "enum" and self.schema.table(table) == full
        }
        return [(n, kind if folded(n) in shown else without_labels(kind)) for n, kind in listed]

    def is_link(self, a: Value, b: Value) -> bool:
        """Whether two equal columns are one person's, because a link begins in the first.

        The second is where it ends, or the beginning of another link that ends there: a key of the
        owner's table is in one row of it.
        """
        end = self._end_of_link(a)
        if end is None:
            return False
        return b.origin == end or (self._end_of_link(b) == end and not (a.collation or b.collation))

    def is_of_one_person(self, value: Value) -> bool:
        """Whether the rows of a table with one value in this column are one person's.

        They are if it is the primary key of a private table, or if a link begins there: a key is in
        one row of the table where the link ends.
        """
        if value.is_person or value.collation or value.origin is None:
            return value.is_person
        table, name = value.origin
        key = [] if not name or self._public(table) else self.schema.primary_key(table)
        return [folded(one) for one in key] == [name] or self._end_of_link(value) is not None

    def _end_of_link(self, value: Value) -> tuple[Parts, str] | None:
        """The column where the link ends that begins in this one; None where none does."""
        for table in self.policy.tables.values():
            link = table.privacy_unit
            begin = self.schema.table(table.name)
            if isinstance(link, Link) and value.origin == (begin, link.column):
                owner = self.schema.table(link.table)
                return None if owner is None else (owner, link.key)
        return None

    def _with_key(self, rows: Rows, full: Parts) -> Rows:
        """A table with its primary key, if all equal values of it are the same."""
        key = [rows.names.index(folded(name)) for name in self.schema.primary_key(full)]
        values = [rows.values[i] for i in key]
        if any(one.collation or family(one.type) not in EXACT_TYPES for one in values):
            return rows
        assert isinstance(rows.relation, Table)
        return rows._replace(relation=rows.relation._replace(primary_key=frozenset(key)))

    def _people(self, table: PrivateTable, node: Node) -> Rows:
        """A private table, each row with its person, by its own column or by way of a link."""
        full, unit = self.schema.table(table.name), table.privacy_unit
        if full is None:
            raise no_table(node, [node.name])
        rows = public_rows(self.schema, full, self.columns_of(full))
        rows = self._with_key(rows, full)
        column = unit.column if isinstance(unit, Link) else unit
        if column not in rows.names:
            why = f"The policy's privacy unit of {node.name} is not a column of it"
            raise refuse(node, why, "")
        index = rows.names.index(column)
        if not isinstance(unit, Link):
            if family(rows.values[index].type) not in EXACT_TYPES:
                raise refuse(node, f"The privacy unit of {node.name} has no exact equality", "")
            return self.persons(rows, index)
        owner = self._people(self.policy.tables[unit.table], node)
        if unit.key not in owner.names:
            raise refuse(node, f"The policy's link of {node.name} is not a column", "")
        key = owner.names.index(unit.key)
        kind, other = (as_key("", v.type)[1] for v in (rows.values[index], owner.values[key]))
        if wider(kind, other) != wider(other, kind) or family(kind) not in EXACT_TYPES:
            raise refuse(node, f"The policy's link of {node.name} joins different types", "")
        assert isinstance(rows.relation, Table)
        linked = LinkedTable(rows.relation, index, owner.relation, key)
        return Rows(linked, rows.names, rows.values, owner.person_type)
