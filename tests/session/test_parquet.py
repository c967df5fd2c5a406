"""Parquet files as tables of a policy: a folder as a database, views, and files that change."""

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow
import pyarrow.parquet
import pytest

import dp_sql
from dp_sql.engines.duckdb.parquet_files import PinnedFiles, files_of
from dp_sql.engines.duckdb.private_connection import PrivateConnection
from dp_sql.errors import DpSqlError, NotPrivate, NotSupported, PolicyError, QueryError
from dp_sql.server.access_tokens import add_token
from dp_sql.server.gateway import Gateway
from tests.cli.test_main import run
from tests.conftest import SURE
from tests.server.serving import Shelf

POLICY = """
tables.ratings.privacy_unit = "user_id"
tables.orders.privacy_unit = "user_id"
public.tables = ["catalog"]
views.tables = [{views}]
domains."ratings.title" = "catalog.title"
[budget]
dataset = "shop"
epsilon = 1000000
"""
COUNT = f"SELECT DP_COUNT_DISTINCT(title, {SURE}) AS n FROM {{}}"
VIEWS = """
CREATE VIEW ratings AS FROM read_parquet('{0}/ratings.parquet');
CREATE VIEW orders AS SELECT * FROM read_parquet(['{0}/orders/**/*.parquet'], hive_partitioning = true,
    hive_types_autocast = false);
CREATE VIEW catalog AS FROM '{0}/catalog.parquet';
CREATE VIEW secret AS FROM read_parquet('{0}/ratings.parquet');
CREATE VIEW north AS SELECT user_id, title FROM ratings WHERE title <> 'It';
CREATE VIEW norther AS FROM north;
CREATE VIEW mine AS SELECT r.user_id, r.title FROM ratings AS r JOIN orders AS o ON r.user_id = o.user_id;
CREATE VIEW others AS SELECT r.user_id, r.title FROM ratings AS r JOIN orders AS o ON r.user_id <> o.user_id;
CREATE VIEW sums AS SELECT title, count(*) AS user_id FROM ratings GROUP BY title;
CREATE VIEW part AS SELECT user_id FROM read_parquet('{0}/ratings.parquet');
CREATE VIEW hidden AS FROM secret;
"""


def write(sql: str, to: Path, options: str = "") -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    draft = to.with_name(to.name + ".new")
    duckdb.execute(f"COPY ({sql}) TO '{draft}' (FORMAT parquet{options})")
    os.replace(draft, to)


RATINGS = (
    "SELECT i % 50 AS user_id, ['Dune', 'Emma', 'It'][1 + i % {}] AS title FROM range(200) AS r(i)"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    write(RATINGS.format(2), folder / "ratings.parquet")
    write("SELECT unnest(['Dune', 'Emma', 'It']) AS title", folder / "catalog.parquet")
    sql = "SELECT i % 50 AS user_id, i % 3 AS year, i AS amount FROM range(200) AS r(i)"
    write(sql, folder / "orders", ", PARTITION_BY (year)")
    (tmp_path / "policy.toml").write_text(POLICY.format(views=""), "utf-8")
    return folder


def session_of(database: Path, views: str = "") -> dp_sql.Session:
    policy = database.with_name("policy.toml")
    policy.write_text(POLICY.format(views=views), "utf-8")
    return dp_sql.connect(str(database), policy=policy)


@pytest.fixture
def database(folder: Path) -> Iterator[Path]:
    file = folder.with_name("shop.duckdb")
    with duckdb.connect(str(file)) as connection:
        connection.execute(VIEWS.format(folder))
    yield file


def test_an_analyst_who_names_a_file_is_told_what_it_is_called(database: Path) -> None:
    joined = COUNT.format("ratings JOIN '{0}' c USING (title)")
    with session_of(database) as session:
        for file in ("catalog.parquet", "data/Catalog.csv"):
            with pytest.raises(NotPrivate, match="There is no table") as refused:
                session.sql(joined.format(file))
            assert refused.value.instead == (joined.replace("'{0}'", "catalog"),)
            assert session.sql(refused.value.instead[0]).fetchall() == [(2,)]


@pytest.mark.thorough
def test_an_owner_of_a_folder_drafts_checks_and_asks(folder: Path) -> None:
    drafted = run("policy", "init", str(folder))
    assert '[tables.orders]\nprivacy_unit = "user_id"' in drafted.stdout
    policy = folder.with_name("policy.toml")
    checked = run("policy", "check", str(policy), str(folder))
    assert (checked.returncode, checked.stderr) == (0, "")
    assert "2 private, 1 public" in checked.stdout
    with session_of(folder) as session:
        assert session.sql(COUNT.format("ratings JOIN catalog USING (title)")).fetchall() == [(2,)]
        asked = f"SELECT DP_COUNT_DISTINCT(amount, {SURE}) AS n FROM orders WHERE year = '1'"
        assert session.sql(asked).fetchall() == [(67,)]
        ((best,),) = session.sql(f"SELECT DP_TOPK(title, 2, {SURE}) FROM ratings").fetchall()
        assert sorted(best) == ["Dune", "Emma"]
        assert len(session.sql("FROM catalog").fetchall()) == 3
        for wrong in ("FROM ratings", f"FROM read_parquet('{folder}/ratings.parquet')",
                      f"FROM '{folder}/ratings.parquet'",
                      COUNT.format(f"read_parquet('{folder}/ratings.parquet')")):  # fmt: skip
            with pytest.raises((DpSqlError, duckdb.Error)):
                session.sql(wrong).fetchall()
    with dp_sql.connect(str(folder)) as owner:
        asked = (
            "SELECT DP_TOPK(title, 1, epsilon := 99, privacy_unit := user_id, domain := ['Dune'])"
        )
        assert owner.sql(f"{asked} FROM ratings").fetchall() == [(["Dune"],)]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("view", ["north", "norther", "mine"])
def test_a_view_over_files_is_compiled_like_any_view(database: Path, view: str) -> None:
    with session_of(database, '"north", "norther", "mine"') as session:
        assert session.sql(COUNT.format(view)).fetchall() == [(2,)]


@pytest.mark.one_in(5)
@pytest.mark.parametrize("view", ["others", "sums", "part", "secret", "hidden"])
def test_a_view_that_is_not_of_one_persons_rows_is_refused(database: Path, view: str) -> None:
    with session_of(database, '"others", "sums", "part", "hidden"') as session:
        with pytest.raises(NotPrivate):
            session.sql(COUNT.format(view)).fetchall()
        assert session.receipts == ()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("view", ["sums", "part", "others", "north"])
def test_a_view_that_is_more_than_a_scan_is_no_table(database: Path, view: str) -> None:
    policy = database.with_name("policy.toml")
    policy.write_text(f'tables.{view}.privacy_unit = "user_id"', "utf-8")
    with pytest.raises(PolicyError, match=r"is a view.*SELECT \* FROM read_parquet"):
        dp_sql.connect(str(database), policy=policy)


@pytest.mark.parametrize(
    "body",
    [
        "SELECT user_id FROM read_parquet('a')", "SELECT * FROM read_parquet('a') WHERE true",
        "SELECT * FROM read_parquet('a'), read_parquet('b')", "SELECT * FROM read_csv('a')",
        "SELECT * FROM read_parquet('a', filename = true)", "SELECT DISTINCT * FROM read_parquet('a')",
        "SELECT * FROM read_parquet('a') UNION ALL SELECT * FROM t", "SELECT * FROM read_parquet(f('a'))",
        "WITH x AS (SELECT 1) SELECT * FROM read_parquet('a')", "SELECT * FROM t",
        "SELECT * FROM read_parquet('a') AS t JOIN u ON \"b.parquet\"", 'SELECT * FROM "a.csv"',
        "SELECT * FROM read_parquet('a') ORDER BY 1", "SELECT * FROM read_parquet('a') LIMIT 1",
    ],
)  # fmt: skip
def test_no_other_body_is_a_scan(body: str) -> None:
    assert files_of(f"CREATE VIEW v AS {body};") == ()
    assert files_of("CREATE VIEW v AS SELECT * FROM read_parquet('it''s');") == ("it's",)


def test_the_private_side_reads_no_other_file_table(database: Path) -> None:
    private = PrivateConnection(str(database))
    ratings = ("shop", "main", "ratings")
    for tables, agrees in ((frozenset({ratings}), True), (frozenset[Any](), False)):
        assert private.agrees('(SELECT 1 FROM "shop"."main"."ratings") AS t', tables) == agrees
    planted = '(SELECT 1 FROM "shop"."main"."ratings", "shop"."main"."secret") AS t'
    assert not private.agrees(planted, frozenset({ratings}))
    quoted = """(SELECT '"shop"."main"."secret"' FROM "shop"."main"."ratings") AS t"""
    assert private.agrees(quoted, frozenset({ratings}))
    private.close()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("change", ["replaced", "removed", "added"])
def test_a_session_ends_when_a_file_changes_and_nothing_is_spent(folder: Path, change: str) -> None:
    with session_of(folder) as session:
        session.sql(COUNT.format("ratings"))
        if change == "replaced":
            write(RATINGS.format(3), folder / "ratings.parquet")
        elif change == "removed":
            (folder / "catalog.parquet").unlink()
        else:
            sql = "SELECT 1::BIGINT AS user_id, 5::BIGINT AS amount"
            write(sql, folder / "orders" / "year=9" / "x.parquet")
        for asked in (COUNT.format("ratings"), "FROM catalog"):
            with pytest.raises(NotSupported, match="files have changed"):
                session.sql(asked)
            with pytest.raises(NotSupported, match="files have changed"):
                session.explain(asked)
        with pytest.raises(NotSupported, match="files have changed"):
            session.cost([COUNT.format("ratings")])
        assert session.budget()[0].epsilon_spent == 10_000
    if change != "removed":
        with session_of(folder) as session:
            n = 3 if change == "replaced" else 2
            assert session.sql(COUNT.format("ratings")).fetchall() == [(n,)]


@pytest.mark.usefixtures("by_sql")
def test_a_file_replaced_during_a_release_fails_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_private = PrivateConnection._run

    def replacing(self: PrivateConnection, sql: str, parameters: object = None) -> Any:
        found = run_private(self, sql, parameters)
        if "__dp_sql_" in sql:
            write(RATINGS.format(3), folder / "ratings.parquet")
        return found

    with session_of(folder) as session:
        monkeypatch.setattr(PrivateConnection, "_run", replacing)
        with pytest.raises(QueryError, match="Its cost is spent"):
            session.sql(COUNT.format("ratings")).fetchall()
        assert session.budget()[0].epsilon_spent == 10_000


@pytest.mark.one_in(3)
@pytest.mark.parametrize("partition", ["9", "2024-01-01", "north"])
def test_no_folder_of_one_person_changes_a_type(folder: Path, partition: str) -> None:
    sql = "SELECT 1::BIGINT AS user_id, 5::BIGINT AS amount"
    write(sql, folder / "orders" / f"year={partition}" / "x.parquet")
    with session_of(folder) as session:
        shown = session.sql("DESCRIBE orders").fetchall()
    assert shown == [("user_id", "BIGINT"), ("amount", "BIGINT"), ("year", "VARCHAR")]
    file = folder.with_name("guessed.duckdb")
    with duckdb.connect(str(file)) as connection:
        connection.execute(VIEWS.format(folder).replace(",\n    hive_types_autocast = false", ""))
    if partition == "9":  # the others make it VARCHAR, too
        with pytest.raises(PolicyError, match=r"partition columns.*hive_types_autocast = false"):
            session_of(file)


class Printing(Shelf):
    """A server that says what it is given."""

    def hold(self, rows: Any) -> tuple[str, str]:
        return "it", str(rows.table.to_pylist())


@pytest.mark.thorough
def test_a_server_goes_on_with_the_new_files(folder: Path) -> None:
    tokens, shelf = folder.with_name("tokens"), Printing()
    secret = add_token(tokens, "ann")
    gateway = Gateway(str(folder), str(folder.with_name("policy.toml")), tokens, shelf)  # type: ignore[arg-type]
    gateway.check()
    assert gateway.admit("one", secret)
    assert gateway.answer("one", COUNT.format("ratings")) == "[{'c0': 2}]"
    write(RATINGS.format(3), folder / "ratings.parquet")
    assert gateway.answer("one", COUNT.format("ratings")) == "[{'c0': 2}]"  # paid for: it is kept
    assert gateway.answer("one", COUNT.format("ratings ")) == "[{'c0': 3}]"
    gateway.close()


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT 'x' AS user_id, 'It' AS title", "do not have the same columns"),
        ("SELECT 1::BIGINT AS user_id", "do not have the same columns"),
        ("SELECT 1::BIGINT AS user_id, 'It' AS title, 2 AS more", "do not have the same columns"),
        ("SELECT 'It' AS title, 1::BIGINT AS user_id", "types in the same order"),
    ],
)
def test_files_that_differ_are_refused_when_the_session_opens(
    folder: Path, sql: str, why: str
) -> None:
    (folder / "ratings.parquet").rename(folder / "a.parquet")
    write(sql, folder / "ratings" / "b.parquet")
    (folder / "a.parquet").rename(folder / "ratings" / "a.parquet")
    with pytest.raises(PolicyError, match=why):
        session_of(folder)
    checked = run("policy", "check", str(folder.with_name("policy.toml")), str(folder))
    assert checked.returncode == 1 and why in checked.stderr


@pytest.mark.parametrize(
    ("some", "other"),
    [("{'a': {'p': 1}, 'b': {'q': 1}}", "{'a': {'q': 1}, 'b': {'p': 1}}"), ("[[1]]", "[1]")],
)
def test_nested_columns_that_differ_are_refused(folder: Path, some: str, other: str) -> None:
    (folder / "ratings.parquet").unlink()
    for name, value in (("a", some), ("b", other)):
        write(
            f"SELECT 1 AS user_id, 'It' AS title, {value} AS x",
            folder / "ratings" / f"{name}.parquet",
        )
    with pytest.raises(PolicyError, match="do not have the same columns and types"):
        session_of(folder)


def test_files_of_one_table_may_be_of_several_writers(folder: Path) -> None:
    (folder / "ratings").mkdir()
    (folder / "ratings.parquet").rename(folder / "ratings" / "a.parquet")
    rows = pyarrow.table({"user_id": [1], "title": ["It"]})
    pyarrow.parquet.write_table(rows, folder / "ratings" / "b.parquet")
    with session_of(folder) as session:
        assert session.sql(COUNT.format("ratings")).fetchall() == [(3,)]


@pytest.mark.parametrize("is_first", [True, False])
def test_a_file_that_calls_a_blob_geometry_is_refused(folder: Path, is_first: bool) -> None:
    point = bytes([1, 1, 0, 0, 0]) + bytes(16)
    rows = pyarrow.table({"user_id": [1], "title": ["It"], "place": [point]})
    (folder / "ratings.parquet").unlink()
    (folder / "ratings").mkdir()
    geo = (
        '{"version": "1.0.0", "primary_column": "place", "columns": {"place": {"encoding": "WKB", '
        '"geometry_types": ["Point"]}}}'
    )
    for name, is_geo in (("a", is_first), ("b", not is_first)):
        written = rows.replace_schema_metadata({"geo": geo} if is_geo else None)
        pyarrow.parquet.write_table(written, folder / "ratings" / f"{name}.parquet")
    with pytest.raises(PolicyError, match=r"columns and types|cannot be read"):
        session_of(folder)


@pytest.mark.parametrize(
    "place", ["p", "zone=1/p", "Year=2/p", "year=2/zone=1/p", "year=/p", "year/p", "year=2/p"]
)
def test_no_file_decides_whether_folders_are_columns(folder: Path, place: str) -> None:
    write(
        "SELECT 1::BIGINT AS user_id, 2::BIGINT AS amount", folder / "orders" / f"{place}.parquet"
    )
    if place == "year=2/p":
        session_of(folder).close()
        return
    with pytest.raises(PolicyError, match="folders with the same keys"):
        session_of(folder)


def test_a_file_that_is_no_parquet_is_refused_when_the_session_opens(folder: Path) -> None:
    with session_of(folder):
        (folder / "ratings.parquet").write_bytes(b"PAR1 no PAR1")
    with pytest.raises((PolicyError, duckdb.Error)):
        session_of(folder)


def test_a_file_is_no_database_and_its_folder_is(folder: Path) -> None:
    drafted = run("policy", "init", str(folder / "ratings.parquet"))
    assert "Name its folder: the parquet files in it are tables." in drafted.stderr


@pytest.mark.one_in(2)
@pytest.mark.parametrize("who", ["user_id < 5", "user_id > 5"])
def test_no_query_fails_by_a_value_that_cannot_be_read(folder: Path, who: str) -> None:
    n = 100
    offsets = pyarrow.py_buffer(struct.pack(f"<{n + 1}i", *range(0, 4 * n + 1, 4)))
    bytes_of = pyarrow.py_buffer(b"Dune" * (n - 1) + b"\xff\xfeno")
    titles = pyarrow.Array.from_buffers(pyarrow.string(), n, [None, offsets, bytes_of])
    table = pyarrow.table({"user_id": pyarrow.array(range(n)), "title": titles})
    pyarrow.parquet.write_table(table, folder / "ratings.parquet")
    with dp_sql.connect(str(folder)) as owner, pytest.raises(duckdb.Error):  # what a query would do
        owner.sql(f"SELECT count(DISTINCT title) FROM ratings WHERE {who}").fetchall()
    with pytest.raises(PolicyError, match="hold a value that DuckDB cannot read") as refused:
        session_of(folder)
    assert "xff" not in str(refused.value).lower()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("is_native", [True, False])
@pytest.mark.parametrize(
    ("kind", "wrong", "asked"),
    [
        (pyarrow.decimal128(38, 10), -(2**127), "CAST({} AS VARCHAR) > ''"),
        (pyarrow.decimal128(4, 2), -(2**15), "-{} < 3"),
        (pyarrow.decimal128(18, 2), 2**63 - 1, "abs({}) > 3"),
        (pyarrow.timestamp("us"), -(2**63), "CAST({} AS VARCHAR) > ''"),
        (pyarrow.timestamp("ns"), -(2**63), "{} || 'a' > ''"),
        (pyarrow.time64("us"), -(2**63), "CAST({} AS VARCHAR) > ''"),
        (pyarrow.date32(), -(2**31), "CAST({} AS VARCHAR) > ''"),
    ],
    ids=str,
)
def test_no_query_fails_by_a_value_that_is_none_of_its_type(
    tmp_path: Path, kind: Any, wrong: int, asked: str, is_native: bool
) -> None:
    size = kind.bit_width // 8
    raw = b"".join(n.to_bytes(size, "little", signed=True) for n in [wrong] * 9 + [1000] * 9)
    column = pyarrow.Array.from_buffers(kind, 18, [None, pyarrow.py_buffer(raw)])
    inside = pyarrow.StructArray.from_arrays([column], ["x"])
    rows = pyarrow.table({"user_id": range(18), "x": column, "s": inside})
    (shop := tmp_path / "shop").mkdir()
    if is_native:
        with duckdb.connect(str(shop := tmp_path / "shop.duckdb")) as connection:
            connection.register("rows", rows)
            connection.execute("CREATE TABLE ratings AS FROM rows")
            connection.execute("CREATE TABLE listed AS SELECT x FROM rows")
    else:
        pyarrow.parquet.write_table(rows, shop / "ratings.parquet")
        pyarrow.parquet.write_table(rows.select(["x"]), shop / "listed.parquet")
        if "time64" in str(kind):  # of a file DuckDB checks the times of a day
            return
    (tmp_path / "policy.toml").write_text(
        "[tables]\nratings = { privacy_unit = 'user_id' }\n[domains]\n'ratings.x' = 'observed'\n"
        "[limits]\nmax_delta_per_query = 1e-6\n[public]\ntables = ['listed']",
        "utf-8",
    )
    count = f"SELECT DP_COUNT(*, {SURE}, max_contributions := 1) FROM ratings WHERE "
    item, group = f"DP_TOPK(x, 1, {SURE}", f"{SURE}, max_groups_contributed := 1"
    found = f"SELECT x, DP_COUNT(*, {group}, {{}}) FROM ratings GROUP BY x"
    with dp_sql.connect(str(shop), policy=tmp_path / "policy.toml") as session:
        for name in ("x", "s.x"):
            assert session.sql(count + asked.format(name)).fetchall() == [(9,)]
        # As an item that is found, and as one of the values that are no secret.
        for more in (", delta := 1e-6)", ")"):
            ((listed,),) = session.sql(f"SELECT {item}{more} FROM ratings").fetchall()
            assert len(listed) == 1
        for more in ("delta := 1e-6", "groups := listed.x", "groups := (SELECT x FROM listed)"):
            assert len(session.sql(found.format(more)).fetchall()) == 1
    with dp_sql.connect(str(shop)) as owner:
        more = "groups := observed, privacy_unit := user_id"
        assert len(owner.sql(found.format(more)).fetchall()) == 1


def test_files_are_read_to_their_end_once_in_a_process(folder: Path) -> None:
    with session_of(folder), duckdb.connect() as empty:
        view = (folder / "ratings.parquet").as_posix()
        PinnedFiles(empty, (), [("ratings", "no_such_table", (view,))])  # it is not read again
        write(RATINGS.format(3), folder / "ratings.parquet")
        with pytest.raises(PolicyError, match="cannot read"):
            PinnedFiles(empty, (), [("ratings", "no_such_table", (view,))])


def test_a_public_table_reads_no_file_of_a_private_one(database: Path) -> None:
    policy = database.with_name("policy.toml")
    policy.write_text(
        'tables.ratings.privacy_unit = "user_id"\npublic.tables = ["secret"]', "utf-8"
    )
    with pytest.raises(PolicyError, match="secret is public, and reads a file of a private table"):
        dp_sql.connect(str(database), policy=policy)


def test_names_in_a_folder_are_of_one_table(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotSupported, match="no parquet file"):
        dp_sql.connect(str(tmp_path / "empty"))
    write("SELECT 1 AS a", tmp_path / "two" / "T.parquet")
    write("SELECT 1 AS a", tmp_path / "two" / "t" / "x.parquet")
    with pytest.raises(NotSupported, match="would be called t"):
        dp_sql.connect(str(tmp_path / "two"))
    write("SELECT 1 AS a", tmp_path / "a*b" / "t.parquet")
    with pytest.raises(NotSupported, match="rename the folder"):
        dp_sql.connect(str(tmp_path / "a*b"))


NAN_POLICY = """
tables.measured.privacy_unit = "user_id"
limits.max_epsilon_per_query = 10000
"""


def _counts_beside_nan(folder: Path, who: str, *, is_there: bool) -> list[int]:
    """How many people meet some conditions: 40 with NaN, and one with 700 or not."""
    people = [*range(40), *[1000] * is_there]
    values = pyarrow.array([*[float("nan"), 5.0] * 20, *[700.0] * is_there], pyarrow.float64())
    folder.mkdir()
    file = folder / "measured.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"user_id": people, "x": values}), file)
    (folder / "policy.toml").write_text(NAN_POLICY, "utf-8")
    policy = {"policy": folder / "policy.toml", "analyst": "ann"} if "analyst" in who else {}
    database, relation, unit = folder, "measured", "" if policy else ", privacy_unit := user_id"
    if "folder" not in who:
        database = folder / "a.duckdb"
        with duckdb.connect(database) as con:
            con.execute(f"CREATE VIEW measured AS FROM read_parquet('{file}')")
    if "scan" in who:
        relation = f"read_parquet(['{file}'], union_by_name := true)"
    if "file" in who:
        relation = f"'{file}'"
    call = f"DP_COUNT_DISTINCT(user_id, epsilon := 1000{unit})"
    with dp_sql.connect(database, **policy) as session:
        return [
            session.sql(f"SELECT {call} FROM {relation} WHERE {condition}").fetchall()[0][0]
            for condition in ("x > 100", "x <> 5", "NOT x <= 100", "isnan(x)", "coalesce(x, 0) > 8")
        ]


@pytest.mark.parametrize(
    "who", ["analyst, folder", "analyst, view", "owner, view", "owner, scan", "owner, file"]
)
def test_no_row_group_of_others_is_skipped_without_one_person(tmp_path: Path, who: str) -> None:
    without = _counts_beside_nan(tmp_path / "without", who, is_there=False)
    beside = _counts_beside_nan(tmp_path / "beside", who, is_there=True)
    assert without == [20] * 5
    assert beside == [21, 21, 21, 20, 21]
