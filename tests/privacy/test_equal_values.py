"""Values that are equal and yet differ: which of them counts never depends on where rows are stored.

DISTINCT keeps the one that DuckDB reads first, and other people's rows move what that is.
"""

from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dp_sql
from dp_sql.engines.duckdb import mechanism_udfs
from dp_sql.errors import NotPrivate, NotSupported
from dp_sql.privacy.expressions import elements
from dp_sql.privacy.relations import join_sql, person_groups
from tests.databases import asking_under, write_database

# A type: two values that are equal and differ, or nearly so; another; an item of them; and the
# second one's as a string.
PAIRS = {
    "DOUBLE": ("0.0", "'-0.0'", "9", "v", "-0.0"),
    "VARCHAR COLLATE NOCASE": ("'Dune'", "'dune'", "'Emma'", "v", "dune"),
    "STRUCT(a DOUBLE)": ("{'a': 0.0}", "{'a': '-0.0'::DOUBLE}", "{'a': 9}", "v.a", "-0.0"),
    "STRUCT(b STRUCT(a FLOAT))": ("{'b': {'a': 0}}", "{'b': {'a': '-0.0'::FLOAT}}", "{'b': {'a': 9}}", "v.b.a", "-0.0"),
    "STRUCT(a DOUBLE)[]": ("[{'a': 0.0}]", "[{'a': '-0.0'::DOUBLE}]", "[{'a': 9}]", "v[1].a", "-0.0"),
    "DOUBLE[]": ("[0.0]", "['-0.0'::DOUBLE]", "[9]", "v[1]", "-0.0"),
    "MAP(VARCHAR, DOUBLE)": ("MAP {'a': 0.0}", "MAP {'a': '-0.0'::DOUBLE}", "MAP {'a': 9}", "v", "{a=-0.0}"),
    "DOUBLE[1]": ("[0.0]", "['-0.0'::DOUBLE]", "[9]", "v[1]", "-0.0"),
    "DOUBLE[][]": ("[[0.0]]", "[['-0.0'::DOUBLE]]", "[[9]]", "v[1][1]", "-0.0"),
    "MAP(INTEGER, DOUBLE)": ("MAP {1: 0.0}", "MAP {1: '-0.0'::DOUBLE}", "MAP {1: 9}", "map_values(v)[1]", "-0.0"),
    "MAP(DOUBLE, VARCHAR)": ("MAP {0.0: 'a'}", "MAP {'-0.0'::DOUBLE: 'a'}", "MAP {9.0: 'a'}", "map_keys(v)[1]", "-0.0"),
    "INTERVAL": ("INTERVAL 1 MONTH", "INTERVAL 30 DAY", "INTERVAL 9 DAY", "v", "30 days"),
    "VARCHAR[]": ("['Dune' COLLATE NOCASE]", "['dune' COLLATE NOCASE]", "['Emma']", "v[1]", "dune"),
    "INTEGER[]": ("[1, 2]", "[1, 3]", "[9, 9]", "v[2]", "3"),
    "STRUCT(a INTEGER, b STRUCT(c DATE))": ("{'a': 1, 'b': NULL}", "{'a': 1, 'b': {'c': NULL}}", "{'a': 9, 'b': NULL}", "v.a", "1"),
    "STRUCT(a VARCHAR, b INTEGER)": ("{'a': 'Dune', 'b': 1}", "{'a': 'dune', 'b': 1}", "{'a': '', 'b': 9}", "v.b", "1"),
    "JSON": ("'{\"a\": 1}'", "'{\"a\":1}'", "'{\"a\": 9}'", "v", '{"a":1}'),
}  # fmt: skip
JOIN = "seen JOIN marks ON seen.mark = marks.mark AND marks.n > "
SOURCES = {
    "a join": f"SELECT user_id, {{x}} AS x FROM {JOIN}length({{x}}) * 0",
    "a join, then its rows": f"SELECT user_id, {{x}} AS x FROM (SELECT user_id, v, n FROM {JOIN}0) AS s WHERE n < 9",
    "a window": "SELECT user_id, {x} AS x FROM (SELECT user_id, v FROM seen "
    "QUALIFY row_number() OVER (PARTITION BY user_id ORDER BY mark) = 1) AS s",
    "DISTINCT": "SELECT user_id, {x} AS x FROM (SELECT DISTINCT user_id, v FROM seen) AS s",
}  # fmt: skip
# The domain is one item: DuckDB may list several in the order in which it finds them.
CALLS = ("DP_TOPK(x, 1, epsilon := 1, domain := ['{0}']{1})", "DP_COUNT(*, epsilon := 1{1})")


def database(folder: Path, kind: str, values: list[str], other: str) -> str:
    """One person's rows, stored one behind the other, and another person's."""
    path = folder / f"{len(list(folder.iterdir()))}.duckdb"
    rows = f"SELECT 1 AS user_id, 'x' AS mark, unnest([{', '.join(values)}]) AS v"
    fill = f"CREATE TABLE seen(user_id INTEGER, mark VARCHAR, v {kind}); INSERT INTO seen {rows}"
    # DuckDB 1.5 stores equal values that follow each other as the first of them, unless it is told
    # not to, and always where all values of a column are equal.
    fill += f"; INSERT INTO seen VALUES (2, 'y', {other})"
    if kind == "VARCHAR[]":  # a list keeps the collation of the strings of which it is made
        text = "CREATE TABLE texts(t VARCHAR COLLATE NOCASE); INSERT INTO texts VALUES "
        fill = text + ", ".join(f"({one.strip('[]').split()[0]})" for one in values)
        fill += "; CREATE TABLE seen AS SELECT 1 AS user_id, 'x' AS mark, [t] AS v FROM texts"
    plain = "SET force_compression = 'uncompressed'"
    write_database(
        path, f"{plain}; {fill}; CREATE TABLE marks AS SELECT 'x' AS mark, n FROM range(1, 4) t(n)"
    )
    return str(path)


def opened(path: str, most: int | None, folder: Path) -> dp_sql.Session:
    """An owner's session, or that of an analyst with at most so many rows of a person."""
    if most is None:
        return dp_sql.connect(path)
    policy = folder / "policy.toml"
    policy.write_text(
        'tables.seen.privacy_unit = "user_id"\npublic.tables = ["marks"]\n'
        f"limits.max_rows_per_person = {most}\n", "utf-8",
    )  # fmt: skip
    return dp_sql.connect(path, policy=str(policy), analyst="ann")


def taken(
    folder: Path, kind: str, most: int | None, asked: list[tuple[str, str]], patch: pytest.MonkeyPatch
) -> list[list[Any]]:  # fmt: skip
    """What the mechanism takes, with a person's rows in both orders; None: it is refused."""
    found: list[list[Any]] = []
    draw = mechanism_udfs._draw

    def spy(plan: Any, *lists: Any) -> Any:
        found[-1][-1] = [[*one] for one in lists]
        return draw(plan, *lists)

    patch.setattr(mechanism_udfs, "_draw", spy)
    *values, other, item, text = PAIRS[kind]
    for stored in (values, values[::-1]):
        found.append([])
        with opened(database(folder, kind, stored, other), most, folder) as session:
            for source, call in asked:
                unit = "" if most else ", privacy_unit := user_id"
                where = f" WHERE x = '{text}'" if "COUNT" in call else ""
                rows = SOURCES[source].format(x=f"CAST({item} AS VARCHAR)")
                found[-1].append(None)
                with suppress(NotPrivate, NotSupported):
                    session.sql(
                        f"SELECT {call.format(text, unit)} FROM ({rows}) AS t{where}"
                    ).fetchall()
    return found


def kinds_and_limits() -> Iterator[Any]:
    """Each kind with one limit; with the others it is slow."""
    for (i, kind), (j, most) in product(enumerate(PAIRS), enumerate([None, 1, 100])):
        marks = [] if (i + j) % 3 == 0 else [pytest.mark.slow]
        yield pytest.param(i, kind, j, most, marks=marks)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("nth_kind", "kind", "nth_most", "most"), list(kinds_and_limits()))
def test_the_place_of_a_row_decides_nothing(
    nth_kind: int, kind: str, nth_most: int, most: int | None, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """For each kind, source and limit; either call comes with any two of them."""
    asked = [(one, CALLS[(n + nth_kind + nth_most) % 2]) for n, one in enumerate(SOURCES)]
    one, other = taken(tmp_path, kind, most, asked, monkeypatch)
    assert one == other
    if kind in {"DOUBLE", "VARCHAR COLLATE NOCASE"}:
        assert None not in one
    if kind == "STRUCT(a INTEGER, b STRUCT(c DATE))" and most:
        assert one.count(None) == 1  # DISTINCT


# A type: a value, its float, and the float of an owner, whose expressions are taken as written.
FLOATS = {
    "DOUBLE": ("'{}'", "v", "v"), "FLOAT": ("'{}'", "v", "v"),
    "DOUBLE[]": ("['{}'::DOUBLE]", "unnest(v)", "unnest(v)"), "STRUCT(a FLOAT)": ("{{'a': '{}'::FLOAT}}", "v.a", None),
    "MAP(VARCHAR, DOUBLE)": ("MAP {{'a': '{}'::DOUBLE}}", "v['a']", None),
    "DOUBLE[1]": ("['{}'::DOUBLE]", "v[1]", "unnest(v)"), "DOUBLE[][]": ("[['{}'::DOUBLE]]", "v[1][1]", None),
    "MAP(INTEGER, DOUBLE)": ("MAP {{1: '{}'::DOUBLE}}", "map_values(v)[1]", None),
}  # fmt: skip


@pytest.mark.parametrize("value", ["-nan", "-0.0"])
@pytest.mark.parametrize("other", [None, "1.5", "the same without a sign"])
def test_no_one_sees_the_sign_of_zero_and_nan(
    value: str, other: str | None, tmp_path: Path
) -> None:
    """DuckDB stores the sign, or takes it from a column's statistics, as the other rows have it."""
    fill, policy = [], "limits.max_epsilon_per_query = 5000\n"
    for n, (kind, (written, *_)) in enumerate(FLOATS.items()):
        fill.append(f"CREATE TABLE t{n}(user_id INTEGER, v {kind})")
        if other is not None:
            unlike = written.format(value.strip("-") if "sign" in other else other)
            fill.append(f"INSERT INTO t{n} SELECT 99, {unlike}::{kind}")
        own = written.format(value)
        fill.append(f"INSERT INTO t{n} SELECT i, {own}::{kind} FROM range(40) AS r(i)")
        policy += f"tables.t{n}.privacy_unit = 'user_id'\n"
    filled = "; ".join([*fill, "CHECKPOINT"])
    where = "starts_with(CAST(x AS VARCHAR), '-') OR pow(x, -1) < 0"
    with asking_under(policy, filled, tmp_path) as analyst, duckdb.connect() as in_memory:
        in_memory.execute(filled)
        dp_sql.install(in_memory)
        for session, unit, at in ((analyst, "", 1), (in_memory, ", privacy_unit := user_id", 2)):
            call = f"DP_COUNT_DISTINCT(user_id, epsilon := 5000{unit})"
            for n, of_kind in enumerate(FLOATS.values()):
                if of_kind[at] is not None:
                    rows = f"(SELECT user_id, {of_kind[at]} AS x FROM t{n}) AS s"
                    sql = f"SELECT {call} FROM {rows} WHERE {where}"
                    assert session.sql(sql).fetchall() == [(0,)], sql


WRONG = [("STRUCT(a DOUBLE)", "a join", 100), ("DOUBLE[]", "DISTINCT", None), ("VARCHAR[]", "DISTINCT", None),
         ("STRUCT(b STRUCT(a FLOAT))", "a join", None), ("STRUCT(a DOUBLE)", "a window", 1)]  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize(("kind", "source", "most"), WRONG)
def test_the_test_would_see_which_row_is_read_first(
    kind: str, source: str, most: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "VARCHAR[]" and duckdb.__version__ < "2":
        pytest.skip("a list of DuckDB 1.5 has no collation")
    if most is not None and duckdb.__version__ < "2":
        pytest.skip("a window of DuckDB 1.5 reads the same one first, wherever both are stored")
    for module in (join_sql, person_groups):
        monkeypatch.setattr(module, "can_have_same_bits", lambda kind: True)
    monkeypatch.setattr(elements, "same_bits", lambda sql, kind: sql)
    one, other = taken(tmp_path, kind, most, [(source, CALLS[0])], monkeypatch)
    assert one != [None]
    assert one != other
