"""Spark's jobs answer as DuckDB does over all rows at once."""

import random
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from dp_sql.engines.protocol import PartedQuestion
from dp_sql.engines.spark import jobs as module
from dp_sql.engines.spark.jobs import SparkJobs
from dp_sql.engines.spark.people import check_people
from dp_sql.errors import InternalError, NotSupported, SourceError
from dp_sql.privacy.relations.person_of import PersonOf
from tests.engines.spark.asking import Asking, pairs_of
from tests.engines.spark.faults import around_tasks, fail_once, wait_for_ever

RATINGS = ("spark_catalog", "default", "ratings")
PLACES = ("spark_catalog", "default", "places")
ORDERS, LINES, NOTES = [
    ("shop", "my schema", name) for name in ("orders", 'order "x" lines', "notes")
]

PEOPLE = PersonOf(RATINGS, "person")
ORDERED = PersonOf(ORDERS, "buyer")
LINE = PersonOf(LINES, "order", "id", ORDERED)
NOTE = PersonOf(NOTES, "line", "line no", LINE)

COUNTS = PartedQuestion(
    "SELECT title, count(DISTINCT person) AS n FROM spark_catalog.default.ratings GROUP BY title",
    ["title"],
    "SELECT title, CAST(sum(n) AS BIGINT) AS n FROM __dp_parts GROUP BY title",
    [("title", "VARCHAR"), ("n", "BIGINT")],
    [PEOPLE],
)
ROWS_PER_PERSON = PartedQuestion(
    """WITH each AS (SELECT count(*) AS n FROM spark_catalog.default.ratings
        WHERE person IS NOT NULL GROUP BY person)
    SELECT n, count(*) AS people, sum(n) AS total FROM each GROUP BY n -- a comment""",
    [],
    """SELECT n, CAST(sum(people) AS BIGINT) AS people, CAST(sum(total) AS HUGEINT) AS total
    FROM __dp_parts GROUP BY n -- a comment""",
    [("n", "BIGINT"), ("people", "BIGINT"), ("total", "HUGEINT")],
    [PEOPLE],
)
TOTAL = PartedQuestion(
    "SELECT count(*) AS n FROM spark_catalog.default.ratings WHERE person IS NOT NULL",
    [],
    "SELECT CAST(sum(n) AS BIGINT) AS n FROM __dp_parts",
    [("n", "BIGINT")],
    [PEOPLE],
)
JOINED = PartedQuestion(
    """SELECT title, city, count(DISTINCT r.person) AS n
    FROM "spark_catalog"."default"."ratings" AS r
    JOIN "spark_catalog"."default"."places" AS p ON r.person = p.who
    WHERE title IN (SELECT item FROM __dp_domain) GROUP BY ALL""",
    ["title", "city"],
    """SELECT title, city, CAST(sum(n) AS BIGINT) AS n FROM __dp_parts
    WHERE title IN (SELECT item FROM __dp_domain) GROUP BY ALL""",
    [("title", "VARCHAR"), ("city", "VARCHAR"), ("n", "BIGINT")],
    [PEOPLE, PersonOf(PLACES, "who")],
)
LINKED = PartedQuestion(
    """SELECT text, buyer % 10 AS digit, count(*) AS n, count(DISTINCT buyer) AS buyers
    FROM shop."my schema".orders AS o
    JOIN shop."my schema"."order ""x"" lines" AS l ON o.id = l."order"
    JOIN shop."my schema".notes AS t ON l."line no" = t.line
    WHERE buyer IS NOT NULL GROUP BY ALL""",
    ["text", "digit"],
    """SELECT text, digit, CAST(sum(n) AS BIGINT) AS n, CAST(sum(buyers) AS BIGINT) AS buyers
    FROM __dp_parts GROUP BY ALL""",
    [("text", "VARCHAR"), ("digit", "BIGINT"), ("n", "BIGINT"), ("buyers", "BIGINT")],
    [ORDERED, LINE, NOTE],
)
PAIRS = PartedQuestion(
    """WITH codes AS (SELECT person, row_number() OVER (ORDER BY person) - 1 AS code
        FROM (SELECT DISTINCT person FROM spark_catalog.default.ratings WHERE person IS NOT NULL))
    SELECT DISTINCT title, lower(title) AS low, code AS __dp_person
    FROM spark_catalog.default.ratings JOIN codes USING (person)""",
    ["title", "low"],
    "SELECT * FROM __dp_parts",
    [("title", "VARCHAR"), ("low", "VARCHAR")],
    [PEOPLE],
    shown=["title"],
)


@pytest.fixture(scope="module")
def asking(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    with duckdb.connect() as connection:
        made = Asking(spark, connection, tmp_path_factory.mktemp("tables"))
        made.make(
            RATINGS,
            "person BIGINT, title VARCHAR, unused DOUBLE",
            """SELECT CASE WHEN i % 50 < 49 THEN hash(i) % 300 END, nullif('Title ' || hash(i, 1) % 40, 'Title 7'),
            random() FROM range(3000) AS t(i)""",
        )
        made.make(
            PLACES,
            "who DECIMAL(38, 0), city VARCHAR",
            "SELECT hash(i) % 400, 'city ' || i % 7 FROM range(600) AS t(i)",
        )
        # Ids of orders are shared by people, and lines by orders.
        made.make(
            ORDERS,
            "id INTEGER, buyer BIGINT",
            "SELECT nullif(hash(i) % 200, 3), nullif(hash(i, 1) % 100, 5) FROM range(500) AS t(i)",
        )
        made.make(
            LINES,
            '"order" DECIMAL(38, 0), "line no" VARCHAR',
            "SELECT hash(i) % 220, nullif('l' || hash(i, 2) % 300, 'l1') FROM range(900) AS t(i)",
        )
        made.make(
            NOTES,
            "line VARCHAR, text VARCHAR",
            "SELECT 'l' || hash(i) % 310, 'text ' || i % 12 FROM range(800) AS t(i)",
        )
        yield made


@pytest.fixture(scope="module")
def joined(asking: Asking) -> PartedQuestion:
    return replace(JOINED, public=asking.public("__dp_domain", item=["Title 1", "Title 2", None]))


@pytest.fixture(params=[3, 5])
def n_parts(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def test_spark_answers_as_duckdb_does_in_any_number_of_parts(
    asking: Asking, joined: PartedQuestion, n_parts: int
) -> None:
    jobs = asking.jobs(n_parts)
    for question in (COUNTS, ROWS_PER_PERSON, TOTAL, joined, LINKED):
        expected = asking.expected(question)
        assert len(expected) > (0 if question is TOTAL else 5)
        assert asking.answered(question, jobs.rows(question)) == expected


def test_the_order_of_rows_changes_nothing(asking: Asking) -> None:
    rng = random.Random(7)
    answers = []
    for _ in range(2):
        for table in (RATINGS, ORDERS, LINES, NOTES):
            asking.shuffle(table, rng)
        jobs = asking.jobs(5)
        pairs = jobs.thin(PAIRS, 3)
        answers.append(
            (
                asking.answered(LINKED, jobs.rows(LINKED)),
                *(one.tolist() for one in (pairs.items, pairs.people, pairs.complete)),
                pairs.shown,
            )
        )
    assert answers[0] == answers[1]
    assert answers[0][0] == asking.expected(LINKED)


def test_tables_without_rows_have_the_answers_that_duckdb_gives(asking: Asking) -> None:
    table = ("spark_catalog", "default", "empty")
    asking.make(table, "person BIGINT, title VARCHAR")
    for n_parts in (5, None):
        jobs = asking.jobs(n_parts)
        for question in (COUNTS, ROWS_PER_PERSON, TOTAL):
            empty = _over(question, table)
            answer = jobs.rows(empty)
            assert answer.column_names == [name for name, _ in question.columns]
            assert asking.answered(empty, answer) == asking.expected(empty)
        pairs = jobs.complete(_over(PAIRS, table), None, None)
        assert (len(pairs.items), len(pairs.people), pairs.shown.num_rows) == (0, 0, 0)


def _over(question: PartedQuestion, table: tuple[str, ...]) -> PartedQuestion:
    sql = question.part_sql.replace("default.ratings", f"default.{table[-1]}")
    return replace(question, part_sql=sql, tables=[PersonOf(table, "person")])


def test_all_pairs_come_once_with_a_code_for_each_person(asking: Asking, n_parts: int) -> None:
    jobs = asking.jobs(n_parts)
    whole = jobs.complete(PAIRS, None, None)
    select = """SELECT DISTINCT title, person FROM spark_catalog.default.ratings
        WHERE person IS NOT NULL"""
    expected = asking.rows(select)
    assert len(whole.people) == len(expected)
    assert _degrees(pairs_of(whole, ["title"]), 0) == _degrees(expected, 0)
    # People's codes are some names of people: how many have each set of titles is the same.
    assert _titles(pairs_of(whole, ["title"])) == _titles(expected)
    assert whole.complete.tolist() == sorted(set(whole.items.tolist()))

    sizes = Counter(whole.items.tolist())
    some = jobs.thin(PAIRS, 30)
    kept = Counter(some.items.tolist())
    assert all(min(n, 30) <= kept[code] <= n for code, n in sizes.items())
    assert sum(kept.values()) <= sum(min(n, 30) for n in sizes.values()) + (some.n_people or 0)
    assert some.complete.tolist() == sorted(code for code, n in sizes.items() if n == kept[code])
    assert 0 < len(some.complete) < len(sizes)
    assert some.n_people == len({*whole.people.tolist()}) == len({*some.people.tolist()})
    assert pairs_of(some, ["title"]) <= pairs_of(whole, ["title"])
    items, people = {*whole.complete[::3].tolist()}, {*whole.people[::7].tolist()}
    rest = jobs.complete(PAIRS, [*items], [*people])
    assert {*rest.complete.tolist()} >= items
    assert rest.shown.column_names == ["item", "title"]
    assert {*zip(rest.items.tolist(), rest.people.tolist(), strict=True)} == {
        pair
        for pair in zip(whole.items.tolist(), whole.people.tolist(), strict=True)
        if pair[0] in items or pair[1] in people
    }
    assert len(jobs.complete(PAIRS, [], []).items) == 0
    jobs.close()


def _degrees(pairs: Any, place: int) -> Counter[Any]:
    return Counter(pair[place] for pair in pairs)


def _titles(pairs: Any) -> Counter[Any]:
    titles: dict[Any, set[Any]] = {}
    for title, person in pairs:
        titles.setdefault(person, set()).add(title)
    return Counter(frozenset(one) for one in titles.values())


# --- tasks that fail or are slow ---


def test_a_task_that_fails_is_run_again(
    asking: Asking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    around_tasks(monkeypatch, lambda _: fail_once(str(tmp_path)))
    jobs = asking.jobs(5)
    assert asking.answered(LINKED, jobs.rows(LINKED)) == asking.expected(LINKED)
    pairs = jobs.thin(PAIRS, 4)
    assert len(list(tmp_path.iterdir())) > 6
    monkeypatch.undo()
    again = asking.jobs(5).thin(PAIRS, 4)
    assert (pairs.items.tolist(), pairs.people.tolist()) == (
        again.items.tolist(),
        again.people.tolist(),
    )


def test_a_job_that_is_cancelled_fails(
    asking: Asking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = tmp_path / "started"
    around_tasks(monkeypatch, lambda _: wait_for_ever(str(started)))
    jobs = asking.jobs(5)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(jobs.rows, COUNTS)
        while not started.exists() and not asked.done():
            time.sleep(0.1)
        jobs.cancel()
        with pytest.raises(Exception, match=r"(?i)cancel"):
            asked.result()
    with pytest.raises(InternalError):
        jobs.rows(COUNTS)
    monkeypatch.undo()
    again = asking.jobs(5).rows(COUNTS)
    assert asking.answered(COUNTS, again) == asking.expected(COUNTS)


# --- what is refused ---


def test_a_table_that_changes_between_jobs(spark: Any) -> None:
    rows = {"a": pa.table({"person": [1, 2, 3], "title": ["x", "x", "y"]})}
    rows["b"] = pa.table({"person": [1, 2, 3], "title": ["x", "z", "y"]})
    columns = [("person", "BIGINT"), ("title", "VARCHAR")]
    for n_parts in (2, 5):
        now = "a"
        jobs = SparkJobs(spark, lambda _: (spark.createDataFrame(rows[now]), columns), n_parts)  # noqa: B023
        jobs.rows(COUNTS)
        jobs.rows(TOTAL)
        now = "b"
        jobs.rows(TOTAL)  # which reads no titles
        with pytest.raises(SourceError):
            jobs.rows(COUNTS)
        with pytest.raises(SourceError):
            jobs.complete(PAIRS, None, None)


def test_a_part_that_comes_twice(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    mapped = module._mapped

    def twice(frame: Any, function: Any, *given: Any) -> Any:
        once = mapped(frame, function, *given)
        return once.union(once) if function.__name__ == "answer_parts" else once

    monkeypatch.setattr(module, "_mapped", twice)
    for n_parts in (2, 5):
        with pytest.raises(Exception, match="twice"):
            asking.jobs(n_parts).rows(COUNTS)


def test_people_of_types_that_differ() -> None:
    types = {
        "a": "BIGINT", "b": "VARCHAR", "c": "DECIMAL(20,0)", "d": "DECIMAL(20,2)", "e": "DOUBLE",
        "f": "DATE", "g": "TIMESTAMP",
    }  # fmt: skip
    tables = {name: PersonOf((name,), "x") for name in types}

    def check(*names: PersonOf) -> None:
        check_people(names, lambda table: (None, [("x", types[table[0]])]))

    check(tables["a"], tables["c"])
    check(tables["a"], PersonOf(("c",), "x", "x", tables["a"]))
    check(tables["d"])
    check(tables["a"], tables["a"])
    for names in ("ab", "cd", "fg", "e"):
        with pytest.raises(NotSupported):
            check(*(tables[name] for name in names))
    with pytest.raises(NotSupported):
        check(tables["a"], PersonOf(("b",), "x", "x", tables["a"]))
    with pytest.raises(NotSupported):
        check(tables["a"], PersonOf(("a",), "x", "x", tables["c"]))
