"""A large public column is read without DISTINCT only if a constraint makes it unique."""

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

import dp_sql
from dp_sql.engines.duckdb import many_rows, release_sql
from dp_sql.privacy.plans.plan import Plan

pytestmark = pytest.mark.usefixtures("by_sql")
ONCE = [*range(1, 10)]
NULLS, TWICE = [*ONCE, None, None], [*ONCE, 3, None, 9]
# A public table's declaration, the items' type, its values, and if DISTINCT is left out.
CASES: list[tuple[str, str, list[Any], bool]] = [
    ("x INTEGER PRIMARY KEY", "INTEGER", ONCE, True),
    ("x INTEGER UNIQUE", "INTEGER", NULLS, True),
    ("x INTEGER, UNIQUE (x), CHECK (x > 0)", "INTEGER", NULLS, True),
    ("x INTEGER", "INTEGER", TWICE, False),
    ("x INTEGER, y DOUBLE DEFAULT random(), UNIQUE (x, y)", "INTEGER", TWICE, False),
    ("x INTEGER, y DOUBLE DEFAULT random() UNIQUE, CHECK (x > 0)", "INTEGER", TWICE, False),
    ("x BIGINT UNIQUE", "INTEGER", NULLS, False),
    ("x VARCHAR UNIQUE", "VARCHAR", NULLS, True),
    ("x VARCHAR COLLATE NOCASE UNIQUE", "VARCHAR", NULLS, True),
    ("x VARCHAR", "VARCHAR", TWICE, False),
    ("x DECIMAL(9, 2) UNIQUE", "DECIMAL(9, 2)", NULLS, False),
]
ROWS = "CREATE TABLE seen AS SELECT i % 20 AS u, CAST(1 + i % 5 AS {}) AS x FROM range(60) AS r(i)"
QUESTION = "SELECT DP_TOPK(x, 9, epsilon := 10{}) FROM seen"
OWNERS = QUESTION.format(", privacy_unit := u, domain := {}")


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each release has read its domain without DISTINCT."""
    found: list[bool] = []
    right = release_sql._constrained

    def constrained(plan: Plan, engine: Any) -> Plan:
        made = right(plan, engine)
        assert made.domain is not None and made.domain.select is not None
        found.append("DISTINCT" not in made.domain.select)
        return made

    monkeypatch.setattr(release_sql, "_constrained", constrained)
    monkeypatch.setattr(many_rows, "LEAST", 9)
    return found


def fill(con: Any, declared: str, values: list[Any], table: str = "listed") -> None:
    con.execute(f"CREATE OR REPLACE TABLE {table} ({declared})")
    for value in values:
        con.execute(f"INSERT INTO {table} (x) VALUES ({'NULL' if value is None else value})")


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[dp_sql.Session]]:
    """An owner and an analyst of a database with the tables of all cases."""
    folder = tmp_path_factory.mktemp("shop")
    file, policy = str(folder / "shop.duckdb"), ""
    with duckdb.connect(file) as con:
        for n, (declared, kind, values, _) in enumerate(CASES):
            con.execute(ROWS.format(kind).replace("seen", f"seen{n}"))
            fill(con, declared, values, f"listed{n}")
            policy += f'tables.seen{n}.privacy_unit = "u"\ndomains."seen{n}.x" = "listed{n}.x"\n'
    listed = [f"listed{n}" for n in range(len(CASES))]
    (folder / "policy.toml").write_text(f"public.tables = {listed}\n{policy}", "utf-8")
    with (
        dp_sql.connect(file, read_only=True) as owner,
        dp_sql.connect(file, policy=folder / "policy.toml") as analyst,
    ):
        yield [owner, analyst]


@pytest.mark.parametrize("n", range(len(CASES)), ids=[case[0] for case in CASES])
def test_each_item_is_listed_once(n: int, read: list[bool], both: list[dp_sql.Session]) -> None:
    for session, asked in zip(
        both, (OWNERS.format(f"listed{n}.x"), QUESTION.format("")), strict=True
    ):
        ((answer,),) = session.sql(asked.replace("seen", f"seen{n}")).fetchall()
        assert sorted(map(int, answer)) == ONCE
    assert read == [CASES[n][-1]] * 2


def test_constraints_of_another_table_of_the_same_name_do_not_count(read: list[bool]) -> None:
    with duckdb.connect() as con:
        con.execute(ROWS.format("INTEGER"))
        dp_sql.install(con)
        con.execute("CREATE SCHEMA other")
        for declared, values, table in (
            ("x INTEGER UNIQUE", ONCE, "listed"),
            ("x INTEGER", TWICE, "other.listed"),
            ("x INTEGER", TWICE, "listed"),
            ("x INTEGER UNIQUE", NULLS, "listed"),
        ):
            fill(con, declared, values, table)
            ((answer,),) = con.sql(OWNERS.format(f"{table}.x")).fetchall()
            assert sorted(answer) == ONCE
        con.execute("CREATE VIEW shown AS SELECT * FROM listed UNION ALL SELECT * FROM listed")
        ((answer,),) = con.sql(OWNERS.format("shown.x")).fetchall()
        assert sorted(answer) == ONCE
    assert read == [True, False, False, True, False]


def test_the_constraints_of_a_small_column_are_not_looked_up(
    read: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(many_rows, "LEAST", 10)
    with dp_sql.connect() as owner:
        owner.execute(ROWS.format("INTEGER"))
        fill(owner, "x INTEGER UNIQUE", ONCE)
        owner.sql(OWNERS.format("listed.x")).fetchall()
    assert read == [False]
