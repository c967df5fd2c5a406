"""Questions to DuckDB while one statement is planned: asked together, and each of them once."""

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Generic, TypeVar

from dp_sql.engines.duckdb.sql_runner import forget_oldest

K = TypeVar("K")
V = TypeVar("V")
_MOST = 100  # questions at once


class Together(Generic[K, V]):
    """Questions of one kind. The first of a statement asks all that such statements asked before.

    Answers hold for one statement. What is kept for later ones is which questions they had.
    """

    def __init__(
        self, ask: Callable[[Sequence[K]], dict[K, V]], before: dict[Any, tuple[K, ...]]
    ) -> None:
        """ask: answers some questions. before: those that statements of each kind had."""
        self._ask, self._before = ask, before
        self._statement: object = None
        self._answers: dict[K, V] = {}
        self._more: Sequence[K] = ()

    @contextlib.contextmanager
    def during(self, statement: object, wanted: Sequence[K] = ()) -> Iterator[None]:
        """While a statement of a kind is planned, which is likely to ask what is wanted."""
        self._statement = statement
        self._more = [*wanted, *self._before.get(statement, ())][:_MOST]
        try:
            yield
        finally:
            self._statement, self._answers, self._more = None, {}, ()

    def answers(self, questions: Collection[K]) -> list[V]:
        """The answer of each question, in their order."""
        missing = [one for one in questions if one not in self._answers]
        answers = self._answers
        if missing:
            answers = answers | self._ask([*dict.fromkeys([*missing, *self._more])])
        if missing and self._statement is not None:
            self._answers, self._more = answers, ()
            self._before[self._statement] = tuple(answers)[:_MOST]
            forget_oldest(self._before)
        return [answers[one] for one in questions]
