"""What the documents name exists: links, paths, functions, mechanisms, ranges, targets, folders."""

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import dp_sql
from dp_sql.sql.functions import FUNCTIONS
from dp_sql.udfs import REGISTRY
from tests.test_docs import DOCUMENTS, README, ROOT, SQL, TEXT


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_and_path_in_a_document_exists(document: Path) -> None:
    text = document.read_text("utf-8")
    for path, anchor in re.findall(r"\]\((?!http)([^)#]*)(?:#([^)]*))?\)", text):
        target = document.parent / path if path else document
        assert target.exists(), path
        if anchor:
            assert anchor in anchors(target), f"{path}#{anchor}"
    for path in re.findall(r"\b(?:dp_sql|udfs|tests|benchmarks|examples)/[\w/]*\w\.\w+\b", text):
        assert (ROOT / path).exists(), path
    for path in re.findall(r"`((?:dp_sql|udfs|tests|benchmarks|examples)/[\w/]*/)`", text):
        assert (ROOT / path).is_dir(), path


def anchors(document: Path) -> set[str]:
    """The names by which a page's headings can be linked to."""
    headings = re.findall(r"^#+ (.+)$", document.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 150


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_argument_and_mechanism_is_described(name: str) -> None:
    assert f"`{name}(" in README
    assert f"`{name}(" in SQL
    for argument in FUNCTIONS[name].named:
        assert f"| `{argument}` |" in SQL


@pytest.mark.parametrize("mechanism", [name for names in REGISTRY.values() for name in names])
def test_every_mechanism_is_described(mechanism: str) -> None:
    in_sql = any(mechanism in function.mechanisms for function in FUNCTIONS.values())
    assert f"`{mechanism}`" in SQL or not in_sql
    row = rf"^\| `{mechanism}` .*\(\[proof\]\("
    assert re.search(row, TEXT["mechanisms.md"], re.MULTILINE)


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        ("DP_TOPK(title, 1, epsilon := 0, {})", "a number from 1e-9 to 10000; required"),
        ("DP_TOPK(title, 0, epsilon := 1, {})", "k is from 1 to 100000 "),
        ("DP_TOPK(title, 1, epsilon := 1, delta := 1, {})", "from 1e-18 to below 0.001;"),
        ("DP_TOPK(title, 1, epsilon := 1, beta := 1, {})", "between 1e-12 and 0.5;"),
        (
            "region, DP_TOPK(title, 1, epsilon := 1, max_groups_contributed := 0, "
            "groups := ['north'], domain := ['Dune'], {})",
            "1 to 1000 ",
        ),
        ("DP_COUNT_DISTINCT(title, epsilon := 1, max_contributions := 0, {})", "1 to 10000,"),
    ],
)
def test_a_range_in_the_document_is_the_range_in_the_code(call: str, shown: str) -> None:
    assert shown in SQL
    with dp_sql.connect() as session:
        session.execute(
            "CREATE TABLE ratings AS SELECT 1 AS user_id, 'Dune' AS title, 'north' AS region"
        )
        with pytest.raises(dp_sql.QueryError) as raised:
            grouped = "GROUP BY region" if "groups" in call else ""
            session.sql(f"SELECT {call.format('privacy_unit := user_id')} FROM ratings {grouped}")
    numbers = r"(?<![\w.])\d+(?:\.\d+)?(?:e-\d+)?(?![\w])"
    said = re.findall(numbers, raised.value.message)[:2]
    assert [*map(float, said)] == [*map(float, re.findall(numbers, shown))]


def test_every_mechanism_has_its_proof_next_to_it() -> None:
    notes = re.findall(r"\[proof\]\(\.\./([^)]+)\)", TEXT["mechanisms.md"])
    assert len(notes) == sum(len(mechanisms) for mechanisms in REGISTRY.values())
    for note in (*notes, "udfs/exact_sampling.md"):
        assert "proof" in (ROOT / note).read_text("utf-8").lower(), note


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_target_in_a_document_is_in_the_makefile(document: Path) -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for target in re.findall(r"(?:`|^)make ([a-z-]+)", document.read_text("utf-8"), re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_every_target_of_a_workflow_is_in_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for workflow in (ROOT / ".github" / "workflows").iterdir():
        targets = re.findall(r"(?:target:|make) ([a-z-]+)", workflow.read_text("utf-8"))
        assert targets and all(re.search(rf"^{one}:", makefile, re.MULTILINE) for one in targets)


def test_a_release_names_the_repository_that_it_is_built_in(tmp_path: Path) -> None:
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8")
    adds = re.findall(r"- run: (.+ >> pyproject\.toml)$", workflow, re.MULTILINE)
    assert len(adds) == 2 and len(set(adds)) == 1  # before the source archive and the wheels
    project = tmp_path / "pyproject.toml"  # in a release's archive, less what the workflow added
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    project.write_text(text.partition("\n[project.urls]")[0], "utf-8")
    place = {"GITHUB_SERVER_URL": "https://example.org", "GITHUB_REPOSITORY": "someone/dp_sql"}
    subprocess.run(adds[0], shell=True, check=True, cwd=tmp_path, env=os.environ | place)
    urls = tomllib.loads(project.read_text("utf-8"))["project"]["urls"]
    assert urls == {"Source": "https://example.org/someone/dp_sql"}


def test_ci_calls_the_test_command_of_the_readme() -> None:
    assert "\nmake test\n" in (ROOT / ".ci" / "run").read_text("utf-8")
    assert re.search(r"^make test +#", README, re.MULTILINE)


def test_every_public_name_has_a_docstring() -> None:
    for name in dp_sql.__all__:
        assert getattr(dp_sql, name).__doc__


# The architecture.


def test_the_picture_of_the_architecture_is_the_import_contract() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    (contract,) = (
        found
        for found in project["tool"]["importlinter"]["contracts"]
        if found["type"] == "layers" and "containers" not in found
    )
    layers = [re.findall(r"dp_sql\.(\w+)", layer) for layer in contract["layers"]]
    drawn = re.findall(r"^│(.+?)│(?: {3}|$)", TEXT["architecture.md"], re.MULTILINE)
    assert [re.findall(r"\w+", line) for line in drawn] == layers


def test_every_folder_and_every_dependency_is_in_the_architecture() -> None:
    text = TEXT["architecture.md"]
    folders = [f.parent.name for f in (ROOT / "dp_sql").glob("*/__init__.py")]
    for folder in folders:
        path = "udfs/" if folder == "udfs" else f"dp_sql/{folder}/"
        assert f"| `{path}` |" in text
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = list(project["dependencies"])
    for name, extra in project["optional-dependencies"].items():
        if not name.startswith(("test", "clients", "check")):  # those are named below the table
            wanted += extra
    for requirement in wanted:
        (package,) = re.findall(r"^[\w-]+", requirement)
        assert package == "dp-sql" or re.search(rf"^\|[^|]*\b{package}\b", text, re.MULTILINE)
