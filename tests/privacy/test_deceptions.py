"""Sources that look like a person's rows and are not, names that mean two things, texts that mislead.

Each case was accepted, or answered wrongly, by an earlier state of the program.
"""

import contextlib
import gc
from pathlib import Path

import duckdb
import pytest

import dp_sql
from dp_sql.engines.duckdb import few_rows, many_rows, row_estimate
from dp_sql.errors import NotPrivate
from dp_sql.sql.tokens import SYNTAX
from tests.conftest import SURE, free

UNIT = f"{SURE}, privacy_unit := user_id"
COUNT = f"DP_COUNT_DISTINCT(title, {UNIT})"


def count_by(unit: str, source: str) -> str:
    return f"SELECT DP_COUNT_DISTINCT(title, {SURE}, privacy_unit := {unit}) FROM {source}"


SHADOWS = {
    "a view of the schema in use": (
        "CREATE SCHEMA s1; CREATE VIEW s1.ratings AS FROM main.ratings LIMIT 1; USE s1", "ratings"),
    "the first schema of the search path": (
        "CREATE SCHEMA zz; CREATE SCHEMA aa; CREATE TABLE aa.w AS FROM ratings; "
        "CREATE VIEW zz.w AS FROM main.ratings LIMIT 1; SET search_path = 'zz,aa'", "w"),
    "a database and a schema of one name": (
        "ATTACH ':memory:' AS s; CREATE VIEW s.main.v AS FROM memory.main.ratings LIMIT 1; "
        "CREATE SCHEMA s.aaa; CREATE TABLE s.aaa.v AS FROM ratings", "s.v"),
    "a view's own schema": (
        "CREATE SCHEMA aa; CREATE VIEW aa.x AS FROM main.ratings LIMIT 1; "
        "CREATE TABLE x AS FROM ratings; USE aa; CREATE VIEW v AS SELECT * FROM x; USE main",
        "aa.v"),
    "a schema on the path behind its database's name": (
        "ATTACH ':memory:' AS s; CREATE SCHEMA s.sch; "
        "CREATE VIEW s.sch.v AS FROM memory.main.ratings LIMIT 1; USE s.sch", "s.v"),
    "a schema whose name holds a dot": (
        "CREATE SCHEMA \"a.b\"; CREATE VIEW \"a.b\".q AS FROM main.ratings LIMIT 1; "
        "SET search_path = 'main,\"a.b\"'", "q"),
    "a temporary view": ("CREATE TEMP VIEW ratings AS FROM memory.main.ratings LIMIT 1", "ratings"),
}  # fmt: skip


@pytest.mark.one_in(4)
@pytest.mark.parametrize("case", SHADOWS)
def test_the_relation_that_is_read_is_the_one_that_was_checked(
    session: dp_sql.Session, case: str
) -> None:
    setup, source = SHADOWS[case]
    for statement in setup.split("; "):
        session.execute(statement)
    with pytest.raises(NotPrivate, match="not provably person-level"):
        session.sql(f"SELECT {COUNT} FROM {source}")
    assert session.receipts == ()


def test_a_temporary_view_does_not_step_in_between_check_and_reading(
    con: duckdb.DuckDBPyConnection,
) -> None:
    con.execute("CREATE TEMP VIEW ratings AS FROM memory.main.ratings LIMIT 1")
    con.execute("CREATE TEMP TABLE catalog AS SELECT 'Emma' AS title")
    top = f"SELECT DP_TOPK(title, 1, {UNIT}, domain := catalog.title) FROM main.ratings"
    for text in (f"SELECT {COUNT} FROM ratings", top):
        with pytest.raises(duckdb.Error, match="is a temporary table or view"):
            con.sql(f"FROM dp($$ {text} $$)").fetchall()
    assert dp_sql.receipts(con) == ()


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("unit", "source"),
    [
        ("user_id", "(SELECT * EXCLUDE (user_id), user_id || '-' || year AS user_id FROM ratings)"),
        ("pid", "(SELECT *, user_id || title AS pid FROM ratings)"),
        ("x.pid", "(SELECT *, {'pid': user_id || title} AS x FROM ratings)"),
        ("x.pid", "structs"),
        ("user_id", "(SELECT user_id || '-' || year AS q, q AS user_id, title FROM ratings)"),
        ("user_id", "joined"),
        ("p", "(SELECT rowid AS p, title FROM ratings)"),
        ("rowid", "ratings"),
        ("user_id", "(SELECT user_id, title AS user_id, title FROM ratings)"),
        ("user_id", "(SELECT user_id % 2 AS user_id, title FROM ratings)"),
        ("user_id", "(SELECT * REPLACE (user_id % 2 AS user_id) FROM ratings)"),
        ("user_id", "(SELECT x.*, user_id, title FROM nested)"),
        ("user_id", "(SELECT x.x.user_id, title FROM nested AS x)"),
        ("x.x.user_id", "nested AS x"),
        ("nested.user_id", "(SELECT nested, user_id, title FROM nested)"),
        ("a_1", "(SELECT year AS a, user_id || title AS a, title, user_id AS a_1 FROM ratings)"),
        ("tit", "(SELECT COLUMNS('(tit)le') AS '\\1', user_id AS tit, title FROM ratings)"),
        ("title.rowid", "ratings AS title"),
        ("k", '(SELECT * EXCLUDE ("\u212a"), user_id AS k FROM kelvin)'),
    ],
)
def test_the_unit_is_a_column_and_not_an_expression(
    session: dp_sql.Session, unit: str, source: str
) -> None:
    session.execute("CREATE TABLE acc AS SELECT 1 AS user_id")
    session.execute("CREATE VIEW joined AS SELECT c.*, r.* FROM ratings r JOIN acc c ON true")
    session.execute(
        "CREATE TABLE nested AS SELECT user_id, title, {'user_id': user_id || title, "
        "'x': {'user_id': title}} AS x, {'user_id': title} AS nested FROM ratings"
    )
    session.execute(
        'CREATE TABLE kelvin AS SELECT user_id, title, user_id || title AS k, 1 AS "\u212a" FROM ratings'
    )
    session.execute("CREATE TABLE structs AS SELECT *, {'pid': user_id || title} AS x FROM ratings")
    with pytest.raises(NotPrivate):
        session.sql(count_by(unit, source))
    assert session.receipts == ()


@pytest.mark.parametrize("unit, renamed", [("x.pid", "*"), ("p", "x.pid AS p")])
def test_a_unit_that_is_a_field_is_to_be_stored_as_a_column(
    session: dp_sql.Session, unit: str, renamed: str
) -> None:
    session.execute("CREATE TABLE structs AS SELECT *, {'pid': user_id} AS x FROM ratings")
    with pytest.raises(NotPrivate) as refused:
        session.sql(count_by(unit, f"(SELECT {renamed}, title FROM structs)"))
    assert "it is a field of a struct or computed, store it" in (refused.value.hint or "")
    session.execute("CREATE TABLE stored AS SELECT x.pid AS p, * FROM structs")
    assert session.sql(count_by("p", "stored")).fetchall()


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "source",
    [
        "ratings WHERE rowid < 5", "(SELECT * FROM ratings WHERE rowid = 0)",
        "ratings AS title WHERE title.rowid < 3",
        "(SELECT user_id, title.rowid AS title FROM ratings AS title)",
        "read_csv('{path}', skip = 150)",
        "'{path}' WHERE file_row_number < 3",
        "read_parquet('{path}', file_row_number = true) WHERE file_row_number < 3",
    ],
)  # fmt: skip
def test_rows_cannot_be_chosen_by_their_place(
    session: dp_sql.Session, source: str, tmp_path: Path
) -> None:
    path = tmp_path / "ratings.parquet"
    session.execute(f"COPY ratings TO '{path}'")
    with pytest.raises(NotPrivate, match=r"rowid|file_row_number|skip"):
        session.sql(f"SELECT {COUNT} FROM {source.format(path=path)}")


def test_relations_of_python_are_no_tables(session: dp_sql.Session) -> None:
    relation = session.sql("FROM ratings LIMIT 1")
    with pytest.raises(NotPrivate, match="not provably person-level"):
        session.sql(f"SELECT {COUNT} FROM relation")
    relation.create_view("seen")
    session.connection.register("shown", session.sql("FROM ratings LIMIT 1"))
    for view in ("seen", "shown"):
        with pytest.raises(NotPrivate, match="not provably person-level"):
            session.sql(f"SELECT {COUNT} FROM {view}")


def test_a_relation_of_python_hides_behind_no_table_elsewhere(session: dp_sql.Session) -> None:
    relation = session.sql("FROM ratings LIMIT 1")
    session.execute("CREATE SCHEMA o; CREATE TABLE o.relation AS SELECT 1 AS x")
    session.execute("SET python_scan_all_frames = true")

    def inside() -> None:
        session.sql(f"SELECT {COUNT} FROM relation")

    for ask in (inside, lambda: session.sql(f"SELECT {COUNT} FROM relation")):
        with pytest.raises(NotPrivate, match="not provably person-level"):
            ask()
    assert relation.fetchall()


@pytest.mark.thorough
def test_registered_dataframes_are_sources(session: dp_sql.Session) -> None:
    frame = session.sql("SELECT user_id, title FROM ratings").df()
    session.connection.register("known", frame)
    assert session.sql(f"SELECT {COUNT} FROM known").fetchall() == [(4,)]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("setup", "source"),
    [
        ('CREATE MACRO "+"(a, b) AS (SELECT max(year) FROM ratings)', "ratings WHERE year = 1 + 1"),
        ('CREATE MACRO "~~"(a, b) AS (SELECT true)', "ratings WHERE title LIKE 'D%'"),
        ("CREATE MACRO read_parquet(x) AS (SELECT max(title) FROM ratings)",
         "ratings WHERE title = read_parquet(title)"),
        ("CREATE MACRO read_ndjson(x) AS TABLE FROM ratings LIMIT 1", "read_ndjson('x')"),
        ("SET VARIABLE x = (SELECT max(title) FROM ratings)",
         "ratings WHERE title = getvariable('x')"),
        ("CREATE MACRO date_part(a, b) AS (SELECT max(year) FROM ratings)",
         "ratings WHERE EXTRACT(year FROM DATE '2006-01-01') = 2006"),
        ("CREATE MACRO contains(a, b) AS (SELECT true)", "ratings WHERE title IN ['a', 'b']"),
        ("CREATE MACRO contains(a, b) AS (SELECT true)", "ratings WHERE 'a' IN title"),
        ('CREATE MACRO "row"(a, b) AS (SELECT 1)', "ratings WHERE (title, year) = ('a', 1)"),
        ('CREATE MACRO "row"(a, b) AS (SELECT 1)', "ratings WHERE year IN ((1, 2))"),
        ("CREATE MACRO current_date() AS (SELECT DATE '2006-01-01')",
         "ratings WHERE current_date = DATE '2006-01-01'"),
        ("CREATE MACRO current_localtime() AS (SELECT TIME '00:00:00')",
         "ratings WHERE localtime < '01:00:00'"),
        ("CREATE MACRO current_user() AS (SELECT 'a')", "ratings WHERE title = current_user"),
        ("CREATE MACRO regexp_full_match(a, b) AS (SELECT true)",
         "ratings WHERE title SIMILAR TO 'zz'"),
        ("CREATE MACRO like_escape(a, b, c) AS (SELECT true)",
         "ratings WHERE title LIKE 'zz' ESCAPE '$'"),
        ("CREATE MACRO to_days(a) AS (SELECT INTERVAL 1 DAY)",
         "ratings WHERE DATE '2006-01-01' + INTERVAL 300 DAY > DATE '2005-01-01'"),
        ("CREATE TABLE te AS SELECT user_id, title AS e FROM ratings",
         "(SELECT user_id, e'\\', ' , (SELECT title FROM ratings LIMIT 1) AS title --'\n FROM te)"),
        ("SELECT 1", "ratings WHERE current_setting('threads') > 1"),
        ("SELECT 1", "ratings WHERE pg_sleep(0) IS NULL"),
    ],
)  # fmt: skip
def test_functions_are_what_they_are_in_this_database(
    session: dp_sql.Session, setup: str, source: str
) -> None:
    session.execute(setup)
    with pytest.raises(NotPrivate):
        session.sql(f"SELECT {COUNT} FROM {source}")
    assert session.receipts == ()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("word", sorted(SYNTAX))
def test_a_word_before_a_bracket_is_no_function(session: dp_sql.Session, word: str) -> None:
    session.execute(f'CREATE MACRO "{word}"(x) AS 42')
    assert session.sql(f'SELECT "{word}"(true)').fetchall() == [(42,)]
    with contextlib.suppress(duckdb.ParserException):
        assert session.sql(f"SELECT {word} (true)").fetchall() != [(42,)]


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    "condition",
    ["year + 1 > 2", "title || 'x' LIKE '%x'", "read_on > now() - INTERVAL 1 YEAR OR true",
     "date_part('year', read_on) >= 2000", "title = ANY(['Dune', 'Emma']) OR true",
     "EXTRACT(year FROM read_on) = 2024", "read_on::TIMESTAMP AT TIME ZONE 'UTC' IS NOT NULL",
     "[1, 2][1:1] = [1]", "ratings.year > 1", "main.ratings.year > 1", "list_contains(['Dune', 'Emma'], title) OR true"],
)  # fmt: skip
def test_operators_and_clocks_are_allowed(session: dp_sql.Session, condition: str) -> None:
    session.execute("ALTER TABLE ratings ADD COLUMN read_on DATE DEFAULT DATE '2024-01-01'")
    assert session.sql(f"SELECT {COUNT} FROM ratings WHERE {condition}").fetchall() == [(4,)]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("statement", "rows"),
    [
        (f"SELECT 5 AS value, {COUNT} AS n, value + 1 FROM ratings", [(5, 4, 6)]),
        (f"SELECT {COUNT} AS n, {COUNT}, n + 1, 5 AS value, value + 1 FROM ratings",
         [(4, 4, 5, 5, 6)]),
        (f"SELECT {COUNT} AS limit, {COUNT} AS from FROM ratings", [(4, 4)]),
        (f"SELECT {COUNT} AS union FROM ratings", [(4,)]),
        (f"SELECT [x + 1 for x in [{COUNT}]] FROM ratings", [([5],)]),
        (f"SELECT {'(' * 300}{COUNT}{')' * 300} FROM ratings", [(4,)]),
        (f"INSERT INTO kept SELECT {COUNT} FROM ratings RETURNING n", [(4,)]),
    ],
)  # fmt: skip
def test_the_list_means_what_it_says(
    session: dp_sql.Session, statement: str, rows: list[tuple[object, ...]]
) -> None:
    session.execute("CREATE TABLE kept (n BIGINT)")
    assert session.sql(statement).fetchall() == rows


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        (f"WITH catalog AS (SELECT 'Emma' AS title) SELECT DP_TOPK(title, 1, {UNIT}, "
         "domain := catalog.title) FROM ratings", "catalog is a CTE, and a domain"),
        ("WITH RECURSIVE ratings(user_id, title) USING KEY (user_id) AS (SELECT 1, 'a') "
         f"SELECT {COUNT} FROM ratings", "In ratings: WITH RECURSIVE"),
        (f"SELECT {COUNT.replace('10000', '1_')} FROM ratings", "epsilon must be a number"),
        (f"SELECT {COUNT} FROM ratings WHERE {'(' * 200}true{')' * 200}", "cannot read this part"),
        (f"SELECT {COUNT} FROM ratings WHERE {'NOT ' * 500} true", "cannot read this part"),
        (f"PREPARE p AS SELECT {COUNT}, $1 FROM ratings", "takes no parameters"),
    ],
)  # fmt: skip
def test_what_we_cannot_read_is_refused_and_not_guessed(
    shared: dp_sql.Session, statement: str, error: str
) -> None:
    with free(shared), pytest.raises(dp_sql.QueryError, match=error):
        shared.sql(statement)


@pytest.mark.parametrize(
    "statement",
    [
        f"SELECT nope(3), {COUNT} FROM ratings", f"SELECT {COUNT} AS c FROM ratings ORDER BY user_id",
        f"INSERT INTO nosuch SELECT {COUNT} FROM ratings", f"SELECT {COUNT} 'x' FROM ratings",
        f"SELECT := {COUNT} FROM ratings", f"SELECT LATERAL ({COUNT}) FROM ratings",
        f"WITH a AS (SELECT {COUNT} AS n FROM ratings) SELECT m FROM a",
        f"CREATE TABLE t AS SELECT {COUNT} AS n, nope FROM (SELECT 1)",
    ],
)  # fmt: skip
def test_nothing_is_spent_on_a_query_that_duckdb_will_not_run(
    shared: dp_sql.Session, statement: str
) -> None:
    with free(shared), pytest.raises((duckdb.Error, dp_sql.QueryError)):
        shared.sql(statement)


def test_tables_of_one_name_in_two_schemas_may_be_joined(session: dp_sql.Session) -> None:
    session.execute("CREATE SCHEMA z; CREATE TABLE z.ratings AS SELECT 'Dune' AS title")
    joined = "SELECT a.user_id, a.title FROM main.ratings a JOIN z.ratings b ON a.title = b.title"
    assert session.sql(count_by("user_id", f"({joined})")).fetchall() == [(1,)]


def test_a_failed_source_shows_no_value(session: dp_sql.Session) -> None:
    with pytest.raises(dp_sql.QueryError, match=r"could not compute the source") as caught:
        session.sql(f"SELECT {COUNT} FROM ratings WHERE CAST(title AS INTEGER) > 3")
    assert "Dune" not in str(caught.value) and "note to self" not in str(caught.value)
    assert session.receipts == ()


@pytest.mark.parametrize("step", ["few_rows._lists", "many_rows._read", "in_pieces.cover_counts"])
@pytest.mark.parametrize("kind", [KeyError, TypeError, OverflowError, MemoryError])
def test_what_reading_rows_raises_shows_no_value(
    session: dp_sql.Session, step: str, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise kind("Dune")

    monkeypatch.setattr(f"dp_sql.engines.duckdb.{step}", fails)
    monkeypatch.setattr(few_rows, "FEW", 1 << 16 if "few" in step else 0)
    monkeypatch.setattr(many_rows, "LEAST", 0)
    monkeypatch.setattr(row_estimate, "LARGE", 0 if "cover" in step else 1 << 18)
    monkeypatch.setattr(many_rows, "ROWS_EACH", 1 << 30)
    median = f"DP_MEDIAN(user_id, {UNIT}, lower := 0, upper := 9)"
    with pytest.raises(dp_sql.QueryError, match=rf"counted \({kind.__name__}\)") as no:
        session.sql(f"SELECT {median if 'many' in step else COUNT} FROM ratings").fetchall()
    error: BaseException | None = no.value
    while error is not None:
        assert "Dune" not in str(error)
        error = error.__context__


def test_sessions_on_one_file_live_and_count_apart(tmp_path: Path) -> None:
    path = str(tmp_path / "log.duckdb")
    first, second = dp_sql.connect(path), dp_sql.connect(path)
    first.execute("CREATE TABLE ratings AS SELECT 1 AS user_id, 'Dune' AS title")
    first.sql(f"SELECT {COUNT} FROM ratings").fetchall()
    assert (len(first.receipts), len(second.receipts)) == (1, 0)
    first.close()
    assert second.sql(f"FROM dp($$ SELECT {COUNT} FROM ratings $$)").fetchall() == [(1,)]
    assert len(second.receipts) == 1
    second.close()


def test_a_forgotten_session_frees_its_file(tmp_path: Path) -> None:
    path = str(tmp_path / "log.duckdb")
    session = dp_sql.connect(path)
    session.execute("CREATE TABLE t AS SELECT 1 AS x")
    del session
    gc.collect()
    with duckdb.connect(path, read_only=True) as plain:  # another configuration: not the same one
        assert plain.execute("FROM t").fetchall() == [(1,)]


def test_a_macro_dp_of_the_owners_is_not_replaced() -> None:
    with duckdb.connect() as con:
        con.execute("CREATE MACRO dp(x) AS TABLE SELECT x")
        with pytest.raises(dp_sql.DpSqlError, match="has a macro dp of its own"):
            dp_sql.install(con)
        assert con.execute("FROM dp(3)").fetchall() == [(3,)]
