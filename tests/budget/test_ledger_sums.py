"""Sums of a ledger: by the month, in every order of events, and as an accountant needs them."""

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_sql.budget import schema
from dp_sql.budget.amounts import Amount, Spent, amount_of, amounts_of
from dp_sql.budget.integrity import verify
from dp_sql.budget.ledger import Ledger
from dp_sql.budget.totals import Totals
from dp_sql.udfs.mechanism import PrivacyLoss
from tests.budget.ledger_checks import TENTH, admit_all, paths
from tests.budget.ledger_use import Clock, reserve_one, settle


def test_a_month_begins_with_the_whole_budget(tmp_path: Path) -> None:
    clock = Clock("2026-11-30T23:59:59+00:00")
    with Ledger(*paths(tmp_path), monthly=True, clock=clock) as ledger:
        late = reserve_one(ledger)
        assert ledger.spent().n == 1
        clock.now += timedelta(seconds=1)
        assert ledger.spent() == ledger.spent("ann") == Spent()
        reserve_one(ledger)
        assert ledger.spent().n == 1
        ledger.cancel(late)  # of November; December has nothing back
        assert ledger.spent().n == 1
    with Ledger(*paths(tmp_path), clock=clock) as ledger:
        assert ledger.spent().n == 1  # without a period, both months less the cancelled
    assert verify(*paths(tmp_path)) == 4


def test_the_month_is_that_of_utc(tmp_path: Path) -> None:
    clock = Clock("2026-12-01T00:30:00+01:00")
    with Ledger(*paths(tmp_path), monthly=True, clock=clock) as ledger:
        reserve_one(ledger)
        clock.now = datetime.fromisoformat("2026-11-30T23:30:00+00:00")
        assert ledger.spent().n == 1


def test_a_clock_set_back_brings_no_budget_back(tmp_path: Path) -> None:
    clock = Clock("2026-10-05T12:00:00+00:00")
    with Ledger(*paths(tmp_path), monthly=True, clock=clock) as ledger:
        clock.now = datetime(2026, 11, 5, tzinfo=UTC)
        reserve_one(ledger)
        for back in ("2026-10-31", "2026-09-01", "1999-01-01"):
            clock.now = datetime.fromisoformat(back + "T00:00:00+00:00")
            assert ledger.spent().n > 0
            reserve_one(ledger)
        assert ledger.spent().n == 4
        assert {event.time[:7] for event in ledger.events("ann")} == {"2026-11"}
    assert verify(*paths(tmp_path)) == 5


def test_looking_ahead_with_a_wrong_clock_forgets_nothing(tmp_path: Path) -> None:
    clock = Clock("2026-11-05T12:00:00+00:00")
    with Ledger(*paths(tmp_path), monthly=True, clock=clock) as ledger:
        reserve_one(ledger)
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
    clock = Clock("2026-11-15T00:00:00+00:00")
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
                    settle(both[which], ticket, "cancelled" if act == "cancel" else "failed")
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
        plan = con.execute(f"EXPLAIN QUERY PLAN {schema.RESERVED_SUMS}", ("",)).fetchall()
    (step,) = [step for *_, step in plan]
    assert step.startswith("SCAN")
    assert step.endswith("USING COVERING INDEX amounts")


def test_what_an_accountant_needs_is_added_up(ledger: Ledger) -> None:
    reserve_one(ledger, amount=amount_of(PrivacyLoss(Fraction(1), bounded_range=Fraction(1))))
    reserve_one(ledger, amount=amount_of(PrivacyLoss(Fraction(1, 2), Fraction(1, 10**6))))
    assert ledger.spent() == Spent(2, 15 * 10**8, 10**12, 5 * 10**11, 1, 2, 10**9)


def test_the_slack_of_an_approximate_rho_is_added_up_live_and_from_the_rows(
    tmp_path: Path,
) -> None:
    half = Fraction(1, 2 * 10**6)
    amounts = amounts_of(PrivacyLoss(Fraction(1, 2), 2 * half, approximate=(half, half)))
    most = 2**63 - 1
    with Ledger(*paths(tmp_path)) as ledger:
        ledger.reserve("ann", [*amounts, TENTH], admit_all)
        reserve_one(ledger, "bob", Amount(0, most, 0))  # the rho is known, so this is no slack
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
