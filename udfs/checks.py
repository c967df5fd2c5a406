"""Checks of what mechanisms take: public numbers, and vectors of counts or votes."""

from fractions import Fraction
from typing import Any

import numpy as np


def check_epsilon(epsilon: Fraction) -> None:
    """Refuse what is not a positive Fraction."""
    if not isinstance(epsilon, Fraction):
        raise TypeError("epsilon must be a Fraction")
    if epsilon <= 0:
        raise ValueError("epsilon must be positive")


def check_probability(name: str, value: Fraction, below: Fraction = Fraction(1)) -> None:
    """Refuse what is not a Fraction strictly between 0 and `below`."""
    if not isinstance(value, Fraction):
        raise TypeError(f"{name} must be a Fraction")
    if not 0 < value < below:
        raise ValueError(f"{name} must lie between 0 and {below}")


def check_int(name: str, value: int) -> None:
    """Refuse what is not an integer."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be an int")


def check_positive_int(name: str, value: int) -> None:
    """Refuse what is not an integer of at least 1."""
    check_int(name, value)
    if value < 1:
        raise ValueError(f"{name} must be at least 1")


def check_vector(name: str, values: Any, most: int, shown: str) -> None:
    """Refuse what is not a vector of integers from 0 to `most`, which an error calls `shown`."""
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "iu":
        raise TypeError(f"{name} must be a numpy array of integers")
    if not np.can_cast(values.dtype, np.int64):
        raise TypeError(f"{name} must fit 64-bit signed integers")
    if values.ndim != 1:
        raise ValueError(f"{name} must have one dimension")
    if values.size and not 0 <= int(values.min()) <= int(values.max()) <= most:
        raise ValueError(f"{name} must lie between 0 and {shown}")
