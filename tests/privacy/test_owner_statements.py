"""The owner's CTEs, domains, groups, files and names: what is a source and what is refused."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow
import pytest

import dp_sql
from dp_sql.engines.duckdb.connection import Engine
from dp_sql.errors import ArgumentError, NotPrivate
from dp_sql.privacy.expressions.value import Value
from dp_sql.privacy.plans import owner
from dp_sql.privacy.relations.declared_tables import DeclaredTables
from tests.conftest import READING_LOG, SURE, free
from tests.privacy.owners_shop import BOOKS, CLUBS, RATINGS, SHOP, count, forgetful
from tests.privacy.test_deceptions import SHADOWS


@pytest.fixture
def shop() -> Iterator[dp_sql.Session]:
    with dp_sql.connect() as session:
        session.execute(READING_LOG)
        session.execute(SHOP)
        yield session


MINE = "mine AS (SELECT * FROM ratings WHERE region = 'north')"


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "statement",
    [
        f"WITH {MINE} SELECT {count('title')} AS n FROM mine",
        f"WITH {MINE}, two AS (FROM mine) SELECT {count('title')} AS n FROM two",
        f"SELECT n FROM (WITH {MINE} SELECT {count('title')} AS n FROM mine)",
        f"WITH {MINE}, a AS (SELECT {count('title')} AS n FROM mine), z AS (SELECT 1) SELECT n FROM a",
        f"WITH m AS MATERIALIZED (FROM ratings) SELECT {count('title')} AS n FROM m JOIN books USING "
        "(title) WHERE region = 'north'",
    ],
)  # fmt: skip
def test_ctes_are_sources(shop: dp_sql.Session, statement: str) -> None:
    wanted = shop.execute(
        "SELECT count(DISTINCT title) FROM ratings JOIN books USING (title) WHERE region = 'north'"
        if "books" in statement
        else "SELECT count(DISTINCT title) FROM ratings WHERE region = 'north'"
    ).fetchall()
    assert shop.sql(statement).fetchall() == wanted
    assert shop.sql(f"FROM dp($$ {statement} $$)").fetchall() == wanted
    shop.execute(f"CREATE TABLE kept AS {statement}")
    assert shop.execute("FROM kept").fetchall() == wanted
    if not statement.startswith("SELECT"):
        shop.execute(f"PREPARE p AS {statement}")
        assert shop.execute("EXECUTE p").fetchall() == wanted
    assert ("call", "dp_count_distinct(title)") in shop.sql(f"EXPLAIN {statement}").fetchall()


def test_a_name_with_two_meanings_is_not_a_source(shop: dp_sql.Session) -> None:
    # The inner CTE is meant; one that ends behind the call is not; a later one is a table there.
    for statement, why in (
        (f"WITH {MINE} SELECT (WITH mine AS (FROM ratings) SELECT {count('title')} FROM mine)", "mine"),
        (f"WITH {MINE} SELECT (WITH mine(user_id, title) AS (SELECT user_id, title FROM ratings) "
         f"SELECT {count('title')} FROM mine)", "mine"),
        (f"WITH a AS (SELECT {count('title')} AS n FROM clubs JOIN books USING (title)), "
         "clubs AS (FROM ratings) FROM a", "In clubs"),
        (f"WITH ratings AS (FROM clubs) SELECT (WITH ratings AS (FROM ratings), mine AS (FROM ratings) "
         f"SELECT {count('title')} FROM mine)", "In ratings: Two CTEs have this name"),
        (f"WITH RECURSIVE {MINE} SELECT {count('title')} FROM mine", "RECURSIVE"),
    ):  # fmt: skip
        with pytest.raises(NotPrivate, match=why):
            shop.sql(statement)
    assert shop.receipts == ()


def test_domains_of_compiled_sources(shop: dp_sql.Session) -> None:
    def ask(item: str, domain: str, k: int, source: str) -> list[str]:
        call = f"DP_TOPK({item}, {k}, {SURE}, privacy_unit := user_id, domain := {domain})"
        ((answer,),) = shop.sql(f"SELECT {call} FROM {source}").fetchall()
        return answer

    joined = "ratings r JOIN books b USING (title)"
    assert ask("b.genre", "books.genre", 2, joined) == ["space", "earth"]
    assert shop.receipts[-1].assumptions == (
        RATINGS, BOOKS, "the domain, the column books.genre, is public",
    )  # fmt: skip
    assert ask("title", "['Emma', 'Walden']", 2, joined) == ["Emma", "Walden"]
    assert shop.receipts[-1].assumptions == (RATINGS, BOOKS)
    assert ask("upper(title)", "['EMMA', 'DUNE']", 1, "ratings") == ["DUNE"]
    assert ask("title", "observed", 2, f"{joined} WHERE title <> 'Dune'") == ["Emma", "Ulysses"]
    assert shop.receipts[-1].assumptions[-1] == (
        "the set of values in title is public, also among the rows that WHERE keeps"
    )
    assert ask("kind", "kind", 3, joined) == ["novel", "poems", "essay"]
    assert ask("kind", "genre", 3, joined) == ["novel", "poems", "essay"]
    for domain in ("r.title", "ratings.title", "ratings.region"):
        with pytest.raises(ArgumentError, match="private"):
            ask("title", domain, 1, joined)
    with pytest.raises(ArgumentError, match=r"shelved\.floor is the private column itself"):
        ask("floor", "shelved.floor", 1, "shelved")
    # A table with the privacy unit as a column holds people's rows: none of its columns is public.
    with pytest.raises(ArgumentError, match="clubs has the privacy unit user_id"):
        ask("title", "clubs.club", 1, "ratings")
    call = count("title", more=", groups := clubs.club, max_groups_contributed := 1")
    with pytest.raises(ArgumentError, match=r"clubs\.club is not public"):
        shop.sql(f"SELECT genre, {call} FROM ratings JOIN books USING (title) GROUP BY genre")
    call = count("title", "reader", more=", groups := clubs.club, max_groups_contributed := 1")
    renamed = "(SELECT user_id AS reader, title FROM ratings)"
    with pytest.raises(ArgumentError, match=r"clubs\.club is not public"):
        shop.sql(f"SELECT title, {call} FROM {renamed} GROUP BY title")


def test_groups_of_compiled_sources(shop: dp_sql.Session) -> None:
    source = "ratings r JOIN books b USING (title)"
    more = ", groups := {}, max_groups_contributed := 2"
    plain = f"SELECT genre, count(DISTINCT title) FROM {source} GROUP BY genre ORDER BY genre"
    wanted = shop.execute(plain).fetchall()
    for groups in ("books.genre", "['earth', 'space']", "observed"):
        call = count("title", more=more.format(groups))
        text = f"SELECT genre, {call} FROM {source} GROUP BY genre ORDER BY genre"
        assert shop.sql(text).fetchall() == wanted
    assert shop.receipts[-1].assumptions == (
        RATINGS, BOOKS, "the set of groups, observed, is public",
    )  # fmt: skip
    text = f"SELECT b.genre, {call} AS n FROM {source} GROUP BY b.genre ORDER BY b.genre"
    assert shop.sql(text).fetchall() == wanted
    # Observed are the groups of the source, whatever WHERE keeps.
    call = count("title", more=more.format("observed"))
    text = f"SELECT genre, {call} FROM {source} WHERE title = 'Emma' GROUP BY genre ORDER BY genre"
    assert shop.sql(text).fetchall() == [("earth", 1), ("space", 0)]


def test_each_call_has_its_own_privacy_unit(shop: dp_sql.Session) -> None:
    source = "ratings r JOIN books b USING (title)"
    text = f"SELECT {count('genre')}, {count('genre', 'region')}, {count('upper(title)')} FROM {source}"
    shop.sql(text)
    assert [receipt.assumptions[0] for receipt in shop.receipts] == [
        RATINGS, "each row of ratings belongs to the person in region", RATINGS,
    ]  # fmt: skip


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("unit", "source", "meant"),
    [
        ("usr_id", "ratings", "user_id"),
        ("user_id", "(SELECT user_id AS member, title FROM ratings)", "member"),
        ("customer_id", "(SELECT *, 1 AS order_id FROM ratings)", None),  # orders are not people
        ("user_id", "(SELECT reader AS read_id, lent AS title FROM loans)", None),
    ],
)
def test_only_the_same_column_is_proposed_as_the_privacy_unit(
    shop: dp_sql.Session, unit: str, source: str, meant: str | None
) -> None:
    text = f"SELECT {count('title', unit)} FROM {source}"
    with pytest.raises(NotPrivate, match=f"{unit} is not a column of the source") as raised:
        shop.sql(text)
    assert raised.value.suggestion == (text.replace(unit, meant, 1) if meant else "")
    assert ("Did you mean" in str(raised.value)) == (meant is not None)
    assert text[raised.value.position or 0 :].startswith(unit)


def test_a_joined_table_with_the_privacy_unit_is_not_called_public(shop: dp_sql.Session) -> None:
    # As written in a view, the join was answered once, and its receipt called clubs public.
    for source in (
        "gossip",
        "(SELECT r.user_id, c.club FROM ratings r JOIN clubs c ON r.title = c.club)",
    ):
        with pytest.raises(NotPrivate):
            shop.sql(f"SELECT {count('club')} FROM {source}")
    shop.execute(
        "CREATE VIEW own AS SELECT r.user_id, c.club FROM ratings r JOIN clubs c USING (user_id)"
    )
    shop.sql(f"SELECT {count('club')} FROM own")
    assert shop.receipts[0].assumptions == (RATINGS, CLUBS)


def test_an_item_is_any_expression_of_one_row(shop: dp_sql.Session) -> None:
    for item in ("reverse(title)", "title || '/' || region", "length(title) % 3"):
        for source in ("ratings", "ratings WHERE region GLOB 'n*'"):
            wanted = shop.execute(f"SELECT count(DISTINCT {item}) FROM {source}").fetchall()
            assert shop.sql(f"SELECT {count(item)} FROM {source}").fetchall() == wanted
    for item in ("max(title)", "title || random()", "(SELECT min(title) FROM ratings)"):
        with pytest.raises(
            NotPrivate, match=r"looks at other rows|depends on more than the values"
        ):
            shop.sql(f"SELECT {count(item)} FROM ratings")


def test_files_and_dataframes_are_joined_as_tables_are(
    shop: dp_sql.Session, tmp_path: Path
) -> None:
    path = tmp_path / "ratings.parquet"
    shop.execute(f"COPY ratings TO '{path}'")
    frame = shop.sql("FROM ratings").df()
    assert len(frame)
    plain = "SELECT count(DISTINCT genre) FROM {} JOIN books USING (title)"
    for source in (f"'{path}'", f"read_parquet('{path}')", "frame"):
        wanted = shop.execute(plain.format("ratings")).fetchall()
        text = f"SELECT {count('genre')} FROM {source} JOIN books USING (title)"
        assert shop.sql(text).fetchall() == wanted
        assert shop.receipts[-1].assumptions[1] == BOOKS


PUBLIC_FILES = [  # of books: what FROM reads, what the receipt calls it, whether types are detected
    ("'{}.parquet'", "{}.parquet", False),
    ("read_parquet('{}.parquet')", "READ_PARQUET('{}.parquet')", False),
    ("read_parquet(['{}.parquet', '{}.parquet'])", "READ_PARQUET(['{}.parquet', '{}.parquet'])", True),
    ("(SELECT DISTINCT * FROM '{}.csv')", "{}.csv", True),
    ("read_csv('{}.csv')", "READ_CSV('{}.csv')", True),
    ("of_file", "READ_PARQUET('{}.parquet')", False), ("frame", "frame", True),
]  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("written", "called", "detected"), PUBLIC_FILES)
def test_public_files_and_dataframes_are_read_as_public_tables_are(
    shop: dp_sql.Session, tmp_path: Path, written: str, called: str, detected: bool
) -> None:
    path, frame = f"{tmp_path}/books", shop.sql("FROM books").df()
    for ending in ("csv", "parquet"):
        shop.execute(f"COPY books TO '{path}.{ending}'")
    shop.execute(f"CREATE VIEW of_file AS FROM read_parquet('{path}.parquet')")
    shop.execute(f"CREATE TABLE of_books AS FROM {written.replace('{}', path)}")
    file, name = (one.replace("{}", path) for one in (written, called))
    types = f"no one person's rows change the columns or types that DuckDB detects in {name}"
    said = {RATINGS, f"each row of {name} is public, or belongs to the person it is joined to"}
    for source in ("ratings JOIN {} b USING (title)", "{} b JOIN ratings r ON r.title = b.title",
                   "ratings LEFT JOIN {} b USING (title) WHERE b.year > 1904"):  # fmt: skip
        asked = "SELECT count(DISTINCT genre), count(user_id) FROM " + source
        wanted = shop.execute(asked.format("of_books")).fetchall()
        text = f"SELECT {count('genre')}, DP_COUNT(*, {SURE}, contribution_bound := 200) FROM "
        assert shop.sql(text + source.format(file)).fetchall() == wanted
        assert {*shop.receipts[-1].assumptions} == said | ({types} if detected else set())
    listed = f"(SELECT title FROM {file} b WHERE year > 1904)"
    wanted = shop.execute(
        f"SELECT count(DISTINCT title) FROM ratings WHERE title IN {listed}"
    ).fetchall()
    assert (
        shop.sql(f"SELECT {count('title')} FROM ratings WHERE title IN {listed}").fetchall()
        == wanted
    )
    said = {RATINGS, f"{name} is public"}
    assert {*shop.receipts[-1].assumptions} == said | ({types} if detected else set())
    groups = f"groups := (SELECT genre FROM {file} b)"
    text = f"SELECT genre, {count('user_id', more=', ' + groups)} AS n FROM ratings JOIN {file} b USING (title)"
    plain = "SELECT genre, count(DISTINCT user_id) FROM ratings JOIN of_books USING (title) GROUP BY ALL"
    assert shop.sql(f"{text} GROUP BY ALL ORDER BY ALL").fetchall() == sorted(
        shop.execute(plain).fetchall()
    )
    assert len(frame)


@pytest.mark.parametrize("joined", ["read_csv('{}', types = {{'id': 'INTEGER'}})", "stream"])
def test_a_public_file_that_cannot_be_read_costs_nothing(
    shop: dp_sql.Session, tmp_path: Path, joined: str
) -> None:
    path, table = tmp_path / "zones.csv", pyarrow.table({"year": [2001, 2002]})
    path.write_text("year,id\n2001,1\n2002,2\n2003,x\n")
    stream = pyarrow.RecordBatchReader.from_batches(table.schema, table.to_batches())
    wrong = "Error on Line: 4" if "csv" in joined else "only once|already been consumed"
    source = f"ratings JOIN {joined.format(path)} AS z USING (year) WHERE user_id IS NULL"
    with free(shop), pytest.raises(dp_sql.QueryError, match=wrong) as refused:
        shop.sql(f"SELECT {count('z.id' if 'csv' in joined else 'title')} FROM {source}")
    assert refused.value.position is not None and stream.schema == table.schema


@pytest.mark.one_in(4)
@pytest.mark.parametrize("case", SHADOWS)
def test_a_join_reads_the_relation_that_duckdb_would_read(shop: dp_sql.Session, case: str) -> None:
    setup, source = SHADOWS[case]
    shop.execute("CREATE TABLE read AS FROM memory.main.books")
    for statement in setup.split("; "):
        shop.execute(statement)
    with pytest.raises(NotPrivate, match=r"not provably person-level|more than one relation"):
        shop.sql(f"SELECT {count('title')} FROM {source} JOIN memory.main.read USING (title)")
    assert shop.receipts == ()


def test_tables_of_one_name_are_told_apart(shop: dp_sql.Session) -> None:
    shop.execute("CREATE SCHEMA z; CREATE TABLE z.books AS SELECT 'Dune' AS title, 'z' AS genre")
    shop.execute("CREATE TEMP TABLE clubs AS SELECT 1::BIGINT AS user_id, 'mine' AS club")
    text = f"SELECT {count('a.genre')} FROM ratings JOIN z.books a USING (title) JOIN books b USING (title)"
    assert shop.sql(text).fetchall() == [(1,)]
    assert shop.receipts[-1].assumptions[1:] == (
        "each row of memory.z.books is public, or belongs to the person it is joined to",
        "each row of memory.main.books is public, or belongs to the person it is joined to",
    )
    joined = "ratings r JOIN clubs c USING (user_id)"
    assert shop.sql(f"SELECT {count('club')} FROM {joined}").fetchall() == [(1,)]  # temp.main.clubs
    shop.execute("USE z")
    text = f"SELECT {count('genre')} FROM memory.main.ratings JOIN books USING (title)"
    assert shop.sql(text).fetchall() == [(1,)]


def test_a_macro_that_replaces_a_function_is_not_called(shop: dp_sql.Session) -> None:
    shop.execute("CREATE MACRO twice(x) AS x || x")
    with pytest.raises(NotPrivate, match="twice is a macro"):
        shop.sql(f"SELECT {count('twice(title)')} FROM ratings")
    shop.execute("CREATE MACRO lower(x) AS (SELECT max(title) FROM ratings)")
    with pytest.raises(NotPrivate, match="function lower of its own"):
        shop.sql(
            f"SELECT {count('genre')} FROM ratings JOIN books USING (title) WHERE lower(title) > ''"
        )
    text = f"SELECT {count('genre')} FROM ratings JOIN books USING (title)"
    assert len(shop.sql(text).fetchall()) == 1, "it calls no function"


@pytest.mark.parametrize(
    ("macro", "call", "by"),
    [
        ("CREATE MACRO year(x) AS 42", "DP_COUNT(*, groups := [2024])", "year(read_on)"),
        ("CREATE MACRO upper(x) AS 'A'", "DP_COUNT(*, groups := ['A', 'B'])", "upper(title)"),
        ("CREATE MACRO upper(x) AS 'A'",
         "DP_COUNT(*, groups := (SELECT upper(title) FROM books))", "title"),
        ("CREATE MACRO upper(x) AS 'A'",
         "DP_COUNT(*, groups := ((SELECT upper(title) FROM books), [1]))", "title, 1 + user_id"),
        ("CREATE MACRO upper(x) AS 'A'",
         "DP_TOPK(title, 1, domain := (SELECT upper(title) FROM books))", None),
        ("CREATE MACRO nullif(x, y) AS 'A'", "DP_COUNT(*, groups := ['A', 'B'])",
         "nullif(title, 'A')"),
        ("CREATE MACRO date_part(x, y) AS 42", "DP_COUNT(*, groups := [2024])",
         "extract(year FROM read_on)"),
    ],
)  # fmt: skip
def test_a_macro_that_replaces_a_function_of_keys_and_sets_is_noticed(
    shop: dp_sql.Session, macro: str, call: str, by: str | None
) -> None:
    shop.execute(macro)
    text = f"SELECT {call[:-1]}, epsilon := 1, privacy_unit := user_id) AS n FROM ratings"
    with pytest.raises(NotPrivate, match="of its own, which could replace DuckDB's"):
        shop.sql(f"{text} GROUP BY {by}" if by else text)
    assert shop.receipts == ()


def test_nothing_is_made_on_the_owners_connection(shop: dp_sql.Session) -> None:
    text = f"SELECT {count('floor')} FROM ratings r JOIN (SELECT b.title, s.floor FROM books b JOIN shelves s USING (genre)) q USING (title)"
    before = shop.execute("SELECT table_name FROM duckdb_tables()").fetchall()
    shop.explain(text)
    assert shop.execute("SELECT table_name FROM duckdb_tables()").fetchall() == before


def test_joins_are_reduced_to_the_distinct_rows_that_are_needed(shop: dp_sql.Session) -> None:
    text = f"SELECT {count('title')} FROM ratings JOIN books USING (title) JOIN shelves s USING (genre)"
    (call,) = shop.explain(text).calls
    assert call.work == "not limited on the owner's connection"
    assert "SELECT DISTINCT" in call.sql and "row_number() OVER (PARTITION" not in call.sql


def test_a_chain_of_joins_that_multiply_rows_is_answered_at_once() -> None:
    with dp_sql.connect() as session:
        session.execute(
            "CREATE TABLE ratings AS SELECT i % 20 AS user_id, i % 3 AS genre FROM range(60) t(i)"
        )
        session.execute(
            "CREATE TABLE titles AS SELECT i % 3 AS genre, i AS title FROM range(300000) t(i)"
        )
        chain = " ".join(f"JOIN titles t{i} ON t{i}.genre = t{i - 1}.genre" for i in range(2, 6))
        source = f"ratings r JOIN titles t1 ON r.genre = t1.genre {chain}"
        session.sql(f"SELECT {count('r.genre', 'r.user_id')} FROM ratings r").fetchall()  # warm
        answer = session.sql(f"SELECT {count('t5.genre', 'r.user_id')} FROM {source}").fetchall()
        assert answer == [(3,)]  # of 10^21 joined rows


def test_ctes_of_ctes_are_planned_at_once(shop: dp_sql.Session) -> None:
    doubled = ", ".join(f"d{i} AS (FROM d{i - 1} UNION ALL FROM d{i - 1})" for i in range(1, 40))
    text = f"WITH d0 AS (FROM ratings), {doubled} SELECT {count('title')} FROM d39"
    assert shop.sql(text).fetchall() == [(4,)]
    assert shop.receipts[0].assumptions == (RATINGS,)


def test_what_duckdb_reads_otherwise_is_refused(
    shop: dp_sql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.execute("CREATE VIEW joined AS SELECT r.* FROM ratings r JOIN books USING (title)")
    monkeypatch.setattr(Engine, "agrees", lambda *_: False)
    for source in ("ratings", "joined", "ratings JOIN books USING (title)"):
        with pytest.raises(NotPrivate, match="DuckDB does not read this source as dp_sql does"):
            shop.sql(f"SELECT {count('title')} FROM {source}")
    assert shop.receipts == ()


def test_the_checks_reject_planted_faults(
    shop: dp_sql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without them these questions would be answered: each check is what refuses."""

    text = f"SELECT {count('club', 'r.user_id')} FROM ratings r JOIN clubs c ON r.title = c.club"
    with pytest.raises(NotPrivate):
        shop.sql(text)
    with monkeypatch.context() as patch:
        patch.setattr(DeclaredTables, "rows", forgetful)
        shop.sql(text)
        assert "clubs is public, or" in shop.receipts[-1].assumptions[1]

    renamed = "SELECT r.title, b.year AS user_id FROM ratings r JOIN books b USING (title)"
    text = f"SELECT {count('title', 'q.user_id')} FROM ({renamed}) q"
    with pytest.raises(NotPrivate):
        shop.sql(text)
    with monkeypatch.context() as patch:
        patch.setattr(owner, "value_of", lambda *_: Value("", "", is_person=True))
        shop.sql(text)


def test_install_answers_joins_on_any_cursor() -> None:
    with duckdb.connect() as con:
        con.execute(READING_LOG)
        con.execute(SHOP)
        dp_sql.install(con)
        text = f"FROM dp($$ SELECT {count('genre')} AS n FROM ratings JOIN books USING (title) $$)"
        assert con.sql(text).fetchall() == [(2,)]
        assert con.cursor().execute(text).fetchall() == [(2,)]
        con.execute(f"CREATE VIEW answer AS {text}")
        assert con.sql("FROM answer").fetchall() == [(2,)]
        refused = (
            text.replace("books", "clubs")
            .replace("genre", "club")
            .replace("USING (title)", "ON title = club")
        )
        with pytest.raises(duckdb.Error, match="joined on their privacy units"):
            con.sql(refused)
