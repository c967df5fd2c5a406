"""`sample_items` of DP_COUNT_DISTINCT: which rows are counted, whose key it is, and what is said."""

import hashlib
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dp_sql
from dp_sql.engines.duckdb import mechanism_udfs
from dp_sql.errors import ArgumentError, QueryError
from dp_sql.privacy.private_sql import items
from dp_sql.sql.functions.count_distinct import CountDistinct
from dp_sql.udfs.count_distinct import item_sample
from dp_sql.udfs.count_distinct.item_sample import threshold
from dp_sql.udfs.exact_sampling import Draws, secret_draws
from tests.databases import owner_of
from tests.session.runs import noted_runs

COLUMNS = {
    "word": "VARCHAR", "raw": "BLOB", "n": "BIGINT", "big": "HUGEINT", "price": "DECIMAL(9,2)",
    "day": "DATE", "moment": "TIMESTAMP", "zoned": "TIMESTAMP WITH TIME ZONE", "clock": "TIME",
    "id": "UUID", "flag": "BOOLEAN", "kind": "ENUM('a', 'b', 'c''d')",
}  # fmt: skip
HASHED = ("day", "moment", "zoned", "clock")
ROWS = """
CREATE TABLE seen AS SELECT
    CAST(i % 40 AS INTEGER) AS user_id, 'word ' || (i % 300) || chr(0) || 'é' AS word,
    encode('raw ' || (i % 200)) AS raw, CAST(i % 100 - 50 AS BIGINT) AS n,
    CAST(i % 150 AS HUGEINT) * 100000000000000000000000000 AS big, CAST(i % 90 / 4 AS DECIMAL(9,2)) AS price,
    DATE '2000-01-01' + CAST(i % 120 AS INTEGER) AS day, make_timestamp(i % 130 * 1000000007) AS moment,
    CAST(make_timestamp(i % 110 * 1000000007) AS TIMESTAMP WITH TIME ZONE) AS zoned,
    TIME '00:00:00' + to_seconds(i % 140) AS clock, CAST(md5(CAST(i % 160 AS VARCHAR)) AS UUID) AS id,
    i % 2 = 0 AS flag, CAST(['a', 'b', 'c''d'][1 + i % 3] AS ENUM('a', 'b', 'c''d')) AS kind,
    CAST(i % 3 AS INTEGER) AS part
FROM range(600) t(i);
INSERT INTO seen BY NAME SELECT NULL AS user_id, 'nobody''s' AS word, 0 AS part;
INSERT INTO seen BY NAME SELECT 1 AS user_id, 0 AS part;
CREATE TABLE shared AS SELECT i % 50 AS user_id, i // 50 AS item FROM range(5000) t(i);
"""
SURE = "epsilon := 10000, privacy_unit := user_id, contribution_bound := 200"


owner = owner_of(ROWS)


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The keys that are drawn, in the order in which they are."""
    found: list[int] = []

    class Noted(Draws):
        def below(self, n: int) -> int:
            found.append(super().below(n))
            return found[-1]

    monkeypatch.setattr(mechanism_udfs, "secret_draws", lambda: Noted(secret_draws()._bits))
    return found


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """How many people have each item that the mechanism gets, in the order of its runs."""

    def note(offsets: Any, people: Any, **_: Any) -> list[int]:
        return sorted(len({*people[a:b].tolist()}) for a, b in pairwise(offsets))

    return noted_runs(monkeypatch, CountDistinct, note)


def is_kept(key: int, item: bytes, rate: str) -> bool:
    """The definition in item_sample.md."""
    digest = hashlib.sha256(key.to_bytes(32, "big") + item).digest()
    return int.from_bytes(digest[:8], "big") < threshold(Fraction(rate))


def expected(owner: dp_sql.Session, column: str, key: int, rate: str, where: str = "true") -> Any:
    """How many people have each item that is kept."""
    written = f"hash({column})" if column in HASHED else column
    found = owner.sql(
        f"SELECT {'raw' if column == 'raw' else f'CAST({written} AS VARCHAR)'}, "
        f"count(DISTINCT user_id) FROM seen WHERE {column} IS NOT NULL AND user_id IS NOT NULL "
        f"AND {where} GROUP BY 1"
    ).fetchall()
    return sorted(
        n for item, n in found if is_kept(key, item if column == "raw" else item.encode(), rate)
    )


def asked(owner: dp_sql.Session, call: str, rest: str = "") -> Any:
    return owner.sql(f"SELECT {call} FROM seen {rest}").fetchall()


# Which rows are counted.


@pytest.mark.one_in(4)
@pytest.mark.parametrize("rate", ["0.5", "0.03"])
@pytest.mark.parametrize("column", COLUMNS)
def test_items_are_kept_by_the_hash_of_their_bytes(
    owner: dp_sql.Session, keys: list[int], graphs: list[list[int]], column: str, rate: str
) -> None:
    ((value,),) = asked(owner, f"DP_COUNT_DISTINCT({column}, {SURE}, sample_items := {rate})")
    (key,) = keys
    assert graphs == [expected(owner, column, key, rate)]
    assert value == round(Fraction(len(graphs[0]) << 64, threshold(Fraction(rate))))


def check_hashing(owner: dp_sql.Session, keys: list[int], graphs: list[list[int]]) -> None:
    keys.clear()
    graphs.clear()
    for _ in range(4):
        asked(owner, f"DP_COUNT_DISTINCT(word, {SURE}, sample_items := 0.5)")
    assert graphs == [expected(owner, "word", key, "0.5") for key in keys]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "wrong",
    [
        lambda item, kind: f"system.main.encode({item} || __dp_person)",  # pairs, not items
        lambda item, kind: f"system.main.encode(lower({item}) || 'x')",
    ],
)
def test_other_hashes_are_rejected(
    owner: dp_sql.Session, keys: list[int], graphs: list[list[int]],
    monkeypatch: pytest.MonkeyPatch, wrong: Callable[[str, str], str],
) -> None:  # fmt: skip
    check_hashing(owner, keys, graphs)
    monkeypatch.setattr(items, "as_bytes", wrong)
    with pytest.raises(AssertionError):
        check_hashing(owner, keys, graphs)


def test_another_threshold_is_rejected(
    owner: dp_sql.Session, keys: list[int], graphs: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(item_sample, "threshold", lambda rate: threshold(rate * Fraction(9, 10)))
    with pytest.raises(AssertionError):
        check_hashing(owner, keys, graphs)


def test_one_key_serves_all_groups_of_a_release(
    owner: dp_sql.Session, keys: list[int], graphs: list[list[int]]
) -> None:
    call = f"DP_COUNT_DISTINCT(word, {SURE}, sample_items := 0.5, groups := [0, 1, 2], max_groups_contributed := 3)"
    asked(owner, f"part, {call}", "GROUP BY part")
    (key,) = keys[-1:]
    assert graphs == [expected(owner, "word", key, "0.5", f"part = {part}") for part in range(3)]


def test_calls_of_one_select_have_keys_of_their_own(
    owner: dp_sql.Session, keys: list[int], graphs: list[list[int]]
) -> None:
    half = f"DP_COUNT_DISTINCT(word, {SURE}, sample_items := 0.5)"
    ((one, other, every, days),) = asked(
        owner,
        f"{half}, {half.replace('0.5', '0.50')}, DP_COUNT_DISTINCT(word, {SURE}), "
        f"DP_COUNT_DISTINCT(day, {SURE}, sample_items := 0.25)",
    )
    assert len(set(keys)) == len(keys) == 3

    def of(first: int, second: int, third: int) -> list[list[int]]:
        samples = [("word", first, "0.5"), ("word", second, "0.5"), ("day", third, "0.25")]
        whole = expected(owner, "word", 0, "0.999999999999")
        return sorted([whole, *(expected(owner, *one) for one in samples)])

    assert sorted(graphs) in [of(*order) for order in permutations(keys)]  # drawn in any order
    assert (every, one % 2, other % 2, days % 4) == (300, 0, 0, 0)


def test_a_rate_of_one_is_no_sample(
    owner: dp_sql.Session, keys: list[int], graphs: list[list[int]]
) -> None:
    call = f"DP_COUNT_DISTINCT(word, {SURE}, sample_items := 1.0)"
    assert asked(owner, call) == [(300,)] and keys == []
    assert "sample" not in owner.receipts[-1].accuracy


def test_an_empty_sample_is_answered(owner: dp_sql.Session, graphs: list[list[int]]) -> None:
    call = f"DP_COUNT_DISTINCT(flag, {SURE}, sample_items := 1e-9, report := true)"
    ((report,),) = asked(owner, call)
    assert graphs == [[]] and report["estimate"] == 0 and report["lower_bound"] <= 0


@pytest.mark.parametrize(
    "call", ["mechanism := 'r2t'", "mechanism := 'greedy'", "mechanism := 'sampling'",
             "mechanism := 'shifted_inverse'", "bound_selection := 'gem'", "max_contributions := 9"],
)  # fmt: skip
def test_all_mechanisms_count_samples(
    owner: dp_sql.Session, keys: list[int], graphs: list[list[int]], call: str
) -> None:
    asked(
        owner,
        f"DP_COUNT_DISTINCT(word, epsilon := 1, privacy_unit := user_id, {call}, sample_items := 0.5)",
    )
    assert graphs == [expected(owner, "word", keys[0], "0.5")]


def test_the_answer_is_scaled_to_all_items(owner: dp_sql.Session) -> None:
    """Of 100 items that 50 people share, each is kept or not, as one: pairs would be kept nearly all."""
    call = f"DP_COUNT_DISTINCT(item, {SURE}, sample_items := 0.2)"
    found = [owner.sql(f"SELECT {call} FROM shared").fetchall()[0][0] for _ in range(20)]
    assert all(n % 5 == 0 for n in found)
    mean = sum(found) / 20  # of variance 100 * 0.8 / 0.2 / 20; fails by chance below 1e-10
    assert abs(mean - 100) < 7 * (400 / 20) ** 0.5


# No value makes the hash fail.


def test_times_that_duckdb_cannot_write_are_hashed(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    values = [-(1 << 63), -(1 << 63) + 2, (1 << 63) - 1, 0, -(1 << 63) + 1]
    moment = pa.array(values, pa.int64()).view(pa.timestamp("us"))
    pq.write_table(pa.table({"user_id": range(5), "moment": moment}), tmp_path / "odd.parquet")
    call = f"DP_COUNT_DISTINCT(moment, {SURE}, sample_items := 0.999999)"
    with dp_sql.connect() as session:
        for _ in range(3):
            session.sql(f"SELECT {call} FROM '{tmp_path}/odd.parquet'").fetchall()
        assert len(session.receipts) == 3


# Keys.


def test_each_execution_draws_its_own_key(keys: list[int], graphs: list[list[int]]) -> None:
    with duckdb.connect() as con:
        con.execute(ROWS)
        dp_sql.install(con)
        call = f"DP_COUNT_DISTINCT(word, {SURE}, sample_items := 0.5)"
        relation = con.sql(f"FROM dp($$ SELECT {call} AS n FROM seen $$)")
        relation.fetchall()
        con.execute(f"PREPARE again AS FROM dp($$ SELECT {call} AS n FROM seen $$)")
        for _ in range(2):
            con.execute("EXECUTE again").fetchall()
        con.sql(f"SELECT {call} AS n FROM seen").fetchall()
        assert len(graphs) == len(set(keys)) == len(keys)
        before = len(keys)
        con.execute(f"EXPLAIN FROM dp($$ SELECT {call} AS n FROM seen $$)").fetchall()
        assert len(keys) == before
        dp_sql.install(con)


def test_a_key_has_256_bits(owner: dp_sql.Session, keys: list[int]) -> None:
    for _ in range(20):
        asked(owner, f"DP_COUNT_DISTINCT(flag, {SURE}, sample_items := 0.5)")
    # Each fails by chance below 1e-47.
    assert max(keys) >= 2**248 and min(keys) < 2**256 - 2**248 and len(set(keys)) == 20


def test_a_key_with_leading_zeros_is_as_good(
    owner: dp_sql.Session, graphs: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mechanism_udfs, "secret_draws", lambda: Draws(lambda n: 5))
    asked(owner, f"DP_COUNT_DISTINCT(word, {SURE}, sample_items := 0.5)")
    assert graphs == [expected(owner, "word", 5, "0.5")]


def test_the_key_is_in_no_text(owner: dp_sql.Session, keys: list[int]) -> None:
    call = f"DP_COUNT_DISTINCT(word, {SURE}, sample_items := 0.5, report := true)"
    shown = [str(asked(owner, call)), str(owner.receipts[-1]), repr(owner.receipts[-1])]
    told = owner.explain(f"SELECT {call} FROM seen")
    shown += [str(told), told.calls[0].sql, str(owner.receipts)]
    assert "__dp_sql_key(" in shown[-2], "the SQL shows that a key is drawn"
    digits = f"{keys[0]:064x}"
    assert not any(digits[i : i + 16] in text for i in range(49) for text in shown)


# What is said.


def test_the_report_holds_for_all_items(owner: dp_sql.Session) -> None:
    call = f"DP_COUNT_DISTINCT(word, {SURE}, sample_items := 0.5, beta := 0.1, report := true)"
    ((report,),) = asked(owner, call)
    assert report["confidence"] == 0.9 and report["contribution_bound"] == 200
    assert report["epsilon"] == 10000 and report["lower_bound"] < report["estimate"]


def test_explain_and_the_receipt_name_the_sample_and_its_error(owner: dp_sql.Session) -> None:
    call = f"DP_COUNT_DISTINCT(word, {SURE}, sample_items := 0.01)"
    (one,) = owner.explain(f"SELECT {call} FROM seen").calls
    asked(owner, call)
    assert one.accuracy.startswith(owner.receipts[-1].accuracy)
    assert one.accuracy.startswith("in a sample of 0.01 of the items, with probability 97.5 %")
    assert "0.99 % at 1,000,000 items" in one.accuracy


def test_the_loss_is_the_same_as_without_a_sample(owner: dp_sql.Session) -> None:
    for rest in ("", ", mechanism := 'r2t'", ", bound_selection := 'combined_gem'"):
        call = f"DP_COUNT_DISTINCT(word, epsilon := 1, privacy_unit := user_id{rest}"
        text = f"SELECT {call}), {call}, sample_items := 0.01) FROM seen"
        plain, sampled = owner.explain(text).calls
        assert plain.loss == sampled.loss


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("user_id, sample_items := 0.1", "here the items are people"),
        ("word, sample_items := 0", "must be at least 1e-9, and at most 1"),
        ("word, sample_items := 1.5", "must be at least 1e-9, and at most 1"),
        ("word, sample_items := 1e-10", "must be at least 1e-9"),
        ("word, sample_items := '1 %'", "must be a number written in the statement"),
    ],
)
def test_rates_that_mean_nothing_are_refused(
    owner: dp_sql.Session, arguments: str, says: str
) -> None:
    with pytest.raises(ArgumentError, match=says):
        asked(owner, f"DP_COUNT_DISTINCT({arguments}, epsilon := 1, privacy_unit := user_id)")


def test_one_in_a_hundred_is_proposed_for_100(owner: dp_sql.Session) -> None:
    with pytest.raises(QueryError, match=r"sample_items := 0\.01"):
        call = "DP_COUNT_DISTINCT(word, epsilon := 1, privacy_unit := user_id, sample_items := 100)"
        asked(owner, call)


# Under a policy.


def test_a_stored_release_answers_the_same_rate_alone(tmp_path: Path, keys: list[int]) -> None:
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as con:
        con.execute(ROWS)
    (tmp_path / "policy.toml").write_text(
        'tables.seen.privacy_unit = "user_id"\nlimits.max_contributions = 20\n'
        '[budget]\ndataset = "seen"\nepsilon = 10\nkeep_releases = true\n'
    )
    with dp_sql.connect(
        str(tmp_path / "shop.duckdb"), policy=tmp_path / "policy.toml", analyst="ann"
    ) as session:

        def answer(rest: str) -> Any:
            call = f"DP_COUNT_DISTINCT(word, epsilon := 1{rest})"
            return session.sql(f"SELECT {call} FROM seen").fetchall()

        first = answer(", sample_items := 0.5")
        assert answer(", sample_items := 0.5") == first and len(keys) == 1
        assert answer(", sample_items := 0.50") == first and len(session.receipts) == 1
        answer(", sample_items := 0.25")
        answer("")
        assert len(session.receipts) == 3 and len(keys) == 2
        assert "up to 20 " in session.receipts[0].accuracy
