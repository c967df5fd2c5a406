"""What Tab offers, and when input is complete. No terminal here: see test_interactive.py."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_sql.cli.shell.completion import sql_completions
from dp_sql.cli.shell.names import Names, Table
from dp_sql.cli.shell.splitting import is_complete, split_input
from dp_sql.sql.functions import FUNCTIONS
from dp_sql.sql.tokens import Token, tokenize

NAMES = Names(
    tables=(
        Table(("catalog",), "public", (("title", "VARCHAR"), ("price", "INTEGER"))),
        Table(("ratings",), "private", (("user_id", "BIGINT"), ("title", "VARCHAR"))),
        Table(("my table",), "table", (("Order", "INTEGER"),)),
        Table(("lib", "books"), "table", (("isbn", "VARCHAR"),)),
    ),
    functions=("strftime", "strlen", "sum"),
)


@pytest.fixture
def offered() -> Callable[..., list[str]]:
    """What is offered at the position of |."""

    def offered(text: str, under_policy: bool = False) -> list[str]:
        cursor = text.index("|")
        words = sql_completions(text.replace("|", ""), cursor, NAMES, under_policy)
        return [word.text for word in words]

    return offered


Offered = Callable[..., list[str]]


def test_tables_come_after_from_and_its_like(offered: Offered) -> None:
    names = ["catalog", "ratings", '"my table"', "lib.books"]
    for text in ("SELECT 1 FROM |", "DESCRIBE |", "SELECT * FROM catalog, |", "FROM x JOIN |"):
        assert offered(text)[:4] == names
    assert offered("FROM rat|") == ["ratings"]
    assert offered("FROM RAT|") == ["ratings"]
    assert offered("FROM my|") == ['"my table"']
    assert "dp_budget()" in offered("FROM dp|")


def test_columns_are_those_of_the_tables_that_the_statement_names(offered: Offered) -> None:
    assert offered("SELECT ti| FROM catalog") == ["title"]
    assert offered("SELECT | FROM catalog")[:2] == ["title", "price"]
    assert "user_id" not in offered("SELECT | FROM catalog")
    assert "user_id" in offered("SELECT us|")  # nothing is named yet
    assert offered("SELECT x FROM ratings WHERE us|")[0] == "user_id"
    assert offered('FROM "my table" WHERE ord|')[0] == '"Order"'


def test_after_a_dot_come_columns_of_the_table_or_alias_and_tables_of_a_schema(
    offered: Offered,
) -> None:
    assert offered("SELECT ratings.|") == ["user_id", "title"]
    assert offered("SELECT r.us| FROM ratings AS r") == ["user_id"]
    assert offered("SELECT r.us| FROM ratings r") == ["user_id"]
    assert offered("FROM lib.|") == ["books"]
    assert offered("SELECT lib.books.| FROM lib.books") == ["isbn"]
    assert offered("SELECT nothing.|") == []


def test_only_the_statement_at_the_cursor_counts(offered: Offered) -> None:
    assert offered("SELECT 1 FROM (; SELECT 1 FROM rat|")[:1] == ["ratings"]
    assert offered("SELECT 1; FROM rat|") == ["ratings"]


def test_nothing_is_offered_in_strings_comments_and_numbers(offered: Offered) -> None:
    for text in ("SELECT 'FROM |", "SELECT 1 -- FROM |", "/* FROM |", "SELECT 12|", 'FROM "ra|'):
        assert offered(text) == []


def test_a_dp_call_offers_the_arguments_that_are_not_there_yet(offered: Offered) -> None:
    for name, function in FUNCTIONS.items():
        given = ", ".join(["title"] * len(function.positional))
        assert offered(f"SELECT {name}({given}, |) FROM ratings") == [
            f"{argument} := " for argument in function.named
        ]
    found = offered("SELECT DP_TOPK(title, 3, epsilon := 1, | FROM ratings")
    assert "epsilon := " not in found and "domain := " in found
    assert offered("SELECT DP_TOPK(ti|, 3) FROM ratings") == ["title"]


def test_mechanisms_are_those_of_the_function(offered: Offered) -> None:
    for name, function in FUNCTIONS.items():
        assert offered(f"SELECT {name}(title, mechanism := |") == list(function.mechanisms)
    assert offered("SELECT DP_TOPK(title, 3, mechanism => pnf|") == ["pnf_joint", "pnf_peel"]
    assert offered("SELECT DP_COUNT_DISTINCT(title, report := t|") == ["true"]
    assert "gem" in offered("SELECT DP_COUNT_DISTINCT(title, bound_selection := |")


def test_domains_are_columns_of_tables_that_are_not_private(offered: Offered) -> None:
    found = offered("SELECT DP_TOPK(title, 3, domain := |) FROM ratings")
    assert "observed" in found and "catalog.title" in found
    assert not any(offer.startswith("ratings.") for offer in found)


def test_under_a_policy_useless_words_are_not_offered(offered: Offered) -> None:
    assert "privacy_unit := " in offered("SELECT DP_TOPK(title, 3, |")
    assert "privacy_unit := " not in offered("SELECT DP_TOPK(title, 3, |", under_policy=True)
    assert "observed" not in offered("SELECT DP_TOPK(title, 3, domain := |", under_policy=True)
    assert "attach" in offered("att|") and offered("att|", under_policy=True) == []
    assert "SELECT" in offered("SEL|", under_policy=True)


def test_words_follow_the_case_that_was_begun(offered: Offered) -> None:
    assert offered("sel|")[0] == "select"
    assert offered("SEL|")[0] == "SELECT"
    assert offered("SELECT dp_t|") == ["dp_topk("]
    assert offered("SELECT DP_T|") == ["DP_TOPK("]
    assert {"strftime(", "strlen("} <= set(offered("SELECT str|"))


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("", True), ("  \n", True), ("SELECT 1", False), ("SELECT 1;", True), (";", True),
        ("SELECT 1; SELECT 2", False), ("SELECT ';", False), ("SELECT ';';", True),
        ('SELECT ";', False), ("SELECT 1; -- done", True), ("SELECT 1 -- ;", False),
        ("/* ; ", False), ("/* a /* b */ ; ", False), ("SELECT $$ ;", False),
        ("SELECT $$ ; $$;", True), ("SELECT $a$ $$ ;", False), ("SELECT $a$ ; $a$;", True),
        ("SELECT E'\\';", False), ("SELECT (1;", True), (".tables", True), ("SELECT\n.5", False),
        ("SELECT $1;", True), ("exit", True), ("Quit;", True), ("exit FROM", False),
    ],
)  # fmt: skip
def test_input_is_complete_at_a_semicolon_outside_quotes(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


@pytest.mark.parametrize("text", [".a\n" + "SELECT 1;\n" * 300, ".a\nSELECT 1;\n" * 300])
def test_long_input_is_tokenized_a_few_times_and_not_for_each_line(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_read = 0

    def counting(part: str) -> list[Token]:
        nonlocal n_read
        n_read += len(part)
        return tokenize(part)

    monkeypatch.setattr("dp_sql.cli.shell.splitting.tokenize", counting)
    monkeypatch.setattr("dp_sql.sql.tokens.tokenize", counting)
    assert sum(piece == "SELECT 1" for piece in split_input(text)) == 300
    assert n_read < 4 * len(text)


def test_input_is_split_into_statements_and_dot_commands_in_order() -> None:
    text = "SELECT ';' AS a; -- c\n\n  .mode csv\nSELECT\n.5;SELECT 2;\n.timer on\nSELECT 3"
    assert split_input(text) == [
        "SELECT ';' AS a", ".mode csv", "SELECT\n.5", "SELECT 2", ".timer on", "SELECT 3",
    ]  # fmt: skip
    assert split_input("SELECT '\n.mode csv\n'; .no") == ["SELECT '\n.mode csv\n'", ".no"]
    assert split_input("SELECT 'open") == ["SELECT 'open"]
    assert split_input("-- only a thought") == []
    assert split_input(".a\nSELECT $$x;\n.b\n$$; .c\n.d") == [".a", "SELECT $$x;\n.b\n$$", ".c\n.d"]
    assert split_input(".read it's /*\nSELECT 'a;\n.b'; --'\n.c") == [
        ".read it's /*", "SELECT 'a;\n.b'", ".c",
    ]  # fmt: skip
    assert split_input("SELECT (1;\n.b\nSELECT 'open;\n.c") == [
        "SELECT (1;",
        ".b",
        "SELECT 'open;\n.c",
    ]


_PARTS = (
    "SELECT", "FROM", "ratings", "r", "AS", ".", ",", "(", ")", "[", "]", "DP_TOPK", "title", ":=",
    "mechanism", "domain", "epsilon", "1", "'a'", "'", '"', "$$", "--", "/*", ";", "\n", " ", "é",
    "\ud800", "WHERE", "DESCRIBE",
)  # fmt: skip


@given(st.lists(st.sampled_from(_PARTS), max_size=12), st.integers(0, 30), st.booleans())
def test_no_input_makes_completion_fail(parts: list[str], cursor: int, under_policy: bool) -> None:
    text = "".join(parts)
    words = sql_completions(text, min(cursor, len(text)), NAMES, under_policy)
    assert len({word.text for word in words}) == len(words)
    assert is_complete(text) in {True, False}
    assert all(piece.strip() for piece in split_input(text))
