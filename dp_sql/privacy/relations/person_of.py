"""Whose the rows of each private table are: the columns that say it, and the tables they lead to.

What an engine holds is checked and shared out by them.
"""

from __future__ import annotations

from typing import NamedTuple

from dp_sql.privacy.catalog import Parts
from dp_sql.privacy.relations.tree import LinkedTable, Relation, Table, relations_below


class PersonOf(NamedTuple):
    """The column of a private table that says whose each of its rows is.

    key: None: the column is the person. Else the rows belong to the people of `owner` with that
        column equal to this `key` of it.
    """

    table: Parts
    column: str
    key: str | None = None
    owner: PersonOf | None = None


def people_of(relation: Relation) -> tuple[PersonOf, ...]:
    """For each private table that a relation reads, once: the column that says whose a row is."""
    found: dict[PersonOf, None] = {}
    for one in relations_below(relation):
        of = person_of(one)
        while of is not None:  # those that it is linked to are read as well
            found[of], of = None, of.owner
    return tuple(found)


def person_of(relation: Relation) -> PersonOf | None:
    """The column that says whose each row of a table is; None of public rows, and of no table."""
    if isinstance(relation, LinkedTable):
        table, owner = relation.table, relation.owner
        of = owner.table if isinstance(owner, LinkedTable) else owner
        assert isinstance(of, Table)  # a policy links tables alone
        column, key = table.column_name(relation.column), of.column_name(relation.key)
        return PersonOf(table.name, column, key, person_of(owner))
    if not isinstance(relation, Table) or relation.person is None:
        return None
    return PersonOf(relation.name, relation.column_name(relation.person))
