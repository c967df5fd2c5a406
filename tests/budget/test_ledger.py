"""The ledger as it is used: what counts, for whom, and when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_sql.budget import schema
from dp_sql.budget.amounts import Amount, Spent, amount_of, amounts_of
from dp_sql.budget.events import Event, Totals
from dp_sql.budget.integrity import verify
from dp_sql.budget.ledger import Ledger
from dp_sql.errors import BudgetExceeded, LedgerError
from dp_sql.udfs.mechanism import PrivacyLoss
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


class _Clock:
    """A clock that shows the time it is set to."""

    def __init__(self, text: str) -> None:
        self.now = datetime.fromisoformat(text)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(*paths(tmp_path), "readers") as ledger:
        yield ledger


def _one(ledger: Ledger, analyst: str = "ann", amount: Amount = TENTH) -> str:
    (ticket,) = ledger.reserve(analyst, [amount], admit_all)
    return ticket


def _kinds(ledger: Ledger, analyst: str | None = None) -> list[str]:
    return [event.kind for event in ledger.events(analyst)]


def test_a_tenth_three_times_is_three_tenths(ledger: Ledger) -> None:
    for _ in range(3):
        _one(ledger)
    assert ledger.spent().epsilon == 3 * 10**8
    assert Fraction(ledger.spent().epsilon, 10**9) == Fraction("0.3")


def test_a_reservation_counts_before_it_is_settled_and_after(ledger: Ledger) -> None:
    answered, failed = ledger.reserve("ann", [TENTH, TENTH], admit_all)
    assert ledger.spent().n == 2
    ledger.settle(answered, "answered")
    ledger.settle(failed, "failed")
    assert ledger.spent().n == 2
    assert _kinds(ledger) == ["opened", "reserved", "reserved", "answered", "failed"]


def test_what_is_cancelled_counts_no_longer(ledger: Ledger) -> None:
    wide = Amount(10**9, delta=5, rho=None, bounded_range=7 * 10**9)
    _one(ledger)
    before = ledger.spent()
    ticket = _one(ledger, amount=wide)
    assert ledger.spent() == before.plus(wide)
    ledger.cancel(ticket)
    assert ledger.spent() == before
    assert ledger.spent("ann") == before
    assert _kinds(ledger)[-1] == "cancelled"


@pytest.mark.parametrize("first", ["answered", "failed", "cancelled"])
@pytest.mark.parametrize("second", ["answered", "failed", "cancelled"])
def test_a_ticket_is_settled_once(first: str, second: str, ledger: Ledger) -> None:
    ticket = _one(ledger)
    _settle(ledger, ticket, first)
    with pytest.raises(LedgerError, match="settled or cancelled already"):
        _settle(ledger, ticket, second)
    assert ledger.spent().n == (first != "cancelled")


def _settle(ledger: Ledger, ticket: str, outcome: str) -> None:
    if outcome == "cancelled":
        ledger.cancel(ticket)
    else:
        ledger.settle(ticket, outcome)  # type: ignore[arg-type]


@pytest.mark.parametrize("ticket", ["", "0" * 32, "no ticket", "ä\0ö"])
def test_a_ticket_that_was_never_given_is_refused(ticket: str, ledger: Ledger) -> None:
    _one(ledger)
    for outcome in ("answered", "cancelled"):
        with pytest.raises(LedgerError, match="ever reserved under this ticket"):
            _settle(ledger, ticket, outcome)


def test_a_ticket_is_settled_as_answered_or_failed_only(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="answered or as failed"):
        ledger.settle(_one(ledger), "cancelled")  # type: ignore[arg-type]


def test_who_decides_sees_the_sums_with_what_is_asked_for(ledger: Ledger) -> None:
    seen: list[tuple[Spent, Spent]] = []
    wide = Amount(10**9, delta=3, rho=None, bounded_range=None)
    _one(ledger, "bob")
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
    assert _kinds(ledger) == ["opened", "reserved", "reserved"]
    ledger.reserve("ann", [Amount(5 * 10**7)], admit)


def test_a_fault_of_who_decides_is_not_hidden(ledger: Ledger) -> None:
    def admit(*sums: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ledger.reserve("ann", [TENTH], admit)
    assert _kinds(ledger) == ["opened"]
    _one(ledger)


def test_nothing_asked_for_costs_nothing(ledger: Ledger) -> None:
    assert ledger.reserve("ann", [], admit_all) == ()
    assert _kinds(ledger) == ["opened"]


def test_tickets_are_long_and_never_the_same(ledger: Ledger) -> None:
    tickets = ledger.reserve("ann", [TENTH] * 50, admit_all)
    assert len(set(tickets)) == 50
    assert {len(ticket) for ticket in tickets} == {32}


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
    assert _kinds(ledger) == ["opened"]


def test_sums_may_be_larger_than_what_one_number_holds(tmp_path: Path) -> None:
    most = 2**63 - 1
    with Ledger(*paths(tmp_path)) as ledger:
        ledger.reserve("ann", [Amount(most, most, most, most)] * 5, admit_all)
        live = ledger.spent()
    with Ledger(*paths(tmp_path)) as ledger:
        assert ledger.spent() == live == Spent(5, 5 * most, 5 * most, 5 * most, 5, 5, most)


@pytest.mark.parametrize("analyst", ["", "Zoë", "o'brien; --", "5", "名", "x" * 10_000])
def test_any_string_is_a_valid_analyst(analyst: str, ledger: Ledger) -> None:
    _one(ledger, analyst)
    _one(ledger, analyst + "2")
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
            _one(ledger, name)
        assert _kinds(ledger) == ["opened"]
        with pytest.raises(LedgerError, match=r"ever reserved|plain str|UTF-8"):
            ledger.settle(name, "answered")
        _one(ledger, "bob")
    with Ledger(*paths(tmp_path)) as ledger:
        assert ledger.analysts() == ["bob"]
    assert verify(*paths(tmp_path)) == 2


def test_a_ticket_is_settled_by_its_name_alone(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("uuid.uuid4", lambda: SimpleNamespace(hex="5"))
    assert _one(ledger) == "5"
    for ticket in (5, _Name("5")):
        with pytest.raises(LedgerError, match="must be a plain str"):
            ledger.settle(ticket, "answered")  # type: ignore[arg-type]
    ledger.settle("5", "answered")
    assert _kinds(ledger) == ["opened", "reserved", "answered"]


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
            _one(ledger)
        assert _kinds(ledger) == ["opened"]
        assert ledger.spent() == Spent()
    _one(ledger)


def test_a_name_that_slips_through_the_check_is_taken_back(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite writes 5 as a string, which is not what was hashed."""
    monkeypatch.setattr("dp_sql.budget.events.check_text", lambda text: None)
    monkeypatch.setattr("dp_sql.budget.ledger.check_text", lambda text: None)
    with pytest.raises(LedgerError, match="Event 2 of the ledger does not match its hash"):
        _one(ledger, 5)  # type: ignore[arg-type]
    assert _kinds(ledger) == ["opened"]
    _one(ledger)


def test_an_analysts_events_are_those_of_the_own_tickets(ledger: Ledger) -> None:
    for analyst in ("ann", "bob"):
        ledger.settle(_one(ledger, analyst), "answered")
    assert _kinds(ledger, "bob") == ["reserved", "answered"]
    assert [event.number for event in ledger.events("bob")] == [4, 5]
    assert ledger.analysts() == ["ann", "bob"]


def test_many_events_are_read_a_few_at_a_time_in_order(ledger: Ledger) -> None:
    ledger.reserve("ann", [TENTH] * 1_200, admit_all)
    events = ledger.events()
    assert next(events).kind == "opened"
    _one(ledger, "bob")  # an open iterator blocks no writer
    assert [event.number for event in events] == list(range(2, 1_203))


def test_an_event_says_when_and_how_much(tmp_path: Path) -> None:
    clock = _Clock("2026-11-21T20:30:05.999+01:00")
    with Ledger(*paths(tmp_path), clock=clock) as ledger:
        ticket = _one(ledger)
        last = list(ledger.events())[-1]
    time = "2026-11-21T19:30:05Z"
    assert last == Event(2, time, "reserved", ticket, "ann", TENTH, last.sums, last.hash)


def test_two_open_ledgers_see_what_the_other_wrote(tmp_path: Path) -> None:
    with Ledger(*paths(tmp_path)) as one, Ledger(*paths(tmp_path)) as other:
        ticket = _one(one)
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
    assert not list(tmp_path.iterdir())
    with Ledger(*paths(tmp_path)) as writer:
        ticket = _one(writer)
        with Ledger(*paths(tmp_path), read_only=True) as reader:
            assert reader.spent() == writer.spent()
            for act in (
                lambda: _one(reader),
                lambda: reader.settle(ticket, "answered"),
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
        _one(ledger)
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
            _one(other)
        _one(other)
        assert one.spent().n == 1


def test_a_month_begins_with_the_whole_budget(tmp_path: Path) -> None:
    clock = _Clock("2026-11-30T23:59:59+00:00")
    with Ledger(*paths(tmp_path), monthly=True, clock=clock) as ledger:
        late = _one(ledger)
        assert ledger.spent().n == 1
        clock.now += timedelta(seconds=1)
        assert ledger.spent() == ledger.spent("ann") == Spent()
        _one(ledger)
        assert ledger.spent().n == 1
        ledger.cancel(late)  # of November; December has nothing back
        assert ledger.spent().n == 1
    with Ledger(*paths(tmp_path), clock=clock) as ledger:
        assert ledger.spent().n == 1  # without a period, both months less the cancelled
    assert verify(*paths(tmp_path)) == 4


def test_the_month_is_that_of_utc(tmp_path: Path) -> None:
    clock = _Clock("2026-12-01T00:30:00+01:00")
    with Ledger(*paths(tmp_path), monthly=True, clock=clock) as ledger:
        _one(ledger)
        clock.now = datetime.fromisoformat("2026-11-30T23:30:00+00:00")
        assert ledger.spent().n == 1


def test_a_clock_set_back_brings_no_budget_back(tmp_path: Path) -> None:
    clock = _Clock("2026-10-05T12:00:00+00:00")
    with Ledger(*paths(tmp_path), monthly=True, clock=clock) as ledger:
        clock.now = datetime(2026, 11, 5, tzinfo=UTC)
        _one(ledger)
        for back in ("2026-10-31", "2026-09-01", "1999-01-01"):
            clock.now = datetime.fromisoformat(back + "T00:00:00+00:00")
            assert ledger.spent().n > 0
            _one(ledger)
        assert ledger.spent().n == 4
        assert {event.time[:7] for event in ledger.events("ann")} == {"2026-11"}
    assert verify(*paths(tmp_path)) == 5


def test_looking_ahead_with_a_wrong_clock_forgets_nothing(tmp_path: Path) -> None:
    clock = _Clock("2026-11-05T12:00:00+00:00")
    with Ledger(*paths(tmp_path), monthly=True, clock=clock) as ledger:
        _one(ledger)
        clock.now = datetime(2027, 3, 1, tzinfo=UTC)
        assert ledger.spent().n == 0
        clock.now = datetime(2026, 11, 6, tzinfo=UTC)
        assert ledger.spent().n == 1


_AMOUNTS = st.builds(
    Amount,
    st.integers(1, 5) | st.just(2**63 - 1),
    st.sampled_from([0, 3, 10**17]),
    st.sampled_from([None, 1, 2**63 - 1]),
    st.sampled_from([None, 0, 1, 2, 3]),
)
_ACTS = st.tuples(
    st.sampled_from([0, 1]),  # which of two open ledgers
    st.sampled_from(["reserve", "reserve", "cancel", "fail", "look"]),
    st.sampled_from(["ann", "bob"]),
    st.lists(_AMOUNTS, min_size=1, max_size=2),
    st.integers(-20, 40),  # days that pass, or by which a clock is set back
)


@given(st.lists(_ACTS, min_size=1, max_size=12), st.booleans())
@settings(max_examples=25, deadline=None)
def test_sums_are_those_of_a_plain_list(
    acts: list[tuple[int, str, str, list[Amount], int]], monthly: bool
) -> None:
    """Two ledgers of one file, and one opened afresh, agree with a list that is added up."""
    clock = _Clock("2026-11-15T00:00:00+00:00")
    listed: dict[str, tuple[str, str, Amount]] = {}
    last = "2026-11"
    with TemporaryDirectory() as name:
        files = paths(Path(name))
        with (
            Ledger(*files, monthly=monthly, clock=clock) as one,
            Ledger(*files, monthly=monthly, clock=clock) as other,
        ):
            both = (one, other)
            unsettled: list[str] = []
            for which, act, analyst, amounts, days in acts:
                clock.now += timedelta(days=days)
                month = max(f"{clock.now:%Y-%m}", last)
                if act == "reserve":
                    tickets = both[which].reserve(analyst, amounts, admit_all)
                    listed |= {
                        t: (month, analyst, a) for t, a in zip(tickets, amounts, strict=True)
                    }
                    unsettled += tickets
                    last = month
                elif act in {"cancel", "fail"} and unsettled:
                    ticket = unsettled.pop(which) if len(unsettled) > which else unsettled.pop()
                    _settle(both[which], ticket, "cancelled" if act == "cancel" else "failed")
                    if act == "cancel":
                        del listed[ticket]
                    last = month
                for who in (None, "ann", "bob"):
                    counted = Spent()
                    for when, whose, amount in listed.values():
                        if who in {None, whose} and (when == month or not monthly):
                            counted = counted.plus(amount)
                    assert both[which].spent(who) == counted
            with Ledger(*files, monthly=monthly, clock=clock) as fresh:
                assert fresh.spent() == one.spent() == other.spent()
                assert fresh.analysts() == one.analysts() == other.analysts()
        verify(*files)


def test_an_interrupt_while_adding_up_leaves_no_half_sum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger(*paths(tmp_path)) as one, Ledger(*paths(tmp_path)) as other:
        ticket, _ = one.reserve("ann", [TENTH, TENTH], admit_all)
        assert other.spent().n == 2
        one.cancel(ticket)
        count = Totals.count

        def interrupted(totals: Totals, *event: object) -> None:
            count(totals, *event)  # type: ignore[arg-type]
            raise KeyboardInterrupt

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(Totals, "count", interrupted)
            other.spent()
        assert other.spent() == one.spent() == Spent().plus(TENTH)


def test_adding_up_reads_one_index_from_end_to_end_and_sorts_nothing(ledger: Ledger) -> None:
    """In the order of tickets, or with a sort, a million events would take seconds."""
    with ledger._file.transaction("DEFERRED") as con:
        plan = con.execute(f"EXPLAIN QUERY PLAN {schema.RESERVED}", ("",)).fetchall()
    (step,) = [step for *_, step in plan]
    assert step.startswith("SCAN")
    assert step.endswith("USING COVERING INDEX amounts")


def test_what_an_accountant_needs_is_added_up(ledger: Ledger) -> None:
    _one(ledger, amount=amount_of(PrivacyLoss(Fraction(1), bounded_range=Fraction(1))))
    _one(ledger, amount=amount_of(PrivacyLoss(Fraction(1, 2), Fraction(1, 10**6))))
    assert ledger.spent() == Spent(2, 15 * 10**8, 10**12, 5 * 10**11, 1, 2, 10**9)


def test_the_slack_of_an_approximate_rho_is_added_up_live_and_from_the_rows(
    tmp_path: Path,
) -> None:
    half = Fraction(1, 2 * 10**6)
    amounts = amounts_of(PrivacyLoss(Fraction(1, 2), 2 * half, approximate=(half, half)))
    most = 2**63 - 1
    with Ledger(*paths(tmp_path)) as ledger:
        ledger.reserve("ann", [*amounts, TENTH], admit_all)
        _one(ledger, "bob", Amount(0, most, 0))  # the rho is known, so this is no slack
        cancelled = ledger.reserve("bob", [*amounts, Amount(0, most)], admit_all)
        for ticket in cancelled:
            ledger.cancel(ticket)
        live = ledger.spent(), ledger.spent("ann"), ledger.spent("bob")
    assert live[1] == Spent().plus(*amounts, TENTH)
    assert (live[1].slack, live[1].with_rho, live[2].slack) == (5 * 10**11, 3, 0)
    with Ledger(*paths(tmp_path)) as ledger:
        assert (ledger.spent(), ledger.spent("ann"), ledger.spent("bob")) == live
    verify(*paths(tmp_path))


def test_slack_that_moves_to_a_loss_with_a_known_rho_is_noticed() -> None:
    """All other sums stay the same."""
    right, moved = Totals("2026-11"), Totals("2026-11")
    for totals, deltas in ((right, (3, 5)), (moved, (5, 3))):
        for amount in (Amount(1, deltas[0], 1), Amount(0, deltas[1])):
            totals.count("2026-11", "ann", amount, None)
    assert right.spent()._replace(slack=0) == moved.spent()._replace(slack=0)
    assert right.sums("ann") != moved.sums("ann")


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
            _one(ledger)
            assert ledger.path == tmp_path / "disk" / "ledger"
            assert (tmp_path / "disk" / "ledger-wal").exists()
    assert verify(tmp_path / "link", tmp_path / "checkpoint") == 4
    assert sorted(file.name for file in tmp_path.iterdir()) == ["checkpoint", "disk", "link"]
