"""DP calls in plain DuckDB after `dp_sql.install`: answered once per execution, or refused."""

import re
import threading
from collections.abc import Callable, Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dp_sql
from dp_sql.engines.duckdb.connection import Engine
from dp_sql.engines.duckdb.tickets import Tickets
from dp_sql.errors import NotSupported
from dp_sql.privacy.around import check_around
from dp_sql.session import plain_call
from dp_sql.sql.statement import parse
from tests.conftest import READING_LOG, SURE

Con = duckdb.DuckDBPyConnection
UNIT = f"{SURE}, privacy_unit := user_id"
CALL = f"DP_TOPK(title, 2, {UNIT}, domain := catalog.title)"
TOP = f"SELECT {CALL} AS best FROM ratings"
BEST = [(["Dune", "Emma"],)]
DAY = date(2026, 1, 15)
COUNT = f"DP_COUNT_DISTINCT(title, {UNIT}"
# A count whose noise is so wide that two draws are equal with a probability below 1e-10.
NOISY = "DP_COUNT_DISTINCT(title, epsilon := 1e-9, privacy_unit := user_id"
NOISE = f"SELECT {NOISY}) AS n FROM ratings"

MORE = f"""
CREATE VIEW always AS {TOP};
CREATE VIEW readers AS FROM ratings;
CREATE MACRO hidden() AS ({TOP});
CREATE MACRO most(x) AS max(x);
CREATE TABLE kept (best VARCHAR[]);
CREATE TABLE people AS SELECT user_id AS uid, title FROM ratings;
CREATE SCHEMA other;
CREATE VIEW other.renamed AS SELECT uid AS user_id, title FROM people;
CREATE TABLE person AS SELECT max(user_id) AS user_id FROM ratings;
CREATE TABLE once (user_id BIGINT UNIQUE, title VARCHAR);
CREATE MACRO initcap(x) AS (SELECT count(*) FROM ratings);
CREATE TABLE scores AS FROM (VALUES ('tree', 810, 4), ('line', 90, 4)) AS s(model, accuracy, sens);
"""


@pytest.fixture(scope="module")
def plain() -> Iterator[Con]:
    with duckdb.connect() as con:
        con.execute(READING_LOG)
        dp_sql.install(con)
        con.execute(MORE)
        yield con


def releases(con: Con) -> int:
    return len(dp_sql.receipts(con))


WAYS: dict[str, Callable[[Con, str], Any]] = {
    "execute": lambda con, sql: con.execute(sql).fetchall(),
    "sql": lambda con, sql: con.sql(sql).fetchall(),
    "cursor": lambda con, sql: con.cursor().sql(sql).fetchall(),
    "second of three": lambda con, sql: con.execute(f"SELECT 1; {sql} ; ").fetchall(),
    "arrow": lambda con, sql: [(con.sql(sql).to_arrow_table().column(0).to_pylist()[0],)],
    "filter": lambda con, sql: con.sql(sql).filter("len(best) > 0").fetchall(),
    "limit": lambda con, sql: con.sql(sql).limit(1).fetchall(),
    "order": lambda con, sql: con.sql(sql).project("best").order("best DESC").fetchall(),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("way", WAYS)
def test_each_execution_is_one_release_with_one_receipt(plain: Con, way: str) -> None:
    before = releases(plain)
    assert WAYS[way](plain, TOP) == BEST
    assert releases(plain) == before + 1
    receipt = dp_sql.receipts(plain)[-1]
    assert (receipt.loss.epsilon, receipt.mechanism) == (10000, "joint")


@pytest.mark.parametrize(
    "kept",
    ["extract(epoch FROM TIMESTAMP '2020-01-01') > year", "substring(title FROM 1 FOR 1) < 'Z'",
     "position('q' IN title) = 0", "(TIMESTAMP '2020-01-01' AT TIME ZONE 'UTC') IS NOT NULL"],
)  # fmt: skip
def test_relations_may_call_functions_without_their_names(plain: Con, kept: str) -> None:
    """DuckDB 1.5 prints them with the schema main."""
    assert plain.sql(f"{TOP} WHERE {kept}").fetchall() == BEST


@pytest.mark.parametrize(
    ("call", "answer"),
    [("DP_MEDIAN(day, {}, lower := DATE '2026-01-01', upper := CAST('2026-03-01' AS DATE), "
      "step := INTERVAL 1 WEEK)", DAY),
     ("DP_MEDIAN(day, {}, lower := '2026-01-01'::DATE, upper := '2026-03-01')", DAY),
     ("DP_MEDIAN(day::TIMESTAMP, {}, lower := TIMESTAMP '2026-01-01', step := INTERVAL 1 SECOND, "
      "upper := TIMESTAMP '2026-03-01')", datetime(2026, 1, 15)),
     ("DP_TOPK(n, 1, {}, domain := range(5))", [3]),
     ("DP_TOPK(day, 1, {}, domain := generate_series(DATE '2026-01-01', DATE '2026-02-01', "
      "INTERVAL '1 day'))", [DAY]),
     ("DP_TOPK(day, 1, {}, domain := generate_series(DATE '2026-01-01', DATE '2026-02-01', "
      "INTERVAL 1 DAY))", [DAY])],
)  # fmt: skip
def test_relations_have_literals_as_people_write_them(plain: Con, call: str, answer: Any) -> None:
    """DuckDB 1.5 prints them as casts and calls of functions."""
    source = "(SELECT user_id, DATE '2026-01-15' AS day, 3 AS n FROM ratings)"
    assert plain.sql(f"SELECT {call.format(UNIT)} FROM {source}").fetchall() == [(answer,)]


def test_a_relation_is_released_each_time_it_is_run(
    plain: Con, capsys: pytest.CaptureFixture[str]
) -> None:
    before = releases(plain)
    relation = plain.sql(NOISE)
    assert (relation.columns, [str(t) for t in relation.types]) == (["n"], ["BIGINT"])
    narrower = relation.filter("n > 0").project("n + 1")
    assert releases(plain) == before
    relation.show()
    assert "int64" in capsys.readouterr().out
    assert releases(plain) == before + 1
    assert relation.fetchall() != plain.sql(NOISE).fetchall()
    narrower.fetchall()
    assert releases(plain) == before + 4


@pytest.mark.parametrize(
    "head", ["EXPLAIN {}", "DESCRIBE {}", "PREPARE p AS {}", "CREATE OR REPLACE VIEW v AS {}"]
)
def test_what_only_binds_releases_nothing(plain: Con, head: str) -> None:
    before = releases(plain)
    plain.execute(head.format(TOP)).fetchall()
    assert releases(plain) == before


ANSWERED = [  # (statement, rows, releases)
    (f"SELECT unnest({CALL}) AS title FROM ratings", [("Dune",), ("Emma",)], 1),
    (f"SELECT unnest({CALL}) AS t FROM ratings ORDER BY t DESC LIMIT 1", [("Emma",)], 1),
    (f"SELECT best[1] FROM ({TOP})", [("Dune",)], 1),
    (f"FROM ratings SELECT {CALL}", BEST, 1),
    (f'select "dp_topk"(title, 2, {UNIT}, domain := catalog.title) FROM ratings', BEST, 1),
    (f"SELECT {CALL.replace(':=', '=>')} FROM ratings", BEST, 1),
    (f"SELECT 'DP_TOPK(x, 1)', {CALL} /* DP_TOPK(x) */ FROM ratings -- DP_TOPK(y)",
     [("DP_TOPK(x, 1)", *BEST[0])], 1),
    (f"WITH c AS NOT MATERIALIZED ({TOP}) SELECT a.best, b.best FROM c a, c b", [BEST[0] * 2], 1),
    (f"WITH r AS (FROM ratings WHERE year < 3000) SELECT {CALL} FROM r", BEST, 1),
    (f"SELECT {CALL}, {COUNT}), 'x' FROM ratings", [(*BEST[0], 4, "x")], 2),
    (f"SELECT {CALL}, {CALL.replace('title, 2', 'title, 1')} FROM ratings",
     [(*BEST[0], ["Dune"])], 2),
    (f"SELECT {CALL}, DP_TOPK(region, 2, {UNIT}, domain := ['north', 'south'])[1] IS NULL "
     "FROM ratings", [(*BEST[0], False)], 2),
    (f"SELECT {CALL.replace('2', '1', 1)[:-1]}, counts := true) FROM ratings",
     [([{"item": "Dune", "count": 45}],)], 1),
    (f"SELECT {COUNT}, report := true).estimate FROM ratings", [(4,)], 1),
    ("SELECT DP_SELECT(model, accuracy, sens, epsilon := 100) FROM scores", [("tree",)], 1),
    (f"SELECT c.title, best FROM ({TOP}) JOIN (SELECT DISTINCT title FROM catalog) c "
     "ON c.title = best[1]", [("Dune", *BEST[0])], 1),
    (f"SELECT {CALL} FROM readers", BEST, 1),
    (f"SELECT n, ({TOP}) FROM range(2) AS r(n)", [(0, *BEST[0]), (1, *BEST[0])], 1),
    (f"SELECT DISTINCT {CALL} FROM ratings", BEST, 1),
    (f"WITH RECURSIVE t AS (SELECT 1 AS n, best FROM ({TOP}) UNION ALL SELECT n + 1, best FROM t "
     "WHERE n < 3) SELECT best FROM t", BEST * 3, 1),
    (f"{TOP} LIMIT 0", [], 0),
    (f"SELECT {COUNT}) IS NOT NULL FROM ratings WHERE year > 9999", [(True,)], 1),
    (f"SELECT {COUNT}) IS NOT NULL FROM ratings WHERE false", [(True,)], 1),
    (f"CREATE OR REPLACE TABLE best AS {TOP}", [(1,)], 1),
    (f"INSERT INTO kept {TOP}", [(1,)], 1),
    (f"COPY ({TOP}) TO '/dev/null' (FORMAT csv)", [(1,)], 1),
]  # fmt: skip


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("statement", "rows", "n"), ANSWERED)
def test_statements_are_answered(plain: Con, statement: str, rows: Any, n: int) -> None:
    before = releases(plain)
    assert plain.execute(statement).fetchall() == rows
    assert releases(plain) == before + n


HINT = "FROM dp($$ "
GROUPED = f"{CALL[:-1]}, groups := ['north'], max_groups_contributed := 1)"
ELSEWHERE = "in a query of its own"
# DuckDB 1.5 does not show dp_sql that the call is in a PIVOT.
PIVOTED = "FROM dp($$ SELECT … $$)" + (") ON …" if duckdb.__version__ >= "2" else "")
REFUSED = [  # (statement, what its error says besides)
    (f"SELECT region, {CALL} FROM ratings GROUP BY region", "needs groups"),
    (f"SELECT region, {GROUPED} FROM ratings GROUP BY region", HINT),
    (f"SELECT region, {GROUPED} FROM ratings GROUP BY ALL", HINT),
    (f"SELECT {CALL}, count(*) FROM ratings", "DP call"),
    (f"SELECT {CALL}, title FROM ratings", "GROUP BY"),
    (f"SELECT {CALL}, *  FROM ratings", "GROUP BY"),
    (f"SELECT {CALL}, max(title) FROM ratings", ELSEWHERE),
    (f"SELECT {CALL}, most(title) FROM ratings", ELSEWHERE),
    (f"SELECT {CALL}, title.max() FROM ratings", "DP call"),
    (f"SELECT {CALL}, (SELECT count(*) FROM ratings) FROM ratings", ELSEWHERE),
    (f"SELECT {CALL}, list(title) OVER () FROM ratings", "GROUP BY"),
    (f"SELECT {CALL} FROM ratings HAVING count(*) > 5", "HAVING"),
    (f"SELECT {CALL} FROM ratings ORDER BY max(title)", "neither a group nor a name"),
    (f"SELECT {CALL} FROM ratings LIMIT (SELECT count(*) FROM ratings)", HINT),
    (f"SELECT {CALL} FROM ratings QUALIFY true", "QUALIFY"),
    (f"SELECT {CALL} FROM ratings USING SAMPLE 10%", "SAMPLE"),
    (f"SELECT {CALL} OVER () FROM ratings", "ggregate"),
    (f"SELECT {CALL} FILTER (WHERE year > 1) FROM ratings", "FILTER"),
    (f"SELECT {CALL.replace('title, 2', 'title, 2 ORDER BY 1')} FROM ratings", "ORDER BY"),
    (f"SELECT DISTINCT ON (year) {CALL} FROM ratings", "GROUP BY"),
    (f"SELECT title FROM ratings WHERE title IN (SELECT unnest({CALL}) FROM ratings)", HINT),
    (f"SELECT ({TOP}), title FROM ratings", HINT),
    (f"{TOP} UNION ALL SELECT [title] FROM ratings", HINT),
    (f"SELECT * FROM ({TOP}), readers", HINT),
    (f"WITH r AS (FROM ratings), b AS (SELECT {CALL} AS x FROM r) SELECT x, n FROM b, "
     "(SELECT count(*) AS n FROM r)", HINT),
    (f"SELECT * FROM ({TOP}), query('SELECT count(*) FROM ratings')", HINT),
    (f"SELECT c.title, ({TOP} WHERE title = c.title) FROM catalog c", "refer to the query around it"),
    (f"SELECT b.* FROM catalog c, LATERAL ({TOP} WHERE title = c.title) b", "refer to the query around"),
    (f"SELECT * FROM ({TOP}) a, ({TOP}) b", HINT),
    (f"SELECT * FROM ({TOP}), (SELECT {CALL.replace('title', 'c.title', 1)} FROM catalog c "
     "JOIN ratings r USING (title) WHERE year > 2003)", "tell two DP calls"),
    (f"WITH r AS (SELECT uid AS user_id, title FROM people), b AS (SELECT {CALL} FROM r) "
     "SELECT b.*, n FROM b, (SELECT count(*) AS n FROM r)", "people is read next to"),
    (f"SELECT * FROM (SELECT {CALL} FROM other.renamed), people", "people is read next to"),
    (f"SELECT * FROM (SELECT {CALL} FROM other.renamed), people, "
     "(WITH renamed AS (SELECT 1) FROM renamed)", "people is read next to"),
    (f"SELECT * FROM ({TOP}), (WITH \"x.csv\" AS (SELECT 1) SELECT 1), 'x.csv'", "x.csv"),
    (f"WITH a AS (FROM b), b AS (SELECT 1) SELECT * FROM ({TOP}), a", "b"),
    (f"SELECT * FROM ({TOP}) --\r, (SELECT count(*) FROM ratings)", HINT),
    (f"SELECT ({TOP}), (TABLE person)", "next to a DP call"),
    (f"SELECT {CALL}, initcap('x') FROM ratings", "macro initcap"),
    (f"SELECT best, initcap(best) FROM ({TOP})", "initcap next to"),
    (f"INSERT INTO once SELECT 7, {CALL}[1] FROM ratings", "once is read next to"),
    (f"INSERT OR IGNORE INTO main.once (user_id) SELECT len(best) FROM ({TOP})", "next to a DP"),
    (f"SELECT {CALL}, {CALL} FROM ratings", HINT),
    (f"SELECT unnest({COUNT}, report := true)) FROM ratings", "copy"),
    ("FROM always", "FROM dp($$ SELECT … $$)"),
    (f"SELECT ({TOP}), best FROM always", HINT),
    ("SELECT hidden()", "FROM dp($$ SELECT … $$)"),
    (f"SELECT hidden(), {CALL} FROM ratings", HINT),
    (f"SELECT hidden(), best FROM ({TOP})", HINT),
    (f"SELECT main.{CALL} FROM ratings", "belongs to no schema"),
    (f"PIVOT ({TOP}) ON best USING count(*)", PIVOTED),
    (f"SUMMARIZE {TOP}", "FROM dp($$ SELECT … $$)"),
    (f"EXPLAIN ANALYZE {TOP}", "FROM dp($$ SELECT … $$)"),
    (f"UPDATE kept SET best = ({TOP}) WHERE true", "FROM dp($$ SELECT … $$)"),
    (f"INSERT INTO kept {TOP} RETURNING *", "FROM dp($$ SELECT … $$)"),
    (f"SELECT {CALL} FROM ratings WHERE (SELECT true FROM ratings LIMIT 1)", "subquery"),
    (f"SELECT {CALL} FROM nope", "nope"),
    (f"SELECT {CALL.replace('title, 2', 'title, 0')} FROM ratings", "from 1 to 100000"),
    (f"SELECT {CALL.replace(SURE, 'epsilon := 0')} FROM ratings", "epsilon must be"),
    ("SELECT DP_TOPK(title, 2) FROM ratings", "needs epsilon"),
]  # fmt: skip


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("statement", "words"), REFUSED)
def test_the_rest_is_refused_before_anything_is_drawn(
    plain: Con, statement: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain.execute("INSERT INTO kept VALUES ([])")
    monkeypatch.setattr(Engine, "release_as_json", None)  # what reads rows and draws
    before = releases(plain)
    for way in ("execute", "sql"):
        with pytest.raises(duckdb.Error, match=re.escape(words)) as raised:
            WAYS[way](plain, statement)
        assert "not callable" not in str(raised.value)
    assert releases(plain) == before


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("item", "is_refused"), [
    ("list_transform([1], lambda year: year + 1)", False),
    ("list_transform([1], lambda year, i: list_transform([i], lambda n: year + n))", False),
    ("[year + i FOR year, i IN [1] IF year > i]", False),
    ("list_transform([1], lambda year: year + 1)[1] + year", True),
    ("year + list_transform([1], lambda year: year + 1)[1]", True),
    ("list_transform([1], lambda year: ratings.year)", True),
    ("list_transform([1], lambda year: YEAR)", True),
    ("list_transform([year], lambda year: year)", True),
    ("[year FOR year IN [year]]", True),
    ("[1 FOR year IN [1]] || [year]", True),
])  # fmt: skip
def test_a_parameter_hides_no_column_outside_of_its_lambda(
    plain: Con, item: str, is_refused: bool
) -> None:
    (statement,) = parse(f"SELECT {CALL}, {item} FROM ratings")
    engine = Engine(plain, Tickets())
    if is_refused:
        with pytest.raises(NotSupported, match="may show rows of its source"):
            check_around(statement, engine)
    else:
        check_around(statement, engine)
        assert len(plain.execute(statement.text).fetchall()) == 1


def test_a_macro_that_a_table_of_an_answer_does_not_call_is_no_reason_to_refuse_it(
    con: Con,
) -> None:
    con.execute("CREATE MACRO reverse(x) AS x")
    for i, query in enumerate(
        (f"SELECT 1 + 1 AS n, {CALL} FROM ratings", f"(SELECT 1 AS n, {CALL} FROM ratings)")
    ):
        con.execute(f"CREATE TABLE answer{i} AS {query}")
        assert len(con.execute(f"FROM answer{i}").fetchall()) == 1
    with pytest.raises(duckdb.Error, match="reverse"):
        con.execute(f"CREATE TABLE called AS SELECT reverse('a'), {CALL} FROM ratings")


@pytest.mark.thorough
def test_the_statement_that_a_refusal_shows_can_be_run(con: Con) -> None:
    con.execute(MORE)
    grouped = (
        f"SELECT region, DP_TOPK(title, 1, {UNIT}, domain := catalog.title, groups := ['north'], "
        "max_groups_contributed := 2) FROM ratings GROUP BY region"
    )
    shown = 0
    for statement in [grouped, *(sql for sql, words in REFUSED if words == HINT)]:
        with pytest.raises(duckdb.Error) as raised:
            con.execute(statement).fetchall()
        found = re.search(r"^Write: (FROM dp\(\$\$ .+ \$\$\))$", str(raised.value), re.MULTILINE)
        if found and "GROUP BY ALL" not in statement and "max(title)" not in statement:
            with_dp = found.group(1)
            try:
                con.execute(with_dp).fetchall()
                shown += 1
            except duckdb.Error as error:  # dp has reasons of its own, and says them
                assert re.search(r"(NotSupported|ArgumentError|NotPrivate): ", str(error))
    assert shown >= 8


def test_a_refusal_shows_a_relation_as_its_owner_wrote_it(plain: Con) -> None:
    people = f"DP_COUNT_DISTINCT(user_id, {UNIT}, groups := observed)"
    grouped = plain.sql(f"SELECT {people} AS n FROM ratings GROUP BY year")
    incomplete = plain.sql("SELECT DP_COUNT(1, privacy_unit := user_id) AS n FROM ratings")
    for show, says in (
        (grouped.show, "FROM dp($$ SELECT"),
        (grouped.limit(3).show, "FROM dp($$ SELECT"),
        (incomplete.show, "LINE 1: SELECT DP_COUNT"),
    ):
        with pytest.raises(duckdb.Error) as refused:
            show()
        said = str(refused.value).replace("dp_count(", "DP_COUNT(")  # as DuckDB 1.5 prints it
        assert says in said and "unnamed_relation" not in said


def test_a_statement_like_that_of_a_shown_relation_is_checked_as_a_whole(plain: Con) -> None:
    source = "ratings) AS a, (SELECT count(*) FROM ratings"
    before = releases(plain)
    with pytest.raises(duckdb.Error, match="ratings is read next to a DP call"):
        plain.execute(
            'WITH "__duckdb_s0" AS NOT MATERIALIZED (\nSELECT * FROM (\n'
            f'SELECT {COUNT}) AS n FROM {source}\n) AS "unnamed_1"\n)\n'
            'SELECT * FROM "__duckdb_s0" AS "unnamed_1" LIMIT 5'
        )
    assert releases(plain) == before


def test_prepared_statements_are_refused(plain: Con) -> None:
    before = releases(plain)
    plain.execute(f"PREPARE asked AS {TOP}")
    for _ in range(2):
        with pytest.raises(duckdb.Error, match=r"prepared statement(.|\n)+params := row"):
            plain.execute("EXECUTE asked").fetchall()
    relation = plain.sql(TOP)
    assert relation is not None
    with pytest.raises(duckdb.Error, match="does not show dp_sql this call"):
        plain.sql("FROM relation").fetchall()
    assert releases(plain) == before


def test_the_parts_of_one_call_come_from_one_draw(plain: Con) -> None:
    before = releases(plain)
    call = f"{NOISY}, report := true)"
    text = "SELECT a.n, a.n.estimate, (SELECT n.estimate FROM c) FROM c a, c b WHERE a.n = b.n"
    ((n, one, two),) = plain.execute(
        f"WITH c AS NOT MATERIALIZED (SELECT {call} AS n FROM ratings) {text}"
    ).fetchall()
    assert n["estimate"] == one == two
    assert releases(plain) == before + 1


MISTAKES = [
    f"SELECT {CALL.replace('2, ', '9, ')} AS best FROM ratings",
    f"SELECT {CALL.replace('.title', '.titel')} AS best FROM ratings",
    f"SELECT {CALL.replace(':= user_id', ':= usr_id')} AS best FROM ratings",
    f"SELECT {COUNT[:-7]}usr_id) AS n FROM ratings",
    f"SELECT title, {COUNT}) AS n FROM ratings GROUP BY title",
    "SELECT DP_COUNT_DISTINCT(title, epsilon := 0, privacy_unit := user_id) AS n FROM ratings",
    f"SELECT {COUNT}), count(*) FROM ratings",
    "SELECT DP_COUNT(COLUMNS(*), epsilon := 1, privacy_unit := user_id) AS n FROM ratings",
    f"SELECT avg(year::INTEGER) AS a, {COUNT}) AS n FROM ratings WHERE title > 'A'",
    f"SELECT {COUNT}) AS n FROM ratings UNION ALL SELECT {COUNT}) AS n FROM ratings",
]


def test_any_of_a_list_is_read_as_duckdb_prints_it(plain: Con) -> None:
    source = "(SELECT user_id, title, [title, 'x'] AS two FROM ratings)"
    text = f"SELECT {COUNT}) AS n FROM {source} WHERE 'Dune' = ANY(two)"
    relation = plain.sql(text)
    assert relation is not None
    assert len(relation.fetchall()) == len(plain.execute(text).fetchall()) == 1


@pytest.mark.one_in(4)
@pytest.mark.parametrize("in_dp", [False, True])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_an_error_proposes_is_pasted_and_answered(
    plain: Con, mistake: str, in_dp: bool
) -> None:
    if in_dp and mistake == MISTAKES[-1]:
        return  # no mistake there
    before = releases(plain)
    with pytest.raises(duckdb.Error) as caught:
        plain.execute(f"FROM dp($$ {mistake} $$)" if in_dp else mistake).fetchall()
    assert releases(plain) == before
    proposed = re.split(r"Write instead:\n|\nWrite: ", str(caught.value))[1].split("\n\nLINE")[0]
    assert plain.execute(proposed).fetchall()
    assert not in_dp or proposed.startswith("FROM dp(")


def test_the_proposal_for_a_table_of_an_answer_is_a_table(plain: Con) -> None:
    for query in ("SELECT DP_COUNT(1, epsilon := 1) AS n FROM ratings",
                  "(SELECT DP_COUNT(1, epsilon := 1) AS n, count(*) AS m FROM ratings)"):  # fmt: skip
        with pytest.raises(duckdb.Error, match="needs privacy_unit") as caught:
            plain.execute(f"CREATE OR REPLACE TABLE kept AS {query}")
        plain.execute(str(caught.value).split(" works:\n" if "m" in query else "instead:\n")[1])
        assert len(plain.execute("FROM kept").fetchall()) == 1


@pytest.mark.parametrize("in_dp", [False, True])
def test_an_error_proposes_nothing_that_duckdb_refuses(plain: Con, in_dp: bool) -> None:
    mistake = f"SELECT {COUNT}) AS n FROM ratings HAVING count(*) > 5"
    with pytest.raises(duckdb.Error, match="HAVING without GROUP BY") as caught:
        plain.sql(f"FROM dp($$ {mistake} $$)" if in_dp else mistake).fetchall()
    assert "Write instead" not in str(caught.value)


def test_all_calls_of_an_execution_are_planned_once(
    plain: Con, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned, plan = [], plain_call.plans_of_all
    monkeypatch.setattr(plain_call, "plans_of_all", lambda *a: planned.append(a) or plan(*a))
    calls = ", ".join(f"DP_COUNT(1, epsilon := {n}, privacy_unit := user_id)" for n in (1, 2, 3, 4))
    for number in (1, 2):
        plain.execute(f"SELECT {calls} FROM ratings WHERE year > {number}").fetchall()
        assert len(planned) == number


def test_an_answer_is_kept_in_a_temporary_table(con: Con) -> None:
    con.execute(f"CREATE TEMP TABLE best AS {TOP}")
    con.execute(f"CREATE TEMP TABLE ratings AS {TOP}")  # from the ratings that there were
    assert con.execute("FROM best UNION ALL FROM temp.ratings").fetchall() == BEST * 2
    con.execute("CREATE OR REPLACE TEMP TABLE ratings AS SELECT 1 AS user_id, 'Walden' AS title")
    with pytest.raises(duckdb.Error, match="ratings is a temporary table or view"):
        con.execute(f"CREATE OR REPLACE TEMP TABLE ratings AS {TOP}")
    con.execute("DROP TABLE temp.ratings")
    con.execute(f"CREATE OR REPLACE TEMP TABLE best AS {TOP}")
    con.execute(f"CREATE OR REPLACE TEMP TABLE better AS {TOP}")
    con.execute(f"CREATE TEMP TABLE IF NOT EXISTS good AS {TOP}")
    assert con.execute("FROM best UNION ALL FROM better UNION ALL FROM good").fetchall() == BEST * 3


def test_temporary_tables_and_the_search_path(con: Con) -> None:
    con.execute("CREATE TEMP TABLE mine AS FROM ratings")
    with pytest.raises(duckdb.Error, match="mine is a temporary table or view") as raised:
        con.execute(f"SELECT {CALL} FROM mine").fetchall()
    assert con.execute(str(raised.value).split("write: ")[1]).fetchall() == BEST
    con.execute("CREATE TEMP TABLE catalog AS FROM ratings")
    with pytest.raises(duckdb.Error, match="catalog is a temporary table or view"):
        con.execute(
            f"SELECT * FROM ({TOP.replace('catalog.title', 'observed')}), 'catalog'"
        ).fetchall()
    con.execute("DROP TABLE temp.catalog")
    con.execute("CREATE TEMP TABLE ratings AS SELECT 1 AS user_id, 'Walden' AS title")
    with pytest.raises(duckdb.Error, match="ratings is a temporary table or view"):
        con.execute(TOP).fetchall()
    con.execute("DROP TABLE temp.ratings; CREATE SCHEMA s; USE s")
    con.execute("CREATE TABLE s.ratings AS SELECT 1 AS user_id, 'Emma' AS title")
    con.execute("CREATE TABLE s.catalog AS FROM memory.main.catalog")
    assert con.execute(TOP).fetchall()[0][0][0] == "Emma"
    con.execute("SET search_path = 'main,s'")
    assert con.execute(TOP).fetchall() == BEST
    assert releases(con) == 3


def test_dp_refuses_names_of_temporary_relations(con: Con) -> None:
    asked = f"FROM dp($$ SELECT {CALL} FROM ratings $$)"
    con.execute(f"CREATE VIEW asked AS {asked}; CREATE TEMP TABLE other AS FROM ratings")
    assert con.execute("FROM asked").fetchall() == con.execute(asked).fetchall()
    for kind in ("TABLE", "VIEW"):
        con.execute(f"CREATE TEMP {kind} Ratings AS SELECT 1 AS user_id, 'Walden' AS title")
        for query in (asked, "FROM asked"):
            with pytest.raises(duckdb.Error, match="Ratings is a temporary table or view"):
                con.execute(query).fetchall()
        con.execute(f"DROP {kind} temp.ratings")
    with pytest.raises(duckdb.Error, match="For a temporary table or view, or a registered"):
        con.execute(asked.replace("ratings", "other"))
    assert releases(con) == 2


@pytest.mark.parametrize("kind", ["TABLE", "VIEW"])
def test_a_temporary_relation_that_a_view_would_read_is_refused(con: Con, kind: str) -> None:
    con.execute("CREATE VIEW below AS FROM Ratings; CREATE VIEW viewed AS FROM below")
    con.execute("CREATE TABLE kept AS FROM ratings; CREATE VIEW other AS FROM kept")
    plain = f"SELECT {CALL} FROM viewed"
    asked = [plain, f"FROM dp($$ {plain} $$)"]
    answers = [con.execute(one).fetchall() for one in asked]
    con.execute(f"CREATE TEMP {kind} ratings AS SELECT 1 AS user_id, 'Walden' AS title")
    assert con.execute("SELECT min(title) FROM viewed").fetchall() == [("Walden",)]
    for one in asked:
        with pytest.raises(duckdb.Error, match="ratings is a temporary table or view"):
            con.execute(one).fetchall()
        con.execute(one.replace("viewed", "other")).fetchall()
    con.execute(f"DROP {kind} temp.ratings")
    assert [con.execute(one).fetchall() for one in asked] == answers
    assert releases(con) == 6


@pytest.mark.parametrize(
    ("macro", "item"),
    [
        ("upper(s)", "upper(title)"),
        ("reverse(s)", "reverse(title)"),
        ('"||"(a, b)', "title || '!'"),
        ('"-"(a, b)', "user_id - 1"),
        ("nullif(a, b)", "nullif(title, 'Emma')"),
        ("split_part(a, b, c)", "split_part(title, ' ', 1)"),
    ],
)
def test_dp_refuses_functions_that_temporary_macros_replace(
    con: Con, macro: str, item: str
) -> None:
    con.execute("CREATE VIEW viewed AS SELECT user_id, title, reverse(upper(title)) FROM ratings")
    call = f"DP_COUNT_DISTINCT({item}, epsilon := 10000, privacy_unit := user_id)"
    asked = [f"FROM dp($$ SELECT {call} FROM {source} $$)" for source in ("ratings", "viewed")]
    answers = [con.execute(one).fetchall() for one in asked]
    con.execute("CREATE TEMP MACRO other(a) AS 'x'; CREATE TEMP MACRO abs(a) AS 1")
    assert [con.execute(one).fetchall() for one in asked] == answers
    con.execute(f"CREATE TEMP MACRO {macro} AS 'x'")
    for one in asked:
        with pytest.raises(duckdb.Error, match="is a temporary macro") as raised:
            con.execute(one).fetchall()
        assert macro.split("(")[0].strip('"') in str(raised.value)
    assert releases(con) == 4


def test_an_open_transaction_is_answered_from_committed_rows(con: Con) -> None:
    con.execute("BEGIN; DELETE FROM ratings WHERE title = 'Dune'")
    assert con.execute(TOP).fetchall() == BEST
    con.execute("ROLLBACK")
    assert releases(con) == 1


def test_threads_release_once_each(con: Con) -> None:
    con.execute("SET threads = 1")
    answers: list[Any] = []
    threads = [
        threading.Thread(target=lambda: answers.append(WAYS["cursor"](con, NOISE)[0]))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(answers)) == releases(con) == 6


def test_a_file_says_what_is_missing_where_dp_sql_is_not_loaded(tmp_path: Path) -> None:
    path = str(tmp_path / "shop.duckdb")
    with duckdb.connect(path) as con:
        con.execute(READING_LOG)
        dp_sql.install(con)
    with duckdb.connect(path, read_only=True) as fresh:
        for statement, what in ((TOP, "function"), ("FROM dp('SELECT 1')", "macro dp")):
            hint = rf"call dp_sql\.install\(con\) first\), so the {what} does not exist"
            with pytest.raises(duckdb.CatalogException, match=hint):
                fresh.sql(statement)
        assert dp_sql.install(fresh).sql(TOP).fetchall() == BEST
