"""The owner's part: makes a reading log, and the policy with its budget, in a folder of their own.

    python examples/dashboard/make_example.py FOLDER

The people are invented; the books are not.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import duckdb

BOOKS = """
Middlemarch; Emma; Moby-Dick; Walden; Dracula; Frankenstein; Jane Eyre; Great Expectations;
Anna Karenina; Crime and Punishment; War and Peace; The Idiot; Madame Bovary; Germinal; Candide;
Les Misérables; The Red and the Black; Don Quixote; Effi Briest; Buddenbrooks; The Trial;
Siddhartha; Hunger; A Doll's House; Kristin Lavransdatter; Ulysses; Dubliners; Kim; Lord Jim;
Heart of Darkness; The Time Machine; Treasure Island; Little Women; Leaves of Grass; My Ántonia;
The Age of Innocence; The Scarlet Letter; Mrs Dalloway; Orlando; A Room with a View; Howards End;
Swann's Way; Zeno's Conscience; The Leopard; Pan Tadeusz; The Tale of Genji; Kokoro; Gitanjali
"""
READING_LOG = """
CREATE TABLE catalog AS SELECT unnest($1::VARCHAR[]) AS title;
CREATE TABLE calendar AS
SELECT CAST(range AS DATE) AS day FROM range(DATE '2025-01-01', DATE '2026-01-01', INTERVAL 1 DAY);
CREATE TABLE people AS
SELECT i AS user_id, list_extract(['north', 'south', 'east', 'west'],
       CAST(1 + floor(4 * pow(random(), 1.4)) AS INTEGER)) AS region
FROM range(20000) AS r(i);

CREATE TABLE ratings AS  -- each region has its own favourites: it begins elsewhere on the shelf
WITH shelf AS (SELECT title, row_number() OVER (ORDER BY hash(title)) - 1 AS place FROM catalog),
     wishes AS (SELECT user_id, region, unnest(range(6)) FROM people)
SELECT user_id, region, title,
       DATE '2025-01-01' + CAST(floor(182 * (random() + random())) AS INTEGER) AS day,
       CAST(10 + 50 * -ln(random() + 1e-6) + 8 * start AS USMALLINT) AS minutes
FROM (SELECT *, hash(region) % 5 AS start,
             CAST(floor(48 * pow(random(), 1.5)) AS BIGINT) AS wanted FROM wishes)
JOIN shelf ON place = (wanted + start) % 48;

CREATE TABLE searches AS  -- a few words that many type, and a long tail
SELECT user_id, region, 'words ' || CAST(floor(100 / pow(random() + 1e-5, 0.6)) AS BIGINT) AS words
FROM (SELECT user_id, region, unnest(range(1 + user_id % 7)) FROM people);
"""
POLICY = """\
# The privacy units, the public tables, and the budget. docs/policy.md has every key.

[tables.ratings]
privacy_unit = "user_id"
unique_per_person = ["region"]

[tables.searches]
privacy_unit = "user_id"
unique_per_person = ["region"]

[public]
tables = ["catalog", "calendar"]

[domains]
"ratings.title" = "catalog.title"
"ratings.day" = "calendar.day"
"ratings.region" = ["north", "south", "east", "west"]
"searches.region" = ["north", "south", "east", "west"]

[limits]
max_epsilon_per_query = 1
max_k = 20

[budget]
dataset = "reading"
epsilon = 5               # all analysts together
keep_releases = true      # a dashboard that asks the same question again spends nothing

[budget.analysts.reporting]
epsilon = 4
"""


def make(folder: Path) -> Path:
    """Write reading.duckdb and policy.toml into a new folder; one that is there stays as it is."""
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as unfinished:
        half = Path(unfinished) / "half"
        half.mkdir()
        with duckdb.connect(str(half / "reading.duckdb")) as con:
            titles = [title.strip() for title in BOOKS.split(";")]
            for statement in READING_LOG.split(";"):
                con.execute(statement, [titles] if "$1" in statement else None)
        (half / "policy.toml").write_text(POLICY, "utf-8")
        half.rename(folder)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description="Make a reading log and its policy in a folder.")
    parser.add_argument("folder", type=Path, help="a new folder; what is there is never changed")
    folder = parser.parse_args().folder
    if folder.exists():
        parser.error(f"{folder} is there already. Name a new folder, or move it away.")
    print(f"reading.duckdb and policy.toml are in {make(folder)}")


if __name__ == "__main__":
    main()
