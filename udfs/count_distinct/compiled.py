"""How kernels are compiled: the only file of the mechanisms that imports the compiler."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile at the first call, and keep the result on disk if there is a place for it."""
    try:
        return cast(Function, njit(cache=True, nogil=True)(function))
    except RuntimeError:  # numba found no directory that it may write
        return cast(Function, njit(nogil=True)(function))


def inlined(function: Function) -> Function:
    """Make a part of the kernels that call it. A call would count references to every array."""
    return cast(Function, njit(inline="always")(function))
