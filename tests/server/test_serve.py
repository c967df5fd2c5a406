"""The real duckdb shell through a Quack server: what it gets, what it cannot reach, what it spends."""

from fractions import Fraction

import duckdb
import pytest

from dp_sql.engines.duckdb.quack_extension import load_quack
from dp_sql.server.access_tokens import remove_token
from dp_sql.server.sent_by_drivers import SCHEMATA, TABLES
from tests.attacks.attack_bench import CANARIES
from tests.server.serving import COUNT, TOPK, Served, asked, plain, real

REFUSALS = {
    "SELECT * FROM ratings": "ratings is private",
    "SELECT count(*) FROM ratings": "ratings is private",
    "FROM secret": "There is no table secret",
    "COPY catalog TO 'x.csv'": "Under a policy you can run SELECT",
    "COPY (FROM catalog) TO 'x.csv'": "Under a policy you can run SELECT",
    "ATTACH 'shop.duckdb' AS y": "Under a policy you can run SELECT",
    "SET threads = 8": "Under a policy you can run SELECT",
    "SET GLOBAL quack_authorization_function = 'x'": "Under a policy you can run SELECT",
    "INSTALL httpfs": "Under a policy you can run SELECT",
    "LOAD httpfs": "Under a policy you can run SELECT",
    "PRAGMA database_list": "Under a policy you can run SELECT",
    "CALL quack_stop('quack:localhost:9494')": "Under a policy you can run SELECT",
    "PREPARE p AS SELECT 1": "Under a policy you can run SELECT",
    "EXECUTE p": "Under a policy you can run SELECT",
    "CREATE TABLE x AS SELECT 1": "Under a policy you can run SELECT",
    "BEGIN; SELECT 1": "can run one statement at a time",
    "INSERT INTO catalog VALUES ('x')": "Authorization failed",
    "SELECT 1; SELECT 2": "can run one statement at a time",
    f"{COUNT}; FROM ratings": "can run one statement at a time",
    "FROM read_csv('/etc/passwd')": "",
    "FROM quack_active_connections()": "quack_active_connections",
    "FROM quack_server_list()": "quack_server_list",
    "SELECT dp_sql_instead('a', 'b')": "There is no function dp_sql_instead",
    "SELECT DP_TOPK(note, 3, epsilon := 1) AS t FROM notes": "domain",
}


@real
def test_the_shell_gets_a_top_k_and_a_distinct_count_through_the_macro(served: Served) -> None:
    out, err = served.shell(
        f"SELECT unnest(best) AS title FROM dp($$ {TOPK} $$);\nFROM dp($$ {COUNT} $$);\n"
    )
    assert (out.split(), err) == (["title", "Dune", "Emma", "Ulysses", "n", "4"], "")


@real
def test_the_shell_gets_an_answer_on_its_command_line(served: Served) -> None:
    with served.start("-c", f"FROM dp($$ {COUNT} $$)", analyst="reporting") as process:
        out, err = process.communicate(timeout=60)
    assert (plain(out).split(), plain(err), process.returncode) == (["n", "4"], "", 0)


@real
def test_what_was_answered_is_a_table_in_the_shell(served: Served) -> None:
    out, err = served.shell(
        f"CREATE TABLE mine AS FROM dp($$ {TOPK} $$);\n"
        "SELECT len(best) AS k FROM mine;\nSELECT typeof(best) AS kind FROM mine;\n"
    )
    assert (out.split(), err) == (["k", "3", "kind", "VARCHAR[]"], "")
    counted = TOPK.replace(") AS", ", counts := true) AS")
    out, err = served.shell(
        f"SELECT u.item, u.count FROM (SELECT unnest(best) AS u FROM dp($$ {counted} $$)) LIMIT 1;\n"
    )
    assert (out.split(), err) == (["item,count", "Dune,45"], "")


@real
def test_each_refusal_is_read_in_the_shell_and_it_goes_on(served: Served) -> None:
    before = served.spent("reporting")
    script = "".join(f"FROM dp($q$ {text} $q$);\nSELECT 'then' AS next;\n" for text in REFUSALS)
    out, err = served.shell(script)
    assert out.split() == ["next", "then"] * len(REFUSALS)
    errors = [part for part in err.split("Invalid Input Error: ") if part.strip()]
    for (text, words), said in zip(REFUSALS.items(), errors, strict=True):
        assert words in said, (text, said)
    assert served.spent("reporting") == before
    assert not any(canary in out + err for canary in CANARIES)


@real
def test_the_shells_own_statements_on_the_attached_database_are_refused(served: Served) -> None:
    statements = [
        "FROM dpsql.ratings", "SELECT count(*) FROM dpsql.ratings", "FROM dpsql.secret",
        "INSERT INTO dpsql.catalog VALUES ('x')", "CREATE TABLE dpsql.mine (a INTEGER)",
        "CREATE VIEW dpsql.mine AS SELECT 1", "CREATE SCHEMA dpsql.mine", "DROP TABLE dpsql.catalog",
        "DELETE FROM dpsql.catalog", "UPDATE dpsql.catalog SET title = 'x'",
        "COPY dpsql.ratings TO 'x.csv'", "ALTER TABLE dpsql.catalog ADD COLUMN x INTEGER",
        "FROM dpsql.query('SELECT 1 FROM ratings')",
    ]  # fmt: skip
    out, err = served.shell("".join(f"{text};\nSELECT 'then' AS next;\n" for text in statements))
    assert out.split() == ["next", "then"] * len(statements)
    assert err.count("Error: ") >= len(statements)
    out, _ = served.shell("SELECT count(*) AS n FROM dpsql.catalog;\n")
    assert out.split() == ["n", "7"]
    assert not any((served.folder / "x.csv").read_text().splitlines()[1:])


@real
def test_attach_shows_names_and_types_and_no_sizes(served: Served) -> None:
    out, err = served.shell(
        "SELECT 1 FROM dpsql.catalog LIMIT 0;\n.mode csv\nDESCRIBE dpsql.ratings;\n"
        "SELECT table_name, estimated_size FROM duckdb_tables() ORDER BY ALL;\n.tables\n"
        "SHOW ALL TABLES;\nSELECT suggestion FROM sql_auto_complete('FROM dpsql.');\n"
        "FROM dp('SHOW TABLES');\nFROM dp('DESCRIBE notes');\n"
    )
    assert err == ""
    assert "region" in out and "note,VARCHAR" in out
    assert [line for line in out.splitlines() if line.endswith((",private", ",public"))] == [
        "notes,private", "ratings,private", "catalog,public",
    ]  # fmt: skip
    for told in ("secret", "hidden_column", "canary", "1234", "201", "202"):
        assert told not in out


@real
def test_the_catalogue_that_attach_reads_is_written_by_us(served: Served) -> None:
    client = served.python("reader")
    schemata, tables = asked(client, SCHEMATA), asked(client, TABLES)
    assert schemata == [("dp_sql", "main")]
    assert {(schema, kind) for schema, _, kind in tables} == {("main", "table")}
    made = sorted(sql for _, sql, _ in tables)
    assert made[0] == 'CREATE TABLE "main"."catalog"("title" VARCHAR);'
    assert made[1] == 'CREATE TABLE "main"."notes"("user_id" BIGINT, "note" VARCHAR);'
    assert len(made) == 3


@real
def test_only_a_token_of_the_file_comes_in(served: Served) -> None:
    for token in ("x" * 64, served.token("reporting")[:-1] + "x", "' OR true --"):
        with pytest.raises(duckdb.Error, match="Authentication failed"):
            served_client(served, f"TOKEN '{token.replace(chr(39), chr(39) * 2)}'")
    with pytest.raises(duckdb.Error, match="token"):
        served_client(served, "")
    _, err = served.shell("FROM dp('SELECT 1');\n", token="not-a-token")
    assert "Authentication failed" in err


def served_client(served: Served, option: str) -> None:
    with duckdb.connect() as client:
        load_quack(client)
        client.execute(f"ATTACH '{served.where}' AS dpsql {f'({option})' if option else ''}")


@real
def test_a_token_identifies_its_analyst_until_it_is_removed(served: Served) -> None:
    one, other = served.python("first"), served.python("second")
    asked(one, "SELECT DP_COUNT_DISTINCT(title, epsilon := 3) AS n FROM ratings")
    own = "SELECT analyst, spent FROM dp_budget() WHERE analyst IS NOT NULL"
    assert asked(one, own) == [("first", 3)]
    assert asked(other, own) == [("second", 0)]
    remove_token(served.tokens, "second")
    with pytest.raises(duckdb.Error, match="not valid here"):
        asked(other, "SELECT 1")
    assert asked(one, "SELECT 1") == [(1,)]


@real
def test_an_analysts_cap_holds_over_connections(served: Served) -> None:
    question = "SELECT DP_COUNT_DISTINCT(title, epsilon := 0.75) AS n FROM ratings"
    asked(served.python("poor"), question)
    with pytest.raises(duckdb.Error, match=r"BudgetExceeded: .*0\.25"):
        asked(served.python("poor"), question + " -- anew")


@real
def test_the_same_statement_on_one_connection_is_spent_once_however_it_is_sent(
    served: Served,
) -> None:
    question = "dp($$ SELECT DP_COUNT_DISTINCT(title, epsilon := 2) AS n FROM ratings $$)"
    served.shell(
        f"EXPLAIN FROM {question};\nDESCRIBE FROM {question};\nFROM {question};\n"
        f"CREATE VIEW v AS FROM {question};\nFROM v;\nFROM v;\nCREATE TABLE t AS FROM {question};\n"
        f"PREPARE p AS FROM {question};\nEXECUTE p;\nEXECUTE p;\n",
        "thrifty",
    )
    assert served.spent("thrifty") == 2
    served.shell(f"FROM {question};\n", "thrifty")
    assert served.spent("thrifty") == 2
    served.shell("FROM " + question.replace("ratings", "ratings /* anew */") + ";\n", "thrifty")
    assert served.spent("thrifty") == 4


@real
def test_a_release_joins_public_tables_and_other_releases_in_the_shell(served: Served) -> None:
    best = f"(SELECT unnest(best) AS title FROM dp($$ {TOPK} $$))"
    out, err = served.shell(
        "CREATE TABLE notes AS SELECT 'Emma' AS title, 'read it' AS note;\n"
        f"SELECT DISTINCT title FROM {best} JOIN dpsql.catalog USING (title) ORDER BY title;\n"
        f"SELECT count(*) AS left FROM dpsql.catalog WHERE title NOT IN {best};\n"
        f"SELECT note, n FROM {best} JOIN notes USING (title), dp($$ {COUNT} $$);\n",
        "joiner",
    )
    assert (out.split("\n"), err) == (
        ["title", "Dune", "Emma", "Ulysses", "left", "2", "note,n", "read it,4"], "",
    )  # fmt: skip
    assert served.spent("joiner") == 20_000


@real
def test_a_join_that_quack_refuses_has_its_answer_for_free_afterwards(served: Served) -> None:
    two = "dpsql.catalog AS a JOIN dpsql.catalog AS b USING (title)"
    out, err = served.shell(f"FROM dp($$ {COUNT} $$), {two};\nFROM dp($$ {COUNT} $$);\n", "twice")
    assert "Multiple streaming scans" in err and out.split() == ["n", "4"]
    assert served.spent("twice") == 10_000


@real
def test_reading_an_answer_again_is_the_same_answer(served: Served) -> None:
    client = served.python("again")
    question = "SELECT DP_COUNT_DISTINCT(title, epsilon := 0.01) AS n FROM ratings"
    assert len({asked(client, question)[0] for _ in range(10)}) == 1
    assert served.spent("again") == Fraction("0.01")
    assert len({asked(client, f"{question} -- {n}")[0] for n in range(10)}) > 1
    assert served.spent("again") == Fraction("0.11")


@real
def test_the_clients_own_binding_spends_once(served: Served) -> None:
    client = served.python("binder")
    question = "SELECT DP_COUNT_DISTINCT(title, epsilon := 2) AS n FROM ratings"
    relation = client.sql(f"FROM dpsql.query('{question}')")
    assert {tuple(relation.fetchall()[0]), tuple(relation.fetchall()[0])} == set(
        relation.fetchall()
    )
    assert served.spent("binder") == 2


@real
def test_explain_over_quack_shows_the_cost_and_spends_nothing(served: Served) -> None:
    client = served.python("careful")
    rows = asked(client, "EXPLAIN SELECT DP_TOPK(title, 2, epsilon := 0.5) AS t FROM ratings")
    assert "epsilon = 0.5" in str(rows)
    assert served.spent("careful") == 0


@real
def test_no_statement_of_a_client_is_ever_run_in_the_served_instance(served: Served) -> None:
    client = served.python("spy")
    asked(client, COUNT)
    for name in ("memory.main", "main"):
        with pytest.raises(duckdb.Error, match="There is no table"):
            asked(client, f"FROM {name}.answer_1")
    with pytest.raises(duckdb.Error, match="more than public tables"):
        asked(client, "SELECT table_name FROM duckdb_tables()")


@real
def test_held_answers_go_when_others_come_and_free_ones_with_their_connection(
    served: Served,
) -> None:
    def held() -> int:
        rows = served.server._run("SELECT table_name FROM duckdb_tables()")
        return len(rows)

    client = served.python("many")
    asked(client, "SELECT 1")
    before = held()
    for n in range(20):
        asked(client, f"SELECT {n}")
    assert held() == before
    for n in range(20):
        asked(client, f"SELECT DP_COUNT_DISTINCT(title, epsilon := 0.01) AS n FROM ratings -- {n}")
    assert held() == before + 15  # sixteen are kept, and the passing one has gone
    others = [served.python("another") for _ in range(5)]
    for other in others:
        asked(other, "SELECT 1")
    most = held()
    for other in others:
        other.close()
    asked(served.python("another"), "SELECT 1")
    assert held() <= most - 4


@real
def test_every_kind_of_value_arrives_as_it_left(served: Served) -> None:
    values = (
        "170141183460469231731687303715884105727::HUGEINT", "'101'::BIT", "['101'::BIT]", "'\\xAA'::BLOB",
        "'3f0c9c5e-6f0a-4ef1-8a57-2b5f1f0c3d11'::UUID", "1.25::DECIMAL(38, 10)", "NULL", "'it''s'",
        "['a', NULL, 'b, c']", "{'a': 1, 'b': [DATE '2024-02-29']}", "MAP {'x': 1}", "[]",
        "'12:00:00+02'::TIMETZ", "INTERVAL 3 DAY", "'x'::ENUM ('x', 'y')", "'infinity'::FLOAT",
        "340282366920938463463374607431768211455::UHUGEINT",
    )  # fmt: skip
    client = served.python("typist")
    for value in values:
        want = client.sql(f"SELECT {value} AS it, typeof({value}) AS kind").fetchall()
        assert asked(client, f"SELECT {value} AS it, typeof({value}) AS kind") == want, value


@real
def test_a_release_in_a_struct_without_names_arrives_and_is_spent_once(served: Served) -> None:
    client = served.python("nameless")
    question = "SELECT (n, 1) AS x FROM (SELECT DP_COUNT_DISTINCT(title, epsilon := 2) AS n {})"
    for _ in range(2):
        ((pair,),) = asked(client, question.format("FROM ratings"))
        assert len(pair) == 2 or pair.endswith(", 1)")  # a string, where DuckDB has no such type
    assert served.spent("nameless") == 2
