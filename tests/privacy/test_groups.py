"""GROUP BY beside DP_TOPK and DP_COUNT_DISTINCT: public groups, a cap per person, one epsilon."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations, compress, product

import duckdb
import pytest

import dp_sql
from dp_sql.udfs.exact_sampling import Draws
from tests.conftest import SURE
from tests.udfs import cases_peeling as peeling
from tests.udfs.distributions import NotPrivateError, check_neighbours, fits
from tests.udfs.distributions import distribution_of as law_of

UNIT = "privacy_unit := user_id"


def asked(session: dp_sql.Session, text: str) -> list[tuple[object, ...]]:
    relation = session.sql(text)
    assert relation is not None
    found: list[tuple[object, ...]] = relation.fetchall()
    return found


@pytest.fixture
def log(session: dp_sql.Session) -> Iterator[dp_sql.Session]:
    """90 people in three regions each, with one title for each region."""
    session.execute(
        "CREATE TABLE seen AS SELECT p AS user_id, r AS region, 'book of ' || r AS title "
        "FROM range(90) t(p), (VALUES ('north'), ('south'), ('west')) u(r)"
    )
    session.execute("CREATE TABLE regions AS SELECT unnest(['north', 'south', 'east']) AS name")
    session.execute("CREATE TABLE books AS SELECT DISTINCT title FROM seen")
    yield session


def test_every_public_group_is_answered_and_no_other(log: dp_sql.Session) -> None:
    call = (
        f"DP_TOPK(title, 1, {SURE}, {UNIT}, domain := books.title, groups := regions.name, "
        "max_groups_contributed := 3)"
    )
    found = dict(asked(log, f"SELECT region, {call} FROM seen GROUP BY region"))
    assert found.keys() == {"north", "south", "east"}
    assert found["north"] == ["book of north"]
    assert found["south"] == ["book of south"]
    assert found["east"][0].startswith("book of ")  # type: ignore[index]


def test_groups_may_be_all_combinations_of_two_public_tables(log: dp_sql.Session) -> None:
    for product_of in ("regions, books", "regions CROSS JOIN books"):
        groups = f"groups := (SELECT name, title FROM {product_of})"
        call = f"DP_COUNT(*, {SURE}, {UNIT}, {groups})"
        found = asked(log, f"SELECT region, title, {call} FROM seen GROUP BY ALL")
        assert {row[:2]: row[2] for row in found} == {
            (region, f"book of {book}"): 90 * (region == book)
            for region in ("north", "south", "east")
            for book in ("north", "south", "west")
        }


FREE = ["limited_domain", "weighted_gaussian"]  # mechanisms without a domain


@pytest.mark.one_in(4)
@pytest.mark.parametrize("cap", [1, 2, 3, 4])
def test_a_person_counts_in_at_most_so_many_groups(log: dp_sql.Session, cap: int) -> None:
    call = (
        f"DP_COUNT_DISTINCT(user_id, {SURE}, {UNIT}, groups := observed, "
        f"contribution_bound := 1, max_groups_contributed := {cap})"
    )
    found = asked(log, f"SELECT region, {call} AS n FROM seen GROUP BY region")
    assert sum(n for _, n in found) == 90 * min(cap, 3)  # type: ignore[misc]


def test_the_groups_of_a_person_are_drawn_evenly(log: dp_sql.Session) -> None:
    log.execute("INSERT INTO seen SELECT 100 + i % 3000, region, title FROM seen, range(3000) t(i)")
    call = (
        f"DP_COUNT_DISTINCT(user_id, {SURE}, {UNIT}, groups := observed, "
        "contribution_bound := 1, max_groups_contributed := 1)"
    )
    observed = Counter(dict(asked(log, f"SELECT region, {call} FROM seen GROUP BY region")))
    assert fits(observed, dict.fromkeys(("north", "south", "west"), 1 / 3))
    assert not fits({"north": 1400, "south": 850, "west": 840}, dict.fromkeys(observed, 1 / 3))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("mechanism", ["joint", "pnf_peel", "cdp_peel", *FREE])
def test_all_groups_together_cost_what_is_written(log: dp_sql.Session, mechanism: str) -> None:
    delta = "delta := 1e-6, " if mechanism in ("cdp_peel", *FREE) else ""
    domain = "" if mechanism in FREE else "domain := books.title, "
    call = (
        f"DP_TOPK(title, 1, epsilon := 1, {delta}{UNIT}, {domain}groups := regions.name, "
        f"max_groups_contributed := 4, mechanism := '{mechanism}')"
    )
    asked(log, f"SELECT region, {call} FROM seen GROUP BY region")
    (receipt,) = log.receipts
    assert receipt.loss.epsilon == 1
    assert receipt.loss.delta == (Fraction(1, 10**6) if delta else 0)
    assert "each of 3 groups" in receipt.accuracy
    assert "epsilon = 0.25" in receipt.accuracy


def test_having_order_and_limit_work_on_what_was_released(log: dp_sql.Session) -> None:
    call = (
        f"DP_COUNT_DISTINCT(title, {SURE}, {UNIT}, groups := regions.name, "
        "contribution_bound := 1, max_groups_contributed := 3)"
    )
    found = asked(
        log,
        f"SELECT seen.region, {call} AS n FROM seen GROUP BY seen.region HAVING n > 0 "
        "ORDER BY seen.region DESC LIMIT 1",
    )
    assert found == [("south", 1)]
    last = asked(
        log,
        f"SELECT region, {call} AS n, count(*) OVER w AS k FROM seen GROUP BY region HAVING n > 0 "
        "WINDOW w AS (ORDER BY seen.region DESC) QUALIFY row_number() OVER w = 1 AND k = 1",
    )
    assert last == [("south", 1, 1)]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("listed", "tail"),
    [("region, {}", "ORDER BY {} DESC, region"), ("region, {} AS n", "HAVING {} >= 0 ORDER BY {} DESC, 1"),
     ("region, {} AS n", "QUALIFY rank() OVER (ORDER BY {} DESC) <= 2 ORDER BY 1"),
     ("DISTINCT region, {} + 1", "HAVING NOT ({}) < 0 ORDER BY {} + 1, 1 DESC")],
)  # fmt: skip
def test_a_call_of_the_list_that_is_repeated_behind_group_by_is_one_release(
    listed: str, tail: str, log: dp_sql.Session
) -> None:
    call = (
        f"DP_COUNT(*, {SURE}, {UNIT}, groups := ['north', 'nowhere'], max_groups_contributed := 3)"
    )
    again = call.replace("DP_COUNT", "dp_count").replace(", ", ",\n")
    text = f"SELECT {listed.format(call)} FROM seen GROUP BY region {tail.replace('{}', again)}"
    found = asked(log, text)
    assert [region for region, _ in found] in (["north", "nowhere"], ["nowhere", "north"])
    assert len(log.receipts) == 1


_CAP, _PUBLIC = "max_groups_contributed := 1", "groups := ['north', 'south']"


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("first", "second", "n_releases"),
    [
        (f"DP_SUM(user_id, #, {_CAP}, {_PUBLIC})", "DP_SUM(user_id, #)", 1),
        (f"DP_SUM(user_id, #, {_PUBLIC})", f"DP_SUM(user_id, {_CAP}, #, {_PUBLIC}, {UNIT})", 1),
        ("DP_SUM(user_id, #)", "DP_SUM(user_id, #, delta := 1e-6)", 1),
        ("DP_COUNT(*, #, delta := 1e-6)", "DP_COUNT(*, #)", 1),
        (f"DP_MEDIAN(user_id, #, lower := 0, upper := 9, {_CAP}, {_PUBLIC})", "DP_MEDIAN(user_id, #, lower := 0, upper := 9)", 1),
        (f"DP_SUM(user_id, #, {_CAP}, {_PUBLIC})", "DP_SUM(user_id, #, max_groups_contributed := 2)", 2),
        (f"DP_COUNT(*, #, {_CAP}, {_PUBLIC})", "DP_COUNT(*, #)", 2),  # without a cap it counts all groups
        (f"DP_SUM(user_id, #, delta := 1e-6, {_CAP})", "DP_SUM(user_id, #, max_groups_contributed := 2)", 2),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "tail", ["{} AS n FROM seen GROUP BY region", "region FROM seen GROUP BY region HAVING {} > 0"]
)
def test_calls_that_are_equal_with_the_arguments_of_their_select_are_one_release(
    first: str, second: str, n_releases: int, tail: str, log: dp_sql.Session
) -> None:
    text = f"SELECT {first}, {tail.format(second)}".replace("#", f"{SURE}, {UNIT}", 1)
    text = text.replace("#", SURE)
    cost = log.explain(text)
    rows = asked(log, text)
    assert len(log.receipts) == len(cost.calls) == n_releases
    assert cost.epsilon == sum(one.loss.epsilon for one in log.receipts)
    if n_releases == 1 and "HAVING" not in text:
        assert all(one == other for one, other in rows)


OVER_ANSWERS = [
    "SELECT region, # AS n, 100.0 * # / sum(@) OVER () AS share FROM part GROUP BY region HAVING @ > 0 ORDER BY region",
    "SELECT region, sum(#) OVER (ORDER BY region) AS so_far, # - lag(#) OVER w AS more FROM part GROUP BY 1 "
    "WINDOW w AS (ORDER BY # DESC) ORDER BY rank() OVER (ORDER BY # DESC)",
    "SELECT region, avg(#) FILTER (WHERE # > 40) OVER (PARTITION BY # > 70) FROM part GROUP BY region ORDER BY 1",
    "SELECT region FROM part GROUP BY region HAVING # > 40 ORDER BY # DESC LIMIT 1",
    "SELECT region FROM part GROUP BY region QUALIFY row_number() OVER (ORDER BY # DESC) = 2",
    "SELECT # AS n, sum(#) OVER () AS s, row_number() OVER () AS r, rank() OVER (ORDER BY #) FROM part",
    "SELECT x, s / 2 FROM (SELECT region AS x, # + max(#) OVER () AS s FROM part GROUP BY region) ORDER BY x",
]  # fmt: skip


@pytest.mark.one_in(7)
@pytest.mark.parametrize("text", OVER_ANSWERS)
def test_windows_and_conditions_over_answers_are_those_over_exact_counts(
    text: str, log: dp_sql.Session
) -> None:
    log.execute(
        "CREATE TABLE part AS FROM seen WHERE user_id < if(region = 'south', 80, length(region) * 10)"
    )
    groups = ", groups := ['north', 'south', 'west']" if "GROUP" in text else ""
    call = f"DP_COUNT(*, {SURE}, {UNIT}{groups})"
    short = f"DP_COUNT(*, {SURE})"  # privacy_unit and groups are those of the first call
    relation = log.sql(text.replace("#", call).replace("@", short))
    exact = log.sql(text.replace("#", "count(*)").replace("@", "count(*)"))
    assert relation is not None and exact is not None
    assert relation.fetchall() == exact.fetchall()
    assert not any("__dp" in name for name in relation.columns)
    assert len(log.receipts) == 1


@pytest.mark.parametrize(
    ("listed", "having"),
    [
        ("rank() OVER (ORDER BY region) AS user_id", "# > 0"), ("(SELECT max(1) OVER ()) AS w", "# > w - (SELECT max(1) OVER ())"),
        ("rank() OVER () AS upper", "upper(region) = 'NORTH'"), ("rank() OVER () AS n", "{'n': #}.n > 0"),
        ("rank() OVER (ORDER BY #) AS region", "region = 'north'"), ("1 AS over", "over > 0 AND # > 0"),
    ],
)  # fmt: skip
def test_having_may_have_windows_in_its_subqueries_and_names_like_theirs(
    listed: str, having: str, log: dp_sql.Session
) -> None:
    call = f"DP_COUNT(user_id, {SURE}, {UNIT}, groups := ['north'])"
    text = f"SELECT region, {listed} FROM seen GROUP BY region HAVING # > 0 AND {having}"
    relation = log.sql(text.replace("#", call))
    assert relation is not None
    assert relation.fetchall() == [("north", 1)]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("tail", ["GROUP BY ()", "GROUP BY ALL", "GROUP BY ( )"])
def test_without_keys_there_is_one_answer(tail: str, log: dp_sql.Session) -> None:
    (whole,) = asked(log, f"SELECT 'all' AS k, DP_COUNT(*, {SURE}, {UNIT}) AS n FROM seen")
    assert asked(log, f"SELECT 'all' AS k, DP_COUNT(*, {SURE}, {UNIT}) AS n FROM seen {tail}") == [
        whole
    ]


def test_two_calls_are_answered_group_by_group(log: dp_sql.Session) -> None:
    more = f"{SURE}, {UNIT}, groups := regions.name, max_groups_contributed := 3"
    found = asked(
        log,
        f"SELECT region, DP_TOPK(title, 1, {more}, domain := books.title) AS best, "
        f"DP_COUNT_DISTINCT(title, {more}, report := true) AS n "
        "FROM seen WHERE region <> 'south' GROUP BY ALL ORDER BY region",
    )
    assert [row[0] for row in found] == ["east", "north", "south"]
    assert found[1][1] == ["book of north"]
    assert [row[2]["estimate"] for row in found] == [0, 1, 0]  # type: ignore[index]
    assert len(log.receipts) == 2


def test_observed_groups_are_those_of_the_column_whatever_where_keeps(log: dp_sql.Session) -> None:
    log.execute("INSERT INTO seen VALUES (1, 'east', NULL)")
    more = f"{SURE}, {UNIT}, groups := observed, max_groups_contributed := 4"
    found = asked(
        log,
        f"SELECT region, DP_COUNT_DISTINCT(title, {more}) AS n, DP_COUNT_DISTINCT(user_id, {more}) "
        "AS m FROM seen WHERE region = 'north' GROUP BY region ORDER BY region",
    )
    assert [(region, n) for region, n, _ in found] == [
        ("east", 0), ("north", 1), ("south", 0), ("west", 0),
    ]  # fmt: skip
    assert "the set of groups, observed, is public" in log.receipts[0].assumptions


@pytest.mark.parametrize(("of_title", "is_known"), [("observed", False), ("books.title", True)])
def test_observed_groups_are_not_counted_before_the_release(
    log: dp_sql.Session, of_title: str, is_known: bool
) -> None:
    call = f"DP_COUNT_DISTINCT(user_id, {SURE}, {UNIT}, groups := (regions.name, {of_title}))"
    shown = asked(log, f"EXPLAIN SELECT region, title, {call} FROM seen GROUP BY region, title")
    assert any("all 9 counts" in str(row) for row in shown) == is_known


def test_a_list_longer_than_an_empty_domain_is_refused(log: dp_sql.Session) -> None:
    call = (
        f"DP_TOPK(title, 1, {SURE}, {UNIT}, domain := observed, groups := regions.name, "
        "max_groups_contributed := 1)"
    )
    with pytest.raises(dp_sql.QueryError, match="k = 1 is more than the 0 items"):
        log.sql(f"SELECT region, {call} FROM seen WHERE false GROUP BY region")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("mechanism", ["joint", *FREE])
def test_a_view_read_twice_in_one_execution_shows_one_draw(
    con: duckdb.DuckDBPyConnection, mechanism: str
) -> None:
    con.execute(
        "CREATE TABLE many AS SELECT p AS user_id, 'g' || i % 20 AS g, 'item ' || (p * i) % 40 AS "
        "item FROM range(60) t(p), range(20) u(i)"
    )
    domain = "delta := 1e-4" if mechanism in FREE else "domain := observed"
    call = (
        f"DP_TOPK(item, 3, epsilon := 30, privacy_unit := user_id, {domain}, groups := observed, "
        f"max_groups_contributed := 4, mechanism := '{mechanism}')"
    )
    con.execute(f"CREATE VIEW best AS FROM dp($$ SELECT g, {call} AS n FROM many GROUP BY g $$)")
    for _ in range(5):
        rows = con.execute("SELECT a.n, b.n FROM best a JOIN best b USING (g)").fetchall()
        assert len(rows) == 20 and all(one == other for one, other in rows)


def test_several_keys_and_the_dp_macro(log: dp_sql.Session) -> None:
    call = f"DP_COUNT_DISTINCT(user_id, {SURE}, {UNIT}, groups := observed, max_groups_contributed := 9)"
    text = f"SELECT region, title, {call} AS n FROM seen GROUP BY region, title"
    assert len(asked(log, text)) == 9, "each region with each title"
    assert len(asked(log, f"FROM dp($$ {text} $$) WHERE n > 0")) == 3


@pytest.mark.one_in(2)
@pytest.mark.parametrize("cap", [1, 2])
def test_items_of_each_group_are_found_among_its_own_people(
    con: duckdb.DuckDBPyConnection, cap: int
) -> None:
    con.execute(
        "CREATE TABLE many AS SELECT p AS user_id, 'g' || p % cap AS g, 'item ' || p % 4 AS item "
        "FROM range(4000) t(p)".replace("cap", str(cap))
    )
    call = (
        "DP_TOPK(item, 3, epsilon := 20, delta := 1e-6, privacy_unit := user_id, groups := observed, "
        f"max_groups_contributed := {cap}, mechanism := 'weighted_gaussian')"
    )
    found = con.execute(
        f"SELECT n FROM dp($$ SELECT g, {call} AS n FROM many GROUP BY g $$) ORDER BY g"
    )
    lists = [set(n) for (n,) in found.fetchall()]
    assert len(lists) == cap
    if cap == 2:
        assert lists == [{"item 0", "item 2"}, {"item 1", "item 3"}]
    else:
        assert len(lists[0]) == 3


# The law of all groups together: two groups, two items, the exponential mechanism for each group.

Person = frozenset[tuple[int, int]]
"""The (group, item) pairs of one person."""

CAP = 2
SHARE = peeling.EPSILON / CAP
GROUPS, ITEMS = (0, 1, 2), (0, 1)


def kept_by_lot(groups: Sequence[int], cap: int, draws: Draws) -> frozenset[int]:
    """The groups that the shipped lot keeps, of one person's own."""
    import numpy as np

    return frozenset(compress(groups, draws.subsets(np.array([len(groups)]), cap)))


def law_of_all_groups(
    people: tuple[Person, ...], cap: int = CAP, share: Fraction = SHARE
) -> dict[tuple[int, ...], Fraction]:
    """The chosen item of each group."""
    q = peeling.Q_OF_RATE[share]
    law: Counter[tuple[int, ...]] = Counter()
    draws = []
    for person in people:
        own = sorted({group for group, _ in person})
        draw, unfinished = law_of(lambda draws, own=own: kept_by_lot(own, cap, draws), {})
        assert unfinished == 0
        draws.append(list(draw.items()))
    for chosen in product(*draws):
        weight = Fraction(1)
        for _, probability in chosen:
            weight *= probability
        per_group = []
        for group in GROUPS:
            counts = [
                sum((group, item) in person and group in kept
                    for person, (kept, _) in zip(people, chosen, strict=True))
                for item in ITEMS
            ]  # fmt: skip
            weights = [q ** (max(counts) - n) for n in counts]
            per_group.append([w / sum(weights) for w in weights])
        for answer in product(ITEMS, repeat=len(GROUPS)):
            p = weight
            for group, item in enumerate(answer):
                p *= per_group[group][item]
            law[answer] += p
    return dict(law)


def neighbours() -> Iterator[tuple[tuple[Person, ...], tuple[Person, ...]]]:
    pairs = list(product(GROUPS, ITEMS))
    some = [frozenset(c) for n in (1, 3, 6) for c in combinations(pairs, n)][::3]
    for person in some:
        for others in ((), (frozenset({(0, 0), (1, 1)}),), (frozenset(pairs), frozenset({(2, 0)}))):
            yield others, (*others, person)


def check_all_groups(law: Callable[[tuple[Person, ...]], dict[tuple[int, ...], Fraction]]) -> None:
    check_neighbours(law, neighbours(), peeling.LOSS)


def test_no_person_can_be_told_from_all_groups_together() -> None:
    check_all_groups(law_of_all_groups)


def test_people_in_more_groups_than_the_cap_are_not_private() -> None:
    with pytest.raises(NotPrivateError):
        check_all_groups(lambda people: law_of_all_groups(people, cap=3))


def test_all_of_epsilon_for_each_group_is_not_private() -> None:
    with pytest.raises(NotPrivateError):
        check_all_groups(lambda people: law_of_all_groups(people, share=peeling.EPSILON))
