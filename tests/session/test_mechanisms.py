"""Every mechanism is one line away in SQL, and gets from DuckDB what its proof asks for."""

from fractions import Fraction

import pytest

import dp_sql
from dp_sql.engines.duckdb import mechanism_udfs as duckdb_udfs
from dp_sql.udfs import REGISTRY
from dp_sql.udfs.count_distinct import bounded
from dp_sql.udfs.count_distinct.bounded import BOUND_SELECTIONS
from tests.conftest import SURE

WITHOUT_DOMAIN = [n for n, udf in REGISTRY["topk"].items() if udf.finds_items]
WITH_DOMAIN = [n for n, udf in REGISTRY["topk"].items() if not udf.finds_items]
BOUNDED = [n for n, udf in REGISTRY["count_distinct"].items() if "bound" in udf.parameters]


def answer(session: dp_sql.Session, call: str, source: str = "ratings") -> object:
    relation = session.sql(f"SELECT {call} FROM {source}")
    assert relation is not None
    ((found,),) = relation.fetchall()
    return found


@pytest.mark.parametrize("mechanism", WITH_DOMAIN)
def test_a_list_from_a_public_domain(shared: dp_sql.Session, mechanism: str) -> None:
    delta = "delta := 1e-9, " if "delta" in REGISTRY["topk"][mechanism].parameters else ""
    call = (
        f"DP_TOPK(title, 3, {SURE}, {delta}privacy_unit := user_id, domain := catalog.title, "
        f"mechanism := '{mechanism}')"
    )
    assert answer(shared, call) == ["Dune", "Emma", "Ulysses"]
    receipt = shared.receipts[-1]
    assert receipt.mechanism == mechanism
    assert receipt.loss.epsilon == 10_000
    assert receipt.loss.delta == (Fraction(1, 10**9) if delta else 0)


SET = "epsilon := 1e-6, privacy_unit := user_id, mechanism := 'subset'"
BACKWARDS = """
    CREATE TYPE mood AS ENUM ('merry', 'calm', 'Zen', 'blue');
    CREATE TABLE felt AS SELECT i % 7 AS user_id, i AS number, i % 2 AS half,
        (['Zen', 'merry', 'blue', 'calm'])[1 + i % 4] AS word, word::mood AS mood
        FROM range(20) t(i) ORDER BY i DESC;
    CREATE TABLE words AS SELECT DISTINCT word FROM felt ORDER BY word DESC;
    CREATE TABLE halves AS SELECT 1 AS half UNION ALL SELECT 0;
"""


def sets(session: dp_sql.Session) -> dict[str, list[object]]:
    """Whole domains, so that nothing is drawn, from tables that are stored backwards."""
    session.execute(BACKWARDS)
    grouped = (
        f"SELECT half, DP_TOPK(word, 4, {SET}, domain := words.word, groups := halves.half, "
        "max_groups_contributed := 1) AS words FROM felt GROUP BY half ORDER BY half"
    )
    calls = {
        "column": f"DP_TOPK(word, 4, {SET}, domain := words.word)",
        "list": f"DP_TOPK(number, 3, {SET}, domain := [11, 3, 20])",
        "observed": f"DP_TOPK(number, 20, {SET}, domain := observed)",
        "enum": f"DP_TOPK(mood, 4, {SET}, domain := mood)",
    }
    found = {name: [answer(session, call, "felt")] for name, call in calls.items()}
    return {**found, "groups": [words for _, words in session.sql(grouped).fetchall()]}


IN_ORDER = {
    "column": [["Zen", "blue", "calm", "merry"]],
    "list": [[3, 11, 20]],
    "observed": [list(range(20))],
    "enum": [["Zen", "blue", "calm", "merry"]],
    "groups": [["Zen", "blue", "calm", "merry"]] * 2,
}


def test_a_set_is_in_the_order_of_its_values(session: dp_sql.Session) -> None:
    assert sets(session) == IN_ORDER


def test_the_order_of_a_scan_would_be_found_out(
    session: dp_sql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    subset = REGISTRY["topk"]["subset"]
    monkeypatch.setitem(vars(subset), "is_set", False)
    assert sets(session) != IN_ORDER


@pytest.mark.one_in(3)
@pytest.mark.parametrize("mechanism", [None, *WITHOUT_DOMAIN])
def test_a_list_without_a_domain_holds_what_enough_people_have(
    session: dp_sql.Session, mechanism: str | None
) -> None:
    session.execute("DELETE FROM ratings WHERE user_id > 4")  # of others, one is listed below 1e-8
    session.execute("INSERT INTO ratings SELECT i, 'Solaris', NULL, 1, 1, '' FROM range(1000) t(i)")
    named = f", mechanism := '{mechanism}'" if mechanism else ""
    call = f"DP_TOPK(title, 3, epsilon := 0.3, delta := 1e-9, privacy_unit := user_id{named})"
    assert answer(session, call) == ["Solaris"]
    (receipt,) = session.receipts
    assert receipt.mechanism == (mechanism or "limited_domain")
    assert receipt.loss.delta == Fraction(1, 10**9)
    assert receipt.loss.rho is None
    assert "delta = 0.000000001" in str(receipt)


@pytest.mark.parametrize(
    ("k", "epsilon", "more", "mechanism"),
    [
        (9, "1", "", "limited_domain"),
        (10, "1", "", "weighted_gaussian"),
        (10, "0.001", "", "limited_domain"),
        (1, "1", ", max_contributions := 5", "weighted_gaussian"),
        (10, "1", ", mechanism := 'limited_domain'", "limited_domain"),
    ],
)
def test_the_default_without_a_domain_depends_on_public_numbers(
    shared: dp_sql.Session, k: int, epsilon: str, more: str, mechanism: str
) -> None:
    call = (
        f"DP_TOPK(title, {k}, epsilon := {epsilon}, delta := 1e-9, privacy_unit := user_id{more})"
    )
    assert f"mechanism  {mechanism}" in str(shared.explain(f"SELECT {call} FROM ratings"))
    answer(shared, call)
    receipt = shared.receipts[-1]
    assert receipt.mechanism == mechanism


def test_a_person_counts_in_max_contributions_items(session: dp_sql.Session) -> None:
    """Weights grow with the square root of the cap; with a cap of 1 an item is drawn by 150 people."""
    session.execute("CREATE TABLE wide AS SELECT p AS u, i FROM range(3000) a(p), range(20) b(i)")
    lengths = []
    for cap in (1, 20):
        call = (
            "DP_TOPK(i, 20, epsilon := 0.1, delta := 1e-9, privacy_unit := u, "
            f"max_contributions := {cap})"
        )
        lengths.append(len(answer(session, call, "wide")))  # type: ignore[arg-type]
    assert lengths[0] <= 3 and lengths[1] >= 17


@pytest.mark.parametrize("mechanism", WITHOUT_DOMAIN)
def test_a_person_with_many_rows_of_an_item_counts_once(
    session: dp_sql.Session, mechanism: str
) -> None:
    session.execute("CREATE TABLE rows AS SELECT p % 500 AS u, p % 5 AS i FROM range(20000) a(p)")
    call = (
        "DP_TOPK(i, 5, epsilon := 1000, delta := 1e-9, privacy_unit := u, counts := true, "
        f"mechanism := '{mechanism}')"
    )
    listed = answer(session, call, "rows")
    assert [one["count"] for one in listed] == [100] * 5  # type: ignore[union-attr, index]


def test_only_the_largest_counts_leave_duckdb(
    session: dp_sql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.execute(
        "CREATE TABLE wide AS SELECT p AS user_id, 'item ' || i AS item "
        "FROM range(3000) t(i), range(20) u(p) WHERE p <= i % 20"
    )
    seen: list[list[int]] = []
    right = duckdb_udfs._integers

    def spy(values: object, kind: type) -> object:
        found = right(values, kind)
        seen.append(found.tolist())
        return found

    monkeypatch.setattr(duckdb_udfs, "_integers", spy)
    answer(
        session, "DP_TOPK(item, 2, epsilon := 1, delta := 1e-9, privacy_unit := user_id)", "wide"
    )
    (counts,) = seen
    assert len(counts) == 1001
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == 20


def others(session: dp_sql.Session, k: int, more: str) -> dict[str, str]:
    call = f"DP_TOPK(title, {k}, epsilon := 1, privacy_unit := user_id, {more})"
    return dict(session.explain(f"SELECT {call} FROM ratings").calls[0].alternatives)


def test_explain_shows_what_a_list_a_set_and_a_list_with_delta_promise(
    shared: dp_sql.Session,
) -> None:
    of_joint = others(shared, 3, "domain := catalog.title")
    assert list(of_joint) == ["subset", "cdp_peel"]
    shown = (
        "with probability 95 %, each listed item has at most 10 people fewer than any item left out"
    )
    assert of_joint["subset"] == f"{shown} (domain of 5 items, k = 3, epsilon = 1)"
    assert "delta = 0.000001)" in of_joint["cdp_peel"]
    of_subset = others(shared, 3, "domain := catalog.title, mechanism := 'subset'")
    assert list(of_subset) == ["joint", "cdp_peel"]
    more = "delta := 1e-9, mechanism := 'cdp_peel', domain := catalog.title"
    assert list(others(shared, 3, more)) == ["joint", "subset"]
    grouped = (
        "SELECT region, DP_TOPK(title, 3, epsilon := 1, privacy_unit := user_id, domain := "
        "catalog.title, groups := ['north', 'south'], max_groups_contributed := 2) FROM ratings "
        "GROUP BY region"
    )
    shown = " ".join(str(shared.explain(grouped)).split())
    assert "instead mechanism := 'subset': with probability 95 %" in shown
    assert "epsilon = 0.5, delta = 0.0000005)" in shown, "of one group"


@pytest.mark.parametrize("more", ["domain := observed", "delta := 1e-9"])
def test_without_a_size_before_the_release_explain_compares_nothing(
    shared: dp_sql.Session, more: str
) -> None:
    assert others(shared, 3, more) == {}
    assert others(shared, 1, "domain := catalog.title") == {}, "one item is a list and a set"


@pytest.mark.parametrize("mechanism", REGISTRY["count_distinct"])
@pytest.mark.parametrize("report", ["true", "false"])
def test_every_mechanism_counts_the_distinct_items(
    shared: dp_sql.Session, mechanism: str, report: str
) -> None:
    call = (
        f"DP_COUNT_DISTINCT(title, {SURE}, privacy_unit := user_id, mechanism := '{mechanism}', "
        f"max_contributions := 5, report := {report})"
    )
    found = answer(shared, call)
    estimate = found["estimate"] if isinstance(found, dict) else found
    # Shifted inverse aims at what is left without one person, however large epsilon is.
    assert estimate in ((3, 4) if mechanism == "shifted_inverse" else (4,))
    receipt = shared.receipts[-1]
    assert receipt.mechanism == mechanism
    if isinstance(found, dict) and mechanism == "shifted_inverse":
        assert found["contribution_bound"] is None


@pytest.mark.parametrize("mechanism", BOUNDED)
@pytest.mark.parametrize("selection", BOUND_SELECTIONS)
def test_every_way_to_choose_the_bound(
    shared: dp_sql.Session, mechanism: str, selection: str
) -> None:
    call = (
        f"DP_COUNT_DISTINCT(title, {SURE}, privacy_unit := user_id, mechanism := '{mechanism}', "
        f"max_contributions := 4, bound_selection := '{selection}', report := true)"
    )
    found = answer(shared, call)
    assert isinstance(found, dict)
    assert found["contribution_bound"] in (1, 2, 3, 4)
    assert found["lower_bound"] <= found["estimate"]


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("", "chosen from 1, 2, 4, … up to 100000 (bound selection difference, "),
        (
            "max_contributions := 50",
            "chosen from 1, 2, 4, … up to 50 (bound selection difference",
        ),
        ("bound_selection := 'gem'", "rising to 461 when it is 100"),
        ("mechanism := 'greedy'", "rising to 461 when it is 100"),
        ("mechanism := 'sampling', max_contributions := 50", "when it is 50"),
        ("contribution_bound := 7", "(contribution bound 7, "),
    ],
)
def test_the_bounds_that_are_looked_at(shared: dp_sql.Session, written: str, says: str) -> None:
    more = f", {written}" if written else ""
    call = f"DP_COUNT_DISTINCT(title, epsilon := 1, privacy_unit := user_id{more})"
    cost = shared.explain(f"SELECT {call} FROM ratings")
    assert says in cost.calls[0].accuracy


def test_explain_prices_the_default_for_every_accountant(shared: dp_sql.Session) -> None:
    query = "SELECT DP_COUNT_DISTINCT(title, epsilon := 1, privacy_unit := user_id) FROM ratings"
    shown = dict(shared.sql(f"EXPLAIN {query}").fetchall())
    assert shown["cost"] == "epsilon = 1 (zcdp: rho = 0.15625, pld: range = 1.5)"
    assert "epsilon = 1 (zcdp: rho = 0.15625, pld: range = 1.5)" in str(shared.explain(query))


@pytest.mark.parametrize("mechanism", ["greedy", "sampling"])
def test_only_a_maximum_flow_is_bounded_by_differences(
    shared: dp_sql.Session, mechanism: str
) -> None:
    call = (
        "DP_COUNT_DISTINCT(title, epsilon := 1, privacy_unit := user_id, "
        f"mechanism := '{mechanism}', bound_selection := 'difference')"
    )
    with pytest.raises(dp_sql.QueryError, match="must be one of: gem, mgem, combined_gem, rnm"):
        shared.sql(f"SELECT {call} FROM ratings")


@pytest.mark.parametrize("mechanism", BOUNDED)
def test_a_fixed_bound_gives_all_of_epsilon_to_the_noise(
    shared: dp_sql.Session, mechanism: str
) -> None:
    call = (
        "DP_COUNT_DISTINCT(title, epsilon := 1, privacy_unit := user_id, "
        f"mechanism := '{mechanism}', contribution_bound := 3, report := true)"
    )
    found = answer(shared, call)
    assert isinstance(found, dict) and found["contribution_bound"] == 3
    one, confidence = Fraction(1), Fraction(1, 20)
    distance = bounded.noise_bound(3, one, confidence, 3)
    assert found["estimate"] - found["lower_bound"] == distance
    assert distance < bounded.noise_bound(3, one, confidence, "gem")
    receipt = shared.receipts[-1]
    assert receipt.loss.rho == Fraction(1, 2)


def taken_in_turns(pairs: set[tuple[str, str]]) -> int:
    """Greedy at bound 1, read from the paper: people and items in the order of their bytes."""
    covered: set[str] = set()
    for person in sorted({p for p, _ in pairs}, key=str.encode):
        items = sorted((i for p, i in pairs if p == person), key=str.encode)
        covered |= set([i for i in items if i not in covered][:1])
    return len(covered)


PEOPLE = {"a": "xy", "B": "xz", "ä": "zy", "c": "xX", "C": "Xx", "é": "yw", "Z": "zX"}
PAIRS = {(person, item) for person, items in PEOPLE.items() for item in items}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("order", ["person", "item DESC", "random()"])
@pytest.mark.parametrize("collation", ["''", "'nocase'"])
def test_greedy_takes_turns_in_the_order_of_values_and_not_of_rows(
    session: dp_sql.Session, order: str, collation: str
) -> None:
    values = ", ".join(f"('{person}', '{item}')" for person, item in sorted(PAIRS))
    session.execute(
        f"CREATE TABLE pairs AS FROM (VALUES {values}) t(person, item) ORDER BY {order}"
    )
    session.execute(f"SET default_collation = {collation}")
    call = (
        f"DP_COUNT_DISTINCT(item, {SURE}, privacy_unit := person, mechanism := 'greedy', "
        "contribution_bound := 1)"
    )
    assert answer(session, call, "pairs") == taken_in_turns(PAIRS)


def test_greedy_does_not_take_the_order_in_which_an_enum_was_declared(
    session: dp_sql.Session,
) -> None:
    """Categories in the order of rows: with one person's rows first they move every other turn."""
    first = [("A", f"b{j}") for j in range(50)]
    others = [
        pair
        for j in range(50)
        for pair in ((f"B{j}", f"c{j}"), (f"B{j}", f"b{j}"), (f"C{j}", f"c{j}"))
    ]
    counts = []
    for rows in (first + others, others):
        pd = pytest.importorskip("pandas")
        frame = pd.DataFrame(rows, columns=["person", "item"])
        for column in ("person", "item"):
            values = frame[column]
            frame[column] = pd.Categorical(values, categories=values.unique())
        session.connection.register("frame", frame)
        call = (
            f"DP_COUNT_DISTINCT(item, {SURE}, privacy_unit := person, mechanism := 'greedy', "
            "contribution_bound := 1)"
        )
        counts.append(answer(session, call, "frame"))
        session.connection.unregister("frame")
    assert abs(counts[0] - counts[1]) <= 1  # type: ignore[operator]
