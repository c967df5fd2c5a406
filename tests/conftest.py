"""Fixtures: a small reading log, open as a session and as a plain connection."""

import compileall
import gc
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from zlib import crc32

import duckdb
import pytest
from hypothesis import settings

import dp_sql
from dp_sql.engines.duckdb import few_rows
from dp_sql.udfs.count_distinct.kernels_build import LIBRARY, SOURCES, compile_kernels

# Each run tries the same examples, so a red test is about the change at hand; `make slow` seeks new
# ones. No example is timed: the machine may be busy.
settings.register_profile("same", derandomize=True, deadline=None, max_examples=30)
settings.load_profile("same")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in a shell's background
    signal.signal(signal.SIGINT, signal.default_int_handler)

READING_LOG = """
CREATE TYPE genre AS ENUM ('novel', 'essay', 'poems');
CREATE TABLE catalog AS
    SELECT * FROM (VALUES ('Dune'), ('Emma'), ('Ulysses'), ('Walden'), ('Beloved'), ('Dune'),
                          (NULL)) AS books(title);
CREATE TABLE ratings AS
    SELECT i % 50 AS user_id,
           CASE WHEN i % 50 < 45 AND i < 50 THEN 'Dune'
                WHEN i % 50 < 25 AND i < 100 THEN 'Emma'
                WHEN i % 50 < 10 THEN 'Ulysses' ELSE 'a note to self' END AS title,
           (CASE WHEN i % 50 < 30 THEN 'novel' ELSE 'poems' END)::genre AS kind,
           2000 + i % 7 AS year, i / 3 AS score,
           CASE WHEN i % 2 = 0 THEN 'north' ELSE 'south' END AS region
    FROM range(200) AS r(i);
INSERT INTO ratings VALUES (NULL, 'Dune', 'novel', 2000, 1, 'north'), (1, NULL, NULL, 2000, 1, 'x');
"""

# At this privacy loss the mechanisms give the true answer, except with a probability below 1e-1000;
# for tests of everything around them. Their distributions are tested in tests/udfs.
SURE = "epsilon := 10000"


OPTIONAL = ("dp_accounting", "matplotlib", "pandas", "scipy")
ABSENT = {name for name in OPTIONAL if find_spec(name) is None}


ROOT = Path(__file__).parents[1]

gc.disable()  # until all tests are known: what is made until then is needed


@pytest.fixture(autouse=True)
def _half_by_sql(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let DuckDB make the lists of every other test, though its sources have few rows."""
    if crc32(request.node.nodeid.encode()) % 2:
        monkeypatch.setattr(few_rows, "FEW", 0)


@pytest.fixture
def by_sql(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let DuckDB make the lists: for tests that change its SQL, or watch it."""
    monkeypatch.setattr(few_rows, "FEW", 0)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile the kernels of this checkout again if they have changed, and once what is imported."""
    changed = max(source.stat().st_mtime for source in SOURCES)
    if not LIBRARY.exists() or LIBRARY.stat().st_mtime < changed:
        compile_kernels()
    if session.config.getoption("numprocesses", None) and not sys.dont_write_bytecode:
        for folder in ("dp_sql", "udfs", "tests"):  # pytest compiles the tests themselves
            compileall.compile_dir(ROOT / folder, quiet=2, rx=re.compile(r"/test_\w+\.py$"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Import all tests, each worker from another one on: assertions are then rewritten once."""
    config = session.config
    if hasattr(config, "workerinput") and config.args_source is config.ArgsSource.TESTPATHS:
        number, n_workers = (
            int(config.workerinput["workerid"][2:]),
            config.workerinput["workercount"],
        )
        files = sorted(ROOT.glob("tests/**/test_*.py"))
        first = len(files) * number // n_workers
        for file in files[first:] + files[:first]:
            with suppress(Exception, pytest.skip.Exception):  # raised again where it is collected
                import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))


def pytest_collection_finish() -> None:
    gc.freeze()  # nor is it looked through again
    gc.enable()


@pytest.hookimpl(optionalhook=True)  # pytest-xdist's
def pytest_xdist_auto_num_workers() -> int:
    """One worker more than processors: tests also wait, for deadlines and for processes."""
    return (os.cpu_count() or 1) + 1


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--half", action="store_true", help="leave out every other case of a test that has several"
    )


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the first of every n cases of a test marked `one_in(n)`; the others are `thorough`.

    With --half, the second, fourth, … of the cases that remain are thorough, too, and of those
    that were thorough before, slow, except for attacks.
    """
    seen: Counter[str] = Counter()
    for item in items:
        mark = item.get_closest_marker("one_in")
        if not {"slow", "thorough"} & {own.name for own in item.iter_markers()}:
            test = item.nodeid.partition("[")[0]
            if seen[test] % (mark.args[0] if mark else 1):
                item.add_marker("thorough")
            seen[test] += 1
    if config.getoption("half"):
        _mark_half(items)


def _mark_half(items: list[pytest.Item]) -> None:
    seen: Counter[tuple[str, str]] = Counter()
    for item in items:
        marks = {own.name for own in item.iter_markers()}
        rarer = "slow" if "thorough" in marks else "thorough"
        case = item.nodeid.partition("[")[0], rarer
        if seen[case] % 2 and (rarer == "thorough" or "attacks" not in item.path.parts):
            item.add_marker(rarer)
        seen[case] += 1


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Skip a test that meets an optional package that is not installed; `make check` has them."""
    try:
        yield
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, ModuleNotFoundError) and cause.name in ABSENT:
                pytest.skip(f"{cause.name} is not installed")
            if "dp_accounting" in ABSENT and "needs the package" in str(cause):
                pytest.skip("dp-accounting is not installed")
            if "pandas" in ABSENT and "'pandas' is required" in str(cause):
                pytest.skip("pandas is not installed")
            cause = cause.__cause__ or cause.__context__
        raise


@pytest.fixture
def session() -> Iterator[dp_sql.Session]:
    with dp_sql.connect() as session:
        session.execute(READING_LOG)
        yield session


@pytest.fixture(scope="module")
def shared() -> Iterator[dp_sql.Session]:
    """A session for tests that change nothing in its database; others may have released before."""
    with dp_sql.connect() as session:
        session.execute(READING_LOG)
        yield session


@contextmanager
def free(*sessions: dp_sql.Session) -> Iterator[None]:
    """What is done in it releases nothing and spends nothing."""
    before = [(session.receipts, session.budget()) for session in sessions]
    yield
    assert before == [(session.receipts, session.budget()) for session in sessions]


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        con.execute(READING_LOG)
        yield dp_sql.install(con)


@pytest.fixture
def top3() -> str:
    """A statement with one DP call and a sure answer: Dune, Emma, Ulysses."""
    return (
        f"SELECT DP_TOPK(title, 3, {SURE}, privacy_unit := user_id, domain := catalog.title) "
        "AS best FROM ratings"
    )
