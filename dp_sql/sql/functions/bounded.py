"""What the functions share that return one number, to which each person adds a bounded part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from dp_sql.errors import InternalError
from dp_sql.sql import readers
from dp_sql.sql.given import Given
from dp_sql.sql.mechanism_rows import GROUP_OF_EACH, MechanismRows
from dp_sql.sql.ranges import DEFAULT_BETA, DEFAULT_MAX_CONTRIBUTIONS
from dp_sql.sql.shape import EachGroup, Shape, Summed
from dp_sql.udfs.mechanism import DIFFERENCE, Mechanism, PrivacyLoss
from dp_sql.udfs.mixed import Mixed, mixed

if TYPE_CHECKING:  # imported where they are needed: a first answer waits for all imports
    from dp_sql.udfs.contributions.release import BoundedRelease
    from dp_sql.udfs.count_distinct.bounded import CountRelease

REPORT_TYPE = """STRUCT(estimate BIGINT, lower_bound BIGINT, confidence DOUBLE, \
contribution_bound INTEGER, epsilon DOUBLE)"""
WITH_NOISE = REPORT_TYPE[:-1] + ", noise BIGINT)"
_AT_ONCE = 1 << 14  # groups
_BIGINT = (-(1 << 63), (1 << 63) - 1)


@dataclass(frozen=True, kw_only=True)
class Bounded(Shape):
    """One number, and a report on it."""

    offer = "add report := true to get a lower bound with the answer"
    detailed_by = "report"
    largest: ClassVar[int]  # bound that a call may name
    open: ClassVar[int]  # the largest bound where the candidates are 1, 2, 4, …
    selections: ClassVar[tuple[str, ...]] = ()  # how the bound may be selected, by default

    bound: int | str | None  # the contribution bound, or how it is selected; None: in the only way

    @classmethod
    def read(cls, given: Given, mechanism: Mechanism) -> Self:
        """Check that a fixed bound is not searched for as well."""
        taken = {"bound_selection": "bound", "contribution_bound": "bound"}
        given.check_taken(mechanism, {"max_contributions": "max_contributions", **taken})
        epsilon = given.read("epsilon", readers.read_epsilon)
        beta = given.optional("beta", readers.read_beta, DEFAULT_BETA)
        bound: int | str | None = None
        if selections := mechanism.bound_selections or cls.selections:
            selection = readers.choice(selections, selections[0])
            bound = given.optional("bound_selection", selection, selections[0])
        contributions = readers.whole(cls.largest)
        default = cls.open if bound in {DIFFERENCE, None} else DEFAULT_MAX_CONTRIBUTIONS
        most = given.optional("max_contributions", contributions, default)
        bound = given.optional("contribution_bound", contributions, bound)
        report = given.optional("report", readers.read_boolean, False)
        for other in ("bound_selection", "max_contributions"):
            if "contribution_bound" in given.arguments and other in given.arguments:
                raise given.arguments["contribution_bound"].refuse(
                    f"contribution_bound fixes the bound, so {other} would have no effect.",
                    f"Leave out either contribution_bound or {other}.",
                )
        return cls(
            epsilon=epsilon, beta=beta, bound=bound, max_contributions=most, detailed=report,
            contributions_open="max_contributions" not in given.arguments,
        )  # fmt: skip

    @property
    def fixed_bound(self) -> int:
        """The contribution bound that the call fixes; 0: it is chosen."""
        return self.bound if isinstance(self.bound, int) else 0

    @property
    def limited_by_policy(self) -> Mapping[str, Fraction | int | None]:
        """Policies limit a fixed bound, or else the largest that the call names."""
        fixed = {"max_contributions": self.fixed_bound} if self.fixed_bound else {}
        return {**super().limited_by_policy, **fixed}

    def value_type(self, types: Mapping[str, str]) -> str:
        return self.udfs[self.udf]

    def data(self, mechanism: Mechanism, *lists: Any) -> tuple[Any, ...]:
        """What the mechanism takes of what the UDF takes."""
        raise InternalError("A vector is drawn at once.")

    def data_of(self, mechanism: Mechanism, groups: EachGroup) -> EachGroup:
        """What the mechanism takes of each of several groups."""
        if not self.mixes_groups:
            return [self.data(mechanism, *lists) for lists in groups]
        of = mixed(groups, *self.takes)
        return Mixed(of.n, of.owners, self.data(mechanism, *of.columns))

    def draw_each(
        self, mechanism: Mechanism, loss: PrivacyLoss, groups: EachGroup
    ) -> tuple[list[Any], str]:
        values = []
        for start in range(0, len(groups), _AT_ONCE):
            data = self.data_of(mechanism, groups[start : start + _AT_ONCE])
            values += self.answers(self.runs(mechanism, data), loss)
        return values, str(self.public_accuracy(mechanism, None))

    def answers(self, found: Any, loss: PrivacyLoss) -> list[Any]:
        """What the UDF returns for releases of the mechanism: a list, or `Releases`."""
        if not (self.detailed or isinstance(found, list)):
            return [*map(self.number, found.estimates)]
        return [self.answer(one, loss) for one in found]

    def answer(self, found: CountRelease | BoundedRelease, loss: PrivacyLoss) -> Any:
        """What the UDF returns for a release of the mechanism."""
        if not self.detailed:
            return self.number(found.estimate)
        fields = self.udfs[self.udf]  # a report on people has no noise
        numbers = {
            n: x if x is None else self.number(x) for n, x in vars(found).items() if n in fields
        }
        return numbers | {"confidence": float(1 - self.beta), "epsilon": float(loss.epsilon)}

    def number(self, x: int) -> Any:
        """A released number in the type of the answer, or the nearest that it has."""
        return max(_BIGINT[0], min(x, _BIGINT[1]))

    def lists(self, rows: MechanismRows) -> list[str]:
        """The lists of a summary with a row for each of `keys`: these, people, and their totals.

        Entries are in any order, as mechanisms add them up, and those of all groups are mixed.
        """
        keys = ", ".join(self.keys)
        listed = f"{rows.group}{keys}, people, {self.total} AS total"
        table = f"SELECT {listed} FROM {self.summary_in(rows)}"
        columns = self._listed | ({GROUP_OF_EACH: "__dp_group"} if rows.grouped else {})
        return [rows._replace(grouped=False).lists(table, columns, "")]

    def lists_of(self, summary: Mapping[str, Any]) -> list[Sequence[Any]]:
        return [summary[self._listed.get(name, name)] for name in self.takes]

    @property
    def total(self) -> str:
        """The total of people in their summary, as a string: it may be beyond 64 bits."""
        return "CAST(total AS VARCHAR)"

    @property
    def _listed(self) -> dict[str, str]:
        """The columns of a summary, by the names of their lists."""
        keys = {f"__dp_{key}s": key for key in self.keys}
        return {"__dp_sums": "total", "__dp_numbers": "people", **keys}

    def public_accuracy(self, mechanism: Mechanism, n_items: int | None) -> str | None:
        return mechanism.accuracy(**self.mechanism_arguments(mechanism))


def integers(written: Any) -> Any:
    """Integers that are in an array, or in a list of which some may be written as strings."""
    return written if isinstance(written, np.ndarray) else [*map(int, written)]


class People(Bounded):
    """Takes the number of people."""

    counts_people = True
    in_memory = "values"
    takes: ClassVar = {"__dp_number": "BIGINT"}
    sums: ClassVar = {"__dp_number": "HUGEINT"}

    def person_values(self) -> dict[str, str]:
        return {"__dp_contribution": "system.main.count(__dp_item)"}

    def summary(self, rows: MechanismRows) -> str:
        return rows.total("system.main.count(*)")

    def lists(self, rows: MechanismRows) -> list[str]:
        return [rows.totals(self.summary_in(rows))]

    def summed(self) -> Summed:
        return Summed("rows_in_all", (1,))
