"""The oracle rejects compilers that are wrong: each mutant here must be found out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from sqlglot import exp

from dp_sql import person_level, total
from dp_sql.compared import Value
from dp_sql.person_level import Compiler, Rows

from .oracle import accepted, check, some_data
from .people import Data, Database


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    database = Database.new()
    yield database
    database.connection.close()


Plant = Callable[[pytest.MonkeyPatch], None]
RIGHT_ROWS = person_level._rows
Listed = tuple[list[str], list[Value]]


def changed(*pairs: tuple[str, str]) -> Plant:
    """Every SELECT that is built has something else in it."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        def wrong(word: str, names: list[str], values: list[Value], source: Any, tail: str) -> Rows:
            rows = RIGHT_ROWS(word, names, values, source, tail)
            sql = rows.sql
            for find, put in pairs:
                sql = sql.replace(find, put)
            return replace(rows, sql=sql)

        patch.setattr(person_level, "_rows", wrong)

    return plant


def kept(key: str, words: str) -> Plant:
    """A part of a SELECT is let through, and stands behind what is compiled."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        right_only, right_select = person_level._only, Compiler._select

        def select(self: Compiler, tree: Any) -> Rows:
            rows = right_select(self, tree)
            return replace(rows, sql=rows.sql + words) if tree.args.get(key) else rows

        patch.setattr(
            person_level, "_only", lambda node, allowed: right_only(node, allowed | {key})
        )
        patch.setattr(Compiler, "_select", select)

    return plant


def all_are_units(patch: pytest.MonkeyPatch) -> None:
    """Every column passes for the privacy unit."""
    right = total.settled
    patch.setattr(
        person_level, "settled", lambda value, node: replace(right(value, node), is_person=True)
    )
    right_list = Compiler._projections

    def listed(self: Compiler, tree: Any, source: Any, scope: Any) -> Listed:
        names, values = right_list(self, tree, source, scope)
        return names, [replace(value, is_person=True) for value in values]

    patch.setattr(Compiler, "_projections", listed)


def any_join(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Compiler, "_check_keys", lambda *_: None)


def united(patch: pytest.MonkeyPatch) -> None:
    """UNION, and one person for each row that is left."""

    def wrong(self: Compiler, tree: Any) -> Rows:
        left, right = self.query(tree.this), self.query(tree.expression)
        both = f"{left.sql} UNION ALL {right.sql}"
        return replace(
            left, sql=f"SELECT min(__dp_person) AS __dp_person, c0 FROM ({both}) GROUP BY c0"
        )

    patch.setattr(Compiler, "_union", wrong)


def private_lists(patch: pytest.MonkeyPatch) -> None:
    def wrong(self: Compiler, query: Any) -> Rows:
        rows = self.query(query)
        return replace(rows, sql=f"SELECT c0 FROM ({rows.sql})")

    patch.setattr(Compiler, "_public_column", wrong)


def partial_casts(patch: pytest.MonkeyPatch) -> None:
    def wrong(node: Any, scope: Any) -> Value:
        return Value(f"CAST({total.compiled(node.this, scope).sql} AS INTEGER)", "INTEGER")

    casts = tuple((kind, wrong if kind is exp.Cast else one) for kind, one in total._COMPILERS)
    patch.setattr(total, "_COMPILERS", casts)


def careless_collations(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(person_level, "exact", lambda sql, _: sql)


def mixed_up_signs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(total, "_COMPARISONS", {**total._COMPARISONS, exp.LT: "<="})


def lost_hiding(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        person_level._From, "hidden", property(lambda _: set(), lambda *_: None), raising=False
    )


PERSON = "r0.__dp_person AS __dp_person"
NO_EQUALITY = (" AND r0.__dp_person = r1.__dp_person", "")
MUTANTS: dict[str, tuple[tuple[Plant, ...], str]] = {
    "a join without the person": (
        (any_join, changed(NO_EQUALITY)),
        "SELECT r.user_id, o.title FROM ratings r JOIN orders o ON r.title = o.title",
    ),
    "a left join without the person": (
        (any_join, changed(NO_EQUALITY)),
        "SELECT l.title FROM ratings r LEFT JOIN orders l ON r.title = l.title",
    ),
    "a person found by its column's name": (
        (changed((f"{PERSON}, r1.c1", "r1.c0 AS __dp_person, r1.c1")),),
        "SELECT c.year FROM ratings r JOIN (SELECT user_id, year, title FROM catalog) c USING (title)",
    ),
    "a person renamed with another column": (
        (changed((PERSON, "r0.c1 AS __dp_person")),),
        "SELECT visitor, user_id, page FROM visits",
    ),
    "UNION": ((united,), "SELECT title FROM ratings UNION SELECT title FROM orders"),
    "DISTINCT without the person": (
        (all_are_units, changed((PERSON, "min(r0.__dp_person) AS __dp_person"), ("DISTINCT ", ""), ("AS r0", "AS r0 GROUP BY r0.c1"))),
        "SELECT DISTINCT title FROM ratings",
    ),
    "GROUP BY without the unit": (
        (all_are_units, changed((PERSON, "min(r0.__dp_person) AS __dp_person"), ("BY r0.__dp_person, ", "BY "))),
        "SELECT title, count(*) AS n FROM ratings GROUP BY title",
    ),
    "a LIMIT that is kept": ((kept("limit", " LIMIT 2"),), "SELECT title FROM ratings LIMIT 2"),
    "a window that is kept": (
        (kept("qualify", " QUALIFY system.main.row_number() OVER (ORDER BY r0.c1) = 1"),),
        "SELECT title FROM ratings QUALIFY row_number() OVER (ORDER BY title) = 1",
    ),
    "a list of private values": (
        (private_lists,), "SELECT title FROM ratings WHERE title IN (SELECT title FROM orders)",
    ),
    "a cast that may fail": ((partial_casts,), "SELECT CAST(title AS INTEGER) AS n FROM ratings"),
    "persons under NOCASE": ((careless_collations,), "SELECT * FROM accounts a JOIN logins l USING (name)"),
    "a wrong sign": ((mixed_up_signs,), "SELECT user_id FROM ratings WHERE score < 2"),
    "a column of USING listed twice": ((lost_hiding,), "SELECT * FROM ratings JOIN catalog USING (title)"),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_the_oracle_rejects(name: str, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    plants, text = MUTANTS[name]
    right = accepted(text, database)
    assert right is None or all(check(text, data, True, database) for data in some_data())
    for plant in plants:
        plant(monkeypatch)
    assert accepted(text, database) not in {None, right}
    assert not all(passes(text, data, database) for data in some_data())


def passes(text: str, data: Data, database: Database) -> bool:
    try:
        return check(text, data, True, database)
    except (AssertionError, ValueError):
        return False
