"""Every refusal of sql/refusals.sql has its class, its words and its caret, and reads no row."""

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import dp_sql
from dp_sql import errors
from tests.conftest import free

CASES = re.findall(
    r"^-- (\w+): (.+)\n-- \^ (.+)\n((?:(?!--).+\n)+)",
    (Path(__file__).parent / "refusals.sql").read_text(encoding="utf-8"),
    re.MULTILINE,
)


def test_the_file_of_refusals_is_read_to_its_end() -> None:
    assert len(CASES) > 90
    assert "This bracket is never closed" in CASES[-1][1]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[1][:60]} {case[2][:20]}")
def test_a_refusal_says_what_and_where(
    shared: dp_sql.Session, case: tuple[str, str, str, str]
) -> None:
    kind, message, under_caret, statement = case
    with free(shared), pytest.raises(getattr(errors, kind), match=re.escape(message)) as caught:
        shared.sql(statement)
    error = caught.value
    assert error.position is not None
    assert statement[error.position :].startswith(under_caret)


@pytest.mark.thorough
def test_a_refusal_reads_no_private_row() -> None:
    read = []

    def batches() -> Iterator[pa.RecordBatch]:
        read.append(True)
        yield pa.record_batch({"user_id": [1], "title": ["Dune"], "year": [1]})

    schema = pa.schema({"user_id": pa.int64(), "title": pa.string(), "year": pa.int64()})
    ratings = pa.RecordBatchReader.from_batches(schema, batches())
    with dp_sql.connect() as session:
        session.execute("CREATE TABLE catalog AS SELECT 'Dune' AS title")
        for _, _, _, statement in CASES:
            with pytest.raises(dp_sql.DpSqlError):
                session.sql(statement)
        assert not read
        # The spy would have noticed:
        call = "DP_TOPK(title, 1, epsilon := 1, privacy_unit := user_id, domain := ['Dune'])"
        assert session.sql(f"SELECT {call} FROM ratings").fetchall() == [(["Dune"],)]
        assert read and ratings is not None


def test_two_places_on_one_line_of_many_are_told_apart() -> None:
    with dp_sql.connect() as session, pytest.raises(errors.ArgumentError) as caught:
        session.sql("SELECT 1,\n\tDP_TOPK(title, 3,\n\tepsilon := 0) FROM ratings")
    assert (caught.value.line, caught.value.column) == (2, 2)
    assert "LINE 2: \tDP_TOPK(title, 3,\n        \t^" in str(caught.value)
