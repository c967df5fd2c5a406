"""A shop with a ledger of four losses, and a terminal of 90 columns."""

from pathlib import Path

import pytest

from tests.cli.budget_shop import Shop


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    shop = Shop(tmp_path)
    shop.spend("reporting", "0.3")
    shop.spend("Ann B.", "0.1", "failed")
    shop.spend("Ann B.", "0.1", "cancelled")
    shop.spend("reporting", "0.1", "left open")
    return shop


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "90")
