"""The dialect `dpsql`: what SQLAlchemy 1.4 and 2 do and see through it."""

import datetime
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dp_sql
from dp_sql.integrations import dbapi
from tests.conftest import SURE
from tests.integrations.sqlalchemy_engines import analysts, engine_for, sqlalchemy
from tests.integrations.test_dbapi import OWNERS_TOP, TOP, write_shop


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return write_shop(tmp_path, keep=True)


@pytest.fixture
def owner(shop: Path) -> Iterator[Any]:
    engine = engine_for(shop, "?owner=true")
    yield engine
    engine.dispose()


@pytest.fixture
def analyst(shop: Path) -> Iterator[Any]:
    engine = analysts(shop)
    yield engine
    engine.dispose()


def debits(shop: Path) -> int:
    """How many answers the ledger has been charged for."""
    with dp_sql.connect(
        str(shop / "shop.duckdb"), policy=shop / "policy.toml", analyst="ann"
    ) as session:
        rows = session.sql("SELECT count(*) FROM dp_ledger() WHERE kind = 'spent'").fetchall()
    return int(rows[0][0])


def test_an_analyst_is_answered_and_charged_once(analyst: Any, shop: Path) -> None:
    with analyst.connect() as con:
        assert con.execute(sqlalchemy.text(TOP)).fetchall() == [("Dune",), ("Emma",)]
    assert debits(shop) == 1


def test_a_table_of_sqlalchemys_is_made_and_filled_and_counted(owner: Any) -> None:
    tables = sqlalchemy.MetaData()
    made = sqlalchemy.Table(
        "made",
        tables,
        sqlalchemy.Column("id", sqlalchemy.Integer, primary_key=True),
        sqlalchemy.Column("name", sqlalchemy.String),
    )
    sqlalchemy.Table(
        "numbered",
        tables,
        sqlalchemy.Column(
            "id", sqlalchemy.Integer, sqlalchemy.Sequence("numbers"), primary_key=True
        ),
        sqlalchemy.Column("name", sqlalchemy.String),
    )
    tables.create_all(owner)
    with owner.begin() as con:
        filled = con.execute(made.insert(), [{"id": i, "name": "x"} for i in range(3)])
        assert not filled.returns_rows
        changed = con.execute(made.update().where(made.c.id > 0).values(name="y"))
        assert (changed.returns_rows, changed.rowcount) == (False, 2)
        typed = con.execute(sqlalchemy.text("DELETE FROM made"))
        assert (typed.returns_rows, typed.rowcount) == (False, 3)
        for number in (1, 2):
            added = con.execute(tables.tables["numbered"].insert().values(name="x"))
            assert tuple(added.inserted_primary_key) == (number,)


def test_reflection_under_a_policy_shows_names_and_types_and_nothing_else(analyst: Any) -> None:
    seen = sqlalchemy.inspect(analyst)
    assert seen.get_schema_names() == ["main"]
    assert (
        sorted(seen.get_table_names())
        == ["catalog", "ratings"]
        == sorted(seen.get_table_names("main"))
    )
    assert seen.get_view_names() == ["recent"]
    assert [column["name"] for column in seen.get_columns("recent")] == ["user_id", "title"]
    assert seen.get_table_names("other") == []
    assert seen.has_table("ratings")
    assert not seen.has_table("secret")
    told = [(column["name"], str(column["type"])) for column in seen.get_columns("ratings")]
    assert told == [("user_id", "BIGINT"), ("title", "VARCHAR"), ("day", "DATE")]
    with pytest.raises(sqlalchemy.exc.NoSuchTableError):
        seen.get_columns("secret")
    for ask in (seen.get_indexes, seen.get_foreign_keys, seen.get_unique_constraints):
        assert ask("ratings") == []
    assert seen.get_pk_constraint("ratings")["constrained_columns"] == []
    assert seen.get_table_comment("ratings") == {"text": None}


@pytest.fixture(scope="module")
def ungrown(tmp_path_factory: Any) -> Path:
    """A shop in which no test spends anything."""
    return write_shop(tmp_path_factory.mktemp("ungrown"), keep=True)


@pytest.fixture(scope="module")
def grown(tmp_path_factory: Any) -> Path:
    """The same names and types; other people, an index, and one table of the owner's fewer."""
    other = write_shop(tmp_path_factory.mktemp("grown"), keep=True)
    with duckdb.connect(str(other / "shop.duckdb")) as con:
        con.execute(
            "INSERT INTO ratings SELECT i, 'Walden', DATE '2020-01-01' FROM range(5000) t(i)"
        )
        con.execute("CREATE INDEX by_user ON ratings (user_id); DROP TABLE secret")
    return other


def test_reflection_is_the_same_whatever_the_rows_are(ungrown: Path, grown: Path) -> None:
    def seen(folder: Path) -> str:
        engine = analysts(folder)
        metadata = sqlalchemy.MetaData()
        metadata.reflect(engine, views=True)
        engine.dispose()
        return repr(sorted(metadata.tables.items()))

    assert seen(ungrown) == seen(grown)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM ratings",
        "SELECT count(*) FROM main.ratings",
        "SELECT * FROM secret",
        "FROM duckdb_tables()",
        "SELECT * FROM information_schema.tables",
        "SELECT * FROM pg_catalog.pg_class",
        "PRAGMA table_info('ratings')",
        "DESCRIBE secret",
        "COPY catalog TO 'out.csv'",
    ],
)
def test_other_reflection_reveals_nothing_of_private_rows(
    ungrown: Path, grown: Path, text: str
) -> None:
    def told(folder: Path) -> str:
        engine = analysts(folder)
        with engine.connect() as con:
            try:
                answer = repr(con.execute(sqlalchemy.text(text)).fetchall())
            except sqlalchemy.exc.DBAPIError as error:
                answer = str(error)
        engine.dispose()
        return answer

    answer = told(ungrown)
    assert answer == told(grown)
    assert "canary" not in answer
    assert debits(ungrown) == 0


def test_a_reflected_public_table_can_be_queried_by_expressions(analyst: Any) -> None:
    catalog = sqlalchemy.Table("catalog", sqlalchemy.MetaData(), autoload_with=analyst)
    asked = (
        sqlalchemy.select(catalog.c.title)
        .where(catalog.c.title.like("%e%"))
        .order_by(catalog.c.title)
        .limit(2)
    )
    with analyst.connect() as con:
        assert con.execute(asked).scalars().all() == ["Beloved", "Dune"]


def test_values_next_to_a_dp_call_can_be_parameters(analyst: Any, shop: Path) -> None:
    asked = sqlalchemy.text(f"SELECT title FROM ({TOP}) AS t WHERE title LIKE :like LIMIT :n")
    with analyst.connect() as con:
        assert con.execute(asked, {"like": "%mm%", "n": 5}).fetchall() == [("Emma",)]
        assert con.execute(asked, {"like": "%un%", "n": 5}).fetchall() == [("Dune",)]
    assert debits(shop) == 1


def test_bound_parameters_reach_the_source_of_a_dp_call(analyst: Any, shop: Path) -> None:
    text = f"SELECT DP_COUNT_DISTINCT(title, {SURE}) FROM ratings WHERE title IN :titles AND day >= :day"
    asked = sqlalchemy.text(text).bindparams(sqlalchemy.bindparam("titles", expanding=True))
    with analyst.connect() as con:
        for titles, answer in ((["Dune"], 1), (["Dune", "Emma"], 2), (["Dune"], 1)):
            values = {"titles": titles, "day": datetime.date(2000, 1, 1)}
            assert con.execute(asked, values).scalar() == answer
    assert debits(shop) == 2


def test_errors_come_as_sqlalchemys_with_ours_within(analyst: Any) -> None:
    with analyst.connect() as con:
        with pytest.raises(sqlalchemy.exc.ProgrammingError, match="epsilon") as caught:
            con.execute(sqlalchemy.text("SELECT DP_TOPK(title, 2) FROM ratings"))
        assert isinstance(caught.value.orig, dbapi.ProgrammingError)
        assert con.execute(sqlalchemy.text("SELECT 1")).scalar() == 1


def test_an_owners_transaction_is_committed_or_undone(owner: Any) -> None:
    with owner.begin() as con:
        con.execute(sqlalchemy.text("CREATE TABLE t AS SELECT 1 AS i"))
    with owner.connect() as con:
        con.execute(sqlalchemy.text("INSERT INTO t VALUES (2)"))
        assert con.execute(sqlalchemy.text(OWNERS_TOP)).fetchall() == [("Dune",), ("Emma",)]
    with owner.connect() as con:
        assert con.execute(sqlalchemy.text("SELECT i FROM t")).fetchall() == [(1,)]
    with owner.connect().execution_options(isolation_level="AUTOCOMMIT") as con:
        con.execute(sqlalchemy.text("INSERT INTO t VALUES (3)"))
    with owner.connect() as con:
        assert con.execute(sqlalchemy.text("SELECT max(i) FROM t")).scalar() == 3


def test_an_owner_sees_all_tables_and_their_types(owner: Any) -> None:
    with owner.begin() as con:
        con.execute(sqlalchemy.text("CREATE SCHEMA stage"))
        con.execute(
            sqlalchemy.text(
                "CREATE TABLE stage.wide (i INTEGER NOT NULL, h HUGEINT, d DECIMAL(9, 2), "
                "l VARCHAR[], r STRUCT(a INTEGER, b VARCHAR[]), e ENUM('x', 'y'), "
                "z TIMESTAMP WITH TIME ZONE, m INTEGER[][])"
            )
        )
    seen = sqlalchemy.inspect(owner)
    assert seen.get_schema_names() == ["main", "stage"]
    assert sorted(seen.get_table_names()) == ["catalog", "ratings", "secret"]
    columns = {column["name"]: column for column in seen.get_columns("wide", "stage")}
    told = {name: column["type"].compile(owner.dialect) for name, column in columns.items()}
    assert told == {
        "i": "INTEGER",
        "h": "NUMERIC(40, 0)",
        "d": "NUMERIC(9, 2)",
        "l": "VARCHAR[]",
        "r": "STRUCT(a INTEGER, b VARCHAR[])",
        "e": "VARCHAR",
        "z": "TIMESTAMP WITH TIME ZONE",
        "m": "INTEGER[][]",
    }
    assert not columns["i"]["nullable"]
    assert columns["h"]["nullable"]


def test_a_database_in_memory_belongs_to_its_thread() -> None:
    engine = sqlalchemy.create_engine("dpsql://?owner=true", future=True)
    with engine.begin() as con:
        con.execute(sqlalchemy.text("CREATE TABLE t AS SELECT 1 AS i"))
    with engine.connect() as con:
        assert con.execute(sqlalchemy.text("FROM t")).scalar() == 1
    engine.dispose()


def test_threads_share_an_engine_and_one_stored_release(analyst: Any, shop: Path) -> None:
    with analyst.connect() as con:
        con.execute(sqlalchemy.text(TOP))
    told: list[Any] = []

    def ask() -> None:
        with analyst.connect() as con:
            told.append(con.execute(sqlalchemy.text(TOP)).fetchall())

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told == [[("Dune",), ("Emma",)]] * 4
    assert debits(shop) == 1


@pytest.mark.thorough
def test_connections_may_be_opened_by_several_threads_at_once(shop: Path) -> None:
    together = threading.Barrier(4)
    wrong: list[Exception] = []

    def open_and_close() -> None:
        for _ in range(8):
            together.wait()
            try:
                dbapi.connect(str(shop / "shop.duckdb"), policy=shop / "policy.toml").close()
            except Exception as error:
                wrong.append(error)

    threads = [threading.Thread(target=open_and_close) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_connection_that_is_pinged_before_use_is_not_charged(shop: Path) -> None:
    engine = sqlalchemy.create_engine(
        f"dpsql:///{shop}/shop.duckdb?policy={shop}/policy.toml&analyst=ann",
        pool_pre_ping=True,
        future=True,
    )
    for _ in range(2):
        with engine.connect() as con:
            assert con.execute(sqlalchemy.text("SELECT 1")).scalar() == 1
    engine.dispose()
    assert debits(shop) == 0


def test_an_owner_sees_keys_indexes_comments_and_temporary_tables(owner: Any) -> None:
    with owner.begin() as con:
        for statement in (
            "CREATE TABLE p (id INTEGER PRIMARY KEY, a VARCHAR NOT NULL DEFAULT 'x', UNIQUE (a, id))",
            "CREATE TABLE f (pid INTEGER REFERENCES p (id), n INTEGER CHECK (n > 0))",
            "CREATE INDEX first ON f (n)",
            "COMMENT ON TABLE p IS 'people'", "COMMENT ON COLUMN p.a IS 'their name'",
            "CREATE TEMP TABLE t (i INTEGER)", "CREATE SEQUENCE numbers",
        ):  # fmt: skip
            con.exec_driver_sql(statement)
        con.exec_driver_sql(OWNERS_TOP)
        seen = sqlalchemy.inspect(con)
        assert seen.get_pk_constraint("p")["constrained_columns"] == ["id"]
        (unique,) = seen.get_unique_constraints("p")
        assert unique["column_names"] == ["a", "id"]
        (key,) = seen.get_foreign_keys("f")
        assert (key["constrained_columns"], key["referred_table"]) == (["pid"], "p")
        (index,) = seen.get_indexes("f")
        assert (index["name"], index["column_names"]) == ("first", ["n"])
        (check,) = seen.get_check_constraints("f")
        assert check["sqltext"] == "(n > 0)"
        assert seen.get_table_comment("p") == {"text": "people"}
        name = seen.get_columns("p")[1]
        assert (name["default"], name["comment"], name["nullable"]) == ("'x'", "their name", False)
        assert seen.get_temp_table_names() == ["t"]  # and no table of a release
        assert seen.has_table("t")
        assert "t" not in seen.get_table_names()
        assert seen.get_sequence_names() == ["numbers"]
        assert "CREATE VIEW recent" in seen.get_view_definition("recent")
        with pytest.raises(sqlalchemy.exc.NoSuchTableError):
            seen.get_indexes("none")
        tables = sqlalchemy.MetaData()
        tables.reflect(con, only=["f"])
        assert {table.name for table in tables.sorted_tables} == {"f", "p"}
        con.exec_driver_sql('CREATE INDEX other ON p ("a", lower(a))')
        (index,) = sqlalchemy.inspect(con).get_indexes("p")
        assert (index["column_names"], index["expressions"]) == (["a", None], ["a", "lower(a)"])


def test_an_analyst_sees_no_keys(analyst: Any) -> None:
    seen = sqlalchemy.inspect(analyst)
    for found in (seen.get_foreign_keys, seen.get_indexes, seen.get_check_constraints):
        assert found("ratings") == []
    assert seen.get_table_comment("ratings") == {"text": None}
    assert (seen.get_sequence_names(), seen.get_temp_table_names()) == ([], [])


def test_decimals_keep_their_digits(owner: Any) -> None:
    digits = "12345678901234567890.123456789012345678"
    wanted = {"d": sqlalchemy.Numeric(38, 18), "f": sqlalchemy.Numeric(asdecimal=False)}
    asked = sqlalchemy.text(f"SELECT {digits} AS d, 1.5 AS f, 6.0 / 2 AS q")
    with owner.connect() as con:
        found = con.execute(asked.columns(**wanted, q=sqlalchemy.Numeric())).one()
    assert (str(found.d), repr(found.f), found.q) == (digits, "1.5", 3)
