"""Exact sampling: fair bits become draws from exactly the stated distributions.

Never sees data, floats, seeds or stored randomness. Nothing is buffered in this process, so a fork
cannot make two processes repeat each other. The argument for every step is in exact_sampling.md.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_sql.udfs.odds import WORD_BITS, Coins, Odds
from dp_sql.udfs.powers import enclosed, running_sums
from dp_sql.udfs.randomness import fair_bits

Chances = Callable[[int], tuple[Sequence[int], Sequence[int]]]
"""chances(bits): lows[j] <= 2**bits * p_j <= highs[j], where 0 < p_j < 1 and the gaps, divided by
2**bits, shrink to 0 as bits grow. The last low and high hold for all later j, too."""

_Int64s = NDArray[np.int64]
_Numbers = NDArray[Any]  # of int64, or of objects, which are Python's integers of any size
_Words = NDArray[np.uint64]
_Booleans = NDArray[np.bool_]

_HALF_BITS = 32
_SPACE = 1 << _HALF_BITS
_ONCE = np.ones((1, 1), np.int64)


class Draws:
    """The ten ways in which a mechanism may be random, each with the exact distribution.

    bits(n) returns n fresh fair bits, as an integer in [0, 2**n).
    """

    def __init__(self, bits: Callable[[int], int]) -> None:
        self._bits = bits

    def below(self, n: int) -> int:
        """Draw each of 0, ..., n - 1 with probability 1/n, for n >= 1."""
        if n < 1:
            raise ValueError("below(n) needs n >= 1")
        width = (n - 1).bit_length()
        while width:
            drawn = self._bits(width)
            if drawn < n:
                return drawn
        return 0

    def choose(self, odds: Odds) -> int:
        """Draw outcome j with probability proportional to its weight, exactly."""
        return self._chosen(odds, self._bits(WORD_BITS))

    def choose_each(self, odds: Odds, n: int) -> _Int64s:
        """Draw n outcomes in this way, all independently."""
        (starts, lasts), words = odds.edges, self._words(n)
        chosen = np.searchsorted(lasts, words).astype(np.int64, copy=False)
        ends = np.append(starts, np.uint64(2**WORD_BITS - 1))[chosen]
        for i in np.flatnonzero((words >= ends) & (chosen < starts.size)).tolist():
            chosen[i] = self._chosen(odds, int(words[i]))
        return chosen

    def choose_powers(
        self, exponents: _Numbers, rate: Fraction, times: _Numbers = _ONCE, *more: _Numbers
    ) -> _Int64s:
        """Draw in each row outcome j with probability proportional to times[j] * q**exponents[j].

        All rows are independent, and q = exp(-rate); `times` is multiplied by each of `more`. Shape
        (rows, outcomes) or (1, outcomes) in, (rows,) out. Entries are >= 0; where an array holds
        objects, numbers of any size, the rows are drawn from one by one.
        """
        powers, *n_times = np.broadcast_arrays(exponents, times, *more)

        def odds(i: int) -> Odds:
            numbers = map(math.prod, zip(*(n[i].tolist() for n in n_times), strict=True))
            return Odds([(term,) for term in zip(numbers, powers[i].tolist(), strict=True)], rate)

        if any(one.dtype == object for one in (powers, *n_times)):
            return np.array([self.choose(odds(i)) for i in range(len(powers))], np.int64)
        lows, highs = running_sums(exponents, rate, (times, *more), _HALF_BITS - 1)
        words = self._half_words(len(powers))
        # The tape times the total weight lies in [at_least, at_most].
        at_least = words * lows[:, -1] >> _HALF_BITS
        at_most = ((words + 1) * highs[:, -1] >> _HALF_BITS) + 1
        chosen: _Int64s = (highs[:, :-1] <= at_least[:, None]).sum(axis=1)
        lows[:, -1] = _SPACE  # the last outcome has no end
        for i in np.flatnonzero(at_most > lows[np.arange(len(lows)), chosen]).tolist():
            chosen[i] = self._chosen(odds(i), int(words[i]), _HALF_BITS)
        return chosen

    def flip_powers(self, exponents: _Numbers, rate: Fraction) -> _Booleans:
        """Flip a coin for each of `exponents`, >= 0: heads with probability exp(-rate * exponent).

        All flips are independent. Shape (flips,) both. Numbers of any size are taken one by one.
        """

        def odds(a: int) -> Odds:
            return Odds((((1, a),), ((1, 0), (-1, a))), rate)

        if exponents.dtype == object:
            return np.array([self.choose(odds(a)) == 0 for a in exponents.tolist()], np.bool_)
        lows, highs = enclosed(exponents, rate, _HALF_BITS)
        words = self._half_words(exponents.size)
        heads: _Booleans = words < lows
        for i in np.flatnonzero((words < highs) & ~heads):
            heads[i] = self._chosen(odds(int(exponents[i])), int(words[i]), _HALF_BITS) == 0
        return heads

    def flip_each(self, coins: Coins, n: int) -> _Booleans:
        """Flip each coin n times, all independently. Returns which show heads, shape (n, coins)."""
        starts, lasts = coins.edges
        words = self._words(n * starts.size).reshape(n, starts.size)
        heads: _Booleans = words > lasts
        for i, j in np.argwhere((words >= starts) & ~heads).tolist():
            heads[i, j] = self._chosen(coins.odds[j], int(words[i, j])) == 1
        return heads

    def _chosen(self, odds: Odds, prefix: int, width: int = WORD_BITS) -> int:
        """Find the outcome of a tape that begins with these bits."""
        while (outcome := odds.decide(prefix, width)) is None:
            prefix = prefix << width | self._bits(width)
            width *= 2
        return outcome

    def orders(self, sizes: NDArray[np.integer[Any]]) -> _Int64s:
        """Draw for each size n >= 0 a uniformly random order of 0, ..., n - 1; all in one row.

        All combinations of orders are equally likely. Shape (groups,) in, (sum of sizes,) out.
        """
        return _orders(_checked(sizes), self._words)

    def subsets(self, sizes: NDArray[np.integer[Any]], most: int) -> _Booleans:
        """Draw for each size n >= 0 a uniformly random set of min(n, most) among 0, ..., n - 1.

        All combinations of sets are equally likely. Returns who is drawn, all in one row. Shape
        (groups,) in, (sum of sizes,) out. The sizes add up to less than 2^31; most >= 0.
        """
        sizes = _checked(sizes)
        too_many = np.maximum(sizes - most, 0)
        leaves = too_many < most  # it is quicker to draw who is left out
        chosen = _subsets(sizes, np.where(leaves, too_many, most), self._half_words)
        chosen ^= np.repeat(leaves, sizes)
        return chosen

    def places(self, sizes: _Numbers) -> _Numbers:
        """Draw for each size n, below 2^63, one of 0, ..., n - 1, each with probability 1/n.

        All combinations are equally likely; where n is 0 or 1, it is 0. Shape (groups,) both.
        Numbers of any size come as objects.
        """
        if sizes.dtype == object:
            return np.array([self.below(max(n, 1)) for n in sizes.tolist()], object)
        sizes = _checked(sizes)
        drawn = np.zeros(sizes.size, np.int64)
        missing, are_large = np.flatnonzero(sizes > 1), sizes.max(initial=0) > _SPACE
        while missing.size:
            n = sizes[missing]
            place, fair = self._large_places(n) if are_large else self._small_places(n)
            drawn[missing[fair]] = place[fair]
            missing = missing[~fair]
        return drawn

    def _small_places(self, n: _Int64s) -> tuple[_Int64s, _Booleans]:
        """Try to draw places; the second array says which of them count."""
        word = self._half_words(n.size)
        place = word % n
        return place, word - place <= _SPACE - n

    def _large_places(self, n: _Int64s) -> tuple[_Int64s, _Booleans]:
        """Try to draw places by whole words, for n beyond 2^32."""
        word, unsigned = self._words(n.size), n.astype(np.uint64)
        place = word % unsigned
        return place.astype(np.int64), word - place <= ~unsigned + np.uint64(1)

    def hits(self, which: _Int64s, chances: Chances) -> _Booleans:
        """Draw for each j of `which`, independently, True with probability p_j, exactly."""
        starts, lasts = _edges(chances)
        words = self._words(which.size)
        at = np.minimum(which, starts.size - 1)
        hit: _Booleans = words < starts[at]
        maybe = words <= lasts[at]
        for i in np.flatnonzero(maybe & ~hit):
            hit[i] = self._is_below(int(words[i]), int(which[i]), chances)
        return hit

    def _is_below(self, prefix: int, j: int, chances: Chances) -> bool:
        """Decide whether the random number that begins with a word is below p_j."""
        width = WORD_BITS
        while True:
            prefix = prefix << width | self._bits(width)
            width *= 2
            lows, highs = chances(width)
            at = min(j, len(lows) - 1)
            if prefix < lows[at]:
                return True
            if prefix >= highs[at]:
                return False

    def _words(self, n: int) -> _Words:
        """Draw n words of fair bits."""
        drawn = self._bits(WORD_BITS * n).to_bytes(WORD_BITS // 8 * n, "little")
        return np.frombuffer(drawn, dtype="<u8").astype(np.uint64, copy=False)

    def _half_words(self, n: int) -> _Int64s:
        """Draw n integers, each below _SPACE with equal probabilities."""
        return self._words((n + 1) // 2).view(np.uint32)[:n].astype(np.int64)


def secret_draws() -> Draws:
    """Return draws from the operating system's random bits: the ones that releases use."""
    return Draws(fair_bits)


@lru_cache(maxsize=8)
def _edges(chances: Chances) -> tuple[_Words, _Words]:
    """Part the first words of tapes: a hit below the first number, none above the second."""
    lows, highs = chances(WORD_BITS)
    return np.array(lows, np.uint64), np.array([high - 1 for high in highs], np.uint64)


def _checked(sizes: NDArray[np.integer[Any]]) -> _Int64s:
    if sizes.dtype.kind not in "iu":
        raise TypeError("sizes must be integers")
    if sizes.size and sizes.min() < 0:
        raise ValueError("sizes must not be negative")
    return sizes.astype(np.int64)


def _orders(sizes: _Int64s, words: Callable[[int], _Words]) -> _Int64s:
    """Order each group by random words; members whose words are equal draw again.

    words(n) draws n independent words of one distribution. Their last bits make room for the
    number of the group.
    """
    group_bits = np.uint64(sizes.size.bit_length())
    numbers = np.arange(sizes.size, dtype=np.uint64) << np.uint64(WORD_BITS) - group_bits
    keys = words(int(sizes.sum())) >> group_bits
    keys |= np.repeat(numbers, sizes)
    order = np.argsort(keys).astype(np.int64, copy=False)
    keys = keys[order]
    tied = keys[1:] == keys[:-1]
    if tied.any():
        _settle_ties(order, tied, words)
    order -= np.repeat(np.cumsum(sizes) - sizes, sizes)
    return order


def _settle_ties(order: _Int64s, tied: NDArray[np.bool_], words: Callable[[int], _Words]) -> None:
    """Order each run of ties among the sorted members; tied[i]: places i and i + 1 are equal."""
    starts = np.flatnonzero(np.append(True, ~tied))
    sizes = np.diff(np.append(starts, order.size))
    several = sizes > 1
    first = np.repeat(starts[several], sizes[several])
    order[np.repeat(several, sizes)] = order[first + _orders(sizes[several], words)]


def _subsets(sizes: _Int64s, wanted: _Int64s, words: Callable[[int], _Int64s]) -> _Booleans:
    """Draw `wanted` members of each group: a member drawn before, or twice at once, is redrawn."""
    owner = np.zeros(int(sizes.sum()), dtype=np.int32)  # which draw of its round drew each; or 0
    starts = np.cumsum(sizes) - sizes
    groups = np.repeat(np.arange(sizes.size), wanted)  # of each draw that is still to be made
    while groups.size:
        n, word = sizes[groups], words(groups.size)
        members = starts[groups] + word % n
        new = (word < _SPACE - _SPACE % n) & (owner[members] == 0)
        draw = np.arange(1, groups.size + 1, dtype=np.int32)
        owner[members[new]] = draw[new]
        groups = groups[~new | (owner[members] != draw)]
    return owner > 0
