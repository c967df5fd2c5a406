"""Random statements on two databases that differ in one person: mechanisms take what was paid for.

Draws of a person's own rows and groups are the first ones, so both databases have the same. What
the mechanisms draw from one database is the answer of the other, too; all else must be equal.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dp_sql.engines.duckdb import few_rows, install, many_rows, mechanism_udfs, rows_in_memory
from dp_sql.errors import DpSqlError
from dp_sql.policy.limits import Limits
from dp_sql.session.analyst import AnalystSession
from dp_sql.sql.functions.chosen_limit import FEW_GROUPS, MANY_GROUPS
from dp_sql.udfs.contributions import slots
from tests.engines.test_many_rows import smallest
from tests.people import NUMBERED, POLICY, POOLS, Data, Database
from tests.privacy import neighbours
from tests.privacy.oracle import accepted, some_data
from tests.privacy.source_texts import Writer

UNLIMITED = replace(POLICY, limits=Limits(max_delta_per_query=Fraction(1), max_rows_per_person=3))
SETS = {
    "text": "['Dune', 'a', '', 'dune']", "int": "[1, 2, 3, -2147483648]", "big": "[1, 2, 3]",
    "date": "['2020-01-31', '2020-02-29']", "enum": "['novel', 'poems']", "bool": "[TRUE, FALSE]",
    "time": "['2020-02-29', '1970-01-01']", "money": "[2.50, 0]", "tiny": "[1, 2, 127]",
}  # fmt: skip
NUMBERS = {"int", "big", "tiny", "small", "ubig", "huge", "dec", "money"}
OF_ANY = [
    "DP_COUNT(*{})", "DP_COUNT({c}{})", "DP_COUNT({c}, contribution_bound := 2{})",
    "DP_COUNT_DISTINCT({c}{})", "DP_COUNT_DISTINCT({p}{})",
]  # fmt: skip
OF_NUMBERS = [
    "DP_SUM({c}{})", "DP_SUM({c}, lower := 0{})", "DP_SUM({c}, contribution_bound := 1{})",
    "DP_AVG({c}{})", "DP_AVG({c}, contribution_bound := 2{})",
    "DP_AVG({c}, lower := -5, upper := 100{})", "DP_MEDIAN({c}, lower := 0, upper := 100{})",
    "DP_QUANTILE({c}, [0.1, 0.9], lower := 0, upper := 100{})",
]  # fmt: skip
# More groups than have one vector for people, and for rows under a bound.
MANY, MOST = (str(["Dune", "", *(f"no {i}" for i in range(n))]) for n in (FEW_GROUPS, MANY_GROUPS))
WAYS = {"in memory": (1 << 60, 1 << 60), "people in memory": (0, 0), "in SQL": (0, 1 << 60)}


OF_ITEMS = ["DP_TOPK({c}, 1, domain := {s}{})", "DP_TOPK({c}, 2, delta := 1e-6{})"]
_DRAWS = ("_draw", "_draw_each")


class First:
    """Draws that are no draws: of each person's groups the first."""

    def subsets(self, sizes: Any, cap: int) -> Any:
        """Which are drawn."""
        places = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return places < cap


class Draws:
    """What mechanisms take and draw in a statement; where `answers` are given, they draw these."""

    def __init__(self) -> None:
        self.taken: dict[str, tuple[Any, bool, Any, Any]] = {}
        self.answers: Mapping[str, Any] | None = None

    def noting(self, real: Any, is_grouped: bool) -> Any:
        """A function of a plan and its lists that draws, and notes it."""

        def draw(plan: Any, *lists: Any) -> Any:
            key = f"{plan.call} {plan.parameters}"
            assert key not in self.taken, "a second draw"
            drawn = real(plan, *lists)
            drawn = drawn if self.answers is None else self.answers[key][-1]
            columns = zip(*lists[0], strict=True) if is_grouped else lists
            self.taken[key] = plan, is_grouped, _plain([*columns]), drawn
            return drawn

        return draw


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [*map(_plain, value)]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


@pytest.fixture(scope="module")
def draws() -> Iterator[Draws]:
    noted = Draws()
    with pytest.MonkeyPatch.context() as patch:
        for is_grouped, name in enumerate(_DRAWS):
            real = noted.noting(getattr(mechanism_udfs, name), bool(is_grouped))
            patch.setattr(mechanism_udfs, name, real)
        for module in (mechanism_udfs, rows_in_memory):
            patch.setattr(module, "secret_draws", First)
        patch.setattr(install, "words_of_rows", lambda rows: rows.combine_chunks())
        patch.setattr(slots, "draw_items", smallest)
        yield noted


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    database = Database()
    yield database
    database.close()


def asked(session: AnalystSession, text: str, draws: Draws) -> Any:
    """What an analyst sees of a statement."""
    draws.taken, n = {}, len(session.receipts)
    try:
        found = session.sql(text)
        seen: Any = found.columns, found.types, found.fetchall()
    except DpSqlError as error:
        seen = type(error), str(error)
    if any("TopK" in key for key in draws.taken):  # the places of items may be others
        seen = seen[:2]
    return seen, sorted(map(repr, session.receipts[n:]))


@st.composite
def statements(draw: st.DrawFn, database: Database) -> str:
    """A statement over a source that is accepted, if one is found soon."""
    writer = Writer(draw)
    for _ in range(4):
        rel = writer.query(1)
        rows = accepted(rel.text, database)
        if rows is not None and rows.is_private:
            break
    columns = [col for col in rel.cols if col.type not in {"void", "list"}]
    person = next((col.name for col in columns if col.person), "1")
    keys = [col for col in columns if col.type in SETS and not col.person]
    more, key = ", epsilon := 1", None
    if keys and writer.chance(60):
        key = draw(st.sampled_from(keys))
        cap = writer.one(["", "", ", max_groups_contributed := 1", ", max_groups_contributed := 2"])
        more += f", groups := {SETS[key.type]}{cap}"
    calls = []
    for _ in range(draw(st.integers(1, 2))):
        col = draw(st.sampled_from(columns)) if columns else None
        forms = OF_ANY + OF_NUMBERS * (col is not None and col.type in NUMBERS)
        forms += OF_ITEMS * (col is not None and col.type in SETS)
        name, listed = ("1", "[1]") if col is None else (col.name, SETS.get(col.type, "[1]"))
        calls.append(writer.one(forms).format(more, c=name, p=person, s=listed))
    by, first = (f" GROUP BY {key.name}", f"{key.name}, ") if key is not None else ("", "")
    return f"SELECT {first}{', '.join(dict.fromkeys(calls))} FROM ({rel.text}) AS t{by}"


def sessions(folder: Path, data: Data, database: Database, person: str) -> list[AnalystSession]:
    """One with a person's rows, and one without."""
    database.hold({})
    database.hold(data)
    made = []
    for name in ("with", "without"):
        if name == "without":
            database.remove(person, POOLS, True)
        path = folder / f"{name}.duckdb"
        path.unlink(missing_ok=True)
        database.connection.execute(
            f"ATTACH '{path}' AS made; COPY FROM DATABASE memory TO made; DETACH made"
        )
        made.append(AnalystSession(str(path), UNLIMITED, "ann"))
    database.hold({})
    return made


SOURCES = [
    "ratings",
    "(SELECT user_id, title, score FROM ratings WHERE user_id IN (SELECT person FROM odd) UNION ALL SELECT person, 'a', 2 FROM odd) AS t(user_id, title, score)",
    "(FROM ratings r WHERE NOT EXISTS (SELECT 1 FROM visits v WHERE v.visitor = r.user_id AND v.t < r.score)) AS t",
    "(SELECT user_id, title, sum(score) OVER (PARTITION BY user_id ORDER BY title ROWS 1 PRECEDING) AS score FROM ratings) AS t",
]  # fmt: skip


def known() -> list[str]:
    """All calls over a few sources, with groups and without."""
    found = []
    for source, call in product(SOURCES, [*OF_ANY, *OF_NUMBERS, *OF_ITEMS]):
        of = {"c": "title" if call in OF_ITEMS else "score", "p": "user_id", "s": SETS["text"]}
        found.append(f"SELECT {call.format(', epsilon := 1', **of)} FROM {source}")
        if "delta" not in call:
            some = f", epsilon := 1, groups := {SETS['text']}"
            some += ", max_groups_contributed := 1" * (call not in OF_ANY[:3])
            found.append(f"SELECT title, {call.format(some, **of)} FROM {source} GROUP BY title")
    in_many = ("DP_COUNT(*{})", MANY), ("DP_COUNT_DISTINCT(user_id{})", MANY), (OF_ANY[2], MOST)
    for source, (call, groups) in product(SOURCES, in_many):
        many = call.format(f", epsilon := 1, groups := {groups}", c="score")
        found.append(f"SELECT title, {many} FROM {source} GROUP BY title")
    return found


def compare(texts: Iterable[str], both: list[AnalystSession], draws: Draws) -> int:
    """Ask both sides; returns how many draws there were, and raises AssertionError if they differ."""
    n_draws = 0
    for text in texts:
        draws.answers = None
        seen, taken = asked(both[0], text, draws), draws.taken
        draws.answers = taken
        assert asked(both[1], text, draws) == seen
        assert draws.taken.keys() == taken.keys()
        for key, (plan, is_grouped, lists, _) in taken.items():
            neighbours.check(plan, is_grouped, lists, draws.taken[key][2])
        n_draws += len(taken)
    return n_draws


def go(way: str, patch: pytest.MonkeyPatch) -> None:
    """Have rows read in a way, however few there are."""
    few, least = WAYS[way]
    patch.setattr(few_rows, "FEW", few)
    patch.setattr(many_rows, "LEAST", least)
    patch.setattr(many_rows, "ROWS_EACH", 1 << 60)


@pytest.fixture(params=[0, pytest.param(1, marks=pytest.mark.slow)])
def both(request: Any, database: Database, draws: Draws, tmp_path: Path) -> Iterator[Any]:
    """Sessions over each of two databases, with person 1 and without."""
    found = sessions(tmp_path, some_data()[request.param], database, NUMBERED[0])
    yield found
    for session in found:
        session.close()


@pytest.mark.one_in(6)
@pytest.mark.parametrize("way", WAYS)
def test_a_person_moves_no_more_than_is_paid_for(
    way: str, both: list[AnalystSession], draws: Draws, monkeypatch: pytest.MonkeyPatch
) -> None:
    go(way, monkeypatch)
    texts = known()
    assert compare(texts, both, draws) == len(texts)


@pytest.mark.thorough
@pytest.mark.parametrize("way", WAYS)
def test_a_cap_that_is_not_kept_is_seen(
    way: str, both: list[AnalystSession], draws: Draws, monkeypatch: pytest.MonkeyPatch
) -> None:
    go(way, monkeypatch)
    monkeypatch.setattr(First, "subsets", lambda _, sizes, cap: np.ones(sizes.sum(), bool))
    with pytest.raises(AssertionError):
        compare(known(), both, draws)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_person_moves_no_more_in_random_statements(
    way: str, database: Database, both: list[AnalystSession], draws: Draws,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    go(way, monkeypatch)

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(statements(database))
    def search(text: str) -> None:
        compare([text], both, draws)

    search()
