"""`python -m benchmarks`: measure everything, print it, and write RESULTS.md next to this file."""

from __future__ import annotations

import os
import platform
from datetime import date
from importlib.metadata import version
from pathlib import Path

import duckdb
import numpy

from benchmarks import alone, contributions, counts, jobs, many_machines, scale
from benchmarks.grouped_counts import grouped_counts
from benchmarks.out_of_core import out_of_core
from benchmarks.quantiles import quantiles
from benchmarks.session_age import session_age
from benchmarks.shared_source import shared_source


def main() -> None:
    versions = (
        f"Python {platform.python_version()}, DuckDB {duckdb.__version__}, "
        f"sqlglot {version('sqlglot')}, numpy {numpy.__version__}, {os.cpu_count()} cores"
    )
    lines = [
        "# Benchmark results",
        "",
        f"Made by `make bench` on {date.today().isoformat()}: {versions}. Times are medians of at",
        "least five alternating rounds. A ratio is the time with privacy divided by the time without, the",
        "median of the rounds' ratios.",
        "",
    ]
    print("\n".join(lines))
    last = (grouped_counts, quantiles, session_age, shared_source, out_of_core)
    for job in (*jobs.ALL, *alone.ALL, *counts.ALL, *last):
        found = job()
        print("\n".join(found), end="\n\n", flush=True)
        lines += [*found, ""]
    contributions.main()
    scale.main()
    many_machines.main()
    Path(__file__).with_name("RESULTS.md").write_text("\n".join(lines[:-1]) + "\n", "utf-8")


if __name__ == "__main__":
    main()
