"""qrlew: it rewrites SQL into private SQL, which DuckDB runs here.

It reads the schema and the number of rows from a database; a copy in SQLite serves for that.
"""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import duckdb
from pyqrlew import Dataset
from sqlalchemy import create_engine

from benchmarks.rivals.questions import DELTA, EPSILON, Asked, K
from benchmarks.rivals.runner import Answerer, Refused, main

SELECTED = {
    "distinct": "count(DISTINCT item)",
    "rows": "count(*)",
    "people": "count(DISTINCT person)",
    "sum": "sum({value})",
    "mean": "avg({value})",
    "top": "count(DISTINCT person)",
    "group_people": "count(DISTINCT person)",
    "group_rows": "count(*)",
    "group_sum": "sum({value})",
    "group_mean": "avg({value})",
    "unknown_people": "count(DISTINCT person)",
}
"""The columns are numbers or strings in SQLite, too."""


def _dataset(con: duckdb.DuckDBPyConnection) -> Dataset:
    """The schema of the table t, and its number of rows, as qrlew reads them from a database."""
    path = Path(tempfile.mkdtemp()) / "copy.sqlite"
    columns = con.execute("DESCRIBE t").fetchall()
    kinds = {"VARCHAR": "text", "DOUBLE": "real"}
    with sqlite3.connect(path) as copy:
        listed = ", ".join(f"{name} {kinds.get(kind, 'integer')}" for name, kind, *_ in columns)
        copy.execute(f"CREATE TABLE t ({listed})")
        marks = ", ".join("?" for _ in columns)
        copy.executemany(f"INSERT INTO t VALUES ({marks})", con.execute("FROM t").fetchall())
    return Dataset.from_database("copy", create_engine(f"sqlite:///{path}"), None)


def _rewritten(dataset: Dataset, sql: str, rows: int, groups: int) -> str:
    private = dataset.relation(sql).rewrite_with_differential_privacy(
        dataset=dataset,
        privacy_unit=[("t", [], "person")],
        epsilon_delta={"epsilon": EPSILON, "delta": DELTA},
        max_multiplicity=float(rows),
        max_multiplicity_share=1.0,
        max_privacy_unit_groups=groups,
    )
    return str(private.relation().to_query())


def _table(source: str) -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.execute(f"CREATE TABLE t AS {source}")
    return con


def prepare(asked: Asked, table: Path) -> Answerer:
    kind, question = asked.question.kind, asked.question
    if kind == "median":
        raise Refused("no medians or quantiles")
    grouped = "group" in kind or kind in {"top", "unknown_people"}
    key = "item" if kind in {"top", "unknown_people"} else "grp"
    with duckdb.connect() as con:
        columns = [row[0] for row in con.execute(f"DESCRIBE FROM '{table}'").fetchall()]
    double = "REPLACE (CAST(value AS DOUBLE) AS value)" if "value" in columns else ""
    source = f"SELECT * {double} FROM '{table}'"
    if kind in {"people", "top", "group_people", "unknown_people"}:
        unique = "person" if kind == "people" else f"person, {key}"
        source = f"SELECT DISTINCT {unique} FROM '{table}'"  # rows are counted, see the checks
    con = _table(source)
    sql = f"SELECT {SELECTED[kind]} AS answer FROM t".format(value=f"least(value, {asked.high})")
    where = (
        [f"value >= {question.low} AND value <= {question.high}"] if "{" in SELECTED[kind] else []
    )
    if grouped:
        sql = sql.replace("SELECT ", f"SELECT {key}, ", 1)
        if kind != "unknown_people":
            where.append(f"{key} IN ({', '.join(repr(one) for one in asked.public)})")
    sql += f" WHERE {' AND '.join(where)}" if where else ""
    sql += f" GROUP BY {key}" if grouped else ""
    groups = asked.groups if grouped else 1
    rows = {"people": 1, "top": groups, "group_people": groups, "unknown_people": groups}
    most = rows.get(kind, asked.rows)
    private = _rewritten(_dataset(con), sql, most, groups)

    def run() -> Any:
        found = con.execute(private).fetchall()
        if not grouped:
            return found[0][0]
        answers = dict(found)
        return sorted(answers, key=lambda item: -answers[item])[:K] if kind == "top" else answers

    needs = f"{most} row{'s' * (most > 1)} a person" + (f", {groups} groups" if grouped else "")
    needs += f", values up to {asked.high:g}" if "{" in SELECTED[kind] else ""
    wrong = "counts rows instead of distinct items" if kind == "distinct" else ""
    return Answerer(run, needs, wrong=wrong)


def _answer(sql: str) -> str:
    """A private answer about 1,000 people with the same 30 items each, rounded to thousands."""
    con = _table("SELECT p.range AS person, i.range AS item FROM range(1000) AS p, range(30) AS i")
    private = _rewritten(_dataset(con), sql, 30, 1)
    answer = con.execute(private).fetchall()[0][0]
    return f"{round(answer, -3)}, from SQL with DISTINCT {private.upper().count('DISTINCT')} times"


CHECKS = {
    f"`{sql}` of 1,000 people with the same 30 items": lambda sql=sql: _answer(sql)
    for sql in (
        "SELECT count(DISTINCT item) AS n FROM t",
        "SELECT count(DISTINCT person) AS n FROM t",
        "SELECT count(*) AS n FROM t",
    )
}

if __name__ == "__main__":
    main(["pyqrlew", "duckdb"], prepare, guesses=False, checks=CHECKS)
