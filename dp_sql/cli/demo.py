"""`dp-sql demo`: an owner's policy; an analyst's question, cost, answer, refusal and budget."""

import tempfile
from pathlib import Path

import click

import dp_sql

_HELP = """\
Show an owner's policy, and an analyst's question: its cost, its answer, a refusal, the budget.

DuckDB makes up the data: people who read much or little, books with many or few readers, four
regions. It is written to a temporary folder and removed; nothing is downloaded.

\b
Example:
  dp-sql demo
"""

READING_LOG = """
CREATE TABLE catalog (title VARCHAR PRIMARY KEY, genre VARCHAR);
INSERT INTO catalog
SELECT 'The ' || a.word || ' ' || b.word AS title, list_extract(['novel', 'essay', 'poems'],
       CAST(1 + (row_number() OVER ()) % 3 AS INTEGER)) AS genre
FROM (SELECT unnest(['Quiet', 'Last', 'Glass', 'Hidden', 'Salt', 'Distant', 'Paper', 'Second',
      'Winter', 'Golden', 'Broken', 'Silent', 'Crooked', 'Burning', 'Hollow', 'Wandering', 'Small',
      'Northern', 'Forgotten', 'Iron', 'Borrowed', 'Endless', 'Open', 'Early', 'Painted'])
      AS word) AS a
CROSS JOIN (SELECT unnest(['Garden', 'River', 'Letter', 'Orchard', 'Lighthouse', 'Map', 'Harbour',
      'Clock', 'Mountain', 'Mirror', 'Island', 'Bridge', 'Forest', 'Kitchen', 'Library', 'Season',
      'Train', 'Window', 'Song', 'Stranger', 'Road', 'Archive', 'Sea', 'Village', 'Key', 'Machine',
      'Summer', 'Painter', 'House', 'Night', 'Door', 'Bird', 'Winter', 'Field', 'Coast', 'Tower',
      'Market', 'Story', 'Lamp', 'Well']) AS word) AS b;

CREATE TABLE people AS
SELECT i AS user_id, list_extract(['north', 'south', 'east', 'west'],
       CAST(1 + floor(4 * pow(random(), 1.6)) AS INTEGER)) AS region,
       CAST(1 + floor(12 / pow(random() + 0.02, 0.7)) AS INTEGER) AS appetite
FROM range(20000) AS r(i);

CREATE TABLE ratings AS
WITH shelf AS (SELECT title, row_number() OVER (ORDER BY hash(title)) - 1 AS place FROM catalog)
SELECT reader.user_id, shelf.title, reader.region,
       DATE '2025-01-01' + CAST(floor(random() * 600) AS INTEGER) AS read_on
FROM (SELECT user_id, region, CAST(floor(1000 * pow(random(), 3.2)) AS BIGINT) AS wanted
      FROM (SELECT user_id, region, unnest(range(appetite)) FROM people)) AS reader
JOIN shelf ON shelf.place = reader.wanted;
"""

POLICY = """tables.ratings.privacy_unit = "user_id"      # the person each row belongs to
public.tables = ["catalog"]                  # tables that are not about people
domains."ratings.title" = "catalog.title"    # the titles that an answer may contain
budget = { dataset = "reading", epsilon = 1 }
"""
QUESTION = """SELECT unnest(DP_TOPK(title, 5, epsilon := 0.6)) AS title
FROM ratings WHERE region = 'north'"""
WITHOUT_PRIVACY = """SELECT title, count(DISTINCT user_id) AS people
FROM ratings WHERE region = 'north' GROUP BY title ORDER BY people DESC LIMIT 5"""


def step(heading: str) -> None:
    """Begin one step."""
    print(f"\n── {heading} " + "─" * max(0, 76 - len(heading)))


def as_owner(database: str) -> None:
    """What the owner has, and what analysts may not see."""
    with dp_sql.connect(database) as owner:
        owner.execute(READING_LOG)
        step("The owner's table, and what only the owner may ask")
        owner.sql("SELECT count(*) AS rows, count(DISTINCT user_id) AS people FROM ratings").show()
        print(WITHOUT_PRIVACY)
        owner.sql(WITHOUT_PRIVACY).show()


def as_analyst(database: str, policy: Path) -> None:
    """What an analyst sees: a cost, an answer, a refusal and the budget."""
    with dp_sql.connect(database, policy=policy, analyst="ann") as analyst:
        step("What an analyst's question would cost; EXPLAIN itself costs nothing")
        print(f"EXPLAIN {QUESTION}")
        analyst.sql(f"EXPLAIN {QUESTION}").show(max_width=80)
        step("Its answer")
        analyst.sql(QUESTION).show()
        step("A second question costs more than is left")
        try:
            analyst.sql("SELECT DP_COUNT_DISTINCT(title, epsilon := 0.6) AS titles FROM ratings")
        except dp_sql.QueryError as refusal:
            print(refusal)
            step("The answer to the statement that the error proposes")
            analyst.sql(refusal.suggestion).show()
        step("The budget: FROM dp_budget()")
        analyst.sql("FROM dp_budget()").show(max_width=80)


@click.command("demo", help=_HELP)
def command() -> None:
    """Run all steps in a folder that is removed."""
    with tempfile.TemporaryDirectory() as folder:
        database, policy = str(Path(folder) / "reading.duckdb"), Path(folder) / "policy.toml"
        as_owner(database)
        step("The policy")
        print(POLICY, end="")
        policy.write_text(POLICY, encoding="utf-8")
        as_analyst(database, policy)
    print("\nTo go on: dp-sql --help, and docs/tutorials in a checkout.")
