"""What sessions under other policies answer, and policies that open no session."""

import contextlib
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import duckdb
import pytest

import dp_sql
from dp_sql import errors
from dp_sql.cli.main import main
from dp_sql.engines.duckdb import release_sql
from dp_sql.session import one_outcome
from tests.conftest import SURE
from tests.session.reading_policy import MORE, POLICY, asked, write


def test_a_default_keeps_to_the_limit(tmp_path: Path) -> None:
    limits = "max_contributions = 20\nmax_delta_per_query = 1e-6"
    database, policy = write(tmp_path, POLICY.replace("max_contributions = 200", limits))
    with dp_sql.connect(database, policy=policy, analyst="reporting") as session:
        for call, says in (
            ("DP_TOPK(title, 20, epsilon := 1, delta := 1e-9)", "each with at most 20 items"),
            ("DP_COUNT_DISTINCT(title, epsilon := 1, bound_selection := 'gem')", "when it is 20"),
        ):
            (one,) = session.explain(f"SELECT {call} FROM ratings").calls
            assert says in one.accuracy


def test_an_epsilon_that_is_missing_is_not_one_above_the_limit(tmp_path: Path) -> None:
    database, policy = write(tmp_path, POLICY.replace("= 10000", "= 0.5"))
    with (
        dp_sql.connect(database, policy=policy, analyst="reporting") as session,
        pytest.raises(errors.ArgumentError, match="DP_TOPK needs epsilon") as raised,
    ):
        session.sql("SELECT DP_TOPK(title, 2) FROM ratings")
    assert raised.value.suggestion == "SELECT DP_TOPK(title, 2, epsilon := 0.5) FROM ratings"


def test_a_source_reads_the_ctes_in_whose_scope_it_is(tmp_path: Path) -> None:
    call = "SELECT DP_COUNT(*, epsilon := 1) AS n"
    readable = (
        f"SELECT n FROM (WITH a AS (FROM ratings) {call} FROM a)",
        f"WITH a AS (FROM ratings) SELECT n FROM (WITH b AS (FROM a) {call} FROM b)",
        f"WITH a AS (FROM ratings), b AS ({call} FROM a) FROM b",
    )
    refused = (
        f"WITH a AS (FROM ratings) SELECT n FROM (WITH a AS (FROM ratings) {call} FROM a)",
        f"WITH b AS ({call} FROM a), a AS (FROM ratings) FROM b",
        f"WITH a AS ({call} FROM a) FROM a",
    )
    database, policy = write(tmp_path, POLICY)
    with dp_sql.connect(database, policy=policy, analyst="reporting") as session:
        for statement in readable:
            (one,) = session.explain(statement).calls
            assert one.loss.epsilon == 1
        for statement in refused:
            with pytest.raises(errors.NotPrivate, match="CTE"):
                session.explain(statement)


OBSERVED = """
tables.diary.privacy_unit = "who"
domains."diary.word" = "observed"
domains."diary.place" = "observed"
"""


def test_an_observed_domain_is_the_whole_column_and_not_one_persons(tmp_path: Path) -> None:
    more = (
        "CREATE TABLE diary AS SELECT i % 20 AS who, 'w' || i % 5 AS word, 'p' || i % 3 AS place "
        "FROM range(200) t(i); INSERT INTO diary VALUES (777, 'w1', 'p1')"
    )
    database, policy = write(tmp_path, OBSERVED, more)
    with dp_sql.connect(database, policy=policy) as session:
        for who in (777, 778):
            where = f"FROM diary WHERE who = {who}"
            ((answer,),) = asked(session, f"SELECT DP_TOPK(word, 5, epsilon := 1e-9) {where}")
            assert sorted(answer) == ["w0", "w1", "w2", "w3", "w4"]
            with pytest.raises(errors.ArgumentError, match="k = 6 is more than the 5 items"):
                session.sql(f"SELECT DP_TOPK(word, 6, epsilon := 1e-9) {where}")
            grouped = asked(
                session,
                "SELECT place, DP_COUNT_DISTINCT(word, epsilon := 1e-9, "
                f"max_groups_contributed := 1) AS n {where} GROUP BY place ORDER BY place",
            )
            assert [place for place, _ in grouped] == ["p0", "p1", "p2"]


@pytest.mark.usefixtures("by_sql")
@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("passed", "waits"),
    [(0.0, 0.0), (0.125, 0.375), (0.5, 0.0), (0.625, 0.375), (2.25, 0.25)],
)
@pytest.mark.parametrize("fails", [False, True])
def test_answers_and_failures_come_at_the_deadline_or_its_next_multiple(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, passed: float, waits: float, fails: bool
) -> None:
    database, policy = write(tmp_path, POLICY + "deadline_seconds = 0.5\n")
    clock, slept = iter([100.0, 100.0 + passed]), list[float]()
    times = SimpleNamespace(monotonic=lambda: next(clock), sleep=slept.append)
    monkeypatch.setattr(one_outcome, "time", times)
    if fails:
        wrong = "SELECT error('x') AS __dp_value WHERE $1 <> ''"
        monkeypatch.setattr(release_sql, "private_sql", lambda *_, **named: wrong)
    with dp_sql.connect(database, policy=policy) as session:
        with contextlib.suppress(dp_sql.QueryError):
            session.sql("SELECT DP_COUNT_DISTINCT(title, epsilon := 1) FROM ratings")
            assert not fails
        assert slept == [waits]
        assert len(session.receipts) == 1


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("more", "policy", "words"),
    [
        ("CREATE MACRO lower(x) AS 'canary'", POLICY, "lower"),
        ("", POLICY.replace('"user_id"', '"nobody"'), "nobody"),
        ("", POLICY.replace('"recent"', '"recently"'), "recently"),
        ("", POLICY + "max_q = 1\n", "max_q"),
    ],
)
def test_a_policy_that_does_not_fit_opens_nothing(
    tmp_path: Path, more: str, policy: str, words: str
) -> None:
    database, file = write(tmp_path, policy, MORE + more)
    with pytest.raises(errors.PolicyError, match=words):
        dp_sql.connect(database, policy=file)
    with duckdb.connect(database):
        pass  # and it is closed again


def test_an_analyst_without_a_policy_is_refused() -> None:
    with pytest.raises(errors.PolicyError, match="An analyst needs a policy"):
        dp_sql.connect(analyst="reporting")


def test_two_analysts_see_their_own_receipts(tmp_path: Path) -> None:
    database, policy = write(tmp_path)
    with (
        dp_sql.connect(database, policy=policy, analyst="one") as one,
        dp_sql.connect(database, policy=policy, analyst="two") as two,
    ):
        one.sql("SELECT DP_COUNT_DISTINCT(title, epsilon := 1) FROM ratings")
        assert [len(one.receipts), len(two.receipts)] == [1, 0]
        assert one.receipts[0].loss.epsilon == Fraction(1)
        assert (one.analyst, two.analyst) == ("one", "two")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("form", ["--csv", "--json", "--receipts"])
def test_the_command_line_asks_as_an_analyst(
    tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    database, policy = write(tmp_path)
    text = f"SELECT unnest(DP_TOPK(title, 2, {SURE})) AS title FROM ratings"
    program = [database, "--policy", policy, "--as", "me", form]
    assert main([*program, "-c", text]) == 0
    shown = capsys.readouterr().out
    assert "Dune" in shown and "Emma" in shown
    assert main([*program, "-c", "SELECT * FROM ratings"]) == 1
    assert "ratings is private" in capsys.readouterr().err


def test_a_list_without_a_domain_under_a_policy(tmp_path: Path) -> None:
    """The cap on items is the policy's limit; the ledger has epsilon and delta, and no rho."""
    policy = POLICY.replace("max_k", "max_delta_per_query = 1e-6\nmax_k")
    more = "CREATE TABLE tags AS SELECT p % 2000 AS user_id, 'tag ' || p % 40 AS tag FROM range(8000) t(p);"
    policy = policy.replace("tables.loans.", 'tables.tags.privacy_unit = "user_id"\ntables.loans.')
    database, file = write(tmp_path, policy, MORE + more)
    with dp_sql.connect(database, policy=file, analyst="reporting") as session:
        call = "DP_TOPK(tag, 40, epsilon := 10, delta := 1e-6{})"
        assert "weighted_gaussian" in str(session.explain(f"SELECT {call.format('')} FROM tags"))
        ((found,),) = asked(
            session, f"SELECT {call.format(', max_contributions := 200')} FROM tags"
        )
        assert sorted(found) == sorted(f"tag {i}" for i in range(40))
        ((loss,),) = [(receipt.loss,) for receipt in session.receipts]
        assert (loss.epsilon, loss.delta, loss.rho) == (10, Fraction(1, 10**6), None)
        with pytest.raises(errors.ArgumentError, match=r"max_contributions is more than .* 200"):
            session.sql(f"SELECT {call.format(', max_contributions := 201')} FROM tags")
        both = f"{call.format('')}, {call.format('').replace('40', '39')}"
        with pytest.raises(errors.ArgumentError, match=r"delta = 0.000002 together"):
            session.sql(f"SELECT DP_COUNT(*, epsilon := 10), {both} FROM tags")


SEVERAL_TYPES = """
CREATE TABLE customers AS SELECT i AS id, i % 2 = 0 AS is_new FROM range(100) AS r(i);
CREATE TABLE holders AS SELECT (i % 60)::INTEGER AS customer, i AS account FROM range(120) AS r(i);
CREATE TABLE cards AS SELECT i AS account, i % 3 AS kind FROM range(120) AS r(i);
CREATE TABLE visits AS SELECT i::UBIGINT AS visitor FROM range(50) AS r(i);
CREATE TABLE orders AS SELECT i::INTEGER AS customer_id, i % 4 AS size FROM range(80) AS r(i);
CREATE TABLE cities AS SELECT i::UINTEGER AS visited_by, i % 2 AS half FROM range(30) AS r(i);
CREATE TABLE letters AS SELECT i::VARCHAR AS reader FROM range(50) AS r(i);
CREATE VIEW both_ AS SELECT * FROM customers JOIN holders ON id = customer;
CREATE VIEW renamed (is_new, "AS") AS SELECT id, is_new FROM customers;
"""
OF_SEVERAL_TYPES = """
tables.customers = { privacy_unit = "id", unique_per_person = ["is_new"] }
tables.holders.privacy_unit = "customer"
tables.cards.privacy_unit = { link = "account", to = "holders.account" }
tables.visits.privacy_unit = "visitor"
tables.orders.privacy_unit = { link = "customer_id", to = "customers.id" }
tables.letters.privacy_unit = "reader"
public.tables = ["cities"]
views.tables = ["both_", "renamed"]
limits.max_rows_per_person = 10
"""
OVER_SEVERAL_TYPES = {
    "customers JOIN holders ON id = customer": 120,
    "holders, customers WHERE id = customer AND is_new": 60,
    "both_ WHERE is_new": 60,
    'renamed WHERE "AS" AND is_new < 20': 10,
    "customers JOIN holders ON id = customer JOIN visits ON visitor = id": 100,
    "customers LEFT JOIN holders ON id = customer": 160,
    "cards JOIN holders USING (account) JOIN customers ON id = customer WHERE kind = 0": 40,
    "customers WHERE id IN (SELECT customer FROM holders WHERE account >= 100)": 20,
    "holders WHERE customer NOT IN (SELECT visitor FROM visits)": 20,
    "holders AS h WHERE EXISTS (SELECT 1 FROM visits AS v WHERE v.visitor = h.customer)": 100,
    "customers ANTI JOIN holders ON id = customer": 40,
    "(SELECT id FROM customers UNION ALL SELECT customer FROM holders) AS u(x)": 220,
    "(SELECT size FROM orders UNION ALL SELECT 1 FROM visits) AS u(size) WHERE size = 1": 70,
    "orders JOIN customers ON id = customer_id JOIN visits ON visitor = id": 50,
    "orders WHERE customer_id IN (SELECT id FROM customers JOIN visits ON visitor = id)": 50,
    "customers JOIN visits ON visitor = id JOIN cities ON visited_by = visitor": 30,
    "(SELECT id, count(*) AS n FROM both_ GROUP BY id) WHERE n = 2": 60,
}


def test_people_may_be_integers_of_several_types(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database, policy = str(tmp_path / "bank.duckdb"), tmp_path / "policy.toml"
    with duckdb.connect(database) as con:
        con.execute(SEVERAL_TYPES)
    policy.write_text(OF_SEVERAL_TYPES, "utf-8")
    assert main(["policy", "check", str(policy), database]) == 0
    assert "cannot use the view" not in capsys.readouterr().out
    with dp_sql.connect(database, policy=policy) as session:
        assert session.execute("DESCRIBE both_").fetchall()
        for source, n in OVER_SEVERAL_TYPES.items():
            call = f"DP_COUNT(*, {SURE}, contribution_bound := 3)"
            assert session.sql(f"SELECT {call} FROM {source}").fetchall() == [(n,)], source
        with pytest.raises(errors.NotPrivate, match="A join compares BIGINT with VARCHAR"):
            session.sql(
                "SELECT DP_COUNT(*, epsilon := 1) FROM customers JOIN letters ON id = reader"
            )


HOUSEHOLDS = """
CREATE TABLE pupils (pupil VARCHAR PRIMARY KEY, household INTEGER, grade INTEGER);
INSERT INTO pupils SELECT 'p' || i, i // 2, i % 3 FROM range(100) AS r(i);
CREATE TABLE absences AS SELECT 'p' || i % 100 AS pupil, DATE '2026-01-01' + (i // 100)::INTEGER AS day
    FROM range(250) AS r(i);
CREATE TABLE schools (grade INTEGER PRIMARY KEY);
INSERT INTO schools FROM range(3);
"""
OF_HOUSEHOLDS = """
tables.pupils.privacy_unit = "household"
tables.absences.privacy_unit = { link = "pupil", to = "pupils.pupil" }
public.tables = ["schools"]
"""
PER_PUPIL = {
    "(SELECT *, lag(day) OVER (PARTITION BY pupil ORDER BY day) AS b FROM absences) WHERE b < day": 150,
    "(SELECT DISTINCT ON (pupil) * FROM absences ORDER BY day DESC) WHERE day > '2026-01-02'": 50,
    "(SELECT DISTINCT pupil FROM absences)": 100,
    "(SELECT p.pupil, count(*) AS n FROM pupils AS p JOIN absences USING (pupil) GROUP BY p.pupil) WHERE n = 3": 50,
}


def test_keys_and_links_keep_the_rows_of_people_apart(tmp_path: Path) -> None:
    """Where the privacy unit is the household, and a question is about each pupil."""
    database, policy = str(tmp_path / "school.duckdb"), tmp_path / "policy.toml"
    with duckdb.connect(database) as con:
        con.execute(HOUSEHOLDS)
    policy.write_text(OF_HOUSEHOLDS, "utf-8")
    call = f"DP_COUNT(*, {SURE}, contribution_bound := 6)"
    with dp_sql.connect(database, policy=policy) as session:
        for source, n in PER_PUPIL.items():
            assert session.sql(f"SELECT {call} FROM {source}").fetchall() == [(n,)], source
        public = "SELECT s.grade FROM pupils JOIN schools AS s USING (grade) GROUP BY s.grade"
        with pytest.raises(errors.NotPrivate, match="must list the privacy unit"):
            session.sql(f"SELECT {call} FROM ({public})")
        with pytest.raises(
            errors.ArgumentError, match="Each pupil belongs to one person"
        ) as of_one:
            session.sql(f"SELECT pupil, {call} FROM absences GROUP BY pupil")
        session.sql(str(of_one.value.suggestion))
