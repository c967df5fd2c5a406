"""Several calls of a SELECT share the groups that a mechanism finds: one draw, one delta."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dp_sql
from dp_sql.errors import ArgumentError, BudgetExceeded, InternalError, NotSupported
from dp_sql.privacy.plans import groups
from dp_sql.privacy.plans.plan import Plan, loss_at
from dp_sql.privacy.private_sql import bundles as grouped_plans
from dp_sql.sql.statement import parse
from dp_sql.udfs.groups import chosen_selection, partition_selection
from tests.conftest import SURE
from tests.session.test_found_groups import TOWNS, of_towns
from tests.session.visits import rows

MORE = "ALTER TABLE towns ADD COLUMN minutes INTEGER; UPDATE towns SET minutes = user_id % 50;"
CALLS = [
    "DP_COUNT(*, {})", "DP_AVG(minutes, {})", "DP_MEDIAN(minutes, {}, lower := 0, upper := 50)",
    "DP_COUNT_DISTINCT(user_id, {})", "DP_COUNT_DISTINCT(kind, {})",
]  # fmt: skip
DELTA = "delta := 1e-6"


def asked(calls: list[str], epsilon: str, with_delta: set[int], unit: str) -> str:
    given = (f"{epsilon}{unit}{', ' + DELTA if i in with_delta else ''}" for i in range(len(calls)))
    listed = ", ".join(one.format(more) for one, more in zip(calls, given, strict=True))
    return f"SELECT town, {listed} FROM towns GROUP BY town"


@pytest.fixture(scope="module")
def towns() -> Iterator[dp_sql.Session]:
    with dp_sql.connect() as session:
        session.execute(TOWNS + MORE)
        yield session


def finding_instead(patch: pytest.MonkeyPatch, run: Any) -> None:
    mechanism = replace(chosen_selection.CHOSEN_SELECTION, run=run)
    patch.setattr(groups, "REGISTRY", {"groups": {"chosen_selection": mechanism}})


@pytest.mark.one_in(3)
@pytest.mark.parametrize("with_delta", [{0}, {2}, {0, 1, 2, 3, 4}])
def test_the_groups_are_found_once_and_paid_by_the_first_call(
    towns: dp_sql.Session, monkeypatch: pytest.MonkeyPatch, with_delta: set[int]
) -> None:
    runs = []

    def run(items: Any, people: Any, **public: Any) -> list[int]:
        runs.append(public)
        places = chosen_selection.chosen_selection(items, people, **public)
        return places if len(runs) == 1 else []

    finding_instead(monkeypatch, run)
    before = len(towns.receipts)
    found = rows(towns, asked(CALLS, SURE, with_delta, ", privacy_unit := user_id"))
    assert [town for town, *_ in found] == ["big", "many"]
    assert [row[4] for row in found] == [300, 400]
    assert [row[5] for row in found] == [1, 3]
    losses = [receipt.loss for receipt in towns.receipts[before:]]
    assert [loss.epsilon for loss in losses] == [10_000] * 5
    assert [loss.delta for loss in losses] == [Fraction(1, 10**6), 0, 0, 0, 0]
    (public,) = runs
    price = chosen_selection.loss(**public)
    assert (price.epsilon, price.delta) == (5_000, losses[0].delta)
    assert losses[0].approximate is not None and price.approximate is not None
    assert losses[0].approximate[1] == price.approximate[1], "zcdp and pld count what was run"
    assert losses[0].approximate[0] > price.approximate[0]
    assert all(loss.rho is not None for loss in losses[1:])


def test_the_rows_of_any_call_find_groups(
    towns: dp_sql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = asked(CALLS[:2], SURE, {0}, ", privacy_unit := user_id")
    text = text.replace("minutes", "CASE WHEN town = 'many' THEN minutes END")
    for one in (text, text.replace("DP_COUNT(*", "DP_COUNT(CASE WHEN town = 'big' THEN 1 END")):
        found = rows(towns, one)
        assert [(town, mean is None) for town, _, mean in found] == [("big", True), ("many", False)]


def test_a_list_from_a_domain_shares_the_groups_that_another_call_finds(
    towns: dp_sql.Session,
) -> None:
    given = "epsilon := 100, privacy_unit := user_id"
    best = f"DP_TOPK(kind, 1, {given}, domain := [0, 1, 2])"
    for calls in (
        [best, f"DP_COUNT(*, {given}, {DELTA})"],
        [f"DP_COUNT(*, {given}, {DELTA})", best],
    ):
        found = rows(towns, f"SELECT town, {', '.join(calls)} FROM towns GROUP BY town")
        assert [town for town, *_ in found] == ["big", "many"]
        assert [0] in found[0]  # all of its rows
    with pytest.raises(ArgumentError, match="needs groups"):  # this delta finds items
        listed = f"DP_TOPK(kind, 1, {given}, {DELTA}), DP_COUNT(*, {given})"
        towns.sql(f"SELECT town, {listed} FROM towns GROUP BY town")


def test_explain_says_what_each_call_costs(towns: dp_sql.Session) -> None:
    cost = towns.explain(asked(CALLS[:3], "epsilon := 1", {1}, ", privacy_unit := user_id"))
    assert (cost.epsilon, cost.delta) == (3, Fraction(1, 10**6))
    assert [call.loss.delta for call in cost.calls] == [Fraction(1, 10**6), 0, 0]
    assert all("unknown: with probability" in call.groups for call in cost.calls)


def planned(towns: dp_sql.Session, monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """The plans of two calls that share their groups."""
    seen: list[Plan] = []
    real = grouped_plans.bundles

    def bundles(plans: Any) -> Any:
        seen.extend(plans)
        return real(plans)

    with monkeypatch.context() as patch:
        patch.setattr("dp_sql.session.owner.bundles", bundles)
        rows(towns, asked(CALLS[:2], SURE, {0}, ", privacy_unit := user_id"))
    return seen


def test_a_call_is_not_released_without_the_one_that_pays(
    towns: dp_sql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = planned(towns, monkeypatch)
    assert grouped_plans.bundles([first, second]) == [[0, 1]]
    for wrong in ([second], [second, first], [first, first], [second, second]):
        with pytest.raises(InternalError, match="The first of the calls"):
            grouped_plans.bundles(wrong)
    half = Fraction(1, 2)
    assert loss_at(first, half).epsilon == loss_at(second, half).epsilon == 5_000
    assert (loss_at(first, half).delta, loss_at(second, half).delta) == (Fraction(1, 10**6), 0)


def test_two_selects_find_groups_of_their_own(towns: dp_sql.Session) -> None:
    text = asked(CALLS[:2], SURE, {0}, ", privacy_unit := user_id")
    before = len(towns.receipts)
    assert len(rows(towns, f"({text}) UNION ALL ({text})")) == 4
    deltas = [receipt.loss.delta for receipt in towns.receipts[before:]]
    assert deltas == [Fraction(1, 10**6), 0] * 2


def test_stored_answers_are_used_only_together(tmp_path: Path) -> None:
    text = asked(CALLS[3:], "epsilon := 4", {0}, "")
    with of_towns(tmp_path, "") as session:
        found = rows(session, text)
        assert rows(session, text) == found
        assert len(session.receipts) == 2
        rows(session, asked(CALLS[3:4], "epsilon := 4", {0}, ""))
        assert len(session.receipts) == 3, "alone it is another question"
    (stored,) = tmp_path.glob("*.releases")
    with closing(sqlite3.connect(stored)) as file, file:
        file.execute("DELETE FROM releases WHERE number = 2")
    with of_towns(tmp_path, "") as session:
        rows(session, text)
        assert [one.loss.epsilon for one in session.receipts] == [4, 4]
        assert sum(one.loss.delta for one in session.receipts) == Fraction(1, 10**6)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("named", ['"basic"', '"zcdp"', '"pld"\nrelease_epsilon = 2'])
def test_every_accountant_counts_all_calls_or_none(tmp_path: Path, named: str) -> None:
    if "pld" in named:
        pytest.importorskip("dp_accounting")
    ledger = "SELECT epsilon, delta, rho FROM dp_ledger() ORDER BY ALL"
    with of_towns(tmp_path, f"accountant = {named}\ndiscovery_share = 0.1") as session:
        text = asked(CALLS[3:], "epsilon := 1", {1}, "")
        found = rows(session, f"WITH answers AS ({text}) FROM answers")
        assert rows(session, text) == found, "kept"
        spent = [tuple(map(float, one[:2])) for one in rows(session, ledger)]
        # zcdp takes the noise of which half of delta pays for a smaller rho.
        finder = partition_selection if "zcdp" in named else chosen_selection
        halves = [(0, 5e-7), (1, 0), (1, 5e-7)]
        assert spent == (halves if "zcdp" in named else [(0, 1e-6), (1, 0), (1, 0)])
        finding = finder.loss(Fraction(3, 5), Fraction(1, 10**6), 1).approximate
        answers = Fraction(2, 25)  # 2/5 of epsilon is for them
        assert finding is not None
        *_, second, first = (rho for *_, rho in rows(session, ledger))
        assert Fraction(second) == Fraction(5, 32)
        assert Fraction(first) - finding[0] - answers < Fraction(1, 10**11)
        assert Fraction(first) >= finding[0] + answers
        with pytest.raises(BudgetExceeded):
            session.sql(asked(CALLS[3:], "epsilon := 10", {1}, ""))
        assert len(rows(session, ledger)) == 3


def test_a_plain_call_says_where_groups_are_shared() -> None:
    with duckdb.connect() as con:
        dp_sql.install(con).execute(TOWNS + MORE)
        with pytest.raises(duckdb.Error, match=r"Ask with dp_sql\.connect") as error:
            con.sql(asked(CALLS[1:4:2], SURE, {0}, ", privacy_unit := user_id")).fetchall()
        assert "dp($$" not in str(error.value)


def test_calls_whose_sources_differ_cannot_share_groups(tmp_path: Path) -> None:
    text = asked(CALLS[3:], "epsilon := 4", {0}, "").replace("kind", "o.kind")
    text = text.replace("FROM towns", "FROM towns AS t JOIN towns AS o USING (user_id)")
    with of_towns(tmp_path, "") as session:
        with pytest.raises(NotSupported, match="a join multiplies their rows"):
            session.sql(re.sub(r"\btown\b", "t.town", text))
        assert not session.receipts


@pytest.mark.parametrize("place", range(3))
def test_what_calls_share_is_written_in_one_of_them(towns: dp_sql.Session, place: int) -> None:
    alone, shared = ", privacy_unit := user_id", ", groups := ['big'], max_groups_contributed := 2"
    calls = ["DP_SUM(minutes, {})", "DP_AVG(minutes, {})", "DP_COUNT_DISTINCT(kind, {})"]

    def priced(given: list[str]) -> str:
        listed = ", ".join(one.format(SURE + more) for one, more in zip(calls, given, strict=True))
        return str(towns.explain(f"SELECT town, {listed} FROM towns GROUP BY town"))

    assert priced([(alone + shared) * (i == place) for i in range(3)]) == priced(
        [alone + shared] * 3
    )
    with pytest.raises(ArgumentError, match="needs max_groups_contributed"):
        priced([alone + shared, "", ", max_groups_contributed := 3"])
    with pytest.raises(ArgumentError, match="needs privacy_unit"):
        priced([alone + shared, ", privacy_unit := town", ""])


def test_a_call_repeats_its_equal_whichever_of_them_names_the_privacy_unit() -> None:
    unit = ", privacy_unit := user_id"
    given = ["", ", max_groups_contributed := 1", unit, ", groups := ['big']" + unit]
    calls = ", ".join(f"DP_SUM(minutes, epsilon := 1{more})" for more in given)
    (statement,) = parse(f"SELECT town, {calls} FROM towns GROUP BY town")
    assert len(statement.selects[0].calls) == 3


def test_there_is_no_answer_for_each_person(towns: dp_sql.Session) -> None:
    with pytest.raises(ArgumentError, match="Each user_id is one person") as refused:
        towns.sql(
            f"SELECT user_id, DP_COUNT(*, {SURE}, privacy_unit := user_id) FROM towns GROUP BY 1"
        )
    assert "observed" not in str(refused.value)


def test_a_group_may_be_a_time_with_a_zone() -> None:
    with dp_sql.connect() as session:
        session.execute(
            "CREATE TABLE seen AS SELECT 1 AS user_id, TIMESTAMPTZ '2026-01-01 00:00:00Z' AS seen_at"
        )
        call = f"DP_COUNT(*, {SURE}, privacy_unit := user_id, groups := observed)"
        ((at, n),) = session.sql(f"SELECT seen_at, {call} FROM seen GROUP BY seen_at").fetchall()
        assert at.timestamp() == 1767225600 and n == 1
