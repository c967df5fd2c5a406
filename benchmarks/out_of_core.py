"""More pairs than memory holds: `python -m benchmarks.out_of_core [pairs …]` prints this section alone."""

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.pair_files import zipf

SIZES = (10_000_000, 30_000_000, 100_000_000)
CACHE = Path(".cache")  # on the project's disk: what a system calls temporary may be memory
MEMORY = "2GB"
UNIT = "epsilon := 1, privacy_unit := user_id"
PLAIN = "SELECT count(*) FROM (SELECT DISTINCT user_id, item FROM {})"
QUESTIONS = {
    "DP_COUNT_DISTINCT": f"SELECT DP_COUNT_DISTINCT(item, {UNIT}) FROM {{}}",
    "DP_TOPK": f"SELECT DP_TOPK(item, 100, {UNIT}, domain := observed) FROM {{}}",
}
# Numbers of edges and rounds are those of the exact counts from part of the edges.
_PROGRAM = """
import json, resource, sys, time
import dp_sql
from dp_sql.udfs.count_distinct import partial
query, memory, folder = sys.argv[1:]
noted, right = [], partial.PartialCounts
def note(*given):
    noted.append(given)
    return right(*given)
partial.PartialCounts = note
with dp_sql.connect() as session:
    session.execute(f"SET memory_limit = '{memory}'")
    session.execute(f"SET temp_directory = '{folder}'")
    begin = time.perf_counter()
    session.sql(query).fetchall()
    seconds = time.perf_counter() - begin
used = resource.getrusage(resource.RUSAGE_SELF)
with open("/proc/self/status") as status:
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
_, rounds, edges = noted[-1] if noted else (None, None, None)
print(json.dumps({"seconds": seconds, "cpu": used.ru_utime + used.ru_stime, "peak": peak / 1024,
                  "edges": edges, "rounds": rounds}))
"""


def out_of_core(*sizes: int) -> list[str]:
    lines = [
        "## Out of core",
        "",
        f"Rows of a person and an item in one parquet file, read with `memory_limit = '{MEMORY}'` by a process "
        "of its own: its time and its peak memory. A tenth as many people and items as rows, items by Zipf's "
        "law. Baseline: `SELECT count(*) FROM (SELECT DISTINCT user_id, item …)` under the same limit. Goals: at "
        "most 3 ×, under 3,000 MB. Edges are the pairs from which the exact counts were computed, rounds how "
        "often they were asked for; all pairs at once where no number is shown.",
        "",
        "| pairs | question | seconds | ratio | ratio of CPU time | MB | edges | rounds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for size in sizes or SIZES:
        source = f"read_parquet('{zipf(CACHE / 'pairs', size)}')"
        base = measured(PLAIN.format(source))
        lines.append(_row(size, "DISTINCT", base, base))
        for name, question in QUESTIONS.items():
            lines.append(_row(size, name, measured(question.format(source)), base))
    return lines


def measured(query: str) -> dict[str, Any]:
    with TemporaryDirectory(dir=CACHE) as folder:
        words = [sys.executable, "-c", _PROGRAM, query, MEMORY, folder]
        done = subprocess.run(words, check=False, capture_output=True, text=True)
    if done.returncode:
        return {"failure": done.stderr.strip().splitlines()[-1][:60]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _row(size: int, name: str, found: dict[str, Any], base: dict[str, Any]) -> str:
    if "failure" in found:
        return f"| {size:,} | {name} | failed: {found['failure']} | | | | | |"
    ratios = (found[kind] / base[kind] for kind in ("seconds", "cpu"))
    edges = "" if found["edges"] is None else f"{found['edges']:,}"
    return (
        f"| {size:,} | {name} | {found['seconds']:.1f} | {' | '.join(f'{x:.2f}' for x in ratios)} "
        f"| {found['peak']:,.0f} | {edges} | {found['rounds'] or ''} |"
    )


if __name__ == "__main__":
    print("\n".join(out_of_core(*map(int, sys.argv[1:]))))
