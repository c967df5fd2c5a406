"""Every mechanism of the registry, with data and public numbers to run it on."""

from fractions import Fraction
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from dp_sql.udfs import REGISTRY
from tests.udfs.cases_bounded import GRAPH

CASES = {
    case.mechanism.name: case
    for file in sorted(Path(__file__).parent.glob("cases_*.py"))
    for case in getattr(import_module(f"tests.udfs.{file.stem}"), "CASES", ())
}


def domain_of(name, at):
    return CASES[name].domains[at]


PUBLIC = {
    "k": 10,
    "epsilon": Fraction(1),
    "delta": Fraction(1, 10**6),
    "beta": Fraction(1, 20),
    "max_contributions": 100,
    "few_groups": 0,
    "choice": Fraction(3, 8),
    "by_error": False,
    "bound": "gem",
    "one_sided": False,
    "unit": 1,
    "ends": None,
    "quantiles": (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)),
    "n_steps": 1000,
}

CONTRIBUTIONS = ("count", "sum", "avg")
"""The functions whose mechanisms take histograms, and None for a bound that is to be chosen."""

MECHANISMS = {name: mechanism for named in REGISTRY.values() for name, mechanism in named.items()}

DATA = {
    "topk": [np.array([3, 2, 1])],
    "count_distinct": GRAPH,
    "pairs": [np.array([0, 0, 1, 2, 2]), np.array([4, -7, 4, 4, 9])],
    "select": [[1, 2, 0], [1, 0, 2]],
    "count": [[0, 2], [3, 1], [3, 4]],
    "sum": [[0, 2], [3, 1], [3, 4], [0, 1]],
    "histogram": [[3, 2, 1]],
    "group_rows": [
        [([0], [3], [3]), ([0, 2], [3, 1], [3, 4])],
        ([0, 2], [4, 1], [4, 4]),
        [([0, 1], [2, 1], [2, 1]), ([0, 1, 3], [2, 1, 1], [2, 1, 4])],
        ([0, 1, 3], [3, 1, 1], [3, 2, 5]),
    ],
    "people": [3],
    "avg": [[0, 2], [3, 1], [3, 4], [(0, 1, 2, 3, 10, 0), (2, 1, 3, 1, 7, 0)]],
    "quantile": [np.array([3, 2, 1])],
}

NAMES = {
    "topk": ["counts"],
    "count_distinct": ["offsets", "people"],
    "pairs": ["items", "people"],
    "select": ["scores", "sensitivities"],
    "count": ["buckets", "people", "sums"],
    "sum": ["buckets", "people", "sums", "negative"],
    "histogram": ["counts"],
    "group_rows": ["groups", "most", "groups_by_total", "totals"],
    "people": ["people"],
    "avg": ["buckets", "people", "sums", "entries"],
    "quantile": ["votes"],
}

OF_PEOPLE = {
    name: mechanism
    for name, mechanism in REGISTRY["topk"].items()
    if mechanism.finds_items and mechanism.n_largest is None
}
"""The mechanisms of topk that take pairs instead of counts."""


def data_of(name):
    if name in OF_PEOPLE or name in REGISTRY["groups"]:
        return "pairs"
    return MECHANISMS[name].function


SIZE = {
    "topk": [1000],
    "select": [[1, 2, Fraction(1, 2)]],
    "histogram": [1000],
    "group_rows": [1000],
}
"""What an accuracy is asked for, before the public numbers."""

each = pytest.mark.parametrize("name", MECHANISMS)

ROOT = Path(__file__).parents[2]


def given(name):
    """The public numbers of a mechanism."""
    mechanism = MECHANISMS[name]
    chosen = {"bound": None} if mechanism.function in CONTRIBUTIONS else {}
    if mechanism.function == "histogram":
        chosen = {"bound": 1}
    return {key: (PUBLIC | chosen)[key] for key in mechanism.parameters}


def run(name, *data, **changed):
    mechanism = MECHANISMS[name]
    public = given(name) | {"k": 2} | changed
    return mechanism.run(
        *(data or DATA[data_of(name)]), **{key: public[key] for key in mechanism.parameters}
    )


def accuracy(name, **changed):
    mechanism = MECHANISMS[name]
    return mechanism.accuracy(
        *SIZE.get(mechanism.function, []), **given(name) | {"beta": PUBLIC["beta"]} | changed
    )


COUNTS = np.array([3, 2, 1])
