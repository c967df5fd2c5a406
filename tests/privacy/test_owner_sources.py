"""The owner may ask what an analyst may ask, and is answered what DuckDB would answer: no one else's rows change when a person leaves."""

import re

import duckdb
import pyarrow as pa
import pytest
import sqlglot

import dp_sql
from dp_sql.engines.duckdb.connection import Engine
from dp_sql.engines.duckdb.tickets import Tickets
from dp_sql.errors import ArgumentError, NotPrivate
from dp_sql.privacy.plans.owner import owners_plans
from dp_sql.privacy.relations.declared_tables import DeclaredTables
from dp_sql.sql.statement import parse
from tests.conftest import READING_LOG, free
from tests.databases import owner_of
from tests.privacy.owners_shop import (
    BOOKS,
    CLUBS,
    LOANS,
    RATINGS,
    READERS,
    SHELVES,
    SHOP,
    count,
    forgetful,
    forgetful_later,
)

asked = owner_of(READING_LOG + SHOP)  # of tests that only ask


WRITTEN = "each row of VALUES belongs to the person in user_id"
SOURCES = [
    # item, privacy unit, FROM and WHERE, assumptions
    ("b.genre", "user_id", "ratings JOIN books b USING (title)", {RATINGS, BOOKS}),
    ("genre", "user_id", "books JOIN ratings USING (title)", {RATINGS, BOOKS}),
    ("b.genre", "r.user_id", "books b JOIN ratings r ON r.title = b.title", {RATINGS, BOOKS}),
    (
        "r.title",
        "R.USER_ID",
        "RATINGS R JOIN BOOKS B ON R.TITLE = b.title",
        {RATINGS.replace("user_id", "USER_ID"), BOOKS},
    ),
    (
        "s.floor",
        "r.user_id",
        "shelves s JOIN books b USING (genre) JOIN ratings r USING (title)",
        {RATINGS, BOOKS, SHELVES},
    ),
    (
        "b.year",
        "r.user_id",
        "ratings r LEFT JOIN books b ON r.title = b.title AND b.year > 1904",
        {RATINGS, BOOKS},
    ),
    ("c.club", "r.user_id", "ratings r JOIN clubs c ON r.user_id = c.user_id", {RATINGS, CLUBS}),
    ("c.club", "user_id", "ratings r JOIN clubs c USING (user_id)", {RATINGS, CLUBS}),
    (
        "a.title",
        "a.user_id",
        "ratings a JOIN ratings b ON a.user_id = b.user_id AND b.title = 'Emma'",
        {RATINGS},
    ),
    (
        "club",
        "r.user_id",
        "books b JOIN ratings r ON r.title = b.title JOIN clubs c "
        "ON c.user_id = r.user_id WHERE b.genre = 'space' AND c.n < 3",
        {RATINGS, CLUBS, BOOKS},
    ),
    (
        "title",
        "user_id",
        "(SELECT user_id, title FROM ratings UNION ALL SELECT user_id, club FROM clubs)",
        {RATINGS, CLUBS},
    ),
    (
        "title",
        "user_id",
        "ratings r WHERE EXISTS (SELECT 1 FROM books b WHERE b.title = r.title || '')",
        {RATINGS, BOOKS},
    ),
    (
        "title",
        "user_id",
        "((SELECT user_id, title FROM ratings) UNION (SELECT user_id, club FROM clubs))",
        {RATINGS, CLUBS},
    ),
    (
        "title",
        "user_id",
        "(SELECT user_id, title FROM ratings UNION ALL SELECT reader, lent FROM loans)",
        {RATINGS, LOANS},
    ),
    (
        "lent",
        "reader",
        "(FROM (SELECT lent, reader FROM loans) UNION ALL BY NAME "
        "SELECT user_id AS reader, title AS lent FROM ratings)",
        {RATINGS, LOANS},
    ),
    (
        "t",
        "who",
        "(SELECT user_id AS who, title AS t FROM ratings UNION ALL SELECT reader, lent FROM "
        "loans UNION ALL SELECT giver, title FROM gifts)",
        {RATINGS, LOANS, "each row of gifts belongs to the person in giver"},
    ),
    (
        "n",
        "user_id",
        "(SELECT user_id, count(*) AS n, max(t) AS t FROM (SELECT user_id, title AS t "
        "FROM ratings UNION ALL SELECT reader, lent FROM loans) GROUP BY user_id)",
        {RATINGS, LOANS},
    ),
    (
        "l.n",
        "u.user_id",
        "(SELECT user_id, title FROM ratings UNION ALL SELECT reader, lent FROM "
        "loans) u JOIN loans l ON l.reader = u.user_id",
        {RATINGS, LOANS},
    ),
    ("city", "user_id", "ratings JOIN readers USING (user_id)", {RATINGS, READERS}),
    (
        "r.title || p.city",
        "p.user_id",
        "readers p LEFT JOIN ratings r ON r.user_id = p.user_id",
        {RATINGS, READERS},
    ),
    (
        "c.club || p.city",
        "r.user_id",
        "ratings r, readers p, clubs c WHERE r.user_id = p.user_id AND p.user_id = c.user_id",
        {RATINGS, READERS, CLUBS},
    ),
    (
        "title",
        "user_id",
        "ratings WHERE user_id IN (SELECT user_id FROM readers WHERE city = 'city 2')",
        {RATINGS, READERS},
    ),
    (
        "city",
        "p.user_id",
        "readers p WHERE EXISTS (SELECT 1 FROM ratings r WHERE r.user_id = p.user_id "
        "AND r.year > 2001)",
        {RATINGS, READERS},
    ),
    (
        "title",
        "user_id",
        "(SELECT user_id, title FROM ratings UNION ALL SELECT user_id, city FROM readers)",
        {RATINGS, READERS},
    ),
    (
        "n",
        "user_id",
        "(SELECT user_id, year AS n FROM ratings UNION ALL SELECT user_id, n FROM clubs UNION "
        "ALL SELECT user_id, 7::UTINYINT FROM readers)",
        {RATINGS, CLUBS, READERS},
    ),
    ("year", "user_id", "(SELECT * REPLACE (abs(year) * 2 AS year) FROM ratings)", {RATINGS}),
    (
        "title || x",
        "user_id",
        "(SELECT replace('a', 'a', 'b') AS x, r.* REPLACE (replace(title, 'D', "
        "'d') || '!' AS title, year + 1 AS year) FROM ratings r)",
        {RATINGS},
    ),
    (
        "user_id",
        "user_id",
        "(SELECT user_id FROM readers UNION ALL SELECT reader FROM loans)",
        {READERS, LOANS},
    ),
    ("n", "user_id", "(SELECT user_id, count(*) AS n FROM ratings GROUP BY user_id)", {RATINGS}),
    (
        "n",
        "q.user_id",
        "(SELECT user_id, title, count(*) AS n FROM ratings GROUP BY ALL "
        "HAVING count(*) > 1) AS q WHERE n < 9",
        {RATINGS},
    ),
    ("upper(title)", "user_id", "ratings", {RATINGS}),
    (
        "gap",
        "user_id",
        "(SELECT user_id, year - lag(year) OVER (PARTITION BY user_id ORDER BY year) AS gap FROM ratings)",
        {RATINGS},
    ),
    (
        "gap",
        "user_id",
        "(SELECT user_id, date_diff('day', lag(day) OVER w, day) AS gap FROM ratings "
        "WINDOW w AS (PARTITION BY user_id ORDER BY day, year) QUALIFY coalesce(year - lag(year) OVER w, 0) < 5)",
        {RATINGS},
    ),
    ("club", "user_id", "ratings NATURAL JOIN clubs", {RATINGS, CLUBS}),
    (
        "genre",
        "user_id",
        "ratings r NATURAL LEFT JOIN (SELECT title, genre FROM books WHERE year > 1904)",
        {RATINGS, BOOKS},
    ),
    (
        "page.title",
        "page.user_id",
        "ratings page SEMI JOIN clubs c ON page.user_id = c.user_id",
        {RATINGS, CLUBS},
    ),
    (
        "page.title",
        "page.user_id",
        "ratings page ANTI JOIN (SELECT user_id, {'user_id': 0} AS page FROM clubs WHERE n > 3) c "
        "ON page.user_id = c.user_id",
        {RATINGS, CLUBS},
    ),
    (
        "page.title",
        "page.user_id",
        "ratings page WHERE EXISTS (SELECT 1 FROM clubs c WHERE page.user_id = c.user_id AND n > 1)",
        {RATINGS, CLUBS},
    ),
    ("date_trunc('week', day)", "user_id", "ratings WHERE title <> 'Emma'", {RATINGS}),
    ("lower(b.genre)", "user_id", "ratings JOIN books b USING (title)", {RATINGS, BOOKS}),
    ("CAST(score AS VARCHAR)", "user_id", "ratings WHERE score < 30", {RATINGS}),
    (
        "title",
        "user_id",
        "ratings WHERE title IN (SELECT title FROM books WHERE year > 1904)",
        {RATINGS, "books is public"},
    ),
    (
        "title",
        "user_id",
        "ratings WHERE title[1:9] IN (SELECT title FROM books WHERE year::BIGINT + 1 > 1904) AND score + 1 > 0",
        {RATINGS, "books is public"},
    ),
    ("floor", "user_id", "shelved", {RATINGS, BOOKS, SHELVES}),
    ("n", "user_id", "counted", {RATINGS}),
    ("n", "user_id", "busy", {RATINGS}),
    (
        "s.floor",
        "b.user_id",
        "shelved s JOIN busy b ON s.user_id = b.user_id",
        {RATINGS, BOOKS, SHELVES},
    ),
    ("kind", "user_id", "ratings JOIN books USING (title) WHERE kind = 'novel'", {RATINGS, BOOKS}),
    (
        "w",
        "user_id",
        "ratings JOIN (VALUES ('Emma', 1), ('Emma', 2)) v(title, w) USING (title)",
        {RATINGS},
    ),
    ("n", "user_id", "ratings, range(3) t(n), (SELECT 1 AS x UNION ALL SELECT 2)", {RATINGS}),
    (
        "w",
        "r.user_id",
        "ratings r JOIN (VALUES (1, 'x'), (2, 'y')) v(user_id, w) USING (user_id)",
        {RATINGS, WRITTEN},
    ),
    (
        "title",
        "user_id",
        "(SELECT user_id, title FROM ratings UNION ALL SELECT 1, 'new')",
        {RATINGS, WRITTEN},
    ),
]
OF_THE_STATEMENT = [
    ("v.title", "v.user_id", "(VALUES (1, 'a'), (2, 'b'), (2, NULL)) v(user_id, title)", {WRITTEN}),
    ("title", "user_id", "(SELECT 1 AS user_id, 'a' AS title UNION ALL SELECT 2, 'b')", {WRITTEN}),
]  # fmt: skip


@pytest.mark.skipif(sqlglot.__version__ < "29", reason="this sqlglot cannot read the name")
def test_a_table_called_values_is_not_rows_of_the_statement() -> None:
    VALUES = pa.table({"title": ["Emma"]})
    assert VALUES.num_rows
    with dp_sql.connect() as session:
        session.execute(READING_LOG)
        session.sql(f'SELECT {count("title", "user_id")} FROM ratings JOIN "VALUES" USING (title)')
        assert "each row of VALUES is public" in str(session.receipts[-1])


@pytest.mark.one_in(24)
@pytest.mark.parametrize(("item", "unit", "source", "assumptions"), [*SOURCES, *OF_THE_STATEMENT])
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
    (plan,) = owners_plans(select, engine)
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
        session.execute("DELETE FROM loans WHERE reader = 2")
        session.execute("DELETE FROM readers WHERE user_id = 2")
        session.execute("DELETE FROM gifts WHERE giver = 2")
        after = pairs(session, item, unit, source)
    finally:
        session.execute("ROLLBACK")
    assert any(person == "2" for person, _ in before - after)
    return {pair for pair in before ^ after if pair[0] != "2"}


@pytest.mark.one_in(24)
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


UNITED = "(SELECT user_id, title FROM ratings UNION ALL SELECT reader, lent FROM loans) u"


def test_the_oracle_sees_a_table_that_was_private_in_one_place_only(
    asked: dp_sql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DeclaredTables, "rows", forgetful_later)
    assert (
        moved(asked, "l.reader", "u.user_id", f"{UNITED} JOIN loans l ON l.lent = u.title") != set()
    )


def test_what_a_union_says_of_a_table_holds_in_the_whole_statement(asked: dp_sql.Session) -> None:
    n_receipts = len(asked.receipts)
    for more in ("loans.lent", "(SELECT lent FROM loans)"):
        call = count("title", more=f", groups := {more}, max_groups_contributed := 1")
        with pytest.raises(
            (NotPrivate, ArgumentError), match=r"private source itself|people's rows"
        ):
            asked.sql(f"SELECT title, {call} FROM {UNITED} GROUP BY title")
    assert len(asked.receipts) == n_receipts


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("source", "unit", "why"),
    [
        (f"{UNITED} JOIN loans l ON l.lent = u.title", "u.user_id", "joined on their privacy units"),
        ("(SELECT user_id AS p FROM clubs UNION ALL SELECT n FROM clubs)", "p", "two columns of one table"),
        (f"{UNITED} WHERE title IN (SELECT lent FROM loans)", "user_id", "public tables only"),
        ("(SELECT user_id, title FROM ratings UNION ALL SELECT lent, lent FROM loans)", "user_id",
         "same columns and types"),
        ("(SELECT user_id, title FROM ratings UNION ALL SELECT reader + 1, lent FROM loans)", "user_id",
         "same columns and types"),
        ("(SELECT user_id, title FROM ratings UNION ALL SELECT reader, reader FROM loans)", "user_id",
         "types: title is VARCHAR on one side and [A-Z]+ on the other"),
        ("(SELECT user_id FROM ratings UNION ALL SELECT reader, lent FROM loans)", "user_id", "one lists 1 and the other 2 columns"),
        (f"(SELECT * FROM {UNITED} UNION ALL SELECT n::BIGINT, lent FROM loans)", "user_id",
         "not the privacy unit"),
        ("ratings r JOIN clubs c ON r.title = c.club", "r.user_id", "joined on their privacy units"),
        ("ratings r JOIN clubs c ON r.user_id = c.user_id", "user_id", "more than one column"),
        ("ratings r LEFT JOIN clubs c ON r.user_id = c.user_id", "c.user_id", "not the privacy unit"),
        ("books b LEFT JOIN ratings r ON b.title = r.title", "r.user_id", "belong to no one"),
        ("ratings r JOIN books b ON r.title = b.title", "r.whose", "r.whose is not a column of the source"),
        ("ratings r, books b", "user_id", "joined with all rows of this table"),
        ("ratings r JOIN nowhere n USING (title)", "r.user_id", "Table with name nowhere does not exist"),
        ("(SELECT title FROM ratings UNION SELECT title FROM ratings)", "user_id", "not a column|must list the privacy"),
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
    ],
)  # fmt: skip
def test_what_is_not_provably_person_level_is_refused(
    asked: dp_sql.Session, source: str, unit: str, why: str
) -> None:
    with free(asked), pytest.raises(dp_sql.QueryError, match=why) as caught:
        asked.sql(f"SELECT {count('title', unit)} FROM {source}")
    assert caught.value.position is not None


def test_a_macro_or_a_relation_of_python_is_refused_with_what_to_write(
    asked: dp_sql.Session,
) -> None:
    call = "SELECT DP_COUNT(*, epsilon := 1, privacy_unit := user_id) FROM"
    asked.execute("CREATE OR REPLACE MACRO of_year(y) AS TABLE SELECT * FROM books WHERE year = y")
    with pytest.raises(dp_sql.QueryError, match="write its query instead") as refused:
        asked.sql(f"{call} of_year(1900)")
    shown = re.search(r"SELECT macro_definition .* = 'of_year'", refused.value.hint or "")
    assert shown and "FROM books" in str(asked.sql(shown[0]).fetchall())
    with duckdb.connect() as other:
        other.execute("CREATE TABLE ratings (user_id INTEGER, title VARCHAR)")
        rel = other.sql("SELECT user_id, title FROM ratings")
        with pytest.raises(dp_sql.QueryError, match="The view rel is not") as refused:
            asked.sql(f"{call} rel")
        assert "FROM ({rel.sql_query()}) AS rel" in (refused.value.hint or "")
        assert asked.sql(f"{call} ({rel.sql_query()}) AS rel").fetchall()


def test_a_remembered_name_means_what_it_means_now() -> None:
    """After each step, an engine that has looked up names before finds what a new one finds."""
    struct = "STRUCT(main STRUCT(r STRUCT(rowid BIGINT)))"
    steps = (
        "CREATE TABLE r AS SELECT 1 AS a", "CREATE TEMP TABLE r AS SELECT 2 AS a",
        "DROP TABLE temp.r", "CREATE SCHEMA s", "CREATE TABLE s.r AS SELECT 3 AS a",
        "SET search_path = 's'", "SET search_path = 'main'", "ATTACH ':memory:' AS other",
        "CREATE TABLE other.main.r AS SELECT 4 AS a", "USE other", "USE memory", "BEGIN",
        "ALTER TABLE r RENAME TO q", "CREATE VIEW r AS SELECT rowid, * FROM q", "ROLLBACK",
        "DROP TABLE r", f"CREATE TEMP TABLE r (memory {struct})",
        "CREATE VIEW memory.main.r AS SELECT rowid, * FROM s.r", "DROP TABLE temp.r",
        "DROP VIEW r", 'CREATE TABLE "R" AS SELECT 5 AS a',
    )  # fmt: skip
    with duckdb.connect() as connection:
        engine = Engine(connection, Tickets())
        for step in steps:
            connection.execute(step)
            new = Engine(connection, Tickets())
            for name in ("r", "R"):
                assert engine.relation((name,)) == new.relation((name,)), step
                assert engine.relation((name,)) == new.relation((name,)), step


def test_a_view_of_another_database_reads_the_schemas_of_that_database() -> None:
    rows = "AS SELECT i % 50 AS user_id FROM range({}) r(i)"
    call = "DP_COUNT(1, epsilon := 10000, privacy_unit := user_id, contribution_bound := 20)"
    with dp_sql.install(duckdb.connect()) as con:
        con.execute("ATTACH ':memory:' AS g; CREATE SCHEMA g.s; CREATE SCHEMA g.z; USE g")
        con.execute(f"CREATE TABLE s.t {rows.format(300)}; CREATE VIEW z.v AS FROM s.t; USE memory")
        for more in ("", f"CREATE SCHEMA s; CREATE TABLE s.t {rows.format(700)}"):
            con.execute(more or "SELECT 1")
            assert con.execute(f"SELECT {call} FROM g.z.v").fetchall() == [(300,)]
            assert con.execute(f"FROM dp($$ SELECT {call} FROM g.z.v $$)").fetchall() == [(300,)]
        con.execute(
            f"CREATE TABLE g.main.t {rows.format(400)}; CREATE TABLE g.z.t {rows.format(500)}"
        )
        con.execute("CREATE VIEW g.z.w AS FROM g.t")  # of main or of z, as the version has it
        meant = con.execute("SELECT count(*) FROM g.z.w").fetchall()
        try:
            assert con.execute(f"FROM dp($$ SELECT {call} FROM g.z.w $$)").fetchall() == meant
        except duckdb.Error as refused:
            assert "may mean more than one relation" in str(refused)
