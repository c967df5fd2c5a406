"""Tables as CSV and Markdown, and the verdicts at the end. Knows rows, never what they mean."""

import csv
from collections.abc import Sequence
from pathlib import Path

from examples.papers.frame.verdicts import Verdict


def write_table(
    folder: Path, name: str, columns: Sequence[str], rows: Sequence[Sequence[object]], note: str
) -> None:
    """Write NAME.csv, with all digits, and NAME.md, to be read, with a note below.

    Args:
        folder: made if need be.
        name: of the files, without an ending.
        columns: the heads.
        rows: numbers, strings, or None for an empty cell.
        note: a sentence that says how many trials the numbers rest on.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(["" if cell is None else cell for cell in row] for row in rows)
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(shown(cell) for cell in row) + " |" for row in rows]
    text = "\n".join(lines) + f"\n\n{note}\n"
    (folder / f"{name}.md").write_text(text, encoding="utf-8")


_RANGES = (
    "The range is where the paper's value lies 99 times in 100 if its trials are like ours. All "
    "draws are from the operating system; there is no seed."
)


def write_verdicts(
    folder: Path, paper: str, verdicts: Sequence[Verdict], note: str = _RANGES
) -> None:
    """Write the verdicts on one paper's printed values, and print how many agree.

    Args:
        folder: where the table goes.
        paper: the name of its script.
        verdicts: in the order of the table.
        note: is printed below it: what its ranges or errors are.
    """
    rows = [
        (
            verdict.what,
            verdict.printed,
            verdict.ours,
            None if verdict.range is None else " – ".join(shown(end) for end in verdict.range),
            "inside" if verdict.inside else "OUTSIDE",
            verdict.trials,
            verdict.why,
        )
        for verdict in verdicts
    ]
    columns = ["what", "printed", "ours", "range", "verdict", "trials: ours / the paper's", "why"]
    write_table(folder, f"{paper}_verdicts", columns, rows, note)
    inside = sum(verdict.inside for verdict in verdicts)
    print(f"{paper}: {inside} of {len(verdicts)} printed values and claims inside.")
    for verdict in verdicts:
        if not verdict.inside:
            where = "" if verdict.range is None else f", range {_ends(verdict.range)}"
            print(
                f"  outside: {verdict.what}: printed {shown(verdict.printed)}, ours "
                f"{shown(verdict.ours)}{where}. {verdict.why}"
            )


def shown(cell: object) -> str:
    """Write a cell for a reader: four digits of a float, nothing for None.

    >>> shown(1319.1), shown(0.03), shown(12345.6), shown(None), shown("a"), shown(2.0)
    ('1319', '0.03', '12346', '', 'a', '2')
    """
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:.0f}" if abs(cell) >= 1000 else f"{cell:.4g}"
    return str(cell)


def _ends(ends: tuple[float, float]) -> str:
    return f"{shown(ends[0])} to {shown(ends[1])}"
