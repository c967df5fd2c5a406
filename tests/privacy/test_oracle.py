"""The oracle rejects compilers that are wrong: each mutant here must be found out."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlglot import exp

from dp_sql.privacy.expressions import expression_compiler as expressions
from dp_sql.privacy.expressions import forms, predicates
from dp_sql.privacy.expressions.value import Value
from dp_sql.privacy.relations import (
    first_rows,
    from_sql,
    join_sql,
    joins,
    matches,
    person_groups,
    set_operations,
    source_compiler,
    tree_sql,
)
from dp_sql.privacy.relations.source_compiler import Compiler, Rows
from dp_sql.privacy.relations.tree import UnionAll
from tests.people import Data, Database
from tests.privacy.oracle import WAYS, accepted, as_sql, check, some_data


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    database = Database()
    yield database
    database.close()


Plant = Callable[[pytest.MonkeyPatch], None]
Listed = tuple[list[str], list[Value]]


def changed(*pairs: tuple[str, str], of: str = "_select", by: type[Any] = tree_sql.Writer) -> Plant:
    """Every SELECT that is written has something else in it."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        right = getattr(by, of)

        def wrong(self: Any, *given: Any) -> Any:
            found = right(self, *given)
            sql = found.sql
            for find, put in pairs:
                sql = sql.replace(find, put)
            return found._replace(sql=sql)

        patch.setattr(by, of, wrong)

    return plant


def kept(key: str, words: str) -> Plant:
    """A part of a SELECT is let through, and follows what is written."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        def as_any_other(tree: Any, _tables: Any, compiled: Any, _computed: Any) -> Rows:
            return compiled.__self__._select(tree)  # type: ignore[no-any-return]

        patch.setattr(first_rows, "first_rows", as_any_other)
        right_only, right_select = source_compiler.only, Compiler._select
        right_write = tree_sql.Writer._select
        marked: list[object] = []

        def select(self: Compiler, tree: Any) -> Rows:
            rows = right_select(self, tree)
            if tree.args.get(key):
                marked.append(rows.relation)
            return rows

        def write(self: Any, select: Any, *given: Any) -> Any:
            found = right_write(self, select, *given)
            is_marked = any(select is one for one in marked)
            return found._replace(sql=found.sql + words) if is_marked else found

        for module in (source_compiler, person_groups):
            patch.setattr(module, "only", lambda node, allowed: right_only(node, allowed | {key}))
        patch.setattr(Compiler, "_select", select)
        patch.setattr(tree_sql.Writer, "_select", write)

    return plant


def all_are_units(patch: pytest.MonkeyPatch) -> None:
    """Every column passes for the privacy unit."""
    right = expressions.settled
    patch.setattr(
        person_groups,
        "settled",
        lambda value, node: right(value, node)._replace(is_person=True),
    )
    right_list = source_compiler.projections

    def listed(tree: Any, source: Any, scope: Any) -> Listed:
        names, values = right_list(tree, source, scope)
        return names, [value._replace(is_person=True) for value in values]

    patch.setattr(source_compiler, "projections", listed)


def any_join(patch: pytest.MonkeyPatch) -> None:
    for module in (joins, matches):
        patch.setattr(module, "check_keys", lambda *_: None)


def any_match(patch: pytest.MonkeyPatch) -> None:
    """IN and EXISTS take every column of a private table."""
    any_join(patch)
    right = matches.has_match

    def wrong(node: Any, outer: Any, inner: Any, match: Any, tables: Any) -> Value:
        equal = [(a._replace(is_person=False), b) for a, b in match.equal]
        return right(node, outer, inner, match._replace(equal=equal), tables)

    def of_all(self: Compiler, source: Any, query: Any, value: Any) -> Value:
        if value is None:
            return right_matched(self, source, query, value)
        inner = source_compiler.From([source_compiler.FromPart((), 0, self.query(query.this))])
        match = matches.Match([(value, inner.parts[0].value(0))], (), self.scope(source), bool)
        return wrong(query, source, inner, match, self.tables)

    right_matched = Compiler._matched
    patch.setattr(matches, "has_match", wrong)
    patch.setattr(Compiler, "_matched", of_all)


def united(patch: pytest.MonkeyPatch) -> None:
    """UNION, and one person for each row that is left."""

    def compile_both(tree: Any, query: Any, _: object) -> Rows:
        left, right = query(tree.this), query(tree.expression)
        return left._replace(relation=UnionAll(left.relation, right.relation))

    def write(self: Any, union: Any, need: Any, every_row: bool) -> Any:
        sides = [self.relation(side, need, every_row) for side in (union.left, union.right)]
        both = " UNION ALL ".join(side.sql for side in sides)
        sql = f"SELECT min(__dp_person) AS __dp_person, c0 FROM ({both}) GROUP BY c0"
        return sides[0]._replace(sql=sql)

    patch.setattr(set_operations, "combined", compile_both)
    patch.setattr(tree_sql.Writer, "_union", write)


def private_lists(patch: pytest.MonkeyPatch) -> None:
    def wrong(self: Compiler, rows: Rows, *_: object) -> Any:
        found = self.written(rows.relation)
        return found._replace(sql=f"SELECT c0 FROM ({found.sql})")

    patch.setattr(Compiler, "_matched", lambda *_: None)
    patch.setattr(Compiler, "_public_column", Compiler.query)
    patch.setattr(Compiler, "computed", wrong)


def partial_casts(patch: pytest.MonkeyPatch) -> None:
    def wrong(node: Any, scope: Any) -> Value:
        return Value(f"CAST({expressions.compiled(node.this, scope).sql} AS INTEGER)", "INTEGER")

    for table in ("OF_OWNERS", "ALL"):
        casts = tuple(
            (kind, wrong if kind is exp.Cast else one, parts)
            for kind, one, parts in getattr(forms, table)
        )
        patch.setattr(forms, table, casts)


def careless_collations(patch: pytest.MonkeyPatch) -> None:
    for module in (tree_sql, join_sql):
        patch.setattr(module, "same_bits", lambda sql, _: sql)
    patch.setattr(join_sql, "exact", lambda sql, _: sql)


def mixed_up_signs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(predicates, "COMPARISONS", {**predicates.COMPARISONS, exp.LT: "<="})


def lost_hiding(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        source_compiler.From, "hidden", property(lambda _: set(), lambda *_: None), raising=False
    )


def fewer_rows(patch: pytest.MonkeyPatch) -> None:
    """What window functions read is made distinct."""
    right = tree_sql.windows_sql

    def wrong(windows: Any, inner: str, *given: Any) -> str:
        return right(windows, f"SELECT DISTINCT * FROM ({inner}) AS d", *given)

    patch.setattr(tree_sql, "windows_sql", wrong)


PERSON = "r0p AS __dp_person"
NO_EQUALITY = ("r0p = r1p", "TRUE")
ONE_FOR_ALL = (PERSON, "min(r0p) AS __dp_person")
MUTANTS: dict[str, tuple[tuple[Plant, ...], str]] = {
    "a join without the person": (
        (any_join, changed(NO_EQUALITY)),
        "SELECT r.user_id, o.title FROM ratings r JOIN orders o ON r.title = o.title",
    ),
    "a left join without the person": (
        (any_join, changed(NO_EQUALITY)),
        "SELECT l.title FROM ratings r LEFT JOIN orders l ON r.title = l.title",
    ),
    "IN without the person": (
        (any_match, changed(NO_EQUALITY)),
        "SELECT title FROM ratings WHERE title IN (SELECT title FROM orders)",
    ),
    "EXISTS on another column": (
        (any_match, changed(NO_EQUALITY)),
        "SELECT title FROM ratings r WHERE EXISTS (SELECT 1 FROM orders o WHERE o.title = r.title)",
    ),
    "NOT EXISTS on another column": (
        (any_match, changed(NO_EQUALITY)),
        "SELECT title FROM ratings r WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.title = r.title)",
    ),
    "an ANTI JOIN on another column": (
        (any_match, changed(NO_EQUALITY)),
        "SELECT title FROM ratings ANTI JOIN orders USING (title)",
    ),
    "rows that are matched more than once": (
        (any_join, changed(("SELECT DISTINCT r1p", "SELECT r1p"), of="_with_fan", by=from_sql.FromWriter)),
        "SELECT user_id, title FROM ratings WHERE user_id IN (SELECT buyer FROM orders)",
    ),
    "a person found by its column's name": (
        (changed((PERSON, "r1c2 AS __dp_person"), ("c1 AS r1c1", "c1 AS r1c1, c2 AS r1c2"), ('"year" AS c1', '"year" AS c1, "user_id" AS c2')),),
        "SELECT c.year FROM ratings r JOIN catalog c USING (title)",
    ),
    "a person renamed with another column": (
        (changed((PERSON, "r0c1 AS __dp_person")),),
        "SELECT visitor, user_id, page FROM visits",
    ),
    "a cap over all people": (
        (changed(("PARTITION BY r0p ", ""), ("PARTITION BY r1p ", "")),),
        "SELECT r.title, o.title FROM ratings r JOIN orders o ON r.user_id = o.buyer",
    ),
    "UNION": ((united,), "SELECT title FROM ratings UNION SELECT title FROM orders"),
    "DISTINCT without the person": (
        (all_are_units, changed(ONE_FOR_ALL, ("DISTINCT ", ""), (") AS t) AS r0", ") AS t) AS r0 GROUP BY r0c1"))),
        "SELECT DISTINCT title FROM ratings",
    ),
    "GROUP BY without the unit": (
        (all_are_units, changed(ONE_FOR_ALL, ("BY r0p, ", "BY "))),
        "SELECT title, count(*) AS n FROM ratings GROUP BY title",
    ),
    "a LIMIT that is kept": ((kept("limit", " LIMIT 2"),), "SELECT title FROM ratings LIMIT 2"),
    "a window over all people": (
        (changed(("PARTITION BY __dp_person, c0", "PARTITION BY 1"), of="_windows"),),
        "SELECT user_id, rank() OVER (PARTITION BY user_id ORDER BY title) AS place FROM ratings",
    ),
    "a window over distinct rows": (
        (fewer_rows,), "SELECT user_id, title, count(*) OVER (PARTITION BY user_id) AS n FROM ratings",
    ),
    "a list of private values": (
        (private_lists,), "SELECT title FROM ratings WHERE title IN (SELECT title FROM orders)",
    ),
    "a cast that may fail": ((partial_casts,), "SELECT CAST(title AS INTEGER) AS n FROM ratings"),
    "persons under NOCASE": ((careless_collations,), "SELECT * FROM accounts a JOIN logins l USING (name)"),
    "a wrong sign": ((mixed_up_signs,), "SELECT user_id FROM ratings WHERE score < 2"),
    "a column of USING listed twice": ((lost_hiding,), "SELECT * FROM ratings JOIN catalog USING (title)"),
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.pure
@pytest.mark.parametrize("name", MUTANTS)
def test_the_oracle_rejects(name: str, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    plants, text = MUTANTS[name]
    right = as_written(text, database)
    assert right is None or all(check(text, data, True, database) for data in some_data())
    for plant in plants:
        plant(monkeypatch)
    assert as_written(text, database) not in (None, right)
    assert not all(passes(text, data, database) for data in some_data())


def as_written(text: str, database: Database) -> list[str] | None:
    rows = accepted(text, database)
    return None if rows is None else [as_sql(rows, database, way).sql for way in WAYS]


def passes(text: str, data: Data, database: Database) -> bool:
    try:
        return check(text, data, True, database)
    except (AssertionError, ValueError):
        return False
