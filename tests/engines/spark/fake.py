"""A SparkSession that is DuckDB underneath: names, types and rows as Spark would give them."""

from __future__ import annotations

import re
from types import SimpleNamespace

import duckdb

from dp_sql.sql.formatting import full_name
from dp_sql.sql.tokens import folded

VERSION = "4.3.0"
_KINDS = {
    "VARCHAR": "StringType", "BOOLEAN": "BooleanType", "TINYINT": "ByteType",
    "SMALLINT": "ShortType", "INTEGER": "IntegerType", "BIGINT": "LongType", "FLOAT": "FloatType",
    "DOUBLE": "DoubleType", "BLOB": "BinaryType", "DATE": "DateType", "TIME": "TimeType",
    "TIMESTAMP WITH TIME ZONE": "TimestampType", "TIMESTAMP": "TimestampNTZType",
    "INTERVAL": "DayTimeIntervalType",
}  # fmt: skip


def spark_type(kind: str) -> object:
    """A type of Spark, by the name of pyspark's class."""
    if kind.endswith("[]"):
        return _type("ArrayType", elementType=spark_type(kind[:-2]))
    if kind.startswith("MAP("):
        key, value = map(spark_type, kind[4:-1].split(", "))
        return _type("MapType", keyType=key, valueType=value)
    if kind.startswith("DECIMAL"):
        precision, scale = map(int, re.findall(r"\d+", kind))
        return _type("DecimalType", precision=precision, scale=scale)
    return _type(_KINDS[kind])


def _type(name: str, **values: object) -> object:
    methods = {"simpleString": lambda self: name.removesuffix("Type").lower()}
    return type(name, (), {**methods, **values})()


class AnalysisException(Exception):
    def getCondition(self) -> str:
        return "TABLE_OR_VIEW_NOT_FOUND"


class FakeSpark:
    """Tables are made with `sql`, in DuckDB's dialect; each catalog is an attached database."""

    def __init__(self, *catalogs: str, version: str = VERSION) -> None:
        self.version = version
        self.con = duckdb.connect()
        self.settings = {"spark.sql.catalogImplementation": "hive", "spark.app.id": "local-1",
                         "spark.sql.warehouse.dir": "file:/warehouse"}  # fmt: skip
        self.conf = SimpleNamespace(get=self.settings.__getitem__)
        self.views: dict[str, str] = {}  # temporary ones: names and queries
        self.n_reads = 0
        for catalog in ("spark_catalog", *catalogs):
            self.con.execute(
                f'ATTACH \':memory:\' AS "{catalog}"; CREATE SCHEMA "{catalog}".default'
            )
        self.current = ["spark_catalog", "default"]
        self.catalog = SimpleNamespace(
            getTable=self._get, listTables=self._list,
            currentCatalog=lambda: self.current[0], currentDatabase=lambda: self.current[1],
        )  # fmt: skip
        self.con.execute("USE spark_catalog.default")

    def sql(self, text: str) -> None:
        self.con.execute(text)

    def table(self, name: str) -> FakeFrame:
        return FakeFrame(self, f"SELECT * FROM {self._source(name)[0]}")

    def _source(self, name: str) -> tuple[str, list[str]]:
        parts = [one.replace("``", "`") for one in re.findall(r"`((?:[^`]|``)*)`", name)]
        if len(parts) == 1 and folded(parts[0]) in self.views:
            return f"({self.views[folded(parts[0])]})", parts
        full = [*self.current[: max(0, 3 - len(parts))], *parts]
        found = self.con.execute(
            "SELECT count(*) FROM duckdb_columns() WHERE lower(database_name) = lower($1) "
            "AND lower(schema_name) = lower($2) AND lower(table_name) = lower($3)", full[:3],
        ).fetchall()  # fmt: skip
        if len(parts) > 3 or not found[0][0]:
            raise AnalysisException(name)
        return full_name(full), full

    def _get(self, name: str) -> SimpleNamespace:
        source, parts = self._source(name)
        if source.startswith("("):
            return SimpleNamespace(name=parts[0], catalog=None, namespace=[], isTemporary=True)
        return SimpleNamespace(
            name=parts[2], catalog=parts[0], namespace=parts[1:2], isTemporary=False
        )

    def _list(self) -> list[SimpleNamespace]:
        sql = "SELECT table_name FROM duckdb_tables() WHERE database_name = $1 AND schema_name = $2"
        found = [name for (name,) in self.con.execute(sql, self.current).fetchall()]
        return [SimpleNamespace(name=name) for name in [*found, *self.views]]


class FakeFrame:
    def __init__(self, spark: FakeSpark, query: str) -> None:
        self.spark, self.query = spark, query

    @property
    def schema(self) -> SimpleNamespace:
        relation = self.spark.con.sql(self.query)
        named = zip(relation.columns, map(str, relation.types), strict=True)
        return SimpleNamespace(
            fields=[SimpleNamespace(name=name, dataType=spark_type(kind)) for name, kind in named]
        )

    def selectExpr(self, *listed: str) -> FakeFrame:
        columns = ", ".join(re.sub(r"make_valid_utf8\((`[^`]+`)\)", r"\1", one) for one in listed)
        return FakeFrame(self.spark, f"SELECT {columns.replace('`', chr(34))} FROM ({self.query})")

    def limit(self, number: int) -> FakeFrame:
        return FakeFrame(self.spark, f"{self.query} LIMIT {number}")

    def toArrow(self) -> object:
        self.spark.n_reads += 1
        return self.spark.con.sql(self.query).to_arrow_table()
