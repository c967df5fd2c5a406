"""Every mechanism refuses wrong types, numbers out of range, and wrong data."""

from fractions import Fraction

import numpy as np
import pytest

from dp_sql.udfs import REGISTRY
from tests.udfs.registered import (
    CONTRIBUTIONS,
    COUNTS,
    DATA,
    MECHANISMS,
    PUBLIC,
    accuracy,
    data_of,
    each,
    run,
)

# Wrong arguments.

WRONG_TYPES = {
    "epsilon": [1.0, 1, True, "1", None, float("nan")],
    "beta": [0.05, 1, True, "1", None],
    "delta": [0.1, 0, True, "0.1", None],
    "k": [1.0, True, "1", None, Fraction(1), np.int64(1)],
    "max_contributions": [5.0, True, "5", None, Fraction(5)],
    "few_groups": [5.0, True, "5", None, Fraction(5)],
    "choice": [0.5, 0, True, "0.5", None],
    "by_error": [1, None, "yes"],
    "bound": [2.0, True, Fraction(2)],
    "one_sided": [1, None, "yes"],
    "unit": [1.0, True, None, Fraction(2)],
    "ends": [(0.0, 1), (0, True), (Fraction(0), 1)],
    "quantiles": [Fraction(1, 2), 0.5, (0.5,), [Fraction(1, 2)], (1,), (), None],
    "n_steps": [5.0, True, "5", None, Fraction(5)],
}


WRONG_NUMBERS = {
    "epsilon": [Fraction(0), Fraction(-1)],
    "beta": [Fraction(0), Fraction(1), Fraction(-1)],
    "delta": [Fraction(0), Fraction(1), Fraction(-1, 10)],
    "k": [0, -1],
    "max_contributions": [0, -1],
    "few_groups": [-1],
    "choice": [Fraction(0), Fraction(1), Fraction(-1, 8)],
    "by_error": [],
    "bound": [0, -3],
    "one_sided": [],
    "unit": [0, -1],
    "ends": [(1, 1), (2, 0)],
    "quantiles": [(Fraction(0),), (Fraction(1),), (Fraction(1, 2), Fraction(3, 2))],
    "n_steps": [-1, 2**62 + 1],
}


PARAMETERS = [
    (name, parameter)
    for name, mechanism in MECHANISMS.items()
    for parameter in mechanism.parameters
]


@pytest.mark.parametrize(("name", "parameter"), PARAMETERS)
def test_a_number_of_another_type_is_refused(name, parameter):
    for wrong in WRONG_TYPES[parameter]:
        with pytest.raises(TypeError, match=parameter):
            run(name, **{parameter: wrong})


@pytest.mark.parametrize(("name", "parameter"), PARAMETERS)
def test_a_number_out_of_range_is_refused(name, parameter):
    for wrong in WRONG_NUMBERS[parameter]:
        with pytest.raises(ValueError, match=parameter):
            run(name, **{parameter: wrong})


@pytest.mark.parametrize(
    "name", [*REGISTRY["count_distinct"], *REGISTRY["count"], *REGISTRY["sum"]]
)
def test_a_count_refuses_a_beta_of_a_half(name):
    with pytest.raises(ValueError, match="beta"):
        run(name, beta=Fraction(1, 2))


@each
def test_an_accuracy_of_wrong_numbers_is_refused(name):
    for wrong, error in [(0.05, TypeError), (Fraction(1), ValueError), (Fraction(2), ValueError)]:
        with pytest.raises(error, match="beta"):
            accuracy(name, beta=wrong)
    with pytest.raises(ValueError, match="epsilon"):
        accuracy(name, epsilon=-PUBLIC["epsilon"])


NO_COUNTS = [
    [3, 2, 1],
    COUNTS.astype(np.float64),
    COUNTS > 1,
    COUNTS.astype(np.uint64),
    COUNTS.astype(object),
    COUNTS.astype(str),
    None,
]


NO_NUMBERS = [1.0, float("nan"), True, "1", None]


WRONG_DATA = [
    *(("topk", [counts], TypeError, "counts") for counts in NO_COUNTS),
    *(
        ("topk", [counts], ValueError, "counts")
        for counts in (COUNTS[:, np.newaxis], np.array(3), COUNTS - 2, COUNTS + 2**62)
    ),
    *(("quantile", [votes], TypeError, "votes") for votes in NO_COUNTS),
    *(
        ("quantile", [votes], ValueError, "votes")
        for votes in (COUNTS[:, np.newaxis], np.array(3), COUNTS - 2, COUNTS + 1000)
    ),
    *(("select", [[1, bad], [1, 1]], TypeError, "scores") for bad in NO_NUMBERS),
    *(
        (function, [*wrong, *DATA[function][3:]], error, words)
        for function in CONTRIBUTIONS
        for wrong, error, words in [
            *(([[0, bad], [3, 1], [3, 4]], TypeError, "buckets") for bad in NO_NUMBERS),
            *(([[0, 2], [3, bad], [3, 4]], TypeError, "people") for bad in NO_NUMBERS),
            *(([[0, 2], [3, 1], [3, bad]], TypeError, "sums") for bad in NO_NUMBERS),
            ([[0, 2], [3, 1], [3]], ValueError, "same length"),
            ([[0, -1], [3, 1], [3, 4]], ValueError, "negative"),
            ([[0, 2], [3, 0], [3, 4]], ValueError, "positive"),
            *(([[0, 2], [3, 1], [n, 4]], ValueError, "fit") for n in (2, 4)),
            *(([[0, 2], [3, 2], [3, n]], ValueError, "fit") for n in (5, 9)),
            ([[3, 3], [2**62] * 2, [2**65] * 2], ValueError, "64 bits"),
        ]
    ),
    *(("sum", [*DATA["sum"][:3], bad], ValueError, "negative") for bad in ([0], [0, 2])),
    ("sum", [*DATA["sum"][:3], [0, None]], TypeError, "negative"),
    *(("select", [[1, 1], [1, bad]], TypeError, "sensitivities") for bad in NO_NUMBERS),
    *(("select", [[1, 1], [1, bad]], ValueError, "sensitivities") for bad in (-1, Fraction(-1, 2))),
    *(
        ("select", [scores, sizes], ValueError, "one sensitivity")
        for scores, sizes in [([], []), ([1], []), ([1], [1, 2])]
    ),
    *(
        ("count_distinct", [np.array(offsets), np.array(people)], ValueError, words)
        for offsets, people, words in [
            ([0, 1], [-1], "at least 0"),
            ([0, 2], [1], "end at the number"),
            ([0, 1], [0.0], "integers"),
        ]
    ),
]


@each
def test_wrong_data_are_refused(name):
    for function, data, error, words in WRONG_DATA:
        if function == data_of(name):
            with pytest.raises(error, match=words):
                run(name, *data)
