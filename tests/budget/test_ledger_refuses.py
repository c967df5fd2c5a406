"""Amounts, analysts' names and tickets that a ledger refuses, and what it is after that."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from dp_sql.budget import schema
from dp_sql.budget.amounts import Amount, Spent
from dp_sql.budget.integrity import verify
from dp_sql.budget.ledger import Ledger
from dp_sql.errors import LedgerError
from tests.budget.ledger_checks import TENTH, admit_all, paths
from tests.budget.ledger_use import kinds, reserve_one


@pytest.mark.parametrize(
    "amount",
    [
        Amount(-1),
        Amount(2**63),
        Amount(1, -1),
        Amount(1, 2**63),
        Amount(1, 0, -1),
        Amount(1, 0, None, 2**63),
        Amount(0.1),  # type: ignore[arg-type]
        Amount(True),
        Amount(1, 0, 0.5),  # type: ignore[arg-type]
        Amount(None),  # type: ignore[arg-type]
    ],
)
def test_an_amount_that_cannot_be_added_up_is_refused(amount: Amount, ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="whole numbers"):
        ledger.reserve("ann", [TENTH, amount], admit_all)
    assert kinds(ledger) == ["opened"]


def test_sums_may_be_larger_than_what_one_number_holds(tmp_path: Path) -> None:
    most = 2**63 - 1
    with Ledger(*paths(tmp_path)) as ledger:
        ledger.reserve("ann", [Amount(most, most, most, most)] * 5, admit_all)
        live = ledger.spent()
    with Ledger(*paths(tmp_path)) as ledger:
        assert ledger.spent() == live == Spent(5, 5 * most, 5 * most, 5 * most, 5, 5, most)


@pytest.mark.parametrize("analyst", ["", "Zoë", "o'brien; --", "5", "名", "x" * 10_000])
def test_any_string_is_a_valid_analyst(analyst: str, ledger: Ledger) -> None:
    reserve_one(ledger, analyst)
    reserve_one(ledger, analyst + "2")
    assert ledger.analysts() == sorted([analyst, analyst + "2"])
    assert ledger.spent(analyst).n == 1
    assert [event.analyst for event in ledger.events(analyst)] == [analyst]


class _Name(str):
    """Says one thing to SQLite and may say another to json."""


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("\ud800", "must be valid UTF-8"),
        ("a\0b", "must not contain the character NUL"),
        (5, "not int"),
        (True, "not bool"),
        (b"ann", "not bytes"),
        (None, "not NoneType"),
        (_Name("ann"), "not _Name"),
    ],
)
def test_a_name_that_is_not_a_string_is_refused_and_the_ledger_still_works(
    name: str, why: str, tmp_path: Path
) -> None:
    with Ledger(*paths(tmp_path)) as ledger:
        with pytest.raises(LedgerError, match=why):
            reserve_one(ledger, name)
        assert kinds(ledger) == ["opened"]
        with pytest.raises(LedgerError, match=r"ever reserved|plain str|UTF-8"):
            ledger.settle({name: "answered"})
        reserve_one(ledger, "bob")
    with Ledger(*paths(tmp_path)) as ledger:
        assert ledger.analysts() == ["bob"]
    assert verify(*paths(tmp_path)) == 2


def test_a_ticket_is_settled_by_its_name_alone(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("uuid.uuid4", lambda: SimpleNamespace(hex="5"))
    assert reserve_one(ledger) == "5"
    for ticket in (5, _Name("5")):
        with pytest.raises(LedgerError, match="must be a plain str"):
            ledger.settle({ticket: "answered"})  # type: ignore[arg-type]
    ledger.settle({"5": "answered"})
    assert kinds(ledger) == ["opened", "reserved", "answered"]


@pytest.mark.parametrize("dataset", [5, "\ud800", "a\0b"])
def test_a_dataset_whose_name_is_not_a_string_gets_no_ledger(dataset: str, tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="A name in a ledger"):
        Ledger(*paths(tmp_path), dataset)
    assert not list(tmp_path.iterdir())


def test_an_event_that_would_not_be_read_as_it_was_meant_is_not_written(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = schema.add
    for change in ({"analyst": "eve"}, {"amount": Amount(1)}, {"hash": "0" * 64}, {"sums": "x"}):
        with monkeypatch.context() as patch, pytest.raises(LedgerError):
            patch.setattr(schema, "add", lambda con, e, c=change: add(con, replace(e, **c)))
            reserve_one(ledger)
        assert kinds(ledger) == ["opened"]
        assert ledger.spent() == Spent()
    reserve_one(ledger)


def test_a_name_that_slips_through_the_check_is_taken_back(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite writes 5 as a string, which is not what was hashed."""
    monkeypatch.setattr("dp_sql.budget.events.check_text", lambda text: None)
    monkeypatch.setattr("dp_sql.budget.ledger.check_text", lambda text: None)
    with pytest.raises(LedgerError, match="Event 2 of the ledger does not match its hash"):
        reserve_one(ledger, 5)  # type: ignore[arg-type]
    assert kinds(ledger) == ["opened"]
    reserve_one(ledger)
