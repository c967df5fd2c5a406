"""A table with a column of every type, and expressions at random over it."""

import random
import re
from datetime import datetime
from types import SimpleNamespace

import duckdb
from sqlglot import exp

from dp_sql.privacy.expressions.expression_compiler import compiled
from dp_sql.privacy.expressions.scalar_functions import FUNCTION_ALIASES, FUNCTIONS, call_of
from dp_sql.privacy.expressions.scope import Scope
from dp_sql.privacy.expressions.value import Value
from dp_sql.privacy.refusals import Refused, refuse
from dp_sql.sql.sqlglot_tree import Unreadable, projection

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


_INTERVALS = ["2147483647 months 2147483647 days 9223372036854775807 microseconds", "1 month", "30 days", "720 hours",
              "-2147483648 months -2147483648 days -9223372036854775807 microseconds", "0 days", "-5 years", "3 days"]  # fmt: skip


NAMES = {kind: f"c{i}" for i, kind in enumerate(POOLS)}


BY_KIND = {
    "int": [NAMES[k] for k in POOLS if k.lstrip("U") in INTEGERS and "HUGE" not in k],
    "number": [NAMES[k] for k in POOLS if k.lstrip("U") in INTEGERS or k[:3] in {"FLO", "DOU", "DEC"}],
    "text": [NAMES["VARCHAR"]],
    "date": [NAMES["DATE"]], "time": [NAMES[k] for k in ("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE")],
    "bool": [NAMES["BOOLEAN"]], "interval": ["gap"],
}  # fmt: skip


N_ROWS = 60


# Far times with time zones, as DuckDB reads them by itself, close the database in 1.5.
FATAL = re.compile(
    rf"date_?(diff|sub).*\b{NAMES['TIMESTAMP WITH TIME ZONE']}\b"
    if duckdb.__version__ < "2"
    else r"\b\B"
)


# DuckDB 1.5 wraps around where the next ten is beyond the type; 2.0 raises an error.
WRAPS = re.compile(
    rf"round\((?:{'|'.join(BY_KIND['int'])}), -" if duckdb.__version__ < "2" else r"\b\B"
)


NOW_IN = re.compile(r"now|current|\bage\([^,]*\)")


class Wide:
    """A table of all types: `wide`, and its rows one by one."""

    def __init__(self) -> None:
        self._odd: dict[bool, dict[str, list[str | None]]] = {}
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
        gaps = f"CAST({_INTERVALS}[1 + n % {len(_INTERVALS)}] AS INTERVAL)"
        self.connection.execute(
            f"ALTER TABLE wide ADD gap INTERVAL; UPDATE wide SET gap = {gaps} WHERE n % 9 > 0"
        )

    def value(self, written: str) -> Value:
        node = projection(written)
        if node is None:
            raise Unreadable
        return compiled(node, self.scope)

    @property
    def scope(self) -> Scope:
        types = {name: kind for kind, name in NAMES.items()} | {"gap": "INTERVAL"}

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

        schema = SimpleNamespace(readable=lambda *_: True, type_of=type_of, runs=runs)
        return Scope(compiled, column, schema, lambda *_: Value("", ""), lambda: NOW)

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
        if NOW_IN.search(written) or FATAL.search(written) or WRAPS.search(written):
            return True
        for n, (our, his) in enumerate(zip(ours, self.each(written), strict=True)):
            beyond = self.is_odd(written, n, nested) and (our is None or nested)
            if his is not None:
                assert beyond or our == his[0], (written, n, our, his[0], value.sql)
        assert value.type == self.type_of(written), written
        return True

    def type_of(self, written: str) -> str:
        asked = self.connection.execute(f"DESCRIBE SELECT {written} FROM wide").fetchall()
        return str(asked[0][1])

    def is_odd(self, written: str, n: int, nested: bool) -> bool:
        """Whether functions read a value in a row as NULL, or what is nested makes it so long or far."""
        if nested not in self._odd:
            odd = self._odd[nested] = {}
            last_year, longest = (99_990, 1000) if nested else (99_999, 10_000)
            text, number = NAMES["VARCHAR"], NAMES["INTEGER"]
            for name in BY_KIND["time"]:
                odd[name] = self.all(f"NOT isfinite({name}) OR abs(year({name})) > {last_year}")
            odd["->"] = self.all(f"NOT json_valid({text})")
            odd[text] = self.all(f"strlen({text}) > {longest}")
            odd[number] = self.all(f"abs({number}::BIGINT) > 10000000")
        return any(
            found[n] == "true" for name, found in self._odd[nested].items() if name in written
        )


LITERALS: dict[str, list[str]] = {
    "characters": ["'a'", "''", "'é'", "'%'", "'aa'"], "count": ["0", "1", "-2", "3", "1000000"],
    "size": ["0", "1", "-2", "3", "9"], "padding": ["'a'", "'é_'", "'%'"],
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
                written = {
                    "string": "text",
                    "json": "text",
                    "date": "time",
                    "span": "time",
                    "seconds": "number",
                    "milliseconds": "int",
                    "microseconds": "int",
                    "double": "number",
                    "any": "int",
                    "integer": "int",
                }.get(kind)
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
        gives = {
            "text": "VARCHAR",
            "int": "BIGINT",
            "bool": "BOOLEAN",
            "date": "DATE",
            "number": "DOUBLE",
            "interval": "INTERVAL",
        }
        made = [n for n, f in FUNCTIONS.items() if f.gives == gives.get(kind)]
        special = {
            "int": [f"({inner} {self.one(['+', '-', '*', '//', '%'])} {self.one([other, '3', '-1', '0'])})",
                    f"-({inner})", f"abs({inner})", f"sign({inner})", f"TRY_CAST({self.of('text', depth - 1)} AS INTEGER)",
                    f"({self.of('date', depth - 1)} - {self.of('date', depth - 1)})",
                    f"{self.one(['hour', 'isodow', 'week', 'quarter', 'dayofyear'])}({self.of('time', depth - 1)})"],
            "number": [f"({inner} {self.one(['+', '-', '*', '/', '%'])} {self.one([other, '2.5', '1e3'])})",
                       f"-({inner})", f"abs({inner})", f"round({inner}, {self.one(['0', '1', '12'])})",
                       f"floor({inner})", f"ceil({inner})", f"TRY_CAST({inner} AS {self.one(['DECIMAL(9,2)', 'BIGINT', 'DOUBLE'])})"],
            "text": [f"CAST({self.of('number', depth - 1)} AS VARCHAR)", f"lower({inner})", f"substr({inner}, 2, 3)"],
            "date": [f"({inner} {self.one(['+', '-'])} {self.one([self.of('int', depth - 1), '30'])})",
                     f"CAST({self.of('time', depth - 1)} AS DATE)", f"TRY_CAST({self.of('text', depth - 1)} AS DATE)"],
            "time": [f"({inner} {self.one(['+', '-'])} INTERVAL {self.one(['30 DAY', '1 MONTH', '90 MINUTES', '2 YEARS'])})",
                     f"CAST({inner} AS {self.one(['DATE', 'TIMESTAMP', 'TIMESTAMPTZ'])})"],
            "bool": [f"({self.of('number', depth - 1)} {self.one(['=', '<', '<>', '>=', 'IS DISTINCT FROM'])} {self.of('number', depth - 1)})",
                     f"({self.of('time', depth - 1)} < {self.of('time', depth - 1)})",
                     f"({self.of('interval', depth - 1)} {self.one(['=', '<', '<>', '>='])} {self.of('interval', depth - 1)})",
                     f"{self.of('interval', depth - 1)} > INTERVAL {self.one(['3 DAY', '1 MONTH', '(-90) MINUTES', '20 YEARS'])}",
                     f"({self.of('int', depth - 1)} IN (1, {self.of('int', depth - 1)}))",
                     f"({self.of('int', depth - 1)} BETWEEN {self.of('int', depth - 1)} AND 100)"],
            "interval": [f"({self.of('time', depth - 1)} - {self.of('time', depth - 1)})"],
        }[kind]  # fmt: skip
        options = [*shared, *special, *special]
        return (
            self.call(self.one(made), depth - 1)
            if made and self.chance.random() < 0.4
            else self.one(options)
        )


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


def listed() -> str:
    """The table as docs/sql.md prints it."""
    rows = ["| function | result | it never fails, because |", "|---|---|---|"]
    for name, function in FUNCTIONS.items():
        also = [alias for alias, of in FUNCTION_ALIASES.items() if of == name]
        call = call_of(name)
        shown = ", ".join(f"`{one}`" for one in [call.replace("|", "\\|"), *also])
        rows.append(f"| {shown} | {function.gives} | {function.total} |")
    return "\n".join(rows)
