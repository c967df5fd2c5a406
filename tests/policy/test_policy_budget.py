"""The [budget] of a policy: what is read, exactly, and what is refused with its line."""

import math
import re
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_sql.budget.accountants import accountant
from dp_sql.budget.amounts import Spent, amount_of
from dp_sql.budget.model import Cap, Terms
from dp_sql.engines.duckdb.introspection import DatabaseCatalog
from dp_sql.errors import PolicyError
from dp_sql.policy.budget_section import ACCOUNTANTS, BudgetKeys, CapKeys, advice
from dp_sql.policy.model import parse_policy, read_policy
from dp_sql.policy.parser import keys_of
from dp_sql.policy.template import draft
from dp_sql.udfs.mechanism import PrivacyLoss

WHOLE = """\
[budget]
dataset = "shop-2026"
epsilon = 1.5
delta = 1e-6
accountant = "pld"
release_epsilon = 0.1
discovery_share = 0.25
refresh = "monthly"
keep_releases = true
ledger = "ledgers/shop.sqlite"
checkpoint = "/mnt/b/shop.checkpoint"
[budget.analysts.reporting]
epsilon = 0.3
delta = 1e-7
[budget.analysts."Änne B."]
epsilon = 1.5
"""
SHORT = '[budget]\ndataset = "shop"\nepsilon = 1\n'


def terms_of(text: str, folder: Path = Path("/srv/shop")) -> Terms:
    budget = parse_policy(text, file=folder / "p.toml").budget
    assert budget is not None
    return budget


def test_every_key_is_read_exactly() -> None:
    assert terms_of(WHOLE) == Terms(
        dataset="shop-2026",
        total=Cap(Fraction(3, 2), Fraction(1, 10**6)),
        ledger=Path("/srv/shop/ledgers/shop.sqlite"),
        checkpoint=Path("/mnt/b/shop.checkpoint"),
        analysts={
            "reporting": Cap(Fraction(3, 10), Fraction(1, 10**7)),
            "Änne B.": Cap(Fraction(3, 2), Fraction(0)),
        },
        accountant="pld",
        release_epsilon=Fraction(1, 10),
        discovery_share=Fraction(1, 4),
        monthly=True,
        keep_releases=True,
    )


def test_the_whole_example_has_every_key() -> None:
    assert set(keys_of(BudgetKeys)) - {"analysts"} == set(
        re.findall(r"^(\w+) =", WHOLE, re.MULTILINE)
    ) and set(keys_of(CapKeys)) <= set(keys_of(BudgetKeys))


def test_what_is_left_out_is_strict_and_for_good() -> None:
    assert terms_of(SHORT) == Terms(
        dataset="shop",
        total=Cap(Fraction(1), Fraction(0)),
        ledger=Path("/srv/shop/p.ledger.sqlite"),
        checkpoint=Path("/srv/shop/p.ledger.sqlite.witness"),
        analysts={},
        accountant="basic",
        release_epsilon=None,
        discovery_share=Fraction(0),
        monthly=False,
        keep_releases=False,
    )


def test_a_policy_without_a_budget_promises_none() -> None:
    assert parse_policy("[limits]\nmax_k = 3\n").budget is None


def test_a_checkpoint_follows_its_ledger() -> None:
    assert terms_of(f'{SHORT}ledger = "/x/y"\n').checkpoint == Path("/x/y.witness")


def test_the_older_name_of_the_checkpoint_is_still_read() -> None:
    assert terms_of(f'{SHORT}witness = "/x/y"\n').checkpoint == Path("/x/y")
    for both in ('witness = "a"\ncheckpoint = "b"', 'checkpoint = "b"\nwitness = "a"'):
        with pytest.raises(PolicyError, match="line 5: witness means checkpoint; write one"):
            terms_of(f"{SHORT}{both}\n")


def test_paths_begin_at_the_policys_folder_for_every_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "p.toml").write_text(SHORT)
    monkeypatch.chdir(tmp_path)
    read = read_policy("p.toml").budget
    assert read is not None and read.ledger == tmp_path / "p.ledger.sqlite"
    monkeypatch.chdir("/")
    assert read_policy(tmp_path / "p.toml").budget == read
    assert terms_of(SHORT, Path()).ledger == Path("/p.ledger.sqlite")


def test_a_policy_has_one_ledger_by_whatever_name_it_is_found(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(SHORT)
    (tmp_path / "away").mkdir()
    (tmp_path / "away" / "q.toml").symlink_to(tmp_path / "p.toml")
    linked = read_policy(tmp_path / "away" / "q.toml").budget
    assert linked == read_policy(tmp_path / "p.toml").budget
    renamed = terms_of(SHORT.replace("shop", "shop2"))
    assert renamed.ledger == terms_of(SHORT).ledger


def test_an_analysts_name_is_any_string_and_case_counts() -> None:
    text = f'{SHORT}[budget.analysts.ann]\nepsilon = 1\n[budget.analysts."Ann; x\'s"]\nepsilon = 1'
    assert set(terms_of(text).analysts) == {"ann", "Ann; x's"}


@settings(deadline=None)
@given(nanos=st.integers(1, 10**15))
def test_epsilon_keeps_its_decimals(nanos: int) -> None:
    whole, rest = divmod(nanos, 10**9)
    text = f'[budget]\ndataset = "s"\nepsilon = {whole}.{rest:09}\n'
    assert terms_of(text).total.epsilon == Fraction(nanos, 10**9)


PLD = '[budget]\ndataset = "s"\nepsilon = 1\ndelta = 1e-6\naccountant = "pld"\n'
ONE = f"{SHORT}[budget.analysts.a]\n"
ABOVE_ZERO = "epsilon must be a number from 1e-9 to 1000000"
REFUSED = [
    ("[budget]", 1, r'needs dataset: your name for these people.s data; same people, same name, as in dataset = "shop"; and epsilon: the most that all'),
    ('budget = "all"', 1, r"budget must be a section: \[budget\]"),
    ('[[budget]]\ndataset = "s"', 1, r"budget must be a section: \[budget\]"),
    ('[budget]\ndataset = "s"', 1, r"budget needs epsilon: the most that all analysts together"),
    (f"{SHORT}epsilom = 2", 4, r"Unknown key epsilom\. Did you mean epsilon\? Known here: dataset,"),
    (f"{SHORT}refreshed = 1", 4, r"Did you mean refresh\?"),
    *(
        (f'[budget]\ndataset = {name}\nepsilon = 1', 2, "dataset must be a name of at most 64")
        for name in ('""', '"my shop"', '"ü"', '"a/b"', '"a\\nb"', f'"{"x" * 65}"', "7", '["s"]')
    ),
    *(
        (f'[budget]\ndataset = "s"\nepsilon = {epsilon}', 3, ABOVE_ZERO)
        for epsilon in (
            "0", "-0.0", "-1", "nan", "inf", "1e-320", "1e400", "1e-400000000", "1e-10",
            "1000000.1", '"1"', "true", "[1]", "1979-05-27",
        )
    ),
    *(
        (f"{SHORT}delta = {delta}", 4, "delta must be 0, or a number from 1e-18 to below 0.001")
        for delta in ("-1e-9", "1e-3", "0.5", "1e-19", "1e-320", "nan", '"0"', "false")
    ),
    (f'{SHORT}accountant = "zcpd"', 4, r'one of "basic", "zcdp", "pld"\. Did you mean zcdp\?'),
    (f"{SHORT}accountant = 1", 4, r'accountant must be one of "basic", "zcdp", "pld"\.$'),
    (f'{SHORT}accountant = "zcdp"', 4, r'"zcdp" needs a delta above 0, as in delta = 1e-9'),
    (f'{SHORT}accountant = "pld"\ndelta = 0', 4, r'"pld" needs a delta above 0'),
    (PLD, 5, r"needs release_epsilon: what every release is charged as"),
    (f"{PLD}release_epsilon = 0", 6, "release_epsilon must be a number from 1e-9 to 1"),
    (f"{PLD}release_epsilon = 1.1", 6, "release_epsilon must be a number from 1e-9 to 1"),
    (f"{SHORT}release_epsilon = 0.1", 4, 'release_epsilon is for accountant = "pld" only'),
    (f"{SHORT}discovery_share = 1", 4, "discovery_share must be a number from 0.001 to 0.9"),
    (f"{SHORT}discovery_share = 0", 4, "discovery_share must be a number from 0.001 to 0.9"),
    (f'{SHORT}refresh = "weekly"', 4, 'refresh must be "monthly"'),
    (f"{SHORT}refresh = true", 4, 'refresh must be "monthly"'),
    (f'{SHORT}keep_releases = "yes"', 4, "keep_releases must be true or false"),
    (f"{SHORT}keep_releases = 1", 4, "keep_releases must be true or false"),
    (f'{SHORT}ledger = ""', 4, "ledger must be the path of a file"),
    (f'{SHORT}ledger = "a\\u0000"', 4, "ledger must be the path of a file"),
    (f'{SHORT}checkpoint = "~/w"', 4, "~ is not expanded"),
    (f"{SHORT}checkpoint = true", 4, "checkpoint must be the path of a file, such as"),
    (f'{SHORT}ledger = "l"\ncheckpoint = "b/../l"', 5, "The checkpoint must be a file of its own"),
    (f'{SHORT}ledger = "l"\ncheckpoint = "l-wal"', 5, "The checkpoint must be a file of its own"),
    (f"{SHORT}analysts = 1", 4, r"must be sections: \[budget.analysts.reporting\]"),
    (f"{SHORT}[budget.analysts]\nann = 1", 5, r"ann must be a section: \[budget.analysts.ann\]"),
    (f'{SHORT}[budget.analysts." "]\nepsilon = 1', 4, "name cannot be empty"),
    (ONE, 4, "budget.analysts.a needs epsilon: the most that this analyst may spend, as in epsilon = 0.5"),
    (f"{SHORT}[budget.analysts.a.b]\nepsilon = 1", 4, r'in quotes: \[budget.analysts."a.b"\]'),
    (f"{ONE}epsilon = 1\nrefresh = 1", 6, r"Unknown key refresh\. Known here: epsilon, delta\."),
    (f"{ONE}epsilon = 0", 5, ABOVE_ZERO),
    (f"{ONE}epsilon = 1.000000001", 5, r"never be reached: .* spend 1 \(\[budget\], epsilon\)"),
    (f"{ONE}epsilon = 1\ndelta = 1e-9", 6, r"This delta could never be reached: .* spend 0 "),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "why"), REFUSED)
def test_what_no_budget_says_is_refused_with_its_line(text: str, line: int, why: str) -> None:
    with pytest.raises(PolicyError, match=why) as raised:
        parse_policy(text, "p.toml")
    assert str(raised.value).startswith(f"p.toml, line {line}: ")


@pytest.mark.parametrize(
    "text",
    [
        f"{PLD.replace('pld', 'zcdp')}[budget.analysts.a]\nepsilon = 1\ndelta = 1e-6",
        f"{PLD}release_epsilon = 1",
        f"{ONE}epsilon = 1",
        SHORT.replace("= 1", "= 1_000_000"),
        SHORT.replace("= 1", "= 1e-9"),
        f"{SHORT}delta = 0.000999999999999999",
        f"{SHORT}delta = 1e-18",
        SHORT.replace("shop", "Shop.2026_a-" + "x" * 52),
    ],
)
def test_the_ends_of_each_range_are_taken(text: str) -> None:
    assert terms_of(text).dataset


def test_an_owner_is_warned_of_a_checkpoint_in_the_ledgers_folder(tmp_path: Path) -> None:
    (sentence,) = advice(terms_of(SHORT, tmp_path))
    assert "same folder" in sentence and 'checkpoint = "/' in sentence
    assert advice(terms_of(f'{SHORT}checkpoint = "/mnt/b/w"', tmp_path)) == []


def test_two_names_of_one_folder_are_one_folder(tmp_path: Path) -> None:
    (tmp_path / "other").symlink_to(tmp_path)
    assert advice(terms_of(f'{SHORT}checkpoint = "other/w"', tmp_path)) != []


def test_an_owner_is_told_that_nothing_is_promised() -> None:
    assert advice(None) == ["There is no [budget]: analysts may spend without limit."]


def test_a_draft_promises_nothing_until_its_lines_are_uncommented() -> None:
    with duckdb.connect() as connection:
        text = draft(DatabaseCatalog(connection))
    assert parse_policy(text).budget is None
    before, rest = text.split("# [budget]\n")
    lines, after = rest.split("[limits]\n")
    live = re.sub(r"^# ", "", "# [budget]\n" + lines, flags=re.MULTILINE)
    assert set(re.findall(r"^[ #]*(\w+) = ", live, re.MULTILINE)) == {*keys_of(BudgetKeys)} - {
        "analysts"
    }
    read = terms_of(before + live + "[limits]\n" + after)
    assert (read.dataset, read.total, read.monthly) == ("shop", Cap(Fraction(1)), False)
    assert read.analysts == {"reporting": Cap(Fraction(1, 2))}
    commented = re.sub(r"^# ", "", live.replace("delta = 0", "delta = 1e-6"), flags=re.MULTILINE)
    paid = terms_of(before + commented.replace('"basic"', '"pld"', 1))
    assert paid.monthly and paid.release_epsilon == Fraction(1, 10)


DOCS = Path(__file__).parents[2] / "docs"
BUDGET_PAGE = (DOCS / "budget.md").read_text("utf-8")
POLICY_PAGE = (DOCS / "policy.md").read_text("utf-8")


def test_every_key_of_a_budget_is_in_its_document() -> None:
    for key in keys_of(BudgetKeys):
        assert f"\n| `{key}` |" in POLICY_PAGE
    assert set(re.findall(r'^\| `"(\w+)"` \|', BUDGET_PAGE, re.MULTILINE)) == set(ACCOUNTANTS)


def test_the_budget_in_its_document_is_one() -> None:
    (example,) = re.findall(r"```toml\n(.+?)```", BUDGET_PAGE, re.DOTALL)
    assert terms_of(example).total == Cap(Fraction(2))
    assert advice(terms_of(example)) == []


def test_the_table_of_odds_is_right() -> None:
    def after(before: float, factor: float) -> str:
        percent = f"{100 * before * factor / (before * factor + 1 - before):.1f} %"
        return percent.replace("100.0", "over 99.9")

    rows = re.findall(r"^\| ([\d.]+) \| (.+) \|$", BUDGET_PAGE, re.MULTILINE)
    assert len(rows) == 7
    for epsilon, rest in rows:
        there, half, tenth, hundredth, this, half_of_this = rest.split(" | ")
        once, twice = math.exp(float(epsilon)), math.exp(2 * float(epsilon))
        for shown, factor in ((there, once), (this, twice)):
            assert abs(float(shown) / factor - 1) < 0.005
        assert [half, tenth, hundredth] == [after(p, once) for p in (0.5, 0.1, 0.01)]
        assert half_of_this == after(0.5, twice)
    assert f"a factor of {math.exp(12):.0f}" in " ".join(BUDGET_PAGE.split())


@pytest.mark.thorough
def test_the_numbers_of_queries_that_fit_are_right() -> None:
    rows = re.findall(
        r"^\| into ε = (\d) \| (\d+) \| (\d+) \| (\d+) \|$", BUDGET_PAGE, re.MULTILINE
    )
    assert [row[0] for row in rows] == ["1", "3"]
    amount = amount_of(
        PrivacyLoss(Fraction(1, 10), rho=Fraction(1, 800), bounded_range=Fraction(1, 10))
    )
    for epsilon, *shown in rows:
        cap = Cap(Fraction(epsilon), Fraction(1, 10**6))
        for name, number in zip(ACCOUNTANTS, map(int, shown), strict=True):
            if name == "pld" and find_spec("dp_accounting") is None:
                continue
            counting, sums = accountant(name, cap, Fraction(1, 10)), [Spent()]
            for _ in range(number + 1):
                sums.append(sums[-1].plus(amount))
            assert counting.fits(sums[number]) and not counting.fits(sums[number + 1])
            if (name, epsilon) == ("zcdp", "1"):
                spent = [counting.epsilon_spent(sums[n]) / 10**9 for n in (4, 10)]
                assert [f"{x:.2f}" for x in spent] == ["0.40", "0.70"]
    assert "four such calls have spent 0.4 and ten have spent 0.70" in " ".join(BUDGET_PAGE.split())
