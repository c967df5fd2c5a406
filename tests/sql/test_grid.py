"""The grid of an answer: positions of all values of a type, at the ends of the type and beyond."""

import duckdb
import pytest

from dp_sql.sql.grid import Grid

NS_OF_DAY = 86_400 * 10**9
LEAST, MOST = -(10**60), 10**60  # of values beyond all others

# A grid, and values with their units.
TIMES = {"'infinity'": MOST, "'-infinity'": LEAST}
CASES: list[tuple[Grid, dict[str, int]]] = [
    (
        Grid("TIMESTAMP_NS", -105_000 * NS_OF_DAY, NS_OF_DAY, 210_000, 0),
        {**TIMES, "'1678-01-01'": LEAST, "'2262-04-10'": MOST, "'1970-01-02'": NS_OF_DAY,
         "'1969-12-31 23:59:59.999999999'": -1},
    ),
    (
        Grid("TIMESTAMP_NS", 0, 1, 1 << 62, 0),
        {**TIMES, "'1678-01-01'": LEAST, "'2262-04-10'": MOST, "'1970-01-02'": NS_OF_DAY},
    ),
    (Grid("TIMESTAMP", -62_135_596_800 * 10**6, 10**6, 315_537_897_599, 0),
     {**TIMES, "'290309-12-22 (BC) 00:00:00'": LEAST, "'1970-01-01 00:00:01.5'": 1_500_000}),
    (Grid("DATE", -719_162, 1, 3_652_058, 0),
     {**TIMES, "'5877642-06-25 (BC)'": LEAST, "'1970-02-01'": 31}),
    (Grid("BIGINT", -(1 << 63), 4, (1 << 62) - 1, 0),
     {str(x): x for x in (-(1 << 63), (1 << 63) - 1, 0, 7)}),
    (Grid("UBIGINT", 0, 5, (1 << 64) // 5, 0), {str(x): x for x in (0, 7, (1 << 64) - 1)}),
    (Grid("HUGEINT", -(1 << 126), 1 << 65, (1 << 62) - 1, 0),
     {f"'{x}'": x for x in (-(1 << 127), (1 << 127) - 1, 0, 7)}),
    (Grid("DECIMAL(38,0)", -(10**36) + 1, 10**18, 10**18, 0),
     {f"'{x}'": x for x in (-(10**38) + 1, 10**38 - 1, 0, 7)}),
    (Grid("DECIMAL(38,38)", -(10**36) + 1, 10**18, 10**18, 38),
     {"'0.99999999999999999999999999999999999999'": MOST, "'-0.9'": LEAST, "0": 0}),
]  # fmt: skip


@pytest.mark.parametrize(("grid", "values"), CASES, ids=[one.type for one, _ in CASES])
def test_no_value_of_a_type_fails_and_each_has_its_position(
    grid: Grid, values: dict[str, int]
) -> None:
    listed = ", ".join(f"({i}, CAST({x} AS {grid.type}))" for i, x in enumerate([*values, "NULL"]))
    ends = ", ".join(f"({i}, {grid.value(str(at))})" for i, at in ((-2, 0), (-1, grid.n_steps)))
    rows = duckdb.sql(
        f"SELECT {grid.position('x')} FROM (VALUES {listed}, {ends}) AS t(i, x) ORDER BY i"
    ).fetchall()
    steps = [(units - grid.lower) // grid.step for units in values.values()]
    within = [min(max(at, 0), grid.n_steps) for at in steps]
    assert [at for (at,) in rows] == [0, grid.n_steps, *within, None]
