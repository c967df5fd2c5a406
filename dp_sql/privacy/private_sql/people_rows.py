"""People's rows as CTEs: read, placed in groups and kept once for all calls that share a source.

Public groups are all answered, also if no one is in them; unknown ones are found first. A person in
more groups than a cap is kept in some of them, drawn at random from that person's own groups: those
where any of the calls has an item. Calls with the same cap share the draw, which
budget/accountants.md allows under "Releases that draw first".

Per-person values (sql.shape.Shape.person_values) of all calls are computed by one GROUP BY, so that
people are grouped once. Columns of what is shared are numbered: `__dp_item_0` is the first item.

Where the rows are read in parts, every draw is by a keyed hash, so that a part that is computed
again comes out the same. For every key the promise holds; that the draws are fair rests on the hash
(sha256) and on the key, which is drawn for each release.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from dp_sql.privacy.plans.plan import Plan
from dp_sql.privacy.private_sql.bundles import read_together
from dp_sql.privacy.private_sql.group_bits import MOST_BITS, GroupBits
from dp_sql.privacy.private_sql.group_ctes import UNIT, groups_ctes, keys_of, keys_sql
from dp_sql.privacy.private_sql.items import item_of, key_of, lists_items
from dp_sql.sql.functions.quantile import WORD_UDF
from dp_sql.sql.mechanism_rows import EMPTY_LIST
from dp_sql.sql.types import as_text, by_value, exact

KEEP_UDF, KEY_UDF = "__dp_sql_keep", "__dp_sql_key"
_ITEM = re.compile(r"\b__dp_item\b")
_WORD_UNIT = 1 << 63  # above all items, which are places on a grid


class Order(Enum):
    """What is done in which order with the rows of people in groups, as far as it is needed."""

    PLACE_FIRST = auto()  # place rows in groups, aggregate them there, draw groups
    AGGREGATE_FIRST = auto()  # aggregate rows by key, find groups, place people's values in them
    DRAW_FIRST = auto()  # find who has rows in which groups, draw some, aggregate the rows in these


@dataclass
class PeopleRows:
    """The CTEs of plans that share a source: those of `shared`, then those `of` each plan.

    releases: for each plan, the first arguments of the UDFs that draw for it.
    key: None if UDFs draw. Else rows are read in parts: draws are hashes with this key, in
        hexadecimal digits, and `__dp_groups` is a table that is already there.
    """

    plans: Sequence[Plan]
    releases: Sequence[str] = ()
    key: str | None = None

    def __post_init__(self) -> None:
        self.plans = [read_together(plan) for plan in self.plans]
        self._first = self.plans[0]
        items = [item_of(plan, place) for place, plan in enumerate(self.plans)]
        self._columns = {sql: f"__dp_item_{i}" for i, sql in enumerate(dict.fromkeys(items))}
        self.items = [self._columns[sql] for sql in items]
        self.values: dict[str, str] = {}
        for plan, item in zip(self.plans, self.items, strict=True):
            for value in plan.parameters.person_values().values():
                self.values.setdefault(_ITEM.sub(item, value), f"__dp_own_{len(self.values)}")
        self.grouped = bool(self._first.keys)
        self._n_of_rows = sum(not plan.parameters.person_values() for plan in self.plans)
        self._n_of_persons = len(self.plans) - self._n_of_rows
        self._is_alone = len(self.plans) == 1
        # The caps by which groups are drawn, and how the names of the CTEs of each end.
        self._draws = {cap: f"_{n}" for n, cap in enumerate(one for one in self.caps if one)}
        self._bits = GroupBits(self.n_groups)
        # Whether people's values need a word for each row.
        self._draws_words = any(WORD_UDF in sql for sql in self.values)
        # Whether all that is asked is who is in which group, once it is drawn: then groups and
        # people are joined.
        counts_people = self._is_alone and self._first.parameters.counts_people
        self._counts_bits = counts_people and self._bits.are_few
        self._fits_bits = self._may_be_bits()
        self._order = self._decided()

    @property
    def caps(self) -> list[int | None]:
        """The caps of the plans, each once."""
        return list(dict.fromkeys(map(self.cap, self.plans)))

    def cap(self, plan: Plan) -> int | None:
        """In how many groups a person is kept by a draw; None: in all of them."""
        groups = plan.groups
        if groups is None or groups.cap is None or (groups.size or groups.cap + 1) <= groups.cap:
            return None
        return groups.cap

    @property
    def _person(self) -> str:
        """The columns that tell one person's rows in one group."""
        return f"__dp_group, {UNIT}" if self.grouped else UNIT

    def _may_be_bits(self) -> bool:
        """Whether a draw may take a person's groups as bits, of a number or of a BLOB.

        Another reading in the same execution then has another draw, which no value depends on:
        not so for places in a list of the items in the rows.
        """
        finds_items = self._first.domain is None and self._first.mechanism.finds_items
        is_free = not self._n_of_rows or (self._is_alone and not finds_items)
        return is_free and self.key is None and 0 < self.n_groups <= MOST_BITS

    def _decided(self) -> Order:
        """The order of the steps, from what is asked of the rows."""
        if self._draws and self._fits_bits and self._draws_pay():
            return Order.DRAW_FIRST
        if self.key is not None or self._n_of_rows:
            return Order.PLACE_FIRST
        by_key = self._is_alone and self.grouped and not self._draws_words
        return Order.AGGREGATE_FIRST if by_key or self._first.finding else Order.PLACE_FIRST

    def _draws_pay(self) -> bool:
        """Whether it is faster to draw groups by one reading, and aggregate by a second one.

        A word for each row costs more than to read a stored table again, if a cap leaves few rows;
        so does telling a person's items apart in groups that are not kept.
        """
        if self._n_of_rows or self._counts_bits:
            return True
        uncapped = [plan for plan in self.plans if self.cap(plan) is None]
        if uncapped and not self._bits.are_few:
            return False
        return (
            not self._first.keep_source
            and self._draws_words
            and all(2 * cap <= self.n_groups for cap in self._draws)
            and all(plan.parameters.counts_people for plan in uncapped)
        )

    @property
    def _is_distinct(self) -> bool:
        """Whether rows in groups are told apart when they are placed there, for all calls."""
        has_values = self._n_of_persons or self._order is Order.DRAW_FIRST
        return len(self._columns) == 1 and not has_values

    @property
    def _n_readers(self) -> int:
        """How often `__dp_read` is read."""
        if self.grouped:
            finds = self._first.finding and self._order is not Order.AGGREGATE_FIRST
            return (3 if finds else 1) + sum(map(lists_items, self.plans))
        return self._n_of_rows + bool(self._n_of_persons)

    def shared(self) -> list[str]:
        """The CTEs that all plans read."""
        ctes = self.read()
        rows = "__dp_read"
        if self.grouped:
            if self._order is Order.AGGREGATE_FIRST:
                persons = self._persons("__dp_read", ", ".join([*keys_of(self._first), UNIT]))
                kept = "" if self._first.finding else "NOT "
                ctes.append(f"__dp_all AS {kept}MATERIALIZED ({persons})")
            if self.key is None:
                ctes += self.groups()
            rows = f"({self._placed('__dp_read')})"
            if self._n_of_rows or self._order is Order.DRAW_FIRST:
                kept = "NOT " if self._order is Order.DRAW_FIRST and not self._n_of_rows else ""
                ctes.append(f"__dp_placed AS {kept}MATERIALIZED {rows}")
                rows = "__dp_placed"
        if self._order is Order.DRAW_FIRST:
            return ctes + self._drawn_first()
        if self._order is Order.AGGREGATE_FIRST:
            ctes.append(f"__dp_persons AS MATERIALIZED ({self._placed('__dp_all')})")
        elif self._n_of_persons:
            if self.key is not None and self._draws_words:
                ctes.append(f"__dp_numbered AS ({self._numbered(rows)})")
                rows = "__dp_numbered"
            ctes.append(f"__dp_persons AS MATERIALIZED ({self._persons(rows)})")
        for cap, end in self._draws.items():
            ctes += self._allowed(cap, end)
        return ctes

    def of(self, place: int) -> list[str]:
        """The CTEs of one plan; the last one is `__dp_kept`, which its lists read."""
        plan, item = self.plans[place], self.items[place]
        ctes = []
        if self.grouped and lists_items(plan):
            some = f"SELECT {item} AS __dp_item FROM __dp_read WHERE {item} IS NOT NULL"
            ctes = [f"__dp_rows AS ({some})"]
        kept = self._kept_values if plan.parameters.person_values() else self._kept_rows
        return [*ctes, f"__dp_kept AS {kept(place)}"]

    def _kept_values(self, place: int) -> str:
        """The values of people that a plan reads."""
        plan, item = self.plans[place], self.items[place]
        cap = self.cap(plan)
        end = "" if cap is None else self._draws[cap]
        rows, some = f"__dp_persons{end}", ""
        listed = [f"{own} AS {name}" for name, own in self.values_of(place).items()]
        if self._order is Order.DRAW_FIRST and (cap is None or self._counts_bits):
            rows, bits = f"__dp_allowed{end}", "kept"
            if cap is None:
                rows, bits = "__dp_own", f"__dp_in_{item}"
            rows += f" JOIN __dp_groups ON {self._bits.has(bits)}"
            listed = [f"1 AS {name}" for name in plan.parameters.person_values()]
        elif len(self._columns) > 1:
            some = f" WHERE __dp_n_{item} > 0"
        return f"(SELECT {self._person}, {', '.join(listed)} FROM {rows}{some})"

    def _kept_rows(self, place: int) -> str:
        """The rows that a plan reads, and whether DuckDB is to keep them."""
        plan, item = self.plans[place], self.items[place]
        cap, reads_once = self.cap(plan), plan.parameters.reads_rows_once
        rows = "__dp_placed" if self.grouped else "__dp_read"
        rows += "" if cap is None else self._draws[cap]
        distinct = "DISTINCT " if self.grouped and not self._is_distinct else ""
        some = f" WHERE {item} IS NOT NULL" if len(self._columns) > 1 else ""
        reads_alone = self._n_readers == 1 and not self.grouped
        is_costly = plan.keep_source and reads_alone and not reads_once
        is_sample = plan.parameters.sample_items is not None  # few rows, and each has been hashed
        pays = cap is not None or distinct or is_sample or is_costly
        pays = pays and not (self._order is Order.DRAW_FIRST and reads_once)
        kept = f"SELECT {distinct}{self._person}, {item} AS __dp_item FROM {rows}{some}"
        return f"{'' if pays else 'NOT '}MATERIALIZED ({kept})"

    def values_of(self, place: int) -> dict[str, str]:
        """The columns of a plan's values in `__dp_persons`, by the names that it gives them."""
        values, item = self.plans[place].parameters.person_values(), self.items[place]
        return {name: self.values[_ITEM.sub(item, sql)] for name, sql in values.items()}

    def read(self) -> list[str]:
        """`__dp_read`, the source's rows, behind what it reads."""
        return [*self._keys(), self._read()]

    def _keys(self) -> list[str]:
        """The key of each plan that counts a sample of the items: the same in all of a release."""
        return [
            f"{key_of(place)} AS MATERIALIZED (SELECT system.main.unhex({self._digits(place)}) "
            "AS key)"
            for place, plan in enumerate(self.plans)
            if plan.parameters.sample_items is not None
        ]

    def _digits(self, place: int) -> str:
        if self.key is None:
            return f"{KEY_UDF}({self.releases[place]})"
        return f"'{hashlib.sha256(f'{self.key}item/{place}'.encode()).hexdigest()}'"

    def _read(self) -> str:
        is_kept = self._first.keep_source or self._first.finding is not None
        kept = "" if self._n_readers > 1 and is_kept else "NOT "
        return f"__dp_read AS {kept}MATERIALIZED ({self.select_of_rows('*')})"

    def select_of_rows(self, listed: str) -> str:
        """The source's rows, without those that no call counts."""
        person = self._first.columns["privacy_unit"]
        columns = [f"{exact(person.sql, person.type)} AS {UNIT}"]
        columns += [f"{sql} AS {name}" for sql, name in self._columns.items()]
        rows = f"SELECT {', '.join([*columns, *keys_sql(self._first)])} FROM {self._first.source}\n"
        some = " OR ".join(f"{name} IS NOT NULL" for name in self._columns.values())
        there = " AND ".join(f"{name} IS NOT NULL" for name in (UNIT, *keys_of(self._first)))
        return f"SELECT {listed} FROM ({rows}) AS __dp_source WHERE {there} AND ({some})"

    def groups(self) -> list[str]:
        """`__dp_groups`, numbered in the order of the keys, behind how they are found."""
        is_once = self._order is Order.AGGREGATE_FIRST
        rows = "__dp_all" if is_once else "__dp_read"
        return groups_ctes(self._first, self.releases[0], rows, distinct=is_once)

    def placed_by(self, rows: str) -> str:
        """How rows, or values of people, are joined to their groups."""
        same = " AND ".join(f"{rows}.{k} = __dp_groups.{k}" for k in keys_of(self._first))
        return f"{rows} JOIN __dp_groups ON {same}"

    def _placed(self, rows: str) -> str:
        """The source's rows, or values of people, with the numbers of their groups."""
        distinct = "DISTINCT " if self._is_distinct else ""
        columns = [*(self._columns if rows == "__dp_read" else self.values).values()]
        if rows != "__dp_read":
            columns += self._counts
        return f"SELECT {distinct}{self._person}, {', '.join(columns)} FROM {self.placed_by(rows)}"

    @property
    def _counts(self) -> dict[str, str]:
        """The numbers of a person's rows with each item, by name; none where there is one item."""
        items = dict.fromkeys(self.items) if len(self._columns) > 1 else ()
        return {f"__dp_n_{item}": item for item in items}

    def _persons(self, rows: str, by: str | None = None) -> str:
        """The values of each person, in each group, that the plans need."""
        by = by or self._person
        listed = [f"{self._drawn(sql)} AS {name}" for sql, name in self.values.items()]
        listed += [f"system.main.count({item}) AS {name}" for name, item in self._counts.items()]
        return f"SELECT {by}, {', '.join(listed)} FROM {rows} GROUP BY {by}"

    @property
    def n_groups(self) -> int:
        """How many groups there are, if this is known before the release; else 0."""
        return (self._first.groups and self._first.groups.size) or 0

    def _drawn_first(self) -> list[str]:
        """The groups of each person as bits, `__dp_own`, and the values in those that are kept."""
        own = [f"{self._bits.of_rows()} AS own"]
        if not self._is_alone:
            for item in dict.fromkeys(self.items):
                some = f" FILTER (WHERE {item} IS NOT NULL)"
                own.append(f"{self._bits.of_rows(some)} AS __dp_in_{item}")
        ctes = [
            f"__dp_own AS MATERIALIZED (SELECT {UNIT}, {', '.join(own)} "
            f"FROM __dp_placed GROUP BY {UNIT})"
        ]
        for cap, end in self._draws.items():
            kept = f"SELECT {UNIT}, {self._bits.kept('own', cap)} FROM __dp_own"
            ctes.append(f"__dp_allowed{end} AS MATERIALIZED ({kept})")
            rows = (
                f"(SELECT __dp_placed.* FROM __dp_placed JOIN __dp_allowed{end} USING ({UNIT}) "
                f"WHERE {self._bits.has('kept')})"
            )
            if self._n_of_rows:
                ctes.append(f"__dp_placed{end} AS NOT MATERIALIZED {rows}")
            elif not self._counts_bits:
                ctes.append(f"__dp_persons{end} AS MATERIALIZED ({self._persons(f'{rows} AS r')})")
        return ctes

    def _numbered(self, rows: str) -> str:
        """The rows with numbers within each person's; rows with equal numbers are equal."""
        names = [*self._columns.values(), *(["__dp_group"] if self.grouped else [])]
        number = f"PARTITION BY {UNIT} ORDER BY {', '.join(names)}"
        return f"SELECT *, system.main.row_number() OVER ({number}) AS __dp_row FROM {rows}"

    def _drawn(self, value: str) -> str:
        """A person's value in which the word of each row is a hash, if there is a key.

        If not, the smaller item decides between equal words, as the order of the rows could depend
        on other people.
        """

        def of_row(call: re.Match[str]) -> str:
            word, item = call[0], call[1]
            if self.key is not None:
                return self._hash(f"row/{item}", "__dp_row")
            return f"CAST({word} AS HUGEINT) * {_WORD_UNIT} + {item}"

        return re.sub(rf"{WORD_UDF}\((\w+)\)", of_row, value)

    def _hash(self, what: str, number: str) -> str:
        """The keyed hash of a person and the number of a group or row."""
        person = as_text(UNIT, self._first.columns["privacy_unit"].type)
        text = f"{person} || '/' || CAST({number} AS VARCHAR)"
        return f"system.main.sha256('{self.key}{what}/' || {text})"

    def _allowed(self, cap: int, end: str) -> list[str]:
        """The groups in which each person counts, and the rows or people's values in them."""
        groups = f"SELECT DISTINCT {self._person} FROM __dp_placed"
        if not self._n_of_rows:
            groups = f"SELECT {self._person} FROM __dp_persons"
        using, some = self._person, ""
        if self._fits_bits:
            using, some = UNIT, f" WHERE {self._bits.has('kept')}"
            kept = self._bits.kept(self._bits.of_rows(), cap)
            drawn = f"SELECT {UNIT}, {kept} FROM __dp_persons GROUP BY {UNIT}"
            ctes = [f"__dp_allowed{end} AS ({drawn})"]
        elif self.key is not None:
            order = self._hash(f"group/{cap}", "__dp_group")
            own = f"system.main.list(__dp_group ORDER BY {order} ASC)"
            ctes = [
                f"__dp_allowed{end} AS (SELECT {UNIT}, unnest(system.main.list_slice({own}, 1, "
                f"{cap})) AS __dp_group FROM ({groups}) AS m GROUP BY {UNIT})"
            ]
        else:
            ctes = self._allowed_once(cap, end, groups)
        joined = f"JOIN __dp_allowed{end} USING ({using}){some}"
        relations = [("__dp_placed", "NOT "), ("__dp_persons", "")]
        return ctes + [
            f"{one}{end} AS {kept}MATERIALIZED (SELECT {one}.* FROM {one} {joined})"
            for (one, kept), n in zip(relations, (self._n_of_rows, self._n_of_persons), strict=True)
            if n
        ]

    def _allowed_once(self, cap: int, end: str, groups: str) -> list[str]:
        """The groups in which each person counts, drawn once in an execution.

        People are in an order of their own, so that another reading has the same draw: answers
        are places in a list of the items that are in the groups drawn.
        """
        release = self.releases[[*map(self.cap, self.plans)].index(cap)]
        order = by_value(UNIT, self._first.columns["privacy_unit"].type)
        return [
            f"__dp_members{end} AS MATERIALIZED (SELECT {UNIT}, "
            "system.main.list(__dp_group ORDER BY __dp_group ASC) AS own, "
            f"system.main.row_number() OVER (ORDER BY {order}) AS place "
            f"FROM ({groups}) AS m GROUP BY {UNIT})",
            f"__dp_counted{end} AS MATERIALIZED (SELECT {KEEP_UDF}({release}, coalesce("
            f"system.main.list(system.main.len(own) ORDER BY place ASC), {EMPTY_LIST}), "
            f"{cap}) AS counted FROM __dp_members{end})",
            f"__dp_allowed{end} AS MATERIALIZED (SELECT {UNIT}, unnest(system.main.list_select("
            "own, system.main.list_extract(counted, place))) AS __dp_group "
            f"FROM __dp_members{end}, __dp_counted{end})",
        ]
