"""Which privacy unit an owner's statement gets if it names none, or a wrong one."""

from pathlib import Path

import duckdb
import pytest

import dp_sql
from tests.session.corrections.orders_shop import SAME, told


@pytest.mark.parametrize(
    ("source", "proposed"),
    [
        ("orders", "SELECT DP_COUNT(1, epsilon := 1, privacy_unit := customer_id) FROM orders"),
        (
            "employees",
            "SELECT DP_COUNT(1, epsilon := 1, privacy_unit := employee_id) FROM employees",
        ),
        (
            "items WHERE quantity > 1",
            "SELECT DP_COUNT(1, epsilon := 1, privacy_unit := customer_id) "
            "FROM items JOIN orders USING (order_id) WHERE quantity > 1",
        ),
    ],
)
def test_a_privacy_unit_is_guessed_by_keys_and_called_a_guess(
    owner: dp_sql.Session,
    installed: duckdb.DuckDBPyConnection,
    source: str,
    proposed: str,
) -> None:
    asked = f"SELECT DP_COUNT(1, epsilon := 1) FROM {source}"
    unit = proposed.partition("privacy_unit := ")[2].partition(")")[0]
    said = f"{unit} is a guess: check that it identifies the person of each row."
    error = told(owner, asked)
    assert (error.suggestion, error.hint) == (proposed, said)
    with pytest.raises(duckdb.Error) as raised:
        installed.execute(asked)
    assert said in str(raised.value)
    assert str(raised.value).endswith(SAME + proposed)


def test_a_privacy_unit_is_guessed_of_files_and_views(
    owner: dp_sql.Session, tmp_path: Path
) -> None:
    file, ask = f"{tmp_path}/orders.parquet", "SELECT DP_COUNT(*, epsilon := 1{}) FROM {}"
    owner.execute(f"COPY orders TO '{file}'")
    owner.execute(f"CREATE OR REPLACE VIEW dear AS SELECT customer_id, total FROM '{file}'")
    joined = f"regions JOIN read_parquet('{file}', filename = true) o ON o.status = regions.region"
    for source in (f"'{file}'", f"read_parquet(['{file}']) WHERE total > 1", "dear", joined):
        error = told(owner, ask.format("", source))
        assert error.suggestion == ask.format(", privacy_unit := customer_id", source)
        assert "customer_id is a guess" in (error.hint or "")
    owner.execute("DROP VIEW dear")


def test_a_privacy_unit_is_added_to_the_list_of_a_subquery(owner: dp_sql.Session) -> None:
    ask = "{}SELECT DP_COUNT(*, epsilon := 1, privacy_unit := customer_id) FROM {}"
    for text in (
        ask.format("", "(SELECT total, status{} FROM orders WHERE total > 1) WHERE total < 9"),
        ask.format("WITH a AS (SELECT total{} FROM orders) ", "a"),
        ask.format(
            "",
            "(SELECT region{} FROM (SELECT *, 1 AS one FROM orders) JOIN regions ON status = region)",
        ),
    ):
        error = told(owner, text.replace("{}", ""))
        assert error.suggestion == text.replace("{}", ", customer_id") and not error.asks_other
    error = told(
        owner, ask.format("", "(SELECT status, count(*) AS n FROM orders GROUP BY status)")
    )
    assert error.suggestion == ""


@pytest.mark.parametrize("unit", ["", ", privacy_unit := customer_id"])
@pytest.mark.parametrize(
    ("source", "joined"),
    [
        ("items", "items JOIN orders USING (order_id)"),
        ("items i WHERE i.quantity > 1", "items i JOIN orders USING (order_id) WHERE i.quantity > 1"),
        ("items AS i JOIN regions ON quantity = region_id",
         "items AS i JOIN orders USING (order_id) JOIN regions ON quantity = region_id"),
    ],
)  # fmt: skip
def test_the_table_with_the_privacy_unit_is_joined(
    owner: dp_sql.Session, source: str, joined: str, unit: str
) -> None:
    error = told(owner, f"SELECT DP_COUNT(*, epsilon := 1{unit}) FROM {source}")
    wanted = f"SELECT DP_COUNT(*, epsilon := 1, privacy_unit := customer_id) FROM {joined}"
    assert (error.suggestion, error.asks_other) == (wanted, False)


def test_a_privacy_unit_of_another_name_is_put_in_its_place(owner: dp_sql.Session) -> None:
    ask = (
        "SELECT DP_COUNT(*, epsilon := 1, privacy_unit := {}) FROM (SELECT customer_id FROM orders)"
    )
    error = told(owner, ask.format("orders.customer_id"))
    assert error.suggestion == ask.format("customer_id")
    assert not told(owner, ask.format("person")).suggestion


def test_a_table_without_people_gets_no_privacy_unit(owner: dp_sql.Session) -> None:
    assert told(owner, "SELECT DP_COUNT(*, epsilon := 1) FROM regions").suggestion == ""
