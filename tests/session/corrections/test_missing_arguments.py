"""The refusal of a call names all arguments that the call lacks, and proposes a call that works."""

import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import dp_sql
from tests.conftest import free
from tests.session.corrections.orders_shop import POLICY, TABLES, told

UNIT = "privacy_unit := customer_id"
# Of each function: what it counts, its other arguments without a name, and those with one.
CALLS = {
    "DP_TOPK": ("note", "3", ["domain := ['a', 'b', 'c']"]),
    "DP_COUNT": ("*", None, []),
    "DP_COUNT_DISTINCT": ("order_id", None, []),
    "DP_SUM": ("total", None, []),
    "DP_AVG": ("total", None, []),
    "DP_QUANTILE": ("total", "0.5", ["lower := 0", "upper := 50"]),
    "DP_MEDIAN": ("day", None, ["lower := DATE '2024-01-01'", "upper := DATE '2025-01-01'"]),
}
GROUPS = ["groups := ['note']", "max_groups_contributed := 1"]


def _lacking(function: str, grouped: bool, of_owner: bool) -> Iterator[tuple[str, set[str]]]:
    """Calls that lack one argument, all but one, or all; and what each of them lacks."""
    item, second, named = CALLS[function]
    whole = {"epsilon": "epsilon := 1"} | ({"privacy_unit": UNIT} if of_owner else {})
    whole |= {one.split(" ")[0]: one for one in [*named, *GROUPS * grouped]}
    if function == "DP_COUNT":
        whole.pop("max_groups_contributed", None)  # a histogram needs none
    first = {"item": item} | ({"k" if function == "DP_TOPK" else "q": second} if second else {})
    every = first | whole
    subsets = [{name} for name in every] + [every.keys() - {name} for name in every]
    for lacks in [*subsets, {*every}]:
        if "item" in lacks and not first.keys() <= lacks:
            continue  # positional arguments: the first cannot be left out alone
        given = [written for name, written in every.items() if name not in lacks]
        yield f"{function}({', '.join(filter(None, given))})", lacks


def _said(message: str) -> set[str]:
    positional = re.findall(r"the positional arguments? (\w+)(?: and (\w+))?", message)
    sets = re.findall(r"(?:a )?(domain|groups)(?: \(|:) ?the public set", message)
    return {*re.findall(r"(\w+) := <", message), *sets, *(n for p in positional for n in p if n)}


@pytest.mark.parametrize("of_owner", [False, True])
@pytest.mark.parametrize("tail", ["", " GROUP BY note"])
@pytest.mark.parametrize("function", CALLS)
def test_all_that_a_call_lacks_is_named_at_once(
    owner: dp_sql.Session, analyst: dp_sql.Session, function: str, tail: str, of_owner: bool
) -> None:
    session = owner if of_owner else analyst
    for call, lacks in _lacking(function, bool(tail), of_owner):
        error = told(session, f"SELECT {call} AS answer FROM orders{tail}")
        assert _said(error.message) == lacks, (call, error.message)
        is_known = "item" not in lacks or function == "DP_COUNT"
        assert bool(error.suggestion) is is_known, (call, error.message)
        if error.suggestion:
            with free(session):
                session.explain(error.suggestion)


def test_a_call_of_scores_is_told_all_that_it_lacks(analyst: dp_sql.Session) -> None:
    error = told(analyst, "SELECT DP_SELECT(status) FROM orders")
    assert error.message == (
        "DP_SELECT needs the positional arguments score and sensitivity and epsilon := <number> "
        "(the privacy loss)."
    )


def test_an_example_keeps_to_the_policy(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(POLICY + "limits.max_k = 3")
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as con:
        con.execute(TABLES)
    with dp_sql.connect(
        tmp_path / "shop.duckdb", policy=tmp_path / "policy.toml", analyst="ann"
    ) as analyst:
        error = told(analyst, "SELECT DP_TOPK(status, epsilon := 1) FROM orders")
        assert error.suggestion == "SELECT DP_TOPK(status, 3, epsilon := 1) FROM orders"
        assert "privacy_unit" not in str(told(analyst, "SELECT DP_TOPK() FROM orders").hint)


def test_a_comma_is_put_and_read_where_it_belongs(analyst: dp_sql.Session) -> None:
    error = told(analyst, "SELECT DP_COUNT(* epsilon := 1) FROM orders")
    assert error.suggestion == "SELECT DP_COUNT(*, epsilon := 1) FROM orders"
    error = told(analyst, "SELECT DP_COUNT(*, epsilon := 1, 2) FROM orders")
    assert error.suggestion == "SELECT DP_COUNT(*, epsilon := 1.2) FROM orders"
    assert str(error.hint) == (
        "One number takes a decimal point, as in 1.2; an argument of its own takes its name, as in "
        "epsilon := 1."
    )
    assert told(analyst, "SELECT DP_COUNT(*, epsilon := 1 2) FROM orders").suggestion == ""
