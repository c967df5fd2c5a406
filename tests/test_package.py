"""The package as others find it: no top-level name but dp_sql."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.tags import mac_platforms

from dp_sql.udfs.count_distinct import kernels_build

ROOT = Path(__file__).parents[1]
STATEMENT = (
    "SELECT DP_TOPK(title, 1, epsilon := 10000, privacy_unit := user_id, domain := ['Dune']) "
    "FROM (SELECT 1 AS user_id, 'Dune' AS title) AS seen"
)
PROGRAM = f"""
import dp_sql
with dp_sql.connect() as session:
    session.execute("CREATE TABLE seen AS SELECT 1 AS user_id, 'Dune' AS title")
    print(session.sql({STATEMENT.split("FROM (")[0]!r} + "FROM seen").fetchall())
"""


def test_the_top_level_holds_no_ledger_or_policy_of_a_trial() -> None:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    assert {name.partition("/")[0] for name in listed.stdout.splitlines()} <= {
        "dp_sql", "udfs", "tests", "examples", "docs", "benchmarks", ".ci", ".github", ".gitignore",
        "pyproject.toml", "Makefile", "README.md", "CHANGELOG.md", "LICENSE",
    }  # fmt: skip


@pytest.mark.thorough
def test_a_users_own_udfs_module_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "udfs.py").write_text("raise RuntimeError('this is not dp_sql.udfs')")
    (tmp_path / "program.py").write_text(PROGRAM)
    run = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip
    assert (run.stdout.strip(), run.stderr) == ("[(['Dune'],)]", "")


def test_udfs_is_no_top_level_module(tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    program = (
        "import importlib.util as u; print(u.find_spec('udfs'), u.find_spec('dp_sql') is None)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, env=env,
        check=True,
    )  # fmt: skip
    assert run.stdout.split() == ["None", "False"]


def test_a_build_makes_the_link_that_a_source_archive_does_not_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(kernels_build, "compile_kernels", lambda: None)
    Path("dp_sql").mkdir()
    Path("udfs").mkdir()
    kernels_build.prepare()
    assert Path("dp_sql", "udfs").resolve() == Path("udfs").resolve()
    kernels_build.prepare()  # a checkout has it


@pytest.mark.parametrize(
    ("python", "machine", "expected"),
    [
        ("macosx-10.13-universal2", "arm64", "macosx_11_0_arm64"),
        ("macosx-10.13-universal2", "x86_64", "macosx_10_13_x86_64"),
        ("macosx-11.0-arm64", "arm64", "macosx_11_0_arm64"),
    ],
)
def test_a_mac_can_install_the_wheel_that_it_builds(
    python: str, machine: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sysconfig.get_platform", lambda: python)
    monkeypatch.setattr("platform.machine", lambda: machine)
    tag = kernels_build.target().replace("-", "_").replace(".", "_")
    assert tag == expected
    assert tag in set(mac_platforms((15, 0), machine))


def test_without_a_compiler_a_wheel_is_made_for_every_processor_of_its_platform(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], **_: object) -> None:
        commands.append(command)
        Path(command[-1]).touch()

    monkeypatch.setattr(kernels_build, "compiler", lambda: None)
    monkeypatch.setattr("subprocess.run", run)
    kernels_build.compile_kernels([tmp_path / "a.c"], tmp_path / "a.so")
    assert (tmp_path / "a.so").exists()
    assert {"ziglang", "-mcpu=baseline", "-s"} <= set(commands[0])  # zig's own: this processor


def test_the_source_archive_is_made_from_a_list_that_names_what_there_is() -> None:
    lines = (ROOT / kernels_build.TEMPLATE).read_text("utf-8").splitlines()
    words = [line.split() for line in lines if line.startswith(("include", "graft"))]
    names = [name for _, *rest in words for name in rest]
    assert {"tests", "docs", "examples", "benchmarks", "udfs", "Makefile"} <= set(names)
    assert all((ROOT / name).exists() for name in names)
