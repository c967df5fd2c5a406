"""Which of a person's rows comes first depends on that person's rows alone, not on their place."""

from collections.abc import Iterator
from itertools import permutations

import pytest

from dp_sql.errors import NotPrivate
from dp_sql.privacy.relations import join_sql
from tests.people import Database
from tests.privacy.oracle import as_sql, check, check_tables, compiled, some_data

OVER = "OVER (PARTITION BY user_id ORDER BY score)"
WINDOWS = [
    f"SELECT user_id, title, row_number() {OVER} AS n FROM ratings",
    f"SELECT user_id, title, lag(price) {OVER} AS p FROM ratings",
    f"SELECT user_id, lead(title) {OVER} AS t, day FROM ratings",
    f"SELECT user_id, first_value(title) {OVER} AS t FROM ratings",
    f"SELECT user_id, title, ntile(2) {OVER} AS n FROM ratings",
    f"SELECT user_id, kind, lead(title, 1, kind) {OVER} AS t FROM ratings",
    f"SELECT user_id, nth_value(title, 2) {OVER[:-1]} ROWS BETWEEN 1 PRECEDING AND UNBOUNDED FOLLOWING) AS t FROM ratings",
    f"SELECT user_id, title FROM ratings QUALIFY row_number() {OVER} = 1",
    f"SELECT user_id, kind FROM ratings QUALIFY row_number() {OVER} = 1",
    "SELECT DISTINCT ON (user_id) user_id, title FROM ratings ORDER BY user_id, score DESC",
]
PLAIN = "OVER (PARTITION BY user_id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)"
WINDOWS += [
    f"SELECT user_id, title, count(price) {PLAIN} AS n, max(price) {PLAIN} AS p FROM ratings",
    f"SELECT user_id, title, count(*) FILTER (WHERE price > 1) {PLAIN} AS n FROM ratings",
    "SELECT user_id, title, count(*) OVER (PARTITION BY user_id ROWS UNBOUNDED PRECEDING) AS n FROM ratings",
    "SELECT user_id, title, count(*) OVER (PARTITION BY user_id rows between unbounded preceding and current row) AS n FROM ratings",
]
KINDS = "SELECT user_id, title, count(DISTINCT kind) OVER (PARTITION BY user_id) AS n FROM ratings"
ARG_MIN = "SELECT user_id, arg_min(title, score) AS t, arg_max(price, score) AS p FROM ratings GROUP BY user_id"
ROWS = [  # of person 1, with one score; and a row of another person among them
    "(1, 'Dune', 2, NULL, 'novel', 1.5, TRUE)",
    "(1, 'Emma', 2, '2020-01-31', 'essay', 0, FALSE)",
    "(1, '', 2, '2020-01-01', NULL, 2.5, NULL)",
    "(2, 'Dune', 2, NULL, 'novel', 1.5, TRUE)",
]


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    database = Database()
    yield database
    database.close()


def answers(text: str, database: Database) -> list[list[tuple[str | None, ...]]]:
    """What person 1 has, for each order in which the rows may be stored."""
    return run(as_sql(compiled(text, database), database).sql, database)


def run(sql: str, database: Database) -> list[list[tuple[str | None, ...]]]:
    found = []
    for order in permutations(ROWS):
        for rows in (order, [row for row in order if not row.startswith("(2")]):
            database.connection.execute(
                f"TRUNCATE ratings; INSERT INTO ratings VALUES {', '.join(rows)}"
            )
            own = [row for row in database.rows(sql) if row[0] == "1"]
            found.append(sorted(own, key=repr))
    return found


MODE = "SELECT user_id, mode(coalesce(title, '')) AS t, mode(price) FILTER (WHERE price > 0) AS p, any_value(kind) AS k FROM ratings GROUP BY user_id"


@pytest.mark.one_in(3)
@pytest.mark.parametrize("text", [*WINDOWS, KINDS, ARG_MIN, MODE])
def test_rows_with_equal_keys_are_ordered_by_their_values(text: str, database: Database) -> None:
    found = answers(text, database)
    assert found[0] and all(one == found[0] for one in found)


def test_distinct_on_is_refused_where_order_by_names_an_alias(database: Database) -> None:
    text = "SELECT DISTINCT ON (user_id) user_id, lower(title) AS title FROM ratings ORDER BY title"
    with pytest.raises(NotPrivate, match="DISTINCT ON"):
        compiled(text, database)


def test_rows_with_equal_keys_are_counted_together(database: Database) -> None:
    text = f"SELECT user_id, count(*) {OVER} AS n, rank() {OVER} AS r FROM ratings"
    assert {row for one in answers(text, database) for row in one} == {("1", "1", "3", "1")}


@pytest.mark.thorough
@pytest.mark.parametrize("text", WINDOWS)
def test_the_test_would_see_an_order_by_place(
    text: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(join_sql, "by_values", lambda types: [])
    found = answers(text, database)
    assert not all(one == found[0] for one in found)


def test_the_test_would_see_an_arg_min_by_place(database: Database) -> None:
    found = run(ARG_MIN, database)
    assert not all(one == found[0] for one in found)


@pytest.mark.parametrize(
    "call, why",
    [
        ("count(DISTINCT title) FILTER (WHERE score > 3)", "FILTER is"),
        ("mode() WITHIN GROUP (ORDER BY score) FILTER (WHERE score > 3)", "FILTER is"),
        ("first_value(title IGNORE NULLS)", "IGNORE NULLS is"),
    ],
)
def test_other_forms_of_a_window_function_are_refused(
    call: str, why: str, database: Database
) -> None:
    with pytest.raises(NotPrivate, match=f"{why} not supported with this window function"):
        compiled(f"SELECT user_id, {call} {OVER} AS n FROM ratings", database)


def test_a_column_is_not_taken_for_a_window_function(database: Database) -> None:
    source = "(SELECT user_id, score, title AS __dp_window_0 FROM ratings) AS t"
    numbered = "row_number() OVER (PARTITION BY user_id ORDER BY score) AS n"
    with pytest.raises(NotPrivate, match="names that begin with __dp_window_"):
        compiled(f"SELECT user_id, {numbered}, __dp_window_0 AS title FROM {source}", database)
    compiled(f"SELECT user_id, {numbered}, t.__dp_window_0 AS title FROM {source}", database)


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        ("ROWS BETWEEN CURRENT ROW AND 1 PRECEDING", "ends before"),
        ("ROWS 2 FOLLOWING", "ends before"),
        ("ROWS BETWEEN UNBOUNDED FOLLOWING AND UNBOUNDED FOLLOWING", "ends before"),
        ("ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED PRECEDING", "ends before"),
        ("RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", "equal keys"),
        ("", "reads up to its row only"),
    ],
)
@pytest.mark.parametrize("call", ["last_value(title)", "nth_value(title, 2)"])
def test_a_frame_has_rows_that_its_order_tells(
    call: str, frame: str, why: str, database: Database
) -> None:
    over = f"OVER (PARTITION BY user_id ORDER BY score {frame})"
    with pytest.raises(NotPrivate, match=why):
        compiled(f"SELECT user_id, {call} {over} AS t FROM ratings", database)


@pytest.mark.parametrize(
    "call",
    [
        "ntile(0)",
        "ntile(score)",
        "nth_value(title, 0)",
        "nth_value(title, score)",
        "lag(title, 1, score)",
    ],
)
def test_an_argument_that_duckdb_would_refuse_in_a_row_is_refused(
    call: str, database: Database
) -> None:
    over = OVER[:-1] + " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)"
    with pytest.raises(NotPrivate, match=call.partition("(")[0]):
        compiled(f"SELECT user_id, {call} {over} AS t FROM ratings", database)


def test_of_values_that_occur_as_often_the_least_is_the_mode(database: Database) -> None:
    rows = {row for one in answers(MODE, database) for row in one}
    assert rows == {("1", "1", "", "1.5000000000", "essay")}
    check_tables(as_sql(compiled(MODE, database), database), database)


def test_values_of_one_row_do_not_depend_on_other_people(database: Database) -> None:
    text = (
        "SELECT user_id, row_number() OVER (PARTITION BY user_id ORDER BY score) AS a, "
        "row_number() OVER (PARTITION BY user_id ORDER BY score DESC) AS b, "
        "row_number() OVER (PARTITION BY user_id, title ORDER BY score DESC) AS c FROM ratings"
    )
    sql = as_sql(compiled(text, database), database).sql
    sums = (
        f"SELECT sum(c0 * c1 * (c2 + 1)), sum(c1 * c2 * c2) FROM ({sql}) AS t WHERE __dp_person = 1"
    )
    database.connection.execute("SET threads = 2; TRUNCATE ratings")
    found = []
    for others in ("FALSE", "i % 2 = 0", "TRUE"):
        rows = (
            "SELECT CASE WHEN i % 2 = 0 THEN 1 ELSE 2 + i * 7919 % 30 END, chr(65 + CAST(i // 2 % 3 AS INTEGER)), i // 2 % 2, "
            f"NULL, NULL, 0, NULL FROM range(40000) AS t(i) WHERE i % 2 = 0 OR {others}"
        )
        database.connection.execute(f"TRUNCATE ratings; INSERT INTO ratings {rows}")
        found.append(database.rows(sums))
    database.connection.execute("SET threads = 1; TRUNCATE ratings")
    assert found[0] == found[1] == found[2]


NAMELESS = ["user_id, score + 1", "user_id, score AS w, title AS w", "user_id, title, day, title"]


@pytest.mark.parametrize("listed", NAMELESS)
@pytest.mark.parametrize("more", ["count(*) OVER (PARTITION BY user_id) AS n, *", "*, 1 AS n"])
def test_a_star_beside_a_window_includes_unnamed_columns(
    listed: str, more: str, database: Database
) -> None:
    """Else the names of an alias, which go by position, would mean other columns."""
    names = "abcde"[: listed.count(",") + 2]
    text = (
        f"SELECT {', '.join(names)} FROM (SELECT {more} FROM (SELECT {listed} FROM ratings) "
        "QUALIFY count(*) OVER (PARTITION BY user_id) > 1) AS t({})"
    )
    for data in some_data():
        assert check(text.format(", ".join(names)), data, False, database)
