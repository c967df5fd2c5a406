"""docs/who_counts_distinct.md: COUNT(DISTINCT item) by each library, at limits that a user may guess."""

import json
import os
import platform
import sys
import tempfile
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.rivals.page import Results, answer_of, as_json, libraries_of, percent, table
from benchmarks.rivals.questions import QUESTIONS
from benchmarks.rivals.texts import CALLS, DISTINCT, DISTINCT_HOW, NAMES, OURS

RESULTS = Path(__file__).with_name("distinct.json")
PAGE = Path(__file__).parents[2] / "docs" / "who_counts_distinct.md"
PICTURE = PAGE.with_suffix(".svg")
TABLES = {"distinct": "readers", "distinct_shop": "shop"}
"""Of each question that is asked here, the word that stands for its data."""
LIMITS = (1, 10, 30, 100, 300, 1000)
"""The rows that a person may have at most, where a library asks its user for that."""


def write_questions(folder: Path) -> dict[str, int]:
    """Write the tables, and each question once for every limit; returns the true numbers."""
    import duckdb

    from benchmarks.rivals.data import tables
    from benchmarks.rivals.questions import ask

    with duckdb.connect() as con:
        tables(con)
        asked = [ask(con, one) for one in QUESTIONS if one.key in TABLES]
        for one in asked:
            name = one.question.table
            con.execute(f"COPY {name} TO '{folder / name}.parquet'")
    every = []
    for one in asked:
        for limit in LIMITS:
            key = f"{TABLES[one.question.key]} {limit}"
            question = replace(one.question, key=key, guessed=False)
            every.append(asdict(replace(one, question=question, rows=limit)))
    (folder / "questions.json").write_text(json.dumps(every), "utf-8")
    return {TABLES[one.question.key]: round(one.truth) for one in asked}


def _found(results: Results, library: str, data: str, limit: int) -> dict[str, Any]:
    return answer_of(results, library, f"{data} {limit}")


def _cell(one: dict[str, Any]) -> str:
    if one.get("status") != "answered":
        return "fails" if one else "–"
    said, low, high = (percent(max(1 + end, 0)) for end in (one["bias"], *one["spread"]))
    said = f"wrong: {said}" if one.get("wrong") else said
    return said if low == high else f"{said} ({low} to {high})"


def calls(results: Results) -> list[str]:
    """What was called, of which version, and how it deals with a person's many items."""
    rows = []
    for name in libraries_of(results):
        package, version = next(iter(results["libraries"][name]["versions"].items()))
        rows.append([f"{NAMES[name]} (`{package}` {version})", *CALLS[name]])
    return table(["library", "call", "a person with many items"], rows)


def answers(results: Results, data: str) -> list[str]:
    """The answers at each limit, as shares of the true number, of those who need one."""
    rows = []
    for name in libraries_of(results):
        found = [_found(results, name, data, limit) for limit in LIMITS]
        if name != OURS and found[0].get("status") != "refused":
            rows.append([NAMES[name], *map(_cell, found)])
    return table(["library", *(f"limit {limit}" for limit in LIMITS)], rows)


def ahead(results: Results, data: str) -> str:
    """The limits at which another library's median error is smaller than dp_sql's."""
    ours = _found(results, OURS, data, LIMITS[0])["error"]
    named = [
        f"{NAMES[name]} with a limit of {limit} ({percent(one['error'])})"
        for name in libraries_of(results)
        for limit in LIMITS
        if name != OURS and (one := _found(results, name, data, limit)).get("error", ours) < ours
        if not one.get("wrong")
    ]
    return f"dp_sql's median error is {percent(ours)}. Smaller: {', '.join(named) or 'none'}."


def page(results: Results) -> str:
    """The page, from the stored results alone."""
    lines = [*DISTINCT, *calls(results), "", "## Answers at each limit", ""]
    lines += ["The median answer as a share of the true number, and where 90 % of the answers lie."]
    lines += ["A dash marks a limit that was not tried."]
    for data, truth in results["truth"].items():
        title = next(one.title for one in QUESTIONS if TABLES.get(one.key) == data)
        ours = _cell(_found(results, OURS, data, LIMITS[0]))
        lines += ["", f"### {title.capitalize()}", ""]
        lines += [f"The true number is {truth:,}. dp_sql, without a limit: **{ours}**.", ""]
        lines += [*answers(results, data), "", ahead(results, data)]
    lines += ["", *DISTINCT_HOW, f"- Run on {results['date']}, {results['machine']}."]
    missing = [NAMES[one] for one in NAMES if one not in libraries_of(results)]
    if missing:
        one = "the [comparison](comparison.md) has answers at one limit"
        lines += [f"- Not run at these limits: {', '.join(missing)}; {one}."]
    return "\n".join(lines) + "\n"


def draw(results: Results) -> None:
    """Write the picture: answers over limits, one panel for each table."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from benchmarks.rivals.picture import COLOURS, MARKS

    mpl.rcParams.update({"svg.hashsalt": "distinct", "svg.fonttype": "none", "font.size": 9})
    figure = Figure(figsize=(10, 4.4), layout="constrained", facecolor="white")
    panels: Any = figure.subplots(1, 2, sharey=True)
    for axes, (data, truth) in zip(panels, results["truth"].items(), strict=True):
        axes.axhline(100, color="black", linewidth=1, linestyle=":")
        for name in libraries_of(results):
            found = [(at, _found(results, name, data, at)) for at in LIMITS]
            points = [(at, one) for at, one in found if one.get("status") == "answered"]
            if not points:
                continue
            if name == OURS:  # it takes no limit: the first answers count for all
                points = [(at, points[0][1]) for at, _ in points]
            x, middle = [at for at, _ in points], [100 + 100 * one["bias"] for _, one in points]
            low, high = ([100 + 100 * one["spread"][end] for _, one in points] for end in (0, 1))
            style = {"color": COLOURS[name], "zorder": 3 if name == OURS else 2}
            axes.fill_between(x, low, high, alpha=0.15, linewidth=0, **style)
            label = NAMES[name] + (": counts rows" if points[0][1].get("wrong") else "")
            line = "--" if name == OURS else "-"
            axes.plot(x, middle, line, marker=MARKS[name], markersize=5, label=label, **style)
        axes.set_xscale("log")
        axes.set_xticks(LIMITS, [str(limit) for limit in LIMITS])
        axes.minorticks_off()
        axes.set_ylim(0, 160)
        axes.set_xlabel("the limit on a person's rows that the user guesses (dp_sql needs none)")
        axes.set_title(f"{data}: {truth:,} distinct items")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("answer, % of the true number")
    panels[0].legend(loc="upper left", frameon=False)
    figure.savefig(PICTURE, format="svg", metadata={"Date": None})


def main(chosen: list[str]) -> None:
    """Ask the chosen libraries (by default all), and write the results, the page, the picture."""
    from benchmarks.rivals.__main__ import LIBRARIES, run

    stored = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() and chosen else {}
    libraries = stored.get("libraries", {})
    with tempfile.TemporaryDirectory() as name:
        truth = write_questions(Path(name))
        for library in chosen or LIBRARIES:
            libraries[library] = run(library, Path(name))
    results = {
        "date": date.today().isoformat(),
        "machine": f"Python {platform.python_version()}, {os.cpu_count()} cores",
        "truth": truth,
        "libraries": {name: libraries[name] for name in LIBRARIES if name in libraries},
    }
    RESULTS.write_text(as_json(results) + "\n", "utf-8")
    PAGE.write_text(page(results), "utf-8")
    draw(results)


if __name__ == "__main__":
    libraries = [
        one for one in sys.argv[1:] if ":" not in one
    ]  # others name a question of the comparison
    if libraries or not sys.argv[1:]:
        main(libraries)
