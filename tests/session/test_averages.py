"""DP_AVG: what the mechanism gets, numbers of any size, and what is refused."""

import random
from collections import defaultdict
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dp_sql
from dp_sql.errors import ArgumentError
from dp_sql.sql.functions import avg
from dp_sql.sql.functions.avg import Avg
from dp_sql.sql.mechanism_rows import MechanismRows
from dp_sql.udfs.contributions.bounded_mean import FRACTION_BITS, _quotient, loss
from dp_sql.udfs.mechanism import PrivacyLoss
from tests.pairs import in_pairs
from tests.session.runs import noted_runs

TYPES = {"stars": 0, "price": 2, "change": 0, "fine": 10, "wide": 0}
"""Columns, and the digits after their points."""
N_PARTS = 2


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, draws = tmp_path_factory.mktemp("shop"), random.Random(5)
    with duckdb.connect(str(folder / "shop.duckdb")) as con:
        con.execute("CREATE TABLE bought (user_id INTEGER, part INTEGER, stars UTINYINT, price "
                    "DECIMAL(9,2), change BIGINT, fine DECIMAL(38,10), wide HUGEINT, rate DOUBLE)")  # fmt: skip
        rows = []
        for part in range(N_PARTS):
            for person in [*range(draws.randrange(1, 9)), "NULL"]:
                for _ in range(draws.choice([1, 2, 3, 5, 8, 40])):
                    price = f"{draws.randrange(-3, 30)}.{draws.randrange(100):02}"
                    stars, wide = draws.choice(["NULL", 1, 5]), draws.randrange(-(10**20), 10**20)
                    change = draws.randrange(-9, 9)
                    rows.append(
                        f"({person}, {part}, {stars}, {price}, {change}, {price}, {wide}, 1)"
                    )
        con.execute(f"INSERT INTO bought VALUES {', '.join(rows)}")
        con.execute("CREATE TABLE huge AS SELECT i::INTEGER AS user_id, i % 2 AS kind, "
                    "(-9223372036854775808)::BIGINT AS low, 18446744073709551615::UBIGINT AS high, "
                    "'-170141183460469231731687303715884105728'::HUGEINT AS lowest, "
                    "'99999999999999999999999999999999999999'::DECIMAL(38,0) AS nines, "
                    "'0.99999999999999999999999999999999999999'::DECIMAL(38,38) AS parts "
                    "FROM range(60) t(i), range(9)")  # fmt: skip
    (folder / "policy.toml").write_text(
        'tables.bought.privacy_unit = "user_id"\ntables.huge.privacy_unit = "user_id"\n'
    )
    return folder


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the mechanism gets, in the order of its runs."""

    def note(buckets: Any, people: Any, sums: Any, entries: Any, **public: Any) -> Any:
        rows = dict(zip(buckets, zip(people, sums, strict=True), strict=True))
        return rows, sorted(entries), public["unit"], public["ends"]

    return noted_runs(monkeypatch, Avg, note)


def expected(
    people: list[tuple[int, Any]], scale: int, most: int | None, ends: tuple[int, int] | None
) -> tuple[Any, ...]:
    """The same for (rows, sum) of each person, as bounded_mean.run says."""
    rows: dict[int, tuple[int, int]] = defaultdict(lambda: (0, 0))
    entries: dict[tuple[int, ...], tuple[int, int]] = defaultdict(lambda: (0, 0))
    for n, total in people:
        kept = n if most is None else min(n, most)
        at = (kept - 1).bit_length()
        rows[at] = rows[at][0] + 1, rows[at][1] + kept
        last = at if most is None else 0
        for place in range(last + 1):
            counted = min(n, 2**place) if most is None else kept
            exact = Fraction(total) * 10**scale * 2**FRACTION_BITS * Fraction(counted, n)
            size = abs(exact).__floor__()
            if size:
                key = place, int(place == last), (size - 1).bit_length(), int(exact < 0)
                entries[key] = entries[key][0] + 1, entries[key][1] + size
    listed = sorted((*key[:3], *both, key[3]) for key, both in entries.items())
    units = ends and tuple(10**scale * end for end in ends)
    return dict(rows), listed, 10**scale, units


@pytest.mark.one_in(5)
@pytest.mark.parametrize(
    ("column", "read", "most"),
    in_pairs([*TYPES], [*product([False, True], [None, (1, 4)])], [None, 1, 3]),
)
def test_the_mechanism_gets_sums_at_each_bound_on_rows(
    owner: dp_sql.Session, analyst: dp_sql.Session, seen: list[Any], column: str,
    read: tuple[bool, tuple[int, int] | None], most: int | None, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    in_parts, ends = read
    if in_parts:  # without UDFs, as for a part of the rows

        def as_of_a_part(self: Avg, rows: MechanismRows) -> str:
            return self.summary(rows._replace(in_parts=True))

        monkeypatch.setattr(Avg, "_in_memory", as_of_a_part)
    bound = "" if most is None else f", contribution_bound := {most}"
    value = column
    if ends is not None:
        low, high = ends
        bound += f", lower := {low}, upper := {high}"
        value = f"CAST({-low - high} AS BIGINT) + 2 * greatest(least({column}, {high}), {low})"
    for part in range(N_PARTS):
        people = owner.connection.execute(
            f"SELECT count({column}), sum({value}) FROM bought WHERE part = {part} AND user_id "
            f"IS NOT NULL AND {column} IS NOT NULL GROUP BY user_id"
        ).fetchall()
        for session, unit in ((owner, ", privacy_unit := user_id"), (analyst, "")):
            session.sql(
                f"SELECT DP_AVG({column}, epsilon := 1{unit}{bound}) FROM bought WHERE part = {part}"
            ).fetchall()
            assert seen[-1] == expected(people, TYPES[column], most, ends), (part, most)


def test_sums_that_lose_what_is_left_of_a_division_are_noticed(
    owner: dp_sql.Session,
    analyst: dp_sql.Session,
    seen: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(avg, "_FEW", 0)
    with pytest.raises(AssertionError):
        test_the_mechanism_gets_sums_at_each_bound_on_rows(
            owner, analyst, seen, "price", (True, None), None, monkeypatch
        )


@pytest.mark.one_in(4)
@pytest.mark.parametrize("column", ["low", "high", "lowest", "nines", "parts"])
@pytest.mark.parametrize("more", ["", ", report := true", ", contribution_bound := 4"])
def test_numbers_of_any_size_are_answered(analyst: dp_sql.Session, column: str, more: str) -> None:
    ((found,),) = analyst.sql(f"SELECT DP_AVG({column}, epsilon := 900{more}) FROM huge").fetchall()
    estimate = found["estimate"] if "report" in more else found
    assert (estimate < 0) is column.startswith("low")
    call = f"DP_AVG({column}, epsilon := 1{more}, groups := [0, 1, 7], max_groups_contributed := 1)"
    found = analyst.sql(f"SELECT kind, {call} AS mean FROM huge GROUP BY kind").fetchall()
    assert [kind for kind, _ in found] == [0, 1, 7]


def test_a_large_epsilon_gives_the_mean(analyst: dp_sql.Session) -> None:
    """Of 60 people with 9 rows each, half have 1 in each row and half 0."""
    for bound in ("", ", contribution_bound := 4", ", lower := 0, upper := 1"):
        call = f"DP_AVG(kind, epsilon := 900{bound}, beta := 1e-12, report := true)"
        ((report,),) = analyst.sql(f"SELECT {call} FROM huge").fetchall()
        assert abs(report["estimate"] - 0.5) <= report["noise"] <= 0.01
        assert report["lower_bound"] is None
        assert report["contribution_bound"] == (4 if "bound" in bound else 16)


def test_values_beyond_a_range_count_as_its_ends(analyst: dp_sql.Session) -> None:
    """Without noise to speak of; each of these columns has one value in all rows."""
    for column, ends, mean in (("low", (-7, -3), -7), ("high", (2, 9), 9), ("nines", (0, 5), 5)):
        call = f"DP_AVG({column}, epsilon := 9000, lower := {ends[0]}, upper := {ends[1]})"
        ((found,),) = analyst.sql(f"SELECT {call} FROM huge").fetchall()
        assert abs(found - mean) < 0.01


def test_a_mean_stays_in_its_range_and_noise_covers_all_that_it_may_hide() -> None:
    """For all sums and counts of up to three rows of 0 to 3, and all noise up to 8."""
    reach, ends, limit = 8, (0, 3), 3
    for n_rows in range(4):
        for total in range(-limit * n_rows, limit * n_rows + 1):
            for x, y in product(range(-reach, reach + 1), repeat=2):
                noisy = (total << FRACTION_BITS) + x, n_rows * limit + y
                found = _quotient(*noisy, reach, 1, limit, 1, ends)
                if noisy[1] < limit:
                    assert found.estimate is found.noise is None
                    continue
                assert 0 <= found.estimate <= 3
                if n_rows:
                    kept = Fraction(total, 2 * n_rows) + Fraction(3, 2)
                    assert abs(found.estimate - kept) <= found.noise <= 3


def test_a_bound_and_a_range_leave_their_parts_of_epsilon_to_the_others() -> None:
    """By bounded_mean.md."""

    def paid(bound: int | None, ends: tuple[int, int] | None) -> PrivacyLoss:
        return loss(Fraction(1), Fraction(1, 20), 10**9, bound, 1, ends)

    for bound, ends, parts, spread in (
        (4, None, (6, 13), Fraction(6 + 2 * 13, 19)),
        (None, (0, 3), (1, 19), Fraction(1 + 2 * 19, 20)),
        (4, (0, 3), (0, 1), Fraction(2)),
    ):
        choice, noise = (Fraction(part, sum(parts)) for part in parts)
        expected = PrivacyLoss(Fraction(1), rho=choice**2 / 8 + noise**2 / 2, bounded_range=spread)
        assert paid(bound, ends) == expected


def test_without_rows_there_is_no_mean(owner: dp_sql.Session, analyst: dp_sql.Session) -> None:
    nothing = "FROM bought WHERE part = 99"
    for session, unit in ((owner, ", privacy_unit := user_id"), (analyst, "")):
        call = f"DP_AVG(price, epsilon := 9000{unit}"
        assert session.sql(f"SELECT {call}) {nothing}").fetchall() == [(None,)]
        ((report,),) = session.sql(f"SELECT {call}, report := true) {nothing}").fetchall()
        assert report["estimate"] is report["noise"] is None


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("item", "why"),
    [
        ("rate", "sums of floating-point numbers are rounded"),
        ("CAST(stars AS UHUGEINT)", "only integers and decimals can be added up"),
    ],
)
def test_what_is_no_integer_or_decimal_is_refused_with_a_cast_that_works(
    owner: dp_sql.Session, item: str, why: str
) -> None:
    before = len(owner.receipts)
    query = f"SELECT DP_AVG({item}, epsilon := 9000, privacy_unit := user_id) FROM bought"
    with pytest.raises(ArgumentError, match=why) as raised:
        owner.sql(query)
    assert raised.value.suggestion == query.replace(
        item, f"TRY_CAST({item} AS DECIMAL(18, {4 if item == 'rate' else 2}))"
    )
    assert len(owner.receipts) == before
    assert owner.sql(raised.value.suggestion).fetchall()


def test_no_statement_is_proposed_that_reads_strings_as_numbers(owner: dp_sql.Session) -> None:
    item = "CAST(stars AS VARCHAR)"
    with pytest.raises(ArgumentError, match="If it holds numbers") as raised:
        owner.sql(f"SELECT DP_AVG({item}, epsilon := 9000, privacy_unit := user_id) FROM bought")
    assert not raised.value.suggestion


@pytest.mark.parametrize(
    ("given", "why", "instead"),
    [
        ("lower := 1", "together: upper is missing", "lower := 1, upper := 100"),
        ("upper := 1", "together: lower is missing", "upper := 1, lower := 0"),
        ("lower := 9, upper := 1", "lower must be below upper", "lower := 1, upper := 9"),
        ("lower := 1, upper := 2.5", "more decimals than UTINYINT", "lower := 1, upper := 2"),
        ("lower := 1, upper := 256", "does not fit UTINYINT", "lower := 1, upper := 255"),
        ("lower := 1, upper := stars", "must be a number", None),
        ("lower := 1, upper := '5'", "must be a number", None),
    ],
)
def test_a_range_that_is_none_is_refused_with_one_that_works(
    analyst: dp_sql.Session, given: str, why: str, instead: str | None
) -> None:
    before = len(analyst.receipts)
    query = f"SELECT DP_AVG(stars, epsilon := 9000, {given}) FROM bought"
    with pytest.raises(ArgumentError, match=why) as raised:
        analyst.sql(query)
    assert len(analyst.receipts) == before
    if instead is not None:
        assert raised.value.suggestion == query.replace(given, instead)
        assert analyst.sql(raised.value.suggestion).fetchall()
