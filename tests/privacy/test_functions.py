"""Each expression that analysts may use returns DuckDB's value on every row, and never an error."""

import itertools
import random
import time
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from sqlglot import exp

from dp_sql.privacy.expressions.expression_compiler import compiled
from dp_sql.privacy.expressions.scalar_functions import FUNCTIONS
from dp_sql.privacy.expressions.value import Value
from dp_sql.privacy.refusals import Refused, refuse
from dp_sql.sql.formatting import literal
from dp_sql.sql.sqlglot_tree import projection
from tests.privacy.wide_table import BY_KIND, NAMES, POOLS, Wide, Writer, listed, search

_DATES = [NAMES[kind] for kind in ("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE")]
FORMS = [
    "{int} + 1", "{int} - {int}", "{int} * {int}", "{int} // 10 * 10", "{int} % 7", "{int} // {int}",
    "-{int}", "abs({int})", "sign({int})", "sign({number})", "(~{int}) + 1", "NOT ~{int} = 1", "log2({number}) + log({number})", "{number} + {number}", "{number} * 2.5", "{number} / 3",
    "-{number}", "abs({number})", "round({number})", "round({number}, 1)", "round({number}, 30)",
    "round({number}, -1)", "round({int}, -2)", "{number} % 7", "{number} % 2.5", "{number} % {number}",
    "{number} - ({number} % 50)", "TRY_CAST(floor({number} / 50) AS BIGINT) * 50",
    "floor({number})", "ceil({number})", "ceiling({number})", "trunc({number})", "TRY_CAST(trunc({number} / 7) AS INTEGER)", "trunc({int}) + 1",
    "'1' IN (({text} ->> 'a'), 'b')", "({text}, ({text} ->> 'a')) = ('b', '1')", "1 BETWEEN json_array_length({text} -> 'a') AND 3",
    "TRY_CAST(({text} ->> 'a') AS TIMESTAMP) AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Berlin'",
    "json_exists({text}, '$.a.b[1]')", "json_exists({text}, 'a')", "json_exists({text} -> 'a', '$.b')", "NOT json_valid({text})", "{date} + 1", "{date} - {int}", "{date} - {date}",
    "{time} + INTERVAL 30 DAY", "{time} - INTERVAL '1 month'", "{time} + INTERVAL 3 HOURS",
    "{time} >= current_date - INTERVAL 30 DAY", "{time} < now()", "{date} = today()",
    "CASE WHEN {bool} THEN {int} ELSE 0 END", "CASE {int} WHEN 1 THEN 'a' ELSE {text} END",
    "if({bool}, {text}, 'x')", "coalesce({int}, {int}, 0)", "ifnull({number}, {number})",
    "nullif({int}, 0)", "nullif({text}, '')", "greatest({number}, {number})", "least({int}, 5)",
    *(f"{NAMES['HUGEINT']} {sign} {{int}}" for sign in ("+", "-", "//", "%", "/")), f"{{int}} - {NAMES['HUGEINT']}",
    *(f"{NAMES['HUGEINT']} {end}" for end in ("// -1", "% -1", "* 3", "* -1", "// 10 * 10", "+ 1 - 1", "* 1e3")),
    f"-{NAMES['HUGEINT']}", f"abs({NAMES['HUGEINT']})", f"sign({NAMES['HUGEINT']})",
    *(f"{NAMES['DECIMAL(9,2)']}::{kind}" for kind in ("INTEGER", "HUGEINT", "DECIMAL(9,1)", "DECIMAL(18,4)", "DOUBLE")),
    f"floor({NAMES['DECIMAL(18,4)']})::BIGINT", f"round({NAMES['DECIMAL(9,2)']}, 1)::DECIMAL(9,1)",
    "CAST({time} AS DATE)", "CAST({int} AS DOUBLE)", "CAST({bool} AS INTEGER)", "{number}::VARCHAR",
    *(f"TRY_CAST({{text}} AS {kind})" for kind in POOLS),
    *(f"TRY_CAST({{number}} AS {kind})" for kind in POOLS if kind not in {"DATE", "TIME", "UUID"}),
    *(f"TRY_CAST({{time}} AS {kind})" for kind in POOLS),
    *(f"{part}({{time}})" for part in ("hour", "minute", "dayofweek", "isodow", "weekday", "week",
                                       "quarter", "dayofyear", "yearweek", "isoyear", "century")),
    *(f"date_{word}('hour', {NAMES[a]}, {NAMES[b]})" for word in ("diff", "sub")
      for a, b in itertools.permutations(("TIMESTAMP", "TIMESTAMP WITH TIME ZONE"))),
    *(f"date_diff('{part}', {a}, {b})" for part in ("hour", "day") for a, b in itertools.permutations(_DATES, 2)),
    *(f"{a} - {b} > INTERVAL 3 DAY" for a, b in itertools.product(_DATES, _DATES) if a != b or a != _DATES[0]),
    *(f"extract({part} FROM {a} - {b})" for part in ("day", "hour", "second", "epoch")
      for a, b in itertools.permutations(_DATES, 2)),
    *(f"age({a}, {b}) BETWEEN INTERVAL '-1' MONTH AND INTERVAL '10 years'" for a, b in itertools.product(_DATES, _DATES)),
    "date_part('year', age({time}))", "epoch(age({date}))", "age({time}) >= INTERVAL 18 YEARS", "now() - {time} < age({time})",
    "{interval} < INTERVAL '180' DAY", "{interval} = INTERVAL 1 MONTH", "{interval} IN (INTERVAL 3 DAYS, INTERVAL (-5) YEAR)",
    "{interval} >= '1 month 2 days'", "{interval} < INTERVAL '2 days 03:00:00'", "{interval} <> CAST('720 hours' AS INTERVAL)",
    "{interval} = {interval}", "month({interval})", "date_part('second', {interval})", "{interval} IS NULL",
    "epoch_ms({time} - {time}) > 0", "epoch({interval})", "epoch_ms({interval})", "coalesce({time} - {date}, INTERVAL 0 SECONDS) <> {interval}",
    "CASE WHEN {bool} THEN {interval} ELSE INTERVAL 1 DAY END < INTERVAL 5 DAY", "{time}::TIME", "{bool}::BOOLEAN",
    "to_timestamp({number})", f"epoch_ms({NAMES['INTEGER']})", f"epoch_ms({NAMES['UINTEGER']})", f"make_timestamp({NAMES['INTEGER']})",
    f"make_timestamp_ms({NAMES['SMALLINT']})", f"hour(to_timestamp({NAMES['INTEGER']} * 1000))",
    *(f"{part}::{kind}" for part in ("extract(dow FROM {time})", "hour({time})", "length({text})", "yearweek({time})", "day({interval})")
      for kind in ("INTEGER", "DECIMAL(12, 1)")), "CAST(quarter({date}) AS UTINYINT)", "dayofyear({time})::SMALLINT", "month({interval})::INT",
    "extract(dow FROM {time})", "date_part('doy', {time})", "strftime('%Y', {time})",
    "{number} = {number}", "{time} < {time}", "{int} IS DISTINCT FROM {int}", "{int} IN ({int}, 1)",
    "epoch({time})", "epoch_us({time})", "extract('epoch' FROM {date})", "datepart('month', {time})",
    "date({time})", "date_add({time}, INTERVAL 3 DAY)", f"hour({NAMES['TIME']})", f"second({NAMES['TIME']})",
    *(f"time_bucket(INTERVAL {width}, {NAMES[kind]})" for kind in ("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE")
      for width in ("1 WEEK", "7 DAY", "1 MONTH", "15 MINUTES", "1000 YEARS")),
    "time_bucket('15 minutes', {time})", "{time} >= date_trunc('month', DATE '2024-02-05') - INTERVAL 7 DAYS",
    "{time} < date_trunc('hour', TIMESTAMP '2024-02-05 11:12:13')",
    "{time} AT TIME ZONE 'Europe/Berlin'", "timezone('America/New_York', {time})",
    "hour({time} AT TIME ZONE 'Asia/Kathmandu')", "date_trunc('day', {time} AT TIME ZONE 'Europe/Berlin')",
    "{time} AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Berlin' AT TIME ZONE 'Asia/Kathmandu'",
    "({time} AT TIME ZONE 'Pacific/Apia')::DATE", "({time} AT TIME ZONE 'UTC') AT TIME ZONE 'Europe/Berlin'",
    "{int} & 5", "{int} | {int}", "{number} ^ 2", "{number} ** {number}", "log({number})",
    "{text}[1:2]", "{text}[:3]", "{text}[2:]", "{text}[-3:-2]", "{text}[1]", "{text}[-1]", "{text}[0]",
    "lower({text})[1]", "reverse({text})[-2]", "concat({text}, 'é')[2]", "CAST({int} AS VARCHAR)[1]",
    "({date}::VARCHAR)[-1]", "trim({text})[1][1]", "upper({text})[2:3]", "md5({text})[0]", "coalesce({text}, 'é')[1]",
    "{text} GLOB 'D*n*'", "{text} GLOB '*.*'", "{text} SIMILAR TO '(a|b).*'", "{text} IN (VALUES ('Dune'), ('a,b'))",
    "({int}, {text}) = (1, 'Dune')", "({int}, {bool}) <> (7, {bool})", "({time}, {int}) = ({time}, NULL)",
    "({text}, {bool}) IN (('Dune', TRUE), ('dune', FALSE))", "({int}, {text}) NOT IN ((1, 'Dune'), (2, NULL))",
    "({int}, {text}) < (1, 'Dune')", "({int}, {number}) >= (7, {number})", "({text}, {bool}) > ('Dune', NULL)", "({int}, {text}) <= ({int}, {text})",
    "list_sort(list_distinct([{text}, 'a', NULL]))", "len(array_distinct([{int}, 7, 7]))",
    "list_contains([{int}, 7], 7) IS NOT TRUE", "regexp_matches({text}, 'D') = {bool}", "regexp_full_match({text}, 'D.*') IS FALSE",
    "CASE WHEN {int} THEN 'a' ELSE 'b' END", "NOT {int}", "{int} AND {bool}",
    "trim({text}, 'aé ')", "ltrim({text}, 'Du')", "rtrim({text}, '')", "trim(LEADING 'D' FROM {text})",
    "regexp_replace({text}, '(a)|(.)', '<\\1\\2>')", "regexp_replace({text}, 'u?', '\\0\\0')",
    "string_split({text}, ',')[2]", "list_contains(str_split({text}, ''), 'é')", "len(string_to_array({text}, ' '))",
    "{text} LIKE '!%!_%' ESCAPE '!'", "{text} NOT ILIKE 'd#une%' ESCAPE '#'", "{text} LIKE '%#%\\%#%%' ESCAPE '#'", "{text} LIKE 'D_n_' ESCAPE ''",
    "list_contains(json_keys({text}), 'a')", "json_array_length({text}) > 1", "strptime({text}, '%Y-%m-%d')::DATE",
    "{int} = ANY([1, 7])", "{text} = $$Dune$$",
    "{number} BETWEEN {number} AND 5", "regexp_extract({text}, 'a')", "regexp_extract({text}, '(D|é)(.)', 2, 'i')",
    "regexp_matches({text}, '^dUNE|É', 'i')", "regexp_matches({text}, '[\\x{e0}-\\x{3040}]')", "regexp_full_match({text}, 'd.*|ß', 'i')", "{text} -> 'a' ->> 'b'", "{text} ->> 'a-b'",
    "{int} = 17::SMALLINT", "{number} < 1.5::DECIMAL(8, 3)", "{number} / 60::DOUBLE", "{number} >= -2::FLOAT", "{int} + 1::BIGINT",
    "{int} IN (1::TINYINT, 7::BIGINT)", "{int} BETWEEN -1::INTEGER AND 1e1::DOUBLE", "coalesce({int}, 0::UTINYINT)",
    "list_contains(['Dune', 'a'], {text})", "list_contains([{text}, NULL], {text})", "list_position([1, 7], {int})", "list_contains([{int}, 7], {int})",
    "list_contains(string_split({text}, ','), lower({text}))", "len([{int}, {int}])", "[{text}, {text}][2]", "list_contains([{text}, 'a'], 'Dune')", "[{time}, {time}][1]", "list_position([{int}, 1, NULL], 7)",
    "[{int}, {int}][-1]", "[{bool}, NULL][1]", "list_count(list_value({text}, NULL))",
    "regexp_replace({text}, '[^a-zé]+', '<\\0>', 'g')", "regexp_replace({text}, 'u|n.', '', 'gi')", "regexp_replace({text}, '\\s|,|[\\w]', '\\0x', 'g')",
    "regexp_replace({text}, 'a.', 'x', 'i')",
    "make_date(year({time}), month({time}), 1)", "make_date({int}, {int}, 2)", "{time} < make_date(2024, 2, 29)", "{interval}::VARCHAR",
    "json_type({text}, '$.a')", "json_type({text}, 'a')", "json_array_length({text}, '$.a.b') = 2",
    "json_array_length({text} -> 'a') = 2", "json_type({text} -> 'a')", "json_type({text} -> 'a', 'b')", "length({text} -> 'a' ->> 'b')", "coalesce('x', {text} -> 'a' ->> 'b')",
    "hash({text})", "hash({int})", "hash({time})", "hash({int}) % 10", "ord({text})", "isfinite({time})", "isinf({time})", "isfinite({number})",
    "xor({int}, 3)", "xor({int}, {int})", "{int} >> 1", "{int} >> {int}", "~{int}", "({int} >> 2) & 1", "TRY({int} + {int})",
    "TRY({int} * {int} - 1)", "TRY(CAST({text} AS INTEGER))", "TRY(1 + {text}::INTEGER * 100)", "TRY({number} / {int})", "TRY(({int} / {int})::SMALLINT)", "TRY({int} // {int})", "regexp_extract_all({text}, '[a-z]')",
    "string_split_regex({text}, '[,.]')", "regexp_split_to_array({text}, ',+')[2]", "{text} = ANY(string_split({text}, ','))",
    "contains(string_split({text}, ','), 'a')", "list_sum([{int}, {int}])", "list_avg([{int}, 1])", "list_min([{number}, {number}]) + 1",
    "list_max([{text}, 'b', NULL])", "list_max([{bool}, {bool}])", "list_min([{date}, {date}])", "list_sum([{number}, 2.5])",
    "list_sort([{text}, 'b', NULL])", "list_sort([{int}, {int}])[1]", "list_reverse_sort([{text}, 'b', NULL])[1]", "list_reverse([{text}, 'b'])[1]",
    "list_reverse_sort([{number}, {number}])[2] + 1", "array_to_string([{text}, 'b', NULL], ',')", "array_to_string(string_split({text}, ','), '-')",
    "array_to_string([{int}, 2], '-')", "list_first([{text}, 'b'])", "list_last(string_split({text}, ','))", "list_slice([{text}, 'b'], 1, 1)",
    "array_slice({text}, 2, 3)", "array_has_any(string_split({text}, ','), ['a', 'b'])", "{time} + INTERVAL '1.5 hours'",
    "{time} + INTERVAL '1 day 2 hours'", "{time} - INTERVAL '02:30:00'", "{time} - INTERVAL '1 month -2 days 03:04:05.5'",
    "{interval} < INTERVAL '1.5 days'", "{time} + {int} * INTERVAL 1 DAY", "{time} - INTERVAL '2 months' * {int}", "{time} + INTERVAL ({int}) HOUR",
    "{time} + INTERVAL ({int}) MINUTE", "{time} + to_days({int})", "{time} - to_seconds({int})", "{time} - to_years({int} % 1000)",
    "{date} + to_weeks({int})", "date_add({time}, INTERVAL ({int}) DAY)", "date_add({time}, to_months({int}))", "to_days({int}) > INTERVAL 3 DAY",
    "{int} * INTERVAL (-3) MONTH < {interval}", "{time} + {interval}", "{time} - {interval}", "{interval} + {time}", "{time} - age({date})",
    "{time} < now() - {int} * INTERVAL 1 WEEK", "epoch_ms(to_hours({int} % 1000))", "to_quarters({int})",
    "time_bucket(INTERVAL 1 WEEK, {date}, DATE '2024-01-02')", "time_bucket(INTERVAL 1 MONTH, {date}, DATE '2024-03-31')", "millisecond({time})",
    "microsecond({time})", "millennium({time})", "extract(millisecond FROM {time})", "date_part('microsecond', {time})",
    "millisecond({time})::INTEGER", "microsecond({time})::INTEGER", "date_trunc('decade', {time})", "date_trunc('century', {time})",
    "date_trunc('millennium', {time})", "date_trunc('millisecond', {time})", "date_trunc('microsecond', {time})", "to_days({int})",
    *(f"{{time}} + INTERVAL {one}" for one in ("'1 day 02:30:00'", "'1day'", "'500 ms'", "' 3   DAYS '", "'0.5 years'", "'1.5 months 2.25 days 01:02:03.123456'", "'-02:30'", "5 MILLISECONDS", "(-1) DAY")),
    "{interval} < INTERVAL '3 days 02:00:00'", "{time} + INTERVAL 1 DAY < {time} + INTERVAL '1 month'",
    "{int} << 2", "1 << {int}", "{int} << {int}", "({int} & 7) << 60", "bit_count({int})", "list_unique([{text}, 'a', NULL])", "array_unique([{int}, 7, 7])",
    "strptime({text}, ['%Y-%m-%d', '%d.%m.%Y', '%H:%M'])", "try_strptime({text}, ['%m/%d/%Y', '%Y-%m-%d %H:%M:%S'])",
    "{int} <> ALL([1, 7])", "{text} = SOME(['Dune', 'a'])", "{text} <> ALL(string_split({text}, ','))",
    *(f"time_bucket(INTERVAL '15 minutes', {NAMES[kind]}, {kind} '2024-01-02 00:05:00+00')" for kind in ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE")),
]  # fmt: skip


def filled(form: str) -> list[str]:
    """A form over each column of its kinds."""
    found = [form]
    for kind, columns in BY_KIND.items():
        mark = "{" + kind + "}"
        while any(mark in one for one in found):
            found = [one.replace(mark, name, 1) for one in found if mark in one for name in columns]
    return found


@pytest.mark.one_in(24)
@pytest.mark.parametrize("form", FORMS)
def test_a_form_has_duckdbs_value_on_every_row(form: str, wide: Wide) -> None:
    written = filled(form)
    chance = random.Random(form)
    assert sum(wide.check(one) for one in chance.sample(written, min(len(written), 5))) or (
        form.startswith("TRY_CAST")
    )


@pytest.mark.one_in(18)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_has_duckdbs_value_on_every_row(name: str, wide: Wide) -> None:
    writer = Writer(random.Random(name))
    if (
        FUNCTIONS[name].gives == "JSON"
        or " " in name
        or name in {"regexp_extract_all", "string_split_regex"}  # few patterns
        or {*FUNCTIONS[name].takes}
        & {
            "list",
            "map",
            "values",
            "numbers",
            "milliseconds",
            "microseconds",
        }
    ):
        return  # only beside ->>; tested below, and with the forms above
    assert sum(wide.check(writer.call(name, 0)) for _ in range(6)) == 6


@pytest.mark.thorough
def test_no_time_zone_fails_on_the_times_that_functions_read(wide: Wide) -> None:
    near = "('100000-01-01 (BC)'), ('99999-12-31 (BC) 23:59:59.999999'), ('0001-01-01'), ('100000-01-01')"
    zones = wide.connection.execute("SELECT name FROM pg_timezone_names()").fetchall()
    assert len(zones) > 500
    for kind in ("TIMESTAMP", "TIMESTAMPTZ"):
        times = f"(SELECT t::{kind} AS t FROM (VALUES {near}) AS v(t))"
        every = ", ".join(f"count(timezone({literal(zone)}, t))" for (zone,) in zones)
        assert {*wide.connection.execute(f"SELECT {every} FROM {times}").fetchall()[0]} == {4}


@pytest.mark.parametrize("sign", ["=", "<>", "IS DISTINCT FROM", "||"])
def test_a_sign_before_an_arrow_is_read_as_duckdb_reads_it(sign: str, wide: Wide) -> None:
    text = NAMES["VARCHAR"]
    assert wide.check(f"'s' {sign} ({text} ->> 'a')") and wide.check(f"({text} ->> 'a') {sign} 's'")
    assert wide.check(f"'s' {sign} {text} ->> 'a'") == (not duckdb.__version__.startswith("1."))


@pytest.mark.parametrize(
    "path",
    ["user agent", "utm:source", "@type", "$.utm.source", '$."user agent"', '$.a."b c"[0]', "x-y"],
)
def test_a_key_of_a_json_is_the_one_that_duckdb_reads(path: str, wide: Wide) -> None:
    """Sqlglot reads utm:source as $.utm.source."""
    document = '{"user agent": 1, "utm:source": 2, "@type": 3, "utm": {"source": 4}, "a": {"b c": [5]}, "x-y": 6}'
    scope = wide.scope._replace(column=lambda _: Value(f"{literal(document)}::VARCHAR", "VARCHAR"))
    for written in (
        f"p ->> '{path}'",
        f"json_exists(p, '{path}')",
        f"(p ->> '{path}') LIKE '%{path}%'",
    ):
        node = projection(written)
        assert node is not None
        asked = (
            f"SELECT {compiled(node, scope).sql}, {written} FROM (SELECT {literal(document)} AS p)"
        )
        ours, theirs = wide.connection.execute(asked).fetchall()[0]
        assert ours is not None and ours == theirs


LISTS = {
    "l[1].x": "", "l[-1].b.y": "", "l[3].x = 2": "", "l[1]['x']": "", "l[1].z": "has no field z", "t.x.y": "is not a column",
    "lower(t).x": "has no field x",
    "list_contains(s, 'a')": None, "list_has(s, 'é')": None, "NOT array_contains(s, '')": None,
    "list_contains(i, 2)": None, "array_has(i, -2147483648)": None, "len(s)": None, "length(i)": None,
    "list_position(s, 'é')": None, "list_indexof(i, 2)": None, "array_position(s, '')": None,
    "list_contains(i, 2147483648)": "a literal of type INTEGER", "list_contains(i, '2')": "a literal",
    "list_contains(s, 1)": "a literal", "list_contains(s, s[1])": None, "list_contains(i, t)": "a literal",
    "list_contains(i, 1.5)": "a literal", "list_contains(i, 1e0)": "a literal",
    "list_contains(f, 1)": "a list of strings", "list_contains(t, 'a')": "a list of strings",
    "len(f)": None, "len(l) = 2": None, "len(m)": "takes a string",
    "'a' = ANY(s)": None, "2 = ANY(i)": None, "NOT 'é' = ANY(s)": None, "'é' IN s": None, "2 NOT IN i": None,
    "s[1]": None, "i[-1]": None, "i[0]": None, "i[20000]": None, "s[1:1]": None, "i[2:]": None, "i[:-2]": None,
    "list_extract(s, 2)": None, "list_has_any(s, ['a', 'b'])": None,
    "list_has_all(i, [2, 3])": None, "i && [2]": None, "array_length(i)": None,
    "s = []": None, "i <> []": None, "[] = s": None, "f = []": None, "list_count(i)": None, "list_count(s) < len(s)": None,
    "cardinality(m)": None, "cardinality(n) = 1": None, "map_contains(m, 'b ')": None, "map_contains(n, 'a')": None,
    "map_contains(m, 1)": "a literal of type VARCHAR", "map_contains(m, t)": "a literal", "cardinality(s)": "takes a map", "map_contains(k, 'a')": "a literal of type DOUBLE",
    "m['a']": None, "m['b']": None, "m['é']": None, "m['a'] > 1": None, "n['a']": None, "m[1]": "a string in quotes", "m[t]": "position|quotes",
    "t = []": "no common type|compared|empty list", "s[len(t)]": "whole number", "f[1]": None, "f[-1]": None, "i['a']": "no field",
    "x[1]": None, "x[-1] = 2": None, "x[9]": None, "len(x)": None, "list_contains(x, 2)": None, "2 IN x": None, "x[2:]": None,
    "y[1]": None, "y[1][1]": None, "y[2][-1]": None, "len(y)": None, "len(y[2])": None, "list_contains(y[1], 2)": None,
    "list_contains(y, 1)": "a list of strings", "y[1:2]": "a list of strings", "z[1]": None, "len(z[1])": None, "z[1][2]": None,
    "map_keys(m)": None, "map_keys(n)[1]": None, "map_values(m)": None, "list_contains(map_values(n), 'é')": None, "map_keys(k)": None,
    "map_keys(s)": "takes a map", "map_values(m, n)": "one map", "map_extract(m, 'a')": None, "element_at(n, 'a')[1]": None,
    "map_extract_value(m, 'a')": None, "map_extract(m, t)": "quotes", "map_extract(m)": "a map and a key",
    "t = ANY(i)": "a literal", "s[1] = ANY(s)": None, "list_has_any(s, s)": "a list of literals", "i[1, 2]": "one literal",
    "list_unique(s)": None, "list_sort(list_distinct(s))": None, "len(array_distinct(i))": None, "list_sort(list_distinct(f))": None, "list_distinct(z)": "numbers, dates or booleans",
    "array_unique(i) = 1": None, "list_unique(f)": "a list of strings", "2 <> ALL(i)": None, "'a' = SOME(s)": None,
    "t <> ALL(i)": "a literal", "t > ALL(i)": "not supported", "t <> SOME(i)": "not supported", "t <> ALL(SELECT 1)": "subquery",
    "list_min(i)": None, "list_max(s)": None, "list_max(f)": None, "list_min(z)": "numbers, dates or booleans", "list_sum(i)": None, "list_avg(i)": None,
    "list_sum(f)": None, "list_avg(x)": None, "list_sum(s)": "a list of numbers", "list_sort(s)": None, "array_sort(i)": None, "list_reverse_sort(s)": None,
    "list_reverse(f)": None, "list_sort(s, 'ASC', 'NULLS FIRST')": "only in the form", "list_reverse_sort(s, 'NULLS FIRST')": "only in the form",
    "list_sum(list_reverse(i))": None, "list_first(s)": None, "list_last(i)": None, "list_last(f)": None, "list_slice(i, 2, 3)": None, "array_slice(s, 1, -1)": None,
    "list_slice(i, 1, 3, 2)": "two positions", "array_has_any(s, ['a', 'é'])": None, "array_to_string(s, ',')": None, "array_to_string(i, '-')": None, "contains(i, 2)": None,
    "a.x": None, "a['x']": None, "a.b.y": None, "struct_extract(a, 'x')": None, "a.z": "no field", "m.a": None, "n.nope": None, "t.x": "t.x",
}  # fmt: skip


@pytest.mark.one_in(9)
@pytest.mark.parametrize("written", LISTS)
def test_a_list_is_read_as_duckdb_reads_it(written: str, wide: Wide) -> None:
    types = {"s": "VARCHAR[]", "i": "INTEGER[]", "f": "DOUBLE[]", "t": "VARCHAR",
             "a": "STRUCT(x INTEGER, b STRUCT(y VARCHAR))", "m": "MAP(VARCHAR, INTEGER)", "n": "MAP(VARCHAR, VARCHAR)", "k": "MAP(DOUBLE, VARCHAR)"}  # fmt: skip
    types |= {"l": f"{types['a']}[]", "x": "INTEGER[3]", "y": "INTEGER[][]", "z": "INTEGER[3][]"}

    def column(found: exp.Column) -> Value:
        if found.table:
            raise refuse(found, f"{found.sql()} is not a column")
        return Value(found.name, types[found.name])

    scope = wide.scope._replace(column=column)
    node, refused = projection(written), LISTS[written]
    assert node is not None
    if refused:
        with pytest.raises(Refused, match=refused):
            compiled(node, scope)
        return
    rows = """(VALUES (['a', NULL], [2, NULL]), ([], []), (NULL, NULL), (['é', ''], [-2147483648]),
                      ([NULL], [NULL]), (range(10000)::VARCHAR[], range(10000)))"""
    structs = f"{{'x': len(i), 'b': {{'y': s[1]}}}}::{types['a']} AS a"
    maps = "MAP {'a': len(i)::INTEGER, s[1]: 3} AS m, CASE WHEN s IS NOT NULL THEN MAP {'a': s[1]} END AS n"
    maps = maps.replace("s[1]: 3", "'b ' || coalesce(s[1], ''): 3")
    maps += ", MAP {coalesce(len(i), 0)::DOUBLE: s[1]} AS k"
    fixed = "CAST(CASE WHEN i IS NOT NULL THEN [len(i), 2, NULL] END AS INTEGER[3]) AS x, [i, NULL, [7]]::INTEGER[][] AS y, [x, NULL] AS z"
    lists = f"(SELECT s::VARCHAR[] AS s, i::INTEGER[] AS i, i::DOUBLE[] AS f, {maps}, {structs}, [a, a] AS l, {fixed} FROM {rows} AS v(s, i))"
    value = compiled(node, scope)
    asked = wide.connection.execute(f"SELECT {value.sql}, {written} FROM {lists}").fetchall()
    assert len(asked) == 6
    assert all(ours == theirs for ours, theirs in asked)
    if any(
        part in written
        for part in (
            "a.",
            "a[",
            "(a",
            "l[",
            "(l",
            "m[",
            "n[",
            "m.",
            "n.",
            "(m",
            "(n",
            "[] =",
            "= []",
            "> []",
            "x[",
            "(x",
            "IN x",
            "y[",
            "(y",
            "z[",
            "(k",
        )
    ):
        return
    long = "(SELECT range(10001)::VARCHAR[] AS s, range(10001)::INTEGER[] AS i, range(10001)::DOUBLE[] AS f)"
    none = "(SELECT NULL::VARCHAR[] AS s, NULL::INTEGER[] AS i, NULL::DOUBLE[] AS f)"  # ANY(NULL) is false
    found = [
        wide.connection.execute(f"SELECT {value.sql} FROM {x}").fetchall() for x in (long, none)
    ]
    is_any = any(word in written for word in ("ANY", "SOME", "ALL"))
    assert found[0] == found[1] and (found[0] == [(None,)] or is_any)


@pytest.mark.parametrize(("unit", "kind"), [("s", "TIMESTAMP_S"), ("ms", "TIMESTAMP_MS")])
def test_times_that_no_timestamp_holds_are_read_as_null(unit: str, kind: str, wide: Wide) -> None:
    near = 1_704_067_200 * (1 if unit == "s" else 1000)
    far = [2**63 - 1, -(2**63), -(2**63) + 1, 2**62, -(2**62), 2**53, 9_223_372_036_855 * 1000]
    times = pa.table({"t": pa.array([near, 0, None, *far], pa.timestamp(unit))})
    wide.connection.register("times", times)
    wide.connection.execute("CREATE OR REPLACE TABLE far AS SELECT t FROM times")
    scope = wide.scope._replace(column=lambda _: Value("t", kind))
    for written in ("t", "year(t)", "date_trunc('month', t)", "t > '2024-01-01'", "t::VARCHAR", "t::DATE",
                    "t + INTERVAL 1 DAY", "strftime(t, '%Y')", "coalesce(t, '2024-01-01')"):  # fmt: skip
        node = projection(written)
        assert node is not None
        value = compiled(node, scope)
        rows = wide.connection.execute(f"SELECT CAST({value.sql} AS VARCHAR) FROM far").fetchall()
        assert rows[0] != (None,) and len(set(rows[3:])) == 1
        wide.connection.execute(
            f"SELECT count(*) FROM far WHERE {value.sql} IS NOT NULL"
        ).fetchall()


@pytest.mark.parametrize("kind", ["TIMESTAMP_S", "TIMESTAMP_MS"])
def test_a_person_stays_a_person_of_its_type(kind: str, wide: Wide) -> None:
    unit = "s" if kind == "TIMESTAMP_S" else "ms"
    times = pa.table({"t": pa.array([0, 2**63 - 1, -(2**63) + 1, 2**53, None], pa.timestamp(unit))})
    wide.connection.register("persons", times)
    wide.connection.execute("CREATE OR REPLACE TABLE far AS SELECT t FROM persons")
    person = Value("t", kind, is_person=True)
    scope = wide.scope._replace(column=lambda _: person)
    for written in ("t", "t > '2024-01-01'", "t = t", "year(t)", "date_trunc('month', t)", "t IS NULL",
                    "t IN ('2024-01-01')", "t BETWEEN '2024-01-01' AND '2025-01-01'"):  # fmt: skip
        node = projection(written)
        assert node is not None
        value = compiled(node, scope)
        assert value == person or not value.is_person
        counted = f"SELECT count(*) FROM far WHERE ({value.sql}) IS NOT NULL"
        assert wide.connection.execute(counted).fetchall()
    for written in ("t::VARCHAR", "t || 'a'", "t + INTERVAL 1 DAY", "strftime(t, '%Y')", "t::DATE"):
        node = projection(written)
        assert node is not None
        with pytest.raises(Refused):
            compiled(node, scope)


@pytest.mark.parametrize(
    "written",
    [
        "m['1']",
        "map_contains(m, '1')",
        "cardinality(m) > 0",
        "map_values(m)[2]",
        "map_extract(m, '1')[1]",
    ],
)
def test_a_map_with_too_many_keys_is_read_as_null(written: str, wide: Wide) -> None:
    node = projection(written)
    assert node is not None
    scope = wide.scope._replace(column=lambda _: Value("m", "MAP(VARCHAR, INTEGER)"))
    value = compiled(node, scope)
    for size, found in ((10_000, 1), (10_001, None)):
        keys = f"map_from_entries([(i::VARCHAR, i::INTEGER) for i in range({size})]) AS m"
        assert wide.connection.execute(f"SELECT {value.sql} FROM (SELECT {keys})").fetchall() == [
            (found,)
        ]


@pytest.mark.thorough
def test_nestings_have_duckdbs_value_on_every_row(wide: Wide) -> None:
    assert search(wide, random.Random(11), 60) >= 12


@pytest.mark.slow
def test_many_nestings_have_duckdbs_value_on_every_row(wide: Wide) -> None:
    end = time.monotonic() + 240
    while time.monotonic() < end:
        search(wide, random.Random(), 1000, depth=3)


def test_the_documentation_prints_the_table() -> None:
    assert listed() in Path("docs/sql.md").read_text(encoding="utf-8")
