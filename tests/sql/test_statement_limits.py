"""Statements at the limits and beyond them: none ends the process, none takes seconds to refuse.

The statements run in a child process, in a thread with the smallest stack that a platform gives to
DuckDB's threads: a hole here ends the process.
"""

import contextlib
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest

import dp_sql
from dp_sql.errors import NotSupported, ParseError, QueryError
from dp_sql.sql import statement_limits
from dp_sql.sql.statement import parse
from dp_sql.sql.statement_limits import check_bytes, check_parameters, check_shape
from dp_sql.sql.tokens import statements
from tests.privacy.shapes import SHAPES

SMALL_STACK = 512 * 1024
LONGEST = 5.0  # seconds of all processors; every statement takes below one
TOP = "SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings"


def check(text: str) -> None:
    check_bytes(text)
    (statement,) = parse(text)
    check_shape(statement)


def passes(text: str) -> bool:
    try:
        check(text)
    except QueryError:
        return False
    return True


def largest(name: str) -> int:
    """The largest size of a shape that the limits let through."""
    shape, high = SHAPES[name], 1
    while passes(shape(high)) and high < 300_000:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if passes(shape(middle)) else (low, middle)
    return low


def ask_all(folder: str, names: list[str]) -> None:
    """Ask shapes at the limits and beyond, alone and as a condition of a DP call."""
    session = dp_sql.connect(f"{folder}/shop.duckdb", policy=f"{folder}/policy.toml")
    for name in names:
        most = largest(name)
        for n in (most, most + 1, 2 * most + 2, 20 * most + 20):
            text = SHAPES[name](n)
            condition = f"{TOP} WHERE score = {text.removeprefix('SELECT ')}"
            for statement in (text, f"EXPLAIN {text}", f"SELECT * FROM ({text})", condition):
                started = time.process_time()
                with contextlib.suppress(dp_sql.DpSqlError, duckdb.Error):
                    session.sql(statement)
                took = time.process_time() - started
                if took > LONGEST:
                    print(f"{name} x {n} took {took:.1f} s: {statement[:80]}", flush=True)
    session.close()


PROGRAM = """
import sys, threading
from tests.sql.test_statement_limits import ask_all, SMALL_STACK
threading.stack_size(SMALL_STACK)
thread = threading.Thread(target=ask_all, args=(sys.argv[1], sys.argv[2:]))
thread.start()
thread.join()
print("done")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("limits")
    with duckdb.connect(str(found / "shop.duckdb")) as owner:
        owner.execute("CREATE TABLE ratings AS SELECT 1 AS user_id, 'a' AS title, 1 AS score")
    (found / "policy.toml").write_text(
        '[tables.ratings]\nprivacy_unit = "user_id"\n[domains]\n"ratings.title" = ["a", "b"]\n',
        encoding="utf-8",
    )
    return found


# One of each kind that crashed a version, or took it minutes, without the limits.
WORST = [
    "(from (", "brackets", "in (select", "lambda", "is true", "interval(", "using", "cte chain",
    "cte nm double", "aliases", "star double", "struct double", "distinct aggs", "group by and",
    "json paths", "array(", "from describe", "open (", "block", "digits", "1+1", "(values",
]  # fmt: skip
CHUNKS = [list(SHAPES)[n::6] for n in range(6)]


def run_child(folder: Path, names: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), *names],
        capture_output=True, text=True, check=False, timeout=900,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-2000:]


@pytest.mark.thorough
def test_the_worst_shapes_are_answered_or_refused_at_once(folder: Path) -> None:
    run_child(folder, WORST)


@pytest.mark.slow
@pytest.mark.parametrize("names", CHUNKS, ids=[f"part {n}" for n in range(6)])
def test_every_shape_is_answered_or_refused_at_once(folder: Path, names: list[str]) -> None:
    run_child(folder, names)


def test_without_the_limits_a_statement_ends_the_process() -> None:
    """The planted fault: if this child survives, the tests above prove nothing."""
    program = (
        "import duckdb, threading\nfrom tests.privacy.shapes import SHAPES\n"
        f"threading.stack_size({SMALL_STACK})\n"
        "def run():\n"
        "    for name in ('(from (', 'brackets', 'is true'):\n"
        "        for n in (1000, 5000):\n"
        "            try: duckdb.connect().execute('EXPLAIN ' + SHAPES[name](n))\n"
        "            except duckdb.Error: pass\n"
        "thread = threading.Thread(target=run)\nthread.start()\nthread.join()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=False, timeout=300,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.returncode < 0


AT_LIMIT = {
    "brackets": ("brackets", statement_limits.MAX_DEPTH, "50 levels of nested brackets"),
    "cases": ("case when", statement_limits.MAX_DEPTH, "50 levels of nested brackets"),
    "signs": ("-", statement_limits.MAX_CHAIN - 2, "200 words and symbols in one expression"),
    "conditions": ("or", statement_limits.MAX_CONDITIONS, "1,000 AND and OR"),
    "lambdas": ("lambda", statement_limits.MAX_ARROWS, "8 nested or chained arrows"),
    "tables": ("comma join", statement_limits.MAX_RELATIONS - 1, "80 queries, tables, joins"),
    "subqueries": ("subq flat", statement_limits.MAX_SUBQUERIES, "16 queries in expressions"),
    "nested queries": ("(select", statement_limits.MAX_SCALAR_DEPTH, "5 levels of queries nested"),
    "nested tables": (
        "from(select",
        statement_limits.MAX_QUERY_DEPTH,
        "16 levels of nested queries",
    ),
    "summaries": ("from describe", statement_limits.MAX_SUMMARIES, "2 PIVOT, UNPIVOT, SUMMARIZE"),
    "copies": ("cte nm double", 8, "500 copies of one part"),
    "equalities": ("group by and", statement_limits.MAX_EQUALITIES, "40 equalities of columns"),
}


@pytest.mark.parametrize("case", AT_LIMIT)
def test_each_limit_holds_exactly_and_is_named_with_its_place(case: str) -> None:
    name, most, words = AT_LIMIT[case]
    check(SHAPES[name](most))
    with pytest.raises(NotSupported, match=words) as refused:
        check(SHAPES[name](most + 1))
    assert refused.value.position is not None
    assert str(refused.value).splitlines()[3].endswith("^")


def test_a_column_called_show_and_the_direction_desc_are_no_summaries() -> None:
    check("SELECT b.show, b.show, show FROM t AS b WHERE show OR NOT b.show ORDER BY b.show")
    check("SELECT count(show) FROM t ORDER BY a DESC, lower(b) DESC, 3 DESC, list[1] DESC, d DESC")
    with pytest.raises(NotSupported, match="200 words and symbols in one expression"):
        check("SELECT " + " + ".join(["b.show"] * 60) + " FROM t AS b")


@pytest.mark.parametrize("word", ["DESCRIBE", "DESC", "SHOW", "SUMMARIZE", "PIVOT", "UNPIVOT"])
@pytest.mark.parametrize("form", [
    "FROM ({0} a), ({0} b), ({0} c)", "FROM ({0} {0} {0} a)", "SELECT (({0} a)), ({0} {0} b)",
    "FROM (FROM a UNION {0} b EXCEPT ALL {0} c UNION ALL BY NAME {0} c)",
])  # fmt: skip
def test_three_summaries_are_too_many_wherever_they_may_be_written(word: str, form: str) -> None:
    with pytest.raises(NotSupported, match="2 PIVOT, UNPIVOT, SUMMARIZE"):
        check(form.format(word))


@pytest.mark.thorough
def test_tokens_digits_and_calls_hold_exactly() -> None:
    check("SELECT " + ",".join(["1"] * (statement_limits.MAX_TOKENS // 2)))
    with pytest.raises(NotSupported, match="45,000 words and symbols"):
        check("SELECT 1," + ",".join(["1"] * (statement_limits.MAX_TOKENS // 2)))
    check("SELECT " + "9" * statement_limits.MAX_DIGITS)
    with pytest.raises(NotSupported, match="500 digits in one number"):
        check("SELECT " + "9" * (statement_limits.MAX_DIGITS + 1))
    call = "DP_TOPK(title, 1, epsilon := 1)"
    check("SELECT " + ", ".join([call] * statement_limits.MAX_CALLS) + " FROM ratings")
    with pytest.raises(NotSupported, match="100 DP calls"):
        check("SELECT " + ", ".join([call] * (statement_limits.MAX_CALLS + 1)) + " FROM ratings")


@pytest.mark.thorough
def test_many_calls_do_not_read_a_long_list_again_and_again() -> None:
    call, values = "DP_TOPK(title, 1, epsilon := 1)", ", ".join(["'b0'"] * 20_000)
    source = f" FROM ratings WHERE title IN ({values})"
    check("SELECT " + ", ".join([call] * 3) + source)
    with pytest.raises(NotSupported, match="150,000 words and symbols times DP calls"):
        check("SELECT " + ", ".join([call] * 4) + source)


@pytest.mark.parametrize("form", ["SELECT {} FROM ratings", "SELECT * FROM (SELECT {} FROM t)"])
@pytest.mark.parametrize("call", ["DP_TOPK(title, 1, epsilon := 1)", "unnest(dp_topk(title, 1))"])
def test_lists_with_dp_calls_have_a_limit(form: str, call: str) -> None:
    check(form.format(", ".join(["1"] * statement_limits.MAX_ITEMS + [call])))
    with pytest.raises(NotSupported, match="1,000 other items in SELECT lists"):
        check(form.format(", ".join(["1"] * (statement_limits.MAX_ITEMS + 1) + [call])))


def test_bytes_are_counted_in_utf_8_and_before_anything_is_read() -> None:
    check("SELECT '" + "é" * 99_995 + "'")
    with pytest.raises(NotSupported, match="200,000 bytes"):
        check("SELECT '" + "é" * 99_996 + "'")
    with pytest.raises(NotSupported, match="200,000 bytes"):
        check("(" * 10**8)


def test_twenty_thousand_short_values_in_a_list_are_one_statement() -> None:
    check(TOP + " WHERE title IN (" + ", ".join(["'b0'"] * 20_000) + ")")
    check(f"SELECT DP_TOPK(title, 2, epsilon := 1, domain := [{','.join(['1234'] * 20_000)}])")


LEGITIMATE = {
    "a pipeline": """
        WITH base AS (
            SELECT o.user_id AS user_id, o.amount AS amount, p.category AS category, o.day AS day
            FROM orders o JOIN products p USING (product_id) WHERE o.day > 1),
        daily AS (SELECT user_id, day, sum(amount) AS amount, count(*) AS n FROM base GROUP BY ALL),
        ranked AS (
            SELECT *, row_number() OVER (PARTITION BY user_id ORDER BY amount DESC) AS r,
                CASE WHEN amount > 10 THEN amount ELSE 0 END AS big FROM daily),
        best AS (SELECT user_id, day, amount, n, r, big + amount AS total FROM ranked WHERE r < 10),
        two AS (
            SELECT b.*, d.n AS dn, total - amount AS rest, coalesce(total, amount, 0) AS total
            FROM best b JOIN daily d ON b.user_id = d.user_id AND b.day = d.day)
        SELECT *, total * 2 AS twice, total + rest + twice AS everything FROM two ORDER BY total""",
    "fifteen joins": "SELECT * FROM t0" + "".join(
        f" JOIN t{n} ON t{n}.id = t0.id AND t{n}.day = t0.day" for n in range(1, 16)),
    "branches": "SELECT CASE" + " WHEN title = 'a' AND score > 1 THEN 'b'" * 150 + " ELSE 'c' END",
    "conditions": "SELECT 1 FROM t WHERE " + " OR ".join(f"title = 'a{n}'" for n in range(400)),
    "unions": " UNION ALL ".join(["SELECT user_id, title FROM t"] * 20),
    "subqueries": "SELECT * FROM (" * 10 + "SELECT 1" + ")" * 10,
    "columns": "SELECT " + ", ".join(f"a{n} * 2 AS b{n}" for n in range(500)) + " FROM t",
}  # fmt: skip


@pytest.mark.parametrize("name", LEGITIMATE)
def test_what_people_write_is_within_the_limits(name: str) -> None:
    check(LEGITIMATE[name])


def test_comments_inside_comments_end() -> None:
    check("SELECT " + "/*" * 100 + "*/" * 100 + "1")
    with pytest.raises(ParseError, match="100 levels of nested comments"):
        check("SELECT " + "/*" * 101 + "*/" * 101 + "1")


@pytest.mark.parametrize("text", ["SELECT $a$ 1", "SELECT $$ 1", "SELECT $a$ 1 $b$"])
def test_a_dollar_quote_that_never_ends_is_refused(text: str) -> None:
    with pytest.raises(ParseError, match="never closed"):
        statements(text)


def test_dollar_quotes_that_never_end_are_read_in_linear_time() -> None:
    with pytest.raises(ParseError):
        statements("SELECT " + "".join(f"$a{n}$" for n in range(20_000)))


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ([nested(100_000)], "50 levels of nested lists"),
        ([1] * (statement_limits.MAX_PARAMETERS + 1), "10,000 parameters"),
        ([[1] * 6000, [1] * 6000], "10,000 parameters"),
        ({"x": "a" * (statement_limits.MAX_PARAMETER_BYTES + 1)}, "1,000,000 bytes"),
        ([b"a" * 600_000, "b" * 600_000], "1,000,000 bytes"),
        ([10**100_000], "1,000,000 bytes"),
    ],
)
def test_parameters_have_limits(parameters: object, words: str) -> None:
    with pytest.raises(NotSupported, match=words):
        check_parameters(parameters)


@pytest.mark.parametrize("parameters", [None, [], [1, "a"], {"x": [1, 2]}, [nested(40)], [10**50]])
def test_small_parameters_are_let_through(parameters: object) -> None:
    check_parameters(parameters)


def test_a_long_line_is_cut_around_the_caret() -> None:
    error = QueryError("No.", text="x" * 10**6 + "!" + "y" * 10**6, position=10**6)
    source, caret = str(error).splitlines()[2:4]
    assert len(source) < 250 and source.count("…") == 2
    assert source[caret.index("^")] == "!"
    assert (error.line, error.column) == (1, 10**6 + 1)


def test_a_short_line_is_shown_whole() -> None:
    error = QueryError("No.", text="SELECT\n\tx FROM t\nWHERE", position=8)
    assert str(error) == "No.\n\nLINE 2: \tx FROM t\n        \t^"


@pytest.mark.thorough
def test_an_owners_brackets_end_before_the_process_does() -> None:
    text = "SELECT DP_COUNT_DISTINCT(i, epsilon := 1, privacy_unit := i) FROM {}range(9){}"
    with dp_sql.connect() as session:
        with pytest.raises(NotSupported, match="500 levels of nested brackets"):
            session.sql(text.format("(FROM " * 45_000, ")" * 45_000))
        with pytest.raises(NotSupported, match="500 levels of nested brackets"):
            session.explain(text.format("(FROM " * 45_000, ")" * 45_000))
        plain = "SELECT " + "(" * 600 + "1" + ")" * 600  # no DP call: it is DuckDB's alone
        assert (
            len(session.sql(plain.replace("(" * 600, "(" * 200).replace(")" * 600, ")" * 200))) == 1
        )


@pytest.mark.thorough
def test_ten_megabytes_of_a_literal_are_lexed_at_once() -> None:
    assert len(statements("SELECT '" + "x" * 10**7 + "', E'" + "\\n" * 10**6 + "'")[0]) == 4
