"""The compiled kernels: mutants of them are rejected, and a sanitizer reports nothing."""

import ctypes
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dp_sql.udfs.count_distinct import flow, kernels
from tests.udfs.compiling import FOLDER, changed, changed_kernels, compile_changed
from tests.udfs.covers import READS, Runs, check_every_bound, graph_of, reading
from tests.udfs.test_flow_shapes import chain, grouped, pairs, power_law, uniform

MUTANTS = {
    "a search from an item is clean where it ran into others": (
        "if (met == f->phase) result = FAILED;", ""
    ),
    "all who were met are dead though a path was found": (
        "f->n_covered > before ? 0 : GONE", "f->n_covered > before + 1 ? 0 : GONE"
    ),
    "a tree goes on after its path": ("f->next[root] = -1;", ""),
    "who is further away than the nearest exposed person is dead": (
        "head < n_met ? f->level[f->queue[head]] + 1 : GONE", "GONE"
    ),
    "levels end too early": (
        "if (f->level[f->people[k]] == 0) meet(",
        "if (f->level[f->people[k]] == 0 && f->level[holder] < 2) meet(",
    ),
    "who is raised is dead": ("least < DEAD ? least + 1 : GONE", "GONE"),
    "a path from a person is not shifted": (
        "f->cover[f->items[f->next[person]++]] = person;", "f->next[person]++;"
    ),
    "a path from an item is not shifted": (
        "f->cover[item] = f->people[f->offsets", "(void)f->people[f->offsets"
    ),
    "someone with room for one item more is no longer exposed": (
        "if (f->load[person] == f->bound || f->level", "if (f->load[person] + 1 >= f->bound || f->level"
    ),
    "an item is lost when the search goes back": (
        "if (cover[item] >= 0) hold(f", "if (cover[item] > 0) hold(f"
    ),
    "rooms are counted for one step only": ("f->room = f->n_alive * step;", "f->room = f->n_alive;"),
}  # fmt: skip


def check_hard_graphs() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        graphs = [
            pairs(60, 12, rng), uniform(150, 60, 50, rng), power_law(300, 150, 60, rng),
            shuffled(chain(60), rng),
        ]  # fmt: skip
        for runs in graphs:
            for times in READS:
                with reading(times):
                    check_every_bound(runs, 8)
                    check_every_bound(runs, 9, step=4)


def shuffled(runs: Runs, rng: np.random.Generator) -> Runs:
    codes = rng.permutation(max(map(max, runs)) + 1)
    return [codes[rng.permutation(runs[k])].tolist() for k in rng.permutation(len(runs))]


@pytest.mark.thorough
def test_the_kernels_pass_what_mutants_have_to_fail() -> None:
    check_hard_graphs()


@pytest.mark.thorough
@pytest.mark.pure
@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutants_are_rejected(mutant: str, tmp_path: Path) -> None:
    wrong = changed_kernels(tmp_path, *MUTANTS[mutant])
    with wrong, pytest.raises((AssertionError, IndexError)):
        check_hard_graphs()


@pytest.fixture
def phases(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Has an element for each phase from people."""
    found, phases = kernels.library(), list[int]()

    def counted(*given: object) -> int:
        phases.append(1)
        again: int = found.phase_from_people(*given)
        return again

    used = ("little_room", "hold_cover", "raise_from_items")
    names = {name: getattr(found, name) for name in used}
    monkeypatch.setattr(
        flow, "library", lambda: SimpleNamespace(**names, phase_from_people=counted)
    )
    return phases


@pytest.mark.parametrize("times", [-2, -1])
def test_the_phases_of_a_bound_are_few(times: int, phases: list[int]) -> None:
    rng = np.random.default_rng(2)
    for runs in (chain(3000), pairs(900, 12, rng), uniform(6000, 2000, 2000, rng)):
        with reading(times):
            for _ in flow.covers(graph_of(runs), range(1, 20)):
                assert len(phases) <= 3 + 2 * math.isqrt(len(runs))
                phases.clear()


def test_people_take_as_many_items_of_their_own_as_they_may_at_once(phases: list[int]) -> None:
    """Else a bound that grows by many would use up its forests for these."""
    n = 2000
    each = np.concatenate([np.arange(n), np.arange(n), np.repeat(np.arange(n), 31)])
    items = np.concatenate([np.arange(n), np.arange(n) + 1, n + 1 + np.arange(31 * n)])
    rng = np.random.default_rng(4)
    items, each = rng.permutation(items.max() + 1)[items], rng.permutation(n)[each]
    graph = graph_of(grouped(items, each))
    with reading(-1):
        assert [n for _, n, _ in flow.covers(graph, (16, 32))] == [16 * n, 32 * n]
    assert 0 < len(phases) < 12


def test_the_search_from_items_goes_on_where_most_failures_are_clean() -> None:
    def edges_read(runs: Runs) -> float:
        graph = graph_of(runs)
        found = flow._empty_flow(graph)
        found.bound, (sure, most, _) = 1, flow._limits(graph)
        done = kernels.library().raise_from_items(ctypes.byref(found), 1, sure, most)
        return float(found.n_reads / graph.people.size) if done else -1

    rng, n = np.random.default_rng(3), 4000
    item, person = (rng.random((2, 3 * n)) ** 3 * n).astype(np.int64)
    assert edges_read(grouped(item, person)) > 1
    assert edges_read(uniform(3 * n, n, n, rng)) == -1
    assert 0 < edges_read(uniform(3 * n, 2 * n // 3, n, rng)) < 1


def test_both_languages_know_the_same_struct() -> None:
    assert kernels.library().size_of_flow() == ctypes.sizeof(kernels.Flow)
    text = (FOLDER / "flow.h").read_text()
    fields = text[text.index("typedef struct {") : text.index("} Flow;")]
    names = re.findall(r"(\w+)[,;]", re.sub(r"/\*.*?\*/", "", fields))
    assert names == [name for name, _ in kernels.Flow._fields_]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("i64 n_edges, n", "i64 more, n_edges, n"), ("i64 greedy_round", "i64 round_of")],
)
def test_a_library_of_another_version_is_refused(right: str, wrong: str, tmp_path: Path) -> None:
    older = changed_kernels(tmp_path, right, wrong)
    with older, pytest.raises(ImportError, match="older than the code"):
        kernels.library()


@pytest.mark.parametrize("wrong", [np.zeros(3), np.zeros(3, np.int64), np.zeros(6, np.int32)[::2]])
def test_arrays_of_another_type_never_reach_the_kernels(wrong: np.ndarray) -> None:  # type: ignore[type-arg]
    with pytest.raises(TypeError):
        kernels.Flow().point(load=wrong)
    with pytest.raises(ctypes.ArgumentError):
        kernels.lists_by_person(wrong, wrong, wrong, 1)


SANITIZED = """
import sys
from pathlib import Path
import numpy
from dp_sql.udfs.count_distinct import greedy, kernels, stored_pairs
kernels.LIBRARY = Path(sys.argv[1])
from tests.udfs import test_slots, test_stored_pairs, test_strings
from tests.udfs.test_kernels import check_hard_graphs
from tests.udfs.covers import graph_of
from tests.udfs.test_partial import check_random_graphs
for name in ("votes", "means", "rows", "summaries", "lists"):
    getattr(test_slots, f"check_{name}")()
test_strings.check_equal_hashes()
test_strings.check_many_values(100_000)
stored_pairs.WHOLE, stored_pairs.IN_MEMORY = 0, 1000
for seed in range(50):
    test_stored_pairs.check_counts(None, numpy.random.default_rng(seed))
check_hard_graphs()
check_random_graphs()
graph = graph_of([[p % 701, p * 7 % 701, p] for p in range(5000)])
print(greedy.cover_counts(graph.offsets, graph.people, range(1, 21))[-1])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("", ""),
        ("while (edge < end && f->load", "while (edge <= end && f->load"),
        ("if (k + AHEAD < n)", "if (k + AHEAD <= n)"),
    ],
)
def test_a_sanitizer_finds_nothing_and_finds_a_mutant(
    tmp_path: Path, right: str, wrong: str
) -> None:
    runtime = subprocess.run(
        ["cc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not Path(runtime).is_absolute():
        pytest.skip("cc has no address sanitizer that can be preloaded")
    checks = ("-fsanitize=address,undefined", "-fno-sanitize-recover", "-g")
    compile_changed(changed(tmp_path, right, wrong), tmp_path / "checked.so", *checks)
    options = {"LD_PRELOAD": runtime, "ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"}
    run = subprocess.run(
        [sys.executable, "-c", SANITIZED, str(tmp_path / "checked.so")],
        env={**os.environ, **options}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (run.returncode == 0) == (not right), run.stderr[-2000:]
