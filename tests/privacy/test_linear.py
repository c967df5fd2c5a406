"""Every form on strings takes time linear in their length, and LIKE means what DuckDB's LIKE means.

Checked on DuckDB 1.5 and 2.0, on the strings of BOMBS at two lengths, each in a process that is
ended when it takes too long:

| form | how it is written | why it is linear |
|---|---|---|
| LIKE, % at the ends only | =, starts_with, ends_with, contains | one pass; patterns have a longest length |
| LIKE, others | regexp_full_match | RE2 keeps a set of states, and never goes back |
| ILIKE, LIKE under NOCASE | the same of lower(s) and lower(pattern) | lower is one pass |
| lower, upper, trim, ltrim, rtrim, substr | themselves | one pass over code points |
| =, <, BETWEEN, IN, coalesce, CAST, min, max, count(DISTINCT) | themselves | bytes; NOCASE, NOACCENT: one pass |
| the same under NFC, or a collation of ICU | refused | NFC sorts combining marks: n² |
"""

import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest
from sqlglot import exp

import dp_sql
from dp_sql.privacy.expressions import collations
from dp_sql.privacy.expressions.value import MAX_TEXT_BYTES, Value
from dp_sql.privacy.refusals import Refused
from tests.attacks.attack_bench import Side
from tests.people import Database
from tests.privacy.oracle import as_sql, compiled

NODE = exp.Literal.string("x")
SIGNS = ["a", "b", "A", "%", "_", "%", "_", "\\", ".", "*", "+", "?", "(", ")", "[", "]", "{", "}",
         "|", "^", "$", "-", "\n", "\r", "\t", " ", "'", "é", "e\u0301", "\u0301", "👩\u200d👧", "😀",
         "ß", "İ", "\u212a", "k", "ſ", "Σ", "ς", "\u2028", "\x7f", "\U0010ffff", "Q", "E", "d"]  # fmt: skip


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as con:
        yield con


def written(pattern: str, fold: bool = False, collation: str = "", column: str = "s") -> str:
    return collations.like(NODE, Value(column, "VARCHAR", collation=collation), pattern, fold)


def strings_near(pattern: str, chance: random.Random) -> list[str]:
    """Strings that a pattern matches or nearly matches, some of them with NUL."""

    def filled(sign: str) -> str:
        if sign == "%":
            return "".join(chance.choices([*SIGNS, "\0"], k=chance.randint(0, 3)))
        return chance.choice(SIGNS) if sign == "_" or chance.random() < 0.1 else sign

    return ["".join(map(filled, pattern)) for _ in range(30)] + [pattern, pattern.upper(), ""]


def check_like(con: duckdb.DuckDBPyConnection, tries: int, fold: bool, collation: str) -> None:
    chance = random.Random(7)
    word = "ILIKE" if fold else "LIKE"
    name = f'COLLATE "{collation}"' if collation else ""
    for _ in range(tries):
        pattern = "".join(chance.choices(SIGNS, k=chance.randint(0, 6)))
        quoted = "'" + pattern.replace("'", "''") + "'"
        # a column that is not all ASCII: DuckDB's own ILIKE looks at what else is in there
        source = f"SELECT s {name} AS s FROM (SELECT unnest(list_append($1::VARCHAR[], 'é')) AS s)"
        rows = con.execute(
            f"SELECT s, s {word} {quoted}, {written(pattern, fold, collation)} FROM ({source})",
            [strings_near(pattern, chance)],
        ).fetchall()
        assert all(his == ours for _, his, ours in rows), (pattern, rows)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("fold", "collation"), [(False, ""), (True, ""), (False, "nocase"), (True, "nocase")]
)
def test_like_means_what_it_means_in_duckdb(
    con: duckdb.DuckDBPyConnection, fold: bool, collation: str
) -> None:
    check_like(con, 150, fold, collation)


def test_the_check_finds_a_wrong_translation(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = collations.expression

    def mistaken(sign: str, wrong: str) -> Callable[[str], str]:
        return lambda pattern: "".join(wrong if s == sign else right(s) for s in pattern)

    for sign, wrong in (("_", ".?"), ("%", "[^\\n]*"), (".", ".")):
        monkeypatch.setattr(collations, "expression", mistaken(sign, wrong))
        with pytest.raises(AssertionError):
            check_like(con, 10_000, False, "")


@pytest.mark.thorough
def test_ilike_folds_every_code_point_as_duckdb_does(con: duckdb.DuckDBPyConnection) -> None:
    whole = "SELECT i FROM range(1, 55296) a(i) UNION ALL SELECT i FROM range(57344, 1114112) b(i)"
    points = f"SELECT chr(i::INTEGER) AS s FROM ({whole})"
    for pattern in ("k", "K", "\u212a", "i", "İ", "s", "ß", "å", "%_k"):
        (differ,) = con.execute(
            f"SELECT count(*) FROM ({points}) WHERE (s ILIKE '{pattern}') <> ({written(pattern, True)})"
        ).fetchone() or (None,)
        assert differ == 0, pattern


def test_ilike_of_one_row_does_not_depend_on_other_rows(con: duckdb.DuckDBPyConnection) -> None:
    """DuckDB's own does: where statistics say ASCII, it does not fold the pattern."""
    for others in ("('x')", "('é')"):
        con.execute(
            f"CREATE OR REPLACE TABLE words AS SELECT * FROM (VALUES ('k'), {others}) AS w(s)"
        )
        asked = f"SELECT {written(chr(0x212A), True)} FROM words WHERE s = 'k'"
        assert con.execute(asked).fetchall() == [(True,)]


# --- limits ---------------------------------------------------------------------------------------


def test_a_pattern_beyond_the_limit_is_refused(con: duckdb.DuckDBPyConnection) -> None:
    for sign, longest in (("a", collations.LONGEST_PATTERN), ("_", collations.LONGEST_EXPRESSION)):
        con.execute(f"SELECT {written(sign * longest)} FROM (SELECT 'x' AS s)").fetchall()
        with pytest.raises(Refused, match=f"over {longest} characters"):
            written(sign * (longest + 1))


def test_a_function_reads_a_string_that_is_too_long_as_null() -> None:
    database = Database()
    try:
        database.connection.execute(
            f"INSERT INTO logins VALUES ('ann', repeat('x', {MAX_TEXT_BYTES})), "
            f"('bob', repeat('x', {MAX_TEXT_BYTES + 1}))"
        )
        for condition in ("title LIKE '%x_x%'", "upper(title) > 'A'", "substr(title, 1, 1) = 'x'"):
            rows = compiled(f"SELECT name FROM logins WHERE {condition}", database)
            assert [row[0] for row in database.rows(as_sql(rows, database).sql)] == ["ann"]
        for condition in ("title IS NOT NULL", "title > 'x'"):
            rows = compiled(f"SELECT name FROM logins WHERE {condition}", database)
            assert len(database.rows(as_sql(rows, database).sql)) == 2
    finally:
        database.close()


COLLATED = {
    "": True, 'COLLATE "binary"': True, "COLLATE NOCASE": True, "COLLATE nocase": True,
    "COLLATE NOACCENT": True, "COLLATE NFC": False, "COLLATE NOCASE.NOACCENT": False,
}  # fmt: skip


@pytest.mark.one_in(4)
@pytest.mark.parametrize("collation", COLLATED)
def test_only_collations_known_to_be_linear_compare_strings(collation: str) -> None:
    database = Database()
    try:
        database.connection.execute(
            f"CREATE OR REPLACE TABLE logins (name VARCHAR COLLATE NOCASE, title VARCHAR {collation})"
        )
        for condition in ("title = 'x'", "lower(title) IN ('x')", "'x' < trim(title)",
                          "nullif(title, 'x') IS NULL", "greatest(title, 'x') IS NULL",
                          "(title ->> 'a') = 'x'", "json_type(title) = 'OBJECT'"):  # fmt: skip
            text = f"SELECT name, title FROM logins WHERE {condition}"
            if COLLATED[collation]:
                database.rows(as_sql(compiled(text, database), database).sql)
            else:
                with pytest.raises(Refused, match="cannot be compared here"):
                    compiled(text, database)
        compiled("SELECT name, title FROM logins WHERE title IS NOT NULL", database)
    finally:
        database.close()


def test_elements_of_a_list_are_compared_byte_by_byte_whatever_it_was_made_of() -> None:
    database = Database()
    try:
        database.connection.execute(
            "CREATE OR REPLACE TABLE logins AS SELECT name, [title COLLATE NOCASE] AS title "
            "FROM (VALUES ('ann', 'X'), ('ben', 'x')) AS t(name, title)"
        )
        rows = compiled("SELECT name FROM logins, unnest(title) AS t(x) WHERE x = 'x'", database)
        assert [row[0] for row in database.rows(as_sql(rows, database).sql)] == ["ben"]
    finally:
        database.close()


# --- time -----------------------------------------------------------------------------------------

RUN = """
import resource, sys, duckdb
resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[1]), int(sys.argv[1])))
con = duckdb.connect(config={"threads": 1})
bombs, forms = eval(sys.stdin.read())
for bomb in bombs:
    con.execute("CREATE OR REPLACE TABLE t AS SELECT $1 AS s", [bomb])
    for form in forms:
        con.execute(f"SELECT count(*) FROM (SELECT {form} AS x FROM t) WHERE x IS NOT NULL").fetchall()
"""
PATTERNS = ["%a_%a_%a_%a_%a_%b", "%_a%_a%_a%b", "%a" + 98 * "_", "%" + "a_%" * 30 + "b", "%a%a%a%b", "a" * 999 + "b",
            "%" + "a" * 900 + "b%", "%é_é%x"]  # fmt: skip
FORMS = [
    *(written(pattern, fold) for pattern in PATTERNS for fold in (False, True)),
    "lower(s)", "upper(s)", "trim(s)", "ltrim(s)", "rtrim(s)", "substr(s, 2, 3)", "substr(s, -2)",
    "substr(s, -1000000, 1000000)", "substr(s, 1000000, -1000000)", "coalesce(s, '')", "s = 'x'", "s < 'x'",
    "s BETWEEN 'a' AND 'b'", "s IN ('a', 'b')", "min(s COLLATE \"binary\")", "count(DISTINCT s)",
    *(f"CAST(string_split(s, '{part}') AS VARCHAR)" for part in (" ", "", "é", "aaab", "a" * 999 + "b")),
    "(s COLLATE NOCASE) = 'x'", "(s COLLATE NOACCENT) < 'x'", "CAST(s AS VARCHAR)",
]  # fmt: skip


def bombs(size: int) -> list[str]:
    chance = random.Random(3)
    return [
        "a" * size, "".join(chance.choices("ab", k=size)), "é" * (size // 2), " " * size + "x" + " " * size,
        "a" + "\u0301" * (size // 4) + "\u0327" * (size // 4), "👩\u200d" * (size // 7), "İ" * (size // 2), "\u0390" * (size // 2),
    ]  # fmt: skip


def is_quick(size: int, forms: list[str], limit: int) -> bool:
    """Whether a process evaluates all forms on all bombs in so many seconds of a processor."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(limit)], input=repr((bombs(size), forms)), text=True,
        check=False,
    ).returncode  # fmt: skip
    assert done in {0, -signal.SIGXCPU, -signal.SIGKILL}
    return done == 0


def test_every_form_on_strings_is_linear() -> None:
    assert is_quick(20_000, FORMS, 60)


@pytest.mark.slow
def test_every_form_on_long_strings_is_linear() -> None:
    assert is_quick(1_000_000, FORMS, 600)


GOES_BACK = "s LIKE '%a_%a_%a_%a_%a_%a_%a_%a_%c'"


@pytest.mark.skipif(duckdb.__version__ >= "2", reason="LIKE of DuckDB 2.0 does not backtrack")
def test_a_like_that_backtracks_is_found() -> None:
    assert not is_quick(110, [GOES_BACK], 3)


@pytest.mark.thorough
def test_a_collation_that_sorts_marks_is_found() -> None:
    assert not is_quick(600_000, ["(s COLLATE NFC) = 'x'"], 3)


# --- errors of the planner ------------------------------------------------------------------------


@pytest.mark.one_in(3)
@pytest.mark.parametrize("day", ["5877642-06-25 (BC)", "5881580-07-10", "infinity"])
def test_the_earliest_and_latest_date_of_all_rows_decide_nothing(tmp_path: Path, day: str) -> None:
    """DuckDB computes date_trunc of a column's smallest value when it plans, outside any TRY."""
    side = Side(tmp_path / "shop", False)
    path = side.session._private._connection.execute(
        "SELECT path FROM duckdb_databases() WHERE path IS NOT NULL"
    ).fetchone()[0]  # type: ignore[attr-defined]
    side.session.close()
    with duckdb.connect(path) as owner:
        owner.execute(f"INSERT INTO ratings (user_id, title, day) VALUES (1, 'b0', '{day}')")
    policy = Path(path).with_name("policy.toml")
    with dp_sql.connect(path, policy=policy, analyst="reporting") as session:
        for item in (
            "date_trunc('week', day)",
            "date_part('week', day)",
            "date_trunc('year', day)",
        ):
            inner = f"SELECT user_id, {item} AS x FROM ratings"
            session.sql(f"SELECT DP_COUNT_DISTINCT(x, epsilon := 1) AS n FROM ({inner})").fetchall()
