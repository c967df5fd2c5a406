"""`python -m benchmarks.many_machines`: what each step by parts costs, and what 10^11 pairs would.

Writes a section of docs/scale.md. Spark's workers run here without Spark: the same functions over
the same parts, one after the other, so what is measured is their own work.
"""

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
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
from dp_sql.engines.spark.jobs import MAX_PARTS, SparkJobs, _Slices, parts_of
from dp_sql.engines.spark.question_sql import BoundQuestion, incoming
from dp_sql.privacy.plans.plan import drawn_from
from dp_sql.sql.statement import parse
from dp_sql.udfs.count_distinct.graph import LIMIT

HEADING = "## 10¹¹ pairs on 100 machines"
COLUMNS = [("user_id", "BIGINT"), ("item", "BIGINT")]
READ = "SELECT sum(user_id), sum(item) FROM {}"
HASH = "SELECT count(*) FROM {} WHERE sha256('0' || CAST(item AS VARCHAR)) < '01'"
SPARK = 49 * 2 / 10  # core microseconds for a pair: see the page
PAIRS, MACHINES, CORES = 10**11, 100, 16
BYTES, NETWORK = 16, 1.25e9  # of a row; bytes a second into each machine


@dataclass
class Spent:
    """CPU seconds by step, without those of steps within; and what was sent."""

    folder: Path  # where the answers that reach the driver are kept, to be read again
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    bytes: int = 0
    edges: list[int] = field(default_factory=list)  # of each round
    counts: list[int] = field(default_factory=list)  # that came out, for each bound

    @contextmanager
    def on(self, step: str) -> Iterator[None]:
        """Add what is spent meanwhile to a step."""
        begin, before = time.process_time(), sum(self.seconds.values())
        yield
        inner = sum(self.seconds.values()) - before
        self.seconds[step] += time.process_time() - begin - inner

    def note(self, found: Pairs) -> Pairs:
        """Keep an answer; that is no step of a release."""
        with self.on("keep"):
            np.savez(
                self.folder / f"{len(self.edges)}.npz", items=found.items, people=found.people,
                complete=found.complete, n_people=found.n_people or 0,
            )  # fmt: skip
        self.edges.append(len(found.items))
        return found


class LocalJobs(SparkJobs):
    """Spark's jobs in this process. rows: a table of people and items."""

    def __init__(self, rows: pa.Table, n_parts: int, spent: Spent) -> None:
        super().__init__(object(), lambda _: (None, COLUMNS), n_parts)
        self._rows, self._spent, self._split = rows, spent, n_parts

    def thin(self, question: PartedQuestion, people_per_item: int) -> Pairs:
        """Some people of each item."""
        with self._spent.on("choose"):
            return self._spent.note(super().thin(question, people_per_item))

    def complete(self, question: PartedQuestion, items: Any, people: Any) -> Pairs:
        """All pairs of some items and people."""
        with self._spent.on("choose"):
            return self._spent.note(super().complete(question, items, people))

    def _merged(self, bound: BoundQuestion, merge: parts.Task) -> _Slices:
        work, slices = bound.work(merge.n_slices), defaultdict[int, list[parts.Piece]](list)
        people = self._rows.column("user_id").to_numpy().astype(np.uint64)
        part_of = (people * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(40)) % self._split
        for number in range(self._split):
            mine = self._rows.filter(pa.array(part_of == number))
            names = [parts.PART, parts.SOURCE, incoming(0, 0), incoming(0, 1)]
            same = [pa.array(np.full(mine.num_rows, x, np.int32)) for x in (number, 0)]
            sent = pa.table([*same, *mine.columns], names=names).to_batches(1 << 16)
            with self._spent.on("part"):
                found = [*parts.pieces_in(parts.answer_parts(sent, work))]
            for piece in found:
                slices[piece[0]].append(piece)
                self._spent.bytes += len(piece[3])
        merged: list[parts.Piece] = []
        for number, pieces in sorted(slices.items()):
            with self._spent.on("merge"):
                merged += parts.merge_slice(merge, number, pieces)
        return _Slices(bound, merge.n_slices, merged)


def spent_on(rows: pa.Table, n_parts: int, folder: Path, sample: str = "") -> Spent:
    """Count the items of some pairs by parts: all that a release needs before its draw."""
    spent = Spent(folder)
    with dp_sql.connect() as session:
        session.execute("CREATE TABLE pairs (user_id BIGINT, item BIGINT)")
        text = f"SELECT DP_COUNT_DISTINCT(item, {UNIT}{sample}) FROM pairs"
        plans = session._plan(parse(text)[0], session._engine(sys._getframe()))
        by_parts = ByParts(LocalJobs(rows, n_parts, spent), session.connection)
        with spent.on("flow"), by_parts.released([drawn_from(plans[0])], ["0"]):
            counted = session.connection.execute("SELECT n FROM __dp_merged_0 ORDER BY place")
            spent.counts = [n for (n,) in counted.fetchall()]
    return spent


_AGAIN = """
import numpy as np
from types import SimpleNamespace
from dp_sql.udfs.count_distinct import bounded, partial
def answer(number):
    return SimpleNamespace(**np.load(f"{folder}/{number}.npz"))
n_people, left = int(answer(0).n_people), iter(range({n_rounds}))
given = lambda *_: [answer(next(left))]
if {runs}:
    partial.partial_cover_counts(given, given, bounded.candidates(100_000, "difference"), n_people)
"""


def bytes_per_edge(spent: Spent) -> float:
    """The memory that the driver's counts take, by the pairs that come: a process of its own."""
    with_, without = (
        in_fresh_process(
            f"folder = {str(spent.folder)!r}"
            + _AGAIN.replace("{n_rounds}", str(len(spent.edges))).replace("{runs}", str(runs))
        )["peak"]
        for runs in (True, False)
    )
    return (with_ - without) * 2**20 / sum(spent.edges)


def per_piece() -> tuple[float, int]:
    """Seconds to write a piece of a few rows and to read it again, and its bytes."""
    rows = pa.table({name: pa.array(np.arange(10)) for name in ("item", "person")})
    (piece,) = parts.in_pieces(0, 0, rows)

    def write_and_read() -> None:
        pieces = [*parts.pieces_in([parts.as_batch(*parts.in_pieces(0, 0, rows))])]
        pa.concat_tables(parts.from_bytes(data) for *_, data in pieces)

    return cpu(write_and_read, 2000), len(piece[3])


def cpu(run: Callable[[], Any], times: int = 1) -> float:
    begin = time.process_time()
    for _ in range(times):
        run()
    return (time.process_time() - begin) / times


@dataclass(frozen=True)
class Constants:
    """What is measured: microseconds of CPU time and bytes."""

    read: float  # for a pair, as all up to `choose`
    hash: float
    part: tuple[float, float]  # of all items, and of a sample of 0.01
    merge: float  # for a pair that is kept
    choose: float
    sent: float  # bytes of a kept pair between parts and slices
    piece: float
    piece_bytes: int
    flow: tuple[float, float]  # for an edge that comes; and of a tenth as many pairs
    memory: float  # bytes for an edge that comes
    share: float  # of the pairs that come
    rounds: int


def measured(size: int) -> Constants:
    source, micro = f"read_parquet('{zipf(CACHE / 'pairs', size)}')", 1e6 / size
    with duckdb.connect(config={"threads": 1}) as con:
        read = cpu(lambda: con.execute(READ.format(source)).fetchall()) * micro
        hashed = cpu(lambda: con.execute(HASH.format(source)).fetchall()) * micro - read
    rows, fewer = (parquet.read_table(zipf(CACHE / "pairs", n)) for n in (size, size // 10))
    n_parts = parts_of(size)
    with TemporaryDirectory(dir=CACHE) as one, TemporaryDirectory(dir=CACHE) as other:
        spent = spent_on(rows, n_parts, Path(one))
        sampled = spent_on(rows, n_parts, Path(other), ", sample_items := 0.01")
        memory = bytes_per_edge(spent)
    with TemporaryDirectory(dir=CACHE) as folder:
        of_fewer = spent_on(fewer, -(-n_parts // 10), Path(folder))
    edges, (piece, n_bytes) = sum(spent.edges), per_piece()
    flow = [one.seconds["flow"] * 1e6 / sum(one.edges) for one in (spent, of_fewer)]
    return Constants(
        read, hashed, (spent.seconds["part"] * micro, sampled.seconds["part"] * micro),
        spent.seconds["merge"] * micro, spent.seconds["choose"] * micro, spent.bytes / size,
        piece * 1e6, n_bytes, (flow[0], flow[1]), memory, edges / size,
        len(spent.edges),
    )  # fmt: skip


def listed(c: Constants) -> list[str]:
    """The table of constants."""
    rows = [
        ["a", "to read a pair from parquet, in DuckDB", f"{c.read:.2f} µs"],
        ["h", "to hash its item, for a sample (part of p′)", f"{c.hash:.2f} µs"],
        ["p", "a part's SQL in a worker, for all items: rows into DuckDB, numbering people and items, distinct pairs",
         f"{c.part[0]:.2f} µs per pair"],
        ["p′", "the same for a sample of 0.01", f"{c.part[1]:.2f} µs per pair"],
        ["m", "to merge the pairs of a slice, and to select edges from them in all rounds",
         f"{c.merge + c.choose:.2f} µs per pair in the sample"],
        ["v", "size of a pair in the pieces", f"{c.sent:.0f} bytes"],
        ["w", "to write and read one piece, however small",
         f"{c.piece:,.0f} µs and {c.piece_bytes} bytes"],
        ["s", f"the share of pairs that are sent to the driver, in {c.rounds} rounds", percent(c.share)],
        ["f", "the maximum flow, in all rounds", f"{c.flow[0]:.2f} µs per edge ({c.flow[1]:.2f} from a tenth of the pairs)"],
        ["b", "the driver's memory for the maximum flow; the edges take as much as they arrive",
         f"{c.memory:.0f} bytes per edge"],
        ["σ", "all of Spark 4.3, `local[2]`, with its start: 46 to 52 s for 10⁷ pairs",
         f"{SPARK:.0f} µs of a core per pair"],
    ]  # fmt: skip
    return table(["", "what", "measured"], rows)


def needed(c: Constants, rate: Fraction) -> list[str]:
    """A row of the estimate for a rate."""
    kept, cores = PAIRS * float(rate), MACHINES * CORES
    part = c.part[0] if rate == 1 else c.part[1]
    edges = c.share * kept
    own = (PAIRS * (c.read + part) + kept * (c.merge + c.choose)) / 1e6 / cores
    pieces = n_pieces(rate) * c.piece / 1e6 / cores
    sent = (PAIRS * BYTES + kept * c.sent) / MACHINES / NETWORK
    error = "none" if rate == 1 else percent(of_sample(PAIRS // 10, rate))
    return [
        f"{float(rate):g}", power(edges), minutes(own), minutes(pieces),
        minutes(sent), minutes(PAIRS * SPARK / 1e6 / cores), minutes(edges * c.flow[0] / 1e6),
        f"{edges * c.memory / 2**30:,.1f} GB{' (refused)' if edges >= LIMIT else ''}", error,
    ]  # fmt: skip


def n_pieces(rate: Fraction) -> float:
    """As many slices as parts; a part sends no piece of a slice for which it has no pair."""
    n_parts = parts_of(PAIRS)
    return n_parts * min(n_parts, float(rate) * PAIRS / n_parts)


def power(x: float) -> str:
    """A number in words of powers of ten, with two digits."""
    digits, exponent = f"{x:.1e}".split("e")
    raised = str(int(exponent)).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{digits.removesuffix('.0')}·10{raised}"


def minutes(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:,.0f} min"


def section(c: Constants) -> list[str]:
    """The section of the page."""
    head = [
        "rate", "edges", "workers' own work", "pieces", "network", "all of Spark",
        "driver: time", "driver: memory", "sampling error",
    ]  # fmt: skip
    rates = (Fraction(1), Fraction(1, 10), Fraction(1, 100), Fraction(1, 1000))
    return [
        *_HEAD, "", *listed(c), "", *_FORMULAS, "", *table(head, (needed(c, rate) for rate in rates)), "",
        *_BREAKS.format(most=power(LIMIT / c.share), pieces=power(n_pieces(Fraction(1))),
                        bytes=f"{n_pieces(Fraction(1)) * c.piece_bytes / 1e9:,.0f}",
                        shipped=f"{PAIRS * c.sent / 1e12:.1f}").splitlines(),
    ]  # fmt: skip


def main() -> None:
    """Write the section, from constants measured at a number of pairs."""
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 10**7
    print(found := measured(size))
    written(PAGE, HEADING, section(found))


_HEAD = """\
**This is an estimate: nothing of this size has been run.** The constants are measured on one machine with 2 cores, on 10⁷
pairs from the file of [RESULTS.md](../benchmarks/RESULTS.md) (with a tenth as many people and items as pairs). Everything
else is arithmetic, into which you can put your own numbers. `python -m benchmarks.many_machines` measures the work of
Spark's workers without Spark: it calls the same functions on the same parts, one after the other. Times are CPU times. Only
σ is measured on Spark and includes everything.

Terms: a *pair* is a person with one of their items, and an *edge* is a pair that is sent to the driver. A *part* has all
rows of some people, and a *slice* has the pairs of some items from all parts. A *piece* is what one part sends to one
slice. The driver asks for edges in *rounds*, until they prove the maximum flow of all pairs
([partial.md](../udfs/count_distinct/partial.md)).
""".splitlines()

_FORMULAS = f"""\
The share s depends on the data: 10 % to 34 % on four real sets ([partial.md](../udfs/count_distinct/partial.md)), 24 % of 10⁸
pairs of the file above, and nearly 100 % if almost no item is shared. It is at least the number of items divided by the
number of pairs, because each item sends a pair.

For N pairs, M machines of C cores, R rows per part (10⁶, or N / {MAX_PARTS:,} if this is more) and a sampling rate r (1 without a
sample):

- the workers' own work: N (a + p + r m) / (M C)
- pieces: P min(P, r R) w / (M C), where P = N / R is the number of parts and also of slices
- network: N ({BYTES} bytes + r v) / (M B), with B = 1.25 GB/s (10 Gbit/s); rows of {BYTES} bytes are shuffled by person
- all of Spark, in place of the three above: N σ / (M C)
- edges sent to the driver: E = r s N
- driver: a time of E f on one core, and memory of E b

With N = 10¹¹, M = {MACHINES}, C = {CORES}, and the constants above. This extrapolates by four orders of
magnitude: s and b may change with the size, f grows with it because of cache misses, and σ contains no network.
""".splitlines()

_BREAKS = """\
### Where it would break

- **The driver** breaks first. It takes fewer than 2³¹ edges and fewer than 2³⁰ people or items. It refuses more only after
  the jobs, when ε is spent: with the share above from {most} pairs on. Most drivers would run out of memory
  earlier. Without a sample, 10¹⁰ items exceed the limit in any case, because each item sends at least one edge.
- **Parts.** There are at most 10,000, and as many slices: {pieces} pieces have {bytes} GB of headers beside {shipped} TB of pairs. So
  a part has 10⁷ rows here, and its worker may have to write some of them to disk.
- **Requests.** In each round every task gets one bit per item and person: up to about 1 GB for 10¹⁰ items.
- **The shuffle** by person is Spark's own and moves all N rows once. All rows of one person meet in one task.

### What a sample changes

A sample multiplies everything after a part's SQL by r: slices, edges, and the driver's time and memory. It does not reduce
reading, the shuffle by person, or the SQL that hashes items. At r = 0.01 these are nearly all that is left, and an ordinary
machine will do as the driver. Choose r so that E b fits its memory and E is below 2³¹; the
[first table](#the-error-of-the-sample) shows the error.
"""

if __name__ == "__main__":
    main()
