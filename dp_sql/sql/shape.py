"""What an SQL function is, and what may differ between two of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

from dp_sql.errors import InternalError
from dp_sql.sql.given import Argument, Given, Reader, Reference
from dp_sql.sql.types import EXACT_TYPES, INTEGERS, by_value, exact, family
from dp_sql.udfs import REGISTRY
from dp_sql.udfs.mechanism import Mechanism, PrivacyLoss


@dataclass(frozen=True)
class MechanismRows:
    """The relation from which a shape makes the lists that a mechanism takes.

    It has a column `__dp_<name>` for each column of the call, and `__dp_group` if it is grouped;
    then `__dp_groups` has all groups, and there is a list per group.
    """

    relation: str
    types: Mapping[str, str]  # of each column of the call, by its name
    mechanism: Mechanism
    domain: str | None  # SQL that lists the public items once, as `item`; None: those in the rows
    grouped: bool
    # Whether one execution may make the lists more than once; then their order must not depend on
    # the order in which DuckDB reads rows.
    again: bool
    # The relation that holds the summary of all rows, merged; None: it is computed from `relation`.
    merged: str | None = None

    def by(self, name: str) -> str:
        """The order of a column's values, which no row moves."""
        return by_value(f"__dp_{name}", self.types[name])

    @property
    def group(self) -> str:
        """`__dp_group` in front of other columns, where there are groups."""
        return "__dp_group, " if self.grouped else ""

    def summary(self, shape: Shape) -> str:
        """The summary of the rows as a relation of FROM."""
        if self.merged is not None:
            return self.merged
        return f"({shape.summary(self)}) AS __dp_summary"

    def lists(self, source: str, columns: Mapping[str, str], order: str) -> str:
        """The CTE `__dp_lists`: columns of the SELECT `source`, in one row or one row per group.

        `columns` names each list and the column in it; the last one is never NULL.
        """
        present = f" FILTER (WHERE {[*columns.values()][-1]} IS NOT NULL)" if self.grouped else ""
        listed = ", ".join(
            f"coalesce(system.main.list({column}{order}){present}, []) AS {name}"
            for name, column in columns.items()
        )
        if not self.grouped:
            return f"__dp_lists AS (SELECT {listed} FROM ({source}) AS listed)"
        return (
            f"__dp_lists AS MATERIALIZED (SELECT __dp_group, {listed} FROM __dp_groups "
            f"LEFT JOIN ({source}) AS listed USING (__dp_group) GROUP BY __dp_group)"
        )

    def total(self, number: str) -> str:
        """A summary that is one number: an aggregate over the rows, as `__dp_number`."""
        by = " GROUP BY __dp_group" if self.grouped else ""
        return f"SELECT {self.group}{number} AS __dp_number FROM {self.relation}{by}"

    def totals(self, shape: Shape) -> str:
        """The CTE `__dp_lists` of such a summary; what a BIGINT cannot hold is its largest."""
        number = f"system.main.least(coalesce(__dp_number, 0), {(1 << 63) - 1})"
        number = f"CAST({number} AS BIGINT) AS __dp_number"
        if not self.grouped:
            return f"__dp_lists AS (SELECT {number} FROM {self.summary(shape)})"
        return (
            f"__dp_lists AS MATERIALIZED (SELECT __dp_group, {number} FROM __dp_groups "
            f"LEFT JOIN {self.summary(shape)} USING (__dp_group))"
        )

    def pairs(self, *, listed: bool = False, ordered: bool = False) -> list[str]:
        """The CTEs up to `__dp_lists`, which has `__dp_pairs`: codes of an item and of a person.

        The codes of the items are 0, 1, 2, … in each group. `listed`: `__dp_items` has the items in
        the order of their codes. `ordered`: codes follow the order of the values.
        """
        keys, of_each = f"{self.group}__dp_item", " GROUP BY __dp_group" if self.grouped else ""
        apart = "PARTITION BY __dp_group " if self.grouped else ""
        sorted_items = ordered or self.again or self.grouped
        by_item = f"ORDER BY {self.by('item')}" if sorted_items else ""
        by_person = f"ORDER BY {self.by('privacy_unit')}" if ordered else ""
        kind = self.types["privacy_unit"]
        ctes, person, joined = people_codes(self.relation, kind, by_person)
        lists = {
            "__dp_pairs": f"SELECT {self.group}system.main.list({pair('code', person)}) AS "
            f"__dp_pairs FROM {self.relation} JOIN __dp_codes USING ({keys}){joined}{of_each}"
        }
        if listed:
            own = f"SELECT {self.group}system.main.list(__dp_item ORDER BY code ASC) AS __dp_items"
            lists["__dp_items"] = f"{own} FROM __dp_codes{of_each}"
        columns = ", ".join(f"coalesce({name}, []) AS {name}" for name in lists)
        relations = [f"({select}) AS of_{name}" for name, select in lists.items()]
        made = f"SELECT {self.group}{columns} FROM "
        if self.grouped:
            joins = [f" LEFT JOIN {one} USING (__dp_group)" for one in relations]
            made = f"MATERIALIZED ({made}__dp_groups{''.join(joins)})"
        else:
            made = f"({made}{', '.join(relations)})"
        return [
            f"__dp_codes AS MATERIALIZED (SELECT {keys}, CAST(system.main.row_number() OVER "
            f"({apart}{by_item}) - 1 AS INTEGER) AS code FROM (SELECT DISTINCT {keys} FROM "
            f"{self.relation}) AS items)",
            *ctes,
            f"__dp_lists AS {made}",
        ]


PAIRS = "STRUCT(item INTEGER, person BIGINT)[]"
_NUMBERED = INTEGERS - {"UBIGINT", "HUGEINT", "UHUGEINT"}


def pair(item: str, person: str) -> str:
    """SQL for one element of PAIRS: codes of an item and of a person who has it."""
    return f"system.main.struct_pack(item := {item}, person := {person})"


def people_codes(relation: str, kind: str, order: str = "") -> tuple[list[str], str, str]:
    """SQL for a code of each person in a relation: CTEs, the code as a BIGINT, and a join.

    With an order, or if the privacy unit is not an integer, the codes are 0, 1, 2, …; else they are
    the privacy units themselves.
    """
    if family(kind) in _NUMBERED and not order:
        return [], "CAST(__dp_privacy_unit AS BIGINT)", ""
    cte = (
        f"__dp_people AS MATERIALIZED (SELECT __dp_privacy_unit, system.main.row_number() OVER "
        f"({order}) - 1 AS person FROM (SELECT DISTINCT __dp_privacy_unit FROM {relation}) AS p)"
    )
    return [cte], "person", " JOIN __dp_people USING (__dp_privacy_unit)"


def load_kernels(call: str) -> None:
    """Load what a call needs to read pairs; raise InternalError, before the debit, if it fails."""
    from dp_sql.udfs.count_distinct.kernels import library

    try:
        library()
    except (ImportError, OSError) as error:
        raise InternalError(f"{call} needs its compiled kernels: {error}") from None


@dataclass(frozen=True, kw_only=True)
class Shape(ABC):
    """The public numbers of one call; its class says what the SQL function does with them.

    A class that adds no number needs no decorator, which takes time when it is imported.
    """

    registry: ClassVar[str]  # the key of its mechanisms in udfs.REGISTRY
    columns: ClassVar[Mapping[str, Reader[Reference]]]  # the arguments that name columns
    item_types: ClassVar[frozenset[str] | None] = EXACT_TYPES  # families of types; None: all
    # Whether it reads rows of people; otherwise scores whose sensitivity their owner states.
    reads_people: ClassVar[bool] = True
    # Whether `lists` reads the rows once, so that DuckDB need not keep them.
    reads_rows_once: ClassVar[bool] = False
    counts_rows: ClassVar[bool] = False  # whether it matters how often a row occurs
    # Whether a person's value in a group is 1 if any of their rows has an item.
    counts_people: ClassVar[bool] = False
    takes_star: ClassVar[bool] = False  # whether * is an item, which every row has
    # The named arguments that a call needs besides epsilon: what each is, and values to try.
    needs: ClassVar[Mapping[str, tuple[str, tuple[str, ...]]]] = {}
    # Whether its delta finds items; else it finds groups.
    finds_items: ClassVar[bool] = False
    is_vector: ClassVar[bool] = False  # whether one draw answers all groups, without a cap
    offer: ClassVar[str] = ""  # how to get more than a bare number, as the end of a sentence
    takes: ClassVar[Mapping[str, str]]  # the columns of `__dp_lists` that the UDF takes; types
    # Its UDF, and that of a detailed answer; what each returns for one group.
    udfs: ClassVar[Mapping[str, str]]
    # The columns of `summary` that tell its rows apart, besides the group; those that add up, with
    # the types of their sums. Without such columns, rows are counted.
    keys: ClassVar[tuple[str, ...]] = ()
    sums: ClassVar[Mapping[str, str]] = {}
    # The same two answers as a macro makes them: the argument that asks for the detailed one, their
    # types with strings for items, and expressions of their types ({} is an item).
    detail: ClassVar[str] = ""
    written: ClassVar[tuple[str, ...]]
    typed: ClassVar[tuple[str, ...]]

    epsilon: Fraction  # as delta: of one group; without GROUP BY, of the call
    delta: Fraction | None = None
    beta: Fraction  # one minus the confidence of the accuracy
    max_contributions: int | None = None  # the items for which a person counts; None: no limit
    contributions_open: bool = False  # the call names no max_contributions: a policy may lower it
    sample_items: Fraction | None = None  # the part of the items that is counted; None: all
    detailed: bool = False  # whether the answer has more than its value: a report, counts

    @classmethod
    def default_mechanism(cls, given: Given, default: str) -> str:
        """The mechanism of a call that names none."""
        return default

    @classmethod
    @abstractmethod
    def read(cls, given: Given, mechanism: Mechanism) -> Self:
        """The public numbers of a call; ArgumentError where one is wrong or not taken."""

    def given_to(self, mechanism: Mechanism) -> dict[str, Any]:
        """The numbers that a mechanism takes, by name."""
        return {name: getattr(self, name) for name in mechanism.parameters}

    def question(self, mechanism: Mechanism) -> dict[str, Any]:
        """The numbers that decide the distribution of an answer, by name."""
        return self.given_to(mechanism)

    def loss(self, mechanism: Mechanism) -> PrivacyLoss:
        """The loss of one run of a mechanism."""
        return mechanism.loss(**self.given_to(mechanism))

    def times(self, factor: Fraction) -> Self:
        """The same with epsilon and delta times a factor from (0, 1]."""
        delta = None if self.delta is None else self.delta * factor
        return replace(self, epsilon=self.epsilon * factor, delta=delta)

    @property
    def n_listed(self) -> int | None:
        """How many items are chosen from a domain; None: the answer is no list."""
        return None

    @property
    def limited(self) -> Mapping[str, Fraction | int | None]:
        """What a policy's limits bound, by name; None: the call has no such number."""
        most = None if self.contributions_open else self.max_contributions
        return {"epsilon": self.epsilon, "delta": self.delta, "max_contributions": most}

    def within(self, limit: int | None) -> Self:
        """The same with a default of max_contributions that keeps to a policy's limit."""
        if limit is None or not self.contributions_open or self.max_contributions is None:
            return self
        return replace(self, max_contributions=min(self.max_contributions, limit))

    @property
    def udf(self) -> str:
        """The UDF that answers this call."""
        return [*self.udfs][self.detailed]

    @property
    def told_apart_by(self) -> tuple[Fraction, ...]:
        """Public numbers without a name, which tell two calls of one statement apart."""
        return () if self.n_listed is None else (Fraction(self.n_listed),)

    @abstractmethod
    def value_type(self, types: Mapping[str, str]) -> str:
        """The type of the answer, from the types of the columns."""

    def column(self, name: str, sql: str, kind: str) -> str:
        """A column of the source as the rows have it: compared byte by byte."""
        return exact(sql, kind)

    def of_person(self) -> Mapping[str, str]:
        """Aggregates over one person's rows, in one group, by name; {}: rows are not aggregated.

        They ignore rows without an item. With aggregates, `lists` reads these and
        `__dp_privacy_unit` in place of the columns.
        """
        return {}

    def for_item(self, given: Mapping[str, Argument], item: str, kind: str) -> Self:
        """The same for an item of a type, once it is known; ArgumentError where they do not fit.

        `item` is as written; `given` are the arguments of the call.
        """
        return self

    def of_people(self) -> tuple[Shape, Mechanism] | None:
        """What answers the call where the item is the privacy unit; None: the same as always."""
        return None

    def summary(self, rows: MechanismRows) -> str:
        """A SELECT over the rows that adds up: `keys` tell its rows apart, and `sums` are added.

        Over disjoint sets of people, summaries with equal keys added up are that of all people.
        """
        raise InternalError("Only what is computed from people's rows has a summary.")

    def of_cover(self, mechanism: Mechanism) -> Shape | None:
        """The same from counts of covered items, for a mechanism that needs nothing else."""
        return None

    @abstractmethod
    def lists(self, rows: MechanismRows) -> list[str]:
        """CTEs over the summary of the rows; the last one is `__dp_lists`."""

    def value(self, answer: str, rows: MechanismRows) -> str:
        """The value of the call, from `__dp_lists` and what the UDF returned, written once."""
        return answer

    @abstractmethod
    def draw(self, mechanism: Mechanism, loss: PrivacyLoss, *lists: Any) -> tuple[Any, str]:
        """Run the mechanism once: what the UDF returns, and one sentence on its accuracy.

        `loss` is that of the whole call. `lists` are what the UDF takes: int64 arrays, strings, or
        for PAIRS two arrays (items, people).
        """

    def draw_groups(
        self, mechanism: Mechanism, loss: PrivacyLoss, cap: int | None, *lists: Sequence[Any]
    ) -> tuple[list[Any], str, int]:
        """The answers of all groups, of which a person counts in at most `cap`.

        Returns them with one sentence, and how many runs of a loss of their own they took.
        """
        drawn = [self.draw(mechanism, loss, *group) for group in zip(*lists, strict=True)]
        values, n = [value for value, _ in drawn], len(drawn)
        accuracy = drawn[0][1] if drawn else ""
        if self.reads_people:
            scope = f"for each of {n} groups, of which a person counts in at most {cap or 1}: "
            return values, scope + accuracy, 1
        return values, f"{n} groups; of the first of them, {accuracy}" if n > 1 else accuracy, n

    @classmethod
    def may_be_vector(cls, given: Given) -> bool:
        """Whether a call may need no cap on groups; if it does, that is refused when planned."""
        return False

    def vector(self) -> Vector | None:
        """The same over groups without a cap; None: each person needs one."""
        return None

    def public_accuracy(self, mechanism: Mechanism, n_items: int | None) -> str | None:
        """The sentence on accuracy from the size of the public domain; None: it needs the data."""
        return None

    def all_within(self, mechanism: Mechanism, n_items: int | None) -> int | None:
        """How far all numbers of one answer are from the true ones, with probability 1 - beta.

        None: not known before the release; a report says it.
        """
        return None

    def alternatives(
        self, mechanism: Mechanism, n_items: int | None, delta: Fraction | None
    ) -> Mapping[str, str]:
        """What other mechanisms promise for the same numbers, by name; with this delta, if any."""
        return {}


class Vector(Shape):
    """One draw answers all groups, of which a person may be in any number.

    One person moves all counts in one direction, each by at most a common bound.
    """

    is_vector = True
    reads_rows_once = True

    @classmethod
    def read(cls, given: Given, mechanism: Mechanism) -> Self:
        """No call is read as a vector: other shapes make it."""
        raise NotImplementedError

    @property
    @abstractmethod
    def mechanism(self) -> Mechanism:
        """What draws the answers."""

    @abstractmethod
    def error_bound(self, n_groups: int) -> int | None:
        """All counts are so close to what they count, except with probability beta.

        None: that depends on the data.
        """

    @abstractmethod
    def capped_error_bound(self, n_groups: int, cap: int) -> int | None:
        """The same where a person counts in at most `cap` groups, each with noise of its own."""


@dataclass(frozen=True)
class Function:
    """One SQL function, by its name in upper case, and the shape that reads and answers it."""

    name: str
    shape: type[Shape]
    positional: tuple[str, ...]  # the arguments without a name, in order; all are required
    named: tuple[str, ...]  # the arguments written `name := value`
    default_mechanism: str
    purpose: str  # what it answers, in a few words
    example: str  # a call that works, for messages
    table: str  # that the example reads
    vector: type[Vector] | None = None  # what `shape.vector` makes
    distinct: str | None = None  # the function that answers `name(DISTINCT …)`

    @property
    def shapes(self) -> tuple[type[Shape], ...]:
        """Its shape, those derived from it for mechanisms that take other lists, and its vector."""
        vector = self.vector
        vectors = () if vector is None else (vector, *vector.__subclasses__())
        return (self.shape, *self.shape.__subclasses__(), *vectors)

    @property
    def mechanisms(self) -> Mapping[str, Mechanism]:
        """Its mechanisms, by the names that `mechanism :=` takes."""
        return REGISTRY[self.shape.registry]
