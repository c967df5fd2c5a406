"""Domains and groups of another type, or apart from the declared ones, are refused for nothing."""

import pytest

import dp_sql
import dp_sql.integrations.dbapi
from dp_sql import errors
from dp_sql.session.analyst import AnalystSession
from tests.conftest import SURE, free
from tests.databases import owner_of
from tests.privacy.visits import SHOP, top

owner = owner_of(SHOP)


def owners(item: str, domain: str, k: int = 1) -> str:
    return top(item, domain, k).replace(SURE, f"{SURE}, privacy_unit := person")


OF_ANOTHER_TYPE = [
    ("title", "products.product_id", "VARCHAR, and its domain, the column products.product_id, holds values of type BIGINT"),
    ("title", "[1, 2]", "holds values of type INTEGER"),
    ("title", "[TRUE]", "holds values of type BOOLEAN"),
    ("page", "['0', '1']", "page has type BIGINT, and its domain, a list in the statement, holds strings"),
    ("page", "products.title", "holds values of type VARCHAR"),
    ("page", "products.rough", "holds values of type DOUBLE"),
    ("page", "[TRUE]", "holds values of type BOOLEAN"),
    ("page", "[0, 1.5]", "holds 1.5, which is not a value of type BIGINT"),
    ("page", "products.half", "holds 0.5, which is not a value of type BIGINT"),
    ("page", "[0, 99999999999999999999]", "holds 99999999999999999999, which"),
    ("price", "[0.5, 0.505]", "holds 0.505, which is not a value of type DECIMAL"),
    ("day", "['2024-01-01', 'monday']", "holds monday, which is not a value of type DATE"),
    ("day", "['2024-01-01 12:00:00']", "holds 2024-01-01 12:00:00, which"),
    ("day", "[20240101]", "holds values of type INTEGER"),
    ("seen", "['2024-01-01', 'soon']", "holds soon, which is not a value of type TIMESTAMP"),
    ("flag", "['true']", "holds strings"),
    ("flag", "[0, 1]", "holds values of type INTEGER"),
]  # fmt: skip


@pytest.mark.parametrize(("item", "domain", "words"), OF_ANOTHER_TYPE)
def test_an_analysts_domain_of_another_type_costs_nothing(
    visitor: AnalystSession, item: str, domain: str, words: str
) -> None:
    with free(visitor), pytest.raises(errors.ArgumentError) as caught:
        visitor.sql(top(item, domain))
    assert words in caught.value.message


@pytest.mark.parametrize(("item", "domain", "words"), OF_ANOTHER_TYPE)
def test_an_owners_domain_of_another_type_costs_nothing(
    owner: dp_sql.Session, item: str, domain: str, words: str
) -> None:
    with free(owner), pytest.raises(errors.ArgumentError) as caught:
        owner.sql(owners(item, domain))
    assert words in caught.value.message


@pytest.mark.parametrize(
    ("key", "groups"),
    [("title", "products.product_id"), ("title", "[1]"), ("page", "['0']"), ("day", "['x']"),
     ("page", "[0.5]")],
)  # fmt: skip
def test_groups_of_another_type_cost_nothing(
    visitor: AnalystSession, owner: dp_sql.Session, key: str, groups: str
) -> None:
    call = f"DP_COUNT_DISTINCT(word, {SURE}, groups := {groups}, max_groups_contributed := 1)"
    text = f"SELECT {key}, {call} FROM visits GROUP BY {key}"
    refused = {
        "expected_exception": errors.ArgumentError,
        "match": f"{key} has type|The groups of {key}",
    }
    with free(visitor, owner):
        with pytest.raises(**refused):
            visitor.sql(text)
        with pytest.raises(**refused):
            owner.sql(text.replace(SURE, f"{SURE}, privacy_unit := person"))


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("item", "domain", "n"),
    [("page", "[0, 1, 2.0]", 3), ("page", "products.product_id", 3), ("price", "[0, 0.5, 1]", 3),
     ("day", "['2024-01-01', '2024-01-02']", 2), ("day", "products.day", 3),
     ("day", "[DATE '2024-01-01', '2024-01-02']", 2),
     ("seen", "[TIMESTAMP '2024-01-01 00:00:00', DATE '2024-01-02']", 2),
     ("seen", "['2024-01-01', '2024-01-02 00:00:00']", 2), ("seen", "products.day", 3),
     ("title", "products.title", 3), ("title", "['b0', 'b1']", 2), ("flag", "[TRUE, FALSE]", 2)],
)  # fmt: skip
def test_values_of_the_items_kind_are_a_domain(
    visitor: AnalystSession, owner: dp_sql.Session, item: str, domain: str, n: int
) -> None:
    for found in (visitor.sql(top(item, domain, n)), owner.sql(owners(item, domain, n))):
        ((best,),) = found.fetchall()
        assert len(best) == n


@pytest.mark.parametrize(
    ("domain", "words"), [("[]", "more than the 0 items"), ("['a', NULL]", "The list holds NULL")]
)
def test_a_list_without_values_is_too_small_and_one_with_null_is_refused(
    owner: dp_sql.Session, domain: str, words: str
) -> None:
    with pytest.raises(errors.ArgumentError, match=words):
        owner.sql(owners("title", domain))


def test_a_domain_of_another_type_is_refused_with_a_statement_that_works(
    owner: dp_sql.Session, visitor: AnalystSession
) -> None:
    with pytest.raises(errors.ArgumentError) as caught:
        owner.sql(owners("title", "products.product_id"))
    made, named = (caught.value.hint or "").split("in a view, ")[1].split(", and name ")
    owner.sql(made)
    assert len(owner.sql(owners("title", named.rstrip("."), 3)).fetchall()[0][0]) == 3
    with pytest.raises(errors.ArgumentError) as caught:
        visitor.sql(top("page", "products.title"))
    item = (caught.value.hint or "").split("ask for ")[1].rstrip(".")
    assert len(visitor.sql(top(item, "products.title", 3)).fetchall()[0][0]) == 3


@pytest.mark.parametrize(
    ("item", "domain"),
    [("title", "products.note"), ("title", "['x', 'y']"), ("page", "[7, 8]"), ("word", "['x']"),
     ("word", "products.title"), ("page", "[NULL, 7]")],
)  # fmt: skip
def test_a_domain_apart_from_the_declared_one_costs_nothing(
    visitor: AnalystSession, item: str, domain: str
) -> None:
    declared = "in the domain that the policy declares"
    words = "The list holds NULL" if "NULL" in domain else declared
    with free(visitor), pytest.raises(errors.ArgumentError, match=words):
        visitor.sql(top(item, domain))


def test_groups_apart_from_the_declared_ones_cost_nothing(visitor: AnalystSession) -> None:
    call = f"DP_COUNT_DISTINCT(word, {SURE}, groups := ['x'], max_groups_contributed := 1)"
    words = "in the domain that the policy declares"
    with free(visitor), pytest.raises(errors.ArgumentError, match=words):
        visitor.sql(f"SELECT title, {call} FROM visits GROUP BY title")


def test_one_declared_value_is_enough(visitor: AnalystSession) -> None:
    assert visitor.sql(top("title", "['b0', 'x']")).fetchall() == [(["b0"],)]
    assert visitor.sql(top("word", "['canary-a', 'x']")).fetchall() == [(["canary-a"],)]
