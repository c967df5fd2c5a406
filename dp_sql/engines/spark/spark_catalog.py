"""Spark's tables: resolves names, maps them and their types to DuckDB's, and reads rows."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Protocol, runtime_checkable

from dp_sql.errors import DpSqlError, SourceError, guessed
from dp_sql.installation import install_command
from dp_sql.privacy.catalog import Parts, SchemaName
from dp_sql.sql.formatting import quote, shown_name
from dp_sql.sql.tokens import folded

OLDEST = (4, 0)  # the first Spark that gives rows as arrow, and runs Python over arrow groups
MAX_PUBLIC_ROWS = 10_000_000  # of one public table: the driver holds it, and each task reads it
# No attached database of DuckDB can be called so; Unity Catalog's own catalog is called main.
_RESERVED = {"main", "temp", "system"}
_TEMPORARY = ("temp", "main")  # where DuckDB, too, looks first for a bare name
_UNKNOWN = ("NOT_FOUND", "REQUIRES_SINGLE_PART_NAMESPACE")  # ends of Spark's names of errors

# By the names of pyspark's classes, so that pyspark need not be imported.
_TYPES = {
    "StringType": "VARCHAR", "BooleanType": "BOOLEAN", "ByteType": "TINYINT",
    "ShortType": "SMALLINT",
    "IntegerType": "INTEGER", "LongType": "BIGINT", "FloatType": "FLOAT", "DoubleType": "DOUBLE",
    "CharType": "VARCHAR", "VarcharType": "VARCHAR", "BinaryType": "BLOB", "DateType": "DATE",
    "TimestampType": "TIMESTAMP WITH TIME ZONE", "TimestampNTZType": "TIMESTAMP",
    "TimeType": "TIME", "NullType": "INTEGER",
}  # fmt: skip
_STRINGS = {"StringType", "CharType", "VarcharType"}
_BYTES = "UTF8_BINARY"  # the collation of Spark that compares bytes, as DuckDB does


@runtime_checkable
class Spark(Protocol):
    """A SparkSession, classic or Connect."""

    @property
    def version(self) -> str:
        """The version of the Spark that answers."""

    @property
    def catalog(self) -> Any:
        """What its catalogs hold."""

    @property
    def conf(self) -> Any:
        """Its settings."""

    def table(self, tableName: str) -> Any:
        """The dataframe of a table or view."""


@dataclass(frozen=True)
class SparkTable:
    """A table or view of Spark: its rows are what Spark reads from it.

    parts: how DuckDB names it, on the driver and wherever a question runs.
    called: its name in Spark, folded. sql: the same as Spark's SQL.
    columns: names and DuckDB types. listed: the columns as Spark's SQL.
    """

    parts: Parts
    called: Parts
    sql: str
    columns: tuple[tuple[str, str], ...]
    listed: tuple[str, ...]


class SparkCatalog:
    """What Spark says about its tables; nothing is cached."""

    def __init__(self, spark: Spark) -> None:
        _check(spark)
        self.spark = spark

    def here(self) -> SchemaName:
        """The database and schema, as DuckDB names them, of names that have neither."""
        catalog = self.spark.catalog
        return _database(folded(catalog.currentCatalog())), folded(catalog.currentDatabase())

    def find(self, parts: Sequence[str]) -> SparkTable | None:
        """The table or view that a name means; SourceError where dp_sql cannot read it."""
        return self._found(".".join(parts), ".".join(map(backquoted, parts)))

    def is_still(self, table: SparkTable) -> bool:
        """Whether the name of a table still means it, and its columns are unchanged."""
        try:
            return self._found(table.called[-1], table.sql) == table
        except SourceError:  # it holds what dp_sql cannot read
            return False

    def _found(self, name: str, quoted: str) -> SparkTable | None:
        try:
            found = self.spark.catalog.getTable(quoted)
            scope = [*([found.catalog] if found.catalog else []), *(found.namespace or [])]
            sql = ".".join(map(backquoted, [*scope, found.name]))
            fields = self.spark.table(sql).schema.fields
        except Exception as error:
            if condition_of(error).endswith(_UNKNOWN):
                return None
            raise _unreadable(name, error) from None
        called = tuple(map(folded, [*scope, found.name]))
        full = _parts(called, is_temporary=found.isTemporary)
        if full is None:
            hint = "Give it a name: CREATE TEMPORARY VIEW ratings AS SELECT * FROM …, in Spark."
            raise SourceError(f"{name} has more than three parts in Spark.", hint=hint)
        columns, listed = _columns(name, fields)
        return SparkTable(full, called, sql, columns, listed)

    def read(self, table: SparkTable) -> Any:
        """The dataframe of a table, with its `columns` in order."""
        try:
            return self.spark.table(table.sql).selectExpr(*table.listed)
        except Exception as error:
            raise _unreadable(table.called[-1], error) from None

    def rows(self, table: SparkTable) -> Any:
        """All rows of a public table, as arrow."""
        name, frame = table.called[-1], self.read(table)
        try:
            rows = frame.limit(MAX_PUBLIC_ROWS + 1).toArrow()
        except Exception as error:
            raise _unreadable(name, error) from None
        if rows.num_rows > MAX_PUBLIC_ROWS:
            why = "the driver holds public tables, and each task gets a copy"
            message = f"{name} has more than {MAX_PUBLIC_ROWS:,} rows: {why}."
            hint = "Query a view with only the rows and columns that you need."
            raise SourceError(message, hint=hint)
        return rows

    def near(self, name: str) -> str:
        """A table of the current database with a similar name; "" if none is found."""
        try:
            listed = [folded(one.name) for one in self.spark.catalog.listTables()]
        except Exception:  # one view that Spark cannot resolve is enough
            return ""
        return guessed(folded(name), listed)

    def identity(self, tables: Sequence[SparkTable]) -> str:
        """What distinguishes these tables from tables of the same names elsewhere.

        The warehouse, and the application if one of them ends with it.
        """
        own_ends = self._conf("spark.sql.catalogImplementation") != "hive"  # of Spark's own catalog
        ends = any(
            len(one.called) < 3 or (own_ends and one.called[0] == "spark_catalog") for one in tables
        )
        names = {f"spark.sql.catalog.{one.called[0]}" for one in tables if len(one.called) == 3}
        keys = [f"{name}{end}" for name in sorted(names) for end in ("", ".uri", ".warehouse")]
        keys += ["spark.sql.warehouse.dir", *(["spark.app.id"] if ends else [])]
        return "\n".join(["spark", *(f"{key} = {self._conf(key)}" for key in keys)])

    def _conf(self, key: str) -> str:
        try:
            return str(self.spark.conf.get(key))
        except Exception:  # not set
            return ""


def _columns(
    name: str, fields: Sequence[Any]
) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Names and DuckDB types of columns, and each as Spark's SQL; `name` is their table's."""
    columns, listed = [], []
    for field in fields:
        kind, column = duckdb_type(field.dataType), backquoted(field.name)
        if kind is None:
            of = field.dataType.simpleString()
            but = f"SELECT * EXCEPT ({shown_name(field.name)}) FROM {name}"
            raise SourceError(
                f"{name}.{field.name} has Spark's type {of}, which dp_sql cannot read.",
                hint=f"Query a view without this column: CREATE VIEW … AS {but}, in Spark.",
            )
        columns.append((field.name, kind))
        listed.append(f"{readable(column, field.dataType)} AS {column}")
    return tuple(columns), tuple(listed)


def _parts(called: Parts, *, is_temporary: bool) -> Parts | None:
    """How DuckDB names a table; None where its name has too many parts."""
    if is_temporary and len(called) == 1:
        return (*_TEMPORARY, *called)
    if len(called) == 2:  # a global temporary view, or a table of a catalog without namespaces
        called = (called[0], "main", called[1])
    return (_database(called[0]), *called[1:]) if len(called) == 3 else None


def _database(catalog: str) -> str:
    """The database of a catalog: its name, longer where DuckDB has this name for itself.

    >>> _database("spark_catalog"), _database("main"), _database("main_")
    ('spark_catalog', 'main_', 'main__')
    """
    return f"{catalog}_" if catalog.rstrip("_") in _RESERVED else catalog


def _check(spark: Spark) -> None:
    """Refuse a Spark that is too old, or that lacks what it runs Python with."""
    numbers = spark.version.split(".")[:2]
    if tuple(int(one) if one.isdecimal() else 0 for one in numbers) < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise DpSqlError(
            f"dp_sql needs Spark {wanted} or newer, and this is {spark.version}: "
            f"{install_command('spark')}"
        )
    if type(spark).__module__.startswith("pyspark.") and find_spec("pandas") is None:
        raise DpSqlError(f"Spark needs pandas to run Python: {install_command('spark')}")


def condition_of(error: Exception) -> str:
    """The name that Spark gives to an error; else that of its type."""
    for name in ("getCondition", "getErrorClass"):
        if (told := getattr(error, name, None)) is not None and (condition := told()):
            return str(condition)
    return type(error).__name__


def _unreadable(name: str, error: Exception) -> SourceError:
    """Spark's error, whose message may hold a value and is left out."""
    hint = f"See why with: spark.table({name!r}).show()"
    return SourceError(f"Spark cannot read {name} ({condition_of(error)}).", hint=hint)


# --- types ---


def duckdb_type(kind: Any) -> str | None:
    """The DuckDB type that holds all values of a Spark type; None if there is none.

    Collated strings have none: DuckDB would tell values apart that Spark takes for equal. Nor do
    maps whose keys are structures with strings.
    """
    name, inner = type(kind).__name__, list(map(duckdb_type, _inner(kind)))
    if None in inner or (name in _STRINGS and getattr(kind, "collation", _BYTES) != _BYTES):
        return None
    if name == "DecimalType":
        return f"DECIMAL({kind.precision},{kind.scale})"
    if name == "ArrayType":
        return f"{inner[0]}[]"
    if name == "MapType":
        is_simple = type(kind.keyType).__name__ in _STRINGS or not _has(kind.keyType, _STRINGS)
        return f"MAP({inner[0]}, {inner[1]})" if is_simple else None
    if name == "StructType":
        named = zip(kind.fields, inner, strict=True)
        fields = ", ".join(f"{quote(field.name)} {of}" for field, of in named)
        return f"STRUCT({fields})" if fields else None
    return _TYPES.get(name)


def backquoted(name: str) -> str:
    """An identifier in Spark's SQL.

    >>> print(backquoted("a`b"))
    `a``b`
    """
    return f"`{name.replace('`', '``')}`"


def readable(sql: str, kind: Any, depth: int = 0) -> str:
    """A Spark expression with the same values, but such that DuckDB can read each of them.

    DuckDB fails on invalid UTF-8, which a Spark string may hold, and on a map that has a key twice,
    as one from JSON may. So one person's row could make every question fail. Such bytes become
    U+FFFD here, map entries with such keys are left out, and such a map is NULL.
    """
    name = type(kind).__name__
    if name in _STRINGS:
        return f"make_valid_utf8({sql})"
    if not _has(kind, _STRINGS | {"MapType"}):
        return sql
    key, one = f"k{depth}", f"v{depth}"
    if name == "ArrayType":
        return f"transform({sql}, {one} -> {readable(one, kind.elementType, depth + 1)})"
    if name == "MapType":
        sql = f"if(size(array_distinct(map_keys({sql}))) = size({sql}), {sql}, NULL)"
        if type(kind.keyType).__name__ in _STRINGS:
            sql = f"map_filter({sql}, ({key}, {one}) -> is_valid_utf8({key}))"
        value = readable(one, kind.valueType, depth + 1)
        return sql if value == one else f"transform_values({sql}, ({key}, {one}) -> {value})"
    listed = []
    for field in kind.fields:
        escaped = field.name.replace("\\", "\\\\").replace("'", "\\'")
        value = readable(f"{sql}.{backquoted(field.name)}", field.dataType, depth)
        listed.append(f"'{escaped}', {value}")
    return f"if({sql} IS NULL, NULL, named_struct({', '.join(listed)}))"


def _has(kind: Any, names: Collection[str]) -> bool:
    """Whether a type, or one within it, is one of these."""
    return type(kind).__name__ in names or any(_has(one, names) for one in _inner(kind))


def _inner(kind: Any) -> list[Any]:
    """The types of the elements, keys and values, or fields of a type."""
    name = type(kind).__name__
    if name == "ArrayType":
        return [kind.elementType]
    if name == "MapType":
        return [kind.keyType, kind.valueType]
    return [field.dataType for field in kind.fields] if name == "StructType" else []
