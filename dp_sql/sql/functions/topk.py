"""DP_TOPK: the items that the most people have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

from dp_sql.errors import ArgumentError
from dp_sql.sql import ranges, readers
from dp_sql.sql.functions.count_distinct import CountDistinct
from dp_sql.sql.given import Given
from dp_sql.sql.mechanism_rows import EMPTY_LIST, PAIRS, MechanismRows, coded, pair
from dp_sql.sql.shape import EachGroup, Function, Shape, load_kernels
from dp_sql.sql.types import as_key, writable
from dp_sql.udfs.exact_sampling import secret_draws
from dp_sql.udfs.mechanism import Mechanism, PrivacyLoss
from dp_sql.udfs.topk import counts

COUNTED = "STRUCT(item {}, count BIGINT)"
_LIST, _WITH_COUNTS = "__dp_sql_topk", "__dp_sql_topk_counts"
DENSE_UDF = "__dp_sql_dense"
_CONTRIBUTIONS = readers.whole(ranges.MAX_CONTRIBUTIONS)


@dataclass(frozen=True, kw_only=True)
class TopK(Shape):
    """Takes how many people have each item; returns the places of k items, from 1.

    Detailed: also their noisy counts. The list then gets one part of epsilon, the counts the rest.
    """

    registry = "topk"
    in_memory: ClassVar[str] = "items"
    finds_items = True
    reads_rows_once = True
    takes: ClassVar = {"__dp_counts": "BIGINT[]"}
    keys: ClassVar[tuple[str, ...]] = ("__dp_item",)
    sums: ClassVar = {"n": "BIGINT"}
    udfs: ClassVar = {_LIST: "BIGINT[]", _WITH_COUNTS: "STRUCT(place BIGINT, people BIGINT)[]"}
    detailed_by = "counts"
    with_items: ClassVar = {
        "VARCHAR[]": "[{}]",
        'STRUCT(item VARCHAR, "count" BIGINT)[]':
        '[system.main.struct_pack(item := {}, "count" := 0::BIGINT)]',
    }  # fmt: skip

    k: int

    @classmethod
    def default_mechanism(cls, given: Given, default: str) -> str:
        """With counts, a set: they order it. With delta and no domain, one that finds the items."""
        if "domain" in given.arguments or "delta" not in given.arguments:
            with_counts = given.optional("counts", readers.read_boolean, False)
            return "subset" if with_counts else default
        groups = readers.whole(ranges.MAX_GROUPS_CONTRIBUTED)
        n_groups = given.optional("max_groups_contributed", groups, 1)
        each = given.read("epsilon", readers.read_epsilon) / n_groups
        is_long = given.read("k", readers.whole(ranges.MAX_K)) >= ranges.WEIGHTED_FROM_K
        weighted = is_long and each >= ranges.WEIGHTED_FROM_EPSILON
        if weighted or "max_contributions" in given.arguments:
            return "weighted_gaussian"
        return "limited_domain"

    @classmethod
    def read(cls, given: Given, mechanism: Mechanism) -> TopK:
        """Check that there is a domain or a mechanism that needs none."""
        epsilon = given.read("epsilon", readers.read_epsilon)
        beta = given.optional("beta", readers.read_beta, ranges.DEFAULT_BETA)
        delta = given.optional("delta", readers.read_delta, None)
        k = given.read("k", readers.whole(ranges.MAX_K))
        with_counts = given.optional("counts", readers.read_boolean, False)
        has_domain = "domain" in given.arguments
        if not has_domain and not mechanism.finds_items and not given.under_policy:
            if CountDistinct.may_be_vector(given):  # its item is the privacy unit
                raise given.token.error(
                    ArgumentError,
                    f"Each {given.arguments['item'].text} is one person, and {given.name} lists "
                    "its items.",
                    "If the people are public, state them: domain := people.id (a public table's "
                    "column). To count people, write DP_COUNT_DISTINCT.",
                )
            raise given.token.error(
                ArgumentError,
                f"{given.name} needs a domain: the public set of items that the answer may "
                "contain. Without one, the answer could show an item that only one person has.",
                "Write domain := catalog.title (a public table's column), "
                "domain := ['a', 'b'] (a list), domain := genre (an ENUM column or type), or, if "
                "the set of values in this column is itself public, domain := observed. If no "
                "domain is known, delta := 1e-9 finds the items; with that probability, the "
                "privacy guarantee may fail.",
                [given.with_another("delta := 1e-9")] if "mechanism" not in given.arguments else [],
            )
        taken = {"delta": "delta", "max_contributions": "max_contributions"}
        given.check_taken(mechanism, taken)
        if has_domain and mechanism.finds_items:
            raise given.arguments["domain"].refuse(
                f"The mechanism {mechanism.name} finds the items by itself and takes no domain.",
                "Leave domain out, or leave mechanism and delta out to choose from this domain.",
            )
        call = cls(epsilon=epsilon, delta=delta, beta=beta, k=k, detailed=with_counts)
        if mechanism.finds_items and mechanism.n_largest is None:
            load_kernels(given.name)
            most = given.optional(
                "max_contributions", _CONTRIBUTIONS, ranges.DEFAULT_MAX_CONTRIBUTIONS
            )
            is_open = "max_contributions" not in given.arguments
            numbers = {"max_contributions": most, "contributions_open": is_open}
            return TopKOfPairs(**vars(call) | numbers)
        return call

    def mechanism_arguments(self, mechanism: Mechanism) -> dict[str, Any]:
        """With counts, the mechanism has only the list's part of epsilon."""
        share = counts.LIST_SHARE if self.detailed else 1
        return {**super().mechanism_arguments(mechanism), "epsilon": self.epsilon * share}

    def loss(self, mechanism: Mechanism) -> PrivacyLoss:
        """The loss of the list, and of its counts if there are any."""
        of_list = super().loss(mechanism)
        return counts.with_counts(of_list, self.epsilon) if self.detailed else of_list

    @property
    def n_listed(self) -> int:
        return self.k

    @property
    def limited_by_policy(self) -> Mapping[str, Fraction | int | None]:
        return {**super().limited_by_policy, "k": self.k}

    def value_type(self, types: Mapping[str, str]) -> str:
        item = types["item"]
        return f"{COUNTED.format(item)}[]" if self.detailed else f"{item}[]"

    def summary(self, rows: MechanismRows) -> str:
        n = "count(*)" if rows.grouped else "count(DISTINCT __dp_privacy_unit)"
        return (
            f"SELECT {rows.group}__dp_item, system.main.{n} AS n FROM {rows.relation} "
            f"GROUP BY {rows.group}__dp_item"
        )

    def column(self, name: str, sql: str, kind: str) -> str:
        return super().column(name, writable(sql, kind) if name == "item" else sql, kind)

    def lists(self, rows: MechanismRows) -> list[str]:
        people = f"SELECT * FROM {rows.merged}" if rows.merged else self.summary(rows)
        if rows.grouped and rows.mechanism.n_largest is None:
            return _domain_in_groups(people, rows)
        order = f" ORDER BY {rows.by('item')}" if rows.grouped or rows.again else ""
        if rows.mechanism.n_largest is None:
            people = people if rows.domain is None else _with_domain(people, rows.domain)
        else:  # the largest counts and no more; among equal ones the items' own order decides
            order = f" ORDER BY n DESC, {rows.by('item')}"
            most = rows.mechanism.n_largest(self.k)
            number = f"system.main.row_number() OVER (PARTITION BY __dp_group{order})"
            people = (
                f"SELECT * FROM ({people}) AS counted QUALIFY {number} <= {most}"
                if rows.grouped
                else f"{people}{order} LIMIT {most}"
            )
        return [rows.lists(people, {"__dp_items": "__dp_item", "__dp_counts": "n"}, order)]

    def value(self, answer: str, rows: MechanismRows) -> str:
        """The items in the order of the answer; those of a set in the order of their values.

        With counts, the largest come first, and equal ones in the order of the items' values.
        """
        items = f"system.main.list_select(__dp_items, {answer})"
        if not (self.detailed or rows.mechanism.is_set):
            return items
        listed, item, first, shown = items, "x", "", "x.item"
        if self.detailed:
            listed, item = answer, "system.main.list_extract(__dp_items, x.place)"
            first = "n := -x.people, "
            shown = 'system.main.struct_pack(item := x.item, "count" := -x.n)'
        key, _ = as_key(item, rows.types["item"])
        keyed = f"lambda x: system.main.struct_pack({first}key := {key}, item := {item})"
        keyed = f"system.main.list_transform({listed}, {keyed})"
        keyed = f"system.main.list_sort({keyed}, 'ASC', 'NULLS LAST')"
        return f"system.main.list_transform({keyed}, lambda x: {shown})"

    def shown(self, answer: Any, items: Sequence[Any], mechanism: Mechanism) -> Any:
        if not self.detailed:
            chosen = [items[place - 1] for place in answer]
            return sorted(chosen) if mechanism.is_set else chosen
        chosen = [(-x["people"], items[x["place"] - 1]) for x in answer]
        return [{"item": str(item), "count": -n} for n, item in sorted(chosen)]

    def draw_each(
        self, mechanism: Mechanism, loss: PrivacyLoss, groups: EachGroup
    ) -> tuple[list[Any], str]:
        n_items = min(len(people) for (people,) in groups)
        if not mechanism.finds_items and self.k > n_items:
            # Only with the observed domain, whose size the owner calls public.
            fewer = f"Ask for at most {n_items}, or name" if n_items else "Name"
            raise ArgumentError(
                f"k = {self.k} is more than the {n_items} items observed in the source.",
                hint=f"{fewer} a public domain, whose absent items count zero people.",
            )
        values = self._values(self.runs(mechanism, groups), (people for (people,) in groups))
        return values, self._accuracy(mechanism, n_items)

    def _values(self, lists: Sequence[Sequence[int]], people: Iterable[Any]) -> list[Any]:
        """What the UDF returns for items chosen from all, whose numbers of people are `people`."""
        values: list[Any] = [[place + 1 for place in places] for places in lists]
        if not self.detailed:
            return values
        chosen = [own[places].tolist() for own, places in zip(people, lists, strict=True)]
        noisy = counts.noisy_counts(chosen, self.epsilon, secret_draws())
        return [
            [{"place": place, "people": n} for place, n in zip(*each, strict=True)]
            for each in zip(values, noisy, strict=True)
        ]

    def public_accuracy(self, mechanism: Mechanism, n_items: int | None) -> str | None:
        if mechanism.finds_items:
            n_items = 0  # has no effect: it would be private
        return None if n_items is None else self._accuracy(mechanism, n_items)

    def all_within(self, mechanism: Mechanism, n_items: int | None) -> int | None:
        return counts.within(self.k, self.epsilon, self.beta) if self.detailed else None

    def alternatives(
        self, mechanism: Mechanism, n_items: int | None, delta: Fraction | None
    ) -> Mapping[str, str]:
        """A list, a set, and a long list with delta. For k = 1 they are the same: none is shown."""
        public = replace(self, delta=self.delta or delta)
        others = {name: DP_TOPK.mechanisms[name] for name in ("joint", "subset", "cdp_peel")}
        return {
            name: public._accuracy_of_list(other, n_items)
            for name, other in others.items()
            if other is not mechanism and n_items is not None and self.k > 1
            if public.delta is not None or "delta" not in other.parameters
        }

    def _accuracy(self, mechanism: Mechanism, n_items: int) -> str:
        of_list = self._accuracy_of_list(mechanism, n_items)
        if not self.detailed:
            return of_list
        of_counts = _accuracy_of_counts(self.k, self.epsilon, self.beta)
        order = "" if mechanism.is_set else "for the list before it is sorted by count: "
        return f"{of_counts}; {order}{of_list}"

    def _accuracy_of_list(self, mechanism: Mechanism, n_items: int) -> str:
        public = {**self.mechanism_arguments(mechanism), "beta": self.beta}
        return _stated(mechanism, n_items, **public)


class TopKOfPairs(TopK):
    """Takes pairs of an item and a person who has it; returns the places of up to k items."""

    reads_rows_once = False
    in_memory = "pairs"
    keys = ()
    sums: ClassVar = {}
    takes: ClassVar = {"__dp_pairs": PAIRS}
    udfs: ClassVar = {f"{name}_of_pairs": kind for name, kind in TopK.udfs.items()}

    def lists(self, rows: MechanismRows) -> list[str]:
        return rows.pairs(listed=True)

    def draw_each(
        self, mechanism: Mechanism, loss: PrivacyLoss, groups: EachGroup
    ) -> tuple[list[Any], str]:
        from dp_sql.udfs.topk import weighted_gaussian

        pairs = [pairs for (pairs,) in groups]
        people = (weighted_gaussian.n_people(*own) for own in pairs)
        return self._values(self.runs(mechanism, pairs), people), self._accuracy(mechanism, 0)


@lru_cache(maxsize=64)
def _stated(mechanism: Mechanism, n_items: int, **public: Any) -> str:
    """What a mechanism states about its accuracy; the groups of a call ask the same."""
    return str(mechanism.accuracy(n_items, **public))


_accuracy_of_counts = lru_cache(maxsize=64)(counts.accuracy)


def _with_domain(counts: str, domain: str) -> str:
    """Counts of all items of the domain: zero for those that no one has."""
    return (
        "SELECT domain.item AS __dp_item, coalesce(counted.n, 0) AS n "
        f"FROM ({domain}) AS domain LEFT JOIN ({counts}) AS counted "
        "ON counted.__dp_item = domain.item"
    )


def _domain_in_groups(counts: str, rows: MechanismRows) -> list[str]:
    """The lists of all groups: the same items, in the order of their values, and their counts."""
    domain = rows.domain or "SELECT DISTINCT __dp_item AS item FROM __dp_rows"
    counted = pair("code", "n")
    return [
        f"__dp_coded AS MATERIALIZED ({coded(domain, rows.types['item'])})",
        f"__dp_listed AS MATERIALIZED ({listed('__dp_coded')})",
        "__dp_sparse AS MATERIALIZED (SELECT __dp_group, coalesce(system.main.list("
        f"{counted}) FILTER (WHERE code IS NOT NULL), {EMPTY_LIST}) AS pairs FROM __dp_groups "
        f"LEFT JOIN (SELECT __dp_group, code, n FROM ({counts}) AS counted JOIN __dp_coded "
        "ON counted.__dp_item = __dp_coded.item) AS coded USING (__dp_group) GROUP BY __dp_group)",
        f"__dp_lists AS NOT MATERIALIZED (SELECT __dp_group, __dp_items, {DENSE_UDF}(pairs, "
        "system.main.len(__dp_items)) AS __dp_counts FROM __dp_sparse, __dp_listed)",
    ]


def listed(items: str) -> str:
    """A SELECT of the list of all items, as `__dp_items`, from a relation of items and codes."""
    every = f"coalesce(system.main.list(item ORDER BY code), {EMPTY_LIST})"
    return f"SELECT {every} AS __dp_items FROM {items}"


DP_TOPK = Function(
    name="DP_TOPK", shape=TopK, default_mechanism="joint", purpose="the most frequent items",
    positional=("item", "k"),
    named=("epsilon", "delta", "privacy_unit", "domain", "counts", "max_contributions", "mechanism",
           "beta", "groups", "max_groups_contributed"),
    example="DP_TOPK(title, 10, epsilon := 1.0, privacy_unit := user_id, domain := catalog.title)",
    table="ratings", aggregates=("MODE", "APPROX_TOP_K", "APPROX_TOP_COUNT"),
)  # fmt: skip
