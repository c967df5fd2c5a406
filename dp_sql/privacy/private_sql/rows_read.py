"""The SQL of rows that are read into memory, and of people's values that are computed there.

DuckDB would group the rows by person. In memory, for each person in each group, come out: how many
rows have an item, what the items add up to, and the item of one row, drawn (udfs/contributions).
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from dp_sql.privacy.plans.plan import Plan
from dp_sql.privacy.private_sql.group_bits import N_BITS
from dp_sql.privacy.private_sql.group_ctes import UNIT, by_keys, groups_ctes, keys_of
from dp_sql.privacy.private_sql.people_rows import PeopleRows
from dp_sql.sql.formatting import full_name
from dp_sql.sql.shape import Summed
from dp_sql.sql.types import FIT_BIGINT, family, is_wide_decimal
from dp_sql.udfs.randomness import fair_bytes


class ItemRead(NamedTuple):
    """What is computed of an item, besides how many rows have it.

    sums: whether the items are added up, for a summary.
    votes: whether one row is drawn, whose item is the vote.
    """

    sums: bool
    votes: bool


class Kept(NamedTuple):
    """What is computed of rows for the plans with one cap.

    cap: in how many groups a person is kept; None: in all.
    items: what is computed of each item, by its number.
    summed: of each plan, by its place: the number of its item, and how its summary is made.
    """

    cap: int | None
    items: Mapping[int, ItemRead]
    summed: Mapping[int, tuple[int, Summed]]


class GroupsFound(NamedTuple):
    """How groups are found by who is in them.

    keys: a SELECT of the keys and places of these groups, up to its WITH, which is to define
        `__dp_sent`: the keys as they were sent, and their places.
    again: the same, but it reads the keys from the source again; for keys that were sent as hashes.
    by: the order of the keys, as of ORDER BY.
    kinds: the types of the keys, by name.
    """

    keys: str
    again: str
    by: str
    kinds: Mapping[str, str]


class ListsRead(NamedTuple):
    """How rows become the lists that a mechanism takes: one for each group.

    cap: in how many groups a person is kept; None: in all.
    items: the table of the items and their codes, if people are counted by item; "" if the lists
        are of pairs of items and people.
    codes: the SELECT that sends these items in the order of their codes; "" if rows have codes.
    shown: the SELECT of their list, from which an answer takes items; "" if it takes none.
    kind: the type of the items in the rows, if an answer takes them from there; else "".
    again: a SELECT of the items that the rows have, as `item`, and as they are sent, as `sent`, up
        to a relation of those that are needed, as they are sent; "" if these are the items.
    """

    cap: int | None
    items: str
    codes: str
    shown: str
    kind: str = ""
    again: str = ""

    @property
    def sends_codes(self) -> bool:
        """Whether items come as codes."""
        return bool(self.items) and not self.codes


class RowsRead(NamedTuple):
    """How rows are read into memory, and what is computed of them.

    sql: the SELECT of each row's person, its `n_keys` keys, and the items.
    sends: of each item whether it is sent as it is; else 1 is sent for it.
    groups: how many public groups there are, whose numbers, from 1, are the key of rows; or how
        groups are found; 0 without GROUP BY.
    kept: what is computed for the plans with each cap.
    adds_up: whether rows in public groups are only added up.
    lists: what is made of the rows instead of people's values.
    tables: SELECTs of temporary tables that the others read, by name.
    listed: the relation of the keys of public groups: one of these tables, as another connection
        may change what they are listed by between two statements.
    """

    sql: str
    sends: Sequence[bool]
    groups: int | GroupsFound
    n_keys: int
    kept: Sequence[Kept]
    adds_up: bool
    lists: ListsRead | None = None
    tables: Mapping[str, str] = MappingProxyType({})
    listed: str = ""


def rows_read(
    plans: Sequence[Plan], releases: Sequence[str], sent_as: Callable[[str, str], str]
) -> RowsRead | None:
    """How to read the rows of a bundle; None: only DuckDB can, or it is faster.

    sent_as: the SQL of a column of `__dp_read` as it is sent, from its name and its type.
    """
    finds = plans[0].finding is not None
    people = PeopleRows([read_once(plan) for plan in plans], releases)
    are_known = not people.grouped or people.n_groups or finds
    if not (are_known and all(plan.parameters.summed() for plan in people.plans)):
        return None
    types = [plan.parameters.item_type(plan.columns["item"].type) for plan in people.plans]
    kinds = dict(zip(people.items, types, strict=True))  # in the order of the items' numbers
    kept = [kept_of(people, cap, [*kinds]) for cap in people.caps]
    made = [_made_of(i, kept) for i in range(len(kinds))]
    votes = any(one.votes for one in made)  # DuckDB is slow to draw a row for each person
    if not (votes or finds or _is_faster(people, kept)):
        return None
    sent = [_item_sent(*item, one) for item, one in zip(kinds.items(), made, strict=True)]
    if not all(sent):
        return None
    first = people.plans[0]
    keys = [sent_as(name, column.type) for name, column in keys_of(first).items()]
    person = sent_as(UNIT, first.columns["privacy_unit"].type)
    ctes, rows = people.read(), "__dp_read"
    groups: int | GroupsFound = 0
    tables, public = dict[str, str](), ""
    if finds:
        groups = _groups_found(people, sent_as)
    elif first.groups is not None:
        tables[public := new_table()] = first.groups.select
        ctes = [*ctes, *groups_ctes(first, "", "", found=public)]
        rows = people.placed_by(rows)
        keys, groups = [number_of_group(people.n_groups)], people.n_groups
    listed = ", ".join([person, *keys, *sent])
    return RowsRead(
        sql=f"WITH {', '.join(ctes)} SELECT {listed} FROM {rows}",
        sends=[one.sums or one.votes for one in made],
        groups=groups,
        n_keys=len(keys),
        kept=kept,
        adds_up=not (votes or finds),
        tables=tables,
        listed=public,
    )


def _is_faster(people: PeopleRows, kept: Sequence[Kept]) -> bool:
    """Whether DuckDB would be slower, for another reason than votes.

    It is where it draws groups beside values of people, or some of more groups than fit bits, and
    where people are summed up by their rows in all groups.
    """
    counts_people = all(plan.parameters.counts_people for plan in people.plans)
    draws = people.caps != [None] and not (counts_people and people.n_groups <= N_BITS)
    return draws or any(by.pays for one in kept for _, by in one.summed.values())


def _made_of(number: int, kept: Sequence[Kept]) -> ItemRead:
    """What is computed of an item for the plans with any cap."""
    made = [one.items[number] for one in kept if number in one.items]
    return ItemRead(any(one.sums for one in made), any(one.votes for one in made))


def _item_sent(name: str, kind: str, made: ItemRead) -> str:
    """The SQL of an item as it is sent, or of 1 in its place; "": it cannot be sent."""
    if made.sums:
        is_decimal = family(kind) == "DECIMAL"
        fits = not is_wide_decimal(kind) if is_decimal else family(kind) in FIT_BIGINT
        return name if fits else ""
    return f"CAST({name} AS BIGINT)" if made.votes else one_if_there(name)


def new_table() -> str:
    """The full name of a temporary table."""
    return full_name(("temp", "main", f"__dp_made_{fair_bytes(8).hex()}"))


def number_of_group(n_groups: int) -> str:
    """The number of a public group, in a type that is short to send."""
    kind = "UTINYINT" if n_groups < 1 << 8 else "USMALLINT" if n_groups < 1 << 16 else "UINTEGER"
    return f"CAST(__dp_group AS {kind}) AS __dp_group"


def one_if_there(item: str) -> str:
    """What is sent of an item if all that matters is whether a row has one."""
    return f"CASE WHEN {item} IS NOT NULL THEN CAST(1 AS UTINYINT) END"


def read_once(plan: Plan) -> Plan:
    """The plan without what would keep its rows in DuckDB."""
    groups = plan.groups and plan.groups._replace(finding=None)
    return plan._replace(keep_source=False, groups=groups)


def _groups_found(people: PeopleRows, sent_as: Callable[[str, str], str]) -> GroupsFound:
    """What DuckDB does to find groups by people who are in memory."""
    first = people.plans[0]
    kinds = {name: column.type for name, column in keys_of(first).items()}
    typed = ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in kinds.items())
    sent = {name: f"__dp_own_{name}" for name in kinds}
    both = ", ".join([*kinds, *(f"{name} AS {own}" for name, own in sent.items())])
    listed = ", ".join([*kinds, *(sent_as(own, kinds[name]) for name, own in sent.items())])
    same = " AND ".join(f"{own} = __dp_sent.{name}" for name, own in sent.items())
    own = f"SELECT DISTINCT {listed} FROM (SELECT {both} FROM __dp_read) AS r"
    return GroupsFound(
        keys=f" SELECT {typed}, place FROM __dp_sent",
        again=f", {', '.join(people.read())}, __dp_own AS ({own}) SELECT "
        f"{', '.join(f'__dp_own.{name}' for name in kinds)}, place FROM __dp_own JOIN __dp_sent "
        f"ON {same}",
        by=by_keys(first),
        kinds=kinds,
    )


def kept_of(people: PeopleRows, cap: int | None, names: Sequence[str]) -> Kept:
    """What the plans with a cap need; `names` are those of all items."""
    summed = {
        place: (names.index(item), by)
        for place, (plan, item) in enumerate(zip(people.plans, people.items, strict=True))
        if people.cap(plan) == cap and (by := plan.parameters.summed()) is not None
    }
    items = dict[int, ItemRead]()
    for i in sorted({i for i, _ in summed.values()}):
        own = [by for n, by in summed.values() if n == i]
        items[i] = ItemRead(any(by.takes_sums for by in own), any(by.takes_votes for by in own))
    return Kept(cap, items, summed)
