"""What SQLAlchemy sees of a database.

An owner sees what DuckDB's catalog functions list of the current database: tables, views, columns,
keys, constraints, indexes, comments and sequences. An analyst sees SHOW TABLES and DESCRIBE.
"""
# ruff: noqa: D102  (SQLAlchemy documents the methods that it calls)

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.engine.reflection import Inspector, cache
from sqlalchemy.exc import DBAPIError, NoSuchTableError

from dp_sql.integrations.sqlalchemy.column_types import sqlalchemy_type
from dp_sql.sql.tokens import name_parts, tokenize

SCHEMA = "main"
_HERE = "(database_name = current_database() OR temporary) AND NOT internal"
_TABLES = f"""
SELECT schema_name, table_name, 'table' AS kind, temporary, comment, NULL AS sql
FROM duckdb_tables() WHERE {_HERE} AND NOT starts_with(table_name, '__dp_')
UNION ALL SELECT schema_name, view_name, 'view', temporary, comment, sql
FROM duckdb_views() WHERE {_HERE} ORDER BY ALL
"""
_SCHEMAS = (
    "SELECT schema_name FROM duckdb_schemas() WHERE database_name = current_database() "
    "AND schema_name NOT IN ('information_schema', 'pg_catalog')"
)
_SEQUENCES = (
    "SELECT sequence_name FROM duckdb_sequences() "
    "WHERE database_name = current_database() AND schema_name = ? ORDER BY ALL"
)
Mappings = list[Mapping[str, Any]]
Found = list[dict[str, Any]]


@dataclass(frozen=True)
class _Table:
    """A table or view: its kind, the parts of its name, and, for an owner, what it has besides."""

    kind: str
    parts: tuple[str, ...]
    is_temporary: bool = False
    comment: str | None = None
    sql: str | None = None


class Reflection:
    """The methods of a dialect that read the catalog; `at` is a table's name, then its schema."""

    inspector = Inspector
    identifier_preparer: Any

    def get_schema_names(self, connection: Any, **kw: Any) -> list[str]:
        found = {SCHEMA, *(schema or SCHEMA for schema, _ in self._tables(connection, **kw))}
        if _is_owner(connection):
            found.update(connection.exec_driver_sql(_SCHEMAS).scalars())
        return sorted(found)

    def get_table_names(self, connection: Any, schema: Any = None, **kw: Any) -> list[str]:
        return self._names(connection, schema or SCHEMA, kw, view=False)

    def get_view_names(self, connection: Any, schema: Any = None, **kw: Any) -> list[str]:
        return self._names(connection, schema or SCHEMA, kw, view=True)

    def get_temp_table_names(self, connection: Any, schema: Any = None, **kw: Any) -> list[str]:
        return self._names(connection, None, kw, view=False)

    def get_temp_view_names(self, connection: Any, schema: Any = None, **kw: Any) -> list[str]:
        return self._names(connection, None, kw, view=True)

    def get_sequence_names(self, connection: Any, schema: Any = None, **kw: Any) -> list[str]:
        if not _is_owner(connection):
            return []
        return list(connection.exec_driver_sql(_SEQUENCES, (schema or SCHEMA,)).scalars())

    def has_table(self, connection: Any, *at: Any, **kw: Any) -> bool:
        return self._found(connection, *at, **kw) is not None

    def has_sequence(self, connection: Any, sequence_name: str, *schema: Any, **kw: Any) -> bool:
        return sequence_name in self.get_sequence_names(connection, *schema, **kw)

    def has_schema(self, connection: Any, schema_name: str, **kw: Any) -> bool:
        return schema_name in self.get_schema_names(connection, **kw)

    def get_columns(self, connection: Any, *at: Any, **kw: Any) -> Found:
        rows = self._rows(connection, "columns", *at, **kw)
        if not _is_owner(connection):
            rows = self._described(connection, self._table(connection, *at, **kw))
        keys = self.get_pk_constraint(connection, *at, **kw)["constrained_columns"]
        found: Found = []
        for row in sorted(rows, key=lambda row: row["column_index"]):
            name, kind = row["column_name"], sqlalchemy_type(row["data_type"])
            more = {} if name in keys else {"autoincrement": False}  # of keys it is unknown
            found.append({
                "name": name, "type": kind, "nullable": row["is_nullable"],
                "default": row["column_default"], "comment": row["comment"], **more,
            })  # fmt: skip
        return found

    def _described(self, connection: Any, table: _Table) -> Mappings:
        """What an analyst sees of a table's columns, named as an owner's are."""
        name = ".".join(self.identifier_preparer.quote_identifier(part) for part in table.parts)
        try:
            rows = connection.exec_driver_sql(f"DESCRIBE {name}").fetchall()
        except DBAPIError:
            if table.kind == "private view":  # one that analysts cannot read
                return []
            raise
        keys = ("column_name", "data_type", "is_nullable", "column_default", "comment")
        return [
            dict(zip(keys, (name, kind, True, None, None), strict=True)) | {"column_index": n}
            for n, (name, kind, *_) in enumerate(rows)
        ]

    def get_pk_constraint(self, connection: Any, *at: Any, **kw: Any) -> dict[str, Any]:
        for row in self._constraints(connection, "PRIMARY KEY", *at, **kw):
            columns = list(row["constraint_column_names"])
            return {"constrained_columns": columns, "name": row["constraint_name"]}
        return {"constrained_columns": [], "name": None}

    def get_foreign_keys(
        self, connection: Any, table_name: str, schema: Any = None, **kw: Any
    ) -> Found:
        return [
            {
                "name": row["constraint_name"], "options": {}, "referred_schema": schema,
                "constrained_columns": list(row["constraint_column_names"]),
                "referred_table": row["referenced_table"],
                "referred_columns": list(row["referenced_column_names"]),
            }
            for row in self._constraints(connection, "FOREIGN KEY", table_name, schema, **kw)
        ]  # fmt: skip

    def get_unique_constraints(self, connection: Any, *at: Any, **kw: Any) -> Found:
        return [
            {"name": row["constraint_name"], "column_names": list(row["constraint_column_names"])}
            for row in self._constraints(connection, "UNIQUE", *at, **kw)
        ]

    def get_check_constraints(self, connection: Any, *at: Any, **kw: Any) -> Found:
        return [
            {"name": row["constraint_name"], "sqltext": row["expression"]}
            for row in self._constraints(connection, "CHECK", *at, **kw)
        ]

    def get_indexes(self, connection: Any, *at: Any, **kw: Any) -> Found:
        found = []
        for row in self._rows(connection, "indexes", *at, **kw):
            written = [one.removeprefix("(").removesuffix(")") for one in row["listed"]]
            names = [_name(one) for one in written]
            index: dict[str, Any] = {
                "name": row["index_name"], "column_names": names, "unique": row["is_unique"],
                "dialect_options": {},
            }  # fmt: skip
            if None in names:
                index["expressions"] = [a or b for a, b in zip(names, written, strict=True)]
            found.append(index)
        return found

    def get_table_comment(self, connection: Any, *at: Any, **kw: Any) -> dict[str, Any]:
        return {"text": self._table(connection, *at, **kw).comment}

    def get_view_definition(self, connection: Any, view_name: str, *schema: Any, **kw: Any) -> Any:
        found = self._table(connection, view_name, *schema, **kw)
        if not found.kind.endswith("view"):
            raise NoSuchTableError(view_name)
        return found.sql

    # --- what they share ---

    def _tables(self, connection: Any, **kw: Any) -> dict[tuple[str | None, str], _Table]:
        """All tables and views by schema and name; the schema of temporary ones is None."""
        if _is_owner(connection):
            rows = connection.exec_driver_sql(_TABLES).fetchall()
            return {
                (None if temporary else schema, name): _Table(
                    kind, (schema, name), temporary, *rest
                )
                for schema, name, kind, temporary, *rest in rows
            }
        found: dict[tuple[str | None, str], _Table] = {}
        for name, kind in connection.exec_driver_sql("SHOW TABLES").fetchall():
            parts = name_parts(name) or (name,)
            found[parts[-2] if len(parts) > 1 else SCHEMA, parts[-1]] = _Table(kind, parts)
        return found

    def _names(self, connection: Any, schema: str | None, kw: Any, *, view: bool) -> list[str]:
        return [
            name
            for (in_schema, name), table in self._tables(connection, **kw).items()
            if in_schema == schema and table.kind.endswith("view") == view
        ]

    def _found(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> _Table | None:
        """The table of that name; without a schema, a temporary one comes first, as in DuckDB."""
        tables = self._tables(connection, **kw)
        places = [None, SCHEMA] if schema is None else [schema]
        return next((tables[at, table_name] for at in places if (at, table_name) in tables), None)

    def _table(self, connection: Any, table_name: str, *schema: Any, **kw: Any) -> _Table:
        found = self._found(connection, table_name, *schema, **kw)
        if found is None:
            raise NoSuchTableError(table_name)
        return found

    def _rows(self, connection: Any, what: str, *at: Any, **kw: Any) -> Mappings:
        """What one of DuckDB's catalog functions lists of a table; nothing under a policy."""
        table = self._table(connection, *at, **kw)
        if not _is_owner(connection):
            return []
        more = ", CAST(expressions AS VARCHAR[]) AS listed" if what == "indexes" else ""
        database = "'temp'" if table.is_temporary else "current_database()"
        found = connection.exec_driver_sql(
            f"SELECT *{more} FROM duckdb_{what}() WHERE database_name = {database} "
            "AND schema_name = ? AND table_name = ? ORDER BY ALL",
            table.parts,
        )
        return list(found.mappings())

    def _constraints(self, connection: Any, kind: str, *at: Any, **kw: Any) -> Mappings:
        rows = self._rows(connection, "constraints", *at, **kw)
        return [row for row in rows if row["constraint_type"] == kind]


# PostgreSQL's dialect, on which duckdb-engine is built, queries PostgreSQL's catalogs; SQLAlchemy's
# own functions call those above, one table after the other.
for _method in dir(DefaultDialect):
    if _method.startswith(("get_multi_", "has_multi_", "has_index", "get_table_options")):
        setattr(Reflection, _method, getattr(DefaultDialect, _method))
for _method, _function in list(vars(Reflection).items()):
    if _method.startswith(("get_", "has_", "_tables")) and "multi" not in _method:
        _function.__annotations__ = {}  # 1.4 would write them into code, without their quotes
        setattr(Reflection, _method, cache(_function))


def _is_owner(connection: Any) -> bool:
    pooled = connection.connection
    return getattr(pooled, "dbapi_connection", pooled).session.analyst is None


def _name(written: str) -> str | None:
    """The column that an index lists; None for an expression."""
    tokens = tokenize(written)
    return tokens[0].name if len(tokens) == 1 else None
