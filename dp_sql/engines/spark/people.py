"""Assigns each row of a private table to a part of the people, as Spark dataframes.

A row is in the part of its person; a row that is linked to people of another table is in each
part that has one of them, once. Rows that belong to no one are left out.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

from dp_sql.engines.spark.parts import PART, SOURCE
from dp_sql.engines.spark.question_sql import incoming
from dp_sql.engines.spark.spark_catalog import backquoted
from dp_sql.errors import NotSupported
from dp_sql.privacy.catalog import Columns, Parts
from dp_sql.privacy.relations.person_of import PersonOf
from dp_sql.sql.types import EXACT_TYPES, INTEGERS, family, is_wide_decimal

Read = Callable[[Parts], tuple[Any, Columns]]
"""The dataframe of a table, and its columns as DuckDB types them."""


def check_people(tables: Sequence[PersonOf], read: Read) -> None:
    """Refuse tables whose people Spark cannot match, before anything is spent."""
    roots = map(_root, tables)
    _check_kinds([(one, one.column) for one in roots], read)
    for one in tables:
        if sum(other.table == one.table for other in {*tables}) > 1:
            raise NotSupported(f"The rows of {one.table[-1]} are linked to people in two ways.")
        while one.owner is not None:
            _check_kinds([(one, one.column), (one.owner, str(one.key))], read)
            one = one.owner  # noqa: PLW2901


def rows_by_part(
    tables: Sequence[PersonOf], columns: Mapping[Parts, Sequence[str]], read: Read, n_parts: int
) -> Any:
    """All rows of some tables with their part and their table, each with its own columns."""
    frames = []
    for number, one in enumerate(tables):
        named = [name for name, _ in read(one.table)[1]]
        listed = [
            f"{backquoted(name)} AS {incoming(number, i)}"
            for i, name in enumerate(named)
            if name in columns[one.table]
        ]
        frames.append(_by_part(one, [f"{number} AS {SOURCE}", *listed], read, n_parts))
    return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), frames)


def _by_part(one: PersonOf, listed: Sequence[str], read: Read, n_parts: int) -> Any:
    """Expressions over the rows of a table, with the part that each row is in."""
    frame, columns = read(one.table)
    column, kind = backquoted(one.column), dict(columns)[one.column]
    if one.owner is None:
        part = f"CAST(pmod({_hash(column, kind)}, {n_parts}) AS INT) AS {PART}"
        return frame.where(f"{column} IS NOT NULL").selectExpr(part, *listed)
    key, name = str(one.key), f"__dp_link_{_n_owners(one)}"
    wider = is_wide_decimal(kind) or is_wide_decimal(dict(read(one.owner.table)[1])[key])
    link = f"{_comparable(backquoted(key), wider, kind)} AS {name}"
    links = _by_part(one.owner, [link], read, n_parts).where(f"{name} IS NOT NULL").distinct()
    rows = frame.selectExpr(f"{_comparable(column, wider, kind)} AS {name}", *listed)
    return rows.join(links, name).drop(name)


def _check_kinds(columns: Sequence[tuple[PersonOf, str]], read: Read) -> None:
    """Refuse columns whose equal values Spark would not match."""
    types = [dict(read(one.table)[1])[column] for one, column in columns]
    kinds = set(map(_matched_as, types))
    if len(kinds) == 1 and None not in kinds:
        return
    listed = ", ".join(
        f"{one.table[-1]}.{column} ({kind})"
        for (one, column), kind in zip(columns, types, strict=True)
    )
    raise NotSupported(
        f"Spark cannot match people by {listed}: the columns must all be integers, or all have "
        "one other type whose equality is exact.",
        hint="Use a view that casts these columns to one type.",
    )


def _matched_as(kind: str) -> str | None:
    """What a type's values are compared as; None: not at all."""
    name = family(kind)
    if name in INTEGERS or (name == "DECIMAL" and kind.endswith(",0)")):
        return "integer"
    return kind if name in EXACT_TYPES and not kind.endswith("]") else None


def _hash(column: str, kind: str) -> str:
    """A hash of a person that is the same in all tables, whatever the type of an integer."""
    if _matched_as(kind) != "integer":
        return f"xxhash64({column})"
    small = f"CAST({column} AS BIGINT)"
    if not is_wide_decimal(kind):
        return f"xxhash64({small})"
    small = f"TRY_{small}"
    wide = f"xxhash64(CAST({column} AS DECIMAL(38,0)))"
    return f"if({small} IS NULL, {wide}, xxhash64({small}))"


def _comparable(column: str, wider: bool, kind: str) -> str:
    if _matched_as(kind) != "integer":
        return column
    return f"CAST({column} AS {'DECIMAL(38,0)' if wider else 'BIGINT'})"


def _n_owners(one: PersonOf) -> int:
    return 0 if one.owner is None else 1 + _n_owners(one.owner)


def _root(one: PersonOf) -> PersonOf:
    """The table that has the people themselves."""
    return one if one.owner is None else _root(one.owner)
