"""A session under a policy: what it answers, what it spends, and what it never shows."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dp_sql
from dp_sql import errors
from dp_sql.cli.shell.names import analyst_names
from dp_sql.engines.duckdb import private_connection as duckdb_private
from dp_sql.engines.duckdb import release_sql
from dp_sql.server.sent_by_drivers import TABLES, attached_catalog
from dp_sql.session.analyst import AnalystSession
from dp_sql.session.corrections import duckdb_errors
from dp_sql.sql.statement_limits import MAX_BYTES
from tests.conftest import SURE, free
from tests.databases import write_database
from tests.session.reading_policy import MORE, asked, write


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnalystSession]:
    """A session that many tests ask."""
    database, policy = write(tmp_path_factory.mktemp("asking"))
    with dp_sql.connect(database, policy=policy, analyst="reporting") as session:
        yield session


@pytest.fixture
def analyst(tmp_path: Path) -> Iterator[AnalystSession]:
    database, policy = write(tmp_path)
    with dp_sql.connect(database, policy=policy, analyst="reporting") as session:
        yield session


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (f"SELECT DP_TOPK(title, 3, {SURE}) FROM ratings", [(["Dune", "Emma", "Ulysses"],)]),
        (
            f"SELECT unnest(DP_TOPK(r.title, 2, {SURE})) AS best FROM main.ratings AS r",
            [("Dune",), ("Emma",)],
        ),
        (f"SELECT DP_TOPK(upper(title), 1, {SURE}, domain := ['DUNE', 'EMMA']) FROM ratings", [(["DUNE"],)]),
        (f"SELECT DP_TOPK(title, 1, {SURE}) AS t FROM ratings WHERE title <> 'Dune'", [(["Emma"],)]),
        (f"SELECT DP_TOPK(kind, 1, {SURE}) FROM ratings", [(["novel"],)]),
        (f"SELECT DP_TOPK(kind, 1, {SURE}, domain := kind) FROM ratings", [(["novel"],)]),
        (f"SELECT DP_TOPK(c.title, 1, {SURE}, domain := catalog.title) FROM ratings r JOIN catalog c ON r.title = c.title", [(["Dune"],)]),
        (f"SELECT DP_COUNT_DISTINCT(copy, {SURE}) FROM loan_items", [(60,)]),
        (f"SELECT DP_COUNT_DISTINCT(copy, {SURE}) FROM loan_items i JOIN loans l ON i.loan = l.id", [(60,)]),
        (f"SELECT DP_COUNT_DISTINCT(title, {SURE}) FROM recent", [(4,)]),
        (f"SELECT DP_COUNT_DISTINCT(main.recent.title, {SURE}) FROM main.recent", [(4,)]),
        (f'SELECT "main"."ratings"."kind" AS "kind", DP_COUNT_DISTINCT(user_id, {SURE}) AS "n" FROM "main"."ratings" GROUP BY "main"."ratings"."kind" ORDER BY "n" DESC, "main"."ratings"."kind" LIMIT 1', [("novel", 30)]),
        (f"SELECT DP_COUNT_DISTINCT(copy, {SURE}) FROM loan_items JOIN loans ON shop.main.loan_items.loan = main.loans.id WHERE shop.main.loans.id >= 0", [(60,)]),
        (f"WITH mine AS (SELECT * FROM ratings WHERE region = 'north') SELECT DP_COUNT_DISTINCT(title, {SURE}) FROM mine", [(4,)]),
        (f"SELECT DP_COUNT_DISTINCT(n, {SURE}) FROM (SELECT user_id, count(*) AS n FROM ratings GROUP BY user_id)", [(2,)]),
        (f"SELECT (SELECT count(*) FROM catalog) + DP_COUNT_DISTINCT(title, {SURE}) AS n FROM ratings", [(11,)]),
        (f"SELECT DP_COUNT_DISTINCT(CASE WHEN title IN (SELECT title FROM catalog) THEN title END, {SURE}) FROM ratings", [(3,)]),
        (f"SELECT DP_COUNT_DISTINCT(title || NULL || CAST(NULL AS VARCHAR), {SURE}) FROM ratings", [(0,)]),
        ("SELECT count(*) FROM catalog", [(7,)]),
    ],
)  # fmt: skip
def test_an_analyst_is_answered(asking: AnalystSession, text: str, answer: list[Any]) -> None:
    before = len(asking.receipts)
    assert asked(asking, text) == answer
    assert len(asking.receipts) == before + ("DP_" in text)
    assert "canary" not in str(asking.receipts)


def test_reading_an_answer_again_is_free_and_the_same(analyst: AnalystSession) -> None:
    relation = analyst.sql(
        "SELECT unnest(DP_TOPK(title, 5, epsilon := 0.01)) AS title FROM ratings"
    )
    assert relation.fetchall() == relation.fetchall() == relation.fetchall()
    assert len(analyst.receipts) == 1
    assert analyst.execute("SELECT 1").fetchall() == [(1,)]


def test_parameters_belong_to_the_outer_statement(asking: AnalystSession) -> None:
    text = f"SELECT DP_COUNT_DISTINCT(title, {SURE}) + ? AS n FROM ratings"
    assert asking.sql(text, params=[10]).fetchall() == [(14,)]


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    "kind",
    ["HUGEINT", "UBIGINT", "DECIMAL(9, 2)", "VARCHAR", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_NS",
     "TIMESTAMP WITH TIME ZONE", "UUID", "BOOLEAN", "BLOB", "ENUM('a b', 'c''d')"],
)  # fmt: skip
def test_an_answer_keeps_its_type_on_the_way(tmp_path: Path, kind: str) -> None:
    values = {
        "HUGEINT": "'170141183460469231731687303715884105727'", "UBIGINT": "18446744073709551615",
        "DECIMAL(9, 2)": "1234.50", "VARCHAR": "'it''s \"x\", [y]'", "DATE": "'0001-01-01 (BC)'",
        "TIME": "'23:59:59.999999'", "TIMESTAMP": "'2024-02-29 12:00:00.000001'",
        "TIMESTAMP_NS": "'2024-02-29 12:00:00.000000001'",
        "TIMESTAMP WITH TIME ZONE": "'2024-02-29 12:00:00+05'",
        "UUID": "'00000000-0000-0000-0000-0000000000ff'", "BOOLEAN": "true",
        "BLOB": "'\\xAA\\x00''z'", "ENUM('a b', 'c''d')": "'c''d'",
    }  # fmt: skip
    more = (
        f"CREATE TABLE t AS SELECT i AS u, CAST({values[kind]} AS {kind}) AS x FROM range(9) r(i);"
        "CREATE TABLE d AS SELECT DISTINCT x FROM t"
    )
    policy = '[tables.t]\nprivacy_unit = "u"\n[public]\ntables = ["d"]\n[domains]\n"t.x" = "d.x"\n'
    database, file = write(tmp_path, policy, more)
    with dp_sql.connect(database, policy=file) as session:
        same = f"SELECT unnest(DP_TOPK(x, 1, {SURE})) AS x FROM t"
        relation = session.sql(f"SELECT a.x = d.x, typeof(a.x) FROM ({same}) a, d")
        ((equal, found),) = relation.fetchall()
    assert equal is True
    if kind.startswith("ENUM"):  # its labels are the owner's to show: [domains] "t.x" = "enum"
        assert found == "VARCHAR"
        return
    with duckdb.connect(database) as con:
        assert con.execute("SELECT typeof(x) FROM d").fetchall() == [(found,)]


def test_explain_spends_nothing_and_shows_the_cost(analyst: AnalystSession) -> None:
    text = "SELECT region, DP_TOPK(title, 2, epsilon := 1, max_groups_contributed := 4) FROM ratings GROUP BY region"
    told = dict(analyst.sql(f"EXPLAIN (SQL) {text}").fetchall())
    assert (told["call"], told["mechanism"]) == ("dp_topk(title, 2)", "joint")
    assert told["cost"].startswith("epsilon = 1 (zcdp: rho = 0.03125, pld: range = 1)")
    assert "with probability 95 %" in told["accuracy"] and "__dp_sql_topk" in told["sql"]
    assert "mechanism := 'subset'" in told["instead"]
    assert "cdp_peel" not in str(told), "there is no delta"
    assert told["fits"] == "yes" and "left" not in told  # no budget here
    assert told["work"] == "reads each row once; no join multiplies rows"
    assert analyst.receipts == ()


def test_what_sql_refuses_explain_refuses_too(asking: AnalystSession) -> None:
    for text in (
        "SELECT count(*) FROM ratings",
        "SELECT DP_COUNT(*, epsilon := 1) FROM ratings, x",
    ):
        with pytest.raises(dp_sql.QueryError) as raised:
            asking.sql(text)
        with pytest.raises(dp_sql.QueryError) as explained:
            asking.explain(text)
        assert str(explained.value) == str(raised.value)
    assert asking.explain("SELECT 1").calls == asking.explain("SHOW TABLES").calls == ()


def test_show_and_describe_show_names_and_types_only(asking: AnalystSession) -> None:
    shown = asked(asking, "SHOW TABLES")
    assert ("ratings", "private") in shown and ("catalog", "public") in shown
    assert all(len(row) == 2 for row in shown) and "unnamed" not in str(shown)
    assert ("title", "VARCHAR") in asked(asking, "DESCRIBE ratings")
    with pytest.raises(errors.NotSupported, match="There is no table unnamed"):
        asking.sql("DESCRIBE unnamed")
    with pytest.raises(errors.NotSupported, match="Did you mean ratings"):
        asking.sql("DESCRIBE rating")
    with pytest.raises(errors.NotSupported, match="Under a policy you can run") as refused:
        asking.sql("PREPARE one AS SELECT 1")
    assert refused.value.suggestion == "SELECT 1"
    with pytest.raises(errors.NotSupported, match="There is no statement to run"):
        asking.sql(" -- nothing")


def test_a_table_whose_name_holds_a_dot_is_shown_wherever_tables_are(tmp_path: Path) -> None:
    sql = 'CREATE SCHEMA "a.b"; CREATE TABLE "a.b"."my.table" AS SELECT 1 AS x;'
    policy = tmp_path / "policy.toml"
    policy.write_text("""[public]\ntables = ['"a.b"."my.table"']""", "utf-8")
    write_database(tmp_path / "shop.duckdb", sql)
    with dp_sql.connect(str(tmp_path / "shop.duckdb"), policy=policy, analyst="ann") as session:
        assert session.sql("SHOW TABLES").fetchall() == [('"a.b"."my.table"', "public")]
        (table,) = analyst_names(session).tables
        assert (table.path, table.columns) == (("a.b", "my.table"), (("x", "INTEGER"),))
        made = 'CREATE TABLE "a.b"."my.table"("x" INTEGER);'
        assert attached_catalog(session, TABLES).fetchall() == [("a.b", made, "table")]


def test_show_tables_quotes_a_name_that_is_a_keyword(tmp_path: Path) -> None:
    sql = (
        'CREATE TABLE "order" AS SELECT 1 AS x; CREATE SCHEMA s; CREATE TABLE s."group" (x INTEGER)'
    )
    policy = tmp_path / "policy.toml"
    policy.write_text('public.tables = ["order", "s.group"]', "utf-8")
    write_database(tmp_path / "shop.duckdb", sql)
    with dp_sql.connect(str(tmp_path / "shop.duckdb"), policy=policy, analyst="ann") as session:
        names = [name for name, _ in session.sql("SHOW TABLES").fetchall()]
        assert names == ['"order"', "s.group"]
        for name in names:
            assert session.sql(f"DESCRIBE {name}").fetchall() == [("x", "INTEGER")]
            session.sql(f"FROM {name}")


def test_a_schema_may_be_called_as_duckdb_calls_a_database_in_memory(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('[public]\ntables = ["memory.t"]', "utf-8")
    for name, table in (("shop", "memory.t"), ("Memory", "memory.memory.t")):
        path = tmp_path / f"{name}.duckdb"
        write_database(path, "CREATE SCHEMA memory; CREATE TABLE made.memory.t AS SELECT 1")
        with dp_sql.connect(str(path), policy=policy, analyst="ann") as session:
            assert session.sql(f"FROM {table}").fetchall() == [(1,)]


def test_describe_shows_the_columns_of_a_listed_view_that_analysts_may_read(
    asking: AnalystSession,
) -> None:
    assert asked(asking, "DESCRIBE recent") == [("reader", "BIGINT"), ("title", "VARCHAR")]


def test_a_statement_with_a_nul_is_refused(asking: AnalystSession) -> None:
    with pytest.raises(errors.NotSupported, match="NUL character"):
        asking.sql("SELECT 1 AS a\0, secret")


def test_a_statement_that_is_too_long_is_read_by_nothing(
    asking: AnalystSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    monkeypatch.setattr(duckdb_errors, "is_balanced", read.append)
    for ask in (asking.sql, asking.explain):
        with pytest.raises(errors.NotSupported, match="200,000 bytes"):
            ask("SELECT " + "x," * MAX_BYTES)
    assert not read


def test_a_view_that_is_not_person_level_is_not_described(tmp_path: Path) -> None:
    more = MORE.replace("WHERE year > 2002", "WHERE title IN (SELECT title FROM ratings)")
    database, policy = write(tmp_path, more=more)
    with (
        dp_sql.connect(database, policy=policy, analyst="reporting") as session,
        pytest.raises(errors.NotPrivate, match="The view recent is not provably person-level"),
    ):
        session.sql("DESCRIBE recent")


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("written", "most"), [("", 200), (", max_contributions := 150", 150), (", report := true", 200)]
)
def test_the_search_for_a_bound_ends_at_the_limit(
    analyst: AnalystSession, written: str, most: int
) -> None:
    (one,) = analyst.explain(
        f"SELECT DP_COUNT_DISTINCT(title, epsilon := 1{written}) FROM ratings"
    ).calls
    assert f"chosen from 1, 2, 4, … up to {most} " in one.accuracy


@pytest.mark.parametrize("aggregate", ["max()", "min()", "sum()"])
def test_an_aggregate_of_nothing_is_refused(asking: AnalystSession, aggregate: str) -> None:
    source = f"(SELECT user_id, {aggregate} AS title FROM ratings GROUP BY user_id)"
    with pytest.raises(errors.QueryError):  # sqlglot 28 cannot read it
        asking.sql(f"SELECT DP_TOPK(title, 2, epsilon := 1) FROM {source}")


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("SELECT DP_TOPK(title, 51, epsilon := 1, domain := ['a']) FROM ratings", "ArgumentError", "k is more than the policy allows: at most 50"),
        ("SELECT DP_TOPK(title, 1, epsilon := 1, delta := 1e-9) FROM ratings", "ArgumentError", "The policy allows no delta"),
        ("SELECT DP_COUNT_DISTINCT(title, epsilon := 1, max_contributions := 201) FROM ratings", "ArgumentError", "max_contributions is more than"),
        ("SELECT DP_COUNT_DISTINCT(title, epsilon := 1, contribution_bound := 201) FROM ratings", "ArgumentError", "contribution_bound is more than"),
        ("SELECT DP_TOPK(title, 1, epsilon := 1, domain := observed) FROM ratings", "ArgumentError", "domain := observed is allowed only if the policy"),
        ("SELECT DP_TOPK(title, 1, epsilon := 1, domain := ratings.title) FROM ratings", "ArgumentError", "is not a column of a public table"),
        ("SELECT DP_TOPK(year, 1, epsilon := 1) FROM ratings", "ArgumentError", "the policy declares none for year"),
        ("SELECT DP_TOPK(title, 1, epsilon := 1) FROM unnamed", "NotPrivate", "There is no table unnamed"),
        ("FROM memory.main.answer_1", "SourceError", "There is no table memory.main.answer_1"),
        ("SELECT DP_TOPK(title, 1, epsilon := 1) FROM rating", "NotPrivate", "Did you mean ratings"),
        ("SELECT DP_TOPK(title, 1, epsilon := 1) FROM catalog", "NotPrivate", "This source is public"),
        ("SELECT DP_TOPK(title, 1, epsilon := 1) FROM ratings LIMIT 1", "NotSupported", "LIMIT next to a DP call"),
        ("SELECT DP_SELECT(title, year, 1, epsilon := 1) FROM ratings", "NotSupported", "is not available under a policy"),
        ("CREATE TABLE x AS SELECT 1", "NotSupported", "Under a policy you can run SELECT"),
        ("SELECT 1; SELECT 2", "NotSupported", "one statement"),
        ("EXPLAIN SELECT 1", "NotSupported", "this query has none"),
        ("EXPLAIN ANALYZE SELECT DP_TOPK(title, 1, epsilon := 1) FROM ratings", "NotSupported", "EXPLAIN must be followed"),
        ("SELECT title, DP_COUNT_DISTINCT(year, epsilon := 1, max_groups_contributed := 1) FROM ratings GROUP BY title, region, year", "ArgumentError", "DP_COUNT_DISTINCT needs groups"),
    ],
)  # fmt: skip
def test_what_a_policy_does_not_allow_is_refused(
    asking: AnalystSession, text: str, error: str, words: str
) -> None:
    with free(asking), pytest.raises(getattr(errors, error), match=words):
        asking.sql(text)


@pytest.mark.parametrize(
    ("behind", "words"),
    [("HAVING max(n) > 3", "cannot have an aggregate"), ("LIMIT (SELECT count(*) FROM ratings)", "ratings is private")],
)  # fmt: skip
def test_explain_refuses_what_would_be_refused(
    asking: AnalystSession, behind: str, words: str
) -> None:
    call = "DP_COUNT_DISTINCT(user_id, epsilon := 1, groups := ['Dune']) AS n"
    query = f"SELECT title, {call} FROM ratings GROUP BY title {behind}"
    for text in (query, f"EXPLAIN {query}", f"EXPLAIN (sql) {query}"):
        for ask in (asking.sql, asking.explain):
            with free(asking), pytest.raises(errors.QueryError, match=words):
                ask(text)


def test_what_explain_cannot_take_is_not_answered_with_an_explain_of_rows(
    asking: AnalystSession,
) -> None:
    with pytest.raises(errors.NotSupported, match="EXPLAIN must be followed") as refused:
        asking.sql("EXPLAIN DP_COUNT(*, epsilon := 1) FROM ratings")
    assert "Write instead" not in str(refused.value)


@pytest.mark.usefixtures("by_sql")
def test_a_release_that_failed_has_a_receipt(
    analyst: AnalystSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = "SELECT CAST('x' AS INTEGER) AS __dp_value WHERE $1 <> ''"
    monkeypatch.setattr(release_sql, "private_sql", lambda *_, **named: wrong)
    with pytest.raises(dp_sql.QueryError):
        analyst.sql("SELECT DP_COUNT_DISTINCT(title, epsilon := 3) FROM ratings WHERE year > 2001")
    (receipt,) = analyst.receipts
    assert receipt.loss.epsilon == 3
    assert receipt.source == "ratings WHERE year > 2001"
    assert "failed" in receipt.accuracy


def test_joins_that_could_multiply_a_persons_rows_too_far_are_refused(
    asking: AnalystSession,
) -> None:
    aliases = [f"t{i}" for i in range(3)]
    joined = "ratings a " + " ".join(f"JOIN ratings {t} USING (user_id)" for t in aliases)
    some = " AND ".join(f"{t}.title <> a.title" for t in aliases)
    many = r"could make 1,000,000,000 rows of one person"
    with pytest.raises(errors.NotSupported, match=many) as refused:
        asking.sql(f"SELECT DP_COUNT_DISTINCT(a.title, epsilon := 1) FROM {joined} WHERE {some}")
    assert "PRIMARY KEY on the column that it matches" in str(refused.value.hint)
    # Nobody reads a column of the others here, so each is read as the people in it.
    assert (
        "no join multiplies"
        in asking.explain(f"SELECT DP_COUNT_DISTINCT(a.title, epsilon := 1) FROM {joined}")
        .calls[0]
        .work
    )


def test_no_cap_is_needed_where_a_person_is_in_one_group(asking: AnalystSession) -> None:
    found = asked(
        asking,
        f"SELECT kind, DP_COUNT_DISTINCT(user_id, {SURE}, contribution_bound := 1) AS n "
        "FROM ratings GROUP BY kind ORDER BY kind",
    )
    assert dict(found) == {"novel": 30, "essay": 0, "poems": 20}
    with pytest.raises(errors.ArgumentError, match="needs max_groups_contributed"):
        asking.sql("SELECT region, DP_TOPK(title, 1, epsilon := 1) FROM ratings GROUP BY region")


@pytest.mark.usefixtures("by_sql")
def test_an_error_after_the_debit_is_one_sentence(
    analyst: AnalystSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = "SELECT CAST('canary 4711' AS INTEGER) AS __dp_value WHERE $1 <> ''"
    monkeypatch.setattr(release_sql, "private_sql", lambda *_, **named: wrong)
    with pytest.raises(dp_sql.QueryError) as caught:
        analyst.sql(f"SELECT DP_COUNT_DISTINCT(title, {SURE}) FROM ratings")
    assert str(caught.value) == duckdb_private.FAILED
    chain = [caught.value, caught.value.__cause__, caught.value.__context__]
    assert "4711" not in "".join(map(str, chain))


@pytest.mark.usefixtures("by_sql")
def test_an_error_of_any_kind_after_the_debit_is_the_same_sentence(
    analyst: AnalystSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **named: object) -> str:
        raise MemoryError("canary 4711")

    monkeypatch.setattr(release_sql, "private_sql", broken)
    with pytest.raises(dp_sql.QueryError) as caught:
        analyst.sql(f"SELECT DP_COUNT_DISTINCT(title, {SURE}) FROM ratings")
    assert str(caught.value) == duckdb_private.FAILED
    assert "4711" not in f"{caught.value.__cause__}{caught.value.__context__}"


def test_a_table_may_be_named_by_its_database(tmp_path: Path) -> None:
    path, policy = tmp_path / "store.duckdb", tmp_path / "policy.toml"
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE TABLE ratings AS SELECT i AS user_id FROM range(40) t(i)")
        con.execute("CREATE SCHEMA other; CREATE TABLE other.plays AS FROM ratings")
    policy.write_text(
        '[tables]\nratings.privacy_unit = "user_id"\n"other.plays".privacy_unit = "user_id"\n'
    )
    with dp_sql.connect(path, policy=policy) as session:
        for name in (
            "store.ratings",
            "store.main.ratings",
            "STORE.RATINGS",
            "store.other.plays",
            "other.plays",
        ):
            text = f"SELECT DP_COUNT_DISTINCT(user_id, epsilon := 10000) FROM {name}"
            assert session.sql(text).fetchall() == [(40,)]
        with pytest.raises(dp_sql.QueryError, match="There is no table"):
            session.sql("SELECT DP_COUNT(*, epsilon := 1) FROM store.plays")


def test_a_name_of_two_tables_is_refused_with_the_schemas_that_are_listed(tmp_path: Path) -> None:
    path, policy = tmp_path / "store.duckdb", tmp_path / "policy.toml"
    with duckdb.connect(str(path)) as con:
        con.execute('CREATE SCHEMA other; CREATE SCHEMA "Old"; CREATE TABLE t AS SELECT 1 AS u')
        con.execute('CREATE TABLE other.t AS FROM t; CREATE TABLE "Old".t AS FROM t')
    policy.write_text('[tables]\n"other.t".privacy_unit = "u"\n')
    with dp_sql.connect(path, policy=policy) as session:
        for text in ("SELECT DP_COUNT(*, epsilon := 1) FROM t", "SELECT * FROM t"):
            with pytest.raises(dp_sql.QueryError) as caught:
                session.sql(text)
            assert (caught.value.hint or "").startswith("Did you mean other.t? ")
            assert not caught.value.instead, "t may mean another table"
