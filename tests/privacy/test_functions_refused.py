"""Expressions without a bound are refused, and a compiler that is wrong about them is found."""

from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from sqlglot import exp

from dp_sql.privacy.expressions import arithmetic, calls, choices, literal_arguments
from dp_sql.privacy.expressions.expression_compiler import compiled
from dp_sql.privacy.expressions.value import Value
from dp_sql.privacy.refusals import Refused
from dp_sql.sql.sqlglot_tree import Unreadable, projection
from tests.attacks.attack_bench import Side
from tests.engines.conformance import SHARES_TRY
from tests.privacy.wide_table import BY_KIND, N_ROWS, NAMES, Wide

LARGE = {
    " || ".join(["s"] * 21): "over 200000 bytes",
    "replace(s, 'a', '" + "b" * 30 + "')": "over 200000 bytes",
    "regexp_matches(s, '(a{9}){9}{9}{9}')": "too large",
    "regexp_matches(s, '" + "a" * 101 + "')": "too large",
    "regexp_matches(s, '\\p{L}')": "too large",
    "regexp_matches(s, '\\\\x{1000}')": "too large",
    "regexp_extract(s, '\\C', 0)": "not be a valid string",
    "strftime(z, '%-Y')": "a part that is not supported",
    "regexp_matches(s, '(')": "cannot read this regular expression",
    "regexp_matches(s, s)": "a string in quotes",
    "left(s, 10000000)": "whole number",
    "split_part(s, ',', i)": "whole number",
    "day + INTERVAL 200000 YEAR": "beyond the ends",
    "day + INTERVAL '1 day ago'": "This interval is not supported", "day + INTERVAL 1.5 HOUR": "This interval is not supported", "day + INTERVAL '1.5' DAY": "This interval is not supported",
    "day + INTERVAL (1.5) HOUR": "This interval is not supported", "day - INTERVAL ('1.5') HOUR": "This interval is not supported",
    "~i + 1": "brackets around ~", "1 & ~i": "brackets around ~", "-~i": "brackets around ~", "~-i": "brackets around ~", "log(2, i)": "only in its basic form",
    "day + INTERVAL (h) DAY": "An interval of HUGEINT", "day + m * INTERVAL 1 DAY": r"An interval of DECIMAL\(9,2\)", "day + (z - z) + (z - z) + (z - z)": "beyond the ends",
    "day + INTERVAL '1 day 2'": "This interval is not supported", "z - INTERVAL '5 ms ago'": "This interval is not supported", "day + INTERVAL 1 DAY > day + INTERVAL '1 day 02:00:00'": "This interval is not supported",
    "i * INTERVAL '1 day 2 hours'": "This interval is not supported", f"array_to_string([s], '{'-' * 21}')": "long separator", "TRY(coalesce(i + 1, 0))": "TRY is supported", "TRY(ln(i))": "Leave TRY out", "hash(i * 1e0)": "hash takes no DOUBLE",
    "time_bucket(INTERVAL 1 DAY, z, TIMESTAMPTZ 'infinity')": "third argument", "time_bucket(INTERVAL 1 DAY, day, TIMESTAMP '2024-01-01')": "third argument", "xor(h, i)": "Cast wide numbers first", "~h": "not supported for HUGEINT",
    "string_split_regex(s, 'a*')": "replaced everywhere", "regexp_extract_all(s, 'ab', 1)": "only in the form", "regexp_extract_all(s, '(a)(b)')": "replaced everywhere", "list_sum([n])": "a list of numbers",
    "z AT TIME ZONE 'Europe/Nowhere'": "a time zone's name in quotes", "timezone(s, z)": "a time zone's name",
    "timezone('it''s', z)": "a time zone's name", "day AT TIME ZONE 'UTC'": "takes a TIMESTAMP",
    "z AT TIME ZONE INTERVAL 1 HOUR": "a time zone's name", "timezone(z)": "The function timezone",
    "s LIKE 'a!' ESCAPE '!'": "ends with its escape", "s LIKE 'a%' ESCAPE 'a'": "an escape character",
    "s LIKE 'a' ESCAPE '!!'": "an escape character", "strptime(s, s)": "a string in quotes", "strptime(s, [['%Y']])": "a string in quotes", "strptime(s, '%c')": "a part that is not supported",
    "strftime(day, '%c')": "a part that is not supported",
    "s ->> s": "This JSON path",
    "s ->> 'a.b'": "This JSON path",
    "(s ->> 'a.b') || (s ->> '$.c')": "This JSON path",
    "json_type(s, '/a/0')": "This JSON path",
    "json_array_length(s, 'a.b')": "This JSON path",
    "s ->> '.a'": "This JSON path", "s ->> '/a-b'": "This JSON path", "s ->> '$.a-b'": "This JSON path", "s ->> 'a-b.c'": "This JSON path",
    "s -> '$a'": "This JSON path", "(s ->> 'utm:source') || (s ->> '$.utm.source')": "This JSON path",
    "s ->> '$[99999999999999999999]'": "This JSON path",
    "json_exists(s, '$[99999999999999999999]')": "This JSON path",
    "CAST(s AS INTEGER)": "This cast fails",
    "CAST(i AS TINYINT)": "Write TRY_CAST",
    **dict.fromkeys(("coalesce(month(day), 1000)::TINYINT", "dayofyear(day)::TINYINT", "length(s)::SMALLINT", "(year(day) * 1000)::INTEGER",
                     "hour(now() - z)::INTEGER", "nullif(h, 1)::INTEGER"), "This cast fails"),
    "h * i": "Cast wide numbers first", "m::SMALLINT": "This cast fails", "m::DECIMAL(8,1)": "This cast fails",
    "m::UINTEGER": "This cast fails", "m::DECIMAL(9,3)": "This cast fails",
    "repeat(s, 1000)": "could have over", "lpad(s, 9, '')": "a string in quotes",
    "regexp_replace(s, 'a', 'b', 's')": r"in the form regexp_replace\(string, pattern, characters\)",
    "regexp_replace(s, 'a', '" + "b" * 20 + "', 'g')": "over 200000 bytes",
    "regexp_replace(s, '" + "a" * 3000 + "', '', 'g')": "regexp_replace takes a string in quotes",
    **dict.fromkeys((f"regexp_replace(s, '{one}', '', 'g')" for one in ("a*", "a.*b|a", "(ab)+", "a+b", "a{2}", "^a", "a$", "a?", "a++", "a|", "[a", "\\bx", "")),
                    "replaced everywhere"),
    "i = 300::TINYINT": "This cast of a number", "i::VARCHAR = 5::VARCHAR": "This cast of a number", "[] IS NULL": "An empty list",
    "[i, s]": "no common type", "[day - day, INTERVAL 1 DAY]": "no common type", "len([[i]])": "are not compared or combined", "regexp_matches(s, 'a', 'l')": r"regexp_matches\(string, pattern\)", "levenshtein(s, 'a')": "The function levenshtein",
    "round(i, i)": "whole number of places", "round(i, -39)": "whole number of places",
    "round(m, -7)": "has only 7 digits before the point", "round(n, -1)": "not supported for DECIMAL",
    "m // 10": "DuckDB does not round DECIMAL", "h // 10.5": "Cast wide numbers first",
    "round(h)": "not supported for HUGEINT", "round(h, -1)": "not supported for HUGEINT",
    "unnest(s)": "unnest is not supported here",
    "s || i::INTEGER[]": "This cast|A cast",
}  # fmt: skip


@pytest.mark.parametrize("written", LARGE)
def test_what_is_not_bounded_is_refused(written: str, wide: Wide) -> None:
    zoned = "TIMESTAMP WITH TIME ZONE"
    columns = {"s": "VARCHAR", "i": "INTEGER", "day": "DATE", "h": "HUGEINT", "z": zoned,
               "m": "DECIMAL(9,2)", "n": "DECIMAL(38,0)"}  # fmt: skip
    scope = wide.scope._replace(column=lambda node: Value(node.name, columns[node.name]))
    node = projection(written)
    assert node is not None
    with pytest.raises(Refused, match=LARGE[written]):
        compiled(node, scope)


def test_a_remainder_whose_sides_a_parser_mistakes_is_refused(wide: Wide) -> None:
    """Sqlglot 28.0 reads x - y % 10 as (x - y) % 10, and x % 10 * 2 as x % (10 * 2)."""
    x, ten = exp.column(NAMES["INTEGER"]), exp.Literal.number(10)
    for misread in (
        exp.Mod(this=exp.Sub(this=x.copy(), expression=x.copy()), expression=ten),
        exp.Mod(this=x.copy(), expression=exp.Mul(this=ten.copy(), expression=ten.copy())),
    ):
        with pytest.raises(Refused, match="Put brackets around the two sides of %"):
            compiled(misread, wide.scope)


def test_an_expression_that_is_written_many_times_is_refused(wide: Wide) -> None:
    written = NAMES["INTEGER"]
    for _ in range(16):
        written = f"CASE WHEN {written} BETWEEN 1 AND {NAMES['INTEGER']} THEN 1 END"
    node = projection(written)
    assert node is not None
    with pytest.raises(Refused, match="too long"):
        compiled(node, wide.scope)


@pytest.mark.thorough
def test_the_parts_of_a_format_are_those_that_duckdb_knows(wide: Wide) -> None:
    """It reads a format for times with a zone only when there is a row."""
    flags = [flag + chr(code) for flag in ("%", "%-") for code in range(33, 127)]
    taken = [f for f in flags if literal_arguments._FORMAT.fullmatch(f) and "'" not in f]
    assert len(taken) > 25
    first, *others = BY_KIND["time"]
    assert all(wide.check(f"strftime({first}, '{one}')") for one in taken)
    assert all(wide.check(f"strftime({kind}, '{' '.join(taken)}')") for kind in others)
    texts = [NAMES["VARCHAR"], f"{NAMES['DATE']}::VARCHAR", f"{NAMES['BIGINT']}::VARCHAR"]
    parsed = [
        wide.check(f"strptime({text}, '{one}')") for text in texts for one in [*taken, "%Y-%m-%d"]
    ]
    assert sum(parsed) > 25


def test_a_literal_is_as_far_as_it_is_written(wide: Wide) -> None:
    """Beside it, a date that was near is so no more."""
    day, time = NAMES["DATE"], NAMES["TIMESTAMP"]
    far = "TIMESTAMP '294246-01-01'"
    for word in ("coalesce", "greatest", "least", "nullif"):
        near = f"{word}({time} + INTERVAL 1 DAY, {far})"
        last = f"{word}(last_day({day}), DATE '5881580-07-10')"
        for written in (f"{near} + INTERVAL 100000 YEAR", f"date_sub('second', {near}, {time})",
                        f"last_day({last})", f"{last}::TIMESTAMPTZ"):  # fmt: skip
            assert len(wide.all(wide.value(written).sql)) == N_ROWS


def test_a_pattern_reads_no_long_string(wide: Wide) -> None:
    text = NAMES["VARCHAR"]
    long = " || ".join([text] * 3)
    for written in (f"regexp_matches({long}, 'a.b')", f"({long}) LIKE '%a_b%'"):
        assert "<= 10000" in wide.value(written).sql.partition("regexp_")[2]
    assert wide.check(f"left({text}, 100) || left({text}, 9) || right({text}, 3)")
    assert wide.value(f"left({text}, 100) || right({text}, 3)").bound == 412


def test_duckdb_computes_what_two_try_have_in_common_outside_of_both() -> None:
    """Before 2.0.1, so what may fail must be directly inside one TRY, or not fail at all."""
    with duckdb.connect() as con:
        con.execute("CREATE TABLE ends AS SELECT 2147483647::INTEGER AS i FROM range(10)")
        asked = "SELECT TRY((i + 1) * 2), TRY((i + 1) * 3) FROM ends"
        if SHARES_TRY:
            with pytest.raises(duckdb.OutOfRangeException):
                con.execute(asked).fetchall()
        con.execute("SET disabled_optimizers = 'common_subexpressions'")
        assert set(con.execute(asked).fetchall()) == {(None, None)}


def test_expressions_are_answered_through_a_session(tmp_path: Path) -> None:
    side = Side(tmp_path / "shop", True)
    for item, where in (
        ("score // 10 * 10", "day >= current_date - INTERVAL 30 DAY"),
        ("title || '-' || region", "CASE WHEN score > 5 THEN price > 1 ELSE TRUE END"),
        ("CAST(day AS DATE) + 1", "TRY_CAST(title AS INTEGER) IS NULL OR score IN (1, user_id)"),
    ):
        asked = f"SELECT DP_COUNT_DISTINCT({item}, epsilon := 1) AS n FROM ratings WHERE {where}"
        answer = side.ask(asked)
        assert answer.kind == "answered", answer.text
    explained = side.ask(f"EXPLAIN {asked.replace('score IN', 'day < current_date AND score IN')}")
    assert explained.kind == "answered"
    side.session.close()


def overflowing(patch: pytest.MonkeyPatch) -> None:
    """Integers are computed in their own type."""
    patch.setattr(
        arithmetic, "_integers", lambda kind, sign, a, b: Value(f"({a.sql} {sign} {b.sql})", kind)
    )


def unbounded(patch: pytest.MonkeyPatch) -> None:
    """Distant dates are read."""
    patch.setattr(arithmetic, "bounded", lambda value: value._replace(bound=value.bound or 1))


def invalid(patch: pytest.MonkeyPatch) -> None:
    """Invalid JSON is read."""
    patch.setattr(calls, "_string", lambda name, kind, value, node: value._replace(bound=100))


def failing(patch: pytest.MonkeyPatch) -> None:
    """A cast that may fail."""
    patch.setattr(choices, "cast", lambda value, kind: Value(f"CAST({value.sql} AS {kind})", kind))


def swapped(patch: pytest.MonkeyPatch) -> None:
    """A function is written with the next one's name."""
    right = calls._written

    def wrong(name: str, *rest: object) -> str:
        return right({"left": "right"}.get(name, name), *rest)  # type: ignore[arg-type]

    patch.setattr(calls, "_written", wrong)


Plant = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.thorough
@pytest.mark.pure
@pytest.mark.parametrize(
    ("plant", "written"),
    [
        (overflowing, f"{NAMES['INTEGER']} + {NAMES['INTEGER']}"),
        (overflowing, f"{NAMES['BIGINT']} * 3"),
        (unbounded, f"{NAMES['DATE']} + 30"),
        (unbounded, f"{NAMES['TIMESTAMP']} + INTERVAL 1 YEAR"),
        (invalid, f"{NAMES['VARCHAR']} ->> '$.a'"),
        (failing, f"TRY_CAST({NAMES['VARCHAR']} AS INTEGER)"),
        (failing, f"{NAMES['DATE']} < {NAMES['TIMESTAMP']}"),
        (swapped, f"left({NAMES['VARCHAR']}, 1)"),
    ],
)
def test_a_wrong_compiler_is_found(
    plant: Plant, written: str, wide: Wide, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert wide.check(written)
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        wide.check(written)


def test_no_other_function_is_proposed_for_one_that_duckdb_has(wide: Wide) -> None:
    listed = "SELECT DISTINCT function_name FROM duckdb_functions()"
    names = [name for (name,) in wide.connection.execute(listed).fetchall() if name.isidentifier()]
    assert len(names) > 400
    for name in names:
        try:
            wide.value(f"{name}(c0)")
        except Refused as refusal:
            assert "Did you mean" not in refusal.hint or "column" in refusal.message, name
        except Unreadable:
            continue
    with pytest.raises(Refused, match="lenght") as typo:
        wide.value("lenght(c0)")
    assert typo.value.names == ["length"]
