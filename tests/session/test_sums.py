"""DP_SUM: exact net sums of every integer type and of decimals, whatever one person's rows hold."""

import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dp_sql
from dp_sql.errors import ArgumentError
from dp_sql.sql.functions.sum import Sum
from tests.session.runs import noted_runs

MOST = 2**126
SMALL = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64, "HUGEINT": 128}
RANGES = {
    **{name: (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for name, bits in SMALL.items()},
    **{f"U{name}": (0, 2**bits - 1) for name, bits in SMALL.items()},
}
DECIMALS = {(4, 1), (9, 0), (18, 3), (18, 18), (19, 2), (38, 0), (38, 10), (38, 38)}
KINDS = [*RANGES, *(f"DECIMAL({width},{scale})" for width, scale in sorted(DECIMALS))]


def scale_of(kind: str) -> int:
    return int(kind.partition(",")[2][:-1] or 0)


def ends_of(kind: str) -> tuple[int, int]:
    """The least and the largest value of a type, in units of its last place."""
    if kind in RANGES:
        return RANGES[kind]
    most = 10 ** int(kind[len("DECIMAL(") :].partition(",")[0]) - 1
    return -most, most


def written(units: int, scale: int) -> str:
    digits = str(abs(units)).rjust(scale + 1, "0")
    return ("-" if units < 0 else "") + (
        f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
    )


def drawn_rows(kind: str, draws: random.Random) -> list[tuple[int, int | None]]:
    """Rows of people in units: small and large ones, both signs, ends of the type, and NULL."""
    low, high = ends_of(kind)
    values = [None, 0, 1, low, high, high // 2, *(draws.randint(low, high) for _ in range(4))]
    small = [max(low, -3), 2, 1]
    rows = [(1, high)] * 9 + [(2, low)] * 9 + [(3, high), (3, low)]
    for person in range(4, 16):
        of = small if person % 2 else values
        rows += [(person, draws.choice(of)) for _ in range(draws.randrange(1, 7))]
    return rows


@pytest.fixture(scope="module")
def rows() -> dict[str, list[tuple[int, int | None]]]:
    draws = random.Random(16)
    return {kind: drawn_rows(kind, draws) for kind in KINDS}


@pytest.fixture(scope="module")
def shop(
    rows: dict[str, list[tuple[int, int | None]]], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    policy = []
    with duckdb.connect(str(folder / "shop.duckdb")) as con:
        for i, kind in enumerate(KINDS):
            con.execute(f"CREATE TABLE t{i} (user_id INTEGER, x {kind}, day INTEGER)")
            values = ", ".join(
                f"({person}, {'NULL' if x is None else repr(written(x, scale_of(kind)))}, {at % 2})"
                for at, (person, x) in enumerate(rows[kind])
            )
            con.execute(f"INSERT INTO t{i} VALUES {values}, (NULL, 1, 0)".replace(
                "(NULL, 1, 0)", "(NULL, 0, 0)"))  # fmt: skip
            policy.append(f'tables.t{i}.privacy_unit = "user_id"')
        con.execute("CREATE TABLE other (user_id INTEGER, f DOUBLE, s VARCHAR, d DATE)")
        con.execute(
            "INSERT INTO other SELECT i, i / 4, i::VARCHAR, '2026-01-01' FROM range(9) t(i)"
        )
    policy.append('tables.other.privacy_unit = "user_id"')
    (folder / "policy.toml").write_text("\n".join(policy))
    return folder


Histogram = dict[tuple[int, int], tuple[int, int]]  # (negative, bucket): people, their sizes


def histogram(nets: list[int], most: int, one_sided: bool) -> Histogram:
    found: Histogram = {}
    for net in nets:
        size = min(abs(net), most)
        if size and not (one_sided and net < 0):
            at = int(net < 0), (size - 1).bit_length()
            people, total = found.get(at, (0, 0))
            found[at] = people + 1, total + size
    return found


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Histogram]:
    """What the mechanism gets, in the order of its runs."""

    def note(buckets: Any, people: Any, sums: Any, negative: Any, **_: Any) -> Histogram:
        entries = zip(negative, buckets, people, sums, strict=True)
        return {(side, at): (n, total) for side, at, n, total in entries}

    return noted_runs(monkeypatch, Sum, note)


def nets_of(rows: list[tuple[int, int | None]], kind: str, day: int | None = None) -> list[int]:
    nets: dict[int, int] = {}
    for at, (person, x) in enumerate(rows):
        if x is not None and day in {None, at % 2}:
            nets[person] = nets.get(person, 0) + x
    is_wide = ends_of(kind)[1] >= 2**64
    return [max(-MOST, min(net, MOST)) if is_wide else net for net in nets.values()]


def check(found: Histogram, expected: Histogram) -> None:
    """Compare; one person beyond 2**126 may count with up to a unit of 2**64 less."""
    assert found.keys() == expected.keys()
    for at, (people, total) in expected.items():
        assert found[at][0] == people
        slack = people * 2**64 if at[1] == 126 else 0
        assert total - slack <= found[at][1] <= total


@pytest.mark.one_in(6)
@pytest.mark.parametrize("kind", KINDS)
def test_the_mechanism_gets_the_net_sum_of_each_person(
    owner: dp_sql.Session, analyst: dp_sql.Session, rows: Any, seen: list[Histogram], kind: str
) -> None:
    table, unsigned = f"t{KINDS.index(kind)}", kind.startswith("U")
    nets = nets_of(rows[kind], kind)
    unit = 10 ** scale_of(kind)
    bound = written(units := 7 * unit if scale_of(kind) < 38 else 7, scale_of(kind))
    for more, most, one_sided in (
        ("", MOST, unsigned),
        (", lower := 0", MOST, True),
        (f", contribution_bound := {bound}", units, unsigned),
    ):
        for session, person in ((owner, ", privacy_unit := user_id"), (analyst, "")):
            call = f"DP_SUM(x, epsilon := 9000, report := true{person}{more})"
            ((report,),) = session.sql(f"SELECT {call} FROM {table}").fetchall()
            check(seen[-1], histogram(nets, most, one_sided))
            assert (report["lower_bound"] is None) is not one_sided
            assert type(report["estimate"]) is (Decimal if "DECIMAL" in kind else int)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", ["BIGINT", "DECIMAL(18,3)", "DECIMAL(38,10)", "UHUGEINT"])
def test_groups_have_sums_of_their_own(
    owner: dp_sql.Session, analyst: dp_sql.Session, rows: Any, seen: list[Histogram], kind: str
) -> None:
    for session, person in ((owner, ", privacy_unit := user_id"), (analyst, "")):
        call = (f"DP_SUM(x, epsilon := 9000{person}, groups := [0, 1, 2], "
                "max_groups_contributed := 3)")  # fmt: skip
        text = f"SELECT day, {call} AS s FROM t{KINDS.index(kind)} GROUP BY day ORDER BY day"
        assert [day for day, _ in session.sql(text).fetchall()] == [0, 1, 2]
        for day in (0, 1, 2):
            nets = nets_of(rows[kind], kind, day)
            check(seen[day - 3], histogram(nets, MOST, kind.startswith("U")))


def test_a_given_bound_clips_each_net_sum(owner: dp_sql.Session) -> None:
    for kind, bound in (("TINYINT", "1"), ("DECIMAL(4,1)", "0.5"), ("HUGEINT", "2")):
        call = (
            f"DP_SUM(x, epsilon := 10000, privacy_unit := user_id, contribution_bound := {bound})"
        )
        source = f"(SELECT user_id, CAST(floor(f) - 1 AS {kind}) AS x FROM other) AS t"
        ((found,),) = owner.sql(f"SELECT {call} FROM {source}").fetchall()
        nets = [Decimal(i // 4 - 1) for i in range(9)]
        assert found == sum(max(-Decimal(bound), min(net, Decimal(bound))) for net in nets)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("item", ["f", "f + 1"])
def test_what_is_no_exact_number_is_refused_with_a_cast_that_works(
    owner: dp_sql.Session, analyst: dp_sql.Session, item: str
) -> None:
    for session, person in ((owner, ", privacy_unit := user_id"), (analyst, "")):
        with pytest.raises(ArgumentError) as caught:
            session.sql(f"SELECT DP_SUM({item}, epsilon := 1{person}) FROM other")
        proposed = caught.value.suggestion
        assert "AS DECIMAL(18, 4))" in proposed
        assert session.sql(proposed).fetchall()
    with pytest.raises(ArgumentError, match="d has type DATE"):
        analyst.sql("SELECT DP_SUM(d, epsilon := 1) FROM other")


def test_a_bound_between_two_units_is_refused_with_one_that_works(analyst: dp_sql.Session) -> None:
    table = f"t{KINDS.index('DECIMAL(4,1)')}"
    with pytest.raises(ArgumentError, match=r"multiple of 0\.1") as caught:
        analyst.sql(f"SELECT DP_SUM(x, epsilon := 1, contribution_bound := 0.55) FROM {table}")
    assert "contribution_bound := 0.6" in caught.value.suggestion


def test_nothing_is_raised_by_noise_beyond_the_type(analyst: dp_sql.Session) -> None:
    for kind in ("DECIMAL(38,38)", "HUGEINT", "DECIMAL(38,0)"):
        table, scale = f"t{KINDS.index(kind)}", scale_of(kind)
        bound = written(2**126, scale)
        call = f"DP_SUM(x, epsilon := 1e-9, contribution_bound := {bound}, report := true)"
        found = [analyst.sql(f"SELECT {call} FROM {table}").fetchall()[0][0] for _ in range(4)]
        ends = 2**127 - 1 if kind == "HUGEINT" else Decimal(written(10**38 - 1, scale))
        assert all(abs(one["estimate"]) in {ends, ends + (kind == "HUGEINT")} for one in found)
        assert all(one["noise"] == ends for one in found)


def test_a_plain_connection_answers_in_the_type_of_a_sum() -> None:
    con = dp_sql.install(duckdb.connect())
    largest = "'340282366920938463463374607431768211455'"
    kinds = {"INTEGER": "i", "DECIMAL(18,3)": "i", "DECIMAL(38,38)": "0.5", "UHUGEINT": largest}
    for kind, item in kinds.items():
        con.execute(
            f"CREATE OR REPLACE TABLE t AS SELECT i AS user_id, {item}::{kind} AS x "
            "FROM range(9) r(i)"
        )
        call = "DP_SUM(x, epsilon := 9000, privacy_unit := user_id, report := {})"
        answer = f"SELECT s, typeof(s) FROM (SELECT {call.format('false')} AS s FROM t)"
        ((value, kind_of),) = con.sql(answer).fetchall()
        of_duckdb = con.sql("SELECT typeof(sum(x)) FROM t").fetchall()[0][0]
        assert kind_of == ("HUGEINT" if kind == "UHUGEINT" else of_duckdb)
        ((report,),) = con.sql(f"SELECT {call.format('true')} AS s FROM t").fetchall()
        assert type(report["noise"]) is type(value)
        assert (report["lower_bound"] is None) == (kind != "UHUGEINT")
