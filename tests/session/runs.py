"""What a mechanism gets: the arguments of each run, noted before it draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from dp_sql.sql.shape import Shape

Note = TypeVar("Note")


def noted_runs(
    monkeypatch: pytest.MonkeyPatch, shape: type[Shape], note: Callable[..., Note]
) -> list[Note]:
    """Return what `note` makes of the arguments of each run, in the order of the runs."""
    found: list[Note] = []
    right: Any = shape.draw

    def draw(self: Shape, mechanism: Any, *given: Any) -> Any:
        def run(*data: Any, **public: Any) -> Any:
            found.append(note(*data, **public))
            return mechanism.run(*data, **public)

        return right(self, replace(mechanism, run=run), *given)

    monkeypatch.setattr(shape, "draw", draw)
    return found
