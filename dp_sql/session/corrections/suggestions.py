"""The first correction of a refused statement that works, and what is said beside it.

A statement is proposed only after a session has planned and bound it, which reads no private row
and spends nothing; and only if it keeps the source, the conditions and the groups of the question
(same_question.py). One that asks something else is called a different question.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from dp_sql.errors import ArgumentError, BudgetExceeded, NotPrivate, NotSupported, QueryError
from dp_sql.privacy.refusals import PER_PERSON
from dp_sql.session.corrections.duckdb_errors import THE_FUNCTIONS, without_lists
from dp_sql.session.corrections.examples import OF_GROUPS, examples, left_out
from dp_sql.session.corrections.same_question import Kept, aggregates_answers, kept
from dp_sql.sql.argument_errors import BOUND_EACH

Attempt = Callable[[str], Exception | None]  # what is wrong with a statement, if anything is
Expand = Callable[[str], Sequence[str]]  # a candidate, or others in its place
_PUBLIC = "without looking at the data"
_REFUSED_TOO = "With DP functions it would be refused, too:"
_MOST_TRIES, _DEEPEST, _LONGEST = 16, 6, 2000


class Suggestion(NamedTuple):
    """A statement that works, and what it keeps of the question.

    notes: what was said on the way to it. public: sets in it that are known to be public.
    """

    text: str
    kept: Kept
    notes: tuple[str, ...] = ()
    public: tuple[str, ...] = ()


class _Search:
    """The search for a statement that works: a candidate that does not leads to others.

    One that asks the same comes before one that asks something else.
    """

    def __init__(self, before: str, attempt: Attempt, expand: Expand | None) -> None:
        self._before, self._attempt, self._expand = before, attempt, expand
        self._tries = iter(range(_MOST_TRIES))

    def first(self, some: Sequence[str], depth: int, so_far: Suggestion) -> Suggestion | None:
        """The first of some corrections of a statement that leads to one that works."""
        steps = [one for each in some for one in (self._expand(each) if self._expand else [each])]
        judged = [(min(so_far.kept, kept(so_far.text, one)), one) for one in dict.fromkeys(steps)]
        other: Suggestion | None = None
        for level, one in sorted(judged, key=lambda pair: -pair[0]):
            is_long = len(one) > max(_LONGEST, len(self._before) + 100)
            if level is Kept.LOST or is_long or next(self._tries, None) is None:
                break
            if other is not None and level is Kept.OTHER:
                break
            found = self._tried(one, level, depth, so_far)
            if found is not None and found.kept is Kept.SAME:
                return found
            other = other or found
        return other

    def _tried(self, one: str, level: Kept, depth: int, so_far: Suggestion) -> Suggestion | None:
        """A correction if it works; else what its error leads to."""
        wrong = self._attempt(one)
        if wrong is None:
            is_other = _is_of_other_groups(self._before, one, so_far.public)
            return Suggestion(
                str(one), Kept.OTHER if is_other else level, so_far.notes, so_far.public
            )
        if not depth or not isinstance(wrong, QueryError) or not wrong.instead:
            return None
        notes, public = (*so_far.notes, *_conditions(wrong)), (*so_far.public, *wrong.public)
        return self.first(wrong.instead, depth - 1, Suggestion(one, level, notes, public))


def _working(
    before: str, some: Sequence[str], attempt: Attempt, expand: Expand | None
) -> Suggestion | None:
    """The first of some statements that works, or leads to one that does."""
    search = _Search(before, attempt, expand)
    return search.first(some, _DEEPEST, Suggestion(before, Kept.SAME))


def _is_of_other_groups(before: str, after: str, public: Sequence[str]) -> bool:
    """Whether it aggregates the answers of groups that are examples, or that delta finds."""
    if not aggregates_answers(after):
        return False
    finds = "delta :=" in after and "delta :=" not in before
    return finds or OF_GROUPS in examples(before, after, public)


def _conditions(wrong: QueryError) -> list[str]:
    """What must hold for a correction to be right, which an error says beside it."""
    lines = (wrong.hint or "").split("\n")
    return [line for line in lines if line.startswith(("If ", "groups := observed declares"))]


def propose(error: QueryError, before: str, attempt: Attempt, expand: Expand | None) -> bool:
    """Add to an error the statement that works instead, if one is known; returns whether it is."""
    reasons: list[str] = []
    each_person: set[str] = set()  # candidates that would answer about each person

    def watched(text: str) -> Exception | None:
        wrong = attempt(text)
        # Where it is an argument that is wrong, another may help; a parameter has no value here.
        is_last = isinstance(wrong, NotPrivate | NotSupported | BudgetExceeded)
        is_of_one = isinstance(wrong, ArgumentError) and (wrong.hint or "").endswith(PER_PERSON)
        each_person.update([text] * is_of_one)
        is_last |= isinstance(wrong, ArgumentError) and (is_of_one or not wrong.instead)
        if isinstance(wrong, QueryError) and is_last and wrong.message != error.message:
            reasons.append(" ".join(filter(None, [wrong.message, wrong.hint])))
        return wrong

    found = _working(before, error.instead, watched, expand)
    if others := each_person and [one for one in error.instead if one not in each_person]:
        found = _working(before, others, attempt, expand)
        reasons = reasons[len(each_person) * (found is not None) :]
    said = examples(before, found.text, [*error.public, *found.public]) if found else ""
    # An average over example groups is none over those of the question.
    of_one = bool(reasons) and reasons[0].endswith(PER_PERSON) and error.hint != PER_PERSON
    if found is None or of_one or (OF_GROUPS in said and aggregates_answers(found.text)):
        if reasons and THE_FUNCTIONS in (error.hint or ""):
            error.hint = reasons[0] if of_one else f"{_REFUSED_TOO} {reasons[0]}"
        return False
    error.suggestion, error.asks_other = found.text, found.kept is Kept.OTHER
    dropped = " and ".join(left_out(before, found.text))
    own = without_lists(error.hint)
    if _PUBLIC in said:  # it says so, too
        own = " ".join(one for one in re.split(r"(?<=\.) ", own) if not one.endswith(f"{_PUBLIC}."))
    notes = [own, *found.notes, said]
    if dropped and BOUND_EACH not in (own or ""):
        notes.append(f"The statement below has no {dropped}. {BOUND_EACH}")
    error.hint = " ".join(dict.fromkeys(filter(None, notes)))
    return True
