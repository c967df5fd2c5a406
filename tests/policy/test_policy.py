"""The policy's text: what is read, and what is refused with its line. No database."""

import tomllib
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_sql.errors import PolicyError
from dp_sql.policy.limits import Limits
from dp_sql.policy.model import Link, Policy, PrivateTable, parse_policy, read_policy
from dp_sql.policy.parser import dotted, keys_of, lines_of
from dp_sql.sql.tokens import name_parts

EXAMPLE = """\
[tables.ratings]
privacy_unit = "user_id"
[tables.order_items]                                   # belongs to a person through another table
privacy_unit = { link = "order_id", to = "orders.order_id" }
[tables.orders]
privacy_unit = "user_id"
[public]
tables = ["catalog", "regions"]
[domains]
"ratings.title"  = "catalog.title"
"ratings.region" = ["north", "south", "east", "west"]
[limits]
max_epsilon_per_query = 1
max_k = 1000
max_contributions = 1000
deadline_seconds = 5
"""
ONE = '[tables.r]\nprivacy_unit = "u"\n'


def test_the_example_is_read_exactly() -> None:
    assert parse_policy(EXAMPLE) == Policy(
        tables={
            ("ratings",): PrivateTable(("ratings",), "user_id"),
            ("order_items",): PrivateTable(
                ("order_items",), Link("order_id", ("orders",), "order_id")
            ),
            ("orders",): PrivateTable(("orders",), "user_id"),
        },
        public=frozenset({("catalog",), ("regions",)}),
        views=frozenset(),
        domains={
            (("ratings",), "title"): (("catalog",), "title"),
            (("ratings",), "region"): ("north", "south", "east", "west"),
        },
        limits=Limits(Fraction(1), None, 1000, 1000, Fraction(5)),
    )


def test_an_empty_policy_names_nothing() -> None:
    assert parse_policy("# nothing yet\n") == Policy({}, frozenset(), frozenset(), {})


def test_names_are_folded_as_duckdb_folds_them() -> None:
    policy = parse_policy(
        '[tables."Main.ÄRzte"]\nprivacy_unit = "User_ID"\nunique_per_person = ["Home"]\n'
        '[views]\ntables = ["Recent"]\n[domains]\n"MAIN.Ärzte.Home" = "observed"\n'.replace(
            "Ärzte", "ÄRzte"
        )
    )
    name = ("main", "Ärzte")
    assert policy.tables == {name: PrivateTable(name, "user_id", frozenset({"home"}))}
    assert policy.views == {("recent",)}
    assert policy.domains == {(name, "home"): "observed"}


def test_a_name_with_a_dot_is_written_in_sqls_quotes() -> None:
    policy = parse_policy("""[tables.'"my.table"']\nprivacy_unit = "u"\n""")
    assert list(policy.tables) == [("my.table",)]


@pytest.mark.parametrize(
    "text",
    [
        '[tables.r]\nprivacy_unit = "u"\nunique_per_person = ["r.a", "b"]',
        'unique_per_person = ["r.a", "R.B"]\n[tables.r]\nprivacy_unit = "u"',
        '[tables.r]\nprivacy_unit = "u"\n[limits]\nunique_per_person = ["r.a", "r.b"]',
        'unique_per_person = ["r.a"]\n[tables.r]\nprivacy_unit = "u"\nunique_per_person = ["b"]',
    ],
)
def test_unique_columns_may_stand_in_three_places(text: str) -> None:
    assert parse_policy(text).tables[("r",)].unique_per_person == {"a", "b"}


@pytest.mark.parametrize(
    ("written", "read"),
    [("0.1", Fraction(1, 10)), ("1e-9", Fraction(1, 10**9)), ("1_000.5", Fraction(2001, 2))],
)
def test_numbers_keep_their_exact_value(written: str, read: Fraction) -> None:
    assert parse_policy(f"[limits]\nmax_epsilon_per_query = {written}").limits == Limits(read)


def test_a_list_domain_keeps_its_exact_values() -> None:
    policy = parse_policy(f'{ONE}[domains]\n"r.a" = [1, 0.1]\n"r.b" = [true, false]')
    assert policy.domains == {(("r",), "a"): (1, Fraction(1, 10)), (("r",), "b"): (True, False)}


def test_a_limit_of_no_delta_at_all_can_be_set() -> None:
    assert parse_policy("[limits]\nmax_delta_per_query = 0").limits.max_delta_per_query == 0


REFUSED = [
    ("[table.r]", 1, r"Unknown key table\. Did you mean tables\? Known here: tables,"),
    ("[limits]\nmax_k = 10\nmax_kk = 10", 3, "Did you mean max_k"),
    ("[budgets]", 1, "Known here: tables, public, views, scores, domains, limits, budget, unique_per_person"),
    ('tables = ["r"]', 1, r"tables must be a section: \[tables\]"),
    ('[tables]\nr = "u"', 2, r"r must be a section: \[tables.r\]"),
    ("\n[tables.r]\n", 2, "tables.r needs privacy_unit: the column that identifies the person each row belongs to, as in"),
    ('[tables.r]\nprivacy_unt = "u"', 2, r"Did you mean privacy_unit\?"),
    ("[tables.r]\nprivacy_unit = 7", 2, "must be a column, or { link"),
    ('[tables.r]\nprivacy_unit = ""', 2, "must be a column, or { link"),
    ('[tables.r]\nprivacy_unit = "?"', 2, r'still "\?": name the column'),
    (
        '[tables.r]\nprivacy_unit = "?"\n[tables.s]\nprivacy_unit = "u"\n'
        '[tables.t]\nprivacy_unit = "?"\n[tables.v]\nprivacy_unit = "?"',
        2, "The same on line 6, 8",
    ),
    ('[tables.main.r]\nprivacy_unit = "u"', 1, r'in quotes: \[tables."main.r"\]'),
    ('[tables."a.b.c.d"]\nprivacy_unit = "u"', 1, "a.b.c.d is not a table name"),
    ('[tables."a..b"]\nprivacy_unit = "u"', 1, "a..b is not a table name"),
    (ONE + '[tables.R]\nprivacy_unit = "u"', 3, "R appears twice"),
    (ONE + '[tables.s]\nprivacy_unit = { link = "a" }', 4, "{ link"),
    (ONE + '[tables.s]\nprivacy_unit = { link = "a", to = "r.b", by = "c" }', 4, "must be a column, or { link"),
    (ONE + '[tables.s]\nprivacy_unit = { link = "a", to = "b" }', 4, "must be a column, or { link"),
    (ONE + '[tables.s]\nprivacy_unit = { link = "a", to = "x.b" }', 4, r"no \[tables.x\]; this must name a private table"),
    (
        '[tables.r]\nprivacy_unit = { link = "a", to = "s.b" }\n'
        '[tables.s]\nprivacy_unit = { link = "a", to = "r.b" }',
        2, "These links form a circle",
    ),
    (ONE + 'unique_per_person = "a"', 3, "unique_per_person must be a list of names"),
    (ONE + 'unique_per_person = ["s.a"]', 3, "s.a is not a column of r"),
    (ONE + 'unique_per_person = ["a.."]', 3, "a.. is not a column of r"),
    (ONE + '[limits]\nunique_per_person = ["s.a"]', 4, r"no \[tables.s\]; this must name a private table"),
    ('unique_per_person = ["a"]\n' + ONE, 1, "a must name a table and a column"),
    (ONE + '[public]\ntables = ["R"]', 4, r"r is also in \[tables\]"),
    (ONE + '[public]\ntables = ["main.r"]', 4, "main.r and r may be the same"),
    ('[public]\ntables = ["p"]\n[views]\ntables = ["p"]', 4, r"p is also in \[public\]"),
    ("[public]\ntables = [7]", 2, "tables must be a list of names"),
    ('[public]\ntable = ["p"]', 2, "Did you mean tables"),
    (ONE + '[domains]\nr.a = "observed"', 4, 'in quotes: "r.a" = …'),
    (ONE + '[domains]\n"a" = "observed"', 4, "a must name a table and a column"),
    (ONE + '[domains]\n"s.a" = "observed"', 4, r"no \[tables.s\]; this must name a private table"),
    (ONE + '[domains]\n"r.a" = "p.a"', 4, r'p is not public; if .+, list it: \[public\] tables = \["p"'),
    (ONE + '[domains]\n"r.a" = "r.a"', 4, "r holds people's rows. Name a column of a public table"),
    (ONE + '[domains]\n"r.a" = []', 4, "A domain must be the column of a public table"),
    (ONE + '[domains]\n"r.a" = [\n  "x",\n  1,\n]', 4, "a list of strings, numbers or booleans"),
    (ONE + '[domains]\n"r.a" = [true, 1]', 4, "a list of strings, numbers or booleans"),
    (ONE + '[domains]\n"r.a" = [2024-01-31]', 4, 'dates as strings, "2024-01-31"'),
    (ONE + '[domains]\n"r.a" = [nan]', 4, "A domain must be"),
    (ONE + '[domains]\n"r.a" = "observed"\n"R.A" = "observed"', 5, "R.A appears twice"),
    (ONE + '[domains]\n# two lines\n\n"r.a" = 1', 6, "A domain must be"),
    ("[limits]\nmax_k = 0", 2, "max_k must be a whole number from 1 to 100000"),
    ("[limits]\nmax_k = 1.5", 2, "max_k must be a whole number"),
    ("[limits]\nmax_k = true", 2, "max_k must be a whole number"),
    ("[limits]\nmax_contributions = 10001", 2, "a whole number from 1 to 10000"),
    ("[limits]\nmax_epsilon_per_query = 0", 2, "must be a number from 1e-9 to 10000"),
    ("[limits]\nmax_epsilon_per_query = nan", 2, "must be a number from"),
    ("[limits]\nmax_epsilon_per_query = inf", 2, "must be a number from"),
    ("[limits]\nmax_epsilon_per_query = 1e-400000000", 2, "must be a number from"),
    ('[limits]\nmax_epsilon_per_query = "1"', 2, "must be a number from"),
    ("[limits]\nmax_delta_per_query = 0.5", 2, "must be a number from 0 to 0.001"),
    ("[limits]\ndeadline_seconds = 0", 2, "must be a number from 0.01 to 86400"),
    ("[limits]\nmax_k = 1\nmax_k = 2", 3, "this is not valid TOML"),
    ('[limits]\nmax_k = "a', 2, "this is not valid TOML"),
    ("[limits", 1, "this is not valid TOML"),
    ("[tables.ratings]\nprivacy_unit = user_id", 2, "not valid TOML: a string needs quotes"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "message"), REFUSED)
def test_what_no_policy_says_is_refused_with_its_line(text: str, line: int, message: str) -> None:
    with pytest.raises(PolicyError, match=message) as refusal:
        parse_policy(text, "shop.toml")
    assert str(refusal.value).replace(",", ":").startswith(f"shop.toml: line {line}:")


@pytest.mark.parametrize("text", ["max_k = " + "9" * 5000, "x = " + "[" * 5000, "max_k = "])
def test_a_file_that_is_not_toml_is_refused(text: str) -> None:
    with pytest.raises(PolicyError, match="TOML"):
        parse_policy(text)


def test_a_file_that_cannot_be_read_is_a_refusal(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="No such file"):
        read_policy(tmp_path / "none.toml")
    with pytest.raises(PolicyError, match="Is a directory"):
        read_policy(tmp_path)
    (tmp_path / "latin.toml").write_bytes('[tables."Ärzte"]'.encode("latin-1"))
    with pytest.raises(PolicyError, match=r"is not a policy: it is not UTF-8 text \(at byte 9\)"):
        read_policy(str(tmp_path / "latin.toml"))


def test_a_file_of_an_editor_that_marks_its_bytes_is_read(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_bytes(b"\xef\xbb\xbf" + EXAMPLE.replace("\n", "\r\n").encode())
    assert read_policy(tmp_path / "p.toml") == parse_policy(EXAMPLE)


def test_each_limit_takes_both_its_ends() -> None:
    for key, declared in keys_of(Limits).items():
        for end in declared.kind.ends:
            text = f"[limits]\n{key} = {int(end) if end.denominator == 1 else float(end)!r}"
            assert getattr(parse_policy(text).limits, key) == end


def test_a_long_list_is_read_in_good_time() -> None:
    items = "\n".join(f'  "item {n}",  # ]' for n in range(50_000))
    policy = parse_policy(f'{ONE}[domains]\n"r.a" = [\n{items}\n]\n[limits]\nmax_k = 7\n')
    assert len(policy.domains[("r",), "a"]) == 50_000
    assert policy.lines["limits.max_k"] == 50_000 + 7


def test_lines_are_counted_past_strings_comments_and_lists() -> None:
    text = (
        'a = """\n[x]\n"""\n# b = [\nc = \'#"[\'\n[d."e#"]  # [\nf = [\n "]",\n]\ng.h = { i = 1 }\n'
    )
    assert lines_of(text) == {
        ("a",): 1, ("c",): 5, ("d",): 6, ("d", "e#"): 6, ("d", "e#", "f"): 7,
        ("d", "e#", "g"): 10, ("d", "e#", "g", "h"): 10, ("d", "e#", "g", "h", "i"): 10,
    }  # fmt: skip


WORDS = st.text(min_size=1, max_size=6).filter(lambda word: word.strip() and "\0" not in word)


@pytest.mark.thorough
@given(st.lists(WORDS, min_size=1, max_size=3))
def test_a_dotted_name_is_read_as_the_same_name(parts: list[str]) -> None:
    name = name_parts(dotted(parts))
    assert name is not None and name_parts(dotted(name)) == name


@settings(deadline=None)
@given(st.text(alphabet="[]{}\"'#=\n \\.a1,", max_size=40))
def test_whatever_is_toml_has_its_lines(text: str) -> None:
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    assert {path[0] for path in lines_of(text)} == set(tree)
