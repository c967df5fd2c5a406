"""Run two queries on a reading log through each interface of dp_sql, with and without privacy.

Run it with `make demo`. DuckDB makes up the data: people who read much or little, books with many
or few readers, four regions. Nothing is downloaded.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import duckdb

import dp_sql

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

QUESTIONS = {
    """SELECT unnest(DP_TOPK(title, 5, epsilon := 1.0, privacy_unit := user_id,
                      domain := catalog.title)) AS title
FROM ratings WHERE region = 'north'""": """SELECT title FROM ratings WHERE region = 'north'
GROUP BY title ORDER BY count(DISTINCT user_id) DESC, title LIMIT 5""",
    """SELECT DP_COUNT_DISTINCT(title, epsilon := 1.0, privacy_unit := user_id,
                         report := true) AS titles
FROM ratings WHERE region = 'west'""": """SELECT count(DISTINCT title) AS titles
FROM ratings WHERE region = 'west'""",
}  # fmt: skip

Answer = tuple[list[str], str]
Ask = Callable[[str], Answer]
Plain = Callable[[str], list[Any]]


@contextmanager
def session_interface(path: Path) -> Iterator[tuple[Ask, Plain]]:
    with dp_sql.connect(str(path)) as session:

        def ask(question: str) -> Answer:
            rows = session.sql(question).fetchall()
            return [shown(row[0]) for row in rows], str(session.receipts[-1])

        yield ask, lambda question: session.sql(question).fetchall()


@contextmanager
def macro_interface(path: Path) -> Iterator[tuple[Ask, Plain]]:
    with dp_sql.install(duckdb.connect(str(path))) as con:

        def ask(question: str) -> Answer:
            rows = con.sql(f"FROM dp($$ {question} $$)").fetchall()
            return [shown(row[0]) for row in rows], str(dp_sql.receipts(con)[-1])

        yield ask, lambda question: con.sql(question).fetchall()


@contextmanager
def command_interface(path: Path) -> Iterator[tuple[Ask, Plain]]:
    def run(question: str) -> subprocess.CompletedProcess[str]:
        options = [str(path), "--json", "--receipts", "-c", question]
        command = [sys.executable, "-m", "dp_sql", *options]
        return subprocess.run(command, check=True, capture_output=True, text=True)

    def ask(question: str) -> Answer:
        done = run(question)
        rows = [next(iter(row.values())) for row in json.loads(done.stdout)]
        return [shown(value) for value in rows], done.stderr.rstrip()

    def plain(question: str) -> list[Any]:
        return [tuple(row.values()) for row in json.loads(run(question).stdout)]

    yield ask, plain


INTERFACES = {
    "Python: session = dp_sql.connect(path); session.sql(…)": (session_interface, "{}"),
    "Plain DuckDB: dp_sql.install(con); con.sql(…)": (macro_interface, "FROM dp($$ {} $$)"),
    "Command line, a process for each": (command_interface, 'dp-sql reading.duckdb -c "{}"'),
}


def shown(value: Any) -> str:
    if isinstance(value, dict):
        return "\n".join(f"{name} {number}" for name, number in value.items())
    return str(value)


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    return run(), 1000 * (time.perf_counter() - start)


def heading(text: str) -> None:
    print(f"\n── {text} " + "─" * max(0, 94 - len(text)))


def side_by_side(ask: Ask, plain: Plain, form: str) -> None:
    for question, open_question in QUESTIONS.items():
        print("\n" + form.format(question))
        (ours, receipt), spent = timed(partial(ask, question))
        theirs, open_spent = timed(partial(plain, open_question))
        print(f"\n  {'private answer':34} without privacy (owner only)")
        left = [line for value in ours for line in value.split("\n")]
        for mine, other in zip_longest(left, [str(row[0]) for row in theirs], fillvalue=""):
            print(f"  {mine:34} {other}")
        print(f"  {f'{spent:.0f} ms':34} {open_spent:.0f} ms\n\n{receipt}")


@contextmanager
def reading_log() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "reading.duckdb"
        with dp_sql.connect(str(path)) as session:
            session.execute(READING_LOG)
            session.sql(
                "SELECT count(*) AS rows, count(DISTINCT user_id) AS people, "
                "count(DISTINCT title) AS titles FROM ratings"
            ).show()
        yield path


def main() -> None:
    heading("A reading log, made by DuckDB")
    with reading_log() as path:
        for name, (interface, form) in INTERFACES.items():
            heading(name)
            with interface(path) as (ask, plain):
                side_by_side(ask, plain, form)
        heading("Refusals")
        with dp_sql.connect(str(path)) as session:
            for text in (
                "SELECT DP_TOPK(title, 5, epsilon := 1.0, privacy_unit := user_id) FROM ratings",
                "SELECT DP_COUNT_DISTINCT(title, epsilon := 1.0, privacy_unit := user_id)\n"
                "FROM (SELECT * FROM ratings LIMIT 100)",
            ):
                try:
                    session.sql(text)
                except dp_sql.QueryError as error:
                    print(f"{type(error).__name__}: {error}\n")


if __name__ == "__main__":
    main()
