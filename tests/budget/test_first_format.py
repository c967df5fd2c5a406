"""Files that the first version wrote still open: policy, ledger, checkpoint and kept releases."""

import shutil
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

import dp_sql
from dp_sql.budget.integrity import verify
from dp_sql.budget.ledger import Ledger

WRITTEN = Path(__file__).parent / "first_format"
LEDGER = "policy.ledger.sqlite"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(WRITTEN, tmp_path / "reading")
    with duckdb.connect(str(tmp_path / "reading" / "shop.duckdb")) as con:
        con.execute(
            "CREATE TABLE catalog AS SELECT 'book ' || i AS title FROM range(8) AS t(i);"
            "CREATE TABLE ratings AS SELECT i % 90 AS user_id, 'book ' || (i % 7) AS title, "
            "['north', 'south'][1 + (i % 90) % 2] AS region FROM range(400) AS t(i)"
        )
    return tmp_path / "reading"


def session(folder: Path, analyst: str) -> dp_sql.Session:
    return dp_sql.connect(
        str(folder / "shop.duckdb"), policy=folder / "policy.toml", analyst=analyst
    )


def test_the_ledger_is_whole_and_its_owner_sees_how_each_release_ended(folder: Path) -> None:
    assert verify(folder / LEDGER, folder / f"{LEDGER}.witness") == 12
    with Ledger(folder / LEDGER, folder / f"{LEDGER}.witness", read_only=True) as ledger:
        assert [event.kind for event in ledger.events()] == [
            "opened", "reserved", "answered", "reserved", "answered", "reserved", "answered",
            "reserved", "failed", "reserved", "cancelled", "reserved",
        ]  # fmt: skip


def test_old_kinds_read_as_spent_for_the_analyst(folder: Path) -> None:
    with session(folder, "bob") as bob:
        found = bob.sql("SELECT number, kind, epsilon FROM dp_ledger()").fetchall()
    assert found == [
        (1, "spent", Decimal("0.5")), (2, "spent", Decimal("0.0625")),
        (3, "spent", Decimal("0.125")), (4, "cancelled", None), (5, "spent", Decimal("0.03125")),
    ]  # fmt: skip


def test_what_was_spent_still_counts_and_the_ledger_goes_on(folder: Path) -> None:
    with session(folder, "ann") as ann:
        assert [row.epsilon_spent for row in ann.budget()] == [Fraction(31, 32), Fraction(3, 8)]
        ann.sql("SELECT DP_COUNT_DISTINCT(title, epsilon := 1) AS n FROM ratings").fetchall()
        assert ann.budget()[1].epsilon_spent == Fraction(11, 8)
    assert verify(folder / LEDGER, folder / f"{LEDGER}.witness") == 14


def test_stored_releases_are_read_again(folder: Path) -> None:
    with session(folder, "bob") as bob:
        (release,) = bob.releases
        (best,) = bob.sql(f"SELECT answer FROM dp_release('{release.id}')").fetchall()[0]
        assert len(best) == 3
        assert len(bob.sql("FROM dp_ledger()").fetchall()) == 5  # nothing was spent
