"""Nested functions of dates and aggregates: answered as DuckDB answers them, or refused with a reason."""

import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dp_sql.privacy.expressions.scope import Scope
from dp_sql.privacy.expressions.value import Value
from dp_sql.privacy.relations import person_groups
from dp_sql.sql.sqlglot_tree import Node
from tests.attacks.attack_bench import Side
from tests.people import Data, Database
from tests.privacy.expression_texts import Expressions, Relation, queries
from tests.privacy.oracle import WITH_SOME_DATA, check, some_data

PEOPLE = [
    Relation("ratings", "user_id", {"int": ["score", "user_id"], "text": ["title"], "date": ["day"],
                                    "bool": ["flag"], "real": ["price"]}),
    Relation("visits", "visitor", {"int": ["user_id", "t"], "text": ["page"], "date": ["seen"],
                                   "real": ["x", "f"]}),
    Relation("orders", "buyer", {"int": ["order_id"], "text": ["title"], "date": ["tz"],
                                 "real": ["cost"]}),
    Relation("odd", "person", {"int": ["person"], "date": ["ns"]}),
]  # fmt: skip
SHOP = [
    Relation("ratings", "user_id", {"int": ["score", "user_id"], "text": ["title", "region"],
                                    "date": ["day"], "real": ["price"]}),
]  # fmt: skip
FEWEST_ACCEPTED = 0.2
QUIET = settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink],
)


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    database = Database()
    yield database
    database.close()


@pytest.fixture(scope="module")
def side(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    side = Side(tmp_path_factory.mktemp("expressions") / "shop", True)
    yield side
    side.session.close()


def search_sources(database: Database, config: settings) -> tuple[int, int]:
    """How many queries were tried, and how many of them were accepted."""
    seen = [0, 0]

    @config
    @given(st.lists(queries(PEOPLE), min_size=4, max_size=4), st.sampled_from(some_data()))
    def one(asked: list[tuple[str, str]], data: Data) -> None:
        for text, _ in asked:
            seen[0] += 1
            seen[1] += check(text, data, True, database)

    one()
    return seen[0], seen[1]


@st.composite
def statements(draw: st.DrawFn) -> str:
    """A DP call over a query, with an expression as its item, or with one as its group."""
    rows = Expressions(draw, SHOP[0])
    match draw(st.integers(0, 3)):
        case 0:
            item = rows.any(2)[0]
            return f"SELECT DP_COUNT_DISTINCT({item}, epsilon := 0.001) AS n FROM ratings"
        case 1:
            key, kind = rows.any(2)
            groups = {"int": "[1, 2020]", "text": "['b0']", "bool": "[TRUE]"}.get(
                kind, "['2024-01-01']"
            )
            return (
                f"SELECT {key} AS g, DP_COUNT_DISTINCT(title, epsilon := 0.001, groups := {groups}, "
                f"max_groups_contributed := 1) AS n FROM ratings GROUP BY {key}"
            )
        case _:
            text, name = draw(queries(SHOP))
            return f"SELECT DP_COUNT_DISTINCT({name}, epsilon := 0.001) AS n FROM ({text}) AS s"


def search_statements(side: Side, config: settings) -> tuple[int, int]:
    """How many statements were tried, and how many of them were answered."""
    seen = [0, 0]

    @config
    @given(statements())
    def one(text: str) -> None:
        outcome = side.ask(text)
        seen[0] += 1
        seen[1] += outcome.kind == "answered"
        assert outcome.kind in {"answered", "NotPrivate", "ArgumentError", "NotSupported"}, (
            f"{outcome.kind}: {outcome.text[:200]}\n{text}"
        )

    one()
    return seen[0], seen[1]


@pytest.mark.thorough
def test_nested_expressions_mean_what_they_mean_in_duckdb(database: Database) -> None:
    tried, taken = search_sources(database, QUIET)
    assert taken >= FEWEST_ACCEPTED * tried


def test_nested_expressions_are_answered_or_refused_with_a_reason(side: Side) -> None:
    tried, taken = search_statements(side, QUIET)
    assert taken >= FEWEST_ACCEPTED * tried


@pytest.mark.slow
def test_many_nested_expressions_are_answered_or_refused(database: Database, side: Side) -> None:
    longer = settings(QUIET, max_examples=500, derandomize=False)
    end = time.monotonic() + 240
    while time.monotonic() < end:
        search_sources(database, longer)
        search_statements(side, longer)


OF_GROUPS = [
    "year(min(day))", "date_trunc('month', min(day))", "coalesce(month(max(day)), 1)",
    "CAST(date_trunc('week', min(day)) AS VARCHAR)", "year(date_trunc('year', max(day)))",
]  # fmt: skip


GROUPED = [
    "SELECT user_id, {} AS x FROM ratings GROUP BY user_id",
    "SELECT user_id, count(*) AS x FROM ratings GROUP BY user_id HAVING {} IS NOT NULL",
    "SELECT user_id, title, {} AS x FROM ratings GROUP BY user_id, title HAVING x IS NULL",
]


@pytest.mark.one_in(6)
@pytest.mark.parametrize("expression", OF_GROUPS)
@pytest.mark.parametrize("text", GROUPED)
@WITH_SOME_DATA
def test_a_function_of_an_aggregate_is_answered(
    data: Data, text: str, expression: str, database: Database
) -> None:
    assert check(text.replace("{}", expression), data, True, database)


def test_year_of_min_is_answered_through_a_session(side: Side) -> None:
    for item in ("year(min(day))", "date_trunc('month', min(day))"):
        inner = f"SELECT user_id, {item} AS x FROM ratings GROUP BY user_id"
        answer = side.ask(f"SELECT DP_COUNT_DISTINCT(x, epsilon := 1) AS n FROM ({inner})")
        assert answer.kind == "answered", answer.text


# DuckDB answers these without computing date_trunc, which fails on the ends of the calendar.
REWRITTEN = [
    "date_trunc('year', day) > '2020-01-31'", "date_trunc('week', day) <= '0044-03-15 (BC)'",
    "date_trunc('quarter', day) BETWEEN NULL AND DATE '2024-02-29'",
    "date_trunc('year', day) <> '2020-01-31'", "date_trunc('year', day) = 'infinity'",
    "date_trunc('year', date_trunc('year', day)) < '2020-01-31' AND CAST(day AS VARCHAR) LIKE '%'",
]  # fmt: skip


@pytest.mark.one_in(4)
@pytest.mark.parametrize("condition", REWRITTEN)
def test_a_comparison_that_duckdb_rewrites_means_what_is_written(
    condition: str, database: Database
) -> None:
    texts = [
        f"SELECT user_id, title AS x FROM ratings WHERE {condition}",
        f"SELECT user_id, {condition} AS x FROM ratings",
    ]
    for data in some_data():
        for text in texts:
            assert check(text, data, True, database)


@pytest.mark.pure
def test_an_oracle_that_rewrites_comparisons_is_found(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "rewrite", lambda rewriting: None)
    with pytest.raises(AssertionError):
        for condition in REWRITTEN:
            for data in some_data():
                text = f"SELECT user_id, title AS x FROM ratings WHERE {condition}"
                check(text, data, True, database)


# --- compilers that are wrong must be found out ---------------------------------------------------


def aggregates_inside(patch: pytest.MonkeyPatch) -> None:
    """Aggregates stay where they are written, so that some end up inside TRY(…)."""

    def wrong(self: person_groups._Groups, node: Node) -> Value:
        return person_groups._aggregate(node, self._rows)

    patch.setattr(person_groups._Groups, "_aggregate", wrong)


def largest_for_smallest(patch: pytest.MonkeyPatch) -> None:
    """The largest for the smallest, and the other way round."""
    right = person_groups._aggregate

    def wrong(node: Node, scope: Scope) -> Value:
        value = right(node, scope)
        swapped = {"min(": "max(", "max(": "min("}
        for word, other in swapped.items():
            if value.sql.startswith(f"system.main.{word}"):
                return value._replace(sql=value.sql.replace(word, other, 1))
        return value

    patch.setattr(person_groups, "_aggregate", wrong)


@pytest.mark.pure
@pytest.mark.parametrize("plant", [aggregates_inside, largest_for_smallest])
def test_fixed_expressions_find_a_wrong_compiler(
    plant: object, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(plant)
    plant(monkeypatch)
    with pytest.raises(Exception):  # noqa: B017 - DuckDB's errors and failed assertions
        for text in GROUPED:
            for expression in OF_GROUPS:
                for data in some_data():
                    check(text.replace("{}", expression), data, True, database)


@pytest.mark.thorough
@pytest.mark.pure
@pytest.mark.parametrize(
    "plant", [aggregates_inside, pytest.param(largest_for_smallest, marks=pytest.mark.slow)]
)
def test_the_search_finds_a_wrong_compiler(
    plant: object, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(plant)
    plant(monkeypatch)
    with pytest.raises(Exception):  # noqa: B017 - DuckDB's errors and failed assertions
        search_sources(database, settings(QUIET, max_examples=400, phases=[Phase.generate]))
