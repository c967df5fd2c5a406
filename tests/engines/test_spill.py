"""Where queries write what does not fit into memory, and how much they may take."""

import os
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dp_sql
from dp_sql.cli.main import main
from dp_sql.engines.duckdb import spill
from dp_sql.engines.duckdb.spill import remove_spill_folders, spill_advice
from dp_sql.errors import NotSupported, PolicyError
from dp_sql.policy.limits import Limits
from dp_sql.policy.model import parse_policy
from dp_sql.session.analyst import AnalystSession
from dp_sql.sql.sizes import size_in_bytes
from tests.databases import write_database

BASE = '[tables.seen]\nprivacy_unit = "u"\n[limits]\n'
SEEN = "CREATE TABLE seen AS SELECT i AS u, i AS t FROM range(2000000) r(i)"
SETTINGS = ("temp_directory", "max_temp_directory_size", "memory_limit", "threads")
BIG = "SELECT max(x) FROM (SELECT * FROM range(20000000) t(x) ORDER BY hash(x))"


def opened(folder: Path, limits: str = "", policy: str = "policy.toml") -> AnalystSession:
    database = folder / "shop.duckdb"
    if not database.exists():
        write_database(database, SEEN)
    (folder / policy).write_text(BASE + limits, encoding="utf-8")
    found = dp_sql.connect(str(database), policy=folder / policy, analyst="reporting")
    assert isinstance(found, AnalystSession)
    return found


def settings(connection: Any) -> list[str]:
    listed = ", ".join(f"current_setting('{name}')::VARCHAR" for name in SETTINGS)
    return list(connection.execute(f"SELECT {listed}").fetchall()[0])


def test_private_rows_spill_into_a_folder_for_the_owner_alone_that_goes_with_the_session(
    tmp_path: Path,
) -> None:
    with opened(tmp_path, 'memory_limit = "50MB"\nthreads = 1') as session:
        connection = session._private._connection
        folder = Path(settings(connection)[0])
        assert settings(connection)[1:] == ["9.3 GiB", "47.6 MiB", "1"]
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        reader = connection.execute("SELECT * FROM seen ORDER BY hash(u)")
        assert reader.fetchone() is not None
        assert os.listdir(folder), "the sort does not spill: the test proves nothing"
        assert not (tmp_path / "shop.duckdb.tmp").exists()
    assert not folder.exists()


@pytest.mark.thorough
def test_the_policy_says_where_and_how_much(tmp_path: Path) -> None:
    (tmp_path / "spill").mkdir()
    limits = 'temp_directory = "spill"\nmax_temp_directory_size = "10MiB"\nmemory_limit = "50MB"'
    with opened(tmp_path, limits + "\nthreads = 1") as session:
        connection = session._private._connection
        folder = Path(settings(connection)[0])
        assert folder.parent == (tmp_path / "spill").resolve()
        assert settings(connection)[1] == "10.0 MiB"
        with pytest.raises(duckdb.Error, match="max_temp_directory_size"):
            connection.execute(BIG).fetchall()
    assert os.listdir(tmp_path / "spill") == []


def _files_in(folder: Path) -> list[str]:
    """The databases of a folder that sessions have open."""
    return [path for path in spill._open if Path(path).is_relative_to(folder.resolve())]


def test_a_folder_that_is_not_there_opens_no_session(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"temp_directory .* cannot be written"):
        opened(tmp_path, 'temp_directory = "nowhere"')
    assert _files_in(tmp_path) == []


@pytest.mark.thorough
def test_a_second_session_on_the_file_narrows_the_limits_and_never_widens_them(
    tmp_path: Path,
) -> None:
    first = opened(tmp_path, 'max_temp_directory_size = "1GiB"\nmemory_limit = "1GiB"')
    wide = opened(
        tmp_path, 'max_temp_directory_size = "9GiB"\nmemory_limit = "500MiB"', "wide.toml"
    )
    none = opened(tmp_path, "", "none.toml")
    try:
        for session in (first, wide, none):
            found = settings(session._private._connection)
            assert found[1:3] == ["1.0 GiB", "500.0 MiB"]
        folder = Path(settings(first._private._connection)[0])
    finally:
        first.close()
        wide.close()
        assert folder.exists()
        none.close()
    assert not folder.exists() and _files_in(tmp_path) == []


@pytest.mark.thorough
def test_the_public_side_writes_nothing_and_its_memory_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with opened(tmp_path, 'public_memory_limit = "50MB"\nthreads = 1') as session:
        assert settings(session._public.connection) == ["", "0 bytes", "47.6 MiB", "1"] or (
            settings(session._public.connection)[0] == ""
        )
        before = sorted(os.listdir(tmp_path))
        with pytest.raises(duckdb.OutOfMemoryException):
            session.sql(BIG.replace("max(x)", "*")).fetchall()
        assert sorted(os.listdir(tmp_path)) == before
        assert session.sql("SELECT 1").fetchall() == [(1,)]


def test_the_public_side_has_a_limit_where_the_policy_says_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        found = settings(session._public.connection)
        assert (found[0], found[2]) == ("", "953.6 MiB")


def test_a_process_that_ends_at_once_leaves_no_rows_behind(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        folder = Path(settings(session._private._connection)[0])
        (folder / "rows").write_text("a person's row", encoding="utf-8")
        remove_spill_folders()
        assert not folder.exists()


def test_the_next_session_removes_what_a_killed_process_left_and_nothing_that_is_in_use(
    tmp_path: Path,
) -> None:
    spilled = tmp_path / "spilled"
    spilled.mkdir()
    limits = f"temp_directory = '{spilled}'"
    opened(tmp_path, limits).close()
    code = (
        "import os, dp_sql\n"
        "session = dp_sql.connect('shop.duckdb', policy='policy.toml', analyst='a')\n"
        "print(flush=True)\ninput()\nos.kill(os.getpid(), 9)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        (theirs,) = spilled.iterdir()
        (theirs / "rows").write_text("a person's row", encoding="utf-8")
        with opened(tmp_path, limits) as session:  # one that is made again is in use as well
            (ours,) = set(spilled.iterdir()) - {theirs}
            ours.rmdir()
            session.sql(QUERY)
            opened_beside = [sys.executable, "-c", code.replace("input()", "raise SystemExit")]
            subprocess.run(opened_beside, cwd=tmp_path, check=True, capture_output=True)
            assert {*spilled.iterdir()} == {ours, theirs}
        other.communicate(b"\n")
    opened(tmp_path, limits).close()
    assert list(spilled.iterdir()) == []


def test_threads_do_not_close_each_other_s_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, taken = spill._locked, []

    def slowly(folder: Path) -> int | None:
        taken.append(folder)
        time.sleep(0.05)
        return right(folder)

    (tmp_path / "spilled").mkdir()
    with opened(tmp_path, f"temp_directory = '{tmp_path / 'spilled'}'"):
        (ours,) = (tmp_path / "spilled").iterdir()
        ours.rmdir()
        monkeypatch.setattr(spill, "_locked", slowly)
        path = os.path.realpath(tmp_path / "shop.duckdb")
        with ThreadPoolExecutor(3) as threads:
            list(threads.map(spill.check_spill, 3 * [path]))
        assert taken == [ours] and right(ours) is None


QUERY = "SELECT DP_COUNT(*, epsilon := 1, contribution_bound := 1) FROM seen"


def test_a_folder_that_is_gone_is_made_again_for_the_owner_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as session:
        folder = Path(settings(session._private._connection)[0])
        for mode in (None, 0o755):
            if mode is None:
                folder.rmdir()  # as systems clear old files in /tmp
            else:
                folder.chmod(mode)  # as DuckDB makes it
            assert len(session.sql(QUERY).fetchall()) == 1
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        monkeypatch.setattr(os, "getuid", lambda: -1)  # another user has made it
        with pytest.raises(NotSupported, match="no folder for temporary files"):
            session.sql(QUERY)
        assert len(session.receipts) == 2


def test_a_fork_that_ends_leaves_the_folder(tmp_path: Path) -> None:
    asked = (
        "import os, sys, dp_sql\n"
        "session = dp_sql.connect('shop.duckdb', policy='policy.toml', analyst='a')\n"
        "if (child := os.fork()) == 0:\n    sys.exit()\n"
        "os.waitpid(child, 0)\n"
        "run = session._private._connection.execute\n"
        "((folder,),) = run(\"SELECT current_setting('temp_directory')\").fetchall()\n"
        "assert os.path.exists(folder), folder\n"
    )
    opened(tmp_path).close()
    subprocess.run([sys.executable, "-c", asked], cwd=tmp_path, check=True)


def test_no_session_opens_where_duckdb_spills_elsewhere_already(tmp_path: Path) -> None:
    opened(tmp_path).close()
    with duckdb.connect(str(tmp_path / "shop.duckdb"), read_only=True) as owner:
        owner.execute("SET memory_limit = '50MB'; SET threads = 1")
        assert owner.execute("SELECT * FROM seen ORDER BY hash(u)").fetchone() is not None
        for _ in range(2):  # the second one found the folder that the first one had made
            with pytest.raises(PolicyError, match=r"has temporary files in .*shop\.duckdb\.tmp"):
                opened(tmp_path)
    assert _files_in(tmp_path) == []
    opened(tmp_path).close()


@pytest.mark.parametrize(
    ("written", "want"),
    [("4GB", 4 * 10**9), ("1.5 GiB", 3 * 2**29), ("64mb", 64 * 10**6), ("2TiB", 2**41)],
)
def test_sizes_are_read_as_duckdb_reads_them(written: str, want: int) -> None:
    limits = parse_policy(f'{BASE}memory_limit = "{written}"').limits
    assert limits.memory_limit == written
    assert size_in_bytes(written) == want
    with duckdb.connect() as connection:
        connection.execute(f"SET memory_limit = '{written}'")
        theirs = settings(connection)[2]
        connection.execute(f"SET memory_limit = '{want}B'")
        assert settings(connection)[2] == theirs


@pytest.mark.parametrize(
    "line",
    [
        'memory_limit = "4"', 'memory_limit = "90%"', 'memory_limit = "-1"', "memory_limit = 4",
        'memory_limit = "1KB"', "memory_limit = \"4GB' --\"", 'max_temp_directory_size = "lots"',
        'public_memory_limit = "0GB"', "temp_directory = 5", 'temp_directory = ""', "threads = 0",
        "threads = 1.5", 'threads = "4"',
    ],
)  # fmt: skip
def test_what_is_no_limit_is_refused_with_its_line(line: str) -> None:
    with pytest.raises(PolicyError, match="line 4"):
        parse_policy(BASE + line)


def test_check_says_where_rows_are_written_and_warns_about_the_ledgers_disk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    opened(tmp_path).close()
    budget = '\n[budget]\ndataset = "shop"\nepsilon = 1\n'
    policy = tmp_path / "policy.toml"
    policy.write_text(BASE + f'temp_directory = "{tmp_path.as_posix()}"' + budget, "utf-8")
    assert main(["policy", "check", str(policy), str(tmp_path / "shop.duckdb")]) == 0
    told = capsys.readouterr().out
    assert f"write up to 10GB in {tmp_path}" in told
    assert "ledger is on that disk" in told


def test_no_warning_where_a_size_is_set_or_nothing_is_said(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    limits = Limits(Fraction(1), temp_directory=tmp_path, max_temp_directory_size="1GB")
    assert len(spill_advice(limits, ledger)) == len(spill_advice(Limits(), ledger)) == 1
    assert "not a folder" in spill_advice(Limits(temp_directory=tmp_path / "no"), ledger)[1]


@pytest.mark.thorough
def test_a_session_that_is_never_closed_leaves_no_folder(tmp_path: Path) -> None:
    opened(tmp_path).close()
    (tmp_path / "spill").mkdir()
    program = (
        "import dp_sql\n"
        f"s = dp_sql.connect({str(tmp_path / 'shop.duckdb')!r}, "
        f"policy={str(tmp_path / 'policy.toml')!r})\n"
    )
    subprocess.run(
        [sys.executable, "-c", program], check=True, timeout=60,
        env={**os.environ, "TMPDIR": str(tmp_path / "spill")},
    )  # fmt: skip
    assert os.listdir(tmp_path / "spill") == []
