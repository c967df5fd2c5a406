"""The documents are true: statements run, shown output is what is printed, links and names exist."""

import datetime
import math
import re
import shlex
import subprocess
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path

import duckdb
import pytest

import dp_sql
from dp_sql import errors
from dp_sql.errors import with_type
from tests.cli.test_main import run

ROOT = Path(__file__).parents[1]
TABLES = ROOT / "docs" / "papers"  # written by `make papers`
PAGES = [
    ROOT / "README.md",
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if page.parent != TABLES),
]
DOCUMENTS = [
    *PAGES, ROOT / "CHANGELOG.md", ROOT / "benchmarks" / "RESULTS.md",
    *sorted((ROOT / "examples").rglob("README.md")), *sorted((ROOT / ".github").glob("*.md")),
]  # fmt: skip
TEXT = {path.name: path.read_text("utf-8") for path in PAGES}
README, SQL = TEXT["README.md"], TEXT["sql.md"]

MAKE_SHOP = """
CREATE TABLE catalog AS SELECT 'Book ' || i AS title, 'novel' AS genre, 1890 + i AS year FROM range(12) AS r(i);
CREATE TABLE regions AS SELECT unnest(['north', 'south']) AS name;
CREATE TABLE calendar AS SELECT DATE '2025-01-01' + i::INTEGER AS day FROM range(90) AS r(i);
CREATE TABLE ratings AS SELECT user_id, title, 'north' AS region, 4 AS stars, DATE '2025-01-01' AS day FROM range(900) AS r(user_id), catalog;
CREATE TABLE reviews AS SELECT user_id, 'good' AS word, 'A good book' AS review FROM range(9) AS r(user_id);
CREATE TABLE sessions AS SELECT i % 900 AS user_id, 'north' AS region, i % 600 AS minutes FROM range(2000) AS r(i);
CREATE TABLE scores AS FROM (VALUES ('north', 'tree', 810, 4)) AS s(region, model, accuracy, sensitivity)
"""  # fmt: skip
SHOP_POLICY = """
tables.ratings.privacy_unit = "user_id"
tables.reviews.privacy_unit = "user_id"
public.tables = ["calendar", "catalog", "regions"]
domains."ratings.title" = "catalog.title"
domains."ratings.day" = "calendar.day"
domains."ratings.region" = "regions.name"
budget = { dataset = "shop", epsilon = 100 }
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with duckdb.connect("shop.duckdb") as connection:
        connection.execute(MAKE_SHOP)
    Path("policy.toml").write_text(SHOP_POLICY, "utf-8")
    Path("retail.dat").write_text("bread milk \nmilk\n", "utf-8")
    return tmp_path


def blocks(language: str, text: str) -> list[str]:
    """The code blocks of a language, in order; an indented block loses its indent."""
    found = re.findall(rf"^( *)```{language}\n(.+?)^\1```", text, re.MULTILINE | re.DOTALL)
    return [re.sub(rf"^{indent}", "", block, flags=re.MULTILINE) for indent, block in found]


# What runs, and what it prints.


@pytest.mark.one_in(3)
@pytest.mark.parametrize("page", ["README.md", "sessions.md", "choosing_epsilon.md"])
def test_the_examples_of_a_page_run_in_order_and_print_what_is_shown(
    page: str, tmp_path: Path
) -> None:
    shown = re.findall(r"```python\n(.+?)```\n\n```text\n(.+?)```", TEXT[page], re.DOTALL)
    assert len(shown) == len(blocks("python", TEXT[page])) > 0
    for block, output in shown:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", block],
            cwd=tmp_path, capture_output=True, text=True, check=False, encoding="utf-8",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        printed = re.sub(r"[^\n]*▕[^\n]*\n", "", done.stdout)  # DuckDB's progress, if it takes long
        printed = re.sub(r"\n{3,}", "\n\n", printed)
        printed = printed.replace('"catalog"', "catalog")  # DuckDB 1.5 quotes it
        assert printed.strip() == output.strip()


def test_the_statements_of_the_sql_page_run_and_its_error_is_what_is_said(shop: Path) -> None:
    *good, bad = blocks("sql", SQL)
    (error,) = blocks("text", SQL)
    with dp_sql.connect("shop.duckdb") as session:
        for statement in duckdb.extract_statements(";".join(good)):
            assert session.sql(statement.query).fetchall()
        with pytest.raises(dp_sql.QueryError) as raised:
            session.sql(bad.strip())
    assert f"{type(raised.value).__name__}: {raised.value}".strip() == error.strip()


def test_the_rest_of_the_sql_page_and_of_others_runs(shop: Path) -> None:
    with dp_sql.connect("shop.duckdb") as session:
        for block in blocks("sql", TEXT["reading_answers.md"]):
            assert session.sql(block).fetchall()
        (with_parameters,) = blocks("python", SQL)
        exec(with_parameters, {"session": session, "datetime": datetime})
        assert len(session.receipts) == 3
    settings: dict[str, object] = {}
    exec(*blocks("python", TEXT["superset.md"]), settings)
    assert "SQLGLOT_DIALECTS_EXTENSIONS" in settings


def placed(refusal: str) -> list[str]:
    """The lines of a refusal; sqlglot before 29 puts a subquery's caret one character later."""
    lines = refusal.strip().splitlines()
    if int(version("sqlglot").partition(".")[0]) < 29:
        lines = [line for line in lines if not line.startswith("LINE ") and line.strip() != "^"]
    return lines


def test_the_statements_of_the_cheat_sheet_run_under_the_policy_of_the_tutorial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    library = ROOT / "examples" / "library"
    with duckdb.connect("library.duckdb") as connection:
        connection.execute((library / "library.sql").read_text("utf-8"))
    policy = (library / "policy.toml").read_text("utf-8")
    Path("policy.toml").write_text(re.sub(r"(?m)^epsilon = \d", "epsilon = 9", policy), "utf-8")
    statements = ";".join(blocks("sql", TEXT["cheat_sheet.md"])).split(";")
    with dp_sql.connect("library.duckdb", policy="policy.toml", analyst="ann") as session:
        for statement in filter(str.strip, statements):
            assert session.sql(statement).fetchall()
        assert len(session.receipts) == 16


def test_the_refusals_on_the_page_of_errors_are_what_is_said(shop: Path) -> None:
    shown = re.findall(r"```sql\n(.+?)```\n\n```text\n(.+?)```", TEXT["errors.md"], re.DOTALL)
    assert (
        len(shown)
        == len(blocks("sql", TEXT["errors.md"]))
        == len(blocks("text", TEXT["errors.md"]))
    )
    with dp_sql.connect("shop.duckdb", policy="policy.toml", analyst="ann") as session:
        for statement, refusal in shown:
            with pytest.raises(dp_sql.QueryError) as raised:
                session.sql(statement.strip())
            assert placed(with_type(raised.value)) == placed(refusal)
        assert session.receipts == ()


def test_every_error_is_on_the_page_of_errors() -> None:
    leaves = {
        kind.__name__
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.DpSqlError)
    }
    named = set(re.findall(r"^\| `(\w+)` \|", TEXT["errors.md"], re.MULTILINE))
    assert named == leaves - {"DpSqlError", "QueryError"}


def test_the_statements_shown_to_analysts_run_under_a_policy(shop: Path) -> None:
    shell = "\n".join(blocks("sql", TEXT["serve.md"]))
    inside = re.findall(r"FROM dp\(\$\$ (.+?) \$\$\)", shell)
    inline = re.findall(r"`(SELECT (?:DP_|\* FROM dp_)[^`…]+)`", TEXT["superset.md"])
    statements = [*inside, *blocks("sql", TEXT["superset.md"]), *inline]
    assert (len(inside), len(inline)) == (6, 1)
    with dp_sql.connect("shop.duckdb", policy="policy.toml", analyst="reporting") as session:
        for statement in statements:
            assert session.sql(statement).fetchall()


def test_the_cells_of_the_page_about_notebooks_run(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    analysts, owners = blocks("python", TEXT["notebooks.md"])
    exec(analysts, {})
    assert "cost       epsilon = 0.5" in capsys.readouterr().out
    exec(owners, {})
    assert capsys.readouterr().out.endswith(" 1\n")


def test_the_statements_of_the_data_page_write_files_of_people_and_items(shop: Path) -> None:
    with duckdb.connect("shop.duckdb") as connection:
        for statement in blocks("sql", TEXT["data.md"]):
            connection.execute(statement)
        for name in ("imdb_words", "retail_baskets"):
            rows = connection.sql(f"FROM '{name}.parquet'")
            assert rows.columns == ["user_id", "item"]
            assert rows.fetchall()


@cache
def help_of(command: tuple[str, ...]) -> str:
    """What `dp-sql COMMAND --help` prints."""
    done = run(*command, "--help")
    assert done.returncode == 0, done.stderr
    return done.stdout


COMMANDS = {
    "shell": (), "serve": (), "budget": (), "policy": ("init", "check"),
    "ledger": ("list", "verify", "checkpoint"), "token": ("add", "list", "remove"),
}  # fmt: skip
DEFAULTS = {(): ("shell",), ("ledger",): ("ledger", "list")}


def command_lines(text: str) -> list[list[str]]:
    """Every `dp-sql …` of a document, in blocks and within sentences, as words."""
    lines = [
        line[line.index("dp-sql ") :]
        for block in blocks("sh", text)
        for line in block.splitlines()
        if re.match(r"(?:echo .+ \| )?dp-sql ", line)
    ]
    lines += re.findall(
        r"`(dp-sql [^`]+)`", re.sub(r"^ *```.*?^ *```", "", text, flags=re.M | re.S)
    )
    return [shlex.split(line.replace("…", ""), comments=True) for line in lines]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_and_option_of_dp_sql_exists(document: Path) -> None:
    for _, *words in command_lines(document.read_text("utf-8")):
        command = words[:1] if words[:1] and words[0] in COMMANDS else []
        if command and words[1:2] and words[1] in COMMANDS[words[0]]:
            command = words[:2]
        shown = help_of(tuple(command)) + help_of(DEFAULTS.get(tuple(command), tuple(command)))
        for word in words:
            if word.startswith("-"):
                assert re.search(rf"(?<![\w-]){re.escape(word)}\b", shown), words


JUPYSQLS_OPTIONS = {"--save", "--with"}


def test_every_option_named_by_itself_exists() -> None:
    named = {name for page in TEXT.values() for name in re.findall(r"`(--[a-z-]+)", page)}
    commands = [
        (one, *more)
        for one, inner in COMMANDS.items()
        for more in [(), *((name,) for name in inner)]
    ]
    shown = {
        option for command in commands for option in re.findall(r"--[a-z-]+", help_of(command))
    }
    assert named - JUPYSQLS_OPTIONS <= shown


def test_the_options_of_the_command_line_are_on_the_page_about_it() -> None:
    options = set(re.findall(r"^  (?:-\w[^-\n]*)?(--[a-z-]+)", help_of(("shell",)), re.MULTILINE))
    assert {"--csv", "--json", "--receipts", "--read-only", "--command"} <= options
    for option in options - {"--help", "--command", "--version"}:
        assert option in TEXT["sessions.md"], option


def test_the_beliefs_in_the_budgets_document_are_those_of_bayes() -> None:
    rows = re.findall(r"^\| ([\d.]+) \| ([\d.]+) \|(.+%) \|$", TEXT["budget.md"], re.MULTILINE)
    assert len(rows) == 7
    for epsilon, factor, rest in rows:
        presence = math.exp(float(epsilon))
        *inside, action, guess = (cell.strip() for cell in rest.split("|"))
        assert float(factor) == pytest.approx(presence, rel=0.005)
        assert float(action) == pytest.approx(presence**2, rel=0.005)
        for prior, odds, belief in (
            *zip((1, 1 / 9, 1 / 99), [presence] * 3, inside, strict=True),
            (1, presence**2, guess),
        ):
            percent = f"{100 * prior * odds / (1 + prior * odds):.1f} %"
            assert belief == percent.replace("100.0", "over 99.9")  # no epsilon makes it certain


def test_the_tables_of_what_epsilon_means_for_a_person_are_computed() -> None:
    text, q = TEXT["epsilon.md"], math.exp(-1)
    law = {n: [(1 - q) / (1 + q) * q ** abs(x - n) for x in range(-99, 99)] for n in (2, 3)}
    rows = re.findall(r"^\| (\d)( or \w+)? \| (\S+) % \| (\S+) % \| (\S+) \|$", text, re.MULTILINE)
    assert len(rows) == 6
    for number, more, without, with_you, ratio in rows:
        first = int(number) + 99
        part = {
            "": slice(first, first + 1),
            " or less": slice(first + 1),
            " or more": slice(first, None),
        }
        absent, present = (sum(law[n][part[more]]) for n in (2, 3))
        assert [without, with_you] == [f"{100 * p:.1f}" for p in (absent, present)]
        assert float(ratio) == pytest.approx(present / absent, rel=0.01)
    rows = re.findall(r"^\| ([\d.]+) % \| at most (.+) % \|$", text, re.MULTILINE)
    assert len(rows) == 4
    for number, shown in rows:
        p = float(number) / 100
        most = [min(p * math.exp(e), 1 - (1 - p) * math.exp(-e)) for e in (0.1, 0.5, 1, 2, 3)]
        assert shown.split(" % | ") == [f"{100 * m:.1f}" for m in most]
