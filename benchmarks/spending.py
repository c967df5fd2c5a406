"""What the budget costs: a debit, a refreshed dashboard, and a ledger that is old."""

import tempfile
import time
from fractions import Fraction
from pathlib import Path

import duckdb

import dp_sql
from benchmarks.measure import median, paired
from dp_sql.budget.amounts import amount_of
from dp_sql.budget.ledger import Ledger
from dp_sql.udfs.mechanism import PrivacyLoss

N_EVENTS = 1_000_000
_AMOUNT = amount_of(PrivacyLoss(Fraction(1, 1000)))
_POLICY = '[tables.seen]\nprivacy_unit = "user_id"\n'
_BUDGET = "[budget]\ndataset = 'seen'\nepsilon = 100000\n"
_COUNT = "SELECT DP_COUNT_DISTINCT(item, epsilon := 0.1) FROM seen"


def budget() -> list[str]:
    """The section of RESULTS.md."""
    cache = Path(".cache")  # on the project's disk: what a system calls temporary may be memory
    cache.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        return [
            "## The budget",
            "",
            "Goals: reserving a loss takes under 2 ms; a ledger of 10^6 events opens in under a second.",
            "",
            "| what | ms |",
            "|---|---|",
            *_debit(Path(folder)),
            *_old_ledger(Path(folder)),
            *_sessions(Path(folder)),
        ]


def _debit(folder: Path) -> list[str]:
    with Ledger(folder / "new", folder / "new.witness", "seen") as ledger:

        def reserve() -> str:
            return ledger.reserve("ann", [_AMOUNT], lambda of_all, own: None)[0]

        waiting: list[str] = []
        reserving = median(lambda: waiting.append(reserve()), rounds=101)
        settling = median(lambda: ledger.settle({waiting.pop(): "answered"}), rounds=101)
    return [
        f"| reserve a loss, on disk in the ledger and its checkpoint | {reserving:.2f} |",
        f"| settle it | {settling:.2f} |",
    ]


def _old_ledger(folder: Path) -> list[str]:
    path, checkpoint = folder / "old", folder / "old.witness"
    with Ledger(path, checkpoint, "seen") as ledger:
        for first in range(0, N_EVENTS, 1000):
            name = f"analyst {first // 1000 % 10}"
            ledger.reserve(name, [_AMOUNT] * 1000, lambda of_all, own: None)

    def opened() -> None:
        with Ledger(path, checkpoint, "seen") as ledger:
            assert ledger.spent().n == N_EVENTS

    opening = median(opened, rounds=5)
    with Ledger(path, checkpoint, "seen") as ledger:
        reserving = median(
            lambda: ledger.reserve("ann", [_AMOUNT], lambda of_all, own: None), rounds=51
        )
    return [
        f"| open a ledger of {N_EVENTS:,} events and compute its totals | {opening:.0f} |",
        f"| reserve a loss in it | {reserving:.2f} |",
    ]


def _sessions(folder: Path) -> list[str]:
    database = str(folder / "seen.duckdb")
    with duckdb.connect(database) as con:
        con.execute(
            "CREATE TABLE seen AS SELECT i % 900 AS user_id, i % 77 AS item FROM range(9000) t(i)"
        )
    policies = {}
    for name, more in (("no", ""), ("yes", _BUDGET), ("keep", _BUDGET + "keep_releases = true\n")):
        policies[name] = folder / f"{name}.toml"
        policies[name].write_text(_POLICY + more.replace("'seen'", f"'{name}'"), "utf-8")
    with (
        dp_sql.connect(database, policy=policies["no"]) as without,
        dp_sql.connect(database, policy=policies["yes"]) as paying,
        dp_sql.connect(database, policy=policies["keep"]) as keeping,
    ):
        found = paired(
            lambda: paying.sql(_COUNT).fetchall(), lambda: without.sql(_COUNT).fetchall(), 51
        )
        again = median(lambda: keeping.sql(_COUNT).fetchall(), rounds=51)
    return [
        f"| a count over 9,000 rows under a policy without a budget | {found.theirs:.2f} |",
        f"| the same with a budget ({found.ratio:.2f} ×) | {found.ours:.2f} |",
        f"| the same again, from a stored release | {again:.2f} |",
    ]


if __name__ == "__main__":
    started = time.monotonic()
    print("\n".join(budget()), f"\n({time.monotonic() - started:.0f} s)")
