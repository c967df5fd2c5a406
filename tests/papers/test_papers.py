"""The frame of examples/papers: trials are kept, verdicts judge, and the quick run runs."""

import csv
import doctest
import importlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from examples.papers.frame.command import Setting, command
from examples.papers.frame.report import shown, write_table, write_verdicts
from examples.papers.frame.sources import Source, SourceError, find
from examples.papers.frame.trials import Point, Trials
from examples.papers.frame.verdicts import judge, range_of, range_of_quantile

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]


def counting(log: list[int]) -> Callable[[], int]:
    def once() -> int:
        log.append(len(log))
        return len(log)

    return once


def test_trials_that_are_done_are_not_run_again(tmp_path: Path) -> None:
    log: list[int] = []
    few = Trials(tmp_path, "paper").run("few", [Point(("a", 1), 3, counting(log))])
    more = Trials(tmp_path, "paper").run("more", [Point(("a", 1), 5, counting(log))])
    again = Trials(tmp_path, "paper").run("few", [Point(("a", 1), 3, counting(log))])
    assert few == [[1, 2, 3]] == again and more == [[1, 2, 3, 4, 5]] and len(log) == 5


def test_points_with_other_keys_are_other_points(tmp_path: Path) -> None:
    trials, log = Trials(tmp_path, "paper"), []  # type: ignore[var-annotated]
    trials.run("both", [Point(("a", 1), 1, counting(log)), Point(("a", "1"), 1, counting(log))])
    assert len(log) == 2


def test_a_line_that_was_cut_off_is_forgotten(tmp_path: Path) -> None:
    Trials(tmp_path, "paper").run("x", [Point(("a",), 2, counting([]))])
    (file,) = tmp_path.iterdir()
    file.write_text(file.read_text("utf-8") + '{"key": ["a"], "resul', "utf-8")
    log: list[int] = []
    results = Trials(tmp_path, "paper").run("x", [Point(("a",), 3, counting(log))])
    assert results == [[1, 2, 1]] and len(log) == 1
    assert len(Trials(tmp_path, "paper").run("x", [Point(("a",), 3, counting(log))])[0]) == 3


SLOW = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background inherit "ignore"
from examples.papers.frame.command import command
from examples.papers.frame.trials import Point

def once():
    time.sleep(0.05)
    return 1

def run(setting):
    found = setting.trials("slow").run("slow", [Point(("a",), 200, once)])
    print(len(found[0]))

command({"slow": run}, ["--out", sys.argv[1], "--data", sys.argv[1]])
"""


@pytest.mark.slow
def test_an_interrupted_run_says_so_and_the_same_command_goes_on(tmp_path: Path) -> None:
    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", SLOW, str(tmp_path)], cwd=ROOT, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    first = start()
    kept = tmp_path / "trials"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if any(file.stat().st_size for file in kept.glob("*.jsonl")):
            break
        time.sleep(0.05)
    first.send_signal(signal.SIGINT)
    out, err = first.communicate(timeout=60)
    assert first.returncode == 130 and "The same command continues" in err and "200" not in out
    second = start()
    out, err = second.communicate(timeout=60)
    assert second.returncode == 0 and out.splitlines()[0] == "200", err
    (file,) = kept.glob("*.jsonl")
    assert sum(line.count("1") for line in file.read_text("utf-8").splitlines()) == 200


def write_csv(file: Path, columns: list[str], rows: list[tuple[object, ...]]) -> None:
    with file.open("w", newline="", encoding="utf-8") as opened:
        csv.writer(opened).writerows([columns, *rows])


def test_a_file_becomes_counts_and_a_graph_in_the_order_of_values(tmp_path: Path) -> None:
    said: list[str] = []
    rows = [(7, "b"), (7, "b"), (2, "a"), (7, "a"), (9, "c"), (9, "a"), (None, "d")]
    write_csv(tmp_path / "it's.csv", ["user_id", "item"], rows)
    source = find(tmp_path, [], said.append).get("it's")
    assert source is not None and source.has_people
    assert source.counts.tolist() == [3, 1, 1] and not said
    offsets, people = source.graph
    assert offsets.tolist() == [0, 3, 4, 5] and people.tolist() == [0, 1, 2, 1, 2]


def test_a_histogram_has_counts_and_no_people(tmp_path: Path) -> None:
    write_csv(tmp_path / "h.csv", ["Item", "Count"], [("x", 5), ("y", 9), ("z", None)])
    sources = find(None, [f"books={tmp_path / 'h.csv'}"], print)
    source = sources.get("books")
    assert source is not None and not source.has_people and source.counts.tolist() == [9, 5]


def test_a_named_file_that_is_no_data_set_is_refused(tmp_path: Path) -> None:
    write_csv(tmp_path / "odd.csv", ["who", "what"], [(1, 2)])
    (tmp_path / "bad.parquet").write_bytes(b"no parquet")
    for named, words in (
        ("gowalla.parquet", "is not NAME=FILE"),
        ("a=b.csv", "There is no file b.csv"),
        (f"odd={tmp_path / 'odd.csv'}", "has the columns who, what; wanted are user_id and item"),
        (f"bad={tmp_path / 'bad.parquet'}", "cannot be read"),
    ):
        with pytest.raises(SourceError, match=words):
            find(None, [named], print)
    with pytest.raises(SourceError, match="There is no folder"):
        find(tmp_path / "none", [], print)


def test_a_file_of_the_folder_that_is_no_data_set_is_left_out(tmp_path: Path) -> None:
    write_csv(tmp_path / "odd.csv", ["who", "what"], [(1, 2)])
    (tmp_path / "bad.parquet").write_bytes(b"no parquet")
    (tmp_path / "folder.parquet").mkdir()
    write_csv(tmp_path / "good.csv", ["user_id", "item"], [(1, 2)])
    said: list[str] = []
    assert list(find(tmp_path, [], said.append).files) == ["good"]
    assert len(said) == 2 and all(text.endswith("It is left out.") for text in said)


@pytest.mark.parametrize("count", ["-1", "many", "1e30"])
def test_counts_that_are_none_are_refused(tmp_path: Path, count: str) -> None:
    write_csv(tmp_path / "h.csv", ["item", "count"], [("x", 5), ("y", count)])
    with pytest.raises(SourceError, match=r"cannot be read|below 0"):
        _ = Source("h", tmp_path / "h.csv").counts


def run(words: list[str], tmp_path: Path) -> tuple[int | str | None, str]:
    """Run a script of one point; returns how the process would end."""

    def script(setting: Setting) -> None:
        setting.trials("one").run("one", [Point(("a",), 2, counting([]))])

    try:
        command({"one": script}, ["--data", str(tmp_path), *words])
    except SystemExit as end:
        return end.code, ""
    return 0, ""


def test_an_edited_line_of_trials_is_named(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(["--out", str(out)], tmp_path)[0] == 0
    (file,) = (out / "trials").glob("*.jsonl")
    file.write_text('{"key": 1}\n' + file.read_text("utf-8"), "utf-8")
    assert "Line 1 of" in str(run(["--out", str(out)], tmp_path)[0])


def test_a_place_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file.txt").write_text("")
    assert "cannot be written" in str(run(["--out", str(tmp_path / "file.txt")], tmp_path)[0])


def test_two_runs_in_one_folder_are_kept_apart(tmp_path: Path) -> None:
    out = tmp_path / "out"

    def script(setting: Setting) -> None:
        assert "Another run is at work" in str(run(["--out", str(out)], tmp_path)[0])

    command({"outer": script}, ["--data", str(tmp_path), "--out", str(out)])


def test_an_interruption_of_duckdb_is_one_of_the_run(tmp_path: Path) -> None:
    def script(setting: Setting) -> None:
        raise RuntimeError("Query interrupted")

    with pytest.raises(SystemExit, match="130"):
        command({"x": script}, ["--data", str(tmp_path), "--out", str(tmp_path)])


@pytest.mark.parametrize("module", sorted((ROOT / "examples" / "papers").rglob("*.py")), ids=str)
def test_the_examples_in_docstrings_are_true(module: Path) -> None:
    name = ".".join(module.relative_to(ROOT).with_suffix("").parts)
    if not name.endswith("__main__"):
        assert doctest.testmod(importlib.import_module(name)).failed == 0


RNG_TRIES = 400


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_the_range_holds_a_quantile_of_like_trials_and_not_of_others(p: float) -> None:
    """The right law is inside nearly always; one moved by 0.7 spreads is outside mostly."""
    rng = np.random.default_rng(1)
    low, high = range_of_quantile(rng.laplace(size=20_000).tolist(), p, 100)
    like = np.quantile(rng.laplace(size=(RNG_TRIES, 100)), p, axis=1)
    moved = np.quantile(rng.laplace(1.0, size=(RNG_TRIES, 100)), p, axis=1)
    inside = np.mean((low <= like) & (like <= high))
    assert inside > 0.96
    assert np.mean((low <= moved) & (moved <= high)) < inside - 0.2
    assert high - low < 4


def test_the_range_allows_for_our_own_error_where_ours_are_few() -> None:
    """One set of a few trials may be off; over many such sets the level must hold."""
    rng = np.random.default_rng(1)
    held = []
    for _ in range(RNG_TRIES):
        low, high = range_of_quantile(rng.laplace(size=100).tolist(), 0.5, 100)
        held.append(low <= np.median(rng.laplace(size=100)) <= high)
    assert np.mean(held) > 0.96


def test_the_range_of_a_mean_is_three_sided() -> None:
    rng = np.random.default_rng(1)
    ours = rng.exponential(size=20_000)
    low, high = range_of(ours.tolist(), lambda row: float(np.mean(row)), 100)
    means = rng.exponential(size=(RNG_TRIES, 100)).mean(axis=1)
    assert np.mean((low <= means) & (means <= high)) > 0.96
    assert low < 1 < high and not low < 0.7 < high and not low < 1.4 < high


def test_a_verdict_keeps_its_reason_only_where_it_is_outside() -> None:
    assert judge("x", 5.0, 4.9, (4, 6), "9 / 9", "why").why == ""
    outside = judge("x", 7.0, 4.9, (4, 6), "9 / 9", "why")
    assert not outside.inside and outside.why == "why"


def test_tables_are_written_for_programs_and_for_readers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_table(tmp_path / "new", "t", ["a", "b"], [(1234.56, None)], "7 trials.")
    assert (tmp_path / "new" / "t.csv").read_text("utf-8").splitlines() == ["a,b", "1234.56,"]
    assert (tmp_path / "new" / "t.md").read_text("utf-8").startswith("| a | b |\n|---|---|\n| 1235")
    write_verdicts(tmp_path, "p", [judge("x", 7.0, 4.9, (4, 6), "9 / 9", "Because.")])
    told = capsys.readouterr().out
    assert "0 of 1" in told and "outside: x: printed 7, ours 4.9, range 4 to 6. Because." in told
    assert "OUTSIDE" in (tmp_path / "p_verdicts.md").read_text("utf-8")
    assert (shown(0.03), shown(None), shown("a"), shown(2.0)) == ("0.03", "", "a", "2")
