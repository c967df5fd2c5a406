"""Rows for several DP calls in one SELECT, and draws that are watched."""

from collections.abc import Callable
from typing import Any

import pytest

from dp_sql.sql.functions import FUNCTIONS
from dp_sql.sql.shape import Shape
from tests.conftest import SURE

ROWS = """
CREATE TABLE regions AS SELECT unnest(['r0', 'r1', 'r2', 'none']) AS name;
CREATE TABLE genres AS SELECT unnest(['t0', 't1', 't2', 't3']) AS title, unnest([1, 1, 2, 2]) AS genre;
CREATE TABLE tags AS SELECT unnest(['t0', 't0', 't1', 't3']) AS title, unnest(['a', 'b', 'a', 'c']) AS tag;
CREATE TABLE views AS
    SELECT hash(i) % 12 AS user_id, 'r' || (hash(i + 1000) % 4) AS region,
           CASE WHEN hash(i + 7) % 5 < 4 THEN 't' || (hash(i + 70) % 5) END AS title,
           CASE WHEN hash(i + 9) % 7 < 5 THEN (hash(i + 90) % 9)::INTEGER END AS minutes
    FROM range(150) t(i);
INSERT INTO views VALUES (NULL, 'r0', 't0', 1), (1, NULL, 't1', 2), (13, 'r1', NULL, NULL);
"""


UNIT = f"{SURE}, privacy_unit := user_id"


def wrap_draws(monkeypatch: pytest.MonkeyPatch, before: Callable[[Shape, Any], None]) -> None:
    """Have `before` called with what each mechanism takes."""
    shapes = [shape for one in FUNCTIONS.values() for shape in one.shapes]
    for cls in dict.fromkeys(base for shape in shapes for base in shape.__mro__):
        if "draw_each" in vars(cls) and cls is not Shape:
            real_each: Any = vars(cls)["draw_each"]

            def draw_each(self: Shape, *given: Any, real: Any = real_each) -> Any:
                for lists in given[2]:
                    before(self, lists)
                return real(self, *given)

            monkeypatch.setattr(cls, "draw_each", draw_each)
            continue
        if "draw" not in vars(cls) or cls is Shape:
            continue

        real: Any = vars(cls)["draw"]

        def draw(self: Shape, *given: Any, real: Any = real) -> Any:
            before(self, given[2:])
            return real(self, *given)

        monkeypatch.setattr(cls, "draw", draw)


def priced(call: str, number: int, grouped: str) -> str:
    """The call with an epsilon of its own, by which its answer is recognised."""
    unit = UNIT.replace("10000", str(10000 - number))
    return call.format(f"{unit}, {grouped}" if grouped else unit)
