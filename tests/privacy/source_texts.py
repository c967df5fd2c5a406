"""Sources as analysts may write them: texts at random, most of them nearly right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from tests.people import OWNERS, Data


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
    def private(self) -> bool:
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
             "{} <> 'nothing'", "{} >= 'essay'"],
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


def _derived(text: str, listed: str) -> Rel:
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
        _derived("(FROM ratings UNION ALL FROM ratings UNION ALL FROM ratings)", _RATINGS),
        _derived(
            "(SELECT user_id, four, count(*) AS n FROM ratings JOIN four ON four = k GROUP BY ALL)",
            "!user_id big,four int,n big",
        ),
        _rel("catalog", "title text,genre folded,year big,x double,price dec,mood enum"),
        _rel("four", "k int,a big,b big,c big"),
        _rel("years", "year big,decade big"),
        _derived(
            "(SELECT f.k, g.a, g.b FROM four f JOIN four g ON f.k = g.k)", "k int,a big,b big"
        ),
        _derived("(SELECT DISTINCT genre, mood FROM catalog)", "genre folded,mood enum"),
    )
}
"""Tables of work_oracle.py, where public tables have many rows for a key, and subqueries of them."""
_PUBLIC = ["catalog", "four", "years", *[name for name in WIDE if not WIDE[name].private][-2:]]
_PEOPLE = [name for name in WIDE if WIDE[name].private or name == "items"]


@dataclass(frozen=True)
class Writer:
    """Draws texts; `ctes` are the ones in scope."""

    draw: st.DrawFn
    ctes: tuple[Rel, ...] = ()

    def one(self, options: Sequence[str]) -> str:
        return self.draw(st.sampled_from(options))

    def chance(self, percent: int) -> bool:
        return self.draw(st.integers(0, 99)) < percent

    def relation(self, depth: int, number: int) -> Rel:
        kind = self.draw(st.integers(0, 9))
        if kind < 2 and self.ctes:
            rel = self.draw(st.sampled_from(self.ctes))
        elif kind < 5 and depth > 0:
            inner = self.query(depth - 1)
            return Rel(f"({inner.text}) AS q{number}", f"q{number}", inner.cols)
        else:
            rel = BASES[self.one(SELDOM if self.chance(6) else OFTEN)]
        if rel.alias == "odd" and self.chance(70):
            cols = (*(col for col in rel.cols if col.type != "list"), Col("e", "int"))
            if self.chance(50):
                return Rel(f"(SELECT *, unnest(l) AS e FROM odd) AS q{number}", f"q{number}", cols)
            listed = f"(FROM odd AS o, unnest(o.l) AS t(e)) AS q{number}"
            return Rel(listed, f"q{number}", cols)
        if self.chance(60):
            return Rel(f"{rel.alias} {self.one(['AS ', ''])}q{number}", f"q{number}", rel.cols)
        return Rel(rel.alias, rel.alias, rel.cols)

    def join(self, left: list[Rel], right: Rel) -> str:
        side = self.one(
            ["JOIN", "JOIN", "JOIN", "INNER JOIN", "LEFT JOIN", "LEFT OUTER JOIN", "RIGHT JOIN"]
            if self.chance(90)
            else ["SEMI JOIN", "ANTI JOIN"]
        )
        pairs = [
            (a.person + b.person, r.alias, a, b)
            for r in left
            for a in r.cols
            for b in right.cols
            if a.type == b.type
        ]
        persons = [pair for pair in pairs if pair[0] == 2]
        links = [p for p in pairs if p[2].name == "order_id"]
        choice = (persons or links or pairs) if self.chance(85) else pairs
        if not choice:
            return f" {side} {right.text} ON TRUE"
        _, alias, a, b = self.draw(st.sampled_from(choice))
        if a.name == b.name and self.chance(60):
            return f" {side} {right.text} USING ({a.name})"
        on = f"{alias}.{a.name} = {right.alias}.{b.name}"
        if self.chance(25):
            on += f" AND {self.condition([*left, right])}"
        return f" {side} {right.text} ON {on}"

    def condition(self, rels: Sequence[Rel], depth: int = 1) -> str:
        if depth and self.chance(25):
            word = self.one(["AND", "OR"])
            text = f"{self.condition(rels, 0)} {word} {self.condition(rels, 0)}"
            return f"({text})" if self.chance(50) else f"NOT ({text})"
        rel = self.draw(st.sampled_from(list(rels)))
        col = self.draw(st.sampled_from(rel.cols))
        name = f"{rel.alias}.{col.name}" if self.chance(80) or len(rels) > 1 else col.name
        if self.chance(3):
            return self.one(REFUSED).replace("{c}", name)
        if self.chance(10):
            return f"{name} IS {self.one(['', 'NOT '])}NULL"
        others = [c for c in rel.cols if c.type == col.type and c is not col]
        if self.chance(8):
            return self.matched(rels)
        if others and self.chance(15):
            return f"{name} {self.one(['=', '<', '<>', '>='])} {rel.alias}.{self.draw(st.sampled_from(others)).name}"
        return self.one(CONDITIONS[col.type]).replace("{}", name)

    def matched(self, rels: Sequence[Rel]) -> str:
        """IN and EXISTS over another table, most of them on the person."""
        pairs = [
            (rel, a, other, b)
            for rel in rels
            for a in rel.cols
            for other in BASES.values()
            for b in other.cols
            if a.type == b.type and a.person == b.person
        ]
        people = [pair for pair in pairs if pair[1].person]
        choice = people if people and self.chance(80) else pairs
        if not choice:
            return "EXISTS (SELECT 1 FROM ratings)"
        rel, a, other, b = self.draw(st.sampled_from(choice))
        inner = Rel(f"{other.alias} AS m", "m", other.cols)
        more = f" AND {self.condition([inner], 0)}" if self.chance(40) else ""
        both = [(c, d) for c in rel.cols for d in other.cols if c.type == d.type and c is not a]
        if both and self.chance(30):
            c, d = self.draw(st.sampled_from(both))
            more += f" AND {rel.alias}.{c.name} = m.{d.name}"
        no, at = self.one(["", "NOT "]), f"{rel.alias}.{a.name}"
        if self.chance(40) and f"{rel.alias}." not in more:
            more = more.replace(" AND", " WHERE", 1)
            return f"{at} {no}IN (SELECT m.{b.name} FROM {inner.text}{more})"
        return f"{no}EXISTS (SELECT 1 FROM {inner.text} WHERE m.{b.name} = {at}{more})"

    def star(self, rel: Rel) -> tuple[str, list[Col]]:
        cols = list(rel.cols)
        text = f"{rel.alias}.*"
        kind = self.draw(st.integers(0, 5))
        at = self.draw(st.integers(0, len(cols) - 1))
        col = cols[at]
        if kind == 1 and len(cols) > 1:
            del cols[at]
            return f"{text} EXCLUDE ({col.name})", cols
        if kind == 2 and col.type in ITEMS:
            cols[at] = Col(col.name, "void")
            return (
                f"{text} REPLACE ({self.one(ITEMS[col.type]).replace('{}', f'{rel.alias}.{col.name}')} AS {col.name})",
                cols,
            )
        if kind == 3:
            cols[at] = replace(col, name="other")
            return f"{text} RENAME ({col.name} AS other)", cols
        same = [c for c in cols if c.type == col.type and c is not col]
        if kind == 4 and same:  # the column of a person takes another's name
            return f"{text} REPLACE ({rel.alias}.{same[0].name} AS {col.name})", [
                replace(same[0], name=col.name) if c is col else c for c in cols
            ]
        return text, cols

    def listed(self, rels: Sequence[Rel]) -> tuple[str, list[Col]]:
        if self.chance(30):
            parts = [self.star(rel) for rel in rels]
            if len(rels) == 1 and self.chance(50):
                return parts[0][0].split(".", 1)[1], parts[0][1]
            names = [col.name for _, cols in parts for col in cols]
            if len(names) == len(set(names)):
                return ", ".join(text for text, _ in parts), [c for _, cols in parts for c in cols]
        texts, found = [], []
        everything = [(rel, col) for rel in rels for col in rel.cols]
        people = [(rel, col) for rel, col in everything if col.person]
        for i in range(self.draw(st.integers(1, 4))):
            rel, col = self.draw(st.sampled_from(people if i == 0 and people else everything))
            name = f"{rel.alias}.{col.name}"
            if col.type in ITEMS and self.chance(30):
                texts.append(f"{self.one(ITEMS[col.type]).replace('{}', name)} AS e{i}")
                found.append(Col(f"e{i}", "void"))
            else:
                new = (
                    self.one([col.name, "user_id", "title", f"c{i}"])
                    if self.chance(40)
                    else col.name
                )
                new = f"c{i}" if new in {c.name for c in found} else new
                texts.append(name if new == col.name and self.chance(50) else f"{name} AS {new}")
                found.append(replace(col, name=new))
        return ", ".join(texts), found

    def grouped(self, rels: Sequence[Rel], tail: str) -> Rel:
        text, cols = self.listed(rels[:1])
        keys = (
            [f"{i + 1}" for i in range(len(cols))]
            if "*" not in text
            else [f"{rels[0].alias}.{c.name}" for c in rels[0].cols]
        )
        column = self.draw(st.sampled_from(rels[-1].cols))
        name = f"{rels[-1].alias}.{column.name}"
        total = self.one(
            [
                "count(*)",
                f"count({name})",
                f"min({name})",
                f"max({name})",
                f"count(DISTINCT {name})",
                f"sum({name})",
            ]
        )
        by = "ALL" if self.chance(20) else ", ".join(keys)
        having = self.one(
            [
                "",
                "",
                " HAVING count(*) > 1",
                " HAVING many > 1",
                f" HAVING max({name}) IS NOT NULL",
                f" HAVING {name} IS NULL",
            ]
        )
        return Rel(
            f"SELECT {text}, {total} AS many {tail} GROUP BY {by}{having}",
            "",
            (*cols, Col("many", "void")),
        )

    def query(self, depth: int) -> Rel:
        if self.chance(3):
            return Rel(
                self.one(SHAPES).replace("{p}", self.one(list(BASES))), "", (Col("title", "text"),)
            )
        writer, prefix = self, ""
        if depth > 0 and self.chance(25):
            body = self.query(depth - 1)
            name = self.one(["w", "w2", "ratings", "catalog"])
            writer = Writer(self.draw, (*self.ctes, Rel(name, name, body.cols)))
            prefix = f"WITH {name} AS ({body.text}) "
        rels = [writer.relation(depth, 0)]
        tail = f"FROM {rels[0].text}"
        terms: list[str] = []
        while len(rels) < 3 and self.chance(35):
            right = writer.relation(max(depth - 1, 0), len(rels))
            join = writer.join(rels, right)
            if (
                " JOIN " in join
                and " ON " in join
                and join[:5] in {" JOIN", " INNE"}
                and self.chance(15)
            ):
                join, _, on = join.partition(" ON ")  # FROM a, b WHERE a.x = b.x
                join = f"{self.one([', ', ' CROSS JOIN '])}{join.partition('JOIN ')[2]}"
                terms.append(on)
            tail += join
            if not join.startswith((" SEMI", " ANTI")):
                rels.append(right)
        if self.chance(45):
            terms.append(writer.condition(rels))
        if terms:
            tail += f" WHERE {' AND '.join(terms)}"
        if self.chance(12):
            rel = writer.grouped(rels, tail)
        else:
            text, cols = writer.listed(rels)
            rel = Rel(
                f"SELECT {'DISTINCT ' if self.chance(12) else ''}{text} {tail}", "", tuple(cols)
            )
        if self.chance(10):
            word = self.one(
                ["UNION ALL"] * 6 + ["UNION", "EXCEPT", "INTERSECT", "UNION ALL BY NAME"]
            )
            other = rel.text if self.chance(70) else writer.query(0).text
            return Rel(f"{prefix}{rel.text} {word} {other}", "", rel.cols)
        extra = f" {self.one(TAILS)}" if self.chance(4) else ""
        return Rel(f"{prefix}{rel.text}{extra}", "", rel.cols)


@st.composite
def sources(draw: st.DrawFn, depth: int = 2) -> str:
    """The text of a query."""
    return Writer(draw).query(depth).text


@st.composite
def multiplied(draw: st.DrawFn) -> str:
    """The text of a query whose joins may multiply rows, over the tables of work_oracle.py."""
    writer = Writer(draw)
    inner = _chain(writer, writer.draw(st.integers(1, 4)))
    person = next((col.name for col in inner.cols if col.person), None)
    if person is None or writer.chance(60):
        return inner.text
    names = [f"{alias}.{col.name}" for alias in "ab" for col in inner.cols if not col.person]
    listed = ", ".join([f"a.{person}", *names[:1], *names[-1:]])  # a CTE joined with itself
    return f"WITH w AS ({inner.text}) SELECT {listed} FROM w a JOIN w b ON a.{person} = b.{person}"


def _chain(writer: Writer, n_joins: int) -> Rel:
    """A SELECT of a private table joined with others, one after the other."""
    rels = [_called(WIDE[writer.one(_PEOPLE)], 0)]
    tail = f"FROM {rels[0].text}"
    for _ in range(n_joins):
        right = _called(WIDE[writer.one(_PUBLIC if writer.chance(75) else _PEOPLE)], len(rels))
        pairs = [
            f"{rel.alias}.{a.name} = {right.alias}.{b.name}"
            for rel in rels
            for a in rel.cols
            for b in right.cols
            if a.type == b.type and (not right.private or a.person * b.person)
        ]
        if pairs:
            side = writer.one(["JOIN", "JOIN", "LEFT JOIN"])
            tail += f" {side} {right.text} ON {writer.one(pairs)}"
            rels.append(right)
            tail += f" AND {writer.condition(rels)}" if writer.chance(30) else ""
    tail += f" WHERE {writer.condition(rels)}" if writer.chance(45) else ""
    if writer.chance(15):
        return writer.grouped(rels, tail)
    text, cols = writer.listed(rels)
    return Rel(f"SELECT {text} {tail}", "", tuple(cols))


def _called(rel: Rel, number: int) -> Rel:
    return replace(rel, text=f"{rel.text} AS q{number}", alias=f"q{number}")


@st.composite
def databases(draw: st.DrawFn) -> Data:
    """What is in the tables."""
    return {
        table: draw(st.lists(st.tuples(st.sampled_from(owners), st.integers(0, 300)), max_size=7))
        for table, owners in OWNERS.items()
    }
