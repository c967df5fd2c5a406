"""docs/comparison.md from the stored results. Only the standard library is needed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.rivals.texts import CHECKED, FOUND, HOW, INTRODUCTION, MISSING, NAMES, OURS

PAGE = Path(__file__).parents[2] / "docs" / "comparison.md"
Results = dict[str, Any]


def as_json(results: object, levels: int = 4) -> str:
    """Results as they are stored: a line for each answer, which is the fourth level of names."""
    if not levels or not isinstance(results, dict):
        return json.dumps(results, ensure_ascii=False)
    lines = (f"{json.dumps(name)}: {as_json(one, levels - 1)}" for name, one in results.items())
    return "{\n" + ",\n".join(lines) + "\n}"


def percent(share: float) -> str:
    """0.00123 → "0.12 %", with two digits that count."""
    value = 100 * share
    if value == 0:
        return "0 %"
    if value >= 1000:
        return "over 1000 %"
    if value >= 10:
        return f"{value:.0f} %"
    return f"{value:.1f} %" if value >= 1 else f"{value:.2g} %"


def table(head: list[str], rows: Iterator[list[str]] | list[list[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(cells) + " |" for cells in lines]


def answer_of(results: Results, library: str, key: str) -> dict[str, Any]:
    """What came of a question; nothing if the library was not asked."""
    found: dict[str, Any] = results["libraries"][library].get("questions", {}).get(key, {})
    return found


def libraries_of(results: Results) -> list[str]:
    """The libraries that were asked, in the order of the page."""
    return [name for name in NAMES if "questions" in results["libraries"].get(name, {})]


def _answered(results: Results, key: str) -> dict[str, dict[str, Any]]:
    every = {name: answer_of(results, name, key) for name in libraries_of(results)}
    return {
        name: one
        for name, one in every.items()
        if one.get("status") == "answered" and not one.get("wrong")
    }


def _error_cell(results: Results, library: str, key: str) -> str:
    one = answer_of(results, library, key)
    if one.get("status") != "answered":
        status = one.get("status", "")
        return {"refused": "no such question", "failed": "fails"}.get(status, "no answer")
    if one.get("wrong"):
        return f"wrong: {percent(one['error'])}"
    best = min(other["error"] for other in _answered(results, key).values())
    shown = percent(one["error"])
    shown = f"**{shown}**" if _ties(one["error"], best) else shown
    return f"{shown} ({percent(one['error_95'])})"


def errors(results: Results) -> list[str]:
    """The table for a reader with little time."""
    libraries = libraries_of(results)
    head = ["question", *(NAMES[name] for name in libraries)]
    return table(
        head,
        (
            [title, *(_error_cell(results, name, key) for name in libraries)]
            for key, title in results["questions"].items()
        ),
    )


def _ties(one: float, other: float) -> bool:
    """Within 5 % of the larger, or closer than one person in ten thousand."""
    return abs(one - other) <= max(0.05 * max(one, other), 0.0001)


def _apart(one: float, other: float) -> tuple[str, str]:
    """Two errors that differ, with a third digit if two do not show it."""
    if percent(one) != percent(other):
        return percent(one), percent(other)
    return f"{100 * one:.3g} %", f"{100 * other:.3g} %"


def compared(results: Results) -> list[str]:
    """Where the others are better and where dp_sql is, computed so that it stays true."""
    worse: list[str] = []
    better = equal = asked = 0
    for key, title in results["questions"].items():
        every = _answered(results, key)
        ours = every.pop(OURS, None)
        if not every:
            continue
        asked += 1
        best = min(every, key=lambda name: every[name]["error"])
        error = every[best]["error"]
        if ours is None:
            worse.append(f"- {title}: dp_sql gives no answer; {NAMES[best]} has {percent(error)}.")
        elif _ties(ours["error"], error):
            equal += 1
        elif ours["error"] > error:
            times = f"{ours['error'] / error:.1f} ×" if error else "exact"
            theirs, our = _apart(error, ours["error"])
            worse.append(f"- {title}: {NAMES[best]} has {theirs} where dp_sql has {our} ({times}).")
        else:
            better += 1
    lines = [
        f"Of {asked} questions that at least one other library answers, dp_sql has the smallest median "
        f"error in {better}, ties (within 5 %) in {equal}, and is behind in {len(worse)}"
        + (":" if worse else "."),
    ]
    return [*lines, *(["", *worse] if worse else [])]


def guesses(results: Results) -> list[str]:
    """What a worse guess of the bound costs."""
    rows = []
    for key, title in results["questions"].items():
        for name, one in _answered(results, key).items():
            tried = one.get("guesses", {})
            cells = [tried.get(factor, {}) for factor in ("0.2", "5.0")]
            if not tried or not all("error" in cell for cell in cells):
                continue
            low, high = (f"{percent(cell['error'])}" for cell in cells)
            rows.append([title, NAMES[name], one["needs"], low, percent(one["error"]), high])
        ours = _answered(results, key).get(OURS)
        if ours and rows and rows[-1][0] == title:
            same = percent(ours["error"])
            rows.append([title, NAMES[OURS], "none", same, same, same])
    head = ["question", "library", "bound", "a fifth of it", "the bound", "five times it"]
    return table(head, rows)


def checks(results: Results) -> list[str]:
    """What is known about each library, and the results of its checks."""
    lines: list[str] = []
    for name in libraries_of(results):
        if name not in CHECKED:
            continue
        lines += [f"- {CHECKED[name]}"]
        for what, answer in results["libraries"][name].get("checks", {}).items():
            lines.append(f"    - *checked*: {what}: `{answer}`")
    return lines


def luckier(results: Results) -> list[str]:
    """Where another guess than the 95 % quantile is ahead of dp_sql."""
    said = []
    words = {"0.2": "a fifth of the bound", "5.0": "five times the bound"}
    for key, title in results["questions"].items():
        ours = _answered(results, key).get(OURS)
        for name, one in _answered(results, key).items():
            for factor, tried in one.get("guesses", {}).items():
                error = tried.get("error")
                if ours is None or error is None or _ties(ours["error"], error):
                    continue
                if error < ours["error"]:
                    said.append(
                        f"- {title}, {words[factor]}: {NAMES[name]} has {percent(error)} where "
                        f"dp_sql has {percent(ours['error'])}."
                    )
    return ["", "Guesses that are ahead of dp_sql:", "", *said] if said else []


def times(results: Results) -> list[str]:
    libraries = libraries_of(results)

    def cell(library: str, key: str) -> str:
        one = answer_of(results, library, key)
        if one.get("status") != "answered":
            return "–"
        milliseconds = 1000 * one["seconds"]
        return f"{milliseconds:.{int(milliseconds < 1)}f} ms ({one['ratio']:.0f} ×)"

    return table(
        ["question", *(NAMES[name] for name in libraries)],
        (
            [title, *(cell(name, key) for name in libraries)]
            for key, title in results["questions"].items()
        ),
    )


def needs(results: Results) -> list[str]:
    """The bounds that each user had to know, or why there is no answer."""
    libraries = [name for name in libraries_of(results) if name != OURS]

    def cell(library: str, key: str) -> str:
        one = answer_of(results, library, key)
        said = [one.get("needs", ""), one.get("wrong") or one.get("note", "")]
        return "; ".join(filter(None, said)).replace("|", "\\|") or "none"

    return table(
        ["question", *(NAMES[name] for name in libraries)],
        (
            [title, *(cell(name, key) for name in libraries)]
            for key, title in results["questions"].items()
        ),
    )


def statements(results: Results) -> list[str]:
    """What dp_sql was asked, as SQL."""
    asked = [
        one["note"] + ";"
        for key in results["questions"]
        if (one := answer_of(results, OURS, key)).get("status") == "answered"
    ]
    return ["```text", *asked, "```"]


def _dates(questions: dict[str, Any], of_others: str) -> str:
    """When a library was asked; a question without a date, with the others."""
    return " and ".join(sorted({one.get("date", of_others) for one in questions.values()}))


def run_on(results: Results) -> list[str]:
    """When, where and with which versions it was run, and what was not run."""
    versions = "; ".join(
        f"{NAMES[name]} ({_dates(one['questions'], results['date'])}): "
        + ", ".join(f"{what} {which}" for what, which in one["versions"].items())
        for name in libraries_of(results)
        for one in [results["libraries"][name]]
    )
    absent = [
        f"- {NAMES[name]}: {one['missing']}."
        for name, one in results["libraries"].items()
        if "missing" in one
    ]
    runs = [
        one["runs"]
        for name in libraries_of(results)
        for one in results["libraries"][name]["questions"].values()
        if "runs" in one
    ]
    return [
        f"Run on {results['machine']}, {min(runs)} to {max(runs)} times each. {versions}.",
        "",
        *MISSING,
        *absent,
    ]


def page(results: Results) -> str:
    """The whole page."""
    lines = [
        *INTRODUCTION,
        "",
        *errors(results),
        "",
        *compared(results),
        "",
        "![The errors of each library, and what a worse guess of the bound costs](comparison.svg)",
        "",
        "## When the guess is wrong",
        "",
        "The bounds above are the data's own 95 % quantiles, which no user of a private table may look up.",
        "Here the same questions have a fifth of that bound, and five times it:",
        "",
        *guesses(results),
        *luckier(results),
        "",
        *FOUND,
        *checks(results),
        "",
        "## Time",
        "",
        "The median time of an answer, and its ratio to plain DuckDB on the same question; the two take turns. Loading the",
        "data is not included. Plain DuckDB takes a few milliseconds for most of these questions, so the ratios are large,",
        "and such small tables put libraries that are made for clusters at a disadvantage. A dash means no answer.",
        "",
        *times(results),
        "",
        *HOW,
        "",
        "The bounds that the others were given, and remarks:",
        "",
        *needs(results),
        "",
        "The statements of dp_sql (`public_set` holds the public items or groups):",
        "",
        *statements(results),
        "",
        *run_on(results),
    ]
    return "\n".join(lines).rstrip() + "\n"


def write_page(results: Results) -> None:
    PAGE.write_text(page(results), "utf-8")
