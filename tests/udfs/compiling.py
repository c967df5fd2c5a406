"""Kernels with a change in them, for tests that must notice it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from dp_sql.udfs.count_distinct import kernels
from dp_sql.udfs.count_distinct.kernels_build import SOURCES, compile_kernels, compiler

FOLDER = SOURCES[0].parent


def changed(folder: Path, right: str, wrong: str, file: str = "*.[ch]") -> list[Path]:
    """Copy the C files; those that are called so have one passage changed, unless it is empty."""
    n_places = 0
    for path in FOLDER.glob("*.[ch]"):
        text = path.read_text()
        if right and path.match(file):
            n_places += text.count(right)
            text = text.replace(right, wrong)
        (folder / path.name).write_text(text)
    assert n_places == bool(right)
    return [folder / source.name for source in SOURCES]


def compile_changed(sources: Sequence[Path], library: Path, *flags: str) -> None:
    """Compile them; the test is skipped where there is no compiler, as for users of a wheel."""
    if compiler() is None:
        pytest.skip("no C compiler works here")
    compile_kernels(sources, library, *flags)


@contextmanager
def changed_kernels(folder: Path, right: str, wrong: str, file: str = "*.[ch]") -> Iterator[None]:
    """Meanwhile the kernels have one passage changed."""
    library = folder / "mutant.so"
    compile_changed(changed(folder, right, wrong, file), library, "-O0")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "LIBRARY", library)
        kernels.library.cache_clear()
        try:
            yield
        finally:
            kernels.library.cache_clear()
