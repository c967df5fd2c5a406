"""Analysts' names: one form of each, at every door, and in ledgers from before names had one."""

import json
import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

import dp_sql
import dp_sql.integrations.dbapi
from dp_sql.budget.account import Account, owner_rows
from dp_sql.budget.amounts import amount_of
from dp_sql.budget.integrity import verify
from dp_sql.budget.ledger import Ledger
from dp_sql.budget.model import Cap, Terms, name_of
from dp_sql.cli.budget_plot import curves
from dp_sql.errors import BudgetExceeded, PolicyError
from dp_sql.policy.model import parse_policy
from dp_sql.server.access_tokens import add_token, digest_of, owner_of, read_tokens, remove_token
from dp_sql.session.release_store import ReleaseStore
from dp_sql.udfs.mechanism import PrivacyLoss
from tests.budget.ledger_checks import admit_all, paths
from tests.databases import write_database

ZOE = "Zo\u00eb"
SPELLINGS = ["Zo\u00eb", "Zoe\u0308", " Zo\u00eb", "Zoe\u0308 ", "\u00a0Zo\u00eb\u2003"]
HALF = amount_of(PrivacyLoss(Fraction(1, 2)))
POLICY = """
tables.ratings.privacy_unit = "user_id"
[budget]
dataset = "shop"
epsilon = 10
keep_releases = true
[budget.analysts."Zoe\u0308 "]
epsilon = 2
"""
COUNT = "SELECT DP_COUNT_DISTINCT(title, epsilon := {}) AS n FROM ratings"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[tuple[str, str]]:
    database, policy = tmp_path / "shop.duckdb", tmp_path / "policy.toml"
    write_database(
        database, "CREATE TABLE ratings AS SELECT i AS user_id, 'a' AS title FROM range(9) r(i)"
    )
    policy.write_text(POLICY, "utf-8")
    yield str(database), str(policy)


@pytest.mark.parametrize("written", SPELLINGS)
def test_every_spelling_is_one_name(written: str) -> None:
    assert name_of(written) == ZOE == unicodedata.normalize("NFC", ZOE)


@pytest.mark.parametrize(
    "name", ["reporting", "Ann; x's", "Ann  B.", "\u0440eporting", "李", "A", "a.b"]
)
def test_other_characters_stay_as_they_are(name: str) -> None:
    assert name_of(name) == name


@pytest.mark.parametrize(
    "written",
    ["", " ", "\u3000", "a\0", "a\nb", "\tann", "ann\n", "a\x7f", "a\x85b", "a\u2028b", "a\ud800", 5, None, b"ann"],
)  # fmt: skip
def test_what_is_no_name(written: object, shop: tuple[str, str], tmp_path: Path) -> None:
    assert name_of(written) is None
    if written is None:
        return
    with pytest.raises(PolicyError, match="name"):
        dp_sql.connect(shop[0], policy=shop[1], analyst=written)  # type: ignore[call-overload]
    if isinstance(written, str):
        with pytest.raises(PolicyError, match="name"):
            add_token(tmp_path / "policy.tokens", written)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("written", SPELLINGS)
def test_an_analyst_is_charged_under_one_name(shop: tuple[str, str], written: str) -> None:
    with dp_sql.connect(shop[0], policy=shop[1], analyst=ZOE) as session:
        session.sql(COUNT.format(1)).fetchall()
    with dp_sql.connect(shop[0], policy=shop[1], analyst=written) as session:
        assert session.analyst == ZOE
        row = session.budget()[1]
        assert (row.analyst, row.epsilon_total, row.epsilon_spent) == (ZOE, 2, 1)
        assert len(session.releases) == 1
        with pytest.raises(BudgetExceeded):
            session.sql(COUNT.format(1.5))


def test_a_url_and_the_shell_write_the_same_name(shop: tuple[str, str]) -> None:
    with dp_sql.integrations.dbapi.connect(shop[0], policy=shop[1], analyst=SPELLINGS[3]) as con:
        cursor = con.cursor()
        cursor.execute("SELECT analyst FROM dp_budget() WHERE analyst IS NOT NULL")
        assert cursor.fetchall() == [(ZOE,)]
    engine = create_engine(f"dpsql:///{shop[0]}?policy={shop[1]}&analyst=Zoe%CC%88%20")
    with engine.connect() as con:
        found = con.execute(text("SELECT analyst FROM dp_budget() WHERE analyst IS NOT NULL"))
        assert found.fetchall() == [(ZOE,)]
    engine.dispose()


def test_two_sections_of_one_analyst_are_refused() -> None:
    twice = f'{POLICY}[budget.analysts."{ZOE}"]\nepsilon = 1\n'
    with pytest.raises(PolicyError, match=f"line 9: {ZOE} appears twice"):
        parse_policy(twice)


@pytest.mark.parametrize("name", [r"a\u0000", r"a\nb", r" ", r"a\u200b", r"a\ufeff"])
def test_a_section_needs_a_name(name: str) -> None:
    section = f'[budget.analysts."{name}"]\nepsilon = 1\n'
    with pytest.raises(PolicyError, match="name cannot be empty or contain control characters"):
        parse_policy(POLICY + section)


# --- tokens ---------------------------------------------------------------------------------------


def test_a_token_is_of_a_normalised_name(tmp_path: Path) -> None:
    file = tmp_path / "policy.tokens"
    secret = add_token(file, SPELLINGS[3])
    assert owner_of(digest_of(secret), read_tokens(file)) == ZOE
    with pytest.raises(PolicyError, match="has a token already"):
        add_token(file, ZOE)
    remove_token(file, SPELLINGS[1])
    assert read_tokens(file) == ()


def test_a_file_of_tokens_from_before_is_read_by_normalised_names(tmp_path: Path) -> None:
    file = tmp_path / "policy.tokens"
    secret = add_token(file, ZOE)
    kept = json.loads(file.read_text("utf-8"))
    file.write_text(json.dumps({SPELLINGS[3]: kept[ZOE]}), "utf-8")
    assert owner_of(digest_of(secret), read_tokens(file)) == ZOE
    file.write_text(json.dumps({SPELLINGS[3]: kept[ZOE], ZOE: kept[ZOE]}), "utf-8")
    with pytest.raises(PolicyError, match="has two tokens"):
        read_tokens(file)


# --- ledgers from before --------------------------------------------------------------------------


@pytest.fixture
def old(tmp_path: Path) -> Iterator[Ledger]:
    """A ledger in which one analyst has several names, as the old rules wrote them."""
    with Ledger(*paths(tmp_path), "shop") as ledger:
        for name in (*SPELLINGS, "bob"):
            (ticket,) = ledger.reserve(name, [HALF], admit_all)
            ledger.settle({ticket: "answered"})
        cancelled = ledger.reserve(SPELLINGS[1], [HALF], admit_all)
        ledger.cancel(cancelled[0])
        yield ledger


def terms(folder: Path, own: str = "3") -> Terms:
    cap = Cap(Fraction(own))
    return Terms("shop", Cap(Fraction(100)), *paths(folder), analysts={ZOE: cap})


@pytest.mark.parametrize("name", SPELLINGS)
def test_what_was_spent_under_old_names_counts(old: Ledger, tmp_path: Path, name: str) -> None:
    for ledger in (old, Ledger(*paths(tmp_path), read_only=True)):
        spent = ledger.spent(name)
        assert (spent.n, spent.epsilon) == (5, 5 * HALF.epsilon)
        assert ledger.spent().n == 6 and ledger.spent("bob").n == 1
        assert ledger.analysts() == [ZOE, "bob"]
        kinds = [event.kind for event in ledger.events(name)]
        assert kinds.count("reserved") == 6 and kinds.count("cancelled") == 1
        if ledger is not old:
            ledger.close()
    verify(*paths(tmp_path))


def test_what_was_spent_under_old_names_is_refused_by_the_cap(old: Ledger, tmp_path: Path) -> None:
    account = Account(old, terms(tmp_path), ZOE)
    assert account.rows()[1].epsilon_left == Fraction(1, 2)
    account.reserve(lambda factor: [PrivacyLoss(Fraction(1, 2) * factor)])
    with pytest.raises(BudgetExceeded, match=f"the budget of {ZOE} in shop has"):
        account.reserve(lambda factor: [PrivacyLoss(Fraction(1, 2) * factor)])
    assert old.spent(ZOE).n == 6


def test_the_owner_sees_one_row_and_one_curve_for_an_analyst(old: Ledger, tmp_path: Path) -> None:
    rows = owner_rows(old, terms(tmp_path))
    assert [(row.analyst, row.epsilon_spent) for row in rows] == [
        (None, 3), (ZOE, Fraction(5, 2)), ("bob", Fraction(1, 2)),
    ]  # fmt: skip
    drawn = curves(old, terms(tmp_path), datetime.now(UTC))
    assert [curve.analyst for curve in drawn] == [None, ZOE, "bob"]


def test_releases_stored_under_an_old_name_are_still_the_analysts(
    shop: tuple[str, str], tmp_path: Path
) -> None:
    with dp_sql.connect(shop[0], policy=shop[1], analyst=ZOE) as session:
        session.sql(COUNT.format(1)).fetchall()
    file = tmp_path / "policy.ledger.sqlite.releases"
    kept = ReleaseStore(file, "x", "d")
    kept._file.execute("UPDATE releases SET analyst = ?", (SPELLINGS[3],))
    kept.close()
    with dp_sql.connect(shop[0], policy=shop[1], analyst=ZOE) as session:
        assert len(session.releases) == 1
        session.sql(COUNT.format(1)).fetchall()
        assert session.budget()[1].epsilon_spent == 1
    with dp_sql.connect(shop[0], policy=shop[1], analyst="Zoe") as session:
        assert session.releases == ()


def test_a_mutant_that_looks_for_one_spelling_is_rejected(
    old: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dp_sql.budget.totals.normal_name", lambda name: name)
    with Ledger(*paths(tmp_path), read_only=True) as ledger:
        assert ledger.spent(ZOE).n == 1  # what the tests above would see
