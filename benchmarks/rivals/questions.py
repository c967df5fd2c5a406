"""The questions that every library is asked, with DuckDB's own answer and the bounds that it gives away."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import duckdb

EPSILON = 1.0
DELTA = 1e-6
K = 10


@dataclass(frozen=True)
class Question:
    """One question about one table with columns person, and some of item, grp, value."""

    key: str
    title: str
    table: str
    kind: str
    plain: str
    guessed: bool = False
    """Whether the bound is also tried at a fifth and at five times its size."""
    low: float = 0
    high: float = 0
    """The public range of a value."""
    told: bool = False
    """Whether dp_sql is given the bound, too; the others have it in the question before."""


def _grouped(column: str, aggregate: str, table: str) -> str:
    return f"SELECT {column}, {aggregate} FROM {table} GROUP BY {column}"


_MONEY: Any = {"low": 0, "high": 1000}
_BASKET = "carts"
_FEW = "TPC-H Q6 for one nation, 49 people"
QUESTIONS = (
    Question(
        "distinct",
        "distinct items, few people with many items each",
        "readers",
        "distinct",
        "SELECT count(DISTINCT item) FROM readers",
        guessed=True,
    ),
    Question(
        "distinct_shop",
        "distinct items of a shop",
        _BASKET,
        "distinct",
        f"SELECT count(DISTINCT item) FROM {_BASKET}",
    ),
    Question(
        "rows",
        "rows",
        _BASKET,
        "rows",
        f"SELECT count(*) FROM {_BASKET}",
        guessed=True,
    ),
    Question(
        "people",
        "people",
        _BASKET,
        "people",
        f"SELECT count(DISTINCT person) FROM {_BASKET}",
    ),
    Question(
        "sum",
        "sum of the amounts",
        _BASKET,
        "sum",
        f"SELECT sum(value) FROM {_BASKET}",
        guessed=True,
        **_MONEY,
    ),
    Question(
        "mean",
        "average amount",
        _BASKET,
        "mean",
        f"SELECT avg(value) FROM {_BASKET}",
        **_MONEY,
    ),
    Question(
        "median",
        "median amount",
        _BASKET,
        "median",
        f"SELECT median(value) FROM {_BASKET}",
        **_MONEY,
    ),
    Question(
        "top",
        "the 10 items that most people have",
        _BASKET,
        "top",
        f"SELECT item, count(DISTINCT person) AS n FROM {_BASKET} GROUP BY item "
        f"ORDER BY n DESC LIMIT {K}",
    ),
    Question(
        "months",
        "people in each of 24 months",
        _BASKET,
        "group_people",
        _grouped("grp", "count(DISTINCT person)", _BASKET),
    ),
    Question(
        "unknown",
        "people per city, cities unknown",
        "homes",
        "unknown_people",
        _grouped("item", "count(DISTINCT person)", "homes"),
    ),
    Question(
        "q1_sum",
        "TPC-H Q1: sum of the quantities by return flag and line status",
        "lineitem",
        "group_sum",
        _grouped("grp", "sum(value)", "lineitem"),
        low=0,
        high=50,
    ),
    Question(
        "q1_mean",
        "TPC-H Q1: average quantity by return flag and line status",
        "lineitem",
        "group_mean",
        _grouped("grp", "avg(value)", "lineitem"),
        low=0,
        high=50,
    ),
    Question(
        "q6",
        "TPC-H Q6: revenue from discounts",
        "q6",
        "sum",
        "SELECT sum(value) FROM q6",
        low=0,
        high=10_000,
    ),
    Question("q6_few", _FEW, "q6_few", "sum", "SELECT sum(value) FROM q6_few", high=10_000),
    Question(
        "q6_told",
        f"{_FEW}; dp_sql is told the others' bound",
        "q6_few",
        "sum",
        "SELECT sum(value) FROM q6_few",
        high=10_000,
        told=True,
    ),
    Question(
        "parts",
        "TPC-H: distinct parts that were bought",
        "lineitem",
        "distinct",
        "SELECT count(DISTINCT item) FROM lineitem",
    ),
    Question(
        "orders",
        "TPC-H: orders per month",
        "orders",
        "group_rows",
        _grouped("grp", "count(*)", "orders"),
    ),
    Question(
        "words",
        "distinct words of reviewers",
        "amazon_fashion_words",
        "distinct",
        "SELECT count(DISTINCT item) FROM amazon_fashion_words",
        guessed=True,
    ),
    Question(
        "places",
        "distinct places of check-ins",
        "gowalla",
        "distinct",
        "SELECT count(DISTINCT item) FROM gowalla",
    ),
)
"""The last two are asked where the real sets are present."""


@dataclass(frozen=True)
class Asked:
    """A question with its true answer and the bounds that a library may need."""

    question: Question
    truth: Any
    rows: int
    """The 95 % quantile of the rows of a person."""
    groups: int
    """The 95 % quantile of the groups (or items) of a person."""
    rows_per_group: int
    """The 95 % quantile of the rows of a person in one group."""
    high: float
    """The 95 % quantile of a value."""
    total: float
    """The 95 % quantile of the sum of a person's values."""
    public: list[Any] = field(default_factory=list)
    """The public groups; for the top items, all items."""

    def scaled(self, factor: float) -> Asked:
        """The same question with another guess of the bound on contributions."""
        values = asdict(self) | {"question": self.question}
        values["rows"] = max(1, round(self.rows * factor))
        values["total"] = self.total * factor
        return Asked(**values)


def ask(con: duckdb.DuckDBPyConnection, question: Question) -> Asked:
    """Compute what each library is given: bounds from the data itself, which favour the library."""

    def one(sql: str) -> Any:
        return con.execute(sql).fetchall()[0][0]

    columns = {name for (name, *_) in con.execute(f"DESCRIBE {question.table}").fetchall()}
    group = "item" if question.kind in {"unknown_people", "top"} else "grp"
    group = group if group in columns else "person"
    answers = con.execute(question.plain).fetchall()
    truth: Any = float(answers[0][0]) if len(answers[0]) == 1 else None
    if question.kind == "top":
        truth = [item for item, _ in answers]
    elif truth is None:
        truth = [[key, float(value)] for key, value in answers]
    public = con.execute(f"SELECT DISTINCT {group} FROM {question.table} ORDER BY 1").fetchall()
    value = "value" if "value" in columns else "1"
    table = question.table

    def at_95(inner: str) -> Any:
        return one(f"SELECT quantile_disc(x, 0.95) FROM ({inner})")

    return Asked(
        question=question,
        truth=truth,
        rows=int(at_95(f"SELECT count(*) AS x FROM {table} GROUP BY person")),
        groups=int(at_95(f"SELECT count(DISTINCT {group}) AS x FROM {table} GROUP BY person")),
        rows_per_group=int(at_95(f"SELECT count(*) AS x FROM {table} GROUP BY person, {group}")),
        high=float(at_95(f"SELECT {value} AS x FROM {table}")),
        total=float(at_95(f"SELECT sum({value}) AS x FROM {table} GROUP BY person")),
        public=[key for (key,) in public] if group != "person" else [],
    )
