"""An owner's data and policy; an analyst's query, its cost and its answer."""

import tempfile
from pathlib import Path

import duckdb

import dp_sql

DATA = """
CREATE TABLE catalog AS FROM (VALUES ('Emma', 1), ('Kim', 2), ('Hunger', 3)) AS books(title, n);
CREATE TABLE ratings AS SELECT i AS user_id, title FROM range(900) AS r(i), catalog WHERE i % n = 0
"""
POLICY = """
tables.ratings.privacy_unit = "user_id"      # the person each row belongs to
public.tables = ["catalog"]                  # tables that are not about people
domains."ratings.title" = "catalog.title"    # the titles that an answer may contain
budget = { dataset = "reading", epsilon = 1, analysts.ann.epsilon = 0.6 }
"""
QUESTION = "SELECT unnest(DP_TOPK(title, 2, epsilon := 0.5)) AS most_read FROM ratings"

with tempfile.TemporaryDirectory() as folder:
    database, policy = Path(folder) / "reading.duckdb", Path(folder) / "policy.toml"
    policy.write_text(POLICY)
    with duckdb.connect(str(database)) as owner:
        owner.execute(DATA)
    with dp_sql.connect(str(database), policy=policy, analyst="ann") as session:
        print(session.explain(QUESTION))  # what it would cost; spends nothing
        session.sql(QUESTION).show()
        session.sql("FROM dp_budget()").show()
