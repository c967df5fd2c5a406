"""Ledgers that owners open themselves, and ledgers that are gone or another's."""

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

import dp_sql
from dp_sql.engines.duckdb import frozen
from dp_sql.errors import ArgumentError, LedgerError, PolicyError
from tests.budget.shop import COUNT, POLICY, Opened, events


def test_a_ledger_that_is_gone_is_not_made_anew(opened: Opened, folder: Path) -> None:
    session = opened()
    session.sql(COUNT.format("0.5")).fetchall()
    session.close()
    for file in folder.glob("policy.ledger.sqlite*"):
        if not file.name.endswith(".witness"):
            file.unlink()
    with pytest.raises(LedgerError):
        opened()
    assert not (folder / "policy.ledger.sqlite").exists()


def test_a_ledger_taken_away_under_a_session_answers_nothing(opened: Opened, folder: Path) -> None:
    session = opened()
    session.sql(COUNT.format("0.5")).fetchall()
    for file in folder.glob("policy.ledger.sqlite*"):
        file.unlink()
    with pytest.raises(LedgerError):
        session.sql(COUNT.format("0.5"))


def test_the_ledger_of_another_dataset_is_refused(opened: Opened, folder: Path) -> None:
    opened().close()
    policy = POLICY.replace('"reading"', '"writing"')
    (folder / "policy.toml").write_text(policy)
    with pytest.raises(LedgerError, match="reading"):
        dp_sql.connect(str(folder / "shop.duckdb"), policy=folder / "policy.toml")


OWN_TOP = (
    "SELECT DP_TOPK(title, 2, epsilon := 0.5, privacy_unit := user_id, domain := catalog.title) "
    "AS best FROM ratings"
)


@pytest.fixture
def owner(folder: Path) -> Iterator[dp_sql.Session]:
    with dp_sql.connect(str(folder / "shop.duckdb"), ledger=folder / "own.sqlite") as session:
        yield session


def own(folder: Path) -> list[tuple[str, int]]:
    found = events(folder, "own.sqlite")[1:]
    return [(event.kind, event.amount.epsilon if event.amount else 0) for event in found]


HALF = [("reserved", 5 * 10**8), ("answered", 0)]


def test_an_owner_may_keep_a_ledger(owner: dp_sql.Session, folder: Path) -> None:
    owner.sql(OWN_TOP).fetchall()
    assert own(folder) == HALF
    assert owner.sql("FROM dp_budget() SELECT analyst, spent").fetchall() == [
        (None, Decimal("0.5")),
        ("owner", Decimal("0.5")),
    ]
    (release,) = owner.releases
    (again,) = owner.sql(f"SELECT answer FROM dp_release('{release.id}')").fetchall()
    assert len(again[0]) == 2
    assert owner.sql("SELECT count(*) FROM dp_ledger()").fetchall() == [(3,)]
    assert own(folder) == HALF


@pytest.mark.parametrize("is_short", [True, False])
def test_rollback_takes_no_debit_back(
    owner: dp_sql.Session, folder: Path, monkeypatch: pytest.MonkeyPatch, is_short: bool
) -> None:
    monkeypatch.setattr(frozen, "_SHORT", 2000 * is_short)
    owner.execute("BEGIN")
    owner.sql(OWN_TOP).fetchall()
    owner.execute("ROLLBACK")
    assert own(folder) == HALF
    again = f"FROM dp_release('{owner.releases[0].id}')"
    if is_short:  # it is in no table
        assert len(owner.sql(again).fetchall()) == 1
    else:
        with pytest.raises(ArgumentError, match="rolled back"):
            owner.sql(again)


def test_dp_pays_from_the_ledger_once_per_execution(owner: dp_sql.Session, folder: Path) -> None:
    con = owner.connection
    relation = con.sql(f"FROM dp($$ {OWN_TOP} $$)")
    assert own(folder) == []  # bound, not run
    con.execute(f"SELECT * FROM dp($$ {OWN_TOP} $$) AS a, dp($$ {OWN_TOP} $$) AS b").fetchall()
    assert own(folder) == HALF
    relation.fetchall()
    assert own(folder) == HALF * 2


def test_selection_for_each_group_costs_each_group(owner: dp_sql.Session, folder: Path) -> None:
    owner.execute(
        "CREATE TABLE scores AS SELECT i % 3 AS region, 'c' || (i // 3) AS candidate, "
        "i AS score FROM range(12) AS t(i)"
    )
    text = (
        "SELECT region, DP_SELECT(candidate, score, 1, epsilon := 0.5) AS best FROM scores "
        "GROUP BY region"
    )
    assert owner.explain(text).epsilon == Fraction(3, 2)
    assert len(owner.sql(text).fetchall()) == 3
    assert own(folder) == [("reserved", 15 * 10**8), ("answered", 0)]
    with pytest.raises(duckdb.Error, match="takes no DP_SELECT with GROUP BY"):
        owner.connection.execute(f"FROM dp($$ {text} $$)").fetchall()
    assert own(folder) == [("reserved", 15 * 10**8), ("answered", 0)]


def test_explain_of_an_owner_spends_nothing(owner: dp_sql.Session, folder: Path) -> None:
    told = dict(owner.sql(f"EXPLAIN {OWN_TOP}").fetchall())
    assert told["mechanism"] == "joint" and told["cost"].startswith("epsilon = 0.5 ")
    assert owner.explain(OWN_TOP).epsilon == Fraction(1, 2)
    assert own(folder) == []


def test_one_database_has_one_ledger_in_a_process(owner: dp_sql.Session, folder: Path) -> None:
    with pytest.raises(PolicyError, match="with a ledger"):
        dp_sql.connect(str(folder / "shop.duckdb"))
    with pytest.raises(PolicyError, match="with a ledger"):
        dp_sql.connect(str(folder / "shop.duckdb"), ledger=folder / "other.sqlite")
    with dp_sql.connect(str(folder / "shop.duckdb"), ledger=folder / "own.sqlite") as second:
        second.sql(OWN_TOP).fetchall()
    assert own(folder) == HALF
    owner.connection.execute(f"FROM dp($$ {OWN_TOP} $$)").fetchall()
    assert own(folder) == HALF * 2


def test_a_ledger_is_not_opened_while_sessions_without_one_are_open(folder: Path) -> None:
    with (
        dp_sql.connect(str(folder / "shop.duckdb")),
        pytest.raises(PolicyError, match="without a ledger"),
    ):
        dp_sql.connect(str(folder / "shop.duckdb"), ledger=folder / "own.sqlite")
    dp_sql.connect(str(folder / "shop.duckdb"), ledger=folder / "own.sqlite").close()


def test_a_policy_names_its_ledger_itself(folder: Path) -> None:
    with pytest.raises(PolicyError, match="names its ledger itself"):
        dp_sql.connect(
            str(folder / "shop.duckdb"),
            policy=folder / "policy.toml",
            ledger=folder / "x",  # type: ignore[call-overload]
        )
