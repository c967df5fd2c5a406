"""docs/policy.md is true: its keys, ranges, example and refusals are those of the code."""

import re

import duckdb
import pytest

import dp_sql
from dp_sql.engines.duckdb.introspection import DatabaseCatalog
from dp_sql.errors import PolicyError
from dp_sql.policy import model as policy
from dp_sql.policy.validation import problems
from tests.test_docs import TEXT, blocks

POLICY = TEXT["policy.md"]
SHORT_POLICY = """
tables.ratings.privacy_unit = "user_id"
budget.dataset = "shop"
budget.epsilon = 1
budget.analysts.ann.epsilon = 1
"""


def said_of(line: str) -> str:
    """The error of a policy with one more line."""
    with pytest.raises(PolicyError) as raised:
        policy.parse_policy(f"{SHORT_POLICY}\n{line}")
    return str(raised.value)


def keys_of(section: str) -> list[str]:
    """The keys of a section, as the error of an unknown key lists them."""
    return re.findall(r"\w+", said_of(f"{section}unknown_key = 1").partition("Known here: ")[2])


def test_every_key_of_a_policy_is_in_its_document() -> None:
    for key in set(keys_of("")) - {"unique_per_person"}:
        assert re.search(rf"^### `\[{key}[.\]]", POLICY, re.MULTILINE), key
    sections = (
        "tables.ratings.",
        "public.",
        "views.",
        "scores.models.",
        "limits.",
        "budget.",
        "budget.analysts.ann.",
    )
    keys = [keys_of(section) for section in sections]
    assert all(keys)
    for key in ["link", "to", *(key for found in keys for key in found)]:
        assert re.search(rf"^\|[^|]*`{key}`[^|]*\|", POLICY, re.MULTILINE), key


def test_the_ranges_of_limits_in_the_document_are_those_in_the_code() -> None:
    shown = dict(re.findall(r"^\| `(\w+)` \| ([\d.e-]+ \| [\d.]+) \|", POLICY, re.MULTILINE))
    for key in set(keys_of("limits.")) - {"unique_per_person"}:
        said = re.search(r"from (\S+) to (\S+)\.$", said_of(f"limits.{key} = -1"))
        assert (said is None) == (key not in shown), key
        if said is not None:
            assert [float(end) for end in shown[key].split(" | ")] == [*map(float, said.groups())]
    assert len(shown) == 8


POLICY_DATABASE = """
CREATE TABLE ratings (user_id BIGINT, title VARCHAR, region VARCHAR);
CREATE TABLE orders (order_id BIGINT, user_id BIGINT);
CREATE TABLE order_items (order_id BIGINT, article VARCHAR);
CREATE TABLE catalog (title VARCHAR);
CREATE TABLE regions (region VARCHAR);
CREATE VIEW recent_ratings AS FROM ratings;
CREATE TABLE models (model VARCHAR, accuracy DOUBLE, sensitivity DOUBLE);
"""


def test_the_policy_in_its_document_fits_a_database() -> None:
    example = "\n".join(blocks("toml", POLICY))
    with duckdb.connect() as connection:
        connection.execute(POLICY_DATABASE)
        assert problems(policy.parse_policy(example), DatabaseCatalog(connection)) == []
    with dp_sql.connect() as session:
        session.execute(f"{POLICY_DATABASE} INSERT INTO models VALUES ('tree', 0.9, 0.01)")
        assert session.sql(*blocks("sql", POLICY)).fetchall() == [("tree",)]


@pytest.mark.parametrize("page", ["budget.md", "dashboards.md", "superset.md", "spark.md"])
def test_a_part_of_a_policy_in_a_document_is_one(page: str) -> None:
    (part,) = blocks("toml", TEXT[page])
    whole = part if "[budget]" in part else f'[budget]\ndataset = "shop"\nepsilon = 9\n{part}'
    parsed = policy.parse_policy(f'tables.people.privacy_unit = "user_id"\n{whole}')
    assert parsed.budget is not None


def test_the_refusals_in_the_policys_document_are_what_is_said() -> None:
    example, _ = blocks("toml", POLICY)
    refusal, *shown = re.findall(r"^(?:PolicyError: )?policy\.toml, .+", POLICY, re.MULTILINE)
    with pytest.raises(PolicyError) as raised:
        policy.parse_policy(example.replace("privacy_unit", "privacy_unt", 1), "policy.toml")
    assert refusal == f"PolicyError: {raised.value}"
    with duckdb.connect() as connection:
        connection.execute(POLICY_DATABASE)
        connection.execute("INSERT INTO ratings VALUES (1, 'x', 'north'), (1, 'x', NULL)")
        connection.execute("INSERT INTO orders VALUES (1, 1), (1, 2)")
        catalog = DatabaseCatalog(connection)
        mistyped = problems(policy.parse_policy(example.replace("user_id", "usr_id", 1)), catalog)
        untrue = problems(policy.parse_policy(example), catalog)
    assert {f"policy.toml, {problem}" for problem in (*mistyped, *untrue)} == set(shown)
