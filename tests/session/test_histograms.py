"""Counts of groups without a cap on groups per person: through SQL, for owners and under a policy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dp_sql
from dp_sql.engines.duckdb import frozen
from dp_sql.integrations import dbapi
from dp_sql.privacy import groups, people_rows
from dp_sql.sql.functions import bounded
from dp_sql.udfs.groups import partition_selection
from dp_sql.udfs.histogram import k_norm
from dp_sql.udfs.mechanism import PrivacyLoss
from dp_sql.udfs.range_norm import range_norm_quantile
from tests.conftest import SURE
from tests.databases import write_database

PEOPLE = """
CREATE TABLE visits AS SELECT * FROM (VALUES
    (1, 'north', DATE '2026-01-03'), (1, 'north', '2026-01-03'), (1, 'south', '2026-02-11'),
    (1, 'west', '2026-02-12'), (2, 'north', '2026-01-09'), (2, 'south', '2026-01-09'),
    (3, 'north', '2026-02-01'), (3, NULL, '2026-02-01'), (4, 'mars', '2026-02-02'),
    (NULL, 'south', '2026-01-01'), (5, NULL, NULL)) AS t(user_id, region, day);
CREATE TABLE regions AS SELECT unnest(['north', 'south', 'west', 'east']) AS name;
"""
TRUE = {"north": 3, "south": 2, "west": 1, "east": 0}
POLICY = """
[tables.visits]
privacy_unit = "user_id"
[public]
tables = ["regions"]
[domains]
"visits.region" = "regions.name"
[budget]
dataset = "visits"
epsilon = 20
{more}
ledger = "{folder}/ledger.sqlite"
keep_releases = true
[budget.analysts.ann]
epsilon = 20
{delta}
"""


def rows(session: Any, text: str) -> list[Any]:
    return session.sql(text).fetchall()  # type: ignore[no-any-return]


def asked(
    more: str = "epsilon := 1.0", unit: str = ", privacy_unit := user_id", end: str = ""
) -> str:
    groups = ", groups := regions.name" if unit else ""
    return (
        f"SELECT region, DP_COUNT_DISTINCT(user_id, {more}{unit}{groups}) AS people FROM visits "
        f"GROUP BY region{end}"
    )


@pytest.fixture(scope="module")
def owner() -> Iterator[dp_sql.OwnerSession]:
    with dp_sql.connect() as session:
        session.execute(PEOPLE)
        yield session


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
        assert len(rows(owner, text)) == 4
        assert owner.receipts[-1].mechanism == call.mechanism
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
    assert call.groups == "a person counts in all of their groups"
    assert "after the release" in call.accuracy


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


def test_a_person_who_enters_a_group_twice_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = "CAST(system.main.sum(__dp_contribution) AS BIGINT)"
    monkeypatch.setattr(bounded.PeopleOfGroups, "summary", lambda _, rows: rows.total(wrong))
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


def test_rows_whose_bound_is_chosen_need_a_cap(owner: dp_sql.Session) -> None:
    with pytest.raises(dp_sql.QueryError, match="needs max_groups_contributed") as error:
        owner.sql(counted("epsilon := 1"))
    assert len(rows(owner, str(error.value.suggestion))) == 4


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


# Unknown groups.

TOWNS = """
CREATE TABLE towns AS
    SELECT i AS user_id, 'many' AS town, i % 3 AS kind FROM range(400) t(i)
    UNION ALL SELECT i, 'big', 0 FROM range(300) t(i) UNION ALL SELECT 7, 'lonely', 0
    UNION ALL SELECT 8, NULL, 0 UNION ALL SELECT 9, 'a' || i, 0 FROM range(50) t(i);
"""


def unknown(
    more: str = "epsilon := 1.0", end: str = "", unit: str = ", privacy_unit := user_id"
) -> str:
    call = f"DP_COUNT_DISTINCT(user_id, {more}, delta := 1e-6{unit})"
    return f"SELECT town, {call} AS people FROM towns GROUP BY town{end}"


@pytest.fixture(scope="module")
def towns() -> Iterator[dp_sql.OwnerSession]:
    with dp_sql.connect() as session:
        session.execute(TOWNS)
        yield session


def test_groups_of_enough_people_are_found_in_the_order_of_their_keys(
    towns: dp_sql.Session,
) -> None:
    assert rows(towns, unknown("epsilon := 100")) == [("big", 300), ("many", 400)]
    rows(towns, unknown())
    receipt = towns.receipts[-1]
    found = partition_selection.loss(Fraction(1, 2), Fraction(1, 10**6), 10)
    assert receipt.loss == found + PrivacyLoss(Fraction(1, 2))
    assert (receipt.loss.epsilon, receipt.loss.delta) == (1, Fraction(1, 10**6))
    assert "a group is found if 64 people are in no other, or 199 are in up to" in receipt.accuracy
    assert "all 2 counts are within ±" in receipt.accuracy
    (call,) = towns.explain(unknown()).calls
    assert call.loss == receipt.loss
    assert call.groups.startswith("unknown: with probability 95 %, a group is found if 64 people")
    assert call.groups.endswith("a person counts in all groups found")


@pytest.mark.parametrize("cap", [1, 2, 3])
def test_with_a_cap_people_count_in_so_many_of_those_found(towns: dp_sql.Session, cap: int) -> None:
    found = rows(towns, unknown(f"{SURE}, max_groups_contributed := {cap}"))
    assert [town for town, _ in found] == ["big", "many"]
    assert sum(n for _, n in found) == (400 if cap == 1 else 700)


def test_other_answers_count_a_person_in_one_of_those_found(towns: dp_sql.Session) -> None:
    text = unknown(SURE).replace("(user_id", "(kind")
    assert rows(towns, text) == [("big", 1), ("many", 3)]
    assert "of which a person counts in at most 1" in towns.receipts[-1].accuracy


@pytest.mark.parametrize("call", ["DP_COUNT(*", "DP_AVG(kind"])
def test_every_function_answers_the_groups_found(towns: dp_sql.Session, call: str) -> None:
    found = rows(towns, unknown(SURE).replace("DP_COUNT_DISTINCT(user_id", call))
    assert [town for town, _ in found] == ["big", "many"]
    assert towns.receipts[-1].loss.epsilon == 10_000
    assert towns.receipts[-1].loss.delta == Fraction(1, 10**6)


def test_several_keys_and_expressions(towns: dp_sql.Session) -> None:
    text = unknown(SURE).replace("SELECT town", "SELECT upper(town) AS t, kind")
    found = rows(towns, text.replace("BY town", "BY t, kind") + " HAVING people > 100")
    assert found == [("BIG", 0, 300), ("MANY", 0, 134), ("MANY", 1, 133), ("MANY", 2, 133)]


@pytest.mark.parametrize("text", ["WHERE town = 'lonely'", "WHERE false"])
def test_where_none_is_found_there_is_no_row(towns: dp_sql.Session, text: str) -> None:
    before = len(towns.receipts)
    assert rows(towns, unknown().replace("FROM towns", f"FROM towns {text}")) == []
    assert len(towns.receipts) == before + 1


def seen_by_the_mechanism(
    session: dp_sql.Session, monkeypatch: pytest.MonkeyPatch, places: list[int]
) -> tuple[Any, Any]:
    """The people of each group that may be found, and what is released if these are."""
    given = []

    def run(offsets: Any, people: Any, **public: Any) -> list[int]:
        given.append([people[a:b].tolist() for a, b in pairwise(offsets.tolist())])
        return places

    mechanism = replace(partition_selection.PARTITION_SELECTION, run=run)
    with monkeypatch.context() as patch:
        patch.setattr(groups, "REGISTRY", {"groups": {"partition_selection": mechanism}})
        found = rows(session, f"{unknown(SURE)} ORDER BY ALL")
    return given[0], found


def test_a_person_is_in_the_lists_of_their_groups_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with dp_sql.connect() as session:
        session.execute(TOWNS)
        for person, own in [(399, 1), (5, 2), (7, 3), (9, 52)]:
            session.execute("BEGIN")
            before, _ = seen_by_the_mechanism(session, monkeypatch, [])
            session.execute(f"DELETE FROM towns WHERE user_id = {person}")
            after, _ = seen_by_the_mechanism(session, monkeypatch, [])
            session.execute("ROLLBACK")
            assert sum(map(len, before)) - sum(map(len, after)) == own
            assert all(len(set(one)) == len(one) for one in before)


def released_numbers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A release as it leaves the private SQL: the number of each group, its key and its answer."""
    relations = []
    right = frozen.FrozenAnswers.insert

    def insert(self: Any, *given: Any) -> str:
        relations.append(right(self, *given))
        return relations[-1]

    with dp_sql.connect() as session:
        session.execute(TOWNS)
        with monkeypatch.context() as patch:
            patch.setattr(frozen.FrozenAnswers, "insert", insert)
            seen_by_the_mechanism(session, monkeypatch, [50, 51])
        return session.execute(f"FROM {relations[0]} ORDER BY 1").fetchall()


def test_found_groups_are_numbered_among_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    assert released_numbers(monkeypatch) == [(1, "big", 300), (2, "lonely", 1)]


def test_a_number_among_all_groups_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    right = people_rows.PeopleRows._groups

    def wrong(self: Any) -> list[str]:
        among_found = r"system\.main\.row_number\(\).* (AS __dp_group FROM __dp_found)"
        *found, groups = right(self)
        all_keys = (
            sql.replace("(SELECT __dp_key_0 FROM", "(SELECT __dp_key_0, seen FROM") for sql in found
        )
        return [*all_keys, re.sub(among_found, r"seen \1", groups)]

    monkeypatch.setattr(people_rows.PeopleRows, "_groups", wrong)
    with pytest.raises(AssertionError):
        test_found_groups_are_numbered_among_themselves(monkeypatch)


REFUSED = {
    "finds the groups of a GROUP BY": "SELECT DP_COUNT_DISTINCT(user_id, epsilon := 1, "
    "privacy_unit := user_id, delta := 1e-6) FROM towns",
    "groups already lists them": unknown("epsilon := 1, groups := ['big']"),
    "only one such call": unknown().replace(
        "FROM",
        ", DP_COUNT_DISTINCT(kind, epsilon := 1, delta := 1e-6, privacy_unit := user_id) FROM",
    ),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_found_is_refused(towns: dp_sql.Session, words: str) -> None:
    with pytest.raises(dp_sql.QueryError, match=words) as error:
        towns.sql(REFUSED[words])
    if error.value.suggestion:
        towns.sql(error.value.suggestion).fetchall()


def test_a_count_without_a_cap_is_pointed_to_the_bound_that_needs_none(
    towns: dp_sql.Session,
) -> None:
    call = "DP_COUNT(*, epsilon := 1, privacy_unit := user_id, groups := ['big']{})"
    text = f"SELECT town, {call} AS n FROM towns GROUP BY town"
    with pytest.raises(dp_sql.QueryError, match="contribution_bound := <number>"):
        towns.sql(text.format(""))
    assert len(towns.sql(text.format(", contribution_bound := 3")).fetchall()) == 1


UNDER_ZCDP = POLICY.replace("visits", "towns").replace('tables = ["regions"]', "").replace(
    '[domains]\n"towns.region" = "regions.name"', "[limits]\nmax_delta_per_query = 1e-5"
)  # fmt: skip


def of_towns(folder: Path, more: str) -> dp_sql.Session:
    policy = UNDER_ZCDP.format(folder=folder, more=f"{more}\ndelta = 1e-4", delta="delta = 1e-4")
    (folder / "policy.toml").write_text(policy, "utf-8")
    database = folder / "towns.duckdb"
    if not database.exists():
        write_database(database, TOWNS)
    return dp_sql.connect(str(database), policy=str(folder / "policy.toml"), analyst="ann")


def test_under_a_policy_groups_are_found_and_kept(tmp_path: Path) -> None:
    text = unknown("epsilon := 10", unit="")
    with of_towns(tmp_path, "") as session:
        found = rows(session, text)
        assert [town for town, _ in found] == ["big", "many"]
        assert rows(session, text) == found
        assert len(session.receipts) == 1
        rows(session, text.replace("1e-6", "2e-6"))
        assert len(session.receipts) == 2, "another delta is another question"
        with pytest.raises(dp_sql.QueryError, match="delta is more than the policy allows"):
            session.sql(text.replace("1e-6", "1e-4"))
        with pytest.raises(dp_sql.QueryError, match=r"needs groups .* and max_groups|needs groups"):
            session.sql(text.replace(", delta := 1e-6", ""))


@pytest.mark.parametrize("share", ["", "discovery_share = 0.1"])
@pytest.mark.parametrize("named", ['"zcdp"', '"pld"\nrelease_epsilon = 2'])
def test_an_accountant_admits_it_where_it_keeps_a_part_of_delta(
    tmp_path: Path, named: str, share: str
) -> None:
    if "pld" in named:
        pytest.importorskip("dp_accounting")
    with of_towns(tmp_path, f"accountant = {named}\n{share}") as session:
        text = unknown("epsilon := 1", unit="")
        if share:
            assert session.explain(text).fits
            session.sql(text).fetchall()
        else:
            with pytest.raises(dp_sql.QueryError, match="discovery_share"):
                session.sql(text)


def test_two_readings_of_one_execution_see_the_same_groups() -> None:
    connection = duckdb.connect()
    dp_sql.install(connection)
    connection.execute(TOWNS.replace("range(300)", "range(60)"))
    connection.execute(f"CREATE VIEW found AS FROM dp($${unknown()}$$)")
    for _ in range(3):
        ((first, second),) = connection.sql(
            "SELECT (SELECT list(f ORDER BY f) FROM found AS f), (SELECT list(f ORDER BY f) FROM found AS f)"
        ).fetchall()
        assert first == second
