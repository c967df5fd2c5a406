"""What a statement of plain DuckDB shows comes from its answers; the documents' statements run there."""

from __future__ import annotations

import ast
import itertools
import random
import re
import shlex

import duckdb
import pyarrow as pa
import pytest

import dp_sql
from dp_sql.engines.duckdb import connection, few_rows
from dp_sql.engines.duckdb.connection import Engine
from dp_sql.session import plain_call
from tests.conftest import READING_LOG, SURE
from tests.engines.test_plain import CALL, MORE, UNIT, Con
from tests.test_docs import MAKE_SHOP, PAGES, ROOT, blocks

PIECES = {
    "item": ["{}", "{}, 1 AS one", "unnest({})", "{}, len({}) + 1", "{}, count(*)", "{}, max(year)",
             "{}, (SELECT max(year) FROM ratings)", "{}, most(year)", "{}, any_value(title)[1]"],
    "source": ["ratings", "ratings r JOIN catalog c ON r.title = c.title", "readers",
               "(SELECT DISTINCT user_id, title FROM ratings)"],
    "tail": ["", "WHERE year > 2003", "HAVING count(*) > 3", "ORDER BY 1", "ORDER BY count(*)",
             "LIMIT 1", "LIMIT (SELECT count(*) FROM ratings) % 2", "QUALIFY true"],
    "around": ["{}", "SELECT 1 FROM ({})", "SELECT * FROM ({}), (SELECT count(*) FROM ratings)",
               "SELECT * FROM ({}), catalog", "SELECT * FROM ({}) WHERE EXISTS (FROM readers)",
               "WITH c AS ({}) SELECT a.*, b.* FROM c a, c b", "{} UNION ALL SELECT ['x']",
               "WITH c AS (FROM ratings) SELECT *, (SELECT count(*) FROM c) FROM ({})"],
}  # fmt: skip


def shown(con: Con, statement: str) -> object:
    """What a statement shows: its rows, or its error."""
    try:
        return con.execute(statement).fetchall()
    except duckdb.Error as error:
        return str(error)


def leaks(monkeypatch: pytest.MonkeyPatch, n: int | None = None) -> tuple[list[str], int]:
    """Statements that show more than the answers: they differ between databases; and all shown.

    Every release is replaced by the same value. `n`: how many are tried, if not all.
    """
    every = list(itertools.product(*PIECES.values()))
    tried = every if n is None else random.Random(1).sample(every, n)
    monkeypatch.setattr(Engine, "release_as_json", lambda *_: '[["Dune", "Emma"]]')
    found, n_answered = [], 0
    with duckdb.connect() as full, duckdb.connect() as less, duckdb.connect() as empty:
        for con, change in ((full, ""), (less, "WHERE user_id = 7"), (empty, "")):
            con.execute(READING_LOG)
            dp_sql.install(con)
            con.execute(MORE)
            if con is not full:
                con.execute(f"DELETE FROM ratings {change}")
        for item, source, tail, around in tried:
            select = f"SELECT {item.replace('{}', CALL, 1)} FROM {source} {tail}"
            select = select.replace("{}", f"DP_TOPK(title, 1, {UNIT}, domain := catalog.title)")
            statement = around.replace("{}", select, 1)
            one = shown(full, statement)
            if isinstance(one, list):
                n_answered += 1
                if not one == shown(less, statement) == shown(empty, statement):
                    found.append(statement)
    return found, n_answered


def is_run(statement: str) -> bool:
    """Whether DuckDB needs the answer of its call; else it is an ordinary query of the owner."""
    return "SELECT 1 FROM" not in statement


@pytest.mark.thorough
@pytest.mark.parametrize("n", [40, pytest.param(None, marks=pytest.mark.slow)])
def test_what_is_shown_depends_on_the_answers_alone(
    monkeypatch: pytest.MonkeyPatch, n: int | None
) -> None:
    found, n_answered = leaks(monkeypatch, n)
    assert [statement for statement in found if is_run(statement)] == []
    assert n_answered >= 3


@pytest.mark.thorough
def test_the_search_for_leaks_finds_a_check_that_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plain_call, "check_around", lambda *_: None)
    monkeypatch.setattr(plain_call, "plans_of_all", lambda selects, *_: [None] * 9)
    monkeypatch.setitem(PIECES, "source", ["ratings"])
    monkeypatch.setattr(plain_call, "reserved", _free)
    found, _ = leaks(monkeypatch, 40)
    assert any(map(is_run, found))


class _free:
    """`reserved` without a plan."""

    def __init__(self, *_: object) -> None:
        self.plan = self.ticket = None

    def __enter__(self) -> list[_free]:
        return [self]

    def __exit__(self, *_: object) -> None:
        pass


VALUES = [
    "170141183460469231731687303715884105727::HUGEINT", "1.50::DECIMAL(38, 10)",
    "DATE '0044-03-15 (BC)'", "DATE 'infinity'", "TIMESTAMP '2020-01-01 01:02:03.123456'",
    "TIMESTAMPTZ '2020-01-01 01:02:03+02'", "TIME '01:02:03'", "uuid()", "true", "'novel'::genre",
    r"'\x00\xAB''x'::BLOB", "'NULL'", "''", "'[\"\\,{' || chr(10) || '😀'",
]  # fmt: skip


@pytest.mark.thorough
def test_items_of_every_type_come_back_as_they_are(con: Con) -> None:
    for value in VALUES:
        con.execute(f"CREATE OR REPLACE TABLE t AS SELECT {value} AS x, 1 AS user_id")
        call = f"DP_TOPK(x, 1, {UNIT}, domain := observed"
        con.execute(
            f"CREATE OR REPLACE TABLE got AS SELECT {call}) AS one, "
            f"{call.replace(SURE, 'epsilon := 9999')}, counts := true) AS many, "
            "DP_SELECT(x, user_id, 1, epsilon := 1) AS chosen FROM t"
        )
        same = con.execute(
            "SELECT one = [x], many[1].item = x, chosen = x, typeof(one) = typeof([x]), "
            "typeof(chosen) = typeof(x), len(many) = 1 FROM got, t"
        ).fetchall()
        assert same == [(True,) * 6], value


@pytest.mark.parametrize(
    "call",
    [
        "DP_COUNT(1{})", "DP_COUNT(1, report := true{})", "DP_COUNT(price, contribution_bound := 4{})",
        "DP_SUM(price{})", "DP_SUM(price, report := true{})", "DP_AVG(n{})",
        "DP_AVG(price, report := true, contribution_bound := 4{})", "DP_COUNT_DISTINCT(n{})",
        "DP_COUNT_DISTINCT(n, report := true, max_contributions := 1{})", "DP_TOPK(n, 2, domain := [3, 1, 2, 0]{})",
        "DP_TOPK(name, 2, domain := observed, counts := true{})",
        "DP_COUNT_DISTINCT(user_id, report := true{})",
    ],
)  # fmt: skip
def test_few_rows_get_the_same_answers_in_python_as_in_duckdb(
    call: str, con: Con, monkeypatch: pytest.MonkeyPatch
) -> None:
    con.execute(
        "CREATE TABLE t AS SELECT i // 2 AS user_id, (i % 7 > 3)::INTEGER + (i % 7 > 5)::INTEGER AS n, "
        "CAST(n + 0.25 AS DECIMAL(9, 2)) AS price, '\"' || chr(10) || n AS name "
        "FROM range(400) AS r(i)"
    )
    asked = f"SELECT {call.format(f', {UNIT}')} AS x FROM t"
    released, answers = [], []
    as_json = connection.as_json
    monkeypatch.setattr(connection, "as_json", lambda *a: released.append(a) or as_json(*a))
    for few in (0, 1 << 60):
        monkeypatch.setattr(few_rows, "FEW", few)
        answers += con.sql(f"SELECT x, typeof(x) FROM ({asked})").fetchall()
    assert len(released) == 1
    (by_duckdb, kind), (by_python, same_kind) = answers
    assert (kind, type(by_duckdb)) == (same_kind, type(by_python))
    if isinstance(by_duckdb, dict):
        of_both = [
            [float(x) for x in one.values() if x is not None] for one in (by_duckdb, by_python)
        ]
        by_duckdb, by_python = of_both
    if "AVG" in call or "report" in call:  # these differ by a little noise
        assert by_python == pytest.approx(by_duckdb, rel=0.01)
    else:
        assert by_python == by_duckdb


# The documents' statements.


def owners_statements() -> list[str]:
    """The statements of the documents and examples in which the owner states the privacy unit."""
    found: list[str] = []
    for path in (*PAGES, ROOT / "dp_sql" / "cli" / "demo.py"):
        text = path.read_text("utf-8")
        code = [text] if path.suffix == ".py" else blocks("python", text)
        for block in code:
            strings = (n.value for n in ast.walk(ast.parse(block)) if isinstance(n, ast.Constant))
            found += [s for s in strings if isinstance(s, str)]
        for block in blocks("sql", text):
            if not block.startswith("."):  # a command of the shell
                found += [one.query for one in duckdb.extract_statements(block)]
        for block in blocks("sh", text):
            for line in block.splitlines():
                if " -c " in line:
                    found += shlex.split(line, comments=True)
    owners = re.compile(r"privacy_unit :=|DP_SELECT\(", re.IGNORECASE)
    return [s.strip() for s in found if owners.search(s) and re.match(r"\s*(SELECT|CREATE)\b", s)]


@pytest.mark.thorough
def test_most_statements_of_the_documents_run_on_a_plain_connection() -> None:
    statements = owners_statements()
    works: list[str] = []
    refused: list[str] = []
    with dp_sql.connect() as session, duckdb.connect() as shop:
        for connection in (session, shop):
            connection.execute(MAKE_SHOP)
        dp_sql.install(shop)
        for statement in statements:
            try:
                session.sql(statement)
            except (dp_sql.QueryError, duckdb.Error):
                continue  # shown for its error, or for another database
            if "DP_COUNT(*" in statement:  # DuckDB takes no * there, but a 1
                with pytest.raises(duckdb.Error):
                    shop.execute(statement)
            try:
                assert shop.execute(statement.replace("DP_COUNT(*", "DP_COUNT(1")).fetchall()
                works.append(statement)
            except duckdb.Error as error:
                if "FILTER (" in statement:  # DuckDB refuses it behind a macro
                    assert "Macro Function" in str(error)
                    continue
                if "GROUP BY" not in statement:  # written inside dp(…), as the documents say
                    refused.append(statement)
                if statement.count("DP_") > 1 and "delta" in statement:  # they share their groups
                    assert "Ask with dp_sql.connect(…).sql(…)" in str(error)
                    continue
                (other,) = re.findall(r"^Write: (.+\$\$\))$", str(error), re.MULTILINE | re.DOTALL)
                assert shop.sql(other).fetchall()
    assert len(works) >= 9
    assert len(works) >= 0.75 * (len(works) + len(refused)), refused


def test_a_dataframe_is_read_or_the_error_says_how(con: Con) -> None:
    frame = pa.table({"user_id": [1, 2], "title": ["Dune", "Emma"]})
    asked = f"SELECT {CALL} FROM frame"
    try:
        assert len(con.sql(asked).fetchall()) == 1
    except duckdb.Error as error:  # DuckDB 1.5 prints the query anew, and frame is not found
        assert "Did you mean" not in str(error) and "FROM dp($$" in str(error)
    assert len(con.sql(f"FROM dp($$ {asked} $$)").fetchall()) == 1 < len(frame)
