"""One row of one person causes no more work than was promised, and a checker that would know."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from dp_sql.errors import DpSqlError, NotSupported
from dp_sql.policy.limits import WorkLimits
from dp_sql.privacy.plans.plan import Plan
from dp_sql.privacy.relations import from_sql, join_bounds, join_sql, tree_sql
from dp_sql.session.analyst import AnalystSession
from tests.attacks.attack_bench import Side, attacks, both_sides
from tests.privacy.source_texts import multiplied
from tests.privacy.test_fuzz_plans import SEEDS
from tests.privacy.work_oracle import EACH_WITH_EACH, LIMITS, Shops, check, work_of

QUIET = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink],
)
FEWEST_ACCEPTED, FEWEST_MULTIPLIED = 0.4, 0.2


@pytest.fixture(scope="module")
def shops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shops]:
    shops = Shops(tmp_path_factory.mktemp("work"))
    yield shops
    shops.close()


# --- what a source may cost -----------------------------------------------------------------------


def search(shops: Shops, config: settings) -> tuple[int, int, int]:
    """How many texts were tried, accepted, and accepted with a join that multiplies rows."""
    seen = [0, 0, 0]

    @config
    @given(multiplied())
    def one(text: str) -> None:
        seen[0] += 1
        if check(text, shops):
            seen[1] += 1
            seen[2] += shops.written(text).work.joined_rows_per_person is not None

    one()
    return seen[0], seen[1], seen[2]


@pytest.mark.thorough
def test_one_row_of_a_random_source_makes_no_more_rows_than_promised(shops: Shops) -> None:
    tried, taken, multiplied = search(shops, QUIET)
    assert taken >= FEWEST_ACCEPTED * tried
    assert multiplied >= FEWEST_MULTIPLIED * tried


@pytest.mark.slow
def test_one_row_of_many_random_sources_makes_no_more_rows_than_promised(shops: Shops) -> None:
    end = time.monotonic() + 240
    while time.monotonic() < end:
        search(shops, settings(QUIET, max_examples=250, derandomize=False))


FOURS = " ".join(f"JOIN four f{i} ON f{i}.k = r.four" for i in range(8))
SOURCES = {
    "a scan": "SELECT user_id, title FROM ratings WHERE score > 3",
    "a table of four rows, eight times": f"SELECT r.user_id, r.title FROM ratings r {FOURS}",
    "a table of four rows, five times, all columns read": "SELECT r.user_id, r.title FROM ratings r JOIN four a ON "
    "a.k = r.four JOIN four b ON b.k = r.four JOIN four c ON c.k = r.four JOIN four d ON d.k = r.four JOIN four e ON "
    "e.k = r.four WHERE a.a < b.a AND b.a < c.a AND (c.a < d.a OR d.b < e.b OR a.c = e.a)",
    "a chain of public joins": "SELECT r.user_id, c.title FROM ratings r JOIN catalog c ON r.price = c.price "
    "JOIN catalog d ON d.price = c.price",
    "the first of two public tables is unique": "SELECT r.user_id, d.year FROM ratings r JOIN catalog c ON r.title = c.title "
    "JOIN catalog d ON c.price = d.price WHERE c.year < d.year",
    "keys that are floats": "SELECT r.user_id, c.year FROM ratings r JOIN catalog c ON r.x = c.x",
    "keys that are enums": "SELECT r.user_id, c.mood FROM ratings r JOIN catalog c ON r.mood = c.mood AND r.price = c.price",
    "keys under a collation": "SELECT r.user_id, c.year FROM ratings r JOIN catalog c USING (genre)",
    "a LEFT JOIN whose ON says OR": "SELECT r.user_id, f.a FROM ratings r LEFT JOIN four f ON f.k = r.four AND (r.score > 2 OR f.a > 1)",
    "a LEFT JOIN whose ON looks at the left side": "SELECT r.user_id, c.year FROM ratings r LEFT JOIN catalog c "
    "ON c.title = r.title AND r.score < 3",
    "a LEFT JOIN whose ON has IN": "SELECT r.user_id, f.a FROM ratings r LEFT JOIN four f ON f.k = r.four AND "
    "r.title IN (SELECT title FROM catalog WHERE year > 5)",
    "a LEFT JOIN of two private tables": "SELECT r.user_id, o.title FROM ratings r LEFT JOIN orders o ON "
    "r.user_id = o.buyer AND (r.score = o.score OR o.title = 't1')",
    "two private tables": "SELECT r.user_id, o.title FROM ratings r JOIN orders o ON r.user_id = o.buyer",
    "a link": "SELECT o.buyer, i.product FROM orders o JOIN items i ON i.order_id = o.order_id",
    "people, their carts and the lines of these": "SELECT p.city, l.product FROM people p JOIN carts c USING (user_id) "
    "JOIN lines l USING (cart_id)",
    "lines, their carts and the people of these": "SELECT p.city, l.product FROM lines l JOIN carts c ON c.cart_id = l.cart_id "
    "JOIN people p ON p.user_id = c.user_id WHERE l.score > c.score",
    "carts with lines or without": "SELECT p.city, l.product FROM people p LEFT JOIN carts c USING (user_id) LEFT JOIN lines l USING (cart_id)",
    "lines of one cart in pairs": "SELECT a.product, b.line FROM lines a JOIN carts c USING (cart_id) JOIN lines b ON b.cart_id = c.cart_id",
    "lines beside those of their cart": "SELECT a.product, b.line FROM lines a JOIN lines b USING (cart_id)",
    "items whose order is among those with another": "SELECT product FROM items i WHERE order_id IN (SELECT order_id FROM items WHERE score > 1)",
    "a part of a key": "SELECT c.score, l.product FROM carts c JOIN lines l ON l.cart_id = c.cart_id AND l.line = c.score "
    "JOIN carts d ON d.user_id = c.user_id AND d.score = c.score",
    "a key and a public table": "SELECT l.product, f.a FROM people p JOIN carts c USING (user_id) JOIN lines l USING (cart_id) "
    "JOIN four f ON f.k = l.line",
    "a public table between": "SELECT c.score, l.product, y.decade FROM carts c JOIN years y ON y.year = c.score JOIN lines l "
    "ON l.cart_id = c.cart_id AND l.score = y.decade",
    "a key in a subquery": "SELECT n, l.product FROM (SELECT user_id, cart_id AS n FROM carts WHERE score > 1) c JOIN lines l ON l.cart_id = n",
    "a key after a group": "SELECT n, l.product FROM (SELECT user_id, cart_id, count(*) AS n FROM carts GROUP BY ALL) c JOIN lines l USING (cart_id)",
    "copies joined with themselves": "WITH w AS (FROM ratings UNION ALL FROM ratings) SELECT a.user_id, b.title FROM w a "
    "JOIN w b ON a.user_id = b.user_id",
    "copies counted": "SELECT user_id, count(*) AS n FROM (FROM ratings UNION ALL FROM ratings) GROUP BY user_id",
    "rows counted after a join": "SELECT user_id, four, count(*) AS n FROM ratings JOIN four ON four = k GROUP BY user_id, four",
    "groups joined with groups": "SELECT a.user_id, b.n FROM (SELECT user_id, score, count(*) AS n FROM ratings GROUP BY ALL) a "
    "JOIN (SELECT user_id, title, count(*) AS n FROM ratings GROUP BY ALL) b ON a.user_id = b.user_id",
    "distinct values counted": "SELECT user_id, count(DISTINCT catalog.title) AS n FROM ratings JOIN catalog USING (genre) GROUP BY user_id",
    "rows with a match": "SELECT title FROM ratings r WHERE EXISTS (SELECT 1 FROM orders o WHERE o.buyer = r.user_id AND o.title > 't')",
    "rows without a match": "SELECT user_id, count(*) AS n FROM ratings ANTI JOIN orders ON user_id = buyer GROUP BY ALL",
    "rows with a public match": "SELECT title FROM ratings r WHERE EXISTS (SELECT 1 FROM four f WHERE f.k = r.four)",
    "a list": "SELECT tag FROM posts, unnest(tags) AS t(tag)",
    "words": "SELECT user_id, unnest(string_split(title, '1')) AS word FROM ratings",
    "a list, joined": "SELECT year FROM (SELECT user_id, unnest(tags) AS tag FROM posts) JOIN catalog ON tag = title",
    "a list and its table again": "SELECT a.user_id, tag FROM (SELECT user_id, unnest(tags) AS tag FROM posts) a JOIN posts b USING (user_id)",
    "a view": "SELECT l.reader, f.a FROM liked l JOIN four f ON f.k = l.four",
    "a side that is empty without the person": "SELECT r.user_id, count(*) AS n FROM ratings r JOIN catalog c ON r.genre = c.genre "
    "JOIN (SELECT user_id FROM ratings JOIN four ON four = k GROUP BY ALL) p ON p.user_id = r.user_id GROUP BY 1",
}  # fmt: skip


@pytest.mark.one_in(12)
@pytest.mark.parametrize("name", SOURCES)
def test_one_row_makes_no_more_rows_than_promised(name: str, shops: Shops) -> None:
    assert check(SOURCES[name], shops)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "joins",
    ["JOIN four f ON r.score > f.a", "CROSS JOIN four f", "LEFT JOIN four f ON r.score < f.a AND f.b = 0",
     "JOIN carts c USING (user_id) JOIN four f ON f.a < c.score"],
)  # fmt: skip
def test_one_row_meets_each_row_of_a_public_table_at_most_once(joins: str, shops: Shops) -> None:
    text = f"SELECT user_id, r.title, f.a FROM ratings r {joins}"
    assert check(text, shops, with_each_public_row=True)
    many = f"SELECT user_id, y.year, z.year FROM ratings r {joins}, catalog y, catalog z"
    refused = shops.outcome(many, "row")
    assert str(refused).startswith("NotSupported: These joins could make")


def test_joins_that_would_make_too_many_rows_are_refused_before_any_is_read(shops: Shops) -> None:
    every = " AND ".join(f"f{i}.a < f{i + 1}.a" for i in range(7))
    refused = shops.outcome(
        f"SELECT r.user_id, r.title FROM ratings r {FOURS} WHERE {every}", "row"
    )
    assert str(refused).startswith("NotSupported: These joins could make")


def test_extremes_of_a_column_do_not_skip_the_rows_of_others(shops: Shops) -> None:
    """Without the person no score is above 6, which DuckDB knows before it reads a row."""
    source = shops.written("SELECT user_id FROM ratings GROUP BY user_id HAVING max(score) > 100")
    assert shops.work(source, "before").largest >= 60


ONE_ROW = "(SELECT user_id, genre, four, min(title) AS title FROM ratings GROUP BY ALL) r"
BRANCH = f"SELECT r.user_id, f.a FROM {ONE_ROW} JOIN four f ON r.four = f.k WHERE r.title > '{{}}'"
TOO_MUCH = {
    "a fan-out beyond the limit for one row": (
        WorkLimits(1000, 2000), f"SELECT r.user_id, f.a FROM {ONE_ROW} JOIN four f ON f.k = r.four",
        "could make",
    ),
    "many branches of a UNION ALL": (
        WorkLimits(10, 100), " UNION ALL ".join(BRANCH.format(i) for i in range(40)), "could make",
    ),
    "a pattern after a join that multiplies rows": (
        LIMITS, "SELECT r.user_id, f.a FROM ratings r JOIN four f ON r.four = f.k WHERE f.a > r.score OR r.title LIKE '%a_b%'",
        "matched after a join",
    ),
    "a pattern around a join that multiplies rows": (
        LIMITS, "SELECT user_id FROM (SELECT r.user_id, r.title, f.a FROM ratings r JOIN four f ON r.four = f.k) AS t WHERE a > 0 AND title LIKE '%a_b%'",
        "matched after a join",
    ),
    "a concatenation after a join that multiplies rows": (
        LIMITS, "SELECT user_id, title || title || a FROM (SELECT r.user_id, r.title, f.a FROM ratings r JOIN four f ON r.four = f.k) AS t",
        "concatenated after a join",
    ),
    "a concatenation with the elements of a list": (
        LIMITS, "SELECT tag || title AS x FROM posts JOIN ratings USING (user_id), unnest(tags) AS t(tag)",
        "after a join",
    ),
    "a concatenation after unnest": (
        LIMITS, "SELECT tag || tag AS x FROM posts, unnest(tags) AS t(tag)", "concatenated after",
    ),
    "a pattern after unnest": (
        LIMITS, "SELECT tag FROM posts, unnest(tags) AS t(tag) WHERE tag LIKE '%a_b%'", "matched after",
    ),
    "two lists of one row": (
        LIMITS, "SELECT x, y FROM posts, unnest(tags) AS t(x), unnest(tags) AS u(y)", "unnested here after another",
    ),
    "a list after a join that multiplies rows": (
        LIMITS, "SELECT unnest(tags) AS tag, r.score FROM posts p JOIN ratings r ON p.user_id = r.user_id", "multiplies rows",
    ),
    "many patterns": (
        LIMITS, "SELECT user_id FROM ratings WHERE " + " OR ".join(f"title LIKE '%{i}_%'" for i in range(6)),
        "more than 5 patterns",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TOO_MUCH)
def test_what_one_row_could_make_slow_is_refused(name: str, shops: Shops) -> None:
    limits, text, words = TOO_MUCH[name]
    with pytest.raises(NotSupported, match=words):
        shops.written(text, limits=limits)


# --- the corpus of attacks ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    with both_sides(tmp_path_factory.mktemp("corpus")) as both:
        yield both


NOW = re.compile(r"CAST\('[-0-9 :.+]+' AS TIMESTAMP WITH TIME ZONE\)")


def plans(side: Side, statement: str) -> list[Plan]:
    """What a statement would release; none where it is refused."""
    assert isinstance(side.session, AnalystSession)
    try:
        (parsed,) = side.session._parse(statement, None)
        return side.session._plan(parsed, side.session._public)
    except (DpSqlError, duckdb.Error, RecursionError):
        return []


@pytest.mark.thorough
def test_no_source_of_the_corpus_costs_more_for_a_person_of_forty_rows(
    sides: tuple[Side, Side],
) -> None:
    corpus = [
        a.statement for a in attacks("released") + attacks("harmless")
    ]  # the rest runs nothing
    texts = dict.fromkeys(SEEDS + [text for text in corpus if "DP_" in text])
    n_planned = 0
    for text in texts:
        with_person, without = (plans(side, text) for side in sides)
        a, b = ([NOW.sub("now", p.source) for p in side] for side in (with_person, without))
        assert a == b
        for plan in without:
            n_planned += 1
            assert plan.work is not None
            joined = plan.work.joined_rows_per_person or 0
            more, less = (_work(side, plan) for side in sides)
            # 40 rows of one person, each read at most twice, beside three public rows.
            assert more.largest - less.largest <= 2 * 40 + joined, text
            # One value of public tables is a product with one row.
            allowed = {"CROSS_PRODUCT"} if "__dp_value(c)" in plan.source else set[str]()
            assert not (more.kinds | less.kinds) & EACH_WITH_EACH - allowed, text
    assert n_planned >= 20


def _work(side: Side, plan: Plan) -> Any:
    connection: Any = side.session._private._connection  # type: ignore[attr-defined]
    return work_of(connection, f"SELECT * FROM {plan.source}")


# --- mutants, which the oracle must reject --------------------------------------------------------

Plant = Callable[[pytest.MonkeyPatch], None]


def keeps_multiplicity(patch: pytest.MonkeyPatch) -> None:
    """Public sides are not reduced, and every fan is said to be 1."""
    patch.setattr(from_sql.FromWriter, "_largest", lambda *_: 1)


def not_reduced(patch: pytest.MonkeyPatch) -> None:
    """Nothing is made distinct, and fans are counted as if it were."""
    right_distinct, right_reduced = from_sql.distinct_sql, from_sql.reduced_sql
    counted = from_sql.FromWriter._largest

    def bare(found: Any) -> Any:
        return found._replace(sql=found.sql.replace("SELECT DISTINCT", "SELECT"))

    def largest(self: Any, sql: str, *given: Any) -> int:
        return counted(self, sql.replace("SELECT ", "SELECT DISTINCT ", 1), *given)

    patch.setattr(from_sql, "distinct_sql", lambda *a: right_distinct(*a).replace("DISTINCT ", ""))
    patch.setattr(from_sql, "reduced_sql", lambda *a: bare(right_reduced(*a)))
    patch.setattr(from_sql.FromWriter, "_largest", largest)


def capped_afterwards(patch: pytest.MonkeyPatch) -> None:
    """The rows of each person are capped after the join, and not before it."""
    right = tree_sql.Writer._select

    def select(self: Any, *given: Any) -> Any:
        found = right(self, *given)
        if " JOIN " not in found.sql:
            return found
        number = "system.main.row_number() OVER (PARTITION BY r0p)"
        return found._replace(sql=f"{found.sql} QUALIFY {number} <= {self.limits.rows_per_person}")

    patch.setattr(tree_sql.Writer, "_select", select)
    patch.setattr(from_sql, "capped_sql", lambda select, part, sql, cap: sql)


def not_checked(patch: pytest.MonkeyPatch) -> None:
    """A join that multiplies rows without end is promised to make five."""
    right = from_sql.FromWriter.written

    def promised(self: Any) -> Any:
        source = right(self)
        self.writer.made = None if self.writer.made is None else 5
        return source

    patch.setattr(from_sql.FromWriter, "_check", lambda *_: None)
    patch.setattr(from_sql.FromWriter, "written", promised)


def inner_joins(patch: pytest.MonkeyPatch) -> None:
    """Private sides are joined so that an empty one leaves out the rows of others."""
    for module in (tree_sql, join_sql):
        patch.setattr(module, "is_found", lambda found, left: f"{found} = 1")


def whole_lists(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tree_sql, "MAX_ELEMENTS", 10**6)


def every_match(patch: pytest.MonkeyPatch) -> None:
    """A row is joined with each of its matches."""
    right = from_sql.distinct_sql
    patch.setattr(from_sql, "distinct_sql", lambda *a: right(*a).replace("DISTINCT ", ""))


def every_key(patch: pytest.MonkeyPatch) -> None:
    """Each person is said to have one row."""
    patch.setattr(from_sql, "key_columns", lambda relation: frozenset())


def half_a_key(patch: pytest.MonkeyPatch) -> None:
    """The first column of a primary key is said to be enough."""
    right = from_sql.key_columns
    patch.setattr(
        from_sql, "key_columns", lambda one: (key := right(one)) and frozenset({min(key)})
    )


def keys_without_comparison(patch: pytest.MonkeyPatch) -> None:
    """A primary key fixes a row, whatever the join compares."""
    patch.setattr(
        join_bounds, "_is_fixed", lambda select, number, fixed, numbers, keys: number in keys
    )


MUTANTS: dict[str, tuple[Plant, str]] = {
    "takes one row for each person": (every_key, "SELECT a.score, o.score FROM carts a JOIN orders o ON a.user_id = o.buyer"),
    "takes half a key": (half_a_key, SOURCES["lines of one cart in pairs"]),
    "compares no key": (keys_without_comparison, "SELECT a.score, b.line FROM carts a JOIN carts c USING (user_id) JOIN lines b ON b.cart_id = c.cart_id"),
    "unnests a list of any length": (whole_lists, SOURCES["a list"]),
    "joins each match": (every_match, "SELECT count(*) AS n FROM ratings WHERE user_id IN (SELECT buyer FROM orders) GROUP BY user_id"),
    "keeps how often public rows occur": (keeps_multiplicity, SOURCES["a table of four rows, five times, all columns read"]),
    "reduces nothing": (not_reduced, SOURCES["a table of four rows, eight times"]),
    "caps after the join": (capped_afterwards, "SELECT a.score, b.title FROM ratings a JOIN ratings b ON a.user_id = b.user_id WHERE a.score < 10"),
    "promises what it does not check": (not_checked, f"SELECT r.user_id, f0.a FROM ratings r {FOURS} WHERE (f0.a < f1.a OR f2.a < f3.a OR f4.a < f5.a OR f6.a < f7.a)"),
    "skips the rows of others where a side is empty": (inner_joins, SOURCES["a side that is empty without the person"]),
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.pure
@pytest.mark.parametrize("name", MUTANTS)
def test_the_oracle_rejects_a_writer_that(
    name: str, shops: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant, text = MUTANTS[name]
    right = shops.outcome(text, "before")
    assert isinstance(right, str) or check(text, shops)
    plant(monkeypatch)
    assert shops.outcome(text, "before") != right
    with pytest.raises(AssertionError, match="rows"):
        check(text, shops)


@pytest.mark.pure
@pytest.mark.skipif(duckdb.__version__ >= "2", reason="DuckDB 2.0 joins them by hashes by itself")
def test_the_oracle_rejects_a_join_that_compares_each_row_with_each(
    shops: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(from_sql, "matched_sql", lambda select, source, part, still, before: (
        from_sql.joined_sql(select, source, part, select.on_terms(part.number, before))
    ))  # fmt: skip
    with pytest.raises(AssertionError, match="each row is compared with each"):
        check(SOURCES["a LEFT JOIN whose ON says OR"], shops)


def test_a_version_that_skips_by_extremes_would_be_known(shops: Shops) -> None:
    """On versions that skip a whole GROUP BY by the extremes of its column."""
    source = shops.written("SELECT user_id FROM ratings GROUP BY user_id HAVING max(score) > 100")
    connection = shops.sides["before"]._connection
    ((off,),) = connection.execute("SELECT current_setting('disabled_optimizers')").fetchall()
    connection.execute("SET disabled_optimizers = 'join_order'")
    try:
        skipped = shops.work(source, "before").largest
    finally:
        connection.execute(f"SET disabled_optimizers = '{off}'")
    assert skipped == 0 if duckdb.__version__ >= "2" else skipped >= 60


# --- texts that take long -------------------------------------------------------------------------

_LIKE = """
import resource, sys, duckdb
resource.setrlimit(resource.RLIMIT_CPU, (4, 4))
con = duckdb.connect(config={"threads": 1})
con.execute("CREATE TABLE r AS SELECT 1 AS u, repeat('a', $1::INTEGER) AS title", [int(sys.argv[1])])
con.execute("SELECT u FROM r WHERE " + sys.argv[2]).fetchall()
"""


def is_done_in_time(condition: str, letters: int) -> bool:
    """Whether a condition on one text of so many letters is decided in 4 seconds of a processor."""
    command = [sys.executable, "-c", _LIKE, str(letters), condition]
    done = subprocess.run(command, check=False, capture_output=True).returncode
    assert done in {0, -signal.SIGXCPU, -signal.SIGKILL}
    return done == 0


@pytest.mark.skipif(duckdb.__version__ >= "2", reason="LIKE of DuckDB 2.0 is linear")
def test_a_like_that_backtracks_would_be_known() -> None:
    pattern = "%a_" * 12 + "b"
    assert is_done_in_time("regexp_full_match(title, '(.*a.)*b')", 110)
    assert not is_done_in_time(f"title LIKE '{pattern}'", 110)
