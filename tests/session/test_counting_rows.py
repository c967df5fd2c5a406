"""DP_COUNT, and DP_COUNT_DISTINCT of the privacy unit: what is counted, and what it costs."""

import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dp_sql
from dp_sql.engines.duckdb import few_rows, many_rows
from dp_sql.errors import ArgumentError
from dp_sql.sql.functions.count import Count
from dp_sql.udfs.mechanism import PrivacyLoss
from tests.conftest import SURE
from tests.session.runs import noted_runs

POLICY = """
tables.plays.privacy_unit = "user_id"
tables.people.privacy_unit = "id"
public.tables = ["catalog", "regions"]
limits.max_contributions = 1000
"""
N_TABLES = 3


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables with repeated rows, NULLs everywhere, and a public table that multiplies rows."""
    folder, draws = tmp_path_factory.mktemp("shop"), random.Random(16)
    with duckdb.connect(str(folder / "shop.duckdb")) as con:
        con.execute("CREATE TABLE catalog AS SELECT * FROM (VALUES ('a', 1), ('a', 1), ('b', 2)) "
                    "AS t(title, year)")  # fmt: skip
        con.execute("CREATE TABLE regions AS SELECT unnest(['north', 'south', 'west']) AS name")
        con.execute(
            "CREATE TABLE people AS SELECT i::INTEGER AS id, i % 3 AS age FROM range(1, 40) t(i)"
        )
        con.execute(
            "CREATE TABLE plays (user_id INTEGER, title VARCHAR, region VARCHAR, part INTEGER)"
        )
        titles, regions = ["'a'", "'b'", "'c'", "NULL"], ["'north'", "'south'", "'east'", "NULL"]
        rows = [
            f"({person}, {draws.choice(titles)}, {draws.choice(regions)}, {at})"
            for at in range(N_TABLES)
            for person in [*range(1, draws.randrange(2, 12)), "NULL"]
            for _ in range(draws.choice([1, 2, 3, 4, 5, 9, 70]))
        ]
        con.execute(f"INSERT INTO plays VALUES {', '.join(rows)}")
    (folder / "policy.toml").write_text(POLICY)
    return folder


OWNERS = ", privacy_unit := user_id"
SOURCES = [
    "plays WHERE part = {at}",
    "(SELECT DISTINCT user_id, title, region, part FROM plays) AS p WHERE part = {at}",
    "plays AS p JOIN catalog AS c ON p.title = c.title WHERE part = {at}",
    "plays AS p JOIN people AS q ON p.user_id = q.id WHERE part = {at} AND age < 2",
    "(SELECT * FROM plays UNION ALL SELECT * FROM plays) AS p WHERE part = {at}",
    "(FROM plays UNION SELECT user_id, 'd', region, part FROM plays UNION ALL FROM plays) AS p WHERE part = {at}",
    "((SELECT DISTINCT * FROM plays) UNION ALL (SELECT * REPLACE ('d' AS title) FROM plays)) AS p WHERE part = {at}",
]
ITEMS = {"*": "TRUE", "1": "TRUE", "region": "region IS NOT NULL"}


Histogram = dict[int, tuple[int, int]]  # of each bucket the people, and their rows


def histogram(sizes: list[int], most: int | None) -> Histogram:
    found: Histogram = {}
    for size in sizes:
        kept = size if most is None else min(size, most)
        bucket = next(j for j in range(64) if kept <= 2**j)
        people, rows = found.get(bucket, (0, 0))
        found[bucket] = people + 1, rows + kept
    return found


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Histogram]:
    """What the mechanism gets, in the order of its runs."""

    def note(buckets: Any, people: Any, sums: Any, **_: Any) -> Histogram:
        return dict(zip(buckets, zip(people, sums, strict=True), strict=True))

    return noted_runs(monkeypatch, Count, note)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("most", [None, 2, 3])
def test_the_mechanism_gets_the_rows_of_each_person(
    owner: dp_sql.Session, analyst: dp_sql.Session, seen: list[Histogram], source: str,
    most: int | None,
) -> None:  # fmt: skip
    bound = "" if most is None else f", contribution_bound := {most}"
    for at in range(N_TABLES):
        item = [*ITEMS][at % 3]
        rows = source.format(at=at)
        sizes = owner.connection.execute(
            f"SELECT count(*) FROM {rows} AND user_id IS NOT NULL AND {ITEMS[item]} GROUP BY user_id"
        ).fetchall()
        expected = histogram([size for (size,) in sizes], most)
        for session, unit in ((owner, OWNERS), (analyst, "")):
            session.sql(
                f"SELECT DP_COUNT({item}, epsilon := 9000{unit}{bound}) FROM {rows}"
            ).fetchall()
            assert seen[-1] == expected, (at, source)


def test_groups_count_the_rows_that_are_in_them(
    owner: dp_sql.Session, analyst: dp_sql.Session, seen: list[Histogram]
) -> None:
    for at in range(N_TABLES):
        expected = [
            histogram([n for (n,) in owner.connection.execute(
                "SELECT count(*) FROM plays WHERE region = ? AND part = ? AND user_id IS NOT NULL "
                "AND title IS NOT NULL GROUP BY user_id", [region, at]).fetchall()], None)
            for region in ("north", "south", "west")
        ]  # fmt: skip
        for session, unit in ((owner, OWNERS), (analyst, "")):
            call = (f"DP_COUNT(title, epsilon := 9000{unit}, {{}}groups := regions.name, "
                    "max_groups_contributed := 3)")  # fmt: skip
            text = f"SELECT region, {call} AS n FROM plays WHERE part = {at} GROUP BY region ORDER BY 1"
            session.sql(text.format("")).fetchall()
            assert seen[-3:] == expected
            assert session.sql(text.format("contribution_bound := 100, ")).fetchall() == [
                (region, sum(rows for _, rows in each.values()))
                for region, each in zip(("north", "south", "west"), expected, strict=True)
            ]


def test_a_person_in_many_groups_counts_with_all_rows_of_those_that_are_kept(
    owner: dp_sql.Session, seen: list[Histogram]
) -> None:
    call = ("DP_COUNT(*, epsilon := 9000, privacy_unit := user_id, groups := ['a', 'b', 'c'], "
            "max_groups_contributed := 1)")  # fmt: skip
    owner.sql(f"SELECT title, {call} AS n FROM plays GROUP BY title").fetchall()
    people = owner.connection.execute(
        "SELECT count(DISTINCT user_id) FROM plays WHERE title IN ('a', 'b', 'c')"
    ).fetchall()
    assert sum(n for one in seen for n, _ in one.values()) == people[0][0]
    sizes = {n for (n,) in owner.connection.execute(
        "SELECT count(*) FROM plays WHERE user_id IS NOT NULL GROUP BY user_id, title").fetchall()}  # fmt: skip
    assert sum(n for one in seen for _, n in one.values()) >= min(sizes) * people[0][0]


@pytest.mark.parametrize(
    ("item", "source"),
    [
        ("user_id", "plays"),
        ("p.user_id", "plays AS p JOIN catalog AS c ON p.title = c.title"),
        ("unit", "(SELECT user_id AS unit, title FROM plays) AS renamed"),
        ("q.id", "plays AS p JOIN people AS q ON p.user_id = q.id"),
        # the person of the row, or NULL
        ("q.id", "plays AS p LEFT JOIN people AS q ON p.user_id = q.id AND q.age = 1"),
        ("p.user_id", "people AS q LEFT JOIN plays AS p ON q.id = p.user_id"),
        ("n", "(SELECT q.id, p.user_id AS n FROM people q LEFT JOIN plays p ON q.id = p.user_id)"),
        ("CASE WHEN title = 'a' THEN user_id END", "plays"),
        ("CASE title WHEN 'a' THEN q.id WHEN 'b' THEN NULL ELSE p.user_id END",
         "plays AS p LEFT JOIN people AS q ON p.user_id = q.id AND q.age = 1"),
        ("if(title = 'a', user_id, NULL)", "(FROM plays UNION ALL FROM plays)"),
        ("a", "(SELECT user_id, if(title = 'a', user_id, NULL) AS a FROM plays UNION ALL "
              "SELECT user_id, user_id FROM plays WHERE region = 'south')"),
    ],
)  # fmt: skip
def test_people_are_counted_by_their_column_whatever_it_is_called(
    analyst: dp_sql.Session, owner: dp_sql.Session, item: str, source: str
) -> None:
    call = f"DP_COUNT_DISTINCT({item}, epsilon := 9000, report := true)"
    ((report,),) = analyst.sql(f"SELECT {call} FROM {source}").fetchall()
    expected = owner.connection.execute(f"SELECT count(DISTINCT {item}) FROM {source}").fetchall()
    assert report["estimate"] == report["lower_bound"] == expected[0][0]
    assert report["contribution_bound"] == 1
    receipt = analyst.receipts[-1]
    assert receipt.mechanism == "laplace"
    assert receipt.loss == PrivacyLoss(Fraction(9000))


@pytest.mark.parametrize(
    ("item", "source"),
    [
        ("user_id + 0", "plays"),
        (
            "user_id",
            "(SELECT user_id, title AS t FROM plays) AS p JOIN catalog AS c ON p.t = c.title",
        ),
        ("year", "plays AS p JOIN catalog AS c ON p.title = c.title"),
        ("CASE WHEN title = 'a' THEN user_id ELSE 0 END", "plays"),
        ("CASE WHEN title = 'a' THEN user_id + 1 END", "plays"),
        ("coalesce(q.id, 0)", "plays AS p LEFT JOIN people AS q ON p.user_id = q.id"),
        ("q.age", "plays AS p LEFT JOIN people AS q ON p.user_id = q.id"),
        (
            "n",
            "(SELECT user_id, user_id AS n FROM plays UNION ALL SELECT user_id, part FROM plays)",
        ),
    ],
)
def test_only_the_privacy_unit_itself_counts_people(
    analyst: dp_sql.Session, item: str, source: str
) -> None:
    text = f"EXPLAIN SELECT DP_COUNT_DISTINCT({item}, epsilon := 1) FROM {source}"
    told = dict(analyst.sql(text).fetchall())
    assert told["mechanism"] == ("laplace" if item == "user_id" else "matching")


@pytest.mark.parametrize(
    ("item", "source"),
    [
        ("p.user_id", "people AS q LEFT JOIN plays AS p ON q.id = p.user_id AND p.title = 'a'"),
        ("p.user_id", "plays AS p JOIN people AS q ON p.user_id = q.id AND p.title = 'a'"),
        ("CASE WHEN title = 'a' THEN user_id END", "plays"),
        ("if(regexp_matches(title, '^A$', 'i'), user_id, NULL)", "plays"),
    ],
)
@pytest.mark.parametrize("n_times", [1, 20])  # of the rows: few, and many
def test_people_who_are_in_several_groups_need_no_cap_wherever_null_is(
    analyst: dp_sql.Session, owner: dp_sql.Session, item: str, source: str, n_times: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    if n_times > 1:
        monkeypatch.setattr(few_rows, "FEW", 0)
        monkeypatch.setattr(many_rows, "LEAST", 0)
    often = source.replace("plays", f"(SELECT plays.* FROM plays, range({n_times}) t(i))")
    owners = OWNERS.replace("user_id", "q.id") if "q.id" in source else OWNERS
    for session, unit, read in ((analyst, "", source), (owner, owners, often)):
        calls = [
            f"DP_COUNT_DISTINCT({item}, epsilon := 9000{unit})",
            f"DP_COUNT({item}, epsilon := 9000{unit})",
        ]
        calls[0] = calls[0].replace("9000", "9000, groups := regions.name")
        listed = ", ".join(calls if n_times == 1 else calls[:1])
        found = session.sql(
            f"SELECT region, {listed} FROM {read} GROUP BY ALL ORDER BY 1"
        ).fetchall()
        plain = f"SELECT region, count(DISTINCT {item}) FROM {source} GROUP BY ALL"
        expected = dict(owner.connection.execute(plain).fetchall())
        assert [row[:2] for row in found] == [
            (r, expected.get(r, 0)) for r in ("north", "south", "west")
        ]


def test_people_are_no_groups_wherever_null_is(owner: dp_sql.Session) -> None:
    call = f"DP_COUNT(*, epsilon := 1{OWNERS}, groups := observed)"
    for key in ("user_id", "CASE WHEN title = 'a' THEN user_id END"):
        text = (
            f"SELECT {key} AS k, {call.replace(', groups := observed', '')} FROM plays GROUP BY k"
        )
        with pytest.raises(dp_sql.QueryError, match="one person"):
            owner.sql(text)


def test_people_by_group_and_by_a_mechanism_that_is_named(analyst: dp_sql.Session) -> None:
    call = "DP_COUNT_DISTINCT(user_id, epsilon := 9000, groups := regions.name, max_groups_contributed := 1)"
    text = f"SELECT region, {call} AS n FROM plays GROUP BY region ORDER BY region"
    found = dict(analyst.sql(text).fetchall())
    assert found["west"] == 0 < found["north"]
    told = dict(analyst.sql(f"EXPLAIN {text.replace('9000', '1')}").fetchall())
    assert told["mechanism"] == "laplace"
    call = "DP_COUNT_DISTINCT(user_id, epsilon := 9000, mechanism := 'greedy')"
    analyst.sql(f"SELECT {call} FROM plays").fetchall()
    assert analyst.receipts[-1].mechanism == "greedy"


def test_the_mechanism_that_counts_people_may_be_named(analyst: dp_sql.Session) -> None:
    call = "DP_COUNT_DISTINCT({}, epsilon := 9000, mechanism := 'laplace'{})"
    text = f"SELECT {call} FROM plays"
    analyst.sql(text.format("user_id", "")).fetchall()
    assert analyst.receipts[-1].mechanism == "laplace"
    in_groups = f"SELECT region, {call} AS n FROM plays GROUP BY region"
    in_groups = in_groups.replace("epsilon", "groups := regions.name, epsilon")
    analyst.sql(in_groups.format("user_id", ", max_groups_contributed := 1")).fetchall()
    assert analyst.receipts[-1].mechanism == "laplace"
    for refused, words in (
        (text.format("title", ""), "counts people, and title is not the privacy unit"),
        (in_groups.format("user_id", ""), "k_norm draws the noise of all counts together"),
    ):
        with pytest.raises(dp_sql.QueryError, match=words) as refusal:
            analyst.sql(refused)
        assert "mechanism" not in (refusal.value.suggestion or "mechanism")
        analyst.sql(refusal.value.suggestion or "").fetchall()


def test_the_limit_of_a_policy_holds_for_rows(analyst: dp_sql.Session) -> None:
    told = str(analyst.sql("EXPLAIN SELECT DP_COUNT(*, epsilon := 1) FROM plays").fetchall())
    assert "up to 512;" in told.replace("\\n", " ")
    with pytest.raises(ArgumentError, match="at most 1000"):
        analyst.sql("SELECT DP_COUNT(*, epsilon := 1, contribution_bound := 1001) FROM plays")


def test_where_all_have_more_rows_than_the_largest_bound_it_is_chosen(tmp_path: Path) -> None:
    with duckdb.connect(path := str(tmp_path / "log.duckdb")) as con:
        con.execute(
            "CREATE TABLE log AS SELECT i % 40 AS u, i // 40 % 3 AS part FROM range(2400) r(i)"
        )
    more = f"{SURE}, privacy_unit := u, max_contributions := 8"
    groups = "groups := [0, 1, 2], max_groups_contributed := 3"
    with dp_sql.connect(path) as session:
        for _ in range(3):
            assert session.sql(f"SELECT DP_COUNT(*, {more}) FROM log").fetchall() == [(320,)]
            by_part = f"SELECT part, DP_COUNT(*, {more}, {groups}) FROM log GROUP BY part"
            assert sorted(session.sql(by_part).fetchall()) == [(n, 320) for n in range(3)]


def test_nothing_is_raised_by_noise_beyond_a_bigint(owner: dp_sql.Session) -> None:
    call = "DP_COUNT(*, epsilon := 1e-9, privacy_unit := user_id, contribution_bound := 1000000000, report := true)"
    found = [owner.sql(f"SELECT {call} FROM plays").fetchall()[0][0] for _ in range(20)]
    assert all(-(2**63) <= one["lower_bound"] <= one["estimate"] < 2**63 for one in found)
    assert len({one["estimate"] for one in found}) > 1


def test_a_plain_connection_counts_rows_with_1() -> None:
    con = dp_sql.install(duckdb.connect())
    con.execute(
        "CREATE TABLE plays AS SELECT i % 7 AS user_id, NULL::DOUBLE AS title FROM range(700) t(i)"
    )
    call = "DP_COUNT({}, epsilon := 9000, privacy_unit := user_id)"
    assert con.sql(f"SELECT {call.format(1)} AS n FROM plays").fetchall() == [(700,)]
    assert con.sql(f"SELECT {call.format('title')} AS n FROM plays").fetchall() == [(0,)]
    assert con.sql(f"FROM dp($$ SELECT {call.format('*')} AS n FROM plays $$)").fetchall() == [
        (700,)
    ]
