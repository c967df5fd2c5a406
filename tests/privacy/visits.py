"""Visits with columns of many types, under a policy with domains."""

from pathlib import Path
from typing import Any

from dp_sql.session.analyst import AnalystSession
from tests.conftest import SURE
from tests.databases import write_database

# What an owner must not do under a policy without a word: an ENUM made from people's values.
SHOP = """
CREATE TABLE visits AS
    SELECT i % 40 AS person, i % 3 AS page, 'b' || i % 3 AS title, DATE '2024-01-01' + (i % 3)::INT AS day,
           TIMESTAMP '2024-01-01' + INTERVAL (i % 3) DAY AS seen, (i % 3 / 2)::DECIMAL(6, 2) AS price,
           ['canary-a', 'canary-b'][1 + i % 2] AS word, i % 2 = 0 AS flag
    FROM range(120) AS r(i);
CREATE TYPE canary_type AS ENUM (SELECT DISTINCT word FROM visits);
ALTER TABLE visits ADD COLUMN mood canary_type;
ALTER TABLE visits ADD COLUMN tags STRUCT(m canary_type, l canary_type[]);
UPDATE visits SET mood = word, tags = {'m': word, 'l': [word]};
CREATE TABLE other AS SELECT person, mood FROM visits;
CREATE TABLE products AS SELECT i::BIGINT AS product_id, 'b' || i AS title, DATE '2024-01-01' + i::INT AS day,
           'n' || i AS note, i + 0.5 AS half, i::DOUBLE AS rough
    FROM range(3) AS r(i);
CREATE TYPE size AS ENUM ('small', 'large');
CREATE TABLE sizes AS SELECT 'small'::size AS size, 'canary-a' AS word;
CREATE VIEW moods AS SELECT person, mood, tags FROM visits;
"""


POLICY = """
tables.visits.privacy_unit = "person"
tables.other.privacy_unit = "person"
public.tables = ["products", "sizes"]
views.tables = ["moods"]
domains."visits.title" = "products.title"
domains."visits.word" = "observed"
domains."visits.page" = [0, 1, 2]
[limits]
max_epsilon_per_query = 10000
[budget]
dataset = "shop"
epsilon = 1000000
"""


WITH_LABELS = POLICY.replace("[limits]", 'domains."visits.mood" = "enum"\n[limits]')


def written(folder: Path, policy: str = POLICY) -> tuple[str, str]:
    """The database and its policy."""
    database, file = folder / "shop.duckdb", folder / "policy.toml"
    file.write_text(policy, "utf-8")
    return write_database(database, SHOP), str(file)


def top(item: str, domain: str, k: int = 1) -> str:
    return f"SELECT DP_TOPK({item}, {k}, {SURE}, domain := {domain}) AS best FROM visits"


def spent(session: AnalystSession) -> Any:
    return session.budget()[0].epsilon_spent
