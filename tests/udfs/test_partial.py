"""The counts from part of the edges are those of all of them, whichever part comes first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from dp_sql.udfs.count_distinct import flow
from dp_sql.udfs.count_distinct.partial import PartialCounts, partial_cover_counts
from tests.udfs.covers import Runs, graph_of
from tests.udfs.test_flow_shapes import uniform

BOUNDS = (1, 2, 3, 4, 7, 16)
Keep = Callable[[Runs, int, np.random.Generator], Runs]


@dataclass
class Answer:
    items: Any
    people: Any
    complete: Any


class Source:
    """An engine over runs, which gives as much of each at first as `keep` says."""

    def __init__(self, runs: Runs, keep: Keep, rng: np.random.Generator, pieces: int = 1) -> None:
        self.runs = {
            int(code): run for code, run in zip(codes(len(runs), rng), runs, strict=True) if run
        }
        self.keep, self.rng, self.pieces = keep, rng, pieces
        self.person = codes(1 + max((p for run in runs for p in run), default=0), rng)
        self.n_people = len({person for run in runs for person in run})

    def answer(self, runs: dict[int, list[int]]) -> Iterable[Answer]:
        found = [(item, self.person[person]) for item, run in runs.items() for person in run]
        order = self.rng.permutation(len(found))
        items, people = np.array(found, np.int64).reshape(-1, 2)[order].T
        whole = [item for item, run in runs.items() if {*run} == {*self.runs[item]}]
        for k in range(self.pieces):
            done = whole if k == self.pieces - 1 else []
            yield Answer(
                items[k :: self.pieces], people[k :: self.pieces], np.array(done, np.int64)
            )

    def thin(self, people_per_item: int) -> Iterable[Answer]:
        kept = self.keep(list(self.runs.values()), people_per_item, self.rng)
        return self.answer({item: list(run) for item, run in zip(self.runs, kept, strict=True)})

    def complete(self, items: Any) -> Iterable[Answer]:
        return self.answer({item: list(self.runs[item]) for item in items.tolist()})


def codes(n: int, rng: np.random.Generator) -> Any:
    return rng.choice(np.array([-(2**63), 2**63 - 1, -1, *range(5 * n)]), n, replace=False)


def first_person(runs: Runs, n: int, rng: np.random.Generator) -> Runs:
    return [[min(run)] for run in runs]


def last_person(runs: Runs, n: int, rng: np.random.Generator) -> Runs:
    return [[max(run)] for run in runs]


def some_people(runs: Runs, n: int, rng: np.random.Generator) -> Runs:
    return [[run[k] for k in rng.permutation(len(run))[:n].tolist()] for run in runs]


def busiest_person(runs: Runs, n: int, rng: np.random.Generator) -> Runs:
    degree = np.bincount([person for run in runs for person in {*run}])
    return [[max(run, key=lambda person: degree[person])] for run in runs]


KEEPS: tuple[Keep, ...] = (first_person, last_person, some_people, busiest_person)


def check(runs: Runs, keep: Keep, rng: np.random.Generator, pieces: int = 1) -> PartialCounts:
    counts = flow.max_cover_counts(graph_of(runs), BOUNDS).tolist()
    for known in (True, False):
        source = Source(runs, keep, rng, pieces)
        n_people = source.n_people if known else None
        found = partial_cover_counts(source.thin, source.complete, BOUNDS, n_people, 2)
        assert found.counts == counts
    return found


@pytest.mark.parametrize("keep", KEEPS)
def test_whatever_comes_first_the_counts_are_those_of_all_edges(keep: Keep) -> None:
    rng = np.random.default_rng(1)
    for _ in range(150):
        n_items, n_people = rng.integers(1, 30, 2).tolist()
        runs = uniform(int(rng.integers(1, 90)), n_items, n_people, rng)
        check(runs, keep, rng, int(rng.integers(1, 4)))
