"""Groups that the mechanism finds: those of enough people, in the order of their keys."""

import re
from dataclasses import replace
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dp_sql
from dp_sql.engines.duckdb import frozen
from dp_sql.privacy.plans import groups
from dp_sql.privacy.private_sql import people_rows
from dp_sql.udfs.groups import chosen_selection
from dp_sql.udfs.mechanism import PrivacyLoss
from tests.conftest import SURE
from tests.databases import owner_of, write_database
from tests.session.visits import POLICY, rows

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


towns = owner_of(TOWNS)


def test_groups_of_enough_people_are_found_in_the_order_of_their_keys(
    towns: dp_sql.Session,
) -> None:
    assert rows(towns, unknown("epsilon := 100")) == [("big", 300), ("many", 400)]
    rows(towns, unknown())
    receipt = towns.receipts[-1]
    found = chosen_selection.loss(Fraction(3, 5), Fraction(1, 10**6), 30)
    assert receipt.loss == found + PrivacyLoss(Fraction(2, 5))
    assert (receipt.loss.epsilon, receipt.loss.delta) == (1, Fraction(1, 10**6))
    assert (
        "a group is found if it has 59 people who are in no other, or 102 who are in up to"
        in receipt.accuracy
    )
    assert "all 2 counts are within ±" in receipt.accuracy
    (call,) = towns.explain(unknown()).calls
    assert call.loss == receipt.loss
    assert call.groups.startswith(
        "unknown: with probability 95 %, a group is found if it has 59 people"
    )
    assert call.groups.endswith(
        "a limit on what a person adds to the counts takes the place of a cap"
    )
    (price,) = re.findall(r"cost +(.+)", str(towns.explain(unknown())))
    assert price == "epsilon = 1, delta = 1e-6 (0.4 for all groups together)"


@pytest.mark.parametrize("cap", [1, 2, 3])
def test_with_a_cap_people_count_in_so_many_of_those_found(towns: dp_sql.Session, cap: int) -> None:
    found = rows(towns, unknown(f"{SURE}, max_groups_contributed := {cap}"))
    assert [town for town, _ in found] == ["big", "many"]
    assert sum(n for _, n in found) == (400 if cap == 1 else 700)


def test_other_answers_count_a_person_in_one_of_those_found(towns: dp_sql.Session) -> None:
    text = unknown(SURE).replace("(user_id", "(kind")
    assert rows(towns, text) == [("big", 1), ("many", 3)]
    assert "of which a person counts in at most 1" in towns.receipts[-1].accuracy


@pytest.mark.parametrize("kind", ["VARCHAR", "HUGEINT", "UBIGINT", "TIMESTAMP"])
def test_people_of_any_type_are_in_the_groups_found(kind: str) -> None:
    """Where they are no small integers, they are numbered twice: to find groups, and for pairs."""
    person = (
        "TIMESTAMP '2020-01-01' + to_days(user_id::INTEGER)" if kind == "TIMESTAMP" else "user_id"
    )
    with dp_sql.connect() as session:
        session.execute(TOWNS)
        session.execute(
            f"CREATE TABLE typed AS SELECT * REPLACE (({person})::{kind} AS user_id) FROM towns"
        )
        text = unknown(SURE).replace("FROM towns", "FROM typed")
        assert rows(session, text) == [("big", 300), ("many", 400)]
        assert rows(session, text.replace("(user_id", "(kind")) == [("big", 1), ("many", 3)]


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


def test_a_key_may_hold_another(towns: dp_sql.Session) -> None:
    text = unknown("epsilon := 100").replace("town", "upper(trim(town)), trim(town)", 1)
    text = text.replace("BY town", "BY trim(town), upper(trim(town))")
    assert rows(towns, text) == [("BIG", "big", 300), ("MANY", "many", 400)]


@pytest.mark.parametrize("text", ["WHERE town = 'lonely'", "WHERE false"])
def test_where_none_is_found_there_is_no_row(towns: dp_sql.Session, text: str) -> None:
    before = len(towns.receipts)
    assert rows(towns, unknown(SURE).replace("FROM towns", f"FROM towns {text}")) == []
    assert len(towns.receipts) == before + 1


_ASKED = count()


def seen_by_the_mechanism(
    session: dp_sql.Session, monkeypatch: pytest.MonkeyPatch, places: list[int]
) -> tuple[Any, Any]:
    """The people of each group that may be found, and what is released if these are."""
    given = []

    def run(items: Any, people: Any, **public: Any) -> list[int]:
        given.append([people[items == item].tolist() for item in range(items.max() + 1)])
        return places

    mechanism = replace(chosen_selection.CHOSEN_SELECTION, run=run)
    with monkeypatch.context() as patch:
        patch.setattr(groups, "REGISTRY", {"groups": {"chosen_selection": mechanism}})
        # Not a text that is remembered: its plan has another mechanism.
        found = rows(session, f"{unknown(SURE)} ORDER BY ALL -- {next(_ASKED)}")
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
    right = people_rows.PeopleRows.groups

    def wrong(self: Any) -> list[str]:
        among_found = r"system\.main\.row_number\(\).* (AS __dp_group FROM __dp_found)"
        *found, groups = right(self)
        all_keys = (
            sql.replace("(SELECT __dp_key_0 FROM", "(SELECT __dp_key_0, seen FROM") for sql in found
        )
        return [*all_keys, re.sub(among_found, r"seen \1", groups)]

    monkeypatch.setattr(people_rows.PeopleRows, "groups", wrong)
    with pytest.raises(
        (AssertionError, dp_sql.DpSqlError)
    ):  # numbers that no group has are refused
        test_found_groups_are_numbered_among_themselves(monkeypatch)


REFUSED = {
    "finds the groups of a GROUP BY": "SELECT DP_COUNT_DISTINCT(user_id, epsilon := 1, "
    "privacy_unit := user_id, delta := 1e-6) FROM towns",
    "groups already lists them": unknown("epsilon := 1, groups := ['big']"),
    "so there is one delta": unknown().replace(
        "FROM",
        ", DP_COUNT_DISTINCT(kind, epsilon := 1, delta := 1e-7, privacy_unit := user_id) FROM",
    ),
    "must have one privacy_unit": unknown().replace(
        "FROM", ", DP_COUNT(*, epsilon := 1, privacy_unit := kind) FROM"
    ),
    "needs a SELECT of its own": "FROM dp($$"
    + unknown().replace("FROM", ", DP_COUNT(*, epsilon := 1, privacy_unit := user_id) FROM")
    + "$$)",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_found_is_refused(towns: dp_sql.Session, words: str) -> None:
    kinds = (dp_sql.QueryError, duckdb.InvalidInputException)  # a macro's refusal is DuckDB's
    with pytest.raises(kinds, match=words) as error:
        towns.sql(REFUSED[words]).fetchall()
    if isinstance(error.value, dp_sql.QueryError) and error.value.suggestion:
        towns.sql(error.value.suggestion).fetchall()


UNDER_ZCDP = POLICY.replace("visits", "towns").replace('public.tables = ["regions"]', "").replace(
    'domains."towns.region" = "regions.name"', "limits.max_delta_per_query = 1e-5"
)  # fmt: skip


def of_towns(folder: Path, more: str) -> dp_sql.Session:
    policy = UNDER_ZCDP.format(folder=folder, more=f"{more}\ndelta = 1e-4", delta="delta = 1e-4")
    (folder / "policy.toml").write_text(policy, "utf-8")
    database = folder / "towns.duckdb"
    if not database.exists():
        write_database(database, TOWNS)
    return dp_sql.connect(str(database), policy=str(folder / "policy.toml"), analyst="ann")


def test_under_a_policy_groups_are_found_and_kept(tmp_path: Path) -> None:
    text = unknown("epsilon := 10", unit="").replace("1e-6", "1e-8")
    with of_towns(tmp_path, "") as session:
        found = rows(session, text)
        assert [town for town, _ in found] == ["big", "many"]
        assert rows(session, text) == found
        assert len(session.receipts) == 1
        rows(session, text.replace("1e-8", "2e-8"))
        assert len(session.receipts) == 2, "another delta is another question"
        with pytest.raises(dp_sql.QueryError, match="delta is more than the policy allows"):
            session.sql(text.replace("1e-8", "1e-4"))
        with pytest.raises(dp_sql.QueryError, match=r"needs groups .* and max_groups|needs groups"):
            session.sql(text.replace(", delta := 1e-8", ""))
        with pytest.raises(dp_sql.QueryError, match="for town; delta finds items here, not groups"):
            session.sql(
                "SELECT town, DP_TOPK(kind, 1, epsilon := 1, delta := 1e-8) FROM towns GROUP BY town"
            )


def test_a_delta_is_proposed_where_the_policy_allows_one(tmp_path: Path) -> None:
    asked = {
        "SELECT town, DP_COUNT(*, epsilon := 1) FROM towns GROUP BY town": "epsilon := 1, delta := 1e-9)",
        "SELECT town, count(*) FROM towns GROUP BY 1": "epsilon := 1, delta := 1e-9)",
        "SELECT town, DP_SUM(kind, epsilon := 1) FROM towns GROUP BY town": "delta := 1e-9, max_groups_contributed := 1)",
        "SELECT DP_TOPK(town, 2, epsilon := 1) FROM towns": "epsilon := 1, delta := 1e-9)",
        "SELECT town, DP_TOPK(kind, 1, epsilon := 1) FROM towns GROUP BY 1": "epsilon := 1, delta := 1e-9, groups := ['value 1'], ",
    }  # fmt: skip
    with of_towns(tmp_path, "") as session:
        for text, proposed in asked.items():
            with pytest.raises(
                dp_sql.QueryError, match=r"Example values to replace: .*delta \("
            ) as found:
                session.sql(text)
            assert proposed in str(found.value.suggestion)
            rows(session, str(found.value.suggestion))
    policy = tmp_path / "policy.toml"
    without = policy.read_text().replace("delta = 1e-4", "delta = 0")
    policy.write_text(without.replace("ledger.sqlite", "other.sqlite"))
    with dp_sql.connect(tmp_path / "towns.duckdb", policy=policy, analyst="ann") as session:
        with pytest.raises(dp_sql.QueryError) as found:
            session.sql(next(iter(asked)))
        assert "groups := ['value 1']" in str(found.value.suggestion)  # no delta is left


@pytest.mark.one_in(3)
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
