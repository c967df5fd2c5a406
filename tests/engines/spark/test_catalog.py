"""Spark's names and types as DuckDB's, with a Spark that is DuckDB underneath."""

import pytest

from dp_sql.engines.spark import spark_catalog as module
from dp_sql.engines.spark.spark_catalog import SparkCatalog, duckdb_type, readable
from dp_sql.errors import DpSqlError, SourceError
from tests.engines.spark.fake import FakeFrame, FakeSpark, spark_type


@pytest.fixture
def spark() -> FakeSpark:
    spark = FakeSpark("lake", "main_")
    spark.sql("CREATE TABLE ratings AS SELECT 1::BIGINT AS user_id, 'Dune' AS \"The title\"")
    spark.sql('CREATE SCHEMA lake."sales 2"; CREATE TABLE lake."sales 2".items (id INTEGER)')
    spark.sql("CREATE TABLE main_.default.items (id INTEGER)")
    return spark


def test_a_name_of_one_two_or_three_parts_means_one_table(spark: FakeSpark) -> None:
    catalog = SparkCatalog(spark)
    for parts in (["Ratings"], ["DEFAULT", "ratings"], ["spark_catalog", "default", "ratings"]):
        found = catalog.find(parts)
        assert found is not None
        assert found.parts == found.called == ("spark_catalog", "default", "ratings")
        assert found.columns == (("user_id", "BIGINT"), ("The title", "VARCHAR"))
    found = catalog.find(["lake", "Sales 2", "items"])
    assert found is not None
    assert found.parts == ("lake", "sales 2", "items")
    assert found.sql == "`lake`.`Sales 2`.`items`"


def test_temporary_views_come_first_and_have_duckdb_s_own_place(spark: FakeSpark) -> None:
    spark.views["ratings"] = "SELECT 2::BIGINT AS user_id"
    found = SparkCatalog(spark).find(["ratings"])
    assert found is not None
    assert (found.parts, found.called) == (("temp", "main", "ratings"), ("ratings",))


def test_a_table_does_not_stand_in_for_a_view_that_is_dropped(spark: FakeSpark) -> None:
    spark.views["ratings"] = "SELECT * FROM spark_catalog.default.ratings"
    catalog = SparkCatalog(spark)
    found = catalog.find(["ratings"])
    assert found is not None and catalog.is_still(found)
    del spark.views["ratings"]
    assert not catalog.is_still(found)


def test_a_catalog_whose_name_duckdb_has_for_itself_gets_another(spark: FakeSpark) -> None:
    catalog = SparkCatalog(spark)
    found = catalog.find(["main_", "default", "items"])
    assert found is not None
    assert found.parts == ("main__", "default", "items")  # main_ is that of main
    assert found.called == ("main_", "default", "items")
    spark.current = ["main_", "default"]
    assert catalog.here() == ("main__", "default")


@pytest.mark.parametrize(
    "parts", [["nope"], ["x", "ratings"], ["x", "y", "z"], ["a", "b", "c", "d"]]
)
def test_a_name_that_means_nothing_is_none(spark: FakeSpark, parts: list[str]) -> None:
    assert SparkCatalog(spark).find(parts) is None


def test_a_column_without_a_type_of_duckdb_s_refuses_its_table(spark: FakeSpark) -> None:
    """Left out, it could be the privacy unit, and the table would count as public."""
    spark.sql("CREATE TABLE waits AS SELECT 1 AS user_id, INTERVAL 1 DAY AS waited")
    with pytest.raises(
        SourceError, match=r"waits\.waited has Spark's type .* cannot read"
    ) as error:
        SparkCatalog(spark).find(["waits"])
    assert "EXCEPT (waited) FROM waits" in str(error.value)


def test_strings_with_a_collation_have_no_type() -> None:
    for collation, found in (("UTF8_BINARY", "VARCHAR"), ("UTF8_LCASE", None)):
        kind = spark_type("VARCHAR")
        kind.collation = collation  # type: ignore[attr-defined]
        assert duckdb_type(kind) == found
        array = spark_type("VARCHAR[]")
        array.elementType = kind  # type: ignore[attr-defined]
        assert duckdb_type(array) == (found and f"{found}[]")


def test_every_string_is_made_valid() -> None:
    assert readable("`a`", spark_type("BIGINT[]")) == "`a`"
    assert readable("`a`", spark_type("VARCHAR")) == "make_valid_utf8(`a`)"
    nested = readable("`a`", spark_type("VARCHAR[][]"))
    assert nested == "transform(`a`, v0 -> transform(v0, v1 -> make_valid_utf8(v1)))"


def test_a_map_that_has_a_key_twice_is_null() -> None:
    unique = "if(size(array_distinct(map_keys({0}))) = size({0}), {0}, NULL)"
    assert readable("`a`", spark_type("MAP(BIGINT, DATE)")) == unique.format("`a`")
    nested = readable("`a`", spark_type("MAP(VARCHAR, BIGINT)[]"))
    kept = f"map_filter({unique.format('v0')}, (k1, v1) -> is_valid_utf8(k1))"
    assert nested == f"transform(`a`, v0 -> {kept})"


def test_public_rows_are_read_up_to_a_limit(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.sql("CREATE TABLE titles AS SELECT 'a' AS title FROM range(5)")
    catalog = SparkCatalog(spark)
    titles = catalog.find(["titles"])
    assert titles is not None
    assert catalog.rows(titles).num_rows == 5
    monkeypatch.setattr(module, "MAX_PUBLIC_ROWS", 4)
    with pytest.raises(SourceError, match="titles has more than 4 rows"):
        catalog.rows(titles)


def test_an_old_spark_is_refused_in_one_sentence() -> None:
    SparkCatalog(FakeSpark(version="4.0.1"))
    with pytest.raises(
        DpSqlError, match=r"needs Spark 4\.0 or newer, and this is 3\.5\.1: .*spark"
    ):
        SparkCatalog(FakeSpark(version="3.5.1"))


def test_a_spark_without_pandas_is_refused_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    SparkCatalog(FakeSpark())
    monkeypatch.setattr(FakeSpark, "__module__", "pyspark.sql.classic")
    with pytest.raises(DpSqlError, match=r"needs pandas to run Python: .*spark"):
        SparkCatalog(FakeSpark())


def test_identity_is_the_warehouse_and_the_application_of_what_ends_with_it(
    spark: FakeSpark,
) -> None:
    catalog = SparkCatalog(spark)
    tables = [found] if (found := catalog.find(["ratings"])) else []
    before = catalog.identity(tables)
    spark.settings["spark.app.id"] = "local-2"
    assert catalog.identity(tables) == before
    spark.settings["spark.sql.warehouse.dir"] = "file:/other"
    assert catalog.identity(tables) != before
    spark.views["ratings"] = "SELECT 1 AS user_id"
    tables = [found] if (found := catalog.find(["ratings"])) else []
    before = catalog.identity(tables)
    spark.settings["spark.app.id"] = "local-1"
    assert catalog.identity(tables) != before


def test_the_nearest_name_is_proposed(spark: FakeSpark) -> None:
    assert SparkCatalog(spark).near("rating") == "ratings"


def test_none_is_proposed_where_spark_cannot_list_its_tables(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a database with a view of a table that is gone."""
    monkeypatch.setattr(spark.catalog, "listTables", lambda: spark.table("`nope`"))
    assert SparkCatalog(spark).near("rating") == ""


def test_a_table_that_spark_cannot_read_is_named(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = SparkCatalog(spark)
    found = catalog.find(["ratings"])
    assert found is not None
    monkeypatch.setattr(FakeFrame, "selectExpr", lambda *_: spark.table("`nope`"))
    with pytest.raises(SourceError, match=r"Spark cannot read ratings \(TABLE_OR_VIEW_NOT_FOUND"):
        catalog.read(found)
