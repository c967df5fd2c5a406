"""What is proposed in place of a statement keeps its conditions, its groups and its meaning."""

from pathlib import Path

import duckdb
import pytest

import dp_sql
from dp_sql.errors import QueryError
from dp_sql.session.corrections.same_question import Kept, kept
from dp_sql.sql.tokens import tokenize
from tests.session.corrections.orders_shop import OTHER, POLICY, SAME, TABLES, UNIT, told

# Asked of a DuckDB connection, what is proposed for each of these has the same answer.
PLAIN = """
SELECT count(*) FROM orders
SELECT count(note) AS n FROM orders WHERE total > 10
SELECT count_if(status = 'paid') FROM orders
SELECT count_if(total > 10) FROM orders
SELECT count(*) FILTER (WHERE status = 'paid') FROM orders WHERE total > 3
SELECT count(*) FILTER (status = 'paid') AS n FROM orders WHERE status <> ALL (['sent', 'back']) AND order_id != ALL([1])
SELECT count(DISTINCT status) FROM orders
SELECT count(DISTINCT (day, status)) FROM orders
SELECT 1, status, count(*) FROM orders GROUP BY 1, status
SELECT status, 'all' AS t, count(*) FROM orders GROUP BY status, 2
SELECT percentile_cont(0.9) WITHIN GROUP (ORDER BY salary) FROM employees
SELECT quantile_cont(salary, 0.25), median(salary) FROM employees WHERE dept = 'hr'
SELECT status, count(*) FROM orders GROUP BY status ORDER BY count(*) DESC
SELECT status, count(*) AS k FROM orders GROUP BY status ORDER BY count(*), status LIMIT 2
SELECT status, count(*) FROM orders GROUP BY status HAVING count(*) > 150
SELECT status, sum(total) FROM orders GROUP BY status HAVING count(*) > 150
SELECT status AS st, count(*) AS n FROM orders WHERE st <> 'paid' GROUP BY st ORDER BY st
SELECT upper(status) AS st, count(*) AS n FROM orders WHERE st <> 'PAID' GROUP BY st ORDER BY st
SELECT avg(n) FROM (SELECT customer_id, count(*) AS n FROM orders GROUP BY 1)
SELECT avg(n) FROM (SELECT order_id, count(*) AS n FROM items GROUP BY order_id)
SELECT count(*) FROM (SELECT customer_id FROM orders GROUP BY 1 HAVING count(*) > 5)
SELECT count(*) FROM (SELECT c.customer_id AS id FROM customers c EXCEPT SELECT customer_id FROM orders WHERE total > 10)
WITH t AS (SELECT customer_id FROM orders INTERSECT SELECT customer_id FROM customers) SELECT count(*) FROM t
WITH t AS (SELECT customer_id, sum(total) AS s FROM orders GROUP BY 1) SELECT count(*) FROM t WHERE s > 200
SELECT max(n) FROM (SELECT status, count(*) AS n FROM orders GROUP BY status)
SELECT (SELECT count(*) FROM orders) / (SELECT count(*) FROM customers)
SELECT count(*) FROM orders UNION ALL SELECT count(*) FROM customers
SELECT status, rank() OVER (ORDER BY count(*) DESC), count(*) FROM orders GROUP BY status
SELECT status, count(*) * 100.0 / sum(count(*)) OVER () AS share FROM orders GROUP BY status
SELECT status, count(*) / sum(count(*)) OVER () AS a, sum(total) / sum(sum(total)) OVER () AS b FROM orders AS n GROUP BY status
SELECT status, count(*) AS n, round(100 * n / sum(n) OVER (), 1) AS share FROM orders GROUP BY status ORDER BY share DESC LIMIT 2
SELECT status, count(*) AS n, lag(n) OVER (ORDER BY status) AS prev, n - prev AS diff FROM orders GROUP BY status
SELECT rank() OVER (ORDER BY count(*)) AS place, status, count(*) AS n, sum(n) OVER () AS s FROM orders GROUP BY status ORDER BY 3 LIMIT 1
SELECT status, count(*) AS n, rank() OVER (ORDER BY n DESC) AS place FROM orders GROUP BY status QUALIFY place <= 2
WITH t AS (SELECT status, count(*) AS n, sum(n) OVER () AS s FROM orders GROUP BY status) SELECT status, s FROM t WHERE n > 200
SELECT count(*) FROM (SELECT customer_id FROM orders UNION ALL FROM (FROM customers SELECT customer_id) UNION SELECT customer_id FROM orders)
SELECT sum(total) / count(*) FROM orders
SELECT sum(1) AS n, sum( 1 ) + 1 FROM orders WHERE total > 3
SELECT sum(1) AS n FROM orders HAVING (count(1) > 0)
SELECT status, sum(1) FROM orders GROUP BY 1 HAVING count(1) > 150
SELECT status, count(*) FROM orders GROUP BY 1 HAVING count(1) > 150 ORDER BY sum(1), 1
SELECT upper(status) AS st, count(*) AS n, 100.0 * count(*) / sum(count(*)) OVER () AS p FROM orders GROUP BY st ORDER BY st
SELECT upper(status) AS st, count(*) AS n, 2 * count(*) AS k FROM orders GROUP BY 1 ORDER BY 1
SELECT count_if(status = 'paid') - count_if(status = 'PAID') FROM orders
SELECT dept, round(avg(salary), 1) FROM employees GROUP BY dept
SELECT region_id, count(*) + region_id, count(*) FROM customers GROUP BY region_id
SELECT region, count(*) FROM customers JOIN regions USING (region_id) GROUP BY region
SELECT count(*) FROM orders AS o JOIN customers AS c ON o.customer_id = c.customer_id WHERE c.born > DATE '1950-05-01'
FROM orders SELECT status, sum(total) GROUP BY ALL
""".strip().splitlines()


OTHERS = {
    "FROM orders WHERE total > 100": "SELECT DP_COUNT(*, epsilon := 1) AS n FROM orders WHERE total > 100",
    "SELECT * FROM orders": "SELECT DP_COUNT(*, epsilon := 1) AS n FROM orders",
    "SELECT status, count(*) FROM orders GROUP BY ROLLUP (status)":
        "SELECT status, DP_COUNT(*, epsilon := 1) FROM orders GROUP BY status",
    "SELECT DP_COUNT(*, epsilon := 1), max(total) FROM orders":
        "SELECT DP_COUNT(*, epsilon := 1), DP_QUANTILE(total, 0.99, epsilon := 1, lower := 0, upper := 100) FROM orders",
    "WITH t AS (SELECT customer_id, total // 10 AS tens FROM orders) SELECT count(*) FROM t WHERE tens > 2":
        "WITH t AS (SELECT customer_id, TRY_CAST(floor(total / 10) AS BIGINT) AS tens FROM orders) "
        "SELECT DP_COUNT(*, epsilon := 1) FROM t WHERE tens > 2",
    "SELECT DP_MIN(total, epsilon := 1) FROM orders":
        "SELECT DP_QUANTILE(total, 0.01, epsilon := 1, lower := 0, upper := 100) FROM orders",
    "SELECT max(n), median(n) FROM (SELECT customer_id, count(*) AS n FROM orders GROUP BY customer_id)":
        "SELECT DP_QUANTILE(n, 0.99, epsilon := 1, lower := 0, upper := 100), DP_MEDIAN(n, epsilon := 1, lower := 0, upper := 100) "
        "FROM (SELECT customer_id, count(*) AS n FROM orders GROUP BY customer_id)",
    "SELECT max(total) FROM orders":
        "SELECT DP_QUANTILE(total, 0.99, epsilon := 1, lower := 0, upper := 100) FROM orders",
}  # fmt: skip


def test_what_is_refused_in_a_cte_is_shown_and_corrected_there(analyst: dp_sql.Session) -> None:
    query = (
        "WITH a AS (SELECT customer_id, {} AS noted FROM {}), b(c, n) AS\n({}) "
        "SELECT DP_COUNT(*, epsilon := 1) FROM b WHERE n > 2"
    )
    read, cast = "SELECT customer_id, noted FROM a", "TRY_CAST(note AS INTEGER)"
    for wrong, right, place in (
        (("note::INTEGER", "orders", read), (cast, "orders", read), (1, 32)),
        ((cast, "order", read), (cast, "orders", read), (1, 72)),
        ((cast, "orders", "SELECT customer_id, note FROM a"), (cast, "orders", read), (2, 22)),
    ):
        error = told(analyst, query.format(*wrong))
        assert error.suggestion == query.format(*right) and not error.message.startswith("In ")
        assert (error.line, error.column) == place
    unknown = (
        "WITH a AS (SELECT customer_id, n FROM orders) SELECT DP_COUNT(*, epsilon := 1) AS n FROM a"
    )
    assert told(analyst, unknown).message == "n is not a column of the source."


NOTHING = [
    "avg(COLUMNS(*))", "regr_slope(total, order_id)", "mad(total)", "arg_max(status, total)",
    "first(status)", "bool_or(total > 3)", "stddev(total)", "string_agg(status, ',')",
    "sum(DISTINCT total)",
]  # fmt: skip


def without_noise(text: str) -> str:
    """A statement with DuckDB's aggregates in place of its DP calls."""
    tokens = tokenize(text)
    for i in reversed(range(len(tokens))):
        name = tokens[i].upper.removeprefix("DP_")
        if not tokens[i].upper.startswith("DP_"):
            continue
        close = tokens.matching(i + 1)
        parts = [tokens[a:b].text for a, b in tokens.split(i + 2, close)
                 if not tokens.at(a + 1).is_symbol(":=")]  # fmt: skip
        inside = ", ".join(parts)
        written = {"COUNT_DISTINCT": f"count(DISTINCT {inside})",
                   "QUANTILE": f"quantile_cont({inside})"}.get(name, f"{name}({inside})")  # fmt: skip
        text = text[: tokens[i].start] + written + text[tokens[close].end :]
    return text


@pytest.mark.one_in(4)
@pytest.mark.parametrize("statement", PLAIN)
def test_what_is_proposed_for_plain_sql_has_the_same_answer_but_for_the_noise(
    analyst: dp_sql.Session, plain: duckdb.DuckDBPyConnection, statement: str
) -> None:
    error = told(analyst, statement)
    assert SAME in str(error), str(error)
    analyst.execute(error.suggestion).fetchall()
    wanted = plain.execute(statement).fetchall()
    found = plain.execute(without_noise(error.suggestion)).fetchall()
    assert sorted(found) == sorted(wanted)
    assert " ORDER BY " not in statement or " ORDER BY " in error.suggestion


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT status, count(*) FROM orders GROUP BY status HAVING count(1) > 0 ORDER BY sum(1)",
        "SELECT status FROM orders GROUP BY status",
    ],
)
def test_one_count_is_proposed_for_all_that_count_rows_and_each_statement_once(
    analyst: dp_sql.Session, statement: str
) -> None:
    error = told(analyst, statement)
    assert str(error.suggestion).count("DP_COUNT(") == 1
    assert len(error.instead) == 1


@pytest.mark.parametrize(("statement", "proposed"), OTHERS.items())
def test_where_only_another_question_can_be_asked_the_message_says_so(
    analyst: dp_sql.Session, statement: str, proposed: str
) -> None:
    error = told(analyst, statement)
    assert (error.suggestion, error.asks_other) == (proposed, True)
    assert str(error).endswith(OTHER + proposed)


@pytest.mark.parametrize("query", [
    "SELECT count(*) FROM regions WHERE region_id NOT IN (SELECT region_id FROM customers)",
    "SELECT region FROM regions WHERE region_id = ANY (SELECT region_id FROM (FROM customers))",
    "SELECT exists(SELECT 1 FROM orders WHERE total > 500)",
    "SELECT (SELECT day FROM orders LIMIT 1)",
    "WITH t AS (SELECT note, count(*) AS n FROM orders GROUP BY note) SELECT max(n) FROM t",
    "SELECT DP_COUNT(*, epsilon := 1) FROM (SELECT customer_id FROM orders EXCEPT ALL SELECT customer_id FROM customers)",
])  # fmt: skip
def test_nothing_is_proposed_where_no_statement_asks_the_same(
    analyst: dp_sql.Session, query: str
) -> None:
    assert told(analyst, query).suggestion == ""


@pytest.mark.parametrize("call", NOTHING)
def test_nothing_is_proposed_for_an_aggregate_that_no_function_answers(
    analyst: dp_sql.Session, call: str
) -> None:
    error = told(analyst, f"SELECT {call} FROM orders")
    assert error.suggestion == ""
    assert "The functions are DP_TOPK" in str(error)


def test_a_long_statement_is_corrected_where_little_is_added(analyst: dp_sql.Session) -> None:
    groups = f"(SELECT region FROM regions WHERE region_id IN ({', '.join(map(str, range(600)))}))"
    query = "SELECT note, DP_SUM({}, epsilon := 1, groups := {}, max_groups_contributed := 1) FROM orders GROUP BY note"
    error = told(analyst, query.format("total::DOUBLE", groups))
    assert error.suggestion == query.format("TRY_CAST(total::DOUBLE AS DECIMAL(18, 4))", groups)


def test_a_window_function_beside_a_count_needs_one_release(analyst: dp_sql.Session) -> None:
    statement = (
        "SELECT status, rank() OVER (ORDER BY count(*)), count(*) FROM orders GROUP BY status"
    )
    assert told(analyst, statement).suggestion == (
        "SELECT status, rank() OVER (ORDER BY n), n FROM "
        "(SELECT status, DP_COUNT(*, epsilon := 1) AS n FROM orders GROUP BY status)"
    )


def test_top_k_is_proposed_for_approx_top_k(analyst: dp_sql.Session) -> None:
    error = told(analyst, "SELECT approx_top_k(status, 2) FROM orders")
    assert error.suggestion == "SELECT DP_TOPK(status, 2, epsilon := 1) FROM orders"


def test_a_long_chain_of_corrections_is_followed_to_its_end(analyst: dp_sql.Session) -> None:
    query = "SELECT status, avg(x), min(x), max(x) FROM (SELECT customer_id, status, total::DOUBLE AS x FROM orders) GROUP BY status"
    error = told(analyst, query)
    assert error.asks_other and error.suggestion.count("step := ") == 2
    assert analyst.sql(error.suggestion).fetchall()


def test_values_that_no_one_has_chosen_are_called_examples(analyst: dp_sql.Session) -> None:
    hint = told(analyst, "SELECT median(total) FROM orders").hint or ""
    assert "Example values to replace: epsilon (the privacy loss that you choose)" in hint
    assert "lower and upper (the range that you know without looking at the data)" in hint
    hint = told(
        analyst, "SELECT status, DP_AVG(total, epsilon := 1) FROM orders GROUP BY status"
    ).hint
    assert hint == "With max_groups_contributed := 1, each person counts in one group only."
    hint = told(analyst, "SELECT DP_TOPK(status, 2) FROM orders").hint
    assert hint == "Example values to replace: epsilon (the privacy loss that you choose)."
    for own in ("0.1", "epsilon = 0.1", "epsilon 0.1", "eps := 0.1"):  # these have been chosen
        error = told(analyst, f"SELECT DP_COUNT(*, {own}) FROM orders")
        assert error.suggestion == "SELECT DP_COUNT(*, epsilon := 0.1) FROM orders"
        assert "Example values" not in str(error.hint)


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        ("SELECT DP_COUNT(*) FROM t WHERE a = 1", "SELECT DP_COUNT(*) FROM t", Kept.LOST),
        ("SELECT a, DP_COUNT(*) FROM t GROUP BY a", "SELECT DP_COUNT(*) FROM t", Kept.LOST),
        ("SELECT DP_COUNT_IF(a = 1) FROM t", "SELECT DP_COUNT(*) FROM t", Kept.LOST),
        ("SELECT DP_SUM(a) FROM t", "SELECT DP_COUNT(a) FROM t", Kept.LOST),
        ("SELECT DP_SUM(a) FROM t", "SELECT DP_SUM(a) FROM u", Kept.LOST),
        ("SELECT DP_SUM(a) FROM t JOIN u USING (k)", "SELECT DP_SUM(a) FROM t", Kept.LOST),
        ("SELECT DP_SUM(a) FROM c, r WHERE c.k = r.k", "SELECT DP_SUM(a) FROM c, r WHERE c.k = k",
         Kept.LOST),
        ("SELECT b AS s FROM t WHERE s = 'x'", "SELECT b AS s FROM t WHERE ts = 'x'", Kept.LOST),
        ("SELECT b AS s FROM t WHERE s = 'x'", "SELECT b AS s FROM t WHERE 's' = 'x'", Kept.LOST),
        ("SELECT DP_SUM(a) FROM t", "SELECT DP_SUM(a) FROM t WHERE b = 1", Kept.OTHER),
        ("SELECT b, DP_SUM(a) FROM t", "SELECT DP_SUM(a) FROM t", Kept.OTHER),
        ("SELECT DP_SUM(a) FROM t LEFT JOIN u USING (k)", "SELECT DP_SUM(a) FROM t JOIN u USING (k)",
         Kept.OTHER),
        ("SELECT DP_SUM(a) FROM (FROM t LIMIT 3)", "SELECT DP_SUM(a) FROM (FROM t)", Kept.OTHER),
        ("SELECT * FROM models", "SELECT * FROM codes", Kept.OTHER),
        ("SELECT DP_SUM(a) FROM t WHERE m.k = 1", "SELECT DP_SUM(a) FROM t WHERE ok = 1", Kept.OTHER),
        ("SELECT DP_SUM(a, epsilon := 9) FROM t", "SELECT DP_SUM(a, epsilon := 1) FROM t", Kept.SAME),
        ("SELECT DP_SUM(amuont) FROM t WHERE regoin = 1",
         "SELECT DP_SUM(amount) FROM t WHERE region = 1", Kept.SAME),
        ("SELECT DP_COUNT(*) FILTER (WHERE a = 1) FROM t", "SELECT DP_COUNT(*) FROM t WHERE (a = 1)",
         Kept.SAME),
        ("SELECT DP_SUM(a) FROM t WHERE b = north", "SELECT DP_SUM(a) FROM t WHERE b = 'north'",
         Kept.SAME),
        ("SELECT DP_SUM(a) FROM t JOIN u ON t.k = u.k", "SELECT DP_SUM(a) FROM t JOIN u USING (k)",
         Kept.SAME),
    ],
)  # fmt: skip
def test_a_correction_is_compared_with_the_question(before: str, after: str, wanted: Kept) -> None:
    assert kept(before, after) is wanted


def test_people_of_a_linked_table_are_counted_by_a_join(analyst: dp_sql.Session) -> None:
    statement = "SELECT DP_COUNT_DISTINCT(customer_id, epsilon := 9) FROM items WHERE quantity > 1"
    proposed = told(analyst, statement).suggestion
    assert proposed == statement.replace("items", "items JOIN orders USING (order_id)")
    assert 0 < analyst.execute(proposed).fetchall()[0][0] <= 70


CASE = "CASE WHEN status = 'paid' THEN 1 {}END"


CORRECTED = {
    "SELECT status, DP_COUNT(*, epsilon := 1, groups := ['paid']{}) FROM orders GROUP BY statu":
        "SELECT status, DP_COUNT(*, epsilon := 1, groups := ['paid']{}) FROM orders GROUP BY status",
    "SELECT o.statu AS s, DP_COUNT(*, epsilon := 1, groups := ['paid']{}) FROM orders o GROUP BY o.statu":
        "SELECT o.status AS s, DP_COUNT(*, epsilon := 1, groups := ['paid']{}) FROM orders o GROUP BY o.status",
    "SELECT DP_COUNT_IF(status = 'paid', epsilon := 1{}) FROM orders":
        f"SELECT DP_COUNT({CASE.format('')}, epsilon := 1{{}}) FROM orders",
    "SELECT DP_SUM(status = 'paid', epsilon := 1{}) FROM orders":
        f"SELECT DP_SUM({CASE.format('ELSE 0 ')}, epsilon := 1{{}}) FROM orders",
    "SELECT status, DP_COUNT(*, epsilon := 1, groups := ['paid']{}) AS n FROM orders GROUP BY status "
    "HAVING count(*) > 10":
        "SELECT status, DP_COUNT(*, epsilon := 1, groups := ['paid']{}) AS n FROM orders GROUP BY status "
        "HAVING n > 10",
    "SELECT order_id % 3 AS k, DP_COUNT(*, epsilon := 1, max_groups_contributed := 1, groups := (1, 2){}) "
    "FROM orders GROUP BY k":
        "SELECT order_id % 3 AS k, DP_COUNT(*, epsilon := 1, max_groups_contributed := 1, "
        "groups := [1, 2]{}) FROM orders GROUP BY k",
    "SELECT order_id % 3 AS k, DP_COUNT(*, epsilon := 1, max_groups_contributed := 1, "
    "groups := list_value(1, 2){}) FROM orders GROUP BY k":
        "SELECT order_id % 3 AS k, DP_COUNT(*, epsilon := 1, max_groups_contributed := 1, "
        "groups := [1, 2]{}) FROM orders GROUP BY k",
}  # fmt: skip


REFUSED = {
    "SELECT DP_MEDIAN(total - total, epsilon := 1, lower := 0{}) FROM orders": "needs upper",
    "SELECT status, DP_COUNT(*, epsilon := 1, groups := (SELECT DISTINCT status FROM orders){}) "
    "FROM orders GROUP BY status": "This query reads people's rows; groups and domains are public",
    "WITH a AS (SELECT DP_COUNT(*, epsilon := 1{}) AS n FROM orders) "
    "SELECT DP_SUM(total, epsilon := 1{}) FROM orders, a WHERE total < n":
        "The source reads a, which holds an answer",
}  # fmt: skip


@pytest.mark.parametrize(("statement", "proposed"), CORRECTED.items())
def test_a_correction_keeps_the_condition(
    owner: dp_sql.Session, analyst: dp_sql.Session, statement: str, proposed: str
) -> None:
    for session, more in ((owner, UNIT), (analyst, "")):
        error = told(session, statement.format(more))
        assert (error.suggestion, error.asks_other) == (proposed.format(more), False)


@pytest.mark.parametrize(("statement", "said"), REFUSED.items())
def test_a_refusal_says_what_is_wrong(
    owner: dp_sql.Session, analyst: dp_sql.Session, statement: str, said: str
) -> None:
    for session, more in ((owner, UNIT), (analyst, "")):
        assert said in told(session, statement.replace("{}", more)).message


def test_an_interval_is_proposed_in_seconds(owner: dp_sql.Session) -> None:
    bounds, source = (
        f"epsilon := 1, lower := 0, upper := 9{UNIT}",
        "FROM orders JOIN customers USING (customer_id)",
    )
    for item in ("customer_id * INTERVAL 1 DAY", "day::TIMESTAMP - born::TIMESTAMP"):
        error = told(owner, f"SELECT DP_MEDIAN({item}, {bounds}) {source}")
        asked = f"SELECT DP_MEDIAN(TRY_CAST(epoch({item}) AS BIGINT), {bounds}) {source}"
        assert (error.suggestion, error.asks_other) == (asked, True)
    times = (
        f"(SELECT customer_id, day::TIMESTAMP AS a, a - INTERVAL 1 HOUR AS b, a - b AS c {source})"
    )
    error = told(owner, f"SELECT DP_AVG(a - b, epsilon := 1{UNIT}) FROM {times}")
    assert (
        error.suggestion
        == f"SELECT DP_AVG(date_diff('second', b, a), epsilon := 1{UNIT}) FROM {times}"
    )
    error = told(
        owner,
        f"SELECT DP_MEDIAN(c, epsilon := 1, lower := INTERVAL 1 HOUR, upper := 9{UNIT}) FROM {times}",
    )
    assert error.hint == "Write its seconds: TRY_CAST(epoch(c) AS BIGINT)."


def test_strings_are_numbers_only_if_they_hold_some(owner: dp_sql.Session) -> None:
    for call in ("DP_SUM(status", "DP_MEDIAN(status, lower := 0, upper := 9"):
        error = told(owner, f"SELECT {call}, epsilon := 1{UNIT}) FROM orders")
        assert str(error.hint).startswith("If it holds numbers, write TRY_CAST(status AS ")
        assert not error.suggestion  # of other strings, the answer would mean nothing


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "asked",
    [
        "SELECT {} FROM orders", "SELECT status, {} FROM orders GROUP BY status",
        "SELECT status FROM orders GROUP BY status HAVING {} IS NOT NULL",
        "SELECT status FROM orders GROUP BY status ORDER BY {}",
        "SELECT status, DP_COUNT(*, epsilon := 1) AS n FROM orders GROUP BY status HAVING status = (SELECT {} FROM orders)",
        "SELECT region, {} FROM orders JOIN customers USING (customer_id) JOIN regions USING (region_id) GROUP BY region",
        "SELECT DP_COUNT(*, epsilon := 1), {} FROM orders",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "aggregate",
    ["max(status)", "min(note)", "median(status)", "quantile_disc(status, 0.5)", "max([status])", "min(total > 3)",
     "sum(status)", "avg([total])", "percentile_disc(0.5) WITHIN GROUP (ORDER BY note)"],
)  # fmt: skip
def test_no_number_is_proposed_for_what_is_none(
    analyst: dp_sql.Session, asked: str, aggregate: str
) -> None:
    suggestion = told(analyst, asked.format(aggregate)).suggestion
    assert not any(
        name in suggestion for name in ("QUANTILE", "MEDIAN", "CAST", "DP_SUM", "DP_AVG")
    )


def test_a_list_is_not_proposed_as_a_string_of_the_domain(owner: dp_sql.Session) -> None:
    call = f"DP_TOPK([status], 1, epsilon := 1, domain := ['paid']{UNIT})"
    error = told(owner, f"SELECT {call} FROM orders")
    assert (error.suggestion, "unnest([status])" in str(error.hint)) == ("", True)


def test_natural_joins_are_answered_for_owners(owner: dp_sql.Session) -> None:
    statement = f"SELECT DP_COUNT(*, epsilon := 1{UNIT}) FROM orders NATURAL JOIN customers"
    assert owner.execute(statement).fetchall()


@pytest.mark.parametrize("text", ["FROM dp($$ {} $$)", "FROM dp('{}')"])
def test_a_session_needs_no_dp(analyst: dp_sql.Session, text: str) -> None:
    asked = "SELECT DP_COUNT(*, epsilon := 1) FROM orders"
    error = told(analyst, text.format(asked))
    assert "it needs no dp(…)" in error.message
    assert (error.suggestion, error.hint) == (asked, "")


def test_a_query_with_dollars_is_put_into_dp_with_a_tag(
    installed: duckdb.DuckDBPyConnection,
) -> None:
    call = f"DP_COUNT(1, epsilon := 1, groups := ['paid']{UNIT})"
    asked = f"SELECT status, {call} FROM orders WHERE note <> '$$' GROUP BY status"
    with pytest.raises(duckdb.Error) as raised:
        installed.execute(asked)
    proposed = str(raised.value).partition("Write: ")[2]
    assert proposed == f"FROM dp($q$ {asked} $q$)"
    installed.execute(proposed).fetchall()


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("key", "said"),
    [("total::DOUBLE", "whose equality is not exact"), ("[status]", "which is not supported here")],
)
def test_a_query_that_dp_refuses_too_is_not_proposed_in_dp(
    installed: duckdb.DuckDBPyConnection, key: str, said: str
) -> None:
    call = f"DP_COUNT(1, epsilon := 1, max_groups_contributed := 1, groups := ['1']{UNIT})"
    asked = f"SELECT {key} AS d, {call} FROM orders GROUP BY d"
    with pytest.raises(duckdb.Error, match=said) as raised:
        installed.execute(asked)
    message = str(raised.value)
    assert asked not in message
    if SAME in message:
        installed.execute(message.partition(SAME)[2]).fetchall()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("of_policy", [True, False])
def test_a_closed_session_says_that_it_is_closed(tmp_path: Path, of_policy: bool) -> None:
    path, policy = str(tmp_path / "shop.duckdb"), tmp_path / "policy.toml"
    policy.write_text(POLICY)
    with duckdb.connect(path) as con:
        con.execute(TABLES)
    more = {"policy": policy, "analyst": "ann"} if of_policy else {}
    with dp_sql.connect(path, **more) as session:
        pass
    text = f"SELECT DP_COUNT(*, epsilon := 1{'' if of_policy else UNIT}) FROM orders"
    for call in (
        lambda: session.sql("SELECT 1"),
        lambda: session.execute(text),
        lambda: session.sql("SELEC"),
        lambda: session.explain(text),
        lambda: session.cost([text]),
        session.budget,
    ):
        with pytest.raises(QueryError, match=r"^This session is closed\."):
            call()
    session.close()


def test_the_schemas_of_the_engine_are_refused_as_its_functions_are(
    analyst: dp_sql.Session,
) -> None:
    for relation in ("information_schema.tables", "INFORMATION_SCHEMA.columns", "duckdb_tables()"):
        error = told(analyst, f"SELECT * FROM {relation}")
        assert "is not available under a policy" in error.message
        assert error.hint == "SHOW TABLES lists the tables, and DESCRIBE shows the columns of one."


def test_examples_under_a_policy_name_no_privacy_unit_and_no_other_table(
    analyst: dp_sql.Session,
) -> None:
    assert "FROM customers" in str(told(analyst, "DELETE FROM orders").hint)
    assert "privacy_unit" not in str(told(analyst, "SELECT DP_SUM() FROM orders"))


def test_pivot_takes_the_query_of_a_plain_call_in_dp(
    installed: duckdb.DuckDBPyConnection,
) -> None:
    query = (
        f"SELECT status, DP_COUNT(1, epsilon := 1, groups := ['paid', 'sent']{UNIT}) AS n "
        "FROM orders GROUP BY status"
    )
    shown = tuple(map(int, duckdb.__version__.split(".")[:2])) >= (2, 0)  # to a macro
    match = r"Write PIVOT \(FROM dp\(" if shown else "Write the query into dp"
    with pytest.raises(duckdb.Error, match=match) as raised:
        installed.execute(f"PIVOT ({query}) ON status USING first(n)")
    assert SAME not in str(raised.value)
    proposed = f"PIVOT (FROM dp($$ {query} $$)) ON status USING first(n)"
    assert len(installed.execute(proposed).fetchall()) == 1


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("len(list_filter([status], lambda x: x = 'paid')) > 0", "has a lambda"),
        ("COLUMNS('total') > 3", "has COLUMNS"),
    ],
)
def test_what_is_not_supported_is_named_as_it_is(
    owner: dp_sql.Session, condition: str, said: str
) -> None:
    statement = f"SELECT DP_COUNT(*, epsilon := 1{UNIT}) FROM orders WHERE {condition}"
    assert said in told(owner, statement).message


def test_a_public_table_is_joined_by_integers_of_any_type(analyst: dp_sql.Session) -> None:
    statement = "SELECT DP_COUNT(*, epsilon := 9) FROM customers WHERE region = 'r1'"
    joined = statement.replace("customers", "customers JOIN regions USING (region_id)")
    assert told(analyst, statement).suggestion == joined  # INTEGER and BIGINT
