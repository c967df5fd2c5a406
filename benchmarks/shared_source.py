"""Several DP calls in one SELECT against the same SELECT without privacy."""

import time
from collections.abc import Sequence

import dp_sql

N_ROWS = 10_000_000
_CALLS = {
    "count(DISTINCT user_id)": "DP_COUNT_DISTINCT(user_id, {})",
    "count(*)": "DP_COUNT(*, {})",
    "avg(minutes)": "DP_AVG(minutes, {})",
    "median(minutes)": "DP_MEDIAN(minutes, {}, lower := 0, upper := 600)",
}
_CAPPED = ", groups := regions.name, max_groups_contributed := 3"
_FOUND = ", delta := 1e-6"
_CASES = [  # GROUP BY, which of the calls, what they say of groups
    ("", slice(1), ""),
    ("", slice(4), ""),
    ("", slice(3, 4), ""),
    ("region", slice(1), _CAPPED),
    ("region", slice(3), _CAPPED),
    ("region", slice(4), _CAPPED),
    ("region", slice(1, 4), _CAPPED),
    ("region", slice(1), _FOUND),
    ("region", slice(4), _FOUND),
]


def shared_source() -> list[str]:
    """CPU seconds, because both sides use all cores: one call, some, and all of them."""
    lines = [
        "## Several calls in one SELECT",
        "",
        f"{N_ROWS:,} rows of 200,000 people, who are all in each of 12 regions; CPU seconds, the "
        "least of three runs. Goal: at most 2 × for all calls together. Beside count(DISTINCT user_id), "
        "both sides group rows by person; without it, only the private one must.",
        "",
        "| GROUP BY | calls | private | without | ratio |",
        "|---|---|---|---|---|",
    ]
    with dp_sql.connect() as session:
        session.execute(
            "CREATE TABLE views AS SELECT hash(i) % 200000 AS user_id, "
            "'region ' || (hash(i * 7 + 1) % 12) AS region, "
            f"CAST(hash(i * 31 + 3) % 600 AS INTEGER) AS minutes FROM range({N_ROWS}) r(i)"
        )
        session.execute("CREATE TABLE regions AS SELECT 'region ' || i AS name FROM range(12) r(i)")
        lines += [_compared(session, [*_CALLS][n], by, groups) for by, n, groups in _CASES]
    return lines


def _compared(session: dp_sql.Session, plain: Sequence[str], grouped: str, groups: str) -> str:
    given = f"epsilon := 1, privacy_unit := user_id{groups}"
    private = [_CALLS[sql].format(given) for sql in plain]
    ours, theirs = (
        _cpu(session, ", ".join([*([grouped] if grouped else []), *listed]), grouped)
        for listed in (private, plain)
    )
    by = f"{grouped}, unknown" if "delta" in groups else grouped or "none"
    listed = ", ".join(plain)
    return f"| {by} | {listed} | {ours:.2f} | {theirs:.2f} | {ours / theirs:.1f} |"


def _cpu(session: dp_sql.Session, listed: str, grouped: str) -> float:
    by = f" GROUP BY {grouped}" if grouped else ""
    found = []
    for _ in range(3):
        start = time.process_time()
        session.sql(f"SELECT {listed} FROM views{by}").fetchall()
        found.append(time.process_time() - start)
    return min(found)
