"""Ledgers lost, put back, swapped and cut off: each is refused with the way to go on."""

import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from dp_sql.budget import store
from dp_sql.budget.checkpoint import Checkpoint, CheckpointFile
from dp_sql.budget.integrity import adopt, verify
from dp_sql.budget.ledger import Ledger
from dp_sql.budget.schema import plain_errors
from dp_sql.errors import LedgerError
from tests.budget.ledger_checks import change_by_force, paths
from tests.budget.ledger_files import ask, by_hand


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
        ask(ledger)
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
        ask(ledger)
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
        ask(ledger)
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
            ask(ledger)
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
            ask(ledger)
    for path in (files[0], other):
        _refused((path, files[1]), "has a second name .* Remove the other name")
        with pytest.raises(LedgerError, match="has a second name"):
            verify(path, files[1])
    other.unlink()
    _goes_on(files, 7)


def test_statistics_of_another_program_are_no_damage(files: tuple[Path, Path]) -> None:
    by_hand(files[0], "ANALYZE")
    _goes_on(files, 7)
    by_hand(
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
            ask(writer)
            with pytest.raises(LedgerError, match="cannot be opened"):
                reader.spent()  # what is in the log cannot be seen
        assert reader.spent().n == 3
        with (
            pytest.raises(LedgerError, match=r"was written while it was read. Try again"),
            reader._file.transaction("DEFERRED"),
            Ledger(*files) as writer,
        ):
            ask(writer)
        assert reader.spent().n == 4


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


@pytest.mark.parametrize("code", [sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_WRITE])
def test_a_disk_that_may_be_full_is_named(code: int) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = code
    with pytest.raises(LedgerError, match="is its disk full"), plain_errors(Path("ledger.sqlite")):
        raise error


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
        "PRAGMA writable_schema = ON\nUPDATE sqlite_master SET sql = CAST(sql AS BLOB) WHERE rowid = 3",
    ],
)
def test_a_ledger_without_its_rules_is_refused(change: str, files: tuple[Path, Path]) -> None:
    by_hand(files[0], *change.splitlines())
    _refused(files, "is not a ledger of dp_sql")


def test_a_ledger_of_a_later_version_is_refused(files: tuple[Path, Path]) -> None:
    by_hand(files[0], "PRAGMA user_version = 2")
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
        by_hand(files[0], change)
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
            ask(ledger)
        files[0].unlink()
        with pytest.raises(LedgerError, match="is missing"):
            ledger.spent()


def test_a_checkpoint_lost_or_swapped_while_it_is_open_is_refused(files: tuple[Path, Path]) -> None:
    with Ledger(*files) as ledger:
        mine = files[1].read_bytes()
        files[1].unlink()
        with pytest.raises(LedgerError, match="is missing"):
            ask(ledger)
        CheckpointFile(files[1]).advance(Checkpoint("another", 1, "hash"))
        with pytest.raises(LedgerError, match="belongs to another ledger"):
            ask(ledger)
        files[1].write_bytes(mine)
        ask(ledger)


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
