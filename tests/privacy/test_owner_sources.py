"""The owner may ask what an analyst may ask: joins, CTEs, UNION ALL, groups of one person's rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

import dp_sql
from dp_sql.engines.duckdb.connection import Engine
from dp_sql.engines.duckdb.tickets import Tickets
from dp_sql.errors import ArgumentError, NotPrivate
from dp_sql.privacy import owner_plan
from dp_sql.privacy.comparisons import Value
from dp_sql.privacy.declared_sources import DeclaredTables
from dp_sql.privacy.from_clause import Rows
from dp_sql.privacy.owner_plan import owners_plans
from dp_sql.sql.sqlglot_tree import Node
from dp_sql.sql.statement import parse
from tests.conftest import READING_LOG, SURE, free
from tests.privacy.test_deceptions import SHADOWS

SHOP = """
CREATE TABLE books AS SELECT DISTINCT title, CASE title WHEN 'Dune' THEN 'space' ELSE 'earth' END
    AS genre, 1900 + length(title) AS year FROM catalog WHERE title IS NOT NULL;
CREATE TABLE shelves (genre VARCHAR, floor INTEGER);
INSERT INTO shelves VALUES ('space', 1), ('space', 2), ('earth', 3), ('earth', 3), ('sea', 4);
CREATE TABLE clubs AS SELECT i % 40 AS user_id, 'club ' || i % 3 AS club, i % 5 AS n,
    2000 + i % 7 AS year, 'page of ' || i % 40 AS page FROM range(80) t(i);
ALTER TABLE ratings ADD COLUMN day DATE;
UPDATE ratings SET day = DATE '2024-01-01' + CAST(year - 2000 + coalesce(user_id, 0) AS INTEGER);
CREATE VIEW shelved AS SELECT r.user_id, s.floor FROM ratings r JOIN books b USING (title)
    JOIN shelves s USING (genre);
CREATE VIEW counted AS SELECT user_id, count(*) AS n FROM ratings GROUP BY user_id;
CREATE VIEW busy AS SELECT user_id, n FROM counted WHERE n > 3;
CREATE VIEW gossip AS SELECT r.user_id, c.club FROM ratings r JOIN clubs c ON r.title = c.club;
"""
RATINGS = "each row of ratings belongs to the person in user_id"
CLUBS = "each row of clubs belongs to the person in user_id"
BOOKS = "each row of books is public, or belongs to the person it is joined to"
SHELVES = "each row of shelves is public, or belongs to the person it is joined to"


right_rows = DeclaredTables.rows


@pytest.fixture(scope="module")
def asked() -> Iterator[dp_sql.Session]:
    """The same, for tests that only ask."""
    with dp_sql.connect() as session:
        session.execute(READING_LOG)
        session.execute(SHOP)
        yield session


@pytest.fixture
def shop() -> Iterator[dp_sql.Session]:
    with dp_sql.connect() as session:
        session.execute(READING_LOG)
        session.execute(SHOP)
        yield session


def count(item: str, unit: str = "user_id", more: str = "") -> str:
    return f"DP_COUNT_DISTINCT({item}, {SURE}, privacy_unit := {unit}{more})"


SOURCES = [
    # item, privacy unit, FROM and WHERE, assumptions
    ("b.genre", "user_id", "ratings JOIN books b USING (title)", {RATINGS, BOOKS}),
    ("genre", "user_id", "books JOIN ratings USING (title)", {RATINGS, BOOKS}),
    ("b.genre", "r.user_id", "books b JOIN ratings r ON r.title = b.title", {RATINGS, BOOKS}),
    ("r.title", "R.USER_ID", "RATINGS R JOIN BOOKS B ON R.TITLE = b.title",
     {RATINGS.replace("user_id", "USER_ID"), BOOKS}),
    ("s.floor", "r.user_id", "shelves s JOIN books b USING (genre) JOIN ratings r USING (title)",
     {RATINGS, BOOKS, SHELVES}),
    ("b.year", "r.user_id", "ratings r LEFT JOIN books b ON r.title = b.title AND b.year > 1904",
     {RATINGS, BOOKS}),
    ("c.club", "r.user_id", "ratings r JOIN clubs c ON r.user_id = c.user_id", {RATINGS, CLUBS}),
    ("c.club", "user_id", "ratings r JOIN clubs c USING (user_id)", {RATINGS, CLUBS}),
    ("a.title", "a.user_id", "ratings a JOIN ratings b ON a.user_id = b.user_id AND b.title = 'Emma'",
     {RATINGS}),
    ("club", "r.user_id", "books b JOIN ratings r ON r.title = b.title JOIN clubs c "
     "ON c.user_id = r.user_id WHERE b.genre = 'space' AND c.n < 3", {RATINGS, CLUBS, BOOKS}),
    ("title", "user_id", "(SELECT user_id, title FROM ratings UNION ALL SELECT user_id, club FROM clubs)",
     {RATINGS, CLUBS}),
    ("n", "user_id", "(SELECT user_id, count(*) AS n FROM ratings GROUP BY user_id)", {RATINGS}),
    ("n", "q.user_id", "(SELECT user_id, title, count(*) AS n FROM ratings GROUP BY ALL "
     "HAVING count(*) > 1) AS q WHERE n < 9", {RATINGS}),
    ("upper(title)", "user_id", "ratings", {RATINGS}),
    ("date_trunc('week', day)", "user_id", "ratings WHERE title <> 'Emma'", {RATINGS}),
    ("lower(b.genre)", "user_id", "ratings JOIN books b USING (title)", {RATINGS, BOOKS}),
    ("CAST(score AS VARCHAR)", "user_id", "ratings WHERE score < 30", {RATINGS}),
    ("title", "user_id", "ratings WHERE title IN (SELECT title FROM books WHERE year > 1904)",
     {RATINGS, "books is public"}),
    ("floor", "user_id", "shelved", {RATINGS, BOOKS, SHELVES}),
    ("n", "user_id", "counted", {RATINGS}),
    ("n", "user_id", "busy", {RATINGS}),
    ("s.floor", "b.user_id", "shelved s JOIN busy b ON s.user_id = b.user_id",
     {RATINGS, BOOKS, SHELVES}),
    ("kind", "user_id", "ratings JOIN books USING (title) WHERE kind = 'novel'", {RATINGS, BOOKS}),
]  # fmt: skip


@pytest.mark.parametrize(("item", "unit", "source", "assumptions"), SOURCES)
def test_an_owner_is_answered_what_duckdb_would_answer(
    asked: dp_sql.Session, item: str, unit: str, source: str, assumptions: set[str]
) -> None:
    plain = f"SELECT count(DISTINCT {item}) FILTER (WHERE {unit} IS NOT NULL) FROM {source}"
    wanted = asked.execute(plain).fetchall()
    assert wanted != [(0,)]
    assert asked.sql(f"SELECT {count(item, unit)} FROM {source}").fetchall() == wanted
    receipt = asked.receipts[-1]
    assert set(receipt.assumptions) == assumptions
    assert receipt.source == source
    inner = f"SELECT {count(item, unit)} AS n FROM {source}"
    assert asked.sql(f"FROM dp($$ {inner} $$)").fetchall() == wanted


def pairs(session: dp_sql.Session, item: str, unit: str, source: str) -> set[tuple[str, str]]:
    """The (person, item) pairs that a plan reads, as text."""
    text = f"SELECT {count(item, unit)} FROM {source}"
    (statement,) = parse(text)
    (select,) = statement.selects
    engine = Engine(session.connection, Tickets())
    (plan,) = owners_plans(select, statement.tokens, engine)
    sql = f"SELECT __dp_person::VARCHAR, __dp_item::VARCHAR FROM {plan.source}"
    found = session.connection.execute(sql).fetchall()
    return {(person, item) for person, item in found if None not in (person, item)}


def moved(session: dp_sql.Session, item: str, unit: str, source: str) -> set[tuple[str, str]]:
    """The pairs of others that come or go when one person leaves."""
    before = pairs(session, item, unit, source)
    session.execute("BEGIN")
    try:
        session.execute("DELETE FROM ratings WHERE user_id = 2")
        session.execute("DELETE FROM clubs WHERE user_id = 2")
        after = pairs(session, item, unit, source)
    finally:
        session.execute("ROLLBACK")
    assert any(person == "2" for person, _ in before - after)
    return {pair for pair in before ^ after if pair[0] != "2"}


@pytest.mark.parametrize(("item", "unit", "source"), [case[:3] for case in SOURCES])
def test_no_one_else_changes_when_a_person_leaves(
    asked: dp_sql.Session, item: str, unit: str, source: str
) -> None:
    plain = f"SELECT DISTINCT ({unit})::VARCHAR, ({item})::VARCHAR FROM {source}"
    wanted = {row for row in asked.execute(plain).fetchall() if None not in row}
    assert pairs(asked, item, unit, source) == wanted
    assert moved(asked, item, unit, source) == set()


def test_the_oracle_sees_a_table_that_was_taken_for_public(
    asked: dp_sql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DeclaredTables, "rows", forgetful)
    assert moved(asked, "c.page", "r.user_id", "ratings r JOIN clubs c ON r.year = c.year") != set()


def forgetful(self: DeclaredTables, node: Node, parts: Sequence[str]) -> Rows | None:
    """A planted fault: clubs counts as public."""
    unit = "" if parts[-1] == "clubs" else self.unit
    return right_rows(replace(self, unit=unit), node, parts)


MINE = "mine AS (SELECT * FROM ratings WHERE region = 'north')"


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
        (f"WITH RECURSIVE {MINE} SELECT {count('title')} FROM mine", "recursive"),
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


@pytest.mark.parametrize(
    ("source", "unit", "why"),
    [
        ("ratings r JOIN clubs c ON r.title = c.club", "r.user_id", "joined on their privacy units"),
        ("ratings r JOIN clubs c ON r.user_id = c.user_id", "user_id", "more than one column"),
        ("ratings r LEFT JOIN clubs c ON r.user_id = c.user_id", "c.user_id", "not the privacy unit"),
        ("books b LEFT JOIN ratings r ON b.title = r.title", "r.user_id", "belong to no one"),
        ("ratings r JOIN books b ON r.title = b.title", "r.whose", "r.whose is not a column of the source"),
        ("ratings r, books b", "user_id", "only use inner, left, semi and anti joins"),
        ("ratings r JOIN nowhere n USING (title)", "r.user_id", "Table with name nowhere does not exist"),
        ("(FROM ratings UNION FROM ratings)", "user_id", "UNION compares rows"),
        ("(SELECT title, count(*) FROM ratings GROUP BY title)", "user_id", "must list the privacy"),
        ("(SELECT b.year AS user_id, title FROM ratings JOIN books b USING (title))", "user_id",
         "Two private tables"),
        ("(SELECT r.user_id % 2 AS user_id, title FROM ratings r UNION ALL SELECT user_id, club FROM clubs)", "user_id",
         "Arithmetic on columns is not supported|not the privacy unit"),
        ("gossip", "user_id", "The view gossip is not provably person-level: Two private tables"),
        ("gossip g JOIN books b ON g.club = b.title", "user_id",
         "The view gossip is not provably person-level: Two private tables"),
        ("ratings JOIN books USING (title) WHERE random() < 0.5", "user_id", "random depends on more than the values"),
        ("ratings JOIN books USING (title) WHERE title LIKE e'\\x41%'", "user_id", "escapes"),
        ("(SELECT * FROM ratings JOIN books USING (title) LIMIT 5)", "user_id", "LIMIT"),
        ("ratings JOIN 'books.parquet' b ON ratings.title = b.title", "user_id", "No files found"),
        ("ratings JOIN frame f ON year = released", "user_id", "There is no table frame"),
    ],
)  # fmt: skip
def test_what_is_not_provably_person_level_is_refused(
    asked: dp_sql.Session, source: str, unit: str, why: str
) -> None:
    frame = asked.sql("SELECT year AS released FROM books").df()
    assert len(frame) == 5
    with free(asked), pytest.raises(dp_sql.QueryError, match=why) as caught:
        asked.sql(f"SELECT {count('title', unit)} FROM {source}")
    assert caught.value.position is not None


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
        shop.sql(f"SELECT {count('genre')} FROM ratings JOIN books USING (title)")


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
        patch.setattr(owner_plan, "value_of", lambda *_: Value("", "", is_person=True))
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
