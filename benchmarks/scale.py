"""`python -m benchmarks.scale`: the error and the cost of `sample_items`, for very large counts.

Writes a section of docs/scale.md. Only experiments may use floats.
"""

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import chain
from pathlib import Path

import duckdb
import numpy as np

from benchmarks.bounds import MOST, best_fixed, chosen, counts_of
from benchmarks.measure import file_of, present
from benchmarks.out_of_core import CACHE, MEMORY, PLAIN, QUESTIONS, SIZES, measured
from benchmarks.pair_files import zipf
from dp_sql.udfs import REGISTRY
from dp_sql.udfs.binomial import least_trials
from dp_sql.udfs.count_distinct import bounded
from dp_sql.udfs.count_distinct.item_sample import for_each, of_all_items, threshold
from dp_sql.udfs.mechanism import DIFFERENCE

PAGE, HEADING = Path("docs/scale.md"), "## A sample of the items"
BETA, EPSILON, SELECTION = Fraction(1, 20), Fraction(1), DIFFERENCE
RATES = (Fraction(1, 10), Fraction(1, 100), Fraction(1, 1000))
MATCHING = REGISTRY["count_distinct"]["matching"]
WORDS = 1 << 64
Set = tuple[str, np.ndarray, np.ndarray]  # a name; the person and the item of each pair


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(one)} |" for one in (head, ["---"] * len(head), *rows)]


def written(page: Path, heading: str, section: Sequence[str]) -> None:
    """Replace a section of a page, and leave the others."""
    lines = page.read_text("utf-8").splitlines() if page.exists() else ["# Very large tables", ""]
    start = lines.index(heading) if heading in lines else len(lines)
    stop = next((i for i in range(start + 1, len(lines)) if lines[i].startswith("## ")), len(lines))
    lines[start:stop] = [heading, "", *section, ""]
    page.write_text("\n".join(lines).rstrip() + "\n", "utf-8")


def percent(x: float) -> str:
    return f"{100 * x:.2g} %" if x < 1 else f"{100 * x:.0f} %"


def of_sample(n: int, rate: Fraction) -> float:
    """The standard error that sampling adds to a count of n, relative to n."""
    return math.sqrt((1 - rate) / (rate * n))


# The error of the sample, from public numbers.


def errors() -> list[str]:
    def below(n: int, rate: Fraction) -> float:
        return 1 - least_trials(round(n * rate), rate, for_each(BETA)) / n

    sizes, ways = [10**places for places in range(4, 12)], (of_sample, below)
    rows = ([f"{n:,}", *(percent(way(n, r)) for way in ways for r in RATES)] for n in sizes)
    named = (f"{what} at {float(r):g}" for what in ("error", "below") for r in RATES)
    return table(["items", *named], rows)


# How often the lower bound is too high, exactly.


def too_high(n: int, rate: Fraction, bound: int) -> tuple[float, float]:
    """The chance for n items: from the sample alone, and with the noise at a contribution bound."""
    part, beta = Fraction(threshold(rate), WORDS), for_each(BETA)
    low, high = math.ceil(n * part), n + 1  # the least count of the sample for which it is
    while low < high:
        middle = (low + high) // 2
        is_high = least_trials(middle, part, beta) > n
        low, high = (low, middle) if is_high else (middle + 1, high)
    kept, odds = binomial(n, float(part))
    off = bounded.noise_bound(bound, EPSILON, beta, SELECTION)
    q = math.exp(-float(bounded.noise_share(EPSILON, SELECTION)) / bound)
    needed = low + off - kept  # at least so much noise
    tail = np.where(needed > 0, q ** np.abs(needed), 1 + q - q ** (1.0 + np.abs(needed))) / (1 + q)
    return float(odds[kept >= low].sum()), float((odds * tail).sum())


def binomial(n: int, rate: float) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of hits within 12 standard deviations, and their probabilities."""
    reach = 12 * math.sqrt(n * rate * (1 - rate)) + 20
    hits = np.arange(max(0, int(n * rate - reach)), min(n, int(n * rate + reach)) + 1)
    steps = np.log((n - hits[:-1]) / (hits[:-1] + 1)) + math.log(rate / (1 - rate))
    odds = np.concatenate([[0.0], np.cumsum(steps)])
    odds = np.exp(odds - odds.max())
    return hits, odds / odds.sum()


def coverage() -> list[str]:
    def row(n: int, rate: Fraction) -> list[str]:
        (alone, with_1), (_, with_64) = too_high(n, rate, 1), too_high(n, rate, 64)
        odds = (f"{100 * chance:.2f} %" for chance in (alone, with_1, with_64))
        return [f"{n:,}", f"{float(rate):g}", *odds]

    head = ["items", "rate", "sample alone", "with noise, bound 1", "with noise, bound 64"]
    sizes = (10**places for places in (1, 2, 3, 4, 6, 8))
    return table(head, (row(n, rate) for n in sizes for rate in RATES))


# The same, simulated: hashes are drawn one by one, and the release is the mechanism's own.


def kept_of(n: int, draws: np.random.Generator) -> list[int]:
    """How many of n hashes are below the threshold of each rate."""
    most, kept = [np.uint64(threshold(rate)) for rate in RATES], np.zeros(len(RATES), np.int64)
    for start in range(0, n, 1 << 20):
        hashes = draws.integers(0, WORDS, min(1 << 20, n - start), np.uint64)
        kept += [np.count_nonzero(hashes < one) for one in most]
    return [*map(int, kept)]


def simulated(n: int, trials: int) -> Iterator[list[str]]:
    """Items of people who have one each, so that the counts under all bounds are the same."""
    draws, n_bounds = np.random.default_rng(n), len(bounded.candidates(MOST, SELECTION))
    relative, failed = np.zeros((trials, len(RATES))), np.zeros(len(RATES), int)
    for trial in range(trials):
        for place, (rate, kept) in enumerate(zip(RATES, kept_of(n, draws), strict=True)):
            (found,) = MATCHING.run_on_counts(  # type: ignore[misc]
                [[kept] * n_bounds], EPSILON, for_each(BETA), MOST, SELECTION
            )
            found = of_all_items(found, rate, BETA)
            relative[trial, place] = found.estimate / n - 1
            failed[place] += found.lower_bound > n
    for place, rate in enumerate(RATES):
        rmse, mean = math.sqrt(np.mean(relative[:, place] ** 2)), np.mean(relative[:, place])
        yield [
            f"{n:,}", f"{float(rate):g}", f"{trials:,}", f"{100 * rmse:.3f} %",
            f"{100 * of_sample(n, rate):.3f} %", f"{100 * mean:+.3f} %",
            f"{100 * failed[place] / trials:.1f} %",
        ]  # fmt: skip


def simulations() -> list[str]:
    cases = ((10**4, 4_000), (10**6, 1_000), (10**8, 40))
    head = ["items", "rate", "trials", "error", "of the sample alone", "bias", "bound too high"]
    return table(head, chain.from_iterable(simulated(*case) for case in cases))


# The noise, and the choice of the bound, on samples.


def made(seed: int = 17) -> Iterator[Set]:
    """A million pairs of people who have so many items each; two thirds of them are popular."""
    draws, n_pairs, n_items = np.random.default_rng(seed), 1_000_000, 500_000
    for each in (1, 10, 100, 1_000, 10_000):
        people = np.repeat(np.arange(n_pairs // each), each)
        popular = (n_items ** draws.random(n_pairs)).astype(int)
        others = draws.integers(0, n_items, n_pairs)
        items = np.where(draws.random(n_pairs) < 2 / 3, popular, others)
        named = f"{people[-1] + 1:,} people with {each:,} item{'s' * (each > 1)}"
        yield named, people, items
        if each == 10:
            yield "the same, and one item that all have", *also(people, items, 0, 0)
            yield "the same, and a person with 200,000 more", *also(people, items, -1, 200_000)


def also(
    people: np.ndarray, items: np.ndarray, person: int, n_own: int
) -> tuple[np.ndarray, np.ndarray]:
    """More pairs: an item of everyone, or many new ones of one person."""
    everyone, new = np.unique(people), items.max() + 1
    more = np.full(n_own, person) if n_own else everyone
    theirs = new + np.arange(n_own) if n_own else np.full(everyone.size, new)
    return np.concatenate([people, more]), np.concatenate([items, theirs])


def real() -> Iterator[Set]:
    for source in ("imdb_words", "gowalla", "amazon_book_kgat", "retail_baskets"):
        if present(source):
            rows = f"SELECT hash(user_id) AS p, hash(item) AS i FROM '{file_of(source)}'"
            columns = duckdb.execute(rows).fetchnumpy().values()
            people, items = (np.unique(x, return_inverse=True)[1] for x in columns)
            yield source, people, items


def noise(name: str, people: np.ndarray, items: np.ndarray) -> Iterator[list[str]]:
    lots = np.random.default_rng(5).integers(0, WORDS, int(items.max()) + 1, np.uint64)
    n_items = np.unique(items).size
    for rate in (Fraction(1), *RATES):
        kept = np.ones(items.size, bool) if rate == 1 else lots[items] < threshold(rate)
        counts = counts_of(name, people[kept], items[kept])
        bounds = bounded.candidates(MOST, SELECTION)
        odds = bounded.distribution_of_bound(
            counts.under(bounds).tolist(), EPSILON, BETA, SELECTION, 40, bounds
        )
        mode = max(zip(odds, bounds, strict=True))[1]
        errors = (percent(way(counts, EPSILON)[0] / n_items / float(rate)) for way in WAYS)
        about = [name, f"{n_items:,}"] if rate == 1 else ["", ""]
        yield [*about, f"{float(rate):g}", str(mode), *errors, percent(of_sample(n_items, rate))]


WAYS = (chosen(SELECTION, MOST), best_fixed)


def noises() -> list[str]:
    head = ["set", "items", "rate", "bound", "error", "best bound's error", "sampling error"]
    return table(head, chain.from_iterable(noise(*one) for one in chain(made(), real())))


# The cost, measured.


def cost(size: int) -> list[str]:
    """A row for so many pairs."""
    source = f"read_parquet('{zipf(CACHE / 'pairs', size)}')"
    question = QUESTIONS["DP_COUNT_DISTINCT"]
    sampled = [question.replace(")", f", sample_items := {float(r):g})", 1) for r in RATES[:2]]
    cells = []
    for query in (PLAIN, question, *sampled):
        found = measured(query.format(source))
        known = f"{found['cpu']:.1f} s, {found['peak']:,.0f} MB" if "cpu" in found else ""
        cells.append(known or found["failure"])
    return [f"{size:,}", *cells]


def costs(rows: Iterable[Sequence[str]]) -> list[str]:
    head = ["pairs", "DISTINCT pairs, no privacy", "all items"]
    return table([*head, *(f"{float(rate):g}" for rate in RATES[:2])], rows)


def section(cost_rows: Iterable[Sequence[str]]) -> list[str]:
    return [
        *_HEAD, "", *errors(), "", *_COVERAGE, "", *coverage(), "", *_SIMULATED, "", *simulations(),
        "", *_NOISE, "", *noises(), "", *_NOISE_READ, "", *_COST, "", *costs(cost_rows),
    ]  # fmt: skip


def main() -> None:
    """Write the section, with costs up to a number of pairs."""
    largest = int(sys.argv[1]) if len(sys.argv) > 1 else SIZES[-1]
    written(PAGE, HEADING, section(cost(size) for size in (10**6, *SIZES) if size <= largest))


_HEAD = """\
`DP_COUNT_DISTINCT(…, sample_items := r)` counts the items whose keyed hash falls below r, and divides the count by r
([syntax](sql.md#a-sample-of-the-items), [proof](../udfs/count_distinct/item_sample.md)). It costs the same ε and ρ as a
count of all items. The tables below are for β = 0.05 and ε = 1, and `make bench` rewrites them
(`python -m benchmarks.scale`).

### The error of the sample

For n items and rate r, sampling adds a relative standard error of √((1 − r)/(r n)): the first three columns.
The last three show how far a report's lower bound lies below n if the sample has its expected size and the noise is
negligible. Both follow from n and r alone.
""".splitlines()

_COVERAGE = """\
### How often the lower bound is too high

The lower bound exceeds n with probability at most 5 %: 2.5 % is allowed for the sample and 2.5 % for the noise. The
probabilities below are exact, for n items that are all within the contribution bound: from the sample alone, and with the
noise for a contribution bound of 1 and of 64. Small samples stay further below 2.5 %, because they hold a whole number of
items. The total stays well below 5 %, because sample and noise rarely err together.
""".splitlines()

_SIMULATED = """\
### Simulated

Each trial draws n hashes of 64 bits, counts those below the threshold, and lets the mechanism choose its bound and
draw its noise. "Error" is the root mean square error (RMSE) of the estimate. Each person has one item here. If few items
are sampled, the noise (for a bound of 1 or 2, divided by r) adds visibly to the error.
""".splitlines()

_NOISE = """\
### The noise, and the choice of the bound

The noise is added to the count of the sample, so it is divided by r as well. If people have at least 1/r items each, a
bound r times as large is enough in the sample, and the noise stays about the same. If they have fewer, the bound still
cannot be less than 1, and the noise is up to 1/r times as large.

"Bound" is the contribution bound that is chosen most often. "Error" is in percent of all items: the RMSE of the sampled
count, from noise and from items beyond the bound, divided by r. The column beside it is the same for the best fixed bound,
which no one knows in advance. The last column is the error that sampling itself adds. A rate of 1 is a count of all items.
""".splitlines()

_NOISE_READ = """\
- Counted in items, the noise does not grow with n, while the sampling error grows as √n. So in tables that are large
  enough to need a sample, the noise hardly matters: at r = 0.01 a bound of 1 means noise of 283 items, 0.0003 % of 10⁸,
  and the sample adds 0.1 %. In small sets the noise matters: a sample of 0.001 of 16,470 items has 16.
- If people have one item, a sample multiplies the noise by 1/r; if they have ten, by 6, 35 and 140 at the three rates. If
  they have thousands, the noise stays the same, and the mechanism chooses the bound better: its prior disfavours bounds far
  beyond 128 ([difference.md](../udfs/count_distinct/difference.md)), and in a sample the right bound is small. The total
  error can then be smaller with a sample than without.
- An item that everyone has changes nothing: any bound covers it, or the sample leaves it out. The items of one person with
  200,000 of them are lost under any bound worth choosing, with or without a sample.
""".splitlines()

_COST = f"""\
### The cost

CPU seconds and peak memory of a process that reads the pairs of [RESULTS.md](../benchmarks/RESULTS.md) from one parquet
file with `memory_limit = '{MEMORY}'`, including its start. A sample needs less memory. It still reads
all rows, and hashing takes about 0.4 µs for each row's item, so it saves no time here: use it if memory is short.
""".splitlines()

if __name__ == "__main__":
    main()
