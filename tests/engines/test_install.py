"""`dp_sql.install`: the dp macro in plain DuckDB; one execution is one release per call."""

import gc
import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import dp_sql
from dp_sql.engines.duckdb.arrow_rows import arrow_numbers
from dp_sql.engines.duckdb.mechanism_udfs import in_arrow_memory
from tests.conftest import READING_LOG, SURE

UNIT = f"{SURE}, privacy_unit := user_id"
_A_PLAN: Any = "a plan"
TOP = f"SELECT unnest(DP_TOPK(title, 2, {UNIT}, domain := catalog.title)) AS title FROM ratings"
BEST = [("Dune",), ("Emma",)]
# A count whose noise is so wide that two draws are equal with a probability below 1e-10.
NOISE = (
    "SELECT DP_COUNT_DISTINCT(title, epsilon := 1e-9, privacy_unit := user_id) AS n FROM ratings"
)
REPORT = NOISE.replace(") AS n", ", report := true) AS n")

Con = duckdb.DuckDBPyConnection


def releases(con: Con) -> int:
    return len(dp_sql.receipts(con))


def test_install_returns_its_connection_and_can_be_repeated(con: Con) -> None:
    assert dp_sql.install(con) is con
    assert con.sql(f"FROM dp($$ {TOP} $$)").fetchall() == BEST
    other = dp_sql.install(con.cursor())
    assert other.sql(f"FROM dp($$ {TOP} $$)").fetchall() == BEST
    assert releases(con) == releases(other) == 2


def test_dp_works_on_cursors_in_joins_views_and_tables(con: Con) -> None:
    cursor = con.cursor()
    assert cursor.sql(f"FROM dp($$ {TOP} $$)").fetchall() == BEST
    join = "JOIN (SELECT DISTINCT title FROM catalog) USING (title)"
    assert sorted(con.sql(f"SELECT title FROM dp($$ {TOP} $$) {join}").fetchall()) == BEST
    con.execute(f"CREATE TABLE best AS FROM dp($$ {TOP} $$)")
    assert con.sql("FROM best").fetchall() == BEST
    con.execute(f"CREATE VIEW always AS FROM dp($$ {TOP} $$)")
    assert releases(con) == 3
    assert cursor.sql("FROM always").fetchall() == BEST
    assert releases(con) == 4
    con.execute(f"INSERT INTO best FROM dp($$ {TOP} $$)")
    assert con.sql("SELECT count(*) FROM best").fetchall() == [(4,)]
    assert releases(con) == 5


def test_dp_takes_its_query_as_a_parameter(con: Con) -> None:
    assert con.execute("FROM dp(?)", [TOP]).fetchall() == BEST
    assert con.execute("FROM dp($text)", {"text": TOP}).fetchall() == BEST
    assert releases(con) == 2


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "head", ["EXPLAIN {}", "DESCRIBE {}", "PREPARE p AS {}", "CREATE VIEW v AS {}"]
)
def test_what_only_binds_releases_nothing(con: Con, head: str) -> None:
    con.execute(head.format(f"FROM dp($$ {NOISE} $$)")).fetchall()
    relation = con.sql(f"FROM dp($$ {NOISE} $$)")
    assert (relation.columns, [str(t) for t in relation.types]) == (["n"], ["BIGINT"])
    relation.filter("n > 0").project("n + 1")
    assert releases(con) == 0


def test_explain_does_not_print_a_draw(con: Con) -> None:
    one = f"SELECT DP_TOPK(title, 1, {UNIT}, domain := ['Dune', 'x']) FROM ratings"
    for head in ("EXPLAIN", "PREPARE p AS"):
        shown = str(con.execute(f"{head} FROM dp($$ {one} $$)").fetchall())
        assert "Dune" not in shown.replace("'Dune', 'x'", "").replace("['Dune'", "")


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT a.n = b.n FROM dp($${}$$) a, dp($${}$$) b",
        "WITH c AS MATERIALIZED (FROM dp($${}$$)) SELECT a.n = b.n FROM c a, c b",
        "WITH c AS NOT MATERIALIZED (FROM dp($${}$$)) SELECT a.n = b.n FROM c a, c b",
        "SELECT a.n = b.n FROM shown a, shown b",
        "SELECT any_value(n) = max(n) FROM dp($${}$$) GROUP BY n HAVING n = n AND n + 1 > n",
        "SELECT min(t.m) = max(t.m) FROM (SELECT n AS m FROM range(50) r(i), "
        "LATERAL (SELECT n + 0 * r.i AS n FROM dp($${}$$))) t",
        "SELECT min(n) = max(n) FROM dp($${}$$), range(5000) GROUP BY ALL",
        "SELECT bool_and(m = n) FROM (SELECT n, max(n) OVER () AS m FROM shown "
        "UNION ALL SELECT n, n FROM dp($${}$$))",
        "SELECT a.n = (SELECT n FROM dp($${}$$)) FROM dp($${}$$) a",
    ],
)  # fmt: skip
def test_no_result_mixes_two_draws(con: Con, statement: str) -> None:
    con.execute(f"CREATE VIEW shown AS FROM dp($${NOISE}$$)")
    result = con.execute(statement.replace("{}", NOISE)).fetchall()
    assert {row[-1] for row in result} == {True}
    assert releases(con) == 1


def test_the_fields_of_one_report_come_from_one_draw(con: Con) -> None:
    fields = "SELECT unnest(n), n.estimate AS again, n.lower_bound - n.estimate AS gap FROM c"
    text = f"WITH c AS NOT MATERIALIZED ({REPORT}) {fields}"
    estimate, lower, *_, again, gap = con.execute("FROM dp(?)", [text]).fetchall()[0]
    assert (again, gap) == (estimate, lower - estimate)
    assert releases(con) == 1
    con.sql(f"SELECT unnest(n), n.estimate FROM dp($$ {REPORT} $$)").fetchall()
    assert releases(con) == 2


def test_a_filter_outside_is_not_pushed_below_the_release(con: Con) -> None:
    text = TOP.replace("AS title", "AS t")
    query = f"SELECT t, count(*) FROM dp($$ {text} $$) WHERE t <> 'Dune' GROUP BY ALL"
    assert con.sql(query).fetchall() == [("Emma", 1)]
    query = f"FROM (SELECT t FROM dp($$ {text} $$) GROUP BY t) WHERE t = 'Ulysses'"
    assert con.sql(query).fetchall() == []
    assert releases(con) == 2


def test_equal_calls_in_one_query_are_one_release(con: Con) -> None:
    call = NOISE.split("SELECT ")[1].split(" AS n")[0]
    ((a, b),) = con.sql(f"FROM dp($$ SELECT {call} AS a, {call} AS b FROM ratings $$)").fetchall()
    assert a == b
    assert releases(con) == 1


def test_pivot_without_in_runs_its_query_twice_as_the_docs_say(con: Con) -> None:
    query = NOISE.replace("SELECT", "SELECT 'a' AS x,")
    answer = f"PIVOT (FROM dp($$ {query} $$)) ON x"
    con.execute(f"{answer} IN ('a', 'b') USING sum(n)").fetchall()
    assert releases(con) == 1
    con.execute(f"{answer} USING sum(n)").fetchall()
    assert releases(con) == 3


def test_windows_over_plain_calls_are_refused_in_the_words_of_the_docs(con: Con) -> None:
    call = NOISE.split("SELECT ")[1].split(" AS n")[0]
    text = f"SELECT rank() OVER (ORDER BY {call}) AS r FROM ratings"
    with pytest.raises(duckdb.Error, match=r"cannot be volatile|FROM dp\(\$\$ SELECT rank"):
        con.execute(text)
    assert con.execute(f"FROM dp($$ {text} $$)").fetchall() == [(1,)]


def test_each_reading_of_a_relation_is_an_execution(con: Con) -> None:
    relation = con.sql(f"FROM dp($$ {NOISE} $$)")
    first = con.execute(f"FROM dp($$ {NOISE} $$)").fetchall()
    second = con.execute(f"FROM dp($$ {NOISE} $$)").fetchall()
    assert first != second
    assert releases(con) == 2
    relation.to_table("kept")
    assert con.sql("FROM kept").fetchall() == con.sql("FROM kept").fetchall()
    assert releases(con) == 3


def test_each_execution_of_a_prepared_statement_is_one_release(con: Con) -> None:
    con.execute(f"PREPARE p AS FROM dp($$ {NOISE} $$)")
    answers = {con.execute("EXECUTE p").fetchall()[0] for _ in range(3)}
    assert len(answers) == releases(con) == 3


def test_executions_inside_one_transaction_are_separate_releases(con: Con) -> None:
    con.execute("BEGIN")
    answers = {con.execute(f"FROM dp($$ {NOISE} $$)").fetchall()[0] for _ in range(3)}
    con.execute("COMMIT")
    assert len(answers) == releases(con) == 3


def test_an_empty_source_is_answered_and_not_skipped(con: Con) -> None:
    con.execute("CREATE TABLE nobody (user_id INTEGER, title VARCHAR)")
    text = NOISE.replace("ratings", "nobody")
    assert con.sql(f"SELECT n IS NOT NULL FROM dp($$ {text} $$)").fetchall() == [(True,)]
    text = TOP.replace("ratings", "nobody")
    assert len(con.sql(f"FROM dp($$ {text} $$)").fetchall()) == 2
    assert releases(con) == 2


def test_refusals_come_while_duckdb_binds(con: Con) -> None:
    bad = TOP.replace(SURE, "epsilon := 0")
    with pytest.raises(duckdb.Error, match=r"ArgumentError: epsilon must be(.|\n)*\n +\^"):
        con.sql(f"FROM dp($$ {bad} $$)")
    with pytest.raises(duckdb.Error, match="NotPrivate: "):
        con.execute(f"CREATE VIEW v AS FROM dp($$ {TOP} TABLESAMPLE 10% $$)")
    with pytest.raises(duckdb.Error, match="dp takes exactly one query"):
        con.sql(f"FROM dp($$ {TOP}; DROP TABLE ratings $$)")
    with pytest.raises(
        duckdb.Error, match=r"dp takes a query, not CREATE(.|\n)*Write CREATE TABLE"
    ):
        con.sql(f"FROM dp($$ CREATE TABLE t AS {TOP} $$)")
    with pytest.raises(duckdb.Error, match="dp takes a query, not FORMAT"):
        con.sql(f"FROM dp($$ EXPLAIN (FORMAT json) {TOP} $$)")
    with pytest.raises(duckdb.Error, match=r"dp takes exactly one query.\n(.|\n)*SELECT … \$\$\)$"):
        con.sql("FROM dp($$ $$)")
    with pytest.raises(
        duckdb.Error, match=r"not PIVOT(.|\n)*Write PIVOT around it: PIVOT \(FROM dp\("
    ):
        con.sql(f"FROM dp($$ PIVOT ({TOP}) ON title $$)")
    with pytest.raises(duckdb.Error, match=r"NotSupported: There is no function DP_STDDEV\."):
        con.sql("FROM dp($$ SELECT DP_STDDEV(user_id, epsilon := 1) FROM ratings $$)")
    with pytest.raises(
        duckdb.Error,
        match=r"ParseError: (.|\n)*\nFROM dp\(\$\$ SELECT DP_COUNT\(\*, epsilon := 1, privacy_unit",
    ):
        con.sql("""FROM dp($$ SELECT WITH DIFFERENTIAL_PRIVACY
            OPTIONS(epsilon = 1, privacy_unit_column = user_id) COUNT(*) FROM ratings $$)""")
    assert releases(con) == 0


@pytest.mark.parametrize(
    "text",
    [
        "SELECT nosuch(n) FROM ({}) AS t(n)", "SELECT m FROM ({}) AS t(n)", "SELECT n FROM ({}) AS t(n), nosuch",
        "SELECT n + 'x'::INT FROM ({}) AS t(n)", "SELECT n, x FROM ({}) AS t(n), hidden",
        "SELECT title, {call}, DP_COUNT(user_id, {more}) FROM ratings GROUP BY title",
    ],
)  # fmt: skip
def test_explain_in_dp_refuses_what_running_refuses(con: Con, text: str) -> None:
    con.execute("CREATE TEMP TABLE hidden AS SELECT 1 AS x")
    more = "epsilon := 1, privacy_unit := user_id, delta := 1e-6"
    asked = text.format(NOISE, call=f"DP_COUNT(*, {more})", more=more)
    said = []
    for word in ("", "EXPLAIN "):
        with pytest.raises(duckdb.Error) as error:
            con.sql(f"FROM dp($$ {word}{asked} $$)").fetchall()
        said.append(str(error.value).partition("\n")[0])
    assert said[0] == said[1]
    assert releases(con) == 0


@pytest.mark.parametrize(
    ("listed", "instead"),
    [("{} AS n", "n"), ("{} + 1 AS n", "{}"), ("round({} / 2)", "{}")],
)
def test_an_aggregate_in_having_is_proposed_as_the_answer(
    con: Con, listed: str, instead: str
) -> None:
    call = "DP_COUNT(1, epsilon := 1, privacy_unit := user_id, groups := ['a', 'b'])"
    text = f"SELECT title, {listed.format(call)} FROM ratings GROUP BY title HAVING {{}} > 3"
    for asked in (text.format("count(*)"), f"FROM dp($$ {text.format('count(*)')} $$)"):
        with pytest.raises(duckdb.Error, match="cannot have an aggregate") as error:
            con.execute(asked).fetchall()
        proposed = str(error.value).partition("Write instead:\n")[2].partition("\n\nLINE")[0]
        assert proposed == f"FROM dp($$ {text.format(instead.format(call))} $$)"
        con.sql(proposed).fetchall()


def test_explain_in_dp_sees_what_dp_sees(con: Con) -> None:
    con.execute("CREATE TEMP MACRO twice(x) AS 2 * x; CREATE SEQUENCE numbers")
    asked = f"SELECT twice(n), nextval('numbers') FROM ({NOISE}) AS t(n)"
    assert dict(con.sql(f"FROM dp($$ EXPLAIN {asked} $$)").fetchall())["fits"] == "yes"
    assert con.sql("SELECT nextval('numbers')").fetchall() == [(1,)]


def test_explain_in_dp_shows_the_price_of_a_query_and_releases_nothing(con: Con) -> None:
    rows = dict(con.sql(f"FROM dp($$ EXPLAIN {NOISE} $$)").fetchall())
    assert rows["fits"] == "yes" and rows["cost"].startswith("epsilon = ")
    assert "sql" in dict(con.sql(f"FROM dp($$ EXPLAIN (sql) {NOISE} $$)").fetchall())
    with pytest.raises(duckdb.Error, match="this query has none"):
        con.sql("FROM dp($$ EXPLAIN SELECT 1 $$)")
    with pytest.raises(
        duckdb.Error, match=r"Write: FROM dp\(\$\$ EXPLAIN SELECT .*params := row\(\?\)"
    ):
        con.sql(f"FROM dp($$ EXPLAIN {NOISE} WHERE user_id > ? $$)")
    assert releases(con) == 0


def test_an_observed_domain_that_is_too_small_is_refused(con: Con) -> None:
    text = f"SELECT DP_TOPK(title, 9, {UNIT}, domain := observed) FROM ratings"
    with pytest.raises(duckdb.Error, match="k = 9 is more than the 4 items observed"):
        con.sql(f"FROM dp($$ {text} $$)").fetchall()
    assert releases(con) == 0


def test_a_dataframe_is_found_in_the_callers_frame(con: Con) -> None:
    pd = pytest.importorskip("pandas")
    text = books = pd.DataFrame({"user_id": [1, 2, 3], "title": ["Dune", "Emma", "Dune"]})
    for name in ("text", "books"):
        query = TOP.replace("FROM ratings", f"FROM {name}")
        assert con.sql(f"FROM dp($$ {query} $$)").fetchall() == BEST
        assert con.execute("FROM dp(?)", [query]).fetchall() == BEST
    assert len(text) == len(books)


def test_the_schema_in_use_is_respected(con: Con) -> None:
    con.execute("CREATE SCHEMA s; CREATE TABLE s.ratings AS SELECT 1 AS user_id, 'Emma' AS title")
    con.execute("CREATE TABLE s.catalog AS FROM catalog; USE s")
    assert con.sql(f"FROM dp($$ {TOP} $$)").fetchall()[0] == ("Emma",)


def test_an_attached_database_can_be_read(con: Con, tmp_path: Path) -> None:
    con.execute(f"ATTACH '{tmp_path / 'other.duckdb'}' AS other")
    con.execute("CREATE TABLE other.ratings AS SELECT 1 AS user_id, 'Emma' AS title")
    text = TOP.replace("FROM ratings", "FROM other.ratings")
    assert con.sql(f"FROM dp($$ {text} $$)").fetchall()[0] == ("Emma",)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("written", ["{}", "FROM dp($$ {} $$)"])
def test_calls_are_answered_while_another_database_is_in_use(con: Con, written: str) -> None:
    con.execute("ATTACH ':memory:' AS other; USE other")
    text = TOP.replace("catalog.title", "memory.catalog.title")
    there = written.format(text.replace("FROM ratings", "FROM memory.ratings"))
    assert con.sql(there).fetchall() == BEST
    con.execute("CREATE TABLE ratings AS SELECT 1 AS user_id, 'Emma' AS title")
    assert con.sql(written.format(text)).fetchall()[0] == ("Emma",)
    assert con.sql(there).fetchall() == BEST
    con.execute("USE memory")
    assert con.sql(written.format(TOP)).fetchall() == BEST


def test_a_file_is_free_again_after_close(tmp_path: Path) -> None:
    path = str(tmp_path / "log.duckdb")
    con = dp_sql.install(duckdb.connect(path))
    con.execute(READING_LOG)
    assert con.sql(f"FROM dp($$ {TOP} $$)").fetchall() == BEST
    con.execute(f"CREATE VIEW best AS FROM dp($$ {TOP} $$)")
    con.close()
    gc.collect()
    with duckdb.connect(path, read_only=True) as plain:
        with pytest.raises(
            duckdb.Error,
            match=r"call dp_sql\.install\(con\) first\), so the macro dp does not exist",
        ):
            plain.sql("FROM best")
        assert dp_sql.install(plain).sql("FROM best").fetchall() == BEST


def test_install_keeps_temporary_macros_of_the_user() -> None:
    with duckdb.connect() as con:
        con.execute("CREATE TEMP MACRO dp(x) AS TABLE SELECT x + 1 AS y")
        con.execute("CREATE TEMP MACRO dp_topk(x) AS x + 1")
        dp_sql.install(con)
        assert con.sql("SELECT y, dp_topk(y) FROM dp(1)").fetchall() == [(2, 3)]
        con.execute(READING_LOG)
        (n,) = con.sql(f"SELECT DP_COUNT(1, {UNIT}) FROM ratings").fetchall()[0]
        assert n > 0


def test_a_macro_of_the_users_is_not_replaced() -> None:
    with duckdb.connect() as con:
        con.execute("CREATE MACRO DP_TopK(x) AS x + 1")
        with pytest.raises(dp_sql.DpSqlError, match="has a macro dp_topk of its own"):
            dp_sql.install(con)
        assert con.sql("SELECT dp_topk(1)").fetchall() == [(2,)]
        con.execute("DROP MACRO dp_topk")
        assert dp_sql.install(dp_sql.install(con)) is con


def test_two_databases_keep_their_own_receipts(con: Con) -> None:
    with duckdb.connect() as other:
        other.execute(READING_LOG)
        dp_sql.install(other)
        con.sql(f"FROM dp($$ {TOP} $$)").fetchall()
        assert (releases(con), releases(other)) == (1, 0)
    with duckdb.connect() as plain:
        assert dp_sql.receipts(plain) == ()


def test_many_threads_release_once_each(con: Con) -> None:
    answers = []

    def ask() -> None:
        cursor = con.cursor()
        answers.append(cursor.execute(f"FROM dp($$ {NOISE} $$)").fetchall()[0])
        cursor.close()

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(answers)) == releases(con) == 8


def test_a_ticket_is_no_parameter(con: Con) -> None:
    udf = "SELECT __dp_sql_topk('{}', 1, 1, [3, 2]::BIGINT[])"
    with pytest.raises(duckdb.Error, match="ticket is unknown or used"):
        con.execute(udf.format("once-1")).fetchall()
    assert releases(con) == 0


def test_a_sessions_ticket_is_good_for_one_release() -> None:
    from dp_sql.engines.duckdb.tickets import Drawn, Tickets

    tickets, plan = Tickets(), _A_PLAN
    tickets._record = lambda *_: None  # type: ignore[method-assign]
    ticket = tickets.issue_once(plan)
    assert tickets.redeem(ticket, (1, 1), lambda _: Drawn(7, "")) == 7
    assert tickets.redeem(ticket, (1, 1), lambda _: Drawn(8, "")) == 7  # the same execution
    with pytest.raises(dp_sql.InternalError, match="unknown or used"):
        tickets.redeem(ticket, (1, 2), lambda _: Drawn(8, ""))


def test_groups_are_drawn_once_per_execution() -> None:
    from dp_sql.engines.duckdb.tickets import Tickets

    tickets, draws = Tickets(), iter([[1], [2], [3]])
    first = tickets.draw_once("t", (1, 1), lambda: next(draws))
    assert tickets.draw_once("t", (1, 1), lambda: next(draws)) == first == [1]
    assert tickets.draw_once("t", (1, 2), lambda: next(draws)) == [2]
    assert tickets.draw_once("u", (1, 1), lambda: next(draws)) == [3]


@pytest.mark.parametrize("limit", ["_MAX_ANSWERS", "_MAX_PEOPLE"])
def test_an_answer_is_forgotten_with_the_groups_it_was_computed_from(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else places in an old answer would pick items by counts over other groups."""
    from dp_sql.engines.duckdb import tickets as tickets_file
    from dp_sql.engines.duckdb.tickets import Drawn, Tickets

    monkeypatch.setattr(tickets_file, limit, 8)
    tickets, plan = Tickets(), _A_PLAN
    monkeypatch.setattr(tickets, "_record", lambda *_: None)
    names = [tickets.issue(plan, "text", number) for number in range(20)]
    drawn: dict[str, list[int]] = {}

    def reading() -> list[tuple[list[int], int]]:
        found = []
        for ticket in names:
            groups = tickets.draw_once(ticket, (1, 1), lambda: [len(drawn)])
            drawn[f"{ticket} {groups}"] = groups
            answer = tickets.redeem(ticket, (1, 1), lambda _, g=groups: Drawn(g[0], ""))
            found.append((groups, answer))
        return found

    for _ in range(3):
        assert all(groups == [answer] for groups, answer in reading())


@pytest.mark.parametrize("what", ["redeem", "once", "draw_once"])
@pytest.mark.parametrize("limit", ["_MAX_ANSWERS", "_MAX_PEOPLE"])
def test_an_answer_is_not_forgotten_while_it_is_drawn(
    what: str, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else another reading in the same execution would draw anew: two answers instead of one."""
    from dp_sql.engines.duckdb import tickets as tickets_file
    from dp_sql.engines.duckdb.tickets import Drawn, Tickets

    monkeypatch.setattr(tickets_file, limit, 1)
    tickets, draws = Tickets(), itertools.count()
    monkeypatch.setattr(tickets, "_record", lambda *_: None)
    ticket, found = tickets.issue(_A_PLAN, "text", 1), []
    others: list[threading.Thread] = []

    def drawn(*_: object) -> Any:
        number = next(draws)
        if not others:  # other executions, and a second reading of this one, while it draws
            for n in range(3):
                tickets.draw_once("another", (2, n), lambda: [0, 0])
            others.append(threading.Thread(target=lambda: found.append(reading())))
            others[0].start()
        return {"redeem": Drawn(number, ""), "once": str(number), "draw_once": [number]}[what]

    def reading() -> object:
        return getattr(tickets, what)(ticket, (1, 1), drawn)

    found.append(reading())
    others[0].join()
    assert next(draws) == 1
    assert found[0] == found[1]
    for n in range(3):  # the limit still holds for all others
        tickets.draw_once("another", (3, n), lambda: [0, 0])
    assert [key[1:] for key in tickets._answers] == [(3, 2)]


def test_an_answer_whose_groups_were_forgotten_is_not_given_with_other_groups() -> None:
    from dp_sql.engines.duckdb.tickets import Drawn, Tickets

    tickets, plan = Tickets(), _A_PLAN
    tickets._record = lambda *_: None  # type: ignore[method-assign]
    ticket = tickets.issue(plan, "text", 1)
    assert tickets.redeem(ticket, (1, 1), lambda _: Drawn("old", "")) == "old"
    assert tickets.draw_once(ticket, (1, 1), lambda: [1]) == [1]
    assert tickets.redeem(ticket, (1, 1), lambda _: Drawn("new", "")) == "new"


def test_readings_that_both_find_no_groups_draw_them_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from dp_sql.engines.duckdb.tickets import Drawn, Tickets

    tickets, draws = Tickets(), itertools.count()
    monkeypatch.setattr(tickets, "_record", lambda *_: None)
    ticket, found = tickets.issue(_A_PLAN, "text", 1), []
    tickets.redeem(ticket, (1, 1), lambda _: Drawn("old", ""))
    alone, between = tickets._answer, []

    @contextmanager
    def answer(*key: Any) -> Iterator[Any]:
        with alone(*key) as one:
            yield one
        if between:  # another reading, before this one goes on
            between.pop()()

    def reading() -> None:
        found.append(tickets.draw_once(ticket, (1, 1), lambda: [next(draws)]))

    monkeypatch.setattr(tickets, "_answer", answer)
    between.append(reading)
    reading()
    assert found == [[0], [0]]


def test_dp_works_on_a_connection_that_shares_its_instance_with_an_analyst(tmp_path: Path) -> None:
    database, policy = str(tmp_path / "shop.duckdb"), tmp_path / "policy.toml"
    with duckdb.connect(database) as con:
        con.execute("CREATE TABLE ratings AS SELECT 1 AS user_id, 'Dune' AS title")
    policy.write_text('[tables.ratings]\nprivacy_unit = "user_id"\n')
    top = f"SELECT DP_TOPK(title, 1, {UNIT}, domain := ['Dune']) FROM ratings"
    with (
        dp_sql.connect(database, policy=policy),
        dp_sql.connect(database, read_only=True) as owner,
    ):
        assert owner.connection.execute(f"FROM dp($$ {top} $$)").fetchall() == [(["Dune"],)]


def test_answers_of_functions_hold_no_memory_of_python() -> None:
    column = arrow_numbers(np.arange(9), "int64")
    for answer in (column, pa.ListArray.from_arrays(arrow_numbers([0, 9], "int32"), column)):
        gc.collect()
        before = pa.total_allocated_bytes()
        copied = in_arrow_memory(lambda answer=answer: answer)()
        assert copied.equals(answer)
        assert pa.total_allocated_bytes() - before >= 9 * 8
        del copied
        assert pa.total_allocated_bytes() == before
