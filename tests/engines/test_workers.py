"""What Spark's workers run counts the same without Spark, however people are split."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.many_machines import counted
from dp_sql.engines.protocol import PART
from dp_sql.engines.spark.jobs import MERGED_HERE
from dp_sql.engines.spark.parts import PER_CODE, Task
from dp_sql.engines.spark.question_sql import BoundQuestion
from dp_sql.udfs.count_distinct import partial
from dp_sql.udfs.count_distinct.bounded import DIFFERENCE, candidates
from dp_sql.udfs.count_distinct.flow import max_cover_counts
from dp_sql.udfs.count_distinct.graph import build_graph


@pytest.mark.one_in(3)
@pytest.mark.parametrize("n_parts", [1, 3, MERGED_HERE + 2])
def test_workers_send_what_the_counts_need(n_parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partial, "PEOPLE_PER_ITEM", 1)
    draws = np.random.default_rng(1)
    people = (40 * draws.random(600) ** 2).astype(np.int64)
    items = (300 * draws.random(600) ** 3).astype(np.int64)
    counts, rounds, _ = counted(pa.table({"user_id": people, "item": items}), n_parts)
    assert counts == counts_of(people, items)
    assert counts[0] < counts[-1] and len(rounds) > 1  # there was more to ask for


@pytest.mark.thorough
def test_two_people_of_one_code_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: parts that number their people from the same number."""
    right = BoundQuestion.work

    def alike(self: BoundQuestion, n_slices: int) -> Task:
        work = right(self, n_slices)
        return replace(work, answer=work.answer.replace(f"{PART}() * {PER_CODE} + ", ""))

    monkeypatch.setattr(BoundQuestion, "work", alike)
    people, items = np.arange(60) // 2, np.arange(60)
    found = counted(pa.table({"user_id": people, "item": items}), 3)
    assert found.counts != counts_of(people, items)


def counts_of(people: np.ndarray, items: np.ndarray) -> list[int]:
    """F for each bound, from all pairs."""
    pairs = np.unique(np.stack([items, people]), axis=1)
    items, people = (np.unique(codes, return_inverse=True)[1] for codes in pairs)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(items))])
    found = max_cover_counts(build_graph(offsets, people), candidates(100_000, DIFFERENCE))
    return [int(n) for n in found]
