"""Hostile statements get the same refusal whether one person is there or not, and reach no row.

The corpus is in attacks/*.sql; the databases, the spies and the form of the files are those of
attack_bench.py. What depends on size or on Python's values is in test_attacks_by_size.py.
"""

import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

import dp_sql
from dp_sql.privacy.expressions import arithmetic
from dp_sql.privacy.expressions.scalar_functions import FUNCTIONS
from dp_sql.privacy.expressions.value import Value
from tests.attacks.attack_bench import (
    ATTACKS,
    CANARIES,
    RIGHT,
    Attack,
    Side,
    attacks,
    both_sides,
    families,
    ledger_of,
)

FAMILIES = families()
REFUSED = [family for family in FAMILIES if family not in {"harmless", "released"}]
IS_OLDEST = duckdb.__version__ < "2"  # it refuses some statements earlier, or in other words


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    """The database with the person, and the one without."""
    budget = '[budget]\ndataset = "shop"\nepsilon = 10000\n'
    with both_sides(tmp_path_factory.mktemp("attacks"), budget) as both:
        yield both


def wrongs(attack: Attack, sides: tuple[Side, Side]) -> list[str]:
    """What is not as it must be after one attack on both databases."""
    before = [len(side.session.receipts) for side in sides]
    with_person, without = (side.ask(attack.statement) for side in sides)
    found = []
    if attack.outcome == "released":
        if (with_person.kind, with_person.shape) != (without.kind, without.shape):
            return [f"differs: {with_person.text[:200]} / {without.text[:200]}"]
        released = [len(side.session.receipts) - n for side, n in zip(sides, before, strict=True)]
        right = with_person.kind == "answered" and released == [1, 1]
        return [] if right else [f"{with_person.text[:200]}, {released} releases"]
    if IS_OLDEST and attack.outcome != "answered":
        if with_person.kind == "answered" or with_person.kind.startswith("foreign"):
            found.append(with_person.text[:200])
    elif with_person.kind not in attack.outcome.split("|"):
        found.append(f"{with_person.kind} {with_person.text[:200]}")
    elif attack.outcome != "answered" and not with_person.text.startswith(attack.words):
        found.append(f"says {with_person.text[:200]}")
    if (with_person.kind, with_person.text) != (without.kind, without.text):
        found.append(f"differs: {without.text[:200]}")
    if before != [len(side.session.receipts) for side in sides]:
        found.append("a release was made")
    found += [f"shows {canary}" for canary in CANARIES if canary in with_person.said + without.said]
    return found


def check_seen(side: Side) -> None:
    """The private side was given no word of the attacks so far."""
    assert side.seen, "the spy saw nothing"
    for doing, sql in side.seen:
        form = _FORMS.get(doing)
        assert form is not None and form.match(sql), (doing, sql[:300])
        assert strange(sql) == [], sql[:300]
    side.seen.clear()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("further", [False, pytest.param(True, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("family", FAMILIES)
def test_attacks_get_what_the_corpus_says_on_both_databases(
    family: str,
    further: bool,
    sides: tuple[Side, Side],
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    wrong, mended = [], []
    for i, attack in enumerate(attacks(family)):
        if further is (i % 6 == 0):  # every sixth attack is in `make test`
            continue
        found = wrongs(attack, sides)
        if attack.is_open and not found:
            mended.append(attack.statement)
        elif found and not attack.is_open:
            wrong.append(f"{attack.statement[:300]}\n    {'; '.join(found)}")
    printed = caplog.text + "".join(capfd.readouterr())
    if wrong:
        pytest.fail("\n".join(wrong))
    assert not mended or IS_OLDEST, "remove the word open from these"
    assert not any(canary in printed for canary in CANARIES)
    for side in sides:  # a session that an attack has broken would refuse those after it, too
        assert side.ask(RIGHT).kind == "answered"
    assert ledger_of(sides[0].session) == ledger_of(sides[1].session)
    check_seen(sides[0])


def test_an_overflow_of_one_person_would_be_found(
    sides: tuple[Side, Side], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = "SELECT DP_TOPK(title, 2, epsilon := 1) FROM ratings WHERE user_id * 10000000000 > 0"
    attack = Attack("released", asked, "released", "", False)
    assert wrongs(attack, sides) == []

    def overflowing(kind: str, sign: str, a: Value, b: Value) -> Value:
        return Value(f"({a.sql} {sign} {b.sql})", kind)

    monkeypatch.setattr(arithmetic, "_integers", overflowing)
    again = replace(attack, statement=asked.replace("> 0", "> 1"))  # not one that is remembered
    assert wrongs(again, sides)[0].startswith("differs")


def test_the_corpus_is_large_and_read_to_its_end() -> None:
    for family in FAMILIES:
        written = (ATTACKS / f"{family}.sql").read_text(encoding="utf-8").strip()
        title, *cases = written.split("\n\n")
        found = attacks(family)
        assert title.startswith("-- ")
        assert len(found) == sum(case.count("\n") for case in cases)
        assert not any(c in a.statement for a in found for c in CANARIES), "an echo is no leak"
    assert sum(len(attacks(family)) for family in REFUSED) >= 1000
    assert all(
        attack.outcome not in {"answered", "released"} for f in REFUSED for attack in attacks(f)
    )


# What our own statements on the private side are made of, besides names in the catalog.
_NAMES = {
    "shop", "main", "other", "ratings", "orders", "order_items", "catalog", "twice", "recent",
    "user_id", "title", "score", "day", "region", "price", "mood", "weight", "tags", "order_id",
    "product", "genre", "binary", "NOCASE", "nocase", "NOACCENT", "noaccent", "__dp_person", "__dp_item", "__dp_g0",
    "-", "abs", "sign", "||",  # functions, by their full names
}  # fmt: skip
_WORDS = {
    "SELECT", "DESCRIBE", "DISTINCT", "FROM", "WHERE", "AS", "JOIN", "LEFT", "ON", "AND", "OR",
    "NOT", "IS", "NULL", "NULLS", "IN", "LIKE", "ILIKE", "TRY", "CAST", "UNION", "ALL", "GROUP",
    "BY", "HAVING", "WITH", "MATERIALIZED", "ORDER", "ASC", "DESC", "FIRST", "LAST", "OVER",
    "LIMIT", "COLLATE", "TRUE", "FALSE", "SET", "CASE", "WHEN", "THEN", "ELSE", "END",
    "PARTITION", "USING", "FILTER", "STRUCT", "ENUM", "BIGINT", "HUGEINT", "INTEGER", "VARCHAR",
    "BOOLEAN", "DOUBLE", "DATE", "TIMESTAMP", "DECIMAL", "UTINYINT", "TimeZone", "EXPLAIN", "FORMAT", "json",
    "system", "main", "temp", "lower", "upper", "trim", "ltrim", "rtrim", "substr", "date_part",
    "date_trunc", "coalesce", "count", "min", "max", "sum", "list", "unnest", "list_select",
    "row_number", "enum_range", "current_connection_id", "current_query_id", "duckdb_views", "sql",
    "database_name", "schema_name", "view_name", "python_enable_replacements",
    "autoinstall_known_extensions", "autoload_known_extensions", "list_extract", "list_filter",
    "range", "generate_series", "s",  # a series of literals
    "value", "item", "listed", "domain", "counted", "counts", "items", "n", "o", "k", "p", "w",
    "code", "people", "people_of_items", "person", "persons", "g0", "m", "own", "place", "len", "pairs", "CROSS", "t", "one", "CREATE", "TEMP", "TABLE", "QUALIFY", "greatest", "hash", "to_days", "c",
    "TRY_CAST", "typeof", "stated", "declared", "common", "starts_with", "ends_with", "contains",
    "regexp_full_match", "strlen", "disabled_optimizers", "current_setting", "nullif", "least", "abs", "sign", "BETWEEN",
    "first_value", "last_value", "ROWS", "UNBOUNDED", "PRECEDING", "CURRENT", "FOLLOWING",
    "INTERVAL", "VALUES", "arg_min", "arg_max", "row", "lag", "TINYINT", "SMALLINT", "FLOAT", "UBIGINT", "UHUGEINT", "TIME", "ZONE", "json_valid",
    "json_extract", "json_extract_string", "list_slice", "avg", "count_if", "array_extract", "array_slice",
    "struct_extract", "list_value", "list_position", "list_aggregate", "time_bucket", "timezone", "sha256", "lpad", "try_strptime", "cardinality", "map_extract_value", "map_extract", "map_keys", "map_values", "make_date", "median", "quantile_disc", "quantile_cont", "mode", "ntile", "nth_value", "percent_rank", "cume_dist", "round", "floor", *FUNCTIONS,
}  # fmt: skip
_TABLE = r'SELECT \* FROM "shop"\."\w+"\."\w+"$'
_FORMS = {
    "execute": re.compile(
        r"DESCRIBE SELECT |SELECT CAST\('|SELECT system\.main\.count\(\*\) FROM \(+SELECT "
        r"|SELECT CAST\(value AS VARCHAR\) FROM \(SELECT s AS value FROM \(SELECT s FROM "
        r"system\.main\.(range|generate_series)\("
        r"|SELECT CAST\(__dp_value AS |SELECT (__dp_group, .*)?__dp_value FROM \(WITH __dp_(read|kept) AS "
        r"|SELECT __dp_group, (CAST\()?__dp_key_0.* FROM \(WITH __dp_(read|kept) AS "
        r"|SET disabled_optimizers = '(\w+(,\w+)*)?'$"
        r"|SELECT system\.main\.current_setting\('disabled_optimizers'\)$"
        r"|SELECT sql FROM system\.main\.duckdb_views\(\)\s"
        r"|SELECT system\.main\.concat\(CAST\(c0 AS VARCHAR\).*\) FROM \((VALUES |SELECT CAST\(unnest)\("
        r"|SELECT greatest\(1, \(SELECT system\.main\.count\(\*\) FROM \(SELECT "
        r"|SELECT greatest\(1, coalesce\(system\.main\.max\(n\), 1\)\) FROM \(SELECT "
        r"|CREATE TEMP TABLE \"temp\"\.\"main\"\.\"__dp_public_[0-9a-f]{32}\" AS SELECT "
        r"|SELECT system\.main\.typeof\(\(SELECT value FROM \("
        r"|SELECT system\.main\.min\(CAST\(value AS VARCHAR\)\) FROM \("
        r"|SELECT 1 FROM \(SELECT DISTINCT "
        r"|SELECT system\.main\.regexp_\w+\('', '"
        r"|SELECT system\.main\.timezone\('[\w+/-]+', CAST\('2000-01-01' AS "
        r"|EXPLAIN \(FORMAT json\) SELECT system\.main\.row_number\(\) OVER \(\) FROM \(SELECT "
        r'("__dp_person", "__dp_item" FROM \(SELECT [\s\S]*|1 FROM "(shop|temp)"\."\w+"\."\w+"'
        r"|[\s\S]*item FROM \(SELECT [\s\S]*\) AS __dp_domain)\) AS counted$"
        r"|SELECT [\s\S]*__dp_\w+[\s\S]* FROM \(SELECT [\s\S]*\) AS __dp_source WHERE __dp_privacy_unit IS NOT NULL "
        r"|SELECT [\s\S]*__dp_key_0_ FROM \(SELECT \* FROM \(SELECT [\s\S]*\) AS __dp_listed ORDER BY [\s\S]* LIMIT \d+\) AS __dp_shown$"
        r"|SELECT [\s\S]*item FROM \(SELECT [\s\S]*\) AS __dp_domain$"
        r"|SELECT (DISTINCT )?(\(CAST\(value AS VARCHAR\)\) COLLATE \"binary\"|CAST\(value AS \w+\)) AS item FROM \("
    ),
    "extract_statements": re.compile("SELECT |SET disabled_optimizers = "),  # parsed
    "sql": re.compile("SELECT "),  # bound, for names and types; a public table is read
    "get_table_names": re.compile(
        _TABLE + r"|SELECT \* FROM \(SELECT __dp_person, c0 AS __dp_item"
        r"|SELECT \* FROM \(SELECT (DISTINCT )?\(?[rc]\d"
        r"|SELECT \* FROM \"temp\"\.\"main\"\.\"__dp_public_[0-9a-f]{32}\"$"
    ),
}
_PIECE = re.compile(r"""'(?:[^']|'')*'|"((?:[^"]|"")*)"|(\$?\w+)|--|/\*""")


def strange(statement: str) -> list[str]:
    """The words and names of a statement that are not dp_sql's own; what is in quotes '…' is data."""
    found = []
    for piece in _PIECE.finditer(statement):
        name, word = piece.groups()
        is_ours = name is not None and re.fullmatch("temp|__dp_public_[0-9a-f]{32}", name)
        if name is not None and name not in _NAMES and not is_ours:
            found.append(piece.group())
        known = (
            word is None
            or word in _WORDS
            or re.fullmatch(r"\$?\d+|[crs]\d+|r\d+p|r\d+c\d+|__dp_\w+", word)
        )
        if not known or piece.group() in {"--", "/*"}:
            found.append(piece.group())
    return found


@pytest.mark.parametrize(
    "statement",
    ["SELECT error('x') FROM r0", 'SELECT c0 FROM "secret"', "SELECT c0 -- x", "SELECT c0 /* x */",
     "SELECT c0 FROM rätings", "SELECT '' || name FROM r0"],
)  # fmt: skip
def test_the_spy_would_know_a_word_of_an_attack(statement: str) -> None:
    assert strange(statement)
    assert not strange("""SELECT r0c1 AS c0 FROM "ratings" AS r0 WHERE (r0c1 = 'it''s -- "x" 1')""")


def test_the_public_side_holds_public_tables_and_releases_only(sides: tuple[Side, Side]) -> None:
    for side in sides:
        side.ask("FROM catalog")
        public = side.session._public.connection
        tables = public.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        ours = r"__dp_releases_[0-9a-f]{16}|__dp_table_\d+"
        assert {name for (name,) in tables if not re.fullmatch(ours, name)} == {"catalog"}
        assert public.execute("SELECT 1 FROM duckdb_views() WHERE NOT internal").fetchall() == []
        paths = public.execute("SELECT path FROM duckdb_databases()").fetchall()
        assert {path for (path,) in paths} == {None}


def test_no_view_of_duckdbs_catalog_is_read(sides: tuple[Side, Side]) -> None:
    """They list settings with paths, and numbers that grow with each statement."""
    listed = "SELECT schema_name, view_name FROM duckdb_views() WHERE internal"
    with duckdb.connect() as con:
        views = con.execute(listed).fetchall()
    for schema, view in views:
        for name in (f"{schema}.{view}", f'system.{schema}."{view.upper()}"'):
            assert sides[0].ask(f"SELECT count(*) FROM {name}").kind == "NotSupported"
    for string in (r"e'\x70g_settings'", "'pg'\n'_settings'", "'pg' -- one\r'_settings'"):
        asked = sides[0].ask(f"FROM {string} AS s")
        assert asked.kind in {"NotSupported", "ParseError", "CatalogException"}


def test_a_table_of_one_person_and_an_empty_one_are_answered_alike(tmp_path: Path) -> None:
    shapes = []
    for n in (0, 1):
        path, policy = tmp_path / f"{n}.duckdb", tmp_path / "policy.toml"
        with duckdb.connect(str(path)) as owner:
            owner.execute(f"CREATE TABLE seen AS SELECT 7 AS u, 'a' AS t FROM range({n})")
        policy.write_text('[tables.seen]\nprivacy_unit = "u"\n', encoding="utf-8")
        with dp_sql.connect(str(path), policy=policy) as session:
            top = session.sql(
                "SELECT DP_TOPK(t, 2, epsilon := 1, domain := ['a', 'b', 'c']) AS best FROM seen"
            )
            count = session.sql("SELECT DP_COUNT_DISTINCT(t, epsilon := 1) AS n FROM seen")
            grouped = session.sql(
                "SELECT DP_COUNT_DISTINCT(n, epsilon := 1, report := true) AS n "
                "FROM (SELECT u, count(*) AS n FROM seen GROUP BY u)"
            )
            shapes.append([
                top.columns, len(top.fetchall()[0][0]), len(count.fetchall()),
                sorted(grouped.fetchall()[0][0]), len(session.receipts),
            ])  # fmt: skip
    assert shapes[0] == shapes[1]
