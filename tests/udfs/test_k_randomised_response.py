import math
import time
from collections import Counter
from fractions import Fraction
from itertools import product

import pytest

from tests.udfs.choices import BETA, EPSILON, PowersOf
from tests.udfs.laws import NotPrivateError, check_neighbours, fits, law_of
from udfs.exact import Odds, secret_draws
from udfs.select import k_randomised_response as response
from udfs.spec import Loss

Q = Fraction(1, 3)
Q_OF = PowersOf(Q, EPSILON)


def shipped_law(scores):
    sizes = (1,) * len(scores)
    law, unfinished = law_of(lambda path: response._select(scores, sizes, EPSILON, path), Q_OF)
    assert unfinished == 0
    return law


def defined_law(scores):
    """Each of the best in turn, with odds exp(epsilon) : 1 against each of the others."""
    n, best = len(scores), [i for i, score in enumerate(scores) if score == max(scores)]
    law = Counter()
    for true, i in product(best, range(n)):
        law[i] += (1 / Q if i == true else 1) / (1 / Q + n - 1) / len(best)
    return law


def tables(n):
    return list(product((0, 1, Fraction(3, 2)), repeat=n))


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_the_law_is_the_definition_for_every_small_table(n):
    for scores in tables(n):
        assert shipped_law(scores) == defined_law(scores)


def check_privacy(n):
    """Any table may be the neighbour of any other."""
    check_neighbours(shipped_law, product(tables(n), repeat=2), 1 / Q)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_no_tables_can_be_told_apart(n):
    check_privacy(n)


def break_the_rate(patch):
    right = response._odds
    patch.setattr(response, "_odds", lambda n, epsilon: right(n, 2 * epsilon))


def forget_how_many_there_are(patch):
    patch.setattr(response, "_odds", lambda n, epsilon: Odds((((1, 0),), ((1, 1),)), epsilon))


@pytest.mark.parametrize("wrong", [break_the_rate, forget_how_many_there_are])
def test_wrong_odds_are_not_private(wrong, monkeypatch):
    wrong(monkeypatch)
    with pytest.raises(NotPrivateError):
        check_privacy(3)


def test_sensitivities_do_not_matter():
    for sizes in ((0, 0), (0, 5), (Fraction(1, 3), 2)):
        law, _ = law_of(lambda path, at=sizes: response._select((1, 2), at, EPSILON, path), Q_OF)
        assert law == defined_law((1, 2))


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(30)])
@pytest.mark.parametrize("n", [1, 2, 1000])
def test_the_accuracy_sentence_holds_and_is_sharp(n, epsilon):
    says = response.accuracy([1] * n, epsilon, BETA)
    stated = Fraction(says.split("at least ")[1].split(" no")[0])
    p = 1 / (1 + (n - 1) * Fraction(math.exp(-epsilon)))
    assert p - Fraction(2, 10**9) < stated <= p + Fraction(1, 10**15)


def test_the_accuracy_sentence_is_made_of_public_numbers():
    assert response.accuracy([1, 2, 0], EPSILON, BETA) == (
        "with probability at least 0.576116884 no score is larger than the chosen one "
        "(3 candidates, epsilon = 1)"
    )


def test_it_is_priced_as_a_pure_mechanism():
    assert response.loss(EPSILON) == Loss(EPSILON)


def test_a_hundred_thousand_candidates_are_quick():
    scores = [Fraction(i % 10**4, 1000) for i in range(10**5)]
    start = time.perf_counter()
    assert response.select(scores, [1] * len(scores), EPSILON) in range(10**5)
    assert time.perf_counter() - start < 2, "twenty times what it takes, for slow machines"


@pytest.mark.parametrize(("tenths", "passes"), [(7, False), (10, True), (13, False)])
def test_only_choices_with_the_right_epsilon_fit(tenths, passes):
    draws, scores = secret_draws(), (1, 5, 2, 4)
    epsilon = 2 * Fraction(tenths, 10)
    chosen = (response._select(scores, (1,) * 4, epsilon, draws) for _ in range(6000))
    p = 1 / (math.e**2 + 3)
    assert fits(Counter(chosen), {0: p, 1: math.e**2 * p, 2: p, 3: p}) is passes
