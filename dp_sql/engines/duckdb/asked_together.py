"""What DuckDB is asked while a statement is planned: together where it can be, and each once."""

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Generic, TypeVar

from dp_sql.engines.duckdb.session_state import Recent

K = TypeVar("K")
V = TypeVar("V")
_MOST = 100  # questions at once


class Together(Generic[K, V]):
    """Asks with the first question of a statement all that statements like it asked before.

    An answer is used for one statement, never for a later one: only the questions are remembered.
    """

    def __init__(
        self, ask: Callable[[Sequence[K]], dict[K, V]], before: Recent[Any, tuple[K, ...]]
    ) -> None:
        """ask: answers questions. before: the last questions of each kind of statement."""
        self._ask, self._before = ask, before
        self._kind: object = None  # of the statement; None: none is planned
        self._answers: dict[K, V] = {}
        self._more: Sequence[K] = ()

    @contextlib.contextmanager
    def during(self, kind: object, wanted: Sequence[K] = ()) -> Iterator[None]:
        """Remember answers while one statement is planned, which probably asks `wanted`, too."""
        self._kind = kind
        self._more = [*wanted, *self._before.get(kind, ())][:_MOST]
        try:
            yield
        finally:
            self._kind, self._answers, self._more = None, {}, ()

    def answers(self, questions: Collection[K]) -> list[V]:
        """The answer of each question, in their order."""
        missing = [one for one in questions if one not in self._answers]
        answers = self._answers
        if missing:
            answers = answers | self._ask([*dict.fromkeys([*missing, *self._more])])
        if missing and self._kind is not None:
            self._answers, self._more = answers, ()
            self._before[self._kind] = tuple(answers)[:_MOST]
        return [answers[one] for one in questions]
