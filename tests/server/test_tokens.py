"""The tokens of a server: made once, kept as hashes, in a file that is its owner's alone."""

import contextlib
import os
import stat
import threading
from pathlib import Path

import pytest

from dp_sql.cli.main import main
from dp_sql.errors import PolicyError
from dp_sql.server import access_tokens as tokens_file
from dp_sql.server.access_tokens import (
    TokenEntry,
    add_token,
    digest_of,
    owner_of,
    read_tokens,
    remove_token,
    tokens_beside,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "policy.tokens"


def test_a_token_finds_its_analyst_and_no_other(path: Path) -> None:
    reporting, research = add_token(path, "reporting"), add_token(path, "research")
    tokens = read_tokens(path)
    assert owner_of(digest_of(reporting), tokens) == "reporting"
    assert owner_of(digest_of(research), tokens) == "research"
    assert owner_of(digest_of(reporting[:-1]), tokens) is None
    assert owner_of(digest_of(""), tokens) is None
    assert owner_of(reporting, tokens) is None


def test_two_tokens_differ_and_are_long(path: Path) -> None:
    made = {add_token(path, f"analyst {n}") for n in range(5)}
    assert len(made) == 5
    assert all(len(bytes.fromhex(token)) == 32 for token in made)


def test_the_file_has_the_hash_and_not_the_token_and_is_for_its_owner_alone(path: Path) -> None:
    before = os.umask(0)
    try:
        secret = add_token(path, "reporting")
        add_token(path, "research")
    finally:
        os.umask(before)
    assert secret not in path.read_text("utf-8")
    assert digest_of(secret) in path.read_text("utf-8")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [other.name for other in path.parent.iterdir()] == [path.name]


def test_a_file_that_others_may_read_is_refused(path: Path) -> None:
    add_token(path, "reporting")
    path.chmod(0o640)
    with pytest.raises(PolicyError, match="chmod 600"):
        read_tokens(path)


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "nonsense", '{"a": 1}', '{"a": {}}', '{"a": {"sha256": 1, "added": "x"}}',
        '{"a": {"sha256": "é", "added": "x"}}',
    ],
)  # fmt: skip
def test_a_file_that_is_something_else_is_refused(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(PolicyError, match="Move it away"):
        read_tokens(path)


def test_no_file_means_no_tokens(path: Path) -> None:
    assert read_tokens(path) == ()


def test_an_analyst_has_one_token_at_a_time(path: Path) -> None:
    first = add_token(path, "reporting")
    with pytest.raises(PolicyError, match="has a token already"):
        add_token(path, "reporting")
    remove_token(path, "reporting")
    second = add_token(path, "reporting")
    assert owner_of(digest_of(first), read_tokens(path)) is None
    assert owner_of(digest_of(second), read_tokens(path)) == "reporting"


def test_a_token_is_added_and_removed_through_a_link(path: Path) -> None:
    link = path.with_name("link.tokens")
    link.symlink_to(path.name)
    add_token(link, "reporting")
    assert [token.analyst for token in read_tokens(path)] == ["reporting"]
    remove_token(link, "reporting")
    assert read_tokens(path) == ()
    assert link.is_symlink()


def test_removing_a_token_that_is_not_there_says_so(path: Path) -> None:
    add_token(path, "reporting")
    with pytest.raises(PolicyError, match="research has no token"):
        remove_token(path, "research")


@pytest.mark.parametrize("name", ["", " ", "two\nlines"])
def test_a_name_is_something_to_read(path: Path, name: str) -> None:
    with pytest.raises(PolicyError, match="name cannot be empty"):
        add_token(path, name)


def test_a_writer_who_was_stopped_is_noticed(path: Path) -> None:
    (path.parent / "policy.tokens.new").touch()
    with pytest.raises(PolicyError, match="someone is writing"):
        add_token(path, "reporting")


def test_two_writers_at_once_lose_no_change(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_token(path, "leaving")
    done: list[str] = []

    def remove_meanwhile(found: Path) -> tuple[TokenEntry, ...]:
        monkeypatch.undo()
        known = read_tokens(found)
        try:
            remove_token(path, "leaving")
            done.append("removed")
        except PolicyError as error:
            done.append(str(error))
        return known

    monkeypatch.setattr(tokens_file, "read_tokens", remove_meanwhile)
    add_token(path, "reporting")
    names = [token.analyst for token in read_tokens(path)]
    assert ("leaving" in names) == (done != ["removed"])
    assert "reporting" in names
    assert "Try again" in done[0]


def test_many_writers_at_once_lose_no_change(path: Path) -> None:
    added: list[str] = []

    def add(name: str) -> None:
        with contextlib.suppress(PolicyError):
            add_token(path, name)
            added.append(name)

    for n in range(20):
        writers = [threading.Thread(target=add, args=(f"{n}.{i}",)) for i in range(4)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
    assert added and {token.analyst for token in read_tokens(path)} == set(added)
    assert [other.name for other in path.parent.iterdir()] == [path.name]


def test_a_change_that_is_refused_leaves_no_draft(path: Path) -> None:
    add_token(path, "reporting")
    with pytest.raises(PolicyError, match="has a token already"):
        add_token(path, "reporting")
    assert [other.name for other in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("option", "name", "words"),
    [
        ("--policy", "", "A policy is a file"),
        ("--policy", ".", "A policy is a file"),
        ("--file", "", "The tokens are in a file"),
    ],
)
def test_a_file_that_is_not_named_is_asked_for(
    option: str, name: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["token", "add", "reporting", option, name]) == 1
    assert words in capsys.readouterr().err


def test_the_command_prints_the_token_alone_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = str(tmp_path / "policy.toml")
    Path(policy).touch()
    assert main(["token", "add", "reporting", "--policy", policy]) == 0
    printed = capsys.readouterr()
    assert (
        owner_of(digest_of(printed.out.strip()), read_tokens(tokens_beside(policy))) == "reporting"
    )
    assert "not shown again" in printed.err
    assert main(["token", "list", "--policy", policy]) == 0
    listed = capsys.readouterr().out
    assert listed.startswith("reporting\t2")
    assert printed.out.strip() not in listed
    assert main(["token", "remove", "reporting", "--policy", policy]) == 0
    assert main(["token", "list", "--file", str(tokens_beside(policy))]) == 0
    assert capsys.readouterr().out == ""


def test_a_name_without_a_cap_beside_names_with_one_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(
        'tables.t.privacy_unit = "u"\n[budget]\ndataset = "shop"\nepsilon = 2\n'
        'ledger = "ledger.sqlite"\nanalysts.carol = { epsilon = 1 }\n'
    )
    for name in ("carol", "caroline"):
        assert main(["token", "add", name, "--policy", str(policy)]) == 0
        told = "does not list caroline" in capsys.readouterr().err
        assert told is (name == "caroline")


def test_the_command_says_what_is_wrong_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["token", "remove", "nobody", "--file", str(tmp_path / "policy.tokens")]) == 1
    assert "PolicyError: nobody has no token" in capsys.readouterr().err
    assert main(["token", "add", "a", "--file", str(tmp_path / "no" / "policy.tokens")]) == 1
    assert "cannot be written" in capsys.readouterr().err
    assert main(["token", "add", "a", "--policy", str(tmp_path / "polcy.toml")]) == 1
    assert "There is no policy" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
