from fractions import Fraction

import pytest

from udfs.select import (
    accuracy,
    combined_gem,
    exponential,
    gem,
    k_randomised_response,
    mgem,
    pnf,
)
from udfs.select.candidates import in_units

EPSILON, BETA = Fraction(1), Fraction(1, 20)
MODULES = [exponential, pnf, gem, mgem, combined_gem, k_randomised_response]
PUBLIC = {"epsilon": EPSILON, "beta": BETA}

each = pytest.mark.parametrize("module", MODULES, ids=lambda module: module.UDF.name)
each_with_beta = pytest.mark.parametrize(
    "module", [gem, mgem, combined_gem], ids=lambda module: module.UDF.name
)
NOT_EXACT = [1.0, float("nan"), True, "1", None]


def choose(module, scores, sensitivities, **changed):
    numbers = [(PUBLIC | changed)[name] for name in module.UDF.parameters]
    return module.select(scores, sensitivities, *numbers)


@pytest.mark.parametrize("bad", NOT_EXACT)
@each
def test_scores_of_another_type_are_refused(module, bad):
    with pytest.raises(TypeError, match="scores"):
        choose(module, [1, bad], [1, 1])


@pytest.mark.parametrize("bad", NOT_EXACT)
@each
def test_sensitivities_of_another_type_are_refused(module, bad):
    with pytest.raises(TypeError, match="sensitivities"):
        choose(module, [1, 1], [1, bad])


@pytest.mark.parametrize("bad", [-1, Fraction(-1, 2)])
@each
def test_negative_sensitivities_are_refused(module, bad):
    with pytest.raises(ValueError, match="sensitivities"):
        choose(module, [1, 1], [1, bad])


@pytest.mark.parametrize(("scores", "sizes"), [([], []), ([1], []), ([1], [1, 2])])
@each
def test_lists_that_do_not_match_are_refused(module, scores, sizes):
    with pytest.raises(ValueError, match="one sensitivity"):
        choose(module, scores, sizes)


@pytest.mark.parametrize("bad", [1.0, 1, True, "1", None])
@each
def test_an_epsilon_of_another_type_is_refused(module, bad):
    with pytest.raises(TypeError, match="epsilon"):
        choose(module, [1], [1], epsilon=bad)


@pytest.mark.parametrize("bad", [Fraction(0), Fraction(-1)])
@each
def test_an_epsilon_out_of_range_is_refused(module, bad):
    with pytest.raises(ValueError, match="epsilon"):
        choose(module, [1], [1], epsilon=bad)


@pytest.mark.parametrize("bad", [0.05, 1, True, "1", None])
@each_with_beta
def test_a_beta_of_another_type_is_refused(module, bad):
    with pytest.raises(TypeError, match="beta"):
        choose(module, [1], [1], beta=bad)


@pytest.mark.parametrize("bad", [Fraction(0), Fraction(1)])
@each_with_beta
def test_a_beta_out_of_range_is_refused(module, bad):
    with pytest.raises(ValueError, match="beta"):
        choose(module, [1], [1], beta=bad)


@each
def test_accuracy_of_wrong_numbers_is_refused(module):
    with pytest.raises(ValueError, match="one sensitivity"):
        module.UDF.accuracy([], EPSILON, BETA)
    with pytest.raises(TypeError, match="sensitivities"):
        module.UDF.accuracy([1.5], EPSILON, BETA)
    with pytest.raises(ValueError, match="epsilon"):
        module.UDF.accuracy([1], -EPSILON, BETA)
    with pytest.raises(ValueError, match="beta"):
        module.UDF.accuracy([1], EPSILON, Fraction(2))


@each
def test_one_candidate_is_chosen_whatever_it_is_worth(module):
    for score in (0, -5, Fraction(1, 3)):
        for size in (0, 2, Fraction(1, 7)):
            assert choose(module, [score], [size]) == 0


@each
def test_awful_numbers_give_a_position(module):
    scores = [Fraction(0.1), 10**40, Fraction(-1, 3), -(10**40)]
    for epsilon in (Fraction(1, 10**9), Fraction(0.7), Fraction(10**9)):
        for sizes in ([0] * 4, [0, Fraction(1, 10**30), 1, 10**30], [10**50] * 4):
            assert choose(module, scores, sizes, epsilon=epsilon) in range(4)


def test_units_keep_all_ratios():
    scores, sizes = in_units([Fraction(1, 2), -3], [Fraction(2, 3), 0])
    assert (scores, sizes) == ([3, -18], [4, 0])


def test_whole_numbers_are_their_own_units():
    assert in_units([5, -3], [2, 0]) == ([5, -3], [2, 0])


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (Fraction(0), "0"),
        (Fraction(1), "1"),
        (Fraction(10**9 + 1, 10**4), "100001"),
        (Fraction(2, 3), "0.6667"),
        (Fraction(1, 10**6), "0.000001"),
        (Fraction(12341, 10**7), "0.001235"),
    ],
)
def test_errors_are_rounded_up(x, words):
    assert accuracy.rounded_up(x) == words
