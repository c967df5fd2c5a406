"""PipelineDP on its local backend, with Laplace noise and, where it can, bounds on a person's sum."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import duckdb
import pipeline_dp
from pipeline_dp import Metrics

from benchmarks.rivals.questions import DELTA, EPSILON, Asked, K
from benchmarks.rivals.runner import Answerer, Refused, main

logging.disable(logging.WARNING)
METRICS = {
    "rows": Metrics.COUNT,
    "people": Metrics.PRIVACY_ID_COUNT,
    "sum": Metrics.SUM,
    "mean": Metrics.MEAN,
    "median": Metrics.PERCENTILE(50),
    "top": Metrics.PRIVACY_ID_COUNT,
    "group_people": Metrics.PRIVACY_ID_COUNT,
    "group_rows": Metrics.COUNT,
    "group_sum": Metrics.SUM,
    "group_mean": Metrics.MEAN,
    "unknown_people": Metrics.PRIVACY_ID_COUNT,
}


def _params(asked: Asked) -> tuple[pipeline_dp.AggregateParams, str]:
    kind = asked.question.kind
    bounds: dict[str, Any] = {"max_partitions_contributed": 1}
    needs: list[str] = []
    if "group" in kind or kind in {"top", "unknown_people"}:
        bounds["max_partitions_contributed"] = asked.groups
        needs.append(f"{asked.groups} groups a person")
    each = asked.rows_per_group if "group" in kind else asked.rows
    each = 1 if METRICS[kind] == Metrics.PRIVACY_ID_COUNT else each
    bounds["max_contributions_per_partition"] = each
    if kind == "sum":
        bounds |= {"min_sum_per_partition": 0.0, "max_sum_per_partition": asked.total}
        needs.append(f"a sum of {asked.total:g} a person")
    else:
        if each > 1:
            needs.append(f"{each} rows a person" + (" and group" if "group" in kind else ""))
        if METRICS[kind] in {Metrics.SUM, Metrics.MEAN} or kind == "median":
            high = asked.question.high if kind == "median" else asked.high
            bounds |= {"min_value": asked.question.low, "max_value": high}
            needs.append(f"values up to {high:g}")
    noise = pipeline_dp.NoiseKind.LAPLACE
    return (
        pipeline_dp.AggregateParams(metrics=[METRICS[kind]], noise_kind=noise, **bounds),
        ", ".join(needs),
    )


def prepare(asked: Asked, table: Path) -> Answerer:
    kind = asked.question.kind
    if kind == "distinct":
        raise Refused("counts people and rows, not distinct values")
    key = {"top": "item", "unknown_people": "item"}.get(kind, "grp")
    grouped = "group" in kind or key == "item"
    with duckdb.connect() as con:
        columns = [row[0] for row in con.execute(f"DESCRIBE FROM '{table}'").fetchall()]
        group = key if grouped else "0"
        value = "CAST(value AS DOUBLE)" if "value" in columns else "0"
        rows = con.execute(f"SELECT person, {group}, {value} FROM '{table}'").fetchall()
    public = None if kind == "unknown_people" else (asked.public if grouped else [0])
    params, needs = _params(asked)
    extractors = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda row: row[1],
        value_extractor=lambda row: row[2],
    )

    def run() -> Any:
        delta = DELTA if public is None else 0.0
        accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=EPSILON, total_delta=delta)
        engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
        found = engine.aggregate(rows, params, extractors, public)
        accountant.compute_budgets()
        groups = {name: metrics[0] for name, metrics in found}
        if kind == "top":
            return sorted(groups, key=lambda item: -groups[item])[:K]
        return groups if grouped else groups[0]

    return Answerer(run, needs)


CHECKS = {
    "the parameters of a count without bounds": lambda: pipeline_dp.AggregateParams(
        [Metrics.COUNT]
    ),
}

if __name__ == "__main__":
    main(["pipeline-dp", "python-dp"], prepare, checks=CHECKS)
