"""DP_COUNT_DISTINCT: how many different items, or people, there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from dp_sql.errors import InternalError
from dp_sql.sql import readers
from dp_sql.sql.functions.bounded import REPORT_TYPE, Bounded, People
from dp_sql.sql.functions.chosen_limit import (
    FEW_GROUPS,
    MANY_GROUPS,
    PeopleUnderChosenLimit,
    choice_for,
    if_stated,
)
from dp_sql.sql.functions.vectors import PeopleOfGroups
from dp_sql.sql.given import Argument, Given
from dp_sql.sql.mechanism_rows import PAIRS, MechanismRows
from dp_sql.sql.ranges import MAX_CONTRIBUTIONS, OPEN_CONTRIBUTIONS
from dp_sql.sql.shape import EachGroup, Function, Shape, load_kernels
from dp_sql.sql.tokens import folded
from dp_sql.udfs import REGISTRY
from dp_sql.udfs.mechanism import BOUND_SELECTIONS, Mechanism, PrivacyLoss
from dp_sql.udfs.mixed import Singles

if TYPE_CHECKING:  # imported where they are needed: a first answer waits for all imports
    from dp_sql.udfs.contributions.release import BoundedRelease
    from dp_sql.udfs.count_distinct.bounded import CountRelease


class CountDistinct(Bounded):
    """Takes pairs of an item and a person who has it; returns one number."""

    registry = "count_distinct"
    in_memory: ClassVar[str] = "pairs"
    grows_with_people = True
    takes: ClassVar = {"__dp_pairs": PAIRS}
    udfs: ClassVar = {"__dp_sql_count_distinct": "BIGINT",
                      "__dp_sql_count_distinct_report": REPORT_TYPE}  # fmt: skip
    selections = BOUND_SELECTIONS
    largest = MAX_CONTRIBUTIONS
    open = OPEN_CONTRIBUTIONS

    @classmethod
    def read(cls, given: Given, mechanism: Mechanism) -> Self:
        """Check also that the compiled kernels are available."""
        load_kernels(given.name)
        sample = given.optional("sample_items", readers.read_sample, None)
        return replace(super().read(given, mechanism), sample_items=sample)

    def mechanism_arguments(self, mechanism: Mechanism) -> dict[str, Any]:
        """With a sample, the mechanism has a part of beta, and the sample the other."""
        numbers = super().mechanism_arguments(mechanism)
        if self.sample_items is not None:
            from dp_sql.udfs.count_distinct import item_sample

            numbers["beta"] = item_sample.for_each(self.beta)
        return numbers

    def release_key(self, mechanism: Mechanism) -> dict[str, Any]:
        numbers = self.mechanism_arguments(mechanism)
        if self.sample_items is not None:
            numbers["sample_items"] = self.sample_items
        return numbers

    def answers(self, found: Sequence[Any], loss: PrivacyLoss) -> list[Any]:
        if self.sample_items is None:
            return super().answers(found, loss)
        return [self.answer(one, loss) for one in found]

    def answer(self, found: CountRelease | BoundedRelease, loss: PrivacyLoss) -> Any:
        from dp_sql.udfs.count_distinct import item_sample
        from dp_sql.udfs.count_distinct.bounded import CountRelease

        if self.sample_items is not None and isinstance(found, CountRelease):
            found = item_sample.of_all_items(found, self.sample_items, self.beta)
        return super().answer(found, loss)

    def public_accuracy(self, mechanism: Mechanism, n_items: int | None) -> str:
        says = str(mechanism.accuracy(**self.mechanism_arguments(mechanism)))
        if self.sample_items is None:
            return says
        from dp_sql.udfs.count_distinct import item_sample

        return item_sample.accuracy(says, self.sample_items)

    @classmethod
    def may_be_vector(cls, given: Given) -> bool:
        """Whether the item looks like the privacy unit."""
        unit = given.arguments.get("privacy_unit")
        names = [one[-1].name for one in (given.arguments["item"], unit) if one]
        item, of_unit = [*names, "user_id"][:2]
        return "mechanism" not in given.arguments and folded(item or "") == folded(of_unit or "")

    @classmethod
    def mechanism_of_people(cls) -> str:
        return "laplace"

    def when_item_is_person(self) -> tuple[Shape, Mechanism]:
        """Each person has one item: nothing is to be bounded, and no graph is needed."""
        mechanism = REGISTRY["people"][self.mechanism_of_people()]
        return CountPeople(**vars(self) | {"bound": 1}), mechanism

    def of_cover(self, mechanism: Mechanism) -> CountOfCover | None:
        return None if mechanism.bounds is None else CountOfCover(**vars(self))

    def lists(self, rows: MechanismRows) -> list[str]:
        return rows.pairs(ordered=rows.mechanism.ordered)

    def data_of(self, mechanism: Mechanism, groups: EachGroup) -> EachGroup:
        from dp_sql.udfs.count_distinct.pairs import runs_of_groups

        pairs = groups.data if isinstance(groups, Singles) else [pairs for (pairs,) in groups]
        return runs_of_groups(pairs, numbered=mechanism.ordered)


class CountOfCover(CountDistinct):
    """Takes how many items are covered under each bound, in the order of the bounds."""

    in_memory = ""
    takes: ClassVar = {"__dp_cover": "BIGINT[]"}
    udfs: ClassVar = {f"{name}_of_cover": kind for name, kind in CountDistinct.udfs.items()}
    keys = ("place",)
    sums: ClassVar = {"n": "BIGINT"}

    def lists(self, rows: MechanismRows) -> list[str]:
        cover = f"SELECT {rows.group}place, n FROM {self.summary_in(rows)}"
        return [rows.lists(cover, {"__dp_cover": "n"}, " ORDER BY place ASC")]

    def data_of(self, mechanism: Mechanism, groups: EachGroup) -> EachGroup:
        return [(counts.tolist(),) for (counts,) in groups]

    def runs(self, mechanism: Mechanism, data: EachGroup) -> list[Any]:
        if mechanism.run_on_counts is None:
            raise InternalError("This mechanism needs pairs.")
        counts = [one for (one,) in data]
        return [*mechanism.run_on_counts(counts, **self.mechanism_arguments(mechanism))]


class CountPeople(People, CountDistinct):
    """Takes the number of people; returns it with noise."""

    reads_rows_once = True
    udfs: ClassVar = {f"{name}_of_people": kind for name, kind in CountDistinct.udfs.items()}

    def for_item(self, given: Mapping[str, Argument], item: str, kind: str) -> Self:
        """Refuse what has no effect: all people are counted, and each of them is one item."""
        for name in ("sample_items", "max_contributions", "contribution_bound", "bound_selection"):
            is_1 = name in given and given[name].text in {"1", "1.0"}  # which is what it is
            if name in given and not is_1:
                raise given[name].refuse(
                    f"{name} is about items, and here the items are people: they are all counted, "
                    "each once.",
                    f"Leave {name} out.",
                    [given[name].omitted()],
                )
        return self

    def vector(self, n_groups: int | None = 0, drops_cap: bool = False) -> PeopleOfGroups:
        if drops_cap and n_groups is not None and n_groups >= MANY_GROUPS:
            return PeopleUnderChosenLimit(**vars(self) | if_stated(n_groups, 1))
        if n_groups is not None and (drops_cap or n_groups <= FEW_GROUPS):
            return PeopleOfGroups(**vars(self))
        few, choice = 0 if n_groups else FEW_GROUPS, choice_for(n_groups)
        limited = {"max_contributions": 1, "few_groups": few, "choice": choice}
        return PeopleUnderChosenLimit(**vars(self) | limited)

    def all_within(self, mechanism: Mechanism, n_items: int | None) -> int | None:
        from dp_sql.udfs.contributions import laplace

        return laplace.within(self.epsilon, self.beta)

    def data_of(self, mechanism: Mechanism, groups: EachGroup) -> EachGroup:
        return [(int(number),) for (number,) in groups]


DP_COUNT_DISTINCT = Function(
    name="DP_COUNT_DISTINCT", shape=CountDistinct, default_mechanism="matching",
    purpose="the number of distinct items or people", positional=("item",),
    named=("epsilon", "delta", "privacy_unit", "beta", "max_contributions", "mechanism",
           "bound_selection", "contribution_bound", "sample_items", "report", "groups",
           "max_groups_contributed"),
    example="DP_COUNT_DISTINCT(word, epsilon := 1.0, privacy_unit := user_id)", table="reviews",
    vectors=(PeopleOfGroups, PeopleUnderChosenLimit),
    aggregates=("APPROX_COUNT_DISTINCT", "APPROX_DISTINCT", "NDV", "COUNTD", "UNIQ"),
)  # fmt: skip
