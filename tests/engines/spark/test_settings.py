"""A worker's DuckDB has the settings without which one person's row could make its part fail."""

import duckdb
import pyarrow as pa

from dp_sql.engines.protocol import SETTINGS
from dp_sql.engines.spark.jobs import parts_of
from dp_sql.engines.spark.parts import _select, task_database
from dp_sql.engines.spark.question_sql import task

_READ = "SELECT current_setting('TimeZone'), current_setting('disabled_optimizers')"
# Both TRY have i + 1 in common; computed before them, it overflows outside of both.
_TRIED = """SELECT count(TRY((i + 1) * 2)), count(TRY((i + 1) * 3))
    FROM (VALUES (9223372036854775807), (1)) AS t(i)"""


def test_parts_grow_where_there_would_be_too_many() -> None:
    assert [*map(parts_of, (0, 1, 10**6, 10**6 + 1, 10**10))] == [1, 1, 1, 2, 10_000]
    assert parts_of(10**11) == 10_000


def test_workers_have_the_settings_of_every_engine() -> None:
    with task_database(task({}, (), "", 0), 0) as worker, duckdb.connect() as wanted:
        for setting in SETTINGS:
            wanted.execute(setting)
        assert worker.execute(_READ).fetchall() == wanted.execute(_READ).fetchall()


def test_no_row_fails_what_is_tried_in_a_worker() -> None:
    with task_database(task({}, (), "", 0), 0) as worker:
        assert worker.execute(_TRIED).fetchall() == [(1, 1)]


def test_long_strings_do_not_make_a_part_fail() -> None:
    """Arrow's string has less than 2^31 bytes in a column, all rows together."""
    with task_database(task({}, (), "", 0), 0) as worker:
        kinds = _select(worker, "SELECT 'a' AS a, encode('a') AS b").schema.types
    assert kinds == [pa.large_string(), pa.large_binary()]
