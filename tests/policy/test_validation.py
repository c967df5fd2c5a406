"""A policy and its database: what fits, what does not, and drafts that their owner finishes."""

import re
from collections.abc import Iterator

import duckdb
import pytest

from dp_sql.engines.duckdb.introspection import DatabaseCatalog
from dp_sql.errors import PolicyError, SourceError
from dp_sql.policy.limits import Limits
from dp_sql.policy.model import parse_policy
from dp_sql.policy.parser import keys_of
from dp_sql.policy.template import draft
from dp_sql.policy.validation import hidden, problems
from tests.policy.test_policy import EXAMPLE

SHOP = """
CREATE TABLE ratings AS FROM (VALUES (1, 'Dune', 'north', 1.5::DOUBLE), (1, 'Emma', 'north', 2),
    (2, 'Dune', 'south', NULL), (NULL, 'x', 'west', 0), (NULL, 'x', 'east', 0))
    AS t(user_id, title, region, score);
CREATE TABLE orders AS FROM (VALUES (10, 1, 'north'), (11, 1, 'south'), (12, 2, NULL), (12, 2, 'x'),
    (13, NULL, 'x'), (NULL, 1, 'x'), (NULL, 2, 'x')) AS t(order_id, user_id, region);
CREATE TABLE order_items AS FROM (VALUES (10, 'pen', 1.25, true, DATE '2024-01-31'),
    (12, 'ink', 3, false, NULL), (99, 'pen', 0, true, NULL), (NULL, 'ink', 0, true, NULL))
    AS t(order_id, article, price, gift, day);
CREATE TABLE notes AS SELECT 10 AS order_id, 1 AS note_id, 'x' AS text;
CREATE TABLE catalog AS FROM (VALUES ('Dune', 1, 1.5), ('Emma', 300, 2), (NULL, NULL, NULL))
    AS t(title, number, size);
CREATE TABLE regions AS SELECT 'north' AS region, 'a' COLLATE NOCASE AS letter;
CREATE VIEW recent_ratings AS SELECT * FROM ratings WHERE score > 1;
"""
RATINGS = '[tables.ratings]\nprivacy_unit = "user_id"\n'
ORDERS = '[tables.orders]\nprivacy_unit = "user_id"\n'
ITEMS = '[tables.order_items]\nprivacy_unit = { link = "order_id", to = "orders.order_id" }\n'
PUBLIC = '[public]\ntables = ["catalog"]\n'


@pytest.fixture(scope="module")
def unchanged() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute(SHOP)
        yield connection


@pytest.fixture
def shop() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute(SHOP)
        yield connection


def wrong(text: str, connection: duckdb.DuckDBPyConnection) -> list[str]:
    return problems(parse_policy(text), DatabaseCatalog(connection))


FITTING = [
    EXAMPLE,
    "",
    '[tables.RATINGS]\nprivacy_unit = "User_Id"\n[public]\ntables = ["Catalog"]\n'
    '[domains]\n"Ratings.TITLE" = "CATALOG.Title"',
    RATINGS.replace("ratings", '"main.ratings"') + '[views]\ntables = ["recent_ratings"]',
    RATINGS + 'unique_per_person = ["region"]',
    f'unique_per_person = ["ratings.region"]\n{RATINGS}',
    ORDERS + ITEMS + 'unique_per_person = ["gift", "article"]',
    f'{RATINGS}{PUBLIC}[domains]\n"ratings.user_id" = "catalog.number"',
    f'{RATINGS}[domains]\n"ratings.user_id" = [1, 2.0, -3]\n"ratings.title" = ["it\'s", ""]',
    f'{ORDERS}{ITEMS}[domains]\n"order_items.price" = [1.25, 3]\n"order_items.gift" = [true]\n'
    '"order_items.day" = ["2024-01-31"]\n"order_items.article" = "observed"',
    '[tables.notes]\nprivacy_unit = { link = "order_id", to = "order_items.order_id" }\n'
    f'unique_per_person = ["text"]\n{ORDERS}{ITEMS}',
    '[tables.regions]\nprivacy_unit = "letter"\nunique_per_person = ["region"]',
]  # fmt: skip


@pytest.mark.parametrize("text", FITTING)
def test_a_policy_that_fits_has_no_problems(
    unchanged: duckdb.DuckDBPyConnection, text: str
) -> None:
    assert wrong(text, unchanged) == []


UNFIT = [
    (RATINGS.replace("ratings", "rating"), "line 1, tables.rating: There is no table or view rating. Did you mean ratings?"),
    ('[public]\ntables = ["catalogue"]', "line 2, public.tables: There is no table or view catalogue. Did you mean catalog?"),
    ('[views]\ntables = ["x"]', "line 2, views.tables: There is no table or view x."),
    ('[views]\ntables = ["catalog"]', "line 2, views.tables: catalog is a table, and [views] lists views."),
    ('[public]\ntables = ["recent_ratings"]', "line 2, public.tables: recent_ratings is a view. List it in [views],"),
    (RATINGS.replace("ratings", "recent_ratings"), "line 1, tables.recent_ratings: recent_ratings is a view."),
    (RATINGS.replace("user_id", "usr_id"), "line 2, tables.ratings.privacy_unit: ratings has no column usr_id. Did you mean user_id?"),
    (RATINGS.replace("user_id", "score"), "line 2, tables.ratings.privacy_unit: ratings.score is DOUBLE, whose values have no exact equality."),
    (ORDERS + ITEMS.replace('link = "order_id"', 'link = "id"'), "line 4, tables.order_items.privacy_unit: order_items has no column id."),
    (ORDERS + ITEMS.replace("orders.order_id", "orders.id"), "line 4, tables.order_items.privacy_unit: orders has no column id."),
    (ORDERS + ITEMS.replace('link = "order_id"', 'link = "article"'), "order_items.article is VARCHAR, and orders.order_id is INTEGER; give them the same type."),
    (RATINGS + 'unique_per_person = ["age"]', "line 3, tables.ratings.unique_per_person: ratings has no column age."),
    (RATINGS + 'unique_per_person = ["title"]', "line 3, tables.ratings.unique_per_person: This is not true of title:"),
    (f'unique_per_person = ["ratings.title"]\n{RATINGS}', "line 1, tables.ratings.unique_per_person: This is not true of title:"),
    (RATINGS + '[limits]\nunique_per_person = ["ratings.title"]', "line 4, tables.ratings.unique_per_person: This is not true"),
    (RATINGS + 'unique_per_person = ["score"]', "not true of score"),
    (ORDERS + 'unique_per_person = ["region"]', "not true of region"),
    ('[tables.order_items]\nprivacy_unit = { link = "article", to = "orders.region" }\n' + ORDERS, "line 2, tables.order_items.privacy_unit: orders.region holds values that several people share,"),
    (RATINGS + '[domains]\n"ratings.colour" = "observed"', "line 4, domains.ratings.colour: ratings has no column colour."),
    (RATINGS + '[domains]\n"ratings.score" = [1.5]', "line 4, domains.ratings.score: ratings.score is DOUBLE,"),
    (f'{RATINGS}{PUBLIC}[domains]\n"ratings.title" = "catalog.titel"', "line 6, domains.ratings.title: catalog has no column titel. Did you mean title?"),
    (f'{RATINGS}{PUBLIC}[domains]\n"ratings.title" = "catalog.number"', "Its values cannot be items of ratings.title, which is VARCHAR."),
    (f'{RATINGS}{PUBLIC}[domains]\n"ratings.user_id" = "catalog.size"', "domains.ratings.user_id: It has values that ratings.user_id, INTEGER, cannot hold."),
    (RATINGS + '[domains]\n"ratings.user_id" = [1.5]', "cannot hold"),
    (RATINGS + '[domains]\n"ratings.user_id" = [3000000000]', "cannot hold"),
    (RATINGS + '[domains]\n"ratings.user_id" = ["1"]', "cannot be items"),
    (RATINGS + '[domains]\n"ratings.title" = [1]', "cannot be items"),
    (ORDERS + ITEMS + '[domains]\n"order_items.gift" = ["true"]', "cannot be items"),
    (ORDERS + ITEMS + '[domains]\n"order_items.day" = ["2024-02-31"]', "cannot hold"),
    (ORDERS + ITEMS + '[domains]\n"order_items.price" = [0.001]', "cannot hold"),
]  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("text", "message"), UNFIT)
def test_what_does_not_fit_is_told_with_its_line_and_key(
    unchanged: duckdb.DuckDBPyConnection, text: str, message: str
) -> None:
    (problem,) = wrong(text, unchanged)
    assert message in problem


def test_all_problems_are_told_at_once(shop: duckdb.DuckDBPyConnection) -> None:
    text = f'{RATINGS.replace("user_id", "u")}[public]\ntables = ["c", "d"]'
    assert [problem.split(":")[0] for problem in wrong(text, shop)] == [
        "line 4, public.tables", "line 4, public.tables", "line 2, tables.ratings.privacy_unit",
    ]  # fmt: skip


def test_no_problem_reveals_a_value_of_a_private_row(shop: duckdb.DuckDBPyConnection) -> None:
    shop.execute("INSERT INTO orders VALUES (777777, 888888, 'canary'), (777777, 999999, 'canary')")
    shop.execute("INSERT INTO ratings VALUES (888888, 'canary', 'a', 1), (888888, 'x', 'b', 1)")
    found = wrong(f'{RATINGS}unique_per_person = ["title", "region"]\n{ORDERS}{ITEMS}', shop)
    assert len(found) == 3
    assert not re.search("canary|777777|888888|999999", "".join(found))


def test_a_chain_of_links_is_followed_to_its_person(shop: duckdb.DuckDBPyConnection) -> None:
    notes = '[tables.notes]\nprivacy_unit = { link = "order_id", to = "order_items.order_id" }\n'
    text = f'{notes}unique_per_person = ["text"]\n{ORDERS}{ITEMS}'
    shop.execute("INSERT INTO notes VALUES (12, 2, 'y')")
    assert wrong(text, shop) == []
    shop.execute("INSERT INTO order_items VALUES (11, 'pen', 0, true, NULL)")
    shop.execute("INSERT INTO notes VALUES (11, 3, 'y')")
    (problem,) = wrong(text, shop)
    assert "tables.notes.unique_per_person: This is not true of text" in problem


def test_a_name_of_two_tables_is_ambiguous(shop: duckdb.DuckDBPyConnection) -> None:
    shop.execute("CREATE SCHEMA old; CREATE TABLE old.ratings AS FROM ratings")
    (problem,) = wrong(RATINGS, shop)
    assert (
        "ratings may mean memory.main.ratings or memory.old.ratings; write one of these." in problem
    )
    assert wrong(RATINGS.replace("ratings", '"main.ratings"'), shop) == []


def test_a_view_that_cannot_be_read_any_more_is_told(shop: duckdb.DuckDBPyConnection) -> None:
    shop.execute("ALTER TABLE ratings DROP score")
    (problem,) = wrong('[views]\ntables = ["recent_ratings"]', shop)
    assert problem.startswith("line 2, views.tables: The view recent_ratings cannot be read:")


def test_macros_that_replace_functions_are_told_and_never_called(
    shop: duckdb.DuckDBPyConnection,
) -> None:
    text = RATINGS + 'unique_per_person = ["title"]'
    shop.execute(
        'CREATE MACRO "count"(x) AS 0; CREATE MACRO "+"(a, b) AS a; CREATE MACRO mine() AS 1'
    )
    assert wrong(text, shop) == [
        "the database: It has macros that replace built-in functions: +, count. "
        "Drop or rename them."
    ]


def test_text_is_compared_byte_by_byte_whatever_the_collation(
    shop: duckdb.DuckDBPyConnection,
) -> None:
    shop.execute("CREATE TABLE homes (id INTEGER, home VARCHAR COLLATE NOCASE)")
    shop.execute("INSERT INTO homes VALUES (1, 'a'), (1, 'A')")
    (problem,) = wrong('[tables.homes]\nprivacy_unit = "id"\nunique_per_person = ["home"]', shop)
    assert "not true of home" in problem


def test_links_that_a_collation_makes_equal_are_shared(shop: duckdb.DuckDBPyConnection) -> None:
    shop.execute("CREATE TABLE carts (cart VARCHAR COLLATE NOCASE, user_id INTEGER)")
    shop.execute("CREATE TABLE wishes (cart VARCHAR COLLATE NOCASE, article VARCHAR)")
    shop.execute("INSERT INTO carts VALUES ('a', 1), ('A', 1)")
    text = '[tables.carts]\nprivacy_unit = "user_id"\n[tables.wishes]\n'
    text += 'privacy_unit = { link = "cart", to = "carts.cart" }'
    assert wrong(text, shop) == []
    shop.execute("UPDATE carts SET user_id = 2 WHERE cart COLLATE \"binary\" = 'A'")
    (problem,) = wrong(text, shop)
    assert "carts.cart holds values that several people share" in problem


def test_null_is_a_value_like_others_where_rows_must_agree(
    shop: duckdb.DuckDBPyConnection,
) -> None:
    text = '[tables.homes]\nprivacy_unit = "id"\nunique_per_person = ["home"]'
    shop.execute(
        "CREATE TABLE homes AS FROM (VALUES (1, NULL), (1, NULL), (2, 'a')) AS t(id, home)"
    )
    assert wrong(text, shop) == []
    shop.execute("INSERT INTO homes VALUES (2, NULL)")
    (problem,) = wrong(text, shop)
    assert "not true of home" in problem


def test_temporary_tables_are_not_of_the_database(shop: duckdb.DuckDBPyConnection) -> None:
    shop.execute("CREATE TEMP TABLE catalog AS SELECT 1 AS x")
    assert wrong(EXAMPLE, shop) == []


def test_tables_that_the_policy_leaves_out_are_hidden(shop: duckdb.DuckDBPyConnection) -> None:
    assert hidden(parse_policy(EXAMPLE), DatabaseCatalog(shop)) == [
        "main.notes", "main.recent_ratings",
    ]  # fmt: skip


def test_a_question_that_cannot_be_asked_shows_no_value(shop: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(SourceError, match=r"^DuckDB raised ConversionException\.$"):
        DatabaseCatalog(shop).finds("SELECT title::INTEGER FROM ratings ORDER BY 1")


# --- drafts ---------------------------------------------------------------------------------------

ODD = """
CREATE SCHEMA old;
CREATE TABLE old.ratings ("Customer_ID" BIGINT, customer VARCHAR);
CREATE TABLE "a.b ""c"" ü
#]" ("x
y" DOUBLE, "?" INTEGER, kind ENUM ('a"', 'b
'));
CREATE TABLE floats (user_id DOUBLE, other INTEGER);
CREATE VIEW "odd view" AS SELECT 1 AS one;
"""


def test_a_finished_draft_passes_the_check(shop: duckdb.DuckDBPyConnection) -> None:
    shop.execute(ODD)
    catalog = DatabaseCatalog(shop)
    answers = {"floats": "other"}
    sections = draft(catalog).split("\n\n")
    for word, column in answers.items():
        (at,) = [n for n, s in enumerate(sections) if re.search(rf"\[tables.*{word}", s)]
        sections[at] = sections[at].replace('= "?"', f'= "{column}"')
    text = "\n\n".join(sections)
    assert text.count('privacy_unit = "?"') == 2  # what belongs to orders
    text = re.sub(r'privacy_unit = "\?".*\n# (privacy_unit = \{ link)', r"\1", text)
    policy = parse_policy(text)
    assert problems(policy, catalog) == []
    assert len(policy.tables) == 6  # catalog, regions and "ü" are hidden
    assert policy.tables[("old", "ratings")].privacy_unit == "customer_id"


def test_a_draft_with_a_question_in_it_is_no_policy(shop: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(PolicyError, match='still "\\?"'):
        parse_policy(draft(DatabaseCatalog(shop)))


def test_a_draft_proposes_people_and_marks_it(shop: duckdb.DuckDBPyConnection) -> None:
    shop.execute("CREATE TABLE floats (user_id DOUBLE)")
    text = draft(DatabaseCatalog(shop))
    assert '[tables.ratings]\nprivacy_unit = "user_id"  # check this' in text
    assert '[tables.floats]\nprivacy_unit = "?"' in text
    assert '# privacy_unit = { link = "order_id", to = "orders.order_id" }' in text
    assert "[views]\n" in text and '"recent_ratings"' in text


def test_a_draft_of_an_empty_database_is_a_policy_that_names_nothing() -> None:
    with duckdb.connect() as connection:
        policy = parse_policy(draft(DatabaseCatalog(connection)))
    assert policy == parse_policy("")


def test_the_lines_that_a_draft_comments_out_are_keys_that_are_read(
    shop: duckdb.DuckDBPyConnection,
) -> None:
    text = draft(DatabaseCatalog(shop))
    written = re.findall(r"^# (\w+) = ", text.split("[limits]")[1], re.MULTILINE)
    assert sorted(written) == sorted(keys_of(Limits))
    answered = re.sub(r'privacy_unit = "\?"', 'privacy_unit = "x"', text)
    live = re.sub(r"^# (m|d|unique)(?=\w+ = )", r"\1", answered, flags=re.MULTILINE)
    policy = parse_policy(live)
    assert policy.limits.max_k == 1000 and policy.limits.deadline_seconds == 5
    assert policy.tables[("orders",)].unique_per_person == {"region"}


def test_a_draft_reads_no_row(shop: duckdb.DuckDBPyConnection) -> None:
    class Blind(DatabaseCatalog):
        def finds(self, select: str) -> bool:
            raise AssertionError(select)

    assert draft(Blind(shop))
