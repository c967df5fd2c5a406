"""The labels of an ENUM are public only where the policy says so."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from sqlalchemy import create_engine, inspect

import dp_sql
import dp_sql.integrations.dbapi
from dp_sql import errors
from dp_sql.engines.duckdb.introspection import opened
from dp_sql.policy.model import parse_policy
from dp_sql.policy.owners_catalog import CatalogEntry
from dp_sql.policy.template import draft
from dp_sql.policy.validation import hidden_labels, problems
from dp_sql.session.analyst import AnalystSession
from tests.conftest import SURE, free
from tests.databases import write_database
from tests.privacy.visits import POLICY, SHOP, WITH_LABELS, spent, top, written


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
def test_the_labels_of_a_private_enum_are_nowhere(visitor: AnalystSession, text: str) -> None:
    if "groups" in text:
        text = text.replace("title", "person")
    n_receipts, n_releases = len(visitor.receipts), len(visitor.releases)
    relation = visitor.sql(text)
    shown = repr((relation.columns, relation.types, relation.fetchall()))
    shown += repr(visitor.receipts[n_receipts:])
    shown += repr([(release, release.columns) for release in visitor.releases[n_releases:]])
    assert "canary" not in shown and "ENUM" not in shown.upper()


def test_public_labels_are_strings_in_expressions_and_groups(
    labelled: AnalystSession, fresh: AnalystSession
) -> None:
    asked = f"SELECT {{}} AS m, DP_COUNT(*, {SURE}) AS n FROM visits GROUP BY m"
    counts = {str(mood): n for mood, n in labelled.sql(asked.format("mood")).fetchall()}
    for key in ("mood::VARCHAR", "coalesce(mood, 'none')", "upper(mood)"):
        found = dict(labelled.sql(asked.format(key)).fetchall())
        expected = {label.upper() if "upper" in key else label: n for label, n in counts.items()}
        assert found == expected | ({"none": 0} if "none" in key else {})
        with pytest.raises(errors.ArgumentError, match="declares none") as refused:
            fresh.sql(asked.format(key))
        assert "canary" not in str(refused.value)
    for condition in ("mood LIKE 'canary%'", "upper(mood) LIKE '%'", "trim(mood) ILIKE 'CANARY%'"):
        assert counted(labelled, condition) == sum(counts.values())
    assert counted(labelled, "mood NOT LIKE '%c%'") == 0


def counted(session: AnalystSession, condition: str) -> object:
    text = f"SELECT DP_COUNT(*, {SURE}) FROM visits WHERE {condition}"
    ((n,),) = session.sql(text).fetchall()
    return n


@pytest.mark.parametrize(
    "text",
    [
        top("mood", "mood"), top("mood", "visits.mood"), top("mood", "canary_type"),
        top("mood", "observed"), top("tags", "['x']"), top("tags.m", "observed"), top("mood", "[1]"),
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
def test_no_refusal_reveals_a_label(visitor: AnalystSession, text: str) -> None:
    with free(visitor), pytest.raises((errors.DpSqlError, duckdb.Error)) as caught:
        visitor.sql(text).fetchall()
    said = str(caught.value).replace("canary_type", "").replace("CANARY_TYPE", "")
    assert "canary" not in said


def test_the_public_side_knows_no_type_of_the_private_one(visitor: AnalystSession) -> None:
    visitor.sql(top("mood", "['x']")).fetchall()
    known = visitor._public.connection.execute("FROM pg_catalog.pg_attribute").fetchall()
    assert known and "canary" not in repr(known)


def test_a_parameter_is_no_way_to_the_labels(visitor: AnalystSession) -> None:
    with pytest.raises(duckdb.Error, match="canary_type does not exist"):
        visitor.sql("SELECT ?::canary_type", params=["x"])


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "condition",
    ["mood = '{}'", "mood <> '{}'", "mood < '{}'", "mood IN ('{}', 'x')", "mood BETWEEN '{}' AND 'z'",
     "coalesce(mood, '{}') = 'x'", "mood LIKE '{}'", "'{}' = mood",
     "tags.m = '{}'", "tags.l[1] < '{}'", "'{}' = ANY(tags.l)"],
)  # fmt: skip
def test_a_string_that_is_no_label_is_compared_as_one_that_is(
    visitor: AnalystSession, condition: str
) -> None:
    costs = []
    for label in ("canary-a", "nowhere-a"):
        call = f"DP_COUNT_DISTINCT(title, {SURE}) FROM visits WHERE {condition.format(label)}"
        *told, (_, sql) = visitor.sql(f"EXPLAIN (sql) SELECT {call}").fetchall()
        costs.append(([one for one in told if one[0] != "left"], sql.replace(label, "?")))
        visitor.sql(f"SELECT {call}").fetchall()
    assert costs[0] == costs[1]


def test_a_list_with_strings_that_are_no_labels_is_a_domain(visitor: AnalystSession) -> None:
    found = visitor.sql(top("mood", "['canary-a', 'nowhere']")).fetchall()
    assert found == [(["canary-a"],)]
    assert visitor.sql(top("mood", "['nowhere', 'else']")).fetchall()


def test_the_order_in_which_labels_were_declared_is_not_told(visitor: AnalystSession) -> None:
    first = "SELECT person, min(mood) AS m FROM visits GROUP BY person"
    text = f"SELECT DP_TOPK(m, 1, {SURE}, domain := ['canary-a', 'canary-b']) FROM ({first})"
    same = text.replace("min(mood)", "min(CAST(mood AS VARCHAR))")
    sql = [visitor.sql(f"EXPLAIN (sql) {one}").fetchall()[-1][-1] for one in (text, same)]
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


def test_the_labels_of_a_public_table_are_public(visitor: AnalystSession) -> None:
    assert ("size", "ENUM('small', 'large')") in visitor.sql("DESCRIBE sizes").fetchall()
    joined = "visits v JOIN sizes s ON v.mood = s.word"
    text = f"SELECT DP_TOPK(size, 1, {SURE}, domain := size) FROM {joined}"
    assert visitor.sql(text).fetchall() == [(["small"],)]


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
    monkeypatch.setattr("dp_sql.privacy.relations.policy_tables.without_labels", lambda kind: kind)
    assert "canary" in repr(fresh.sql("DESCRIBE visits").fetchall())
    assert "canary" in str(fresh.sql(top("mood", "mood")).types)


def test_a_mutant_that_casts_every_domain_is_seen(
    fresh: AnalystSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dp_sql.privacy.plans.domains.can_be", lambda values, item: True)
    monkeypatch.setattr("dp_sql.privacy.plans.analyst._check_overlap", lambda *_: None)
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


def test_no_label_is_told_where_two_enums_are_linked() -> None:
    one, other = (
        CatalogEntry(("d", "main", name), False, (("k", f"ENUM('canary-{name}')"), ("p", "BIGINT")))
        for name in ("a", "b")
    )

    class Catalog:
        def listed(self) -> list[CatalogEntry]:
            return [one, other]

        def replaced_functions(self) -> list[str]:
            return []

        def finds(self, select: str) -> bool:
            return False

    policy = parse_policy(
        '[tables.a]\nprivacy_unit = "p"\n[tables.b]\nprivacy_unit = { link = "k", to = "a.k" }\n'
    )
    (problem,) = problems(policy, Catalog())
    assert "give them the same type" in problem and "canary" not in problem
