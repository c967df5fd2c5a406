"""`dp-sql policy`: what it prints, where, and with which exit code."""

import tempfile
from pathlib import Path

import duckdb
import pytest

from tests.cli.test_main import run
from tests.databases import write_database
from tests.policy.test_validation import SHOP


@pytest.fixture
def shop(tmp_path: Path) -> str:
    return write_database(tmp_path / "shop.duckdb", SHOP)


def test_a_draft_is_printed(shop: str) -> None:
    done = run("policy", "init", shop)
    assert (done.returncode, done.stderr) == (0, "")
    assert '[tables.ratings]\nprivacy_unit = "user_id"  # check this' in done.stdout


def test_a_draft_is_written_once_and_checked(shop: str, tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    done = run("policy", "init", shop, "-o", str(path))
    assert (done.returncode, done.stderr) == (0, "")
    assert f'{path} is written. 2 tables still need an answer ("?").' in done.stdout
    assert f"dp-sql policy check {path} {shop}" in done.stdout
    again = run("policy", "init", shop, "-o", str(path))
    assert (again.returncode, again.stdout) == (1, "")
    assert again.stderr == f"{path} exists already; it was not changed.\n"
    checked = run("policy", "check", str(path), shop)
    assert (checked.returncode, checked.stdout) == (1, "")
    assert checked.stderr.startswith(f"PolicyError: {path}, line ")
    assert 'privacy_unit is still "?"' in checked.stderr


def test_exchanged_arguments_are_reported(shop: str, tmp_path: Path) -> None:
    path = str(tmp_path / "policy.toml")
    done = run("policy", "check", shop, path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"The policy comes first: dp-sql policy check {path} {shop}\n"


def test_a_policy_that_fits_is_reported_with_what_it_hides(shop: str, tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text('[tables.ratings]\nprivacy_unit = "user_id"\n[public]\ntables = ["catalog"]\n')
    done = run("policy", "check", str(path), shop)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        f"{path} fits {shop}: 1 private, 1 public, 0 views.\n"
        "Hidden from analysts, because the policy does not name them: "
        "main.notes, main.order_items, main.orders, main.recent_ratings, main.regions\n"
        "Where a join multiplies rows, at most 1,000 rows of each person enter on each side "
        "(max_rows_per_person), and a query whose joins could make more than 1,000,000 of them is "
        "refused (max_joined_rows_per_person).\n"
        f"Private queries may write up to 10GB in {tempfile.gettempdir()}.\n"
        "There is no [budget]: analysts may spend without limit.\n"
    )


def test_a_view_that_analysts_cannot_use_is_named_with_the_reason(tmp_path: Path) -> None:
    database, path = tmp_path / "shop.duckdb", tmp_path / "policy.toml"
    with duckdb.connect(str(database)) as con:
        con.execute(SHOP)
        con.execute(
            "CREATE VIEW per_title AS SELECT title, count(*) AS n FROM ratings GROUP BY title;"
            "CREATE VIEW twice AS SELECT user_id, unnest(generate_series(1, user_id)) AS t FROM ratings;"
            "CREATE VIEW mine AS SELECT user_id, title FROM ratings"
        )
    path.write_text(
        '[tables.ratings]\nprivacy_unit = "user_id"\n[views]\ntables = ["per_title", "twice", "mine"]\n'
    )
    done = run("policy", "check", str(path), str(database))
    assert (done.returncode, done.stderr) == (0, "")
    assert "Analysts cannot use the view per_title: " in done.stdout
    assert "GROUP BY" in done.stdout.split("per_title: ")[1].splitlines()[0]
    assert "Analysts cannot use the view twice: " in done.stdout and "view mine" not in done.stdout


def test_names_that_mean_several_tables_and_other_links_are_told(tmp_path: Path) -> None:
    database, path = tmp_path / "shop.duckdb", tmp_path / "policy.toml"
    with duckdb.connect(str(database)) as con:
        con.execute(
            "CREATE SCHEMA a; CREATE TABLE a.t (uid INTEGER PRIMARY KEY, other INTEGER UNIQUE);"
            "CREATE TABLE t (x INTEGER); SET search_path = 'a'; CREATE VIEW main.v AS FROM t;"
            "CREATE TABLE a.o (uid INTEGER REFERENCES a.t (uid))"
        )
    policy = '[tables]\n"a.t".privacy_unit = "uid"\n"a.o".privacy_unit = {{ link = "uid", to = "a.t.{}" }}\n'
    path.write_text(policy.format("other") + '[views]\ntables = ["v"]\n')
    done = run("policy", "check", str(path), str(database))
    assert (done.returncode, done.stderr) == (0, "")
    assert "the view v: t may mean a.t or main.t; name its schema.\n" in done.stdout
    assert (
        "tables.a.o.privacy_unit leads to a.t.other, and the foreign key of uid to a.t.uid. "
        "Check which of them is meant.\n"
    ) in done.stdout
    path.write_text(policy.format("uid"))
    assert "foreign key" not in run("policy", "check", str(path), str(database)).stdout


def test_a_checkpoint_in_a_folder_that_is_not_there_is_a_problem(shop: str, tmp_path: Path) -> None:
    path, elsewhere = tmp_path / "policy.toml", tmp_path / "other-disk"
    path.write_text(
        'tables.ratings.privacy_unit = "user_id"\n[budget]\ndataset = "shop"\nepsilon = 1\n'
        f'checkpoint = "{elsewhere}/shop.checkpoint"\n'
    )
    done = run("policy", "check", str(path), shop)
    problem = f"{path}, line 5, budget.checkpoint: There is no folder {elsewhere}.\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", problem)
    elsewhere.mkdir()
    assert run("policy", "check", str(path), shop).returncode == 0


def test_an_owner_is_shown_how_far_joins_multiply_rows(shop: str, tmp_path: Path) -> None:
    with duckdb.connect(shop) as connection:
        connection.execute("INSERT INTO catalog SELECT * FROM catalog")
    path = tmp_path / "policy.toml"
    path.write_text('[tables.ratings]\nprivacy_unit = "user_id"\n[public]\ntables = ["catalog"]\n')
    assert (
        "catalog.title: up to 2 rows share a value."
        in run("policy", "check", str(path), shop).stdout
    )


def test_problems_go_to_standard_error_one_on_a_line(shop: str, tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text('[tables.ratings]\nprivacy_unit = "usr_id"\n[public]\ntables = ["x"]\n')
    done = run("policy", "check", str(path), shop)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"{path}, line 4, public.tables: There is no table or view x.\n"
        f"{path}, line 2, tables.ratings.privacy_unit: ratings has no column usr_id. "
        "Did you mean user_id?\n"
    )


def test_the_database_is_only_read_and_never_made(shop: str, tmp_path: Path) -> None:
    before = Path(shop).read_bytes()
    run("policy", "init", shop)
    assert Path(shop).read_bytes() == before
    missing = tmp_path / "missing.duckdb"
    done = run("policy", "init", str(missing), "-o", str(tmp_path / "p.toml"))
    assert done.returncode == 1 and "Traceback" not in done.stderr and done.stderr
    assert not missing.exists() and not (tmp_path / "p.toml").exists()


def test_a_file_that_cannot_be_read_or_written_is_reported(shop: str, tmp_path: Path) -> None:
    done = run("policy", "check", str(tmp_path / "none.toml"), shop)
    assert done.returncode == 1 and "none.toml cannot be read: No such file" in done.stderr
    draft = tmp_path / "no" / "p.toml"
    done = run("policy", "init", shop, "-o", str(draft))
    assert (done.returncode, done.stderr) == (1, f"{draft}: No such file or directory\n")


def test_help_says_how_and_what_each_command_reads() -> None:
    shown = run("policy", "--help")
    assert shown.returncode == 0
    assert "dp-sql policy check policy.toml shop.duckdb" in shown.stdout
    assert "opened as ./policy" in shown.stdout
    assert "no row" in run("policy", "init", "--help").stdout
    assert "For the owner" in run("policy", "check", "--help").stdout
    assert "dp-sql policy init" in run("--help").stdout


@pytest.mark.parametrize("rest", [[], ["-c", "SELECT 1"], ["--csv", "-c", "SELECT 1"], ["drop"]])
def test_wrong_usage_of_policy_is_exit_code_two(rest: list[str]) -> None:
    done = run("policy", *rest)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Try 'dp-sql policy --help' for help." in done.stderr


def test_a_database_called_policy_is_opened_with_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with duckdb.connect(str(tmp_path / "policy")) as connection:
        connection.execute("CREATE TABLE t AS SELECT 7 AS x")
    monkeypatch.chdir(tmp_path)
    assert run("./policy", "--csv", "-c", "FROM t").stdout == "x\n7\n"
    assert run("--csv", "policy", "-c", "FROM t").stdout == "x\n7\n"
