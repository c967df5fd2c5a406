"""dp_sql itself: one statement a question, without bounds on rows and sums but where a question says so."""

from pathlib import Path
from typing import Any

import dp_sql
from benchmarks.rivals.questions import DELTA, EPSILON, Asked
from benchmarks.rivals.runner import Answerer, main

COMMON = f"epsilon := {EPSILON}, privacy_unit := person"


def statement(asked: Asked) -> str:
    """The statement that an analyst would write. Public sets are in the table `public_set`."""
    question = asked.question
    public = "public_set.item" if question.kind == "top" else "public_set.grp"
    cap = f"groups := {public}, max_groups_contributed := {len(asked.public)}"
    bound = f"contribution_bound := {asked.total}, " if question.told else ""
    call = {
        "distinct": f"DP_COUNT_DISTINCT(item, {COMMON})",
        "rows": f"DP_COUNT(*, {COMMON})",
        "people": f"DP_COUNT_DISTINCT(person, {COMMON})",
        "sum": f"DP_SUM(value, {bound}{COMMON})",
        "mean": f"DP_AVG(value, {COMMON})",
        "median": f"DP_MEDIAN(value, lower := {question.low}, upper := {question.high}, {COMMON})",
        "top": f"DP_TOPK(item, 10, domain := {public}, {COMMON})",
        "group_people": f"DP_COUNT_DISTINCT(person, groups := {public}, {COMMON})",
        "unknown_people": f"DP_COUNT_DISTINCT(person, delta := {DELTA:f}, {COMMON})",
        "group_rows": f"DP_COUNT(*, groups := {public}, {COMMON})",
        "group_sum": f"DP_SUM(value, {cap}, {COMMON})",
        "group_mean": f"DP_AVG(value, {cap}, {COMMON})",
    }[question.kind]
    key = {"unknown_people": "item"}.get(question.kind, "grp")
    if "group" in question.kind or question.kind == "unknown_people":
        return f"SELECT {key}, {call} FROM {question.table} GROUP BY {key}"
    return f"SELECT {call} FROM {question.table}"


def prepare(asked: Asked, table: Path) -> Answerer:
    sql = statement(asked)
    session = dp_sql.connect()
    session.execute(f"CREATE TABLE {asked.question.table} AS FROM '{table}'")
    name = "item" if asked.question.kind == "top" else "grp"
    session.execute(f"CREATE TABLE public_set AS SELECT unnest({asked.public or [0]!r}) AS {name}")

    def run() -> Any:
        rows = session.execute(sql).fetchall()
        return dict(rows) if "GROUP BY" in sql else rows[0][0]

    return Answerer(run, "", note=sql)


if __name__ == "__main__":
    main(["dp-sql", "duckdb"], prepare, guesses=False)
