"""The documents are true: blocks run, paths exist, every function and argument is described."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

import dp_sql
from dp_sql.cli.main import main
from dp_sql.engines.duckdb.introspection import DatabaseCatalogue
from dp_sql.errors import PolicyError
from dp_sql.policy import model as policy
from dp_sql.policy.keys import keys_of
from dp_sql.policy.validation import problems
from dp_sql.sql.functions import FUNCTIONS
from dp_sql.sql.ranges import MAX_CONTRIBUTIONS, MAX_EPSILON, MAX_K
from dp_sql.udfs.mechanism import in_words

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
README = DOCUMENTS[0].read_text("utf-8")
POLICY = (ROOT / "docs" / "policy.md").read_text("utf-8")


@pytest.mark.parametrize("block", re.findall(r"```python\n(.+?)```", README, re.DOTALL))
def test_a_python_block_of_the_readme_runs(block: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", block],
        cwd=tmp_path, capture_output=True, text=True, check=False, encoding="utf-8",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "┌" in done.stdout


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_path_named_in_a_document_exists(document: Path) -> None:
    text = document.read_text("utf-8")
    named = set(re.findall(r"\]\((?!http)([^)#]+)\)", text))
    for path in named:
        assert (document.parent / path).exists(), path
    for path in re.findall(
        r"\b(?:dp_sql|udfs|tests|benchmarks|examples)/[\w/]+\.(?:py|md)\b", text
    ):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_and_argument_is_in_the_readme(name: str) -> None:
    assert f"`{name}(" in README
    for argument in FUNCTIONS[name].named:
        assert f"| `{argument}` |" in README
    for mechanism in FUNCTIONS[name].mechanisms:
        assert f"`{mechanism}`" in README


def test_the_ranges_in_the_readme_are_the_ranges_in_the_code() -> None:
    assert f"1e-9 to {MAX_EPSILON} " in README
    assert f"1 to {MAX_CONTRIBUTIONS}, default 100" in README
    assert f"k is from 1 to {MAX_K} " in README


def test_every_mechanism_has_its_proof_beside_it() -> None:
    for name in ("topk/joint", "count_distinct/matching", "select/gem", "exact_sampling"):
        text = (ROOT / "udfs" / f"{name}.md").read_text("utf-8").lower()
        assert "proof" in text


def test_every_target_in_the_readme_is_in_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for target in set(re.findall(r"(?:`|^)make ([a-z-]+)", README, re.MULTILINE)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_ci_calls_the_test_command_of_the_readme() -> None:
    assert "\nmake test\n" in (ROOT / ".ci" / "run").read_text("utf-8")
    assert re.search(r"^make test +#", README, re.MULTILINE)


def test_the_command_lines_options_are_shown_by_its_help(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["shell", "--help"]) == 0
    shown = capsys.readouterr().out
    for option in ("--csv", "--json", "--receipts", "--read-only", "--command"):
        assert option in shown


def test_every_public_name_has_a_docstring() -> None:
    for name in dp_sql.__all__:
        assert getattr(dp_sql, name).__doc__


def test_every_key_of_a_policy_is_in_its_document() -> None:
    sections = [key for key in policy.TOP_KEYS if key != "unique_per_person"]
    for key in sections:
        assert re.search(rf"^### `\[{key}[.\]]", POLICY, re.MULTILINE), key
    for key in (*keys_of(policy.TableKeys), "link", "to", *keys_of(policy.ListKeys)):
        assert f"| `{key}` |" in POLICY
    for key, declared in keys_of(policy.Limits).items():
        if not declared.kind.ends:
            continue
        low, high = declared.kind.ends
        shown = f"{float(low):g}".replace("e-0", "e-")
        assert f"| `{key}` | {shown} | {in_words(high)} |" in POLICY


POLICY_DATABASE = """
CREATE TABLE ratings (user_id BIGINT, title VARCHAR, region VARCHAR);
CREATE TABLE orders (order_id BIGINT, user_id BIGINT);
CREATE TABLE order_items (order_id BIGINT, article VARCHAR);
CREATE TABLE catalog (title VARCHAR);
CREATE TABLE regions (region VARCHAR);
CREATE VIEW recent_ratings AS FROM ratings;
"""


def test_the_policy_in_its_document_fits_a_database() -> None:
    (example,) = re.findall(r"```toml\n(.+?)```", POLICY, re.DOTALL)
    with duckdb.connect() as connection:
        connection.execute(POLICY_DATABASE)
        assert problems(policy.parse_policy(example), DatabaseCatalogue(connection)) == []


def test_the_refusals_in_the_policys_document_are_what_is_said() -> None:
    (example,) = re.findall(r"```toml\n(.+?)```", POLICY, re.DOTALL)
    refusal, *told = re.findall(r"^(?:PolicyError: )?policy\.toml, .+", POLICY, re.MULTILINE)
    with pytest.raises(PolicyError) as raised:
        policy.parse_policy(example.replace("privacy_unit", "privacy_unt", 1), "policy.toml")
    assert refusal == f"PolicyError: {raised.value}"
    with duckdb.connect() as connection:
        connection.execute(POLICY_DATABASE)
        connection.execute("INSERT INTO ratings VALUES (1, 'x', 'north'), (1, 'x', NULL)")
        connection.execute("INSERT INTO orders VALUES (1, 1), (1, 2)")
        catalogue = DatabaseCatalogue(connection)
        mistyped = problems(policy.parse_policy(example.replace("user_id", "usr_id", 1)), catalogue)
        untrue = problems(policy.parse_policy(example), catalogue)
    assert {f"policy.toml, {problem}" for problem in (*mistyped, *untrue)} == set(told)
