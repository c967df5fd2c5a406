"""`python -m benchmarks.rivals`: ask every library, write results.json, the page and its picture.

Arguments are libraries to ask again, all questions or some: `dp_sql opendp:q6,sum`.
"""

import itertools
import json
import os
import platform
import subprocess
import sys
import tempfile
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.rivals.data import tables
from benchmarks.rivals.page import as_json, write_page
from benchmarks.rivals.picture import draw
from benchmarks.rivals.questions import QUESTIONS, ask

LIBRARIES = ("dp_sql", "opendp", "smartnoise", "pipelinedp", "tumult", "qrlew")
LIMIT = 600
"""The seconds after which a library is asked nothing more."""
ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).with_name("results.json")
ENVIRONMENTS = Path(os.environ.get("RIVALS_ENVIRONMENTS") or ROOT / ".venv-rivals")


def write_tables(folder: Path) -> None:
    """Write the tables and questions that all libraries read."""
    with duckdb.connect() as con:
        made = tables(con)
        for name in made:
            con.execute(f"COPY {name} TO '{folder / name}.parquet'")
        questions = [asdict(ask(con, one)) for one in QUESTIONS if one.table in made]
    (folder / "questions.json").write_text(json.dumps(questions), "utf-8")


def run(chosen: str, folder: Path, stored: dict[str, Any] | None = None) -> dict[str, Any]:
    """Ask one library, or of `library:question,…` some questions, in a process of its environment.

    stored: what other questions have been answered before.
    """
    library, _, questions = chosen.partition(":")
    python = ENVIRONMENTS / library / "bin" / "python"
    if not python.exists():
        return {"missing": f"no environment {python.parent.parent.name}"}
    result = folder / f"{library}.json"
    command = [str(python), "-m", f"benchmarks.rivals.with_{library}", str(folder), str(result)]
    command += questions.split(",") if questions else []
    print(f"{library} …", flush=True)
    try:
        subprocess.run(command, cwd=ROOT, check=False, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        print(f"{library}: no more questions after {LIMIT} seconds", flush=True)
    if not result.exists():
        return {"missing": "its process failed before the first answer"}
    found: dict[str, Any] = json.loads(result.read_text("utf-8"))
    for one in found["questions"].values():
        one["date"] = date.today().isoformat()
    if questions and stored:
        found["questions"] = stored.get("questions", {}) | found["questions"]
    return found


def main(chosen: list[str]) -> None:
    stored = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() and chosen else {}
    libraries = stored.get("libraries", {})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_tables(folder)
        for one in chosen or LIBRARIES:
            library = one.partition(":")[0]
            libraries[library] = run(one, folder, libraries.get(library))
        write_results(libraries, folder, stored)


def write_results(libraries: dict[str, Any], folder: Path, stored: dict[str, Any]) -> None:
    """Write results.json, the page and the picture."""
    questions = json.loads((folder / "questions.json").read_text("utf-8"))
    for name, library in libraries.items():
        answers = library.get("questions", {})
        for one, told in itertools.pairwise(each["question"] for each in questions):
            if told["told"] and name != "dp_sql" and one["key"] in answers:
                answers[told["key"]] = answers[one["key"]]
    results = {
        "date": stored.get("date", date.today().isoformat()),  # of questions without one
        "machine": stored.get("machine")
        or f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.0f}",
        "questions": {one["question"]["key"]: one["question"]["title"] for one in questions},
        "libraries": {name: libraries[name] for name in LIBRARIES if name in libraries},
    }
    RESULTS.write_text(as_json(results) + "\n", "utf-8")
    write_page(results)
    draw(results)


if __name__ == "__main__":
    main(sys.argv[1:])
