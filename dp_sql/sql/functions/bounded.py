"""What the functions share that return one number, to which each person adds a bounded part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

from dp_sql.sql import literals
from dp_sql.sql.given import Given
from dp_sql.sql.mechanism_rows import MechanismRows
from dp_sql.sql.ranges import DEFAULT_BETA, DEFAULT_MAX_CONTRIBUTIONS
from dp_sql.sql.shape import Shape, Vector
from dp_sql.sql.types import INTEGERS, digits_of, family
from dp_sql.udfs import REGISTRY
from dp_sql.udfs.mechanism import DIFFERENCE, Mechanism, PrivacyLoss

if TYPE_CHECKING:  # imported where they are needed: a first answer waits for all imports
    from dp_sql.udfs.contributions.release import BoundedRelease
    from dp_sql.udfs.count_distinct.bounded import CountRelease

REPORT_TYPE = """STRUCT(estimate BIGINT, lower_bound BIGINT, confidence DOUBLE, \
contribution_bound INTEGER, epsilon DOUBLE)"""
WITH_NOISE = REPORT_TYPE[:-1] + ", noise BIGINT)"
_BIGINT = (-(1 << 63), (1 << 63) - 1)


@dataclass(frozen=True, kw_only=True)
class Bounded(Shape):
    """One number, and a report on it."""

    columns: ClassVar = {"item": literals.read_expression, "privacy_unit": literals.read_reference}
    offer = "add report := true to get a lower bound with the answer"
    detail = "report"
    largest: ClassVar[int]  # bound that a call may name
    open: ClassVar[int]  # the largest bound where the candidates are 1, 2, 4, …
    selections: ClassVar[tuple[str, ...]] = ()  # how the bound may be selected, by default
    total: ClassVar[str] = "CAST(total AS VARCHAR)"  # of people, in their summary

    bound: int | str | None  # the contribution bound, or how it is selected; None: in the only way

    @classmethod
    def read(cls, given: Given, mechanism: Mechanism) -> Self:
        """Check that a fixed bound is not searched for as well."""
        taken = {"bound_selection": "bound", "contribution_bound": "bound"}
        given.check_taken(mechanism, {"max_contributions": "max_contributions", **taken})
        epsilon = given.read("epsilon", literals.read_epsilon)
        beta = given.optional("beta", literals.read_beta, DEFAULT_BETA)
        bound: int | str | None = None
        if selections := mechanism.bound_selections or cls.selections:
            selection = literals.choice(selections, selections[0])
            bound = given.optional("bound_selection", selection, selections[0])
        contributions = literals.whole(cls.largest)
        default = cls.open if bound in {DIFFERENCE, None} else DEFAULT_MAX_CONTRIBUTIONS
        most = given.optional("max_contributions", contributions, default)
        bound = given.optional("contribution_bound", contributions, bound)
        report = given.optional("report", literals.read_boolean, False)
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
    def limited(self) -> Mapping[str, Fraction | int | None]:
        """Policies limit a fixed bound, or else the largest that the call names."""
        fixed = {"max_contributions": self.bound} if isinstance(self.bound, int) else {}
        return {**super().limited, **fixed}

    def value_type(self, types: Mapping[str, str]) -> str:
        return self.udfs[self.udf]

    def answer(self, found: CountRelease | BoundedRelease, loss: PrivacyLoss) -> Any:
        """What the UDF returns for a release of the mechanism."""
        numbers = {n: x if x is None else self.number(x) for n, x in asdict(found).items()}
        if not self.detailed:
            return numbers["estimate"]
        return numbers | {"confidence": float(1 - self.beta), "epsilon": float(loss.epsilon)}

    def number(self, x: int) -> Any:
        """A released number in the type of the answer, or the nearest that it has."""
        return max(_BIGINT[0], min(x, _BIGINT[1]))

    def lists(self, rows: MechanismRows) -> list[str]:
        """Those of a summary with a row for each of `keys`: these, people, and their totals."""
        keys = ", ".join(self.keys)
        listed = f"{rows.group}{keys}, people, {self.total} AS total"
        table = f"SELECT {listed} FROM {rows.summary(self)}"
        columns = {"__dp_sums": "total", "__dp_numbers": "people"}
        columns |= {f"__dp_{key}s": key for key in self.keys}
        return [rows.lists(table, columns, f" ORDER BY {keys}")]

    def public_accuracy(self, mechanism: Mechanism, n_items: int | None) -> str | None:
        return mechanism.accuracy(**self.given_to(mechanism))


AMOUNT_TYPES = INTEGERS - {"UHUGEINT"} | {"DECIMAL"}
_DIGITS = 21  # rows of wider types are clamped to 10**21 units
LARGEST_SUM = str(1 << 70)  # a person's net sum is clamped to this many units


def scale_of(kind: str) -> int:
    """Count the digits after the point of an amount's type; a unit is the last of them."""
    return digits_of(kind)[1]


def units(sql: str, kind: str) -> str:
    """Write a number of a type as an integer: exact, as a cast of its digits is."""
    if "DECIMAL" not in kind:
        return sql
    return f"CAST(system.main.replace(CAST({sql} AS VARCHAR), '.', '') AS HUGEINT)"  # -0.05 → -005


def net_sum(kind: str) -> str:
    """Write the aggregate over `__dp_item` that is a person's net sum: HUGEINT, in units."""
    item, (digits, scale) = "__dp_item", digits_of(kind)
    if family(kind) == "HUGEINT" or digits > _DIGITS:
        whole, point = str(10**_DIGITS).rjust(scale + 1, "0"), -scale or None
        item = clamped(item, f"{whole[:point]}.{whole[point:] if scale else '0'}", kind)
    total = units(f"system.main.sum({item})", kind)
    return clamped(f"CAST({total} AS HUGEINT)", LARGEST_SUM)


def clamped(sql: str, most: str, kind: str = "HUGEINT") -> str:
    """Write a number of a type, or the nearest of -most and most."""
    low, high = (f"CAST('{sign}{most}' AS {kind})" for sign in ("-", ""))
    return f"system.main.least(system.main.greatest({sql}, {low}), {high})"


def bucket(sql: str) -> str:
    """Write the bucket of an integer >= 1: 0 for 1, 1 for 2, 2 for 3 and 4, …."""
    # bin writes a number without leading zeros.
    return f"(CASE WHEN {sql} = 1 THEN 0 ELSE system.main.length(system.main.bin({sql} - 1)) END)"


@dataclass(frozen=True, kw_only=True)
class PeopleOfGroups(Vector, Bounded):
    """Takes the number of people of each group; returns all of them with one vector of noise."""

    registry = "histogram"
    counts_people = True
    takes: ClassVar = {"__dp_number": "BIGINT"}
    sums: ClassVar = {"__dp_number": "HUGEINT"}
    udfs: ClassVar = {"__dp_sql_people_vector": "BIGINT",
                      "__dp_sql_people_vector_report": REPORT_TYPE}  # fmt: skip

    bound: int

    @property
    def mechanism(self) -> Mechanism:
        return REGISTRY["histogram"]["k_norm"]

    def of_person(self) -> dict[str, str]:
        return {"__dp_contribution": "system.main.count(__dp_item)"}

    def summary(self, rows: MechanismRows) -> str:
        return rows.total("system.main.count(*)")

    def lists(self, rows: MechanismRows) -> list[str]:
        return [rows.totals(self)]

    def draw(self, mechanism: Mechanism, loss: PrivacyLoss, *lists: Any) -> tuple[Any, str]:
        values, accuracy, _ = self.draw_groups(mechanism, loss, None, *([one] for one in lists))
        return values[0], accuracy

    def draw_groups(
        self, mechanism: Mechanism, loss: PrivacyLoss, cap: int | None, *lists: Sequence[Any]
    ) -> tuple[list[Any], str, int]:
        from dp_sql.udfs.contributions.release import BoundedRelease

        noisy, bound, within, says = self.noisy(mechanism, *lists)
        releases = (BoundedRelease(n, n - within, within, bound) for n in noisy)
        return [self.answer(one, loss) for one in releases], says, 1

    def noisy(
        self, mechanism: Mechanism, *lists: Sequence[Any]
    ) -> tuple[Sequence[int], int, int, str]:
        """The answers, a person's bound, how far all are from what they count, and a sentence."""
        counts = [int(count) for count in lists[0]]
        noisy = mechanism.run(counts, **self.given_to(mechanism))
        says = str(self.public_accuracy(mechanism, len(counts)))
        return noisy, self.bound, self._within(len(counts), self.epsilon, self.bound), says

    def public_accuracy(self, mechanism: Mechanism, n_items: int | None) -> str | None:
        if n_items is None:
            return None
        return str(mechanism.accuracy(n_items, **self.given_to(mechanism), beta=self.beta))

    def all_within(self, mechanism: Mechanism, n_items: int | None) -> int | None:
        return None if n_items is None else self.error_bound(n_items)

    def error_bound(self, n_groups: int) -> int | None:
        return self._within(n_groups, self.epsilon, self.bound)

    def capped_error_bound(self, n_groups: int, cap: int) -> int | None:
        each = self.beta * Fraction(1, max(1, n_groups))
        return self._within(1, self.epsilon / cap, self.bound, each)

    def _within(
        self, n_groups: int, epsilon: Fraction, bound: int, beta: Fraction | None = None
    ) -> int:
        from dp_sql.udfs.histogram import k_norm

        return k_norm.within(n_groups, epsilon, bound, beta or self.beta)


class RowsOfGroups(PeopleOfGroups):
    """Takes the rows of each group, of which each person adds at most `bound` to each."""

    counts_rows, counts_people = True, False
    udfs: ClassVar = {"__dp_sql_rows_vector": "BIGINT",
                      "__dp_sql_rows_vector_report": WITH_NOISE}  # fmt: skip

    def summary(self, rows: MechanismRows) -> str:
        return rows.total(f"system.main.sum(system.main.least(__dp_contribution, {self.bound}))")

    def public_accuracy(self, mechanism: Mechanism, n_items: int | None) -> str | None:
        says = super().public_accuracy(mechanism, n_items)
        left_out = f"a person's rows beyond {self.bound} in a group are not counted"
        return says and f"{says}; {left_out}"
