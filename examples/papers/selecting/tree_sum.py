"""A private running sum of unknown length: the hybrid mechanism of Chan, Shi and Song 2010.

Knows integers and noise; never what is summed.
"""

from fractions import Fraction

from dp_sql.udfs.discrete_laplace import discrete_laplace
from dp_sql.udfs.exact_sampling import Draws


class HybridSum:
    """Add values one after the other, and see the sum of all so far with noise after each.

    The values fall into blocks of 1, 2, 4, ... Each full block's sum is released once, at half of
    epsilon. Inside a block of 2**k values the binary mechanism releases sums over 1, 2, 4, ...
    neighbours, of which at most k hold any one value: each at a k-th of the other half.

    Args:
        span: values lie in an interval of this length, positive.
        epsilon: loss of all sums together about one value, positive.
        draws: where the noise comes from.

    Privacy: all sums together are epsilon-DP under the replacement of one value.
    Source: Chan, Shi and Song 2010, with exact discrete noise.
    """

    def __init__(self, span: int, epsilon: Fraction, draws: Draws) -> None:
        self._rate = epsilon * Fraction(1, 2 * span)
        self._draws = draws
        self._released = 0
        self._level = 0
        self._start_block()

    def add(self, value: int) -> int:
        """Add a value and return the noisy sum of all so far."""
        self._n += 1
        if self._n == 1 << self._level:
            self._released += sum(self._sums.values()) + value + self._noise(1)
            self._level += 1
            self._start_block()
            return self._released
        top = (self._n & -self._n).bit_length() - 1
        joined = value + sum(self._sums.pop(place, 0) for place in range(top))
        self._sums[top] = joined
        self._noisy[top] = joined + self._noise(self._level)
        for place in range(top):
            self._noisy.pop(place, None)
        return self._released + sum(self._noisy.values())

    def _start_block(self) -> None:
        self._n = 0
        self._sums: dict[int, int] = {}
        self._noisy: dict[int, int] = {}

    def _noise(self, n_shares: int) -> int:
        return discrete_laplace(self._rate * Fraction(1, n_shares), self._draws)
