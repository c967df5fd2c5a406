"""Domains and groups: what can be a value of an item, what the policy declares, whose labels show."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from sqlalchemy import create_engine, inspect

import dp_sql
import dp_sql.integrations.dbapi
from dp_sql import errors
from dp_sql.engines.duckdb.introspection import opened
from dp_sql.policy.catalog import Listed
from dp_sql.policy.model import parse_policy
from dp_sql.policy.template import draft
from dp_sql.policy.validation import hidden_labels, problems
from dp_sql.session.analyst import AnalystSession
from tests.conftest import SURE, free
from tests.databases import write_database

# What an owner must not do under a policy without a word: an ENUM made from people's values.
SHOP = """
CREATE TABLE visits AS
    SELECT i % 40 AS person, i % 3 AS page, 'b' || i % 3 AS title, DATE '2024-01-01' + (i % 3)::INT AS day,
           TIMESTAMP '2024-01-01' + INTERVAL (i % 3) DAY AS seen, (i % 3 / 2)::DECIMAL(6, 2) AS price,
           ['canary-a', 'canary-b'][1 + i % 2] AS word, i % 2 = 0 AS flag
    FROM range(120) AS r(i);
CREATE TYPE canary_type AS ENUM (SELECT DISTINCT word FROM visits);
ALTER TABLE visits ADD COLUMN mood canary_type;
ALTER TABLE visits ADD COLUMN tags STRUCT(m canary_type, l canary_type[]);
UPDATE visits SET mood = word, tags = {'m': word, 'l': [word]};
CREATE TABLE other AS SELECT person, mood FROM visits;
CREATE TABLE products AS SELECT i::BIGINT AS product_id, 'b' || i AS title, DATE '2024-01-01' + i::INT AS day,
           'n' || i AS note, i + 0.5 AS half, i::DOUBLE AS rough
    FROM range(3) AS r(i);
CREATE TYPE size AS ENUM ('small', 'large');
CREATE TABLE sizes AS SELECT 'small'::size AS size, 'canary-a' AS word;
CREATE VIEW moods AS SELECT person, mood, tags FROM visits;
"""
POLICY = """
[tables.visits]
privacy_unit = "person"
[tables.other]
privacy_unit = "person"
[public]
tables = ["products", "sizes"]
[views]
tables = ["moods"]
[domains]
"visits.title" = "products.title"
"visits.word" = "observed"
"visits.page" = [0, 1, 2]
[limits]
max_epsilon_per_query = 10000
[budget]
dataset = "shop"
epsilon = 1000000
"""
WITH_LABELS = POLICY.replace("[limits]", '"visits.mood" = "enum"\n[limits]')


def written(folder: Path, policy: str = POLICY) -> tuple[str, str]:
    """The database and its policy."""
    database, file = folder / "shop.duckdb", folder / "policy.toml"
    file.write_text(policy, "utf-8")
    return write_database(database, SHOP), str(file)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnalystSession]:
    database, policy = written(tmp_path_factory.mktemp("domains"))
    with dp_sql.connect(database, policy=policy, analyst="reporting") as session:
        yield session


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[AnalystSession]:
    database, policy = written(tmp_path)
    with dp_sql.connect(database, policy=policy, analyst="reporting") as session:
        yield session


@pytest.fixture
def labelled(tmp_path: Path) -> Iterator[AnalystSession]:
    database, policy = written(tmp_path, WITH_LABELS)
    with dp_sql.connect(database, policy=policy, analyst="reporting") as session:
        yield session


@pytest.fixture(scope="module")
def owner() -> Iterator[dp_sql.Session]:
    with dp_sql.connect() as session:
        session.execute(SHOP)
        yield session


def top(item: str, domain: str, k: int = 1) -> str:
    return f"SELECT DP_TOPK({item}, {k}, {SURE}, domain := {domain}) AS best FROM visits"


def owners(item: str, domain: str, k: int = 1) -> str:
    return top(item, domain, k).replace(SURE, f"{SURE}, privacy_unit := person")


def spent(session: AnalystSession) -> Any:
    return session.budget()[0].epsilon_spent


# --- types ----------------------------------------------------------------------------------------

OF_ANOTHER_TYPE = [
    ("title", "products.product_id", "VARCHAR, and its domain, the column products.product_id, holds values of type BIGINT"),
    ("title", "[1, 2]", "holds values of type INTEGER"),
    ("title", "[TRUE]", "holds values of type BOOLEAN"),
    ("page", "['0', '1']", "page has type BIGINT, and its domain, a list in the statement, holds strings"),
    ("page", "products.title", "holds values of type VARCHAR"),
    ("page", "products.rough", "holds values of type DOUBLE"),
    ("page", "[TRUE]", "holds values of type BOOLEAN"),
    ("page", "[0, 1.5]", "holds 1.5, which is not a value of type BIGINT"),
    ("page", "products.half", "holds 0.5, which is not a value of type BIGINT"),
    ("page", "[0, 99999999999999999999]", "holds 99999999999999999999, which"),
    ("price", "[0.5, 0.505]", "holds 0.505, which is not a value of type DECIMAL"),
    ("day", "['2024-01-01', 'monday']", "holds monday, which is not a value of type DATE"),
    ("day", "['2024-01-01 12:00:00']", "holds 2024-01-01 12:00:00, which"),
    ("day", "[20240101]", "holds values of type INTEGER"),
    ("seen", "['2024-01-01', 'soon']", "holds soon, which is not a value of type TIMESTAMP"),
    ("flag", "['true']", "holds strings"),
    ("flag", "[0, 1]", "holds values of type INTEGER"),
]  # fmt: skip


@pytest.mark.parametrize(("item", "domain", "words"), OF_ANOTHER_TYPE)
def test_an_analysts_domain_of_another_type_costs_nothing(
    session: AnalystSession, item: str, domain: str, words: str
) -> None:
    with free(session), pytest.raises(errors.ArgumentError) as caught:
        session.sql(top(item, domain))
    assert words in caught.value.message


@pytest.mark.parametrize(("item", "domain", "words"), OF_ANOTHER_TYPE)
def test_an_owners_domain_of_another_type_costs_nothing(
    owner: dp_sql.Session, item: str, domain: str, words: str
) -> None:
    with free(owner), pytest.raises(errors.ArgumentError) as caught:
        owner.sql(owners(item, domain))
    assert words in caught.value.message


@pytest.mark.parametrize(
    ("key", "groups"),
    [("title", "products.product_id"), ("title", "[1]"), ("page", "['0']"), ("day", "['x']"),
     ("page", "[0.5]")],
)  # fmt: skip
def test_groups_of_another_type_cost_nothing(
    session: AnalystSession, owner: dp_sql.Session, key: str, groups: str
) -> None:
    call = f"DP_COUNT_DISTINCT(word, {SURE}, groups := {groups}, max_groups_contributed := 1)"
    text = f"SELECT {key}, {call} FROM visits GROUP BY {key}"
    refused = {
        "expected_exception": errors.ArgumentError,
        "match": f"{key} has type|The groups of {key}",
    }
    with free(session, owner):
        with pytest.raises(**refused):
            session.sql(text)
        with pytest.raises(**refused):
            owner.sql(text.replace(SURE, f"{SURE}, privacy_unit := person"))


@pytest.mark.parametrize(
    ("item", "domain", "n"),
    [("page", "[0, 1, 2.0]", 3), ("page", "products.product_id", 3), ("price", "[0, 0.5, 1]", 3),
     ("day", "['2024-01-01', '2024-01-02']", 2), ("day", "products.day", 3),
     ("day", "[DATE '2024-01-01', '2024-01-02']", 2),
     ("seen", "[TIMESTAMP '2024-01-01 00:00:00', DATE '2024-01-02']", 2),
     ("seen", "['2024-01-01', '2024-01-02 00:00:00']", 2), ("seen", "products.day", 3),
     ("title", "products.title", 3), ("title", "['b0', 'b1']", 2), ("flag", "[TRUE, FALSE]", 2)],
)  # fmt: skip
def test_values_of_the_items_kind_are_a_domain(
    session: AnalystSession, owner: dp_sql.Session, item: str, domain: str, n: int
) -> None:
    for found in (session.sql(top(item, domain, n)), owner.sql(owners(item, domain, n))):
        ((best,),) = found.fetchall()
        assert len(best) == n


@pytest.mark.parametrize(
    ("domain", "words"), [("[]", "more than the 0 items"), ("['a', NULL]", "The list holds NULL")]
)
def test_a_list_without_values_is_too_small_and_one_with_null_is_refused(
    owner: dp_sql.Session, domain: str, words: str
) -> None:
    with pytest.raises(errors.ArgumentError, match=words):
        owner.sql(owners("title", domain))


def test_a_domain_of_another_type_is_refused_with_a_statement_that_works(
    owner: dp_sql.Session, session: AnalystSession
) -> None:
    with pytest.raises(errors.ArgumentError) as caught:
        owner.sql(owners("title", "products.product_id"))
    made, named = (caught.value.hint or "").split("in a view, ")[1].split(", and name ")
    owner.sql(made)
    assert len(owner.sql(owners("title", named.rstrip("."), 3)).fetchall()[0][0]) == 3
    with pytest.raises(errors.ArgumentError) as caught:
        session.sql(top("page", "products.title"))
    item = (caught.value.hint or "").split("ask for ")[1].rstrip(".")
    assert len(session.sql(top(item, "products.title", 3)).fetchall()[0][0]) == 3


# --- what the policy declares ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("item", "domain"),
    [("title", "products.note"), ("title", "['x', 'y']"), ("page", "[7, 8]"), ("word", "['x']"),
     ("word", "products.title"), ("page", "[NULL, 7]")],
)  # fmt: skip
def test_a_domain_apart_from_the_declared_one_costs_nothing(
    session: AnalystSession, item: str, domain: str
) -> None:
    declared = "in the domain that the policy declares"
    words = "The list holds NULL" if "NULL" in domain else declared
    with free(session), pytest.raises(errors.ArgumentError, match=words):
        session.sql(top(item, domain))


def test_groups_apart_from_the_declared_ones_cost_nothing(session: AnalystSession) -> None:
    call = f"DP_COUNT_DISTINCT(word, {SURE}, groups := ['x'], max_groups_contributed := 1)"
    words = "in the domain that the policy declares"
    with free(session), pytest.raises(errors.ArgumentError, match=words):
        session.sql(f"SELECT title, {call} FROM visits GROUP BY title")


def test_one_declared_value_is_enough(session: AnalystSession) -> None:
    assert session.sql(top("title", "['b0', 'x']")).fetchall() == [(["b0"],)]
    assert session.sql(top("word", "['canary-a', 'x']")).fetchall() == [(["canary-a"],)]


# --- labels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "DESCRIBE visits",
        "DESCRIBE other",
        "DESCRIBE moods",
        f"SELECT typeof(a), a IS NULL FROM (SELECT DP_TOPK(mood, 1, {SURE}, domain := ['x', 'y']) AS a FROM visits)",
        f"EXPLAIN SELECT DP_TOPK(mood, 1, {SURE}, domain := ['x', 'y']) FROM visits WHERE mood = 'x'",
        f"SELECT mood, DP_COUNT_DISTINCT(title, {SURE}, groups := ['x'], max_groups_contributed := 1) FROM moods GROUP BY mood",
        f"SELECT DP_COUNT_DISTINCT(least, {SURE}) FROM (SELECT person, min(mood) AS least FROM visits GROUP BY person)",
        f"SELECT DP_COUNT_DISTINCT(v.title, {SURE}) FROM visits v JOIN other o ON v.person = o.person AND v.mood = o.mood",
    ],
)  # fmt: skip
def test_the_labels_of_a_private_enum_are_nowhere(session: AnalystSession, text: str) -> None:
    if "groups" in text:
        text = text.replace("title", "person")
    n_receipts, n_releases = len(session.receipts), len(session.releases)
    relation = session.sql(text)
    shown = repr((relation.columns, relation.types, relation.fetchall()))
    shown += repr(session.receipts[n_receipts:])
    shown += repr([(release, release.columns) for release in session.releases[n_releases:]])
    assert "canary" not in shown and "ENUM" not in shown.upper()


@pytest.mark.parametrize(
    "text",
    [
        top("mood", "mood"), top("mood", "visits.mood"), top("mood", "canary_type"),
        top("mood", "observed"), top("tags", "['x']"), top("tags.m", "['x']"), top("mood", "[1]"),
        "SELECT enum_range(NULL::canary_type)", "SELECT enum_first(NULL::canary_type)",
        "SELECT enum_last(NULL::canary_type)", "SELECT enum_code('x'::canary_type)",
        "SELECT 'x'::canary_type", "SELECT CAST('x' AS shop.canary_type)", "SELECT NULL::shop.main.canary_type",
        "SELECT TRY_CAST('x' AS canary_type)", "CREATE TABLE t (m canary_type)",
        "SELECT unnest(enum_range(mood)) FROM visits", "SUMMARIZE visits", "SELECT typeof(mood) FROM visits",
        f"SELECT DP_TOPK(enum_range(mood), 1, {SURE}) FROM visits",
        f"SELECT DP_TOPK(CAST(mood AS canary_type), 1, {SURE}) FROM visits",
        f"SELECT DP_COUNT_DISTINCT(title, {SURE}) FROM visits WHERE mood = 'x'::canary_type",
        f"SELECT DP_COUNT_DISTINCT(title, {SURE}) FROM visits WHERE mood = 1",
        f"SELECT DP_COUNT_DISTINCT(title, {SURE}) FROM visits WHERE mood > CAST('x' AS DATE)",
        f"SELECT DP_COUNT_DISTINCT(title, {SURE}) FROM visits WHERE tags = 1",
        f"SELECT DP_COUNT_DISTINCT(tags, {SURE}) FROM visits",
        f"SELECT DP_COUNT_DISTINCT(l, {SURE}) FROM (SELECT person, min(tags) AS l FROM visits GROUP BY person)",
        f"SELECT DP_COUNT_DISTINCT(a, {SURE}) FROM (SELECT person, mood AS a FROM visits UNION ALL SELECT person, page FROM visits)",
        f"SELECT DP_COUNT_DISTINCT(v.title, {SURE}) FROM visits v JOIN products p ON v.mood = p.product_id",
        f"SELECT DP_COUNT_DISTINCT(title, {SURE}) FROM visits WHERE mood IN (SELECT product_id FROM products)",
        f"SELECT DP_COUNT_DISTINCT(title, {SURE}) FROM visits WHERE mood IN (SELECT size FROM sizes)",
        f"SELECT DP_COUNT_DISTINCT(title, {SURE}) FROM visits WHERE coalesce(mood, 1) = 'x'",
        f"SELECT DP_COUNT_DISTINCT(title, {SURE}) FROM visits WHERE lower(tags) = 'x'",
        "FROM duckdb_types()",
    ],
)  # fmt: skip
def test_no_refusal_reveals_a_label(session: AnalystSession, text: str) -> None:
    with free(session), pytest.raises((errors.DpSqlError, duckdb.Error)) as caught:
        session.sql(text).fetchall()
    said = str(caught.value).replace("canary_type", "").replace("CANARY_TYPE", "")
    assert "canary" not in said


def test_the_public_side_knows_no_type_of_the_private_one(session: AnalystSession) -> None:
    session.sql(top("mood", "['x']")).fetchall()
    text = "SELECT * FROM information_schema.columns"
    assert "canary" not in repr(session.sql(text).fetchall())


def test_a_parameter_is_no_way_to_the_labels(session: AnalystSession) -> None:
    with pytest.raises(duckdb.Error, match="canary_type does not exist"):
        session.sql("SELECT ?::canary_type", params=["x"])


@pytest.mark.parametrize(
    "condition",
    ["mood = '{}'", "mood <> '{}'", "mood < '{}'", "mood IN ('{}', 'x')", "mood BETWEEN '{}' AND 'z'",
     "coalesce(mood, '{}') = 'x'", "mood LIKE '{}'", "'{}' = mood"],
)  # fmt: skip
def test_a_string_that_is_no_label_is_compared_as_one_that_is(
    session: AnalystSession, condition: str
) -> None:
    costs = []
    for label in ("canary-a", "nowhere-a"):
        call = f"DP_COUNT_DISTINCT(title, {SURE}) FROM visits WHERE {condition.format(label)}"
        *told, (_, sql) = session.sql(f"EXPLAIN (sql) SELECT {call}").fetchall()
        costs.append(([one for one in told if one[0] != "left"], sql.replace(label, "?")))
        session.sql(f"SELECT {call}").fetchall()
    assert costs[0] == costs[1]


def test_a_list_with_strings_that_are_no_labels_is_a_domain(session: AnalystSession) -> None:
    found = session.sql(top("mood", "['canary-a', 'nowhere']")).fetchall()
    assert found == [(["canary-a"],)]
    assert session.sql(top("mood", "['nowhere', 'else']")).fetchall()


def test_the_order_in_which_labels_were_declared_is_not_told(session: AnalystSession) -> None:
    first = "SELECT person, min(mood) AS m FROM visits GROUP BY person"
    text = f"SELECT DP_TOPK(m, 1, {SURE}, domain := ['canary-a', 'canary-b']) FROM ({first})"
    same = text.replace("min(mood)", "min(CAST(mood AS VARCHAR))")
    sql = [session.sql(f"EXPLAIN (sql) {one}").fetchall()[-1][-1] for one in (text, same)]
    assert all('CAST("mood" AS VARCHAR)' in one and "ENUM" not in one for one in sql)


def test_labels_are_public_where_the_policy_says_so(labelled: AnalystSession) -> None:
    described = dict(labelled.sql("DESCRIBE visits").fetchall())
    assert described["mood"].startswith("ENUM('canary-")
    assert "canary" not in described["tags"]
    relation = labelled.sql(top("mood", "mood", 2))
    assert "ENUM" in str(relation.types) and len(relation.fetchall()[0][0]) == 2
    text = f"SELECT DP_TOPK(mood, 2, {SURE}) FROM visits"
    assert len(labelled.sql(text).fetchall()[0][0]) == 2
    with pytest.raises(errors.ArgumentError, match="holds x, which is not a value of type ENUM"):
        labelled.sql(top("mood", "['x']"))
    joined = "visits v JOIN other o ON v.person = o.person AND v.mood = o.mood"
    text = f"SELECT DP_COUNT_DISTINCT(v.title, {SURE}) FROM {joined}"
    assert labelled.sql(text).fetchall() == [(3,)]


def test_the_labels_of_a_public_table_are_public(session: AnalystSession) -> None:
    assert ("size", "ENUM('small', 'large')") in session.sql("DESCRIBE sizes").fetchall()
    joined = "visits v JOIN sizes s ON v.mood = s.word"
    text = f"SELECT DP_TOPK(size, 1, {SURE}, domain := size) FROM {joined}"
    assert session.sql(text).fetchall() == [(["small"],)]


def test_people_that_are_labels_are_people(tmp_path: Path) -> None:
    more = (
        "CREATE TYPE who AS ENUM ('canary-x', 'canary-y');"
        "CREATE TABLE people AS SELECT 'canary-x'::who AS who, 1 AS id, 'a' AS title;"
        "CREATE TABLE notes AS SELECT 'canary-x'::who AS who, 'n' AS note;"
        "CREATE TABLE linked AS SELECT 'canary-x'::who AS key, 'm' AS word"
    )
    policy = (
        '[tables.people]\nprivacy_unit = "who"\n[tables.notes]\nprivacy_unit = "who"\n'
        '[tables.linked]\nprivacy_unit = { link = "key", to = "people.who" }\n'
        '[domains]\n"people.who" = "enum"\n'
    )
    database, file = write_database(tmp_path / "p.duckdb", more), tmp_path / "policy.toml"
    file.write_text(policy)
    with dp_sql.connect(database, policy=str(file)) as session:
        for source in ("people", "linked", "people JOIN notes USING (who)"):
            item = {"people": "title", "linked": "word"}.get(source, "note")
            text = f"SELECT DP_COUNT_DISTINCT({item}, {SURE}) FROM {source}"
            assert session.sql(text).fetchall() == [(1,)]


def test_a_mutant_that_shows_labels_is_seen(
    fresh: AnalystSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dp_sql.privacy.policy_tables.without_labels", lambda kind: kind)
    assert "canary" in repr(fresh.sql("DESCRIBE visits").fetchall())
    assert "canary" in str(fresh.sql(top("mood", "mood")).types)


def test_a_mutant_that_casts_every_domain_is_seen(
    fresh: AnalystSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dp_sql.privacy.domains.can_be", lambda values, item: True)
    monkeypatch.setattr("dp_sql.privacy.analyst_plan._check_overlap", lambda *_: None)
    fresh.sql(top("title", "products.product_id")).fetchall()
    assert spent(fresh) > 0


def test_reflection_shows_no_label(tmp_path: Path) -> None:
    database, policy = written(tmp_path)
    engine = create_engine(f"dpsql:///{database}?policy={policy}&analyst=a")
    columns = [
        column for name in ("visits", "other") for column in inspect(engine).get_columns(name)
    ]
    engine.dispose()
    assert {column["name"] for column in columns} > {"mood", "tags"}
    assert "canary" not in repr(columns) and "ENUM" not in repr(columns).upper()
    with dp_sql.integrations.dbapi.connect(database, policy=policy) as con:
        cursor = con.cursor()
        cursor.execute(top("mood", "['x']"))
        assert "canary" not in repr(cursor.description)


# --- the owner's tools ----------------------------------------------------------------------------


def test_check_names_the_columns_whose_labels_are_hidden(tmp_path: Path) -> None:
    database, _ = written(tmp_path)
    with opened(database) as catalog:
        found = hidden_labels(parse_policy(POLICY), catalog)
        assert found == ["visits.mood", "other.mood"]
        assert hidden_labels(parse_policy(WITH_LABELS), catalog) == ["other.mood"]


def test_only_an_enum_has_labels(tmp_path: Path) -> None:
    database, _ = written(tmp_path)
    policy = POLICY.replace('"visits.title" = "products.title"', '"visits.title" = "enum"')
    with opened(database) as catalog:
        (problem,) = problems(parse_policy(policy), catalog)
    assert "visits.title is VARCHAR, and only an ENUM has labels" in problem


def test_a_draft_says_that_labels_are_hidden(tmp_path: Path) -> None:
    named = "ALTER TABLE visits RENAME person TO user_id"
    database = write_database(tmp_path / "shop.duckdb", f"{SHOP};{named}")
    with opened(database) as catalog:
        text = draft(catalog)
    assert '# "visits.mood" = "enum"' in text and "canary-" not in text


def test_no_label_is_told_where_two_enums_are_linked(tmp_path: Path) -> None:
    one, other = (
        Listed(("d", "main", name), False, (("k", f"ENUM('canary-{name}')"), ("p", "BIGINT")))
        for name in ("a", "b")
    )

    class Catalog:
        def listed(self) -> list[Listed]:
            return [one, other]

        def stand_ins(self) -> list[str]:
            return []

        def finds(self, select: str) -> bool:
            return False

    policy = parse_policy(
        '[tables.a]\nprivacy_unit = "p"\n[tables.b]\nprivacy_unit = { link = "k", to = "a.k" }\n'
    )
    (problem,) = problems(policy, Catalog())
    assert "give them the same type" in problem and "canary" not in problem
