"""`python -m benchmarks.many_machines`: what a distinct count of 10^11 pairs on 100 machines would take.

Writes a section of docs/scale.md. Spark's workers run here without Spark: the same functions over
the same parts, one after the other.
"""

import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import dp_sql
from benchmarks.measure import in_fresh_process
from benchmarks.out_of_core import CACHE, UNIT
from benchmarks.pair_files import zipf
from benchmarks.scale import PAGE, of_sample, percent, table, written
from dp_sql.engines.by_parts import ByParts
from dp_sql.engines.protocol import Pairs, PartedQuestion
from dp_sql.engines.spark import parts
from dp_sql.engines.spark.jobs import SparkJobs, _Slices, parts_of
from dp_sql.engines.spark.question_sql import BoundQuestion, incoming
from dp_sql.privacy.plans.plan import drawn_from
from dp_sql.sql.statement import parse
from dp_sql.udfs.count_distinct.graph import LIMIT

HEADING = "## 10¹¹ pairs on 100 machines"
COLUMNS = [("user_id", "BIGINT"), ("item", "BIGINT")]
SPARK = 49 * 2 / 10  # core microseconds for a pair: see the page
PAIRS, MACHINES, CORES = 10**11, 100, 16


class LocalJobs(SparkJobs):
    """Spark's jobs in this process. rows: a table of people and items."""

    def __init__(self, rows: pa.Table, n_parts: int) -> None:
        super().__init__(object(), lambda _: (None, COLUMNS), n_parts)
        self._rows, self._split = rows, n_parts
        self.rounds: list[Pairs] = []  # what the driver was sent
        self.seconds = 0.0  # of CPU time, without the driver's

    def _chosen(self, question: PartedQuestion, chosen: parts.Chosen) -> Pairs:
        begin = time.process_time()
        self.rounds.append(super()._chosen(question, chosen))
        self.seconds += time.process_time() - begin
        return self.rounds[-1]

    def _merged(self, bound: BoundQuestion, merge: parts.Task) -> _Slices:
        work, slices = bound.work(merge.n_slices), defaultdict[int, list[parts.Piece]](list)
        people = self._rows.column("user_id").to_numpy().astype(np.uint64)
        part_of = (people * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(40)) % self._split
        for number in range(self._split):
            mine = self._rows.filter(pa.array(part_of == number))
            names = [parts.PART, parts.SOURCE, incoming(0, 0), incoming(0, 1)]
            same = [pa.array(np.full(mine.num_rows, x, np.int32)) for x in (number, 0)]
            sent = pa.table([*same, *mine.columns], names=names).to_batches(1 << 16)
            for piece in parts.pieces_in(parts.answer_parts(sent, work)):
                slices[piece[0]].append(piece)
        merged: list[parts.Piece] = []
        for number, pieces in sorted(slices.items()):
            merged += parts.merge_slice(merge, number, pieces)
        return _Slices(bound, merge.n_slices, merged)


class Counted(NamedTuple):
    """A distinct count before its draw. seconds: of the driver's CPU time."""

    counts: list[int]  # under each bound
    rounds: list[Pairs]
    seconds: float

    @property
    def n_edges(self) -> int:
        """Count the pairs that the driver was sent."""
        return sum(len(one.items) for one in self.rounds)


def counted(rows: pa.Table, n_parts: int) -> Counted:
    """Count the items of some pairs by parts."""
    jobs = LocalJobs(rows, n_parts)
    with dp_sql.connect() as session:
        session.execute("CREATE TABLE pairs (user_id BIGINT, item BIGINT)")
        text = f"SELECT DP_COUNT_DISTINCT(item, {UNIT}) FROM pairs"
        plans = session._plan(parse(text)[0], session._engine(sys._getframe()))
        begin = time.process_time()
        with ByParts(jobs, session.connection).released([drawn_from(plans[0])], ["0"]):
            seconds = time.process_time() - begin - jobs.seconds
            counts = session.connection.execute("SELECT n FROM __dp_merged_0 ORDER BY place")
            return Counted([n for (n,) in counts.fetchall()], jobs.rounds, seconds)


_AGAIN = """
import numpy as np
from types import SimpleNamespace
from dp_sql.udfs.count_distinct import bounded, partial
def answer(number):
    return SimpleNamespace(**np.load(f"{folder}/{number}.npz"))
n_people, left = int(answer(0).n_people), iter(range(n_rounds))
given = lambda *_: [answer(next(left))]
if runs:
    partial.partial_cover_counts(given, given, bounded.candidates(100_000, "difference"), n_people)
"""


def bytes_per_edge(found: Counted) -> float:
    """The memory that the driver's counts take, by the pairs that come: a process of its own."""
    with TemporaryDirectory(dir=CACHE) as folder:
        for number, one in enumerate(found.rounds):
            np.savez(
                Path(folder) / f"{number}.npz", items=one.items, people=one.people,
                complete=one.complete, n_people=one.n_people or 0,
            )  # fmt: skip
        given = f"folder, n_rounds = {folder!r}, {len(found.rounds)}\n"
        with_, without = (
            in_fresh_process(f"{given}runs = {runs}\n{_AGAIN}")["peak"] for runs in (True, False)
        )
    return (with_ - without) * 2**20 / found.n_edges


class Constants(NamedTuple):
    """What is measured; the rest is arithmetic."""

    share: float  # of the pairs that come to the driver
    rounds: int
    flow: float  # microseconds of CPU time for a pair that comes
    flow_of_tenth: float  # the same, of a tenth as many pairs
    memory: float  # bytes for a pair that comes


def measured(size: int) -> Constants:
    rows, fewer = (parquet.read_table(zipf(CACHE / "pairs", n)) for n in (size, size // 10))
    n_parts = parts_of(size)
    found, of_fewer = counted(rows, n_parts), counted(fewer, -(-n_parts // 10))
    flow, flow_of_tenth = (one.seconds * 1e6 / one.n_edges for one in (found, of_fewer))
    share, memory = found.n_edges / size, bytes_per_edge(found)
    return Constants(share, len(found.rounds), flow, flow_of_tenth, memory)


def listed(c: Constants) -> list[str]:
    """The table of constants."""
    rows = [
        ["σ", "all of Spark 4.3, `local[2]`, with its start: 46 to 52 s for 10⁷ pairs",
         f"{SPARK:.0f} µs of a core per pair"],
        ["s", f"the share of pairs that are sent to the driver, in {c.rounds} rounds", percent(c.share)],
        ["f", "the maximum flow, in all rounds",
         f"{c.flow:.2f} µs per edge ({c.flow_of_tenth:.2f} from a tenth of the pairs)"],
        ["b", "the driver's memory for the maximum flow; the edges take as much as they arrive",
         f"{c.memory:.0f} bytes per edge"],
    ]  # fmt: skip
    return table(["", "what", "measured"], rows)


def needed(c: Constants, rate: Fraction) -> list[str]:
    """A row of the estimate for a rate."""
    edges = c.share * PAIRS * float(rate)
    error = "none" if rate == 1 else percent(of_sample(PAIRS // 10, rate))
    return [
        f"{float(rate):g}", power(edges), minutes(PAIRS * SPARK / 1e6 / MACHINES / CORES),
        minutes(edges * c.flow / 1e6),
        f"{edges * c.memory / 1e9:,.1f} GB{' (refused)' if edges >= LIMIT else ''}", error,
    ]  # fmt: skip


def power(x: float) -> str:
    """A number in words of powers of ten, with two digits."""
    digits, exponent = f"{x:.1e}".split("e")
    raised = str(int(exponent)).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{digits.removesuffix('.0')}·10{raised}"


def minutes(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:,.0f} min"


def section(c: Constants) -> Sequence[str]:
    """The section of the page."""
    head = ["rate", "edges", "Spark", "driver: time", "driver: memory", "sampling error"]
    rates = (Fraction(1), Fraction(1, 10), Fraction(1, 100), Fraction(1, 1000))
    return [
        *_HEAD, "", *listed(c), "", *_FORMULAS, "", *table(head, (needed(c, rate) for rate in rates)),
        "", *_BREAKS.format(most=power(LIMIT / c.share)).splitlines(),
    ]  # fmt: skip


def main() -> None:
    """Write the section, from constants measured at a number of pairs."""
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 10**7
    print(found := measured(size))
    written(PAGE, HEADING, section(found))


_HEAD = """\
**This is an estimate: nothing of this size has been run.** Four constants are measured on one machine with 2 cores, on 10⁷
pairs from the file of [RESULTS.md](../benchmarks/RESULTS.md) (with a tenth as many people and items as pairs). Everything
else is arithmetic, into which you can put your own numbers. Times are CPU times. σ is measured on Spark and includes
everything; `python -m benchmarks.many_machines` measures the others without Spark.

A *pair* is a person with one of their items, and an *edge* is a pair that is sent to the driver. The driver asks for edges
in *rounds*, until they prove the maximum flow of all pairs ([partial.md](../udfs/count_distinct/partial.md)).
""".splitlines()

_FORMULAS = f"""\
The share s depends on the data: 10 % to 34 % on four real sets ([partial.md](../udfs/count_distinct/partial.md)), 24 % of 10⁸
pairs of the file above, and nearly 100 % if almost no item is shared. It is at least the number of items divided by the
number of pairs, because each item sends a pair.

For N pairs, M machines of C cores, and a sampling rate r (1 without a sample):

- Spark: N σ / (M C)
- edges sent to the driver: E = r s N
- driver: a time of E f on one core, and memory of E b

The table has N = 10¹¹, M = {MACHINES} and C = {CORES}. This extrapolates by four orders of magnitude: s and b may change with the
size, f grows with it because of cache misses, and σ contains no network.
""".splitlines()

_BREAKS = """\
### Where it would break

- **The driver** breaks first. It takes fewer than 2³¹ edges and fewer than 2³⁰ people or items. It refuses more only
  after the jobs have run and ε is spent; with the share above, from {most} pairs on. Most drivers would run out of
  memory earlier. Without a sample, 10¹⁰ items exceed the limit in any case, because each item sends at least one edge.
- **Parts.** People are split into at most 10,000 parts, and items into as many. So a part has 10⁷ rows here, and its
  worker may have to write some of them to disk. Up to 10⁸ pieces go from the parts of people to the parts of items.
- **Requests.** In each round every task gets one bit per item and one per person: up to 2.5 GB for 10¹⁰ of each.
- **The shuffle** by person is Spark's own and moves all N rows once: 16 bytes each take 13 s at 10 Gbit/s. All rows of
  one person meet in one task.

### What a sample changes

A sample multiplies the edges and the driver's time and memory by r. It does not reduce reading, the shuffle by person, or
the SQL that hashes items, and at r = 0.01 these are nearly all that is left: an ordinary machine will do as the driver.
Choose r so that E b fits its memory and E is below 2³¹; the [first table](#the-error-of-the-sample) shows the error.
"""

if __name__ == "__main__":
    main()
