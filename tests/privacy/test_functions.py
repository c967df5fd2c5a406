"""Each expression that analysts may use returns DuckDB's value on every row, and an error on none.

The reference is DuckDB itself, asked for one row at a time: where it raises an error, any value
will do. Beyond the limits of functions.py (long strings, distant dates, invalid JSON) ours is NULL.
"""

from __future__ import annotations

import itertools
import random
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import duckdb
import pytest
from sqlglot import exp

from dp_sql.privacy import arithmetic, calls, choices
from dp_sql.privacy.comparisons import Refused, Scope, Value, refuse
from dp_sql.privacy.expressions import compiled
from dp_sql.privacy.functions import ALIASES, FUNCTIONS
from dp_sql.sql.sqlglot_tree import Unreadable, projection
from tests.attacks.attack_bench import Side

NOW = datetime.fromisoformat("2024-05-06 07:08:09.123456+00:00")
INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64, "HUGEINT": 128}
_TIMES = ["2020-01-31 23:59:59.999999", "1969-12-31 00:00:00", "1600-02-29 12:00:00",
          "0044-03-15 (BC) 01:02:03", "99999-12-31 00:00:00", "99999-01-01 (BC) 00:00:00"]  # fmt: skip
_FAR = ["infinity", "-infinity", "294247-01-10 04:00:54.775806", "290309-12-22 (BC) 00:00:00"]
_STRINGS = ["Dune", "dune", "", " a b ", "a,b,,c", "ÄÖ ß é", "👩\u200d👧e\u0301", "%_\\'\"", "12", "-7.5",
            "2020-01-31", "1e400", "nan", "true", "\u0390\u0149 İ", "tab\tline\n\r", "a\x00b"]  # fmt: skip
_JSON = ['{"a": {"b": [1, "x"]}}', '{"a": null}', "[1, 2]", '"s"', '{"a": "\\ud800"}']
_ODD = ["{bad", '{"a": ', "x" * 10_001, "[" * 9_000, '{"a": 1}' * 2_000]
POOLS: dict[str, list[str]] = {
    **{f"{sign}{name}": [str(n) for n in ((-(1 << bits - 1), (1 << bits - 1) - 1) if not sign
                                          else (0, (1 << bits) - 1))] + ["0", "1", "2", "7"]
       for name, bits in INTEGERS.items() for sign in ("", "U")},
    "FLOAT": ["nan", "inf", "-inf", "3.4028235e38", "-0.0", "0.1", "1e-45"],
    "DOUBLE": ["nan", "inf", "-inf", "1.7976931348623157e308", "-0.0", "0.1", "5e-324"],
    "DECIMAL(9,2)": ["9999999.99", "-9999999.99", "0", "0.01"],
    "DECIMAL(18,4)": ["99999999999999.9999", "-99999999999999.9999", "1.5", "0"],
    "DECIMAL(38,10)": ["9999999999999999999999999999.9999999999", "-0.0000000001", "3"],
    "BOOLEAN": ["true", "false"],
    "DATE": [*(day[:-15].strip() if "." in day else day[:-9] for day in _TIMES), "infinity",
             "-infinity", "5877642-06-25 (BC)", "5881580-07-10"],
    "TIMESTAMP": [*_TIMES, *_FAR], "TIMESTAMP WITH TIME ZONE": [*_TIMES, *(t if "inf" in t else f"{t}+00" for t in _FAR)],
    "VARCHAR": [*_STRINGS, *_JSON, *_ODD],
    "TIME": ["00:00:00", "24:00:00"], "UUID": ["00000000-0000-0000-0000-000000000000"],
}  # fmt: skip
NAMES = {kind: f"c{i}" for i, kind in enumerate(POOLS)}
BY_KIND = {
    "int": [NAMES[k] for k in POOLS if k.lstrip("U") in INTEGERS and "HUGE" not in k],
    "number": [NAMES[k] for k in POOLS if k.lstrip("U") in INTEGERS or k[:3] in {"FLO", "DOU", "DEC"}],
    "text": [NAMES["VARCHAR"]],
    "date": [NAMES["DATE"]], "time": [NAMES[k] for k in ("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE")],
    "bool": [NAMES["BOOLEAN"]],
}  # fmt: skip
N_ROWS = 60
# Far times with time zones, as DuckDB reads them by itself, close the database in 1.5.
FATAL = re.compile(
    rf"date_?(diff|sub).*\b{NAMES['TIMESTAMP WITH TIME ZONE']}\b"
    if duckdb.__version__ < "2"
    else r"\b\B"
)


class Wide:
    """A table of all types: `wide`, and its rows one by one."""

    def __init__(self) -> None:
        self._odd: dict[str, list[str | None]] = {}
        self.connection = duckdb.connect(config={"threads": 1})
        self.connection.execute("SET TimeZone = 'UTC'; SET autoload_known_extensions = false")
        listed = ", ".join(f"{name} {kind}" for kind, name in NAMES.items())
        self.connection.execute(f"CREATE TABLE wide (n INTEGER, {listed})")
        chance = random.Random(5)
        for n in range(N_ROWS):
            row = [
                None if chance.random() < 0.05 else chance.choice(pool) for pool in POOLS.values()
            ]
            marks = ", ".join(f"CAST(? AS {kind})" for kind in POOLS)
            self.connection.execute(f"INSERT INTO wide VALUES ({n}, {marks})", row)

    def value(self, written: str) -> Value:
        node = projection(written)
        if node is None:
            raise Unreadable
        return compiled(node, self.scope)

    @property
    def scope(self) -> Scope:
        types = {name: kind for kind, name in NAMES.items()}

        def column(node: exp.Column) -> Value:
            if node.name not in types:
                raise refuse(node, "Not a column")
            return Value(node.name, types[node.name])

        def type_of(sql: str) -> str:
            return str(self.connection.execute(f"DESCRIBE SELECT {sql}").fetchall()[0][1])

        def runs(sql: str) -> bool:
            try:
                return bool(self.connection.execute(f"SELECT {sql}").fetchall())
            except duckdb.Error:
                return False

        return Scope(column, lambda *_: True, lambda node: Value("", ""), type_of, runs, NOW)

    def all(self, sql: str) -> list[str | None]:
        rows = self.connection.execute(f"SELECT CAST({sql} AS VARCHAR) FROM wide ORDER BY n")
        return [row[0] for row in rows.fetchall()]

    def each(self, sql: str) -> list[tuple[str | None] | None]:
        """DuckDB's own value on each row; None where it raises an error."""
        try:
            return [(value,) for value in self.all(sql)]
        except duckdb.Error:
            return [self.one(sql, n) for n in range(N_ROWS)]

    def one(self, sql: str, n: int) -> tuple[str | None] | None:
        """DuckDB's own value on one row; None where it raises an error."""
        asked = f"SELECT CAST({sql} AS VARCHAR) FROM (SELECT * FROM wide WHERE n = {n})"
        try:
            return self.connection.execute(asked).fetchall()[0]  # type: ignore[no-any-return]
        except duckdb.Error:
            return None

    def check(self, written: str, nested: bool = False) -> bool:
        """Whether an expression is accepted; then it has DuckDB's type and values."""
        try:
            value = self.value(written)
        except (Refused, Unreadable):
            return False
        try:
            ours = self.all(value.sql)
            self.connection.execute(
                f"SELECT count(*) FROM wide WHERE ({value.sql}) IS NOT NULL "
                f"AND {value.sql} = {value.sql}"
            ).fetchall()
        except duckdb.Error as error:
            raise AssertionError(f"not total: {written}: {error}\n{value.sql}") from error
        if "now" in written or "current" in written or FATAL.search(written):
            return True
        for n, (our, his) in enumerate(zip(ours, self.each(written), strict=True)):
            beyond = self.is_odd(written, n) and (our is None or nested)
            if his is not None:
                assert beyond or our == his[0], (written, n, our, his[0], value.sql)
        assert value.type == self.type_of(written), written
        return True

    def type_of(self, written: str) -> str:
        asked = self.connection.execute(f"DESCRIBE SELECT {written} FROM wide").fetchall()
        return str(asked[0][1])

    def is_odd(self, written: str, n: int) -> bool:
        """Whether an expression reads a value in a row that functions read as NULL."""
        if not self._odd:
            text, number = NAMES["VARCHAR"], NAMES["INTEGER"]
            for name in BY_KIND["time"]:
                self._odd[name] = self.all(f"NOT isfinite({name}) OR abs(year({name})) > 99999")
            self._odd["->"] = self.all(f"NOT json_valid({text})")
            self._odd[text] = self.all(f"strlen({text}) > 10000")
            self._odd[number] = self.all(f"abs({number}::BIGINT) > 10000000")
        return any(odd[n] == "true" for name, odd in self._odd.items() if name in written)


@pytest.fixture(scope="module")
def wide() -> Iterator[Wide]:
    wide = Wide()
    yield wide
    wide.connection.close()


LITERALS: dict[str, list[str]] = {
    "characters": ["'a'", "''", "'é'", "'%'", "'aa'"], "count": ["0", "1", "-2", "3", "1000000"],
    "group": ["0", "1"], "path": ["'$.a'", "'$.a.b[0]'", "'a'", "'$[1]'"],
    "pattern": ["'^[a-d]{1,3}'", "'(a|b)+'", "'.*b.*'", "''", "'\\d+'"],
    "format": ["'%Y-%m'", "'%d.%m.%y %H:%M'", "'%A %B %j %%'"], "part": ["'day'", "'month'", "'second'"],
}  # fmt: skip


class Writer:
    """Writes random expressions over the columns of `wide`."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def one(self, options: list[str]) -> str:
        return self.chance.choice(options)

    def call(self, name: str, depth: int) -> str:
        given: list[str] = []
        for kind in FUNCTIONS[name].takes:
            if kind in LITERALS:
                given.append(self.one(LITERALS[kind]))
            elif kind == "same":
                given.append(given[-1])
            else:
                written = {"string": "text", "json": "text", "date": "time"}.get(kind)
                given.append(self.of(written or self.one(["text", "int", "number", "bool"]), depth))
        if name in {"||", "->", "->>"}:
            return f"({given[0]} {name} {given[1]})"
        return f"{name}({', '.join(given)})"

    def of(self, kind: str, depth: int) -> str:
        if depth <= 0:
            return self.one(BY_KIND[kind])
        other = self.of(kind, depth - 1)
        inner = self.of(kind, depth - 1)
        shared = [f"coalesce({inner}, {other})", f"nullif({inner}, {other})",
                  f"CASE WHEN {self.of('bool', depth - 1)} THEN {inner} ELSE {other} END",
                  f"if({self.of('bool', depth - 1)}, {inner}, {other})",
                  f"greatest({inner}, {other})", f"least({inner}, {other})"]  # fmt: skip
        gives = {"text": "VARCHAR", "int": "BIGINT", "bool": "BOOLEAN", "date": "DATE"}
        made = [n for n, f in FUNCTIONS.items() if f.gives == gives.get(kind)]
        special = {
            "int": [f"({inner} {self.one(['+', '-', '*', '//', '%'])} {self.one([other, '3', '-1', '0'])})",
                    f"-({inner})", f"abs({inner})", f"sign({inner})", f"TRY_CAST({self.of('text', depth - 1)} AS INTEGER)",
                    f"({self.of('date', depth - 1)} - {self.of('date', depth - 1)})",
                    f"{self.one(['hour', 'isodow', 'week', 'quarter', 'dayofyear'])}({self.of('time', depth - 1)})"],
            "number": [f"({inner} {self.one(['+', '-', '*', '/'])} {self.one([other, '2.5', '1e3'])})",
                       f"-({inner})", f"abs({inner})", f"round({inner}, {self.one(['0', '1', '12'])})",
                       f"floor({inner})", f"ceil({inner})", f"TRY_CAST({inner} AS {self.one(['DECIMAL(9,2)', 'BIGINT', 'DOUBLE'])})"],
            "text": [f"CAST({self.of('number', depth - 1)} AS VARCHAR)", f"lower({inner})", f"substr({inner}, 2, 3)"],
            "date": [f"({inner} {self.one(['+', '-'])} {self.one([self.of('int', depth - 1), '30'])})",
                     f"CAST({self.of('time', depth - 1)} AS DATE)", f"TRY_CAST({self.of('text', depth - 1)} AS DATE)"],
            "time": [f"({inner} {self.one(['+', '-'])} INTERVAL {self.one(['30 DAY', '1 MONTH', '90 MINUTES', '2 YEARS'])})",
                     f"CAST({inner} AS {self.one(['DATE', 'TIMESTAMP', 'TIMESTAMPTZ'])})"],
            "bool": [f"({self.of('number', depth - 1)} {self.one(['=', '<', '<>', '>=', 'IS DISTINCT FROM'])} {self.of('number', depth - 1)})",
                     f"({self.of('time', depth - 1)} < {self.of('time', depth - 1)})",
                     f"({self.of('int', depth - 1)} IN (1, {self.of('int', depth - 1)}))",
                     f"({self.of('int', depth - 1)} BETWEEN {self.of('int', depth - 1)} AND 100)"],
        }[kind]  # fmt: skip
        options = [*shared, *special, *special]
        return (
            self.call(self.one(made), depth - 1)
            if made and self.chance.random() < 0.4
            else self.one(options)
        )


FORMS = [
    "{int} + 1", "{int} - {int}", "{int} * {int}", "{int} // 10 * 10", "{int} % 7", "{int} // {int}",
    "-{int}", "abs({int})", "sign({int})", "{number} + {number}", "{number} * 2.5", "{number} / 3",
    "-{number}", "abs({number})", "round({number})", "round({number}, 1)", "round({number}, 30)",
    "floor({number})", "ceil({number})", "ceiling({number})", "{date} + 1", "{date} - {int}", "{date} - {date}",
    "{time} + INTERVAL 30 DAY", "{time} - INTERVAL '1 month'", "{time} + INTERVAL 3 HOURS",
    "{time} >= current_date - INTERVAL 30 DAY", "{time} < now()", "{date} = today()",
    "CASE WHEN {bool} THEN {int} ELSE 0 END", "CASE {int} WHEN 1 THEN 'a' ELSE {text} END",
    "if({bool}, {text}, 'x')", "coalesce({int}, {int}, 0)", "ifnull({number}, {number})",
    "nullif({int}, 0)", "nullif({text}, '')", "greatest({number}, {number})", "least({int}, 5)",
    "CAST({time} AS DATE)", "CAST({int} AS DOUBLE)", "CAST({bool} AS INTEGER)", "{number}::VARCHAR",
    *(f"TRY_CAST({{text}} AS {kind})" for kind in POOLS),
    *(f"TRY_CAST({{number}} AS {kind})" for kind in POOLS if kind not in {"DATE", "TIME", "UUID"}),
    *(f"TRY_CAST({{time}} AS {kind})" for kind in POOLS),
    *(f"{part}({{time}})" for part in ("hour", "minute", "dayofweek", "isodow", "weekday", "week",
                                       "quarter", "dayofyear", "yearweek", "isoyear", "century")),
    *(f"date_{word}('hour', {NAMES[a]}, {NAMES[b]})" for word in ("diff", "sub")
      for a, b in itertools.permutations(("TIMESTAMP", "TIMESTAMP WITH TIME ZONE"))),
    "extract(dow FROM {time})", "date_part('doy', {time})", "strftime('%Y', {time})",
    "{number} = {number}", "{time} < {time}", "{int} IS DISTINCT FROM {int}", "{int} IN ({int}, 1)",
    "{number} BETWEEN {number} AND 5", "regexp_extract({text}, 'a')", "{text} -> 'a' ->> 'b'",
]  # fmt: skip


def filled(form: str) -> list[str]:
    """A form over each column of its kinds."""
    found = [form]
    for kind, columns in BY_KIND.items():
        mark = "{" + kind + "}"
        while any(mark in one for one in found):
            found = [one.replace(mark, name, 1) for one in found if mark in one for name in columns]
    return found


@pytest.mark.parametrize("form", FORMS)
def test_a_form_has_duckdbs_value_on_every_row(form: str, wide: Wide) -> None:
    written = filled(form)
    chance = random.Random(form)
    assert sum(wide.check(one) for one in chance.sample(written, min(len(written), 5))) or (
        form.startswith("TRY_CAST")
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_has_duckdbs_value_on_every_row(name: str, wide: Wide) -> None:
    writer = Writer(random.Random(name))
    if FUNCTIONS[name].gives == "JSON" or "list" in FUNCTIONS[name].takes:
        return  # only beside ->>; tested below
    assert sum(wide.check(writer.call(name, 0)) for _ in range(6)) == 6


LISTS = {
    "list_contains(s, 'a')": None, "list_has(s, 'é')": None, "NOT array_contains(s, '')": None,
    "list_contains(i, 2)": None, "array_has(i, -2147483648)": None, "len(s)": None, "length(i)": None,
    "list_contains(i, 2147483648)": "a literal of type INTEGER", "list_contains(i, '2')": "a literal",
    "list_contains(s, 1)": "a literal", "list_contains(s, t)": "a literal",
    "list_contains(i, 1.5)": "a literal", "list_contains(i, 1e0)": "a literal",
    "list_contains(f, 1)": "a list of strings", "list_contains(t, 'a')": "a list of strings",
    "len(f)": "a list of strings",
}  # fmt: skip


@pytest.mark.parametrize("written", LISTS)
def test_a_list_is_read_as_duckdb_reads_it(written: str, wide: Wide) -> None:
    types = {"s": "VARCHAR[]", "i": "INTEGER[]", "f": "DOUBLE[]", "t": "VARCHAR"}
    scope = replace(wide.scope, column=lambda node: Value(node.name, types[node.name]))
    node, refused = projection(written), LISTS[written]
    assert node is not None
    if refused:
        with pytest.raises(Refused, match=refused):
            compiled(node, scope)
        return
    rows = """(VALUES (['a', NULL], [2, NULL]), ([], []), (NULL, NULL), (['é', ''], [-2147483648]),
                      ([NULL], [NULL]), (range(10000)::VARCHAR[], range(10000)))"""
    lists = f"(SELECT s::VARCHAR[] AS s, i::INTEGER[] AS i FROM {rows} AS v(s, i))"
    value = compiled(node, scope)
    asked = wide.connection.execute(f"SELECT {value.sql}, {written} FROM {lists}").fetchall()
    assert len(asked) == 6
    assert all(ours == theirs for ours, theirs in asked)
    long = "(SELECT range(10001)::VARCHAR[] AS s, range(10001)::INTEGER[] AS i)"
    assert wide.connection.execute(f"SELECT {value.sql} FROM {long}").fetchall() == [(None,)]


def search(wide: Wide, chance: random.Random, tries: int, depth: int = 2) -> int:
    """How many of so many random nestings were accepted."""
    writer, taken = Writer(chance), 0
    accepted: list[str] = []
    for _ in range(tries):
        written = writer.of(writer.one(list(BY_KIND)), chance.randint(1, depth))
        if wide.check(written, nested=True):
            taken += 1
            accepted.append(wide.value(written).sql)
        if len(accepted) == 10:  # what they have in common may be computed before them
            named = ", ".join(f"{sql} AS x{i}" for i, sql in enumerate(accepted))
            wide.connection.execute(f"CREATE OR REPLACE TABLE made AS SELECT {named} FROM wide")
            accepted.clear()
    return taken


def test_nestings_have_duckdbs_value_on_every_row(wide: Wide) -> None:
    assert search(wide, random.Random(11), 60) >= 12


@pytest.mark.slow
def test_many_nestings_have_duckdbs_value_on_every_row(wide: Wide) -> None:
    end = time.monotonic() + 240
    while time.monotonic() < end:
        search(wide, random.Random(), 1000, depth=3)


def listed() -> str:
    """The table as docs/sql.md prints it."""
    rows = ["| function | result | it never fails, because |", "|---|---|---|"]
    for name, function in FUNCTIONS.items():
        takes = ", ".join(function.takes) + (", …" if function.many else "")
        also = [alias for alias, of in ALIASES.items() if of == name]
        call = f"{name}({takes})" if name.isidentifier() else f" {name} ".join(function.takes)
        shown = ", ".join(f"`{one}`" for one in [call.replace("|", "\\|"), *also])
        rows.append(f"| {shown} | {function.gives} | {function.total} |")
    return "\n".join(rows)


def test_the_documentation_prints_the_table() -> None:
    assert listed() in Path("docs/sql.md").read_text(encoding="utf-8")


# --- what one row could make slow or large --------------------------------------------------------

LARGE = {
    " || ".join(["s"] * 21): "over 200000 bytes",
    "replace(s, 'a', '" + "b" * 30 + "')": "over 200000 bytes",
    "regexp_matches(s, '(a{9}){9}{9}{9}')": "too large",
    "regexp_matches(s, '" + "a" * 101 + "')": "too large",
    "regexp_matches(s, '\\p{L}')": "too large",
    "regexp_extract(s, '\\C', 0)": "not be a valid string",
    "strftime(z, '%-Y')": "a part that is not supported",
    "regexp_matches(s, '(')": "cannot read this regular expression",
    "regexp_matches(s, s)": "a string in quotes",
    "left(s, 10000000)": "whole number",
    "split_part(s, ',', i)": "whole number",
    "day + INTERVAL 200000 YEAR": "beyond the ends",
    "day + INTERVAL '1 day 2 hours'": "an interval of one unit",
    "strftime(day, '%c')": "a part that is not supported",
    "s ->> s": "This JSON path",
    "s ->> 'a.b'": "This JSON path",
    "CAST(s AS INTEGER)": "This cast fails",
    "CAST(i AS TINYINT)": "Write TRY_CAST",
    "h + 1": "Cast wide numbers first",
    "repeat(s, 3)": "The function repeat",
    "round(i, -1)": "whole number of places",
    "round(i, i)": "whole number of places",
    "round(h)": "not supported for HUGEINT",
    "unnest(s)": "unnest is not supported here",
    "s || i::INTEGER[]": "This cast|A cast",
}  # fmt: skip


@pytest.mark.parametrize("written", LARGE)
def test_what_is_not_bounded_is_refused(written: str, wide: Wide) -> None:
    zoned = "TIMESTAMP WITH TIME ZONE"
    columns = {"s": "VARCHAR", "i": "INTEGER", "day": "DATE", "h": "HUGEINT", "z": zoned}
    scope = replace(wide.scope, column=lambda node: Value(node.name, columns[node.name]))
    node = projection(written)
    assert node is not None
    with pytest.raises(Refused, match=LARGE[written]):
        compiled(node, scope)


def test_an_expression_that_is_written_many_times_is_refused(wide: Wide) -> None:
    written = NAMES["INTEGER"]
    for _ in range(16):
        written = f"CASE WHEN {written} BETWEEN 1 AND {NAMES['INTEGER']} THEN 1 END"
    node = projection(written)
    assert node is not None
    with pytest.raises(Refused, match="too long"):
        compiled(node, wide.scope)


def test_the_parts_of_a_format_are_those_that_duckdb_knows(wide: Wide) -> None:
    """It reads a format for times with a zone only when there is a row."""
    flags = [flag + chr(code) for flag in ("%", "%-") for code in range(33, 127)]
    taken = [f for f in flags if calls._FORMAT.fullmatch(f) and "'" not in f]
    for kind in BY_KIND["time"]:
        assert all(wide.check(f"strftime({kind}, '{one}')") for one in taken)
    assert len(taken) > 25


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


# --- DuckDB's optimizer ---------------------------------------------------------------------------


def test_duckdb_computes_what_two_try_have_in_common_outside_of_both() -> None:
    """So what may fail must be directly inside one TRY, or not fail at all."""
    with duckdb.connect() as con:
        con.execute("CREATE TABLE ends AS SELECT 2147483647::INTEGER AS i FROM range(10)")
        asked = "SELECT TRY((i + 1) * 2), TRY((i + 1) * 3) FROM ends"
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


# --- compilers that are wrong must be found out ---------------------------------------------------


def overflowing(patch: pytest.MonkeyPatch) -> None:
    """Integers are computed in their own type."""
    patch.setattr(
        arithmetic, "_integers", lambda kind, sign, a, b: Value(f"({a.sql} {sign} {b.sql})", kind)
    )


def unbounded(patch: pytest.MonkeyPatch) -> None:
    """Distant dates are read."""
    patch.setattr(arithmetic, "bounded", lambda value: replace(value, bound=value.bound or 1))


def invalid(patch: pytest.MonkeyPatch) -> None:
    """Invalid JSON is read."""
    patch.setattr(calls, "_string", lambda name, kind, value, node: replace(value, bound=100))


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
