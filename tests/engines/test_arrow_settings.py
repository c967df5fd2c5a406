"""Mechanisms take the same values, however any connection sets DuckDB to write arrow."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import dp_sql
from dp_sql.engines.duckdb import few_rows, many_rows
from dp_sql.udfs.contributions import slots
from tests.conftest import SURE
from tests.engines.test_few_rows import same
from tests.engines.test_many_rows import GROUPS, Taken, _run, owner, taken
from tests.pairs import in_pairs
from tests.session.several_calls import priced

__all__ = ["owner", "taken"]  # fixtures

VIEWS = {"arrow_output_version": "1.4", "arrow_output_list_view": "true"}
SETTINGS = [
    {"arrow_large_buffer_size": "true"},
    VIEWS,
    {**VIEWS, "arrow_large_buffer_size": "true", "arrow_lossless_conversion": "true"},
    {"arrow_output_version": "1.5"},  # short decimals have 32 and 64 bits
]
WAYS = {"in memory": (1 << 60, 1 << 60), "people in memory": (0, 0), "in SQL": (0, 1 << 60)}
MANY = "groups := (SELECT i FROM items WHERE i < 70), max_groups_contributed := 2"
QUESTIONS = [
    ("SELECT {} FROM seen", ["DP_AVG(x, {0})", "DP_SUM(rent, {0})"], ""),
    ("SELECT region, {} FROM seen GROUP BY region", ["DP_AVG(x, {0})", "DP_COUNT(*, {0})"], GROUPS[1]),
    ("SELECT region, {} FROM seen GROUP BY region", ["DP_COUNT_DISTINCT(rent, {0})"], GROUPS[2]),
    ("SELECT price, {} FROM seen GROUP BY price", ["DP_TOPK(price, 2, {0}, domain := observed)"],
     "groups := (SELECT price FROM items), max_groups_contributed := 1000"),
    ("SELECT i, {} FROM seen GROUP BY i", ["DP_TOPK(long, 2, {0}, domain := observed)"], MANY),
    ("SELECT region, mood, {} FROM seen GROUP BY region, mood", ["DP_AVG(x, {0})"],
     "delta := 1e-6, max_groups_contributed := 1000"),
]  # fmt: skip


@pytest.fixture(params=SETTINGS, ids=str)
def other(request: pytest.FixtureRequest, owner: dp_sql.Session) -> Iterator[dict[str, str]]:
    """Settings of the whole database; `on` sets them."""
    if request.param.get("arrow_output_version") == "1.5" and not hasattr(pa, "decimal64"):
        pytest.skip("this pyarrow reads no short decimals")
    yield request.param
    on(owner, dict.fromkeys(request.param))


def on(owner: dp_sql.Session, settings: dict[str, str] | dict[str, None]) -> None:
    assert owner.connection is not None
    with owner.connection.cursor() as another:
        for name, value in settings.items():
            another.execute(f"RESET {name}" if value is None else f"SET {name} = '{value}'")


@pytest.fixture(scope="module")
def known() -> dict[tuple[str, str], Any]:
    """What came of a question in one of the ways, before anything was set."""
    return {}


@pytest.mark.parametrize(
    ("question", "other", "way"), in_pairs(QUESTIONS, SETTINGS, [*WAYS]), indirect=["other"]
)
def test_mechanisms_take_the_same_however_duckdb_writes_arrow(
    question: tuple[str, list[str], str], way: str, other: dict[str, str], owner: dp_sql.Session,
    taken: Taken, known: dict[tuple[str, str], Any], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    few, least = WAYS[way]
    monkeypatch.setattr(few_rows, "FEW", few)
    monkeypatch.setattr(many_rows, "LEAST", least)
    monkeypatch.setattr(many_rows, "ROWS_EACH", 1 << 60)
    monkeypatch.setattr(slots, "draw_bits", lambda own, *_: own)
    text, calls, groups = question
    asked = [priced(one, n, groups).replace("user_id", "u") for n, one in enumerate(calls)]
    text = text.format(", ".join(asked))
    if (way, text) not in known:
        known[way, text] = same(_run(owner, text, taken))
    on(owner, other)
    assert same(_run(owner, text, taken)) == known[way, text] and known[way, text][0]


@pytest.mark.parametrize(
    ("item", "other", "way"),
    in_pairs(["price", "wide", "long", "bytes", "day", "id", "mood"], SETTINGS, [*WAYS]),
    indirect=["other"],
)
def test_items_are_found_however_duckdb_writes_arrow(
    item: str, way: str, other: dict[str, str], owner: dp_sql.Session,
    known: dict[tuple[str, str], Any], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    few, least = WAYS[way]
    monkeypatch.setattr(few_rows, "FEW", few)
    monkeypatch.setattr(many_rows, "LEAST", least)
    source = "(SELECT * REPLACE (lpad('', 9, name) AS long) FROM seen)"
    call = f"DP_TOPK({item}, 99, {SURE}, delta := 1e-6, privacy_unit := i, {GROUPS[2]})"
    asked = f"SELECT region, {call} FROM {source} GROUP BY region ORDER BY region"
    if (way, asked) not in known:
        known[way, asked] = [{*found} for _, found in owner.sql(asked).fetchall()]
    on(owner, other)
    before = known[way, asked]
    assert [{*found} for _, found in owner.sql(asked).fetchall()] == before and all(before)


def test_a_person_counts_in_as_many_groups_as_the_cap_says(tmp_path: Path) -> None:
    """If the ends of lists were misread, people of one group would be in another, too."""
    path, policy = f"{tmp_path}/shop.duckdb", f"{tmp_path}/policy.toml"
    with duckdb.connect(path) as con:
        con.execute(
            "CREATE TABLE seen AS SELECT i % 90 AS u, u % 9 AS g, 1 AS x FROM range(900) r(i)"
        )
    with open(policy, "w", encoding="utf-8") as file:
        file.write('tables.seen.privacy_unit = "u"')
    asked = (
        "SELECT g, DP_AVG(x, epsilon := 10000, lower := 0, upper := 1, report := true, groups := "
        "[0, 1, 2, 3, 4, 5, 6, 7, 8], max_groups_contributed := 1) AS a FROM seen GROUP BY g"
    )
    with duckdb.connect(path, read_only=True) as con:
        con.execute("SET arrow_large_buffer_size = true")
        with dp_sql.connect(path, policy=policy) as analyst:
            found = analyst.sql(f"SELECT g, a['estimate'] FROM ({asked})").fetchall()
    assert [mean is not None and round(mean, 2) for _, mean in found] == [1.0] * 9
