"""Counts of groups without a cap on groups per person."""

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dp_sql
from dp_sql.integrations import dbapi
from dp_sql.sql.functions import vectors
from dp_sql.udfs.histogram import chosen_norm, k_norm
from dp_sql.udfs.mechanism import PrivacyLoss
from dp_sql.udfs.range_norm import range_norm_quantile
from tests.conftest import SURE
from tests.databases import owner_of, write_database
from tests.session.visits import PEOPLE, POLICY, TRUE, asked, rows

owner = owner_of(PEOPLE)


def analyst(folder: Path, accountant: str = "basic") -> dp_sql.Session:
    delta = "delta = 1e-6" if accountant != "basic" else ""
    more = f'accountant = "{accountant}"\n{delta}'
    path = folder / "policy.toml"
    path.write_text(POLICY.format(folder=folder, more=more, delta=delta), "utf-8")
    database = folder / "visits.duckdb"
    if not database.exists():
        write_database(database, PEOPLE)
    return dp_sql.connect(str(database), policy=str(path), analyst="ann")


def test_a_person_counts_in_all_of_their_groups_for_one_epsilon(owner: dp_sql.Session) -> None:
    assert dict(rows(owner, asked(SURE))) == TRUE
    rows(owner, asked())
    receipt = owner.receipts[-1]
    assert receipt.loss == PrivacyLoss(Fraction(1))
    assert receipt.mechanism == "k_norm"
    most = range_norm_quantile(4, Fraction(1), Fraction(1, 20))
    assert receipt.accuracy.startswith(
        f"with probability 95 %, all 4 counts are within ± {most} of"
    )


def test_explain_says_the_same_and_why(owner: dp_sql.Session) -> None:
    (call,) = owner.explain(asked()).calls
    assert (call.mechanism, call.loss) == ("k_norm", PrivacyLoss(Fraction(1)))
    rows(owner, asked())
    assert (
        call.accuracy
        == f"{owner.receipts[-1].accuracy}; add report := true to get a lower bound with "
        "the answer"
    )
    assert call.all_within == range_norm_quantile(4, Fraction(1), Fraction(1, 20))
    assert call.groups.startswith(
        "a person counts in all of their groups: all 4 counts are within ±"
    )


def test_where_a_cap_is_closer_it_is_used_and_else_it_is_not(owner: dp_sql.Session) -> None:
    free = k_norm.within(4, Fraction(1), 1, Fraction(1, 20))
    seen = set()
    for cap in (1, 2, 3, 4, 9):
        each = Fraction(1, 20 * 4)
        capped = k_norm.within(1, Fraction(1, cap), 1, each)
        text = asked(f"epsilon := 1.0, max_groups_contributed := {cap}")
        (call,) = owner.explain(text).calls
        assert (call.mechanism == "k_norm") is (free <= capped)
        assert f"± {free}" in call.groups
        assert f"± {capped}" in call.groups
        unused = f"max_groups_contributed = {cap} is not used"
        assert (unused in call.groups) is (call.mechanism == "k_norm")
        assert len(rows(owner, text)) == 4
        assert owner.receipts[-1].mechanism == call.mechanism
        assert (unused in owner.receipts[-1].accuracy) is (unused in call.groups)
        seen.add(call.mechanism == "k_norm")
    assert seen == {True, False}


def test_a_report_has_a_lower_bound_for_each_group(owner: dp_sql.Session) -> None:
    found = rows(owner, asked("epsilon := 0.5, beta := 0.01, report := true"))
    most = range_norm_quantile(4, Fraction(1, 2), Fraction(1, 100))
    for _, report in found:
        assert report["lower_bound"] == report["estimate"] - most
        assert (report["confidence"], report["contribution_bound"]) == (0.99, 1)
        assert report["epsilon"] == 0.5


@pytest.mark.parametrize(
    "text",
    [
        asked(SURE).replace("(user_id,", "(v.user_id,").replace("FROM visits", "FROM visits AS v"),
        asked(SURE).replace("FROM visits", "FROM (SELECT user_id, region FROM visits) AS v"),
        asked(SURE + ", mechanism := 'matching', max_groups_contributed := 3"),
        asked(SURE + ", contribution_bound := 1"),
    ],
)
def test_the_same_is_counted_however_it_is_written(owner: dp_sql.Session, text: str) -> None:
    assert dict(rows(owner, text)) == TRUE


@pytest.mark.one_in(4)
@pytest.mark.parametrize("item", ["region", "user_id + 1", "day", "CAST(user_id AS VARCHAR)"])
def test_other_items_need_a_cap_and_the_error_shows_a_statement(
    owner: dp_sql.Session, item: str
) -> None:
    text = asked(SURE).replace("(user_id,", f"({item},")
    with pytest.raises(dp_sql.QueryError, match="needs max_groups_contributed") as error:
        owner.sql(text)
    assert len(rows(owner, str(error.value.suggestion))) == 4


def test_groups_can_be_several_keys_and_expressions(owner: dp_sql.Session) -> None:
    text = (
        f"SELECT region, month(day) AS m, DP_COUNT_DISTINCT(user_id, {SURE}, "
        "privacy_unit := user_id, groups := (regions.name, [1, 2])) AS n FROM visits "
        "GROUP BY region, m HAVING n > 0 ORDER BY ALL"
    )
    expected = [("north", 1, 2), ("north", 2, 1), ("south", 1, 1), ("south", 2, 1), ("west", 2, 1)]
    assert rows(owner, text) == expected


def test_observed_groups_need_no_cap_either(owner: dp_sql.Session) -> None:
    text = asked(SURE).replace("regions.name", "observed")
    assert dict(rows(owner, text)) == {"mars": 1, "north": 3, "south": 2, "west": 1}
    (call,) = owner.explain(text).calls
    assert call.groups == "a limit on what a person adds to the counts takes the place of a cap"
    assert "after the release" in call.accuracy
    assert "a person adds at most 1 to each count (epsilon" in owner.receipts[-1].accuracy


def test_an_empty_set_of_groups_is_refused(owner: dp_sql.Session) -> None:
    owner.execute("CREATE OR REPLACE TABLE nothing AS SELECT 'x' AS name WHERE false")
    with pytest.raises(dp_sql.QueryError, match=r"The groups nothing\.name have no value"):
        owner.sql(asked(SURE).replace("regions.name", "nothing.name"))


# Privacy: exactly what is added to, through SQL.


def released(
    session: dp_sql.Session, text: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[Any, Any]:
    """What the answer is without noise, and which vectors of noise it takes."""
    taken = []

    def noise(k: int, rate: Fraction, draws: object) -> list[int]:
        taken.append((k, rate))
        return [0] * k

    with monkeypatch.context() as patch:
        patch.setattr(k_norm, "range_norm_noise", noise)
        return rows(session, text), taken


def moved(
    monkeypatch: pytest.MonkeyPatch, text: str, rate: Fraction = Fraction(1), more: str = ""
) -> list[list[int]]:
    """By how much each person moves each count, which takes one vector of noise at the rate."""
    with dp_sql.connect() as session:
        session.execute(PEOPLE + more)
        text = f"{text} ORDER BY region"
        whole, taken = released(session, text, monkeypatch)
        assert taken == [(4, rate)]
        found = []
        for person in range(1, 6):
            session.execute("BEGIN")
            session.execute(f"DELETE FROM visits WHERE user_id = {person}")
            without, again = released(session, text, monkeypatch)
            session.execute("ROLLBACK")
            assert taken == again, "nothing but the counts depends on a person"
            found.append([a - b for (_, a), (_, b) in zip(whole, without, strict=True)])
    return found


def test_each_neighbour_moves_the_counts_by_zero_or_one(monkeypatch: pytest.MonkeyPatch) -> None:
    found = moved(monkeypatch, asked())
    assert [0, 1, 1, 1] in found
    assert all(set(vector) <= {0, 1} for vector in found)


@pytest.mark.usefixtures("by_sql")
def test_a_person_who_enters_a_group_twice_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = "CAST(system.main.sum(__dp_contribution) AS BIGINT)"
    monkeypatch.setattr(vectors.PeopleOfGroups, "summary", lambda _, rows: rows.total(wrong))
    assert any(2 in vector for vector in moved(monkeypatch, asked()))


# Rows, with one bound for all groups.


def counted(more: str) -> str:
    return asked(more).replace("DP_COUNT_DISTINCT(user_id", "DP_COUNT(*")


@pytest.mark.parametrize(("bound", "north"), [(1, 3), (2, 4), (7, 4)])
def test_rows_count_up_to_a_bound_in_each_group(
    owner: dp_sql.Session, bound: int, north: int
) -> None:
    found = rows(owner, counted(f"{SURE}, contribution_bound := {bound}"))
    assert dict(found) == TRUE | {"north": north}
    (call,) = owner.explain(counted(f"epsilon := 1, contribution_bound := {bound}")).calls
    assert (call.mechanism, call.loss) == ("k_norm", PrivacyLoss(Fraction(1)))
    assert call.all_within == k_norm.within(4, Fraction(1), bound, Fraction(1, 20))
    assert f"a person's rows beyond {bound} in a group are not counted" in call.accuracy


def test_a_person_moves_all_rows_in_one_direction_and_each_group_by_at_most_the_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moves = moved(
        monkeypatch, counted("epsilon := 1.0, contribution_bound := 3"), Fraction(1, 3),
        "; INSERT INTO visits SELECT 2, 'south', NULL FROM range(9)",
    )  # fmt: skip
    assert all(0 <= move <= 3 for vector in moves for move in vector)
    assert [0, 1, 3, 0] in moves


def test_one_limit_on_rows_is_chosen_for_all_groups(owner: dp_sql.Session) -> None:
    (call,) = owner.explain(counted("epsilon := 1")).calls
    assert (call.mechanism, call.loss.rho) == ("chosen_norm", Fraction(109, 512))
    assert "if a person adds at most 1 to each count, or within ±" in call.accuracy
    found = rows(owner, counted(f"{SURE}, report := true"))
    (bound,) = {report["contribution_bound"] for _, report in found}
    assert f"adds at most {bound} to" in owner.receipts[-1].accuracy
    if bound > 2 or (bound == 2 and "each count" in owner.receipts[-1].accuracy):
        assert {region: report["estimate"] for region, report in found} == TRUE | {"north": 4}
    (capped,) = owner.explain(counted("epsilon := 1, max_groups_contributed := 2")).calls
    assert capped.mechanism == "bounded_count", "a cap that is written stays"


@pytest.mark.parametrize(("epsilon", "groups"), [("5.9", 1), ("9.6", 10), ("1", 4)])
def test_a_part_of_a_row_that_is_rounded_is_within_the_bound(epsilon: str, groups: int) -> None:
    loss, beta = Fraction(epsilon), Fraction(1, 20)
    limit = chosen_norm.Limit(1, is_of_all=True, weight=3)
    share = chosen_norm.noise_share(loss, 1, 0, Fraction(3, 8), False)
    parts = limit.within(groups, share, beta) * 1024 - 511  # of 1/1024: noise that may go beyond
    q = math.exp(-share / 1024)
    assert 2 * q**parts / (1 + q) * groups <= beta


@pytest.mark.parametrize(
    ("call", "groups", "rho"),
    [
        ("DP_COUNT(*", "range(20)", Fraction(109, 512)), ("DP_COUNT(*", "range(48)", Fraction(13, 40)),
        ("DP_COUNT_DISTINCT(user_id", "range(48)", Fraction(13, 40)),
        ("DP_COUNT(*", "observed", Fraction(37, 128)),
        ("DP_COUNT_DISTINCT(user_id", "observed", Fraction(1, 2)),
    ],
)  # fmt: skip
def test_less_of_epsilon_chooses_the_limit_where_groups_are_many(
    owner: dp_sql.Session, call: str, groups: str, rho: Fraction
) -> None:
    text = f"{call}, epsilon := 1, privacy_unit := user_id, groups := {groups})"
    (one,) = owner.explain(f"SELECT user_id % 60, {text} FROM visits GROUP BY 1").calls
    assert (one.mechanism, one.loss.rho) == ("chosen_norm", rho)


BOUND = "DP_COUNT(*, contribution_bound := 3"
UNUSED = "DP_COUNT_DISTINCT(user_id, max_groups_contributed := 300"


@pytest.mark.parametrize(
    ("call", "n", "rho"),
    [
        (BOUND, 349, None), (BOUND, 350, Fraction(157, 360)),
        (f"{BOUND}, max_groups_contributed := 300", 350, Fraction(157, 360)),
        (UNUSED, 349, None), (UNUSED, 350, Fraction(157, 360)),
    ],
)  # fmt: skip
def test_in_very_many_groups_a_limit_is_chosen_by_its_error_where_a_bound_is_stated(
    owner: dp_sql.Session, call: str, n: int, rho: Fraction | None
) -> None:
    text = f"{call}, epsilon := 1, privacy_unit := user_id, groups := range({n}))"
    query = f"SELECT user_id % 60 AS g, {text} AS n FROM visits GROUP BY 1"
    (one,) = owner.explain(query).calls
    chosen = "k_norm" if rho is None else "chosen_norm"
    assert (one.mechanism, one.loss.rho) == (chosen, rho or Fraction(1, 2))
    assert ("is not used" in one.groups) is ("max_groups" in call)
    assert ("rows beyond 3 in a group" in one.accuracy) is ("bound" in call)
    assert ("; the first limit, or one on all counts together, with" in one.accuracy) is bool(rho)
    assert len(rows(owner, query)) == n
    assert owner.receipts[-1].mechanism == chosen
    assert ("rows beyond 3 in a group" in owner.receipts[-1].accuracy) is ("bound" in call)


def test_rows_beyond_a_stated_bound_are_left_out_of_many_groups() -> None:
    with dp_sql.connect() as session:
        session.execute("CREATE TABLE seen AS SELECT i // 9 AS user_id, i // 9 % 400 AS day "
                        "FROM range(36000) AS r(i)")  # fmt: skip
        text = (
            "SELECT day, DP_COUNT(*, epsilon := 10000, privacy_unit := user_id, groups := range(400), "
            "contribution_bound := 3, report := true) AS n FROM seen GROUP BY day"
        )
        found = [report for _, report in rows(session, text)]
        assert {one["estimate"] for one in found} == {30}
        assert min(one["contribution_bound"] for one in found) >= 3


def test_the_accuracy_of_one_group_is_that_of_its_count(owner: dp_sql.Session) -> None:
    call = "DP_COUNT(*, epsilon := 1, privacy_unit := user_id, groups := [1])"
    query = f"SELECT user_id % 60, {call} FROM visits GROUP BY 1"
    (one,) = owner.explain(query).calls
    assert " the count is within ± 5 of that without noise if a person adds" in (one.accuracy or "")


def test_many_groups_of_which_each_person_is_in_few_have_little_noise() -> None:
    with dp_sql.connect() as session:
        session.execute(
            "CREATE TABLE seen AS SELECT i % 3000 AS user_id, (i * 7 + i // 3000) % 400 AS day "
            "FROM range(12000) AS r(i)"
        )
        text = (
            "SELECT day, DP_COUNT(*, epsilon := 1, privacy_unit := user_id, groups := range(400), "
            "report := true) AS n FROM seen GROUP BY day"
        )
        assert len(rows(session, text)) == 400
        assert "to all counts together" in session.receipts[-1].accuracy


@pytest.mark.parametrize("groups", ["groups := range(400)", "groups := observed"])
def test_many_groups_of_which_each_person_is_in_few_have_little_noise_for_people(
    groups: str,
) -> None:
    with dp_sql.connect() as session:
        session.execute(
            "CREATE TABLE seen AS SELECT i % 3000 AS user_id, i * 7 % 400 AS day "
            "FROM range(9000) AS r(i)"
        )
        call = f"DP_COUNT_DISTINCT(user_id, epsilon := 9, privacy_unit := user_id, {groups})"
        text = f"SELECT day, {call} AS n FROM seen GROUP BY day"
        assert len(found := rows(session, text)) == 400
        assert "a person adds at most 2 to all counts" in session.receipts[-1].accuracy
        true = dict(
            session.execute("SELECT day, count(DISTINCT user_id) FROM seen GROUP BY day").fetchall()
        )
        assert max(abs(n - true[day]) for day, n in found) < 20
        report = text.replace(groups, f"{groups}, report := true")
        assert {r["contribution_bound"] for _, r in rows(session, report)} <= {1, 2, 4, 8}


def test_people_are_listed_by_their_rows_in_a_group_and_in_all(
    owner: dp_sql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []
    real = chosen_norm.CHOSEN_NORM

    def run(*tables: Any, **public: Any) -> Any:
        given.extend(tables)
        return real.run(*tables, **public)

    monkeypatch.setattr(chosen_norm, "CHOSEN_NORM", replace(real, run=run))
    rows(owner, counted(SURE))

    def listed(columns: Any) -> list[tuple[int, int, int]]:
        return sorted(zip(*columns, strict=True))

    groups, most, by_totals, totals = given
    assert [listed(one) for one in groups] == [  # east, north, south, west: bucket, people, rows
        [], [(0, 2, 2), (1, 1, 2)], [(0, 2, 2)], [(0, 1, 1)],
    ]  # fmt: skip
    assert added_up(listed(most)) == {0: (2, 2), 1: (1, 2)}
    assert added_up(listed(totals)) == {0: (1, 1), 1: (1, 2), 2: (1, 4)}
    assert [sum(total for *_, total in listed(one)) for one in by_totals] == [0, 4, 2, 1]


def added_up(entries: list[tuple[int, int, int]]) -> dict[int, tuple[int, int]]:
    """The people and the sum of each bucket."""
    return {
        at: (sum(n for b, n, _ in entries if b == at), sum(s for b, _, s in entries if b == at))
        for at in {bucket for bucket, *_ in entries}
    }


def test_people_and_rows_of_one_select_share_their_source(owner: dp_sql.Session) -> None:
    text = asked(SURE).replace(
        " FROM",
        f", DP_COUNT(*, {SURE}, contribution_bound := 5, privacy_unit := user_id) AS n, "
        f"DP_COUNT(*, {SURE}, max_groups_contributed := 1, privacy_unit := user_id) AS m FROM",
    )
    found = rows(owner, text)
    assert {region: (people, n) for region, people, n, _ in found} == {
        "north": (3, 4), "south": (2, 2), "west": (1, 1), "east": (0, 0),
    }  # fmt: skip
    assert 3 <= sum(m for *_, m in found) <= 4  # of each person one group


# Under a policy, and in each way of asking.


def test_under_a_policy_it_needs_nothing_but_epsilon(tmp_path: Path) -> None:
    with analyst(tmp_path) as session:
        text = asked("epsilon := 10.0", unit="")
        found = rows(session, text)
        assert found == rows(session, text), "kept"
        assert len(session.receipts) == 1
        assert {region for region, _ in found} == TRUE.keys()
        spent = session.budget()[0]
        assert (spent.epsilon_left, len(session.releases)) == (10, 1)
        with pytest.raises(dp_sql.QueryError, match="needs max_groups_contributed"):
            session.sql(text.replace("(user_id", "(day"))


def test_a_cap_stays_where_rho_is_charged(tmp_path: Path) -> None:
    capped = asked("epsilon := 1.0, max_groups_contributed := 4", unit="")
    with analyst(tmp_path, "zcdp") as session:
        (call,) = session.explain(capped).calls
        assert call.loss.rho is not None
        assert call.loss.rho < Fraction(1, 2)
        (call,) = session.explain(asked(unit="")).calls
        assert call.loss.rho == Fraction(1, 2)


def test_plain_sql_dp_and_dbapi_answer_the_same() -> None:
    connection = duckdb.connect()
    dp_sql.install(connection)
    connection.execute(PEOPLE)
    assert dict(connection.sql(f"FROM dp($${asked(SURE)}$$)").fetchall()) == TRUE
    with dbapi.connect() as opened:
        cursor = opened.cursor()
        cursor.execute(PEOPLE)
        cursor.execute(asked(SURE))
        assert dict(cursor.fetchall()) == TRUE
