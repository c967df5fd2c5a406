"""The second place: one mark that never goes back, whole at any moment."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

import pytest

from dp_sql.budget.checkpoint import Mark, Witness, _line
from dp_sql.errors import LedgerError

_HASHES = [f"{i:064x}" for i in range(100)]


def _mark(number: int, ledger_id: str = "a" * 32) -> Mark:
    return Mark(ledger_id, number, _HASHES[number])


@pytest.fixture
def witness(tmp_path: Path) -> Witness:
    return Witness(tmp_path / "witness")


def test_without_a_file_there_is_no_mark(witness: Witness) -> None:
    assert witness.read() is None
    assert not witness.path.exists()


def test_it_tells_the_newest_mark(witness: Witness) -> None:
    for number in (1, 2, 3, 7, 8):
        witness.advance(_mark(number))
        assert Witness(witness.path).read() == _mark(number)


def test_it_never_goes_back(witness: Witness) -> None:
    witness.advance(_mark(5))
    for number in (4, 1, 5):
        with pytest.raises(LedgerError, match="has seen event 5 already"):
            witness.advance(_mark(number))
        assert witness.read() == _mark(5)


def test_it_never_goes_back_between_threads(witness: Witness) -> None:

    def advance(numbers: Iterable[int]) -> None:
        for number in numbers:
            with suppress(LedgerError):
                witness.advance(_mark(number))

    threads = [threading.Thread(target=advance, args=[range(i, 80, 4)]) for i in range(1, 5)]
    for thread in threads:
        thread.start()
    seen = []
    while any(thread.is_alive() for thread in threads):
        mark = witness.read()
        seen.append(0 if mark is None else mark.number)
    assert seen == sorted(seen)
    assert witness.read() == _mark(79)


def test_it_takes_no_mark_of_another_ledger(witness: Witness) -> None:
    witness.advance(_mark(1))
    with pytest.raises(LedgerError, match="belongs to another ledger"):
        witness.advance(_mark(2, ledger_id="b" * 32))


def test_it_takes_no_other_hash_for_the_same_event(witness: Witness) -> None:
    witness.advance(_mark(3))
    with pytest.raises(LedgerError, match="another history"):
        witness.advance(Mark("a" * 32, 3, _HASHES[4]))


@pytest.mark.parametrize("marks", [0, 1, 2, 3])
def test_a_write_that_stops_at_any_byte_leaves_the_old_mark_or_the_new(
    marks: int, witness: Witness
) -> None:
    for number in range(1, marks + 1):
        witness.advance(_mark(number))
    before = witness.path.read_bytes() if marks else b""
    write, old, new = os.pwrite, _mark(marks) if marks else None, _mark(marks + 1)
    for length in [*range(200), 4095, 4096]:
        witness.path.write_bytes(before)
        with (
            patch.object(os, "pwrite", lambda f, data, at, n=length: write(f, data[:n], at)),
            patch("dp_sql.budget.checkpoint._SYNC", _killed),
            pytest.raises((LedgerError, _Killed)),
        ):
            witness.advance(new)
        # Blanks follow the mark as they did before, so a write may be whole before its end.
        whole = length == 4096 or _line(new) in witness.path.read_bytes()
        assert length or not whole
        assert witness.read() == (new if whole else old)
    witness.path.write_bytes(before)
    witness.advance(new)
    assert witness.read() == new


class _Killed(BaseException):
    pass


def _killed(file: int) -> None:
    raise _Killed


def test_a_changed_byte_never_makes_another_mark(witness: Witness) -> None:
    for number in (1, 2, 3):
        witness.advance(_mark(number))
    raw = witness.path.read_bytes()
    for i in [*range(200), 4095, *range(4096, 4296), 8191]:
        witness.path.write_bytes(raw[:i] + bytes([raw[i] ^ (1 << i % 8)]) + raw[i + 1 :])
        # The slot with the newest mark is the second; a torn write looks like damage to one slot.
        assert witness.read() == (_mark(2) if i >= 4096 else _mark(3))


@pytest.mark.parametrize("raw", [b"x" * 8192, b"\0" * 8191 + b"x", b"x" * 20_000])
def test_a_file_without_a_whole_mark_is_damaged(raw: bytes, witness: Witness) -> None:
    witness.path.write_bytes(raw)
    with pytest.raises(LedgerError, match="is damaged"):
        witness.read()
    with pytest.raises(LedgerError, match="is damaged"):
        witness.advance(_mark(1))
    assert witness.path.read_bytes() == raw


@pytest.mark.parametrize("length", [0, 1, 4096, 8191])
def test_a_file_cut_off_has_no_mark(length: int, witness: Witness) -> None:
    witness.advance(_mark(1))
    witness.advance(_mark(2))
    witness.path.write_bytes(witness.path.read_bytes()[:length])
    assert witness.read() is None


def test_a_file_that_cannot_be_read_is_an_error_and_not_missing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(LedgerError, match="cannot be read"):
        Witness(tmp_path / "folder").read()
    with pytest.raises(LedgerError, match="cannot be written"):
        Witness(tmp_path / "nowhere" / "witness").advance(_mark(1))


def test_who_holds_it_keeps_everybody_else_waiting(
    witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dp_sql.budget.checkpoint._PATIENCE", 0.02)
    witness.advance(_mark(1))
    other = Witness(witness.path)
    with witness.held() as held:
        assert held.mark == _mark(1)
        for act in (other.read, lambda: other.advance(_mark(2))):
            with pytest.raises(LedgerError, match="was held by another process"):
                act()
        held.advance(_mark(2))
        with pytest.raises(LedgerError, match="has seen event 2 already"):
            held.advance(_mark(2))
    assert other.read() == _mark(2)
    other.advance(_mark(3))


def test_it_is_not_made_where_one_must_be(witness: Witness) -> None:
    with pytest.raises(LedgerError, match="is missing"), witness.held():
        pass
    assert not witness.path.exists()
    with witness.held(make=True) as held:
        assert held.mark is None
        held.advance(_mark(1))
    assert witness.read() == _mark(1)


def test_a_file_put_in_its_place_while_it_is_held_takes_no_mark(
    witness: Witness, tmp_path: Path
) -> None:
    witness.advance(_mark(1))
    for replace in (lambda: (tmp_path / "copy").rename(witness.path), witness.path.unlink):
        (tmp_path / "copy").write_bytes(witness.path.read_bytes())
        with witness.held() as held, pytest.raises(LedgerError, match="was replaced"):
            replace()
            held.advance(_mark(2))
    (tmp_path / "copy").rename(witness.path)
    assert witness.read() == _mark(1)


def test_who_waited_for_a_file_that_is_gone_gets_the_one_in_its_place(
    witness: Witness, tmp_path: Path
) -> None:
    """Else two could hold it at once, each in a file of its own."""
    witness.advance(_mark(1))
    Witness(tmp_path / "copy").advance(_mark(2))
    found: list[Mark | None] = []
    thread = threading.Thread(target=lambda: found.append(Witness(witness.path).read()))
    with witness.held():
        thread.start()
        (tmp_path / "copy").rename(witness.path)
    thread.join()
    assert found == [_mark(2)]
