"""What is refused is proposed in another form; it is pasted, and answers what was asked."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import dp_sql
from dp_sql.errors import QueryError
from dp_sql.sql.other_forms import other_forms
from tests.conftest import SURE

TABLES = """
CREATE TABLE users AS SELECT i AS user_id, DATE '2020-01-01' + i::INTEGER AS signup, i % 3 = 0 AS is_new FROM range(400) r(i);
CREATE TABLE events AS SELECT i % 400 AS user_id, i % 3 AS kind, 1 + i % 2 AS size,
    TIMESTAMP '2024-01-01' + INTERVAL (i) HOUR AS ts, {'kin': 1 + i % 2} AS shape, TIMESTAMP '2024-01-01' AS first_at, ['red', 'blue'][1:1 + i % 2] AS tags,
    ('{"kind": "a", "nested": {"size": ' || 1 + i % 2 || '}, "device": "' || ['ios', 'web'][1 + i % 2] || '"}')::JSON AS props FROM range(1200) r(i);
CREATE TABLE kinds AS SELECT i AS kind, 2 AS size, TIMESTAMP '2024-01-02' AS ts FROM range(2) r(i);
"""
POLICY = """
tables.users.privacy_unit = "user_id"
tables.events.privacy_unit = "user_id"
public.tables = ["kinds"]
budget = { dataset = "forms", epsilon = 1000000 }
"""
COUNT = "SELECT DP_COUNT({}, epsilon := 10000, max_contributions := 5) FROM {}"


HINTS = {
    "SELECT DP_COUNT(*, epsilon := 1) FROM users u WHERE (SELECT count(*) FROM events e WHERE e.user_id = u.user_id) > 3":
        "GROUP BY user_id HAVING count(*) > 3",
    "SELECT DP_COUNT(*, epsilon := 1) FROM events WHERE list_mode(tags) = 1": "The function list_mode is not supported",
    "SELECT DP_COUNT(*, epsilon := 1) FROM users WHERE is_new = 'yes'": "Write TRUE or FALSE.",
    "SELECT DP_COUNT(*, epsilon := 1) FROM events WHERE kind > getvariable('k')": "params",
    "SELECT DP_COUNT(*, epsilon := 1) FROM events WHERE ts > CAST('2024-01-02 00:00:00+00' AS TIMESTAMPTZ)": "Write a time without a time zone",
    "SELECT DP_COUNT(*, epsilon := 1) FROM events WHERE kind IN (WITH RECURSIVE t AS (SELECT 1 AS kind UNION ALL SELECT kind + 1 FROM t "
    "WHERE kind < 3) SELECT kind FROM t)": "run it on its own and write its values here",
    "SET VARIABLE k = 3": "params",
    "SELECT DP_COUNT(*, epsilon := 1) FROM (SELECT user_id, last_value(kind) OVER (PARTITION BY user_id ORDER BY ts) AS k FROM events) WHERE k = 1":
        "first_value with ORDER BY … DESC",
    "SELECT DP_COUNT(*, epsilon := 1) FROM (SELECT user_id, sum(kind) OVER (PARTITION BY user_id ORDER BY ts RANGE BETWEEN 2 PRECEDING AND CURRENT ROW) "
    "AS k FROM events) WHERE k = 1": "ROWS BETWEEN 6 PRECEDING",
    "SET memory_limit = '1GB'": "For example: SELECT DP_COUNT(*",
    "PIVOT (SELECT kind, DP_COUNT(*, epsilon := 1, groups := [1]) AS n FROM events GROUP BY kind) ON kind USING first(n)":
        "Write instead:\nFROM (SELECT kind, DP_COUNT(*, epsilon := 1, groups := [1]) AS n FROM events GROUP BY kind) "
        "PIVOT (first(n) FOR kind IN ('value 1', 'value 2'))",
    "FROM (PIVOT (SELECT kind, DP_COUNT(*, epsilon := 1, groups := [1]) AS n FROM events GROUP BY kind) ON kind USING first(n))":
        "PIVOT (first(n) FOR region IN",
    "UNPIVOT (SELECT DP_COUNT(*, epsilon := 1) AS n FROM events) ON n":
        "Write instead:\nFROM (SELECT DP_COUNT(*, epsilon := 1) AS n FROM events) UNPIVOT (value FOR name IN (n))",
    "SHOW TABLES FROM main": "SHOW TABLES lists",
    "SELECT DP_COUNT(*, epsilon := 1) FROM (SELECT kind, count(*) AS n FROM events GROUP BY kind)": "For example: GROUP BY user_id, kind.",
    "SELECT histogram(size) FROM kinds": "Write instead:\nSELECT size, count(size) AS n FROM kinds GROUP BY size HAVING count(size) > 0",
    "SELECT DP_COUNT(*, epsilon := 1) FROM events e ASOF JOIN users u ON e.user_id = u.user_id AND e.ts > u.signup":
        r"QUALIFY row_number() OVER (PARTITION BY a.user_id, a.ts ORDER BY b.ts DESC) = 1)",
    "SELECT DP_COUNT(*, epsilon := 1) FROM (UNPIVOT events ON size, kind INTO NAME k VALUE v)": "UNION ALL SELECT user_id, 'b', b FROM t",
    "SELECT DP_COUNT(*, epsilon := 1) FROM events UNPIVOT (v FOR k IN (size, kind))": "UNPIVOT is not supported in the source",
    "SELECT DP_COUNT(*, epsilon := 1) FROM users u, LATERAL (SELECT max(size) AS m FROM events e WHERE e.user_id = u.user_id) t":
        "Join a table instead, or one row for each person",
}  # fmt: skip


@pytest.mark.parametrize("statement", HINTS)
def test_what_has_another_form_is_refused_with_a_hint(
    statement: str, session: dp_sql.Session
) -> None:
    with pytest.raises(QueryError) as raised:
        session.sql(statement)
    assert not raised.value.suggestion or "Write instead" in HINTS[statement]
    assert HINTS[statement] in str(raised.value) and "tables.main" not in str(raised.value)


def test_the_example_for_another_statement_is_within_the_policys_limit(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "a.duckdb")) as con:
        con.execute(TABLES)
    limited = f"{POLICY}limits.max_epsilon_per_query = 0.5\n"
    (tmp_path / "policy.toml").write_text(limited)
    with dp_sql.connect(str(tmp_path / "a.duckdb"), policy=tmp_path / "policy.toml") as session:
        with pytest.raises(QueryError) as raised:
            session.sql("SET threads = 4")
        assert session.sql(str(raised.value).partition("For example: ")[2]).fetchall()


def test_an_owner_pivots_answers_and_asks_for_them_first() -> None:
    with dp_sql.connect() as owner:
        owner.execute(TABLES)
        call = "DP_COUNT(*, epsilon := 10000, max_contributions := 5, privacy_unit := user_id"
        answers = f"SELECT kind, {call}, groups := [0, 1]) AS n FROM events GROUP BY kind"
        pivot = "ON kind USING first(n)"
        for text in (f"WITH a AS ({answers}) PIVOT a {pivot}", f"PIVOT ({answers}) {pivot}",
                     f"WITH a AS ({answers}) FROM (PIVOT a {pivot})"):  # fmt: skip
            found = owner.sql(text)
            assert (found.columns, found.fetchall()) == (["0", "1"], [(400, 400)])
        with pytest.raises(QueryError, match="reads a, which holds an answer"):
            owner.sql(
                f"WITH a AS ({answers}) SELECT {call}) FROM events WHERE kind IN (SELECT kind FROM a)"
            )


def test_an_owners_variable_is_refused_with_a_hint() -> None:
    with dp_sql.connect() as owner:
        owner.execute(TABLES)
        owner.execute("SET VARIABLE k = 1")
        call = "DP_COUNT(*, epsilon := 10000, max_contributions := 5, privacy_unit := user_id)"
        with pytest.raises(QueryError, match="params"):
            owner.sql(f"SELECT {call} FROM events WHERE kind = getvariable('k')")
        query = f"SELECT {call} FROM events WHERE kind = $k"
        assert owner.sql(query, params={"k": 1}).fetchall() == [(400,)]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dp_sql.Session]:
    folder = tmp_path_factory.mktemp("forms")
    with duckdb.connect(str(folder / "a.duckdb")) as con:
        con.execute(TABLES)
    (folder / "policy.toml").write_text(POLICY)
    with dp_sql.connect(str(folder / "a.duckdb"), policy=folder / "policy.toml") as session:
        yield session


REFUSED = {  # the source, and how many rows the statement that is proposed counts; None: as DuckDB
    "(SELECT user_id, sum(size + 0.5) AS n, max(size + 0.5) AS m FROM events GROUP BY user_id) WHERE 1.25 * n > m": None,
    "(SELECT user_id, sum(size + 0.5) AS n FROM events GROUP BY user_id) e WHERE e.n * e.n > 1": None,
    "users WHERE is_new = 'true'": None,
    "users WHERE is_new = 1": None,
    "events WHERE len(list_filter(tags, lambda x: x = 'blue')) > 0": None,
    "events WHERE list_filter(tags, lambda t: t = 'blue') <> []": None,
    "events TABLESAMPLE 10%": 1200,
    "events TABLESAMPLE reservoir(10) WHERE kind = 1": 400,
    "events WHERE (kind, size) IN (SELECT kind, size FROM kinds)": None,
    "events WHERE (kind, size) NOT IN (SELECT kind, size FROM kinds)": None,
    "events WHERE (kind, size) IN (SELECT kind, size FROM kinds WHERE kind = 1)": None,
    "events WHERE props.device = 'ios'": 600,
    "events WHERE props['device'] = 'ios'": 600,
    "events e WHERE e.props.device = 'ios'": 600,
    "events WHERE props.nested.size = 2": 600,
    "events WHERE shape.kiin = 2": 600,  # kind is a column
    "events WHERE props.device = '\"ios\"' AND props['device'] <> '\"web\"'": None,
    "events WHERE props['nested']['size'] = 2": 600,
    "events WHERE props.kind = 'a'": 1200,  # kind is a column, too
    "events WHERE json_extract(props, '$.device')::INTEGER IS NULL": 1200,
    "events WHERE TRY_CAST(props -> '$.device' AS INTEGER) IS NULL": 1200,
    "events WHERE CAST(props->'device' AS DATE) IS NULL": 1200,
    "events POSITIONAL JOIN kinds": 800,
    "events WHERE (props->'device')::INTEGER IS NULL": 1200,
    "events WHERE props.nested.size::INTEGER = 2": 600,
    "events WHERE ts::DATE = '2024-01-02'::TIMESTAMP OR ts::DATE < TIMESTAMP '2024-01-01 00:00:00'": None,
    "events WHERE ts < TIMESTAMPTZ '2024-01-02 01:00:00+01'": 24,
    "events WHERE ts < '2024-01-02T00:00:00Z'::TIMESTAMPTZ": 24,
}


@pytest.mark.one_in(6)
@pytest.mark.parametrize("source", REFUSED)
def test_another_form_is_proposed_and_counts_the_same_rows(
    session: dp_sql.Session, source: str
) -> None:
    with pytest.raises(QueryError) as refused:
        session.sql(COUNT.format("*", source))
    assert refused.value.suggestion, str(refused.value)
    ((answer,),) = session.sql(refused.value.suggestion).fetchall()
    wanted = REFUSED[source]
    if wanted is None:
        with duckdb.connect() as con:
            con.execute(TABLES)
            ((wanted,),) = con.execute(f"SELECT count(*) FROM {source}").fetchall()
    assert answer == wanted


@pytest.mark.parametrize(
    ("item", "source", "wanted"),
    [
        ("(kind, size)", "events", 6),
        ("ROW(e.kind, size, user_id)", "events AS e", 1200),
        ("kind", "events WHERE lower(tags[2]) !~* 'BL.E' OR kind = 1", 1),
    ],
)
def test_another_form_is_proposed_for_different_rows_and_patterns(
    session: dp_sql.Session, item: str, source: str, wanted: int
) -> None:
    with pytest.raises(QueryError) as refused:
        session.sql(f"SELECT DP_COUNT_DISTINCT({item}, {SURE}) FROM {source}")
    assert session.sql(str(refused.value.suggestion)).fetchall() == [(wanted,)]


@pytest.mark.parametrize("condition", [
    "kind = (SELECT kind FROM kinds WHERE kind = 1)",
    "kind = (SELECT max(kind) FROM kinds) + 0 OR kind = (SELECT kind FROM kinds WHERE kind = 0)",
    "NOT (kind = (SELECT kind FROM kinds WHERE kind = 9))",  # NULL
])  # fmt: skip
def test_a_query_of_public_tables_may_be_one_value(condition: str, session: dp_sql.Session) -> None:
    with dp_sql.connect() as owner:
        owner.execute(TABLES)
        wanted = owner.sql(f"SELECT count(*) FROM events WHERE {condition}").fetchall()
        asked = COUNT.format("*", f"events WHERE {condition}")
        of_owner = asked.replace("(*", "(*, privacy_unit := user_id")
        assert owner.sql(of_owner).fetchall() == session.sql(asked).fetchall() == wanted


def test_a_query_of_several_rows_is_compared_by_in(session: dp_sql.Session) -> None:
    asked = COUNT.format("*", "events WHERE size > 0 AND kind = (SELECT kind FROM kinds)")
    with pytest.raises(QueryError, match="This subquery has more than one row") as refused:
        session.sql(asked)
    assert refused.value.suggestion == asked.replace("= (", "IN (")
    assert session.sql(refused.value.suggestion).fetchall() == [(800,)]


@pytest.mark.parametrize(
    ("name", "shown"), [("tag", "tag"), ('"The Tag"', '"The Tag"'), ("kind", "u.kind")]
)
def test_elements_that_the_list_unnests_are_proposed_as_rows_of_from(
    name: str, shown: str, session: dp_sql.Session
) -> None:
    count = "DP_COUNT(*, epsilon := 10000, max_contributions := 5, groups := ['blue']) AS n"
    with pytest.raises(QueryError) as refused:
        session.sql(f"SELECT unnest(tags) AS {name}, {count} FROM events GROUP BY {name}")
    key = 1 if name == "kind" else shown  # GROUP BY kind means the column of events
    wanted = f"SELECT {shown}, {count} FROM events, unnest(tags) AS u({name}) GROUP BY {key}"
    assert (refused.value.suggestion, refused.value.asks_other) == (wanted, False)


@pytest.mark.parametrize("behind", ["", " FILTER (WHERE size > (1 + 0))"])
def test_elements_that_a_call_unnests_are_proposed_as_rows_of_from(
    behind: str, session: dp_sql.Session
) -> None:
    call = f"DP_TOPK({{}}, 1, epsilon := 10000, domain := ['red', 'blue']){behind}"
    for where in ("", " WHERE kind > 0"):
        with pytest.raises(QueryError, match="unnest is not supported") as caught:
            session.sql(f"SELECT {call.format('unnest(tags)')} AS best FROM events{where}")
        proposed = f"SELECT {call.format('element')} AS best FROM events, unnest(tags) AS u(element){where}"
        assert caught.value.suggestion == proposed
    two = f"SELECT {call.format('unnest(tags)')}, DP_COUNT(*, epsilon := 1) FROM events"
    with pytest.raises(QueryError) as caught:  # all rows are no elements
        session.sql(two)
    assert not caught.value.instead


@pytest.mark.parametrize("item", ["COLUMNS(*)", "* EXCLUDE (ts)"])
def test_all_rows_are_counted_in_place_of_columns(session: dp_sql.Session, item: str) -> None:
    with pytest.raises(QueryError) as refused:
        session.sql(COUNT.format(item, "events"))
    assert session.sql(refused.value.suggestion).fetchall() == [(1200,)]


@pytest.mark.parametrize(
    "source",
    [
        "events ASOF JOIN kinds USING (kind, ts)",
        "events ASOF LEFT JOIN kinds k ON events.ts >= k.ts",
    ],
)
def test_no_form_is_proposed_that_drops_a_condition(session: dp_sql.Session, source: str) -> None:
    with pytest.raises(QueryError) as refused:
        session.sql(COUNT.format("*", source))
    assert refused.value.suggestion == ""


@pytest.mark.parametrize(("text", "word"), [
    (COUNT.format("*", "events TABLESAMPLE 10%"), "TABLESAMPLE"),
    (COUNT.format("*", "events FULL JOIN kinds USING (kind)"), "FULL"),
    (COUNT.format("*", "(FROM events LIMIT 10)"), "LIMIT"),
])  # fmt: skip
def test_the_caret_is_under_the_word(session: dp_sql.Session, text: str, word: str) -> None:
    with pytest.raises(QueryError) as refused:
        session.sql(text)
    assert refused.value.position == text.index(word)


@pytest.mark.parametrize(("asked", "said"), [
    ("stddev(kind) FROM events", "There is no DP function for stddev."),
    ("max(kind) FROM events", "to one person, so it is not released"),
    ("* FROM events", "Rows are not released"),
    ("count(*) FROM (SELECT user_id, stddev(kind) OVER (PARTITION BY user_id ORDER BY ts) AS n FROM events) WHERE n = 1",
     "With DP functions it would be refused, too: The supported window functions are"),
    ("avg(n) FROM (SELECT user_id, stddev(kind) AS n FROM events GROUP BY user_id)", "A source may only use count"),
])  # fmt: skip
def test_what_is_not_released_is_said(session: dp_sql.Session, asked: str, said: str) -> None:
    with pytest.raises(QueryError, match=said):
        session.sql(f"SELECT {asked}")


def test_a_parameter_is_no_reason_to_refuse_dp_functions(session: dp_sql.Session) -> None:
    with pytest.raises(QueryError) as refused:
        session.sql("SELECT count(*) FROM events WHERE kind = ?", params=[1])
    assert "refused, too" not in str(refused.value)


def test_a_join_of_private_tables_is_proposed_on_the_person_too(
    session: dp_sql.Session,
) -> None:
    text = COUNT.format(
        "a.kind",
        "events a JOIN (SELECT user_id, max(kind) AS kind FROM events GROUP BY user_id) b ON a.kind = b.kind",
    )
    with pytest.raises(QueryError) as raised:
        session.sql(text)
    proposed = text.replace("ON a.kind = b.kind", "USING (user_id, kind)")
    assert f"A different question that works:\n{proposed}" in str(raised.value)


def test_groups_may_be_the_first_rows_of_a_public_table(session: dp_sql.Session) -> None:
    first = "(SELECT kind FROM kinds ORDER BY kind DESC LIMIT 1)"
    call = f"DP_COUNT(*, epsilon := 10000, max_contributions := 5, groups := {first})"
    found = session.execute(f"SELECT kind, {call} FROM events GROUP BY kind").fetchall()
    assert found == [(1, 400)]


def test_a_long_text_has_no_other_form() -> None:
    text = "SELECT 1 FROM t WHERE last(kind ORDER BY day) = 'a'"
    assert [*other_forms(text, 0, ["u"])]
    assert not [*other_forms(text + " " * 2000, 0, ["u"])]
