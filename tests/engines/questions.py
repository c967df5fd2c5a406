"""Questions over the shop's tables, and the answers, counted in Python over the rows put there."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from dp_sql.engines.protocol import PartedQuestion
from dp_sql.privacy.relations.person_of import PersonOf
from tests.engines.shop import ROWS, Rows

Columns = Sequence[tuple[str, str]]

# --- questions ---


def of(table: str, column: str, key: str | None = None, owner: PersonOf | None = None) -> PersonOf:
    return PersonOf(("shop", "main", table), column, key, owner)


RATINGS, ORDERS = of("ratings", "user_id"), of("orders", "buyer")
ITEMS = of("items", "order_id", "order_id", ORDERS)
NOTES = of("notes", "item_id", "item_id", ITEMS)
ITEM, N, PERSON = ("__dp_item", "VARCHAR"), ("n", "BIGINT"), ("__dp_person", "BIGINT")
SUM = "SELECT __dp_item, CAST(sum(n) AS BIGINT) AS n FROM __dp_parts GROUP BY __dp_item"

PEOPLE_OF_TITLES = PartedQuestion(
    "SELECT title AS __dp_item, count(DISTINCT user_id) AS n FROM shop.main.ratings "
    "WHERE title IS NOT NULL AND user_id IS NOT NULL GROUP BY title",
    ["__dp_item"], SUM, [ITEM, N], [RATINGS],
)  # fmt: skip
ROWS_OF_PEOPLE = PartedQuestion(
    "SELECT rows, count(*) AS n FROM (SELECT count(title) AS rows FROM shop.main.ratings "
    "WHERE user_id IS NOT NULL GROUP BY user_id) GROUP BY rows",
    ["rows"], "SELECT rows, CAST(sum(n) AS BIGINT) AS n FROM __dp_parts GROUP BY rows",
    [("rows", "BIGINT"), N], [RATINGS],
)  # fmt: skip
TOTAL = PartedQuestion(
    "SELECT sum(CAST(cost AS HUGEINT)) AS total, count(*) AS n FROM shop.main.orders "
    "WHERE buyer IS NOT NULL", [],
    "SELECT CAST(sum(total) AS HUGEINT) AS total, CAST(sum(n) AS BIGINT) AS n FROM __dp_parts",
    [("total", "HUGEINT"), N], [ORDERS],
)  # fmt: skip
BOUGHT = "shop.main.items AS i JOIN shop.main.orders AS o ON i.order_id = o.order_id"
BUYERS_OF_TITLES = PartedQuestion(
    f"SELECT i.title AS __dp_item, count(o.buyer) AS n FROM {BOUGHT} "
    "WHERE i.title IS NOT NULL AND o.buyer IS NOT NULL GROUP BY i.title",
    ["__dp_item"], SUM, [ITEM, N], [ITEMS, ORDERS],
)  # fmt: skip
BUYERS_OF_WORDS = PartedQuestion(
    f"SELECT m.word AS __dp_item, count(o.buyer) AS n FROM {BOUGHT} JOIN shop.main.notes AS m ON "
    "m.item_id = i.item_id WHERE m.word IS NOT NULL AND o.buyer IS NOT NULL GROUP BY m.word",
    ["__dp_item"], SUM, [ITEM, N], [NOTES, ITEMS, ORDERS],
)  # fmt: skip
PARTS_OF_PEOPLE = PartedQuestion(
    "SELECT user_id AS person, __dp_part() AS part FROM shop.main.ratings WHERE user_id IS NOT "
    "NULL UNION SELECT buyer, __dp_part() FROM shop.main.orders WHERE buyer IS NOT NULL "
    f"UNION SELECT o.buyer, __dp_part() FROM {BOUGHT} WHERE o.buyer IS NOT NULL",
    ["person", "part"], "SELECT DISTINCT person, CAST(part AS BIGINT) AS part FROM __dp_parts",
    [("person", "VARCHAR"), ("part", "BIGINT")], [RATINGS, ITEMS, ORDERS],
)  # fmt: skip


def pairs(select: str, keys: Columns, tables: Sequence[PersonOf], *shown: str) -> PartedQuestion:
    """A question for pairs; `select` has the keys and `person`."""
    names = [name for name, _ in keys]
    listed = ", ".join(names)
    return PartedQuestion(
        f"WITH p AS ({select}), c AS (SELECT person, row_number() OVER (ORDER BY person) - 1 AS "
        "__dp_person FROM (SELECT DISTINCT person FROM p WHERE person IS NOT NULL)) "
        f"SELECT DISTINCT {listed}, __dp_person FROM p JOIN c USING (person)",
        names, "SELECT * FROM __dp_parts", [*keys, PERSON], tables, {}, shown,
    )  # fmt: skip


TITLES = pairs(
    "SELECT title AS __dp_item, user_id AS person FROM shop.main.ratings WHERE title IS NOT NULL",
    [ITEM], [RATINGS], "__dp_item",
)  # fmt: skip
TITLES_BOUGHT = pairs(
    f"SELECT i.title AS __dp_item, o.buyer AS person FROM {BOUGHT} WHERE i.title IS NOT NULL",
    [ITEM], [ITEMS, ORDERS], "__dp_item",
)  # fmt: skip

# --- what the tables hold ---


def without_null(table: str, *places: int) -> Rows:
    listed = [tuple(row[place] for place in places) for row in ROWS[table]]
    return [row for row in listed if None not in row]


def people_of(rows: Rows) -> Mapping[Any, set[Any]]:
    """The people, who are last, of each item."""
    found = defaultdict[Any, set[Any]](set)
    for item, person in rows:
        found[item].add(person)
    return found


READERS = people_of(without_null("ratings", 1, 0))
BUYS = [
    (item, title, buyer)
    for (order, item, title), (own, buyer) in product(ROWS["items"], without_null("orders", 0, 1))
    if order == own
]
BUYERS = people_of([(title, buyer) for _, title, buyer in BUYS])
NOTED = [
    word for (item, word), (own, *_) in product(without_null("notes", 0, 1), BUYS) if item == own
]
