"""What every engine must answer to the three questions: the tests of an engine inherit Conformance.

What is expected is counted in Python, over the rows that were put into the tables.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import duckdb
import numpy as np
import pytest

from dp_sql.engines.protocol import Pairs, PartedEngine, PartedQuestion, PublicRows
from dp_sql.sql.formatting import literal, quote
from tests.engines.fake import as_arrow
from tests.engines.questions import (
    BUYERS,
    BUYERS_OF_TITLES,
    BUYERS_OF_WORDS,
    BUYS,
    ITEM,
    NOTED,
    PARTS_OF_PEOPLE,
    PEOPLE_OF_TITLES,
    RATINGS,
    READERS,
    ROWS_OF_PEOPLE,
    SUM,
    TITLES,
    TITLES_BOUGHT,
    TOTAL,
    Columns,
    N,
    pairs,
    people_of,
    without_null,
)  # fmt: skip
from tests.engines.shop import ROWS, TYPED, Rows, shop

# DuckDB computes what two TRY have in common outside of both.
SHARES_TRY = duckdb.__version__ in {"1.5.3", "1.5.4", "1.5.5", "2.0.0"}

# --- answers ---


def read(columns: Columns, answer: Any) -> Counter[tuple[str | None, ...]]:
    """The rows of an arrow table as DuckDB reads them, written as strings."""
    listed = ", ".join(f"CAST(CAST({quote(n)} AS {kind}) AS VARCHAR)" for n, kind in columns)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("answer", answer)
        return Counter(connection.execute(f"SELECT {listed} FROM answer").fetchall())


def numbers(question: PartedQuestion, answer: Any) -> dict[Any, int]:
    """The last column by the one before it, or by those before it."""
    rows = read(question.columns, answer)
    found = {keys[0] if len(keys) == 1 else (*keys,): int(n or 0) for *keys, n in rows}
    assert len(found) == rows.total(), "keys come more than once"
    return found


def both(found: Pairs) -> set[tuple[int, int]]:
    return {*zip(found.items.tolist(), found.people.tolist(), strict=True)}


def check_pairs(
    question: PartedQuestion, found: Pairs, have: Mapping[Any, set[Any]]
) -> dict[int, Any]:
    """Check all that holds of any answer; returns the keys of its items by their codes."""
    assert {one.dtype for one in (found.items, found.people, found.complete)} == {np.dtype("int64")}
    assert len(found.items) == len(found.people) == len(both(found))
    assert found.complete.tolist() == sorted({*found.complete.tolist()})
    types = dict(question.columns)
    columns = [("item", "BIGINT"), *((name, types[name]) for name in question.shown)]
    rows = read(columns, found.shown)
    keys = {int(item or 0): key[0] if len(key) == 1 else (*key,) for item, *key in rows}
    assert len(keys) == rows.total() == len({*keys.values()}), "items share codes or keys"
    people = Counter(found.items.tolist())
    assert keys.keys() == people.keys() >= {*found.complete.tolist()}
    for item, key in keys.items():
        assert people[item] <= len(have[key]), "people have an item that they do not have"
        if item in found.complete:
            assert people[item] == len(have[key]), "an item is not as complete as it says"
    return keys


def check_all(
    question: PartedQuestion, found: Pairs, have: Mapping[Any, set[Any]]
) -> dict[int, Any]:
    """Check an answer that has all pairs: as many people have each set of items."""
    keys = check_pairs(question, found, have)
    assert {*keys.values()} == have.keys() and found.complete.tolist() == sorted(keys)
    ours = people_of([(person, keys[item]) for item, person in both(found)])
    theirs = people_of([(name, key) for key, people in have.items() for name in people])
    assert Counter(map(frozenset, ours.values())) == Counter(map(frozenset, theirs.values()))
    return keys


NONE = np.zeros(0, np.int64)


class Conformance:
    """A test class of an engine inherits it, and says how to make the engine."""

    def engine_over(self, connection: duckdb.DuckDBPyConnection) -> PartedEngine:
        """An engine for one release over the tables in the database shop of a connection."""
        raise NotImplementedError

    def changed(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Rows have changed: for engines that read other tables than those of the connection."""

    def ask(self, question: PartedQuestion, rows: Mapping[str, Rows] = ROWS) -> Any:
        with shop(rows) as connection:
            return self.engine_over(connection).rows(question)

    # --- rows ---

    def test_people_are_counted_once_for_each_item(self) -> None:
        found = numbers(PEOPLE_OF_TITLES, self.ask(PEOPLE_OF_TITLES))
        assert found == {title: len(people) for title, people in READERS.items()}

    def test_the_order_of_rows_changes_no_answer(self) -> None:
        turned = {table: rows[::-1] for table, rows in ROWS.items()}
        assert numbers(BUYERS_OF_TITLES, self.ask(BUYERS_OF_TITLES, turned)) == numbers(
            BUYERS_OF_TITLES, self.ask(BUYERS_OF_TITLES)
        )

    def test_a_question_that_is_asked_again_has_the_same_answer(self) -> None:
        with shop() as connection:
            engine = self.engine_over(connection)
            first, second = (engine.rows(PEOPLE_OF_TITLES) for _ in range(2))
        assert read(PEOPLE_OF_TITLES.columns, first) == read(PEOPLE_OF_TITLES.columns, second)

    def test_the_largest_counts_are_among_the_answers(self) -> None:
        """Each set of rows has its own largest ones."""
        largest = "QUALIFY row_number() OVER (ORDER BY n DESC, __dp_item) <= 3"
        question = replace(PEOPLE_OF_TITLES, merge_sql=f"SELECT * FROM ({SUM}) {largest}")
        found = {*numbers(question, self.ask(question)).items()}
        every = sorted((-len(people), title) for title, people in READERS.items())
        assert {(title, -n) for n, title in every[:3]} <= found
        assert found <= {(title, -n) for n, title in every}

    def test_a_histogram_counts_people_by_their_rows(self) -> None:
        rows = without_null("ratings", 0)
        own = {
            user: sum(row[0] == user and row[1] is not None for row in ROWS["ratings"])
            for (user,) in rows
        }
        expected = {str(n): people for n, people in Counter(own.values()).items()}
        assert numbers(ROWS_OF_PEOPLE, self.ask(ROWS_OF_PEOPLE)) == expected

    def test_a_total_adds_up_the_rows_of_all_people(self) -> None:
        costs = [cost for _, buyer, cost in ROWS["orders"] if buyer is not None]
        found = read(TOTAL.columns, self.ask(TOTAL))
        assert found == {(str(sum(costs)), str(len(costs))): 1}

    def test_a_total_of_no_rows_is_one_row(self) -> None:
        for rows, where in (({}, ""), (ROWS, " AND cost < 0 AND cost > 0")):
            question = replace(TOTAL, part_sql=TOTAL.part_sql + where)
            found = read(TOTAL.columns, self.ask(question, rows))
            assert found in ({(None, "0"): 1}, {(None, None): 1})

    def test_empty_tables_have_empty_answers(self) -> None:
        assert numbers(PEOPLE_OF_TITLES, self.ask(PEOPLE_OF_TITLES, {})) == {}
        assert numbers(ROWS_OF_PEOPLE, self.ask(ROWS_OF_PEOPLE, {})) == {}
        assert numbers(BUYERS_OF_WORDS, self.ask(BUYERS_OF_WORDS, {})) == {}
        with shop({}) as connection:
            engine = self.engine_over(connection)
            for found in (engine.thin(TITLES, 2), engine.complete(TITLES, None, None)):
                assert check_all(TITLES, found, {}) == {}

    # --- whose rows they are ---

    def test_rows_that_are_linked_to_people_count_once_for_each_of_them(self) -> None:
        """Two people have some of the orders, so some rows are in two parts."""
        found = numbers(BUYERS_OF_TITLES, self.ask(BUYERS_OF_TITLES))
        assert found == Counter(title for _, title, _ in BUYS if title is not None)

    def test_rows_that_are_linked_to_linked_rows_belong_to_the_same_people(self) -> None:
        assert numbers(BUYERS_OF_WORDS, self.ask(BUYERS_OF_WORDS)) == Counter(NOTED)

    def test_each_person_is_in_one_part(self) -> None:
        people = {*without_null("ratings", 0), *without_null("orders", 1)}
        rows = read(PARTS_OF_PEOPLE.columns, self.ask(PARTS_OF_PEOPLE))
        assert sorted(person for person, _ in rows) == sorted(person for (person,) in people)
        assert min(int(part or -1) for _, part in rows) >= 0

    # --- public relations, groups and types ---

    def test_people_are_counted_in_each_group_of_a_public_relation(self) -> None:
        name = '"temp"."main"."__dp_groups"'
        groups = PublicRows(
            [("score", "INTEGER"), ("__dp_group", "BIGINT")],
            as_arrow([("score", ""), ("__dp_group", "")], [("-4", "1"), ("0", "2"), ("77", "3")]),
        )
        question = PartedQuestion(
            "SELECT __dp_group, title AS __dp_item, count(DISTINCT user_id) AS n FROM "
            "shop.main.ratings AS r JOIN __dp_groups AS g ON r.score = g.score "
            "WHERE title IS NOT NULL AND user_id IS NOT NULL GROUP BY ALL",
            ["__dp_group", "__dp_item"],
            "SELECT __dp_group, __dp_item, CAST(sum(n) AS BIGINT) AS n FROM __dp_parts "
            "WHERE __dp_group IN (SELECT __dp_group FROM __dp_groups) GROUP BY ALL",
            [("__dp_group", "BIGINT"), ITEM, N], [RATINGS], {name: groups},
        )  # fmt: skip
        expected = people_of([
            ((str(1 + (score == 0)), title), user)
            for user, title, score in without_null("ratings", 0, 1, 2)
            if score in {-4, 0}
        ])  # fmt: skip
        found = numbers(question, self.ask(question))
        assert found == {key: len(people) for key, people in expected.items()}

    def test_values_of_all_types_are_literals_keys_and_public_rows(self) -> None:
        """As literals, and in a public relation; as keys of numbers, and of pairs."""
        kinds = [*TYPED]
        names = [f"c{i}" for i, _ in enumerate(kinds)]
        n_rows = max(map(len, TYPED.values()))
        rows = [tuple(values[i % len(values)] for values in TYPED.values()) for i in range(n_rows)]
        selects = " UNION ALL ".join(
            f"SELECT {i} AS score, "
            + ", ".join(
                f"CAST({literal(v)} AS {k}) AS {n}"
                for v, k, n in zip(row, kinds, names, strict=True)
            )
            for i, row in enumerate(rows)
        )
        columns = [("score", "INTEGER"), *zip(names, kinds, strict=True)]
        numbered = [(str(i), *row) for i, row in enumerate(rows)]
        public = PublicRows(columns, as_arrow([(name, "") for name, _ in columns], numbered))
        people = people_of([
            (rows[score], user) for user, score in without_null("ratings", 0, 2) if score >= 0
        ])  # fmt: skip
        for values, relations in (
            (f"({selects})", {}),
            ("shop.main.typed", {'"shop"."main"."typed"': public}),
        ):
            select = (
                f"SELECT v.* EXCLUDE score, user_id AS person FROM shop.main.ratings AS r "
                f"JOIN {values} AS v ON r.score = v.score WHERE user_id IS NOT NULL"
            )
            asked = pairs(select, columns[1:], [RATINGS], *names)
            asked = replace(asked, public=relations)
            with shop() as connection:
                found = self.engine_over(connection).complete(asked, None, None)
            check_all(asked, found, people)
            listed = ", ".join(names)
            types = " || ' ' || ".join(f"typeof({name})" for name in names)
            counted = PartedQuestion(
                f"SELECT {listed}, count(DISTINCT person) AS n FROM ({select}) GROUP BY ALL", names,
                f"SELECT {listed}, {types} AS types, CAST(sum(n) AS BIGINT) AS n FROM __dp_parts "
                "GROUP BY ALL",
                [*columns[1:], ("types", "VARCHAR"), N], [RATINGS], relations,
            )  # fmt: skip
            assert numbers(counted, self.ask(counted)) == {
                (*row, " ".join(kinds)): len(users) for row, users in people.items()
            }

    def test_the_time_zone_is_utc(self) -> None:
        question = replace(
            PEOPLE_OF_TITLES,
            part_sql="SELECT CAST(TIMESTAMPTZ '2020-01-01 00:30:00+05' AS VARCHAR) AS __dp_item, "
            "count(DISTINCT user_id) AS n FROM shop.main.ratings",
        )
        assert [*numbers(question, self.ask(question))] == ["2019-12-31 19:30:00+00"]

    def test_no_row_fails_what_is_tried(self) -> None:
        """DuckDB's optimizer may compute what two TRY have in common outside of both."""
        large = "CASE WHEN user_id = 'ann' THEN 2147483647 ELSE score END AS i"
        question = replace(
            PEOPLE_OF_TITLES,
            part_sql="SELECT coalesce(CAST(TRY((i + 1) * 2) AS VARCHAR), TRY((i + 1) * 3)::VARCHAR, "
            f"'too large') AS __dp_item, count(*) AS n FROM (SELECT {large} FROM "
            "shop.main.ratings WHERE user_id IS NOT NULL AND score IS NOT NULL) GROUP BY 1",
        )
        rows = without_null("ratings", 0, 2)
        expected = Counter("too large" if user == "ann" else str(2 * i + 2) for user, i in rows)
        assert numbers(question, self.ask(question)) == expected

    # --- pairs ---

    @pytest.mark.parametrize(("asked", "have"), [(TITLES, READERS), (TITLES_BOUGHT, BUYERS)])
    def test_all_pairs_come_where_no_items_are_named(
        self, asked: PartedQuestion, have: Any
    ) -> None:
        have = {key: people for key, people in have.items() if key is not None}
        with shop() as connection:
            found = self.engine_over(connection).complete(asked, None, None)
        check_all(asked, found, have)

    @pytest.mark.parametrize("most", [1, 3, 1000])
    def test_thin_has_something_of_all(self, most: int) -> None:
        with shop() as connection:
            engine = self.engine_over(connection)
            thin, every = engine.thin(TITLES, most), engine.complete(TITLES, None, None)
        keys = check_pairs(TITLES, thin, READERS)
        assert keys == check_all(TITLES, every, READERS)
        assert both(thin) <= both(every)
        if thin.n_people is not None:
            assert {*thin.people.tolist()} == {*every.people.tolist()}
            assert thin.n_people == len({*every.people.tolist()})

    def test_no_two_people_share_a_code_whatever_is_shown(self) -> None:
        question = replace(TITLES, shown=())
        with shop() as connection:
            engine = self.engine_over(connection)
            thin, every = engine.thin(question, 1), engine.complete(question, None, None)
        assert both(thin) <= both(every)
        for place in (0, 1):
            people = [(title, name) for title, names in READERS.items() for name in names]
            ours, theirs = (Counter(pair[place] for pair in some) for some in (both(every), people))
            assert Counter(ours.values()) == Counter(theirs.values())

    def test_items_and_people_are_completed(self) -> None:
        with shop() as connection:
            engine = self.engine_over(connection)
            thin, every = engine.thin(TITLES, 1), engine.complete(TITLES, None, None)
            items, people = np.unique(thin.items)[:3], np.unique(thin.people)[2:5]
            for some, those in ((items, NONE), (NONE, people), (items, people), (NONE, NONE)):
                found = engine.complete(TITLES, some, those)
                check_pairs(TITLES, found, READERS)
                chosen = {*some.tolist()}, {*those.tolist()}
                wanted = {(i, p) for i, p in both(every) if i in chosen[0] or p in chosen[1]}
                assert wanted <= both(found) <= both(every)
                assert chosen[0] <= {*found.complete.tolist()}

    def test_pairs_keep_their_codes_while_other_questions_are_asked(self) -> None:
        with shop() as connection:
            engine = self.engine_over(connection)
            thin = engine.thin(TITLES, 1)
            engine.thin(TITLES_BOUGHT, 2)
            engine.rows(PEOPLE_OF_TITLES)
            assert both(thin) <= both(engine.complete(TITLES, None, None))

    # --- failures ---

    @pytest.mark.parametrize(
        "change",
        [
            "INSERT INTO shop.ratings VALUES ('new', 'Dune', 1)",
            "DELETE FROM shop.ratings WHERE user_id = 'only'",
            "UPDATE shop.ratings SET user_id = 'new' WHERE user_id = 'ann'",
        ],
    )
    def test_rows_that_change_between_two_jobs_raise_or_change_no_pair(self, change: str) -> None:
        with shop() as connection:
            engine = self.engine_over(connection)
            thin = engine.thin(TITLES, 1)
            connection.execute(change)
            self.changed(connection)
            try:
                every = engine.complete(TITLES, None, None)
            except Exception:
                return
        assert check_all(TITLES, every, READERS) and both(thin) <= both(every)

    @pytest.mark.parametrize("where", ["part_sql", "merge_sql"])
    def test_a_failure_of_one_part_or_set_is_one_of_all(self, where: str) -> None:
        failing = "CASE WHEN __dp_item = 'rare' THEN error('no') ELSE __dp_item END AS __dp_item, n"
        sql = f"SELECT {failing} FROM ({getattr(PEOPLE_OF_TITLES, where)})"
        with pytest.raises(Exception, match=r"."):
            self.ask(replace(PEOPLE_OF_TITLES, **{where: sql}))
