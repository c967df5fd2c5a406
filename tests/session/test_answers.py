"""The public face, and what may not be part of it."""

import importlib.metadata
import inspect
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

import dp_sql
from dp_sql import errors


def test_the_face_is_small() -> None:
    assert dp_sql.__all__ == [
        "DpSqlError", "InternalError", "QueryError", "Receipt", "Session", "connect",
        "install", "receipts",
    ]  # fmt: skip


def test_the_version_is_that_of_the_installed_package() -> None:
    assert dp_sql.__version__ == importlib.metadata.version("dp-sql")


def test_both_kinds_of_session_are_sessions_with_the_same_face() -> None:
    from dp_sql.session.analyst import AnalystSession
    from dp_sql.session.owner import OwnerSession

    face = {name for name in dir(dp_sql.Session) if not name.startswith("_")}
    for kind in (OwnerSession, AnalystSession):
        assert issubclass(kind, dp_sql.Session)
        assert {name for name in dir(kind) if not name.startswith("_")} == face


def test_every_error_has_one_root_and_bugs_are_apart() -> None:
    ours = [e for e in vars(errors).values() if inspect.isclass(e) and issubclass(e, Exception)]
    assert all(issubclass(e, dp_sql.DpSqlError) for e in ours)
    assert not issubclass(errors.InternalError, errors.QueryError)
    for error in ours:
        assert error.__name__ in (errors.__doc__ or "")


def test_no_public_call_takes_a_seed_or_a_noise_switch() -> None:
    banned = {"seed", "random_state", "rng", "noise", "deterministic", "debug"}
    for call in (dp_sql.connect, dp_sql.install, dp_sql.Session.sql, dp_sql.Session.execute):
        assert not banned & set(inspect.signature(call).parameters)


def loaded_by(program: str) -> set[str]:
    """The modules of a new process that has run a program."""
    command = [sys.executable, "-c", f"import sys; {program}; print(*sys.modules)"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_and_plain_sql_load_no_heavy_library() -> None:
    loaded = loaded_by(
        "import dp_sql; s = dp_sql.connect(); s.sql('SELECT 1').fetchall(); s.close()"
    )
    assert not {"dp_sql.udfs.count_distinct.kernels", "pandas", "scipy"} & loaded


@pytest.mark.thorough
def test_a_list_and_a_count_are_answered_without_pandas() -> None:
    new = {"pandas", "pyarrow.compute"}
    ours = {"scipy"} | (new if duckdb.__version__ >= "2" else set())  # 1.5 loads them
    loaded = loaded_by(
        "import dp_sql; s = dp_sql.connect(); s.execute('CREATE TABLE t AS SELECT 1 AS i, 2 AS j'); "
        "s.sql('SELECT DP_TOPK(i, 2, epsilon := 1, privacy_unit := i, domain := [1, 2, 3]) "
        "FROM t').fetchall(); "
        "s.sql('SELECT DP_COUNT_DISTINCT(j, epsilon := 1, privacy_unit := i) FROM t').fetchall(); "
        "s.close()"
    )
    assert not ours & loaded


def test_the_first_list_imports_no_more_than_it_needs() -> None:
    loaded = loaded_by(
        "import duckdb, dp_sql; con = dp_sql.install(duckdb.connect()); "
        "con.execute('CREATE TABLE t AS SELECT 1 AS i'); "
        "con.sql('SELECT DP_TOPK(i, 2, epsilon := 1, privacy_unit := i, domain := [1, 2, 3]) "
        "FROM t').fetchall()"
    )
    folders = {"dp_sql.budget", "dp_sql.policy", "dp_sql.server", "dp_sql.udfs.contributions",
               "dp_sql.udfs.count_distinct", "dp_sql.udfs.groups", "dp_sql.udfs.histogram",
               "dp_sql.udfs.quantile", "dp_sql.udfs.select"}  # fmt: skip
    modules = {
        "dp_sql.engines.by_parts", "dp_sql.session.explain", "dp_sql.session.release_store",
        "dp_sql.session.corrections.duckdb_errors", "dp_sql.session.system_tables",
        "dp_sql.udfs.topk.peeling", "dp_sql.udfs.topk.subset",
        "dp_sql.udfs.topk.limited_domain", "dp_sql.udfs.topk.weighted_gaussian", "sqlite3",
        "tomllib",
    }  # fmt: skip
    if duckdb.__version__ >= "2":  # 1.5 loads it
        modules.add("concurrent.futures")
    assert not (folders | modules) & loaded


def test_the_first_list_of_a_session_imports_less_however_large_its_table_is() -> None:
    loaded = loaded_by(
        "import dp_sql; con = dp_sql.connect(); "
        "con.execute('CREATE TABLE t AS SELECT i % 50 AS x, i AS u FROM range(70000) AS r(i)'); "
        "con.sql('SELECT DP_TOPK(x, 2, epsilon := 1, privacy_unit := u, domain := observed) "
        "FROM t').fetchall()"
    )
    assert "dp_sql.udfs.topk.joint" in loaded
    of_expressions = {f"dp_sql.privacy.expressions.{name}" for name in ("calls", "forms")}
    of_sources = {f"dp_sql.privacy.relations.{name}" for name in ("joins", "person_groups")}
    of_plain_calls = {"dp_sql.privacy.around", "dp_sql.session.plain_call"}
    of_policies = {"dp_sql.policy.limits", "tomllib"}
    assert not (of_expressions | of_sources | of_plain_calls | of_policies) & loaded


def test_the_first_answer_of_an_analyst_imports_neither_spark_nor_corrections(
    tmp_path: Path,
) -> None:
    with duckdb.connect(tmp_path / "shop.duckdb") as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS i")
    (tmp_path / "policy.toml").write_text('tables.t.privacy_unit = "i"')
    loaded = loaded_by(
        f"import dp_sql, os; os.chdir({str(tmp_path)!r}); "
        "s = dp_sql.connect('shop.duckdb', policy='policy.toml'); "
        "s.sql('SELECT DP_COUNT(*, epsilon := 1) FROM t').fetchall(); s.close()"
    )
    corrections = {
        "dp_sql.session.corrections.aggregates",
        "dp_sql.session.corrections.duckdb_errors",
    }
    assert not {"dp_sql.engines.by_parts", "dp_sql.engines.spark.release"} & loaded
    assert not ({"dp_sql.privacy.plans.example_dates"} | corrections) & loaded


@pytest.mark.parametrize(("objects", "is_frozen"), [(0, "yes"), (60_000, "no")])
def test_only_a_program_that_just_started_has_its_imports_frozen(
    objects: int, is_frozen: str
) -> None:
    loaded = loaded_by(
        f"import gc; n = gc.get_freeze_count(); own = [[] for _ in range({objects})]; "
        "import dp_sql; dp_sql.connect; "
        "print('yes' if gc.get_freeze_count() > n else 'no', gc.isenabled() and 'again')"
    )
    assert {is_frozen, "again"} <= loaded


@pytest.mark.thorough
def test_the_first_list_makes_few_dataclasses() -> None:
    """Each takes Python half a millisecond, and a NamedTuple a tenth of that."""
    made = loaded_by(
        "import dataclasses; made = []; right = dataclasses._process_class; "
        "dataclasses._process_class = lambda cls, *a: made.append(cls) or right(cls, *a); "
        "import dp_sql; dp_sql.connect().close(); "
        "print(*(f'made:{c.__qualname__}' for c in made if c.__module__.startswith('dp_sql')))"
    )
    assert 0 < len([name for name in made if name.startswith("made:")]) <= 37


@pytest.mark.thorough
def test_the_first_use_imports_no_spark() -> None:
    loaded = loaded_by("import dp_sql; dp_sql.connect().close()")
    assert not any(name.startswith("dp_sql.engines.spark") for name in loaded)
