"""Events changed within a ledger: each change is found, and the first that is wrong is named."""

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dp_sql.budget import schema
from dp_sql.budget.amounts import Amount
from dp_sql.budget.events import Event, EventKind, new_event, next_event, origin
from dp_sql.budget.integrity import Reservations, verify
from dp_sql.budget.ledger import Ledger
from dp_sql.budget.totals import Totals
from dp_sql.errors import LedgerError
from tests.budget.ledger_checks import TENTH, change_by_force, folder_in_memory, paths
from tests.budget.ledger_files import ask, by_hand


def _with_wrong_sums(path: Path) -> None:
    """One event more, its hash right and its sums of nothing."""
    con = sqlite3.connect(path, isolation_level=None)
    try:
        last = schema.event(con, schema.last_number(con))
        forged = new_event(
            last, "reserved", time=last.time, ticket="x", analyst="ann", amount=TENTH,
            sums=_NO_SUMS,
        )  # fmt: skip
        schema.add(con, forged)
    finally:
        con.close()


def test_an_event_with_wrong_sums_is_refused_though_its_hash_holds(
    files: tuple[Path, Path],
) -> None:
    with Ledger(*files) as ledger:
        ledger.spent()
        _with_wrong_sums(files[0])
        with pytest.raises(LedgerError, match="Event 8 of the ledger does not say what"):
            ledger.spent()
        with pytest.raises(LedgerError, match="does not add up"):
            ledger.spent()
    with pytest.raises(LedgerError, match="Event 8 of the ledger does not say what"):
        verify(*files)


def test_an_amount_that_is_no_number_is_found_while_adding_up(files: tuple[Path, Path]) -> None:
    change_by_force(files[0], "UPDATE events SET epsilon = -5 WHERE number = 2")
    with Ledger(*files) as ledger, pytest.raises(LedgerError, match="not a whole number"):
        change_by_force(files[0], "UPDATE events SET epsilon = -5000000000 WHERE number = 2")
        ledger.spent()


_CHANGES = {
    1: ["time = '2000-01-01T00:00:00Z'", "analyst = 'ann'", "kind = 'failed'"],
    2: ["epsilon = epsilon - 1", "delta = 1", "rho = NULL", "bounded_range = 5", "analyst = 'bob'"],
    3: ["kind = 'failed'", "ticket = 'other'", "hash = upper(hash)"],
    6: ["epsilon = 0.5", "rho = 'much'", "time = '2026-11-21 00:00:00'", "ticket = x'00'"],
    7: ["number = 8", "kind = 'answered'", "analyst = CAST(x'ff' AS TEXT)"],
}


@pytest.mark.parametrize(
    ("number", "change"), [(number, change) for number in _CHANGES for change in _CHANGES[number]]
)
def test_the_first_event_that_is_wrong_is_named(
    number: int, change: str, files: tuple[Path, Path]
) -> None:
    change_by_force(files[0], f"UPDATE events SET {change} WHERE number = {number}")
    with pytest.raises(LedgerError, match=f"Event {number} of the ledger"):
        verify(*files)


def test_a_lost_event_is_named(files: tuple[Path, Path]) -> None:
    change_by_force(files[0], "DELETE FROM events WHERE number = 4")
    with pytest.raises(LedgerError, match="Event 4 of the ledger is missing"):
        verify(*files)


def test_another_dataset_or_id_breaks_the_chain(files: tuple[Path, Path]) -> None:
    change_by_force(files[0], "UPDATE ledger SET dataset = 'mine'")
    with pytest.raises(LedgerError, match="Event 1 of the ledger does not match its hash"):
        verify(*files)


def test_an_index_that_lies_is_found(files: tuple[Path, Path]) -> None:
    by_hand(
        files[0],
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET rootpage = (SELECT rootpage FROM sqlite_master WHERE name = 'cancelled') "
        "WHERE name = 'settled_once'",
    )
    with pytest.raises(LedgerError, match=r"damaged outside its events|is damaged"):
        verify(*files)


def _missed(check: Callable[[Path, Path], object], bits: int, step: int = 1) -> int:
    """How many changed bytes of the events a check does not find, though an event reads otherwise.

    In each row, SQLite keeps one byte for the number that it never reads: the number is the key.
    """
    missed = same = 0
    for files in _in_memory():
        whole, events = files[0].read_bytes(), _read(files[0])
        page = whole.rindex(b"opened") // schema.PAGE * schema.PAGE
        begin = page + int.from_bytes(whole[page + 5 : page + 7], "big")  # where its cells begin
        assert 7 * 200 < page + schema.PAGE - begin < 7 * 300  # the seven events, and nothing else
        for i in range(begin, page + schema.PAGE, step):
            for bit in range(i % 8, i % 8 + bits):
                changed = bytearray(whole)
                changed[i] ^= 1 << bit % 8
                files[0].write_bytes(changed)
                try:
                    check(*files)
                except LedgerError:
                    continue
                same += _read(files[0]) == events
                missed += _read(files[0]) != events
    assert same <= 7
    return missed


def _in_memory() -> Iterator[tuple[Path, Path]]:
    for folder in folder_in_memory():
        with Ledger(*paths(folder), "readers") as ledger:
            for outcome in ("answered", "failed", "cancelled"):
                ask(ledger, outcome)
        yield paths(folder)


def _read(path: Path) -> object:
    con = sqlite3.connect(path)
    try:
        return con.execute("SELECT * FROM events").fetchall()
    except sqlite3.Error:
        return None
    finally:
        con.close()


def test_a_changed_byte_of_an_event_is_found() -> None:
    assert _missed(verify, bits=1, step=3) == 0


@pytest.mark.slow
def test_every_changed_bit_of_an_event_is_found() -> None:
    assert _missed(verify, bits=8) == 0


@pytest.mark.thorough
def test_a_check_of_the_newest_events_alone_misses_bytes() -> None:
    assert _missed(lambda *both: Ledger(*both, read_only=True).close(), bits=1, step=5) > 140


_ORIGIN = origin("id", "readers")


_A, _B = Amount(1), Amount(2, 3, 4, 5)


_NO_SUMS = Totals("2026-11").sums("")


def _chain(*events: tuple[EventKind, str, str, Amount | None]) -> Iterator[Event]:
    """Events with true hashes, whatever they say."""
    last = _ORIGIN
    for kind, ticket, analyst, amount in events:
        last = new_event(
            last, kind, time="2026-11-21T00:00:00Z", ticket=ticket, analyst=analyst, amount=amount,
            sums=_NO_SUMS,
        )  # fmt: skip
        yield last


_OPENED: tuple[EventKind, str, str, None] = ("opened", "", "", None)


_RESERVED: tuple[EventKind, str, str, Amount] = ("reserved", "t", "ann", _A)


_ANSWERED: tuple[EventKind, str, str, None] = ("answered", "t", "ann", None)


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([_OPENED, _ANSWERED], "Event 2 .* before it is reserved"),
        ([_OPENED, _RESERVED, _ANSWERED, _ANSWERED], "Event 4 .* for the second time"),
        ([_OPENED, _RESERVED, _ANSWERED, ("cancelled", "t", "ann", None)], "Event 4 .* second"),
        ([_OPENED, _RESERVED, ("cancelled", "t", "ann", None), _ANSWERED], "Event 4 .* second"),
        ([_OPENED, _RESERVED, _RESERVED], "Event 3 .* given before"),
        ([_OPENED, _RESERVED, _ANSWERED, _RESERVED], "Event 4 .* given before"),
        ([_OPENED, ("reserved", "", "ann", _A)], "Event 2 .* ticket"),
        ([_OPENED, _RESERVED, ("failed", "t", "bob", None)], "Event 3 .* another analyst"),
        ([("opened", "", "ann", None)], "Event 1 .* name"),
    ],
)
def test_a_history_that_cannot_be_is_found_though_its_hashes_hold(
    events: list[tuple[EventKind, str, str, Amount | None]], why: str
) -> None:
    tickets = Reservations()
    *good, bad = _chain(*events)
    for event in good:
        tickets.follow(event)
    with pytest.raises(LedgerError, match=why):
        tickets.follow(bad)


_ROW = (2, "2026-11-21T00:00:00Z", "reserved", "t", "ann", 1, 0, None, None, _NO_SUMS)


def _hash(previous: str, *fields: Any) -> str:
    return Event(*fields, "").hash_after(previous)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ((3, *_ROW[1:]), "Event 2 of the ledger is missing"),
        ((2.0, *_ROW[1:]), "has no number"),
        ((*_ROW[:1], "2026-11-20T23:59:59Z", *_ROW[2:]), "earlier time"),
        ((*_ROW[:1], "yesterday", *_ROW[2:]), "does not have the form of an event"),
        ((*_ROW[:2], "opened", "", "", None, None, None, None, _NO_SUMS), "out of place"),
        ((*_ROW[:2], "given", *_ROW[3:]), "an unknown kind"),
        ((*_ROW[:2], "answered", *_ROW[3:]), "only a reservation may have"),
        ((*_ROW[:5], None, *_ROW[6:]), "not a whole number"),
        ((*_ROW[:5], 1.0, *_ROW[6:]), "not a whole number"),
        ((*_ROW[:5], True, *_ROW[6:]), "not a whole number"),
        ((*_ROW[:5], 2**63, *_ROW[6:]), "not a whole number"),
        ((*_ROW[:8], -1, _NO_SUMS), "not a whole number"),
        ((*_ROW[:9], _NO_SUMS.upper()), "what counts after it"),
        ((*_ROW[:9], None), "does not have the form of an event"),
    ],
)
def test_a_row_that_does_not_follow_is_refused(row: tuple[object, ...], why: str) -> None:
    (opened,) = _chain(_OPENED)
    good = (*_ROW, _hash(opened.hash, *_ROW[:5], _A, _NO_SUMS))
    assert next_event(opened, good).amount == _A
    with pytest.raises(LedgerError, match=why):
        next_event(opened, (*row, _hash(opened.hash, *row[:5], _A, row[9])))


def test_no_two_events_are_hashed_alike() -> None:
    texts = ["", "a", "ab", "b", '","', "[", "null", "0", "\0"]
    seen = {
        _hash("h", 1, "t", "reserved", ticket, analyst, amount, sums)
        for ticket in texts
        for analyst in texts
        for amount in (None, _A, _B, Amount(1, 0, 0), Amount(1, 0, None, 0), Amount(10))
        for sums in ("", "a")
    }
    assert len(seen) == len(texts) ** 2 * 6 * 2
