"""From the calls of a SELECT to their plans, and which sets may be answered: public ones.

The same for owners and analysts; owner.py and analyst.py say which sets are public to them, and
what a plan then rests on. With several keys every value of one is combined with every value of the
others, except of related keys; or a query over public tables lists the combinations; or the groups
are unknown.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod

from dp_sql.errors import ArgumentError, NotSupported
from dp_sql.privacy.catalog import Schema, size_sql
from dp_sql.privacy.expressions.value import Value
from dp_sql.privacy.plans.domains import Domain, Values, Wanted
from dp_sql.privacy.plans.plan import Column, Finding, Groups, Plan, Shared, plan_of
from dp_sql.privacy.plans.related_keys import Related, alike, combined, crossed, of_days
from dp_sql.privacy.plans.sources import CallRows, Source
from dp_sql.privacy.plans.vectors import over_found_groups, over_public_groups
from dp_sql.privacy.refusals import PER_PERSON
from dp_sql.privacy.relations.person_of import people_of
from dp_sql.privacy.relations.tree import reads_one_table
from dp_sql.sql.arguments import DpCall
from dp_sql.sql.dp_select import DpSelect
from dp_sql.sql.formatting import shown_name
from dp_sql.sql.given import ListLiteral, PublicQuery, PublicSet, Reference, SetPerKey
from dp_sql.sql.ranges import MAX_GROUPS_FOUND_BY
from dp_sql.sql.readers import EVERY_ROW
from dp_sql.sql.restated import OtherQuestion
from dp_sql.sql.shape import load_kernels
from dp_sql.sql.tokens import folded
from dp_sql.udfs import REGISTRY

_OF_EACH = {"DP_COUNT": "count({})", "DP_SUM": "sum({})", "DP_AVG": "avg({})"}
_OF_ONE = "Each {} {} one person, and an answer about one person is not released."
_ONE_GROUP = "max_groups_contributed := 1"
_MOST_KEPT = 12  # groups of which a proposed sum counts each person in all
_UNLIKE = (
    "If you divide the answers: {} counts a person in one group, the other calls in all of theirs."
)
FINDING_SHARE = Fraction(1, 2)  # of epsilon; the rest is for the answers of the groups found
_OF_PEOPLE = Fraction(3, 5)  # the same, if these count people


@dataclass(frozen=True, kw_only=True)
class PublicSets(ABC):
    """The domains and groups of the calls of one SELECT.

    is_single: whether all rows of a person are known to have the same keys.
    accountant: that of the policy's budget. max_groups: of one call; None: not limited.
    """

    source: Source
    schema: Schema
    is_single: bool = False
    accountant: str | None = None
    max_groups: int | None = None

    @abstractmethod
    def refuse_missing(self, call: DpCall, item: Value, needs_cap: bool) -> None:
        """Raise ArgumentError where a call needs an argument, such as max_groups_contributed."""

    @abstractmethod
    def assumed(self, rows: CallRows, groups: Groups | None, domain: Domain | None) -> list[str]:
        """What the receipt says a plan rests on."""

    @abstractmethod
    def declared(self, item: Value) -> object:
        """The set of values of a column that is public without being stated, if there is one."""

    def related(self, keys: Sequence[Value]) -> list[Related]:
        """Keys of which not all combinations are possible, by their form or by declared values."""
        parts = alike(keys, lambda key: key.day_part[1:])
        return [of_days(keys, places) for places in parts]

    @abstractmethod
    def named(self, wanted: Wanted, given: Reference) -> Values:
        """The values of a set given by name: a table's column, or an ENUM."""

    @abstractmethod
    def unwritten(self, wanted: Wanted, *, observed: bool) -> Domain:
        """The set `observed`, or without one in the statement that of the policy."""

    @abstractmethod
    def checked(self, wanted: Wanted, values: Values) -> Domain:
        """Values that the statement names, or ArgumentError where they do not suit the item."""

    def plans(
        self, reads: Sequence[CallRows], shares: Sequence[Shared | None], n_sources: int
    ) -> list[Plan]:
        """The plans of calls that read together `n_sources` sources; see Source.shared."""
        source, calls, plans = self.source, [one.call for one in reads], []
        finds, found = source.select.delta is not None, self._found_groups(reads, n_sources)
        for key, value in zip(source.select.keys, source.values, strict=False):
            if source.select.groups is None and not finds:
                self._refuse_person(value, key)
        for rows, shared in zip(reads, shares, strict=True):
            groups = None
            call, domain = self._with_domain(rows, calls)
            if finds:
                call, groups = next(found)
            elif source.values:
                groups = self.groups(call, call.max_groups_contributed if self._is_open else None)
                if self._is_open:
                    call, groups = over_public_groups(call, groups, self.accountant)
            plans.append(self._plan(rows, call, domain, groups, shared))
        return plans

    @property
    def _is_open(self) -> bool:
        """Whether the rows of a person may be in several groups."""
        return bool(self.source.values) and not self.is_single

    def _with_domain(self, rows: CallRows, calls: Sequence[DpCall]) -> tuple[DpCall, Domain | None]:
        """A call, with the cap of its SELECT, and its domain; ArgumentError where it lacks one."""
        call, select = rows.call, self.source.select
        needs_cap = self._is_open and select.delta is None and call.parameters.vector() is None
        if needs_cap and call.max_groups_contributed is None:
            call = replace(call, max_groups_contributed=select.cap)
        if call.takes_domain and call.domain is None:
            self._refuse_person(rows.item, call.item)
        try:
            self.refuse_missing(call, rows.item, needs_cap)
        except ArgumentError as refusal:
            if self._is_open:
                self._with_cap(refusal, call, calls)
            raise
        if not call.takes_domain:
            return call, None
        return call, self.values(call, call.domain, rows.item, "domain")

    def _plan(
        self,
        rows: CallRows,
        call: DpCall,
        domain: Domain | None,
        groups: Groups | None,
        shared: Shared | None,
    ) -> Plan:
        source = self.source
        assert source.person_type is not None  # both callers of plans() refuse a public source
        person = Column('"__dp_person"', source.person_type)
        work = None if source.compiler.limits is None else rows.written.work
        return plan_of(
            source.select, call, source=rows.written.sql, keys=source.keys, groups=groups,
            columns={"item": Column('"__dp_item"', rows.item.type), "privacy_unit": person},
            keep_source=work is not None or not reads_one_table(rows.relation), domain=domain,
            assumptions=tuple(self.assumed(rows, groups, domain)), work=work, shared=shared,
            tables=tuple(sorted(rows.written.tables)), people=people_of(rows.relation),
        )  # fmt: skip

    def _refuse_person(self, value: Value, written: Reference) -> None:
        """Refuse what tells people apart as an item or a key whose values are not stated."""
        is_of_one = value.is_of_person or self.source.compiler.tables.is_of_one_person(value)
        if is_of_one and self.declared(value) is None:
            why = _OF_ONE.format(written.text, "is" if value.is_of_person else "belongs to")
            select = self.source.select
            instead = _of_each_person(select)
            raise select.refused(why, written.position, PER_PERSON, instead=instead)

    def _with_cap(self, refusal: ArgumentError, call: DpCall, calls: Sequence[DpCall]) -> None:
        """Let sums be of all groups of a person: the cap is their number, if known and small.

        If not, a sum beside `calls` that count all groups of a person is another question.
        """
        capped = [one for one in calls if one.parameters.vector() is None]
        growing = [f.name for one in capped if (f := one.function).shape.grows_with_people]
        if not growing:
            return
        if call.parameters.vector() is not None:  # where delta finds groups, sums need no cap
            if self.source.select.cap is None and any("delta := " in o for o in refusal.instead):
                refusal.instead = tuple(map(OtherQuestion, refusal.instead))
                refusal.hint = _UNLIKE.format(growing[0])
            return
        if self.source.select.cap is not None:  # the statement's own
            return
        size, keys = None, self.source.values
        all_public = len(refusal.public) >= len(keys)
        if self.source.select.groups is not None or None not in map(self.declared, keys):
            size = self.groups(call, None).size  # or what is wrong with the groups
        cap, instead = f"max_groups_contributed := {size}", []
        for one in refusal.instead:
            if size is not None and size <= _MOST_KEPT:
                instead.append(one.replace(_ONE_GROUP, cap))
            elif size is None and all_public and "delta := " not in one:
                instead.append(one.replace(f", {_ONE_GROUP}", ""))  # known with the groups
            elif len(capped) < len(calls):
                instead.append(OtherQuestion(one))
                refusal.hint = _UNLIKE.format(growing[0])
            else:
                instead.append(one)
        refusal.instead = tuple(instead)

    def _found_groups(
        self, reads: Sequence[CallRows], n_sources: int
    ) -> Iterator[tuple[DpCall, Groups]]:
        """The groups that a part of the first call's epsilon and delta find, and the calls on them.

        NotSupported where the calls cannot share a source. Without a cap in the statement a vector
        needs none, and else a person counts in one of the groups found.
        """
        calls, select = [one.call for one in reads], self.source.select
        assert select.delta is not None
        if n_sources > 1:
            why = "These calls cannot share groups that delta finds: a join multiplies their rows."
            hint = "Write one SELECT for each call, or give public groups."
            raise select.refused(why, calls[1].start, hint, NotSupported)
        shape, cap = calls[0].parameters, calls[0].max_groups_contributed
        load_kernels("delta")
        # With Gaussian noise alone the rho is lower.
        name = "partition_selection" if self.accountant == "zcdp" else "chosen_selection"
        finding = Finding(
            mechanism=REGISTRY["groups"][name],
            epsilon=shape.epsilon * (_OF_PEOPLE if shape.counts_people else FINDING_SHARE),
            delta=select.delta,
            max_contributions=1 if self.is_single else cap or MAX_GROUPS_FOUND_BY,
        )
        found_by = tuple(one.item.sql for one in reads)
        for i, call in enumerate(calls):
            found, groups = over_found_groups(call, finding, self.is_single)
            yield found, groups._replace(pays=i == 0, found_by=found_by)

    def values(self, call: DpCall, given: PublicSet | None, item: Value, what: str) -> Domain:
        """The public values of an item or a key; `what` is the argument that may name them."""
        wanted = Wanted(self.source.select, call, given or call.item, item, self.schema, what)
        if given is None or is_observed(given):
            return self.unwritten(wanted, observed=given is not None)
        if isinstance(given, ListLiteral):
            values = wanted.listed()
        elif isinstance(given, PublicQuery):
            values = self.source.one_column(given)
        else:
            values = self.named(wanted, given)
        return self.checked(wanted, values)

    def groups(self, call: DpCall, cap: int | None) -> Groups:
        """The public groups; `cap`: each person is kept in at most so many of them."""
        select, keys = self.source.select, self.source.values
        of = [replace(call, columns={**call.columns, "item": key}) for key in select.keys]
        given = select.groups
        if isinstance(given, PublicQuery) and len(keys) > 1:
            query = self._combinations(given, of)
            n_groups = self.schema.public_number(size_sql(query))
            return Groups(query, cap, n_groups, factors=[query])
        sets = [None] * len(keys) if given is None else self._set_per_key(given)
        found = [self.values(*one, "groups") for one in zip(of, sets, keys, strict=True)]
        factors = [str(one.select) for one in found]
        sizes = [one.size for one in found if one.size is not None]
        size = prod(sizes) if len(sizes) == len(keys) else None
        listed = crossed(factors)
        if given is None and (related := self.related(keys)):
            some = [(one, combined(self.source.keys, one)) for one in related]
            listed, factors = crossed(factors, some), []
            size = self.schema.public_number(size_sql(listed))
        if self.max_groups is not None and (size is None or size > self.max_groups):
            message = f"These are {size} groups; at most {self.max_groups} are allowed."
            raise select.refused(message, call.start)
        return Groups(listed, cap, size, factors=factors)

    def _set_per_key(self, given: PublicSet | SetPerKey) -> Sequence[PublicSet]:
        """The public sets that the statement gives, one for each key."""
        keys = self.source.select.keys
        if isinstance(given, SetPerKey):
            sets: Sequence[PublicSet] = given.sets
        else:
            sets = [given] * (len(keys) if is_observed(given) else 1)
        if len(sets) != len(keys):
            names = ", ".join(f"<values of {key.text}>" for key in keys)
            why = f"GROUP BY has {len(keys)} keys, but groups has a set for {len(sets)}."
            hint = (
                f"Write a public set for each key, in order, groups := ({names}), each a public "
                "table's column or a list, or a query that lists the combinations, "
                "groups := (SELECT … FROM a public table)."
            )
            stated = (one.given["groups"] for one in self.source.select.calls if one.groups)
            instead = [OtherQuestion(one.omitted()) for one in stated]
            raise self.source.select.refused(why, given.position, hint, instead=instead)
        return sets

    def _combinations(self, given: PublicQuery, of: Sequence[DpCall]) -> str:
        """The groups that a query lists; `of` has each key as the item of the call."""
        keys = self.source.values
        sql, columns = self.source.public_query(given)
        if len(columns) != len(keys):
            why = f"GROUP BY has {len(keys)} keys, and the query of groups selects {len(columns)}."
            hint = "The query that groups names selects one column for each key, in order."
            raise self.source.select.refused(why, given.position, hint)
        for call, key, values in zip(of, keys, columns, strict=True):
            wanted = Wanted(self.source.select, call, given, key, self.schema, "groups")
            self.checked(wanted, values)
        return combined(self.source.keys, Related(range(len(keys)), sql))


def _of_each_person(select: DpSelect) -> list[str]:
    """The mean over people of what the one call asks of each of them: another question."""
    if len(select.calls) != 1 or len(select.keys) != 1 or select.calls[0].condition:
        return []
    (call,), (key,), text = select.calls, select.keys, select.text
    counted = "*" if call.item.text == EVERY_ROW else call.item.text
    of_each = _OF_EACH.get(call.function.name, "").format(counted)
    if not of_each or "epsilon" not in call.given or not key.parts:
        return []
    given = f"epsilon := {call.given['epsilon'].text}"
    if "privacy_unit" in call.given:
        given += f", privacy_unit := {shown_name(key.parts[-1])}"
    spans = select.clauses
    source = " ".join(text[slice(*spans[word])] for word in ("FROM", "WHERE") if word in spans)
    people = f"SELECT {key.text}, {of_each} AS n {source} GROUP BY {key.text}"
    start, stop = min(a for a, _ in spans.values()), max(b for _, b in spans.values())
    asked = f"SELECT DP_AVG(n, {given}) AS n FROM ({people})"
    return [OtherQuestion(text[:start] + asked + text[stop:])]


def is_observed(given: object) -> bool:
    """Whether a set is that of the values in the source."""
    return isinstance(given, Reference) and folded(given.text) == "observed"
