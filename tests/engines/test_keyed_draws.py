"""Draws by a keyed hash: for each key a person's rows decide alone, and over keys draws are fair."""

import random
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest

import dp_sql
from dp_sql.privacy.plans.plan import Plan
from dp_sql.privacy.private_sql.group_ctes import groups_sql
from dp_sql.privacy.private_sql.people_rows import PeopleRows
from dp_sql.sql.statement import parse
from tests.udfs.distributions import fits

Rows = Sequence[tuple[str, str, int]]  # person, group, value
E = "epsilon := 1, privacy_unit := person"
GROUPS = "groups := ['a', 'b', 'c', 'd'], max_groups_contributed := {}"
MEDIAN = f"DP_MEDIAN(value, {E}, lower := 0, upper := 9{{}})"
ONE = f"DP_COUNT_DISTINCT(value, {E}, {GROUPS.format(1)})"
TWO = f"DP_COUNT_DISTINCT(value, {E}, {GROUPS.format(2)})"
VOTES = MEDIAN.format(f", {GROUPS.format(2)}")
QUERIES = {
    "one group of each person": f"SELECT grp, {ONE} FROM votes GROUP BY grp",
    "two groups": f"SELECT grp, {TWO} FROM votes GROUP BY grp",
    "two caps, shared with sums": f"SELECT grp, {ONE}, DP_SUM(value, {E}, {GROUPS.format(2)}) FROM votes GROUP BY grp",
    "a vote": f"SELECT {MEDIAN.format('')} FROM votes",
    "two votes": f"SELECT {MEDIAN.format('')}, DP_MEDIAN(value + 1, {E}, lower := 0, upper := 9) FROM votes",
    "votes in two groups": f"SELECT grp, {VOTES} FROM votes GROUP BY grp",
}
KEYS = [sha256(f"key {i}".encode()).hexdigest() for i in range(24)]


@pytest.fixture(scope="module")
def session() -> Iterator[dp_sql.Session]:
    with dp_sql.connect() as opened:
        opened.execute("CREATE TABLE votes (person VARCHAR, grp VARCHAR, value INTEGER)")
        yield opened


def plans_of(session: Any, query: str) -> list[Plan]:
    (statement,) = parse(query)
    return session._plan(statement, session._engine(sys._getframe()))


def hold(session: Any, rows: Rows) -> None:
    session.execute("TRUNCATE votes")
    if rows:
        session.execute(f"INSERT INTO votes VALUES {', '.join(map(str, rows))}")


class Kept:
    """What the calls of a query keep of the rows that the session's table holds."""

    def __init__(self, session: Any, query: str) -> None:
        self._connection, self._plans = session.connection, plans_of(session, query)
        if groups := self._plans[0].groups:
            made = groups_sql(self._plans[0], f"({groups.select}) AS g")
            self._connection.execute(f"CREATE OR REPLACE TEMP TABLE __dp_groups AS {made}")

    def rows(self, key: str) -> list[Counter[tuple[Any, ...]]]:
        """For each call the rows that it keeps; the person is the last or only key."""
        people, found = PeopleRows(self._plans, key=key), []
        for place in range(len(self._plans)):
            ctes = ", ".join([*people.shared(), *people.of(place)])
            select = (
                f"WITH {ctes} SELECT __dp_privacy_unit, * EXCLUDE __dp_privacy_unit FROM __dp_kept"
            )
            found.append(Counter(self._connection.execute(select).fetchall()))
        return found


def tables(n: int) -> Iterator[Rows]:
    """Small tables, by chance alone, of a fixed generator."""
    rng = random.Random(1)
    for _ in range(n):
        yield [
            (rng.choice("uvwx"), rng.choice("abcd"), rng.randrange(4))
            for _ in range(rng.randrange(1, 12))
        ]


def check_neighbours(session: Any, query: str, n: int = 7) -> None:
    """Removing a person removes what is kept of that person, and moves nothing else."""
    kept = Kept(session, query)
    for rows in tables(n):
        for key in KEYS[:2]:
            hold(session, rows)
            before = kept.rows(key)
            assert before == kept.rows(key), "a job that is run again answers otherwise"
            for person in {row[0] for row in rows}:
                hold(session, [row for row in rows if row[0] != person])
                after = kept.rows(key)
                for one, other in zip(before, after, strict=True):
                    assert Counter({r: n for r, n in one.items() if r[0] != person}) == other


def check_caps(session: Any, query: str, caps: Sequence[int]) -> None:
    """Each person is kept in so many of their own groups, or in all of them."""
    kept = Kept(session, query)
    for rows in tables(20):
        own = defaultdict[str, set[str]](set)
        for person, group, _ in rows:
            own[person].add(group)
        hold(session, rows)
        for found, cap in zip(kept.rows(KEYS[3]), caps, strict=True):
            groups = defaultdict[str, set[int]](set)
            for person, group, *_ in found:
                groups[person].add(group)
            for person, theirs in own.items():
                assert len(groups[person]) == min(cap, len(theirs))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_a_person_moves_no_one_elses_rows(query: str, session: Any) -> None:
    check_neighbours(session, query)


def test_a_person_is_kept_in_as_many_groups_as_the_cap_says(session: Any) -> None:
    check_caps(session, QUERIES["one group of each person"], [1])
    check_caps(session, QUERIES["two groups"], [2])
    check_caps(session, QUERIES["two caps, shared with sums"], [1, 2])


def test_a_person_has_one_vote_which_is_a_row_of_theirs(session: Any) -> None:
    for name in ("a vote", "votes in two groups"):
        kept, grouped = Kept(session, QUERIES[name]), "groups" in QUERIES[name]
        for rows in tables(20):
            hold(session, rows)
            (votes,) = kept.rows(KEYS[4])
            own = {(p, ord(g) - 96, v) if grouped else (p, v) for p, g, v in rows}
            assert {*votes} <= own and {*votes.values()} == {1}
            voters = Counter(vote[:-1] for vote in votes)
            assert {*voters.values()} == {1}
            assert {p for p, *_ in votes} == {p for p, *_ in rows}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_no_person_makes_a_draw_fail(query: str, session: Any, tmp_path: Path) -> None:
    """A file may hold a time that DuckDB cannot write."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    moments = pa.array([-(1 << 63), -(1 << 63) + 1, 0], pa.int64()).view(pa.timestamp("us"))
    rows = pa.table({"person": moments, "grp": ["a", "b", "a"], "value": [1, 2, 3]})
    pq.write_table(rows, tmp_path / "odd.parquet")
    kept = Kept(session, query.replace("FROM votes", f"FROM '{tmp_path}/odd.parquet'"))
    people = PeopleRows(kept._plans, key=KEYS[0])
    ctes = ", ".join([*people.shared(), *people.of(0)])
    found = session.connection.execute(f"WITH {ctes} SELECT count(*) FROM __dp_kept")
    assert found.fetchall() == [(3,)]


# --- over many keys ---

PEOPLE = [f"p{i}" for i in range(64)]
EVERYWHERE: Rows = [(p, g, v) for p in PEOPLE for g in "abc" for v in range(2)]
TWICE_AND_ONCE: Rows = [(p, g, v) for p in PEOPLE for g in "ab" for v in (0, 0, 1)]
Own = frozenset[tuple[Any, ...]]
Drawn = list[dict[str, tuple[Own, ...]]]


def drawn(session: Any, query: str, rows: Rows) -> Drawn:
    """For each key what each call keeps of each person."""
    kept, found = Kept(session, query), []
    hold(session, rows)
    for key in KEYS:
        calls = []
        for rows_kept in kept.rows(key):
            own = defaultdict[str, set[tuple[Any, ...]]](set)
            for person, *rest in rows_kept:
                own[person].add(tuple(rest))
            calls.append({person: frozenset(theirs) for person, theirs in own.items()})
        found.append({person: tuple(call[person] for call in calls) for person in PEOPLE})
    return found


def uniform(*outcomes: Sequence[Any]) -> dict[Any, float]:
    every = [*product(*outcomes)]
    return dict.fromkeys(every, 1 / len(every))


def check_fair(found: Drawn, read: Callable[[tuple[Own, ...]], Any], law: dict[Any, float]) -> None:
    """Each person's draw has this law; two people draw independently."""
    each = Counter(read(one[person]) for one in found for person in PEOPLE)
    assert fits(each, law)
    couples = list(zip(PEOPLE[::2], PEOPLE[1::2], strict=True))
    both = Counter((read(one[a]), read(one[b])) for one in found for a, b in couples)
    assert fits(both, {(x, y): p * q for (x, p), (y, q) in product(law.items(), repeat=2)})


def groups_of(call: int) -> Callable[[tuple[Own, ...]], Any]:
    return lambda own: tuple(sorted({row[0] for row in own[call]}))


def check_groups(session: Any) -> None:
    found = drawn(session, QUERIES["two caps, shared with sums"], EVERYWHERE)
    ones, twos = ([*combinations((1, 2, 3), n)] for n in (1, 2))
    check_fair(found, groups_of(0), dict.fromkeys(ones, 1 / 3))
    check_fair(found, groups_of(1), dict.fromkeys(twos, 1 / 3))
    check_fair(found, lambda own: (groups_of(0)(own), groups_of(1)(own)), uniform(ones, twos))


def check_votes(session: Any) -> None:
    """A value that a person has twice is twice as likely; in each group they vote anew."""
    found = drawn(session, QUERIES["votes in two groups"], TWICE_AND_ONCE)
    once = {0: 2 / 3, 1: 1 / 3}
    law = {(x, y): once[x] * once[y] for x, y in product(once, repeat=2)}
    check_fair(found, lambda own: tuple(vote for _, vote in sorted(own[0])), law)


def check_columns(session: Any) -> None:
    """Votes of two columns are drawn apart."""
    found = drawn(session, QUERIES["two votes"], [(p, "a", v) for p in PEOPLE for v in range(3)])
    values = [
        vote
        for (vote,) in sorted(
            {vote for one in found for own in one.values() for call in own for vote in call}
        )
    ]
    law = uniform(range(3), range(1, 4))
    assert values == [0, 1, 2, 3]
    check_fair(found, lambda own: tuple(vote for call in own for (vote,) in call), law)


CHECKS: dict[str, Callable[..., None]] = {
    "groups": check_groups, "votes": check_votes, "columns": check_columns,
    **{name: partial(check_neighbours, query=query) for name, query in QUERIES.items()},
    "caps": partial(check_caps, query=QUERIES["two caps, shared with sums"], caps=[1, 2]),
}  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ["groups", "votes", "columns"])
def test_draws_are_fair(name: str, session: Any) -> None:
    CHECKS[name](session)


# --- wrong draws ---

Patch = pytest.MonkeyPatch


def hashed(text: str) -> Callable[[Patch], None]:
    """Hashes of another text, in which key, what, person and number may be named."""

    def wrong(self: PeopleRows, what: str, number: str) -> str:
        given = {"key": self.key, "what": what, "number": number, "person": "__dp_privacy_unit"}
        return f"system.main.sha256({text.format(**given)})"

    return lambda patch: patch.setattr(PeopleRows, "_hash", wrong)


def rewritten(method: str, old: str, new: str) -> Callable[[Patch], None]:
    """A method of PeopleRows whose SQL has something else in one place."""
    right = getattr(PeopleRows, method)

    def wrong(self: PeopleRows, *given: Any) -> Any:
        found = right(self, *given)
        changed = [found] if isinstance(found, str) else found
        assert old in "".join(changed)
        changed = [sql.replace(old, new) for sql in changed]
        return changed[0] if isinstance(found, str) else changed

    return lambda patch: patch.setattr(PeopleRows, method, wrong)


WRONG = {
    "no person in the hash": (hashed("'{key}{what}' || {number}"), "groups"),
    "no person in the hash of rows": (hashed("'{key}{what}' || {number}"), "votes"),
    "no key in the hash": (hashed("'{what}' || {person} || {number}"), "groups"),
    "no number in the hash": (hashed("'{key}{what}' || {person}"), "votes"),
    "one hash for all columns": (hashed("'{key}' || {person} || {number}"), "columns"),
    "one hash for all caps": (hashed("'{key}' || {person} || {number}"), "groups"),
    "the first groups": (hashed("'' || {number}"), "groups"),
    "rows numbered among those of others": (
        rewritten("_numbered", "PARTITION BY __dp_privacy_unit ORDER", "ORDER"), "a vote",
    ),
    "groups numbered among those of others": (
        rewritten("_allowed", "PARTITION BY __dp_privacy_unit ORDER", "ORDER"), "two groups",
    ),
    "a hash of how many rows there are": (
        hashed("'{key}{what}' || {person} || {number} || (SELECT count(*) FROM __dp_read)"),
        "two groups",
    ),
    "a cap of one more": (rewritten("_allowed", "n <= 1", "n <= 2"), "caps"),
    "no cap": (rewritten("_allowed", "n <= 2", "n > 0"), "caps"),
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.pure
@pytest.mark.parametrize(("tamper", "check"), WRONG.values(), ids=WRONG)
def test_wrong_draws_are_rejected(
    tamper: Callable[[Patch], None], check: str, session: Any, monkeypatch: Patch
) -> None:
    tamper(monkeypatch)
    with pytest.raises(AssertionError):
        CHECKS[check](session)
