"""What an owner declares in a statement: whose rows a table, file or dataframe holds.

Without a policy, each table, file or dataframe with the privacy unit as a column holds people's
rows, every other table that the source reads is joined to them, and views are read through. The
receipt says so. Names mean what the engine takes them for.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import ClassVar

from sqlglot import exp

from dp_sql.errors import NotPrivate, SourceError
from dp_sql.privacy.catalog import (
    VARIABLE,
    NamedRelation,
    OwnersEngine,
    Parts,
    Schema,
    SchemaName,
    view_body,
)
from dp_sql.privacy.expressions.value import Value
from dp_sql.privacy.refusals import Unbound, inexact, refuse
from dp_sql.privacy.relations.as_written import STORE_IT, as_written, check_sql
from dp_sql.privacy.relations.base_tables import Tables, public_rows
from dp_sql.privacy.relations.from_clause import From
from dp_sql.privacy.relations.rows import Rows
from dp_sql.privacy.relations.tree import Relation, Select, Table, relations_below
from dp_sql.sql.formatting import full_name, literal
from dp_sql.sql.sqlglot_tree import Node, to_sql
from dp_sql.sql.tokens import folded
from dp_sql.sql.types import EXACT_TYPES, family

READERS = frozenset(
    {"read_parquet", "parquet_scan", "read_csv", "read_csv_auto", "read_json", "read_json_auto",
     "read_ndjson", "read_ndjson_auto"}
)  # fmt: skip
_PARQUET = re.compile(r"\.parquet(\?|$)", re.IGNORECASE)  # what DuckDB takes for a scan
_ONE_PATH = re.compile(r"read_parquet\(('(?:[^'*?\[{]|'')*'), ")  # no pattern and no list
# Options that keep or drop rows by their place in a file, and columns that show a row's place.
_BY_PLACE = {"file_row_number", "skip", "ignore_errors", "store_rejects", "rejects_limit"}


@dataclass(frozen=True)
class OwnersSchema(Schema):
    """An owner's connection as the compiler sees it.

    within: the schema of the view whose query is being read; None in the statement itself.
    counts: whether questions about numbers are asked; else each answer is 1.
    """

    engine: OwnersEngine
    within: SchemaName | None = None
    counts: bool = True
    _relations: dict[tuple[Parts, SchemaName | None], NamedRelation | None] = field(
        default_factory=dict
    )
    _columns: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)

    def relation(self, parts: Sequence[str]) -> NamedRelation | None:
        """What a name means here; asked of the engine once."""
        key = (tuple(parts), self.within)
        if key not in self._relations:
            self._relations[key] = self.engine.relation(*key)
        return self._relations[key]

    def table(self, parts: Sequence[str]) -> Parts | None:
        found = self.relation(parts)
        return found.parts if found is not None and found.is_table else None

    def view(self, parts: Sequence[str]) -> str | None:
        found = self.relation(parts)
        return view_body(found.view_sql) if found is not None and found.view_sql else None

    def inside(self, view: Sequence[str]) -> OwnersSchema:
        found = self.relation(view)
        if found is None or len(found.parts) < 2:
            return self
        return replace(self, within=(found.parts[0], found.parts[1]))

    def columns(self, select: str) -> list[tuple[str, str]]:
        if select not in self._columns:
            self._columns[select] = self.engine.columns(select)
        return self._columns[select]

    def public_values(self, select: str) -> list[object]:
        return self.engine.public_values(select)

    def public_number(self, select: str) -> int:
        """The number that a SELECT over joined tables answers; asked of the engine once."""
        if not self.counts:
            return 1
        if select not in self._numbers:
            (number,) = self.engine.public_values(select)
            self._numbers[select] = int(str(number))
        return self._numbers[select]

    def public_size(self, items: str, kind: str, most: int | None = None) -> int:
        return self.engine.public_size(items, kind, most) if self.counts else 1

    def keep_list(self, items: str, kind: str, values: Sequence[str | int]) -> None:
        self.engine.keep_list(items, kind, values)

    def compares(self, relation: str, condition: str) -> bool:
        return self.engine.compares(relation, condition)

    def public_rows(self, select: str, tables: frozenset[Parts]) -> tuple[str, frozenset[Parts]]:
        """The SELECT itself: nothing is made on the owner's connection."""
        return f"({select})", tables

    def agrees(self, source: str, tables: frozenset[Parts]) -> bool:
        return self.engine.agrees(source, tables)


@dataclass(frozen=True)
class DeclaredTables(Tables):
    """The tables of an owner's statement.

    unit: the column that identifies a person, folded; "" while `origin` is looked for.
    origin: the column of a table that it is: other tables with such a column are private, too.
    views: names of the views with people's rows that were read; filled while compiling.
    also: tables whose person has another name, by their place in a UNION ALL: the column of each.
        Filled while compiling, as `kinds` is, and the source is then compiled again.
    """

    schema: OwnersSchema
    unit: str
    origin: tuple[Parts, str] | None = None
    views: set[str] = field(default_factory=set)
    also: dict[Parts, str] = field(default_factory=dict)
    trusted: ClassVar[bool] = True

    def rows(self, node: Node, parts: Sequence[str]) -> Rows | None:
        if isinstance(node.this, exp.Func):
            return self._declared(node, (to_sql(node.this),), self._reader(node.this))
        found = self.schema.relation(parts)
        if found is not None and found.view_sql is not None:
            return None
        name = (found.parts if found is not None else ()) or tuple(parts)
        is_file = len(name) == 1 and _PARQUET.search(name[0])
        return self._declared(node, name, _scan(literal(name[0])) if is_file else "")

    def view(self, parts: Sequence[str]) -> str | None:
        body = self.schema.view(parts)
        if body is None:
            name, why = parts[-1], "its definition is not known."
            query = f"FROM ({{{name}.sql_query()}}) AS {name}"
            raise NotPrivate(
                f"The view {name} is not provably person-level: {why}",
                hint=f"For a Python relation, write its query: {query}. {STORE_IT}",
            )
        return body

    def check(self, sql: str) -> None:
        check_sql(sql, self.schema.engine, self.schema.within)

    def note_view(self, parts: Sequence[str], rows: Rows) -> None:
        if rows.is_private:
            self.views.add(folded(parts[-1]))

    def note_union(self, left: Rows, right: Rows) -> None:
        super().note_union(left, right)
        (here, there) = (left, right) if left.is_private else (right, left)
        if here.is_private and not there.is_private:
            pairs = zip(here.values, there.values, strict=False)
            origin = next((other.origin for one, other in pairs if one.is_person), None)
            if origin is not None:
                self.also[origin[0]] = origin[1]

    def n_noted(self) -> int:
        return len(self.also) + super().n_noted()

    def as_written(self, source: From, node: Node) -> Value:
        return as_written(node, source, self.schema.engine)

    def _declared(self, node: Node, name: Parts, function: str = "") -> Rows:
        try:
            columns = self.schema.columns(f"SELECT * FROM {function or full_name(name)}")
        except SourceError as error:
            raise Unbound(node, error) from None
        return self._of_people(public_rows(self.schema, name, columns, function), name)

    def declared(self, rows: Rows) -> Rows:
        table = rows.relation
        if not isinstance(table, Table) or table.is_private or not table.is_written:
            return rows
        # They may be people's, and then even the set of their values is private.
        rows = rows._replace(values=tuple(one._replace(origin=None) for one in rows.values))
        return self._of_people(rows, table.name)

    def _of_people(self, rows: Rows, name: Parts) -> Rows:
        """The rows of a table as people's, if it has the privacy unit as a column."""
        known = {**self.also, **dict([self.origin] if self.origin else [])}
        wanted = [known[name]] if name in known else [self.unit, *known.values()]
        unit = next((one for one in wanted if one in rows.names), None)
        if unit is None or not self.unit:
            return rows
        index = rows.names.index(unit)
        kind = rows.values[index].type
        if family(kind) not in EXACT_TYPES:
            raise inexact("privacy unit", unit, kind)
        return self.persons(rows, index)

    def _reader(self, function: Node) -> str:
        """The SQL of a call of a table function that reads a file."""
        called = function.name if isinstance(function, exp.Anonymous) else function.sql_name()  # type: ignore[attr-defined]
        name = folded(called)
        kinds = self.schema.engine.function_kinds(frozenset({name})).get(name, frozenset())
        if name not in READERS or kinds != frozenset({"table"}):
            if kinds == {"table_macro"}:
                why = f"{name} is a macro, which dp_sql does not read: write its query instead"
                shown = f"macro_definition FROM duckdb_functions() WHERE function_name = '{name}'"
                raise refuse(function, why, f"FROM (…) AS {name}. SELECT {shown} shows it.")
            why = f"The table function {name} is not supported in a source"
            raise refuse(function, why, f"Supported: {', '.join(sorted(READERS))}. {STORE_IT}")
        if function.find(exp.Query) is not None:
            raise refuse(function, "The file to read must be written in the statement", "")
        for named in function.find_all(exp.Identifier, exp.Var):
            if folded(named.name) in _BY_PLACE:
                why = f"{named.name} is a row's physical position and not a value of a person"
                raise refuse(named, why, "")
        if name in {"read_parquet", "parquet_scan"}:
            return _scan(*map(to_sql, function.expressions))
        return to_sql(function)


def _scan(files: str, *options: str) -> str:
    """A scan of parquet files that skips no NaN, which their statistics do not count."""
    kept = [one for one in options if not one.lower().startswith("can_have_nan")]
    return f"read_parquet({', '.join([files, *kept, 'can_have_nan = true'])})"


def _is_one_file(table: Table, schema: Schema) -> bool:
    """Whether it is one parquet file, which has its types in it, and no folder or pattern."""
    path = _ONE_PATH.match(table.function)
    return path is not None and len(schema.public_values(f"SELECT file FROM glob({path[1]})")) == 1


def assumptions(relation: Relation, unit: str, schema: Schema) -> tuple[str, ...]:
    """What the promise rests on: whose rows the tables hold."""
    tables, listed = read_tables(relation)
    every = {table.name for table in (*tables, *listed)}
    often = Counter(name[-1] for name in every)  # where two agree, with schema and database
    names = {name: name[-1] if often[name[-1]] == 1 else ".".join(name) for name in every}
    names |= {name: "the dataframe" for name in every if name[-1].startswith(VARIABLE)}
    people, public, detected = [], [], []
    for table in tables:
        if table.is_written:
            if table.person is not None:
                people.append(f"each row of VALUES belongs to the person in {unit}")
            continue
        of_table = f"each row of {names[table.name]}"
        detected += _detected(table, names[table.name], schema)
        if table.person is None:
            public.append(f"{of_table} is public, or belongs to the person it is joined to")
            continue
        name = table.column_name(table.person)
        person = unit if folded(name) == folded(unit) else name
        people.append(f"{of_table} belongs to the person in {person}")
    for table in listed:
        detected += _detected(table, names[table.name], schema)
    lists = [f"{name} is public" for name in sorted(names[table.name] for table in listed)]
    return tuple(dict.fromkeys(people + public + lists + detected))


def _detected(table: Table, name: str, schema: Schema) -> list[str]:
    if table.is_stored or table.is_written or _is_one_file(table, schema):
        return []
    return [f"no one person's rows change the columns or types that DuckDB detects in {name}"]


def read_tables(relation: Relation) -> tuple[list[Table], list[Table]]:
    """The tables that a relation reads in FROM, in order, and those of IN (SELECT …)."""
    every = [*relations_below(relation)]
    looked_in = [other for one in every if isinstance(one, Select) for *_, other in one.looked_in]
    listed = [t for other in looked_in for t in chain(*read_tables(other)) if not t.is_written]
    return [one for one in every if isinstance(one, Table)], listed
