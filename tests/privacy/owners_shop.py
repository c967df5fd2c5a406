"""Tables that an owner joins, and what a receipt says of each."""

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from dp_sql.privacy.relations.declared_tables import DeclaredTables
from dp_sql.privacy.relations.rows import Rows
from dp_sql.sql.sqlglot_tree import Node
from tests.conftest import SURE

SHOP = """
CREATE TABLE books AS SELECT DISTINCT title, CASE title WHEN 'Dune' THEN 'space' ELSE 'earth' END
    AS genre, 1900 + length(title) AS year FROM catalog WHERE title IS NOT NULL;
CREATE TABLE shelves (genre VARCHAR, floor INTEGER);
INSERT INTO shelves VALUES ('space', 1), ('space', 2), ('earth', 3), ('earth', 3), ('sea', 4);
CREATE TABLE clubs AS SELECT i % 40 AS user_id, 'club ' || i % 3 AS club, i % 5 AS n,
    2000 + i % 7 AS year, 'page of ' || i % 40 AS page FROM range(80) t(i);
CREATE TABLE loans AS SELECT 'lent ' || i % 9 AS lent, (i % 40)::BIGINT AS reader, i % 7 AS n
    FROM range(80) t(i);
CREATE TABLE readers AS SELECT i::UINTEGER AS user_id, 'city ' || i % 3 AS city FROM range(40) t(i);
CREATE TABLE gifts AS SELECT (i % 30)::BIGINT AS giver, 'Dune' AS title FROM range(30) t(i);
ALTER TABLE ratings ADD COLUMN day DATE;
UPDATE ratings SET day = DATE '2024-01-01' + CAST(year - 2000 + coalesce(user_id, 0) AS INTEGER);
CREATE VIEW shelved AS SELECT r.user_id, s.floor FROM ratings r JOIN books b USING (title)
    JOIN shelves s USING (genre);
CREATE VIEW counted AS SELECT user_id, count(*) AS n FROM ratings GROUP BY user_id;
CREATE VIEW busy AS SELECT user_id, n FROM counted WHERE n > 3;
CREATE VIEW gossip AS SELECT r.user_id, c.club FROM ratings r JOIN clubs c ON r.title = c.club;
"""


RATINGS = "each row of ratings belongs to the person in user_id"


CLUBS = "each row of clubs belongs to the person in user_id"


READERS = "each row of readers belongs to the person in user_id"
LOANS = "each row of loans belongs to the person in reader"


BOOKS = "each row of books is public, or belongs to the person it is joined to"


SHELVES = "each row of shelves is public, or belongs to the person it is joined to"


right_rows = DeclaredTables.rows


def count(item: str, unit: str = "user_id", more: str = "") -> str:
    return f"DP_COUNT_DISTINCT({item}, {SURE}, privacy_unit := {unit}{more})"


def forgetful(self: DeclaredTables, node: Node, parts: Sequence[str]) -> Rows | None:
    """A planted fault: clubs counts as public."""
    unit = "" if parts[-1] == "clubs" else self.unit
    return right_rows(replace(self, unit=unit), node, parts)


def forgetful_later(self: DeclaredTables, node: Node, parts: Sequence[str]) -> Rows | None:
    """A planted fault: in a join, loans counts as public, whatever a UNION ALL said of it."""
    unit = "" if parts[-1] == "loans" and node.find_ancestor(exp.Join) else self.unit
    return right_rows(replace(self, unit=unit), node, parts)
