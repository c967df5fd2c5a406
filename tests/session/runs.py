"""What a mechanism gets: the arguments of each run, noted before it draws."""

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
    right: Any = shape.draw_each

    def draw_each(self: Shape, mechanism: Any, *given: Any) -> Any:
        def run(*data: Any, **public: Any) -> Any:
            found.append(note(*data, **public))
            return mechanism.run(*data, **public)

        def run_each(data: Any, **public: Any) -> Any:
            found.extend(note(*one, **public) for one in data)
            return mechanism.run_each(data, **public)

        noting = replace(mechanism, run=run, run_each=mechanism.run_each and run_each)
        return right(self, noting, *given)

    monkeypatch.setattr(shape, "draw_each", draw_each)
    return found
