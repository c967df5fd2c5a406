"""OpenDP: the Context API over polars, with the person as the identifier of its privacy unit.

Truncation per person and per group, public keys and the top-k measurement are used as OpenDP's
guide "Working with tabular data" and its API reference describe them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import opendp.prelude as dp
import polars as pl

from benchmarks.rivals.questions import DELTA, EPSILON, Asked, K
from benchmarks.rivals.runner import Answerer, main

dp.enable_features("contrib")
ROWS = 10_000_000
"""A public bound on the rows of a table, which OpenDP asks for where it sums."""


def _limit_groups(query: Any, groups: int) -> Any:
    """Keep a number of groups of each person.

    truncate_num_groups(k) keeps k - 1 in this version, and its keep="sample" fails.
    """
    return query.truncate_num_groups(groups + 1, by=["grp"], keep="first")


def _query(frame: pl.LazyFrame, delta: float | None = None, groups: int | None = None) -> Any:
    margins = [dp.polars.Margin(by=(), max_length=ROWS)]
    if groups is not None:
        margins.append(dp.polars.Margin(by=[pl.col("grp")], max_length=ROWS, max_groups=groups))
    loss = dp.loss_of(epsilon=EPSILON, delta=delta) if delta else dp.loss_of(epsilon=EPSILON)
    context = dp.Context.compositor(
        data=frame,
        privacy_unit=dp.unit_of(contributions=1, identifier=pl.col("person")),
        privacy_loss=loss,
        split_evenly_over=1,
        margins=margins,
    )
    return context.query()


def _number(query: Any) -> float:
    return float(query.release().collect().item())


def _by_group(query: Any, key: str) -> dict[Any, float]:
    frame = query.release().collect()
    values = next(name for name in frame.columns if name != key)
    return dict(zip(frame[key].to_list(), frame[values].to_list(), strict=True))


def prepare(asked: Asked, table: Path) -> Answerer:
    frame = pl.read_parquet(table)
    if "value" in frame.columns:  # cents: float sums need bounds that cost more
        frame = frame.with_columns((pl.col("value") * 100).cast(pl.Int64))
    answerer: Answerer = ANSWERERS[asked.question.kind](asked, frame)
    return answerer


def _plain(aggregate: Any, scale: float = 1) -> Any:
    def build(asked: Asked, frame: pl.DataFrame) -> Answerer:
        expression = aggregate(asked)
        rows = 1 if asked.question.kind == "people" else asked.rows

        def run() -> float:
            query = _query(frame.lazy()).truncate_per_group(rows).select(expression)
            return _number(query) / scale

        needs = "" if asked.question.kind == "people" else f"{rows} row{'s' * (rows > 1)} a person"
        if asked.question.kind == "mean":
            needs += f", amounts up to {asked.high:g}"
        return Answerer(run, needs)

    return build


def _sum(asked: Asked, frame: pl.DataFrame) -> Answerer:
    cents = round(100 * asked.total)

    def run() -> float:
        query = _query(frame.lazy()).group_by("person").agg(pl.col("value").sum())
        return _number(query.select(pl.col("value").dp.sum((0, cents)))) / 100

    return Answerer(run, f"a sum of {asked.total:g} a person")


def _median(asked: Asked, frame: pl.DataFrame) -> Answerer:
    question = asked.question
    candidates = list(range(int(100 * question.low), int(100 * question.high) + 1, 10))

    def run() -> float:
        query = _query(frame.lazy()).truncate_per_group(1)
        return _number(query.select(pl.col("value").dp.median(candidates))) / 100

    return Answerer(run, "1 row a person, a list of candidates", "one vote a person")


def _top(asked: Asked, frame: pl.DataFrame) -> Answerer:
    def measurement(scale: float) -> Any:
        counts = dp.vector_domain(dp.atom_domain(T="i64"))
        metric = dp.linf_distance(T="i64", monotonic=True)  # a person adds 0 or 1 to each count
        return dp.m.make_noisy_top_k(counts, metric, dp.max_divergence(), K, scale)

    best = measurement(
        dp.binary_search(lambda s: measurement(s).check(1, EPSILON), bounds=(0.01, 1000.0))
    )
    domain = pl.DataFrame({"item": asked.public})

    def run() -> list[Any]:
        people = frame.lazy().group_by("item").agg(pl.col("person").n_unique().alias("n"))
        counts = domain.lazy().join(people, on="item", how="left").collect()
        chosen = best(counts["n"].fill_null(0).cast(pl.Int64).to_list())
        return [asked.public[index] for index in chosen]

    return Answerer(run, "", "the user counts the people and proves the sensitivity")


def _groups(aggregate: Any, scale: float = 1) -> Any:
    def build(asked: Asked, frame: pl.DataFrame) -> Answerer:
        keys = pl.LazyFrame({"grp": asked.public}, schema={"grp": frame.schema["grp"]})
        each = 1 if asked.question.kind == "group_people" else asked.rows_per_group

        def run() -> dict[Any, float]:
            query = _query(frame.lazy(), groups=len(asked.public))
            query = _limit_groups(query.truncate_per_group(each, by=["grp"]), asked.groups)
            query = query.group_by("grp").agg(aggregate(asked)).with_keys(keys)
            return {key: value / scale for key, value in _by_group(query, "grp").items()}

        needs = f"{asked.groups} groups a person"
        needs += f", {each} rows in each" if each > 1 else ""
        return Answerer(run, needs)

    return build


def _unknown(asked: Asked, frame: pl.DataFrame) -> Answerer:
    people = frame.select("person", pl.col("item").alias("grp"))

    def run() -> dict[Any, float]:
        query = _query(people.lazy(), delta=DELTA).truncate_per_group(1, by=["grp"])
        query = _limit_groups(query, asked.groups).group_by("grp").agg(dp.len(signed=True))
        return _by_group(query, "grp")

    return Answerer(run, f"{asked.groups} items a person")


def _bounds(asked: Asked) -> tuple[int, int]:
    return 0, round(100 * asked.high)


ANSWERERS: dict[str, Any] = {
    "distinct": _plain(lambda _: pl.col("item").dp.n_unique(signed=True)),
    "rows": _plain(lambda _: dp.len(signed=True)),
    "people": _plain(lambda _: dp.len(signed=True)),
    "sum": _sum,
    "mean": _plain(lambda asked: pl.col("value").dp.mean(_bounds(asked)), scale=100),
    "median": _median,
    "top": _top,
    "group_people": _groups(lambda _: dp.len(signed=True)),
    "group_rows": _groups(lambda _: dp.len(signed=True)),
    "group_sum": _groups(lambda asked: pl.col("value").dp.sum(_bounds(asked)), scale=100),
    "group_mean": _groups(lambda asked: pl.col("value").dp.mean(_bounds(asked)), scale=100),
    "unknown_people": _unknown,
}


def _kept(k: int, keep: str = "first") -> str:
    """How many of a person's 3 groups are kept: the counts of 1,000 people, in thousands."""
    people = pl.DataFrame({"person": range(1000)}).join(
        pl.DataFrame({"grp": range(3)}), how="cross"
    )
    query = _query(people.lazy(), groups=3).truncate_per_group(1, by=["grp"])
    query = query.truncate_num_groups(k, by=["grp"], keep=keep).group_by("grp")
    query = query.agg(dp.len(signed=True)).with_keys(pl.LazyFrame({"grp": [0, 1, 2]}))
    return str(round(sum(_by_group(query, "grp").values()) / 1000))


def _unlimited() -> float:
    return _number(_query(pl.LazyFrame({"person": [1, 1, 2]})).select(dp.len(signed=True)))


def _scale(rows: int) -> float:
    frame = pl.LazyFrame({"person": [1, 2], "item": [1, 2]})
    query = _query(frame).truncate_per_group(rows).select(pl.col("item").dp.n_unique(signed=True))
    return float(query.summarize()["scale"].item())


CHECKS = {
    "scale of the noise of `n_unique` with 50 rows a person, ε = 1": lambda: round(_scale(50)),
    'groups that `truncate_num_groups(k, keep="first")` keeps of 3, for k = 1, 2, 3': lambda: (
        ", ".join(map(_kept, (1, 2, 3)))
    ),
    'the same with its default, `keep="sample"`, for k = 2': lambda: _kept(2, "sample"),
    "rows without a limit": _unlimited,
}

if __name__ == "__main__":
    main(["opendp", "polars"], prepare, checks=CHECKS)
