"""SmartNoise SQL: its own SQL over a pandas dataframe, with the metadata that its guide describes.

`max_ids` is the bound on rows per person; `sample_max_ids` enforces it by a random choice of rows.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import duckdb
import snsql

from benchmarks.rivals.questions import DELTA, EPSILON, Asked, K
from benchmarks.rivals.runner import Answerer, Refused, main

warnings.filterwarnings("ignore")
SELECTED = {
    "distinct": "COUNT(DISTINCT item)",
    "rows": "COUNT(*)",
    "people": "COUNT(DISTINCT person)",
    "sum": "SUM(value)",
    "mean": "AVG(value)",
    "top": "COUNT(DISTINCT person)",
    "group_people": "COUNT(DISTINCT person)",
    "group_rows": "COUNT(*)",
    "group_sum": "SUM(value)",
    "group_mean": "AVG(value)",
    "unknown_people": "COUNT(DISTINCT person)",
}


def _metadata(asked: Asked, rows: int, columns: list[str]) -> dict[str, Any]:
    unknown = asked.question.kind == "unknown_people"
    table: dict[str, Any] = {
        "max_ids": rows,
        "sample_max_ids": True,
        "censor_dims": unknown,
        "clamp_counts": False,
        "row_privacy": False,
        "person": {"type": "int", "private_id": True},
    }
    for name in ("item", "grp"):
        if name in columns:
            table[name] = {"type": "string"}
    if "value" in columns:
        table["value"] = {"type": "float", "lower": asked.question.low, "upper": asked.high}
    return {"engine": "pandas", "": {"S": {"t": table}}}


def prepare(asked: Asked, table: Path) -> Answerer:
    kind = asked.question.kind
    if kind == "median":
        raise Refused("no medians or quantiles")
    with duckdb.connect() as con:
        columns = [row[0] for row in con.execute(f"DESCRIBE FROM '{table}'").fetchall()]
        chosen = ", ".join(
            {"value": "CAST(value AS DOUBLE) AS value", "person": "person"}.get(
                name, f"CAST({name} AS VARCHAR) AS {name}"
            )
            for name in columns
        )
        distinct = kind in {"top", "group_people", "unknown_people"}
        key = "grp" if kind.startswith("group") else "item"
        source = f"SELECT {chosen} FROM '{table}'"
        if distinct:  # one row a person and group: less noise for the same count
            source = f"SELECT DISTINCT person, CAST({key} AS VARCHAR) AS {key} FROM '{table}'"
            columns = ["person", key]
        frame = con.execute(source).df()
    rows = {"people": 1, "distinct": asked.rows, "rows": asked.rows}.get(kind, asked.rows)
    rows = asked.groups if distinct else rows
    metadata = _metadata(asked, rows, columns)
    grouped = "group" in kind or kind in {"top", "unknown_people"}
    sql = f"SELECT {SELECTED[kind]} AS answer FROM S.t"
    if grouped:
        sql = f"SELECT {key}, {SELECTED[kind]} AS answer FROM S.t GROUP BY {key}"
    costs = snsql.from_df(
        frame.head(2), privacy=snsql.Privacy(epsilon=1.0, delta=DELTA), metadata=metadata
    )
    spent, _ = costs.get_privacy_cost(sql)
    privacy = snsql.Privacy(epsilon=EPSILON / max(round(spent), 1), delta=DELTA)
    reader = snsql.from_df(frame, privacy=privacy, metadata=metadata)
    types = {str(key): key for key in asked.public}

    def run() -> Any:
        found = reader.execute(sql)[1:]
        if not grouped:
            return found[0][0]
        groups = {types.get(str(name), name): value for name, value in found}
        if kind == "top":
            return sorted(groups, key=lambda item: -groups[item])[:K]
        return groups

    needs = (
        ""
        if kind == "people"
        else f"{rows} {'group' if distinct else 'row'}{'s' * (rows > 1)} a person"
    )
    if "value" in columns and kind in {"sum", "mean", "group_sum", "group_mean"}:
        needs += f", values up to {asked.high:g}"
    note = "`censor_dims: false`: it lists the groups of the data, which must be public"
    note = note if grouped and kind != "unknown_people" else ""
    return Answerer(run, needs, note)


def _reader(sql: str, **table: Any) -> tuple[Any, str]:
    """A reader over 1,000 people with 3 rows each."""
    with duckdb.connect() as con:
        frame = con.execute(
            "SELECT p.range AS person, CAST(g.range AS VARCHAR) AS item, 1.0 AS value "
            "FROM range(1000) AS p, range(3) AS g"
        ).df()
    columns = {
        "person": {"type": "int", "private_id": True},
        "item": {"type": "string"},
        "value": {"type": "float", "lower": 0, "upper": 2},
    }
    metadata = {"engine": "pandas", "": {"S": {"t": {"censor_dims": False, **table, **columns}}}}
    privacy = snsql.Privacy(epsilon=EPSILON, delta=DELTA)
    return snsql.from_df(frame, privacy=privacy, metadata=metadata), sql


def _answer(reader: Any, sql: str) -> Any:
    return reader.execute(sql)[1][0]


def _scale(reader: Any, sql: str) -> object:
    subquery, _ = reader._rewrite(sql)
    return next(round(m.scale) for m in reader._get_mechanisms(subquery) if m)


COUNT = "SELECT COUNT(*) AS n FROM S.t"
ITEMS = "SELECT COUNT(DISTINCT item) AS n FROM S.t"
CHECKS = {
    "`COUNT(*)` of 3,000 rows, without `max_ids`": lambda: round(_answer(*_reader(COUNT)), -1),
    "the same with `max_ids: 3`": lambda: round(_answer(*_reader(COUNT, max_ids=3)), -1),
    "scale of the noise of `COUNT(DISTINCT item)` with `max_ids: 50`, ε = 1": lambda: _scale(
        *_reader(ITEMS, max_ids=50)
    ),
    "what `AVG(value)` costs at `epsilon=1`": lambda: round(
        _reader("")[0].get_privacy_cost("SELECT AVG(value) AS a FROM S.t")[0], 1
    ),
}

if __name__ == "__main__":
    main(["smartnoise-sql", "opendp"], prepare, checks=CHECKS)
