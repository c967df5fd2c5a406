"""What an SQL function is, and what may differ between two of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, Self

from dp_sql.errors import InternalError
from dp_sql.sql.given import Argument, Given, Reader, Reference
from dp_sql.sql.mechanism_rows import MechanismRows
from dp_sql.sql.readers import read_expression, read_reference
from dp_sql.sql.types import EXACT_TYPES, exact
from dp_sql.udfs import REGISTRY
from dp_sql.udfs.mechanism import Mechanism, PrivacyLoss

EachGroup = Sequence[tuple[Any, ...]]
"""What a UDF or a mechanism takes, for each of several groups; perhaps as udfs.mixed.Mixed."""


def load_kernels(call: str) -> None:
    """Load what a call needs to read pairs; raise InternalError, before the debit, if it fails."""
    from dp_sql.udfs.count_distinct.kernels import library

    try:
        library()
    except (ImportError, OSError) as error:
        raise InternalError(f"{call} needs its compiled kernels: {error}") from None


class Summed(NamedTuple):
    """How people's values in memory become a summary.

    function: of udfs.contributions.summaries, by its name; more: its last arguments. takes_sums,
    takes_votes: whether it takes what items add up to, or the item of one row of each person, and
    not only how many there are. pays: whether DuckDB takes longer from people's values, even if it
    computes these faster.
    """

    function: str
    more: tuple[int, ...] = ()
    takes_sums: bool = False
    takes_votes: bool = False
    pays: bool = False


@dataclass(frozen=True, kw_only=True)
class Shape(ABC):
    """The public numbers of one call; its class says what the SQL function does with them.

    A class that adds no number needs no decorator, which takes time when it is imported.
    """

    registry: ClassVar[str]  # the key of its mechanisms in udfs.REGISTRY
    columns: ClassVar[Mapping[str, Reader[Reference]]] = {  # the arguments that name columns
        "item": read_expression, "privacy_unit": read_reference,
    }  # fmt: skip
    item_types: ClassVar[frozenset[str] | None] = EXACT_TYPES  # families of types; None: all
    # Whether it reads rows of people; otherwise scores whose sensitivity their owner states.
    reads_people: ClassVar[bool] = True
    # Whether `lists` reads the rows once, so that DuckDB need not keep them.
    reads_rows_once: ClassVar[bool] = False
    # Whether the UDF for groups takes the entries of all of them in one list, in any order.
    mixes_groups: ClassVar[bool] = False
    counts_rows: ClassVar[bool] = False  # whether it matters how often a row occurs
    # Whether a person's value in a group is 1 if any of their rows has an item.
    counts_people: ClassVar[bool] = False
    # What its lists are made of in memory, where rows are few: people's "values" (summed), how many
    # people have "items", or "pairs"; "": SQL makes them.
    in_memory: ClassVar[str] = ""
    takes_star: ClassVar[bool] = False  # whether * is an item, which every row has
    # Whether its answer for a group grows with the people in it, so that one in which a person
    # counts in one group alone is too low beside one in which they count in all.
    grows_with_people: ClassVar[bool] = False
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
    # The same two answers as a macro makes them, if items are in them: their types with strings for
    # items, and expressions of their types ({} is an item). The argument that asks for the detailed
    # one.
    with_items: ClassVar[Mapping[str, str]] = {}
    detailed_by: ClassVar[str] = ""

    epsilon: Fraction  # as delta: of one group; without GROUP BY, of the call
    delta: Fraction | None = None
    beta: Fraction  # one minus the confidence of the accuracy
    max_contributions: int | None = None  # the items for which a person counts; None: no limit
    contributions_open: bool = False  # the call names no max_contributions: a policy may lower it
    sample_items: Fraction | None = None  # the part of the items that is counted; None: all
    detailed: bool = False  # whether the answer has more than its value: a report, counts

    @classmethod
    def in_macro(cls) -> list[str]:
        """The types of both answers as a macro makes them."""
        return [*(cls.with_items or cls.udfs.values())]

    @classmethod
    def default_mechanism(cls, given: Given, default: str) -> str:
        """The mechanism of a call that names none."""
        return default

    @classmethod
    @abstractmethod
    def read(cls, given: Given, mechanism: Mechanism) -> Self:
        """The public numbers of a call; ArgumentError where one is wrong or not taken."""

    def mechanism_arguments(self, mechanism: Mechanism) -> dict[str, Any]:
        """The numbers that a mechanism takes, by name."""
        return {name: getattr(self, name) for name in mechanism.parameters}

    def release_key(self, mechanism: Mechanism) -> dict[str, Any]:
        """The numbers that decide the distribution of an answer, by name."""
        return self.mechanism_arguments(mechanism)

    def loss(self, mechanism: Mechanism) -> PrivacyLoss:
        """The loss of one run of a mechanism."""
        return mechanism.loss(**self.mechanism_arguments(mechanism))

    def scaled(self, factor: Fraction) -> Self:
        """These numbers, with epsilon and delta times a factor from (0, 1]."""
        delta = None if self.delta is None else self.delta * factor
        return replace(self, epsilon=self.epsilon * factor, delta=delta)

    @property
    def n_listed(self) -> int | None:
        """How many items are chosen from a domain; None: the answer is no list."""
        return None

    @property
    def limited_by_policy(self) -> Mapping[str, Fraction | int | None]:
        """What a policy's limits bound, by name; None: the call has no such number."""
        most = None if self.contributions_open else self.max_contributions
        return {"epsilon": self.epsilon, "delta": self.delta, "max_contributions": most}

    def with_policy_limit(self, limit: int | None) -> Self:
        """These numbers, with a default of max_contributions that keeps to a policy's limit."""
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

    def item_type(self, kind: str) -> str:
        """The type of what `column` writes for an item of a type."""
        return kind

    def person_values(self) -> Mapping[str, str]:
        """Aggregates over one person's rows, in one group, by name; {}: rows are not aggregated.

        They ignore rows without an item. With aggregates, `lists` reads these and
        `__dp_privacy_unit` in place of the columns.
        """
        return {}

    def for_item(self, given: Mapping[str, Argument], item: str, kind: str) -> Self:
        """These numbers for an item, once its type is known; ArgumentError where they do not fit.

        `item` is as written; `given` are the arguments of the call.
        """
        return self

    @classmethod
    def mechanism_of_people(cls) -> str | None:
        """The mechanism where the item is the privacy unit, if there is a separate one."""
        return None

    def when_item_is_person(self) -> tuple[Shape, Mechanism] | None:
        """What answers the call where the item is the privacy unit; None: the same as always."""
        return None

    def summary(self, rows: MechanismRows) -> str:
        """A SELECT over the rows that adds up: `keys` tell its rows apart, and `sums` are added.

        Over disjoint sets of people, summaries with equal keys added up are that of all people.
        """
        raise InternalError("Only what is computed from people's rows has a summary.")

    def summary_in(self, rows: MechanismRows) -> str:
        """The summary of the rows as a relation of FROM."""
        if rows.merged is not None:
            return rows.merged
        return f"({self.summary(rows)}) AS __dp_summary"

    def summed(self) -> Summed | None:
        """How rows in memory become the summary; None: people's values do, in SQL."""
        return None

    def of_cover(self, mechanism: Mechanism) -> Shape | None:
        """The call from counts of covered items; None: its mechanism needs more."""
        return None

    @abstractmethod
    def lists(self, rows: MechanismRows) -> list[str]:
        """CTEs over the summary of the rows; the last one is `__dp_lists`."""

    def lists_of(self, summary: Mapping[str, Any]) -> list[Sequence[Any]]:
        """The lists of all groups from a summary in memory: each column that the UDF takes."""
        raise InternalError("Only SQL makes these lists.")

    def shown(self, answer: Any, items: Sequence[Any], mechanism: Mechanism) -> Any:
        """What `value` makes of an answer: items have the places of those that the UDF took."""
        return answer

    def value(self, answer: str, rows: MechanismRows) -> str:
        """The value of the call, from `__dp_lists` and what the UDF returned, written once."""
        return answer

    def draw(self, mechanism: Mechanism, loss: PrivacyLoss, *lists: Any) -> tuple[Any, str]:
        """Run the mechanism once: what the UDF returns, and one sentence on its accuracy.

        A class defines this, or `draw_each` where it is faster to draw for all groups at once.

        `loss` is that of the whole call. `lists` are what the UDF takes: int64 arrays, strings, or
        for PAIRS two arrays (items, people).
        """
        (value,), accuracy = self.draw_each(mechanism, loss, [lists])
        return value, accuracy

    def runs(self, mechanism: Mechanism, data: EachGroup) -> Sequence[Any]:
        """Run the mechanism on each of several data sets."""
        given = self.mechanism_arguments(mechanism)
        if mechanism.run_each is None:
            return [mechanism.run(*one, **given) for one in data]
        return mechanism.run_each(data, **given)

    def draw_each(
        self, mechanism: Mechanism, loss: PrivacyLoss, groups: EachGroup
    ) -> tuple[list[Any], str]:
        """Run the mechanism for each group: the answers, and the sentence on the first one."""
        drawn = [self.draw(mechanism, loss, *lists) for lists in groups]
        return [value for value, _ in drawn], drawn[0][1]

    def draw_groups(
        self, mechanism: Mechanism, loss: PrivacyLoss, cap: int | None, groups: EachGroup
    ) -> tuple[list[Any], str, int]:
        """The answers of all groups, of which a person counts in at most `cap`.

        Returns them with one sentence, and how many runs of a loss of their own they took.
        """
        values, accuracy = self.draw_each(mechanism, loss, groups) if groups else ([], "")
        n = len(groups)
        if self.reads_people:
            scope = f"for each of {n} groups, of which a person counts in at most {cap or 1}: "
            return values, scope + accuracy, 1
        return values, f"{n} groups; of the first of them, {accuracy}" if n > 1 else accuracy, n

    @classmethod
    def may_be_vector(cls, given: Given) -> bool:
        """Whether a call may need no cap on groups; if it does, that is refused when planned."""
        return False

    def vector(self, n_groups: int | None = 0, drops_cap: bool = False) -> Vector | None:
        """The call over so many groups, if they are known, without a cap; None: it needs one.

        drops_cap: whether a cap is written and would mean more noise.
        """
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
        """The bound where a person counts in at most `cap` groups, each with noise of its own."""


class Function(NamedTuple):
    """One SQL function, by its name in upper case, and the shape that reads and answers it."""

    name: str
    shape: type[Shape]
    positional: tuple[str, ...]  # the arguments without a name, in order; all are required
    named: tuple[str, ...]  # the arguments written `name := value`
    default_mechanism: str
    purpose: str  # what it answers, in a few words
    example: str  # a call that works, for messages
    table: str  # that the example reads
    vectors: tuple[type[Vector], ...] = ()  # what `shape.vector` makes
    distinct: str | None = None  # the function that answers `name(DISTINCT …)`
    aggregates: tuple[str, ...] = ()  # DuckDB's and others', which it is proposed to replace

    @property
    def required(self) -> tuple[str, ...]:
        """The arguments that every call has; a policy names the privacy unit itself."""
        return (*self.positional, "epsilon", *self.shape.needs)

    @property
    def call(self) -> str:
        """How it is called, with its required arguments."""
        named = [f"{name} := …" for name in self.required[len(self.positional) :]]
        return f"{self.name}({', '.join([*self.positional, *named])})"

    def finds_groups(self, given: Container[str]) -> bool:
        """Whether a call with these named arguments finds its groups, by the delta among them."""
        return "delta" in given and self.shape.reads_people and not self.shape.finds_items

    @property
    def needs_cap(self) -> bool:
        """Whether each call over public groups has a cap, which changes nothing else of it."""
        return self.shape.reads_people and not self.shape.finds_items and not self.vectors

    @property
    def shapes(self) -> tuple[type[Shape], ...]:
        """Its shape, those derived from it for mechanisms that take other lists, and vectors."""
        return (self.shape, *self.shape.__subclasses__(), *self.vectors)

    @property
    def mechanisms(self) -> Mapping[str, Mechanism]:
        """Its mechanisms, by the names that `mechanism :=` takes."""
        return REGISTRY[self.shape.registry]
