"""Lost, put back, swapped, cut off and changed: each is refused in a sentence, and none is answered."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dp_sql.budget import schema, store
from dp_sql.budget.amounts import Amount
from dp_sql.budget.checkpoint import Checkpoint, CheckpointFile
from dp_sql.budget.events import Event, Kind, Totals, new_event, next_event, origin
from dp_sql.budget.integrity import Tickets, adopt, verify
from dp_sql.budget.ledger import Ledger
from dp_sql.errors import LedgerError
from tests.budget.ledger_checks import (
    TENTH,
    admit_all,
    change_by_force,
    folder_in_memory,
    paths,
)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A ledger with three reservations, closed: seven events."""
    with Ledger(*paths(tmp_path), "readers") as ledger:
        for outcome in ("answered", "failed", "cancelled"):
            _ask(ledger, outcome)
    return paths(tmp_path)


def _ask(ledger: Ledger, outcome: str = "answered") -> None:
    (ticket,) = ledger.reserve("ann", [TENTH], admit_all)
    if outcome == "cancelled":
        ledger.cancel(ticket)
    else:
        ledger.settle(ticket, outcome)  # type: ignore[arg-type]


def _copy(path: Path, to: Path) -> None:
    """Put a ledger, with what SQLite keeps beside it, in the place of another."""
    for end in ("", "-wal", "-shm"):
        Path(f"{to}{end}").unlink(missing_ok=True)
        if Path(f"{path}{end}").exists():
            shutil.copy(f"{path}{end}", f"{to}{end}")


def _refused(files: tuple[Path, Path], why: str) -> None:
    """Neither for writing nor for reading is it opened, and nothing is made in its place."""
    before = sorted(file.name for file in files[0].parent.iterdir())
    for read_only in (False, True):
        with pytest.raises(LedgerError, match=why):
            Ledger(*files, read_only=read_only)
    after = {name for name in os.listdir(files[0].parent) if not name.endswith(("-wal", "-shm"))}
    assert after <= set(before)


def _goes_on(files: tuple[Path, Path], n: int) -> None:
    """It opens, n events long, and takes one reservation more."""
    with Ledger(*files) as ledger:
        assert len(list(ledger.events())) == n
        _ask(ledger)
    assert verify(*files) == n + 2


def test_a_ledger_that_is_missing_is_not_made_anew(files: tuple[Path, Path]) -> None:
    backup = files[0].rename(files[0].with_name("backup"))
    _refused(files, "is missing, though its checkpoint .* Restore it")
    backup.rename(files[0])
    _goes_on(files, 7)


def test_a_ledger_whose_log_alone_is_left_is_not_made_anew(files: tuple[Path, Path]) -> None:
    for file in files:
        file.unlink()
    Path(f"{files[0]}-wal").touch()
    with pytest.raises(LedgerError, match="SQLite's files next to it"):
        Ledger(*files)
    Path(f"{files[0]}-wal").unlink()
    Ledger(*files).close()
    _goes_on(files, 1)


def test_a_link_to_a_disk_that_is_not_there_is_no_place_for_a_new_ledger(tmp_path: Path) -> None:
    files = paths(tmp_path)
    files[0].symlink_to(tmp_path / "unmounted" / "ledger.sqlite")
    _refused(files, "is missing")


def test_a_checkpoint_that_is_missing_is_named_with_the_way_on(files: tuple[Path, Path]) -> None:
    files[1].unlink()
    _refused(files, "checkpoint .* is missing .*`dp-sql ledger checkpoint LEDGER`")
    with pytest.raises(LedgerError, match="dp-sql ledger checkpoint LEDGER"):
        verify(*files)
    assert adopt(*files) == 7
    _goes_on(files, 7)


def test_a_new_ledger_without_a_checkpoint_gets_one(tmp_path: Path) -> None:
    files = paths(tmp_path)
    Ledger(*files).close()
    files[1].unlink()
    with pytest.raises(LedgerError, match="is missing"):
        verify(*files)
    _goes_on(files, 1)
    assert CheckpointFile(files[1]).read() is not None


def test_another_programs_file_next_to_a_new_ledger_stays(tmp_path: Path) -> None:
    files = paths(tmp_path)
    others = [Path(f"{files[0]}{end}") for end in (".new", ".new-journal", ".new-wal")]
    for file in others:
        file.write_bytes(b"precious")
    Ledger(*files).close()
    assert [file.read_bytes() for file in others] == [b"precious"] * 3
    assert sorted(tmp_path.iterdir()) == sorted([*files, *others])
    _goes_on(files, 1)


def test_a_checkpoint_of_the_same_ledger_is_adopted_as_it_is(files: tuple[Path, Path]) -> None:
    before = files[1].read_bytes()
    assert adopt(*files) == 7
    assert files[1].read_bytes() == before


def test_a_damaged_ledger_is_not_adopted(files: tuple[Path, Path]) -> None:
    files[1].unlink()
    change_by_force(files[0], "UPDATE events SET epsilon = 1 WHERE number = 4")
    with pytest.raises(LedgerError, match="Event 4 of the ledger does not match its hash"):
        adopt(*files)
    assert not files[1].exists()


def test_a_damaged_checkpoint_is_refused_and_adopted_once_moved_away(
    files: tuple[Path, Path],
) -> None:
    files[1].write_bytes(b"?" * files[1].stat().st_size)
    _refused(files, "is damaged. Restore it; or, .* move it away")
    with pytest.raises(LedgerError, match="is damaged"):
        adopt(*files)
    files[1].unlink()
    adopt(*files)
    _goes_on(files, 7)


def test_an_older_copy_is_refused(files: tuple[Path, Path], tmp_path: Path) -> None:
    _copy(files[0], tmp_path / "copy")
    with Ledger(*files) as ledger:
        _ask(ledger)
        _copy(files[0], tmp_path / "newest")
    _copy(tmp_path / "copy", files[0])
    _refused(files, "older than its checkpoint: it ends with event 7, and event 8 was seen")
    with pytest.raises(LedgerError, match="older than its checkpoint"):
        verify(*files)
    with pytest.raises(LedgerError, match="older than its checkpoint"):
        adopt(*files)
    _copy(tmp_path / "newest", files[0])
    _goes_on(files, 9)


def test_a_copy_without_the_log_is_refused(files: tuple[Path, Path], tmp_path: Path) -> None:
    with Ledger(*files) as ledger:
        _ask(ledger)
        shutil.copy(files[0], tmp_path / "copy")  # what was asked last is in the log alone
    _copy(tmp_path / "copy", files[0])
    _refused(files, "older than its checkpoint")


def test_an_older_copy_that_went_on_elsewhere_is_refused(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    elsewhere = paths(tmp_path / "elsewhere")
    _copy(files[0], elsewhere[0])
    adopt(*elsewhere)
    for place in (files, elsewhere):
        with Ledger(*place) as ledger:
            _ask(ledger)
    _copy(elsewhere[0], files[0])
    _refused(files, "Event 8 of the ledger .* is not the one that its checkpoint saw")
    with pytest.raises(LedgerError, match=r"Event 8 .* checkpoint saw"):
        verify(*files)


def test_another_ledger_in_its_place_is_refused(files: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = paths(tmp_path / "other")
    Ledger(*other, "readers").close()
    _copy(other[0], files[0])
    _refused(files, "belongs to another ledger")
    with pytest.raises(LedgerError, match="another ledger"):
        verify(*files)


@pytest.mark.parametrize("checkpoint", ["ledger", "link", "ledger-wal", "ledger-shm"])
def test_one_file_cannot_be_both(checkpoint: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("ledger")
    with pytest.raises(LedgerError, match="checkpoint in a file of its own"):
        Ledger(tmp_path / "ledger", tmp_path / checkpoint)
    assert [file.name for file in tmp_path.iterdir()] == ["link"]


def test_a_ledger_with_a_second_name_is_refused(files: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / "ledger"
    with Ledger(*files) as ledger:
        os.link(files[0], other)
        with pytest.raises(LedgerError, match="has a second name"):
            _ask(ledger)
    for path in (files[0], other):
        _refused((path, files[1]), "has a second name .* Remove the other name")
        with pytest.raises(LedgerError, match="has a second name"):
            verify(path, files[1])
    other.unlink()
    _goes_on(files, 7)


def test_statistics_of_another_program_are_no_damage(files: tuple[Path, Path]) -> None:
    _by_hand(files[0], "ANALYZE")
    _goes_on(files, 7)
    _by_hand(
        files[0],
        "PRAGMA writable_schema = ON",
        "INSERT INTO sqlite_master VALUES ('table', 'sqlite_stat9', 'sqlite_stat9', 0, "
        "'CREATE TRIGGER t BEFORE INSERT ON events BEGIN SELECT RAISE(IGNORE); END')",
    )
    _refused(files, "is not a ledger of dp_sql|is damaged")


def test_a_ledger_where_no_lock_can_be_held_is_read_between_two_writings(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = store._checked

    def refuse(path: Path, how: str) -> sqlite3.Connection:
        if how == "mode=ro":
            error = sqlite3.OperationalError("unable to open database file")
            error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
            raise error
        return checked(path, how)

    monkeypatch.setattr(store, "_checked", refuse)
    with Ledger(*files, read_only=True) as reader:
        assert reader.spent().n == 2
        with Ledger(*files) as writer:
            _ask(writer)
            with pytest.raises(LedgerError, match="cannot be opened"):
                reader.spent()  # what is in the log cannot be seen
        assert reader.spent().n == 3
        with (
            pytest.raises(LedgerError, match=r"was written while it was read. Try again"),
            reader._file.transaction("DEFERRED"),
            Ledger(*files) as writer,
        ):
            _ask(writer)
        assert reader.spent().n == 4


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


@pytest.mark.parametrize(
    "content", [b"", b"\0", b"nonsense", b"\0" * 8192, b"SQLite format 3\0" + b"\0" * 4080]
)
def test_what_is_no_ledger_is_refused(content: bytes, files: tuple[Path, Path]) -> None:
    files[0].write_bytes(content)
    _refused(files, "is not a ledger|is damaged")
    assert files[0].read_bytes() == content


def test_a_folder_is_no_ledger(files: tuple[Path, Path]) -> None:
    files[0].unlink()
    files[0].mkdir()
    _refused(files, "cannot be|is not a ledger|is damaged")


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="cannot be read or written: No such file"):
        Ledger(*paths(tmp_path / "nowhere"))


def test_another_programs_database_is_refused(files: tuple[Path, Path]) -> None:
    files[0].unlink()
    con = sqlite3.connect(files[0])
    con.execute("CREATE TABLE events (number INTEGER PRIMARY KEY)")
    con.commit()
    con.close()
    _refused(files, "is not a ledger of dp_sql")


@pytest.mark.parametrize(
    "change",
    [
        "DROP TRIGGER events_stay",
        "DROP INDEX settled_once",
        "CREATE TRIGGER mine BEFORE INSERT ON events BEGIN SELECT RAISE(IGNORE); END",
        "CREATE TABLE more (x)",
        "PRAGMA application_id = 1",
    ],
)
def test_a_ledger_without_its_rules_is_refused(change: str, files: tuple[Path, Path]) -> None:
    _by_hand(files[0], change)
    _refused(files, "is not a ledger of dp_sql")


def test_a_ledger_of_a_later_version_is_refused(files: tuple[Path, Path]) -> None:
    _by_hand(files[0], "PRAGMA user_version = 2")
    _refused(files, "made by another version")


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE events SET epsilon = 0",
        "DELETE FROM events WHERE number = 7",
        "UPDATE ledger SET dataset = 'mine'",
        "DELETE FROM ledger",
        "INSERT INTO events SELECT 9, time, kind, 'x', analyst, 1, 1, 1, 1, sums, hash FROM events WHERE number = 2",
        "REPLACE INTO events SELECT 2, time, kind, ticket, analyst, 1, 0, 1, 1, sums, hash FROM events WHERE number = 2",
        "INSERT INTO events SELECT 8, time, kind, ticket, analyst, epsilon, delta, rho, bounded_range, sums, hash FROM events WHERE number = 3",
        "INSERT INTO events SELECT 8, time, kind, 'x', analyst, 0.5, 0, 1, 1, sums, hash FROM events WHERE number = 2",
        "INSERT INTO events SELECT 8, time, kind, 'x', analyst, -1, 0, 1, 1, sums, hash FROM events WHERE number = 2",
        "INSERT INTO events SELECT 8, time, 'given', 'x', analyst, 1, 0, 1, 1, sums, hash FROM events WHERE number = 2",
    ],
)
def test_the_file_itself_only_takes_events_at_its_end(
    change: str, files: tuple[Path, Path]
) -> None:
    with pytest.raises(sqlite3.IntegrityError):
        _by_hand(files[0], change)
    _goes_on(files, 7)


def test_a_file_cut_off_anywhere_is_refused(files: tuple[Path, Path]) -> None:
    whole = files[0].read_bytes()
    for length in [*range(0, len(whole), 1_024), len(whole) - 1]:
        files[0].write_bytes(whole[:length])
        _refused(files, "is damaged|is not a ledger")
    files[0].write_bytes(whole)
    _goes_on(files, 7)


def test_a_file_replaced_while_it_is_open_is_refused(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    shutil.copy(files[0], tmp_path / "copy")
    with Ledger(*files) as ledger:
        (tmp_path / "copy").rename(files[0])
        with pytest.raises(LedgerError, match="replaced while it was open"):
            _ask(ledger)
        files[0].unlink()
        with pytest.raises(LedgerError, match="is missing"):
            ledger.spent()


def test_a_checkpoint_lost_or_swapped_while_it_is_open_is_refused(files: tuple[Path, Path]) -> None:
    with Ledger(*files) as ledger:
        mine = files[1].read_bytes()
        files[1].unlink()
        with pytest.raises(LedgerError, match="is missing"):
            _ask(ledger)
        CheckpointFile(files[1]).advance(Checkpoint("another", 1, "hash"))
        with pytest.raises(LedgerError, match="belongs to another ledger"):
            _ask(ledger)
        files[1].write_bytes(mine)
        _ask(ledger)


def test_an_event_changed_while_it_is_open_is_refused(files: tuple[Path, Path]) -> None:
    with Ledger(*files) as ledger:
        change_by_force(
            files[0], "UPDATE events SET time = '2027-01-01T00:00:00Z' WHERE number = 7"
        )
        with pytest.raises(LedgerError, match="Event 7 of the ledger has changed"):
            ledger.spent()


def test_the_opening_checks_what_came_after_the_checkpoint(files: tuple[Path, Path]) -> None:
    change_by_force(files[0], "UPDATE events SET kind = 'answered' WHERE number = 7")
    _refused(files, "Event 7 of the ledger does not match its hash")


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
    _by_hand(
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
                _ask(ledger, outcome)
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


def test_a_check_of_the_newest_events_alone_misses_bytes() -> None:
    assert _missed(lambda *both: Ledger(*both, read_only=True).close(), bits=1, step=5) > 140


_ORIGIN = origin("id", "readers")
_A, _B = Amount(1), Amount(2, 3, 4, 5)
_NO_SUMS = Totals("2026-11").sums("")


def _chain(*events: tuple[Kind, str, str, Amount | None]) -> Iterator[Event]:
    """Events with true hashes, whatever they say."""
    last = _ORIGIN
    for kind, ticket, analyst, amount in events:
        last = new_event(
            last, kind, time="2026-11-21T00:00:00Z", ticket=ticket, analyst=analyst, amount=amount,
            sums=_NO_SUMS,
        )  # fmt: skip
        yield last


_OPENED: tuple[Kind, str, str, None] = ("opened", "", "", None)
_RESERVED: tuple[Kind, str, str, Amount] = ("reserved", "t", "ann", _A)
_ANSWERED: tuple[Kind, str, str, None] = ("answered", "t", "ann", None)


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
    events: list[tuple[Kind, str, str, Amount | None]], why: str
) -> None:
    tickets = Tickets()
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


def _by_hand(path: Path, *statements: str) -> None:
    """Another program at the file, as SQLite lets it."""
    con = sqlite3.connect(path, isolation_level=None)
    try:
        for statement in statements:
            con.execute(statement)
    finally:
        con.close()
