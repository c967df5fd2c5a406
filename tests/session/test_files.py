"""Files with answers, spending or names: for their owner alone, whatever the umask."""

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

import dp_sql
from dp_sql.budget.ledger import Ledger
from dp_sql.cli.budget_plot import curves, draw
from dp_sql.cli.shell.state import Shell
from dp_sql.files import make_private
from dp_sql.policy.budget_section import advice
from dp_sql.policy.model import read_policy
from dp_sql.server.access_tokens import add_token
from tests.databases import write_database

POLICY = """
tables.ratings.privacy_unit = "user_id"
[limits]
max_epsilon_per_query = 10
[budget]
dataset = "shop"
epsilon = 10
keep_releases = true
"""
QUESTION = "SELECT DP_COUNT_DISTINCT(title, epsilon := 1) AS n FROM ratings"


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A folder with a database and a policy, made before the umask is what the test says."""
    write_database(
        tmp_path / "shop.duckdb",
        "CREATE TABLE ratings AS SELECT i AS user_id, 'a' AS title FROM range(9) r(i)",
    )
    (tmp_path / "policy.toml").write_text(POLICY)
    before = os.umask(request.param)
    try:
        yield tmp_path
    finally:
        os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    """The modes of the files that were made under the test's umask."""
    made = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    return {name: mode for name, mode in made.items() if name not in {"shop.duckdb", "policy.toml"}}


def connected(folder: Path) -> dp_sql.Session:
    return dp_sql.connect(str(folder / "shop.duckdb"), policy=folder / "policy.toml")  # type: ignore[return-value]


@pytest.mark.one_in(3)
def test_what_a_session_under_a_policy_writes_is_its_owners(folder: Path) -> None:
    with connected(folder) as session:
        session.sql(QUESTION).fetchall()
        found = modes(folder)
        assert {"policy.ledger.sqlite", "policy.ledger.sqlite.witness"} < found.keys()
        assert {"policy.ledger.sqlite-wal", "policy.ledger.sqlite-shm"} < found.keys()
        kept = {name for name in found if name.startswith("policy.ledger.sqlite.releases")}
        assert len(kept) == 3  # with its log and its index
        assert set(found.values()) == {0o600}
    assert set(modes(folder).values()) == {0o600}
    assert not [name for name in modes(folder) if name.endswith(".new")]


def test_an_owners_ledger_is_the_owners(folder: Path) -> None:
    with dp_sql.connect(ledger=folder / "own.sqlite"):
        assert modes(folder) and set(modes(folder).values()) == {0o600}


@pytest.mark.thorough
def test_tokens_answers_and_pictures_are_their_owners(folder: Path) -> None:
    add_token(folder / "policy.tokens", "reporting")
    with connected(folder) as session:
        shell = Shell(session, "table")
        shell.write_to(str(folder / "answers.txt"))
        shell.close()
        session.sql(QUESTION).fetchall()
    terms = read_policy(folder / "policy.toml").budget
    assert terms is not None
    pytest.importorskip("matplotlib")
    with Ledger(terms.ledger, terms.checkpoint) as ledger:
        drawn = curves(ledger, terms, datetime.now(UTC))
        draw(drawn, terms, folder / "burn.svg")
        draw(drawn, terms, folder / "burn")
    found = modes(folder)
    assert {"policy.tokens", "answers.txt", "burn.svg", "burn.png"} < found.keys()
    assert set(found.values()) == {0o600}


@pytest.mark.one_in(3)
def test_an_existing_file_keeps_its_mode_and_is_reported_to_its_owner(folder: Path) -> None:
    with connected(folder) as session:
        session.sql(QUESTION).fetchall()
    files = [folder / name for name in modes(folder)]
    for file in files:
        file.chmod(0o644)
    with connected(folder) as session:
        assert len(session.releases) == 1
        session.sql(QUESTION).fetchall()
    assert {modes(folder)[file.name] for file in files} == {0o644}
    said = " ".join(advice(read_policy(folder / "policy.toml").budget))
    assert said.count("chmod 600") == 3
    for file in files:
        file.chmod(0o600)
    assert "chmod" not in " ".join(advice(read_policy(folder / "policy.toml").budget))


def test_making_a_private_file_leaves_one_that_is_there(folder: Path) -> None:
    there, link = folder / "there", folder / "link"
    there.write_text("kept")
    there.chmod(0o640)
    make_private(there)
    assert there.read_text() == "kept" and modes(folder)["there"] == 0o640
    link.symlink_to(folder / "target")
    make_private(link)
    assert stat.S_IMODE((folder / "target").stat().st_mode) == 0o600


@pytest.mark.one_in(3)
def test_making_a_private_file_keeps_the_locks_of_an_open_one(folder: Path) -> None:
    file = folder / "book.sqlite"
    make_private(file)
    with closing(sqlite3.connect(file, isolation_level=None)) as con:
        con.execute("CREATE TABLE t (x)")
        con.execute("BEGIN EXCLUSIVE")
        make_private(file)
        other = (
            f"import sqlite3; sqlite3.connect({str(file)!r}, timeout=0).execute('SELECT * FROM t')"
        )
        assert os.spawnlp(os.P_WAIT, "python3", "python3", "-c", other) != 0
        con.execute("ROLLBACK")


def test_a_private_file_is_made_where_no_file_has_two_names(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", refused)
    make_private(folder / "book")
    assert modes(folder) == {"book": 0o600}


def test_only_a_path_or_spark_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with duckdb.connect() as con, pytest.raises(TypeError, match=r"dp_sql\.install\(connection\)"):
        dp_sql.connect(con)
    with pytest.raises(TypeError, match="not bytes"):
        dp_sql.connect(b"ratings.duckdb")
    assert not [*tmp_path.iterdir()]
