"""Kernels with a change in them, for tests that must notice it."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from dp_sql.udfs.count_distinct.kernels_build import compile_kernels, compiler


def compile_changed(sources: Sequence[Path], library: Path, *flags: str) -> None:
    """Compile them; the test is skipped where there is no compiler, as for users of a wheel."""
    if compiler() is None:
        pytest.skip("no C compiler works here")
    compile_kernels(sources, library, *flags)
