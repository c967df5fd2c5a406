"""Drafts from keys and names: the person, links, what may be public, and nothing public by itself."""

import random
import re
from pathlib import Path

import duckdb
import pytest

import dp_sql
from dp_sql.engines.duckdb.introspection import DatabaseCatalog
from dp_sql.policy.model import Link, Policy, parse_policy
from dp_sql.policy.template import draft
from dp_sql.policy.validation import problems
from tests.databases import write_database

SHOP = """
CREATE TABLE employees (employee_id INTEGER PRIMARY KEY, boss INTEGER REFERENCES employees(employee_id));
CREATE TABLE customers (customer_id INTEGER PRIMARY KEY, country VARCHAR, rep INTEGER REFERENCES employees(employee_id));
CREATE TABLE categories (category_id INTEGER PRIMARY KEY, name VARCHAR);
CREATE TABLE products (product_id INTEGER PRIMARY KEY, name VARCHAR, category_id INTEGER REFERENCES categories(category_id));
CREATE TABLE orders (order_id INTEGER PRIMARY KEY, employee_id INTEGER REFERENCES employees(employee_id), buyer INTEGER REFERENCES customers(customer_id));
CREATE TABLE order_items (order_id INTEGER REFERENCES orders(order_id), product_id INTEGER REFERENCES products(product_id), PRIMARY KEY (order_id, product_id));
CREATE TABLE returns (o INTEGER, p INTEGER, reason VARCHAR, FOREIGN KEY (o, p) REFERENCES order_items(order_id, product_id));
INSERT INTO customers SELECT i, 'no', NULL FROM range(50) AS r(i);
INSERT INTO categories VALUES (1, 'books');
INSERT INTO products SELECT i, 'p' || i, 1 FROM range(9) AS r(i);
INSERT INTO orders SELECT i, NULL, i % 50 FROM range(100) AS r(i);
INSERT INTO order_items SELECT i, i % 7 FROM range(100) AS r(i);
"""
STREAMING = """
CREATE TABLE accounts (id UUID PRIMARY KEY, country VARCHAR);
CREATE TABLE profiles (id UUID PRIMARY KEY, account_id UUID REFERENCES accounts(id), name VARCHAR);
CREATE TABLE titles (title_id INTEGER PRIMARY KEY, title VARCHAR);
CREATE TABLE plays (profile_id UUID REFERENCES profiles(id), title_id INTEGER REFERENCES titles(title_id));
INSERT INTO accounts SELECT uuid(), 'no' FROM range(50);
INSERT INTO profiles SELECT uuid(), id, 'p' FROM accounts, range(2);
INSERT INTO titles SELECT i, 't' || i FROM range(9) AS r(i);
INSERT INTO plays SELECT id, range FROM profiles, range(5);
"""
TPCH = """
CREATE TABLE nation (n_nationkey INTEGER PRIMARY KEY, n_name VARCHAR);
CREATE TABLE part (p_partkey BIGINT PRIMARY KEY, p_name VARCHAR);
CREATE TABLE supplier (s_suppkey BIGINT PRIMARY KEY, s_nationkey INTEGER REFERENCES nation(n_nationkey));
CREATE TABLE partsupp (ps_partkey BIGINT REFERENCES part(p_partkey), ps_suppkey BIGINT REFERENCES supplier(s_suppkey), PRIMARY KEY (ps_partkey, ps_suppkey));
CREATE TABLE customer (c_custkey BIGINT PRIMARY KEY, c_name VARCHAR, c_nationkey INTEGER REFERENCES nation(n_nationkey));
CREATE TABLE orders (o_orderkey BIGINT PRIMARY KEY, o_custkey BIGINT REFERENCES customer(c_custkey));
CREATE TABLE lineitem (l_orderkey BIGINT REFERENCES orders(o_orderkey), l_partkey BIGINT, l_suppkey BIGINT,
    FOREIGN KEY (l_partkey, l_suppkey) REFERENCES partsupp(ps_partkey, ps_suppkey));
INSERT INTO part SELECT i, 'p' FROM range(9) AS r(i);
INSERT INTO supplier SELECT i, NULL FROM range(9) AS r(i);
INSERT INTO partsupp SELECT i, i FROM range(9) AS r(i);
INSERT INTO customer SELECT i, 'c' || i, NULL FROM range(50) AS r(i);
INSERT INTO orders SELECT i, i % 50 FROM range(90) AS r(i);
INSERT INTO lineitem SELECT i, i % 9, i % 9 FROM range(90) AS r(i);
"""
UNITS = {
    "shop": (SHOP, {
        "employees": "employee_id", "customers": "customer_id", "orders": "buyer",
        "order_items": Link("order_id", ("orders",), "order_id"),
        "returns": Link("o", ("orders",), "order_id"),
    }),
    "streaming": (STREAMING, {
        "accounts": "id", "profiles": "account_id", "plays": Link("profile_id", ("profiles",), "id"),
    }),
    "tpch": (TPCH, {
        "customer": "c_custkey", "orders": "o_custkey",
        "lineitem": Link("l_orderkey", ("orders",), "o_orderkey"),
    }),
}  # fmt: skip
QUESTIONS = {
    "shop": ("order_items", "product_id", '"order_items.product_id" = "products.product_id"', "products", 7),
    "streaming": ("plays", "title_id", '"plays.title_id" = "titles.title_id"', "titles", 5),
    "tpch": ("lineitem", "l_partkey", '"customer.c_nationkey" = "nation.n_nationkey"', "nation", 9),
}  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", UNITS)
def test_a_draft_follows_keys_and_is_ready_to_use(name: str, tmp_path: Path) -> None:
    sql, units = UNITS[name]
    database = write_database(tmp_path / "it.duckdb", sql)
    with duckdb.connect(database) as connection:
        catalog = DatabaseCatalog(connection)
        text = draft(catalog)
        policy = parse_policy(text)
        assert {table[0]: one.privacy_unit for table, one in policy.tables.items()} == units
        assert not policy.public and not policy.views and not policy.domains
        table, column, domain, public, count = QUESTIONS[name]
        assert f"\n# {domain}\n" in text and re.search(rf"\n# tables = \[.*{public}", text)
        are = "as they are.\ntables = "
        text = text.replace(f"{are}[]", f'{are}["{public}"]').replace(f"# {domain}", domain)
        assert problems(parse_policy(text), catalog) == []
    file = tmp_path / "policy.toml"
    file.write_text(text, "utf-8")
    with dp_sql.connect(database, policy=file) as session:
        asked = f"SELECT DP_COUNT_DISTINCT({column}, epsilon := 10000) AS n FROM {table}"
        assert session.sql(asked).fetchall() == [(count,)]


def drafted(sql: str) -> str:
    with duckdb.connect() as connection:
        connection.execute(sql)
        return draft(DatabaseCatalog(connection))


def test_a_row_of_two_people_is_for_the_owner_to_judge() -> None:
    text = drafted(
        "CREATE TABLE users (id INTEGER PRIMARY KEY);"
        "CREATE TABLE messages (a INTEGER REFERENCES users(id), b INTEGER REFERENCES users(id));"
        "CREATE TABLE reads (x INTEGER REFERENCES users(id), y INTEGER REFERENCES users(id))"
    )
    assert text.count('privacy_unit = "?"') == 2
    for column in "abxy":
        assert f'\n# privacy_unit = "{column}"  # references users\n' in text


def test_a_key_to_two_private_tables_is_for_the_owner_to_judge() -> None:
    text = drafted(
        "CREATE TABLE users (id INTEGER PRIMARY KEY);"
        "CREATE TABLE orders (n INTEGER PRIMARY KEY, u INTEGER REFERENCES users(id));"
        "CREATE TABLE visits (n INTEGER PRIMARY KEY, u INTEGER REFERENCES users(id));"
        "CREATE TABLE clicks (o INTEGER REFERENCES orders(n), v INTEGER REFERENCES visits(n))"
    )
    assert '[tables.clicks]\nprivacy_unit = "?"' in text
    assert '# privacy_unit = { link = "o", to = "orders.n" }' in text


def test_a_table_of_people_has_one_row_of_each_only_by_its_primary_key() -> None:
    text = drafted("CREATE TABLE a (user_id INTEGER PRIMARY KEY, x DOUBLE, y TEXT);"
                   "CREATE TABLE b (user_id INTEGER, y TEXT, PRIMARY KEY (user_id, y))")  # fmt: skip
    policy = parse_policy(text)
    assert policy.tables["a",].unique_per_person == {"y"}
    assert policy.tables["b",].unique_per_person == frozenset()


def test_a_number_that_is_called_person_is_one_and_a_string_may_be() -> None:
    text = drafted(
        "CREATE TABLE visits (person BIGINT, day DATE); CREATE TABLE books (author TEXT);"
        "CREATE TABLE sales (customer TEXT, total INTEGER)"
    )
    asked = '"?"  # the column that identifies the person, or a link:\n# privacy_unit = "customer"'
    assert f"[tables.sales]\nprivacy_unit = {asked}" in text
    assert '[tables.visits]\nprivacy_unit = "person"  # check this' in text
    assert '# tables = ["books"]' in text


@pytest.mark.parametrize("column", ["owner_user_id", "OwnerUserId", "sold_to_customer_no"])
def test_a_person_in_a_role_is_for_the_owner_to_judge(column: str) -> None:
    text = drafted(
        f"CREATE TABLE posts (id BIGINT, {column} BIGINT, score INTEGER); CREATE TABLE tags (t TEXT)"
    )
    assert '[tables.posts]\nprivacy_unit = "?"' in text
    assert f'\n# privacy_unit = "{column}"  # check this' in text
    assert '# tables = ["tags"]' in text


def test_riders_come_before_drivers_and_devices_may_be_people() -> None:
    text = drafted("CREATE TABLE rides (driver_id INTEGER, rider_id INTEGER);"
                   "CREATE TABLE events (device_id UUID); CREATE TABLE views (url TEXT, device TEXT)")  # fmt: skip
    assert [*re.findall(r'^privacy_unit = "(\w+)"', text, re.M)] == ["device_id", "rider_id"]
    other = "# Another column may identify the person. If so, write it instead:\n# privacy_unit = "
    assert re.findall(f'{other}"(\\w+)"', text) == ["driver_id"]
    assert '# tables = ["views"]' in text


def test_a_key_of_likelier_people_comes_before_the_own_key() -> None:
    text = drafted(
        "CREATE TABLE subscribers (subscriber_id BIGINT PRIMARY KEY); CREATE TABLE users (id INTEGER PRIMARY KEY);"
        "CREATE TABLE devices (imei UBIGINT PRIMARY KEY, subscriber_id BIGINT, id INTEGER);"
        "CREATE TABLE drivers (driver_id INTEGER PRIMARY KEY, subscriber_id VARCHAR, id INTEGER)"
    )
    assert '[tables.devices]\nprivacy_unit = "subscriber_id"  # check this' in text
    assert '[tables.drivers]\nprivacy_unit = "driver_id"  # check this' in text


@pytest.mark.parametrize("column", ["user_id", "customer_id"])
def test_an_account_may_be_one_of_several_of_a_person(column: str) -> None:
    text = drafted(f"CREATE TABLE accounts (account_id HUGEINT PRIMARY KEY, {column} HUGEINT)")
    ways = [*re.findall(r'^(?:# )?privacy_unit = "(\w+)"', text, re.M)]
    assert ways == ["account_id", column]


def test_a_part_of_the_key_of_people_may_be_several_people() -> None:
    text = drafted(
        "CREATE TABLE pupils (school INTEGER, pupil_no INTEGER, PRIMARY KEY (school, pupil_no));"
        "CREATE TABLE ratings (user_id INTEGER, title VARCHAR, PRIMARY KEY (user_id, title))"
    )
    assert re.search(r'privacy_unit = "pupil_no"  # check this: is this part of the', text)
    assert 'privacy_unit = "user_id"  # check this: does it identify the person?' in text


def test_an_id_that_leads_to_another_ones_person_is_for_the_owner_to_judge() -> None:
    text = drafted(
        "CREATE TABLE users (user_id INTEGER PRIMARY KEY); CREATE TABLE orders (user_id INTEGER);"
        "CREATE TABLE devices (device_id VARCHAR PRIMARY KEY, user_id INTEGER REFERENCES users (user_id));"
        "CREATE TABLE readings (device_id VARCHAR, steps INTEGER)"
    )
    asked = '[tables.readings]\nprivacy_unit = "?"  # the column that identifies the person, or a link:\n'
    link = '# privacy_unit = { link = "device_id", to = "devices.device_id" }  # is in devices as well\n'
    assert f'{asked}{link}# privacy_unit = "device_id"  # check this' in text
    assert '[tables.orders]\nprivacy_unit = "user_id"  # check this' in text


def test_two_roles_of_people_are_for_the_owner_to_judge() -> None:
    text = drafted("CREATE TABLE calls (caller_id BIGINT, callee_id BIGINT, cell_id INTEGER);"
                   "CREATE TABLE cells (cell_id INTEGER, seller VARCHAR, last_caller_seen DATE)")  # fmt: skip
    asked = '"?"  # the column that identifies the person, or a link:'
    for column in ("caller_id", "callee_id"):
        asked += f'\n# privacy_unit = "{column}"  # check this: does it identify the person?'
    assert f"[tables.calls]\nprivacy_unit = {asked}\n" in text
    assert '# tables = ["cells"]' in text


def test_bare_roles_and_names_with_spaces_speak_of_people_too() -> None:
    text = drafted("CREATE TABLE calls (caller HUGEINT, callee HUGEINT, secs INTEGER);"
                   'CREATE TABLE letters (sender VARCHAR, recipient VARCHAR);'
                   'CREATE TABLE shelves (seller VARCHAR); CREATE TABLE events (actor_id BIGINT);'
                   'CREATE TABLE sales (ss_customer_sk INTEGER, ss_item_sk INTEGER);'
                   'CREATE TABLE outages ("Household ID" INTEGER, cause VARCHAR)')  # fmt: skip
    assert '[tables.outages]\nprivacy_unit = "Household ID"  # check this' in text
    assert '[tables.sales]\nprivacy_unit = "ss_customer_sk"  # check this' in text
    for column in ("caller", "callee", "sender", "recipient", "actor_id"):
        assert f'# privacy_unit = "{column}"  # check this' in text
    assert '# tables = ["shelves"]' in text


def test_a_column_called_like_the_key_of_a_table_of_people_is_for_the_owner_to_judge() -> None:
    text = drafted("CREATE TABLE subscribers (imsi HUGEINT PRIMARY KEY, born DATE);"
                   "CREATE TABLE sessions (imsi HUGEINT, mb DOUBLE);"
                   "CREATE TABLE other (imsi VARCHAR); CREATE TABLE things (name VARCHAR, id INTEGER);"
                   'CREATE TABLE chats (chat UUID PRIMARY KEY, "user" VARCHAR);'
                   "CREATE TABLE messages (chat UUID, sent DATE)")  # fmt: skip
    assert '[tables.sessions]\nprivacy_unit = "?"' in text
    assert '# privacy_unit = "imsi"  # check this' in text
    assert '# privacy_unit = { link = "chat", to = "chats.chat" }  # is the key of chats' in text
    hidden = text.split("No key or name connects")[1].split("\n[")[0]
    assert '"other"' in hidden and '"things"' in hidden and "messages" not in hidden


def test_a_key_of_another_width_and_a_column_called_iban_are_for_the_owner_to_judge() -> None:
    text = drafted("CREATE TABLE wanderers (badge SMALLINT PRIMARY KEY, born DATE);"
                   "CREATE TABLE walks (badge INTEGER, path TEXT); CREATE TABLE firms (badge TEXT);"
                   "CREATE TABLE bookings (IBAN VARCHAR, amount DECIMAL(18, 2))")  # fmt: skip
    assert '# privacy_unit = "badge"  # check this' in text.split("[tables.walks]")[1]
    assert '[tables.bookings]\nprivacy_unit = "?"' in text and '# privacy_unit = "IBAN"' in text
    assert '# tables = ["firms"]' in text


def test_tables_behind_others_that_the_owner_must_judge_are_for_the_owner_to_judge() -> None:
    text = drafted("CREATE TABLE claims (policy_no VARCHAR, amount INTEGER);"
                   "CREATE TABLE policies (policy_no VARCHAR PRIMARY KEY, holder_id BIGINT);"
                   "CREATE TABLE holders (holder_id BIGINT PRIMARY KEY, sex VARCHAR);"
                   "CREATE TABLE hearings (case_id BIGINT, minutes INTEGER);"
                   "CREATE TABLE cases (case_id BIGINT PRIMARY KEY, defendant_id INTEGER);"
                   "CREATE TABLE calls (caller VARCHAR, callee VARCHAR)")  # fmt: skip
    assert 'link = "policy_no", to = "policies.policy_no" }  # is the key of policies' in text
    assert 'link = "case_id", to = "cases.case_id" }' in text
    assert '# privacy_unit = "caller"' in text and "No key or name connects" not in text


def test_no_example_shows_what_identifies_people() -> None:
    text = drafted("CREATE TABLE users (id INTEGER PRIMARY KEY, email TEXT, last_name TEXT)")
    assert '# "ratings.title" = ["value 1", "value 2"]' in text
    assert '# "users.' not in text


@pytest.mark.parametrize(
    "column", ["born DATE", "birth_year SMALLINT", "First_Name TEXT", "sex TEXT"]
)
def test_a_table_with_birth_dates_or_first_names_is_one_of_people(column: str) -> None:
    text = drafted(
        f"CREATE TABLE wanderers (no INTEGER PRIMARY KEY, {column}, note TEXT);"
        "CREATE TABLE walks (walk INTEGER PRIMARY KEY, who INTEGER REFERENCES wanderers(no), path TEXT);"
        "CREATE TABLE firms (no INTEGER PRIMARY KEY, email TEXT, phone TEXT)"
    )
    assert '[tables.wanderers]\nprivacy_unit = "no"  # check this' in text
    assert '[tables.walks]\nprivacy_unit = "who"  # references wanderers' in text
    assert '# tables = ["firms"]' in text


def test_ids_with_a_prefix_are_followed_to_their_table() -> None:
    tables = TPCH.replace(" REFERENCES orders(o_orderkey)", "")
    text = drafted(tables.replace(" REFERENCES customer(c_custkey)", ""))
    way = '{ link = "l_orderkey", to = "orders.o_orderkey" }  # is in orders as well'
    assert (
        f'[tables.lineitem]\nprivacy_unit = "?"  # the column that identifies the person, or a link:\n# privacy_unit = {way}'
        in text
    )
    assert '# tables = ["nation", "part", "partsupp", "supplier"]' in text


def test_no_domain_is_proposed_for_people_or_for_a_primary_key() -> None:
    text = drafted(
        "CREATE TABLE writers (code TEXT PRIMARY KEY);"
        "CREATE TABLE posts (post TEXT PRIMARY KEY, author TEXT REFERENCES writers(code), user_id INTEGER)"
    )
    assert '# tables = ["writers"]' in text and '# "posts.author" = "writers.code"' in text
    text = text.partition("[domains]")[2]
    assert '"posts.post"' not in text and '"posts.author" = ["value 1", "value 2"]' in text
    text = drafted(
        "CREATE TABLE writers (code TEXT PRIMARY KEY);"
        "CREATE TABLE posts (post TEXT PRIMARY KEY, user_id TEXT REFERENCES writers(code))"
    ).partition("[domains]")[2]
    assert '"posts.' not in text


def test_a_draft_without_people_shows_how_to_name_them() -> None:
    text = drafted("CREATE TABLE hits (cookie TEXT, path TEXT)")
    assert '# privacy_unit = "user_id"' in text and '# tables = ["hits"]' in text
    assert parse_policy(text) == parse_policy("")
    text = drafted("CREATE TABLE hits (uid TEXT, path TEXT)")
    assert '[tables.hits]\nprivacy_unit = "uid"  # check this' in text


def random_schema(seed: int) -> str:
    """Tables with keys to earlier ones, under names that may or may not speak of people."""
    draw, made, tables = random.Random(seed), [], []
    for n in range(draw.randint(2, 9)):
        name = draw.choice(["users", "orders", "items", "account", "t"]) + f"_{n}" * draw.randint(
            0, 1
        )
        if name in {table for table, _ in tables}:
            continue
        key = draw.choice(["id", f"{name}_id", "user_id", "k"])
        columns = [f'"{key}" INTEGER PRIMARY KEY']
        for other, other_key in draw.sample(tables, min(len(tables), draw.randint(0, 2))):
            columns.append(f'c{len(columns)} INTEGER REFERENCES "{other}"("{other_key}")')
        columns += draw.sample(["title VARCHAR", "customer_id BIGINT", "member_no DOUBLE"], 1)
        made.append(f'CREATE TABLE "{name}" ({", ".join(columns)})')
        tables.append((name, key))
    return ";".join(made)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("seed", range(40))
def test_no_draft_makes_anything_public_or_names_a_person_against_a_key(seed: int) -> None:
    with duckdb.connect() as connection:
        connection.execute(random_schema(seed))
        catalog = DatabaseCatalog(connection)
        answered = re.sub(r'privacy_unit = "\?"', 'privacy_unit = "title"', draft(catalog))
        policy = parse_policy(answered)
        assert (policy.public, policy.views, policy.domains) == (frozenset(), frozenset(), {})
        wrong = [line for line in problems(policy, catalog) if "title" not in line]
        assert wrong == []
        _check_roots(policy, catalog)


def _check_roots(policy: Policy, catalog: DatabaseCatalog) -> None:
    """Each person column that is a foreign key leads to a table with the same person."""
    by_name = {table.parts[-1]: table for table in catalog.listed()}
    for (name,), table in policy.tables.items():
        for reference in by_name[name].references:
            if reference.columns == (table.privacy_unit,):
                other = policy.tables[(reference.table[-1],)]
                assert other.privacy_unit == reference.keys[0], (name, table.privacy_unit)
