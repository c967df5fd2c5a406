"""DP_TOPK with counts: the answer in SQL, for owners and under a policy."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dp_sql
from dp_sql.integrations import dbapi
from dp_sql.udfs import REGISTRY
from dp_sql.udfs.range_norm import range_norm_quantile
from dp_sql.udfs.topk import counts
from tests.conftest import READING_LOG, SURE

BOOKS = "privacy_unit := user_id, domain := catalog.title, counts := true"
BEST = [("Dune", 45), ("Emma", 25), ("Ulysses", 10)]


def rows(session: dp_sql.Session, text: str) -> list[Any]:
    return session.sql(text).fetchall()  # type: ignore[no-any-return]


def pairs(answer: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    return [(one["item"], one["count"]) for one in answer]


def top(k: int, more: str = SURE, source: str = "ratings") -> str:
    return f"SELECT DP_TOPK(title, {k}, {more}, {BOOKS}) AS best FROM {source}"


@pytest.mark.one_in(4)
@pytest.mark.parametrize("mechanism", [None, *REGISTRY["topk"]])
def test_each_mechanism_lists_items_with_their_counts(
    session: dp_sql.Session, mechanism: str | None
) -> None:
    given = SURE if mechanism is None else f"{SURE}, mechanism := '{mechanism}'"
    parameters = REGISTRY["topk"][mechanism or "subset"].parameters
    given += ", delta := 1e-9" if "delta" in parameters else ""
    text = top(3, given)
    if mechanism and REGISTRY["topk"][mechanism].finds_items:
        session.execute("DELETE FROM ratings WHERE title = 'a note to self'")
        text = text.replace("domain := catalog.title, ", "")
    relation = session.sql(text)
    assert str(relation.types[0]) == "STRUCT(item VARCHAR, count BIGINT)[]"
    ((answer,),) = relation.fetchall()
    assert pairs(answer) == BEST
    (receipt,) = session.receipts
    assert receipt.mechanism == (mechanism or "subset")
    assert receipt.loss.epsilon == 10_000
    assert receipt.accuracy.startswith("with probability 95 %, all counts are within ± 0 people")


def test_the_noisy_counts_order_the_items_and_then_their_values(
    session: dp_sql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    ((answer,),) = rows(session, top(5))
    assert pairs(answer) == [*BEST, ("Beloved", 0), ("Walden", 0)]
    enum = top(3, source="ratings WHERE false").replace("catalog.title", "genre")
    ((answer,),) = rows(session, enum.replace("title", "kind"))
    assert pairs(answer) == [("essay", 0), ("novel", 0), ("poems", 0)], "not as the type lists them"
    monkeypatch.setattr(
        counts, "range_norm_noises", lambda sizes, *_: [[-100, -50, 0][:k] for k in sizes]
    )
    ((answer,),) = rows(session, top(3, f"{SURE}, mechanism := 'joint'"))
    assert pairs(answer) == [("Ulysses", 10), ("Emma", -25), ("Dune", -55)]


def test_an_answer_may_be_empty(session: dp_sql.Session) -> None:
    text = top(3, "epsilon := 0.001, delta := 1e-9").replace("domain := catalog.title, ", "")
    assert rows(session, text) == [([],)]
    assert "all counts are within ±" in session.receipts[-1].accuracy


def test_groups_have_lists_of_their_own(session: dp_sql.Session) -> None:
    given = f"{SURE}, groups := ['north', 'south', 'west'], max_groups_contributed := 1"
    text = top(2, given).replace("SELECT", "SELECT region,") + " GROUP BY region ORDER BY region"
    found = {region: pairs(answer) for region, answer in rows(session, text)}
    assert [item for item, _ in found["north"]] == ["Dune", "Emma"]
    assert sorted(found["north"] + found["south"])[:2] == [("Dune", 22), ("Dune", 23)]
    assert [count for _, count in found["west"]] == [0, 0]


def test_the_answer_is_a_list_like_any_other(session: dp_sql.Session) -> None:
    text = top(2)
    unnested = f"SELECT u.item, u.count FROM (SELECT unnest(best) AS u FROM ({text}))"
    assert rows(session, unnested) == BEST[:2]
    assert rows(session, text.replace(") AS best", ")[1].item AS best")) == [("Dune",)]
    assert rows(session, text.replace("DP_TOPK", "len(DP_TOPK").replace(") AS", ")) AS")) == [(2,)]
    assert pairs(rows(session, f"SELECT best FROM dp($$ {text} $$)")[0][0]) == BEST[:2]
    list_alone = text.replace("counts := true", "counts := false")
    assert rows(session, list_alone) == [(["Dune", "Emma"],)]


def test_explain_and_the_receipt_state_the_same_exact_bound(session: dp_sql.Session) -> None:
    text = top(3, "epsilon := 0.5, beta := 0.01")
    (cost,) = session.explain(text).calls
    rows(session, text)
    (receipt,) = session.receipts
    rate = counts.counts_epsilon(Fraction(1, 2))
    bound = range_norm_quantile(3, rate, Fraction(1, 100))
    assert cost.accuracy == receipt.accuracy
    assert f"with probability 99 %, all counts are within ± {bound} people" in cost.accuracy
    assert cost.all_within == bound
    assert cost.loss == receipt.loss
    assert cost.loss.rho == (Fraction(1, 2) - rate) ** 2 / 8 + rate**2 / 2


@pytest.mark.one_in(4)
@pytest.mark.parametrize("wrong", ["1", "'true'", "x", "yes"])
def test_counts_is_true_or_false(session: dp_sql.Session, wrong: str) -> None:
    with pytest.raises(dp_sql.QueryError, match="counts must be true or false"):
        session.sql(top(3).replace("counts := true", f"counts := {wrong}"))


# Under a policy, with releases that are kept.

VALUES = {
    "v": "'it''s ' || i", "n": "i::INTEGER", "d": "DATE '2020-01-01' + i::INTEGER",
    "c": "(i / 100)::DECIMAL(9, 2)", "e": "(CASE WHEN i % 2 = 0 THEN 'z' ELSE 'a' END)::mood",
    "b": r"('\xAA' || i)::BLOB", "t": "i % 2 = 0", "h": "i::HUGEINT - 170141183460469231731687303715884105727",
    "s": "TIMESTAMP '2020-01-01 01:02:03.123456' + to_days(i::INTEGER)", "u": "md5(i::VARCHAR)::UUID",
}  # fmt: skip


@pytest.fixture
def kept(tmp_path: Path) -> tuple[str, str]:
    database, policy = tmp_path / "all.duckdb", tmp_path / "policy.toml"
    with duckdb.connect(str(database)) as con:
        con.execute("CREATE TYPE mood AS ENUM ('z', 'a')")
        columns = ", ".join(f"{value} AS {name}" for name, value in VALUES.items())
        con.execute(
            f"CREATE TABLE people AS SELECT p AS id, p % 2 AS g, {columns} FROM range(60) AS r(p), "
            "range(4) AS s(i) WHERE p % (i + 1) = 0"
        )
        for name in VALUES:
            con.execute(f"CREATE TABLE all_{name} AS SELECT DISTINCT {name} FROM people")
    domains = "\n".join(f'"people.{name}" = "all_{name}.{name}"' for name in VALUES)
    public = ", ".join(f'"all_{name}"' for name in VALUES)
    policy.write_text(
        f'tables.people.privacy_unit = "id"\npublic.tables = [{public}]\nlimits.max_k = 2\n'
        'limits.max_epsilon_per_query = 10000\n[budget]\ndataset = "all"\nepsilon = 200000\n'
        f'keep_releases = true\n[domains]\n{domains}\n"people.g" = [0, 1]\n'
    )
    return str(database), str(policy)


@pytest.mark.thorough
def test_a_kept_release_is_read_back_as_it_was(kept: tuple[str, str]) -> None:
    database, policy = kept
    texts = [
        f"SELECT DP_TOPK({name}, 2, {SURE}, counts := true) AS a FROM people" for name in VALUES
    ]
    grouped = (
        "SELECT g, DP_TOPK(v, 1, epsilon := 9, counts := true, max_groups_contributed := 1) AS a"
    )
    texts.append(f"{grouped} FROM people GROUP BY g ORDER BY g")
    answers = []
    for _ in range(2):
        with dp_sql.connect(database, policy=policy, analyst="ann") as session:
            found = [session.sql(text) for text in texts]
            answers.append([(str(one.types), one.fetchall()) for one in found])
            spent = session.budget()[-1].epsilon_spent
            assert spent == 10_000 * len(VALUES) + 9
            again = session.sql(f"FROM dp_release('{session.releases[-1].id}')").fetchall()
            assert again == answers[-1][-1][1]
    assert answers[0] == answers[1]
    with duckdb.connect(database, read_only=True) as con:
        for (_, (((best, *_),),)), name in zip(answers[0], VALUES, strict=False):
            value = "CAST({0} AS VARCHAR)" if name == "e" else "{0}"
            (true,) = con.sql(
                f"SELECT {value.format(name)}, count(DISTINCT id) AS n FROM people GROUP BY 1 "
                "ORDER BY n DESC LIMIT 1"
            ).fetchall()
            assert (best["item"], best["count"]) == true


def test_a_list_and_a_list_with_counts_are_different_questions(kept: tuple[str, str]) -> None:
    database, policy = kept
    with dp_sql.connect(database, policy=policy, analyst="ann") as session:
        share = counts.LIST_SHARE * 1000
        for text in (
            "SELECT DP_TOPK(v, 2, epsilon := 1000, counts := true) FROM people",
            f"SELECT DP_TOPK(v, 2, epsilon := {share}) FROM people",
            f"SELECT DP_TOPK(v, 2, epsilon := {share}, mechanism := 'subset') FROM people",
        ):
            session.sql(text).fetchall()
        assert len(session.releases) == 3
        with pytest.raises(dp_sql.QueryError, match="at most 2"):
            session.sql("SELECT DP_TOPK(v, 3, epsilon := 1, counts := true) FROM people")
        with pytest.raises(dp_sql.QueryError, match="10000"):
            session.sql("SELECT DP_TOPK(v, 2, epsilon := 10000.5, counts := true) FROM people")


def test_clients_get_items_and_counts(tmp_path: Path) -> None:
    database = str(tmp_path / "log.duckdb")
    with duckdb.connect(database) as con:
        con.execute(READING_LOG)
    listed = [{"item": item, "count": count} for item, count in BEST]
    with dbapi.connect(database) as connection:
        cursor = connection.cursor()
        cursor.execute(top(3))
        assert cursor.fetchall() == [(listed,)]
        assert "item" in str(cursor.description[0][1])
    with dp_sql.connect(database) as session:
        assert session.sql(top(3)).to_arrow_table().to_pylist() == [{"best": listed}]
        pytest.importorskip("pandas")
        assert list(session.sql(top(3)).df()["best"][0]) == listed
    sqlalchemy = pytest.importorskip("sqlalchemy")
    pytest.importorskip("duckdb_engine")
    engine = sqlalchemy.create_engine(f"dpsql:///{database}?owner=true")
    with engine.connect() as connection:
        assert connection.execute(sqlalchemy.text(top(3))).fetchall() == [(listed,)]
    engine.dispose()
