"""A source that is read in pieces answers as one statement does, and fails as one does."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import duckdb
import numpy as np
import pytest

import dp_sql
from dp_sql.engines.duckdb import arrow_rows, mechanism_udfs, row_estimate
from dp_sql.engines.duckdb import in_pieces as reading
from dp_sql.errors import BudgetExceeded, QueryError, SourceError
from dp_sql.session.analyst import AnalystSession
from dp_sql.udfs.count_distinct import bounded, partial, stored_pairs
from dp_sql.udfs.count_distinct.stored_pairs import StoredPairs
from dp_sql.udfs.exact_sampling import Draws
from tests.databases import owner_of

ROWS = """
CREATE TABLE seen AS SELECT
    CASE WHEN i % 50 > 0 THEN i * i % 91 END AS u,
    CAST(nullif(i % 83 * (i % 7) % 70, 3) AS INTEGER) AS x,
    CAST(CAST(u AS HUGEINT) + 18446744073709551000 AS UBIGINT) AS wide,
    CAST(x AS UTINYINT) AS small, CAST(x - 35 AS HUGEINT) * 10000000000000000000000 AS huge,
    'item ' || x AS word, CASE x % 3 WHEN 0 THEN '' WHEN 1 THEN 'ß' ELSE chr(0) || 'x' END AS odd,
    DATE '1969-12-01' + x AS day, TIMESTAMP_NS '1999-01-01 00:00:00.000000001' AS once,
    CAST(TIMESTAMP '2000-10-29 00:00:00' + to_minutes(30 * x) AS TIMESTAMPTZ) AS local,
    x % 2 = 0 AS yes, CAST('m' || x % 5 AS ENUM ('m0', 'm1', 'm2', 'm3', 'm4')) AS mood,
    CAST(x / 4 AS DECIMAL(9, 2)) AS part, encode('item ' || x % 9) AS bytes,
    repeat('é', 120 + x % 20) || x % 4 AS long, encode(long) AS blob,
    CAST(lpad(CAST(x AS VARCHAR), 32, 'a') AS UUID) AS id, TIME '10:00:00' + to_seconds(x) AS clock
FROM range(3000) AS r(i);
INSERT INTO seen (u, day, local) VALUES (1000, 'infinity', '-infinity'), (1001, '-infinity', NULL);
CREATE TABLE titles AS SELECT DISTINCT x, x % 10 AS genre FROM seen;
"""
COLUMNS = ("x", "small", "huge", "word", "odd", "day", "once", "local", "yes", "mood", "part", "bytes",
           "id", "clock", "word || odd", "x % 5", "wide",
           "long", "blob", "CASE WHEN x < 40 THEN long ELSE lpad(sha256(long), 256, ' ') END")  # fmt: skip
SOURCES = (
    "FROM seen", "FROM (SELECT * FROM seen WHERE x > 10)", "FROM seen JOIN titles USING (x)",
    "FROM (SELECT * FROM seen UNION ALL SELECT * FROM seen)", "FROM seen WHERE x < 0")  # fmt: skip
CALL = "DP_COUNT_DISTINCT({}, epsilon := 1, privacy_unit := {})"
Counts = list[list[int]]


@pytest.fixture
def released(monkeypatch: pytest.MonkeyPatch) -> Counts:
    """The counts that mechanisms draw from."""
    found: Counts = []
    right = bounded.release_each

    def release_each(covers: Sequence[Sequence[int]], *given: Any) -> Any:
        found.extend([*map(int, cover)] for cover in covers)
        return right(covers, *given)

    monkeypatch.setattr(bounded, "release_each", release_each)
    return found


@pytest.fixture
def in_pieces(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def from_now_on() -> None:
        monkeypatch.setattr(row_estimate, "LARGE", 0)
        monkeypatch.setattr(arrow_rows, "ROWS", 500)
        monkeypatch.setattr(stored_pairs, "WHOLE", 0)
        monkeypatch.setattr(stored_pairs, "IN_MEMORY", 1000)
        monkeypatch.setattr(partial, "PEOPLE_PER_ITEM", 1)

    return from_now_on


owner = owner_of(ROWS)


def n_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    found: list[int] = []
    right = StoredPairs.thin
    monkeypatch.setattr(
        StoredPairs, "thin", lambda self, n: (found.append(self.n_items), right(self, n))[1]
    )
    return found


@pytest.mark.one_in(8)
@pytest.mark.parametrize("column", COLUMNS)
def test_the_mechanism_draws_from_the_same_counts(
    column: str, owner: dp_sql.Session, released: Counts, in_pieces: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    source = SOURCES[COLUMNS.index(column) % 3]
    queries = [f"SELECT {CALL.format(column, 'u')} {source}"]
    if column.isidentifier():
        queries.append(f"SELECT {CALL.format('x', column)} {source}")
    for query in queries:
        owner.sql(query).fetchall()
    before, reads = [*released], n_reads(monkeypatch)
    in_pieces()
    for whole in (0, 2000, 10**6):
        monkeypatch.setattr(stored_pairs, "WHOLE", whole)
        for query in queries:
            owner.sql(query).fetchall()
    assert released == before * 4
    assert reads


@pytest.mark.parametrize("column", ["long", "blob"])
def test_no_value_makes_a_piece_large(
    column: str,
    owner: dp_sql.Session,
    in_pieces: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Arrow's pieces have less than 2^31 bytes, and one person's rows must not decide that."""
    sizes, right = set(), arrow_rows.ValueNumbers.numbers

    def numbers(self: arrow_rows.ValueNumbers, values: Any) -> Any:
        sizes.update(len(one) for one in values.cast("binary").to_pylist())
        return right(self, values)

    in_pieces()
    monkeypatch.setattr(arrow_rows.ValueNumbers, "numbers", numbers)
    owner.sql(f"SELECT {CALL.format('word', column)} FROM seen").fetchall()
    owner.sql(f"SELECT {CALL.format(column, 'word')} FROM seen").fetchall()
    assert max(sizes) == arrow_rows.LONG and arrow_rows.LONG - 1 in sizes


@pytest.mark.parametrize("column", ["long", "blob", "left(long, 33)"])
def test_strings_that_take_too_much_memory_are_read_as_hashes(
    column: str, owner: dp_sql.Session, released: Counts, in_pieces: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    query = f"SELECT {CALL.format(column, 'u')} FROM seen"
    owner.sql(query).fetchall()
    longest, right = list[int](), reading.comparable_in_arrow

    def sent(name: str, kind: str, long: int) -> str:
        longest.append(long)
        return right(name, kind, long)

    monkeypatch.setattr(reading, "SHARE", 1 << 60)
    monkeypatch.setattr(reading, "comparable_in_arrow", sent)
    in_pieces()
    owner.sql(query).fetchall()
    assert released == released[:1] * 2
    assert longest == [arrow_rows.LONG] * 2 + [arrow_rows.SHORTER] * 2


@pytest.mark.one_in(8)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    "more", ["report := true", "mechanism := 'r2t'", "contribution_bound := 3", "max_contributions := 9"]
)  # fmt: skip
def test_a_source_is_read_once(
    source: str, more: str, owner: dp_sql.Session, released: Counts, in_pieces: Callable[[], None]
) -> None:
    call = CALL.format("word", "u").replace(")", f", {more})")
    owner.sql(f"SELECT {call} {source}").fetchall()
    before = [*released]
    receipt = repr(owner.receipts[-1])
    in_pieces()
    with_others = f"SELECT {call} AS n, DP_COUNT(*, epsilon := 1, privacy_unit := u) AS m {source}"
    assert len(owner.sql(with_others).fetchall()) == 1
    assert released == before * 2
    assert repr(owner.receipts[-2]) == receipt
    tables = "SELECT count(*) FROM duckdb_views() WHERE view_name LIKE '__dp_computed%'"
    assert owner.execute(tables).fetchall() == [(0,)]


def test_a_plain_connection_reads_in_pieces(
    released: Counts, in_pieces: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with duckdb.connect() as con:
        con.execute(ROWS)
        dp_sql.install(con)
        query = f"SELECT {CALL.format('word', 'u')} FROM seen"
        con.sql(query).fetchall()
        before, reads = [*released], n_reads(monkeypatch)
        in_pieces()
        assert len(con.sql(query).fetchall()) == 1
        assert released == before * 2 and reads == [69]
        assert len(dp_sql.receipts(con)) == 2


@pytest.mark.thorough
def test_a_sample_of_the_items_is_the_same(
    analyst: AnalystSession, owner: dp_sql.Session, released: Counts,
    in_pieces: Callable[[], None], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(mechanism_udfs, "secret_draws", lambda: Draws(lambda n: 5))  # one key
    sampled = CALL.format("word", "u").replace(")", ", sample_items := 0.5)")
    questions = [QUESTION.replace("1)", f"{n}, sample_items := 0.5)") for n in (1, 2)]
    with duckdb.connect() as con:
        con.execute(ROWS)
        dp_sql.install(con)
        for question in questions:
            for session, query in (
                (analyst, question), (owner, f"SELECT {sampled} FROM seen"),
                (con, f"SELECT {sampled} FROM seen"),
            ):  # fmt: skip
                assert len(session.sql(query).fetchall()) == 1
            in_pieces()
    assert released[3:] == released[:3] and 0 < released[0][-1] < 69


def test_a_small_source_is_one_statement(
    owner: dp_sql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = n_reads(monkeypatch)
    query = f"SELECT {CALL.format('x', 'u')} FROM seen"
    owner.sql(query).fetchall()
    monkeypatch.setattr(row_estimate, "LARGE", 3003)
    owner.sql(query).fetchall()
    assert not reads
    monkeypatch.setattr(row_estimate, "LARGE", 3002)
    owner.sql(query).fetchall()
    assert reads


def test_a_small_table_may_be_a_large_source(
    owner: dp_sql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = n_reads(monkeypatch)
    owner.execute("CREATE OR REPLACE TABLE small AS SELECT i AS u, i AS x FROM range(300) AS r(i)")
    monkeypatch.setattr(row_estimate, "LARGE", 2000)
    for item, source, n in (("x", "small", 0), ("x + nr % 3", "small, range(20) AS r(nr)", 1)):
        owner.sql(f"SELECT {CALL.format(item, 'u')} FROM {source}").fetchall()
        assert len(reads) == n


@pytest.mark.usefixtures("by_sql")
def test_a_source_is_not_asked_about_again_within_a_minute(
    owner: dp_sql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, reads, asked = [1e6], n_reads(monkeypatch), Mock(wraps=row_estimate._CARDINALITY)
    monkeypatch.setattr(row_estimate.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(row_estimate, "_CARDINALITY", asked)
    owner.execute("CREATE OR REPLACE TABLE growing AS SELECT i AS u, i AS x FROM range(9) AS r(i)")
    query = f"SELECT {CALL.format('x', 'u')} FROM growing"
    for n_asked, seconds in ((1, 0), (1, 59), (2, 2)):
        now[0] += seconds
        owner.sql(query).fetchall()
        assert asked.findall.call_count == n_asked
    owner.execute("INSERT INTO growing SELECT i, i FROM range(3000) AS r(i)")
    monkeypatch.setattr(row_estimate, "LARGE", 1000)
    for n_asked, n_read, seconds in ((2, 0, 0), (4, 1, 61), (4, 2, 59)):
        now[0] += seconds
        owner.sql(query).fetchall()
        assert asked.findall.call_count == n_asked and len(reads) == n_read


def test_a_dataframe_is_read_in_the_frame_of_its_owner(
    owner: dp_sql.Session, in_pieces: Callable[[], None]
) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"u": np.arange(9) % 4, "x": np.arange(9)})
    in_pieces()
    query = f"SELECT {CALL.format('x', 'u').replace(':= 1', ':= 10000')} FROM frame"
    assert owner.sql(query).fetchall() == [(len(frame),)]


# --- under a policy ---------------------------------------------------------------------------------

POLICY = """
public.tables = ["titles"]
[tables.seen]
privacy_unit = "u"
[budget]
dataset = "shop"
epsilon = 100
"""
FAILED = "The answer could not be computed. Its cost is spent."
QUESTION = "SELECT DP_COUNT_DISTINCT(word, epsilon := 1) FROM seen"


@pytest.fixture
def analyst(tmp_path: Path) -> Iterator[AnalystSession]:
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as con:
        con.execute(ROWS)
    (tmp_path / "policy.toml").write_text(POLICY, "utf-8")
    policy = tmp_path / "policy.toml"
    with dp_sql.connect(str(tmp_path / "shop.duckdb"), policy=policy, analyst="ann") as session:
        yield session


def kinds(session: AnalystSession) -> list[str]:
    assert session._ledger is not None
    return [event.kind for event in session._ledger.events()][1:]


def test_an_analyst_gets_the_same_counts(
    analyst: AnalystSession, released: Counts, in_pieces: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    analyst.sql(QUESTION).fetchall()
    before, reads = [*released], n_reads(monkeypatch)
    in_pieces()
    assert len(analyst.sql(QUESTION.replace("1)", "1.5)")).fetchall()) == 1
    assert released == before * 2 and reads == [69]
    assert kinds(analyst) == ["reserved", "answered"] * 2
    assert [receipt.call for receipt in analyst.receipts] == ["dp_count_distinct(word)"] * 2


@pytest.mark.parametrize("large", [3003, 3002])
def test_an_analyst_s_source_is_as_large_as_its_tables(
    large: int, analyst: AnalystSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = n_reads(monkeypatch)
    monkeypatch.setattr(row_estimate, "LARGE", large)
    for source in ("seen WHERE x >= 0", "(SELECT word || odd AS word FROM seen)"):
        analyst.sql(QUESTION.replace("seen", source)).fetchall()
    assert len(reads) == (2 if large == 3002 else 0)
    for source in ("(SELECT unnest(string_split(word, ' ')) AS word FROM seen)",
                   "(SELECT titles.x AS word FROM seen JOIN titles ON genre = seen.x)"):  # fmt: skip
        analyst.sql(QUESTION.replace("seen", source)).fetchall()
    assert len(reads) == (4 if large == 3002 else 2)  # both may have any number of rows


STEPS = {
    "the rows": (reading, "batches", duckdb.IOException("no file")),
    "their numbers": (arrow_rows.ValueNumbers, "numbers", ValueError("too many")),
    "the store": (StoredPairs, "add", OSError("no space")),
    "what comes first": (StoredPairs, "thin", MemoryError()),
    "what is asked for": (StoredPairs, "complete", RuntimeError("lost")),
    "the flow": (partial, "partial_cover_counts", RuntimeError("not the largest")),
    "the draw": (bounded, "release_each", ArithmeticError("1 / 0")),
    "the end": (StoredPairs, "close", OSError("no file")),
}  # fmt: skip


def fail(step: str, patch: pytest.MonkeyPatch) -> Exception:
    place, name, error = STEPS[step]
    patch.setattr(place, name, Mock(side_effect=error))
    return error


@pytest.mark.one_in(4)
@pytest.mark.parametrize("step", STEPS)
def test_a_failure_in_any_step_is_one_sentence_one_debit_and_one_receipt(
    step: str, analyst: AnalystSession, in_pieces: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    in_pieces()
    with monkeypatch.context() as during:
        fail(step, during)
        with pytest.raises(QueryError) as raised:
            analyst.sql(QUESTION)
    assert str(raised.value) == FAILED and raised.value.__context__ is None
    assert kinds(analyst) == ["reserved", "failed"]
    (receipt,) = analyst.receipts
    assert receipt.accuracy == "it failed, and nothing was released"
    tables = "SELECT count(*) FROM duckdb_views() WHERE view_name LIKE '__dp_computed%'"
    assert analyst._private._run(tables).fetchall() == [(0,)]
    assert len(analyst.sql(QUESTION).fetchall()) == 1
    assert kinds(analyst) == ["reserved", "failed", "reserved", "answered"]


@pytest.mark.parametrize("step", STEPS)
def test_an_owner_sees_what_failed_and_no_value(
    step: str, owner: dp_sql.Session, in_pieces: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_pieces()
    error, n_before = fail(step, monkeypatch), owner.n_receipts
    with pytest.raises(dp_sql.errors.DpSqlError) as raised:
        owner.sql(f"SELECT {CALL.format('word', 'u')} FROM seen")
    assert str(error) not in str(raised.value) or not str(error)
    assert owner.n_receipts == n_before


def test_what_is_refused_costs_nothing(
    analyst: AnalystSession, in_pieces: Callable[[], None]
) -> None:
    in_pieces()
    with pytest.raises(BudgetExceeded):
        analyst.sql(QUESTION.replace("1)", "101)"))
    assert kinds(analyst) == [] and analyst.receipts == ()


def test_pairs_wait_in_the_private_folder_within_its_limit(
    analyst: AnalystSession, in_pieces: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_pieces()
    places: list[Path] = []
    right = StoredPairs.__init__

    def noted(self: StoredPairs, folder: Path, *given: Any) -> None:
        places.append(folder)
        right(self, folder, *given)

    monkeypatch.setattr(StoredPairs, "__init__", noted)
    analyst.sql(QUESTION).fetchall()
    private = analyst._private._run("SELECT current_setting('temp_directory')").fetchall()[0][0]
    assert places == [Path(private)]
    analyst._private._run("SET max_temp_directory_size = '1KiB'")
    with pytest.raises(QueryError, match=FAILED):
        analyst.sql(QUESTION.replace("1)", "2)"))
    analyst._private._run("SET max_temp_directory_size = '1GiB'")
    assert len(analyst.sql(QUESTION.replace("1)", "2)")).fetchall()) == 1


# --- interrupts -------------------------------------------------------------------------------------


@pytest.mark.one_in(2)
@pytest.mark.parametrize("step", ["thin", "complete"])
def test_an_interrupt_between_statements_ends_the_work(
    step: str, analyst: AnalystSession, owner: dp_sql.Session, in_pieces: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    in_pieces()
    right = getattr(StoredPairs, step)
    for session, query in (
        (analyst, QUESTION), (owner, f"SELECT {CALL.format('word', 'u')} FROM seen"),
    ):  # fmt: skip
        after: list[str] = []

        def interrupted(*given: Any) -> Any:
            session.interrupt()  # noqa: B023
            yield from right(*given)
            after.append("read to its end")  # noqa: B023

        with monkeypatch.context() as during:
            during.setattr(StoredPairs, step, interrupted)
            with pytest.raises((QueryError, SourceError), match=r"interrupted"):
                session.sql(query)
        assert not after
        assert len(session.sql(query).fetchall()) == 1
    assert kinds(analyst) == ["reserved", "failed", "reserved", "answered"]


def test_an_interrupt_ends_the_flow(
    owner: dp_sql.Session, in_pieces: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_pieces()
    right, bounds = partial.covers, []

    def interrupted(*given: Any) -> Any:
        for found in right(*given):
            owner.interrupt()
            bounds.append(found[0])
            yield found

    monkeypatch.setattr(partial, "covers", interrupted)
    with pytest.raises(SourceError, match="The query was interrupted"):
        owner.sql(f"SELECT {CALL.format('x', 'u')} FROM seen")
    assert len(bounds) == 1


def test_an_interrupt_while_rows_are_read_ends_the_work(
    owner: dp_sql.Session, in_pieces: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_pieces()
    right, n_read = arrow_rows.ValueNumbers.numbers, []

    def interrupted(*given: Any) -> Any:
        n_read.append(owner.interrupt())  # type: ignore[func-returns-value]
        return right(*given)

    monkeypatch.setattr(arrow_rows.ValueNumbers, "numbers", interrupted)
    with pytest.raises(SourceError, match="The query was interrupted"):
        owner.sql(f"SELECT {CALL.format('x', 'u')} FROM seen")
    assert len(n_read) in {2, 4}  # both columns of one piece, or of two: of six or more
