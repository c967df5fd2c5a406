"""How examples/papers/distinct_count judges: planted values that must be inside, or outside."""

import csv
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dp_sql.udfs.count_distinct import bounded
from examples.papers import distinct_count
from examples.papers.distinct import distribution, tpch
from examples.papers.distinct.covers import ONE_PASS, Study, one_pass
from examples.papers.distinct.judged import judge_rows, judge_table, write_note
from examples.papers.distinct.printed import (
    BEST,
    CHOSEN,
    GREEDY,
    LEVELS,
    MATCHING,
    N_TRIALS,
    PERCENTILE,
    PRIVATE,
    Row,
    Table,
)
from examples.papers.distinct.readings import (
    Fixed,
    allowed,
    fit,
    judge_words,
    range_of_distribution,
)
from examples.papers.distinct.rows import (
    EACH,
    IN_ALL,
    N_ORDERS,
    Reading,
    Rows,
    Tried,
    Values,
    best_bound,
)
from examples.papers.frame.command import Setting
from examples.papers.frame.sources import Source, Sources
from examples.papers.frame.trials import Point
from examples.papers.frame.verdicts import Verdict

pytestmark = pytest.mark.thorough


def graph_of(holdings: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """People by item; people are numbered as they stand in the lists."""
    offsets = np.cumsum([0, *(len(people) for people in holdings)])
    people = [person for people in holdings for person in people]
    return offsets.astype(np.int32), np.array(people, dtype=np.int32)


def test_in_one_pass_each_person_takes_all_they_may_of_what_is_left() -> None:
    # Person 0 holds a, b, c; 1 holds a, b; 2 holds a. By hand: bound 1: 0 takes a, 1 takes b, 2
    # finds a taken: 2. Bound 2: 0 takes a, b, and nothing is left for the others, who lack c: 2.
    assert one_pass(graph_of([[0, 1, 2], [0, 1], [0]]), [1, 2, 3]) == [2, 2, 3]


def test_one_pass_hangs_on_the_order_of_the_people() -> None:
    # The same with the people turned round: a, then b, then c.
    assert one_pass(graph_of([[0, 1, 2], [1, 2], [2]]), [1, 2]) == [3, 3]


def write_csv(file: Path, columns: list[str], rows: Sequence[Sequence[object]]) -> Path:
    with file.open("w", newline="", encoding="utf-8") as opened:
        csv.writer(opened).writerows([columns, *rows])
    return file


LIKE = (100.0, 200.0, 300.0)
"""The percentiles of trials that are spread evenly from 75 to 325."""
EVEN = Values([np.linspace(75, 325, 2000).tolist()])
OFF = Values([np.linspace(475, 725, 2000).tolist()])
OTHER = (500.0, 600.0, 700.0)
FIXED_ROWS = (
    Row(PERCENTILE, MATCHING, (None, 2, None), LIKE),
    Row(PERCENTILE, GREEDY, (None, 2, None), LIKE),
)
ROWS = (
    *FIXED_ROWS,
    Row(PRIVATE, GREEDY, LIKE, LIKE),
    Row(PRIVATE, MATCHING, LIKE, LIKE),
    Row(CHOSEN, MATCHING, LIKE, LIKE),
)


def study_of(folder: Path, rows: tuple[Row, ...] = ROWS) -> Study:
    file = write_csv(folder / "w.csv", ["user_id", "item"], [(1, "a"), (1, "b"), (2, "a")])
    return Study(Source("amazon_fashion_words", file), Table(4, 2, 2, rows, same_order=True))


def tried_of(*, words: Values = EVEN, second: Values = EVEN, fitted: Values = EVEN) -> Tried:
    """Trials under the fitted reading, under epsilon = 1 in all, and of Algorithm 2."""
    rows: Rows = {}
    for way in (MATCHING, ONE_PASS, GREEDY):
        for reading in (EACH, IN_ALL):
            values = second if way == GREEDY else words if reading == IN_ALL else fitted
            bound = Values([[2]])
            rows[PERCENTILE, way, reading] = (bound, values)
            rows[PRIVATE, way, reading] = rows[CHOSEN, way, reading] = (values, values)
    return Tried(rows, [], [])


def outside(verdicts: Sequence[Verdict | None]) -> list[str]:
    return [verdict.what for verdict in verdicts if verdict is not None and not verdict.inside]


def test_like_values_are_all_inside_and_the_papers_own_words_come_first(tmp_path: Path) -> None:
    verdicts = judge_table(study_of(tmp_path), tried_of())
    assert outside(verdicts) == [] and len(verdicts) == 2 + 25
    assert ["own words" in verdict.what for verdict in verdicts] == [True] * 2 + [False] * 25


def test_values_of_other_trials_are_outside_and_say_that_they_are_fitted(tmp_path: Path) -> None:
    verdicts = judge_table(study_of(tmp_path), tried_of(fitted=OFF))
    assert outside(verdicts) == [verdict.what for verdict in verdicts[3:]]
    marked = [verdict.what for verdict in verdicts if "under the fitted reading" in verdict.what]
    assert len(marked) == 3 + 18 and not any(f"{PERCENTILE} × {MATCHING}" in x for x in marked)


@pytest.mark.parametrize("planted", ["words", "second"])
def test_a_reading_that_the_values_contradict_is_outside(tmp_path: Path, planted: str) -> None:
    tried = tried_of(**{planted: OFF})
    epsilon, algorithm = judge_table(study_of(tmp_path), tried)[:2]
    assert (epsilon.inside, algorithm.inside) == (planted == "second", planted == "words")
    wrong, n_values = (epsilon, 18) if planted == "words" else (algorithm, 9)
    assert wrong.ours == f"0 inside (under the fitted reading: {n_values})" and wrong.why
    note = write_note([study_of(tmp_path)], [tried], [])
    n_by_words = 25 - (15 if planted == "words" else 9)
    assert note.startswith(f"Of 25 printed values of tables 4 and 7, {n_by_words} are inside")


def test_a_reading_may_miss_as_many_values_as_chance_does_and_no_more(tmp_path: Path) -> None:
    assert allowed(18) == 2
    for n_off, inside in ((1, True), (2, True), (3, False)):
        spread = tuple(
            other if place < n_off else like
            for place, (like, other) in enumerate(zip(LIKE, OTHER, strict=True))
        )
        rows = (*ROWS[:-1], replace(ROWS[-1], count=spread))
        assert judge_table(study_of(tmp_path, rows), tried_of())[0].inside is inside


def test_a_bound_that_the_data_has_is_judged_once(tmp_path: Path) -> None:
    bounds = judge_rows(study_of(tmp_path), tried_of(), FIXED_ROWS, (EACH, ONE_PASS))
    assert sum(x is not None and x.what.endswith(f"{PERCENTILE}: bound, 50 %") for x in bounds) == 1
    assert len(bounds) == 1 + 6


def test_a_bound_that_is_printed_otherwise_is_outside(tmp_path: Path) -> None:
    rows = tuple(replace(row, bound=(None, 3, None)) for row in FIXED_ROWS)
    study = study_of(tmp_path, rows)
    verdicts = judge_rows(study, tried_of(), rows, (EACH, ONE_PASS))
    assert len(outside(verdicts)) == 1


def test_few_orders_or_few_trials_tell_nothing() -> None:
    """Two orders hold a third one's value only one time in three."""
    value, trials = [1.0], [1.0] * N_TRIALS
    assert not Values([value] * 2).can_tell and not Values([trials] * 2).can_tell
    assert Values([value] * N_ORDERS).can_tell and Values([trials] * N_ORDERS).can_tell
    assert Values([value]).can_tell and Values([trials]).can_tell
    assert not Values([trials[1:]]).can_tell and not Values([trials[:4]], n_printed=1).can_tell
    assert not Values([trials[1:]] * N_ORDERS).can_tell


def test_a_claim_with_values_that_cannot_be_told_is_not_judged(tmp_path: Path) -> None:
    few = Values([EVEN.groups[0][:50]])
    verdicts = judge_table(study_of(tmp_path), tried_of(words=few))
    assert not any(IN_ALL.name in verdict.what for verdict in verdicts)
    assert "not judged: our trials" in write_note([study_of(tmp_path)], [tried_of(fitted=few)], [])


def test_trials_say_on_how_many_orders_they_stand() -> None:
    assert Values([[1.0]]).trials == "1 / 1"
    assert Values([[1.0]] * 20).trials == "20 orders / 1"
    assert Values([[1.0] * 100] * 20).trials == "20 orders × 100 / 100"
    assert EVEN.trials == "2,000 / 100"


def test_the_note_counts_what_is_not_judged(tmp_path: Path) -> None:
    note = write_note([study_of(tmp_path)], [tried_of()], [])
    assert "the 8 values of table 2 for R2T and ShiftedInverse" in note
    assert "Nor are the other values of table 2" in note
    assert not write_note([], [], []).startswith("Of 0")
    assert "90 times in 100" in note and "21 of them hang on that reading" in note


def distribution_of(weights: Sequence[int]) -> list[tuple[Fraction, Fraction]]:
    parts = [Fraction(weight, sum(weights)) for weight in weights]
    return [(part, part) for part in parts]


@pytest.mark.parametrize("percent", LEVELS)
def test_the_range_of_a_distribution_contains_its_percentiles_and_not_anothers(
    percent: int,
) -> None:
    weights = [1, 2, 4, 8, 16, 16, 8, 4, 2, 1]
    low, high = range_of_distribution(distribution_of(weights), percent, 100)
    draws = np.random.default_rng(1).choice(
        10, size=(2000, 100), p=np.array(weights) / sum(weights)
    )
    found = np.percentile(draws + 1, percent, axis=1)
    assert np.mean((low <= found) & (found <= high)) > 0.98
    moved = np.percentile(draws + 5, percent, axis=1)
    assert np.mean((low <= moved) & (moved <= high)) < 0.02


COVER = [round(1000 * (1 - 0.8**bound)) for bound in range(1, 41)]
TRUE = Reading("true", Fraction(1), Fraction(3, 100))


def planted(reading: Reading) -> Fixed:
    """Rows as the paper would have them whose trials were of this reading."""

    exact = bounded.distribution_of_bound(COVER, reading.epsilon, reading.beta, "gem")
    p = np.array([float(low + high) / 2 for low, high in exact])
    draws = 1 + np.random.default_rng(1).choice(len(p), size=10_001, p=p / p.sum())
    low, middle, high = (float(np.percentile(draws, level)) for level in LEVELS)
    best = best_bound(COVER, reading)
    rows = [Row(way, MATCHING, (low, middle, high), LIKE) for way in (CHOSEN, PRIVATE)]
    return Fixed("planted", COVER, [*rows, Row(BEST, MATCHING, (None, best, None), LIKE)])


def test_a_reading_fits_its_own_values_and_a_far_one_does_not() -> None:
    cover = planted(TRUE)
    assert fit(TRUE, [cover]).inside == (6,) and fit(TRUE, [cover]).best == (True,)
    far = fit(Reading("far", Fraction(4), Fraction(3, 10)), [cover])
    assert far.inside[0] < 4 and far.best == (False,)


def test_the_papers_epsilon_is_inside_where_some_beta_fits_and_outside_where_none_does() -> None:
    betas = [Fraction(1, 100), TRUE.beta, Fraction(1, 10)]
    readings = [Reading(IN_ALL.name, Fraction(1), beta) for beta in betas]
    inside = judge_words([fit(reading, [planted(TRUE)]) for reading in readings], 6)
    assert inside.inside and "0.03" in str(inside.ours)
    other = planted(Reading("other", Fraction(6), Fraction(3, 100)))
    found = judge_words([fit(reading, [other]) for reading in readings], 6)
    assert not found.inside and "none" in str(found.ours) and found.why


class Notes(Setting):
    """A setting that keeps what it is given."""

    said: list[str]

    def note(self, text: str) -> None:
        self.said.append(text)


@pytest.mark.parametrize(
    ("columns", "rows", "says"),
    [
        (["item", "count"], [("x", 5)], "a histogram"),
        (["user_id", "item"], [], "no row"),
        (["user_id", "item"], [(None, "a"), (1, None)], "no row"),
    ],
)
def test_a_set_without_people_or_rows_is_left_out_with_a_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    columns: list[str],
    rows: list[tuple[object, ...]],
    says: str,
) -> None:
    file = write_csv(tmp_path / "w.csv", columns, rows)
    sources = Sources({"amazon_fashion_words": Source("amazon_fashion_words", file)})
    setting = Notes(sources, tmp_path / "out", True)
    object.__setattr__(setting, "said", [])
    monkeypatch.setattr(tpch, "write_errors", lambda _: [])
    distinct_count.run(setting)
    told = [text for text in setting.said if text.startswith("amazon_fashion_words")]
    assert len(told) == 1 and says in told[0]
    assert any(text.startswith("imdb_words: missing") for text in setting.said)


def tpch_verdicts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, printed: float
) -> tuple[list[Verdict], list[Point]]:
    """Judge table 2 with planted trials: 1,000 items, each trial off by 1 to 19 of them."""
    points: list[Point] = []

    class Planted:
        def run(self, what: str, of: list[Point]) -> list[list[object]]:
            points.extend(of)
            single = "true numbers" in what
            return [[1000] if single else [[1000 + i % 19 + 1, 0] for i in range(200)] for _ in of]

    table = dict.fromkeys(("PS.AQ", "L.EP", "O.OD", "L.RD"), printed)
    monkeypatch.setattr(tpch, "TPCH", dict.fromkeys(tpch.TPCH, table))
    monkeypatch.setattr(tpch, "_con", lambda _: object())
    monkeypatch.setattr(Setting, "trials", lambda *_: Planted())
    return tpch.write_errors(Setting(Sources({}), tmp_path, False)), points


def test_errors_of_tpch_are_inside_where_like_and_outside_where_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    like, points = tpch_verdicts(monkeypatch, tmp_path, 0.010)
    assert len(like) == 8 and all(verdict.inside for verdict in like)
    assert sum("fitted to this value" in verdict.what for verdict in like) == 2
    assert {point.key[-2:] for point in points if point.n_trials > 1} == {("1/10", "1")}
    unlike, _ = tpch_verdicts(monkeypatch, tmp_path, 0.015)
    assert not any(verdict.inside for verdict in unlike)


def test_a_median_is_judged_by_the_middle_of_the_distribution_for_some_beta() -> None:
    spans = {0.01: (7, 8), 0.05: (8, 10)}
    assert distribution.judge_median("Set", 9.0, spans).inside
    for other in (6.0, 11.0):
        outside = distribution.judge_median("Set", other, spans)
        assert not outside.inside and outside.ours == "for none"
