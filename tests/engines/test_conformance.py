"""The fake engine answers as every engine must, and wrong ones are found out."""

from dataclasses import replace
from itertools import count
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from dp_sql.engines.protocol import Pairs, PartedQuestion
from dp_sql.privacy.relations.person_of import PersonOf
from tests.engines import fake
from tests.engines.conformance import SHARES_TRY, Conformance
from tests.engines.fake import Columns, FakeEngine, Lost, Part, Row
from tests.engines.questions import READERS, TITLES


class TestOnePart(Conformance):
    def engine_over(self, connection: duckdb.DuckDBPyConnection) -> FakeEngine:
        return FakeEngine(connection, 1, n_parts=1)


@pytest.mark.thorough
class TestManyPartsAndLostJobs(Conformance):
    """Each part is computed twice, and each job is lost once."""

    def engine_over(self, connection: duckdb.DuckDBPyConnection) -> FakeEngine:
        runs = count()

        def job() -> None:
            if next(runs) % 2 == 0:
                raise Lost

        return FakeEngine(connection, 2, n_parts=7, repeats=2, retries=1, job=job)


# --- wrong engines ---


class TwoPartsForOne(FakeEngine):
    """Splits the rows of each person."""

    def read(self, of: PersonOf) -> tuple[Columns, list[Row]]:
        columns, rows = super().read(of)
        return columns, [(n, f"{n} {person}", *rest) for n, person, *rest in rows]


class TwoSplits(FakeEngine):
    """Splits people in another way for each job."""

    def delivered(self, question: PartedQuestion) -> list[Part]:
        self.seed += 1
        return super().delivered(question)


class APartMissing(FakeEngine):
    def delivered(self, question: PartedQuestion) -> list[Part]:
        return super().delivered(question)[1:]


class APartTwice(FakeEngine):
    """Delivers a part's rows twice, as a task that is run again and counted again."""

    def delivered(self, question: PartedQuestion) -> list[Part]:
        first, *rest = super().delivered(question)
        return [first, first, *rest]


class FailedPartsMissing(FakeEngine):
    """Takes what there is if a part fails."""

    def _computed(self, question: PartedQuestion, part: int, tables: Any) -> Part:
        try:
            return super()._computed(question, part, tables)
        except duckdb.Error:
            no_rows = {of: (columns, []) for of, (columns, _) in tables.items()}
            return super()._computed(question, part, no_rows)


class OneOwner(FakeEngine):
    """Gives each row to one person."""

    def read(self, of: PersonOf) -> tuple[Columns, list[Row]]:
        columns, rows = super().read(of)
        return columns, [*{row[0]: row for row in rows}.values()]


class PeopleShareCodes(FakeEngine):
    """Has the codes of each part, as they are."""

    def person_code(self, part: int, code: int) -> int:
        return code


class NewCodesOfItems(FakeEngine):
    def item_code(self, place: int) -> int:
        return self.n_jobs * 1000 + place


class NotComplete(FakeEngine):
    """Says of all items that they are complete."""

    def thin(self, question: PartedQuestion, people_per_item: int) -> Pairs:
        found = super().thin(question, people_per_item)
        return replace(found, complete=np.unique(found.items))


class PeopleMissing(FakeEngine):
    """Has no pair of a person whose items have others."""

    def thin(self, question: PartedQuestion, people_per_item: int) -> Pairs:
        found = super().thin(question, people_per_item)
        first = np.sort(np.unique(found.items, return_index=True)[1])
        some = replace(found, items=found.items[first], people=found.people[first])
        return replace(some, complete=some.complete[:0])


class TooManyPeople(FakeEngine):
    """Counts people once for each item."""

    def thin(self, question: PartedQuestion, people_per_item: int) -> Pairs:
        found = super().thin(question, people_per_item)
        return replace(found, n_people=len(found.items))


class RowsOfToday(FakeEngine):
    """Reads the rows as they are at each job."""

    def read(self, of: PersonOf) -> tuple[Columns, list[Row]]:
        self._seen.clear()
        return super().read(of)


class SetsByRow(FakeEngine):
    """Merges rows without regard to their keys."""

    def _merged(self, question: PartedQuestion) -> pa.Table:
        parts = self.delivered(question)
        self.delivered = lambda _: parts[:1]  # type: ignore[method-assign]
        tables = [super()._merged(question)]
        self.delivered = lambda _: parts[1:]  # type: ignore[method-assign]
        return pa.concat_tables([*tables, super()._merged(question)])


class NoRowNoAnswer(FakeEngine):
    def _merged(self, question: PartedQuestion) -> pa.Table:
        found = super()._merged(question)
        return found if any(self.read(of)[1] for of in question.tables) else found[:0]


class NothingForEmpty(FakeEngine):
    """Takes an empty string for NULL, as Oracle does."""

    def delivered(self, question: PartedQuestion) -> list[Part]:
        parts = super().delivered(question)
        return [(n, c, [tuple(x or None for x in row) for row in rows]) for n, c, rows in parts]


class EveryOptimizer(FakeEngine):
    def _computed(self, question: PartedQuestion, part: int, tables: Any) -> Part:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fake, "SETTINGS", ["RESET disabled_optimizers"])
            return super()._computed(question, part, tables)


WRONG: dict[type[FakeEngine], list[tuple[str, tuple[Any, ...]]]] = {
    TwoPartsForOne: [
        ("each_person_is_in_one_part", ()),
        ("people_are_counted_once_for_each_item", ()),
    ],
    TwoSplits: [("items_and_people_are_completed", ())],
    APartMissing: [
        ("people_are_counted_once_for_each_item", ()),
        ("a_total_adds_up_the_rows_of_all_people", ()),
        ("all_pairs_come_where_no_items_are_named", (TITLES, READERS)),
    ],
    APartTwice: [
        ("people_are_counted_once_for_each_item", ()),
        ("a_histogram_counts_people_by_their_rows", ()),
    ],
    FailedPartsMissing: [("a_failure_of_one_part_or_set_is_one_of_all", ("part_sql",))],
    OneOwner: [("rows_that_are_linked_to_people_count_once_for_each_of_them", ())],
    PeopleShareCodes: [("all_pairs_come_where_no_items_are_named", (TITLES, READERS))],
    NewCodesOfItems: [("items_and_people_are_completed", ())],
    NotComplete: [("thin_has_something_of_all", (1,))],
    PeopleMissing: [("thin_has_something_of_all", (1,))],
    TooManyPeople: [("thin_has_something_of_all", (1,))],
    RowsOfToday: [
        (
            "rows_that_change_between_two_jobs_raise_or_change_no_pair",
            (f"DELETE FROM shop.ratings WHERE {which}",),
        )
        for which in ("user_id = 'only'", "title = 'Dune' AND user_id = 'bob'")
    ],
    SetsByRow: [("people_are_counted_once_for_each_item", ())],
    NoRowNoAnswer: [("a_total_of_no_rows_is_one_row", ())],
    EveryOptimizer: [("no_row_fails_what_is_tried", ())] * SHARES_TRY,
    NothingForEmpty: [
        ("people_are_counted_once_for_each_item", ()),
        ("values_of_all_types_are_literals_keys_and_public_rows", ()),
    ],
}
_CASES = [(wrong, *case) for wrong, cases in WRONG.items() for case in cases]


@pytest.mark.thorough
@pytest.mark.pure
@pytest.mark.parametrize(("wrong", "test", "given"), _CASES)
def test_a_wrong_engine_is_rejected(
    wrong: type[FakeEngine], test: str, given: tuple[Any, ...]
) -> None:
    class Wrong(Conformance):
        def engine_over(self, connection: duckdb.DuckDBPyConnection) -> FakeEngine:
            return wrong(connection)

    failures = (AssertionError, pytest.fail.Exception, duckdb.OutOfRangeException)
    with pytest.raises(failures):
        getattr(Wrong(), f"test_{test}")(*given)
