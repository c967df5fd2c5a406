"""What names mean on a DuckDB connection: the relations in its catalog, and its search path."""

import contextlib
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import duckdb

from dp_sql.engines.duckdb.asked_together import Together
from dp_sql.engines.duckdb.session_state import SessionState
from dp_sql.engines.duckdb.sql_runner import Connection, parsed_once
from dp_sql.errors import NotPrivate
from dp_sql.privacy.catalog import VARIABLE, NamedRelation, Parts, SchemaName
from dp_sql.sql.formatting import full_name, literal, quote
from dp_sql.sql.tokens import folded, tokenize

# The search path (the setting, the current database and schema), and relations of one name.
_Listed = tuple[Parts, list[Any]]
# All relations that have one of some names, beside the search path.
_LISTED = """
    SELECT *, system.main.current_setting('search_path'), system.main.current_database(),
        system.main.current_schema()
    FROM (SELECT database_name, schema_name, table_name AS name, NULL AS view_sql
        FROM system.main.duckdb_tables()
        UNION ALL SELECT database_name, schema_name, view_name, coalesce(sql, '')
        FROM system.main.duckdb_views()) AS listed
    WHERE system.main.lower(name) IN ({})"""
_REGISTERED = re.compile(
    r"CREATE TEMP VIEW .+ AS SELECT \* FROM (pandas|arrow|python_arrow)_scan\w*\(\) AS \w+;",
    re.DOTALL,
)


class Names:
    """The names of relations on a connection."""

    def __init__(self, connection: Connection, state: SessionState) -> None:
        """What is known of earlier statements of the session is asked again, and added to."""
        self._connection, self._state = connection, state
        self._listed = Together(self._list, state.named)
        self._meant, self._conditions = state.meant, state.conditions
        # Of tables whose names were looked up: the columns by SQL that selects them all.
        self.columns: dict[str, list[tuple[str, str]]] = {}
        self._bound: set[tuple[str, str]] = set()  # and conditions over their columns

    @contextlib.contextmanager
    def looked_up(self, statement: object, names: Collection[str]) -> Iterator[None]:
        """Ask for some names at once, when one is needed; what they mean is known inside."""
        self.columns, self._bound = {}, set()
        try:
            with self._listed.during(statement, sorted({*map(folded, names)})):
                yield
        finally:
            self.columns, self._bound = {}, set()

    def _still_means(self, name: str) -> NamedRelation | None:
        """The base table that a bare name meant in this session, if it means it now.

        DuckDB binds a column of it by its full name, which is no field of a struct, and what it
        reads for the full name is called so: a view's query cannot read the view.
        """
        parts = self._meant.get(name, ())
        full = full_name(parts)
        condition = self._conditions.get(full, "true")  # bound with the columns, not by itself
        for asked in dict.fromkeys([condition, "true"]) if parts else ():
            with contextlib.suppress(duckdb.Error):
                select = f"SELECT *, {full}.rowid, {asked} FROM {quote(name)}"
                statement = parsed_once(select, self._connection, self._state)
                relation = self._connection.sql(statement)
                columns = {folded(column) for column in relation.columns[:-2]}
                read = self._connection.get_table_names(f"FROM {full}", qualified=True)
                written = [tuple(t.name for t in tokenize(one) if t.name) for one in read]
                if written == [parts] and not columns & {*map(folded, parts)}:
                    kinds = [*zip(relation.columns, map(str, relation.types), strict=True)]
                    self.columns[f"SELECT * FROM {full}"] = kinds[:-2]
                    self._bound.add((full, asked))
                    return NamedRelation(parts, None, is_table=True)
        return None

    def compares(self, relation: str, condition: str, relate: Callable[[str], object]) -> bool:
        """Whether DuckDB can bind a condition over the columns of a relation; `relate` binds."""
        if (relation, condition) in self._bound:
            return True
        try:
            relate(f"SELECT {condition} FROM {relation}")
        except duckdb.Error:
            return False
        self._conditions[relation] = condition
        return True

    def _list(self, names: Sequence[str]) -> dict[str, _Listed]:
        """The relations of each folded name, and the search path where there is one."""
        lower = (
            literal(n.lower()) if n.isascii() else f"system.main.lower({literal(n)})" for n in names
        )
        listed = ", ".join(lower)
        rows = self._fetch(_LISTED.format(listed))
        found: dict[str, list[Any]] = {name: [] for name in names}
        for row in rows:  # lower() folds more than DuckDB
            if folded(row[2]) in found:
                found[folded(row[2])].append(row[:4])
        path = rows[0][4:] if rows else ("", "", "")
        return {name: (path, relations) for name, relations in found.items()}

    def relation(self, parts: Parts, within: SchemaName | None = None) -> NamedRelation | None:
        """The relation that a name means on the search path, or in a view of a schema."""
        *scope, name = parts
        is_bare = not scope and within is None
        if is_bare and (table := self._still_means(name)):
            return table
        ((path, found),) = self._listed.answers([folded(name)])
        if scope:
            meant = self._scoped(scope, found, path, within)
        else:
            places = _places(path, within)
            meant = [r for place in places for r in found if (folded(r[0]), folded(r[1])) == place]
            meant = meant if within else meant[:1]
        if len({r[:3] for r in meant}) > 1 or (not meant and scope and found):
            wrong = "may mean more than one relation" if meant else "was not found under this name"
            name = ".".join(parts)
            raise NotPrivate(f"{name} {wrong}; write its full name, database.schema.name.")
        if not meant:
            if is_bare and name.startswith(VARIABLE) and not self._is_scan((name,)):
                raise NotPrivate("a Python relation is a query that dp_sql does not see; write it "
                                 "as a subquery: FROM ({rel.sql_query()}) AS rel")  # fmt: skip
            return None
        *full, sql = meant[0]
        is_table = sql is None
        if is_bare and is_table:
            self._meant[name] = tuple(full)
        if not is_table:
            sql = self._view_sql(tuple(full), sql)
        return NamedRelation(tuple(full), sql, is_table=is_table)

    def _scoped(
        self, scope: list[str], found: list[Any], search_path: Parts, within: SchemaName | None
    ) -> list[Any]:
        """The found relations that schema.name or database.schema.name may mean.

        In a view schema.name is in the view's database, whatever the search path is.
        """
        wanted = [folded(part) for part in scope]
        if len(wanted) > 1:
            return [r for r in found if [folded(r[0]), folded(r[1])] == wanted]
        path = _places(search_path, within)
        databases = {folded(within[0])} if within else {database for database, _ in path}

        def is_meant(database: str, schema: str) -> bool:
            if schema == wanted[0] and database in databases:
                return True
            return database == wanted[0] and (schema == "main" or (database, schema) in path)

        return [r for r in found if is_meant(folded(r[0]), folded(r[1]))]

    def _view_sql(self, full: Parts, sql: str) -> str | None:
        """The SQL of a view; None if it is a registered dataframe."""
        if not sql:  # 1.5 keeps no SQL of what Python registered: look at what it scans
            return None if self._is_scan(full) else ""
        return None if _REGISTERED.fullmatch(sql.strip()) else sql

    def _is_scan(self, full: Sequence[str]) -> bool:
        """Whether a relation is a dataframe or an arrow table, and not a query."""
        explain = f"EXPLAIN (FORMAT json) SELECT * FROM {full_name(full)}"
        nodes = re.findall(r'"name": *"([^"]*)"', self._fetch(explain)[-1][1])
        scans = [node.strip() for node in nodes if node.strip() != "PROJECTION"]
        return scans in (["PANDAS_SCAN"], ["ARROW_SCAN"], ["PYTHON_ARROW_SCAN"])

    def _fetch(self, sql: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql).fetchall()


def _places(search_path: Parts, within: SchemaName | None) -> list[SchemaName]:
    """Where DuckDB looks for a bare name, in this order, in lower case.

    `search_path` is the setting, the current database and the current schema.
    """
    path, database, schema = search_path
    here, places = (folded(database), folded(schema)), [("temp", "main")]
    if within is not None:
        places.append((folded(within[0]), folded(within[1])))
    entries: list[list[str]] = [[]]
    for token in tokenize(path):
        if token.is_symbol(","):
            entries.append([])
        elif token.name is not None:
            entries[-1].append(folded(token.name))
    places += [(entry[-2] if len(entry) > 1 else here[0], entry[-1]) for entry in entries if entry]
    return list(dict.fromkeys([*places, here, (here[0], "main"), ("system", "main")]))
