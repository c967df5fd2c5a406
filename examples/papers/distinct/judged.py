"""Which printed values of tables 4 and 7 agree with ours, and under which reading?

The paper's own words come first: epsilon = 1 in all, and greedy as its Algorithm 2. Then every
printed value, under a reading that was fitted to these values; each says so where it hangs on it.
"""

from collections.abc import Sequence

from examples.papers.distinct.covers import ONE_PASS, Study
from examples.papers.distinct.printed import (
    BEST,
    CHOSEN,
    GREEDY,
    LEVELS,
    MATCHING,
    MAX,
    N_TRIALS,
    PERCENTILE,
    PRIVATE,
    TPCH,
    Row,
    Spread,
)
from examples.papers.distinct.readings import allowed
from examples.papers.distinct.rows import EACH, IN_ALL, N_ORDERS, Reading, Tried, Values
from examples.papers.distinct.tpch import NOT_JUDGED
from examples.papers.frame.verdicts import Verdict, judge

FITTED = (EACH, ONE_PASS)
"""What the printed values were used to find: where epsilon goes, with beta, and how greedy runs."""
WORDS = (IN_ALL, GREEDY)
"""What the paper says. Its beta is lost or was never printed; IN_ALL's is ours."""

How = tuple[Reading, str]


def judge_table(study: Study, tried: Tried) -> list[Verdict]:
    """Judge one table: first the paper's own words, then value by value under what was fitted."""
    rows = study.table.rows
    private = [row for row in rows if row.selection in (CHOSEN, PRIVATE)]
    greedy = [row for row in rows if row.counting == GREEDY]
    claims = [
        _judge_claim(
            f"DP Max Utility by the paper's own words, {IN_ALL.name} (greedy in one pass)",
            judge_rows(study, tried, private, (IN_ALL, ONE_PASS)),
            judge_rows(study, tried, private, FITTED),
            f"Under the fitted reading, {EACH.name}, more are: one of a ridge that fits, see the "
            "table distinct_readings.",
        ),
        _judge_claim(
            f"greedy by the paper's own words, Algorithm 2 ({EACH.name})",
            judge_rows(study, tried, greedy, (EACH, GREEDY)),
            judge_rows(study, tried, greedy, FITTED),
            "The values come out when greedy is one pass over the people, which was found by "
            "trying.",
        ),
    ]
    of_title = [
        Verdict(f"{study.title}, {x.what}", x.printed, x.ours, None, x.inside, x.trials, x.why)
        for x in claims
        if x is not None
    ]
    return of_title + [x for x in judge_rows(study, tried, rows, FITTED) if x is not None]


def judge_rows(study: Study, tried: Tried, rows: Sequence[Row], how: How) -> list[Verdict | None]:
    """Judge every printed value of some rows; None is one that our trials are too few for."""
    return [verdict for row in rows for verdict in _judge_row(study, row, tried, how)]


def n_inside(verdicts: Sequence[Verdict | None]) -> int:
    """Count those that are inside."""
    return sum(verdict.inside for verdict in verdicts if verdict is not None)


def write_note(studies: Sequence[Study], tried: Sequence[Tried], of_tpch: Sequence[Verdict]) -> str:
    """Say what the verdicts rest on, what is fitted, and what is not judged."""
    words, fitted = (
        [x for s, t in zip(studies, tried, strict=True) for x in judge_rows(s, t, s.table.rows, h)]
        for h in (WORDS, FITTED)
    )
    n_fitted = sum(
        _is_fitted(row) * len(_judge_row(study, row, of_study, FITTED))
        for study, of_study in zip(studies, tried, strict=True)
        for row in study.table.rows
    )
    n_others = sum(len(TPCH[mechanism]) for mechanism in NOT_JUDGED)
    n_few = sum(verdict is None for verdict in fitted)
    parts = [
        f"Of {len(words)} printed values of tables 4 and 7, {n_inside(words)} are inside by the "
        f"paper's own words ({IN_ALL.name}, greedy by Algorithm 2; beta = {float(IN_ALL.beta):g} "
        f"is ours) and {n_inside(fitted)} under a reading that was fitted to them ({EACH.name}, "
        f"beta = {float(EACH.beta):g}, greedy in one pass); {n_fitted} of them hang on that "
        'reading, and are marked "under the fitted reading".'
        if words
        else "",
        f"{n_few} of them are not judged: our trials, or orders of the people, are too few."
        if n_few
        else "",
        "The range is where the paper's value lies 99 times in 100 if its trials are like ours; "
        "all draws are from the operating system, there is no seed. A bound that is read off the "
        "data is judged once, not for each way of counting.",
        f"Not judged: the {n_others} values of table 2 for R2T and ShiftedInverse, other "
        "authors' mechanisms, whose settings it does not print.",
        ""
        if of_tpch
        else "Nor are the other values of table 2: too few trials, or no TPC-H generator.",
        f"Where the order of the people is unknown, the range is the union over our {N_ORDERS} "
        "orders, each with its own trials; that is up to twice as wide as one order's, and holds "
        "a like value nearly always. Of values without noise it is the least and the largest, "
        f"which holds a like value {100 * (N_ORDERS - 1) / (N_ORDERS + 1):.0f} times in 100. A "
        "claim about n values is inside where no more of them lie outside than n independent ones "
        "would have by chance, 99 times in 100.",
    ]
    return " ".join(part for part in parts if part)


def _judge_claim(
    what: str, words: list[Verdict | None], fitted: list[Verdict | None], why: str
) -> Verdict | None:
    """Judge the values that hang on a reading, all at once; None if some cannot be judged."""
    if None in words or None in fitted or not words:
        return None
    spare = allowed(len(words))
    inside = n_inside(words) >= len(words) - spare
    return Verdict(
        what,
        f"all but {spare} of {len(words)} values inside",
        f"{n_inside(words)} inside (under the fitted reading: {n_inside(fitted)})",
        None,
        inside,
        f"as below / {N_TRIALS}",
        "" if inside else why,
    )


def _judge_row(study: Study, row: Row, tried: Tried, how: How) -> list[Verdict | None]:
    reading, greedy = how
    way = greedy if row.counting == GREEDY else row.counting
    bounds, counts = tried.rows[row.selection, way, reading]
    mark = ", under the fitted reading" if how == FITTED and _is_fitted(row) else ""
    verdicts = _judge_spread(
        f"{study.title}, {row.selection} × {way}{mark}: count", row.count, counts, study, row
    )
    if row.selection not in (MAX, PERCENTILE):
        what = f"{study.title}, {row.selection} × {way}{mark}: bound"
        return _judge_spread(what, row.bound, bounds, study, row) + verdicts
    if row == next(x for x in study.table.rows if x.selection == row.selection):
        # The data alone has this bound, however items are counted: it is judged in one row.
        what = f"{study.title}, {row.selection}: bound"
        return _judge_spread(what, row.bound, bounds, study, row) + verdicts
    return verdicts


def _judge_spread(
    what: str, spread: Spread, values: Values, study: Study, row: Row
) -> list[Verdict | None]:
    return [
        judge(
            f"{what}, {level} %",
            printed,
            values.at(level),
            values.range_at(level),
            values.trials,
            _why(study, row),
        )
        if values.can_tell
        else None
        for level, printed in zip(LEVELS, spread, strict=True)
        if printed is not None
    ]


def _is_fitted(row: Row) -> bool:
    return row.counting == GREEDY or row.selection in (BEST, CHOSEN, PRIVATE)


def _why(study: Study, row: Row) -> str:
    """Say why a printed value may lie outside; the reader sees it where one does."""
    more = study.n_items - study.table.n_items
    if more and (row.selection, row.counting) == (BEST, MATCHING):
        return f"Our file has {more} words more than the paper's, and so has our count."
    if more and (row.selection, row.counting) == (BEST, GREEDY):
        return f"The order of the people is not the paper's, and there are {more} words more."
    return "One value in a hundred lies outside by chance alone."
