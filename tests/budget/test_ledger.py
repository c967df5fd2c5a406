"""The ledger as it is used: what counts, for whom, and what a ledger must do."""

from fractions import Fraction
from pathlib import Path

import pytest

from dp_sql.budget.amounts import Amount, Spent
from dp_sql.budget.events import Event
from dp_sql.budget.integrity import verify
from dp_sql.budget.ledger import Ledger
from dp_sql.errors import BudgetExceeded, LedgerError
from tests.budget.ledger_checks import (
    TENTH,
    AnswersFirst,
    BelievesItsRows,
    Refunds,
    SkipsItsCheckpoint,
    admit_all,
    at_most,
    check_that_answers_are_counted,
    check_that_backups_are_refused,
    check_that_changed_rows_are_noticed,
    check_that_failures_cost,
    paths,
)
from tests.budget.ledger_use import Clock, kinds, reserve_one, settle


def test_a_tenth_three_times_is_three_tenths(ledger: Ledger) -> None:
    for _ in range(3):
        reserve_one(ledger)
    assert ledger.spent().epsilon == 3 * 10**8
    assert Fraction(ledger.spent().epsilon, 10**9) == Fraction("0.3")


def test_a_reservation_counts_before_it_is_settled_and_after(ledger: Ledger) -> None:
    answered, failed = ledger.reserve("ann", [TENTH, TENTH], admit_all)
    assert ledger.spent().n == 2
    ledger.settle({answered: "answered"})
    ledger.settle({failed: "failed"})
    assert ledger.spent().n == 2
    assert kinds(ledger) == ["opened", "reserved", "reserved", "answered", "failed"]


def test_what_is_cancelled_counts_no_longer(ledger: Ledger) -> None:
    wide = Amount(10**9, delta=5, rho=None, bounded_range=7 * 10**9)
    reserve_one(ledger)
    before = ledger.spent()
    ticket = reserve_one(ledger, amount=wide)
    assert ledger.spent() == before.plus(wide)
    ledger.cancel(ticket)
    assert ledger.spent() == before
    assert ledger.spent("ann") == before
    assert kinds(ledger)[-1] == "cancelled"


@pytest.mark.parametrize("first", ["answered", "failed", "cancelled"])
@pytest.mark.parametrize("second", ["answered", "failed", "cancelled"])
def test_a_ticket_is_settled_once(first: str, second: str, ledger: Ledger) -> None:
    ticket = reserve_one(ledger)
    settle(ledger, ticket, first)
    with pytest.raises(LedgerError, match="settled or cancelled already"):
        settle(ledger, ticket, second)
    assert ledger.spent().n == (first != "cancelled")


@pytest.mark.parametrize("ticket", ["", "0" * 32, "no ticket", "ä\0ö"])
def test_a_ticket_that_was_never_given_is_refused(ticket: str, ledger: Ledger) -> None:
    reserve_one(ledger)
    for outcome in ("answered", "cancelled"):
        with pytest.raises(LedgerError, match="ever reserved under this ticket"):
            settle(ledger, ticket, outcome)


def test_a_ticket_is_settled_as_answered_or_failed_only(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="answered or as failed"):
        ledger.settle({reserve_one(ledger): "cancelled"})  # type: ignore[arg-type]


def test_several_tickets_are_settled_together_or_none_is(ledger: Ledger) -> None:
    first, second, third = (reserve_one(ledger) for _ in range(3))
    ledger.settle({first: "answered", second: "failed"})
    with pytest.raises(LedgerError, match="settled or cancelled already"):
        ledger.settle({third: "answered", first: "answered"})
    assert kinds(ledger)[-2:] == ["answered", "failed"]
    ledger.settle({third: "answered"})


def test_who_decides_sees_the_sums_with_what_is_asked_for(ledger: Ledger) -> None:
    seen: list[tuple[Spent, Spent]] = []
    wide = Amount(10**9, delta=3, rho=None, bounded_range=None)
    reserve_one(ledger, "bob")
    ledger.reserve("ann", [TENTH, wide], lambda *sums: seen.append(sums))
    of_ann = Spent().plus(TENTH).plus(wide)
    of_all = Spent().plus(TENTH).plus(TENTH).plus(wide)
    assert seen == [(of_all, of_ann)]
    assert (ledger.spent(), ledger.spent("ann")) == seen[0]


def test_what_is_not_admitted_leaves_no_trace(ledger: Ledger) -> None:
    admit = at_most(25 * 10**7)
    ledger.reserve("ann", [TENTH, TENTH], admit)
    with pytest.raises(BudgetExceeded):
        ledger.reserve("ann", [TENTH], admit)
    assert ledger.spent().n == 2
    assert kinds(ledger) == ["opened", "reserved", "reserved"]
    ledger.reserve("ann", [Amount(5 * 10**7)], admit)


def test_a_fault_of_who_decides_is_not_hidden(ledger: Ledger) -> None:
    def admit(*sums: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ledger.reserve("ann", [TENTH], admit)
    assert kinds(ledger) == ["opened"]
    reserve_one(ledger)


def test_nothing_asked_for_costs_nothing(ledger: Ledger) -> None:
    assert ledger.reserve("ann", [], admit_all) == ()
    assert kinds(ledger) == ["opened"]


def test_tickets_are_long_and_never_the_same(ledger: Ledger) -> None:
    tickets = ledger.reserve("ann", [TENTH] * 50, admit_all)
    assert len(set(tickets)) == 50
    assert {len(ticket) for ticket in tickets} == {32}


def test_an_analysts_events_are_those_of_the_own_tickets(ledger: Ledger) -> None:
    for analyst in ("ann", "bob"):
        ledger.settle({reserve_one(ledger, analyst): "answered"})
    assert kinds(ledger, "bob") == ["reserved", "answered"]
    assert [event.number for event in ledger.events("bob")] == [4, 5]
    assert ledger.analysts() == ["ann", "bob"]


def test_many_events_are_read_a_few_at_a_time_in_order(ledger: Ledger) -> None:
    ledger.reserve("ann", [TENTH] * 1_200, admit_all)
    events = ledger.events()
    assert next(events).kind == "opened"
    reserve_one(ledger, "bob")  # an open iterator blocks no writer
    assert [event.number for event in events] == list(range(2, 1_203))


def test_an_event_says_when_and_how_much(tmp_path: Path) -> None:
    clock = Clock("2026-11-21T20:30:05.999+01:00")
    with Ledger(*paths(tmp_path), clock=clock) as ledger:
        ticket = reserve_one(ledger)
        last = list(ledger.events())[-1]
    time = "2026-11-21T19:30:05Z"
    assert last == Event(2, time, "reserved", ticket, "ann", TENTH, last.sums, last.hash)


def test_two_open_ledgers_see_what_the_other_wrote(tmp_path: Path) -> None:
    with Ledger(*paths(tmp_path)) as one, Ledger(*paths(tmp_path)) as other:
        ticket = reserve_one(one)
        assert other.spent() == one.spent() == Spent().plus(TENTH)
        other.cancel(ticket)
        assert other.spent() == one.spent() == Spent()
        assert one.analysts() == other.analysts() == ["ann"]


def test_a_ledger_keeps_the_name_of_its_dataset(tmp_path: Path) -> None:
    Ledger(*paths(tmp_path), "readers").close()
    with Ledger(*paths(tmp_path)) as ledger:
        assert ledger.dataset == "readers"
    with pytest.raises(LedgerError, match='the budget of "readers", and the policy names "sales"'):
        Ledger(*paths(tmp_path), "sales")


def test_a_new_ledger_without_a_name_is_called_like_its_file(tmp_path: Path) -> None:
    with Ledger(*paths(tmp_path)) as ledger:
        assert ledger.dataset == "ledger"


def test_a_ledger_for_reading_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="There is no ledger"):
        Ledger(*paths(tmp_path), read_only=True)
    with pytest.raises(LedgerError, match="There is no ledger"):
        verify(*paths(tmp_path))
    assert not list(tmp_path.iterdir())
    with Ledger(*paths(tmp_path)) as writer:
        ticket = reserve_one(writer)
        with Ledger(*paths(tmp_path), read_only=True) as reader:
            assert reader.spent() == writer.spent()
            for act in (
                lambda: reserve_one(reader),
                lambda: reader.settle({ticket: "answered"}),
                lambda: reader.cancel(ticket),
            ):
                with pytest.raises(LedgerError, match="read-only"):
                    act()


def test_a_closed_ledger_says_so(tmp_path: Path) -> None:
    ledger = Ledger(*paths(tmp_path))
    ledger.close()
    ledger.close()
    with pytest.raises(LedgerError, match="was closed"):
        ledger.spent()


def test_paths_may_be_relative_and_odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Ledger(Path("bo ok?mode=memory#%41.sqlite"), Path("wit ness")) as ledger:
        monkeypatch.chdir("/")
        reserve_one(ledger)
    assert (tmp_path / "bo ok?mode=memory#%41.sqlite").stat().st_size > 4096
    assert (tmp_path / "wit ness").exists()


def test_every_commit_waits_for_the_disk(ledger: Ledger) -> None:
    with ledger._file.transaction("DEFERRED") as con:
        assert con.execute("PRAGMA synchronous").fetchone() == (2,)
        assert con.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_ledger_held_by_another_for_too_long_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dp_sql.budget.store._PATIENCE", 0.05)
    with Ledger(*paths(tmp_path)) as one, Ledger(*paths(tmp_path)) as other:
        with (
            one._file.transaction("IMMEDIATE"),
            pytest.raises(LedgerError, match="locked by another process"),
        ):
            reserve_one(other)
        reserve_one(other)
        assert one.spent().n == 1


def test_a_ledger_does_what_every_ledger_must(tmp_path: Path) -> None:
    for i, check in enumerate(_CHECKS):
        (tmp_path / str(i)).mkdir()
        check(Ledger, tmp_path / str(i))


_CHECKS = (
    check_that_answers_are_counted,
    check_that_failures_cost,
    check_that_backups_are_refused,
    check_that_changed_rows_are_noticed,
)


def test_a_ledger_that_answers_before_it_reserves_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        check_that_answers_are_counted(AnswersFirst, tmp_path)


def test_a_ledger_that_refunds_failures_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        check_that_failures_cost(Refunds, tmp_path)


def test_a_ledger_that_skips_its_checkpoint_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        check_that_backups_are_refused(SkipsItsCheckpoint, tmp_path)


def test_a_ledger_that_believes_its_rows_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no one noticed"):
        check_that_changed_rows_are_noticed(BelievesItsRows, tmp_path)


def test_a_ledger_knows_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "ledger")
    Ledger(tmp_path / "disk" / "ledger", tmp_path / "checkpoint").close()
    monkeypatch.chdir(tmp_path)
    for name in ("link", "disk/ledger", "disk/../link"):
        with Ledger(Path(name), Path("checkpoint")) as ledger:
            reserve_one(ledger)
            assert ledger.path == tmp_path / "disk" / "ledger"
            assert (tmp_path / "disk" / "ledger-wal").exists()
    assert verify(tmp_path / "link", tmp_path / "checkpoint") == 4
    assert sorted(file.name for file in tmp_path.iterdir()) == ["checkpoint", "disk", "link"]
