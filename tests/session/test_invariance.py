"""An answer's distribution does not depend on the order of rows, threads or Python's hashing.

At a loss at which nearly all probability is on one answer, that answer is compared.
"""

import os
import subprocess
import sys

import pytest

import dp_sql
from tests.conftest import SURE

PROGRAM = f"""
import dp_sql, sys
threads, order = sys.argv[1:]
with dp_sql.connect() as session:
    session.execute(f"SET threads = {{threads}}")
    session.execute("SET enable_progress_bar = false")  # DuckDB's, where a machine is slow
    session.execute(  # more rows than one thread scans at a time, 122,880
        "CREATE TABLE t AS SELECT i % 997 AS person, i // 997 % 97 AS turn, "
        "if(person >= 10 * turn, turn, 0) AS item "  # 997 - 10 * item people: no ties
        f"FROM range(130000) r(i) ORDER BY {{order}}"
    )
    unit = "{SURE}, privacy_unit := person"
    for domain in ("observed", "[1, 2, 3, 0, 4, 5, 6, 7, 8, 9, 10]"):
        call = f"DP_TOPK(item, 7, {{unit}}, domain := {{domain}})"
        print(session.sql(f"SELECT {{call}} FROM t").fetchall())
    print(session.sql(f"SELECT DP_COUNT_DISTINCT(item, {{unit}}, max_contributions := 1, "
                      "report := true) FROM t").fetchall())
"""


def answer(threads: int, order: str, hashing: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(threads), order],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": hashing},
    )
    return done.stdout


@pytest.mark.thorough
def test_order_threads_and_hashing_change_nothing() -> None:
    expected = answer(1, "i", "0")
    assert expected.count("\n") == 3
    assert answer(2, "i DESC", "1") == expected
    assert answer(2, "hash(i)", "2") == expected


@pytest.mark.one_in(2)
@pytest.mark.parametrize("k", [1, 3])
def test_ties_are_broken_by_chance_and_not_by_place(k: int) -> None:
    # Thirty tied items: the first rank falls twice on one item with chance 1/30 a time.
    with dp_sql.connect() as session:
        session.execute("CREATE TABLE t AS SELECT 1 AS person, i AS item FROM range(30) r(i)")
        call = f"DP_TOPK(item, {k}, {SURE}, privacy_unit := person, domain := observed)"
        first = {session.sql(f"SELECT {call}[1] FROM t").fetchall()[0][0] for _ in range(40)}
    assert len(first) > 5  # fails by chance below 1e-20
