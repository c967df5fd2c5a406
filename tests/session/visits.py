"""Visits of three people to regions, a policy on them, and how a release is read."""

from typing import Any

PEOPLE = """
CREATE TABLE visits AS SELECT * FROM (VALUES
    (1, 'north', DATE '2026-01-03'), (1, 'north', '2026-01-03'), (1, 'south', '2026-02-11'),
    (1, 'west', '2026-02-12'), (2, 'north', '2026-01-09'), (2, 'south', '2026-01-09'),
    (3, 'north', '2026-02-01'), (3, NULL, '2026-02-01'), (4, 'mars', '2026-02-02'),
    (NULL, 'south', '2026-01-01'), (5, NULL, NULL)) AS t(user_id, region, day);
CREATE TABLE regions AS SELECT unnest(['north', 'south', 'west', 'east']) AS name;
"""


TRUE = {"north": 3, "south": 2, "west": 1, "east": 0}


POLICY = """
tables.visits.privacy_unit = "user_id"
public.tables = ["regions"]
domains."visits.region" = "regions.name"
[budget]
dataset = "visits"
epsilon = 20
{more}
ledger = "{folder}/ledger.sqlite"
keep_releases = true
[budget.analysts.ann]
epsilon = 20
{delta}
"""


def rows(session: Any, text: str) -> list[Any]:
    return session.sql(text).fetchall()  # type: ignore[no-any-return]


def asked(
    more: str = "epsilon := 1.0", unit: str = ", privacy_unit := user_id", end: str = ""
) -> str:
    groups = ", groups := regions.name" if unit else ""
    return (
        f"SELECT region, DP_COUNT_DISTINCT(user_id, {more}{unit}{groups}) AS people FROM visits "
        f"GROUP BY region{end}"
    )
