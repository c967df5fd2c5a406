"""Several DP calls in one SELECT are one debit and one outcome."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import dp_sql
from dp_sql.engines.duckdb.private_connection import FAILED, PrivateConnection
from dp_sql.errors import BudgetExceeded, DpSqlError
from dp_sql.sql.shape import Shape
from tests.databases import write_database
from tests.session.several_calls import ROWS, priced, wrap_draws

POLICY = """
tables.views.privacy_unit = "user_id"
public.tables = ["regions"]
domains."views.title" = ["t0", "t1", "t2"]
domains."views.region" = "regions.name"
[budget]
ledger = "ledger.sqlite"
dataset = "shop"
epsilon = 100
keep_releases = true
"""


THREE = (
    "SELECT DP_TOPK(title, 2, epsilon := 1), DP_COUNT_DISTINCT(minutes, epsilon := 2), "
    "DP_COUNT_DISTINCT(title, epsilon := 4) FROM views"
)


@pytest.fixture
def analyst(tmp_path: Path) -> Iterator[dp_sql.Session]:
    (tmp_path / "policy.toml").write_text(POLICY, "utf-8")
    database = write_database(tmp_path / "shop.duckdb", ROWS)
    with dp_sql.connect(database, policy=str(tmp_path / "policy.toml"), analyst="ann") as session:
        yield session


def spent(session: dp_sql.Session) -> Fraction:
    return session.budget()[0].epsilon_spent


def test_calls_are_one_debit_and_have_a_receipt_each(analyst: dp_sql.Session) -> None:
    analyst.sql(THREE).fetchall()
    assert spent(analyst) == 7
    assert [one.loss.epsilon for one in analyst.receipts] == [1, 2, 4]
    assert [one.receipt.loss.epsilon for one in analyst.releases] == [1, 2, 4]
    columns = [one.columns[0][1] for one in analyst.releases]
    assert columns == ["VARCHAR[]", "BIGINT", "BIGINT"]


def test_the_sum_is_reserved_before_a_row_is_read(
    analyst: dp_sql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    real = PrivateConnection.release

    def release(self: PrivateConnection, *args: Any) -> Any:
        seen.append(spent(analyst))
        return real(self, *args)

    monkeypatch.setattr(PrivateConnection, "release", release)
    analyst.sql(THREE).fetchall()
    assert seen == [7]
    with pytest.raises(BudgetExceeded):
        analyst.sql(THREE.replace("epsilon := 4", "epsilon := 94")).fetchall()
    assert (spent(analyst), len(seen)) == (7, 1)


def fail_at(epsilon: int) -> Callable[[Shape, Any], None]:
    def check(shape: Shape, lists: Any) -> None:
        if shape.epsilon == epsilon:
            raise OverflowError

    return check


def test_a_call_that_fails_fails_all(
    analyst: dp_sql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        wrap_draws(broken, fail_at(2))
        with pytest.raises(dp_sql.QueryError) as caught:
            analyst.sql(THREE)
    assert str(caught.value) == FAILED
    assert spent(analyst) == 7
    assert [one.loss.epsilon for one in analyst.receipts] == [1, 2, 4]
    assert all("failed" in one.accuracy for one in analyst.receipts)
    assert not analyst.releases
    analyst.sql(THREE).fetchall()
    assert spent(analyst) == 14


def test_a_kept_release_is_free_beside_new_ones(analyst: dp_sql.Session) -> None:
    two = "SELECT DP_COUNT_DISTINCT(minutes, epsilon := 2) FROM views"
    ((first,),) = analyst.sql(two).fetchall()
    ((_, again, _),) = analyst.sql(THREE).fetchall()
    assert again == first
    assert spent(analyst) == 7
    analyst.sql("SELECT DP_COUNT_DISTINCT(title, epsilon := 4) FROM views").fetchall()
    assert spent(analyst) == 7


def test_an_owners_failure_leaves_no_receipt_of_what_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wrap_draws(monkeypatch, fail_at(9999))
    with dp_sql.connect(ledger=tmp_path / "owner.sqlite") as session:
        session.execute(ROWS)
        calls = [priced("DP_COUNT_DISTINCT(title, {})", n, "") for n in range(2)]
        with pytest.raises(DpSqlError):
            session.sql(f"SELECT {', '.join(calls)} FROM views")
        assert not session.receipts
        assert session.budget()[-1].epsilon_spent == 19999
