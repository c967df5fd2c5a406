"""What an owner wrote and the compiler does not read is taken as written, and answered as by DuckDB."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dp_sql
from dp_sql.engines.duckdb.called_functions import functions_in
from dp_sql.engines.duckdb.function_kinds import called_kinds, function_kinds
from dp_sql.errors import NotPrivate
from dp_sql.privacy.relations.as_written import may_call
from dp_sql.sql.tokens import tokenize
from tests.conftest import READING_LOG, SURE

SETUP = """
ALTER TABLE ratings ADD COLUMN day DATE DEFAULT DATE '2024-01-31'; ALTER TABLE ratings ADD COLUMN ts TIMESTAMP_S DEFAULT TIMESTAMP_S '2024-01-31 10:00:00';
ALTER TABLE ratings ADD COLUMN tags VARCHAR[] DEFAULT ['a','b']; ALTER TABLE ratings ADD COLUMN s STRUCT(a INTEGER, b VARCHAR) DEFAULT {'a': 1, 'b': 'x'};
CREATE TABLE ranges AS SELECT 1990 + i*5 AS lo, 1995 + i*5 AS hi, 'e' || i AS era FROM range(10) t(i);
CREATE TABLE books AS SELECT DISTINCT title, length(title) AS len FROM ratings WHERE title IS NOT NULL;
CREATE VIEW up AS SELECT user_id, upper(title) || '!' AS title FROM ratings WHERE length(title) % 2 = 0;
CREATE VIEW cas AS SELECT user_id, CASE WHEN year > 2003 THEN 'new' ELSE 'old' END AS title FROM ratings r WHERE r.title IS NOT NULL;
CREATE VIEW era AS SELECT r.user_id, e.era AS title FROM ratings r JOIN ranges e ON r.year BETWEEN e.lo AND e.hi - 1;
CREATE VIEW lera AS SELECT r.user_id, e.era AS title FROM ratings r LEFT JOIN ranges e ON r.year >= e.lo AND r.year < e.hi AND length(r.title) < 6;
CREATE VIEW third AS SELECT r.user_id, e.era || b.len AS title FROM ratings r JOIN ranges e ON r.year BETWEEN e.lo AND e.hi - 1 LEFT JOIN books b ON b.title = r.title AND b.len % 2 = 0;
CREATE VIEW ren AS SELECT user_id AS pid, title FROM ratings; CREATE VIEW ren2 AS SELECT pid AS who, title FROM ren WHERE title LIKE '%e%';
CREATE SCHEMA sch; CREATE VIEW sch.v AS SELECT * EXCLUDE (tags) FROM main.ratings ORDER BY title;
CREATE TABLE "odd name" AS SELECT user_id AS "User Id", title AS "the title" FROM ratings;
"""
# item | privacy unit | FROM and WHERE
CASES = [
    "title|user_id|up",
    "title|user_id|cas",
    "title|user_id|era",
    "title|user_id|lera",
    "title|user_id|third",
    "title|pid|ren",
    "title|who|ren2",
    "title|pid|ren WHERE title || '!' LIKE 'D%'",
    "title|sch.v.user_id|sch.v",
    "title|user_id|sch.v",
    "title|ratings.user_id|main.ratings WHERE main.ratings.year + 1 > 2000",
    '"the title"|"User Id"|"odd name" WHERE "the title" || \'x\' <> \'q\'',
    '"odd name"."the title"|"user id"|"odd name"',
    "title|user_id|'{folder}/acc.parquet'",
    "title|user_id|'{folder}/acc.parquet' WHERE year > 2000",
    "acc.title|acc.user_id|'{folder}/acc.parquet'",
    "title|user_id|read_parquet('{folder}/acc.parquet') WHERE length(title) > 2",
    "title|user_id|read_parquet(['{folder}/acc.parquet', '{folder}/acc.parquet']) AS p",
    "title|user_id|read_csv('{folder}/acc.csv', header = true) q",
    "title|q.user_id|read_csv_auto('{folder}/acc.csv') q WHERE q.title SIMILAR TO '.*e.*'",
    "title|user_id|df",
    "title|user_id|df WHERE year % 2 = 0",
    "title|d.user_id|arrow AS d WHERE d.year // 2 > 3",
    "title|user_id|(SELECT * FROM df WHERE round(year / 7) > 2) x",
    "title|p|(SELECT user_id AS p, title FROM '{folder}/acc.parquet') x",
    "p|p|(SELECT user_id AS p FROM df)",
    "s.b|user_id|ratings",
    "s.a|user_id|ratings r WHERE r.s.b = 'x' AND s.a + 1 = 2",
    "tags[1]|user_id|ratings",
    "tags[1]|user_id|ratings WHERE tags[1:1] = ['a'] AND len(tags) = 2",
    "ts|user_id|ratings",
    "day|user_id|ratings WHERE day - INTERVAL 3 DAY < now()",
    "t|user_id|(SELECT user_id, title AS t, year * 2 AS y2, -year AS neg, NOT (year > 3) AS b, [title] AS l, {'a': title} AS st, title[1] AS c FROM ratings)",
    "y2|user_id|(SELECT user_id, year * 2 AS y2, -year AS neg FROM ratings) WHERE y2 > neg + 1",
    "c|user_id|(SELECT user_id, title[1] AS c FROM ratings) z",
    "b|user_id|(SELECT user_id, CASE WHEN year > 2003 THEN 'new' ELSE 'old' END AS b FROM ratings)",
    "b|user_id|(SELECT user_id, CASE year WHEN 2003 THEN 'new' END b FROM ratings)",
    "b|user_id|(SELECT user_id, 5 + 5 AS five, 'r0c1' || title AS b FROM ratings)",
    "title|user_id|ratings WHERE title <> 'r7c1' AND 'r7c1' <> title || 'r0c9'",
    "title|user_id|ratings WHERE 'r7c1' = 'r7c2' || ''",
    "title|user_id|ratings WHERE year IN (1, 2, 2003) OR region GLOB 'n*'",
    "title|user_id|ratings WHERE title IS DISTINCT FROM 'Dune'",
    "title|user_id|ratings WHERE (year, title) IN ((2003, 'Dune'), (2004, 'Emma'))",
    "title|user_id|ratings WHERE regexp_matches(title, '^D') -- a comment",
    "title|user_id|ratings WHERE /* c */ regexp_matches(title, '^D') /* d */ AND year::VARCHAR LIKE '2%'",
    "title|user_id|ratings WHERE TRY_CAST(region AS INTEGER) IS NULL",
    "title|user_id|ratings WHERE CAST(year AS VARCHAR) = '2003' OR coalesce(title, region, 'x') = 'x'",
    "title|user_id|ratings WHERE year BETWEEN 2000 AND 2000 + 5",
    "title|user_id|ratings WHERE date_part('year', day) = 2024 AND day::TIMESTAMP AT TIME ZONE 'UTC' IS NOT NULL",
    "title|user_id|(SELECT DISTINCT user_id, title, year FROM ratings)",
    "title|user_id|(SELECT user_id, title FROM (SELECT user_id, title || 'y' AS title FROM ratings WHERE year % 3 = 0) a WHERE length(title) > 2) b WHERE b.title LIKE '%y'",
    "title|user_id|(FROM ratings SELECT user_id, lower(title) AS title WHERE year + 1 > 3)",
    "era|user_id|(SELECT r.*, e.era FROM ratings r JOIN ranges e ON r.year >= e.lo AND r.year < e.hi)",
    "era|user_id|(SELECT r.user_id, e.era FROM ratings r JOIN ranges e ON true WHERE r.year + e.lo > 4000)",
    "title|user_id|(SELECT * RENAME (title AS t2), title FROM ratings)",
    "title|user_id|(SELECT * REPLACE (upper(title) AS title) FROM ratings)",
    "title|user_id|(SELECT ratings.* EXCLUDE (year) FROM ratings)",
    "year|user_id|ratings WHERE year",
    "title|user_id|ratings r WHERE r.title LIKE 'a_%' ESCAPE 'a' OR r.title ILIKE 'd%'",
    "title|user_id|ratings WHERE list_contains(['Dune'], title) OR title = ANY(['Emma'])",
    "title|user_id|ratings WHERE hash(title) % 2 = 0 AND md5(title) > 'a'",
    "title|user_id|ratings WHERE strftime(day, '%Y') = '2024' AND epoch(day) > 3 AND position('u' IN title) > 0",
    "title|user_id|ratings WHERE title = 'Dune' COLLATE NOCASE",
    "title|user_id|ratings WHERE title COLLATE NOCASE = 'dune'",
    "title|user_id|ratings WHERE title COLLATE NOCASE = 'dune' AND title <> ' COLLATE x'",
    "title COLLATE NOCASE|user_id|ratings WHERE title = 'Dune'",
    "title|user_id|ratings WHERE title.upper() = 'DUNE' AND lower(ratings.title).upper() = 'DUNE'",
    "word|user_id|(SELECT user_id, unnest(string_split(title, 'e')) AS word, year FROM ratings) WHERE year > 2000",
    "word|user_id|(SELECT user_id, year, unnest( string_split(upper(title), 'E') || [region] ) word FROM ratings)",
    "word|r.user_id|ratings r, unnest(regexp_split_to_array(r.title, 'u|e')) AS t(word)",
    "word|r.user_id|ratings r CROSS JOIN LATERAL (SELECT unnest(str_split(title, 'a')) AS word) AS t",
    "title.upper().lower()|user_id|ratings r WHERE r.title.length() > 3",
    "t|user_id|(SELECT user_id, reverse(title) AS t, t || year AS u FROM ratings WHERE reverse(u || t) <> '0' AND year > 1900)",
    "t|user_id|(SELECT t: reverse(title), user_id, u: t || '!' FROM ratings WHERE reverse(u) LIKE '!%')",
    "t|user_id|(SELECT user_id, reverse(title) AS t, count(*) AS n, CASE WHEN n > 1 THEN 'b' END AS c FROM ratings GROUP BY user_id, t HAVING n > 0)",
    "title|user_id|(SELECT DISTINCT ON (user_id) user_id, title FROM ratings ORDER BY user_id, year DESC, title)",
    "title|user_id|(SELECT user_id, title, sum(CASE WHEN year > 2003 THEN 1 END) OVER (PARTITION BY user_id) AS n FROM ratings) WHERE n > 1",
    "n|user_id|(SELECT user_id, sum(CASE WHEN year > 2003 THEN year // 2 ELSE 0 END) AS n FROM ratings GROUP BY user_id)",
    "t|user_id|(SELECT user_id, left(title, 2) AS t, max(day::TIMESTAMP)::DATE AS d FROM ratings GROUP BY ALL HAVING t > 'E')",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def owner(folder: Path) -> Iterator[dp_sql.Session]:
    with dp_sql.connect() as session:
        session.execute(READING_LOG)
        session.execute(SETUP)
        rows = "SELECT user_id, title, year, region FROM ratings"
        (folder / "days").mkdir()
        for file in ("acc", "days/1"):
            session.execute(f"COPY ({rows}) TO '{folder}/{file}.parquet'")
        session.execute(f"COPY ({rows}) TO '{folder}/acc.csv' (HEADER)")
        yield session


@pytest.fixture(scope="module")
def pandas_rows(owner: dp_sql.Session) -> Any:
    pytest.importorskip("pandas")
    return owner.sql("SELECT user_id, title, year FROM ratings").df()


@pytest.fixture(scope="module")
def arrow(owner: dp_sql.Session) -> Any:
    return owner.sql("SELECT user_id, title, year FROM ratings").to_arrow_table()


@pytest.mark.one_in(24)
@pytest.mark.parametrize("case", CASES)
def test_what_is_taken_as_written_is_answered_as_by_duckdb(
    owner: dp_sql.Session,
    folder: Path,
    case: str,
    arrow: Any,
    request: pytest.FixtureRequest,
) -> None:
    item, unit, source = case.replace("{folder}", str(folder)).split("|", 2)
    if "df" in case:
        df = request.getfixturevalue("pandas_rows")
        assert len(df) == len(arrow)
    plain = f"SELECT count(DISTINCT {item}) FILTER ({unit} IS NOT NULL) FROM {source}\n"
    wanted = owner.execute(plain).fetchall()
    call = f"DP_COUNT_DISTINCT({item}, {SURE}, privacy_unit := {unit})"
    assert owner.sql(f"SELECT {call} FROM {source}\n").fetchall() == wanted


def test_functions_may_read_the_time_and_the_time_zone_of_a_statement_and_no_other_state() -> None:
    """DuckDB 2.0.1 says of both that they are constant within a query."""
    times = {"now", "today", "current_localtime", "date_part", "date_trunc", "strftime", "timezone"}
    state = {
        "current_schema", "current_schemas", "current_database", "in_search_path", "getvariable",
        "current_setting", "txid_current", "random", "nextval",
    }  # fmt: skip
    with duckdb.connect() as con:
        kinds = function_kinds(
            frozenset(times | state), lambda sql, given: con.execute(sql, given).fetchall()
        )[0]
    assert {name for name, kind in kinds.items() if kind == {"scalar"}} == times
    assert kinds.keys() == times | state


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (
            "(SELECT user_id, title, random() AS r FROM ratings)",
            "random depends on more than the values",
        ),
        ("(SELECT user_id, title || max(title) OVER () AS title FROM ratings)", "window function"),
        ("ratings r JOIN ranges e ON r.year > (SELECT min(year) FROM ratings)", "a subquery"),
        (
            "ratings r JOIN ranges e ON r.year + random() > e.lo",
            "random depends on more than the values",
        ),
        ("ratings r JOIN ratings q ON r.year > q.year", "on their privacy units"),
        ("ratings WHERE nextval('s') > 0", "nextval depends on more than the values"),
        ("ratings WHERE year + rowid > 3", "rowid is not a column"),
        ("(SELECT user_id, title, title.nope AS x FROM ratings)", "not a column"),
        (
            "(SELECT user_id, unnest(list_filter(tags, lambda t: random() < 1)) AS title FROM ratings)",
            "has a lambda",
        ),
        (
            "(SELECT user_id, unnest([random()]) AS title FROM ratings)",
            "random depends on more than the values",
        ),
        (
            "(SELECT user_id, unnest(upper(title)) AS title FROM ratings)",
            "unnest takes a list, not VARCHAR",
        ),
        (
            "(SELECT user_id, unnest(tags, recursive := true) AS title FROM ratings)",
            "one list here",
        ),
        ("(SELECT user_id, title, unnest(s) FROM ratings)", "Name its fields, as in address.city"),
    ],
)
def test_what_looks_at_more_than_one_row_is_not_taken_as_written(
    owner: dp_sql.Session, source: str, why: str
) -> None:
    n_receipts = len(owner.receipts)
    with pytest.raises(NotPrivate, match=why) as caught:
        owner.sql(f"SELECT DP_COUNT_DISTINCT(title, {SURE}, privacy_unit := user_id) FROM {source}")
    assert caught.value.position is not None
    assert len(owner.receipts) == n_receipts


def test_a_renamed_privacy_unit_is_named_on_the_receipt(owner: dp_sql.Session) -> None:
    for source, unit in (("ren2", "who"), ("(SELECT user_id AS p, title FROM ratings)", "p")):
        owner.sql(f"SELECT DP_COUNT_DISTINCT(title, {SURE}, privacy_unit := {unit}) FROM {source}")
        said = "each row of ratings belongs to the person in user_id"
        assert owner.receipts[-1].assumptions == (said,)


def test_no_table_with_peoples_rows_is_called_public(owner: dp_sql.Session) -> None:
    owner.execute(
        "CREATE TABLE clubs AS SELECT DISTINCT user_id, title || ' club' AS club FROM ratings"
    )
    count = f"DP_COUNT_DISTINCT(club, {SURE}, privacy_unit := "
    for source, unit in (
        ("ratings r JOIN clubs c ON r.user_id = c.user_id", "c.user_id"),
        ("(SELECT r.user_id AS p, c.club FROM clubs c JOIN ratings r USING (user_id))", "p"),
        ("(FROM clubs UNION ALL SELECT user_id, title FROM ratings)", "user_id"),
    ):
        owner.sql(f"SELECT {count}{unit}) FROM {source}")
        receipt = owner.receipts[-1]
        assert "public" not in " ".join(receipt.assumptions)
        assert {said.split()[3] for said in receipt.assumptions} == {"ratings", "clubs"}
    for source in (
        "ratings r JOIN clubs c ON r.title || ' club' = c.club",
        "ratings r JOIN clubs c ON r.title = c.club",
        "(SELECT user_id AS p, title AS club FROM ratings) r JOIN clubs USING (club)",
    ):
        unit = "p" if "AS p" in source else "r.user_id"
        with pytest.raises(NotPrivate):
            owner.sql(f"SELECT {count}{unit}) FROM {source}")


# Expressions over a row of INTEGER x, y, VARCHAR s and DATE d.
CALLING = (
    "lower(s) = 'a'", "s.lower() = 'a'", "x % 2 = 0", "x - 1 > -y", "-x + +y < 0", "x * y / 2 // 3 > 1",
    "s || 'a' = 'b'", "s LIKE 'a%'", "s NOT LIKE '_'", "s ILIKE 'A'", "s NOT ILIKE 'a'",
    "d >= DATE '2024-01-01'", "d < TIMESTAMP '2024-01-01 10:00:00'", "x IN (1, y)", "x NOT IN (1, 2)",
    "x BETWEEN 1 AND y", "coalesce(x, y) = 1", "CASE WHEN x = 1 THEN s ELSE 'b' END = 'a'",
    "x::VARCHAR = '1'", "CAST(s AS INTEGER) = 1", "TRY_CAST(s AS DATE) IS NULL", "x IS DISTINCT FROM y",
    "contains(s, 'a')", "(x, y) = (1, 2)", "(x, y) IN ((1, 2))", "x IN [1, 2]", "s GLOB 'a*'",
    "d + INTERVAL 1 DAY > d", "extract(year FROM d) = 1", "s SIMILAR TO 'a'", "s[1] = 'a'",
    "substring(s, 1, 2) = 'a'", "s COLLATE NOCASE = 'a'", "x ** 2 = 1", "s ^@ 'a'", "x & y = 1",
    "s LIKE 'a' ESCAPE '!'", "position('a' IN s) = 1", "current_date > d", "nullif(x, 1) = 1",
    "date_trunc('month', d) = d", "x = ANY([1, 2])", "{'a': x}.a = 1", "NOT (x > 1) AND s <> 'a' OR x >= y",
    "d - INTERVAL (x) MONTH > d", "d - INTERVAL '2 days' > d", "trim(leading 'a' from s) = s", "[x][1:2] = [1]",
    "d AT TIME ZONE 'UTC' > d", "current_timestamp > d", "localtimestamp > d", "current_user = s", "user = s",
    "map {x: s}[1] = 'a'", "s::JSON ->> 'a' = 'b'", "s::JSON[1] = s", "[z + 1 for z in [x]] = [y]", "if(x > 1, y, 3) = 3",
    "list_transform([x], lambda z: -z) = [y]", "overlay(s PLACING 'a' FROM 1) = s", "ifnull(x, y) = 1", "x IS NOT NULL",
    "x IN (SELECT y * 2)", "row_number() OVER (ORDER BY -x) = 1", "try(x // y) = 1", "s NOT SIMILAR TO 'a'", "x",
    "current_schema = s", "session_user = s", "localtime > '10:00'::TIME", "x > 1 AND y = 2 OR s <= 'a'",
)  # fmt: skip


def test_every_function_that_duckdb_looks_up_is_known() -> None:
    """A macro that changes what DuckDB binds has a name that is known, or they are not known."""
    with duckdb.connect() as connection:
        known: dict[str, frozenset[str] | None] = {}
        for text in CALLING:
            used = functions_in(f"SELECT {text}", connection) if may_call(tokenize(text)) else ()
            kinds = called_kinds([(name,) for name in used or ()], connection)
            own = used is not None and {*kinds.values()} <= {"scalar"}
            known[text] = frozenset(used) if used is not None and own else None
        row = "(SELECT 1 AS x, 2 AS y, 'a' AS s, DATE '2024-01-01' AS d)"

        def bound(text: str) -> str:
            try:
                return str(connection.execute(f"EXPLAIN SELECT {text} FROM {row}").fetchall())
            except duckdb.Error as error:
                return str(error)

        names = {name for (name,) in connection.execute(
            "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'scalar'"
        ).fetchall()}  # fmt: skip
        names |= {name for functions in known.values() for name in functions or ()}
        names |= {"date", "subtract", "add", "cast", "coalesce", "interval"}

        def replace(some: Iterable[str]) -> None:
            connection.execute(";".join(f'CREATE MACRO "{name}"() AS 1' for name in some))

        def restore(some: Iterable[str]) -> None:
            connection.execute(";".join(f'DROP MACRO "{name}"' for name in some))

        asked = {text: used & names for text, used in known.items() if used is not None}
        before = {text: bound(text) for text in asked}
        changed = set()
        for name in frozenset().union(*asked.values()):
            replace([name])
            changed |= {
                name for text in asked if name in asked[text] and bound(text) != before[text]
            }
            restore([name])
        replace(names)
        for text, own in asked.items():  # no other name has a part in it
            restore(own)
            assert bound(text) == before[text], text
            replace(own)
        unknown = {text for text, functions in known.items() if functions is None}
    assert len(unknown) <= 10, unknown
    assert changed >= {"-", "+", "*", "/", "//", "%", "||", "~~", "!~~", "~~*", "!~~*", "lower"}
    assert changed >= {"date_part", "to_days", "row", "array_extract", "current_date"}


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("name", "text"),
    [("lower", "lower(title) = 'x'"), ("~~", "title LIKE 'x'"), ("-", "-user_id > 0")],
)
def test_a_macro_is_found_under_the_name_that_an_expression_calls(
    session: dp_sql.Session, name: str, text: str
) -> None:
    ask = f"SELECT DP_COUNT_DISTINCT(title, {SURE}, privacy_unit := user_id) FROM ratings WHERE {text}"
    for kind in ("", "TEMP"):
        assert session.sql(ask).fetchall()
        session.execute(f'CREATE {kind} MACRO "{name}"(a, b := 1) AS true')
        with pytest.raises(NotPrivate, match="of its own"):
            session.sql(ask)
        session.execute(f'DROP MACRO "{name}"')


@pytest.mark.parametrize(
    ("name", "text"),
    [('o.main."lower"', "o.main.lower(title) = 'x'"),
     ('o.main."reverse"', "o.main.reverse(title) = 'x'"),
     ('"<=>"', "[1, user_id]::INTEGER[2] <=> [1, 2]::INTEGER[2] = 1"), ('"<=>"', "title <=> title")],
)  # fmt: skip
def test_a_macro_of_another_database_or_of_a_longer_operator_is_found(
    session: dp_sql.Session, name: str, text: str
) -> None:
    """Two of its symbols compare, and o.main.lower is another function than lower."""
    session.execute("ATTACH ':memory:' AS o")
    session.execute(f"CREATE MACRO {name}(a, b := 1) AS true")
    with pytest.raises(NotPrivate, match="of its own"):
        session.sql(
            f"SELECT DP_COUNT(*, {SURE}, privacy_unit := user_id) FROM ratings WHERE {text}"
        )
    assert not session.receipts


@pytest.mark.parametrize(
    ("relation", "shown"),
    [("'{folder}/acc.csv'", "{folder}/acc.csv"), ("arrow_rows", "arrow_rows"),
     ("read_csv('{folder}/acc.csv')", "READ_CSV('{folder}/acc.csv')"), ("ratings", ""),
     ("'{folder}/acc.parquet'", ""), ("read_parquet('{folder}/acc.parquet')", ""),
     ("'{folder}/ac[c].parquet'", "{folder}/ac[c].parquet"),
     ("read_parquet('{folder}/days')", "READ_PARQUET('{folder}/days')"),
     ("read_parquet('{folder}/*.parquet', union_by_name = true)",
      "READ_PARQUET('{folder}/*.parquet', union_by_name = TRUE)"),
     ("parquet_scan(['{folder}/acc.parquet'])", "PARQUET_SCAN(['{folder}/acc.parquet'])"),
     ("read_parquet('{folder}' || '/acc.parquet')", "READ_PARQUET('{folder}' || '/acc.parquet')")],
)  # fmt: skip
def test_a_receipt_says_where_types_are_detected(
    owner: dp_sql.Session, folder: Path, arrow: Any, relation: str, shown: str
) -> None:
    arrow_rows = arrow
    call = "DP_COUNT_DISTINCT(title, epsilon := 1, privacy_unit := user_id)"
    owner.sql(f"SELECT {call} FROM {relation.format(folder=folder)}")
    found, name = owner.receipts[-1].assumptions, shown.format(folder=folder)
    what = f"no one person's rows change the columns or types that DuckDB detects in {name}"
    assert found[1:] == ((what,) if shown else ()) and len(arrow_rows)
