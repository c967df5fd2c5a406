"""What is measured without SQL: maximum flows and mechanisms alone, and their errors.

Each job returns a section of RESULTS.md.
"""

import statistics
import time
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np

import dp_sql
from benchmarks import baselines
from benchmarks.flow_families import flow_families, large_flow_families
from benchmarks.jobs import SETS
from benchmarks.measure import load, median, missing, present
from dp_sql.udfs import REGISTRY, Mechanism
from dp_sql.udfs.count_distinct import bounded
from dp_sql.udfs.count_distinct.flow import max_cover_counts
from dp_sql.udfs.count_distinct.graph import build_graph
from dp_sql.udfs.exact_sampling import secret_draws
from dp_sql.udfs.topk.joint import JOINT
from dp_sql.udfs.topk.subset import SUBSET

EXPECTED = {
    "amazon_fashion_words": {1: 368, 5: 1117, 9: 1317, 17: 1428, 50: 1450},
    "imdb_words": {1: 50000, 2: 82999, 5: 95953, 8: 97933, 16: 98681, 20: 98724, 30: 98733},
}


def flow() -> list[str]:
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import maximum_bipartite_matching

    lines = ["## Max flow for all bounds", ""]
    for name in filter(present, EXPECTED):
        with dp_sql.connect() as session:
            load(session, name)
            offsets, people = _pairs(session, name)
        values = max_cover_counts(build_graph(offsets, people), range(1, 101))
        shown = ", ".join(f"F({bound}) = {values[bound - 1]}" for bound in EXPECTED[name])
        right = all(values[bound - 1] == value for bound, value in EXPECTED[name].items())
        lines += [f"- {name}: {shown}: {'as expected' if right else 'WRONG'}."]
    if present("imdb_words"):
        ours = median(lambda: max_cover_counts(build_graph(offsets, people), range(1, 101)), 5)
        items = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        n_people = int(people.max()) + 1
        rows = np.concatenate([people.astype(np.int64) + n_people * copy for copy in range(8)])
        graph = csr_matrix(
            (np.ones(len(rows), np.int8), (rows, np.tile(items, 8))),
            shape=(8 * n_people, len(offsets) - 1),
        )
        start = time.perf_counter()
        matched = int((maximum_bipartite_matching(graph, perm_type="column") >= 0).sum())
        theirs = 1000 * (time.perf_counter() - start)
        lines += [
            "",
            "| imdb_words, 6.7 million pairs | ms | result |",
            "|---|---|---|",
            f"| this kernel: build the graph, all bounds 1 to 100 | {ours:.0f} | F(8) = {values[7]} |",
            f"| scipy's maximum_bipartite_matching, bound 8 alone (one run, graph built before) "
            f"| {theirs:.0f} | {matched} |",
            f"| times faster (goal 20) | {theirs / ours:.0f} | |",
        ]
    return lines + missing(tuple(EXPECTED))


def _pairs(session: dp_sql.Session, name: str):  # type: ignore[no-untyped-def]

    columns = session.execute(
        f"SELECT dense_rank() OVER (ORDER BY item) - 1 AS item, "
        f"dense_rank() OVER (ORDER BY user_id) - 1 AS person FROM {name}"
    ).fetchnumpy()
    order = np.argsort(columns["item"], kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(columns["item"]))])
    return offsets.astype(np.int32), columns["person"][order].astype(np.int32)


def own_time() -> list[str]:
    lines = [
        "## joint and subset alone",
        "",
        "Counts that fall like 1/rank (30,000 people), exact draws, without SQL. "
        "Goal: k = 1000, epsilon = 0.1, d = 100,000 under one second.",
        "",
        "| d | k | epsilon | joint ms | subset ms |",
        "|---|---|---|---|---|",
    ]
    for d, k, epsilon in (
        (40_000, 10, "1"), (40_000, 100, "1"), (100_000, 100, "1"), (100_000, 1000, "1"),
        (100_000, 1000, "0.1"), (1_000_000, 100, "1"), (100_000, 100, "0.000001"),
    ):  # fmt: skip
        counts = (30_000 // np.arange(1, d + 1)).astype(np.int64)
        joint, subset = (
            median(partial(one.run, counts, k, Fraction(epsilon))) for one in (JOINT, SUBSET)
        )
        lines.append(f"| {d:,} | {k} | {epsilon} | {joint:.1f} | {subset:.1f} |")
    sizes = np.full(100_000, 10)
    subsets = median(lambda: secret_draws().subsets(sizes, 5))
    return [
        *lines,
        "",
        f"Drawing five of the ten groups of each of 100,000 people: {subsets:.1f} ms.",
    ]


def accuracy() -> list[str]:
    lines = [
        "## Accuracy of DP_COUNT_DISTINCT",
        "",
        "10th / 50th / 90th percentile over 400 draws, epsilon = 1, beta = 0.05. The paper's tables "
        "4 and 7 print bound 6.9 / 9.0 / 13.1, count 1220.6 / 1319.1 / 1394.2 for the Amazon Fashion "
        "words (candidates up to 99) and bound 12 / 16 / 21, count 98555.6 / 98670.4 / 98726.8 for "
        "the IMDb words (candidates up to 29).",
        "",
        "| table | candidates | bound | estimate | lower bound ≤ truth |",
        "|---|---|---|---|---|",
    ]
    for name, candidates in (("amazon_fashion_words", 99), ("imdb_words", 29)):
        if not present(name):
            continue
        with dp_sql.connect() as session:
            load(session, name)
            graph = build_graph(*_pairs(session, name))
        cover = max_cover_counts(graph, range(1, candidates + 1))
        values = [int(value) for value in cover]
        draws = [
            bounded.release(values, Fraction(1), Fraction(1, 20), "gem", secret_draws())
            for _ in range(400)
        ]
        held = sum(d.lower_bound <= graph.n_items for d in draws) / len(draws)
        lines.append(
            f"| {name} | 1 … {candidates} | {_deciles([d.contribution_bound for d in draws])} "
            f"| {_deciles([d.estimate for d in draws])} | {held:.3f} of the draws |"
        )
    return lines + missing(("amazon_fashion_words", "imdb_words"))


def _deciles(values: list[int | None]) -> str:
    found = statistics.quantiles([n for n in values if n is not None], n=10)
    return " / ".join(f"{found[i]:.0f}" for i in (0, 4, 8))


def selection_error() -> list[str]:
    """The largest shortfall of a listed count, for every mechanism of the top-k and two baselines."""
    lines = [
        "## Error of the top-k mechanisms",
        "",
        "How far a listed count is below the count that belongs at its rank, at most: the median "
        "over 50 draws. epsilon = 1; delta = 1e-6 if the mechanism takes one. `limited_domain` may "
        "list fewer than k items: then the median length is in brackets. `subset` draws a set: its "
        "items are compared in the order of their counts. `laplace` and `gamma` are baselines in "
        "floating point.",
        "",
    ]
    public = {"epsilon": Fraction(1), "delta": Fraction(1, 10**6)}
    names = [name for name in REGISTRY["topk"] if name != "weighted_gaussian"]  # unknown_domain.py
    names += ["laplace", "gamma"]
    lines += [f"| table | k | {' | '.join(names)} |", "|---" * (len(names) + 2) + "|"]
    for name in filter(present, SETS):
        with dp_sql.connect() as session:
            load(session, name)
            sql = f"SELECT count(DISTINCT user_id) AS n FROM {name} GROUP BY item ORDER BY n DESC"
            counts = session.sql(sql).fetchnumpy()["n"].astype(np.int64)
        for k in (10, 50, 100):
            shown = []
            for choice in names:
                draw = getattr(baselines, choice, None)
                draw = draw or partial(_drawn, REGISTRY["topk"][choice], public)
                draws = [draw(counts, k, public["epsilon"]) for _ in range(50)]
                error = statistics.median(_shortfall(counts, picks) for picks in draws)
                length = statistics.median(len(picks) for picks in draws)
                shown.append(f"{error:.0f}" + (f" ({length:.0f})" if length < k else ""))
            lines.append(f"| {name} | {k} | {' | '.join(shown)} |")
    return lines + missing(SETS)


def _drawn(
    mechanism: Mechanism, public: dict[str, Fraction], counts: object, k: int, _: Fraction
) -> list[int]:
    given = {"k": k, **public}
    largest = counts if mechanism.n_largest is None else counts[: mechanism.n_largest(k)]  # type: ignore[index]
    found: list[int] = mechanism.run(
        largest, **{name: given[name] for name in mechanism.parameters}
    )
    return found


def _shortfall(counts: object, picks: list[int]) -> int:
    """Of counts that are sorted, largest first."""
    gaps = [counts[rank] - counts[pick] for rank, pick in enumerate(picks)]  # type: ignore[index]
    return max(gaps, default=0)


def mechanisms() -> list[str]:
    """Every mechanism by itself, at a size that is large for it."""
    lines = [
        "## Every mechanism alone",
        "",
        "Without SQL, epsilon = 1. topk: k = 100 of d = 100,000 counts that fall like 1/rank; "
        "count_distinct: 1,000,000 pairs of 30,000 people and 40,000 items, bounds up to 100; "
        "select: 1,000 candidates with different sensitivities; quantile: quartiles of 1,000,000 votes "
        "on a grid of 10^9 steps.",
        "",
        "| function | mechanism | ms |",
        "|---|---|---|",
    ]
    rng = np.random.default_rng()
    counts = (30_000 // np.arange(1, 100_001)).astype(np.int64)
    people = rng.integers(0, 30_000, 1_000_000).astype(np.int32)
    ends = np.sort(rng.integers(0, 1_000_000, 39_999))
    offsets = np.concatenate([[0], ends, [1_000_000]]).astype(np.int32)
    scores = [int(n) for n in rng.integers(0, 10_000, 1_000)]
    sizes = [int(n) for n in rng.integers(1, 10, 1_000)]
    pairs = (np.repeat(np.arange(40_000, dtype=np.int32), np.diff(offsets)), people)
    data = {"topk": (counts,), "count_distinct": (offsets, people), "select": (scores, sizes),
            "quantile": (rng.integers(0, 10**9, 1_000_000),)}  # fmt: skip
    public = {
        "k": 100, "epsilon": Fraction(1), "delta": Fraction(1, 10**6), "beta": Fraction(1, 20),
        "max_contributions": 100, "bound": "gem", "n_steps": 10**9,
        "quantiles": (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)),
    }  # fmt: skip
    for function, usual in data.items():
        for name, mechanism in REGISTRY[function].items():
            given = {key: public[key] for key in mechanism.parameters}
            of_pairs = function == "topk" and "max_contributions" in mechanism.parameters
            values = pairs if of_pairs else usual
            if mechanism.n_largest is not None:
                values = (counts[: mechanism.n_largest(100)],)
            spent = median(partial(mechanism.run, *values, **given))
            lines.append(f"| {function} | {name} | {spent:.1f} |")
    return lines


ALL: tuple[Callable[[], list[str]], ...] = (
    flow, flow_families, large_flow_families, own_time, mechanisms, accuracy, selection_error,
)  # fmt: skip
