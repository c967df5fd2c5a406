"""The notebook and the quickstart run from beginning to end, and say what they promise to say."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOK = EXAMPLES / "notebook.ipynb"


@pytest.mark.thorough
def test_the_quickstart_asks_and_spends_what_it_says() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / "quickstart.py")],
        capture_output=True, text=True, check=False, encoding="utf-8",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "epsilon = 0.6 of 0.6 for ann; 0.1 after" in done.stdout
    assert "most_read" in done.stdout
    assert "│ ann     │ epsilon │    0.5 │       0.1 │" in done.stdout


def stored() -> list[dict[str, Any]]:
    """The outputs in the file: `jupyter execute --inplace examples/notebook.ipynb` writes them."""
    return [
        output
        for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
        for output in cell.get("outputs", [])
    ]


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The outputs of all cells, after a kernel of its own ran them."""
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    pytest.importorskip("matplotlib", reason="the plot extra is not installed")
    home = tmp_path_factory.mktemp("jupyter")
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR"):
            patch.setenv(name, str(home / name))
        patch.delenv("MPLBACKEND", raising=False)  # other tests' libraries may have set it
        notebook = nbformat.read(NOTEBOOK, as_version=4)
        nbclient.NotebookClient(
            notebook, timeout=120, kernel_name="python3", coalesce_streams=True
        ).execute(cwd=str(home))
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def texts(outputs: list[dict[str, Any]]) -> str:
    parts = [one.get("text") or one.get("data", {}).get("text/plain", "") for one in outputs]
    return "\n".join("".join(part) for part in parts)


def check(outputs: list[dict[str, Any]]) -> None:
    """What the notebook promises is among its outputs, and no private row and no path is."""
    said = texts(outputs)
    assert "epsilon = 2 of 2 for all together; 1.8 after" in said
    assert "each listed item has at most 95 people fewer" in said  # as the notebook explains
    assert "The largest epsilon that still fits is 1." in said
    assert said.rstrip().endswith("left: 0.75")
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert "ratings is private" in said and "user_id" not in said and "/" not in said


def test_the_notebook_is_stored_with_the_outputs_that_it_promises() -> None:
    check(stored())


def test_the_notebook_runs_and_prints_the_like_of_what_is_stored(
    executed: list[dict[str, Any]],
) -> None:
    check(executed)
    kinds = [(one["output_type"], sorted(one.get("data", {}))) for one in executed]
    assert kinds == [(one["output_type"], sorted(one.get("data", {}))) for one in stored()]
