"""An SQL function is one declaration: nothing between the parser and the mechanism names it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import duckdb
import pytest

import dp_sql
from dp_sql.errors import ArgumentError
from dp_sql.sql import ranges, readers, shape
from dp_sql.sql.functions import FUNCTIONS
from dp_sql.sql.given import Given
from dp_sql.sql.mechanism_rows import MechanismRows
from dp_sql.sql.shape import Function, Shape
from dp_sql.sql.statement import parse
from dp_sql.udfs import REGISTRY
from dp_sql.udfs.mechanism import Mechanism, PrivacyLoss
from tests.conftest import SURE


@dataclass(frozen=True, kw_only=True)
class People(Shape):
    """How many people have an item at all."""

    registry = "tested"
    reads_rows_once = True
    takes: ClassVar = {"__dp_people": "BIGINT"}
    udfs: ClassVar = {"__dp_sql_people": "BIGINT"}

    @classmethod
    def read(cls, given: Given, mechanism: Mechanism) -> People:
        return cls(epsilon=given.read("epsilon", readers.read_epsilon), beta=ranges.DEFAULT_BETA)

    def value_type(self, types: Any) -> str:
        return "BIGINT"

    def lists(self, rows: MechanismRows) -> list[str]:
        n = "system.main.count(DISTINCT __dp_privacy_unit) AS __dp_people"
        if not rows.grouped:
            return [f"__dp_lists AS (SELECT {n} FROM {rows.relation})"]
        joined = f"__dp_groups LEFT JOIN {rows.relation} USING (__dp_group)"
        return [f"__dp_lists AS (SELECT __dp_group, {n} FROM {joined} GROUP BY __dp_group)"]

    def draw(self, mechanism: Mechanism, loss: PrivacyLoss, *lists: Any) -> tuple[int, str]:
        return mechanism.run(lists[0], self.epsilon), mechanism.accuracy()

    def public_accuracy(self, mechanism: Mechanism, n_items: int | None) -> str:
        return mechanism.accuracy()


EXACT = Mechanism(
    name="exact",
    function="tested",  # type: ignore[arg-type]
    samples="nothing: this is a test",
    loss=lambda epsilon: PrivacyLoss(epsilon),
    run=lambda n, epsilon: n,
    accuracy=lambda: "exact",
)
DP_PEOPLE = Function(
    name="DP_PEOPLE",
    shape=People,
    positional=("item",),
    named=("epsilon", "privacy_unit", "mechanism", "groups", "max_groups_contributed"),
    default_mechanism="exact",
    purpose="how many people",
    example="DP_PEOPLE(title, epsilon := 1, privacy_unit := user_id)",
    table="ratings",
)
CALL = "DP_PEOPLE(title, epsilon := 1, privacy_unit := user_id)"


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(FUNCTIONS, "DP_PEOPLE", DP_PEOPLE)  # type: ignore[misc]
    monkeypatch.setattr(shape, "REGISTRY", {**REGISTRY, "tested": {"exact": EXACT}})
    yield


def fill(con: Any) -> None:
    con.execute(
        "CREATE TABLE ratings AS SELECT i AS user_id, 'a' AS title, "
        "['north', 'south'][1 + (i % 3)::BIGINT // 2] AS region FROM range(30) t(i)"
    )


def test_a_new_function_needs_a_declaration_and_a_mechanism_and_nothing_else(
    declared: None, tmp_path: Path
) -> None:
    with dp_sql.connect() as session:
        fill(session)
        assert session.sql(f"SELECT {CALL} AS n FROM ratings").fetchall() == [(30,)]
        assert session.sql(f"FROM dp($$ SELECT {CALL} AS n FROM ratings $$)").fetchall() == [(30,)]
        grouped = CALL[:-1] + ", groups := observed, max_groups_contributed := 1)"
        text = f"SELECT region, {grouped} AS n FROM ratings GROUP BY region ORDER BY region"
        assert session.sql(text).fetchall() == [("north", 20), ("south", 10)]
        told = dict(session.sql(f"EXPLAIN SELECT {CALL} FROM ratings").fetchall())
        assert told["mechanism"] == "exact"
        plain = dp_sql.install(session.connection)
        assert plain.sql(f"SELECT {CALL} AS n FROM ratings").fetchall() == [(30,)]
        assert [receipt.mechanism for receipt in session.receipts] == ["exact"] * 4
    database, policy = tmp_path / "shop.duckdb", tmp_path / "policy.toml"
    with duckdb.connect(str(database)) as con:
        fill(con)
    policy.write_text('[tables.ratings]\nprivacy_unit = "user_id"\n', encoding="utf-8")
    with dp_sql.connect(str(database), policy=str(policy)) as analyst:
        text = "SELECT DP_PEOPLE(title, epsilon := 1) AS n FROM ratings"
        assert analyst.sql(text).fetchall() == [(30,)]


ARGUMENTS = [(name, argument) for name, f in FUNCTIONS.items() for argument in f.named]


@pytest.mark.parametrize(("name", "argument"), ARGUMENTS)
def test_every_declared_argument_is_read(name: str, argument: str) -> None:
    """A wrong value is refused under its own place: none is ignored."""
    example = FUNCTIONS[name].example
    if FUNCTIONS[name].shape.reads_people:
        example = example[:-1] + ", groups := observed, max_groups_contributed := 1)"
    call = re.sub(rf", {argument} := [\w.]+", "", example)[:-1] + f", {argument} := 1 + + 1)"
    text = f"SELECT {call} FROM {FUNCTIONS[name].table} GROUP BY region"
    (statement,) = parse(text)
    with pytest.raises(ArgumentError) as caught:
        statement.selects  # noqa: B018 - reading them is the test
    assert text[caught.value.position or 0 :].startswith("1 + + 1")


def test_parameters_are_typed_values() -> None:
    (statement,) = parse(
        f"SELECT DP_TOPK(title, 3, {SURE}, privacy_unit := user_id, domain := ['a']), "
        "DP_COUNT_DISTINCT(title, epsilon := 1/2) FROM ratings".replace(
            "1/2", "0.5, privacy_unit := u"
        )
    )
    topk, count = (call.parameters for call in statement.selects[0].calls)
    assert (topk.epsilon, topk.delta, topk.n_listed) == (10_000, None, 3)
    assert (count.epsilon, count.n_listed) == (Fraction(1, 2), None)
    with pytest.raises(AttributeError):
        topk.epsilon = Fraction(1)  # type: ignore[misc]
