"""`python -m benchmarks.scale`: the error and the cost of `sample_items`, for very large counts.

Writes a section of docs/scale.md. Only experiments may use floats.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import chain
from pathlib import Path

import duckdb
import numpy as np

from benchmarks.bounds import MOST, best_fixed, chosen, counts_of
from benchmarks.measure import DATA, in_fresh_process
from dp_sql.udfs.binomial import least_trials
from dp_sql.udfs.count_distinct import bounded
from dp_sql.udfs.count_distinct.bounded import CountRelease
from dp_sql.udfs.count_distinct.item_sample import for_each, of_all_items, threshold

PAGE, HEADING = Path("docs/scale.md"), "## A sample of the items"
BETA, EPSILON = Fraction(1, 20), Fraction(1)
RATES = (Fraction(1, 10), Fraction(1, 100), Fraction(1, 1000))
SIZES = (10**4, 10**6, 10**8, 10**10)
WORDS = 1 << 64


def table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(one)} |" for one in (head, ["---"] * len(head), *rows)]


def percent(x: float) -> str:
    return f"{100 * x:.2g} %" if x < 1 else f"{100 * x:.0f} %"


# The error of the sample, from public numbers.


def errors() -> list[str]:
    def row(n: int) -> list[str]:
        cells = []
        for rate in RATES:
            kept = round(n * rate)
            low = least_trials(kept, rate, for_each(BETA)) / n
            error = math.sqrt((1 - rate) / (rate * n))
            cells.append(f"{percent(error)} / {percent(1 - low)}")
        return [f"{n:,}", *cells]

    return table(["items", *(f"{float(rate):g}" for rate in RATES)], map(row, SIZES))


# The same, simulated: hashes are drawn one by one, and the noise is that of bound 1.


def kept_of(n: int, rate: Fraction, draws: np.random.Generator) -> int:
    """How many of n hashes are below the threshold."""
    most, kept = np.uint64(threshold(rate)), 0
    for start in range(0, n, 10**7):
        size = min(10**7, n - start)
        kept += int(np.count_nonzero(draws.integers(0, WORDS, size, np.uint64) < most))
    return kept


def simulated(n: int, rate: Fraction, trials: int) -> list[str]:
    draws = np.random.default_rng(n)
    off = bounded.noise_bound(1, EPSILON, for_each(BETA), bounded.DIFFERENCE)
    q = math.exp(-float(bounded.noise_share(EPSILON, bounded.DIFFERENCE)))
    relative, failed = [], 0
    for _ in range(trials):
        noise = int(draws.geometric(1 - q) - draws.geometric(1 - q))  # discrete Laplace noise
        estimate = kept_of(n, rate, draws) + noise
        found = of_all_items(CountRelease(estimate, estimate - off, 1), rate, BETA)
        relative.append(found.estimate / n - 1)
        failed += found.lower_bound > n
    deviation = math.sqrt(2 * q) / (1 - q) / (float(rate) * n)  # of the noise
    expected = math.hypot(math.sqrt((1 - rate) / (rate * n)), deviation)
    rmse = math.sqrt(float(np.mean(np.square(relative))))
    return [
        f"{n:,}", f"{float(rate):g}", f"{trials:,}", f"{100 * rmse:.3f} %", f"{100 * expected:.3f} %",
        f"{100 * float(np.mean(relative)):+.3f} %", f"{100 * failed / trials:.1f} %",
    ]  # fmt: skip


def simulations() -> list[str]:
    cases = ((10**4, 20_000), (10**6, 2_000), (10**8, 60))
    rows = (simulated(n, rate, trials) for n, trials in cases for rate in RATES[:2])
    head = ["items", "rate", "trials", "error", "expected", "mean", "lower bound too high"]
    return table(head, rows)


# The noise, and the choice of the bound, on samples.


def made(seed: int = 17) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """A million pairs of people who have so many items each; two thirds of them are popular."""
    draws, n_pairs, n_items = np.random.default_rng(seed), 1_000_000, 500_000
    for each in (1, 10, 100, 1_000, 10_000):
        people = np.repeat(np.arange(n_pairs // each), each)
        popular = (n_items ** draws.random(n_pairs)).astype(int)
        items = np.where(
            draws.random(n_pairs) < 2 / 3, popular, draws.integers(0, n_items, n_pairs)
        )
        yield f"{people[-1] + 1:,} people with {each:,} items", people, items


def real() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    for source in ("imdb_words", "gowalla", "amazon_book_kgat", "retail_baskets"):
        if (file := DATA / f"{source}.parquet").exists():
            pairs = duckdb.execute(f"SELECT hash(user_id) AS p, hash(item) AS i FROM '{file}'")
            people, items = (
                np.unique(x, return_inverse=True)[1] for x in pairs.fetchnumpy().values()
            )
            yield source, people, items


def noises() -> list[str]:
    def row(name: str, people: np.ndarray, items: np.ndarray) -> list[str]:
        lots = np.random.default_rng(5).integers(0, WORDS, int(items.max()) + 1, np.uint64)
        n_items, cells = np.unique(items).size, []
        for rate in (Fraction(1), *RATES[:2]):
            kept = lots[items] < np.uint64(min(WORDS - 1, int(rate * WORDS)))
            counts = counts_of(name, people[kept], items[kept])
            bounds = bounded.candidates(MOST, bounded.DIFFERENCE)
            odds = bounded.distribution_of_bound(
                counts.under(bounds).tolist(), EPSILON, BETA, bounded.DIFFERENCE, 40, bounds
            )
            mode = max(zip(odds, bounds, strict=True))[1]
            rmse = [way(counts, EPSILON)[0] / float(rate) / n_items for way in WAYS]
            cells.append(f"{mode}: {' / '.join(map(percent, rmse))}")
        binomial = (math.sqrt((1 - rate) / (rate * n_items)) for rate in RATES[:2])
        return [name, f"{n_items:,}", *cells, " / ".join(map(percent, binomial))]

    head = ["set", "items", "all", *(f"{float(rate):g}" for rate in RATES[:2]), "of the sample"]
    return table(head, (row(*one) for one in chain(made(), real())))


WAYS = (chosen(bounded.DIFFERENCE, MOST), best_fixed)


# The cost, measured.

PAIRS = """
COPY (SELECT CAST(hash(i) % {people} AS INTEGER) AS user_id,
             CAST(pow({items}, hash(i, 1) / 18446744073709551616.0) AS INTEGER) AS item
      FROM range({pairs}) AS t(i)) TO '{file}' (FORMAT parquet)
"""
ASK = """
import dp_sql
with dp_sql.connect() as session:
    session.execute("SET memory_limit = '{memory}'; SET temp_directory = '{folder}'")
    print(session.sql({query!r}).fetchall(), file=__import__('sys').stderr)
"""
CALL = "SELECT DP_COUNT_DISTINCT(item, epsilon := 1, privacy_unit := user_id{rest}) FROM '{file}'"


def costs(largest: int) -> list[str]:
    def row(pairs: int) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            file = f"{folder}/pairs.parquet"
            duckdb.execute(
                PAIRS.format(people=pairs // 50, items=pairs // 5, pairs=pairs, file=file)
            )
            asked = ["SELECT count(*) FROM (SELECT DISTINCT user_id, item FROM '{file}')",
                     CALL, *(CALL.replace("{rest}", f", sample_items := {float(r):g}") for r in RATES[:2])]  # fmt: skip
            cells = [cost(query.format(file=file, rest=""), folder) for query in asked]
        return [f"{pairs:,}", *cells]

    sizes = (n for n in (10**6, 10**7, 10**8) if n <= largest)
    head = [
        "pairs",
        "DISTINCT pairs, no privacy",
        "all items",
        *(f"{float(rate):g}" for rate in RATES[:2]),
    ]
    return table(head, map(row, sizes))


def cost(query: str, folder: str) -> str:
    try:
        found = in_fresh_process(ASK.format(memory="2GB", folder=folder, query=query))
    except Exception:
        return "fails"
    return f"{found['seconds']:.1f} s, {found['peak'] / 1024:.1f} GB"


def section(largest: int) -> list[str]:
    return [
        HEADING, "", *_HEAD, *errors(), "", *_SIMULATED, *simulations(), "", *_NOISE, *noises(), "", *_NOISE_READ, "",
        *_COST, *costs(largest), "",
    ]  # fmt: skip


def main() -> None:
    """Replace the section of the page, and leave the others."""
    lines = PAGE.read_text("utf-8").splitlines() if PAGE.exists() else ["# Very large tables", ""]
    start = lines.index(HEADING) if HEADING in lines else len(lines)
    stop = next((i for i in range(start + 1, len(lines)) if lines[i].startswith("## ")), len(lines))
    largest = int(sys.argv[1]) if len(sys.argv) > 1 else 10**8
    lines[start:stop] = section(largest)
    PAGE.write_text("\n".join(lines).rstrip() + "\n", "utf-8")


_HEAD = """\
`DP_COUNT_DISTINCT(…, sample_items := r)` counts the items whose keyed hash falls below r, and divides by r
([how to write it](sql.md#a-sample-of-the-items), [proof](../udfs/count_distinct/item_sample.md)). It costs the same ε
and ρ as the whole count. Made by `python -m benchmarks.scale`; β = 0.05, ε = 1.

### The error of the sample

For n items and the rate r, the standard error is √((1 − r)/(r n)). The cells have it, and how far a report's lower bound is below
n where the noise is small. Both follow from public numbers alone.
""".splitlines()

_SIMULATED = """\
The same, simulated: each trial draws n hashes of 64 bits, counts those below the threshold, and adds noise for a bound of 1
(half of ε chose the bound). The error is the RMSE. The noise of ± 3 sampled items is what is left of it where few items
are sampled. The lower bound fails less often than the 5 % that it may: noise and sample have a half each, and rarely both
err.
""".splitlines()

_NOISE = """\
### The noise, and the choice of the bound

The noise is added to the count of the sample, so it is divided by r, too. If people have many items, at least 1/r,
their lists in the sample are shorter by r, a bound shorter by r is enough there, and the noise stays of the same size. If they
have fewer, the bound of the sample is 1 all the same, and the noise is up to 1/r times as large.

The cells have the bound that is chosen most often, and the RMSE of the sampled count, noise and items beyond the bound
together, divided by r, in percent of all items: with the bound that is chosen, and with the best fixed bound, which is
not known in advance. The last column is what the sample itself adds at 0.1 and at 0.01.
""".splitlines()

_NOISE_READ = """\
- In all of these sets but those with 1,000 items per person and more, the sample adds more than the noise. The noise, in items, does not grow
  with n, and the error of the sample does, as √n. So in tables that need a sample the noise hardly
  matters: a bound of 1 at r = 0.01 means noise of 283 items, 0.0003 % of 10⁸, and the sample adds 0.1 %.
- Where people have thousands of items, the bound is easier to choose in a sample: bounds far beyond 128 are less likely in
  advance ([difference.md](../udfs/count_distinct/difference.md)), and in the sample the right bound is small. There the whole error can be
  smaller with a sample than without.
""".splitlines()

_COST = """\
### The cost

Pairs in one parquet file: 50 for each person, items with a heavy tail. Each cell is one process from start to end, with
`memory_limit = '2GB'`: seconds, and the peak of its memory. DuckDB hashes about 2.5 million items per second and core, wherever
it reads them; the rest of the work is in proportion to the sample.
""".splitlines()

if __name__ == "__main__":
    main()
