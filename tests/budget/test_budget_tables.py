"""What a session reads of its budget for nothing: system tables and stored releases."""

import gc
import json
import shutil
import sqlite3
from contextlib import closing
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dp_sql
from dp_sql.errors import ArgumentError, LedgerError, NotPrivate, NotSupported
from dp_sql.privacy.expressions.scalar_functions import FUNCTION_ALIASES, FUNCTIONS
from dp_sql.sql.functions import FUNCTIONS as DP_FUNCTIONS
from tests.budget.shop import COUNT, POLICY, TOP, Opened, kinds, left


def test_the_budget_is_a_table(opened: Opened) -> None:
    session = opened()
    session.sql(COUNT.format("0.25")).fetchall()
    relation = session.sql("SELECT * FROM dp_budget()")
    assert relation.columns == ["analyst", "loss", "spent", "remaining", "total", "accountant"]
    total, own = relation.fetchall()
    assert total[:5] == (None, "epsilon", 0.25, 0.75, 1)
    assert own[:5] == ("ann", "epsilon", 0.25, None, None)
    text = f"SELECT n, b.remaining FROM ({COUNT.format('0.25')}), dp_budget() AS b"
    assert session.sql(text).fetchall()[0][1] == 0.75  # read before the answer


def test_what_may_be_called_is_a_table_on_every_kind_of_connection(opened: Opened) -> None:
    names = {*DP_FUNCTIONS, *FUNCTIONS, *FUNCTION_ALIASES}
    analyst = opened()
    with dp_sql.connect() as owner, dp_sql.install(duckdb.connect()) as plain:
        for session in (analyst, owner):
            relation = session.sql("FROM dp_functions()")
            assert relation.columns == ["name", "call", "returns"]
            rows = relation.fetchall()
            assert {name for name, _, _ in rows} == names and len(rows) == len(names)
        assert ("prefix", "starts_with(string, characters)", "BOOLEAN") in rows
        query = "SELECT f.* FROM dp_functions() AS f WHERE returns <> ''"
        assert plain.sql(f"FROM dp($$ {query} $$)").fetchall() == rows
    with pytest.raises(NotPrivate, match=r"what FROM dp_functions\(\) lists"):
        analyst.sql(COUNT.format("0.25") + " WHERE random() < 0.5")


def test_an_analyst_sees_own_events_only(opened: Opened) -> None:
    ann, bob = opened("ann"), opened("bob")
    ann.sql(COUNT.format("0.25")).fetchall()
    bob.sql(COUNT.format("0.125")).fetchall()
    seen = bob.sql("SELECT analyst, kind, epsilon FROM dp_ledger() WHERE epsilon > 0").fetchall()
    assert seen == [("bob", "spent", Decimal("0.125"))]
    assert bob.sql("FROM dp_ledger() SELECT DISTINCT analyst").fetchall() == [("bob",)]
    assert bob.sql("FROM dp_budget() SELECT remaining").fetchall()[0] == (0.625,)


def test_the_numbers_of_an_analysts_events_count_no_one_elses(opened: Opened) -> None:
    ann, bob = opened("ann"), opened("bob")
    for session in (ann, bob, ann, bob, bob):
        session.sql(COUNT.format("0.01")).fetchall()
    numbers = [n for (n,) in bob.sql("SELECT number FROM dp_ledger() ORDER BY number").fetchall()]
    assert numbers == [1, 2, 3]


def test_system_tables_that_are_read_again_take_bounded_room(opened: Opened) -> None:
    session = opened(more="keep_releases = true\n")
    session.sql(COUNT.format("0.1")).fetchall()
    kept, known = session.releases[0].id, session._public.connection
    tables = "SELECT count(*) FROM sqlite_master WHERE name LIKE '\\_\\_dp%' ESCAPE '\\'"
    for round in range(10):
        for text in ("FROM dp_budget()", "FROM dp_ledger()", "FROM dp_releases()",
                     f"FROM dp_release('{kept}')", COUNT.format("0.1")):  # fmt: skip
            session.sql(text).fetchall()
        if round == 5:  # 16 copies are kept
            before = known.execute(tables).fetchall()
    assert known.execute(tables).fetchall() == before and before[0][0] > 0


def test_nothing_is_spent_while_an_answer_is_read_in_pieces(opened: Opened) -> None:
    """DuckDB 2.0 keeps nothing while a reader is open; 1.5 ends the reader."""
    session = opened()
    reader = session.sql("SELECT unnest(range(100000)) AS i").arrow()
    before = left(session)
    try:
        session.sql(COUNT.format("0.1")).fetchall()
        assert left(session) == before - Fraction(1, 10)
    except NotSupported as refused:
        assert "still being read" in str(refused) and left(session) == before
        del reader
        gc.collect()
        session.sql(COUNT.format("0.1")).fetchall()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("table", ["dp_budget()", "dp_ledger()"])
def test_without_a_budget_there_are_no_system_tables(table: str, folder: Path) -> None:
    (folder / "policy.toml").write_text(POLICY.split("[budget]")[0])
    with dp_sql.connect(str(folder / "shop.duckdb"), policy=folder / "policy.toml") as session:
        with pytest.raises(NotSupported, match="no ledger here"):
            session.sql(f"FROM {table}")
        assert session.budget() == ()
        session.sql(COUNT.format("1000")).fetchall()


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "text", ["FROM dp_budget(1)", "FROM dp_release()", "FROM dp_release(x)", "FROM dp_release('x')"]
)
def test_a_system_table_read_wrongly_is_refused(text: str, opened: Opened) -> None:
    with pytest.raises(ArgumentError):
        opened().sql(text)


def test_a_release_is_read_again_for_nothing(opened: Opened, folder: Path) -> None:
    session = opened()
    grouped = (
        "SELECT odd, DP_TOPK(title, 2, epsilon := 0.25, groups := [true, false], "
        "max_groups_contributed := 1) AS best FROM ratings GROUP BY odd"
    )
    answer = session.sql(grouped).fetchall()
    (release,) = session.releases
    again = session.sql(f"SELECT odd, answer FROM dp_release('{release.id}')").fetchall()
    assert sorted(again) == sorted(answer)
    assert session.sql("SELECT id, epsilon FROM dp_releases()").fetchall() == [
        (release.id, Decimal("0.25"))
    ]
    assert release.columns == (("odd", "BOOLEAN"), ("answer", "VARCHAR[]"))
    assert kinds(folder) == ["reserved", "answered"]


def test_without_the_owners_word_the_same_question_is_a_new_debit(opened: Opened) -> None:
    session = opened()
    session.sql(COUNT.format("0.25")).fetchall()
    session.sql(COUNT.format("0.25")).fetchall()
    assert left(session) == Fraction(1, 2)
    assert opened().releases == ()


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "asked",
    [
        TOP,
        COUNT,
        "SELECT DP_COUNT_DISTINCT(title, epsilon := {}, report := true) AS r FROM ratings",
        "SELECT odd, DP_COUNT_DISTINCT(title, epsilon := {}, groups := [true, false], "
        "max_groups_contributed := 1) AS n FROM ratings GROUP BY odd",
    ],
)
def test_a_dashboard_that_refreshes_spends_once(asked: str, opened: Opened, folder: Path) -> None:
    keep = "keep_releases = true\n"
    text = asked.format("0.5")
    first = opened(more=keep).sql(text).fetchall()
    for _ in range(3):
        session = opened(more=keep)
        assert session.explain(text).epsilon == 0
        assert session.sql(text).fetchall() == first
        assert len(session.releases) == 1 and session.receipts == ()
    assert kinds(folder) == ["reserved", "answered"]


def test_without_its_ledger_only_what_is_stored_is_answered(opened: Opened, folder: Path) -> None:
    session, text = opened(more="keep_releases = true\n"), COUNT.format("0.25")
    first = session.sql(text).fetchall()
    (folder / "policy.ledger.sqlite").unlink()
    assert session.sql(text).fetchall() == first
    with pytest.raises(LedgerError, match="is missing"):
        session.sql(COUNT.format("0.125"))
    with pytest.raises(LedgerError, match="is missing"):
        opened()


def test_one_call_in_two_spellings_has_a_stored_release_each(opened: Opened) -> None:
    session = opened(more="keep_releases = true\n")
    call = COUNT.format("0.000001").removeprefix("SELECT ").partition(" FROM")
    both = f"SELECT {call[0]}, {call[0].replace('0.000001', '1e-6')}{call[1]}{call[2]}"
    first = session.sql(both).fetchall()
    assert first[0][0] != first[0][1]  # but with a probability below 10^-6
    assert session.sql(both).fetchall() == first
    assert session.sql(COUNT.format("0.000001")).fetchall() == [first[0][:1]]
    assert len(session.releases) == 2


def test_a_batch_pays_for_equal_queries_once_if_releases_are_kept(opened: Opened) -> None:
    texts = [COUNT.format("0.25"), COUNT.format("0.25").lower(), TOP.format("0.5")]
    assert opened().cost(texts).epsilon == 1
    session = opened(more="keep_releases = true\n")
    for _ in range(2):
        cost = session.cost(texts)
        before = left(session)
        for text in texts:
            session.sql(text).fetchall()
        assert cost.epsilon == before - left(session)
    assert "an earlier query makes this release" in str(session.cost([TOP.format("0.1")] * 2))


def test_a_stored_release_is_of_its_own_database(opened: Opened, folder: Path) -> None:
    ann = opened("ann", "keep_releases = true\n")
    ann.sql(TOP.format("0.125")).fetchall()
    (folder / "newer").mkdir()
    shutil.copy(folder / "shop.duckdb", folder / "newer" / "shop.duckdb")
    newer = str(folder / "newer" / "shop.duckdb")
    with dp_sql.connect(newer, policy=folder / "policy.toml", analyst="ann") as session:
        assert session.cost([TOP.format("0.125")]).epsilon > 0


def test_a_stored_release_answers_its_own_question_and_analyst_only(opened: Opened) -> None:
    keep = "keep_releases = true\n"
    ann = opened("ann", keep)
    ann.sql(TOP.format("0.125")).fetchall()
    for other in (
        TOP.format("0.126"),
        TOP.format("0.125").replace("ratings", "ratings WHERE odd"),
        TOP.format("0.125").replace("2,", "3,"),
        TOP.format("0.125, domain := ['book 1', 'book 2']"),
    ):
        assert ann.cost([other]).epsilon > 0
    bob = opened("bob", keep)
    assert bob.cost([TOP.format("0.125")]).epsilon > 0
    with pytest.raises(ArgumentError, match="no release with this id"):
        bob.sql(f"FROM dp_release('{ann.releases[0].id}')")


def test_receipts_and_releases_are_plain_where_that_is_wanted(opened: Opened) -> None:
    session = opened()
    session.sql(COUNT.format("0.25")).fetchall()
    told = json.loads(json.dumps(session.receipts[0].to_dict()))
    assert (told["mechanism"], told["epsilon"], told["delta"]) == ("matching", "0.25", "0")
    release = session.releases[0].to_dict()
    assert release["columns"] == [{"name": "answer", "type": "BIGINT"}]
    assert release["epsilon"] == "0.25" and release["id"] == session.releases[0].id


@pytest.mark.thorough
def test_a_forgotten_session_leaves_no_file_open(opened: Opened, folder: Path) -> None:
    session: Any = dp_sql.connect(
        str(folder / "shop.duckdb"), policy=folder / "policy.toml", analyst="ann"
    )
    session.sql(COUNT.format("0.1")).fetchall()
    del session
    gc.collect()  # Python 3.13 warns of what is open here, and a warning is an error
    assert left(opened()) == Fraction(9, 10)


def test_a_stored_loss_is_what_was_spent(opened: Opened, folder: Path) -> None:
    session = opened(more="delta = 1e-6\nkeep_releases = true\n")
    session.sql(
        "SELECT DP_TOPK(title, 2, epsilon := 0.125, delta := 1e-7, "
        "mechanism := 'weighted_gaussian') FROM visits"
    )
    session.sql(TOP.format("0.125"))
    spent = [receipt.loss for receipt in session.receipts]
    assert spent[0].approximate is not None and spent[1].approximate is None
    assert [release.receipt.loss for release in session.releases] == spent
    # What an older version stored has no such key, and is still read.
    with closing(sqlite3.connect(folder / "policy.ledger.sqlite.releases")) as file, file:
        change = "UPDATE releases SET release = json_remove(release, '$.approximate')"
        assert file.execute(change).rowcount == 2
    older = [release.receipt.loss for release in session.releases]
    assert [(loss.epsilon, loss.delta) for loss in older] == [
        (loss.epsilon, loss.delta) for loss in spent
    ]
