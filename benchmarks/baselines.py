"""Two ways to a private top-k by noise on every count, to compare with. Floats; not for releases.

They are here because the papers measure against them. Neither can be reached from SQL.
"""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray


def laplace(counts: NDArray[np.int64], k: int, epsilon: Fraction) -> list[int]:
    """The k largest of the counts with Laplace noise of scale k / epsilon on each.

    Privacy: epsilon-DP in the real numbers, under adding or removing one person who adds at most
        1 to each count.
    Source: Ding et al. 2019, one-shot noisy top-k of monotone counts; Qiao et al. 2021.
    """
    noise = np.random.default_rng().laplace(0, float(k / epsilon), len(counts))
    return _largest(counts + noise, k)


def gamma(counts: NDArray[np.int64], k: int, epsilon: Fraction) -> list[int]:
    """The k largest of the counts with noise of density ~ exp(-epsilon * largest |noise|).

    The largest |noise| of d + 1 exponentials' sum, times a uniform point of the cube [-1, 1]^d,
    has that density.

    Privacy: epsilon-DP in the real numbers, whatever k is, under adding or removing one person
        who adds at most 1 to each count.
    Source: Steinke and Ullman 2017, theorem 4.1: the K-norm mechanism with the cube as K.
    """
    rng = np.random.default_rng()
    radius = rng.gamma(len(counts) + 1, float(1 / epsilon))
    return _largest(counts + radius * rng.uniform(-1, 1, len(counts)), k)


def _largest(noisy: NDArray[np.float64], k: int) -> list[int]:
    found: list[int] = np.argsort(-noisy, kind="stable")[:k].tolist()
    return found
