"""The picture that `dp-sql budget` draws: its curves, its dates, and matplotlib only when asked for."""

import builtins
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dp_sql.budget.amounts import amount_of
from dp_sql.cli import budget_plot
from dp_sql.cli.budget_plot import Curve, curves
from dp_sql.udfs.mechanism import PrivacyLoss
from tests.cli.budget_shop import POLICY, START, TERMS, Shop, main_budget, output

pytestmark = pytest.mark.usefixtures("wide")


def values(curve: Curve) -> list[tuple[str, str]]:
    return [(f"{time:%m-%d}", str(epsilon)) for time, epsilon in curve.points]


def test_curves_rise_with_each_loss_and_leave_out_what_was_given_back(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    for who, outcome in (
        ("a", "answered"),
        ("b", "cancelled"),
        ("reporting", "x"),
        ("a", "failed"),
    ):
        shop.spend(who, "0.1", outcome)
        shop.clock.now += timedelta(days=2)
    with shop.open() as ledger:
        drawn = curves(ledger, shop.terms, shop.clock.now)
    assert [(curve.analyst, curve.cap) for curve in drawn] == [
        (None, 2), ("a", None), ("reporting", Fraction(1, 2)),
    ]  # fmt: skip
    assert values(drawn[0]) == [
        ("11-21", "0"), ("11-21", "1/10"), ("11-25", "1/5"), ("11-27", "3/10"), ("11-29", "3/10"),
    ]  # fmt: skip
    assert values(drawn[2]) == [("11-21", "0"), ("11-25", "1/10"), ("11-29", "1/10")]


def test_a_monthly_budget_falls_to_nothing_with_the_month(tmp_path: Path) -> None:
    shop = Shop(tmp_path, 'refresh = "monthly"')
    for days in (20, 30, 70):
        shop.spend("a", "0.1")
        shop.clock.now += timedelta(days=days)
    with shop.open() as ledger:
        whole, _ = curves(ledger, shop.terms, shop.clock.now)
        assert ledger.spent().epsilon == 0
    assert values(whole) == [
        ("11-21", "0"), ("11-21", "1/10"), ("12-01", "1/10"), ("12-01", "0"),
        ("12-11", "1/10"), ("01-01", "1/10"), ("01-01", "0"),
        ("01-10", "1/10"), ("02-01", "1/10"), ("02-01", "0"), ("03-21", "0"),
    ]  # fmt: skip


def test_an_accountant_that_counts_less_is_drawn_as_it_counts(tmp_path: Path) -> None:
    shop = Shop(tmp_path, 'delta = 1e-6\naccountant = "zcdp"')
    with shop.open() as ledger:
        for _ in range(100):
            amount = amount_of(PrivacyLoss(Fraction(1, 50), rho=Fraction(1, 20000)))
            ledger.reserve("a", [amount], lambda of_all, own: None)
        whole, own = curves(ledger, shop.terms, shop.clock.now)
    assert own.points[-1] == whole.points[-1] and Fraction(1, 4) < whole.points[-1][1] < 1


def test_a_ledger_without_losses_is_a_curve_at_nothing(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    with shop.open() as ledger:
        (whole,) = curves(ledger, shop.terms, START + timedelta(1))
    assert {epsilon for _, epsilon in whole.points} == {0}


@pytest.mark.thorough
def test_a_long_ledger_is_thinned_and_keeps_its_peaks(monkeypatch: pytest.MonkeyPatch) -> None:
    def events() -> Iterator[Any]:
        amount = amount_of(PrivacyLoss(Fraction(1, 1000)))
        for n in range(5000):
            time = START + timedelta(hours=n)
            yield SimpleNamespace(
                kind="reserved", time=f"{time:%Y-%m-%dT%H:%M:%SZ}", ticket=str(n), analyst="a",
                amount=amount,
            )  # fmt: skip

    ledger: Any = SimpleNamespace(events=events)
    end = START + timedelta(hours=5000)
    monthly = replace(TERMS, monthly=True)
    found = []
    for points in (10**9, 100):
        monkeypatch.setattr(budget_plot, "POINTS", points)
        found.append(curves(ledger, monthly, end)[0].points)
    full, thin = found
    assert len(thin) <= 2 * 100 < len(full)
    assert set(thin) <= set(full) and (thin[0], thin[-1]) == (full[0], full[-1])
    peaks = [before for before, after in pairwise(full) if after[1] < before[1]]
    assert len(peaks) == 7 and set(peaks) <= set(thin)


def test_many_losses_in_one_second_are_one_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget_plot, "POINTS", 5)
    shop = Shop(tmp_path)
    with shop.open() as ledger:
        ledger.reserve("a", [amount_of(PrivacyLoss(Fraction(1)))] * 20, lambda of_all, own: None)
        whole, _ = curves(ledger, shop.terms, START)
    assert [epsilon for _, epsilon in whole.points] == [0, 20]


def test_a_picture_without_matplotlib_says_how_to_get_it(
    shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(budget_plot.importlib, "import_module", missing)
    assert main_budget([shop.policy, "--plot", str(tmp_path / "burn.png")]) == 1
    assert "[plot]'" in output(capsys, wrong=True)
    assert not (tmp_path / "burn.png").exists()


def test_matplotlib_is_not_read_before_a_picture_is_asked_for(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[str] = []
    real = builtins.__import__

    def watched(name: str, *rest: Any) -> Any:
        seen.append(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", watched)
    monkeypatch.setattr(budget_plot.importlib, "import_module", watched)
    assert main_budget([shop.policy]) == 0
    assert not [name for name in seen if name.startswith("matplotlib")]
    capsys.readouterr()


@pytest.mark.thorough
def test_a_picture_is_written_along_with_the_bars(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    shop = Shop(tmp_path)
    for name in ("reporting", "_x", "$a$ ^_{", "日本", *(f"n{n}" for n in range(9))):
        shop.spend(name, "0.1")
    for end, head in ((".png", b"\x89PNG\r\n"), (".svg", b"<?xml")):
        picture = tmp_path / f"burn{end}"
        assert main_budget([shop.policy, "--plot", str(picture)]) == 0
        shown = output(capsys)
        assert shown.startswith("Budget of shop") and shown.endswith(f"{picture} is written.\n")
        assert picture.read_bytes().startswith(head)
    assert main_budget([shop.policy, "--csv", "--plot", str(picture)]) == 0
    assert "written" not in output(capsys)
    assert main_budget([shop.policy, "--plot", shop.policy]) == 1
    assert Path(shop.policy).read_text() == POLICY.format(more="")
    assert "toml" in output(capsys, wrong=True)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("unit", ["seconds", "minutes", "hours", "days", "weeks"])
def test_a_picture_of_any_span_has_its_dates(
    tmp_path: Path, unit: str, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("matplotlib")
    shop = Shop(tmp_path)
    for n in (1, 105, 290):
        end = START + timedelta(**{unit: n})
        points = ((START, Fraction(0)), (end, Fraction(1)))
        budget_plot.draw([Curve(None, None, points)], shop.terms, tmp_path / "burn.png")
    assert not caplog.records
