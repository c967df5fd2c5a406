"""Relations of one FROM clause as SQL: joined, reduced to distinct rows, and capped by person."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dp_sql.errors import NotSupported
from dp_sql.privacy.catalog import size_sql
from dp_sql.privacy.relations.tree import LinkedTable, Select, Table, Windows
from dp_sql.sql.types import BINARY_TYPES, can_have_same_bits, exact, family, same_bits

PATTERN = "system.main.regexp_"
_CONCATENATIONS = (" || ", "system.main.concat")  # of strings that may be long


class FromPartSql(NamedTuple):
    """A relation of FROM with its own conditions, as a SELECT of `r0p`, `r0c1`, and so on.

    most: the most rows of one person in it. is_table: whether it is a table as it is stored. fan:
    of a public relation, the most of its rows that one row before it matches. key: of a private
    one, columns that tell apart the rows of one person. None: not known.
    """

    number: int
    sql: str
    columns: tuple[str, ...]
    most: int | None
    is_table: bool
    fan: int | None = None
    key: frozenset[str] | None = None


@dataclass
class FromSql:
    """FROM and WHERE of a SELECT, the most rows of one person, and if a join multiplies rows."""

    sql: str
    most: int | None
    multiplies: bool
    conditions: list[str] = field(default_factory=list)


def listed_sql(columns: Sequence[str]) -> str:
    """The list of a SELECT, which may need no column."""
    return ", ".join(columns) or "1 AS one"


def where_sql(conditions: Sequence[str]) -> str:
    """A WHERE clause, where there is a condition."""
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def _same_bits(select: Select, columns: Sequence[str]) -> list[str]:
    return [
        column
        if column.endswith("p")
        else f"{same_bits(column, select.type_of(column))} AS {column}"
        for column in columns
    ]


def distinct_sql(select: Select, part: FromPartSql) -> str:
    """The distinct rows of a relation."""
    person = [f"r{part.number}p"] if select.relations[part.number].is_private else []
    listed = _same_bits(select, [*person, *part.columns])
    return f"SELECT DISTINCT {listed_sql(listed)} FROM ({part.sql}) AS t"


def can_be_reduced(kinds: Iterable[str]) -> bool:
    """Whether DISTINCT keeps the same values of people's rows wherever these are stored."""
    return all(map(can_have_same_bits, kinds))


def refuse_irreducible(kinds: Iterable[str]) -> None:
    """Refuse other types beside a join that multiplies rows."""
    if odd := next((kind for kind in kinds if not can_have_same_bits(kind)), None):
        raise NotSupported(
            f"A join that multiplies rows is not supported beside a column of type {odd}.",
            hint="Take (or unnest) what you need of it in a subquery: "
            "FROM (SELECT … FROM …) JOIN …",
        )


def largest_group_sql(select: Select, sql: str, keys: Sequence[str]) -> str:
    """The most rows of a SELECT with the same keys; at least 1."""
    if not keys:
        return f"SELECT greatest(1, ({size_sql(sql)}))"
    by = ", ".join(same_bits(key, select.type_of(key)) for key in keys)
    there = " AND ".join(f"{key} IS NOT NULL" for key in keys)
    counts = f"SELECT system.main.count(*) AS n FROM ({sql}) AS t WHERE {there} GROUP BY {by}"
    return f"SELECT greatest(1, coalesce(system.main.max(n), 1)) FROM ({counts}) AS t"


def by_values(types: Mapping[str, str]) -> list[str]:
    """What orders rows by the values of columns, of types that value_order knows."""
    orders = {column: value_order(column, kind) for column, kind in types.items()}
    for column, order in orders.items():
        assert order is not None, f"the caller has refused {types[column]}"
    return [str(order) for order in orders.values()]


def value_order(column: str, kind: str) -> str | None:
    """What orders the values of a column, so that only equal ones tie; None: not known."""
    if family(kind) in BINARY_TYPES | {"ENUM", "JSON"}:
        return exact(f"CAST({column} AS VARCHAR)", "VARCHAR")
    if kind == "VARCHAR[]":  # its strings may have a collation
        return f"system.main.list_transform({column}, lambda x: system.main.encode(x))"
    return exact(column, kind) if can_have_same_bits(kind) else None


def windows_sql(windows: Windows, inner: str, need: Collection[int], read: Sequence[int]) -> str:
    """Needed columns of a relation with window functions; `inner` has the columns `read`.

    Where functions order rows differently, equal rows are numbered before: else it would depend on
    other people's rows which of a row's values are together.
    """
    n_own = len(windows.relation.types)
    ties = by_values({f"c{i}": windows.relation.types[i] for i in read})
    used = (windows.functions[i - n_own] for i in need if i >= n_own)
    if len({(one.partition, one.order) for one in used if not one.has_ties}) > 1:
        by = ", ".join(ties)
        number = f"system.main.row_number() OVER (PARTITION BY __dp_person ORDER BY {by})"
        inner, ties = f"SELECT *, {number} AS __dp_tie FROM ({inner}) AS t", ["__dp_tie"]
    listed = ["__dp_person", *(f"c{i}" for i in sorted(need) if i < n_own)]
    for i in sorted(need):
        if i < n_own:
            continue
        one = windows.functions[i - n_own]
        by = ", ".join(["__dp_person", *(f"c{place}" for place in one.partition)])
        order = [f"c{place} {way}" for place, way in one.order]
        order += [] if one.has_ties else ties
        by += f" ORDER BY {', '.join(order)}" if order else ""
        call = f"system.main.{one.name}({one.arguments})"
        listed.append(f"{call} OVER (PARTITION BY {by}{one.frame}) AS c{i}")
    return f"SELECT {listed_sql(listed)} FROM ({inner}) AS t"


def capped_sql(select: Select, part: FromPartSql, sql: str, cap: int) -> str:
    """A limited number of rows of each person, chosen by their values alone.

    A hash of the values orders them, so that no value is preferred; rows with equal hashes are
    ordered by the values themselves. So which rows are kept never depends on other people's rows,
    nor on where a row is stored.
    """
    person = f"r{part.number}p"
    order = [f"system.main.hash({', '.join(part.columns)})"] if part.columns else []
    order += by_values({column: select.type_of(column) for column in part.columns})
    by = f" ORDER BY {', '.join(order)}" if order else ""
    number = f"system.main.row_number() OVER (PARTITION BY {person}{by})"
    listed = listed_sql([person, *part.columns])
    return f"SELECT {listed} FROM ({sql}) AS t QUALIFY {number} <= {cap}"


def joined_sql(select: Select, source: FromSql, part: FromPartSql, terms: Sequence[str]) -> FromSql:
    """The relations so far, joined with one more."""
    number, sql, word = part.number, part.sql, "JOIN"
    if number in select.left:
        word = "LEFT JOIN"
    elif select.relations[number].is_private:
        word, found = "LEFT JOIN", f"__dp_found_{number}"
        sql = f"SELECT *, 1 AS {found} FROM ({sql}) AS t"
        source.conditions.append(is_found(found, f"r{select.first_private}p"))
    source.sql += f" {word} ({sql}) AS r{number} ON {' AND '.join(terms) or 'TRUE'}"
    return source


def is_found(found: str, left: str) -> str:
    """Whether a LEFT JOIN found a row: with this condition it is an inner join.

    An inner join leaves out its left side where its right side is empty: one row on the right would
    decide whether the rows of all others are read. So private right sides are joined by
    LEFT JOIN, and this is written so that DuckDB does not make an inner join of it.
    """
    return f"coalesce({found}, 0) = (CASE WHEN {left} IS NULL THEN 2 ELSE 1 END)"


def matched_sql(
    select: Select,
    source: FromSql,
    part: FromPartSql,
    still: Collection[str],
    before: Sequence[int],
) -> FromSql:
    """A LEFT JOIN whose ON says more than equal columns: all rows so far, beside those that match.

    For an ON as it is written DuckDB 1.5 would compare each row with each, or not run it at all.
    Where it only shows which rows have a match, it has a 1 beside these.
    """
    so_far, columns, word = _so_far(select, still, before), part.columns, ""
    if select.is_semi(part.number):
        columns = tuple({*columns} & {f"r{part.number}c0"})  # none if no one reads it
        word = "DISTINCT "
    first = listed_sql([*so_far, "system.main.row_number() OVER () AS __dp_row"])
    match = (
        f"SELECT {word}{', '.join(['__dp_row AS __dp_match', *columns])} "
        f"FROM __dp_before JOIN ({part.sql}) AS r{part.number} "
        f"ON {' AND '.join(select.on_equal(part.number, before)) or 'TRUE'}"
        f"{where_sql(select.on_beside(part.number))}"
    )
    sql = (
        f"WITH __dp_before AS MATERIALIZED (SELECT {first} FROM {source.sql}"
        f"{where_sql(source.conditions)}) SELECT {listed_sql([*so_far, *columns])} "
        f"FROM __dp_before LEFT JOIN ({match}) AS __dp_matches ON __dp_row = __dp_match"
    )
    return FromSql(f"({sql}) AS s{part.number}", source.most, source.multiplies)


def _so_far(select: Select, still: Collection[str], available: Collection[int]) -> list[str]:
    """The person of a row so far, and the columns that are needed from here on."""
    person = [f"r{select.first_private}p"] if select.is_private else []
    return person + [f"r{n}c{i}" for n in sorted(available) for i in select.columns_of(n, still)]


def reduced_sql(
    select: Select, source: FromSql, still: Collection[str], available: Collection[int]
) -> FromSql:
    """The distinct rows so far, with the person and the columns that are needed from here on."""
    listed = listed_sql(_same_bits(select, _so_far(select, still, available)))
    sql = f"SELECT DISTINCT {listed} FROM {source.sql}{where_sql(source.conditions)}"
    return FromSql(f"({sql}) AS s{len(available)}", source.most, source.multiplies)


def too_much(select: Select, rows: int, most: int, joined: Sequence[FromPartSql]) -> NotSupported:
    """The refusal of joins that multiply rows too much; all numbers in it are public."""
    names = {part.number: "a subquery" for part in joined}
    for number, relation in enumerate(select.relations):
        match relation:
            case Table(name=name) | LinkedTable(table=Table(name=name)):
                names[number] = name[-1]
    fans = ", ".join(f"{names[one.number]} by up to {one.fan or one.most:,}" for one in joined)
    whose, limit, way = "", "", "Join on a column that is unique in the other table, or select"
    if select.is_private:
        whose, limit = " of one person", " (max_joined_rows_per_person)"
        way = (
            "If each row has only one match, the owner can say so with a PRIMARY KEY on the column "
        )
        way += "that it matches. Otherwise select"
    return NotSupported(
        f"These joins could make {rows:,} rows{whose}, and the limit is {most:,}{limit}. "
        f"They multiply rows: {fans}.",
        hint=f"{way} fewer columns: rows that differ only in columns that the query does not read "
        "count once.",
    )


def refuse_costly(expressions: Iterable[str]) -> None:
    """Refuse patterns and concatenations where a join or a list multiplies rows: one costs many."""
    for sql in expressions:
        if PATTERN in sql:
            why = (
                "A pattern with _ or an inner % would be matched after a join or an unnest that "
                "multiplies rows."
            )
            hint = "Match it in a subquery, before it: FROM (SELECT … WHERE … LIKE …) JOIN …"
            raise NotSupported(why, hint=hint)
        if any(word in sql for word in _CONCATENATIONS):
            why = "Strings would be concatenated after a join or an unnest that multiplies rows."
            hint = "Concatenate them in a subquery, before it: FROM (SELECT … || …) JOIN …"
            raise NotSupported(why, hint=hint)
