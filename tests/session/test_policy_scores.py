"""DP_SELECT under a policy: over exactly the declared table, with the declared sensitivity."""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

import dp_sql
from dp_sql.engines.duckdb.introspection import DatabaseCatalog
from dp_sql.errors import DpSqlError, NotPrivate, NotSupported, PolicyError
from dp_sql.policy.model import parse_policy
from dp_sql.policy.validation import hidden, problems
from tests.databases import write_database

DATABASE = """
CREATE TYPE kind AS ENUM ('tree', 'forest', 'canary-label');
CREATE TABLE ratings AS SELECT i % 50 AS user_id, 'Dune' AS title FROM range(100) AS r(i);
CREATE TABLE scores AS SELECT * FROM (VALUES ('oak', 900000, 1.0, 2.5, 'canary'), ('elm', 10, 1.0, 0, 'x'),
    ('ash', 5, 1.0, 1e6, 'x')) AS t("Model", accuracy, sensitivity, other, secret);
CREATE TABLE fixed AS SELECT 'tree'::kind AS label, 100000::DOUBLE AS score UNION ALL SELECT 'forest', 0;
CREATE TABLE unlisted AS FROM scores;
CREATE VIEW seen AS FROM scores;
"""
POLICY = """
tables.ratings.privacy_unit = "user_id"
[scores.scores]
candidate = "model"
score = "accuracy"
sensitivity = "sensitivity"
[scores.fixed]
candidate = "label"
score = "score"
sensitivity = 2.5
[limits]
max_epsilon_per_query = 1000
[budget]
dataset = "shop"
epsilon = 5000
"""
BEST = "DP_SELECT(model, accuracy, sensitivity, epsilon := 100)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scores")
    write_database(folder / "shop.duckdb", DATABASE)
    (folder / "policy.toml").write_text(POLICY, "utf-8")
    return folder


@pytest.fixture(scope="module")
def session(folder: Path) -> Iterator[dp_sql.Session]:
    with dp_sql.connect(str(folder / "shop.duckdb"), policy=folder / "policy.toml") as session:
        yield session


def spent(session: dp_sql.Session) -> Fraction:
    return Fraction(session.budget()[0].epsilon_spent)


@pytest.mark.parametrize(
    ("statement", "answer"),
    [
        (f"SELECT {BEST} AS best FROM scores", "oak"),
        ("SELECT DP_SELECT(scores.model, MODEL, scores.sensitivity, epsilon := 100) FROM scores", ""),
        ("SELECT DP_SELECT(\"Model\", main.scores.accuracy, Sensitivity, epsilon := 100) FROM Main.Scores", "oak"),
        ("SELECT DP_SELECT(label, score, 2.5, epsilon := 100) FROM fixed", "tree"),
        ("SELECT DP_SELECT(label, score, 2.50, epsilon := 100, mechanism := 'exponential') FROM fixed", "tree"),
        (f"SELECT upper(best) FROM (SELECT {BEST} AS best FROM scores)", "OAK"),
    ],
)  # fmt: skip
def test_the_declared_table_is_answered(
    session: dp_sql.Session, statement: str, answer: str
) -> None:
    before = spent(session)
    if not answer:
        with pytest.raises(DpSqlError, match="declares the score of scores"):
            session.sql(statement)
        return
    assert session.sql(statement).fetchall() == [(answer,)]
    assert spent(session) == before + 100
    assert session.receipts[-1].assumptions == ("what the policy declares",)


# Each would change what a person can move, choose candidates by people's data, or read other rows.
ATTACKS = (
    "SELECT DP_SELECT(model, accuracy, 0, epsilon := 1) FROM scores",
    "SELECT DP_SELECT(model, accuracy, 1e-100, epsilon := 1) FROM scores",
    "SELECT DP_SELECT(model, accuracy, other, epsilon := 1) FROM scores",
    "SELECT DP_SELECT(model, accuracy, scores.other, epsilon := 1) FROM scores",
    "SELECT DP_SELECT(model, accuracy, x.sensitivity, epsilon := 1) FROM scores",
    "SELECT DP_SELECT(label, score, 2.4999, epsilon := 1) FROM fixed",
    "SELECT DP_SELECT(label, score, score, epsilon := 1) FROM fixed",
    "SELECT DP_SELECT(secret, accuracy, sensitivity, epsilon := 1) FROM scores",
    "SELECT DP_SELECT(accuracy, accuracy, sensitivity, epsilon := 1) FROM scores",
    "SELECT DP_SELECT(model, other, sensitivity, epsilon := 1) FROM scores",
    "SELECT DP_SELECT(model, accuracy * 1000, sensitivity, epsilon := 1) FROM scores",
    f"SELECT {BEST} FROM scores WHERE accuracy > 100",
    f"SELECT {BEST} FROM scores WHERE model <> 'oak'",
    f"SELECT secret, {BEST} FROM scores GROUP BY secret",
    f"SELECT {BEST} FROM scores, scores AS s",
    f"SELECT {BEST} FROM scores AS s",
    f"SELECT {BEST} FROM scores JOIN ratings ON true",
    f"SELECT {BEST} FROM (SELECT model, accuracy * 1000 AS accuracy, sensitivity FROM scores)",
    f"SELECT {BEST} FROM (FROM scores)",
    f"SELECT {BEST} FROM unlisted",
    f"SELECT {BEST} FROM seen",
    f"SELECT {BEST} FROM shop.other.scores",
    f"WITH scores AS (SELECT 'x' AS model, 1 AS accuracy, 0 AS sensitivity) SELECT {BEST} FROM scores",
    f"SELECT {BEST}, DP_COUNT_DISTINCT(title, epsilon := 1) FROM scores",
    f"SELECT {BEST}, DP_COUNT_DISTINCT(title, epsilon := 1) FROM ratings",
    "SELECT DP_SELECT(title, user_id, 1, epsilon := 1) FROM ratings",
    "SELECT DP_COUNT_DISTINCT(model, epsilon := 1) FROM scores",
    "SELECT DP_TOPK(model, 1, epsilon := 1) FROM scores",
    "SELECT DP_COUNT_DISTINCT(title, epsilon := 1) FROM ratings JOIN scores ON title = model",
    "SELECT DP_TOPK(title, 1, epsilon := 1, domain := scores.model) FROM ratings",
    "FROM scores", "SELECT model FROM scores", "SUMMARIZE scores",
    f"SELECT {BEST}, (SELECT secret FROM scores LIMIT 1) FROM scores",
    "SELECT DP_SELECT(model, accuracy, sensitivity, epsilon := 1001) FROM scores",
)  # fmt: skip


@pytest.mark.parametrize("statement", ATTACKS)
def test_nothing_else_is_answered_and_nothing_is_spent(
    session: dp_sql.Session, statement: str
) -> None:
    before, n = spent(session), len(session.receipts)
    with pytest.raises((DpSqlError, duckdb.Error)) as refused:
        session.sql(statement).fetchall()
    assert "canary" not in str(refused.value)
    assert (spent(session), len(session.receipts)) == (before, n)


def test_a_refusal_proposes_a_statement_that_runs(session: dp_sql.Session) -> None:
    for statement in (
        f"SELECT {BEST} FROM ratings",
        f"SELECT {BEST} FROM scores WHERE model <> ''",
    ):
        with pytest.raises(DpSqlError) as refused:
            session.sql(statement)
        proposed = str(refused.value).splitlines()[-1].partition(": ")[2] or str(
            refused.value
        ).splitlines()[-1].removeprefix("Write ")
        assert session.sql(proposed).fetchall()


@pytest.mark.parametrize("read", ["*", "model", "max(accuracy)", "DP_COUNT(*, epsilon := 1)"])
def test_scores_that_are_read_otherwise_are_said_to_be_scores(
    session: dp_sql.Session, read: str
) -> None:
    with pytest.raises(
        NotPrivate, match="scores holds scores, which only DP_SELECT may read"
    ) as it:
        session.sql(f"SELECT {read} FROM scores")
    if "DP_" not in read:
        assert it.value.asks_other
        assert session.sql(it.value.suggestion).fetchall()


def test_analysts_see_the_declared_columns_only(session: dp_sql.Session) -> None:
    assert session.sql("SHOW TABLES").fetchall() == [
        ("ratings", "private"), ("fixed", "scores"), ("scores", "scores"),
    ]  # fmt: skip
    assert [name for name, _ in session.sql("DESCRIBE scores").fetchall()] == [
        "model", "accuracy", "sensitivity",
    ]  # fmt: skip
    assert session.sql("DESCRIBE fixed").fetchall() == [("label", "VARCHAR"), ("score", "DOUBLE")]
    answer = session.sql("SELECT DP_SELECT(label, score, 2.5, epsilon := 100) AS best FROM fixed")
    assert [str(kind) for kind in answer.types] == ["VARCHAR"]


def test_the_price_is_shown_before(session: dp_sql.Session) -> None:
    before = spent(session)
    assert session.explain(f"SELECT {BEST} FROM scores").epsilon == 100
    assert spent(session) == before


def test_without_a_score_table_it_is_not_available(folder: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('tables.ratings.privacy_unit = "user_id"', "utf-8")
    with (
        dp_sql.connect(str(folder / "shop.duckdb"), policy=policy) as session,
        pytest.raises(NotSupported, match=r"(?s)not available under a policy.*lists none"),
    ):
        session.sql(f"SELECT {BEST} FROM scores")


LINES = {
    "candidate": 'candidate = "model"', "score": 'score = "accuracy"',
    "sensitivity": 'sensitivity = "sensitivity"',
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"candidate": 'candidate = "nothing"'}, "has no column nothing"),
        ({"score": 'score = "secret"'}, "is VARCHAR, which is not a number"),
        ({"sensitivity": 'sensitivity = "secret"'}, "is VARCHAR, which is not a number"),
        ({"sensitivity": "sensitivity = -1"}, "must be a column, or a number from 0"),
        ({"sensitivity": 'sensitivity = "accuracy"'}, "must be different columns"),
        ({"sensitivity": ""}, "needs sensitivity"),
        ({"score": 'score = "accuracy"\nwhere = "x"'}, "Unknown key where"),
    ],
)
def test_a_declaration_that_does_not_fit_is_refused(
    folder: Path, change: dict[str, str], why: str
) -> None:
    text = "[scores.scores]\n" + "\n".join((LINES | change).values())
    with duckdb.connect(str(folder / "shop.duckdb"), read_only=True) as connection:
        try:
            said = "; ".join(problems(parse_policy(text), DatabaseCatalog(connection)))
        except PolicyError as error:
            said = str(error)
    assert why in said


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ("('a', 1, 1), ('a', 2, 1)", "has several rows"), ("('a', 1, 1), (NULL, 2, 1)", "NULL or has"),
        ("('a', NULL, 1)", "A score is NULL"), ("('a', 'nan', 1)", "A score is NULL, infinite or NaN"),
        ("('a', 1, 'inf')", "A sensitivity is"), ("('a', 1, -1)", "or negative"), ("('a', 1, 0)", ""),
    ],
)  # fmt: skip
def test_what_a_policy_says_of_scores_is_checked(rows: str, why: str) -> None:
    text = "[scores.s]\n" + "\n".join(LINES.values())
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE s (model TEXT, accuracy DOUBLE, sensitivity DOUBLE)")
        connection.execute(f"INSERT INTO s VALUES {rows}")
        catalog = DatabaseCatalog(connection)
        found = problems(parse_policy(text), catalog)
        assert (why in " ".join(found)) if why else not found
        assert hidden(parse_policy(text), catalog) == []


def test_a_table_is_of_one_kind() -> None:
    text = "[scores.s]\n" + "\n".join(LINES.values())
    with pytest.raises(PolicyError, match="is also in"):
        parse_policy(f'public.tables = ["s"]\n{text}')
