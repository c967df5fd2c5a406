"""Tables and words that random sources are made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Col:
    name: str
    type: str
    person: bool = False


@dataclass(frozen=True)
class Rel:
    """A relation and what it is called."""

    text: str
    alias: str
    cols: tuple[Col, ...]

    @property
    def is_private(self) -> bool:
        return any(col.person for col in self.cols)


def _rel(name: str, listed: str) -> Rel:
    cols = [word.split() for word in listed.split(",")]
    return Rel(name, name, tuple(Col(c[0].lstrip("!"), c[1], c[0].startswith("!")) for c in cols))


BASES = {
    rel.alias: rel
    for rel in (
        _rel("ratings", "!user_id big,title text,score int,day date,kind enum,price dec,flag bool"),
        _rel(
            "visits",
            "!visitor big,user_id big,page text,seen time,x double,f float,h huge,u ubig,t tiny",
        ),
        _rel("orders", "order_id int,!buyer big,title text,cost money,tz zone"),
        _rel("items", "order_id int,title text,n small"),
        _rel("odd", "!person big,uh uhuge,ns nano,s sec,tm clock,id uuid,b blob,l list"),
        _rel("accounts", "!name folded,title folded"),
        _rel("logins", "!name folded,title text"),
        _rel("catalog", "title text,year int,user_id big"),
        _rel("pages", "page text,section text,seen time"),
        _rel("recent", "!reader big,title text,score int"),
        _rel("counted", "title text,n big"),
        _rel("secret", "user_id big,title text"),
    )
}


WRITTEN_COLS = (Col("score", "int"), Col("title", "text"), Col("day", "date"))
WRITTEN_OUT = [
    "(VALUES (1, 'Dune', DATE '2020-01-31'), (2, '', NULL), (1, 'Dune', DATE '2020-01-31'))",
    "(VALUES (-1, 'x''y', CAST('2020-02-29' AS DATE)))",
    "(SELECT 1, 'Emma', DATE '2020-01-31' UNION ALL SELECT NULL, 'Dune', DATE '1999-12-31')",
    "(SELECT s::INTEGER, 'Dune', DATE '2020-01-31' FROM range(3) AS t(s))",
]


OFTEN = ["ratings", "ratings", "visits", "orders", "items", "catalog", "pages", "recent", "odd"]


SELDOM = ["accounts", "logins", "counted", "secret"]


_INTS = ["{} > 1", "{} = 2.5", "{} <= 1.5", "{} IN (1, 2, 3)", "{} IN (1, 2.5)", "{} BETWEEN 1 AND 2", "{} NOT IN (2)",
         "{} < 9223372036854775808", "{} >= -2147483649", "{} <> 2e0", "2 = {}", "{} = 9007199254740992",
         "{} = 9007199254740992e0", "{} > 0.000000000000000001", "{} IN (1, NULL)", "coalesce({}, 1) = 1",
         "{} = 170141183460469231731687303715884105727", "{} BETWEEN -1.5 AND 2.5", "NOT {} = 1", "{} > -5"]  # fmt: skip


_FLOATS = ["{} > 1", "{} = 0.1", "{} = 0.1e0", "{} = 16777217", "{} IN (0.1, 1.5)", "{} BETWEEN 0 AND 1.5", "{} = 0",
           "{} < -1e300", "{} >= 0.12345678901234567890123", "{} = 1.5", "coalesce({}, 0.5) > 0"]  # fmt: skip


_DECIMALS = ["{} = 1.5", "{} > 1.23456789012345", "{} = 0.1e0", "{} < 5", "{} IN (0, 1.5, 2.50)", "{} >= 9999999",
             "{} BETWEEN -0.001 AND 2.505", "{} < 12345678901234567890", "coalesce({}, 0) = 0", "{} <> 1.5000"]  # fmt: skip


_TEXTS = ["{} = 'Dune'", "{} > 'E'", "{} LIKE 'D%'", "{} NOT LIKE '_une'", "{} ILIKE '%U%'", "{} IN ('Dune', '', 'x')",
          "lower({}) = 'dune'", "trim({}) = 'Dune'", "substr({}, 2, 1) = 'u'", "coalesce({}, 'Dune') <> 'Emma'",
          "{} BETWEEN 'A' AND 'E'", "{} LIKE '%\\_%'", "'Emma' < {}", "upper(ltrim({})) LIKE 'D%'", "substr({}, -2) = 'ne'",
          "{} NOT ILIKE 'd%'", "{} IN (SELECT title FROM catalog)", "{} NOT IN (SELECT title FROM catalog WHERE year > 1)",
          "{} IN (SELECT section FROM pages p)", "{} = $$Dune$$"]  # fmt: skip


_DATES = ["{} > '2020-01-01'", "{} = DATE '2020-01-31'", "year({}) = 2020", "{} < 'infinity'", "month({}) IN (1, 2)",
          "date_trunc('month', {}) = '2020-01-01'", "{} BETWEEN '2020-01-01' AND '2020-12-31'", "extract(week FROM {}) > 3",
          "{} = '2020-01-31 12:00:00'", "date_trunc('week', {}) < DATE '2021-01-01'", "{} >= '0044-01-01 (BC)'",
          "day({}) = 31", "extract(quarter FROM {}) <> 2", "{} = TIMESTAMP '2020-01-31 12:00:00'"]  # fmt: skip


CONDITIONS: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("big", "int", "tiny", "small", "ubig", "huge", "uhuge"), _INTS),
    **dict.fromkeys(("float", "double"), _FLOATS),
    **dict.fromkeys(("dec", "money"), _DECIMALS),
    **dict.fromkeys(("text", "folded"), _TEXTS),
    **dict.fromkeys(("date", "time", "zone", "nano", "sec"), _DATES),
    "enum": ["{} = 'novel'", "{} < 'novel'", "{} IN ('novel', 'other')", "{} BETWEEN 'a' AND 'o'",
             "{} <> 'nothing'", "{} >= 'essay'", "{} LIKE 'n%'", "upper({}) = 'NOVEL'"],
    "bool": ["{}", "NOT {}", "{} = TRUE", "{} IS TRUE", "{} IS NOT FALSE", "coalesce({}, FALSE)"],
    "clock": ["{} > '12:00:00'", "{} = TIME '00:00:00'"],
    "uuid": ["{} = '00000000-0000-0000-0000-000000000000'"],
    "blob": ["{} IS NULL"], "list": ["{} IS NOT NULL"], "void": ["{} IS NOT NULL"],
}  # fmt: skip


REFUSED = ["{c} = 1 / 0", "CAST({c} AS INTEGER) > 1", "EXISTS (SELECT 1 FROM ratings)", "error('x')", "random() > 0.5",
           "{c} IN (SELECT title FROM ratings)", "{c} = (SELECT max(title) FROM catalog)", "row_number() OVER () < 3",
           "CASE WHEN {c} IS NULL THEN error('x') ELSE TRUE END", "{c} = ANY (SELECT title FROM ratings)", "now() > '2020-01-01'",
           "{c} + 1 > 2", "regexp_matches({c}, 'x')", "{c} = {c}", "length({c}) > 3", "{c} IS NOT DISTINCT FROM 1"]  # fmt: skip


_OF_DATES = ["date_trunc('month', {})", "date_trunc('hour', {})", "year({})", "extract(second FROM {})", "month({})"]  # fmt: skip


ITEMS: Mapping[str, Sequence[str]] = {
    **{key: ["lower({})", "substr({}, 1, 2)", "trim({})", "coalesce({}, 'none')", "{} LIKE 'D%'"] for key in ("text", "folded")},
    **dict.fromkeys(("date", "time", "zone", "nano", "sec"), _OF_DATES),
    **{key: ["coalesce({}, 2)", "CAST({} AS VARCHAR)", "{} > 1"] for key in ("big", "int", "dec", "tiny", "ubig", "huge")},
    **{key: ["CAST({} AS VARCHAR)", "coalesce({}, 0.5)", "{}::TEXT"] for key in ("double", "float")},
    **{key: ["CAST({} AS VARCHAR)"] for key in ("enum", "uuid", "clock", "bool")},
}  # fmt: skip


TAILS = ["LIMIT 2", "QUALIFY row_number() OVER () = 1", "USING SAMPLE 2", "LIMIT 50%", "OFFSET 1", "ORDER BY 1",
         "ORDER BY 1 LIMIT 1"]  # fmt: skip


SHAPES = ["FROM {p} SELECT *", "SELECT * FROM {p}, catalog", "SELECT * FROM {p} TABLESAMPLE 50%", "SELECT * FROM {p} AS q(a, b)",
          "SELECT DISTINCT ON (title) * FROM {p}", "SELECT count(*) FROM {p}", "PIVOT {p} ON title", "SELECT COLUMNS(*) FROM {p}",
          "SELECT * FROM {p} NATURAL JOIN catalog", "SELECT * FROM {p} SEMI JOIN catalog USING (title)", "VALUES (1)",
          "SELECT * FROM {p} POSITIONAL JOIN catalog", "SELECT * FROM catalog LEFT JOIN {p} USING (title)", "SELECT * FROM range(3)",
          "SELECT *, row_number() OVER () AS rn FROM {p}", "SELECT unnest([1, 2]) AS u, * FROM {p}", "SELECT rowid, * FROM {p}",
          "SELECT * FROM {p} FULL JOIN catalog USING (title)", "SELECT * FROM query('FROM {p}')", "SELECT 1",
          "SELECT * FROM {p} EXCEPT SELECT * FROM {p}", "WITH RECURSIVE w AS (FROM {p}) FROM w", "SELECT max(title) FROM {p} GROUP BY title"]  # fmt: skip


def derived(text: str, listed: str) -> Rel:
    """A subquery that is read like a table."""
    return replace(_rel("", listed), text=text, alias=text)


_RATINGS = "!user_id big,title text,genre folded,score int,four int,x double,price dec,mood enum"


WIDE = {
    rel.alias: rel
    for rel in (
        _rel("ratings", _RATINGS),
        _rel("orders", "order_id int,!buyer big,title text,score int"),
        _rel("items", "order_id int,product text,score int"),
        _rel("liked", "!reader big,title text,four int"),
        _rel("people", "!user_id big,city text"),
        _rel("carts", "cart_id int,!user_id big,score int"),
        _rel("lines", "cart_id int,line int,product text,score int"),
        derived("(FROM ratings UNION ALL FROM ratings UNION ALL FROM ratings)", _RATINGS),
        derived(
            "(SELECT user_id, four, count(*) AS n FROM ratings JOIN four ON four = k GROUP BY ALL)",
            "!user_id big,four int,n big",
        ),
        _rel("catalog", "title text,genre folded,year big,x double,price dec,mood enum"),
        _rel("four", "k int,a big,b big,c big"),
        _rel("years", "year big,decade big"),
        derived("(SELECT f.k, g.a, g.b FROM four f JOIN four g ON f.k = g.k)", "k int,a big,b big"),
        derived("(SELECT DISTINCT genre, mood FROM catalog)", "genre folded,mood enum"),
    )
}


"""Tables of work_oracle.py, where public tables have many rows for a key, and subqueries of them."""


PUBLIC = ["catalog", "four", "years", *[name for name in WIDE if not WIDE[name].is_private][-2:]]


PEOPLE = [name for name in WIDE if WIDE[name].is_private or name in {"items", "lines"}]
