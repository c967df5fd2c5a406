"""`dp-sql budget` and `dp-sql ledger`: what they print, where it is refused, and their bars."""

import csv
import io
import json
import os
import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_sql.budget.account import BudgetRow
from dp_sql.cli.bars import bar
from dp_sql.cli.budget import bars
from dp_sql.cli.main import main
from dp_sql.sql.formatting import literal
from tests.cli.budget_shop import POLICY, TERMS, Shop, main_budget, main_ledger, output

pytestmark = pytest.mark.usefixtures("wide")


def test_a_bar_is_shown_for_all_and_for_each_analyst(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main_budget([shop.policy]) == 0
    assert output(capsys) == (
        "Budget of shop (accountant basic; no refresh)\n\n"
        "shop         █████████▌░░░░░░░░░░░░░░░░░░░░░░░░░░░░   25 %  ε 0.5 of 2 spent, 1.5 left\n"
        "  Ann B.     █▉░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░    5 %  ε 0.1 spent, no cap of its own\n"
        "  reporting  ██████████████████████████████▍░░░░░░░   80 %  ε 0.4 of 0.5 spent, 0.1 left\n"
    )


def test_rows_are_exact_in_csv_and_json(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.spend("reporting", "0.000000001")
    assert main_budget([shop.policy, "--csv"]) == 0
    header, of_all, ann, reporting = csv.reader(io.StringIO(output(capsys)))
    assert header == [
        "dataset", "analyst", "epsilon_total", "epsilon_spent", "epsilon_left",
        "delta_total", "delta_spent", "delta_left", "accountant",
    ]  # fmt: skip
    assert of_all == ["shop", "", "2", "0.500000001", "1.499999999", "0", "0", "0", "basic"]
    assert ann == ["shop", "Ann B.", "", "0.1", "", "", "0", "", "none"]
    assert reporting[1:5] == ["reporting", "0.5", "0.400000001", "0.099999999"]
    assert main_budget([shop.policy, "--json"]) == 0
    rows = json.loads(output(capsys), parse_float=Fraction)
    assert [list(row) for row in rows] == [header] * 3
    assert rows[0]["analyst"] is None and rows[1]["epsilon_total"] is None
    assert rows[0]["epsilon_left"] == Fraction("1.499999999")


def test_events_are_listed_exactly(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    assert main_ledger([shop.policy, "--csv"]) == 0
    header, *events = csv.reader(io.StringIO(output(capsys)))
    assert header == ["number", "time", "kind", "ticket", "analyst", "epsilon", "delta", "rho"]
    assert [event[2] for event in events] == [
        "opened", "reserved", "answered", "reserved", "failed", "reserved", "cancelled", "reserved",
    ]  # fmt: skip
    assert [event[0] for event in events] == [str(n) for n in range(1, 9)]
    assert {event[1] for event in events} == {"2026-11-21T19:30:05Z"}
    assert events[1][4:] == ["reporting", "0.3", "0", "0.045"]
    assert events[2][3:] == [events[1][3], "reporting", "", "", ""]
    assert main_ledger([str(shop.terms.ledger), "--json"]) == 0
    rows = json.loads(output(capsys), parse_float=Fraction)
    assert rows[1]["epsilon"] == Fraction(3, 10) and rows[0]["epsilon"] is None
    assert main_ledger([str(shop.terms.ledger)]) == 0
    lines = output(capsys).splitlines()
    assert len(lines) == 9 and lines[0].split() == header
    assert lines[2].split()[4:] == ["reporting", "0.3", "0", "0.045"]


def test_a_name_that_would_move_the_cursor_is_written_out(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.spend("\x1b[2J\nall", "0.1")
    for run in (main_budget, main_ledger):
        assert run([shop.policy]) == 0
        shown = output(capsys)
        assert "\x1b" not in shown and r"\u001b[2J\nall" in shown


def test_a_whole_ledger_is_reported_with_its_events(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main_ledger(["verify", shop.policy]) == 0
    whole = f"{shop.terms.ledger} is intact: 8 events of shop, and its checkpoint agrees.\n"
    assert output(capsys) == whole
    moved = shop.terms.checkpoint.rename(shop.terms.checkpoint.with_name("elsewhere"))
    for option in ("--checkpoint", "--witness"):  # the second is its older name
        assert main_ledger(["verify", str(shop.terms.ledger), option, str(moved)]) == 0
        assert output(capsys) == whole


def test_a_changed_event_is_found_and_nothing_is_shown(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(shop.terms.ledger)) as file, file:
        triggers = file.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'events'"
        ).fetchall()
        for name, _ in triggers:
            file.execute(f"DROP TRIGGER {name}")
        file.execute("UPDATE events SET epsilon = 1 WHERE number = 2")
        for _, sql in triggers:
            file.execute(sql)
    file.close()
    assert main_ledger(["verify", shop.policy]) == 1
    assert re.match(r"LedgerError: Event 2 of the ledger ", output(capsys, wrong=True))


def test_an_older_copy_is_refused_by_every_command(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = shop.terms.ledger.read_bytes()
    shop.spend("reporting", "0.1")
    shop.terms.ledger.write_bytes(kept)
    for arguments in (["verify", shop.policy], ["checkpoint", shop.policy], [shop.policy]):
        assert main_ledger(arguments) == 1
        assert output(capsys, wrong=True).startswith("LedgerError: ")
    assert main_budget([shop.policy, "--csv"]) == 1
    assert output(capsys, wrong=True).startswith("LedgerError: ")


@pytest.mark.parametrize("command", ["checkpoint", "witness"])  # the second is its older name
def test_a_lost_checkpoint_is_written_anew(
    command: str, shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.terms.checkpoint.unlink()
    assert main_ledger(["verify", shop.policy]) == 1
    assert "dp-sql ledger checkpoint" in output(capsys, wrong=True)
    assert main_budget([shop.policy]) == 1
    assert "dp-sql ledger checkpoint" in output(capsys, wrong=True)
    assert main_ledger([command, shop.policy]) == 0
    assert output(capsys) == (
        f"{shop.terms.checkpoint} is now the checkpoint of {shop.terms.ledger} (8 events of shop).\n"
    )
    assert main_ledger(["verify", shop.policy]) == 0


def test_a_policy_of_another_dataset_is_refused(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(shop.policy)
    ledger = f'ledger = "{shop.terms.ledger}"'
    path.write_text(POLICY.format(more=ledger).replace("shop", "farm", 1))
    for run, arguments in (
        (main_budget, []), (main_ledger, []), (main_ledger, ["verify"]), (main_ledger, ["checkpoint"]),
    ):  # fmt: skip
        assert run([*arguments, shop.policy]) == 1
        shown = output(capsys, wrong=True)
        assert shown.startswith("LedgerError: ") and '"shop"' in shown and '"farm"' in shown


def test_a_ledger_is_never_made_or_changed(
    shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = shop.terms.ledger.read_bytes(), shop.terms.checkpoint.read_bytes()
    for run in (main_budget, main_ledger):
        run([shop.policy])
    main_ledger(["verify", shop.policy])
    capsys.readouterr()
    assert before == (shop.terms.ledger.read_bytes(), shop.terms.checkpoint.read_bytes())
    new = Path(shop.policy).rename(tmp_path / "new.toml")
    new.write_text(POLICY.format(more="").replace("shop", "farm"))
    missing = str(tmp_path / "new.ledger.sqlite")
    files = sorted(tmp_path.iterdir())
    for run, arguments in (
        (main_budget, [str(new)]), (main_ledger, [str(new)]), (main_ledger, [missing]),
        (main_ledger, ["verify", str(new)]), (main_ledger, ["checkpoint", missing]),
    ):  # fmt: skip
        assert run(arguments) == 1
        shown = output(capsys, wrong=True)
        assert shown.startswith("LedgerError: ") and "new.ledger.sqlite" in shown
    assert sorted(tmp_path.iterdir()) == files


def test_a_policy_without_a_budget_has_none_to_show(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.TOML"
    path.write_text("[limits]\nmax_k = 3\n")
    for run in (main_budget, main_ledger):
        assert run([str(path)]) == 1
        assert "has no [budget]: analysts may spend without limit" in output(capsys, wrong=True)
    assert main_budget([str(tmp_path / "none.toml")]) == 1
    assert "cannot be read: No such file" in output(capsys, wrong=True)


def test_a_policys_checkpoint_is_not_given_twice(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main_ledger(["verify", shop.policy, "--checkpoint", "x"]) == 1
    assert "--checkpoint is for a ledger" in output(capsys, wrong=True)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "Missing argument 'LEDGER'"),
        (["verify"], "Missing argument 'LEDGER'"),
        (["drop", "x"], "unexpected extra argument (x)"),
        (["verify", "x", "y"], "unexpected extra argument (y)"),
        (["verify", "x", "--csv"], "No such option"),
    ],
)
def test_wrong_usage_of_ledger_is_exit_code_two(
    arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main_ledger(arguments) == 2
    assert why in output(capsys, wrong=True)


def test_help_has_examples_and_says_that_nothing_is_changed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for run, words in (
        (main_budget, ("dp-sql budget policy.toml --plot burn.png", "stays as it is")),
        (
            main_ledger,
            (
                "dp-sql ledger verify policy.toml",
                "checkpoint LEDGER",
                "--checkpoint /mnt",
                "LEDGER.witness",
            ),
        ),
    ):
        assert run(["--help"]) == 0
        shown = output(capsys)
        assert all(word in shown for word in words)
        assert max(map(len, shown.splitlines())) <= 100


@settings(deadline=None)
@given(st.fractions(0, 2), st.integers(1, 60))
def test_a_bar_is_full_or_empty_only_where_it_is_true(share: Fraction, width: int) -> None:
    drawn = bar(share, width)
    assert len(drawn) == width
    assert (drawn == "█" * width) == (share >= 1)
    assert (drawn == "░" * width) == (share == 0)


@settings(deadline=None)
@given(st.integers(-(10**30), 10**30), st.integers(0, 40))
def test_decimals_are_exact(n: int, places: int) -> None:
    text = literal(Fraction(n, 10**places))
    assert Fraction(text) == Fraction(n, 10**places) and re.fullmatch(r"-?\d+(\.\d*[1-9])?", text)


@pytest.mark.parametrize("width", [1, 40, 80, 400])
def test_bars_keep_to_their_width_where_it_is_wide_enough(width: int) -> None:
    spent, small = Fraction(99, 100), Fraction(1, 10**9)
    row = BudgetRow(
        "shop", None, Fraction(1), spent, 1 - spent, Fraction(1, 10**6), small, small, "zcdp"
    )
    none = replace(row, analyst="x" * 70, epsilon_total=None, epsilon_left=None, delta_total=None)
    _, _, whole, own = bars([row, none], replace(TERMS, accountant="zcdp"), width).splitlines()
    assert whole.endswith("99 %  ε 0.99 of 1 spent, 0.01 left; δ 1e-9 of 1e-6")
    assert own.endswith("  ε 0.99 spent, no cap of its own; δ 1e-9") and "%" not in own
    assert len(whole) <= max(width, 26 + 10 + 11 + 45)
    assert "x" * 23 + "…" in own and "█" not in own


def test_a_budget_that_was_lowered_is_shown_as_more_than_spent() -> None:
    row = BudgetRow(
        "shop", None, Fraction(1), Fraction(3, 2), Fraction(0), Fraction(0), Fraction(0),
        Fraction(0), "basic",
    )  # fmt: skip
    assert "███  150 %  ε 1.5 of 1 spent, 0 left" in bars([row], TERMS, 80)


def test_the_heading_has_the_refresh_and_the_release_epsilon() -> None:
    terms = replace(TERMS, accountant="pld", release_epsilon=Fraction(1, 10), monthly=True)
    row = BudgetRow("shop", None, Fraction(1), *[Fraction(0)] * 5, "pld")
    heading = bars([row], terms, 80).splitlines()[0]
    assert heading == (
        "Budget of shop (accountant pld, each release as epsilon 0.1; "
        "refresh monthly: figures of this month (UTC))"
    )


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("budget", "sentence"),
    [
        ("", "There is no [budget]: analysts may spend without limit.\n"),
        (
            '[budget]\ndataset = "shop"\nepsilon = 1\n',
            "The ledger and its checkpoint are in the same",
        ),
        ('[budget]\ndataset = "shop"\nepsilon = 1\nwitness = "{elsewhere}/w"\n', ""),
    ],
)
def test_policy_check_says_what_the_budget_lacks(
    budget: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database, policy = str(tmp_path / "shop.duckdb"), tmp_path / "p.toml"
    with duckdb.connect(database) as connection:
        connection.execute("CREATE TABLE ratings (user_id BIGINT, title VARCHAR)")
    given = budget.replace("{elsewhere}", str(tmp_path.parent))
    policy.write_text(f'[tables.ratings]\nprivacy_unit = "user_id"\n{given}')
    assert main(["policy", "check", str(policy), database]) == 0
    _, _, _, *advice = output(capsys).splitlines(keepends=True)  # after work and spilling
    assert (advice[0] if advice else "").startswith(sentence) and len(advice) == bool(sentence)
    assert sorted(tmp_path.iterdir()) == [policy, Path(database)]


def test_a_reader_that_stops_is_no_error(
    shop: Shop, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w", buffering=1) as closed:
        monkeypatch.setattr("sys.stdout", closed)
        assert main_ledger([shop.policy, "--csv"]) == 1
    assert capfd.readouterr().err == ""
