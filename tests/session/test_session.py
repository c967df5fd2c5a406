"""A session: doors, frozen answers, sources, domains."""

from pathlib import Path
from typing import Any, cast

import duckdb
import pytest

import dp_sql
from dp_sql.errors import ArgumentError, NotPrivate, SourceError
from tests.conftest import READING_LOG, SURE, free

UNIT = f"{SURE}, privacy_unit := user_id"
TOP = f"DP_TOPK(title, 3, {UNIT}, domain := catalog.title)"
BEST = ["Dune", "Emma", "Ulysses"]


def as_table(arrow: Any) -> Any:
    """What `.arrow()` returns is a reader in some versions and a table in others."""
    return arrow.read_all() if hasattr(arrow, "read_all") else arrow


@pytest.mark.parametrize("name", ["table", "register", "cursor", "query", "executemany"])
def test_what_only_a_connection_has_is_an_error_that_says_where_it_is(name: str) -> None:
    with dp_sql.connect() as session:
        with pytest.raises(AttributeError, match=f"session.connection.{name}"):
            getattr(session, name)
        assert callable(getattr(session.connection, name))
        assert not hasattr(session, "nothing") and not hasattr(session, "_private")


def test_plain_sql_passes_through() -> None:
    with dp_sql.connect() as session:
        session.sql("CREATE TABLE t (x INTEGER); INSERT INTO t VALUES (1), (2)")
        assert session.sql("SELECT sum(x) FROM t").fetchall() == [(3,)]
        assert session.execute("SELECT x FROM t WHERE x > ?", [1]).fetchall() == [(2,)]
        assert session.sql("SELECT $1 + 1", params=[1]).fetchall() == [(2,)]


def test_duckdbs_own_errors_pass_through_unchanged() -> None:
    with dp_sql.connect() as session, pytest.raises(duckdb.ParserException, match="syntax error"):
        session.sql("SELEC 1")


def test_top_k_of_a_table(shared: dp_sql.Session) -> None:
    relation = shared.sql(f"SELECT {TOP} FROM ratings")
    assert relation.fetchall() == [(BEST,)]
    assert relation.columns == ["dp_topk(title, 3)"]
    assert [str(t) for t in relation.types] == ["VARCHAR[]"]


@pytest.mark.parametrize(
    ("written", "named"),
    [
        ("{} + 1", "{} + 1"),
        ("round({}\n    , 2)", "round({} , 2)"),
        ("({} + 1) AS n", "n"),
        ("{} + 1 n", "n"),
        ("n: {}", "n"),
        ("(SELECT {} + 1) + 2", "(SELECT {} + 1) + 2"),
        ("unnest([{}, 7])", "unnest([{}, 7])"),
        ("DISTINCT {} / 2 FROM catalog", "{} / 2"),
    ],
)
def test_an_item_around_a_subquery_is_named_without_its_answer(
    shared: dp_sql.Session, written: str, named: str
) -> None:
    count = "(SELECT DP_COUNT(*, epsilon := 1, privacy_unit := user_id) FROM ratings)"
    asked = f"SELECT {written.format(count)}"
    con = shared.connection
    assert con is not None
    for relation in (shared.sql(asked), con.sql(f"FROM dp($$ {asked} $$)")):
        assert relation is not None
        assert relation.columns == [named.format("(SELECT dp_count(*) FROM ratings)")]


def test_a_result_read_twice_is_one_release(session: dp_sql.Session) -> None:
    call = "DP_COUNT_DISTINCT(title, epsilon := 0.01, privacy_unit := user_id)"
    relation = session.sql(f"SELECT {call} AS n FROM ratings")
    first = relation.fetchall()
    assert relation.fetchall() == first
    assert relation.df()["n"].tolist() == [first[0][0]]
    assert as_table(relation.arrow()).column("n").to_pylist() == [first[0][0]]
    relation.show()
    assert ("ratings",) in session.sql("SHOW TABLES").fetchall()
    assert "__dp" not in str(session.execute("show tables;").fetchall())
    assert relation.filter("n IS NOT NULL").fetchall() == first
    assert len(session.receipts) == 1


def test_two_calls_are_two_releases_and_the_same_call_is_one(session: dp_sql.Session) -> None:
    call = "DP_COUNT_DISTINCT(title, epsilon := 1e-9, privacy_unit := user_id)"
    ((first, second),) = session.sql(f"SELECT {call} AS a, {call} AS b FROM ratings").fetchall()
    assert first == second
    assert len(session.receipts) == 1
    more = "DP_COUNT_DISTINCT(title, epsilon := 1.0e-9, privacy_unit := user_id)"
    ((first, second),) = session.sql(f"SELECT {call} AS a, {more} AS b FROM ratings").fetchall()
    assert first != second  # equal with a chance below 1e-9
    assert len(session.receipts) == 3


@pytest.mark.parametrize(
    ("statement", "rows"),
    [
        (f"SELECT unnest({TOP}) AS title FROM ratings", [("Dune",), ("Emma",), ("Ulysses",)]),
        (f"SELECT len({TOP}) FROM ratings", [(3,)]),
        (f"SELECT {TOP}[2], 7 FROM ratings", [("Emma", 7)]),
        (f"SELECT t FROM (SELECT unnest({TOP}) AS t FROM ratings) ORDER BY t DESC LIMIT 1",
         [("Ulysses",)]),
        (f"WITH best AS (SELECT {TOP} AS t FROM ratings) SELECT a.t = b.t FROM best a, best b",
         [(True,)]),
        (f"WITH best AS NOT MATERIALIZED (SELECT {TOP} AS t FROM ratings) "
         "SELECT a.t = b.t FROM best a, best b", [(True,)]),
        (f"SELECT {TOP} AS t, len(t) FROM ratings", [(BEST, 3)]),
        (f"SELECT DISTINCT {TOP} FROM ratings ORDER BY 1 LIMIT 5", [(BEST,)]),
        (f"FROM ratings SELECT {TOP} WHERE year > 1999", [(BEST,)]),
        (f"SELECT {TOP} AS t FROM ratings UNION ALL SELECT {TOP} FROM ratings", [(BEST,), (BEST,)]),
        (f"SELECT 2 AS i, {TOP} AS t FROM ratings UNION ALL SELECT 1, {TOP} FROM ratings ORDER BY i "
         "LIMIT 1", [(1, BEST)]),
        (f"SELECT 1 WHERE 'Dune' IN (SELECT unnest({TOP}) FROM ratings)", [(1,)]),
        (f"(SELECT {TOP} FROM ratings)", [(BEST,)]),
        (f"SELECT list_transform({TOP}, lambda x: x[1]) FROM ratings", [(["D", "E", "U"],)]),
        (f"SELECT CASE WHEN len({TOP}) = 3 THEN 'three' END FROM ratings", [("three",)]),
        (f"SELECT {TOP} = (SELECT ['Dune', 'Emma', 'Ulysses']) FROM ratings", [(True,)]),
    ],
)  # fmt: skip
def test_a_call_may_be_anywhere_in_an_expression(
    shared: dp_sql.Session, statement: str, rows: list[tuple[object, ...]]
) -> None:
    assert shared.sql(statement).fetchall() == rows


@pytest.mark.parametrize(
    "where",
    [
        "year BETWEEN 1990 AND 2100", "title IS NOT NULL", "lower(title) LIKE '%e%' OR true",
        "NOT (year IN (1, 2))", "year > 1999 -- with a comment", "coalesce(region, 'x') <> ''",
        "CASE WHEN year > 1 THEN true ELSE false END", "DATE '2020-01-01' > DATE '2019-01-01'",
        "region IS DISTINCT FROM 'nowhere'", "year::VARCHAR = year::VARCHAR",
    ],
)  # fmt: skip
def test_a_condition_on_one_row_is_kept_as_written(shared: dp_sql.Session, where: str) -> None:
    assert shared.sql(f"SELECT {TOP} FROM ratings WHERE {where}").fetchall() == [(BEST,)]


def test_a_condition_selects_rows(shared: dp_sql.Session) -> None:
    call = f"DP_TOPK(title, 1, {UNIT}, domain := catalog.title)"
    answer = shared.sql(f"SELECT {call} FROM ratings WHERE title <> 'Dune'").fetchall()
    assert answer == [(["Emma"],)]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("source", "definition"),
    [
        ("v", "CREATE VIEW v AS SELECT * FROM ratings"),
        ("v", "CREATE VIEW v AS SELECT title, user_id FROM ratings WHERE year > 1999"),
        ("v", "CREATE VIEW w AS FROM ratings; CREATE VIEW v AS SELECT DISTINCT * FROM w"),
        ("v", "CREATE VIEW v AS SELECT r.* FROM ratings r JOIN catalog c ON c.title = r.title"),
        ("(SELECT user_id, title FROM ratings WHERE year > 1) AS q", ""),
        ("main.ratings", ""), ("memory.main.ratings AS r", ""), ('"ratings"', ""),
        ("s.ratings", "CREATE SCHEMA s; CREATE TABLE s.ratings AS FROM ratings"),
        ("ratings", "USE s2; CREATE TABLE ratings AS FROM memory.main.ratings; "
                    "CREATE TABLE catalog AS FROM memory.main.catalog"),
    ],
)  # fmt: skip
def test_views_schemas_and_simple_subqueries_are_sources(
    session: dp_sql.Session, source: str, definition: str
) -> None:
    session.execute("CREATE SCHEMA s2")
    for statement in filter(None, definition.split("; ")):
        session.execute(statement)
    assert session.sql(f"SELECT {TOP} FROM {source}").fetchall() == [(BEST,)]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "definition",
    [
        "SELECT * FROM ratings LIMIT 10", "SELECT user_id % 2 AS user_id, title FROM ratings",
        "SELECT any_value(user_id) AS user_id, title FROM ratings GROUP BY title",
        "SELECT title, row_number() OVER () AS user_id FROM ratings",
        "SELECT a.user_id, b.title FROM ratings a JOIN ratings b ON a.title = b.title",
        "SELECT a.user_id, b.title FROM (FROM ratings) a JOIN ratings b ON a.title = b.title",
        "SELECT * FROM ratings USING SAMPLE 10", "SELECT user_id, title FROM ratings EXCEPT SELECT 7, title FROM catalog",
        "SELECT DISTINCT ON (title) * FROM ratings",
        "SELECT * FROM ratings WHERE title IN (SELECT max(title) FROM ratings)",
        "SELECT r.* FROM ratings r JOIN catalog c ON r.title = (SELECT max(title) FROM ratings)",
        "SELECT r.* FROM ratings r JOIN (FROM ratings) c USING (title)",
    ],
)  # fmt: skip
def test_a_view_that_looks_across_people_is_refused(
    shared: dp_sql.Session, definition: str
) -> None:
    shared.execute(f"CREATE OR REPLACE TEMP VIEW across AS {definition}")
    with pytest.raises(
        NotPrivate, match=r"view across is not provably person-level|not the privacy unit"
    ):
        shared.sql(f"SELECT {TOP} FROM across")


def test_what_the_owner_asserts_is_on_the_receipt(session: dp_sql.Session) -> None:
    session.execute("CREATE VIEW v AS SELECT r.* FROM ratings r JOIN catalog USING (title)")
    session.sql(f"SELECT DP_TOPK(title, 1, {UNIT}, domain := observed) FROM v WHERE year > 1")
    (receipt,) = session.receipts
    assert receipt.assumptions == (
        "each row of ratings belongs to the person in user_id",
        "each row of catalog is public, or belongs to the person it is joined to",
        "the set of values in title is public, also among the rows that WHERE keeps",
    )
    assert receipt.source == "v WHERE year > 1"
    assert (receipt.mechanism, receipt.loss.epsilon, receipt.loss.delta) == ("joint", 10000, 0)
    assert "the set of values in title is public" in str(receipt)
    assert "with probability 95 %" in str(receipt)


def test_files_and_dataframes_are_sources(session: dp_sql.Session, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    parquet, csv = tmp_path / "ratings.parquet", tmp_path / "ratings.csv"
    session.execute(f"COPY ratings TO '{parquet}'; COPY ratings TO '{csv}'")
    frame = session.sql("SELECT user_id, title FROM ratings").df()
    arrow = as_table(session.sql("SELECT user_id, title FROM ratings").arrow())
    assert arrow.num_rows == len(frame)
    for source in (
        f"'{parquet}'", f"'{csv}'", f"read_parquet('{parquet}')", f"read_csv('{csv}')",
        f"read_csv('{csv}', header = true) AS r", "frame", "arrow AS a",
    ):  # fmt: skip
        assert session.sql(f"SELECT {TOP} FROM {source}").fetchall() == [(BEST,)]
        count = f"SELECT DP_COUNT_DISTINCT(title, {UNIT}, report := false) FROM {source}"
        assert session.sql(count).fetchall() == [(4,)]


def test_a_dataframe_is_found_where_duckdb_would_find_it(shared: dp_sql.Session) -> None:
    # Names that our own functions use for their variables are free for the caller's.
    text = plan = tokens = frame = shared.sql("SELECT user_id, title FROM ratings").df()
    assert len(text) == len(plan) == len(tokens)
    for name in ("text", "plan", "tokens", "frame"):
        assert shared.sql(f"SELECT {TOP} FROM {name}").fetchall() == [(BEST,)]
        assert shared.execute(f"SELECT count(*) FROM {name}").fetchall() == [(len(frame),)]
    with pytest.raises(SourceError, match="engine does not exist"):
        shared.sql(f"SELECT {TOP} FROM engine")


def test_the_domain_decides_what_may_be_answered(shared: dp_sql.Session) -> None:
    def ask(domain: str, k: int, item: str = "title") -> list[str]:
        call = f"DP_TOPK({item}, {k}, {UNIT}, domain := {domain})"
        ((answer,),) = shared.sql(f"SELECT {call} FROM ratings").fetchall()
        return answer

    # Forty people have a note to self; it is answered only where the domain has it.
    assert ask("observed", 2) == ["Dune", "a note to self"]
    assert sorted(ask("observed", 4)) == ["Dune", "Emma", "Ulysses", "a note to self"]
    assert ask("catalog.title", 3) == BEST
    assert sorted(ask("catalog.title", 5)[3:]) == ["Beloved", "Walden"]  # no one's, count zero
    assert ask("['Emma', 'Walden', 'Emma']", 2) == ["Emma", "Walden"]
    assert ask("main.catalog.title", 3) == BEST
    assert ask("kind", 2, "kind") == ["novel", "poems"]
    assert ask("ratings.kind", 3, "kind") == ["novel", "poems", "essay"]
    assert ask("genre", 3, "kind") == ["novel", "poems", "essay"]
    assert ask("['poems', 'essay']", 2, "kind") == ["poems", "essay"]
    assert ask("[2000, 1999]", 2, "year") == [2000, 1999]


def test_the_private_table_behind_a_view_is_no_domain(session: dp_sql.Session) -> None:
    session.execute("CREATE VIEW v AS FROM ratings")
    with pytest.raises(ArgumentError, match=r"ratings\.title is the private column itself"):
        session.sql(f"SELECT DP_TOPK(title, 1, {UNIT}, domain := ratings.title) FROM v")


def test_more_than_the_observed_items_cannot_be_asked_for(session: dp_sql.Session) -> None:
    with pytest.raises(ArgumentError, match="k = 9 is more than the 4 items observed") as caught:
        session.sql(f"SELECT 1, DP_TOPK(title, 9, {UNIT}, domain := observed) FROM ratings")
    assert caught.value.column == 11
    assert session.receipts == ()


def test_an_enum_is_no_domain_until_it_is_named(shared: dp_sql.Session) -> None:
    with pytest.raises(ArgumentError, match="needs a domain"):
        shared.sql(f"SELECT DP_TOPK(kind, 1, {UNIT}) FROM ratings")


def test_a_distinct_count_with_its_report(session: dp_sql.Session) -> None:
    relation = session.sql(f"SELECT DP_COUNT_DISTINCT(title, {UNIT}, report := true) FROM ratings")
    ((report,),) = relation.fetchall()
    assert report["estimate"] == 4
    assert report["lower_bound"] <= 4
    assert (report["confidence"], report["epsilon"]) == (0.95, 10000.0)
    assert 1 <= report["contribution_bound"] <= 100
    assert list(report) == [
        "estimate", "lower_bound", "confidence", "contribution_bound", "epsilon"
    ]  # fmt: skip
    call = f"DP_COUNT_DISTINCT(title, {UNIT}, beta := 0.01, report := true)"
    fields = session.sql(f"SELECT unnest(r) FROM (SELECT {call} AS r FROM ratings)").fetchall()
    assert fields[0][0] - fields[0][1] >= 0 and fields[0][2] == 0.99
    assert len(session.receipts) == 2


def test_distinct_rows_can_be_asked_for_first(shared: dp_sql.Session) -> None:
    count = f"DP_COUNT_DISTINCT(title, {UNIT})"
    source = "(SELECT DISTINCT user_id, title FROM ratings)"
    assert shared.sql(f"SELECT {count} FROM {source}").fetchall() == [(4,)]


def test_people_and_items_that_are_null_do_not_count(session: dp_sql.Session) -> None:
    session.execute(
        "CREATE TABLE holes AS SELECT NULL::INTEGER AS user_id, 'x' AS title FROM range(5)"
    )
    session.execute("INSERT INTO holes VALUES (1, NULL), (1, 'y')")
    count = f"SELECT DP_COUNT_DISTINCT(title, {UNIT}) FROM holes"
    assert session.sql(count).fetchall() == [(1,)]
    top = f"SELECT DP_TOPK(title, 1, {UNIT}, domain := ['x', 'y']) FROM holes"
    assert session.sql(top).fetchall() == [(["y"],)]


def test_a_person_counts_once_for_each_item(session: dp_sql.Session) -> None:
    session.execute("CREATE TABLE loud AS SELECT 1 AS user_id, 'x' AS title FROM range(50)")
    session.execute("INSERT INTO loud SELECT i, 'y' FROM range(3) t(i)")
    top = f"SELECT DP_TOPK(title, 2, {UNIT}, domain := observed) FROM loud"
    assert session.sql(top).fetchall() == [(["y", "x"],)]


def test_empty_and_tiny_sources_are_answered(session: dp_sql.Session) -> None:
    session.execute("CREATE TABLE nobody (user_id INTEGER, title VARCHAR)")
    top = (
        "SELECT DP_TOPK(title, {k}, epsilon := 1, privacy_unit := user_id, domain := {d}) FROM {t}"
    )
    ((answer,),) = session.sql(top.format(k=5, d="catalog.title", t="nobody")).fetchall()
    assert sorted(answer) == ["Beloved", "Dune", "Emma", "Ulysses", "Walden"]
    ((answer,),) = session.sql(top.format(k=1, d="['only']", t="nobody")).fetchall()
    assert answer == ["only"]
    count = "SELECT DP_COUNT_DISTINCT(title, epsilon := 1, privacy_unit := user_id) FROM {t}"
    assert isinstance(session.sql(count.format(t="nobody")).fetchall()[0][0], int)
    session.execute("CREATE TABLE one AS SELECT 1 AS user_id, 'Dune' AS title")
    ((answer,),) = session.sql(top.format(k=1, d="observed", t="one")).fetchall()
    assert answer == ["Dune"]
    assert isinstance(session.sql(count.format(t="one")).fetchall()[0][0], int)


def test_answers_can_be_saved(session: dp_sql.Session, tmp_path: Path) -> None:
    session.sql(f"CREATE TABLE best AS SELECT unnest({TOP}) AS title FROM ratings")
    session.sql(f"INSERT INTO best SELECT unnest({TOP}) AS title FROM ratings")
    session.sql(f"COPY (SELECT unnest({TOP}) AS title FROM ratings) TO '{tmp_path / 'best.csv'}'")
    assert session.sql("SELECT count(*) FROM best").fetchall() == [(6,)]
    assert (tmp_path / "best.csv").read_text().split() == ["title", *BEST]
    assert len(session.receipts) == 3


def test_statements_run_in_order_and_the_last_answers(session: dp_sql.Session) -> None:
    text = f"CREATE TABLE again AS FROM ratings; SELECT {TOP} FROM again; SELECT 'DP_TOPK(x)';"
    assert session.sql(text).fetchall() == [("DP_TOPK(x)",)]
    assert len(session.receipts) == 1


@pytest.mark.parametrize("head", ["EXPLAIN", "DESCRIBE", "PREPARE p AS", "EXPLAIN (FORMAT json)"])
def test_what_only_binds_releases_nothing(shared: dp_sql.Session, head: str) -> None:
    with free(shared):
        shared.execute(f"{head} SELECT {TOP} FROM ratings").fetchall()


def test_each_execution_of_a_prepared_statement_is_one_release(session: dp_sql.Session) -> None:
    session.execute(f"PREPARE p AS SELECT {TOP} AS a FROM ratings")
    for times in (1, 2):
        assert session.execute("EXECUTE p").fetchall() == [(BEST,)]
        assert len(session.receipts) == times


def test_the_dp_macro_works_in_a_session_too(session: dp_sql.Session) -> None:
    assert session.sql(f"FROM dp($$SELECT {TOP} FROM ratings$$)").fetchall() == [(BEST,)]
    assert len(session.receipts) == 1


def test_a_read_only_database_is_answered_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "log.duckdb"
    with dp_sql.connect(str(path)) as session:
        session.execute(READING_LOG)
    before = path.read_bytes()
    with dp_sql.connect(path, read_only=True) as session:  # type: ignore[arg-type]
        assert session.sql(f"SELECT {TOP} FROM ratings").fetchall() == [(BEST,)]
    assert path.read_bytes() == before
    with duckdb.connect(str(path)) as plain:  # a session leaves no macro behind
        found = plain.execute("FROM duckdb_functions() WHERE NOT internal").fetchall()
    assert found == []


def test_users_macros_and_tables_do_not_replace_those_that_dp_sql_calls(
    session: dp_sql.Session,
) -> None:
    for macro in ("list(x)", "list_select(a, b)", "count(x)", "row_number()", "coalesce(a, b)"):
        session.execute(f'CREATE MACRO "{macro.split("(")[0]}"({macro.split("(")[1]} AS 1')
    assert session.sql(f"SELECT {TOP} FROM ratings").fetchall() == [(BEST,)]
    count = f"SELECT DP_COUNT_DISTINCT(title, {UNIT}) FROM ratings"
    assert session.sql(count).fetchall() == [(4,)]


def test_a_macro_in_a_condition_is_refused(session: dp_sql.Session) -> None:
    session.execute("CREATE MACRO lower(x) AS (SELECT max(title) FROM ratings)")
    with pytest.raises(NotPrivate, match="function lower of its own"):
        session.sql(f"SELECT {TOP} FROM ratings WHERE lower(title) = 'x'")


def test_collations_do_not_decide_what_is_equal(session: dp_sql.Session) -> None:
    session.execute("CREATE TABLE c (user_id INTEGER, title VARCHAR COLLATE NOCASE)")
    session.execute("INSERT INTO c VALUES (1, 'dune'), (2, 'DUNE'), (3, 'DUNE')")
    count = f"SELECT DP_COUNT_DISTINCT(title, {UNIT}) FROM c"
    assert session.sql(count).fetchall() == [(2,)]
    top = f"SELECT DP_TOPK(title, 2, {UNIT}, domain := ['dune', 'DUNE']) FROM c"
    assert session.sql(top).fetchall() == [(["DUNE", "dune"],)]


def test_a_mechanisms_failure_is_our_bug_and_shows_no_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import dp_sql.engines.duckdb.mechanism_udfs as engine

    def broken(*_: object) -> None:
        raise ZeroDivisionError("canary 4711")

    monkeypatch.setattr(engine, "_draw", broken)
    tickets = engine.Tickets()
    (_, topk, *_), *_ = engine.mechanism_udfs(tickets)
    import pyarrow as pa

    ticket = tickets.issue_once(cast(engine.Plan, "a plan"))
    with pytest.raises(dp_sql.InternalError, match="nothing was released") as caught:
        topk(pa.array([ticket]), pa.array([1]), pa.array([1]), pa.array([[1, 2]]))
    assert "4711" not in str(caught.value)
    assert tickets.receipts() == ()


@pytest.mark.thorough
def test_a_million_items_in_the_domain(session: dp_sql.Session) -> None:
    session.execute("CREATE TABLE huge AS SELECT 'book ' || i AS title FROM range(1000000) t(i)")
    session.execute("INSERT INTO ratings SELECT i, 'book 777', NULL, 1, 1, '' FROM range(40) t(i)")
    call = f"DP_TOPK(title, 2, {UNIT}, domain := huge.title)"
    ((answer,),) = session.sql(f"SELECT {call} FROM ratings").fetchall()
    assert answer[0] == "book 777" and answer[1].startswith("book ")
