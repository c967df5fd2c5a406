"""People's rows as CTEs: read, placed in groups and kept once for all calls that share a source.

Public groups are all answered, also if no one is in them; unknown ones are found first. A person in
more groups than a cap is kept in some of them, drawn at random from that person's own groups: those
where any of the calls has an item. Calls with the same cap share the draw, which
budget/accountants.md allows under "Releases that draw first".

Per-person values (sql.shape.Shape.of_person) of all calls are computed by one GROUP BY, so that
people are grouped once. Columns of what is shared are numbered: `__dp_item_0` is the first item.

Where the rows are read in parts, every draw is by a keyed hash, so that a part that is computed
again comes out the same. For every key the promise holds; that the draws are fair rests on the hash
(sha256) and on the key, which is drawn for each release.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dp_sql.privacy.plan import Column, Finding, Plan
from dp_sql.sql.functions.quantile import WORD_UDF
from dp_sql.sql.types import as_bytes, as_text, by_value, exact

KEEP_UDF, FIND_UDF, KEY_UDF = "__dp_sql_keep", "__dp_sql_find", "__dp_sql_key"
_ITEM = re.compile(r"\b__dp_item\b")
_PERSON = "__dp_privacy_unit"


def keys_of(plan: Plan) -> dict[str, Column]:
    """The columns of GROUP BY, by their names in the private SQL."""
    return {f"__dp_key_{i}": key for i, key in enumerate(plan.keys)}


def keys_sql(plan: Plan) -> list[str]:
    """The columns of GROUP BY, read from the source."""
    return [f"{exact(key.sql, key.type)} AS {name}" for name, key in keys_of(plan).items()]


def by_keys(plan: Plan) -> str:
    """The order of the groups."""
    return ", ".join(by_value(name, key.type) for name, key in keys_of(plan).items())


def bundles(plans: Sequence[Plan]) -> list[list[int]]:
    """The places of plans that one statement releases: they share their source and their groups.

    A plan that finds its groups has others than all other plans, and one that takes counts of
    covered items reads no rows.
    """
    found: dict[object, list[int]] = {}
    for place, plan in enumerate(plans):
        groups = None if plan.groups is None else plan.groups.select
        same = (read_together(plan).source, plan.keys, groups)
        is_alone = not plan.parameters.reads_people or _finding(plan) is not None
        is_alone = is_alone or "__dp_cover" in plan.parameters.takes
        found.setdefault(place if is_alone else same, []).append(place)
    return list(found.values())


def bundled(
    plans: Sequence[Plan], tickets: Sequence[str]
) -> Iterator[tuple[list[int], list[Plan], list[str]]]:
    """The places, plans and tickets of each of the bundles."""
    for places in bundles(plans):
        yield places, [plans[i] for i in places], [tickets[i] for i in places]


def read_together(plan: Plan) -> Plan:
    """The plan over the source that it shares with the other calls of its SELECT."""
    if plan.shared is None:
        return plan
    item = replace(plan.columns["item"], sql=plan.shared.item)
    return replace(plan, source=plan.shared.source, columns={**plan.columns, "item": item})


def found_sql(plan: Plan, call: str, rows: str) -> list[str]:
    """`__dp_found`, the keys of the groups that a UDF finds by the people who are in them.

    `rows` is a relation of keys and people; `call` the UDF's first arguments. Only the groups found
    are numbered: a place among all groups would depend on those that are not found.
    """
    names = ", ".join(keys_of(plan))
    same = " AND ".join(f"{rows}.{k} = __dp_seen.{k}" for k in keys_of(plan))
    return [
        "__dp_seen AS MATERIALIZED (SELECT "
        f"{names}, system.main.row_number() OVER (ORDER BY {by_keys(plan)}) AS seen "
        f"FROM (SELECT DISTINCT {names} FROM {rows}) AS s)",
        f"__dp_within AS MATERIALIZED (SELECT DISTINCT seen, {_PERSON} FROM {rows} "
        f"JOIN __dp_seen ON {same})",
        f"__dp_coded AS MATERIALIZED (SELECT {_PERSON}, CAST(system.main.row_number() OVER () "
        f"- 1 AS INTEGER) AS code FROM (SELECT DISTINCT {_PERSON} FROM __dp_within) AS p)",
        "__dp_lists_of AS (SELECT seen, system.main.list(code) AS people FROM __dp_within "
        f"JOIN __dp_coded USING ({_PERSON}) GROUP BY seen)",
        f"__dp_places AS MATERIALIZED (SELECT {FIND_UDF}({call}, coalesce("
        "system.main.list(people ORDER BY seen ASC), [])) AS places FROM __dp_lists_of)",
        f"__dp_found AS MATERIALIZED (SELECT {names} FROM __dp_seen JOIN (SELECT "
        "unnest(places) AS seen FROM __dp_places) AS f USING (seen))",
    ]


@dataclass
class PeopleRows:
    """The CTEs of plans that share a source.

    calls: the first arguments of the UDF that draws for a plan.
    key: in place of UDFs, draws are hashes with this key, in hexadecimal digits. `__dp_groups` is
        then a table that is already there.
    """

    plans: Sequence[Plan]
    calls: Sequence[str] = ()
    key: str | None = None

    def __post_init__(self) -> None:
        self.plans = [read_together(plan) for plan in self.plans]
        self._first = self.plans[0]
        items = [_item(plan, place) for place, plan in enumerate(self.plans)]
        self._columns = {sql: f"__dp_item_{i}" for i, sql in enumerate(dict.fromkeys(items))}
        self._items = [self._columns[sql] for sql in items]
        self._values: dict[str, str] = {}
        for plan, item in zip(self.plans, self._items, strict=True):
            for value in plan.parameters.of_person().values():
                self._values.setdefault(_ITEM.sub(item, value), f"__dp_own_{len(self._values)}")
        self._grouped = bool(self._first.keys)
        self._n_of_rows = sum(not plan.parameters.of_person() for plan in self.plans)
        self._n_of_persons = len(self.plans) - self._n_of_rows
        self._draws: dict[int, str] = {}  # cap → the end of its CTEs' names
        for plan in self.plans:
            if plan.groups is not None and plan.groups.cap is not None:
                self._draws.setdefault(plan.groups.cap, f"_{len(self._draws)}")

    @property
    def _person(self) -> str:
        """The columns that tell one person's rows in one group."""
        return f"__dp_group, {_PERSON}" if self._grouped else _PERSON

    @property
    def _is_distinct(self) -> bool:
        """Whether it does not matter how often a row occurs."""
        return len(self._columns) == 1 and not self._n_of_persons

    @property
    def _n_readers(self) -> int:
        """How often `__dp_read` is read."""
        if self._grouped:
            n_of_groups = 1 if _finding(self._first) is None else 3
            return n_of_groups + sum(map(_lists_items, self.plans))
        return self._n_of_rows + bool(self._n_of_persons)

    def shared(self) -> list[str]:
        """The CTEs that all plans read."""
        ctes = self.read()
        rows = "__dp_read"
        if self._grouped:
            if self.key is None:
                ctes += self._groups()
            rows = f"({self._placed()})"
            if self._n_of_rows:
                ctes.append(f"__dp_placed AS MATERIALIZED {rows}")
                rows = "__dp_placed"
        if self._n_of_persons:
            if self._draws_rows:
                ctes.append(f"__dp_numbered AS ({self._numbered(rows)})")
                rows = "__dp_numbered"
            ctes.append(f"__dp_persons AS MATERIALIZED ({self._persons(rows)})")
        for cap, end in self._draws.items():
            ctes += self._allowed(cap, end)
        return ctes

    def of(self, place: int) -> list[str]:
        """The CTEs of one plan; the last one is `__dp_kept`, which its lists read."""
        plan, item = self.plans[place], self._items[place]
        ctes = []
        if self._grouped and _lists_items(plan):
            some = f"SELECT {item} AS __dp_item FROM __dp_read WHERE {item} IS NOT NULL"
            ctes = [f"__dp_rows AS ({some})"]
        joined = ""
        if plan.groups is not None and plan.groups.cap is not None:
            joined = f" JOIN __dp_allowed{self._draws[plan.groups.cap]} USING ({self._person})"
        if values := plan.parameters.of_person():
            listed = [f"{self._values[_ITEM.sub(item, sql)]} AS {n}" for n, sql in values.items()]
            some = f" WHERE __dp_n_{item} > 0" if len(self._columns) > 1 else ""
            kept = f"SELECT {self._person}, {', '.join(listed)} FROM __dp_persons{joined}{some}"
            return [*ctes, f"__dp_kept AS ({kept})"]
        distinct = "DISTINCT " if self._grouped and not self._is_distinct else ""
        rows = "__dp_placed" if self._grouped else "__dp_read"
        some = f" WHERE {item} IS NOT NULL" if len(self._columns) > 1 else ""
        kept = f"SELECT {distinct}{self._person}, {item} AS __dp_item FROM {rows}{joined}{some}"
        alone = plan.keep_source and self._n_readers == 1 and not plan.parameters.reads_rows_once
        is_sample = plan.parameters.sample_items is not None  # few rows, and each has been hashed
        is_kept = joined or distinct or is_sample or (alone and not self._grouped)
        return [*ctes, f"__dp_kept AS {'' if is_kept else 'NOT '}MATERIALIZED ({kept})"]

    def read(self) -> list[str]:
        """`__dp_read`, the source's rows, behind what it reads."""
        return [*self._keys(), self._read()]

    def _keys(self) -> list[str]:
        """The key of each plan that counts a sample of the items: the same in all of a release."""
        return [
            f"{_key_of(place)} AS MATERIALIZED (SELECT system.main.unhex({self._digits(place)}) "
            "AS key)"
            for place, plan in enumerate(self.plans)
            if plan.parameters.sample_items is not None
        ]

    def _digits(self, place: int) -> str:
        if self.key is None:
            return f"{KEY_UDF}({self.calls[place]})"
        return f"'{hashlib.sha256(f'{self.key}item/{place}'.encode()).hexdigest()}'"

    def _read(self) -> str:
        """The source's rows, without those that no call counts."""
        person = self._first.columns["privacy_unit"]
        listed = [f"{exact(person.sql, person.type)} AS {_PERSON}"]
        listed += [f"{sql} AS {name}" for sql, name in self._columns.items()]
        rows = f"SELECT {', '.join([*listed, *keys_sql(self._first)])} FROM {self._first.source}\n"
        some = " OR ".join(f"{name} IS NOT NULL" for name in self._columns.values())
        there = [f"{name} IS NOT NULL" for name in (_PERSON, *keys_of(self._first))]
        where = " AND ".join([*there, f"({some})"])
        kept = self._n_readers > 1 and (self._grouped or self._first.keep_source)
        rows = f"SELECT * FROM ({rows}) AS __dp_source WHERE {where}"
        return f"__dp_read AS {'' if kept else 'NOT '}MATERIALIZED ({rows})"

    def _groups(self) -> list[str]:
        """`__dp_groups`, numbered in the order of the keys."""
        groups = self._first.groups
        assert groups is not None  # of people
        names = ", ".join(keys_of(self._first))
        number = f"system.main.row_number() OVER (ORDER BY {by_keys(self._first)}) AS __dp_group"
        found, listed = [], f"({groups.select}) AS __dp_crossed"
        if groups.finding is not None:
            found, listed = found_sql(self._first, self.calls[0], "__dp_read"), "__dp_found"
        return [
            *found,
            f"__dp_groups AS MATERIALIZED (SELECT {names}, {number} FROM {listed})",
        ]

    def _placed(self) -> str:
        """The rows with the numbers of their groups."""
        same = " AND ".join(f"__dp_read.{k} = __dp_groups.{k}" for k in keys_of(self._first))
        distinct = "DISTINCT " if self._is_distinct else ""
        items = ", ".join(self._columns.values())
        return f"SELECT {distinct}{self._person}, {items} FROM __dp_read JOIN __dp_groups ON {same}"

    def _persons(self, rows: str) -> str:
        """The values of each person, in each group, that the plans need."""
        listed = [f"{self._drawn(sql)} AS {name}" for sql, name in self._values.items()]
        if len(self._columns) > 1:
            listed += [
                f"system.main.count({item}) AS __dp_n_{item}" for item in dict.fromkeys(self._items)
            ]
        return f"SELECT {self._person}, {', '.join(listed)} FROM {rows} GROUP BY {self._person}"

    @property
    def _draws_rows(self) -> bool:
        """Whether one row of a person is drawn, by a hash."""
        return self.key is not None and any(WORD_UDF in sql for sql in self._values)

    def _numbered(self, rows: str) -> str:
        """The rows with numbers within each person's; rows with equal numbers are equal."""
        names = [*self._columns.values(), *(["__dp_group"] if self._grouped else [])]
        number = f"PARTITION BY {_PERSON} ORDER BY {', '.join(names)}"
        return f"SELECT *, system.main.row_number() OVER ({number}) AS __dp_row FROM {rows}"

    def _drawn(self, value: str) -> str:
        """A person's value in which the word of each row is a hash, if there is a key."""
        if self.key is None:
            return value
        call = rf"{WORD_UDF}\((\w+)\)"
        return re.sub(call, lambda found: self._hash(f"row/{found[1]}", "__dp_row"), value)

    def _hash(self, what: str, number: str) -> str:
        """The keyed hash of a person and the number of a group or row."""
        person = as_text(_PERSON, self._first.columns["privacy_unit"].type)
        text = f"{person} || '/' || CAST({number} AS VARCHAR)"
        return f"system.main.sha256('{self.key}{what}/' || {text})"

    def _allowed(self, cap: int, end: str) -> list[str]:
        """`__dp_allowed`: at most `cap` groups of each person."""
        groups = f"SELECT DISTINCT {self._person} FROM __dp_placed"
        if not self._n_of_rows:
            groups = f"SELECT {self._person} FROM __dp_persons"
        if self.key is not None:
            order = self._hash(f"group/{cap}", "__dp_group")
            own = f"system.main.list(__dp_group ORDER BY {order} ASC)"
            return [
                f"__dp_allowed{end} AS (SELECT {_PERSON}, unnest(system.main.list_slice({own}, 1, "
                f"{cap})) AS __dp_group FROM ({groups}) AS m GROUP BY {_PERSON})"
            ]
        # In an order of their own, so that another reading in the same execution has the same draw.
        call = next(
            call
            for plan, call in zip(self.plans, self.calls, strict=True)
            if plan.groups is not None and plan.groups.cap == cap
        )
        order = by_value(_PERSON, self._first.columns["privacy_unit"].type)
        return [
            f"__dp_members{end} AS MATERIALIZED (SELECT {_PERSON}, "
            "system.main.list(__dp_group ORDER BY __dp_group ASC) AS own, "
            f"system.main.row_number() OVER (ORDER BY {order}) AS place "
            f"FROM ({groups}) AS m GROUP BY {_PERSON})",
            f"__dp_counted{end} AS MATERIALIZED (SELECT {KEEP_UDF}({call}, coalesce("
            "system.main.list(system.main.len(own) ORDER BY place ASC), []), "
            f"{cap}) AS counted FROM __dp_members{end})",
            f"__dp_allowed{end} AS MATERIALIZED (SELECT {_PERSON}, unnest(system.main.list_select("
            "own, system.main.list_extract(counted, place))) AS __dp_group "
            f"FROM __dp_members{end}, __dp_counted{end})",
        ]


def _item(plan: Plan, place: int) -> str:
    """The item of a plan as SQL over its source; NULL if it is not in the plan's sample."""
    column, rate = plan.columns["item"], plan.parameters.sample_items
    item = plan.parameters.column("item", column.sql, column.type)
    if rate is None:
        return item
    from dp_sql.udfs.count_distinct.item_sample import threshold  # few calls take a sample

    keyed = f"(SELECT key FROM {_key_of(place)}), {as_bytes(column.sql, column.type)}"
    digest = f'system.main.sha256(system.main."||"({keyed})) COLLATE "binary"'
    return f"CASE WHEN {digest} < '{threshold(rate):016x}' THEN {item} END"


def _key_of(place: int) -> str:
    return f"__dp_sample_{place + 1}"


def _finding(plan: Plan) -> Finding | None:
    """How the groups of a plan are found; None: they are public, or there are none."""
    return None if plan.groups is None else plan.groups.finding


def _lists_items(plan: Plan) -> bool:
    """Whether the domain of a plan is all items in its rows."""
    return plan.domain is not None and plan.domain.select is None
