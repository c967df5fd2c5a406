"""`python -m benchmarks [name …]`: measure everything, or what is named, and write RESULTS.md.

Each section says when it was measured; the sections of what is not named stay as they are.
"""

import os
import platform
import sys
from collections.abc import Callable, Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path

import duckdb
import numpy

from benchmarks import alone, contributions, counts, jobs, many_machines, scale
from benchmarks.grouped_counts import grouped_counts
from benchmarks.groups import groups, histograms
from benchmarks.out_of_core import out_of_core
from benchmarks.quantiles import quantiles
from benchmarks.session_age import session_age
from benchmarks.shared_source import shared_source
from benchmarks.small_tables import small_tables

RESULTS = Path(__file__).with_name("RESULTS.md")
LAST = (
    groups, histograms, grouped_counts, quantiles, session_age, shared_source, small_tables, out_of_core,
)  # fmt: skip
SECTIONS = {job.__name__: job for job in (*jobs.ALL, *alone.ALL, *counts.ALL, *LAST)}
PAGES: dict[str, Callable[[], None]] = {  # these write pages of docs/
    "contributions": contributions.main, "scale": scale.main, "many_machines": many_machines.main,
}  # fmt: skip
HEAD = """# Benchmark results

Made by `make bench`. Times are medians of at least five alternating rounds. A ratio is the time with
privacy divided by the time without, the median of the rounds' ratios."""


def main(names: Sequence[str]) -> None:
    for name in names or (*SECTIONS, *PAGES):
        if name in SECTIONS:
            found = "\n".join(SECTIONS[name]())
            print(found, end="\n\n", flush=True)
            write(found)
        else:
            PAGES[name]()


def write(section: str) -> None:
    """Put a section in the place of the one of the same heading, or at the end."""
    heading, _, body = section.partition("\n\n")
    made = (
        f"*{date.today().isoformat()}: Python {platform.python_version()}, DuckDB {duckdb.__version__}, "
        f"sqlglot {version('sqlglot')}, numpy {numpy.__version__}, {os.cpu_count()} cores*"
    )
    _, *before = RESULTS.read_text("utf-8").split("\n\n## ") if RESULTS.exists() else [""]
    sections = {"## " + one.partition("\n\n")[0]: one.partition("\n\n")[2] for one in before}
    sections[heading] = f"{made}\n\n{body}"
    whole = [HEAD, *(f"{head}\n\n{text.strip()}" for head, text in sections.items())]
    RESULTS.write_text("\n\n".join(whole) + "\n", "utf-8")


if __name__ == "__main__":
    if unknown := set(sys.argv[1:]) - {*SECTIONS, *PAGES}:
        raise SystemExit(
            f"There is no {', '.join(sorted(unknown))}; there are: {', '.join([*SECTIONS, *PAGES])}"
        )
    main(sys.argv[1:])
