"""Checks of the public numbers that mechanisms take. Never sees data."""

from fractions import Fraction


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
