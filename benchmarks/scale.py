"""`python -m benchmarks.scale`: the error and the cost of `sample_items`, for very large counts.

Writes a section of docs/scale.md. Only experiments may use floats.
"""

from __future__ import annotations

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

PAGE, HEADING = Path("docs/scale.md"), "## A sample of the items"
BETA, EPSILON, SELECTION = Fraction(1, 20), Fraction(1), bounded.DIFFERENCE
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
    def cell(n: int, rate: Fraction) -> str:
        low = least_trials(round(n * rate), rate, for_each(BETA)) / n
        return f"{percent(of_sample(n, rate))} / {percent(1 - low)}"

    sizes = [10**places for places in range(4, 12)]
    rows = ([f"{n:,}", *(cell(n, rate) for rate in RATES)] for n in sizes)
    return table(["items", *(f"{float(rate):g}" for rate in RATES)], rows)


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
    def row(n: int) -> list[str]:
        found = [(too_high(n, rate, 1), too_high(n, rate, 64)) for rate in RATES]
        return [
            f"{n:,}",
            *(f"{100 * a:.2f} / {100 * b:.2f} / {100 * c:.2f} %" for (a, b), (_, c) in found),
        ]

    head = ["items", *(f"{float(rate):g}" for rate in RATES)]
    return table(head, (row(10**places) for places in (1, 2, 3, 4, 6, 8)))


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
            found = MATCHING.run_on_counts(  # type: ignore[misc]
                [kept] * n_bounds, EPSILON, for_each(BETA), MOST, SELECTION
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
    head = ["items", "rate", "trials", "error", "of the sample alone", "mean", "bound too high"]
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


def noise(name: str, people: np.ndarray, items: np.ndarray) -> list[str]:
    lots = np.random.default_rng(5).integers(0, WORDS, int(items.max()) + 1, np.uint64)
    n_items, cells = np.unique(items).size, []
    for rate in (None, *RATES):
        kept = np.ones(items.size, bool) if rate is None else lots[items] < threshold(rate)
        counts = counts_of(name, people[kept], items[kept])
        bounds = bounded.candidates(MOST, SELECTION)
        odds = bounded.distribution_of_bound(
            counts.under(bounds).tolist(), EPSILON, BETA, SELECTION, 40, bounds
        )
        mode = max(zip(odds, bounds, strict=True))[1]
        scale = n_items * float(rate or 1)
        cells.append(
            f"{mode}: {' / '.join(percent(way(counts, EPSILON)[0] / scale) for way in WAYS)}"
        )
    sampling = " / ".join(percent(of_sample(n_items, rate)) for rate in RATES)
    return [name, f"{n_items:,}", *cells, sampling]


WAYS = (chosen(SELECTION, MOST), best_fixed)


def noises() -> list[str]:
    head = ["set", "items", "all", *(f"{float(rate):g}" for rate in RATES), "of the sample"]
    return table(head, (noise(*one) for one in chain(made(), real())))


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
`DP_COUNT_DISTINCT(…, sample_items := r)` counts the items whose keyed hash falls below r, and divides by r
([how to write it](sql.md#a-sample-of-the-items), [proof](../udfs/count_distinct/item_sample.md)). It costs the same ε
and ρ as the whole count. Made by `python -m benchmarks.scale`, which `make bench` runs; β = 0.05, ε = 1.

### The error of the sample

For n items and the rate r, the standard error is √((1 − r)/(r n)). The cells have it, and how far a report's lower bound
is below n if the sample is as large as expected and the noise is small. Both follow from public numbers alone.
""".splitlines()

_COVERAGE = """\
### How often the lower bound is too high

At most with probability 5 %: half of it is the sample's, half the noise's. Computed exactly, for n items of which all are
covered: from the sample alone / with the noise for a contribution bound of 1 / of 64. Items are whole numbers, so small
samples stay further below 2.5 %. Noise and sample rarely both err, so their sum stays well below 5 %.
""".splitlines()

_SIMULATED = """\
### Simulated

Each trial draws n hashes of 64 bits, counts those below the threshold, and lets the mechanism choose its bound and
draw its noise. The error is the RMSE of the estimate. Where few items are sampled, the noise is a part of it: each
person has one item here, so noise for a bound of 1 or 2 is divided by r.
""".splitlines()

_NOISE = """\
### The noise, and the choice of the bound

The noise is added to the count of the sample, so it is divided by r, too. If people have many items, at least 1/r,
their lists in the sample are shorter by r, a bound shorter by r is enough there, and the noise stays of the same size. If they
have fewer, the bound of the sample is at least 1 all the same, and the noise is up to 1/r times as large.

The cells have the bound that is chosen most often, and the RMSE of the sampled count, noise and items beyond the bound
together, divided by r, in percent of all items: with the bound that is chosen, and with the best fixed bound, which is
not known in advance. The last column is what the sample itself adds at each rate.
""".splitlines()

_NOISE_READ = """\
- The noise, in items, does not grow with n, and the error of the sample does, as √n. So in tables that need a
  sample the noise hardly matters: a bound of 1 at r = 0.01 means noise of 283 items, 0.0003 % of 10⁸, and the sample adds
  0.1 %. In small sets it does: of 16,470 items, 0.001 leaves 16.
- People with one item: the noise is 1/r times as large. With ten: 6, 35 and 140 times. With thousands it stays, and the bound is
  easier to choose in a sample, because bounds far beyond 128 are less likely in advance
  ([difference.md](../udfs/count_distinct/difference.md)) and in the sample the right bound is small. There the whole error
  can be smaller with a sample than without.
- An item that everyone has changes nothing: it is covered under any bound, or left out of the sample. One person with 200,000
  of the items is left out under any bound worth choosing, with a sample as without.
""".splitlines()

_COST = f"""\
### The cost

Pairs in one parquet file, those of [RESULTS.md](../benchmarks/RESULTS.md), read with `memory_limit = '{MEMORY}'` by a process
of its own: CPU seconds and the peak of its memory, with its start. A sample saves memory and the flow. It does not save reading
the rows, and sha256 takes 0.3 to 0.4 µs for each row's item, longer than DuckDB takes for the distinct pairs. So take a
sample where memory is short, or where the flow is most of the time.
""".splitlines()

if __name__ == "__main__":
    main()
