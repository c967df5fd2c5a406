"""A ledger; a shop with a policy, and sessions of its analysts."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import dp_sql
from dp_sql.budget.ledger import Ledger
from dp_sql.session.analyst import AnalystSession
from tests.budget.ledger_checks import paths
from tests.budget.ledger_files import ask
from tests.budget.shop import POLICY, SHOP, Opened
from tests.databases import write_database


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_database(tmp_path / "shop.duckdb", SHOP)
    (tmp_path / "policy.toml").write_text(POLICY)
    return tmp_path


@pytest.fixture
def opened(folder: Path) -> Iterator[Opened]:
    sessions = []

    def open_one(analyst: str = "ann", more: str = "") -> AnalystSession:
        policy = folder / "policy.toml"
        if more:
            policy.write_text(POLICY + more)
        session = dp_sql.connect(str(folder / "shop.duckdb"), policy=policy, analyst=analyst)
        sessions.append(session)
        return session

    yield open_one
    for session in sessions:
        session.close()


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(*paths(tmp_path), "readers") as ledger:
        yield ledger


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A ledger with three reservations, closed: seven events."""
    with Ledger(*paths(tmp_path), "readers") as ledger:
        for outcome in ("answered", "failed", "cancelled"):
            ask(ledger, outcome)
    return paths(tmp_path)
