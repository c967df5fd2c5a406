"""The suite that every mechanism of the registry passes; a new one has its case in cases_*.py."""

import inspect
import random
from fractions import Fraction

import numpy as np
import pytest

from dp_sql.udfs import REGISTRY
from dp_sql.udfs.mechanism import Mechanism
from tests.udfs import distributions
from tests.udfs.conformance import check_distribution, check_privacy, passes
from tests.udfs.distributions import NotPrivateError
from tests.udfs.registered import (
    CASES,
    COUNTS,
    DATA,
    MECHANISMS,
    NAMES,
    OF_PEOPLE,
    ROOT,
    accuracy,
    data_of,
    domain_of,
    each,
    given,
    run,
)


def test_every_mechanism_has_a_case():
    assert CASES.keys() == MECHANISMS.keys()
    assert all(case.mechanism is MECHANISMS[name] for name, case in CASES.items())


# What is declared.


@each
def test_it_is_registered_under_its_own_names(name):
    mechanism = MECHANISMS[name]
    assert isinstance(mechanism, Mechanism)
    assert REGISTRY[mechanism.function][name] is mechanism
    assert mechanism.name == name


@each
def test_it_takes_data_and_the_declared_numbers_without_defaults(name):
    mechanism = MECHANISMS[name]
    assert list(inspect.signature(mechanism.run).parameters) == [
        *NAMES[data_of(name)],
        *mechanism.parameters,
    ]
    for call in (mechanism.run, mechanism.loss, mechanism.accuracy):
        arguments = inspect.signature(call).parameters.values()
        assert all(argument.default is inspect.Parameter.empty for argument in arguments)


@each
def test_it_has_a_proof_next_to_it_and_states_its_privacy_and_source(name):
    mechanism = MECHANISMS[name]
    (file,) = (ROOT / "udfs").glob(f"*/{name}.md")
    proof = file.read_text()
    for part in ("Precondition", "Pseudocode", "Postcondition", "Proof", "Differences"):
        assert f"## {part}" in proof
    docstring = inspect.getdoc(mechanism.run)
    assert "Privacy: " in docstring
    assert "Source: " in docstring


@each
def test_it_costs_what_its_case_says(name):
    assert MECHANISMS[name].loss(**given(name)) == CASES[name].loss


@each
@pytest.mark.parametrize("epsilon", [Fraction(1, 3), Fraction(7)])
def test_it_costs_the_epsilon_and_the_delta_that_it_is_given(name, epsilon):
    public = given(name) | {"epsilon": epsilon}
    loss = MECHANISMS[name].loss(**public)
    assert loss.epsilon == epsilon
    assert loss.delta == public.get("delta", 0)
    if not loss.delta:
        at_one = CASES[name].loss
        assert 0 < loss.rho == epsilon**2 * at_one.rho <= epsilon**2 / 2
        assert loss.bounded_range == epsilon * at_one.bounded_range


@each
def test_its_accuracy_is_made_of_public_numbers(name):
    assert accuracy(name) == CASES[name].says


# Right arguments, however awful.

SHAPES = {
    "zipf": lambda d: 10**5 // np.arange(1, d + 1),
    "equal": lambda d: np.full(d, 7),
    "zero": lambda d: np.zeros(d, dtype=np.int64),
    "two levels": lambda d: np.repeat([3000, 0], [d // 9, d - d // 9]),
    "uniform": lambda d: np.arange(d) * 7919 % 3000,
    "large gaps": lambda d: np.arange(d) * 10**9,
}


TOPK = [name for name in REGISTRY["topk"] if name not in OF_PEOPLE]


def as_it_takes_them(name, counts, k):
    """A mechanism without a domain takes the largest counts, those of items that exist."""
    if MECHANISMS[name].n_largest is None:
        return counts
    return np.sort(counts[counts > 0])[::-1][: MECHANISMS[name].n_largest(k)]


@pytest.mark.one_in(6)
@pytest.mark.parametrize("epsilon", [Fraction(1, 10**6), Fraction(1), Fraction(10**5)])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", TOPK)
def test_any_histogram_gives_a_list_of_different_items(name, shape, epsilon):
    for d, k in [(1, 1), (300, 1), (300, 7), (300, 300), (20_000, 100)]:
        counts = np.random.default_rng(d).permutation(SHAPES[shape](d)).astype(np.int64)
        counts = as_it_takes_them(name, counts, k)
        picks = run(name, counts, k=k, epsilon=epsilon)
        assert len(set(picks)) == len(picks)
        assert len(picks) == k or (MECHANISMS[name].n_largest and len(picks) < k)
        assert all(type(x) is int and 0 <= x < len(counts) for x in picks)


@pytest.mark.parametrize("name", TOPK)
def test_far_apart_counts_are_listed_in_order(name):
    counts = as_it_takes_them(name, np.array([5, 90, 20, 70, 0]) * 10**6, 4)
    listed = (counts[run(name, counts, k=4)] // 10**6).tolist()
    assert listed == ([5, 90, 20, 70] if MECHANISMS[name].is_set else [90, 70, 20, 5])


@pytest.mark.parametrize("name", TOPK)
def test_integers_of_any_width_are_counts(name):
    for dtype in (np.int8, np.uint8, np.int32, np.uint32, np.dtype(">i8")):
        assert run(name, (COUNTS * 40).astype(dtype), k=1, epsilon=Fraction(100)) == [0]


@pytest.mark.parametrize("name", [n for n in TOPK if MECHANISMS[n].n_largest is None])
def test_more_items_than_the_domain_has_are_refused(name):
    for counts, k in [(COUNTS, 4), (COUNTS[:0], 1)]:
        with pytest.raises(ValueError, match="k must lie"):
            run(name, counts, k=k)


AWFUL_SIZES = [[1] * 50, [0] * 50, [0, 3] * 25, [Fraction(1, 7), 10**30] * 25]


AWFUL_SCORES = [
    [0] * 50,
    list(range(50)),
    [Fraction(0.1), -(10**40)] * 25,
    [Fraction(-1, 3), 1] * 25,
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("epsilon", [Fraction(1, 10**9), Fraction(0.7), Fraction(10**9)])
@pytest.mark.parametrize("name", REGISTRY["select"])
def test_any_scores_give_a_position(name, epsilon):
    for sizes in AWFUL_SIZES:
        for scores in AWFUL_SCORES:
            assert run(name, scores, sizes, epsilon=epsilon) in range(50)


@pytest.mark.parametrize("name", REGISTRY["select"])
def test_one_candidate_is_chosen_whatever_it_is_worth(name):
    for score in (0, -5, Fraction(1, 3)):
        for size in (0, 2, Fraction(1, 7)):
            assert run(name, [score], [size]) == 0


@pytest.mark.parametrize("name", REGISTRY["count_distinct"])
def test_without_people_nothing_is_counted(name):
    nothing = np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64)
    release = run(name, *nothing, epsilon=Fraction(10**4), max_contributions=3)
    assert (release.estimate, release.lower_bound) == (0, 0)
    assert "bound" in MECHANISMS[name].parameters or release.contribution_bound is None


@pytest.mark.parametrize("name", [*REGISTRY["count"], *REGISTRY["sum"]])
def test_without_people_there_is_noise_alone(name):
    data = [[] for _ in DATA[MECHANISMS[name].function]]
    release = run(name, *data, epsilon=Fraction(10**4))
    assert (release.estimate, release.contribution_bound) == (0, 1)


@pytest.mark.parametrize("name", ["matching", "greedy"])
def test_a_very_large_epsilon_gives_the_true_count(name):
    release = run(name, epsilon=Fraction(10**4), max_contributions=5)
    assert (release.estimate, release.lower_bound) == (4, 4)
    assert 2 <= release.contribution_bound <= 5, "one item each covers three of four"


@each
def test_draws_come_from_the_operating_system_only(name, monkeypatch):
    def refuse(*_):
        raise AssertionError("another source of randomness")

    for method in ("random", "randint", "default_rng", "bytes", "permutation", "shuffle"):
        monkeypatch.setattr(np.random, method, refuse)
    for method in ("random", "randrange", "shuffle", "getrandbits"):
        monkeypatch.setattr(random, method, refuse)
    run(name)


# The distribution, its privacy, and versions of it that are wrong.


def named(name, at, further=False):
    marks = [pytest.mark.slow] if at.startswith("slow") else []
    return pytest.param(name, at, marks=[*marks, *([pytest.mark.thorough] if further else [])])


def domains(what):
    """The domains of each mechanism that have it: the first and smallest is in `make test`."""
    for name, case in CASES.items():
        found = [at for at, domain in case.domains.items() if getattr(domain, what)]
        yield from (named(name, at, further=at != found[0]) for at in found)


@pytest.mark.parametrize(("name", "domain"), list(domains("defined")))
def test_the_distribution_is_the_definition(name, domain):
    passes(check_distribution, domain_of(name, domain))


@pytest.mark.pure  # given the distributions, which are compared with their definitions above
@pytest.mark.parametrize(("name", "domain"), list(domains("check")))
def test_no_neighbours_can_be_told_apart(name, domain):
    passes(check_privacy, domain_of(name, domain))


@pytest.mark.pure
@pytest.mark.parametrize(
    ("name", "mutant"),
    [
        named(name, mutant, further=i > 0)
        for name, case in CASES.items()
        for i, mutant in enumerate(case.mutants)
    ],
)
def test_a_tampered_mechanism_is_found_out(name, mutant):
    CASES[name].mutants[mutant].is_rejected()


def power(*case, mark=pytest.mark.thorough):
    """What shows that a check rejects."""
    return pytest.param(*case, marks=[pytest.mark.pure, mark])


OTHER_RATES = [power(4, False), power(17, False, mark=pytest.mark.slow)]


@pytest.mark.parametrize(("tenths", "passes"), [(10, True), *OTHER_RATES])
@pytest.mark.one_in(9)
@each
def test_only_draws_at_the_right_rate_fit(name, tenths, passes, monkeypatch):
    assert CASES[name].fits(tenths, monkeypatch) is passes


@pytest.mark.slow
@pytest.mark.parametrize(("tenths", "passes"), [(7, False), (10, True), (13, False)])
@each
def test_draws_at_a_rate_that_is_nearly_right_do_not_fit(name, tenths, passes, monkeypatch):
    monkeypatch.setattr(distributions, "FEWER", 1)
    assert CASES[name].fits(tenths, monkeypatch) is passes


@pytest.mark.pure
@pytest.mark.parametrize(
    ("name", "check"), [(n, t) for n, case in CASES.items() for t in case.tight]
)
def test_a_lower_price_would_be_wrong(name, check):
    with pytest.raises(NotPrivateError):
        check_privacy(CASES[name].tight[check])
