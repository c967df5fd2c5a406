"""GROUP BY expressions and several keys; which groups are public; what a call still needs."""

import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import dp_sql
from dp_sql.errors import ArgumentError, NotSupported, SourceError
from dp_sql.privacy.plans import sources
from dp_sql.privacy.plans.example_dates import date_groups
from dp_sql.privacy.relations import source_compiler
from dp_sql.privacy.relations.rows import Rows
from tests.conftest import SURE

TABLES = """
CREATE TABLE seen AS SELECT p AS user_id, ['north', 'south'][1 + p % 2] AS region,
    'book ' || p % 3 AS title, DATE '2024-01-01' + (p % 14)::INTEGER AS day FROM range(84) t(p);
CREATE TABLE regions AS FROM (VALUES ('north', TRUE), ('south', FALSE)) t(name, is_open);
CREATE TABLE weeks AS SELECT DATE '2024-01-01' + 7 * i::INTEGER AS week FROM range(3) t(i);
CREATE TABLE pairs AS FROM (VALUES ('north', 'book 1'), ('south', NULL), ('west', 'book 2'),
    ('north', 'book 1')) t(region, title);
"""
POLICY = """
[tables]
seen = { privacy_unit = "user_id" }
[public]
tables = ["regions", "weeks", "pairs"]
[domains]
"seen.region" = "regions.name"
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keys") / "seen.duckdb"
    with duckdb.connect(str(path)) as con:
        con.execute(TABLES)
    return path


@pytest.fixture(scope="module")
def owner(path: Path) -> Iterator[dp_sql.Session]:
    with dp_sql.connect(path) as session:
        yield session


@pytest.fixture(scope="module")
def analyst(path: Path) -> Iterator[dp_sql.Session]:
    policy = path.with_name("policy.toml")
    policy.write_text(POLICY)
    with duckdb.connect() as copy:  # an owner's session holds the file
        copy.execute(TABLES)
        other = path.with_name("analyst.duckdb")
        copy.execute(f"ATTACH '{other}' AS file; COPY FROM DATABASE memory TO file")
    with dp_sql.connect(other, policy=policy, analyst="ann") as session:
        yield session


@pytest.fixture(scope="module")
def declaring(path: Path, analyst: dp_sql.Session) -> Iterator[dp_sql.Session]:
    """An analyst whose policy declares more values."""
    policy = path.with_name("declaring.toml")
    policy.write_text(POLICY + '"seen.day" = "weeks.week"\n"seen.title" = "observed"\n')
    other = path.with_name("analyst.duckdb")
    with dp_sql.connect(other, policy=policy, analyst="ann") as session:
        yield session


def count(groups: str = "", unit: str = "", cap: int = 9) -> str:
    """How many people each group has."""
    given = f", groups := {groups}" if groups else ""
    return f"DP_COUNT_DISTINCT(user_id, {SURE}, {unit}contribution_bound := 1, max_groups_contributed := {cap}{given}) AS n"


def both(text: str, owner: dp_sql.Session, analyst: dp_sql.Session) -> list[tuple[object, ...]]:
    """What both kinds of session answer; the same, as the noise is close to none."""
    found = analyst.sql(text).fetchall()
    assert (
        owner.sql(text.replace("user_id,", "user_id, privacy_unit := user_id,")).fetchall() == found
    )
    return found  # type: ignore[no-any-return]


WEEKS = [("2024-01-01", 42), ("2024-01-08", 42), ("2024-01-15", 0)]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("listed", "tail"),
    [
        ("date_trunc('week', day) AS week", "GROUP BY week ORDER BY week"),
        ("date_trunc('week', day) AS week", "GROUP BY 1 ORDER BY 1"),
        ("date_trunc('week', day) w", "GROUP BY ALL HAVING n >= 0 ORDER BY w"),
        ("date_trunc('week', seen.day)", "GROUP BY date_trunc('week', seen.day) ORDER BY date_trunc('week', seen.day)"),
        ("CAST(Date_Trunc( 'week', day ) AS DATE) AS d", "GROUP BY date_trunc('week', day) ORDER BY d"),
    ],
)  # fmt: skip
def test_a_key_may_be_an_expression(
    listed: str, tail: str, owner: dp_sql.Session, analyst: dp_sql.Session
) -> None:
    found = both(f"SELECT {listed}, {count('weeks.week')} FROM seen {tail}", owner, analyst)
    assert [(str(week)[:10], n) for week, n in found] == WEEKS


@pytest.mark.parametrize(
    ("key", "tail"),
    [
        ("CASE WHEN region = 'north' THEN 'a' ELSE 'b' END", "ORDER BY # DESC"),
        ("CASE WHEN region = 'north' THEN 'a' ELSE 'b' END", "ORDER BY upper(# || '!') DESC"),
        ("region = 'north'", "HAVING n > 0 OR (#) ORDER BY # ASC NULLS LAST, n"),
        ("region = 'north'", "QUALIFY rank() OVER (PARTITION BY # ORDER BY n) = 1 ORDER BY #"),
        ("user_id % 2 = 0", "HAVING coalesce(#, FALSE) IN (TRUE, FALSE) ORDER BY n, #"),
    ],
)  # fmt: skip
def test_an_expression_is_a_key_wherever_it_is_whole(
    key: str, tail: str, owner: dp_sql.Session, analyst: dp_sql.Session
) -> None:
    text = f"SELECT # AS k, {count('')} FROM seen GROUP BY # {tail}".replace("#", key)
    assert [k for k, _ in both(text, owner, analyst)] in (["b", "a"], [False, True])
    for part in ("2 * user_id % 2", "user_id % 2 + 1"):  # only a part of it may be the operand
        with pytest.raises(NotSupported, match="user_id is neither a group nor a name"):
            asked = f"SELECT 1, {count('range(2)')} FROM seen GROUP BY user_id % 2"
            analyst.sql(f"{asked} ORDER BY {part}")


def test_keys_of_two_tables_that_are_called_the_same(
    owner: dp_sql.Session, analyst: dp_sql.Session
) -> None:
    rest = (
        "FROM seen JOIN regions AS a ON region = a.name JOIN regions AS b ON b.name = lower(region)"
    )
    asked = (
        f"SELECT b.name AS y, upper(a.name) AS x, {count('(regions.name, regions.name)')} {rest}"
    )
    tail = "GROUP BY a.name, b.name HAVING a.name = b.name ORDER BY concat(a.name, '-', b.name)"
    found = both(f"{asked} {tail}", owner, analyst)
    assert [(y, x) for y, x, _ in found] == [("north", "NORTH"), ("south", "SOUTH")]
    with pytest.raises(ArgumentError, match=r"none for a\.name, b\.name") as refused:
        analyst.sql(f"SELECT a.name, b.name, {count('')} {rest} GROUP BY ALL")
        assert "groups := (regions.name, regions.name)" in str(refused.value.suggestion)
    with pytest.raises(NotSupported, match="more than one column k"):
        both_k = "SELECT upper(region) AS k, lower(region) AS k"
        analyst.sql(f"{both_k}, {count('')} FROM seen GROUP BY 1, 2")


@pytest.mark.parametrize(
    ("key", "tail", "proposed"),
    [
        ("weight / 2 - 1", " ORDER BY # DESC", "SELECT @ AS k, {} GROUP BY @ ORDER BY @ DESC"),
        ("weight", " ORDER BY k", "SELECT @ AS k, {} GROUP BY @ ORDER BY k"),
        ("floor(weight)", " HAVING # > 1", "SELECT @ AS k, {} GROUP BY @ HAVING @ > 1"),
    ],
)  # fmt: skip
def test_a_float_is_cast_wherever_it_is_the_key(
    key: str, tail: str, proposed: str, analyst: dp_sql.Session
) -> None:
    rest = f"{count('[1, 2]')} FROM (SELECT user_id, user_id::DOUBLE AS weight FROM seen)"
    asked = f"SELECT # AS k, {rest} GROUP BY #{tail}".replace("#", key)
    with pytest.raises(ArgumentError, match="whose equality is not exact") as refused:
        analyst.sql(asked)
    cast = f"TRY_CAST({key} AS {'BIGINT' if key[:5] == 'floor' else 'DECIMAL(18, 4)'})"
    assert not refused.value.asks_other
    assert refused.value.suggestion == proposed.format(rest).replace("@", cast)


@pytest.mark.parametrize(
    ("listed", "by", "name", "expected"),
    [
        ("region ISNULL", "1", "region ISNULL", [(False, 84), (True, 0)]),
        ("region NOTNULL", "region NOTNULL", "region NOTNULL", [(False, 0), (True, 84)]),
        ("CASE WHEN day > DATE '2024-01-07' THEN true ELSE false END k", "k", "k",
         [(False, 42), (True, 42)]),
        ("(region = 'north') AS k", "((k))", "k", [(False, 42), (True, 42)]),
        ("user_id % 2 = 0 AS k", "(1)", "k", [(False, 42), (True, 42)]),
        ("region = 'north' k", "k", "k", [(False, 42), (True, 42)]),
        ("user_id < 42 AND day::TIMESTAMP ISNULL k", "k", "k", [(False, 84), (True, 0)]),
        ("NOT (day > DATE '2024-01-07') IS TRUE k", "1", "k", [(False, 42), (True, 42)]),
        ("region IS DISTINCT FROM region", "1", "region IS DISTINCT FROM region", [(False, 84), (True, 0)]),
        ("user_id = user_id k", "k", "k", [(False, 0), (True, 84)]),
        ("k: region = 'north'", "k", "k", [(False, 42), (True, 42)]),
    ],
)  # fmt: skip
def test_a_key_ends_where_it_ends_for_duckdb(
    listed: str, by: str, name: str, expected: list[object], owner: dp_sql.Session,
    analyst: dp_sql.Session,
) -> None:  # fmt: skip
    text = f"SELECT {listed}, {count('[FALSE, TRUE]')} FROM seen GROUP BY {by}"
    assert both(text, owner, analyst) == expected
    assert analyst.sql(text).columns[0] == name


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("SELECT 'a' AS k, user_id FROM seen UNION ALL SELECT 'b', user_id FROM seen WHERE user_id > 79",
         [("a", 84), ("b", 4)]),
        ("SELECT 1 AS k, count(*) AS n, user_id FROM seen GROUP BY ALL", [(1, 84)]),
        ("SELECT CASE WHEN count(*) > 1 THEN 'often' ELSE 'once' END AS k, user_id FROM seen GROUP BY user_id",
         [("often", 0), ("once", 84)]),
        ("SELECT quarter(day) AS k, user_id FROM seen GROUP BY k, user_id",
         [(1, 84), (2, 0), (3, 0), (4, 0)]),
        ("SELECT quarter(min(day)) AS k, user_id FROM seen GROUP BY user_id",
         [(1, 84), (2, 0), (3, 0), (4, 0)]),
    ],
)  # fmt: skip
def test_a_subquery_with_groups_or_literals_tells_which_values_its_columns_can_have(
    source: str, expected: list[object], owner: dp_sql.Session, analyst: dp_sql.Session
) -> None:
    text = f"SELECT k, {count()} FROM ({source}) GROUP BY k"
    assert sorted(both(text, owner, analyst)) == sorted(expected)


def test_groups_of_an_item_that_is_called_as_its_column(
    owner: dp_sql.Session, analyst: dp_sql.Session
) -> None:
    asked = f"SELECT date_trunc('week', day) AS day, {count(f'range({_DAYS})')} FROM seen GROUP BY "
    with pytest.raises(ArgumentError, match="A different question that works") as refused:
        analyst.sql(f"{asked}Day ORDER BY 2")
    assert refused.value.suggestion == f"{asked}1 ORDER BY 2"
    assert [n for _, n in both(str(refused.value.suggestion), owner, analyst)] == [42, 42]
    for listed, groups, key in [
        ("upper(region) AS region", "regions.name", "seen.region"),
        ("(region) AS region", "regions.name", "region"),
        ("upper(title) AS title", "pairs.title", "title"),
        ("upper(region) AS r", "['north']", "region"),
    ]:
        both(f"SELECT {listed}, {count(groups)} FROM seen GROUP BY {key}", owner, analyst)


@pytest.mark.parametrize("key", ["r", "1", "region", "ALL"])
def test_an_answer_may_have_the_name_of_the_column_that_is_the_key(
    key: str, owner: dp_sql.Session, analyst: dp_sql.Session
) -> None:
    calls = count("['north', 'south']").replace("AS n", "") + " AS region"
    text = f"SELECT region AS r, {calls} FROM seen GROUP BY {key} ORDER BY r"
    assert both(text, owner, analyst) == [("north", 42), ("south", 42)]


def test_the_unit_of_an_interval_is_no_alias(
    owner: dp_sql.Session, analyst: dp_sql.Session
) -> None:
    groups = count(f"range({_DAYS})")
    text = f"SELECT day + INTERVAL (7) DAY, {groups} FROM seen GROUP BY 1 ORDER BY 1"
    assert [n for _, n in both(text, owner, analyst)] == [0, 6]


_ROLLING = "date_trunc('month', DATE '2024-01-20'), least(current_date, DATE '2024-01-15')"
_DAYS = "DATE '2024-01-01', DATE '2024-01-15', INTERVAL 7 DAYS"


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("key", "groups", "expected"),
    [
        ("date_trunc('week', day)", f"(FROM generate_series({_DAYS}))", [42, 42, 0]),
        ("date_trunc('week', day)", f"(SELECT unnest(range({_DAYS})))", [42, 42]),
        ("day", f"(SELECT unnest(generate_series({_DAYS}))::DATE AS d)", [6, 6, 0]),
        ("date_trunc('week', day::TIMESTAMPTZ)", f"generate_series({_DAYS})", [42, 42, 0]),
        ("day::TIMESTAMPTZ", f"range({_DAYS.replace('DATE', 'TIMESTAMP')})", [6, 6]),
        ("day::TIMESTAMPTZ", f"generate_series({_DAYS.replace('DATE', 'TIMESTAMPTZ')})", [6, 6, 0]),
        ("day::TIMESTAMPTZ", "weeks.week", [6, 6, 0]),
        ("day", f"(SELECT d::DATE FROM range({_DAYS}) AS t(d))", [6, 6]),
        ("day", f"generate_series({_ROLLING}, INTERVAL 7 DAY)", [6, 6, 0]),
        ("day", f"range({_ROLLING}, '7 days'::INTERVAL)", [6, 6]),
        ("day", f"(SELECT d::DATE FROM range({_ROLLING}, INTERVAL 7 DAY) AS t(d))", [6, 6]),
        ("day", "range(today(), current_date + INTERVAL 3 DAY, INTERVAL 1 DAY)", [0, 0, 0]),
        ("user_id % 4", "range(year(current_date) // 9999, month(DATE '2024-03-01'))", [21] * 3),
        ("user_id % 4", "(FROM range(3))", [21, 21, 21]),
        ("user_id % 4", "(SELECT * FROM generate_series(-1, 4, 2))", [0, 21, 21]),
        ("user_id % 4", "(SELECT CAST(i AS INTEGER) FROM range(3, 5) AS t(i))", [21, 0]),
        ("user_id % 4", "(SELECT i + 1 FROM range(2) AS t(i))", [21, 21]),
        ("user_id % 4", "(SELECT DISTINCT * FROM range(2))", [21, 21]),
        (
            "user_id % 4",
            "(SELECT a + b FROM range(2) AS t(a), (VALUES (0), (2)) AS v(b))",
            [21] * 4,
        ),
        ("user_id % 4", "(VALUES (1), (3), (1))", [21, 21]),
        ("user_id % 4", "(SELECT unnest([3, 1, 5]))", [21, 21, 0]),
        ("user_id % 4", "(SELECT 2 UNION ALL SELECT 7)", [21, 0]),
        ("user_id % 4", "(FROM unnest([0, NULL]))", [21]),
    ],
)
def test_a_series_of_literals_is_public(
    key: str, groups: str, expected: list[int], owner: dp_sql.Session, analyst: dp_sql.Session
) -> None:
    text = f"SELECT {key} AS k, {count(groups)} FROM seen GROUP BY k ORDER BY k"
    assert [n for _, n in both(text, owner, analyst)] == expected


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("groups", "refused"),
    [
        ("(FROM range(10001))", "up to 10000 values"),
        ("(FROM range(1000000000000))", "up to 10000 values"),
        ("(FROM range(0, 9, 0))", "cannot be 0"),
        ("(FROM range(user_id))", "tables, views, CTEs"),
        ("range(year(day), 2030)", "tables, views, CTEs"),
        ("range(current_date, (SELECT max(day) FROM seen), INTERVAL 1 DAY)", "people's rows"),
        ("range(current_date, current_date + INTERVAL 1 YEAR, INTERVAL 1 SECOND)", "10000 values"),
        ("(SELECT user_id FROM range(9) AS t(i))", "user_id is not a column"),
        ("(SELECT unnest(range(9)) FROM seen)", "unnest|people's rows"),
        ("(SELECT unnest(range(9)) WHERE false)", "needs a FROM"),
        ("(FROM range(9) LIMIT 2)", "LIMIT"),
        ("(FROM range(1, 3, 1, 5))", "a start, an end and a step"),
        ("range(1, 3, 1, 5)", "a start, an end and a step"),
        ("(FROM range(9), seen)", "people's rows"),
        ("(FROM range((SELECT count(*) FROM seen)))", "people's rows"),
        ("(FROM generate_series(DATE '2024-01-01', DATE '2024-13-01', INTERVAL 1 DAY))", "range"),
    ],
)
def test_other_series_are_refused(
    groups: str, refused: str, owner: dp_sql.Session, analyst: dp_sql.Session
) -> None:
    for session, unit in ((analyst, ""), (owner, "privacy_unit := user_id, ")):
        text = f"SELECT user_id % 4 AS k, {count(groups, unit)} FROM seen GROUP BY k"
        with pytest.raises(dp_sql.QueryError, match=refused if session is analyst else None):
            session.sql(text)


def test_days_are_those_of_the_owners_time_zone() -> None:
    with dp_sql.connect() as session:
        session.execute("SET TimeZone = 'Europe/Berlin'")
        session.execute(
            "CREATE TABLE seen AS SELECT user_id, TIMESTAMPTZ '2024-01-01 23:30:00+00' AS moment "
            "FROM range(50) AS t(user_id)"
        )
        for kind in ("DATE", "TIMESTAMP", "TIMESTAMPTZ"):
            days = f"generate_series({kind} '2024-01-01', {kind} '2024-01-02', INTERVAL 1 DAY)"
            text = f"SELECT date_trunc('day', moment) AS d, {count(days, 'privacy_unit := user_id, ')} FROM seen GROUP BY d ORDER BY d"
            assert [n for _, n in session.sql(text).fetchall()] == [0, 50]


def test_a_local_time_that_there_is_not_is_no_group() -> None:
    with dp_sql.connect() as session:
        session.execute("SET TimeZone = 'Europe/Berlin'")
        session.execute("CREATE TABLE seen AS SELECT 1 AS user_id, now() AS moment")
        given = "[TIMESTAMP '2024-03-31 02:30:00']"
        text = (
            f"SELECT moment, {count(given, 'privacy_unit := user_id, ')} FROM seen GROUP BY moment"
        )
        with pytest.raises(ArgumentError, match="is not a value of type TIMESTAMP WITH TIME ZONE"):
            session.sql(text)


@pytest.mark.parametrize("n", [0, 10001])
def test_a_series_has_at_least_one_value_and_not_too_many(analyst: dp_sql.Session, n: int) -> None:
    text = f"SELECT user_id % 4 AS k, {count(f'(FROM range({n}))', '')} FROM seen GROUP BY k"
    with pytest.raises(SourceError, match="up to 10000 values, and at least one"):
        analyst.sql(text)


@pytest.mark.parametrize(
    ("key", "groups", "n"),
    [
        ("user_id % 4", "range(10000)", 10_000),
        ("date_trunc('hour', day)", "range(TIMESTAMP '2024-01-01', TIMESTAMP '2025-01-01', INTERVAL 1 HOUR)", 8784),
    ],
)  # fmt: skip
def test_a_long_series_is_as_long_as_it_may_be(
    key: str, groups: str, n: int, analyst: dp_sql.Session
) -> None:
    text = f"SELECT {key} AS k, {count(groups)} FROM seen GROUP BY k"
    assert f"LIMIT {n}" in analyst.explain(text).calls[0].sql


def test_groups_that_are_not_known_are_called_an_example(analyst: dp_sql.Session) -> None:
    with pytest.raises(
        dp_sql.QueryError, match=r"Example values to replace: groups \(your own public"
    ):
        analyst.sql(f"SELECT user_id % 4 AS k, {count()} FROM seen GROUP BY k")


@pytest.mark.parametrize(
    ("unit", "n"),
    [("year", 5), ("quarter", 4), ("month", 12), ("week", 53), ("day", 31), ("hour", 24)],
)
def test_groups_of_a_truncated_date_are_proposed_as_a_series(
    unit: str, n: int, analyst: dp_sql.Session
) -> None:
    with pytest.raises(dp_sql.QueryError) as caught:
        analyst.sql(f"SELECT date_trunc('{unit}', day) AS d, {count()} FROM seen GROUP BY d")
    assert len(analyst.sql(caught.value.suggestion).fetchall()) == n


@pytest.mark.parametrize(
    ("key", "kept", "groups"),
    [
        ("day", "day BETWEEN '2023-12-30' AND '2024-01-02'", "DATE '2023-12-30', DATE '2024-01-02', INTERVAL 1 DAY"),
        ("seen.day", "day > '2024-01-01' AND '2024-01-05' > day", "DATE '2024-01-02', DATE '2024-01-04', INTERVAL 1 DAY"),
        ("date_trunc('week', day)::DATE", "day >= '2024-01-03' AND day < '2024-01-15'", "DATE '2024-01-01', DATE '2024-01-08', INTERVAL 7 DAY"),
        ("date_trunc('quarter', day)", "day::DATE <= DATE '2024-08-08' AND user_id > 3 AND day >= '2024-05-05'", "DATE '2024-04-01', DATE '2024-07-01', INTERVAL 3 MONTH"),
        ("date_trunc('hour', day)", "day >= '2024-01-03' AND day <= '2024-01-04'", "TIMESTAMP '2024-01-03 00:00:00', TIMESTAMP '2024-01-04 00:00:00', INTERVAL 1 HOUR"),
        ("time_bucket(INTERVAL '1 day', day)", "day > today() - 7", "date_trunc('day', current_date - 7), current_date, INTERVAL 1 DAY"),
        ("year(day)", "day BETWEEN '2023-12-30' AND '2024-01-02'", "range(2023, 2025)"),
        ("day + 3", "day BETWEEN '2025-12-30' AND '2026-01-02'", "DATE '2024-01-01', DATE '2024-01-31', INTERVAL 1 DAY"),
        ("strftime(day, '%Y-%m')", "day >= '2024-01-03' AND day < '2024-03-01'", "(SELECT DISTINCT strftime(d::DATE, '%Y-%m') FROM generate_series(DATE '2024-01-01', DATE '2024-02-01', INTERVAL 1 MONTH) AS t(d)"),
        ("year(seen.day) * 100 + month(seen.day)", "day::DATE = '2024-02-03'", "DATE '2024-02-01', DATE '2024-02-01', INTERVAL 1 MONTH) AS t(d)"),
        ("month(day + 1) + 0", "day BETWEEN '2023-12-31' AND '2024-01-31' OR region = 'north'", "DATE '2024-01-01', DATE '2024-01-31', INTERVAL 1 DAY) AS t(d)"),
        ("time_bucket(INTERVAL '15 minutes', day::TIMESTAMP)", "day::DATE = '2024-02-03'", "TIMESTAMP '2024-02-03 00:00:00', TIMESTAMP '2024-02-03 23:59:59', INTERVAL 15 MINUTE) AS t(d)"),
        ("time_bucket(INTERVAL '90 minutes', day::TIMESTAMP)", "day::DATE = '2024-02-03'", "TIMESTAMP '2024-02-03 00:00:00', TIMESTAMP '2024-02-03 23:59:59', INTERVAL 1 MINUTE) AS t(d)"),
        ("time_bucket(INTERVAL '3 months', day)", "day BETWEEN '2024-02-03' AND '2024-02-04'", "DATE '2024-02-01', DATE '2024-02-01', INTERVAL 1 MONTH) AS t(d)"),
        ("day", "day > '2025-03-01' OR region = 'north'", "DATE '2024-01-01', DATE '2024-01-31', INTERVAL 1 DAY"),
    ],
)  # fmt: skip
def test_proposed_dates_are_those_that_where_keeps(
    key: str, kept: str, groups: str, analyst: dp_sql.Session
) -> None:
    with pytest.raises(dp_sql.QueryError) as caught:
        analyst.sql(f"SELECT {key} AS d, {count()} FROM seen WHERE {kept} GROUP BY d")
    assert f"{groups})" in str(caught.value.suggestion)
    is_all = "DATE '2024-01-31'" not in groups and "current_date" not in groups
    assert ("Example values to replace: groups" not in str(caught.value)) == is_all
    analyst.sql(str(caught.value.suggestion))


@pytest.mark.parametrize("key", ["minute(ts)", "strftime(ts, '%H:%M')", "ts::TIME", "epoch(ts)"])
def test_a_series_of_hours_is_not_proposed_for_parts_of_an_hour(key: str) -> None:
    kept = "ts BETWEEN TIMESTAMP '2024-01-01 22:10:07' AND TIMESTAMP '2024-01-02 01:30:20'"
    assert date_groups(key, "VARCHAR", "TIMESTAMP", kept) is None


@pytest.mark.parametrize(
    "key",
    [
        "date_part('year', age(born))",
        "date_diff('year', born, now())",
        "year(today()) - year(born)",
    ],
)
def test_ages_up_to_100_are_an_example_of_groups(key: str) -> None:
    found, of_d = date_groups(key, "BIGINT", "DATE", None), key.replace("born", "d::DATE")
    series = "generate_series(current_date - INTERVAL 100 YEAR, current_date, INTERVAL 1 YEAR)"
    assert found is not None and not found.asked
    assert found.written == f"(SELECT DISTINCT {of_d} FROM {series} AS t(d))"


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ("(regions.name, ['book 0', 'book 5'])", [("north", "book 0", 14), ("north", "book 5", 0), ("south", "book 0", 14), ("south", "book 5", 0)]),
        ("((SELECT name FROM regions WHERE is_open), pairs.title)", [("north", "book 1", 14), ("north", "book 2", 14)]),
        ("(SELECT region, title FROM pairs)", [("north", "book 1", 14), ("west", "book 2", 0)]),
    ],
)  # fmt: skip
def test_several_keys_have_a_public_set_each_or_a_query(
    groups: str, expected: list[object], owner: dp_sql.Session, analyst: dp_sql.Session
) -> None:
    text = f"SELECT region, title, {count(groups)} FROM seen GROUP BY region, title ORDER BY ALL"
    assert both(text, owner, analyst) == expected


def test_three_keys_and_one_set_of_a_query(owner: dp_sql.Session, analyst: dp_sql.Session) -> None:
    groups = "(regions.name, ['book 1'], (SELECT week FROM weeks WHERE week > '2024-01-02'))"
    text = f"SELECT region, title, date_trunc('week', day) AS w, {count(groups)} FROM seen GROUP BY ALL"
    assert len(both(f"{text} ORDER BY ALL", owner, analyst)) == 4
    text = f"SELECT region, {count('(SELECT name FROM regions WHERE is_open)')} FROM seen GROUP BY region"
    assert both(text, owner, analyst) == [("north", 42)]


def test_the_policy_declares_the_sets_of_keys(analyst: dp_sql.Session) -> None:
    found = analyst.sql(f"SELECT region, {count()} FROM seen GROUP BY region ORDER BY region")
    assert found.fetchall() == [("north", 42), ("south", 42)]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "key",
    ["upper(region)", "region LIKE 'n%'", "region || region",
     "CASE WHEN region = 'north' THEN 1 ELSE 2 END", "DATE_TRUNC('MONTH', day)", "dayofmonth(day)",
     "date_trunc('week', day)"],
)  # fmt: skip
def test_the_groups_of_an_expression_follow_from_the_declared_values_of_its_column(
    key: str, owner: dp_sql.Session, declaring: dp_sql.Session
) -> None:
    declared = "(SELECT name AS region, week AS day FROM regions, weeks) AS seen"
    expected = owner.sql(f"SELECT DISTINCT {key} AS k FROM {declared} ORDER BY k").fetchall()
    found = declaring.sql(
        f"SELECT {key} AS k, {count()} FROM seen GROUP BY k ORDER BY k"
    ).fetchall()
    assert [(k,) for k, _ in found] == expected  # `day` has more values than are declared
    top = f"DP_TOPK({key}, {len(expected)}, {SURE})"
    ((listed,),) = declaring.sql(f"SELECT {top} FROM seen").fetchall()
    assert sorted((k,) for k in listed) == expected


@pytest.mark.parametrize(
    ("keys", "n"),
    [("region, upper(region)", 2), ("year(day), week(day), region", 6), ("dayname(day), isodow(day)", 1),
     ("day, isodow(day)", 3), ("date_trunc('month', day), lower(region), month(day)", 2),
     ("region, title, upper(region)", 0), ("region, region = 'north'", 4)],
)  # fmt: skip
def test_only_combinations_that_declared_values_have_are_groups(
    keys: str, n: int, declaring: dp_sql.Session
) -> None:
    asked = f"SELECT {keys}, {count()} FROM seen GROUP BY ALL"
    found = declaring.sql(asked).fetchall()
    assert len(found) == (n or 12)  # the values of title are observed, and crossed with the others
    assert all(row[1] == row[0].upper() for row in found if keys == "region, upper(region)")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("key", [
    "coalesce(region, 'none')", "ifnull(region, 'none')", "CASE WHEN region IS NULL THEN 'none' ELSE region END",
])  # fmt: skip
def test_groups_of_an_expression_include_that_of_null(key: str, tmp_path: Path) -> None:
    with duckdb.connect(tmp_path / "a.duckdb") as con:
        con.execute(TABLES)
        con.execute("UPDATE seen SET region = NULL WHERE user_id < 10")
    (tmp_path / "policy.toml").write_text(POLICY)
    with dp_sql.connect(tmp_path / "a.duckdb", policy=tmp_path / "policy.toml") as session:
        text = f"SELECT {key} AS k, {count()} FROM seen GROUP BY k ORDER BY k"
        assert session.sql(text).fetchall() == [("none", 10), ("north", 37), ("south", 37)]
        ((items,),) = session.sql(f"SELECT DP_TOPK({key}, 3, {SURE}) FROM seen").fetchall()
        assert items[2] == "none"
        text = f"SELECT region IS NULL AS k, {count()} FROM seen GROUP BY k ORDER BY k"
        assert session.sql(text).fetchall() == [(False, 74), (True, 10)]


def test_other_values_of_an_expression_may_be_stated(declaring: dp_sql.Session) -> None:
    call, key = count("['none', 'north']"), "coalesce(nullif(region, 'south'), 'none')"
    found = declaring.sql(f"SELECT {key} AS k, {call} FROM seen GROUP BY k ORDER BY k").fetchall()
    assert found == [("none", 42), ("north", 42)]
    call = count("['none']")
    text = f"SELECT coalesce(region, '') AS k, {call} FROM seen GROUP BY k"
    assert declaring.sql(text).fetchall() == [("none", 0)]


@pytest.mark.parametrize("key", ["region || title", "user_id + 1", "region || day"])
def test_of_other_expressions_nothing_is_known(key: str, declaring: dp_sql.Session) -> None:
    with pytest.raises(dp_sql.QueryError, match="needs groups"):
        declaring.sql(f"SELECT {key} AS k, {count()} FROM seen GROUP BY k")


def test_window_functions_are_computed_over_the_groups(
    owner: dp_sql.Session, analyst: dp_sql.Session
) -> None:
    call = count("([DATE '2024-01-01'], regions.name)")
    more = "100 * n / sum(n) OVER () AS pct, rank() OVER (PARTITION BY day ORDER BY n DESC) AS r, count(*) OVER () AS k"
    text = f"SELECT day, region, {call}, {more} FROM seen GROUP BY ALL ORDER BY n DESC"
    assert [row[2:] for row in both(text, owner, analyst)] == [(6, 100, 1, 2), (0, 0, 2, 2)]
    again = count().removesuffix(" AS n")
    for item in ("sum(n) OVER () / sum(n)", "max(title) OVER ()", f"sum({again})"):
        with pytest.raises(NotSupported, match="next to "):
            analyst.sql(f"SELECT region, {count()}, {item} FROM seen GROUP BY region")


@pytest.mark.parametrize("groups", ["", "observed"])
def test_groups_of_an_expression_follow_from_observed_values(
    groups: str, declaring: dp_sql.Session
) -> None:
    text = (
        f"SELECT right(title, 1) AS k, {count(groups)} FROM seen WHERE title <> 'book 2' GROUP BY k"
    )
    assert declaring.sql(text).fetchall() == [("0", 28), ("1", 28), ("2", 0)]
    with pytest.raises(dp_sql.QueryError, match="only if the policy declares it"):
        declaring.sql(f"SELECT user_id + 1 AS k, {count('observed')} FROM seen GROUP BY k")


def test_a_person_of_many_combinations_counts_in_some_of_them(owner: dp_sql.Session) -> None:
    owner.execute(
        "CREATE OR REPLACE TABLE many AS SELECT p AS user_id, a, b FROM range(90) t(p), range(3) u(a), range(3) v(b)"
    )
    call = count("([0, 1, 2], [0, 1, 2])", "privacy_unit := user_id, mechanism := 'matching', ", 2)
    found = owner.sql(f"SELECT a, b, {call} FROM many GROUP BY a, b").fetchall()
    assert len(found) == 9 and sum(n for *_, n in found) == 180


REFUSED = {
    "(regions.name, pairs.title)": "SELECT region, {} FROM seen GROUP BY region",
    "regions.name": "SELECT region, title, {} FROM seen GROUP BY region, title",
    "(SELECT name FROM regions)": "SELECT region, title, {} FROM seen GROUP BY region, title",
    "(SELECT name, is_open FROM regions)": "SELECT region, title, {} FROM seen GROUP BY region, title",
    "(SELECT region FROM seen)": "SELECT region, {} FROM seen GROUP BY region",
    "(SELECT region FROM seen, regions)": "SELECT region, {} FROM seen GROUP BY region",
    "(SELECT name FROM regions LIMIT 1)": "SELECT region, {} FROM seen GROUP BY region",
    "['north', NULL]": "SELECT region, {} FROM seen GROUP BY region",
}


@pytest.mark.parametrize("groups", REFUSED)
def test_other_groups_are_refused(
    groups: str, owner: dp_sql.Session, analyst: dp_sql.Session
) -> None:
    for session, unit in ((analyst, ""), (owner, "privacy_unit := user_id, ")):
        with pytest.raises(dp_sql.QueryError):
            session.sql(REFUSED[groups].format(count(groups, unit)))


def test_two_hundred_times_two_hundred_groups_are_too_many(analyst: dp_sql.Session) -> None:
    many = f"[{', '.join(map(str, range(200)))}]"
    text = (
        f"SELECT user_id AS a, year(day) AS b, {count(f'({many}, {many})')} FROM seen GROUP BY ALL"
    )
    with pytest.raises(dp_sql.QueryError, match="40000 groups; at most 10000 are allowed"):
        analyst.sql(text)


# --- no group comes from the data -----------------------------------------------------------------

ONE_MORE = (
    "INSERT INTO seen VALUES (999, 'where one person is', 'a book of one', DATE '2024-01-01')"
)


def group_names(groups: str) -> list[list[object]]:
    """The groups that are answered without a person, and with one more."""
    found: list[list[object]] = []
    for more in ("", ONE_MORE):
        with dp_sql.connect() as session:
            session.execute(TABLES + more)
            call = count(groups, "privacy_unit := user_id, ")
            text = f"SELECT region, title, {call} FROM seen GROUP BY region, title ORDER BY ALL"
            found.append([names for *names, _ in session.sql(text).fetchall()])
    return found


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "groups", ["(regions.name, pairs.title)", "(SELECT region, title FROM pairs)"]
)
def test_groups_are_the_same_without_a_person(groups: str) -> None:
    without, with_one = group_names(groups)
    assert without == with_one


def test_groups_that_a_query_read_from_the_data_would_be_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def public(self: source_compiler.Compiler, query: object) -> Rows:
        rows = right(self, query)  # type: ignore[arg-type]
        return Rows(rows.relation, rows.names, rows.values, None)

    right = source_compiler.Compiler.query
    groups = "(SELECT region, title FROM seen)"
    with pytest.raises(dp_sql.QueryError, match="reads people's rows"):
        group_names(groups)
    monkeypatch.setattr(
        sources.Source, "public_query", _careless(sources.Source.public_query, public)
    )
    without, with_one = group_names(groups)
    assert without != with_one


def _careless(right: object, query: object) -> object:
    def wrong(self: sources.Source, given: object) -> object:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(source_compiler.Compiler, "query", query)
            return right(self, given)  # type: ignore[operator]

    return wrong


# --- what is missing ------------------------------------------------------------------------------

INCOMPLETE = [
    ("SELECT DP_TOPK(title, 2) FROM seen", 3, 2),
    ("SELECT DP_TOPK(day, 3, epsilon := 1) FROM seen", 2, 1),
    ("SELECT DP_COUNT_DISTINCT(title) FROM seen", 2, 1),
    ("SELECT region, DP_TOPK(title, 2) AS best FROM seen GROUP BY region", 5, 3),
    ("SELECT title, DP_COUNT_DISTINCT(user_id, epsilon := 1) AS n FROM seen GROUP BY title", 2, 1),
    ("SELECT region, day, DP_COUNT_DISTINCT(title) AS n FROM seen GROUP BY ALL", 4, 3),
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("text", "of_owner", "of_analyst"), INCOMPLETE)
def test_all_that_is_missing_is_named_at_once_with_a_statement_that_works(
    text: str, of_owner: int, of_analyst: int, owner: dp_sql.Session, analyst: dp_sql.Session
) -> None:
    for session, n_missing in ((owner, of_owner), (analyst, of_analyst)):
        before = len(session.receipts)
        with pytest.raises(dp_sql.QueryError) as caught:
            session.sql(text)
        message = re.sub(r"\([^)]*\)", "", caught.value.message)
        assert len(re.split(r", | and ", message)) == n_missing
        assert len(session.receipts) == before
        session.sql(caught.value.suggestion).fetchall()
        assert len(session.receipts) == before + 1


@pytest.mark.parametrize(
    "sets", ["ROLLUP (region)", "CUBE (region)", "GROUPING SETS ((region), ())"]
)
def test_sets_of_groups_are_refused_with_a_statement_that_works(
    sets: str, owner: dp_sql.Session, analyst: dp_sql.Session
) -> None:
    for session, unit in ((analyst, ""), (owner, "privacy_unit := user_id, ")):
        with pytest.raises(dp_sql.QueryError, match="a release of its own") as caught:
            session.sql(f"SELECT region, {count('regions.name', unit)} FROM seen GROUP BY {sets}")
        assert len(session.sql(caught.value.suggestion).fetchall()) == 2


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("key", "n_groups"),
    [
        ("date_trunc('week', moment)", 3),
        ("moment::DATE", 3),
        ("dayname(moment)", 1),
        ("strftime(moment, '%Y-%m')", 1),
        ("hour(moment)", 24),
        ("date_trunc('hour', moment)", None),
        ("CASE WHEN hour(moment) < 12 THEN 'am' ELSE 'pm' END", 2),
        ("strftime(moment, '%Y-%m %M')", None),
    ],
)
def test_groups_within_a_day_do_not_follow_from_declared_days(
    key: str, n_groups: int | None, tmp_path: Path
) -> None:
    with duckdb.connect(tmp_path / "a.duckdb") as con:
        con.execute(TABLES)
        con.execute(
            "CREATE OR REPLACE TABLE seen AS SELECT user_id, day + INTERVAL (user_id % 24) HOUR AS moment FROM seen"
        )
    declared = POLICY.replace('seen.region" = "regions.name"', 'seen.moment" = "weeks.week"')
    (tmp_path / "policy.toml").write_text(declared)
    with dp_sql.connect(tmp_path / "a.duckdb", policy=tmp_path / "policy.toml") as session:
        text = f"SELECT {key} AS k, {count()} FROM seen GROUP BY k ORDER BY k"
        if n_groups is not None:
            assert len(session.sql(text).fetchall()) == n_groups
            return
        with pytest.raises(ArgumentError, match="the policy declares none for"):
            session.sql(text)


@pytest.mark.parametrize(
    ("listed", "keys", "proposed"),
    [("upper(region) AS title", "(title), region", "(1), region"), ("dayofweek(day) AS region", "region", "1"),
     ("title AS region", "title, region", "title, 1")],
)  # fmt: skip
def test_an_alias_that_is_also_a_column_is_refused_as_a_key(
    listed: str, keys: str, proposed: str, owner: dp_sql.Session
) -> None:
    call = f"DP_COUNT(*, {SURE}, privacy_unit := user_id, groups := observed)"
    text = f"SELECT {listed}, {call} AS n FROM seen GROUP BY "
    with pytest.raises(ArgumentError, match="means the column") as caught:
        owner.sql(text + keys)
    assert caught.value.suggestion == text + proposed


@pytest.mark.parametrize(
    ("listed", "key"),
    [("upper(place.city) AS city", "city"), ("upper(place.city) AS city", "1"),
     ("upper(people.place.city) AS city", "city"), ("place.city AS city", "city"),
     ("people.place.city AS city", "city"), ("place.city || '' AS city", "ALL")],
)  # fmt: skip
@pytest.mark.parametrize("groups", ["['ULM', 'BONN']", "observed"])
def test_an_alias_called_as_a_field_means_its_expression(
    listed: str, key: str, groups: str
) -> None:
    call = f"DP_COUNT(*, {SURE}, privacy_unit := user_id, groups := {groups})"
    with dp_sql.connect() as owner:
        place = "{'city': ['ULM', 'BONN'][1 + i % 2]} AS place"
        owner.execute(f"CREATE TABLE people AS SELECT i AS user_id, {place} FROM range(99) t(i)")
        found = owner.sql(f"SELECT {listed}, {call} FROM people GROUP BY {key} ORDER BY 1")
        assert found.fetchall() == [("BONN", 49), ("ULM", 50)]
        owner.execute("ALTER TABLE people ADD COLUMN city VARCHAR")
        if key == "city":
            with pytest.raises(ArgumentError, match="GROUP BY city means the column"):
                owner.sql(f"SELECT {listed}, {call} FROM people GROUP BY {key}")
