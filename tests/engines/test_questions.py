"""What an engine is asked: no epsilon, no ticket, nothing that draws; a key only where it is needed."""

import re
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import dp_sql
from dp_sql.engines import by_parts as driver
from dp_sql.engines.protocol import PART, Pairs, PartedQuestion
from dp_sql.sql.functions.quantile import WORD_UDF
from tests.engines.fake import FakeEngine
from tests.engines.sessions import by_parts
from tests.engines.test_by_parts import CERTAIN, GROUPED, SOURCES, E
from tests.engines.test_keyed_draws import plans_of

KEY = 0x5EED << 240
FOUND = f"DP_COUNT_DISTINCT(title, {E}, delta := 1e-9, max_groups_contributed := 7)"
SAMPLED = f"DP_COUNT_DISTINCT(title, {E}, sample_items := 0.5)"
CAPPED = f"DP_COUNT_DISTINCT(title, {E}, groups := [2001, 2002, 2003], max_groups_contributed := 1)"
QUERIES = [
    *(f"SELECT {call} {SOURCES[i % len(SOURCES)]}" for i, call in enumerate(CERTAIN)),
    *(f"SELECT region, {calls} FROM ratings GROUP BY region" for calls in GROUPED),
    f"SELECT year, {FOUND} FROM ratings GROUP BY year",
    f"SELECT year, {CAPPED} FROM ratings GROUP BY year",
    f"SELECT {SAMPLED} FROM ratings",
]


class Recording(FakeEngine):
    """Notes all questions that it is asked."""

    asked: list[PartedQuestion]

    def _merged(self, question: PartedQuestion) -> pa.Table:
        self.asked.append(question)
        return super()._merged(question)

    def thin(self, question: PartedQuestion, people_per_item: int) -> Pairs:
        self.asked.append(question)
        return super().thin(question, people_per_item)

    def complete(self, question: PartedQuestion, items: Any, people: Any) -> Pairs:
        self.asked.append(question)
        return super().complete(question, items, people)


def asked(session: Any, query: str, patch: pytest.MonkeyPatch, key: int = KEY) -> list[Any]:
    """All that an engine is given for a query, as values."""
    found: list[PartedQuestion] = []

    def make(connection: Any) -> Recording:
        engine = Recording(connection)
        engine.asked = found
        return engine

    by_parts(patch, make)
    patch.setattr(driver, "fair_bits", lambda n: key)
    session.sql(query).fetchall()
    return [as_values(question) for question in {id(one): one for one in found}.values()]


def as_values(question: PartedQuestion) -> dict[str, Any]:
    public = {
        name: (list(one.columns), sorted(one.rows.to_pylist(), key=repr))  # in any order
        for name, one in question.public.items()
    }
    return {**vars(question), "public": public}


@pytest.fixture(scope="module")
def known() -> dict[str, list[Any]]:
    """What was asked for each query with `KEY`."""
    return {}


@pytest.fixture
def with_key(
    query: str, shared: dp_sql.Session, known: dict[str, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> list[Any]:
    """What is asked for a query; the tests below share it."""
    if query not in known:
        known[query] = asked(shared, query, monkeypatch)
    return known[query]


@pytest.mark.one_in(16)
@pytest.mark.parametrize("query", QUERIES)
def test_a_question_is_the_same_for_every_epsilon(
    query: str, with_key: list[Any], shared: dp_sql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And for every delta and beta; tickets are new each time."""
    other = query.replace("epsilon := 10000", "epsilon := 9876.5").replace("1e-9", "1.9e-7")
    other = re.sub(r"(privacy_unit := user_id)", r"\1, beta := 0.0371", other)
    assert with_key and with_key == asked(shared, other, monkeypatch)


@pytest.mark.one_in(16)
@pytest.mark.parametrize("query", QUERIES)
def test_a_question_has_a_key_only_where_something_is_drawn(
    query: str, with_key: list[Any], shared: dp_sql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = any(
        (plan.groups is not None and plan.groups.cap is not None)
        or plan.parameters.sample_items is not None
        or WORD_UDF in repr(plan.parameters.person_values())
        for plan in plans_of(shared, query)
    )
    assert (with_key == asked(shared, query, monkeypatch, key=1)) == (not draws)
    assert any(f"{KEY:064x}" in repr(question) for question in with_key) <= draws


@pytest.mark.one_in(16)
@pytest.mark.parametrize("query", QUERIES)
def test_nothing_in_a_question_draws(query: str, with_key: list[Any]) -> None:
    """Each function is DuckDB's own, by its full name or as syntax, and is no volatile one."""
    with duckdb.connect() as connection:
        listed = connection.execute(
            "SELECT function_name, bool_or(stability = 'VOLATILE') FROM duckdb_functions() GROUP BY 1"
        ).fetchall()
    is_volatile = dict(listed)
    syntax = {"coalesce", "unnest", "cast", "try_cast", "try", "in", "as", "over", "filter", "where",
              "from", "join", "using", "exists", "and", "or", "not", "on", "enum", "decimal", "by",
              "select", "case", "when", "then", "else", "end", "materialized", "values", "all", "union", "any", "distinct", "system.main.||"}  # fmt: skip
    assert is_volatile["random"] and is_volatile["uuid"]
    for question in with_key:
        for sql in (question["part_sql"], question["merge_sql"]):
            code = re.sub(r"'(?:[^']|'')*'", "''", sql).replace("AS __dp_people(", "AS (")
            for scope, name in re.findall(r'((?:\w+\.)*)"?([\w|]+)"? ?\(', code):
                if scope == "system.main." and name in is_volatile:
                    assert not is_volatile[name], name
                else:
                    assert not scope and name.lower() in syntax | {PART}, f"{scope}{name} in {code}"
            assert "__dp_sql_" not in sql and "once-" not in sql
