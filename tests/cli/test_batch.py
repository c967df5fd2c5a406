"""`dp-sql shell` without a terminal: -c and standard input, forms, dot commands, exit codes."""

import csv
import io
import json
import resource
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import dp_sql
from dp_sql.cli.main import main
from dp_sql.cli.shell.meta_commands import META_COMMANDS
from dp_sql.cli.shell.output import MODES
from dp_sql.cli.shell.run import Write, accuracy_notes, cost_note, progress_percent
from dp_sql.cli.shell.run import run as run_work
from dp_sql.cli.shell.state import Shell
from tests.conftest import READING_LOG, SURE
from tests.databases import write_database

TOP = (
    f"SELECT unnest(DP_TOPK(title, 2, {SURE}, privacy_unit := user_id, domain := catalog.title)) "
    "AS title FROM ratings"
)
ASKED = "SELECT DP_TOPK(title, 2, epsilon := 0.5) AS best FROM ratings"
POLICY = """
tables.ratings.privacy_unit = "user_id"
public.tables = ["catalog"]
domains."ratings.title" = "catalog.title"
[budget]
dataset = "shop"
epsilon = 3
[budget.analysts.reporting]
epsilon = 1
"""
HIDDEN = "CREATE TABLE payroll AS SELECT 'Ann' AS employee, 4711 AS salary"


@pytest.fixture
def database(tmp_path: Path) -> str:
    path = write_database(tmp_path / "shop.duckdb", READING_LOG + HIDDEN)
    (tmp_path / "policy.toml").write_text(POLICY, encoding="utf-8")
    return path


@pytest.fixture
def analyst(database: str) -> list[str]:
    return [database, "--policy", str(Path(database).with_name("policy.toml")), "--as", "reporting"]


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the shell in this process: its exit code, standard output and standard error."""

    def run(*arguments: str, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        code = main(["shell", *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_a_question_is_answered_in_duckdbs_rendering(run: Run, database: str) -> None:
    code, out, err = run(database, "-c", TOP)
    assert (code, err) == (0, "")
    assert "│ Dune    │" in out and out.index("Dune") < out.index("Emma")


def test_standard_input_is_run(run: Run, database: str) -> None:
    code, out, err = run(database, "--csv", stdin=f"-- two\nSELECT 1 AS one;\n{TOP};\n")
    assert (code, out, err) == (0, "one\n1\ntitle\nDune\nEmma\n", "")


def test_a_proposed_statement_ends_with_a_semicolon_as_it_is_typed(
    run: Run, analyst: list[str]
) -> None:
    code, out, err = run(*analyst, "-c", "SELECT count(*) FROM ratings;")
    assert (code, out) == (1, "")
    assert err.endswith("Write instead:\nSELECT DP_COUNT(*, epsilon := 1) FROM ratings;\n")


def test_help_without_its_dot_leads_to_the_list_of_commands(run: Run) -> None:
    assert run("-c", "help;") == (0, "", "Write .help, with a dot: it lists the commands.\n")


def test_each_c_is_run_up_to_the_first_that_fails(run: Run) -> None:
    assert run("--csv", "-c", "SELECT 7 AS a", "-c", "SELECT 8 AS a") == (0, "a\n7\na\n8\n", "")
    code, out, _ = run("--csv", "-c", "SELECT 7 AS a", "-c", "SELECT b", "-c", "SELECT 8 AS a")
    assert (code, out) == (1, "a\n7\n")


def test_the_first_failure_ends_the_run_with_exit_code_one(run: Run, database: str) -> None:
    code, out, err = run(database, "-c", "SELECT 7 AS a; SELECT nothing FROM ratings; SELECT 8")
    assert code == 1 and "7" in out and "8" not in out
    assert "Binder Error" in err and "^" in err
    code, out, err = run(database, "-c", TOP.replace("10000", "0"))
    assert code == 1 and err.startswith("ArgumentError: epsilon must be a number") and "^" in err
    code, _, err = run(str(Path(database).parent / "no" / "x.duckdb"), "-c", "SELECT 1")
    assert code == 1 and "IO Error" in err


@pytest.mark.thorough
@pytest.mark.parametrize("closed", [">&-", "1</dev/null"])
def test_nothing_runs_if_standard_output_is_closed(analyst: list[str], closed: str) -> None:
    command = [sys.executable, "-m", "dp_sql", "shell", *analyst, "-c", ASKED]
    done = subprocess.run(
        ["sh", "-c", f"exec {shlex.join(command)} {closed}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == "Standard output is closed, so no answer could be read; open it.\n"
    database, _, policy, *_ = analyst
    with dp_sql.connect(database, policy=policy, analyst="reporting") as session:
        assert session.budget()[0].epsilon_spent == 0


def test_a_closed_standard_input_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["shell"]) == 1
    assert capsys.readouterr().err == 'Standard input is closed; use -c "SQL".\n'
    assert main(["shell", "--csv", "-c", "SELECT 1 AS n"]) == 0


def test_the_quit_key_stops_no_statement() -> None:
    def work(write: Write) -> None:
        signal.raise_signal(signal.SIGQUIT)
        write("done")

    before = signal.getsignal(signal.SIGQUIT)
    said: list[str] = []
    run_work(work, said.append, lambda: None, lambda: None, None)
    assert said == ["done"]
    assert signal.getsignal(signal.SIGQUIT) == before


def test_no_core_file_is_left_under_a_policy(
    run: Run, analyst: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda _, limit: limits.append(limit))
    run(analyst[0], "-c", "SELECT 1")
    assert limits == []
    run(*analyst, "-c", "SELECT 1 AS n")
    assert limits == [(0, resource.getrlimit(resource.RLIMIT_CORE)[1])]


def test_an_empty_input_is_no_error(run: Run, database: str) -> None:
    assert run(database, "-c", "") == (0, "", "")
    assert run(database, stdin="-- a thought\n") == (0, "", "")


def test_csv_is_read_back_as_it_was(run: Run) -> None:
    values = "SELECT 'a,b' AS \"x,y\", 'q\"q' AS b, E'one\\ntwo' AS c, '' AS d, NULL AS e, 1.5 AS f"
    code, out, _ = run("--csv", "-c", values)
    assert code == 0 and out.endswith(',"",,1.5\n')  # an empty text is not NULL
    assert list(csv.reader(io.StringIO(out))) == [
        ["x,y", "b", "c", "d", "e", "f"],
        ["a,b", 'q"q', "one\ntwo", "", "", "1.5"],
    ]


def test_json_is_an_array_of_rows_also_of_many_and_of_none(run: Run) -> None:
    _, out, _ = run("--json", "-c", "SELECT i, [i] AS l, NULL AS n FROM range(3000) AS r(i)")
    rows = json.loads(out)
    assert len(rows) == 3000 and rows[2999] == {"i": 2999, "l": [2999], "n": None}
    assert json.loads(run("--json", "-c", "SELECT 1 AS x WHERE false")[1]) == []


def test_markdown_and_lines(run: Run) -> None:
    values = "SELECT 'a|b' AS text, 7 AS n, NULL::VARCHAR AS nothing"
    table = "| text | n | nothing |\n| --- | ---: | --- |\n| a\\|b | 7 | NULL |\n"
    assert run("--markdown", "-c", values)[1] == table
    assert run("-c", f".mode line\n{values};")[1] == (
        "   text = a|b\n      n = 7\nnothing = NULL\n"
    )


def test_json_keeps_every_column_and_has_no_nan(run: Run) -> None:
    for query, row in (
        ('SELECT 7 AS "__DP_row", 8 AS __dp_row_, 9 AS b', {"__DP_row": 7, "__dp_row_": 8, "b": 9}),
        ("SELECT 1 AS a, 2 AS a, 3 AS A", {"a": 1, "a_1": 2, "A_2": 3}),
        (
            "SELECT ['nan'::FLOAT, '-inf'::FLOAT] AS l, {'n': 'inf'::DOUBLE} AS s, "
            "'NaN \" Infinity' AS t, 1.50::DECIMAL(3, 2) AS d",
            {"l": [None, None], "s": {"n": None}, "t": 'NaN " Infinity', "d": 1.5},
        ),
    ):
        _, out, _ = run("--json", "-c", query)
        assert json.loads(out, parse_constant=pytest.fail) == [row]


def test_markdown_keeps_a_cell_in_its_place(run: Run) -> None:
    values = "SELECT E'a\\\\|b' AS x, E'one\rtwo\r\nthree\nfour' AS y, 1 AS a, 2 AS a"
    _, out, _ = run("--markdown", "-c", values)
    assert out.splitlines()[0] == "| x | y | a | a |"
    assert out.splitlines()[2] == "| a\\\\\\|b | one<br>two<br>three<br>four | 1 | 2 |"


@pytest.mark.one_in(3)
@pytest.mark.parametrize("mode", MODES)
def test_each_mode_reads_a_result_once(run: Run, database: str, mode: str) -> None:
    prepared = f"PREPARE p AS {TOP}; EXECUTE p;"  # here each reading is a release
    code, out, err = run(database, "--receipts", "-c", f".mode {mode}\n{prepared}")
    assert code == 0 and "Dune" in out
    assert err.count("mechanism  joint") == 1


def test_variables_of_the_shell_are_no_tables(run: Run) -> None:
    for name in ("shell", "session", "text", "relation", "sys"):
        code, _, err = run("-c", f"FROM {name}")
        assert code == 1 and f"{name} does not exist" in err


def test_tables_and_schemas_of_the_owner(run: Run, database: str) -> None:
    _, out, _ = run(database, "-c", ".tables\n.tables cat%")
    assert out == "table  catalog\ntable  payroll\ntable  ratings\ntable  catalog\n"
    code, out, _ = run(database, "-c", f"{TOP};\n.schema catalog")
    assert code == 0 and out.endswith("(title VARCHAR);\n") and "__dp" not in out
    code, _, err = run(database, "-c", ".schema ctlg")
    assert code == 1 and "There is no table like ctlg" in err


def test_dot_commands_say_what_would_work(run: Run, database: str) -> None:
    for line, told in (
        (".mdoe csv", "Did you mean .mode?"),
        (".open x.duckdb", "There is no command .open. .help lists them."),
        (".mode xml", "table, csv, json, markdown, line"),
        (".timer soon", "on or off"),
        (".explain", "there is none"),
        (".explain SELECT 1", "has none"),
        (".budget", "--ledger"),
        (".read", ".read queries.sql"),
        (".read no/such.sql", "cannot be read"),
    ):
        code, _, err = run(database, "-c", line)
        assert code == 1 and told in err and "Traceback" not in err


def test_help_lists_every_command(run: Run) -> None:
    _, out, _ = run("-c", ".help")
    assert all(f"{c.name} " in out and c.help in out for c in META_COMMANDS)


def test_read_and_output_go_through_files(run: Run, tmp_path: Path) -> None:
    questions, answers = tmp_path / "some questions.sql", tmp_path / "answers.csv"
    questions.write_text(".mode csv\nSELECT 1 AS one;\nSELECT 2 AS two;\n", encoding="utf-8")
    work = f".output '{answers}'\n.read '{questions}'\n.output\nSELECT 3 AS three;"
    code, out, err = run("-c", work)
    assert (code, out, err) == (0, "three\n3\n", "")
    assert answers.read_text(encoding="utf-8") == "one\n1\ntwo\n2\n"


def test_a_file_that_reads_itself_ends(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "again.sql"
    path.write_text(f".read {path}\n", encoding="utf-8")
    code, _, err = run("-c", f".read {path}")
    assert code == 1 and "at most 10 deep" in err


def test_explain_costs_nothing_and_the_budget_is_drawn(run: Run, analyst: list[str]) -> None:
    code, out, _ = run(*analyst, "-c", f".explain {ASKED}")
    assert code == 0 and "cost       epsilon = 0.5" in out
    assert "no releases yet" in run(*analyst, "-c", ".receipts")[2]
    code, out, _ = run(*analyst, "-c", f"{ASKED};\n.explain\n.budget")
    assert code == 0 and "left       epsilon = 0.5 of 1 for reporting; 0 after" in out
    assert "ε 0.5 of 1 spent, 0.5 left" in out and "ε 0.5 of 3 spent" in out


@pytest.mark.thorough
def test_analyst_is_another_name_of_as(run: Run, analyst: list[str]) -> None:
    named = ["--analyst" if one == "--as" else one for one in analyst]
    assert run(*named, "-c", ".budget") == run(*analyst, "-c", ".budget")
    assert run(*named, "-c", ".tables")[0] == 0


def test_an_analyst_sees_what_the_policy_names(run: Run, analyst: list[str]) -> None:
    code, out, err = run(*analyst, "-c", ".tables\n.schema")
    assert (code, err) == (0, "")
    assert "private  ratings\npublic   catalog\n" in out and "  user_id BIGINT\n" in out
    for line in (".tables payroll", ".schema payroll", "FROM payroll", "DESCRIBE payroll"):
        code, out, err = run(*analyst, "-c", line)
        assert (code, out) == (1, "")
        assert "employee" not in err and "4711" not in err


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "line",
    [".read {policy}", ".output {policy}", ".read {database}", ".out {database}", ".read ~"],
)
def test_under_a_policy_no_file_is_opened(run: Run, analyst: list[str], line: str) -> None:
    database, _, policy, *_ = analyst
    before = Path(policy).read_bytes(), Path(database).read_bytes()
    code, out, err = run(*analyst, "-c", line.format(policy=policy, database=database))
    assert (code, out) == (1, "") and "opens no files" in err
    assert before == (Path(policy).read_bytes(), Path(database).read_bytes())


@pytest.mark.one_in(3)
@pytest.mark.parametrize("mode", MODES)
def test_an_analysts_result_comes_in_every_mode(run: Run, analyst: list[str], mode: str) -> None:
    sure = "SELECT title FROM catalog WHERE title = 'Emma'"
    code, out, err = run(*analyst, "-c", f".mode {mode}\n{sure}")
    assert (code, err) == (0, "") and "Emma" in out


def test_the_cost_note_agrees_with_the_ledger(analyst: list[str], tmp_path: Path) -> None:
    database, _, policy, *_ = analyst
    with dp_sql.connect(database, ledger=tmp_path / "book.sqlite") as owner:
        owner.sql(TOP)
        owner.sql(TOP)
        note = cost_note(owner, 0, (), TOP, answered=True)
    assert note == "spent epsilon = 20000; in this ledger: epsilon 20000"
    Path(policy).write_text(POLICY.replace("epsilon = 3", "epsilon = 3\nkeep_releases = true"))
    left = "left: epsilon 0.5 of 1 for reporting, epsilon 2.5 of 3 for all together"
    with dp_sql.connect(database, policy=policy, analyst="reporting") as session:
        budget = session.budget()
        session.sql(ASKED)
        # Were it stopped now, it would have cost the same.
        stopped = cost_note(session, 1, budget, ASKED, answered=False)
        assert stopped == f"spent, although there is no answer; {left}"
        budget = session.budget()
        session.sql(ASKED)
        assert cost_note(session, 1, budget, ASKED, answered=True) == f"spent nothing; {left}"
        assert cost_note(session, 1, budget, ASKED, answered=False) is None
        assert cost_note(session, 1, budget, f"EXPLAIN {ASKED}", answered=True) is None


def test_a_bare_count_is_offered_a_report_by_explain_and_by_the_shell(analyst: list[str]) -> None:
    offer = "; add report := true to get a lower bound with the answer"
    with dp_sql.connect(analyst[0]) as owner:
        bare = "SELECT DP_COUNT_DISTINCT(title, epsilon := 1, privacy_unit := user_id) FROM ratings"
        (cost,) = owner.explain(bare).calls
        owner.sql(bare)
        told = owner.receipts[0].accuracy + offer.replace("add", "next time, add")
        assert list(accuracy_notes(owner.receipts, bare)) == [told]
        assert cost.accuracy == owner.receipts[0].accuracy + offer
        full = bare.replace("user_id)", "user_id, report := true)")
        owner.sql(full)
        assert list(accuracy_notes(owner.receipts[1:], full)) == []
        assert offer not in str(owner.explain(full))
        owner.sql(TOP)
        assert list(accuracy_notes(owner.receipts[2:], TOP)) == [owner.receipts[2].accuracy]
        first, *_ = accuracy_notes(owner.receipts, f"{bare}, {TOP}")
        assert first == f"dp_count_distinct(title): {told}"


def test_an_analyst_sees_no_progress(analyst: list[str]) -> None:
    database, _, policy, *_ = analyst
    with dp_sql.connect(database, policy=policy, analyst="reporting") as session:
        shell = Shell(session, "table")
        assert progress_percent(shell) is None
    with dp_sql.connect(database) as owner:
        shell = Shell(owner, "table")
        assert progress_percent(shell) == -1.0


def test_without_prompt_toolkit_the_shell_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "dp_sql.cli.shell.prompt", raising=False)
    monkeypatch.setitem(sys.modules, "prompt_toolkit", None)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    assert main(["shell"]) == 1
    assert "[shell]'" in capsys.readouterr().err


def test_help_shows_what_works(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shell", "--help"]) == 0
    shown = capsys.readouterr().out
    for option in ("--csv", "--json", "--markdown", "--policy", "--as", "--ledger", "--receipts"):
        assert option in shown
