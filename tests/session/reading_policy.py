"""The reading log under a policy."""

from pathlib import Path
from typing import Any

from dp_sql.session.analyst import AnalystSession
from tests.conftest import READING_LOG
from tests.databases import write_database

POLICY = """
tables.ratings.privacy_unit = "user_id"
tables.ratings.unique_per_person = ["kind"]
tables.loans.privacy_unit = "reader"
tables.loan_items.privacy_unit = { link = "loan", to = "loans.id" }
public.tables = ["catalog", "regions"]
views.tables = ["recent"]
domains."ratings.title" = "catalog.title"
domains."ratings.region" = "regions.name"
domains."ratings.kind" = "enum"
[limits]
max_epsilon_per_query = 10000
max_k = 50
max_contributions = 200
"""


MORE = """
CREATE TABLE loans AS SELECT i AS id, i % 7 AS reader FROM range(20) t(i);
CREATE TABLE loan_items AS SELECT i % 20 AS loan, 'copy ' || i AS copy FROM range(60) t(i);
CREATE TABLE regions AS SELECT unnest(['north', 'south', 'east']) AS name;
CREATE VIEW recent AS SELECT user_id AS reader, title FROM ratings WHERE year > 2002;
CREATE TABLE unnamed AS SELECT 'canary' AS word;
"""


def write(folder: Path, policy: str = POLICY, more: str = MORE) -> tuple[str, str]:
    """A database and its policy."""
    (folder / "policy.toml").write_text(policy, "utf-8")
    made = READING_LOG + "UPDATE ratings SET kind = 'novel' WHERE user_id = 1;" + more
    return write_database(folder / "shop.duckdb", made), str(folder / "policy.toml")


def asked(session: AnalystSession, text: str) -> list[Any]:
    found: list[Any] = session.sql(text).fetchall()
    return found
